"""``compose``: the guarantee of several releases taken together.

=========== ============================================= ============================================================
method      says                                          good for
=========== ============================================= ============================================================
basic       Σε, Σδ                                        few releases, or ε large; needs no δ when all are pure
advanced    √(2 ln(1/δ') Σε²) + Σε(e^ε-1), or basic       teaching, and comparison with the literature
simple      √(2 ln(1/δ') Σε²) + Σε², each ε < 1, or basic the short form that textbooks quote
optimal     the exact answer for equal (ε, δ)             k equal releases of which nothing else is known
zcdp        Σρ, converted once                            Gaussians; cheap and simple
rdp         Σε(α), converted at the best order            sampled Gaussians, very many releases
pld         the privacy loss distribution itself          everything: certified to a fraction of a percent
best        the smallest of all that apply
=========== ============================================= ============================================================

All are theorems about releases whose *parameters* are fixed beforehand (the releases themselves may depend on earlier
answers). They price planned batches. A running account whose next question is chosen by an analyst needs a filter:
:mod:`tacit.accounting.filters`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

from tacit.accounting.advanced import compose_advanced, compose_simple
from tacit.accounting.basic import compose_basic
from tacit.accounting.optimal import compose_optimal
from tacit.accounting.releases import Plan, Release, read_plan
from tacit.accounting.renyi import compose_renyi
from tacit.accounting.result import Composed
from tacit.accounting.zcdp import compose_zcdp
from tacit.core.errors import AccountingError, InputError
from tacit.core.numbers import Number, exact_probability

__all__ = ["METHODS", "compose", "compose_plan"]


def compose(
    releases: Release | Iterable[Release | tuple[Release, int]],
    *,
    delta: Number | None = None,
    method: str = "best",
) -> Composed:
    """The (ε, δ) guarantee of all ``releases`` together, ε rounded up.

    Args:
        releases: mechanisms, events or guarantees; ``(item, k)`` stands for k releases of it.
        delta: the δ of the answer. It may be left out where no release needs one: then the answer is the basic sum.
        method: ``basic``, ``advanced``, ``simple``, ``optimal``, ``zcdp``, ``rdp``, ``pld`` or ``best``.

    Privacy:
        Everything a person can learn from all releases together, however adaptively each was chosen within its stated
        parameters, is (ε, δ)-DP under the relation that all of them share.

    Assumes:
        Each item states its guarantee truthfully, and parameters were fixed beforehand.

    >>> from tacit.core.guarantees import PureDP
    >>> compose([(PureDP("0.1"), 100)], delta="1e-6", method="optimal")
    Composed(4.77457, 1e-06, method='optimal')
    """
    if str(method) not in METHODS:
        raise InputError("method", f"must be one of {', '.join(METHODS)}, got {method!r}")
    wanted = None if delta is None else exact_probability(delta, "delta", zero=True)
    return compose_plan(read_plan(releases), wanted, method)


def compose_plan(plan: Plan, delta: Fraction | None, method: str, *, bracket: bool = True) -> Composed:
    """As :func:`compose`, for a plan that has been read already; without ``bracket`` no lower bound is sought."""
    if not delta:
        # Without room for failure every method is the sum.
        return compose_basic(plan, delta)
    if method == "best":
        return _best(plan, delta, bracket=bracket)
    if method == "pld" and not bracket:
        return _pld(plan, delta, bracket=False)
    return _METHODS[method](plan, delta)


def _pld(plan: Plan, delta: Fraction, *, bracket: bool = True) -> Composed:
    from tacit.accounting.pld.account import compose_pld

    return compose_pld(plan, delta, bracket=bracket)


_METHODS: dict[str, Callable[[Plan, Fraction], Composed]] = {
    "basic": compose_basic,
    "advanced": compose_advanced,
    "simple": compose_simple,
    "optimal": compose_optimal,
    "zcdp": compose_zcdp,
    "rdp": compose_renyi,
    "pld": _pld,
}

#: The names of all methods.
METHODS = (*_METHODS, "best")


def _best(plan: Plan, delta: Fraction, *, bracket: bool) -> Composed:
    answers = []
    refusals = []
    for method in _METHODS:
        if method == "simple":  # never below zcdp, which has half of its last term
            continue
        try:
            answers.append(compose_plan(plan, delta, method, bracket=bracket))
        except AccountingError as refusal:
            refusals.append(refusal)
    if not answers:
        raise refusals[0]
    best = min(answers, key=lambda answer: answer.epsilon)
    lower = max((answer.lower for answer in answers if answer.lower is not None), default=None)
    return Composed(best.epsilon, delta, relation=plan.relation, method=best.method, lower=lower, note=best.note)
