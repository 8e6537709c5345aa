"""Questions without a private answer are refused, with a stable code and a sentence that says what to change."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path

import pytest

import tacit.query
from sql.corpus.analysts import ASKED_REFUSED
from sql.corpus.clinic import CATALOG
from sql.corpus.refused import REFUSED
from support.each import check_each
from tacit.core.errors import InputError, QueryError
from tacit.query.refusal import CODES, Refusal
from tacit.query.resolve import resolve, resolve_any


def test_the_corpus_is_large_enough() -> None:
    assert len({sql for _, sql in REFUSED}) == len(REFUSED)
    assert len(REFUSED) >= 300
    assert len({sql for _, sql in ASKED_REFUSED} - {sql for _, sql in REFUSED}) >= 200


#: Reasons that are true of some refusals alone.
ONLY_OF = {"own value": ("raw_aggregate",), "data alone": ("volatile",), "unpredictable": ("volatile",)}


def test_every_refusal_shows_a_question_that_is_accepted() -> None:
    assert [sql for _, sql in (*REFUSED, *ASKED_REFUSED) if _instead(sql) is None] == []


def _instead(sql: str) -> str | None:
    try:
        resolve_any(sql, CATALOG)
    except Refusal as refusal:
        return refusal.instead
    raise AssertionError(sql)


@pytest.mark.parametrize(
    ("sql", "instead"),
    [
        ("SELECT COUNT(*) FROM visit", "SELECT COUNT(*) FROM visits"),
        ("SELECT AVG(costs) FROM visits", "SELECT AVG(cost) FROM visits"),
        ("SELECT ward, AVG(cost) FROM visits", "SELECT ward, AVG(cost) FROM visits GROUP BY ward"),
        ("SELECT * FROM visits WHERE urgent", "SELECT COUNT(*) FROM visits WHERE urgent"),
        ("SELECT AVG(score) FROM visits", "SELECT AVG(CLAMP(score, AUTO)) FROM visits"),
        (
            "SELECT COUNT(*) FROM visits v JOIN patients p ON v.cost > p.weight",
            "SELECT COUNT(*) FROM visits AS v JOIN patients AS p ON v.cost > p.weight AND v.patient_id = p.id",
        ),
        (
            "SELECT patient_id, SUM(cost) AS t FROM visits GROUP BY patient_id",
            "SELECT AVG(CLAMP(t, AUTO)) FROM (SELECT patient_id, SUM(cost) AS t FROM visits GROUP BY patient_id) AS t",
        ),
        (
            "SELECT AVG(r) FROM (SELECT ROW_NUMBER() OVER (ORDER BY cost) AS r FROM visits)",
            "SELECT AVG(r) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY cost) AS r FROM visits)",
        ),
        (
            "SELECT COUNT(*) FROM (SELECT * FROM visits ORDER BY cost LIMIT 3)",
            "SELECT COUNT(*) FROM (SELECT * FROM visits)",
        ),
        (
            "SELECT COUNT(*) FROM visits WHERE admitted > CURRENT_DATE AND urgent",
            "SELECT COUNT(*) FROM visits WHERE admitted > CAST('2024-01-01' AS DATE) AND urgent",
        ),
        ("SELECT COUNT(*) FROM visits; SELECT 1", "SELECT COUNT(*) FROM visits"),
        ("SELECT SQTR(cost) AS k, COUNT(*) FROM visits GROUP BY k", "SELECT COUNT(*) FROM visits"),
    ],
)
def test_the_nearest_question(sql: str, instead: str) -> None:
    assert _instead(sql) == instead


def test_suggestions_cost_little_and_depend_on_the_text() -> None:
    """A long text gets the plainest question, and a suggestion is the same each time."""
    sql = "SELECT missing FROM visits WHERE " + " AND ".join(f"cost > {i}" for i in range(300))
    assert _instead(sql) == "SELECT COUNT(*) FROM visits"
    assert len({_instead("SELECT MAX_BY(note, cost) FROM visits") for _ in range(3)}) == 1


def test_every_hostile_query_is_refused_with_its_code() -> None:
    def check(case: tuple[str, str]) -> None:
        reason, sql = case
        with pytest.raises(QueryError) as caught:
            resolve_any(sql, CATALOG)
        refusal = caught.value
        assert isinstance(refusal, Refusal)
        assert refusal.code == f"query.{reason}"
        _check_sentence(refusal.sentence)
        assert not [words for words, codes in ONLY_OF.items() if words in refusal.sentence and reason not in codes]
        if refusal.instead is not None:
            # The rule of the corpus: what a refusal suggests is accepted, and shown.
            assert resolve_any(refusal.instead, CATALOG).columns
            assert str(refusal) == f"{refusal.sentence} Accepted is: {refusal.instead}"

    check_each([*REFUSED, *ASKED_REFUSED], check)


def _check_sentence(sentence: str) -> None:
    assert len(sentence.split()) >= 4
    assert sentence.endswith((".", ")")), sentence
    assert len(sentence) < 400
    assert "\n" not in sentence
    assert "sqlglot" not in sentence.lower()
    assert "\x1b" not in sentence


def test_every_code_is_used_somewhere_and_every_used_code_is_listed() -> None:
    sources = "".join(path.read_text() for path in Path(tacit.query.__file__).parent.rglob("*.py"))
    raised = set(re.findall(r'Refusal\(\s*"(\w+)"', sources)) | set(re.findall(r'\("(\w+)", "[A-Z]', sources))
    assert {reason for reason, _ in REFUSED} <= set(CODES)
    assert set(CODES) - raised - {"nested_aggregate"} == set()


def test_the_corpus_meets_every_code() -> None:
    # Public tables alone are asked about by themselves; see test_public_questions.
    assert set(CODES) - {reason for reason, _ in REFUSED} == {"public_only"}


def test_a_refusal_survives_copying_and_pickling() -> None:
    for refusal in (Refusal("join", "No."), Refusal("join", "No.", "SELECT 1")):
        for twin in (copy.copy(refusal), pickle.loads(pickle.dumps(refusal))):
            assert (twin.code, str(twin), twin.instead) == ("query.join", str(refusal), refusal.instead)


def test_an_unknown_reason_is_a_mistake_of_ours() -> None:
    with pytest.raises(KeyError):
        Refusal("because", "No.")


def test_text_that_is_no_text_is_named() -> None:
    with pytest.raises(InputError, match="sql"):
        resolve(b"SELECT 1", CATALOG)  # type: ignore[arg-type]


def test_a_refusal_names_the_column_without_bounds() -> None:
    with pytest.raises(Refusal, match=r"needs bounds for score, points"):
        resolve("SELECT SUM(score + cost * points) FROM visits", CATALOG)


def test_forbidden_and_missing_tables_read_alike() -> None:
    sentences = []
    for name in ("pg_class", "secret_table"):
        with pytest.raises(Refusal) as refusal:
            resolve(f"SELECT COUNT(*) FROM {name}", CATALOG)
        sentences.append(str(refusal.value).replace(name, "X"))
    assert sentences[0] == sentences[1]


def test_the_outcome_does_not_depend_on_how_deep_the_caller_is() -> None:
    sql = "SELECT COUNT(*) FROM " + "(SELECT * FROM " * 20 + "visits" + ")" * 20

    def deep(levels: int) -> str:
        return resolve(sql, CATALOG).digest if levels == 0 else deep(levels - 1)

    assert deep(0) == deep(600)


@pytest.mark.parametrize("kind", ["subqueries", "signs", "functions"])
def test_what_is_too_deep_is_so_from_everywhere(kind: str) -> None:
    """A caller with most of the stack left resolves on its own stack, unless that is not enough."""

    def sql(length: int) -> str:
        if kind == "subqueries":
            return "SELECT COUNT(*) AS n FROM " + "(SELECT * FROM " * length + "visits" + ")" * length
        value = "- " * length + "nights" if kind == "signs" else "ABS(" * length + "nights" + ")" * length
        return f"SELECT SUM({value}) AS n FROM visits"

    def outcome(length: int, levels: int) -> str:
        if levels:
            return outcome(length, levels - 1)
        try:
            return resolve(sql(length), CATALOG).digest
        except Refusal as refusal:
            return refusal.reason

    found = []
    # Thirty functions need about as much of the stack as a caller of a hundred calls leaves.
    for length in (1, 16, 24, 28, 30, 31, 32, 60, 90, 1000):
        outcomes = {outcome(length, levels) for levels in (0, 60, 100, 120, 140, 400)}
        assert len(outcomes) == 1, length
        found += outcomes
    assert found[-1] == "too_deep"
    assert found[0] not in ("too_deep", "syntax")
