"""Schema inference for a new project: unit, types and categories.

A guess is only ever offered to the owner of the data, who sees the rows anyway. Names and Parquet schemas are public;
whatever comes from rows is marked so, and nothing of it is written down unasked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: Number of rows that are read.
SAMPLE_ROWS: Final = 1000
#: A column with more different values than this is not offered as categories.
_MOST_CATEGORIES = 30
_MOST_DIGITS = 6

_PERSONS = ("patient", "person", "people", "user", "customer", "client", "member", "employee", "student", "subject",
            "participant", "citizen", "resident", "household", "respondent", "account", "owner", "visitor", "pupil",
            "worker", "staff", "tenant", "donor", "voter", "driver", "rider", "passenger", "player")  # fmt: skip
_WHOLE = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})\Z")
_POINT = re.compile(r"[+-]?(0|[1-9][0-9]{0,11})\.([0-9]+)\Z")
NUMBER: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?\Z")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?\Z")
_TRUTH = frozenset({"true", "false", "yes", "no"})


@dataclass(frozen=True)
class TypeGuess:
    """A type in the words of a project file; ``step`` for decimals."""

    type: str
    step: str | None = None


def guess_unit(names: Iterable[str]) -> str | None:
    """The column whose name says that it names a person, if one does: ``patient_id`` before ``id``."""
    names = list(names)
    for person in _PERSONS:
        for ending in ("_id", "id", "_no", "_number", "_key", ""):
            wanted = f"{person}{ending}"
            found = next((name for name in names if name.lower().replace("-", "_") == wanted), None)
            if found is not None:
                return found
    return next((name for name in names if name.lower() in ("id", "uid", "uuid", "pid", "ssn")), None)


def guess_type(values: Sequence[str | None]) -> TypeGuess | None:
    """The narrowest type that all texts can be read as; None when there is nothing to go by."""
    texts = [text.strip(" ") for text in values if text is not None and text.strip(" ")]
    if not texts:
        return None
    if all(text.lower() in _TRUTH for text in texts):
        return TypeGuess("boolean")
    if all(map(_WHOLE.match, texts)):
        return TypeGuess("integer")
    points = [_POINT.match(text) for text in texts]
    if all(point or _WHOLE.match(text) for point, text in zip(points, texts, strict=True)):
        digits = max(len(point.group(2)) for point in points if point)
        return TypeGuess("decimal", f"{10**-digits:.{digits}f}") if digits <= _MOST_DIGITS else TypeGuess("double")
    # Zeros in front are part of a code, not of a number.
    if all(map(NUMBER.match, texts)) and not any(re.match(r"[+-]?0[0-9]", text) for text in texts):
        return TypeGuess("double")
    if all(map(_DATE.match, texts)):
        return TypeGuess("date")
    return TypeGuess("timestamp" if all(map(_TIME.match, texts)) else "text")


def guess_categories(values: Sequence[str | None]) -> list[str] | None:
    """The different texts of a column, sorted, if they are few and come again and again."""
    texts = [text for text in values if text]
    different = sorted(set(texts))
    few = 2 <= len(different) <= _MOST_CATEGORIES and 5 * len(different) <= len(texts)
    return different if few else None


def read_sample(path: Path, names: Sequence[str]) -> dict[str, list[str | None]]:
    """The first rows of a Parquet file, each value as text and each column by its name. This reads data."""
    from tacit.engines.parquet_files import first_rows

    rows = first_rows(path, names, SAMPLE_ROWS)
    return {name: [None if value is None else str(value) for value in rows.get(name, [])] for name in names}
