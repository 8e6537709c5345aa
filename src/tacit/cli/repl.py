"""Interactive prompt of ``tacit query``: multi-line questions, price shown before payment."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tacit.cli.answer_output import show_answer
from tacit.cli.budget import show_budget
from tacit.cli.query import show_quote
from tacit.core.errors import InputError, TacitError
from tacit.core.text_files import visible
from tacit.query.request import OPTIONS, Request

if TYPE_CHECKING:
    from rich.console import Console

    from tacit.curator.curator import Curator
    from tacit.releases.planner import Quote

_HELP = r"""Write a question in SQL, to a semicolon. Its price is shown, and you are asked before it is paid.
\epsilon 0.5     what a question may cost; also \rho, \mu, \delta
\within 50       instead of a price, how far off answers may be; also \within column=50
\confidence .99  of the intervals; also \max_groups, \max_rows, \weights, \suppose
\explain         more about the next question: each release, its noise, its error
\d               the tables; \d visits: one table and what is known about its columns
\budget          what is spent and what is left
\history         what was asked, and what it cost
\q               leave (or exit, quit, Ctrl-D); Ctrl-C drops what you are writing
Tab completes commands, tables, columns and words of SQL; arrow keys bring earlier lines back."""
#: Words that are commands when they stand alone, as in other prompts.
_BARE = {"exit": "\\q", "quit": "\\q", "help": "\\help", "history": "\\history"}
_COMMANDS = ("q", "help", "d", "tables", "budget", "history", "explain")
_SQL = ("SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "HAVING", "LIMIT", "JOIN", "LEFT JOIN", "USING", "COUNT(*)",
        "COUNT(DISTINCT", "SUM(", "AVG(", "MEDIAN(", "STDDEV(", "BETWEEN", "CASE WHEN", "DATE_TRUNC(", "WITH",
        "UNION ALL", "DESC", "DISTINCT", "IS NULL", "NOT", "AND")  # fmt: skip
_HISTORY_LINES = 1000


class Prompt:
    """One session at the prompt, with a price until another is typed; EOFError from ``read`` ends it."""

    def __init__(
        self, curator: Curator, price: Request, screen: Console, read: Callable[[str], str] | None = None
    ) -> None:
        self._curator = curator
        self._price = price
        self._screen = screen
        self._read = input if read is None else read
        self._explain = False

    def run(self) -> None:
        """Ask until the user leaves."""
        history = _remember(completions(self._words()))
        self._say(f"{self._curator.name}: questions end with a semicolon; help explains, exit leaves.", style="bold")
        try:
            while self._turn():
                pass
        finally:
            history()

    def _turn(self) -> bool:
        """One question or one command; False when it is time to leave."""
        try:
            text = self._text()
        except KeyboardInterrupt:
            self._screen.print()
            return True
        except EOFError:
            self._screen.print()
            return False
        try:
            if text.startswith("\\"):
                return self._command(text)
            if text.strip(" \t\n;"):
                self._ask(text)
        except TacitError as problem:
            self._say(f"Error: {problem}", style="red")
        except KeyboardInterrupt:
            self._screen.print()
        return True

    def _text(self) -> str:
        lines: list[str] = []
        while True:
            line = self._read("tacit> " if not lines else "  ...> ")
            bare = line.strip().rstrip(";").strip().lower()
            if not lines and bare in _BARE:
                return _BARE[bare]
            if not lines and (line.strip().startswith("\\") or not line.strip()):
                return line.strip()
            lines.append(line)
            if is_complete(text := "\n".join(lines)):
                return text

    def _command(self, text: str) -> bool:
        word, _, rest = text[1:].partition(" ")
        word, rest = word.strip().lower(), rest.strip().rstrip(";").strip()
        if word in ("q", "quit", "exit"):
            return False
        if word in ("?", "h", "help"):
            self._say(_HELP)
        elif word in ("t", "tables", "d"):
            self._show_tables(rest)
        elif word == "history":
            for entry in self._curator.history():
                self._say(f"{entry.number}: {entry.text}: {' '.join(entry.sql.split())}")
        elif word in ("b", "budget"):
            self._show_budgets()
        elif word in ("e", "explain"):
            self._explain = True
            self._say("The next question is explained in full.")
        elif word in OPTIONS:
            self._set(word, rest)
        else:
            self._say(f"There is no \\{word}; \\help lists what there is.")
        return True

    def _show_tables(self, name: str) -> None:
        """All tables, or the one that is named."""
        tables = self._curator.tables()
        found = [table for table in tables if name.strip('"').lower() in ("", table.name.lower())]
        if not found:
            raise InputError(
                "\\d", f"there is no table {name!r}; there are {', '.join(table.name for table in tables)}"
            )
        for table in found:
            self._say(str(table))

    def _words(self) -> list[str]:
        """Words that Tab completes."""
        tables = self._curator.tables()
        columns = [column.name for table in tables for column in table.table.columns]
        commands = [f"\\{word}" for word in (*_COMMANDS, *OPTIONS)]
        return list(dict.fromkeys([*commands, *(table.name for table in tables), *columns, *_SQL]))

    def _set(self, word: str, value: str) -> None:
        if not value:
            raise InputError(f"\\{word}", "needs a number after it")
        option = OPTIONS[word]
        # Another price takes the place of the one before.
        said: dict[str, Any] = {name: None for name, each in OPTIONS.items() if option.accounts and each.accounts}
        said[word] = option.typed(value.replace(",", " ").split() if option.named else [value])
        self._price = replace(self._price, **said)

    def _show_budgets(self) -> None:
        names = dict.fromkeys(table.table.population for table in self._curator.tables())
        for name in names:
            if name is not None:
                show_budget(self._screen, self._curator.budget(population=name))

    def _ask(self, text: str) -> None:
        quote = self._curator.explain(text, **self._price.options)
        if self._explain:
            self._explain = False
            self._say(show_quote(quote))
        self._say(self._offer(quote))
        if self._read("Ask it? [y/N] ").strip().lower() in ("y", "yes"):
            show_answer(self._screen, self._curator, self._curator.sql(text, **self._price.options))
        else:
            self._say("Not asked; nothing was charged.")

    def _offer(self, quote: Quote) -> str:
        if quote.is_public:
            return f"It costs {quote.charge}."
        errors = "; ".join(f"{error.label}: {error.meaning}" for error in quote.explanation.errors)
        return f"It costs {quote.charge}, or nothing if it was asked before. {errors}\n{self._curator.budget(quote)}."

    def _say(self, text: str, style: str = "") -> None:
        self._screen.print(visible(text), style=style, markup=False, soft_wrap=True)


def is_complete(text: str) -> bool:
    """Whether a statement ends here: a semicolon last, outside of quotes and comments."""
    # A terminal may send bytes that are no text; the parser refuses them.
    return sqlite3.complete_statement(text.encode(errors="replace").decode().replace("\0", "?"))


def completions(words: Sequence[str]) -> Callable[[str, int], str | None]:
    """The completer of a line: words that begin with what is typed, in its own case where that is small."""

    def complete(text: str, state: int) -> str | None:
        found = [word for word in words if word.lower().startswith(text.lower())] if text else []
        shown = [word.lower() if text.islower() and word in _SQL else word for word in found]
        return shown[state] if state < len(shown) else None

    return complete


def _remember(complete: Callable[[str, int], str | None]) -> Callable[[], None]:
    """Line editing, completion, and earlier lines at the arrow keys; what keeps them for next time."""
    try:
        import readline
    except ImportError:
        return lambda: None
    from tacit.ledger.anchor import state_folder

    place = state_folder() / "history"
    with suppress(OSError):
        readline.read_history_file(place)
    readline.set_history_length(_HISTORY_LINES)
    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n,()=<>+-*/")
    readline.parse_and_bind("bind ^I rl_complete" if "libedit" in (readline.__doc__ or "") else "tab: complete")

    def keep() -> None:
        with suppress(OSError):
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            place.touch(mode=0o600)
            readline.write_history_file(place)

    return keep
