"""Planned releases: how the total is split, what is written, and that none is ever paid or drawn twice."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from support.clinic import CATALOG, open_clinic
from tacit.accounting.compose import compose
from tacit.core.errors import BudgetError, InputError, QueryError
from tacit.core.events import ComposedEvent
from tacit.core.guarantees import ApproxDP, PureDP
from tacit.curator.curator import Curator
from tacit.releases import batch
from tacit.releases.batch import BatchRelease, guarantee_in_words, load_plan, quote_batch
from tacit.releases.receipt import Receipt, exact_events, guarantee_covers, outcome_problem, verify_receipt

WARDS = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
COST = "SELECT ward, AVG(cost) AS m, SUM(cost) AS s FROM visits GROUP BY ward"
ALL = "SELECT COUNT(*) AS n FROM visits"
STREETS = "SELECT street, COUNT(*) AS n FROM visits GROUP BY street"
BUDGETS: dict[str, dict[str, str]] = {
    "pure": {"epsilon": "4"},
    "approx": {"accounting": "approx", "epsilon": "4", "delta": "1e-2"},
    "zcdp": {"accounting": "zcdp", "epsilon": "4", "delta": "1e-2"},
    "gdp": {"accounting": "gdp", "mu": "3"},
}
TOTALS = {
    "pure": 'epsilon = "1"',
    "approx": 'epsilon = "1"\ndelta = "1e-6"',
    "zcdp": 'epsilon = "1"\ndelta = "1e-6"',
    "gdp": 'mu = "1"',
}


def plan(folder: Path, total: str = TOTALS["pure"], more: str = "", **statistics: str) -> Path:
    parts = [f'[statistics.{name}]\nsql = "{sql}"\n' for name, sql in (statistics or {"a": WARDS, "b": ALL}).items()]
    place = folder / "plan.toml"
    place.write_text(f'[release]\nname = "The <b>year</b>"\n{total}\n{more}\n{"".join(parts)}')
    return place


def spent(curator: Curator) -> list[Fraction]:
    return [amount.amount for amount in curator.budget().spent]


@pytest.mark.parametrize("kind", BUDGETS)
def test_one_total_pays_for_everything(tmp_path: Path, kind: str) -> None:
    curator, engine = open_clinic(**BUDGETS[kind])
    statistics = {"wards": WARDS, "cost": COST, "all": ALL}
    if kind in ("approx", "zcdp"):
        statistics["streets"] = STREETS
    told: list[tuple[int, int, str]] = []
    done = curator.publish(plan(tmp_path, TOTALS[kind], **statistics), progress=lambda *a: told.append(a))
    assert told == [(i, len(statistics), name) for i, name in enumerate(statistics, start=1)]
    assert engine.measured == len(statistics)
    assert list(done.answers) == list(statistics)
    report = curator.check_receipt(done.receipt)
    assert report.ok, str(report)
    assert len(done.receipt["answers"]) == len(statistics)
    assert [entry.text for entry in curator.history() if entry.amounts] == [done.charge.text]
    covered, _ = guarantee_covers(
        done.split.guarantee,
        ComposedEvent(tuple(e for p in done.split.plans for e in exact_events(p))),
    )
    assert covered
    assert curator.ledger.verify(
        check_outcome=lambda o: outcome_problem(o, ledger=curator.ledger.id, public_key=curator.public_key)
    ).ok
    again = curator.publish(tmp_path / "plan.toml")
    assert "charged nothing" in again.charge.text
    assert {n: a.finished.values for n, a in again.answers.items()} == {
        n: a.finished.values for n, a in done.answers.items()
    }
    assert engine.measured == len(statistics)


def test_weights_divide_the_total(tmp_path: Path) -> None:
    def shares(kind: str) -> list[Fraction]:
        curator, _ = open_clinic(**BUDGETS[kind])
        text = f'[statistics.a]\nsql = "{ALL}"\nweight = 3\n[statistics.b]\nsql = "{ALL} WHERE cost > 5"\n'
        (tmp_path / "p.toml").write_text(f"[release]\n{TOTALS[kind]}\nbias_share = 0\n{text}")
        split = quote_batch(curator.context, load_plan(tmp_path / "p.toml"))
        assert curator.history() == ()
        return [next(iter(p.releases)).law(0).scale for p in split.plans]

    heavy, light = shares("pure")
    assert light == 3 * heavy == 4
    # σ² goes with 1/weight².
    heavy, light = shares("zcdp")
    assert light == 9 * heavy


def test_many_statistics_are_composed_tightly(tmp_path: Path) -> None:
    """Twelve counts under (1, 1e-6): less noise than the sum of epsilons and than the sum of rhos would allow."""
    statistics = {f"s{i}": f"{ALL} WHERE cost > {i}" for i in range(12)}
    curator, _ = open_clinic(**BUDGETS["approx"])
    split = quote_batch(curator.context, load_plan(plan(tmp_path, TOTALS["approx"], **statistics)))
    assert "pld" in split.method
    law = split.plans[0].releases[0].law(0)
    assert law.kind == "gaussian"
    zcdp, _ = open_clinic(**BUDGETS["zcdp"])
    by_rho = quote_batch(zcdp.context, load_plan(tmp_path / "plan.toml"))
    assert law.scale < by_rho.plans[0].releases[0].law(0).scale * Fraction(9, 10)
    events = [event for p in split.plans for event in exact_events(p)]
    total = compose(events, delta="1e-6", method="pld")
    assert Fraction(98, 100) < total.epsilon <= 1


def test_few_statistics_need_no_delta(tmp_path: Path) -> None:
    curator, _ = open_clinic(**BUDGETS["approx"])
    split = quote_batch(curator.context, load_plan(plan(tmp_path, TOTALS["approx"], a=ALL, b=WARDS)))
    assert split.guarantee == ApproxDP(1, 0)
    assert split.method == "the sum of their epsilons"
    assert [p.releases[0].law(0).kind for p in split.plans] == ["laplace", "laplace"]


@pytest.mark.parametrize("kind", ["zcdp", "gdp"])
def test_an_epsilon_means_what_it_means_of_a_query(tmp_path: Path, kind: str) -> None:
    """Without a delta it is meant at that of the account, and not as the rho that a pure release of it would cost."""
    curator, _ = open_clinic(accounting=kind, epsilon="4", delta="1e-6")
    done = curator.publish(plan(tmp_path, 'epsilon = "0.5"', "bias_share = 0", a=ALL, b=f"{ALL} WHERE cost > 5"))
    whole = curator.explain(ALL, epsilon="0.5").guarantee
    assert done.split.guarantee == whole
    assert done.charge.text.startswith("Charged epsilon 0.5 (")
    page = (done.batch.output / "report.html").read_text()
    assert "Charged epsilon 0.5 (" in page.split("How to check this")[1]
    assert "<figure>" not in page, "one number is no chart"
    assert [entry.text for entry in curator.history() if entry.amounts] == [done.charge.text]
    own = [answer.charge.text for answer in done.answers.values()]
    assert all(text.startswith("Costs epsilon 0.3") and "at delta 1e-06" in text for text in own), own


def test_charts_begin_at_0_or_say_otherwise(tmp_path: Path) -> None:
    curator, _ = open_clinic(epsilon="1000")
    near, far = (
        curator.sql(sql, epsilon="400")
        for sql in (WARDS, "SELECT ward, AVG(cost) + 9000 AS m FROM visits GROUP BY ward")
    )
    scale = [chart.to_dict()["layer"][0]["encoding"]["y"] for chart in (near.plot("n"), far.plot("m"))]
    assert [each["scale"]["zero"] for each in scale] == [True, False]
    assert [each["title"] for each in scale] == ["n", "m (axis not from 0)"]


class Interrupted(BaseException):
    """A crash of the machine."""


def _interrupting(curator: Curator, engine: Any, at: int) -> list[int]:
    """Make the ``at``-th call that matters fail, before it does anything for odd numbers and after it for even ones."""
    count = [0]

    def wrapped(call: Any) -> Any:
        def inner(*args: Any, **more: Any) -> Any:
            count[0] += 1
            if count[0] == at:
                raise Interrupted
            result = call(*args, **more)
            count[0] += 1
            if count[0] == at:
                raise Interrupted
            return result

        return inner

    curator.ledger.reserve = wrapped(type(curator.ledger).reserve.__get__(curator.ledger))  # type: ignore[method-assign]
    curator.ledger.commit = wrapped(type(curator.ledger).commit.__get__(curator.ledger))  # type: ignore[method-assign]
    engine.measure = wrapped(type(engine).measure.__get__(engine))
    return count


@pytest.mark.deep
def test_interrupted_at_any_step_it_resumes_without_paying_or_drawing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "report_page", lambda *args: "drawing charts takes long")
    place = plan(tmp_path, a=WARDS, b=COST)
    at, finished = 0, False
    while not finished:
        at += 1
        curator, engine = open_clinic()
        count = _interrupting(curator, engine, at)
        try:
            curator.publish(place, output=tmp_path / f"out{at}")
            finished = True
        except Interrupted:
            pass
        kept = {r.seq: r.digest for r in curator.ledger.history() if r.committed is not None}
        count[0] = -1000
        done = curator.publish(place, output=tmp_path / f"out{at}")
        records = list(curator.ledger.history())
        assert spent(curator) == [1]
        assert sum(any(a.amount for a in record.amounts) for record in records) == 1
        assert len(records) == 3
        assert all(record.committed for record in records)
        assert kept.items() <= {r.seq: r.digest for r in records}.items()
        assert verify_receipt(done.receipt, curator.public_key).ok
        assert (tmp_path / f"out{at}" / "report.html").exists()
        assert curator.ledger.verify().ok
    # A reservation and a commit for the batch and for each of two statistics, and two measurements of each, the second
    # of what it leaves out: before and after.
    assert at == 2 * 10 + 1


def test_interrupted_by_its_own_progress_it_resumes(tmp_path: Path) -> None:
    curator, engine = open_clinic()

    def stop(done: int, total: int, name: str) -> None:
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        curator.publish(plan(tmp_path), progress=stop)
    assert (spent(curator), engine.measured) == ([1], 1)
    assert not (tmp_path / "release").exists()
    told: list[str] = []
    done = curator.publish(tmp_path / "plan.toml", progress=lambda *a: told.append(a[2]))
    assert (spent(curator), engine.measured, told) == ([1], 2, ["a", "b"])
    assert "charged nothing" in done.charge.text


def test_a_change_of_plan_or_data_is_another_release(tmp_path: Path) -> None:
    curator, _ = open_clinic()
    curator.publish(plan(tmp_path))
    curator.publish(plan(tmp_path, a=WARDS, b=COST))
    assert spent(curator) == [2]
    version = ["1"]
    object.__setattr__(curator._context, "version", lambda tables: version[0])
    curator.publish(tmp_path / "plan.toml")
    assert spent(curator) == [2]
    version[0] = "2"
    curator.publish(tmp_path / "plan.toml")
    assert spent(curator) == [3]
    # Neither is it the same as a query, whose price is another.
    assert curator.sql(WARDS, epsilon="0.5").charge.amounts
    with pytest.raises(BudgetError):
        curator.publish(plan(tmp_path, a=ALL))
    assert spent(curator) == [Fraction(7, 2)]


def _released(tmp_path: Path) -> BatchRelease:
    curator, _ = open_clinic(accounting="zcdp", epsilon="4", delta="1e-2")
    return curator.publish(plan(tmp_path, TOTALS["zcdp"], wards=WARDS, cost=COST, streets=STREETS))


def test_what_is_written(tmp_path: Path) -> None:
    done = _released(tmp_path)
    out = tmp_path / "release"
    assert sorted(path.name for path in out.iterdir()) == sorted(path.name for path in done.files)
    for name, answer in done.answers.items():
        stored = pq.read_table(out / f"{name}.parquet")
        assert stored == answer.intervals()
        assert pa_csv.read_csv(out / f"{name}.csv").column_names == stored.column_names
        assert len(pa_csv.read_csv(out / f"{name}.csv")) == len(answer)
    receipt = Receipt.from_json((out / "receipt.json").read_text())
    assert receipt == done.receipt
    assert verify_receipt(receipt, (out / "public-key.txt").read_text()).ok
    assert [answer["name"] for answer in receipt["answers"]] == ["wards", "cost", "streets"]
    assert json.loads((out / "receipt.json").read_text())["receipt"]["population"] == "patients"


def test_the_report_stands_alone_and_says_what_is_protected(tmp_path: Path) -> None:
    done = _released(tmp_path)
    page = (tmp_path / "release" / "report.html").read_text()
    assert "<h1>The &lt;b&gt;year&lt;/b&gt;</h1>" in page
    assert page.count("<svg") == 3
    assert "<script" not in page
    # Namespaces are names; nothing is fetched.
    assert not re.findall(r"""(?:src|href)\s*=\s*["']\s*(?:https?:)?//""", page)
    assert not re.findall(r"url\(\s*['\"]?(?:https?:)?//|@import", page)
    assert "protects each of the patients" in page
    assert "times likelier, apart from a chance of 1e-06" in page
    assert "visits.patient" in page
    assert "gaussian noise, scale" in page
    assert f"position {done.receipt.position} of ledger" in page


def test_guarantees_in_words() -> None:
    words = guarantee_in_words(PureDP(1), "patients")
    assert "becomes more than 2.72 times likelier. That is differential privacy with epsilon 1." in words
    assert "one of them is in the data or not" in words
    words = guarantee_in_words(ApproxDP("0.5", "1e-6", relation="replace_one"), "patients")
    assert "apart from a chance of 1e-06" in words
    assert "another person's" in words


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "release: is missing"),
        ("[release]\nepsilon = 1", "statistics: name at least one"),
        ("[release]\nepsilon = 1\n[statistics]", "statistics: name at least one"),
        ("[release]\n[statistics.a]\nsql = 'x'", "state one total"),
        ("[release]\nepsilon = 1\nrho = 1\n[statistics.a]\nsql = 'x'", "state one total"),
        ("[release]\nepsilon = 0\n[statistics.a]\nsql = 'x'", "release.epsilon: must be greater than 0"),
        ("[release]\nepsilon = 1\n[statistics.report]\nsql = 'x'", "statistics.report: a name becomes a file"),
        ("[release]\nepsilon = 1\n[statistics.'../a']\nsql = 'x'", "a name becomes a file"),
        ("[release]\nepsilon = 1\n[statistics.a]\nsql = 'x'\nweight = -1", "statistics.a.weight"),
        ("[release]\nepsilon = 1\nformats = ['xls']\n[statistics.a]\nsql = 'x'", "release.formats"),
        ("[release]\nrho = 1\n[statistics.a]\nsql = 'SELECT COUNT(*) AS n FROM visits'", "charged in epsilon alone"),
        ("[release", "is not TOML"),
    ],
)
def test_mistakes_in_a_plan_are_named(tmp_path: Path, text: str, message: str) -> None:
    curator, engine = open_clinic()
    (tmp_path / "plan.toml").write_text(text)
    with pytest.raises(InputError, match=message):
        curator.publish(tmp_path / "plan.toml")
    assert (curator.history(), engine.measured) == ((), 0)


def test_refusals_cost_nothing(tmp_path: Path) -> None:
    curator, engine = open_clinic()
    with pytest.raises(QueryError):
        curator.publish(plan(tmp_path, a=ALL, b="SELECT patient FROM visits"))
    with pytest.raises(QueryError, match="delta"):
        curator.publish(plan(tmp_path, a=STREETS))
    with pytest.raises(InputError, match="cannot read"):
        curator.publish(tmp_path / "missing.toml")
    assert (curator.history(), engine.measured) == ((), 0)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="what was released is kept"):
        curator.publish(plan(tmp_path), output=tmp_path / "file" / "x")
    done = curator.publish(tmp_path / "plan.toml")
    assert (spent(curator), len(done.files)) == ([1], 8)
    assert CATALOG.digest == done.receipt["catalog"]


def test_auto_bounds_are_planned_for_where_prices_add_up(tmp_path: Path) -> None:
    auto = "SELECT SUM(CLAMP(cost, AUTO)) AS s FROM visits"
    curator, _ = open_clinic()
    done = curator.publish(plan(tmp_path, a=auto, b=ALL))
    assert done.answers["a"].plan.found
    assert len(done.receipt["answers"][0]["mechanisms"]) == 3
    assert curator.check_receipt(done.receipt).ok
    again = curator.publish(tmp_path / "plan.toml")
    assert again.answers["a"].finished.values == done.answers["a"].finished.values
    # What is found would shift noise between releases that were composed before anything was known.
    curator, _ = open_clinic(**BUDGETS["approx"])
    with pytest.raises(InputError, match="AUTO"):
        curator.publish(plan(tmp_path, TOTALS["approx"], a=auto, b=ALL))
    assert curator.history() == ()


def test_a_statistic_may_state_its_limits(tmp_path: Path) -> None:
    curator, _ = open_clinic(epsilon="4")
    place = plan(tmp_path, a=WARDS, b=ALL)
    place.write_text(place.read_text() + "max_rows = 9\n")
    made = curator.publish(place)
    one, other = (each.final.measures[0].rows for each in made.split.plans)
    assert (one, other) == (CATALOG.tables[0].max_rows, 9)
    place.write_text(place.read_text().replace("max_rows = 9", "max_rows = 0"))
    with pytest.raises(InputError, match="max_rows"):
        curator.publish(place)
