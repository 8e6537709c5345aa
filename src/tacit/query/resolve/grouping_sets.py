"""Grouping sets of a GROUP BY: the lists of key terms that ROLLUP, CUBE and GROUPING SETS stand for.

======================== =========================================================
written                  sets
======================== =========================================================
``a, b``                 (a, b)
``ROLLUP (a, b)``        (a, b), (a), ()
``CUBE (a, b)``          (a, b), (a), (b), ()
``GROUPING SETS (x, y)`` the sets of x, then those of y
``x, y``                 every set of x together with every set of y
``a, b WITH ROLLUP``     as ROLLUP (a, b); likewise WITH CUBE
======================== =========================================================

``(a, b)`` inside ROLLUP and CUBE is one element. Equal sets are kept: their rows come twice, as in SQL.
"""

from __future__ import annotations

import itertools

from sqlglot import exp

from tacit.query import limits
from tacit.query.refusal import Refusal

TermSets = list[list[exp.Expr]]


def written_sets(group: exp.Group) -> TermSets:
    """The grouping sets of a GROUP BY, each with the terms as they stand in the text."""
    suffixes = [name for name in ("rollup", "cube") if group.args.get(name)]
    if suffixes:
        mixed = any(isinstance(term, exp.Rollup | exp.Cube | exp.GroupingSets) for term in group.expressions)
        if len(suffixes) > 1 or mixed:
            raise Refusal("grouping_sets", "WITH ROLLUP and WITH CUBE follow plain keys, once.")
        elements = [_element(term) for term in group.expressions]
        return _rollup(elements) if suffixes == ["rollup"] else _cube(elements)
    found: TermSets = [[]]
    for term in group.expressions:
        own = _sets(term)
        _check(len(found) * len(own))
        found = [[*one, *other] for one in found for other in own]
    return found


def _sets(term: exp.Expr) -> TermSets:
    match term:
        case exp.Rollup():
            return _rollup([_element(part) for part in term.expressions])
        case exp.Cube():
            return _cube([_element(part) for part in term.expressions])
        case exp.GroupingSets():
            listed = [one for part in term.expressions for one in _sets(part)]
            _check(len(listed))
            return listed
        case _:
            return [_element(term)]


def _rollup(elements: TermSets) -> TermSets:
    _check(len(elements) + 1)
    return [list(itertools.chain(*elements[:kept])) for kept in range(len(elements), -1, -1)]


def _cube(elements: TermSets) -> TermSets:
    _check(2 ** min(len(elements), 64))
    sizes = range(len(elements), -1, -1)
    return [list(itertools.chain(*each)) for size in sizes for each in itertools.combinations(elements, size)]


def _element(term: exp.Expr) -> list[exp.Expr]:
    """The keys of one element: a list in parentheses counts as one."""
    return list(term.expressions) if isinstance(term, exp.Tuple) else [term]


def _check(count: int) -> None:
    limits.check_size(count, limits.MAX_SETS, "grouping sets")
