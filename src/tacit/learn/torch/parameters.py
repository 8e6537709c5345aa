"""The trained parameters of a model as one long vector, and a noisy gradient back to them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.learn.torch.torch_import import Tensor, torch


class Parameters:
    """Some parameters of a model, by name and in order.

    Args:
        model: the network.
        names: of the parameters that are trained.
    """

    def __init__(self, model: Any, names: list[str]) -> None:
        self.model, self.names = model, names

    def detached(self, *, copied: bool = True) -> dict[str, Tensor]:
        """Their values now, outside of any graph, as copies: what a pass over rows does to them is forgotten."""
        return {name: _value(parameter, copied) for name, parameter in self._trained.items()}

    def others(self, *, copied: bool = True) -> dict[str, Tensor]:
        """The parameters that are not trained, and the buffers; as copies likewise."""
        return {name: _value(each, copied) for name, each in (self._kept | dict(self.model.named_buffers())).items()}

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Count of numbers of each."""
        return {name: parameter.numel() for name, parameter in self._trained.items()}

    @property
    def dimension(self) -> int:
        """Total number of parameters."""
        return sum(self.sizes.values())

    @property
    def device(self) -> Any:
        """Device of the parameters."""
        return next(iter(self._trained.values())).device

    def give(self, gradient: NDArray[np.float64], unit: float) -> None:
        """Give each its part of a noisy gradient, which is in steps of ``unit``."""
        flat, start = torch.from_numpy(gradient), 0
        # Converted at once for all parameters of a kind; a copy in any case, so that what was released stays unchanged.
        kinds = {(parameter.device, parameter.dtype) for parameter in self._trained.values()}
        every = {kind: flat.to(device=kind[0], dtype=kind[1], copy=True).mul_(unit) for kind in kinds}
        for parameter in self._trained.values():
            own = every[parameter.device, parameter.dtype][start : start + parameter.numel()]
            parameter.grad = own.view(parameter.shape)
            start += parameter.numel()

    @cached_property
    def _trained(self) -> dict[str, Tensor]:
        # Parameters stay the same objects when a model is moved or loads a state.
        every = dict(self.model.named_parameters())
        return {name: every[name] for name in self.names}

    @cached_property
    def _kept(self) -> dict[str, Tensor]:
        return {name: each for name, each in self.model.named_parameters() if name not in self.names}


def _value(tensor: Tensor, copied: bool) -> Tensor:
    return tensor.detach().clone() if copied else tensor.detach()
