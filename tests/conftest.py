"""Fixtures that every test may use."""

from __future__ import annotations

import pytest
from support.bits import SeededBits

from tacit.noise import entropy


@pytest.fixture
def seeded(monkeypatch: pytest.MonkeyPatch) -> SeededBits:
    """Replace the system's entropy by repeatable bits for one test."""
    bits = SeededBits(20261115)
    monkeypatch.setattr(entropy, "current", lambda: bits)
    return bits
