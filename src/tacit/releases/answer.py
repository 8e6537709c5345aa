"""Answers: noisy values with their intervals, as text, tables, frames and charts.

:class:`AnswerViews` has the views that local and remote answers share; :class:`Answer` adds plan, charge and receipt.
"""

from __future__ import annotations

import datetime as dt
import html
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self

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
    """A value as people and Arrow write it: decimals become :class:`decimal.Decimal`, exactly."""
    if kind.kind is Kind.DECIMAL and isinstance(value, (int, Fraction)):
        return Decimal(int(value * 10**kind.scale)).scaleb(-kind.scale)
    return value


def to_arrow(names: Sequence[str], kinds: Sequence[SqlType], rows: Sequence[Sequence[Value | None]]) -> pa.Table:
    pa = load_arrow()

    arrays = [pa.array([plain(row[i], kind) for row in rows], type=arrow_type(kind)) for i, kind in enumerate(kinds)]
    return pa.Table.from_arrays(arrays, names=list(names))


MOST_SHOWN = 60
#: After a number whose bias may exceed its interval.
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
    """The table of an answer and the note about it; not as a caption, which would be as narrow as the table."""
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
    """Answer as HTML for a notebook; every text is escaped."""

    def cell(value: str, spread: str) -> str:
        quiet = f'<span style="opacity:.6">{html.escape(spread)}</span>' if spread else ""
        return f'<td style="text-align:right">{html.escape(value)}{quiet}</td>'

    head = "".join(f"<th>{html.escape(column.name)}</th>" for column in answer.columns)
    body = "".join(f"<tr>{''.join(cell(*each) for each in cells)}</tr>" for cells in _rows(answer))
    note = html.escape(_caption(answer))
    return f'<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p style="opacity:.6">{note}</p>'


def _rows(answer: AnswerViews) -> Iterator[list[tuple[str, str]]]:
    """Texts of each cell shown and of its interval, with the mark where its bias may exceed that."""
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
    rest = len(answer.finished.values) - MOST_SHOWN
    return f"{with_noun(rest, 'more row')}." if rest > 0 else ""


def has_marks(answer: AnswerViews) -> bool:
    """Whether a cell of the table has the mark."""
    return any(map(any, answer.finished.marked(rows=MOST_SHOWN)))


def _caption(answer: AnswerViews) -> str:
    words = [cut_note(answer), answer.note, answer.zeros_note, MARK_WORDS if has_marks(answer) else ""]
    return " ".join(filter(None, words))


def plot(answer: AnswerViews, column: str | None, confidence: Number | None, path: str | Path | None) -> Any:
    """An Altair chart of one column, or of all that have an interval side by side; saved when ``path`` is given."""
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
    """A point with an error bar for each record, which has a group, a value and both ends."""
    alt = altair()
    base = alt.Chart(alt.InlineData(values=records)).encode(
        x=alt.X("group", type="nominal", sort=None, title=x or None)
    )
    # Counts and their sums from 0; others too, unless that would press all points together: then the axis says so.
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


class AnswerRows(Protocol):
    """Released values with their intervals, wherever they were computed."""

    @property
    def columns(self) -> tuple[OutputColumn, ...]:
        """Name, type and noisiness of each column."""

    @property
    def values(self) -> tuple[tuple[Value | None, ...], ...]:
        """The released values, row by row."""

    @property
    def has_interval(self) -> tuple[bool, ...]:
        """Which columns have an interval."""

    @property
    def not_negative(self) -> tuple[bool, ...]:
        """Which columns are 0 or more for certain, whatever the noise says."""

    @property
    def confidence(self) -> Fraction:
        """Of the intervals, unless another is asked for."""

    @property
    def bias(self) -> Bias | None:
        """Estimate of what bounding left out, where anything can be and it was bought."""

    def intervals(
        self, confidence: Number | None = None, *, rows: int | None = None, bias: bool | None = None
    ) -> tuple[tuple[Ends, ...], ...]:
        """Interval of each cell (of the first ``rows``), at that confidence or at another."""

    def marked(self, *, rows: int | None = None) -> tuple[tuple[bool, ...], ...]:
        """Whether the bias of each cell (of the first ``rows``) may exceed its interval."""


_NO_ROW: Final = (
    "No row is left: groups with too few people to be shown at this cost are left out, and so is what HAVING or LIMIT "
    "takes away. A higher cost, larger groups or declared categories show more."
)


class AnswerViews:
    """Views of rows and a charge; subclasses have both."""

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
        def as_released(self) -> bool:
            """Whether displays show the released values, and negative counts with them."""

    @property
    def columns(self) -> tuple[OutputColumn, ...]:
        """Name, type and noisiness of each column."""
        return self.finished.columns

    @property
    def bounds(self) -> tuple[Found, ...]:
        """The bounds that AUTO found, as released; empty without AUTO."""
        return ()

    @property
    def limits(self) -> FoundLimits | None:
        """The ``max_groups`` and ``max_rows`` that AUTO found, as released; None without AUTO."""
        return None

    @property
    def is_public(self) -> bool:
        """Whether public tables alone were asked about: the values are exact, and nothing was charged."""
        return self.charge.public

    @property
    def raw(self) -> Self:
        """The same answer, whose text, tables and charts show the released values, and negative counts with them.

        Released values add up without bias, which is why frames, files and JSON hold them in any case. A display is
        for reading: there a count below 0, and an end of its interval below 0, is shown as 0.
        """
        return replace(self, as_released=True)  # type: ignore[type-var]

    def displayed(
        self, confidence: Number | None = None, *, rows: int | None = None
    ) -> list[list[tuple[Value | None, Ends]]]:
        """Cells (of the first ``rows``) with their intervals as displays show them; see :attr:`raw`."""
        values, ends = self.finished.values[:rows], self.finished.intervals(confidence, rows=rows)
        at_least = [known and not self.as_released for known in self.finished.not_negative]
        return [
            [
                (_not_below(value), (_not_below(pair[0]), _not_below(pair[1]))) if cut else (value, pair)
                for value, pair, cut in zip(row, pairs, at_least, strict=True)
            ]
            for row, pairs in zip(values, ends, strict=True)
        ]

    @property
    def zeros_note(self) -> str:
        """A sentence about negative counts that a display shows as 0; empty where there are none."""
        cut = [i for i, known in enumerate(self.finished.not_negative) if known and not self.as_released]
        negative = any(_not_below(row[i]) != row[i] for row in self.finished.values for i in cut)
        return "Negative counts and sums are shown as 0; raw shows them as released." if negative else ""

    @property
    def bias(self) -> Bias | None:
        """Estimated shares of people of whom limits, bounds and listed keys left something out, with a sentence each.

        None where nothing can be left out, or where the query was asked with ``bias_share = 0``.
        """
        return self.finished.bias

    def to_arrow(self) -> pa.Table:
        """The values as an Arrow table; needs the extra ``arrow``, as do frames made from it."""
        return to_arrow([c.name for c in self.columns], [c.type for c in self.columns], self.finished.values)

    def to_polars(self) -> pl.DataFrame:
        """The values as a Polars frame; needs ``polars``."""
        library = load_frames("polars")
        frame = library.from_arrow(self.to_arrow())
        made: pl.DataFrame = frame if isinstance(frame, library.DataFrame) else frame.to_frame()
        return made

    def to_pandas(self) -> pd.DataFrame:
        """The values as a pandas frame; needs ``pandas``."""
        load_frames("pandas")
        return self.to_arrow().to_pandas()

    def intervals(self, confidence: Number | None = None, *, bias: bool | None = None) -> pa.Table:
        """The answer with two more columns, ``…_low`` and ``…_high``, after each that carries noise.

        Each interval contains its true value with the confidence asked (by default that of the query),
        over the noise. By default it allows for the estimated bound of what bounding left out (:attr:`bias`) where
        that makes it less than three times as wide; with ``bias`` True it does so always, with False it is of noise
        alone: of values clamped to their bounds and rounded to their step, and of the groups that were kept. Any
        confidence may be asked for, any number of times, free.

        Raises:
            InputError: ``bias`` is asked for, and the query was asked with ``bias_share = 0``.
        """
        show_arrow()
        return to_arrow(*self.interval_rows(confidence, bias=bias))

    def interval_rows(
        self, confidence: Number | None = None, *, bias: bool | None = None
    ) -> tuple[list[str], list[SqlType], list[list[Value | None]]]:
        """Names, types and rows of :meth:`intervals`, as values of Python; needs no Arrow."""
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
        """An Altair chart with error bars; ``path`` saves it as SVG, PNG, HTML or JSON, by its ending."""
        return plot(self, column, confidence, path)

    def notebook(self, path: str | Path) -> None:
        """Write a Jupyter notebook to take home: query, cost, table with intervals, plot, receipt and how to check it.

        It needs neither the server nor the data, and no library but the standard one.
        """
        target = Path(path)
        if target.suffix != ".ipynb":
            raise InputError("path", "must end in .ipynb")
        target.write_bytes(self.to_notebook())

    def to_notebook(self) -> bytes:
        """The content of :meth:`notebook`."""
        return answers_notebook("An answer with noise", {"answer": self}, self.receipt, {"answer": self.charge.sql})

    def confidence_text(self, confidence: Number | None = None) -> str:
        """Label such as ``95% intervals``."""
        level = self.finished.confidence if confidence is None else exact_probability(confidence, "confidence")
        return f"{float_nearest(100 * level):.6g}% intervals"

    def found_text(self) -> str:
        """The limits and bounds that AUTO found, in a sentence each that ends with a space; empty without any."""
        limits = "" if self.limits is None else f"Limits found: {self.limits}. "
        return limits + (f"Clipping bounds found by AUTO: {'; '.join(map(str, self.bounds))}. " if self.bounds else "")

    @property
    def note(self) -> str:
        """Cost of the numbers and meaning of their intervals, in a sentence each."""
        return f"{self.charge.text}. {self.meaning}"

    @property
    def meaning(self) -> str:
        """Meaning of the intervals, and what they do not cover, in a sentence each."""
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

    Everything in it has paid: it was computed from noisy integers, public keys and public parameters.

    Args:
        finished: the rows.
        plan: what was planned and priced; None for a query about public tables alone.
        charge: what the account was charged; nothing for a repeated query.
        receipt: the signed statement of what was released and charged; for a repeated query that of the first time.
            None for a query about public tables alone: nothing private was released, so there is nothing to state.
        as_released: whether displays show negative counts; see :attr:`raw`.
    """

    finished: Finished
    plan: Plan | None
    charge: Entry
    receipt: Receipt | None
    as_released: bool = False

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
        """The bounds that AUTO found, as released; empty without AUTO."""
        return () if self.plan is None else tuple(found for part in self.plan.parts for found in part.found)

    @property
    def limits(self) -> FoundLimits | None:
        """The ``max_groups`` and ``max_rows`` that AUTO found for the first part, as released; None without AUTO."""
        return None if self.plan is None else self.plan.limits

    def found_text(self) -> str:
        """Limits and bounds that AUTO found, those of further parts of the query with their number."""
        told = super().found_text()
        for number, part in enumerate(() if self.plan is None else self.plan.others, 2):
            told += "" if part.limits is None else f"Limits found for part {number}: {part.limits}. "
        return told


class QuoteForms:
    """Views of a quote, local or remote."""

    explanation: Explanation

    @property
    def is_public(self) -> bool:
        """Whether the query reads public tables alone, and so is answered exactly and charged nothing."""
        return self.explanation.public

    @property
    def charge(self) -> str:
        return self.explanation.charge

    def to_json(self) -> str:
        """Stable keys, exact numbers as text."""
        return self.explanation.to_json()

    def __str__(self) -> str:
        return str(self.explanation)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.charge}>"

    def _repr_html_(self) -> str:
        return quote_html(self.explanation)
