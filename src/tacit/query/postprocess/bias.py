"""Estimates from the noisy bias table: shares of people by cause, and bounds of the bias of cells.

The table (:mod:`tacit.query.planning.bias`) has independent noise of one law in every cell, so that a number of
people in several cells has the noise of a sum, and its error is that of the sum (``bias.proof.md``).

*Significant causes* (``seen``). Cells of causes that do not apply hold noise alone, and adding them up would hide the
others. So the least significant cause is removed, with its cells, until all remaining causes exceed the noise. The
number of people of a cause is then the sum of the cells where it applies, alone or with other significant causes.

*Bias of a measurement.* People who lose between 2^b and 2^(b+1) parts of a row are counted in bucket b. The loss of all
cells together is bounded by the counts up to the last significant bucket, each times the largest loss of its bucket,
plus the error of this weighted sum; one cell can have all of the loss. In later buckets, where noise hides the counts,
the number of people is assumed to fall at least as fast as their losses grow: half as many lose twice as much. People
who exceed a limit of 32 rows lose some 32 rows each and not one, so this is assumed of losses beyond the limit itself,
unless AUTO found the limit where people become few. If a limit is not a significant cause, it is assumed to affect as
many people as noise can hide, by the same rule.

*A limit that AUTO found* (:class:`SearchedLoss`): the noisy counts of its search estimate the rows beyond it, so that
the table is not used.

*Shown intervals* include every loss if that makes them less than three times as wide, and always those that certainly
move the answer (``sure_biases``): rows of counts and sums beyond a limit that AUTO found, and significant losses in an
answer without groups.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence, Set
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Final

from tacit.core.numbers import float_nearest
from tacit.query.planning.auto_limits import (
    LARGER,
    TOTAL,
    FoundLimits,
    RowsBeyond,
    cells_of,
    loss_of,
    searched_cause,
)
from tacit.query.planning.bias import (
    CASTS,
    CLIPPING,
    GROUPS,
    JOINS,
    KEYS,
    ROWS,
    UNMEASURED,
    BiasTable,
    bias_table,
    row_value,
    unread_text,
)
from tacit.query.planning.measures import Measure, MeasureKind
from tacit.query.planning.noise import NoiseLaw, NoiseTerm, sum_error
from tacit.query.planning.work import cuts
from tacit.query.postprocess.cells import MeasureBias
from tacit.query.query import FinalAggregation

if TYPE_CHECKING:
    from tacit.query.release import NoisyRelease

#: Significance level: a number of people is significant if noise alone exceeds it with at most this probability.
_BY_CHANCE: Final = Fraction(1, 100)
#: Likewise of a bucket next to a significant one.
_NEXT: Final = Fraction(1, 20)
#: Number of bounds that hold jointly: three for significant causes, three for the others.
_BOUNDS: Final = 6
#: Number of buckets from which the number of people beyond is estimated; more buckets add noise.
_NEAR: Final = 3
#: Upper bound of a share from which a caution is shown although no cause is significant.
_LIKELY: Final = Fraction(1, 10)
#: Upper bound of a share from which the share counts as unknown.
_UNKNOWN: Final = Fraction(1, 2)
_ZERO: Final = Fraction(0)


@dataclass(frozen=True, slots=True)
class CauseShare:
    """Estimated share of people affected by one cause of bias.

    Args:
        cause: ``max_groups``, ``max_rows``, ``clipping``, ``keys``, ``casts`` or ``unit_rows``, or ``max_rows_total``.
        limit: the limit in force, for a cause that has one.
        people: estimated number of affected people, at least 0.
        share: of all people in the query, between 0 and 1.
        error: of the share, at the confidence of the answer.
        seen: whether the number is significant, i.e. exceeds the noise.
        sentence: the estimate as text.
        part: number of the part of the query, counted from 1; None if the query has a single part.
        found: whether AUTO found the limit, so that intervals include its bias.
    """

    cause: str
    limit: int | None
    people: int
    share: Fraction
    error: Fraction
    seen: bool
    sentence: str
    part: int | None = None
    found: bool = False

    @property
    def is_likely(self) -> bool:
        """Whether many people are outside the bounds of values, by the estimate itself and not by its noise alone.

        The owner declares bounds of values for what there is, while limits of rows always leave out a few.
        """
        return self.cause == CLIPPING and not self.seen and self.share >= max(_LIKELY, self.error / 2)

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True, slots=True)
class Bias:
    """Estimated bias of bounding in an answer, for each possible cause.

    Args:
        people: estimated number of people with at least one row, at least 0.
        causes: one for each possible cause.
    """

    people: int
    causes: tuple[CauseShare, ...]

    @property
    def seen(self) -> tuple[CauseShare, ...]:
        """The significant causes."""
        return tuple(cause for cause in self.causes if cause.seen)

    @property
    def caution(self) -> str:
        """A sentence on the most important cause and its remedy; empty if the bias is probably small."""
        if any(cause.seen and not cause.found for cause in self.causes):
            known = [cause for cause in self.seen if not cause.found]
            worst = max(known, key=lambda cause: (cause.cause != KEYS, cause.share))
            return f"{worst.sentence[0].upper()}{worst.sentence[1:]}: {_remedy(worst.cause)}."
        hidden = [
            c for c in self.causes if c.cause not in (KEYS, CLIPPING) and not c.found and c.share + c.error >= _LIKELY
        ]
        if not hidden:
            return next((_likely(cause) for cause in self.causes if cause.is_likely), "")
        first = hidden[0]
        most, name = first.share + first.error, _name(first.cause, first.limit)
        if most >= _UNKNOWN:
            return f"Too few people or too little budget to estimate how many exceed {name}."
        return f"Up to {_percent(most, up=True)} of people may exceed {name}: {_remedy(first.cause)}."

    def __str__(self) -> str:
        return self.caution


@dataclass(frozen=True)
class BoundingBias:
    """Noisy bias table of an answer, and the estimates that follow from it."""

    final: FinalAggregation
    table: BiasTable
    noisy: tuple[int, ...]
    law: NoiseLaw
    confidence: Fraction

    @cached_property
    def people(self) -> int:
        """Estimated number of people with at least one row, at least 0: without a loss, or of significant causes."""
        return max(sum(self.noisy[cell] for cell in self._counted()), 0)

    def _counted(self) -> list[int]:
        """Return the cells of people without a loss and of people affected only by significant causes."""
        return [cell for cell, causes, _ in self._listing if causes <= self.seen]

    @cached_property
    def seen(self) -> frozenset[str]:
        """The significant causes, by backward elimination."""
        left = set(self.possible)
        while left:
            above = {cause: self._excess(self._having(cause, left)) for cause in self.possible if cause in left}
            least = min(above, key=lambda cause: above[cause])
            if above[least] > 0:
                break
            left.remove(least)
        return frozenset(left)

    def _having(self, cause: str, among: Set[str]) -> list[int]:
        """Return the cells where a cause applies, and no cause outside ``among``."""
        return [cell for cell, causes, _ in self._listing if cause in causes and causes <= {*among, cause}]

    def _excess(self, cells: Sequence[int], level: Fraction = _BY_CHANCE) -> Fraction:
        """Return how far the number of people in some cells exceeds its noise bound, relative to that bound."""
        number, chance = self._number(cells, 2 * level)
        return (number - chance) / max(chance, Fraction(1))

    @cached_property
    def possible(self) -> tuple[str, ...]:
        """The causes that can apply; some causes of the table no longer can once AUTO has found limits.

        For example, no person is in more groups than there are. Cells of impossible causes hold noise alone.
        """
        now = bias_table(self.final)
        return tuple(cause for cause in self.table.causes if now is not None and cause in now.causes)

    @cached_property
    def _listing(self) -> tuple[tuple[int, frozenset[str], int], ...]:
        return tuple(each for each in self.table.listing() if each[1] <= set(self.possible))

    @cached_property
    def causes(self) -> tuple[CauseShare, ...]:
        """One estimate for each possible cause."""
        return tuple(self._share(cause) for cause in self.possible)

    @cached_property
    def told(self) -> Bias:
        """The estimates as a :class:`Bias`."""
        return Bias(self.people, self.causes)

    @property
    def is_seen(self) -> bool:
        """Whether a measured loss is significant."""
        return bool(self.seen - UNMEASURED)

    def _number(self, cells: Sequence[int], beta: Fraction) -> tuple[int, Fraction]:
        """Return the noisy number of people in some cells, and its error."""
        error = sum_error([NoiseTerm(self.law.kind, self.law.scale, Fraction(1), len(cells))], beta)
        return sum(self.noisy[cell] for cell in cells), error

    def _share(self, cause: str) -> CauseShare:
        number, error = self._number(self._having(cause, self.seen), 1 - self.confidence)
        people = max(self.people, 1)
        share = min(max(Fraction(number, people), _ZERO), Fraction(1))
        joins = min((most for _, most in cuts(self.final.source)), default=None) if cause == JOINS else None
        limit = {GROUPS: self.final.max_groups, ROWS: _rows(self.final)}.get(cause, joins)
        # The number of people is noisy as well.
        off = self._number(self._counted(), 1 - self.confidence)[1]
        about = min((error + share * off) / max(people - off, Fraction(1)), Fraction(1))
        seen = cause in self.seen
        words = self._sentence(cause, limit, share, about, seen=seen)
        return CauseShare(cause, limit, max(number, 0), share, about, seen, words)

    def _sentence(self, cause: str, limit: int | None, share: Fraction, error: Fraction, *, seen: bool) -> str:
        sums = all(measure.kind is MeasureKind.SUM for measure in self.final.measures)
        had = {
            GROUPS: f"were in more than max_groups = {limit} groups",
            ROWS: f"had {'a sum' if sums else 'rows'} beyond max_rows = {limit}",
            CLIPPING: "had values outside their bounds",
            KEYS: "had rows whose key is NULL or not listed",
            CASTS: "had texts that the CAST does not read, which became NULL",
            JOINS: f"had more than {limit} rows before a join that multiplies them",
        }[cause]
        if not seen and share + error >= _UNKNOWN:
            return f"how many people {had} cannot be told from the noise"
        if not seen:
            return f"fewer than {_percent(share + error, up=True)} of people {had}"
        # A significant number of people may be a share that is not.
        who = f"about {_percent(share)} ± {_percent(error, up=True)} of" if error < share else "some"
        return f"{who} people {had}; {self._effect(cause)}"

    def _effect(self, cause: str) -> str:
        if cause == KEYS:
            return "those rows are in no group"
        kinds = {measure.kind for measure in self.final.measures}
        counts = bool(kinds & set(_COUNTS)) and cause != CLIPPING
        others = [word for kind, word in _OTHERS if kind in kinds]
        parts = ["counts are too low"] if counts else []
        return " and ".join([*parts, *([f"{_listed(others)} may be off"] if others else [])])

    # -- bias

    def _buckets(self, used: Set[frozenset[str]]) -> list[list[int]]:
        """Return the cells of each bucket, for some combinations of causes."""
        return [
            [cell for cell, causes, bucket in self._listing if bucket == wanted and causes in used]
            for wanted in range(self.table.buckets)
        ]

    @cached_property
    def most_rows(self) -> Fraction:
        """Bound of the loss in all cells together, in rows; it fails with at most the probability of an interval."""
        combinations = {causes for _, causes, bucket in self._listing if bucket >= 0}
        bound = _ZERO
        if self.is_seen:
            buckets = self._buckets({causes for causes in combinations if causes <= self.seen})
            bound += self._loss(buckets, max(self._last_seen(buckets), self._scale))
        hidden = self.table_limits - self.seen
        apart = {causes for causes in combinations if len(causes - self.seen) == 1 and causes & hidden}
        if apart:
            bound += self._loss(self._buckets(apart), self._scale)
        return bound

    @cached_property
    def _scale(self) -> int:
        """Bucket beyond which half as many people are assumed to lose twice as much: that of a limit, or of one row."""
        limits, rows = self.final.limits, _rows(self.final) or 1
        known = [1]
        if ROWS in self.possible and not (limits is not None and limits.rows.is_auto):
            known.append(rows)
        if GROUPS in self.possible and not (limits is not None and limits.groups.is_auto):
            known.append(self.final.max_groups)
        return min((max(known) * self.table.parts).bit_length(), self.table.buckets) - 1

    @property
    def table_limits(self) -> frozenset[str]:
        """The limits that may truncate a person's contribution."""
        return frozenset(self.possible) & {GROUPS, ROWS}

    def _last_seen(self, buckets: Sequence[Sequence[int]], level: Fraction = _BY_CHANCE) -> int:
        """Return the last bucket that is significant, alone or with all later ones; 0 if none is."""
        beyond = [[cell for cells in buckets[first:] for cell in cells] for first in range(len(buckets))]
        excesses = (max(self._excess(own, level), self._excess(beyond[b], level)) for b, own in enumerate(buckets))
        return max((b for b, excess in enumerate(excesses) if excess > 0), default=0)

    def _within(self, buckets: Sequence[Sequence[int]], chance: Fraction) -> Fraction:
        """Bound the loss of people in some buckets; fails with half of ``chance``."""
        used = [(self.table.most(b), cells) for b, cells in enumerate(buckets)]
        total = sum((most * sum(self.noisy[cell] for cell in cells) for most, cells in used), _ZERO)
        terms = [NoiseTerm(self.law.kind, self.law.scale, most, len(cells)) for most, cells in used]
        return max(total + sum_error(terms, chance), _ZERO)

    def _loss(self, buckets: Sequence[Sequence[int]], last: int) -> Fraction:
        """Bound the loss of people in some buckets; beyond ``last`` the number of people is assumed to halve."""
        chance = min(2 * (1 - self.confidence) / _BOUNDS, Fraction(99, 100))
        bound = self._within(buckets[: last + 1], chance)
        # People beyond ``last``: at most half of those from ``last`` on.
        people = min(self._from(buckets[last:], chance) / 2, self._from(buckets[last + 1 :], chance))
        for bucket in range(last + 1, len(buckets)):
            bound += people * (self.table.most(bucket) - (self.table.most(bucket - 1) if bucket > last + 1 else 0))
            people /= 2
        return bound

    def _from(self, buckets: Sequence[Sequence[int]], beta: Fraction) -> Fraction:
        """Bound the number of people in some buckets, assumed to halve from each bucket to the next."""
        near = buckets[:_NEAR]
        if not near:
            return _ZERO
        return self._at_most([cell for cells in near for cell in cells], beta) / (1 - Fraction(1, 2 ** len(near)))

    def _at_most(self, cells: Sequence[int], beta: Fraction) -> Fraction:
        number, error = self._number(cells, beta)
        return max(number + error, _ZERO)

    @property
    def _twice(self) -> Fraction:
        """Two-sided failure probability whose upper half is that of an interval."""
        return min(2 * (1 - self.confidence), Fraction(99, 100))

    @cached_property
    def most_people(self) -> Fraction:
        """Bound of the number of people who lose a group."""
        return self._at_most(self._having(GROUPS, self.seen), self._twice)

    @cached_property
    def biases(self) -> tuple[MeasureBias, ...]:
        """Bias of each measurement: largest difference of truth and noisy number beyond the noise."""
        return tuple(self._bias(measure, self.possible) for measure in self.final.measures)

    @cached_property
    def seen_biases(self) -> tuple[MeasureBias, ...]:
        """Bias of each measurement by significant causes."""
        return tuple(self._bias(measure, self.seen) for measure in self.final.measures)

    @cached_property
    def sure_biases(self) -> tuple[MeasureBias, ...]:
        """Bias of each measurement by what has certainly moved it: significant losses in the only group there is.

        Buckets that are not significant are taken for empty. Rows beyond a limit need not move a mean.
        """
        return tuple(map(self._sure_bias, self.final.measures))

    def _sure_bias(self, measure: Measure) -> MeasureBias:
        if self.final.keys or measure.kind not in _SURE or (measure.kind in _COUNTS and _has_means(self.final)):
            return _NOTHING
        causes = self.seen & ({CLIPPING} if measure.kind is MeasureKind.CENTRED_SUM else {ROWS, CLIPPING, CASTS})
        used = {own for _, own, bucket in self._listing if bucket >= 0 and own & causes and own <= self.seen}
        if not used:
            return _NOTHING
        buckets = self._buckets(used)
        last = self._last_seen(buckets, _BY_CHANCE / len(buckets))
        while last + 1 < len(buckets) and self._excess(buckets[last + 1], _NEXT) > 0:
            last += 1
        lost = self._within(buckets[: last + 1], 1 - self.confidence)
        return _bias_of(measure, lost, self.most_people, causes, outside=CLIPPING in causes)

    def _bias(self, measure: Measure, causes: Collection[str]) -> MeasureBias:
        lost = self.most_rows if set(causes) - UNMEASURED else _ZERO
        return _bias_of(measure, lost, self.most_people, causes, outside=CLIPPING in self.seen)


def _bias_of(
    measure: Measure, lost: Fraction, people: Fraction, causes: Collection[str], *, outside: bool
) -> MeasureBias:
    """Return the bias of a measurement that lacks at most ``lost`` rows of at most ``people`` people."""
    if measure.kind is MeasureKind.UNITS:
        lost = lost if GROUPS in causes else _ZERO
        # A unit counts once in a cell, and so loses one there.
        return MeasureBias(_ZERO, min(lost, people), _ZERO, lost)
    if measure.kind in _COUNTS:
        lowering = {GROUPS, ROWS} if unread_text(measure) is None else {GROUPS, ROWS, CASTS}
        counted = lost if lowering & set(causes) else _ZERO
        return MeasureBias(_ZERO, counted, _ZERO, counted)
    amount = lost * row_value(measure)
    if measure.kind is MeasureKind.SUM and not outside:
        down, up = (amount if measure.clamp[0] < 0 else _ZERO), (amount if measure.clamp[1] > 0 else _ZERO)
        return MeasureBias(down, up, down, up)
    return MeasureBias(amount, amount, amount, amount, outside)


_NOTHING: Final = MeasureBias(_ZERO, _ZERO, _ZERO, _ZERO)


def _has_means(final: FinalAggregation) -> bool:
    """Whether an aggregate is computed from several measurements."""
    return any(len(aggregate.measures) > 1 for aggregate in final.aggregates)


_COUNTS: Final = (MeasureKind.UNITS, MeasureKind.ROWS, MeasureKind.VALUES, MeasureKind.DISTINCT)
_SURE: Final = (*_COUNTS, MeasureKind.SUM, MeasureKind.CENTRED_SUM)
_OTHERS: Final = (
    (MeasureKind.SUM, "sums"),
    (MeasureKind.DISTINCT_SUM, "sums of distinct values"),
    (MeasureKind.CENTRED_SUM, "averages"),
    (MeasureKind.CENTRED_SQUARES, "variances"),
    (MeasureKind.PLACES, "quantiles"),
    (MeasureKind.LEAVES, "least and largest values"),
    (MeasureKind.CATEGORIES, "most common values"),
)


@dataclass(frozen=True)
class SearchedLoss:
    """Loss by a limit that AUTO found, from the noisy counts of its search."""

    final: FinalAggregation
    found: FoundLimits
    law: NoiseLaw
    confidence: Fraction

    @cached_property
    def _cause(self) -> str:
        return searched_cause(self.final) or ROWS

    @property
    def _number(self) -> int:
        return self.found.total or self.found.rows or self.found.groups or 1

    @cached_property
    def beyond(self) -> RowsBeyond:
        """Estimate of the units beyond the limit and of their rows there."""
        return loss_of(self.final, self.found, self.law, self.confidence)

    @cached_property
    def people(self) -> int:
        """Estimated number of people with at least one row, at least 0."""
        cells = cells_of(self.final)
        return max(sum(self.found.counts[: len(cells.edges or cells.groups)]), 0)

    @property
    def is_seen(self) -> bool:
        """Whether the number of people beyond the limit is significant."""
        return self.beyond.people > self.beyond.error

    @cached_property
    def causes(self) -> tuple[CauseShare, ...]:
        """The estimate for the only cause: the limit."""
        people, number, name = max(self.people, 1), self._number, self._cause
        share = min(Fraction(self.beyond.people, people), Fraction(1))
        error = min(self.beyond.error / people, Fraction(1))
        sums = all(measure.kind is MeasureKind.SUM for measure in self.final.measures)
        noun = "groups" if name == GROUPS else "of the largest values" if sums and not self.final.keys else "rows"
        if not self.found.seen:
            words = f"too few people at this cost to find {name}: {number} is a default"
        elif self.is_seen:
            words = (
                f"about {_percent(share)} ± {_percent(error, up=True)} of people had more than {name} = {number} {noun}"
            )
        else:
            words = f"fewer than {_percent(share + error, up=True)} of people had more than {name} = {number} {noun}"
        return (CauseShare(name, number, self.beyond.people, share, error, self.is_seen, words, found=self.found.seen),)

    def biases(self, lost: Fraction) -> tuple[MeasureBias, ...]:
        """Return the bias of each measurement if ``lost`` rows are lost in all."""
        causes = (GROUPS,) if self._cause == GROUPS else (ROWS,)
        # The number of people who lose a group is bounded by the loss itself.
        found = [_bias_of(measure, lost, lost, causes, outside=False) for measure in self.final.measures]
        if not self.final.keys:
            return tuple(found)
        share = LARGER * lost / max(self.beyond.kept, Fraction(1))
        return tuple(replace(bias, up=_ZERO, relative=share) if bias.up and not bias.down else bias for bias in found)

    @cached_property
    def sure_biases(self) -> tuple[MeasureBias, ...]:
        """Bias of counts and sums, which the loss certainly lowers; it need not move a mean."""
        if _has_means(self.final):
            return (_NOTHING,) * len(self.final.measures)
        return self.biases(self.beyond.most)


@dataclass(frozen=True)
class PartLosses:
    """Losses of one part of a query: by its bias table, and by the limit that AUTO found."""

    table: BoundingBias | None
    searched: SearchedLoss | None

    @cached_property
    def told(self) -> Bias:
        """The estimates as a :class:`Bias`."""
        known = [each for each in (self.table, self.searched) if each is not None]
        return Bias(
            max((each.people for each in known), default=0), tuple(cause for each in known for cause in each.causes)
        )

    @property
    def causes(self) -> tuple[CauseShare, ...]:
        """One estimate for each possible cause."""
        return self.told.causes

    @property
    def people(self) -> int:
        """Estimated number of people with at least one row."""
        return self.told.people

    @property
    def is_seen(self) -> bool:
        """Whether a measured loss is significant."""
        return any(each is not None and each.is_seen for each in (self.table, self.searched))

    @cached_property
    def biases(self) -> tuple[MeasureBias, ...]:
        """Bias of each measurement: largest difference of truth and noisy number beyond the noise."""
        found = [] if self.table is None else [self.table.biases]
        found += [] if self.searched is None else [self.searched.biases(self.searched.beyond.most)]
        return _added(found)

    @cached_property
    def seen_biases(self) -> tuple[MeasureBias, ...]:
        """Bias of each measurement by significant causes."""
        found = [] if self.table is None else [self.table.seen_biases]
        found += [] if self.searched is None else [self.searched.biases(self.searched.beyond.rows)]
        return _added(found)

    @cached_property
    def sure_biases(self) -> tuple[MeasureBias, ...]:
        """Bias of each measurement by losses that certainly move it, which every shown interval includes."""
        return _added([each.sure_biases for each in (self.table, self.searched) if each is not None])


def _added(found: Sequence[tuple[MeasureBias, ...]]) -> tuple[MeasureBias, ...]:
    """Add up the biases of each measurement."""
    return tuple(
        MeasureBias(
            sum((each.down for each in own), _ZERO),
            sum((each.up for each in own), _ZERO),
            sum((each.all_down for each in own), _ZERO),
            sum((each.all_up for each in own), _ZERO),
            any(each.outside for each in own),
            sum((each.relative for each in own), _ZERO),
        )
        for own in zip(*found, strict=True)
    )


@dataclass(frozen=True)
class QueryBias:
    """Losses by bounding of each part of a query.

    Args:
        parts: one for each part; None if nothing can be left out or no share of the cost was spent on it.
        measures: number of measurements of each part.
    """

    parts: tuple[PartLosses | None, ...]
    measures: tuple[int, ...]

    @cached_property
    def told(self) -> Bias:
        """The estimates as a :class:`Bias`; sentences name the part if there are several."""
        if len(self.parts) == 1 and self.parts[0] is not None:
            return self.parts[0].told
        found = [(number, loss) for number, loss in enumerate(self.parts, 1) if loss is not None]
        causes = [
            replace(cause, sentence=f"in part {number}, {cause.sentence}", part=number)
            for number, loss in found
            for cause in loss.causes
        ]
        return Bias(max((loss.people for _, loss in found), default=0), tuple(causes))

    @property
    def is_seen(self) -> bool:
        """Whether a measured loss in some part is significant."""
        return any(loss is not None and loss.is_seen for loss in self.parts)

    @cached_property
    def biases(self) -> tuple[MeasureBias, ...]:
        """Bias of each measurement of all parts, in order."""
        return self._of_all(lambda loss: loss.biases)

    @cached_property
    def seen_biases(self) -> tuple[MeasureBias, ...]:
        """Bias by significant causes of each measurement of all parts, in order."""
        return self._of_all(lambda loss: loss.seen_biases)

    @cached_property
    def sure_biases(self) -> tuple[MeasureBias, ...]:
        """Bias of each measurement of all parts, in order, by losses that certainly move it."""
        return self._of_all(lambda loss: loss.sure_biases)

    def _of_all(self, biases: Callable[[PartLosses], tuple[MeasureBias, ...]]) -> tuple[MeasureBias, ...]:
        return tuple(
            bias
            for loss, count in zip(self.parts, self.measures, strict=True)
            for bias in ((_NOTHING,) * count if loss is None else biases(loss))
        )


def bounding_biases(released: NoisyRelease, confidence: Fraction) -> QueryBias:
    """Return the losses by bounding of each part of a release."""
    return QueryBias(
        tuple(_part_losses(part, confidence) for part in released.parts),
        tuple(len(part.plan.final.measures) for part in released.parts),
    )


def _part_losses(released: NoisyRelease, confidence: Fraction) -> PartLosses | None:
    plan, searched, table = released.plan, None, None
    final, limits, bought = plan.final, plan.limits, plan.priced.bias
    if limits is not None and limits.counts and plan.priced.limits and searched_cause(final):
        searched = SearchedLoss(final, limits, plan.priced.limits.releases[0].law(0), confidence)
    if bought is not None and released.noisy_bias is not None:
        own = BoundingBias(final, bought.table, released.noisy_bias, bought.priced.releases[0].law(0), confidence)
        # With the limits that AUTO has found, none of the causes that were priced may apply.
        table = own if final is bought.final or own.possible else None
    return None if table is None and searched is None else PartLosses(table, searched)


def _rows(final: FinalAggregation) -> int:
    return min((m.rows for m in final.measures if m.kind is not MeasureKind.UNITS), default=1)


def _likely(cause: CauseShare) -> str:
    about = f"About {_percent(cause.share)} ± {_percent(cause.error, up=True)} of people"
    return f"{about} may exceed {_name(cause.cause, cause.limit)}: {_remedy(cause.cause)}."


def _name(cause: str, limit: int | None) -> str:
    named = {
        CLIPPING: "the bounds of values",
        KEYS: "the list of keys",
        CASTS: "CAST of texts it does not read",
        JOINS: "unit_rows before a join",
    }
    return named.get(cause) or f"{cause} = {limit}"


def _remedy(cause: str) -> str:
    """Return advice on how to avoid the loss of a cause."""
    return {
        GROUPS: "raise max_groups",
        ROWS: "raise max_rows",
        TOTAL: "state max_rows_total",
        CLIPPING: "write CLAMP(x, lo, hi) with wider bounds",
        KEYS: "the owner can declare them as categories",
        CASTS: "write REPLACE for decimal commas, or STRPTIME(x, format) for days",
        JOINS: "filter before the join, or have the owner raise unit_rows",
    }[cause]


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _percent(share: Fraction, *, up: bool = False) -> str:
    """Format a share with two significant digits; ``up`` rounds up."""
    number = 100 * float_nearest(share)
    digits = 0 if number >= 9.5 else 1 if number >= 0.95 else 2
    if up and number:
        number = min(number + 0.49 * 10**-digits, 100.0)
    return f"{number:.{digits}f}%"
