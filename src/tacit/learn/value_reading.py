"""Reading of tables to floats, value by value, without errors that depend on a value.

NumPy gives a list one type for all its values, so that one text among numbers turns every number into text. Here the
type of an array or of a frame's column is public, as its declaration is, and may be refused; everything else is read
one value at a time, by one rule:

* a number (also a Decimal, a Fraction, a truth value, and text that Python's ``float`` reads) is that number, cut to
  the largest float if it is larger;
* everything else (None, NaN, NA, dates, lists, complex numbers, other text) is NaN, which counts as the midpoint of
  the bounds;
* a row of a list that does not have as many values as rows have is a row of NaN.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.learn.sklearn_compat import DataConversionWarning, issparse

Floats = NDArray[np.float64]

_LARGEST: Final = sys.float_info.max
#: Kinds of NumPy types that are numbers by themselves, those that are read value by value; others are refused.
_NUMBERS: Final = "buif"
_VALUES: Final = "OUS"
#: Beginnings of names of types of a frame's column that hold text.
_TEXTS: Final = ("str", "utf8", "large_string", "categor", "enum")
#: Types of a row of a list; a mapping or a set has no order, and a text is one value.
_NO_ROW: Final = (str, bytes, bytearray, Mapping, set, frozenset)


def read_table(X: object, columns: int | None = None) -> Floats:
    """The features as floats, one row each.

    Args:
        X: an array, a frame, or a list of rows.
        columns: how many there are, if that is declared; otherwise most rows of a list decide.
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
    """Targets or one column as floats."""
    if _is_polars_column(values):
        values = cast("Any", values).to_list()
    if isinstance(values, list | tuple):
        return np.fromiter(map(_as_float, values), dtype=np.float64, count=len(values))
    if _is_column(values):
        return _from_column(values, "y")
    return _from_array(_as_array(values, "y"), "y")


def as_elements(values: object) -> list[Any] | NDArray[Any]:
    """A list of labels unchanged, and everything else as an array of the type it declares, of any dimension."""
    if issparse(values):
        raise TypeError("Sparse data was passed for y, but dense data is required. Use '.toarray()' to convert it.")
    if _is_polars_column(values):
        return cast("list[Any]", cast("Any", values).to_list())
    if isinstance(values, list | tuple):
        return list(values)
    if isinstance(values, str | bytes) or (not hasattr(values, "__array__") and not isinstance(values, Iterable)):
        raise InputError("y", "must be an array or a list with one entry per row of X")
    if _is_column(values):
        # Extension types have missing values of their own; as objects they stay what they are.
        return np.asarray(cast("Any", values).astype(object), dtype=object)
    if not hasattr(values, "__array__"):
        return list(cast("Iterable[Any]", values))
    return _as_array(values, "y")


def one_column(values: list[Any] | NDArray[Any]) -> list[Any] | NDArray[Any]:
    """Labels or targets in one dimension: a column is taken for a list, and other shapes are refused."""
    if isinstance(values, list) or values.ndim == 1:
        return values
    if values.ndim == 2 and values.shape[1] == 1:
        message = "A column-vector y was passed when a 1d array was expected. Write y.ravel()."
        warnings.warn(message, DataConversionWarning, stacklevel=4)
        return values.ravel()
    raise InputError("y", f"must be a 1d array with one entry per row of X, got {values.ndim} dimensions")


def is_frame(X: object) -> bool:
    """Whether it is a table whose columns have types of their own, as those of pandas and Polars are."""
    return _is_polars(X) or (hasattr(X, "columns") and hasattr(X, "iloc") and hasattr(X, "dtypes"))


def take_rows(X: Any, places: Any) -> Any:
    """Some rows of a frame."""
    return X[places] if _is_polars(X) else X.iloc[places]


def count_columns(X: Any, declared: int | None) -> int:
    """Number of columns of a table of any kind."""
    if is_frame(X):
        return len(list(X.columns))
    if isinstance(X, list | tuple):
        return int(_from_rows(X, declared).shape[1])
    array = _as_array(X, "X")
    if array.ndim != 2:
        raise InputError("X", f"Expected 2D array, got {array.ndim}D array instead. Reshape your data to rows.")
    return int(array.shape[1])


def column_values(X: Any, place: int, columns: int) -> list[Any] | NDArray[Any]:
    """One column of a table of any kind, its values as they are; None in a row of another length."""
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
    """A column of such a table, or one of its extension arrays."""
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
        # A longer float may be too large for a float64; the values decide that, so nothing is said of it.
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
    """A number beyond all floats, cut to the last one on its side."""
    try:
        return _LARGEST if cast("int", value) > 0 else -_LARGEST
    except Exception:
        return math.nan
