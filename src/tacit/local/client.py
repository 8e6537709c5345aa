"""Client of a local protocol: it randomises a value before anything is sent."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any, Final, NamedTuple

from tacit.core.errors import InputError
from tacit.local.draws import SYSTEM, Draws
from tacit.local.frequency import as_protocol
from tacit.local.protocol import LocalProtocol
from tacit.mechanisms.randomized_response import RandomizedResponse

#: Version of the bytes of reports. It leads a report, or any number of reports of one protocol in a row.
VERSION: Final = 1


class Report(NamedTuple):
    """One randomised report: all that leaves the device.

    Attributes:
        payload: the bytes of the protocol, as many for every value.
    """

    payload: bytes

    def to_bytes(self) -> bytes:
        """The version and the payload."""
        return bytes((VERSION,)) + self.payload

    def to_json(self) -> str:
        """The same bytes in JSON: ``{"version": 1, "report": "…"}``."""
        return json.dumps({"version": VERSION, "report": base64.b64encode(self.payload).decode()})

    @classmethod
    def from_json(cls, text: str | bytes) -> Report:
        """Read a report back.

        Raises:
            InputError: not a report, or one of another version.
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
        """A randomised report of ``value``."""
        return Report(self.protocol.randomise(value, self._draws))


def payloads(raw: bytes | bytearray | memoryview) -> memoryview:
    """The payloads of reports that one version leads."""
    view = memoryview(raw)
    if not len(view) or view[0] != VERSION:
        raise InputError("reports", f"must begin with their version, the byte {VERSION}")
    return view[1:]
