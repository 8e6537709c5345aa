"""Spark dialect in ANSI mode with the session clock in UTC.

Differences from standard SQL, each found by experiment:

* ``${name}`` in a statement is replaced by a setting of Spark or the system before parsing, even inside texts. So the
  dollar sign is always written as an escape.
* After the keyword ``array``, ``>>`` is not parsed as a shift, because it might close a type; in backquotes, ``array``
  is an ordinary name.
* DIV of decimals returns 64 bits and wraps silently. Wide quotients are therefore computed as (x - x mod y) / y, which
  is exact.
* A cast of a DOUBLE beyond the largest BIGINT by less than an ulp gives the largest BIGINT; a cast to DECIMAL uses the
  shortest decimal representation of the DOUBLE instead of its exact value.
* FLOOR and CEIL give BIGINT and fail beyond it. LOG2 is a quotient of logarithms and misses powers of two.
* BIGINT sums fail on overflow, so sums that could overflow are computed in two halves or in DECIMAL(38,0).
* An EXISTS above a union of a relation with itself fails during planning: "key not found".
* NaN equals itself and compares larger than every number.

*Text functions* count code points and compare UTF-8 bytes. Java maps the case of some letters to several letters, and
of sigma by its position. The registry maps letter by letter, so texts with letters beyond ASCII are mapped by its own
table.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from tacit.core.errors import InternalError
from tacit.engines.sql.bounding import fits_64_bits, is_power_of_two, rounded_steps
from tacit.engines.sql.dialect import Dialect, Template
from tacit.engines.sql.scalars import (
    COMMON,
    Args,
    Lowering,
    joined,
    letter_table,
    patterned,
    plain,
    text_argument,
    within_years,
)
from tacit.query.planning.measures import Measure
from tacit.query.relational.expressions import Call
from tacit.query.relational.functions.registry import REGISTRY
from tacit.query.relational.functions.regular_expressions import automaton
from tacit.query.types import DATE, Kind, SqlType


def _mapped(d: Dialect, name: str, value: str) -> str:
    letters, others = letter_table(name)

    def by_letter(v: str) -> str:
        # ASCII letters are added to the table, which holds only letters beyond ASCII.
        ascii_first = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
        old, new = ascii_first if name == "upper" else reversed(ascii_first)
        table = f"translate({v}, {d.text(old + letters)}, {d.text(new + others)})"
        return f"CASE WHEN octet_length({v}) = length({v}) THEN {name}({v}) ELSE {table} END"

    return d.let(value, by_letter)


def _pattern(pattern: str) -> str:
    """Return a LIKE pattern as a Java regular expression that searches each part once, after the part before it.

    Spark translates % to ``.*``, which backtracks: with several of them for hours, on a text of a thousand letters. An
    atomic group never backtracks, and need not: the first match of a part is the best one.
    """
    first, *others = (_quoted(part) for part in re.split("%+", pattern))
    if not others:
        return f"(?s)\\A{first}\\z"
    *middle, last = others
    return f"(?s)\\A{first}{''.join(f'(?>.*?{part})' for part in middle if part)}.*{last}\\z"


def _quoted(part: str) -> str:
    signs = {"_": "."} | {char: f"\\{char}" for char in string.punctuation if char != "_"}
    return "".join(signs.get(char, char) for char in part)


def _like(d: Dialect, node: Call, args: Args) -> str:
    return f"({args[0]} RLIKE {d.text(_pattern(text_argument(node, 1)))})"


def _ilike(d: Dialect, node: Call, args: Args) -> str:
    small = REGISTRY["lower"].evaluate(text_argument(node, 1))
    return f"({_mapped(d, 'lower', args[0])} RLIKE {d.text(_pattern(str(small)))})"


def _regexp(d: Dialect, node: Call, args: Args) -> str:  # noqa: ARG001
    """Run the finite automaton, one step per character: Java's matcher backtracks, for hours on some texts."""
    found = automaton(text_argument(node, 1))
    table = f"`array`({', '.join(str(state) for row in found.steps for state in row)})"
    kind = _class_of("ascii(c)", found.starts, 0)
    step = f"CASE WHEN c = '' THEN s ELSE element_at({table}, s * {len(found.starts)} + {kind} + 1) END"
    fits = f"s IN ({', '.join(map(str, sorted(found.accepts) or [-1]))})"
    return f"aggregate(split({args[0]}, ''), CAST(0 AS INT), (s, c) -> {step}, s -> {fits})"


def _class_of(code: str, starts: Sequence[int], first: int) -> str:
    """Return SQL of the class of a code point, by binary search."""
    if len(starts) == 1:
        return str(first)
    half = len(starts) // 2
    below, above = _class_of(code, starts[:half], first), _class_of(code, starts[half:], first + half)
    return f"CASE WHEN {code} < {starts[half]} THEN {below} ELSE {above} END"


def _counting(name: str) -> Lowering:
    """Return the lowering of a function whose further arguments are texts and small integers, cast to 32 bits."""

    def lower(d: Dialect, node: Call, args: Args) -> str:  # noqa: ARG001
        rest = [
            arg if part.type.kind.value == "text" else f"CAST({arg} AS INT)"
            for arg, part in zip(args[1:], node.args[1:], strict=True)
        ]
        return f"{name}({', '.join([args[0], *rest])})"

    return lower


TEXTS: dict[str, Lowering] = {
    "upper": lambda d, _, args: _mapped(d, "upper", args[0]),
    "lower": lambda d, _, args: _mapped(d, "lower", args[0]),
    "trim": plain("btrim({0}, ' ')"),
    "ltrim": plain("ltrim(' ', {0})"),
    "rtrim": plain("rtrim(' ', {0})"),
    "length": plain("CAST(length({0}) AS BIGINT)"),
    "strpos": plain("CAST(locate({1}, {0}) AS BIGINT)"),
    "contains": plain("contains({0}, {1})"),
    "starts_with": plain("startswith({0}, {1})"),
    "ends_with": plain("endswith({0}, {1})"),
    **{name: _counting(name) for name in ("substring", "left", "right", "lpad", "rpad", "split_part")},
    "list_part": plain("split_part({0}, {1}, CAST({2} AS INT))"),
    "replace": plain("replace({0}, {1}, {2})"),
    "concat_ws": joined("concat_ws({0})", ", "),
    "regexp": _regexp,
    # Patterns are one set of characters or a run of it, so that matching never backtracks.
    "regexp_extract": patterned("regexp_extract({0}, {1}, 0)"),
    "regexp_replace": patterned("regexp_replace({0}, {1}, {2})"),
    "join_text": joined("({0})", " || "),
    "concat": joined("concat_ws('', {0})", ", "),
    "like": _like,
    "ilike": _ilike,
}


_PLAIN = frozenset('abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-+.,:;=<>()[]{}*/%&|!?#@^~"`')
#: Largest list, and longest SQL of a value in characters, that is compared one by one.
_FEW_ITEMS, _SHORT = 64, 20
_LARGEST = 1.7976931348623157e308
_PARTS = {
    "week": "weekofyear({0})",
    "dayofweek": "dayofweek({0}) - 1",
    "isodow": "weekday({0}) + 1",
    "isoyear": "extract(YEAROFWEEK FROM {0})",
    "microsecond": "CAST(extract(SECOND FROM {0}) * 1000000 AS BIGINT) % 1000000",
}


def _towards(direction: str) -> Lowering:
    """Return the lowering of FLOOR or CEIL, evaluated for doubles only where a BIGINT holds the result."""

    def lower(d: Dialect, node: Call, args: Args) -> str:
        if node.args[0].type.kind is not Kind.DOUBLE:
            return COMMON[direction](d, node, args)
        return d.let(args[0], lambda v: f"CASE WHEN {_is_bigint(d, v)} THEN {direction}({v}) END")

    return lower


def _log2(d: Dialect, node: Call, args: Args) -> str:  # noqa: ARG001 - one shape for all lowerings
    # The nearest integer is the logarithm if 2 to its power is the argument.
    def exact(v: str) -> str:
        return f"CASE WHEN pow(2, rint(log2({v}))) = {v} THEN rint(log2({v})) ELSE log2({v}) END"

    return d.finite(d.let(args[0], lambda v: f"CASE WHEN {v} > 0 THEN {exact(v)} END"))


def _extreme(name: str) -> Lowering:
    """Return the lowering of ``least`` or ``greatest``, which Spark refuses for a single argument."""
    return lambda d, node, args: args[0] if len(args) == 1 else f"{name}({', '.join(args)})"  # noqa: ARG005


def _is_bigint(d: Dialect, v: str) -> str:
    low, high = d.number(-(2.0**63)), d.number(2.0**63)
    return f"{v} >= {low} AND {v} < {high}"


class Spark(Dialect):
    """Spark dialect: ``try_cast`` and CASE prevent errors."""

    lowerings: ClassVar[Mapping[str, Lowering]] = {
        **COMMON,
        **TEXTS,
        "floor": _towards("floor"),
        "ceil": _towards("ceil"),
        "log2": _log2,
        "least": _extreme("least"),
        "greatest": _extreme("greatest"),
    }
    fit_integer = Template("try_cast({0} AS BIGINT)")
    # Spark rounds decimals half away from zero.
    read_integer = Template("try_cast(try_cast({0} AS DECIMAL(38,0)) AS BIGINT)")
    read_double = Template("try_cast({0} AS DOUBLE)")
    read_day = Template("try_cast({0} AS DATE)")
    # Spark accepts the year 0, which is NULL here.
    read_date = Template("CASE WHEN left({0}, 4) <> '0000' THEN try_cast({0} AS DATE) END")
    read_timestamp = Template("CASE WHEN left({0}, 4) <> '0000' THEN try_cast({0} AS TIMESTAMP_NTZ) END")
    trimmed = Template("btrim({0}, ' ')")
    days = Template("CAST(unix_date({0}) AS BIGINT)")
    # As a TIMESTAMP in the session's time zone, which is UTC.
    microseconds = Template("unix_micros(CAST({0} AS TIMESTAMP))")
    day_of = Template("date_from_unix_date(CAST({0} AS INT))")
    moment_of = Template("CAST(timestamp_micros({0}) AS TIMESTAMP_NTZ)")
    collected = Template("array_sort(collect_list({0}) FILTER (WHERE {1}))")
    list_size = Template("size({0})")
    # aggregate() folds from the first element to the last.
    list_sum = Template("aggregate({0}, CAST(0 AS DOUBLE), (s, e) -> s + e)")
    list_mean = Template("aggregate({0}, CAST(0 AS DOUBLE), (s, e) -> s + e) / nullif(size({0}), 0)")
    list_squares = Template(
        "aggregate({0}, CAST(0 AS DOUBLE), (s, e) -> s + (e - {1}) * (e - {1})) / nullif(size({0}) - {2}, 0)"
    )
    xor = Template("({0} ^ ({1}))")
    hexadecimal = Template("CAST(conv({0}, 16, 10) AS BIGINT)")
    numbered_copies = Template("SELECT {0}, explode(sequence(CAST(1 AS BIGINT), {1})) AS j FROM {2}")
    wide = "DECIMAL(38,0)"
    text_type = "STRING"
    materialized = "AS"
    reads_once = False
    window_quantiles = False

    @property
    def timestamp_type(self) -> str:
        return "TIMESTAMP_NTZ"

    def quoted(self, name: str) -> str:
        """Return a name in backquotes."""
        if "\0" in name or "${" in name:
            raise ValueError("a name cannot hold NUL or ${")
        return "`" + name.replace("`", "``") + "`"

    def text(self, value: str) -> str:
        """Return a text constant; quotes, backslashes, control characters and $, which names a setting, are escaped."""
        spelled = (char if char in _PLAIN or ord(char) >= 160 else f"\\u{ord(char):04x}" for char in value)
        return "'" + "".join(spelled) + "'"

    def kept_apart(self, query: str) -> str:
        """Add a condition that is always true, which the optimizer cannot infer from a nondeterministic function."""
        return f"SELECT * FROM ({query}) WHERE spark_partition_id() >= 0"

    def bound(self, value: str, body: Callable[[str], str]) -> str:
        """Bind the value by a lambda over an array that holds only this value."""
        return f"element_at(transform(`array`({value}), v -> {body('v')}), 1)"

    # -- whole numbers

    def divided(self, left: str, right: str, *, wide: bool) -> str:
        """Truncate towards zero; quotients of the wide type must stay below 10^32."""
        if not wide:
            return f"{left} DIV {right}"
        return self.let(left, lambda v: f"CAST(({v} - {v} % {right}) / {right} AS {self.wide})")

    def total(self, value: str, largest: int | None = None) -> str:
        """Sum in BIGINT if that always fits, else in two BIGINT halves, which is faster than a sum of decimals."""
        if largest is not None and fits_64_bits(largest):
            return f"sum({value})"
        # 2^40 parts below 2^22 or 2^23 stay within 64 bits.
        if largest is None or largest >= 2**45:
            return f"sum(CAST({value} AS {self.wide}))"
        whole = f"CAST({value} AS BIGINT)"
        high, low = f"sum(shiftright({whole}, 22))", f"sum({whole} & {2**22 - 1})"
        return f"(CAST({high} AS {self.wide}) * {2**22} + {low})"

    # -- doubles

    def is_finite(self, value: str) -> str:
        """Compare with the largest double; NaN compares larger than every number."""
        return f"(abs({value}) <= {self.number(_LARGEST)})"

    def double_to_integer(self, value: str) -> str:
        """Cast only where the result fits."""
        return self.let(value, lambda v: f"CASE WHEN {_is_bigint(self, v)} THEN CAST(rint({v}) AS BIGINT) END")

    def double_to_wide(self, value: str) -> str:
        """Cast in two parts; the scaling by a power of two is exact."""
        far, cut = self.number(2.0**94), self.number(2.0**32)

        def halves(v: str) -> str:
            high = f"floor({v} / {cut})"
            low = f"CAST({v} - CAST({high} AS DOUBLE) * {cut} AS BIGINT)"
            return f"CASE WHEN abs({v}) < {far} THEN CAST({high} AS {self.wide}) * {2**32} + {low} END"

        return self.let(value, halves)

    def cut(self, value: str) -> str:
        """Cast by way of BIGINT below 2^53; larger doubles are integral already."""
        whole = self.number(2.0**53)
        return self.let(
            value, lambda v: f"CASE WHEN abs({v}) < {whole} THEN CAST(CAST({v} AS BIGINT) AS DOUBLE) ELSE {v} END"
        )

    def double_steps(self, value: str, measure: Measure) -> str:
        """Use IEEE arithmetic, and clamp with ``least`` and ``greatest``."""
        step = measure.step
        if step.numerator == 1 and is_power_of_two(step.denominator):
            moved = f"{value} * {self.number(float(step.denominator))}"
        else:
            moved = f"{value} / {self.number(float(step))}"
        low, high = self.number(float(measure.low)), self.number(float(measure.high))
        steps = rounded_steps(self, f"least(greatest({moved}, {low}), {high})", measure)
        return f"(CASE WHEN {self.is_finite(value)} THEN {steps} END)"

    # -- text

    def matches(self, value: str, pattern: str) -> str:
        """Match from the start to the very end of the text; Java's ``$`` would accept a final line break."""
        return f"({value} RLIKE {self.text(chr(92) + f'A(?:{pattern})' + chr(92) + 'z')})"

    def read_decimal(self, value: str, scale: int) -> str:
        """Cast with ``try_cast``, then drop the point."""
        return mantissa(f"try_cast({value} AS DECIMAL(18,{scale}))", scale)

    # -- times

    def part(self, name: str, value: str, kind: SqlType) -> str:  # noqa: ARG002 - the same for both
        """Use Spark's function, shifted to the numbering of the registry."""
        return f"CAST({_PARTS.get(name, name + '({0})').format(value)} AS BIGINT)"

    def truncated(self, unit: str, value: str, kind: SqlType) -> str:
        """Use Spark's functions; its TRUNC of a DATE does not support days."""
        if kind == DATE:
            return value if unit == "day" else f"CAST(trunc({value}, '{unit}') AS DATE)"
        return f"CAST(date_trunc('{unit}', {value}) AS TIMESTAMP_NTZ)"

    def months_later(self, value: str, months: str, kind: SqlType) -> str:
        """Add months, then check the range."""
        count = f"CAST({months} AS INT)"
        moved = f"add_months({value}, {count})" if kind == DATE else f"timestampadd(MONTH, {count}, {value})"
        return within_years(self, moved, kind)

    def last_day(self, value: str, kind: SqlType) -> str:
        """Use ``last_day``, which takes a DATE."""
        return f"last_day({value if kind == DATE else f'CAST({value} AS DATE)'})"

    # -- aggregates

    def quantile(self, value: str, fraction: float, where: str, over: str) -> str:
        """Interpolate in the sorted list: Spark's own function computes in another order."""
        if over:
            raise InternalError("a quantile over a window is joined, and never written over it")

        def between(v: str) -> str:
            place = f"((size({v}) - 1) * {self.number(fraction)})"
            low, high = (f"try_element_at({v}, CAST({name}({place}) AS INT) + 1)" for name in ("floor", "ceil"))
            return f"CASE WHEN size({v}) > 0 THEN {low} + ({high} - {low}) * ({place} - floor({place})) END"

        return self.bound(f"array_sort(collect_list({value}){where})", between)

    # -- choosing

    def position(self, value: str, items: Sequence[str], kind: SqlType) -> str:
        """Compare a few constants one by one, which Spark compiles, else search an array; NULL is tested separately."""
        nothing = self.constant(None, kind)
        if len(items) <= _FEW_ITEMS and len(value) <= _SHORT:
            tests = (f"{value} IS NULL" if item == nothing else f"{value} = {item}" for item in items)
            listed = " ".join(f"WHEN {test} THEN {i}" for i, test in enumerate(tests))
            return f"CAST(CASE {listed} END AS BIGINT)"
        found = f"nullif(array_position(`array`({', '.join(items)}), {value}), 0) - 1"
        if nothing not in items:
            return f"({found})"
        return f"(CASE WHEN {value} IS NULL THEN CAST({items.index(nothing)} AS BIGINT) ELSE {found} END)"


def mantissa(value: str, scale: int) -> str:
    """Return SQL of a Spark DECIMAL(18,scale) without its point."""
    return f"CAST({value} * CAST({10**scale} AS DECIMAL(10,0)) AS BIGINT)"


SPARK = Spark()
