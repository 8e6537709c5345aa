"""Protections that do not protect: rounding, suppression and other habits of unprotected twins."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec

import numpy as np
from numpy.typing import NDArray

from tacit.attacks.random_choice import below
from tacit.core.errors import InputError
from tacit.core.numbers import Number
from tacit.mechanisms.laplace import Laplace

_P = ParamSpec("_P")


def hide_small(ask: Callable[_P, float], *, smallest: int) -> Callable[_P, float]:
    """Answers below ``smallest`` become 0, as in "we publish no count under ten"."""

    def answer(*args: _P.args, **kwargs: _P.kwargs) -> float:
        found = ask(*args, **kwargs)
        return found if found >= smallest else 0.0

    return answer


def noise_anew(ask: Callable[_P, float], *, epsilon: Number) -> Callable[_P, float]:
    """Good noise on every answer, but anew for every repeat, and without an account of the budget."""
    mechanism = Laplace(epsilon=epsilon, l1_sensitivity=1)

    def answer(*args: _P.args, **kwargs: _P.kwargs) -> float:
        return float(mechanism.release(round(ask(*args, **kwargs))))

    return answer


def bounded_noise(count: int, *, most: int) -> NDArray[np.int64]:
    """``count`` whole numbers from -``most`` to ``most``: noise that looks large and has an end."""
    if most < 0:
        raise InputError("most", f"must not be negative, got {most}")
    return below(2 * most + 1, count) - most
