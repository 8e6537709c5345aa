SELECT COUNT(*), SUM(cost) FROM visits SEMI JOIN wards USING (ward)
SELECT COUNT(*) FROM visits ANTI JOIN wards USING (ward)
SELECT ward, COUNT(*) FROM visits v LEFT SEMI JOIN patients p ON p.id = v.patient_id AND p.sex = 'F' GROUP BY ward
SELECT COUNT(*), AVG(cost) FROM visits v ANTI JOIN patients p ON p.id = v.patient_id AND p.active
SELECT sex, COUNT(*) FROM patients p ANTI JOIN visits v ON v.patient_id = p.id GROUP BY sex
SELECT p.sex, w.floor, COUNT(*), SUM(v.cost) FROM patients p, wards w, visits v WHERE p.id = v.patient_id AND w.ward = v.ward AND v.cost > 10 GROUP BY p.sex, w.floor
SELECT COUNT(*) FROM visits v, wards w WHERE (w.ward = v.ward AND w.floor > 3) OR (v.urgent AND w.ward = v.ward)
SELECT ward, SUM(nights) AS nights FROM visits GROUP BY ward HAVING nights > 3
SELECT AVG(c) FROM (SELECT patient_id, FIRST_VALUE(cost) OVER (PARTITION BY patient_id ORDER BY admitted, visit_id) AS c FROM visits)
SELECT w, COUNT(*) FROM (SELECT patient_id, LAST_VALUE(ward) OVER (PARTITION BY patient_id ORDER BY visit_id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS w FROM visits) GROUP BY w
SELECT d, COUNT(*) FROM (SELECT patient_id, LAST_VALUE(visit_id) OVER (PARTITION BY patient_id ORDER BY visit_id) = visit_id AS d FROM visits) GROUP BY d
SELECT AVG(c) FROM (SELECT patient_id, ARG_MAX(cost, admitted) AS c FROM visits GROUP BY patient_id)
SELECT w, COUNT(*) FROM (SELECT patient_id, MAX_BY(ward, visit_id) AS w, MIN_BY(cost, visit_id) FILTER (WHERE urgent) AS c FROM visits GROUP BY patient_id) GROUP BY w
SELECT k, COUNT(*) FROM (SELECT patient_id, MAX_BY(urgent, visit_id) AS k FROM visits GROUP BY patient_id) GROUP BY k
SELECT s, COUNT(*) FROM (SELECT patient_id, ANY_VALUE(sex) AS s FROM visits v JOIN patients p ON p.id = v.patient_id GROUP BY patient_id) GROUP BY s
SELECT AVG(cost) FROM (SELECT * FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY visit_id) = 1)
SELECT ward, COUNT(*) FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY visit_id DESC) AS r FROM visits QUALIFY r <= 2 AND cost > 5) GROUP BY ward
SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward QUALIFY ROW_NUMBER() OVER (ORDER BY ward DESC) <= 2
SELECT AVG(cost) FROM (SELECT DISTINCT ON (patient_id) patient_id, cost FROM visits ORDER BY patient_id, visit_id DESC)
SELECT ward, COUNT(*) FROM (SELECT DISTINCT ON (patient_id, ward) patient_id AS p, ward, nights AS k FROM visits ORDER BY p, k DESC NULLS LAST, visit_id) GROUP BY ward
SELECT COUNT(*) FROM visits v WHERE cost > (SELECT AVG(cost) FROM visits w WHERE w.patient_id = v.patient_id)
SELECT COUNT(*) FROM patients p WHERE (SELECT COUNT(*) FROM visits v WHERE v.patient_id = p.id AND v.urgent) = 0
SELECT sex, AVG((SELECT SUM(nights) FROM visits v WHERE v.patient_id = p.id)) FROM patients p GROUP BY sex
SELECT s, COUNT(*) FROM (SELECT patient_id, (SELECT p.sex FROM patients p WHERE p.id = v.patient_id) AS s FROM visits v) GROUP BY s
SELECT COUNT(*) FROM visits v WHERE nights > (SELECT MAX(w.beds) - 20 FROM wards w WHERE w.ward = v.ward)
SELECT f, COUNT(*) FROM (SELECT (SELECT MAX(w.floor) FROM wards w WHERE w.ward = v.ward) AS f FROM visits v) GROUP BY f
SELECT COUNT(*) FROM prescriptions r WHERE dose > (SELECT v.nights FROM visits v WHERE v.visit_id = r.visit_id)
SELECT COUNT(*), SUM(refills) FROM prescriptions WHERE visit_id IN (SELECT visit_id FROM visits WHERE urgent)
SELECT COUNT(*) FROM visits WHERE visit_id NOT IN (SELECT visit_id FROM prescriptions WHERE dose > 3)
SELECT AVG(n) FROM (SELECT patient_id, session, COUNT(*) AS n FROM (SELECT patient_id, SUM(fresh) OVER (PARTITION BY patient_id ORDER BY seen, visit_id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS session FROM (SELECT patient_id, visit_id, seen, CASE WHEN LAG(seen) OVER (PARTITION BY patient_id ORDER BY seen, visit_id) IS NULL OR DATE_DIFF('hour', LAG(seen) OVER (PARTITION BY patient_id ORDER BY seen, visit_id), seen) > 24 THEN 1 ELSE 0 END AS fresh FROM visits)) GROUP BY patient_id, session)
