"""Self-audit: Tacit's claims checked by its own tools.

Four questions: do exact tables of small mechanisms keep their guarantee; can black-box audits refute any mechanism's
claim; does anything but noise move when code that uses all mechanisms is replayed on neighbours; is what is said around
releases (order, lower ends, the price of one) true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any, Final

from tacit.accounting.compose import METHODS, compose
from tacit.audit.checks import AuditCheck, Verdict, judged, judged_replays
from tacit.audit.exact import exact
from tacit.audit.lower_bound import lower_bound
from tacit.audit.search import replay_neighbours
from tacit.core.divergences import approx_max_divergence
from tacit.core.errors import AccountingError
from tacit.core.events import RandomizedResponseEvent
from tacit.core.guarantees import ApproxDP, Guarantee, PureDP
from tacit.core.numbers import exp_bounds
from tacit.mechanisms.counting_queries import CountingQueries
from tacit.mechanisms.exponential import Exponential
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.histogram import Histogram
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.mean import Mean
from tacit.mechanisms.noisy_max import NoisyMax
from tacit.mechanisms.partition_selection import PartitionSelection
from tacit.mechanisms.permute_and_flip import PermuteAndFlip
from tacit.mechanisms.randomized_response import RandomizedResponse
from tacit.mechanisms.selection_scores import WeightedSelection
from tacit.mechanisms.sparse_vector import SparseVector
from tacit.mechanisms.top_k import TopK

#: Name, tool, and what runs it.
Entry = tuple[str, str, Callable[[], Verdict]]

_CLAIMED_DELTA: Final = Fraction(1, 100)


def claim_checks(samples: int, confidence: float) -> Iterator[Entry]:
    """All claims; those that sample run ``samples`` times on each of two inputs that must look alike."""
    orders = {"a": 99, "b": 99}, {"b": 99, "a": 99}
    forms = {1: 99, "b": 99}, {"b": 99, True: 99}
    ties = {"a": 0, "b": 0}, {"b": 0, "a": 0}
    # Both inputs say the same, so that next to no loss is allowed between them.
    yield (
        "keys in the order of a mapping",
        "lower_bound",
        _alike(PartitionSelection(epsilon=1, delta=_CLAIMED_DELTA), *orders, samples, confidence),
    )
    yield (
        "keys in the form first seen",
        "lower_bound",
        _alike(PartitionSelection(epsilon=1, delta=_CLAIMED_DELTA), *forms, samples, confidence),
    )
    yield (
        "ties in the order of a mapping",
        "lower_bound",
        _alike(NoisyMax(epsilon=6, sensitivity=1), *ties, samples, confidence),
    )
    yield "one release in a list of one", "exact", _one_release
    yield "lower ends of compositions", "exact", _lower_ends


def _alike(mechanism: Any, first: Any, second: Any, samples: int, confidence: float) -> Callable[[], Verdict]:
    def run() -> Verdict:
        claim = ApproxDP("0.1", "0.01")
        return judged(
            lower_bound(
                lambda given: repr(mechanism.release(given)),
                first,
                second,
                claimed=claim,
                delta=claim.delta,
                samples=samples,
                confidence=confidence,
            )
        )

    return run


def _one_release() -> Verdict:
    listed: list[Any] = [
        Gaussian(epsilon=1, delta="1e-6", l2_sensitivity=1),
        Gaussian(epsilon=1, delta="1e-6", l2_sensitivity=1, dimension=9),
        Laplace(epsilon=1, l1_sensitivity=2),
        Exponential(epsilon=1, sensitivity=1),
        TopK(epsilon=1, k=4, sensitivity=1),
        PartitionSelection(epsilon=1, delta="1e-6"),
    ]
    dearer = []
    for mechanism in listed:
        promise = mechanism.guarantee
        if not isinstance(promise, PureDP | ApproxDP):
            continue
        for method in METHODS:
            try:
                cost = compose([mechanism], delta=promise.delta or Fraction(1, 10**6), method=method).epsilon
            except AccountingError:
                continue
            if cost > promise.epsilon:
                dearer.append(f"{mechanism!r} by {method}")
    return Verdict(bool(dearer), f"dearer in a list than by itself: {', '.join(dearer) or 'nothing'}", dearer)


def _lower_ends() -> Verdict:
    """Randomized response of three answers, composed by enumeration; an unknown release of its ε would cost more."""
    event = RandomizedResponseEvent(Fraction(1, 2), 3)
    first = {0: Fraction(1, 2), 1: Fraction(1, 4), 2: Fraction(1, 4)}
    second = {0: Fraction(1, 4), 1: Fraction(1, 2), 2: Fraction(1, 4)}
    p: dict[tuple[int, ...], Fraction] = {(): Fraction(1)}
    q = p
    wrong = []
    for times in range(1, 5):
        p, q = (
            {(*o, x): a * b for o, a in law.items() for x, b in one.items()} for law, one in ((p, first), (q, second))
        )
        truth = approx_max_divergence(p, q, delta=Fraction(1, 20)).high
        for method in METHODS:
            try:
                found = compose([(event, times)], delta=Fraction(1, 20), method=method)
            except AccountingError:
                continue
            slack = Fraction(1, 10**9)
            if found.epsilon < truth - slack or (found.lower is not None and found.lower > max(truth, 0) + slack):
                wrong.append(f"{times} by {method}")
    return Verdict(bool(wrong), f"ends that do not enclose the enumerated epsilon: {', '.join(wrong) or 'none'}", wrong)


#: Of each black-box audit, so that all of them together raise a false alarm less than once in five hundred runs.
_CONFIDENCE: Final = 0.9999
_DELTA: Final = Fraction(1, 100)
_AGES: Final = [31, 45, 27, 62, 8, 33, 34, 61]
_DECADES: Final = range(11)


def standing_checks(samples: int = 4_000) -> list[AuditCheck]:
    """All checks of the self-audit; ``samples`` are the runs on each neighbour of every black-box audit."""
    claims = (AuditCheck(*entry) for entry in claim_checks(samples, _CONFIDENCE))
    return [*_exact_checks(), *_black_box_checks(samples), *_replay_checks(), *claims]


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
    # Enclosed probabilities cannot decide a claim that holds with equality; a hair more can be proven.
    hair = Fraction(1, 10**20)
    slack = ApproxDP(claim.to_approx(getattr(claim, "delta", 0)).epsilon + hair, getattr(claim, "delta", 0) + hair)
    return AuditCheck(name, "exact", lambda: judged(exact(table, pairs=pairs, claimed=slack)))


def _gap(a: int, b: int) -> int:
    return abs(a - b)


def _kept_table(keys: PartitionSelection) -> dict[int, dict[bool, tuple[Fraction, Fraction]]]:
    bounds = {units: keys.probability_bounds(units) for units in range(13)}
    return {units: {True: (low, high), False: (1 - high, 1 - low)} for units, (low, high) in bounds.items()}


def _laplace_table(noise: Laplace) -> dict[int, dict[int, tuple[Fraction, Fraction]]]:
    """Counts 0, 1, 2 with noise, all outputs beyond -4 and 6 put on the ends: P(x) = (1-q)/(1+q)·q^|x|."""
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
