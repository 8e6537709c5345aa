"""Repeated collection: a permanent randomised response per value, kept by the device, and a fresh one per report.

Fresh noise on every report of one value averages out. So the first time a value is reported, its *permanent* response
is drawn and kept; every report is an *instantaneous* randomised response of the permanent one. Any number of reports of
one value reveals no more about it than its permanent response. ``longitudinal.proof.md`` has the proof, and a bound on
the information about changes of value.
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
        reports of one value: ``permanent``. Each further value of a person has a further permanent response;
        :class:`LongitudinalClient` sums the losses. That a value changed is hidden by the instantaneous coins alone.

    Sensitivity:
        none to state: a value may change to any other.

    Error:
        that of randomized response with the truth probability of both coins together; see :attr:`truth`.

    Assumes:
        the device keeps its permanent responses: a second or a reset device draws further permanent responses.

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
        # Rounded down to 18 digits, which lowers the truth probability of one report a little.
        self.instantaneous = Fraction(int(self.instantaneous * 10**18), 10**18)
        q2 = (1 - self.instantaneous) / (k - 1)
        self.truth = p1 * self.instantaneous + (1 - p1) * q2
        self.noise = (1 - self.truth) / (k - 1)
        self._coin = Coin(self.instantaneous)
        #: ε of one instantaneous response alone: bound on a report's privacy loss about a change of value.
        self.change = round_up(log_bounds(self.instantaneous / q2)[1])

    def memorise(self, value: object, draws: Draws) -> int:
        """Draw the permanent response of a value, as the index of a category."""
        return self._permanent.draw(self.domain.place(value), draws)

    def instant(self, memory: int, draws: Draws) -> int:
        """Draw an instantaneous response of the permanent response ``memory``, as the index of a category."""
        if draws.toss(self._coin):
            return memory
        other = draws.below(self.k - 1)
        return other + (other >= memory)

    def draw(self, value: object, draws: Draws) -> int:
        """Draw a report without memory, for persons who report once."""
        return self.instant(self.memorise(value, draws), draws)

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {"permanent": in_words(self.permanent)}


@dataclass(frozen=True)
class ClientAccount:
    """Upper bounds on the total privacy loss of one device's reports.

    Attributes:
        reports: number of reports made.
        values: number of values with a permanent response, over all attributes.
        epsilon: total ε for the values, if the times of changes are known: the sum over permanent responses of the
            least of ``permanent``, the ε of one report if there was only one, and the sum of instantaneous losses.
        changes: total ε for the values and the times of changes: the sum of the instantaneous losses of all reports.
    """

    reports: int
    values: int
    epsilon: Fraction
    changes: Fraction


#: (permanent response, number of its reports), by a key for protocol, attribute and value.
Memory = MutableMapping[str, tuple[int, int]]


class LongitudinalClient:
    """Client for repeated reports, with permanent responses stored by the caller.

    ``memory`` is any mapping from text to a pair of whole numbers; it is private to the person. It must last as long as
    the person reports: an item is set before the report is returned, and setting must not return before the item is
    stored durably. If the mapping is lost, further reports are charged anew; ``examples/repeated_survey.py`` keeps a
    file.

    A new value gets a new permanent response; a value that recurs keeps its first one.
    """

    def __init__(self, protocol: LongitudinalResponse, memory: Memory) -> None:
        self.protocol = protocol
        self._memory = memory
        self._draws: Draws = SYSTEM

    def report(self, value: object, attribute: str = "") -> Report:
        """Return a report of ``value``; permanent responses are kept per attribute and value."""
        place = self.protocol.domain.place(value)
        key = self._prefix + hashlib.sha256(f"{attribute}\x00{place}".encode()).hexdigest()
        if key in self._memory:
            response, times = self._recall(key)
        else:
            response, times = self.protocol.memorise(value, self._draws), 0
        self._memory[key] = response, times + 1
        return Report(self.protocol.instant(response, self._draws).to_bytes(self.protocol.width, "little"))

    def account(self) -> ClientAccount:
        """Return the total privacy loss so far, over all attributes in this memory for the protocol."""
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
