"""``tacit query`` and ``tacit explain``: ask a question, or see its price first."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.answer_output import check_output, check_writable, print_answer
from tacit.cli.errors import reported
from tacit.cli.open_project import DEFAULT_PROJECT, AnalystOption, ProjectOption, opened
from tacit.cli.query_options import SqlArgument, SqlFile, read_sql, request_of, with_question_options
from tacit.cli.terminal import JsonFlag, console, is_interactive, print_json, say
from tacit.core.charts import altair
from tacit.core.errors import InputError

if TYPE_CHECKING:
    from tacit.releases.planner import Quote


@with_question_options
def query(
    sql: SqlArgument = None,
    project: ProjectOption = DEFAULT_PROJECT,
    file: SqlFile = None,
    options: Any = None,
    analyst: AnalystOption = None,
    plot: Annotated[Path | None, typer.Option(help="Save a chart with error bars: .svg, .png, .html.")] = None,
    form: Annotated[str | None, typer.Option("--format", help="table, csv, json or parquet.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the answer to a file.")] = None,
    receipt: Annotated[Path | None, typer.Option(help="Save the signed receipt to a file.")] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Show negative counts as released; files always hold them.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Ask a question in SQL and pay for it.

    Prints the answer with its errors, what was charged and what is left. Without a question, on a terminal, it opens a
    prompt that shows every price before it asks.

    tacit query "SELECT ward, COUNT(*) AS visits FROM visits GROUP BY ward" --epsilon 0.5
    """
    with reported("sql", as_json=as_json or form == "json"):
        price = request_of(options)
        form = check_output(form, output, as_json)
        if plot is not None:
            _check_plot(plot)
        if receipt is not None:
            check_writable(receipt, "receipt")
        asked = sql is not None or file is not None or not is_interactive()
        text = read_sql(sql, file) if asked else None
        if text is None and (form != "table" or output is not None):
            raise InputError("sql", "say what to ask: a question in SQL, --file, or a pipe")
        with opened(project, analyst=analyst) as curator:
            if text is None:
                from tacit.cli.repl import Prompt

                Prompt(curator, price, console()).run()
                return
            answer = curator.sql(text, **price.options)
            answer = answer.raw if raw else answer
            print_answer(curator, answer, form, output)
            if plot is not None:
                _save(lambda: answer.plot(path=plot), plot, "plot")
            if receipt is not None:
                _save(lambda: answer.paid[1].save(receipt), receipt, "receipt")


@with_question_options
def explain(
    sql: SqlArgument = None,
    project: ProjectOption = DEFAULT_PROJECT,
    file: SqlFile = None,
    options: Any = None,
    analyst: AnalystOption = None,
    engine: Annotated[bool, typer.Option("--engine", help="Also show the SQL that the database would run.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Show what a question would release, its price and its expected error. Free; reads no data.

    tacit explain "SELECT AVG(cost) AS cost FROM visits" --epsilon 0.5 --suppose 1000
    """
    with reported("sql", as_json=as_json):
        price = request_of(options)
        text = read_sql(sql, file)
        if text is None:
            raise InputError("sql", "say what to explain: a question in SQL, --file, or a pipe")
        with opened(project, analyst=analyst) as curator:
            quote = curator.explain(text, **price.options)
            budget = None if quote.is_public else curator.budget(quote)
    if as_json:
        from tacit.client.account_responses import BudgetResponse

        content = json.loads(quote.to_json())
        print_json(
            {
                **content,
                "engine_sql": content["engine_sql"] if engine else None,
                "budget": None if budget is None else BudgetResponse.of(budget).plain(),
            }
        )
        return
    left = [] if budget is None else [f"Budget      {budget}"]
    say(show_quote(quote, engine=engine), *left, whole=True)


def show_quote(quote: Quote, *, engine: bool = False) -> str:
    """Text of a quote, with or without the statements of the database."""
    return str(quote.explanation if engine else replace(quote.explanation, engine_sql=None))


def _save(write: Callable[[], object], path: Path, option: str) -> None:
    """Write something beside the answer, which is paid for and shown already."""
    try:
        write()
    except InputError as problem:
        raise InputError(option, problem.problem) from None
    except OSError as problem:
        raise InputError(option, f"cannot write {path}: {problem.strerror}; ask again, free") from None


def _check_plot(plot: Path) -> None:
    endings = (".svg", ".png", ".html", ".json")
    if plot.suffix.lower() not in endings:
        raise InputError("plot", f"must end in one of {', '.join(endings)}")
    # Before the charge: an answer that is paid for can be plotted.
    altair()
    check_writable(plot, "plot")
