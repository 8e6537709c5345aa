"""Request: a query, its cost or accuracy, its account and its options.

==========  ============================== ========================================================================
account     cost                           charge for the whole query
==========  ============================== ========================================================================
pure        epsilon                        ε
approx      epsilon, delta                 (ε, δ); δ only where something in the plan needs it
zcdp        epsilon with delta, or rho     the largest ρ that is (ε, δ)-DP by itself; δ for private keys
gdp         epsilon with delta, or mu      the largest μ that is (ε, δ)-DP by itself
==========  ============================== ========================================================================

An epsilon is the guarantee of the answer by itself: at the delta that is stated, or else at that of the account. Where
neither has a delta, the answer is ε-DP, with Laplace noise, and charged as such (ρ = ε²/2, or the μ that ε-DP implies).

Instead of a cost, ``within`` states an accuracy: the smallest epsilon is found that keeps every aggregate, or each one
named, within this distance of the bounded true value with probability ``confidence``, per cell.

The text of a query may state the same things in its OPTIONS. Statements in both must agree.

An option is declared here and nowhere else: its type in :class:`Request` and, for callers, in :class:`QueryOptions`;
its kind, bounds, help text, accounts and name in OPTIONS in the table :data:`OPTIONS`. From it come the arguments of
``Curator.sql`` and ``RemoteCurator.sql``, the body of ``POST /v1/query`` and its OpenAPI schema, the console's form,
the options of the command line, and the OPTIONS clause. A new option further needs the code that
uses it: :class:`Terms`, and :class:`~tacit.query.parsing.parse.Options` if it may be stated in OPTIONS.
``tests/client/test_options.py`` fails where an interface lacks it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar

from tacit.core.errors import InputError
from tacit.core.numbers import Number, check_count, exact_positive, exact_probability
from tacit.query.contribution import AUTO, MOST_COUNTED, MOST_TOTAL, ContributionNumber, contribution_number

if TYPE_CHECKING:
    from tacit.query.parsing.parse import Options

#: The kinds of account.
ACCOUNTS: Final = ("pure", "approx", "zcdp", "gdp")
#: Name of private group selection in ``weights``.
KEYS: Final = "keys"
#: Name of the search for AUTO clipping bounds in ``weights``.
BOUNDS: Final = "bounds"
#: Name of the search for AUTO ``max_groups`` and ``max_rows`` in ``weights``.
LIMITS: Final = "limits"
#: Name that stands for every aggregate in ``within``.
EVERY: Final = "*"
#: Most digits of a typed count; a longer one is taken for a mistake.
_MOST_TYPED: Final = 15
_Function = TypeVar("_Function", bound=Callable[..., Any])


class OptionKind(Enum):
    """Kind of values that an option takes."""

    #: A positive number.
    AMOUNT = "amount"
    #: A number between 0 and 1.
    PROBABILITY = "probability"
    #: A whole number of things.
    COUNT = "count"
    #: A whole number of things, or AUTO.
    LIMIT = "limit"
    #: A positive number for every aggregate, or one for each that is named.
    AMOUNTS = "amounts"
    #: A positive number for each aggregate that is named.
    WEIGHTS = "weights"


@dataclass(frozen=True, slots=True)
class QueryOption:
    """An option of a query, as every interface (SQL, Python, HTTP, console, command line) reads and describes it.

    Args:
        name: the name of the argument.
        kind: the kind of its values.
        example: a value, as it is typed.
        label: the label of its field in the console's form.
        help: a phrase that describes it, without a full stop.
        low: the smallest number; a smaller cost buys nothing usable and takes long to compute with.
        high: the largest number. Beyond it only the work of computing grows, so that a free quote could keep a server
            busy; a larger cost protects no one.
        accounts: for a cost or an accuracy, the kinds of account that it may be stated for.
        clause: its name in ``OPTIONS(…)``; empty where it cannot be stated there.
    """

    name: str
    kind: OptionKind
    example: str
    label: str
    help: str
    low: Fraction = Fraction(0)
    high: Fraction = Fraction(10**18)
    accounts: tuple[str, ...] = ()
    clause: str = ""

    @property
    def named(self) -> bool:
        """Whether the option takes one number for each of several names."""
        return self.kind in (OptionKind.AMOUNTS, OptionKind.WEIGHTS)

    def exact(self, value: Any) -> Fraction:
        """Return one number of the option, exactly.

        Raises:
            InputError: the value is not a number of the option's kind.
        """
        if self.kind in (OptionKind.COUNT, OptionKind.LIMIT):
            typed = self.kind is OptionKind.LIMIT and isinstance(value, str)
            whole = _whole(value, self.name, " or AUTO") if typed else value
            return Fraction(check_count(whole, self.name, maximum=int(self.high)))
        if self.kind is OptionKind.PROBABILITY:
            return exact_probability(value, self.name, zero=self.name in ("delta", "bias_share"))
        return exact_positive(value, self.name)

    def typed(self, texts: Sequence[str]) -> Any:
        """Parse the texts that a person typed: ``0.5``, ``1,000``, or ``column=50`` once or more; None for no text."""
        if not texts:
            return None
        if self.named and not (self.kind is OptionKind.AMOUNTS and len(texts) == 1 and "=" not in texts[0]):
            return self._by_name(texts)
        (text,) = texts
        if self.kind is OptionKind.LIMIT and text.strip().lower() == AUTO:
            return AUTO
        if self.kind in (OptionKind.COUNT, OptionKind.LIMIT):
            return _whole(text, self.name, " or AUTO" if self.kind is OptionKind.LIMIT else "")
        return text

    def _by_name(self, texts: Sequence[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        one = "one number, or " if self.kind is OptionKind.AMOUNTS else ""
        for text in texts:
            name, equals, bound = text.rpartition("=")
            if not equals or not name.strip():
                raise InputError(self.name, f"must be {one}column=number once or more; got {text!r}")
            if name.strip() in found:
                raise InputError(self.name, f"names {name.strip()} twice")
            found[name.strip()] = bound.strip()
        return found


def _whole(text: str, name: str, more: str = "") -> int:
    digits = text.replace(",", "").replace(" ", "").replace("_", "")
    if not digits.isascii() or not digits.isdigit() or len(digits) > _MOST_TYPED:
        raise InputError(name, f"must be a whole number{more}")
    return int(digits)


_TINY, _HUGE = Fraction(1, 10**12), Fraction(10**6)
# fmt: off
_TABLE: Final = (
    QueryOption("epsilon", OptionKind.AMOUNT, "0.5", "cost, in ε", "cost of the whole query in epsilon",
                   low=_TINY, high=_HUGE, accounts=ACCOUNTS, clause="epsilon"),
    QueryOption("delta", OptionKind.PROBABILITY, "1e-8", "δ, if any",
                   "delta of the whole query, for accounts that have one", low=Fraction(1, 10**36), clause="delta"),
    QueryOption("rho", OptionKind.AMOUNT, "0.1", "cost, in ρ", "cost in rho instead of epsilon, for zcdp accounts",
                   low=Fraction(1, 10**24), high=Fraction(10**12), accounts=("zcdp",), clause="rho"),
    QueryOption("mu", OptionKind.AMOUNT, "0.5", "cost, in μ", "cost in mu instead of epsilon, for gdp accounts",
                   low=_TINY, high=_HUGE, accounts=("gdp",)),
    QueryOption("within", OptionKind.AMOUNTS, "50", "accuracy, ±",
                   "largest error of the answers, instead of a cost", low=_TINY, accounts=ACCOUNTS, clause="within"),
    QueryOption("confidence", OptionKind.PROBABILITY, "0.95", "Intervals at",
                   "confidence of the intervals and of within, by default 0.95",
                   low=Fraction(1, 100), high=1 - Fraction(1, 10**18), clause="confidence"),
    QueryOption("max_groups", OptionKind.LIMIT, "2", "Groups per person, at most",
                   "most groups that one unit counts in, or AUTO, if other than declared; noise grows with it",
                   high=Fraction(MOST_COUNTED), clause="max_groups_contributed"),
    QueryOption("max_rows", OptionKind.LIMIT, "3", "Rows per person and group, at most",
                   "most rows of one unit that count per group, or AUTO, if other than declared; noise grows with it",
                   high=Fraction(MOST_COUNTED), clause="max_rows_contributed"),
    QueryOption("max_rows_total", OptionKind.LIMIT, "64", "Rows per person in all, at most",
                   "most rows of one unit that count in all groups together, or AUTO; noise grows with it",
                   high=Fraction(MOST_TOTAL), clause="max_rows_total"),
    QueryOption("weights", OptionKind.WEIGHTS, "column=2", "Weights, column=2",
                   "importance of aggregates: weight 2 gets twice the epsilon of weight 1",
                   low=Fraction(1, 10**6), high=Fraction(10**6)),
    QueryOption("bias_share", OptionKind.PROBABILITY, "0.1", "Share for the bias",
                   "share of the cost that buys an estimate of the bias, by default 0.04; 0 for none",
                   high=Fraction(1, 2), clause="bias_share"),
    QueryOption("suppose", OptionKind.COUNT, "1000", "Values in a group, about",
                   "supposed number of values in a group, for the expected error of averages", high=Fraction(10**12)),
)
# fmt: on
#: The options of a query by name, in the order in which they are shown.
OPTIONS: Final[Mapping[str, QueryOption]] = {option.name: option for option in _TABLE}


@dataclass(frozen=True, slots=True)
class Account:
    """The account that a query is charged to.

    Args:
        kind: one of :data:`ACCOUNTS`.
        delta: the default of queries that need a delta and state none; with None they must state one.
        target_delta: delta of the whole account, which an epsilon without a delta refers to; None where it has none.
        most: the budget of the whole account in epsilon, rho or mu squared; None where that is not known.
        per_query: the largest epsilon of one query, as policy of the owner; None for any.
        analyst_caps: the default budget of one analyst, by currency; empty for any.
        policy: sentences about what the owner allows.
        warn_at: percentages from which a warning is shown.
    """

    kind: str
    delta: Number | None = None
    target_delta: Number | None = None
    most: Fraction | None = None
    per_query: Fraction | None = None
    analyst_caps: Mapping[str, Number] = field(default_factory=dict, hash=False)
    policy: tuple[str, ...] = ()
    warn_at: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in ACCOUNTS:
            raise InputError("account", f"must be one of {', '.join(ACCOUNTS)}, got {self.kind!r}")
        for name in ("delta", "target_delta"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, exact_probability(getattr(self, name), name))


class QueryOptions(TypedDict, total=False):
    """The types of a query's options, for callers of ``sql`` and ``explain``; see :class:`Request`."""

    epsilon: Number | None
    delta: Number | None
    rho: Number | None
    mu: Number | None
    within: Number | Mapping[str, Number] | None
    confidence: Number
    max_groups: ContributionNumber | None
    max_rows: ContributionNumber | None
    max_rows_total: ContributionNumber | None
    weights: Mapping[str, Number] | None
    bias_share: Number
    suppose: int | None


@dataclass(frozen=True, kw_only=True)
class Request:
    """A query and its options; exactly one of epsilon, rho, mu and within, here or in the text of the query.

    Args:
        sql: the query; empty where a plan is made from a query that was resolved before.
        within: one number for every aggregate, or a number for each one named, by its column in the answer or by its
            text such as ``avg(cost)``.
        max_groups: more or less than declared, not more than the owner's ceiling, if there is one; or AUTO.
        max_rows: likewise.
        max_rows_total: rows of one unit in all groups together; where it is stated, the two others bind only if stated.
        weights: by the same names, or ``"keys"``, or ``"bounds"`` and ``"limits"`` for the searches for AUTO
            bounds and AUTO limits.
        bias_share: of the price; see :mod:`tacit.query.planning.bias`.
        account: the account that pays.
    """

    sql: str = ""
    epsilon: Number | None = None
    delta: Number | None = None
    rho: Number | None = None
    mu: Number | None = None
    within: Number | Mapping[str, Number] | None = None
    confidence: Number = "0.95"
    max_groups: ContributionNumber | None = None
    max_rows: ContributionNumber | None = None
    max_rows_total: ContributionNumber | None = None
    weights: Mapping[str, Number] | None = None
    bias_share: Number = "0.04"
    suppose: int | None = None
    account: Account = Account("pure")

    @property
    def options(self) -> QueryOptions:
        """The options by name, as ``Curator.sql`` takes them."""
        return {name: getattr(self, name) for name in OPTIONS}  # type: ignore[return-value]  # mypy: a key is any text

    @property
    def stated(self) -> dict[str, Any]:
        """The options that differ from the defaults, as JSON; ``Request(**stated)`` has the same terms."""
        usual = {each.name: each.default for each in fields(self)}
        found: dict[str, Any] = {}
        for name, option in OPTIONS.items():
            value = getattr(self, name)
            if value == usual[name]:
                continue
            if isinstance(value, Mapping):
                found[name] = {each: str(option.exact(number)) for each, number in value.items()}
            elif option.kind in (OptionKind.COUNT, OptionKind.LIMIT):
                found[name] = AUTO if isinstance(value, str) else int(value)
            else:
                found[name] = str(option.exact(value))
        return found

    @property
    def stated_rows(self) -> ContributionNumber | None:
        """``max_rows``, checked: a query is resolved for it.

        Raises:
            InputError: it is neither a whole number nor AUTO.
        """
        return None if self.max_rows is None else contribution_number(self.max_rows, "max_rows")

    @property
    def is_priced(self) -> bool:
        """Whether the request states a cost or an accuracy."""
        return any(option.accounts and getattr(self, name) is not None for name, option in OPTIONS.items())

    @classmethod
    def of(cls, sql: str, options: Mapping[str, Any]) -> Request:
        """Return the request of a caller: SQL and options alone, so that a caller cannot state the account.

        Raises:
            TypeError: an option is unknown.
        """
        for name in options:
            if name not in OPTIONS:
                raise TypeError(f"{name!r} is not an option of a query; there are {', '.join(OPTIONS)}")
        return cls(sql=sql, **options)


def takes_options(function: _Function) -> _Function:
    """Show the options of a query in the signature and the docstring of a function with ``**options``."""
    shown = inspect.signature(function)
    types = {each.name: each for each in fields(Request)}
    keyword = inspect.Parameter.KEYWORD_ONLY
    added = [
        inspect.Parameter(name, keyword, default=types[name].default, annotation=types[name].type) for name in OPTIONS
    ]
    own = [each for each in shown.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    before = [each for each in own if each.kind is not keyword]
    parameters = [*before, *added, *(each for each in own if each.kind is keyword)]
    function.__signature__ = shown.replace(parameters=parameters)  # type: ignore[attr-defined]
    lines = "\n".join(f"            {name}: {option.help}." for name, option in OPTIONS.items())
    function.__doc__ = (function.__doc__ or "").replace("            options: see below.", lines)
    return function


@dataclass(frozen=True, slots=True)
class Terms:
    """The options of a request and of its SQL text, combined, as exact numbers.

    Args:
        account: the kind of the account.
        currency: the name of the number that was stated: ``epsilon``, ``rho``, ``mu`` or ``within``.
        amount: that number; 0 for ``within``.
        delta: the delta that may be spent where it is needed; None when none was stated.
        within: pairs of an aggregate's name and its largest error; :data:`EVERY` for all aggregates.
        confidence: the probability that an error is within its bound.
        max_groups: the number stated outside the text.
        weights: pairs of a name and its weight.
        rule: the rule of private group selection, as in the OPTIONS.
        suppose: the supposed number of values in a group.
        alone: delta at which an epsilon is the guarantee of the answer by itself; None for ε-DP. The charge follows
            from it, so that it is no part of a digest.
        max_rows: the number stated outside the text. The measurements hold it, so that it is no part of a digest.
        bias_share: share of the cost for the bias table. The releases follow from it, so that it is no part of a
            digest.
        most: the budget of the whole account in epsilon, rho or mu squared; None where that is not known. No part of a
            digest.
        max_rows_total: the number stated in the text or outside it. The aggregation holds it, so that it is no part of
            a digest.
    """

    account: str
    currency: str
    amount: Fraction
    delta: Fraction | None
    within: tuple[tuple[str, Fraction], ...]
    confidence: Fraction
    max_groups: ContributionNumber | None
    weights: tuple[tuple[str, Fraction], ...]
    rule: str
    suppose: int | None
    alone: Fraction | None = field(default=None, repr=False)
    max_rows: ContributionNumber | None = field(default=None, repr=False)
    bias_share: Fraction = field(default=Fraction(0), repr=False)
    most: Fraction | None = field(default=None, repr=False)
    max_rows_total: ContributionNumber | None = field(default=None, repr=False)


def settle(request: Request, options: Options) -> Terms:
    """Return the terms of a query; a contradiction or a number out of bounds is an :class:`InputError`."""
    kind = request.account.kind
    typed = {name: _stated(request, options, name) for name in ("epsilon", "rho", "mu")}
    within = _within(request, options)
    given = [name for name, value in typed.items() if value is not None] + ["within"] * bool(within)
    if len(given) != 1:
        choices = ", ".join(name for name, option in OPTIONS.items() if kind in option.accounts)
        if not given:
            raise InputError("epsilon", f"state what the query may cost or how accurate it must be: one of {choices}")
        raise InputError(given[1], f"contradicts {given[0]}: state exactly one of {choices}")
    currency = given[0]
    amount = typed.get(currency) or Fraction(0)
    price = OPTIONS[currency]
    if currency != "within":
        if amount < price.low:
            raise InputError(currency, f"is too small to buy an answer; state at least {float(price.low):g}")
        if amount > price.high:
            raise InputError(currency, f"is too large to protect anyone; state at most {float(price.high):g}")
        if kind not in price.accounts:
            allowed = " or ".join(name for name in typed if kind in OPTIONS[name].accounts)
            raise InputError(currency, f"is not what a {kind} account is charged in; state {allowed}")
    confidence = OPTIONS["confidence"].exact(request.confidence if options.confidence is None else options.confidence)
    share = OPTIONS["bias_share"].exact(request.bias_share if options.bias_share is None else options.bias_share)
    weights = {name: OPTIONS["weights"].exact(weight) for name, weight in (request.weights or {}).items()}
    numbers = {"confidence": [confidence], "bias_share": [share], "weights": weights.values()}
    for name, values in {**numbers, "within": [bound for _, bound in within]}.items():
        low, high = OPTIONS[name].low, OPTIONS[name].high
        if any(not low <= value <= high for value in values):
            raise InputError(name, f"must lie between {float(low):g} and {float(high):g}")
    delta, alone = _deltas(request, options, currency)
    return Terms(
        account=kind,
        currency=currency,
        amount=amount,
        delta=delta,
        within=within,
        confidence=confidence,
        max_groups=_limit(request, options, "max_groups"),
        weights=tuple(sorted(weights.items())),
        rule=options.group_selection or "AUTO",
        suppose=None if request.suppose is None else int(OPTIONS["suppose"].exact(request.suppose)),
        alone=alone,
        max_rows=_limit(request, options, "max_rows"),
        bias_share=share,
        most=request.account.most,
        max_rows_total=_limit(request, options, "max_rows_total") or options.max_rows_total,
    )


def _deltas(request: Request, options: Options, currency: str) -> tuple[Fraction | None, Fraction | None]:
    """Return the delta that may be spent, and the delta of the answer's own (ε, δ) guarantee."""
    account = request.account
    stated, low = _stated(request, options, "delta"), OPTIONS["delta"].low
    if stated and stated < low:
        raise InputError("delta", f"is too small to mean anything; state 0 or at least {float(low):g}")
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
    bound = _stated(request, options, "within")
    return () if bound is None else ((EVERY, bound),)


def _stated(request: Request, options: Options, name: str) -> Fraction | None:
    """Return the number that the request and the text of the query state; refuse two different numbers."""
    value, inside = getattr(request, name), getattr(options, name, None)
    return agreed(name, inside, None if value is None else OPTIONS[name].exact(value))


def _limit(request: Request, options: Options, name: str) -> ContributionNumber | None:
    """Return the contribution number that the request states; refuse another number in the text of the query."""
    value = getattr(request, name)
    most = int(OPTIONS[name].high or MOST_COUNTED)
    beside = None if value is None else contribution_number(value, name, most=most)
    agreed(name, getattr(options, name), beside)
    return beside


_Stated = TypeVar("_Stated", bound=int | str | Fraction)


def agreed(name: str, inside: _Stated | None, beside: _Stated | None) -> _Stated | None:
    """Return the number of an option that is stated in the text of a query, outside it, or in both places alike.

    Raises:
        InputError: the two are not the same number.
    """
    if beside is not None and inside is not None and beside != inside:
        raise InputError(name, f"is {_shown(inside)} in the query and {_shown(beside)} beside it; state it once")
    return inside if beside is None else beside


def _shown(stated: int | str | Fraction) -> str:
    return stated.upper() if isinstance(stated, str) else f"{float(stated):.10g}"
