"""Learning with a guarantee: scikit-learn estimators whose fit is differentially private.

Entered only when used (``from tacit.learn import LogisticRegression``); needs the extra ``learn``.

Modules:
* :mod:`.additive` — Additive models under differential privacy: one shape per feature, learned on exact histograms
* :mod:`.binned` — Binned features: what additive models and boosted trees share, from bins of values to scores of
  classes
* :mod:`.boosting` — Gradient-boosted trees under differential privacy: exact sums of residuals in the leaves of
  shallow trees
* :mod:`.estimator` — Base classes of private estimators: reports, bounds, targets and weights
* :mod:`.gradient` — Gradient perturbation: noisy gradient descent in which every number that depends on data is an
  integer
* :mod:`.integer_rows` — Integer rows of exactly bounded norm from tables of floats, and their shares by weight
* :mod:`.kmeans` — Private k-means: Lloyd's algorithm with noisy sums
* :mod:`.linear` — Linear classifiers: logistic regression and support vectors, by noisy gradients, output or
  objective perturbation
* :mod:`.losses` — Losses of linear models: their derivatives as integers for gradients, and as floats for a certified
  minimiser
* :mod:`.minimiser` — Certified minimiser of a regularised loss, released with noise: output and objective
  perturbation
* :mod:`.model_format` — Models as text: parameters and everything learned, in JSON, exact to the last bit; read back
  without running code
* :mod:`.moments` — Noisy first and second moments of a table, and sums that grow call by call
* :mod:`.naive_bayes` — Gaussian naive Bayes under differential privacy
* :mod:`.reading` — Reading of tables: values to floats, labels to classes, declared categories to columns, one value
  at a time
* :mod:`.regression` — Linear regressions under differential privacy: least squares, ridge and Poisson
* :mod:`.release` — Releases of a fit: (ε, δ) allocated among them before data is seen, and the one exit of values
  computed from rows
* :mod:`.sample_size` — Sample size of private models: theorem's shape with measured constants
* :mod:`.search` — Private choice among models: every candidate is charged, and so is the choice; or as many runs as
  chance allows
* :mod:`.torch` — Networks with a guarantee: one object that samples, clips, adds noise, accounts and stops, so that
  all five agree
* :mod:`.training` — The three ways to train a linear model, each from (ε, δ) to weights: releases, noise, account
* :mod:`.transformers` — Transformers under differential privacy: principal components and scalers
* :mod:`.whitening` — Maps from values to integer rows: a paid survey, whitening by noisy moments, and affine maps of
  integers
"""

from tacit.core.extras import install_command

try:
    from tacit.learn.additive import AdditiveClassifier, AdditiveRegressor
    from tacit.learn.boosting import BoostedTreesClassifier, BoostedTreesRegressor
    from tacit.learn.kmeans import KMeans
    from tacit.learn.linear import LinearSVC, LogisticRegression
    from tacit.learn.model_format import load_model
    from tacit.learn.naive_bayes import GaussianNB
    from tacit.learn.regression import LinearRegression, PoissonRegressor, Ridge
    from tacit.learn.sample_size import expected_excess, plan_learning, rows_by_theorem, rows_needed
    from tacit.learn.search import PrivateSearch
    from tacit.learn.transformers import PCA, MinMaxScaler, StandardScaler
except ModuleNotFoundError as missing:  # pragma: no cover - the extra is installed wherever the tests run
    if missing.name not in ("scipy", "sklearn"):
        raise
    raise ModuleNotFoundError(
        f"tacit.learn needs scikit-learn: {install_command('learn')}; for networks {install_command('torch')}",
        name=missing.name,
    ) from None

__all__ = [
    "PCA",
    "AdditiveClassifier",
    "AdditiveRegressor",
    "BoostedTreesClassifier",
    "BoostedTreesRegressor",
    "GaussianNB",
    "KMeans",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "MinMaxScaler",
    "PoissonRegressor",
    "PrivateSearch",
    "Ridge",
    "StandardScaler",
    "expected_excess",
    "load_model",
    "plan_learning",
    "rows_by_theorem",
    "rows_needed",
]
