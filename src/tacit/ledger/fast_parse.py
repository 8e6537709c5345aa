"""Fast-path parsing of reserve and commit entries.

A text that has exactly the shape of a canonical entry is canonical if the objects within it are, and those are mostly
the same from charge to charge. What does not have the shape, or is not plain, is read by
:func:`tacit.ledger.entries.parse`; so a glance may overlook an entry, and never takes one for another.

*Why.* The shapes name every key, in order, without spaces, and admit printable ASCII alone. A string in them holds no
quotation mark and no backslash but in the escapes that :mod:`json` writes with one letter, so reading it and writing it
again gives the same. An object in them is cut out by the words around it and must be canonical by itself; if the cut
was made in the wrong place, what was cut out is no object.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Commit", "ParsedCharge", "glance"]

#: Printable ASCII without the quotation mark and the backslash, as it is; and with the short escapes.
_PLAIN = r"[ !#-\[\]-~]*"
_TEXT = rf'{_PLAIN}(?:\\["\\bfnrt]{_PLAIN})*'
_OBJECT = r"\{[ -~]*?\}"
_DIGEST = "[0-9a-f]{64}"

_CHARGE = re.compile(
    rf'\{{"amounts":({_OBJECT}),"analyst":"({_PLAIN})","event":({_OBJECT}),"key":"({_PLAIN})","kind":"reserve",'
    rf'"plan":"{_TEXT}","population":"({_PLAIN})","project":"({_PLAIN})","quote":({_OBJECT}),"repeat":"({_PLAIN})",'
    rf'"request":"{_TEXT}","sql":"{_TEXT}","time":"{_TEXT}"\}}'
)
_COMMIT = re.compile(
    rf'\{{(?:"key":"({_PLAIN})",)?"kind":"commit","of":([1-9][0-9]{{0,17}}),'
    rf'"papers":\{{"receipt":"({_DIGEST})","result":"({_DIGEST})"\}},"time":"{_TEXT}"\}}'
)


class ParsedCharge(NamedTuple):
    """An entry of kind ``reserve``; amounts, event and quote are texts of objects that nobody has looked at yet."""

    amounts: str
    analyst: str
    event: str
    key: str
    population: str
    project: str
    quote: str
    repeat: str


class Commit(NamedTuple):
    """An entry of kind ``commit``; ``key`` is empty where none is named."""

    key: str
    of: str
    receipt: str
    result: str


def glance(text: str) -> ParsedCharge | Commit | None:
    """A charge or an outcome, if the text has the shape of one.

    A :class:`ParsedCharge` is only what it seems if its amounts, event and quote are canonical:
    :func:`tacit.ledger.entries.is_canonical`.
    """
    if text.startswith('{"amounts"'):
        found = _CHARGE.fullmatch(text)
        return None if found is None else ParsedCharge(*found.groups())
    found = _COMMIT.fullmatch(text)
    return None if found is None else Commit(*found.groups(""))
