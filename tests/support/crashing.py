"""Processes that ask, answer and are killed, and what must hold afterwards."""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction

from support.ledgers import Place, asking
from tacit.core.errors import BudgetError
from tacit.ledger import Ledger, Outcome

#: Number of queries that the budget allows.
FITS = 60


def answer_all(ledger: Ledger, pipe: int, queries: list[str]) -> None:
    """Ask and send each answer away, as a server does."""
    for query in queries:
        try:
            held = ledger.reserve(asking("0.1", analyst="alice", idempotency_key=query, repeat_key=query))
        except BudgetError:
            continue
        if not isinstance(held, Outcome):
            noise = os.urandom(4).hex().encode()
            held = ledger.commit(held, noise, receipt=b"receipt")
        os.write(pipe, b"%s %d %s\n" % (query.encode(), held.reservation.seq, held.result))


def child(work: Callable[[int], None]) -> tuple[int, int]:
    """Run something in a process of its own; its end of the pipe is where answers leave."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        code = 1
        try:
            work(write)
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    return pid, read


def received(pid: int, pipe: int) -> tuple[list[list[bytes]], int]:
    """The answers that left, and how the process ended."""
    with os.fdopen(pipe, "rb") as stream:
        answers = [line.split() for line in stream.read().splitlines()]
    return answers, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Tally:
    """Everything that ever left, to be compared with the ledger after each crash."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.answers: dict[bytes, tuple[int, bytes]] = {}

    def add(self, answers: list[list[bytes]]) -> None:
        for query, seq, result in answers:
            known = self.answers.setdefault(query, (int(seq), result))
            assert known == (int(seq), result), "two answers to one query"

    def check(self) -> None:
        with self.place.open() as ledger:
            report = ledger.verify()
            assert report.ok, report.problems
            spent = Fraction(ledger.budget("patients").lines[0].spent) if ledger.accounts() else Fraction(0)
            assert spent == Fraction(report.charges, 10)
            assert spent <= Fraction(FITS, 10)
            assert len({seq for seq, _ in self.answers.values()}) <= report.charges
            for seq, result in self.answers.values():
                kept = ledger.outcome(seq)
                assert kept is not None, "an answer left without a durable outcome"
                assert kept.result == result
