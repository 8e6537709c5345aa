"""Base classes of private estimators: reports, bounds, targets and weights.

Estimators follow scikit-learn: the constructor only stores, ``fit`` checks everything and returns the estimator,
learned names end in an underscore. They differ where privacy asks for it: ``epsilon`` has no default and everything is
given by keyword, bounds and classes are declared, and there is no ``random_state``, because repeatable noise can be
subtracted. Searches and steps of scikit-learn that read rows without a price around a fit are warned of.

One row is one person. A fit never raises an error, and never ends sooner or later, because of what a row holds.
"""

from __future__ import annotations

import math
import sys
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from multiprocessing import current_process
from types import FrameType, FunctionType
from typing import Any, Final, Self, cast, dataclass_transform
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from tacit.core.errors import InputError
from tacit.core.events import ApproxEvent, ComposedEvent, Event
from tacit.core.guarantees import ApproxDP, PureDP
from tacit.core.numbers import Number, exact_positive, exact_probability, float_nearest, format_up
from tacit.core.relations import ADD_REMOVE, Relation, as_relation
from tacit.core.sensitivity import check_bounds
from tacit.learn.integer_rows import SHARES, Box, Integers
from tacit.learn.reading import (
    DISCOVER,
    Encoding,
    Floats,
    as_elements,
    check_classes,
    count_columns,
    discover_classes,
    is_frame,
    numbered,
    one_column,
    read_labels,
    read_numbers,
    read_table,
    take_rows,
)
from tacit.learn.release import FitPrice


class UnpaidReadingWarning(UserWarning):
    """The guarantee that an estimator states does not cover all that was done with the rows."""


#: Modules of scikit-learn whose estimators fit others to the same rows.
_SEVERAL: Final = ("sklearn.calibration", "sklearn.ensemble", "sklearn.multiclass", "sklearn.multioutput")
#: What was said of searches and pipelines that are still there; in a process that works for one, what it said at all.
_SAID: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
_SAID_BY_WORKER: Final[set[str]] = set()


def warn_of_unpaid_reading(private: type) -> None:
    """Warn, once for each, where scikit-learn's searches or steps that read rows stand around the fit that runs.

    Args:
        private: the class of estimators that state a price.
    """
    found, owner = [], None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module, name, known = frame.f_globals.get("__name__"), frame.f_code.co_name, frame.f_locals
        if str(module).startswith("sklearn.model_selection"):
            owner = known.get("self", known.get("estimator", owner))
        if module == "sklearn.model_selection._validation" and name == "_fit_and_score":
            found.append(
                "scikit-learn fits this estimator once per fold and candidate and shows scores that are not charged; "
                "guarantee_ is that of one fit. tacit.learn.PrivateSearch states the total."
            )
        elif module == "sklearn.pipeline" and name == "fit":
            unpaid = _unpaid(known.get("self"), private)
            owner = known.get("self")
            if unpaid:
                found.append(
                    f"the steps {', '.join(unpaid)} read the rows uncharged, before this estimator; guarantee_ "
                    "does not cover them. Use the scalers of tacit.learn, or bounds and categories of the estimator."
                )
        elif str(module).startswith(_SEVERAL) and name == "fit" and "self" in known:
            owner = known["self"]
            found.append(
                f"{type(owner).__name__} fits this estimator several times, or reads the rows itself, uncharged; "
                "guarantee_ is that of one fit, and those of several add up."
            )
        frame = frame.f_back
    # Each fold of a worker has a copy of the estimator, and the search is in another process.
    said = _SAID_BY_WORKER
    if found and current_process().name == "MainProcess":
        said = _SAID.setdefault(owner, set())
    for words in [each for each in dict.fromkeys(found) if each not in said]:
        said.add(words)
        warnings.warn(words, UnpaidReadingWarning, stacklevel=3)


def _unpaid(pipeline: Any, private: type) -> list[str]:
    """Names of steps that are fitted to rows and state no price."""
    found = []
    for name, step in list(getattr(pipeline, "steps", ()))[:-1]:
        if step is None or isinstance(step, str | private):
            continue
        tags = getattr(step, "__sklearn_tags__", None)
        if tags is None or tags().requires_fit:
            found.append(str(name))
    return found


#: Caution about a model that may be noise.
NOISE_RULES: Final = (
    "the noise is larger than what the features explain; ask for a larger epsilon, more rows or fewer columns"
)

#: δ from which a report questions it.
_LARGE_DELTA: Final = Fraction(1, 1000)
#: A declared weight of at most this size, and at least its inverse, is an ordinary float.
_LARGEST_WEIGHT: Final = 10**150
#: Of ε and of δ, what the private choice of labels takes.
_FOR_CLASSES: Final = Fraction(1, 5)
#: Guarantees of a fit.
Guarantees = ApproxDP | PureDP
#: Private attributes that fits set. scikit-learn keeps settings and callbacks of its own on an estimator, which stay.
# fmt: off
_LEARNED: Final = frozenset({
    "_box", "_center", "_centers", "_corner", "_fitted", "_hidden", "_mean", "_model", "_moments", "_n_features_out",
    "_noise", "_noisy_sums", "_paid", "_range", "_releases", "_target", "_target_bounds",
})
# fmt: on


@dataclass(frozen=True)
class PrivacyReport:
    """A fit in words: what it promises, about whom, what was released with how much noise, what was taken as public.

    A caution is added where released numbers say that noise hides what was to be learned.

    ``str(report)`` is the text; the fields are for programs.
    """

    estimator: str
    guarantee: Guarantees
    event: Event
    releases: tuple[str, ...]
    public: tuple[str, ...]
    assumes: tuple[str, ...]
    cautions: tuple[str, ...] = ()

    def __str__(self) -> str:
        changes = "added or removed" if self.guarantee.relation is ADD_REMOVE else "exchanged for another"
        lines = [f"{self.estimator}: {self.guarantee!r}, for one row {changes}", "released, with exact discrete noise:"]
        lines += [f"  {release}" for release in self.releases or ("nothing",)]
        lines += ["taken as public:"] + [f"  {item}" for item in self.public]
        lines += ["assumes:"] + [f"  {item}" for item in self.assumes]
        if self.cautions:
            lines += ["caution:"] + [f"  {item}" for item in self.cautions]
        return "\n".join(lines)


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
@dataclass(kw_only=True, eq=False, repr=False)
class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """The common part of all estimators.

    The parameters of an estimator are the fields of its class and of those that it inherits from, given by name.
    """

    guarantee_: Guarantees = field(init=False)
    event_: Event = field(init=False)
    n_features_in_: int = field(init=False)
    _releases: tuple[str, ...] = field(init=False)

    #: Whether categories become columns of their own.
    _one_hot = True

    def __init_subclass__(cls, **more: Any) -> None:
        """Make the constructor; errors about arguments of a fit name the class that was called, too."""
        super().__init_subclass__(**more)
        dataclass(kw_only=True, eq=False, repr=False)(cls)
        inherited = getattr(cls, "fit", None)
        if "fit" not in vars(cls) and isinstance(inherited, FunctionType):
            own = _copy_function(inherited)
            own.__qualname__ = f"{cls.__qualname__}.fit"
            cls.fit = own

    def __new__(cls, *_: Any, **given: Any) -> Self:
        """Refuse a seed in words."""
        if "random_state" in given:
            raise InputError(
                "random_state", "is no parameter: whoever knows a seed can draw the noise again, and subtract it"
            )
        made: Self = super().__new__(cls)
        return made

    def privacy_report(self) -> PrivacyReport:
        """Guarantee of the fit and how it was made up; printed, a short text."""
        check_is_fitted(self, "guarantee_")
        return PrivacyReport(
            type(self).__name__,
            self.guarantee_,
            self.event_,
            self._releases,
            self._public(),
            self._assumes(),
            (*_delta_caution(Fraction(getattr(self.guarantee_, "delta", 0))), *self._cautions()),
        )

    @abstractmethod
    def price(self, columns: int) -> FitPrice:
        """Price of a fit to rows of ``columns`` features: read off the parameters, without rows.

        A fit follows the same plan, so it releases exactly that.

        Raises:
            InputError: a fit would be refused with these parameters, or classes are to be found in the rows.
        """

    def _keep(self, price: FitPrice) -> None:
        self.guarantee_, self.event_, self._releases = price.guarantee, price.event, price.releases

    def _forget(self) -> None:
        """Drop what an earlier fit has learned: a model states the guarantee of one fit and holds no number of two."""
        for name in [each for each in vars(self) if each in _LEARNED or each.endswith("_")]:
            delattr(self, name)

    def _public(self) -> tuple[str, ...]:
        """Declarations of the caller; everything else about the data was paid for."""
        shown = []
        declared = ("bounds", "data_norm", "categories", "target_bounds", "classes", "class_weight", "max_weight", "n")
        for name in declared:
            value = getattr(self, name, None)
            if value is not None:
                text = _written(value)
                shown.append(f"{name} = {text if len(text) <= 80 else text[:77] + '...'}")
        return (*shown, "the number and names of columns")

    def _assumes(self) -> tuple[str, ...]:
        return (
            "each person has one row",
            "what is declared public was not read off the data",
            "only what predict and the attributes show is published, not the time a fit takes",
        )

    def _cautions(self) -> tuple[str, ...]:
        """Cautions about the fitted model, from released numbers alone; usually none."""
        return ()

    def _read(self, X: Any, *, reset: bool, learning: bool = False) -> Any:
        """The features as floats; any values, any number of rows: none are refused where there is nothing to learn.

        The names and the number of columns are checked by scikit-learn, on no rows: its words quote values and numbers
        of rows. A fit forgets all that was learned before, unless the call may add to it, which is ``learning``.
        """
        if reset and not learning:
            self._forget()
        if reset:
            warn_of_unpaid_reading(PrivateEstimator)
            with suppress(InputError):
                for caution in _delta_caution(exact_probability(getattr(self, "delta", None) or 0, "delta", zero=True)):
                    warnings.warn(caution, UserWarning, stacklevel=3)
        if getattr(self, "categories", None) is not None:
            return self._read_encoded(X, reset=reset, learning=learning or reset)
        table = read_table(X, columns=self._declared_columns(X))
        if not table.shape[1]:
            raise InputError("X", "Found array with 0 feature(s) (shape=(, 0)) while a minimum of 1 is required.")
        if not reset and not learning and not len(table):
            raise InputError("X", "Found array with 0 sample(s) (shape=(0, …)) while a minimum of 1 is required.")
        validate_data(self, take_rows(X, slice(0, 0)) if is_frame(X) else table[:0], reset=reset, skip_check_array=True)
        if reset and isinstance(getattr(self, "bounds", None), Mapping):
            self._check_names(cast("Mapping[str, Any]", self.bounds))
        return table

    def _read_encoded(self, X: Any, *, reset: bool, learning: bool) -> NDArray[np.float64]:
        """The columns of the model where some columns are declared categories."""
        columns = count_columns(X, self._declared_columns(X))
        empty = take_rows(X, slice(0, 0)) if is_frame(X) else np.empty((0, columns))
        validate_data(self, empty, reset=reset, skip_check_array=True)
        table = self._encoding(columns).read(X)
        if not learning and not len(table):
            raise InputError("X", "Found array with 0 sample(s) (shape=(0, …)) while a minimum of 1 is required.")
        return table

    def _encoding(self, columns: int) -> Encoding:
        """From columns of a table to columns of the model, where some are declared categories."""
        made, bounds = cast("Any", self).categories, getattr(self, "bounds", None)
        if getattr(self, "data_norm", None) is not None:
            raise InputError("categories", "need bounds of the other columns; leave data_norm out")
        names = [str(name) for name in getattr(self, "feature_names_in_", ())]
        if len(names) == columns or hasattr(self, "n_features_in_"):
            return Encoding.of(made, bounds, columns, names or None, one_hot=self._one_hot)
        return Encoding.unnamed(made, bounds, columns, one_hot=self._one_hot)

    def _width(self, columns: int) -> int:
        """Number of columns of the model, for a table of so many columns; checks what is declared of them."""
        if getattr(self, "categories", None) is not None:
            return len(Box.read(self._encoding(columns).bounds, None).low)
        self._box_of(columns)
        return columns

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the columns of the model; a column of categories has one for each where it is one-hot.

        Args:
            input_features: names of the columns of the table, where it had none.
        """
        check_is_fitted(self, "n_features_in_")
        names = getattr(self, "feature_names_in_", input_features)
        if names is None:
            names = [f"x{place}" for place in range(self.n_features_in_)]
        if len(names) != self.n_features_in_:
            raise InputError("input_features", f"must name {self.n_features_in_} columns")
        listed = [str(name) for name in names]
        if getattr(self, "categories", None) is not None:
            listed = self._encoding(self.n_features_in_).names(listed)
        return np.array(listed, dtype=object)

    def _check_names(self, bounds: Mapping[str, Any]) -> None:
        """Refuse bounds by name that are not those of the columns; names are public."""
        names = [str(name) for name in getattr(self, "feature_names_in_", ())]
        if not names:
            raise InputError("bounds", "by name need a data frame with these columns; for an array, give a list")
        odd = sorted(set(names) ^ {str(name) for name in bounds})
        if odd:
            raise InputError("bounds", f"and the columns differ in {', '.join(odd)}; give one pair for every column")

    def _stated_box(self) -> Box:
        """Where the values lie: bounds in the order of the columns, also where they are given by name."""
        bounds: Any = getattr(self, "bounds", None)
        if getattr(self, "categories", None) is not None:
            return Box.read(self._encoding(self.n_features_in_).bounds, None)
        if isinstance(bounds, Mapping):
            named = {str(name): pair for name, pair in bounds.items()}
            names = [str(name) for name in getattr(self, "feature_names_in_", named)]
            bounds = [named[name] for name in (names if set(names) == set(named) else named)]
        return Box.read(bounds, getattr(self, "data_norm", None))

    def _box_of(self, columns: int) -> Box:
        """Where the values of so many columns lie; refuses bounds that describe another number of them."""
        box = self._stated_box()
        box.check_columns(columns)
        if columns > 1 and len(box.low) == 1 and not box.ball and np.shape(self.bounds) == (1, 2):
            raise InputError(
                "bounds",
                f"list one pair, but the data has {columns} columns; write (low, high) for all, or a pair each",
            )
        return box

    def _declared_columns(self, X: Any) -> int | None:
        """Number of columns of ``X`` that the bounds describe, if they describe each."""
        bounds: Any = getattr(self, "bounds", None)
        if isinstance(bounds, Mapping):
            return len(bounds) + len(getattr(self, "categories", None) or ())
        try:
            pairs = np.shape(bounds)
        except ValueError:
            return None
        if pairs == (1, 2) and isinstance(X, list | tuple) and X and not getattr(self, "categories", None):
            # Its rows tell their width, so that one pair for several columns is refused and no row is read as another.
            return None
        # Categories have no bounds, so a list of pairs is one of the other columns.
        return int(pairs[0]) + len(getattr(self, "categories", None) or ()) if len(pairs) == 2 else None

    def _same_length(self, X: NDArray[np.float64], y: NDArray[Any]) -> None:
        if len(X) != len(y):
            # Two lengths that differ are a mistake of the program, whatever they are; neither is named.
            raise InputError("y", "must have one entry per row of X; the numbers of rows are inconsistent")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.non_deterministic = True
        return tags


class BoundedEstimator(PrivateEstimator):
    """An estimator that is (ε, δ)-DP under a relation, of columns within bounds."""

    epsilon: Number
    delta: Number | None = None
    bounds: Any = None
    relation: Relation | str = "add_remove"


class Classifier(ClassifierMixin, BoundedEstimator):  # type: ignore[misc]
    """A classifier, by scores of rows: one column for two classes, else one for each.

    ``classes`` are the public labels, or ``"discover"``.
    """

    classes: Iterable[Any] | None = None

    classes_: NDArray[Any] = field(init=False)

    @abstractmethod
    def _scores(self, X: Any) -> Floats:
        """Scores of rows; the largest, or a positive one, is that of the likeliest class."""

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class of each row."""
        check_is_fitted(self, "guarantee_")
        scores = self._scores(X)
        places = (scores[:, 0] > 0).astype(np.int64) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return cast("NDArray[Any]", self.classes_[places])

    def _read_classes(
        self,
        values: NDArray[np.float64],
        y: Any,
        privacy: tuple[Fraction, Fraction | None],
        known: NDArray[Any] | None = None,
    ) -> tuple[Integers, tuple[Fraction, Fraction | None], ApproxEvent | None]:
        """Numbers for the labels, the (ε, δ) that is left, and what was paid to find the classes out.

        ``known`` stand in place of the classes of the estimator.
        """
        if y is None:
            raise InputError("y", f"requires y to be passed, but the target y is None: {type(self).__name__}")
        labels = read_labels(y)
        if len(labels) != len(values):
            # Two lengths that differ are a mistake of the program, whatever they are; neither is named.
            raise InputError("y", "must have one entry per row of X; the numbers of rows are inconsistent")
        chosen = None
        if known is None and isinstance(self.classes, str) and self.classes == DISCOVER:
            privacy, chosen = self._discover(labels, privacy)
        else:
            self.classes_ = check_classes(self.classes) if known is None else known
            self._check_kind(getattr(y, "dtype", None))
        return numbered(labels, self.classes_), privacy, chosen

    def _check_kind(self, dtype: Any) -> None:
        """Refuse labels whose declared type is not that of the classes: every row would count for nothing."""
        name = str(getattr(dtype, "name", dtype) or "").lower()
        texts = getattr(dtype, "kind", "O") in "US" or name.startswith("str")
        numbers = isinstance(dtype, np.dtype) and dtype.kind in "buif"
        if (texts and self.classes_.dtype.kind in "buif") or (numbers and self.classes_.dtype.kind in "US"):
            words = ("text", "numbers") if texts else ("numbers", "text")
            raise InputError("y", f"is {words[0]} by its type, and the classes are {words[1]}; give both as one kind")

    def _declared_classes(self) -> NDArray[Any]:
        if isinstance(self.classes, str) and self.classes == DISCOVER:
            raise InputError(
                "classes", "must be declared for the cost to be known beforehand; how many will be found is not known"
            )
        return check_classes(self.classes)

    def _discover(
        self, labels: list[Any], privacy: tuple[Fraction, Fraction | None]
    ) -> tuple[tuple[Fraction, Fraction], ApproxEvent]:
        epsilon, delta = privacy
        if delta is None:
            raise InputError("delta", "must be given to have classes chosen privately; or list the classes")
        self.classes_, event = discover_classes(
            labels,
            epsilon=epsilon * _FOR_CLASSES,
            delta=delta * _FOR_CLASSES,
            relation=as_relation(self.relation),
        )
        if len(self.classes_) < 2:
            # The choice is released and paid for, so the message may name it.
            raise InputError("classes", "were to be found, but only 1 class or none has enough rows; declare them")
        return (epsilon * (1 - _FOR_CLASSES), delta * (1 - _FOR_CLASSES)), event

    def _add_discovery(self, chosen: ApproxEvent) -> None:
        """Two (ε, δ) in a row add up."""
        self.guarantee_ = ApproxDP(
            self.guarantee_.epsilon + chosen.epsilon,
            self.guarantee_.delta + chosen.delta,
            relation=chosen.relation,
        )
        self.event_ = ComposedEvent((chosen, self.event_), relation=chosen.relation)
        self._releases = ("classes: the labels that enough rows have", *self._releases)


class ScoringClassifier(Classifier):
    """A classifier that shows its scores."""

    def decision_function(self, X: Any) -> Floats:
        """Scores: for two classes one number per row, positive for the second; else one per class."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores


class ProbabilityClassifier(Classifier):
    """A classifier whose scores are logarithms of odds."""

    def predict_proba(self, X: Any) -> Floats:
        """The probability of each class, in the order of ``classes_``."""
        scores = self._scores(X)
        if scores.shape[1] == 1:
            scores = np.hstack([np.zeros_like(scores), scores])
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return cast("Floats", weights / weights.sum(axis=1, keepdims=True))

    def predict_log_proba(self, X: Any) -> Floats:
        """The logarithm of :meth:`predict_proba`."""
        return cast("Floats", np.log(np.maximum(self.predict_proba(X), 1e-300)))


class BoundedTarget(RegressorMixin, BoundedEstimator):  # type: ignore[misc]
    """A regression; ``target_bounds`` are the public bounds of its target."""

    target_bounds: Any = None

    def _boxes(self, columns: int) -> tuple[Box, Box]:
        """Where the features lie, and where the target."""
        box = self._box_of(columns)
        return box, self._target_box()

    def _target_box(self) -> Box:
        if self.target_bounds is None:
            raise InputError("target_bounds", "must be given: the public bounds (lower, upper) of the target")
        low, high = check_bounds(self.target_bounds, "target_bounds")
        return Box((low,), (high,))

    def _check_target(self, y: Any) -> None:
        if y is None:
            raise InputError("y", f"requires y to be passed, but the target y is None: {type(self).__name__}")

    def _joint_steps(self, values: NDArray[np.float64], y: Any, box: Box, target_box: Box) -> Integers:
        """Features and target in steps of their bounds, the target last."""
        targets = read_numbers(one_column(as_elements(y)))
        self._same_length(values, targets)
        return np.hstack([box.to_steps(values), target_box.to_steps(targets[:, None])])


class Weighted(BoundedEstimator):
    """An estimator that takes weights of rows, and of classes where it has ``class_weight``."""

    max_weight: Number | None = None

    def _shares(self, sample_weight: Any, rows: int) -> Integers | None:
        """Shares of the rows by their own weights."""
        self._check_weights()
        if sample_weight is None:
            return None
        largest = self._largest_weight()
        weights = read_numbers(one_column(as_elements(sample_weight)))
        if len(weights) != rows:
            raise InputError("sample_weight", "must have one entry per row of X; the numbers of rows are inconsistent")
        with np.errstate(all="ignore"):
            # What is no number, or an infinite one, says nothing about how much a row counts.
            scaled = np.clip(np.where(np.isfinite(weights), weights, 0.0) / largest, 0.0, 1.0)
        return cast("Integers", np.rint(scaled * SHARES).astype(np.int64))

    def _largest_weight(self) -> float:
        if self.max_weight is None:
            raise InputError("max_weight", "must be given with sample_weight: the largest weight of a row, declared")
        stated = exact_positive(self.max_weight, "max_weight")
        if not Fraction(1, _LARGEST_WEIGHT) <= stated <= _LARGEST_WEIGHT:
            # As a float it might be zero, and a weight of zero over that is no number.
            raise InputError("max_weight", "must lie between 1e-150 and 1e150; use other units")
        return float_nearest(stated)

    def check_weighed(self) -> None:
        """Refuse a fit with weights of rows that cannot be, by parameters alone: before it is paid for."""
        self._largest_weight()

    def _check_weights(self, classes: Any = None) -> None:
        """Refuse declared weights that are none; the same words as in a fit."""
        if self.max_weight is not None:
            self._largest_weight()
        if classes is not None:
            self._class_shares(classes)

    def _class_shares(self, classes: Any) -> Integers | None:
        """Shares of the classes, the largest one whole."""
        weight: Mapping[Any, Number] | None = getattr(self, "class_weight", None)
        if weight is None:
            return None
        if not isinstance(weight, Mapping):
            raise InputError(
                "class_weight", "must give a public weight by class; 'balanced' would read the rows uncharged"
            )
        known = classes.tolist()
        odd = [str(label) for label in weight if label not in known]
        if odd:
            raise InputError("class_weight", f"names {', '.join(odd)}, which is none of the classes")
        stated = {label: exact_positive(each, "class_weight") for label, each in weight.items()}
        weights = [stated.get(label, exact_positive(1, "class_weight")) for label in known]
        return np.array([max(round(each / max(weights) * SHARES), 1) for each in weights], dtype=np.int64)

    def _row_shares(self, sample_weight: Any, places: Integers, classes: Any) -> Integers | None:
        """Shares of the rows by their own weights and those of their classes; ``places`` are their classes."""
        own, ours = self._shares(sample_weight, len(places)), self._class_shares(classes)
        if ours is None:
            return own
        by_class = ours[np.maximum(places, 0)]
        return by_class if own is None else cast("Integers", own * by_class // SHARES)


def _delta_caution(delta: Fraction) -> tuple[str, ...]:
    if delta <= _LARGE_DELTA:
        return ()
    rows = math.floor(1 / delta)
    return (f"delta = {format_up(delta)} allows a fit that publishes one row in {rows}; choose far less than 1/rows",)


def _copy_function(function: FunctionType) -> FunctionType:
    """The same function, to be named otherwise."""
    made = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__, made.__annotations__ = function.__kwdefaults__, dict(function.__annotations__)
    made.__doc__, made.__module__ = function.__doc__, function.__module__
    return made


def _written(value: Any) -> str:
    """A declaration as its owner would write it: bounds of a project file are fractions, ``100`` among them."""
    if isinstance(value, Fraction):
        return str(value)
    if type(value) is list:
        return f"[{', '.join(map(_written, value))}]"
    if type(value) is tuple and len(value) > 1:
        return f"({', '.join(map(_written, value))})"
    if type(value) is dict:
        return f"{{{', '.join(f'{key!r}: {_written(each)}' for key, each in value.items())}}}"
    return repr(value)
