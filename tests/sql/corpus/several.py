"""Questions with several released parts, and questions of that kind that are refused."""

from __future__ import annotations

from pathlib import Path

__all__ = ["SEVERAL", "SEVERAL_REFUSED"]

#: One per line of ``several.sql``.
SEVERAL: tuple[str, ...] = tuple(
    line for line in Path(__file__).with_name("several.sql").read_text(encoding="utf-8").splitlines() if line.strip()
)

_WARDS = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"

#: The code, the question, and the nearest question that is accepted.
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
        "SELECT COUNT(*) FROM visits INTERSECT SELECT COUNT(*) FROM patients",
        "SELECT COUNT(*) FROM visits UNION SELECT COUNT(*) FROM patients",
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
        "ambiguous_column",
        f"SELECT n FROM ({_WARDS}) a JOIN ({_WARDS}) b ON a.ward = b.ward",
        f"SELECT a.n FROM ({_WARDS}) a JOIN ({_WARDS}) b ON a.ward = b.ward",
    ),
    (
        "type",
        f"SELECT a.n FROM ({_WARDS}) a JOIN (SELECT COUNT(*) AS n FROM patients) b ON a.ward = b.n",
        f"SELECT a.n FROM ({_WARDS}) a JOIN (SELECT COUNT(*) AS n FROM patients) b ON a.n = b.n",
    ),
)
