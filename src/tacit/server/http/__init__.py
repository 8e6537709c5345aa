"""The door for programs: JSON or Arrow over HTTP.

* :mod:`.app`: the ASGI application, from a scope to a response; :mod:`.floor`: threads, slots and rates
* :mod:`.limits`: what a request may look like; :mod:`.auth`, :mod:`.negotiation`: its headers; :mod:`.strict_json` and
  :mod:`.asking`: its body
* :mod:`.routes`: the endpoints; :mod:`.operating`: those for owners; :mod:`.jobs`: questions that are polled for
* :mod:`.errors`: the one shape of every failure
* :mod:`.schemas` and :mod:`.description`: what OpenAPI says about all that
"""

from __future__ import annotations

from tacit.server.http.app import App, create_app

__all__ = ["App", "create_app"]
