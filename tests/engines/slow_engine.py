"""The slow engine: the algebra, the bounding and the measures in plain Python, for checking the fast ones.

Written from the definitions (``semantics.md``, :mod:`tacit.query.relational.algebra`, :mod:`tacit.query.planning.measures`), row by row, with no thought of speed.
It reads rows of canonical values: what is not finite or does not fit has become None already.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from tacit.engines.sql.bounding import Chooser
from tacit.engines.sql.relations import has_row_units
from tacit.query.planning.measures import Measure, MeasureKind, quantise
from tacit.query.query import FinalAggregation
from tacit.query.relational import algebra as a
from tacit.query.relational.algebra import SortKey, WindowCall, WindowFrame
from tacit.query.relational.expressions import Expression
from tacit.query.relational.functions import evaluate
from tacit.query.relational.functions.registry import cast_value, text_of_value
from tacit.query.types import DOUBLE, INTEGER, Kind, SqlType, Value, as_value, ordinal, sort_key

Row = tuple[Value | None, ...]
Tables = Mapping[str, tuple[tuple[str, ...], list[Row]]]


def rows_of(node: a.RelationNode, tables: Tables, secret: bytes = b"") -> list[Row]:
    match node:
        case a.Scan():
            return _scan(node, tables)
        case a.Constants():
            return [tuple(cell.value for cell in row) for row in node.rows]
        case a.FilterRows():
            return [row for row in rows_of(node.source, tables, secret) if evaluate(node.condition, row) is True]
        case a.FirstRows():
            return _first_rows(node, rows_of(node.source, tables, secret), secret)
        case a.ProjectColumns():
            return [tuple(evaluate(e, row) for e in node.expressions) for row in rows_of(node.source, tables, secret)]
        case a.Join():
            return _join(node, tables, secret)
        case a.ExistsColumn():
            other = rows_of(node.other, tables, secret)
            return [
                (*row, any(evaluate(node.condition, row + more) is True for more in other))
                for row in rows_of(node.source, tables, secret)
            ]
        case a.UnionAll():
            return [row for part in node.parts for row in rows_of(part, tables, secret)]
        case a.UnitAggregate():
            return _aggregate(node, rows_of(node.source, tables, secret))
        case a.UnitWindow():
            return _windows(node, rows_of(node.source, tables, secret))
    raise TypeError(type(node).__name__)


def _scan(node: a.Scan, tables: Tables) -> list[Row]:
    names, stored = tables[node.table.lower()]
    found = []
    for number, row in enumerate(stored):
        cells = dict(zip(names, row, strict=True))
        shown = tuple(cells[name.lower()] for name in node.columns)
        if node.unit is None:
            found.append(shown)
        elif node.path:
            found += [(*shown, unit) for unit in _units(node, cells, tables) if unit is not None]
        elif node.unit < len(node.columns):
            found += [shown] if shown[node.unit] is not None else []
        else:
            found.append((*shown, number * 1024 + list(tables).index(node.table.lower())))
    return found


def _units(node: a.Scan, cells: Mapping[str, Value | None], tables: Tables) -> list[Value | None]:
    here = [cells]
    for hop in node.path:
        names, stored = tables[hop.table.lower()]
        reached = [dict(zip(names, row, strict=True)) for row in stored]
        here = [
            to
            for at in here
            for to in reached
            if at[hop.column.lower()] is not None and at[hop.column.lower()] == to[hop.references.lower()]
        ]
    return [at[(node.unit_source or "").lower()] for at in here]


def _first_rows(node: a.FirstRows, rows: list[Row], secret: bytes) -> list[Row]:
    assert node.unit is not None
    unit = node.unit
    kinds = [field.type for field in node.fields]
    rule = Rule(secret, kinds[unit], has_row_units(a.walk_relations(node)))
    others = [slot for slot in range(len(kinds)) if slot != unit]

    def place(row: Row) -> tuple[object, ...]:
        parts = [(row[slot], kinds[slot]) for slot in others]
        return rule._digest("rows", row[unit], parts), tuple(sort_key(value, kind) for value, kind in parts)

    members: dict[Value | None, list[Row]] = defaultdict(list)
    for row in rows:
        members[row[unit]].append(row)
    return [row for own in members.values() for row in sorted(own, key=place)[: node.most]]


def _join(node: a.Join, tables: Tables, secret: bytes) -> list[Row]:
    left, right = rows_of(node.left, tables, secret), rows_of(node.right, tables, secret)
    pairs = [
        (i, j)
        for i, one in enumerate(left)
        for j, two in enumerate(right)
        if evaluate(node.condition, one + two) is True
    ]
    found = [left[i] + right[j] for i, j in pairs]
    nothing = {"left": (None,) * len(node.left.fields), "right": (None,) * len(node.right.fields)}
    if node.kind in (a.JoinKind.LEFT, a.JoinKind.FULL):
        matched = {i for i, _ in pairs}
        found += [row + nothing["right"] for i, row in enumerate(left) if i not in matched]
    if node.kind in (a.JoinKind.RIGHT, a.JoinKind.FULL):
        matched = {j for _, j in pairs}
        found += [nothing["left"] + r for j, r in enumerate(right) if j not in matched]
    width = len(node.left.fields)
    if len(node.fields) > width + len(node.right.fields):
        units = [node.left.unit, None if node.right.unit is None else node.right.unit + width]
        found = [(*row, next((row[u] for u in units if u is not None and row[u] is not None), None)) for row in found]
    return found


def _aggregate(node: a.UnitAggregate, rows: list[Row]) -> list[Row]:
    groups: dict[Row, list[Row]] = {} if node.keys else {(): []}
    for row in rows:
        groups.setdefault(tuple(evaluate(key, row) for key in node.keys), []).append(row)
    return [(*key, *(_call(call, members) for call in node.calls)) for key, members in groups.items()]


def _call(call: a.UnitCall, rows: Sequence[Row]) -> Value | None:
    counted = [row for row in rows if call.where is None or evaluate(call.where, row) is True]
    if call.argument is None:
        return len(counted)
    argument, kind = call.argument, call.argument.type
    values = [v for v in (evaluate(argument, row) for row in counted) if v is not None]
    return as_value(_fold(call, values, kind), call.type)


def _fold(call: a.UnitCall, values: list[Value], kind: SqlType) -> Value | None:
    if call.function == "count":
        return len(values)
    if call.function == "count_distinct":
        return len(set(values))
    if not values:
        return None
    match call.function:
        case "min" | "max":
            return (min if call.function == "min" else max)(values, key=lambda v: sort_key(v, kind))
        case "bool_and":
            return all(values)
        case "bool_or":
            return any(values)
        case "sum" if kind.kind is not Kind.DOUBLE:
            total = sum(values, 0 if kind == INTEGER else Fraction(0))  # type: ignore[arg-type]
            return total if call.type != DOUBLE else float(total * 10**kind.scale) / 10**kind.scale
        case "avg" if kind.kind is not Kind.DOUBLE:
            return float(sum(Fraction(v) * 10**kind.scale for v in values)) / (float(len(values)) * 10**kind.scale)  # type: ignore[arg-type]
    return _of_doubles(call, sorted(float(cast_value(v, kind, DOUBLE)) for v in values))  # type: ignore[arg-type]


def _of_doubles(call: a.UnitCall, values: list[float]) -> float | None:
    total = functools.reduce(lambda x, y: x + y, values)
    n = len(values)
    match call.function:
        case "sum":
            return total
        case "avg":
            return total / n
        case "median" | "quantile":
            fraction = 0.5 if call.parameter is None else float(call.parameter)  # type: ignore[arg-type]
            place = (n - 1) * fraction
            low, high = values[math.floor(place)], values[math.ceil(place)]
            return low + (high - low) * (place - math.floor(place))
    less = 1 if call.function.endswith("samp") else 0
    if n <= less:
        return None
    mean = total / n
    squares = functools.reduce(lambda x, y: x + y, [(v - mean) * (v - mean) for v in values]) / (n - less)
    return math.sqrt(squares) if call.function.startswith("stddev") and math.isfinite(squares) else squares


def _windows(node: a.UnitWindow, rows: list[Row]) -> list[Row]:
    columns = [_window(call, node, rows) for call in node.calls]
    return [(*row, *(column[i] for column in columns)) for i, row in enumerate(rows)]


def _window(call: WindowCall, node: a.UnitWindow, rows: list[Row]) -> list[Value | None]:
    result: list[Value | None] = [None] * len(rows)
    parts: dict[Row, list[int]] = defaultdict(list)
    for i, row in enumerate(rows):
        parts[tuple(evaluate(e, row) for e in call.partition)].append(i)
    for members in parts.values():
        given = functools.cmp_to_key(lambda i, j: _compare(call.order, rows[i], rows[j]))
        fields = [(s, f.type) for s, f in enumerate(node.source.fields) if s != node.source.unit]
        members.sort(key=lambda i: tuple(sort_key(rows[i][s], kind) for s, kind in fields))
        members.sort(key=given)
        for place, i in enumerate(members):
            result[i] = _at(call, members, place, rows)
    return result


def _compare(order: Sequence[SortKey], left: Row, right: Row) -> int:
    for key in order:
        x, y = evaluate(key.expression, left), evaluate(key.expression, right)
        if x == y:
            continue
        if x is None or y is None:
            return (-1 if x is None else 1) * (1 if key.nulls_first else -1)
        less = sort_key(x, key.expression.type) < sort_key(y, key.expression.type)
        return (-1 if less else 1) * (-1 if key.descending else 1)
    return 0


def _at(call: WindowCall, members: list[int], place: int, rows: list[Row]) -> Value | None:
    here = rows[members[place]]
    match call.function:
        case "row_number":
            return place + 1
        case "rank":
            return 1 + sum(_compare(call.order, rows[i], here) < 0 for i in members)
        case "dense_rank":
            before = {
                tuple(evaluate(k.expression, rows[i]) for k in call.order)
                for i in members
                if _compare(call.order, rows[i], here) < 0
            }
            return 1 + len(before)
        case "lag" | "lead" if call.argument is not None and call.offset is not None:
            other = place + (call.offset if call.function == "lead" else -call.offset)
            return evaluate(call.argument, rows[members[other]]) if 0 <= other < len(members) else None
    if call.frame is WindowFrame.PEERS:
        frame = [i for i in members if _compare(call.order, rows[i], here) <= 0]
    else:
        frame = members if call.frame is WindowFrame.PARTITION else members[: place + 1]
    return _call(a.UnitCall(call.function, call.argument, None, None, call.type), [rows[i] for i in frame])


# -- the final aggregation ---------------------------------------------------------------------------------------------


def measure(
    final: FinalAggregation, tables: Tables, secret: bytes, *, numbered: bool
) -> tuple[list[Row], list[int], list[list[object]]]:
    """Keys, units per key, and per measure one integer (or list of integers) per key."""
    rows = rows_of(final.source, tables, secret)
    unit = final.source.unit
    assert unit is not None
    rule = Rule(secret, final.source.fields[unit].type, numbered)
    members: dict[Value | None, dict[Row, list[Row]]] = defaultdict(lambda: defaultdict(list))
    public = (
        list(itertools.product(*(key.values or () for key in final.keys)))
        if final.public_keys or not final.keys
        else None
    )
    for row in rows:
        key = tuple(evaluate(k.expression, row) for k in final.keys)
        if public is None or key in public:
            members[row[unit]][key].append(row)
    kept = {u: rule.keep_groups(u, groups, final, public) for u, groups in members.items()}
    present = {key for groups in kept.values() for key in groups}
    types = [key.expression.type for key in final.keys]
    keys = public if public is not None else sorted(present, key=lambda k: tuple(map(sort_key, k, types)))
    units = [sum(key in groups for groups in kept.values()) for key in keys]
    most = {u: rule.share_rows(u, groups, final, public) for u, groups in kept.items()}
    return keys, units, [[_group(m, key, kept, most, rule) for key in keys] for m in final.measures]


Most = Mapping[Value | None, Mapping[Row, int]]


def _group(
    m: Measure, key: Row, kept: Mapping[Value | None, Mapping[Row, list[Row]]], most: Most, rule: Rule
) -> object:
    shares = [(unit, groups[key]) for unit, groups in kept.items() if key in groups]
    if m.kind.traits.unites:
        found = {value for unit, rows in shares for value in rule.keep_distinct(unit, _values(m, rows), m)}
        return len(found) if m.kind is MeasureKind.DISTINCT else sum(steps(m, value) - m.centre for value in found)
    if m.kind is MeasureKind.PLACES:
        kept_places = (rule.keep_places(unit, _places(m, rows), m.rows) for unit, rows in shares)
        return tuple(sorted(Counter(place for places in kept_places for place in places).items()))
    if m.kind in (MeasureKind.LEAVES, MeasureKind.CATEGORIES):
        counts = [0] * m.width
        for unit, rows in shares:
            for place in rule.keep_places(unit, _places(m, rows), m.rows):
                counts[place] += 1
        return counts
    return sum(_clamp(_share(m, rows, most[unit].get(key)), *m.clamp) for unit, rows in shares)


def _clamp(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)


def _counting(m: Measure, rows: list[Row]) -> list[Row]:
    return [row for row in rows if m.where is None or evaluate(m.where, row) is True]


def _values(m: Measure, rows: list[Row]) -> list[Value]:
    assert m.argument is not None
    found = (evaluate(m.argument, row) for row in _counting(m, rows))
    return [value for value in found if value is not None]


def steps(m: Measure, value: Value) -> int:
    """q(x); for a DOUBLE on a decimal step the quotient of doubles is rounded."""
    assert m.argument is not None
    power = m.step.numerator == 1 and m.step.denominator & (m.step.denominator - 1) == 0
    if isinstance(value, float) and not power:
        quotient = value / float(m.step)
        if not math.isfinite(quotient):
            return m.high if quotient > 0 else m.low
        return _clamp(quantise(Fraction(quotient), Fraction(1)), m.low, m.high)
    return _clamp(quantise(ordinal(value, m.argument.type), m.step), m.low, m.high)


def _places(m: Measure, rows: list[Row]) -> list[int]:
    if m.kind in (MeasureKind.LEAVES, MeasureKind.PLACES):
        return [(steps(m, value) - m.low) // m.leaf for value in _values(m, rows)]
    return [m.categories.index(value) for value in _values(m, rows) if value in m.categories]


def _share(m: Measure, rows: list[Row], most: int | None) -> int:
    """The integer of a unit in a group; ``most`` of its rows count there where rows are bounded in all groups together."""
    counted = _counting(m, rows) if m.argument is None else _values(m, rows)
    if m.kind in (MeasureKind.UNITS, MeasureKind.VALUES, MeasureKind.ROWS):
        limit = 1 if m.kind is MeasureKind.UNITS else len(counted) if most is None else most
        return min(len(counted), limit)
    values = _values(m, rows)
    numbers = [steps(m, value) - m.centre for value in values]
    total = sum(n * n for n in numbers) if m.kind is MeasureKind.CENTRED_SQUARES else sum(numbers)
    if m.kind is MeasureKind.SUM:
        return total if most is None else _clamp(total, most * min(0, m.low), most * max(0, m.high))
    limit = m.rows if most is None else most
    if len(values) <= limit:
        return total
    scaled = math.floor(Fraction(abs(total) * limit, len(values)) + Fraction(1, 2))
    return scaled if total >= 0 else -scaled


class Rule:
    """Which groups and values a unit keeps, as :mod:`tacit.engines.sql.bounding` describes it."""

    def __init__(self, secret: bytes, kind: SqlType, numbered: bool) -> None:
        self.chooser, self.kind, self.numbered = Chooser(secret, kind, numbered), kind, numbered
        self.secret = secret

    def _key(self, purpose: str) -> str:
        return hashlib.blake2b(purpose.encode(), key=self.secret, digest_size=16).hexdigest()

    def _text(self, value: Value | None, kind: SqlType) -> str:
        if value is None:
            return "-"
        if isinstance(value, float):
            size = abs(value)
            value = math.floor(value * 2.0**40) if size < 2**22 else math.floor(value) if size < 2**62 else 0
        shown = text_of_value(value, kind)
        return f"{len(shown)}:{shown}"

    def _digest(self, purpose: str, unit: Value | None, parts: Sequence[tuple[Value | None, SqlType]]) -> str:
        text = self._key(purpose) + ("" if self.numbered else self._text(unit, self.kind))
        return hashlib.md5((text + "".join(self._text(v, k) for v, k in parts)).encode()).hexdigest()

    def _number(self, purpose: str, value: Value | None, kind: SqlType) -> int:
        if value is None:
            return 2**31 - 1
        if isinstance(value, str):
            return int(hashlib.md5((self._key(purpose) + value).encode()).hexdigest()[:7], 16)
        if isinstance(value, float):
            size = abs(value)
            whole = math.floor(value * 2.0**40) if size < 2**22 else math.floor(value) if size < 2**62 else 0
        else:
            whole = int(value) if isinstance(value, bool) else int(ordinal(value, kind) * 10**kind.scale)
        return (whole % 2**31 + (whole >> 31) % 2**31) % 2**31

    def _rank(self, purpose: str, unit: Value | None, parts: Sequence[tuple[Value | None, SqlType]]) -> int:
        start = int(self._key(purpose)[8:16], 16) >> 1 | 2**30
        rank = ((self._folded(unit) * self.chooser.multiplier >> 15) + start) % 2**31
        for value, kind in parts:
            rank = ((rank + self._number(purpose, value, kind)) * self.chooser.multiplier >> 20) % 2**31
            rank = (rank * 1_327_217_885 >> 20) % 2**31
        return rank

    def _folded(self, unit: Value | None) -> int:
        if self.numbered:
            return 0
        if isinstance(unit, int):
            return (unit ^ (unit >> 30)) & (2**30 - 1)
        return int(hashlib.md5((self._key("units") + self._text(unit, self.kind)).encode()).hexdigest()[:7], 16)

    def place(self, unit: Value | None, code: int, groups: int) -> int:
        h = self._folded(unit) * self.chooser.multiplier
        size = 2 ** max(6, (groups - 1).bit_length())
        return ((h >> 7) + ((h >> 15) | 1) * code + (h & 16382) * code * code) % size

    def keep_groups(
        self, unit: Value | None, groups: Mapping[Row, list[Row]], final: FinalAggregation, public: list[Row] | None
    ) -> dict[Row, list[Row]]:
        if public is not None:
            order = sorted(groups, key=lambda key: self.place(unit, public.index(key), len(public)))
        else:
            kinds = [key.expression.type for key in final.keys]
            order = sorted(
                groups,
                key=lambda key: (
                    self._rank("groups", unit, list(zip(key, kinds, strict=True))),
                    tuple(map(sort_key, key, kinds)),
                ),
            )
        return {key: groups[key] for key in order[: final.max_groups]}

    def share_rows(
        self, unit: Value | None, groups: Mapping[Row, list[Row]], final: FinalAggregation, public: list[Row] | None
    ) -> dict[Row, int]:
        """How many rows of each group count; empty where that is not bounded in all groups together."""
        if final.max_total is None:
            return {}
        order = list(groups)
        if public is not None and len(public) <= final.max_groups:
            order.sort(key=public.index)
        rows = {key: min(len(groups[key]), max(m.rows for m in final.measures)) for key in order}
        total = sum(rows.values())
        if total <= final.max_total:
            return rows
        bits = (self._folded(unit) * self.chooser.multiplier >> 10) % 2**20
        place = Fraction(total * bits // 2**20, total)
        found = {}
        for key in order:
            after = place + Fraction(final.max_total * rows[key], total)
            found[key] = math.floor(after) - math.floor(place)
            place = after
        return found

    def keep_distinct(self, unit: Value | None, values: list[Value], m: Measure) -> list[Value]:
        assert m.argument is not None
        kind = m.argument.type
        return sorted(set(values), key=lambda v: (self._rank("values", unit, [(v, kind)]), sort_key(v, kind)))[: m.rows]

    def keep_places(self, unit: Value | None, places: list[int], most: int) -> list[int]:
        seen: dict[int, int] = defaultdict(int)
        numbered = []
        for place in places:
            seen[place] += 1
            numbered.append((place, seen[place]))
        if len(numbered) <= most:
            return places
        order = sorted(numbered, key=lambda p: (self._rank("values", unit, [(p[0], INTEGER), (p[1], INTEGER)]), p))
        return [place for place, _ in order[:most]]


Evaluator = Callable[[Expression, Row], Value | None]
