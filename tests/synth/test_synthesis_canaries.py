"""Canaries in a synthetic table: persons with a code of their own, guessed from the published rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tacit
from tacit.audit.canaries import audit_canaries, flip_inclusion_coins, guess_by_score
from tacit.synth import count_measurement, table_synthesis

CANARIES = 300


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("broken", [False, True])
def test_canaries_are_guessed_no_better_than_the_charge_allows(broken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guesses are read off the published rows; with a sixteenth of the noise the charge is refuted."""
    monkeypatch.setattr(table_synthesis, "_LAST_STEPS", 100)
    if broken:
        monkeypatch.setattr(count_measurement, "add_noise", _with_little_noise(count_measurement.add_noise))
    coins = flip_inclusion_coins(CANARIES)
    codes = [f"c{number:03}" for number in range(CANARIES)]
    here = [code for code, coin in zip(codes, coins, strict=True) if coin]
    rows = pa.table({"person": np.arange(len(here)), "code": here, "sex": ["fm"[at % 2] for at in range(len(here))]})
    columns: dict[str, Any] = {
        "code": {"type": "text", "categories": codes},
        "sex": {"type": "text", "categories": ["f", "m"]},
    }
    curator = tacit.open(
        rows, table="people", columns=columns, unit="person", max_rows=1, epsilon="2", delta="1e-5", accounting="approx"
    )
    table = curator.synthesize("people", epsilon="2", delta="1e-5", method="mst", rows=20_000)
    found = _counted(table.to_arrow()["code"])
    audit = audit_canaries(
        coins, guess_by_score([found.get(code, 0) for code in codes], 200), delta="1e-5", claimed=2, confidence=0.999
    )
    assert audit.violated is broken, str(audit)


def _counted(column: Any) -> dict[str, int]:
    return {each["values"]: each["counts"] for each in column.value_counts().to_pylist()}


def _with_little_noise(release: Callable[..., Any]) -> Callable[..., Any]:
    return lambda mechanism, raw: raw + (release(mechanism, raw) - raw) // 16
