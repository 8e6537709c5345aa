"""Queries with several released parts, and queries of that kind that are refused."""

from __future__ import annotations

from pathlib import Path

__all__ = ["FORMS", "SEVERAL", "SEVERAL_REFUSED", "VALUED"]


def _lines(name: str) -> tuple[str, ...]:
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    return tuple(line for line in text.splitlines() if line.strip())


SEVERAL: tuple[str, ...] = _lines("several.sql")
#: One query of each form: totals, released values, picks inside a person, sessions, frames, correlation, quantiles.
FORMS: tuple[str, ...] = _lines("forms.sql")

#: A value is released first, and rows of another part are compared with it.
VALUED: tuple[str, ...] = (
    "SELECT COUNT(*) AS n FROM visits WHERE cost > (SELECT AVG(cost) FROM visits)",
    "SELECT ward, COUNT(*) AS n FROM visits WHERE nights > (SELECT AVG(nights) FROM visits WHERE urgent) GROUP BY ward",
    "WITH m AS (SELECT AVG(cost) AS c FROM visits) "
    "SELECT COUNT(*) AS n, (SELECT c FROM m) AS mean FROM visits WHERE cost > (SELECT c FROM m)",
    "SELECT COUNT(*) AS n FROM visits WHERE ward = (SELECT ward FROM (SELECT ward, COUNT(*) AS n FROM visits "
    "WHERE ward IS NOT NULL GROUP BY ward) s ORDER BY n DESC, ward LIMIT 1)",
    "SELECT COUNT(*) AS n FROM visits WHERE nights > (SELECT AVG(nights) FROM visits WHERE nights > "
    "(SELECT AVG(nights) FROM visits))",
    "SELECT COUNT(*) AS n FROM visits WHERE nights > (SELECT COUNT(*) FROM patients)",
    "SELECT SUM(CLAMP(nights - (SELECT COUNT(*) FROM patients), -100, 100)) AS d FROM visits",
    "SELECT COUNT(*) AS n FROM (SELECT patient_id, SUM(nights) AS s FROM visits GROUP BY patient_id "
    "HAVING SUM(nights) > (SELECT AVG(nights) FROM visits)) t",
    "SELECT COUNT(*) AS n FROM visits WHERE nights > (SELECT n FROM (SELECT COUNT(*) AS n FROM visits) s WHERE n < 0)",
    "SELECT COUNT(*) FILTER (WHERE nights > (SELECT AVG(nights) FROM visits)) AS more FROM visits",
    "SELECT CASE WHEN nights > (SELECT AVG(nights) FROM visits) THEN 'long' ELSE 'short' END AS k, COUNT(*) AS n "
    "FROM visits GROUP BY 1",
    "SELECT (SELECT COUNT(*) FROM visits WHERE cost > (SELECT AVG(cost) FROM visits)) * 1.0 / "
    "(SELECT COUNT(*) FROM visits) AS share",
    # Rows that are released first, and rows of persons joined with them.
    "WITH m AS (SELECT ward, AVG(nights) AS mean FROM visits GROUP BY ward) "
    "SELECT COUNT(*) AS n FROM visits v JOIN m ON m.ward = v.ward WHERE v.nights > m.mean",
    "WITH m AS (SELECT ward, AVG(nights) AS mean FROM visits GROUP BY ward) "
    "SELECT ward, COUNT(*) AS n FROM visits v JOIN m USING (ward) WHERE v.nights > m.mean GROUP BY ward",
    "SELECT SUM(CLAMP(v.nights - m.mean, -60, 60)) AS d FROM visits v LEFT JOIN (SELECT urgent, AVG(nights) AS mean "
    "FROM visits GROUP BY urgent) m ON m.urgent = v.urgent",
    "SELECT COUNT(*) AS n FROM visits WHERE ward IN (SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 3)",
    "SELECT COUNT(*) AS n FROM visits WHERE ward NOT IN (SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 3)",
    "SELECT COUNT(*) AS n FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) s, visits v "
    "WHERE s.ward = v.ward AND v.nights > s.n",
    "SELECT s.ward, AVG(nights) AS a FROM visits v JOIN (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward "
    "ORDER BY n DESC, ward LIMIT 2) s ON s.ward = v.ward GROUP BY s.ward",
    "SELECT COUNT(*) AS n FROM visits v SEMI JOIN (SELECT ward FROM visits GROUP BY ward HAVING AVG(nights) > 1) s "
    "ON s.ward = v.ward",
    "SELECT COUNT(*) AS n FROM visits v JOIN (SELECT ward, COUNT(*) AS n FROM visits WHERE ward IS NOT NULL GROUP BY ward) s "
    "ON v.nights > s.n",
    "SELECT COUNT(*) AS n FROM patients p JOIN visits v ON v.patient_id = p.id JOIN (SELECT sex, AVG(nights) AS mean "
    "FROM visits JOIN patients ON patient_id = id GROUP BY sex) m ON m.sex = p.sex WHERE v.nights > m.mean",
)

_WARDS = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"

#: The code, the query, and the nearest query that is accepted.
SEVERAL_REFUSED: tuple[tuple[str, str, str], ...] = (
    (
        "population",
        "SELECT COUNT(*) AS n FROM visits UNION ALL SELECT COUNT(*) FROM staff",
        "SELECT COUNT(*) AS n FROM visits UNION ALL SELECT COUNT(*) FROM patients",
    ),
    (
        "population",
        "SELECT (SELECT COUNT(*) FROM visits) - (SELECT COUNT(*) FROM staff) AS d",
        "SELECT (SELECT COUNT(*) FROM visits) - (SELECT COUNT(*) FROM patients) AS d",
    ),
    (
        "population",
        "SELECT SUM(nights) - (SELECT MAX(salary) FROM staff) FROM visits",
        "SELECT SUM(nights) - (SELECT MAX(nights) FROM visits) FROM visits",
    ),
    (
        "population",
        f"SELECT a.n, b.n AS m FROM ({_WARDS}) a CROSS JOIN (SELECT COUNT(*) AS n FROM staff) b",
        f"SELECT a.n, b.n AS m FROM ({_WARDS}) a CROSS JOIN (SELECT COUNT(*) AS n FROM patients) b",
    ),
    (
        "several_aggregations",
        f"{_WARDS} UNION ALL SELECT ward, nights FROM visits",
        f"{_WARDS} UNION ALL SELECT ward, SUM(nights) FROM visits GROUP BY ward",
    ),
    (
        "union",
        "SELECT COUNT(*) AS n FROM visits UNION ALL SELECT sex, COUNT(*) FROM patients GROUP BY sex",
        "SELECT 'all' AS k, COUNT(*) AS n FROM visits UNION ALL SELECT sex, COUNT(*) FROM patients GROUP BY sex",
    ),
    (
        "union",
        "SELECT COUNT(*) AS n FROM visits UNION ALL SELECT MIN(admitted) FROM visits",
        "SELECT COUNT(*) AS n FROM visits UNION ALL SELECT SUM(nights) FROM visits",
    ),
    (
        "subquery",
        f"SELECT (SELECT n FROM ({_WARDS}) s) AS n",
        f"SELECT (SELECT n FROM ({_WARDS}) s ORDER BY n DESC LIMIT 1) AS n",
    ),
    (
        "subquery",
        "SELECT (SELECT ward, COUNT(*) FROM visits GROUP BY ward LIMIT 1) AS n",
        "SELECT (SELECT COUNT(*) FROM visits) AS n",
    ),
    (
        "set_operation",
        "SELECT ward, COUNT(*) FROM visits GROUP BY ward INTERSECT SELECT sex, COUNT(*) FROM patients GROUP BY sex",
        "SELECT ward FROM visits GROUP BY ward INTERSECT SELECT sex FROM patients GROUP BY sex",
    ),
    (
        "set_operation",
        "SELECT COUNT(*) FROM visits EXCEPT SELECT COUNT(*) FROM patients",
        "SELECT COUNT(*) FROM visits UNION ALL SELECT COUNT(*) FROM patients",
    ),
    (
        "too_large",
        " UNION ALL ".join(f"SELECT COUNT(*) AS n FROM visits WHERE nights = {i}" for i in range(25)),
        "SELECT nights, COUNT(*) AS n FROM visits WHERE nights < 25 GROUP BY nights",
    ),
    (
        "population",
        "SELECT COUNT(*) AS n FROM visits WHERE nights > (SELECT AVG(salary) FROM staff)",
        "SELECT COUNT(*) AS n FROM visits WHERE nights > (SELECT AVG(nights) FROM visits)",
    ),
    (
        "subquery",
        "SELECT COUNT(*) AS n FROM visits WHERE nights > (SELECT n - (SELECT MAX(beds) FROM wards) AS d FROM "
        "(SELECT COUNT(*) AS n FROM patients) s)",
        "SELECT COUNT(*) AS n FROM visits WHERE nights > (SELECT n FROM (SELECT COUNT(*) AS n FROM patients) s) - "
        "(SELECT MAX(beds) FROM wards)",
    ),
    (
        "subquery",
        "SELECT COUNT(*) AS n FROM visits WHERE nights > (SELECT DP_INTERVAL_LOW(m) AS low FROM "
        "(SELECT COUNT(*) AS m FROM patients) s)",
        "SELECT COUNT(*) AS n FROM visits WHERE nights > (SELECT COUNT(*) AS m FROM patients)",
    ),
    (
        "ambiguous_column",
        f"SELECT n FROM ({_WARDS}) a JOIN ({_WARDS}) b ON a.ward = b.ward",
        f"SELECT a.n FROM ({_WARDS}) a JOIN ({_WARDS}) b ON a.ward = b.ward",
    ),
    (
        "type",
        f"SELECT a.n FROM ({_WARDS}) a JOIN (SELECT COUNT(*) AS n FROM patients) b ON a.n = DATE '2024-01-01'",
        f"SELECT a.n FROM ({_WARDS}) a JOIN (SELECT COUNT(*) AS n FROM patients) b ON a.n = b.n",
    ),
)
