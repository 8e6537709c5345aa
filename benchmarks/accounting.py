"""Composition beside dp_accounting, prv_accountant and autodp: the same ε, how tight, how long.

Run ``python benchmarks/accounting.py``. Every row is one workload of planned releases at δ = 1e-6, timed in one
process; the time is the best of a few runs, so that it is the cost of the work and not of the machine's mood.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from tacit.accounting.calibrate import calibrate_gaussian
from tacit.accounting.compose import compose
from tacit.core import normal, numbers
from tacit.core.events import GaussianEvent, LaplaceEvent, PoissonSampledEvent, PureEvent

DELTA = 1e-6

LAPLACE_SCALES = [Fraction(20) + Fraction(i, 4) for i in range(100)]
SIGMAS = [Fraction(20) + Fraction(i, 2) for i in range(100)]

#: Name, what Tacit composes, and the same as lists of (kind, parameter, count) for the others.
WORKLOADS: list[tuple[str, list[Any], list[tuple[str, Any, int]]]] = [
    ("1000 Gaussians, sigma 30", [(GaussianEvent(30, 1), 1000)], [("gaussian", 30.0, 1000)]),
    ("1000 Laplace, scale 20", [(LaplaceEvent(20, 1), 1000)], [("laplace", 20.0, 1000)]),
    ("1000 pure 0.05", [(PureEvent("0.05"), 1000)], [("pure", 0.05, 1000)]),
    (
        "5000 sampled Gaussians, q 0.01, sigma 1",
        [(PoissonSampledEvent("0.01", GaussianEvent(1, 1)), 5000)],
        [("sampled", (0.01, 1.0), 5000)],
    ),
    (
        "100 Laplace + 100 Gaussians, all different",
        [LaplaceEvent(b, 1) for b in LAPLACE_SCALES] + [GaussianEvent(s, 1) for s in SIGMAS],
        [("laplace", float(b), 1) for b in LAPLACE_SCALES] + [("gaussian", float(s), 1) for s in SIGMAS],
    ),
]


def dp_accounting_pld(parts: list[tuple[str, Any, int]]) -> float:
    """ε of dp_accounting's PLD accountant, default grid of 1e-4."""
    from dp_accounting import dp_event
    from dp_accounting.pld import pld_privacy_accountant, privacy_loss_distribution

    if any(kind == "pure" for kind, _, _ in parts):
        total = privacy_loss_distribution.identity()
        for _, epsilon, count in parts:
            pld = privacy_loss_distribution.from_privacy_parameters(
                privacy_loss_distribution.common.DifferentialPrivacyParameters(epsilon, 0)
            )
            total = total.compose(pld.self_compose(count))
        return float(total.get_epsilon_for_delta(DELTA))
    accountant = pld_privacy_accountant.PLDAccountant()
    for kind, parameter, count in parts:
        event = {
            "gaussian": lambda p: dp_event.GaussianDpEvent(p),
            "laplace": lambda p: dp_event.LaplaceDpEvent(p),
            "sampled": lambda p: dp_event.PoissonSampledDpEvent(p[0], dp_event.GaussianDpEvent(p[1])),
        }[kind](parameter)
        accountant.compose(event, count)
    return float(accountant.get_epsilon(DELTA))


def prv_upper(parts: list[tuple[str, Any, int]]) -> float:
    """The upper bound of prv_accountant at its usual precision of 0.01 in ε."""
    from prv_accountant import PRVAccountant
    from prv_accountant.privacy_random_variables import (
        GaussianMechanism,
        LaplaceMechanism,
        PoissonSubsampledGaussianMechanism,
        PureDPMechanism,
    )

    make: dict[str, Callable[[Any], Any]] = {
        "gaussian": lambda p: GaussianMechanism(noise_multiplier=p),
        "laplace": lambda p: LaplaceMechanism(mu=1 / p),
        "pure": lambda p: PureDPMechanism(p),
        "sampled": lambda p: PoissonSubsampledGaussianMechanism(sampling_probability=p[0], noise_multiplier=p[1]),
    }
    prvs = [make[kind](parameter) for kind, parameter, _ in parts]
    counts = [count for _, _, count in parts]
    accountant = PRVAccountant(prvs=prvs, max_self_compositions=counts, eps_error=0.01, delta_error=DELTA * 1e-3)
    return float(accountant.compute_epsilon(DELTA, counts)[2])


def autodp_rdp(parts: list[tuple[str, Any, int]]) -> float:
    """ε of autodp's Renyi composition."""
    from autodp import mechanism_zoo, transformer_zoo

    make: dict[str, Callable[[Any], Any]] = {
        "gaussian": lambda p: mechanism_zoo.GaussianMechanism(p),
        "laplace": lambda p: mechanism_zoo.LaplaceMechanism(p),
        "pure": lambda p: mechanism_zoo.PureDP_Mechanism(p),
        "sampled": lambda p: transformer_zoo.AmplificationBySampling(PoissonSampling=True)(
            _tagged(mechanism_zoo.GaussianMechanism(p[1])), p[0], improved_bound_flag=True
        ),
    }
    mechanisms = [make[kind](parameter) for kind, parameter, _ in parts]
    composed = transformer_zoo.Composition()(mechanisms, [count for _, _, count in parts])
    return float(composed.get_approxDP(DELTA))


def _tagged(mechanism: Any) -> Any:
    mechanism.neighboring = "add_remove"
    return mechanism


def forget() -> None:
    """Empty Tacit's caches of enclosed values: a repeated run must do the work again, or its time means nothing."""
    for module in (normal, numbers):
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


def best_of(function: Callable[[], Any], runs: int) -> tuple[Any, float]:
    """The result, and the shortest of ``runs`` times in seconds."""
    times = []
    result = None
    for _ in range(runs):
        forget()
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return result, min(times)


def attempt(function: Callable[[], float], runs: int) -> tuple[float | None, float]:
    """As :func:`best_of`, or no result where the other library refuses."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return best_of(function, runs)
    except Exception:  # a rival that fails is a row of the table, not the end of it
        return None, float("nan")


def shown(value: float | None, seconds: float, ours: float) -> str:
    """A cell: ε and how many times longer it took."""
    return "refused" if value is None else f"{value:.5f} in {seconds * 1e3:.0f} ms ({seconds / ours:.1f}x)"


def main() -> None:
    """Print the table."""
    print("| workload | Tacit: lower … upper | width | Tacit | dp_accounting PLD | prv_accountant upper | autodp RDP |")
    print("|---|---|---|---|---|---|---|")
    for name, releases, parts in WORKLOADS:
        mine, seconds = best_of(lambda r=releases: compose(r, delta="1e-6", method="pld"), 5)
        low, high = float(mine.lower), float(mine.epsilon)
        rivals = [
            attempt(lambda p=parts: dp_accounting_pld(p), 3),
            attempt(lambda p=parts: prv_upper(p), 2),
            attempt(lambda p=parts: autodp_rdp(p), 2),
        ]
        cells = " | ".join(shown(value, taken, seconds) for value, taken in rivals)
        print(f"| {name} | {low:.5f} … {high:.5f} | {(high - low) / high:.1e} | {seconds * 1e3:.0f} ms | {cells} |")
    sigma, seconds = best_of(
        lambda: calibrate_gaussian(count=5000, rate="0.01", epsilon=2, delta="1e-6", method="pld"), 2
    )
    print(f"\nCalibration: sigma {float(sigma):.4f} for 5000 sampled steps at (2, 1e-6) in {seconds:.2f} s")


if __name__ == "__main__":
    main()
