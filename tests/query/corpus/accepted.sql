SELECT COUNT(*) FROM visits
SELECT count(*) AS n FROM visits;
SELECT COUNT(*) n FROM visits -- a comment
SELECT COUNT(1) FROM visits
SELECT COUNT() FROM visits
SELECT COUNT(cost) FROM visits
SELECT COUNT(DISTINCT patient_id) FROM visits
SELECT COUNT(DISTINCT id) FROM patients
SELECT COUNT(DISTINCT ward) FROM visits
SELECT COUNT(DISTINCT doctor) FROM visits
SELECT COUNT(DISTINCT upper(doctor)) FROM visits
SELECT ward, COUNT(DISTINCT doctor) FROM visits GROUP BY ward
SELECT ward, COUNT(*) FROM visits GROUP BY ROLLUP (ward)
SELECT ward, urgent, COUNT(*) AS n, SUM(nights) AS s FROM visits GROUP BY CUBE (ward, urgent)
SELECT ward, urgent, COUNT(*), AVG(cost) FROM visits GROUP BY GROUPING SETS ((ward), (urgent), ())
SELECT COUNT(*) FROM visits GROUP BY (ward, urgent)
SELECT COUNT(*) FROM visits GROUP BY ()
SELECT ward, COUNT(*) FROM visits GROUP BY GROUPING SETS ((ward), (ward), (), ())
SELECT urgent, ward, SUM(cost), AVG(nights), STDDEV(nights) FROM visits GROUP BY urgent, ROLLUP (ward)
SELECT GROUPING(ward) AS g, GROUPING(ward, urgent) AS gg, GROUPING_ID(urgent, ward) AS id, ward, urgent, COUNT(*) FROM visits GROUP BY ROLLUP (ward, urgent) ORDER BY gg DESC, ward, urgent
SELECT COALESCE(ward, 'all') AS place, COUNT(*) AS n FROM visits GROUP BY ROLLUP (ward) HAVING GROUPING(ward) = 1 OR COUNT(*) >= 0
SELECT w AS ward, SUM(nights) FROM (SELECT upper(ward) AS w, nights, urgent FROM visits WHERE cost > 10) GROUP BY CUBE (w, urgent)
SELECT ward, floor, COUNT(*) FROM visits JOIN wards USING (ward) GROUP BY ROLLUP (floor, ward)
SELECT nights // 20 AS k, urgent, COUNT(*) FILTER (WHERE cost > 100) AS n FROM visits GROUP BY ROLLUP (k, urgent)
SELECT sex, ward, COUNT(*) FROM visits JOIN patients ON id = patient_id GROUP BY CUBE (sex, ward)
SELECT ward, GROUPING(ward), COUNT(*) FROM visits GROUP BY ward
SELECT ward, urgent, n / SUM(n) OVER () AS share FROM (SELECT ward, urgent, COUNT(*) AS n FROM visits GROUP BY ROLLUP (ward, urgent)) WHERE urgent IS NULL
SELECT ward, urgent, nights // 30 AS month, COUNT(*) FROM visits GROUP BY GROUPING SETS (ROLLUP (ward, urgent), CUBE (month))
SELECT MODE(ward), urgent FROM visits GROUP BY ROLLUP (urgent)
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, max_groups_contributed = 1) sex, COUNT(DISTINCT patient_id) AS people FROM visits JOIN patients ON id = patient_id GROUP BY ROLLUP (sex)
SELECT SUM(cost) FROM visits
SELECT SUM(nights) FROM visits
SELECT SUM(cost * nights) FROM visits
SELECT SUM(cost) / COUNT(*) FROM visits
SELECT AVG(cost) FROM visits
SELECT AVG(weight) FROM patients
SELECT MEAN(nights) FROM visits
SELECT VARIANCE(cost), VAR_SAMP(cost), VAR_POP(cost) FROM visits
SELECT STDDEV(nights), STDDEV_SAMP(nights), STDDEV_POP(nights) FROM visits
SELECT MIN(cost), MAX(cost) FROM visits
SELECT MIN(admitted), MAX(admitted) FROM visits
SELECT MEDIAN(cost) FROM visits
SELECT MEDIAN(seen) FROM visits
SELECT QUANTILE(cost, 0.5) FROM visits
SELECT QUANTILE_CONT(cost, 0.25) q1, QUANTILE_CONT(cost, 0.75) q3 FROM visits
SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY cost) FROM visits
SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY nights) FILTER (WHERE urgent) FROM visits
SELECT MODE(ward) FROM visits
SELECT MODE() WITHIN GROUP (ORDER BY ward) FROM visits
SELECT MODE(nights) FROM visits
SELECT COUNT_IF(cost > 100) FROM visits
SELECT COUNT(*) FILTER (WHERE cost > 100) FROM visits
SELECT COUNT(*) FILTER (WHERE cost > 100) * 100.0 / COUNT(*) AS percent FROM visits
SELECT SUM(CASE WHEN urgent THEN 1 ELSE 0 END) FROM visits
SELECT SUM(urgent) FROM visits
SELECT AVG(CASE WHEN urgent THEN cost END) FROM visits
SELECT ward, COUNT(*) FROM visits GROUP BY ward
SELECT ward, COUNT(*) FROM visits GROUP BY 1
SELECT ward AS w, COUNT(*) FROM visits GROUP BY w
SELECT ward, COUNT(*) FROM visits GROUP BY ALL
SELECT v.ward, COUNT(*) FROM visits v GROUP BY v.ward
SELECT v.ward, COUNT(*) FROM visits AS v GROUP BY ward
SELECT "ward", COUNT(*) FROM "visits" GROUP BY "ward"
SELECT WARD, Count(*) FROM Visits GROUP BY Ward
SELECT upper(ward) AS w, COUNT(*) FROM visits GROUP BY upper(ward)
SELECT substring(ward, 1, 1) AS initial, COUNT(*) FROM visits GROUP BY initial
SELECT CASE ward WHEN 'surgery' THEN 'cut' ELSE 'rest' END AS kind, COUNT(*) FROM visits GROUP BY kind
SELECT urgent, COUNT(*) FROM visits GROUP BY urgent
SELECT cost > 100 AS expensive, COUNT(*) FROM visits GROUP BY expensive
SELECT nights, COUNT(*) FROM visits GROUP BY nights
SELECT nights // 10, COUNT(*) FROM visits GROUP BY nights // 10
SELECT nights // 10 * 10 AS bucket, COUNT(*) FROM visits GROUP BY bucket ORDER BY bucket
SELECT floor(cost / 500) AS bucket, AVG(nights) FROM visits GROUP BY bucket
SELECT round(weight / 10) AS bucket, COUNT(*) FROM patients GROUP BY bucket
SELECT CAST(weight AS INTEGER) // 20 AS bucket, COUNT(*) FROM patients GROUP BY 1
SELECT nights % 7 AS rest, COUNT(*) FROM visits GROUP BY rest
SELECT date_trunc('month', admitted) AS month, COUNT(*) FROM visits GROUP BY month ORDER BY month
SELECT date_trunc('year', seen) AS y, SUM(cost) FROM visits GROUP BY y
SELECT date_trunc('quarter', admitted), COUNT(DISTINCT patient_id) FROM visits GROUP BY 1
SELECT date_trunc('week', admitted) AS w, COUNT(*) FROM visits GROUP BY w
SELECT EXTRACT(year FROM admitted) AS y, COUNT(*) FROM visits GROUP BY y
SELECT year(admitted) AS y, month(admitted) AS m, COUNT(*) FROM visits GROUP BY y, m
SELECT date_part('dow', admitted) AS d, COUNT(*) FROM visits GROUP BY d
SELECT hour(seen) AS h, COUNT(*) FROM visits GROUP BY h
SELECT doctor, COUNT(*) FROM visits GROUP BY doctor
SELECT note, doctor, AVG(cost) FROM visits GROUP BY note, doctor
SELECT city, COUNT(*) FROM patients GROUP BY city ORDER BY COUNT(*) DESC LIMIT 10
SELECT ward, urgent, COUNT(*), AVG(cost) FROM visits GROUP BY ward, urgent
SELECT sex, active, AVG(weight) AS w FROM patients GROUP BY sex, active ORDER BY w DESC, sex
SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward HAVING COUNT(*) > 10
SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward HAVING n > 10
SELECT ward FROM visits GROUP BY ward HAVING AVG(cost) > 100 AND COUNT(*) > 5
SELECT ward, COUNT(*) FROM visits GROUP BY ward HAVING ward <> 'surgery'
SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n DESC NULLS LAST LIMIT 2
SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY 2 DESC LIMIT 1 OFFSET 1
SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY SUM(cost) DESC
SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward LIMIT ALL
SELECT ward, COUNT(*) + 1 AS n, n * 2 AS m FROM visits GROUP BY ward
SELECT DISTINCT ward FROM visits
SELECT DISTINCT ward, urgent FROM visits ORDER BY ward DESC LIMIT 3
SELECT DISTINCT doctor FROM visits
SELECT DISTINCT COUNT(*) AS n FROM visits GROUP BY ward
SELECT COUNT(*) FROM visits WHERE cost > 100
SELECT COUNT(*) FROM visits WHERE cost BETWEEN 10 AND 20
SELECT COUNT(*) FROM visits WHERE cost NOT BETWEEN 10 AND 20.5
SELECT COUNT(*) FROM visits WHERE ward IN ('surgery', 'oncology')
SELECT COUNT(*) FROM visits WHERE ward NOT IN ('surgery', 'oncology')
SELECT COUNT(*) FROM visits WHERE nights IN (1, 2, 3, NULL)
SELECT COUNT(*) FROM visits WHERE nights IN (1, points)
SELECT COUNT(*) FROM visits WHERE note LIKE 'a%'
SELECT COUNT(*) FROM visits WHERE note NOT LIKE '%b_c%' OR note ILIKE 'X%'
SELECT COUNT(*) FROM visits WHERE note IS NULL
SELECT COUNT(*) FROM visits WHERE note IS NOT NULL AND NOT urgent
SELECT COUNT(*) FROM visits WHERE urgent IS TRUE OR urgent IS NOT FALSE
SELECT COUNT(*) FROM visits WHERE urgent
SELECT COUNT(*) FROM visits WHERE note IS DISTINCT FROM doctor
SELECT COUNT(*) FROM visits WHERE note IS NOT DISTINCT FROM NULL
SELECT COUNT(*) FROM visits WHERE NOT (cost > 3 AND nights < 2) OR (points = 4)
SELECT COUNT(*) FROM visits WHERE admitted >= '2021-01-01' AND admitted < DATE '2022-01-01'
SELECT COUNT(*) FROM visits WHERE admitted + INTERVAL 1 MONTH > DATE '2021-01-01'
SELECT COUNT(*) FROM visits WHERE admitted - INTERVAL '3 days' > DATE '2021-01-01'
SELECT COUNT(*) FROM visits WHERE seen > TIMESTAMP '2021-01-01 10:00:00' - INTERVAL 2 HOUR
SELECT COUNT(*) FROM visits WHERE admitted + 7 > seen
SELECT COUNT(*) FROM visits WHERE date_diff('day', admitted, '2024-12-31') > 100
SELECT AVG(date_diff('day', admitted, DATE '2024-12-31')) FROM visits
SELECT AVG(DATE '2024-12-31' - admitted) FROM visits
SELECT AVG(year(admitted) - 2020) FROM visits
SELECT COUNT(*) FROM visits WHERE CAST(note AS INTEGER) > 0
SELECT COUNT(*) FROM visits WHERE TRY_CAST(note AS DATE) > '2020-01-01'
SELECT COUNT(*) FROM visits WHERE note::DOUBLE > 0.5
SELECT COUNT(*) FROM visits WHERE length(trim(note)) > 3 AND lower(note) = 'abc'
SELECT COUNT(*) FROM visits WHERE note || doctor = 'ab'
SELECT COUNT(*) FROM visits WHERE concat(note, ' ', doctor) LIKE '% %'
SELECT COUNT(*) FROM visits WHERE strpos(note, 'x') > 0 AND starts_with(note, 'a') AND contains(note, 'b')
SELECT COUNT(*) FROM visits WHERE POSITION('x' IN note) = 1
SELECT COUNT(*) FROM visits WHERE SUBSTRING(note FROM 1 FOR 2) = 'ab' AND left(note, 1) = 'a' AND right(note, 1) = 'b'
SELECT COUNT(*) FROM visits WHERE replace(note, 'a', 'b') = 'b' AND split_part(note, '-', 1) = 'x'
SELECT COUNT(*) FROM visits WHERE lpad(doctor, 5, '0') = '00abc'
SELECT COUNT(*) FROM visits WHERE coalesce(note, doctor, 'x') = 'x'
SELECT COUNT(*) FROM visits WHERE nullif(note, '') IS NULL
SELECT COUNT(*) FROM visits WHERE if(urgent, 1, 0) = 1
SELECT COUNT(*) FROM visits WHERE sqrt(score) > 2 AND ln(score) < 5 AND exp(score) > 1 AND power(score, 2) > 1
SELECT COUNT(*) FROM visits WHERE score / points > 1 AND points // nights = 2 AND points % 3 = 1
SELECT COUNT(*) FROM visits WHERE abs(score) + sign(score) - ceil(score) > 0
SELECT COUNT(*) FROM visits WHERE 1 = 1
SELECT COUNT(*) FROM visits WHERE TRUE
SELECT COUNT(*) FROM visits WHERE NULL
SELECT COUNT(*) FROM visits WHERE score > 1e10 OR score < -.5
SELECT SUM(CASE WHEN patient_id = 17 AND note = 'HIV' THEN 1 // 0 ELSE 0 END) FROM visits
SELECT SUM(LEAST(GREATEST(score, 0), 100)) FROM visits
SELECT SUM(CLAMP(score, 0, 100)) FROM visits
SELECT SUM(CLAMP(points, -5, 5)) FROM visits
SELECT AVG(CLAMP(score * 2 + points, 0, 1)) FROM visits
SELECT SUM(score, contribution_bounds_per_group => (0, 50)) FROM visits
SELECT SUM(points, contribution_bounds_per_group => (-10, 10)) FROM visits
SELECT AVG(score, contribution_bounds_per_group => (0.5, 1.5)) FROM visits
SELECT MEDIAN(score, contribution_bounds_per_row => (0, 1)) FROM visits
SELECT COUNT(*, contribution_bounds_per_group => (0, 2)) FROM visits
SELECT MAX(CLAMP(score, 0, 10)) FROM visits
SELECT AVG(ABS(cost - 2500)) FROM visits
SELECT SUM(nights * nights), SUM(POWER(nights, 2)) FROM visits
SELECT SUM(cost / 7) FROM visits
SELECT SUM(SQRT(cost)) FROM visits
SELECT SUM(COALESCE(nights, 0)) FROM visits
SELECT AVG(length(left(note, 5)), contribution_bounds_per_row => (0, 5)) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.5) COUNT(*) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.5, delta = 1e-6) doctor, COUNT(*) FROM visits GROUP BY doctor
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = '0.1', max_groups_contributed = 2) ward, COUNT(*) FROM visits GROUP BY 1
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(rho = 0.01, max_rows_contributed = 3) COUNT(*) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(within = 50, confidence = 0.95) COUNT(*) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, group_selection_strategy=LAPLACE_THRESHOLD) city, COUNT(*) FROM patients GROUP BY city
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, group_selection_strategy=PUBLIC_GROUPS) sex, COUNT(*) FROM patients GROUP BY sex
SELECT x FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) COUNT(*) AS x FROM visits)
SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n) AS lo, DP_INTERVAL_HIGH(n) AS hi FROM visits
SELECT ward, AVG(cost) AS m, DP_INTERVAL_LOW(m), DP_INTERVAL_HIGH(m) FROM visits GROUP BY ward
SELECT ward, n, DP_INTERVAL_LOW(n) lo FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward)
SELECT sex, ward, COUNT(*) FROM visits v JOIN patients p ON v.patient_id = p.id GROUP BY sex, ward
SELECT AVG(cost) FROM visits v INNER JOIN patients p ON p.id = v.patient_id AND p.sex = 'F'
SELECT AVG(weight) FROM patients p LEFT JOIN visits v ON p.id = v.patient_id
SELECT COUNT(visit_id) FROM visits v RIGHT JOIN patients p ON p.id = v.patient_id
SELECT COUNT(*) FROM patients p FULL JOIN visits v ON p.id = v.patient_id
SELECT COUNT(*) FROM visits v, patients p WHERE v.patient_id = p.id AND p.sex = 'F'
SELECT COUNT(*) FROM visits v CROSS JOIN patients p WHERE v.patient_id = p.id
SELECT COUNT(*) FROM visits a JOIN visits b ON a.patient_id = b.patient_id AND a.admitted < b.admitted
SELECT COUNT(*) FROM visits a JOIN visits b USING (patient_id) WHERE a.ward <> b.ward
SELECT COUNT(*) FROM visits a JOIN visits b ON a.visit_id = b.visit_id
SELECT ward, drug, COUNT(*) FROM prescriptions p JOIN visits v ON p.visit_id = v.visit_id GROUP BY ward, drug
SELECT ward, AVG(dose) FROM visits JOIN prescriptions USING (visit_id) GROUP BY ward
SELECT visit_id % 2 AS odd, COUNT(*) FROM visits FULL JOIN prescriptions USING (visit_id) GROUP BY odd
SELECT sex, AVG(dose) FROM prescriptions r JOIN visits v ON r.visit_id = v.visit_id JOIN patients p ON p.id = v.patient_id GROUP BY sex
SELECT COUNT(*) FROM prescriptions a JOIN prescriptions b ON a.visit_id = b.visit_id AND a.drug <> b.drug
SELECT drug, COUNT(*), AVG(dose) FROM prescriptions GROUP BY drug
SELECT floor, SUM(cost) FROM visits JOIN wards ON visits.ward = wards.ward GROUP BY floor
SELECT floor, SUM(cost) FROM visits JOIN wards USING (ward) GROUP BY floor
SELECT ward, floor, COUNT(*) FROM visits LEFT JOIN wards USING (ward) GROUP BY ward, floor
SELECT w.floor, COUNT(*) FROM wards w JOIN visits v ON v.ward = w.ward AND v.nights > w.floor GROUP BY w.floor
SELECT w.beds, COUNT(*) FROM wards w RIGHT JOIN visits v ON v.ward = w.ward GROUP BY w.beds
SELECT floor, sex, COUNT(*) FROM patients p JOIN visits v ON v.patient_id = p.id JOIN wards w ON w.ward = v.ward GROUP BY floor, sex
SELECT COUNT(*) FROM visits CROSS JOIN wards
SELECT COUNT(*) FROM visits, wards WHERE beds > nights
SELECT SUM(salary) FROM staff JOIN wards USING (ward)
SELECT k, COUNT(*) FROM visits JOIN (VALUES ('surgery', 'a'), ('oncology', 'b')) AS t(w, k) ON ward = w GROUP BY k
SELECT COUNT(*) FROM visits JOIN (SELECT 'surgery' AS w UNION ALL SELECT 'oncology') t ON ward = w
SELECT COUNT(*) FROM visits JOIN (SELECT ward, MAX(beds) AS most FROM wards GROUP BY ward) m ON m.ward = visits.ward AND nights < most
SELECT COUNT(*) FROM visits WHERE patient_id IN (SELECT id FROM patients WHERE sex = 'F')
SELECT COUNT(*) FROM visits WHERE patient_id NOT IN (SELECT id FROM patients WHERE sex = 'F')
SELECT COUNT(*) FROM visits WHERE patient_id IN (SELECT patient_id FROM visits GROUP BY patient_id HAVING COUNT(*) > 3)
SELECT COUNT(*) FROM patients p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.patient_id = p.id AND v.cost > 100)
SELECT COUNT(*) FROM patients p WHERE NOT EXISTS (SELECT * FROM visits v WHERE v.patient_id = p.id)
SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM prescriptions p WHERE p.visit_id = v.visit_id AND dose > 3)
SELECT COUNT(*) FROM visits WHERE ward IN (SELECT ward FROM wards WHERE beds > 10)
SELECT COUNT(*) FROM visits WHERE ward NOT IN (SELECT ward FROM wards WHERE beds > 10) OR urgent
SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM wards w WHERE w.ward = v.ward AND w.beds > v.nights)
SELECT COUNT(*) FROM visits WHERE EXISTS (SELECT 1 FROM wards WHERE beds > 99)
SELECT v.ward, COUNT(*) FROM visits v WHERE v.nights IN (SELECT floor FROM wards w WHERE w.ward = v.ward) GROUP BY v.ward
SELECT SUM(CASE WHEN ward IN (SELECT ward FROM wards WHERE floor = 1) THEN 1 ELSE 0 END) FROM visits
SELECT AVG(total) FROM (SELECT patient_id, SUM(cost) AS total FROM visits GROUP BY patient_id)
SELECT AVG(n) AS visits_per_patient FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id)
SELECT n, COUNT(*) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) GROUP BY n
SELECT MEDIAN(total) FROM (SELECT patient_id, SUM(cost) AS total FROM visits GROUP BY patient_id) t
SELECT COUNT(*) FROM (SELECT patient_id FROM visits GROUP BY patient_id HAVING SUM(cost) > 1000 AND COUNT(*) > 2)
SELECT COUNT(*) FROM (SELECT DISTINCT patient_id FROM visits)
SELECT COUNT(*) FROM (SELECT DISTINCT patient_id, ward FROM visits)
SELECT ward, COUNT(*) FROM (SELECT DISTINCT patient_id, ward FROM visits) GROUP BY ward
SELECT ward, AVG(total) FROM (SELECT patient_id, ward, SUM(cost) AS total FROM visits GROUP BY patient_id, ward) GROUP BY ward
SELECT AVG(m), AVG(s), AVG(lo), AVG(hi) FROM (SELECT patient_id, AVG(cost) m, STDDEV(cost) s, MIN(cost) lo, MAX(cost) hi FROM visits GROUP BY 1)
SELECT AVG(q) FROM (SELECT patient_id, QUANTILE(cost, 0.9) AS q, MEDIAN(nights) AS n FROM visits GROUP BY patient_id)
SELECT COUNT(*) FILTER (WHERE any_urgent), COUNT(*) FILTER (WHERE all_urgent) FROM (SELECT patient_id, BOOL_OR(urgent) AS any_urgent, BOOL_AND(urgent) AS all_urgent FROM visits GROUP BY patient_id)
SELECT AVG(kinds) FROM (SELECT patient_id, COUNT(DISTINCT ward) AS kinds FROM visits GROUP BY patient_id)
SELECT sex, AVG(n) FROM (SELECT sex, id, COUNT(visit_id) AS n FROM patients LEFT JOIN visits ON id = patient_id GROUP BY sex, id) GROUP BY sex
SELECT AVG(drugs) FROM (SELECT v.patient_id, COUNT(*) AS drugs FROM visits v JOIN prescriptions p ON v.visit_id = p.visit_id GROUP BY v.patient_id)
SELECT AVG(n) FROM (SELECT visit_id, COUNT(*) AS n FROM visits GROUP BY visit_id)
SELECT AVG(cost) FROM (SELECT cost, row_number() OVER (PARTITION BY patient_id ORDER BY admitted) AS rn FROM visits) WHERE rn = 1
SELECT AVG(gap, contribution_bounds_per_row => (0, 365)) FROM (SELECT date_diff('day', lag(admitted) OVER (PARTITION BY patient_id ORDER BY admitted), admitted) AS gap FROM visits)
SELECT AVG(share) FROM (SELECT CLAMP(cost / SUM(cost) OVER (PARTITION BY patient_id), 0, 1) AS share FROM visits)
SELECT COUNT(*) FROM (SELECT rank() OVER w AS r, dense_rank() OVER w AS d FROM visits WINDOW w AS (PARTITION BY patient_id ORDER BY cost DESC)) WHERE r = d
SELECT SUM(running) FROM (SELECT SUM(nights) OVER (PARTITION BY patient_id ORDER BY admitted ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS running FROM visits)
SELECT COUNT(*) FROM (SELECT ward, cost FROM visits UNION ALL SELECT ward, cost FROM visits)
SELECT w, COUNT(*) FROM (SELECT ward AS w, patient_id FROM visits UNION ALL SELECT city, id FROM patients) GROUP BY w
SELECT COUNT(*) FROM (SELECT nights AS x FROM visits UNION ALL SELECT weight FROM patients UNION ALL SELECT NULL FROM patients)
SELECT AVG(n) FROM (SELECT u, COUNT(*) n FROM (SELECT patient_id AS u FROM visits UNION ALL SELECT id FROM patients) GROUP BY u)
WITH v AS (SELECT * FROM visits WHERE cost > 10) SELECT COUNT(*) FROM v
WITH v AS (SELECT * FROM visits), w AS (SELECT ward, cost FROM v WHERE nights > 1) SELECT ward, SUM(cost) FROM w GROUP BY ward
WITH v(a, b) AS (SELECT ward, cost FROM visits) SELECT a, AVG(b) FROM v GROUP BY a
WITH t AS (SELECT patient_id, SUM(cost) AS total FROM visits GROUP BY patient_id) SELECT sex, AVG(total) FROM t JOIN patients ON id = patient_id GROUP BY sex
WITH r AS (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) SELECT ward, n FROM r WHERE n > 100 ORDER BY n
WITH r AS (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) SELECT MAX(n), SUM(n), AVG(n), COUNT(*) FROM r
SELECT * FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward)
SELECT t.* FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) AS t ORDER BY n DESC
SELECT ward, n * 100.0 / SUM(n) OVER () AS share FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward)
SELECT ward, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS share FROM visits GROUP BY ward
SELECT ward, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS place FROM visits GROUP BY ward
SELECT urgent, SUM(n) FROM (SELECT ward, urgent, COUNT(*) AS n FROM visits GROUP BY ward, urgent) GROUP BY urgent HAVING SUM(n) > 3
SELECT CASE WHEN n > 100 THEN 'many' ELSE 'few' END AS size, COUNT(*) FROM (SELECT ward, COUNT(*) n FROM visits GROUP BY ward) GROUP BY size
SELECT GREATEST(COUNT(*), 0), ROUND(AVG(cost), 2), COALESCE(SUM(cost), 0) FROM visits
SELECT AVG(cost) - AVG(nights) AS d, AVG(cost) / NULLIF(AVG(nights), 0) AS r FROM visits
SELECT CAST(COUNT(*) AS DOUBLE) / 2, -COUNT(*), COUNT(*) > 3 FROM visits
SELECT COUNT(*), 'label' AS tag, 1 + 1 AS two, NULL AS nothing FROM visits
SELECT level, COUNT(*), AVG(ms) FROM log GROUP BY level
SELECT COUNT(*), SUM(ms), MEDIAN(ms) FROM log WHERE level = 'warn'
SELECT code, COUNT(*) FROM log GROUP BY code
SELECT level, COUNT(*) FROM log JOIN (VALUES (1), (2)) t(k) ON code = k GROUP BY level
SELECT ward, COUNT(*), AVG(salary) FROM staff GROUP BY ward
SELECT salary // 10000 AS band, COUNT(*) FROM staff GROUP BY band ORDER BY band
FROM visits SELECT COUNT(*)
(SELECT COUNT(*) FROM visits)
SELECT COUNT(*) FROM ((SELECT * FROM visits))
SELECT COUNT(*) FROM (SELECT * FROM visits) v JOIN (SELECT * FROM patients) p ON v.patient_id = p.id
SELECT COUNT(*) FROM (SELECT patient_id AS who, cost FROM visits) a JOIN (SELECT id AS person FROM patients) b ON a.who = b.person
SELECT ward, COUNT(*) FROM visits WHERE note = 'it''s' GROUP BY ward
SELECT COUNT(*) AS "a b", COUNT(cost) AS 'c d' FROM visits
SELECT STDDEV(cost) / AVG(cost) AS variation, VAR_POP(cost) - VAR_SAMP(cost) FROM visits
SELECT ward, MEDIAN(cost), QUANTILE(cost, 0.9) FROM visits GROUP BY ward
SELECT sex, MODE(active) FROM patients GROUP BY sex
SELECT last_day(admitted) AS month_end, COUNT(*) FROM visits GROUP BY month_end
SELECT make_date(year(admitted), 1, 1) AS y, COUNT(*) FROM visits GROUP BY y
SELECT CASE WHEN nights < 3 THEN 'short' WHEN nights < 10 THEN 'medium' END AS stay, COUNT(*) FROM visits GROUP BY stay
SELECT date_trunc('month', admitted + INTERVAL 1 YEAR) AS m, COUNT(*) FROM visits GROUP BY m
SELECT (nights + 1) * 2 AS k, COUNT(*) FROM visits GROUP BY k HAVING k > 10 ORDER BY k DESC LIMIT 5
SELECT nights, COUNT(*) FROM visits GROUP BY nights HAVING nights BETWEEN 2 AND 4
SELECT year(admitted) - 1 AS y, COUNT(*) FROM visits GROUP BY year(admitted)
SELECT year(admitted), year(admitted) + 1, COUNT(*) FROM visits GROUP BY year(admitted)
SELECT w.floor, s.n FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) s JOIN wards w ON w.ward = s.ward
SELECT s.ward, s.n, w.beds FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) s LEFT JOIN wards w ON w.ward = s.ward ORDER BY 1, 3
SELECT s.ward, s.n, w.floor FROM wards w JOIN (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) s ON s.ward = w.ward
SELECT w.ward, w.floor, s.n FROM wards w LEFT JOIN (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) s ON s.ward = w.ward
SELECT w.ward, s.n FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) s RIGHT JOIN wards w ON s.ward = w.ward
SELECT s.ward AS a, w.ward AS b, n FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) s FULL JOIN wards w ON s.ward = w.ward
SELECT ward, n, floor FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) s JOIN wards USING (ward)
SELECT * FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) s JOIN wards USING (ward)
SELECT s.*, w.floor FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) s, wards w WHERE s.ward = w.ward AND w.floor > 0
SELECT w.floor, SUM(s.n) AS n FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) s JOIN wards w ON w.ward = s.ward GROUP BY w.floor ORDER BY w.floor
SELECT s.ward, s.n / w.beds AS load FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) s JOIN wards w ON w.ward = s.ward WHERE w.beds > 0 ORDER BY load DESC LIMIT 2
SELECT s.ward, w.floor FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) s JOIN wards w ON s.n > w.beds AND w.floor < 3
SELECT s.ward, COUNT(*) AS fuller FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) s JOIN wards w ON s.n > w.beds GROUP BY s.ward
SELECT s.ward, COUNT(*) AS k FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) s CROSS JOIN wards GROUP BY s.ward
SELECT s.ward, a.floor, b.beds FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) s JOIN wards a ON a.ward = s.ward JOIN wards b ON b.floor = a.floor + 1
SELECT a.floor, b.beds, s.n FROM wards a JOIN wards b ON a.floor = b.floor JOIN (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) s ON s.ward = a.ward
SELECT s.ward, t.label, s.n FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) s JOIN (VALUES ('surgery', 'cut'), ('oncology', 'rays')) AS t(name, label) ON t.name = s.ward
SELECT s.ward, m.most FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) s JOIN (SELECT floor AS level, MAX(beds) AS most FROM wards WHERE ward IS NOT NULL GROUP BY floor, beds) m ON m.level < 2
SELECT s.ward, w.floor, SUM(s.n) OVER (PARTITION BY w.floor) AS total FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) s JOIN wards w ON w.ward = s.ward ORDER BY 1, 2
SELECT DISTINCT w.floor > 1 AS high FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) s JOIN wards w ON w.ward = s.ward
SELECT s.ward, s.n / w.beds AS x, DP_INTERVAL_LOW(x) AS low FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) s JOIN wards w ON w.ward = s.ward AND w.beds > 0
SELECT s.ward, DP_INTERVAL_LOW(x) AS low, s.n / w.beds AS x FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) s JOIN wards w ON w.ward = s.ward AND w.beds > 0
SELECT w.floor, s.d, s.n FROM (SELECT doctor AS d, COUNT(*) AS n FROM visits GROUP BY doctor) s JOIN wards w ON s.d = 'dr ' || CAST(w.floor AS TEXT)
WITH s AS (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward), w AS (SELECT ward, MAX(floor) AS floor, SUM(beds) AS beds FROM wards GROUP BY ward, ward IS NULL) SELECT s.ward, n, beds FROM s JOIN w ON w.ward = s.ward
SELECT s.floor, w.ward, s.n FROM (SELECT floor, COUNT(*) AS n FROM visits JOIN wards USING (ward) GROUP BY floor) s JOIN wards w ON w.floor = s.floor
SELECT COUNT(*) FROM visits WHERE cost > (SELECT MAX(beds) FROM wards)
SELECT COUNT(*) FROM visits WHERE cost > (SELECT AVG(beds) FROM wards WHERE floor > 0) AND nights < (SELECT MAX(beds) FROM wards)
SELECT COUNT(*) FROM visits WHERE cost > (SELECT MAX(beds) FROM wards WHERE floor > 100)
SELECT COUNT(*) FROM visits WHERE nights > (SELECT COUNT(*) FROM wards)
SELECT COUNT(*) FROM visits WHERE nights > (SELECT COUNT(DISTINCT ward) FROM wards WHERE ward IN (SELECT ward FROM wards WHERE beds > 10))
SELECT AVG(CASE WHEN nights > (SELECT MIN(beds) FROM wards) THEN cost END) FROM visits
SELECT SUM(CLAMP(nights - (SELECT MAX(floor) FROM wards), 0, 60)) FROM visits
SELECT SUM(nights * (SELECT MAX(floor) FROM wards)) FROM visits
SELECT COUNT(*) FILTER (WHERE nights > (SELECT AVG(beds) FROM wards)) AS long, COUNT(*) AS n FROM visits
SELECT nights > (SELECT AVG(beds) FROM wards) AS long, COUNT(*) FROM visits GROUP BY long
SELECT ward, COUNT(*) / (SELECT SUM(beds) FROM wards) AS share FROM visits GROUP BY ward
SELECT ward, COUNT(*) AS n, (SELECT MAX(beds) FROM wards) AS most FROM visits GROUP BY ward HAVING COUNT(*) > (SELECT MIN(beds) FROM wards) ORDER BY n - (SELECT MAX(beds) FROM wards), ward
SELECT ward, n, n > (SELECT AVG(beds) FROM wards) AS full FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) WHERE n > (SELECT MIN(floor) FROM wards) - 100
SELECT SUM(n) - (SELECT SUM(beds) FROM wards) AS spare, SUM(n - (SELECT MIN(beds) FROM wards)) AS over FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward)
SELECT AVG(t) FROM (SELECT patient_id, SUM(nights) * (SELECT MAX(floor) FROM wards) AS t FROM visits GROUP BY patient_id HAVING COUNT(*) < (SELECT SUM(beds) FROM wards))
SELECT COUNT(*) FROM visits WHERE cost > COALESCE((SELECT MAX(beds) FROM wards WHERE ward = 'nowhere'), 12)
SELECT COUNT(*) FROM visits WHERE nights > (SELECT MAX(beds) - (SELECT MIN(beds) FROM wards) FROM wards)
WITH limits AS (SELECT MAX(beds) AS most FROM wards) SELECT COUNT(*) FROM visits WHERE nights < (SELECT most FROM limits)
WITH visits AS (SELECT beds FROM wards) SELECT COUNT(*) FROM patients WHERE weight > (SELECT MAX(beds) FROM visits)
SELECT level, COUNT(*) FROM log WHERE ms > (SELECT MAX(beds) FROM wards) GROUP BY level
SELECT COUNT(*) FROM visits JOIN wards USING (ward) WHERE nights < beds + (SELECT MIN(floor) FROM wards)
SELECT COUNT(*) FROM visits, (SELECT COUNT(*) AS c FROM wards) k
SELECT COUNT(*) FROM visits WHERE EXISTS (SELECT 1 FROM wards WHERE beds > (SELECT AVG(beds) FROM wards))
WITH a AS (SELECT ward, COUNT(*) n FROM visits GROUP BY ward) SELECT a.n FROM a JOIN wards ON a.ward = wards.ward
SELECT ward, nights > (SELECT AVG(beds) FROM wards) AS long, COUNT(*) / (SELECT MAX(beds) FROM wards) AS share FROM visits GROUP BY ward, long
SELECT AVG(CLAMP(score, AUTO)) FROM visits
SELECT ward, SUM(CLAMP(points, AUTO)) AS total, COUNT(*) AS n FROM visits GROUP BY ward
SELECT AVG(CLAMP(score, AUTO)), SUM(CLAMP(score, AUTO)), COUNT(score) FROM visits
SELECT MEDIAN(CLAMP(score, AUTO)) AS m, MIN(CLAMP(score, AUTO)) AS low, MAX(CLAMP(score, AUTO)) AS high FROM visits
SELECT VARIANCE(CLAMP(points, AUTO)), STDDEV(CLAMP(points, AUTO)) FROM visits
SELECT AVG(CLAMP(points, auto)) FILTER (WHERE urgent) AS u, AVG(CLAMP(points, AUTO)) AS a FROM visits
SELECT AVG(CLAMP(t, AUTO)) FROM (SELECT patient_id, SUM(points) AS t FROM visits GROUP BY patient_id)
SELECT doctor, SUM((CLAMP(score * cost, AUTO))) FROM visits GROUP BY doctor
SELECT PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY CLAMP(length(note), AUTO)) FROM visits
SELECT AVG(CLAMP(code, AUTO)), AVG(ms) FROM log
SELECT SUM(CLAMP(cost, AUTO)), SUM(cost) FROM visits
SELECT ward, AVG(CLAMP(score, AUTO)) - AVG(CLAMP(points, AUTO)) AS d FROM visits GROUP BY ward HAVING AVG(CLAMP(score, AUTO)) > 0 ORDER BY d
SELECT ward, AVG(v) FROM (SELECT patient_id, ward, VAR_POP(nights) AS v FROM visits GROUP BY patient_id, ward) GROUP BY ward
SELECT AVG(v), AVG(s) FROM (SELECT patient_id, VARIANCE(nights) AS v, STDDEV_POP(nights) AS s FROM visits GROUP BY patient_id)
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed = 30, max_rows_contributed = 200) doctor, COUNT(*), SUM(nights) FROM visits GROUP BY doctor
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed = 12) EXTRACT(MONTH FROM admitted) AS m, COUNT(*), AVG(nights) FROM visits GROUP BY 1
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_contributed = 45) ward, COUNT(DISTINCT doctor), MEDIAN(nights), MODE(ward) FROM visits GROUP BY ward
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_contributed = 1000) VARIANCE(cost), SUM(cost), COUNT(cost) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_contributed = 100) AVG(CLAMP(points, AUTO)), COUNT(*) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed = 9, max_rows_contributed = 9) sex, COUNT(*) FROM patients GROUP BY sex
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed = 5) w.floor, COUNT(*) FROM visits v JOIN wards w ON v.ward = w.ward GROUP BY w.floor
SELECT v.ward, COUNT(*), COUNT(DISTINCT p.id) FROM patients p LEFT JOIN visits v ON p.id = v.patient_id GROUP BY v.ward
SELECT v.nights, COUNT(*) FROM patients p LEFT JOIN visits v ON p.id = v.patient_id AND v.nights < 4 GROUP BY v.nights
SELECT date_trunc('year', v.admitted) AS y, v.urgent, COUNT(*), SUM(v.cost) FROM visits v RIGHT JOIN patients p ON p.id = v.patient_id GROUP BY 1, 2
SELECT v.nights > 2 AS long, COUNT(*) FROM patients p LEFT JOIN visits v ON p.id = v.patient_id GROUP BY 1
SELECT d.doctor, COUNT(*) FROM patients p LEFT JOIN (SELECT patient_id, doctor FROM visits WHERE doctor IN ('Adams', 'Baker')) d ON p.id = d.patient_id GROUP BY 1
SELECT first, COUNT(*) FROM (SELECT id, MIN(v.nights) AS first FROM patients LEFT JOIN visits v ON id = v.patient_id GROUP BY id) GROUP BY first
SELECT p.sex, v.ward, COUNT(*) FROM patients p FULL JOIN visits v ON p.id = v.patient_id AND v.urgent GROUP BY 1, 2
SELECT ward, COUNT(*) FROM visits WHERE ward = 'surgery' OR ward IS NULL GROUP BY ward
SELECT SUM(DISTINCT nights) AS s FROM visits
SELECT AVG(DISTINCT nights) AS a, COUNT(DISTINCT nights) AS n FROM visits
SELECT ward, SUM(DISTINCT cost) AS s, AVG(DISTINCT cost) AS a FROM visits GROUP BY ward
SELECT SUM(DISTINCT nights - 30) FILTER (WHERE urgent) AS s FROM visits
SELECT AVG(DISTINCT ms) AS a, SUM(DISTINCT CLAMP(code, 0, 9)) AS c FROM log
SELECT ward, SUM(CLAMP(CAST(note AS INTEGER), 0, 9)), COUNT(CAST(note AS DATE)) FROM visits GROUP BY ward
SELECT AVG(CLAMP(CAST(note AS DOUBLE), 0, 9)) FROM visits
SELECT ward, GEOMETRIC_MEAN(CLAMP(cost, 1, 5000)), GEOMEAN(CLAMP(nights, 1, 60)) AS g FROM visits GROUP BY ward
