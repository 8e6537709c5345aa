"""Nanoseconds per draw, side by side in one run: Tacit, NumPy's insecure generators, OpenDP, diffprivlib.

    make bench            everything
    .venv/bin/python benchmarks/noise.py [--quick]

The machines this runs on are noisy, so every figure is the best of several repeats and the ratios are what matters.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np

import tacit
from tacit.noise.gaussian import DiscreteGaussian
from tacit.noise.laplace import DiscreteLaplace

SIZES = (1, 1_000, 100_000, 1_000_000)
SCALES = (1, 10, 10**4, 10**9)
#: Slow libraries are measured on fewer draws; their cost per draw does not depend on how many there are.
SLOW_CAP = 2_000


def nanoseconds(draw: Callable[[], object], count: int, budget: float) -> float:
    """Best time per draw over repeats that together take about ``budget`` seconds."""
    draw()
    best, spent, calls = float("inf"), 0.0, max(1, 1_000 // count)
    while spent < budget:
        start = time.perf_counter()
        for _ in range(calls):
            draw()
        elapsed = time.perf_counter() - start
        best, spent = min(best, elapsed / calls), spent + elapsed
    return best / count * 1e9


def contenders(scale: int, count: int) -> dict[str, tuple[Callable[[], object], int]]:
    """Each library's way of making ``count`` draws of ``scale``, with the number it is measured on."""
    import opendp.prelude as dp
    from diffprivlib.mechanisms import GaussianDiscrete
    from diffprivlib.mechanisms import Laplace as DiffprivlibLaplace

    dp.enable_features("contrib")
    rng = np.random.default_rng()
    laplace, gaussian = DiscreteLaplace(Fraction(scale)), DiscreteGaussian(Fraction(scale) ** 2)
    slow = min(count, SLOW_CAP)
    integers = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    integers2 = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    floats = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
    opendp_laplace = dp.m.make_laplace(*integers, scale=float(scale))
    opendp_gaussian = dp.m.make_gaussian(*integers2, scale=float(scale))
    opendp_float = dp.m.make_laplace(*floats, scale=float(scale))
    zeros, float_zeros = [0] * slow, [0.0] * slow
    dpl_laplace = DiffprivlibLaplace(epsilon=1.0, sensitivity=float(scale))
    ways: dict[str, tuple[Callable[[], object], int]] = {
        "numpy Laplace (insecure)": (lambda: rng.laplace(0, scale, count), count),
        "numpy normal (insecure)": (lambda: rng.normal(0, scale, count), count),
        "tacit discrete Laplace": (lambda: laplace.sample_many(count), count),
        "tacit discrete Gaussian": (lambda: gaussian.sample_many(count), count),
        "opendp discrete Laplace": (lambda: opendp_laplace(zeros), slow),
        "opendp discrete Gaussian": (lambda: opendp_gaussian(zeros), slow),
        "opendp float Laplace": (lambda: opendp_float(float_zeros), slow),
        "diffprivlib Laplace": (lambda: [dpl_laplace.randomise(0.0) for _ in range(slow)], slow),
    }
    if scale <= 10:  # its discrete Gaussian takes milliseconds a draw at larger scales
        mechanism = GaussianDiscrete(epsilon=1.0, delta=1e-5, sensitivity=max(1, scale // 4))
        few = min(slow, 50)
        ways["diffprivlib discrete Gaussian"] = (lambda: [mechanism.randomise(0) for _ in range(few)], few)
    return ways


def table(quick: bool) -> None:
    """Every contender at every scale, for each size."""
    sizes = SIZES[-1:] if quick else SIZES
    for count in sizes:
        print(f"\n### {count:,} draw{'s at once' if count > 1 else ''}, ns per draw\n")
        rows: dict[str, list[float]] = {}
        for scale in SCALES:
            for name, (draw, measured) in contenders(scale, count).items():
                rows.setdefault(name, []).append(nanoseconds(draw, measured, 0.05 if quick else 0.25))
        print("| | " + " | ".join(f"scale {scale:g}" for scale in SCALES) + " |")
        print("|---|" + "---|" * len(SCALES))
        for name, figures in rows.items():
            cells = [f"{figure:,.0f}" if figure >= 100 else f"{figure:.1f}" for figure in figures]
            print(f"| {name} | " + " | ".join(cells + ["—"] * (len(SCALES) - len(cells))) + " |")
        if count == SIZES[-1]:
            ratios(rows)


def ratios(rows: dict[str, list[float]]) -> None:
    """Print the required ratios, worst and best over the scales."""

    def span(over: str, under: str) -> str:
        values = [a / b for a, b in zip(rows[over], rows[under], strict=True)]
        return (
            f"{min(values):.2f} to {max(values):.2f}" if max(values) < 20 else f"{min(values):.0f} to {max(values):.0f}"
        )

    print("\n| ratio, over the scales | measured | reach |\n|---|---|---|")
    print(f"| tacit Laplace / numpy's | {span('tacit discrete Laplace', 'numpy Laplace (insecure)')} | at most 2 |")
    print(f"| opendp Laplace / tacit's | {span('opendp discrete Laplace', 'tacit discrete Laplace')} | at least 200 |")
    print(f"| tacit Gaussian / numpy's | {span('tacit discrete Gaussian', 'numpy normal (insecure)')} | at most 6 |")
    print(
        f"| opendp Gaussian / tacit's | {span('opendp discrete Gaussian', 'tacit discrete Gaussian')} | at least 150 |"
    )


def scalar_release() -> None:
    """One number through the public class, the way a user calls it."""
    mechanisms = {
        "Laplace(epsilon=1, l1_sensitivity=1)": tacit.Laplace(epsilon=1, l1_sensitivity=1),
        "Gaussian(epsilon=1, delta=1e-6, l2_sensitivity=1)": tacit.Gaussian(epsilon=1, delta="1e-6", l2_sensitivity=1),
    }
    print("\n### One scalar release through the public class\n\n| | µs | reach |\n|---|---|---|")
    for name, mechanism in mechanisms.items():
        microseconds = nanoseconds(lambda mechanism=mechanism: mechanism.release(42), 1, 0.5) / 1000
        print(f"| `{name}.release(42)` | {microseconds:.1f} | at most 8 |")


def main() -> None:
    """Run it all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only the largest size, few repeats")
    quick = parser.parse_args().quick
    print("## Noise")
    table(quick)
    scalar_release()


if __name__ == "__main__":
    main()
