"""``tacit plan``: compute one of people, privacy, error and confidence from the other three."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli.terminal import JsonFlag, print_json, reported

if TYPE_CHECKING:
    from tacit.mechanisms.planning import SampleSizePlan


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
    from tacit.core.errors import InputError
    from tacit.mechanisms.planning import plan as make_plan

    if mechanism == "learning":
        given = {"confidence": confidence, "people": people, "bins": bins, "candidates": candidates}
        with reported("mechanism", as_json=as_json):
            for name, value in (given | {"relation": relation}).items():
                if value is not None:
                    raise InputError(name, "has no meaning for learning, which computes the rows")
            _plan_learning(within, epsilon, delta, dimensions, as_json=as_json)
        return
    with reported("mechanism", as_json=as_json):
        if dimensions is not None:
            raise InputError("dimensions", "has a meaning for learning only")
        found = make_plan(
            mechanism.replace("-", "_"),
            within=within,
            confidence=confidence,
            epsilon=epsilon,
            people=people,
            delta=delta,
            bins=bins,
            candidates=candidates,
            relation=relation,
        )
    if as_json:
        print_json(_as_json(found))
    else:
        _show(found)


def _as_json(found: SampleSizePlan) -> dict[str, object]:
    from tacit.core.numbers import float_nearest, format_up, round_down

    return {
        "mechanism": found.mechanism,
        "solved": found.solved,
        "people": found.people,
        "epsilon": float(format_up(found.epsilon, 12)),
        "within": float(format_up(found.within, 12)),
        "confidence": float_nearest(round_down(found.confidence, 12)),
        "delta": None if found.delta is None else float(format_up(found.delta, 12)),
        "outputs": found.outputs,
        "relation": found.relation.value,
        "cautions": list(found.cautions),
    }


def _show(found: SampleSizePlan) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for label, text in found.rows():
        style = "bold green" if label == found.solved else ""
        table.add_row(label, text, "<- computed" if label == found.solved else "", style=style)
    console = Console(highlight=False)
    console.print(table)
    console.print(f"\n{found}")
    for sentence in found.cautions:
        console.print(f"Note: {sentence}", style="yellow")


def _plan_learning(
    within: str | None, epsilon: str | None, delta: str | None, dimensions: int | None, *, as_json: bool
) -> None:
    from tacit.core.errors import InputError
    from tacit.core.numbers import format_up
    from tacit.learn.sample_size import plan_learning

    if within is None or epsilon is None or delta is None or dimensions is None:
        named = {"within": within, "epsilon": epsilon, "delta": delta, "dimensions": dimensions}
        wrong = next(name for name, value in named.items() if value is None)
        raise InputError(wrong, "is needed by learning: state --within, --epsilon, --delta and --dimensions")
    found = plan_learning(excess=within, epsilon=epsilon, delta=delta, dimensions=dimensions)
    if as_json:
        numbers = {
            name: float(format_up(value, 12))
            for name, value in (("within", found.excess), ("epsilon", found.epsilon), ("delta", found.delta))
        }
        constants = {name: how for name, _, how in found.rows()}
        theorem = {"rows": found.theorem, "says": constants["theorem"]}
        measured = {"rows": found.measured, "says": constants["measured"]}
        told = {"mechanism": "learning", **numbers, "dimensions": found.dimensions, "theorem": theorem}
        print_json(told | {"measured": measured, "cautions": list(found.cautions)})
        return
    typer.echo(str(found))
    for sentence in found.cautions:
        typer.echo(f"Note: {sentence}")
