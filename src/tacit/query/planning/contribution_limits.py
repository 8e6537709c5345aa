"""Contribution limits: how many groups of a unit count, and how many of its rows in each, and who says so.

The owner of a table declares ``max_groups`` and ``max_rows``; a question that states neither is bounded by them (by the
largest, where several tables are read). A question may state any other numbers: the noise follows them, so that the
guarantee needs no cap (``docs/semantics.md``, section 6). An owner may still set a ceiling as policy, and a question
that states more is refused; of several ceilings the smallest counts. Less than without a number may always be stated.

Either may be AUTO, declared or stated: the number is found privately, within the price of the question
(:mod:`tacit.query.planning.auto_limits`), and never exceeds the ceiling.

Where declarations say that a unit is in one group, or has one row in each, 1 is the number whatever is stated: bounding
makes it true of any data, and a larger number would buy nothing but noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from tacit.query.contribution import AUTO, ContributionNumber
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import RelationNode, Scan, sources

__all__ = ["ContributionLimit", "ContributionLimits", "ceiling", "scans"]

#: The nouns of the two numbers.
_NOUNS: Final = {"max_groups": "group", "max_rows": "row"}


@dataclass(frozen=True, slots=True)
class ContributionLimit:
    """One of the two numbers, and where it comes from.

    Args:
        name: ``max_groups`` or ``max_rows``.
        declared: the number of a question that states none, or AUTO.
        single: whether it is 1 whatever is stated.
        stated: by the question, or AUTO; None for none.
        most: the owner's ceiling; None for none.
        found: the number that AUTO found; None before.
    """

    name: str
    declared: ContributionNumber
    single: bool = False
    stated: ContributionNumber | None = None
    most: int | None = None
    found: int | None = None

    @property
    def asked(self) -> ContributionNumber:
        """The number in force, or AUTO."""
        return 1 if self.single else self.declared if self.stated is None else self.stated

    @property
    def is_auto(self) -> bool:
        """Whether the number is to be found, or was."""
        return self.asked == AUTO

    @property
    def number(self) -> int:
        """The number in force; of AUTO the one that was found, and 1 until then."""
        asked = self.asked
        return (self.found or 1) if isinstance(asked, str) else asked

    def among(self, groups: int | None) -> int:
        """The number in force where there are so many public groups; None for private ones."""
        return self.number if groups is None else min(self.number, max(groups, 1))

    def stating(self, number: ContributionNumber | None, source: RelationNode) -> ContributionLimit:
        """The same with the number that a question states.

        Raises:
            Refusal: it is more than the owner of a table that is read allows.
        """
        found = ceiling(source, self.name)
        most = None if found is None else found[0] if isinstance(self.declared, str) else max(found[0], self.declared)
        if most is not None and found is not None and isinstance(number, int) and number > most:
            cap, table = found
            raise Refusal(
                "option",
                f"{self.name} = {number} is more than the {cap} {_NOUNS[self.name]}{'s' if cap > 1 else ''} of one "
                f"person that the owner of {table} allows; state at most {most}, or leave it out.",
            )
        return replace(self, stated=self.stated if number is None else number, most=most)

    def words(self, used: int) -> str:
        """The number in use, and where it comes from."""
        if self.is_auto:
            said = "declared" if self.stated is None else "stated"
            if self.found is None:
                return f"{self.name} AUTO ({said}: found privately within the price)"
            return f"{self.name} {used} (found: AUTO {said})"
        parts = [] if self.stated is None else ["stated" if self.stated == used else f"{_shown(self.stated)} stated"]
        if self.single:
            anyway = "" if self.stated in (None, used) else " anyway"
            parts.append(
                ("a unit is in one group" if self.name == "max_groups" else "a unit has one row in each") + anyway
            )
        else:
            parts.append("declared" if self.declared == used and not parts else f"{_shown(self.declared)} declared")
            if used < self.number:
                parts.append(f"there are {used} groups")
        return f"{self.name} {used} ({', '.join(parts)})"


def _shown(number: ContributionNumber) -> str:
    return str(number).upper()


@dataclass(frozen=True, slots=True)
class ContributionLimits:
    """Both numbers of a final aggregation."""

    groups: ContributionLimit
    rows: ContributionLimit

    def found(self, groups: int | None, rows: int | None) -> ContributionLimits:
        """The same with the numbers that AUTO found; None for one that was not sought."""
        return ContributionLimits(replace(self.groups, found=groups), replace(self.rows, found=rows))


def scans(node: RelationNode) -> Iterator[Scan]:
    """The tables that a relation reads, each as often as it occurs."""
    if isinstance(node, Scan):
        yield node
    for part in sources(node):
        yield from scans(part)


def ceiling(source: RelationNode, name: str) -> tuple[int, str] | None:
    """The smallest ceiling of the protected tables of a relation, and the table; None where there is none."""
    found = [
        (most, scan.table)
        for scan in scans(source)
        if not scan.is_public and (most := getattr(scan, f"{name}_limit")) is not None
    ]
    return min(found, default=None)
