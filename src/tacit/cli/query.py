"""``tacit query``, ``explain``, ``budget`` and ``plan``: ask, see the cost first, see what is left.

``tacit plan`` computes one of people, privacy, error and confidence from the other three.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.common import (
    DEFAULT_PROJECT,
    AnalystOption,
    JsonFlag,
    ProjectOption,
    check_registered,
    columns,
    console,
    find_ledger,
    opened,
    print_json,
    reported,
    say,
)
from tacit.core.charts import altair
from tacit.core.errors import InputError
from tacit.core.extras import load_arrow
from tacit.core.numbers import with_noun
from tacit.core.text_files import csv_text, json_line, visible
from tacit.query.request import OPTIONS, OptionKind, QueryOption, Request

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from tacit.accounting.filters import Line
    from tacit.curator.curator import Curator
    from tacit.ledger.verify import Override
    from tacit.releases.accounts import Budget, Entry, EpsilonSpent
    from tacit.releases.answer import Answer
    from tacit.releases.plans import Quote

    _State = tuple[list[Budget], list[Entry], list[Override]]
    from tacit.learn.sample_size import LearningPlan
    from tacit.mechanisms.planning import SampleSizePlan


SqlArgument = Annotated[str | None, typer.Argument(help='The query in SQL; "-" reads it from standard input.')]
SqlFile = Annotated[Path | None, typer.Option("--file", "-f", help="A file that holds the query.")]

#: More than any query may have; what is longer is refused by its length, not by memory.
_LONGEST = 2**20


def with_query_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command with a parameter ``options`` and, in its place, an option for each option of a query."""
    shown = inspect.signature(command, eval_str=True)
    parameters: list[inspect.Parameter] = []
    for each in shown.parameters.values():
        parameters += map(_parameter, OPTIONS.values()) if each.name == "options" else [each]

    @wraps(command)
    def run(**given: Any) -> None:
        others = {name: value for name, value in given.items() if name not in OPTIONS}
        # The options that were typed: counts as numbers, all else as a list of texts.
        stated = {name: given[name] for name in OPTIONS if given.get(name) not in (None, [])}
        command(**others, options={name: [each] if isinstance(each, str) else each for name, each in stated.items()})

    run.__signature__ = shown.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def request_of(options: Mapping[str, Any], sql: str = "") -> Request:
    """The request that was typed; nothing in it is rounded or guessed."""
    typed = {name: value if isinstance(value, int) else OPTIONS[name].typed(value) for name, value in options.items()}
    return Request.of(sql, typed)


def _parameter(option: QueryOption) -> inspect.Parameter:
    kind: Any = list[str] | None if option.named else int | None if option.kind is OptionKind.COUNT else str | None
    example = f"{option.example}, or column={option.example}" if option.kind is OptionKind.AMOUNTS else option.example
    told = typer.Option(help=f"{option.help[0].upper()}{option.help[1:]}: {example}.")
    place = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(option.name, place, default=None, annotation=Annotated[kind, told])


def read_sql(sql: str | None, file: Path | None) -> str:
    """The query from where it was put: argument, file, or standard input if it is a pipe."""
    if sql is not None and file is not None:
        raise InputError("file", "a query was given as well; give one of them")
    if file is not None:
        try:
            with file.open("rb") as stream:
                return _decoded(stream.read(_LONGEST), "file")
        except OSError as problem:
            raise InputError("file", f"cannot read {file}: {problem.strerror}") from None
    if sql == "-" or (sql is None and not sys.stdin.isatty()):
        return _decoded(sys.stdin.buffer.read(_LONGEST), "sql")
    if sql is None:
        raise InputError("sql", "say what to ask: a query in SQL, --file, or a pipe")
    return sql


def _decoded(content: bytes, parameter: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(parameter, "the query is not UTF-8 text") from None


@with_query_options
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
    as_json: JsonFlag = False,
) -> None:
    """Ask a query in SQL and pay for it.

    Prints the answer with its errors, what was charged and what is left.

    tacit query "SELECT ward, COUNT(*) AS visits FROM visits GROUP BY ward" --epsilon 0.5
    """
    with reported("sql", as_json=as_json or form == "json"):
        request = request_of(options)
        form = check_output(form, output, as_json)
        if plot is not None:
            endings = (".svg", ".png", ".html", ".json")
            if plot.suffix.lower() not in endings:
                raise InputError("plot", f"must end in one of {', '.join(endings)}")
            # Before the charge: an answer that is paid for can be plotted.
            altair()
            check_writable(plot, "plot")
        if receipt is not None:
            check_writable(receipt, "receipt")
        text = read_sql(sql, file)
        with opened(project, analyst=analyst) as curator:
            answer = curator.sql(text, **request.options)
            print_answer(curator, answer, form, output)
            if plot is not None:
                _save(lambda: answer.plot(path=plot), plot, "plot")
            if receipt is not None:
                _save(lambda: answer.paid[1].save(receipt), receipt, "receipt")


@with_query_options
def explain(
    sql: SqlArgument = None,
    project: ProjectOption = DEFAULT_PROJECT,
    file: SqlFile = None,
    options: Any = None,
    analyst: AnalystOption = None,
    engine: Annotated[bool, typer.Option("--engine", help="Also show the SQL that the database would run.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Show what a query would release, its cost and its expected error. Free; reads no data.

    tacit explain "SELECT AVG(cost) AS cost FROM visits" --epsilon 0.5 --suppose 1000
    """
    with reported("sql", as_json=as_json):
        request = request_of(options)
        text = read_sql(sql, file)
        with opened(project, analyst=analyst) as curator:
            quote = curator.explain(text, **request.options)
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
    """Write a file after the answer, which is charged and shown already."""
    try:
        write()
    except InputError as problem:
        raise InputError(option, problem.problem) from None
    except OSError as problem:
        raise InputError(option, f"cannot write {path}: {problem.strerror}; ask again, free") from None


@with_query_options
def budget(
    sql: Annotated[str | None, typer.Argument(help="A query, to count how many more like it fit.")] = None,
    project: ProjectOption = DEFAULT_PROJECT,
    population: Annotated[str | None, typer.Option(help="Which population's account; by default all.")] = None,
    options: Any = None,
    analyst: AnalystOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show what is spent and what is left of each population's budget.

    With a query and its cost, also how many more such queries fit.

    tacit budget "SELECT COUNT(*) FROM visits" --epsilon 0.1
    """
    with reported("sql", as_json=as_json):
        request = request_of(options)
        if sql is None and request.is_priced:
            raise InputError("sql", "a cost needs a query beside it")
        state = _read(project, population, analyst) if sql is None else None
        accounts, waiting, decided = state or _asked(project, population, analyst, sql, request.options)
    if as_json:
        from tacit.client.account_responses import BudgetResponse

        told = [BudgetResponse.of(account).plain() for account in accounts]
        positions = [entry.number for entry in waiting]
        print_json({"budgets": told, "overrides": [asdict(each) for each in decided], "undelivered": positions})
        return
    screen = console()
    for account in accounts:
        show_budget(screen, account)
    if waiting:
        say("Paid, not delivered (running, or their process ended):")
        lines = (f"{each.number} {each.text}: {' '.join(each.sql.split())}" for each in waiting)
        say(
            *(f"  {visible(line)}" for line in lines),
            "`tacit deliver --all` answers them under their charges.",
            whole=True,
        )
    say(*(f"Decided by an operator: {visible(str(each))}." for each in decided), style="yellow", whole=True)


def show_budget(screen: Console, account: Budget) -> None:
    """Print one account: a bar for each currency, the total and each share."""
    from rich.text import Text

    from tacit.core.numbers import format_up, round_down

    shares = [share for share in account.balances if share.limited or share is account.balances[0]]
    whole = account.epsilons[0]
    limits = [f"{line.currency} {format_up(round_down(line.cap, 6))}" for line in account.lines if line.cap]
    caps = ", ".join(limits) if whole is None else whole.cap_text
    screen.print(Text.assemble((account.population, "bold"), f": at most {caps} for all answers together"))
    epsilons = dict(zip(map(id, account.balances), account.epsilons, strict=True))
    rows = ((share.owner if i else "total", share.lines, epsilons[id(share)]) for i, share in enumerate(shares))
    screen.print(budget_table(rows))
    if not account.durable:
        screen.print("Kept in memory: it ends with this process.")
    for sentence in account.notes:
        screen.print(sentence, style="yellow" if sentence.startswith("Warning") else "", soft_wrap=True)
    for sentence in account.cautions:
        screen.print(f"Caution: {sentence}", style="yellow", soft_wrap=True)
    if account.queries is not None:
        screen.print(f"{with_noun(account.queries, 'more such query fits', 'more such queries fit')}.")


def budget_table(rows: Iterable[tuple[str, Sequence[Line], EpsilonSpent | None]]) -> Table:
    """A bar for each owner and currency that has a cap; first for epsilon, where the account counts something else."""
    from rich.text import Text

    from tacit.core.numbers import format_up, round_down

    found: list[list[str | Text]] = []

    def add(owner: str, currency: str, share: float, spent: str, left: str) -> None:
        filled = min(max(round(20 * share), 1 if share > 0 else 0), 20)
        bar = Text("█" * filled + "░" * (20 - filled), "green" if share < 0.75 else "yellow" if share < 1 else "red")
        found.append([owner, currency, bar, spent, Text(f"{left} left", "bold")])

    for owner, lines, epsilon in rows:
        if epsilon is not None:
            # As long as the share of the account: epsilon does not grow in proportion to charges.
            add(owner, "epsilon", float(lines[0].share), str(epsilon), str(epsilon.left))
        for line in lines:
            if line.cap:
                spent = format_up(Fraction(min(line.spent, line.cap)))
                cap, left = (format_up(round_down(each, 6)) for each in (line.cap, line.left))
                add(owner, line.currency, float(line.share), f"{spent} of {cap} spent", left)
    return columns(found)


def _asked(
    project: Path, population: str | None, analyst: str | None, sql: str | None, options: Mapping[str, Any]
) -> _State:
    """Open the project and return the state of its accounts; with a query, of the one that it is charged to."""
    with opened(project, analyst=analyst) as curator:
        if sql is not None:
            quote = curator.explain(sql, **options)
            if quote.is_public:
                raise InputError("sql", "reads public tables alone and costs nothing: any number of such queries fit")
            accounts = [curator.budget(quote)]
        else:
            found = dict.fromkeys(each.table.population for each in curator.tables())
            names = [name for name in found if name is not None] if population is None else [population]
            accounts = [curator.budget(population=name) for name in names]
        shown = {"", *(account.population for account in accounts)}
        waiting = [entry for entry in curator.undelivered() if entry.population in shown]
        return accounts, waiting, [each for each in curator.ledger.overrides() if each.population in shown]


def _read(project: Path, population: str | None, analyst: str | None) -> _State | None:
    """Return the accounts from the ledger alone, in half the time: no data is opened. None where that is not enough."""
    from tacit.ledger import Ledger
    from tacit.project.project_file import read_model
    from tacit.releases.accounts import OWNER, Budget, account_kind, filter_of

    try:
        place, model = find_ledger(project), read_model(project)
    except InputError:
        return None
    stated = dict.fromkeys(table.population or "" for table in model.tables.values() if not table.public)
    if not place.is_file or not place.exists or not stated.keys() <= model.populations.keys():
        return None
    with Ledger.open(place.ledger, anchor=place.anchor, create=False) as ledger:
        names = list(stated) if population is None else [population]
        waiting = [each for each in ledger.history(project=model.project.name) if each.undelivered]
        if waiting or not {*names, *stated} <= {*ledger.accounts()}:
            return None
        kinds = {}
        for name in stated:
            account = model.populations[name]
            limit = filter_of(name, account)
            kinds[name] = account_kind(name, account, limit)
            ledger.ensure_account(name, limit)
            if account.policy_version and ledger.period(name) != account.policy_version:
                return None
        if analyst is not None:
            check_registered(ledger, analyst)
        found = [ledger.budget(name, analyst=analyst or OWNER) for name in names]
        decided = [each for each in ledger.overrides() if each.population in {"", *names}]
        return [Budget.of(each, durable=True, account=kinds[each.population]) for each in found], [], decided


# -- answers as text, CSV, JSON and Parquet

#: As after a Python answer, with what the command line has for it.
_MARKED = "* The bias may exceed the interval; --json has bias_low and bias_high, which include it."
FORMATS = ("table", "csv", "json", "parquet")
_BY_ENDING = {".csv": "csv", ".json": "json", ".parquet": "parquet", ".pq": "parquet", ".txt": "table"}


def check_output(form: str | None, output: Path | None, as_json: bool) -> str:
    """Form to write: as stated, else by the ending of the file, else a table. Checked before anything is spent."""
    if as_json:
        if form not in (None, "json"):
            raise InputError("format", f"contradicts --json; got {form!r}")
        form = "json"
    if form is None:
        form = "table" if output is None else _BY_ENDING.get(output.suffix.lower(), "table")
    if form not in FORMATS:
        raise InputError("format", f"must be one of {', '.join(FORMATS)}, got {form!r}")
    if form == "parquet" and output is None:
        raise InputError("output", "Parquet is not text; say which file to write: --output answer.parquet")
    if form == "parquet":
        load_arrow("pyarrow.parquet")
    if output is not None:
        check_writable(output, "output")
    return form


def check_writable(path: Path, option: str) -> None:
    """Find out before spending whether a file can be written."""
    if path.is_dir():
        raise InputError(option, f"{path} is a folder")
    if not path.absolute().parent.is_dir():
        raise InputError(option, f"there is no folder {path.absolute().parent}")


def print_answer(curator: Curator, answer: Answer, form: str, output: Path | None) -> None:
    """Write an answer; beside CSV and Parquet, what it cost goes to stderr, where no program reads it as data."""
    if form == "table" and output is None:
        show_answer(console(), curator, answer)
        return
    if form == "json" and output is None:
        from tacit.client.responses import answer_json

        print_json(answer_json(curator, answer))
        return
    try:
        _write(curator, answer, form, output)
    except OSError as problem:
        raise InputError("output", f"cannot write {output}: {problem.strerror or problem}; ask again, free") from None
    for line in _lines(curator, answer):
        typer.echo(line, err=True)


def show_answer(screen: Console, curator: Curator, answer: Answer) -> None:
    """The table with its errors, what was charged, and what is left."""
    show_table(screen, answer)
    for line in _lines(curator, answer):
        screen.print(line, style="dim", markup=False, soft_wrap=True)


def show_table(screen: Console, answer: Answer) -> None:
    """The table with its errors; under it how many rows are not shown, and the meaning of the mark."""
    from tacit.releases.answer import cut_note, has_marks, rich_table

    screen.print(rich_table(answer))
    cut = cut_note(answer)
    words = [f"{cut} All are in --format csv, and in a file: --output answer.csv."] if cut else []
    for line in (*words, *([_MARKED] if has_marks(answer) else [])):
        screen.print(line, style="dim", markup=False, soft_wrap=True)


def _lines(curator: Curator, answer: Answer) -> list[str]:
    number = answer.charge.number
    if answer.is_public:
        return [answer.note]
    return [
        f"{answer.note} {answer.zeros_note}".rstrip(),
        f"{str(curator.budget(answer)).removesuffix('.')}.",
        f"Receipt {number}: tacit receipt show {number}",
    ]


def _write(curator: Curator, answer: Answer, form: str, output: Path | None) -> None:
    from tacit.client.responses import answer_json
    from tacit.releases.answer import plain

    if form == "parquet":
        load_arrow("pyarrow.parquet").write_table(answer.intervals(), output)
        return
    if form == "csv":
        names, kinds, rows = answer.interval_rows()
        shown = ([plain(value, kind) for value, kind in zip(row, kinds, strict=True)] for row in rows)
        text = csv_text(names, shown)
    else:
        text = f"{json_line(answer_json(curator, answer)) if form == 'json' else answer}\n"
    if output is None:
        typer.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8", newline="")


def plan(
    mechanism: Annotated[
        str,
        typer.Argument(
            help="count (laplace), gaussian, histogram, mean, selection, survey (randomized_response), or learning."
        ),
    ],
    within: Annotated[str | None, typer.Option(help="Error to stay within, as a share of the people: 0.01.")] = None,
    confidence: Annotated[str | None, typer.Option(help="Probability of staying within it: 0.95.")] = None,
    epsilon: Annotated[str | None, typer.Option(help="Epsilon of each person: 0.1.")] = None,
    people: Annotated[int | None, typer.Option(help="Number of people who take part.")] = None,
    delta: Annotated[str | None, typer.Option(help="Delta, for gaussian: 1e-6.")] = None,
    bins: Annotated[int | None, typer.Option(help="Number of bins, for histogram.")] = None,
    candidates: Annotated[int | None, typer.Option(help="Number of candidates, for selection.")] = None,
    dimensions: Annotated[int | None, typer.Option(help="Number of columns, for learning.")] = None,
    relation: Annotated[str | None, typer.Option(help="add_remove or replace_one.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Plan a study: state three of --within, --confidence, --epsilon and --people, and the fourth is computed.

    tacit plan count --within 0.01 --confidence 0.95 --epsilon 0.1

    tacit plan survey --within 0.05 --confidence 0.95 --people 6400

    tacit plan learning --within 0.05 --epsilon 1 --delta 1e-6 --dimensions 20
    """
    with reported("mechanism", as_json=as_json):
        numbers = {"within": within, "confidence": confidence, "epsilon": epsilon, "people": people, "delta": delta}
        others = {"bins": bins, "candidates": candidates, "relation": relation}
        found: SampleSizePlan | LearningPlan
        if mechanism == "learning":
            found, told = _plan_learning(numbers | others | {"dimensions": dimensions})
        elif dimensions is not None:
            raise InputError("dimensions", "has a meaning for learning only")
        else:
            found, told = _plan_mechanism(mechanism.replace("-", "_"), numbers | others)
    if as_json:
        print_json(told | {"cautions": list(found.cautions)})
        return
    solved = told.get("solved")
    if solved:
        console().print(columns((*row, "<- computed" if row[0] == solved else "") for row in found.rows()))
    say(str(found), whole=True)
    say(*(f"Note: {sentence}" for sentence in found.cautions), style="yellow")


def _plan_mechanism(mechanism: str, given: Mapping[str, Any]) -> tuple[SampleSizePlan, dict[str, Any]]:
    from tacit.core.numbers import float_nearest, format_up, round_down
    from tacit.mechanisms.planning import plan as make_plan

    found = make_plan(mechanism, **given)
    return found, {
        "mechanism": found.mechanism,
        "solved": found.solved,
        "people": found.people,
        "epsilon": float(format_up(found.epsilon, 12)),
        "within": float(format_up(found.within, 12)),
        "confidence": float_nearest(round_down(found.confidence, 12)),
        "delta": None if found.delta is None else float(format_up(found.delta, 12)),
        "outputs": found.outputs,
        "relation": found.relation.value,
    }


def _plan_learning(given: Mapping[str, Any]) -> tuple[LearningPlan, dict[str, Any]]:
    from tacit.core.numbers import format_up
    from tacit.learn.sample_size import plan_learning

    needed = ("within", "epsilon", "delta", "dimensions")
    for name, value in given.items():
        if name not in needed and value is not None:
            raise InputError(name, "has no meaning for learning, which computes the rows")
        if name in needed and value is None:
            raise InputError(name, "is needed by learning: state --within, --epsilon, --delta and --dimensions")
    excess, epsilon, delta, dimensions = (given[name] for name in needed)
    found = plan_learning(excess=excess, epsilon=epsilon, delta=delta, dimensions=dimensions)
    told: dict[str, Any] = {"mechanism": "learning", "dimensions": found.dimensions}
    exact = zip(needed, (found.excess, found.epsilon, found.delta), strict=False)
    told |= {name: float(format_up(value, 12)) for name, value in exact}
    rows = {"theorem": found.theorem, "measured": found.measured}
    return found, told | {name: {"rows": rows[name], "says": how} for name, _, how in found.rows()}
