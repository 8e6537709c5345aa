"""Expansion of ``${NAME}`` in addresses from the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from tacit.core.errors import InputError

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def fill(text: str, spelled: Callable[[str], str] = str) -> str:
    """The text with variables of the environment put in, each as ``spelled`` writes it.

    Raises:
        InputError: one of them is not set. It is named; the text is not quoted.
    """

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in os.environ:
            raise InputError("engine", f"needs the environment variable {name}, which is not set")
        return spelled(os.environ[name])

    return _VARIABLE.sub(value, text)
