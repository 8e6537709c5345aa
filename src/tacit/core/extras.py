"""Optional packages: importing them, and the command that installs them."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from tacit.core.errors import InputError

#: Name of this package on the package index; its module and its command are called ``tacit``.
DISTRIBUTION: Final = "tacit-dp"


class MissingError(InputError, ModuleNotFoundError):
    """An optional package is not installed; code that tries an import can catch it as ImportError."""


def install_command(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def load_frames(module: str, package: str = "") -> Any:
    """Import a dataframe library, which belongs to no extra: people bring their own.

    Args:
        module: name of the module.
        package: its name on the package index, if that differs.

    Raises:
        MissingError: it is not installed; the message has the command to type.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as missing:
        if missing.name != module:
            raise
        raise MissingError(module, f"is not installed: pip install {package or module}") from None


def load(module: str, extra: str, use: str) -> Any:
    """Import a module of an extra.

    Args:
        module: name of the module.
        extra: the extra that installs it.
        use: subject of the message: "charts", "networks".

    Raises:
        MissingError: it is not installed; the message has the command to type.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as missing:
        top = module.partition(".")[0]
        if missing.name is not None and missing.name.partition(".")[0] != top:
            raise
        raise MissingError(top, f"is not installed; {use} need it: {install_command(extra)}") from None


@cache
def has_arrow() -> bool:
    """Return whether Arrow is installed; if so, DuckDB returns its columns as Arrow arrays."""
    try:
        return find_spec("pyarrow") is not None
    except ImportError:
        return False


def load_arrow(module: str = "pyarrow") -> Any:
    """Import Arrow, or a module of it.

    Raises:
        MissingError: it is not installed; the message has the command to type.
    """
    return load(module, "arrow", "Arrow tables, frames as sources and Parquet files of answers")
