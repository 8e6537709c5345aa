"""Queries as analysts combine them: statistics by keys, conditions, joins, persons, parts of a query and times.

Each list is a table of pieces, and each query takes one piece of every column, so that all pieces meet in turn.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["ASKED", "ASKED_REFUSED"]

_STATISTICS = (
    "COUNT(*)", "COUNT(DISTINCT patient_id)", "COUNT(DISTINCT doctor)", "SUM(cost)", "AVG(cost)", "MEDIAN(nights)", "MAX(nights)", "MIN(cost)",
    "STDDEV(nights)", "VAR_POP(nights)", "SUM(nights) / COUNT(*)", "AVG(nights) FILTER (WHERE urgent)", "COUNT(*) FILTER (WHERE cost > 100)",
    "QUANTILE(cost, 0.9)", "SUM(CASE WHEN urgent THEN 1 ELSE 0 END)", "100.0 * COUNT(*) FILTER (WHERE urgent) / COUNT(*)", "CORR(cost, nights)",
    "REGR_SLOPE(cost, nights)", "SUM(DISTINCT nights)", "AVG(DISTINCT nights)", "APPROX_COUNT_DISTINCT(doctor)", "MODE(ward)", "ROUND(AVG(cost), 2)",
)  # fmt: skip
_KEYS = (
    "ward", "urgent", "EXTRACT(year FROM admitted)", "DATE_TRUNC('quarter', admitted)", "DAYNAME(admitted)", "nights // 7",
    "CASE WHEN nights = 0 THEN 'day' WHEN nights < 7 THEN 'week' ELSE 'long' END", "COALESCE(ward, 'unknown')", "MONTHNAME(admitted)",
    "WIDTH_BUCKET(cost, 0, 5000, 5)", "STRFTIME(admitted, '%Y-%m')", "ward IN ('surgery', 'oncology')", "UPPER(ward)", "EXTRACT(dow FROM admitted)",
    "EXTRACT(hour FROM seen AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin')", "nights > 3", "EXTRACT(isoyear FROM admitted)",
)  # fmt: skip
_CONDITIONS = (
    "cost BETWEEN 50 AND 500", "NOT urgent", "ward IS NOT NULL", "note ILIKE '%fever%'", "admitted >= DATE '2023-01-01' AND admitted < DATE '2024-01-01'",
    "doctor IN ('a', 'b')", "nights % 2 = 0", "LENGTH(note) > 3", "EXTRACT(month FROM admitted) IN (12, 1, 2)", "cost / NULLIF(nights, 0) > 100",
    "seen > CAST(admitted AS TIMESTAMP) + INTERVAL '6' HOUR", "REGEXP_MATCHES(note, '^[A-Z]')", "COALESCE(doctor, 'none') <> 'none'",
    "ward = 'surgery' OR urgent", "patient_id IN (SELECT id FROM patients WHERE sex = 'F')", "ward IN (SELECT ward FROM wards WHERE beds > 10)",
    "ward IN (SELECT ward FROM wards ORDER BY beds DESC LIMIT 2)", "cost > (SELECT AVG(cost) FROM visits)",
    "EXISTS (SELECT 1 FROM prescriptions p WHERE p.visit_id = visits.visit_id)", "ABS(cost - 100) < 50",
    "ward IN (SELECT ward FROM visits GROUP BY ward HAVING AVG(nights) > 2)",
)  # fmt: skip
_TAILS = ("", " ORDER BY 2 DESC, 1", " HAVING COUNT(*) > 10", " ORDER BY 1 LIMIT 5", " HAVING COUNT(*) > 5 ORDER BY 1")
_JOINS = (
    ("visits v JOIN patients p ON p.id = v.patient_id", "p.sex"),
    ("visits v JOIN wards w ON w.ward = v.ward", "w.floor"),
    ("visits v LEFT JOIN wards w USING (ward)", "w.floor"),
    ("patients p JOIN visits v ON v.patient_id = p.id JOIN wards w ON w.ward = v.ward", "w.floor"),
    ("visits v, patients p WHERE v.patient_id = p.id AND p.active", "p.sex"),
    ("visits v JOIN (VALUES ('surgery', 'cut'), ('oncology', 'drug')) t(ward, kind) ON t.ward = v.ward", "t.kind"),
    ("visits v SEMI JOIN patients p ON p.id = v.patient_id AND p.active", "v.urgent"),
    ("visits v JOIN (SELECT ward, AVG(nights) AS mean FROM visits GROUP BY ward) m ON m.ward = v.ward AND v.nights > m.mean", "m.ward"),
)  # fmt: skip
_JOINED = (
    "COUNT(*)",
    "COUNT(DISTINCT v.patient_id)",
    "AVG(v.cost)",
    "SUM(v.nights)",
    "MEDIAN(v.cost)",
    "MAX(v.nights)",
)
_PERSON = (
    "SELECT patient_id, COUNT(*) AS x FROM visits GROUP BY patient_id",
    "SELECT patient_id, SUM(nights) AS x FROM visits WHERE urgent GROUP BY patient_id",
    "SELECT patient_id, MAX(nights) AS x FROM visits GROUP BY patient_id HAVING COUNT(*) > 1",
    "SELECT patient_id, COUNT(DISTINCT ward) AS x FROM visits GROUP BY patient_id",
    "SELECT patient_id, DATEDIFF('day', MIN(admitted), MAX(admitted)) AS x FROM visits GROUP BY patient_id",
    "SELECT patient_id, nights - LAG(nights) OVER (PARTITION BY patient_id ORDER BY seen) AS x FROM visits",
    "SELECT patient_id, nights AS x FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY seen DESC) = 1",
    "SELECT patient_id, ARG_MIN(nights, seen) AS x FROM visits GROUP BY patient_id",
    "SELECT p.id AS patient_id, COUNT(v.visit_id) AS x FROM patients p LEFT JOIN visits v ON v.patient_id = p.id GROUP BY p.id",
)  # fmt: skip
_OF_PERSONS = (
    "SELECT AVG(CLAMP(x, 0, 50)) FROM ({}) t", "SELECT COUNT(*) FROM ({}) t WHERE x > 2", "SELECT CLAMP(x, 0, 5) AS times, COUNT(*) FROM ({}) t GROUP BY times ORDER BY times",
    "SELECT MEDIAN(CLAMP(x, 0, 50)) FROM ({}) t", "SELECT sex, AVG(CLAMP(x, 0, 50)) FROM ({}) t JOIN patients ON id = patient_id GROUP BY sex",
    "SELECT COUNT(*) FILTER (WHERE x >= 3) * 1.0 / COUNT(*) AS share FROM ({}) t",
)  # fmt: skip
_PARTS = (
    "SELECT (SELECT {0} FROM visits WHERE urgent) / NULLIF((SELECT {0} FROM visits), 0) AS share",
    "WITH a AS (SELECT ward, {0} AS n FROM visits WHERE EXTRACT(year FROM admitted) = 2023 GROUP BY ward), b AS (SELECT ward, {0} AS n FROM visits WHERE EXTRACT(year FROM admitted) = 2022 GROUP BY ward) SELECT a.ward, a.n - b.n AS change FROM a JOIN b ON a.ward = b.ward",
    "SELECT 'all' AS what, {0} AS n FROM visits UNION ALL SELECT 'urgent', {0} FROM visits WHERE urgent",
    "SELECT ward, n, n - AVG(n) OVER () AS above FROM (SELECT ward, {0} AS n FROM visits GROUP BY ward) s ORDER BY n DESC",
    "SELECT month, n, SUM(n) OVER (ORDER BY month) AS so_far FROM (SELECT DATE_TRUNC('month', admitted) AS month, {0} AS n FROM visits WHERE admitted >= DATE '2024-01-01' GROUP BY 1) s",
    "SELECT w.ward, w.beds, s.n FROM wards w LEFT JOIN (SELECT ward, {0} AS n FROM visits GROUP BY ward) s ON s.ward = w.ward",
    "SELECT MAX(n) - MIN(n) AS spread FROM (SELECT ward, {0} AS n FROM visits GROUP BY ward) s",
    "WITH m AS (SELECT urgent, {0} AS n FROM visits GROUP BY urgent) SELECT COUNT(*) FROM visits v JOIN m ON m.urgent = v.urgent WHERE v.nights > m.n",
)  # fmt: skip
_OF_PARTS = ("COUNT(*)", "SUM(nights)", "AVG(cost)", "COUNT(DISTINCT patient_id)", "SUM(cost) / COUNT(*)")


def _paired(one: Sequence[str], other: Sequence[str], count: int) -> list[tuple[str, str]]:
    """Pieces of two lists in turn, each pair once."""
    return [(one[i % len(one)], other[(i + i // len(one)) % len(other)]) for i in range(count)]


def _asked() -> list[str]:
    made = [
        f"SELECT {key} AS k, {statistic} AS a FROM visits GROUP BY 1{_TAILS[i % len(_TAILS)]}"
        for i, (statistic, key) in enumerate(_paired(_STATISTICS, _KEYS, 170))
    ]
    made += [
        f"SELECT {statistic} AS a FROM visits WHERE {condition}"
        for statistic, condition in _paired(_STATISTICS, _CONDITIONS, 110)
    ]
    made += [
        f"SELECT {key} AS k, {statistic} AS a FROM {source} GROUP BY 1"
        for statistic in _JOINED
        for source, key in _JOINS
    ]
    made += [outer.format(inner) for inner in _PERSON for outer in _OF_PERSONS]
    made += [form.format(statistic) for form in _PARTS for statistic in _OF_PARTS]
    return made


#: Each of them is accepted.
ASKED: tuple[str, ...] = tuple(dict.fromkeys(_asked()))

_RAW = ("cost", "note", "patient_id", "doctor, cost", "*", "visit_id, ward", "seen", "UPPER(note)")
_VOLATILE = ("NOW()", "RANDOM()", "CURRENT_TIMESTAMP", "CURRENT_DATE", "UUID()", "TODAY()", "PG_SLEEP(1)")
_LISTS = (
    "ARRAY_AGG",
    "STRING_AGG",
    "LIST",
    "GROUP_CONCAT",
    "FIRST",
    "LAST",
    "ANY_VALUE",
    "HISTOGRAM_EXACT",
    "ENTROPY",
    "KURTOSIS",
)
_ARGUMENTS = ("cost", "note", "nights", "doctor")


def _refused() -> list[tuple[str, str]]:
    made = [
        ("not_aggregated", f"SELECT {raw} FROM visits{tail}")
        for raw in _RAW
        if raw != "patient_id"
        for tail in ("", " WHERE urgent", " ORDER BY 1 LIMIT 3")
    ]
    made += [
        ("volatile", f"SELECT COUNT(*) FROM visits WHERE {form.format(word)}")
        for word in _VOLATILE
        for form in ("CAST({} AS TEXT) = 'x'", "COALESCE(CAST({} AS TEXT), note) = note")
    ]
    made += [("raw_aggregate", f"SELECT {name}({argument}) FROM visits") for name in _LISTS for argument in _ARGUMENTS]
    made += [
        ("unit_exposed", f"SELECT patient_id, {statistic} AS a FROM visits GROUP BY patient_id")
        for statistic in ("COUNT(*)", "SUM(cost)", "MAX(seen)", "AVG(nights)", "COUNT(DISTINCT ward)")
    ]
    made += [
        ("unit_exposed", f"SELECT patient_id, {key} AS k, COUNT(*) AS n FROM visits GROUP BY 1, 2") for key in _KEYS[:8]
    ]
    made += [
        ("unknown_column", f"SELECT {statistic} FROM visits")
        for statistic in ("AVG(costs)", "SUM(nigths)", "COUNT(doctr)", "MAX(admited)", "AVG(price)")
    ]
    made += [
        ("unknown_column", f"SELECT {key}, COUNT(*) FROM visits GROUP BY 1")
        for key in ("wards", "department", "EXTRACT(year FROM date)", "urgnt", "v.ward")
    ]
    made += [
        ("unknown_table", f"SELECT COUNT(*) FROM {name}")
        for name in (
            "visit",
            "patient",
            "hospital.visits",
            "pg_class",
            "information_schema.tables",
            "duckdb_tables()",
            "orders",
        )
    ]
    made += [
        ("join", f"SELECT COUNT(*) FROM visits a JOIN visits b ON {condition}")
        for condition in (
            "a.ward = b.ward",
            "a.cost > b.cost",
            "a.visit_id < b.visit_id",
            "a.admitted = b.admitted",
            "a.note = b.note",
            "a.doctor = b.doctor",
        )
    ]
    made += [
        ("join", f"SELECT COUNT(*) FROM visits WHERE {condition}")
        for condition in (
            "ward IN (SELECT ward FROM visits WHERE urgent)",
            "cost IN (SELECT cost FROM visits)",
            "nights NOT IN (SELECT nights FROM visits WHERE urgent)",
            "doctor IN (SELECT doctor FROM visits WHERE cost > 9)",
        )
    ]
    made += [
        ("window", f"SELECT AVG(CLAMP(x, 0, 9)) FROM (SELECT {call} AS x FROM visits)")
        for call in (
            "ROW_NUMBER() OVER (ORDER BY cost)",
            "RANK() OVER (PARTITION BY ward ORDER BY cost)",
            "LAG(nights) OVER (ORDER BY seen)",
            "SUM(nights) OVER ()",
            "COUNT(*) OVER (PARTITION BY ward)",
            "NTILE(4) OVER (PARTITION BY patient_id ORDER BY cost)",
        )
    ]
    made += [
        ("limit_below", f"SELECT {statistic} FROM (SELECT * FROM visits {tail})")
        for statistic in ("COUNT(*)", "AVG(cost)", "MAX(nights)")
        for tail in ("LIMIT 10", "ORDER BY cost", "ORDER BY cost DESC LIMIT 5", "OFFSET 3")
    ]
    made += [
        ("set_operation", f"SELECT COUNT(*) FROM (SELECT patient_id FROM visits {word} SELECT id FROM patients)")
        for word in ("EXCEPT ALL", "INTERSECT ALL")
    ]
    made += [
        ("population", f"SELECT COUNT(*) FROM visits v JOIN staff s ON {condition}")
        for condition in ("s.staff_id = v.patient_id", "s.ward = v.ward", "TRUE")
    ]
    made += [
        ("key_type", f"SELECT {key} AS k, COUNT(*) FROM visits GROUP BY 1")
        for key in ("score", "score * 2", "cost / 3", "SQRT(nights)", "CAST(nights AS DOUBLE)", "LN(cost + 1)")
    ]
    made += [
        ("statement", sql)
        for sql in (
            "DELETE FROM visits",
            "UPDATE visits SET cost = 0",
            "INSERT INTO visits VALUES (1)",
            "DROP TABLE visits",
            "CREATE TABLE t AS SELECT * FROM visits",
            "ALTER TABLE visits ADD COLUMN x INTEGER",
            "TRUNCATE visits",
            "GRANT SELECT ON visits TO bob",
            "VACUUM",
            "PRAGMA version",
        )
    ]
    made += [
        ("sample", f"SELECT COUNT(*) FROM visits {how}")
        for how in ("USING SAMPLE 5", "TABLESAMPLE BERNOULLI(10)", "USING SAMPLE 10 PERCENT")
    ]
    made += [
        ("several_statements", f"SELECT COUNT(*) FROM visits; {other}")
        for other in ("DELETE FROM visits", "SELECT 1", "COMMIT")
    ]
    made += [
        ("quantile", f"SELECT QUANTILE(cost, {fraction}) FROM visits") for fraction in ("2", "-0.1", "1.01", "nights")
    ]
    made += [
        ("type", f"SELECT {call} FROM visits")
        for call in (
            "SUM(note)",
            "AVG(ward)",
            "STDDEV(admitted)",
            "CORR(note, cost)",
            "SUM(seen)",
            "VAR_POP(doctor)",
            "AVG(admitted)",
        )
    ]
    made += [
        ("arguments", f"SELECT COUNT(*) FROM visits WHERE {call} IS NULL")
        for call in (
            "ROUND()",
            "SUBSTRING(note)",
            "POWER(cost)",
            "DATE_TRUNC('month')",
            "REPLACE(note, 'a')",
            "SPLIT_PART(note, '-')",
            "NULLIF(cost)",
            "STRFTIME(admitted)",
        )
    ]
    made += [
        ("literal", f"SELECT COUNT(*) FROM visits WHERE admitted > {day}")
        for day in ("DATE '2024-02-30'", "DATE 'yesterday'", "TIMESTAMP '2024-01-01 25:00:00'", "DATE '24-1'")
    ]
    made += [
        ("function", f"SELECT COUNT(*) FROM visits WHERE {call}")
        for call in (
            "SOUNDEX(note) = 'A'",
            "LEVENSHTEIN(note, 'a') < 2",
            "MD5(note) = 'x'",
            "READ_TEXT('/etc/passwd') = ''",
            "BAR(cost, 0, 9, 3) = ''",
            "LIST_VALUE(cost) IS NULL",
            "STRUCT_PACK(note) IS NULL",
            "TO_JSON(note) = ''",
            "HASH(note) = 1",
        )
    ]
    made += [
        ("not_aggregated", f"SELECT {key}, cost, COUNT(*) FROM visits GROUP BY {key}")
        for key in ("ward", "urgent", "doctor")
    ]
    made += [
        (
            "several_aggregations",
            f"SELECT COUNT(*) FROM visits v JOIN (SELECT {key}, COUNT(*) AS n FROM visits GROUP BY {key}) s ON s.{key} = v.{key}",
        )
        for key in ("note", "doctor")
    ]
    made += [
        ("subquery", f"SELECT ward FROM wards WHERE {condition}")
        for condition in (
            "ward NOT IN (SELECT ward FROM visits)",
            "ward IN (SELECT ward FROM visits)",
            "EXISTS (SELECT 1 FROM visits v WHERE v.ward = wards.ward)",
        )
    ]
    made += [
        ("recursion", f"WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT {what} FROM visits")
        for what in ("COUNT(*)", "AVG(cost)")
    ]
    return made


#: The code of the refusal, and the query.
ASKED_REFUSED: tuple[tuple[str, str], ...] = tuple(dict.fromkeys(_refused()))
