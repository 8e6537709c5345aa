"""Parser: text to a syntax tree on an allow-list, and the OPTIONS in it.

Limits on the text come first, then tokens, then the parser of sqlglot in its DuckDB dialect with every table of special
cases removed: all functions parse as plain calls by name, and queries are the only statements. The tree is then
walked once and every node type *and every argument of it* must be on the list below, so that nothing the parser
understood is ever silently ignored by the resolver.

OPTIONS of ``SELECT WITH DIFFERENTIAL_PRIVACY`` are read from tokens.

Numbers are read exactly from their decimal text and must be constants; an unknown or repeated option is refused rather
than ignored, because an ignored epsilon is a surprise bill.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Final

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokenizer_core import Token, TokenType

from tacit.core.errors import InputError
from tacit.query import limits
from tacit.query.contribution import AUTO, ContributionNumber
from tacit.query.parsing.spellings import respelled_tree, split_paths
from tacit.query.refusal import Refusal
from tacit.query.request import OPTIONS, OptionKind, QueryOption

# -- options of ``select with differential_privacy``, read from tokens

#: Words after SELECT WITH, in capitals, that begin a clause of options.
OPTION_CLAUSE: Final = "DIFFERENTIAL_PRIVACY"
#: Rules of private group selection: BigQuery's names, and Tacit's for the rule itself; PUBLIC_GROUPS requires public
#: keys.
SELECTION_STRATEGIES = ("AUTO", "LAPLACE_THRESHOLD", "GAUSSIAN_THRESHOLD", "TRUNCATED_GEOMETRIC", "PUBLIC_GROUPS")


@dataclass(frozen=True, slots=True)
class Options:
    """OPTIONS in the SQL text; None where nothing is stated.

    Args:
        epsilon: the epsilon of the whole query.
        delta: the delta of the whole query.
        rho: a zCDP cost instead of epsilon.
        max_groups: ``max_groups_contributed``, a number or AUTO.
        max_rows: ``max_rows_contributed``, the most rows of a unit that count per group, or AUTO.
        max_rows_total: the most rows of a unit that count in all groups together, or AUTO. Not in the repr: the
            aggregation holds it.
        group_selection: one of :data:`SELECTION_STRATEGIES`.
        within: half the width of the interval asked for, instead of epsilon.
        max_rows_joined: the most rows of a unit that enter a join which multiplies them, where that is less than the
            tables declare. Not in the repr: where it decides anything, the relation itself holds it.
        privacy_unit: the column that ``privacy_unit_column`` names, with its table where that is written. The resolver
            accepts the declared unit alone, so that it decides nothing. Not in the repr.
        bias_share: share of the cost for the estimate of the bias. Not in the repr: the costs of releases reflect it.
        confidence: the confidence of that interval and of DP_INTERVAL_LOW and DP_INTERVAL_HIGH.
    """

    epsilon: Fraction | None = None
    delta: Fraction | None = None
    rho: Fraction | None = None
    max_groups: ContributionNumber | None = None
    max_rows: ContributionNumber | None = None
    group_selection: str | None = None
    within: Fraction | None = None
    confidence: Fraction | None = None
    max_rows_joined: int | None = field(default=None, repr=False)
    bias_share: Fraction | None = field(default=None, repr=False)
    max_rows_total: ContributionNumber | None = field(default=None, repr=False)
    privacy_unit: tuple[str, ...] | None = field(default=None, repr=False, compare=False)


_UNIT: Final = "PRIVACY_UNIT_COLUMN"
_PLAIN: Final = re.compile(r"[0-9]{0,30}\.?[0-9]{0,30}([eE][+-]?[0-9]{1,3})?\Z")


def take_options(tokens: list[Token]) -> tuple[Options, list[Token]]:
    """Return the options of the one SELECT that has them, and the tokens without that clause."""
    places = [i for i in range(len(tokens) - 2) if _starts(tokens, i)]
    if not places:
        return Options(), tokens
    if len(places) > 1:
        raise Refusal("option", "Write WITH DIFFERENTIAL_PRIVACY once, at the SELECT that aggregates.")
    start = places[0]
    if start + 3 >= len(tokens) or not _is_word(tokens[start + 3], "OPTIONS"):
        return Options(), tokens[: start + 1] + tokens[start + 3 :]
    if start + 4 >= len(tokens) or tokens[start + 4].token_type is not TokenType.L_PAREN:
        raise Refusal("option", "Write OPTIONS(epsilon = …, delta = …).")
    end = next((i for i in range(start + 5, len(tokens)) if tokens[i].token_type is TokenType.R_PAREN), None)
    if end is None:
        raise Refusal("option", "OPTIONS( is never closed.")
    return _read(tokens[start + 5 : end]), tokens[: start + 1] + tokens[end + 1 :]


def _starts(tokens: list[Token], place: int) -> bool:
    first, second, third = tokens[place : place + 3]
    return (
        first.token_type is TokenType.SELECT and second.token_type is TokenType.WITH and _is_word(third, OPTION_CLAUSE)
    )


def _is_word(token: Token, word: str) -> bool:
    return token.token_type is not TokenType.STRING and token.text.upper() == word


def _read(tokens: list[Token]) -> Options:
    found: dict[str, Any] = {}
    for part in _split(tokens):
        if len(part) > 2 and _is_word(part[0], _UNIT) and part[1].token_type is TokenType.EQ:
            if "privacy_unit" in found:
                raise Refusal("option", "The option privacy_unit_column is given twice.")
            found["privacy_unit"] = _named_column(part[2:])
            continue
        if len(part) != 3 or part[1].token_type is not TokenType.EQ:
            raise Refusal("option", "Each option is written name = constant, separated by commas.")
        name = part[0].text.lower()
        if name not in _READERS:
            known = ", ".join([*_READERS, _UNIT.lower()])
            raise Refusal("option", f"There is no option {name[:40]!r}; known are {known}.")
        field, read = _READERS[name]
        if field in found:
            raise Refusal("option", f"The option {name} is given twice.")
        found[field] = read(name, part[2])
    if len(found.keys() & {"epsilon", "rho", "within"}) > 1:
        raise Refusal("option", "Give one of epsilon, rho and within.")
    return Options(**found)


def _named_column(tokens: list[Token]) -> tuple[str, ...]:
    """Return a column, or table.column, quoted or not, as its names."""
    names, dots = tokens[::2], tokens[1::2]
    plain = all(t.token_type not in (TokenType.STRING, TokenType.NUMBER, TokenType.L_PAREN) for t in names)
    if (
        len(names) > 3
        or len(names) != len(dots) + 1
        or not plain
        or any(d.token_type is not TokenType.DOT for d in dots)
    ):
        raise Refusal("option", "privacy_unit_column takes the name of the unit column, such as patient_id.")
    return tuple(name.text for name in names)


def _split(tokens: list[Token]) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type is TokenType.COMMA:
            parts.append([])
        elif token.token_type is TokenType.NUMBER and parts[-1] and parts[-1][-1].token_type is TokenType.DOT:
            # .01 is a sign and a number to the tokenizer.
            parts[-1][-1] = Token(TokenType.NUMBER, f"0.{token.text}", token.line, token.col, token.start, token.end)
        else:
            parts[-1].append(token)
    return parts if tokens else []


def _number(name: str, token: Token) -> str:
    if (
        token.token_type not in (TokenType.NUMBER, TokenType.STRING)
        or not _PLAIN.match(token.text)
        or token.text in (".", "")
    ):
        raise Refusal("option", f"{name} must be a positive number written out, such as 0.5.")
    return token.text


def _reader(option: QueryOption) -> Callable[[str, Token], object]:
    def read(name: str, token: Token) -> Fraction:
        try:
            return option.exact(_number(name, token))
        except InputError as problem:
            raise Refusal("option", f"{problem}.") from None

    return {OptionKind.COUNT: _count, OptionKind.LIMIT: _limit}.get(option.kind, read)


def _limit(name: str, token: Token) -> ContributionNumber:
    return AUTO if _is_word(token, AUTO.upper()) else _count(name, token, ", or AUTO")


def _count(name: str, token: Token, more: str = "") -> int:
    if (
        token.token_type is not TokenType.NUMBER
        or not token.text.isascii()
        or not token.text.isdigit()
        or len(token.text) > 9
    ):
        raise Refusal("option", f"{name} must be a whole number between 1 and 999999999{more}.")
    if int(token.text) == 0:
        raise Refusal("option", f"{name} must be at least 1.")
    return int(token.text)


def _strategy(name: str, token: Token) -> str:
    word = token.text.upper()
    if word not in SELECTION_STRATEGIES:
        raise Refusal("option", f"{name} must be one of {', '.join(SELECTION_STRATEGIES)}.")
    return word


#: By name in the clause: the attribute of :class:`Options`, and the function that reads its value.
_READERS: Final[dict[str, tuple[str, Callable[[str, Token], object]]]] = {
    **{option.clause: (name, _reader(option)) for name, option in OPTIONS.items() if option.clause},
    "max_rows_joined": ("max_rows_joined", _count),
    "group_selection_strategy": ("group_selection", _strategy),
}


# -- parser

# A parser may log text that it does not know; analysts' text must not enter any log.
logging.getLogger("sqlglot").addHandler(logging.NullHandler())
logging.getLogger("sqlglot").propagate = False


@dataclass(frozen=True)
class Parsed:
    """A syntax tree on the allow-list, and the OPTIONS of the text."""

    tree: exp.Query
    options: Options


def _only(table: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: table[name] for name in names}


class _Parser(DuckDBParser):
    """The DuckDB grammar without statements, without typed functions, without clauses we never accept."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = _only(
        DuckDBParser.FUNCTION_PARSERS, "CAST", "TRY_CAST", "SAFE_CAST", "EXTRACT", "POSITION", "SUBSTRING", "TRIM"
    )
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = _only(DuckDBParser.NO_PAREN_FUNCTION_PARSERS, "CASE")
    STATEMENT_PARSERS: ClassVar[dict[Any, Any]] = {}


class _Dialect(DuckDB):
    Parser = _Parser

    class Tokenizer(DuckDB.Tokenizer):
        """The keywords and symbols of DuckDB, and names between backticks."""

        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]


def _usable(dialect: DuckDB) -> DuckDB:
    """Return the dialect, if its parser can be made.

    Raises:
        ImportError: special cases cannot be removed from a compiled sqlglot; better to fail at import than to refuse
            every query as unreadable.
    """
    try:
        dialect.parser()
    except TypeError:
        raise ImportError("sqlglot is compiled here, which Tacit cannot use: uninstall sqlglotc") from None
    return dialect


_DIALECT: Final = _usable(_Dialect())

#: Keywords, and parts of keywords such as GROUP BY.
_SPECIAL_WORDS: Final = frozenset(word for key in _DIALECT.tokenizer_class.KEYWORDS for word in key.split())

#: Tokens that a query may begin with; a text that begins with another token is refused as another statement.
_QUERY_STARTS = {TokenType.SELECT, TokenType.WITH, TokenType.FROM, TokenType.L_PAREN, TokenType.VALUES}
_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
#: Without any of these symbols and words, nothing is spelled in another database's way.
_RESPELLED = re.compile(r"\[|fetch|distinct|lag|lead|pivot|over|unnest", re.IGNORECASE)
_NUMBER_AND_UNIT = re.compile(r"\s*[+-]?[0-9]+(?:\.[0-9]+)?\s*[a-zA-Z]+\s*")
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
_STRANGE = {
    TokenType.HINT: ("hint", "Remove the hint: instructions in comments are not read."),
    TokenType.PARAMETER: ("literal", "Parameters are not accepted; write the constant itself."),
    TokenType.PLACEHOLDER: ("literal", "Parameters are not accepted; write the constant itself."),
    TokenType.SESSION_PARAMETER: ("literal", "Parameters are not accepted; write the constant itself."),
    TokenType.BLOCK_START: ("unsupported", "Templates are not accepted; write plain SQL."),
    TokenType.BLOCK_END: ("unsupported", "Templates are not accepted; write plain SQL."),
    TokenType.L_BRACE: ("unsupported", "Braces are not accepted; write plain SQL."),
    TokenType.R_BRACE: ("unsupported", "Braces are not accepted; write plain SQL."),
    **dict.fromkeys(
        (
            TokenType.BIT_STRING,
            TokenType.BYTE_STRING,
            TokenType.HEREDOC_STRING,
            TokenType.HEX_STRING,
            TokenType.NATIONAL_STRING,
            TokenType.RAW_STRING,
            TokenType.UNICODE_STRING,
        ),
        ("literal", "Write text constants between single quotes, without a prefix."),
    ),
}


def parse(sql: str) -> Parsed:
    """Parse one query.

    Raises:
        Refusal: whenever the text is not one query on the allow-list; no other exception.
    """
    limits.check_text(sql)
    tokens = _tokens(sql)
    clauses = OPTION_CLAUSE in sql.upper()
    options, rest = take_options(tokens) if clauses else (Options(), tokens)
    tree = _tree(rest, sql)
    if _RESPELLED.search(sql) is not None:
        respelled_tree(tree)
    _check(tree)
    return Parsed(tree, options)


def _tokens(sql: str) -> list[Token]:
    if "/*!" in sql or "/*+" in sql or "--+" in sql:
        raise Refusal("hint", "Remove the hint: instructions in comments are not read.")
    try:
        tokens = _DIALECT.tokenize(sql)
    except Exception:  # a third-party reader of hostile text: whatever it raises, the text is unreadable
        raise Refusal("syntax", "The text cannot be read as SQL; check quotes and comments.") from None
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    if not tokens:
        raise Refusal("empty", "There is no statement; write a SELECT.")
    if len(tokens) > limits.MAX_TOKENS:
        raise Refusal("too_long", f"The text has more than {limits.MAX_TOKENS} words and signs; ask a shorter query.")
    _check_tokens(tokens)
    return tokens


def _check_tokens(tokens: list[Token]) -> None:
    if tokens[0].token_type not in _QUERY_STARTS:
        word = tokens[0].text[:20]
        raise Refusal("statement", f"Only queries are answered: write a SELECT instead of {word!r}.")
    depth = 0
    for before, token in zip([tokens[0], *tokens], tokens, strict=False):
        # The parser would read the first number and unit of an interval and ignore the rest.
        one_part = before.token_type is TokenType.INTERVAL and len(_NUMBER_AND_UNIT.findall(token.text)) == 1
        if one_part and not _NUMBER_AND_UNIT.fullmatch(token.text):
            raise Refusal(
                "literal",
                "Write an interval as INTERVAL 'n' unit, or several numbers with units: INTERVAL '1 day 2 hours'.",
            )
        if token.token_type is TokenType.SEMICOLON:
            raise Refusal("several_statements", "Send one statement at a time; remove the semicolon and what follows.")
        if token.token_type in _STRANGE:
            raise Refusal(*_STRANGE[token.token_type])
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if depth > limits.MAX_NESTING:
            raise Refusal(
                "too_deep", f"Parentheses are nested more than {limits.MAX_NESTING} deep; use WITH to name parts."
            )
        text = token.token_type is TokenType.STRING
        longest = limits.MAX_LITERAL if text else limits.MAX_IDENTIFIER
        if len(token.text) > longest:
            what = "text constant" if text else "name or number"
            raise Refusal("too_long", f"A {what} has more than {longest} characters; shorten it.")


def is_bare_name(name: str) -> bool:
    """Whether a name may be written without quotes and is still read as this name."""
    if not name.isascii() or not name.isidentifier() or name.upper() in _SPECIAL_WORDS:
        return False
    tokens = _DIALECT.tokenize(name)
    return len(tokens) == 1 and tokens[0].token_type is TokenType.VAR


def is_writable(name: str) -> bool:
    """Whether a column of this name needs no quotes wherever a query names it; ``alter`` and ``order`` need them."""
    try:
        tree = parse(f"SELECT {name}, AVG({name}) FROM t WHERE {name} = 1 GROUP BY {name}").tree  # noqa: S608
    except Refusal:
        return False
    return sum(column.name == name for column in tree.find_all(exp.Column)) == 4


def _quoting(problem: SqlglotError, sql: str) -> str:
    """Return advice to quote the word that the parser stops at, if the text can then be parsed; else an empty text."""
    word = str((getattr(problem, "errors", None) or [{}])[0].get("highlight", ""))
    quoted = re.sub(rf'(?<![\w"]){re.escape(word)}(?![\w"])', f'"{word}"', sql)
    try:
        if not word.isidentifier() or not _DIALECT.parser().parse(_DIALECT.tokenize(quoted), quoted):
            return ""
    except Exception:  # a third-party reader of hostile text
        return ""
    return f' {word.upper()} is a word of SQL: as the name of a column, write "{word}" with its quotes.'


def _tree(tokens: list[Token], sql: str) -> exp.Query:
    try:
        trees = _DIALECT.parser().parse(tokens, sql)
    except SqlglotError as problem:
        at = _place(problem)
        where = "" if at is None else f" near line {at[0]}, column {at[1]}"
        raise Refusal("syntax", f"The text cannot be read as SQL{where}.{_quoting(problem, sql)}", at=at) from None
    except RecursionError:
        raise Refusal("too_deep", "The query is nested too deeply; use WITH to name parts.") from None
    except Exception:  # as above
        raise Refusal("syntax", "The text cannot be read as SQL.") from None
    if len(trees) != 1 or trees[0] is None:
        raise Refusal("several_statements", "Send one statement at a time.")
    tree = trees[0]
    if not isinstance(tree, (exp.Select, exp.SetOperation, exp.Subquery)):
        raise Refusal("statement", "Only queries are answered: write a SELECT.")
    if "`" in sql:
        between = [token for token in tokens if token.token_type is TokenType.IDENTIFIER and sql[token.start] == "`"]
        split_paths(tree, {token.text for token in between})
    return tree


def _place(problem: SqlglotError) -> tuple[int, int] | None:
    """Return line and column, where the parser knows them."""
    details = getattr(problem, "errors", None)
    if isinstance(details, list) and details:
        line, column = details[0].get("line"), details[0].get("col")
        if isinstance(line, int) and isinstance(column, int):
            return line, column
    return None


_BINARY = ("this", "expression")
#: Every node type a query may hold, with the arguments it may have. Anything else is refused.
_ALLOWED: Final[dict[type[exp.Expr], frozenset[str]]] = {
    kind: frozenset(names)
    for kind, names in {
        exp.Select: (
            "expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset", "distinct",
            "with_", "windows", "qualify",
        ),
        exp.Union: ("this", "expression", "distinct", "with_", "order", "limit", "offset"),
        exp.Intersect: ("this", "expression", "distinct", "with_", "order", "limit", "offset"),
        exp.Except: ("this", "expression", "distinct", "with_", "order", "limit", "offset"),
        exp.Subquery: ("this", "alias"),
        exp.With: ("expressions", "recursive"),
        exp.CTE: ("this", "alias"),
        exp.TableAlias: ("this", "columns"),
        exp.From: ("this",),
        exp.Table: ("this", "db", "alias", "joins"),
        exp.Join: ("this", "side", "kind", "on", "using", "method"),
        exp.Values: ("expressions", "alias"),
        exp.Unnest: ("expressions", "alias"),
        exp.Where: ("this",),
        exp.Having: ("this",),
        exp.Qualify: ("this",),
        exp.Group: ("expressions", "all"),
        exp.Rollup: ("expressions",),
        exp.Cube: ("expressions",),
        exp.GroupingSets: ("expressions",),
        exp.Order: ("this", "expressions"),
        exp.Ordered: ("this", "desc", "nulls_first"),
        exp.Limit: ("expression",),
        exp.Offset: ("expression",),
        exp.Distinct: ("expressions", "on"),
        exp.Alias: ("this", "alias"),
        exp.Column: ("this", "table"),
        exp.Identifier: ("this", "quoted"),
        exp.Star: ("except_",),
        exp.Literal: ("this", "is_string"),
        exp.Boolean: ("this",),
        exp.Null: (),
        exp.Neg: ("this",),
        exp.Not: ("this",),
        exp.Paren: ("this",),
        exp.And: _BINARY, exp.Or: _BINARY,
        exp.EQ: _BINARY, exp.NEQ: _BINARY, exp.LT: _BINARY, exp.LTE: _BINARY, exp.GT: _BINARY, exp.GTE: _BINARY,
        exp.NullSafeEQ: _BINARY, exp.NullSafeNEQ: _BINARY, exp.Is: _BINARY,
        exp.Between: ("this", "low", "high", "negate"),
        exp.In: ("this", "expressions", "query", "negate"),
        exp.JSONExtract: (*_BINARY, "only_json_types"),
        exp.JSONExtractScalar: (*_BINARY, "only_json_types", "scalar_only"),
        exp.JSONPath: ("expressions",), exp.JSONPathRoot: (), exp.JSONPathKey: ("this",),
        exp.Escape: _BINARY, exp.StrToDate: ("this", "format", "safe"), exp.StrToTime: ("this", "format", "safe"),
        exp.Like: (*_BINARY, "negate"), exp.ILike: (*_BINARY, "negate"),
        exp.Add: _BINARY, exp.Sub: _BINARY, exp.Mul: _BINARY, exp.Div: (*_BINARY, "typed", "safe"),
        exp.IntDiv: _BINARY, exp.Mod: _BINARY, exp.Pow: _BINARY, exp.DPipe: (*_BINARY, "safe"),
        exp.Case: ("this", "ifs", "default"),
        exp.If: ("this", "true"),
        exp.Cast: ("this", "to", "_type"),
        exp.TryCast: ("this", "to", "_type", "safe"),
        exp.DataType: ("this", "expressions"),
        exp.DataTypeParam: ("this",),
        exp.Interval: ("this", "unit"),
        exp.Var: ("this",),
        exp.AtTimeZone: ("this", "zone"),
        exp.RegexpLike: _BINARY, exp.RegexpILike: _BINARY,
        exp.Extract: ("this", "expression"),
        exp.Substring: ("this", "start", "length"),
        exp.StrPosition: ("this", "substr"),
        exp.Trim: ("this", "position", "expression"),
        exp.Anonymous: ("this", "expressions"),
        exp.Kwarg: _BINARY,
        exp.Tuple: ("expressions",),
        exp.Array: ("expressions",),
        exp.Filter: _BINARY,
        exp.WithinGroup: _BINARY,
        exp.Window: ("this", "partition_by", "order", "spec", "alias", "over"),
        exp.WindowSpec: ("kind", "start", "start_side", "end", "end_side"),
        exp.Exists: ("this",),
        exp.CurrentDate: (), exp.CurrentTimestamp: (), exp.CurrentTime: (), exp.CurrentUser: (),
    }.items()
}  # fmt: skip

#: Refusals of constructs that people are likely to write: (type, argument or "") to (code, sentence).
_SENTENCES: Final[dict[tuple[str, str], tuple[str, str]]] = {
    ("Select", "sample"): ("sample", "Sampling is not supported; remove USING SAMPLE."),
    ("Table", "sample"): ("sample", "Sampling is not supported; remove TABLESAMPLE."),
    ("Subquery", "sample"): ("sample", "Sampling is not supported; remove TABLESAMPLE."),
    ("Table", "catalog"): ("unknown_table", "Write the table, or schema.table, without the name of a database."),
    ("Table", "version"): ("unsupported", "Versions of a table cannot be chosen; remove AS OF."),
    ("Table", "pivots"): (
        "unsupported",
        "PIVOT groups by all other columns, also the person's: write FROM (SELECT sex, ward, cost FROM t) PIVOT (…).",
    ),
    ("Limit", "limit_options"): ("unsupported", "LIMIT takes a number of rows, without PERCENT and WITH TIES."),
    ("Subquery", "limit"): ("limit_below", "Put LIMIT inside the outermost SELECT."),
    ("Subquery", "order"): ("limit_below", "Put ORDER BY inside the outermost SELECT."),
    ("Group", "grouping_sets"): ("grouping_sets", "Write a comma before GROUPING SETS, or GROUPING SETS alone."),
    ("Group", "rollup"): ("grouping_sets", "Write GROUP BY ROLLUP (a, b) instead of GROUP BY a, b WITH ROLLUP."),
    ("Group", "cube"): ("grouping_sets", "Write GROUP BY CUBE (a, b) instead of GROUP BY a, b WITH CUBE."),
    ("Group", "totals"): ("grouping_sets", "WITH TOTALS is not supported; write GROUP BY GROUPING SETS ((a, b), ())."),
    ("Star", "replace"): ("unsupported", "List the columns instead of * REPLACE."),
    ("Column", "db"): ("unknown_column", "Write columns as table.column."),
    ("Lateral", ""): ("subquery", "LATERAL is not supported; join on the unit instead."),
    ("Glob", ""): ("pattern", "GLOB is not supported; use LIKE."),
    ("SimilarTo", ""): ("pattern", "SIMILAR TO is not supported; use LIKE or REGEXP_MATCHES."),
    ("Dot", ""): ("unknown_column", "Write columns as table.column."),
    ("IgnoreNulls", ""): ("window", "IGNORE NULLS is not supported; leave rows without a value out by WHERE before."),
    ("RespectNulls", ""): ("window", "Remove RESPECT NULLS, which is what windows do anyway."),
    ("Collate", ""): ("unsupported", "COLLATE is not supported: text is compared by code point."),
    ("Select", "into"): ("statement", "SELECT INTO is not supported: nothing can be written."),
    ("Select", "hint"): ("hint", "Remove the hint."),
    ("Select", "locks"): ("statement", "FOR UPDATE is not supported: nothing can be written."),
    ("Select", "laterals"): ("subquery", "LATERAL is not supported; join on the unit instead."),
    ("CTE", "materialized"): ("unsupported", "Remove MATERIALIZED: what is computed once is not for queries to say."),
    ("DataType", "nested"): ("type", "Nested types are not supported."),
    ("Between", "symmetric"): ("unsupported", "BETWEEN SYMMETRIC is not supported; order the bounds."),
    ("Union", "by_name"): ("union", "UNION ALL BY NAME is not supported; list the columns in one order."),
}
_CHAINS = (exp.And, exp.Or)


def read_tree(sql: str) -> exp.Query:
    """Parse a text that need not be on the allow-list, without its OPTIONS: for inspection, not for resolution.

    Raises:
        Refusal: the text cannot be read.
    """
    limits.check_text(sql)
    return _tree(take_options(_tokens(sql))[1], sql)


def text_of_tree(tree: exp.Expr) -> str:
    return tree.sql(dialect=_DIALECT)


def disallowed(tree: exp.Expr) -> list[tuple[exp.Expr, str]]:
    """Return the nodes outside the allow-list, each with the name of the argument that is not allowed, if it is one."""
    found: list[tuple[exp.Expr, str]] = []
    for node, _ in _walk(tree):
        allowed = _ALLOWED.get(type(node))
        if allowed is None:
            found.append((node, ""))
        else:
            found.extend((node, name) for name, value in node.args.items() if name not in allowed and value)
    return found


def _check(tree: exp.Query) -> None:
    for nodes, (node, depth) in enumerate(_walk(tree), 1):
        if depth > limits.MAX_DEPTH:
            raise Refusal("too_deep", "The query is nested too deeply; use WITH to name parts.")
        limits.check_size(nodes, limits.MAX_NODES, "parts")
        allowed = _ALLOWED.get(type(node))
        if allowed is None:
            _refuse(type(node).__name__, "")
        else:
            for name, value in node.args.items():
                if name not in allowed and value is not None and value is not False and not _is_empty(value):
                    _refuse(type(node).__name__, name)


def _is_empty(value: object) -> bool:
    return isinstance(value, (list, str)) and not value


def _refuse(kind: str, name: str) -> None:
    known = _SENTENCES.get((kind, name))
    if known is not None:
        raise Refusal(*known)
    what = f"{kind} with {name.strip('_')}" if name else kind
    raise Refusal("unsupported", f"This part of SQL is not supported: {what}.")


def _walk(tree: exp.Expr) -> Iterator[tuple[exp.Expr, int]]:
    """Yield all nodes with their depth; a chain of AND or OR is one level, since it is resolved as one node."""
    stack: list[tuple[exp.Expr, int]] = [(tree, 1)]
    while stack:
        node, depth = stack.pop()
        yield node, depth
        for value in node.args.values():
            for child in value if isinstance(value, list) else (value,):
                if isinstance(child, exp.Expr):
                    same = isinstance(node, _CHAINS) and type(child) is type(node)
                    stack.append((child, depth if same else depth + 1))
