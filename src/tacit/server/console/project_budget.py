"""Page of a budget, with a guide to choosing epsilon: published numbers, and the risk of one person.

``docs/choosing-epsilon.md`` has the same published numbers with their sources; a test compares the two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Final

from starlette.responses import Response

from tacit.core.cautions import cautions, guess_probability
from tacit.core.errors import InputError, TacitError
from tacit.core.numbers import exact_positive
from tacit.project.owner_view import unit_facts
from tacit.project.project_editing import Place
from tacit.project.project_file import PopulationModel, validate
from tacit.project.project_template import MARK
from tacit.releases.accounts import filter_of
from tacit.server.console.belief_bounds import promise
from tacit.server.console.number_format import as_pair, up
from tacit.server.console.owner_mode import OwnerRequest, address


@dataclass(frozen=True, slots=True)
class PublishedEpsilon:
    """A release, its epsilon, and the unit that the number is about."""

    release: str
    epsilon: str
    unit: str


@dataclass(frozen=True, slots=True)
class GuessRisk:
    """An epsilon and how often an attacker is right, at most, who gave one person's secret even odds."""

    epsilon: str
    percent: str
    is_chosen: bool


PUBLISHED: Final = (
    PublishedEpsilon("US Census 2020, redistricting data", "19.61 at δ = 10⁻¹⁰", "a person, once"),
    PublishedEpsilon("Apple, emoji suggestions", "4, local model", "a device, per day"),
    PublishedEpsilon("Apple, health types", "2, local model", "a device, per day"),
    PublishedEpsilon("Apple, new words", "16, local model", "a device, per day"),
    PublishedEpsilon("Google, community mobility reports", "2.64", "a person, per day"),
    PublishedEpsilon("Israel's Ministry of Health, live births", "9.98", "a birth, once"),
)
_STEPS: Final = ("0.1", "0.5", "1", "2", "4", "8")
_WORDS: Final = ("epsilon", "delta", "rho", "mu", "query_delta")
_ACCOUNTING: Final = (
    ("pure", "pure: prices add up; no delta"),
    ("approx", "approx: prices and deltas add up"),
    ("zcdp", "zcdp: many small questions cost less than their sum"),
    ("gdp", "gdp: the same for Gaussian noise"),
)
#: Price of a question by which a budget is told in questions.
_PRICES: Final = (Fraction(1, 10), Fraction(1, 2), Fraction(1))


async def show_budget(visit: OwnerRequest, problem: str = "") -> Response:
    """Show the budget of a population and the risk that it means."""
    name, model = _asked(visit)
    context = await visit.run(_context, visit, name, model)
    return await visit.page("project_budget.html", 400 if problem else 200, problem=problem, **context)


async def change_budget(visit: OwnerRequest) -> Response:
    """Take over the terms of an account."""
    name, model = _asked(visit)
    return await visit.edited(
        lambda: _changes(name, visit.form, model), show_budget, address("budget", population=name)
    )


def _asked(visit: OwnerRequest) -> tuple[str, PopulationModel]:
    name = visit.asked("population")
    people = visit.content("populations")
    if name not in people:
        raise InputError("population", f"there is no population {name!r} in the project")
    return name, validate(PopulationModel, people[name], f"populations.{name}")


def _changes(name: str, form: Mapping[str, str], model: PopulationModel) -> dict[Place, Any]:
    at = ("populations", name)
    said = {word: form.get(word, "").strip() or None for word in _WORDS}
    if not (said["epsilon"] or said["rho"] or said["mu"]):
        said["epsilon"] = MARK
    changes: dict[Place, Any] = {
        (*at, word): value for word, value in said.items() if value != _stated(getattr(model, word))
    }
    for word, usual in (("accounting", "pure"), ("relation", "add_remove")):
        if (chosen := form.get(word, usual)) != getattr(model, word):
            changes[(*at, word)] = None if chosen == usual else chosen
    return changes


def _stated(value: Any) -> str | None:
    return None if value is None else str(value)


def _context(visit: OwnerRequest, name: str, model: PopulationModel) -> dict[str, Any]:
    people = _people(visit, name)
    said = {word: "" if getattr(model, word) in (None, MARK) else str(getattr(model, word)) for word in _WORDS}
    context: dict[str, Any] = {
        "population": name,
        "said": said,
        "accounting": model.accounting,
        "relation": model.relation,
        "kinds": _ACCOUNTING,
        "published": PUBLISHED,
        "people": people,
        "delta_hint": "" if not people else f"1e-{len(str(10 * people))}",
        "risks": guess_risks(None),
        "promise": None,
        "questions": [],
        "cautions": (),
        "trouble": "",
    }
    if said["epsilon"] or said["rho"] or said["mu"]:
        try:
            epsilon, delta = as_pair(filter_of(name, model).guarantee)
        except TacitError as problem:
            return {**context, "trouble": str(problem)}
        context |= {
            "promise": promise(epsilon, delta),
            "risks": guess_risks(epsilon, up(epsilon)),
            "questions": [(up(price), int(epsilon / price)) for price in _PRICES if price <= epsilon],
            "cautions": cautions(epsilon=epsilon, delta=delta or None, people=people or None),
        }
    return context


def _people(visit: OwnerRequest, name: str) -> int:
    """Number of people in the largest table of a population whose unit is a column; 0 where it is not known."""
    most = 0
    for table, said in visit.content("tables").items():
        if not isinstance(said, dict) or said.get("population") != name:
            continue
        try:
            _, known, source = visit.viewed(table)
            column = known.find(str(said.get("unit", "")))
            if column is not None and not source.is_elsewhere:
                facts = visit.shared.once("unit", column, source, partial(unit_facts, source, column))
                most = max(most, facts.people)
        except TacitError:
            continue
    return most


def guess_risks(chosen: Fraction | None, text: str = "") -> list[GuessRisk]:
    """The risk at some round numbers, and at the chosen one in its place."""
    steps = {exact_positive(step, "epsilon"): step for step in _STEPS}
    if chosen is not None:
        steps.setdefault(chosen, text)
    return [
        GuessRisk(said, _percent(guess_probability(number)), number == chosen) for number, said in sorted(steps.items())
    ]


def _percent(share: Fraction) -> str:
    tenths = math.ceil(1000 * share)
    return f"{tenths / 10:.1f} %" if tenths < 1000 else "over 99.9 %"
