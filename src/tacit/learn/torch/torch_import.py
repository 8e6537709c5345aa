"""Import of PyTorch, with a clear message where it is missing.

PyTorch is taken without its types, so that type checking gives the same result whether it is installed or not.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tacit.core.errors import InputError

__all__ = ["MissingError", "Tensor", "load", "torch"]

#: A torch.Tensor, a torch.nn.Module and so on: names for readers.
Tensor = Any


class MissingError(InputError, ModuleNotFoundError):
    """PyTorch is not installed; what tries an import to see whether it can be had, takes it for an ordinary no."""


def load(name: str = "torch") -> Any:
    """The module of this name, or a refusal that says what to install."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise MissingError("torch", "is not installed; networks need it: pip install 'tacit[torch]'") from None


torch = load()
