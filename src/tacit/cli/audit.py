"""``tacit audit``: check the claims of Tacit, or those of a project; ``tacit attack``: why.

An attack shows on one's own table that removing names, publishing statistics or sampling is not enough.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tacit.cli.common import (
    JsonFlag,
    LedgerLocation,
    columns,
    console,
    find_ledger,
    print_json,
    progress_bar,
    receipt_check,
    reported,
)
from tacit.core.errors import InputError
from tacit.core.text_files import visible

if TYPE_CHECKING:
    from rich.console import Console

    from tacit.audit.attacks.results import Chapter, Comparison, Figures
    from tacit.audit.attacks.scenarios import Scene, Target
    from tacit.audit.report import AuditCheck, CheckOutcome, Verdict


def audit(
    project: Annotated[Path | None, typer.Argument(help="The project file.")] = None,
    own: Annotated[bool, typer.Option("--self", help="Run the self-audit of Tacit.")] = False,
    sql: Annotated[list[str] | None, typer.Option(help="A query to audit as well.")] = None,
    samples: Annotated[
        int | None,
        typer.Option(help="Runs on each neighbour of a black-box check; default 8000 for --self, 1000 for a project."),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with charts to this file.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Audit a project, or Tacit itself.

    A project is audited on made-up people: one person at a time leaves, and the recorded answers to its queries, those
    of its history and those given by --sql are replayed. Its data is not read and its budget not touched. The ledger
    is verified.

    Exit code 1 when a claim is refuted. Python code of your own is audited by tacit.audit.

    tacit audit tacit.toml --sql "SELECT AVG(cost) FROM visits"

    tacit audit --self --html audit.html
    """
    from tacit.audit.report import run_checks

    with reported("project", as_json=as_json), ExitStack() as stack:
        if own == (project is not None):
            raise InputError("project", "name a project file to audit, or say --self; and not both")
        if project is None:
            from tacit.audit.project_audit import hospital_checks
            from tacit.audit.self_audit import fit_checks, standing_checks

            queries = stack.enter_context(hospital_checks())
            checks = [*standing_checks(samples or 8_000), *queries, *fit_checks()]
        else:
            checks = _project_checks(project, sql or [], samples or 1_000)
        with progress_bar(quiet=as_json) as advance:
            outcomes = list(run_checks(checks, advance))
        if html is not None:
            from tacit.audit.report import as_page

            title = "Tacit's standing self-audit" if project is None else f"Audit of {project}"
            html.write_text(as_page(outcomes, title), encoding="utf-8")
    _show(outcomes, as_json, html)
    if not all(outcome.passed for outcome in outcomes):
        raise typer.Exit(1)


# A project: rules on synthetic people, past queries, the ledger. Nothing is charged and no protected table is read.


def _project_checks(project: Path, queries: list[str], samples: int) -> list[AuditCheck]:
    from tacit.audit.project_audit import project_checks
    from tacit.audit.report import AuditCheck
    from tacit.ledger import Ledger
    from tacit.project.project_file import load

    place = _ledger_of(project)
    asked: list[str] = []
    if place is not None:
        with Ledger.open(place.ledger, anchor=place.anchor, create=False) as ledger:
            asked = list(dict.fromkeys(record.sql for record in ledger.history()))
    checks, strange = project_checks(load(project), queries, asked=asked, samples=samples)
    if place is not None:
        checks.append(AuditCheck("the ledger and every receipt in it", "verify", lambda: _verified(place)))
    if strange:
        typer.echo(f"Left out: {strange} entries of the history are no queries to the present project.", err=True)
    return checks


def _ledger_of(project: Path) -> LedgerLocation | None:
    """Return the location of the ledger, or None if there is none yet."""
    try:
        place = find_ledger(project)
    except InputError as problem:
        if problem.parameter != "project.ledger":
            raise
        return None
    return place if place.exists else None


def _verified(place: LedgerLocation) -> Verdict:
    from tacit.audit.report import Verdict
    from tacit.ledger import Ledger

    report = Ledger.examine(place.ledger, anchor=place.anchor, check_outcome=receipt_check(place))
    words = "; ".join(report.problems) or f"nothing found: {report.entries} entries, {report.outcomes} released"
    return Verdict(not report.ok, words, report)


# Output


def _show(outcomes: list[CheckOutcome], as_json: bool, html: Path | None) -> None:
    if as_json:
        from tacit.audit.report import as_record

        print_json(as_record(outcomes))
        return
    screen = console()
    if len(outcomes) == 1:
        screen.print(outcomes[0].verdict.words, markup=False)
    else:
        _show_table(outcomes)
    if html is not None:
        screen.print(f"\nThe page with charts: {html}", markup=False)


def _show_table(outcomes: list[CheckOutcome]) -> None:
    from rich.text import Text

    rows = []
    for each in outcomes:
        mark = Text("ok", "green") if each.passed else Text("FAILED", "bold red")
        said = each.verdict.words.split("\n")[0].split(":")[0] if each.passed else each.verdict.words
        rows.append((mark, each.check.tool, each.check.name, said))
    screen = console()
    screen.print(columns(rows, ("", "tool", "what", "said")))
    screen.print(f"\n{len(outcomes)} checks, {sum(not each.passed for each in outcomes)} failed.")


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
        from tacit.audit.attacks.scenarios import ATTACKS, demo_target, open_scene, project_target
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
        if html is not None:
            try:
                html.write_text(report_page("Why not just anonymise?", chapters, about=about), encoding="utf-8")
            except OSError as problem:
                raise InputError("html", f"cannot write {html}: {problem.strerror}") from None
        seconds = round(time.perf_counter() - begun, 1)
        if as_json:
            told = {"about": about, "attacks": [chapter.content() for chapter in chapters], "seconds": seconds}
            print_json(told)
        else:
            _show_chapters(chapters, about, html, seconds)


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


def _show_chapters(chapters: list[Chapter], about: str, html: Path | None, seconds: float) -> None:
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


def _result(screen: Console, result: Figures | Comparison) -> None:
    from rich.padding import Padding

    from tacit.audit.attacks.results import Figures

    _say(screen, result.headline if isinstance(result, Figures) else f"{result.words.measure}:", style="bold")
    head, *rows = result.table()
    screen.print(Padding(columns(rows, head), (0, 0, 0, 4)))
