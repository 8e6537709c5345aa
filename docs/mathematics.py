"""MkDocs hook: formulas between dollar signs become MathML, which browsers draw without a script or a network."""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert

#: Code is left alone: fences, then code within a line.
_CODE = re.compile(r"(^```.*?^```$|`[^`\n]*`)", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^\$\$(.+?)\$\$$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"(?<![\\$\w])\$(?=[^\s$])([^$]+?)(?<=[^\s$])\$(?![\d$])")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Convert the formulas of a page, outside of code."""
    return "".join(part if i % 2 else _converted(part) for i, part in enumerate(_CODE.split(markdown)))


def _converted(text: str) -> str:
    text = _BLOCK.sub(lambda part: f"\n<div class='formula'>{convert(part[1].strip(), display='block')}</div>\n", text)
    # A line that begins with a formula would be read as a block of its own without the element around it.
    return _INLINE.sub(lambda found: f"<span>{convert(found[1])}</span>", text)
