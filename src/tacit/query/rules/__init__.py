"""Rewrite rules, each from a question to a question that asks the same.

Rules bring questions that mean the same to the same form, so that a repeated one is recognised, and make the engine's
work smaller. None may change an answer, a sensitivity or a price upwards.

Modules:
* :mod:`.count_rows` — A count of values that are never NULL is a count of rows, so that both are taken and paid
  once
* :mod:`.inline_projections` — Rule: inline projections into their readers
* :mod:`.merge_filters` — Filters over filters become one, its conditions each once and in a canonical order
* :mod:`.order_keys` — Group keys in one order, so that ``GROUP BY a, b`` and ``GROUP BY b, a`` are one release, taken
  and paid once
* :mod:`.prune_columns` — Columns that nothing reads are not computed, and marks and windows that nothing reads
  disappear
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tacit.query.question import Append, Combine, Question
from tacit.query.rules.count_rows import count_rows
from tacit.query.rules.inline_projections import inline_projections
from tacit.query.rules.merge_filters import merge_filters
from tacit.query.rules.order_keys import order_keys
from tacit.query.rules.prune_columns import prune_columns, prune_matches

__all__ = ["RULES", "apply_rules"]

Rule = Callable[[Question], Question]
#: In the order of application: first layers are removed, then everything that the removal makes superfluous.
RULES: Final[tuple[Rule, ...]] = (
    inline_projections,
    prune_matches,
    prune_columns,
    merge_filters,
    count_rows,
    order_keys,
)


def apply_rules(question: Question) -> Question:
    """The question after all rules, and so every question that its steps read."""
    steps = tuple(
        replace(step, other=apply_rules(step.other)) if isinstance(step, Combine | Append) else step
        for step in question.steps
    )
    question = replace(question, steps=steps)
    for rule in RULES:
        question = rule(question)
    return question
