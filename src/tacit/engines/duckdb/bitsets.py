"""Which rows lie in the groups their unit keeps, for public groups: by bit sets instead of pairs and sorting.

Rows have a unit u and the place p of their group in the unit's own order (:mod:`~tacit.engines.duckdb.choosing`). A
bit set per unit says which places are taken; the place of the last group it may keep is its limit t, and rows beyond
it are dropped. That groups by units, of which there are far fewer than pairs (unit, group), and sorts nothing.

Where a unit in most groups would fill its first places well beyond what it may keep, those alone are looked at first.
They settle the units with many groups; only the rows of others are counted in full.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["kept_clauses"]

#: A word of a bit set has 2^6 places.
_WORD_BITS = 6
_WORD = 2**_WORD_BITS
#: Up to this many words stand side by side in one row per unit; more are rows of their own, and counted by a window.
_FEW_WORDS = 8


def kept_clauses(groups: int, bits: int, most: int, columns: Sequence[str]) -> dict[str, str]:
    """WITH clauses over ``p`` that end in ``kept``: the rows in the first ``most`` groups of their unit.

    Args:
        groups: how many there are.
        bits: of places, 2^bits in all.
        most: how many groups a unit keeps.
        columns: to carry along.
    """
    carried = ", ".join(f"p.{name}" for name in columns)
    first = _first_places(groups, bits, most)
    if first is None:
        taken = _one_word("p") if bits <= _WORD_BITS else _words("p", bits, most)
        within = f"SELECT p.u, {carried} FROM p LEFT JOIN limits AS l ON p.u = l.u WHERE l.t IS NULL OR p.p <= l.t"
        return {"limits AS NOT MATERIALIZED": _kth_place(taken, most), "kept AS NOT MATERIALIZED": within}
    nearly = (
        f"SELECT p.u, p.p, l.t, {carried} FROM p LEFT JOIN settled AS l ON p.u = l.u WHERE l.t IS NULL OR p.p <= l.t"
    )
    within = (
        f"SELECT p.u, {carried} FROM nearly AS p LEFT JOIN limits AS l ON p.u = l.u "
        "WHERE p.t IS NOT NULL OR l.t IS NULL OR p.p <= l.t"
    )
    return {
        "settled AS NOT MATERIALIZED": _kth_place(_one_word(f"p WHERE p < {first}"), most),
        "nearly AS MATERIALIZED": nearly,
        "limits AS NOT MATERIALIZED": _kth_place(_words("nearly WHERE t IS NULL", bits, most), most),
        "kept AS NOT MATERIALIZED": within,
    }


def _first_places(groups: int, bits: int, most: int) -> int | None:
    """How many places to look at first: a word, or half of one; None where they would settle too few units."""
    first = min(_WORD, 2 ** (bits - 1))
    taken_by_a_unit_in_all = first * groups // 2**bits
    return first if 2 * taken_by_a_unit_in_all >= 3 * most else None


def _one_word(rows: str) -> str:
    """The places below 64 that a unit's groups take, as a bit set m, and how many (n; up to the end of the word, c)."""
    words = f"SELECT u, bit_or(1::UBIGINT << p::UBIGINT) AS m FROM {rows} GROUP BY u"
    return f"SELECT u, 0 AS w, m, bit_count(m)::INTEGER AS n, n AS c FROM ({words})"


def _words(rows: str, bits: int, most: int) -> str:
    """The same for all places: the word w in which the running count c reaches ``most``, of units where it does."""
    words = 2 ** (bits - _WORD_BITS)
    if words > _FEW_WORDS:
        split = f"SELECT u, p >> 6 AS w, bit_or(1::UBIGINT << (p & 63)::UBIGINT) AS m FROM {rows} GROUP BY u, p >> 6"
        count = "bit_count(m)::INTEGER"
        running = f"sum({count}) OVER (PARTITION BY u ORDER BY w)"
        return f"SELECT u, w::INTEGER AS w, m, {count} AS n, {running} AS c FROM ({split})"
    sets = [
        f"bit_or(CASE WHEN p >> 6 = {w} THEN 1::UBIGINT << (p & 63)::UBIGINT ELSE 0 END) AS m{w}" for w in range(words)
    ]
    # The number of bits is an 8-bit integer, and sums of such overflow.
    counts = [" + ".join(f"bit_count(m{v})::INTEGER" for v in range(w + 1)) for w in range(words)]
    first = " ".join(f"WHEN {count} >= {most} THEN {w}" for w, count in enumerate(counts))
    per_unit = f"SELECT *, CASE {first} END AS w FROM (SELECT u, {', '.join(sets)} FROM {rows} GROUP BY u)"
    chosen = " ".join(f"WHEN {w} THEN m{w}" for w in range(words))
    reached = " ".join(f"WHEN {w} THEN {count}" for w, count in enumerate(counts))
    picked = f"SELECT u, w, CASE w {chosen} END AS m, CASE w {reached} END AS c FROM ({per_unit}) WHERE w IS NOT NULL"
    return f"SELECT u, w, m, bit_count(m)::INTEGER AS n, c FROM ({picked})"


def _kth_place(taken: str, most: int) -> str:
    """For units with at least ``most`` groups: the place t of the last that is kept.

    It lies in the word where the running count of taken places reaches ``most``; bisection finds the k-th bit set.
    """
    found = f"SELECT u, w, m, {most} - (c - n) AS k, 0 AS b FROM ({taken}) WHERE c >= {most} AND c - n < {most}"
    for step in (32, 16, 8, 4, 2, 1):
        below = f"bit_count(m & ((1::UBIGINT << (b + {step})::UBIGINT) - 1))"
        found = f"SELECT u, w, m, k, b + CASE WHEN {below} < k THEN {step} ELSE 0 END AS b FROM ({found})"
    return f"SELECT u, w * 64 + b AS t FROM ({found})"
