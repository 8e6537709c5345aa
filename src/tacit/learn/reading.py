"""Reading of tables: values to floats, labels to classes, declared categories to columns, one value at a time.

NumPy gives a list one type for all its values, so that one text among numbers turns every number into text. Here the
type of an array or of a frame's column is public, as its declaration is, and may be refused; everything else is read
one value at a time, by one rule:

* a number (also a Decimal, a Fraction, a truth value, and text that Python's ``float`` reads) is that number, cut to
  the largest float if it is larger;
* everything else (None, NaN, NA, dates, lists, complex numbers, other text) is NaN, which counts as the midpoint of
  the bounds;
* a row of a list that does not have as many values as rows have is a row of NaN.

Classes are declared, or selected privately, which is charged. Categories are declared, never read off the rows: as a
list, or as a number of groups into which a public hash function sorts any value. A value that is no declared category
is "other": zero in all one-hot columns, or one more number after the last.
"""

from __future__ import annotations

import hashlib
import math
import sys
import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.exceptions import DataConversionWarning

from tacit.core.errors import InputError
from tacit.core.events import ApproxEvent
from tacit.core.numbers import Number, check_count, exact_positive
from tacit.core.relations import Relation
from tacit.learn.integer_rows import Integers
from tacit.mechanisms.base import check_iterable
from tacit.mechanisms.partition_selection import PartitionSelection

Floats = NDArray[np.float64]

_LARGEST: Final = sys.float_info.max
#: Kinds of NumPy types that are numeric, and those that are read value by value; all remaining kinds are refused.
_NUMBERS: Final = "buif"
_VALUES: Final = "OUS"
#: Prefixes of the type names of a data frame's text columns.
_TEXTS: Final = ("str", "utf8", "large_string", "categor", "enum")
#: Types that cannot be a row of a list: a mapping or a set has no order, and a text is one value.
_NO_ROW: Final = (str, bytes, bytearray, Mapping, set, frozenset)


def read_table(X: object, columns: int | None = None) -> Floats:
    """Return the features as floats, one line per row.

    Args:
        X: an array, a frame, or a list of rows.
        columns: number of columns, if declared; otherwise the most frequent length of a list's rows.
    """
    if issparse(X):
        raise TypeError("Sparse data was passed for X, but dense data is required. Use '.toarray()' to convert it.")
    if is_frame(X):
        return _from_frame(X)
    if isinstance(X, list | tuple):
        return _from_rows(X, columns)
    array = _as_array(X, "X")
    if array.ndim != 2:
        raise InputError("X", f"Expected 2D array, got {array.ndim}D array instead. Reshape your data to rows.")
    return _from_array(array, "X")


def read_numbers(values: object) -> Floats:
    """Return targets or one column as floats."""
    if _is_polars_column(values):
        values = cast("Any", values).to_list()
    if isinstance(values, list | tuple):
        return np.fromiter(map(_as_float, values), dtype=np.float64, count=len(values))
    if _is_column(values):
        return _from_column(values, "y")
    return _from_array(_as_array(values, "y"), "y")


def as_elements(values: object) -> list[Any] | NDArray[Any]:
    """Return a list of labels unchanged, and any array or column as an array of its declared type and dimension."""
    if issparse(values):
        raise TypeError("Sparse data was passed for y, but dense data is required. Use '.toarray()' to convert it.")
    if _is_polars_column(values):
        return cast("list[Any]", cast("Any", values).to_list())
    if isinstance(values, list | tuple):
        return list(values)
    if isinstance(values, str | bytes) or (not hasattr(values, "__array__") and not isinstance(values, Iterable)):
        raise InputError("y", "must be an array or a list with one entry per row of X")
    if _is_column(values):
        # Extension types have special missing values, which conversion to objects keeps.
        return np.asarray(cast("Any", values).astype(object), dtype=object)
    if not hasattr(values, "__array__"):
        return list(cast("Iterable[Any]", values))
    return _as_array(values, "y")


def one_column(values: list[Any] | NDArray[Any]) -> list[Any] | NDArray[Any]:
    """Return labels or targets in one dimension; flatten a single column, refuse any other shape."""
    if isinstance(values, list) or values.ndim == 1:
        return values
    if values.ndim == 2 and values.shape[1] == 1:
        message = "A column-vector y was passed when a 1d array was expected. Write y.ravel()."
        warnings.warn(message, DataConversionWarning, stacklevel=4)
        return values.ravel()
    raise InputError("y", f"must be a 1d array with one entry per row of X, got {values.ndim} dimensions")


def is_frame(X: object) -> bool:
    """Return whether ``X`` is a data frame of pandas or Polars, in which each column has a type."""
    return _is_polars(X) or (hasattr(X, "columns") and hasattr(X, "iloc") and hasattr(X, "dtypes"))


def take_rows(X: Any, places: Any) -> Any:
    """Return the rows of a data frame at these positions."""
    return X[places] if _is_polars(X) else X.iloc[places]


def count_columns(X: Any, declared: int | None) -> int:
    """Return the number of columns of an array, data frame or list of rows."""
    if is_frame(X):
        return len(list(X.columns))
    if isinstance(X, list | tuple):
        return int(_from_rows(X, declared).shape[1])
    array = _as_array(X, "X")
    if array.ndim != 2:
        raise InputError("X", f"Expected 2D array, got {array.ndim}D array instead. Reshape your data to rows.")
    return int(array.shape[1])


def column_values(X: Any, place: int, columns: int) -> list[Any] | NDArray[Any]:
    """Return one column of an array, data frame or list of rows, unconverted; None for a row of the wrong length."""
    if _is_polars(X):
        return cast("list[Any]", X.get_columns()[place].to_list())
    if is_frame(X):
        column = X.iloc[:, place]
        if column.dtype.kind in "Mm":
            raise InputError("X", f"has a column of the type {column.dtype}, which is no number; compute one from it")
        return np.asarray(column.astype(object), dtype=object)
    if isinstance(X, list | tuple):
        return [row[place] if _width(row) == columns else None for row in X]
    return _as_array(X, "X")[:, place]


def _is_polars(X: object) -> bool:
    return type(X).__module__.partition(".")[0] == "polars" and hasattr(X, "get_columns")


def _is_column(values: object) -> bool:
    """Return whether ``values`` is a column of a pandas data frame or a pandas extension array."""
    return type(values).__module__.partition(".")[0] == "pandas" and hasattr(values, "dtype") and not is_frame(values)


def _is_polars_column(values: object) -> bool:
    return type(values).__module__.partition(".")[0] == "polars" and hasattr(values, "to_list")


def _as_array(values: object, name: str) -> NDArray[Any]:
    if isinstance(values, np.ma.MaskedArray):
        # As objects, masked values are None.
        filled = np.empty(values.shape, dtype=object)
        filled[...] = np.ma.filled(values.astype(object), None)
        return filled
    if not isinstance(values, np.ndarray) and not hasattr(values, "__array__"):
        raise InputError(name, "must be an array, a data frame or a list")
    return np.asarray(values)


def _from_array(array: NDArray[Any], name: str) -> Floats:
    if array.dtype.kind == "c":
        raise InputError(name, "Complex data not supported: give real numbers")
    if array.dtype.kind in _NUMBERS:
        # A longer float may overflow a float64. A warning would reveal values, so none is shown.
        with np.errstate(all="ignore"):
            return cast("Floats", array.astype(np.float64))
    if array.dtype.kind not in _VALUES:
        raise InputError(name, f"has the type {array.dtype}, which is no number; compute one from it")
    flat = np.fromiter(map(_as_float, array.ravel().tolist()), dtype=np.float64, count=array.size)
    return cast("Floats", flat.reshape(array.shape))


def _from_frame(frame: Any) -> Floats:
    if _is_polars(frame):
        frame = _checked_polars(frame)
        read = [read_numbers(column.to_list()) for column in frame.get_columns()]
        return np.column_stack(read) if read else np.empty((len(frame), 0))
    for name, dtype in zip(frame.columns, frame.dtypes, strict=True):
        # Categories that are numbers are read as numbers.
        listed = getattr(dtype, "categories", None)
        _check_no_text(name, str(getattr(dtype if listed is None else listed.dtype, "name", dtype)))
    read = [_from_column(frame.iloc[:, place], "X") for place in range(frame.shape[1])]
    return np.column_stack(read) if read else np.empty((len(frame), 0))


def _checked_polars(frame: Any) -> Any:
    for name, kind in frame.schema.items():
        if kind.is_temporal() or kind.is_nested():
            raise InputError("X", f"has a column {name} of the type {kind}, which is no number; compute one from it")
        _check_no_text(name, str(kind))
    return frame


def _check_no_text(name: object, kind: str) -> None:
    """Refuse a column whose declared type is text: its values would all be the midpoint of their bounds."""
    if kind.lower().startswith(_TEXTS):
        raise InputError(
            "X", f"has a column {name} of the type {kind}; declare categories={{'{name}': [...]}}, or make it a number"
        )


def _from_column(column: Any, name: str) -> Floats:
    kind = getattr(column.dtype, "kind", "O")
    if kind in "Mm":
        raise InputError(name, f"has a column of the type {column.dtype}, which is no number; compute one from it")
    if isinstance(column.dtype, np.dtype):
        return _from_array(np.asarray(column), name)
    return _from_array(np.asarray(column.astype(object), dtype=object), name)


def _from_rows(rows: list[Any] | tuple[Any, ...], columns: int | None) -> Floats:
    # The width of most rows is that of the table: one row of another form does not decide it.
    widths = [_width(row) for row in rows]
    if columns is None:
        if not rows:
            raise InputError("X", "Expected 2D array, got an empty list: give an array of shape (0, columns)")
        most = Counter(widths)
        columns = max(most, key=lambda width: (most[width], width))
    if columns < 0:
        raise InputError("X", "Expected 2D array, got 1D array instead. Reshape your data to rows.")
    table = np.full((len(rows), columns), math.nan)
    for place, (row, width) in enumerate(zip(rows, widths, strict=True)):
        if width == columns:
            table[place] = [_as_float(value) for value in row]
    return table


def _width(row: Any) -> int:
    """Number of values in a row of a list; -1 for anything that is no row."""
    if isinstance(row, _NO_ROW):
        return -1
    try:
        return -1 if np.ndim(row) > 1 and not isinstance(row, list | tuple) else len(row)
    except Exception:
        return -1


def _as_float(value: object) -> float:
    """One value as a float; NaN for what is no number. Nothing it does can raise or warn."""
    if type(value) is float:
        return value
    if isinstance(value, complex | np.complexfloating):
        return float(value.real) if value.imag == 0 else math.nan
    if isinstance(value, np.ndarray | np.datetime64 | np.timedelta64):
        return math.nan
    try:
        with np.errstate(all="ignore"):
            return float(cast("float", value))
    except OverflowError:
        return _end(value)
    except Exception:
        return math.nan


def _end(value: object) -> float:
    """Return the largest float with the sign of a number too large for a float."""
    try:
        return _LARGEST if cast("int", value) > 0 else -_LARGEST
    except Exception:
        return math.nan


#: Value of ``classes`` that asks for a private selection of the labels instead of a declared list.
DISCOVER: Final = "discover"
#: Kinds of labels that can be discovered; ``bool`` comes first because it is a subclass of ``int``.
_KINDS: Final[dict[str, Any]] = {
    "truth value": bool,
    "number": (int, float),
    "text": str,
    "bytes": bytes,
    "complex": complex,
}
#: From here on floats do not represent every integer, and one missing label makes NumPy turn all labels into floats.
_LARGEST_NUMBER: Final = 1 << 53


def check_classes(classes: Iterable[Hashable] | None) -> NDArray[Any]:
    """Return the declared classes, sorted; refuse fewer than two, or labels of several kinds."""
    if classes is None or (isinstance(classes, str) and classes != DISCOVER):
        raise InputError(
            "classes", "must list the labels, which are public, or be 'discover' to have them chosen privately"
        )
    listed = [_plain(label) for label in check_iterable(classes, "classes", "a list of labels")]
    if len({_kind(label) for label in listed}) > 1 or not all(_is_label(label) for label in listed):
        raise InputError("classes", "must be labels of one kind: all text, or all numbers; neither None nor NaN")
    if any(_kind(label) == "number" and not abs(label) < _LARGEST_NUMBER for label in listed):
        raise InputError("classes", "holds a number of 2**53 or more, which floats cannot tell apart; write it as text")
    try:
        distinct = np.unique(np.asarray(listed))
    except TypeError:
        raise InputError("classes", "must be labels of one kind: all text, or all numbers") from None
    if len(distinct) != len(listed):
        raise InputError("classes", "lists a label twice")
    if len(distinct) < 2:
        raise InputError("classes", "must list at least two labels: with one class there is nothing to learn")
    return distinct


def read_labels(y: object) -> list[Any]:
    """Return the labels of all rows as plain Python values, without checking that they are labels."""
    elements = one_column(as_elements(y))
    return [_plain(label) for label in (elements if isinstance(elements, list) else elements.tolist())]


def discover_classes(
    labels: Iterable[object], *, epsilon: Number, delta: Number, relation: Relation
) -> tuple[NDArray[Any], ApproxEvent]:
    """Return the labels that enough rows have, sorted, selected by private partition selection, and its event.

    A label that no row has is never selected. The list may be empty or hold one label. Each row's label is normalised
    individually (a whole number is an int, whether it was given as 1, 1.0 or 1 + 0j), and the type of the array follows
    from the selected labels: no row decides the type of another row's label. Labels are truth values, numbers below
    2⁵³, text and bytes; a row with any other label is ignored.
    """
    selection = PartitionSelection(epsilon=epsilon, delta=delta, rule="truncated_geometric", relation=relation)
    counts: Counter[tuple[str, Hashable]] = Counter()
    counts.update(form for form in map(canonical_label, labels) if form is not None)
    found = sorted(selection.release({form: counts[form] for form in sorted(counts)}))
    event = ApproxEvent(exact_positive(epsilon, "epsilon"), selection.guarantee.delta, "classes", relation=relation)
    if len({kind for kind, _ in found}) <= 1:
        return np.array([label for _, label in found]), event
    mixed = np.empty(len(found), dtype=object)
    mixed[:] = [label for _, label in found]
    return mixed, event


def numbered(labels: Iterable[object], classes: NDArray[Any]) -> Integers:
    """Return the index of each label among the classes, -1 for any other label; never raises because of a label."""
    places: dict[object, int] = {label: place for place, label in enumerate(classes.tolist())}
    return np.array([places.get(label, -1) if _is_label(label) else -1 for label in labels], dtype=np.int64)


def _plain(label: object) -> Any:
    """Return a label as a plain Python value: a NumPy scalar, or the one value of an array or list, is unwrapped."""
    if (isinstance(label, list) and len(label) == 1) or (isinstance(label, np.ndarray) and label.shape == (1,)):
        label = label[0]
    return label.item() if isinstance(label, np.generic) else label


def _is_label(label: object) -> bool:
    """Return whether a value can be a label: it is hashable and equal to itself (NaN is not)."""
    try:
        hash(label)
        # The truth value of pandas.NA raises.
        return bool(label == label)
    except Exception:
        return False


def _kind(label: object) -> str:
    """Return the kind of a label. Labels of one kind can be sorted and never equal labels of another kind."""
    for name, kinds in _KINDS.items():
        if isinstance(label, kinds):
            return name
    return type(label).__name__


def canonical_label(label: object) -> tuple[str, Any] | None:
    """Return the kind and the normalised value of a label that may be discovered; None for any other value."""
    kind = _kind(label)
    if kind not in _KINDS or not _is_label(label):
        return None
    value: Any = label
    if kind == "complex":
        if value.imag:
            return None
        kind, value = "number", value.real
    if kind == "number":
        if not abs(value) < _LARGEST_NUMBER:
            return None
        value = int(value) if value == int(value) else float(value)
    # A subclass of str or bytes is reduced to plain str or bytes.
    return kind, str(value) if kind == "text" else bytes(value) if kind == "bytes" else value


#: Largest number of categories of one column; hash more of them into groups.
_MOST: int = 1 << 12


@dataclass(frozen=True)
class Categories:
    """Declaration of one categorical column: its categories, or the number of groups its values are hashed into.

    Attributes:
        size: number of categories or groups.
        listed: the categories; None where they are hashed.
    """

    size: int
    listed: tuple[Any, ...] | None = None

    @classmethod
    def read(cls, declared: object, column: str) -> Categories:
        """Return the checked declaration, given a list of categories or a number of groups."""
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
        """Return the index of each value's category, -1 for other; never raises because of a value."""
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
        said = [f"group {place}" for place in range(self.size)] if self.listed is None else map(str, self.listed)
        return [f"{column}={each}" for each in said]


@dataclass(frozen=True)
class Encoding:
    """Map from the columns of a table to the columns of a model.

    Attributes:
        pairs: bounds of each column, or None for a column of categories.
        declared: categories by index of the column, in order.
        one_hot: whether each category becomes one 0/1 column; otherwise categories are numbers, "other" the last.
    """

    pairs: tuple[Any, ...]
    declared: tuple[tuple[int, Categories], ...]
    one_hot: bool

    @classmethod
    def of(cls, categories: Any, bounds: Any, columns: int, names: Sequence[str] | None, *, one_hot: bool) -> Encoding:
        """Return the encoding that an estimator's arguments declare; names and number of columns are public."""
        if not isinstance(categories, Mapping):
            raise InputError("categories", "must give, by name or place of a column, its list of categories")
        stated = {_place(key, columns, names): (key, listed) for key, listed in categories.items()}
        if len(stated) != len(categories):
            raise InputError("categories", "describe a column twice")
        declared = tuple((place, Categories.read(each, str(key))) for place, (key, each) in sorted(stated.items()))
        return cls(_pairs(bounds, stated, columns, names), declared, one_hot)

    @classmethod
    def unnamed(cls, categories: Mapping[Any, Any], bounds: Any, columns: int, *, one_hot: bool) -> Encoding:
        """Return the encoding before names are known: columns in the order of their declaration, categories last."""
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
        """Bounds of each column of the model: declared bounds, or those of the category codes."""
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
        """Indices of the model's columns whose values are category numbers; none where categories are one-hot."""
        return () if self.one_hot else tuple(place for place, _ in self.declared)

    def read(self, X: Any) -> NDArray[np.float64]:
        """Return the columns of the model as floats, converted value by value."""
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
