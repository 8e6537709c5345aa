"""``tacit release``: publish a planned set of statistics under one total."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.errors import reported
from tacit.cli.open_project import DEFAULT_PROJECT, AnalystOption, ProjectOption, opened
from tacit.cli.terminal import JsonFlag, console, print_json, progress_bar, say

if TYPE_CHECKING:
    from tacit.curator.curator import Curator
    from tacit.releases.batch import BatchPlan, BatchRelease, Split
    from tacit.releases.workload import PlannedWorkload


def release(
    plan: Annotated[Path, typer.Argument(help="The plan file: one total, and named questions.", show_default=False)],
    project: ProjectOption = DEFAULT_PROJECT,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The folder to write to.")] = None,
    quote: Annotated[bool, typer.Option("--quote", help="Only show how the total would be divided. Free.")] = False,
    analyst: AnalystOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Publish a planned set of statistics under one total: tables, a report and a receipt.

    The total is divided as tightly as the account allows. After an interruption run it again: nothing is paid twice.

    tacit release yearly.toml
    """
    from tacit.releases.batch import quote_batch
    from tacit.releases.workload import load_workload

    with reported("plan", as_json=as_json), opened(project, analyst=analyst) as curator:
        planned = load_workload(plan)
        if planned is not None:
            told = _workload(curator, planned, output, quote=quote, quiet=as_json)
        elif quote:
            batch, split = quote_batch(curator.context, plan)
            told = _quote_json(batch, split)
            if not as_json:
                _show_quote(batch, told)
        else:
            with progress_bar(quiet=as_json) as advance:
                done = curator.publish(plan, output=output, progress=advance)
            told = _release_json(curator, done)
            if not as_json:
                _show_release(curator, done)
    if as_json:
        print_json(told)


def _workload(
    curator: Curator, planned: PlannedWorkload, output: Path | None, *, quote: bool, quiet: bool
) -> dict[str, Any]:
    """Quote or release a workload, and tell about it."""
    from tacit.client.responses import charge_json
    from tacit.releases.payment import Caller
    from tacit.releases.workload import release_workload

    quoted = planned.quote(curator.context)
    told: dict[str, Any] = {
        "release": planned.name, "queries": quoted.plan.count, "guarantee": quoted.charge,
        "root_mean_square_error": quoted.root_mean_square_error,
    }  # fmt: skip
    if not quiet:
        say(str(quoted), whole=True)
    if quote:
        return told
    done = release_workload(curator.context, planned, Caller(curator.analyst), output)
    if not quiet:
        written = f"{len(done.files)} files in {done.files[-1].parent}; the receipt is beside them."
        say(done.answer.charge.text, written, whole=True)
    return told | {"files": [str(file) for file in done.files], "charge": charge_json(done.answer.charge)}


def _quote_json(batch: BatchPlan, split: Split) -> dict[str, Any]:
    from tacit.query.planning.explain import explain

    return {
        "release": batch.name,
        "guarantee": str(split.guarantee),
        "statistics": [
            {
                "name": statistic.name,
                "sql": statistic.sql,
                "guarantee": str(plan.guarantee),
                "errors": [{"label": error.label, "meaning": error.meaning} for error in explain(plan).errors],
            }
            for statistic, plan in zip(batch.statistics, split.plans, strict=True)
        ],
    }


def _release_json(curator: Curator, done: BatchRelease) -> dict[str, Any]:
    from tacit.client.account_responses import BudgetResponse
    from tacit.client.responses import charge_json

    population = done.charge.population
    return {
        "release": done.batch.name,
        "guarantee": str(done.split.guarantee),
        "statistics": list(done.answers),
        "files": [str(file) for file in done.files],
        "charge": charge_json(done.charge),
        "budget": BudgetResponse.of(curator.budget(population=population)).plain(),
    }


def _show_quote(batch: BatchPlan, told: dict[str, Any]) -> None:
    say(f"{batch.name}: {told['guarantee']} for everything together", whole=True)
    for one in told["statistics"]:
        errors = "; ".join(f"{error['label']}: {error['meaning']}" for error in one["errors"])
        say(f"  {one['name']}: {one['guarantee']}; {errors}", whole=True)


def _show_release(curator: Curator, done: BatchRelease) -> None:
    from tacit.cli.budget import show_budget
    from tacit.releases.answer import rich_table

    screen = console()
    for answer in done.answers.values():
        screen.print(rich_table(answer))
    say(f"{done}", f"Read {done.batch.output / 'report.html'}; the receipt is beside it.", whole=True)
    show_budget(screen, curator.budget(population=done.charge.population))
