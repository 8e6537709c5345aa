"""``tacit ledger``: verify, read and operate the ledger."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.common import (
    DEFAULT_PROJECT,
    EXIT_CODES,
    JsonFlag,
    LedgerLocation,
    OperatorOption,
    ProjectOption,
    ReasonOption,
    adopted_ledger,
    check_exists,
    columns,
    console,
    find_ledger,
    opened_ledger,
    operator_name,
    print_json,
    progress_bar,
    reading,
    receipt_check,
    reported,
    say,
    tell,
)
from tacit.core.errors import InputError
from tacit.core.numbers import with_noun
from tacit.core.text_files import visible
from tacit.project.project_template import read_project

if TYPE_CHECKING:
    from tacit.ledger import Record, VerificationReport

app = typer.Typer(no_args_is_help=True, help="The ledger of all charges: check it, read it, take it over.")


@app.command()
def verify(project: ProjectOption = DEFAULT_PROJECT, as_json: JsonFlag = False) -> None:
    """Recompute everything: the chain, every charge, all sums and caps, what was released, every receipt.

    Also lists what operators decided: changed caps, an adopted ledger, budgets counted as lost, a replaced key. Changes
    nothing, and also checks a ledger that cannot be opened. Exit code 9 if something is wrong.
    """
    from tacit.ledger import Ledger

    with reported(as_json=as_json):
        place = find_ledger(project)
        check_exists(place)
        with progress_bar(quiet=as_json) as advance:
            report = Ledger.examine(
                place.ledger,
                anchor=place.anchor,
                progress=lambda done, total: advance(done, total, "verifying"),
                check_outcome=receipt_check(place),
            )
    if as_json:
        print_json(_report_json(report))
    else:
        _show_report(report)
    if not report.ok:
        raise typer.Exit(EXIT_CODES["internal.ledger"])


@app.command()
def show(
    project: ProjectOption = DEFAULT_PROJECT,
    last: Annotated[int, typer.Option(min=1, help="Number of entries to show.")] = 20,
    population: Annotated[str, typer.Option(help="Only charges to this budget.")] = "",
    analyst: Annotated[str, typer.Option(help="Only charges of this analyst.")] = "",
    every: Annotated[bool, typer.Option("--all", help="Every kind of entry, not only charges.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Show the newest charges: when, who, what it cost, and the query."""
    with reported(as_json=as_json):
        if every:
            if population or analyst:
                raise InputError("all", "shows every entry; leave out --population and --analyst")
            entries = _entries(find_ledger(project), last)
        else:
            with opened_ledger(project) as ledger:
                newest = ledger.history(population=population, analyst=analyst, newest_first=True)
                entries = [_record_json(record) for record, _ in zip(newest, range(last), strict=False)][::-1]
    if as_json:
        print_json({"entries": entries})
    else:
        _show_entries(entries)


@app.command()
def adopt(
    reason: ReasonOption,
    project: ProjectOption = DEFAULT_PROJECT,
    operator: OperatorOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Accept a ledger although its anchor is missing or remembers a newer entry.

    Do this after a restore from backup when the newest copy is lost for good. Charges since the backup are not known;
    so where the anchor proves that entries are missing, everything that is left of every account is counted as
    spent, and `tacit ledger caps` sets new caps. All tokens, sessions and links end: one may have been withdrawn since.
    Who did it and why becomes a permanent entry.
    """
    with reported(as_json=as_json):
        place = find_ledger(project)
        with adopted_ledger(place, reason=reason, operator=operator_name(operator)) as ledger:
            head = ledger.head
            told = {"ledger": ledger.id, "position": head.seq, "hash": head.hash}
            lost = [each.words for each in ledger.overrides() if each.kind == "lost" and each.reason == reason]
    words = f"Accepted: ledger {told['ledger']}; entry {told['position']} says so for good."
    more = [visible(each[:1].upper() + each[1:]) + "." for each in lost]
    more.append(
        "Tokens, sessions and links of all people ended. To make new ones: tacit analysts token, tacit analysts link."
    )
    tell({**told, "lost": lost}, words, *more, as_json=as_json)


@app.command()
def backup(
    target: Annotated[Path, typer.Argument(help="The copy, a new file; the key goes beside it.", show_default=False)],
    project: ProjectOption = DEFAULT_PROJECT,
    with_key: Annotated[bool, typer.Option("--key/--no-key", help="Also copy the key file, to TARGET.key.")] = True,
    as_json: JsonFlag = False,
) -> None:
    """Copy the ledger, as it is at one moment, while servers use it; and verify the copy.

    Never put a copy back unless the newest ledger is lost: it lacks the charges since. Tacit then refuses it, and
    `tacit ledger adopt` accepts it.
    """
    from tacit.ledger import Ledger
    from tacit.ledger.disk import Disk
    from tacit.releases.keys import open_keys

    with reported("target", as_json=as_json):
        place = find_ledger(project)
        key = target.with_name(f"{target.name}.key")
        for each in (target, key) if with_key else (target,):
            if each.exists():
                raise InputError("target", f"there is {each} already; name a new file")
        report = Ledger.back_up(place.ledger, target, check_outcome=receipt_check(place))
        if with_key:
            open_keys(place.key, make=False)
            Disk().create(key.resolve(), Path(place.key).read_bytes(), replace=False)
    files = [str(target), *([str(key)] if with_key else [])]
    if as_json:
        print_json({**_report_json(report), "files": files})
    else:
        _show_report(report)
        say(f"Copied to {' and '.join(files)}.", whole=True)
    if not report.ok:
        raise typer.Exit(EXIT_CODES["internal.ledger"])


@app.command()
def caps(
    population: Annotated[str, typer.Argument(help="Population of the budget.", show_default=False)],
    reason: ReasonOption,
    project: ProjectOption = DEFAULT_PROJECT,
    operator: OperatorOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Give the account the caps that the project file states. Earlier charges stay.

    Changing the file alone is refused: a budget that an edit can raise limits nothing. This leaves a permanent entry.
    """
    from tacit.project.project_file import ProjectModel, validate
    from tacit.releases.accounts import filter_of

    with reported("population", as_json=as_json):
        models = validate(ProjectModel, read_project(project)).populations
        if population not in models:
            raise InputError("population", f"must be one of {', '.join(models)}")
        limit = filter_of(population, models[population])
        with opened_ledger(project) as ledger:
            before = ledger.filter(population).guarantee
            ledger.change_caps(population, limit, reason=reason, operator=operator_name(operator))
            now = ledger.filter(population).guarantee
    told = {"population": population, "before": str(before), "now": str(now), "reason": reason}
    tell(told, f"{population}: {before} before, {now} now.", as_json=as_json)


@app.command()
def unit(
    population: Annotated[str, typer.Argument(help="Population of the budget.", show_default=False)],
    reason: ReasonOption,
    project: ProjectOption = DEFAULT_PROJECT,
    operator: OperatorOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Give the account the unit that the project file states: after a column was renamed, or the unit corrected.

    Changing the file alone is refused: earlier answers protect the persons that the old unit names. Earlier charges
    stay, and this leaves a permanent entry. Programs that have the project open must open it again.
    """
    from tacit.curator.opening import fix_units
    from tacit.ledger.protection import describe_unit
    from tacit.project.project_file import load

    with reported("population", as_json=as_json):
        find_ledger(project)
        before, now = fix_units(load(project), population, reason=reason, operator=operator_name(operator))
    told = {"population": population, "before": before, "now": now, "reason": reason}
    was = "nothing fixed" if before is None else describe_unit(before)
    tell(told, f"{population}: {was} before, {describe_unit(now)} now.", as_json=as_json)


@app.command("rotate-key")
def rotate_key(
    reason: ReasonOption,
    lost: Annotated[
        bool, typer.Option("--lost", help="The key is lost for good and cannot sign the one that replaces it.")
    ] = False,
    project: ProjectOption = DEFAULT_PROJECT,
    operator: OperatorOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Replace the key that signs receipts. Which groups of a person count does not change.

    The ledger gets an entry, signed by the old key, that names the new one: older receipts stay valid, and programs
    that know the old key accept the new one. Servers and programs that run continue with the new key. Back the key file
    up afterwards.

    With --lost the old key signs nothing, so no program accepts the new one by itself: give it to all who check
    receipts. A key that others may have seen is not lost: replace it without --lost.
    """
    from tacit.releases.keys import rotate_key as rotate

    with reported(as_json=as_json):
        place = find_ledger(project)
        with opened_ledger(project) as ledger:
            done = rotate(ledger, place.key, reason=reason, operator=operator_name(operator), lost=lost)
    told = {"public_key": done.public_key, "previous": done.previous, "position": done.seq, "signed": not lost}
    if as_json:
        print_json({**told, "new_group_secret": bool(done.key_check), "key_file": place.key})
        return
    say(f"Receipts are signed with {done.public_key} from entry {done.seq} on.", whole=True)
    if lost:
        say("No program can follow from the old key: give this one to all who check receipts.")
    if done.key_check:
        say("The group secret was lost as well; there is a fresh one.")
    say(f"Back up {place.key}.", whole=True)


def _report_json(report: VerificationReport) -> dict[str, Any]:
    return {
        "ok": report.ok,
        "ledger": report.ledger,
        "entries": report.entries,
        "charges": report.charges,
        "outcomes": report.outcomes,
        "failures": report.failures,
        "head": {"position": report.head.seq, "hash": report.head.hash},
        "problems": list(report.problems),
        "changes": list(report.changes),
        "overrides": [asdict(each) for each in report.overrides],
    }


def _show_report(report: VerificationReport) -> None:
    failed = f", {report.failures:,} failed" if report.failures else ""
    size = f"{with_noun(report.entries, 'entry', 'entries')}, {with_noun(report.charges, 'charge')}"
    head = f"head {report.head.seq} {report.head.hash[:16]}…"
    released = f"{report.outcomes - report.failures:,} released{failed}"
    say(f"Ledger {report.ledger}: {size}, {released}; {head}", whole=True)
    say(*(f"changed  {visible(change)}" for change in report.changes), style="yellow", whole=True)
    say(*(f"override  {visible(str(each))}" for each in report.overrides), style="yellow", whole=True)
    say(*(f"problem  {problem}" for problem in report.problems), style="red", whole=True)
    if report.ok:
        say("Chain, charges, sums, caps, released values and receipts all hold.", style="green")


def _record_json(record: Record) -> dict[str, Any]:
    from tacit.core.numbers import exact_text

    return {
        "position": record.seq,
        "time": record.time,
        "kind": "charge",
        "population": record.population,
        "analyst": record.analyst,
        "project": record.project,
        "amounts": {amount.currency: exact_text(amount.amount) for amount in record.amounts},
        **({"typed": record.typed} if record.typed else {}),
        "sql": record.sql,
        "released": record.answered,
        "failed": record.failed,
        "digest": record.digest,
        "hash": record.hash,
    }


def _entries(place: LedgerLocation, last: int) -> list[dict[str, Any]]:
    check_exists(place)
    with reading(place) as (reader, _):
        newest = [entry for entry, _ in zip(reader.entries_down(), range(last), strict=False)][::-1]
    found = []
    for entry in newest:
        body = json.loads(entry.body)
        said = {"position": entry.seq, "time": body.pop("time", ""), "kind": body.pop("kind")}
        found.append({**said, "hash": entry.hash, "body": body})
    return found


def _show_entries(entries: list[dict[str, Any]]) -> None:
    if not entries:
        say("Nothing was charged yet.")
        return
    rows = ([str(entry["position"]), entry["time"], *_words(entry)] for entry in entries)
    table = columns(rows, ("entry", "time", "who", "what", "query"), right=(0,))
    for column in table.columns:
        column.overflow, column.no_wrap = "ellipsis", column.header != "query"
    console().print(table)


def _words(entry: dict[str, Any]) -> tuple[str, str, str]:
    body = entry.get("body")
    if body is None:
        amounts = ", ".join(f"{name} {amount}" for name, amount in entry["amounts"].items() if amount != "0")
        state = "" if entry["released"] else " (nothing released)"
        amounts = f"{entry['typed']} ({amounts})" if "typed" in entry else amounts
        what = f"{amounts or 'nothing'} of {entry['population']}{state}"
        return entry["analyst"], what, " ".join(entry["sql"].split())
    who = str(body.get("operator") or body.get("analyst") or "")
    about = body.get("sql") or json.dumps(body, ensure_ascii=False)
    return who, entry["kind"], " ".join(about.split())
