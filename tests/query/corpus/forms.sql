SELECT ward, urgent, GROUPING(urgent) AS g, COUNT(*) AS n, SUM(nights) AS s FROM visits GROUP BY CUBE (ward, urgent)
SELECT ward, EXTRACT(quarter FROM admitted) AS q, AVG(cost) AS a FROM visits GROUP BY GROUPING SETS ((ward, EXTRACT(quarter FROM admitted)), (ward), ())
SELECT ward, COUNT(*) AS n, COUNT(*) * 1.0 / (SELECT COUNT(*) FROM patients) AS share FROM visits GROUP BY ward
SELECT COUNT(*) AS n FROM visits WHERE nights > (SELECT AVG(nights) FROM visits WHERE urgent)
SELECT AVG(CLAMP(x, 0, 30)) AS a FROM (SELECT patient_id, ARG_MAX(nights, seen) AS x FROM visits GROUP BY patient_id) u
SELECT COUNT(*) AS n FROM (SELECT patient_id, nights AS x FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY seen, visit_id) <= 2) u WHERE x > 1
SELECT SUM(CLAMP(x, 0, 9)) AS a FROM (SELECT patient_id, FIRST_VALUE(nights) OVER (PARTITION BY patient_id ORDER BY visit_id) AS x FROM visits) u
SELECT AVG(CLAMP(x, 0, 20)) AS a FROM (SELECT patient_id, SUM(CASE WHEN b IS NULL OR seen > b + INTERVAL '1' DAY THEN 1 ELSE 0 END) AS x FROM (SELECT patient_id, seen, LAG(seen) OVER (PARTITION BY patient_id ORDER BY seen, visit_id) AS b FROM visits) s GROUP BY patient_id) u
SELECT q, AVG(n) OVER (ORDER BY q ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS m FROM (SELECT EXTRACT(quarter FROM admitted) AS q, COUNT(*) AS n FROM visits GROUP BY 1) t
SELECT ward, CORR(cost, nights) AS c, REGR_SLOPE(cost, nights) AS b FROM visits GROUP BY ward
SELECT urgent, QUANTILE_DISC(nights, 0.25) AS q, MEDIAN(cost) AS m FROM visits GROUP BY urgent
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (rho = 0.5, max_groups_contributed = 1) ward, nights // 10 AS d, COUNT(*) AS n, SUM(nights) AS s, AVG(cost) AS a FROM visits GROUP BY CUBE (ward, nights // 10)
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (rho = 0.25, max_groups_contributed = 2) ward, nights // 10 AS d, urgent, COUNT(*) AS n FROM visits GROUP BY GROUPING SETS ((ward), (nights // 10), (urgent))
