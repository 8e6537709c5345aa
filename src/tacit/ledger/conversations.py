"""Shares of conversations with assistants: caps inside an account, fixed once and for good.

A conversation belongs to an analyst and has a name. Its share of an account is an entry of the ledger; charges of the
conversation are counted to it in the same step as to the account, so that two charges at once cannot overspend it, and
a process that starts anew finds what was spent. A share cannot be changed: another name is another conversation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from tacit.core.errors import InputError
from tacit.core.numbers import Number
from tacit.ledger.entries import conversation_name, conversation_owner, plain_name
from tacit.ledger.journal import Journal
from tacit.ledger.records import filter_from_terms, stated_caps

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9 ._-]{0,59}\Z")


class ConversationShares:
    """Fixes the shares of conversations, and finds them."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def fix(self, population: str, name: str, caps: Mapping[str, Number], *, analyst: str) -> None:
        """Fix the share of a conversation, or check that it is what was fixed.

        Args:
            population: the account.
            name: of the conversation.
            caps: by currency of the account; currencies not named stay free within the account.
            analyst: whose conversation.

        Raises:
            InputError: the conversation has another share, or the name or a currency cannot be used.
        """
        account, who, what = _spelled(population, name, analyst)
        with self._journal.working():
            written = stated_caps(filter_from_terms(self._journal.terms(account)), caps)
            if self._place(account, who, what) is None:
                words = {"population": account, "analyst": who, "name": what, "caps": written}
                self._journal.write({"kind": "conversation", **words})
            known = self._journal.read(self._place(account, who, what) or 0, "conversation")[1]["caps"]
        if known != written:
            raise InputError(
                "conversation",
                f"{what!r} has a share of {_words(known)} of {account}, and not of {_words(written)}; a share is fixed "
                "when a conversation begins: state the same one, or name another conversation",
            )

    def check(self, population: str, name: str, *, analyst: str) -> None:
        """Check that a conversation has a share.

        Raises:
            InputError: it has none.
        """
        account, who, what = _spelled(population, name, analyst)
        if self._place(account, who, what) is None:
            raise InputError("conversation", f"{what!r} has no share of {account}; state how much it may spend")

    def _place(self, population: str, analyst: str, name: str) -> int | None:
        return self._journal.find(conversation_name(population, conversation_owner(analyst, name)))


def _spelled(population: str, name: str, analyst: str) -> tuple[str, str, str]:
    what = plain_name(name, "conversation")
    if _NAME.match(what) is None:
        raise InputError("conversation", "must be 1 to 60 letters, digits, spaces, dots, dashes and underscores")
    return plain_name(population, "population"), plain_name(analyst, "analyst"), what


def _words(caps: Mapping[str, str | None]) -> str:
    return ", ".join(f"{currency} {cap}" for currency, cap in caps.items() if cap is not None) or "everything"
