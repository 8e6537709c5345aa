"""From SQL text and a catalog to a resolved question.

* :mod:`.queries`: WITH, SELECT, UNION ALL
* :mod:`.tables`: FROM and joins; :mod:`.subqueries`: IN and EXISTS; :mod:`.values`: subqueries that stand for a value
* :mod:`.grouping`: the clauses of one SELECT over rows, persons or released cells; :mod:`.items`: the SELECT list
* :mod:`.scalars`, :mod:`.names`, :mod:`.scope`: expressions, functions, columns
* :mod:`.aggregates`, :mod:`.windows`, :mod:`.finals`: what is aggregated and how it is bounded
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from tacit.core.errors import InputError
from tacit.query.catalog import Catalog
from tacit.query.final import Question
from tacit.query.parse import parse
from tacit.query.refusal import Refusal
from tacit.query.resolve.queries import Queries
from tacit.query.rules import apply_rules

__all__ = ["resolve"]


def resolve(sql: str, catalog: Catalog) -> Question:
    """What a query asks, in the planner's own terms; a pure function of the text and the catalog.

    Raises:
        Refusal: (a :class:`~tacit.core.errors.QueryError`) when the query cannot be answered privately as written.
        InputError: when ``sql`` is not text.
    """
    if not isinstance(sql, str):
        raise InputError("sql", f"must be text, got {type(sql).__name__}")
    return _on_a_fresh_stack(lambda: _resolve(sql, catalog))


def _resolve(sql: str, catalog: Catalog) -> Question:
    parsed = parse(sql)
    released = Queries(catalog, parsed.options).question(parsed.tree)
    names = [column.name.lower() for column in released.columns]
    if len(set(names)) != len(names):
        raise Refusal("duplicate_name", "Two columns of the result have one name; give one of them an alias.")
    return apply_rules(Question(released.final, released.steps, released.columns, parsed.options))


def _on_a_fresh_stack(work: Callable[[], Question]) -> Question:
    """Run on a thread of its own, so that how deep a query may nest does not depend on how deep the caller is."""
    outcome: list[Question | BaseException] = []

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
