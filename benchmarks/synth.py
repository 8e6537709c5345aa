"""Synthetic tables of Adult: total variation, accuracy of a classifier, seconds.

``python benchmarks/synth.py adult.csv``: all columns, integers in bins. The synthetic tables are made from all rows,
those of the test too. ``--rival dpmm=/path/to/python`` adds another library, which runs in its own environment and has
``--seconds`` of a processor for each table: its last model then is what counts. ``--columns`` makes tables of some
columns.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import math
import resource
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tacit

INTEGERS = {
    "adult": {
        "age": (17, 90), "fnlwgt": (0, 1_500_000), "education_num": (1, 16), "capital_gain": (0, 99_999),
        "capital_loss": (0, 4_499), "hr_per_week": (1, 99),
    },
    "pums": {
        "age": (18, 93), "sex": (0, 1), "educ": (1, 16), "race": (1, 6), "married": (0, 1),
    },
}  # fmt: skip
#: Columns with a decimal point in the file.
DOUBLES = {"pums": {"income": (0, 500_000)}}
TARGETS = {"adult": "income", "pums": "married"}
DELTA = "1e-9"


def opened(path: Path, only: list[str] | None = None) -> tuple[tacit.Curator, str]:
    """A curator for the file, each row a person, and the table; texts have the categories of the file.

    Args:
        path: of the file.
        only: columns to declare; None for all.
    """
    with path.open() as file:
        rows = list(csv.DictReader(file))
    columns: dict[str, Any] = {}
    for name in only or rows[0]:
        if name in INTEGERS[path.stem]:
            columns[name] = {"type": "integer", "bounds": list(INTEGERS[path.stem][name])}
        elif name in DOUBLES.get(path.stem, {}):
            columns[name] = {"type": "double", "bounds": list(DOUBLES[path.stem][name])}
        elif name != "pid":
            columns[name] = {"type": "text", "categories": sorted({row[name] for row in rows})}
    curator = tacit.open(
        str(path), table=path.stem, population="people", unit="row", epsilon="1000", delta="1e-6", columns=columns
    )
    return curator, path.stem


def coded(table: Any, values: dict[str, list[Any]], bins: dict[str, Any]) -> np.ndarray:
    """Rows as places of values, integers in the bins of the table: what every method is given and judged by."""
    made = []
    for name, listed in values.items():
        column = np.asarray(table[name].to_pylist())
        if name in bins:
            distinct, at = np.unique(column, return_inverse=True)
            made.append(np.array([bins[name].place(value) for value in distinct.tolist()])[at])
        else:
            place = {value: at for at, value in enumerate(listed)}
            made.append(np.array([place[value] for value in column.tolist()]))
    return np.stack(made, axis=1)


def variation(real: np.ndarray, drawn: np.ndarray, sizes: list[int], ways: int) -> float:
    """Mean total-variation distance over all marginals of some columns."""
    apart = []
    for chosen in itertools.combinations(range(len(sizes)), ways):
        shape = [sizes[each] for each in chosen]
        ours, theirs = (
            np.bincount(np.ravel_multi_index(tuple(rows[:, c] for c in chosen), shape), minlength=math.prod(shape))
            for rows in (real, drawn)
        )
        apart.append(np.abs(ours / ours.sum() - theirs / theirs.sum()).sum() / 2)
    return float(np.mean(apart))


def accuracy(train: np.ndarray, test: np.ndarray, target: int) -> float:
    """Of gradient-boosted trees that are trained on one table and tested on another."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    others = [each for each in range(train.shape[1]) if each != target]
    model = HistGradientBoostingClassifier(random_state=0).fit(train[:, others], train[:, target])
    return float(model.score(test[:, others], test[:, target]))


@dataclass(frozen=True)
class Contest:
    """One table, in places of values, and the column that trees are to predict."""

    real: np.ndarray
    names: list[str]
    sizes: list[int]
    target: int

    @property
    def test(self) -> np.ndarray:
        """A fifth of the real rows, for trees."""
        return self.real[: len(self.real) // 5]

    def line(self, method: str, epsilon: str, drawn: np.ndarray, clock: float, processor: float) -> None:
        """Print how good a table is."""
        apart = [variation(self.real, drawn, self.sizes, ways) for ways in (2, 3)]
        right = accuracy(drawn, self.test, self.target)
        print(
            f"| {method} | {epsilon} | {apart[0]:.4f} | {apart[1]:.4f} | {right:.3f} | {processor:.0f} | {clock:.0f} |",
            flush=True,
        )

    def rival(self, name: str, python: str, method: str, epsilon: str, folder: Path, seconds: int) -> None:
        """Let another library make the table in its own environment, and print how good it is."""
        files = [folder / each for each in ("coded.csv", "sizes.json", f"{name}-{method}-{epsilon}.csv")]
        if not files[0].exists():
            np.savetxt(files[0], self.real, fmt="%d", delimiter=",", header=",".join(self.names), comments="")
            files[1].write_text(json.dumps(dict(zip(self.names, self.sizes, strict=True))))
        script = Path(__file__).with_name("synth_rivals.py")
        try:
            done = subprocess.run(
                [python, str(script), name, method, epsilon, DELTA, *map(str, files), "--seconds", str(seconds)],
                capture_output=True, check=True, text=True, preexec_fn=lambda: _limit(seconds + 120),
            )  # fmt: skip
        except subprocess.CalledProcessError as problem:
            said = (problem.stderr.strip().splitlines() or ["failed"])[-1]
            if problem.returncode == -signal.SIGXCPU or said.startswith("__main__.TimeIsUpError"):
                said = f"no model within {seconds} s of a processor"
            print(f"| {name} {method} | {epsilon} | {said} | | | | |", flush=True)
            return
        took = json.loads(done.stdout.strip().splitlines()[-1])
        drawn = np.loadtxt(files[2], delimiter=",", skiprows=1, dtype=np.int64)
        stopped = "" if took["spent"] == 1 else f", stopped with {took['spent']:.0%} of its price spent"
        self.line(f"{name} {method}{stopped}", epsilon, drawn, took["clock"], took["processor"])


def _limit(seconds: int) -> None:
    """End this process after so many seconds of a processor."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 60))


def main() -> None:
    """Print tables of Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, nargs="?", help="adult.csv or pums.csv, which are not part of the project")
    parser.add_argument("--epsilon", action="append", help="0.1, 1 and 10 if left out")
    parser.add_argument("--method", action="append", help="independent, mst and aim if left out; none for rivals alone")
    parser.add_argument(
        "--rival", action="append", default=[], help="name=python: smartnoise, dpmm or mbi, and where it is"
    )
    parser.add_argument("--seconds", type=int, default=900, help="seconds of a processor that a rival may take")
    parser.add_argument("--runs", type=int, default=1, help="runs of each method here, a line each")
    parser.add_argument("--columns", help="names with commas between them; all if left out")
    asked = parser.parse_args()
    if asked.file is None:
        parser.print_help()
        return
    only = asked.columns.split(",") if asked.columns else None
    curator, table = opened(asked.file, only)
    first = curator.synthesize(table, epsilon="0.1", delta=DELTA, method="independent", rows=10)
    sizes = dict(first.model.sizes)
    values = {name: list(found) for name, found in first.columns.items()}
    real = coded(real_rows(asked.file), values, first.bins)
    contest = Contest(real, list(sizes), list(sizes.values()), list(sizes).index(TARGETS[table]))
    print(f"\ntrained on real rows: {accuracy(real[len(real) // 5 :], contest.test, contest.target):.3f}\n")
    print("| method | ε | mean TV, 2-way | mean TV, 3-way | accuracy | processor s | clock s |\n" + "|---" * 7 + "|")
    with tempfile.TemporaryDirectory() as folder:
        for epsilon in asked.epsilon or ("0.1", "1", "10"):
            for method in asked.runs * (asked.method or ["independent", "mst", "aim"]):
                if method == "none":
                    continue
                # A curator answers the same query again with what it released, so that every run has its own.
                curator, _ = opened(asked.file, only)
                start, used = time.perf_counter(), time.process_time()
                made = curator.synthesize(table, epsilon=epsilon, delta=DELTA, method=method, rows=len(real))  # type: ignore[arg-type]
                drawn = coded(made.to_arrow(), values, first.bins)
                contest.line(method, epsilon, drawn, time.perf_counter() - start, time.process_time() - used)
            for each in asked.rival:
                name, _, rest = each.partition("=")
                name, _, only = name.partition(":")
                for method in [only] if only else ["mst", "aim"]:
                    contest.rival(name, rest, method, epsilon, Path(folder), asked.seconds)


def real_rows(path: Path) -> Any:
    """The rows of a file."""
    import pyarrow.csv

    return pyarrow.csv.read_csv(path)


if __name__ == "__main__":
    main()
