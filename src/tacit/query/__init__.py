"""From SQL text and public metadata to a plan; touches no data.

The front half, from text to a resolved :class:`Question`:

* :mod:`.types`, :mod:`.domains`: the seven types; what is publicly known about values, with interval arithmetic
* :mod:`.catalog`: tables, populations, units, bounds: all the metadata there is
* :mod:`.limits`, :mod:`.parse`, :mod:`.options`, :mod:`.option_text`: text to a syntax tree on an allow-list
* :mod:`.expressions`, :mod:`.functions`: typed scalar nodes and total functions
* :mod:`.algebra`, :mod:`.ownership`: relational nodes, and the rules that keep every row somebody's
* :mod:`.measures`, :mod:`.keys`, :mod:`.final`: what is measured, for which groups, and what happens to the released
cells
* :mod:`.resolve`, :mod:`.rules`: from the tree to a question in normal form
* :mod:`.auto_bounds`: bounds that a question finds privately before it uses them
* :mod:`.refusal`: how and why a question is refused
"""

from __future__ import annotations

from tacit.query.catalog import Catalog, Column, ForeignKey, Population, Table
from tacit.query.final import Question
from tacit.query.refusal import CODES, Refusal
from tacit.query.resolve import resolve

__all__ = ["CODES", "Catalog", "Column", "ForeignKey", "Population", "Question", "Refusal", "Table", "resolve"]
