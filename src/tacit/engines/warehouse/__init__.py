"""Warehouses that Tacit never connects to: statements out, integers in.

Modules:
* :mod:`.engine` — Engine without data: writes the statements of queries, and reads the integers that came back
"""

from __future__ import annotations

from tacit.engines.warehouse.engine import WarehouseEngine

__all__ = ["WarehouseEngine"]
