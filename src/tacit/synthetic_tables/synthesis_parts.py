"""Texts of what was released about synthetic tables, and the parts of a run that the ledger keeps while it goes on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

import numpy as np

from tacit.charges.payment import CuratorContext
from tacit.core.errors import InternalError
from tacit.core.events import NoEvent
from tacit.ledger import Order, Outcome, Reservation
from tacit.receipts.release_format import canonical, digest_of
from tacit.synth.table_synthesis import ChosenMarginal, MeasuredMarginal, SynthesisPlan, Transcript, counted

_FORMAT: Final = "tacit-synthesis"
_VERSION: Final = 1


class OvertakenError(Exception):
    """Another process has kept a part of the same run."""


class KeptParts:
    """Parts of a run that the ledger holds, in order: they cost nothing, because the run's charge has paid for them."""

    def __init__(
        self, context: CuratorContext, plan: SynthesisPlan, order: Order, charge: Reservation, stage: int = 0
    ) -> None:
        self._ledger = context.ledger
        self._plan = plan
        self._order = order
        self._charge = charge
        self._stage = stage
        self._number = 0
        self._next: Reservation | None = None

    def _reserve(self) -> Reservation | Outcome:
        free = NoEvent(relation=self._plan.relation)
        number, paid = self._number, self._charge.seq
        later = [self._stage] if self._stage else []
        name = digest_of(canonical([_FORMAT, "part", paid, self._charge.hash, number, *later]))
        return self._ledger.reserve(
            Order(
                self._order.population, free, analyst=self._order.analyst, project=self._order.project,
                sql=f"part {number + 1} of the {self._order.sql}", plan=self._order.plan,
                quote={"paid by": paid, "part": number}, repeat_key=name,
            )
        )  # fmt: skip

    def found(self) -> list[Transcript]:
        """The parts that an earlier process has kept."""
        parts: list[Transcript] = []
        while self._charge.resumed:
            held = self._reserve()
            if isinstance(held, Reservation):
                self._next = held
                break
            parts.append(transcript_from_text(held.result.decode(), self._plan))
            self._number += 1
        return parts

    def keep(self, part: Transcript) -> None:
        """Keep one more part, durably."""
        held = self._next or self._reserve()
        text = transcripts_to_text([part]).encode()
        kept = held if isinstance(held, Outcome) else self._ledger.commit(held, text)
        self._charge = replace(self._charge, resumed=True)
        if kept.result != text:
            raise OvertakenError
        self._next = None
        self._number += 1


def transcripts_to_text(made: Sequence[Transcript]) -> str:
    """The text of what was released, by stage, that the ledger keeps."""
    return canonical({"format": _FORMAT, "version": _VERSION, "stages": [_to_plain(each) for each in made]})


def transcripts_of(text: str, count: int) -> list[Mapping[str, Any]]:
    """Plain content of each stage, as :func:`transcripts_to_text` wrote it.

    Raises:
        InternalError: the text is of another form, or of another number of stages.
    """
    content = json.loads(text)
    if (content.get("format"), content.get("version")) != (_FORMAT, _VERSION):
        raise InternalError("the ledger holds something else than a synthetic table")
    if len(content["stages"]) != count:
        raise InternalError("the ledger holds another number of stages than the request has")
    return list(content["stages"])


def _to_plain(transcript: Transcript) -> dict[str, Any]:
    measured = [
        {
            "columns": list(each.measurement.columns),
            each.measurement.noise.name: str(each.measurement.price),
            "values": " ".join(map(str, each.noisy.ravel().tolist())),
        }
        | ({"pools": [None if groups is None else list(groups) for groups in each.pools]} if each.pools else {})
        for each in transcript.measured
    ]
    chosen = [
        {"columns": list(each.columns), "epsilon": str(each.epsilon), "candidates": each.candidates}
        for each in transcript.chosen
    ]
    return {"measured": measured, "chosen": chosen}


def transcript_from_text(text: str, plan: SynthesisPlan) -> Transcript:
    """The transcript that :func:`transcripts_to_text` wrote.

    Raises:
        InternalError: the text is of another form.
    """
    return transcript_from_plain(transcripts_of(text, 1)[0], plan)


def transcript_from_plain(content: Mapping[str, Any], plan: SynthesisPlan) -> Transcript:
    """The transcript of one stage."""
    transcript = Transcript()
    for each in content["measured"]:
        names = tuple(each["columns"])
        pools = tuple(None if groups is None else tuple(groups) for groups in each.get("pools", ()))
        measurement = counted(plan, names, Fraction(each[plan.noise.name]), pools)
        noisy = np.array([int(value) for value in each["values"].split()], dtype=np.int64)
        shape = tuple(strategy.outputs for strategy in measurement.strategies)
        transcript.measured.append(MeasuredMarginal(measurement, noisy.reshape(shape)))
    transcript.chosen += [
        ChosenMarginal(each["candidates"], Fraction(each["epsilon"]), tuple(each["columns"]))
        for each in content["chosen"]
    ]
    return transcript
