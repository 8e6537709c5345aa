"""Untrusted text in files and on screens: no spreadsheet formula, no escape sequence.

A group key or a column name may be any text. A spreadsheet evaluates a cell that begins with ``=``, and a terminal
obeys control characters, so text is made harmless before it is written to a file or a screen.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from tacit.core.extras import load_arrow

#: Characters that begin a formula in some spreadsheet, full-width forms included.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
#: Control characters, except those that end a line or a cell; also byte order marks, which readers remove, and marks
#: that change the direction of writing.
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff]")
#: Those of them that ``json.dumps`` does not escape, and line separators.
_RAW_IN_JSON: Final = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff]")


def visible(text: str) -> str:
    """Return text for a terminal: every unprintable character except a line end becomes a dot."""
    return "".join(sign if sign.isprintable() or sign == "\n" else "·" for sign in text)


def tame(value: Any) -> Any:
    r"""Return the value of a CSV cell: an apostrophe goes before a formula, and control characters become dots.

    >>> tame("=1+1"), tame("a\x1b[31m"), tame(-1)
    ("'=1+1", 'a·[31m', -1)
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return value
    # Some spreadsheets strip spaces before they look for a formula.
    formula = value.startswith(_FORMULA) or value.lstrip().startswith(_FORMULA)
    text = f"'{value}" if formula else value
    return _CONTROL.sub("·", text)


def csv_text(names: Sequence[str], rows: Iterable[Sequence[Any]], *, separator: str = ",") -> str:
    """Return rows as CSV text, or as text with another separator."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=separator, lineterminator="\n")
    writer.writerow(map(tame, names))
    writer.writerows(map(tame, row) for row in rows)
    return text.getvalue()


def table_bytes(table: Any, form: str) -> bytes:
    """Return the content of a ``"parquet"`` or ``"csv"`` file with an Arrow table."""
    if form == "parquet":
        sent = io.BytesIO()
        load_arrow("pyarrow.parquet").write_table(table, sent)
        return sent.getvalue()
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return csv_text(table.column_names, rows).encode("utf-8", "replace")


def json_line(content: object) -> str:
    """Return JSON on one line, safe for a terminal; values without a JSON form (fractions, dates) become text."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, default=str)
    return _RAW_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class ScriptEncoder(json.JSONEncoder):
    """JSON encoder for a page's script: no text can end the script or begin another one."""

    def encode(self, o: Any) -> str:
        """Return JSON with <, > and & as Unicode escapes."""
        text = super().encode(o)
        return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def replace_file(path: Path, content: bytes) -> Path:
    """Write a file atomically: whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_bytes(content)
    return draft.replace(path)
