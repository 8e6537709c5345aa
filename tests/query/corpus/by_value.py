"""Queries whose private keys are the values of an expression, and queries around NULL."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent
#: Every function, by the values it gives: each is a private key, so all of them are compared.
BY_VALUE = tuple(
    f"SELECT {line} AS k, COUNT(*) AS n FROM visits GROUP BY k"
    for line in (_FOLDER / "expressions.txt").read_text(encoding="utf-8").splitlines()
)
#: Joins, groups, windows and subqueries around NULL.
STRUCTURES = tuple((_FOLDER / "structures.sql").read_text(encoding="utf-8").splitlines())
#: Orders with ties and NULLs, where plain SQL leaves open which row counts: every engine must take the same one.
TIES = tuple((_FOLDER / "ties.sql").read_text(encoding="utf-8").splitlines())
