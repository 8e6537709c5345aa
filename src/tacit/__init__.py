"""Tacit: a differentially private curator.

A map for the reader, from the bottom up. Imports go only downwards.

``tacit.core``        errors, databases and neighbours, guarantees, events, exact numbers, divergences
``tacit.noise``       exact samplers; ``entropy`` is the only source of randomness
``tacit.mechanisms``  Laplace, Gaussian, randomized response, selection, sparse vector, histograms, means, planning
``tacit.accounting``  composition, privacy-loss distributions, calibration, filters
``tacit.lab``         small worlds in which theorems are checked exactly; the composition experiment
``tacit.query``       SQL text and public metadata in, a plan out; touches no data
``tacit.learn``       private models as scikit-learn estimators: output, objective and gradient perturbation
``tacit.local``       collection without a trusted party: protocols, clients, aggregators, shuffle amplification
``tacit.engines``     exact, bounded, integer pre-aggregation where the data lives: DuckDB, PostgreSQL, Spark
``tacit.ledger``      durable accounts: the only part that can authorise a charge
``tacit.project``     the project file, its sources and their fingerprints
``tacit.synth``       workloads of counting queries, answered with the least noise, and synthetic tables
``tacit.releases``    everything that is paid for and kept: payment, receipts and keys, one module per kind
``tacit.curator``     the object users hold, and how it is opened
``tacit.client``      the API's requests and responses, and the methods of a curator over HTTP
``tacit.audit``       claims checked: replay, lower bounds, canaries, projects, servers; attacks on unprotected data
``tacit.course``      exercises of the course, and the checks of their answers
``tacit.server``      HTTP API, console, identity, worker processes
``tacit.cli``         the command line

The names below are the public ones; they load when first used, so ``import tacit`` costs next to nothing.

>>> import tacit
>>> tacit.Laplace(epsilon="0.5", l1_sensitivity=1).guarantee
PureDP(0.5)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

#: Where each public name lives; a value without a colon is a module.
_HOMES = {
    # guarantees and relations
    "PureDP": "tacit.core.guarantees:PureDP",
    "ApproxDP": "tacit.core.guarantees:ApproxDP",
    "ZCDP": "tacit.core.guarantees:ZCDP",
    "GDP": "tacit.core.guarantees:GDP",
    "RDP": "tacit.core.guarantees:RDP",
    "Relation": "tacit.core.relations:Relation",
    "ADD_REMOVE": "tacit.core.relations:ADD_REMOVE",
    "REPLACE_ONE": "tacit.core.relations:REPLACE_ONE",
    "is_neighbour": "tacit.core.databases:is_neighbour",
    "l1_distance": "tacit.core.databases:l1_distance",
    "l1_norm": "tacit.core.databases:l1_norm",
    # mechanisms
    "Laplace": "tacit.mechanisms.laplace:Laplace",
    "Gaussian": "tacit.mechanisms.gaussian:Gaussian",
    "RandomizedResponse": "tacit.mechanisms.randomized_response:RandomizedResponse",
    "Exponential": "tacit.mechanisms.exponential:Exponential",
    "PermuteAndFlip": "tacit.mechanisms.permute_and_flip:PermuteAndFlip",
    "NoisyMax": "tacit.mechanisms.noisy_max:NoisyMax",
    "TopK": "tacit.mechanisms.top_k:TopK",
    "PartitionSelection": "tacit.mechanisms.partition_selection:PartitionSelection",
    "SparseVector": "tacit.mechanisms.sparse_vector:SparseVector",
    "Histogram": "tacit.mechanisms.counts:Histogram",
    "CountingQueries": "tacit.mechanisms.counts:CountingQueries",
    "Mean": "tacit.mechanisms.mean:Mean",
    # accounting
    "compose": "tacit.accounting.compose:compose",
    "calibrate": "tacit.accounting.calibrate:calibrate",
    "calibrate_gaussian": "tacit.accounting.calibrate:calibrate_gaussian",
    "calibrate_laplace": "tacit.accounting.calibrate:calibrate_laplace",
    # the curator
    "open": "tacit.curator.opening:open",
    "connect": "tacit.client.remote_curator:connect",
    "Curator": "tacit.curator.curator:Curator",
    "Answer": "tacit.releases.answer:Answer",
    "SyntheticStar": "tacit.releases.synthetic_table:SyntheticStar",
    "SyntheticTable": "tacit.releases.synthetic_table:SyntheticTable",
    "Workload": "tacit.synth.workload:Workload",
    "Receipt": "tacit.releases.receipt:Receipt",
    "verify_receipt": "tacit.releases.receipt:verify_receipt",
    # rooms
    "laws": "tacit.lab.distributions",
    "lab": "tacit.lab",
    "attacks": "tacit.audit.attacks",
    "audit": "tacit.audit",
    "learn": "tacit.learn",
    "local": "tacit.local",
    # errors
    "TacitError": "tacit.core.errors:TacitError",
    "InputError": "tacit.core.errors:InputError",
    "QueryError": "tacit.core.errors:QueryError",
    "BudgetError": "tacit.core.errors:BudgetError",
    "AccessError": "tacit.core.errors:AccessError",
    "AccountingError": "tacit.core.errors:AccountingError",
    "EngineError": "tacit.core.errors:EngineError",
    "InternalError": "tacit.core.errors:InternalError",
}

if TYPE_CHECKING:
    from tacit import audit as audit
    from tacit import lab as lab
    from tacit import learn as learn
    from tacit import local as local
    from tacit.accounting.calibrate import calibrate as calibrate
    from tacit.accounting.calibrate import calibrate_gaussian as calibrate_gaussian
    from tacit.accounting.calibrate import calibrate_laplace as calibrate_laplace
    from tacit.accounting.compose import compose as compose
    from tacit.audit import attacks as attacks
    from tacit.client.remote_curator import connect as connect
    from tacit.core.databases import is_neighbour as is_neighbour
    from tacit.core.databases import l1_distance as l1_distance
    from tacit.core.databases import l1_norm as l1_norm
    from tacit.core.errors import AccessError as AccessError
    from tacit.core.errors import AccountingError as AccountingError
    from tacit.core.errors import BudgetError as BudgetError
    from tacit.core.errors import EngineError as EngineError
    from tacit.core.errors import InputError as InputError
    from tacit.core.errors import InternalError as InternalError
    from tacit.core.errors import QueryError as QueryError
    from tacit.core.errors import TacitError as TacitError
    from tacit.core.guarantees import GDP as GDP
    from tacit.core.guarantees import RDP as RDP
    from tacit.core.guarantees import ZCDP as ZCDP
    from tacit.core.guarantees import ApproxDP as ApproxDP
    from tacit.core.guarantees import PureDP as PureDP
    from tacit.core.relations import ADD_REMOVE as ADD_REMOVE
    from tacit.core.relations import REPLACE_ONE as REPLACE_ONE
    from tacit.core.relations import Relation as Relation
    from tacit.curator.curator import Curator as Curator
    from tacit.curator.opening import open as open  # noqa: A004
    from tacit.lab import distributions as laws  # noqa: F401 - a public name
    from tacit.mechanisms.counts import CountingQueries as CountingQueries
    from tacit.mechanisms.counts import Histogram as Histogram
    from tacit.mechanisms.exponential import Exponential as Exponential
    from tacit.mechanisms.gaussian import Gaussian as Gaussian
    from tacit.mechanisms.laplace import Laplace as Laplace
    from tacit.mechanisms.mean import Mean as Mean
    from tacit.mechanisms.noisy_max import NoisyMax as NoisyMax
    from tacit.mechanisms.partition_selection import PartitionSelection as PartitionSelection
    from tacit.mechanisms.permute_and_flip import PermuteAndFlip as PermuteAndFlip
    from tacit.mechanisms.randomized_response import RandomizedResponse as RandomizedResponse
    from tacit.mechanisms.sparse_vector import SparseVector as SparseVector
    from tacit.mechanisms.top_k import TopK as TopK
    from tacit.releases.answer import Answer as Answer
    from tacit.releases.receipt import Receipt as Receipt
    from tacit.releases.receipt import verify_receipt as verify_receipt
    from tacit.releases.synthetic_table import SyntheticStar as SyntheticStar
    from tacit.releases.synthetic_table import SyntheticTable as SyntheticTable
    from tacit.synth.workload import Workload as Workload

__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'tacit' has no attribute {name!r}")
    module, _, attribute = home.partition(":")
    value = getattr(import_module(module), attribute) if attribute else import_module(module)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
