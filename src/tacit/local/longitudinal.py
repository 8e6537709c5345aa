"""Repeated collection: a permanent randomisation per value, kept by the device, and a fresh one per report.

Fresh noise on every report of one value averages out. So the first time a value is reported, its *permanent* response
is drawn and kept; every report is an *instantaneous* response of that. However many reports there are of one value,
they say no more about it than the permanent response does. ``longitudinal.proof.md`` has the argument, and how much a
change of value tells.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Hashable, MutableMapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, SupportsIndex

from tacit.core.errors import InputError
from tacit.core.numbers import Number, exact_positive, log_bounds, round_up
from tacit.local.collection import Report
from tacit.local.frequency import ResponseProtocol
from tacit.local.protocol import SYSTEM, Draws, in_words
from tacit.noise.bernoulli import Coin


class LongitudinalResponse(ResponseProtocol):
    """Two randomized responses in a row: a permanent one, drawn once per value, and an instantaneous one per report.

    Privacy:
        relation: replace-one, of the value behind one permanent response. One report: ``epsilon``. Any number of
        reports of one value: ``permanent``. Each further value that a person comes to hold has a permanent response
        of its own; :class:`LongitudinalClient` keeps the account. That a value changed is hidden by the
        instantaneous coins alone.

    Sensitivity:
        none to state: a value may change to any other.

    Error:
        that of randomized response with the chance of both coins together; see :attr:`truth`.

    Assumes:
        the device keeps what it drew: a second device, or one that was reset, is a second permanent response.

    References:
        Erlingsson, Pihur and Korolova (2014); Arcolezi et al. (2022), *Improving the utility of LDP for longitudinal
        frequency estimation*.
    """

    kind: ClassVar[str] = "longitudinal"

    def __init__(
        self,
        *,
        categories: SupportsIndex | Sequence[Hashable],
        permanent: Number,
        epsilon: Number,
        otherwise: Hashable | None = None,
    ) -> None:
        super().__init__(categories=categories, epsilon=epsilon, otherwise=otherwise)
        self.permanent = exact_positive(permanent, "permanent")
        if self.permanent <= self._epsilon:
            raise InputError("permanent", "must be larger than epsilon, which is for one report alone")
        first = ResponseProtocol(categories=self.k, epsilon=permanent)
        self._permanent = first
        # One report is randomized response with the truth of ``epsilon``: p1·p2 + (1 - p1)·q2 = truth, solved for p2.
        p1, k = first.truth, self.k
        self.instantaneous = (self.truth - (1 - p1) / (k - 1)) / (p1 - (1 - p1) / (k - 1))
        # A rational of few digits, which moves the truth of one report down a little.
        self.instantaneous = Fraction(int(self.instantaneous * 10**18), 10**18)
        q2 = (1 - self.instantaneous) / (k - 1)
        self.truth = p1 * self.instantaneous + (1 - p1) * q2
        self.noise = (1 - self.truth) / (k - 1)
        self._coin = Coin(self.instantaneous)
        #: Loss of one instantaneous response alone: a bound on what a report tells about a change of value.
        self.change = round_up(log_bounds(self.instantaneous / q2)[1])

    def memorise(self, value: object, draws: Draws) -> int:
        """Draw the permanent response of a value."""
        return self._permanent.draw(self.domain.place(value), draws)

    def instant(self, memory: int, draws: Draws) -> int:
        """A report of a permanent response."""
        if draws.toss(self._coin):
            return memory
        other = draws.below(self.k - 1)
        return other + (other >= memory)

    def draw(self, value: object, draws: Draws) -> int:
        """A report without memory: for persons who report once."""
        return self.instant(self.memorise(value, draws), draws)

    def parameters(self) -> dict[str, Any]:
        """Categories and the ε of permanent responses."""
        return super().parameters() | {"permanent": in_words(self.permanent)}


@dataclass(frozen=True)
class ClientAccount:
    """Upper bounds on everything that one device has told.

    Attributes:
        reports: number of reports made.
        values: number of values with a permanent response, over all attributes.
        epsilon: total loss about the values, if the times of changes are known: the sum over permanent responses of the
            least of ``permanent``, the ε of one report where there was one, and all instantaneous losses.
        changes: total loss about everything, the times of changes included: instantaneous losses of all reports.
    """

    reports: int
    values: int
    epsilon: Fraction
    changes: Fraction


#: A permanent response and its number of reports, under a key for protocol, attribute and value.
Memory = MutableMapping[str, tuple[int, int]]


class LongitudinalClient:
    """Client for repeated reports, whose permanent responses the caller keeps.

    ``memory`` is any mapping from text to a pair of whole numbers; it is private to the person. It must last as long
    as the person reports: an item is set before the report leaves, and setting must not return before the item is safe.
    With an empty mapping a person who has reported before pays again; ``examples/repeated_survey.py`` keeps a file.

    A new value has a new permanent response; a value that returns has its old one.
    """

    def __init__(self, protocol: LongitudinalResponse, memory: Memory) -> None:
        self.protocol = protocol
        self._memory = memory
        self._draws: Draws = SYSTEM

    def report(self, value: object, attribute: str = "") -> Report:
        """A report of ``value``; permanent responses are kept per attribute and value."""
        place = self.protocol.domain.place(value)
        key = self._prefix + hashlib.sha256(f"{attribute}\x00{place}".encode()).hexdigest()
        if key in self._memory:
            response, times = self._recall(key)
        else:
            response, times = self.protocol.memorise(value, self._draws), 0
        self._memory[key] = response, times + 1
        return Report(self.protocol.instant(response, self._draws).to_bytes(self.protocol.width, "little"))

    def account(self) -> ClientAccount:
        """The total so far, over all attributes that this memory holds for the protocol."""
        times = [self._recall(key)[1] for key in self._memory if key.startswith(self._prefix)]
        protocol = self.protocol
        spent = sum(
            (min(protocol.permanent, protocol.epsilon if t == 1 else t * protocol.change) for t in times), Fraction(0)
        )
        return ClientAccount(sum(times), len(times), spent, sum(times) * protocol.change)

    @property
    def _prefix(self) -> str:
        return f"{self.protocol.digest}:"

    def _recall(self, key: str) -> tuple[int, int]:
        try:
            response, times = map(operator.index, self._memory[key])
        except (TypeError, ValueError):
            response, times = -1, 0
        if not 0 <= response < self.protocol.k or times < 1:
            raise InputError(
                "memory", f"holds {self._memory[key]!r}, which is no response; do not empty it: the person pays again"
            )
        return response, times
