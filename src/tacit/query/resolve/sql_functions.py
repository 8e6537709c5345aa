"""SQL function names and their meanings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tacit.query.aggregates import SQL_NAMES
from tacit.query.refusal import Refusal
from tacit.query.relational.expressions import NULL_LITERAL, Expression, literal
from tacit.query.relational.functions import call, case
from tacit.query.resolve.time_functions import PARTS, TIME_FUNCTIONS

__all__ = ["PICKS", "RAW_AGGREGATES", "VOLATILE", "WINDOW_ONLY", "function_meanings", "refuse_aggregate", "scalar_call"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Statistics of many rows that are not released: none of them is a person's own value.
_STATISTICS: Final = _words("""
    product geomean geometric_mean fsum kahan_sum sumkahan favg bit_and bit_or bit_xor bool_xor entropy kurtosis
    kurtosis_pop skewness mad covar_pop covar_samp corr regr_slope regr_intercept regr_count regr_r2 regr_avgx
    regr_avgy regr_sxx regr_sxy regr_syy sem checksum wavg weighted_avg approx_count_distinct approx_quantile
""")

#: Aggregates that are not released: those, and those that return a person's own value or an unbounded collection.
RAW_AGGREGATES: Final = _STATISTICS | _words("""
    any_value arbitrary first first_value last last_value nth_value arg_max arg_min argmax argmin max_by min_by
    arg_max_null arg_min_null list array_agg string_agg group_concat listagg histogram histogram_exact approx_top_k
    reservoir_quantile quantile_disc percentile_disc json_group_array json_group_object json_group_structure
    map_from_entries bitstring_agg array_concat_agg
""")
#: Of these, the ones that list or describe values; a list of values would hold persons' own.
_INSTEAD_OF_LISTS: Final = {
    **dict.fromkeys(("histogram", "histogram_exact", "approx_top_k"), "COUNT(*) with GROUP BY, or TOP_K(x, k)"),
    **dict.fromkeys(("reservoir_quantile", "quantile_disc", "percentile_disc"), "QUANTILE(x, 0.5)"),
    **dict.fromkeys(("map_from_entries", "bitstring_agg"), "COUNT(*) with GROUP BY"),
}
#: Aggregates that pick the value of one row: whether the last row in some order counts, the first, or the least value.
PICKS: Final[dict[str, str]] = {
    **dict.fromkeys(("arg_max", "argmax", "max_by"), "last"),
    **dict.fromkeys(("arg_min", "argmin", "min_by"), "first"),
    **dict.fromkeys(("any_value", "arbitrary"), "least"),
    "first": "first",
    "last": "last",
}
_PAIRS: Final = frozenset(name for name in _STATISTICS if name.startswith(("covar_", "corr", "regr_")))
_INSTEAD: Final = {
    "approx_count_distinct": "COUNT(DISTINCT x)",
    "approx_quantile": "QUANTILE(x, 0.5)",
    "fsum": "SUM(x)",
    "kahan_sum": "SUM(x)",
    "sumkahan": "SUM(x)",
    "favg": "AVG(x)",
}


def refuse_aggregate(name: str) -> Refusal:
    """The refusal of an aggregate that is not released, with the reason that is true of it."""
    word, shown = name.lower(), name.upper()
    if word in _INSTEAD_OF_LISTS:
        return Refusal(
            "raw_aggregate",
            f"{shown} is not one of the aggregates that can be released; use {_INSTEAD_OF_LISTS[word]}.",
        )
    if word in PICKS:
        return Refusal(
            "raw_aggregate",
            f"{shown} takes the value of one row, which over several persons is one person's own value; group by the "
            f"unit, or use AVG, MEDIAN or QUANTILE.",
        )
    if word in _INSTEAD:
        return Refusal("raw_aggregate", f"{shown} is not released directly; use {_INSTEAD[word]}.")
    if word in _PAIRS:
        return Refusal(
            "raw_aggregate",
            f"{shown} is not one of the aggregates that can be released; ask for COUNT(*), SUM(x), SUM(y), SUM(x * y), "
            f"SUM(x * x) and SUM(y * y) in one question, and compute it from them.",
        )
    if word in _STATISTICS:
        return Refusal(
            "raw_aggregate",
            f"{shown} is not one of the aggregates that can be released; use COUNT, SUM, AVG, VARIANCE, MEDIAN or "
            f"QUANTILE.",
        )
    return Refusal(
        "raw_aggregate", f"{shown} would return a person's own value; use COUNT, SUM, AVG, MEDIAN or QUANTILE."
    )


#: Functions whose value changes from call to call, or tells about the server.
VOLATILE: Final = _words("""
    random rand uuid gen_random_uuid uuidv4 uuidv7 setseed now today current_date current_time current_timestamp
    current_localtime current_localtimestamp get_current_time get_current_timestamp localtime localtimestamp
    transaction_timestamp statement_timestamp clock_timestamp timeofday txid_current current_user session_user user
    current_schema current_schemas current_database current_catalog current_query current_setting current_role
    version pg_backend_pid nextval currval lastval pg_sleep sleep getvariable getenv in_search_path inet_client_addr
    inet_server_addr stats rowid ctid
""")

#: Functions that exist only as windows.
WINDOW_ONLY: Final = _words("""
    row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value
""")

_SAME = _words("""
    abs sign floor ceil round trunc sqrt cbrt exp ln log2 log10 power least greatest clamp coalesce upper lower
    length strpos contains starts_with ends_with left right lpad rpad split_part replace concat date_trunc date_diff
    make_date last_day trim ltrim rtrim substring mod
""")
_OTHERS: Final[dict[str, str]] = {
    "ceiling": "ceil", "pow": "power", "ucase": "upper", "lcase": "lower", "len": "length", "char_length": "length",
    "character_length": "length", "instr": "strpos", "prefix": "starts_with", "suffix": "ends_with",
    "substr": "substring",
    "datetrunc": "date_trunc", "datediff": "date_diff", "ifnull": "coalesce", "nvl": "coalesce", "log": "log10",
    **{name: part for name, part in PARTS.items() if name in (
        "year", "quarter", "month", "week", "weekofyear", "day", "dayofmonth", "dayofweek", "weekday", "isodow",
        "dayofyear", "hour", "minute", "second", "isoyear",
    )},
}  # fmt: skip
_BY_NAME: Final[dict[str, str]] = {**{name: name for name in _SAME}, **_OTHERS}


def scalar_call(name: str, args: Sequence[Expression]) -> Expression:
    """The function a query calls by name.

    Raises:
        Refusal: for names outside the allow-list, with what to use instead where that is known.
    """
    word = name.lower()
    if word in _SPECIAL:
        return _SPECIAL[word](args)
    if word in _BY_NAME:
        return call(_BY_NAME[word], *args)
    if word in VOLATILE:
        raise Refusal("volatile", f"{name.upper()} does not depend on the data alone; write the value as a constant.")
    if word in RAW_AGGREGATES or word in SQL_NAMES or word in WINDOW_ONLY:
        raise refuse_aggregate(name)
    raise Refusal(
        "function", f"The function {name.upper()[:40]} is not supported; the page What can be asked lists all."
    )


def function_meanings() -> dict[str, str]:
    """The names of all functions of row values, sorted, each with the id that it has in the registry."""
    return {name: _BY_NAME.get(name, name) for name in sorted({*_BY_NAME, *_SPECIAL})}


def _if(args: Sequence[Expression]) -> Expression:
    if len(args) not in (2, 3):
        raise Refusal("arguments", "IF takes a condition and one or two values.")
    return case([(args[0], args[1])], args[2] if len(args) == 3 else NULL_LITERAL)


def _nullif(args: Sequence[Expression]) -> Expression:
    if len(args) != 2:
        raise Refusal("arguments", "NULLIF takes 2 arguments.")
    return case([(call("eq", args[0], args[1]), literal(None, args[0].type))], args[0])


def _safe_divide(args: Sequence[Expression]) -> Expression:
    return call("div", *args)


_SPECIAL: Final[dict[str, Callable[[Sequence[Expression]], Expression]]] = {
    "if": _if,
    "nullif": _nullif,
    "safe_divide": _safe_divide,
    **TIME_FUNCTIONS,
}
