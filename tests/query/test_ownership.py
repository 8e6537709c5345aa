"""Every row belongs to one person, and depends on that person's rows and public data alone."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest

from query.corpus.accepted import ACCEPTED
from query.corpus.by_value import TIES
from query.corpus.clinic import CATALOG
from query.corpus.data import DATABASE, without
from query.interpreter import rows_of
from support.each import check_each
from tacit.query.refusal import Refusal
from tacit.query.relational import ownership
from tacit.query.relational.algebra import (
    Join,
    JoinKind,
    RelationNode,
    UnitAggregate,
    is_public_throughout,
    reference,
    sources,
)
from tacit.query.relational.expressions import TRUE, shift
from tacit.query.relational.functions import call
from tacit.query.resolve import resolve
from tacit.query.resolve.aggregation import EnumerationBudget, public_values
from tacit.query.types import INTEGER

_UNITS = {"patients": (1, 2, 4, 6, 7, 99), "staff": (1, 5), "events": (0, 6)}


def _by_unit(relation: RelationNode, database: Any) -> dict[object, Counter[Any]]:
    rows: dict[object, Counter[Any]] = {}
    assert relation.unit is not None
    for row in rows_of(relation, database):
        rows.setdefault(row[relation.unit], Counter())[row] += 1
    return rows


def test_removing_one_person_leaves_everyone_elses_rows_as_they_were() -> None:
    def check(sql: str) -> None:
        final = resolve(sql, CATALOG).final
        before = _by_unit(final.source, DATABASE)
        assert None not in before
        for unit in _UNITS[final.population]:
            expected = {who: rows for who, rows in before.items() if who != unit}
            assert _by_unit(final.source, without(final.population, unit)) == expected

    check_each([*ACCEPTED[::2], *TIES], check)


def test_the_check_would_see_a_join_that_mixes_two_persons() -> None:
    visits = _scan("visits")
    both = call("eq", reference(visits, 2), shift(reference(visits, 2), len(visits.fields)))
    fields = (*visits.fields, *visits.fields)
    mixed = Join(fields, visits.unit, "patients", 1, 1, 3, visits, visits, JoinKind.INNER, both)
    before, after = _by_unit(mixed, DATABASE), _by_unit(mixed, without("patients", 1))
    assert {who: rows for who, rows in before.items() if who != 1} != after


def test_public_keys_hold_every_key_that_declared_values_can_give() -> None:
    def check(sql: str) -> None:
        final = resolve(sql, CATALOG).final
        for key in final.keys:
            if key.values is not None:
                assert len(set(key.values)) == len(key.values)
                # A key that a subquery computes is enumerated there.
                inner = [node.keys for node in _nodes(final.source) if isinstance(node, UnitAggregate)]
                computed = [key.expression, *itertools.chain(*inner)]
                assert key.values in [public_values(each, EnumerationBudget()) for each in computed]

    check_each(ACCEPTED[::3], check)


def test_a_public_relation_never_depends_on_protected_rows() -> None:
    for sql in ACCEPTED:
        for node in _nodes(resolve(sql, CATALOG).final.source):
            if node.is_public:
                assert all(below.is_public for below in sources(node))
            elif isinstance(node, UnitAggregate):
                assert any(ownership.identifies_unit(node.source, key) for key in node.keys)


def test_what_is_read_beside_released_cells_belongs_to_no_person() -> None:
    """Removing any one person leaves the rows of every public relation above the aggregation as they were."""
    seen = 0
    for sql in ACCEPTED:
        query = resolve(sql, CATALOG)
        for relation in query.reads:
            seen += 1
            assert is_public_throughout(relation)
            before = Counter(rows_of(relation, DATABASE))
            for population, units in _UNITS.items():
                assert all(Counter(rows_of(relation, without(population, unit))) == before for unit in units)
    assert seen >= 30


def _nodes(node: RelationNode) -> list[RelationNode]:
    return [node, *(below for part in sources(node) for below in _nodes(part))]


def _scan(name: str) -> RelationNode:
    table = CATALOG.table(name)
    assert table is not None
    return ownership.scan(CATALOG, table)


@pytest.mark.parametrize(
    ("left", "right", "kind", "allowed"),
    [
        ("visits", "wards", JoinKind.INNER, True),
        ("visits", "wards", JoinKind.LEFT, True),
        ("visits", "wards", JoinKind.RIGHT, False),
        ("visits", "wards", JoinKind.FULL, False),
        ("wards", "visits", JoinKind.INNER, True),
        ("wards", "visits", JoinKind.LEFT, False),
        ("wards", "visits", JoinKind.RIGHT, True),
        ("wards", "visits", JoinKind.FULL, False),
        ("wards", "wards", JoinKind.FULL, True),
        ("visits", "patients", JoinKind.INNER, False),
        ("visits", "staff", JoinKind.INNER, False),
        ("log", "log", JoinKind.INNER, False),
    ],
)
def test_the_table_of_joins_without_an_equality_of_units(left: str, right: str, kind: JoinKind, allowed: bool) -> None:
    sides = _scan(left), _scan(right)
    if allowed:
        joined = ownership.join(*sides, kind, TRUE)
        assert joined.is_public == (sides[0].is_public and sides[1].is_public)
    else:
        with pytest.raises(Refusal) as refusal:
            ownership.join(*sides, kind, TRUE)
        assert refusal.value.code in ("query.join", "query.population")


@pytest.mark.parametrize("kind", list(JoinKind))
def test_protected_tables_join_on_the_unit_and_the_unit_is_never_missing(kind: JoinKind) -> None:
    patients, visits = _scan("patients"), _scan("visits")
    assert patients.unit is not None
    assert visits.unit is not None
    equal = call("eq", reference(patients, patients.unit), shift(reference(visits, visits.unit), len(patients.fields)))
    joined = ownership.join(patients, visits, kind, equal)
    assert joined.population == "patients"
    assert joined.unit is not None
    assert all(row[joined.unit] is not None for row in rows_of(joined, DATABASE))


def test_a_join_by_a_declared_key_states_the_equality_of_persons() -> None:
    query = resolve("SELECT COUNT(*) FROM visits v JOIN prescriptions p ON v.visit_id = p.visit_id", CATALOG)
    joined = query.final.source
    assert isinstance(joined, Join)
    assert len(ownership.conjuncts(joined.condition)) == 2


def test_the_unit_survives_projections_that_do_not_list_it() -> None:
    visits = _scan("visits")
    narrow = ownership.compute(visits, [("cost", reference(visits, 3))])
    assert [column.name for column in narrow.fields] == ["cost", None]
    assert narrow.unit == 1
    assert narrow.fields[1].type == INTEGER


def test_a_window_gets_the_unit_as_a_partition() -> None:
    sql = "SELECT COUNT(*) FROM (SELECT row_number() OVER (PARTITION BY visit_id) r FROM visits) WHERE r = 1"
    rows = rows_of(resolve(sql, CATALOG).final.source, DATABASE)
    assert len(rows) == len([row for row in DATABASE["visits"] if row["patient_id"] is not None])
