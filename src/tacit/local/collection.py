"""Client and aggregator of a local protocol: the client randomises a value, the aggregator sums and estimates."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.numbers import Number, check_count, exact_probability
from tacit.local.frequency import as_protocol
from tacit.local.protocol import SYSTEM, Counts, Draws, IntegerProtocol, LocalProtocol, Rows, protocol_from
from tacit.mechanisms.randomized_response import RandomizedResponse

#: Version byte, which precedes one report or a sequence of reports of one protocol.
VERSION: Final = 1


class Report(NamedTuple):
    """One randomised report: the only data that leaves the device.

    Attributes:
        payload: bytes of the report; their number is the same for every value.
    """

    payload: bytes

    def to_bytes(self) -> bytes:
        """Return the version byte and the payload."""
        return bytes((VERSION,)) + self.payload

    def to_json(self) -> str:
        """Return the report as JSON, ``{"version": 1, "report": "…"}``, with the payload in base64."""
        return json.dumps({"version": VERSION, "report": base64.b64encode(self.payload).decode()})

    @classmethod
    def from_json(cls, text: str | bytes) -> Report:
        """Parse a report from :meth:`to_json`.

        Raises:
            InputError: the text is no report, or its version is unknown.
        """
        try:
            words: Any = json.loads(text)
            if words["version"] != VERSION:
                raise InputError("report", f"has another version than {VERSION}")
            return cls(base64.b64decode(words["report"], validate=True))
        except (ValueError, TypeError, KeyError, binascii.Error):
            raise InputError("report", 'must be JSON such as {"version": 1, "report": "AA=="}') from None


class Client:
    r"""Randomises values by a protocol; holds no state and no secret.

    Every report costs its person the ε of the protocol once more; :mod:`.longitudinal` bounds the total of repeated
    reports. A value outside the domain is mapped by the protocol's rule, so that no failure tells anything about it.

    >>> from tacit import RandomizedResponse
    >>> from tacit.local import Client
    >>> client = Client(RandomizedResponse(categories=["yes", "no"], epsilon="1"))
    >>> len(client.report("yes").to_bytes())
    2
    """

    __slots__ = ("_draws", "protocol")

    def __init__(self, protocol: LocalProtocol | RandomizedResponse) -> None:
        self.protocol = as_protocol(protocol)
        self._draws: Draws = SYSTEM

    def report(self, value: object) -> Report:
        """Return a randomised report of ``value``."""
        return Report(self.protocol.randomise(value, self._draws))


def payloads(raw: bytes | bytearray | memoryview) -> memoryview:
    """Return the payloads of reports after their version byte; refuse any other version."""
    view = memoryview(raw)
    if not len(view) or view[0] != VERSION:
        raise InputError("reports", f"must begin with their version, the byte {VERSION}")
    return view[1:]


_MAGIC: Final = b"tacit-counts 1\n"
#: Number of bytes of reports added at a time, so that intermediate arrays stay small.
_CHUNK: Final = 1 << 20


class Aggregator:
    """Sums of the reports of one protocol.

    Sums are integers, so they do not depend on the order of reports or on their distribution over machines.

    Attributes:
        protocol: protocol of the clients.
        n: number of reports.
    """

    def __init__(self, protocol: LocalProtocol | RandomizedResponse) -> None:
        self.protocol = as_protocol(protocol)
        self.n = 0
        self._counts: Counts = np.zeros(self.protocol.size, dtype=np.int64)

    @property
    def counts(self) -> Counts:
        """Copy of the sums."""
        return self._counts.copy()

    def add(self, reports: Report | Iterable[Report] | bytes | bytearray | memoryview | NDArray[Any]) -> int:
        """Add reports; return their number.

        Args:
            reports: one or several :class:`.Report`; or bytes, a version followed by any number of payloads; or an
                array of integers, for protocols whose reports are integers; or an array of bytes, one row per report.

        Raises:
            InputError: some report cannot come from a client; no report was added.
        """
        if isinstance(reports, Report):
            reports = (reports,)
        if isinstance(reports, np.ndarray):
            return self._add_array(reports)
        if not isinstance(reports, bytes | bytearray | memoryview):
            listed = [each.payload for each in reports]
            if any(len(each) != self.protocol.width for each in listed):
                raise InputError("reports", f"must be {self.protocol.width} bytes each")
            return self._add_bytes(memoryview(b"".join(listed)))
        return self._add_bytes(payloads(reports))

    def merge(self, other: Aggregator) -> None:
        """Add the sums of another aggregator of the same protocol."""
        if other.protocol != self.protocol:
            raise InputError("other", "is an aggregator of another protocol; sums of two protocols do not add up")
        self._counts += other._counts
        self.n += other.n

    def estimate(self, *, confidence: Number = "0.95", consistent: bool = False) -> Any:
        """Return the estimate from all reports so far, at no privacy cost.

        Args:
            confidence: simultaneous coverage of all intervals.
            consistent: whether to return the estimate's :meth:`consistent` form: frequencies that are not negative and
                add up to 1, or a mean within its interval.

        Raises:
            InputError: there are no reports yet, or the confidence is below one half.
        """
        level = exact_probability(confidence, "confidence")
        if 2 * level < 1:
            raise InputError("confidence", "must be at least 0.5: coverage is proven from there on")
        if not self.n:
            raise InputError("reports", "there are none yet; add at least one")
        found = self.protocol.estimate(self._counts, self.n, confidence=float(level))
        return found.consistent() if consistent else found

    def to_bytes(self) -> bytes:
        """Return the saved aggregator: protocol, number of reports and sums; :meth:`from_bytes` restores it."""
        head = json.dumps({"protocol": self.protocol.spec(), "n": self.n}, ensure_ascii=True).encode()
        return _MAGIC + head + b"\n" + self._counts.astype("<i8").tobytes()

    @classmethod
    def from_bytes(cls, raw: bytes) -> Aggregator:
        """Restore an aggregator from :meth:`to_bytes`.

        Raises:
            InputError: the bytes are no saved aggregator, or are truncated.
        """
        magic, _, rest = raw.partition(b"\n")
        head, _, body = rest.partition(b"\n")
        try:
            if magic + b"\n" != _MAGIC:
                raise ValueError
            words = json.loads(head)
            made = cls(protocol_from(words["protocol"]))
            made.n = check_count(words["n"], "n", minimum=0)
            counts = np.frombuffer(body, dtype="<i8").astype(np.int64)
        except (ValueError, KeyError, TypeError):
            raise InputError("aggregator", "is not a saved one, or was cut off") from None
        if len(counts) != made.protocol.size:
            raise InputError("aggregator", "is not a saved one, or was cut off")
        if not made.protocol.may_be_counts(counts, made.n):
            raise InputError("aggregator", f"does not hold the sums of {made.n:,} reports")
        made._counts = counts
        return made

    def __repr__(self) -> str:
        return f"Aggregator({self.protocol!r}, n={self.n:,})"

    def _add_array(self, reports: NDArray[Any]) -> int:
        if reports.ndim == 2 and reports.dtype == np.uint8 and reports.shape[1] == self.protocol.width:
            return self._add_rows(reports)
        if reports.ndim != 1 or reports.dtype.kind not in "iu" or not isinstance(self.protocol, IntegerProtocol):
            raise InputError("reports", "must be whole numbers, or rows of bytes as wide as a report")
        self.protocol.tally(self._counts, reports)
        self.n += len(reports)
        return len(reports)

    def _add_bytes(self, raw: memoryview) -> int:
        width = self.protocol.width
        number, rest = divmod(len(raw), width)
        if rest:
            raise InputError("reports", f"must be {width} bytes each; {rest} are left over")
        return self._add_rows(np.frombuffer(raw, dtype=np.uint8).reshape(number, width)) if number else 0

    def _add_rows(self, rows: Rows) -> int:
        step = max(_CHUNK // self.protocol.width, 1)
        if len(rows) <= step:
            self.protocol.accumulate(self._counts, rows)
        else:
            # Sum into a copy, so that no report is added if a later chunk is refused.
            counts = np.zeros_like(self._counts)
            for start in range(0, len(rows), step):
                self.protocol.accumulate(counts, rows[start : start + step])
            self._counts += counts
        self.n += len(rows)
        return len(rows)
