SELECT COUNT(*) FROM visits WHERE ward NOT IN (SELECT ward FROM wards)
SELECT COUNT(*) FROM visits WHERE ward NOT IN (SELECT ward FROM wards WHERE ward IS NOT NULL)
SELECT COUNT(*) FROM visits WHERE (ward IN (SELECT ward FROM wards WHERE floor > 9)) IS NULL
SELECT COUNT(*) FROM visits WHERE NOT (ward IN (SELECT ward FROM wards WHERE floor = 1))
SELECT COUNT(*) FROM visits WHERE ward IN (SELECT ward FROM wards) IS NULL
SELECT doctor, COUNT(*) FROM patients p FULL JOIN visits v ON p.id = v.patient_id AND v.urgent GROUP BY doctor
SELECT city, COUNT(*), COUNT(v.cost), SUM(v.cost) FROM patients p LEFT JOIN visits v ON p.id = v.patient_id AND v.cost > 1000 GROUP BY city
SELECT city, COUNT(*), COUNT(p.weight) FROM visits v LEFT JOIN patients p ON p.id = v.patient_id GROUP BY city
SELECT COUNT(*), COUNT(id), COUNT(patient_id) FROM patients FULL JOIN visits ON id = patient_id
SELECT COUNT(*) FROM visits a LEFT JOIN visits b ON a.patient_id = b.patient_id AND a.visit_id < b.visit_id WHERE b.visit_id IS NULL
SELECT AVG(gap, contribution_bounds_per_row => (0, 2000)) FROM (SELECT date_diff('day', lag(admitted, 1) OVER (PARTITION BY patient_id ORDER BY visit_id), admitted) AS gap FROM visits)
SELECT AVG(x) FROM (SELECT lead(nights) OVER (PARTITION BY patient_id ORDER BY visit_id DESC) AS x FROM visits)
SELECT r, COUNT(*) FROM (SELECT row_number() OVER (PARTITION BY patient_id ORDER BY cost DESC NULLS LAST, visit_id) AS r FROM visits) GROUP BY r
SELECT r, d, COUNT(*) FROM (SELECT rank() OVER (PARTITION BY patient_id ORDER BY ward) AS r, dense_rank() OVER (PARTITION BY patient_id ORDER BY urgent NULLS FIRST) AS d FROM visits) GROUP BY r, d
SELECT n, m, COUNT(*) FROM (SELECT COUNT(cost) OVER (PARTITION BY patient_id) AS n, COUNT(*) OVER (PARTITION BY patient_id ORDER BY urgent) AS m FROM visits) GROUP BY n, m
SELECT lo, hi, COUNT(*) FROM (SELECT patient_id, MIN(note) AS lo, MAX(note) AS hi FROM visits GROUP BY patient_id) GROUP BY lo, hi
SELECT a, b, COUNT(*) FROM (SELECT patient_id, BOOL_AND(urgent) a, BOOL_OR(urgent) b FROM visits GROUP BY 1) GROUP BY a, b
SELECT k, COUNT(*) FROM (SELECT patient_id, COUNT(DISTINCT note) k FROM visits GROUP BY 1) GROUP BY k
SELECT k, COUNT(*) FROM (SELECT patient_id, SUM(points) FILTER (WHERE urgent) k FROM visits GROUP BY 1) GROUP BY k
SELECT k, COUNT(*) FROM (SELECT patient_id, SUM(cost) k FROM visits GROUP BY 1) GROUP BY k
SELECT CAST(k * 10 AS INTEGER) AS z, COUNT(*) FROM (SELECT patient_id, AVG(points) k FROM visits GROUP BY 1) GROUP BY z
SELECT CAST(k * 100 AS INTEGER) AS z, COUNT(*) FROM (SELECT patient_id, VAR_POP(nights) k FROM visits GROUP BY 1) GROUP BY z
SELECT CAST(k * 100 AS INTEGER) AS z, COUNT(*) FROM (SELECT patient_id, STDDEV(nights) k FROM visits GROUP BY 1) GROUP BY z
SELECT k, COUNT(*) FROM (SELECT patient_id, MAX(admitted) - MIN(admitted) AS k FROM visits GROUP BY 1) GROUP BY k
SELECT k, COUNT(*) FROM (SELECT patient_id, MIN(seen) AS k FROM visits GROUP BY 1) GROUP BY k
SELECT COUNT(*) FROM (SELECT patient_id FROM visits GROUP BY patient_id HAVING COUNT(*) > 1 OR MAX(cost) IS NULL)
SELECT doctor, COUNT(DISTINCT note), COUNT(DISTINCT ward), COUNT(DISTINCT patient_id), COUNT(DISTINCT cost) FROM visits GROUP BY doctor
SELECT note, SUM(nights), AVG(nights), MIN(nights), MAX(nights) FROM visits GROUP BY note
SELECT doctor, note, COUNT(*) FROM visits GROUP BY doctor, note
SELECT COALESCE(note, 'none') AS k, COUNT(*) FROM visits GROUP BY k
SELECT x, COUNT(*) FROM (SELECT note AS x FROM visits UNION ALL SELECT city FROM patients UNION ALL SELECT drug FROM prescriptions) GROUP BY x
SELECT x, COUNT(*) FROM (SELECT points AS x, patient_id AS p FROM visits UNION ALL SELECT NULL, id FROM patients) GROUP BY x
SELECT drug, COUNT(*), COUNT(DISTINCT visit_id), SUM(refills), AVG(dose) FROM prescriptions GROUP BY drug
SELECT doctor, AVG(dose), COUNT(*) FROM visits LEFT JOIN prescriptions USING (visit_id) GROUP BY doctor
SELECT doctor, floor, COUNT(*) FROM visits LEFT JOIN wards ON visits.ward = wards.ward GROUP BY doctor, floor
SELECT COUNT(*) FROM visits JOIN wards ON visits.ward IS NOT DISTINCT FROM wards.ward
SELECT note, COUNT(*) AS n FROM visits GROUP BY note HAVING COUNT(*) > 2 AND note IS NOT NULL
SELECT note, COUNT(*) AS n, SUM(COUNT(*)) OVER () AS t, LAG(COUNT(*)) OVER (ORDER BY note) AS b FROM visits GROUP BY note
SELECT note, COUNT(*) AS n, ROW_NUMBER() OVER (ORDER BY note NULLS FIRST) AS r FROM visits GROUP BY note
SELECT note, SUM(n) FROM (SELECT note, doctor, COUNT(*) n FROM visits GROUP BY note, doctor) GROUP BY note
SELECT COUNT(*), MIN(n), MAX(n), AVG(n), STDDEV(n), MEDIAN(n), COUNT(DISTINCT n) FROM (SELECT note, COUNT(*) n FROM visits GROUP BY note HAVING COUNT(*) > 2)
SELECT SUM(n) FILTER (WHERE n > 2), COUNT(*) FILTER (WHERE note IS NULL) FROM (SELECT note, COUNT(*) n FROM visits GROUP BY note HAVING COUNT(*) > 2)
SELECT note, AVG(nights) / COUNT(*), CAST(AVG(nights) AS INTEGER), ROUND(AVG(nights), 1) FROM visits GROUP BY note
SELECT VAR_SAMP(cost), VAR_POP(cost), STDDEV_POP(cost), STDDEV(nights) FROM visits WHERE urgent
SELECT note, VARIANCE(nights), STDDEV_POP(nights) FROM visits GROUP BY note
SELECT MEDIAN(nights), QUANTILE(nights, 0.0), QUANTILE(nights, 1.0), QUANTILE(nights, 0.33) FROM visits
SELECT note, MEDIAN(nights), QUANTILE(nights, 0.9) FROM visits GROUP BY note
SELECT level, code, COUNT(*), SUM(ms), AVG(ms), MEDIAN(ms) FROM log GROUP BY level, code
SELECT COUNT(DISTINCT code), COUNT(DISTINCT level) FROM log
SELECT birth > '1970-01-01' AS k, COUNT(*), AVG(weight) FROM patients GROUP BY k
SELECT year(birth) // 10 AS k, COUNT(*) FROM patients GROUP BY k ORDER BY k
SELECT note, COUNT(*) FROM visits GROUP BY note ORDER BY note DESC NULLS FIRST
SELECT note, COUNT(*) FROM visits GROUP BY note ORDER BY note LIMIT 3 OFFSET 2
SELECT note, nights // 20, COUNT(*) FROM visits GROUP BY 1, 2 ORDER BY 1, 2 DESC LIMIT 7
SELECT ward, COUNT(*) FROM (SELECT patient_id, ward FROM visits WHERE urgent UNION SELECT patient_id, ward FROM visits WHERE nights > 9) GROUP BY ward
SELECT ward, COUNT(*) FROM (SELECT patient_id, ward FROM visits WHERE urgent INTERSECT SELECT patient_id, ward FROM visits WHERE nights > 9) GROUP BY ward
SELECT ward, COUNT(*) FROM (SELECT patient_id, ward FROM visits WHERE urgent EXCEPT SELECT patient_id, ward FROM visits WHERE nights > 9) GROUP BY ward
SELECT note, COUNT(*) FROM (SELECT id, CAST(NULL AS TEXT) AS note FROM patients EXCEPT SELECT patient_id, note FROM visits UNION ALL SELECT patient_id, note FROM visits) GROUP BY note
SELECT COUNT(*) FROM visits WHERE (ward, nights) IN (SELECT ward, floor * 5 FROM wards)
SELECT COUNT(*) FROM visits v WHERE (patient_id, urgent) NOT IN (SELECT patient_id, urgent FROM visits w WHERE w.nights > 20)
SELECT ward, COUNT(*) FROM visits WHERE ward IN (SELECT ward FROM wards EXCEPT SELECT 'surgery') GROUP BY ward
SELECT d, COUNT(*) FROM (SELECT LAG(points, 1, -999) OVER (PARTITION BY patient_id ORDER BY visit_id) AS d FROM visits) GROUP BY d
SELECT d, COUNT(*) FROM (SELECT LEAD(note, 2, doctor) OVER (PARTITION BY patient_id ORDER BY visit_id) AS d FROM visits) GROUP BY d
SELECT DISTINCT ward, COUNT(nights) OVER (PARTITION BY ward) AS n, SUM(nights) OVER (PARTITION BY ward) AS s FROM visits
SELECT SUM(nights) OVER () AS s FROM visits LIMIT 1
SELECT tag, COUNT(*) FROM visits, UNNEST(string_split(note, '-')) AS t(tag) GROUP BY tag
SELECT tag, COUNT(*), COUNT(DISTINCT patient_id) FROM (SELECT patient_id, UNNEST(string_split(doctor, ' ')) AS tag FROM visits WHERE urgent) GROUP BY tag
SELECT n, COUNT(*) FROM (SELECT patient_id, COUNT(*) AS n FROM visits v CROSS JOIN UNNEST(string_split(note, '-')) AS t(tag) GROUP BY patient_id) GROUP BY n
SELECT w.floor, COUNT(*) FROM visits v, UNNEST(string_split(v.ward, '|')) AS t(tag), wards w WHERE w.ward = tag GROUP BY 1
