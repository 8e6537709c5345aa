"""Private model selection: all candidates and the choice are charged, or a randomly stopped number of runs."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import copy
from fractions import Fraction
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from tacit.accounting.compose import compose
from tacit.core.errors import InputError
from tacit.core.events import ApproxEvent, ComposedEvent, PureEvent
from tacit.core.guarantees import ApproxDP, PureDP
from tacit.core.numbers import Number, exact_positive, exact_probability, exp_bounds, format_up, round_up
from tacit.core.relations import ADD_REMOVE, Relation, as_relation
from tacit.learn import release
from tacit.learn.estimator import PrivateEstimator, delta_caution
from tacit.learn.gradient import rate_on_grid, sample_rows
from tacit.learn.reading import (
    as_elements,
    column_values,
    is_frame,
    numbered,
    one_column,
    read_labels,
    read_numbers,
    take_rows,
)
from tacit.learn.release import FitPrice
from tacit.mechanisms.permute_and_flip import PermuteAndFlip
from tacit.noise import entropy
from tacit.noise.bernoulli import Coin
from tacit.noise.uniform import sample_below

#: Points of an exact prediction of one row by a regression.
_POINTS: Final = 100


class PrivateSearch(PrivateEstimator):
    """The best of several private models, with the choice and all candidates paid for.

    With ``stopping`` a candidate is drawn by chance, fitted and given a noisy score, again and again until a coin says
    stop, and the best of these runs is shown. That costs three times one run, however many candidates there are.

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
        stopping: the chance to stop after each run, such as ``"0.05"`` for 20 runs on average; by default all
            candidates are fitted once. With it ``epsilon`` is that of one noisy score.

    Attributes:
        best_estimator_, best_index_: the candidate that was chosen, with the guarantee of the whole search; all are in
            ``candidates_``, where all are paid for, each with that of its own fit.
        best_score_: with ``stopping``, its noisy score; its release is paid for.
        guarantee_, event_: of everything that was run, and of the choice.

    Privacy:
        the composition of all fits and of permute-and-flip among their scores, at the largest δ of a candidate. With
        ``stopping``: (3ε, δ′) where one run is (ε, δ)-DP, the dearer of fit and score, and δ′ is
        δ·(1 + e^(3ε))/((1 + e^ε)·stopping).

    Sensitivity:
        a row that judges adds 0 or 1 to the score of each classifier, 0 to 100 to that of each regression; a row that
        trains adds nothing to scores.

    Error:
        the choice misses the best score by more than ln(candidates/β)·2·sensitivity/ε with probability at most β.

    Assumes:
        what the candidates assume; they were not chosen by looking at the data.

    References:
        McKenna, Sheldon (2020) for permute-and-flip; Liu, Talwar (2019) and Papernot, Steinke (2022) for random
        stopping. Proof: ``search.proof.md``.
    """

    candidates: Sequence[Any]
    epsilon: Number
    holdout: Number = "0.2"
    stopping: Number | None = None

    def fit(self, X: Any, y: Any) -> PrivateSearch:
        """Fit all candidates and choose one; each call is charged the full cost."""
        values = self._read(X, reset=True)
        choice, relation = self._check()
        price = self.price(values.shape[1])
        for caution in delta_caution(Fraction(getattr(price.guarantee, "delta", 0))):
            warnings.warn(caution, UserWarning, stacklevel=2)
        labels: Any = read_labels(y) if self._classifies() else read_numbers(one_column(as_elements(y)))
        self._same_length(values, labels)
        judges = sample_rows(len(values), rate_on_grid(exact_probability(self.holdout, "holdout")))
        taught, rows = np.flatnonzero(~judges), self._rows(X, values)
        train = take_rows(rows, taught) if is_frame(rows) else rows[taught]
        learned: Any = [labels[place] for place in taught]
        if self.stopping is not None:
            shown = take_rows(rows, np.flatnonzero(judges)) if is_frame(rows) else rows[judges]
            best = self._run_until_stopped(train, learned, shown, [labels[place] for place in np.flatnonzero(judges)])
            self._keep_best(best, price)
            return self
        self.candidates_ = [clone(each).fit(train, learned) for each in self.candidates]
        judged = _one_by_one(rows, labels, np.flatnonzero(judges))
        scores = [self._score(each, judged) for each in self.candidates_]
        self.best_index_ = int(choice.release(scores))
        events = (*(each.event_ for each in self.candidates_), choice.event)
        spent = FitPrice(price.guarantee, ComposedEvent(events, relation=relation), price.releases)
        self._keep_best(self.candidates_[self.best_index_], spent)
        return self

    def _rows(self, X: Any, values: NDArray[np.float64]) -> Any:
        """Return rows in a form that candidates accept: a data frame, floats, or objects if categories may be text."""
        if is_frame(X) or all(getattr(each, "categories", None) is None for each in self.candidates):
            return X if is_frame(X) else values
        found = np.empty(values.shape, dtype=object)
        for place in range(values.shape[1]):
            # Set individually: NumPy would interpret a list among the values as a further dimension.
            for row, value in enumerate(column_values(X, place, values.shape[1])):
                found[row, place] = value
        return found

    def _keep_best(self, chosen: Any, price: FitPrice) -> None:
        """Store the chosen model with the guarantee of the whole search: the choice also depends on the rows."""
        self._keep(price)
        self.best_estimator_ = copy(chosen)
        self.best_estimator_._keep(price)
        # Further calls of partial_fit would be composed with one fit alone; without these attributes they are refused.
        for name in ("_paid", "call_guarantee_"):
            vars(self.best_estimator_).pop(name, None)

    def _run_until_stopped(self, train: Any, learned: Any, shown: Any, truths: list[Any]) -> Any:
        """Fit random candidates until a coin says stop; return the first model with the best noisy score."""
        stop = Coin(exact_probability(cast("Number", self.stopping), "stopping", one=True))
        judged = _one_by_one(shown, truths, np.arange(len(truths)))
        best: tuple[int, int, Any] | None = None
        while True:
            drawn = sample_below(len(list(self.candidates)), entropy.current())
            model = clone(self.candidates[drawn]).fit(train, learned)
            score = np.array([self._score(model, judged)], dtype=np.int64)
            noisy = int(release.release_laplace(score, self._score_scale())[0])
            if best is None or noisy > best[0]:
                best = noisy, drawn, model
            if stop.toss(entropy.current()):
                break
        self.best_score_, self.best_index_, model = best
        return model

    def _score_scale(self) -> Fraction:
        """Return the Laplace scale of a score's noise: the score's sensitivity over ε."""
        points = 1 if self._classifies() else _POINTS
        return points / exact_positive(self.epsilon, "epsilon")

    def _stopping_price(self, prices: Sequence[FitPrice], relation: Relation) -> FitPrice:
        """Return the cost of random stopping, (3ε, δ′), where ε is the largest of the fits' ε and that of a score."""
        chance = exact_probability(cast("Number", self.stopping), "stopping", one=True)
        epsilon = max(exact_positive(self.epsilon, "epsilon"), *(Fraction(each.guarantee.epsilon) for each in prices))
        delta = max(Fraction(getattr(each.guarantee, "delta", 0) or 0) for each in prices)
        total = 3 * epsilon
        runs = f"runs until a coin of {format_up(chance)} says stop: a candidate drawn by chance, and its noisy score"
        lines = (runs, f"one run: ({format_up(epsilon)}, {format_up(delta)})-DP, the dearest candidate or the score")
        if not delta:
            return FitPrice(
                PureDP(total, relation=relation), PureEvent(total, "random_stopping", relation=relation), lines
            )
        slack = round_up(delta * (1 + exp_bounds(total)[1]) / (1 + exp_bounds(epsilon)[0]) / chance)
        if slack >= 1:
            raise InputError("candidates", "need a much smaller delta: that of all runs together would be above one")
        event = ApproxEvent(total, slack, "random_stopping", relation=relation)
        return FitPrice(ApproxDP(total, slack, relation=relation), event, lines)

    def price(self, columns: int) -> FitPrice:
        """See :meth:`PrivateEstimator.price`."""
        choice, relation = self._check()
        prices = [each.price(columns) for each in self.candidates]
        if self.stopping is not None:
            return self._stopping_price(prices, relation)
        events = (*(each.event for each in prices), choice.event)
        delta = max((Fraction(getattr(each.guarantee, "delta", 0) or 0) for each in prices), default=Fraction(0))
        if not delta:
            raise InputError("candidates", "must have a delta: their costs are composed at the largest of them")
        lines = [f"candidate {place}, {line}" for place, each in enumerate(prices) for line in each.releases]
        total = compose(list(events), delta=delta, method="best")
        return FitPrice(
            total, ComposedEvent(events, relation=relation), (*lines, f"choice among {len(prices)} by permute-and-flip")
        )

    def _check(self) -> tuple[PermuteAndFlip, Relation]:
        listed = list(self.candidates)
        if len(listed) < 2 or not all(isinstance(each, PrivateEstimator) for each in listed):
            raise InputError(
                "candidates",
                "must list at least two estimators of tacit.learn; a pipeline is none: let estimators have bounds and "
                "categories instead of steps before them",
            )
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

    def _score(self, model: Any, judged: list[tuple[Any, Any]]) -> int:
        """Return the model's points, summed over rows; the points of a row depend on it and the fitted model alone."""
        if self._classifies():
            places = numbered((label for _, label in judged), model.classes_)
            found = numbered((model.predict(row).tolist()[0] for row, _ in judged), model.classes_)
            return int(((places == found) & (places >= 0)).sum())
        low, high = model.target_bounds
        width = float(high) - float(low)
        return sum(_points(float(model.predict(row)[0]), label, width) for row, label in judged)

    def predict(self, X: Any) -> NDArray[Any]:
        check_is_fitted(self, "best_estimator_")
        return cast("NDArray[Any]", self.best_estimator_.predict(X))

    def score(self, X: Any, y: Any) -> float:
        """Return the scikit-learn score of the chosen model on the rows given; the score is not private."""
        check_is_fitted(self, "best_estimator_")
        return float(self.best_estimator_.score(X, y))


def _one_by_one(X: Any, labels: Any, places: NDArray[np.intp]) -> list[tuple[Any, Any]]:
    """Return the holdout rows as tables of one row each, with their labels."""
    return [
        (take_rows(X, slice(place, place + 1)) if is_frame(X) else X[place : place + 1], labels[place])
        for place in places.tolist()
    ]


def _points(predicted: float, truth: float, width: float) -> int:
    """Return the points of one row: 100 for an exact prediction, 0 for an error of half the range, or a NaN target."""
    # If the bounds coincide, no row earns points.
    off = abs(predicted - truth) / (width / 2) if np.isfinite(truth) and width > 0 else 1.0
    return max(int(_POINTS * (1 - min(off, 1.0))), 0)
