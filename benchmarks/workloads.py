"""Workloads on Adult: errors beside lower bounds, beside asking one by one, and the memory and seconds they take.

``python benchmarks/workloads.py adult.csv``: every workload is planned and answered by a curator in a process of its
own, so that its peak of memory is its own. Columns are those of ``synth.py``, in the same bins; prefixes and ranges are
over ``fnlwgt`` in 256 or 1,024 steps.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import tacit
from synth import DELTA, INTEGERS, coded, opened, real_rows
from tacit import Workload
from tacit.query.planning.pricing import largest_rho_of
from tacit.synth.count_measurement import DISCRETE_LAPLACE
from tacit.synth.strategy import DenseStrategy
from tacit.synth.workload_plan import MarginalPlan, ProductPlan, plan_workload

#: ρ of the first table.
RHO = Fraction(1, 8)
STEPS = (256, 1024)


def listed(columns: list[str]) -> dict[str, Workload]:
    """The workloads, by their names."""
    return {
        "all 2-way marginals": Workload.marginals(columns, ways=2),
        "all 3-way marginals": Workload.marginals(columns, ways=3),
        "prefixes of 256 values": Workload.prefixes("steps_256"),
        "prefixes of 1,024 values": Workload.prefixes("steps_1024"),
        "ranges of 256 values": Workload.ranges("steps_256"),
    }


def write(path: Path, folder: Path) -> dict[str, int]:
    """Write the rows in bins and steps; return the number of values of each column."""
    curator, table = opened(path)
    first = curator.synthesize(table, epsilon="0.1", delta=DELTA, method="independent", rows=10)
    sizes = dict(first.model.sizes)
    rows = real_rows(path)
    made = [coded(rows, {name: list(found) for name, found in first.columns.items()}, first.bins)]
    weight, most = np.array(rows["fnlwgt"].to_pylist()), INTEGERS[path.stem]["fnlwgt"][1]
    for steps in STEPS:
        made.append((weight * steps // (most + 1))[:, None])
        sizes[f"steps_{steps}"] = steps
    (folder / "sizes.json").write_text(json.dumps(sizes))
    np.savetxt(
        folder / "coded.csv", np.concatenate(made, axis=1), fmt="%d", delimiter=",", header=",".join(sizes), comments=""
    )
    return sizes


def answer(name: str, folder: Path) -> None:
    """Plan and answer one workload, and print how that went."""
    sizes: dict[str, int] = json.loads((folder / "sizes.json").read_text())
    columns: dict[str, Any] = {each: {"type": "integer", "bounds": [0, size - 1]} for each, size in sizes.items()}
    curator = tacit.open(
        str(folder / "coded.csv"), table="rows", population="people", unit="row", rho="1", columns=columns
    )
    workload = listed([each for each in sizes if not each.startswith("steps_")])[name]
    before, start = _memory("VmRSS"), time.process_time()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # The peak begins anew.
    curator.explain_workload("rows", workload, rho=RHO)
    planned, seconds = _memory(), time.process_time() - start
    start = time.process_time()
    answered = curator.answer_workload("rows", workload, rho=RHO)
    tables = [table.values for table in answered.tables()]
    took, peak = time.process_time() - start, _memory()
    told = {
        "planning": [seconds, planned - before],
        "answering": [took, peak - before],
        "measured": _measured(folder, sizes, workload, tables),
    }
    print(json.dumps(told))


def _memory(line: str = "VmHWM") -> float:
    """Peak of resident memory of this process in MB, or what it has now: that of the parent does not count."""
    with open("/proc/self/status", encoding="ascii") as file:
        found = next(each for each in file if each.startswith(line))
    return int(found.split()[1]) / 1024


def _measured(folder: Path, sizes: dict[str, int], workload: Workload, tables: list[Any]) -> float:
    """The root of the mean squared error of the answers that were released."""
    real = np.loadtxt(folder / "coded.csv", delimiter=",", skiprows=1, dtype=np.int64)
    column = dict(zip(sizes, real.T, strict=True))
    (part,) = workload.parts
    squares, count = 0.0, 0
    for at, values in enumerate(tables):
        if hasattr(part, "sets"):
            names = part.sets[at]
            shape = tuple(sizes[name] for name in names)
            flat = np.ravel_multi_index(tuple(column[name] for name in names), shape)
            truth = np.bincount(flat, minlength=math.prod(shape)).reshape(shape)
        else:
            (factor,) = part.factors
            size = sizes[factor.columns[0]]
            sums = np.bincount(column[factor.columns[0]], minlength=size).cumsum()
            low, high = np.triu_indices(size)
            truth = sums if factor.kind == "prefixes" else sums[high] - np.where(low > 0, sums[low - 1], 0)
        squares, count = squares + float(((values - truth) ** 2).sum()), count + truth.size
    return math.sqrt(squares / count)


def bound(plan: Any) -> float:
    """The least root of the mean variance that any Gaussian noise on linear queries has at the price of a plan."""
    (part,) = plan.parts
    if isinstance(part, MarginalPlan):
        claims = sum(math.sqrt(p * c) for p, c in _costs(part))
        return math.sqrt(claims**2 / float(2 * plan.price) / plan.count)
    (strategy,) = part.measurement.strategies
    assert isinstance(strategy, DenseStrategy)
    return float(plan.root_mean_square_error) * math.sqrt(strategy.bound)


def alone(plan: Any) -> float:
    """The root of the mean variance where each marginal has an equal share of ρ, or each value its noise."""
    (part,) = plan.parts
    if isinstance(part, ProductPlan):
        (factor,) = part.part.factors
        size = part.sizes[factor.columns[0]]
        return math.sqrt(float(np.trace(factor.gram(size))) / float(2 * plan.price) / plan.count)
    return math.sqrt(len(part.part.sets) / float(2 * plan.price))


def _costs(part: Any) -> list[tuple[float, float]]:
    """Price and weight of each residual: for the bound Σ√(pc)."""
    sizes = part.sizes
    weight = dict.fromkeys(part.measurements, 0.0)
    for names in part.part.sets:
        cells = math.prod(sizes[name] for name in names)
        for size in range(len(names) + 1):
            for below in itertools.combinations(names, size):
                if below in weight:
                    each = [(sizes[n] - 1) / sizes[n] if n in below else 1 / sizes[n] ** 2 for n in names]
                    weight[below] += cells * math.prod(each)
    return [(math.prod((sizes[n] - 1) / sizes[n] for n in names), c) for names, c in weight.items()]


def one_by_one(sizes: dict[str, int]) -> None:
    """Compare the 3-way marginals with each of them asked by itself, where prices add up in ρ and where in ε."""
    work = Workload.marginals(list(sizes), ways=3)
    sets = len(work.parts[0].sets)  # type: ignore[union-attr]
    print("\n| ε | here | bound | a share of ρ each | a share of ε each | pure account here |\n" + "|---" * 6 + "|")
    for epsilon in ("0.1", "1", "10"):
        rho = largest_rho_of(Fraction(epsilon), Fraction(DELTA))
        plan = plan_workload(work, sizes, price=rho)
        pure = plan_workload(work, sizes, price=Fraction(epsilon), noise=DISCRETE_LAPLACE)
        error = plan.root_mean_square_error
        # Laplace noise of scale sets/ε has the variance 2(sets/ε)²; on whole numbers it is a little less.
        scale = sets / float(Fraction(epsilon))
        shares = math.sqrt(1 / (math.cosh(1 / scale) - 1))
        print(
            f"| {epsilon} | {error:.2f} | {error / bound(plan):.4f} | "
            f"{alone(plan):.2f}, {alone(plan) / error:.2f} times | {shares:.2f}, {shares / error:.2f} times | "
            f"{pure.root_mean_square_error:.2f}, {shares / pure.root_mean_square_error:.2f} times less |"
        )


def main() -> None:
    """Print tables of Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, nargs="?", help="adult.csv, or with --only the folder that was written")
    parser.add_argument("--only", help="answer this workload alone, in this process")
    asked = parser.parse_args()
    if asked.file is None:
        parser.print_help()
        return
    if asked.only:
        answer(asked.only, asked.file)
        return
    heads = ("workload", "queries", "RMSE", "measured", "over the bound", "each by itself",
             "planning, processor s", "planning, MB", "answering, processor s", "peak, MB")  # fmt: skip
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        sizes = write(asked.file, folder)
        columns = [name for name in sizes if not name.startswith("steps_")]
        for name, work in listed(columns).items():
            done = subprocess.run(
                [sys.executable, __file__, str(folder), "--only", name], capture_output=True, text=True, check=False
            )
            if done.returncode:
                print(f"| {name} | {(done.stderr.strip().splitlines() or ['failed'])[-1]} |", flush=True)
                continue
            told = json.loads(done.stdout)
            plan = plan_workload(work, sizes, price=RHO)
            error = plan.root_mean_square_error
            print(
                f"| {name} | {plan.count:,} | {error:.3f} | {told['measured']:.3f} | {error / bound(plan):.4f} | "
                f"{alone(plan) / error:.2f} times | {told['planning'][0]:.1f} | {told['planning'][1]:.0f} | "
                f"{told['answering'][0]:.1f} | {told['answering'][1]:.0f} |",
                flush=True,
            )
    one_by_one({name: sizes[name] for name in columns})


if __name__ == "__main__":
    main()
