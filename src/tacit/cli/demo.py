"""``tacit demo``: the story of an example hospital; each scene prints itself and returns what it showed.

*Differencing attack.* "How many patients were in oncology?" and "how many, apart from patient 10042?" are both fair
queries. Asked of the bare table, their difference is 10042's secret. Asked of a curator, it is noise: an attacker who
guesses from answers that cost ε together is right with probability at most e^ε / (1 + e^ε), one half for a small ε.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tacit.cli.common import console, reported
from tacit.core.errors import BudgetError, InputError, QueryError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console, RenderableType
    from rich.text import Text

    from tacit.curator.curator import Curator
    from tacit.project.example_hospital import Hospital
    from tacit.releases.answer import Answer


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
    """Display of the story."""

    def __init__(self, screen: Console) -> None:
        self.screen = screen
        self._scene = 0

    def open(self, title: str, words: str) -> None:
        from rich.panel import Panel
        from rich.text import Text

        self.screen.print()
        body = Text.from_markup(words)
        self.screen.print(Panel(body, title=f"[bold]{title}[/bold]", title_align="left", border_style="cyan"))

    def scene(self, title: str, cost: str = "") -> None:
        from rich.table import Table
        from rich.text import Text

        self._scene += 1
        line = Table.grid(expand=True)
        line.add_column()
        line.add_column(justify="right")
        line.add_row(Text(f" {self._scene}  {title}", style="bold cyan"), Text(cost, style="yellow"))
        self.screen.print()
        self.screen.print(line)

    def say(self, words: str) -> None:
        from rich.text import Text

        self.show(Text.from_markup(words))

    def sql(self, text: str, note: str = "") -> None:
        self.code(text.strip() + (f"   -- {note}" if note else ""), "sql")

    def code(self, text: str, language: str) -> None:
        """Coloured lines of a query or of a project file."""
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


EVERYONE: Final = "SELECT COUNT(DISTINCT patient_id) AS n FROM visits WHERE ward = 'oncology'"


@dataclass(frozen=True)
class Guess:
    """Guess about one patient by subtraction, and whether it is right."""

    patient_id: int
    with_them: int
    without: int
    truth: bool

    @property
    def difference(self) -> int:
        """1 for a patient who was there and 0 for one who was not, where both counts are exact."""
        return self.with_them - self.without

    @property
    def says(self) -> bool:
        return self.difference >= 1

    @property
    def is_right(self) -> bool:
        return self.says == self.truth


def all_but(patient_id: int) -> str:
    """The second query: the first without one patient."""
    return f"{EVERYONE} AND patient_id <> {patient_id}"


def choose_victims(hospital: Hospital, count: int) -> list[tuple[int, bool]]:
    """Patients and whether they were in oncology, as many who were as who were not, in turn."""
    there = {visit.patient_id for visit in hospital.visits if visit.ward == "oncology"}
    inside = [patient.patient_id for patient in hospital.patients if patient.patient_id in there]
    outside = [patient.patient_id for patient in hospital.patients if patient.patient_id not in there]
    # Every 37th, so that they do not stand side by side.
    pairs = zip(inside[42::37], outside[42::37], strict=False)
    victims = [victim for a, b in pairs for victim in ((a, True), (b, False))]
    return victims[:count]


def difference(ask: Callable[[str], int], victims: Sequence[tuple[int, bool]]) -> list[Guess]:
    # The first in other words each time, so that it is computed afresh: a repeated query would get its old answer.
    first = f"{EVERYONE} AND patient_id <> -{{}}"
    return [Guess(each, ask(first.format(each)), ask(all_but(each)), truth) for each, truth in victims]


WARDS: Final = "SELECT ward, COUNT(*) AS visits, AVG(cost) AS cost\nFROM visits GROUP BY ward"
AGES: Final = """\
SELECT CASE WHEN p.age < 18 THEN 'under 18' WHEN p.age < 40 THEN '18 to 39'
            WHEN p.age < 65 THEN '40 to 64' ELSE '65 and over' END AS age,
       AVG(v.nights) AS nights
FROM visits v JOIN patients p ON v.patient_id = p.patient_id GROUP BY 1"""
COSTS: Final = "SELECT MEDIAN(cost) AS half, QUANTILE(cost, 0.9) AS nine_in_ten FROM visits"
LONG: Final = "SELECT COUNT(DISTINCT patient_id) AS patients FROM visits WHERE nights >= 7"
_VICTIMS = 24
_ATTACK_EPSILON = "0.02"
_SHARE = "1"


@dataclass
class Scenery:
    """State shared by the scenes."""

    stage: Stage
    hospital: Hospital
    curator: Curator
    bare: Callable[[str], list[tuple[Any, ...]]]


def tell(stage: Stage, folder: Path) -> None:
    """Show the whole story on ``stage`` with the hospital in ``folder``."""
    from tacit.curator.opening import open_curator
    from tacit.project.example_hospital import make_hospital

    begun = time.perf_counter()
    hospital = make_hospital()
    project = hospital.write(folder)
    _opening(stage, hospital)
    with open_curator(project, analyst="alice") as curator:
        at = Scenery(stage, hospital, curator, _unprotected(folder))
        answer = _wards(at)
        for scene in (_ages, _costs, _long, _repeat, _refused, _attack, _stopped):
            scene(at)
        _receipt(at, answer)
        _ending(at)
    stage.scene("Your turn", f"{time.perf_counter() - begun:.1f} seconds")
    stage.grid(
        [
            ["[bold]tacit init data.csv", "a project file for your own data"],
            ["[bold]tacit query", "a prompt that shows every cost first"],
            ["[bold]tacit plan --help", "how many people does a good answer need?"],
        ]
    )
    stage.screen.print()


def _unprotected(folder: Path) -> Callable[[str], list[tuple[Any, ...]]]:
    """Return a function that queries the same tables without a curator."""
    import duckdb

    connection = duckdb.connect()
    for name in ("patients", "visits", "wards"):
        connection.read_parquet(str(folder / f"{name}.parquet")).create(name)
    return lambda sql: connection.execute(sql).fetchall()


def _opening(stage: Stage, hospital: Hospital) -> None:
    from tacit.project.example_hospital import PROJECT

    stage.open(
        "A hospital that lets strangers ask",
        f"{len(hospital.patients):,} patients, {len(hospital.visits):,} visits, {len(hospital.wards)} wards. All of it "
        "is made up, "
        "so that the truth [bold magenta]●[/bold magenta] may stand beside the answers; no analyst would see "
        "it.\nEvery answer carries noise, drawn anew in every run, that hides whether any one patient is in the "
        "tables. How much noise is public. How much everything together may tell is the [bold]budget[/bold].",
    )
    stage.scene("What the owner writes down", "tacit.toml")
    stage.code("\n".join(PROJECT.split("\n\n")[1:4]).strip(), "toml")
    stage.say("[dim]Bounds and categories are public knowledge. Nothing is taken from the data.[/dim]")


def _wards(at: Scenery) -> Answer:
    at.stage.scene("How busy are the wards, and what does a visit cost?", "epsilon 0.5")
    quote = at.curator.explain(WARDS, epsilon="0.5")
    at.stage.sql(WARDS)
    at.stage.say(f"[dim]Known before asking, free: a count will be {quote.explanation.errors[0].meaning}.[/dim]")
    answer = at.curator.sql(WARDS, epsilon="0.5")
    truth = {row[0]: row[1:] for row in at.bare(WARDS)}
    visits, costs = _bars(answer, truth, 1), _bars(answer, truth, 2)
    at.stage.bars([[ward, visits[ward], _pm(visits[ward]), f"at €{_pm(costs[ward])}"] for ward in visits])
    return answer


def _ages(at: Scenery) -> None:
    at.stage.scene("Do older patients stay longer?", "epsilon 0.5")
    at.stage.sql(AGES)
    answer = at.curator.sql(AGES, epsilon="0.5")
    nights = _bars(answer, {row[0]: row[1:] for row in at.bare(AGES)}, 1)
    order = ("under 18", "18 to 39", "40 to 64", "65 and over")
    at.stage.bars([[age, nights[age], _pm(nights[age]), "nights"] for age in order])


def _costs(at: Scenery) -> None:
    at.stage.scene("Half of all visits cost less than…", "epsilon 0.4")
    at.stage.sql(COSTS)
    answer = at.curator.sql(COSTS, epsilon="0.4")
    truth, ends = at.bare(COSTS)[0], answer.finished.intervals()[0]
    for i, words in ((0, "half cost less than"), (1, "nine in ten cost less than")):
        low, value, high = (_float(each) for each in (ends[i][0], answer.finished.values[0][i], ends[i][1]))
        at.stage.say(
            f"{words} [bold]€{value:,.0f}[/bold] [dim](between €{low:,.0f} and €{high:,.0f}; "
            f"truth €{truth[i]:,.0f})[/dim]"
        )


def _long(at: Scenery) -> None:
    at.stage.scene("Say how good the answer must be; the cost follows", "within 25")
    at.stage.sql(LONG)
    answer = at.curator.sql(LONG, within=25)
    entry = _bars(answer, {None: (at.bare(LONG)[0][0],)}, 0, keyed=False)[None]
    at.stage.say(f"[bold]{_pm(entry)}[/bold] patients [dim](truth {entry.truth:,.0f})[/dim]. {answer.charge.text}.")


def _repeat(at: Scenery) -> None:
    at.stage.scene("The same numbers again cost nothing", "free")
    again = f"{WARDS} ORDER BY visits DESC LIMIT 1"
    at.stage.sql(again)
    answer = at.curator.sql(again, epsilon="0.5")
    at.stage.good(f"{answer.charge.text}. The stored answer comes back, so asking twice teaches nothing new.")


def _refused(at: Scenery) -> None:
    at.stage.scene("Queries that would reveal a person are refused", "free")
    for sql in (
        "SELECT * FROM visits WHERE cost > 5000",
        "SELECT patient_id, COUNT(*) AS visits FROM visits GROUP BY patient_id",
    ):
        try:
            at.curator.sql(sql, epsilon="0.5")
        except QueryError as refusal:
            at.stage.sql(sql)
            at.stage.bad(str(refusal))


def _attack(at: Scenery) -> None:
    at.curator.ledger.add_analyst("mallory")
    at.curator.ledger.set_quota("patients", {"epsilon": _SHARE}, analyst="mallory")
    victims = choose_victims(at.hospital, _VICTIMS)
    first = victims[0][0]
    at.stage.scene("Mallory, who may spend 1 of the 3, subtracts", f"epsilon {_ATTACK_EPSILON}, {2 * _VICTIMS} times")
    at.stage.say(f"Was patient {first} in oncology? Two harmless counts, one patient apart, give it away:")
    at.stage.sql("\n".join(_folded(sql) for sql in (EVERYONE, all_but(first))))
    bare = difference(lambda sql: int(at.bare(sql)[0][0]), victims)

    def count(sql: str) -> int:
        answer = at.curator.sql(sql, epsilon=_ATTACK_EPSILON, analyst="mallory")
        return round(_float(answer.finished.values[0][0]))

    asked = difference(count, victims)
    at.stage.grid(_compared(bare, asked), right=(2, 4))
    right = sum(guess.is_right for guess in asked)
    at.stage.bad(f"Unprotected, Mallory is right about {sum(g.is_right for g in bare)} of {_VICTIMS} patients.")
    at.stage.good(f"Through Tacit, about {right} of {_VICTIMS}; tossing a coin gives {_VICTIMS // 2}, give or take 5.")


def _compared(bare: list[Guess], asked: list[Guess]) -> list[list[str]]:
    rows = [["[dim]patient", "[dim]was?", "[dim]unprotected", "", "[dim]through Tacit", ""]]
    for left, right in list(zip(bare, asked, strict=True))[:6]:
        first, second = (f"{each.with_them:,} − {each.without:,} = {each.difference:>4}" for each in (left, right))
        truth = "yes" if left.truth else "no"
        rows.append([str(left.patient_id), truth, first, _verdict(left, "red"), second, _verdict(right, "")])
    return rows


def _verdict(guess: Guess, style: str) -> str:
    words = "yes" if guess.says else "no"
    shown = f"[bold {style}]{words}[/]" if style else words
    return shown if guess.is_right else f"{shown}, [green]wrong[/green]"


def _folded(sql: str) -> str:
    return sql.replace(" FROM ", "\nFROM ") + ";"


def _stopped(at: Scenery) -> None:
    at.stage.scene("More epsilon would mean less noise, but there is an end to it", "epsilon 1")
    for analyst in ("mallory", "alice"):
        try:
            at.curator.sql(all_but(0), epsilon="1", analyst=analyst)
        except BudgetError as stop:
            at.stage.bad(f"{analyst.title()}: {stop}")
    at.stage.say("The stop holds whatever is asked, in whatever order, by however many people together.")


def _receipt(at: Scenery, answer: Answer) -> None:
    from tacit.releases.receipt import Receipt, verify_receipt

    _, receipt = answer.paid
    at.stage.scene("A receipt that any reader can check, without the data", f"entry {receipt.position}")
    report = verify_receipt(receipt, at.curator.public_key)
    wanted = ("signature", "mechanisms", "guarantee", "charge")
    for check in report.checks:
        if check.name in wanted:
            (at.stage.good if check.passed else at.stage.bad)(check.words)
    forged = Receipt({**receipt.statement, "charge": {"epsilon": "1/4"}}, receipt.signature)
    told = verify_receipt(forged, at.curator.public_key)
    failed = [check.name for check in told.checks if not check.passed]
    at.stage.say(f"[dim]One that claims to have cost half as much fails: {' and '.join(failed)} do not hold.[/dim]")


def _ending(at: Scenery) -> None:
    from tacit.cli.query import budget_table
    from tacit.core.numbers import with_noun

    at.stage.scene("The account of all of it", "tacit ledger verify")
    report = at.curator.ledger.verify()
    if report.ok:
        size = f"{with_noun(report.entries, 'entry', 'entries')}, {with_noun(report.charges, 'charge')}"
        at.stage.good(f"{size}: chain, charges, sums and caps hold.")
    account = at.curator.budget(analyst="mallory")
    owners = ("total", "mallory")
    lines = (share.lines for share in account.balances)
    at.stage.show(budget_table(zip(owners, lines, account.epsilons, strict=False)))


def _bars(answer: Answer, truth: dict[Any, tuple[Any, ...]], column: int, *, keyed: bool = True) -> dict[Any, DemoBar]:
    """Return the bars of a column by the first column, which holds the group key."""
    found = {}
    for values, ends in zip(answer.finished.values, answer.finished.intervals(), strict=True):
        key = values[0] if keyed else None
        low, high = (_float(end) for end in ends[column])
        true = float(truth[key][column - 1 if keyed else column])
        found[key] = DemoBar(_float(values[column]), low, high, true)
    return found


def _pm(entry: DemoBar) -> str:
    off = max(entry.value - entry.low, entry.high - entry.value)
    return f"{number(entry.value, off)} ± {number(off)}"


def _float(value: Any) -> float:
    return float(value or 0)


def demo(
    keep: Annotated[Path | None, typer.Option(help="Write the hospital's files to this folder and keep them.")] = None,
) -> None:
    """See it at work: a made-up hospital, queries with error bars, a budget, an attack that fails.

    Takes a few seconds. The files are removed afterwards unless --keep names a folder.
    """
    stage = Stage(console(_WIDEST))
    with reported():
        if keep is None:
            with tempfile.TemporaryDirectory(prefix="tacit-demo-") as folder:
                tell(stage, Path(folder))
            return
        if (keep / "tacit.toml").exists():
            raise InputError("keep", f"{keep} holds a project already; name an empty folder")
        keep.mkdir(parents=True, exist_ok=True)
        tell(stage, keep)
        stage.say(f"Left in [bold]{keep}[/bold]: try [bold]tacit query --project {keep}/tacit.toml[/bold]")
