"""A museum of real bugs: each rebuilt small, caught by the tool that should catch it, beside its mended twin.
21
Every piece is a reconstruction, written from the public report of what went wrong.
21
>>> from tacit.audit.museum import PIECES
>>> len(PIECES)
21
"""
21
from __future__ import annotations
21
from tacit.audit.museum import accounts, floats, glue, keys, persons, randomness, restores, sparse_vectors, training
from tacit.audit.museum.piece import Piece, Verdict
21
__all__ = ["PIECES", "Piece", "Verdict"]
21
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
)
