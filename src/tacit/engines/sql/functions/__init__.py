"""One lowering per function of the registry; each gives the value that the registry's Python meaning gives.

A lowering gets the dialect, the call and the SQL of its arguments and returns SQL that cannot raise for any row: what
could fail is tried, computed in a wider type and compared, or guarded by CASE, whose branches are evaluated for the
rows they apply to only. ``COMMON`` holds those that need nothing but standard SQL and the methods of a dialect; text
is every database's own.

Modules:
* :mod:`.arithmetic` — Numbers: whole and decimal ones in a wide type and then checked, doubles in IEEE arithmetic,
  not finite is NULL
* :mod:`.dates` — Dates and timestamps: arithmetic on whole days and microseconds since 1970, then a check of the
  years 1 to 9999
* :mod:`.lowering` — Lowerings: from dialect, call and SQL of the arguments to SQL; those that need no more than a
  template, as conditions do
"""

from __future__ import annotations

from tacit.engines.sql.functions import arithmetic
from tacit.engines.sql.functions import dates as times
from tacit.engines.sql.functions.lowering import CONDITIONS, Args, Lowering

__all__ = ["COMMON", "Args", "Lowering"]

COMMON: dict[str, Lowering] = {**arithmetic.LOWERINGS, **CONDITIONS, **times.LOWERINGS}
