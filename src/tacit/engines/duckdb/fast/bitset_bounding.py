"""Bounding of public groups per unit by bit sets instead of sorting pairs.

Rows have a unit u and the place p of their group in the unit's own order (:mod:`~tacit.engines.sql.group_choice`). A
bit set per unit says which places are taken; the place of the last group it may keep is its limit t, and rows beyond
it are dropped. That groups by units, of which there are far fewer than pairs (unit, group), and sorts nothing.

Where a unit in most groups would fill its first places well beyond what it may keep, those alone are looked at first.
They settle the units with many groups; only the rows of others are counted in full.
"""

from __future__ import annotations

from collections.abc import Sequence

#: A word of a bit set has 2^6 places.
_WORD_BITS = 6
_WORD = 2**_WORD_BITS
#: Up to this many words stand side by side in one row per unit; more are rows of their own, and counted by a window.
_FEW_WORDS = 8


def kept_clauses(groups: int, bits: int, most: int, columns: Sequence[str], *, large: bool) -> dict[str, str]:
    """WITH clauses over ``p`` that end in ``kept``: the rows in the first ``most`` groups of their unit.

    Args:
        groups: how many there are.
        bits: of places, 2^bits in all.
        most: how many groups a unit keeps.
        columns: to carry along.
        large: whether looking at first places first may pay; for little data it only costs planning.
    """
    carried = ", ".join(f"p.{name}" for name in columns)
    first = _first_places(groups, bits, most) if large else None
    if first is None:
        taken = _one_word("p", most) if bits <= _WORD_BITS else _words("p", bits, most)
        within = f"SELECT p.u, {carried} FROM p LEFT JOIN limits AS l ON p.u = l.u WHERE l.t IS NULL OR p.p <= l.t"
        return {"limits AS NOT MATERIALIZED": _kth_place(taken), "kept AS NOT MATERIALIZED": within}
    nearly = (
        f"SELECT p.u, p.p, l.t, {carried} FROM p LEFT JOIN settled AS l ON p.u = l.u WHERE l.t IS NULL OR p.p <= l.t"
    )
    within = (
        f"SELECT p.u, {carried} FROM nearly AS p LEFT JOIN limits AS l ON p.u = l.u "
        "WHERE p.t IS NOT NULL OR l.t IS NULL OR p.p <= l.t"
    )
    return {
        "settled AS NOT MATERIALIZED": _kth_place(_one_word(f"p WHERE p < {first}", most)),
        "nearly AS MATERIALIZED": nearly,
        "limits AS NOT MATERIALIZED": _kth_place(_words("nearly WHERE t IS NULL", bits, most)),
        "kept AS NOT MATERIALIZED": within,
    }


def _first_places(groups: int, bits: int, most: int) -> int | None:
    """Number of places to look at first: a word, or half of one; None where they would settle too few units."""
    first = min(_WORD, 2 ** (bits - 1))
    taken_by_a_unit_in_all = first * groups // 2**bits
    return first if 2 * taken_by_a_unit_in_all >= 3 * most else None


def _one_word(rows: str, most: int) -> str:
    """Units that take at least ``most`` places below 64: word w = 0, its bits m, and which of them is the last (k)."""
    sets = f"SELECT u, bit_or(1::UBIGINT << p::UBIGINT) AS m FROM {rows} GROUP BY u"
    return f"SELECT u, 0 AS w, m, {most} AS k FROM ({sets}) WHERE bit_count(m) >= {most}"


def _words(rows: str, bits: int, most: int) -> str:
    """The same for all places: w is the word in which the running count of taken places reaches ``most``."""
    words = 2 ** (bits - _WORD_BITS)
    if words > _FEW_WORDS:
        return _many_words(rows, most)
    sets = ", ".join(
        f"bit_or(CASE WHEN p >> 6 = {w} THEN 1::UBIGINT << (p & 63)::UBIGINT ELSE 0 END) AS m{w}" for w in range(words)
    )
    # The number of bits is an 8-bit integer, and sums of such overflow.
    counts = ", ".join(f"bit_count(m{w})::INTEGER AS n{w}" for w in range(words))
    sums = [" + ".join(f"n{v}" for v in range(w)) or "0" for w in range(words + 1)]
    reached = [f"WHEN {sums[w + 1]} >= {most} THEN" for w in range(words)]
    picked = {
        "w": [str(w) for w in range(words)],
        "m": [f"m{w}" for w in range(words)],
        "k": [f"{most} - ({sums[w]})" for w in range(words)],
    }
    chosen = ", ".join(
        f"CASE {' '.join(f'{test} {value}' for test, value in zip(reached, values, strict=True))} END AS {name}"
        for name, values in picked.items()
    )
    counted = f"SELECT *, {counts} FROM (SELECT u, {sets} FROM {rows} GROUP BY u)"
    return f"SELECT u, {chosen} FROM ({counted}) WHERE {sums[words]} >= {most}"


def _many_words(rows: str, most: int) -> str:
    sets = f"SELECT u, p >> 6 AS w, bit_or(1::UBIGINT << (p & 63)::UBIGINT) AS m FROM {rows} GROUP BY u, p >> 6"
    counted = f"SELECT *, bit_count(m)::INTEGER AS n FROM ({sets})"
    running = f"SELECT *, sum(n) OVER (PARTITION BY u ORDER BY w) AS c FROM ({counted})"
    return f"SELECT u, w::INTEGER AS w, m, {most} - (c - n) AS k FROM ({running}) WHERE c >= {most} AND c - n < {most}"


def _kth_place(words: str) -> str:
    """The place t of the k-th bit that is set in m: by counting bits up to the ends of octets, and then within one."""
    octet = " + ".join(f"(bit_count(m & {2 ** (8 * i) - 1}::UBIGINT) < k)::INTEGER" for i in range(1, 8))
    found = f"SELECT *, 8 * ({octet}) AS b FROM ({words})"
    before = "bit_count(m & ((1::UBIGINT << b::UBIGINT) - 1))"
    octets = f"SELECT u, w, b, (m >> b::UBIGINT) & 255 AS m, k - {before} AS k FROM ({found})"
    bit = " + ".join(f"(bit_count(m & {2**i - 1}::UBIGINT) < k)::INTEGER" for i in range(1, 8))
    return f"SELECT u, w * 64 + b + {bit} AS t FROM ({octets})"
