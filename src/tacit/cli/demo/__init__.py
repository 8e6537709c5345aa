"""``tacit demo``: a made-up hospital lets strangers ask, and nobody in it is told on.

* :mod:`.hospital`: the data, the same every time
* :mod:`.story`: what happens, scene by scene
* :mod:`.attack`: differencing, on the curator and on an unprotected copy
* :mod:`.stage`: how it looks
"""

from __future__ import annotations

from tacit.cli.demo.command import demo

__all__ = ["demo"]
