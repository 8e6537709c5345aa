"""Bugs of readers: one row decides how the rows of others are read."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from typing import Any

from audit.museum.exhibit import Piece
from tacit.audit.replay import ReplayReport
from tacit.audit.search import replay_neighbours
from tacit.mechanisms.laplace import Laplace

#: Lines of a file: a person and a note. One note has an unclosed quote.
_LINES = ['1,"fever', "2,well", "3,well", "4,well", "5,well"]
#: Values of a column, one per person.
_WARDS = ["1", "01", "1", "x", "001"]
#: Bytes of a text, one per person; most are not UTF-8.
_TEXTS = [b"\xff", b"\xfe", b"\xfe", b"\xfe", b"a"]


def lines_together(lines: Sequence[str]) -> int:
    """A count for ε = 1 of the rows of a CSV file, read as one text: a quote that is open takes the lines after it."""
    rows = [row for row in csv.reader("\n".join(lines).splitlines(keepends=True)) if len(row) == 2]
    return Laplace(epsilon=1, l1_sensitivity=1).release(len(rows))


def lines_one_by_one(lines: Sequence[str]) -> int:
    """Corrected: every line is read by itself; one that cannot be split is left out."""
    return Laplace(epsilon=1, l1_sensitivity=1).release(sum(_is_row(line) for line in lines))


def type_of_all(wards: Sequence[str]) -> list[int]:
    """Counts of the wards 1 and 01 for ε = 1; the column is one of numbers if all of its values are."""
    numeric = all(ward.isdigit() for ward in wards)
    read = [str(int(ward)) if numeric else ward for ward in wards]
    return Laplace(epsilon=1, l1_sensitivity=1).release([read.count("1"), read.count("01")])


def type_as_declared(wards: Sequence[str]) -> list[int]:
    """Corrected: every value is read as the number that the owner declares, or as nothing."""
    read = [str(int(ward)) if ward.isdigit() else None for ward in wards]
    return Laplace(epsilon=1, l1_sensitivity=1).release([read.count("1"), read.count("01")])


def keys_overwritten(texts: Sequence[bytes]) -> list[int]:
    """Counts of the texts a and U+FFFD for ε = 1: grouped as bytes, decoded, and the last count stays."""
    counts: dict[str, int] = {}
    for text in sorted(set(texts)):
        counts[text.decode(errors="replace")] = list(texts).count(text)
    return Laplace(epsilon=1, l1_sensitivity=1).release([counts.get("a", 0), counts.get("\ufffd", 0)])


def keys_decoded_first(texts: Sequence[bytes]) -> list[int]:
    """Corrected: texts are decoded before they are grouped."""
    read = [text.decode(errors="replace") for text in texts]
    return Laplace(epsilon=1, l1_sensitivity=1).release([read.count("a"), read.count("\ufffd")])


def _is_row(line: str) -> bool:
    try:
        return len(next(csv.reader([line], strict=True))) == 2
    except csv.Error:
        return False


def _replayed(function: Callable[[Any], Any], database: Sequence[Any]) -> Callable[[], Sequence[ReplayReport]]:
    return lambda: replay_neighbours(function, list(database), claimed=1)


PIECES = (
    Piece(
        name="unclosed-quote",
        title="a quote that swallows the lines after it",
        story="A CSV file was read as one text, so a quote that one line opened and did not close made all lines up to "
        "the next quote part of that line. One person's note removed hundreds of others from the count.",
        seen_in="an earlier state of Tacit; most readers of CSV",
        tool="replay",
        flawed=_replayed(lines_together, _LINES),
        mended=_replayed(lines_one_by_one, _LINES),
    ),
    Piece(
        name="type-of-all-values",
        title="a type taken from the data",
        story="The names of folders were numbers, so the column was read as one of numbers, where 01 is 1. With one "
        "person in a folder called x it was a column of texts, and every person's key changed.",
        seen_in="an earlier state of Tacit on Spark, whose partition columns are inferred",
        tool="replay",
        flawed=_replayed(type_of_all, _WARDS),
        mended=_replayed(type_as_declared, _WARDS),
    ),
    Piece(
        name="keys-that-decode-alike",
        title="two keys for the database, one for its reader",
        story="Texts that are not UTF-8 were different keys in the database and the same one after decoding, so the "
        "count of the last of them took the place of the others.",
        seen_in="an earlier state of Tacit on Spark",
        tool="replay",
        flawed=_replayed(keys_overwritten, _TEXTS),
        mended=_replayed(keys_decoded_first, _TEXTS),
    ),
)
