"""Record and replay: does anything but a mechanism's own input depend on one unit's data?

A run is *recorded* on a database: every mechanism that noise goes through, what it was given and what it gave. It is
then *replayed* on a neighbouring database with the outputs frozen: each mechanism gives what it gave the first time.
Whatever else an analyst can see is a function of those outputs and of public things, so it must come out the same, and
each mechanism's input may have moved by no more than the sensitivity it declares. Both are checked exactly, on one
pair of runs; nothing is sampled. (The method is that of dp-recorder: Cebere, Erb, Desfontaines, Bellet and
Fitzsimons, *Privacy in Theory, Bugs in Practice*, 2026.)

There is one place to take hold: :func:`tacit.query.release.draw`, where exact integers go in and noisy ones come out.

A selection of private keys is frozen to an outcome that both databases can have: groups of at least two units are
kept. One unit more or less leaves them there; if it does not, that is a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

from tacit.core.relations import ADD_REMOVE
from tacit.core.sensitivity import Sensitivity
from tacit.query import release as noising
from tacit.query.aggregates.ranks import RankChoice
from tacit.query.planning.releases import KeySelection, Release
from tacit.query.release import KeyTuple

__all__ = ["Call", "Finding", "Report", "declared", "record", "replay"]

Result = TypeVar("Result")
Step = Release | KeySelection | RankChoice
#: A group of so many units exists in every neighbouring database as well.
_KEPT_FROM = 2


@dataclass(frozen=True)
class Call:
    """One run of a mechanism.

    Args:
        step: which mechanism, with its declared sensitivity.
        keys: of the groups, one per row.
        raw: what it was given.
        output: what it gave.
    """

    step: Step
    keys: tuple[KeyTuple, ...]
    raw: NDArray[Any]
    output: NDArray[Any]


@dataclass(frozen=True)
class Finding:
    """Something that one unit changed and must not have changed, in words."""

    what: str


@dataclass(frozen=True)
class Report:
    """Findings of a replay.

    Args:
        findings: what differs and must not; empty when all is well.
        moved: whether any mechanism's input moved at all.
    """

    findings: tuple[Finding, ...]
    moved: bool


class _DivergedError(Exception):
    """The replay cannot go on: the code took another way."""


def record(run: Callable[[], Result]) -> tuple[Result, tuple[Call, ...]]:
    """Run, and remember what every mechanism was given and gave."""
    tape: list[Call] = []
    draw = noising.draw

    def recorded(step: Step, keys: Sequence[KeyTuple], raw: NDArray[Any]) -> NDArray[Any]:
        output = raw >= _KEPT_FROM if isinstance(step, KeySelection) else draw(step, keys, raw)
        tape.append(Call(step, tuple(keys), raw.copy(), output.copy()))
        return output

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noising, "draw", recorded)
        return run(), tuple(tape)


def replay(tape: Sequence[Call], run: Callable[[], Result], see: Callable[[Result], object], seen: object) -> Report:
    """Run again on a neighbour, with every output frozen, and say what differs.

    Args:
        tape: the recorded run.
        run: the same query to the neighbouring database.
        see: all that an analyst can see of a result.
        seen: that of the recorded run.
    """
    findings: list[Finding] = []
    left, moves = list(tape), [False]

    def frozen(step: Step, keys: Sequence[KeyTuple], raw: NDArray[Any]) -> NDArray[Any]:
        if not left:
            raise _DivergedError("a mechanism runs that did not run before")
        call = left.pop(0)
        if call.step != step:
            raise _DivergedError(f"another mechanism runs than before: {_name(step)} instead of {_name(call.step)}")
        gaps = _gaps(call, tuple(keys), raw)
        moves.append(gaps is None or any(gaps))
        findings.extend(Finding(f"{_name(step)}: {problem}") for problem in _problems(step, gaps))
        if not isinstance(step, KeySelection):
            return call.output
        kept = {key for key, keep in zip(call.keys, call.output, strict=True) if keep}
        if not kept <= set(keys):
            findings.append(Finding("a group of several units is gone"))
        return np.array([key in kept for key in keys], dtype=np.bool_)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noising, "draw", frozen)
        try:
            result = run()
        except Exception as problem:  # whatever it is, the recorded run did not end so
            ended = Finding(f"another end: {type(problem).__name__}: {problem}")
            return Report((*findings, ended), any(moves))
    if left:
        findings.append(Finding(f"{len(left)} mechanisms do not run that ran before"))
    if see(result) != seen:
        findings.append(Finding("something visible is different"))
    return Report(tuple(findings), any(moves))


def _name(step: Step) -> str:
    if isinstance(step, RankChoice):
        return step.name
    return "selection of keys" if isinstance(step, KeySelection) else step.block.name


def _gaps(call: Call, keys: tuple[KeyTuple, ...], raw: NDArray[Any]) -> list[int] | None:
    """Distances by which the integers of an input moved; groups that one of the databases lacks count as zeros.

    None where inputs cannot be compared: released groups, shapes and types of integers must not depend on data.
    """
    if isinstance(call.step, RankChoice):
        listed = [
            {(key, int(place)): int(count) for key, counted in zip(own, rows, strict=True) for place, count in counted}
            for own, rows in ((call.keys, call.raw), (keys, raw))
        ]
        if call.keys != keys:
            return None
        return [abs(listed[0].get(place, 0) - listed[1].get(place, 0)) for place in listed[0].keys() | listed[1].keys()]
    same_groups = isinstance(call.step, KeySelection) or (call.keys == keys and call.raw.shape == raw.shape)
    if not same_groups or call.raw.dtype != raw.dtype:
        return None
    before, after = _rows(call.keys, call.raw), _rows(keys, raw)
    zeros = [0] * next((len(row) for row in (*before.values(), *after.values())), 1)
    return [
        abs(x - y)
        for key in before.keys() | after.keys()
        for x, y in zip(before.get(key, zeros), after.get(key, zeros), strict=True)
    ]


def _problems(step: Step, gaps: list[int] | None) -> list[str]:
    if gaps is None:
        return ["other groups, another shape, or another type of integers"]
    bound = declared(step)
    found = {
        "l1": (sum(gaps), bound.l1),
        "l2 squared": (sum(gap * gap for gap in gaps), bound.l2_squared),
        "l∞": (max(gaps, default=0), bound.linf),
    }
    return [f"moved by {moved} in {norm}, declared {most}" for norm, (moved, most) in found.items() if moved > most]


def _rows(keys: tuple[KeyTuple, ...], raw: NDArray[Any]) -> dict[KeyTuple, list[int]]:
    return {key: [int(value) for value in np.ravel(row)] for key, row in zip(keys, raw, strict=True)}


def declared(step: Step) -> Sensitivity:
    """The sensitivity that a mechanism was calibrated for."""
    if isinstance(step, RankChoice):
        most = Fraction(step.rows * (1 if step.relation is ADD_REMOVE else 2))
        return Sensitivity(step.groups * most, step.groups * most**2, most, step.relation)
    if not isinstance(step, KeySelection):
        return step.block.sensitivity
    touched = Fraction(step.groups * (1 if step.relation is ADD_REMOVE else 2))
    return Sensitivity(touched, touched, Fraction(1), step.relation)
