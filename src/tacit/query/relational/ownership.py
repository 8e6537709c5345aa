"""Ownership of rows: the only constructors of relations, each of which keeps ownership true or refuses.

An owned relation has a unit column without NULLs, and the rows of a unit are a function of that unit's rows in the
protected tables and of public data. By induction over the constructors:

============== ========================================================================================================
constructor    why it stays true
============== ========================================================================================================
scan           by declaration; rows without a unit are dropped
keep, compute  act on one row at a time; the unit column is carried along
join           with public data: each row is one owned row and public ones. Of two owned relations: both sides of a row
               have the same unit (enforced by an equality of the units added to the analyst's condition), and whether
               an outer row is unmatched depends on rows of its own unit alone
join_beside    an inner join
attach         a join with public data
mark           likewise: only rows of the same unit, or public ones, are looked at
stack          every row keeps its unit
group, window  every group or partition lies inside one unit, because the unit is among its keys
============== ========================================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from tacit.query import limits
from tacit.query.catalog import ROW, Catalog, Table
from tacit.query.contribution import ContributionNumber, larger
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import (
    Constants,
    ExistsColumn,
    Field,
    FilterRows,
    Join,
    JoinKind,
    ProjectColumns,
    RelationNode,
    Scan,
    UnionAll,
    UnitAggregate,
    UnitCall,
    UnitWindow,
    WindowCall,
    is_public_throughout,
    reference,
    row_bounds,
)
from tacit.query.relational.expressions import (
    TRUE,
    Call,
    Expression,
    Literal,
    Reference,
    literal,
    references,
    shift,
    size,
)
from tacit.query.relational.functions import call, cast
from tacit.query.relational.narrowing import conjuncts, narrowed_fields
from tacit.query.types import BOOLEAN, INTEGER, NULL, Domain, SqlType, common_type, finite, truth, union, with_null_key

#: The fields that all relations have, in order.
_Shape = tuple[tuple[Field, ...], int | None, str | None, ContributionNumber, ContributionNumber, int]

_TWO_PERSONS = (
    "A join of protected tables must say that both rows belong to the same person: "
    "add an equality of their unit columns, or of a declared foreign key, to the join condition."
)


def scan(catalog: Catalog, table: Table) -> Scan:
    """Return the scan of a table of the catalog, with its unit."""
    names = tuple(c.name for c in table.columns)
    path = () if table.public else catalog.path_to_unit(table)
    fields: list[Field] = []
    for c in table.columns:
        read, domain, label = c.name.lower(), c.domain, None
        # A public table without declarations is known by the values that were read.
        domain, counted = (domain, None) if table.size is None else (
            table.size.domains.get(read, domain), table.size.repeats.get(read)
        )  # fmt: skip
        if path and read == path[0].column.lower():
            # Rows in which the foreign key is NULL lead to no unit and are not read.
            label, domain = f"key {path[0].table}.{path[0].references}".lower(), replace(domain, nullable=False)
        elif c.unique and not table.public:
            label = f"key {table.name}.{c.name}".lower()
        origin = f"{table.name}.{c.name}"
        fields.append(Field(c.name, c.type, domain, label, origin, repeats=1 if c.unique else counted))
    if table.public:
        rows = limits.UNKNOWN_ROWS if table.size is None else table.size.rows
        return Scan(tuple(fields), None, None, 1, 1, 1, table.name, names, None, (), rows)
    source, slot = _unit_column(catalog, table, fields)
    unit = table.find(table.unit or "")
    single = table.unit == ROW or (unit is not None and unit.unique)
    fields = [replace(column, per_unit=single or index == slot) for index, column in enumerate(fields)]
    shape = (tuple(fields), slot, table.population, table.max_groups, table.max_rows, 1)
    ceilings = (table.max_groups_limit, table.max_rows_limit, table.table_rows, table.text_length)
    return Scan(*shape, table.name, names, source, path, 1 if single else table.unit_rows, *ceilings)


def _unit_column(catalog: Catalog, table: Table, fields: list[Field]) -> tuple[str, int]:
    """Return the stored unit column and its slot; where queries cannot name it, append it as a last field."""
    label = f"unit {table.population}"
    if table.unit == ROW:
        fields.append(Field(None, INTEGER, Domain(nullable=False), None, None))
        return ROW, len(fields) - 1
    if table.unit is not None:
        slot = next(i for i, c in enumerate(table.columns) if c.name.lower() == (table.unit or "").lower())
        fields[slot] = replace(fields[slot], identifies=label, domain=replace(fields[slot].domain, nullable=False))
        return table.columns[slot].name, slot
    last = catalog.table(catalog.path_to_unit(table)[-1].table)
    column = last.find(last.unit or "") if last is not None else None
    if column is None:
        raise AssertionError("the catalog checks paths")
    fields.append(Field(None, column.type, replace(column.domain, nullable=False), label, None))
    return column.name, len(fields) - 1


def constants(rows: Sequence[Sequence[Literal]], fields: tuple[Field, ...]) -> Constants:
    """Return a VALUES list as a public relation."""
    return Constants(fields, None, None, 1, 1, 1, tuple(tuple(row) for row in rows))


def keep(source: RelationNode, condition: Expression) -> RelationNode:
    """Return the rows for which the condition is true."""
    if condition.type not in (BOOLEAN, NULL):
        raise Refusal(
            "type", f"WHERE and HAVING need a condition, not {condition.type}; compare the value with something."
        )
    if condition == TRUE:
        return source
    shape = _shape(source, size(condition))
    return FilterRows(narrowed_fields(source.fields, condition), *shape[1:], source, condition)


def compute(source: RelationNode, outputs: Sequence[tuple[str | None, Expression]]) -> RelationNode:
    """Return one column per expression; the unit is carried along, hidden where it is not among them."""
    limits.check_size(len(outputs), limits.MAX_COLUMNS, "columns")
    listed = [(name, literal(None, INTEGER) if e.type == NULL else e) for name, e in outputs]
    unit = source.unit
    if unit is not None:
        place = next((i for i, (_, e) in enumerate(listed) if isinstance(e, Reference) and e.slot == unit), None)
        if place is None:
            listed.append((None, reference(source, unit)))
            place = len(listed) - 1
        unit = place
    fields = tuple(_field(source, name, expression) for name, expression in listed)
    shape = _shape(source, sum(size(e) for _, e in listed))
    return ProjectColumns(fields, unit, *shape[2:], source, tuple(e for _, e in listed))


def _field(source: RelationNode, name: str | None, expression: Expression) -> Field:
    per_unit = all(source.fields[part.slot].per_unit for part in references(expression))
    if not isinstance(expression, Reference):
        return Field(name, expression.type, expression.domain, per_unit=per_unit)
    below = source.fields[expression.slot]
    return Field(name, expression.type, expression.domain, below.identifies, below.origin, per_unit)


def join(left: RelationNode, right: RelationNode, kind: JoinKind, condition: Expression) -> RelationNode:
    """Return the pairs of rows that meet the condition; the table of semantics decides who owns them."""
    if condition.type not in (BOOLEAN, NULL):
        raise Refusal("type", f"A join condition must be true or false, not {condition.type}.")
    width = len(left.fields)
    if left.unit is not None and right.unit is not None:
        condition = _same_person(left, right, condition)
    elif (left.unit is not None or right.unit is not None) and kind is JoinKind.FULL:
        raise Refusal(
            "join",
            "A FULL JOIN of a protected and a public table keeps rows of both without a match; write LEFT JOIN, with "
            "the table on the left whose rows shall stay.",
        )
    elif (left.unit is not None and kind is JoinKind.RIGHT) or (right.unit is not None and kind is JoinKind.LEFT):
        raise Refusal("join", "This join keeps public rows that belong to no person; put the protected table first.")
    outer = {"left": kind in (JoinKind.RIGHT, JoinKind.FULL), "right": kind in (JoinKind.LEFT, JoinKind.FULL)}
    pairs = [_equated(part, width) for part in conjuncts(condition)]
    fields: tuple[Field, ...] = (
        *_met(left, right, [None if pair is None else pair[::-1] for pair in pairs], outer=outer["left"]),
        *_met(right, left, pairs, outer=outer["right"]),
    )
    if kind is JoinKind.INNER:
        fields = _with_public_values(fields, left, right, [pair for pair in pairs if pair is not None])
    unit = left.unit if left.unit is not None and kind is not JoinKind.RIGHT else None
    if unit is None and right.unit is not None:
        unit = right.unit + width
    if kind is JoinKind.FULL and left.unit is not None:
        unit = len(fields)
        old = left.fields[left.unit]
        fields = (*fields, replace(old, name=None, domain=replace(old.domain, nullable=False)))
    rows, groups = larger(left.max_rows, right.max_rows), larger(left.max_groups, right.max_groups)
    weight = _weight(1 + left.weight + right.weight, size(condition), len(fields))
    return Join(fields, unit, left.population or right.population, groups, rows, weight, left, right, kind, condition)


def join_beside(left: RelationNode, right: RelationNode, kind: JoinKind, condition: Expression) -> RelationNode:
    """As :func:`join`, but an outer join that keeps public rows becomes an inner one, marked by ``keeps``."""
    beside_right = kind is JoinKind.LEFT and left.is_public and not right.is_public
    beside_left = kind is JoinKind.RIGHT and right.is_public and not left.is_public
    if not beside_right and not beside_left:
        return join(left, right, kind, condition)
    inner = join(left, right, JoinKind.INNER, condition)
    return replace(inner, keeps=kind) if isinstance(inner, Join) else inner


def attach(source: RelationNode, value: RelationNode) -> RelationNode:
    """Return every row with the value of a public relation of one column and at most one row, or with NULL."""
    fewest, most = row_bounds(value)
    if not is_public_throughout(value) or len(value.fields) != 1 or most is None or most > 1:
        raise AssertionError("a value is one public row of one column")
    # A value that always has a row leaves no row unmatched; engines are faster with an inner join.
    return join(source, value, JoinKind.INNER if fewest else JoinKind.LEFT, TRUE)


def mark(source: RelationNode, other: RelationNode, condition: Expression) -> RelationNode:
    """Append a BOOLEAN column: whether any row of ``other`` meets the condition with a row of ``source``."""
    if other.unit is not None:
        if source.unit is None:
            raise Refusal(
                "subquery", "Rows of a public table cannot be chosen by protected data; turn the query round."
            )
        condition = _same_person(source, other, condition)
    fields = (*source.fields, Field(None, BOOLEAN, truth(nullable=False)))
    weight = _weight(1 + source.weight + other.weight, size(condition), len(fields))
    return ExistsColumn(
        fields, source.unit, source.population, source.max_groups, source.max_rows, weight, source, other, condition
    )


def stack(parts: Sequence[RelationNode]) -> RelationNode:
    """Return UNION ALL: the visible columns matched by position in one type, and the unit in one slot."""
    if len({part.population for part in parts}) > 1:
        raise Refusal("union", "UNION ALL needs all of its parts about the same persons, or all of them public.")
    visible = [[i for i, column in enumerate(part.fields) if column.name is not None] for part in parts]
    kinds = joint_types(
        [[part.fields[slot].type for slot in slots] for part, slots in zip(parts, visible, strict=True)]
    )
    aligned = [_aligned(part, slots, kinds) for part, slots in zip(parts, visible, strict=True)]
    fields = tuple(_stacked([part.fields[i] for part in aligned]) for i in range(len(aligned[0].fields)))
    first = aligned[0]
    weight = _weight(1 + sum(part.weight for part in aligned), 0, len(fields))
    groups = reduce(larger, (part.max_groups for part in parts))
    rows = reduce(larger, (part.max_rows for part in parts))
    return UnionAll(fields, first.unit, first.population, groups, rows, weight, tuple(aligned))


def joint_types(parts: Sequence[Sequence[SqlType]]) -> list[SqlType]:
    """Return the common types of the columns of UNION ALL, matched by position."""
    if len({len(types) for types in parts}) != 1:
        raise Refusal("union", "The parts of UNION ALL have different numbers of columns.")
    kinds = list(parts[0])
    for types in parts[1:]:
        for place, kind in enumerate(types):
            joint = common_type(kinds[place], kind)
            if joint is None:
                raise Refusal("union", f"UNION ALL stacks {kinds[place]} and {kind}; cast one of them.")
            kinds[place] = joint
    return kinds


def _aligned(part: RelationNode, slots: list[int], kinds: list[SqlType]) -> RelationNode:
    """Return the visible columns in common types, then the unit as a separate last column."""
    outputs: list[tuple[str | None, Expression]] = [
        (part.fields[slot].name, cast(reference(part, slot), kind)) for slot, kind in zip(slots, kinds, strict=True)
    ]
    if part.unit is None:
        return compute(part, outputs)
    unit = reference(part, part.unit)
    fields = tuple(_field(part, name, e) for name, e in [*outputs, (None, unit)])
    shape = _shape(part, len(fields))
    return ProjectColumns(fields, len(outputs), *shape[2:], part, (*(e for _, e in outputs), unit))


def _stacked(columns: list[Field]) -> Field:
    first = columns[0]
    labels = {column.identifies for column in columns}
    label = first.identifies if len(labels) == 1 else None
    domain = union((c.domain for c in columns), first.type)
    # The unit has one value in all rows of a unit, in every part; other columns may differ from part to part.
    return Field(first.name, first.type, domain, label, first.origin, (label or "").startswith("unit "))


def complete_keys(
    source: RelationNode, keys: Sequence[tuple[str | None, Expression]]
) -> list[tuple[str | None, Expression]]:
    """Return the keys of a grouping inside units: those given, and the unit (hidden) where it is not among them."""
    listed = list(keys)
    if source.unit is not None and not any(isinstance(e, Reference) and e.slot == source.unit for _, e in listed):
        listed.append((None, reference(source, source.unit)))
    return listed


def group(
    source: RelationNode, keys: Sequence[tuple[str | None, Expression]], calls: Sequence[tuple[UnitCall, Domain]]
) -> RelationNode:
    """Return GROUP BY inside units, or of public data: columns are the completed keys, then the calls."""
    if source.unit is not None and not any(identifies_unit(source, e) for _, e in keys):
        raise AssertionError("a grouping without the unit is a final aggregation")
    listed = complete_keys(source, keys)
    fields: tuple[Field, ...] = (
        *(_field(source, name, e) for name, e in listed),
        *(Field(None, made.type, domain) for made, domain in calls),
    )
    unit = next((i for i, (_, e) in enumerate(listed) if isinstance(e, Reference) and e.slot == source.unit), None)
    alone = source.unit is not None and all(column.per_unit for column in fields[: len(listed)])
    if alone:
        fields = tuple(replace(column, per_unit=True) for column in fields)
    rows, groups = (1, 1) if alone else (source.max_groups, source.max_groups)
    weight = _shape(source, sum(size(e) for _, e in listed) + len(calls))[5]
    owner = None if source.unit is None else unit
    expressions = tuple(e for _, e in listed)
    return UnitAggregate(
        fields, owner, source.population, groups, rows, weight, source, expressions, tuple(c for c, _ in calls)
    )


def window(source: RelationNode, calls: Sequence[tuple[WindowCall, Domain]]) -> RelationNode:
    """Append columns of windows inside units (or over public data)."""
    unit = source.unit
    if any(call.around is not None for call, _ in calls):
        raise Refusal(
            "window",
            "Frames around the current row are for released rows; inside one person's rows use LAG and LEAD, or a "
            "frame from UNBOUNDED PRECEDING.",
        )
    made: list[WindowCall] = []
    for item, _ in calls:
        if unit is None:
            made.append(item)
            continue
        if not any(identifies_unit(source, e) for e in item.partition):
            raise Refusal(
                "window",
                "A window over protected rows must be PARTITION BY the unit, so that it reads one person's rows; "
                "DISTINCT ON (the unit, …) likewise.",
            )
        own = reference(source, unit)
        made.append(item if own in item.partition else replace(item, partition=(*item.partition, own)))
    fields = (*source.fields, *(Field(None, item.type, domain) for item, domain in calls))
    shape = _shape(source, 4 * len(made))
    return UnitWindow(fields, *shape[1:], source, tuple(made))


def identifies_unit(source: RelationNode, expression: Expression) -> bool:
    """Whether rows with equal values of this (never NULL) column belong to one unit."""
    if not isinstance(expression, Reference) or source.unit is None:
        return False
    if expression.slot == source.unit:
        return True
    column = source.fields[expression.slot]
    return column.identifies is not None and not column.domain.nullable


def _same_person(left: RelationNode, right: RelationNode, condition: Expression) -> Expression:
    """Return the condition with an equality of the units added; refuse one that does not equate units or keys."""
    if left.population != right.population:
        raise Refusal("population", "The tables are about different persons; they cannot be joined in one query.")
    if left.unit is None or right.unit is None:
        raise AssertionError("both sides are owned")
    width = len(left.fields)
    units = False
    said = False
    for part in conjuncts(condition):
        pair = _equated(part, width)
        if pair is None:
            continue
        labels = left.fields[pair[0]].identifies, right.fields[pair[1]].identifies
        said = said or (labels[0] is not None and labels[0] == labels[1])
        units = units or pair == (left.unit, right.unit)
    if not said:
        raise Refusal("join", _TWO_PERSONS)
    if units:
        return condition
    # The declared key already implies this; stating it keeps a wrong declaration from mixing two persons.
    equal = call("eq", reference(left, left.unit), shift(reference(right, right.unit), width))
    return call("and", *conjuncts(condition), equal)


def _equated(part: Expression, width: int) -> tuple[int, int] | None:
    """Return the slots (left, right) that a comparison of two plain columns equates; None for other expressions."""
    if not isinstance(part, Call) or part.function != "eq":
        return None
    slots = sorted(arg.slot for arg in part.args if isinstance(arg, Reference))
    if len(slots) != 2 or not slots[0] < width <= slots[1]:
        return None
    return slots[0], slots[1] - width


def _met(
    side: RelationNode, other: RelationNode, pairs: Sequence[tuple[int, int] | None], *, outer: bool
) -> tuple[Field, ...]:
    """Return the columns of one side of a join; ``pairs`` are the slots (of ``other``, of ``side``) that it equates.

    Where columns with one value per unit decide which row of this side matches, a unit matches one row of a public
    table by its unique column, and an outer join gives all rows of a unit the same NULLs. That an outer join keeps rows
    without a match follows from the text, so NULL is a public key of this side.
    """
    known = [pair for pair in pairs if pair is not None]
    decided = len(known) == len(pairs) and all(other.fields[slot].per_unit for slot, _ in known)
    if side.is_public:
        scanned = side.source if isinstance(side, FilterRows) else side
        unique = isinstance(scanned, Scan) and any(scanned.fields[slot].repeats == 1 for _, slot in known)
        once = [other.unit is not None and decided and unique] * len(side.fields)
    else:
        once = [column.per_unit and (decided or not outer) for column in side.fields]
    return tuple(
        replace(column, domain=with_null_key(column.domain) if outer else column.domain, per_unit=per_unit)
        for column, per_unit in zip(side.fields, once, strict=True)
    )


def _with_public_values(
    fields: tuple[Field, ...], left: RelationNode, right: RelationNode, pairs: Sequence[tuple[int, int]]
) -> tuple[Field, ...]:
    """Give a column that must equal a public column the values of that column, where nothing else is known of it."""
    known = list(fields)
    for one, other in pairs:
        for slot, partner, side in ((one, other + len(left.fields), right), (other + len(left.fields), one, left)):
            listed = [value for value in known[partner].domain.values or () if value is not None]
            if side.is_public and listed and known[slot].domain.values is None:
                growth = known[slot].domain.growth
                there = finite(listed, known[slot].type, nullable=False, growth=growth)
                known[slot] = replace(known[slot], domain=there)
    return tuple(known)


def _shape(source: RelationNode, work: int) -> _Shape:
    weight = _weight(1 + source.weight, work, len(source.fields))
    return source.fields, source.unit, source.population, source.max_groups, source.max_rows, weight


def _weight(nodes: int, work: int, columns: int) -> int:
    limits.check_size(nodes, limits.MAX_RELATIONS, "relational operators")
    limits.check_size(work, limits.MAX_EXPRESSION, "parts in one clause")
    limits.check_size(columns, 4 * limits.MAX_COLUMNS, "columns")
    return nodes
