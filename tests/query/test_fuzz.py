"""Whatever is sent, the outcome is a query or a refusal; bounded in number, the same on every run."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from query.corpus.accepted import ACCEPTED
from query.corpus.clinic import CATALOG
from query.corpus.hostile_texts import HOSTILE_TEXTS, quoted
from query.corpus.refused import REFUSED
from support.bits import SeededBits
from tacit.query.aggregates import SQL_NAMES
from tacit.query.refusal import Refusal
from tacit.query.relational.functions import REGISTRY
from tacit.query.resolve import resolve
from tacit.query.resolve.sql_functions import RAW_AGGREGATES, VOLATILE

_SETTINGS = settings(
    max_examples=400,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
_COLUMNS = re.findall(
    r"\S+",
    "id sex birth city weight active visit_id patient_id ward cost nights admitted seen score points note doctor "
    "urgent drug dose floor beds staff_id salary level ms code x y n missing v.cost a.ward t.x *",
)
_CONSTANTS = re.findall(
    r"\S+",
    "0 1 -1 3.5 .5 1e5 1e400 99999999999999999999 'a' '' '2020-01-01' 'x%' NULL TRUE FALSE DATE'2021-02-03' "
    "INTERVAL'1'DAY $1 ? [1,2] (1,2)",
) + [quoted(text) for text in HOSTILE_TEXTS]
_FUNCTIONS = sorted({*REGISTRY, *SQL_NAMES, "if", "nullif", "date_part", "row_number", "lag", "nope"})
_OPERATORS = re.findall(r"\S+", "+ - * / // % ^ || = <> < <= > >= AND OR LIKE IN IS & ~")
_TABLES = re.findall(r"\S+", "visits visits visits patients prescriptions wards staff log nothing a b")


class Grammar:
    """Random queries, most of them almost right; the same ones on every run."""

    def __init__(self, seed: int) -> None:
        self.bits = SeededBits(seed)

    def below(self, count: int) -> int:
        return self.bits.bits(32) % count

    def one(self, words: Sequence[str]) -> str:
        return words[self.below(len(words))]

    def sometimes(self, share: int, text: str) -> str:
        return text if self.below(share) == 0 else ""

    def expression(self, depth: int = 2) -> str:
        if depth == 0:
            return self.one(_COLUMNS) if self.below(2) else self.one(_CONSTANTS)
        part, other = self.expression(depth - 1), self.expression(depth - 1)
        choices: list[Callable[[], str]] = [
            lambda: self.one(_COLUMNS),
            lambda: self.one(_COLUMNS),
            lambda: self.one(_CONSTANTS),
            lambda: f"({part} {self.one(_OPERATORS)} {other})",
            lambda: f"{self.one(_FUNCTIONS)}({self.sometimes(8, 'DISTINCT ')}{part})",
            lambda: f"{self.one(_FUNCTIONS)}({part}, {other})",
            lambda: f"SUM(CLAMP({part}, 0, 5))",
            lambda: f"COUNT({part})",
            lambda: f"CASE WHEN {part} THEN {other} END",
            lambda: f"CAST({part} AS {self.one(('INTEGER', 'DOUBLE', 'TEXT', 'DATE', 'DECIMAL(9,2)', 'BLOB'))})",
            lambda: f"COUNT(*) FILTER (WHERE {part})",
            lambda: f"{self.one(_FUNCTIONS)}({part}) OVER (PARTITION BY {self.one(_COLUMNS)} ORDER BY {other})",
            lambda: f"{part} BETWEEN {other} AND 9",
            lambda: f"{part} IS NOT NULL",
            lambda: f"{part} IN ({self.query(0)})",
            lambda: f"EXISTS ({self.query(0)})",
        ]
        return choices[self.below(len(choices) if depth > 1 else len(choices) - 2)]()

    def number(self, depth: int = 2) -> str:
        if self.below(40) == 0:
            return self.expression(1)
        if depth == 0:
            return self.one(("nights", "cost", "points", "score", "3", "0.5", "-2", "1e3", "NULL"))
        part, other = self.number(depth - 1), self.number(depth - 1)
        return self.one(
            (
                f"({part} {self.one(('+', '-', '*', '/', '%'))} {other})",
                f"{self.one(('abs', 'round', 'floor', 'sqrt', 'coalesce', 'least'))}({part})",
                f"greatest({part}, {other})",
                f"CASE WHEN {self.condition(depth - 1)} THEN {part} ELSE {other} END",
                f"CAST({part} AS DOUBLE)",
                part,
            )
        )

    def condition(self, depth: int = 2) -> str:
        if self.below(40) == 0:
            return self.expression(1)
        if depth == 0:
            return self.one(
                ("urgent", "note LIKE 'a%'", "ward IN ('surgery', 'x')", "doctor IS NULL", "TRUE", "cost > 5")
            )
        part = self.condition(depth - 1)
        return self.one(
            (
                f"({part} {self.one(('AND', 'OR'))} {self.condition(depth - 1)})",
                f"NOT {part}",
                f"{self.number(1)} {self.one(('<', '>=', '=', '<>', 'IS DISTINCT FROM'))} {self.number(1)}",
                f"{self.number(1)} BETWEEN 1 AND {self.number(0)}",
                "ward IN (SELECT ward FROM wards WHERE beds > 3)",
                "patient_id IN (SELECT id FROM patients)",
            )
        )

    def aggregate(self) -> str:
        if self.below(30) == 0:
            return self.expression()
        bounded = f"CLAMP({self.number()}, 0, {self.one(('1', '10', '0.5'))})"
        name = self.one(("SUM", "AVG", "MEDIAN", "MIN", "MAX", "STDDEV", "VAR_POP", "SUM"))
        plain = self.one(("COUNT(*)", f"{name}({bounded})", "COUNT(DISTINCT patient_id)", "COUNT(note)", "MODE(ward)"))
        return self.one(
            (
                plain,
                f"{plain} FILTER (WHERE {self.condition(1)})",
                f"{plain} / COUNT(*)" if "MODE" not in plain else plain,
            )
        )

    def source(self, depth: int) -> str:
        wild = "" if self.below(30) else self.one(_TABLES)
        inner = f"SELECT * FROM visits WHERE {self.condition(1)}"
        return wild or self.one(
            (
                "visits",
                "visits AS v",
                f"({inner}) AS v",
                f"({inner} UNION ALL SELECT * FROM visits) v",
                "visits JOIN (SELECT id FROM patients) p ON patient_id = id",
                "visits LEFT JOIN (SELECT ward AS w, floor FROM wards) x ON ward = w",
                f"({self.query(depth - 1)}) AS q" if depth else "visits",
                "(SELECT *, row_number() OVER (PARTITION BY patient_id ORDER BY admitted) AS r FROM visits)",
            )
        )

    def query(self, depth: int = 2) -> str:
        keys = (
            "ward",
            "urgent",
            "doctor",
            "nights // 7",
            "date_trunc('year', admitted)",
            "ROLLUP (ward)",
            "patient_id",
        )
        key = self.one(keys)
        items = ", ".join(f"{self.aggregate()} AS a{i}" for i in range(1 + self.below(3)))
        clauses = [
            self.sometimes(2, f"WHERE {self.condition()}"),
            self.sometimes(4, f"HAVING {self.aggregate()} > 1"),
            self.sometimes(5, f"ORDER BY {self.one(('a0', '1', 'COUNT(*) DESC', self.expression(1)))}"),
            self.sometimes(8, f"LIMIT {self.one(('3', '0', 'ALL', self.one(_CONSTANTS)))}"),
        ]
        if self.below(2):
            items = f"{key} AS k, {items}"
            clauses.insert(1, f"GROUP BY {self.one(('k', key, '1', 'ALL'))}")
        text = f"SELECT {self.sometimes(20, 'DISTINCT')} {items} FROM {self.source(depth)} {' '.join(clauses)}"
        if depth and self.below(20) == 0:
            text = f"{text} {self.one(('UNION ALL', 'UNION', 'EXCEPT'))} {self.query(0)}"
        if depth and self.below(10) == 0:
            text = f"WITH a AS ({self.query(0)}) {text}"
        return text


def _survives(sql: str) -> bool:
    """Whether it was accepted; anything but a query or a refusal fails."""
    try:
        query = resolve(sql, CATALOG)
    except Refusal:
        return False
    assert hash(query) == hash(query)
    assert query.digest
    return True


@pytest.mark.deep
def test_queries_of_a_grammar() -> None:
    grammar = Grammar(20261116)
    outcomes = [_survives(grammar.query()) for _ in range(900)]
    assert 200 < sum(outcomes) < 800, "a fuzzer that only meets refusals tests little"


_CORPUS = [*ACCEPTED, *(sql for _, sql in REFUSED if len(sql) < 500)]
_WORDS = sorted({word for sql in _CORPUS for word in sql.split()})


@_SETTINGS
@given(data=st.data())
def test_corpus_queries_with_words_dropped_swapped_and_put_in(data: st.DataObject) -> None:
    words = data.draw(st.sampled_from(_CORPUS)).split()
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(words)))
        match data.draw(st.integers(0, 3)):
            case 0:
                words[place : place + 1] = []
            case 1:
                words.insert(place, data.draw(st.sampled_from(_WORDS)))
            case 2:
                words[place : place + 2] = reversed(words[place : place + 2])
            case _:
                words = words[:place]
    _survives(" ".join(words))


@_SETTINGS
@given(sql=st.text(max_size=60))
def test_any_text_at_all(sql: str) -> None:
    _survives(sql)
    _survives("SELECT " + sql)
    _survives(f"SELECT COUNT(*) FROM visits WHERE note = '{sql}'")


def test_every_word_in_every_place_of_a_call() -> None:
    for name in sorted({*REGISTRY, *SQL_NAMES, *RAW_AGGREGATES, *VOLATILE}):
        for arguments in ("", "*", "cost", "note, 1, 2"):
            _survives(f"SELECT {name}({arguments}) FROM visits")
            _survives(f"SELECT COUNT(*) FROM visits WHERE {name}({arguments}) IS NULL")
            _survives(f"SELECT {name}({arguments}) OVER (PARTITION BY patient_id) FROM visits")
