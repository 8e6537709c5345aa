"""Audits of privacy claims, Tacit's own and those of any callable.

:func:`replay`         white-box: record what mechanisms are given on one database, replay on a neighbour; exact
:func:`lower_bound`    black-box: run anything on two neighbours, and bound its privacy loss from below; with confidence
:func:`exact`          the exact loss of a mechanism with finitely many outputs, given as a table or as code
:func:`audit_canaries` one training run, with examples that went in or stayed out by coins
``pytest``             a plugin: ``assert_private`` in one's own tests
``standing``           what ``tacit audit --self`` runs

Neighbours are proposed by :func:`propose_neighbours`; :func:`replay_neighbours` and :func:`search_lower_bound` try all
that it proposes.

Modules:
* :mod:`.canaries` — One-run audit of training by canaries, each included by an independent coin
* :mod:`.checks` — Checks of an audit: what a tool found, whether that is an objection, and lists of checks
* :mod:`.exact` — Exact privacy loss of a mechanism with finitely many outputs
* :mod:`.html_report` — Audit report as one self-contained HTML page
* :mod:`.lower_bound` — Lower bound on the privacy loss of any callable, from its outputs, with stated confidence
* :mod:`.mechanism_hooks` — Hooks at the inputs and outputs of mechanisms, for recording and replay
* :mod:`.neighbours` — Neighbouring databases to try: one person removed, added or replaced by an extreme one
* :mod:`.output_features` — Outputs of a mechanism as numeric features for a test
* :mod:`.plots` — Charts of a black-box audit: privacy-loss histogram, ROC curve, bound against samples
* :mod:`.pytest` — Pytest fixture for record and replay in a user's own tests
* :mod:`.replay` — Record and replay: detect dependence on one unit's data outside mechanism inputs
* :mod:`.search` — Audits over many pairs of neighbours with both tools
* :mod:`.self_audit` — Self-audit: Tacit's claims checked by its own tools
"""

from __future__ import annotations

from tacit.audit.canaries import CanaryAudit, audit_canaries, flip_inclusion_coins, guess_by_score
from tacit.audit.exact import Chance, ExactLoss, exact
from tacit.audit.lower_bound import LowerBound, lower_bound
from tacit.audit.neighbours import Neighbours, propose_neighbours
from tacit.audit.replay import Finding, ReplayReport, Tape, record, replay, replay_tape
from tacit.audit.search import FoundBound, replay_neighbours, search_lower_bound

__all__ = [
    "CanaryAudit",
    "Chance",
    "ExactLoss",
    "Finding",
    "FoundBound",
    "LowerBound",
    "Neighbours",
    "ReplayReport",
    "Tape",
    "audit_canaries",
    "exact",
    "flip_inclusion_coins",
    "guess_by_score",
    "lower_bound",
    "propose_neighbours",
    "record",
    "replay",
    "replay_neighbours",
    "replay_tape",
    "search_lower_bound",
]
