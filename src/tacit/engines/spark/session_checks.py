"""Checks with known answers that a Spark session must pass before use.

Each has a name for the doctor, and the setting that decides it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from tacit.core.errors import InputError

__all__ = ["TRIALS", "Trial", "passes", "try_out"]


@dataclass(frozen=True)
class Trial:
    """Something that must hold.

    Args:
        name: for people.
        words: what is so where it holds.
        remedy: what to set where it does not.
        true: conditions that must be true.
        fails: statements that must fail.
    """

    name: str
    words: str
    remedy: str
    true: tuple[str, ...] = ()
    fails: tuple[str, ...] = ()


_SUM: Final = (
    "(SELECT sum(CAST(x AS DECIMAL(38,0))) FROM VALUES (42535295865117307932921825928971026431),"
    " (42535295865117307932921825928971026432) AS t(x)) = 85070591730234615865843651857942052863"
)
_QUOTIENT: Final = (
    "CAST(CAST('77371252455336267181195266' AS DECIMAL(38,0)) / CAST(2 AS DECIMAL(38,0)) AS DECIMAL(38,0))"
    " = 38685626227668133590597633"
)
#: Without ANSI mode these give numbers, and wrong ones.
_WRAPPING: Final = (
    "SELECT x + CAST(1 AS BIGINT) FROM VALUES (CAST(9223372036854775807 AS BIGINT)) AS t(x)",
    "SELECT sum(x) FROM VALUES (CAST(9223372036854775807 AS BIGINT)), (CAST(1 AS BIGINT)) AS t(x)",
    "SELECT CAST(x AS BIGINT) FROM VALUES ('x') AS t(x)",
)
TRIALS: Final = (
    Trial(
        "casts",
        "a cast that cannot be done is NULL with try_cast",
        "use Spark 4: casts that cannot be done must give NULL with try_cast",
        (
            "try_cast('x' AS BIGINT) IS NULL",
            "try_cast(CAST('9223372036854775808' AS DECIMAL(38,0)) AS BIGINT) IS NULL",
            "try_cast('2024-02-30' AS DATE) IS NULL",
        ),
    ),
    Trial(
        "decimal sums",
        "sums and quotients of DECIMAL(38,0) are exact",
        "set spark.sql.decimalOperations.allowPrecisionLoss to true",
        (_SUM, _QUOTIENT),
    ),
    Trial(
        "time zone",
        "the clock of the session is UTC",
        "set spark.sql.session.timeZone to UTC",
        (
            "unix_micros(CAST(TIMESTAMP_NTZ '2024-03-31 02:30:00' AS TIMESTAMP)) = 1711852200000000",
            "unix_micros(CAST(TIMESTAMP_NTZ '0001-01-01 00:00:00' AS TIMESTAMP)) = -62135596800000000",
            "unix_micros(CAST(TIMESTAMP_NTZ '2024-12-01 00:00:00' AS TIMESTAMP)) = 1733011200000000",
        ),
    ),
    Trial(
        "texts",
        "texts are compared byte by byte",
        "use the collation UTF8_BINARY: texts must be compared byte by byte",
        ("NOT ('a' = 'A') AND NOT ('a ' = 'a') AND NOT ('\\u00e9' = 'e\\u0301') AND 'Z' < 'a'",),
    ),
    Trial(
        "text constants",
        "a letter may be spelled by its number",
        "set spark.sql.parser.escapedStringLiterals to false",
        ("length('\\u0024\\u007bspark.master}') = 15 AND '\\u005c' = chr(92)",),
    ),
    Trial(
        "doubles",
        "doubles follow IEEE arithmetic, with NaN the largest",
        "use Spark 4 on Java 17: doubles must follow IEEE arithmetic, with NaN the largest",
        ("double('NaN') > double('Infinity') AND double('1e308') * double('10') = double('Infinity')",),
    ),
    Trial(
        "ANSI mode",
        "sums that overflow fail instead of wrapping",
        "set spark.sql.ansi.enabled to true",
        fails=_WRAPPING,
    ),
)


def try_out(spark: Any) -> None:
    """Refuse a session that fails a trial.

    Raises:
        InputError: naming the settings.
    """
    # All conditions at once, and trial by trial where that fails: a condition may also raise.
    if not _hold(spark, [condition for trial in TRIALS for condition in trial.true]):
        wrong = [trial.remedy for trial in TRIALS if trial.true and not passes(spark, trial)]
        raise InputError("engine", f"this Spark session is not fit for exact sums: {'; '.join(wrong) or 'no answer'}")
    if not all(_fails(spark, statement) for trial in TRIALS for statement in trial.fails):
        raise InputError(
            "engine",
            "this Spark session is not in ANSI mode, so sums that overflow would wrap without a word;"
            " set spark.sql.ansi.enabled to true",
        )


def passes(spark: Any, trial: Trial) -> bool:
    """Whether one trial comes out well."""
    return (not trial.true or _hold(spark, trial.true)) and all(_fails(spark, each) for each in trial.fails)


def _hold(spark: Any, conditions: Iterable[str]) -> bool:
    try:
        return all(answer is True for answer in spark.sql(f"SELECT {', '.join(conditions)}").collect()[0])
    except Exception:
        return False


def _fails(spark: Any, statement: str) -> bool:
    try:
        spark.sql(statement).collect()
    except Exception:
        return True
    return False
