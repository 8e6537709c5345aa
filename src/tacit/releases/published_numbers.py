"""Published numbers, looked up in signed releases: a quoted number is found if a released value rounds to it.

An answer is made again from the bytes that the ledger holds, at no cost; nothing is charged and no row is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tacit.core.errors import InputError
from tacit.ledger import Outcome, Record
from tacit.ledger.entries import plain_name
from tacit.ledger.history import Charged, charge_at
from tacit.query.request import Request
from tacit.releases.batch import BatchPlan, load_plan, part_key, quote_batch
from tacit.releases.keys import key_of
from tacit.releases.kinds import KINDS
from tacit.releases.payment import entry_of, hide_internal_errors
from tacit.releases.query import answer_from_outcome, public_rows, quote, to_answer
from tacit.releases.receipt import Receipt, mechanisms_of, outcome_problem
from tacit.releases.release import release_at

if TYPE_CHECKING:
    from tacit.releases.answer import Answer
    from tacit.releases.query import QueryContext


_QUOTED: Final = re.compile(r"-?(\d{1,3}([,' _\u00a0\u2009\u202f]\d{3})+|\d{1,30})(\.\d{1,30})?\s*%?")
#: Largest number of charges that are searched, newest first.
_MOST_CHARGES: Final = 1000


@dataclass(frozen=True)
class FoundNumber:
    """A quoted number found in a release: its position, its query, its cell and its interval.

    Args:
        position: ledger position of the charge, and so of the receipt.
        query: text of the query, or the name of the release.
        about: description of the column and the row.
        value: the released value.
        low: lower end of its interval; None for none.
        high: upper end of its interval; None for none.
        signed: whether the receipt is valid.
    """

    position: int
    query: str
    about: str
    value: Any
    low: Any
    high: Any
    signed: bool

    def __str__(self) -> str:
        ends = "" if self.low is None else f" ({_short(self.low)} to {_short(self.high)})"
        holds = "its receipt holds" if self.signed else "ITS RECEIPT DOES NOT HOLD"
        return f"release {self.position}: {self.about} is {_short(self.value)}{ends}, of {self.query}; {holds}"


@dataclass(frozen=True)
class NumberSearch:
    """Cells in which a number was found, the number of releases searched, and of planned releases that were not."""

    number: str
    found: tuple[FoundNumber, ...]
    looked: int
    unread: int = 0

    def __str__(self) -> str:
        lines = [str(each) for each in self.found] or [f"{self.number} is in no release of {self.looked} looked into"]
        more = f"{self.unread} planned releases were not looked into: name their plan files" if self.unread else ""
        return "\n".join([*lines, *([more] if more else [])])


def find_number(
    context: QueryContext,
    number: str,
    *,
    plans: Sequence[Path] = (),
    sees: Callable[[Record], bool] = lambda _: True,
) -> NumberSearch:
    """Search for a quoted number in signed releases; charges nothing, reads no rows.

    Args:
        context: context with the ledger and the catalogue.
        number: the number as quoted: ``6,334``, ``12.5 %``.
        plans: plan files of planned releases, whose statistics cannot be read without them.
        sees: whether the caller may see an answer; releases are visible to all who may see the population.

    Raises:
        InputError: ``number`` is no number.
    """
    said = number.strip()
    if not _QUOTED.fullmatch(said):
        raise InputError("number", "must be a number as it was quoted, such as 6,334 or 12.5%")
    plain = re.sub(r"[^0-9.\-]", "", said)
    scale = 100 if said.endswith("%") else 1
    wanted, half = Fraction(plain) / scale, Fraction(1, 2 * scale * 10 ** len(plain.partition(".")[2]))
    known = {plain_name(population.name, "population") for population in context.catalog.populations}
    planned = list(map(load_plan, plans))
    found: list[FoundNumber] = []
    looked = unread = 0
    with hide_internal_errors():
        records = [
            record
            for record in islice(context.ledger.history(newest_first=True), _MOST_CHARGES)
            if record.answered and record.project == context.project and record.population in known
        ]
    for record in records:
        charged, outcome = charge_at(context.ledger, record.seq), context.ledger.outcome(record.seq)
        if charged is None or outcome is None or not outcome.receipt or outcome.failed:
            continue
        receipt, release = Receipt.from_json(outcome.receipt), release_at(context, KINDS, record.seq)
        numbers: list[tuple[str, Any, Any, Any]] = []
        # Where the declarations are other than the present ones, there is nothing to compare with.
        with suppress(InputError):
            if release is not None:
                numbers += KINDS[release.kind].numbers(KINDS[release.kind].read(context, record.seq))
            elif not sees(record):
                continue
            elif "statistics" in charged.quote:
                answers = _statistics(context, charged, outcome, receipt, planned)
                unread += not answers
                for name, answer in answers.items():
                    numbers += _cells(answer, f"{name}: ")
            else:
                numbers += _cells(_answer(context, charged, outcome, receipt), "")
            looked += 1
        hits = [each for each in numbers if _is_number(each[1]) and abs(Fraction(each[1]) - wanted) <= half]
        if hits:
            key = key_of(context.ledger, receipt)
            holds = outcome_problem(outcome, ledger=context.ledger.id, public_key=key) is None
            query = " ".join(record.sql.split())
            found += [FoundNumber(record.seq, query, *each, signed=holds) for each in hits]
    return NumberSearch(said, tuple(found), looked, unread)


def _answer(context: QueryContext, charged: Charged, outcome: Outcome, receipt: Receipt) -> Answer:
    """Make the answer of a query again.

    Raises:
        InputError: the charge is of no query, or the declarations are other ones now.
    """
    options = charged.quote.get("options")
    if options is None or receipt["catalog"] != context.catalog.digest:
        raise InputError("receipt", "is about no query, or speaks of other declarations than there are now")
    record = charged.record
    planned = quote(context, record.sql, Request(**options))
    with hide_internal_errors():
        public = public_rows(context, planned.plan)
        return to_answer(context, planned, record.sql, outcome, public, analyst=record.analyst, paid=False)


def _statistics(
    context: QueryContext, charged: Charged, outcome: Outcome, receipt: Receipt, plans: Sequence[BatchPlan]
) -> dict[str, Answer]:
    """Make the answers of a planned release again, by name; none where its plan is not among ``plans``."""
    for batch in plans:
        split = quote_batch(context, batch)
        named = list(zip(batch.statistics, split.plans, strict=True))
        told = [{"name": each.name, "mechanisms": mechanisms_of(plan)} for each, plan in named]
        asked = [(answer["name"], answer["query"]) for answer in receipt["answers"]]
        if charged.quote["statistics"] != told or asked != [(each.name, each.sql) for each, _ in named]:
            continue
        entry, found = entry_of(outcome, sql=batch.name, paid=False), {}
        for each, plan in named:
            # The plan of the charge is the repeat key of the whole release.
            part = context.ledger.outcome_under(charged.record.population, part_key(charged.record.plan, each.name))
            if part is not None:
                public = public_rows(context, plan)
                found[each.name] = answer_from_outcome(plan, part.result, entry, receipt, public)
        return found
    return {}


def _cells(answer: Answer, before: str) -> list[tuple[str, Any, Any, Any]]:
    """Return the numbers of an answer that have an interval, each with its column and the labels of its row."""
    known, columns, cells = answer.finished.has_interval, answer.columns, []
    for row, ends in zip(answer.finished.values, answer.finished.intervals(), strict=True):
        labels = [f"{c.name} = {v}" for c, v, noisy in zip(columns, row, known, strict=True) if not noisy]
        where = f" where {', '.join(labels)}" if labels else ""
        cells += [
            (f"{before}{column.name}{where}", value, *pair)
            for column, value, pair, noisy in zip(columns, row, ends, known, strict=True)
            if noisy
        ]
    return cells


def _is_number(value: Any) -> bool:
    return isinstance(value, int | Fraction) or (isinstance(value, float) and math.isfinite(value))


def _short(value: Any) -> str:
    return f"{float(value):,.6g}" if abs(value) < 100_000 else f"{float(value):,.0f}"
