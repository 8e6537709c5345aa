"""Rates, choices by lot, and the forms of a result."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from support.bits import SeededBits
from tacit.audit.attacks import (
    Comparison,
    Differencing,
    Figures,
    SuccessRate,
    compare,
)
from tacit.audit.attacks.counts import bounded_noise
from tacit.audit.attacks.results import choose, choose_evenly, largest, percent, toss
from tacit.audit.charts import svg
from tacit.core.errors import InputError

VICTIMS = tuple((person, person % 2 == 0) for person in range(10))


def comparison(*epsilons: str) -> Comparison:
    def ask(person: object, wording: int) -> float:
        return 5.0 - float(person is not None and person in (0, 2, 4, 6, 8))

    return compare(Differencing(VICTIMS), ask, dict.fromkeys(epsilons, ask))


@pytest.mark.parametrize("epsilons", [("0.5", "2"), ("1",), ()])
def test_a_comparison_can_be_read_stored_and_drawn(
    epsilons: tuple[str, ...], tmp_path: Path, seeded: SeededBits
) -> None:
    found = comparison(*epsilons)
    assert found.title in str(found)
    assert json.loads(json.dumps(found.content())) == found.content()
    assert len(found.table()) == len(epsilons) + 3
    drawn = svg(found.chart())
    assert drawn.startswith("<svg")
    assert drawn.endswith("</svg>")
    assert "Unprotected: 100% right" in found.headline
    found.chart(tmp_path / "chart.json")
    assert json.loads((tmp_path / "chart.json").read_text())["$schema"]
    with pytest.raises(InputError, match="must end in"):
        found.chart("chart.gif")


def test_figures_are_a_table_for_people_and_programs() -> None:
    found = Figures("Title", "In one sentence.", ("rows_drawn", "share"), ((10, 0.98765), (20, 1.0)))
    assert found.content() == {
        "title": "Title",
        "rows": [{"rows_drawn": 10, "share": 0.98765}, {"rows_drawn": 20, "share": 1.0}],
    }
    assert found.table() == [("rows drawn", "share"), ("10", "0.988"), ("20", "1")]


def test_a_comparison_in_words(seeded: SeededBits) -> None:
    text = str(comparison("0.5", "2")).splitlines()
    assert text[2].split("  ")[-1].strip() == "in the long run no attack above"
    assert text[3] == "  unprotected   10 of 10 (100%)"
    assert text[4] == "  epsilon 0.5   10 of 10 (100%)       62%"
    assert text[-1] == "  blind guess   50%"


def test_epsilon_must_be_positive() -> None:
    with pytest.raises(InputError, match="epsilon"):
        compare(Differencing(VICTIMS), lambda p, w: 0.0, {"0": lambda p, w: 0.0})


def test_intervals_of_rates() -> None:
    """The interval of Clopper and Pearson for 8 of 10: 0.4439 to 0.9748."""
    low, high = SuccessRate(8, 10).interval()
    assert (low, high) == (pytest.approx(0.4439, abs=1e-4), pytest.approx(0.9748, abs=1e-4))
    assert SuccessRate(0, 5).interval()[0] == 0
    assert SuccessRate(5, 5).interval()[1] == 1
    for hits, tries in ((-1, 2), (3, 2), (0, 0)):
        with pytest.raises(InputError):
            SuccessRate(hits, tries)
    assert [percent(share) for share in (0.0, 0.0004, 0.004, 0.5, 0.995, 0.9999, 1.0)] == [
        "0%", "<0.1%", "0.4%", "50%", "99.5%", ">99.9%", "100%",
    ]  # fmt: skip
    assert (SuccessRate(22, 40).text, SuccessRate(1000, 1000).text) == ("55% ± 16", "100% ± 1")


def test_choices_are_even(seeded: SeededBits) -> None:
    """Each of the 6 pairs of 4 with probability 1/6, ordered ones 1/12: 12,000 draws, counts within six deviations."""
    drawn = Counter(tuple(choose("abcd", 2)) for _ in range(12_000))
    assert len(drawn) == 12
    assert all(abs(count - 1000) < 190 for count in drawn.values())
    with pytest.raises(InputError):
        choose("abc", 4)


def test_even_choices_have_both_truths() -> None:
    chosen = choose_evenly("abcdefgh", [True] * 6 + [False] * 2, 6)
    assert sorted(truth for _, truth in chosen) == [False, False, True, True]
    assert {item for item, truth in chosen if not truth} == {"g", "h"}
    with pytest.raises(InputError, match="nothing to find out"):
        choose_evenly("ab", [True, True], 2)
    with pytest.raises(InputError, match="one entry for each"):
        choose_evenly("ab", [True], 2)


def test_ties_are_broken_by_lot(seeded: SeededBits) -> None:
    drawn = Counter(largest([1, 3, 3]) for _ in range(1000))
    assert drawn[0] == 0
    assert abs(drawn[1] - 500) < 80


def test_coins_and_bounded_noise_are_fair(seeded: SeededBits) -> None:
    """Six deviations each."""
    assert abs(toss(100, 1000).mean() - 0.5) < 0.01
    assert toss(3, 5).shape == (3, 5)
    assert set(bounded_noise(1000, most=1).tolist()) == {-1, 0, 1}
    assert not bounded_noise(5, most=0).any()
    with pytest.raises(InputError, match="most"):
        bounded_noise(5, most=-1)
