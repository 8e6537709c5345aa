"""Sessions of counting queries: any number of them, of which only the hard ones are paid for.

A session keeps the exact counts of some columns in this process and a public histogram of them. It is private
multiplicative weights, part by part: each part is charged before it begins, answers queries from the histogram as long
as that is close to the truth, and ends with the first query on which it is not.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.charges.accounts import Entry
from tacit.charges.failures import hide_internal_errors
from tacit.charges.payment import Caller, CuratorContext
from tacit.core.errors import InputError
from tacit.core.events import PureEvent
from tacit.core.numbers import Number, check_count, exact_positive
from tacit.mechanisms.laplace import Laplace
from tacit.paid_work.marginal_counts import MarginalCounts, countable_rows
from tacit.paid_work.mechanism_release import charge_directly
from tacit.synth.multiplicative_weights import HardQuery, PublicWeights, QueryStream

__all__ = ["QuerySession"]

#: Cells of a session, all of which every query reads.
_MOST_CELLS: Final = 100_000


class QuerySession:
    """A stream of counting queries about some columns; made by :meth:`tacit.curator.curator.Curator.query_session`.

    >>> session = curator.query_session("visits", ["ward", "sex"], epsilon="0.1", threshold=50)  # doctest: +SKIP
    >>> session.ask({"ward": ["A", "B"], "sex": "f"}).answer  # doctest: +SKIP

    Args:
        context: ledger, engine and metadata.
        source: a table or a SELECT of rows.
        columns: with public values; their cross product are the cells.
        epsilon: price of each part, and of the number of rows.
        threshold: error of an answer that is let pass.
        caller: who asks.

    Raises:
        Refusal, InputError: the columns cannot be counted, or a person may have several rows; nothing is charged.
        BudgetError: the account does not allow the charge.
    """

    def __init__(
        self,
        context: CuratorContext,
        source: str,
        columns: Sequence[str],
        *,
        epsilon: Number,
        threshold: int,
        caller: Caller,
    ) -> None:
        with hide_internal_errors():
            self._context, self._caller = context, caller
            self._counts = _one_row_each(context, source, columns)
            self._epsilon = exact_positive(epsilon, "epsilon")
            self._threshold = check_count(threshold, "threshold", maximum=2**40)
            self._label = f"query session about {', '.join(self._counts.sizes)} of {source}"[:150]
            self._lock = threading.Lock()
            self._part: QueryStream | None = None
            self.charges: list[Entry] = []
            self._relation = context.catalog.population(self._counts.population).relation
            counted = Laplace(epsilon=self._epsilon, l1_sensitivity=1, relation=self._relation)
            self._pay(self._epsilon, "number of rows")
            names = tuple(self._counts.sizes)
            self._raw: NDArray[np.int64] = self._counts.count(context, [names])[names].ravel()
            self._weights = PublicWeights(self._raw.size, max(1, int(counted.release(int(self._raw.sum())))))

    @property
    def hard(self) -> int:
        """Number of queries that data had to answer."""
        begun = len(self.charges) - 1
        return begun - (self._part is not None and not self._part.ended)

    def histogram(self) -> Any:
        """The public histogram as it is now, an Arrow table: values and expected count of each cell; free."""
        import pyarrow as pa

        cells = list(itertools.product(*(column.values for column in self._counts.columns.values())))
        made = {name: [cell[place] for cell in cells] for place, name in enumerate(self._counts.sizes)}
        return pa.table(made | {"count": self._weights.histogram})

    def ask(self, where: Mapping[str, Any]) -> HardQuery:
        """About how many rows have one of some values in each of some columns.

        A part is charged where none is open: at the first query, and at the first one after a hard one.

        Args:
            where: a value or a list of values by column; columns that are left out may have any.

        Raises:
            InputError: a column or a value is unknown; nothing is charged.
            BudgetError: the account does not allow another part.
        """
        with hide_internal_errors(), self._lock:
            query = self._query(where)
            if self._part is None or self._part.ended:
                self._pay(self._epsilon, f"part {len(self.charges)}")
                self._part = QueryStream(
                    epsilon=self._epsilon,
                    counts=self._raw,
                    weights=self._weights,
                    threshold=self._threshold,
                    relation=self._relation,
                )
            return self._part.ask(query)

    def error(self, beta: Number, queries: int) -> float:
        """Bound on the errors of so many answers of one part, exceeded with probability at most ``beta``."""
        zeros = np.zeros(self._raw.size, dtype=np.int64)
        like = QueryStream(
            epsilon=self._epsilon, counts=zeros, weights=self._weights, threshold=self._threshold,
            relation=self._relation,
        )  # fmt: skip
        return like.error(beta, queries)

    def _pay(self, epsilon: Any, about: str) -> None:
        event = PureEvent(epsilon, "query_stream", relation=self._relation)
        label = f"{self._label}: {about}"
        paid = charge_directly(self._context, self._counts.population, event, label, self._caller)
        self.charges.append(paid.charge)

    def _query(self, where: Mapping[str, Any]) -> NDArray[np.int64]:
        if not isinstance(where, Mapping):
            raise InputError("where", "must be values by column, such as {'sex': 'f'}")
        given = {str(name).lower(): value for name, value in where.items()}
        for name in given:
            if name not in self._counts.columns:
                raise InputError("where", f"{name[:63]!r} is not a column of the session")
        axes = []
        for name, column in self._counts.columns.items():
            chosen = np.ones(len(column.values), dtype=np.int64)
            if name in given:
                wanted = given[name] if isinstance(given[name], list | tuple | set | range) else [given[name]]
                for each in wanted:
                    if each not in column.values:
                        raise InputError("where", f"{str(each)[:63]!r} is not a declared value of {name}")
                chosen = np.array([value in wanted for value in column.values], dtype=np.int64)
            axes.append(chosen)
        cells = axes[0]
        for axis in axes[1:]:
            cells = np.multiply.outer(cells, axis)
        return np.asarray(cells.ravel())


def _one_row_each(context: CuratorContext, source: str, columns: Sequence[str]) -> MarginalCounts:
    if not isinstance(source, str):
        raise InputError("source", f"must be the name of a table or a SELECT of rows, not {type(source).__name__}")
    if isinstance(columns, str) or not columns:
        raise InputError("columns", "must be a list of names of columns")
    counts = countable_rows(context, source, columns, max_rows=1)
    cells = 1
    for size in counts.sizes.values():
        cells *= size
    if cells > _MOST_CELLS:
        raise InputError("columns", f"have {cells:,} combinations of values, and a session may have {_MOST_CELLS:,}")
    counts.check(context, [tuple(counts.sizes)])
    return counts
