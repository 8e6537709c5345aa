"""Draws the layers for docs/architecture.md from the contract in pyproject.toml, so that the picture cannot lie.

Run ``python docs/figures/architecture.py``; it writes ``architecture.svg`` beside itself.
"""

from __future__ import annotations

import tomllib
from html import escape
from pathlib import Path

HERE = Path(__file__).parent
WIDTH, ROW, GAP, MARGIN = 860, 34, 10, 16
WORDS = {
    "cli": "command line",
    "server": "HTTP API, console, identity, workers",
    "audit": "claims checked: mechanisms, projects, servers; attacks",
    "client": "API requests and responses, tacit.connect",
    "releases": "payment, receipts, one module per kind of release",
    "curator": "tacit.open, the object users hold",
    "project": "project file, sources",
    "synth": "workloads, synthetic tables",
    "engines": "DuckDB, PostgreSQL, Spark",
    "ledger": "durable accounts",
    "query": "SQL → plan",
    "learn": "private models",
    "lab": "exact small worlds, the composition experiment, distributions",
    "accounting": "composition, filters, privacy loss distributions",
    "mechanisms": "Laplace, Gaussian, selection, sparse vector, …",
    "noise": "exact samplers; the only source of randomness",
    "core": "errors, relations, guarantees, events, exact numbers",
}


def layers() -> list[list[str]]:
    """The layers from the top down; rooms that are not built yet are left out."""
    contracts = tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    listed = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [[room.strip() for room in layer.split("|") if not room.strip().startswith("(")] for layer in listed]


def draw(rows: list[list[str]]) -> str:
    """An SVG: one row a layer, one box a room."""
    height = 2 * MARGIN + len(rows) * (ROW + GAP) + 14
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif"',
        ' font-size="13" role="img">',
        "<title>Layers of Tacit: imports go only downwards</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for index, row in enumerate(rows):
        top = MARGIN + index * (ROW + GAP)
        width = (WIDTH - 2 * MARGIN - (len(row) - 1) * GAP) / len(row)
        for place, room in enumerate(row):
            left = MARGIN + place * (width + GAP)
            words = WORDS.get(room, "") if len(row) < 4 else ""
            said = f'<tspan font-weight="bold">{escape(room)}</tspan>' + (f"  {escape(words)}" if words else "")
            parts += [
                f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{ROW}" rx="6" fill="#eef3f8"',
                ' stroke="#5b7a99"/>',
                f'<text x="{left + width / 2:.1f}" y="{top + 22}" text-anchor="middle" fill="#1b2733"',
                f' xml:space="preserve">{said}</text>',
            ]
    words = (
        f'<text x="{WIDTH / 2}" y="{height - 10}" text-anchor="middle" fill="#5b6b7a">imports go only downwards</text>'
    )
    parts.append(f"{words}</svg>")
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    (HERE / "architecture.svg").write_text(draw(layers()))
