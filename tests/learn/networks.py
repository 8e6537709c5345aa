"""Small networks and tables for the tests of the torch trainer."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from tacit.learn.torch import PrivateTrainer

KINDS = ("stack", "any")


def table(rows: int = 48, columns: int = 6, classes: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    made = np.random.default_rng(11)
    X = made.normal(size=(rows, columns))
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5) * (classes > 2)
    return torch.tensor(X, dtype=torch.float32), torch.tensor(y)


def stack(columns: int = 6, classes: int = 3, width: int = 7) -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(columns, width), nn.Tanh(), nn.Linear(width, classes))


class Wrapped(nn.Module):
    """The same network by hand, where the trainer cannot see layers: all gradients are materialised."""

    def __init__(self, inside: nn.Module) -> None:
        super().__init__()
        self.inside = inside

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        here = features
        for layer in self.inside:  # type: ignore[attr-defined]
            here = here @ layer.weight.T + layer.bias if type(layer) is nn.Linear else layer(here)
        return here


def network(kind: str) -> nn.Module:
    return stack() if kind == "stack" else Wrapped(stack())


def trainer(model: nn.Module, **changes: Any) -> PrivateTrainer:
    settings: dict[str, Any] = {"epsilon": 2, "delta": "1e-3", "n": 48, "batch_size": 12, "steps": 5}
    optimizer = changes.pop("optimizer", None) or torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    loss = changes.pop("loss", None) or nn.CrossEntropyLoss()
    return PrivateTrainer(model, loss, optimizer, **(settings | changes))


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])
