"""``tacit demo``: the story of an example hospital.

Modules:
* :mod:`.attack` — Differencing attack of the demo: two counts that differ in one person
* :mod:`.command` — The command ``tacit demo``
* :mod:`.display` — Display of the demo: headings, coloured SQL, bars with errors
* :mod:`.scenes` — Scenes of ``tacit demo``; each prints itself and returns what it showed
"""

from __future__ import annotations

from tacit.cli.demo.command import demo

__all__ = ["demo"]
