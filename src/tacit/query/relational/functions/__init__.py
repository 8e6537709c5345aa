"""Every function a query may use below or above the aggregation; all of them are **total**.

No argument makes one fail: division by zero, overflow, a failed cast, a value outside the domain of a logarithm, a date
beyond the year 9999 and everything not finite give NULL. NULL in gives NULL out unless the table says otherwise.

Each :class:`~tacit.query.relational.functions.registry.Function` has an id (used by
:class:`~tacit.query.relational.expressions.Call` and by
the engines, which must lower every id), a rule for argument and result types, an interval rule, and its meaning in
Python. The meaning folds constants, enumerates public keys, evaluates released cells, and is what engines are tested
against.

Modules:
* :mod:`.dates` — Functions of dates and timestamps, and formats of times: the signs of STRFTIME that mean the same on
  every engine
* :mod:`.operators` — Arithmetic, rounding, roots and logarithms, LEAST, GREATEST, CLAMP, and conditions in three-valued
  logic
* :mod:`.registry` — Functions and casts: entries, rules for arguments, checked constructors of expressions, and their
  values in Python
* :mod:`.regular_expressions` — Regular expressions in linear time: a common subset with one meaning, run as a
  deterministic automaton
* :mod:`.text` — Functions of text: positions and lengths count code points, trimming removes spaces, case is mapped
  one to one
"""

from __future__ import annotations

from tacit.query.relational.functions import dates, operators, regular_expressions, text  # noqa: F401 - enter functions
from tacit.query.relational.functions.registry import REGISTRY, Function, call, case, cast, evaluate, in_list

__all__ = ["REGISTRY", "Function", "call", "case", "cast", "evaluate", "in_list"]
