"""Museum of real bugs, each beside the tool that catches it and its repaired twin.

Every piece is a reconstruction, written from the public report of what went wrong.

>>> from audit.museum import PIECES
>>> len(PIECES)
33

Modules:
* :mod:`.accounts` — Exhibits: accounting bugs, where the mechanism is right and its stated price is not
* :mod:`.claims` — Exhibits: false claims around a release, such as order, lower bounds and the price of one
* :mod:`.exhibit` — Definition of an exhibit: a real bug rebuilt small, the tool that must catch it, and its
  repaired twin
* :mod:`.floats` — Exhibits: floating-point noise whose low bits reveal the value
* :mod:`.keys` — Exhibits: group keys released without private selection
* :mod:`.learning` — Exhibits: fits in which one row decides errors, label types or other rows' masks
* :mod:`.persons` — Exhibits: identity bugs, where one person counts as several
* :mod:`.preprocessing_bugs` — Exhibits: preprocessing bugs, where the mechanism is right and its input is not
* :mod:`.randomness` — Exhibits: repeated, predictable or missing randomness
* :mod:`.readers` — Bugs of readers: one row decides how the rows of others are read
* :mod:`.restores` — Exhibits: accounts that forget charges after a restore, an adoption or a copy
* :mod:`.sparse_vectors` — Exhibits: published variants of the sparse vector technique that are not private
* :mod:`.times` — Bugs of time and failure: when an answer leaves, and whether there is one, told by one person's
  rows
* :mod:`.training` — Exhibits: private training that does not match its accountant
* :mod:`.work` — Exhibits: running time and failure that depend on one person
"""

from __future__ import annotations

from audit.museum import (
    accounts,
    claims,
    floats,
    keys,
    learning,
    persons,
    preprocessing_bugs,
    randomness,
    readers,
    restores,
    sparse_vectors,
    times,
    training,
    work,
)
from audit.museum.exhibit import Piece

__all__ = ["PIECES", "Piece"]

PIECES: tuple[Piece, ...] = (
    *floats.PIECES,
    *preprocessing_bugs.PIECES,
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
