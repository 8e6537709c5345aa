"""A decision-support schema of the kind that databases are compared by: orders of customers, with public parts and suppliers.

The customer is the unit; order lines reach it through their order. The queries are those of the well-known benchmark of
22, in words of our own and as far as they have a private answer: without noise they give what plain DuckDB gives. Those
that ask about public tables alone are answered exactly, and those that list customers or orders are refused.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tacit
from support.noiseless import exact_draw
from tacit.query.refusal import Refusal

PROJECT = """
[project]
name = "sales"

[populations.customers]
epsilon = "100000000"
delta = "0.9"
accounting = "approx"

[tables.customer]
source = "customer.parquet"
population = "customers"
unit = "custkey"
max_groups = 1
max_rows = 1
columns.custkey = { unique = true }
columns.segment = { categories = ["auto", "building", "machinery"] }
columns.balance = { bounds = [-999, 9999] }
columns.country_code = { categories = ["13", "17", "29", "31"] }

[tables.orders]
source = "orders.parquet"
population = "customers"
unit = "custkey"
max_groups = 24
max_rows = 8
unit_rows = 8
columns.orderkey = { unique = true }
columns.priority = { categories = ["high", "low", "urgent"] }
columns.ordered = { bounds = ["1995-01-01", "1996-12-31"] }

[tables.lineitem]
source = "lineitem.parquet"
population = "customers"
unit = "custkey"
max_groups = 24
max_rows = 24
unit_rows = 24
columns.returnflag = { categories = ["A", "N", "R"] }
columns.linestatus = { categories = ["F", "O"] }
columns.mode = { categories = ["air", "mail", "ship"] }
columns.quantity = { bounds = [1, 50] }
columns.price = { bounds = [0, 5000] }
columns.discount = { bounds = ["0", "0.1"] }
columns.shipped = { bounds = ["1995-01-01", "1997-06-30"] }

[tables.part]
source = "part.parquet"
public = true
columns.partkey = { unique = true }

[tables.supplier]
source = "supplier.parquet"
public = true
columns.suppkey = { unique = true }

[tables.nation]
source = "nation.parquet"
public = true
columns.nationkey = { unique = true }
"""

NATIONS = ("France", "Germany", "Brazil", "Japan")
SUM = "SUM(price * (1 - discount))"

#: In words: what the query of the benchmark with that number asks.
ANSWERED = {
    "1 pricing summary": (
        "SELECT returnflag, linestatus, SUM(quantity) AS quantity, SUM(price) AS price, AVG(quantity) AS mean, COUNT(*) AS n "
        "FROM lineitem WHERE shipped <= DATE '1996-09-01' GROUP BY returnflag, linestatus ORDER BY returnflag, linestatus"
    ),
    "4 order priorities with late lines": (
        "SELECT o.priority, COUNT(*) AS n FROM orders o WHERE o.ordered >= DATE '1995-07-01' AND o.ordered < DATE "
        "'1995-10-01' AND EXISTS (SELECT 1 FROM lineitem l WHERE l.custkey = o.custkey AND l.orderkey = o.orderkey AND "
        "l.committed < l.shipped) GROUP BY o.priority ORDER BY o.priority"
    ),
    "5 revenue by nation of the supplier": (
        f"SELECT n.name, {SUM} AS revenue FROM lineitem l JOIN supplier s ON l.suppkey = s.suppkey JOIN nation n ON "
        "s.nationkey = n.nationkey GROUP BY n.name ORDER BY n.name"
    ),
    "6 revenue change without small discounts": (
        "SELECT SUM(price * discount) AS revenue FROM lineitem WHERE shipped >= DATE '1995-01-01' AND shipped < DATE "
        "'1996-01-01' AND discount BETWEEN 0.03 AND 0.07 AND quantity < 24"
    ),
    "7 shipping volume by nation and year": (
        f"SELECT n.name, EXTRACT(year FROM l.shipped) AS year, {SUM} AS revenue FROM lineitem l JOIN supplier s ON l.suppkey "
        "= s.suppkey JOIN nation n ON s.nationkey = n.nationkey WHERE n.name IN ('France', 'Germany') AND l.shipped BETWEEN "
        "DATE '1995-01-01' AND DATE '1996-12-31' GROUP BY 1, 2 ORDER BY 1, 2"
    ),
    "8 market share of a nation": (
        "SELECT year, SUM(CASE WHEN name = 'Brazil' THEN volume ELSE 0 END) * 1.0 / SUM(volume) AS share FROM (SELECT "
        "EXTRACT(year FROM o.ordered) AS year, CLAMP(l.price, 0, 5000) AS volume, n.name AS name FROM lineitem l JOIN orders o "
        "ON l.custkey = o.custkey AND l.orderkey = o.orderkey JOIN supplier s ON l.suppkey = s.suppkey JOIN nation n ON "
        "s.nationkey = n.nationkey) GROUP BY year ORDER BY year"
    ),
    "9 profit by nation and year": (
        "SELECT n.name, EXTRACT(year FROM o.ordered) AS year, SUM(l.price - p.cost * l.quantity) AS profit FROM lineitem l, "
        "orders o, part p, supplier s, nation n WHERE l.orderkey = o.orderkey AND l.custkey = o.custkey AND l.partkey = "
        "p.partkey AND l.suppkey = s.suppkey AND s.nationkey = n.nationkey GROUP BY 1, 2 ORDER BY 1, 2"
    ),
    "12 ship modes and priorities": (
        "SELECT l.mode, SUM(CASE WHEN o.priority IN ('urgent', 'high') THEN 1 ELSE 0 END) AS high, SUM(CASE WHEN o.priority "
        "= 'low' THEN 1 ELSE 0 END) AS low FROM orders o JOIN lineitem l ON o.orderkey = l.orderkey AND o.custkey = l.custkey "
        "WHERE l.mode IN ('mail', 'ship') GROUP BY l.mode ORDER BY l.mode"
    ),
    "13 customers by number of orders": (
        "SELECT n, COUNT(*) AS customers FROM (SELECT c.custkey, COUNT(o.orderkey) AS n FROM customer c LEFT JOIN orders o ON "
        "c.custkey = o.custkey GROUP BY c.custkey) WHERE n BETWEEN 0 AND 5 GROUP BY n ORDER BY n"
    ),
    "14 promotion effect": (
        "SELECT 100.0 * SUM(CASE WHEN p.kind LIKE 'promo%' THEN l.price ELSE 0 END) / SUM(l.price) AS promo FROM lineitem l "
        "JOIN part p ON l.partkey = p.partkey WHERE l.shipped >= DATE '1995-09-01' AND l.shipped < DATE '1995-12-01'"
    ),
    "15 best supplier": (
        "SELECT s.suppkey, SUM(l.price) AS revenue FROM lineitem l JOIN supplier s ON l.suppkey = s.suppkey GROUP BY "
        "s.suppkey ORDER BY revenue DESC LIMIT 1"
    ),
    "19 revenue of three kinds of goods": (
        f"SELECT {SUM} AS revenue FROM lineitem l JOIN part p ON l.partkey = p.partkey WHERE (p.kind = 'promo brass' AND "
        "l.quantity BETWEEN 1 AND 11) OR (p.kind = 'small steel' AND l.quantity BETWEEN 10 AND 20) OR (p.kind = 'large tin' "
        "AND l.quantity BETWEEN 20 AND 30)"
    ),
    "22 customers without orders and with money": (
        "SELECT c.country_code, COUNT(*) AS customers, SUM(c.balance) AS balance FROM customer c WHERE c.balance > (SELECT "
        "AVG(balance) FROM customer WHERE balance > 0) AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.custkey = c.custkey) "
        "GROUP BY c.country_code ORDER BY c.country_code"
    ),
    "17 small orders": (
        "SELECT SUM(l.price) / 7.0 AS yearly FROM lineitem l JOIN (SELECT p.partkey, 0.2 * AVG(i.quantity) AS few FROM "
        "lineitem i JOIN part p ON i.partkey = p.partkey GROUP BY p.partkey) m ON l.partkey = m.partkey WHERE l.quantity < m.few"
    ),
}
#: Queries about public tables alone.
PUBLIC = {
    "2 cheapest supplier": "SELECT p.partkey, MIN(p.cost) AS cost FROM part p GROUP BY p.partkey ORDER BY p.partkey",
    "16 suppliers of parts": "SELECT kind, COUNT(*) AS n FROM part GROUP BY kind ORDER BY kind",
}
#: Lists of customers or orders have no private answer; a subquery that compares each row with a mean of other people's
#: rows has one as a join.
REFUSED = {
    "3 largest open orders": "SELECT orderkey, SUM(price) AS revenue FROM lineitem GROUP BY custkey, orderkey",
    "10 customers with returns": "SELECT custkey, SUM(price) AS lost FROM lineitem WHERE returnflag = 'R' GROUP BY custkey",
    "17 small orders": (
        "SELECT SUM(l.price) / 7.0 AS yearly FROM lineitem l WHERE l.quantity < (SELECT 0.2 * AVG(i.quantity) FROM lineitem i "
        "WHERE i.partkey = l.partkey)"
    ),
    "18 large customers": "SELECT c.custkey, SUM(l.quantity) AS n FROM customer c JOIN lineitem l ON c.custkey = l.custkey GROUP BY c.custkey HAVING SUM(l.quantity) > 100",
}


def rows() -> dict[str, list[dict[str, Any]]]:
    """400 customers, of whom some have no orders."""
    state = 7

    def below(bound: int) -> int:
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (state >> 33) % bound

    customer, orders, lineitem = [], [], []
    for person in range(400):
        code = ("13", "17", "29", "31")[below(4)]
        customer.append(
            {
                "custkey": person,
                "segment": ("auto", "building", "machinery")[below(3)],
                "balance": below(10_000) - 999,
                "country_code": code,
            }
        )
        for _ in range(below(6)):
            number, ordered = len(orders), dt.date(1995, 1, 1) + dt.timedelta(days=below(700))
            orders.append(
                {
                    "custkey": person,
                    "orderkey": number,
                    "priority": ("high", "low", "urgent")[below(3)],
                    "ordered": ordered,
                }
            )
            for _ in range(1 + below(4)):
                shipped = ordered + dt.timedelta(days=1 + below(90))
                lineitem.append(
                    {
                        "custkey": person,
                        "orderkey": number,
                        "partkey": below(20),
                        "suppkey": below(10),
                        "quantity": 1 + below(50),
                        "price": 10 + below(4900),
                        "discount": Decimal(below(11)) / 100,
                        "returnflag": "ANR"[below(3)],
                        "linestatus": "FO"[below(2)],
                        "mode": ("air", "mail", "ship")[below(3)],
                        "shipped": shipped,
                        "committed": ordered + dt.timedelta(days=45),
                    }
                )
    kinds = ("promo brass", "small steel", "large tin", "promo tin")
    part = [{"partkey": i, "kind": kinds[i % 4], "cost": 5 + i} for i in range(20)]
    supplier = [{"suppkey": i, "nationkey": i % 4} for i in range(10)]
    nation = [{"nationkey": i, "name": name} for i, name in enumerate(NATIONS)]
    return {
        "customer": customer,
        "orders": orders,
        "lineitem": lineitem,
        "part": part,
        "supplier": supplier,
        "nation": nation,
    }


@pytest.fixture(scope="module")
def sales(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    folder: Path = tmp_path_factory.mktemp("sales")
    plain = duckdb.connect()
    plain.execute("CREATE MACRO clamp(x, low, high) AS least(greatest(x, low), high)")
    for name, listed in rows().items():
        pq.write_table(pa.Table.from_pylist(listed), folder / f"{name}.parquet")
        plain.execute(f"CREATE VIEW {name} AS SELECT * FROM '{folder / name}.parquet'")
    (folder / "tacit.toml").write_text(PROJECT)
    curator = tacit.open(folder / "tacit.toml")
    yield curator, plain
    curator.close()
    plain.close()


def is_close(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, int | float | Decimal) and isinstance(theirs, int | float | Decimal):
        return math.isclose(float(ours), float(theirs), rel_tol=1e-3, abs_tol=0.01)
    return bool(ours == theirs)


@pytest.mark.parametrize("name", ANSWERED)
def test_answers_are_those_of_plain_sql(sales: tuple[Any, Any], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    curator, plain = sales
    monkeypatch.setattr("tacit.query.release.draw", exact_draw)
    answer = curator.sql(ANSWERED[name], epsilon="1000000", delta="0.001", bias_share=0)
    ours = [tuple(row.values()) for row in answer.to_arrow().to_pylist()]
    theirs = plain.execute(ANSWERED[name]).fetchall()
    assert len(ours) == len(theirs) > 0
    for mine, its in zip(ours, theirs, strict=True):
        assert all(is_close(a, b) for a, b in zip(mine, its, strict=True)), (mine, its)


@pytest.mark.parametrize("name", PUBLIC)
def test_public_tables_are_answered_exactly(sales: tuple[Any, Any], name: str) -> None:
    curator, plain = sales
    answer = curator.sql(PUBLIC[name], epsilon="1")
    assert [tuple(row.values()) for row in answer.to_arrow().to_pylist()] == plain.execute(PUBLIC[name]).fetchall()
    assert answer.receipt is None


@pytest.mark.parametrize("name", REFUSED)
def test_lists_of_people_are_refused(sales: tuple[Any, Any], name: str) -> None:
    with pytest.raises(Refusal):
        sales[0].explain(REFUSED[name], epsilon="1")
