"""Synthetic tables: columns that they lack are named, and counts that were released before make one for nothing."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tacit
from tacit import Workload
from tacit.core.errors import InputError
from tacit.curator.curator import Curator
from tacit.releases.synthesis import check_synthesis
from tacit.releases.synthetic_table import SyntheticTable
from tacit.synth.synthesis_request import SynthesisRequest


@pytest.fixture(scope="module")
def curator() -> Curator:
    rows = [{"id": i, "ward": "ab"[i % 2], "age": i % 4, "note": i, "city": i / 2} for i in range(2000)]
    return tacit.open(
        pa.Table.from_pylist(rows), unit="id", epsilon="20", delta="1e-6", max_rows=1, max_groups=1,
        columns={"ward": ["a", "b"], "age": (0, 3)},
    )  # fmt: skip


def test_columns_of_which_nothing_is_declared_are_named_in_quote_and_report(curator: Curator) -> None:
    quoted = check_synthesis(curator.context, SynthesisRequest.of("data", None, "independent", {"epsilon": 1}))
    assert quoted.endswith("not made, as neither categories nor bounds are declared (a profile finds them): note, city")
    made = curator.synthesize("data", epsilon=1, method="independent")
    assert made.left_out == ("note", "city")
    assert "not made" in made.report()
    again = curator.released(made.receipt.position)
    assert again.left_out == made.left_out
    chosen = curator.synthesize("data", ["ward"], epsilon=1, method="independent")
    assert chosen.left_out == ()
    assert "not made" not in chosen.report()


def test_counts_of_a_workload_make_a_table_free(curator: Curator) -> None:
    answer = curator.answer_workload("data", Workload.marginals(["ward", "age"], ways=2), epsilon=4)
    charged = len(curator.history())
    made = curator.synthesize(from_release=answer, rows=1000)
    assert len(curator.history()) == charged
    assert made.rows == 1000
    table = made.to_arrow().group_by(["ward", "age"]).aggregate([([], "count_all")])
    counts = {(row["ward"], row["age"]): row["count_all"] for row in table.to_pylist()}
    # The truth: age and ward go together, so that half of the combinations do not exist.
    assert sum(count for (ward, age), count in counts.items() if (ward == "a") == (age % 2 == 0)) > 950
    assert made.receipt.position == answer.receipt.position
    assert curator.synthesize(from_release=answer.receipt.position, rows=10).rows == 10


def test_counts_from_elsewhere(curator: Curator) -> None:
    counts = pa.table({"sex": ["m", "f"], "count": [70.0, 30.0], "stddev": [2.0, 2.0]})
    made = SyntheticTable.from_counts([counts])
    assert 80 <= made.rows <= 120
    for wrong in ([], [counts.drop_columns(["stddev"])], [counts.drop_columns(["sex"])]):
        with pytest.raises(InputError, match="from_release"):
            SyntheticTable.from_counts(wrong)
    cells = pa.table({"sex": ["m", "f", "m"], "ward": ["a", "a", "b"], "count": [1.0, 2.0, 3.0], "stddev": [1.0] * 3})
    with pytest.raises(InputError, match="lacks a combination"):
        SyntheticTable.from_counts([cells])
    with pytest.raises(InputError, match="state one"):
        curator.synthesize("data", from_release=[counts])  # type: ignore[call-overload]
