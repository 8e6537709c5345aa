"""JSON of responses: answers, quotes, budgets, tables, histories.

Numbers of privacy are exact text. Within a cell, integers beyond ±(2⁵³ − 1), decimals, dates and timestamps are text,
because readers of JSON round or lack them; the type of the column says how to read it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from tacit.core.errors import InputError

if TYPE_CHECKING:
    from tacit.accounting.filters import Line
    from tacit.curator.accounts import Budget, Entry
    from tacit.curator.curator import Curator, TableInfo
    from tacit.curator.quote import Quote
    from tacit.curator.views.answer_object import Answer
    from tacit.ledger import Ledger, Record
    from tacit.query.catalog import Column

__all__ = [
    "EXACT_IN_JSON",
    "answer_head",
    "answer_json",
    "answer_wire",
    "budget_json",
    "charge_json",
    "charged_json",
    "entry_json",
    "exact_text",
    "key_json",
    "lines_json",
    "quote_json",
    "seen_text",
    "table_json",
]

#: Integers of at most this size are read exactly by every reader of JSON.
EXACT_IN_JSON: Final = 2**53 - 1
_MOST_DECIMALS = 40
_SEEN: Final = re.compile(r"([1-9][0-9]{0,17}):([0-9a-f]{64})\Z")


def answer_json(curator: Curator, answer: Answer) -> dict[str, Any]:
    """The answer as one object, with what is left; a number that carries noise has its interval with it."""
    columns, finished = answer.columns, answer.finished
    known = finished.has_interval
    rows = [
        {column.name: _cell(values[i], ends[i] if known[i] else None, column.type) for i, column in enumerate(columns)}
        for values, ends in zip(finished.values, finished.intervals(), strict=True)
    ]
    return {
        "columns": _columns(answer),
        "rows": rows,
        "confidence": exact_text(finished.confidence),
        "charge": charge_json(answer.charge),
        "budget": budget_json(curator.budget(answer)),
        "receipt": json.loads(answer.receipt.to_json()),
    }


def answer_wire(answer: Answer) -> dict[str, Any]:
    """The answer as one object that is a function of the release and the request alone.

    It is the same for whoever asks and however often: the charge is that of the release, whether or not it was made
    just now.
    """
    finished = answer.finished
    known = finished.has_interval
    kinds = [column.type for column in answer.columns]
    cells = [
        [_cell(values[i], ends[i] if known[i] else None, kind, wide=True) for i, kind in enumerate(kinds)]
        for values, ends in zip(finished.values, finished.intervals(), strict=True)
    ]
    return {"columns": _columns(answer), "rows": cells, **answer_head(answer)}


def answer_head(answer: Answer) -> dict[str, Any]:
    """All of :func:`answer_wire` but the table itself."""
    found = f"Bounds found: {'; '.join(map(str, answer.bounds))}. " if answer.bounds else ""
    return {
        "confidence": exact_text(answer.finished.confidence),
        "charge": charged_json(answer.receipt.statement),
        "note": f"{found}{answer.confidence_text()} over the noise; clipping to bounds and dropped groups are not in "
        "them.",
        "receipt": {"receipt": answer.receipt.statement, "signature": answer.receipt.signature},
    }


def charged_json(statement: Mapping[str, Any]) -> dict[str, Any]:
    """What a release was charged, as its receipt states it."""
    return {
        "population": statement["population"],
        "amounts": {name: exact_text(Fraction(amount)) for name, amount in statement["charge"].items()},
        "position": statement["ledger"]["position"],
    }


def charge_json(charge: Entry) -> dict[str, Any]:
    """What was charged, exactly."""
    return {
        "population": charge.population,
        "amounts": {amount.currency: exact_text(amount.amount) for amount in charge.amounts},
        "repeat": charge.repeated,
        "position": charge.number,
        "text": charge.text,
    }


def entry_json(record: Record) -> dict[str, Any]:
    """One charge of the history."""
    return {
        "position": record.seq,
        "time": record.time,
        "analyst": record.analyst,
        "population": record.population,
        "sql": record.sql,
        "amounts": {amount.currency: exact_text(amount.amount) for amount in record.amounts if amount.amount},
        "answered": record.answered,
        "failed": record.failed,
        "plan": record.plan,
    }


def key_json(ledger: Ledger) -> dict[str, Any]:
    """The key that signs receipts, and every one that was replaced: what both keys have signed, not who or why."""
    followed, head = ledger.successions(), ledger.head
    words = ("previous", "public_key", "signature", "accepted")
    return {
        "public_key": followed[-1].public_key if followed else ledger.first_key,
        "ledger": ledger.id,
        "head": {"position": head.seq, "hash": head.hash},
        "successions": [{word: getattr(each, word) for word in words} for each in followed],
    }


def seen_text(ledger: Ledger, said: str) -> str:
    """The entry that a caller has seen, ``position:hash``, as the ledger has it.

    Raises:
        ConflictError: the ledger has another entry there, or none; nothing was charged.
    """
    from tacit.ledger import ConflictError
    from tacit.ledger.history import hash_at

    found = _SEEN.match(said)
    if found is None:
        raise InputError("Tacit-Seen", "must be the position and the hash of an entry, such as 17:5f…")
    position = int(found[1])
    here = hash_at(ledger, position)
    if here != found[2]:
        raise ConflictError(
            "Tacit-Seen",
            f"the ledger does not hold entry {position} as it was seen: it was put back to an older state, or is "
            f"another copy; nothing was charged",
        )
    return f"{position}:{here}"


def quote_json(quote: Quote, *, engine: bool = False) -> dict[str, Any]:
    """What a question would do and cost; ``engine`` adds what the engine would run, which is for owners."""
    from dataclasses import asdict

    from tacit.receipts.receipt import guarantee_to_plain

    told = asdict(quote.explanation)
    statements, text, plan = told.pop("engine_sql"), told.pop("charge"), told.pop("digest")
    amounts = guarantee_to_plain(quote.guarantee)
    kind = amounts.pop("kind")
    exact = {name: exact_text(Fraction(amount)) for name, amount in amounts.items() if Fraction(amount)}
    return {
        "price": {"text": text, "amounts": exact},
        "guarantee": kind,
        **told,
        "plan": plan,
        **({"engine_sql": statements} if engine else {}),
    }


def budget_json(budget: Budget) -> dict[str, Any]:
    """An account, exactly."""
    return {
        "population": budget.population,
        "guarantee": str(budget.guarantee),
        "currencies": lines_json(budget.lines),
        "shares": [
            {"owner": share.owner, "limited": share.limited, "currencies": lines_json(share.lines)}
            for share in budget.balances[1:]
        ],
        "questions_left": budget.questions,
        "durable": budget.durable,
    }


def lines_json(lines: Iterable[Line]) -> list[dict[str, str]]:
    """Cap and consumption of each currency, exactly."""
    return [
        {
            "currency": line.currency,
            "cap": exact_text(line.cap),
            "spent": exact_text(Fraction(line.spent)),
            "left": exact_text(line.left),
        }
        for line in lines
    ]


def table_json(info: TableInfo) -> dict[str, Any]:
    """A table as anyone who sees it may know it: what its owner declared."""
    table = info.table
    return {
        "name": table.name,
        "public": table.public,
        "population": table.population,
        "unit": table.unit,
        "max_groups": table.max_groups,
        "max_rows": table.max_rows,
        "unit_rows": table.unit_rows,
        "columns": [_column(column) for column in table.columns],
        "foreign_keys": [
            {"column": key.column, "table": key.table, "references": key.references} for key in table.foreign_keys
        ],
    }


def exact_text(value: Fraction) -> str:
    """A rational without loss: as a decimal where it is one of reasonable length, else as a fraction."""
    value = Fraction(value)
    for digits in range(_MOST_DECIMALS + 1):
        scaled = value * 10**digits
        if scaled.denominator == 1:
            text = f"{abs(scaled.numerator):0{digits + 1}d}"
            sign = "-" if value < 0 else ""
            return f"{sign}{text[:-digits]}.{text[-digits:]}" if digits else f"{sign}{text}"
    return str(value)


def _columns(answer: Answer) -> list[dict[str, Any]]:
    known = answer.finished.has_interval
    return [{"name": c.name, "type": str(c.type), "interval": known[i]} for i, c in enumerate(answer.columns)]


def _column(column: Column) -> dict[str, Any]:
    kind = column.type
    bounds = None if column.bounds is None else [_plain(end, kind, wide=True) for end in column.bounds]
    values = None if column.categories is None else [_plain(value, kind, wide=True) for value in column.categories]
    return {
        "name": column.name,
        "type": str(kind),
        "bounds": bounds,
        "step": None if column.step is None else exact_text(column.step),
        "categories": values,
        "nullable": column.nullable,
        "unique": column.unique,
    }


def _cell(value: Any, ends: tuple[Any, Any] | None, kind: Any, *, wide: bool = False) -> Any:
    if ends is None:
        return _plain(value, kind, wide=wide)
    low, high = (_plain(end, kind, wide=wide) for end in ends)
    return {"value": _plain(value, kind, wide=wide), "low": low, "high": high}


def _plain(value: Any, kind: Any, *, wide: bool = False) -> Any:
    """A value as JSON has it; ``wide`` writes as text what readers of JSON would round or lack, in one form."""
    from tacit.curator.views.arrow_tables import plain

    shown = plain(value, kind)
    if shown is None or isinstance(shown, (bool, float, str)):
        return shown
    if isinstance(shown, int):
        return str(shown) if wide and abs(shown) > EXACT_IN_JSON else shown
    if wide:
        return f"{shown:f}" if isinstance(shown, Decimal) else shown.isoformat()
    return str(shown)
