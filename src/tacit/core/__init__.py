"""The vocabulary: errors, neighbouring relations, guarantees, events, and exact numbers. Imports nothing of Tacit.

Modules:
* :mod:`.cautions` — Cautions about parameters that are valid and protect little
* :mod:`.canonical` — Canonical JSON: one text for one value, and its digest
* :mod:`.charts` — The charting library, and saving of charts as SVG, PNG, HTML or JSON
* :mod:`.closing` — Base class for objects with a ``close()`` method
* :mod:`.databases` — Databases in two forms: rows of a universe, or a histogram
* :mod:`.divergences` — Divergences between finite distributions: max, approximate max, KL, Renyi, total variation
* :mod:`.errors` — Errors that Tacit raises on purpose
* :mod:`.events` — Privacy events: frozen descriptions of releases between mechanisms and accountants
* :mod:`.extras` — Optional packages: the one place that knows how they are installed
* :mod:`.float_functions` — Special functions, recurrences and transforms' lengths in floats, good to the last places
* :mod:`.guarantees` — Privacy guarantees in five currencies, with safe conversions and group privacy
* :mod:`.names` — Names of tables, columns and populations
* :mod:`.normal` — Certified bounds on the normal distribution
* :mod:`.numbers` — Exact numbers in, and floats out only with a named rounding direction
* :mod:`.relations` — Neighbouring relations over rows and over histograms
* :mod:`.sensitivity` — Sensitivity: exact formulas under either relation, and measurement by trying all neighbours
* :mod:`.text_files` — Texts that others wrote, in files and on screens: no formula, no escape sequence, no script
"""
