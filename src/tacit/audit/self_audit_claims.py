"""Self-audit of claims around a release: order, ties, certificates, the price of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, Final

from tacit.accounting.compose import METHODS, compose
from tacit.audit.lower_bound import lower_bound
from tacit.audit.museum.exhibit import Verdict, judged
from tacit.core.divergences import approx_max_divergence
from tacit.core.errors import AccountingError
from tacit.core.events import RandomizedResponseEvent
from tacit.core.guarantees import ApproxDP, PureDP
from tacit.mechanisms.exponential import Exponential
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.noisy_max import NoisyMax
from tacit.mechanisms.partition_selection import PartitionSelection
from tacit.mechanisms.top_k import TopK

__all__ = ["claim_checks"]

#: Name, tool, and what runs it.
Entry = tuple[str, str, Callable[[], Verdict]]

_DELTA: Final = Fraction(1, 100)


def claim_checks(samples: int, confidence: float) -> Iterator[Entry]:
    """All claims; those that sample run ``samples`` times on each of two inputs that must look alike."""
    orders = {"a": 99, "b": 99}, {"b": 99, "a": 99}
    forms = {1: 99, "b": 99}, {"b": 99, True: 99}
    ties = {"a": 0, "b": 0}, {"b": 0, "a": 0}
    # Both inputs say the same, so that next to no loss is allowed between them.
    yield (
        "keys in the order of a mapping",
        "lower_bound",
        _alike(PartitionSelection(epsilon=1, delta=_DELTA), *orders, samples, confidence),
    )
    yield (
        "keys in the form first seen",
        "lower_bound",
        _alike(PartitionSelection(epsilon=1, delta=_DELTA), *forms, samples, confidence),
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
