"""Conversation with an assistant: a share of an analyst's budget that the person states, and its state.

The share is fixed in the ledger (:mod:`tacit.ledger.conversations`) before the first charge. Everything that is charged
in the conversation about one population is, together, within the epsilon of the share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tacit.accounting.prices import Charge
from tacit.core.errors import InputError
from tacit.core.numbers import Number, exact_positive
from tacit.releases.accounts import Budget, share_caps
from tacit.releases.payment import CuratorContext, hide_internal_errors

#: Before the id of a token.
_TOKEN: Final = "token "  # noqa: S105  (a prefix)


@dataclass(frozen=True, slots=True)
class Conversation:
    """The name of a conversation and its share of each account.

    Args:
        name: which conversation of the analyst; the same name is the same conversation, also after a restart.
        epsilon: that all charges about one population may amount to.
    """

    name: str
    epsilon: Number

    @classmethod
    def stated(cls, name: str, epsilon: Number) -> Conversation:
        """A conversation that a person names.

        Raises:
            InputError: the name is that of a token's share.
        """
        if " ".join(name.lower().split()).startswith(_TOKEN.strip()):
            raise InputError("conversation", f"must not begin with {_TOKEN.strip()!r}: those are shares of tokens")
        return cls(name, epsilon)

    @classmethod
    def of_token(cls, token: str, epsilon: Number) -> Conversation:
        """The share that a token was issued with: all its charges are one conversation."""
        return cls(_TOKEN + token, epsilon)

    def begin(self, context: CuratorContext, analyst: str, population: str) -> None:
        """Fix the share of a population's account, or check that it is what was fixed.

        Raises:
            InputError: the conversation has another share.
        """
        exact_positive(self.epsilon, "epsilon")
        with hide_internal_errors():
            account = context.accounts[population]
            caps = share_caps(context.ledger.filter(population), {"epsilon": self.epsilon}, delta=account.target_delta)
            context.ledger.conversations.fix(population, self.name, caps, analyst=analyst)

    def budget(self, context: CuratorContext, analyst: str, population: str, charge: Charge | None = None) -> Budget:
        """State of the account and of its shares, that of the conversation last."""
        self.begin(context, analyst, population)
        with hide_internal_errors():
            found = context.ledger.budget(
                population, analyst=analyst, project=context.project, conversation=self.name, charge=charge
            )
        return Budget.of(found, durable=context.ledger.durable)
