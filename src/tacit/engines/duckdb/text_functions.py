"""Text functions of DuckDB: code points and the order of UTF-8 bytes."""

from __future__ import annotations

from tacit.engines.sql.dialect import Dialect
from tacit.engines.sql.functions.lowering import Args, Lowering, plain, text_argument
from tacit.query.relational.expressions import Call
from tacit.query.relational.functions.regular_expressions import written

__all__ = ["TEXTS"]

_SMALL_ONLY = "ßᾀᾁᾂᾃᾄᾅᾆᾇᾐᾑᾒᾓᾔᾕᾖᾗᾠᾡᾢᾣᾤᾥᾦᾧᾳῃῳ"
_CAPITAL_ONLY = "İ"


def _all(template: str, separator: str) -> Lowering:
    def lower(d: Dialect, node: Call, args: Args) -> str:  # noqa: ARG001 - one shape for all lowerings
        return template.format(separator.join(args))

    return lower


def _letters(name: str, fixed: str) -> Lowering:
    """Case mapping that leaves the letters ``fixed`` alone, which Unicode maps to several and DuckDB to one.

    They hide behind code points that Unicode sets aside for internal use and no text contains.
    """
    stand_ins = "".join(chr(0xFDD0 + i) for i in range(len(fixed)))
    hidden = f"translate({{0}}, '{fixed}', '{stand_ins}')"
    kept = f"translate({name}({hidden}), '{stand_ins}', '{fixed}')"
    # Looking at every letter is slow, and few texts have such letters: a text of one byte a letter has none.
    template = f"CASE WHEN strlen({{0}}) = length({{0}}) THEN {name}({{0}}) ELSE {kept} END"
    return lambda d, node, args: d.let(args[0], template.format)  # noqa: ARG005 - one shape for all lowerings


def _pattern(d: Dialect, node: Call) -> str:
    """The pattern for RE2, which takes linear time."""
    return d.text(written(text_argument(node, 1), lambda point: f"\\x{{{point:x}}}"))


def _regexp(d: Dialect, node: Call, args: Args) -> str:
    return f"regexp_matches({args[0]}, {_pattern(d, node)})"


def _run(template: str) -> Lowering:
    return lambda d, node, args: template.format(args[0], _pattern(d, node), *args[2:])


def _substring(d: Dialect, node: Call, args: Args) -> str:  # noqa: ARG001
    return f"substring({', '.join(args)})"


TEXTS: dict[str, Lowering] = {
    "upper": _letters("upper", _SMALL_ONLY),
    "lower": _letters("lower", _CAPITAL_ONLY),
    "trim": plain("trim({0}, ' ')"),
    "ltrim": plain("ltrim({0}, ' ')"),
    "rtrim": plain("rtrim({0}, ' ')"),
    "length": plain("CAST(length({0}) AS BIGINT)"),
    "strpos": plain("CAST(strpos({0}, {1}) AS BIGINT)"),
    "contains": plain("contains({0}, {1})"),
    "starts_with": plain("starts_with({0}, {1})"),
    "ends_with": plain("ends_with({0}, {1})"),
    "substring": _substring,
    "left": plain("left({0}, {1})"),
    "right": plain("right({0}, {1})"),
    "lpad": plain("lpad({0}, CAST({1} AS INTEGER), {2})"),
    "rpad": plain("rpad({0}, CAST({1} AS INTEGER), {2})"),
    "split_part": plain("split_part({0}, {1}, {2})"),
    "replace": plain("replace({0}, {1}, {2})"),
    "concat_ws": _all("concat_ws({0})", ", "),
    "repeat": plain("repeat({0}, {1})"),
    "regexp": _regexp,
    "regexp_extract": _run("regexp_extract({0}, {1})"),
    "regexp_replace": _run("regexp_replace({0}, {1}, {2}, 'g')"),
    "join_text": _all("({0})", " || "),
    "concat": _all("concat({0})", ", "),
    # LIKE has no escape character.
    "like": plain("({0} LIKE {1})"),
    "ilike": plain("(lower({0}) LIKE lower({1}))"),
}
