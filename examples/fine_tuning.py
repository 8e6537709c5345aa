"""A network trained on public rows, fine-tuned on private ones by small low-rank matrices (LoRA)."""

import math

import torch
from torch import nn

from tacit.learn.torch import PrivateTrainer


class LowRank(nn.Module):
    """A frozen linear layer plus a product of two thin matrices, the only ones that are trained."""

    def __init__(self, frozen: nn.Linear, rank: int) -> None:
        super().__init__()
        self.frozen = frozen.requires_grad_(False)
        self.down = nn.Linear(frozen.in_features, rank, bias=False)
        self.up = nn.Linear(rank, frozen.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """The frozen layer's output, moved by the low-rank part."""
        return self.frozen(features) + self.up(self.down(features))


def rows(count: int, turn: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Points in eight dimensions; a line through two of them, turned by an angle, divides the classes."""
    features = torch.randn(count, 8)
    score = math.cos(turn) * features[:, 0] + math.sin(turn) * features[:, 1]
    return features, (score > 0).long()


def accuracy(model: nn.Module, features: torch.Tensor, classes: torch.Tensor) -> float:
    """Share of rows whose class is right."""
    return float((model(features).argmax(1) == classes).float().mean())


def main() -> None:
    """Train on public rows, fine-tune on private ones; needs the extra "torch"."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 2))
    loss, public = nn.CrossEntropyLoss(), rows(2000, turn=0.0)
    optimizer: torch.optim.Optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(100):
        optimizer.zero_grad()
        loss(model(public[0]), public[1]).backward()
        optimizer.step()

    private, test = rows(2000, turn=0.9), rows(1000, turn=0.9)
    print(f"before: {accuracy(model, *test):.2f} right on rows like the private ones")
    tuned = nn.Sequential(LowRank(model[0], 4), nn.Tanh(), LowRank(model[2], 2))
    trained = [parameter for parameter in tuned.parameters() if parameter.requires_grad]
    print(sum(each.numel() for each in trained), "of", sum(each.numel() for each in tuned.parameters()), "are trained")
    trainer = PrivateTrainer(
        tuned,
        loss,
        torch.optim.SGD(trained, lr=1.0, momentum=0.5),
        epsilon=2,
        delta="1e-5",
        n=2000,
        batch_size=200,
        epochs=4,
    )
    trainer.fit(*private)
    print(f"after:  {accuracy(tuned, *test):.2f}, at {trainer.guarantee_!r}")


if __name__ == "__main__":
    main()
