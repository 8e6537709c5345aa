"""Queries that Spark is asked: together they need all that is written for Spark, and every node, measure and call.

Functions and casts of single values are asked one by one in ``test_spark_functions``. Spark takes half a second of
processor time for a statement, so a query stands here for what no other one needs; ``test_spark_corpus`` says what
is missing.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from types import FrameType

from engines import clinic
from tacit.engines.spark.dialect import SPARK
from tacit.engines.spark.engine import SparkWriter
from tacit.query.planning.measures import MeasureKind
from tacit.query.relational.algebra import JoinKind, UnitCall, WindowCall, WindowFrame

__all__ = ["HOSTILE", "METHODS", "NODES", "SMOKE", "STRUCTURAL", "called", "nodes"]

#: Asked of hostile rows, with the table of units that bounding leaves out.
HOSTILE = tuple(
    clinic.QUERIES[i]
    for i in (
        4,
        11,
        13,
        16,
        19,
        20,
        23,
        24,
        27,
        28,
        30,
        31,
        36,
        38,
        39,
        40,
        42,
        43,
        44,
        45,
        46,
        52,
        55,
        56,
    )
)
#: Asked of the database of the corpora.
STRUCTURAL = (
    "SELECT TRY_STRPTIME(note, '%d/%m/%Y') AS k, COUNT(*) AS n FROM visits GROUP BY k",
    "SELECT COUNT(*) FROM visits v JOIN GENERATE_SERIES(0, 2) AS t(n) ON v.nights = t.n",
    "SELECT trunc(score) AS k, COUNT(*) AS n FROM visits GROUP BY k",
    "SELECT CORR(cost, nights) FILTER (WHERE urgent) AS r FROM visits",
    "SELECT CAST(note AS DECIMAL(10,2)) AS k, COUNT(*) AS n FROM visits GROUP BY k",
    "SELECT COUNT(*) FROM visits WHERE REGEXP_FULL_MATCH(note, 'a|bc')",
    "SELECT urgent IN (0, 2) AS k, COUNT(*) AS n FROM visits GROUP BY k",
    "SELECT CAST(cost AS INTEGER) AS k, COUNT(*) AS n FROM visits GROUP BY k",
    "SELECT make_date(year(admitted), 1, 1) AS y, COUNT(*) FROM visits GROUP BY y",
    "SELECT TRY_STRPTIME(CAST(seen AS TEXT), '%Y-%m-%d %H:%M:%S') AS k, COUNT(*) AS n FROM visits GROUP BY k",
    "SELECT SUM(DISTINCT nights) AS s FROM visits",
    "SELECT ceil(score) AS k, COUNT(*) AS n FROM visits GROUP BY k",
    "SELECT CAST(points AS BOOLEAN) AS k, COUNT(*) AS n FROM visits GROUP BY k",
    "SELECT admitted + INTERVAL '1 month 2 days' AS k, COUNT(*) AS n FROM visits GROUP BY k",
    "SELECT CAST((seen AT TIME ZONE 'UTC') AT TIME ZONE 'Asia/Kolkata' AS DATE) AS k, COUNT(*) AS n FROM visits GROUP BY k",
    "SELECT a, b, COUNT(*) FROM (SELECT patient_id, BOOL_AND(urgent) a, BOOL_OR(urgent) b FROM visits GROUP BY 1) GROUP BY a, b",
    "SELECT CAST(k * 100 AS INTEGER) AS z, COUNT(*) FROM (SELECT patient_id, VAR_POP(nights) k FROM visits GROUP BY 1) GROUP BY z",
    "SELECT AVG(v), AVG(s) FROM (SELECT patient_id, VARIANCE(nights) AS v, STDDEV_POP(nights) AS s FROM visits GROUP BY patient_id)",
    "SELECT COUNT(*) FROM visits WHERE NULL",
    "SELECT COUNT(DISTINCT (ward, nights)) FROM visits",
    "SELECT COUNT(*) FROM visits WHERE note::DOUBLE > 0.5",
    "SELECT LAST_DAY(seen) AS k, COUNT(*) AS n FROM visits GROUP BY k",
    "SELECT note ILIKE 'A%' AS k, COUNT(*) AS n FROM visits GROUP BY k",
    "SELECT CAST(cost AS TEXT) AS k, COUNT(*) AS n FROM visits GROUP BY k",
    "SELECT CAST(urgent AS TEXT) AS k, COUNT(*) AS n FROM visits GROUP BY k",
    "SELECT SUM(score, contribution_bounds_per_group => (0, 50)) FROM visits",
    "SELECT CAST(admitted AS TEXT) AS k, COUNT(*) AS n FROM visits GROUP BY k",
    "SELECT CAST(score*10 AS DECIMAL(10,1)) AS k, COUNT(*) AS n FROM visits GROUP BY k",
    "SELECT AVG(x) FROM (SELECT lead(nights) OVER (PARTITION BY patient_id ORDER BY visit_id DESC) AS x FROM visits)",
    "SELECT sex, AVG(n) FROM (SELECT sex, id, COUNT(visit_id) AS n FROM patients LEFT JOIN visits ON id = patient_id GROUP BY sex, id) GROUP BY sex",
    "SELECT n, m, COUNT(*) FROM (SELECT COUNT(cost) OVER (PARTITION BY patient_id) AS n, COUNT(*) OVER (PARTITION BY patient_id ORDER BY urgent) AS m FROM visits) GROUP BY n, m",
)
#: Ten that differ most, for a quick look.
SMOKE = tuple(clinic.QUERIES[i] for i in (2, 8, 10, 11, 23, 33, 39, 43, 49, 55))
#: All of the algebra, of the kinds of measures, joins and frames, of aggregates of a unit's rows, and of windows.
NODES = {
    *("Scan", "Constants", "FilterRows", "ProjectColumns", "Join", "ExistsColumn", "FirstRows", "UnionAll"),
    *("UnitAggregate", "UnitWindow", "Case", "Cast", "InList"),
    *(str(kind) for kinds in (MeasureKind, JoinKind) for kind in kinds),
    *(str(WindowFrame[name]) for name in ("PARTITION", "RUNNING", "PEERS")),
    *("count_rows", "count", "count_distinct", "sum", "avg", "min", "max", "quantile"),
    *("var_samp", "var_pop", "stddev_samp", "stddev_pop", "bool_and", "bool_or"),
    *("row_number", "rank", "dense_rank", "lag", "lead", "first_value", "last_value"),
}


def nodes(value: object) -> Iterator[str]:
    """Names of all nodes of a plan, of their kinds, and of what is called on a unit's rows."""
    if isinstance(value, Enum):
        yield str(value)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from nodes(part)
    elif is_dataclass(value) and not isinstance(value, type):
        yield type(value).__name__
        yield from [value.function] if isinstance(value, (UnitCall, WindowCall)) else []
        for field in fields(value):
            yield from nodes(getattr(value, field.name))


def called(work: Callable[[], object]) -> set[str]:
    """Methods of Spark's dialect and statements that run in some work."""
    found = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            found.add(frame.f_code)

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return {name for name, code in METHODS.items() if code in found}


#: Methods in which Spark's dialect and statements differ from the others'.
METHODS = {
    method.__qualname__: method.__code__
    for kind in (type(SPARK), SparkWriter)
    for method in vars(kind).values()
    if inspect.isfunction(method) and not method.__name__.startswith("__")
}
