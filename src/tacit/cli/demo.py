"""``tacit demo``: the story of an example hospital.

*Differencing attack.* "How many patients were in oncology?" and "how many, apart from patient 10042?" are both fair
queries. Asked of the bare table, their difference is 10042's secret. Asked of a curator, it is noise: an attacker who
guesses from answers that cost ε together is right with probability at most e^ε / (1 + e^ε), one half for a small ε.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from tacit.cli.common import console, reported
from tacit.core.errors import BudgetError, InputError, QueryError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

    from tacit.curator.curator import Curator
    from tacit.project.example_hospital import Hospital
    from tacit.releases.answer import Answer


_WIDEST: Final = 96
_BAR: Final = 24
_VICTIMS: Final = 24
_ATTACK_EPSILON: Final = "0.02"
_SHARE: Final = "1"
EVERYONE: Final = "SELECT COUNT(DISTINCT patient_id) AS n FROM visits WHERE ward = 'oncology'"
WARDS: Final = "SELECT ward, COUNT(*) AS visits, AVG(cost) AS cost\nFROM visits GROUP BY ward"
LONG: Final = "SELECT COUNT(DISTINCT patient_id) AS patients FROM visits WHERE nights >= 7"


class Estimate(NamedTuple):
    """A number with its interval and the truth that only an invented table may show."""

    value: float
    low: float
    high: float
    truth: float

    def __str__(self) -> str:
        off = max(self.value - self.low, self.high - self.value)
        digits = 0 if off >= 10 else 1 if off >= 1 else 2
        return f"{self.value:,.{digits}f} ± {off:,.{digits}f}"

    def bar(self, most: float) -> Text:
        """Return a line as long as the number, dashed over its interval, with a mark where the truth is."""
        from rich.text import Text

        low, high, truth = (min(max(round(_BAR * each / most), 0), _BAR) for each in (self.low, self.high, self.truth))
        line = Text()
        for place in range(_BAR):
            at_truth, sure = place == min(truth, _BAR - 1), place < low
            style = "bold magenta" if at_truth else "green" if sure else "bright_green"
            line.append("●" if at_truth else "━" if sure else "╍" if place <= high else " ", style=style)
        return line


class Story:
    """The scenes, each of which prints itself."""

    def __init__(self, screen: Console, hospital: Hospital, folder: Path) -> None:
        import duckdb

        self.screen = screen
        self.hospital = hospital
        self._scene = 0
        # The same tables without a curator.
        self._bare = duckdb.connect()
        for name in ("patients", "visits", "wards"):
            self._bare.read_parquet(str(folder / f"{name}.parquet")).create(name)

    def bare(self, sql: str) -> list[tuple[Any, ...]]:
        """Query the unprotected tables."""
        return self._bare.execute(sql).fetchall()

    def scene(self, title: str, cost: str = "") -> None:
        from rich.table import Table

        self._scene += 1
        line = Table.grid(expand=True)
        line.add_column(style="bold cyan")
        line.add_column(style="yellow", justify="right")
        line.add_row(f" {self._scene}  {title}", cost)
        self.screen.print()
        self.screen.print(line)

    def show(self, shown: RenderableType) -> None:
        """Print text with markup, or a table, a little to the right."""
        from rich.padding import Padding

        self.screen.print(Padding(shown, (0, 0, 0, 4)))

    def code(self, text: str, language: str = "sql") -> None:
        from rich.syntax import Syntax

        self.show(Syntax(text, language, theme="ansi_dark", background_color="default", word_wrap=True))

    def grid(self, rows: Iterable[Sequence[str | Text]], *, right: Sequence[int] = ()) -> None:
        """Print columns without lines; those numbered in ``right`` are flush right."""
        from rich.table import Table

        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        listed = list(rows)
        for i in range(len(listed[0])):
            table.add_column(justify="right" if i in right else "left", no_wrap=True)
        for row in listed:
            table.add_row(*row)
        self.show(table)

    def mark(self, good: bool, words: str) -> None:
        """Mark what went as it should, or a refusal, or a person who was revealed."""
        from rich.table import Table
        from rich.text import Text

        line = Table.grid(padding=(0, 1, 0, 0))
        line.add_row(Text("✔", "bold green") if good else Text("✘", "bold red"), Text(words))
        self.show(line)

    def opening(self) -> None:
        from rich.panel import Panel

        from tacit.project.example_hospital import PROJECT

        hospital = self.hospital
        words = (
            f"{len(hospital.patients):,} patients, {len(hospital.visits):,} visits, {len(hospital.wards)} wards. All "
            "of it is made up, so that the truth [bold magenta]●[/bold magenta] may stand beside the answers; no "
            "analyst would see it.\nEvery answer carries noise, drawn anew in every run, that hides whether any one "
            "patient is in the tables. How much noise is public. How much everything together may tell is the "
            "[bold]budget[/bold]."
        )
        title = "[bold]A hospital that lets strangers ask[/bold]"
        self.screen.print()
        self.screen.print(Panel(words, title=title, title_align="left", border_style="cyan"))
        self.scene("What the owner writes down", "tacit.toml")
        self.code("\n".join(PROJECT.split("\n\n")[1:4]).strip(), "toml")
        self.show("[dim]Bounds and categories are public knowledge. Nothing is taken from the data.[/dim]")

    def wards(self, curator: Curator) -> Answer:
        self.scene("How busy are the wards, and what does a visit cost?", "epsilon 0.5")
        quote = curator.explain(WARDS, epsilon="0.5")
        self.code(WARDS)
        self.show(f"[dim]Known before asking, free: a count will be {quote.explanation.errors[0].meaning}.[/dim]")
        answer = curator.sql(WARDS, epsilon="0.5")
        truth = {row[0]: row for row in self.bare(WARDS)}
        found: list[tuple[str, Estimate, Estimate]] = []
        for values, ends in zip(answer.finished.values, answer.finished.intervals(), strict=True):
            visits, cost = (_estimate(values[i], ends[i], truth[values[0]][i]) for i in (1, 2))
            found.append((str(values[0]), visits, cost))
        most = max(visits.high for _, visits, _ in found)
        self.grid([[ward, visits.bar(most), str(visits), f"at €{cost}"] for ward, visits, cost in found], right=(2,))
        return answer

    def long(self, curator: Curator) -> None:
        self.scene("Say how good the answer must be; the cost follows", "within 25")
        self.code(LONG)
        answer = curator.sql(LONG, within=25)
        truth = self.bare(LONG)[0][0]
        found = _estimate(answer.finished.values[0][0], answer.finished.intervals()[0][0], truth)
        self.show(f"[bold]{found}[/bold] patients [dim](truth {truth:,})[/dim]. {answer.charge.text}.")

    def repeat(self, curator: Curator) -> None:
        self.scene("The same numbers again cost nothing", "free")
        again = f"{WARDS} ORDER BY visits DESC LIMIT 1"
        self.code(again)
        charge = curator.sql(again, epsilon="0.5").charge.text
        self.mark(True, f"{charge}. The stored answer comes back, so asking twice teaches nothing new.")

    def refused(self, curator: Curator) -> None:
        self.scene("Queries that would reveal a person are refused", "free")
        for sql in (
            "SELECT * FROM visits WHERE cost > 5000",
            "SELECT patient_id, COUNT(*) AS visits FROM visits GROUP BY patient_id",
        ):
            try:
                curator.sql(sql, epsilon="0.5")
            except QueryError as refusal:
                self.code(sql)
                self.mark(False, str(refusal))

    def attack(self, curator: Curator) -> None:
        curator.ledger.add_analyst("mallory")
        curator.ledger.set_quota("patients", {"epsilon": _SHARE}, analyst="mallory")
        victims = choose_victims(self.hospital, _VICTIMS)
        self.scene("Mallory, who may spend 1 of the 3, subtracts", f"epsilon {_ATTACK_EPSILON}, {2 * _VICTIMS} times")
        self.show(f"Was patient {victims[0][0]} in oncology? Two harmless counts, one patient apart, give it away:")
        self.code("\n".join(sql.replace(" FROM ", "\nFROM ") + ";" for sql in (EVERYONE, all_but(victims[0][0]))))

        def protected(sql: str) -> int:
            answer = curator.sql(sql, epsilon=_ATTACK_EPSILON, analyst="mallory")
            return round(float(answer.finished.values[0][0] or 0))  # type: ignore[arg-type]

        rows = [["[dim]patient", "[dim]was?", "[dim]unprotected", "", "[dim]through Tacit", ""]]
        right = [0, 0]
        for patient, truth in victims:
            row = [str(patient), "yes" if truth else "no"]
            for i, count in enumerate((lambda sql: int(self.bare(sql)[0][0]), protected)):
                # The total in other words each time, so that it is computed afresh: a repeat would get its old answer.
                total, without = count(all_but(-patient)), count(all_but(patient))
                guess = total - without >= 1
                right[i] += guess is truth
                verdict = f"{'yes' if guess else 'no'}{'' if guess is truth else ', [green]wrong[/green]'}"
                row += [f"{total:,} − {without:,} = {total - without:>4}", verdict if i else f"[bold red]{verdict}[/]"]
            rows.append(row)
        self.grid(rows[:7], right=(2, 4))
        self.mark(False, f"Unprotected, Mallory is right about {right[0]} of {_VICTIMS} patients.")
        coin = f"tossing a coin gives {_VICTIMS // 2}, give or take 5."
        self.mark(True, f"Through Tacit, about {right[1]} of {_VICTIMS}; {coin}")

    def stopped(self, curator: Curator) -> None:
        self.scene("More epsilon would mean less noise, but there is an end to it", "epsilon 2")
        for analyst in ("mallory", "alice"):
            try:
                curator.sql(all_but(0), epsilon="2", analyst=analyst)
            except BudgetError as stop:
                self.mark(False, f"{analyst.title()}: {stop}")
        self.show("The stop holds whatever is asked, in whatever order, by however many people together.")

    def receipt(self, curator: Curator, answer: Answer) -> None:
        from tacit.releases.receipt import Receipt, verify_receipt

        _, receipt = answer.paid
        self.scene("A receipt that any reader can check, without the data", f"entry {receipt.position}")
        for check in verify_receipt(receipt, curator.public_key).checks:
            if check.name in ("signature", "mechanisms", "guarantee", "charge"):
                self.mark(check.passed, check.words)
        forged = Receipt({**receipt.statement, "charge": {"epsilon": "1/4"}}, receipt.signature)
        failed = [check.name for check in verify_receipt(forged, curator.public_key).checks if not check.passed]
        self.show(f"[dim]One that claims to have cost half as much fails: {' and '.join(failed)} do not hold.[/dim]")

    def ending(self, curator: Curator, seconds: float) -> None:
        from tacit.cli.query import budget_table
        from tacit.core.numbers import with_noun

        self.scene("The account of all of it", "tacit ledger verify")
        report = curator.ledger.verify()
        size = f"{with_noun(report.entries, 'entry', 'entries')}, {with_noun(report.charges, 'charge')}"
        self.mark(report.ok, f"{size}: chain, charges, sums and caps hold.")
        account = curator.budget(analyst="mallory")
        lines = (share.lines for share in account.balances)
        self.show(budget_table(zip(("total", "mallory"), lines, account.epsilons, strict=False)))
        self.scene("Your turn", f"{seconds:.1f} seconds")
        self.grid(
            [
                ["[bold]tacit init data.csv", "a project file for your own data"],
                ["[bold]tacit explain", "what a query would cost, and its error"],
                ["[bold]tacit plan --help", "how many people does a good answer need?"],
            ]
        )
        self.screen.print()


def tell(screen: Console, folder: Path) -> None:
    """Write the hospital to a folder, and print the whole story."""
    from tacit.curator.opening import open_curator
    from tacit.project.example_hospital import make_hospital

    begun = time.perf_counter()
    hospital = make_hospital()
    project = hospital.write(folder)
    story = Story(screen, hospital, folder)
    story.opening()
    with open_curator(project, analyst="alice") as curator:
        answer = story.wards(curator)
        for scene in (story.long, story.repeat, story.refused, story.attack, story.stopped):
            scene(curator)
        story.receipt(curator, answer)
        story.ending(curator, time.perf_counter() - begun)


def all_but(patient: int) -> str:
    """Return the first query without one patient."""
    return f"{EVERYONE} AND patient_id <> {patient}"


def choose_victims(hospital: Hospital, count: int) -> list[tuple[int, bool]]:
    """Return patients and whether they were in oncology, as many who were as who were not, in turn."""
    there = {visit.patient_id for visit in hospital.visits if visit.ward == "oncology"}
    sides = [[p.patient_id for p in hospital.patients if (p.patient_id in there) is side] for side in (True, False)]
    # Every 37th, so that they do not stand side by side.
    pairs = zip(*(side[42::37] for side in sides), strict=False)
    return [victim for inside, outside in pairs for victim in ((inside, True), (outside, False))][:count]


def _estimate(value: Any, ends: Any, truth: Any) -> Estimate:
    return Estimate(*(float(each or 0) for each in (value, *ends, truth)))


def demo(
    keep: Annotated[Path | None, typer.Option(help="Write the hospital's files to this folder and keep them.")] = None,
) -> None:
    """See it at work: a made-up hospital, queries with error bars, a budget, an attack that fails.

    Takes a few seconds. The files are removed afterwards unless --keep names a folder.
    """
    screen = console(_WIDEST)
    with reported():
        if keep is None:
            with tempfile.TemporaryDirectory(prefix="tacit-demo-") as folder:
                tell(screen, Path(folder))
            return
        if (keep / "tacit.toml").exists():
            raise InputError("keep", f"{keep} holds a project already; name an empty folder")
        keep.mkdir(parents=True, exist_ok=True)
        tell(screen, keep)
        screen.print(f"    Left in [bold]{keep}[/bold]: try [bold]tacit query --project {keep}/tacit.toml[/bold]")
