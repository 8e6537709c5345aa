"""Statements in a text: where each begins, its kind, and its parameters.

No privacy decision is made here. The planner gets a query as the analyst wrote it, but without the schema ``public`` in
front of declared tables and with literals in place of parameters, and parses it from the beginning.

A parameter's position is determined from the tokens of the text, so it is never in a quoted text or a comment. It is
replaced by a literal that SQLGlot's generator writes; the result is then tokenized again, and must consist of the same
tokens with the literals between them.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from tacit.query import limits
from tacit.query.catalog import Catalog
from tacit.query.refusal import Refusal
from tacit.server.pgwire.protocol import (
    BOOL,
    DATE_OID,
    FLOAT8,
    INT8,
    NUMERIC,
    TEXT_OID,
    TIMESTAMP_OID,
    TYPES,
    BadValue,
    StatementFault,
    oid_of,
)

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.dialects.dialect import Dialect

#: Maximum number of statements of one text.
MAX_STATEMENTS: Final = 64
_OPAQUE: Final = frozenset({"COMMAND", "EXECUTE", "FETCH", "SHOW", "RENAME"})
#: A parameter followed by no space; quoted texts and comments are skipped.
_PARAMETER: Final = re.compile(
    r"""'[^']*(?:'|\Z) | "[^"]*(?:"|\Z) | --[^\n]* | /\*.*?(?:\*/|\Z)
    | \$\$.*?(?:\$\$|\Z) | \$(?P<mark>[^\W\d]\w*)\$.*?(?:\$(?P=mark)\$|\Z)
    | (?<![\w$])(?P<parameter>\$\d{1,4})(?=[^\s\w])""",
    re.DOTALL | re.VERBOSE,
)
_SYSTEM: Final = frozenset({"pg_catalog", "information_schema"})


class StatementKind(Enum):
    """Kinds of statements; the planner refuses ``OTHER``, with a message for analysts."""

    EMPTY = "empty"
    QUERY = "query"
    CATALOGUE = "catalogue"
    EXPLAIN = "explain"
    SET = "set"
    RESET = "reset"
    SHOW = "show"
    BEGIN = "begin"
    COMMIT = "commit"
    ROLLBACK = "rollback"
    SAVEPOINT = "savepoint"
    RELEASE = "release"
    DEALLOCATE = "deallocate"
    DISCARD = "discard"
    NOTHING = "nothing"
    OTHER = "other"


_BY_WORD: Final = {
    "EXPLAIN": StatementKind.EXPLAIN, "SET": StatementKind.SET, "RESET": StatementKind.RESET,
    "SHOW": StatementKind.SHOW, "BEGIN": StatementKind.BEGIN, "START": StatementKind.BEGIN,
    "COMMIT": StatementKind.COMMIT, "END": StatementKind.COMMIT, "ROLLBACK": StatementKind.ROLLBACK,
    "ABORT": StatementKind.ROLLBACK, "SAVEPOINT": StatementKind.SAVEPOINT, "RELEASE": StatementKind.RELEASE,
    "DEALLOCATE": StatementKind.DEALLOCATE, "DISCARD": StatementKind.DISCARD,
    "UNLISTEN": StatementKind.NOTHING, "CLOSE": StatementKind.NOTHING,
}  # fmt: skip
_READS: Final = frozenset({"SELECT", "SUMMARIZE", "WITH", "VALUES", "FROM", "TABLE", "("})


@cache
def _dialect(name: str) -> Dialect:
    from sqlglot.dialects.dialect import Dialect

    return Dialect.get_or_raise(name)


@dataclass(frozen=True, slots=True)
class Word:
    """A token: its text without quotes, its kind, and its position in the statement."""

    text: str
    kind: str
    start: int
    end: int

    @property
    def upper(self) -> str:
        """The token in capitals; empty for quoted names and constants."""
        return "" if self.kind in ("STRING", "IDENTIFIER", "NUMBER", "HEREDOC_STRING") else self.text.upper()

    @property
    def is_name(self) -> bool:
        """Whether the token can be a name."""
        return self.kind == "IDENTIFIER" or (self.text[:1].isalpha() or self.text[:1] == "_")


@dataclass(frozen=True, slots=True)
class WireStatement:
    """One statement of a text, as written but without the semicolon, with its tokens and its kind."""

    text: str
    words: tuple[Word, ...]
    kind: StatementKind

    @property
    def parameters(self) -> int:
        """Number of parameters: the largest n of any ``$n``."""
        return max((number for _, number in self._parameters()), default=0)

    def upper(self, place: int) -> str:
        """Return the token at an index in capitals; empty beyond the end."""
        return self.words[place].upper if place < len(self.words) else ""

    def after(self, place: int) -> str:
        """Return the text from the token at an index on; empty beyond the end."""
        return self.text[self.words[place].start :] if place < len(self.words) else ""

    def _parameters(self) -> Iterable[tuple[int, int]]:
        """Yield the token index and the number of each parameter."""
        for i, (first, second) in enumerate(zip(self.words, self.words[1:], strict=False)):
            if first.kind == "PARAMETER" and second.kind == "NUMBER" and second.start == first.end + 1:
                if not second.text.isdigit() or not 1 <= int(second.text) <= 1000:
                    raise BadValue("parameters are numbered from $1 to $1000")
                yield i, int(second.text)

    def bound(
        self, values: Sequence[Any], types: Sequence[int], tables: Collection[str] = (), database: str = ""
    ) -> str:
        """Return the text with literals in place of parameters, and declared tables without the schema ``public``.

        Raises:
            BadValue: a value has no literal in a query, such as a list.
            Refusal: the text becomes too long.
        """
        words, parameters = self.words, dict(self._parameters())
        written = [literal_of(value, oid).sql("duckdb") for value, oid in zip(values, types, strict=True)]
        if len(self.text) + sum(len(written[number - 1]) for number in parameters.values()) > limits.MAX_CHARACTERS:
            raise Refusal(
                "too_long", f"With its parameters the text has more than {limits.MAX_CHARACTERS} characters; send less."
            )
        # Index of the first token to replace, of the first token after it, and the replacement.
        edits = [(i, i + 2, f" {written[number - 1]} ") for i, number in parameters.items()]
        for i, (name, dot, table) in enumerate(zip(words, words[1:], words[2:], strict=False)):
            if name.text == "public" and dot.text == "." and table.text.lower() in tables:
                within = i > 0 and words[i - 1].text == "."
                if not within or (i > 1 and words[i - 2].text == database):
                    edits.append((i - 2 if within else i, i + 2, ""))
        text, expected, at, done = "", list[str](), 0, 0
        tokens = {f" {each} ": [word.text for word in _words(each)] for each in written} | {"": []}
        for first, last, new in sorted(edits):
            text += self.text[at : words[first].start] + new
            expected += [word.text for word in words[done:first]] + tokens[new]
            at, done = (words[last].start if not new else words[last - 1].end + 1), last
        text += self.text[at:]
        if parameters and [word.text for word in _words(text)] != expected + [word.text for word in words[done:]]:
            raise BadValue("a parameter cannot be written as a constant; write it into the text")
        return text


def _words(text: str) -> list[Word]:
    found: list[Word] = []
    at = 0
    while True:
        try:
            tokens = _dialect("postgres").tokenize(text[at:])
        except Exception:  # a third-party reader of hostile text
            raise Refusal("syntax", "The text cannot be read as SQL; check quotes and comments.") from None
        for i, each in enumerate(tokens):
            found.append(Word(each.text, each.token_type.name, each.start + at, each.end + at))
            # SQLGlot reads the text after some keywords, such as EXPLAIN, as one opaque token.
            if each.token_type.name in _OPAQUE and i + 1 < len(tokens):
                break
        else:
            return found
        at = found[-1].end + 1
        if len(found) > limits.MAX_TOKENS:
            return found


def _spaced_words(sql: str) -> tuple[str, list[Word]]:
    """Return the text with a space after each parameter, and its tokens: SQLGlot reads ``$1,$`` as a dollar quote.

    Raises:
        Refusal: a space would not follow a parameter.
    """
    places: list[int] = []

    def spaced(found: re.Match[str]) -> str:
        if found["parameter"] is None:
            return found[0]
        places.append(found.start() + len(places))
        return f"{found[0]} "

    text = _PARAMETER.sub(spaced, sql)
    words = _words(text)
    starts = {word.start for word in words if word.kind == "PARAMETER"}
    if not starts.issuperset(places):
        raise Refusal("syntax", "The text cannot be read as SQL; check quotes and comments.")
    return text, words


def split_statements(sql: str, names: Collection[str] = ()) -> list[WireStatement]:
    """Split a text into statements; an empty text gives one empty statement.

    Args:
        sql: the text.
        names: lower-case names of declared tables and columns, which are never system names, whatever their prefix.

    Raises:
        Refusal: the text is too long, nested too deeply, or cannot be parsed.
    """
    if not sql.strip():
        # Drivers send it to check that a connection is alive.
        return [WireStatement("", (), StatementKind.EMPTY)]
    limits.check_text(sql)
    sql, words = _spaced_words(sql)
    if len(words) > limits.MAX_TOKENS:
        raise Refusal("too_long", f"The text has more than {limits.MAX_TOKENS} words and signs; send a shorter one.")
    found: list[WireStatement] = []
    part: list[Word] = []
    for word in (*words, Word(";", "SEMICOLON", len(sql), len(sql))):
        if word.kind == "SEMICOLON":
            if part:
                found.append(_statement(sql, part, names))
            part = []
        else:
            part.append(word)
    if len(found) > MAX_STATEMENTS:
        raise Refusal("several_statements", f"Send at most {MAX_STATEMENTS} statements at a time.")
    return found or [WireStatement("", (), StatementKind.EMPTY)]


def _statement(sql: str, part: list[Word], names: Collection[str]) -> WireStatement:
    start, end = part[0].start, part[-1].end + 1
    words = tuple(Word(each.text, each.kind, each.start - start, each.end - start) for each in part)
    first = words[0].upper
    kind = _BY_WORD.get(first, StatementKind.OTHER)
    if first in _READS:
        kind = StatementKind.CATALOGUE if _is_system(words, names) else StatementKind.QUERY
    return WireStatement(sql[start:end], words, kind)


def _is_system(words: Sequence[Word], names: Collection[str]) -> bool:
    """Whether a query reads the catalog: it names a system table, or no table at all."""
    reads = depth = 0
    for i, word in enumerate(words):
        depth += (word.text == "(") - (word.text == ")")
        if depth > limits.MAX_NESTING:
            raise Refusal(
                "too_deep", f"Parentheses are nested more than {limits.MAX_NESTING} deep; use WITH to name parts."
            )
        if word.kind in ("STRING", "NUMBER"):
            continue
        name = word.text.lower()
        follows = words[i + 1].text if i + 1 < len(words) else ""
        if name in _SYSTEM or (name == "tacit" and follows == ".") or (name.startswith("pg_") and name not in names):
            return True
        if name == "current_schemas" and follows == "(":
            return True
        reads += word.kind == "FROM" or (i == 0 and word.upper == "SUMMARIZE")
    return not reads


def postgres_tree(text: str) -> exp.Expr:
    """Parse a query in PostgreSQL's dialect.

    Raises:
        Refusal: it cannot be parsed.
    """
    from sqlglot.errors import SqlglotError

    try:
        trees = _dialect("postgres").parse(text)
    except (SqlglotError, RecursionError, ValueError):
        raise Refusal("syntax", "The text cannot be read as SQL.") from None
    if len(trees) != 1 or trees[0] is None:
        raise Refusal("syntax", "The text cannot be read as SQL.")
    return trees[0]


def literal_of(value: Any, oid: int) -> exp.Expr:
    """Return a value as a literal of its type.

    Raises:
        BadValue: the value has no literal.
    """
    from sqlglot import exp

    if value is None:
        return exp.Null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, (int, float, Decimal)):
        text = f"{abs(value):f}" if isinstance(value, Decimal) else repr(abs(value))
        number: exp.Expr = exp.Literal.number(text)
        return exp.Paren(this=exp.Neg(this=number)) if value < 0 else number
    if isinstance(value, dt.datetime):
        return exp.Cast(this=exp.Literal.string(value.isoformat(" ")), to=exp.DataType.build("TIMESTAMP"))
    if isinstance(value, dt.date):
        return exp.Cast(this=exp.Literal.string(value.isoformat()), to=exp.DataType.build("DATE"))
    if isinstance(value, list):
        return exp.Array(expressions=[literal_of(each, oid) for each in value])
    if "\0" in value:
        raise BadValue("a text parameter must not contain NUL")
    return exp.Literal.string(value)


def after_explain(statement: WireStatement) -> int:
    """Return the token index of the query after EXPLAIN and its options."""
    place = 1
    if statement.upper(1) == "(" and statement.upper(2) not in _READS:
        place = next((i for i, word in enumerate(statement.words) if word.text == ")"), 0) + 1
    while statement.upper(place) in ("VERBOSE", "ANALYZE"):
        place += 1
    options = {statement.upper(i) for i in range(1, place)}
    if "ANALYZE" in options:
        raise StatementFault("0A000", "EXPLAIN ANALYZE would ask the query", "EXPLAIN shows its cost; then ask it.")
    if options & {"JSON", "XML", "YAML"}:
        raise StatementFault("0A000", "a plan is shown as text alone", "EXPLAIN SELECT …")
    return place


# -- types of parameters

_SAMPLES: Final = {
    BOOL: True,
    INT8: 1,
    FLOAT8: 1.0,
    NUMERIC: Decimal(1),
    DATE_OID: dt.date(2000, 1, 1),
    TIMESTAMP_OID: dt.datetime(2000, 1, 1),
}


def sample_values(types: Sequence[int]) -> list[Any]:
    """Return a sample value of each type, to plan a query before its parameters are known."""
    return [_SAMPLES.get(oid, 1 if oid in (21, 23, 26) else 1.0 if oid == 700 else "") for oid in types]


def infer_types(text: str, declared: Sequence[int], count: int, catalog: Catalog | None) -> tuple[int, ...]:
    """Return the types (oids) of parameters: as declared, else that of the compared expression, else text."""
    found = [*declared[:count], *[0] * (count - len(declared))]
    if all(found):
        return tuple(found)
    from sqlglot import exp

    try:
        tree = postgres_tree(text)
    except Refusal:
        return tuple(oid or TEXT_OID for oid in found)
    for node in tree.find_all(exp.Parameter):
        name = node.name
        place = int(name) - 1 if name.isdigit() else -1
        if 0 <= place < count and not found[place]:
            found[place] = _expected(node, catalog)
    return tuple(oid or TEXT_OID for oid in found)


def _expected(node: exp.Expr, catalog: Catalog | None) -> int:
    from sqlglot import exp

    parent = node.parent
    while isinstance(parent, (exp.Paren, exp.Neg)):
        node, parent = parent, parent.parent
    if isinstance(parent, exp.Cast):
        return _named(parent.to)
    if isinstance(parent, (exp.Limit, exp.Offset)):
        return INT8
    if isinstance(parent, (exp.Binary, exp.Between, exp.In)):
        for other in parent.iter_expressions():
            if other is not node and (oid := _type_of(other, catalog)):
                return oid
    return 0


def _named(kind: exp.DataType) -> int:
    name = kind.sql("postgres").lower().partition("(")[0]
    array = name.endswith("[]")
    name = name.removesuffix("[]").rpartition(".")[2]
    if name.startswith("reg"):
        # A name, which is resolved when the query is answered.
        return TEXT_OID
    found = next((each for each in TYPES.values() if name in (each.name, each.shown)), None)
    return 0 if found is None else found.array if array else found.oid


def _type_of(node: exp.Expr, catalog: Catalog | None) -> int:
    from sqlglot import exp

    while isinstance(node, (exp.Paren, exp.Neg)):
        node = node.this
    if isinstance(node, exp.Literal):
        return TEXT_OID if node.is_string else INT8 if node.name.isdigit() else NUMERIC
    if isinstance(node, exp.Column) and catalog is not None:
        for table in catalog.tables:
            column = table.find(node.name)
            if column is not None:
                return oid_of(column.type)
    if isinstance(node, (exp.Add, exp.Sub, exp.Mul, exp.Div)):
        return _type_of(node.this, catalog) or _type_of(node.expression, catalog)
    return INT8 if isinstance(node, (exp.Count, exp.Extract)) else 0


def read_setting(statement: WireStatement) -> tuple[str, str | None, bool] | None:
    """Return the name, value (None for the default) and locality of a SET; None if it has no effect."""
    words = list(statement.words[1:])
    local = False
    if words and words[0].upper in ("SESSION", "LOCAL"):
        local = words.pop(0).upper == "LOCAL"
    first = words[0].upper if words else ""
    if first in ("TRANSACTION", "CHARACTERISTICS"):
        return None
    if first == "TIME" and len(words) > 2:
        name, rest = "timezone", words[2:]
    elif first == "NAMES":
        name, rest = "client_encoding", words[1:]
    else:
        place = next((i for i, word in enumerate(words) if word.text == "=" or word.upper == "TO"), 0)
        name, rest = "".join(word.text for word in words[:place]), words[place + 1 :]
    if not name or not rest:
        raise StatementFault("42601", "a setting and its value are needed", "SET tacit.epsilon = '0.1'")
    if rest[0].upper == "DEFAULT" and len(rest) == 1:
        return name, None, local
    # One constant or name, a number with its sign, or a list of those.
    value = "".join(", " if word.text == "," and word.kind != "STRING" else word.text for word in rest)
    return name, value, local


def name_at(statement: WireStatement, place: int) -> str:
    """Return the name at a token index of a statement."""
    words = statement.words
    if place >= len(words) or not words[place].is_name:
        raise StatementFault("42601", "a name is missing")
    word = words[place]
    return str(word.text if word.kind == "IDENTIFIER" else word.text.lower())
