"""Identity: people, roles, tokens, sessions, one-time links, single sign-on.

Modules:
* :mod:`.context` — Context shared by the identity modules: ledger, storage, clock
* :mod:`.credentials` — Credentials: a public id and a secret stored as a digest
* :mod:`.jobs` — Storage of background questions
* :mod:`.ledger_people` — People as recorded in the ledger's chain, to detect rollback of their tables
* :mod:`.models` — Records of people, tokens and sessions
* :mod:`.oidc` — Single sign-on by OpenID Connect: authorization code with PKCE, and roles from claims
* :mod:`.people` — ``People``: authentication and authorisation
* :mod:`.saved_questions` — Storage of saved questions: a title, a text and options; private or shared
* :mod:`.scram` — SCRAM-SHA-256: verifiers of secrets, and the server's side of one exchange
* :mod:`.sessions` — Sessions of browsers, the one-time links that open them, and sign-ins under way at a provider
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
