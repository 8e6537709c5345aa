"""``tacit synth``: publish a synthetic table with its report and its receipt."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli.errors import reported
from tacit.cli.open_project import DEFAULT_PROJECT, AnalystOption, ProjectOption, opened
from tacit.cli.terminal import JsonFlag, console, print_json
from tacit.core.errors import InputError

__all__ = ["synth"]


def synth(
    source: Annotated[str, typer.Argument(help="A table, or a SELECT of rows.", show_default=False)],
    project: ProjectOption = DEFAULT_PROJECT,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write: .parquet or .csv.")] = Path(
        "synthetic.parquet"
    ),
    epsilon: Annotated[str | None, typer.Option("--epsilon", "-e", help="Price in epsilon.")] = None,
    delta: Annotated[str | None, typer.Option("--delta", help="Delta at which the epsilon is meant.")] = None,
    rho: Annotated[str | None, typer.Option("--rho", help="Price in rho instead, for zcdp accounts.")] = None,
    columns: Annotated[
        list[str] | None, typer.Option("--column", "-c", help="A column to synthesise; by default all declared ones.")
    ] = None,
    rows: Annotated[int | None, typer.Option("--rows", help="How many rows to draw.")] = None,
    method: Annotated[str, typer.Option("--method", help="aim, mst or independent.")] = "aim",
    minutes: Annotated[
        int | None, typer.Option("--minutes", help="About how long aim may fit; a larger model.", show_default=False)
    ] = None,
    analyst: AnalystOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a synthetic table that everyone may use, under one charge.

    The table, a report of what was measured and the receipt are written side by side.

    tacit synth visits --epsilon 1 --output visits.parquet
    """
    from tacit.synth.table_synthesis import MINUTES

    with reported("synth", as_json=as_json), opened(project, analyst=analyst) as curator:
        if output.suffix not in (".parquet", ".csv"):
            raise InputError("output", "must end in .parquet or .csv")
        screen = console()
        table = curator.synthesize(
            source,
            columns or None,
            rows=rows,
            method=method,  # type: ignore[arg-type]  # checked by the plan
            minutes=MINUTES if minutes is None else minutes,
            epsilon=epsilon,
            delta=delta,
            rho=rho,
            progress=None if as_json else lambda words: screen.print(words, markup=False, style="dim"),
        )
        table.save(output)
        report, receipt = output.with_suffix(".report.txt"), output.with_suffix(".receipt.json")
        report.write_text(table.report() + "\n", encoding="utf-8")
        table.receipt.save(receipt)
        told: dict[str, Any] = {
            "table": str(output),
            "rows": table.rows,
            "report": str(report),
            "receipt": str(receipt),
            "charge": table.charge.text,
        }
        if not as_json:
            screen.print(table.report(), markup=False, soft_wrap=True)
            screen.print(f"{table.charge.text}. Wrote {output}, {report} and {receipt}.", markup=False, soft_wrap=True)
    if as_json:
        print_json(told)
