"""Where data is read: an engine turns the planner's algebra into its own statements and returns exact integers.

This is the only layer that imports a database. What comes back (:class:`~tacit.engines.protocol.Measurements`) is raw
and goes to the noise step alone. An engine never sees the analyst's text, and whatever it has to say about a failure
stays in the operator's log.
"""

from __future__ import annotations

from tacit.engines.protocol import Engine, Measurements, Work

__all__ = ["Engine", "Measurements", "Work"]
