"""``tacit audit``: check the claims of Tacit, or of anything else that can be called; ``tacit attack``: why.

An attack shows on one's own table that removing names, publishing statistics or sampling is not enough.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

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
    from collections.abc import Callable

    from rich.console import Console

    from tacit.audit.attacks.results import Chapter, Comparison, Figures
    from tacit.audit.attacks.scenarios import Scene, Target
    from tacit.audit.report import AuditCheck, CheckOutcome, Verdict


def audit(
    target: Annotated[
        str | None,
        typer.Argument(help="module:callable, a mechanism such as laplace, or a project file."),
    ] = None,
    own: Annotated[bool, typer.Option("--self", help="Run the self-audit of Tacit.")] = False,
    words: Annotated[
        list[str] | None, typer.Option("--with", help="A parameter of the mechanism, as name=value; may be repeated.")
    ] = None,
    first: Annotated[str | None, typer.Option(help="A database, as JSON: '[1, 2, 3]'.")] = None,
    second: Annotated[str | None, typer.Option(help="Its neighbour, as JSON.")] = None,
    relation: Annotated[str, typer.Option(help="How neighbours differ: add_remove or replace_one.")] = ("add_remove"),
    claimed: Annotated[
        str | None, typer.Option(help="The epsilon to test; by default that which the mechanism states.")
    ] = None,
    delta: Annotated[str, typer.Option(help="The delta of the claim.")] = "0",
    sql: Annotated[list[str] | None, typer.Option(help="For a project: a query to audit as well.")] = None,
    samples: Annotated[
        int | None,
        typer.Option(help="Runs on each neighbour; default 20000, 8000 for --self, 1000 for a project."),
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence of the bound.")] = 0.99,
    html: Annotated[Path | None, typer.Option(help="Write a page with charts to this file.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Audit a mechanism or a project.

    A mechanism is run on two neighbouring databases, and its privacy loss is bounded from below.

    A project is audited on made-up people: its tables, its budgets and every query that it was ever asked. Its data
    is not read and its budget not touched.

    Exit code 1 when a claim is refuted, or when the self-audit fails.

    tacit audit laplace --with epsilon=1 --with l1_sensitivity=1 --first 0 --second 1

    tacit audit mymodule:release --first "[1, 0, 1]" --claimed 1

    tacit audit tacit.toml --sql "SELECT AVG(cost) FROM visits"

    tacit audit --self --html audit.html
    """
    with reported("target", as_json=as_json):
        if own == (target is not None):
            raise InputError("target", "say what to audit, or --self; and not both")
        if target is None:
            from tacit.audit.project_audit import sql_checks
            from tacit.audit.self_audit import fit_checks, standing_checks

            checks = [*standing_checks(samples or 8_000), *sql_checks(), *fit_checks()]
        elif target.endswith(".toml"):
            checks = _project_checks(Path(target), sql or [], samples or 1_000)
        else:
            claim = {"claimed": claimed, "delta": delta, "samples": samples or 20_000, "confidence": confidence}
            checks = [_mechanism_check(target, words or [], first, second, relation, claim)]
        from tacit.audit.report import run_checks

        with progress_bar(quiet=as_json) as advance:
            outcomes = list(run_checks(checks, advance))
        if html is not None:
            from tacit.audit.report import as_page

            title = "Tacit's standing self-audit" if target is None else f"Audit of {target}"
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


# A mechanism, or a callable


def _mechanism_check(
    target: str, words: list[str], first: str | None, second: str | None, relation: str, claim: dict[str, Any]
) -> AuditCheck:
    from tacit.audit.lower_bound import lower_bound
    from tacit.audit.report import AuditCheck, Verdict, judged
    from tacit.audit.search import search_lower_bound

    mechanism, own_claim = _found(target, words)
    if first is None:
        raise InputError("first", "give a database as JSON, such as '[1, 2, 3]' or 0")
    start = _json(first, "first")
    if claim["claimed"] is None:
        claim = claim | {"claimed": own_claim}

    def run() -> Verdict:
        if second is not None:
            return judged(lower_bound(mechanism, start, _json(second, "second"), **claim))
        found = search_lower_bound(mechanism, start, relation=relation, **claim)
        verdict = judged(found.bound)
        return Verdict(verdict.caught, str(found), verdict.found)

    return AuditCheck(target, "lower_bound", run)


def _found(target: str, words: list[str]) -> tuple[Callable[[Any], Any], Any]:
    """Return the callable to run, and its own claim, if it has one."""
    from importlib import import_module

    import tacit
    from tacit.mechanisms.base import Mechanism

    if ":" in target:
        module, _, name = target.partition(":")
        try:
            thing: Any = getattr(import_module(module), name)
        except (ImportError, AttributeError) as problem:
            raise InputError("target", f"cannot be loaded: {problem}") from None
    else:
        names = {n.lower(): n for n in tacit.__all__ if isinstance(getattr(tacit, n), type)}
        thing = getattr(tacit, names.get(target.replace("_", "").replace("-", "").lower(), ""), None)
        if thing is None or not issubclass(thing, Mechanism):
            raise InputError("target", f"{target!r} is no mechanism of Tacit, such as laplace, and no module:callable")
    if isinstance(thing, type):
        thing = thing(**dict(_word(word) for word in words))
    elif words:
        raise InputError("with", "is for mechanisms that are made here; a callable takes the database alone")
    if isinstance(thing, Mechanism):
        return thing.release, thing.guarantee  # type: ignore[attr-defined]
    if not callable(thing):
        raise InputError("target", f"{target!r} cannot be called")
    return thing, None


def _word(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError("with", f"must be written name=value, got {text!r}")
    # Numbers stay text, which mechanisms read exactly; lists and truth values have no other form.
    return name.strip(), json.loads(value) if value[:1] in "[{tf" else value


def _json(text: str, parameter: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise InputError(parameter, f"must be JSON, such as '[1, 2, 3]'; got {text!r}") from None


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
            _show_chapters(chapters, about, people, html, seconds)


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


def _show_chapters(
    chapters: list[Chapter], about: str, people: list[dict[str, Any]], html: Path | None, seconds: float
) -> None:
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


def _result(screen: Console, result: Figures | Comparison) -> None:
    from rich.padding import Padding

    from tacit.audit.attacks.results import Figures

    _say(screen, result.headline if isinstance(result, Figures) else f"{result.words.measure}:", style="bold")
    head, *rows = result.table()
    screen.print(Padding(columns(rows, head), (0, 0, 0, 4)))
