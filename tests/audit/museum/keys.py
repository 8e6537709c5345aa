"""Exhibits: group keys released without private selection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

from audit.museum.exhibit import Piece
from tacit.audit.lower_bound import LowerBound, lower_bound
from tacit.core.guarantees import ApproxDP
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.partition_selection import PartitionSelection

_CLAIM = ApproxDP(1, "0.001")
_DIAGNOSES = ["flu"] * 60 + ["measles"] * 40
_RARE = "something only one person has"
_NOISE = Laplace(epsilon=1, l1_sensitivity=1)


def threshold_by_eye(records: Sequence[str]) -> dict[str, int]:
    """Noisy counts of the keys in the data for ε = 1; those below 1 are left out, because 1 looked safe."""
    noisy = {key: _NOISE.release(count) for key, count in sorted(Counter(records).items())}
    return {key: count for key, count in noisy.items() if count >= 1}


def keys_chosen_privately(records: Sequence[str]) -> dict[str, int]:
    """Corrected: keys are paid for, half of ε for them, half for the counts."""
    counts = Counter(records)
    keys, noise = _mended()
    return {str(key): noise.release(counts[key]) for key in sorted(keys.release(counts), key=str)}


@cache
def _mended() -> tuple[PartitionSelection, Laplace]:
    return PartitionSelection(epsilon="1/2", delta=_CLAIM.delta), Laplace(epsilon="1/2", l1_sensitivity=1)


def _audit(function: Callable[[Sequence[str]], dict[str, int]]) -> LowerBound:
    return lower_bound(
        function,
        [*_DIAGNOSES, _RARE],
        _DIAGNOSES,
        claimed=_CLAIM,
        delta=_CLAIM.delta,
        samples=3_000,
        confidence=0.999,
    )


PIECES = (
    Piece(
        name="keys-from-data",
        title="a threshold by eye on keys that the data chose",
        story="Counts had noise, and small ones were dropped. But a group of one person still passes often, and "
        "when the person is not there it never does: the name of the group alone tells.",
        seen_in="qsv#2228, opendp PR#2345; found again and again in query systems",
        tool="lower_bound",
        flawed=lambda: _audit(threshold_by_eye),
        mended=lambda: _audit(keys_chosen_privately),
    ),
)
