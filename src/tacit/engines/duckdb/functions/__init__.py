"""One lowering per function of the registry; each gives the value that the registry's Python meaning gives.

A lowering gets the call and the SQL of its arguments and returns SQL that cannot raise for any row: what could fail
is tried (``TRY_CAST``), computed in a wider type and compared, or guarded by CASE, whose branches DuckDB evaluates
for the rows they apply to only.
"""

from __future__ import annotations

from tacit.engines.duckdb.functions import arithmetic, logic, text, times
from tacit.engines.duckdb.functions.shape import Lowering

__all__ = ["LOWERINGS", "Lowering"]

LOWERINGS: dict[str, Lowering] = {
    **arithmetic.LOWERINGS,
    **logic.LOWERINGS,
    **text.LOWERINGS,
    **times.LOWERINGS,
}
