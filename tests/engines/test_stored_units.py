"""Units as stores write them: one form per population, and every row of one person under one unit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines.makers import database
from support.unit_files import BIG, counted, people, rows, write
from tacit.core.errors import InputError
from tacit.engines.duckdb import DataSource, DuckDBEngine, Limits
from tacit.engines.duckdb.sources import _in_files
from tacit.engines.duckdb.sources import form_of as duckdb_form
from tacit.engines.postgres import PostgresEngine
from tacit.engines.protocol import MeasurementTask
from tacit.engines.spark.sources import form_of as spark_form
from tacit.engines.stored_units import Form
from tacit.query.catalog import Catalog, Column, ForeignKey, Population, Table
from tacit.query.refusal import Refusal
from tacit.query.resolve import resolve
from tacit.query.types import BOOLEAN, DATE, INTEGER, TEXT, SqlType, decimal


def frame(ids: pa.Array) -> DataSource:
    return DataSource("frame", None, pa.table({"id": ids, "x": pa.array([1] * len(ids), pa.int64())}))


# Files and frames


def test_files_of_one_table_with_whole_numbers_and_doubles_are_refused(tmp_path: Path) -> None:
    """Read together they are doubles, in which 2^53 and 2^53 + 1 are one person."""
    write(tmp_path / "a.parquet", pa.array([BIG, BIG + 1]))
    write(tmp_path / "b.parquet", pa.array([1.0, 2.0]))
    with pytest.raises(InputError, match=r"t\.id: is stored as BIGINT and DOUBLE in files of one source"):
        DuckDBEngine(people(INTEGER), {"t": DataSource("parquet", str(tmp_path / "*.parquet"))})
    write(tmp_path / "b.parquet", pa.array([BIG, 3], pa.uint64()))
    with pytest.raises(InputError, match=r"t\.id: is stored as BIGINT and UBIGINT in files of one source"):
        DuckDBEngine(people(INTEGER), {"t": DataSource("parquet", str(tmp_path / "*.parquet"))})
    write(tmp_path / "b.parquet", pa.array([BIG, 3]))
    with DuckDBEngine(people(INTEGER), {"t": DataSource("parquet", str(tmp_path / "*.parquet"))}) as engine:
        assert counted(engine, "SELECT COUNT(DISTINCT id) FROM t", people(INTEGER))[0] == [3]


def test_files_with_texts_and_numbers_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", pa.array([7]))
    write(tmp_path / "b.parquet", pa.array(["07"]))
    for kind in (INTEGER, TEXT):
        with pytest.raises(InputError, match=r"t\.id: is stored as BIGINT and VARCHAR in files of one source"):
            DuckDBEngine(people(kind), {"t": DataSource("parquet", str(tmp_path / "*.parquet"))})


def test_a_file_without_the_unit_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", pa.array([7]))
    pq.write_table(pa.table({"x": pa.array([1])}), tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"b\.parquet lacks the column id"):
        DuckDBEngine(people(INTEGER), {"t": DataSource("parquet", str(tmp_path / "*.parquet"))})


def test_a_unit_in_the_names_of_folders_is_refused(tmp_path: Path) -> None:
    """Whether 01 and 1 are one person would depend on whether another folder is called x."""
    for folder in ("id=01", "id=1"):
        (tmp_path / folder).mkdir()
        pq.write_table(pa.table({"x": pa.array([1])}), tmp_path / folder / "a.parquet")
    with pytest.raises(InputError, match=r"t\.id: 'id' is not a column of the source"):
        DuckDBEngine(people(INTEGER), {"t": DataSource("parquet", str(tmp_path / "*" / "*.parquet"))})


@pytest.mark.parametrize(
    ("kind", "ids", "shown"),
    [
        (INTEGER, pa.array([1.0, float(BIG)]), "DOUBLE"),
        (INTEGER, pa.array([1.0], pa.float32()), "FLOAT"),
        (decimal(2), pa.array([1.5]), "DOUBLE"),
        (INTEGER, pa.array([True]), "BOOLEAN"),
        (TEXT, pa.array([7]), "BIGINT"),
        (TEXT, pa.array([True]), "BOOLEAN"),
        (BOOLEAN, pa.array([7]), "BIGINT"),
        (DATE, pa.array([0], pa.timestamp("us")), "TIMESTAMP"),
        (decimal(2), pa.array(["1.234"]).cast(pa.decimal128(9, 3)), r"DECIMAL\(9,3\)"),
        (INTEGER, pa.array(["1.50"]).cast(pa.decimal128(9, 2)), r"DECIMAL\(9,2\)"),
    ],
)
def test_stored_types_that_do_not_keep_persons_apart(kind: SqlType, ids: pa.Array, shown: str) -> None:
    with pytest.raises(InputError, match=rf"tables\.t\.columns\.id: tells persons apart, is stored as {shown} "):
        DuckDBEngine(people(kind), {"t": frame(ids)})


@pytest.mark.parametrize(
    ("kind", "ids"),
    [
        (INTEGER, pa.array([1, 1, None, 2], pa.int8())),
        (INTEGER, pa.array([1, 1, 2**64 - 1, 2], pa.uint64())),
        (INTEGER, pa.array(["1", "01", "x", "2"])),
        (INTEGER, pa.array([1, 1, None, 2]).dictionary_encode()),
        (INTEGER, pa.array(["1", "1", None, "2"]).cast(pa.decimal128(20, 0))),
        (decimal(2), pa.array(["1.5", "1.5", None, "2.5"]).cast(pa.decimal128(9, 1))),
        (decimal(0), pa.array([1, 1, None, 2])),
        (TEXT, pa.array(["a", "a", None, "A"])),
        (TEXT, pa.array(["a", "a", None, "b"]).dictionary_encode()),
        (TEXT, pa.array(["a", "a", None, "a "], pa.large_string())),
        (DATE, pa.array([0, 0, None, 1], pa.date32())),
        (BOOLEAN, pa.array([True, True, None, False])),
    ],
)
def test_stored_types_that_do(kind: SqlType, ids: pa.Array) -> None:
    """Two persons each; a row whose unit cannot be read belongs to no person."""
    catalog = people(kind)
    with DuckDBEngine(catalog, {"t": frame(ids)}) as engine:
        assert counted(engine, "SELECT COUNT(DISTINCT id) FROM t", catalog)[0] == [2]


def test_keys_on_the_way_to_a_unit_count(tmp_path: Path) -> None:
    """A visit whose key has lost its last digits would be another person's."""
    catalog = Catalog(
        (
            Table("people", (Column("key", INTEGER, unique=True), Column("id", INTEGER)), population="p", unit="id"),
            Table("t", (Column("key", INTEGER),), population="p", foreign_keys=(ForeignKey("key", "people", "key"),)),
        ),
        (Population("p"),),
    )
    whole = pa.table({"key": pa.array([1]), "id": pa.array([1])})
    frames = {"people": whole, "t": pa.table({"key": pa.array([1.0])})}
    sources = {name: DataSource("frame", None, made) for name, made in frames.items()}
    with pytest.raises(InputError, match=r"tables\.t\.columns\.key: tells persons apart, is stored as DOUBLE"):
        DuckDBEngine(catalog, sources)


def test_two_columns_that_differ_in_case_alone(tmp_path: Path) -> None:
    """Which of them is the person was a matter of their order."""
    table = pa.table({"ID": [7, 7], "id": [1, 2], "x": [1, 1]})
    with pytest.raises(InputError, match=r"t\.id: stands for two columns of the source"):
        DuckDBEngine(people(INTEGER), {"t": DataSource("frame", None, table)})
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"tables\.t\.columns\.id: .*stored as two columns that differ in case"):
        DuckDBEngine(people(INTEGER), {"t": DataSource("parquet", str(tmp_path / "t.parquet"))})


def test_columns_of_files_are_told_as_duckdb_reads_them(tmp_path: Path) -> None:
    """The types come from the footer, which lists nested columns with their parts; those have no form."""
    nested = pa.array([{"id": 1, "deep": {"id": 2}}, None])
    table = pa.table(
        {
            "before": nested, "lists": pa.array([[{"id": 1}], []]), "id": pa.array([1, 2], pa.uint16()), "after": nested,
            "text": ["a", "b"], "dict": pa.array(["a", "b"]).dictionary_encode(), "nulls": pa.nulls(2),
            "money": pa.array(["1.5", "2"]).cast(pa.decimal128(9, 2)), "big": pa.array(["1", "2"]).cast(pa.decimal128(30, 0)),
            "day": pa.array([1, 2], pa.date32()), "yes": [True, False], "float": [1.5, 2.5], "seen": pa.array([1, 2], pa.timestamp("ms")),
            "bytes": pa.array([b"a", b"b"]), "small": pa.array([1, 2], pa.int8()),
        }
    )  # fmt: skip
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(table.select(["id", "text"]), tmp_path / "b.parquet")
    with duckdb.connect() as connection:
        found = dict(_in_files(connection, [str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")]))
        described = connection.execute(f"DESCRIBE FROM '{tmp_path}/a.parquet'").fetchall()
    assert list(found) == ["a.parquet", "b.parquet"]
    assert list(found["b.parquet"]) == ["id", "text"]
    told = {name: (column.form, column.scale) for name, column in found["a.parquet"].items()}
    seen = {name: duckdb_form(kind.upper()) for name, kind, *_ in described}
    assert told == {name: (column.form, column.scale) for name, column in seen.items()}
    assert {told[name][0] for name in ("before", "after", "lists", "bytes", "float", "seen")} == {Form.OTHER}


# Tables of a DuckDB file


def base(place: Path, *statements: str) -> str:
    with duckdb.connect(str(place)) as connection:
        for statement in statements:
            connection.execute(statement)
    return str(place)


def test_a_uuid_and_its_text_in_one_population_are_refused(tmp_path: Path) -> None:
    one = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
    file = base(
        tmp_path / "b.duckdb",
        f"CREATE TABLE a AS SELECT '{one}'::UUID AS id, 1::BIGINT AS x",
        f"CREATE TABLE b AS SELECT upper('{one}') AS id, 1::BIGINT AS x",
        "CREATE VIEW c AS SELECT CAST(id AS VARCHAR) AS id, x FROM a",
    )
    sources = {name: DataSource("duckdb", f"{file}#{name}") for name in "abc"}
    with pytest.raises(InputError, match=r"tables\.b\.columns\.id: .*by text \(VARCHAR\), and a\.id by UUID"):
        DuckDBEngine(people(TEXT, "a", "b"), {name: sources[name] for name in "ab"})
    DuckDBEngine(people(TEXT, "b", "c"), {name: sources[name] for name in "bc"}).close()
    DuckDBEngine(people(TEXT, "a"), {"a": sources["a"]}).close()


def test_texts_of_a_collated_column_are_compared_byte_by_byte(tmp_path: Path) -> None:
    """Under NOCASE, Ab and ab are one person here and two where the text is hashed, and one key under either spelling."""
    file = base(
        tmp_path / "b.duckdb",
        "CREATE TABLE t (id VARCHAR COLLATE NOCASE, x BIGINT)",
        "INSERT INTO t VALUES ('Ab', 1), ('ab', 1), ('ab', 1)",
    )
    catalog = people(TEXT)
    with DuckDBEngine(catalog, {"t": DataSource("duckdb", f"{file}#t")}) as engine:
        assert counted(engine, "SELECT COUNT(*) FROM t", catalog)[0] == [2]
        assert counted(engine, "SELECT COUNT(*) FROM t WHERE id = 'AB'", catalog)[0] == [0]
        # Rows have other texts than their units.
        keyed = Catalog((Table("t", catalog.tables[0].columns, population="p", unit="x"),), (Population("p"),))
    with DuckDBEngine(keyed, {"t": DataSource("duckdb", f"{file}#t")}) as engine:
        found = engine.measure(MeasurementTask(resolve("SELECT id, COUNT(*) FROM t GROUP BY id", keyed).final, b"k"))
        assert len(found.keys) == 1
        assert engine.measure(
            MeasurementTask(resolve("SELECT COUNT(DISTINCT id) FROM t", keyed).final, b"k")
        ).raw_units == [1]


def test_rows_of_a_view_have_no_number(tmp_path: Path) -> None:
    file = base(
        tmp_path / "b.duckdb", "CREATE TABLE a AS SELECT 1::BIGINT AS id, 1::BIGINT AS x", "CREATE VIEW t AS FROM a"
    )
    doubled = resolve("SELECT COUNT(*) FROM (SELECT x FROM t UNION ALL SELECT x FROM t)", rows()).final
    with DuckDBEngine(rows(), {"t": DataSource("duckdb", f"{file}#t")}) as engine:
        assert counted(engine, "SELECT COUNT(*) FROM t", rows()) == [[1], [1]]
        with pytest.raises(Refusal, match="have no address"):
            engine.check(doubled)


@pytest.mark.parametrize("name", ["tacit row", "Tacit Row"])
def test_a_frame_with_a_column_called_as_the_number_of_a_row(name: str) -> None:
    """The values of the column would decide the units: all zeros made all people one."""
    table = pa.table({"id": [1, 2], "x": [1, 1], name: [0, 0]})
    with pytest.raises(InputError, match=r"tables\.t\.source: has a column called 'tacit row'"):
        DuckDBEngine(rows(), {"t": DataSource("frame", None, table)})


@pytest.mark.parametrize("name", ["file_index", "FILE_INDEX", "file_row_number"])
def test_a_file_with_a_column_called_as_the_number_of_a_row(tmp_path: Path, name: str) -> None:
    """A text in it made queries fail, by one person's value."""
    pq.write_table(pa.table({"id": [1, 2], "x": [1, 1], name: ["a", "0"]}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=rf"tables\.t\.source: has a column called '{name.lower()}'"):
        DuckDBEngine(rows(), {"t": DataSource("parquet", str(tmp_path / "t.parquet"))})


def test_a_table_with_a_column_called_rowid(tmp_path: Path) -> None:
    file = base(tmp_path / "b.duckdb", "CREATE TABLE t AS SELECT 1::BIGINT AS id, 1::BIGINT AS x, 0 AS rowid")
    with pytest.raises(InputError, match=r"tables\.t\.source: has a column called 'rowid'"):
        DuckDBEngine(rows(), {"t": DataSource("duckdb", f"{file}#t")})
    DuckDBEngine(rows("id"), {"t": DataSource("duckdb", f"{file}#t")}).close()


def test_rows_of_many_csv_files_are_recognised_again(tmp_path: Path) -> None:
    """Files are read by several threads; a row read twice must be one person both times."""
    for file in range(4):
        lines = "".join(f"{i},{(i * 7 + file) % 10}\n" for i in range(30_000))
        (tmp_path / f"{file}.csv").write_text(f"id,x\n{lines}")
    total = sum(min(2 * ((i * 7 + file) % 10), 9) for file in range(4) for i in range(30_000))
    doubled = "SELECT COUNT(*), SUM(x) FROM (SELECT x FROM t UNION ALL SELECT x FROM t)"
    with DuckDBEngine(rows(), {"t": DataSource("csv", str(tmp_path / "*.csv"))}, Limits(threads=4)) as engine:
        assert counted(engine, doubled, rows()) == [[120_000], [120_000], [total]]


def test_a_view_that_reads_other_files_is_refused(tmp_path: Path) -> None:
    """Called public, it gave out the rows of a protected file that the project reads as well."""
    write(tmp_path / "a.parquet", pa.array([1]))
    file = base(tmp_path / "b.duckdb", f"CREATE VIEW v AS FROM '{tmp_path}/a.parquet'")
    with pytest.raises(InputError, match=r"tables\.t\.source: v is a view that reads other files than b\.duckdb"):
        DuckDBEngine(people(INTEGER), {"t": DataSource("duckdb", f"{file}#v")})


# PostgreSQL


@pytest.fixture
def schema() -> Any:
    with psycopg.connect(database(), autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS persons CASCADE; CREATE SCHEMA persons")
        yield connection


def test_rows_of_parents_and_children_are_different_persons(schema: Any) -> None:
    """Parent and child have the same addresses: without the table's number two rows would be one person."""
    schema.execute("CREATE TABLE persons.t (id bigint, x bigint)")
    schema.execute("CREATE TABLE persons.child () INHERITS (persons.t)")
    for table in ("t", "child"):
        schema.execute(f"INSERT INTO persons.{table} SELECT i, i % 10 FROM generate_series(1, 50) AS s(i)")
    doubled = "SELECT COUNT(*) FROM (SELECT x FROM t UNION ALL SELECT x FROM t)"
    with PostgresEngine(rows(), {"t": "persons.t"}, database()) as engine:
        assert counted(engine, doubled, rows()) == [[100], [100]]
        assert counted(engine, "SELECT MEDIAN(x) FROM t", rows())[0] == [100]
        # A row that goes takes no other row along.
        schema.execute("DELETE FROM persons.child WHERE id = 7")
        assert counted(engine, doubled, rows()) == [[99], [99]]


def test_rows_of_partitions_have_addresses(schema: Any) -> None:
    schema.execute("CREATE TABLE persons.t (id bigint, x bigint) PARTITION BY RANGE (id)")
    for i in range(3):
        schema.execute(
            f"CREATE TABLE persons.p{i} PARTITION OF persons.t FOR VALUES FROM ({i * 10}) TO ({i * 10 + 10})"
        )
    schema.execute("INSERT INTO persons.t SELECT i, i % 10 FROM generate_series(0, 29) AS s(i)")
    doubled = "SELECT COUNT(*) FROM (SELECT x FROM t UNION ALL SELECT x FROM t)"
    with PostgresEngine(rows(), {"t": "persons.t"}, database()) as engine:
        assert counted(engine, doubled, rows()) == [[30], [30]]
        schema.execute("CREATE TABLE persons.p3 PARTITION OF persons.t FOR VALUES FROM (30) TO (40)")
        schema.execute("INSERT INTO persons.t VALUES (30, 0)")
        assert counted(engine, doubled, rows()) == [[31], [31]]


def test_a_table_that_gets_children_is_opened_again(schema: Any) -> None:
    from tacit.core.errors import EngineError

    schema.execute("CREATE TABLE persons.t (id bigint, x bigint); INSERT INTO persons.t VALUES (1, 1)")
    with PostgresEngine(rows(), {"t": "persons.t"}, database()) as engine:
        schema.execute("CREATE TABLE persons.child () INHERITS (persons.t)")
        with pytest.raises(EngineError):
            counted(engine, "SELECT COUNT(*) FROM t", rows())


def test_parents_children_and_siblings_share_marks(schema: Any) -> None:
    schema.execute("CREATE TABLE persons.t (id bigint, x bigint) PARTITION BY RANGE (id)")
    schema.execute("CREATE TABLE persons.a PARTITION OF persons.t FOR VALUES FROM (0) TO (10)")
    schema.execute("CREATE TABLE persons.b PARTITION OF persons.t FOR VALUES FROM (10) TO (20)")
    schema.execute("CREATE VIEW persons.v AS SELECT * FROM persons.b; CREATE TABLE persons.other (id bigint, x bigint)")

    def marks(name: str) -> Any:
        with PostgresEngine(rows("id"), {"t": f"persons.{name}"}, database()) as engine:
            return engine.marks("t")

    assert set(marks("t").marks) == set(marks("a").marks) == set(marks("b").marks) == set(marks("a").rows)
    assert set(marks("a").marks) < set(marks("v").marks)
    # What a view calls its columns is its own affair.
    assert not set(marks("v").rows) & set(marks("a").marks)
    assert not set(marks("other").marks) & set(marks("t").marks)


@pytest.mark.parametrize(
    ("kind", "one", "other", "words"),
    [
        (TEXT, "char(5)", "text", r"tables\.u\.columns\.id: .*by text \(text\), and t\.id by text padded with spaces"),
        (TEXT, "varchar(9)", "uuid", r"tables\.u\.columns\.id: .*by UUID \(uuid\), and t\.id by text"),
        (INTEGER, "bigint", "double precision", r"tables\.u\.columns\.id: .*stored as float8"),
        (INTEGER, "bigint", "numeric", r"tables\.u\.columns\.id: .*stored as numeric and"),
        (INTEGER, "bigint", "numeric(12,2)", r"tables\.u\.columns\.id: .*stored as numeric\(12,2\)"),
        (TEXT, "text", "bigint", r"tables\.u\.columns\.id: .*stored as int8"),
        (DATE, "date", "timestamptz", r"tables\.u\.columns\.id: .*stored as timestamptz"),
        (INTEGER, "bigint", "numeric(12,0)", ""),
        (INTEGER, "int2", "text", ""),
        (TEXT, "text", "varchar(3)", ""),
    ],
)
def test_forms_of_persons_in_postgres(schema: Any, kind: SqlType, one: str, other: str, words: str) -> None:
    for name, stored in (("t", one), ("u", other)):
        schema.execute(f"CREATE TABLE persons.{name} (id {stored}, x bigint)")
    names = {"t": "persons.t", "u": "persons.u"}
    if words:
        with pytest.raises(InputError, match=words):
            PostgresEngine(people(kind, "t", "u"), names, database())
    else:
        PostgresEngine(people(kind, "t", "u"), names, database()).close()


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        ("bigint", Form.WHOLE), ("decimal(20,0)", Form.WHOLE), ("decimal(12,2)", Form.DECIMAL), ("double", Form.OTHER),
        ("string", Form.TEXT), ("string collate UTF8_LCASE", Form.TEXT), ("char(5)", Form.PADDED), ("varchar(5)", Form.TEXT),
        ("date", Form.DATE), ("timestamp", Form.OTHER), ("binary", Form.OTHER), ("void", Form.NOTHING),
    ],
)  # fmt: skip
def test_forms_of_persons_in_spark(kind: str, form: Form) -> None:
    assert spark_form(kind).form is form


def test_foreign_tables_for_one_place_share_a_mark(schema: Any) -> None:
    """No row is read for it, so that wrappers without a handler will do."""
    schema.execute("DROP FOREIGN DATA WRAPPER IF EXISTS w CASCADE; CREATE FOREIGN DATA WRAPPER w")
    for server, port in (("one", 1), ("two", 1), ("three", 2)):
        schema.execute(f"CREATE SERVER {server} FOREIGN DATA WRAPPER w OPTIONS (host 'h', dbname 'd', port '{port}')")
        schema.execute(
            f"CREATE FOREIGN TABLE persons.{server} (id bigint, x bigint) SERVER {server}"
            " OPTIONS (schema_name 's', table_name 't')"
        )

    def marks(name: str) -> set[str]:
        with PostgresEngine(rows("id"), {"t": f"persons.{name}"}, database()) as engine:
            return set(engine.marks("t").marks)

    assert len(marks("one") & marks("two")) == 1
    assert not marks("one") & marks("three")


def test_a_view_of_a_function_is_refused(schema: Any) -> None:
    """The table that the function reads stands in its text: the view would have a budget of its own."""
    schema.execute("CREATE TABLE persons.t (id bigint, x bigint)")
    schema.execute("CREATE FUNCTION persons.f() RETURNS SETOF persons.t LANGUAGE sql AS 'SELECT * FROM persons.t'")
    schema.execute(
        "CREATE VIEW persons.v AS SELECT * FROM persons.f(); CREATE VIEW persons.w AS SELECT * FROM persons.v"
    )
    for name in ("v", "w"):
        with pytest.raises(InputError, match=rf"persons\.{name} takes rows from the function persons\.f"):
            PostgresEngine(rows("id"), {"t": f"persons.{name}"}, database())
    schema.execute("CREATE VIEW persons.s AS SELECT i AS id, i AS x FROM generate_series(1::bigint, 3) AS s(i)")
    PostgresEngine(rows("id"), {"t": "persons.s"}, database()).close()
