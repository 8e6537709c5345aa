"""Self-audit: Tacit's mechanisms and fits checked by its own tools.

Three questions: do exact tables of small mechanisms keep their guarantee; can black-box audits refute any mechanism's
claim; does anything but noise move when code that uses all mechanisms, or fits a model, is replayed on neighbours.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any, Final

from tacit.audit.exact import exact
from tacit.audit.lower_bound import lower_bound
from tacit.audit.report import AuditCheck, Verdict, judged, judged_replays
from tacit.audit.search import Neighbours, replay_neighbours
from tacit.core.guarantees import ApproxDP, Guarantee
from tacit.core.numbers import exp_bounds
from tacit.mechanisms.counts import CountingQueries, Histogram
from tacit.mechanisms.exponential import Exponential
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.mean import Mean
from tacit.mechanisms.noisy_max import NoisyMax
from tacit.mechanisms.partition_selection import PartitionSelection
from tacit.mechanisms.permute_and_flip import PermuteAndFlip
from tacit.mechanisms.randomized_response import RandomizedResponse
from tacit.mechanisms.selection_scores import WeightedSelection
from tacit.mechanisms.sparse_vector import SparseVector
from tacit.mechanisms.top_k import TopK

#: Confidence of each black-box audit, so that all together raise a false alarm less than once in five hundred runs.
_CONFIDENCE: Final = 0.9999
_DELTA: Final = Fraction(1, 100)
_AGES: Final = [31, 45, 27, 62, 8, 33, 34, 61]
_DECADES: Final = range(11)


def standing_checks(samples: int = 4_000) -> list[AuditCheck]:
    """Return all checks of the self-audit; ``samples`` is the number of runs per neighbour of each black-box audit."""
    return [*_exact_checks(), *_black_box_checks(samples), *_replay_checks()]


# Exact tables


def _exact_checks() -> Iterator[AuditCheck]:
    for categories in (2, 5):
        response = RandomizedResponse(epsilon=1, categories=categories)
        table = {
            t: {o: response.truth if o == t else response.lie for o in range(categories)} for t in range(categories)
        }
        yield _table(f"randomized response of {categories} answers", table, response.guarantee)
    kinds: tuple[type[WeightedSelection], ...] = (Exponential, PermuteAndFlip)
    for kind in kinds:
        choice = kind(epsilon=1, sensitivity=1)
        scores = list(product(range(3), repeat=2))
        laws = {each: dict(enumerate(choice.probability_bounds(list(each)))) for each in scores}
        near = [(a, b) for a in scores for b in scores if a != b and max(map(_gap, a, b)) <= 1]
        yield _table(f"{kind.__name__} over two candidates", laws, choice.guarantee, near)
    for rule in ("truncated_geometric", "laplace", "gaussian"):
        keys = PartitionSelection(epsilon=1, delta=_DELTA, rule=rule)
        yield _table(f"selection of keys by {rule}", _kept_table(keys), keys.guarantee, [(n, n + 1) for n in range(12)])
    noise = Laplace(epsilon=1, l1_sensitivity=1)
    yield _table("Laplace noise, tails folded", _laplace_table(noise), noise.guarantee, [(0, 1), (1, 2)])


def _table(name: str, table: Any, claim: Guarantee, pairs: Iterable[tuple[Any, Any]] | None = None) -> AuditCheck:
    # Enclosed probabilities cannot decide a claim that holds with equality; a slightly larger one can be proven.
    hair = Fraction(1, 10**20)
    slack = ApproxDP(claim.to_approx(getattr(claim, "delta", 0)).epsilon + hair, getattr(claim, "delta", 0) + hair)
    return AuditCheck(name, "exact", lambda: judged(exact(table, pairs=pairs, claimed=slack)))


def _gap(a: int, b: int) -> int:
    return abs(a - b)


def _kept_table(keys: PartitionSelection) -> dict[int, dict[bool, tuple[Fraction, Fraction]]]:
    bounds = {units: keys.probability_bounds(units) for units in range(13)}
    return {units: {True: (low, high), False: (1 - high, 1 - low)} for units, (low, high) in bounds.items()}


def _laplace_table(noise: Laplace) -> dict[int, dict[int, tuple[Fraction, Fraction]]]:
    """Return the laws of counts 0, 1, 2 plus noise P(x) = (1-q)/(1+q)·q^|x|, with outputs clamped to [-4, 6]."""
    low, high = exp_bounds(-1 / noise.scale, 60)

    def law(count: int) -> dict[int, tuple[Fraction, Fraction]]:
        made = {
            x: (
                (1 - high) / (1 + high) * low ** abs(x - count),
                (1 - low) / (1 + low) * high ** abs(x - count),
            )
            for x in range(-3, 6)
        }
        for end, size in ((-4, count + 4), (6, 6 - count)):
            made[end] = low**size / (1 + high), high**size / (1 + low)
        return made

    return {count: law(count) for count in range(3)}


# Black-box lower bounds


def _black_box_checks(samples: int) -> Iterator[AuditCheck]:
    few = samples // 4
    yield _sampled(Laplace(epsilon=1, l1_sensitivity=1), 0, 1, samples)
    yield _sampled(Laplace(epsilon=1, l1_sensitivity=1), 0.0, 1.0, samples, "Laplace, floats")
    yield _sampled(Laplace(epsilon=1, l1_sensitivity=3), [0, 5, 3], [1, 4, 4], samples, "Laplace, many numbers")
    yield _sampled(Gaussian(epsilon=1, delta=_DELTA, l2_sensitivity=1), 0, 1, samples)
    yield _sampled(Gaussian(epsilon=1, delta=_DELTA, l2_sensitivity=1), 0.0, 1.0, samples, "Gaussian, floats")
    yield _sampled(RandomizedResponse(epsilon=1, categories=3), 0, 2, samples)
    yield _sampled(Exponential(epsilon=1, sensitivity=1), [0, 0], [1, -1], samples)
    yield _sampled(PermuteAndFlip(epsilon=1, sensitivity=1), [0, 0], [1, -1], samples)
    yield _sampled(NoisyMax(epsilon=1, sensitivity=1), [0, 0, 0], [1, -1, -1], samples)
    yield _sampled(NoisyMax(epsilon=1, sensitivity=1, gap=True), [0, 0], [1, -1], samples, "NoisyMax, with margin")
    yield _sampled(TopK(epsilon=1, k=2, sensitivity=1), [0, 0, 0], [1, -1, 1], few)
    yield _sampled(PartitionSelection(epsilon=1, delta=_DELTA), {"a": 9, "b": 1}, {"a": 9}, samples)
    yield _sampled(Histogram(epsilon=1, bins=["a", "b"]), ["a", "b"], ["a"], samples)
    yield _sampled(Mean(epsilon=1, bounds=(0, 100)), [3, 97], [3], samples)
    counting = CountingQueries(epsilon=1, k=2)
    tests = [lambda age: age > 10, lambda age: age > 50]
    yield _sampled(lambda ages: counting.release(ages, tests), [60], [], samples, "CountingQueries", counting.guarantee)

    def stream(values: list[int]) -> list[bool]:
        return SparseVector(epsilon=1, sensitivity=1, threshold=0).release(values)

    promise = SparseVector(epsilon=1, sensitivity=1, threshold=0).guarantee
    yield _sampled(stream, [0, 0, 1], [1, 1, 0], few, "SparseVector", promise)


def _sampled(
    mechanism: Any, first: Any, second: Any, samples: int, name: str = "", claim: Guarantee | None = None
) -> AuditCheck:
    guarantee = mechanism.guarantee if claim is None else claim
    delta = getattr(guarantee, "delta", 0)

    def run() -> Verdict:
        return judged(
            lower_bound(
                mechanism, first, second, delta=delta, claimed=guarantee, samples=samples, confidence=_CONFIDENCE
            )
        )

    return AuditCheck(name or type(mechanism).__name__, "lower_bound", run)


# Replays


def _replay_checks() -> Iterator[AuditCheck]:
    for name, function in (("numbers", _numbers), ("counts", _counts), ("choices", _choices), ("keys", _keys)):
        yield AuditCheck(f"code that releases {name}", "replay", partial(_replayed, function))


def _replayed(function: Callable[[Any], Any]) -> Verdict:
    return judged_replays(replay_neighbours(function, _AGES))


def _clamped(ages: list[int]) -> list[int]:
    return [min(max(age, 0), 100) for age in ages]


def _by_decade(ages: list[int]) -> list[int]:
    decades = [age // 10 for age in _clamped(ages)]
    return [decades.count(decade) for decade in _DECADES]


def _numbers(ages: list[int]) -> object:
    return (
        Laplace(epsilon=1, l1_sensitivity=100).release(sum(_clamped(ages))),
        Laplace(epsilon=1, l1_sensitivity=1).release(float(len(ages))),
        Gaussian.from_rho(rho=1, l2_sensitivity=100).release(sum(_clamped(ages))),
        Mean(epsilon=1, bounds=(0, 100)).release(ages).value,
    )


def _counts(ages: list[int]) -> object:
    tests = [lambda age: age > 10, lambda age: age > 50]
    return (
        Histogram(epsilon=1, bins=list(_DECADES)).release([age // 10 for age in _clamped(ages)]),
        CountingQueries(epsilon=1, k=2).release(ages, tests),
        Gaussian.from_rho(rho=1, l2_sensitivity=1, dimension=len(_DECADES)).release(_by_decade(ages)),
    )


def _choices(ages: list[int]) -> object:
    scores = _by_decade(ages)
    stream = SparseVector(epsilon=1, sensitivity=1, threshold=2, positives=3, epsilon_values="1/2")
    return (
        Exponential(epsilon=1, sensitivity=1).release(scores),
        PermuteAndFlip(epsilon=1, sensitivity=1).release(scores),
        NoisyMax(epsilon=1, sensitivity=1, gap=True).release(scores),
        TopK(epsilon=1, k=2, sensitivity=1).release(scores),
        [stream.ask_value(score) for score in scores[:3]],
    )


def _keys(ages: list[int]) -> object:
    counts = {decade: count for decade, count in enumerate(_by_decade(ages)) if count}
    kept = PartitionSelection(epsilon=1, delta="1e-6").release(counts)
    noise = Laplace(epsilon=1, l1_sensitivity=1)
    return {decade: noise.release(counts[decade]) for decade in sorted(kept)}


_FIT_ROWS: Final = [(((7 * i) % 11) / 5 - 1, ((3 * i) % 13) / 6 - 1, i % 2) for i in range(30)]
#: Rows that may break parsing, types or a solver: two features and a label or target.
_STRANGE: Final[tuple[tuple[Any, Any, Any], ...]] = (
    (0.5, 0.5, "unknown"),
    (0.5, 0.5, None),
    (0.5, 0.5, float("nan")),
    (0.5, 0.5, 1 + 2j),
    ("text", 0.5, 1),
    (None, [1.0], 0),
    (float("inf"), 1e308, 1),
    (10**400, 5e-324, 0),
)
_COMMON: Final[dict[str, Any]] = {"epsilon": 2, "delta": "1e-3", "bounds": (-1, 1)}


def fit_checks() -> Iterator[AuditCheck]:
    """Generate one check per estimator and method: a replay on many neighbours; none without scikit-learn."""
    if importlib.util.find_spec("sklearn") is None:
        return
    for name, make in audited_estimators().items():
        yield AuditCheck(f"fit: {name}", "replay", partial(_replayed_fit, make))


def audited_estimators() -> dict[str, Callable[[], Any]]:
    """Return every estimator of :mod:`tacit.learn`, in small, by name; linear ones with each of their methods."""
    from tacit import learn

    classes, number = _COMMON | {"classes": [0, 1]}, _COMMON | {"target_bounds": (0, 1)}
    return {
        "logistic regression by gradients": lambda: learn.LogisticRegression(**classes, steps=3),
        "a support vector classifier by its minimiser": lambda: learn.LinearSVC(**classes, method="output"),
        "logistic regression by a tilted objective": lambda: learn.LogisticRegression(**classes, method="objective"),
        "naive Bayes": lambda: learn.GaussianNB(**classes),
        "least squares": lambda: learn.LinearRegression(**number, steps=3),
        "ridge regression": lambda: learn.Ridge(**number),
        "Poisson regression": lambda: learn.PoissonRegressor(**number, steps=3),
        "an additive model of classes": lambda: learn.AdditiveClassifier(**classes | {"epsilon": 3}, rounds=3),
        "an additive model of a number": lambda: learn.AdditiveRegressor(**number, rounds=3),
        "boosted trees for classes": lambda: learn.BoostedTreesClassifier(**classes | {"epsilon": 3}, trees=3),
        "boosted trees for a number": lambda: learn.BoostedTreesRegressor(**number, trees=3),
        "a scaler": lambda: learn.StandardScaler(**_COMMON),
        "a scaler of bounds alone": lambda: learn.MinMaxScaler(bounds=(-1, 1)),
        "a search among models": lambda: learn.PrivateSearch(
            candidates=[learn.GaussianNB(**classes | {"epsilon": each}) for each in (1, 2)], epsilon=1
        ),
        "principal components": lambda: learn.PCA(**_COMMON),
        "clusters": lambda: learn.KMeans(**_COMMON, n_clusters=2, steps=3),
    }


def _replayed_fit(make: Callable[[], Any]) -> Verdict:
    pairs = [Neighbours("without a row", _FIT_ROWS, _FIT_ROWS[1:])]
    pairs += [Neighbours(f"with the row {row!r} at the end", _FIT_ROWS, [*_FIT_ROWS, row]) for row in _STRANGE]
    pairs += [Neighbours(f"with the row {row!r} at the start", _FIT_ROWS, [row, *_FIT_ROWS]) for row in _STRANGE]
    if "candidates" in make().get_params(deep=False):
        # Each row tosses a coin, and coins agree between tables of equal length: a row without a class adds nothing.
        nothing = (0.0, 0.0, "no class")
        strange = [*_STRANGE, (0.5, 0.5, 1)]
        pairs = [Neighbours(f"with the row {row!r}", [*_FIT_ROWS, nothing], [*_FIT_ROWS, row]) for row in strange]
    return judged_replays(replay_neighbours(partial(_fitted, make), _FIT_ROWS, neighbours=pairs))


def _fitted(make: Callable[[], Any], rows: Sequence[tuple[Any, Any, Any]]) -> list[tuple[str, str]]:
    """Return all visible attributes of a fitted model as text: numbers to the last digit, and types."""
    model = make().fit([list(row[:2]) for row in rows], [row[2] for row in rows])
    shown = sorted(name for name in vars(model) if name.endswith("_") and not name.startswith("_"))
    values = [(name, getattr(model, name)) for name in shown]
    return [
        (name, f"{getattr(value, 'dtype', '')} {getattr(value, 'tolist', lambda v=value: v)()!r}")
        for name, value in values
    ]
