"""Spelling of measuring statements for databases that somebody else runs, and trials of their sessions.

DuckDB, PostgreSQL and Spark (Databricks) have dialects of their own. For others a statement is written in few, total
operations (:class:`Portable`), read back as a tree on an allow-list, and each operation that databases spell or round
differently is replaced by name; SQLGlot prints the rest. What a session must do right for the integers to be exact is
*tried* by queries whose results come back with the counts: division, wide sums, casts, the order of texts, days, bits
and the hash. A database that was never run here is trusted as far as its trials go.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import sqlglot
from sqlglot import exp

from tacit.core.errors import InputError, InternalError
from tacit.engines.duckdb.dialect import DuckDB
from tacit.engines.sql.dialect import Dialect
from tacit.engines.sql.statements import Writer
from tacit.query.refusal import Refusal
from tacit.query.types import DATE, INTEGER, SqlType, Value

#: Dialects that are printed by SQLGlot, and those that are written as they are.
PRINTED: Final = ("snowflake", "bigquery", "trino", "clickhouse")
DIALECTS: Final = ("duckdb", "postgresql", "spark", "databricks", *PRINTED)
_LARGEST_DOUBLE: Final = "1.7976931348623157e308"
_BIGINT: Final = 2**63


class Portable(DuckDB):
    """Operations that every database has, and marks for those that each spells in its own way."""

    forms: ClassVar[Mapping[str, str]] = {
        **DuckDB.forms,
        "fit_integer": f"(CASE WHEN {{0}} BETWEEN {-_BIGINT} AND {_BIGINT - 1} THEN CAST({{0}} AS BIGINT) END)",
        # NaN is beyond everything, or compares as nothing.
        "is_finite": f"(abs({{0}}) <= CAST('{_LARGEST_DOUBLE}' AS DOUBLE))",
        "xor": "TACIT_XOR({0}, {1})",
        "hexadecimal": "TACIT_HEX({0})",
    }
    longest = 10**9

    def number(self, value: float) -> str:
        """A cast of its digits."""
        return f"CAST('{value!r}' AS DOUBLE)"

    def bound(self, value: str, body: Callable[[str], str]) -> str:  # noqa: ARG002 - no value is longer
        """Nothing is so long."""
        raise InternalError("a portable statement names no value")

    def whole_type(self, largest: int) -> str:
        """64 bits, or the wide type."""
        return "BIGINT" if largest < _BIGINT else self.wide

    def divided(self, left: str, right: str, *, wide: bool) -> str:  # noqa: ARG002 - the same mark for both
        """Towards zero."""
        return f"TACIT_DIV({left}, {right})"

    def total(self, value: str, largest: int | None = None) -> str:  # noqa: ARG002 - sums of 64 bits wrap in some
        """In the wide type."""
        return f"sum({self.huge(f'({value})')})"

    def position(self, value: str, items: Sequence[str], kind: SqlType) -> str:  # noqa: ARG002 - typed by themselves
        """One comparison after the other."""
        tests = [f"{value} IS NULL" if item.startswith("CAST(NULL") else f"{value} = {item}" for item in items]
        return f"(CASE {' '.join(f'WHEN {test} THEN {place}' for place, test in enumerate(tests))} END)"

    def place_among(self, value: str, values: Sequence[Value | None], kind: SqlType) -> str:
        """The same from the values themselves."""
        return self.position(value, [self.constant(item, kind) for item in values], kind)


_PORTABLE: Final = Portable()


def writer_of(dialect: str) -> tuple[Dialect, type[Writer]]:
    """The dialect of a database, and the writer of its statements.

    Raises:
        InputError: there is none of this name.
    """
    match dialect:
        case "duckdb":
            from tacit.engines.duckdb.dialect import DUCKDB

            return DUCKDB, Writer
        case "postgresql":
            from tacit.engines.postgres.dialect import POSTGRES
            from tacit.engines.postgres.engine import PostgresWriter

            return POSTGRES, PostgresWriter
        case "spark" | "databricks":
            from tacit.engines.spark.dialect import SPARK
            from tacit.engines.spark.engine import SparkWriter

            return SPARK, SparkWriter
        case _ if dialect in PRINTED:
            return _PORTABLE, Writer
    raise InputError("dialect", f"must be one of {', '.join(DIALECTS)}")


def printed(sql: str, dialect: str) -> str:
    """A statement in the words of a database.

    Raises:
        Refusal: it needs an operation that is not known to mean the same there.
    """
    if dialect not in PRINTED:
        return sql
    tree = sqlglot.parse_one(sql, read="duckdb")
    for node in tree.walk():
        known = isinstance(node, _ALLOWED) and (not isinstance(node, exp.Anonymous) or node.name in _MARKS)
        if not known:
            raise Refusal(
                "unsupported",
                f"{type(node).__name__.upper()} is not written for {dialect}; ask for counts, sums and averages over "
                "plain columns, or copy the table to Parquet and use DuckDB.",
            )
    # The deepest first, so that what is replaced holds what was replaced in it.
    for node in reversed(list(tree.walk(bfs=True))):
        other = _respelled(node, dialect)
        if other is not node:
            node.replace(other)
    return tree.sql(dialect=dialect, unsupported_level=sqlglot.ErrorLevel.RAISE)


def _respelled(node: Any, dialect: str) -> Any:
    kind = type(node)
    if isinstance(node, exp.Anonymous) and node.name in _MARKS:
        return _marked(node.name, [each.copy() for each in node.expressions], dialect)
    if kind in _BITS:
        return _bits(kind, node.this.copy(), node.expression.copy(), dialect)
    if isinstance(node, exp.DataType) and node.this == exp.DataType.Type.INT128 and dialect != "clickhouse":
        return exp.DataType.build("BIGNUMERIC" if dialect == "bigquery" else "DECIMAL(38, 0)", dialect=dialect)
    if isinstance(node, exp.Filter) and isinstance(node.this, exp.Count | exp.Sum):
        counted = exp.Literal.number(1) if isinstance(node.this.this, exp.Star) else node.this.this.copy()
        kept = exp.Case(ifs=[exp.If(this=node.expression.this.copy(), true=counted)])
        return type(node.this)(this=kept)
    if isinstance(node, exp.MD5):
        return _md5(node.this.copy(), dialect)
    if isinstance(node, exp.Left):
        return exp.Substring(this=node.this.copy(), start=exp.Literal.number(1), length=node.expression.copy())
    if isinstance(node, exp.Length) and dialect == "clickhouse":
        return exp.Anonymous(this="lengthUTF8", expressions=[node.this.copy()])
    return node


def _call(name: str, *arguments: exp.Expression) -> exp.Expression:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _marked(name: str, of: list[Any], dialect: str) -> Any:
    if name == "TACIT_XOR":
        return _bits(exp.BitwiseXor, of[0], of[1], dialect)
    if name == "TACIT_HEX":
        (digits,) = of
        spelled: dict[str, Callable[[], Any]] = {
            "snowflake": lambda: _call("TO_NUMBER", digits, exp.Literal.string("XXXXXXX")),
            "bigquery": lambda: exp.Cast(
                this=_call("CONCAT", exp.Literal.string("0x"), digits), to=exp.DataType.build("BIGINT")
            ),
            "trino": lambda: _call("from_base", digits, exp.Literal.number(16)),
            "clickhouse": lambda: _call(
                "reinterpretAsInt64",
                _call("reverse", _call("unhex", _call("concat", exp.Literal.string("0"), digits))),
            ),
        }
        return spelled[dialect]()
    left, right = (exp.Paren(this=each) for each in of)
    if dialect == "clickhouse":
        return _call("intDiv", left, right)
    if dialect == "bigquery":
        return _call("DIV", left, right)
    # What is left when the rest is taken away is divided exactly, whatever the scale of a quotient.
    rest = exp.Paren(this=exp.Sub(this=left.copy(), expression=exp.Mod(this=left.copy(), expression=right.copy())))
    return exp.Paren(this=exp.Div(this=rest, expression=right, typed=True, safe=False))


def _bits(kind: type, left: Any, right: Any, dialect: str) -> exp.Expression:
    if dialect == "bigquery":
        return exp.Paren(this=kind(this=exp.Paren(this=left), expression=exp.Paren(this=right)))
    return _call(_BITS[kind][{"snowflake": 0, "trino": 1, "clickhouse": 2}[dialect]], left, right)


def _md5(text: Any, dialect: str) -> exp.Expression:
    match dialect:
        case "snowflake":
            return _call("MD5", text)
        case "bigquery":
            return _call("TO_HEX", _call("MD5", text))
        case "trino":
            return _call("LOWER", _call("TO_HEX", _call("MD5", _call("TO_UTF8", text))))
    return _call("lower", _call("hex", _call("MD5", text)))


_BITS: Final[Mapping[type, tuple[str, str, str]]] = {
    exp.BitwiseAnd: ("BITAND", "bitwise_and", "bitAnd"),
    exp.BitwiseOr: ("BITOR", "bitwise_or", "bitOr"),
    exp.BitwiseXor: ("BITXOR", "bitwise_xor", "bitXor"),
    exp.BitwiseRightShift: ("BITSHIFTRIGHT", "bitwise_right_shift", "bitShiftRight"),
}
_MARKS: Final = frozenset({"TACIT_DIV", "TACIT_XOR", "TACIT_HEX"})
_ALLOWED: Final = (
    exp.Select, exp.From, exp.Subquery, exp.TableAlias, exp.Table, exp.Alias, exp.Column, exp.Identifier, exp.Literal,
    exp.Star, exp.Where, exp.Group, exp.Order, exp.Ordered, exp.Window, exp.RowNumber, exp.Union, exp.Distinct,
    exp.With, exp.CTE, exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Cast, exp.DataType, exp.DataTypeParam, exp.Paren,
    exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Is, exp.In, exp.Between, exp.Null,
    exp.Boolean, exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.Neg, exp.Abs, exp.Floor, exp.Count, exp.Sum, exp.Anonymous,
    exp.Filter, exp.MD5, exp.Left, exp.Length, exp.DPipe, exp.Var, *_BITS,
)  # fmt: skip


def trials(d: Dialect = _PORTABLE) -> list[tuple[str, str]]:
    """Queries of one column ``n`` that a session must pass, each with the text of its result."""

    def whole(number: int) -> str:
        return f"CAST({number} AS BIGINT)"

    def of(expression: str, *columns: str) -> str:
        # Read from rows, so that nothing is folded by a planner with other rules.
        rows = " UNION ALL ".join(f"SELECT {column} AS x" for column in columns)
        return f"SELECT {expression} AS n FROM {d.derived(rows)}"

    md5 = int(hashlib.md5(b"1:a", usedforsecurity=False).hexdigest()[:7], 16)
    bits = 1_234_567_890_123
    shifted = d.xor("x", "(x >> 30)")
    return [
        (of(f"{d.divided('x', whole(2), wide=False)}", whole(-7)), "-3"),
        (of(d.divided(d.huge("x", 3), d.huge(whole(2)), wide=True), whole(_BIGINT - 1)), str((_BIGINT - 1) * 3 // 2)),
        (of(d.total("x"), whole(_BIGINT - 1), whole(_BIGINT - 1), whole(5)), str(2 * (_BIGINT - 1) + 5)),
        (of("CAST(floor(x) AS BIGINT)", d.number(-0.5)), "-1"),
        (of("CAST(floor(x * " + d.number(131072.0) + " + " + d.number(0.49999999999999994) + ") AS BIGINT)",
            d.number(0.1)), "13107"),
        (of("CASE WHEN x < 'a' THEN 1 ELSE 0 END", "'B'"), "1"),
        (of("CASE WHEN x = 'A' OR x = 'a ' THEN 1 ELSE 0 END", "'a'"), "0"),
        (of(f"CASE WHEN x < {d.constant(dt.date(2024, 3, 1), DATE)} THEN 1 ELSE 0 END", "DATE '2024-02-29'"), "1"),
        (of("count(x)", f"CAST(NULL AS {d.storage(INTEGER)})", whole(1)), "1"),
        (of(f"({shifted} & 1073741823)", whole(bits)), str((bits ^ bits >> 30) & 1073741823)),
        (of(d.hexadecimal("left(md5(x), 7)"), "'1:a'"), str(md5)),
    ]  # fmt: skip
