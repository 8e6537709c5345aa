"""Answers that say what was left out: attribute, text, HTML, JSON, a server's client, repeats, widened intervals."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import pytest

from support.bits import SeededBits
from support.toy_curators import toy_curator
from support.toy_engine import ToyEngine
from tacit.client.remote_curator import RemoteRows
from tacit.client.responses import AnswerResponse, answer_json
from tacit.core.errors import InputError
from tacit.curator.curator import Curator
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.postprocess.bias import Bias, CauseShare
from tacit.query.types import INTEGER, TEXT
from tacit.releases.release_format import released_from_text

CATALOG = Catalog(
    (
        Table(
            "visits",
            (
                Column("patient", INTEGER),
                Column("ward", TEXT, categories=("a", "b")),
                Column("cost", INTEGER, bounds=(0, 10)),
            ),
            population="patients",
            unit="patient",
        ),
    ),
    (Population("patients"),),
)
#: A third of 900 people have three visits to one ward, of which one counts; all others have one.
ROWS: list[dict[str, Any]] = [
    {"patient": i, "ward": "ab"[i % 2], "cost": i % 11} for i in range(900) for _ in range(3 if i % 3 == 0 else 1)
]
WARDS = "SELECT ward, COUNT(*) AS n, SUM(cost) AS s, COUNT(DISTINCT patient) AS p FROM visits GROUP BY ward"


@pytest.fixture
def curator(seeded: SeededBits) -> Curator:
    return toy_curator(CATALOG, ToyEngine({"visits": ROWS}), {"epsilon": "1000"})


def test_an_answer_says_how_many_people_were_cut(curator: Curator) -> None:
    answer = curator.sql(WARDS, epsilon="40")
    assert answer.bias is not None
    rows = next(cause for cause in answer.bias.causes if cause.cause == "max_rows")
    assert rows.seen
    assert abs(rows.share - Fraction(1, 3)) <= Fraction(1, 20)
    assert "of people had rows beyond max_rows = 1; counts are too low" in repr(answer)
    words = " ".join(str(answer).split())
    assert rows.sentence[1:] in words
    assert "* The bias may exceed the interval" in words
    assert rows.sentence[1:].replace("±", "±") in answer._repr_html_()
    assert "95% intervals over the noise. About" in answer.note


def test_people_whom_noise_hides_are_spoken_of(seeded: SeededBits) -> None:
    """Five of 900 people hold a third of a sum: too few to be seen, and the sum is too low by far."""
    rows = [{"patient": i, "ward": "a", "cost": 5} for i in range(900) for _ in range(500 if i % 200 == 0 else 1)]
    curator = toy_curator(CATALOG, ToyEngine({"visits": rows}), {"epsilon": "1000"})
    answer = curator.sql("SELECT SUM(cost) AS s FROM visits", epsilon="1")
    assert not any(answer.finished.marked()[0])
    assert answer.intervals().to_pylist()[0]["s_high"] < 5 * len(rows)
    words = re.compile(r"Up to \d+% of people may exceed max_rows = \d+: raise max_rows\.")
    assert words.search(answer.note)
    assert words.search(" ".join(str(answer).split()))
    people = curator.sql("SELECT COUNT(DISTINCT patient) AS p FROM visits", epsilon="1")
    assert "may exceed" not in people.note, "nothing can be left out"
    unknown = curator.sql("SELECT SUM(cost) AS s FROM visits", epsilon="1", bias_share=0)
    assert "without clipping and truncation bias" in unknown.note


@pytest.mark.parametrize(
    ("share", "error", "said"),
    [
        ("0.05", "0.42", ""),
        ("0.12", "0.42", ""),
        ("0.3", "0.4", "About 30% ± 40% of people may exceed the bounds of values: write CLAMP(x, lo, hi) with wider "),
    ],
)
def test_clipping_that_only_noise_could_hide_is_not_spoken_of(share: str, error: str, said: str) -> None:
    """An average over 2,000 people at an epsilon of 0.3 said that up to 47 % might exceed bounds that nobody did."""
    cause = CauseShare("clipping", None, 100, Fraction(share), Fraction(error), seen=False, sentence="")
    assert Bias(2000, (cause,)).caution == (f"{said}bounds." if said else "")


def test_a_fine_average_says_nothing(seeded: SeededBits) -> None:
    rows = [{"patient": i, "ward": "a", "cost": i % 11} for i in range(900)]
    curator = toy_curator(CATALOG, ToyEngine({"visits": rows}), {"epsilon": "1000"})
    said = [curator.sql("SELECT AVG(cost) FROM visits", epsilon=f"0.3{i:06}", max_rows=1).bias for i in range(20)]
    assert all(bias is not None for bias in said)
    assert sum("bounds of values" in str(bias) for bias in said) <= 6, "one in nine, where the noise alone says so"


def test_cells_that_lack_rows_are_marked_and_widened_and_others_are_not(curator: Curator) -> None:
    answer = curator.sql(WARDS, epsilon="40")
    assert [row[1:] for row in answer.finished.marked()] == [(True, True, False)] * 2
    plain, wide = answer.intervals().to_pylist(), answer.intervals(bias=True).to_pylist()
    for own, other in zip(plain, wide, strict=True):
        assert own["n_high"] < 750 <= other["n_high"], "450 people have 750 rows in each ward"
        assert own["n_low"] == other["n_low"], "limits make counts too low, never too high"
        assert other["p_high"] - own["p_high"] < 60, "people are counted once anyway; as many as noise can hide"
        assert other["s_low"] <= own["s_low"] < own["s_high"] < other["s_high"]


@pytest.mark.parametrize(("call", "truth"), [("SUM", 400 * 14 + 500 * 5), ("AVG", (400 * 14 + 500 * 5) / 900)])
def test_values_that_are_clipped_are_in_the_shown_interval_of_the_only_group(
    call: str, truth: float, seeded: SeededBits
) -> None:
    """400 of 900 people have a value of 14 where at most 10 is declared; a server's client shows the same interval."""
    rows = [{"patient": i, "ward": "ab"[i % 2], "cost": 14 if i % 9 < 4 else 5} for i in range(900)]
    curator = toy_curator(CATALOG, ToyEngine({"visits": rows}), {"epsilon": "1000"})
    answer = curator.sql(f"SELECT {call}(cost) AS s FROM visits", epsilon="20", max_rows=1)
    (shown,), (noise,), (wide,) = (answer.intervals(bias=bias).to_pylist() for bias in (None, False, True))
    assert noise["s_high"] < truth <= shown["s_high"] < wide["s_high"]
    assert shown["s_high"] - noise["s_high"] < 3 * (truth - noise["s_high"]), "a power of two above the loss, and noise"
    remote = RemoteRows.of(AnswerResponse.read(AnswerResponse.of(answer).plain()))
    assert remote.intervals() == answer.finished.intervals()
    grouped = curator.sql(f"SELECT ward, {call}(cost) AS s FROM visits GROUP BY ward", epsilon="20", max_rows=1)
    assert grouped.intervals() == grouped.intervals(bias=False), "one ward or the other may have all of the loss"
    assert all(row[1] for row in grouped.finished.marked())


def test_a_sum_that_clips_nothing_has_the_interval_of_noise(curator: Curator) -> None:
    answer = curator.sql("SELECT SUM(cost) AS s FROM visits", epsilon="40", max_rows=3)
    assert answer.finished.sure() == answer.finished.intervals(bias=False)


def test_what_is_made_of_cells_is_widened_with_them(curator: Curator) -> None:
    sql = (
        "SELECT SUM(n) AS t, SUM(n) * 2 AS d, SUM(n) / SUM(p) AS r FROM "
        "(SELECT ward, COUNT(*) AS n, COUNT(DISTINCT patient) AS p FROM visits GROUP BY ward)"
    )
    answer = curator.sql(sql, epsilon="40")
    (own,), (wide,) = answer.intervals().to_pylist(), answer.intervals(bias=True).to_pylist()
    assert own["t_high"] < 1500 <= wide["t_high"] < 3000, "cells share what they lack together"
    assert wide["d_high"] - wide["d_low"] > 1100
    assert own["r_high"] < 1500 / 900 <= wide["r_high"]


def test_means_and_quantiles(curator: Curator) -> None:
    answer = curator.sql("SELECT AVG(cost) AS m, VAR_POP(cost) AS v, MEDIAN(cost) AS q FROM visits", epsilon="40")
    (own,), (wide,) = answer.intervals().to_pylist(), answer.intervals(bias=True).to_pylist()
    assert 0 <= wide["m_low"] < own["m_low"]
    assert own["m_high"] < wide["m_high"] <= 10
    assert (wide["v_low"], wide["v_high"]) == (0.0, None)
    assert (wide["q_low"], wide["q_high"]) == (None, None), "no bound is known"


def test_nothing_is_said_where_nothing_can_be_bias(curator: Curator) -> None:
    answer = curator.sql("SELECT COUNT(DISTINCT patient) AS n FROM visits", epsilon="1")
    assert answer.bias is None
    assert answer.intervals(bias=True) == answer.intervals()
    assert AnswerResponse.of(answer).plain()["bias"] is None


def test_a_share_of_zero_buys_nothing_and_no_widened_interval(curator: Curator) -> None:
    answer = curator.sql(WARDS, epsilon="1", bias_share=0)
    assert answer.bias is None
    assert len(answer.receipt["answers"][0]["mechanisms"]) == 2
    with pytest.raises(InputError, match="bias_share = 0"):
        answer.intervals(bias=True)
    body = AnswerResponse.of(answer)
    assert "bias" not in body.plain()
    remote = RemoteRows.of(AnswerResponse.read(body.plain()))
    with pytest.raises(InputError, match="did not estimate"):
        remote.intervals(bias=True)


def test_a_repeat_has_the_same_table_and_one_receipt_names_it(curator: Curator) -> None:
    first, second = curator.sql(WARDS, epsilon="2"), curator.sql(f"{WARDS} ORDER BY ward DESC", epsilon="2")
    assert second.charge.repeated
    assert first.bias == second.bias
    assert first.receipt["charge"] == {"epsilon": "2"}
    named = [line["name"] for line in first.receipt["answers"][0]["mechanisms"]]
    assert named[-1] == "rows for people by cause of bias"
    assert curator.check_receipt(first.receipt).ok
    other = curator.sql(WARDS, epsilon="2", bias_share="0.1")
    assert not other.charge.repeated, "other noise is another release"


def test_a_client_reads_what_was_bias(curator: Curator) -> None:
    answer = curator.sql(WARDS, epsilon="40")
    body = AnswerResponse.of(answer).plain()
    remote = RemoteRows.of(AnswerResponse.read(body))
    assert answer.bias is not None
    assert remote.bias is not None
    assert remote.bias.caution == answer.bias.caution
    assert remote.intervals(bias=True) == answer.finished.intervals(bias=True)
    assert remote.marked() == answer.finished.marked()
    printed = answer_json(curator, answer)
    assert printed["bias"]["causes"][0]["sentence"] == answer.bias.causes[0].sentence
    assert set(printed["rows"][0]["n"]) == {"value", "low", "high", "bias_low", "bias_high", "marked"}


def test_a_table_of_another_size_does_not_pass(curator: Curator) -> None:
    answer = curator.sql(WARDS, epsilon="2")
    store = curator.ledger.journal.store
    found = [store.attachment(entry.seq, "result") for entry in store.entries()]
    (text,) = [result.decode() for result in found if result]
    assert released_from_text(text, answer.plan).noisy_bias is not None
    with pytest.raises(Exception, match="does not fit its plan"):
        released_from_text(text.replace('"bias":[', '"bias":[1,'), answer.plan)
