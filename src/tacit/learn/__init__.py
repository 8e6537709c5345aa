"""Learning with a guarantee: scikit-learn estimators whose fit is differentially private.

Entered only when used (``from tacit.learn import LogisticRegression``); needs the extra ``learn``.

Modules:
* :mod:`.additive` — Additive models under differential privacy: one shape per feature, learned on exact histograms
* :mod:`.binned` — Binned features: what additive models and boosted trees share, from bins of values to scores of
  classes
* :mod:`.boosting` — Gradient-boosted trees under differential privacy: exact sums of residuals in the leaves of trees
  drawn by chance
* :mod:`.budget_allocation` — Allocation of (ε, δ) among the releases of a fit, before any data is seen
* :mod:`.categories` — Declared categories: columns of text or codes, as one-hot columns or as numbers of a public
  list
* :mod:`.confidence` — Confidence of a classifier: one factor of all scores, from noisy slopes of the loss along it
* :mod:`.estimator` — Base class of private estimators
* :mod:`.feature_map` — Feature maps: public maps from values to integer rows, and the paid survey of where the rows
  lie
* :mod:`.forest_plan` — Plans of boosted fits, noisy numbers of rows per bin, and draws of questions by chance from them
* :mod:`.gradient` — Gradient perturbation: noisy gradient descent in which every number that depends on data is an
  integer
* :mod:`.integer_rows` — Integer rows of exactly bounded norm from tables of floats
* :mod:`.kmeans` — Private k-means: Lloyd's algorithm with noisy sums
* :mod:`.labels` — Class labels: declared, or selected privately at a price
* :mod:`.leaf_sums` — Exact sums of what rows add to the leaves of a tree
* :mod:`.linear` — Linear models trained by noisy gradients, by their noisy minimiser, or by the minimiser of a
  noisy objective
* :mod:`.logistic` — Logistic regression under differential privacy
* :mod:`.losses` — The derivatives of losses, as integers: what one row adds to a gradient, decided by that row and
  public weights
* :mod:`.model_format` — Models as text: parameters and everything learned, in JSON, exact to the last bit; read back
  without running code
* :mod:`.moments` — Sums of squares with noise: what least squares and principal components need of a table, in one
  release
* :mod:`.naive_bayes` — Gaussian naive Bayes under differential privacy
* :mod:`.objective_perturbation` — Objective perturbation for one output: the minimiser of a loss with a random
  linear term
* :mod:`.output_perturbation` — Output perturbation: the minimiser itself, rounded to a grid, with noise for how far
  one row can move it
* :mod:`.partial_sums` — Sums that grow call by call, and the account of all calls: ``partial_fit`` of models that need
  sums alone
* :mod:`.pca` — Principal components under differential privacy
* :mod:`.poisson` — Poisson regression: a linear logarithm of the mean of counts
* :mod:`.progress` — A progress bar for long fits: only on a terminal, only when it takes a while, and only about
  public numbers
* :mod:`.regression` — Least squares under differential privacy
* :mod:`.release` — Release of an integer vector with exact noise; the only exit of values computed
  from rows
* :mod:`.sample_size` — Sample size of private models: theorem's shape with measured constants
* :mod:`.sample_size_theorem` — Sample-size theorem of private gradient descent, beside the measured planner
* :mod:`.scaling` — Scalers: from declared bounds for nothing, or from noisy means and variances at a price
* :mod:`.search` — Private choice among models: every candidate is charged, and so is the choice; or as many runs as
  chance allows
* :mod:`.shape_strategy` — Strategy of an additive fit: which sums over bins are released, and how shapes are read from
  them
* :mod:`.sklearn_compat` — Imports from scikit-learn, with a clear message where it is missing
* :mod:`.smooth_losses` — Smooth convex losses for methods that need a minimiser
* :mod:`.solver` — Certified minimiser of a regularised loss
* :mod:`.svm` — A linear support vector classifier under differential privacy
* :mod:`.torch` — Networks with a guarantee: one object that samples, clips, adds noise, accounts and stops, so that
  all five agree
* :mod:`.training` — The three ways to train a linear model, each from (ε, δ) to weights: releases, noise, account
* :mod:`.trees` — Trees of questions about bins, and the leaf of a row: by integers
* :mod:`.unpaid_steps` — Warnings about scikit-learn around a private estimator: searches and steps that read rows
  without a price
* :mod:`.value_reading` — Reading of tables to floats, value by value, without errors that depend on a value
* :mod:`.weights` — Weights of rows: declared bounds make them shares of a whole row, so that no row adds more than it
  would alone
* :mod:`.whitening` — Whitening: centre and covariance of the rows, paid for, and the public map that rids rows of them
"""

from tacit.learn.additive import AdditiveClassifier, AdditiveRegressor
from tacit.learn.boosting import BoostedTreesClassifier, BoostedTreesRegressor
from tacit.learn.kmeans import KMeans
from tacit.learn.logistic import LogisticRegression
from tacit.learn.model_format import load_model
from tacit.learn.naive_bayes import GaussianNB
from tacit.learn.pca import PCA
from tacit.learn.poisson import PoissonRegressor
from tacit.learn.regression import LinearRegression, Ridge
from tacit.learn.sample_size import expected_excess, rows_needed
from tacit.learn.sample_size_theorem import plan_learning, rows_by_theorem
from tacit.learn.scaling import MinMaxScaler, StandardScaler
from tacit.learn.search import PrivateSearch
from tacit.learn.svm import LinearSVC

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
