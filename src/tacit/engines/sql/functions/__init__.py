"""One lowering per function of the registry; each gives the value that the registry's Python meaning gives.

A lowering gets the dialect, the call and the SQL of its arguments and returns SQL that cannot raise for any row: what
could fail is tried, computed in a wider type and compared, or guarded by CASE, whose branches are evaluated for the
rows they apply to only. ``COMMON`` holds those that need nothing but standard SQL and the methods of a dialect; text
is every database's own.
"""

from __future__ import annotations

from tacit.engines.sql.functions import arithmetic, logic, times
from tacit.engines.sql.functions.shape import Args, Lowering

__all__ = ["COMMON", "Args", "Lowering"]

COMMON: dict[str, Lowering] = {**arithmetic.LOWERINGS, **logic.LOWERINGS, **times.LOWERINGS}
