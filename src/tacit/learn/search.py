"""Private choice among models: every candidate is charged, and so is the choice."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.compose import compose
from tacit.core.errors import InputError
from tacit.core.events import ComposedEvent
from tacit.core.numbers import Number, exact_probability
from tacit.core.relations import ADD_REMOVE, Relation, as_relation
from tacit.learn.budget_allocation import FitPrice
from tacit.learn.estimator import PrivateEstimator
from tacit.learn.gradient import rate_on_grid, sample_rows
from tacit.learn.labels import numbered, read_labels
from tacit.learn.sklearn_compat import check_is_fitted, clone
from tacit.learn.value_reading import as_elements, is_frame, one_column, read_numbers
from tacit.mechanisms.permute_and_flip import PermuteAndFlip

__all__ = ["PrivateSearch"]

#: Points that a row gives to a regression whose prediction is right.
_POINTS: Final = 100


class PrivateSearch(PrivateEstimator):
    """The best of several private models, with the choice and all candidates paid for.

    A secret coin for each row decides whether it trains the candidates or judges them. ``GridSearchCV`` shows
    scores without a price and states the guarantee of one fit; here the total is ``guarantee_``.

    >>> from tacit.learn import LogisticRegression
    >>> common = {"epsilon": 1, "delta": "1e-5", "bounds": (0, 1), "classes": [0, 1]}
    >>> candidates = [LogisticRegression(**common, regularization=each) for each in (1, 100)]
    >>> PrivateSearch(candidates=candidates, epsilon="0.2").price(2).guarantee.epsilon < 2
    True

    Args:
        candidates: estimators of :mod:`tacit.learn`, all classifiers or all regressors, under one relation.
        epsilon: of the choice alone, beside the price of every candidate.
        holdout: the share of the rows that judge.

    Attributes:
        best_estimator_, best_index_: the candidate that was chosen; all are in ``candidates_``, since all are paid for.
        guarantee_, event_: of all candidates and the choice together, at the largest δ of a candidate.

    Privacy:
        the composition of all fits and of permute-and-flip among their scores.

    Sensitivity:
        a row that judges adds 0 or 1 to the score of each classifier, 0 to 100 to that of each regression; a row that
        trains adds nothing to scores.

    Error:
        the choice misses the best score by more than ln(candidates/β)·2·sensitivity/ε with probability at most β.

    Assumes:
        what the candidates assume; they were not chosen by looking at the data.

    References:
        McKenna, Sheldon (2020) for permute-and-flip. Proof: ``search.proof.md``.
    """

    def __init__(self, *, candidates: Sequence[Any], epsilon: Number, holdout: Number = "0.2") -> None:
        self.candidates = candidates
        self.epsilon = epsilon
        self.holdout = holdout

    def fit(self, X: Any, y: Any) -> PrivateSearch:
        """Fit all candidates and choose one, once; another fit costs the guarantee again."""
        values = self._read(X, reset=True)
        choice, relation = self._check()
        price = self.price(values.shape[1])
        labels: Any = read_labels(y) if self._classifies() else read_numbers(one_column(as_elements(y)))
        self._same_length(values, labels)
        judges = sample_rows(len(values), rate_on_grid(exact_probability(self.holdout, "holdout")))
        taught = np.flatnonzero(~judges)
        train = X.iloc[taught] if is_frame(X) else values[taught]
        learned: Any = [labels[place] for place in taught]
        self.candidates_ = [clone(each).fit(train, learned) for each in self.candidates]
        judged = [(values[place : place + 1], labels[place]) for place in np.flatnonzero(judges)]
        scores = [self._score(each, judged) for each in self.candidates_]
        self.best_index_ = int(choice.release(scores))
        self.best_estimator_ = self.candidates_[self.best_index_]
        events = (*(each.event_ for each in self.candidates_), choice.event)
        self._keep(FitPrice(price.guarantee, ComposedEvent(events, relation=relation), price.releases))
        return self

    def price(self, columns: int) -> FitPrice:
        """See :meth:`PrivateEstimator.price`."""
        choice, relation = self._check()
        prices = [each.price(columns) for each in self.candidates]
        events = (*(each.event for each in prices), choice.event)
        delta = max((Fraction(getattr(each.guarantee, "delta", 0) or 0) for each in prices), default=Fraction(0))
        if not delta:
            raise InputError("candidates", "must have a delta: their prices are composed at the largest of them")
        lines = [f"candidate {place}, {line}" for place, each in enumerate(prices) for line in each.releases]
        total = compose(list(events), delta=delta, method="best")
        return FitPrice(
            total, ComposedEvent(events, relation=relation), (*lines, f"choice among {len(prices)} by permute-and-flip")
        )

    def _check(self) -> tuple[PermuteAndFlip, Relation]:
        listed = list(self.candidates)
        if len(listed) < 2 or not all(isinstance(each, PrivateEstimator) for each in listed):
            raise InputError("candidates", "must list at least two estimators of tacit.learn")
        relations = {as_relation(each.get_params().get("relation", "add_remove")) for each in listed}
        kinds = {each.__sklearn_tags__().estimator_type for each in listed}
        if len(relations) > 1 or len(kinds) > 1 or not kinds <= {"classifier", "regressor"}:
            raise InputError("candidates", "must be all classifiers or all regressors, and use the same relation")
        exact_probability(self.holdout, "holdout")
        relation, points = relations.pop(), 1 if self._classifies() else _POINTS
        choice = PermuteAndFlip(
            epsilon=self.epsilon, sensitivity=points, monotone=relation is ADD_REMOVE, relation=relation
        )
        return choice, relation

    def _classifies(self) -> bool:
        return bool(next(iter(self.candidates)).__sklearn_tags__().estimator_type == "classifier")

    def _score(self, model: Any, judged: list[tuple[NDArray[np.float64], Any]]) -> int:
        """Points of a model, row by row: one row's points depend on that row and the fitted model alone."""
        if self._classifies():
            places = numbered((label for _, label in judged), model.classes_)
            found = numbered((model.predict(row).tolist()[0] for row, _ in judged), model.classes_)
            return int(((places == found) & (places >= 0)).sum())
        low, high = model.target_bounds
        width = float(high) - float(low)
        return sum(_points(float(model.predict(row)[0]), label, width) for row, label in judged)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predictions of the chosen model."""
        check_is_fitted(self, "best_estimator_")
        return cast("NDArray[Any]", self.best_estimator_.predict(X))

    def score(self, X: Any, y: Any) -> float:
        """The score of the chosen model on rows of the caller."""
        check_is_fitted(self, "best_estimator_")
        return float(self.best_estimator_.score(X, y))


def _points(predicted: float, truth: float, width: float) -> int:
    """Points of one row: 100 for a prediction that is right, 0 from half the range on, and for what is no number."""
    off = abs(predicted - truth) / (width / 2) if np.isfinite(truth) else 1.0
    return max(int(_POINTS * (1 - min(off, 1.0))), 0)
