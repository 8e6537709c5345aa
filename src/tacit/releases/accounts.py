"""Account of a population as users see it.

``reserve → run → commit``: a charge is admitted *before* data is read and counts from that moment on, whatever happens
next; ``commit`` records that its answer exists. There is no refund, so a failure after the reservation costs the amount
reserved. :mod:`tacit.ledger` does all that; this module has only views and their texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tacit.accounting.currencies import AccountGuarantee, currency_named, currency_of
from tacit.accounting.filters import Filter, Line
from tacit.core.cautions import cautions_about_account
from tacit.core.errors import InputError
from tacit.core.guarantees import GDP, ZCDP, Guarantee
from tacit.core.numbers import Number, exact_positive, exact_probability, exact_text, format_up, round_down, with_noun
from tacit.ledger import Amount, Balance
from tacit.ledger import LedgerBudget as LedgerBudget
from tacit.query.request import Account as AccountKind
from tacit.query.request import Terms
from tacit.releases.notebook import budget_html

if TYPE_CHECKING:
    from tacit.project.project_file import PopulationModel

#: Default analyst: the owner of the data.
OWNER = "owner"
#: Number of queries without a stated delta for which the budget's delta lasts.
_QUERIES = 100
#: Keys with which a project file states the budget of an account.
_NUMBERS = ("epsilon", "delta", "rho", "mu")


@dataclass(frozen=True, slots=True)
class Entry:
    """Entry of an account: a query and its charge.

    Args:
        number: position in the ledger; for a repeated query, which has no entry, the position of the first charge.
        population: population whose account was charged.
        amounts: amounts charged; empty for a repeated query.
        sql: the query, or the label of a mechanism that was used directly.
        digest: digest of the plan.
        committed: whether the answer exists; if not, the charge counts all the same.
        analyst: name of the analyst.
        repeated: whether nothing was charged because the answer existed.
        public: whether the query reads public tables alone; it is then in no account.
        note: meaning of the values of a query about synthetic tables; empty otherwise.
        typed: epsilon of the request, such as ``epsilon 0.5``, where the account counts another unit.
        part: cost of one statistic of a planned release; empty otherwise.
        time: time of the charge, in entries of the history.
        failed: whether the run failed, in entries of the history: nothing was released, and nothing will be.
    """

    number: int
    population: str
    amounts: tuple[Amount, ...]
    sql: str
    digest: str
    committed: bool = False
    analyst: str = ""
    repeated: bool = False
    public: bool = False
    note: str = field(default="", repr=False)
    typed: str = field(default="", repr=False)
    part: str = field(default="", repr=False)
    time: str = field(default="", repr=False, compare=False)
    failed: bool = field(default=False, repr=False, compare=False)

    @property
    def cost(self) -> str:
        """Cost such as ``epsilon 0.5``, or ``epsilon 0.5 (rho 0.00664)`` where the account counts another unit."""
        amounts = ", ".join(map(str, self.amounts)) or "nothing"
        return f"{self.typed} ({amounts})" if self.typed and self.amounts else amounts

    @property
    def text(self) -> str:
        """Sentence such as ``Charged epsilon 0.5 to patients``."""
        if self.note:
            return "Synthetic tables alone, which were paid for before: charged nothing"
        if self.public:
            return "Public tables alone, answered exactly: charged nothing"
        if self.repeated and not self.part:
            return "A repeated query: charged nothing"
        if self.part:
            return f"Costs {self.part} of the total that was charged to {self.population}"
        return f"Charged {self.cost} to {self.population}"


@dataclass(frozen=True, slots=True)
class EpsilonSpent:
    """Epsilon of the composition of all charges, and of the cap, at one delta; less than the sum of stated epsilons.

    ``left`` is the remaining share of the account in its own unit, such as ``95.5%``, from which queries are charged.
    """

    spent: Fraction
    cap: Fraction
    delta: Fraction
    left: str

    @property
    def cap_text(self) -> str:
        """Text such as ``epsilon 4 at delta 1e-06``."""
        return f"epsilon {format_up(self.cap)} at delta {format_up(self.delta)}"

    def __str__(self) -> str:
        return f"{format_up(self.spent, 3)} of {format_up(self.cap)} spent at delta {format_up(self.delta)}"

    @property
    def left_text(self) -> str:
        """Text such as ``95.5% of epsilon 4``."""
        return f"{self.left} of epsilon {format_up(self.cap)}"


@dataclass(frozen=True)
class Budget:
    """State of a population's account: for each currency its cap, the amount spent and the amount remaining.

    Args:
        population: name of the population.
        guarantee: guarantee that holds for all releases about the population together.
        balances: balance of the population, then of the shares of the analyst and the conversation.
        queries: number of further queries of a given cost that fit in all balances; None where no cost was given.
        durable: whether the account outlasts the process.
        notes: sentences about the owner's policy, and warnings where much of a budget or a share is spent.
    """

    population: str
    guarantee: Guarantee
    balances: tuple[Balance, ...]
    queries: int | None = None
    durable: bool = True
    notes: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, found: LedgerBudget, *, durable: bool, account: AccountKind | None = None) -> Budget:
        """Return the budget as stored in the ledger, with notes on the policy of the account."""
        notes = () if account is None else (*_policy_note(account), *_warnings(found.balances, account.warn_at))
        return cls(found.population, found.guarantee, found.balances, found.queries, durable, notes)

    @property
    def cautions(self) -> tuple[str, ...]:
        """Warnings for the owner where the whole budget protects little; usually empty."""
        return cautions_about_account(self.guarantee)

    @property
    def lines(self) -> tuple[Line, ...]:
        return self.balances[0].lines

    @property
    def epsilons(self) -> tuple[EpsilonSpent | None, ...]:
        """For each balance, the epsilon of its charges composed; None where the account counts epsilon itself."""
        return tuple(_epsilon_spent(self.guarantee, balance.lines) for balance in self.balances)

    @property
    def promise(self) -> str:
        """Guarantee in epsilon and delta, and in the account's own unit."""
        whole = self.epsilons[0]
        return str(self.guarantee) if whole is None else f"{whole.cap_text} ({self.guarantee})"

    @property
    def spent(self) -> tuple[Amount, ...]:
        return tuple(Amount(line.currency, Fraction(line.spent)) for line in self.lines)

    @property
    def left(self) -> tuple[Amount, ...]:
        return tuple(Amount(line.currency, line.left) for line in self.lines)

    def __str__(self) -> str:
        whole, *shown = map(_spent_of, self.balances, self.epsilons)
        limited = zip(self.balances[1:], shown, strict=True)
        shares = [f"{balance.owner}: {words}" for balance, words in limited if balance.limited]
        more = (
            [] if self.queries is None else [with_noun(self.queries, "more such query fits", "more such queries fit")]
        )
        kept = "" if self.durable else " (kept in memory: it ends with this process)"
        said = "; ".join([f"{self.population}: {whole}", *shares, *more]) + kept
        more = [*self.notes, *(f"Caution: {sentence}" for sentence in self.cautions)]
        return f"{said}. {' '.join(more)}" if more else said

    def _repr_html_(self) -> str:
        return budget_html(self)


def _policy_note(account: AccountKind) -> tuple[str, ...]:
    return (f"Policy: {', '.join(account.policy)}.",) if account.policy else ()


def _warnings(balances: Sequence[Balance], warn_at: Sequence[int]) -> list[str]:
    """Return a warning for each balance of which at least one of the percentages ``warn_at`` is spent."""
    found = []
    for at, balance in enumerate(balances):
        line = balance.lines[0]
        passed = [each for each in warn_at if line.cap and Fraction(line.spent) * 100 >= each * line.cap]
        if passed and (balance.limited or not at):
            found.append(f"Warning: {max(passed)}% of the budget of {balance.owner} is spent.")
    return found


def _spent_of(balance: Balance, epsilon: EpsilonSpent | None) -> str:
    lines = (
        f"{line.currency}: {format_up(Fraction(line.spent))} of {_down(line.cap)} spent, {_down(line.left)} left"
        for line in balance.lines
        if line.cap
    )
    return "; ".join(lines if epsilon is None else (f"epsilon: {epsilon}, {epsilon.left} left", *lines))


def typed_price(epsilon: Number | None, amounts: Iterable[Amount]) -> str:
    """Return the stated epsilon of a charge, such as ``epsilon 0.5``; empty where the account counts epsilon itself."""
    if epsilon is None or any(each.currency == "epsilon" for each in amounts):
        return ""
    return f"epsilon {format_up(exact_positive(epsilon, 'epsilon'))}"


def typed_epsilon(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the stated epsilon of a request as the ledger stores it with an order; empty where none is stated."""
    stated = options.get("epsilon")
    return {} if stated is None else {"epsilon": exact_text(exact_positive(stated, "epsilon"))}


def _epsilon_spent(guarantee: Guarantee, lines: Sequence[Line]) -> EpsilonSpent | None:
    if not isinstance(guarantee, AccountGuarantee) or not lines[0].cap:
        return None
    currency = currency_of(guarantee)
    if not currency.relaxed or any(isinstance(line.spent, float) for line in lines):
        return None
    cap, spent = (
        currency.from_amounts({line.currency: Fraction(each) for line, each in zip(lines, amounts, strict=True)})
        for amounts in ([line.cap for line in lines], [line.spent for line in lines])
    )
    pair = currency.as_pair(cap)
    none = not any(line.spent for line in lines)
    so_far = Fraction(0) if none else min(spent.to_approx(pair.delta).epsilon, pair.epsilon)
    left = format_up(round_down(100 * lines[0].left / lines[0].cap, 3))
    return EpsilonSpent(so_far, pair.epsilon, pair.delta, f"{left}%")


def account_kind(name: str, model: PopulationModel, limit: Filter) -> AccountKind:
    """Return the kind of an account for planning: its currency, delta per query, total delta, cap and policy."""
    cap, policy = limit.lines[0].cap, model.policy
    known = (model.accounting, _query_delta(f"populations.{name}", model, limit), model.delta, cap)
    if policy is None:
        return AccountKind(*known)
    where = f"populations.{name}.policy"
    stated = {
        word: exact_positive(getattr(policy, word), f"{where}.{word}")
        for word in ("per_query", "per_analyst", "per_version")
        if getattr(policy, word) is not None
    }
    whom = {"per_query": "one query", "per_analyst": "one analyst", "per_version": f"version {policy.version}"}
    told = tuple(f"at most epsilon {format_up(amount)} for {whom[word]}" for word, amount in stated.items())
    most = stated.get("per_analyst")
    caps = {} if most is None else share_caps(limit, {"epsilon": most}, delta=model.delta)
    return AccountKind(*known, stated.get("per_query"), caps, told, policy.warn_at)


def version_caps(name: str, model: PopulationModel, limit: Filter) -> tuple[str, dict[str, Number]] | None:
    """Return the data version that the policy of an account states, with the caps for it; None without a version."""
    policy = model.policy
    if policy is None or policy.version is None or policy.per_version is None:
        return None
    epsilon = exact_positive(policy.per_version, f"populations.{name}.policy.per_version")
    return policy.version, share_caps(limit, {"epsilon": epsilon}, delta=model.delta)


def filter_of(name: str, model: PopulationModel) -> Filter:
    """Return the budget that a project file states as a privacy filter with nothing spent."""
    where = f"populations.{name}"
    currency = currency_named(model.accounting)
    stated = {word: getattr(model, word) for word in _NUMBERS if getattr(model, word) is not None}
    if set(stated) not in currency.budgets:
        wanted = " or ".join(", ".join(sorted(words)) for words in currency.budgets)
        raise InputError(
            where,
            f"accounting = {model.accounting!r} needs {wanted}, and nothing else; "
            f"got {', '.join(sorted(stated)) or 'nothing'}"
            + ("" if currency.has_delta or "delta" not in stated else "; accounting = 'approx' has a delta"),
        )
    read = {word: exact_probability if word == "delta" else exact_positive for word in stated}
    return currency.filter({word: read[word](stated[word], f"{where}.{word}") for word in stated}, model.relation)


def check_per_query(account: AccountKind, terms: Terms, guarantee: AccountGuarantee) -> None:
    """Refuse a query whose epsilon, stated or implied by its guarantee, exceeds the owner's limit per query.

    Raises:
        InputError: the epsilon exceeds the limit.
    """
    most = account.per_query
    if most is None:
        return
    if terms.currency == "epsilon":
        epsilon = terms.amount
    else:
        given = account.target_delta
        relaxed = given and isinstance(guarantee, ZCDP | GDP)
        pair = guarantee.to_approx(given) if relaxed else currency_of(guarantee).as_pair(guarantee)  # type: ignore[arg-type]
        epsilon = pair.epsilon
    if epsilon > most:
        raise InputError(
            terms.currency,
            f"costs epsilon {format_up(epsilon, 3)}, and the owner allows at most {format_up(most)} for one query",
        )


def share_caps(limit: Filter, stated: Mapping[str, Number], *, delta: Number | None = None) -> dict[str, Number]:
    """Return the caps of a share, in the currencies of its account.

    In an account that counts another unit, an epsilon is converted in the safe direction: the composition of all
    charges to the share is (epsilon, delta)-differentially private.

    Args:
        limit: the terms of the account.
        stated: caps by currency, or by ``epsilon``.
        delta: delta of the whole share, where ``stated`` has none; by default twice the account's delta for queries
            that spend some, as in a project file that states epsilon and delta.
    """
    caps = dict(stated)
    currencies = [line.currency for line in limit.lines]
    if "epsilon" not in caps or "epsilon" in currencies:
        return caps
    if len(caps) > 1 + ("delta" in caps):
        raise InputError("epsilon", f"say one: epsilon, or {currencies[0]}, which the account counts")
    epsilon = exact_positive(caps.pop("epsilon"), "epsilon")
    own = next((line.cap for line in limit.lines if line.currency == "delta"), Fraction(0))
    target = caps.pop("delta", delta if delta is not None else 2 * own or None)
    if target is None:
        raise InputError(
            "epsilon", f"the account counts {', '.join(currencies)}; state delta as well, or {currencies[0]} instead"
        )
    whole = exact_probability(target, "delta")
    if not isinstance(limit.guarantee, AccountGuarantee):
        raise InputError("epsilon", f"is not what this account counts: {', '.join(currencies)}")
    return {**currency_of(limit).caps(epsilon, whole, own)}


def _query_delta(where: str, model: PopulationModel, limit: Filter) -> Fraction | None:
    cap = next((line.cap for line in limit.lines if line.currency == "delta"), Fraction(0))
    if model.query_delta is None:
        return cap / _QUERIES if cap else None
    if not cap:
        raise InputError(f"{where}.query_delta", f"a {model.accounting} account without delta has none to give")
    return exact_probability(model.query_delta, f"{where}.query_delta")


def _down(value: Fraction) -> str:
    return format_up(round_down(value, 6))
