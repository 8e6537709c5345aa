"""Display of the demo: headings, coloured SQL, bars with errors."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tacit.cli.terminal import console

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_WIDEST = 96
_SURE, _UNSURE = "━", "╍"


@dataclass(frozen=True)
class DemoBar:
    """A number with its interval and the truth that only an invented table may show."""

    value: float
    low: float
    high: float
    truth: float


class Stage:
    """Display of the story; silent if ``quiet``."""

    def __init__(self, *, quiet: bool = False) -> None:
        from rich.console import Console

        self.screen = Console(file=io.StringIO(), width=_WIDEST) if quiet else console(_WIDEST)
        self._scene = 0

    def open(self, title: str, words: str) -> None:
        """Print the title and the first lines."""
        from rich.panel import Panel
        from rich.text import Text

        self.screen.print()
        body = Text.from_markup(words)
        self.screen.print(Panel(body, title=f"[bold]{title}[/bold]", title_align="left", border_style="cyan"))

    def scene(self, title: str, price: str = "") -> None:
        """A heading; ``price`` stands at its right."""
        from rich.table import Table
        from rich.text import Text

        self._scene += 1
        line = Table.grid(expand=True)
        line.add_column()
        line.add_column(justify="right")
        line.add_row(Text(f" {self._scene}  {title}", style="bold cyan"), Text(price, style="yellow"))
        self.screen.print()
        self.screen.print(line)

    def say(self, words: str) -> None:
        """A paragraph."""
        from rich.text import Text

        self.show(Text.from_markup(words))

    def sql(self, text: str, note: str = "") -> None:
        """A question."""
        self.code(text.strip() + (f"   -- {note}" if note else ""), "sql")

    def code(self, text: str, language: str) -> None:
        """Coloured lines of a question or of a project file."""
        from rich.syntax import Syntax

        self.show(Syntax(text, language, theme="ansi_dark", background_color="default", word_wrap=True))

    def show(self, shown: RenderableType) -> None:
        """Anything that can be printed, a little to the right."""
        from rich.padding import Padding

        self.screen.print(Padding(shown, (0, 0, 0, 4)))

    def grid(self, rows: Iterable[Sequence[str | Text]], *, right: Sequence[int] = ()) -> None:
        """Columns without lines; those numbered in ``right`` are flush right."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        listed = [list(row) for row in rows]
        for i in range(max(map(len, listed), default=0)):
            table.add_column(justify="right" if i in right else "left", no_wrap=True)
        for row in listed:
            table.add_row(*(Text.from_markup(cell) if isinstance(cell, str) else cell for cell in row))
        self.show(table)

    def bars(self, rows: Sequence[Sequence[str | DemoBar]]) -> None:
        """Lines of words and bars; all bars are to one scale, as wide as the screen allows."""
        most = max((cell.high for row in rows for cell in row if isinstance(cell, DemoBar)), default=1.0)
        words = max(sum(len(cell) + 2 for cell in row if isinstance(cell, str)) for row in rows)
        width = min(max(self.screen.width - words - 10, 12), 36)
        self.grid(
            ([bar(cell, most, width) if isinstance(cell, DemoBar) else cell for cell in row] for row in rows),
            right=(2,),
        )

    def good(self, words: str) -> None:
        """Mark a promise that was kept."""
        self._marked("✔", "bold green", words)

    def bad(self, words: str) -> None:
        """Mark a refusal, or a person who was revealed."""
        self._marked("✘", "bold red", words)

    def _marked(self, sign: str, style: str, words: str) -> None:
        from rich.table import Table
        from rich.text import Text

        line = Table.grid(padding=(0, 1, 0, 0))
        line.add_row(Text(sign, style=style), Text(words))
        self.show(line)


def bar(entry: DemoBar, most: float, width: int = 30) -> Text:
    """A line as long as the number, dashed over its interval, with a mark where the truth is."""
    from rich.text import Text

    def cell(value: float) -> int:
        return min(max(round(width * value / most), 0), width) if most > 0 else 0

    low, high, truth = cell(entry.low), cell(entry.high), cell(entry.truth)
    line = Text()
    for place in range(width):
        if place == min(truth, width - 1):
            line.append("●", style="bold magenta")
        elif place < low:
            line.append(_SURE, style="green")
        elif place <= high:
            line.append(_UNSURE, style="bright_green")
        else:
            line.append(" ")
    return line


def number(value: float, spread: float | None = None) -> str:
    """With as many digits as its spread makes sense of."""
    size = abs(value) if spread is None else spread
    return f"{value:,.0f}" if size >= 10 else f"{value:,.1f}" if size >= 1 else f"{value:,.2f}"
