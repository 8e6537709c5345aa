"""Price against error: the quotes of one question at several prices.

Each is an ordinary quote, a function of text and public metadata, so a curve is free and reads no data.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from markupsafe import Markup
from starlette.responses import Response

from tacit.core.errors import TacitError
from tacit.core.numbers import exact_text, float_nearest
from tacit.query.request import OPTIONS
from tacit.releases.planner import Quote
from tacit.server.console.charts import draw_curve
from tacit.server.console.number_format import symbol
from tacit.server.console.page_request import PageRequest
from tacit.server.console.quotes import AskForm

_MOST_STEPS: Final = 9
_LARGEST: Final = Fraction(5)


@dataclass(frozen=True)
class CurveStep:
    """A price, the errors that it buys, and what a screen reader says of it."""

    amount: str
    errors: str


@dataclass(frozen=True)
class CurveView:
    """A curve of one error for a page.

    Args:
        steps: prices that the slider stops at.
        chosen: number of the step next to the typed price.
        pay: option that states the price.
        letter: of its currency.
    """

    picture: Markup
    steps: tuple[CurveStep, ...]
    chosen: int
    pay: str
    letter: str

    @property
    def data(self) -> str:
        """The steps for the script."""
        return json.dumps([[step.amount, f"{self.letter} {step.amount}: {step.errors}"] for step in self.steps])


async def curve(visit: PageRequest) -> Response:
    """The curve of the question in the form, for the script."""
    found = await curve_of(visit, AskForm.of(visit.form))
    return await visit.parts(curve=visit.render("part_curve.html", curve=found))


async def curve_of(visit: PageRequest, form: AskForm) -> CurveView | None:
    """The curve of a question; None where its error is not known beforehand or it is refused."""
    pay = form.pay if form.pay != "within" else "epsilon"
    try:
        now = await visit.runtime.quote(visit.user, form.ask())
        amounts = await visit.run(_amounts, visit, now, form, pay)
        asked = [replace(form, pay=pay, amount=exact_text(amount)).ask() for amount in amounts]
        quotes = [await visit.runtime.quote(visit.user, each) for each in asked]
    except TacitError:
        return None
    known = [_known_errors(quote) for quote in quotes]
    place = next((n for n, bound in enumerate(known[-1]) if bound), None) if len(known) > 1 else None
    if place is None:
        return None
    points = [
        (float_nearest(amount), float_nearest(bounds[place]))
        for amount, bounds in zip(amounts, known, strict=True)
        if bounds[place]
    ]
    if len(points) < 2:
        return None
    found = list(zip(amounts, quotes, strict=True))
    price = _price(now, form, pay)
    letter = symbol(pay)
    label = _label(now, place)
    steps = tuple(CurveStep(exact_text(amount), _errors(quote)) for amount, quote in found)
    words = f"Error of {label} against the price, from {letter} {steps[0].amount} to {letter} {steps[-1].amount}."
    chosen = min(range(len(found)), key=lambda n: abs(float_nearest(found[n][0]) - (price or 0.0)))
    picture = draw_curve(points, price, letter, f"{label} ±", words)
    return CurveView(picture, steps, chosen, pay, letter)


def _amounts(visit: PageRequest, quote: Quote, form: AskForm, pay: str) -> list[Fraction]:
    """Round prices up to what is left, where the account counts in the same currency, and the typed one."""
    budget = visit.service.budget(visit.user, quote=quote)[0]
    left = [Fraction(line.left) for line in budget.lines if line.currency == pay]
    most = max(min([_LARGEST, *left]), OPTIONS[pay].low)
    scale = Fraction(1)
    while scale > most:
        scale /= 10
    while scale * 10 <= most:
        scale *= 10
    rounds = [scale * each / 10**power for power in range(5) for each in (5, 2, 1)]
    fitting = [amount for amount in rounds if OPTIONS[pay].low <= amount <= most]
    typed = [amount for amount in [Fraction(form.amount)] if amount <= most] if form.pay == pay else []
    return sorted({*fitting[:_MOST_STEPS], *typed})


def _known_errors(quote: Quote) -> list[Fraction]:
    """The errors of a plan's aggregates; 0 for one that depends on the data or on bounds that are not found yet."""
    errors = () if quote.plan is None else quote.plan.cell_errors
    return [Fraction(0) if each.bound is None or each.power else each.bound for *_, each in errors]


def _price(quote: Quote, form: AskForm, pay: str) -> float | None:
    """The present price in the currency of the axis."""
    try:
        if form.pay == pay:
            return float(Fraction(form.amount))
        return float_nearest(Fraction(getattr(quote.guarantee, pay)))
    except (ValueError, AttributeError, ZeroDivisionError, OverflowError):
        return None


def _label(quote: Quote, place: int) -> str:
    return quote.explanation.errors[place].label


def _errors(quote: Quote) -> str:
    told = [f"{_label(quote, n)} ± {each.bound}" for n, each in enumerate(quote.explanation.errors) if each.bound]
    return ", ".join(told[:3])
