"""Quote: effect and price of a question, free, before any data is read."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.core.guarantees import Guarantee, PureDP
from tacit.query.planning.explain import Explanation, typed_epsilon
from tacit.query.planning.plan import Plan
from tacit.query.question import OutputColumn, PublicQuestion
from tacit.releases.notebook_tables import quote_html


class QuoteForms:
    """Views of a quote, local or remote."""

    explanation: Explanation

    @property
    def is_public(self) -> bool:
        """Whether the question reads public tables alone, and so is answered exactly and charged nothing."""
        return self.explanation.public

    @property
    def charge(self) -> str:
        """The price in words."""
        return self.explanation.charge

    def to_json(self) -> str:
        """Stable keys, exact numbers as text."""
        return self.explanation.to_json()

    def __str__(self) -> str:
        return str(self.explanation)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.charge}>"

    def _repr_html_(self) -> str:
        return quote_html(self.explanation)


@dataclass(frozen=True, repr=False)
class Quote(QuoteForms):
    """A plan and what it says about itself: ``str`` for people, :meth:`to_json` for programs.

    Args:
        plan: the plan; None for a question about public tables alone.
        explanation: what is protected, each release with its noise, the price, the errors, and the engine's statements.
        public: the question, where it reads public tables alone.
    """

    plan: Plan | None
    explanation: Explanation
    public: PublicQuestion | None = None

    @property
    def columns(self) -> tuple[OutputColumn, ...]:
        """Columns of the answer."""
        if self.public is not None:
            return self.public.columns
        return () if self.plan is None else self.plan.question.columns

    @property
    def typed(self) -> str:
        """The epsilon that was typed, such as ``epsilon 0.5``, where the account counts something else."""
        return "" if self.plan is None else typed_epsilon(self.plan)

    @property
    def populations(self) -> frozenset[str]:
        """Populations that the question reads; none for one about public tables alone."""
        return frozenset() if self.plan is None else frozenset(part.final.population for part in self.plan.parts)

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee that the account would be charged."""
        return PureDP(0) if self.plan is None else self.plan.guarantee
