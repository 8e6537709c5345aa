SELECT (SELECT COUNT(*) FROM visits) * 1.0 / (SELECT COUNT(*) FROM patients) AS per_patient
SELECT (SELECT COUNT(*) FROM visits) - (SELECT COUNT(*) FROM visits WHERE urgent) AS calm
SELECT (SELECT COUNT(*) FROM visits) / (SELECT COUNT(*) FROM patients) AS r
SELECT (SELECT SUM(cost) FROM visits WHERE ward = 'surgery') - (SELECT SUM(cost) FROM visits WHERE ward = 'oncology') AS gap
SELECT COUNT(*) * 1.0 / (SELECT COUNT(*) FROM patients) AS per_patient FROM visits
SELECT ward, COUNT(*) AS n, COUNT(*) * 1.0 / (SELECT COUNT(*) FROM visits) AS share FROM visits GROUP BY ward
SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward HAVING COUNT(*) > (SELECT COUNT(*) FROM patients)
SELECT ward, COUNT(*) FROM visits GROUP BY ward HAVING COUNT(*) > (SELECT COUNT(*) FROM visits) ORDER BY ward
SELECT ward, AVG(nights) - (SELECT AVG(nights) FROM visits) AS above FROM visits GROUP BY ward
WITH t AS (SELECT COUNT(*) AS n FROM visits) SELECT n - (SELECT MAX(n) FROM t) AS nothing FROM t
WITH t AS (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) SELECT ward, n, n * 1.0 / (SELECT SUM(n) FROM t) AS share FROM t
WITH t AS (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) SELECT a.ward, a.n - b.n AS d FROM t a JOIN t b ON a.ward = b.ward
WITH s AS (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) SELECT a.n FROM s a JOIN s b USING (ward)
WITH t AS (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) SELECT COUNT(*) AS pairs FROM t a, t b WHERE a.ward < b.ward
SELECT a.ward, a.n, b.m FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) a JOIN (SELECT ward, SUM(cost) AS m FROM visits GROUP BY ward) b ON a.ward = b.ward
WITH now AS (SELECT ward, COUNT(*) AS n FROM visits WHERE EXTRACT(year FROM admitted) = 2023 GROUP BY ward), past AS (SELECT ward, COUNT(*) AS n FROM visits WHERE EXTRACT(year FROM admitted) = 2022 GROUP BY ward) SELECT now.ward, now.n AS this_year, past.n AS last_year, now.n - past.n AS more FROM now JOIN past USING (ward) ORDER BY ward
WITH y AS (SELECT EXTRACT(year FROM admitted) AS year, COUNT(*) AS n FROM visits GROUP BY 1) SELECT b.year, b.n, b.n - a.n AS more FROM y a JOIN y b ON b.year = a.year + 1 ORDER BY b.year
SELECT a.n, b.n AS m FROM (SELECT COUNT(*) AS n FROM visits) a CROSS JOIN (SELECT COUNT(*) AS n FROM patients) b
SELECT a.n FROM (SELECT COUNT(*) n FROM visits) a JOIN (SELECT COUNT(*) n FROM patients) b ON TRUE
SELECT a.n, b.n AS m FROM (SELECT COUNT(*) AS n FROM visits) a, (SELECT COUNT(*) AS n FROM prescriptions) b
SELECT u.ward, u.n, o.n AS others FROM (SELECT ward, COUNT(*) AS n FROM visits WHERE urgent AND ward IS NOT NULL GROUP BY ward) u FULL JOIN (SELECT ward, COUNT(*) AS n FROM visits WHERE nights > 3 AND ward IS NOT NULL GROUP BY ward) o ON u.ward = o.ward
SELECT COUNT(*) FROM visits UNION ALL SELECT COUNT(*) FROM patients
SELECT 'visits' AS what, COUNT(*) AS n FROM visits UNION ALL SELECT 'patients', COUNT(*) FROM patients UNION ALL SELECT 'prescriptions', COUNT(*) FROM prescriptions
SELECT 'urgent' AS what, COUNT(*) AS n FROM visits WHERE urgent UNION ALL SELECT 'calm', COUNT(*) FROM visits WHERE NOT urgent ORDER BY what LIMIT 2
SELECT ward AS k, COUNT(*) AS n FROM visits WHERE ward IS NOT NULL GROUP BY ward UNION ALL SELECT sex, COUNT(*) FROM patients WHERE sex IS NOT NULL GROUP BY sex
SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward UNION ALL SELECT 'all', COUNT(*) FROM visits UNION ALL SELECT 'none', 0
SELECT COUNT(*) AS n FROM visits WHERE nights > 2 UNION SELECT COUNT(*) FROM visits WHERE nights > 2
SELECT what, n FROM (SELECT 'a' AS what, COUNT(*) AS n FROM visits UNION ALL SELECT 'b', COUNT(*) FROM patients) s WHERE what = 'b'
SELECT SUM(n) AS total FROM (SELECT COUNT(*) AS n FROM visits UNION ALL SELECT COUNT(*) FROM patients) s
SELECT ward, beds * 1.0 / (SELECT COUNT(*) FROM patients) AS r FROM wards
SELECT SUM(beds) - (SELECT COUNT(*) FROM patients) AS spare FROM wards
SELECT CASE WHEN (SELECT COUNT(*) FROM visits) > (SELECT COUNT(*) FROM patients) THEN 'more' ELSE 'fewer' END AS word
WITH p AS (SELECT COUNT(*) AS people FROM patients), v AS (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) SELECT v.ward, v.n * 1000.0 / p.people AS rate FROM v CROSS JOIN p
WITH a AS (SELECT sex, COUNT(*) AS n FROM patients GROUP BY sex), b AS (SELECT p.sex, COUNT(*) AS n FROM visits v JOIN patients p ON p.id = v.patient_id GROUP BY p.sex) SELECT a.sex, b.n * 1.0 / a.n AS visits_each FROM a JOIN b ON a.sex = b.sex
WITH t AS (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) SELECT t.ward, t.n, w.beds, t.n * 1.0 / (SELECT SUM(n) FROM t) AS share FROM t JOIN wards w ON w.ward = t.ward
WITH t AS (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward), top AS (SELECT MAX(n) AS most FROM t) SELECT ward FROM t, top WHERE n = most
SELECT (SELECT ward FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) s ORDER BY n DESC, ward LIMIT 1) AS busiest
SELECT a.doctor, a.n, b.n AS urgent FROM (SELECT doctor, COUNT(*) AS n FROM visits GROUP BY doctor) a LEFT JOIN (SELECT doctor, COUNT(*) AS n FROM visits WHERE urgent GROUP BY doctor) b ON a.doctor = b.doctor
SELECT x.k, x.n FROM (SELECT ward AS k, COUNT(*) AS n FROM visits GROUP BY ward) x JOIN (SELECT COUNT(*) AS n FROM patients) y ON x.n > y.n
SELECT m.month, m.n, m.n * 1.0 / t.n AS share FROM (SELECT EXTRACT(month FROM admitted) AS month, COUNT(*) AS n FROM visits GROUP BY 1) m CROSS JOIN (SELECT COUNT(*) AS n FROM visits) t ORDER BY m.month
SELECT * FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) a JOIN (SELECT ward, SUM(nights) AS n FROM visits GROUP BY ward) b ON a.ward = b.ward
SELECT COUNT(*) AS n, (SELECT MAX(nights) FROM visits WHERE patient_id = 17) AS longest FROM visits
SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 2 INTERSECT SELECT ward FROM visits WHERE urgent GROUP BY ward HAVING COUNT(*) > 1
SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 2 EXCEPT SELECT ward FROM visits WHERE urgent GROUP BY ward HAVING COUNT(*) > 1 ORDER BY ward LIMIT 2
SELECT ward FROM wards EXCEPT SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 3
