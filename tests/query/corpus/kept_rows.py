"""Queries in which an outer join keeps the rows of a public table, accepted and refused."""

from __future__ import annotations

from dataclasses import replace

from query.corpus.clinic import CATALOG, WARDS
from tacit.query.catalog import Catalog

__all__ = ["DECLARED", "KEPT", "KEPT_REFUSED", "LISTED"]

#: The clinic, with the values of a public column that an engine would read from it.
LISTED = Catalog(
    tuple(
        replace(table, columns=(replace(table.columns[0], categories=(*WARDS, "elsewhere")), *table.columns[1:]))
        if table.name == "wards"
        else table
        for table in CATALOG.tables
    ),
    CATALOG.populations,
)
_LEFT = "FROM wards w LEFT JOIN visits v ON v.ward = w.ward"

KEPT: tuple[str, ...] = (
    f"SELECT w.ward, COUNT(v.visit_id) AS n {_LEFT} GROUP BY w.ward",
    f"SELECT w.floor, COUNT(v.visit_id) AS n {_LEFT} GROUP BY w.floor",
    f"SELECT w.ward, w.floor, COUNT(v.visit_id) AS n, SUM(v.nights) AS s {_LEFT} GROUP BY w.ward, w.floor",
    f"SELECT w.ward, COUNT(v.visit_id) AS n {_LEFT} WHERE w.floor > 1 GROUP BY w.ward",
    f"SELECT w.floor, COUNT(DISTINCT v.patient_id) AS people {_LEFT} AND v.urgent GROUP BY w.floor",
    f"SELECT UPPER(w.ward) AS k, COUNT(v.visit_id) AS n {_LEFT} GROUP BY 1 ORDER BY k",
    f"SELECT w.ward, SUM(CASE WHEN v.urgent THEN 1 ELSE 0 END) AS urgent {_LEFT} GROUP BY w.ward",
    f"SELECT w.ward, COUNT(*) FILTER (WHERE v.urgent) AS urgent {_LEFT} GROUP BY w.ward",
    f"SELECT COUNT(v.visit_id) AS n {_LEFT}",
    f"SELECT w.floor, COUNT(p.id) AS n {_LEFT} LEFT JOIN patients p ON p.id = v.patient_id GROUP BY w.floor",
    "SELECT ward, COUNT(visit_id) AS n FROM wards LEFT JOIN visits USING (ward) GROUP BY ward",
    "SELECT w.ward, COUNT(v.visit_id) AS n FROM visits v RIGHT JOIN wards w ON v.ward = w.ward GROUP BY w.ward",
    "SELECT g.ward, COUNT(v.visit_id) AS n FROM visits v RIGHT JOIN (VALUES ('surgery'), ('attic')) g(ward) "
    "ON v.ward = g.ward GROUP BY g.ward",
    "WITH g(ward) AS (VALUES ('surgery'), ('attic')) SELECT g.ward, COUNT(v.visit_id) AS n FROM g "
    "LEFT JOIN visits v ON v.ward = g.ward GROUP BY g.ward",
    "SELECT m.low, COUNT(v.visit_id) AS n FROM (VALUES (0, 5), (5, 10), (200, 300)) m(low, high) "
    "LEFT JOIN visits v ON v.nights >= m.low AND v.nights < m.high GROUP BY m.low",
    f"SELECT t.ward, t.n, t.n * 1.0 / (SELECT COUNT(*) FROM visits) AS share FROM "
    f"(SELECT w.ward, COUNT(v.visit_id) AS n {_LEFT} GROUP BY w.ward) t",
)

#: Those whose keys are declared, and not read from the table.
DECLARED: tuple[str, ...] = tuple(sql for sql in KEPT if "SELECT w.floor, COUNT" in sql or "VALUES" in sql)

#: The query, words of the refusal, and the nearest query that is accepted.
KEPT_REFUSED: tuple[tuple[str, str, str], ...] = (
    (
        f"SELECT w.ward, COUNT(*) AS n {_LEFT} GROUP BY w.ward",
        r"COUNT\(\*\) would take in the public rows",
        f"SELECT w.ward, COUNT(v.visit_id) AS n {_LEFT} GROUP BY w.ward",
    ),
    (
        f"SELECT w.ward, SUM(w.beds) AS n {_LEFT} GROUP BY w.ward",
        "SUM would take in",
        "SELECT w.ward, SUM(w.beds) AS n FROM wards w JOIN visits v ON v.ward = w.ward GROUP BY w.ward",
    ),
    (
        f"SELECT w.ward, COUNT(COALESCE(v.nights, w.beds)) AS n {_LEFT} GROUP BY w.ward",
        "would take in",
        f"SELECT w.ward, COUNT(v.nights) AS n {_LEFT} GROUP BY w.ward",
    ),
    (
        f"SELECT w.ward, COUNT(*) FILTER (WHERE v.urgent IS NULL) AS n {_LEFT} GROUP BY w.ward",
        r"COUNT\(\*\) would take in",
        f"SELECT w.ward, COUNT(v.visit_id) FILTER (WHERE v.urgent IS NULL) AS n {_LEFT} GROUP BY w.ward",
    ),
    (
        f"SELECT v.urgent, COUNT(v.visit_id) AS n {_LEFT} GROUP BY v.urgent",
        "which have no 'urgent'",
        "SELECT v.urgent, COUNT(v.visit_id) AS n FROM wards w JOIN visits v ON v.ward = w.ward GROUP BY v.urgent",
    ),
    (
        f"SELECT COUNT(ward) AS n FROM (SELECT w.ward {_LEFT}) s",
        "aggregate in the same SELECT",
        f"SELECT COUNT(v.visit_id) AS n {_LEFT}",
    ),
    (
        f"SELECT AVG(n) AS m FROM (SELECT v.patient_id, COUNT(*) AS n {_LEFT} GROUP BY v.patient_id) s",
        "aggregate in the same SELECT",
        "SELECT AVG(n) AS m FROM (SELECT v.patient_id, COUNT(*) AS n FROM visits v JOIN wards w ON v.ward = w.ward "
        "GROUP BY v.patient_id) s",
    ),
    (
        "SELECT w.ward, COUNT(v.visit_id) AS n FROM wards w FULL JOIN visits v ON v.ward = w.ward GROUP BY w.ward",
        "keeps rows of both",
        f"SELECT w.ward, COUNT(v.visit_id) AS n {_LEFT} GROUP BY w.ward",
    ),
    (
        f"SELECT w.floor, COUNT(p.id) AS n {_LEFT} RIGHT JOIN patients p ON p.id = v.patient_id GROUP BY w.floor",
        "cannot be followed by a RIGHT",
        f"SELECT w.floor, COUNT(p.id) AS n {_LEFT} LEFT JOIN patients p ON p.id = v.patient_id GROUP BY w.floor",
    ),
)
