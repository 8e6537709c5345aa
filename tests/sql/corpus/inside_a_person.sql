SELECT COUNT(*), SUM(cost) FROM visits SEMI JOIN wards USING (ward)
SELECT COUNT(*) FROM visits ANTI JOIN wards USING (ward)
SELECT ward, COUNT(*) FROM visits v LEFT SEMI JOIN patients p ON p.id = v.patient_id AND p.sex = 'F' GROUP BY ward
SELECT COUNT(*), AVG(cost) FROM visits v ANTI JOIN patients p ON p.id = v.patient_id AND p.active
SELECT sex, COUNT(*) FROM patients p ANTI JOIN visits v ON v.patient_id = p.id GROUP BY sex
SELECT p.sex, w.floor, COUNT(*), SUM(v.cost) FROM patients p, wards w, visits v WHERE p.id = v.patient_id AND w.ward = v.ward AND v.cost > 10 GROUP BY p.sex, w.floor
SELECT COUNT(*) FROM visits v, wards w WHERE (w.ward = v.ward AND w.floor > 3) OR (v.urgent AND w.ward = v.ward)
SELECT COUNT(*) FROM visits NATURAL LEFT JOIN wards WHERE floor IS NULL
SELECT ward, SUM(nights) AS nights FROM visits GROUP BY ward HAVING nights > 3
