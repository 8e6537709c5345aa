"""Adding noise to numbers: the part that Laplace and Gaussian noise share.

Integers get integer noise and stay integers. Floats are put on a public :class:`~tacit.mechanisms.grid.Grid`, get
integer noise there, and come back as floats on the grid; :class:`OnGrid` is that mechanism, with a guarantee, an event
and an error of its own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.events import Event
from tacit.core.guarantees import Guarantee
from tacit.core.numbers import Number, check_count, float_up
from tacit.mechanisms.base import LARGEST_VALUE, Mechanism, Readings, per_output_beta, read_numbers
from tacit.mechanisms.grid import Grid
from tacit.noise.inversion import check_log

_INT64: Final = np.iinfo(np.int64)


class Noise(Protocol):
    """Sampler of integer noise."""

    def sample(self) -> int:
        """Draw one integer, of any size."""

    def sample_many(self, count: int) -> NDArray[np.int64]:
        """Draw ``count`` independent integers."""


class IntegerNoise(Protocol):
    """A distribution of integer noise: its sampler, its quantiles and its variance."""

    @property
    def sampler(self) -> Noise:
        """Sampler of the distribution."""

    def quantile(self, beta: Fraction) -> int:
        """Return a w with P(|X| > w) <= ``beta``: the smallest one, or a little more."""

    @property
    def variance_bound(self) -> Fraction:
        """The variance, rounded up."""


class AdditiveNoise(Mechanism):
    """Releases numbers with noise: integers with integer noise, floats with integer noise on a grid.

    Privacy:
        that of the integer noise, which the subclass chooses and proves, for its stated sensitivity and relation.

    Sensitivity:
        of integers, the stated one, which must be whole for them; of floats, enlarged for rounding by the grid.

    Error:
        :meth:`error`, by the quantile of the noise; for floats half a step of the grid more.

    Assumes:
        that the stated sensitivity is right.

    References:
        Proofs: ``additive.proof.md``, ``grid.proof.md``, and one for each subclass.
    """

    def __init__(self, noise: IntegerNoise | None, sensitivity: str) -> None:
        # Parameters are checked now; the sampler's constants can wait, because many mechanisms are only quoted.
        check_log()
        self._noise = noise
        self._sensitivity = sensitivity
        self._grids: dict[int, OnGrid] = {}

    @cached_property
    def _sample(self) -> Callable[[], int] | None:
        """The sampler's bound method, looked up once so that releasing one integer is a single addition."""
        return None if self._noise is None else self._noise.sampler.sample

    @abstractmethod
    def _make_grid(self, dimension: int) -> OnGrid:
        """Return the mechanism that releases ``dimension`` floats."""

    def on_grid(self, dimension: int = 1) -> OnGrid:
        """Return the mechanism that releases ``dimension`` floats, with its grid, event and error."""
        if dimension not in self._grids:
            self._check_size(check_count(dimension, "dimension"))
            self._grids[dimension] = self._make_grid(dimension)
        return self._grids[dimension]

    @overload
    def release(self, value: int) -> int: ...
    @overload
    def release(self, value: float) -> float: ...
    @overload
    def release(self, value: list[int] | tuple[int, ...]) -> list[int]: ...
    @overload
    def release(self, value: list[float] | tuple[float, ...]) -> list[float]: ...
    @overload
    def release(self, value: NDArray[np.integer[Any]]) -> NDArray[np.int64]: ...
    @overload
    def release(self, value: NDArray[np.floating[Any]]) -> NDArray[np.float64]: ...
    def release(self, value: Any) -> Any:
        """Return ``value`` plus noise, in the form of ``value``: a number, a flat list or a numpy array.

        Integers give integers, floats give floats on a public grid. The type decides, not the value.
        """
        if type(value) is int and self._sample is not None:
            return value + self._sample()
        if type(value) is float:
            return self.on_grid().release_float(value)
        readings = read_numbers(value)
        if readings.whole:
            return self._release_integers(readings)
        return self.on_grid(readings.size).release_readings(readings)

    def error(self, beta: Number, k: int = 1) -> int | float:
        """Return the w that the noise of any of ``k`` outputs exceeds in size with probability at most ``beta``.

        If the sensitivity is whole, the bound is an integer and holds for integer releases; otherwise it holds for the
        release of a single float. ``on_grid(dimension).error`` is the bound for floats in every case.
        """
        if self._noise is None:
            return self.on_grid().error(beta, k)
        return self._noise.quantile(per_output_beta(beta, k))

    @property
    def noise(self) -> IntegerNoise:
        """Distribution of the noise on one integer or, if the sensitivity is not whole, on one float in grid steps."""
        return self.on_grid().noise if self._noise is None else self._noise

    @property
    def variance(self) -> float:
        """Variance of the noise on one integer or, if the sensitivity is not whole, on one float; rounded up."""
        return self.on_grid().variance if self._noise is None else float_up(self._noise.variance_bound)

    def _release_integers(self, readings: Readings) -> Any:
        if self._noise is None:
            raise InputError(
                "value",
                f"integers move by whole numbers, but {self._sensitivity} is not one; "
                "convert the values to float, or state a whole sensitivity",
            )
        self._check_size(readings.size)
        return readings.like(add_noise(readings.array.ravel(), self._noise.sampler))

    def _check_size(self, size: int) -> None:
        """Refuse a release of ``size`` numbers where the mechanism does not allow that many."""


class OnGrid(Mechanism):
    """Releases a fixed number of floats on a public grid; made by ``mechanism.on_grid(dimension)``.

    Privacy:
        the guarantee of the mechanism that made it, for all the floats of one release together.

    Sensitivity:
        that mechanism's, plus what rounding to the grid can add.

    Error:
        :meth:`error`, by the quantile of the noise and half a step of the grid.

    Assumes:
        that the sensitivity includes the rounding of whatever computed the floats.

    References:
        Proofs: ``additive.proof.md``, ``grid.proof.md``.
    """

    def __init__(
        self, *, grid: Grid, noise: IntegerNoise, guarantee: Guarantee, event: Event, dimension: int = 1
    ) -> None:
        self.grid = grid
        self.dimension = dimension
        self.noise = noise
        self._guarantee = guarantee
        self._event = event

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee of one release of all the floats together."""
        return self._guarantee

    @property
    def event(self) -> Event:
        """The release, in steps of the grid."""
        return self._event

    def release(self, value: Any) -> Any:
        """Return ``dimension`` floats plus noise, each a multiple of ``grid.step``."""
        readings = read_numbers(value)
        if readings.whole:
            raise InputError("value", "must be floats here; integers get integer noise from the mechanism itself")
        return self.release_readings(readings)

    def release_float(self, value: float) -> float:
        """Return one float plus noise, faster than :meth:`release`."""
        return self.grid.to_float(self.grid.to_unit(value) + self.noise.sampler.sample())

    def release_readings(self, readings: Readings) -> Any:
        """Return floats plus noise, from values that :func:`~tacit.mechanisms.base.read_numbers` has checked."""
        if readings.size != self.dimension:
            raise InputError("value", f"must hold {self.dimension} numbers for this grid, got {readings.size}")
        units = self.grid.to_units(np.asarray(readings.array, dtype=np.float64).ravel())
        return readings.like(self.grid.to_floats(add_noise(units, self.noise.sampler)))

    def error(self, beta: Number, k: int = 1) -> float:
        """Return the w that the error of any of ``k`` outputs exceeds with probability at most ``beta``.

        It includes the half step of rounding to the grid, but not the rounding of outputs beyond 2⁵³ steps to floats.
        """
        units = self.noise.quantile(per_output_beta(beta, k)) + Fraction(1, 2)
        return float_up(units * self.grid.step)

    @property
    def variance(self) -> float:
        """The variance of the noise on one float, rounded up."""
        return float_up(self.noise.variance_bound * self.grid.step**2)


def add_noise(values: NDArray[Any], sampler: Noise) -> NDArray[np.int64]:
    """Return values of at most 2⁶² in size plus fresh noise, without integer overflow.

    A sum that does not fit into int64 is computed in Python integers and clamped, which is post-processing. At the
    scales that array samplers accept, its probability is below e^-4096.
    """
    if values.size == 1:
        return _clamped([int(values[0]) + sampler.sample()])
    noise = sampler.sample_many(values.size)
    if int(noise.min()) > -LARGEST_VALUE and int(noise.max()) < LARGEST_VALUE:
        noise += values
        return noise
    return _clamped([int(value) + int(extra) for value, extra in zip(values, noise, strict=True)])


def _clamped(sums: list[int]) -> NDArray[np.int64]:
    return np.array([min(max(total, int(_INT64.min)), int(_INT64.max)) for total in sums], dtype=np.int64)
