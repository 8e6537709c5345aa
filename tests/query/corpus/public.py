"""Queries about public tables alone: answered exactly, and free. A ! begins one whose rows have an order."""

from __future__ import annotations

__all__ = ["ORDERED", "PUBLIC"]

_TEXT = """
SELECT * FROM wards
SELECT ward, beds FROM wards WHERE floor >= 2
SELECT COUNT(*) FROM wards
SELECT COUNT(*), COUNT(ward), COUNT(DISTINCT ward) FROM wards
SELECT floor, SUM(beds) FROM wards GROUP BY floor
SELECT floor % 2 AS odd, SUM(beds) AS beds, MIN(beds), MAX(beds) FROM wards GROUP BY floor % 2
SELECT floor % 2 AS odd, SUM(beds) AS beds FROM wards GROUP BY ALL HAVING SUM(beds) > 40
SELECT AVG(beds), MEDIAN(beds) FROM wards
SELECT STDDEV(beds), VAR_POP(beds) FROM wards
SELECT COUNT(*) FILTER (WHERE beds > 10) AS large FROM wards
SELECT 1
SELECT 1 + 1 AS two, 'a' || 'b' AS ab, TRUE AS yes
SELECT COUNT(*)
SELECT 1 AS n UNION ALL SELECT 2
SELECT * FROM (VALUES (1), (2)) t(n)
SELECT n * n AS squares FROM (VALUES (1), (2), (3)) t(n) WHERE n > 1
SELECT * FROM GENERATE_SERIES(1, 5) t(n)
SELECT COUNT(*) FROM wards WHERE beds > (SELECT AVG(beds) FROM wards)
SELECT (SELECT MAX(beds) FROM wards) AS most
SELECT ward, beds - (SELECT MIN(beds) FROM wards) AS more FROM wards
SELECT DISTINCT ward FROM wards
SELECT ward FROM wards UNION SELECT 'chapel'
SELECT ward FROM wards EXCEPT SELECT 'surgery'
SELECT ward FROM wards UNION ALL SELECT ward FROM wards
SELECT a.ward, b.ward AS above FROM wards a JOIN wards b ON b.floor = a.floor + 1
SELECT a.ward, b.ward AS above FROM wards a LEFT JOIN wards b ON b.floor = a.floor + 1
SELECT a.ward, b.beds FROM wards a FULL JOIN (SELECT * FROM wards WHERE beds > 10) b ON a.floor = b.floor
SELECT ward FROM wards w WHERE EXISTS (SELECT 1 FROM wards x WHERE x.floor > w.floor)
SELECT ward FROM wards WHERE floor IN (SELECT floor FROM wards WHERE beds >= 20)
SELECT ward FROM wards WHERE floor NOT IN (SELECT floor FROM wards WHERE beds >= 20)
SELECT COALESCE(ward, 'none') AS ward, CASE WHEN beds >= 20 THEN 'large' ELSE 'small' END AS size FROM wards
SELECT UPPER(ward) AS w, LENGTH(ward) AS n FROM wards WHERE ward LIKE '%o%'
SELECT AVG(beds) FROM (SELECT beds FROM wards ORDER BY beds DESC LIMIT 2)
SELECT SUM(beds) FROM (SELECT beds FROM wards ORDER BY beds LIMIT 2 OFFSET 1)
WITH top AS (SELECT floor, beds FROM wards ORDER BY beds DESC LIMIT 3) SELECT COUNT(*), SUM(beds) FROM top
SELECT COUNT(*) FROM wards WHERE floor IN (SELECT floor FROM wards ORDER BY beds DESC LIMIT 2)
SELECT ward, (SELECT floor FROM wards ORDER BY beds DESC LIMIT 1) AS highest FROM wards
SELECT floor, RANK() OVER (ORDER BY beds DESC) AS place FROM wards
SELECT floor, SUM(beds) OVER (ORDER BY floor) AS so_far FROM wards
SELECT floor, LAG(beds) OVER (ORDER BY floor) AS below FROM wards
SELECT floor, beds FROM wards QUALIFY ROW_NUMBER() OVER (ORDER BY beds DESC) <= 2
SELECT MAX(n) FROM (SELECT ward, COUNT(*) AS n FROM wards GROUP BY ward)
SELECT w.floor, s.total FROM wards w, (SELECT SUM(beds) AS total FROM wards) s
SELECT DATE '2024-03-31' + INTERVAL 1 DAY AS next, EXTRACT(year FROM DATE '2024-03-31') AS year
SELECT DATE_TRUNC('month', d) AS month, COUNT(*) AS days FROM GENERATE_SERIES(DATE '2024-01-30', DATE '2024-02-02', INTERVAL 1 DAY) t(d) GROUP BY 1
SELECT ROUND(AVG(beds), 1) AS mean FROM wards
! SELECT * FROM wards ORDER BY beds DESC
! SELECT floor, beds FROM wards ORDER BY beds DESC LIMIT 2
! SELECT floor FROM wards ORDER BY floor LIMIT 2 OFFSET 2
! SELECT floor FROM wards ORDER BY -beds
! SELECT ward, COUNT(*) AS n FROM wards GROUP BY ward ORDER BY n DESC, ward NULLS FIRST
! SELECT ward, SUM(beds) FROM wards GROUP BY ward ORDER BY SUM(beds) DESC LIMIT 1
! SELECT DISTINCT floor % 2 AS odd FROM wards ORDER BY odd DESC
! SELECT floor FROM wards UNION ALL SELECT 10 ORDER BY 1 DESC LIMIT 3
! SELECT floor AS f FROM wards UNION SELECT 1 ORDER BY f
! SELECT floor AS f FROM wards INTERSECT SELECT beds - 9 FROM wards ORDER BY f DESC LIMIT 2
! SELECT ward, floor FROM wards ORDER BY 1 NULLS FIRST, 2
! SELECT n FROM GENERATE_SERIES(10, 1, -3) t(n) ORDER BY n DESC
! WITH w AS (SELECT * FROM wards WHERE ward IS NOT NULL) SELECT ward, beds FROM w ORDER BY beds FETCH FIRST 2 ROWS ONLY
! SELECT floor FROM wards ORDER BY floor DESC FETCH FIRST 2 ROWS ONLY
"""
_LINES = [line for line in _TEXT.splitlines() if line]
#: Those whose order is stated; the others come sorted by their columns.
ORDERED = tuple(line[2:] for line in _LINES if line.startswith("! "))
PUBLIC = (*(line for line in _LINES if not line.startswith("! ")), *ORDERED)
