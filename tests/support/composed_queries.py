"""Queries composed at random of the forms of SQL that one query may have, over the clinic of the corpus.

Each is written so that it is nearly always accepted: keys, conditions, aggregates and forms fit together by type. The
same seed gives the same queries on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import TypeVar

from query.corpus.hostile_texts import HOSTILE_TEXTS, quoted
from support.bits import SeededBits

__all__ = ["composed"]

T = TypeVar("T")

_NUMBERS = (
    "cost", "nights", "CLAMP(points, 0, 50)", "CLAMP(score, -5, 5)", "EXTRACT(hour FROM seen)", "EXTRACT(doy FROM admitted)",
    "WIDTH_BUCKET(cost, 0, 5000, 8)", "CLAMP(LENGTH(note), 0, 40)", "CASE WHEN urgent THEN nights ELSE 0 END",
    "CLAMP(date_diff('day', admitted, DATE '2024-12-31'), 0, 2000)", "COALESCE(nights, 1) * 2",
    "EXTRACT(hour FROM seen AT TIME ZONE 'UTC' AT TIME ZONE 'America/New_York')", "LEAST(nights, 20)", "nights % 7",
    "EXTRACT(hour FROM seen AT TIME ZONE 'Europe/Berlin' AT TIME ZONE 'UTC')", "CLAMP(TRY_CAST(note AS INTEGER), 0, 99)", "CLAMP(score, AUTO)",
    "CLAMP(EPOCH(seen) / 86400 - 18000, 0, 3000)", "CLAMP(date_diff('hour', seen, TIMESTAMP '2022-01-01 00:00:00'), -90, 90)",
)  # fmt: skip
_KEYS = (
    "ward", "urgent", "EXTRACT(year FROM admitted)", "EXTRACT(quarter FROM admitted)",
    "date_trunc('year', admitted)", "CASE WHEN nights > 3 THEN 'long' ELSE 'short' END", "WIDTH_BUCKET(nights, 0, 60, 4)",
    "UPPER(LEFT(ward, 3))",
    "EXTRACT(dow FROM seen AT TIME ZONE 'UTC' AT TIME ZONE 'Asia/Tokyo')",     "EXTRACT(dow FROM seen AT TIME ZONE 'America/New_York' AT TIME ZONE 'Asia/Tokyo')", "urgent AND nights = '2'",
)  # fmt: skip
_CHOSEN_KEYS = (
    "doctor", "LEFT(note, 2)", "CONCAT_WS('-', ward, doctor)", "points", "MONTHNAME(admitted)", "DAYNAME(admitted)",
    "date_trunc('month', seen AT TIME ZONE 'Asia/Tokyo' AT TIME ZONE 'UTC')", "STRFTIME(admitted, '%m')",
)  # fmt: skip
_CONDITIONS = (
    "urgent", "cost > 100", "nights BETWEEN 1 AND 9", "ward = 'surgery'", "ward <> 'oncology'", "ward IN ('surgery', 'cardiology')",
    "REGEXP_MATCHES(note, '^[a-z]+$')", "note LIKE 'a%'", "admitted >= DATE '2021-06-01'", "EXTRACT(month FROM admitted) < 7",
    "doctor IS NOT NULL", "seen + INTERVAL '2' DAY > TIMESTAMP '2021-01-01 00:00:00'",
    "EXISTS (SELECT 1 FROM prescriptions x JOIN visits y ON x.visit_id = y.visit_id WHERE y.patient_id = visits.patient_id)",
    "ward IN (SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 3)", "ward IN (SELECT ward FROM wards ORDER BY beds DESC LIMIT 2)",
    "EXTRACT(hour FROM seen AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin') < 12",
    "cost > (SELECT AVG(cost) FROM visits)", "nights < (SELECT MAX(beds) FROM wards)", "SPLIT_PART(note, ' ', 1) <> ''",
    "ward IN (SELECT k FROM (VALUES ('surgery'), ('oncology')) t(k))", "NOT EXISTS (SELECT 1 FROM wards w WHERE w.ward = visits.ward AND w.beds > 20)",
    "patient_id IN (SELECT id FROM patients WHERE active)", "note = 12", "doctor <> 3", "nights IN ('1', '2', '3')", "urgent = 1", "cost > '20'",
    "seen AT TIME ZONE 'Europe/Berlin' AT TIME ZONE 'UTC' < TIMESTAMP '2022-06-01 00:00:00'", "note BETWEEN 1 AND 20",
    "patient_id IN (SELECT patient_id FROM visits GROUP BY patient_id HAVING COUNT(*) > 3)",
    *(f"{column} {sign} {quoted(text)}" for column, sign, text in zip(cycle(("note", "doctor")), cycle(("<>", "=", ">")), HOSTILE_TEXTS)),
    *(f"EXISTS (SELECT 1 FROM prescriptions x JOIN visits y ON x.visit_id = y.visit_id AND y.note <> {quoted(text)} WHERE y.patient_id = visits.patient_id)" for text in HOSTILE_TEXTS[::6]),
)  # fmt: skip
_WHOLE_NUMBERS = ("nights", "cost", "CLAMP(points, -20, 50)", "nights - 30", "CLAMP(LENGTH(note), 0, 40)")
_WHOLE = ("COUNT(*)", "COUNT(DISTINCT patient_id)", "COUNT(doctor)", "COUNT(*) FILTER (WHERE urgent)")
_PAIRS = ("CORR", "COVAR_POP", "REGR_SLOPE", "REGR_R2")


class _Composer:
    """Random parts that fit together."""

    def __init__(self, seed: int) -> None:
        self._bits = SeededBits(seed)

    def below(self, count: int) -> int:
        return self._bits.bits(32) % count

    def one(self, words: Sequence[T]) -> T:
        return words[self.below(len(words))]

    def some(self, words: Sequence[str], most: int) -> list[str]:
        return list(dict.fromkeys(self.one(words) for _ in range(1 + self.below(most))))

    def where(self) -> str:
        return f" WHERE {' AND '.join(self.some(_CONDITIONS, 2))}" if self.below(3) else ""

    def additive(self) -> str:
        number = self.one(_NUMBERS)
        return self.one((*_WHOLE[::2], f"SUM({number})", f"AVG({number})", f"VAR_SAMP({number})"))

    def aggregate(self) -> str:
        number, other = self.one(_NUMBERS), self.one(_NUMBERS)
        return self.one(
            (
                self.additive(), self.one(_WHOLE), f"MEDIAN({number})", f"QUANTILE_DISC({number}, 0.25)",
                f"COUNT(DISTINCT {number})", f"{self.one(('SUM', 'AVG'))}(DISTINCT {self.one(_WHOLE_NUMBERS)})",
                f"{self.one(_PAIRS)}({number}, {other})", f"MAX({number})",
                "MODE(ward)", f"APPROX_QUANTILES({number}, 4)[OFFSET(1)]",
                f"SUM({number}) FILTER (WHERE {self.one(_CONDITIONS[:6])})", "SUM(score, contribution_bounds_per_group => (-9, 50))",
            )
        )  # fmt: skip

    def plain(self) -> str:
        keys = self.some(self.one((_KEYS, _KEYS, _CHOSEN_KEYS)), 1 + (self.below(3) == 0))
        listed = ", ".join(f"{key} AS k{i}" for i, key in enumerate(keys))
        found = ", ".join(
            f"{each} AS a{i}" for i, each in enumerate(self.some([self.aggregate() for _ in range(3)], 3))
        )
        places = ", ".join(str(i + 1) for i in range(len(keys)))
        tail = self.one(("", f" ORDER BY {places}", " HAVING COUNT(*) > 2", " ORDER BY a0 DESC, 1 LIMIT 3"))
        return f"SELECT {listed}, {found} FROM visits{self.where()} GROUP BY {places}{tail}"

    def total(self) -> str:
        return f"SELECT {self.aggregate()} AS a FROM visits{self.where()}"

    def sets(self) -> str:
        keys = [f"k{i}" for i in range(2)]
        inner = ", ".join(f"{key} AS k{i}" for i, key in enumerate([*self.some(_KEYS, 1), "ward"]))
        form = self.one(
            (
                "ROLLUP (k0, k1)",
                "CUBE (k0, k1)",
                "GROUPING SETS ((k0), (k1), ())",
                "k0, ROLLUP (k1)",
                "GROUPING SETS ((k0, k1), ())",
            )
        )
        return (
            f"SELECT {', '.join(keys)}, GROUPING(k0) AS g, {self.additive().replace('doctor', 'nights')} AS a FROM (SELECT *, "
            f"{inner} FROM visits{self.where()}) t GROUP BY {form}"
        )

    def bins(self) -> str:
        """Rows of bins, beside keys or alone."""
        bins = self.one(("nights, 0, 60, 6", "cost, 0, 900, 9", "CLAMP(score, -5, 5), -5, 5, 4", "points, -3, 61, 8"))
        kept = self.one(("", " FILTER (WHERE urgent)", f" FILTER (WHERE {self.one(_CONDITIONS[:6])})"))
        key = self.one(("", self.one(_KEYS), self.one(_CHOSEN_KEYS)))
        listed, group = (f"{key} AS k, ", "1, 2") if key else ("", "1")
        return f"SELECT {listed}WIDTH_BUCKET({bins}) AS b, COUNT(*){kept} FROM visits{self.where()} GROUP BY {group}"

    def person(self) -> str:
        inner = self.one(
            (
                f"SELECT patient_id, {self.one(('COUNT(*)', f'SUM({self.one(_NUMBERS)})', 'COUNT(DISTINCT ward)'))} AS x FROM "
                f"visits{self.where()} GROUP BY patient_id",
                "SELECT patient_id, ARG_MAX(nights, seen) AS x FROM visits GROUP BY patient_id",
                "SELECT patient_id, nights AS x FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY seen, "
                "visit_id) <= 2",
                "SELECT DISTINCT ON (patient_id) patient_id, nights AS x FROM visits ORDER BY patient_id, cost DESC, visit_id",
                "SELECT patient_id, SUM(CASE WHEN b IS NULL OR seen > b + INTERVAL '1' DAY THEN 1 ELSE 0 END) AS x FROM (SELECT "
                "patient_id, seen, LAG(seen) OVER (PARTITION BY patient_id ORDER BY seen, visit_id) AS b FROM visits) s GROUP BY "
                "patient_id",
                "SELECT patient_id, MAX(nights) - MIN(nights) AS x FROM visits GROUP BY patient_id HAVING COUNT(*) > 1",
                "SELECT patient_id, STDDEV(nights) AS x FROM visits GROUP BY patient_id",
                "SELECT id AS patient_id, (SELECT COUNT(*) FROM visits v WHERE v.patient_id = patients.id) AS x FROM patients",
                "SELECT patient_id, FIRST_VALUE(nights) OVER (PARTITION BY patient_id ORDER BY visit_id) AS x FROM visits",
            )
        )
        outer = self.one(("AVG(CLAMP(x, 0, 30))", "COUNT(*)", "SUM(CLAMP(x, 0, 9))", "MEDIAN(CLAMP(x, 0, 20))"))
        key = self.one(("", "p.sex", "CASE WHEN x > 2 THEN 'many' ELSE 'few' END"))
        source = f"({inner}) u" + (" JOIN patients p ON p.id = u.patient_id" if key.startswith("p.") else "")
        listed, group = (f"{key} AS k, ", " GROUP BY 1") if key else ("", "")
        return f"SELECT {listed}{outer} AS a FROM {source}{group}"

    def public(self) -> str:
        return self.one(
            (
                "SELECT w.ward, COUNT(v.visit_id) AS n FROM wards w LEFT JOIN visits v ON v.ward = w.ward GROUP BY w.ward",
                f"SELECT w.floor, {self.one(('COUNT(*)', 'SUM(v.cost)', 'AVG(w.beds)'))} AS a FROM visits v, wards w WHERE v.ward = "
                "w.ward GROUP BY w.floor",
                "SELECT t.k, COUNT(*) AS n FROM visits v JOIN (VALUES ('surgery', 'a'), ('oncology', 'b')) t(ward, k) ON t.ward = "
                "v.ward GROUP BY t.k",
                f"SELECT w.floor, {self.one(('COUNT(v.visit_id)', 'SUM(v.cost)', 'AVG(v.nights)'))} AS a FROM visits v RIGHT JOIN wards w ON "
                f"v.ward = w.ward GROUP BY w.floor ORDER BY {self.one(('1', 'a', 'a DESC'))} LIMIT 3",
                "SELECT g.y, COUNT(v.visit_id) AS n FROM GENERATE_SERIES(2019, 2024) g(y) LEFT JOIN visits v ON "
                "EXTRACT(year FROM v.admitted) = g.y GROUP BY g.y ORDER BY g.y",
                f"SELECT COUNT(*) AS n, {self.additive()} AS a FROM visits SEMI JOIN wards w ON w.ward = visits.ward AND w.beds > "
                f"{self.below(40)}",
            )
        )

    def several(self) -> str:
        one, other = self.additive(), self.additive()
        return self.one(
            (
                f"SELECT (SELECT {one} FROM visits{self.where()}) * 1.0 / (SELECT COUNT(*) FROM patients) AS r",
                f"SELECT 'a' AS k, {one} AS n FROM visits UNION ALL SELECT 'b', {one} FROM visits{self.where()}",
                f"WITH s AS (SELECT ward, {one} AS n FROM visits{self.where()} GROUP BY ward), t AS (SELECT ward, {other} AS m FROM "
                "visits GROUP BY ward) SELECT s.ward, s.n, t.m FROM s JOIN t ON s.ward = t.ward ORDER BY 1",
                f"WITH m AS (SELECT ward, {one} AS n FROM visits{self.where()} GROUP BY ward) SELECT {other.replace('cost', 'v.cost')} AS a "
                f"FROM visits v {self.one(('JOIN', 'LEFT JOIN'))} m ON m.ward = v.ward WHERE v.nights > m.n OR v.urgent",
                f"WITH m AS (SELECT urgent, {one} AS n FROM visits GROUP BY urgent) SELECT m.urgent AS k, COUNT(*) AS a FROM visits v JOIN m "
                "ON m.urgent = v.urgent AND v.nights < m.n GROUP BY 1",
                f"WITH s AS (SELECT ward, {one} AS n FROM visits GROUP BY ward) SELECT ward, n - (SELECT AVG(n) FROM s) AS d FROM s",
                f"SELECT y, n, AVG(n) OVER (ORDER BY y ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS m FROM (SELECT EXTRACT(year FROM "
                f"admitted) AS y, {one} AS n FROM visits{self.where()} GROUP BY 1) s ORDER BY y",
                f"SELECT m, SUM(n) OVER (ORDER BY m {self.one(('ROWS BETWEEN 2 PRECEDING', 'RANGE BETWEEN UNBOUNDED PRECEDING'))} AND CURRENT ROW) AS s FROM "
                f"(SELECT EXTRACT(month FROM admitted) AS m, {one} AS n FROM visits GROUP BY 1) s ORDER BY m",
                f"WITH s AS (SELECT doctor, {one} AS n FROM visits{self.where()} GROUP BY doctor HAVING COUNT(*) > 2) SELECT COUNT(*) AS d, MAX(n) AS x FROM s",
            )
        )

    def query(self) -> str:
        forms = (
            self.plain, self.total, self.sets, self.person, self.public, self.several, self.plain, self.several, self.bins,
        )  # fmt: skip
        return forms[self.below(len(forms))]()


def composed(count: int, seed: int) -> tuple[str, ...]:
    """So many different queries; the same for the same seed."""
    composer = _Composer(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        found[composer.query()] = None
    return tuple(found)
