"""Exhibits: accounts that forget charges after a restore, an adoption or a copy."""

from __future__ import annotations

import copy
from fractions import Fraction
from itertools import product
from math import prod

from audit.museum.exhibit import Piece
from tacit.audit.exact import ExactLoss, exact
from tacit.core.divergences import Distribution
from tacit.core.guarantees import PureDP

#: e^ε of one answer is 3: the truth three times out of four.
_TRUTH = Fraction(3, 4)
_CAP = 1


class _Account:
    """Answers while something is left; ``place`` counts the entries of its book."""

    def __init__(self) -> None:
        self.place, self.left = 0, _CAP

    def pay(self) -> bool:
        if not self.left:
            return False
        self.place, self.left = self.place + 1, self.left - 1
        return True


def _asked_after_a_restore(*, remembers: bool) -> int:
    """Count the answers that an analyst gets from a server that is put back whole between two queries.

    Its own anchor is put back with it, so it cannot notice. A client that remembers the newest place it saw can.
    """
    server = _Account()
    saved, seen, answers = copy.copy(server), 0, 0
    for machine in (server, saved):
        if remembers and machine.place < seen:
            continue
        if machine.pay():
            answers, seen = answers + 1, machine.place
    return answers


def _asked_after_an_adoption(*, charges: bool) -> int:
    """Count the answers of an account whose operator takes a backup although the anchor proves a loss."""
    account = _Account()
    backup, answers = copy.copy(account), 0
    answers += account.pay()
    anchor = account.place
    if charges and backup.place < anchor:
        # The lost entries may have spent everything.
        backup.left = 0
    answers += backup.pay()
    return answers


def _loss(answers: int) -> ExactLoss:
    """Privacy loss of so many answers about one person, against the cap of the account."""
    table: dict[int, Distribution] = {
        bit: {
            told: prod((_TRUTH if each == bit else 1 - _TRUTH for each in told), start=Fraction(1))
            for told in product((0, 1), repeat=answers)
        }
        for bit in (0, 1)
    }
    # ln 3 is a little less than 1.0987.
    return exact(table, claimed=PureDP(Fraction(10987, 10000) * _CAP))


PIECES = (
    Piece(
        name="machine-put-back",
        title="a server restored from a snapshot, ledger and anchor together",
        story="A ledger is compared with an anchor outside its folder, so an old copy is found out. A machine that is "
        "restored whole has an equally old anchor: nothing disagrees, and what was spent since the snapshot can be "
        "spent again. Clients pinned the key and the name of the ledger, and not how far it had come.",
        seen_in="an earlier version of this project",
        tool="exact",
        flawed=lambda: _loss(_asked_after_a_restore(remembers=False)),
        mended=lambda: _loss(_asked_after_a_restore(remembers=True)),
    ),
    Piece(
        name="adopted-backup",
        title="an override that gives back what was spent",
        story="After a crash an operator may take a backup although the anchor remembers newer entries. The override "
        "was a permanent entry, which no command showed, and the charges of the lost entries were not counted: the "
        "anchor proved that they existed, and the account began again where the backup stood.",
        seen_in="an earlier version of this project",
        tool="exact",
        flawed=lambda: _loss(_asked_after_an_adoption(charges=False)),
        mended=lambda: _loss(_asked_after_an_adoption(charges=True)),
    ),
)
