# ruff: noqa: E501, S608, ISC004 - a query is one line, and is resolved, never run
"""The page *What can be asked*, made from the function registry, the table of aggregates and the rules.

``python docs/what_can_be_asked.py`` (with ``src`` on the path) writes ``docs/what-can-be-asked.md`` anew. Every example
is resolved before it is written, so that the page cannot show a query that is refused; a test compares the file with
what the code says.
"""

from __future__ import annotations

import datetime as dt
import re
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from forty_queries import HOSPITAL

from tacit.query.aggregates import AGGREGATES
from tacit.query.catalog import Catalog, Column, ForeignKey, Population, PublicSize, Table
from tacit.query.relational.functions import REGISTRY
from tacit.query.resolve import is_accepted, resolve_any
from tacit.query.resolve.sql_functions import PICKS, function_meanings
from tacit.query.types import BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, decimal

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "what-can-be-asked.md"
#: Queries of the tests, for functions that none of the arguments below fits.
CORPUS = ROOT / "tests" / "query" / "corpus"

WARDS = ("cardiology", "oncology", "surgery")
CATALOG = Catalog(
    (
        Table(
            "patients",
            (Column("id", INTEGER, nullable=False, unique=True), Column("sex", TEXT, categories=("F", "M"))),
            population="patients",
            unit="id",
        ),
        Table(
            "visits",
            (
                Column("visit_id", INTEGER, nullable=False, unique=True),
                Column("patient_id", INTEGER),
                Column("ward", TEXT, categories=WARDS),
                Column("cost", decimal(2), bounds=(Fraction(0), Fraction(5000))),
                Column("nights", INTEGER, bounds=(0, 60)),
                Column("admitted", DATE, bounds=(dt.date(2020, 1, 1), dt.date(2024, 12, 31))),
                Column("seen", TIMESTAMP, bounds=(dt.datetime(2020, 1, 1), dt.datetime(2024, 12, 31))),
                Column("score", DOUBLE),
                Column("note", TEXT),
                Column("urgent", BOOLEAN),
            ),
            population="patients",
            unit="patient_id",
            max_groups=3,
            max_rows=10,
        ),
        Table(
            "prescriptions",
            (Column("visit_id", INTEGER), Column("drug", TEXT), Column("dose", DOUBLE, bounds=(0.0, 100.0))),
            population="patients",
            foreign_keys=(ForeignKey("visit_id", "visits", "visit_id"),),
            max_groups=3,
            max_rows=10,
        ),
        Table(
            "wards",
            (Column("ward", TEXT, unique=True), Column("floor", INTEGER, bounds=(0, 9))),
            public=True,
            size=PublicSize(3, {"ward": 1, "floor": 1}),
        ),
    ),
    (Population("patients"),),
)

#: Arguments that a function is tried on, in this order.
ARGUMENTS = (
    "cost", "nights", "note", "admitted", "seen", "urgent", "nights, 2", "cost, 1", "note, 'a'", "note, 2", "note, 2, 3",
    "note, 'a', 'b'", "note, 5, '-'", "note, '-', 1", "nights, 0, 30", "'month', admitted", "'hour', seen",
    "'day', admitted, seen", "'day', admitted, admitted", "admitted, seen", "seen, admitted", "seen, '%Y-%m'",
    "admitted, '%Y-%m'", "note, '%Y-%m-%d'", "'%Y-%m-%d', note", "'%Y-%m', seen", "seen, 'YYYY-MM'", "seen, 'Asia/Tokyo'", "'UTC', 'Asia/Tokyo', seen", "note, 'YYYY-MM-DD'", "note, 'yyyy-MM-dd'", "seen, 'yyyy-MM'", "nights, 1, 1", "nights, 1, 1, 0, 0, 0", "2020, 1, 1", "urgent, 1, 0", "nights, 0", "'-', note, ward",
    "INTERVAL 1 DAY, seen", "INTERVAL 7 DAY, admitted", "'1 day', seen", "'7 days', admitted", "nights, 0, 60, 6",
    "cost, nights", "admitted, 3", "admitted, admitted", "",
)  # fmt: skip

#: Clauses, each with a rule and an example.
CLAUSES: tuple[tuple[str, str, str], ...] = (
    ("WHERE", "conditions on rows", "SELECT COUNT(*) FROM visits WHERE cost > 100 AND ward IN ('surgery', 'oncology')"),
    ("GROUP BY", "declared or computed keys are public, others are chosen privately", "SELECT ward, COUNT(*) FROM visits GROUP BY ward"),
    ("GROUP BY ROLLUP, CUBE, GROUPING SETS", "totals beside the groups", "SELECT ward, urgent, COUNT(*) FROM visits GROUP BY ROLLUP (ward, urgent)"),
    ("HAVING", "on released numbers, free", "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward HAVING n > 10"),
    ("FILTER", "some rows of an aggregate", "SELECT COUNT(*) FILTER (WHERE urgent) FROM visits"),
    ("ORDER BY, LIMIT, OFFSET, FETCH FIRST", "on released rows", "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n DESC LIMIT 2"),
    ('"name", `name`', "names with spaces, dots or any letters, as they are declared", 'SELECT `ward`, COUNT(*) AS "how many" FROM visits GROUP BY `ward`'),
    ("AT TIME ZONE", "in pairs, from one clock to another", "SELECT EXTRACT(HOUR FROM seen AT TIME ZONE 'Europe/Berlin' AT TIME ZONE 'UTC') AS h, COUNT(*) FROM visits GROUP BY h"),
    ("SELECT DISTINCT", "the keys that there are", "SELECT DISTINCT ward FROM visits"),
    ("WITH", "parts by name", "WITH dear AS (SELECT * FROM visits WHERE cost > 100) SELECT COUNT(*) FROM dear"),
    ("JOIN of protected tables", "on equal units, or on a declared foreign key", "SELECT sex, AVG(cost) FROM visits v JOIN patients p ON p.id = v.patient_id GROUP BY sex"),
    ("JOIN with public tables", "on anything", "SELECT floor, COUNT(*) FROM visits JOIN wards USING (ward) GROUP BY floor"),
    ("commas in FROM", "joined by the equalities of WHERE", "SELECT COUNT(*) FROM visits v, patients p WHERE p.id = v.patient_id"),
    ("SEMI and ANTI JOIN", "", "SELECT COUNT(*) FROM patients p ANTI JOIN visits v ON v.patient_id = p.id"),
    ("IN, EXISTS", "over public rows, or rows of the same person", "SELECT COUNT(*) FROM prescriptions WHERE visit_id IN (SELECT visit_id FROM visits WHERE urgent)"),
    ("UNION ALL", "rows of the same persons", "SELECT COUNT(*) FROM (SELECT patient_id FROM visits UNION ALL SELECT id FROM patients)"),
    ("UNION, INTERSECT, EXCEPT", "with the unit among the columns; of released results by their keys", "SELECT COUNT(*) FROM (SELECT id FROM patients EXCEPT SELECT patient_id FROM visits WHERE urgent)"),
    ("(a, b) IN", "lists of values, or a subquery of as many columns", "SELECT COUNT(*) FROM visits WHERE (ward, urgent) IN (('surgery', TRUE), ('oncology', FALSE))"),
    ("LIKE … ESCAPE", "patterns that are written out", "SELECT COUNT(*) FROM visits WHERE note LIKE '100!%' ESCAPE '!'"),
    ("CAST … FORMAT", "out of YYYY MM DD HH24 MI SS", "SELECT COUNT(CAST(note AS DATE FORMAT 'DD.MM.YYYY')) FROM visits"),
    ("TIMESTAMP_DIFF", "complete units; DATE_DIFF counts boundaries", "SELECT AVG(TIMESTAMP_DIFF(seen, admitted, HOUR)) FROM visits"),
    ("->>, JSON_EXTRACT_STRING, JSON_VALUE", "a string, number or truth value of JSON in a text, as it is written; NULL for anything else, strings with a backslash, and members behind more than three levels of brackets", "SELECT note ->> '$.ward.name' AS ward, COUNT(*) FROM visits GROUP BY 1"),
    ("LIST_CONTAINS, UNNEST", "of a text that a sign divides, or a list that is declared as text; the first 64 values are rows of the same person", "SELECT tag, COUNT(*) FROM visits, UNNEST(STRING_SPLIT(note, ',')) AS t(tag) WHERE NOT LIST_CONTAINS(STRING_SPLIT(note, ','), 'test') GROUP BY tag"),
    ("PIVOT", "of a subquery that lists its columns", "SELECT * FROM (SELECT urgent, ward, cost FROM visits) PIVOT (SUM(cost) FOR ward IN ('surgery', 'oncology'))"),
    ("a released relation below", "paid and released first, then joined with rows of persons", "WITH m AS (SELECT ward, AVG(cost) AS mean FROM visits GROUP BY ward) SELECT COUNT(*) FROM visits v JOIN m ON m.ward = v.ward WHERE v.cost > m.mean"),
    ("IN over released rows", "likewise", "SELECT AVG(cost) FROM visits WHERE ward IN (SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 100)"),
    ("a subquery for a value", "public, or tied by equal units", "SELECT COUNT(*) FROM visits v WHERE cost > (SELECT AVG(cost) FROM visits w WHERE w.patient_id = v.patient_id)"),
    ("grouping inside a person", "with the unit among the keys: exact and free", "SELECT AVG(CLAMP(t, 0, 9000)) FROM (SELECT patient_id, SUM(cost) AS t FROM visits GROUP BY patient_id)"),
    ("windows inside a person", "PARTITION BY the unit", "SELECT AVG(d) FROM (SELECT cost - LAG(cost) OVER (PARTITION BY patient_id ORDER BY seen) AS d FROM visits)"),
    ("windows over released rows", "free", "SELECT ward, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS place FROM visits GROUP BY ward"),
    ("windows over all rows of a key", "one row for each key", "SELECT DISTINCT ward, PERCENTILE_CONT(nights, 0.5) OVER (PARTITION BY ward) AS median FROM visits"),
    ("QUALIFY", "a condition on windows", "SELECT AVG(cost) FROM (SELECT * FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY seen) = 1)"),
    ("DISTINCT ON", "with the unit among its columns", "SELECT AVG(cost) FROM (SELECT DISTINCT ON (patient_id) * FROM visits ORDER BY patient_id, seen DESC)"),
    ("CASE, CAST, LIKE, BETWEEN, IS NULL", "in expressions", "SELECT CASE WHEN nights < 3 THEN 'short' ELSE 'long' END AS stay, COUNT(*) FROM visits GROUP BY stay"),
    ("public tables alone", "answered exactly, and free", "SELECT floor, COUNT(*) AS n FROM wards GROUP BY floor ORDER BY n DESC LIMIT 2"),
    ("LIMIT in a subquery", "of public rows", "SELECT COUNT(*) FROM visits WHERE ward IN (SELECT ward FROM wards ORDER BY floor DESC LIMIT 2)"),
    ("CLAMP(x, lo, hi), CLAMP(x, AUTO)", "bounds of a value that has none", "SELECT AVG(CLAMP(score, AUTO)) FROM visits"),
    ("contribution_bounds_per_group", "bounds of a person's sum in a group", "SELECT SUM(score, contribution_bounds_per_group => (0, 100)) FROM visits"),
    ("WITH DIFFERENTIAL_PRIVACY OPTIONS(…)", "cost and contribution bounds in the text", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.5, max_groups_contributed = 2) ward, COUNT(*) FROM visits GROUP BY ward"),
    ("DP_INTERVAL_LOW, DP_INTERVAL_HIGH", "ends of an interval", "SELECT ward, COUNT(*) AS n, DP_INTERVAL_LOW(n) AS low FROM visits GROUP BY ward"),
)  # fmt: skip

#: Letters of a query that shows one clause alone, as the table of clauses does.
SHORT = 80
#: Windows inside a person, with their arguments.
WINDOWS = (
    "ROW_NUMBER()", "RANK()", "DENSE_RANK()", "LAG(nights, 1, 0)", "LEAD(nights, 2)", "FIRST_VALUE(nights)",
    "LAST_VALUE(nights)", "SUM(nights)", "COUNT(*)", "MIN(nights)", "MAX(nights)",
)  # fmt: skip


def accepted(sql: str) -> bool:
    """Whether a query is accepted."""
    return is_accepted(sql, CATALOG)


def checked(sql: str) -> str:
    """The query itself, which must be accepted."""
    resolve_any(sql, CATALOG)
    return sql


def cell(text: str) -> str:
    """Text in a cell of a table."""
    return text.replace("|", "\\|")


def code(sql: str) -> str:
    """A query in a cell of a table; a call on its own stands for a column of `visits`."""
    for before, after in (("SELECT COUNT(", ") FROM visits"), ("SELECT ", " AS x FROM visits")):
        call = sql.removeprefix(before).removesuffix(after)
        if sql == before + call + after and re.match(r"\w+\(", call) and re.sub(r"[^()]", "", call).startswith("("):
            return f"`{cell(call)}`"
    return f"`{cell(sql)}`"


def clauses() -> Iterator[str]:
    """The clauses."""
    yield from ("|clause|rule|for example|", "|---|---|---|")
    for name, rule, example in CLAUSES:
        yield f"|{name}|{rule}|{code(checked(example))}|"


def example_of(name: str) -> str:
    """A call of an aggregate that is released, or exact inside a person where it is not."""
    arguments = (
        "nights",
        "cost",
        "ward",
        "urgent",
        "nights, 0.5",
        "ward, 2",
        "cost, nights",
        "nights, 3",
        "nights, 1, 9",
    )
    for form in (
        "SELECT {} AS x FROM visits",
        "SELECT COUNT(x) FROM (SELECT patient_id, {} AS x FROM visits GROUP BY patient_id)",
    ):
        for given in arguments:
            sql = form.format(f"{name.upper()}({given})")
            if accepted(sql):
                return code(sql)
        within = form.format(f"{name.upper()}(0.5) WITHIN GROUP (ORDER BY nights)")
        if accepted(within):
            return code(within)
    return from_corpus(name)


def from_corpus(name: str) -> str:
    """The first query of the tests that calls a function."""
    called = re.compile(rf"\b{re.escape(name)}\s*\(", re.IGNORECASE)
    for file in ("expressions.txt", *sorted(path.name for path in CORPUS.glob("*.sql"))):
        for line in (CORPUS / file).read_text(encoding="utf-8").splitlines():
            if called.search(line) and "`" not in line:
                return code(line)
    raise LookupError(f"no example of {name}: add one to tests/query/corpus/expressions.txt")


def aggregates() -> Iterator[str]:
    """The aggregates."""
    yield from ("|aggregate|over persons|inside a person|for example|", "|---|---|---|---|")
    yield f"|COUNT(*)|released|exact|{code(checked('SELECT COUNT(*) FROM visits'))}|"
    yield f"|COUNT(DISTINCT x)|released|exact|{code(checked('SELECT COUNT(DISTINCT patient_id) FROM visits'))}|"
    for name in ("SUM", "AVG"):
        sql = f"SELECT {name}(DISTINCT nights) FROM visits"
        yield f"|{name}(DISTINCT x)|released|no|{code(checked(sql))}|"
    for entry in AGGREGATES.values():
        released = "released" if entry.family is not None else "no"
        exact = "exact" if entry.unit is not None else "no"
        examples = [example_of(name) for name in entry.names]
        if examples:
            yield f"|{', '.join(entry.names).upper()}|{released}|{exact}|{examples[0]}|"
    picks: dict[str, list[str]] = {}
    for name in PICKS:
        given = (
            "(cost ORDER BY seen)"
            if name in ("first", "last")
            else "(cost)"
            if PICKS[name] == "least"
            else "(cost, seen)"
        )
        checked(f"SELECT AVG(x) FROM (SELECT patient_id, {name.upper()}{given} AS x FROM visits GROUP BY patient_id)")
        picks.setdefault(given, []).append(name.upper())
    for given, names in picks.items():
        sql = f"SELECT AVG(x) FROM (SELECT patient_id, {names[0]}{given} AS x FROM visits GROUP BY patient_id)"
        yield f"|{', '.join(names)}|no|exact|{code(sql)}|"


def functions() -> Iterator[str]:
    """The functions of row values."""
    yield from ("|function|meaning|for example|", "|---|---|---|")
    synonyms: dict[str, dict[str, str]] = {}
    for name, meaning in function_meanings().items():
        shown = next(
            (code(sql) for given in ARGUMENTS if accepted(sql := f"SELECT COUNT({name.upper()}({given})) FROM visits")),
            None,
        )
        synonyms.setdefault(meaning, {})[name.upper()] = shown or from_corpus(name)
    for meaning, examples in synonyms.items():
        summary = REGISTRY[meaning].summary if meaning in REGISTRY else ""
        yield f"|{', '.join(examples)}|{cell(summary)}|{next(iter(examples.values()))}|"


def windows() -> str:
    """The windows, with one example: the others are asked in the same way."""
    queries = [
        checked(
            f"SELECT AVG(CLAMP(x, 0, 60)) FROM (SELECT {call} OVER (PARTITION BY patient_id ORDER BY seen) AS x FROM visits)"
        )
        for call in WINDOWS
    ]
    return f"{', '.join(call.split('(')[0] for call in WINDOWS)}; for example `{queries[3]}`."


def queries() -> Iterator[str]:
    """Queries in words, which the tests ask with noise and without."""
    yield from ("|question|query|", "|---|---|")
    for asked in HOSPITAL.queries:
        if len(asked.sql) > SHORT:
            yield f"|{asked.words}|`{cell(asked.sql)}`|"


def page() -> str:
    """The whole page."""
    parts = [
        "# What can be asked",
        "Every clause, aggregate and function that a query may have, with an example that is accepted; a call on its own is an expression over `visits`, and a comma stands between synonyms. "
        "Meaning and proof of each rule are in [what a protected query means](semantics.md). The tables of the examples: protected "
        "`patients`, `visits` and `prescriptions` (which lead to the patient), public `wards`.",
        "A query that is not accepted is refused, at no cost. The refusal names the part of the text and the reason (*Errors* lists the codes), and shows a query near it that is accepted.",
        "## By example",
        "Questions about a made-up hospital, with the query that answers each; `docs/forty_queries.py` has its data, its project file and more queries.",
        "\n".join(queries()),
        "## Clauses",
        "\n".join(clauses()),
        "## Aggregates",
        "*Released* ones get noise and pay; inside one person's rows aggregates are *exact* and cost nothing.",
        "\n".join(aggregates()),
        "## Windows inside a person",
        windows(),
        "## Functions of a row",
        "All of them are total: where there is no result, it is NULL. Operators: `+ - * / // % ^ ||`, comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, ILIKE, IS NULL, IS DISTINCT FROM, CASE, CAST.",
        "\n".join(functions()),
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
