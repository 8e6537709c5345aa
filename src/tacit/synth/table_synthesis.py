"""Measurements for a synthetic table: which marginals are measured, within one budget.

============= ====================================================================================================
method        measures
============= ====================================================================================================
independent   each column individually
marginals     each column individually, and the sets of columns that the request lists
mst           each column, then the pairs of a maximum spanning tree, chosen privately by distance from independence
aim           each column, then round by round the marginal with the largest error under the model, chosen privately
============= ====================================================================================================

Selections are by the exponential mechanism on integer scores, measurements by Gaussian or Laplace noise on integer
counts. All of them, adaptively chosen or not, stay within the ρ, μ² or ε of the budget: a measurement that would exceed
it is not made. The number of rounds, and the largest size of the model, are functions of the cost, public sizes and
released numbers. Where the noise of pairs would exceed their correlations, more or all of the cost measures single
columns, so that a table is worse than one of independent columns only by chance.

Proof: ``table_synthesis.proof.md``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError, InternalError
from tacit.core.events import ComposedEvent, Event
from tacit.core.relations import ADD_REMOVE, Relation
from tacit.mechanisms.exponential import Exponential
from tacit.synth.count_measurement import DISCRETE_GAUSSIAN, CountMeasurement, CountNoise, CountSource, divide
from tacit.synth.graphical_model import (
    GraphicalModel,
    NoisyMarginal,
    estimated_total,
    fit_model,
    model_cells,
)
from tacit.synth.strategy import IdentityStrategy

Method = Literal["aim", "mst", "independent", "marginals"]
METHODS: Final = ("aim", "mst", "independent", "marginals")
Columns = tuple[str, ...]
#: Scores are integers in units of 1/16 of a row.
_STEPS: Final = 16
#: Largest number of cells of a model with any method; the limit of AIM is smaller.
LARGEST_MODEL: Final = 10_000_000
#: Default number of minutes that AIM plans for.
MINUTES: Final = 10
#: Gradient steps of the fit in each round, and of the last fit; every step reads all cells of a model about twice.
_ROUND_STEPS: Final = 60
_LAST_STEPS: Final = 1_000
#: Cells that these steps process per minute on one ordinary core: a public constant, independent of the machine.
_CELLS_A_MINUTE: Final = 400_000_000
#: Rounds per column assumed when minutes are converted to a model size.
_PLANNED_ROUNDS: Final = 4
#: Rounds per column that a whole budget is planned for; fewer are made where rounds get more budget.
_ROUNDS: Final = 16
#: Share of a round's cost spent on the selection, by the power of the cost with which precision grows.
_SELECTION: Final = {1: Fraction(1, 10), 2: Fraction(1, 3)}
#: Share of rows that noise moves in a pair of columns: above the first, more of the cost goes to single columns; above
#: the second, all of it does, because the noise of pairs would exceed their correlations.
_LITTLE: Final = 0.05
_MUCH: Final = 0.2
#: No measurement costs less than price / (128 · number of columns).
_PARTS: Final = 128
#: Share of the cost that may remain unspent because of rounding.
_ROUNDING: Final = Fraction(1, 10**6)
#: Least share of the cost spent on single columns.
_FIRST: Final = Fraction(1, 4)


@dataclass(frozen=True)
class SynthesisPlan:
    """Parameters that determine the measurements of a synthetic table, apart from the data.

    Args:
        method: method that chooses the marginals.
        sizes: number of values of each column.
        price: cost of all measurements and selections together, in the currency of the noise (ρ, μ² or ε).
        rows: the most rows of one unit that count.
        relation: neighbouring relation of databases.
        sets: for ``marginals`` the sets of columns to measure; for ``aim`` the sets whose error is to be small.
        minutes: for ``aim``, bound on the size of the model, stated as the time that fits of that size take.
        outer: columns of the persons' table, which are measured only in marginals with columns of this table.
        given: noisy marginals of the outer columns, computed from releases about the persons' table.
        noise: the kind of noise.
    """

    method: Method
    sizes: Mapping[str, int]
    price: Fraction
    rows: int = 1
    relation: Relation = ADD_REMOVE
    sets: tuple[Columns, ...] = ()
    minutes: int = MINUTES
    outer: tuple[str, ...] = ()
    given: tuple[NoisyMarginal, ...] = field(default=(), repr=False, compare=False)
    noise: CountNoise = DISCRETE_GAUSSIAN

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InputError("method", f"must be one of {', '.join(METHODS)}, got {self.method!r}")
        if not self.own:
            raise InputError("columns", "must name at least one column")
        if self.method == "marginals" and not self.sets:
            raise InputError("marginals", "must list the sets of columns to measure")
        if type(self.minutes) is not int or not 1 <= self.minutes <= 1440:
            raise InputError("minutes", "must be a whole number from 1 to 1440")
        unknown = [name for names in self.sets for name in names if name not in self.sizes]
        if unknown:
            raise InputError("marginals", f"names {unknown[0]!r}, which is not among the columns")
        measured = self.sets if self.method == "marginals" else ()
        if (cells := model_cells(self.sizes, measured)) > LARGEST_MODEL:
            raise InputError(
                "marginals",
                f"tie columns together with {cells:,} combinations in one model, more than {LARGEST_MODEL:,}; leave "
                "some out",
            )

    @property
    def own(self) -> tuple[str, ...]:
        """Columns of the table itself, without the outer columns."""
        return tuple(name for name in self.sizes if name not in self.outer)

    @property
    def pairs(self) -> tuple[Columns, ...]:
        """All pairs of columns, of which at least one is the table's own."""
        own = set(self.own)
        return tuple(pair for pair in itertools.combinations(self.sizes, 2) if own & set(pair))

    @property
    def candidates(self) -> tuple[Columns, ...]:
        """Marginals that may be measured: exact counts of all of them are computed, whichever are chosen."""
        singles = [(name,) for name in self.own]
        if self.method == "independent":
            return tuple(singles)
        if self.method == "marginals":
            return tuple(dict.fromkeys([*singles, *self.sets]))
        if self.method == "mst" or not self.sets:
            return (*singles, *self.pairs)
        below = {
            part
            for names in self.sets
            for size in range(1, len(names) + 1)
            for part in _combinations(names, size)
            if not set(part) <= set(self.outer)
        }
        return tuple(dict.fromkeys([*singles, *sorted(below, key=lambda names: (len(names), names))]))

    def check_price(self) -> None:
        """Refuse a cost so small that the noise of a measurement is too large to compute with; nothing is charged.

        Raises:
            InputError: the cost is too small.
        """
        part = self.price / (_PARTS * max(len(self.sizes), len(self.sets)))
        moved = 2 * self.rows
        self.noise.mechanism(part, moved, moved**2, 1, self.relation)
        self.noise.selection_epsilon(part / _ROUNDS)

    def cells(self, names: Columns) -> int:
        """Return the number of combinations of values of these columns."""
        return math.prod(self.sizes[name] for name in names)

    @property
    def largest_model(self) -> int:
        """Largest number of cells of the model of ``aim``, a function of the minutes and the number of columns."""
        steps = _PLANNED_ROUNDS * len(self.sizes) * _ROUND_STEPS + _LAST_STEPS
        return self.minutes * _CELLS_A_MINUTE // steps


@dataclass(frozen=True, eq=False)
class MeasuredMarginal:
    """A measured marginal: the noisy counts and the mechanism that released them."""

    measurement: CountMeasurement
    noisy: NDArray[np.int64]

    @property
    def marginal(self) -> NoisyMarginal:
        """The noisy counts, divided by the scale of the measurement."""
        made = self.measurement
        return NoisyMarginal(made.columns, self.noisy / made.scale, math.sqrt(made.sigma2), made.noise)


@dataclass(frozen=True)
class ChosenMarginal:
    """A selection by the exponential mechanism: number of candidates, ε, and the chosen columns."""

    candidates: int
    epsilon: Fraction
    columns: Columns


@dataclass
class Transcript:
    """All measurements and selections released about a table, in order."""

    measured: list[MeasuredMarginal] = field(default_factory=list)
    chosen: list[ChosenMarginal] = field(default_factory=list)

    @property
    def marginals(self) -> list[NoisyMarginal]:
        return [each.marginal for each in self.measured]

    def event(self, relation: Relation) -> ComposedEvent:
        """Return the composition of all releases as a privacy event."""
        events: list[Event] = [each.measurement.event for each in self.measured]
        events += [Exponential(epsilon=c.epsilon, sensitivity=1, relation=relation).event for c in self.chosen]
        return ComposedEvent(tuple(events), relation=relation)


def measure_table(
    plan: SynthesisPlan, source: CountSource, progress: Callable[[str], None] | None = None
) -> Transcript:
    """Select and measure marginals within the budget of a plan; the only function here that sees exact counts.

    Args:
        plan: method, columns and cost.
        source: returns the exact counts of a marginal.
        progress: called with a sentence about each measurement, which does not name chosen columns: nothing is stored
            before the last measurement, and if the process dies, another run makes all choices anew.
    """
    run = _Run(plan, source, progress or (lambda _: None))
    methods = {
        "independent": run.independent, "marginals": run.listed, "mst": run.spanning_tree, "aim": run.adaptive,
    }  # fmt: skip
    methods[plan.method]()
    return run.transcript


class _Run:
    """One run of a method under a budget, which no sequence of releases can exceed."""

    def __init__(self, plan: SynthesisPlan, source: CountSource, progress: Callable[[str], None]) -> None:
        self._plan = plan
        self._source = source
        self._progress = progress
        self._left = plan.price
        self.transcript = Transcript()

    # -- releases

    def _spend(self, price: Fraction) -> None:
        if price <= 0 or price > self._left:
            raise InternalError("a measurement would exceed the budget of a synthetic table")
        self._left -= price

    def _measure(self, names: Columns, price: Fraction) -> MeasuredMarginal:
        self._spend(price)
        measurement = counted(self._plan, names, price)
        made = MeasuredMarginal(measurement, measurement.release(self._source))
        self.transcript.measured.append(made)
        shown = f"{len(names)} columns" if self.transcript.chosen and len(names) > 1 else ", ".join(names)
        self._progress(f"measured {shown}: {float(1 - self._left / self._plan.price):.0%} of the cost is spent")
        return made

    def _choose(self, scores: Mapping[Columns, int], moved: int, price: Fraction) -> Columns:
        """Choose a candidate by the exponential mechanism; scores have sensitivity ``moved``."""
        epsilon = self._plan.noise.selection_epsilon(price)
        self._spend(self._plan.noise.selection_price(epsilon))
        mechanism = Exponential(epsilon=epsilon, sensitivity=moved, relation=self._plan.relation)
        listed = list(scores)
        found = listed[choose(mechanism, [scores[names] for names in listed])]
        self.transcript.chosen.append(ChosenMarginal(len(listed), epsilon, found))
        return found

    def _distance(self, names: Columns, expected: NDArray[np.float64]) -> int:
        """Return the l1 distance of exact from expected counts, an integer in 1/16 rows; one row moves it by _STEPS."""
        public = np.rint(_STEPS * np.clip(expected, -1e12, 1e12)).astype(np.int64)
        return int(np.abs(_STEPS * self._source(names) - public).sum())

    def _stddev(self, price: Fraction) -> float:
        """Return the standard deviation of the noise on each count of a measurement with this cost."""
        moved = self._plan.rows * (1 if self._plan.relation is ADD_REMOVE or self._plan.noise.norm == 2 else 2)
        return math.sqrt(self._plan.noise.variance(price, moved, moved**2))

    @property
    def _moved(self) -> int:
        """Sensitivity of :meth:`_distance` to one unit, in 1/16 rows."""
        return _STEPS * self._plan.rows * (1 if self._plan.relation is ADD_REMOVE else 2)

    @property
    def _known(self) -> list[NoisyMarginal]:
        """Noisy marginals measured so far, in this stage or before."""
        return [*self._plan.given, *self.transcript.marginals]

    # -- methods

    def independent(self) -> None:
        """Measure each column individually, at equal cost."""
        own = self._plan.own
        for name, price in zip(own, divide(self._plan.price, np.ones(len(own))), strict=True):
            self._measure((name,), price)

    def listed(self) -> None:
        """Measure each column and the listed sets, a set at the cost of three columns."""
        names = self._plan.candidates
        claims = [1.0 if len(each) == 1 else 3.0 for each in names]
        for each, price in zip(names, divide(self._left, claims), strict=True):
            self._measure(each, price)

    def spanning_tree(self) -> None:
        """Spend a third of the cost on single columns, a third on choosing pairs and a third on measuring them."""
        sizes, whole, outer = self._plan.sizes, self._left, self._plan.outer
        singles = [(name,) for name in self._plan.own]
        edges = len(self._plan.own) - (not outer)
        first = whole if not edges else whole / 3
        for each, price in zip(singles, divide(first, np.ones(len(singles))), strict=True):
            self._measure(each, price)
        if not edges or self._more_of_columns(whole=True):
            return
        model = fit_independent(sizes, [each for each in self._known if len(each.columns) == 1])
        scores: dict[Columns, int] = {
            pair: self._distance(pair, np.multiply.outer(model[pair[0]], model[pair[1]]) / model_total(model))
            for pair in self._plan.pairs
        }
        # The outer columns, given which rows are drawn, are connected already.
        groups = {name: outer[0] if name in outer else name for name in sizes}
        share = whole / 3 / edges
        pairs: list[Columns] = []
        cliques = [each.columns for each in self._plan.given]
        for _ in range(edges):
            # A tree alone is small; with columns of another table the model may be large.
            open_pairs = {
                pair: score
                for pair, score in scores.items()
                if groups[pair[0]] != groups[pair[1]]
                and (not cliques or model_cells(sizes, [*cliques, *pairs, pair]) <= LARGEST_MODEL)
            }
            if not open_pairs:
                break
            found = self._choose(open_pairs, self._moved, share)
            joined, kept = groups[found[0]], groups[found[1]]
            groups = {name: kept if group == joined else group for name, group in groups.items()}
            pairs.append(found)
        measured = pairs or singles
        for pair, price in zip(measured, divide(self._left, np.ones(len(measured))), strict=True):
            self._measure(pair, price)

    def adaptive(self) -> None:
        """Choose and measure in each round the marginal with the largest error, until the budget is spent (AIM)."""
        plan, whole = self._plan, self._plan.price
        if not plan.pairs:
            self.independent()
            return
        share = _SELECTION[plan.noise.power]
        for name in plan.own:
            self._measure((name,), _FIRST * whole / len(plan.own))
        rounds = math.ceil((_ROUNDS * len(plan.sizes)) ** (1 / plan.noise.power))
        measure, select = ((part * (1 - _FIRST) * whole / rounds) for part in (1 - share, share))
        self._more_of_columns()
        open_sets = {names: self._weight(names) for names in plan.candidates}
        heaviest = max(open_sets.values())
        model = self._rough()
        # Without budget beyond rounding there is no round; the last round spends all that remains.
        last = self._left <= whole * _ROUNDING
        while not last:
            last = self._left < 2 * (measure + select)
            if last:
                measure, select = (1 - share) * self._left, share * self._left
            allowed = self._small_enough(open_sets)
            noise = plan.noise.mean_size * self._stddev(measure)
            expected = model.marginals(list(allowed))
            cells = {names: plan.cells(names) for names in allowed}
            scores = {
                names: weight * (self._distance(names, expected[names]) - round(_STEPS * noise * cells[names]))
                for names, weight in allowed.items()
            }
            found = self._choose(scores, self._moved * heaviest, select)
            self._measure(found, min(measure, self._left))
            before = expected[found]
            model = self._rough(model)
            change = float(np.abs(model.marginal(found) - before).sum())
            if change <= noise * cells[found]:
                measure, select = plan.noise.halved(measure), plan.noise.halved(select)

    def _apart(self) -> float:
        """Estimate the share of rows that noise would move in a pair of columns, at the cost of a single column."""
        plan = self._plan
        each = plan.noise.mean_size * self._stddev(plan.price / len(plan.own))
        cells = 2 * sum(plan.sizes[name] for name in plan.own) / len(plan.own)
        return each * cells / 2 / max(estimated_total(self._known), 1.0)

    def _more_of_columns(self, *, whole: bool = False) -> bool:
        """Measure single columns again, where the noise of pairs would exceed their correlations.

        The share of the remaining budget that this spends is a function of released counts and public sizes.

        Args:
            whole: spend either all of the remaining budget or nothing.

        Returns:
            whether the budget is spent.
        """
        own = self._plan.own
        apart = self._apart()
        hundredths = round(100 * min(max((apart - _LITTLE) / (_MUCH - _LITTLE), 0.0), 1.0))
        if whole:
            hundredths = 100 * (hundredths >= 60)
        if hundredths:
            for name, price in zip(own, divide(self._left * Fraction(hundredths, 100), np.ones(len(own))), strict=True):
                self._measure((name,), price)
        return hundredths == 100

    def _rough(self, start: GraphicalModel | None = None) -> GraphicalModel:
        """Fit a model coarsely, for the next selection."""
        return fit_model(self._plan.sizes, self._known, iterations=_ROUND_STEPS, close=1e-3, start=start)

    def _weight(self, names: Columns) -> int:
        """Return the weight of a marginal in AIM: Σ |names ∩ s| over the sets s whose error is to be small."""
        sets = self._plan.sets or self._plan.pairs
        return sum(len(set(names) & set(each)) for each in sets)

    def _small_enough(self, open_sets: Mapping[Columns, int]) -> dict[Columns, int]:
        """Return the candidates that keep the model within its size limit, which grows with the budget spent."""
        most = self._plan.largest_model * (1 - self._left / self._plan.price)
        cliques = [each.columns for each in self._known]
        allowed = {
            names: weight
            for names, weight in open_sets.items()
            if model_cells(self._plan.sizes, [*cliques, names]) <= most
        }
        if allowed:
            return allowed
        smallest = min(open_sets, key=lambda names: (self._plan.cells(names), names))
        return {smallest: open_sets[smallest]}


def counted(plan: SynthesisPlan, names: Columns, price: Fraction) -> CountMeasurement:
    """Return the mechanism that measures a marginal at a cost."""
    strategies = tuple(IdentityStrategy(plan.sizes[name]) for name in names)
    return CountMeasurement(names, strategies, price, plan.rows, plan.relation, plan.noise)


def choose(mechanism: Exponential, raw_scores: Sequence[int]) -> int:
    """Return the index of the chosen score; record-and-replay hooks in here."""
    return int(mechanism.release(list(raw_scores)))


def fit_independent(sizes: Mapping[str, int], measured: Sequence[NoisyMarginal]) -> dict[str, NDArray[np.float64]]:
    """Return nonnegative counts of each column, all with the same total."""
    total = estimated_total(measured)
    found = {}
    for each in measured:
        kept = np.maximum(each.counts, 0.0)
        share = kept / kept.sum() if kept.sum() > 0 else np.full(kept.shape, 1 / kept.size)
        found[each.columns[0]] = total * share
    return {name: found[name] for name in sizes}


def model_total(model: Mapping[str, NDArray[np.float64]]) -> float:
    """Return the number of rows of an independent model, at least 1."""
    return max(1.0, float(next(iter(model.values())).sum()))


def fitted(plan: SynthesisPlan, transcript: Transcript) -> GraphicalModel:
    """Fit the graphical model to all measured marginals."""
    return fit_model(plan.sizes, [*plan.given, *transcript.marginals], iterations=_LAST_STEPS)


def _combinations(names: Columns, size: int) -> list[Columns]:
    return list(itertools.combinations(sorted(names), size))
