"""Walks through the code: how many functions, files and rooms one operation passes.

Run ``python benchmarks/walks.py``; ``--files`` lists the files of each walk. Every call of a function of Tacit is
counted while one operation runs, with caches as a first caller finds them and imports done beforehand. A change of file
is counted between consecutive calls, and so is a change of top-level package ("room"). Named functions are those with a
name in the source: the bodies of comprehensions and generator expressions, which some versions of Python call like
functions and newer ones in part do not, and lambdas are left out.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import tacit

ROOT = str(Path(tacit.__file__).parent)
QUERY = "SELECT ward, COUNT(*) AS visits, AVG(cost) AS cost FROM visits GROUP BY ward"
OTHER = "SELECT ward, COUNT(*) AS visits, SUM(cost) AS cost FROM visits WHERE cost > 10 GROUP BY ward"


@dataclass
class Walk:
    """Calls seen so far."""

    calls: int = 0
    functions: set[tuple[str, str, int]] = field(default_factory=set)
    named: set[tuple[str, str, int]] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    file_changes: int = 0
    room_changes: int = 0
    last: str = ""

    def step(self, frame: FrameType, event: str, _: Any) -> None:
        """Count one call; a profile function of :mod:`sys`."""
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(ROOT) or code.co_name == "<module>":
            return
        file = code.co_filename[len(ROOT) + 1 :]
        function = file, code.co_qualname, code.co_firstlineno
        self.calls += 1
        self.functions.add(function)
        if not code.co_name.startswith("<"):
            self.named.add(function)
        self.files.add(file)
        self.file_changes += file != self.last
        self.room_changes += file.partition("/")[0] != self.last.partition("/")[0]
        self.last = file


@contextmanager
def walking(walk: Walk) -> Any:
    """Count calls of this thread and of those it starts."""
    threading.setprofile(walk.step)
    sys.setprofile(walk.step)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def measure(operation: Callable[[], object]) -> Walk:
    """Walk through one operation."""
    walk = Walk()
    with walking(walk):
        operation()
    return walk


def example_curator(folder: Path) -> Any:
    """A curator on a small file that was written for it."""
    lines = ["patient,ward,cost"] + [f"{i // 3},{'abc'[i % 3]},{i % 90}" for i in range(600)]
    file = folder / "visits.csv"
    file.write_text("\n".join(lines) + "\n")
    return tacit.open(
        file,
        unit="patient",
        epsilon="100",
        max_groups=3,
        max_rows=3,
        columns={
            "patient": "integer",
            "ward": {"type": "text", "categories": ["a", "b", "c"]},
            "cost": {"type": "integer", "bounds": (0, 100)},
        },
    )


def main(*, files: bool = False) -> None:
    """Print a table of walks, with their files if asked."""
    with TemporaryDirectory() as folder:
        warm, curator = (example_curator(Path(folder)) for _ in range(2))
        # Imports are no part of a walk.
        print(warm.sql(OTHER, epsilon="1"), file=sys.stderr)
        warm.explain(OTHER, epsilon="2")
        walks = {
            "`curator.explain(…)`": measure(lambda: curator.explain(OTHER, epsilon="0.5")),
            "`curator.sql(…)`, fresh": measure(lambda: curator.sql(QUERY, epsilon="0.5")),
            "the same, a repeat": measure(lambda: curator.sql(QUERY, epsilon="0.5")),
            "the same text at another price": measure(lambda: curator.sql(QUERY, epsilon="0.25")),
        }
    print("| walk | calls | functions | named functions | files | file changes | room changes |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, walk in walks.items():
        functions = len(walk.functions), len(walk.named)
        numbers = (walk.calls, *functions, len(walk.files), walk.file_changes, walk.room_changes)
        print(f"| {name} | {' | '.join(f'{n:,}' for n in numbers)} |")
        if files:
            print("\n".join(f"  {file}" for file in sorted(walk.files)))


def rooms() -> None:
    """Print files and lines of every top-level package."""
    print("| room | files | lines | longest |")
    print("|---|---:|---:|---:|")
    total = [0, 0]
    for room in sorted(path.parent for path in Path(ROOT).glob("*/__init__.py")):
        lengths = [len(file.read_text().splitlines()) for file in room.rglob("*.py")]
        total = [total[0] + len(lengths), total[1] + sum(lengths)]
        print(f"| `{room.name}` | {len(lengths)} | {sum(lengths):,} | {max(lengths)} |")
    print(f"| all | {total[0]} | {total[1]:,} | |")


if __name__ == "__main__":
    if "--rooms" in sys.argv[1:]:
        rooms()
    else:
        main(files="--files" in sys.argv[1:])
