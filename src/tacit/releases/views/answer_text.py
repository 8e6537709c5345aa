"""Text and HTML tables of an answer."""

from __future__ import annotations

import html
import io
import math
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from tacit.core.numbers import with_noun
from tacit.query.types import Kind, SqlType, Value, ordinal
from tacit.releases.views.arrow_tables import plain

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from tacit.releases.views.answer_views import AnswerViews

_MOST_ROWS = 60
#: After a number whose bias may exceed its interval.
_MARK = " *"
_HUGE = 1e300


#: Meaning of the mark.
MARK_WORDS = f"{_MARK.strip()} The bias may exceed the interval; intervals(bias=True) includes it."


def rich_table(answer: AnswerViews) -> Table:
    """The table of an answer, for a terminal."""
    from rich.table import Table
    from rich.text import Text

    table = Table(header_style="bold")
    for column in answer.columns:
        table.add_column(Text(column.name), justify="right" if column.type.is_numeric else "left")
    for cells in _rows(answer):
        table.add_row(*(Text.assemble(value, (spread, "dim")) for value, spread in cells))
    return table


def rich_answer(answer: AnswerViews) -> Group:
    """The table of an answer and the note about it; not as a caption, which would be as narrow as the table."""
    from rich.console import Group
    from rich.text import Text

    return Group(rich_table(answer), Text(_caption(answer), "dim"))


def text_table(answer: AnswerViews, width: int = 120) -> str:
    """Answer in plain characters."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=width, no_color=True, legacy_windows=False)
    console.print(rich_answer(answer))
    shown = console.file
    assert isinstance(shown, io.StringIO)  # noqa: S101 - for the type checker
    return shown.getvalue().rstrip("\n")


def html_table(answer: AnswerViews) -> str:
    """Answer as HTML for a notebook; every text is escaped."""
    head = "".join(f"<th>{html.escape(column.name)}</th>" for column in answer.columns)
    body = "".join(f"<tr>{''.join(_html_cell(*cell) for cell in cells)}</tr>" for cells in _rows(answer))
    note = html.escape(_caption(answer))
    return f'<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p style="opacity:.6">{note}</p>'


def _html_cell(value: str, spread: str) -> str:
    quiet = f'<span style="opacity:.6">{html.escape(spread)}</span>' if spread else ""
    return f'<td style="text-align:right">{html.escape(value)}{quiet}</td>'


def _rows(answer: AnswerViews) -> list[list[tuple[str, str]]]:
    """Texts of each cell shown and of its interval."""
    finished = answer.finished
    return [
        [
            _marked(_cell(value, ends, column.type, known), mark)
            for (value, ends), column, known, mark in zip(
                cells, answer.columns, finished.has_interval, marks, strict=True
            )
        ]
        for cells, marks in zip(answer.displayed(rows=_MOST_ROWS), _marks(answer), strict=True)
    ]


def _marks(answer: AnswerViews) -> tuple[tuple[bool, ...], ...]:
    return answer.finished.marked(rows=_MOST_ROWS)


def _marked(cell: tuple[str, str], mark: bool) -> tuple[str, str]:
    return (cell[0], f"{cell[1]}{_MARK}") if mark else cell


def _cell(value: Value | None, ends: tuple[Value | None, Value | None], kind: SqlType, known: bool) -> tuple[str, str]:
    low, high = ends
    if not known:
        return format_key(value, kind), ""
    if low is None or high is None:
        return format_value(value, kind), " (no bound)"
    if value is None or not kind.is_numeric:
        return format_value(value, kind), f" ({format_value(low, kind)} to {format_value(high, kind)})"
    below, above = ordinal(value, kind) - ordinal(low, kind), ordinal(high, kind) - ordinal(value, kind)
    widest = max(below, above)
    if widest > _HUGE:
        return format_value(value, kind), " (no bound)"
    if not widest and kind.kind is Kind.DOUBLE:
        # A median of few steps, all of whose interval is one of them.
        return f"{float(ordinal(value, kind)):,.12g}", " ± 0"
    text = format_value(value, kind, widest)
    if above - below <= widest / 20 and below - above <= widest / 20:
        return text, f" ± {_number(widest, kind, widest)}"
    low_text, high_text = (_number(ordinal(end, kind), kind, widest) for end in (low, high))
    return text, f" ({low_text} to {high_text})"


def format_key(value: Value | None, kind: SqlType) -> str:
    """A value without noise for people: a whole number is a year or a code, which has no thousands."""
    text = format_value(value, kind)
    return text.replace(",", "") if kind.kind is Kind.INTEGER else text


def format_value(value: Value | None, kind: SqlType, spread: Fraction | None = None) -> str:
    """A value for people; doubles with as many digits as their spread makes sense of."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, Fraction, float)):
        return _number(Fraction(value), kind, spread)
    # A key that was found in the data may hold signs that steer a terminal.
    return "".join(sign if sign.isprintable() else "·" for sign in str(plain(value, kind)))


def _number(place: Fraction, kind: SqlType, spread: Fraction | None) -> str:
    if kind.kind is Kind.INTEGER:
        return f"{math.floor(place + Fraction(1, 2)):,}"
    if kind.kind is Kind.DECIMAL:
        return f"{Decimal(int(place * 10**kind.scale)).scaleb(-kind.scale):,}"
    number = float(place)
    if abs(number) >= 1e15:
        return f"{number:.4g}"
    # Three digits of the spread, or of the number where nothing is known about it.
    size = float(spread) if spread else abs(number) / 1000
    digits = 6 if not size else min(max(2 - math.floor(math.log10(size)), 0), 12)
    return f"{number:,.{digits}f}"


def cut_note(answer: AnswerViews) -> str:
    """Number of rows that a table leaves out, such as ``9,939 more rows.``; empty where it shows them all."""
    rest = len(answer.finished.values) - _MOST_ROWS
    return f"{with_noun(rest, 'more row')}." if rest > 0 else ""


def has_marks(answer: AnswerViews) -> bool:
    """Whether a cell of the table has the mark."""
    return any(mark for row in _marks(answer) for mark in row)


def _caption(answer: AnswerViews) -> str:
    words = [cut_note(answer), answer.note, answer.zeros_note, MARK_WORDS if has_marks(answer) else ""]
    return " ".join(filter(None, words))
