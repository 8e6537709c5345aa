"""The three-line audits of docs/audit-tacit-yourself.md, run on the libraries they speak of."""

from __future__ import annotations

import pytest

from tacit.audit import lower_bound

pytestmark = pytest.mark.bench


@pytest.mark.filterwarnings("ignore")
def test_float_laplace_of_diffprivlib_is_refuted() -> None:
    """A low bit is set in a fifth of the outputs of one neighbour and in none of the other's: 6,000 runs are ample."""
    import diffprivlib

    found = lower_bound(
        diffprivlib.mechanisms.Laplace(epsilon=1, sensitivity=1).randomise, 0.0, 1.0, claimed=1, samples=6_000
    )
    assert found.epsilon > 2
    assert "lowest bit" in str(found)


@pytest.mark.filterwarnings("ignore")
def test_laplace_of_opendp_is_not_refuted() -> None:
    """Its noise is on a grid. It draws its own bits: a false alarm has probability at most 10⁻⁴."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    mechanism = dp.m.make_laplace(dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), scale=1.0)
    found = lower_bound(mechanism, 0.0, 1.0, claimed=1, samples=3_000, confidence=0.9999)
    assert not found.violated
    assert found.epsilon > 0.4
