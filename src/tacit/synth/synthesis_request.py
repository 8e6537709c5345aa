"""Requests for synthetic tables: what was stated, checked for its kind, and as JSON for the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypedDict

from tacit.core.errors import InputError
from tacit.core.names import is_name
from tacit.synth.declared_rules import DeclaredRules
from tacit.synth.table_synthesis import MINUTES, Method


class SynthesisOptions(TypedDict, total=False):
    """Options of a synthetic table.

    * ``epsilon``, ``delta``, ``rho``, ``mu``: the price; ``max_rows``: the most rows of one person that count.
    * ``marginals``: for ``"marginals"`` the sets of columns to measure; for ``"aim"`` those whose error matters, by
      default all pairs. Beside rows of two tables a column of persons is called ``patients_sex``.
    * ``minutes``: for ``"aim"``, about how long fits may take. Only the number itself matters: it says how large the
      model may grow, whatever the machine and the data.
    * ``impossible``: combinations of values that no row of the synthetic table may have, such as ``[{"sex": "m",
      "pregnant": True}]``; a list of values stands for each of them. All rules must be public knowledge.
    * ``determined``: columns that follow from another, such as ``{"region": {"zip": {"1000": "north"}}}``. They are not
      measured.
    * ``only_if``: columns that are NULL but under a condition, such as ``{"pregnant": {"sex": "f"}}``.
    * ``quantiles``: columns whose bins begin at private quantiles, for a tenth of the price, in place of equal bins.
    * ``nulls``: columns with bounds, or booleans, of which NULL is a value; rows with NULL in others are left out.
    """

    epsilon: Any
    delta: Any
    rho: Any
    mu: Any
    max_rows: Any
    marginals: Sequence[Sequence[str]] | None
    minutes: int
    impossible: Sequence[Mapping[str, Any]]
    determined: Mapping[str, Any] | None
    only_if: Mapping[str, Any] | None
    quantiles: Sequence[str]
    nulls: Sequence[str]


#: Options that are no price.
_SHAPES: Final = ("marginals", "minutes", "impossible", "determined", "only_if", "quantiles", "nulls")


def request_of(
    source: str | Mapping[str, Sequence[str] | None],
    columns: Sequence[str] | None,
    method: Method,
    options: Mapping[str, Any],
) -> SynthesisRequest:
    """The request of :class:`SynthesisOptions`, and of other options of queries, which are refused later.

    Raises:
        InputError: something is of another kind.
    """
    shapes = {name: options[name] for name in _SHAPES if name in options}
    priced = {name: value for name, value in options.items() if name not in _SHAPES}
    return SynthesisRequest.of(source, columns, priced, method, **shapes)


@dataclass(frozen=True)
class SynthesisRequest:
    """Everything that a request for a synthetic table states, but how many rows to draw.

    Args:
        tables: the table, or a SELECT of rows; or a table of persons and one of their rows. With columns, or None.
        options: the price.
        method: which marginals are measured.
        marginals: sets of columns.
        minutes: see :class:`.SynthesisPlan`.
        rules: that the owner declares.
        quantiles: columns whose bins are found privately.
        nulls: columns of which NULL is a value.
    """

    tables: tuple[tuple[str, tuple[str, ...] | None], ...]
    options: Mapping[str, Any]
    method: Method
    marginals: tuple[tuple[str, ...], ...] | None = None
    minutes: int = MINUTES
    rules: DeclaredRules = field(default_factory=DeclaredRules)
    quantiles: tuple[str, ...] = ()
    nulls: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, source: str | Mapping[str, Sequence[str] | None], columns: Sequence[str] | None,
        options: Mapping[str, Any], method: Method, *, marginals: Sequence[Sequence[str]] | None = None,
        minutes: int = MINUTES, impossible: Sequence[Mapping[str, Any]] = (),
        determined: Mapping[str, Any] | None = None, only_if: Mapping[str, Any] | None = None,
        quantiles: Sequence[str] = (), nulls: Sequence[str] = (),
    ) -> SynthesisRequest:  # fmt: skip
        """A request from what was typed.

        Raises:
            InputError: something is of another kind.
        """
        for name, value in (("quantiles", quantiles), ("nulls", nulls), ("columns", columns)):
            if isinstance(value, str):
                raise InputError(name, "must be a list of names of columns")
        if isinstance(source, Mapping):
            if columns is not None:
                raise InputError("columns", "stand with each of the two tables")
            if len(source) != 2 or not all(is_name(str(name)) for name in source):
                raise InputError(
                    "source", "must name two tables: the one with a row for each person, then the one with several"
                )
            if any(isinstance(listed, str) for listed in source.values()):
                raise InputError("source", "must have a list of names of columns, or None, for each table")
            tables = tuple((name, None if listed is None else tuple(listed)) for name, listed in source.items())
        elif isinstance(source, str):
            tables = ((source, None if columns is None else tuple(columns)),)
        else:
            raise InputError("source", f"must be the name of a table or a SELECT of rows, not {type(source).__name__}")
        sets = None if marginals is None else tuple(tuple(names) for names in marginals)
        rules = DeclaredRules.of(impossible, determined or {}, only_if or {})
        return cls(
            tables, options, method, sets, minutes, rules,
            tuple(name.lower() for name in quantiles), tuple(name.lower() for name in nulls),
        )  # fmt: skip

    @property
    def is_star(self) -> bool:
        """Whether there are two tables."""
        return len(self.tables) == 2

    @property
    def label(self) -> str:
        """The tables in words."""
        return " and ".join(name for name, _ in self.tables)

    def to_plain(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The request as JSON, with which the ledger alone draws the table again."""
        (source, columns), *more = self.tables
        told: dict[str, Any] = {
            "source": source, "columns": None if columns is None else list(columns), "method": self.method,
            "marginals": None if self.marginals is None else [list(names) for names in self.marginals],
            "minutes": self.minutes, "options": options, **self.rules.to_plain(),
        }  # fmt: skip
        if more:
            # Pairs, because the ledger sorts names, and the first table is that of persons.
            told["tables"] = [[name, None if listed is None else list(listed)] for name, listed in self.tables]
            told["columns"] = None
        return told | {name: list(each) for name in ("quantiles", "nulls") if (each := getattr(self, name))}

    @classmethod
    def from_plain(cls, told: Mapping[str, Any]) -> SynthesisRequest:
        """The request that :meth:`to_plain` wrote."""
        stated = {name: told[name] for name in _SHAPES if name in told}
        source = dict(told["tables"]) if "tables" in told else told["source"]
        return cls.of(
            source, told["columns"], told["options"], told["method"],
            **stated,
        )  # fmt: skip
