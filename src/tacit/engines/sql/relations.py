"""Relations as SQL: one SELECT per node, with the columns that are needed above and no others.

A relation's columns are called c0, c1, … by slot. Conditions of joins see the left side as l and the right one as r.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tacit.core.errors import InternalError
from tacit.engines.sql.aggregates import aggregate_sql
from tacit.engines.sql.dialect import Dialect, column
from tacit.engines.sql.group_choice import Chooser
from tacit.engines.sql.scalars import condition_sql, scalar_sql
from tacit.engines.sql.stored_table import StoredTable
from tacit.engines.sql.windows import window_sql
from tacit.query.catalog import ROW
from tacit.query.planning.work import Matching, matching
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import (
    Constants,
    ExistsColumn,
    FilterRows,
    FirstRows,
    Join,
    ProjectColumns,
    RelationNode,
    Scan,
    UnionAll,
    UnitAggregate,
    UnitWindow,
    sources,
)
from tacit.query.relational.expressions import Expression, Literal, Reference, references

__all__ = ["Slots", "has_row_units", "has_union", "relation_sql", "scanned", "slots_of"]

Slots = frozenset[int]
Tables = Mapping[str, StoredTable]


def slots_of(expressions: Iterable[Expression | None]) -> Slots:
    """The slots that expressions read."""
    return frozenset(ref.slot for node in expressions if node is not None for ref in references(node))


def has_row_units(node: RelationNode) -> bool:
    """Whether units are numbers of rows somewhere below; such numbers depend on other rows and must decide nothing."""
    if isinstance(node, Scan):
        return node.unit_source == ROW
    return any(has_row_units(part) for part in sources(node))


def has_union(node: RelationNode) -> bool:
    """Whether rows of several relations are put together somewhere below."""
    return isinstance(node, UnionAll) or any(map(has_union, sources(node)))


def scanned(node: RelationNode) -> set[str]:
    """The tables that a relation reads, by lower-case name."""
    if isinstance(node, Scan):
        return {node.table.lower(), *(hop.table.lower() for hop in node.path)}
    return {name for part in sources(node) for name in scanned(part)}


def relation_sql(d: Dialect, node: RelationNode, needed: Slots, tables: Tables, secret: bytes = b"") -> str:
    """A SELECT whose columns are those of ``needed``; ``secret`` decides which rows of a unit come first."""
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
            # What a projection computes must not be written out in whatever reads it, level by level.
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
    """A select list; a relation of which nothing is needed but its rows still has a column."""
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
        # A population has one such table, so that numbers of two never meet; the catalog sees to it.
        inner.append(f"{stored.row} AS {column(node.unit)}")
        columns[node.unit] = f"t.{column(node.unit)}"
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {_listed(columns)} FROM (SELECT {', '.join(inner) or '1 AS nothing'} FROM {stored.scan}) AS t{joins}{where}"  # noqa: E501


def _path(node: Scan, inner: list[str], tables: Tables) -> tuple[str, str]:
    """Joins along the foreign keys, and the unit at their end; adds the first key to the columns read."""
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
    """One relation, however many rows: as a union of single rows, planners take longer than the rows are worth."""
    kinds = {slot: node.fields[slot].type for slot in sorted(needed)}
    if not node.rows:
        return f"SELECT {_listed({slot: d.constant(None, kind) for slot, kind in kinds.items()})} WHERE FALSE"
    names = ", ".join(map(column, kinds)) or "nothing"
    rows = (", ".join(d.constant(row[slot].value, kind) for slot, kind in kinds.items()) or "1" for row in node.rows)
    return d.settled(f"SELECT {names} FROM (VALUES {', '.join(f'({row})' for row in rows)}) AS v({names})")


def _first_rows(d: Dialect, node: FirstRows, needed: Slots, below: str, secret: bytes) -> str:
    """The first rows of each unit by a keyed hash of all columns, and then by the columns themselves."""
    unit = node.unit
    if unit is None:
        raise InternalError("only units have first rows")
    kinds = [part.type for part in node.fields]
    others = [slot for slot in range(len(kinds)) if slot != unit]
    chooser = Chooser(secret, kinds[unit], has_row_units(node))
    digest = chooser.digest(d, "rows", column(unit), [(column(slot), kinds[slot]) for slot in others])
    order = ", ".join([digest, *(f"{column(slot)} NULLS LAST" for slot in others)])
    seated = (
        f"SELECT *, row_number() OVER (PARTITION BY {column(unit)} ORDER BY {order}) AS seat FROM {d.derived(below)}"
    )
    return f"SELECT {_columns(needed)} FROM {d.derived(seated)} WHERE seat <= {node.most}"


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
    kind = node.kind.value.upper()
    joined = f"{kind} JOIN {{}} AS r ON {condition_sql(d, node.condition, name)}"
    if d.computes_again and not matching(node.condition, left).is_looked_up:
        # Without an equality one side is gone through for each row of the other.
        named = [f"j{i} {d.materialized} ({side})" for i, side in enumerate(sides)]
        return f"WITH {', '.join(named)} SELECT {_listed(columns)} FROM j0 AS l {joined.format('j1')}"
    return f"SELECT {_listed(columns)} FROM ({sides[0]}) AS l {joined.format(f'({sides[1]})')}"


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
    if not d.computes_again or not (found.is_looked_up or found.crosses or found.reads_left):
        columns[width] = f"EXISTS (SELECT 1 FROM ({inner}) AS r WHERE {condition_sql(d, node.condition, name)})"
        return f"SELECT {_listed(columns)} FROM {rows}"
    columns[width] = "h.hit IS NOT NULL"
    if not found.crosses and not found.reads_left:
        return f"SELECT {_listed(columns)} FROM {rows} LEFT JOIN {_keys_met(d, found, inner)}"
    # Rows are numbered, once for both readers, so that those with a match are found by their numbers.
    numbered = f"l {d.materialized} (SELECT *, row_number() OVER () AS place FROM {d.derived(source)})"
    met = f"SELECT DISTINCT l.place, TRUE AS hit FROM l JOIN ({inner}) AS r ON {condition_sql(d, node.condition, name)}"
    return f"WITH {numbered} SELECT {_listed(columns)} FROM l LEFT JOIN ({met}) AS h ON h.place = l.place"


def _keys_met(d: Dialect, found: Matching, inner: str) -> str:
    """The different keys of the other side, and the condition that joins them to a row."""
    keys = ", ".join(f"{scalar_sql(d, part)} AS k{i}" for i, part in enumerate(found.right))
    where = " AND ".join(condition_sql(d, part) for part in found.beside)
    distinct = f"SELECT DISTINCT {keys}, TRUE AS hit FROM {d.derived(inner)}{f' WHERE {where}' if where else ''}"
    own = [scalar_sql(d, part, lambda slot: f"l.{column(slot)}") for part in found.left]
    return f"({distinct}) AS h ON {' AND '.join(f'{sql} = h.k{i}' for i, sql in enumerate(own))}"
