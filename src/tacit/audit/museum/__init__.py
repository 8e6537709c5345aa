"""A museum of real bugs: each rebuilt small, caught by the tool that should catch it, beside its mended twin.

Every piece is a reconstruction, written from the public report of what went wrong.

>>> from tacit.audit.museum import PIECES
>>> len(PIECES)
33
"""

from __future__ import annotations

from tacit.audit.museum import (
    accounts,
    claims,
    floats,
    glue,
    keys,
    learning,
    persons,
    randomness,
    readers,
    restores,
    sparse_vectors,
    times,
    training,
    work,
)
from tacit.audit.museum.piece import Piece, Verdict

__all__ = ["PIECES", "Piece", "Verdict"]

PIECES: tuple[Piece, ...] = (
    *floats.PIECES,
    *glue.PIECES,
    *keys.PIECES,
    *sparse_vectors.PIECES,
    *randomness.PIECES,
    *accounts.PIECES,
    *restores.PIECES,
    *training.PIECES,
    *persons.PIECES,
    *claims.PIECES,
    *learning.PIECES,
    *work.PIECES,
    *times.PIECES,
    *readers.PIECES,
)
