"""Queries without a private answer are refused, with a stable code and a sentence that says what to change."""

from __future__ import annotations

import copy
import pickle
import re
from dataclasses import replace
from pathlib import Path

import pytest

import tacit.query
from query.corpus.analysts import ASKED_REFUSED
from query.corpus.clinic import CATALOG, PATIENTS, VISITS
from query.corpus.refused import REFUSED
from support.each import check_each
from tacit.core.errors import InputError, QueryError
from tacit.query.catalog import Catalog
from tacit.query.refusal import CODES, Proposal, Refusal
from tacit.query.resolve import resolve, resolve_any


def test_the_corpus_is_large_enough() -> None:
    assert len({sql for _, sql in REFUSED}) == len(REFUSED)
    assert len(REFUSED) >= 300
    assert len({sql for _, sql in ASKED_REFUSED} - {sql for _, sql in REFUSED}) >= 180


#: Reasons that are true of some refusals alone.
ONLY_OF = {"own value": ("raw_aggregate",), "data alone": ("volatile",), "unpredictable": ("volatile",)}


def _refusal(sql: str) -> Refusal:
    try:
        resolve_any(sql, CATALOG)
    except Refusal as refusal:
        return refusal
    raise AssertionError(sql)


def test_a_proposal_says_what_it_leaves_out() -> None:
    """Without words it has the tables, columns, conditions and values of the refused text."""
    found = [(sql, _refusal(sql).proposal) for _, sql in (*REFUSED, *ASKED_REFUSED)]
    proposals = [(sql, proposal) for sql, proposal in found if proposal is not None]
    assert len(proposals) >= 220
    for sql, proposal in proposals:
        assert ":" not in proposal.change
        refused, proposed = " ".join(sql.split()), " ".join(proposal.sql.split())
        if not proposal.change:
            assert _parts(refused) - {"main"} <= _parts(proposed) | _parts("ORDER BY cost"), (sql, proposal)
        for clause in ("WHERE", "HAVING"):
            if clause in refused and clause not in proposed:
                assert proposal.change, sql
    by_words = {proposal.change.split(" ")[0] for _, proposal in proposals}
    assert by_words <= {"", "with", "without", "within", "the", "in", "for", "joining"}


def _parts(sql: str) -> set[str]:
    return set(re.findall(r"\w+", sql.casefold()))


@pytest.mark.parametrize(
    ("sql", "change", "instead"),
    [
        (
            "SELECT ward, MEDIAN(nights) OVER (PARTITION BY ward) AS m FROM visits",
            "with one row for each partition",
            "SELECT DISTINCT ward, MEDIAN(nights) OVER (PARTITION BY ward) AS m FROM visits",
        ),
        ("SELECT COUNT(*) FROM visit", "with visits for visit", "SELECT COUNT(*) FROM visits"),
        ("SELECT AVG(costs) FROM visits", "with cost for costs", "SELECT AVG(cost) FROM visits"),
        (
            "SELECT ward, AVG(cost) FROM visits",
            "in groups by all columns that are no aggregates",
            "SELECT ward, AVG(cost) FROM visits GROUP BY ward",
        ),
        (
            "SELECT * FROM visits WHERE urgent",
            "the number of rows instead of the rows",
            "SELECT COUNT(*) FROM visits WHERE urgent",
        ),
        (
            "SELECT COUNT(*) FROM visits v JOIN patients p ON v.cost > p.weight",
            "joining rows of one person alone, or by inner joins",
            "SELECT COUNT(*) FROM visits AS v JOIN patients AS p ON v.cost > p.weight AND v.patient_id = p.id",
        ),
        (
            "SELECT patient_id, SUM(cost) AS t FROM visits GROUP BY patient_id",
            "the average of t instead of each row",
            "SELECT AVG(CLAMP(t, AUTO)) FROM (SELECT patient_id, SUM(cost) AS t FROM visits GROUP BY patient_id) AS t",
        ),
        (
            "SELECT AVG(r) FROM (SELECT ROW_NUMBER() OVER (ORDER BY cost) AS r FROM visits)",
            "within the rows of each person",
            "SELECT AVG(r) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY cost) AS r FROM visits)",
        ),
        (
            "SELECT COUNT(*) FROM (SELECT * FROM visits ORDER BY cost LIMIT 3)",
            "without LIMIT and ORDER below",
            "SELECT COUNT(*) FROM (SELECT * FROM visits)",
        ),
        (
            "SELECT COUNT(*) FROM (SELECT * FROM visits ORDER BY cost)",
            "",
            "SELECT COUNT(*) FROM (SELECT * FROM visits)",
        ),
        ("SELECT COUNT(*) FROM visits; SELECT 1", "the first statement alone", "SELECT COUNT(*) FROM visits"),
        (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed = 2) COUNT(*) FROM visits WHERE costs > 3",
            "without its options, with cost for costs",
            "SELECT COUNT(*) FROM visits WHERE cost > 3",
        ),
    ],
)
def test_the_nearest_query(sql: str, change: str, instead: str) -> None:
    assert _refusal(sql).proposal == Proposal(instead, change)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SQTR(cost) AS k, COUNT(*) FROM visits GROUP BY k",
        "SELECT AVG(SIN(nights)) FROM visits",
        "SELECT SKEWNESS(cost) FROM visits",
        "SELECT COUNT(*) FROM visits WHERE urgent AND nights & 1 = 1",
        "SELECT TOP_K(doctor, 3) FROM visits WHERE urgent",
        "DELETE FROM visits",
        "SELECT AVG(cost) FROM visits AS OF YESTERDAY",
        "",
        f"SELECT missing FROM visits WHERE {' AND '.join(f'cost > {i}' for i in range(300))}",
    ],
)
def test_where_nothing_near_is_accepted_nothing_is_proposed(sql: str) -> None:
    assert _refusal(sql).proposal is None


def test_a_function_is_named_before_its_arguments() -> None:
    assert "SOUNDEX is not supported" in str(_refusal("SELECT AVG(SOUNDEX(HOUR, seen)) FROM visits"))


def test_a_column_of_a_type_that_no_query_reads_is_no_missing_column() -> None:
    table = replace(VISITS, unread=("tags",))
    catalog = Catalog((PATIENTS, table), CATALOG.populations)
    assert catalog.digest == Catalog((PATIENTS, VISITS), CATALOG.populations).digest
    with pytest.raises(Refusal, match="The column 'Tags' has a type that no query reads, such as a list") as caught:
        resolve_any("SELECT COUNT(*) FROM visits WHERE Tags = 'a'", catalog)
    assert caught.value.code == "query.unknown_column"


def test_suggestions_depend_on_the_text_alone() -> None:
    assert len({_refusal("SELECT AVG(costs) FROM visits").proposal for _ in range(3)}) == 1


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
        if refusal.proposal is not None:
            # The rule of the corpus: what a refusal suggests is accepted, shown, and read back.
            assert resolve_any(refusal.proposal.sql, CATALOG).columns
            assert str(refusal) == f"{refusal.sentence} {refusal.proposal}"
            again = Refusal.read(reason, str(refusal))
            assert (again.sentence, again.proposal) == (refusal.sentence, refusal.proposal)

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
    # Public tables alone are asked about by themselves; see test_public_queries.
    assert set(CODES) - {reason for reason, _ in REFUSED} == {"public_only"}


def test_a_refusal_survives_copying_and_pickling() -> None:
    for refusal in (Refusal("join", "No."), Refusal("join", "No.", Proposal("SELECT 1", "with 1 for 2"))):
        for twin in (copy.copy(refusal), pickle.loads(pickle.dumps(refusal))):
            assert (twin.code, str(twin), twin.proposal) == ("query.join", str(refusal), refusal.proposal)


def test_an_unknown_reason_is_a_mistake_of_ours() -> None:
    with pytest.raises(KeyError):
        Refusal("because", "No.")


def test_text_that_is_no_text_is_named() -> None:
    with pytest.raises(InputError, match="sql"):
        resolve(b"SELECT 1", CATALOG)  # type: ignore[arg-type]


def test_a_refusal_names_the_column_without_bounds() -> None:
    with pytest.raises(Refusal, match=r"needs bounds for score, points"):
        resolve("SELECT CORR(score + cost * points, cost) FROM visits", CATALOG)


@pytest.mark.parametrize("function", ["MAX", "MEDIAN"])
def test_days_without_bounds_are_refused_with_what_is_accepted(function: str) -> None:
    with pytest.raises(Refusal, match=re.escape("write CLAMP(date_diff('day', DATE '2020-01-01', x), lo, hi), or ask")):
        resolve(f"SELECT {function}(CAST(note AS DATE)) FROM visits", CATALOG)
    resolve(
        f"SELECT {function}(CLAMP(date_diff('day', DATE '2020-01-01', CAST(note AS DATE)), 0, 9)) FROM visits", CATALOG
    )


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


DAYS = "SELECT admitted, COUNT(*) AS n FROM visits GROUP BY admitted"
DOCTORS = "SELECT doctor, COUNT(*) AS n FROM visits GROUP BY doctor"


@pytest.mark.parametrize(
    ("sql", "instead"),
    [
        (f"SELECT COUNT(*) AS n FROM ({DAYS}) t", "COUNT(DISTINCT admitted), or keep groups"),
        (f"SELECT AVG(n) FROM ({DAYS}) t", "such as HAVING COUNT(*) > 20"),
        (f"SELECT MIN(n) FROM ({DAYS}) t WHERE admitted > DATE '2021-01-01'", "such as HAVING COUNT(*) > 20"),
        (f"SELECT COUNT(*) FROM ({DOCTORS}) t", "COUNT(DISTINCT doctor), or keep groups"),
        ("SELECT COUNT(*) FROM (SELECT DISTINCT doctor FROM visits) t", "write COUNT(DISTINCT doctor), which is noisy"),
        ("SELECT COUNT(*) AS k FROM (SELECT DISTINCT ward FROM visits WHERE urgent) t", "write COUNT(DISTINCT ward)"),
    ],
)
def test_groups_that_nobody_has_are_not_counted(sql: str, instead: str) -> None:
    refusal = _refusal(sql)
    assert refusal.reason == "empty_groups"
    assert instead in refusal.sentence


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT SUM(n), MAX(n) FROM ({DAYS}) t",
        f"SELECT AVG(n) FROM ({DAYS} HAVING COUNT(*) > 10) t",
        f"SELECT AVG(n), COUNT(*) FROM ({DAYS}) t WHERE n > 10",
        f"SELECT AVG(n) FROM ({DAYS} ORDER BY n DESC LIMIT 5) t",
        "SELECT AVG(n), COUNT(*) FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) t",
        f"SELECT AVG(n) FROM ({DOCTORS}) t",
    ],
)
def test_groups_that_people_have_are_averaged(sql: str) -> None:
    resolve(sql, CATALOG)


def test_a_misspelt_category_is_named_before_it_is_charged() -> None:
    refusal = _refusal("SELECT COUNT(*) FROM visits WHERE ward = 'onclogy' AND urgent")
    assert str(refusal).startswith("'onclogy' is none of the categories of 'ward'; the nearest is 'oncology'.")
    proposed = "SELECT COUNT(*) FROM visits WHERE ward = 'oncology' AND urgent"
    assert refusal.proposal == Proposal(proposed, "with oncology for onclogy")
    for sql in (
        "SELECT COUNT(*) FROM visits WHERE ward <> '' AND doctor = 'onclogy'",
        "SELECT COUNT(*) FROM visits v JOIN wards w ON w.ward = v.ward WHERE w.ward = 'x'",
        "SELECT COUNT(*) FROM (SELECT patient_id, note AS ward FROM visits) t WHERE ward = 'x'",
    ):
        resolve(sql, CATALOG)


def test_years_of_a_day_without_bounds_are_not_listed() -> None:
    sql = "SELECT EXTRACT(YEAR FROM CAST(note AS DATE)) AS y, COUNT(*) FROM visits GROUP BY 1"
    assert not resolve(sql, CATALOG).final.public_keys
