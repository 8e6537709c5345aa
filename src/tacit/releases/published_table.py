"""Published tables and numbers, looked up in signed releases.

A quoted number is searched for in every release (:func:`find_number`): it is found if a released value rounds to it at
the quoted digits. A whole table is compared with the receipt of its release:

A receipt holds the digest of the released integers, not of a table, which is computed from them and may be formatted in
many ways. So the answer is made again from the bytes that the ledger holds, at no cost, and the table is compared with
it cell by cell, by value. Rows may be in any order, intervals may be left out; a changed value, and a missing or added
row or column, is a difference.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tacit.core.errors import InputError
from tacit.core.extras import load_arrow
from tacit.core.numbers import Number, exact
from tacit.core.text_files import tame
from tacit.ledger import Record
from tacit.ledger.entries import plain_name
from tacit.ledger.history import charge_at
from tacit.query.request import Request
from tacit.releases.keys import key_of
from tacit.releases.payment import hide_internal_errors
from tacit.releases.query import answer_from_outcome, public_rows, quote, to_answer
from tacit.releases.receipt import Receipt, outcome_problem
from tacit.releases.release import release_at

if TYPE_CHECKING:
    from tacit.releases.answer import Answer
    from tacit.releases.query import QueryContext

_LARGEST: Final = 256 * 2**20


@dataclass(frozen=True)
class PublishedTable:
    """A table read from a file: names of columns, and rows of plain values or of text.

    Args:
        names: names of its columns.
        rows: rows, in any order.
        tamed: whether texts are escaped as in CSV files, see :func:`~tacit.core.text_files.tame`.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    tamed: bool = False


def answer_again(context: QueryContext, receipt: Receipt, *, name: str = "", plan_file: Path | None = None) -> Answer:
    """Make the answer of a receipt again from the release in the ledger; charges nothing, reads no rows.

    Args:
        context: context with the ledger and the declarations that the receipt names.
        receipt: receipt that has been verified already.
        name: name of the statistic, for a planned release.
        plan_file: path of the plan, for a planned release.

    Raises:
        InputError: the answer cannot be made again, with the reason.
    """
    if receipt["catalog"] != context.catalog.digest:
        raise InputError(
            "receipt", "speaks of other declarations than the project file makes now; use that of its time"
        )
    if any(answer["name"] for answer in receipt["answers"]) and receipt["answers"][0]["query"]:
        return _of_batch(context, receipt, name, plan_file)
    (about,) = receipt["answers"]
    if not about["plan"]:
        raise InputError("receipt", "is about a mechanism that was used from Python, which releases no table")
    found, outcome = charge_at(context.ledger, receipt.position), context.ledger.outcome(receipt.position)
    if found is None or outcome is None or outcome.failed:
        raise InputError("receipt", f"entry {receipt.position} of the ledger released nothing")
    options = found.quote.get("options")
    if options is None:
        raise InputError("receipt", "is about a release that is no query, so that no table of an answer belongs to it")
    planned = quote(context, about["query"], Request(**options))
    if planned.mechanisms != found.quote["mechanisms"]:
        raise InputError("receipt", "speaks of an account with other terms than the project file has now")
    with hide_internal_errors():
        public, analyst = public_rows(context, planned.plan), found.record.analyst
        return to_answer(context, planned, about["query"], outcome, public, analyst=analyst, paid=False)


def _of_batch(context: QueryContext, receipt: Receipt, name: str, plan_file: Path | None) -> Answer:
    from tacit.releases.batch import BatchPlan, load_plan, part_key, quote_batch
    from tacit.releases.payment import entry_of

    names = [answer["name"] for answer in receipt["answers"]]
    if name not in names:
        raise InputError("name", f"say which of its tables it is: {', '.join(names)}")
    if plan_file is None:
        raise InputError("plan", "is needed for a table of a planned release: the file that it was made from")
    found, whole = charge_at(context.ledger, receipt.position), context.ledger.outcome(receipt.position)
    if found is None or whole is None:
        raise InputError("receipt", f"entry {receipt.position} of the ledger released nothing")
    batch = load_plan(plan_file)
    if not isinstance(batch, BatchPlan):
        raise InputError("plan", f"{plan_file} is not the plan that the receipt is about")
    split = quote_batch(context, batch)
    by_name = {each.name: plan for each, plan in zip(batch.statistics, split.plans, strict=True)}
    plan = by_name.get(name)
    # The plan of the charge is the repeat key of the whole batch.
    part = context.ledger.outcome_under(found.record.population, part_key(found.record.plan, name))
    about = next(answer for answer in receipt["answers"] if answer["name"] == name)
    if plan is None or part is None or part.digest != about["released"]:
        raise InputError("plan", f"{plan_file} is not the plan that the receipt is about")
    with hide_internal_errors():
        entry = entry_of(whole, sql=batch.name, paid=False)
        return answer_from_outcome(plan, part.result, entry, receipt, public_rows(context, plan))


# Numbers --------------------------------------------------------------------------------------------------------------

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
    from tacit.releases.kinds import KINDS

    said = number.strip()
    if not _QUOTED.fullmatch(said):
        raise InputError("number", "must be a number as it was quoted, such as 6,334 or 12.5%")
    plain = re.sub(r"[^0-9.\-]", "", said)
    scale = 100 if said.endswith("%") else 1
    wanted, half = Fraction(plain) / scale, Fraction(1, 2 * scale * 10 ** len(plain.partition(".")[2]))
    known = {plain_name(population.name, "population") for population in context.catalog.populations}
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
        receipt = Receipt.from_json(outcome.receipt)
        release = release_at(context, KINDS, record.seq)
        names = [] if release is not None else [each["name"] for each in receipt["answers"] if each["query"]]
        if release is None and not sees(record):
            continue
        numbers: list[tuple[str, Any, Any, Any]] = []
        try:
            if release is not None:
                numbers += KINDS[release.kind].numbers(KINDS[release.kind].read(context, record.seq))
            elif any(names):
                made = [_statistic(context, receipt, name, plans) for name in names]
                unread += any(each is None for each in made)
                for name, answer in zip(names, made, strict=True):
                    numbers += [] if answer is None else _cells(answer, f"{name}: ")
            else:
                numbers += _cells(answer_again(context, receipt), "")
        except InputError:
            # The release has other declarations than the present ones, or is of a mechanism without a table.
            continue
        looked += 1
        hits = [each for each in numbers if _is_number(each[1]) and abs(Fraction(each[1]) - wanted) <= half]
        if hits:
            key = key_of(context.ledger, receipt)
            holds = outcome_problem(outcome, ledger=context.ledger.id, public_key=key) is None
            query = " ".join(record.sql.split())
            found += [FoundNumber(record.seq, query, *each, signed=holds) for each in hits]
    return NumberSearch(said, tuple(found), looked, unread)


def _statistic(context: QueryContext, receipt: Receipt, name: str, plans: Sequence[Path]) -> Answer | None:
    for plan in plans:
        with suppress(InputError):
            return answer_again(context, receipt, name=name, plan_file=plan)
    return None


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


# Reading --------------------------------------------------------------------------------------------------------------


def read_table(path: Path) -> PublishedTable:
    """Read a table from CSV, Parquet or JSON, as ``tacit query``, ``tacit release`` and the server write them.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        if path.stat().st_size > _LARGEST:
            raise InputError("table", f"{path} is larger than {_LARGEST >> 20} MiB")
        match path.suffix.lower():
            case ".parquet" | ".pq":
                return _parquet(path)
            case ".json":
                return _json(json.loads(path.read_text(encoding="utf-8")))
            case _:
                return _csv(path.read_text(encoding="utf-8-sig"))
    except OSError as problem:
        raise InputError("table", f"cannot read {path}: {problem.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError, csv.Error) as problem:
        if isinstance(problem, InputError):
            raise
        raise InputError("table", f"{path} is not a table of an answer in CSV, Parquet or JSON") from None


def _csv(text: str) -> PublishedTable:
    lines = [line for line in csv.reader(io.StringIO(text), strict=True) if line]
    if not lines:
        raise InputError("table", "has no line with the names of columns")
    names, rows = tuple(lines[0]), tuple(map(tuple, lines[1:]))
    if any(len(row) != len(names) for row in rows):
        raise InputError("table", "has lines with more or fewer cells than names")
    return PublishedTable(_tamed(names), tuple(map(_tamed, rows)), tamed=True)


def _tamed(row: Sequence[Any]) -> tuple[Any, ...]:
    """Return a row with texts escaped as in CSV files; idempotent, so that files of other programs compare as well."""
    return tuple(tame(cell) if isinstance(cell, str) else cell for cell in row)


def _parquet(path: Path) -> PublishedTable:
    pa = load_arrow()
    pq = load_arrow("pyarrow.parquet")

    try:
        table = pq.read_table(path)
    except pa.ArrowException:
        raise InputError("table", f"{path} is not a Parquet file") from None
    columns = [column.to_pylist() for column in table.columns]
    return PublishedTable(tuple(table.column_names), tuple(zip(*columns, strict=True)))


def _json(content: Any) -> PublishedTable:
    """Read the JSON of ``tacit query --json`` (rows by name) or of the server (rows in order)."""
    names = [str(column["name"]) for column in content["columns"]]
    wide: list[str] = []
    rows = []
    for row in content["rows"]:
        cells = [row[name] for name in names] if isinstance(row, Mapping) else list(row)
        wide, values = [], []
        for name, cell in zip(names, cells, strict=True):
            if isinstance(cell, Mapping):
                wide += [name, f"{name}_low", f"{name}_high"]
                values += [cell["value"], cell["low"], cell["high"]]
            else:
                wide.append(name)
                values.append(cell)
        rows.append(tuple(values))
    return PublishedTable(tuple(wide or names), tuple(rows))


# Comparing ------------------------------------------------------------------------------------------------------------


def difference(answer: Answer, table: PublishedTable, confidence: Number | None = None) -> str | None:
    """Return the first difference of a table from an answer, as text; None if there is none."""
    expected = answer.intervals(confidence)
    own, known = tuple(column.name for column in answer.columns), tuple(expected.column_names)
    rows = list(zip(*(column.to_pylist() for column in expected.columns), strict=True))
    if table.tamed:
        own, known, rows = _tamed(own), _tamed(known), [*map(_tamed, rows)]
    twice = [name for name, count in Counter(table.names).items() if count > 1]
    if twice:
        return f"the column {twice[0]!r} occurs twice"
    for name in table.names:
        if name not in known:
            return f"the column {name!r} is not in the answer, which has {', '.join(known)}"
    for name in own:
        if name not in table.names:
            return f"the column {name!r} is missing"
    places = [known.index(name) for name in table.names]
    due = [tuple(_value(row[place]) for place in places) for row in rows]
    found = [tuple(_read(cell, like) for cell, like in zip(row, _examples(due), strict=True)) for row in table.rows]
    if len(found) != len(due):
        return f"it has {len(found)} rows, and the answer {len(due)}"
    left = Counter(due)
    for number, row in enumerate(found, start=1):
        if not left[row]:
            return f"row {number} is not in the answer{_nearest(row, due, table.names)}"
        left[row] -= 1
    return None


def _value(value: Any) -> object:
    """Return a value of an answer in a form independent of its formatting."""
    if value is None or isinstance(value, (bool, str, float)):
        return value
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    try:
        return Fraction(value)
    except (TypeError, ValueError, OverflowError):
        return repr(value)  # For example a list, which is no value of an answer and equal to none.


def _examples(rows: Sequence[tuple[object, ...]]) -> list[object]:
    """Return for every column a value that is not NULL, whose type determines how its texts are parsed."""
    if not rows:
        return []
    return [next((value for value in column if value is not None), None) for column in zip(*rows, strict=True)]


def _read(cell: Any, like: object) -> object:
    if not isinstance(cell, str):
        return _number(cell, like) if isinstance(cell, (int, float)) and not isinstance(cell, bool) else _value(cell)
    if cell == "" and not isinstance(like, str):
        return None
    if isinstance(like, bool):
        return {"true": True, "false": False}.get(cell.lower(), cell)
    if isinstance(like, (Fraction, float)):
        return _number(cell, like)
    # A time may be written with a space; an empty text and NULL are the same in CSV.
    return cell.replace(" ", "T", 1) if isinstance(like, str) and _is_time(like) else cell or None


def _number(cell: str | int | float, like: object) -> object:
    """Parse a number for the type of its column: doubles to the nearest double, all others exactly."""
    try:
        return float(cell) if isinstance(like, float) else exact(str(cell), "cell")
    except ValueError:
        return cell


def _is_time(text: str) -> bool:
    return len(text) >= 19 and text[4:5] == "-" and text[10:11] == "T"


def _nearest(row: tuple[object, ...], due: Sequence[tuple[object, ...]], names: Sequence[str]) -> str:
    """Return a text that names the differing cell, where a row differs from an expected row in one cell; else empty."""
    for other in due:
        apart = [i for i, (one, two) in enumerate(zip(row, other, strict=True)) if one != two]
        if len(apart) == 1:
            return f": {names[apart[0]]} is another there"
    return ""
