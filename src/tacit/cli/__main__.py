"""``python -m tacit.cli``: the command without its script."""

from __future__ import annotations

from tacit.cli import main

if __name__ == "__main__":
    main()
