"""Cells of a notebook that are SQL: ``%load_ext tacit``, then ``%%tacit epsilon=0.5``.

The price is shown before the query runs. A typed price is what the cell pays; with ``within=`` the price is found,
so the cell shows it and stops until ``--pay`` stands in its first line.
"""

from __future__ import annotations

import html
import shlex
from importlib import import_module
from typing import Any, Final

from tacit.core.errors import InputError
from tacit.query.request import OPTIONS

USAGE: Final = (
    "%%tacit [curator] epsilon=0.5 [within=50] [confidence=0.99] [into=name] [--explain] [--pay], and SQL below it"
)


def load_ipython_extension(shell: Any) -> None:
    """Add ``%%tacit`` to a notebook or an IPython shell; called by ``%load_ext tacit``."""

    def tacit(line: str, cell: str) -> Any:
        return run_cell(shell, line, cell)

    tacit.__doc__ = USAGE
    shell.register_magic_function(tacit, "cell", "tacit")


def run_cell(shell: Any, line: str, cell: str) -> Any:
    """Show the price of a cell's query, then its answer.

    Raises:
        TacitError: as the query does.
    """
    words, flags = _words(line)
    into = words.pop("into", None)
    curator = _curator(shell, words.pop("curator", None))
    options = {name: _typed(name, text) for name, text in words.items()}
    quote = curator.explain(cell, **options)
    _show(f"It costs {quote.charge}, or nothing if it was asked before. {curator.budget(quote)}.")
    if "--explain" in flags:
        return quote
    if "within" in options and "--pay" not in flags:
        _show("Not asked, since the price was not typed: add --pay to the first line, or type epsilon=…")
        return quote
    answer = curator.sql(cell, **options)
    if into is not None:
        shell.user_ns[into] = answer
        return None
    return answer


def _words(line: str) -> tuple[dict[str, str], set[str]]:
    try:
        parts = shlex.split(line)
    except ValueError as problem:
        raise InputError("%%tacit", f"{problem}; write {USAGE}") from None
    found: dict[str, str] = {}
    flags = {part for part in parts if part.startswith("-")}
    unknown = flags - {"--explain", "--pay"}
    for part in parts:
        name, equals, value = part.partition("=")
        if part in flags:
            continue
        if not equals:
            name, value = "curator", part
        if name in found or (name not in ("curator", "into") and name not in OPTIONS):
            unknown.add(part)
        found[name] = value
    if unknown:
        raise InputError("%%tacit", f"{sorted(unknown)[0]!r} is not understood; write {USAGE}")
    return found, flags


def _typed(name: str, text: str) -> Any:
    option = OPTIONS[name]
    return option.typed(text.replace(",", " ").split() if option.named else [text])


def _curator(shell: Any, name: str | None) -> Any:
    """The curator that is named, or the only one there is."""
    names = shell.user_ns
    if name is not None:
        if not _asks(names.get(name)):
            raise InputError("%%tacit", f"{name!r} is not a curator: {name} = tacit.open(…) or tacit.connect(…)")
        return names[name]
    found = {id(value): key for key, value in names.items() if not key.startswith("_") and _asks(value)}
    if len(found) != 1:
        many = f"say which: {', '.join(sorted(found.values()))}" if found else "curator = tacit.open(…) makes one"
        raise InputError("%%tacit", f"there is {'more than one' if found else 'no'} curator; {many}")
    return names[next(iter(found.values()))]


def _asks(value: Any) -> bool:
    return not isinstance(value, type) and all(
        callable(getattr(value, each, None)) for each in ("sql", "explain", "budget")
    )


def _show(text: str) -> None:
    shown = import_module("IPython.display")
    shown.display(shown.HTML(f"<p>{html.escape(text)}</p>"))
