"""The same workloads in Tacit and in other libraries, in one run: their answers lie in the bracket, errors allowed."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from types import ModuleType

import pytest

from tacit.accounting.compose import compose
from tacit.core.guarantees import ApproxDP

pytestmark = pytest.mark.bench

#: Grid error of dp_accounting, and the allowance of 0.01 in ε plus a thousandth of δ of prv_accountant.
DP_ACCOUNTING, PRV = 1e-4, 0.025


def workloads() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "accounting.py"
    spec = importlib.util.spec_from_file_location("accounting_benchmark", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BENCH = workloads()
NAMES = [name for name, _, _ in BENCH.WORKLOADS]
KNOWN = {0: 5.18904, 1: 8.20444, 2: 8.28357, 3: 4.73523}


@pytest.mark.parametrize("index", range(len(NAMES)), ids=NAMES)
def test_same_epsilon(index: int) -> None:
    _, releases, parts = BENCH.WORKLOADS[index]
    mine = compose(releases, delta="1e-6", method="pld")
    assert isinstance(mine, ApproxDP)
    assert mine.lower is not None
    low, high = float(mine.lower), float(mine.epsilon)
    assert (high - low) / high <= 1e-3
    if index in KNOWN:
        assert low - 1e-5 <= KNOWN[index] <= high + 2e-5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = BENCH.dp_accounting_pld(parts)
        renyi = BENCH.autodp_rdp(parts)
        prv = BENCH.prv_upper(parts) if len(parts) == 1 else None
    assert low <= theirs <= high * (1 + DP_ACCOUNTING)
    # At equal or better tightness: dp_accounting's bound is not below ours by more than a millionth or so.
    assert high <= theirs * (1 + 2e-6)
    assert renyi >= low
    if prv is not None:
        assert low <= prv <= high + PRV
