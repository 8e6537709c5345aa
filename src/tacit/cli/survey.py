"""``tacit survey``: collect answers that are randomised on people's devices, without a trusted party."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.errors import reported
from tacit.cli.open_project import DEFAULT_PROJECT, ProjectOption
from tacit.cli.operator_options import OperatorOption, opened_ledger, operator_name
from tacit.cli.terminal import JsonFlag, tell
from tacit.cli.tokens import people_of
from tacit.core.errors import InputError
from tacit.core.numbers import format_up

if TYPE_CHECKING:
    from tacit.local import LocalProtocol
    from tacit.server.identity.surveys import SurveyRecord

app = typer.Typer(no_args_is_help=True, help="Surveys whose answers are randomised on people's devices.")

_Name = Annotated[str, typer.Argument(help="Name of the survey, as in its address.", show_default=False)]


@app.command()
def create(
    name: _Name,
    project: ProjectOption = DEFAULT_PROJECT,
    epsilon: Annotated[
        str, typer.Option(help="Epsilon of one report, which it costs its sender.", show_default=False)
    ] = "",
    category: Annotated[
        list[str] | None, typer.Option(help="A possible answer; give two or more. Other answers count as the last.")
    ] = None,
    bounds: Annotated[str | None, typer.Option(help="For the mean of a number: its bounds, such as 0,100.")] = None,
    question: Annotated[str, typer.Option(help="Question for the people who are asked.")] = "",
    protocol: Annotated[
        str, typer.Option(help="k-ary, unary, local-hashing or hadamard; auto takes the smallest error.")
    ] = "auto",
    operator: OperatorOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Begin a survey; the guarantee for each sender is recorded in the ledger.

    tacit survey create drinks --category tea --category coffee --category other --epsilon 1
    """
    with reported("name", as_json=as_json), opened_ledger(project) as ledger:
        made, reason = _protocol(epsilon, category or [], bounds, protocol)
        with people_of(ledger, project) as known:
            survey = known.surveys.create(name, made, question=question, operator=operator_name(operator))
            total = known.surveys.total()
        told = {**_about(survey), "reason": reason, "total_epsilon": format_up(total)}
        way = f"People answer at /console/survey/{name} of the server; programs send reports to /v1/collect/{name}."
        tell(told, reason, way, _total(total), as_json=as_json)


@app.command()
def status(project: ProjectOption = DEFAULT_PROJECT, as_json: JsonFlag = False) -> None:
    """List all surveys, their reports so far, and the total epsilon of a person who answers every open one."""
    with reported(as_json=as_json), opened_ledger(project) as ledger, people_of(ledger, project) as known:
        surveys = known.surveys
        told = [{**_about(each), "n": surveys.sums(each).n} for each in surveys.all()]
        lines = [
            f"{each['name']}: {'open' if each['open'] else 'closed'}, {each['n']:,} reports by "
            f"{each['protocol']['protocol']}, ε {each['epsilon']} each"
            for each in told
        ]
        none = ["There are no surveys. tacit survey create NAME makes one."]
        lines = [*lines, _total(surveys.total())] if lines else none
        tell({"surveys": told, "total_epsilon": format_up(surveys.total())}, *lines, as_json=as_json)


@app.command()
def results(
    name: _Name,
    project: ProjectOption = DEFAULT_PROJECT,
    confidence: Annotated[str, typer.Option(help="Confidence of all intervals together.")] = "0.95",
    consistent: Annotated[
        bool, typer.Option("--consistent", help="Adjust shares so that none is negative and all add up to one.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Write a chart to this file: .svg, .png or .html.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Show the estimates of a survey with simultaneous intervals.

    tacit survey results drinks --plot drinks.svg
    """
    with reported("name", as_json=as_json), opened_ledger(project) as ledger, people_of(ledger, project) as known:
        survey = known.surveys.one(name)
        sums = known.surveys.sums(survey)
        estimate = sums.estimate(confidence=confidence, consistent=consistent)
        if plot is not None:
            if not hasattr(estimate, "plot"):
                raise InputError("plot", "draws frequencies alone; leave it out for this survey")
            estimate.plot(survey.question or survey.name).save(plot)
        rows = estimate.rows()
        told = {"name": name, "n": sums.n, "confidence": float(confidence), "estimates": [r._asdict() for r in rows]}
        head = f"{sums.n:,} reports; all intervals hold with {float(confidence):.0%} confidence"
        longest = max((len(row.label) for row in rows), default=0)
        lines = (f"{row.label:<{longest}}  {row.value:>9.4f}  [{row.low:.4f}, {row.high:.4f}]" for row in rows)
        tell(told, head, *lines, as_json=as_json)


@app.command()
def close(
    name: _Name, project: ProjectOption = DEFAULT_PROJECT, operator: OperatorOption = None, as_json: JsonFlag = False
) -> None:
    """Take no more reports of a survey; its estimates stay."""
    with reported("name", as_json=as_json), opened_ledger(project) as ledger, people_of(ledger, project) as known:
        survey = known.surveys.close(name, operator=operator_name(operator))
        tell(_about(survey), f"{name} is closed.", as_json=as_json)


def _protocol(epsilon: str, categories: list[str], bounds: str | None, protocol: str) -> tuple[LocalProtocol, str]:
    from tacit.local import LocalMean, protocol_from

    if not epsilon:
        raise InputError("epsilon", "state what one report costs its sender, such as --epsilon 1")
    if bounds is not None:
        low, comma, high = bounds.partition(",")
        if not comma or categories:
            raise InputError("bounds", "must be two numbers such as 0,100, without categories")
        mean = LocalMean(bounds=(low, high), epsilon=epsilon)
        return mean, f"Mean of a number from {low} to {high}, ε {epsilon} for each report."
    if len(categories) < 2:
        raise InputError("category", "state two or more: --category yes --category no")
    if protocol == "auto":
        protocol = "k-ary"
    made = protocol_from({"protocol": protocol, "categories": categories, "epsilon": epsilon})
    return made, f"{protocol} over {len(categories)} categories, ε {epsilon} for each report."


def _about(survey: SurveyRecord) -> dict[str, Any]:
    return {
        "name": survey.name,
        "question": survey.question,
        "open": survey.open,
        "epsilon": format_up(survey.protocol.epsilon),
        "protocol": survey.protocol.spec(),
    }


def _total(total: Any) -> str:
    return f"A person who sends one report to every open survey has spent ε {format_up(total)} in all."
