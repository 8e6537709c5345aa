"""Steps per second of private training, Tacit beside Opacus and beside plain torch, in one run.

    .venv/bin/python benchmarks/learn_torch.py [--rounds 5] [--seconds 2] [--threads 1] [--brief]
    .venv/bin/python benchmarks/learn_torch.py --accuracy | --memory | --split | --exactness

The same network, rows, expected batch and optimizer for everyone; Poisson samples, per-example clipping, noise and
update included. Contenders take turns, and processor time is counted, so that a busy machine changes little; the median
of the rounds is shown, and the smallest and largest. Opacus draws its samples and noise from torch's generator
(``secure_mode`` off), Tacit exact noise from the operating system. ``--accuracy`` trains on the digits of scikit-learn
instead, and ``--memory`` takes the largest
resident size of a fresh process for each contender, and of a second training in it; ``--split`` shows which parts of a
step of Tacit take how long, and ``--exactness`` how fast steps are with exactness taken out piece by piece: noise of
torch's generator, then sums of floats that are neither whole numbers nor checked. With ``--wall`` time is that of the
clock, for several threads. Prints Markdown.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

if importlib.util.find_spec("torch") is None or importlib.util.find_spec("opacus") is None:
    print("left out: needs the extras torch and bench (make bench)")
    raise SystemExit(0)

import torch
from torch import nn

ROWS, BATCH, VOCABULARY = 5000, 256, 2000
#: Takes this many steps when called.
Contender = Callable[[int], None]
#: Makes a network and says what shape its rows have.
Make = Callable[[], tuple[nn.Module, tuple[int, ...]]]


def perceptron() -> tuple[nn.Module, tuple[int, ...]]:
    """64 inputs, 128 hidden units, 10 classes: 9,610 parameters."""
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)), (64,)


def deep() -> tuple[nn.Module, tuple[int, ...]]:
    """784 inputs, two hidden layers: 235,146 parameters."""
    layers = [nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)]
    return nn.Sequential(*layers), (784,)


def normalised() -> tuple[nn.Module, tuple[int, ...]]:
    """The first perceptron with a normalisation: 9,866 parameters."""
    return nn.Sequential(nn.Linear(64, 128), nn.LayerNorm(128), nn.ReLU(), nn.Linear(128, 10)), (64,)


def images() -> tuple[nn.Module, tuple[int, ...]]:
    """A convolution with group normalisation: 1,642 parameters."""
    layers = [nn.Conv2d(1, 16, 3), nn.GroupNorm(4, 16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(144, 10)]
    return nn.Sequential(*layers), (1, 8, 8)


def photographs() -> tuple[nn.Module, tuple[int, ...]]:
    """Two convolutions on 32x32 pixels of three colours: 60,554 parameters."""
    first = [nn.Conv2d(3, 32, 3, padding=1), nn.GroupNorm(8, 32), nn.ReLU(), nn.MaxPool2d(2)]
    second = [nn.Conv2d(32, 64, 3, padding=1), nn.GroupNorm(8, 64), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(4096, 10)), (3, 32, 32)


class Words(nn.Module):
    """A mean of 32 words' vectors and a linear layer: 128,650 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.last = nn.Embedding(VOCABULARY, 64), nn.Linear(64, 10)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Class scores."""
        found: torch.Tensor = self.last(self.words(words).mean(1))
        return found


class Block(nn.Module):
    """Words, one block of attention with two normalisations, and a linear layer: 178,634 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.last = nn.Embedding(VOCABULARY, 64), nn.Linear(64, 10)
        self.before, self.between = nn.LayerNorm(64), nn.LayerNorm(64)
        self.projected, self.joined = nn.Linear(64, 192), nn.Linear(64, 64)
        self.rise, self.fall = nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Class scores."""
        here = self.words(words)
        count, length, width = here.shape
        query, key, value = self.projected(self.before(here)).reshape(count, length, 3, 4, 16).permute(2, 0, 3, 1, 4)
        attended = torch.softmax(query @ key.transpose(-2, -1) / 4, dim=-1) @ value
        here = here + self.joined(attended.transpose(1, 2).reshape(count, length, width))
        here = here + self.fall(torch.relu(self.rise(self.between(here))))
        found: torch.Tensor = self.last(here.mean(1))
        return found


NETWORKS: dict[str, Make] = {
    "perceptron 64-128-10": perceptron,
    "perceptron 784-256-128-10": deep,
    "perceptron with LayerNorm": normalised,
    "convolution 8x8": images,
    "two convolutions 32x32": photographs,
    "embedding of 32 words": lambda: (Words(), (32,)),
    "Transformer block": lambda: (Block(), (32,)),
}


def rows(model: nn.Module, shape: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """Random features, or words, and classes."""
    words = any(isinstance(layer, nn.Embedding) for layer in model.modules())
    features = torch.randint(0, VOCABULARY, (ROWS, *shape)) if words else torch.randn(ROWS, *shape)
    return features, torch.randint(0, 10, (ROWS,))


def tacit_steps(make: Make) -> Contender:
    """Tacit's trainer."""
    from tacit.learn.torch import PrivateTrainer

    model, shape = make()
    X, y = rows(model, shape)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    # The noise of this plan is about one clip, as that of Opacus below.
    trainer = PrivateTrainer(
        model, nn.CrossEntropyLoss(), optimizer, epsilon=8, delta="1e-5", n=ROWS, batch_size=BATCH, steps=1_000
    )
    return lambda steps: trainer.fit(X, y, steps=steps) and None


def opacus_steps(make: Make, mode: str = "hooks") -> Contender:
    """Opacus with its own Poisson loader; by ``mode`` with materialised gradients, or by ghost clipping."""
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    model, shape = make()
    X, y = rows(model, shape)
    loss: Any = nn.CrossEntropyLoss()
    made = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(TensorDataset(X, y), batch_size=BATCH),
        criterion=loss,
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        grad_sample_mode=mode,
    )
    private, optimizer, *criterion, loader = made
    loss = criterion[0] if criterion else loss

    def take(steps: int) -> None:
        while steps > 0:
            for features, classes in loader:
                optimizer.zero_grad()
                loss(private(features), classes).backward()
                optimizer.step()
                steps -= 1
                if not steps:
                    return

    return take


def ghost_steps(make: Make) -> Contender:
    """Opacus with ghost clipping."""
    return opacus_steps(make, "ghost")


def plain_steps(make: Make) -> Contender:
    """No privacy: random batches."""
    model, shape = make()
    X, y = rows(model, shape)
    loss, optimizer = nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=0.1)

    def take(steps: int) -> None:
        for _ in range(steps):
            chosen = torch.randint(0, ROWS, (BATCH,))
            optimizer.zero_grad()
            loss(model(X[chosen]), y[chosen]).backward()
            optimizer.step()

    return take


CONTENDERS = {
    "Tacit": tacit_steps,
    "Opacus, ghost": ghost_steps,
    "Opacus": opacus_steps,
    "torch, not private": plain_steps,
}


#: Clock that steps are timed by: processor time, or that of the wall.
CLOCK = [time.process_time]


def rate(take: Contender, seconds: float) -> float:
    """Steps per second."""
    start, done = CLOCK[0](), 0
    while CLOCK[0]() - start < seconds:
        take(3)
        done += 3
    return done / (CLOCK[0]() - start)


def exactness(rounds: int, seconds: float) -> None:
    """The table of steps per second with exactness taken out of Tacit piece by piece; perceptrons alone."""
    contenders = {
        "Tacit": tacit_steps,
        "Tacit, torch's noise": lambda make: inexact(tacit_steps(make), sums=False),
        "Tacit, torch's noise, floats": lambda make: inexact(tacit_steps(make), sums=True),
        "Opacus, ghost": ghost_steps,
    }
    compared(contenders, dict(list(NETWORKS.items())[:2]), rounds, seconds)


def inexact(take: Contender, *, sums: bool) -> Contender:
    """Steps with noise of torch's generator and, with ``sums``, sums of clipped floats; neither has a guarantee."""
    from unittest.mock import patch

    from tacit.learn import release
    from tacit.learn.torch.exact_sums import ExactSums, Outer
    from tacit.learn.torch.gradients import ExampleGradients, GradientParts

    def noisy(raw: Any, sigma2: Any) -> Any:
        return (torch.from_numpy(raw).float() + torch.normal(0.0, float(sigma2) ** 0.5, (len(raw),))).double().numpy()

    def floats(self: Any, parts: Any, keys: Any) -> Any:
        del keys
        squares = [
            torch.linalg.vector_norm(outer.returns.flatten(1), dim=1).square_()
            * (torch.linalg.vector_norm(outer.inputs.flatten(1), dim=1).square_() + (tap.bias is not None))
            for tap, outer in parts.outers
        ]
        scale = self._grid.steps / torch.stack(squares).sum(0).sqrt_().clamp_(min=self._clip)
        outers = [(tap, Outer(outer.inputs, outer.returns * scale[:, None, None, None])) for tap, outer in parts.outers]
        return GradientParts(outers, parts.tables, parts.flat), torch.ones(len(scale), dtype=torch.bool)

    def add_outer(self: Any, tap: Any, chosen: Any, *, single: bool) -> None:
        del single
        chosen.add_to(self._narrow(tap.weight, 0.0))
        self._narrow(tap.bias, 0.0).add_(chosen.returns.sum((0, 1)).flatten())

    def some(steps: int) -> None:
        with patch.object(release, "release_gaussian", noisy):
            if not sums:
                take(steps)
                return
            with patch.object(ExampleGradients, "_integers", floats), patch.object(ExactSums, "add_outer", add_outer):
                take(steps)

    # What is looked at before the first step is as ever.
    take(2)
    return some


def speed(rounds: int, seconds: float, *, brief: bool) -> None:
    """The table of steps per second; if brief, of Tacit and ghost clipping alone."""
    compared({who: CONTENDERS[who] for who in list(CONTENDERS)[: 2 if brief else None]}, NETWORKS, rounds, seconds)


def compared(contenders: dict[str, Any], networks: dict[str, Make], rounds: int, seconds: float) -> None:
    """Steps per second of contenders that take turns."""
    print(f"Batch {BATCH} of {ROWS} rows on average, {torch.get_num_threads()} thread(s), torch {torch.__version__}.\n")
    print("| network | contender | steps/s (median, min–max) | beside Opacus' ghost clipping |\n|---|---|---|---|")
    for name, make in networks.items():
        takes = {who: build(make) for who, build in contenders.items()}
        for take in takes.values():
            take(2)
        rates: dict[str, list[float]] = {who: [] for who in takes}
        for _ in range(rounds):
            for who, take in takes.items():
                rates[who].append(rate(take, seconds))
        middle = {who: statistics.median(found) for who, found in rates.items()}
        for who, found in rates.items():
            beside = f"{middle[who] / middle['Opacus, ghost']:.2f}x"
            print(f"| {name} | {who} | {middle[who]:.1f} ({min(found):.1f}–{max(found):.1f}) | {beside} |", flush=True)


def accuracy(repeats: int) -> None:
    """Test accuracy on digits, the same settings for both."""
    from opacus import PrivacyEngine
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from torch.utils.data import DataLoader, TensorDataset

    from tacit.learn.torch import PrivateTrainer

    features, classes = load_digits(return_X_y=True)
    print("\nDigits, perceptron 64-128-10, batch 256, 60 epochs, SGD, clip 1, δ = 1/(10 n).\n")
    print("| epsilon | Tacit | Opacus |\n|---|---|---|")
    for epsilon in (1.0, 3.0, 8.0):
        scores: dict[str, list[float]] = {"Tacit": [], "Opacus": []}
        for seed in range(repeats):
            parts = train_test_split(features / 16, classes, test_size=0.2, random_state=seed, stratify=classes)
            X, test = (torch.tensor(part, dtype=torch.float32) for part in parts[:2])
            y, wanted = (torch.tensor(part) for part in parts[2:])
            delta = 1 / (10 * len(X))
            for who in scores:
                torch.manual_seed(seed)
                model, _ = perceptron()
                optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
                if who == "Tacit":
                    PrivateTrainer(
                        model, nn.CrossEntropyLoss(), optimizer, epsilon=epsilon, delta=delta, n=len(X),
                        batch_size=256, epochs=60,
                    ).fit(X, y)  # fmt: skip
                    trained: Any = model
                else:
                    trained, rival, loader = PrivacyEngine().make_private_with_epsilon(
                        module=model, optimizer=optimizer, data_loader=DataLoader(TensorDataset(X, y), batch_size=256),
                        target_epsilon=epsilon, target_delta=delta, epochs=60, max_grad_norm=1.0,
                    )  # fmt: skip
                    for _ in range(60):
                        for a, b in loader:
                            rival.zero_grad()
                            nn.functional.cross_entropy(trained(a), b).backward()
                            rival.step()
                scores[who].append(float((trained(test).argmax(1) == wanted).float().mean()))
        cells = [f"{statistics.mean(found):.3f} ± {statistics.pstdev(found):.3f}" for found in scores.values()]
        print(f"| {epsilon:g} | {' | '.join(cells)} |")


def memory() -> None:
    """Rise of the resident size in three steps: of a fresh process, and again once its code has been read."""
    columns = "code and data (MB) | beside ghost clipping | data (MB) | beside ghost clipping"
    print(f"| network | contender | {columns} |\n|---|---|---|---|---|---|")
    for network in NETWORKS:
        found = {}
        for who in list(CONTENDERS)[:2]:
            command = [sys.executable, __file__, "--threads", str(torch.get_num_threads()), "--one", network, who]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found[who] = [float(size) for size in done.stdout.split()[-2:]]
        for who, sizes in found.items():
            cells = [
                f"{one:.1f} | {one / other:.2f}x" for one, other in zip(sizes, found["Opacus, ghost"], strict=True)
            ]
            print(f"| {network} | {who} | {' | '.join(cells)} |", flush=True)


def one(network: str, who: str) -> None:
    """Print how far the largest resident size of this process rises in three steps, twice.

    Most of the first rise is code of libraries that is read from disk when it is first called. Before the second all
    data of the first are given back to the system, so it is data alone.
    """
    import ctypes
    import gc

    import opacus  # noqa: F401 - every contender's process has imported the same

    import tacit.learn.torch  # noqa: F401 - likewise

    importlib.import_module("torch.fx.experimental.proxy_tensor")
    for _ in range(2):
        take = CONTENDERS[who](NETWORKS[network])
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        # Forget the peak of making things.
        with open("/proc/self/clear_refs", "w") as peaks:
            peaks.write("5")
        before = _status("VmRSS")
        take(3)
        print((_status("VmHWM") - before) / 1024)
        del take


def split(seconds: float) -> None:
    """Processor time of the parts of a step of Tacit, in milliseconds."""
    from tacit.learn import release
    from tacit.learn.torch import trainer
    from tacit.learn.torch.gradients import ExampleGradients

    spent: dict[str, float] = {}

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            start = time.process_time()
            try:
                return function(*args, **named)
            finally:
                spent[name] = spent.get(name, 0.0) + time.process_time() - start

        return call

    parts = ("passes", "whole numbers and their sum", "exact noise", "the rest")
    ExampleGradients.floats = timed(parts[0], ExampleGradients.floats)  # type: ignore[method-assign]
    ExampleGradients.add = timed(parts[1], ExampleGradients.add)  # type: ignore[method-assign]
    trainer.release.release_gaussian = timed(parts[2], release.release_gaussian)  # type: ignore[attr-defined]
    print(f"| network | step (ms) | {' | '.join(parts)} |\n|---|---|{'---|' * len(parts)}")
    for name, make in NETWORKS.items():
        take = tacit_steps(make)
        take(3)
        spent.clear()
        start, done = time.process_time(), 0
        while time.process_time() - start < seconds:
            take(3)
            done += 3
        whole = time.process_time() - start
        spent[parts[3]] = whole - sum(spent.values())
        cells = " | ".join(f"{1e3 * spent[part] / done:.1f}" for part in parts)
        print(f"| {name} | {1e3 * whole / done:.1f} | {cells} |", flush=True)


def _status(name: str) -> int:
    """A size of this process in kilobytes, as the system counts it."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name))


def main() -> None:
    """Read the arguments and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--brief", action="store_true")
    parser.add_argument("--accuracy", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--split", action="store_true")
    parser.add_argument("--exactness", action="store_true")
    parser.add_argument("--wall", action="store_true")
    parser.add_argument("--one", nargs=2, metavar=("NETWORK", "CONTENDER"), help="used by --memory")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 8.0])
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    CLOCK[0] = time.perf_counter if arguments.wall else time.process_time
    warnings.filterwarnings("ignore", module="opacus")
    warnings.filterwarnings("ignore", module="torch")
    if arguments.one:
        one(*arguments.one)
    elif arguments.memory:
        memory()
    elif arguments.exactness:
        exactness(arguments.rounds, arguments.seconds)
    elif arguments.split:
        split(arguments.seconds)
    elif arguments.accuracy:
        accuracy(arguments.repeats)
    else:
        speed(arguments.rounds, arguments.seconds, brief=arguments.brief)


if __name__ == "__main__":
    main()
