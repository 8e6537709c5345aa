"""Spellings of other databases, each with the text that asks the same in the way of the rest of the corpus."""

from __future__ import annotations

__all__ = ["SPELLINGS", "UNCONNECTED"]

_COUNT = "SELECT COUNT(*) FROM visits"
_WARDS = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
_OPTIONS = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1)"

#: (as written, the same query)
SPELLINGS: tuple[tuple[str, str], ...] = (
    # semicolons, comments, names
    ("SELECT COUNT(*) FROM visits; -- done", _COUNT),
    ("SELECT COUNT(*) FROM visits; /* done */ ;", _COUNT),
    ("/* first */ SELECT /* all */ COUNT(*) -- rows\nFROM visits", _COUNT),
    ("SELECT COUNT(*) FROM main.visits", _COUNT),
    ("SELECT COUNT(*) FROM public.visits", _COUNT),
    ('SELECT COUNT(*) FROM "public"."visits" AS v', _COUNT),
    ('SELECT COUNT(*) FROM "Public"."VISITS"', _COUNT),
    ("SELECT v.ward, COUNT(*) AS n FROM main.visits v GROUP BY v.ward", _WARDS),
    (
        'SELECT "WARD", COUNT(*) AS n FROM visits GROUP BY "Ward"',
        'SELECT ward AS "WARD", COUNT(*) AS n FROM visits GROUP BY ward',
    ),
    # parentheses in FROM
    ("SELECT COUNT(*) FROM (visits)", _COUNT),
    ("SELECT COUNT(*) FROM ((visits)) AS v WHERE v.cost > 3", "SELECT COUNT(*) FROM visits WHERE cost > 3"),
    (
        "SELECT sex, COUNT(*) FROM (visits v JOIN patients p ON p.id = v.patient_id) GROUP BY sex",
        "SELECT sex, COUNT(*) FROM visits v JOIN patients p ON p.id = v.patient_id GROUP BY sex",
    ),
    (
        "SELECT j.sex, COUNT(*) FROM (visits v JOIN patients p ON p.id = v.patient_id) AS j GROUP BY j.sex",
        "SELECT sex, COUNT(*) FROM visits v JOIN patients p ON p.id = v.patient_id GROUP BY sex",
    ),
    (
        "SELECT floor, COUNT(*) FROM (visits v JOIN patients p ON p.id = v.patient_id) JOIN wards w ON w.ward = v.ward GROUP BY floor",
        "SELECT floor, COUNT(*) FROM visits v JOIN patients p ON p.id = v.patient_id JOIN wards w ON w.ward = v.ward GROUP BY floor",
    ),
    # LIMIT
    (_WARDS + " FETCH FIRST 2 ROWS ONLY", _WARDS + " LIMIT 2"),
    (_WARDS + " FETCH FIRST ROW ONLY", _WARDS + " LIMIT 1"),
    (_WARDS + " ORDER BY n OFFSET 1 ROWS FETCH NEXT 2 ROWS ONLY", _WARDS + " ORDER BY n LIMIT 2 OFFSET 1"),
    (_WARDS + " LIMIT 1, 2", _WARDS + " LIMIT 2 OFFSET 1"),
    (_WARDS + " OFFSET 1 LIMIT 2", _WARDS + " LIMIT 2 OFFSET 1"),
    # names of aggregates
    ("SELECT VAR(cost) AS x FROM visits", "SELECT VARIANCE(cost) AS x FROM visits"),
    ("SELECT VARP(cost) AS x FROM visits", "SELECT VAR_POP(cost) AS x FROM visits"),
    ("SELECT STD(cost) AS x FROM visits", "SELECT STDDEV(cost) AS x FROM visits"),
    ("SELECT STDEV(cost) AS x FROM visits", "SELECT STDDEV(cost) AS x FROM visits"),
    ("SELECT STDEVP(cost) AS x FROM visits", "SELECT STDDEV_POP(cost) AS x FROM visits"),
    ("SELECT APPROX_QUANTILES(cost, 4)[OFFSET(1)] AS x FROM visits", "SELECT QUANTILE(cost, 0.25) AS x FROM visits"),
    ("SELECT APPROX_QUANTILES(cost, 2)[ORDINAL(2)] AS x FROM visits", "SELECT MEDIAN(cost) AS x FROM visits"),
    (
        "SELECT nights > 3 AS ward, COUNT(*) AS n FROM visits GROUP BY ward HAVING n > 2",
        "SELECT nights > 3 AS ward, COUNT(*) AS n FROM visits GROUP BY nights > 3 HAVING n > 2",
    ),
    ("SELECT COUNT(IFF(urgent, 1, NULL)) FROM visits", "SELECT COUNT(IF(urgent, 1, NULL)) FROM visits"),
    (
        "SELECT AVG(DATETIME_DIFF(seen, admitted, HOUR)) AS x FROM visits",
        "SELECT AVG(DATE_DIFF('hour', admitted, seen)) AS x FROM visits",
    ),
    (
        "SELECT COUNT(CAST(note AS DATE FORMAT 'DD.MM.YYYY')) FROM visits",
        "SELECT COUNT(PARSE_DATE('%d.%m.%Y', note)) FROM visits",
    ),
    (
        "SELECT COUNT(TO_TIMESTAMP(note, 'YYYY-MM-DD HH24:MI:SS')) FROM visits",
        "SELECT COUNT(STRPTIME(note, '%Y-%m-%d %H:%M:%S')) FROM visits",
    ),
    ("SELECT COUNT(TO_DATE(note, 'DD/MM/YYYY')) FROM visits", "SELECT COUNT(PARSE_DATE('%d/%m/%Y', note)) FROM visits"),
    (
        "SELECT COUNT(*) FROM visits WHERE (ward, urgent) IN (('surgery', TRUE), ('oncology', FALSE))",
        "SELECT COUNT(*) FROM visits WHERE ward = 'surgery' AND urgent = TRUE OR ward = 'oncology' AND urgent = FALSE",
    ),
    (
        "SELECT COUNT(*) FROM visits WHERE note LIKE 'a%' ESCAPE '\\'",
        "SELECT COUNT(*) FROM visits WHERE note LIKE 'a%'",
    ),
    ("SELECT AVG(nights) OVER () AS x FROM visits LIMIT 1", "SELECT AVG(nights) AS x FROM visits"),
    (
        "SELECT DISTINCT ward, PERCENTILE_CONT(nights, 0.5) OVER (PARTITION BY ward) AS m FROM visits ORDER BY m",
        "SELECT ward, MEDIAN(nights) AS m FROM visits GROUP BY ward ORDER BY m",
    ),
    (
        "SELECT p.* FROM (SELECT urgent, ward, nights FROM visits) PIVOT (SUM(nights) FOR ward IN ('surgery' AS s, 'oncology')) AS p",
        "SELECT * FROM (SELECT urgent, SUM(nights) FILTER (WHERE ward = 'surgery') AS s, SUM(nights) FILTER (WHERE ward = "
        "'oncology') AS oncology FROM visits GROUP BY urgent)",
    ),
    (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = .5, delta = .01) COUNT(*) FROM visits",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.5, delta = 0.01) COUNT(*) FROM visits",
    ),
    (
        "SELECT COUNT(*) FROM visits WHERE seen < '2024-01-01T10:00:00Z'",
        "SELECT COUNT(*) FROM visits WHERE seen < '2024-01-01 10:00:00'",
    ),
    (
        "SELECT TO_CHAR(seen, 'YYYY-MM') AS m, COUNT(*) FROM visits GROUP BY 1",
        "SELECT STRFTIME(seen, '%Y-%m') AS m, COUNT(*) FROM visits GROUP BY 1",
    ),
    (
        "SELECT COUNT(*) FROM visits WHERE TIMESTAMP_SUB(seen, INTERVAL 3 DAY) > '2023-01-01'",
        "SELECT COUNT(*) FROM visits WHERE DATE_SUB(seen, INTERVAL 3 DAY) > '2023-01-01'",
    ),
    # names between backticks
    (
        "SELECT `v`.`ward`, COUNT(*) AS `how many` FROM `main.visits` AS v GROUP BY `v`.`ward` ORDER BY `how many`",
        'SELECT v.ward, COUNT(*) AS "how many" FROM visits v GROUP BY v.ward ORDER BY "how many"',
    ),
    # units without quotes
    (
        "SELECT DATEPART(month, seen) AS m, COUNT(*) FROM visits GROUP BY DATEPART(month, seen)",
        "SELECT EXTRACT(month FROM seen) AS m, COUNT(*) FROM visits GROUP BY EXTRACT(month FROM seen)",
    ),
    (
        "SELECT AVG(DATEDIFF(day, admitted, DATE '2024-12-31')) FROM visits",
        "SELECT AVG(DATE_DIFF('day', admitted, DATE '2024-12-31')) FROM visits",
    ),
    (
        "SELECT AVG(DATE_DIFF(DATE '2024-12-31', admitted, DAY)) FROM visits",
        "SELECT AVG(DATE_DIFF('day', admitted, DATE '2024-12-31')) FROM visits",
    ),
    (
        "SELECT AVG(DATEDIFF(DATE '2024-12-31', admitted)) FROM visits",
        "SELECT AVG(DATE_DIFF('day', admitted, DATE '2024-12-31')) FROM visits",
    ),
    (
        "SELECT DATE_TRUNC(DATE(seen), MONTH) AS m, COUNT(*) FROM visits GROUP BY m",
        "SELECT DATE_TRUNC('month', CAST(seen AS DATE)) AS m, COUNT(*) FROM visits GROUP BY m",
    ),
    (
        "SELECT ward, urgent, COUNT(*) AS n FROM visits GROUP BY ALL ORDER BY ALL DESC",
        "SELECT ward, urgent, COUNT(*) AS n FROM visits GROUP BY 1, 2 ORDER BY 1 DESC, 2 DESC, 3 DESC",
    ),
    (
        "SELECT SAFE_CAST(cost AS INT64) // 500 AS p, COUNT(*) FROM visits GROUP BY p",
        "SELECT TRY_CAST(cost AS BIGINT) // 500 AS p, COUNT(*) FROM visits GROUP BY p",
    ),
    (
        "SELECT DATETRUNC(isoweek, seen) AS m, COUNT(*) FROM visits GROUP BY m",
        "SELECT DATE_TRUNC('week', seen) AS m, COUNT(*) FROM visits GROUP BY m",
    ),
    (
        "SELECT COUNT(*) FROM visits WHERE EOMONTH(admitted) < DATEFROMPARTS(2022, 3, 1)",
        "SELECT COUNT(*) FROM visits WHERE LAST_DAY(admitted) < MAKE_DATE(2022, 3, 1)",
    ),
    (
        "SELECT SUM(CLAMP(IIF(urgent, IFNULL(nights, 0), CHARINDEX('a', note)), 0, 9)) AS s FROM visits",
        "SELECT SUM(CLAMP(IF(urgent, COALESCE(nights, 0), STRPOS(note, 'a')), 0, 9)) AS s FROM visits",
    ),
    # BigQuery
    (
        f"{_OPTIONS} ANON_COUNT(*) AS n FROM visits",
        f"{_OPTIONS} COUNT(*) AS n FROM visits",
    ),
    (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, max_groups_contributed = 2) ward, ANON_SUM(cost, contribution_bounds_per_group => (0, 100)) AS x FROM visits GROUP BY ward",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, max_groups_contributed = 2) ward, SUM(cost, contribution_bounds_per_group => (0, 100)) AS x FROM visits GROUP BY ward",
    ),
    (
        "SELECT ANON_AVG(score, contribution_bounds_per_group => (-1, 100)) AS x FROM visits",
        "SELECT AVG(score, contribution_bounds_per_group => (-1, 100)) AS x FROM visits",
    ),
    (
        "SELECT ANON_VAR_POP(cost) AS v, ANON_STDDEV_POP(cost) AS s FROM visits",
        "SELECT VAR_POP(cost) AS v, STDDEV_POP(cost) AS s FROM visits",
    ),
    (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, privacy_unit_column = patient_id) COUNT(*) FROM visits",
        f"{_OPTIONS} COUNT(*) FROM visits",
    ),
    (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(privacy_unit_column = visits.patient_id, epsilon = 1) COUNT(*) FROM visits",
        f"{_OPTIONS} COUNT(*) FROM visits",
    ),
    (
        'SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, privacy_unit_column = v."Patient_ID") COUNT(*) FROM visits v',
        f"{_OPTIONS} COUNT(*) FROM visits",
    ),
    # names of the SELECT list
    (
        "SELECT ward, SUM(cost) AS cost FROM visits GROUP BY ward HAVING cost > 100",
        "SELECT ward, SUM(cost) AS cost FROM visits GROUP BY ward HAVING SUM(cost) > 100",
    ),
    (
        "SELECT ward, AVG(cost) AS cost, cost * 2 AS twice FROM visits GROUP BY ward",
        "SELECT ward, AVG(cost) AS cost, AVG(cost) * 2 AS twice FROM visits GROUP BY ward",
    ),
    (
        "SELECT upper(ward) AS ward, COUNT(*) AS n FROM visits GROUP BY ward HAVING ward <> 'surgery'",
        "SELECT upper(v.ward) AS ward, COUNT(*) AS n FROM visits v GROUP BY v.ward HAVING v.ward <> 'surgery'",
    ),
    # stars over released results
    (f"SELECT * FROM ({_WARDS})", f"SELECT ward, n FROM ({_WARDS})"),
    (
        f"WITH t AS ({_WARDS}) SELECT t.*, n * 2 AS m FROM t WHERE n > 3",
        f"WITH t AS ({_WARDS}) SELECT ward, n, n * 2 AS m FROM t WHERE n > 3",
    ),
    (f"SELECT * EXCLUDE (n) FROM ({_WARDS})", f"SELECT ward FROM ({_WARDS})"),
    # commas: the equality of WHERE is the condition of the join
    (
        "SELECT COUNT(*) FROM visits v, patients p WHERE p.id = v.patient_id AND p.sex = 'F'",
        "SELECT COUNT(*) FROM visits v JOIN patients p ON p.id = v.patient_id WHERE p.id = v.patient_id AND p.sex = 'F'",
    ),
    (
        "SELECT COUNT(*) FROM patients p, wards w, visits v WHERE p.id = v.patient_id AND w.ward = v.ward",
        "SELECT COUNT(*) FROM patients p JOIN visits v ON p.id = v.patient_id JOIN wards w ON w.ward = v.ward WHERE p.id = v.patient_id AND w.ward = v.ward",
    ),
    (
        "SELECT COUNT(*) FROM wards w CROSS JOIN patients p CROSS JOIN visits v WHERE p.id = v.patient_id AND (w.ward = v.ward)",
        "SELECT COUNT(*) FROM wards w JOIN visits v ON w.ward = v.ward JOIN patients p ON p.id = v.patient_id WHERE p.id = v.patient_id AND w.ward = v.ward",
    ),
    (
        "SELECT COUNT(*) FROM visits v, wards w WHERE (w.ward = v.ward AND w.floor > 3) OR (v.cost > 9 AND w.ward = v.ward)",
        "SELECT COUNT(*) FROM visits v JOIN wards w ON w.ward = v.ward WHERE (w.ward = v.ward AND w.floor > 3) OR (v.cost > 9 AND w.ward = v.ward)",
    ),
)

#: A comma between protected tables that nothing connects, and commas that would multiply one person's rows.
UNCONNECTED: tuple[tuple[str, str], ...] = (
    ("join", "SELECT COUNT(*) FROM visits v, patients p"),
    ("join", "SELECT COUNT(*) FROM visits v, patients p WHERE p.id > v.patient_id"),
    ("join", "SELECT COUNT(*) FROM visits v, patients p WHERE p.id = v.patient_id OR p.sex = 'F'"),
    ("join", "SELECT COUNT(*) FROM visits v, patients p WHERE NOT (p.id = v.patient_id)"),
    ("join", "SELECT COUNT(*) FROM visits v, patients p WHERE (p.id = v.patient_id) IS NULL"),
)
