"""The analyst's own SQL for plain DuckDB: only what DuckDB lacks or does not define for every row is respelled.

=============================================== ====================================================================
in the text                                     for DuckDB
=============================================== ====================================================================
WITH DIFFERENTIAL_PRIVACY OPTIONS(…)            left out
CLAMP(x, lo, hi), CLAMP(x, AUTO)                a macro; x
contribution bounds of AVG and MEDIAN           CLAMP of the value
contribution bounds of COUNT and SUM            left out: the persons here stay within them
DP_INTERVAL_LOW(n), DP_INTERVAL_HIGH(n)         n as DOUBLE: without noise an interval is its value
CAST(x AS t), x::t                              TRY_CAST(x AS t)
SQRT, LN, EXP, POWER, //, %                     NULL where the result is no number
QUANTILE                                        QUANTILE_CONT of a DOUBLE; DuckDB's QUANTILE is the discrete one, and
                                                it cuts quantiles of decimals to their digits
MODE(x)                                         a macro; of equally common values the least
GROUP BY of declared keys                       HAVING … IS NOT NULL: NULL is a key only where it is declared
=============================================== ====================================================================

Tables are views that read as a scan does: rows without a unit are dropped, numbers that are not finite are NULL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import duckdb
import pyarrow as pa
from sqlglot import exp, parse_one

from tacit.query.query import FinalAggregation, GroupKey

__all__ = ["plain_connection", "plain_sql"]

_MACROS = (
    "clamp(x, lo, hi) AS CASE WHEN x IS NOT NULL THEN greatest(lo, least(x, hi)) END",
    "by_count(x) AS list_sort([{'n': -e.value::BIGINT, 'v': e.key} FOR e IN map_entries(histogram(x))])",
    "least_mode(x) AS by_count(x)[1].v",
    "dp_interval_low(x) AS CAST(x AS DOUBLE)",
    "dp_interval_high(x) AS CAST(x AS DOUBLE)",
    "total_sqrt(x) AS CASE WHEN x >= 0 THEN sqrt(x) END",
    "total_ln(x) AS CASE WHEN x > 0 THEN ln(x) END",
    "total_exp(x) AS CASE WHEN x < 700 THEN exp(x) END",
    "total_power(x, y) AS CASE WHEN isfinite(power(x, y)) THEN power(x, y) END",
    "total_quantile(x, p) AS quantile_cont(CAST(x AS DOUBLE), p)",
    "convert_timezone(one, other, x) AS x AT TIME ZONE one AT TIME ZONE other",
    "finite(x) AS CASE WHEN isfinite(x) THEN x + 0 END",
)
_VIEWS = {
    "patients": "SELECT * REPLACE (finite(weight) AS weight) FROM raw_patients WHERE id IS NOT NULL",
    "visits": "SELECT * REPLACE (finite(score) AS score) FROM raw_visits WHERE patient_id IS NOT NULL",
    "prescriptions": "SELECT * REPLACE (finite(dose) AS dose) FROM raw_prescriptions "
    "WHERE visit_id IN (SELECT visit_id FROM visits)",
    "wards": "FROM raw_wards",
    "staff": "FROM raw_staff WHERE staff_id IS NOT NULL",
    "log": "FROM raw_log",
}
_RESPELLED = [
    (re.compile(pattern, re.IGNORECASE), spelling)
    for pattern, spelling in (
        (r"\bWITH DIFFERENTIAL_PRIVACY( OPTIONS\s*\([^)]*\))?", ""),
        (r"\b(COUNT|SUM)\(([^()]*), contribution_bounds_per_group => \([^)]*\)\)", r"\1(\2)"),
        (r"\b(AVG|MEDIAN)\((.*), contribution_bounds_per_\w+ => \(([^)]*)\)\)", r"\1(CLAMP(\2, \3))"),
        (r"\bCLAMP\(([^,]*), AUTO\)", r"(\1)"),
        (r"\bCAST\(", "TRY_CAST("),
        (r"\bTIMESTAMP_DIFF\((\w+), (.+?), (\w+)\)", r"date_sub('\3', \2, \1)"),
        (r"\b(\w+)::(\w+)", r"TRY_CAST(\1 AS \2)"),
        (r"\b(SQRT|LN|EXP|POWER)\(", r"total_\1("),
        (r"\bQUANTILE\(", "total_quantile("),
        (r"\bAPPROX_QUANTILES\((\w+), (\d+)\)\[OFFSET\((\d+)\)\]", r"total_quantile(\1, \3.0 / \2)"),
        (r"\bMODE\(\) WITHIN GROUP \(ORDER BY (\w+)\)", r"MODE(\1)"),
        (r"\bMODE\((\w+)\)", r"least_mode(\1)"),
    )
]
#: A grouping by one of these is inside persons.
_UNITS = {"patient_id", "id", "visit_id", "u"}


def plain_connection(frames: Mapping[str, pa.Table]) -> duckdb.DuckDBPyConnection:
    """The tables of the clinic, for ordinary SQL."""
    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.execute("SET error_on_division_by_zero = false")
    for macro in _MACROS:
        connection.execute(f"CREATE MACRO {macro}")
    for name, frame in frames.items():
        connection.register(f"arrow_{name}", frame)
        connection.execute(f"CREATE TABLE raw_{name} AS FROM arrow_{name}")
    for name, query in _VIEWS.items():
        connection.execute(f"CREATE VIEW {name} AS {query}")
    return connection


def plain_sql(sql: str, final: FinalAggregation) -> str:
    """The query for :func:`plain_connection`; ``final`` says which keys are public."""
    for pattern, spelling in _RESPELLED:
        sql = pattern.sub(spelling, sql)
    if not final.public_keys or not final.keys:
        return sql
    return _without_undeclared_nulls(sql, final.keys)


def _without_undeclared_nulls(sql: str, keys: Sequence[GroupKey]) -> str:
    tree = parse_one(sql, dialect="duckdb")
    sets = next((s for s in tree.find_all(exp.Select) if _set_terms(s)), None)
    if sets is not None:
        # A total over a key has no key either, so that rows are left out before they are grouped.
        for node in _set_terms(sets):
            sets.where(exp.Not(this=exp.Is(this=exp.Paren(this=node.copy()), expression=exp.Null())), copy=False)
        return tree.sql(dialect="duckdb")
    select = _grouping(tree, len(keys))
    for node, key in zip(_key_nodes(select), keys, strict=True):
        if None not in (key.values or ()):
            known = exp.Not(this=exp.Is(this=exp.Paren(this=node.copy()), expression=exp.Null()))
            select = select.having(known, copy=False) if select.args.get("group") else select.where(known, copy=False)
    return tree.sql(dialect="duckdb")


def _grouping(tree: exp.Expression, count: int) -> exp.Select:
    """The innermost SELECT that groups by so many keys, none of them a person."""
    found = [s for s in tree.find_all(exp.Select) if s.args.get("group") or s.args.get("distinct")]
    fitting = [s for s in found if len(_key_nodes(s)) == count and not any(n.name in _UNITS for n in _key_nodes(s))]
    return max(fitting, key=lambda select: select.depth)


def _set_terms(select: exp.Select) -> list[exp.Expression]:
    """The keys of ROLLUP, CUBE and GROUPING SETS as they stand below the grouping; empty for a plain GROUP BY."""
    group = select.args.get("group")
    if group is None or not (group.find(exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)):
        return []
    named = {item.alias: item.this for item in select.expressions if isinstance(item, exp.Alias)}
    found: list[exp.Expression] = []
    stack = list(group.expressions)
    while stack:
        node = stack.pop()
        if isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple):
            stack.extend(node.expressions)
        else:
            found.append(named.get(node.name, node) if isinstance(node, exp.Column) and not node.table else node)
    return found


def _key_nodes(select: exp.Select) -> list[exp.Expression]:
    items = [item.unalias() for item in select.expressions]
    group = select.args.get("group")
    if group is None or group.args.get("all"):
        return [item for item in items if not item.find(exp.AggFunc)]
    terms = [items[int(t.name) - 1] if isinstance(t, exp.Literal) else t for t in group.expressions]
    named = {item.alias: item.this for item in select.expressions if isinstance(item, exp.Alias)}
    return [named.get(t.name, t) if isinstance(t, exp.Column) and not t.table else t for t in terms]
