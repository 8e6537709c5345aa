"""Check the claims, of Tacit and of anything else that can be run.

:func:`replay`         white-box: record what mechanisms are given on one database, replay on a neighbour; exact
:func:`lower_bound`    black-box: run anything on two neighbours, and bound its privacy loss from below; with confidence
:func:`exact`          the exact loss of a mechanism with finitely many outputs, given as a table or as code
:func:`audit_canaries` one training run, with examples that went in or stayed out by coins
``museum``             real bugs, rebuilt small, each caught by the tool that should catch it
``pytest``             a plugin: ``assert_private`` in one's own tests
``standing``           what ``tacit audit --self`` runs

Neighbours are proposed by :func:`propose_neighbours`; :func:`replay_neighbours` and :func:`search_lower_bound` try all
that it proposes.
"""

from __future__ import annotations

from tacit.audit.canaries import CanaryAudit, audit_canaries, flip_inclusion_coins, guess_by_score
from tacit.audit.exact import Chance, ExactLoss, exact
from tacit.audit.lower_bound import LowerBound, lower_bound
from tacit.audit.neighbours import Neighbours, propose_neighbours
from tacit.audit.replay import Finding, Report, Tape, record, replay, replay_tape
from tacit.audit.search import FoundBound, replay_neighbours, search_lower_bound

__all__ = [
    "CanaryAudit",
    "Chance",
    "ExactLoss",
    "Finding",
    "FoundBound",
    "LowerBound",
    "Neighbours",
    "Report",
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
