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
* :mod:`.aggregator` — Aggregator of reports: adds, merges, resumes and estimates
* :mod:`.client` — Client of a local protocol: it randomises a value before anything is sent
* :mod:`.draws` — Random decisions of a client, and the exact law of a protocol by walking through all of them
* :mod:`.frequencies` — Estimated frequencies of categories, with standard errors and simultaneous intervals
* :mod:`.frequency` — Frequency protocols: randomized and Hadamard response, unary encodings, hashing
* :mod:`.longitudinal` — Repeated collection: a permanent randomisation per value, and a fresh one per report
* :mod:`.mean` — Mean of a bounded number
* :mod:`.protocol` — Base of local protocols: public parameters, a report's bytes, and sums of reports
* :mod:`.shuffle` — Amplification by shuffling: the privacy of one report among n that arrive in random order
"""

from __future__ import annotations

from typing import Any, Final

from tacit.local.aggregator import Aggregator
from tacit.local.client import Client, Report
from tacit.local.draws import largest_ratio, output_law
from tacit.local.frequencies import Frequencies
from tacit.local.frequency import HadamardResponse, LocalHashing, ResponseProtocol, UnaryEncoding
from tacit.local.longitudinal import ClientAccount, LongitudinalClient, LongitudinalResponse, Memory
from tacit.local.mean import LocalMean, MeanOfReports
from tacit.local.protocol import LocalProtocol, protocol_from
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
