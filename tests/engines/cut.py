"""A catalog in which persons enter multiplying joins with three rows, and queries that multiply."""

from __future__ import annotations

from dataclasses import replace

from engines import clinic
from tacit.query.catalog import Catalog

__all__ = ["CATALOG", "MOST", "QUERIES"]

MOST = 3
CATALOG = Catalog(
    tuple(
        table if table.public else replace(table, unit_rows=MOST, max_rows=100, max_groups=9)
        for table in clinic.CATALOG.tables
    ),
    clinic.CATALOG.populations,
)
QUERIES = (
    "SELECT COUNT(*), SUM(a.cost), SUM(b.level) FROM visits a JOIN visits b ON a.patient_id = b.patient_id",
    "SELECT a.ward, COUNT(*) FROM visits a JOIN visits b USING (patient_id) WHERE a.admitted <= b.admitted GROUP BY 1",
    "SELECT a.note, COUNT(*) FROM visits a LEFT JOIN visits b ON a.patient_id = b.patient_id AND a.score < b.score "
    "GROUP BY 1",
    "SELECT COUNT(*), COUNT(a.cost), COUNT(b.cost) FROM visits a FULL JOIN visits b ON a.patient_id = b.patient_id "
    "AND a.ward <> b.ward",
    "SELECT COUNT(*), SUM(b.amount) FROM visits v JOIN bills b ON b.visit = v.visit_id JOIN visits w "
    "ON w.patient_id = v.patient_id",
    "SELECT v.ward, COUNT(*) FROM visits v JOIN (VALUES (1), (2), (7)) t(k) ON k <= v.level GROUP BY v.ward",
    "SELECT w.floor, COUNT(*), SUM(v.weight) FROM visits v CROSS JOIN wards w GROUP BY w.floor",
    "SELECT w.floor, COUNT(*) FROM wards w JOIN visits v ON v.ward = w.ward AND v.level >= w.floor GROUP BY w.floor",
    "SELECT COUNT(*) FROM visits v WHERE EXISTS "
    "(SELECT 1 FROM visits w WHERE w.patient_id = v.patient_id AND w.cost > v.cost)",
    "SELECT COUNT(*) FROM visits v WHERE v.level NOT IN "
    "(SELECT w.level + v.level FROM visits w WHERE w.patient_id = v.patient_id)",
    "SELECT COUNT(*), MEDIAN(a.score), COUNT(DISTINCT b.note) FROM visits a JOIN visits b USING (patient_id)",
    "SELECT AVG(n), COUNT(*) FROM (SELECT a.patient_id, COUNT(*) AS n FROM visits a JOIN visits b USING (patient_id) "
    "GROUP BY a.patient_id)",
    "SELECT SUM(CLAMP(r, 0, 99)) FROM (SELECT row_number() OVER (PARTITION BY a.patient_id ORDER BY a.cost, b.cost) AS r "
    "FROM visits a JOIN visits b USING (patient_id))",
    "SELECT COUNT(*) FROM (SELECT * FROM visits UNION ALL SELECT * FROM visits WHERE urgent) a "
    "JOIN visits b USING (patient_id)",
    "SELECT team, COUNT(*), SUM(points) FROM members JOIN (VALUES (1), (5), (5)) t(k) ON k <= points GROUP BY team",
    "SELECT COUNT(*) FROM members a JOIN members b ON a.name = b.name AND a.points <> b.points",
    "SELECT kind, COUNT(*) FROM events JOIN wards ON floor >= n % 3 GROUP BY kind",
)
