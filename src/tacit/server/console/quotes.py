"""Quotes as pages show them, the form that asks for one, and the quotes of one query at several prices.

A quote is a function of text and public metadata, so a curve of price against error is free and reads no data.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Final

from markupsafe import Markup
from starlette.responses import Response

from tacit.core.errors import InputError, TacitError
from tacit.core.numbers import exact_text, float_nearest
from tacit.query.planning.explain import ExplainedError, ExplainedRelease
from tacit.query.request import OPTIONS, QueryOption, Request
from tacit.releases.accounts import Budget
from tacit.releases.planner import Quote
from tacit.server.console.amounts import Gauge, amounts_text, charge_of, gauges, symbol, up
from tacit.server.console.charts import draw_curve
from tacit.server.console.page_request import PageRequest

#: Options that state a price or an accuracy; the form asks for one of them.
PAYS: Final = sorted(
    (name for name, option in OPTIONS.items() if option.accounts), key=lambda name: -len(OPTIONS[name].accounts)
)
#: Options that are rarely stated.
MORE: Final = [option for option in OPTIONS.values() if not option.accounts and option.name != "confidence"]
LEVELS: Final = (("0.5", "50%"), ("0.8", "80%"), ("0.9", "90%"), ("0.95", "95%"), ("0.99", "99%"), ("0.999", "99.9%"))
#: Errors that stand beside the price.
_BRIEFLY: Final = 3
_NOISE: Final = {"laplace": "Laplace noise of scale", "gaussian": "Gaussian noise of σ"}


@dataclass(frozen=True)
class AskForm:
    """The fields of the form, as text.

    Args:
        pay: name of the option that states the price or the accuracy.
        amount: its value.
        said: the other options by name; see :data:`MORE`.
    """

    sql: str = ""
    pay: str = "epsilon"
    amount: str = ""
    confidence: str = "0.95"
    said: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> AskForm:
        """The form that was sent; a missing field keeps its default."""
        sent = {name: text.strip(" \t\n") for name, text in fields.items()}
        own = {name: sent[name] for name in ("sql", "pay", "amount", "confidence") if name in sent}
        return cls(**own, said={option.name: text for option in MORE if (text := sent.get(option.name, ""))})

    def fields(self) -> dict[str, str]:
        """The fields as they are sent, to send them once more."""
        own = {"sql": self.sql, "pay": self.pay, "amount": self.amount, "confidence": self.confidence}
        return own | dict(self.said)

    def ask(self) -> Request:
        """The request that the form states.

        Raises:
            InputError: something is missing or is no number.
        """
        if not self.sql:
            raise InputError("sql", "write a query")
        if self.pay not in PAYS:
            raise InputError("pay", f"must be one of {', '.join(PAYS)}")
        options = {name: _typed(OPTIONS[name], text) for name, text in self.said.items()}
        if self.amount:
            options[self.pay] = _typed(OPTIONS[self.pay], self.amount)
        return Request.of(self.sql, {"confidence": self.confidence, **options})


@dataclass(frozen=True)
class ErrorView:
    """Expected error of a column: a number, and the words that belong to it."""

    label: str
    bound: str
    rest: str
    meaning: str


@dataclass(frozen=True)
class ReleaseView:
    """One release and its noise."""

    name: str
    noise: str
    cost: str
    reason: str
    l1_sensitivity: str
    l2_sensitivity: str


@dataclass(frozen=True)
class QuoteView:
    """A quote for a page; see the template for what stands where."""

    price: str
    after: str
    groups: str
    limits: str
    unit: str
    relation: str
    digest: str
    side: str = ""
    alone: str = ""
    confidence: str = ""
    errors: tuple[ErrorView, ...] = ()
    releases: tuple[ReleaseView, ...] = ()
    bounding: str = ""
    bounds: str = ""
    bias: str = ""
    engine_sql: str = ""
    gauges: tuple[Gauge, ...] = ()
    charge: Mapping[str, Fraction] = field(default_factory=dict)
    free: bool = False
    leaves: str = ""
    advice: tuple[str, ...] = ()
    sets: str = ""
    public: bool = False

    @property
    def fits(self) -> bool:
        """Whether the budget allows it."""
        return all(gauge.fits for gauge in self.gauges)

    @property
    def briefly(self) -> str:
        """The errors on one line, beside the price."""
        if self.public:
            return "Exact, from public tables alone."
        told = [f"{each.label} ± {each.bound}" for each in self.errors if each.bound]
        words = ", ".join(told[:_BRIEFLY]) + (" …" if len(told) > _BRIEFLY else "")
        if self.free:
            return f"Answered before: free. {words}".strip()
        return f"{words}, {self.confidence} of the time" if words else self.after

    @property
    def said(self) -> str:
        """Text that is read out when it changes."""
        if self.public:
            return f"Price {self.price}. {self.after}"
        errors = "; ".join(
            f"{e.label} plus or minus {e.bound}" if e.bound else f"{e.label} {e.meaning}" for e in self.errors
        )
        return f"Price {self.price}. {self.after} Expected error: {errors}."


def view_quote(
    quote: Quote, budget: Budget, *, analyst: str, free: bool = False, engine: bool = False, leaves: float = 0.0
) -> QuoteView:
    """A quote beside what it would leave of a budget.

    Args:
        quote: the quote.
        budget: of its population, with how many such queries fit.
        analyst: who would ask.
        free: whether its answer exists already.
        engine: whether to show what the database will run, which names where the data is kept.
        leaves: seconds after which its answer leaves; 0 where that is not decided.
    """
    it = quote.explanation
    charge = {} if free else charge_of(quote.guarantee)
    main = {name: amount for name, amount in charge.items() if name != "delta" and amount}
    shown = gauges(budget, charge=charge, analyst=analyst)
    typed = quote.typed.replace("epsilon", "ε")
    delta = f"and δ {up(charge['delta'])}" if charge.get("delta") else ""
    return QuoteView(
        price="Free" if free else typed or amounts_text(main) or "Nothing",
        side="" if free else f"({amounts_text(charge)})" if typed else delta,
        alone="" if it.alone is None or free else it.alone.replace("epsilon", "ε").replace("delta", "δ"),
        after=_after(shown, budget.queries, free=free),
        confidence=f"{float_nearest(100 * Fraction(it.confidence)):.6g}%",
        errors=tuple(map(_error, it.errors)),
        releases=tuple(map(_release, it.releases)),
        groups=f"Groups are {it.keys}." if it.keys.startswith(("public", "private")) else "One row about all people.",
        bounding=f"Of one person, {it.bounding}.".replace(" of a unit", "").replace("1 row count ", "1 row counts "),
        limits=it.limits,
        bounds="" if it.bounds is None else f"Bounds: {it.bounds}",
        bias="" if it.bias is None else f"What is left out: {it.bias}.",
        unit=it.unit,
        relation=it.relation.replace("_", " or "),
        digest=it.digest[:16],
        engine_sql=(it.engine_sql or "") if engine else "",
        advice=it.advice,
        sets="" if it.sets is None else f"Grouping sets {it.sets}.",
        gauges=tuple(gauge for gauge in shown if gauge.letter != symbol("delta") or not gauge.fits),
        charge=charge,
        free=free,
        leaves=f"Its answer leaves after {leaves:g} s, whatever the data." if leaves and not free else "",
    )


def view_public_quote(quote: Quote) -> QuoteView:
    """A quote of a query about public tables alone."""
    it = quote.explanation
    return QuoteView(
        price="Free",
        after="Public tables alone: the answer is exact, and nothing is charged.",
        groups=f"It has {it.keys}.",
        limits=it.limits,
        unit=it.unit,
        relation=it.relation.replace("_", " or "),
        digest=it.digest[:16],
        free=True,
        public=True,
    )


def _after(shown: tuple[Gauge, ...], queries: int | None, *, free: bool) -> str:
    if free:
        return "It was answered before, so asking it again costs nothing."
    if not all(gauge.fits for gauge in shown):
        return "That is more than is left."
    if queries is None:
        return ""
    more = "this one is the last that fits" if queries == 1 else f"{queries:,} like this still fit"
    return f"Of what is left, {more}."


def _error(error: ExplainedError) -> ErrorView:
    if error.bound is None:
        return ErrorView(
            error.label, "", "", "depends on how many values a group has; say what you suppose under “More options”"
        )
    if error.meaning == f"within {error.bound}":
        return ErrorView(error.label, error.bound, "", error.meaning)
    start, _, rest = error.meaning.partition(error.bound)
    if start == "within ":
        return ErrorView(error.label, error.bound, rest.strip(" ,"), error.meaning)
    return ErrorView(error.label, "", "", error.meaning)


def _release(release: ExplainedRelease) -> ReleaseView:
    words = _NOISE.get(release.mechanism)
    noise = f"{words} {release.scale}" if words else f"{release.mechanism}, {release.scale}"
    if release.mechanism == "constant":
        noise = "no noise: the same for any data"
    cost = release.cost
    for currency in ("epsilon", "delta", "rho", "mu"):
        cost = cost.replace(currency, symbol(currency))
    return ReleaseView(release.name, noise, cost, release.reason, release.l1_sensitivity, release.l2_sensitivity)


def _typed(option: QueryOption, text: str) -> Any:
    """The value of a field; several names are separated by commas."""
    return option.typed(text.split(",") if option.named else [text])


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
    """The curve of the query in the form, for the script."""
    found = await curve_of(visit, AskForm.of(visit.form))
    return await visit.parts(curve=visit.render("part_curve.html", curve=found))


async def curve_of(visit: PageRequest, form: AskForm) -> CurveView | None:
    """The curve of a query; None where its error is not known beforehand or it is refused."""
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
