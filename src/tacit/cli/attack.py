"""``tacit attack``: show on one's own table why removing names, publishing statistics or sampling is not enough."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tacit.cli.terminal import JsonFlag, console, print_json, progress_bar, reported
from tacit.core.errors import InputError
from tacit.core.text_files import visible

if TYPE_CHECKING:
    from rich.console import Console

    from tacit.audit.attacks.results import Chapter, Result
    from tacit.audit.attacks.scenarios import Scene, Target

_EPSILONS: Final = ("0.1", "0.5", "2", "8")
_WIDEST: Final = 96


def attack(
    name: Annotated[str | None, typer.Argument(help="One attack; by default all.", show_default=False)] = None,
    project: Annotated[
        Path | None, typer.Option("--project", "-p", help="Attack a table of this project instead of the demo's.")
    ] = None,
    table: Annotated[str | None, typer.Option(help="Which table; by default the first with a unit column.")] = None,
    secret: Annotated[str | None, typer.Option(help="The column that the attacker wants to learn.")] = None,
    known: Annotated[str | None, typer.Option(help="Columns that outsiders know, such as age,sex,town.")] = None,
    epsilon: Annotated[
        list[str] | None, typer.Option(help="Privacy budget of the curator under attack; may be repeated.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a report with charts to this file.")] = None,
    show_victims: Annotated[
        bool, typer.Option("--show-victims", help="Also print a few of the people found, with their secrets.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Show why removing names, publishing totals or sampling rows protects no one, and what a curator changes.

    Runs on the demo's made-up hospital, or on your own table: on this machine, with an account in memory. Nothing is
    sent anywhere, and your ledger is not touched. The figures are about many people, but exact: do not publish them.

    tacit attack

    tacit attack linkage --project tacit.toml --known birth,sex,town --html report.html
    """
    with reported("name", as_json=as_json):
        from tacit.audit.attacks.results import report_page
        from tacit.audit.attacks.scenarios import ATTACKS, demo_target, found_people, open_scene, project_target
        from tacit.core.numbers import exact_positive

        if name is not None and name not in ATTACKS:
            raise InputError("name", f"must be one of {', '.join(ATTACKS)}; got {name!r}")
        wanted = list(ATTACKS) if name is None else [name]
        epsilons = sorted({exact_positive(text, "epsilon") for text in epsilon or _EPSILONS})
        if project is None and (table or secret or known):
            raise InputError("project", "say which project --table, --secret and --known are about")
        begun = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix="tacit-attack-") as folder:
            target = demo_target(Path(folder)) if project is None else project_target(project, table, secret, known)
            with open_scene(target) as scene:
                about = _about(scene, demo=project is None)
                chapters = _run(scene, wanted, epsilons, quiet=as_json)
                people = [
                    {**dict(zip(scene.target.known, known, strict=True)), "learned": learned}
                    for known, learned in (found_people(scene) if show_victims else ())
                ]
        if html is not None:
            try:
                html.write_text(report_page("Why not just anonymise?", chapters, about=about), encoding="utf-8")
            except OSError as problem:
                raise InputError("html", f"cannot write {html}: {problem.strerror}") from None
        seconds = round(time.perf_counter() - begun, 1)
        if as_json:
            told = {"about": about, "attacks": [chapter.content() for chapter in chapters], "seconds": seconds}
            print_json(told | ({"people": people} if show_victims else {}))
        else:
            _show(chapters, about, people, html, seconds)


def _about(scene: Scene, *, demo: bool) -> str:
    target: Target = scene.target
    what = "A made-up hospital" if demo else f"The project {target.project.name}"
    return (
        f"{what}: {len(scene.people):,} {target.population}, {len(scene.rows):,} rows. The secret: "
        f"{target.secret.replace(chr(34), '')}. What outsiders know: {', '.join(target.known)}."
    )


def _run(scene: Scene, wanted: Sequence[str], epsilons: list[Fraction], *, quiet: bool) -> list[Chapter]:
    from tacit.audit.attacks.scenarios import ATTACKS

    with progress_bar(quiet=quiet, lines=True) as advance:

        def run(done: int, name: str) -> Chapter:
            advance(done, len(wanted), name)
            return ATTACKS[name](scene, epsilons, lambda what: advance(done, len(wanted), f"{name}: {what}"))

        return [run(done, name) for done, name in enumerate(wanted)]


def _show(chapters: list[Chapter], about: str, people: list[dict[str, Any]], html: Path | None, seconds: float) -> None:
    screen = console(_WIDEST)
    _say(screen, about)
    for number, chapter in enumerate(chapters, 1):
        screen.print()
        screen.print(f" {number}  {chapter.words.title}", style="bold cyan", markup=False)
        _say(screen, chapter.words.how, style="dim")
        for result in chapter.results:
            _result(screen, result)
        if chapter.note:
            _say(screen, chapter.note, style="dim")
        _say(screen, f"→ {chapter.words.moral}", style="green")
    if people:
        screen.print()
        _say(screen, "People whom linkage finds, and what it tells about them:")
        for person in people:
            _say(screen, ", ".join(f"{name} {value}" for name, value in person.items()), style="red")
    screen.print()
    _say(
        screen,
        f"{seconds} seconds, on this machine alone. The figures are exact: for those who may know the data, not for "
        "publication.",
    )
    if html is not None:
        _say(screen, f"The report with charts is in {html}.")


def _say(screen: Console, words: str, style: str = "") -> None:
    from rich.padding import Padding
    from rich.text import Text

    screen.print(Padding(Text(visible(words), style=style), (0, 0, 0, 4)))


def _result(screen: Console, result: Result) -> None:
    from rich.padding import Padding

    from tacit.audit.attacks.results import Comparison

    if not isinstance(result, Comparison):
        _say(screen, result.headline, style="bold")
        return
    _say(screen, f"{result.words.measure}:", style="bold")
    screen.print(Padding(_bars(result), (0, 0, 0, 4)))


def _bars(found: Any) -> Any:
    from rich.table import Table
    from rich.text import Text

    from tacit.audit.attacks.results import percent
    from tacit.core.numbers import format_up

    grid = Table.grid(padding=(0, 2))
    for _ in range(3):
        grid.add_column()
    grid.add_column(style="dim")
    rows = [("unprotected", found.unprotected, "", "red")]
    rows += [
        (f"epsilon {format_up(epsilon, 3)}", rate, f"in the long run no attack above {percent(limit)}", "blue")
        for (epsilon, rate), limit in zip(found.protected, found.limits, strict=True)
    ]
    for name, rate, note, colour in rows:
        grid.add_row(name, Text("━" * max(round(30 * rate.share), 1), style=colour), rate.text, note)
    blind = Text("━" * max(round(30 * found.chance), 1), style="dim")
    grid.add_row("blind guess", blind, percent(found.chance), "")
    return grid
