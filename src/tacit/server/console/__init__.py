"""The console: pages for people, rendered here, with a little script that they do not need.

* :mod:`.pages`: every page and where it is; :mod:`.visits`: a request on its way to a page; :mod:`.guarding`: forms
* :mod:`.entry`, :mod:`.asking`, :mod:`.datasets`, :mod:`.records`, :mod:`.owners`, :mod:`.watching`: what pages do
* :mod:`.quotes`, :mod:`.answers`, :mod:`.gauges`, :mod:`.odds`, :mod:`.figures`, :mod:`.problems`: how they say it
* :mod:`.charts`, :mod:`.drawing`: pictures; :mod:`.statics`, ``static``, ``templates``: the rest
"""

from __future__ import annotations

from tacit.server.console.pages import console

__all__ = ["console"]
