"""From SQL text and a catalog to a resolved question.

Modules:
* :mod:`.aggregates` — Reading aggregate calls: what is asked, of which rows, with which stated bounds
* :mod:`.final_builder` — Building the final aggregation: bounds found, measurements shared, keys public or private
* :mod:`.released_relation` — A released result inside a query: what further SELECTs may do with it is
  post-processing
* :mod:`.scalar_subqueries` — Subqueries that stand for a value: over public tables, with one column and never more
  than one row
* :mod:`.scalars` — Scalar expressions: from syntax to typed expressions, over the names of one scope
* :mod:`.select_clauses` — One SELECT over its source: keys, aggregates, windows, HAVING, the SELECT list, ORDER BY
  and LIMIT
* :mod:`.select_list` — The SELECT list: stars opened, lists of quantiles and TOP_K spread over columns, names given
* :mod:`.select_targets` — Targets of a SELECT's clauses: rows inside units, final groups, or released cells
* :mod:`.sql_functions` — SQL function names and their meanings
* :mod:`.sql_statements` — Queries: WITH, SELECT, UNION ALL; from syntax to an owned or public relation, or to a
  released result
* :mod:`.subqueries` — Subqueries below the aggregation
* :mod:`.tables` — FROM: tables, subqueries, constants and joins, with the names they make visible
* :mod:`.windows` — Window functions: over one person's rows, over public rows, or over released cells
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Final, TypeVar

from tacit.core.errors import InputError
from tacit.query.catalog import Catalog
from tacit.query.parsing.parse import parse
from tacit.query.planning.work import bound_question, bound_rows
from tacit.query.question import Question
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import RelationNode
from tacit.query.resolve.sql_statements import Queries
from tacit.query.rules import apply_rules

__all__ = ["resolve", "resolve_rows"]

Result = TypeVar("Result")
#: So many calls deep, a caller leaves most of Python's thousand to the query.
_SHALLOW: Final = 200


def resolve(sql: str, catalog: Catalog) -> Question:
    """What a query asks, in the planner's own terms; a pure function of the text and the catalog.

    Raises:
        Refusal: (a :class:`~tacit.core.errors.QueryError`) when the query cannot be answered privately as written.
        InputError: when ``sql`` is not text.
    """
    if not isinstance(sql, str):
        raise InputError("sql", f"must be text, got {type(sql).__name__}")
    return _as_on_a_fresh_stack(lambda: _resolve(sql, catalog))


def resolve_rows(sql: str, catalog: Catalog) -> RelationNode:
    """The rows that a query stands for, as an owned relation: for what learns from rows and returns none of them.

    Raises:
        Refusal: when the query is no SELECT of rows that belong to persons, or aggregates over persons.
        InputError: when ``sql`` is not text.
    """
    if not isinstance(sql, str):
        raise InputError("sql", f"must be text, got {type(sql).__name__}")
    return _as_on_a_fresh_stack(lambda: _resolve_rows(sql, catalog))


def _resolve_rows(sql: str, catalog: Catalog) -> RelationNode:
    parsed = parse(sql)
    found = Queries(catalog, parsed.options).query(parsed.tree, {})
    if not isinstance(found, RelationNode):
        raise Refusal("aggregate", "A model learns from rows; take the aggregates out, or group by the unit.")
    if found.is_public:
        raise Refusal("public_only", "The rows are public; train on them directly, which costs nothing.")
    return bound_rows(found)


def _resolve(sql: str, catalog: Catalog) -> Question:
    parsed = parse(sql)
    released = Queries(catalog, parsed.options).question(parsed.tree)
    names = [column.name.lower() for column in released.columns]
    if len(set(names)) != len(names):
        raise Refusal("duplicate_name", "Two columns of the result have one name; give one of them an alias.")
    return bound_question(apply_rules(Question(released.final, released.steps, released.columns, parsed.options)))


def _as_on_a_fresh_stack(work: Callable[[], Result]) -> Result:
    """What ``work`` gives on a stack of its own, so that how deep a query may nest does not depend on the caller.

    What succeeds here succeeds there. A thread is started only where a caller is deep already, or a query is: then it
    is the thread that says whether it is too deep.
    """
    if _is_shallow():
        try:
            return work()
        except RecursionError:
            pass
        except Refusal as refusal:
            if refusal.reason != "too_deep":
                raise
    return _on_a_fresh_stack(work)


def _is_shallow() -> bool:
    """Whether most of the stack is left."""
    try:
        sys._getframe(_SHALLOW)
    except ValueError:
        return True
    return False


def _on_a_fresh_stack(work: Callable[[], Result]) -> Result:
    outcome: list[Result | BaseException] = []

    def run() -> None:
        try:
            outcome.append(work())
        except RecursionError:
            outcome.append(Refusal("too_deep", "The query is nested too deeply; use WITH to name parts."))
        except BaseException as problem:  # handed to the caller below
            outcome.append(problem)

    thread = threading.Thread(target=run, name="tacit-resolve", daemon=True)
    thread.start()
    thread.join()
    (found,) = outcome
    if isinstance(found, BaseException):
        raise found
    return found
