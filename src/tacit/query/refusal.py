"""Refusal of a query, with code and words.

A refusal is a function of the SQL text and of public metadata alone. Its ``code`` is stable and may be matched on;
its sentence names the column or clause, the rule, and what to write instead; ``proposal`` is a whole query near the
refused one that is accepted, and says what it leaves out. ``docs/what-can-be-asked.md`` lists all that is accepted. A
refusal is free.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple, Self

from tacit.core.errors import QueryError

#: The end of a refusal's text: the change in the accepted query, and its SQL.
_ACCEPTED: Final = re.compile(r" Try(?: \((?P<change>[^:]*)\))?: (?P<sql>.*)\Z", re.DOTALL)

#: Every code a query can be refused with, and what it stands for. The prefix ``query.`` is added to each.
CODES: Final[dict[str, str]] = {
    # text and shape
    "empty": "there is no statement",
    "encoding": "a character that no statement needs",
    "too_long": "text, token, name or literal beyond the stated length",
    "too_deep": "nesting beyond the stated depth",
    "too_large": "more operators, columns or subqueries than the stated number",
    "syntax": "the text is not SQL that can be read",
    "several_statements": "more than one statement",
    "statement": "a statement other than SELECT",
    "unsupported": "a clause, operator or construct outside the allow-list",
    "work": "more work on account of one person than the stated number of row operations",
    "hint": "comments that look like instructions",
    # names and types
    "unknown_table": "a table that is not in the catalog",
    "unknown_column": "a column that does not exist where it is used",
    "ambiguous_column": "a column name that several tables share",
    "duplicate_name": "two things of one name",
    "type": "an operator applied to values of the wrong type",
    "category": "a text that is none of the declared categories of the column it is compared with",
    "literal": "a number, date or text constant that cannot be used",
    "arguments": "a function called with the wrong arguments",
    "function": "a function outside the allow-list",
    "volatile": "a function whose value changes from call to call",
    "pattern": "a LIKE pattern that could be slow",
    "position": "GROUP BY or ORDER BY position out of range",
    # ownership
    "join": "a join that would mix two persons into one row, or keep rows of no one",
    "join_kind": "a kind of join outside the allow-list",
    "population": "tables of two populations in one query",
    "union": "UNION ALL of relations that cannot be stacked",
    "set_operation": "UNION, INTERSECT or EXCEPT",
    "subquery": "a subquery in a place where it would read protected data",
    "recursion": "WITH RECURSIVE",
    "limit_below": "ORDER BY, LIMIT or OFFSET below the final aggregation",
    "sample": "sampling",
    "window": "a window that is not partitioned by the unit, or uses what is outside the allow-list",
    "public_only": "a query that reads no protected table, where only one about people has a meaning",
    "unit_exposed": "a result whose keys would be persons",
    # aggregation
    "not_aggregated": "a protected column outside an aggregate",
    "raw_aggregate": "an aggregate that would return a person's value",
    "aggregate": "an aggregate used in a way that is not supported",
    "nested_aggregate": "an aggregate inside an aggregate",
    "grouping_sets": "GROUPING SETS, CUBE or ROLLUP",
    "several_aggregations": "aggregated rows beside rows of persons",
    "empty_groups": "a number or a mean of released groups, some of which may have nobody",
    "key_type": "a group key that cannot be compared exactly",
    "too_many_keys": "more public keys than can be returned",
    "bounds": "no bounds can be derived for a value",
    "contribution_bounds": "contribution_bounds_per_group that cannot be used",
    "no_categories": "MODE or most-common-k over values that are not declared",
    "quantile": "a quantile outside [0, 1] or not a constant",
    "distinct": "DISTINCT in a place where it is not supported",
    # options
    "option": "an unknown, repeated or unusable option",
    "interval": "DP_INTERVAL_LOW or DP_INTERVAL_HIGH of something without an interval",
}


class Proposal(NamedTuple):
    """A query that is accepted, near one that is refused.

    Args:
        sql: its text.
        change: text on what it leaves out or changes, such as ``with cost for costs``; without a colon, and
            empty where it means the same.
    """

    sql: str
    change: str = ""

    def __str__(self) -> str:
        return f"Try ({self.change}): {self.sql}" if self.change else f"Try: {self.sql}"


class Refusal(QueryError):  # noqa: N818 - the word the documents use
    """A query that cannot be answered privately as written.

    Args:
        reason: a key of :data:`CODES`; the full code is ``query.<reason>``.
        sentence: what is wrong and what to write instead.
        proposal: a query near it that is accepted, where there is one; or a search for it, which is made when it is
            first asked for.
        at: where in the text: a name that stands there, or a line and the column in it where a word ends, both from 1.

    >>> Refusal("sample", "Remove TABLESAMPLE.").code
    'query.sample'
    """

    def __init__(
        self,
        reason: str,
        sentence: str,
        proposal: Proposal | Callable[[], Proposal | None] | None = None,
        at: str | tuple[int, int] | None = None,
    ) -> None:
        if reason not in CODES:
            raise KeyError(reason)
        super().__init__(reason, sentence)
        self.reason = reason
        self.sentence = sentence
        self._proposal = proposal
        self.at = at
        # The tree in core gives one code per class; a refusal has one per reason.
        vars(self)["code"] = f"query.{reason}"

    @classmethod
    def read(cls, reason: str, text: str) -> Self:
        """Parse a refusal from its ``str``."""
        end = _ACCEPTED.search(text)
        if end is None:
            return cls(reason, text)
        return cls(reason, text[: end.start()], Proposal(end["sql"], end["change"] or ""))

    @property
    def proposal(self) -> Proposal | None:
        """A query near it that is accepted, where one was found."""
        if self._proposal is not None and not isinstance(self._proposal, Proposal):
            self._proposal = self._proposal()
        return self._proposal

    def __reduce__(self) -> tuple[type[Refusal], tuple[str, str, Proposal | None, str | tuple[int, int] | None]]:
        return type(self), (self.reason, self.sentence, self.proposal, self.at)

    def __str__(self) -> str:
        return self.sentence if self.proposal is None else f"{self.sentence} {self.proposal}"
