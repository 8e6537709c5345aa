"""Class labels: declared, or found out at a price; never read off the data for free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.events import ApproxEvent, ComposedEvent, Event
from tacit.core.guarantees import ApproxDP, PureDP
from tacit.core.numbers import Number, exact_positive
from tacit.core.relations import Relation, as_relation
from tacit.learn.rows import Integers
from tacit.learn.scikit import column_or_1d
from tacit.mechanisms.base import check_iterable
from tacit.mechanisms.partition_selection import PartitionSelection

__all__ = ["DISCOVER", "ClassLabels", "check_classes", "discover_classes", "numbered"]

#: The word that asks for a private selection of the labels instead of a declared list.
DISCOVER: Final = "discover"
#: Of ε and of δ, what the private choice of labels takes.
_FOR_CLASSES: Final = Fraction(1, 5)


def check_classes(classes: Iterable[Hashable] | None) -> NDArray[Any]:
    """The declared classes, sorted, at least two of them."""
    if classes is None or (isinstance(classes, str) and classes != DISCOVER):
        raise InputError(
            "classes", "must list the labels, which are public, or be 'discover' to have them chosen privately"
        )
    listed = list(check_iterable(classes, "classes", "a list of labels"))
    try:
        distinct = np.unique(np.asarray(listed))
    except TypeError:
        raise InputError("classes", "must be labels of one kind: all text, or all numbers") from None
    if len(distinct) != len(listed):
        raise InputError("classes", "lists a label twice")
    if len(distinct) < 2:
        raise InputError("classes", "must list at least two labels: with one class there is nothing to learn")
    return distinct


def discover_classes(
    labels: Iterable[object], *, epsilon: Number, delta: Number, relation: Relation
) -> tuple[NDArray[Any], ApproxEvent]:
    """The labels that enough rows have, chosen by private partition selection, sorted; and what that cost.

    Labels that no row has are never named. The list may have any length, also none or one.
    """
    selection = PartitionSelection(epsilon=epsilon, delta=delta, rule="truncated_geometric", relation=relation)
    counts: Counter[Hashable] = Counter(label for label in labels if _is_label(label))
    found = selection.release(counts)
    event = ApproxEvent(exact_positive(epsilon, "epsilon"), selection.guarantee.delta, "classes", relation=relation)
    return np.unique(np.asarray(sorted(found, key=repr))), event


class ClassLabels:
    """The part of a classifier that knows about labels; ``classes`` and ``relation`` are its parameters."""

    classes: Any
    relation: Relation | str
    classes_: NDArray[Any]
    guarantee_: ApproxDP | PureDP
    event_: Event
    _releases: tuple[str, ...]

    def _read_classes(
        self, values: NDArray[np.float64], y: Any, privacy: tuple[Fraction, Fraction | None]
    ) -> tuple[Integers, tuple[Fraction, Fraction | None], ApproxEvent | None]:
        """Numbers for the labels, the (ε, δ) that is left, and what was paid to find the classes out."""
        if y is None:
            raise InputError("y", f"requires y to be passed, but the target y is None: {type(self).__name__}")
        labels = column_or_1d(y, warn=True)
        if len(labels) != len(values):
            # Two lengths that differ are a mistake of the program, whatever they are; neither is named.
            raise InputError("y", "must have one entry per row of X; the numbers of rows are inconsistent")
        chosen = None
        if isinstance(self.classes, str) and self.classes == DISCOVER:
            privacy, chosen = self._discover(labels, privacy)
        else:
            self.classes_ = check_classes(self.classes)
        return numbered(labels, self.classes_), privacy, chosen

    def _discover(
        self, labels: NDArray[Any], privacy: tuple[Fraction, Fraction | None]
    ) -> tuple[tuple[Fraction, Fraction], ApproxEvent]:
        epsilon, delta = privacy
        if delta is None:
            raise InputError("delta", "must be given to have classes chosen privately; or list the classes")
        self.classes_, event = discover_classes(
            labels.tolist(),
            epsilon=epsilon * _FOR_CLASSES,
            delta=delta * _FOR_CLASSES,
            relation=as_relation(self.relation),
        )
        if len(self.classes_) < 2:
            # What was chosen is released and paid for, so it may be spoken of.
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


def numbered(labels: NDArray[Any], classes: NDArray[Any]) -> Integers:
    """For each label its place among the classes, -1 for a label that is none of them; nothing in it can raise."""
    places: dict[object, int] = {label: place for place, label in enumerate(classes.tolist())}
    return np.array([places.get(label, -1) if _is_label(label) else -1 for label in labels.tolist()], dtype=np.int64)


def _is_label(label: object) -> bool:
    """Whether it can be compared with labels: hashable, and equal to itself (NaN is not)."""
    try:
        hash(label)
    except TypeError:
        return False
    return bool(label == label)
