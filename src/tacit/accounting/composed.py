"""Result of a composition: an (ε, δ) guarantee, the method that found it, and how tight it is."""

from __future__ import annotations

from fractions import Fraction

from tacit.core.guarantees import ApproxDP
from tacit.core.numbers import Number, format_up
from tacit.core.relations import Relation


class Composed(ApproxDP):
    """The (ε, δ) guarantee of everything that was composed.

    It is an :class:`~tacit.core.guarantees.ApproxDP` and can be used as one; ``epsilon`` is what is charged.

    Attributes:
        method: the theorem that gave ε. With ``method="best"``, the one that won.
        lower: a proven lower bound on the smallest ε that holds for every mechanism that fits the events: some of
            them attain it. ``None`` where none is known that does.
        note: what a reader should know, such as that another method was used instead; empty when there is nothing.
    """

    method: str
    lower: Fraction | None
    note: str

    def __init__(
        self,
        epsilon: Number,
        delta: Number,
        *,
        relation: Relation,
        method: str,
        lower: Fraction | None = None,
        note: str = "",
    ) -> None:
        super().__init__(epsilon, delta, relation=relation)
        object.__setattr__(self, "method", method)
        # Two independent computations may cross in their last digits where both are exact.
        object.__setattr__(self, "lower", None if lower is None else min(lower, self.epsilon))
        object.__setattr__(self, "note", note)

    @property
    def upper(self) -> Fraction:
        """Upper end of the bracket, equal to ``epsilon``, which is charged."""
        return self.epsilon

    def __repr__(self) -> str:
        note = f", note={self.note!r}" if self.note else ""
        numbers = f"{format_up(self.epsilon)}, {format_up(self.delta)}"
        return f"Composed({numbers}, method={self.method!r}{note}{self._suffix()})"
