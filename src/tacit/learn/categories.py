"""Declared categories: columns of text or codes, as one-hot columns or as numbers of a public list.

Which categories there are is declared, never read off the rows: a list of them, or a number of groups into which a
public hash function sorts whatever comes. A value that is no declared category is "other": zero in all one-hot columns,
or one more number after the last. What a value becomes depends on that value and on declarations alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.numbers import check_count
from tacit.learn.integer_rows import Integers
from tacit.learn.labels import canonical_label, numbered
from tacit.learn.value_reading import column_values, read_numbers

#: More categories of one column are refused; hash them into fewer groups.
_MOST: int = 1 << 12


@dataclass(frozen=True)
class Categories:
    """Declaration of one column: its categories, or the number of groups they are hashed into.

    Attributes:
        size: number of categories or groups.
        listed: the categories; None where they are hashed.
    """

    size: int
    listed: tuple[Any, ...] | None = None

    @classmethod
    def read(cls, declared: object, column: str) -> Categories:
        """The declaration: a list of categories, or a number of groups."""
        if isinstance(declared, int) and not isinstance(declared, bool):
            return cls(check_count(declared, f"categories of {column}", minimum=2, maximum=_MOST))
        if isinstance(declared, np.ndarray):
            declared = declared.tolist()
        if not isinstance(declared, Sequence | range) or isinstance(declared, str | bytes) or not declared:
            raise InputError("categories", f"of {column} must be a list, or a number of groups to hash into")
        listed = tuple(declared)
        if len(listed) > _MOST or any(canonical_label(each) is None for each in listed):
            raise InputError("categories", f"of {column} must be at most {_MOST} texts, numbers or truth values")
        if len({canonical_label(each) for each in listed}) != len(listed):
            raise InputError("categories", f"of {column} lists a value twice")
        return cls(len(listed), listed)

    def codes(self, values: Sequence[Any]) -> Integers:
        """The number of each value's category, -1 for other; nothing in it can raise."""
        if self.listed is None:
            return np.array([self._group(value) for value in values], dtype=np.int64)
        named = np.empty(self.size, dtype=object)
        named[:] = self.listed
        return numbered(values, named)

    def _group(self, value: object) -> int:
        form = canonical_label(value)
        if form is None:
            return -1
        digest = hashlib.blake2b(f"{form[0]} {form[1]}".encode(errors="surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest, "big") % self.size

    def names(self, column: str) -> list[str]:
        """Names of the one-hot columns."""
        said = [f"group {place}" for place in range(self.size)] if self.listed is None else map(str, self.listed)
        return [f"{column}={each}" for each in said]


@dataclass(frozen=True)
class Encoding:
    """From the columns of a table to the columns of a model.

    Attributes:
        pairs: for each column its bounds, or None for a column of categories.
        declared: categories by place.
        one_hot: whether categories become columns of their own; otherwise numbers, other the last.
    """

    pairs: tuple[Any, ...]
    declared: tuple[tuple[int, Categories], ...]
    one_hot: bool

    @classmethod
    def of(cls, categories: Any, bounds: Any, columns: int, names: Sequence[str] | None, *, one_hot: bool) -> Encoding:
        """The encoding that the arguments of an estimator declare; names and number of columns are public."""
        if not isinstance(categories, Mapping):
            raise InputError("categories", "must give, by name or place of a column, its list of categories")
        stated = {_place(key, columns, names): (key, listed) for key, listed in categories.items()}
        if len(stated) != len(categories):
            raise InputError("categories", "describe a column twice")
        declared = tuple((place, Categories.read(each, str(key))) for place, (key, each) in sorted(stated.items()))
        return cls(_pairs(bounds, stated, columns, names), declared, one_hot)

    @classmethod
    def unnamed(cls, categories: Mapping[Any, Any], bounds: Any, columns: int, *, one_hot: bool) -> Encoding:
        """The same before names are known: columns in the order in which they are declared, categories last."""
        if not isinstance(categories, Mapping):
            raise InputError("categories", "must give, by name or place of a column, its list of categories")
        if all(isinstance(key, int) for key in categories) and not isinstance(bounds, Mapping):
            return cls.of(categories, bounds, columns, None, one_hot=one_hot)
        if isinstance(bounds, Mapping):
            names = [*map(str, bounds), *(str(key) for key in categories)]
        else:
            names = [*(f"column {place}" for place in range(columns - len(categories))), *map(str, categories)]
        if len(names) != columns:
            raise InputError("bounds", f"and categories describe {len(names)} columns, but the data has {columns}")
        return cls.of({str(key): each for key, each in categories.items()}, bounds, columns, names, one_hot=one_hot)

    @property
    def bounds(self) -> list[Any]:
        """Bounds of the columns of the model."""
        found: list[Any] = []
        sizes = dict(self.declared)
        for place, pair in enumerate(self.pairs):
            if place in sizes:
                found += [(0, 1)] * sizes[place].size if self.one_hot else [(0, sizes[place].size)]
            else:
                found.append(pair)
        return found

    @property
    def nominal(self) -> tuple[int, ...]:
        """Places of the columns whose numbers are categories."""
        return () if self.one_hot else tuple(place for place, _ in self.declared)

    def read(self, X: Any) -> NDArray[np.float64]:
        """The columns of the model, as floats; value by value."""
        columns, sizes = len(self.pairs), dict(self.declared)
        found = []
        for place in range(columns):
            values = column_values(X, place, columns)
            if place not in sizes:
                found.append(read_numbers(values)[:, None])
                continue
            listed = values if isinstance(values, list) else values.tolist()
            codes = sizes[place].codes([each.item() if isinstance(each, np.generic) else each for each in listed])
            if self.one_hot:
                found.append((codes[:, None] == np.arange(sizes[place].size)).astype(np.float64))
            else:
                found.append(np.where(codes < 0, sizes[place].size, codes).astype(np.float64)[:, None])
        return cast("NDArray[np.float64]", np.hstack(found))

    def names(self, columns: Sequence[str]) -> list[str]:
        """Names of the columns of the model."""
        sizes = dict(self.declared)
        found: list[str] = []
        for place, name in enumerate(columns):
            found += sizes[place].names(name) if self.one_hot and place in sizes else [name]
        return found


def _place(key: object, columns: int, names: Sequence[str] | None) -> int:
    if isinstance(key, int) and not isinstance(key, bool):
        if not 0 <= key < columns:
            raise InputError("categories", f"name column {key}, but the data has {columns} columns")
        return key
    if names is None:
        raise InputError("categories", "by name need a data frame with these columns; for an array, give places")
    if str(key) not in names:
        raise InputError("categories", f"name {key}, which is no column; there are {', '.join(names)}")
    return names.index(str(key))


def _pairs(bounds: Any, stated: Mapping[int, Any], columns: int, names: Sequence[str] | None) -> tuple[Any, ...]:
    if isinstance(bounds, np.ndarray):
        bounds = bounds.tolist()
    numbers = [place for place in range(columns) if place not in stated]
    if isinstance(bounds, Mapping):
        if names is None:
            raise InputError("bounds", "by name need a data frame with these columns; for an array, give a list")
        named = {str(name): pair for name, pair in bounds.items()}
        odd = sorted({names[place] for place in numbers} ^ set(named))
        if odd:
            raise InputError("bounds", f"and the columns differ in {', '.join(odd)}; categories have no bounds")
        return tuple(named[names[place]] if place in numbers else None for place in range(columns))
    if not numbers and bounds is None:
        return (None,) * columns
    if not isinstance(bounds, Sequence) or isinstance(bounds, str | bytes) or not bounds:
        raise InputError("bounds", "must be given for every column that is no category: a pair, or a list of pairs")
    if not any(each is None or isinstance(each, Sequence | np.ndarray) for each in bounds):
        return tuple(bounds if place in numbers else None for place in range(columns))
    if len(bounds) == len(numbers):
        given = dict(zip(numbers, bounds, strict=True))
        return tuple(given.get(place) for place in range(columns))
    if len(bounds) != columns or any((bounds[place] is None) != (place in stated) for place in range(columns)):
        raise InputError("bounds", f"describe {len(bounds)} columns; give one pair for each that is no category")
    return tuple(bounds)
