"""Quotes as pages show them, and the form that asks for one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from tacit.core.errors import InputError
from tacit.core.numbers import float_nearest
from tacit.curator.accounts import Budget
from tacit.curator.quote import Quote
from tacit.query.planning.explain import ExplainedError, ExplainedRelease
from tacit.server.console.budget_bars import Gauge, gauges
from tacit.server.console.number_format import amounts_text, charge_of, symbol, up
from tacit.server.service import Ask

__all__ = ["LEVELS", "PAYS", "AskForm", "QuoteView", "view_quote"]

#: What may be typed, in plain words.
PAYS: Final = {
    "epsilon": "price, in ε",
    "within": "accuracy, ±",
    "rho": "price, in ρ",
    "mu": "price, in μ",
}
LEVELS: Final = (("0.5", "50%"), ("0.8", "80%"), ("0.9", "90%"), ("0.95", "95%"), ("0.99", "99%"), ("0.999", "99.9%"))
_NOISE: Final = {"laplace": "Laplace noise of scale", "gaussian": "Gaussian noise of σ"}


@dataclass(frozen=True)
class AskForm:
    """The fields of the form, as text."""

    sql: str = ""
    pay: str = "epsilon"
    amount: str = ""
    confidence: str = "0.95"
    suppose: str = ""
    max_groups: str = ""
    delta: str = ""

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> AskForm:
        """What was sent; what was not keeps its default."""
        return cls(**{name: fields[name].strip(" \t\n") for name in cls.__dataclass_fields__ if name in fields})

    @property
    def more(self) -> bool:
        """Whether anything rare was said."""
        return bool(self.suppose or self.max_groups or self.delta)

    def ask(self) -> Ask:
        """What is asked for.

        Raises:
            InputError: something is missing or is no number.
        """
        if not self.sql:
            raise InputError("sql", "write a question")
        if self.pay not in PAYS:
            raise InputError("pay", f"must be one of {', '.join(PAYS)}")
        words: dict[str, Any] = {self.pay: self.amount} if self.amount else {}
        for name in ("suppose", "max_groups"):
            if text := getattr(self, name):
                words[name] = _count(text, name)
        if self.delta:
            words["delta"] = self.delta
        return Ask(sql=self.sql, confidence=self.confidence, **words)


@dataclass(frozen=True)
class ErrorView:
    """How far off a column may be: a number, and what belongs to it."""

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
    side: str
    alone: str
    after: str
    confidence: str
    errors: tuple[ErrorView, ...]
    releases: tuple[ReleaseView, ...]
    groups: str
    bounding: str
    bounds: str
    unit: str
    relation: str
    digest: str
    engine_sql: str
    gauges: tuple[Gauge, ...] = ()
    charge: Mapping[str, Fraction] = field(default_factory=dict)
    free: bool = False
    leaves: str = ""

    @property
    def fits(self) -> bool:
        """Whether the budget allows it."""
        return all(gauge.fits for gauge in self.gauges)

    @property
    def said(self) -> str:
        """What is read out when it changes."""
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
        budget: of its population, with how many such questions fit.
        analyst: who would ask.
        free: whether its answer exists already.
        engine: whether to show what the database will run, which names where the data is kept.
        leaves: seconds after which its answer leaves; 0 where that is not decided.
    """
    it = quote.explanation
    charge = {} if free else charge_of(quote.guarantee)
    main = {name: amount for name, amount in charge.items() if name != "delta" and amount}
    shown = gauges(budget, charge=charge, analyst=analyst)
    return QuoteView(
        price="Free" if free else (amounts_text(main) or "Nothing"),
        side="" if free else _delta(charge),
        alone="" if it.alone is None or free else it.alone.replace("epsilon", "ε").replace("delta", "δ"),
        after=_after(shown, budget.questions, free=free),
        confidence=f"{float_nearest(100 * Fraction(it.confidence)):.6g}%",
        errors=tuple(map(_error, it.errors)),
        releases=tuple(map(_release, it.releases)),
        groups=f"Groups are {it.keys}." if it.keys.startswith(("public", "private")) else "One row about everybody.",
        bounding=f"Of one person, {it.bounding}.".replace(" of a unit", "").replace("1 row count ", "1 row counts "),
        bounds="" if it.bounds is None else f"Bounds: {it.bounds}",
        unit=it.unit,
        relation=it.relation.replace("_", " or "),
        digest=it.digest[:16],
        engine_sql=(it.engine_sql or "") if engine else "",
        gauges=tuple(gauge for gauge in shown if gauge.letter != symbol("delta") or not gauge.fits),
        charge=charge,
        free=free,
        leaves=f"Its answer leaves after {leaves:g} s, whatever the data." if leaves and not free else "",
    )


def _after(shown: tuple[Gauge, ...], questions: int | None, *, free: bool) -> str:
    if free:
        return "It was answered before, so asking it again costs nothing."
    if not all(gauge.fits for gauge in shown):
        return "That is more than is left."
    if questions is None:
        return ""
    more = "this one is the last that fits" if questions == 1 else f"{questions:,} like this still fit"
    return f"Of what is left, {more}."


def _delta(charge: Mapping[str, Fraction]) -> str:
    delta = charge.get("delta")
    return f"and δ {up(delta)}" if delta else ""


def _error(error: ExplainedError) -> ErrorView:
    label = error.label.replace("count_rows(", "count(")
    if error.bound is None:
        return ErrorView(
            label, "", "", "depends on how many values a group has; say what you suppose under “More to say”"
        )
    if error.meaning == f"within {error.bound}":
        return ErrorView(label, error.bound, "", error.meaning)
    start, _, rest = error.meaning.partition(error.bound)
    if start == "within ":
        return ErrorView(label, error.bound, rest.strip(" ,"), error.meaning)
    return ErrorView(label, "", "", error.meaning)


def _release(release: ExplainedRelease) -> ReleaseView:
    words = _NOISE.get(release.mechanism)
    noise = f"{words} {release.scale}" if words else f"{release.mechanism}, {release.scale}"
    if release.mechanism == "constant":
        noise = "no noise: the same whoever takes part"
    cost = release.cost
    for currency in ("epsilon", "delta", "rho", "mu"):
        cost = cost.replace(currency, symbol(currency))
    return ReleaseView(release.name, noise, cost, release.reason, release.l1_sensitivity, release.l2_sensitivity)


def _count(text: str, name: str) -> int:
    digits = text.replace(",", "").replace(" ", "").replace("_", "")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 15:
        raise InputError(name, "must be a whole number")
    return int(digits)
