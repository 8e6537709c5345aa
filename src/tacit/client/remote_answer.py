"""Answer and quote received from a server, with numbers read exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

from tacit.client.client_errors import RemoteError
from tacit.client.responses import AnswerTableResponse
from tacit.core.errors import InputError
from tacit.core.guarantees import Guarantee
from tacit.core.numbers import Number, exact_probability
from tacit.query.planning.explain import Explanation
from tacit.query.postprocess.bounding_bias import Bias
from tacit.query.postprocess.cells import Ends, as_shown
from tacit.query.query import OutputColumn
from tacit.query.types import Value
from tacit.releases.accounts import Entry
from tacit.releases.answer import AnswerViews
from tacit.releases.planner import QuoteForms
from tacit.releases.receipt import Receipt


@dataclass(frozen=True)
class RemoteRows:
    """The rows of an answer, with intervals at one confidence; others are asked for when they are needed.

    Args:
        columns: name, type, and whether there is an interval.
        values: row by row.
        ends: the interval of each cell.
        confidence: of the intervals.
        again: asks for the intervals at another confidence.
        biased: the interval of each cell that includes the bias.
        marks: whether that may exceed the interval, for each cell.
        bias: the estimate of it; None where nothing can be left out, or it was not bought.
        estimated: False where it was not bought.
    """

    columns: tuple[OutputColumn, ...]
    values: tuple[tuple[Value | None, ...], ...]
    ends: tuple[tuple[Ends, ...], ...] = field(repr=False)
    confidence: Fraction
    again: Callable[[Fraction], RemoteRows] = field(repr=False)
    biased: tuple[tuple[Ends, ...], ...] = field(default=(), repr=False)
    marks: tuple[tuple[bool, ...], ...] = field(default=(), repr=False)
    bias: Bias | None = None
    estimated: bool = True
    _others: dict[Fraction, RemoteRows] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, table: AnswerTableResponse, again: Callable[[Fraction], RemoteRows]) -> RemoteRows:
        """The rows of the table that a server sent."""
        columns, cells, confidence = table.to_domain()
        values = tuple(tuple(cell.value for cell in row) for row in cells)
        ends = tuple(tuple(cell.ends for cell in row) for row in cells)
        biased = tuple(tuple(cell.biased for cell in row) for row in cells)
        bias = None if table.bias is None else table.bias.to_domain()
        marks = tuple(tuple(cell.marked for cell in row) for row in cells)
        known = "bias" in table.model_fields_set
        return cls(columns, values, ends, confidence, again, biased, marks, bias, known)

    @property
    def has_interval(self) -> tuple[bool, ...]:
        """Which columns have an interval."""
        return tuple(column.noisy for column in self.columns)

    @property
    def not_negative(self) -> tuple[bool, ...]:
        """Which columns are 0 or more for certain; none for a server that does not say."""
        lows = (column.domain.range.low for column in self.columns)
        return tuple(low is not None and low >= 0 for low in lows)

    def intervals(
        self, confidence: Number | None = None, *, rows: int | None = None, bias: bool | None = None
    ) -> tuple[tuple[Ends, ...], ...]:
        """For each cell (of the first ``rows``) its interval; ``bias`` as for :meth:`Finished.intervals`."""
        if bias is None:
            plain = self.intervals(confidence, rows=rows, bias=False)
            if self.bias is None:
                return plain
            wide = self.intervals(confidence, rows=rows, bias=True)
            return as_shown(plain, wide, [column.type for column in self.columns])
        if bias and not self.estimated:
            raise InputError("bias", "is not known: the server did not estimate the bias")
        wanted = self.confidence if confidence is None else exact_probability(confidence, "confidence")
        if wanted == self.confidence:
            return (self.biased if bias else self.ends)[:rows]
        if wanted not in self._others:
            self._others[wanted] = self._checked(self.again(wanted), wanted)
        return self._others[wanted].intervals(rows=rows, bias=bias)

    def marked(self, *, rows: int | None = None) -> tuple[tuple[bool, ...], ...]:
        """For each cell (of the first ``rows``) whether its bias may exceed its interval."""
        return self.marks[:rows]

    def _checked(self, other: RemoteRows, wanted: Fraction) -> RemoteRows:
        if other.confidence != wanted:
            raise InputError("confidence", "is stated in the query itself; take it out there to ask for another")
        if (other.columns, other.values) != (self.columns, self.values):
            raise RemoteError("asked for other intervals of the same answer, the server gave another answer")
        return other


@dataclass(frozen=True, eq=False, repr=False)
class RemoteAnswer(AnswerViews):
    """The answer of a server; its receipt was checked against the pinned key.

    Args:
        finished: the rows.
        charge: what the account was charged; nothing for a repeated query.
        receipt: the signed statement of what was released and charged; for a repeated query that of the first time;
            None where the server says that public tables alone were asked about.
        said: the note of the server about the numbers, such as the bounds that AUTO found.
        as_released: whether displays show negative counts; see :attr:`raw`.
    """

    finished: RemoteRows
    charge: Entry
    receipt: Receipt | None
    said: str = ""
    as_released: bool = False

    @property
    def note(self) -> str:
        """The cost of the numbers and the meaning of their intervals, in a sentence each."""
        return f"{self.charge.text}. {self.said}" if self.said else super().note


@dataclass(frozen=True, repr=False)
class RemoteQuote(QuoteForms):
    """Effect and price of a query, as a server states them: ``str`` for people, :meth:`to_json` for programs.

    Args:
        explanation: protected tables, each release with its noise, the price and the errors.
        guarantee: the charge of the account.
        queries_left: how many more such queries fit.
        leaves_after: seconds after which a fresh answer leaves the server.
    """

    explanation: Explanation
    guarantee: Guarantee
    queries_left: int | None
    leaves_after: float
