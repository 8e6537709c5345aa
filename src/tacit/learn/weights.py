"""Weights of rows: declared bounds make them shares of a whole row, so that no row adds more than it would alone.

A weight is clipped to 0 … ``max_weight`` and becomes a whole number of 1024ths of it; a class has a declared weight.
Sums take a row's part times its share, rounded towards zero. So a weighted row adds a vector that is no longer than
that of the row without a weight, whatever the weights of other rows are; ``integer_rows.proof.md`` has the line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from typing import Any, Final, cast

import numpy as np

from tacit.core.errors import InputError
from tacit.core.numbers import Number, exact_positive, float_nearest
from tacit.learn.integer_rows import Integers
from tacit.learn.value_reading import as_elements, one_column, read_numbers

#: Steps of a whole row's weight.
SHARES: Final = 1 << 10
#: A declared weight of at most this size, and at least its inverse, is an ordinary float.
_LARGEST_WEIGHT: Final = 10**150


def shared(parts: Integers, shares: Integers | None) -> Integers:
    """Parts of rows times their shares, rounded towards zero; no row grows."""
    if shares is None:
        return parts
    return cast("Integers", np.sign(parts) * (np.abs(parts) * shares[:, None] // SHARES))


def shared_squares(rows: Integers, shares: Integers | None) -> Integers:
    """Rows times the roots of their shares, rounded towards zero: their products are shared by the weight."""
    if shares is None:
        return rows
    roots = _roots()[shares][:, None]
    return cast("Integers", np.sign(rows) * (np.abs(rows) * roots // SHARES))


@cache
def _roots() -> Integers:
    """⌊√(share)⌋ on the grid of shares, for every share: a public table."""
    return np.array([math.isqrt(share * SHARES) for share in range(SHARES + 1)], dtype=np.int64)


class Weighted:
    """The part of an estimator that knows about weights; ``max_weight`` and ``class_weight`` are its parameters."""

    max_weight: Number | None = None
    class_weight: Mapping[Any, Number] | None = None

    def _shares(self, sample_weight: Any, rows: int) -> Integers | None:
        """Shares of the rows by their own weights."""
        self._check_weights()
        if sample_weight is None:
            return None
        largest = self._largest_weight()
        weights = read_numbers(one_column(as_elements(sample_weight)))
        if len(weights) != rows:
            raise InputError("sample_weight", "must have one entry per row of X; the numbers of rows are inconsistent")
        with np.errstate(all="ignore"):
            # What is no number, or an infinite one, says nothing about how much a row counts.
            scaled = np.clip(np.where(np.isfinite(weights), weights, 0.0) / largest, 0.0, 1.0)
        return cast("Integers", np.rint(scaled * SHARES).astype(np.int64))

    def _largest_weight(self) -> float:
        if self.max_weight is None:
            raise InputError("max_weight", "must be given with sample_weight: the largest weight of a row, declared")
        stated = exact_positive(self.max_weight, "max_weight")
        if not Fraction(1, _LARGEST_WEIGHT) <= stated <= _LARGEST_WEIGHT:
            # As a float it might be zero, and a weight of zero over that is no number.
            raise InputError("max_weight", "must lie between 1e-150 and 1e150; use other units")
        return float_nearest(stated)

    def check_weighed(self) -> None:
        """Refuse a fit with weights of rows that cannot be, by parameters alone: before it is paid for."""
        self._largest_weight()

    def _check_weights(self, classes: Any = None) -> None:
        """Refuse declared weights that are none; the same words as in a fit."""
        if self.max_weight is not None:
            self._largest_weight()
        if classes is not None:
            self._class_shares(classes)

    def _class_shares(self, classes: Any) -> Integers | None:
        """Shares of the classes, the largest one whole."""
        if self.class_weight is None:
            return None
        if not isinstance(self.class_weight, Mapping):
            raise InputError(
                "class_weight", "must give a public weight by class; 'balanced' would read the rows without a price"
            )
        known = classes.tolist()
        odd = [str(label) for label in self.class_weight if label not in known]
        if odd:
            raise InputError("class_weight", f"names {', '.join(odd)}, which is none of the classes")
        stated = {label: exact_positive(each, "class_weight") for label, each in self.class_weight.items()}
        weights = [stated.get(label, exact_positive(1, "class_weight")) for label in known]
        return np.array([max(round(each / max(weights) * SHARES), 1) for each in weights], dtype=np.int64)

    def _row_shares(self, sample_weight: Any, places: Integers, classes: Any) -> Integers | None:
        """Shares of the rows by their own weights and those of their classes; ``places`` are their classes."""
        own, ours = self._shares(sample_weight, len(places)), self._class_shares(classes)
        if ours is None:
            return own
        by_class = ours[np.maximum(places, 0)]
        return by_class if own is None else cast("Integers", own * by_class // SHARES)
