"""Groups of a query, and the choice of the groups and values of a unit that count, by keyed hashes.

Public groups are one number, private ones are their keys as they are.

* **Public groups** are numbered 0 … G-1. A unit sees them in the order of a permutation of its own, c ↦ (b + m1·c +
  m2·c²) mod 2^k with 2^k ≥ G, m1 odd and m2 even (such a polynomial is one-to-one). b, m1 and m2 are bits of x·s,
  where x is the unit folded to 30 bits (the unit itself if it is a whole number, else the first 28 bits of md5 of its
  text) and s an odd number made of the key secret. The first ``max_groups`` groups in that order stay. It needs
  shifts, products below 2^63 and AND only, so it is the same on every engine.
* **Rows in all groups** (``max_rows_total``) are shared out where a unit has more. With a_1 … a_k its rows in the
  groups it keeps, in their order, S_i = a_1 + … + a_i, A = S_k and T the bound, group i keeps
  ⌊(T·S_i + o)/A⌋ - ⌊(T·S_{i-1} + o)/A⌋ rows: T in all, and within 1 of T·a_i/A in each. The offset o = ⌊A·h/2^20⌋ is
  made of 20 bits h of x·s, so that no group is favoured: over all offsets the mean is T·a_i/A. Only how many rows of a
  group count is decided, never which.
* **Private groups** and **values** are ordered by a rank of 31 bits, and those of one rank by themselves. A rank starts
  as bits of x·s, moved by a number made of the secret for groups and another for values, and takes a turn for each
  part of the group or value: z ↦ f(f(z + n, s), t), f(v, m) = (v·m div 2^20) mod 2^31, where n has 31 bits and stands
  for the part: whole numbers, decimals and times are folded, texts are the first 28 bits of md5. Products stay below
  2^63, so ranks are the same on every engine too, and a text is hashed once however many units have it.

Any fixed rule is private that reads a unit's own rows and the secret alone; these are made so that every group and
value is kept about as often.

Where units are numbers of rows, x = 0 and the unit's text is empty: such a number depends on how many rows stand
before it, and a choice that read it would make one row's removal change the choices of all others.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InternalError
from tacit.engines.sql.dialect import Dialect
from tacit.engines.sql.scalars import cast_sql, scalar_sql
from tacit.query.query import FinalAggregation
from tacit.query.types import DATE, INTEGER, TEXT, Kind, SqlType, Value, ordinal

_FOLD = 2**30 - 1
_LEAST_BITS = 6
#: Number of values from which on a run of whole numbers is computed with, whatever the expression is.
_LONG_RUN = 64
#: Places of keys in SQL that is written before the secret is known: as long as the keys, and with NUL, which no other
#: part of a statement can hold.
_MARKS = {purpose: f"\0{purpose}".ljust(32, "\0") for purpose in ("groups", "units", "values", "rows")}
_MULTIPLIER = "\0multiply\0"
_STARTS = {purpose: f"\0{purpose}+".ljust(10, "\0") for purpose in ("groups", "values")}
#: Ranks and the numbers of values have 31 bits, all of which are set in ``_RANK``; t is the second factor of a turn.
_RANK_BITS = 31
_RANK = 2_147_483_647
_TURN, _TURN_SHIFT = 1_327_217_885, 20
#: Bits of an offset: times the rows of a table, 2^40, they fit 64 bits.
_OFFSET_BITS, _OFFSET = 20, 2**20 - 1
#: Below 2^22 doubles are told apart to 2^-40, then whole numbers to 2^62, and those beyond not at all.
_FINE, _FINE_BITS, _COARSE = 2.0**22, 2.0**40, 2.0**62


def keyed(sql: str, secret: bytes) -> str:
    """SQL that was written without a secret, with the secret in the places of its marks."""
    for purpose, mark in _MARKS.items():
        sql = sql.replace(mark, _key_of(secret, purpose).hex())
    for purpose, mark in _STARTS.items():
        sql = sql.replace(mark, str(_start(secret, purpose)))
    return sql.replace(_MULTIPLIER, str(_multiplier(secret)))


def _key_of(secret: bytes, purpose: str) -> bytes:
    return hashlib.blake2b(purpose.encode(), key=secret[:64], digest_size=16).digest()


def _multiplier(secret: bytes) -> int:
    return int.from_bytes(_key_of(secret, "groups")[:4], "big") >> 1 | 2**30 | 1


def _start(secret: bytes, purpose: str) -> int:
    return int.from_bytes(_key_of(secret, purpose)[4:8], "big") >> 1 | 2**30


def canonical_text(d: Dialect, value: str, kind: SqlType) -> str:
    """A value as text that is the same on every engine; NULL has a text of its own.

    The texts of doubles differ from engine to engine, so it is a whole number that is shown. Some doubles share one.
    """
    if kind.kind is Kind.DOUBLE:
        value, kind = _whole(d, value), INTEGER
    shown = d.show(value, kind) if kind.kind is Kind.NULL else cast_sql(d, value, kind, TEXT)
    # The length in front keeps neighbouring texts apart.
    return f"coalesce({d.show(f'length({shown})', INTEGER)} || {d.text(':')} || {shown}, {d.text('-')})"


def _whole(d: Dialect, value: str) -> str:
    fine, bits, coarse = map(d.number, (_FINE, _FINE_BITS, _COARSE))
    return d.let(
        value,
        lambda v: (
            f"CASE WHEN abs({v}) < {fine} THEN CAST(floor({v} * {bits}) AS BIGINT)"
            f" WHEN abs({v}) < {coarse} THEN CAST(floor({v}) AS BIGINT)"
            f" WHEN {v} IS NOT NULL THEN CAST(0 AS BIGINT) END"
        ),
    )


@dataclass(frozen=True)
class Chooser:
    """The rule for one query.

    Args:
        secret: of the data set; None to write SQL with marks, which :func:`keyed` replaces.
        unit: the type of the unit column.
        numbered: whether units are numbers of rows.
    """

    secret: bytes | None
    unit: SqlType
    numbered: bool

    def _key(self, d: Dialect, purpose: str) -> str:
        """A key as a text constant, or its mark in place of it."""
        nothing = "0" * len(_MARKS[purpose])
        return d.text(nothing).replace(
            nothing, _MARKS[purpose] if self.secret is None else _key_of(self.secret, purpose).hex()
        )

    @property
    def multiplier(self) -> int:
        """s: an odd number of 31 bits."""
        if self.secret is None:
            raise InternalError("a choice needs a secret")
        return _multiplier(self.secret)

    @staticmethod
    def bits(groups: int) -> int:
        """k: the places of the permutation are 2^k."""
        return max(_LEAST_BITS, (groups - 1).bit_length())

    @property
    def whole(self) -> bool:
        """Whether x is made of a whole number; else it is made of a text."""
        return self.numbered or self.unit.kind is Kind.INTEGER

    def fold(self, d: Dialect, unit: str) -> str:
        """The x of a unit: 30 bits."""
        if self.numbered:
            return "CAST(0 AS BIGINT)"
        if self.whole:
            return f"({d.xor(unit, f'{unit} >> 30')} & {_FOLD})"
        key = self._key(d, "units")
        return d.hexadecimal(f"left(md5({key} || {canonical_text(d, unit, self.unit)}), 7)")

    def parameters(self, d: Dialect, unit: str) -> str:
        """x·s for a unit: at most 61 bits."""
        factor = _MULTIPLIER if self.secret is None else self.multiplier
        return f"({self.fold(d, unit)} * {factor})"

    def offset(self, d: Dialect, unit: str, total: str) -> str:
        """The o of a unit with ``total`` rows."""
        return f"(({total} * (({self.parameters(d, unit)} >> 10) & {_OFFSET})) >> {_OFFSET_BITS})"

    def offsets(self, folded: NDArray[np.uint32], totals: NDArray[np.int64]) -> NDArray[np.int64]:
        """The same for arrays of folded units (x) and their rows."""
        bits = (folded.astype(np.uint64) * np.uint64(self.multiplier) >> np.uint64(10)) & np.uint64(_OFFSET)
        return (totals * bits.view(np.int64)) >> _OFFSET_BITS

    def place(self, parameters: str, code: str, groups: int) -> str:
        """Where a group stands in a unit's order."""
        modulus = 2 ** self.bits(groups) - 1
        # m2 has 14 bits and c at most 15, m1 at most 46: every product stays below 2^62.
        m1, m2 = f"(({parameters} >> 15) | 1)", f"({parameters} & 16382)"
        return f"((({m2} * {code} + {m1}) * {code} + ({parameters} >> 7)) & {modulus})"

    def places(self, folded: NDArray[np.uint32], codes: NDArray[np.int16], groups: int) -> NDArray[np.uint32]:
        """The same for arrays of folded units (x) and groups.

        A place needs the lowest 30 bits of x·s at most, so 32 bits that wrap are enough.
        """
        c = codes.astype(np.uint32)
        h = folded * np.uint32(self.multiplier)
        place = h & np.uint32(16382)
        place *= c
        place += (h >> np.uint32(15)) | np.uint32(1)
        place *= c
        place += h >> np.uint32(7)
        place &= np.uint32(2 ** self.bits(groups) - 1)
        return place

    def folded(self, units: NDArray[np.int64]) -> NDArray[np.uint32]:
        """The x of units that are whole numbers."""
        if self.numbered:
            return np.zeros(len(units), dtype=np.uint32)
        bits = units.view(np.uint64)
        return ((bits ^ (bits >> np.uint64(30))) & np.uint64(_FOLD)).astype(np.uint32)

    def rank(self, d: Dialect, purpose: str, unit: str, parts: Sequence[tuple[str, SqlType]]) -> str:
        """The rank of a group or value among those of a unit; ``parts`` are names of columns."""
        start = _STARTS[purpose] if self.secret is None else _start(self.secret, purpose)
        rank = f"((({self.parameters(d, unit)} >> 15) + {start}) & {_RANK})"
        factor = _MULTIPLIER if self.secret is None else self.multiplier
        for value, kind in parts:
            once = f"(((({rank} + {self.number(d, purpose, value, kind)}) * {factor}) >> {_TURN_SHIFT}) & {_RANK})"
            rank = f"((({once} * {_TURN}) >> {_TURN_SHIFT}) & {_RANK})"
        return rank

    def ranks(
        self, purpose: str, folded: NDArray[np.uint32], parts: Sequence[NDArray[np.uint64]]
    ) -> NDArray[np.uint64]:
        """The same for arrays of folded units (x) and of the numbers of parts."""
        if self.secret is None:
            raise InternalError("a choice needs a secret")
        factor, bits = np.uint64(self.multiplier), np.uint64(_RANK)
        rank = folded.astype(np.uint64)
        rank *= factor
        rank >>= np.uint64(15)
        rank += np.uint64(_start(self.secret, purpose))
        rank &= bits
        for part in parts:
            rank += part
            for multiplier in (factor, np.uint64(_TURN)):
                rank *= multiplier
                rank >>= np.uint64(_TURN_SHIFT)
                rank &= bits
        return rank

    def number(self, d: Dialect, purpose: str, value: str, kind: SqlType) -> str:
        """Number of 31 bits that stands for a value in a rank; the highest for NULL."""
        if kind.kind is Kind.TEXT:
            found = d.hexadecimal(f"left(md5({self._key(d, purpose)} || {value}), 7)")
        elif kind.kind is Kind.NULL:
            return str(_RANK)
        else:
            whole = f"CAST({_whole_number(d, value, kind)} AS BIGINT)"
            found = d.let(whole, lambda v: f"((({v} & {_RANK}) + (({v} >> {_RANK_BITS}) & {_RANK})) & {_RANK})")
        return f"coalesce({found}, {_RANK})"

    @property
    def nothing(self) -> int:
        """The number of NULL."""
        return _RANK

    @staticmethod
    def numbers(values: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The same for arrays of whole numbers."""
        bits = values.view(np.uint64)
        return ((bits & np.uint64(_RANK)) + ((bits >> np.uint64(_RANK_BITS)) & np.uint64(_RANK))) & np.uint64(_RANK)

    def digest(self, d: Dialect, purpose: str, unit: str, parts: Sequence[tuple[str, SqlType]]) -> str:
        """md5 over the secret, the unit and some values."""
        pieces = [self._key(d, purpose)]
        if not self.numbered:
            pieces.append(canonical_text(d, unit, self.unit))
        pieces += [canonical_text(d, value, kind) for value, kind in parts]
        return f"md5({' || '.join(pieces)})"


def _whole_number(d: Dialect, value: str, kind: SqlType) -> str:
    """A value that is no text as a whole number; few values share one."""
    if kind.kind is Kind.DOUBLE:
        return _whole(d, value)
    if kind.kind is Kind.BOOLEAN:
        return d.flag(value, "BIGINT")
    if kind.is_temporal:
        return d.days(value) if kind == DATE else d.microseconds(value)
    return value


def position_sql(d: Dialect, value: str, values: Sequence[Value | None], kind: SqlType) -> str:
    """The number, from 0, of a value in a list; NULL for others.

    Costs one look-up per distinct text of a column, and none where a column is compared with a run of whole numbers, or
    any expression with a long one: all years are ten thousand constants.
    """
    if (value.isidentifier() or len(values) > _LONG_RUN) and _is_run(values, kind):
        first, last = d.constant(values[0], kind), d.constant(values[-1], kind)

        def place(v: str) -> str:
            number = d.days(v) if kind == DATE else v
            start = str(int(ordinal(values[0], kind))) if kind == DATE and values[0] is not None else first
            return f"(CASE WHEN {v} BETWEEN {first} AND {last} THEN {number} - ({start}) END)"

        return place(value) if value.isidentifier() else d.let(value, place)
    return d.place_among(value, values, kind)


def _is_run(values: Sequence[Value | None], kind: SqlType) -> bool:
    """Whether they are whole numbers or days, each one more than the one before."""
    if kind.kind not in (Kind.INTEGER, Kind.DATE) or not values or None in values:
        return False
    places = [int(ordinal(value, kind)) for value in values if value is not None]
    return places == list(range(places[0], places[0] + len(places)))


@dataclass(frozen=True)
class Groups:
    """The keys of a final aggregation.

    Args:
        final: the aggregation.
        placed: which of its keys the source gives as numbers of their values already.
    """

    final: FinalAggregation
    placed: frozenset[int] = frozenset()

    @property
    def is_public(self) -> bool:
        """Whether groups are numbered in advance."""
        return self.final.public_keys or not self.final.keys

    @property
    def count(self) -> int:
        """Number of public groups."""
        return math.prod(len(key.values or ()) for key in self.final.keys)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that tell groups apart."""
        return ("g",) if self.is_public else tuple(f"k{i}" for i in range(len(self.final.keys)))

    @property
    def types(self) -> tuple[SqlType, ...]:
        """The types of the keys."""
        return tuple(key.expression.type for key in self.final.keys)

    def expressions(self, d: Dialect) -> dict[str, str]:
        """Each group column over the source."""
        keys = [scalar_sql(d, key.expression) for key in self.final.keys]
        return {"g": self.code(d, keys)} if self.is_public else {f"k{i}": key for i, key in enumerate(keys)}

    def code(self, d: Dialect, keys: Sequence[str]) -> str:
        """The number of the group of some key values in product order; NULL outside the public list."""
        if not self.final.keys:
            return "0"
        terms, stride = [], self.count
        for index, (sql, key) in enumerate(zip(keys, self.final.keys, strict=True)):
            values = key.values or ()
            stride //= len(values)
            position = sql if index in self.placed else position_sql(d, sql, values, key.expression.type)
            terms.append(position if stride == 1 else f"{position} * {stride}")
        return f"({' + '.join(terms)})"

    def public_keys(self) -> tuple[tuple[Value | None, ...], ...]:
        """All public keys in product order."""
        return tuple(product(*(key.values or () for key in self.final.keys)))

    def numbered(self) -> tuple[tuple[tuple[Value | None, ...], ...], dict[tuple[int, ...], int]]:
        """All public keys, and the place of each by its number as a database gives it."""
        keys = self.public_keys()
        return keys, {(code,): code for code in range(len(keys))}
