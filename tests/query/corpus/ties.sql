SELECT c, COUNT(*) FROM (SELECT patient_id, FIRST_VALUE(cost) OVER (PARTITION BY patient_id ORDER BY urgent) AS c FROM visits) GROUP BY c
SELECT c, COUNT(*) FROM (SELECT patient_id, FIRST_VALUE(note) OVER (PARTITION BY patient_id ORDER BY ward DESC NULLS FIRST) AS c FROM visits) GROUP BY c
SELECT c, COUNT(*) FROM (SELECT patient_id, LAST_VALUE(note) OVER (PARTITION BY patient_id ORDER BY urgent) AS c FROM visits) GROUP BY c
SELECT c, COUNT(*) FROM (SELECT patient_id, LAST_VALUE(score) OVER (PARTITION BY patient_id ORDER BY urgent NULLS FIRST ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) > 0 AS c FROM visits) GROUP BY c
SELECT c, d, COUNT(*) FROM (SELECT patient_id, ARG_MAX(note, urgent) AS c, ARG_MIN(points, ward) AS d FROM visits GROUP BY patient_id) GROUP BY c, d
SELECT c, d, COUNT(*) FROM (SELECT patient_id, ANY_VALUE(note) AS c, ANY_VALUE(admitted) FILTER (WHERE urgent) AS d FROM visits GROUP BY patient_id) GROUP BY c, d
SELECT note, COUNT(*) FROM (SELECT DISTINCT ON (patient_id, urgent) patient_id, note FROM visits ORDER BY ward) GROUP BY note
SELECT note, points, COUNT(*) FROM (SELECT * FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY urgent DESC NULLS LAST) <= 2) GROUP BY note, points
SELECT k, COUNT(*) FROM (SELECT note, (SELECT MIN(w.note) FROM visits w WHERE w.patient_id = v.patient_id AND w.urgent = v.urgent) AS k FROM visits v) GROUP BY k
SELECT COUNT(*) FROM visits WHERE visit_id NOT IN (SELECT r.visit_id FROM visits v LEFT JOIN prescriptions r ON r.visit_id = v.visit_id)
SELECT k, COUNT(*) FROM (SELECT v.visit_id IN (SELECT r.visit_id FROM visits w LEFT JOIN prescriptions r ON r.visit_id = w.visit_id) AS k FROM visits v) GROUP BY k
