"""Planned release of a workload: a file with one total and many counting queries, and the tables of answers.

::

    [release]
    name = "Counts of visits"
    epsilon = "1"                 # or rho
    delta = "1e-6"
    output = "counts"             # a folder beside this file; by default "release"
    formats = ["csv", "parquet"]

    [workload]
    source = "visits"             # or a SELECT of rows
    parts = [{marginals = ["ward", "sex", "age"], ways = 2}, {prefixes = "age"}]

:mod:`tacit.synth.workload_form` lists what a part may be.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from tacit.core.errors import InputError
from tacit.core.text_files import table_bytes
from tacit.curator.curator import Curator
from tacit.paid_work.workload_release import WorkloadAnswer, WorkloadQuote
from tacit.project.project_file import validate
from tacit.releases.planned_release import replace_file
from tacit.synth.workload import Workload
from tacit.synth.workload_form import workload_from_plain


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Release(_Strict):
    name: str = "release"
    epsilon: str | int | float | None = None
    delta: str | int | float | None = None
    rho: str | int | float | None = None
    confidence: str | int | float | None = None
    output: str = "release"
    formats: tuple[Literal["csv", "parquet"], ...] = ("csv", "parquet")


class _Workload(_Strict):
    source: str
    parts: list[dict[str, Any]]
    max_rows: int | None = None


class _File(_Strict):
    release: _Release
    workload: _Workload


@dataclass(frozen=True)
class PlannedWorkload:
    """A workload with its price, confidence and bound on rows, from a file; answers go to the folder ``output``."""

    name: str
    source: str
    workload: Workload
    options: dict[str, Any]
    output: Path
    formats: tuple[str, ...]

    def quote(self, curator: Curator) -> WorkloadQuote:
        """Errors and price; free."""
        return curator.explain_workload(self.source, self.workload, **self.options)


@dataclass(frozen=True)
class ReleasedWorkload:
    """The answers to a planned workload, and the files that were written."""

    planned: PlannedWorkload
    answer: WorkloadAnswer
    files: tuple[Path, ...]


def load_workload(path: str | Path) -> PlannedWorkload | None:
    """The workload in a file; None where the file plans statistics.

    Raises:
        InputError: the file plans a workload, and not as it should; names the place.
    """
    place = Path(path)
    try:
        content = tomllib.loads(place.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError):
        # Told in the words of the other reader.
        return None
    if "workload" not in content:
        return None
    if "statistics" in content:
        raise InputError("statistics", "stand in a release of their own: a file has [workload] or [statistics.<name>]")
    model = validate(_File, content)
    stated = model.release.model_dump(include={"epsilon", "delta", "rho", "mu", "confidence"}, exclude_none=True)
    options = {name: str(value) for name, value in stated.items()}
    if model.workload.max_rows is not None:
        options["max_rows"] = model.workload.max_rows  # type: ignore[assignment]
    return PlannedWorkload(
        model.release.name,
        model.workload.source,
        workload_from_plain(model.workload.parts),
        options,
        place.parent / model.release.output,
        tuple(dict.fromkeys(model.release.formats)),
    )


def release_workload(curator: Curator, planned: PlannedWorkload, output: Path | None = None) -> ReleasedWorkload:
    """Answer a planned workload under one charge, and write a file for each table, a receipt and a summary.

    Run again, it costs nothing and writes the same files.

    Raises:
        Refusal, InputError: it cannot be answered; nothing is charged.
        BudgetError: the account does not allow the charge.
    """
    folder = output or planned.output
    summary = str(planned.quote(curator))
    answer = curator.answer_workload(planned.source, planned.workload, **planned.options)
    files: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken: set[str] = set()
        for table in answer.tables():
            name = re.sub(r"[^A-Za-z0-9_]+", "-", "-".join(table.columns)) or "all"
            while name in taken:
                name += "-again"
            taken.add(name)
            files += [replace_file(folder / f"{name}.{e}", table_bytes(table.to_arrow(), e)) for e in planned.formats]
        files.append(replace_file(folder / "receipt.json", f"{answer.receipt.to_json()}\n".encode()))
        files.append(replace_file(folder / "public-key.txt", f"{curator.public_key}\n".encode()))
        files.append(replace_file(folder / "summary.txt", f"{planned.name}\n\n{summary}\n".encode()))
    except OSError as problem:
        raise InputError(
            "release.output",
            f"cannot write to {folder}: {problem.strerror}; what was released is kept, run the plan again",
        ) from None
    return ReleasedWorkload(planned, answer, tuple(files))
