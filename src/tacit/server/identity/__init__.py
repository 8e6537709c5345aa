"""Identity: people, roles, tokens, sessions, one-time links, single sign-on.

Modules:
* :mod:`.context` — Context shared by the identity modules: ledger, storage, clock, and the codes that are handed out
* :mod:`.ledger_people` — People as recorded in the ledger's chain, to detect rollback of their tables
* :mod:`.models` — Records of people, tokens and sessions
* :mod:`.oidc` — Single sign-on by OpenID Connect: authorization code with PKCE, and roles from claims
* :mod:`.people` — ``People``: authentication and authorisation
* :mod:`.scram` — SCRAM-SHA-256 (RFC 5802, RFC 7677): verifiers of secrets, and the server's side of one exchange
* :mod:`.sessions` — Sessions of browsers, the one-time links that open them, and sign-ins under way at a provider
* :mod:`.stored_queries` — Stored queries: background jobs, and queries that people keep; private or shared
* :mod:`.tables` — Tables of people: their schema, beside the ledger's own tables in the same database
* :mod:`.tokens` — Tokens of programs
"""

from __future__ import annotations

from tacit.server.identity.models import (
    Access,
    Identity,
    Issued,
    Job,
    Opened,
    Person,
    Role,
    SessionInfo,
    TokenInfo,
    TokenScope,
)
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
