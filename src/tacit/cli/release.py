"""``tacit release``, ``synth`` and ``profile``: publish planned statistics, a synthetic table, what a table holds.

``tacit measure`` writes the statement of a planned release for a warehouse, ``tacit deliver`` runs what was paid for.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.common import (
    DEFAULT_PROJECT,
    AnalystOption,
    JsonFlag,
    ProjectOption,
    console,
    opened,
    print_json,
    progress_bar,
    reported,
    say,
)
from tacit.cli.query import print_answer, request_of, with_query_options
from tacit.core.errors import FailedRunError, InputError, TacitError
from tacit.core.extras import load_arrow
from tacit.core.text_files import replace_file, visible

if TYPE_CHECKING:
    from tacit.releases.accounts import Budget
    from tacit.releases.batch import BatchPlan, BatchRelease, Split
    from tacit.releases.profile import Profile
    from tacit.releases.synthetic_table import SyntheticStar, SyntheticTable


def deliver(
    position: Annotated[int | None, typer.Argument(help="Position of the charge; see tacit budget.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All that were paid for and have no answer.")] = False,
    project: ProjectOption = DEFAULT_PROJECT,
    as_json: JsonFlag = False,
) -> None:
    """Answer what was paid for and never answered, because a process ended in between. Charges nothing.

    The query is run under its charge, on the data as they are now. With --all, what cannot be run from the ledger alone
    is named with what to do about it.
    """
    with reported("position", as_json=as_json):
        if (position is None) != every:
            raise InputError("position", "say which charge to deliver, or --all")
        with opened(project) as curator:
            if position is not None:
                found = curator.deliver(position)
                from tacit.releases.workload import WorkloadAnswer

                if isinstance(found, WorkloadAnswer):
                    say(f"Delivered: the workload at {position}; tacit release writes its tables, free.")
                else:
                    print_answer(curator, found, "json" if as_json else "table", None)
                return
            told = []
            for entry in curator.undelivered():
                state, reason = "delivered", ""
                try:
                    curator.deliver(entry.number)
                except FailedRunError as problem:
                    state, reason = "failed", str(problem)
                except TacitError as problem:
                    state, reason = "open", str(problem)
                told.append({"position": entry.number, "sql": entry.sql, "state": state, "reason": reason})
    if as_json:
        print_json({"charges": told})
        return
    for each in told:
        more = f": {each['reason']}" if each["reason"] else ""
        say(f"{each['position']} {each['state']}{more}  {visible(' '.join(str(each['sql']).split()))}", whole=True)
    if not told:
        say("Every charge has its answer.")


def release(
    plan: Annotated[Path, typer.Argument(help="The plan file: one total, and named queries.", show_default=False)],
    project: ProjectOption = DEFAULT_PROJECT,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The folder to write to.")] = None,
    quote: Annotated[bool, typer.Option("--quote", help="Only show how the total would be divided. Free.")] = False,
    measured: Annotated[
        Path | None, typer.Option(help="What a warehouse returned for tacit measure: .parquet or .csv.")
    ] = None,
    analyst: AnalystOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Publish a planned set of statistics under one total: tables, a report and a receipt.

    The total is divided as tightly as the account allows. After an interruption run it again: nothing is paid twice.

    tacit release yearly.toml
    """
    from tacit.client.account_responses import BudgetResponse
    from tacit.client.responses import charge_json
    from tacit.engines.registry import warehouse_measured
    from tacit.releases.batch import load_plan, quote_batch, release_batch
    from tacit.releases.payment import Caller

    with reported("plan", as_json=as_json), opened(project, analyst=analyst) as curator:
        planned = load_plan(plan)
        planned = planned if output is None else replace(planned, output=output)
        told: dict[str, Any] = {"release": planned.name}
        if quote:
            told |= _quoted(planned, quote_batch(curator.context, planned), quiet=as_json)
        else:
            context = curator.context
            if measured is not None:
                context = replace(context, engine=warehouse_measured(context.engine, *_measured(measured)))
            with progress_bar(quiet=as_json) as advance:
                done = release_batch(context, planned, Caller(curator.analyst), advance)
            budget = curator.budget(population=done.charge.population)
            told |= {"guarantee": str(done.split.guarantee), "statistics": list(done.answers)}
            told |= {"files": list(map(str, done.files)), "charge": charge_json(done.charge)}
            told |= {"budget": BudgetResponse.of(budget).plain()}
            if not as_json:
                _show_release(done, budget)
    if as_json:
        print_json(told)


def measure(
    plan: Annotated[Path, typer.Argument(help="The plan file: one total, and named queries.", show_default=False)],
    dialect: Annotated[
        str, typer.Option(help="duckdb, postgresql, spark, databricks, snowflake, bigquery, trino or clickhouse.")
    ],
    project: ProjectOption = DEFAULT_PROJECT,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file for the statement.")] = None,
    analyst: AnalystOption = None,
) -> None:
    """Write the one SQL statement that measures a planned release in a warehouse, and reserve its total.

    Run it with any client, keep what it returns as Parquet or CSV, and hand that to tacit release.

    tacit measure yearly.toml --dialect snowflake > measure.sql; tacit release yearly.toml --measured counts.parquet
    """
    from tacit.releases.batch import load_plan, measure_batch
    from tacit.releases.payment import Caller

    with reported("plan"), opened(project, analyst=analyst) as curator:
        sql = measure_batch(curator.context, load_plan(plan), Caller(curator.analyst), dialect)
        if output is None:
            typer.echo(sql, nl=False)
        else:
            output.write_text(sql, encoding="utf-8")


def _measured(path: Path) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    """Return the names and rows of a table that a warehouse wrote; cells of a CSV file are texts."""
    pa = load_arrow()
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            table = load_arrow("pyarrow.parquet").read_table(path)
            return table.column_names, list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        with path.open(encoding="utf-8-sig", newline="") as file:
            names, *rows = [line for line in csv.reader(file, strict=True) if line]
            if any(len(row) != len(names) for row in rows):
                raise ValueError("lines have more or fewer cells than names")
    except (OSError, ValueError, csv.Error, pa.ArrowException) as problem:
        raise InputError("measured", f"{path} is not a table in Parquet or CSV: {problem}") from None
    return names, rows


def _say(*lines: str, quiet: bool) -> None:
    if not quiet:
        say(*lines, whole=True)


def _quoted(batch: BatchPlan, split: Split, *, quiet: bool) -> dict[str, Any]:
    """Return the division of a total for JSON; print it unless ``quiet``."""
    from tacit.query.planning.explain import explain

    _say(f"{batch.name}: {split.guarantee} for everything together", quiet=quiet)
    found = []
    for statistic, plan in zip(batch.statistics, split.plans, strict=True):
        errors = [{"label": error.label, "meaning": error.meaning} for error in explain(plan).errors]
        shown = "; ".join(f"{error['label']}: {error['meaning']}" for error in errors)
        _say(f"  {statistic.name}: {plan.guarantee}; {shown}", quiet=quiet)
        about = {"name": statistic.name, "sql": statistic.sql, "guarantee": str(plan.guarantee), "errors": errors}
        found.append(about)
    return {"guarantee": str(split.guarantee), "statistics": found}


def _show_release(done: BatchRelease, budget: Budget) -> None:
    from tacit.cli.query import show_budget, show_table

    screen = console()
    for statistic, answer in zip(done.batch.statistics, done.answers.values(), strict=True):
        screen.print(statistic.title, style="bold", markup=False)
        show_table(screen, answer)
        screen.print(f"{answer.note} {answer.zeros_note}\n", style="dim", markup=False, soft_wrap=True)
    say(f"{done}", f"Read {done.batch.output / 'report.html'}; the receipt is beside it.", whole=True)
    show_budget(screen, budget)


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
    epsilon: Annotated[str | None, typer.Option("--epsilon", "-e", help="Cost in epsilon.")] = None,
    delta: Annotated[str | None, typer.Option("--delta", help="Delta that goes with the epsilon.")] = None,
    rho: Annotated[str | None, typer.Option("--rho", help="Cost in rho instead, for zcdp accounts.")] = None,
    mu: Annotated[str | None, typer.Option("--mu", help="Cost in mu instead, for gdp accounts.")] = None,
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
    max_rows: Annotated[
        int | None, typer.Option("--max-rows", help="The most rows of one person that count.", show_default=False)
    ] = None,
    analyst: AnalystOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a synthetic table that everyone may use, under one charge.

    The table, a report of what was measured and the receipt are written side by side.

    tacit synth visits --epsilon 1 --output visits.parquet

    tacit synth patients visits --epsilon 1 --output made
    """
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
        for path in (beside, report, receipt):
            _prepare(path)
        screen = console()
        asked: Any = source[0] if len(source) == 1 else dict.fromkeys(source)
        make: Callable[..., SyntheticTable | SyntheticStar] = curator.synthesize
        table = make(
            asked,
            columns or None,
            rows=rows,
            method=method,
            epsilon=epsilon,
            delta=delta,
            rho=rho,
            mu=mu,
            max_rows=max_rows,
            marginals=[[name.strip() for name in each.split(",") if name.strip()] for each in marginals or []] or None,
            progress=None if as_json else lambda words: screen.print(words, markup=False, style="dim"),
        )
        written = [str(output)]
        if len(source) == 2:
            folder.mkdir(parents=True, exist_ok=True)
            written = [str(folder / f"{each.name}.parquet") for each in table.tables]
        for each, file in zip(table.tables, written, strict=True):
            each.save(file)
        report.write_text(table.report() + "\n", encoding="utf-8")
        table.receipt.save(receipt)
        told: dict[str, Any] = {
            "table": written[0],
            "rows": table.rows,
            "report": str(report),
            "receipt": str(receipt),
            "charge": table.charge.text,
        } | ({"beside": written[1]} if len(written) > 1 else {})
        if not as_json:
            screen.print(table.report(), markup=False, soft_wrap=True)
            files = ", ".join([*written, str(report)])
            screen.print(f"{table.charge.text}. Wrote {files} and {receipt}.", markup=False, soft_wrap=True)
    if as_json:
        print_json(told)


def _prepare(path: Path) -> None:
    """Make the folder of a file, and refuse a path that cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not path.exists()
        with path.open("ab"):
            pass
        if is_new:
            path.unlink()
    except OSError as problem:
        raise InputError("output", f"{path} cannot be written: {problem.strerror}") from None


def _draft_beside(project: Path, found: Profile, draft: Path) -> str:
    """Return the draft of a profile, with source and format from the project file where that lies in its folder."""
    from tacit.project.project_file import load, read_model
    from tacit.releases.profile import draft_text

    stated = load(project)
    if stated.engine != "duckdb" or draft.resolve().parent != project.resolve().parent:
        return found.draft()
    source = read_model(project).tables[found.table].source
    return draft_text(found, source, stated.name, stated.sources[found.table].csv)


@with_query_options
def profile(
    table: Annotated[str, typer.Argument(help="A protected table.", show_default=False)],
    project: ProjectOption = DEFAULT_PROJECT,
    quote: Annotated[
        bool, typer.Option("--quote", help="Only show from how many rows each part is of use. Free.")
    ] = False,
    draft: Annotated[
        Path | None, typer.Option("--draft", help="Write a project file with the bounds found.", show_default=False)
    ] = None,
    options: Any = None,
    analyst: AnalystOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Find out privately what a table holds: rows, people, types, NULLs, magnitudes, means and values, for one charge.

    tacit profile visits --epsilon 1 --draft drafted.toml
    """
    with reported("table", as_json=as_json), opened(project, analyst=analyst) as curator:
        stated: Any = request_of(options).stated
        if quote:
            found = curator.explain_profile(table, **stated)
            told: dict[str, Any] = {"charge": found.charge, "parts": [each._asdict() for each in found.parts]}
            text = str(found)
        else:
            made = curator.profile(table, **stated)
            told = {"rows": str(made.rows), "columns": made.to_arrow().to_pylist(), "charge": made.charge.text}
            text = str(made)
            if draft is not None:
                replace_file(draft, _draft_beside(project, made, draft).encode())
                text += f'\nWrote {draft}: fill in the places marked "?".'
    if as_json:
        print_json(told)
    else:
        say(text, whole=True)
