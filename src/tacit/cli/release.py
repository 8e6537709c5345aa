"""``tacit release``: publish a planned set of statistics under one total; ``tacit deliver``: run what was paid for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.open_project import DEFAULT_PROJECT, AnalystOption, ProjectOption, opened
from tacit.cli.query import print_answer
from tacit.cli.terminal import JsonFlag, console, print_json, progress_bar, reported, say
from tacit.core.errors import FailedRunError, InputError, TacitError
from tacit.core.text_files import visible

if TYPE_CHECKING:
    from tacit.releases.accounts import Budget
    from tacit.releases.batch import BatchPlan, BatchRelease, Split


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
    from tacit.releases.batch import WorkloadPlan, load_plan, quote_batch, release_batch, release_workload
    from tacit.releases.payment import Caller
    from tacit.releases.published_table import read_table

    with reported("plan", as_json=as_json), opened(project, analyst=analyst) as curator:
        planned = load_plan(plan)
        planned = planned if output is None else replace(planned, output=output)
        told: dict[str, Any] = {"release": planned.name}
        if isinstance(planned, WorkloadPlan):
            quoted = curator.explain_workload(planned.source, planned.workload, **planned.options)
            told |= {"queries": quoted.plan.count, "guarantee": quoted.charge}
            told |= {"root_mean_square_error": quoted.root_mean_square_error}
            _say(str(quoted), quiet=as_json)
            if not quote:
                counts = release_workload(curator.context, planned, Caller(curator.analyst))
                written = f"{len(counts.files)} files in {planned.output}; the receipt is beside them."
                _say(counts.answer.charge.text, written, quiet=as_json)
                told |= {"files": list(map(str, counts.files)), "charge": charge_json(counts.answer.charge)}
        elif quote:
            told |= _quoted(planned, quote_batch(curator.context, planned), quiet=as_json)
        else:
            context = curator.context
            if measured is not None:
                table = read_table(measured)
                context = replace(context, engine=warehouse_measured(context.engine, table.names, table.rows))
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
    from tacit.releases.batch import WorkloadPlan, load_plan, measure_batch
    from tacit.releases.payment import Caller

    with reported("plan"), opened(project, analyst=analyst) as curator:
        planned = load_plan(plan)
        if isinstance(planned, WorkloadPlan):
            raise InputError("plan", "of a workload is counted by the project's own engine; state [statistics.<name>]")
        sql = measure_batch(curator.context, planned, Caller(curator.analyst), dialect)
        if output is None:
            typer.echo(sql, nl=False)
        else:
            output.write_text(sql, encoding="utf-8")


def _say(*lines: str, quiet: bool) -> None:
    if not quiet:
        say(*lines, whole=True)


def _quoted(batch: BatchPlan, split: Split, *, quiet: bool) -> dict[str, Any]:
    """The division of a total, for programs; said to people unless ``quiet``."""
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
