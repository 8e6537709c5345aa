"""``Answer``: noisy values, their intervals, the charge and the receipt; or exact values of public tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tacit.core.errors import InputError
from tacit.query.postprocess.result import Finished
from tacit.releases.views.answer_views import AnswerViews

if TYPE_CHECKING:
    from tacit.query.planning.auto_bounds import Found
    from tacit.query.planning.auto_limits import FoundLimits
    from tacit.query.planning.plan import Plan
    from tacit.releases.accounts import Entry
    from tacit.releases.receipt import Receipt


@dataclass(frozen=True, eq=False, repr=False)
class Answer(AnswerViews):
    """Answer to a question: a table of noisy values with an interval for every number.

    Everything in it has paid: it was computed from noisy integers, public keys and public parameters.

    Args:
        finished: the rows.
        plan: what was planned and priced; None for a question about public tables alone.
        charge: what the account was charged; nothing for a repeated question.
        receipt: the signed statement of what was released and charged; for a repeated question that of the first time.
            None for a question about public tables alone: nothing private was released, so there is nothing to state.
        as_released: whether displays show negative counts; see :attr:`raw`.
    """

    finished: Finished
    plan: Plan | None
    charge: Entry
    receipt: Receipt | None
    as_released: bool = False

    @property
    def paid(self) -> tuple[Plan, Receipt]:
        """The plan and the receipt of an answer about people.

        Raises:
            InputError: the answer is about public tables alone and has neither.
        """
        if self.plan is None or self.receipt is None:
            raise InputError(
                "receipt", "there is none: the question reads public tables alone, and nothing was charged"
            )
        return self.plan, self.receipt

    @property
    def bounds(self) -> tuple[Found, ...]:
        """The bounds that AUTO found, as released; empty without AUTO."""
        return () if self.plan is None else tuple(found for part in self.plan.parts for found in part.found)

    @property
    def limits(self) -> FoundLimits | None:
        """The ``max_groups`` and ``max_rows`` that AUTO found for the first part, as released; None without AUTO."""
        return None if self.plan is None else self.plan.limits

    def found_text(self) -> str:
        """Limits and bounds that AUTO found, those of further parts of the question with their number."""
        told = super().found_text()
        for number, part in enumerate(() if self.plan is None else self.plan.others, 2):
            told += "" if part.limits is None else f"Limits found for part {number}: {part.limits}. "
        return told
