"""Draw the charts of the pages about synthetic tables and workloads: ``python counts.py``.

The data are those of the pages; noise is fresh in every run.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import tacit
from tacit import Workload

HERE = Path(__file__).parent


def main() -> None:
    """Write the two files beside this one."""
    with tempfile.TemporaryDirectory() as folder:
        visits = [f"{i},{'ABC'[(i % 2 + i // 1500) % 3]},{'fm'[i % 2]},{i * 37 % 60 + 20}" for i in range(3000)]
        table = _opened(Path(folder, "visits.csv"), visits, {"ward": "ABC", "sex": "fm", "age": (20, 79)}).synthesize(
            "visits", epsilon=2, method="mst", rows=3000
        )
        table.plot("age", path=HERE / "synthetic-counts.svg")
        stays = [f"{i},{'ABCDE'[i * 7 % 5]},{'fm'[i % 2]},{i * 37 % 100},{i * i % 15}" for i in range(4000)]
        columns = {"ward": "ABCDE", "sex": "fm", "age": (0, 99), "days": (0, 14)}
        curator = _opened(Path(folder, "stays.csv"), stays, columns)
        answer = curator.answer_workload("stays", Workload.marginals(list(columns), ways=3), epsilon=1)
        answer.marginal("ward", "sex").plot(HERE / "workload-counts.svg")


def _opened(path: Path, rows: list[str], columns: dict[str, str | tuple[int, int]]) -> tacit.Curator:
    path.write_text("\n".join([f"patient,{','.join(columns)}", *rows]))
    declared: dict[str, object] = {"patient": {"type": "integer"}}
    for name, values in columns.items():
        texts = isinstance(values, str)
        declared[name] = (
            {"type": "text", "categories": list(values)} if texts else {"type": "integer", "bounds": list(values)}
        )
    return tacit.open(
        str(path), table=path.stem, unit="patient", epsilon="4", delta="1e-6", max_rows=1, columns=declared
    )


if __name__ == "__main__":
    main()
