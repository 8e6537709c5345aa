"""Columns as DuckDB hands them over: by Arrow where it is installed, and otherwise as arrays of NumPy.

The only module of the array paths that knows which. Both hand over the same values, so the same integers come out.
Arrow's rows come batch by batch, and each batch is held once its texts are numbered. NumPy's come whole, each text as
an object; so they are counted first, and fetched only if there is room for them. Types that NumPy has not exactly
(numbers of more than 64 bits, decimals) are left to SQL.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core.extras import has_arrow
from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.duckdb.fast.array_totals import TooWideError

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from tacit.engines.duckdb.database import DuckDBSession

_BATCH = 2**17
_ITEMS = "tacit_items"
#: Types that arrive in an array of NumPy without loss.
_WHOLE = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "BOOLEAN"}
)
_EXACT = _WHOLE | {"VARCHAR", "DATE", "TIMESTAMP"}
#: Bytes of a text as an object beside its letters, and of each byte that DuckDB counts, at most.
_TEXT, _LETTER = 72, 4


class Encoded(NamedTuple):
    """Numbers of rows, chunk by chunk, among distinct values; NULL is one of them where a row has it."""

    numbers: list[NDArray[Any]]
    values: Distinct


def read_batches(session: DuckDBSession, sql: str, most_bytes: int) -> Iterator[HandedBatch]:
    """Rows of a statement.

    Raises:
        TooWideError: for more than may be held, or a type that cannot be handed over exactly.
    """
    if has_arrow():
        for batch in session.cursor.sql(sql).to_arrow_reader(_BATCH):
            session.check()
            yield _ArrowBatch(batch)
        return
    relation = session.cursor.sql(sql)
    names, kinds = relation.columns, list(map(str, relation.types))
    if not _EXACT.issuperset(kinds):
        raise TooWideError
    texts = [name for name, kind in zip(names, kinds, strict=True) if kind == "VARCHAR"]
    letters = [f"coalesce(sum(strlen({DUCKDB.quoted(name)})), 0)" for name in texts]
    ((rows, *lengths),) = session.rows(f"SELECT {', '.join(['count(*)', *letters])} FROM ({sql})")
    held = _LETTER * int(sum(lengths)) + rows * (8 * len(names) + _TEXT * len(texts))
    if held + 32 * rows > most_bytes:
        raise TooWideError
    session.check()
    found = session.cursor.execute(sql).fetchnumpy()
    session.check()
    pieces = [_Piece.of(found[name], kind) for name, kind in zip(names, kinds, strict=True)]
    if len(pieces[0].values):
        yield _PlainBatch(pieces, held)


def column_of(pieces: Sequence[Any]) -> HandedColumn:
    """A column of pieces that came in batches; there is one at least."""
    if isinstance(pieces[0], _Piece):
        return _PlainColumn(list(pieces))
    import pyarrow as pa

    return _ArrowColumn(pa.chunked_array(pieces))


# By Arrow -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _ArrowBatch:
    """Some rows."""

    batch: pa.RecordBatch

    @property
    def num_rows(self) -> int:
        return int(self.batch.num_rows)

    @cached_property
    def pieces(self) -> list[Any]:
        """The columns, for :func:`column_of`; texts are held once."""
        import pyarrow as pa

        return [c.dictionary_encode() if pa.types.is_string(c.type) else c for c in self.batch.columns]

    @property
    def num_bytes(self) -> int:
        """Bytes that are held for them."""
        return sum(int(piece.nbytes) for piece in self.pieces)

    def has_nulls(self, i: int) -> bool:
        return bool(self.batch.column(i).null_count)

    def rows_with(self, i: int) -> _ArrowBatch:
        """Rows without NULL in a column."""
        return _ArrowBatch(self.batch.filter(self.batch.column(i).is_valid()))

    def others(self, i: int) -> _ArrowBatch:
        """Different values of the first column in rows with NULL in another one, as a batch of one column."""
        import pyarrow as pa

        units = self.batch.column(0).filter(self.batch.column(i).is_null()).unique()
        return _ArrowBatch(pa.RecordBatch.from_arrays([units], names=["u"]))

    def whole(self, i: int, fill: int) -> NDArray[Any]:
        """The numbers of a column, with ``fill`` for NULL."""
        column = self.batch.column(i)
        found: NDArray[Any] = (column.fill_null(fill) if column.null_count else column).to_numpy(zero_copy_only=False)
        return found


@dataclass(frozen=True)
class _ArrowColumn:
    """A column in chunks."""

    column: pa.ChunkedArray

    @property
    def sizes(self) -> list[int]:
        """Number of rows of each chunk."""
        return [len(chunk) for chunk in self.column.chunks]

    @property
    def has_nulls(self) -> bool:
        return bool(self.column.null_count)

    def whole(self, i: int, fill: int) -> NDArray[Any]:
        """The numbers of a chunk, with ``fill`` for NULL."""
        chunk = self.column.chunk(i)
        found: NDArray[Any] = (chunk.fill_null(fill) if chunk.null_count else chunk).to_numpy()
        return found

    def ends(self) -> tuple[int, int] | None:
        """The smallest and the largest number; None where there is none."""
        import pyarrow.compute as pc

        found = pc.min_max(self.column).as_py()
        return None if found["min"] is None else (found["min"], found["max"])

    def encoded(self) -> Encoded:
        import pyarrow as pa

        chunks = [c if isinstance(c, pa.DictionaryArray) else c.dictionary_encode() for c in self.column.chunks]
        unified = pa.chunked_array(chunks).unify_dictionaries()
        distinct = unified.chunk(0).dictionary
        if not unified.null_count:
            return Encoded([chunk.indices.to_numpy() for chunk in unified.chunks], _ArrowDistinct(distinct))
        nothing = len(distinct)
        numbers = [chunk.indices.fill_null(nothing).to_numpy() for chunk in unified.chunks]
        return Encoded(numbers, _ArrowDistinct(pa.concat_arrays([distinct, pa.nulls(1, distinct.type)])))


class _ArrowDistinct:
    """Different values of a column, numbered from 0; NULL is the last of them where a row has it."""

    def __init__(self, values: pa.Array) -> None:
        self.values = values
        self.has_null = bool(values.null_count)

    def __len__(self) -> int:
        return len(self.values)

    def asked(self, cursor: duckdb.DuckDBPyConnection, select: str) -> dict[str, NDArray[Any]]:
        """Columns of a SELECT without FROM about the values ``v`` and their numbers ``i``."""
        import pyarrow as pa

        cursor.register(_ITEMS, pa.table({"v": self.values, "i": np.arange(len(self.values))}))
        try:
            found: dict[str, NDArray[Any]] = cursor.execute(f"{select} FROM {_ITEMS}").fetchnumpy()
        finally:
            cursor.unregister(_ITEMS)
        return found

    def shown(self, order: NDArray[np.int64]) -> Callable[[NDArray[np.int64]], list[Any]]:
        """Values at some places, as a database returns them; ``order`` is the place of each number."""
        import pyarrow as pa

        values = self.values.take(pa.array(np.argsort(order)))
        return lambda some: list(values.take(pa.array(some)).to_pylist())


# By NumPy -------------------------------------------------------------------------------------------------------------


class _Piece(NamedTuple):
    """Values of rows, which of them are NULL (None for none), and the type in DuckDB."""

    values: NDArray[Any]
    missing: NDArray[np.bool_] | None
    kind: str

    @classmethod
    def of(cls, found: NDArray[Any], kind: str) -> _Piece:
        missing = np.ma.getmaskarray(found) if np.ma.isMaskedArray(found) else None
        values = np.ma.getdata(found)
        # DuckDB gives days as moments.
        values = values.astype("datetime64[D]") if kind == "DATE" else values
        return cls(values, missing if missing is not None and missing.any() else None, kind)

    def at(self, some: NDArray[np.bool_]) -> _Piece:
        missing = None if self.missing is None else self.missing[some]
        return _Piece(self.values[some], missing if missing is not None and missing.any() else None, self.kind)

    def whole(self, fill: int) -> NDArray[Any]:
        return (
            self.values if self.missing is None else np.where(self.missing, self.values.dtype.type(fill), self.values)
        )

    def numbered(self) -> tuple[NDArray[np.int64], list[Any]]:
        """Numbers of rows among a list of different values; NULL is the last of them."""
        there = self.values if self.missing is None else self.values[~self.missing]
        values: list[Any]
        if self.kind == "VARCHAR":
            places: defaultdict[str, int] = defaultdict(count().__next__)
            known = np.fromiter(map(places.__getitem__, there.tolist()), np.int64, len(there))
            values = list(places)
        else:
            different, known = np.unique(there, return_inverse=True)
            values = different.tolist()
        if self.missing is None:
            return known.astype(np.int64, copy=False), values
        numbers = np.full(len(self.values), len(values), dtype=np.int64)
        numbers[~self.missing] = known
        return numbers, [*values, None]


@dataclass(frozen=True)
class _PlainBatch:
    pieces: list[_Piece]
    num_bytes: int

    @property
    def num_rows(self) -> int:
        return len(self.pieces[0].values)

    def has_nulls(self, i: int) -> bool:
        return self.pieces[i].missing is not None

    def rows_with(self, i: int) -> _PlainBatch:
        missing = self.pieces[i].missing
        return self if missing is None else _PlainBatch([piece.at(~missing) for piece in self.pieces], self.num_bytes)

    def others(self, i: int) -> _PlainBatch:
        missing = self.pieces[i].missing
        none = np.zeros(self.num_rows, dtype=np.bool_)
        units = self.pieces[0].at(none if missing is None else missing)
        numbers, _ = units.numbered()
        first = np.zeros(len(numbers), dtype=np.bool_)
        first[np.unique(numbers, return_index=True)[1]] = True
        return _PlainBatch([units.at(first)], self.num_bytes)

    def whole(self, i: int, fill: int) -> NDArray[Any]:
        return self.pieces[i].whole(fill)


@dataclass(frozen=True)
class _PlainColumn:
    pieces: list[_Piece]

    @property
    def sizes(self) -> list[int]:
        return [len(piece.values) for piece in self.pieces]

    @property
    def has_nulls(self) -> bool:
        return any(piece.missing is not None for piece in self.pieces)

    def whole(self, i: int, fill: int) -> NDArray[Any]:
        return self.pieces[i].whole(fill)

    def ends(self) -> tuple[int, int] | None:
        there = [p.values if p.missing is None else p.values[~p.missing] for p in self.pieces]
        found = [part for part in there if len(part)]
        return (min(int(part.min()) for part in found), max(int(part.max()) for part in found)) if found else None

    def encoded(self) -> Encoded:
        values = np.concatenate([piece.values for piece in self.pieces])
        masks = [np.zeros(len(p.values), dtype=np.bool_) if p.missing is None else p.missing for p in self.pieces]
        kind = self.pieces[0].kind
        numbers, different = _Piece(values, np.concatenate(masks) if self.has_nulls else None, kind).numbered()
        ends = np.cumsum([0, *self.sizes])
        chunks = [numbers[ends[i] : ends[i + 1]] for i in range(len(self.pieces))]
        return Encoded(chunks, _PlainDistinct(different, kind))


class _PlainDistinct:
    def __init__(self, values: list[Any], kind: str) -> None:
        self.values = values
        self.kind = kind
        self.has_null = bool(values) and values[-1] is None

    def __len__(self) -> int:
        return len(self.values)

    def asked(self, cursor: duckdb.DuckDBPyConnection, select: str) -> dict[str, NDArray[Any]]:
        items = f"(SELECT unnest($1::{self.kind}[]) AS v, unnest(range({len(self.values)})) AS i)"
        found: dict[str, NDArray[Any]] = cursor.execute(f"{select} FROM {items}", [self.values]).fetchnumpy()
        return found

    def shown(self, order: NDArray[np.int64]) -> Callable[[NDArray[np.int64]], list[Any]]:
        values = [self.values[number] for number in np.argsort(order).tolist()]
        return lambda some: [values[place] for place in some.tolist()]


# Both hand over the same values, by methods of the same names.
Distinct = _ArrowDistinct | _PlainDistinct
HandedBatch = _ArrowBatch | _PlainBatch
HandedColumn = _ArrowColumn | _PlainColumn
