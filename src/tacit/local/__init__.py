"""Local collection: each person's device randomises before anything is sent, so no party need be trusted.

A *protocol* is a public description that clients and aggregator share. ``Client(protocol).report(value)`` runs on the
device; ``Aggregator(protocol)`` adds reports up and estimates.

>>> from tacit import RandomizedResponse
>>> from tacit.local import Aggregator, Client
>>> protocol = RandomizedResponse(categories=["yes", "no"], epsilon="1")
>>> aggregator = Aggregator(protocol)
>>> aggregator.add([Client(protocol).report("yes") for _ in range(100)])
100

Modules:
* :mod:`.collection` — Client and aggregator of a local protocol: one randomises before anything is sent, one adds up
  and estimates
* :mod:`.frequency` — Frequency protocols: randomized and Hadamard response, unary encodings, hashing
* :mod:`.longitudinal` — Repeated collection: a permanent randomisation per value, and a fresh one per report
* :mod:`.mean` — Mean of a bounded number
* :mod:`.protocol` — Base of local protocols: public parameters, a client's random decisions, a report's bytes, sums of
  reports
* :mod:`.shuffle` — Amplification by shuffling: the privacy of one report among n that arrive in random order
"""

from __future__ import annotations

from typing import Any, Final

from tacit.local.collection import Aggregator, Client, Report
from tacit.local.frequency import Frequencies, HadamardResponse, LocalHashing, ResponseProtocol, UnaryEncoding
from tacit.local.longitudinal import ClientAccount, LongitudinalClient, LongitudinalResponse, Memory
from tacit.local.mean import LocalMean, MeanOfReports
from tacit.local.protocol import LocalProtocol, largest_ratio, output_law, protocol_from
from tacit.local.shuffle import amplified, shuffled_delta

__all__ = [
    "PROTOCOLS",
    "Aggregator",
    "Client",
    "ClientAccount",
    "Frequencies",
    "HadamardResponse",
    "LocalHashing",
    "LocalMean",
    "LocalProtocol",
    "LongitudinalClient",
    "LongitudinalResponse",
    "MeanOfReports",
    "Memory",
    "Report",
    "ResponseProtocol",
    "UnaryEncoding",
    "amplified",
    "largest_ratio",
    "output_law",
    "protocol_from",
    "shuffled_delta",
]

#: Protocols that :func:`protocol_from` reads.
PROTOCOLS: Final[tuple[Any, ...]] = (
    ResponseProtocol,
    UnaryEncoding,
    LocalHashing,
    HadamardResponse,
    LocalMean,
    LongitudinalResponse,
)
