"""Base class of mechanisms: guarantee, error and input.

A mechanism is built from public parameters, does all checking and calibration when it is built, and then releases any
number of times; each release costs :attr:`Mechanism.guarantee` again. Whether numbers are taken as whole or as floats
is decided by their *type*, which the programmer chose, and never by their values, which are secret.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from inspect import signature
from typing import TYPE_CHECKING, Any, Final, Literal, Self, SupportsIndex, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.numbers import Number, check_count, exact_probability, exp_bounds, log_bounds, round_up

if TYPE_CHECKING:
    from tacit.core.events import Event
    from tacit.core.guarantees import Guarantee
    from tacit.core.relations import Relation

T = TypeVar("T")

#: Whole numbers in arrays must stay this small, so that noise can be added without leaving int64.
LARGEST_VALUE: Final = 1 << 62


class Mechanism(ABC):
    """A release with a stated privacy guarantee.

    Besides the methods of this class a mechanism has ``release`` and ``error``, whose arguments differ between
    mechanisms, and, where accuracy can be turned into parameters, a class method ``for_error``. ``error(beta, …)`` is
    always a bound that any of the outputs exceeds with probability at most ``beta``.
    """

    def __new__(cls, *args: object, **_: object) -> Self:
        if args:
            wanted = [name for name, each in signature(cls.__init__).parameters.items() if each.default is each.empty]
            named = ", ".join(f"{name}=…" for name in wanted if name != "self") or "epsilon=…"
            raise InputError("arguments", f"have no order: name each of them, {cls.__name__}({named})")
        return super().__new__(cls)

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """Guarantee of one release."""

    @property
    @abstractmethod
    def event(self) -> Event:
        """Event of one release, for accountants."""

    @property
    def relation(self) -> Relation:
        """Neighbouring relation of the guarantee."""
        return self.guarantee.relation

    def cautions(self, *, people: SupportsIndex | None = None) -> tuple[str, ...]:
        """Return warnings about a guarantee that is true but protects little, such as ε = 1000; usually none."""
        from tacit.core.cautions import cautions_about

        return cautions_about(self.guarantee, people=people)


def per_output_beta(beta: Number, k: int = 1) -> Fraction:
    """Return the failure probability per output so that all of ``k`` independent bounds hold with 1 - ``beta``.

    That is 1 - (1-β)^(1/k), rounded down. Bernoulli's inequality puts it at or above β/k, which takes over where β
    is so small that the subtraction loses all digits.
    """
    total = exact_probability(beta, "beta")
    count = check_count(k, "k")
    if count == 1:
        return total
    return max(1 - exp_bounds(log_bounds(1 - total)[1] / count)[1], total / count)


@dataclass(frozen=True)
class Readings:
    """Checked input numbers: an array of int64 or float64, and the form in which to return results."""

    array: NDArray[np.int64] | NDArray[np.float64]
    form: Literal["scalar", "list", "array"]

    @property
    def whole(self) -> bool:
        """Whether the numbers were given as integers."""
        return self.array.dtype == np.int64

    @property
    def size(self) -> int:
        return int(self.array.size)

    def like(self, result: NDArray[Any]) -> Any:
        """Return ``result`` in the form of the input: a number, a list or an array."""
        if self.form == "array":
            return result.reshape(self.array.shape)
        return result.item() if self.form == "scalar" else result.tolist()


def read_numbers(value: object, parameter: str = "value") -> Readings:
    """Return checked integers or floats: one number, a flat list or tuple, or a numpy array; else raise InputError.

    Integers must fit :data:`LARGEST_VALUE`; floats must be finite. Truth values, empty, nested and mixed lists and
    other types are refused.
    """
    if isinstance(value, (list, tuple)):
        array, form = _from_list(value, parameter), "list"
    elif type(value) is np.ndarray:
        # Not a subclass: a masked array would hand out what it masks.
        array, form = value, "array"
    elif isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        array, form = _from_list((value,), parameter), "scalar"
    else:
        raise InputError(parameter, f"must be integers or floats, alone, in a list or in an array, not {_kind(value)}")
    return Readings(_checked(array, parameter), form)  # type: ignore[arg-type]


def read_integers(value: object, parameter: str = "value") -> Readings:
    """Return checked integers, as :func:`read_numbers`; refuse floats."""
    readings = read_numbers(value, parameter)
    if not readings.whole:
        raise InputError(parameter, "must be integers, not floats; round them to a public step first")
    return readings


def check_iterable(values: Iterable[T], parameter: str, wanted: str) -> Iterable[T]:
    """Return ``values`` if they are iterable; refuse text, which would be read letter by letter."""
    try:
        iter(values)
    except TypeError:
        raise InputError(parameter, f"must be {wanted}, not {_kind(values)}") from None
    if isinstance(values, str | bytes):
        raise InputError(parameter, f"must be {wanted}, not one text")
    return values


def smallest_that(
    holds: Callable[[Fraction], bool], start: Fraction, digits: int = 10, *, near: Fraction = Fraction(1, 1000)
) -> Fraction:
    """Return the smallest rational at which ``holds`` is true, rounded up to one part in 10^``digits``.

    ``holds`` must be false below some point and true from there on; ``start`` is a positive guess of that point, likely
    right to one part in 1/``near``. ``holds`` was evaluated at the returned value, so the result is safe even where
    ``holds`` is not quite monotone.
    """
    low = high = round_up(start, digits + 2)
    growth = 1 + near
    while not holds(high):
        low, high = high, round_up(high * growth, digits + 2)
        growth = min(round_up(growth * growth, digits + 2), Fraction(4))
    growth = 1 + near
    while low == high or holds(low):
        low, high = round_up(low / growth, digits + 2), low
        growth = min(round_up(growth * growth, digits + 2), Fraction(4))
    while high - low > high / 10**digits:
        middle = round_up((low + high) / 2, digits + 2)
        if holds(middle):
            high = middle
        else:
            low = middle
    rounded = round_up(high, digits)
    return rounded if holds(rounded) else high


def _from_list(values: list[Any] | tuple[Any, ...], parameter: str) -> NDArray[Any]:
    kinds = {_element_kind(item, parameter) for item in values}
    if len(kinds) > 1:
        raise InputError(parameter, "mixes integers and floats; convert all of them to one of the two")
    if kinds == {"float"}:
        return np.array(values, dtype=np.float64)
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError:
        raise InputError(parameter, "holds an integer beyond 2**62 in size; clamp to public bounds first") from None


def _element_kind(item: object, parameter: str) -> str:
    if isinstance(item, (int, np.integer)) and not isinstance(item, bool):
        return "integer"
    if isinstance(item, (float, np.float32, np.float16)):
        return "float"
    raise InputError(parameter, f"must hold integers or floats only, in one flat list, not {_kind(item)}")


def _checked(array: NDArray[Any], parameter: str) -> NDArray[Any]:
    if array.size == 0 or array.ndim == 0:
        raise InputError(parameter, "must hold at least one number" if array.ndim else "must not be a 0-d array")
    if array.dtype.kind in "iu":
        if int(array.max()) > LARGEST_VALUE or int(array.min()) < -LARGEST_VALUE:
            raise InputError(parameter, "holds an integer beyond 2**62 in size; clamp to public bounds first")
        return array.astype(np.int64, copy=False)
    if array.dtype.kind == "f" and array.dtype.itemsize <= 8:
        if not np.isfinite(array).all():
            raise InputError(parameter, "must be finite; map NaN and infinities to a public value first")
        return array.astype(np.float64, copy=False)
    raise InputError(parameter, f"must be an array of integers or of floats up to 64 bits, not of {array.dtype}")


def _kind(value: object) -> str:
    return "a truth value" if isinstance(value, (bool, np.bool_)) else type(value).__name__
