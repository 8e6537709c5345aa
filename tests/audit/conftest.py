"""The plugin under test, as a user would load it."""

from __future__ import annotations

from tacit.audit.pytest import assert_private

__all__ = ["assert_private"]
