"""Queries that multiply a person's rows: those beyond the limit of work, and those within it that are cut."""

from __future__ import annotations

__all__ = ["CUT", "TOO_MUCH"]

_LIST = "(VALUES " + ", ".join(f"({n})" for n in range(30)) + ")"
_LISTS = " ".join(f"CROSS JOIN {_LIST} x{i}(a{i})" for i in range(5))
_VALUES = ", ".join(f"{_LIST} x{i}(a{i})" for i in range(5))
_SELF = " ".join(f"JOIN visits v{i} ON v{i}.patient_id = v.patient_id" for i in range(3))

#: Refused with the code ``work``.
TOO_MUCH: tuple[str, ...] = (
    f"SELECT COUNT(*) FROM visits v {_LISTS} WHERE v.patient_id = 424242",
    f"SELECT COUNT(*) FROM visits v {_SELF}",
    # A public product that one person's row may call for.
    f"SELECT COUNT(*) FROM visits WHERE patient_id = 17 AND nights > (SELECT COUNT(*) FROM {_VALUES})",
    f"SELECT COUNT(*) FROM visits v WHERE v.patient_id = 17 AND EXISTS (SELECT 1 FROM {_VALUES} WHERE a0 > 99)",
    f"SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM {_VALUES} WHERE a0 + a1 + a2 + a3 + a4 = v.nights)",
    f"SELECT COUNT(*) FROM visits v JOIN (SELECT a0 + a1 AS k FROM {_VALUES}) q ON q.k = v.nights",
    f"SELECT COUNT(*) FROM visits v JOIN {_LIST} a(k) ON k >= nights JOIN {_LIST} b(l) ON l >= nights "
    f"JOIN {_LIST} c(m) ON m >= nights",
    # Through one's own rows.
    "SELECT COUNT(*) FROM visits a JOIN visits b USING (patient_id) JOIN visits c USING (patient_id)",
    "SELECT COUNT(*) FROM visits a JOIN prescriptions b ON a.visit_id = b.visit_id "
    "JOIN (SELECT patient_id AS p, ward AS w FROM visits) c ON c.p = a.patient_id "
    "JOIN (SELECT patient_id AS q FROM visits) d ON d.q = a.patient_id",
    "WITH p AS (SELECT a.patient_id FROM visits a JOIN visits b USING (patient_id)) "
    "SELECT COUNT(*) FROM p JOIN visits v ON v.patient_id = p.patient_id",
    "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM visits a JOIN visits b USING (patient_id) "
    "WHERE patient_id = v.patient_id AND a.cost + b.cost > v.cost)",
    # Stacked, and multiplied then.
    "WITH t AS (SELECT patient_id, cost FROM visits UNION ALL SELECT patient_id, cost FROM visits), "
    "u AS (SELECT * FROM t UNION ALL SELECT * FROM t) "
    "SELECT COUNT(*) FROM u a JOIN u b ON a.patient_id = b.patient_id",
    # Beside released rows: nothing of any person's, but a machine is shared.
    f"SELECT s.ward, k FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) s "
    f"JOIN (SELECT a0 AS k FROM {_VALUES} WHERE a0 + a1 + a2 = 99) q ON q.k < s.n",
)

#: Accepted, with at most so many rows of a person entering the join.
CUT: tuple[tuple[str, int], ...] = (
    ("SELECT COUNT(*) FROM visits a JOIN visits b ON a.patient_id = b.patient_id AND a.admitted < b.admitted", 256),
    (f"SELECT COUNT(*) FROM visits CROSS JOIN {_LIST} x(a) WHERE a < nights", 256),
    (
        "SELECT COUNT(*) FROM visits v WHERE EXISTS "
        "(SELECT 1 FROM visits w WHERE w.patient_id = v.patient_id AND w.cost > v.cost)",
        256,
    ),
    (
        "SELECT COUNT(*) FROM (SELECT patient_id, cost FROM visits UNION ALL SELECT patient_id, cost FROM visits) a "
        "JOIN patients p ON p.id = a.patient_id JOIN (VALUES (1, 1), (1, 2)) t(k, l) ON k <= a.cost",
        512,
    ),
)
