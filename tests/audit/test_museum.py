"""Every piece of the museum is caught by its tool, and its mended twin is not.

Audits that sample are 99.9 % sure each: with fresh bits a mended twin is accused with probability below 0.001.
"""

from __future__ import annotations

import pytest

from audit.museum import PIECES, Piece
from tacit.audit.exact import ExactLoss
from tacit.audit.lower_bound import LowerBound
from tacit.audit.report import judged
from tacit.core.errors import InputError

pytestmark = pytest.mark.usefixtures("seeded")
TOOLS = {"lower_bound": LowerBound, "exact": ExactLoss, "replay": list}


@pytest.mark.parametrize("piece", PIECES, ids=lambda piece: piece.name)
def test_caught_and_its_twin_spared(piece: Piece) -> None:
    caught, spared = piece.catch(), piece.spare()
    assert caught.caught, caught.words
    assert not spared.caught, spared.words
    assert isinstance(caught.found, TOOLS[piece.tool])


def test_the_collection_is_complete_and_described() -> None:
    assert len({piece.name for piece in PIECES}) == len(PIECES) == 33
    for piece in PIECES:
        assert len(piece.story) > 100
        assert piece.seen_in


def test_judging_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="no pair"):
        judged([])
