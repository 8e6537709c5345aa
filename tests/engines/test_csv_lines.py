"""A line of CSV is a row: what stands in one line changes no other row, wherever it stands."""

from __future__ import annotations

import logging
import random
import re
from pathlib import Path

import duckdb
import pytest

from tacit.core.errors import InputError
from tacit.engines.duckdb import DataSource, DuckDBEngine, Limits
from tacit.engines.duckdb.csv_lines import (
    LONGEST,
    count_losses,
    csv_scan,
    first_unread,
    read_header,
    split_lines,
    utf8_lines,
)
from tacit.engines.duckdb.sources import open_views, report_csv
from tacit.engines.files import CsvFormat
from tacit.engines.protocol import MeasurementTask
from tacit.query.catalog import ROW, Catalog, Column, Population, Table
from tacit.query.resolve import resolve
from tacit.query.types import DATE, INTEGER, TEXT

COLUMNS = (Column("id", INTEGER), Column("kind", TEXT, categories=("a", "b")), Column("note", TEXT))


def catalog(unit: str = "id") -> Catalog:
    return Catalog((Table("t", COLUMNS, population="p", unit=unit, max_groups=2),), (Population("p"),))


PEOPLE = Catalog((Table("t", COLUMNS, population="p", unit="id", max_groups=2),), (Population("p"),))
SQL = "SELECT kind, COUNT(DISTINCT id) FROM t GROUP BY kind"
HOSTILE = {
    "unclosed quote": b'77,a,"no end',
    "quote that closes later": b'77,a,"no "end',
    "quote in another column": b'"77,a,x',
    "quotes of two kinds": b"77,a,'x",
    "quote after text": b'77,a,5" disc',
    "only a quote": b'"',
    "three quotes": b'77,a,"""',
    "backslash before a quote": b'77,a,"x\\"',
    "bad UTF-8": b"77,a,\xff",
    "half a letter": b"77,a,\xe2\x82",
    "a surrogate": b"77,a,\xed\xa0\x80",
    "NUL": b"77,a,x\0y",
    "a lone carriage return": b"77,a,x\ry",
    "many carriage returns": b"\r\r77,a,x\r\r",
    "end of file of old systems": b"77,a,\x1a",
    "the separator of lines": b"77,a,\x01\x02\x03\x04x",
    "too many fields": b"77,a" + b",x" * 5000,
    "too few": b"77",
    "a comment": b"#77,a,x",
    "long": b"77,a," + b"x" * 3_000_000,
    "long, quoted": b'77,a,"' + b"x" * 3_000_000 + b'"',
    "long, unclosed": b'77,a,"' + b"x" * 3_000_000,
    "longer than a buffer": b"77,a," + b"x" * 40_000_000,
    "byte order mark": b"\xef\xbb\xbf77,a,x",
    "unicode line separator": "77,a,x\u2028y\u0085z".encode(),
}


def lines(extra: bytes | None, place: int) -> bytes:
    made = [b"%d,%s,note %d" % (i, b"ab"[i % 2 : i % 2 + 1], i) for i in range(600)]
    if extra is not None:
        made.insert(place, extra)
    return b"id,kind,note\n" + b"\n".join(made) + b"\n"


def counted(
    path: Path, sql: str = SQL, unit: str = "id", times: int = 1, form: CsvFormat | None = None
) -> list[list[int]]:
    made = catalog(unit)
    source = DataSource("csv", str(path), csv=form or CsvFormat())
    with DuckDBEngine(made, {"t": source}, Limits(threads=2)) as engine:
        found = [engine.measure(MeasurementTask(resolve(sql, made).final, b"k")) for _ in range(times)]
    results = [[array.tolist() for array in each.raw] for each in found]
    assert all(result == results[0] for result in results), "a copy reads as its file does"
    return results[0]


NAMES = [pytest.param(name, marks=pytest.mark.deep if len(line) > 10**6 else ()) for name, line in HOSTILE.items()]


@pytest.mark.parametrize("name", NAMES)
def test_a_line_harms_itself_alone(name: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    for place in (300,) if len(HOSTILE[name]) > 10**6 else (0, 300, 600):
        path.write_bytes(lines(HOSTILE[name], place))
        # 77 is one of the others: whatever the line says, it is theirs.
        assert counted(path, times=2) in ([[300, 300]], [[301, 300]])


@pytest.mark.parametrize("name", NAMES)
def test_a_line_moves_a_count_of_rows_by_one(name: str, tmp_path: Path) -> None:
    path, sql = tmp_path / "t.csv", "SELECT COUNT(*), COUNT(note) FROM t"
    path.write_bytes(lines(HOSTILE[name], 300))
    ((rows,), (notes,)) = counted(path, sql, "row")
    assert 600 <= rows <= 602
    assert 600 <= notes <= 602


def test_an_unclosed_quote_in_the_middle_of_two_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(lines(b'77,a,"', 600))
    (tmp_path / "b.csv").write_bytes(lines(b'"', 0).replace(b"\n", b"\r\n"))
    assert counted(tmp_path / "[ab].csv") == [[300, 300]]
    assert counted(tmp_path / "[ab].csv", "SELECT COUNT(*) FROM t", ROW) == [[1200]]


def reference(content: bytes) -> list[list[str | None]]:
    """Lines and fields, written by hand."""
    rows = []
    for line in re.split(rb"[\r\n]", content.removeprefix(b"\xef\xbb\xbf"))[1:]:
        try:
            rest = line.decode() if line and len(line) <= LONGEST else None
        except UnicodeDecodeError:
            rest = None
        fields = None if rest is None else split(rest)
        if fields is not None:
            rows.append([(fields[i] or None) if i < len(fields) else None for i in range(3)])
    return sorted(rows, key=repr)


def split(text: str) -> list[str] | None:
    fields = []
    while True:
        if text.startswith('"'):
            end = re.match(r'"((?:[^"]|"")*)"(?=,|\Z)', text)
            if end is None:
                return None
            fields.append(end.group(1).replace('""', '"'))
            text = text[end.end() :]
        else:
            field, comma, rest = text.partition(",")
            fields.append(field)
            text = comma + rest
        if not text:
            return fields
        text = text[1:]


def test_lines_are_split_as_the_rules_say(tmp_path: Path) -> None:
    dice = random.Random(20261116)
    pieces = [
        b'"', b'""', b",", b"a", b"b c", b"\xff", b"\xc3\xa9", b"\r", b" ", b"\0", b"'", b"\\", b"#", b"\t", b"\x01\x02",
    ]  # fmt: skip
    for trial in range(60):
        ends = dice.choice([b"\n", b"\r\n"])
        made = [b"".join(dice.choices(pieces, k=dice.randrange(9))) for _ in range(200)]
        content = dice.choice([b"", b"\xef\xbb\xbf"]) + b"x,y,z" + ends + ends.join(made) + dice.choice([b"", ends])
        path = tmp_path / f"{trial}.csv"
        path.write_bytes(content)
        with duckdb.connect() as connection:
            lines, header = utf8_lines([str(path)]), ("x", "y", "z")
            found = connection.sql(f"SELECT x, y, z FROM {csv_scan(lines, header, ',')}").fetchall()
            split = split_lines(lines, header, ",", CsvFormat(), {})
            left_out = count_losses(connection, [str(path)], split, header, {"x": ("x", '"x"')}).left_out
        expected = reference(content)
        assert sorted(map(list, found), key=repr) == expected
        written = sum(bool(line) for line in re.split(rb"[\r\n]", content)) - 1
        assert left_out == written - len(expected)
        assert (first_unread(str(path), 3)[0] is None) == (left_out == 0)


def test_row_numbers_are_the_same_in_every_scan(tmp_path: Path) -> None:
    for k in range(20):
        (tmp_path / f"{k}.csv").write_bytes(
            b"id,kind,note\n" + b"".join(b"%d,a,%d\n" % (i, i % 50) for i in range(500))
        )
    sql = "SELECT COUNT(*) FROM t JOIN t AS s ON t.row_unit = s.row_unit WHERE t.note <> s.note"
    with duckdb.connect() as connection:
        scan = csv_scan(utf8_lines([str(tmp_path / f"{k}.csv") for k in range(20)]), ("id", "kind", "note"), ",")
        numbered = f'SELECT row_number() OVER (ORDER BY "tacit line") AS row_unit, note FROM {scan}'
        assert connection.sql(f"WITH t AS ({numbered}) {sql}").fetchall() == [(0,)]
    united = "SELECT COUNT(*) FROM (SELECT * FROM t UNION ALL SELECT * FROM t) AS u"
    assert counted(tmp_path / "*.csv", united, ROW, times=3) == [[10_000]]


def test_the_owner_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(lines(b'77,a,"no end', 300))
    with caplog.at_level(logging.WARNING, "tacit.operator"):
        counted(path)
    assert "1 of the lines" in caplog.text
    assert "no end" not in caplog.text
    found, _ = first_unread(str(path), 3)
    assert found is not None
    assert found.number == 302
    assert "quotes" in found.reason


def test_a_header_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    for header in (b'id,"no\nend"', b'id,"no end', b"id,tacit line", b"id,\xff", b""):
        path.write_bytes(header + b"\n1,2\n")
        with pytest.raises(InputError):
            read_header(str(path), "t")


ODD = CsvFormat(delimiter="|", encoding="windows-1252", decimal_mark=",", thousands_mark=".")


@pytest.mark.parametrize(
    "name", [*(name for name in HOSTILE if "long" not in name), "a byte without a letter", "every byte"]
)
def test_a_line_in_another_form_harms_itself_alone(name: str, tmp_path: Path) -> None:
    """One byte made DuckDB's own decoder of Latin-1 give up on the whole file."""
    more = {
        "a byte without a letter": b"77,a,\x81\x8d\x90",
        "every byte": b"77,a," + bytes(set(range(256)) - {10, 13, 34}),
    }
    extra = {**HOSTILE, **more}[name]
    path = tmp_path / "t.csv"
    path.write_bytes(lines(extra, 300).replace(b",", b"|"))
    assert counted(path, form=ODD) in ([[300, 300]], [[301, 300]])


NUMBERS = {
    "1": 1, "1,5": 2, "1.234,5": 1235, "1234,5": 1235, " 12 ": 12, "-1.000": -1000, "1e2": 100, "1,5e1": 15, ",5": 1,
    "1.5": None, "1.23,4": None, "12.34": None, "1,2,3": None, "1.2345": None, "": None, "n/a": None, "1 000": None,
    "nan": None, "٣": None, "1.000.000": 1_000_000, "+7": 7, ".": None, ",": None, "e5": None,
}  # fmt: skip
DATES = {
    "03.04.2024": "2024-04-03", "3.4.2024": "2024-04-03", " 31.12.1999 ": "1999-12-31", "31.02.2024": None,
    "infinity": None, "epoch": None, "2024-04-03": None, "03.04.24": None, "03.04.2024x": None, "": None,
    "03.04.0000": None, "00.01.2024": None, "٠٣.04.2024": None, "03.13.2024": None,
}  # fmt: skip


def test_numbers_and_dates_are_read_as_stated(tmp_path: Path) -> None:
    """In every line by itself; what has another form is NULL and is counted for the owner."""
    columns = (Column("id", INTEGER), Column("x", INTEGER, stored="Wert"), Column("d", DATE, stored="Tag"))
    table = Table("t", columns, population="p", unit="id")
    form = CsvFormat(delimiter=";", decimal_mark=",", thousands_mark=".", date_format="%d.%m.%Y")
    texts = [(number, "") for number in NUMBERS] + [("", date) for date in DATES]
    path = tmp_path / "t.csv"
    path.write_text("id;Wert;Tag\n" + "".join(f"{i};{x};{d}\n" for i, (x, d) in enumerate(texts)))
    source = DataSource("csv", str(path), csv=form)
    with open_views(Catalog((table,), (Population("p"),)), {"t": source}) as connection:
        found = connection.sql("SELECT x, CAST(d AS VARCHAR) FROM t ORDER BY id").fetchall()
    assert found == [(x, None) for x in NUMBERS.values()] + [(None, d) for d in DATES.values()]
    report = report_csv(source, table)
    assert (report.left_out, report.other_width) == (None, None)
    assert (report.nothing_read, report.partly_read) == ((), ("x", "d"))


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"delimiter": ";;"}, "delimiter: must be one sign"),
        ({"delimiter": '"'}, "delimiter: must be one sign"),
        ({"delimiter": "1"}, "delimiter: must be one sign"),
        ({"encoding": "utf-16"}, "encoding: utf-16 has several bytes per letter; convert the file: iconv -f utf-16"),
        ({"encoding": "shift_jis"}, "several bytes per letter"),
        ({"encoding": "klingon"}, "encoding: 'klingon' is not known"),
        ({"decimal_mark": ";"}, 'decimal_mark: must be "." or ","'),
        ({"thousands_mark": "."}, "thousands_mark: must be one of ',', ' ', \"'\""),
        ({"date_format": "%d.%m"}, "date_format: must have a year, a month and a day"),
        ({"date_format": "%d.%m.%Y%Z"}, "date_format: %Z is not a part"),
        ({"date_format": "%d'%m'%Y"}, "cannot stand in a date format"),
        ({"date_format": "%d.%m.%Y%"}, "% is not a part"),
    ],
)
def test_a_form_is_checked(said: dict[str, str], problem: str) -> None:
    with pytest.raises(InputError, match=re.escape(problem)):
        CsvFormat(**said)  # type: ignore[arg-type]
