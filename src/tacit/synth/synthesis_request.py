"""Requests for synthetic tables: what was stated, checked for its kind, and as JSON for the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypedDict

from tacit.core.errors import InputError
from tacit.core.names import is_name
from tacit.synth.table_synthesis import MINUTES, Method


class SynthesisOptions(TypedDict, total=False):
    """Options of a synthetic table.

    * ``epsilon``, ``delta``, ``rho``, ``mu``: the cost; ``max_rows``: the most rows of one person that count.
    * ``marginals``: for ``"marginals"`` the sets of columns to measure; for ``"aim"`` the sets whose error is to be
      small, by default all pairs. In the second of two tables, the column ``sex`` of ``patients`` is ``patients_sex``.
    * ``minutes``: for ``"aim"``, approximate time that fits may take. It is converted to a bound on the size of the
      model, independent of the machine and the data.
    * ``nulls``: columns with bounds, or booleans, in which NULL counts as a value; rows with NULL in other such columns
      are left out.
    """

    epsilon: Any
    delta: Any
    rho: Any
    mu: Any
    max_rows: Any
    marginals: Sequence[Sequence[str]] | None
    minutes: int
    nulls: Sequence[str]


#: Options of :class:`SynthesisOptions` other than cost and ``max_rows``.
_SHAPES: Final = ("marginals", "minutes", "nulls")


@dataclass(frozen=True)
class SynthesisRequest:
    """Request for a synthetic table, without the number of rows to draw.

    Args:
        tables: sources with their columns (None for all): a table or SELECT; or a table of persons and one of rows.
        options: cost and ``max_rows``; other options of queries are kept here and refused later.
        method: method that chooses the marginals.
        marginals: sets of columns; see :class:`.SynthesisOptions`.
        minutes: see :class:`.SynthesisPlan`.
        nulls: columns in which NULL counts as a value.
    """

    tables: tuple[tuple[str, tuple[str, ...] | None], ...]
    options: Mapping[str, Any]
    method: Method
    marginals: tuple[tuple[str, ...], ...] | None = None
    minutes: int = MINUTES
    nulls: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        source: str | Mapping[str, Sequence[str] | None],
        columns: Sequence[str] | None,
        method: Method,
        options: Mapping[str, Any],
    ) -> SynthesisRequest:
        """Validate a request as stated, with :class:`SynthesisOptions`.

        Raises:
            InputError: an argument has another type.
        """
        nulls, sets = options.get("nulls", ()), options.get("marginals")
        for name, value in (("nulls", nulls), ("columns", columns)):
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
        return cls(
            tables,
            {name: value for name, value in options.items() if name not in _SHAPES},
            method,
            None if sets is None else tuple(tuple(names) for names in sets),
            options.get("minutes", MINUTES),
            tuple(name.lower() for name in nulls),
        )

    @property
    def is_star(self) -> bool:
        return len(self.tables) == 2

    @property
    def label(self) -> str:
        """Names of the sources, joined by ``and``."""
        return " and ".join(name for name, _ in self.tables)

    def to_plain(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the request as JSON, from which the table can be drawn again with the ledger alone."""
        (source, columns), *more = self.tables
        told: dict[str, Any] = {
            "source": source, "columns": None if columns is None else list(columns), "method": self.method,
            "marginals": None if self.marginals is None else [list(names) for names in self.marginals],
            "minutes": self.minutes, "options": options,
        }  # fmt: skip
        if more:
            # Pairs, because the ledger sorts names, and the first table is that of persons.
            told["tables"] = [[name, None if listed is None else list(listed)] for name, listed in self.tables]
            told["columns"] = None
        return told | ({"nulls": list(self.nulls)} if self.nulls else {})

    @classmethod
    def from_plain(cls, told: Mapping[str, Any]) -> SynthesisRequest:
        """Read the request that :meth:`to_plain` wrote."""
        stated = {name: told[name] for name in _SHAPES if name in told}
        source = dict(told["tables"]) if "tables" in told else told["source"]
        return cls.of(source, told["columns"], told["method"], {**told["options"], **stated})
