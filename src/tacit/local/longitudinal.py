"""Repeated collection: a permanent randomisation per value, kept on the device, and a fresh one per report.

Fresh noise on every report of one value averages out. So the first time a value is reported, its *permanent* response
is drawn and kept; every report is an *instantaneous* response of that. However many reports there are of one value,
they say no more about it than the permanent response does. ``longitudinal.proof.md`` has the argument, and how much a
change of value tells.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Final, SupportsIndex

from tacit.core.errors import InputError
from tacit.core.numbers import Number, exact_positive, log_bounds, round_up
from tacit.local.client import Report
from tacit.local.draws import SYSTEM, Draws
from tacit.local.frequency import KaryResponse
from tacit.local.protocol import in_words
from tacit.noise.bernoulli import Coin

_FORMAT: Final = 1


class LongitudinalResponse(KaryResponse):
    """Two randomized responses in a row: a permanent one, drawn once per value, and an instantaneous one per report.

    Privacy:
        relation: replace-one, of the value behind one permanent response. One report: ``epsilon``. Any number of
        reports of one value: ``permanent``. Each further value that a person comes to hold has a permanent response
        of its own; :class:`LongitudinalClient` keeps the account. That a value changed is hidden by the
        instantaneous coins alone.

    Sensitivity:
        none to state: a value may change to any other.

    Error:
        that of k-ary response with the chance of both coins together; see :attr:`truth`.

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
        first = KaryResponse(categories=self.k, epsilon=permanent)
        self._permanent = first
        # One report is k-ary response with the truth of ``epsilon``: p1·p2 + (1 - p1)·q2 = truth, solved for p2.
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


class LongitudinalClient:
    """Client for repeated reports, which remembers permanent responses in a file.

    * *Restart*: the file is written before a report leaves, so a report is never made of a response that is forgotten.
    * *Changed value*: a new value has a new permanent response; a value that returns has its old one.
    * *New device*: :meth:`create` refuses to replace a file and :meth:`open` needs one, so no memory is reset
      silently. Move the file, or know that the person's total grows by that of the new device.

    The file holds permanent responses under a digest of the value; it is private to the person.
    """

    def __init__(self, protocol: LongitudinalResponse, path: Path, state: dict[str, Any]) -> None:
        self.protocol = protocol
        self._path, self._state = path, state
        self._draws: Draws = SYSTEM

    @classmethod
    def create(cls, protocol: LongitudinalResponse, path: str | os.PathLike[str]) -> LongitudinalClient:
        """A client with an empty memory in a new file.

        Raises:
            InputError: the file exists.
        """
        made = cls(protocol, Path(path), {"format": _FORMAT, "protocol": protocol.spec(), "memory": {}})
        try:
            made._path.touch(mode=0o600, exist_ok=False)
        except FileExistsError:
            raise InputError("path", "a memory exists there; open it, or the person pays twice") from None
        made._write()
        return made

    @classmethod
    def open(cls, protocol: LongitudinalResponse, path: str | os.PathLike[str]) -> LongitudinalClient:
        """A client with the memory of a file.

        Raises:
            InputError: no memory there, a damaged one, or one of another protocol.
        """
        try:
            state = json.loads(Path(path).read_text(encoding="utf-8"))
            known = state["format"], state["protocol"]
            memory = state["memory"]
            sound = all(0 <= seen[0] < protocol.k and seen[1] >= 0 for seen in memory.values())
        except FileNotFoundError:
            raise InputError("path", "there is no memory; create one if this person never reported") from None
        except (ValueError, TypeError, KeyError, AttributeError, IndexError):
            raise InputError(
                "path", "the memory is damaged; do not create another, the person would pay twice"
            ) from None
        if known != (_FORMAT, protocol.spec()) or not sound:
            raise InputError("path", "the memory is that of another protocol")
        return cls(protocol, Path(path), state)

    def report(self, value: object, attribute: str = "") -> Report:
        """A report of ``value``; permanent responses are kept per attribute and value."""
        place = self.protocol.domain.place(value)
        key = hashlib.sha256(f"{attribute}\x00{place}".encode()).hexdigest()
        seen = self._state["memory"].get(key)
        if seen is None:
            memory, times = self.protocol.memorise(value, self._draws), 0
        else:
            memory, times = seen
        self._state["memory"][key] = [memory, times + 1]
        self._write()
        return Report(self.protocol.instant(memory, self._draws).to_bytes(self.protocol.width, "little"))

    def account(self) -> ClientAccount:
        """The total so far, over all attributes of this device."""
        times = [seen[1] for seen in self._state["memory"].values()]
        protocol = self.protocol
        spent = sum(
            (min(protocol.permanent, protocol.epsilon if t == 1 else t * protocol.change) for t in times), Fraction(0)
        )
        return ClientAccount(sum(times), len(times), spent, sum(times) * protocol.change)

    def _write(self) -> None:
        part = self._path.with_name(f"{self._path.name}.part")
        with part.open("w", encoding="utf-8") as file:
            part.chmod(0o600)
            json.dump(self._state, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self._path)
