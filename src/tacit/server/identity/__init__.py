"""Identity: people, roles, tokens, passwords, sessions, invitations.

Modules:
* :mod:`.context` — Context shared by the identity modules: ledger, storage, clock
* :mod:`.credentials` — Credentials: a public id and a secret stored as a digest
* :mod:`.invitations` — One-time links: invitations and the set-up of the first owner
* :mod:`.jobs` — Storage of background questions
* :mod:`.ledger_people` — People as recorded in the ledger's chain, to detect rollback of their tables
* :mod:`.models` — Records of people, tokens and sessions
* :mod:`.passwords` — Passwords: which ones are good enough, and their argon2id hashes
* :mod:`.people` — ``People``: authentication and authorisation
* :mod:`.saved_questions` — Storage of saved questions: a title, a text and options; private or shared
* :mod:`.scram` — SCRAM-SHA-256: verifiers of secrets, and the server's side of one exchange
* :mod:`.sessions` — Passwords, sessions and login throttling
* :mod:`.tables` — Tables of people: their schema, beside the ledger's own tables in the same database
* :mod:`.tokens` — Tokens of programs
"""

from __future__ import annotations

from tacit.server.identity.models import Access, Issued, Job, Opened, Person, Role, TokenInfo, TokenScope
from tacit.server.identity.passwords import Hashing
from tacit.server.identity.people import People

__all__ = ["Access", "Hashing", "Issued", "Job", "Opened", "People", "Person", "Role", "TokenInfo", "TokenScope"]
