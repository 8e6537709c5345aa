"""Which rows take part in a step: a secret sample, or rows in turns. Loaders and orders of the data decide nothing."""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.learn.gradient import sample_rows
from tacit.noise import entropy

Chosen = NDArray[np.intp]


class Participation(Protocol):
    """Choice of rows for each step."""

    def of(self, step: int, rows: int) -> Chosen:
        """The rows of a step, steps counted from 0, among so many rows."""


class PoissonSamples:
    """A fresh sample for each step: each row independently with probability exactly ``rate``."""

    def __init__(self, rate: Fraction) -> None:
        self._rate = rate

    def of(self, step: int, rows: int) -> Chosen:
        """The rows of a step."""
        del step
        return np.flatnonzero(sample_rows(rows, self._rate))


class Turns:
    """A turn for each row, drawn once and independently of all else; the row counts in every ``period``-th step."""

    def __init__(self, period: int) -> None:
        self._period = period
        self._turns: Chosen | None = None

    def of(self, step: int, rows: int) -> Chosen:
        """The rows of a step."""
        if self._turns is None:
            # Turns need not be uniform for the guarantee; the remainder favours some by less than 2^-40.
            self._turns = (entropy.current().words(rows) % np.uint64(self._period)).astype(np.intp)
        if len(self._turns) != rows:
            raise InputError("data", "must have the same rows in every fit with a strategy: each row keeps its turn")
        return np.flatnonzero(self._turns == step % self._period)
