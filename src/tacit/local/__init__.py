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
* :mod:`.attributes` — Several attributes of one person in one report: split the ε over all of them, or sample one
* :mod:`.choose` — Choice of a frequency protocol by its error, the size of its reports and the aggregator's memory
* :mod:`.client` — Client of a local protocol: it randomises a value before anything is sent
* :mod:`.draws` — Random decisions of a client, and the exact law of a protocol by walking through all of them
* :mod:`.frequencies` — Estimated frequencies of categories, with standard errors and simultaneous intervals
* :mod:`.frequency` — Frequency protocols: k-ary and Hadamard response, unary encodings, hashing, subset selection
* :mod:`.heavy_hitters` — Heavy hitters: the most common texts of an open domain, found prefix by prefix
* :mod:`.longitudinal` — Repeated collection: a permanent randomisation per value, and a fresh one per report
* :mod:`.mean` — Mean of a bounded number
* :mod:`.protocol` — Base of local protocols: public parameters, a report's bytes, and sums of reports
* :mod:`.shuffle` — Amplification by shuffling: the privacy of one report among n that arrive in random order
* :mod:`.vectors` — Sums of sparse vectors and quantiles of a bounded number, by signed Hadamard responses
"""

from __future__ import annotations

from typing import Any, Final

from tacit.local.aggregator import Aggregator
from tacit.local.attributes import Attributes
from tacit.local.choose import ProtocolChoice, choose
from tacit.local.client import Client, Report
from tacit.local.draws import largest_ratio, output_law
from tacit.local.frequencies import EstimateRow, Frequencies
from tacit.local.frequency import HadamardResponse, KaryResponse, LocalHashing, SubsetSelection, UnaryEncoding
from tacit.local.heavy_hitters import CommonTexts, HeavyHitters
from tacit.local.longitudinal import ClientAccount, LongitudinalClient, LongitudinalResponse
from tacit.local.mean import LocalMean, MeanOfReports
from tacit.local.protocol import LocalProtocol, protocol_from
from tacit.local.shuffle import amplified, shuffled_delta
from tacit.local.vectors import CumulativeShares, LocalQuantiles, SparseMeans, SparseVectorSum

__all__ = [
    "PROTOCOLS",
    "Aggregator",
    "Attributes",
    "Client",
    "ClientAccount",
    "CommonTexts",
    "CumulativeShares",
    "EstimateRow",
    "Frequencies",
    "HadamardResponse",
    "HeavyHitters",
    "KaryResponse",
    "LocalHashing",
    "LocalMean",
    "LocalProtocol",
    "LocalQuantiles",
    "LongitudinalClient",
    "LongitudinalResponse",
    "MeanOfReports",
    "ProtocolChoice",
    "Report",
    "SparseMeans",
    "SparseVectorSum",
    "SubsetSelection",
    "UnaryEncoding",
    "amplified",
    "choose",
    "largest_ratio",
    "output_law",
    "protocol_from",
    "shuffled_delta",
]

#: Protocols that :func:`protocol_from` reads.
PROTOCOLS: Final[tuple[Any, ...]] = (
    KaryResponse,
    UnaryEncoding,
    SubsetSelection,
    LocalHashing,
    HadamardResponse,
    LocalMean,
    SparseVectorSum,
    LocalQuantiles,
    HeavyHitters,
    LongitudinalResponse,
    Attributes,
)
