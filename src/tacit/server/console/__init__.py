"""Console: pages for people, rendered on the server.

Modules:
* :mod:`.answers` — Answers as pages show them
* :mod:`.ask_page` — Page for asking: question, price and answer
* :mod:`.belief_bounds` — Bounds on an observer's belief implied by a guarantee
* :mod:`.budget_bars` — Budget bars of the pages
* :mod:`.builder` — Question builder: a table, filters, groups and measures, written as SQL
* :mod:`.charts` — SVG charts of released numbers, budgets and prices, written into the page
* :mod:`.csrf` — Cross-site request forgery protection of forms
* :mod:`.datasets` — Page of tables as declared
* :mod:`.downloads` — Answers as files: CSV, text to paste, Parquet, notebooks
* :mod:`.drawings` — Chart data of released numbers: points with intervals, in panels
* :mod:`.editor` — Editor: the words that it completes and colours, and where in the text a refusal belongs
* :mod:`.error_pages` — Error pages
* :mod:`.history_pages` — Pages of history, receipts, budget and promise
* :mod:`.ledger_page` — Ledger page for owners and auditors
* :mod:`.number_format` — Number formats of the pages, and that of times
* :mod:`.owner_mode` — Owner mode of the console: pages that write a project file, for one browser on the owner's own
  machine
* :mod:`.page_request` — Page request: user, form fields and response
* :mod:`.pages` — Table of all pages
* :mod:`.people_pages` — Pages of owners: people, shares, tokens
* :mod:`.price_curve` — Price against error: the quotes of one question at several prices
* :mod:`.project_budget` — Page of a budget, with a guide to choosing epsilon: published numbers, and the risk of one
  person
* :mod:`.project_column` — Page of a column: type, categories, bounds, and a picture of what they keep
* :mod:`.project_pages` — Pages of a project file as a whole: its sources, what one query may use of the machine,
  checking and saving
* :mod:`.project_table` — Page of a table: how it is written, whose rows, its columns, its limits
* :mod:`.question_pages` — Pages of saved questions: one's own, and those that others share
* :mod:`.quotes` — Quotes as pages show them, and the form that asks for one
* :mod:`.release_pages` — Pages of releases: a list, one of each for everyone who sees its population, and forms that
  make one
* :mod:`.release_views` — What the page of a release shows beside its facts, and how its form is read; by kind
* :mod:`.sign_in` — Sign-in at a provider or by a one-time link, sign-out, and sessions
* :mod:`.static_files` — Static files at content-addressed URLs
"""

from __future__ import annotations

from tacit.server.console.pages import console

__all__ = ["console"]
