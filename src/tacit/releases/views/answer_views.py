"""Conversions of an answer shared by local and remote answers: frames, intervals, charts, text."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from tacit.core.extras import load_frames
from tacit.core.numbers import Number, exact_probability, float_nearest
from tacit.query.postprocess.cells import Ends
from tacit.query.question import OutputColumn
from tacit.query.types import SqlType, Value
from tacit.releases.notebook_tables import show_arrow
from tacit.releases.views.answer_charts import plot
from tacit.releases.views.answer_text import html_table, rich_answer, text_table
from tacit.releases.views.arrow_tables import to_arrow

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from tacit.query.planning.auto_bounds import Found
    from tacit.query.planning.auto_limits import FoundLimits
    from tacit.query.postprocess.bounding_loss import LeftOut
    from tacit.releases.accounts import Entry


def _from_zero(value: Value | None, ends: Ends) -> tuple[Value | None, Ends]:
    """A cell whose truth is not negative, with 0 in place of what is."""
    low, high = ends
    return _not_below(value), (_not_below(low), _not_below(high))


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
    def left_out(self) -> LeftOut | None:
        """Estimate of what bounding left out, where anything can be and it was bought."""

    def intervals(
        self, confidence: Number | None = None, *, rows: int | None = None, bias: bool = False
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
                _from_zero(value, pair) if cut else (value, pair)
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
    def left_out(self) -> LeftOut | None:
        """Estimated shares of people of whom limits, bounds and listed keys left something out, with a sentence each.

        None where nothing can be left out, or where the question was asked with ``bias_share = 0``.
        """
        return self.finished.left_out

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

    def intervals(self, confidence: Number | None = None, *, bias: bool = False) -> pa.Table:
        """The answer with two more columns, ``…_low`` and ``…_high``, after each that carries noise.

        Each interval contains its true value with the confidence asked (by default that of the question),
        over the noise. It speaks of values clamped to their bounds and rounded to their step, and of the groups that
        were kept: clipping and dropped groups are not in it, unless ``bias`` widens it by the estimated bound of what
        was left out (:attr:`left_out`). Any confidence may be asked for, any number of times, free.

        Raises:
            InputError: ``bias`` is asked for, and the question was asked with ``bias_share = 0``.
        """
        show_arrow()
        return to_arrow(*self.interval_rows(confidence, bias=bias))

    def interval_rows(
        self, confidence: Number | None = None, *, bias: bool = False
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
        if self.left_out is None:
            return f"{self.found_text()}{self.confidence_text()} over the noise, without clipping and truncation bias."
        return " ".join(
            filter(None, [f"{self.found_text()}{self.confidence_text()} over the noise.", str(self.left_out)])
        )

    def __len__(self) -> int:
        return len(self.finished.values)

    def __str__(self) -> str:
        return text_table(self)

    def __repr__(self) -> str:
        names = ", ".join(column.name for column in self.columns)
        lost = "" if self.left_out is None else "".join(f"; {cause}" for cause in self.left_out.seen)
        return f"<{type(self).__name__} {len(self)} rows: {names}; {self.charge.text}{lost}>"

    def __rich__(self) -> Any:
        return rich_answer(self)

    def _repr_html_(self) -> str:
        return html_table(self)
