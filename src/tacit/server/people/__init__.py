"""Who may come in, as what, and how they prove it: roles, tokens, passwords, sessions, links, and questions under way.

``people.py`` is what the doors hold; ``records.py`` what goes in and comes out; ``keeping.py`` what a database must do;
``chain.py`` what the ledger has to say about it.
"""

from __future__ import annotations

from tacit.server.people.passwords import Hashing
from tacit.server.people.people import People
from tacit.server.people.records import Access, Issued, Job, Opened, Person, Role, Scope, TokenInfo

__all__ = ["Access", "Hashing", "Issued", "Job", "Opened", "People", "Person", "Role", "Scope", "TokenInfo"]
