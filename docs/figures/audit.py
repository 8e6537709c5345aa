"""Draw the figure of docs/audit-tacit-yourself.md: python docs/figures/audit.py [folder]."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path

from tacit.audit import lower_bound
from tacit.noise import entropy

HERE = Path(__file__).parent


def float_laplace(values: Sequence[float]) -> float:
    """Count the values, with Laplace noise by inversion, in floats: ε = 1."""
    u = ((entropy.current().word() >> 11) + 0.5) * 2.0**-53 - 0.5
    return float(len(values)) - math.copysign(1.0, u) * math.log(1 - 2 * abs(u))


def main(folder: Path) -> None:
    """An audit of a claim that noise in floats does not keep."""
    lower_bound(float_laplace, [], [1.0], claimed=1, samples=20_000).plot(folder / "audit-float-laplace.svg")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
