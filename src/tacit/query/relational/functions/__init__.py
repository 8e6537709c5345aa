"""Every function a query may use below or above the aggregation; all of them are **total**.

No argument makes one fail: division by zero, overflow, a failed cast, a value outside the domain of a logarithm, a date
beyond the year 9999 and everything not finite give NULL. NULL in gives NULL out unless the table says otherwise.

Each :class:`~tacit.query.relational.functions.registry.Function` has an id (used by
:class:`~tacit.query.relational.expressions.Call` and by
the engines, which must lower every id), a rule for argument and result types, an interval rule, and its meaning in
Python. The meaning folds constants, enumerates public keys, evaluates released cells, and is what engines are tested
against.

Modules:
* :mod:`.build` — Checked constructors of expressions: types converted, constants folded, domains computed
* :mod:`.casts` — Casts, value by value, and the table of allowed casts
* :mod:`.dates` — Functions of dates and timestamps: parts, truncation, differences, shifts. Years beyond 1 to 9999
  are NULL
* :mod:`.evaluate` — Evaluation of an expression for one row in Python: the reference for engines
* :mod:`.logic` — Conditions in three-valued logic: AND, OR, NOT, comparisons, IS NULL, COALESCE, LIKE
* :mod:`.numeric` — Arithmetic, rounding, roots and logarithms, LEAST, GREATEST, CLAMP
* :mod:`.registry` — Registry of functions
* :mod:`.regular_expressions` — Regular expressions in linear time: a common subset with one meaning, run as a
  deterministic automaton
* :mod:`.signatures` — Shared rules about argument types: how many, of which kind, and what they become
* :mod:`.text` — Functions of text: positions and lengths count code points, trimming removes spaces, case is mapped
  one to one
* :mod:`.time_formats` — Formats of dates and timestamps: the signs of STRFTIME that mean the same on every engine, and
  their texts
"""

from __future__ import annotations

from tacit.query.relational.functions.build import call, case, cast, in_list
from tacit.query.relational.functions.evaluate import evaluate
from tacit.query.relational.functions.registry import REGISTRY, Function

__all__ = ["REGISTRY", "Function", "call", "case", "cast", "evaluate", "in_list"]
