"""What is said around releases is true: order, ties, lower ends, the price of one; each check fails on its bug."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, Final

import pytest

from tacit.accounting import pairwise
from tacit.accounting.compose import METHODS, compose
from tacit.accounting.composition_plan import Composed
from tacit.audit.lower_bound import lower_bound
from tacit.audit.report import Verdict, judged
from tacit.core.divergences import approx_max_divergence
from tacit.core.errors import AccountingError
from tacit.core.events import RandomizedResponseEvent
from tacit.core.guarantees import ApproxDP, PureDP
from tacit.mechanisms import partition_selection
from tacit.mechanisms import selection_scores as scores
from tacit.mechanisms.exponential import Exponential
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.noisy_max import NoisyMax
from tacit.mechanisms.partition_selection import PartitionSelection
from tacit.mechanisms.top_k import TopK

pytestmark = pytest.mark.usefixtures("seeded")
_CLAIMED_DELTA: Final = Fraction(1, 100)


def _alike(mechanism: Any, first: Any, second: Any) -> Callable[[], Verdict]:
    """Two inputs that say the same, so that next to no loss is allowed between their outputs."""

    def run() -> Verdict:
        claim = ApproxDP("0.1", "0.01")
        return judged(
            lower_bound(
                lambda given: repr(mechanism.release(given)),
                first,
                second,
                claimed=claim,
                delta=claim.delta,
                samples=1_000,
                confidence=0.9999,
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


_KEYS: Final = PartitionSelection(epsilon=1, delta=_CLAIMED_DELTA)
CHECKS: dict[str, Callable[[], Verdict]] = {
    "keys in the order of a mapping": _alike(_KEYS, {"a": 99, "b": 99}, {"b": 99, "a": 99}),
    "keys in the form first seen": _alike(_KEYS, {1: 99, "b": 99}, {"b": 99, True: 99}),
    "ties in the order of a mapping": _alike(NoisyMax(epsilon=6, sensitivity=1), {"a": 0, "b": 0}, {"b": 0, "a": 0}),
    "one release in a list of one": _one_release,
    "lower ends of compositions": _lower_ends,
}


@pytest.mark.parametrize("name", CHECKS)
def test_it_passes(name: str) -> None:
    verdict = CHECKS[name]()
    assert not verdict.caught, verdict.words


def as_given(keys: Iterable[Any]) -> dict[int, Any]:
    return dict(enumerate(keys))


@pytest.mark.parametrize("name", [name for name in CHECKS if "mapping" in name or "form" in name])
def test_it_catches_the_order_of_a_mapping(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (partition_selection, scores):
        monkeypatch.setattr(module, "plain_order", as_given)
    assert CHECKS[name]().caught


def test_it_catches_a_release_dearer_than_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.accounting.compose.stated_sum", lambda _: None)
    assert CHECKS["one release in a list of one"]().caught


def test_it_catches_a_lower_end_of_another_release(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_lower(*args: Any, **given: Any) -> Composed:
        answer = Composed(*args, **given)
        return Composed(answer.epsilon, answer.delta, relation=answer.relation, method="optimal", lower=answer.epsilon)

    monkeypatch.setattr(pairwise, "Composed", with_lower)
    assert CHECKS["lower ends of compositions"]().caught
