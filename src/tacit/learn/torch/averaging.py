"""Exponential moving average of the weights of a network: post-processing of released parameters."""

from __future__ import annotations

import copy
from typing import Any

from tacit.core.numbers import Number, exact_probability, float_nearest
from tacit.learn.torch.torch_import import torch


class WeightAverage:
    """A copy of a model whose weights follow those of the model slowly.

    Early averages give new weights more room, (1 + t)/(10 + t) instead of the decay where that is smaller, so that the
    starting weights are soon forgotten.

    Args:
        model: the network.
        decay: how much of the average stays in a step, between 0 and 1.
    """

    def __init__(self, model: Any, decay: Number) -> None:
        self._decay = float_nearest(exact_probability(decay, "ema"))
        self._seen = 0
        self.model = copy.deepcopy(model)
        self.model.requires_grad_(False)

    def begin(self, model: Any) -> None:
        """Start from the weights of ``model``."""
        self.model.load_state_dict(model.state_dict())

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def update(self, model: Any) -> None:
        """Move towards the weights of ``model``, and take its buffers."""
        decay = min(self._decay, (1 + self._seen) / (10 + self._seen))
        self._seen += 1
        for average, now in zip(self.model.parameters(), model.parameters(), strict=True):
            average.lerp_(now, 1 - decay)
        for average, now in zip(self.model.buffers(), model.buffers(), strict=True):
            average.copy_(now)
