"""Assurance: audits of projects and servers, and attack scenarios against a curator.

Modules:
* :mod:`.attack_scenarios` — Attack scenarios: each attack of :mod:`tacit.attacks` with its victims, its unprotected
  twin and the curator
* :mod:`.attack_target` — Targets of ``tacit attack``: the example hospital or a project's table, bare and behind a
  curator
* :mod:`.fit_audit` — Self-audit of fits: each estimator replayed on neighbours with an extreme row
* :mod:`.ledger_audit` — Self-audit of the ledger: restores, copies and adoption
* :mod:`.project_audit` — Audit of a project: questions recorded on one database and replayed on its neighbours
* :mod:`.server_audit` — Audit of a running server with an analyst's access only: an address and a token
* :mod:`.synthetic_people` — Synthetic databases for a catalogue, including edge-case persons
* :mod:`.unit_audit` — Self-audit of units: forms of ids that must not mix, and units that move
"""
