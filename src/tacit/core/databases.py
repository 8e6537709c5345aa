"""Databases in two forms: rows of a universe, or a histogram.

A **universe** is the set of all possible records. A database of n people is a list of n rows from it, or,
equivalently, a vector of |universe| counts. ``[2, 0, 1]`` can be read both ways, as the rows 2, 0, 1 or as two of the
first record and one of the third, and distances come out differently. So each form has a constructor of its own,
:func:`rows` and :func:`histogram`, and a function that is given both forms, or a list of whole numbers that could be
either, raises instead of guessing.

>>> ill = Universe(["flu", "cold", "none"])
>>> x, y = rows(["flu", "flu", "none"], universe=ill), histogram([1, 0, 1], universe=ill)
>>> x.l1_norm, y.l1_norm, l1_distance(x.to_histogram(), y)
(3, 2, 1)
>>> is_neighbour(x.to_histogram(), y, "add_remove")
True
>>> l1_distance(x, y)
Traceback (most recent call last):
    ...
tacit.core.errors.InputError: right: is a histogram and left is rows; convert ...
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations_with_replacement, product
from math import comb, prod
from typing import Any, Final, SupportsIndex

from tacit.core import relations
from tacit.core.errors import InputError
from tacit.core.numbers import check_count
from tacit.core.relations import Relation, as_relation

#: Neighbours are at distance one: the usual condition in proofs. A database is not its own neighbour.
EXACTLY_ONE: Final = "exactly one"
#: Neighbours are at distance zero or one. Adds nothing: equal databases have equal output laws.
AT_MOST_ONE: Final = "at most one"
#: Maximal number of records of a universe.
MOST_RECORDS: Final = 1_000_000


class Universe(Sequence[Hashable]):
    """All possible records, each once, in a fixed order: the order of the counts of a histogram.

    >>> patients = Universe.product(Universe.bits(1), Universe("ABO"))
    >>> len(patients), patients[4], patients.count_databases(2)
    (6, (1, 'B'), 21)
    """

    def __init__(self, records: Iterable[Hashable]) -> None:
        self._records = tuple(records)
        self._places = {record: place for place, record in enumerate(self._records)}
        if not self._records:
            raise InputError("records", "must list at least one record")
        if len(self._places) != len(self._records):
            raise InputError("records", "must not list a record twice")

    @classmethod
    def bits(cls, d: SupportsIndex) -> Universe:
        """Return {0, 1} for d = 1, else the 2^d tuples of ``d`` bits: d yes-or-no attributes for each person."""
        attributes = check_count(d, "d", maximum=MOST_RECORDS.bit_length() - 1)
        return cls((0, 1)) if attributes == 1 else cls(product((0, 1), repeat=attributes))

    @classmethod
    def product(cls, *universes: Iterable[Hashable]) -> Universe:
        """Return the Cartesian product of ``universes``: tuples with one entry from each."""
        parts = [tuple(part) for part in universes]
        size = prod(len(part) for part in parts)
        if size > MOST_RECORDS:
            raise InputError("universes", f"have a product of {size:,} records; more than {MOST_RECORDS:,} are refused")
        return cls(product(*parts))

    def place(self, record: Hashable) -> int:
        """Return the index of ``record`` in the universe, which is also the index of its count in a histogram."""
        try:
            return self._places[record]
        except (KeyError, TypeError):
            raise InputError("record", "is not in the universe; list it there, or leave it out") from None

    def databases(self, size: SupportsIndex) -> Iterator[RowForm]:
        """Iterate over all databases of ``size`` rows, each once; the order of rows has no meaning."""
        n = check_count(size, "size", minimum=0)
        return (RowForm(some, self) for some in combinations_with_replacement(self._records, n))

    def count_databases(self, size: SupportsIndex) -> int:
        """Return the number of databases of ``size`` rows: C(|universe| + n - 1, n)."""
        n = check_count(size, "size", minimum=0)
        return comb(len(self) + n - 1, n)

    def __contains__(self, record: object) -> bool:
        try:
            return record in self._places
        except TypeError:
            return False

    def __getitem__(self, index: Any) -> Any:
        return self._records[index]

    def __len__(self) -> int:
        return len(self._records)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Universe) and self._records == other._records

    def __hash__(self) -> int:
        return hash(self._records)

    def __repr__(self) -> str:
        return f"<Universe of {len(self)} records>"


class _Form(ABC):
    """Base class of both forms of a database."""

    universe: Universe

    @abstractmethod
    def _counts(self) -> Counter[Hashable]:
        """Return the multiplicity of each record."""

    @property
    def l1_norm(self) -> int:
        """The sum of the counts, which is the number of rows."""
        return self._counts().total()

    def __eq__(self, other: object) -> bool:
        # Rows and a histogram are never equal; convert one of them to compare.
        return isinstance(other, type(self)) and self._counts() == other._counts()

    def __hash__(self) -> int:
        return hash(frozenset(self._counts().items()))


class RowForm(_Form, Sequence[Hashable]):
    """A database as a sequence of rows; made by :func:`rows`."""

    def __init__(self, records: Iterable[Hashable], universe: Universe) -> None:
        self._rows = tuple(records)
        self.universe = universe

    def to_histogram(self) -> HistogramForm:
        """Return the database as a histogram."""
        return HistogramForm(self._counts(), self.universe)

    def _counts(self) -> Counter[Hashable]:
        return Counter(self._rows)

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"rows({list(self._rows)!r})"

    __eq__ = _Form.__eq__
    __hash__ = _Form.__hash__


class HistogramForm(_Form, Mapping[Hashable, int]):
    """A database as the number of occurrences of each record of the universe; made by :func:`histogram`."""

    def __init__(self, counts: Mapping[Hashable, int], universe: Universe) -> None:
        self._by_record = {record: counts.get(record, 0) for record in universe}
        self.universe = universe

    @property
    def vector(self) -> tuple[int, ...]:
        """The counts in the order of the universe."""
        return tuple(self._by_record.values())

    def to_rows(self) -> RowForm:
        """Return the database as rows, in the order of the universe."""
        return RowForm(self._counts().elements(), self.universe)

    def _counts(self) -> Counter[Hashable]:
        return Counter({record: count for record, count in self._by_record.items() if count})

    def __getitem__(self, record: Hashable) -> int:
        return self._by_record[record]

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._by_record)

    def __len__(self) -> int:
        return len(self._by_record)

    def __repr__(self) -> str:
        return f"histogram({list(self.vector)!r})"

    __eq__ = _Form.__eq__
    __hash__ = _Form.__hash__


Form = RowForm | HistogramForm


def rows(records: Iterable[Hashable], *, universe: Iterable[Hashable]) -> RowForm:
    """Return a database given by its rows; every row must be in ``universe``.

    >>> rows("aab", universe="abc").to_histogram()
    histogram([2, 1, 0])
    """
    if isinstance(records, Mapping):
        raise InputError("records", "is a mapping, which is a histogram; write histogram(…) instead of rows(…)")
    everything, listed = _universe(universe), list(records)
    if not all(record in everything for record in listed):
        hint = ""
        if len(listed) == len(everything) and all(_is_count(record) for record in listed):
            hint = "; it looks like counts, one for each record: write histogram(…) instead of rows(…)"
        raise InputError("records", f"holds a row that is not in the universe{hint}")
    return RowForm(listed, everything)


def histogram(counts: Iterable[int] | Mapping[Any, int], *, universe: Iterable[Hashable]) -> HistogramForm:
    """Return a database given by its counts: a vector in the order of ``universe``, or a mapping from record to count.

    >>> histogram({"b": 2}, universe="abc").to_rows()
    rows(['b', 'b'])
    """
    everything = _universe(universe)
    if isinstance(counts, Mapping):
        found = dict(counts)
        if not all(record in everything for record in found):
            raise InputError("counts", "names a record that is not in the universe")
    else:
        listed = list(counts)
        if len(listed) != len(everything):
            hint = ""
            if all(record in everything for record in listed):
                hint = "; it looks like rows: write rows(…) instead of histogram(…)"
            raise InputError("counts", f"must have one count for each of {len(everything)} records{hint}")
        found = dict(zip(everything, listed, strict=True))
    if not all(_is_count(count) for count in found.values()):
        raise InputError("counts", "must be whole numbers >= 0; write rows(…) for a list of records")
    return HistogramForm({record: int(count) for record, count in found.items()}, everything)


def l1_norm(database: Form | Iterable[Hashable] | Mapping[Any, int]) -> int:
    """Return the number of rows: the sum of the histogram's counts."""
    return _read(database, "database").total()


def l1_distance(left: Any, right: Any) -> int:
    """Return Σ |x_i - y_i| over the histogram: the number of records to add and remove to turn one into the other.

    Both must be written in one form. Plain text and lists are rows, mappings are histograms; a list of whole numbers
    could be either and is refused.

    >>> l1_distance("aab", "ab"), l1_distance({"a": 2, "b": 1}, {"a": 1, "b": 2})
    (1, 2)
    """
    return relations.l1_distance(*_pair(left, right))


def is_neighbour(left: Any, right: Any, relation: Relation | str, *, distance: str = EXACTLY_ONE) -> bool:
    """Return whether the two databases differ in one unit of privacy; ``distance`` defines "differ".

    Args:
        left: one database.
        right: the other, in the same form.
        relation: add or remove a row, or replace one.
        distance: ``"exactly one"``, or ``"at most one"``, which counts equal databases as neighbours too.

    >>> is_neighbour("aab", "aab", "add_remove"), is_neighbour("aab", "aab", "add_remove", distance="at most one")
    (False, True)
    """
    if distance not in (EXACTLY_ONE, AT_MOST_ONE):
        raise InputError("distance", f"must be {EXACTLY_ONE!r} or {AT_MOST_ONE!r}, got {distance!r}")
    steps = relations.distance(*_pair(left, right), as_relation(relation))
    return steps == 1 or (steps == 0 and distance == AT_MOST_ONE)


def _universe(universe: Iterable[Hashable]) -> Universe:
    return universe if isinstance(universe, Universe) else Universe(universe)


def _pair(left: Any, right: Any) -> tuple[Counter[Hashable], Counter[Hashable]]:
    forms = [_form(left), _form(right)]
    if forms[0] != forms[1]:
        raise InputError(
            "right",
            f"is {forms[1]} and left is {forms[0]}; convert one: "
            + (
                "left.to_histogram() or right.to_rows()"
                if forms[0] == "rows"
                else "left.to_rows() or right.to_histogram()"
            ),
        )
    if isinstance(left, _Form) and isinstance(right, _Form) and left.universe != right.universe:
        raise InputError("right", "is over another universe than left; build both over one Universe")
    return _read(left, "left"), _read(right, "right")


def _form(database: object) -> str:
    return "a histogram" if isinstance(database, Mapping) else "rows"


def _read(database: Any, parameter: str) -> Counter[Hashable]:
    if isinstance(database, _Form):
        return database._counts()
    if isinstance(database, Mapping):
        return relations.as_histogram(database)
    if not isinstance(database, Iterable):
        raise InputError(parameter, f"must be rows or a histogram, not {type(database).__name__}")
    listed = list(database)
    if not all(_is_hashable(record) for record in listed):
        raise InputError(parameter, "holds a row that is a list or another changeable value; write rows as tuples")
    if listed and all(_is_count(record) for record in listed):
        raise InputError(
            parameter,
            "is a list of whole numbers, which could be rows or counts; "
            "write databases.rows(…, universe=…) or databases.histogram(…, universe=…)",
        )
    return Counter(listed)


def _is_count(value: object) -> bool:
    return isinstance(value, SupportsIndex) and not isinstance(value, bool) and value.__index__() >= 0


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
