"""Departure of an outcome: when it may become known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tacit.query.planning.plan import Plan

__all__ = ["AtOnce", "Departure"]


class Departure(Protocol):
    """The departure of one question; made by a server, which decides when things leave."""

    @property
    def seconds(self) -> float | None:
        """After which the run is of no use and is interrupted; None for the engine's own limit."""

    def begin(self, plan: Plan) -> None:
        """Data is about to be read for this plan."""

    def end(self, *, failed: bool) -> bool:
        """The run has ended. Wait until its outcome may become known; False where it has to be a failure."""


class AtOnce:
    """For the holder of the data: an outcome is known at once."""

    seconds: float | None = None

    def begin(self, plan: Plan) -> None:
        """Nothing is decided."""

    def end(self, *, failed: bool) -> bool:
        """Nothing is waited for."""
        return not failed
