"""Check that a relation is public throughout.

A join of released rows with a public relation, and a subquery that stands for a value, rest on this. It is answered
from the tree alone.
"""

from __future__ import annotations

from tacit.query.relational.algebra import RelationNode, Scan, sources

__all__ = ["is_public_throughout"]


def is_public_throughout(node: RelationNode) -> bool:
    """Whether neither the relation nor anything below it belongs to anybody."""
    stack = [node]
    while stack:
        here = stack.pop()
        owned = here.unit is not None or here.population is not None
        if owned or (isinstance(here, Scan) and (here.unit_source is not None or here.path)):
            return False
        stack.extend(sources(here))
    return True
