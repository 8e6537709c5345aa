"""Workloads and synthetic tables on Adult: errors beside bounds, total variation, accuracy of a classifier, seconds.

``python benchmarks/synth.py adult.csv``: all columns, integers in bins. Takes about twenty minutes on two idle cores;
``--quick`` leaves AIM and two of three prices out. The synthetic tables are made from all rows, those of the test too.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import tacit
from tacit import Workload
from tacit.synth import workload_plan
from tacit.synth.strategy import strategy_for
from tacit.synth.workload import Factor
from tacit.synth.workload_plan import plan_workload

INTEGERS = {
    "age": (17, 90), "fnlwgt": (0, 1_500_000), "education_num": (1, 16), "capital_gain": (0, 99_999),
    "capital_loss": (0, 4_499), "hr_per_week": (1, 99),
}  # fmt: skip
DELTA = "1e-9"


def opened(path: Path) -> tuple[tacit.Curator, list[str]]:
    """A curator for the file, each row a person; texts have the categories of the documentation, here of the file."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    columns: dict[str, Any] = {}
    for name in rows[0]:
        if name in INTEGERS:
            columns[name] = {"type": "integer", "bounds": list(INTEGERS[name])}
        else:
            columns[name] = {"type": "text", "categories": sorted({row[name] for row in rows})}
    curator = tacit.open(
        str(path), table="adult", population="people", unit="row", epsilon="1000", delta="1e-6", columns=columns
    )
    return curator, list(columns)


def workloads(sizes: dict[str, int]) -> None:
    """All marginals of three columns beside the bound and beside asking one by one; prefixes beside the bound."""
    rho = Fraction(1, 8)
    workload_plan.MOST_INTEGERS = 10**8
    print("| workload | queries | RMSE | over the lower bound | each by itself | seconds |\n|---|---|---|---|---|---|")
    for ways in (2, 3):
        start = time.perf_counter()
        work = Workload.marginals(list(sizes), ways=ways)
        plan = plan_workload(work, sizes, rho=rho)
        took = time.perf_counter() - start
        part = plan.parts[0]
        claims = sum(math.sqrt(p * c) for p, c in _costs(part))
        bound = math.sqrt(claims**2 / float(2 * rho) / plan.count)
        alone = math.sqrt(math.comb(len(sizes), ways) / float(2 * rho))
        error = plan.root_mean_square_error
        print(
            f"| all {ways}-way marginals | {plan.count:,} | {error:.3f} | {error / bound:.4f} | "
            f"{alone / error:.2f} times | {took:.1f} |"
        )
    for kind, size in (("prefixes", 256), ("prefixes", 1024), ("ranges", 256)):
        start = time.perf_counter()
        factor = Factor(("x",), kind)  # type: ignore[arg-type]
        made = strategy_for(factor, size)
        total = float(np.trace(factor.gram(size) @ made.covariance)) * made.column_squares[1] / float(2 * rho)
        alone = float(np.trace(factor.gram(size))) / float(2 * rho)
        print(
            f"| {kind} of {size:,} values | {factor.count(size):,} | {math.sqrt(total / factor.count(size)):.3f} | "
            f"{1 / math.sqrt(made.bound):.4f} | {math.sqrt(alone / total):.2f} times (noise on each value) | "
            f"{time.perf_counter() - start:.1f} |"
        )


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


def variation(real: Any, drawn: Any, ways: int, bins: dict[str, Any]) -> float:
    """Mean total-variation distance over all marginals of some columns, integers in the bins of the table."""
    codes = [_codes(real, drawn, name, bins) for name in drawn.column_names]
    apart = []
    for chosen in itertools.combinations(codes, ways):
        shape = [size for _, _, size in chosen]
        ours, theirs = (
            np.bincount(np.ravel_multi_index(tuple(c[side] for c in chosen), shape), minlength=math.prod(shape))
            for side in (0, 1)
        )
        apart.append(np.abs(ours / ours.sum() - theirs / theirs.sum()).sum() / 2)
    return float(np.mean(apart))


def _codes(real: Any, drawn: Any, name: str, bins: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, int]:
    left, right = (np.asarray(table[name].to_pylist()) for table in (real, drawn))
    if name in bins:
        left, right = ((side - bins[name].low) // bins[name].width for side in (left, right))
    values, places = np.unique(np.concatenate([left, right]), return_inverse=True)
    return places[: len(left)], places[len(left) :], len(values)


def accuracy(train: Any, test: Any) -> float:
    """Of gradient-boosted trees that are trained on one table and tested on another."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.preprocessing import OrdinalEncoder

    def features(table: Any) -> Any:
        return table.drop_columns(["income"]).to_pandas()

    texts = [name for name in train.column_names if name not in INTEGERS and name != "income"]
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1).fit(features(train)[texts])
    made = []
    for table in (train, test):
        frame = features(table)
        frame[texts] = encoder.transform(frame[texts])
        made.append(frame.to_numpy(dtype=np.float64))
    model = HistGradientBoostingClassifier(random_state=0).fit(made[0], train["income"].to_pylist())
    return float(model.score(made[1], test["income"].to_pylist()))


def main() -> None:
    """Print tables of Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="adult.csv")
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    curator, _ = opened(asked.file)
    start = time.perf_counter()
    first = curator.synthesize("adult", epsilon="0.1", delta=DELTA, method="independent", rows=10)
    workloads(dict(first.model.sizes))
    print(f"\nindependent columns took {time.perf_counter() - start:.0f} s\n")
    real = _real(asked.file)
    test = real.slice(0, real.num_rows // 5)
    print(f"trained on the real rows themselves: accuracy {accuracy(real.slice(real.num_rows // 5), test):.3f}\n")
    print("| method | ε | mean TV, 2-way | mean TV, 3-way | accuracy | seconds |\n|---|---|---|---|---|---|")
    methods = ("independent", "mst") if asked.quick else ("independent", "mst", "aim")
    for method, epsilon in itertools.product(methods, ("1",) if asked.quick else ("0.1", "1", "10")):
        start = time.perf_counter()
        table = curator.synthesize("adult", epsilon=epsilon, delta=DELTA, method=method, rows=real.num_rows)  # type: ignore[arg-type]
        drawn = table.to_arrow()
        took = time.perf_counter() - start
        bins = table._bins
        print(
            f"| {method} | {epsilon} | {variation(real, drawn, 2, bins):.4f} | {variation(real, drawn, 3, bins):.4f} | "
            f"{accuracy(drawn, test):.3f} | {took:.0f} |",
            flush=True,
        )


def _real(path: Path) -> Any:
    import pyarrow.csv

    return pyarrow.csv.read_csv(path)


if __name__ == "__main__":
    main()
