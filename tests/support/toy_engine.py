"""A small engine in Python for tests of what comes after measuring, over lists of rows."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from query.interpreter import rows_of
from support.noiseless import true_places
from tacit.core.errors import EngineError
from tacit.engines.protocol import Engine, Measurements, MeasurementTask
from tacit.query.aggregates.ranks import NoisyTree
from tacit.query.planning.measures import Measure, MeasureKind, quantise
from tacit.query.planning.noise import NoiseLaw
from tacit.query.planning.plan import Plan
from tacit.query.query import FinalAggregation
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import FilterRows, ProjectColumns, RelationNode, Scan, is_public_throughout
from tacit.query.relational.functions import evaluate
from tacit.query.release import NoisyRelease, inputs
from tacit.query.types import as_value, ordinal, sort_key


def is_bias_table(final: FinalAggregation) -> bool:
    """Whether a final aggregation is the table of what bounding leaves out of another."""
    return [aggregate.label for aggregate in final.aggregates] == ["people by cause of bias"]


class Killed(BaseException):
    """Stands for the end of the process, in the midst of a run."""


class ToyEngine(Engine):
    """Measures tables given as lists of mappings from column name to canonical value."""

    def __init__(self, tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        #: Number of queries measured, the search for AUTO bounds counting as one.
        self.tables = {name.lower(): list(rows) for name, rows in tables.items()}
        self.measured = 0
        self.fail: BaseException | None = None
        self.closed = False

    def check(self, final: FinalAggregation) -> None:
        """Nothing is refused."""

    def interrupt(self) -> None:
        """Nothing runs long enough."""

    def close(self) -> None:
        self.closed = True

    def measure(self, work: MeasurementTask) -> Measurements:
        # The table of what is left out belongs to the query before it.
        self.measured += not is_bias_table(work.final)
        if self.closed:
            raise EngineError("closed")
        if self.fail is not None:
            raise self.fail
        return measure(work.final, self._rows(work.final.source), work.key_secret)

    def check_examples(self, relation: RelationNode) -> None:
        """All can be read."""

    def examples(
        self, relation: RelationNode, numbers: Sequence[int], label: int | None, key_secret: bytes
    ) -> tuple[Any, Any]:
        """The first row of each unit."""
        first: dict[Any, Any] = {}
        for row in self._rows(relation):
            first.setdefault(row[relation.unit or 0], row)
        kept = list(first.values())
        raw = np.array([[np.nan if row[slot] is None else float(row[slot]) for slot in numbers] for row in kept])
        labels = np.empty(len(kept), dtype=object)
        labels[:] = [None if label is None else row[label] for row in kept]
        return raw.reshape(len(kept), len(numbers)), None if label is None else labels

    def rows(self, relation: RelationNode, *, most: int) -> tuple[tuple[Any, ...], ...]:
        """Those of a public relation, in the order of their columns."""
        assert is_public_throughout(relation)
        kinds = [column.type for column in relation.fields]
        found = sorted(self._rows(relation), key=lambda row: [sort_key(v, k) for v, k in zip(row, kinds, strict=True)])
        if len(found) > most:
            raise Refusal("too_large", "There are too many public rows.")
        return tuple(found)

    def _rows(self, node: RelationNode) -> list[tuple[Any, ...]]:
        match node:
            case Scan():
                return self._scan(node)
            case FilterRows():
                return [row for row in self._rows(node.source) if evaluate(node.condition, row) is True]
            case ProjectColumns():
                return [tuple(evaluate(part, row) for part in node.expressions) for row in self._rows(node.source)]
            case _:
                return rows_of(node, self.tables)

    def _scan(self, node: Scan) -> list[tuple[Any, ...]]:
        rows = []
        for number, stored in enumerate(self.tables[node.table.lower()]):
            row = [as_value(stored[name], column.type) for name, column in zip(node.columns, node.fields, strict=False)]
            if len(node.fields) > len(row):
                row.append(number)
            if node.unit is None or row[node.unit] is not None:
                rows.append(tuple(row))
        return rows


def measure(final: FinalAggregation, rows: Sequence[tuple[Any, ...]], secret: bytes = b"") -> Measurements:
    """The exact integers of semantics.md section 3."""
    unit = final.source.unit
    assert unit is not None
    groups: dict[Any, dict[Any, list[tuple[Any, ...]]]] = defaultdict(lambda: defaultdict(list))
    public = set(product(*(key.values or () for key in final.keys))) if final.public_keys else None
    for row in rows:
        key = tuple(evaluate(part.expression, row) for part in final.keys)
        if public is None or key in public:
            groups[row[unit]][key].append(row)
    kept: dict[Any, list[list[tuple[Any, ...]]]] = defaultdict(list)
    for person, own in groups.items():
        left = final.max_total
        for key in sorted(own, key=lambda key, person=person: _hash(secret, person, key))[: final.max_groups]:
            # Another rule than that of other engines: the first groups keep all of their rows.
            rows = own[key] if left is None else own[key][: min(left, final.most_in_group)]
            left = None if left is None else left - len(rows)
            if rows:
                kept[key].append(rows)
    if final.public_keys:
        keys = list(product(*(key.values or () for key in final.keys)))
    else:
        types = [key.expression.type for key in final.keys]
        keys = sorted(kept, key=lambda key: [sort_key(v, t) for v, t in zip(key, types, strict=True)])
    raw = tuple(tuple(_measure(m, kept.get(key, []), secret) for key in keys) for m in final.measures)
    return Measurements(tuple(keys), tuple(len(kept.get(key, [])) for key in keys), raw)


def _hash(secret: bytes, *parts: object) -> bytes:
    return hashlib.sha256(secret + repr(parts).encode()).digest()


def _measure(measure: Measure, people: list[list[tuple[Any, ...]]], secret: bytes) -> tuple[Any, ...]:
    if measure.kind.traits.unites:
        found: set[Any] = set()
        for rows in people:
            own = sorted(set(_values(measure, rows)), key=lambda value: _hash(secret, value))
            found |= set(own[: measure.rows])
        if measure.kind is MeasureKind.DISTINCT:
            return (len(found),)
        assert measure.argument is not None
        steps = (quantise(ordinal(v, measure.argument.type), measure.step) for v in found)
        return (sum(min(max(step, measure.low), measure.high) - measure.centre for step in steps),)
    if measure.kind is MeasureKind.PLACES:
        places = Counter(place for rows in people for place in _places(measure, rows)[: measure.rows])
        return tuple(sorted(places.items()))
    totals = [0] * measure.width
    for rows in people:
        for index, part in enumerate(_person(measure, rows, secret)):
            totals[index] += part
    return tuple(totals)


def _values(measure: Measure, rows: list[tuple[Any, ...]]) -> list[Any]:
    counted = [row for row in rows if measure.where is None or evaluate(measure.where, row) is True]
    if measure.argument is None:
        return counted
    values = [evaluate(measure.argument, row) for row in counted]
    return [value for value in values if value is not None]


def _places(measure: Measure, rows: list[tuple[Any, ...]]) -> list[int]:
    assert measure.argument is not None
    steps = [quantise(ordinal(v, measure.argument.type), measure.step) for v in _values(measure, rows)]
    return [(min(max(step, measure.low), measure.high) - measure.low) // measure.leaf for step in steps]


def _person(measure: Measure, rows: list[tuple[Any, ...]], secret: bytes) -> list[int]:
    values = _values(measure, rows)
    low, high = measure.clamp

    def clamped(value: int) -> list[int]:
        return [min(max(value, low), high)]

    match measure.kind:
        case MeasureKind.UNITS:
            return [int(bool(values))]
        case MeasureKind.ROWS | MeasureKind.VALUES:
            return clamped(len(values))
        case MeasureKind.CATEGORIES:
            kept = [v for v in values if v in measure.categories][: measure.rows]
            return [kept.count(category) for category in measure.categories]
    assert measure.argument is not None
    kind = measure.argument.type
    steps = [min(max(quantise(ordinal(v, kind), measure.step), measure.low), measure.high) for v in values]
    match measure.kind:
        case MeasureKind.SUM:
            return clamped(sum(steps))
        case MeasureKind.LEAVES:
            places = _places(measure, rows)[: measure.rows]
            return [places.count(leaf) for leaf in range(measure.width)]
        case MeasureKind.CENTRED_SUM:
            total = sum(step - measure.centre for step in steps)
        case _:
            total = sum((step - measure.centre) ** 2 for step in steps)
    if len(steps) > measure.rows:
        total = quantise(Fraction(total * measure.rows, len(steps)), Fraction(1))
    return clamped(total)


def _raw(measure: Measure, entry: Any) -> Any:
    if measure.kind is not MeasureKind.PLACES:
        return np.array(entry, dtype=object)
    sparse = np.empty(len(entry), dtype=object)
    for group, counted in enumerate(entry):
        sparse[group] = np.array(counted, dtype=np.int64).reshape(-1, 2)
    return sparse


def without_noise(plan: Plan, measurements: Measurements) -> NoisyRelease:
    """Release without noise: the truth that intervals speak of, and for nothing else."""
    none = NoiseLaw("none", Fraction(0))
    raw = [_raw(measure, entry) for measure, entry in zip(plan.final.measures, measurements.raw, strict=True)]
    noisy: dict[int, Any] = {}
    for each in plan.releases:
        block = each.block
        drawn = None if each.choice is None else true_places(each.choice, raw[each.choice.measure])
        if drawn is not None and block.tree is not None:
            nodes = inputs(block, raw, drawn)
            noisy[block.measures[0]] = NoisyTree(block.tree, nodes, none, drawn)
            continue
        parts = [raw[index] if block.spread else raw[index][:, 0] for index in block.measures]
        for index, part, readout in zip(block.measures, parts, block.readouts, strict=True):
            if block.tree is not None:
                noisy[index] = NoisyTree(block.tree, block.tree.fill(part.astype(np.int64)), none)
            else:
                noisy[index] = np.array([[int(v / readout.unit) for v in np.ravel(row)] for row in part], dtype=object)
                noisy[index] = noisy[index] if block.spread else noisy[index][:, 0]
    laws = [plan.priced.release_of[index].law(index) for index in range(len(raw))]
    exact = tuple(NoiseLaw("none", Fraction(0), 1, law.unit) for law in laws)
    return NoisyRelease(tuple(measurements.keys), tuple(noisy[index] for index in range(len(raw))), exact, plan)
