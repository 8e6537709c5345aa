"""Request: price or accuracy, account and options of a question.

==========  ============================== ========================================================================
account     price                          charge for the whole query
==========  ============================== ========================================================================
pure        epsilon                        ε
approx      epsilon, delta                 (ε, δ); δ only where something in the plan needs it
zcdp        epsilon with delta, or rho     the largest ρ that is (ε, δ)-DP by itself; δ for private keys
gdp         epsilon with delta, or mu      the largest μ that is (ε, δ)-DP by itself
==========  ============================== ========================================================================

An epsilon is the guarantee of the answer by itself: at the delta that is stated, or else at that of the account. Where
neither has a delta, the answer is ε-DP, with Laplace noise, and charged as such (ρ = ε²/2, or the μ that ε-DP implies).

Instead of a price, ``within`` asks for an accuracy: the smallest epsilon is found that keeps every aggregate, or
those named, within so much of the bounded truth with probability ``confidence``, each cell by itself.

The text of a query may state the same things in its OPTIONS. What both state must agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from tacit.core.errors import InputError
from tacit.core.numbers import Number, check_count, exact_positive, exact_probability
from tacit.query.parsing.query_options import Options

__all__ = ["ACCOUNTS", "BOUNDS", "EVERY", "KEYS", "Account", "Request", "Terms", "settle"]

#: The kinds of account.
ACCOUNTS: Final = ("pure", "approx", "zcdp", "gdp")
#: The name under which the selection of private keys is weighed.
KEYS: Final = "keys"
#: The name under which the search for AUTO bounds is weighed.
BOUNDS: Final = "bounds"
#: The name under which ``within`` speaks of every aggregate.
EVERY: Final = "*"

#: A price below this buys nothing that anybody could use, and takes long to compute with.
_SMALLEST: Final = {"epsilon": Fraction(1, 10**12), "rho": Fraction(1, 10**24), "mu": Fraction(1, 10**12)}
#: Beyond these a number means nothing more, and only the work of computing with it grows: a free quote would be a way
#: to keep a server busy. A price of so much hides nobody.
_LARGEST: Final = {"epsilon": Fraction(10**6), "rho": Fraction(10**12), "mu": Fraction(10**6)}
_WITHIN: Final = (Fraction(1, 10**12), Fraction(10**18))
_SMALLEST_DELTA: Final = Fraction(1, 10**36)
_SUREST: Final = 1 - Fraction(1, 10**18)
_LEAST_SURE: Final = Fraction(1, 100)
_WEIGHTS: Final = (Fraction(1, 10**6), Fraction(10**6))
_CURRENCIES: Final = {
    "pure": ("epsilon",),
    "approx": ("epsilon",),
    "zcdp": ("epsilon", "rho"),
    "gdp": ("epsilon", "mu"),
}


@dataclass(frozen=True, slots=True)
class Account:
    """The kind of account that pays.

    Args:
        kind: one of :data:`ACCOUNTS`.
        delta: what a query that needs a delta and states none is given; None makes such a query state one.
        target_delta: delta of the whole account, at which an epsilon without a delta is meant; None where it has none.
    """

    kind: str
    delta: Number | None = None
    target_delta: Number | None = None

    def __post_init__(self) -> None:
        if self.kind not in ACCOUNTS:
            raise InputError("account", f"must be one of {', '.join(ACCOUNTS)}, got {self.kind!r}")
        for name in ("delta", "target_delta"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, exact_probability(getattr(self, name), name))


@dataclass(frozen=True)
class Request:
    """What is asked for; exactly one of epsilon, rho, mu and within, here or in the text of the query.

    Args:
        epsilon: the guarantee of the whole query.
        delta: likewise.
        rho: a zCDP price.
        mu: a GDP price.
        within: how far off an answer may be: one number for every aggregate, or a number for each one named, by its
            column in the answer or by its text such as ``avg(cost)``.
        confidence: the probability of being within, and of the errors that a plan shows.
        max_groups: the most groups that one unit counts in; not more than declared.
        weights: how much an aggregate (or ``"keys"``, or ``"bounds"`` for the search for AUTO bounds) matters; one of
            weight 2 gets twice the epsilon of one of weight 1.
        account: what pays.
        suppose: how many values a group is supposed to have, for errors of averages and variances, which depend on it.
    """

    epsilon: Number | None = None
    delta: Number | None = None
    rho: Number | None = None
    mu: Number | None = None
    within: Number | Mapping[str, Number] | None = None
    confidence: Number = "0.95"
    max_groups: int | None = None
    weights: Mapping[str, Number] | None = None
    account: Account = field(default_factory=lambda: Account("pure"))
    suppose: int | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """A request and the options of a query, read exactly and put together.

    Args:
        account: its kind.
        currency: which number was typed: ``epsilon``, ``rho``, ``mu`` or ``within``.
        amount: that number; 0 for ``within``.
        delta: what may be used up where it is needed; None when nothing was stated.
        within: names and bounds; :data:`EVERY` for all.
        confidence: of errors.
        max_groups: as asked for.
        weights: names and weights.
        rule: of key selection, as in the OPTIONS.
        suppose: the number of values in a group.
        alone: delta at which an epsilon is the guarantee of the answer by itself; None for ε-DP. The charge follows
            from it, so that it is no part of a digest.
    """

    account: str
    currency: str
    amount: Fraction
    delta: Fraction | None
    within: tuple[tuple[str, Fraction], ...]
    confidence: Fraction
    max_groups: int | None
    weights: tuple[tuple[str, Fraction], ...]
    rule: str
    suppose: int | None
    alone: Fraction | None = field(default=None, repr=False)


def settle(request: Request, options: Options) -> Terms:
    """The terms of a query, or an :class:`InputError` that says what contradicts what."""
    kind = request.account.kind
    typed = {
        "epsilon": _one("epsilon", _positive(request.epsilon, "epsilon"), options.epsilon),
        "rho": _one("rho", _positive(request.rho, "rho"), options.rho),
        "mu": _positive(request.mu, "mu"),
    }
    within = _within(request, options)
    given = [name for name, value in typed.items() if value is not None] + ["within"] * bool(within)
    if len(given) != 1:
        _refuse_number(given, kind)
    currency = given[0]
    amount = typed.get(currency) or Fraction(0)
    if currency in _SMALLEST and amount < _SMALLEST[currency]:
        raise InputError(currency, f"is too small to buy an answer; state at least {float(_SMALLEST[currency]):g}")
    if currency in _LARGEST and amount > _LARGEST[currency]:
        raise InputError(currency, f"protects nobody; state at most {float(_LARGEST[currency]):g}")
    if currency != "within" and currency not in _CURRENCIES[kind]:
        allowed = " or ".join(_CURRENCIES[kind])
        raise InputError(currency, f"is not what a {kind} account is charged in; state {allowed}")
    confidence = exact_probability(
        request.confidence if options.confidence is None else options.confidence, "confidence"
    )
    weights = {name: exact_positive(weight, "weights") for name, weight in (request.weights or {}).items()}
    _check_sizes("confidence", [confidence], _LEAST_SURE, _SUREST)
    _check_sizes("within", [bound for _, bound in within], *_WITHIN)
    _check_sizes("weights", weights.values(), *_WEIGHTS)
    delta, alone = _deltas(request, options, currency)
    return Terms(
        account=kind,
        currency=currency,
        amount=amount,
        delta=delta,
        within=within,
        confidence=confidence,
        max_groups=None if request.max_groups is None else check_count(request.max_groups, "max_groups"),
        weights=tuple(sorted(weights.items())),
        rule=options.group_selection or "AUTO",
        suppose=None if request.suppose is None else check_count(request.suppose, "suppose"),
        alone=alone,
    )


def _check_sizes(name: str, values: Iterable[Fraction], low: Fraction, high: Fraction) -> None:
    for value in values:
        if not low <= value <= high:
            raise InputError(name, f"must lie between {float(low):g} and {float(high):g}")


def _refuse_number(given: list[str], kind: str) -> None:
    choices = ", ".join((*_CURRENCIES[kind], "within"))
    if not given:
        raise InputError("epsilon", f"state what the query may cost or how accurate it must be: one of {choices}")
    raise InputError(given[1], f"contradicts {given[0]}: state exactly one of {choices}")


def _deltas(request: Request, options: Options, currency: str) -> tuple[Fraction | None, Fraction | None]:
    """The delta that may be used up, and the one at which an epsilon is meant."""
    account = request.account
    stated = None if request.delta is None else exact_probability(request.delta, "delta", zero=True)
    stated = _one("delta", stated, options.delta)
    if stated and stated < _SMALLEST_DELTA:
        raise InputError("delta", f"is too small to mean anything; state 0 or at least {float(_SMALLEST_DELTA):g}")
    if stated and (account.kind == "pure" or (account.kind == "gdp" and currency == "mu")):
        raise InputError("delta", f"a {account.kind} account has no delta to spend; leave it out")
    target = account.target_delta if stated is None else stated
    alone = None if not target or account.kind not in ("zcdp", "gdp") else exact_probability(target, "delta")
    if account.kind == "gdp":
        return None, alone
    usable = account.delta if stated is None else stated
    return None if usable is None else exact_probability(usable, "delta", zero=True), alone


def _within(request: Request, options: Options) -> tuple[tuple[str, Fraction], ...]:
    asked = request.within
    if isinstance(asked, Mapping):
        if options.within is not None:
            raise InputError("within", "is stated both in the query and beside it; state it once")
        if not asked:
            raise InputError("within", "must name at least one aggregate")
        return tuple(sorted((name, exact_positive(bound, "within")) for name, bound in asked.items()))
    bound = _one("within", _positive(asked, "within"), options.within)
    return () if bound is None else ((EVERY, bound),)


def _positive(value: Number | None, name: str) -> Fraction | None:
    return None if value is None else exact_positive(value, name)


def _one(name: str, beside: Fraction | None, inside: Fraction | None) -> Fraction | None:
    """What the request and the text of the query state, if they do not contradict one another."""
    if beside is not None and inside is not None and beside != inside:
        raise InputError(name, f"is {float(inside):g} in the query and {float(beside):g} beside it; state it once")
    return inside if beside is None else beside
