"""``tacit doctor``: check a project, one line per check, with the remedy where one fails."""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.common import (
    DEFAULT_PROJECT,
    JsonFlag,
    LedgerLocation,
    ProjectOption,
    console,
    find_ledger,
    listening,
    print_json,
    reading,
    say,
)
from tacit.core.errors import InputError, TacitError
from tacit.core.numbers import with_noun
from tacit.core.text_files import visible
from tacit.engines.protocol import DoctorCheck
from tacit.project.project_template import read_project
from tacit.query.contribution import AUTO

if TYPE_CHECKING:
    from tacit.project.project_file import Project

_OPENING = "opening"
_LIBRARIES = ("duckdb", "sqlglot", "numpy", "cryptography")
#: Extras that change how the core works, shown where they are installed.
_OPTIONAL = ("pyarrow",)


def doctor(
    project: ProjectOption = DEFAULT_PROJECT,
    look: Annotated[
        bool | None,
        typer.Option(
            "--look/--no-look",
            help="Read the rows and show, in exact numbers that are not private, what limits, bounds and categories "
            "leave out. "
            "Default: on a terminal.",
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Check the project file, its sources, the ledger, its keys and the installation. Changes nothing.

    On a terminal it also shows the owner, in exact numbers that are not private, what each max_rows and max_groups
    would keep, and which values are outside their bounds, unreadable or in no category.

    Exit code 1 if something needs attention.
    """
    look = (console().is_terminal if look is None else look) and not as_json
    findings = list(examine(project, look=look))
    ok = all(finding.ok for finding in findings)
    if as_json:
        print_json({"ok": ok, "checks": [asdict(finding) for finding in findings]})
    else:
        _show(findings, ok)
        opened = project.exists() and any(finding.name == "project" and finding.ok for finding in findings)
        if opened and look:
            _show_kept(project)
    if not ok:
        raise typer.Exit(1)


def examine(project: Path, *, look: bool = False) -> Iterator[DoctorCheck]:
    """All findings, in order; one that everything after it needs ends them. Values are quoted only with ``look``."""
    yield _versions()
    yield _looked("noise", _entropy, "the operating system must provide entropy")
    if not project.exists():
        # A look at the installation alone is no complaint, unless a project was named.
        yield DoctorCheck("project", project == DEFAULT_PROJECT, f"there is no {project}; tacit init makes one")
        return
    loaded = None
    try:
        read_project(project)
        loaded = _load(project)
        yield DoctorCheck("project", True, f"{project}: {', '.join(loaded.sources)}; no place left open")
    except InputError as problem:
        yield DoctorCheck("project", False, str(problem), f"edit {project} at that place")
        return
    yield from _guarded(project, "project file")
    yield from _declared(loaded)
    said = set()
    for name, source in loaded.sources.items():
        for finding in _source(loaded, name, look=look) if source.kind != "table" else ():
            said.add(finding.words)
            yield finding
    yield from _database(loaded)
    failed = False
    for finding in _ledger(project, loaded):
        # The message of opening was given already, with a better remedy.
        if finding.ok or finding.name != _OPENING or not (failed or finding.words in said):
            yield finding
        failed = failed or not finding.ok
    yield DoctorCheck("clock", True, "not needed: no decision reads it")


def _show(findings: list[DoctorCheck], ok: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    for finding in findings:
        sign = Text("ok", "green") if finding.ok else Text("problem", "bold red")
        words = Text(finding.words)
        if finding.remedy and not finding.ok:
            words.append(f"\n→ {finding.remedy}", style="bold")
        table.add_row(sign, Text(finding.name), words)
    screen = console()
    screen.print(table)
    if not ok:
        screen.print(f"{with_noun(sum(not finding.ok for finding in findings), 'problem')} found.", style="bold red")


def _show_kept(project: Path) -> None:
    try:
        lines = _kept(_load(project))
    except (TacitError, OSError) as problem:
        lines = [f"The rows could not be looked at: {visible(str(problem))}"]
    say(*lines[:1], style="bold yellow", whole=True)
    say(*lines[1:], whole=True)


def _versions() -> DoctorCheck:
    from importlib.metadata import PackageNotFoundError, version

    from tacit import __version__

    shown, missing = [], []
    for library in (*_LIBRARIES, *_OPTIONAL):
        try:
            shown.append(f"{library} {version(library)}")
        except PackageNotFoundError:
            missing += [library] if library in _LIBRARIES else []
    words = f"tacit {__version__}, Python {platform.python_version()}, {', '.join(shown)}"
    if missing:
        return DoctorCheck(
            "versions", False, f"{words}; missing: {', '.join(missing)}", f"pip install {' '.join(missing)}"
        )
    return DoctorCheck("versions", True, words)


def _entropy() -> str:
    from tacit.mechanisms.laplace import Laplace

    Laplace(epsilon=1, l1_sensitivity=1).release([0] * 64)
    return "drawn from the operating system's entropy; the machine's arithmetic is as assumed"


def _looked(name: str, look: Callable[[], str], remedy: str) -> DoctorCheck:
    try:
        return DoctorCheck(name, True, look())
    except (TacitError, OSError, ImportError) as problem:
        return DoctorCheck(name, False, str(problem), remedy)


def _load(project: Path) -> Project:
    from tacit.project.project_file import load
    from tacit.releases.accounts import filter_of

    loaded = load(project)
    for name, model in loaded.populations.items():
        filter_of(name, model)
    return loaded


def _declared(loaded: Project) -> Iterator[DoctorCheck]:
    """Report contribution bounds that are chosen per query, and budgets that protect little; these are not failures."""
    from tacit.core.cautions import cautions_about_account
    from tacit.releases.accounts import filter_of

    for table in loaded.catalog.tables:
        auto = [name for name in ("max_groups", "max_rows") if getattr(table, name) == AUTO]
        if auto:
            words = (
                f"{' and '.join(auto)}: AUTO, found privately within the cost of each query, as where none is "
                "stated; a stated number is free"
            )
            yield DoctorCheck(f"limits {table.name}", True, words)
    for name, model in loaded.populations.items():
        for sentence in cautions_about_account(filter_of(name, model).guarantee):
            yield DoctorCheck(f"caution {name}", True, sentence)


def _kept(loaded: Project) -> list[str]:
    """Return lines about the data that contribution and clipping bounds, types and categories exclude.

    The numbers are exact: for the owner's terminal only.
    """
    from tacit.core.cautions import cautions_about_account
    from tacit.project.owner_view import NOT_PRIVATE, owner_views
    from tacit.releases.accounts import filter_of

    lines: list[str] = []
    for view in owner_views(loaded):
        lines += map(visible, view.lines())
        table = loaded.catalog.table(view.table)
        if table is not None and view.rows > table.table_rows:
            lines.append(f"  more than table_rows = {table.table_rows:,}: on a server answers will be late; state more")
        name = "" if table is None else table.population or ""
        if view.people and name in loaded.populations:
            guarantee = filter_of(name, loaded.populations[name]).guarantee
            known = cautions_about_account(guarantee)
            lines += [
                f"  {each}" for each in cautions_about_account(guarantee, people=view.people) if each not in known
            ]
    return [NOT_PRIVATE, *lines] if lines else []


def _source(loaded: Project, name: str, *, look: bool) -> Iterator[DoctorCheck]:
    from tacit.project.draft import csv_checks

    source = loaded.sources[name]
    try:
        files = source.files
        for file in files:
            with file.open("rb") as stream:
                stream.read(1)
        if not files:
            raise FileNotFoundError(2, "No such file or directory")
    except OSError as problem:
        remedy = f"edit tables.{name}.source, or allow reading"
        yield DoctorCheck(f"source {name}", False, f"{source.path}: {problem.strerror}", remedy)
        return
    size = sum(file.stat().st_size for file in files)
    many = f" in {len(files)} files" if len(files) > 1 else ""
    table = loaded.catalog.table(name)
    known = (
        "" if table is None or table.public else _recognised(source.kind, max(file.stat().st_size for file in files))
    )
    readable = DoctorCheck(f"source {name}", True, f"{source.path}: readable, {size:,} bytes{many}{known}")
    found = list(csv_checks(loaded, name, look=look)) if source.kind == "csv" else []
    # Either a file is readable, or something of it is not.
    yield from found if any(not finding.ok for finding in found) else [readable, *found]


def _recognised(kind: str, largest: int) -> str:
    """Describe which copies of a protected source the ledger recognises."""
    from tacit.project.source import LARGEST_BYTES

    if kind not in ("csv", "parquet"):
        return "; only exact copies of it are recognised"
    if largest > LARGEST_BYTES:
        limit = LARGEST_BYTES >> 20
        return (
            f"; larger than {limit} MiB, so only exact copies are recognised: do not open one that is written otherwise"
        )
    return "; copies with the same rows are recognised"


def _database(loaded: Project) -> Iterator[DoctorCheck]:
    """Check the database server or Spark, its permissions and the tables."""
    from tacit.engines.registry import doctor_checks

    try:
        yield from doctor_checks(loaded.engine, loaded.catalog, loaded.sources)
    except InputError as problem:
        yield DoctorCheck("database", False, str(problem), "correct project.engine or the table it names")


def _ledger(project: Path, loaded: Project) -> Iterator[DoctorCheck]:
    try:
        place = find_ledger(project)
    except InputError as problem:
        yield DoctorCheck("ledger", False, str(problem), "name a file, so that what was spent outlasts the process")
        return
    if not place.exists:
        words = f"{place.ledger}: not made yet; opening the project makes it"
        yield _looked("ledger", lambda: _not_gone(place, words), "bring it back, or: tacit ledger adopt --reason …")
        folder = Path(place.ledger).parent
        if not os.access(folder, os.W_OK):
            yield DoctorCheck("ledger folder", False, f"{folder}: cannot be written", "make it, or allow writing")
        yield from _opening(place, loaded)
        return
    yield _looked("ledger", lambda: _quick(place), "tacit ledger verify says more; bring the newest copy back")
    yield from _terms(place, loaded)
    if place.is_file:
        yield from _guarded(Path(place.ledger), "ledger file", private=True)
    yield _looked("keys", lambda: _keys(place), f"chmod 600 {place.key}, or restore it from your backup")
    yield from _opening(place, loaded)


def _quick(place: LedgerLocation) -> str:
    """Verify the newest entries against the hash chain, the sums and the anchor, and return a summary."""
    from tacit.ledger.journal import read_body
    from tacit.ledger.opening import check_anchor, choose_anchor
    from tacit.ledger.verify import quick_check

    # Not at one moment: the anchor may know of entries that were written after it.
    with reading(place, still=False) as (reader, where):
        quick_check(reader)
        ledger = str(read_body(reader, 1)["ledger"])
        check_anchor(reader, choose_anchor(place.anchor, where), ledger, where)
        head = reader.head()
    return f"{place.ledger}: {head.seq:,} entries, the newest hold, and the anchor agrees"


def _terms(place: LedgerLocation, loaded: Project) -> Iterator[DoctorCheck]:
    """Compare budgets and units of the file with those of the accounts, and list the operators' decisions in order."""
    from tacit.ledger.entries import plain_name, unit_name
    from tacit.ledger.journal import read_body
    from tacit.ledger.protection import changes_in, describe_unit
    from tacit.ledger.protocol import Name
    from tacit.ledger.records import describe_terms, terms_of
    from tacit.ledger.verify import Overrides
    from tacit.project.source import unit_terms
    from tacit.releases.accounts import filter_of

    try:
        with reading(place) as (reader, _):

            def kept(name: Name, part: str) -> Any:
                seq = reader.find(name)
                return None if seq is None else read_body(reader, seq)[part]

            for population, model in loaded.populations.items():
                wanted = terms_of(filter_of(population, model))
                known = kept(Name("terms", plain_name(population, "population")), "terms")
                words, remedy = describe_terms(wanted), ""
                if known not in (None, wanted):
                    words = f"the account has {describe_terms(known)}; the file says {words}"
                    remedy = f"put the account's terms into the file, or: tacit ledger caps {population} --reason …"
                yield DoctorCheck(f"budget {population}", not remedy, words, remedy)
            for population, unit in unit_terms(loaded.catalog).items():
                known = kept(unit_name(plain_name(population, "population")), "unit")
                words, remedy = f"one person is {describe_unit(unit)}", ""
                if known not in (None, unit):
                    words = f"the account protects {describe_unit(known)}; the file says {describe_unit(unit)}"
                    remedy = f"put the unit back, or: tacit ledger unit {population} --reason …"
                yield DoctorCheck(f"unit {population}", not remedy, words, remedy)
            for change in changes_in(reader):
                yield DoctorCheck("changed", True, change)
            for each in Overrides().of(reader):
                yield DoctorCheck("decided", True, visible(str(each)))
    except (TacitError, ValueError, LookupError, TypeError):
        return  # The ledger is damaged, which was said already.


def _not_gone(place: LedgerLocation, words: str) -> str:
    from tacit.ledger.errors import storage_errors
    from tacit.ledger.opening import check_not_gone

    with storage_errors():
        check_not_gone(place.ledger, place.anchor)
    return words


def _opening(place: LedgerLocation, loaded: Project) -> Iterator[DoctorCheck]:
    """Check whether opening the project would be refused: every step is tried, and nothing is changed."""
    from tacit.curator.opening import try_opening

    digests = f"{place.ledger if place.is_file else place.key}.digests"
    try:
        if place.exists:
            with listening(), reading(place) as (reader, _):
                try_opening(loaded, reader, place.key, digests)
        else:
            with listening():
                try_opening(loaded, None, place.key, digests)
    except TacitError as problem:
        yield DoctorCheck(
            _OPENING, False, visible(str(problem)), "correct that in the project file; nothing was changed"
        )
    else:
        yield DoctorCheck(_OPENING, True, "the project can be opened: units, sources and budgets fit the ledger")


def _keys(place: LedgerLocation) -> str:
    from tacit.ledger.signing_keys import key_id
    from tacit.releases.keys import open_keys

    public = open_keys(place.key, make=False).public_key
    return f"{place.key}: for its owner alone; receipts are signed with {key_id(public)}"


def _guarded(path: Path, what: str, *, private: bool = False) -> Iterator[DoctorCheck]:
    """Report a file that other users may write, or may read although it is ``private``."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return
    if mode & 0o022:
        yield DoctorCheck(what, False, f"{path}: others may change it", f"chmod go-w {path}")
    elif private and mode & 0o044:
        yield DoctorCheck(what, False, f"{path}: others may read the queries in it", f"chmod 600 {path}")
