"""Planned releases: sets of statistics under one total.

Modules:
* :mod:`.budget_split` — Division of a planned release's total among its statistics
* :mod:`.planned_release` — Planned releases: a set of statistics under one total, computed once
* :mod:`.published_table` — Comparison of a published table with the receipt of its release
* :mod:`.release_file` — File of a planned release: named statistics and one total
* :mod:`.report_page` — Report of a planned release as one HTML page
* :mod:`.workload_release_file` — Planned release of a workload: a file with one total and many counting queries, and
  the tables of answers
"""
