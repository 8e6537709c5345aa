"""``python -m tacit.cli``: the command without its script."""

from __future__ import annotations

from tacit.cli import script

if __name__ == "__main__":
    script()
