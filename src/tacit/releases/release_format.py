"""Canonical, versioned text of released numbers.

The form is one line of JSON with sorted keys and no spaces::

    {"format":"tacit-released","keys":[["oncology",…],…],"noisy":[…],"version":1}

A group key is written by the type of its column: integers as JSON numbers (as text beyond 2⁵³, where readers round),
decimals as ``p/q``, doubles in hexadecimal, dates and timestamps in ISO form. A noisy entry has its ``shape``, its
integers row by row, and ``wide`` where they are arbitrary-precision rather than 64-bit; a tree of counts also its
``tree`` (width and arity), and ``drawn`` where its leaves are cells around quantiles that were drawn. Where sums of
groups got noise instead of groups, ``levels`` has one entry for each of these sums. ``found`` has the
clipping bounds that AUTO found, if any, ``limits`` the contribution bounds and the counts of their search, and ``bias``
the noisy counts from which the bias is estimated, if requested. Where a query has several parts, ``others`` has the
further parts in the same form. Scales and noise laws are not written: they are functions of the plan.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.canonical import canonical
from tacit.core.errors import InternalError
from tacit.query.aggregates.ranks import NoisyTree, Tree
from tacit.query.planning.auto_limits import FoundLimits
from tacit.query.planning.plan import Plan, with_bounds, with_limits
from tacit.query.postprocess.result import in_turn
from tacit.query.release import NoisyLevels, NoisyRelease
from tacit.query.types import Kind, SqlType, Value

_FORMAT: Final = "tacit-released"
_VERSION: Final = 1
#: Integers with a smaller absolute value are read exactly by every JSON reader.
_EXACT_IN_JSON: Final = 2**53


def manifest(digests: Mapping[str, str]) -> str:
    """Return the text of several releases under one charge: the digest of each, by name."""
    return canonical({"format": "tacit-batch", "version": _VERSION, "released": dict(digests)})


def released_to_text(released: NoisyRelease) -> str:
    first, *others = [_write_part(part) for part in (released, *released.others)]
    content = {"format": _FORMAT, "version": _VERSION, **first, **({"others": others} if others else {})}
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _write_part(released: NoisyRelease) -> dict[str, object]:
    types = [key.expression.type for key in released.plan.final.keys]
    content: dict[str, object] = {
        "keys": [[_write(value, kind) for value, kind in zip(key, types, strict=True)] for key in released.keys],
        "noisy": [_write_noisy(entry) for entry in released.noisy],
    }
    if released.plan.limits is not None:
        limits = released.plan.limits
        content["limits"] = {
            "max_groups": limits.groups,
            "max_rows": limits.rows,
            "max_rows_total": limits.total,
            "seen": limits.seen,
            "counts": [_write_integer(count) for count in limits.counts],
        }
    if released.plan.found:
        content["found"] = [[str(found.low), str(found.high)] for found in released.plan.found]
    if released.noisy_bias is not None:
        content["bias"] = [_write_integer(count) for count in released.noisy_bias]
    return content


def released_from_text(text: str, plan: Plan) -> NoisyRelease:
    """Read the release that :func:`released_to_text` wrote, with the plan by which it was made.

    Where AUTO found bounds, ``plan`` is the plan that was reserved for, and the plan of the result holds the bounds.

    Raises:
        InternalError: the text has another format, or does not fit the plan.
    """
    try:
        content = json.loads(text)
        if content["format"] != _FORMAT or content["version"] != _VERSION:
            raise ValueError(f"version {content['version']!r}")
        stored = [content, *content.get("others", [])]
        if len(stored) != len(plan.parts):
            raise ValueError("other parts")
        if not plan.others:
            return _read_part(content, plan)
        return in_turn(plan, lambda number, part: _read_part(stored[number], part))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as problem:
        raise InternalError(f"a stored answer does not fit its plan: {problem}") from None


def _read_part(content: dict[str, Any], plan: Plan) -> NoisyRelease:
    if "limits" in content:
        limits = content["limits"]
        numbers = [limits[name] for name in ("max_groups", "max_rows", "max_rows_total")]
        if not all(number is None or (type(number) is int and number > 0) for number in numbers):
            raise ValueError("limits are whole numbers")
        counts, seen = tuple(int(count) for count in limits["counts"]), bool(limits["seen"])
        plan = with_limits(plan, FoundLimits(numbers[0], numbers[1], seen=seen, total=numbers[2], counts=counts))
    if "found" in content:
        plan = with_bounds(plan, [(Fraction(low), Fraction(high)) for low, high in content["found"]])
    types = [key.expression.type for key in plan.final.keys]
    keys = [tuple([_read(value, kind) for value, kind in zip(key, types, strict=True)]) for key in content["keys"]]
    laws, entries = plan.priced.laws, content["noisy"]
    noisy = [_read_noisy(entry, plan, i, len(keys)) for i, entry in zip(range(len(laws)), entries, strict=True)]
    bias = None
    if plan.priced.bias is not None:
        bias = tuple([int(count) for count in content["bias"]])
        if len(bias) != plan.priced.bias.table.cells:
            raise ValueError("a table of another size")
    return NoisyRelease(tuple(keys), tuple(noisy), laws, plan, bias)


def _write(value: Value | None, kind: SqlType) -> object:
    if value is None or isinstance(value, (bool, str)):
        return value
    match kind.kind:
        case Kind.DECIMAL:
            return str(Fraction(value))  # type: ignore[arg-type]
        case Kind.DOUBLE:
            return float(value).hex()  # type: ignore[arg-type]
        case Kind.DATE | Kind.TIMESTAMP:
            return value.isoformat()  # type: ignore[union-attr]
        case _:
            return _write_integer(int(value))  # type: ignore[arg-type]


def _read(value: Any, kind: SqlType) -> Value | None:
    if value is None:
        return None
    if kind.kind in (Kind.BOOLEAN, Kind.TEXT):
        if not isinstance(value, bool if kind.kind is Kind.BOOLEAN else str):
            raise ValueError(f"{value!r} is no {kind}")
        return value
    match kind.kind:
        case Kind.DECIMAL:
            return Fraction(value)
        case Kind.DOUBLE:
            return float.fromhex(value)
        case Kind.DATE:
            return dt.date.fromisoformat(value)
        case Kind.TIMESTAMP:
            return dt.datetime.fromisoformat(value)
        case _:
            return int(value)


def _write_integer(value: int) -> int | str:
    return value if -_EXACT_IN_JSON < value < _EXACT_IN_JSON else str(value)


def _write_noisy(entry: NDArray[Any] | NoisyTree | NoisyLevels) -> dict[str, object]:
    if isinstance(entry, NoisyLevels):
        return {"levels": [_write_array(level) for level in entry.noisy]}
    if isinstance(entry, NoisyTree):
        drawn = {} if entry.drawn is None else {"drawn": _write_array(entry.drawn)}
        return {"tree": [entry.tree.width, entry.tree.arity], **_write_array(entry.noisy_nodes), **drawn}
    return _write_array(entry)


def _write_array(array: NDArray[Any]) -> dict[str, object]:
    wide = array.dtype == object
    if not wide and array.dtype != np.int64:
        raise InternalError("only integers are released")
    values = array.ravel().tolist()
    if wide or (values and max(max(values), -min(values)) >= _EXACT_IN_JSON):
        values = [_write_integer(int(value)) for value in values]
    return {"shape": list(array.shape), "values": values} | ({"wide": True} if wide else {})


def _read_noisy(entry: dict[str, Any], plan: Plan, index: int, groups: int) -> NDArray[Any] | NoisyTree | NoisyLevels:
    each = plan.priced.release_of[index]
    if each.levels:
        arrays = tuple(_read_array(level) for level in entry["levels"])
        further = (each.block.width,) if each.block.spread else ()
        shapes = [(*(each.sizes[axis] for axis in level.axes), *further) for level in each.levels]
        if [array.shape for array in arrays] != shapes:
            raise ValueError("other levels")
        return NoisyLevels(each.basis, arrays)
    array = _read_array(entry)
    tree, width = each.block.tree, plan.final.measures[index].width
    if tree is None:
        if "tree" in entry or array.shape != ((groups, width) if each.block.spread else (groups,)):
            raise ValueError("another shape")
        return array
    if Tree(*entry["tree"]) != tree or array.shape != (groups, tree.nodes):
        raise ValueError("a tree of another shape")
    drawn, choice = None, each.choice
    if choice is not None:
        drawn = _read_array(entry["drawn"])
        if drawn.shape != (groups, len(choice.fractions)) or ((drawn < 0) | (drawn >= choice.width)).any():
            raise ValueError("other quantiles")
    return NoisyTree(tree, array, each.law(index), drawn)


def _read_array(entry: dict[str, Any]) -> NDArray[Any]:
    values = [int(value) for value in entry["values"]]
    if len(values) != math.prod(entry["shape"]):
        raise ValueError("numbers are missing")
    if not entry.get("wide"):
        return np.array(values, dtype=np.int64).reshape(entry["shape"])
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array.reshape(entry["shape"])
