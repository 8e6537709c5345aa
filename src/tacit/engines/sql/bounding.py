"""Contribution bounds of a unit: which groups and values it keeps, by keyed hashes, and its clamped integer totals.

A public group is one column, its number; a private group is one column per key, unchanged.

* **Public groups** are numbered 0 … G-1. Each unit orders them by a permutation c ↦ (b + m1·c + m2·c²) mod 2^k with
  2^k ≥ G, m1 odd and m2 even (such a polynomial is one-to-one). b, m1 and m2 are bits of x·s, where x is the unit
  folded to 30 bits (the unit itself if it is an integer, else the first 28 bits of the md5 of its text) and s an odd
  integer derived from the key secret. A unit keeps the first ``max_groups`` groups in its order. The rule needs only
  shifts, products below 2^63 and AND, so it is the same on every engine.
* **Rows in all groups** (``max_rows_total``) are divided among a unit's groups if it has more. With a_1 … a_k its rows
  in the groups it keeps, in its order, S_i = a_1 + … + a_i, A = S_k and T the bound, group i keeps
  ⌊(T·S_i + o)/A⌋ - ⌊(T·S_{i-1} + o)/A⌋ rows: T in total, and within 1 of T·a_i/A in each group. The offset
  o = ⌊A·h/2^20⌋ is computed from 20 bits h of x·s, so that no group is favoured: over all offsets the mean is T·a_i/A.
  The rule decides how many rows of a group count, never which.
* **Private groups** and **values** are ordered by a rank of 31 bits, then by value. A rank starts as bits of x·s plus
  a number derived from the secret (one for groups, another for values), and is mixed once with each key of the group,
  or part of the value: z ↦ f(f(z + n, s), t), f(v, m) = (v·m div 2^20) mod 2^31, where n is a 31-bit number of the
  part: integers, decimals and times are folded, texts are the first 28 bits of their md5. Products stay below 2^63, so
  ranks are also the same on every engine, and each distinct text is hashed once for all units.

Any fixed rule that reads only a unit's own rows and the secret is private; these rules keep every group and value
about equally often.

If units are row numbers, x = 0 and the unit's text is empty: a row number depends on how many rows precede the row, so
with a rule that read it, removing one row would change the choices of all others.

Quantisation clamps, then computes q(x) = floor(x / step + 1/2), exactly. Integers, decimals and times are stored as
integers and are divided as integers. A DOUBLE is divided by the step and rounded by ``floor(y + 1/2)``, whose one wrong
answer below 2^51 (y = 1/2 - 2^-54) is taken back. For a step that is a power of two the division is exact and so is q;
for a decimal step it is the quotient of doubles that is rounded, which is the same on every engine with IEEE
arithmetic and may differ from the exact quotient by one step where that lies within an ulp of a tie.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InternalError
from tacit.engines.sql.dialect import Dialect
from tacit.engines.sql.scalars import (
    EXACT_DOUBLES,
    ProvenRange,
    cast_sql,
    condition_sql,
    lies_within,
    proven_range,
    scalar_sql,
)
from tacit.query.contribution import MOST_TOTAL
from tacit.query.planning.measures import Measure, MeasureKind
from tacit.query.query import FinalAggregation
from tacit.query.refusal import Refusal
from tacit.query.types import DATE, INTEGER, TEXT, Kind, SqlType, Value, ordinal

_FOLD = 2**30 - 1
_LEAST_BITS = 6
#: Number of consecutive integers above which an index among them is computed, for every expression.
_LONG_RUN = 64
#: Ranks and the numbers of values have 31 bits, all of which are set in ``_RANK``; ``_TURN`` is t of the rank rule.
_RANK_BITS = 31
_RANK = 2_147_483_647
_TURN, _TURN_SHIFT = 1_327_217_885, 20
#: Bits of h: multiplied by the rows of a table, at most 2^40, they fit 64 bits.
_OFFSET_BITS, _OFFSET = 20, 2**20 - 1
#: Resolution of doubles: 2^-40 below 2^22, then 1 below 2^62; larger doubles are not distinguished.
_FINE, _FINE_BITS, _COARSE = 2.0**22, 2.0**40, 2.0**62


def _key_of(secret: bytes, purpose: str) -> bytes:
    return hashlib.blake2b(purpose.encode(), key=secret[:64], digest_size=16).digest()


def _start(secret: bytes, purpose: str) -> int:
    return int.from_bytes(_key_of(secret, purpose)[4:8], "big") >> 1 | 2**30


def canonical_text(d: Dialect, value: str, kind: SqlType) -> str:
    """Return a value as text that is the same on every engine; NULL becomes a text distinct from all values.

    The text of a double differs between engines, so it is converted to an integer, which some doubles share.
    """
    if kind.kind is Kind.DOUBLE:
        value, kind = _whole_of_double(d, value), INTEGER
    shown = d.show(value, kind) if kind.kind is Kind.NULL else cast_sql(d, value, kind, TEXT)
    # The length prefix makes a concatenation of several texts unambiguous.
    return f"coalesce({d.show(f'length({shown})', INTEGER)} || {d.text(':')} || {shown}, {d.text('-')})"


def _whole_of_double(d: Dialect, value: str) -> str:
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
    """The rule that selects which groups and values of each unit one query keeps.

    Args:
        secret: the key secret of the data set.
        unit: type of the unit column.
        numbered: whether units are row numbers.
    """

    secret: bytes
    unit: SqlType
    numbered: bool

    def _key(self, d: Dialect, purpose: str) -> str:
        """Return the hash key of a purpose as a text constant."""
        return d.text(_key_of(self.secret, purpose).hex())

    @property
    def multiplier(self) -> int:
        """s: an odd integer of 31 bits."""
        return int.from_bytes(_key_of(self.secret, "groups")[:4], "big") >> 1 | 2**30 | 1

    @staticmethod
    def bits(groups: int) -> int:
        """Return k, where 2^k is the size of the permutation."""
        return max(_LEAST_BITS, (groups - 1).bit_length())

    @property
    def whole(self) -> bool:
        """Whether x is computed from an integer; otherwise from a text."""
        return self.numbered or self.unit.kind is Kind.INTEGER

    def fold(self, d: Dialect, unit: str) -> str:
        """Return SQL of x of a unit: an integer of 30 bits."""
        if self.numbered:
            return "CAST(0 AS BIGINT)"
        if self.whole:
            return f"({d.xor(unit, f'{unit} >> 30')} & {_FOLD})"
        key = self._key(d, "units")
        return d.hexadecimal(f"left(md5({key} || {canonical_text(d, unit, self.unit)}), 7)")

    def parameters(self, d: Dialect, unit: str) -> str:
        """Return SQL of x·s of a unit: an integer of at most 61 bits."""
        return f"({self.fold(d, unit)} * {self.multiplier})"

    def offset(self, d: Dialect, unit: str, total: str) -> str:
        """Return SQL of the offset o of a unit with ``total`` rows."""
        return f"(({total} * (({self.parameters(d, unit)} >> 10) & {_OFFSET})) >> {_OFFSET_BITS})"

    def offsets(self, folded: NDArray[np.uint32], totals: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the offsets o for arrays of x and of each unit's number of rows."""
        bits = (folded.astype(np.uint64) * np.uint64(self.multiplier) >> np.uint64(10)) & np.uint64(_OFFSET)
        return (totals * bits.view(np.int64)) >> _OFFSET_BITS

    def place(self, parameters: str, code: str, groups: int) -> str:
        """Return SQL of the position of group ``code`` in a unit's order, given its x·s."""
        modulus = 2 ** self.bits(groups) - 1
        # m2 has 14 bits and c at most 15, m1 at most 46: every product stays below 2^62.
        m1, m2 = f"(({parameters} >> 15) | 1)", f"({parameters} & 16382)"
        return f"((({m2} * {code} + {m1}) * {code} + ({parameters} >> 7)) & {modulus})"

    def places(self, folded: NDArray[np.uint32], codes: NDArray[np.int16], groups: int) -> NDArray[np.uint32]:
        """Return the positions of groups in their units' orders, for arrays of x and group numbers.

        A position needs at most the lowest 30 bits of x·s, so 32-bit arithmetic that wraps is enough.
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
        """Return x of units that are integers."""
        if self.numbered:
            return np.zeros(len(units), dtype=np.uint32)
        bits = units.view(np.uint64)
        return ((bits ^ (bits >> np.uint64(30))) & np.uint64(_FOLD)).astype(np.uint32)

    def rank(self, d: Dialect, purpose: str, unit: str, parts: Sequence[tuple[str, SqlType]]) -> str:
        """Return SQL of the rank of a group or value within a unit; ``parts`` are column names and their types."""
        rank = f"((({self.parameters(d, unit)} >> 15) + {_start(self.secret, purpose)}) & {_RANK})"
        for value, kind in parts:
            moved = f"({rank} + {self.number(d, purpose, value, kind)})"
            once = f"((({moved} * {self.multiplier}) >> {_TURN_SHIFT}) & {_RANK})"
            rank = f"((({once} * {_TURN}) >> {_TURN_SHIFT}) & {_RANK})"
        return rank

    def ranks(
        self, purpose: str, folded: NDArray[np.uint32], parts: Sequence[NDArray[np.uint64]]
    ) -> NDArray[np.uint64]:
        """Return the ranks for arrays of x and, per part, of the 31-bit numbers of its values."""
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
        """Return SQL of the 31-bit number that stands for a value in a rank; the largest one for NULL."""
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
        """The 31-bit number that stands for NULL."""
        return _RANK

    @staticmethod
    def numbers(values: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return the 31-bit numbers that stand for integers."""
        bits = values.view(np.uint64)
        return ((bits & np.uint64(_RANK)) + ((bits >> np.uint64(_RANK_BITS)) & np.uint64(_RANK))) & np.uint64(_RANK)

    def digest(self, d: Dialect, purpose: str, unit: str, parts: Sequence[tuple[str, SqlType]]) -> str:
        """Return SQL of the md5 of the secret, the unit and some values."""
        pieces = [self._key(d, purpose)]
        if not self.numbered:
            pieces.append(canonical_text(d, unit, self.unit))
        pieces += [canonical_text(d, value, kind) for value, kind in parts]
        return f"md5({' || '.join(pieces)})"


def _whole_number(d: Dialect, value: str, kind: SqlType) -> str:
    """Return SQL of an integer that stands for a value that is not a text; few values share one."""
    if kind.kind is Kind.DOUBLE:
        return _whole_of_double(d, value)
    if kind.kind is Kind.BOOLEAN:
        return d.flag(value, "BIGINT")
    if kind.is_temporal:
        return d.days(value) if kind == DATE else d.microseconds(value)
    return value


def position_sql(d: Dialect, value: str, values: Sequence[Value | None], kind: SqlType) -> str:
    """Return SQL of the index, from 0, of a value in a list; NULL if it is not in the list.

    Needs one look-up per distinct text of a column, but none for a column compared with consecutive integers or days,
    nor for any expression if there are many of these: all years are ten thousand constants.
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
    """Whether the values are consecutive integers or days, in ascending order."""
    if kind.kind not in (Kind.INTEGER, Kind.DATE) or not values or None in values:
        return False
    places = [int(ordinal(value, kind)) for value in values if value is not None]
    return places == list(range(places[0], places[0] + len(places)))


@dataclass(frozen=True)
class Groups:
    """The group keys of a final aggregation.

    Args:
        final: the aggregation.
    """

    final: FinalAggregation

    @cached_property
    def is_public(self) -> bool:
        """Whether the groups are public, and so numbered in advance."""
        return self.final.public_keys or not self.final.keys

    @cached_property
    def count(self) -> int:
        """Number of public groups."""
        return math.prod([len(key.values or ()) for key in self.final.keys])

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that identify a group."""
        return ("g",) if self.is_public else tuple(f"k{i}" for i in range(len(self.final.keys)))

    @property
    def types(self) -> tuple[SqlType, ...]:
        return tuple(key.expression.type for key in self.final.keys)

    def expressions(self, d: Dialect) -> dict[str, str]:
        """Return SQL over the source for each group column."""
        keys = [scalar_sql(d, key.expression) for key in self.final.keys]
        return {"g": self.code(d, keys)} if self.is_public else {f"k{i}": key for i, key in enumerate(keys)}

    def code(self, d: Dialect, keys: Sequence[str]) -> str:
        """Return SQL of the number of the public group with these key values; NULL if it is not on the public list."""
        if not self.final.keys:
            return "0"
        terms, stride = [], self.count
        for sql, key in zip(keys, self.final.keys, strict=True):
            values = key.values or ()
            stride //= len(values)
            position = position_sql(d, sql, values, key.expression.type)
            terms.append(position if stride == 1 else f"{position} * {stride}")
        return f"({' + '.join(terms)})"

    def public_keys(self) -> tuple[tuple[Value | None, ...], ...]:
        """Return all public group keys in product order."""
        return tuple(product(*(key.values or () for key in self.final.keys)))

    def numbered(self) -> tuple[tuple[tuple[Value | None, ...], ...], dict[tuple[int, ...], int]]:
        """Return all public group keys, and the index of each by its group number as a row of a result has it."""
        keys = self.public_keys()
        return keys, {(code,): code for code in range(len(keys))}


# Per-unit totals in a group: values quantised, summed measure by measure, and clamped to integers ---------------------


#: The largest double below one half: added to one half it rounds up to 1.
_BELOW_HALF = 0.49999999999999994
_EXACT_HALVES = 2**51
_HALF_BIGINT = 2**62


def clamped(d: Dialect, value: str, low: int, high: int) -> str:
    """Return SQL of ``value`` clamped to [low, high]; NULL stays NULL."""
    # Values inside the bounds come first: if all values of a batch are inside, the other tests are skipped.
    return d.let(
        value,
        lambda v: (
            f"CASE WHEN {v} BETWEEN {low} AND {high} THEN {v}"
            f" WHEN {v} < {low} THEN {low} WHEN {v} > {high} THEN {high} END"
        ),
    )


def counts_sql(d: Dialect, measure: Measure) -> str | None:
    """Return the condition under which a row counts for a measure; None if every row does."""
    parts = [] if measure.where is None else [condition_sql(d, measure.where)]
    if measure.argument is not None:
        parts.append(f"{scalar_sql(d, measure.argument)} IS NOT NULL")
    return f"({' AND '.join(parts)})" if parts else None


def quantised_sql(d: Dialect, measure: Measure) -> str:
    """Return SQL of q(x) within [low, high], NULL for rows that do not count; nor do DOUBLEs that are not finite."""
    argument = measure.argument
    if argument is None:
        raise InternalError("only values can be quantised")
    value, kind = scalar_sql(d, argument), argument.type
    if kind.kind is Kind.DOUBLE:
        steps = d.double_steps(value, measure)
    elif kind.kind is Kind.BOOLEAN:
        steps = _whole_steps(d, d.flag(value), Fraction(1), measure)
    elif kind.kind in (Kind.INTEGER, Kind.DECIMAL):
        steps = _whole_steps(d, value, Fraction(1, 10**kind.scale), measure, proven_range(argument))
    elif kind.kind in (Kind.DATE, Kind.TIMESTAMP):
        steps = _whole_steps(d, d.days(value) if kind == DATE else d.microseconds(value), Fraction(1), measure)
    else:
        raise InternalError(f"{kind} has no steps")
    return steps if measure.where is None else f"(CASE WHEN {condition_sql(d, measure.where)} THEN {steps} END)"


def leaf_sql(d: Dialect, measure: Measure) -> str:
    """Return SQL of the index of the leaf that contains a value, NULL for rows that do not count."""
    steps, wide = quantised_sql(d, measure), max(abs(measure.low), abs(measure.high)) >= _HALF_BIGINT
    from_low = f"(CAST({steps} AS {d.wide if wide else 'BIGINT'}) - ({measure.low}))"
    return f"CAST({d.divided(from_low, str(measure.leaf), wide=wide)} AS INTEGER)"


def category_sql(d: Dialect, measure: Measure, positions: str) -> str:
    """Return SQL of the index of the category, NULL for undeclared values and rows that do not count."""
    return positions if measure.where is None else f"(CASE WHEN {condition_sql(d, measure.where)} THEN {positions} END)"


def _whole_steps(d: Dialect, value: str, grain: Fraction, measure: Measure, known: ProvenRange | None = None) -> str:
    """Return SQL of q(x) for an integer in units of ``grain``; ``known`` is its proven range, if there is one."""
    ratio = measure.step / grain
    kind = d.whole_type(max(abs(measure.low), abs(measure.high)))
    if ratio == 1:
        inside = lies_within(known, measure.low, measure.high)
        return f"CAST({value if inside else clamped(d, value, measure.low, measure.high)} AS {kind})"
    # floor(v / (p/q) + 1/2) = floor((2qv + p) / 2p); relative to ``low`` no value is negative, so integer division is
    # a floor.
    p, q = ratio.numerator, ratio.denominator
    start, end = (2 * p * measure.low - p) // (2 * q), -(-(2 * p * measure.high + p) // (2 * q))
    if q == 1:
        # The first and the last value whose quotients are ``low`` and ``high``: the quotient needs no clamp.
        start, end = -((p - 2 * p * measure.low) // 2), (2 * p * measure.high + p - 1) // 2
    near, offset = clamped(d, value, start, end), p - 2 * p * (measure.low - 1)
    # 64 bits suffice for most measures.
    wide = 2 * q * max(abs(start), abs(end)) + abs(offset) >= _BIGINT
    moved = f"({d.huge(near, 2 * q) if wide else f'CAST({near} AS BIGINT) * {2 * q}'} + {offset})"
    number = f"{d.divided(moved, str(2 * p), wide=wide)} + {measure.low - 1}"
    return f"CAST({number if q == 1 else clamped(d, number, measure.low, measure.high)} AS {kind})"


def double_steps(d: Dialect, value: str, measure: Measure) -> str:
    """Return SQL of q(x) for a double, in a database where double overflow gives infinity and not an error."""
    ends = d.number(float(measure.low)), d.number(float(measure.high))
    step = measure.step
    known = None if measure.argument is None else proven_range(measure.argument)
    if step.numerator == 1 and is_power_of_two(step.denominator):
        factor = float(step.denominator)
        moved, far = f"{value} * {d.number(factor)}", known and (known[0] * factor, known[1] * factor)
    else:
        unit = float(step)
        moved, far = f"{value} / {d.number(unit)}", known and (known[0] / unit, known[1] / unit)
    if lies_within(far, float(measure.low), float(measure.high)):
        return rounded_steps(d, moved, measure)

    def inside(v: str) -> str:
        # Values inside the bounds come first: if all values of a batch are inside, the other tests are skipped. An
        # infinity that results from scaling a finite value is clamped; a finite value never gives NaN.
        parts = [
            f"{v} BETWEEN {ends[0]} AND {ends[1]} THEN {v}",
            f"NOT {d.is_finite(value)} THEN NULL",
            f"{v} < {ends[0]} THEN {ends[0]}",
            f"{v} > {ends[1]} THEN {ends[1]}",
        ]
        return f"CASE {' '.join(f'WHEN {part}' for part in parts)} END"

    return rounded_steps(d, d.let(moved, inside), measure)


def rounded_steps(d: Dialect, y: str, measure: Measure) -> str:
    """Return SQL of floor(y + 1/2) as an integer, for a double y within [low, high]."""
    largest = max(abs(measure.low), abs(measure.high))
    kind = d.whole_type(largest)
    half, below = d.number(0.5), d.number(_BELOW_HALF)
    if largest > _EXACT_HALVES:
        up = d.let(y, lambda v: f"floor({v}) + CASE WHEN {v} - floor({v}) >= {half} THEN 1 ELSE 0 END")
        return f"CAST({up} AS {kind})"
    if measure.low >= 0:
        # Adding the double below one half is right for every y from 0 on.
        return f"CAST(floor({y} + {below}) AS {kind})"

    def nearest(v: str) -> str:
        wrong = d.flag(f"{v} = {below}", "INTEGER")
        return f"floor({v} + {half}) - {wrong}"

    return f"CAST({d.let(y, nearest)} AS {kind})"


def is_power_of_two(number: int) -> bool:
    """Whether a positive integer is a power of two."""
    return number & (number - 1) == 0


#: No table, and no join of tables, has more rows than this: 2^40 sums below 2^86 stay below 2^126 and fit 128 bits.
MOST_ROWS = 2**40
_WIDEST = 2**86
_BIGINT = 2**63
_NARROW = 2**31
#: Kinds of measures that sum values.
TOTALS = tuple(kind for kind in MeasureKind if kind.traits.adds_values)


def check_width(measure: Measure) -> None:
    """Refuse sums that may exceed 128 bits, and doubles quantised more finely than a double can represent."""
    low, high, centre = measure.low, measure.high, measure.centre
    largest = max(high - centre, centre - low, abs(centre))
    square = measure.kind is MeasureKind.CENTRED_SQUARES
    wide = max(largest**2 if square else largest, *map(abs, measure.clamp)) >= _WIDEST
    double = measure.argument is not None and measure.argument.type.kind is Kind.DOUBLE
    if wide or (double and largest > EXACT_DOUBLES):
        raise Refusal(
            "bounds",
            "The bounds of a summed value are too many steps apart for exact sums; declare a coarser step or CLAMP it.",
        )


@dataclass
class Partials:
    """Columns shared by the sums of one statement, level by level; each level reads the level before it.

    Args:
        dialect: dialect of the database.
        row_units: whether every row is its own unit, so that totals are sums over rows and the other levels stay empty.
        measures: all sums of the statement.
        rows: SQL over a row, by column name.
        collected: aggregates over a unit's rows in a group, by column name.
        centred: totals about their centres, by column name.
        shares: totals over more rows than count, scaled to the number that counts, by column name.
        most: column with the number of rows of the unit that may count in the group, if ``max_rows_total`` bounds the
            rows in all groups together; None if the bound is the same for all units and groups.
    """

    dialect: Dialect
    row_units: bool
    measures: tuple[Measure, ...]
    rows: dict[str, str] = field(default_factory=dict)
    collected: dict[str, str] = field(default_factory=dict)
    centred: dict[str, str] = field(default_factory=dict)
    shares: dict[str, str] = field(default_factory=dict)
    most: str | None = None

    def total(self, measure: Measure) -> str:
        """Return SQL of the sum over units, over rows (row units) or over the columns of the last level."""
        if self.row_units:
            return self._row_total(measure)
        share = self._share(measure)
        return self._clamped_total(share if self.most is None else self._within(share, measure), measure)

    def _within(self, share: str, measure: Measure) -> str:
        """Return a unit's value limited to ``most`` rows; centred values were scaled to that number of rows already."""
        if measure.kind in (MeasureKind.ROWS, MeasureKind.VALUES):
            return f"least({share}, {self.most})"
        if measure.kind is not MeasureKind.SUM or self.most is None:
            return share
        limits = min(0, measure.low), max(0, measure.high)
        wide = max(-limits[0], limits[1]) * MOST_TOTAL >= _BIGINT
        low, high = (self.dialect.huge(self.most, end) if wide else f"{self.most} * ({end})" for end in limits)
        return f"least(greatest({share}, {low}), {high})"

    @property
    def rows_in_group(self) -> str:
        """Name of the column that holds a unit's number of rows in a group."""
        return self._collect("count(*)")

    def _clamped_total(self, value: str, measure: Measure) -> str:
        low, high = measure.clamp
        return f"coalesce({self.dialect.total(clamped(self.dialect, value, low, high), max(abs(low), abs(high)))}, 0)"

    def levels(self, keep: str, pairs: str) -> str:
        """Return the query for the last level over ``pairs``, which selects the collected columns, and ``keep``."""
        for columns in (self.centred, self.shares):
            if columns:
                pairs = f"SELECT {', '.join([keep, *self.collected, *_carried(self.centred, columns), *_listed(columns)])} FROM {self.dialect.derived(pairs)}"  # noqa: E501
        return pairs

    def _row_total(self, measure: Measure) -> str:
        low, high = measure.clamp
        if measure.kind not in TOTALS:
            if low == 0 and high >= 1:
                return self._count(measure)
            condition = counts_sql(self.dialect, measure)
            flag = "1" if condition is None else f"CASE WHEN {self._row(condition)} THEN 1 ELSE 0 END"
            return self._clamped_total(flag, measure)
        steps = self._row(quantised_sql(self.dialect, measure))
        ends = (measure.low - measure.centre, measure.high - measure.centre)
        square = measure.kind is MeasureKind.CENTRED_SQUARES
        if not square and low <= ends[0] and ends[1] <= high:
            total = self.dialect.total(steps, max(abs(measure.low), abs(measure.high)))
            total = _about(self.dialect, total, f"count({steps})", measure.centre)
            return f"coalesce({total}, 0)"
        value = _square(self.dialect, steps, measure) if square else f"{self.dialect.huge(steps)} - {measure.centre}"
        return self._clamped_total(value, measure)

    def _share(self, measure: Measure) -> str:
        """Return SQL of one unit's integer in one group, before the clamp."""
        if measure.kind not in TOTALS:
            count = self._collect(self._count(measure))
            return f"CASE WHEN {count} > 0 THEN 1 ELSE 0 END" if measure.kind is MeasureKind.UNITS else count
        steps = self._row(quantised_sql(self.dialect, measure))
        largest = max(abs(measure.low), abs(measure.high))
        total = self.summed(measure)
        if measure.kind is MeasureKind.SUM:
            return total
        count = self._collect(f"count({steps})")
        if measure.kind is MeasureKind.CENTRED_SQUARES:
            largest = measure.reach**2
            squares = self.dialect.total(_square(self.dialect, steps, measure), largest)
            centred = self._collect(_whole(self.dialect, squares, largest))
        else:
            largest += abs(measure.centre)
            centred = _named(self.centred, _about(self.dialect, total, count, measure.centre), "z")
        return _named(self.shares, _scaled(self.dialect, centred, count, self.most or str(measure.rows), largest), "s")

    def summed(self, measure: Measure) -> str:
        """Return the name of the column with the sum of q(x) over a unit's rows in a group; 0 over no values."""
        steps = self._row(quantised_sql(self.dialect, measure))
        largest = max(abs(measure.low), abs(measure.high))
        return self._collect(_whole(self.dialect, self.dialect.total(steps, largest), largest))

    def _count(self, measure: Measure) -> str:
        """Return the aggregate that counts the measure's rows, if possible over the quantised column of a sum."""
        condition = counts_sql(self.dialect, measure)
        if condition is None:
            return "count(*)"
        for other in self.measures:
            if other.kind in TOTALS and (other.argument, other.where) == (measure.argument, measure.where):
                return f"count({self._row(quantised_sql(self.dialect, other))})"
        return f"count(*) FILTER (WHERE {self._row(condition)})"

    def _row(self, sql: str) -> str:
        return _named(self.rows, sql, "x")

    def _collect(self, sql: str) -> str:
        return _named(self.collected, sql, "y")


def fits_64_bits(largest: int) -> bool:
    """Whether a sum over at most 2^40 rows, each at most ``largest`` in size, fits a signed 64-bit integer."""
    return largest * MOST_ROWS < _BIGINT


def _whole(d: Dialect, total: str, largest: int) -> str:
    """Return SQL of a sum with 0 over no rows, as BIGINT if it always fits 64 bits, else in the wide type."""
    return f"CAST(coalesce({total}, 0) AS {_type(d, largest)})"


def _about(d: Dialect, total: str, count: str, centre: int) -> str:
    """Return SQL of Σ (q - centre) from Σ q and the number of values."""
    if centre == 0:
        return total
    return f"{total} - {count} * CAST({centre} AS {_type(d, abs(centre))})"


def _listed(columns: dict[str, str]) -> list[str]:
    return [f"{sql} AS {name}" for name, sql in columns.items()]


def _carried(before: dict[str, str], columns: dict[str, str]) -> list[str]:
    return [] if columns is before else list(before)


def _named(columns: dict[str, str], sql: str, letter: str) -> str:
    """Return the name of the column for this SQL, adding a column if there is none."""
    for name, known in columns.items():
        if known == sql:
            return name
    name = f"{letter}{len(columns)}"
    columns[name] = sql
    return name


def _square(d: Dialect, steps: str, measure: Measure) -> str:
    largest = max(measure.reach, abs(measure.centre))
    distance = f"(CAST({steps} AS {'BIGINT' if largest < _NARROW // 2 else d.wide}) - {measure.centre})"
    return f"{distance} * {distance}"


def _scaled(d: Dialect, total: str, count: str, rows: str, largest: int) -> str:
    """Return SQL of a total over ``count`` values, times rows/count if count > rows, rounded half away from zero.

    |S|·r/n = (|S| div n)·r + (|S| mod n)·r/n, whose parts stay small.
    """
    size, n = d.huge(f"abs({total})"), d.huge(count)
    rest = d.divided(f"({size} % {n} * {rows} * 2 + {n})", f"(2 * {n})", wide=True)
    scaled = f"CAST({d.divided(size, n, wide=True)} * {rows} + {rest} AS {_type(d, largest)})"
    return f"CASE WHEN {count} <= {rows} THEN {total} WHEN {total} < 0 THEN -{scaled} ELSE {scaled} END"


def _type(d: Dialect, largest: int) -> str:
    """Return the SQL type of a sum over at most 2^40 rows, each at most ``largest`` in absolute value."""
    return "BIGINT" if fits_64_bits(largest) else d.wide
