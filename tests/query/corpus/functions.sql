SELECT AVG(EXTRACT(EPOCH FROM seen)) FROM visits
SELECT ward, AVG(EXTRACT(EPOCH FROM seen - CAST(admitted AS TIMESTAMP))) AS seconds FROM visits GROUP BY ward
SELECT STRFTIME(admitted, '%Y-%m') AS month, COUNT(*), AVG(cost) FROM visits GROUP BY month ORDER BY month
SELECT STRFTIME(seen, '%H') AS hour, COUNT(*) FROM visits GROUP BY hour
SELECT MONTHNAME(admitted) AS month, SUM(nights) FROM visits GROUP BY month
SELECT DAYNAME(admitted) AS day, COUNT(*) FROM visits GROUP BY day
SELECT COUNT(*) FROM visits WHERE seen - CAST(admitted AS TIMESTAMP) > INTERVAL '3 days'
SELECT COUNT(*) FROM visits WHERE seen - CAST(admitted AS TIMESTAMP) BETWEEN INTERVAL '0 days' AND INTERVAL '36 hours'
SELECT EXTRACT(ISOYEAR FROM admitted) AS y, EXTRACT(WEEK FROM admitted) AS w, COUNT(*) FROM visits GROUP BY y, w
SELECT AVG(EXTRACT(YEAR FROM AGE(TIMESTAMP '2024-12-31 00:00:00', CAST(birth AS TIMESTAMP)))) AS age FROM patients
SELECT EXTRACT(YEAR FROM AGE(TIMESTAMP '2024-12-31 00:00:00', CAST(birth AS TIMESTAMP))) // 10 AS decade, COUNT(*) FROM patients GROUP BY decade
SELECT MEDIAN(EXTRACT(DAY FROM seen - CAST(admitted AS TIMESTAMP))) FROM visits
SELECT COUNT(*) FROM visits WHERE admitted + INTERVAL (nights) DAY < DATE '2022-01-01'
SELECT COUNT(*) FROM visits WHERE TRY_STRPTIME(note, '%Y-%m-%d') IS NULL
SELECT CORR(weight, year(birth)), COVAR_POP(weight, year(birth)), COVAR_SAMP(weight, year(birth)) FROM patients
SELECT REGR_SLOPE(weight, year(birth)), REGR_INTERCEPT(weight, year(birth)), REGR_R2(weight, year(birth)) FROM patients
SELECT REGR_COUNT(weight, year(birth)), REGR_AVGX(weight, year(birth)), REGR_AVGY(weight, year(birth)) FROM patients
SELECT REGR_SXX(weight, year(birth)), REGR_SYY(weight, year(birth)), REGR_SXY(weight, year(birth)) FROM patients
SELECT ward, CORR(cost, nights), COUNT(*) FROM visits GROUP BY ward
SELECT CORR(cost, nights) FILTER (WHERE urgent) AS r FROM visits
SELECT COVAR_SAMP(nights, nights), AVG(nights), COUNT(*) FROM visits
SELECT CORR(nights, nights * nights), AVG(nights), VARIANCE(nights) FROM visits
SELECT sex, CORR(total, n) FROM (SELECT sex, id, SUM(cost) AS total, COUNT(*) AS n FROM patients JOIN visits ON id = patient_id GROUP BY sex, id) GROUP BY sex
SELECT CORR(CLAMP(score, 0, 10), CLAMP(points, -5, 5)) FROM visits
SELECT COUNT(DISTINCT (ward, nights)) FROM visits
SELECT CORR(cost, 5), COVAR_POP(cost, 5), COUNT(*) FROM visits
SELECT COUNT(*) FROM visits WHERE REGEXP_MATCHES(note, '^a[b-z]*')
SELECT REGEXP_MATCHES(doctor, '^(Dr|Prof)[.]? ') AS titled, COUNT(*) FROM visits GROUP BY titled
SELECT COUNT(*) FILTER (WHERE REGEXP_MATCHES(note, 'x|[0-9]{2}', 'i')) * 1.0 / COUNT(*) AS share FROM visits
SELECT COUNT(*) FROM visits WHERE note ~ '^a.*c$' OR note !~ '^.{1,3}$'
SELECT COUNT(*) FROM visits WHERE REGEXP_FULL_MATCH(note, 'a|bc')
SELECT REGEXP_EXTRACT(ward, '[a-z]') AS initial, COUNT(*) FROM visits GROUP BY initial
SELECT REGEXP_REPLACE(ward, '[aeiou]+', '', 'g') AS short, AVG(nights) FROM visits GROUP BY short
SELECT REGEXP_EXTRACT(note, '[0-9]+') AS number, COUNT(*) FROM visits GROUP BY number
SELECT CONCAT_WS(' / ', ward, CASE WHEN urgent THEN 'urgent' END) AS k, COUNT(*) FROM visits GROUP BY k
SELECT COUNT(*) FROM visits WHERE nights = '5'
SELECT month, AVG(n) OVER (ORDER BY month ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS moving FROM (SELECT DATE_TRUNC('month', admitted) AS month, COUNT(*) AS n FROM visits GROUP BY month) ORDER BY month
SELECT month, SUM(n) OVER (ORDER BY month ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS around, COUNT(*) OVER (ORDER BY month ROWS 3 PRECEDING) AS rows FROM (SELECT DATE_TRUNC('month', admitted) AS month, SUM(nights) AS n FROM visits GROUP BY month)
SELECT ward, urgent, SUM(n) OVER (PARTITION BY ward ORDER BY urgent ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING) AS before, COUNT(n) OVER (PARTITION BY ward ORDER BY urgent ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS after FROM (SELECT ward, urgent, COUNT(*) AS n FROM visits GROUP BY ward, urgent)
SELECT DATE_TRUNC('year', admitted) AS y, COUNT(*) AS n, AVG(COUNT(*)) OVER (ORDER BY DATE_TRUNC('year', admitted) ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS two FROM visits GROUP BY y
SELECT t.n, COUNT(*) FROM visits v JOIN generate_series(0, 10, 2) AS t(n) ON v.nights = t.n GROUP BY t.n
SELECT d.month, COUNT(*), AVG(v.cost) FROM visits v JOIN generate_series(DATE '2023-01-01', DATE '2023-12-01', INTERVAL '1' MONTH) AS d(month) ON DATE_TRUNC('month', v.admitted) = d.month GROUP BY d.month
WITH t AS (SELECT MONTHNAME(admitted) AS month, cost FROM visits WHERE urgent) SELECT month, AVG(cost) AS a FROM t GROUP BY month
SELECT y, sex, AVG(n) FROM (SELECT patient_id, STRFTIME(admitted, '%Y') AS y, COUNT(*) AS n FROM visits GROUP BY 1, 2) v JOIN patients p ON p.id = v.patient_id GROUP BY y, sex
SELECT ward, APPROX_QUANTILES(cost, 4)[OFFSET(3)] AS q3 FROM visits GROUP BY ward
