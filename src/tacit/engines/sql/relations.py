"""Relations as SQL: one SELECT per node, with only the columns that the nodes above it need.

A relation's columns are named c0, c1, … by slot. In join conditions the left side is l and the right side is r.

Aggregates inside one unit's group are functions of the multiset of values, independent of order and threads. Integers
and decimals are summed as integers. Doubles are collected, sorted, and summed sequentially from the smallest to the
largest; a parallel sum would depend on how rows were distributed to threads. Variances compute the mean first and then
the squared distances from it, in the same order.

The ORDER BY of a window ends with all columns of the source, so that rows which still tie are equal and their order
does not matter. Sums of doubles over a whole partition are computed as an aggregate and joined back; a running sum of
doubles would depend on the database's own partitioning and is refused before any data is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tacit.core.errors import InternalError
from tacit.engines.sql.bounding import Chooser
from tacit.engines.sql.dialect import Dialect, column
from tacit.engines.sql.scalars import cast_sql, condition_sql, scalar_sql
from tacit.query.catalog import ROW
from tacit.query.planning.work import Matching, equated, matching
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import (
    Constants,
    ExistsColumn,
    FilterRows,
    FirstRows,
    Join,
    JoinKind,
    ProjectColumns,
    RelationNode,
    Scan,
    SortKey,
    UnionAll,
    UnitAggregate,
    UnitCall,
    UnitWindow,
    WindowCall,
    WindowFrame,
    scanned,
    walk_relations,
)
from tacit.query.relational.expressions import Expression, Literal, Reference, references
from tacit.query.relational.narrowing import conjuncts
from tacit.query.types import DOUBLE, Kind


@dataclass(frozen=True)
class StoredTable:
    """SQL that reads one stored table.

    Args:
        index: index of the table in the catalog, part of its row numbers.
        scan: SQL to put after FROM.
        columns: SQL expression of each declared column by lower-case name; it cannot fail for any row.
        row: SQL expression of a row's number, the same in every scan of one statement; None if rows have no number.
        doubles: SQL of stored doubles by column name, unchecked: they may be infinite or NaN, and the reader must
            handle these.
    """

    index: int
    scan: str
    columns: Mapping[str, str]
    row: str | None
    doubles: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CountedUnits(UnitAggregate):
    """One row per unit with its number of rows, from a relation ``scan`` in which the database counted them already.

    Args:
        scan: SQL to put after FROM.
        held: its columns by slot.
    """

    scan: str
    held: Mapping[int, str]


#: Variances and standard deviations: d of the divisor n - d, and whether the square root is taken.
SPREADS = {"var_pop": (0, False), "var_samp": (1, False), "stddev_pop": (0, True), "stddev_samp": (1, True)}


def is_listed(call: UnitCall) -> bool:
    """Whether the aggregate needs its values collected in a sorted list first."""
    double = call.argument is not None and call.argument.type.kind is Kind.DOUBLE
    return call.function in SPREADS or (double and call.function in ("sum", "avg"))


def aggregate_sql(d: Dialect, node: UnitAggregate, needed: frozenset[int], below: str) -> str:
    """Write the query for one row per distinct keys: the keys, then the calls. ``below`` selects what they read."""
    keys = [scalar_sql(d, key) for key in node.keys]
    wanted = [(len(keys) + i, call) for i, call in enumerate(node.calls) if len(keys) + i in needed]
    first = [f"{key} AS g{i}" for i, key in enumerate(keys)]
    first += [f"{call_sql(d, call)} AS a{slot}" for slot, call in wanted]
    means = [f"{d.list_mean(f'a{slot}')} AS m{slot}" for slot, call in wanted if call.function in SPREADS]
    third = [f"g{slot} AS {column(slot)}" for slot in sorted(needed) if slot < len(keys)]
    third += [f"{finished(d, call, f'a{slot}', f'm{slot}')} AS {column(slot)}" for slot, call in wanted]
    # Without keys there is one row, even if none of its columns is needed.
    grouped = f"SELECT {', '.join(first) or 'count(*) AS nothing'} FROM {d.derived(below)}"
    if keys:
        # By name: SQL reads an integer constant in GROUP BY as the number of a column.
        grouped += f" GROUP BY {', '.join(f'g{i}' for i in range(len(keys)))}"
    if means:
        grouped = f"SELECT *, {', '.join(means)} FROM {d.derived(grouped)}"
    return f"SELECT {', '.join(third) or '1 AS nothing'} FROM {d.derived(grouped)}"


def call_sql(d: Dialect, call: UnitCall, over: str = "") -> str:
    """Return the aggregate that a call is computed from; a sorted list for calls that need one."""
    where = "" if call.where is None else f" FILTER (WHERE {condition_sql(d, call.where)})"
    if call.argument is None:
        return f"count(*){where}{over}"
    value, kind = scalar_sql(d, call.argument), call.argument.type
    if is_listed(call):
        number = cast_sql(d, value, kind, DOUBLE)
        conditions = [f"{number} IS NOT NULL", *([] if call.where is None else [condition_sql(d, call.where)])]
        return d.collected(number, " AND ".join(conditions))
    match call.function:
        case "count_distinct":
            return f"count(DISTINCT {value}){where}"
        case "count" | "bool_and" | "bool_or":
            return f"{call.function}({value}){where}{over}"
        case "sum":
            return f"{d.total(value)}{where}{over}"
        case "min" | "max":
            return f"{d.extreme(call.function, value, kind)}{where}{over}"
        case "avg":
            total = f"CAST({d.total(value)}{where}{over} AS {d.double})"
            return f"{total} / (CAST(count({value}){where}{over} AS {d.double}) * {10**kind.scale})"
        case _:
            fraction = 0.5 if call.parameter is None else float(call.parameter)  # type: ignore[arg-type]
            return d.quantile(cast_sql(d, value, kind, DOUBLE), fraction, where, over)


def finished(d: Dialect, call: UnitCall, value: str, mean: str) -> str:
    """Return SQL of a call's result from the name of its aggregate and, for variances, the name of the mean."""
    if is_listed(call):
        return d.finite(_of_list(d, call, value, mean))
    if call.function in ("count_rows", "count", "count_distinct"):
        return f"CAST({value} AS BIGINT)"
    if call.function == "sum":
        return _total(d, call, value)
    exact = call.type.kind is not Kind.DOUBLE or call.function not in ("avg", "quantile", "median")
    return value if exact else d.finite(value)


def _total(d: Dialect, call: UnitCall, total: str) -> str:
    if call.type.kind is Kind.INTEGER:
        return d.fit_integer(total)
    if call.type.kind is Kind.DECIMAL:
        return d.fit_decimal(total)
    scale = 0 if call.argument is None else call.argument.type.scale
    return d.finite(f"CAST({total} AS {d.double}) / {10**scale}")


def _of_list(d: Dialect, call: UnitCall, values: str, mean: str) -> str:
    size = d.list_size(values)
    if call.function in ("sum", "avg"):
        total = d.list_sum(values) if call.function == "sum" else d.list_mean(values)
        return f"CASE WHEN {size} > 0 THEN {total} END"
    less, root = SPREADS[call.function]
    squares = d.list_squares(values, mean, less)
    return f"CASE WHEN {size} > {less} THEN {f'sqrt({squares})' if root else squares} END"


_RANKS = ("rank", "dense_rank")
_PLACES = ("row_number", "lag", "lead", "first_value", "last_value")
_ALL = "BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
_SO_FAR = "BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"


def check_windows(d: Dialect, nodes: Sequence[RelationNode]) -> None:
    """Refuse running sums of doubles, and running quantiles if the database has none."""
    for part in nodes:
        for call in part.calls if isinstance(part, UnitWindow) else ():
            _check(d, call)


def _check(d: Dialect, call: WindowCall) -> None:
    if not _is_joined(d, call) or call.frame is WindowFrame.PARTITION:
        return
    if is_listed(_as_call(call)):
        raise Refusal(
            "window",
            "A running sum, average or variance needs exact numbers; CAST the value to DECIMAL or INTEGER first.",
        )
    raise Refusal("window", "This database has no running quantiles; leave ORDER BY out of the window.")


def window_sql(d: Dialect, node: UnitWindow, needed: frozenset[int], below: str) -> str:
    """Write the query for the source's columns, then one per window; ``below`` selects every source column."""
    width = len(node.source.fields)
    calls = {width + i: call for i, call in enumerate(node.calls) if width + i in needed}
    joined = {slot: call for slot, call in calls.items() if _is_joined(d, call)}
    beside = {slot: call for slot, call in calls.items() if slot not in joined}
    columns = [column(slot) for slot in sorted(needed) if slot < width]
    columns += [f"{_over(d, call, node)} AS w{slot}" for slot, call in beside.items()]
    partitions = {slot: [scalar_sql(d, part) for part in call.partition] for slot, call in joined.items()}
    columns += [f"{key} AS p{slot}_{i}" for slot, keys in partitions.items() for i, key in enumerate(keys)]
    rows = f"SELECT {', '.join(columns) or '1 AS nothing'} FROM source"
    outer = [f"l.{column(slot)} AS {column(slot)}" for slot in sorted(needed) if slot < width]
    outer += [f"{_finished(d, call, f'l.w{slot}')} AS {column(slot)}" for slot, call in beside.items()]
    outer += [f"j{slot}.x AS {column(slot)}" for slot in joined]
    once = d.materialized if joined else "AS"
    joins = "".join(_joined(d, slot, call, node) for slot, call in joined.items())
    return f"WITH source {once} ({below}) SELECT {', '.join(outer) or '1 AS nothing'} FROM ({rows}) AS l{joins}"


def _is_joined(d: Dialect, call: WindowCall) -> bool:
    if call.function in (*_RANKS, *_PLACES):
        return False
    return is_listed(_as_call(call)) or (call.function in ("quantile", "median") and not d.window_quantiles)


def _as_call(call: WindowCall) -> UnitCall:
    return UnitCall(call.function, call.argument, None, None, call.type)


def _joined(d: Dialect, slot: int, call: WindowCall, node: UnitWindow) -> str:
    """Return the JOIN that adds the aggregate of each partition to the rows of the partition."""
    count = len(call.partition)
    group = UnitAggregate((), None, None, 1, 1, 1, node.source, call.partition, (_as_call(call),))
    inner = aggregate_sql(d, group, frozenset(range(count + 1)), "SELECT * FROM source")
    keys = ", ".join(f"{column(i)} AS k{i}" for i in range(count))
    match = " AND ".join(f"l.p{slot}_{i} IS NOT DISTINCT FROM j{slot}.k{i}" for i in range(count)) or "TRUE"
    names = f"{keys}, " if keys else ""
    return f" JOIN (SELECT {names}{column(count)} AS x FROM {d.derived(inner)}) AS j{slot} ON {match}"


def _over(d: Dialect, call: WindowCall, node: UnitWindow) -> str:
    parts = ", ".join(scalar_sql(d, part) for part in call.partition)
    partition = f"PARTITION BY {parts} " if parts else ""
    given = [_term(d, key) for key in call.order]
    ties = [f"{column(slot)} NULLS LAST" for slot in _tie_breakers(node)]
    if call.function in _RANKS:
        # No tie-breaker: tied rows must get equal ranks.
        return f"CAST({call.function}() OVER ({partition}{_ordered(given)}) AS BIGINT)"
    total = _ordered([*given, *ties])
    if call.function == "row_number":
        return f"CAST(row_number() OVER ({partition}{total}) AS BIGINT)"
    if call.function in ("first_value", "last_value") and call.argument is not None:
        rows = _ALL if call.frame is WindowFrame.PARTITION else _SO_FAR
        return f"{call.function}({scalar_sql(d, call.argument)}) OVER ({partition}{total} ROWS {rows})"
    if call.function in _PLACES and call.argument is not None:
        return f"{call.function}({scalar_sql(d, call.argument)}, {call.offset}) OVER ({partition}{total})"
    if call.frame is WindowFrame.PARTITION:
        return call_sql(d, _as_call(call), f" OVER ({partition.strip()})")
    if call.frame is WindowFrame.PEERS:
        return call_sql(d, _as_call(call), f" OVER ({partition}{_ordered(given)} RANGE {_SO_FAR})")
    return call_sql(d, _as_call(call), f" OVER ({partition}{total} ROWS {_SO_FAR})")


def _finished(d: Dialect, call: WindowCall, value: str) -> str:
    return value if call.function in (*_RANKS, *_PLACES) else finished(d, _as_call(call), value, "")


def _tie_breakers(node: UnitWindow) -> list[int]:
    """Return the slots of all columns but the unit, which is constant within a partition."""
    return [slot for slot in range(len(node.source.fields)) if slot != node.source.unit]


def _term(d: Dialect, key: SortKey) -> str:
    direction = "DESC" if key.descending else "ASC"
    return f"{scalar_sql(d, key.expression)} {direction} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


def _ordered(terms: list[str]) -> str:
    return f"ORDER BY {', '.join(terms)}" if terms else ""


Slots = frozenset[int]
Tables = Mapping[str, StoredTable]


def slots_of(expressions: Iterable[Expression | None]) -> Slots:
    """Return the slots that expressions read."""
    # Most expressions are columns.
    found: set[int] = set()
    for node in expressions:
        if isinstance(node, Reference):
            found.add(node.slot)
        elif node is not None:
            found.update([part.slot for part in references(node)])
    return frozenset(found)


def has_row_units(nodes: Sequence[RelationNode]) -> bool:
    """Whether units are row numbers in some scan; these depend on other rows, so no choice may read them."""
    return any(isinstance(node, Scan) and node.unit_source == ROW for node in nodes)


def has_union(node: RelationNode) -> bool:
    """Whether the relation contains a UNION ALL."""
    return any(isinstance(part, UnionAll) for part in walk_relations(node))


def tables_of(node: RelationNode) -> set[str]:
    """Return the lower-case names of the tables that a relation reads."""
    return {name.lower() for name in scanned(node)}


def relation_sql(d: Dialect, node: RelationNode, needed: Slots, tables: Tables, secret: bytes = b"") -> str:
    """Write a SELECT with the columns in ``needed``; ``secret`` decides which rows of a unit come first."""
    match node:
        case Scan():
            return _scan(node, needed, tables)
        case Constants():
            return _constants(d, node, needed)
        case FilterRows():
            below = relation_sql(d, node.source, needed | slots_of([node.condition]), tables, secret)
            return f"SELECT {_columns(needed)} FROM {d.derived(below)} WHERE {condition_sql(d, node.condition)}"
        case FirstRows():
            every = frozenset(range(len(node.fields)))
            return _first_rows(d, node, needed, relation_sql(d, node.source, every, tables, secret), secret)
        case ProjectColumns():
            wanted = {slot: node.expressions[slot] for slot in needed}
            below = relation_sql(d, node.source, slots_of(wanted.values()), tables, secret)
            # Computed columns must not be inlined into every level that reads them.
            plain = all(isinstance(e, (Reference, Literal)) for e in wanted.values())
            below = d.derived(below) if plain else d.fenced(below)
            listed = f"SELECT {_listed({s: scalar_sql(d, e) for s, e in wanted.items()})} FROM {below}"
            return d.settled(listed) if any(isinstance(e, Literal) for e in wanted.values()) else listed
        case Join():
            return _join(d, node, needed, tables, secret)
        case ExistsColumn():
            return _mark(d, node, needed, tables, secret)
        case UnionAll():
            parts = [relation_sql(d, part, needed, tables, secret) for part in node.parts]
            return " UNION ALL ".join(f"SELECT {_columns(needed)} FROM {d.derived(part)}" for part in parts)
        case CountedUnits():
            return f"SELECT {_listed({slot: node.held[slot] for slot in needed})} FROM {node.scan}"
        case UnitAggregate():
            read = slots_of([*node.keys, *(e for call in node.calls for e in (call.argument, call.where))])
            return aggregate_sql(d, node, needed, relation_sql(d, node.source, read, tables, secret))
        case UnitWindow():
            every = frozenset(range(len(node.source.fields)))
            return window_sql(d, node, needed, relation_sql(d, node.source, every, tables, secret))
        case _:
            raise InternalError(f"there is no SQL for {type(node).__name__}")


def _columns(needed: Slots) -> str:
    return _listed({slot: column(slot) for slot in needed})


def _listed(columns: Mapping[int, str]) -> str:
    """Return a select list by slot; it has a column even if no column is needed."""
    return ", ".join(f"{sql} AS {column(slot)}" for slot, sql in sorted(columns.items())) or "1 AS nothing"


def _scan(node: Scan, needed: Slots, tables: Tables) -> str:
    stored = tables[node.table.lower()]
    wanted = {slot: name.lower() for slot, name in enumerate(node.columns) if slot in needed}
    columns = {slot: f"t.{column(slot)}" for slot in wanted}
    inner = [f"{stored.columns[name]} AS {column(slot)}" for slot, name in wanted.items()]
    conditions, joins = [], ""
    if node.path:
        joins, unit = _path(node, inner, tables)
        conditions.append(f"{unit} IS NOT NULL")
        columns |= {slot: unit for slot in needed if slot == len(node.columns)}
    elif node.unit is not None and node.unit < len(node.columns):
        if node.unit not in wanted:
            inner.append(f"{stored.columns[node.columns[node.unit].lower()]} AS {column(node.unit)}")
        conditions.append(f"t.{column(node.unit)} IS NOT NULL")
    elif node.unit is not None and node.unit in needed:
        if stored.row is None:
            raise Refusal(
                "unsupported",
                f"The rows of {node.table} have no address, as those of a view; ask COUNT, SUM or AVG of it alone, or"
                " declare a unit column.",
            )
        # The catalog allows one such table per population, so row numbers of two tables are never compared.
        inner.append(f"{stored.row} AS {column(node.unit)}")
        columns[node.unit] = f"t.{column(node.unit)}"
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {_listed(columns)} FROM (SELECT {', '.join(inner) or '1 AS nothing'} FROM {stored.scan}) AS t{joins}{where}"  # noqa: E501


def _path(node: Scan, inner: list[str], tables: Tables) -> tuple[str, str]:
    """Return the joins along the foreign keys and SQL of the unit at their end; adds the first key to ``inner``."""
    stored = tables[node.table.lower()]
    inner.append(f"{stored.columns[node.path[0].column.lower()]} AS k0")
    joins, here = "", "t.k0"
    for index, hop in enumerate(node.path):
        target = tables[hop.table.lower()]
        last = index + 1 == len(node.path)
        onward = (node.unit_source or "") if last else node.path[index + 1].column
        read = f"{target.columns[hop.references.lower()]} AS k, {target.columns[onward.lower()]} AS n"
        joins += f" JOIN (SELECT {read} FROM {target.scan}) AS h{index} ON {here} = h{index}.k"
        here = f"h{index}.n"
    return joins, here


def _constants(d: Dialect, node: Constants, needed: Slots) -> str:
    """Write one VALUES relation: planners handle a union of single rows slowly."""
    kinds = {slot: node.fields[slot].type for slot in sorted(needed)}
    if not node.rows:
        return f"SELECT {_listed({slot: d.constant(None, kind) for slot, kind in kinds.items()})} WHERE FALSE"
    names = ", ".join(map(column, kinds)) or "nothing"
    rows = (", ".join(d.constant(row[slot].value, kind) for slot, kind in kinds.items()) or "1" for row in node.rows)
    return d.settled(f"SELECT {names} FROM (VALUES {', '.join(f'({row})' for row in rows)}) AS v({names})")


def _first_rows(d: Dialect, node: FirstRows, needed: Slots, below: str, secret: bytes) -> str:
    """Write the query for the first rows of each unit, ordered by a keyed hash of all columns, then by the columns."""
    unit = node.unit
    if unit is None:
        raise InternalError("only units have first rows")
    kinds = [part.type for part in node.fields]
    others = [slot for slot in range(len(kinds)) if slot != unit]
    chooser = Chooser(secret, kinds[unit], has_row_units(walk_relations(node)))
    digest = chooser.digest(d, "rows", column(unit), [(column(slot), kinds[slot]) for slot in others])
    order = ", ".join([digest, *(f"{column(slot)} NULLS LAST" for slot in others)])
    seat = f"row_number() OVER (PARTITION BY {column(unit)} ORDER BY {order}) AS seat"
    if not d.ranks_heavy_units:
        seated = f"SELECT *, {seat} FROM {d.derived(below)}"
        return f"SELECT {_columns(needed)} FROM {d.derived(seated)} WHERE seat <= {node.most}"
    # Few units have too many rows, and ranking is the slowest step, so only their rows are ranked. Rows are numbered
    # once, in any order. Both joins look up every row, whether or not a unit has too many: see :func:`_with_nobody`.
    own = column(unit)
    counted = f"SELECT {own} FROM numbered GROUP BY {own} HAVING count(*) > {node.most}"
    heavy = _with_nobody(d, counted, [own])
    of_heavy = f"SELECT l.* FROM numbered AS l FULL JOIN {heavy} AS r ON l.{own} = r.{own} WHERE {_MATCHED}"
    seated = f"SELECT number, {seat} FROM {d.derived(of_heavy)}"
    parts = {
        f"numbered {d.materialized}": f"SELECT *, row_number() OVER () AS number FROM {d.derived(below)}",
        "beyond AS": f"SELECT number FROM {d.derived(seated)} WHERE seat > {node.most}",
    }
    named = ", ".join(f"{name} ({sql})" for name, sql in parts.items())
    beyond = _with_nobody(d, "SELECT number FROM beyond", ["number"])
    kept = f"SELECT l.* FROM numbered AS l FULL JOIN {beyond} AS r ON l.number = r.number WHERE {_UNMATCHED}"
    return f"WITH {named} SELECT {_columns(needed)} FROM {d.derived(kept)}"


#: SQL conditions: a numbered row of a FULL JOIN has a match, or has none; never NULL.
_MATCHED = "coalesce(l.number IS NOT NULL AND r.h, FALSE)"
_UNMATCHED = "coalesce(l.number IS NOT NULL AND r.h IS NULL, FALSE)"


def _sides(left: int) -> Callable[[int], str]:
    return lambda slot: f"l.{column(slot)}" if slot < left else f"r.{column(slot - left)}"


def _split(slots: Slots, left: int, right: int) -> tuple[Slots, Slots]:
    below = frozenset(slot for slot in slots if slot < left)
    return below, frozenset(slot - left for slot in slots if left <= slot < left + right)


def _join(d: Dialect, node: Join, needed: Slots, tables: Tables, secret: bytes) -> str:
    left, right = len(node.left.fields), len(node.right.fields)
    read = needed | slots_of([node.condition])
    name = _sides(left)
    columns = {slot: name(slot) for slot in needed}
    if left + right in needed:
        units = [node.left.unit, node.right.unit]
        slots = [units[0], None if units[1] is None else units[1] + left]
        known = [slot for slot in slots if slot is not None]
        columns[left + right] = f"coalesce({', '.join(name(slot) for slot in known)})"
        read |= frozenset(known)
    sides = [
        relation_sql(d, side, part, tables, secret)
        for side, part in zip((node.left, node.right), _split(read, left, right), strict=True)
    ]
    if not node.left.is_public and not node.right.is_public:
        parts = _split(read, left, right)
        named = (_named_side(d, sides[0], parts[0]), _named_side(d, sides[1], parts[1]))
        return _both_read(d, columns, named, node.kind, node.condition, left)
    kind = node.kind.value.upper()
    before, sources = "", [f"({side})" for side in sides]
    if d.computes_again and not matching(node.condition, left).is_looked_up:
        # Without an equality the database scans one side for each row of the other side.
        before = f"WITH {', '.join(f'j{i} {d.materialized} ({side})' for i, side in enumerate(sides))} "
        sources = ["j0", "j1"]
    joined = f"{sources[0]} AS l {kind} JOIN {sources[1]} AS r ON {condition_sql(d, node.condition, name)}"
    return f"{before}SELECT {_listed(columns)} FROM {joined}"


#: By kind of join, the condition under which a row of a FULL JOIN belongs to it. Each condition reads both sides and is
#: never NULL, so that no planner can infer that one side is needed only where the other side has a match.
_KEPT = {
    JoinKind.INNER: "coalesce(l.h AND r.h, FALSE)",
    JoinKind.LEFT: "coalesce(l.h, NOT r.h)",
    JoinKind.RIGHT: "coalesce(r.h, NOT l.h)",
    JoinKind.FULL: "coalesce(l.h, r.h)",
}


def _named_side(d: Dialect, side: str, slots: Slots) -> str:
    """Return one side of a join of protected relations, with the flag ``h`` and the row of :func:`_with_nobody`."""
    return _with_nobody(d, side, [column(slot) for slot in sorted(slots)] or ["nothing"])


def _with_nobody(d: Dialect, side: str, columns: list[str]) -> str:
    """Return a relation's rows with a flag ``h`` that is true, and one row of NULLs whose flag is NULL.

    A database does not probe an empty hash table. With the additional row, each row of the other side is hashed,
    whether or not a person has a row here. NULL keys match nothing, and a NULL flag keeps no row.
    """
    nobody = ", ".join("NULL" for _ in range(len(columns) + 1))
    return f"(SELECT {', '.join(columns)}, TRUE AS h FROM {d.derived(side)} UNION ALL SELECT {nobody})"


def _both_read(
    d: Dialect, columns: Mapping[int, str], sides: tuple[str, str], kind: JoinKind, condition: Expression, width: int
) -> str:
    """Write a join of protected relations that computes both sides completely, whatever rows they hold.

    Databases skip one side of a join if the other side is empty, and so every expression over its rows: one person's
    row would decide about work on the rows of all. A FULL JOIN needs both sides. Conditions on the flags ``h`` select
    the rows of the wanted kind of join; they also guard the columns, because a planner turns the FULL JOIN into an
    INNER JOIN if a condition above rejects NULL. Both sides come from :func:`_with_nobody`.
    """
    name, kept = _sides(width), _KEPT[kind]
    matched, where = [condition], kept
    if kind is JoinKind.INNER:
        # Equalities are the join condition; the other conjuncts filter the matched pairs.
        parts = list(conjuncts(condition))
        matched = [part for part in parts if equated(part, width) is not None]
        beside = [condition_sql(d, part, name) for part in parts if equated(part, width) is None]
        where = f"coalesce({' AND '.join(['l.h', 'r.h', *beside])}, FALSE)"
    on = " AND ".join(condition_sql(d, part, name) for part in matched)
    guarded = {slot: f"CASE WHEN {kept} THEN {sql} END" for slot, sql in columns.items()}
    return f"SELECT {_listed(guarded)} FROM {sides[0]} AS l FULL JOIN {sides[1]} AS r ON {on} WHERE {where}"


def _mark(d: Dialect, node: ExistsColumn, needed: Slots, tables: Tables, secret: bytes) -> str:
    width = len(node.source.fields)
    name = _sides(width)
    read = frozenset(slot for slot in needed if slot < width) | slots_of([node.condition])
    own, other = _split(read, width, len(node.other.fields))
    source = relation_sql(d, node.source, own, tables, secret)
    source = d.kept_apart(source) if has_union(node.source) else source
    columns = {slot: name(slot) for slot in needed if slot < width}
    if width not in needed:
        return f"SELECT {_listed(columns)} FROM ({source}) AS l"
    inner = relation_sql(d, node.other, other, tables, secret)
    rows, columns[width] = f"({source}) AS l", ""
    found = matching(node.condition, width)
    if not node.other.is_public:
        return _marked_by_unit(d, columns, ((source, own), (inner, other)), node.condition, width)
    if not d.computes_again or not (found.is_looked_up or found.crosses or found.reads_left):
        columns[width] = f"EXISTS (SELECT 1 FROM ({inner}) AS r WHERE {condition_sql(d, node.condition, name)})"
        return f"SELECT {_listed(columns)} FROM {rows}"
    columns[width] = "r.h IS NOT NULL"
    if not found.crosses and not found.reads_left:
        keys, on = _keys_met(d, found, inner)
        met = f"(SELECT *, TRUE AS h FROM {d.derived(keys)})"
        return f"SELECT {_listed(columns)} FROM {rows} LEFT JOIN {met} AS r ON {on}"
    # Rows are numbered once for both readers, so that those with a match are found by number.
    numbered = f"l {d.materialized} (SELECT *, row_number() OVER () AS place FROM {d.derived(source)})"
    met = f"SELECT DISTINCT l.place, TRUE AS h FROM l JOIN ({inner}) AS r ON {condition_sql(d, node.condition, name)}"
    return f"WITH {numbered} SELECT {_listed(columns)} FROM l LEFT JOIN ({met}) AS r ON r.place = l.place"


def _marked_by_unit(
    d: Dialect,
    columns: Mapping[int, str],
    sides: tuple[tuple[str, Slots], tuple[str, Slots]],
    condition: Expression,
    width: int,
) -> str:
    """Write the query that marks rows with a match in a protected relation; both relations are computed completely.

    See :func:`_both_read` for the reason. If the condition has more than equalities between the two relations, rows are
    numbered, so that those with a match are found by number. A database that may number rows again for each reader gets
    an EXISTS, in a form that is not planned as a semi-join.
    """
    name, found = _sides(width), matching(condition, width)
    kept = _KEPT[JoinKind.LEFT]
    guarded = {slot: f"CASE WHEN {kept} THEN {sql} END" for slot, sql in columns.items() if slot < width}
    (source, own), (inner, other) = sides
    marked = {**guarded, width: "coalesce(r.h, NOT l.h)"}
    if not found.crosses and not found.reads_left:
        keys, on = _keys_met(d, found, inner)
        met = _with_nobody(d, keys, [f"k{i}" for i in range(len(found.right))])
        rows = _named_side(d, source, own)
        return f"SELECT {_listed(marked)} FROM {rows} AS l FULL JOIN {met} AS r ON {on} WHERE {kept}"
    tried = condition_sql(d, condition, name)
    if not d.reads_once:
        exists = f"coalesce(EXISTS (SELECT 1 FROM ({inner}) AS r WHERE {tried}), l.{column(0)} IS NULL)"
        return f"SELECT {_listed({**columns, width: exists})} FROM ({source}) AS l"
    numbered = f"l {d.materialized} (SELECT *, row_number() OVER () AS place FROM {d.derived(source)})"
    listed = [*(column(slot) for slot in sorted(own)), "place"]
    rows = _with_nobody(d, "SELECT * FROM l", listed)
    pairs = _both_read(d, {0: "l.place"}, (rows, _named_side(d, inner, other)), JoinKind.INNER, condition, width)
    met = _with_nobody(d, f"SELECT DISTINCT {column(0)} AS place FROM {d.derived(pairs)}", ["place"])
    joined = f"{rows} AS l FULL JOIN {met} AS r ON r.place = l.place"
    return f"WITH {numbered} SELECT {_listed(marked)} FROM {joined} WHERE {kept}"


def _keys_met(d: Dialect, found: Matching, inner: str) -> tuple[str, str]:
    """Return a query for the distinct keys of the right relation, and the condition that joins them, as ``r``."""
    keys = ", ".join(f"{scalar_sql(d, part)} AS k{i}" for i, part in enumerate(found.right))
    where = " AND ".join(condition_sql(d, part) for part in found.beside)
    distinct = f"SELECT DISTINCT {keys} FROM {d.derived(inner)}{f' WHERE {where}' if where else ''}"
    own = [scalar_sql(d, part, lambda slot: f"l.{column(slot)}") for part in found.left]
    return distinct, " AND ".join(f"{sql} = r.k{i}" for i, sql in enumerate(own))
