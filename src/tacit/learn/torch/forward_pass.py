"""Settings of the pass that computes the loss of one example: views, and half precision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tacit.core.errors import InputError
from tacit.core.numbers import check_count
from tacit.learn.torch.torch_import import Tensor, torch


@dataclass(frozen=True)
class ForwardPass:
    """Settings of the pass that computes the loss of one example.

    Args:
        augment: makes a view of the features of one row; None for the row unchanged.
        views: how many views are averaged.
        half: whether passes are in bfloat16 where autocast allows it. Whole numbers are made, and their norm checked,
            after the passes and as ever.
    """

    augment: Callable[[Tensor], Tensor] | None = None
    views: int = 1
    half: bool = False

    @classmethod
    def checked(cls, augment: Any, views: int, precision: str | None) -> ForwardPass:
        """The settings as a trainer takes them."""
        count = check_count(views, "views", maximum=1024)
        if augment is not None and not callable(augment):
            raise InputError("augment", "must be a function from the features of one row to another view of them")
        if augment is None and count > 1:
            raise InputError("views", "needs augment, a function that makes another view of a row; else all are equal")
        if precision not in (None, "float32", "bfloat16"):
            raise InputError("precision", 'must be "bfloat16", or left out; float16 would need scaling of losses')
        return cls(augment, count, precision == "bfloat16")

    def features(self, row: Tensor) -> Tensor:
        """Input of the network: all views of a row, as a batch."""
        if self.augment is None:
            return row.unsqueeze(0)
        return torch.stack([self.augment(row) for _ in range(self.views)])

    def autocast(self, device: Any) -> Any:
        """Context of the pass."""
        return torch.autocast(device.type, dtype=torch.bfloat16, enabled=self.half)
