"""Base classes of private estimators: reports, bounds, targets and weights.

Estimators follow scikit-learn: the constructor only stores, ``fit`` checks everything and returns the estimator,
learned names end in an underscore. They differ where privacy asks for it: ``epsilon`` has no default and everything is
given by keyword, bounds and classes are declared, and there is no ``random_state``, because repeatable noise can be
subtracted. A fit inside a search or pipeline of scikit-learn that reads the rows uncharged emits a warning.

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
    """Warning that ``guarantee_`` does not cover all computations that read the rows."""


#: Modules of scikit-learn whose meta-estimators fit other estimators to the same rows.
_SEVERAL: Final = ("sklearn.calibration", "sklearn.ensemble", "sklearn.multiclass", "sklearn.multioutput")
#: Messages already shown, by live search or pipeline; in a worker process, all messages already shown.
_SAID: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
_SAID_BY_WORKER: Final[set[str]] = set()


def warn_of_unpaid_reading(private: type) -> None:
    """Warn, once per search or pipeline, if the running fit was called by one that reads the rows uncharged.

    Args:
        private: base class of the estimators whose reading of rows is charged.
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
    # In a worker process each fold has a copy of the estimator, and the search object is in another process.
    said = _SAID_BY_WORKER
    if found and current_process().name == "MainProcess":
        said = _SAID.setdefault(owner, set())
    for words in [each for each in dict.fromkeys(found) if each not in said]:
        said.add(words)
        warnings.warn(words, UnpaidReadingWarning, stacklevel=3)


def _unpaid(pipeline: Any, private: type) -> list[str]:
    """Return the names of the pipeline steps that are fitted to the rows uncharged."""
    found = []
    for name, step in list(getattr(pipeline, "steps", ()))[:-1]:
        if step is None or isinstance(step, str | private):
            continue
        tags = getattr(step, "__sklearn_tags__", None)
        if tags is None or tags().requires_fit:
            found.append(str(name))
    return found


#: Caution of a privacy report: the model may be mostly noise.
NOISE_RULES: Final = (
    "the noise is larger than what the features explain; ask for a larger epsilon, more rows or fewer columns"
)

#: Largest δ that a report accepts without a caution.
_LARGE_DELTA: Final = Fraction(1, 1000)
#: Largest declared weight; its inverse is the smallest. Floats represent both.
_LARGEST_WEIGHT: Final = 10**150
#: Share of ε and of δ that the private selection of labels takes.
_FOR_CLASSES: Final = Fraction(1, 5)
#: Types of the guarantee of a fit.
Guarantees = ApproxDP | PureDP
#: Private attributes that a fit sets and the next fit deletes; settings and callbacks of scikit-learn stay.
# fmt: off
_LEARNED: Final = frozenset({
    "_box", "_center", "_centers", "_corner", "_fitted", "_hidden", "_mean", "_model", "_moments", "_n_features_out",
    "_noise", "_noisy_sums", "_paid", "_range", "_releases", "_target", "_target_bounds",
})
# fmt: on


@dataclass(frozen=True)
class PrivacyReport:
    """Guarantee, releases and assumptions of a fit, with cautions where released numbers show that noise dominates.

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
    """Base class of all estimators.

    The parameters of an estimator are the fields of its class and of those that it inherits from, given by name.
    """

    guarantee_: Guarantees = field(init=False)
    event_: Event = field(init=False)
    n_features_in_: int = field(init=False)
    _releases: tuple[str, ...] = field(init=False)

    #: Whether each category becomes one 0/1 column.
    _one_hot = True

    def __init_subclass__(cls, **more: Any) -> None:
        """Generate the constructor, and copy ``fit`` so that errors about its arguments name this class."""
        super().__init_subclass__(**more)
        dataclass(kw_only=True, eq=False, repr=False)(cls)
        inherited = getattr(cls, "fit", None)
        if "fit" not in vars(cls) and isinstance(inherited, FunctionType):
            own = _copy_function(inherited)
            own.__qualname__ = f"{cls.__qualname__}.fit"
            cls.fit = own

    def __new__(cls, *_: Any, **given: Any) -> Self:
        """Refuse ``random_state``, with the reason."""
        if "random_state" in given:
            raise InputError(
                "random_state", "is no parameter: whoever knows a seed can draw the noise again, and subtract it"
            )
        made: Self = super().__new__(cls)
        return made

    def privacy_report(self) -> PrivacyReport:
        """Return the report of the last fit: guarantee, releases, public declarations, assumptions and cautions."""
        check_is_fitted(self, "guarantee_")
        return PrivacyReport(
            type(self).__name__,
            self.guarantee_,
            self.event_,
            self._releases,
            self._public(),
            self._assumes(),
            (*delta_caution(Fraction(getattr(self.guarantee_, "delta", 0))), *self._cautions()),
        )

    @abstractmethod
    def price(self, columns: int) -> FitPrice:
        """Return the cost of a fit to rows of ``columns`` features, computed from the parameters alone.

        A fit follows the same plan, so its guarantee and releases are exactly these.

        Raises:
            InputError: a fit would be refused with these parameters, or the classes are to be discovered in the rows.
        """

    def _keep(self, price: FitPrice) -> None:
        self.guarantee_, self.event_, self._releases = price.guarantee, price.event, price.releases

    def _forget(self) -> None:
        """Delete all learned attributes, so that ``guarantee_`` of the next fit covers every number of the model."""
        for name in [each for each in vars(self) if each in _LEARNED or each.endswith("_")]:
            delattr(self, name)

    def _public(self) -> tuple[str, ...]:
        """Return the caller's public declarations as text; all other facts about the data are charged."""
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
        """Return cautions about the fitted model, computed from released numbers alone; none by default."""
        return ()

    def _read(self, X: Any, *, reset: bool, learning: bool = False) -> Any:
        """Return the features as floats. A fit accepts any values and any number of rows; predictions need one row.

        scikit-learn checks the names and the number of columns on an empty table, because its messages quote values and
        numbers of rows. ``reset`` deletes all learned attributes, unless ``learning`` lets the call add to them.
        """
        if reset and not learning:
            self._forget()
        if reset:
            warn_of_unpaid_reading(PrivateEstimator)
            with suppress(InputError):
                for caution in delta_caution(exact_probability(getattr(self, "delta", None) or 0, "delta", zero=True)):
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
        """Return the columns of the model, as floats, for a table with declared categories."""
        columns = count_columns(X, self._declared_columns(X))
        empty = take_rows(X, slice(0, 0)) if is_frame(X) else np.empty((0, columns))
        validate_data(self, empty, reset=reset, skip_check_array=True)
        table = self._encoding(columns).read(X)
        if not learning and not len(table):
            raise InputError("X", "Found array with 0 sample(s) (shape=(0, …)) while a minimum of 1 is required.")
        return table

    def _encoding(self, columns: int) -> Encoding:
        """Return the map from columns of a table to columns of the model, for a table with declared categories."""
        made, bounds = cast("Any", self).categories, getattr(self, "bounds", None)
        if getattr(self, "data_norm", None) is not None:
            raise InputError("categories", "need bounds of the other columns; leave data_norm out")
        names = [str(name) for name in getattr(self, "feature_names_in_", ())]
        if len(names) == columns or hasattr(self, "n_features_in_"):
            return Encoding.of(made, bounds, columns, names or None, one_hot=self._one_hot)
        return Encoding.unnamed(made, bounds, columns, one_hot=self._one_hot)

    def _width(self, columns: int) -> int:
        """Check the declarations for a table of ``columns`` columns; return the number of columns of the model."""
        if getattr(self, "categories", None) is not None:
            return len(Box.read(self._encoding(columns).bounds, None).low)
        self._box_of(columns)
        return columns

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the columns of the model; a one-hot column of categories has one name per category.

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
        """Refuse bounds by name unless their names are those of the columns; names are public."""
        names = [str(name) for name in getattr(self, "feature_names_in_", ())]
        if not names:
            raise InputError("bounds", "by name need a data frame with these columns; for an array, give a list")
        odd = sorted(set(names) ^ {str(name) for name in bounds})
        if odd:
            raise InputError("bounds", f"and the columns differ in {', '.join(odd)}; give one pair for every column")

    def _stated_box(self) -> Box:
        """Return the declared box of the feature values, with bounds given by name put in the order of the columns."""
        bounds: Any = getattr(self, "bounds", None)
        if getattr(self, "categories", None) is not None:
            return Box.read(self._encoding(self.n_features_in_).bounds, None)
        if isinstance(bounds, Mapping):
            named = {str(name): pair for name, pair in bounds.items()}
            names = [str(name) for name in getattr(self, "feature_names_in_", named)]
            bounds = [named[name] for name in (names if set(names) == set(named) else named)]
        return Box.read(bounds, getattr(self, "data_norm", None))

    def _box_of(self, columns: int) -> Box:
        """Return the declared box of ``columns`` features; refuse bounds for a different number of columns."""
        box = self._stated_box()
        box.check_columns(columns)
        if columns > 1 and len(box.low) == 1 and not box.ball and np.shape(self.bounds) == (1, 2):
            raise InputError(
                "bounds",
                f"list one pair, but the data has {columns} columns; write (low, high) for all, or a pair each",
            )
        return box

    def _declared_columns(self, X: Any) -> int | None:
        """Return the number of columns of ``X`` that the bounds imply, or None if they hold for any number."""
        bounds: Any = getattr(self, "bounds", None)
        if isinstance(bounds, Mapping):
            return len(bounds) + len(getattr(self, "categories", None) or ())
        try:
            pairs = np.shape(bounds)
        except ValueError:
            return None
        if pairs == (1, 2) and isinstance(X, list | tuple) and X and not getattr(self, "categories", None):
            # The rows determine the width, so that one listed pair for several columns is refused.
            return None
        # Categories have no bounds, so a list of pairs describes the remaining columns.
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
    """Base class of (ε, δ)-DP estimators of columns with declared bounds, under a neighbouring relation."""

    epsilon: Number
    delta: Number | None = None
    bounds: Any = None
    relation: Relation | str = "add_remove"


class Classifier(ClassifierMixin, BoundedEstimator):  # type: ignore[misc]
    """Base class of classifiers. They compute one score per row for two classes, otherwise one per row and class.

    ``classes`` are the public labels, or ``"discover"``.
    """

    classes: Iterable[Any] | None = None

    classes_: NDArray[Any] = field(init=False)

    @abstractmethod
    def _scores(self, X: Any) -> Floats:
        """Return scores, one line per row: one column, positive for the second class, or one column per class."""

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest class of each row."""
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
        """Return class indices (-1 for none), the remaining (ε, δ), and the event of discovering the classes, if any.

        ``known`` replaces the classes of the estimator.
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
        """Refuse labels whose declared type is not that of the classes: every row would be ignored."""
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
            # The selected labels are released and charged, so the message may depend on them.
            raise InputError("classes", "were to be found, but only 1 class or none has enough rows; declare them")
        return (epsilon * (1 - _FOR_CLASSES), delta * (1 - _FOR_CLASSES)), event

    def _add_discovery(self, chosen: ApproxEvent) -> None:
        """Add the private selection of classes to guarantee, event and releases, by sequential composition."""
        self.guarantee_ = ApproxDP(
            self.guarantee_.epsilon + chosen.epsilon,
            self.guarantee_.delta + chosen.delta,
            relation=chosen.relation,
        )
        self.event_ = ComposedEvent((chosen, self.event_), relation=chosen.relation)
        self._releases = ("classes: the labels that enough rows have", *self._releases)


class ScoringClassifier(Classifier):
    """Base class of classifiers that publish their scores."""

    def decision_function(self, X: Any) -> Floats:
        """Return scores: one number per row for two classes (positive for the second), otherwise one per class."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores


class ProbabilityClassifier(Classifier):
    """Base class of classifiers whose scores are log odds."""

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, by row, in the order of ``classes_``."""
        scores = self._scores(X)
        if scores.shape[1] == 1:
            scores = np.hstack([np.zeros_like(scores), scores])
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return cast("Floats", weights / weights.sum(axis=1, keepdims=True))

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of :meth:`predict_proba`."""
        return cast("Floats", np.log(np.maximum(self.predict_proba(X), 1e-300)))


class BoundedTarget(RegressorMixin, BoundedEstimator):  # type: ignore[misc]
    """Base class of regressions; ``target_bounds`` are the public bounds of the target."""

    target_bounds: Any = None

    def _boxes(self, columns: int) -> tuple[Box, Box]:
        """Return the declared boxes of the features and of the target."""
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
        """Return features and target as integer steps within their bounds, the target last."""
        targets = read_numbers(one_column(as_elements(y)))
        self._same_length(values, targets)
        return np.hstack([box.to_steps(values), target_box.to_steps(targets[:, None])])


class Weighted(BoundedEstimator):
    """Base class of estimators with weights of rows, and of classes where they have ``class_weight``."""

    max_weight: Number | None = None

    def _shares(self, sample_weight: Any, rows: int) -> Integers | None:
        """Return the weight of each row over ``max_weight``, in steps of 1/``SHARES``; None if unweighted."""
        self._check_weights()
        if sample_weight is None:
            return None
        largest = self._largest_weight()
        weights = read_numbers(one_column(as_elements(sample_weight)))
        if len(weights) != rows:
            raise InputError("sample_weight", "must have one entry per row of X; the numbers of rows are inconsistent")
        with np.errstate(all="ignore"):
            # A weight that is NaN or infinite counts as zero.
            scaled = np.clip(np.where(np.isfinite(weights), weights, 0.0) / largest, 0.0, 1.0)
        return cast("Integers", np.rint(scaled * SHARES).astype(np.int64))

    def _largest_weight(self) -> float:
        if self.max_weight is None:
            raise InputError("max_weight", "must be given with sample_weight: the largest weight of a row, declared")
        stated = exact_positive(self.max_weight, "max_weight")
        if not Fraction(1, _LARGEST_WEIGHT) <= stated <= _LARGEST_WEIGHT:
            # As a float it might be zero, and 0/0 is NaN.
            raise InputError("max_weight", "must lie between 1e-150 and 1e150; use other units")
        return float_nearest(stated)

    def _check_weights(self, classes: Any = None) -> None:
        """Refuse invalid declared weights, with the messages of a fit."""
        if self.max_weight is not None:
            self._largest_weight()
        if classes is not None:
            self._class_shares(classes)

    def _class_shares(self, classes: Any) -> Integers | None:
        """Return the weight of each class over the largest, in steps of 1/``SHARES``; None if unweighted."""
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
        """Return the relative weight of each row, times that of its class; ``places`` are class indices."""
        own, ours = self._shares(sample_weight, len(places)), self._class_shares(classes)
        if ours is None:
            return own
        by_class = ours[np.maximum(places, 0)]
        return by_class if own is None else cast("Integers", own * by_class // SHARES)


def delta_caution(delta: Fraction) -> tuple[str, ...]:
    """Return a caution if δ exceeds one in a thousand."""
    if delta <= _LARGE_DELTA:
        return ()
    rows = math.floor(1 / delta)
    return (f"delta = {format_up(delta)} allows a fit that publishes one row in {rows}; choose far less than 1/rows",)


def _copy_function(function: FunctionType) -> FunctionType:
    """Return a copy of the function, which can be renamed."""
    made = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__, made.__annotations__ = function.__kwdefaults__, dict(function.__annotations__)
    made.__doc__, made.__module__ = function.__doc__, function.__module__
    return made


def _written(value: Any) -> str:
    """Return a declaration as source text, with each Fraction (bounds from a project file) as a plain number."""
    if isinstance(value, Fraction):
        return str(value)
    if type(value) is list:
        return f"[{', '.join(map(_written, value))}]"
    if type(value) is tuple and len(value) > 1:
        return f"({', '.join(map(_written, value))})"
    if type(value) is dict:
        return f"{{{', '.join(f'{key!r}: {_written(each)}' for key, each in value.items())}}}"
    return repr(value)
