"""Functions by their SQL names, members of JSON texts, and lists.

*JSON.* ``x ->> 'key'``, JSON_EXTRACT_STRING, JSON_VALUE and their like read a member of a text. The databases disagree
about numbers, repeated keys, escapes and texts that are not JSON, and PostgreSQL fails at them. So a member is read by
functions of text that are total and the same on every engine: the text before the first ``"key":`` must be the
beginning of an object with whole members, whose values hold at most three levels of brackets, and the text after it
must be a value. Strings, numbers, true and false are returned as written. The result is NULL for null, objects and
lists, strings with a backslash, and a key that first occurs inside another member.

*Lists* are texts with a separator. A list is ``STRING_SPLIT(x, ',')``, or a column whose source holds lists: a text in
which U+001F precedes each value. A list is not a value: LIST_CONTAINS tests whether a text is among its values, and
UNNEST returns a row for each of the first :data:`MOST_VALUES` values. These rows belong to the person whose row holds
the list, by a join with a public series, so ownership and the bound on work are those of any join with public rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Final

from sqlglot import exp

from tacit.query.aggregates import SQL_NAMES
from tacit.query.refusal import Refusal
from tacit.query.relational import ownership
from tacit.query.relational.algebra import Field, JoinKind, RelationNode, reference
from tacit.query.relational.expressions import NULL_LITERAL, Expression, Literal, literal, shift
from tacit.query.relational.functions import call, case, cast
from tacit.query.relational.functions.registry import BY_SQL_NAME, check_count
from tacit.query.resolve.times import TIME_FUNCTIONS, Composed
from tacit.query.types import BOOLEAN, DOUBLE, INTEGER, TEXT, union

# -- sql function names and their meanings

_MOST_BUCKETS: Final = 1000


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Aggregates that are not released: those that return a person's own value or a list, and statistics that noise hides.
RAW_AGGREGATES: Final = _words("""
    product fsum kahan_sum sumkahan favg bit_and bit_or bit_xor bool_xor entropy kurtosis
    kurtosis_pop skewness skew mad sem checksum wavg weighted_avg
    any_value arbitrary first first_value last last_value nth_value arg_max arg_min argmax argmin max_by min_by
    arg_max_null arg_min_null list array_agg string_agg group_concat listagg histogram histogram_exact approx_top_k
    reservoir_quantile top_k json_group_array json_group_object json_group_structure
    map_from_entries bitstring_agg array_concat_agg approx_top_count
""")
#: Aggregates that pick the value of one row: the last or the first row in some order, or the least value.
PICKS: Final[dict[str, str]] = {
    **dict.fromkeys(("arg_max", "argmax", "max_by"), "last"),
    **dict.fromkeys(("arg_min", "argmin", "min_by"), "first"),
    **dict.fromkeys(("any_value", "arbitrary"), "least"),
}


def refuse_aggregate(name: str) -> Refusal:
    """Return the refusal of an aggregate that is not released."""
    if name.lower() in PICKS:
        why = "takes the value of one row, which over several persons is one person's own value; group by the unit, or"
    else:
        why = "is not one of the aggregates that are released; for a list of values write COUNT(*) with GROUP BY, else"
    return Refusal("raw_aggregate", f"{name.upper()} {why} use COUNT, SUM, AVG, VARIANCE, MEDIAN or QUANTILE.")


#: Functions whose value changes from call to call, or reveals something about the server.
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


def scalar_call(name: str, args: Sequence[Expression]) -> Expression:
    """Return the call of a function by its SQL name.

    Raises:
        Refusal: for names outside the allow-list, with what to use instead where that is known.
    """
    check_function(name)
    composed = _COMPOSED.get(name.lower())
    if composed is None:
        return call(BY_SQL_NAME[name.lower()], *args)
    check_count(name.upper(), len(args), composed.count)
    return composed.build(*args)


def check_function(name: str) -> None:
    """Refuse a name outside the allow-list, before its arguments are read, which may be keywords of that function.

    Raises:
        Refusal: with what to use instead where that is known.
    """
    word = name.lower()
    if word in BY_SQL_NAME or word in _COMPOSED:
        return
    if word in VOLATILE:
        raise Refusal("volatile", f"{name.upper()} does not depend on the data alone; write the value as a constant.")
    if word in RAW_AGGREGATES or word in SQL_NAMES or word in WINDOW_ONLY:
        raise refuse_aggregate(name)
    raise Refusal(
        "function", f"The function {name.upper()[:40]} is not supported; the page What can be asked lists all.", at=name
    )


def function_meanings() -> dict[str, str]:
    """Return the SQL names of all functions of row values, sorted, each with its id in the registry."""
    return {name: BY_SQL_NAME.get(name, name) for name in sorted({*BY_SQL_NAME, *_COMPOSED})}


def _regular_expression(pattern: Expression, options: Expression | None = None) -> str:
    """Return a pattern with the options 'i' (ignore case), 'c' and 'g' (which change nothing) applied."""
    texts = [
        part.value if isinstance(part, Literal) and isinstance(part.value, str) else None
        for part in (pattern, literal("", TEXT) if options is None else options)
    ]
    if texts[0] is None or texts[1] is None:
        raise Refusal(
            "arguments", "A regular expression takes a text, a pattern and options, the last two written out."
        )
    if set(texts[1]) - set("icg"):
        raise Refusal("arguments", f"Of the options of regular expressions 'i' is known, not {texts[1][:10]!r}.")
    return f"(?i){texts[0]}" if "i" in texts[1] else texts[0]


def _regexp_matches(text: Expression, *rest: Expression) -> Expression:
    return call("regexp", text, literal(_regular_expression(*rest), TEXT))


def _regexp_full_match(text: Expression, *rest: Expression) -> Expression:
    pattern = _regular_expression(*rest)
    flag = "(?i)" if pattern.startswith("(?i)") else ""
    return call("regexp", text, literal(f"{flag}^(?:{pattern[len(flag) :]})$", TEXT))


def _regexp_replace(*args: Expression) -> Expression:
    if len(args) < 4 or not isinstance(args[3], Literal) or args[3].value != "g":
        raise Refusal(
            "arguments",
            "REGEXP_REPLACE takes a text, a set of characters, the replacement and 'g': whether it replaces the first "
            "place or all of them without 'g' differs from engine to engine.",
        )
    return call("regexp_replace", *args[:3])


def _width_bucket(*args: Expression) -> Expression:
    """Return the number of x's bucket among n equal ones between lo and hi: 0 below lo, n + 1 from hi on."""
    ends = [arg.value if isinstance(arg, Literal) and arg.type.is_numeric else None for arg in args[1:]]
    if any(end is None for end in ends) or ends[0] >= ends[1]:  # type: ignore[operator]
        raise Refusal("arguments", "WIDTH_BUCKET takes a value, two ends lo < hi and a number of buckets, written out.")
    if not isinstance(ends[2], int) or not 1 <= ends[2] <= _MOST_BUCKETS:
        raise Refusal("arguments", f"WIDTH_BUCKET makes between 1 and {_MOST_BUCKETS} buckets.")
    value, low, high, count = args
    share = call("div", call("mul", call("sub", value, low), count), call("sub", high, low))
    number = call("add", call("floor", share), literal(1, INTEGER))
    return call("clamp", number, literal(0, INTEGER), literal(ends[2] + 1, INTEGER))


def _datediff(*args: Expression) -> Expression:
    """Return DATEDIFF('day', a, b), or for DATEDIFF(a, b) the days from b to a."""
    return call("date_diff", literal("day", TEXT), args[1], args[0]) if len(args) == 2 else call("date_diff", *args)


def _atanh(value: Expression) -> Expression:
    """Return ½ ln((1 + x) / (1 - x)); NULL for x ≤ -1 and x ≥ 1."""
    one = literal(1.0, DOUBLE)
    return call("mul", literal(0.5, DOUBLE), call("ln", call("div", call("add", one, value), call("sub", one, value))))


#: Functions that are composed of other functions, by SQL name.
_COMPOSED: Final[dict[str, Composed]] = {
    **dict.fromkeys(
        ("if", "iif", "iff"), Composed((2, 3), lambda when, then, other=NULL_LITERAL: case([(when, then)], other))
    ),
    "pi": Composed(0, lambda: literal(math.pi, DOUBLE)),
    "atanh": Composed(1, _atanh),
    "charindex": Composed(2, lambda wanted, text: call("strpos", text, wanted)),
    "datediff": Composed((2, 3), _datediff),
    "nullif": Composed(2, lambda x, y: case([(call("eq", x, y), literal(None, x.type))], x)),
    **dict.fromkeys(("regexp_matches", "regexp_like", "regexp_contains"), Composed((2, 3), _regexp_matches)),
    "regexp_full_match": Composed((2, 3), _regexp_full_match),
    "regexp_replace": Composed((3, 4), _regexp_replace),
    "width_bucket": Composed(4, _width_bucket),
    **TIME_FUNCTIONS,
}


# -- members of json in a text

#: Functions that take the path of a member, such as ``'$.plan'``; the last one takes one key per level.
PATHS: Final = ("json_extract_string", "json_value", "json_extract_scalar", "get_json_object", "json_extract_path_text")
_PATH: Final = re.compile(r"\$?\.?((?:[^.\[\]*$\"\\]+|\"[^\"\\]+\")(?:\.(?:[^.\[\]*$\"\\]+|\"[^\"\\]+\"))*)")
_KEY: Final = re.compile(r"[^\"\\]{1,60}")
_DEEPEST: Final = 4

_STRING: Final = r'"([^"\\]|\\.)*"'


def _brackets(*inside: str) -> str:
    parts = "|".join((r'[^\[\]{}"]', _STRING, *inside))
    return rf"[\[{{]({parts})*[\]}}]"


#: A JSON value with at most three levels of brackets.
_VALUE: Final = rf"([-+.\w]+|{_STRING}|{_brackets(_brackets(_brackets()))})"
#: The beginning of an object, up to a key.
_BEFORE: Final = rf"^\s*\{{(\s*{_STRING}\s*:\s*{_VALUE}\s*,)*\s*$"
_PLAIN_STRING: Final = r'^\s*"[^"\\]*"'
_PLAIN: Final = r"^\s*(-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?|true|false)[\s,}]"


def member(text: Expression, keys: list[str]) -> Expression:
    """Return the member at a path of keys, as TEXT."""
    if text.type != TEXT:
        raise Refusal("type", f"JSON is read out of texts, not {text.type}.")
    if not keys or len(keys) > _DEEPEST or not all(_KEY.fullmatch(key) for key in keys):
        raise Refusal("arguments", f"A member of JSON is named by up to {_DEEPEST} keys, as in '$.address.city'.")
    known: list[Expression] = []
    behind = call("replace", text, literal('" :', TEXT), literal('":', TEXT))
    for key in keys:
        sign = literal(f'"{key}":', TEXT)
        known.append(call("regexp", _part(behind, sign, 1), literal(_BEFORE, TEXT)))
        behind = _part(behind, sign, 2)
    # The first run of these characters is the value, where the text begins with one.
    plain = call("regexp_extract", behind, literal("[-+.0-9a-zA-Z]+", TEXT))
    strings = call("and", *known, call("regexp", behind, literal(_PLAIN_STRING, TEXT)))
    others = call("and", *known, call("regexp", behind, literal(_PLAIN, TEXT)))
    quoted = _part(behind, literal('"', TEXT), 2)
    return case([(strings, quoted), (others, plain)], literal(None, TEXT))


def _part(text: Expression, sign: Expression, place: int) -> Expression:
    return call("split_part", text, sign, literal(place, INTEGER))


def keys_of_path(text: str) -> list[str]:
    """Return the keys of ``'$.a.b'``, ``'a.b'`` or ``'$."a b"'``; none for any other path."""
    found = _PATH.fullmatch(text)
    return [part.strip('"') for part in re.findall(r'"[^"]+"|[^."]+', found[1])] if found else []


def arrow(node: exp.Expr) -> tuple[exp.Expr, list[str]]:
    """Return the text and the keys of ``x -> 'a' ->> 'b'``."""
    keys: list[str] = []
    while isinstance(node, (exp.JSONExtract, exp.JSONExtractScalar, exp.Paren)):
        path = node.args.get("expression")
        if path is not None:
            parts = path.expressions if isinstance(path, exp.JSONPath) else [path]
            named = [part for part in parts if not isinstance(part, exp.JSONPathRoot)]
            if not all(isinstance(part, exp.JSONPathKey) and isinstance(part.this, str) for part in named):
                raise Refusal("arguments", "Members of JSON are named by keys, as in x ->> '$.address.city'.")
            keys = [*(part.this for part in named), *keys]
        node = node.this
    return without_cast(node), keys


def without_cast(node: exp.Expr) -> exp.Expr:
    """Return x for ``x::JSON``; any other node unchanged."""
    is_json = isinstance(node, exp.Cast) and node.args["to"].this in (exp.DType.JSON, exp.DType.JSONB)
    return node.this if is_json else node


# -- lists

#: Separator before each value of a stored list.
SEPARATOR: Final = "\x1f"
#: Most values of a list that become rows.
MOST_VALUES: Final = 64
_SPLITS: Final = ("string_split", "str_split", "split", "string_to_array")
#: Membership tests that take the list first.
CONTAINS: Final = ("list_contains", "list_has", "array_contains", "array_has")
Resolve = Callable[[exp.Expr], Expression]


def contains(name: str, args: list[exp.Expr], resolve: Resolve) -> Expression:
    """LIST_CONTAINS(list, 'value').

    With the separator before and after the whole text, a value is in the list if it stands between two separators. No
    separator overlaps with itself, so every occurrence divides values.
    """
    if len(args) != 2:
        raise Refusal("arguments", f"{name.upper()} takes a list and a value.")
    values, sign, stored = _list_of(name, args[0], resolve)
    wanted = resolve(args[1])
    if not isinstance(wanted, Literal) or wanted.value is None:
        raise Refusal("arguments", f"{name.upper()} asks for a value that is written out.")
    text = cast(wanted, TEXT)
    found = str(text.value) if isinstance(text, Literal) else ""
    if sign in found or (stored and not found):
        # No value of the list can be this text.
        return call("and", call("is_null", values), literal(None, BOOLEAN))
    around = literal(sign, TEXT)
    whole = call("join_text", values, around) if stored else call("join_text", around, values, around)
    return call("contains", whole, literal(f"{sign}{found}{sign}", TEXT))


def _list_of(name: str, node: exp.Expr, resolve: Resolve) -> tuple[Expression, str, bool]:
    """Return the text of a list, its separator, and whether it is stored, with the separator before each value."""
    if not isinstance(node, exp.Anonymous) or node.name.lower() not in _SPLITS:
        found = resolve(node)
        if found.type != TEXT:
            raise Refusal("type", f"{name.upper()} takes a list, not {found.type}; STRING_SPLIT(x, ',') makes one.")
        return found, SEPARATOR, True
    value, sign = (resolve(part) for part in node.expressions) if len(node.expressions) == 2 else (None, None)
    text = sign.value if isinstance(sign, Literal) and isinstance(sign.value, str) else ""
    if value is None or value.type != TEXT or not text or any(text[:i] == text[-i:] for i in range(1, len(text))):
        raise Refusal("arguments", "STRING_SPLIT takes a text and a sign that divides it, written out, such as ','.")
    return value, text, False


def unnested(source: RelationNode, node: exp.Expr, resolve: Resolve) -> tuple[RelationNode, Expression]:
    """Return the rows of a source, once for each value of a list in them, and the expression of that value."""
    values, sign, stored = _list_of("UNNEST", node, resolve)
    places = [literal(place, INTEGER) for place in range(1, MOST_VALUES + 1)]
    series = ownership.constants(
        [(place,) for place in places], (Field("place", INTEGER, union([place.domain for place in places], INTEGER)),)
    )
    text = call("substring", values, literal(2, INTEGER)) if stored else values
    gone = call(
        "sub", call("length", text), call("length", call("replace", text, literal(sign, TEXT), literal("", TEXT)))
    )
    number = call("add", call("int_div", gone, literal(len(sign), INTEGER)), literal(1, INTEGER))
    width = len(source.fields)
    within = call("le", shift(reference(series, 0), width), number)
    if stored:
        within = call("and", within, call("starts_with", values, literal(sign, TEXT)))
    joined = ownership.join_beside(source, series, JoinKind.INNER, within)
    return joined, call("list_part", text, literal(sign, TEXT), reference(joined, width))
