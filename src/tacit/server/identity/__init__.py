"""Identity: people, roles, tokens, sessions, one-time links, single sign-on.

Modules:
* :mod:`.chain` — People in the ledger's chain, and their tables, whose rollback the chain detects
* :mod:`.credentials` — Tokens of programs, sessions of browsers, one-time links, sign-ins under way at a provider
* :mod:`.jobs` — Background jobs: queries and releases that any worker may take up, and their outcomes
* :mod:`.oidc` — Single sign-on by OpenID Connect: authorization code with PKCE, and roles from claims
* :mod:`.people` — ``People``: authentication and authorisation
* :mod:`.scram` — SCRAM-SHA-256 (RFC 5802, RFC 7677): verifiers of secrets, and the server's side of one exchange
"""

from __future__ import annotations

from tacit.server.identity.chain import Person, Role, TokenScope
from tacit.server.identity.credentials import Access, Identity, Issued, Opened, SessionInfo, TokenInfo
from tacit.server.identity.jobs import Job
from tacit.server.identity.people import People

__all__ = [
    "Access",
    "Identity",
    "Issued",
    "Job",
    "Opened",
    "People",
    "Person",
    "Role",
    "SessionInfo",
    "TokenInfo",
    "TokenScope",
]
