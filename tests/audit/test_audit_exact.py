"""Exact audits of tables and of code: every sequence of choices, no sampling."""

from __future__ import annotations

import json
import math
import sys
from fractions import Fraction

import pytest

import tacit
from tacit.audit import Chance, exact
from tacit.audit.exact import tabulate
from tacit.core.errors import AccountingError, InputError

F = Fraction
COIN = {0: {0: "3/4", 1: "1/4"}, 1: {0: "1/4", 1: "3/4"}}


def flip(answer: int, chance: Chance) -> int:
    return answer if chance("3/4") else 1 - answer


def test_code_and_table_are_the_same_mechanism() -> None:
    for mechanism in (exact(flip, databases=[0, 1]), exact(COIN)):
        assert mechanism.mechanism.ratio().value == 3
        assert mechanism.epsilon.up == pytest.approx(math.log(3))


def test_claims_are_decided_exactly() -> None:
    """ln 3 = 1.09861228866810969…"""
    assert exact(COIN, claimed="1.098612288668109691").violated
    assert not exact(COIN, claimed="1.098612288668109692").violated
    assert not exact(COIN, claimed=tacit.ApproxDP("0.7", "0.25")).violated
    assert exact(COIN, claimed=tacit.ApproxDP("0.6", "0.25")).violated


def test_renyi_and_normal_claims() -> None:
    # Order 2: ln(27/12 + 1/12) = ln(7/3) = 0.8473.
    assert not exact(COIN, claimed=tacit.RDP({2: "0.8474"})).violated
    assert exact(COIN, claimed=tacit.RDP({2: "0.8472"})).violated
    assert exact(COIN, claimed=tacit.ZCDP("0.3")).violated
    assert not exact(COIN, claimed=tacit.ZCDP("0.61")).violated
    assert exact(COIN, claimed=tacit.GDP("0.5")).violated
    assert not exact(COIN, claimed=tacit.GDP(2)).violated
    with pytest.raises(InputError, match="delta"):
        exact(COIN, claimed=tacit.ZCDP(1, delta="1e-6"))


def folded_count(rows: tuple[str, ...], chance: Chance) -> int:
    """A count with three steps of noise at most, folded into 0..1."""
    count = len(rows)
    for _ in range(3):
        if chance("2/3"):
            count += 1 if chance("1/2") else -1
    return min(max(count, 0), 1)


def test_databases_under_a_relation() -> None:
    found = exact(folded_count, databases=[(), ("a",)], relation="add_remove")
    assert found.mechanism.pairs == (((), ("a",)), (("a",), ()))
    # P(sum >= 1) = 10/27 without, P(sum >= 0) = 17/27 with the record.
    assert found.mechanism.ratio().value == F(17, 10)


def test_all_kinds_of_choices() -> None:
    def mechanism(_: int, chance: Chance) -> tuple[bool, int, object]:
        return chance.exp(1), chance.pick(3), chance.draw({"a": "1/4", "b": "3/4"})

    law = tabulate(mechanism, 0)
    low, high = law[True, 2, "b"]
    assert low <= F(str(round(math.exp(-1) / 4, 12))) + F(1, 10**11)
    assert high - low < F(1, 10**15)
    assert len(law) == 12
    assert sum(high for _, high in law.values()) == pytest.approx(1)


def test_impossible_choices_are_not_taken() -> None:
    assert tabulate(lambda x, chance: 1 / x if chance(1) else 0, 1) == {1.0: (1, 1)}


def test_an_error_is_an_output() -> None:
    def fails(rows: tuple[int, ...], chance: Chance) -> float:
        return 1 / len(rows) if chance("1/2") else 0

    found = exact(fails, databases=[(), (1,)], relation="add_remove", claimed=5)
    assert found.violated
    assert "ZeroDivisionError" in str(found.worst)
    assert json.loads(found.to_json())["epsilon"] is None


def test_what_cannot_be_enumerated_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["tacit.audit.exact"], "_MOST_PATHS", 500)

    def endless(_: int, chance: Chance) -> int:
        return sum(chance("1/2") for _ in range(20))

    with pytest.raises(AccountingError, match="sequences of choices"):
        tabulate(endless, 0)

    def forever(_: int, chance: Chance) -> int:
        while chance("1/2"):
            pass
        return 0

    with pytest.raises(AccountingError, match="choices in one run"):
        tabulate(forever, 0)
    with pytest.raises(InputError, match="databases"):
        exact(flip)
    with pytest.raises(InputError, match="probability"):
        exact(lambda x, chance: chance(2), databases=[0, 1])
