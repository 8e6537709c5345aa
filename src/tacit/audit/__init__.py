"""Audits of privacy claims, Tacit's own and those of any callable.

:func:`replay`         white-box: record what mechanisms are given on one database, replay on a neighbour; exact
:func:`lower_bound`    black-box: run anything on two neighbours, and bound its privacy loss from below; with confidence
:func:`exact`          the exact loss of a mechanism with finitely many outputs, given as a table or as code
:func:`audit_canaries` one training run, with examples that went in or stayed out by coins
``pytest``             a plugin: ``assert_private`` in one's own tests
``standing``           what ``tacit audit --self`` runs

Neighbours are proposed by :func:`propose_neighbours`; :func:`replay_neighbours` tries all that it proposes.

Modules:
* :mod:`.attacks` — Attacks: they succeed on an unprotected twin and are reduced to guessing on a curator
* :mod:`.canaries` — One-run audit of training by canaries, each included by an independent coin
* :mod:`.charts` — Charts of audits and attacks in one style: red for unprotected or claimed, blue for measured, grey
  for guessing
* :mod:`.exact` — Exact privacy loss of a mechanism with finitely many outputs
* :mod:`.lower_bound` — Lower bound on the privacy loss of any callable, from its outputs, with stated confidence
* :mod:`.project_audit` — Audit of a project: queries recorded on made-up people and replayed on their neighbours
* :mod:`.pytest` — Pytest fixture for record and replay in a user's own tests
* :mod:`.replay` — Record and replay: dependence on one unit's data outside the inputs of mechanisms
* :mod:`.report` — Checks of an audit, and the report of their outcomes for programs and as one self-contained HTML page
* :mod:`.search` — Neighbouring databases to try, and replays of many pairs of them
* :mod:`.self_audit` — Self-audit: Tacit's mechanisms and fits checked by its own tools
"""

from __future__ import annotations

from tacit.audit.canaries import CanaryAudit, audit_canaries, flip_inclusion_coins, guess_by_score
from tacit.audit.exact import Chance, ExactLoss, exact
from tacit.audit.lower_bound import LowerBound, lower_bound
from tacit.audit.replay import Finding, ReplayReport, Tape, record, replay, replay_tape
from tacit.audit.search import Neighbours, propose_neighbours, replay_neighbours

__all__ = [
    "CanaryAudit",
    "Chance",
    "ExactLoss",
    "Finding",
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
]
