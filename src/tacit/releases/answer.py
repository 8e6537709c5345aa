"""Answers: noisy values with their intervals, as text, tables, frames and charts.

:class:`AnswerViews` has the views that local and remote answers share; :class:`Answer` adds plan, charge and receipt.
"""

from __future__ import annotations

import datetime as dt
import html
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from tacit.core.charts import altair, offline, save_chart
from tacit.core.errors import InputError
from tacit.core.extras import load_arrow, load_frames
from tacit.core.numbers import Number, exact_probability, float_nearest, with_noun
from tacit.core.text_files import visible
from tacit.query.planning.explain import Explanation
from tacit.query.postprocess.cells import Ends
from tacit.query.postprocess.result import Finished
from tacit.query.query import OutputColumn
from tacit.query.types import DECIMAL_DIGITS, Kind, SqlType, Value, ordinal
from tacit.releases.notebook import answers_notebook, quote_html, show_arrow

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from rich.console import Group
    from rich.table import Table

    from tacit.query.planning.auto_bounds import Found
    from tacit.query.planning.auto_limits import FoundLimits
    from tacit.query.planning.plan import Plan
    from tacit.query.postprocess.bias import Bias
    from tacit.releases.accounts import Entry
    from tacit.releases.receipt import Receipt


def arrow_type(kind: SqlType) -> pa.DataType:
    pa = load_arrow()
    if kind.kind is Kind.DECIMAL:
        return pa.decimal128(DECIMAL_DIGITS, kind.scale)
    made = {
        Kind.BOOLEAN: pa.bool_(), Kind.INTEGER: pa.int64(), Kind.DOUBLE: pa.float64(), Kind.TEXT: pa.string(),
        Kind.DATE: pa.date32(), Kind.TIMESTAMP: pa.timestamp("us"),
    }  # fmt: skip
    return made.get(kind.kind, pa.null())


def plain(value: Value | None, kind: SqlType) -> Any:
    """Return the Python value that Arrow accepts: decimals become :class:`decimal.Decimal`, exactly."""
    if kind.kind is Kind.DECIMAL and isinstance(value, (int, Fraction)):
        return Decimal(int(value * 10**kind.scale)).scaleb(-kind.scale)
    return value


def to_arrow(names: Sequence[str], kinds: Sequence[SqlType], rows: Sequence[Sequence[Value | None]]) -> pa.Table:
    pa = load_arrow()

    arrays = [pa.array([plain(row[i], kind) for row in rows], type=arrow_type(kind)) for i, kind in enumerate(kinds)]
    return pa.Table.from_arrays(arrays, names=list(names))


MOST_SHOWN = 60
#: Mark after a number whose bias may exceed its interval.
_MARK = " *"
_HUGE = 1e300


#: Meaning of the mark.
MARK_WORDS = f"{_MARK.strip()} The bias may exceed the interval; intervals(bias=True) includes it."


def rich_table(answer: AnswerViews) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(header_style="bold")
    for column in answer.columns:
        table.add_column(Text(column.name), justify="right" if column.type.is_numeric else "left")
    for cells in _rows(answer):
        table.add_row(*(Text.assemble(value, (spread, "dim")) for value, spread in cells))
    return table


def rich_answer(answer: AnswerViews) -> Group:
    """Return a Rich table of the answer and its note below it; a caption would be as narrow as the table."""
    from rich.console import Group
    from rich.text import Text

    return Group(rich_table(answer), Text(_caption(answer), "dim"))


def text_table(answer: AnswerViews, width: int = 120) -> str:
    from rich.console import Console

    console = Console(file=io.StringIO(), width=width, no_color=True, legacy_windows=False)
    console.print(rich_answer(answer))
    shown = console.file
    assert isinstance(shown, io.StringIO)  # noqa: S101 - for the type checker
    return shown.getvalue().rstrip("\n")


def html_table(answer: AnswerViews) -> str:
    """Return the answer as an HTML table for a notebook; every text is escaped."""

    def cell(value: str, spread: str) -> str:
        quiet = f'<span style="opacity:.6">{html.escape(spread)}</span>' if spread else ""
        return f'<td style="text-align:right">{html.escape(value)}{quiet}</td>'

    head = "".join(f"<th>{html.escape(column.name)}</th>" for column in answer.columns)
    body = "".join(f"<tr>{''.join(cell(*each) for each in cells)}</tr>" for cells in _rows(answer))
    note = html.escape(_caption(answer))
    return f'<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p style="opacity:.6">{note}</p>'


def _rows(answer: AnswerViews) -> Iterator[list[tuple[str, str]]]:
    """Yield the rows shown: for each cell its text and that of its interval, marked where its bias may exceed it."""
    finished = answer.finished
    for cells, marks in zip(answer.displayed(rows=MOST_SHOWN), finished.marked(rows=MOST_SHOWN), strict=True):
        row = []
        for (value, ends), column, known, mark in zip(cells, answer.columns, finished.has_interval, marks, strict=True):
            text, spread = _cell(value, ends, column.type, known)
            row.append((text, spread + _MARK if mark else spread))
        yield row


def _cell(value: Value | None, ends: tuple[Value | None, Value | None], kind: SqlType, known: bool) -> tuple[str, str]:
    low, high = ends
    if not known:
        return format_key(value, kind), ""
    if low is None or high is None:
        return format_value(value, kind), " (no bound)"
    if value is None or not kind.is_numeric:
        return format_value(value, kind), f" ({format_ends(low, high, kind)})"
    below, above = ordinal(value, kind) - ordinal(low, kind), ordinal(high, kind) - ordinal(value, kind)
    widest = max(below, above)
    if widest > _HUGE:
        return format_value(value, kind), " (no bound)"
    if not widest and kind.kind is Kind.DOUBLE:
        # A median on a coarse grid, whose interval is a single step.
        return f"{float(ordinal(value, kind)):,.12g}", " ± 0"
    text = format_value(value, kind, widest)
    if above - below <= widest / 20 and below - above <= widest / 20:
        return text, f" ± {_number(widest, kind, widest)}"
    low_text, high_text = (_number(ordinal(end, kind), kind, widest) for end in (low, high))
    return text, f" ({low_text} to {high_text})"


def format_ends(low: Value, high: Value, kind: SqlType) -> str:
    """Format the interval of a NULL or of a value that is no number; ``no bound`` for all values of a type."""
    width = ordinal(high, kind) - ordinal(low, kind) if kind.is_numeric else None
    if width is not None and (width > _HUGE or (kind.kind is Kind.INTEGER and width >= 2**63)):
        return "no bound"
    return f"{format_value(low, kind, width)} to {format_value(high, kind, width)}"


def format_key(value: Value | None, kind: SqlType) -> str:
    """Format a value without noise: integers without thousands separators, because they may be years or codes."""
    text = format_value(value, kind)
    return text.replace(",", "") if kind.kind is Kind.INTEGER else text


def format_value(value: Value | None, kind: SqlType, spread: Fraction | None = None) -> str:
    """Format a value for display; doubles with the number of digits that ``spread`` justifies."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, Fraction, float)):
        return _number(Fraction(value), kind, spread)
    # A group key found in the data may hold control characters that steer a terminal.
    return "".join(sign if sign.isprintable() else "·" for sign in str(plain(value, kind)))


def _number(place: Fraction, kind: SqlType, spread: Fraction | None) -> str:
    if kind.kind is Kind.INTEGER:
        return f"{math.floor(place + Fraction(1, 2)):,}"
    if kind.kind is Kind.DECIMAL:
        return f"{Decimal(int(place * 10**kind.scale)).scaleb(-kind.scale):,}"
    number = float(place)
    if abs(number) >= 1e15:
        return f"{number:.4g}"
    # Three significant digits of the spread, or of the number where the spread is unknown.
    size = float(spread) if spread else abs(number) / 1000
    digits = 6 if not size else min(max(2 - math.floor(math.log10(size)), 0), 12)
    return f"{number:,.{digits}f}"


def cut_note(answer: AnswerViews) -> str:
    """Return the number of rows a table does not show, such as ``9,939 more rows.``; empty where it shows all."""
    rest = len(answer.finished.values) - MOST_SHOWN
    return f"{with_noun(rest, 'more row')}." if rest > 0 else ""


def has_marks(answer: AnswerViews) -> bool:
    """Return whether the bias of any displayed cell may exceed its interval."""
    return any(map(any, answer.finished.marked(rows=MOST_SHOWN)))


def _caption(answer: AnswerViews) -> str:
    words = [cut_note(answer), answer.note, answer.zeros_note, MARK_WORDS if has_marks(answer) else ""]
    return " ".join(filter(None, words))


def plot(answer: AnswerViews, column: str | None, confidence: Number | None, path: str | Path | None) -> Any:
    """Return an Altair chart of one column, or of all columns with an interval side by side; saved to ``path``."""
    alt = altair()
    able = [i for i, known in enumerate(answer.finished.has_interval) if known]
    names = [answer.columns[i].name for i in able]
    if not able:
        raise InputError("column", "the answer has no column with an interval to plot")
    if column is not None and column not in names:
        raise InputError("column", f"must be one of {', '.join(names)}; got {column!r}")
    chosen = able if column is None else [able[names.index(column)]]
    charts = [_chart(answer, index, confidence) for index in chosen]
    chart = charts[0] if len(charts) == 1 else alt.hconcat(*charts)
    if path is not None:
        save_chart(chart, path)
    return offline(chart)


def _chart(answer: AnswerViews, index: int, confidence: Number | None) -> Any:
    column = answer.columns[index]
    labels = [i for i, c in enumerate(answer.columns) if not answer.finished.has_interval[i] and i != index]
    records = []
    for cells in answer.displayed(confidence):
        value, (low, high) = cells[index]
        group = ", ".join("NULL" if cells[i][0] is None else str(cells[i][0]) for i in labels)
        places = {"value": _place(value), "low": _place(low), "high": _place(high)}
        records.append({"group": visible(group) or "all", **places})
    kind: Literal["temporal", "quantitative"] = "temporal" if column.type.is_temporal else "quantitative"
    title = ", ".join(answer.columns[i].name for i in labels)
    drawn = error_bars(records, x=title, y=column.name, kind=kind, counts=answer.finished.not_negative[index])
    return drawn.properties(title=answer.confidence_text(confidence))


def error_bars(
    records: list[dict[str, Any]],
    *,
    x: str,
    y: str,
    kind: Literal["temporal", "quantitative"] = "quantitative",
    counts: bool = False,
) -> Any:
    """Return an Altair chart: a point and an error bar for each record of ``group``, ``value``, ``low``, ``high``."""
    alt = altair()
    base = alt.Chart(alt.InlineData(values=records)).encode(
        x=alt.X("group", type="nominal", sort=None, title=x or None)
    )
    # The axis of counts and their sums begins at 0; other axes too, unless that would press all points together.
    ends = [end for each in records for end in (each["low"], each["high"]) if isinstance(end, float)] or [0.0]
    spread = 2 * (max(ends) - min(ends))
    is_far = kind == "quantitative" and not counts and (min(ends) > spread or max(ends) < -spread)
    scale = alt.Scale(zero=not is_far and kind == "quantitative")
    y = f"{y} (axis not from 0)" if is_far else y
    bars = base.mark_rule(strokeWidth=2, opacity=0.6).encode(y=alt.Y("low", type=kind, title=y, scale=scale), y2="high")
    points = base.mark_point(filled=True, size=60, opacity=1).encode(y=alt.Y("value", type=kind, scale=scale))
    return (bars + points).properties(width=alt.Step(40), height=260)


def _place(value: Value | None) -> float | str | None:
    if isinstance(value, dt.date):
        return value.isoformat()
    return None if value is None or isinstance(value, str) else float(value)


def _not_below(value: Value | None) -> Value | None:
    return type(value)(0) if isinstance(value, (int, float, Fraction)) and value < 0 else value


def _shown_end(value: Value | None, end: Value | None) -> Value | None:
    """Return the upper end for display: as far above 0 as the value is below, where noise moved the interval below 0.

    Such a count would else be shown as 0 ± 0, as if it were exact.
    """
    numbers = isinstance(value, (int, float, Fraction)) and isinstance(end, (int, float, Fraction))
    return -value if numbers and value < 0 >= end else end  # type: ignore[operator]


class AnswerRows(Protocol):
    """Released values with their intervals, wherever they were computed."""

    @property
    def columns(self) -> tuple[OutputColumn, ...]:
        """Name, type and noisiness of each column."""

    @property
    def values(self) -> tuple[tuple[Value | None, ...], ...]:
        """The released values, one tuple per row."""

    @property
    def has_interval(self) -> tuple[bool, ...]:
        """Whether each column has an interval."""

    @property
    def not_negative(self) -> tuple[bool, ...]:
        """Whether the true values of each column are certainly 0 or more, even where a noisy value is negative."""

    @property
    def confidence(self) -> Fraction:
        """Default confidence of the intervals, a probability."""

    @property
    def bias(self) -> Bias | None:
        """Estimate of clipping and truncation bias; None where there can be none, or with ``bias_share = 0``."""

    def intervals(
        self, confidence: Number | None = None, *, rows: int | None = None, bias: bool | None = None
    ) -> tuple[tuple[Ends, ...], ...]:
        """Return the interval of each cell (of the first ``rows``), at ``confidence`` or at the default."""

    def marked(self, *, rows: int | None = None) -> tuple[tuple[bool, ...], ...]:
        """Return whether the bias of each cell (of the first ``rows``) may exceed its interval."""


_NO_ROW: Final = (
    "No row is left: groups with too few people to be shown at this cost are left out, and so is what HAVING or LIMIT "
    "takes away. A higher cost, larger groups or declared categories show more."
)


class AnswerViews:
    """Views of an answer as text, tables, frames and charts; subclasses hold its rows and its charge."""

    if TYPE_CHECKING:

        @property
        def finished(self) -> AnswerRows:
            """The rows."""

        @property
        def charge(self) -> Entry:
            """Ledger entry of the charge."""

        @property
        def receipt(self) -> Receipt | None:
            """The signed statement of what was released and charged."""

    @property
    def columns(self) -> tuple[OutputColumn, ...]:
        """Name, type and noisiness of each column."""
        return self.finished.columns

    @property
    def bounds(self) -> tuple[Found, ...]:
        """The clipping bounds that AUTO found, as released; empty without AUTO."""
        return ()

    @property
    def limits(self) -> FoundLimits | None:
        """The ``max_groups`` and ``max_rows`` that AUTO found, as released; None without AUTO."""
        return None

    @property
    def is_public(self) -> bool:
        """Whether the query reads public tables alone: the values are exact, and nothing was charged."""
        return self.charge.public

    def displayed(
        self, confidence: Number | None = None, *, rows: int | None = None
    ) -> list[list[tuple[Value | None, Ends]]]:
        """Return the cells (of the first ``rows``) with their intervals as displays show them: no count is below 0.

        Released values add up without bias, which is why frames, files and JSON always hold them.
        """
        values, ends = self.finished.values[:rows], self.finished.intervals(confidence, rows=rows)
        return [
            [
                (_not_below(value), (_not_below(pair[0]), _not_below(_shown_end(value, pair[1]))))
                if cut
                else (value, pair)
                for value, pair, cut in zip(row, pairs, self.finished.not_negative, strict=True)
            ]
            for row, pairs in zip(values, ends, strict=True)
        ]

    @property
    def zeros_note(self) -> str:
        """Sentence that says negative counts are displayed as 0; empty where there are none."""
        cut = [i for i, known in enumerate(self.finished.not_negative) if known]
        negative = any(_not_below(row[i]) != row[i] for row in self.finished.values for i in cut)
        return "Negative counts and sums are shown as 0; to_arrow and files have them as released." if negative else ""

    @property
    def bias(self) -> Bias | None:
        """Estimated shares of people affected by contribution bounds, clipping bounds and listed keys, a sentence each.

        None where there can be no bias, or where the query was asked with ``bias_share = 0``.
        """
        return self.finished.bias

    def to_arrow(self) -> pa.Table:
        """Return the values as an Arrow table; needs the extra ``arrow``, as do frames made from it."""
        return to_arrow([c.name for c in self.columns], [c.type for c in self.columns], self.finished.values)

    def to_polars(self) -> pl.DataFrame:
        """Return the values as a Polars frame; needs ``polars``."""
        library = load_frames("polars")
        frame = library.from_arrow(self.to_arrow())
        made: pl.DataFrame = frame if isinstance(frame, library.DataFrame) else frame.to_frame()
        return made

    def to_pandas(self) -> pd.DataFrame:
        """Return the values as a pandas frame; needs ``pandas``."""
        load_frames("pandas")
        return self.to_arrow().to_pandas()

    def intervals(self, confidence: Number | None = None, *, bias: bool | None = None) -> pa.Table:
        """Return the answer with two more columns, ``…_low`` and ``…_high``, after each noisy column.

        Each interval contains its true value with probability ``confidence`` (by default that of the query) over the
        noise. By default it includes the estimated bound on the bias (:attr:`bias`) where that makes it less than
        three times as wide, and else what is sure of it; with ``bias=True`` it always includes the bound. With
        ``bias=False`` it covers the noise alone: the true value is then that of values clamped to their bounds and
        rounded to their step, over the groups that were kept. Any confidence may be asked for, any number of times,
        free; over HTTP with the query itself, asked again.

        Raises:
            InputError: ``bias`` is asked for, and the query was asked with ``bias_share = 0``.
        """
        show_arrow()
        return to_arrow(*self.interval_rows(confidence, bias=bias))

    def interval_rows(
        self, confidence: Number | None = None, *, bias: bool | None = None
    ) -> tuple[list[str], list[SqlType], list[list[Value | None]]]:
        """Return the column names, types and rows of :meth:`intervals` as Python values; needs no Arrow."""
        names: list[str] = []
        kinds: list[SqlType] = []
        rows: list[list[Value | None]] = [[] for _ in self.finished.values]
        ends = self.finished.intervals(confidence, bias=bias)
        for i, column in enumerate(self.columns):
            known = self.finished.has_interval[i]
            names += [column.name, *([f"{column.name}_low", f"{column.name}_high"] if known else [])]
            kinds += [column.type] * (3 if known else 1)
            for row, values, pairs in zip(rows, self.finished.values, ends, strict=True):
                row += [values[i], *(pairs[i] if known else ())]
        return names, kinds, rows

    def plot(
        self, column: str | None = None, *, confidence: Number | None = None, path: str | Path | None = None
    ) -> Any:
        """Return an Altair chart with error bars; ``path`` saves it as SVG, PNG, HTML or JSON, by its ending."""
        return plot(self, column, confidence, path)

    def notebook(self, path: str | Path) -> None:
        """Write a Jupyter notebook with query, cost, table with intervals, plot, receipt and how to verify the receipt.

        The notebook needs neither the server nor the data, and only the standard library.
        """
        target = Path(path)
        if target.suffix != ".ipynb":
            raise InputError("path", "must end in .ipynb")
        target.write_bytes(self.to_notebook())

    def to_notebook(self) -> bytes:
        """Return the bytes of the file that :meth:`notebook` writes."""
        return answers_notebook("An answer with noise", {"answer": self}, self.receipt, {"answer": self.charge.sql})

    def confidence_text(self, confidence: Number | None = None) -> str:
        """Return a label such as ``95% intervals``."""
        level = self.finished.confidence if confidence is None else exact_probability(confidence, "confidence")
        return f"{float_nearest(100 * level):.6g}% intervals"

    def found_text(self) -> str:
        """Return sentences with the contribution bounds and the clipping bounds that AUTO found; empty without AUTO."""
        limits = "" if self.limits is None else f"Limits found: {self.limits}. "
        return limits + (f"Clipping bounds found by AUTO: {'; '.join(map(str, self.bounds))}. " if self.bounds else "")

    @property
    def note(self) -> str:
        """Sentences about the cost of the answer and the meaning of its intervals."""
        return f"{self.charge.text}. {self.meaning}"

    @property
    def meaning(self) -> str:
        """Sentences about the meaning of the intervals and the errors that they do not cover."""
        if self.charge.note:
            return self.charge.note
        if self.is_public:
            return "The values are exact: they hold no noise and tell nothing about people."
        if not self.finished.values:
            return _NO_ROW
        if self.bias is None:
            return f"{self.found_text()}{self.confidence_text()} over the noise, without clipping and truncation bias."
        return " ".join(filter(None, [f"{self.found_text()}{self.confidence_text()} over the noise.", str(self.bias)]))

    def __len__(self) -> int:
        return len(self.finished.values)

    def __str__(self) -> str:
        return text_table(self)

    def __repr__(self) -> str:
        names = ", ".join(column.name for column in self.columns)
        lost = "" if self.bias is None else "".join(f"; {cause}" for cause in self.bias.seen)
        return f"<{type(self).__name__} {len(self)} rows: {names}; {self.charge.text}{lost}>"

    def __rich__(self) -> Any:
        return rich_answer(self)

    def _repr_html_(self) -> str:
        return html_table(self)


@dataclass(frozen=True, eq=False, repr=False)
class Answer(AnswerViews):
    """Answer to a query: a table of noisy values with an interval for every number.

    It is post-processing: computed from noisy integers, public or privately selected keys, and public parameters alone.

    Args:
        finished: rows of noisy values with their intervals.
        plan: plan of the query with its cost; None for a query about public tables alone.
        charge: ledger entry of the charge; nothing for a repeated query.
        receipt: signed statement of what was released and charged; a repeated query has the receipt of the first
            release, signed anew where its text differs. None for a query about public tables alone: nothing private was
            released.
    """

    finished: Finished
    plan: Plan | None
    charge: Entry
    receipt: Receipt | None

    @property
    def paid(self) -> tuple[Plan, Receipt]:
        """The plan and the receipt of an answer about people.

        Raises:
            InputError: the answer is about public tables alone and has neither.
        """
        if self.plan is None or self.receipt is None:
            raise InputError("receipt", "there is none: the query reads public tables alone, and nothing was charged")
        return self.plan, self.receipt

    @property
    def bounds(self) -> tuple[Found, ...]:
        """The clipping bounds that AUTO found, as released; empty without AUTO."""
        return () if self.plan is None else tuple(found for part in self.plan.parts for found in part.found)

    @property
    def limits(self) -> FoundLimits | None:
        """The ``max_groups`` and ``max_rows`` that AUTO found for the first part, as released; None without AUTO."""
        return None if self.plan is None else self.plan.limits

    def found_text(self) -> str:
        """Return sentences with the bounds that AUTO found; for further parts of the query, with the part's number."""
        told = super().found_text()
        for number, part in enumerate(() if self.plan is None else self.plan.others, 2):
            told += "" if part.limits is None else f"Limits found for part {number}: {part.limits}. "
        return told


class QuoteForms:
    """Views of a quote as text, JSON and HTML, shared by local and remote quotes."""

    explanation: Explanation

    @property
    def is_public(self) -> bool:
        """Whether the query reads public tables alone, and so is answered exactly and free."""
        return self.explanation.public

    @property
    def charge(self) -> str:
        return self.explanation.charge

    def to_json(self) -> str:
        """Return the quote as JSON with stable keys and exact numbers as strings."""
        return self.explanation.to_json()

    def __str__(self) -> str:
        return str(self.explanation)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.charge}>"

    def _repr_html_(self) -> str:
        return quote_html(self.explanation)
