"""Import of PyTorch, with a clear message where it is missing.

PyTorch is taken without its types, so that type checking gives the same result whether it is installed or not.
"""

from __future__ import annotations

from typing import Any

from tacit.core import extras

__all__ = ["Tensor", "load", "torch"]

#: A torch.Tensor, a torch.nn.Module and so on: names for readers.
Tensor = Any


def load(name: str = "torch") -> Any:
    """The module of this name, or a refusal with the command that installs it."""
    return extras.load(name, "torch", "networks")


torch = load()
