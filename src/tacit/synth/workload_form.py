"""Workloads as plain lists and texts, for JSON and TOML: one entry for each part, which are added up.

::

    [{"marginals": ["sex", "race", "age"], "ways": 2},      all sets of two of the columns
     {"marginals": [["sex"], ["race", "age"]]},             the sets that are listed
     {"prefixes": "age"},                                   also ranges, each, total
     {"product": [{"each": "sex"}, {"ranges": "age"}]},     every combination of a query of each
     {"matrix": ["sex"], "rows": [[1, 0], [1, 1]]}]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add, mul
from typing import Any, Final

from tacit.core.errors import InputError
from tacit.synth.workload import Factor, MarginalPart, Workload

#: Parts of one workload that are written out.
_MOST_PARTS: Final = 1_000
_SINGLES: Final = {
    "each": Workload.each, "total": Workload.total, "prefixes": Workload.prefixes, "ranges": Workload.ranges,
}  # fmt: skip


def workload_from_plain(told: object) -> Workload:
    """The workload that plain lists and texts describe.

    Raises:
        InputError: they describe none; says which entry, and what to write instead.

    >>> str(workload_from_plain([{"marginals": ["a", "b"], "ways": 1}, {"prefixes": "a"}]))
    '2 marginals of 1 column; prefixes of a'
    """
    listed = [told] if isinstance(told, Mapping) else told
    if isinstance(listed, str) or not isinstance(listed, Sequence) or not 1 <= len(listed) <= _MOST_PARTS:
        raise InputError("workload", f'must be a list of 1 to {_MOST_PARTS:,} parts, such as [{{"prefixes": "age"}}]')
    return reduce(add, [_part(part) for part in listed])


def workload_to_plain(workload: Workload) -> list[dict[str, Any]]:
    """Plain lists and texts that :func:`workload_from_plain` reads."""
    found: list[dict[str, Any]] = []
    for part in workload.parts:
        if isinstance(part, MarginalPart):
            found.append({"marginals": [list(names) for names in part.sets], "objective": part.objective})
        else:
            factors = [_factor_to_plain(factor) for factor in part.factors]
            found.append(factors[0] if len(factors) == 1 else {"product": factors})
    return found


def _factor_to_plain(factor: Factor) -> dict[str, Any]:
    if factor.kind == "matrix":
        return {"matrix": list(factor.columns), "rows": [list(row) for row in factor.rows]}
    return {factor.kind: factor.columns[0]}


def _part(part: object) -> Workload:
    if not isinstance(part, Mapping):
        raise InputError("workload", 'every part must be a table of names, such as {"prefixes": "age"}')
    if set(part) == {"product"}:
        factors = part["product"]
        if isinstance(factors, str) or not isinstance(factors, Sequence) or not factors:
            raise InputError("workload", "a product must be a list of its factors")
        return reduce(mul, [_single(factor) for factor in factors])
    if "marginals" in part and set(part) <= {"marginals", "ways", "objective"}:
        columns, ways = part["marginals"], part.get("ways")
        if isinstance(columns, str) or not isinstance(columns, Sequence):
            raise InputError("workload", "marginals must be a list of columns with ways, or a list of lists of columns")
        if ways is not None and type(ways) is not int:
            raise InputError("workload", "ways must be a whole number")
        return Workload.marginals(columns, ways=ways, objective=part.get("objective", "total"))
    return _single(part)


def _single(factor: object) -> Workload:
    if isinstance(factor, Mapping) and set(factor) == {"matrix", "rows"}:
        rows = factor["rows"]
        if isinstance(rows, str) or not isinstance(rows, Sequence) or any(isinstance(row, str) for row in rows):
            raise InputError("workload", "rows of a matrix must be lists of whole numbers")
        return Workload.matrix(factor["matrix"], rows)
    kind = next(iter(factor), "") if isinstance(factor, Mapping) and len(factor) == 1 else ""
    if not isinstance(factor, Mapping) or kind not in _SINGLES:
        raise InputError(
            "workload",
            "a part is one of marginals (with ways and objective), product, matrix (with rows), "
            f"{', '.join(_SINGLES)}; got {str(factor)[:80]}",
        )
    if not isinstance(factor[kind], str):
        raise InputError("workload", f"{kind} must be the name of a column")
    return _SINGLES[kind](factor[kind])
