"""Names of tables, columns and populations."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_name"]

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}\Z")


def is_name(text: str) -> bool:
    """Whether a table, a column or a population can be called so."""
    return _NAME.match(text) is not None
