"""Learning with a guarantee: scikit-learn estimators whose fit is differentially private.

Entered only when used (``from tacit.learn import LogisticRegression``); needs the extra ``learn``.

``reading``                             from whatever a table is given as to floats, value by value
``rows``, ``losses``                    from tables of floats to integers whose influence is bounded exactly
``features``, ``labels``                what is paid for to look at the data at all
``spending``, ``noising``               the noise of a whole fit from (ε, δ), and the one door it enters by
``gradient``, ``output``, ``objective`` three places to put the noise; ``minimise`` certifies minimisers
``training``, ``linear``                from a table to weights
``moments``                             sums and second moments
``logistic``, ``svm``, ``regression``, ``pca``, ``kmeans``, ``naive_bayes``, ``scaling``   the estimators
``sample_size``, ``theorem``            how many rows a model needs, as measured and by the theorem
"""

from tacit.learn.kmeans import KMeans
from tacit.learn.logistic import LogisticRegression
from tacit.learn.naive_bayes import GaussianNB
from tacit.learn.pca import PCA
from tacit.learn.regression import LinearRegression, Ridge
from tacit.learn.sample_size import expected_excess, rows_needed
from tacit.learn.scaling import MinMaxScaler, StandardScaler
from tacit.learn.svm import LinearSVC
from tacit.learn.theorem import plan_learning, rows_by_theorem

__all__ = [
    "PCA",
    "GaussianNB",
    "KMeans",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "MinMaxScaler",
    "Ridge",
    "StandardScaler",
    "expected_excess",
    "plan_learning",
    "rows_by_theorem",
    "rows_needed",
]
