"""An answer in its forms: Arrow, Polars, pandas, intervals at any confidence, text, HTML, charts."""

from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from support.bits import SeededBits
from support.toy_curators import toy_curator
from support.toy_engine import ToyEngine
from tacit.core.errors import InputError
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.types import DATE, DOUBLE, INTEGER, TEXT, decimal
from tacit.releases.answer import Answer, _cell, format_value

DAYS = (dt.date(2024, 1, 1), dt.date(2024, 12, 31))
CATALOG = Catalog(
    (
        Table(
            "visits",
            (
                Column("patient", INTEGER),
                Column("ward", TEXT, categories=("<b>a</b>", "b")),
                Column("cost", decimal(2), bounds=(Fraction(0), Fraction(100))),
                Column("day", DATE, bounds=DAYS),
            ),
            population="patients",
            unit="patient",
        ),
    ),
    (Population("patients"),),
)
SQL = (
    "SELECT ward, COUNT(*) AS n, SUM(cost) AS s, AVG(cost) AS m, MEDIAN(day) AS d, COUNT(*) > 100 AS many "
    "FROM visits GROUP BY ward"
)


@pytest.fixture
def answer(seeded: SeededBits) -> Answer:
    rows: list[dict[str, Any]] = [
        {
            "patient": i,
            "ward": "<b>a</b>" if i % 3 else "b",
            "cost": Fraction(i % 101),
            "day": DAYS[0] + dt.timedelta(days=i % 366),
        }
        for i in range(600)
    ]
    return toy_curator(CATALOG, ToyEngine({"visits": rows}), {"epsilon": "10"}).sql(SQL, epsilon="2")


def test_arrow_has_the_types_of_the_columns(answer: Answer) -> None:
    table = answer.to_arrow()
    kinds = [pa.string(), pa.int64(), pa.decimal128(18, 2), pa.float64(), pa.date32(), pa.bool_()]
    assert table.schema.types == kinds
    assert table.column_names == ["ward", "n", "s", "m", "d", "many"]
    assert table["ward"].to_pylist() == ["<b>a</b>", "b"]
    assert table["many"].to_pylist() == [True, True]
    assert all(isinstance(value, Decimal) for value in table["s"].to_pylist())
    assert len(answer) == 2


def test_polars_and_pandas(answer: Answer) -> None:
    assert answer.to_polars()["n"].to_list() == answer.to_arrow()["n"].to_pylist()
    assert list(answer.to_pandas()["m"]) == answer.to_arrow()["m"].to_pylist()


def test_intervals_contain_the_values_and_grow_with_confidence(answer: Answer) -> None:
    wide, narrow = answer.intervals("0.999"), answer.intervals("0.5")
    names = ["ward"] + [f"{c}{end}" for c in "nsmd" for end in ("", "_low", "_high")] + ["many"]
    assert wide.column_names == names
    for name in "nsmd":
        columns = [table[f"{name}{end}"].to_pylist() for table in (wide, narrow) for end in ("_low", "", "_high")]
        for outer_low, value, outer_high, low, again, high in zip(*columns, strict=True):
            assert outer_low <= low <= value == again <= high <= outer_high
    assert wide["n_high"].to_pylist() != narrow["n_high"].to_pylist()


@pytest.mark.parametrize("confidence", ["0", "1", "1.5", 1 - 1e-13])
def test_impossible_confidence_is_refused(answer: Answer, confidence: Any) -> None:
    with pytest.raises(InputError, match="confidence"):
        answer.intervals(confidence)


def test_text_says_plus_minus_charge_and_what_is_bias(answer: Answer) -> None:
    text = str(answer)
    assert "±" in text
    assert "Charged epsilon 2 to patients" in text
    assert answer.bias is not None
    words = " ".join(text.split())
    assert answer.bias.caution in words
    assert "95% intervals" in text
    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard", width=160)
    console.print(answer)
    # The spread is dim, the value is not.
    assert "\x1b[2m ± " in console.file.getvalue()  # type: ignore[attr-defined]
    assert repr(answer).startswith("<Answer 2 rows: ward, n, s, m, d, many; Charged")


def test_html_is_escaped(answer: Answer) -> None:
    page = answer._repr_html_()
    assert "&lt;b&gt;a&lt;/b&gt;" in page
    assert "<b>" not in page
    assert page.count("<td") == page.count("</td>") == 12


@pytest.mark.parametrize("ending", ["svg", "png", "html", "json"])
def test_plots_are_saved(answer: Answer, tmp_path: Path, ending: str) -> None:
    target = tmp_path / f"chart.{ending}"
    answer.plot("n", path=target)
    assert target.stat().st_size > 500
    assert b"https://cdn" not in target.read_bytes()


def test_plots_show_one_column_or_all(answer: Answer) -> None:
    one = answer.plot("m", confidence="0.9").to_dict()
    assert one["title"] == "90% intervals"
    records = next(iter(one["datasets"].values())) if "datasets" in one else one["data"]["values"]
    assert [record["group"] for record in records] == ["<b>a</b>, True", "b, True"]
    assert all(record["low"] <= record["value"] <= record["high"] for record in records)
    assert len(answer.plot().to_dict()["hconcat"]) == 4
    with pytest.raises(InputError, match="must be one of n, s, m, d"):
        answer.plot("ward")
    with pytest.raises(InputError, match="svg"):
        answer.plot("n", path="chart.pdf")


def test_keys_cannot_steer_a_terminal() -> None:
    assert _cell(2024, (2024, 2024), INTEGER, known=False) == ("2024", "")
    assert _cell(2024, (2000, 2048), INTEGER, known=True) == ("2,024", " ± 24")
    assert format_value("a\x1b[31m\nb", TEXT) == "a·[31m·b"


def test_an_interval_of_one_point_is_shown_without_digits_that_say_nothing() -> None:
    assert _cell(3.0, (3.0, 3.0), DOUBLE, True) == ("3", " ± 0")
    assert _cell(3.0, (2.5, 3.5), DOUBLE, True) == ("3.000", " ± 0.500")


def test_the_interval_of_a_null_has_the_digits_of_a_number_and_says_where_it_has_no_bound() -> None:
    assert _cell(None, (0.0, 14.0), DOUBLE, True) == ("–", " (0.0 to 14.0)")
    assert _cell(None, (0, 14), INTEGER, True) == ("–", " (0 to 14)")
    assert _cell(None, (-(2**63), 2**63 - 1), INTEGER, True) == ("–", " (no bound)")
