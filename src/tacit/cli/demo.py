"""``tacit demo``: a made-up hospital asks its own table six questions, and nobody in it is told on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

__all__ = ["demo"]

PEOPLE = 1200
DAYS = 28
LONGEST_STAY = 5
DIAGNOSES = ("asthma", "diabetes", "fracture", "heart failure", "migraine", "pneumonia")
CONDITIONS = (
    "anaemia",
    "arthritis",
    "back pain",
    "depression",
    "eczema",
    "gout",
    "hay fever",
    "high blood pressure",
    "insomnia",
    "obesity",
)


@dataclass(frozen=True)
class Patient:
    """One row of the made-up table."""

    age: int
    diagnosis: str
    conditions: tuple[str, ...]
    admitted: int
    nights: int
    smokes: bool


def demo() -> None:
    """See the mechanisms at work on a small made-up hospital."""
    from rich.console import Console

    console = Console(highlight=False)
    patients = made_up_patients()
    console.print(
        f"\n[bold]A made-up hospital with {PEOPLE:,} patients[/bold]\n"
        "Every answer has noise in it, so that none shows whether any one patient is in the table. "
        "How much noise is public: [bold]epsilon[/bold] says how little one patient may change what is seen. "
        "The table is invented, so the truth may be printed beside the answers. Run it again and the noise is new.\n"
    )
    for show in (_count, _histogram, _most_common, _mean, _poll, _days):
        show(console, patients)
    console.print(
        "All but the poll were answered by the hospital from its table. Together they cost each patient epsilon "
        "0.5 + 0.5 + 0.5 + 0.5 + 1 = [bold]3[/bold] (and delta 1e-6): what is spent adds up, which is why somebody "
        "has to keep the account.\n"
        "How many people does a good answer need? [bold]tacit plan --help[/bold]\n"
    )


def made_up_patients() -> list[Patient]:
    """The same table every time, from arithmetic alone."""
    return [_patient(index) for index in range(PEOPLE)]


def _patient(index: int) -> Patient:
    def pick(salt: int, below: int) -> int:
        # Multiplying by a large odd number scatters neighbouring indices over all 32 bits.
        mixed = (index * 2654435761 + salt * 40503) % 2**32
        mixed = (mixed ^ mixed >> 15) * 2246822519 % 2**32
        return (mixed ^ mixed >> 13) % below

    # The smaller of two picks makes the first entries more common than the last.
    diagnosis = DIAGNOSES[min(pick(1, len(DIAGNOSES)), pick(2, len(DIAGNOSES)))]
    conditions = tuple(c for place, c in enumerate(CONDITIONS) if pick(10 + place, 100) < 12 + 5 * (place % 7))
    return Patient(
        age=18 + (pick(3, 45) + pick(4, 35)),
        diagnosis=diagnosis,
        conditions=conditions,
        admitted=max(pick(5, DAYS), pick(6, DAYS) // 2),
        nights=1 + min(pick(7, 12), pick(8, 12)),
        smokes=pick(9, 100) < 23,
    )


def _title(console: Console, title: str, words: str) -> None:
    console.print(f"[bold cyan]{title}[/bold cyan]\n{words}")


def _count(console: Console, patients: Sequence[Patient]) -> None:
    from tacit.mechanisms.laplace import Laplace

    truth = sum(patient.age > 65 for patient in patients)
    mechanism = Laplace(epsilon="0.5", l1_sensitivity=1)
    noisy, off = mechanism.release(truth), mechanism.error(beta="0.05")
    _title(
        console,
        "1. How many are older than 65?   epsilon 0.5",
        "One patient changes the count by one; Laplace noise of scale 2 hides that.",
    )
    console.print(f"   answer  [bold]{noisy} ± {off}[/bold]   (95% sure; truth {truth})\n")


def _histogram(console: Console, patients: Sequence[Patient]) -> None:
    from tacit.mechanisms.histogram import Histogram

    mechanism = Histogram(epsilon="0.5", bins=DIAGNOSES)
    noisy = mechanism.release(patient.diagnosis for patient in patients)
    off = mechanism.error(beta="0.05")
    _title(
        console,
        "2. How many have each main diagnosis?   epsilon 0.5 for all of them",
        "A patient is in one bar only, so six bars cost no more than one. The lighter end of a bar is its error.",
    )
    widest = max(*noisy.counts, 1) + off
    for name, count in noisy.items():
        sure, unsure = _cells(max(count - off, 0), widest), _cells(max(count + off, 0), widest)
        bar = "█" * sure + "░" * (unsure - sure)
        truth = sum(patient.diagnosis == name for patient in patients)
        console.print(f"   {name:<14}[green]{bar:<32}[/green] {count:>4} ± {off}  (truth {truth})")
    console.print("   All six bars are within their error at once, with 95% certainty.\n")


def _most_common(console: Console, patients: Sequence[Patient]) -> None:
    from tacit.mechanisms.counting_queries import CountingQueries
    from tacit.mechanisms.noisy_max import NoisyMax

    truth = {name: sum(name in patient.conditions for patient in patients) for name in CONDITIONS}
    winner = NoisyMax(epsilon="0.5", sensitivity=1, monotone=True).release(truth)
    counts = CountingQueries(epsilon="0.5", k=len(CONDITIONS))
    _title(
        console,
        "3. Which chronic condition is the most common?   epsilon 0.5",
        "A patient can have all ten, so ten counts need ten times the noise. Naming only the winner does not.",
    )
    console.print(
        f"   answer  [bold]{winner}[/bold]   (truth: {max(truth, key=lambda name: truth[name])})\n"
        f"   all ten counts at the same epsilon would each be off by up to {counts.error(beta='0.05')}\n"
    )


def _mean(console: Console, patients: Sequence[Patient]) -> None:
    from tacit.mechanisms.mean import Mean

    noisy = Mean(epsilon="0.5", bounds=(0, 14)).release([patient.nights for patient in patients])
    low, high = noisy.interval("0.95")
    truth = sum(patient.nights for patient in patients) / len(patients)
    _title(
        console,
        "4. How many nights do they stay on average?   epsilon 0.5",
        "Stays are clamped to 0 to 14 nights. The number of patients is kept private as well, at no extra cost.",
    )
    console.print(
        f"   answer  [bold]{noisy.value:.2f}[/bold] nights, between {low:.2f} and {high:.2f}"
        f"   (95% sure; truth {truth:.2f})\n"
    )


def _poll(console: Console, patients: Sequence[Patient]) -> None:
    from tacit.mechanisms.randomized_response import FrequencyEstimate, RandomizedResponse

    mechanism = RandomizedResponse(gamma="0.25")
    reports = mechanism.release_many([patient.smokes for patient in patients])
    estimate = mechanism.estimate(reports)
    assert isinstance(estimate, FrequencyEstimate)  # noqa: S101 - for the type checker: a yes/no question has one estimate
    truth = sum(patient.smokes for patient in patients) / len(patients)
    _title(
        console,
        "5. Do you smoke?   epsilon 1.0987, spent by each patient alone",
        "Nobody need be trusted: every patient tells the truth with probability 3/4 and lies otherwise.",
    )
    console.print(
        f"   {sum(map(bool, reports))} said yes, so about [bold]{estimate.frequency:.0%}[/bold] do, between "
        f"{estimate.low:.0%} and {estimate.high:.0%}   (95% sure; truth {truth:.0%})\n"
    )


def _days(console: Console, patients: Sequence[Patient]) -> None:
    from tacit.core.sensitivity import contributions
    from tacit.mechanisms.gaussian import Gaussian

    truth = [0] * DAYS
    for patient in patients:
        for day in range(
            patient.admitted, min(patient.admitted + patient.nights, patient.admitted + LONGEST_STAY, DAYS)
        ):
            truth[day] += 1
    moves = contributions(bounds=(0, 1), max_groups=LONGEST_STAY)
    mechanism = Gaussian(epsilon=1, delta="1e-6", l2_squared=moves.l2_squared, dimension=DAYS)
    noisy = mechanism.release(truth)
    off = mechanism.error(beta="0.05", k=DAYS)
    _title(
        console,
        f"6. How many beds were taken on each of {DAYS} days?   epsilon 1, delta 1e-6",
        f"A patient counts on at most {LONGEST_STAY} days, so the vector moves by √{LONGEST_STAY}: "
        "many small moves at once are what Gaussian noise is for.",
    )
    console.print(f"   answer  [green]{_sparkline(noisy)}[/green]   from {min(noisy)} to {max(noisy)} beds")
    console.print(f"   truth   {_sparkline(truth)}   every day ± {off} at once, 95% sure\n")


def _cells(value: int, widest: int, width: int = 32) -> int:
    return round(width * value / widest)


def _sparkline(values: Sequence[int]) -> str:
    top = max(*values, 1)
    return "".join("▁▂▃▄▅▆▇█"[min(max(7 * value // top, 0), 7)] for value in values)
