"""Class labels: declared, or selected privately at a price."""

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
from tacit.learn.integer_rows import Integers
from tacit.learn.value_reading import as_elements, one_column
from tacit.mechanisms.base import check_iterable
from tacit.mechanisms.partition_selection import PartitionSelection

#: The word that asks for a private selection of the labels instead of a declared list.
DISCOVER: Final = "discover"
#: Kinds of labels that can be discovered; a truth value is also an int, so it comes first.
_KINDS: Final[dict[str, Any]] = {
    "truth value": bool,
    "number": (int, float),
    "text": str,
    "bytes": bytes,
    "complex": complex,
}
#: From here on a float no longer tells a number from the next; one missing label makes floats of all in NumPy.
_LARGEST_NUMBER: Final = 1 << 53
#: Of ε and of δ, what the private choice of labels takes.
_FOR_CLASSES: Final = Fraction(1, 5)


def check_classes(classes: Iterable[Hashable] | None) -> NDArray[Any]:
    """The declared classes, sorted, at least two of them and all of one kind."""
    if classes is None or (isinstance(classes, str) and classes != DISCOVER):
        raise InputError(
            "classes", "must list the labels, which are public, or be 'discover' to have them chosen privately"
        )
    listed = [_plain(label) for label in check_iterable(classes, "classes", "a list of labels")]
    if len({_kind(label) for label in listed}) > 1 or not all(_is_label(label) for label in listed):
        raise InputError("classes", "must be labels of one kind: all text, or all numbers; neither None nor NaN")
    if any(_kind(label) == "number" and not abs(label) < _LARGEST_NUMBER for label in listed):
        raise InputError("classes", "holds a number of 2**53 or more, which floats cannot tell apart; write it as text")
    try:
        distinct = np.unique(np.asarray(listed))
    except TypeError:
        raise InputError("classes", "must be labels of one kind: all text, or all numbers") from None
    if len(distinct) != len(listed):
        raise InputError("classes", "lists a label twice")
    if len(distinct) < 2:
        raise InputError("classes", "must list at least two labels: with one class there is nothing to learn")
    return distinct


def read_labels(y: object) -> list[Any]:
    """The labels of all rows, one by one, as plain Python values; whether they are labels is not asked here."""
    elements = one_column(as_elements(y))
    return [_plain(label) for label in (elements if isinstance(elements, list) else elements.tolist())]


def discover_classes(
    labels: Iterable[object], *, epsilon: Number, delta: Number, relation: Relation
) -> tuple[NDArray[Any], ApproxEvent]:
    """The labels that enough rows have, chosen by private partition selection, sorted; and what that cost.

    Labels that no row has are never named. The list may have any length, also none or one. Each row's label is brought
    to one form by itself (a whole number is an int, whether it came as 1, 1.0 or 1 + 0j), and what the list looks like
    follows from the labels in it: no row decides the type of another's label. Labels are truth values, numbers below
    2⁵³, text and bytes; a row with another one counts for nothing.
    """
    selection = PartitionSelection(epsilon=epsilon, delta=delta, rule="truncated_geometric", relation=relation)
    counts: Counter[tuple[str, Hashable]] = Counter()
    counts.update(form for form in map(canonical_label, labels) if form is not None)
    found = sorted(selection.release({form: counts[form] for form in sorted(counts)}))
    event = ApproxEvent(exact_positive(epsilon, "epsilon"), selection.guarantee.delta, "classes", relation=relation)
    if len({kind for kind, _ in found}) <= 1:
        return np.array([label for _, label in found]), event
    mixed = np.empty(len(found), dtype=object)
    mixed[:] = [label for _, label in found]
    return mixed, event


class ClassLabels:
    """The part of a classifier that knows about labels; ``classes`` and ``relation`` are its parameters."""

    classes: Any
    relation: Relation | str
    classes_: NDArray[Any]
    guarantee_: ApproxDP | PureDP
    event_: Event
    _releases: tuple[str, ...]

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
            raise InputError("classes", "must be declared for a price beforehand; how many will be found is not known")
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


def numbered(labels: Iterable[object], classes: NDArray[Any]) -> Integers:
    """For each label its place among the classes, -1 for a label that is none of them; nothing in it can raise."""
    places: dict[object, int] = {label: place for place, label in enumerate(classes.tolist())}
    return np.array([places.get(label, -1) if _is_label(label) else -1 for label in labels], dtype=np.int64)


def _plain(label: object) -> Any:
    """A label without the wrapping of NumPy: scalars as Python's, an array or list of one value as that value."""
    if (isinstance(label, list) and len(label) == 1) or (isinstance(label, np.ndarray) and label.shape == (1,)):
        label = label[0]
    return label.item() if isinstance(label, np.generic) else label


def _is_label(label: object) -> bool:
    """Whether it can be compared with labels: hashable, and equal to itself (NaN is not)."""
    try:
        hash(label)
        # NA says neither yes nor no, and refuses to be asked.
        return bool(label == label)
    except Exception:
        return False


def _kind(label: object) -> str:
    """Labels of one kind can be sorted, and are never equal to labels of another."""
    for name, kinds in _KINDS.items():
        if isinstance(label, kinds):
            return name
    return type(label).__name__


def canonical_label(label: object) -> tuple[str, Any] | None:
    """The one form of a label that may be discovered, beside its kind; None for what is no label."""
    kind = _kind(label)
    if kind not in _KINDS or not _is_label(label):
        return None
    value: Any = label
    if kind == "complex":
        if value.imag:
            return None
        kind, value = "number", value.real
    if kind == "number":
        if not abs(value) < _LARGEST_NUMBER:
            return None
        value = int(value) if value == int(value) else float(value)
    # Of a subclass of text or bytes nothing but the text is shown.
    return kind, str(value) if kind == "text" else bytes(value) if kind == "bytes" else value
