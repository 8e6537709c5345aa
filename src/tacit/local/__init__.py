"""Local collection: each person's device randomises before anything is sent, so no party need be trusted.

A *protocol* is a public description that clients and aggregator share. ``Client(protocol).report(value)`` runs on the
device; ``Aggregator(protocol)`` adds reports up and estimates.

>>> from tacit.local import Aggregator, Client, choose
>>> protocol = choose(["yes", "no"], epsilon="1").protocol
>>> aggregator = Aggregator(protocol)
>>> aggregator.add([Client(protocol).report("yes") for _ in range(100)])
100

Modules:
* :mod:`.aggregator` — Aggregator of reports: adds, merges, saves, resumes and estimates
* :mod:`.choose` — Choice of a frequency protocol by its error, the size of its reports and the aggregator's memory
* :mod:`.client` — Client of a local protocol: it randomises a value before anything is sent
* :mod:`.draws` — Random decisions of a client, and the exact law of a protocol by walking through all of them
* :mod:`.frequencies` — Estimated frequencies of categories, with standard errors and simultaneous intervals
* :mod:`.frequency` — Frequency protocols: k-ary and Hadamard response, unary encodings, hashing, subset selection
* :mod:`.mean` — Mean of a bounded number
* :mod:`.protocol` — Base of local protocols: public parameters, a report's bytes, and sums of reports
"""

from __future__ import annotations

from typing import Any, Final

from tacit.local.aggregator import Aggregator
from tacit.local.choose import ProtocolChoice, choose
from tacit.local.client import Client, Report
from tacit.local.draws import largest_ratio, output_law
from tacit.local.frequencies import Frequencies
from tacit.local.frequency import HadamardResponse, KaryResponse, LocalHashing, SubsetSelection, UnaryEncoding
from tacit.local.mean import LocalMean, MeanOfReports
from tacit.local.protocol import LocalProtocol, protocol_from

__all__ = [
    "PROTOCOLS",
    "Aggregator",
    "Client",
    "Frequencies",
    "HadamardResponse",
    "KaryResponse",
    "LocalHashing",
    "LocalMean",
    "LocalProtocol",
    "MeanOfReports",
    "ProtocolChoice",
    "Report",
    "SubsetSelection",
    "UnaryEncoding",
    "choose",
    "largest_ratio",
    "output_law",
    "protocol_from",
]

#: Protocols that :func:`protocol_from` reads.
PROTOCOLS: Final[tuple[Any, ...]] = (
    KaryResponse,
    UnaryEncoding,
    SubsetSelection,
    LocalHashing,
    HadamardResponse,
    LocalMean,
)
