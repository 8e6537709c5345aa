"""SQL function names and their meanings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from tacit.query.aggregates import SQL_NAMES
from tacit.query.refusal import Refusal
from tacit.query.relational.expressions import NULL_LITERAL, Expression, Literal, literal
from tacit.query.relational.functions import call, case
from tacit.query.resolve.time_functions import PARTS, TIME_FUNCTIONS
from tacit.query.types import DOUBLE, INTEGER, TEXT

_MOST_BUCKETS: Final = 1000


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Statistics of many rows that are not released: none of them is a person's own value.
STATISTICS: Final = _words("""
    product geomean geometric_mean fsum kahan_sum sumkahan favg bit_and bit_or bit_xor bool_xor entropy kurtosis
    kurtosis_pop skewness skew mad sem checksum wavg weighted_avg
""")

#: Aggregates that are not released: those, and those that return a person's own value or an unbounded collection.
RAW_AGGREGATES: Final = STATISTICS | _words("""
    any_value arbitrary first first_value last last_value nth_value arg_max arg_min argmax argmin max_by min_by
    arg_max_null arg_min_null list array_agg string_agg group_concat listagg histogram histogram_exact approx_top_k
    reservoir_quantile top_k json_group_array json_group_object json_group_structure
    map_from_entries bitstring_agg array_concat_agg approx_top_count
""")
#: Those that list values with their numbers.
LISTS_OF_VALUES: Final = _words("histogram histogram_exact top_k approx_top_k approx_top_count")
#: Of these, the ones that list or describe values; a list of values would hold persons' own.
_INSTEAD_OF_LISTS: Final = {
    **dict.fromkeys(("histogram", "histogram_exact"), "COUNT(*) with GROUP BY x or WIDTH_BUCKET(x, 10)"),
    **dict.fromkeys(
        ("top_k", "approx_top_k", "approx_top_count"), "COUNT(*) AS n with GROUP BY x ORDER BY n DESC LIMIT 5"
    ),
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
_INSTEAD: Final = {
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
    if word in STATISTICS:
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
    inet_server_addr stats rowid ctid getdate getutcdate sysdate sysdatetime current_datetime
""")

#: Functions that exist only as windows.
WINDOW_ONLY: Final = _words("""
    row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value
""")

_SAME = _words("""
    abs sign floor ceil round trunc sqrt cbrt exp ln log2 log10 power least greatest clamp coalesce upper lower
    length strpos contains starts_with ends_with left right lpad rpad split_part replace concat date_trunc date_diff
    make_date last_day trim ltrim rtrim substring mod concat_ws repeat regexp_extract
""")
_OTHERS: Final[dict[str, str]] = {
    "ceiling": "ceil", "pow": "power", "ucase": "upper", "lcase": "lower", "len": "length", "char_length": "length",
    "character_length": "length", "instr": "strpos", "prefix": "starts_with", "suffix": "ends_with",
    "substr": "substring", "btrim": "trim", "startswith": "starts_with", "endswith": "ends_with",
    "datetrunc": "date_trunc", "datefromparts": "make_date", "date_from_parts": "make_date", "ifnull": "coalesce",
    "nvl": "coalesce", "log": "log10", "safe_divide": "div",
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
    check_function(name)
    word = name.lower()
    return _SPECIAL[word](args) if word in _SPECIAL else call(_BY_NAME[word], *args)


def check_function(name: str) -> None:
    """Refuse a name outside the allow-list; before arguments are read, which may be words of the function alone.

    Raises:
        Refusal: with what to use instead where that is known.
    """
    word = name.lower()
    if word in _SPECIAL or word in _BY_NAME:
        return
    if word in VOLATILE:
        raise Refusal("volatile", f"{name.upper()} does not depend on the data alone; write the value as a constant.")
    if word in RAW_AGGREGATES or word in SQL_NAMES or word in WINDOW_ONLY:
        raise refuse_aggregate(name)
    raise Refusal(
        "function", f"The function {name.upper()[:40]} is not supported; the page What can be asked lists all.", at=name
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


def _pattern(args: Sequence[Expression]) -> str:
    """The pattern of a regular expression, with the options 'i' (ignore case), 'c' and 'g' (which change nothing)."""
    constants = [arg.value if isinstance(arg, Literal) else None for arg in args[1:]]
    if len(args) not in (2, 3) or not all(isinstance(value, str) for value in constants):
        raise Refusal(
            "arguments", "A regular expression takes a text, a pattern and options, the last two written out."
        )
    pattern, options = str(constants[0]), "".join(map(str, constants[1:]))
    if set(options) - set("icg"):
        raise Refusal("arguments", f"Of the options of regular expressions 'i' is known, not {options[:10]!r}.")
    return f"(?i){pattern}" if "i" in options else pattern


def _regexp_matches(args: Sequence[Expression]) -> Expression:
    return call("regexp", args[0], literal(_pattern(args), TEXT)) if args else call("regexp")


def _regexp_full_match(args: Sequence[Expression]) -> Expression:
    pattern = _pattern(args)
    flag = "(?i)" if pattern.startswith("(?i)") else ""
    return call("regexp", args[0], literal(f"{flag}^(?:{pattern[len(flag) :]})$", TEXT))


def _regexp_replace(args: Sequence[Expression]) -> Expression:
    options = args[3].value if len(args) == 4 and isinstance(args[3], Literal) else None
    if options != "g":
        raise Refusal(
            "arguments",
            "REGEXP_REPLACE takes a text, a set of characters, the replacement and 'g': whether it replaces the first "
            "place or all of them without 'g' differs from engine to engine.",
        )
    return call("regexp_replace", *args[:3])


def _width_bucket(args: Sequence[Expression]) -> Expression:
    """The number of the bucket of x among n equal ones between lo and hi: 0 below, n + 1 from hi on.

    WIDTH_BUCKET(x, n) takes the bounds of x, and the last bucket has its upper bound.
    """
    if len(args) == 2:
        return _bucket_of_bounds(*args)
    ends = [arg.value if isinstance(arg, Literal) and arg.type.is_numeric else None for arg in args[1:]]
    if len(args) != 4 or any(end is None for end in ends) or ends[0] >= ends[1]:  # type: ignore[operator]
        raise Refusal("arguments", "WIDTH_BUCKET takes a value, two ends lo < hi and a number of buckets, written out.")
    if not isinstance(ends[2], int) or not 1 <= ends[2] <= _MOST_BUCKETS:
        raise Refusal("arguments", f"WIDTH_BUCKET makes between 1 and {_MOST_BUCKETS} buckets.")
    value, low, high, count = args
    share = call("div", call("mul", call("sub", value, low), count), call("sub", high, low))
    number = call("add", call("floor", share), literal(1, INTEGER))
    return call("clamp", number, literal(0, INTEGER), literal(ends[2] + 1, INTEGER))


def _bucket_of_bounds(value: Expression, count: Expression) -> Expression:
    bounds = value.range.ends
    if not value.type.is_numeric or bounds is None or bounds[0] >= bounds[1]:
        raise Refusal("bounds", "WIDTH_BUCKET(x, n) needs a number with bounds; write WIDTH_BUCKET(x, lo, hi, n).")
    ends = [literal(int(end), INTEGER) if end.denominator == 1 else literal(float(end), DOUBLE) for end in bounds]
    bucket = _width_bucket((value, *ends, count))
    return call("clamp", bucket, literal(1, INTEGER), count)


def _datediff(args: Sequence[Expression]) -> Expression:
    """DATEDIFF('day', a, b), or the days from b to a of DATEDIFF(a, b)."""
    return call("date_diff", literal("day", TEXT), args[1], args[0]) if len(args) == 2 else call("date_diff", *args)


def _isnull(args: Sequence[Expression]) -> Expression:
    if len(args) != 2:
        raise Refusal("arguments", "ISNULL takes 2 arguments, the second in place of NULL; write x IS NULL to ask.")
    return call("coalesce", *args)


def _charindex(args: Sequence[Expression]) -> Expression:
    if len(args) != 2:
        raise Refusal("arguments", "CHARINDEX takes 2 arguments, what is looked for and the text.")
    return call("strpos", args[1], args[0])


def _pi(args: Sequence[Expression]) -> Expression:
    if args:
        raise Refusal("arguments", "PI takes no arguments.")
    return literal(math.pi, DOUBLE)


def _atanh(args: Sequence[Expression]) -> Expression:
    """The half of ln((1 + x) / (1 - x)); NULL from -1 and 1 on."""
    if len(args) != 1:
        raise Refusal("arguments", "ATANH takes 1 argument.")
    one = literal(1.0, DOUBLE)
    return call(
        "mul", literal(0.5, DOUBLE), call("ln", call("div", call("add", one, args[0]), call("sub", one, args[0])))
    )


_SPECIAL: Final[dict[str, Callable[[Sequence[Expression]], Expression]]] = {
    "if": _if,
    "iif": _if,
    "iff": _if,
    "pi": _pi,
    "atanh": _atanh,
    "isnull": _isnull,
    "charindex": _charindex,
    "datediff": _datediff,
    "nullif": _nullif,
    **dict.fromkeys(("regexp_matches", "regexp_like", "regexp_contains"), _regexp_matches),
    "regexp_full_match": _regexp_full_match,
    "regexp_replace": _regexp_replace,
    "width_bucket": _width_bucket,
    **TIME_FUNCTIONS,
}
