"""Workloads: many counting queries over the cross product of some columns, as one value.

A workload is a union of parts. A part is a set of **marginals** (counts for every combination of values of some
columns) or a **product** of factors, one for each column:

============ ============================================================ =====================
factor       queries over n ordered values                                number of queries
============ ============================================================ =====================
each         one for each value                                           n
total        all values together                                          1
prefixes     values up to each one: the cumulative counts                 n
ranges       every interval of values                                     n (n + 1) / 2
============ ============================================================ =====================

The queries of a product are all combinations of one query of each factor. A workload names columns and holds no values;
the numbers of values come from the table that is queried.

*As plain lists and texts*, for JSON and TOML, one entry for each part::

    [{"marginals": ["sex", "race", "age"], "ways": 2},      all sets of two of the columns
     {"marginals": [["sex"], ["race", "age"]]},             the sets that are listed
     {"prefixes": "age"},                                   also ranges, each, total
     {"product": [{"each": "sex"}, {"ranges": "age"}]}]     every combination of a query of each
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add, mul
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.numbers import with_noun

FactorKind = Literal["each", "total", "prefixes", "ranges"]
#: Largest number of marginals of one workload, subsets not counted.
_MOST_MARGINALS: Final = 20_000


@dataclass(frozen=True)
class Factor:
    """Queries of a kind over the values of one column."""

    column: str
    kind: FactorKind

    def count(self, size: int) -> int:
        """Return the number of queries over ``size`` values."""
        return {"each": size, "total": 1, "prefixes": size, "ranges": size * (size + 1) // 2}[self.kind]

    def gram(self, size: int) -> NDArray[np.float64]:
        """Return WᵀW of the query matrix W, which determines the total variance of the queries."""
        place = np.arange(size)
        if self.kind == "each":
            return np.eye(size)
        if self.kind == "total":
            return np.ones((size, size))
        if self.kind == "prefixes":
            return np.asarray(size - np.maximum.outer(place, place), dtype=np.float64)
        low, high = np.minimum.outer(place, place), np.maximum.outer(place, place)
        return np.asarray((low + 1) * (size - high), dtype=np.float64)

    @property
    def text(self) -> str:
        return f"{self.kind}({self.column})"


@dataclass(frozen=True)
class MarginalPart:
    """Set of marginals: counts for every combination of values of each set of columns.

    Args:
        sets: columns of each marginal, sorted; the empty set is the number of all rows.
    """

    sets: tuple[tuple[str, ...], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(sorted({name for names in self.sets for name in names}))

    def count(self, sizes: Mapping[str, int]) -> int:
        return sum(math.prod(sizes[name] for name in names) for names in self.sets)

    @property
    def text(self) -> str:
        return f"marginals {self.sets!r}"


@dataclass(frozen=True)
class ProductPart:
    """Product of factors: all combinations of one query of each factor; factors have no column in common."""

    factors: tuple[Factor, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, in the order of the factors."""
        return tuple(factor.column for factor in self.factors)

    def count(self, sizes: Mapping[str, int]) -> int:
        return math.prod(factor.count(sizes[factor.column]) for factor in self.factors)

    @property
    def text(self) -> str:
        return "product " + " x ".join(factor.text for factor in self.factors)


WorkloadPart = MarginalPart | ProductPart


@dataclass(frozen=True)
class Workload:
    """Counting queries that are answered together; made by the class methods, joined by ``+``, multiplied by ``*``.

    >>> w = Workload.marginals(["sex", "race", "age"], ways=2) + Workload.prefixes("age")
    >>> w.count({"sex": 2, "race": 5, "age": 74})
    602
    """

    parts: tuple[WorkloadPart, ...]

    @classmethod
    def marginals(
        cls,
        columns: Sequence[str] | Sequence[Sequence[str]],
        *,
        ways: int | None = None,
    ) -> Workload:
        """Return marginals: with ``ways`` those of all subsets of that size, without it those of the listed sets.

        Args:
            columns: names of columns; without ``ways``, lists of names, one for each marginal.
            ways: number of columns of each marginal.
        """
        if ways is None:
            if any(isinstance(names, str) for names in columns):
                raise InputError("columns", "must list the columns of each marginal, or state ways as well")
            listed = [_names(names) for names in columns]
        else:
            names = _names(columns)
            if not 0 <= operator.index(ways) <= len(names):
                raise InputError("ways", f"must be a whole number from 0 to {len(names)}, the number of columns")
            if math.comb(len(names), ways) > _MOST_MARGINALS:
                raise InputError("ways", f"makes more than {_MOST_MARGINALS:,} marginals; state fewer columns")
            listed = list(itertools.combinations(names, ways))
        if not listed:
            raise InputError("columns", "must make at least one marginal")
        if len(listed) > _MOST_MARGINALS:
            raise InputError("columns", f"makes more than {_MOST_MARGINALS:,} marginals; ask in several workloads")
        return cls((MarginalPart(_sets(listed)),))

    @classmethod
    def each(cls, column: str) -> Workload:
        """Return one count for each value of a column; may be a factor of a product."""
        return cls._single(column, "each")

    @classmethod
    def total(cls, column: str) -> Workload:
        """Return one count of all values of a column; may be a factor of a product."""
        return cls._single(column, "total")

    @classmethod
    def prefixes(cls, column: str) -> Workload:
        """Return the cumulative counts of an ordered column: for each value v, rows with a value <= v."""
        return cls._single(column, "prefixes")

    @classmethod
    def ranges(cls, column: str) -> Workload:
        """Return the counts of all intervals of values of an ordered column."""
        return cls._single(column, "ranges")

    @classmethod
    def _single(cls, column: str, kind: FactorKind) -> Workload:
        return cls((ProductPart((Factor(_names([column])[0], kind),)),))

    def __add__(self, other: Workload) -> Workload:
        """Return the union of two workloads; all marginals become one part and share their noise."""
        if not isinstance(other, Workload):
            return NotImplemented
        parts = list(dict.fromkeys((*self.parts, *other.parts)))
        sets = [names for part in parts if isinstance(part, MarginalPart) for names in part.sets]
        # The marginals stand where the first of them stood.
        first = next((part for part in parts if isinstance(part, MarginalPart)), None)
        kept = [part for part in parts if part is first or not isinstance(part, MarginalPart)]
        return Workload(tuple(MarginalPart(_sets(sets)) if part is first else part for part in kept))

    def __mul__(self, other: Workload) -> Workload:
        """Return the product: all combinations of a query of each workload, over different columns."""
        if not isinstance(other, Workload):
            return NotImplemented
        return Workload(tuple(_product(left, right) for left in self.parts for right in other.parts))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that the queries read, each once."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.columns))

    def count(self, sizes: Mapping[str, int]) -> int:
        """Return the number of queries, for columns with these numbers of values."""
        return sum(part.count(sizes) for part in self.parts)

    def renamed(self, names: Mapping[str, str]) -> Workload:
        """Return the same queries with columns renamed."""
        parts: list[WorkloadPart] = []
        for part in self.parts:
            if isinstance(part, MarginalPart):
                listed = [tuple(names[name] for name in each) for each in part.sets]
                parts.append(MarginalPart(_sets(listed)))
            else:
                parts.append(ProductPart(tuple(Factor(names[f.column], f.kind) for f in part.factors)))
        return Workload(tuple(parts))

    @property
    def text(self) -> str:
        """Canonical text, by which a repeated workload is recognised."""
        return "\n".join(part.text for part in self.parts)

    def __str__(self) -> str:
        return "; ".join(map(_words, self.parts))


def _words(part: WorkloadPart) -> str:
    if isinstance(part, ProductPart):
        return " × ".join(f"{factor.kind} of {factor.column}" for factor in part.factors)
    ways = sorted({len(names) for names in part.sets})
    columns = "column" if ways == [1] else "columns"
    return f"{with_noun(len(part.sets), 'marginal')} of {', '.join(map(str, ways))} {columns}"


def _product(left: WorkloadPart, right: WorkloadPart) -> ProductPart:
    factors = (*_factors(left), *_factors(right))
    names = [factor.column for factor in factors]
    if len(set(names)) != len(names):
        raise InputError("workload", "a product needs different columns in its factors")
    return ProductPart(factors)


def _factors(part: WorkloadPart) -> tuple[Factor, ...]:
    if isinstance(part, ProductPart):
        return part.factors
    if len(part.sets) != 1:
        raise InputError("workload", "several marginals are no factor of a product; multiply one, or add the products")
    return tuple(Factor(name, "each") for name in part.sets[0])


def _names(names: Any) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InputError("columns", "must be a list of names of columns")
    listed = tuple(names)
    if any(not isinstance(name, str) or not name for name in listed):
        raise InputError("columns", "must be names of columns, as text")
    if len(set(listed)) != len(listed):
        raise InputError("columns", "names a column twice")
    return listed


def _sets(listed: Iterable[Iterable[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(sorted({tuple(sorted(names)) for names in listed}, key=lambda names: (len(names), names)))


#: Largest number of parts of a workload in plain form.
_MOST_PARTS: Final = 1_000
_SINGLES: Final = {
    "each": Workload.each, "total": Workload.total, "prefixes": Workload.prefixes, "ranges": Workload.ranges,
}  # fmt: skip


def workload_from_plain(told: object) -> Workload:
    """Read a workload from plain lists and texts.

    Raises:
        InputError: an entry is invalid; the message names it and a valid form.

    >>> str(workload_from_plain([{"marginals": ["a", "b"], "ways": 1}, {"prefixes": "a"}]))
    '2 marginals of 1 column; prefixes of a'
    """
    listed = [told] if isinstance(told, Mapping) else told
    if isinstance(listed, str) or not isinstance(listed, Sequence) or not 1 <= len(listed) <= _MOST_PARTS:
        raise InputError("workload", f'must be a list of 1 to {_MOST_PARTS:,} parts, such as [{{"prefixes": "age"}}]')
    return reduce(add, [_part(part) for part in listed])


def workload_to_plain(workload: Workload) -> list[dict[str, Any]]:
    """Return the plain lists and texts that :func:`workload_from_plain` reads."""
    found: list[dict[str, Any]] = []
    for part in workload.parts:
        if isinstance(part, MarginalPart):
            found.append({"marginals": [list(names) for names in part.sets]})
        else:
            factors: list[dict[str, Any]] = [{factor.kind: factor.column} for factor in part.factors]
            found.append(factors[0] if len(factors) == 1 else {"product": factors})
    return found


def _part(part: object) -> Workload:
    if not isinstance(part, Mapping):
        raise InputError("workload", 'every part must be a table of names, such as {"prefixes": "age"}')
    if set(part) == {"product"}:
        factors = part["product"]
        if isinstance(factors, str) or not isinstance(factors, Sequence) or not factors:
            raise InputError("workload", "a product must be a list of its factors")
        return reduce(mul, [_single(factor) for factor in factors])
    if "marginals" in part and set(part) <= {"marginals", "ways"}:
        columns, ways = part["marginals"], part.get("ways")
        if isinstance(columns, str) or not isinstance(columns, Sequence):
            raise InputError("workload", "marginals must be a list of columns with ways, or a list of lists of columns")
        if ways is not None and type(ways) is not int:
            raise InputError("workload", "ways must be a whole number")
        return Workload.marginals(columns, ways=ways)
    return _single(part)


def _single(factor: object) -> Workload:
    kind = next(iter(factor), "") if isinstance(factor, Mapping) and len(factor) == 1 else ""
    if not isinstance(factor, Mapping) or kind not in _SINGLES:
        raise InputError(
            "workload",
            f"a part is one of marginals (with ways), product, {', '.join(_SINGLES)}; got {str(factor)[:80]}",
        )
    if not isinstance(factor[kind], str):
        raise InputError("workload", f"{kind} must be the name of a column")
    return _SINGLES[kind](factor[kind])
