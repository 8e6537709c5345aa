"""Policy of the owner: one query, one analyst, one version of the data, and a total that nothing refills."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

import tacit
from tacit.core.errors import BudgetError, InputError
from tacit.curator.curator import Curator
from tacit.ledger import Ledger

COUNT = "SELECT COUNT(*) AS n FROM visits WHERE cost > {}"


def opened(folder: Path, policy: str, account: str = 'epsilon = "4"') -> Curator:
    (folder / "visits.csv").write_text("id,cost\n" + "".join(f"{i},{i % 90}\n" for i in range(300)))
    (folder / "tacit.toml").write_text(
        f"""
[project]
name = "clinic"
ledger = "tacit.ledger"
[populations.patients]
{account}
[populations.patients.policy]
{policy}
[tables.visits]
source = "visits.csv"
population = "patients"
unit = "id"
max_groups = 1
max_rows = 1
[tables.visits.columns]
id = {{ type = "integer" }}
cost = {{ type = "integer", bounds = [0, 100] }}
"""
    )
    return tacit.open(folder / "tacit.toml")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACIT_STATE", str(tmp_path / "state"))


def ask(curator: Curator, epsilon: str, *, at: int = 0, analyst: str | None = None) -> None:
    curator.sql(COUNT.format(at), epsilon=epsilon, analyst=analyst)


@pytest.mark.parametrize(
    "account", ['epsilon = "4"', 'epsilon = "4"\ndelta = "1e-6"\naccounting = "zcdp"', 'mu = "2"\naccounting = "gdp"']
)
def test_one_query_costs_at_most_what_the_owner_allows(tmp_path: Path, account: str) -> None:
    with opened(tmp_path, 'per_query = "0.5"', account) as curator:
        price = {"mu": "0.1"} if "mu" in account else {"epsilon": "0.5"}
        assert "The owner allows at most epsilon 0.5 for one query." in str(curator.explain(COUNT.format(1), **price))
        curator.sql(COUNT.format(1), **price)
        too_much = {"mu": "1"} if "mu" in account else {"epsilon": "0.51"}
        for call in (curator.explain, curator.sql):
            with pytest.raises(InputError, match=r"at most 0\.5 for one query"):
                call(COUNT.format(1), **too_much)
        with pytest.raises(InputError, match="for one query"):
            curator.sql(COUNT.format(2), within=1)
        assert len(curator.history()) == 1


def test_an_analyst_has_the_stated_share_unless_an_operator_decides(tmp_path: Path) -> None:
    with opened(tmp_path, 'per_analyst = "1"') as curator:
        ask(curator, "0.75", analyst="alice")
        with pytest.raises(BudgetError, match="analyst alice"):
            ask(curator, "0.5", at=1, analyst="alice")
        assert "Warning: 50% of the budget of analyst alice is spent." in str(curator.budget(analyst="alice"))
        curator.ledger.set_quota("patients", {"epsilon": "2"}, analyst="bob", operator="olga")
        ask(curator, "1.5", at=2, analyst="bob")
        ask(curator, "1.5", at=3)
        assert "Policy: at most epsilon 1 for one analyst." in curator.budget().notes


def test_a_version_begins_anew_and_the_total_holds(tmp_path: Path) -> None:
    with opened(tmp_path, 'per_version = "1.5"\nversion = "2026-Q1"') as first:
        ask(first, "1")
        with pytest.raises(BudgetError, match="version 2026-q1"):
            ask(first, "1", at=1)
    with opened(tmp_path, 'per_version = "1.5"\nversion = "2026-Q2"') as second:
        ask(second, "1.5", at=2)
        assert "version 2026-q2" in str(second.budget())
        assert second.budget().spent[0].amount == 2.5
    with opened(tmp_path, 'per_version = "2"\nversion = "2026-Q3"') as third:
        with pytest.raises(BudgetError, match="of 4 left"):
            ask(third, "2", at=3)
        ask(third, "1.5", at=3)
        with pytest.raises(BudgetError):
            ask(third, "0.1", at=4)
        report = third.ledger.verify()
        assert report.problems == ()
        began = [str(each) for each in third.ledger.overrides() if each.kind == "renewal"]
        assert len(began) == 3
        assert "version 2026-q2 of patients began" in began[1]


def test_no_version_comes_back_or_grows(tmp_path: Path) -> None:
    for version in ("a", "b"):
        opened(tmp_path, f'per_version = "1"\nversion = "{version}"').close()
    with pytest.raises(InputError, match="does not come back"):
        opened(tmp_path, 'per_version = "1"\nversion = "A"')
    with pytest.raises(InputError, match="is fixed when a version begins"):
        opened(tmp_path, 'per_version = "2"\nversion = "b"')
    # Without the table, charges still fall into the version that was begun.
    with opened(tmp_path, "") as curator:
        with pytest.raises(BudgetError, match="version b"):
            ask(curator, "1.1")
        ask(curator, "1")


@pytest.mark.parametrize("years", [-10, 10])
def test_no_clock_refills_anything(years: int, tmp_path: Path) -> None:
    """A38: ten years forward or back between charges, and nothing is free again."""
    moment = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    clock = [moment]
    from tacit.accounting.filters import PureFilter

    with Ledger.open(tmp_path / "l", anchor=tmp_path / "a", clock=lambda: clock[0]) as ledger:
        ledger.ensure_account("patients", PureFilter(epsilon="4"))
        ledger.renew("patients", "q1", {"epsilon": "1"})
        before = ledger.budget("patients").balances
        clock[0] = moment.replace(year=moment.year + years)
        assert ledger.period("patients") == "q1"
        assert ledger.budget("patients").balances == before
        ledger.renew("patients", "q1", {"epsilon": "1"})
        assert len([each for each in ledger.overrides() if each.kind == "renewal"]) == 1


def test_what_belongs_together_is_stated_together(tmp_path: Path) -> None:
    for wrong in ('per_version = "1"', 'version = "a"', 'per_query = "-1"', "warn_at = [0]", 'per_day = "1"'):
        with pytest.raises(InputError, match=r"populations\.patients\.policy"):
            opened(tmp_path, wrong)
