"""``tacit receipt``: verify, show and export receipts and public keys."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.common import (
    DEFAULT_PROJECT,
    JsonFlag,
    ProjectOption,
    columns,
    console,
    opened_ledger,
    print_json,
    reported,
)
from tacit.core.errors import InputError
from tacit.core.text_files import visible

if TYPE_CHECKING:
    from tacit.releases.receipt import Receipt, ReceiptCheck

app = typer.Typer(no_args_is_help=True, help="Signed statements of releases: check them, read them.")

_LARGEST = 64 * 2**20


@app.command()
def verify(
    receipt: Annotated[str, typer.Argument(help='A file with a receipt; "-" for standard input.', show_default=False)],
    key: Annotated[
        str | None, typer.Option(help="The curator's public key, ed25519:…, from the data owner; or a file with it.")
    ] = None,
    project: ProjectOption = DEFAULT_PROJECT,
    as_json: JsonFlag = False,
) -> None:
    """Check a receipt: signature, noise of every mechanism, guarantee, and that the charge follows from them.

    With --key it needs nothing else, and no network. Without, the key is that of the project here, as it was at the
    receipt's place in the ledger, and the receipt is compared with the one that the ledger holds there: released
    numbers, query and amounts. Exit code 1 if it does not hold.
    """
    from tacit.releases.receipt import Receipt, ReceiptReport, against_ledger, verify_receipt

    with reported("receipt", as_json=as_json):
        text = _read(receipt)
        if key is not None:
            report = verify_receipt(text, _key(key))
        else:
            if not project.exists():
                raise InputError("key", "is needed to check a receipt: the public key, from the data owner")
            with opened_ledger(project) as ledger:
                report = verify_receipt(text, _key_here(text, ledger))
                if report.ok:
                    found = against_ledger(Receipt.from_json(text), ledger)
                    report = ReceiptReport((*report.checks, *found))
    if as_json:
        print_json(json.loads(report.to_json()))
    else:
        _show_checks(report.checks, report.ok)
    if not report.ok:
        raise typer.Exit(1)


@app.command()
def show(
    receipt: Annotated[str, typer.Argument(help="Its number in the ledger, or a file.", show_default=False)],
    project: ProjectOption = DEFAULT_PROJECT,
    as_json: JsonFlag = False,
) -> None:
    """Show what a receipt says; with --json the receipt itself, to save and to hand out.

    tacit receipt show 7 --json > receipt.json
    """
    with reported("receipt", as_json=as_json):
        found = _receipt(receipt, project)
        if as_json:
            typer.echo(found.to_json())
        else:
            _show(found)


@app.command()
def find(
    number: Annotated[str, typer.Argument(help="A number as it was quoted: 6,334 or 12.5%.", show_default=False)],
    project: ProjectOption = DEFAULT_PROJECT,
    plan: Annotated[
        list[Path] | None,
        typer.Option("--plan", help="A plan file, to look into its planned release.", show_default=False),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Did they really publish this number? Look it up in all signed releases: what it answers, and its interval.

    Exit code 1 if it is in no release.

    tacit receipt find 6,334
    """
    from tacit.cli.common import opened
    from tacit.releases.published_numbers import find_number

    with reported("number", as_json=as_json), opened(project) as curator:
        result = find_number(curator.context, number, plans=plan or ())
    if as_json:
        found = [
            {**asdict(each), **{e: str(getattr(each, e)) for e in ("value", "low", "high")}} for each in result.found
        ]
        print_json({"number": result.number, "found": found, "looked": result.looked, "unread": result.unread})
    else:
        console().print(visible(str(result)), markup=False, soft_wrap=True)
    if not result.found:
        raise typer.Exit(1)


@app.command()
def key(project: ProjectOption = DEFAULT_PROJECT, as_json: JsonFlag = False) -> None:
    """Print the public key, with which any reader can check the receipts that this project signs now.

    With --json also the keys before it, each with the ledger's entry that replaced it.
    """
    with reported(as_json=as_json), opened_ledger(project) as ledger:
        former = [{"public_key": each.previous, "replaced_at": each.seq} for each in ledger.successions()]
        told = {"public_key": ledger.public_key, "ledger": ledger.id, "former": former}
    if as_json:
        print_json(told)
    else:
        typer.echo(told["public_key"])


def _receipt(said: str, project: Path) -> Receipt:
    """Return a receipt by its number in the project's ledger, or from a file."""
    from tacit.releases.receipt import Receipt

    if not said.isdecimal():
        return Receipt.from_json(_read(said))
    number = int(said)
    with opened_ledger(project) as ledger:
        outcome = ledger.outcome(number) if 0 < number < 2**62 else None
    if outcome is None or not outcome.receipt:
        raise InputError(
            "receipt", f"entry {number} of the ledger released nothing; tacit ledger show lists those that did"
        )
    return Receipt.from_json(outcome.receipt)


def _key_here(text: bytes, ledger: Any) -> str:
    """Return the key that was current when the receipt was made; if ``text`` is no receipt, the current key."""
    from tacit.releases.keys import key_of
    from tacit.releases.receipt import Receipt

    try:
        return key_of(ledger, Receipt.from_json(text))
    except InputError:
        return str(ledger.public_key)


def _read(place: str) -> bytes:
    try:
        if place == "-":
            return sys.stdin.buffer.read(_LARGEST)
        with Path(place).open("rb") as file:
            return file.read(_LARGEST)
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or problem
        # A number is one in the ledger, which only the owner has; what is verified is a file that readers have.
        hint = f"; tacit receipt show {place} --json > receipt.json writes that file" if place.isdecimal() else ""
        raise InputError("receipt", f"cannot read {place}: {why}{hint}") from None


def _key(said: str) -> str:
    """Return the key as stated, or read from the file of that name."""
    from tacit.ledger.signing_keys import public_bytes

    try:
        is_key = said.startswith("ed25519:") or not Path(said).is_file()
        key = said if is_key else Path(said).read_text(encoding="ascii").strip()
        public_bytes(key)
    except (OSError, UnicodeDecodeError):
        raise InputError("key", f"{said} does not hold a public key") from None
    except InputError as problem:
        raise InputError("key", problem.problem) from None
    return key


def _show_checks(checks: tuple[ReceiptCheck, ...], ok: bool, verdict: str = "") -> None:
    from rich.text import Text

    signs = {True: Text("ok", "green"), False: Text("NOT", "bold red")}
    screen = console()
    screen.print(columns((signs[check.passed], check.words) for check in checks))
    said = verdict or ("The receipt holds." if ok else "The receipt does NOT hold.")
    screen.print(said, style="bold green" if ok else "bold red")


def _show(receipt: Receipt) -> None:
    screen = console()

    def line(label: str, words: str) -> None:
        screen.print(f"{label:<12}{visible(words)}", markup=False, soft_wrap=True)

    try:
        place = receipt["ledger"]
        line("Receipt", f"entry {place['position']} of ledger {place['id']}")
        line("Charged", _amounts(receipt["charge"]) or "nothing")
        promised = {word: value for word, value in receipt["guarantee"].items() if word != "kind"}
        line("Guarantee", f"{receipt['guarantee']['kind']}: {_amounts(promised)}")
        line("Protects", f"{receipt['population']}: {receipt['unit']} ({receipt['relation'].replace('_', '/', 1)})")
        line("Project", str(receipt["project"]))
        for answer in receipt["answers"]:
            line("Query", " ".join(str(answer["query"] or answer["name"]).split()))
            line("Bounding", str(answer["bounding"]))
            for mechanism in answer["mechanisms"]:
                noise = _amounts({word: mechanism[word] for word in _NOISE if mechanism.get(word)})
                line("", f"{mechanism['mechanism']}: {mechanism['name']}{'; ' if noise else ''}{noise}")
            line("Released", f"numbers with digest {str(answer['released'])[:16]}…")
    except (KeyError, TypeError, AttributeError, ValueError, ZeroDivisionError):
        raise InputError("receipt", "is not of a version that can be shown") from None
    line("Signed", f"with key {receipt['key']}; tacit receipt verify FILE checks it")


def _amounts(named: Mapping[str, str]) -> str:
    from tacit.core.numbers import exact_text

    return ", ".join(f"{name} {exact_text(Fraction(amount))}" for name, amount in named.items())


_NOISE = ("l1_sensitivity", "l2_sensitivity", "l2_squared", "scale", "sigma", "sigma2", "threshold")
