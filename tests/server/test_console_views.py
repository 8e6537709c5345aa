"""Texts of pages: figures, gauges, odds, drawings, charts, quotes; without requests."""

from __future__ import annotations

import datetime as dt
import math
import re
from dataclasses import replace
from fractions import Fraction
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.served import COUNT, Served
from tacit.accounting.filters import Line
from tacit.core.errors import InputError
from tacit.core.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP
from tacit.core.relations import REPLACE_ONE
from tacit.curator.curator import TableInfo
from tacit.ledger import Balance
from tacit.query.catalog import Column, Table
from tacit.query.refusal import Refusal
from tacit.query.types import INTEGER
from tacit.releases.accounts import Budget
from tacit.server.console.amounts import (
    amounts_text,
    as_pair,
    charge_of,
    down,
    gauges,
    percent,
    promise,
    promise_of_change,
    tightest,
    up,
)
from tacit.server.console.ask_page import AskForm, view_quote
from tacit.server.console.charts import (
    CATEGORY,
    NUMBER,
    TIME,
    Drawing,
    Panel,
    Point,
    Series,
    draw_panels,
    drawing_of,
    sheet_of,
)
from tacit.server.console.page_request import problem_of
from tacit.server.console.tables import view_table
from tacit.server.errors import Busy, TooMany, Unauthenticated


def test_costs_are_rounded_up_and_what_is_left_down() -> None:
    third = Fraction(1, 3)
    assert up(third) == "0.3334"
    assert down(third) == "0.3333"
    assert (up(Fraction(1, 2)), down(Fraction(3))) == ("0.5", "3")
    assert percent(Fraction(-1)) == "0.000%"
    assert percent(Fraction(7)) == "100.000%"
    assert amounts_text({"epsilon": Fraction(1, 2), "delta": Fraction(0)}) == "ε 0.5"


def test_a_charge_speaks_the_currency_of_its_account() -> None:
    assert charge_of(PureDP("0.5")) == {"epsilon": Fraction(1, 2)}
    assert charge_of(ApproxDP("0.5", "1e-6"))["delta"] == Fraction(1, 10**6)
    assert charge_of(ZCDP("0.1"))["rho"] == Fraction(1, 10)
    assert charge_of(GDP("0.5")) == {"mu squared": Fraction(1, 4)}
    assert as_pair(ZCDP("0.1"))[0] > 2
    assert as_pair(ZCDP(0)) == as_pair(GDP(0)) == (0, 0)


def budget(spent: str, cap: str, share: tuple[str, str] | None = None) -> Budget:
    def lines(used: str, most: str) -> tuple[Line, ...]:
        return (Line("epsilon", Fraction(most), Fraction(used)), Line("delta", Fraction(0), Fraction(0)))

    balances = [Balance("population", True, lines(spent, cap))]
    if share is not None:
        balances.append(Balance("analyst alice", True, lines(*share)))
    balances.append(Balance("project x", False, lines(spent, cap)))
    return Budget("patients", PureDP(cap), tuple(balances))


def test_gauges_show_what_is_limited_and_what_a_query_would_add() -> None:
    whole, share = gauges(budget("1", "4", ("0.5", "1")), charge={"epsilon": Fraction(1)}, analyst="alice")
    assert (whole.share, whole.width, whole.pending, whole.fits) == ("", "25.000%", "25.000%", True)
    assert (share.share, share.width, share.pending, share.fits) == ("your share", "50.000%", "50.000%", False)
    assert share.words == "your share of patients: ε 0.5 of 1 spent, 0.5 left"
    assert tightest((whole, share)) is share
    (other, theirs) = gauges(budget("4", "4", ("0.5", "1")), analyst="bob")
    assert theirs.share == "share of alice"
    assert other.left == "0"
    assert tightest(()) is None


@settings(derandomize=True, deadline=None)
@given(st.fractions(0, 20), st.sampled_from((Fraction(1, 100), Fraction(1, 10), Fraction(1, 2), Fraction(9, 10))))
def test_odds_are_bayes_rule_rounded_outwards(epsilon: Fraction, before: Fraction) -> None:
    found = promise(epsilon, Fraction(0))
    belief = next(each for each in found.beliefs if each.before == f"{float(100 * before):.4g}%")
    factor, p = math.exp(epsilon), float(before)
    most, least = 100 * factor * p / (factor * p + 1 - p), 100 * p / (p + factor * (1 - p))
    assert most - 1e-9 <= float(belief.most[:-1]) <= most + 0.11
    assert least - 0.11 <= float(belief.least[:-1]) <= least + 1e-9
    assert float(found.factor.removeprefix("at most ").replace(",", "")) >= factor * (1 - 1e-9)


def test_a_promise_speaks_of_delta_only_where_there_is_one() -> None:
    assert promise(Fraction(1), Fraction(0)).one_in == ""
    assert promise(Fraction(1), Fraction(1, 10**6)).one_in == "1,000,000"


@pytest.mark.parametrize("guarantee", [PureDP(1), ApproxDP(1, "1e-6"), ZCDP("0.1"), ZCDP("0.1", delta="1e-7"), GDP(1)])
def test_a_change_of_a_persons_data_is_group_privacy_of_two(guarantee: Guarantee) -> None:
    """Of (ε, δ): (2ε, (1 + e^ε)·δ), rounded up."""
    epsilon, delta = map(float, as_pair(guarantee))
    found = promise_of_change(guarantee)
    assert found is not None
    assert float(found.epsilon) == pytest.approx(2 * epsilon, rel=1e-3)
    assert float(found.delta or 0) == pytest.approx((1 + math.exp(epsilon)) * delta, rel=1e-3)
    assert promise_of_change(replace(guarantee, relation=REPLACE_ONE)) is None


def test_a_promise_that_promises_nothing_says_so() -> None:
    found = promise(Fraction(10**6), Fraction(0))
    assert found.factor == "more than 10²⁶"
    assert {(each.least, each.most) for each in found.beliefs} == {("0%", "100%")}


LABELS = st.text(min_size=1, max_size=60)
NUMBERS = st.floats(-1e12, 1e12, allow_nan=False)
AXES = st.sampled_from((CATEGORY, NUMBER, TIME))
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def _svgs(drawing: Drawing) -> list[ElementTree.Element]:
    found = [ElementTree.fromstring(each) for each in draw_panels(drawing)]
    for svg in found:
        _, _, width, height = map(float, svg.attrib["viewBox"].split())
        for element in svg.iter():
            for name in ("x", "x1", "x2", "cx", "y", "y1", "y2", "cy"):
                place = float(element.attrib.get(name, 0))
                assert -1 <= place <= (width if "x" in name else height) + 1, (element.tag, element.attrib)
            for number in _NUMBER.findall(element.attrib.get("d", "")):
                assert -20 <= float(number) <= max(width, height) + 20, element.attrib
    return found


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.lists(st.tuples(LABELS, NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=60), LABELS, AXES)
def test_any_numbers_are_drawn_within_their_picture(
    rows: list[tuple[str, float, float, float]], title: str, axis: str
) -> None:
    rows = [(label.encode("ascii", "replace").decode(), *sorted(places)) for label, *places in rows]  # type: ignore[misc]
    points = tuple(
        Point(re.sub(r"[\x00-\x1f]", "?", label), value, low, high, None if axis == CATEGORY else 700_000.0 + 9 * n)
        for n, (label, low, value, high) in enumerate(rows)
    )
    title = re.sub(r"[\x00-\x1f]", "?", title.encode("ascii", "replace").decode())
    for svg in _svgs(Drawing((Panel(title, (Series("", points),)),), "95%", axis)):
        marks = [each for each in svg.iter() if each.attrib.get("class", "").split(" ")[0] in ("dot", "bar")]
        assert len(marks) >= len(points)


@pytest.mark.parametrize("count", [41, 2000])
def test_no_row_disappears_from_a_long_chart(count: int) -> None:
    """The highest interval is drawn, in whichever row it is."""
    for peak in (0, count // 2, count - 1):
        points = tuple(Point(str(n), 5.0, 4.0, 1000.0 if n == peak else 6.0, float(n)) for n in range(count))
        for svg in _svgs(Drawing((Panel("n", (Series("", points),)),), "95%", NUMBER)):
            shapes = [each for each in svg.iter() if each.attrib.get("class", "").startswith(("whisker", "band"))]
            tops = [min(float(y) for _, y in re.findall(r"(-?[\d.]+) (-?[\d.]+)", each.attrib["d"])) for each in shapes]
            grid = [float(each.attrib["y1"]) for each in svg.iter() if each.attrib.get("class") == "grid"]
            assert min(tops) == pytest.approx(min(grid), abs=1)


HOSTILE = ("'];alert(1)//", "</svg><script>alert(1)</script>", "\\'\\u0027", "a\nb", "{{x}}", "📈")


@pytest.mark.parametrize("count", [1, 10])
def test_labels_in_charts_stay_text(count: int) -> None:
    points = tuple(Point(label, 10.0 * i, 10.0 * i - 3, 10.0 * i + 3) for i, label in enumerate(HOSTILE * count))
    for svg in _svgs(Drawing((Panel("<b>n</b>", (Series("<i>", points),)),), "95%")):
        tags = {element.tag for element in svg.iter()}
        assert tags <= {"svg", "path", "line", "text", "rect", "circle", "title"}
        shown = "".join(svg.itertext())
        for label in ("'];alert(1)//", "</svg><script>alert(1)</script>", "📈", "<b>n</b>"):
            assert label in shown
        attributes = {name for element in svg.iter() for name in element.attrib}
        assert not any(name.startswith("on") or name in ("href", "style") for name in attributes)


def test_lines_have_names_and_marks() -> None:
    lines = tuple(
        Series(name, tuple(Point(str(n), n, n - 1, n + 1, float(n), marked=n == 2) for n in range(5)))
        for name in ("f", "m")
    )
    drawing = Drawing((Panel("n", lines),), "95%", NUMBER, "age")
    assert drawing.marked
    for svg in _svgs(drawing):
        words = list(svg.itertext())
        assert {"f", "m", "age", "n"} <= set(words)
        assert sum("dot marked" in each.attrib.get("class", "") for each in svg.iter()) == 2
        assert any("m, 2: 2, between 1 and 3; the bias may exceed this error" in each for each in words)


def test_times_are_named_by_the_length_of_their_span() -> None:
    for days, expected in ((3, "02 Jan"), (40, "02 Jan"), (360, "Jul 2025"), (4000, "2025")):
        places = [dt.date(2025, 1, 2).toordinal() + each for each in (0, days // 2, days)]
        points = tuple(Point("", 1, 0, 2, float(place)) for place in places)
        for svg in _svgs(Drawing((Panel("n", (Series("", points),)),), "95%", TIME)):
            assert expected in list(svg.itertext())


def test_an_answer_becomes_a_sheet_and_a_drawing(served: Served) -> None:
    answer = served.curator.sql("SELECT ward, COUNT(*) AS n, SUM(cost) AS paid FROM visits GROUP BY ward", epsilon="1")
    sheet = sheet_of(answer)
    assert [head.name for head in sheet.heads] == ["ward", "n", "paid"]
    assert [head.noisy for head in sheet.heads] == [False, True, True]
    assert [head.number for head in sheet.heads] == [False, True, True]
    assert sheet.confidence == "95%"
    for row in sheet.rows:
        assert row[0].spread == ""
        for cell in row[1:]:
            assert cell.spread.startswith("± ") or " to " in cell.spread
            assert cell.words.startswith("between ")
    drawing = drawing_of(answer)
    assert drawing is not None
    assert [panel.title for panel in drawing.panels] == ["n", "paid"]
    for point, row in zip(drawing.panels[0].points, sheet.rows, strict=True):
        assert f"{point.value:,.0f}" == row[1].text
        assert point.low <= point.value <= point.high


def test_a_quote_says_price_error_and_what_is_left(served: Served) -> None:
    access = served.access("alice")
    form = AskForm(sql=COUNT, amount="0.5", said={"suppose": "1,000"})
    quote = served.service.quote(access, form.ask())
    view = view_quote(quote, served.service.budget(access, quote=quote)[0], analyst="alice")
    assert view["price"] == "ε 0.5"
    assert view["after"] == "Of what is left, 20 like this still fit."
    assert [error.label for error in view["it"].errors] == ["n"]
    assert view["briefly"].startswith("n ± ")
    assert view["said"].startswith("Cost ε 0.5. ")
    told = replace(quote, explanation=quote.explanation.with_engine_sql("SELECT from a place"))
    budget = served.service.budget(access, quote=quote)[0]
    assert view_quote(told, budget, analyst="alice")["engine_sql"] == "", "where data is kept is for owners"
    assert view_quote(told, budget, analyst="olga", engine=True)["engine_sql"] == "SELECT from a place"
    free = view_quote(quote, served.service.budget(access, quote=quote)[0], analyst="alice", free=True)
    assert (free["price"], free["side"]) == ("Free", "")


@pytest.mark.parametrize(
    ("form", "parameter"),
    [
        (AskForm(amount="1"), "sql"),
        (AskForm(sql=COUNT, pay="gold", amount="1"), "pay"),
        (AskForm(sql=COUNT, amount="1", said={"suppose": "many"}), "suppose"),
        (AskForm(sql=COUNT, amount="1", said={"max_groups": "-1"}), "max_groups"),
    ],
)
def test_a_form_that_says_too_little_names_what_is_missing(form: AskForm, parameter: str) -> None:
    with pytest.raises(InputError) as found:
        form.ask()
    assert found.value.parameter == parameter


def test_every_failure_has_words_that_say_what_to_do() -> None:
    refused = problem_of(Refusal("sample", "Remove TABLESAMPLE."))
    assert (refused.message, refused.rule, refused.code) == ("Remove TABLESAMPLE.", "sampling", "query.sample")
    assert problem_of(Busy()).title == "The server is busy"
    assert problem_of(TooMany(3)).status == 429
    assert problem_of(Unauthenticated()).title == "Your session has ended"
    opaque = problem_of(RuntimeError("a secret"))
    assert opaque.id
    assert "secret" not in f"{opaque}"


def test_the_ceilings_of_a_table_are_shown() -> None:
    columns = (Column("id", INTEGER), Column("x", INTEGER))
    plain = Table("visits", columns, population="patients", unit="id", max_rows=2, max_groups=3)
    assert view_table(TableInfo(plain))["about"].endswith(
        "A person counts with at most 2 rows in each of at most 3 groups. A query may state other numbers."
    )
    limited = replace(plain, max_rows_limit=5, max_groups_limit=3)
    assert view_table(TableInfo(limited))["about"].endswith(
        "A query may state other numbers, up to 5 rows and 3 groups."
    )
    rows = Table("visits", columns, population="patients", unit="row")
    assert view_table(TableInfo(rows))["about"].endswith("group.")
