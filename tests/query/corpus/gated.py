"""Queries made to be as much work as possible where one person's rows exist, and none where they do not."""

from __future__ import annotations

import random
from collections.abc import Callable

__all__ = ["PERSON", "gated"]

#: Persons whose rows the conditions ask for.
PERSON = 77
_GATE = f"patient_id = {PERSON}"

Maker = Callable[[random.Random], str]


def _values(pick: random.Random) -> str:
    rows = pick.choice((2, 10, 30, 60))
    same = pick.random() < 0.3
    return f"(VALUES {', '.join(f'({1 if same else n})' for n in range(rows))})"


def _rows(pick: random.Random, depth: int) -> str:
    """A query of one person's rows, with the columns patient_id, n and t."""
    if depth == 0:
        return f"SELECT patient_id, nights AS n, note AS t FROM visits WHERE {_GATE}"
    below = _rows(pick, depth - 1)
    other = _rows(pick, pick.randrange(depth))
    n = pick.randrange(5)
    shapes = [
        f"SELECT a.patient_id, a.n, a.t FROM ({below}) a CROSS JOIN {_values(pick)} x{n}(k)",
        f"SELECT a.patient_id, a.n + k AS n, a.t FROM ({below}) a JOIN {_values(pick)} x(k) ON k <= a.n % 40",
        f"SELECT a.patient_id, a.n, a.t FROM ({below}) a JOIN {_values(pick)} x(k) ON k = a.n % 60",
        f"SELECT a.patient_id, a.n, b.t FROM ({below}) a JOIN ({other}) b ON a.patient_id = b.patient_id",
        f"SELECT a.patient_id, b.n, a.t FROM ({below}) a LEFT JOIN ({other}) b "
        "ON a.patient_id = b.patient_id AND a.n < b.n",
        f"SELECT a.patient_id, a.n, a.t FROM ({below}) a JOIN wards w ON w.beds > a.n",
        f"SELECT a.patient_id, w.floor AS n, a.t FROM ({below}) a LEFT JOIN wards w ON w.floor = a.n % 5",
        f"SELECT * FROM ({below}) UNION ALL SELECT * FROM ({other})",
        f"SELECT patient_id, row_number() OVER (PARTITION BY patient_id ORDER BY t) AS n, t FROM ({below})",
        f"SELECT patient_id, n, MAX(t) AS t FROM ({below}) GROUP BY patient_id, n",
        f"SELECT patient_id, COUNT(DISTINCT t) AS n, MIN(t || t) AS t FROM ({below}) GROUP BY patient_id",
        f"SELECT DISTINCT patient_id, n, t FROM ({below})",
        f"SELECT * FROM ({below}) WHERE t LIKE '%a_a%a_a%b' OR n >= 0 OR t IS NULL",
        f"SELECT * FROM ({below}) WHERE n > (SELECT COUNT(*) - 5000 FROM {_values(pick)} a, {_values(pick)} b)",
        f"SELECT * FROM ({below}) WHERE n NOT IN (SELECT k FROM {_values(pick)} x(k)) OR TRUE",
        f"SELECT * FROM ({below}) a WHERE EXISTS (SELECT 1 FROM ({other}) b WHERE b.patient_id = a.patient_id "
        "AND b.n > a.n) OR n > 3",
    ]
    return pick.choice(shapes)


def gated(seed: int) -> str:
    """One query; equal seeds give equal ones."""
    pick = random.Random(seed)
    rows = _rows(pick, pick.randint(1, 4))
    asked = pick.choice(("COUNT(*)", "COUNT(*), MEDIAN(CLAMP(n, 0, 9))", "COUNT(DISTINCT t)", "SUM(CLAMP(n, 0, 9))"))
    return f"SELECT {asked} FROM ({rows}) q"
