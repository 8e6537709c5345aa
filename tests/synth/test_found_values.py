"""Texts of which nothing is declared: their values are found privately, within the one charge of a synthetic table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tacit
from support.replay import record, replay
from tacit.core.errors import FailedRunError, InputError
from tacit.curator.curator import Curator
from tacit.query.refusal import Refusal
from tacit.releases.receipt import verify_receipt
from tacit.releases.synthesis import check_synthesis
from tacit.releases.synthetic_table import SyntheticTable
from tacit.synth import count_measurement, graphical_model, table_synthesis
from tacit.synth.synthesis_request import SynthesisRequest

CITIES = ["Köln", "it's", 'a "b" \\', "-- ;"]
COLUMNS: dict[str, Any] = {"ward": ["a", "b"]}
BUDGETS = {
    "zcdp": {"epsilon": "40", "delta": "1e-6"},
    "approx": {"accounting": "approx", "epsilon": "40", "delta": "1e-4"},
}
ACCOUNTS = pytest.mark.parametrize("account", BUDGETS)


def rows(people: int = 600, *more: dict[str, Any]) -> pa.Table:
    """Two rows of each person; every seventh city is unknown, and every note stands once."""
    made = [
        {"id": i // 2, "ward": "ab"[i % 2], "city": None if i % 7 == 0 else CITIES[i % 4], "note": f"note {i}"}
        for i in range(2 * people)
    ]
    return pa.Table.from_pylist([*made, *more])


def opened(table: pa.Table, account: str = "zcdp") -> Curator:
    return tacit.open(table, unit="id", max_rows=2, max_groups=2, columns=COLUMNS, **BUDGETS[account])


@ACCOUNTS
@pytest.mark.parametrize("method", ["independent", "aim"])
def test_frequent_values_are_found_and_rare_ones_are_null(account: str, method: Any) -> None:
    curator = opened(rows(), account)
    table = curator.synthesize("data", epsilon=4, method=method)
    assert set(table.found["city"]) == set(CITIES)
    assert table.found["note"] == ()
    assert (set(table.columns), table.left_out) == ({"ward", "city"}, ())
    drawn = table.to_arrow()["city"].to_pylist()
    assert {*drawn} == {*CITIES, None}
    assert abs(drawn.count(None) / len(drawn) - 1 / 7) < 0.1
    report = table.report()
    assert "city: 4 values found privately; NULL stands for rarer ones too" in report
    assert "note: not made, as no value is frequent enough" in report
    assert len(curator.history()) == 1
    names = [line["name"] for line in table.receipt["answers"][0]["mechanisms"]]
    assert "values of city: selection of keys" in names
    assert verify_receipt(table.receipt, curator.public_key)
    again = curator.released(table.receipt.position)
    assert (again.found, again.columns) == (table.found, table.columns)
    assert curator.synthesize("data", epsilon=4, method=method).charge.repeated
    assert table.marginal(["city"])["city"].to_pylist()[0] == "NULL or another"


@ACCOUNTS
def test_the_quote_says_what_finding_them_costs(account: str) -> None:
    curator = opened(rows(20), account)
    quote = check_synthesis(curator.context, SynthesisRequest.of("data", None, "independent", {"epsilon": 1}))
    assert "find values of city, note privately; rarer values are NULL" in quote
    assert "of it rho" in quote
    assert "delta 5e-0" in quote
    chosen = check_synthesis(curator.context, SynthesisRequest.of("data", ["ward"], "independent", {"epsilon": 1}))
    assert "privately" not in chosen
    assert not curator.history()


def test_without_a_delta_they_are_named_as_before() -> None:
    for budget in ({"epsilon": "4"}, {"accounting": "gdp", "mu": "2"}):
        curator = tacit.open(rows(20), unit="id", max_rows=2, max_groups=2, columns=COLUMNS, **budget)
        price = {"mu": 1} if "mu" in budget else {"epsilon": 1}
        quote = check_synthesis(curator.context, SynthesisRequest.of("data", None, "independent", price))
        assert quote.endswith(
            "not made, as neither categories nor bounds are declared (a profile finds them): city, note"
        )
        with pytest.raises(Refusal, match="not a public list"):
            check_synthesis(curator.context, SynthesisRequest.of("data", ["ward", "city"], "independent", price))


def test_what_would_leave_nothing_is_refused_before_the_charge() -> None:
    curator = opened(rows(20))
    with pytest.raises(Refusal, match="not a public list"):
        curator.synthesize("data", ["note"], epsilon=1)
    texts = tacit.open(rows(20).select(["id", "note"]), unit="id", max_rows=2, max_groups=2, **BUDGETS["zcdp"])
    with pytest.raises(InputError, match="no column with declared"):
        texts.synthesize("data", epsilon=1)
    assert not curator.history()


def test_a_table_of_many_texts_is_made() -> None:
    wide = rows(200)
    for number in range(30):
        wide = wide.append_column(f"text_{number}", pa.array(["yes", "no"] * 200))
    table = opened(wide).synthesize("data", rho=2, method="independent")
    assert all({*table.found[f"text_{number}"]} == {"yes", "no"} for number in range(30))


def test_a_run_that_dies_is_followed_by_another_under_the_same_charge(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    def on_disk() -> Curator:
        place = tmp_path / "ledger"
        return tacit.open(rows(), unit="id", max_rows=2, max_groups=2, columns=COLUMNS, ledger=place, **BUDGETS["zcdp"])

    class Killed(BaseException):
        pass

    def killed(*_: Any) -> Any:
        raise Killed

    with on_disk() as curator, monkeypatch.context() as patch:
        patch.setattr(count_measurement, "add_noise", killed)
        with pytest.raises(Killed):
            curator.synthesize("data", epsilon=4)
    with on_disk() as curator:
        spent = curator.budget().spent
        # What the first run found was seen by nobody.
        assert [each.committed for each in curator.history()] == [False]
        table = curator.synthesize("data", epsilon=4)
        assert set(table.found["city"]) == set(CITIES)
        assert curator.budget().spent == spent


class Releases:
    """Noisy vectors and choices of the first run, given again in others; inputs are kept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.outputs: list[Any] = []
        self.inputs: list[list[tuple[Any, Any]]] = []
        monkeypatch.setattr(count_measurement, "add_noise", self._through(count_measurement.add_noise))
        monkeypatch.setattr(table_synthesis, "choose", self._through(table_synthesis.choose))
        monkeypatch.setattr(graphical_model, "uniform", lambda count: np.full(count, 0.5))

    def _through(self, release: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def passed(mechanism: Any, raw: Any) -> Any:
            self.inputs[-1].append((mechanism, np.array(raw, dtype=object).ravel()))
            if len(self.inputs) == 1:
                self.outputs.append(release(mechanism, raw))
            return self.outputs[len(self.inputs[-1]) - 1]

        return passed

    def run(self, table: pa.Table, method: Any) -> SyntheticTable:
        self.inputs.append([])
        made = opened(table).synthesize("data", epsilon=4, method=method)
        assert isinstance(made, SyntheticTable)
        return made


def seen(table: SyntheticTable) -> object:
    answer = table.receipt["answers"][0]
    return (
        table.found, table.columns, table.report(), table.charge.text, answer["mechanisms"], answer["released"],
        table.model.marginal(("city",)).tolist(),
    )  # fmt: skip


@pytest.mark.parametrize("method", ["independent", "mst", "aim"])
def test_a_person_moves_selection_and_counts_within_their_sensitivities(
    method: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Record and replay: with the same outputs everything visible is the same, whatever texts a person has."""
    releases = Releases(monkeypatch)
    first, tape = record(lambda: releases.run(rows(), method))
    worst = [0.0]
    for person in (
        [{"id": -1, "ward": "a", "city": "Köln", "note": "own"}] * 2,
        [
            {"id": -1, "ward": "b", "city": "only mine", "note": "note 7"},
            {"id": -1, "ward": "a", "city": None, "note": ""},
        ],
    ):
        report = replay(tape, lambda own=person: releases.run(rows(600, *own), method), seen, seen(first))
        assert report.findings == ()
        assert report.moved
        for (mechanism, left), (same, right) in zip(releases.inputs[0], releases.inputs[-1], strict=True):
            moved = [int(each) for each in left - right]
            if hasattr(mechanism, "l2_squared"):
                assert mechanism.sigma2 == same.sigma2
                worst.append(sum(each * each for each in moved) / mechanism.l2_squared)
            else:
                assert (mechanism.epsilon, mechanism.sensitivity) == (same.epsilon, same.sensitivity)
                worst.append(max(map(abs, moved)) / mechanism.sensitivity)
    assert 0 < max(worst) <= 1


def test_a_failed_run_has_paid_for_finding_them(monkeypatch: pytest.MonkeyPatch) -> None:
    curator = opened(rows(20))

    def broken(*_: Any) -> Any:
        raise RuntimeError("text of a person")

    with monkeypatch.context() as patch:
        patch.setattr("tacit.releases.synthesis.run_query", broken)
        with pytest.raises(FailedRunError):
            curator.synthesize("data", epsilon=1)
    (charge,) = [each for each in curator.history() if each.amounts]
    assert {each.currency for each in charge.amounts} == {"rho", "delta"}
