"""Fits of graphical models beside those of mbi 2.0, whose authors invented the method; its numbers were taken once."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.synth.graphical_model import NoisyMarginal, _Fit, fit_model

SIZES = {"a": 3, "b": 4, "c": 2, "d": 3}
SETS = [("a",), ("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]
#: ``mbi.estimation.MirrorDescent().estimate(…, iters=3000)`` in doubles: the distance that it reaches, its number of
#: rows, and its counts by two columns that were not measured together.
DISTANCE, TOTAL = 38.78463425512918, 3319.084745762712
COUNTS = [
    [209.588, 265.649, 238.035],
    [259.256, 316.621, 297.795],
    [220.238, 305.552, 274.681],
    [263.814, 351.273, 316.585],
]


def test_a_fit_is_as_close_as_that_of_mbi_and_says_the_same() -> None:
    places = np.arange(72).reshape(tuple(SIZES.values()))
    whole = (places**2 * 7 + places * 13) % 101
    measured = []
    for number, names in enumerate(SETS):
        exact = whole.sum(axis=tuple(axis for axis, name in enumerate(SIZES) if name not in names))
        off = (np.arange(exact.size) * (number + 3) % 17 - 8).reshape(exact.shape) * 2.0
        measured.append(NoisyMarginal(names, exact + off, 4.0))
    model = fit_model(SIZES, measured)
    assert model.total == pytest.approx(TOTAL)
    assert _Fit(SIZES, measured).evaluate(dict(model.potentials)).loss <= DISTANCE * (1 + 1e-6)
    assert model.marginal(("b", "d")) == pytest.approx(np.array(COUNTS), abs=0.1)
