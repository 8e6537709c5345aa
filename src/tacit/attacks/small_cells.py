"""Small cells: a table of counts so fine that some cells hold one person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from tacit.attacks.comparison import Words
from tacit.attacks.linkage import KnownRow
from tacit.attacks.random_choice import largest
from tacit.attacks.success_rate import SuccessRate
from tacit.core.errors import InputError

#: Gives the published table: for each combination of known values, how many have each of the secrets.
PublishedTable = Callable[[], Mapping[KnownRow, Sequence[float]]]

_WORDS: Final = Words(
    name="small cells",
    title="Small cells: a table of counts with a person alone in it",
    how="A table counts people by a few everyday facts and by a secret. Where only one person fits the facts, the "
    "table says which secret is theirs.",
    measure="secrets read off the table, of people who are alone with their facts",
    moral="A count of one is a row of the table. Hiding counts of one helps little: totals give them back.",
)


@dataclass(frozen=True)
class SmallCells:
    """Read the secrets of those who are alone off a published table.

    Args:
        known: what is known about each person.
        secrets: the place of each person's secret among all secrets; -1 for people who have several, whom the table
            counts but who are no victims.
        values: how many secrets there are.
        alone: how many may share a person's values for that person to count as exposed.
    """

    known: tuple[KnownRow, ...]
    secrets: tuple[int, ...]
    values: int
    alone: int = 1
    words: Words = _WORDS
    reach: int = 2

    def __post_init__(self) -> None:
        if len(self.known) != len(self.secrets):
            raise InputError("secrets", f"must have one entry for each of {len(self.known)} people")

    @cached_property
    def exposed(self) -> tuple[int, ...]:
        """The places of those who are alone, or nearly."""
        sizes = Counter(self.known)
        return tuple(
            place
            for place, (values, secret) in enumerate(zip(self.known, self.secrets, strict=True))
            if sizes[values] <= self.alone and secret >= 0
        )

    def run(self, ask: PublishedTable) -> SuccessRate:
        """Share of exposed people for whom the largest count beside their values was that of their secret.

        Raises:
            InputError: no person is exposed; coarser facts reveal no person by this attack.
        """
        if not self.exposed:
            raise InputError("known", "no person is alone with these values; add columns until one is")
        table, none = ask(), [0.0] * self.values
        right = sum(largest(table.get(self.known[i], none)) == self.secrets[i] for i in self.exposed)
        return SuccessRate(right, len(self.exposed))
