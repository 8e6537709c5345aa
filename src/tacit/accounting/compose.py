"""``compose``: the guarantee of several releases taken together.

=========== ============================================= ============================================================
method      bound                                         good for
=========== ============================================= ============================================================
basic       Σε, Σδ                                        few releases, or large ε; needs no δ when all are pure
advanced    √(2 ln(1/δ') Σε²) + Σε(e^ε-1), or basic       teaching, and comparison with the literature
simple      √(2 ln(1/δ') Σε²) + Σε², each ε < 1, or basic the short form that textbooks quote
optimal     the exact ε for equal (ε, δ)                  k equal releases of which nothing else is known
zcdp        Σρ, converted once                            Gaussians; cheap and simple
rdp         Σε(α), converted at the best order            sampled Gaussians, very many releases
pld         the privacy loss distribution itself          everything: certified to a fraction of a percent
best        the smallest of all that apply
=========== ============================================= ============================================================

All are theorems about releases whose *parameters* are fixed beforehand (the releases themselves may depend on earlier
answers). They give the cost of planned batches. An account whose next query is chosen by an analyst needs a filter:
:mod:`tacit.accounting.filters`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Final

from tacit.accounting.composition_plan import Composed, CompositionPlan, Release, read_plan
from tacit.accounting.pairwise import (
    compose_advanced,
    compose_basic,
    compose_optimal,
    compose_simple,
    stated_pair,
    stated_sum,
)
from tacit.accounting.renyi import compose_renyi
from tacit.accounting.zcdp import compose_zcdp
from tacit.core.errors import AccountingError, InputError
from tacit.core.events import ApproxEvent, PureEvent
from tacit.core.numbers import Number, exact_probability

#: Labels of the events of selection mechanisms that are known only to be ε-DP.
_SELECTIONS: Final = ("noisy_max", "permute_and_flip", "sparse_vector")


def compose(
    releases: Release | Iterable[Release | tuple[Release, int]],
    *,
    delta: Number | None = None,
    method: str = "best",
    neighbours: str = "fixed",
) -> Composed:
    """Return the (ε, δ) guarantee of all ``releases`` together, ε rounded up.

    Args:
        releases: mechanisms, events or guarantees; ``(item, k)`` stands for k releases of it.
        delta: the δ of the result. It may be left out if no release needs one: then the result is the basic sum.
        method: ``basic``, ``advanced``, ``simple``, ``optimal``, ``zcdp``, ``rdp``, ``pld`` or ``best``.
        neighbours: ``"fixed"`` for one pair of databases, the same for all releases, as when a unit is in the data or
            not. ``"changing"`` lets the pair be named anew for every release, so that the unit may be in the first
            database now and in the second next time. Only ``pld`` of releases on a secret sample tells them apart; all
            other bounds hold for both.

    Privacy:
        Everything a person can learn from all releases together, however adaptively each was chosen within its stated
        parameters, is (ε, δ)-DP under the relation that all of them share. A single release never costs more than
        it states.

    Assumes:
        Each item states its guarantee truthfully, and parameters were fixed beforehand.

    >>> from tacit.core.guarantees import PureDP
    >>> compose([(PureDP("0.1"), 100)], delta="1e-6", method="optimal")
    Composed(4.77457, 1e-06, method='optimal')
    """
    if str(method) not in METHODS:
        raise InputError("method", f"must be one of {', '.join(METHODS)}, got {method!r}")
    wanted = None if delta is None else exact_probability(delta, "delta", zero=True)
    if neighbours not in ("fixed", "changing"):
        raise InputError("neighbours", f"must be 'fixed' or 'changing', got {neighbours!r}")
    if isinstance(releases, Iterator):
        releases = list(releases)
    found = compose_plan(read_plan(releases), wanted, method, changing=neighbours == "changing")
    if found.lower is None or not any(map(_is_selection, releases if isinstance(releases, Iterable) else [releases])):
        return found
    # The mechanism that attains the bound for "any ε-DP release" is randomized response, which no selection is.
    return Composed(found.epsilon, found.delta, relation=found.relation, method=found.method, note=found.note)


def _is_selection(release: object) -> bool:
    """Return whether a release is, or contains, a selection whose event states only its ε."""
    if isinstance(release, tuple):
        release = release[0]
    event = getattr(release, "event", release)
    if isinstance(event, PureEvent):
        return event.mechanism in _SELECTIONS
    inner = getattr(event, "events", None) or [each for each in (getattr(event, "event", None),) if each is not None]
    return any(_is_selection(each) for each in inner)


def compose_plan(
    plan: CompositionPlan, delta: Fraction | None, method: str, *, bracket: bool = True, changing: bool = False
) -> Composed:
    """Compose a plan that has been read already, as :func:`compose`; without ``bracket`` give no lower bound."""
    if not delta:
        # At δ = 0 every method is the sum.
        return compose_basic(plan, delta)
    if method == "best":
        return _best(plan, delta, bracket=bracket, changing=changing)
    by_loss = method == "pld"
    answer = _pld(plan, delta, bracket=bracket, changing=changing) if by_loss else _METHODS[method](plan, delta)
    return _at_most_stated(plan, delta, answer, method)


def _at_most_stated(plan: CompositionPlan, delta: Fraction, answer: Composed, method: str) -> Composed:
    """Return ``answer``, or the sum of the guarantees that the releases state where that is smaller.

    By every method a single release costs at most the guarantee it states. Of several releases, the methods
    ``optimal``, ``zcdp`` and ``rdp`` return the bound of their theorem alone.
    """
    # One listed mechanism may be several releases to accountants (the k choices of a top-k).
    whole = len(plan.stated) == plan.stated[0].count == 1 if plan.stated else False
    once = plan.count == 1 or (whole and isinstance(plan.stated[0].release, ApproxEvent))
    stated = stated_sum(plan) if once or method not in ("optimal", "zcdp", "rdp") else None
    if stated is None or stated[1] > delta or stated[0] >= answer.epsilon:
        return answer
    note = "what the release states is smaller here" if once else "the sum of what the releases state is smaller here"
    return Composed(stated[0], delta, relation=plan.relation, method="basic", lower=answer.lower, note=note)


def _pld(plan: CompositionPlan, delta: Fraction, *, bracket: bool = True, changing: bool = False) -> Composed:
    from tacit.accounting.pld.account import compose_pld

    return compose_pld(plan, delta, bracket=bracket, changing=changing)


_METHODS: dict[str, Callable[[CompositionPlan, Fraction], Composed]] = {
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


def _best(plan: CompositionPlan, delta: Fraction, *, bracket: bool, changing: bool) -> Composed:
    answers: list[Composed] = []
    refusals: list[AccountingError] = []
    for method in _METHODS:
        if method == "simple":  # never below zcdp, which has half of its last term
            continue
        try:
            answers.append(compose_plan(plan, delta, method, bracket=bracket, changing=changing))
        except AccountingError as refusal:
            refusals.append(refusal)
        except ArithmeticError:
            # Numbers too large or too small for this method's floats; the other methods remain valid.
            refusals.append(AccountingError(f"the numbers are too large or too small for method={method!r}"))
    stated = stated_sum(plan)
    if stated is not None and stated[1] <= delta:
        answers.append(Composed(stated[0], delta, relation=plan.relation, method="basic"))
    if not answers:
        raise refusals[0]
    lower = max((answer.lower for answer in answers if answer.lower is not None), default=None)
    best = min(answers, key=lambda answer: answer.epsilon)
    if best.note:
        # A note means that the bound may be far off; then adding the largest pure release separately may be cheaper.
        best = min([best, *_apart(plan, delta, changing=changing)], key=lambda answer: answer.epsilon)
    return Composed(best.epsilon, delta, relation=plan.relation, method=best.method, lower=lower, note=best.note)


def _apart(plan: CompositionPlan, delta: Fraction, *, changing: bool) -> Iterator[Composed]:
    """Yield ε₁ + ε₂: the largest pure release by basic composition, plus the best composition of the other releases."""
    pure = [(item.count * pair[0], item) for item in plan.items if (pair := stated_pair(item.release)) and not pair[1]]
    if pure and len(plan.items) > 1:
        epsilon, largest = max(pure, key=lambda priced: priced[0])
        rest = tuple(item for item in plan.items if item is not largest)
        others = _best(CompositionPlan(rest, plan.relation, rest), delta, bracket=False, changing=changing)
        yield Composed(epsilon + others.epsilon, delta, relation=plan.relation, method=others.method, note=others.note)
