"""Members of JSON in a text: ``x ->> 'key'``, JSON_EXTRACT_STRING, JSON_VALUE and their like.

The databases disagree about numbers, repeated keys, escapes and texts that are no JSON, and PostgreSQL fails at them.
So a member is read by functions of text that are total and the same everywhere: where ``"key":`` first stands, what is
before it must be the beginning of an object with whole members, whose values hold at most three levels of brackets, and
what is behind it a value. A string or number is given as it is written, and so is true or false. NULL is given for
null, objects and lists, strings with a backslash, and a key that stands inside of another member before.
"""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from tacit.query.refusal import Refusal
from tacit.query.relational.expressions import Expression, literal
from tacit.query.relational.functions import call, case
from tacit.query.types import INTEGER, TEXT

#: Calls with the path of a member, such as ``'$.plan'``; of the last, with a key for each level.
PATHS: Final = ("json_extract_string", "json_value", "json_extract_scalar", "get_json_object", "json_extract_path_text")
_PATH: Final = re.compile(r"\$?\.?((?:[^.\[\]*$\"\\]+|\"[^\"\\]+\")(?:\.(?:[^.\[\]*$\"\\]+|\"[^\"\\]+\"))*)")
_KEY: Final = re.compile(r"[^\"\\]{1,60}")
_DEEPEST: Final = 4

_STRING: Final = r'"([^"\\]|\\.)*"'


def _brackets(*inside: str) -> str:
    parts = "|".join((r'[^\[\]{}"]', _STRING, *inside))
    return rf"[\[{{]({parts})*[\]}}]"


#: Three levels of brackets.
_VALUE: Final = rf"([-+.\w]+|{_STRING}|{_brackets(_brackets(_brackets()))})"
#: The beginning of an object, up to a key.
_BEFORE: Final = rf"^\s*\{{(\s*{_STRING}\s*:\s*{_VALUE}\s*,)*\s*$"
_PLAIN_STRING: Final = r'^\s*"[^"\\]*"'
_PLAIN: Final = r"^\s*(-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?|true|false)[\s,}]"


def member(text: Expression, keys: list[str]) -> Expression:
    """The member at a path of keys as a text."""
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
    # The first run of such signs is the value, where it begins with one.
    plain = call("regexp_extract", behind, literal("[-+.0-9a-zA-Z]+", TEXT))
    strings = call("and", *known, call("regexp", behind, literal(_PLAIN_STRING, TEXT)))
    others = call("and", *known, call("regexp", behind, literal(_PLAIN, TEXT)))
    quoted = _part(behind, literal('"', TEXT), 2)
    return case([(strings, quoted), (others, plain)], literal(None, TEXT))


def _part(text: Expression, sign: Expression, place: int) -> Expression:
    return call("split_part", text, sign, literal(place, INTEGER))


def keys_of_path(text: str) -> list[str]:
    """The keys of ``'$.a.b'``, ``'a.b'`` or ``'$."a b"'``; none where it is another path."""
    found = _PATH.fullmatch(text)
    return [part.strip('"') for part in re.findall(r'"[^"]+"|[^."]+', found[1])] if found else []


def arrow(node: exp.Expr) -> tuple[exp.Expr, list[str]]:
    """The text of ``x -> 'a' ->> 'b'`` and the keys."""
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
    """The text of ``x::JSON``."""
    is_json = isinstance(node, exp.Cast) and node.args["to"].this in (exp.DType.JSON, exp.DType.JSONB)
    return node.this if is_json else node
