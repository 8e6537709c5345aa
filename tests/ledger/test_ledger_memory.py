"""Accounts that last as long as a process: a copy of one would be spent twice."""

from __future__ import annotations

import copy
import os
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import tacit
from tacit.accounting.filters import ApproxFilter, Filter, GDPFilter, PureFilter, RenyiFilter, ZCDPFilter
from tacit.core.errors import AccountingError, BudgetError
from tacit.core.guarantees import PureDP
from tacit.ledger import Ledger, LedgerError, Order


def in_a_child(work: Callable[[], Any]) -> str:
    """Error that work raises in a forked child; empty where it raises nothing."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os.write(write, b"")
        except BaseException as problem:
            os.write(write, f"{type(problem).__name__}: {problem}".encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        found = stream.read().decode()
    os.waitpid(pid, 0)
    return found


def test_an_account_in_memory_is_not_spent_by_a_child() -> None:
    with Ledger.open(":memory:") as ledger:
        ledger.ensure_account("people", PureFilter(epsilon=1))
        order = Order("people", PureDP(1))
        assert "opened before a fork" in in_a_child(lambda: ledger.reserve(order))
        ledger.reserve(order)
        # What the parent has is what it was.
        with pytest.raises(BudgetError):
            ledger.reserve(order)


def test_a_curator_in_memory_does_not_answer_in_a_child() -> None:
    import pyarrow as pa

    frame = pa.table({"id": list(range(50))})
    curator = tacit.open(frame, unit="id", epsilon="1")
    assert "LedgerError" in in_a_child(lambda: curator.sql("SELECT COUNT(*) AS n FROM data", epsilon="1"))
    answer = curator.sql("SELECT COUNT(*) AS n FROM data", epsilon="1")
    assert answer.charge.amounts
    curator.close()


FILTERS: list[Filter] = [
    PureFilter(epsilon=1),
    ApproxFilter(epsilon=1, delta="1e-6"),
    ZCDPFilter(rho=1),
    GDPFilter(mu=2),
    RenyiFilter(alpha=2, epsilon=3),
]


@pytest.mark.parametrize("limit", FILTERS, ids=lambda limit: type(limit).__name__)
def test_a_filter_is_not_spent_by_a_child(limit: Filter) -> None:
    charge = PureDP("1/10")
    assert "another process" in in_a_child(lambda: limit.charge(charge))
    limit.charge(charge)


@pytest.mark.parametrize("limit", FILTERS, ids=lambda limit: type(limit).__name__)
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_filter_is_not_copied(limit: Filter, duplicate: Callable[[Any], Any]) -> None:
    with pytest.raises(AccountingError, match="copied or pickled"):
        duplicate(limit)


def test_a_ledger_in_memory_is_not_copied() -> None:
    with Ledger.open(":memory:") as ledger:
        for duplicate in (copy.deepcopy, pickle.dumps):
            with pytest.raises((TypeError, LedgerError)):
                duplicate(ledger)
