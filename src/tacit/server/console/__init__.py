"""Console: pages for people, rendered on the server.

Modules:
* :mod:`.amounts` — Amounts as pages show them: numbers and times, bars of a budget, and what a guarantee means
* :mod:`.answers` — Answers as pages show them, and as files
* :mod:`.ask_page` — Page for asking: query, price and answer
* :mod:`.builder` — Query builder: a table, filters, groups and measures, chosen from lists and written as SQL
* :mod:`.charts` — SVG charts of released numbers, budgets and prices, written into the page
* :mod:`.datasets` — Page of tables as declared
* :mod:`.editor` — Editor: the words that it completes and colours, and where in the text a refusal belongs
* :mod:`.history_pages` — Pages of history, receipts, budget, promise and ledger
* :mod:`.owner_mode` — Owner mode of the console: pages that write a project file, for one browser on the owner's own
  machine
* :mod:`.page_request` — Page request: user, form fields, protection of forms, static files, responses and error pages
* :mod:`.pages` — Table of all pages
* :mod:`.people_pages` — Sign-in at a provider or by a one-time link, sessions, and the pages of owners about people,
  shares and tokens
* :mod:`.project_pages` — Pages of a project file: sources, tables, columns and a picture of what bounds keep, budgets,
  checking and saving
* :mod:`.query_pages` — Pages of saved queries: one's own, and those that others share
* :mod:`.quotes` — Quotes as pages show them, the form that asks for one, and the quotes of one query at several prices
* :mod:`.release_pages` — Pages of releases: a list, one of each for everyone who sees its population, and forms that
  make one
* :mod:`.release_views` — What the page of a release shows beside its facts, and how its form is read; by kind
"""

from __future__ import annotations

from tacit.server.console.pages import console

__all__ = ["console"]
