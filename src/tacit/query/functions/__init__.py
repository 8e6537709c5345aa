"""Every function a query may use below or above the aggregation; all of them are **total**.

No argument makes one fail: division by zero, overflow, a failed cast, a value outside the domain of a logarithm, a date
beyond the year 9999 and everything not finite give NULL. NULL in gives NULL out unless the table says otherwise.

Each :class:`~tacit.query.functions.registry.Function` has an id (used by :class:`~tacit.query.expressions.Call` and by
the engines, which must lower every id), a rule for argument and result types, an interval rule, and its meaning in
Python. The meaning folds constants, enumerates public keys, evaluates released cells, and is what engines are tested
against.

* :mod:`.numeric`: arithmetic, rounding, roots and logarithms, LEAST, GREATEST, CLAMP
* :mod:`.logic`: AND, OR, NOT, comparisons, IS NULL, COALESCE, LIKE
* :mod:`.text`: case, trimming, parts, search
* :mod:`.dates`: parts, truncation, differences, shifts
* :mod:`.casts`: :class:`~tacit.query.expressions.Cast`
* :mod:`.build`: ``call``, ``cast``, ``case``, ``in_list``: checked constructors
"""

from __future__ import annotations

from tacit.query.functions.build import call, case, cast, in_list
from tacit.query.functions.evaluate import evaluate
from tacit.query.functions.registry import REGISTRY, Function

__all__ = ["REGISTRY", "Function", "call", "case", "cast", "evaluate", "in_list"]
