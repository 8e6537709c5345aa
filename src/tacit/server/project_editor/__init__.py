"""Project editor: ``tacit init --edit``, pages on which the owner of data writes a project file, on their own machine.

Modules:
* :mod:`.app` — Application of the editor and the loopback server that shows it
* :mod:`.budget_page` — Page of a budget, with a guide to choosing epsilon: published numbers, and the risk of one
  person
* :mod:`.column_page` — Page of a column: type, categories, bounds, and a picture of what they keep
* :mod:`.data_page` — Page of sources: files and tables of a database
* :mod:`.gate` — Gate of the editor: a secret that works once, a cookie, and forms from here alone
* :mod:`.owner_pages` — Common parts of the editor's pages: state, steps, the text of the file and its problems
* :mod:`.save_page` — Page that checks and saves: changes, effects on an account that was charged, the text itself
* :mod:`.table_page` — Page of a table: how it is written, whose rows, its columns, its limits
"""

from __future__ import annotations

from tacit.server.project_editor.app import editor_app, run_editor

__all__ = ["editor_app", "run_editor"]
