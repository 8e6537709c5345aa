"""Values that only a PostgreSQL can hold, in one person's row: they change no other row and no status."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import psycopg
import pytest

from engines.makers import database
from engines.nasty import MONEY, PERSON, Found, asked, catalog, check_neighbours, queries, reading
from tacit.engines.postgres import PostgresEngine
from tacit.engines.protocol import Limits
from tacit.query.types import DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, SqlType

_numbers = itertools.count(1)
NUMERIC = [
    "'NaN'",
    "1e1000",
    "-1e1000",
    "1e-1000",
    "9.99999999999999999999999999999999999999",
    "99999999999999999999",
    "NULL",
]
CASES: dict[str, tuple[list[SqlType], list[str], list[str]]] = {
    "numeric": ([MONEY, INTEGER, DOUBLE], ["1", "2", "3"], NUMERIC),
    "float4": ([DOUBLE, INTEGER], ["0.5", "1.5", "2"], ["'NaN'", "'Infinity'", "'-Infinity'", "'-0'", "1e-45", "3.4e38"]),
    "float8": ([DOUBLE, MONEY], ["0.5", "1.5", "2"], ["'NaN'", "'Infinity'", "'-0'", "5e-324", "1.7e308"]),
    "date": ([DATE, TIMESTAMP], ["'2024-01-01'", "'2024-01-02'", "'2024-01-03'"], ["'infinity'", "'-infinity'", "'4713-01-01 BC'", "'0001-12-31 BC'", "'5874897-01-01'", "'10000-01-01'"]),
    "timestamp": ([TIMESTAMP, DATE], ["'2024-01-01'", "'2024-01-02'", "'2024-01-03'"], ["'infinity'", "'-infinity'", "'4713-01-01 BC'", "'294276-12-31'", "'10000-01-01'", "'2024-01-01 24:00:00'"]),
    "timestamptz": ([TIMESTAMP, DATE], ["'2024-01-01Z'", "'2024-01-02Z'", "'2024-01-03Z'"], ["'infinity'", "'-infinity'", "'4713-01-01 BC'", "'294276-12-31Z'", "'9999-12-31 23:59:59-12'", "'0001-01-01 00:00:00+12'"]),
    "text": ([TEXT, INTEGER, DOUBLE, DATE, MONEY], ["'a'", "'b'", "'12'"], ["''", "repeat('x', 1000000)", "E'\\\\x01'", "chr(1114111)", "'e' || chr(769)", "chr(65279)", "repeat('9', 5000)", "'1e999999999'"]),
    "varchar(20)": ([TEXT], ["'a'", "'b'", "'12'"], ["'a '", "' '", "NULL"]),
    "char(8)": ([TEXT], ["'a'", "'b'", "'12'"], ["''", "'a'", "' a'"]),
    "uuid": ([TEXT], [f"'{i}0000000-0000-0000-0000-000000000000'" for i in (1, 2, 3)], ["'ffffffff-ffff-ffff-ffff-ffffffffffff'", "NULL"]),
    "int8": ([INTEGER, MONEY, DOUBLE, TEXT], ["1", "2", "3"], ["9223372036854775807", "-9223372036854775808", "NULL"]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("stored", "declared"),
    [
        pytest.param(stored, kind, marks=() if kind == kinds[0] else pytest.mark.deep)
        for stored, (kinds, _, _) in CASES.items()
        for kind in kinds
    ],
)
def test_one_row_of_one_person(stored: str, declared: SqlType) -> None:
    _, ordinary, values = CASES[stored]
    with psycopg.connect(database(), autocommit=True) as connection:

        def table(extra: list[str]) -> str:
            name = f"public.nasty_{next(_numbers)}"
            connection.execute(f"CREATE TABLE {name} (id bigint, x {stored})".encode())
            rows = [f"({i}, CAST({ordinary[i % 3]} AS {stored}))" for i in range(12)]
            rows += [f"({PERSON + i}, CAST({value} AS {stored}))" for i, value in enumerate(extra)]
            connection.execute(f"INSERT INTO {name} VALUES {', '.join(rows)}".encode())
            return name

        def found(extra: list[str], texts: Sequence[str] = ()) -> Found:
            with PostgresEngine(catalog(declared), {"t": table(extra)}, database(), Limits()) as engine:
                return asked(engine, declared, texts)

        # What is computed from values is asked where all values are of the declared type; elsewhere how they are read.
        kinds = CASES[stored][0]
        pairs = [*queries(declared)] if declared == kinds[0] else reading(declared)
        alone = found([], [all_persons for all_persons, _ in pairs])
        check_neighbours(alone, found(values, [sql for pair in pairs for sql in pair]), declared, len(values))
        one = values[kinds.index(declared) % len(values)]
        texts = [sql for pair in reading(declared) for sql in pair]
        check_neighbours(alone, found([one], texts), declared, 1)
