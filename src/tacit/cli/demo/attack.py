"""Differencing attack of the demo: two counts that differ in one person.

"How many patients were in oncology?" and "how many, apart from patient 10042?" are both fair questions. Asked of the
bare table, their difference is 10042's secret. Asked of a curator, it is noise: an attacker who guesses from
answers that cost ε together is right with probability at most e^ε / (1 + e^ε), one half for a small ε.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tacit.project.example_hospital import Hospital

ALL: Final = "SELECT COUNT(DISTINCT patient_id) AS n FROM visits WHERE ward = 'oncology'"


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
        """Conclusion of the attacker."""
        return self.difference >= 1

    @property
    def is_right(self) -> bool:
        """Whether the conclusion is true."""
        return self.says == self.truth


def but(patient_id: int) -> str:
    """The second question: the first without one patient."""
    return f"{ALL} AND patient_id <> {patient_id}"


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
    """Ask both questions about each victim."""
    # The first in other words each time, so that it is computed afresh: a repeated question would get its old answer.
    first = f"{ALL} AND patient_id <> -{{}}"
    return [Guess(each, ask(first.format(each)), ask(but(each)), truth) for each, truth in victims]


def as_json(guesses: Sequence[Guess]) -> dict[str, Any]:
    """Number of patients, and of right guesses."""
    return {"patients": len(guesses), "right": sum(guess.is_right for guess in guesses)}
