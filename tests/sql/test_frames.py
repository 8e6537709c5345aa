# ruff: noqa: E501 - a question is one line
"""Frames write the question that their calls mean, and no name or constant can make it another one."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

import tacit
from sql.corpus.clinic import CATALOG
from tacit.client.remote_curator import RemoteCurator
from tacit.core.errors import InputError
from tacit.query.frames.frame import Frame, table_frame
from tacit.query.parsing.parse import parse
from tacit.query.refusal import Refusal
from tacit.query.resolve import resolve


class Listener:
    """Takes questions instead of a curator."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, Any]]] = []

    def sql(self, sql: str, *, analyst: str | None = None, idempotency_key: str = "", **options: Any) -> str:
        self.heard.append((sql, {"analyst": analyst, "key": idempotency_key, **options}))
        return "answer"

    def explain(self, sql: str, **options: Any) -> str:
        self.heard.append((sql, options))
        return "quote"


def table(name: str) -> Frame[str, str]:
    return table_frame(Listener(), name)


col, fn = tacit.col, tacit.fn
VISITS, PATIENTS, WARDS = table("visits"), table("patients"), table("wards")

#: A frame, and the question that it means.
PAIRS: list[tuple[Frame[str, str], str]] = [
    (VISITS.agg(n=tacit.count()), "SELECT COUNT(*) AS n FROM visits"),
    (
        VISITS.filter(col("cost") > 100).group_by("ward").agg(n=tacit.count(), cost=tacit.mean("cost")),
        "SELECT ward, COUNT(*) AS n, AVG(cost) AS cost FROM visits WHERE cost > 100 GROUP BY ward",
    ),
    (
        VISITS.filter(col("urgent"), (col("nights") < 3) | ~(col("ward") == "surgery")).agg(tacit.sum("cost")),
        "SELECT SUM(cost) AS cost FROM visits WHERE urgent AND (nights < 3 OR NOT ward = 'surgery')",
    ),
    (
        VISITS.group_by(month=fn.date_trunc("month", col("admitted"))).agg(n=tacit.n_unique("patient_id")),
        "SELECT date_trunc('month', admitted) AS month, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY month",
    ),
    (
        VISITS.with_columns(dear=col("cost") * 2 - 1 >= col("nights") + 10).group_by("dear").agg(n=tacit.count()),
        "SELECT dear, COUNT(*) AS n FROM (SELECT *, cost * 2 - 1 >= nights + 10 AS dear FROM visits) GROUP BY dear",
    ),
    (
        VISITS.group_by("patient_id").agg(total=tacit.sum("cost")).agg(mean=tacit.mean("total")),
        "SELECT AVG(total) AS mean FROM (SELECT patient_id, SUM(cost) AS total FROM visits GROUP BY patient_id)",
    ),
    (
        VISITS.join(WARDS, on="ward").group_by("floor").agg(n=tacit.count()),
        "SELECT floor, COUNT(*) AS n FROM visits JOIN wards USING (ward) GROUP BY floor",
    ),
    (
        VISITS.join(PATIENTS.filter(col("sex") == "F"), left_on="patient_id", right_on="id", how="semi").agg(n=tacit.count()),
        "SELECT COUNT(*) AS n FROM visits SEMI JOIN (SELECT * FROM patients WHERE sex = 'F') p ON visits.patient_id = p.id",
    ),
    (
        VISITS.join(PATIENTS, on=col("patient_id") == col("id"), how="left").group_by("sex").agg(n=tacit.count(col("cost", of="visits"))),
        "SELECT sex, COUNT(visits.cost) AS n FROM visits LEFT JOIN patients ON patient_id = id GROUP BY sex",
    ),
    (
        VISITS.join(VISITS, left_on="patient_id", right_on="patient_id").filter(col("cost", of="visits_right") > 3).agg(n=tacit.count()),
        "SELECT COUNT(*) AS n FROM visits JOIN visits r ON visits.patient_id = r.patient_id WHERE r.cost > 3",
    ),
    (
        VISITS.group_by("ward").agg(n=tacit.count()).filter(col("n") > 5).sort("n", descending=True).head(2),
        "SELECT * FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) WHERE n > 5 ORDER BY n DESC LIMIT 2",
    ),
    (
        VISITS.group_by("ward").agg(n=tacit.count()).sort(col("n").desc(), "ward").head(1, offset=1).with_columns(m=col("n") / 2),
        "SELECT *, n / 2 AS m FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n DESC, ward LIMIT 1 OFFSET 1)",
    ),
    (
        VISITS.agg(a=tacit.sum("cost") / tacit.count(), q=tacit.quantile("cost", 0.9), s=tacit.std("nights"), v=tacit.var("nights")),
        "SELECT SUM(cost) / COUNT(*) AS a, QUANTILE(cost, 0.9) AS q, STDDEV(nights) AS s, VARIANCE(nights) AS v FROM visits",
    ),
    (
        VISITS.agg(lo=tacit.min("cost"), hi=tacit.max("cost"), m=tacit.median("cost"), w=tacit.mode("ward"), u=tacit.count().filter(col("urgent"))),
        "SELECT MIN(cost) AS lo, MAX(cost) AS hi, MEDIAN(cost) AS m, MODE(ward) AS w, COUNT(*) FILTER (WHERE urgent) AS u FROM visits",
    ),
    (
        VISITS.group_by(kind=tacit.when(col("nights") < 3).then("short").when(col("nights") < 9).then("mid").otherwise("long")).agg(
            x=tacit.sum(col("score").clip(0, 10)), y=tacit.mean(col("points").clip_auto())
        ),
        ("SELECT CASE WHEN nights < 3 THEN 'short' WHEN nights < 9 THEN 'mid' ELSE 'long' END AS kind, "
        "SUM(CLAMP(score, 0, 10)) AS x, AVG(CLAMP(points, AUTO)) AS y FROM visits GROUP BY kind"),
    ),
    (
        VISITS.filter(
            col("ward").is_in(["surgery", "oncology"]), col("cost").between(1, 9), col("note").like("a%"),
            col("doctor") == None, col("note") != None, col("admitted") >= dt.date(2021, 1, 1),  # noqa: E711
            col("seen") < dt.datetime(2022, 1, 1, 12), col("nights").fill_null(0) // 2 % 3 == 1, -col("nights") < 0,
            col("nights").cast("decimal(10, 2)") > Decimal("1.50"),
        ).agg(n=tacit.count()),
        ("SELECT COUNT(*) AS n FROM visits WHERE ward IN ('surgery', 'oncology') AND cost BETWEEN 1 AND 9 AND note LIKE 'a%' "
        "AND doctor IS NULL AND note IS NOT NULL AND admitted >= DATE '2021-01-01' AND seen < TIMESTAMP '2022-01-01 12:00:00' "
        "AND COALESCE(nights, 0) // 2 % 3 = 1 AND -nights < 0 AND CAST(nights AS DECIMAL(10, 2)) > 1.50"),
    ),
    (
        VISITS.with_columns(r=fn.row_number().over("patient_id", order_by=[col("admitted").desc(), "visit_id"])).filter(col("r") == 1).agg(c=tacit.mean("cost")),
        "SELECT AVG(cost) AS c FROM (SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY patient_id ORDER BY admitted DESC, visit_id) AS r FROM visits) WHERE r = 1)",
    ),
    (VISITS.select("ward").distinct().sort("ward"), "SELECT DISTINCT ward FROM visits ORDER BY ward"),
    (VISITS.select(col("ward").alias("w"), k=fn.upper(col("note"))).distinct(), "SELECT DISTINCT ward AS w, upper(note) AS k FROM visits"),
]  # fmt: skip


@pytest.mark.parametrize("case", PAIRS, ids=lambda case: case[1][:60])
def test_a_frame_asks_what_its_calls_mean(case: tuple[Frame[str, str], str]) -> None:
    frame, sql = case
    assert resolve(frame.sql(), CATALOG).text == resolve(sql, CATALOG).text


def test_a_frame_is_lazy_immutable_and_hands_its_text_on() -> None:
    listener = Listener()
    rows = table_frame(listener, "visits")
    counted = rows.agg(n=tacit.count())
    assert rows.sql() == 'SELECT * FROM "visits"'
    assert listener.heard == []
    assert counted.explain(epsilon="1") == "quote"
    assert counted.answer(epsilon="1", analyst="ann", idempotency_key="k") == counted.collect(rho="0.1") == "answer"
    text = 'SELECT COUNT(*) AS "n" FROM "visits"'
    assert listener.heard == [
        (text, {"epsilon": "1"}),
        (text, {"analyst": "ann", "key": "k", "epsilon": "1"}),
        (text, {"analyst": None, "key": "", "rho": "0.1"}),
    ]
    assert isinstance(RemoteCurator.table(listener, "visits"), Frame)  # type: ignore[arg-type]


def test_refusals_are_the_planner_s() -> None:
    for frame, reason in (
        (VISITS, "not_aggregated"),
        (VISITS.sort("cost").head(1), "not_aggregated"),
        (VISITS.group_by("patient_id").agg(n=tacit.count()), "unit_exposed"),
        (table("nothing").agg(n=tacit.count()), "unknown_table"),
        (VISITS.join(PATIENTS, left_on="cost", right_on="weight").agg(n=tacit.count()), "join"),
        (VISITS.agg(n=tacit.sum("score")), "bounds"),
    ):
        with pytest.raises(Refusal) as refusal:
            resolve(frame.sql(), CATALOG)
        assert refusal.value.reason == reason


#: Characters that mean something in SQL, and others.
HOSTILE = st.text(st.sampled_from("'\"`\\;-/*+!(){}[]%$?#@:=,. \n\tab1é😀") | st.characters(codec="utf-8"), max_size=40)


def _usable(text: str) -> bool:
    """Text that a question may hold; the parser refuses the rest, wherever it stands."""
    control = any((ord(c) < 32 and c not in "\t\n\r") or 0x7F <= ord(c) < 0xA0 for c in text)
    return not control and not any(sign in text for sign in ("/*!", "/*+", "--+"))


@given(value=HOSTILE)
@settings(max_examples=150, deadline=None)
def test_a_text_stays_one_constant(value: str) -> None:
    if not _usable(value):
        with pytest.raises((InputError, Refusal)):
            parse(VISITS.filter(col("note") == value).agg(n=tacit.count()).sql())
        return
    tree = parse(VISITS.filter(col("note") == value).agg(n=tacit.count()).sql()).tree
    (found,) = [node for node in tree.find_all(exp.Literal) if node.is_string]
    assert found.this == value
    assert len(list(tree.find_all(exp.Column))) == 1
    assert tree.args["where"].this.key == "eq"


@given(name=HOSTILE)
@settings(max_examples=150, deadline=None)
def test_a_name_stays_one_name(name: str) -> None:
    if not name or not _usable(name):
        with pytest.raises((InputError, Refusal)):
            parse(table("visits").group_by(name).agg(n=tacit.count()).sql())
        return
    tree = parse(table(name).group_by(name).agg(**{name: tacit.count()}).sql()).tree
    assert [node.name for node in tree.find_all(exp.Table)] == [name]
    assert {node.name for node in tree.find_all(exp.Column)} == {name}
    assert tree.args.get("where") is None
    assert tree.args.get("joins") in (None, [])


@given(
    number=st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.decimals(allow_nan=False, allow_infinity=False, places=3)
)
@settings(max_examples=60, deadline=None)
def test_a_number_stays_one_number(number: Any) -> None:
    sql = f"SELECT {tacit.lit(1) + tacit.lit(number) - number}"
    if max(len(part) for part in sql.split()) > 60:
        return  # longer than any number that a question may hold
    tree = parse(sql + " FROM visits").tree
    literals = list(tree.find_all(exp.Literal))
    values = [Fraction(("-" if isinstance(node.parent, exp.Neg) else "") + node.this) for node in literals]
    wanted = Fraction(repr(number)) if isinstance(number, float) else Fraction(number)
    assert sorted(values) == sorted([Fraction(1), wanted, wanted])


@pytest.mark.parametrize(
    "make",
    [
        lambda: col(""),
        lambda: col("x" * 64),
        lambda: col("a\x00b"),
        lambda: col(3),  # type: ignore[arg-type]
        lambda: tacit.lit(float("nan")),
        lambda: tacit.lit(float("inf")),
        lambda: tacit.lit(dt.datetime(2020, 1, 1, tzinfo=dt.UTC)),
        lambda: tacit.lit(b"x"),  # type: ignore[arg-type]
        lambda: tacit.lit("a\ud800"),
        lambda: col("x").cast("integer); DROP TABLE visits"),
        lambda: col("x").is_in([]),
        lambda: VISITS.filter(),
        lambda: VISITS.filter(True),  # type: ignore[arg-type]
        lambda: VISITS.with_columns(),
        lambda: VISITS.select(),
        lambda: VISITS.group_by(),
        lambda: VISITS.agg(),
        lambda: VISITS.sort(),
        lambda: VISITS.head(-1),
        lambda: VISITS.head(True),
        lambda: VISITS.join(PATIENTS),
        lambda: VISITS.join(PATIENTS, left_on="x"),
        lambda: VISITS.join(PATIENTS, "x", how="sideways"),  # type: ignore[arg-type]
        lambda: VISITS.join(PATIENTS, "x", how="cross"),
        lambda: VISITS.join(PATIENTS, []),
        lambda: table(""),
    ],
)  # fmt: skip
def test_what_cannot_be_written_is_an_input_error(make: Any) -> None:
    with pytest.raises(InputError):
        make()


def test_python_s_own_and_is_a_mistake_that_is_said() -> None:
    with pytest.raises(TypeError, match="combine conditions with &"):
        _ = col("a") > 1 and col("b") > 2
    with pytest.raises(AttributeError):
        _ = fn._private


PROGRAM = """
import datetime as dt
import tacit

curator: tacit.Curator = tacit.open("tacit.toml")
rows = curator.table("visits").filter((tacit.col("age") >= 40) & (tacit.col("ward") == "surgery"))
answer: tacit.Answer = (
    rows.with_columns(month=tacit.fn.date_trunc("month", tacit.col("admitted")), dear=tacit.col("cost") * 2 > 100)
    .group_by("month", late=tacit.col("admitted") > dt.date(2020, 1, 1))
    .agg(n=tacit.count(), cost=tacit.mean("cost"), top=tacit.max("cost").filter(tacit.col("dear")))
    .sort("n", descending=True)
    .head(3)
    .answer(epsilon="0.5", max_groups=2)
)
frame = tacit.connect("https://example.org", token="t").table("visits").agg(n=tacit.count())
text: str = frame.sql()
remote = frame.collect(epsilon="1")
print(remote.to_arrow(), answer.to_arrow(), frame.explain(epsilon="1"))
"""


def test_user_code_passes_strict_types(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    cache = Path(__file__).parents[2] / ".mypy_cache"
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", f"--cache-dir={cache}", str(program)],
        capture_output=True, text=True, timeout=300, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
