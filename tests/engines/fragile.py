"""Queries whose texts have made some planner fail, wait, or compute what no row asks for.

All are over the tables of :mod:`engines.clinic`. A planner folds constants, moves conditions past each other and takes
unions apart before any row is read; what it computes then must be as total as what a row computes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

__all__ = ["CONSTANTS", "FRAGILE", "WINDOWS", "WINDOWS_TOGETHER", "alone", "of_one", "together"]


def _values(count: int, name: str) -> str:
    return f"(VALUES {', '.join(f'({i})' for i in range(count))}) AS {name}(a_{name})"


_BOTH = "(SELECT patient_id, ward, level, note FROM visits UNION ALL SELECT patient_id, ward, level, note FROM visits)"

_CONSTANTS = (
    "'x'",
    "1",
    "1.5",
    "TRUE",
    "DATE '2024-01-01'",
    "TIMESTAMP '2024-01-01 00:00:00'",
    "NULL",
    "CAST(NULL AS TEXT)",
    "''",
)
_WINDOWS = [call for constant in _CONSTANTS for call in (f"LAG({constant}, 1)", f"LEAD({constant}, 2)")]
_OVER = "OVER (PARTITION BY patient_id ORDER BY level, visit_id)"
#: Windows over constants of every type.
WINDOWS = [
    f"SELECT COUNT(*) FROM (SELECT patient_id, {call} {_OVER} AS p FROM visits) WHERE p IS NOT NULL"
    for call in _WINDOWS
]
#: All of them in one query.
WINDOWS_TOGETHER = (
    f"SELECT COUNT(*) FROM (SELECT patient_id, {', '.join(f'{call} {_OVER} AS p{i}' for i, call in enumerate(_WINDOWS))} FROM visits)"
    f" WHERE {' AND '.join(f'p{i} IS ' + 'NOT ' * ('NULL' not in call) + 'NULL' for i, call in enumerate(_WINDOWS))}"
)
#: Shapes of relations.
FRAGILE = [
    "SELECT COUNT(*) FROM (SELECT patient_id, MIN('x') OVER (PARTITION BY patient_id) AS p FROM visits) WHERE p = 'x'",
    "SELECT COUNT(*) FROM (SELECT patient_id, MAX('x') AS p, MIN('y') AS q, COUNT(DISTINCT 'z') AS r FROM visits GROUP BY patient_id) WHERE p < q AND r = 1",
    "SELECT COUNT(*) FROM (SELECT DISTINCT patient_id, 'x' AS p, NULL AS q FROM visits) WHERE p = 'x'",
    # Public lists, long, alone and beside each other.
    f"SELECT COUNT(*) FROM visits JOIN {_values(200, 'x')} ON level = a_x",
    f"SELECT COUNT(*) FROM visits WHERE level IN (SELECT a_x FROM {_values(300, 'x')})",
    f"SELECT COUNT(*) FROM visits WHERE level IN (SELECT a_x + a_y FROM {_values(3, 'x')}, {_values(3, 'y')})",
    "SELECT COUNT(*) FROM visits JOIN (VALUES ('a', 1, NULL), (NULL, 2, 'b'), ('it''s', NULL, 'é\\')) AS v(s, n, t) ON note = s OR level = n",
    "SELECT COUNT(*) FROM visits JOIN (VALUES (DATE '2024-01-01', 1.5, TRUE), (NULL, NULL, NULL)) AS v(d, x, b) ON admitted >= d AND urgent = b",
    "SELECT COUNT(*) FROM visits, (VALUES (1), (2)) AS v(n)",
    "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM (VALUES (1), (2)) AS w(n) WHERE n = v.level)",
    f"SELECT SUM(CLAMP(a_x, 0, 3)) FROM visits LEFT JOIN {_values(60, 'x')} ON level = a_x",
    # Marks above unions.
    f"SELECT COUNT(*) FROM {_BOTH} a WHERE a.ward IN (SELECT ward FROM wards)",
    f"SELECT COUNT(*) FROM {_BOTH} a WHERE a.ward NOT IN (SELECT ward FROM wards WHERE floor > 1)",
    f"SELECT COUNT(*) FROM {_BOTH} a WHERE EXISTS (SELECT 1 FROM wards w WHERE w.ward = a.ward) OR a.level > 3",
    f"SELECT ward, COUNT(*) FROM {_BOTH} a WHERE a.level IN (SELECT floor FROM wards) AND a.ward IN (SELECT ward FROM wards) GROUP BY ward",
    f"SELECT COUNT(*) FROM {_BOTH} a WHERE a.level IN (SELECT a_x FROM {_values(60, 'x')})",
    f"SELECT COUNT(*) FROM {_BOTH} a WHERE EXISTS (SELECT 1 FROM patients p WHERE p.id = a.patient_id AND p.age > 30)",
    "SELECT COUNT(*) FROM (SELECT patient_id, level FROM visits WHERE ward IN (SELECT ward FROM wards) UNION ALL SELECT id, age FROM patients) a WHERE a.level IN (SELECT floor FROM wards)",
    f"SELECT SUM(CLAMP(CASE WHEN a.ward IN (SELECT ward FROM wards) THEN a.level ELSE 0 END, 0, 9)) FROM {_BOTH} a",
    f"SELECT COUNT(*) FILTER (WHERE a.ward IN (SELECT ward FROM wards)) FROM {_BOTH} a",
    f"SELECT COUNT(*) FROM {_BOTH} a JOIN {_BOTH} b ON a.patient_id = b.patient_id WHERE a.ward IN (SELECT ward FROM wards) AND b.level IN (SELECT floor FROM wards)",
    "SELECT COUNT(*) FROM (SELECT ward, floor FROM wards UNION ALL SELECT ward, floor FROM wards) w JOIN visits v ON v.ward = w.ward WHERE v.level IN (SELECT floor FROM wards)",
]  # fmt: skip

#: A constant of one row, and what is computed from it.
CONSTANTS = {
    "'x'": ["CAST(c AS INTEGER)", "CAST(c AS DATE)", "CAST(c AS TIMESTAMP)", "CAST(c AS BOOLEAN)", "CAST(c AS DECIMAL(18,2))", "CAST(c AS DOUBLE)"],
    "'99999999999999999999'": ["CAST(c AS INTEGER)", "CAST(c AS DECIMAL(18,2))", "CAST(c AS DOUBLE)"],
    "'1e400'": ["CAST(c AS DOUBLE)", "CAST(c AS INTEGER)", "CAST(c AS DECIMAL(18,2))"],
    "'2023-02-29'": ["CAST(c AS DATE)", "CAST(c AS TIMESTAMP)"],
    "'0000-01-01'": ["CAST(c AS DATE)", "CAST(c AS TIMESTAMP)"],
    "'2024-01-01 25:00:00'": ["CAST(c AS TIMESTAMP)"],
    "''": ["CAST(c AS INTEGER)", "SPLIT_PART(c, ',', 2)", "SUBSTRING(c, 1000, 1000)", "LEFT(c, 0)", "STRPOS(c, c)", "LPAD(c, 5, 'ab')"],
    "'ßİŉ'": ["UPPER(c)", "LOWER(c)", "LENGTH(c)"],
    "9223372036854775807": ["c + 1", "c * 2", "-c - 2", "ABS(-c - 1)", "c // 0", "c % 0", "c / 0", "CAST(c AS DECIMAL(18,9))", "POWER(c, 99)", "EXP(c)", "SQRT(-c)", "(-c - 1) // -1", "(-c - 1) % -1"],
    "1e308": ["c * 10", "EXP(c)", "CAST(c AS INTEGER)", "CAST(c AS DECIMAL(18,2))", "ROUND(c, 2)", "FLOOR(c)", "CEIL(-c)", "LN(c - c)", "LN(-c)", "SQRT(-c)", "POWER(c, 2)", "POWER(-c, 0.5)", "c / (c - c)", "LOG10(c - c)", "LOG2(-c)"],
    "DATE '9999-12-31'": ["c + INTERVAL 1 DAY", "c + INTERVAL 100000 MONTH", "LAST_DAY(c)", "CAST(c AS TIMESTAMP) + INTERVAL 1 DAY", "DATE_TRUNC('year', c)", "DATE_DIFF('day', DATE '0001-01-01', c)"],
    "DATE '0001-01-01'": ["c - INTERVAL 1 DAY", "DATE_TRUNC('week', c)", "c - INTERVAL 1 MONTH"],
    "TIMESTAMP '9999-12-31 23:59:59'": ["c + INTERVAL 1 HOUR", "CAST(c AS DATE)", "DATE_TRUNC('week', c)"],
}  # fmt: skip
#: A planner that knows a column's value writes it into the conditions beside it.
_OF_NOTE = ["CAST(c AS INTEGER)", "CAST(c AS DATE)", "CAST(c AS DOUBLE)", "10 / CAST(c AS INTEGER)", "CAST(c AS DECIMAL(18,2))", "CAST(c AS TIMESTAMP)", "CAST(c AS BOOLEAN)"]  # fmt: skip

#: Where constants of one row stand, and what is asked of them.
_SHAPES = (
    "SELECT COUNT(*) FROM visits CROSS JOIN (VALUES ({ones})) AS v({names}) WHERE {asked}",
    "SELECT COUNT(*) FROM visits WHERE level IN (SELECT CASE WHEN {asked} THEN 3 ELSE 4 END FROM (VALUES ({ones})) AS v({names}))",
    "SELECT COUNT(*) FROM (SELECT patient_id, {columns} FROM visits LEFT JOIN (VALUES ({ones})) AS v({names}) ON level > 90) WHERE {missing}",
    "SELECT COUNT(*) FROM (SELECT patient_id, {named} FROM visits UNION ALL SELECT patient_id, {ones} FROM visits WHERE urgent) WHERE {asked}",
    "SELECT COUNT(*) FROM (SELECT patient_id, {largest} FROM visits GROUP BY patient_id) WHERE {asked}",
    "SELECT COUNT(*) FROM (SELECT DISTINCT patient_id, {named} FROM visits) WHERE {asked}",
)  # fmt: skip
#: Expressions in one query, for an engine that takes long over each query.
_AT_ONCE = 14
_GUARDED = (
    "CASE WHEN note LIKE '1%' THEN CAST(note AS INTEGER) END",
    "CASE WHEN level <> 0 THEN 10 / level ELSE 0 END",
    "COALESCE(CAST(note AS INTEGER), 1 / level)",
    "CASE WHEN level > 100 THEN CAST(note AS DATE) END",
    "CASE CAST(note AS DATE) WHEN DATE '2024-01-01' THEN 1 END",
    "(CASE WHEN level BETWEEN 1 AND 3 THEN 1 / (level - 2) END)",
)
_NOTES = ("x", "7.5", "", "nan", "0")
_ZEROS = [
    "SELECT COUNT(*) FROM visits WHERE level = 0 AND 1 / level IS NULL",
    "SELECT COUNT(*) FROM visits v JOIN patients p ON v.patient_id = p.id WHERE p.age = 0 AND 10 % p.age IS NULL",
]


def _about(shape: str, constants: Mapping[str, Sequence[str]], missing: Callable[[str, str], bool]) -> str:
    """A query in which conditions on all the expressions hold, if ``missing`` is right about which are NULL."""
    ones = [*constants]
    names = ["c"] if len(ones) == 1 else [f"c{i}" for i in range(len(ones))]
    listed = [
        (one, e, re.sub(r"\bc\b", name, e)) for one, name in zip(ones, names, strict=True) for e in constants[one]
    ]
    return shape.format(
        ones=", ".join(ones),
        names=", ".join(names),
        named=", ".join(f"{one} AS {name}" for one, name in zip(ones, names, strict=True)),
        largest=", ".join(f"MAX({one}) AS {name}" for one, name in zip(ones, names, strict=True)),
        asked=" AND ".join(f"({written}) IS {'' if missing(one, e) else 'NOT '}NULL" for one, e, written in listed),
        columns=", ".join(f"({written}) AS x{i}" for i, (_, _, written) in enumerate(listed)),
        # Where no row of the list is joined, the constant is NULL, and so is all that is computed from it.
        missing=" AND ".join(f"x{i} IS NULL" for i in range(len(listed))),
    )


def _parts() -> list[dict[str, list[str]]]:
    """:data:`CONSTANTS` in parts of about as many expressions as are asked at once."""
    parts: list[dict[str, list[str]]] = [{}]
    for one, expressions in CONSTANTS.items():
        if sum(map(len, parts[-1].values())) + len(expressions) > _AT_ONCE and parts[-1]:
            parts.append({})
        parts[-1][one] = expressions
    return parts


def of_one(one: str, expression: str) -> str:
    """A query that counts rows exactly if an expression of a constant is NULL."""
    return f"SELECT COUNT(*) FROM visits CROSS JOIN (VALUES ({one})) AS v(c) WHERE ({expression}) IS NULL"


def together(missing: Callable[[str, str], bool]) -> list[str]:
    """Every expression of a constant in every place.

    The expressions of several constants stand in one query of each shape, as conditions which all rows pass: planners
    take conditions apart, and one that is decided otherwise leaves no row.

    Args:
        missing: whether an expression of a constant is NULL.
    """
    return [
        *(_about(shape, part, missing) for part in _parts() for shape in _SHAPES),
        *(
            f"SELECT {', '.join(f'COUNT(*) FILTER (WHERE ({_of_note(e)}) IS NULL)' for e in _OF_NOTE)}, COUNT(*)"
            f" FROM visits WHERE note = '{note}' AND ({' OR '.join(f'({_of_note(e)}) IS NULL' for e in _OF_NOTE)} OR level > 3)"
            for note in _NOTES
        ),
        f"SELECT {', '.join(f'COUNT(*) FILTER (WHERE {e} IS NOT NULL OR level = 0)' for e in _GUARDED)} FROM visits",
        *(f"SELECT COUNT(*) FROM visits WHERE {e} IS NOT NULL OR level = 0" for e in _GUARDED[:3]),
        *_ZEROS,
    ]  # fmt: skip


def _of_note(expression: str) -> str:
    return expression.replace("c AS", "note AS")


def alone(first: int) -> list[str]:
    """Constants where a planner computes them, or where no row comes to them: each expression in one place.

    Args:
        first: the place of the first expression; the others follow in turn.
    """
    pairs = [(one, e) for one, expressions in CONSTANTS.items() for e in expressions]
    return [
        *(
            _about(_SHAPES[(first + number) % len(_SHAPES)], {one: [e]}, lambda *_: True)
            for number, (one, e) in enumerate(pairs)
        ),
        *(
            f"SELECT COUNT(*) FROM visits WHERE note = '{_NOTES[(first + number) % len(_NOTES)]}' AND (({_of_note(e)}) IS NULL OR level > 3)"
            for number, e in enumerate(_OF_NOTE)
        ),
    ]
