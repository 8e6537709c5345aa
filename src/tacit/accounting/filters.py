"""Privacy filters: stopping rules that stay valid when every query depends on earlier answers.

An analyst may choose both the next query and its privacy parameters after seeing all earlier answers.
Composition theorems for parameters fixed beforehand do not cover that; these filters do. Each filter adds up one
currency and admits a charge when the sum stays within the cap; whatever the analyst does, and whenever the
interaction ends, the whole transcript has the guarantee :attr:`Filter.guarantee`.

==========================  ========================================  ==============================================
filter                      admits while                              the whole transcript is then
==========================  ========================================  ==============================================
:class:`PureFilter`         Σε <= ε_cap                               ε_cap-DP
:class:`ApproxFilter`       Σε <= ε_cap and Σδ <= δ_cap               (ε_cap, δ_cap)-DP
:class:`ZCDPFilter`         Σρ <= ρ_cap and Σδ <= δ_cap               δ_cap-approximate ρ_cap-zCDP
:class:`GDPFilter`          Σμ² <= μ_cap²                             μ_cap-GDP
:class:`RenyiFilter`        Σε(α) <= cap at one order fixed before    D_α <= cap
:class:`PureOrZCDPFilter`   the pure rule or the zCDP rule            (ε, δ)-DP
==========================  ========================================  ==============================================

No filter composes a privacy loss distribution or an optimal-composition curve: "the exact curve still
fits" is not a valid stop. ``docs/composition.md`` has a two-query counterexample with exact numbers.

*Concurrency.* Queries that overlap, each answered once, are covered by all filters: charges are taken in some order
under a lock, and an answer that is shown late might have been drawn when it was charged. Charges that are themselves
interactive streams and run concurrently are covered by PureFilter, ApproxFilter, RenyiFilter, GDPFilter and
ZCDPFilter with δ = 0; by ZCDPFilter with δ > 0 and PureOrZCDPFilter if every charge with a δ of its own is answered at
once, as all of Tacit's are. ``filters.proof.md``, section 9, and ``docs/composition.md`` have argument and theorems.

*Arithmetic.* Costs and totals are rationals. An irrational cost has been rounded up; a total whose exact
form grows too long is rounded up; caps found by search are rounded down. A sum that reaches its cap exactly fits.

*State.* A filter changes only in :meth:`Filter.charge`, under a lock, and in one step: it admits the whole charge or
raises :class:`BudgetError` and is unchanged. It lives in memory; the ledger makes charges durable. It cannot be copied
or pickled, and a forked process cannot charge it: a copy would have the same budget again.
"""

from __future__ import annotations

import math
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, NamedTuple, NoReturn, SupportsIndex

from tacit.accounting.prices import Charge, Spend, approx_price, gdp_price, pure_price, renyi_price, zcdp_price
from tacit.core.divergences import Extended
from tacit.core.errors import AccountingError, BudgetError, InputError
from tacit.core.guarantees import GDP, RDP, ZCDP, ApproxDP, Guarantee, PureDP, renyi_epsilon_up
from tacit.core.normal import gaussian_delta_bounds
from tacit.core.numbers import (
    Number,
    check_count,
    exact,
    exact_nonnegative,
    exact_probability,
    float_nearest,
    format_up,
    log_bounds,
    round_down,
    sqrt_bounds,
)
from tacit.core.relations import ADD_REMOVE, Relation, as_relation

#: Totals are exact until their denominators need more bits than this, and multiples of GRAIN afterwards.
LONGEST_DENOMINATOR = 512
GRAIN = Fraction(1, 10**60)

_Amounts = tuple[Extended, ...]


class Line(NamedTuple):
    """One currency of a filter: its cap, and the sum of the charges so far."""

    currency: str
    cap: Fraction
    spent: Extended

    @property
    def left(self) -> Fraction:
        """Remaining budget; zero when the spent amount is infinite."""
        return max(self.cap - self.spent, Fraction(0)) if isinstance(self.spent, Fraction) else Fraction(0)

    @property
    def share(self) -> Extended:
        """Spent amount as a fraction of the cap; infinite when the spent amount is."""
        if isinstance(self.spent, float):
            return math.inf
        return self.spent / self.cap if self.cap else Fraction(0)


class Filter(ABC):
    """A running total that admits charges while they fit; see the module for the guarantee of each filter."""

    _price: ClassVar[Callable[[Charge, Relation], Spend]]

    def __init__(self, caps: Iterable[tuple[str, Fraction]], relation: Relation | str) -> None:
        self._caps = tuple(caps)
        self.relation = as_relation(relation)
        self._spent: _Amounts = (Fraction(0),) * len(self._caps)
        self._lock = threading.Lock()
        self._pid = os.getpid()

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """Guarantee of the whole transcript, however the queries were chosen and whenever it ends."""

    def price(self, charge: Charge) -> tuple[Extended, ...]:
        """Return the cost of a charge in the currencies of :attr:`lines`, rounded up.

        Raises:
            AccountingError: no theorem gives it a cost in these currencies.
        """
        return tuple(type(self)._price(charge, self.relation))[: len(self._caps)]

    @property
    def lines(self) -> tuple[Line, ...]:
        """Cap and spent amount of each currency."""
        return self._lines(self._spent)

    def allows(self, charge: Charge, count: int = 1) -> bool:
        """Return whether ``count`` charges like ``charge`` would be admitted now; change nothing."""
        return self._fits(self._after(self._spent, self.price(charge), check_count(count, "count")))

    def charge(self, charge: Charge, count: int = 1) -> None:
        """Admit ``count`` charges like ``charge``, or raise :class:`BudgetError` and change nothing."""
        price = self.price(charge)
        times = check_count(count, "count")
        if os.getpid() != self._pid:
            raise AccountingError("this filter was made in another process, which may be charging it too")
        with self._lock:
            after = self._after(self._spent, price, times)
            if not self._fits(after):
                raise BudgetError(self._refusal(price, times))
            self._spent = after

    def how_many(self, charge: Charge) -> int | None:
        """Return the number of further charges like this one that fit; ``None`` for a free charge."""
        price = self.price(charge)
        return _fewest(_times(line.left, cost) for line, cost in zip(self.lines, price, strict=True))

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise AccountingError("a filter cannot be copied or pickled: the copy would admit the same charges again")

    def __repr__(self) -> str:
        parts = (f"{line.currency}: {_show(line.spent)} of {_down(line.cap)}" for line in self.lines)
        return f"<{type(self).__name__} {', '.join(parts)}>"

    def _lines(self, spent: _Amounts) -> tuple[Line, ...]:
        return tuple(Line(name, cap, used) for (name, cap), used in zip(self._caps, spent, strict=True))

    def _fits(self, spent: _Amounts) -> bool:
        return all(used <= cap for used, (_, cap) in zip(spent, self._caps, strict=True))

    def _after(self, spent: _Amounts, price: _Amounts, count: int) -> _Amounts:
        return tuple(_shorten(used + count * cost) for used, cost in zip(spent, price, strict=True))

    def _refusal(self, price: _Amounts, count: int) -> str:
        parts = (
            f"{line.currency} needs {_show(count * cost)} and has {_down(line.left)} of {_down(line.cap)} left"
            for line, cost in zip(self.lines, price, strict=True)
        )
        return f"the charge does not fit: {'; '.join(parts)}"


class PureFilter(Filter):
    """Admits releases of pure differential privacy while Σε <= ``epsilon``.

    Privacy: the transcript is ε-DP. On every transcript the loss is at most Σε_i, and the filter keeps that sum
        within the cap on every path (Rogers, Roth, Ullman and Vadhan 2016).
    Sensitivity: that of the charges; all about the filter's ``relation``.
    Error: none; sums are exact.
    Assumes: each ε_i is fixed before its answer is drawn.
    References: Rogers, Roth, Ullman, Vadhan, "Privacy odometers and filters", NeurIPS 2016.
    """

    _price = pure_price

    def __init__(self, *, epsilon: Number, relation: Relation | str = ADD_REMOVE) -> None:
        self.epsilon = exact_nonnegative(epsilon, "epsilon")
        super().__init__([("epsilon", self.epsilon)], relation)

    @property
    def guarantee(self) -> PureDP:
        """ε-DP of the whole transcript."""
        return PureDP(self.epsilon, relation=self.relation)


class ApproxFilter(Filter):
    """Admits (ε, δ) releases while Σε <= ``epsilon`` and Σδ <= ``delta``.

    Privacy: the transcript is (ε, δ)-DP (Rogers, Roth, Ullman and Vadhan 2016; proof in ``filters.proof.md``).
    Sensitivity: that of the charges; all about the filter's ``relation``.
    Error: none; sums are exact.
    Assumes: each (ε_i, δ_i) is fixed before its answer is drawn.
    References: Rogers, Roth, Ullman, Vadhan, "Privacy odometers and filters", NeurIPS 2016.
    """

    _price = approx_price

    def __init__(self, *, epsilon: Number, delta: Number, relation: Relation | str = ADD_REMOVE) -> None:
        self.epsilon = exact_nonnegative(epsilon, "epsilon")
        self.delta = exact_probability(delta, "delta", zero=True)
        super().__init__([("epsilon", self.epsilon), ("delta", self.delta)], relation)

    @property
    def guarantee(self) -> ApproxDP:
        """(ε, δ)-DP of the whole transcript."""
        return ApproxDP(self.epsilon, self.delta, relation=self.relation)


class ZCDPFilter(Filter):
    """Admits releases while Σρ <= ``rho`` and Σδ <= ``delta``, where each is δ_i-approximately ρ_i-zCDP.

    Privacy: the transcript is δ-approximately ρ-zCDP, ``guarantee.to_approx(…)`` turns it into (ε, δ).
    Sensitivity: that of the charges; all about the filter's ``relation``.
    Error: irrational costs are rounded up in the 18th digit.
    Assumes: each (ρ_i, δ_i) is fixed before its answer is drawn.
    References: Feldman and Zrnic, "Individual privacy accounting via a Renyi filter", NeurIPS 2021 (δ = 0);
        Whitehouse, Ramdas, Rogers and Wu, "Fully-adaptive composition in differential privacy", ICML 2023.
    """

    _price = zcdp_price

    def __init__(self, *, rho: Number, delta: Number = 0, relation: Relation | str = ADD_REMOVE) -> None:
        self.rho = exact_nonnegative(rho, "rho")
        self.delta = exact_probability(delta, "delta", zero=True)
        super().__init__([("rho", self.rho), ("delta", self.delta)], relation)

    @classmethod
    def for_target(
        cls,
        *,
        epsilon: Number,
        delta: Number,
        own_delta: Number = 0,
        conversion: str = "tight",
        relation: Relation | str = ADD_REMOVE,
    ) -> ZCDPFilter:
        """Return the filter with the largest ρ whose transcript is (``epsilon``, ``delta``)-DP.

        ``own_delta`` is the part of δ set aside for charges with a positive δ. ``conversion`` is "tight"
        (over all Renyi orders) or "basic", ε = ρ + 2√(ρ ln(1/δ)), with which the rule for pure charges is that of
        Whitehouse et al.: Σε²/2 + √(2 ln(1/δ) Σε²) <= ε.
        """
        target = ApproxDP(epsilon, exact_probability(delta, "delta"))
        own = exact_probability(own_delta, "own_delta", zero=True)
        if own >= target.delta:
            raise InputError("own_delta", "must be smaller than delta, some of which pays for the conversion")
        if conversion == "basic":
            rho = _basic_rho_down(target.epsilon, target.delta - own)
        elif conversion == "tight":
            rho = _tight_rho(target, own)
        else:
            raise InputError("conversion", f"must be 'tight' or 'basic', got {conversion!r}")
        return cls(rho=rho, delta=own, relation=relation)

    @property
    def guarantee(self) -> ZCDP:
        """Approximate zCDP of the whole transcript."""
        return ZCDP(self.rho, delta=self.delta, relation=self.relation)


class GDPFilter(Filter):
    """Admits releases while Σμ² <= ``mu``², where each is μ_i-GDP.

    Privacy: the transcript is μ-GDP.
    Sensitivity: that of the charges; all about the filter's ``relation``.
    Error: irrational costs are rounded up in the 18th digit.
    Assumes: each μ_i is fixed before its answer is drawn. Continuous Gaussian noise has a μ; discrete Gaussian
        noise has none that is proven, and is refused.
    References: Smith and Thakurta, "Fully adaptive composition for Gaussian differential privacy", 2022; Koskela,
        Tobaben and Honkela, "Individual privacy accounting with Gaussian differential privacy", ICLR 2023.
    """

    _price = gdp_price

    def __init__(self, *, mu: Number, relation: Relation | str = ADD_REMOVE) -> None:
        self.mu = exact_nonnegative(mu, "mu")
        super().__init__([("mu squared", self.mu**2)], relation)

    @classmethod
    def for_target(cls, *, epsilon: Number, delta: Number, relation: Relation | str = ADD_REMOVE) -> GDPFilter:
        """Return the filter with the largest μ whose transcript is (``epsilon``, ``delta``)-DP."""
        wanted, slack = exact_nonnegative(epsilon, "epsilon"), exact_probability(delta, "delta")
        return cls(mu=_largest(lambda mu: gaussian_delta_bounds(wanted, mu)[1] <= slack), relation=relation)

    @property
    def guarantee(self) -> GDP:
        """μ-GDP of the whole transcript."""
        return GDP(self.mu, relation=self.relation)


class RenyiFilter(Filter):
    """Admits releases while their Renyi divergences at the one order ``alpha`` add up to at most ``epsilon``.

    Privacy: D_α of the transcript under neighbours is at most ``epsilon``.
    Sensitivity: that of the charges; all about the filter's ``relation``.
    Error: none beyond the rounding of the charges' own bounds.
    Assumes: the order is fixed before the first query. "Some order still fits" is another rule, and not covered.
    References: Feldman and Zrnic, "Individual privacy accounting via a Renyi filter", NeurIPS 2021.
    """

    def __init__(self, *, alpha: Number, epsilon: Number, relation: Relation | str = ADD_REMOVE) -> None:
        self.alpha = exact(alpha, "alpha")
        if self.alpha <= 1:
            raise InputError("alpha", f"a Renyi order must be greater than 1, got {float_nearest(self.alpha):g}")
        self.epsilon = exact_nonnegative(epsilon, "epsilon")
        super().__init__([(f"epsilon at order {float_nearest(self.alpha):g}", self.epsilon)], relation)

    @classmethod
    def for_target(
        cls, *, alpha: Number, epsilon: Number, delta: Number, relation: Relation | str = ADD_REMOVE
    ) -> RenyiFilter:
        """Return the filter at order ``alpha`` with the largest cap whose transcript is (``epsilon``, ``delta``)-DP."""
        order, wanted = exact(alpha, "alpha"), exact_nonnegative(epsilon, "epsilon")
        slack = exact_probability(delta, "delta")
        if order <= 1 or renyi_epsilon_up(order, Fraction(0), slack) > wanted:
            raise AccountingError(
                f"no budget at order {float_nearest(order):g} reaches epsilon {format_up(wanted)} at delta "
                f"{format_up(slack)}; use a larger order"
            )
        cap = _largest(lambda value: renyi_epsilon_up(order, value, slack) <= wanted)
        return cls(alpha=order, epsilon=cap, relation=relation)

    @property
    def guarantee(self) -> RDP:
        """The Renyi bound of the whole transcript, at order ``alpha`` only."""
        return RDP.at(self.alpha, self.epsilon, relation=self.relation)

    def price(self, charge: Charge) -> tuple[Extended, ...]:
        """Return the Renyi divergence of the charge at order ``alpha``."""
        return (renyi_price(charge, self.relation, self.alpha).amount,)


class PureOrZCDPFilter(Filter):
    """Admits a charge while the pure sum *or* the zCDP sum fits, both kept from the first charge on.

    At (1, 1e-6) the zCDP rule admits four charges of ε = 0.1 and the pure rule ten; of ε = 0.01 it is 487 and 100.
    This filter admits the larger number of either, for the same (ε, δ) and without a split.

    Privacy: the transcript is (``epsilon``, ``delta``)-DP. A transcript whose Σε is within the cap has a loss of at
        most ε and adds nothing to δ; every other one ended within the zCDP rule (proof in ``filters.proof.md``).
        A charge that is not pure counts as infinite in the pure sum.
    Sensitivity: that of the charges; all about the filter's ``relation``.
    Error: irrational costs are rounded up in the 18th digit.
    Assumes: each ε_i, ρ_i, δ_i is fixed before its answer is drawn.
    References: the zCDP rule as for :class:`ZCDPFilter`.
    """

    def __init__(
        self, *, epsilon: Number, delta: Number, own_delta: Number = 0, relation: Relation | str = ADD_REMOVE
    ) -> None:
        self.epsilon, self.delta = exact_nonnegative(epsilon, "epsilon"), exact_probability(delta, "delta")
        zcdp = ZCDPFilter.for_target(epsilon=epsilon, delta=delta, own_delta=own_delta)
        self.rho = zcdp.rho
        super().__init__([("epsilon", self.epsilon), ("rho", zcdp.rho), ("delta", zcdp.delta)], relation)

    @property
    def guarantee(self) -> ApproxDP:
        """(ε, δ)-DP of the whole transcript."""
        return ApproxDP(self.epsilon, self.delta, relation=self.relation)

    def price(self, charge: Charge) -> tuple[Extended, ...]:
        """Return the ε (infinite unless the charge is pure), ρ and δ of the charge."""
        pure: Extended
        try:
            pure = pure_price(charge, self.relation).amount
        except AccountingError:
            pure = math.inf
        return (pure, *zcdp_price(charge, self.relation))

    def how_many(self, charge: Charge) -> int | None:
        """Return the number of further charges like this one that fit under the rule that admits more of them."""
        epsilon, rho, delta = self.price(charge)
        lines = self.lines
        pure = _times(lines[0].left, epsilon) if lines[0].spent <= lines[0].cap else 0
        zcdp = _fewest((_times(lines[1].left, rho), _times(lines[2].left, delta)))
        if any(line.spent > line.cap for line in lines[1:]):
            zcdp = 0
        return None if pure is None or zcdp is None else max(pure, zcdp)

    def _fits(self, spent: _Amounts) -> bool:
        epsilon, rho, delta = self._lines(spent)
        return epsilon.spent <= epsilon.cap or (rho.spent <= rho.cap and delta.spent <= delta.cap)


def _shorten(total: Extended) -> Extended:
    if isinstance(total, float) or total.denominator.bit_length() <= LONGEST_DENOMINATOR:
        return total
    return math.ceil(total / GRAIN) * GRAIN


def _times(left: Fraction, cost: Extended) -> int | None:
    if cost == 0:
        return None
    return math.floor(left / cost) if isinstance(cost, Fraction) else 0


def _fewest(counts: Iterable[int | None]) -> int | None:
    return min((count for count in counts if count is not None), default=None)


def _largest(holds: Callable[[Fraction], bool]) -> Fraction:
    """Return the largest value that satisfies a condition which fails from there on, to 12 digits, rounded down."""
    high = Fraction(1)
    while holds(high):
        high *= 2
    low = high / 2
    while not holds(low):
        low, high = low / 2, low
        if low < GRAIN:
            return Fraction(0)
    while high - low > low / 10**13:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    rounded = round_down(low, 12)
    return rounded if holds(rounded) else low


@lru_cache(maxsize=64)
def _tight_rho(target: ApproxDP, own_delta: Fraction) -> Fraction:
    """Return the largest ρ whose tight conversion is within the target, to 12 digits, rounded down."""
    return _largest(lambda r: ZCDP(r, delta=own_delta).to_approx(target.delta).epsilon <= target.epsilon)


def _basic_rho_down(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the ρ with ρ + 2√(ρ ln(1/δ)) = ε, rounded down: (ε / (√(ln(1/δ) + ε) + √ln(1/δ)))²."""
    tail = log_bounds(1 / delta)[1]
    return round_down((epsilon / (sqrt_bounds(tail + epsilon)[1] + sqrt_bounds(tail)[1])) ** 2)


def _show(value: Extended) -> str:
    return format_up(value) if isinstance(value, Fraction) else "infinite"


def _down(value: Fraction) -> str:
    return format_up(round_down(value, 6))
