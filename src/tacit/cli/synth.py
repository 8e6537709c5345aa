"""``tacit synth``: publish a synthetic table with its report and its receipt."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.open_project import DEFAULT_PROJECT, AnalystOption, ProjectOption, opened
from tacit.cli.terminal import JsonFlag, console, print_json, reported
from tacit.core.errors import InputError

if TYPE_CHECKING:
    from tacit.releases.synthetic_table import SyntheticStar, SyntheticTable


def synth(
    source: Annotated[
        list[str],
        typer.Argument(
            help="A table, or a SELECT of rows; or two tables: one with a row for each person, and one of their rows.",
            show_default=False,
        ),
    ],
    project: ProjectOption = DEFAULT_PROJECT,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The file to write: .parquet or .csv; of two tables, the folder.")
    ] = Path("synthetic.parquet"),
    epsilon: Annotated[str | None, typer.Option("--epsilon", "-e", help="Price in epsilon.")] = None,
    delta: Annotated[str | None, typer.Option("--delta", help="Delta that goes with the epsilon.")] = None,
    rho: Annotated[str | None, typer.Option("--rho", help="Price in rho instead, for zcdp accounts.")] = None,
    mu: Annotated[str | None, typer.Option("--mu", help="Price in mu instead, for gdp accounts.")] = None,
    columns: Annotated[
        list[str] | None, typer.Option("--column", "-c", help="A column to synthesise; by default all declared ones.")
    ] = None,
    rows: Annotated[int | None, typer.Option("--rows", help="How many rows to draw.")] = None,
    method: Annotated[str, typer.Option("--method", help="aim, mst, marginals or independent.")] = "aim",
    marginals: Annotated[
        list[str] | None,
        typer.Option(
            "--marginals",
            help="Columns that matter together, as ward,sex: measured by marginals, preferred by aim.",
            show_default=False,
        ),
    ] = None,
    minutes: Annotated[
        int | None,
        typer.Option(
            "--minutes", help="Minutes that aim may take, about; more allow a larger model.", show_default=False
        ),
    ] = None,
    max_rows: Annotated[
        int | None, typer.Option("--max-rows", help="The most rows of one person that count.", show_default=False)
    ] = None,
    quantiles: Annotated[
        list[str] | None,
        typer.Option("--quantiles", help="A column whose bins begin at private quantiles.", show_default=False),
    ] = None,
    nulls: Annotated[
        list[str] | None,
        typer.Option(
            "--null", help="A column with bounds whose NULLs are kept, as a value of its own.", show_default=False
        ),
    ] = None,
    rules: Annotated[
        Path | None,
        typer.Option("--rules", help="A JSON file with impossible, determined and only_if.", show_default=False),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option("--model", help="A file for the fitted model, to draw more rows from.", show_default=False),
    ] = None,
    analyst: AnalystOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a synthetic table that everyone may use, under one charge.

    The table, a report of what was measured and the receipt are written side by side.

    tacit synth visits --epsilon 1 --output visits.parquet

    tacit synth patients visits --epsilon 1 --output made
    """
    from tacit.synth.table_synthesis import MINUTES

    with reported("synth", as_json=as_json), opened(project, analyst=analyst) as curator:
        if len(source) > 2:
            raise InputError("source", "must be one table, or two")
        if len(source) == 2 and columns:
            raise InputError("column", "is for one table; of two, all declared columns are used")
        if len(source) == 1 and output.suffix not in (".parquet", ".csv"):
            raise InputError("output", "must end in .parquet or .csv")
        folder = output.with_suffix("")
        beside = output if len(source) == 1 else folder / "synthetic"
        report, receipt = beside.with_suffix(".report.txt"), beside.with_suffix(".receipt.json")
        # Files that cannot be written are found out before anything is charged.
        for name, path in (("output", beside), ("output", report), ("output", receipt), ("model", model)):
            if path is not None:
                _prepare(name, path)
        screen = console()
        asked: Any = source[0] if len(source) == 1 else dict.fromkeys(source)
        make: Callable[..., SyntheticTable | SyntheticStar] = curator.synthesize
        table = make(
            asked,
            columns or None,
            rows=rows,
            method=method,
            minutes=MINUTES if minutes is None else minutes,
            epsilon=epsilon,
            delta=delta,
            rho=rho,
            mu=mu,
            max_rows=max_rows,
            marginals=[[name.strip() for name in each.split(",") if name.strip()] for each in marginals or []] or None,
            quantiles=quantiles or (),
            nulls=nulls or (),
            progress=None if as_json else lambda words: screen.print(words, markup=False, style="dim"),
            **_rules(rules),
        )
        if len(source) == 2:
            written = list(map(str, table.save(folder) or ()))
        else:
            table.save(output)
            written = [str(output)]
        report.write_text(table.report() + "\n", encoding="utf-8")
        table.receipt.save(receipt)
        told: dict[str, Any] = {
            "table": written[0],
            "rows": table.rows,
            "report": str(report),
            "receipt": str(receipt),
            "charge": table.charge.text,
        } | ({"beside": written[1]} if len(written) > 1 else {})
        if model is not None:
            table.save_model(model)
            told["model"] = str(model)
        if not as_json:
            screen.print(table.report(), markup=False, soft_wrap=True)
            files = ", ".join([*written, *([] if model is None else [str(model)]), str(report)])
            screen.print(f"{table.charge.text}. Wrote {files} and {receipt}.", markup=False, soft_wrap=True)
    if as_json:
        print_json(told)


def _prepare(name: str, path: Path) -> None:
    """Make the folder of a file, and refuse a place where no file can be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not path.exists()
        with path.open("ab"):
            pass
        if is_new:
            path.unlink()
    except OSError as problem:
        raise InputError(name, f"{path} cannot be written: {problem.strerror}") from None


def _rules(path: Path | None) -> Any:
    if path is None:
        return {}
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise InputError("rules", f"{path} is not a file of JSON") from None
    names = ("impossible", "determined", "only_if")
    if not isinstance(told, dict) or not set(told) <= set(names):
        raise InputError("rules", f"must be an object with {', '.join(names)}")
    return told
