"""Draw the figures of docs/audit-tacit-yourself.md: python docs/figures/audit.py [folder]."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path

from tacit import Laplace
from tacit.audit import lower_bound
from tacit.noise import entropy

HERE = Path(__file__).parent


def float_laplace(values: Sequence[float]) -> float:
    """Count the values, with Laplace noise by inversion, in floats: ε = 1."""
    u = ((entropy.current().word() >> 11) + 0.5) * 2.0**-53 - 0.5
    return float(len(values)) - math.copysign(1.0, u) * math.log(1 - 2 * abs(u))


def main(folder: Path) -> None:
    """Two audits of the same claim: the mechanism that keeps it, and the one in floats that does not."""
    noise = Laplace(epsilon=1, l1_sensitivity=1)
    lower_bound(noise, 0, 1, samples=20_000).plot(folder / "audit-laplace.svg")
    lower_bound(float_laplace, [], [1.0], claimed=1, samples=20_000).plot(folder / "audit-float-laplace.svg")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
