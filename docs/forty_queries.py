"""Sixty queries to three made-up databases, as analysts ask them, and the data.

Those to the hospital are shown in *What can be asked*. ``write_project(schema, folder)`` writes the tables of a schema as
Parquet with a project file. ``tests/docs/test_forty_queries.py`` asks every query, without noise and with it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Asked:
    """A query in words and in SQL."""

    words: str
    sql: str


@dataclass(frozen=True)
class Schema:
    """A made-up database, and the queries to it."""

    name: str
    words: str
    project: str
    tables: Callable[[], dict[str, Rows]]
    queries: tuple[Asked, ...]


class Chance:
    """Numbers that look random and are the same everywhere: a linear congruence, for made-up data only."""

    def __init__(self, start: int) -> None:
        self._state = start

    def below(self, bound: int) -> int:
        """A number from 0 to ``bound`` - 1."""
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self._state >> 33) % bound

    def pick(self, choices: Any) -> Any:
        """One of some choices."""
        return choices[self.below(len(choices))]


WARDS = ("cardiology", "oncology", "surgery", "maternity", "emergency")
DIAGNOSES = ("I21", "C50", "K35", "O80", "S06", "J18")


def hospital() -> dict[str, Rows]:
    """2,000 patients with one to four visits each."""
    chance = Chance(1)
    patients: Rows = []
    visits: Rows = []
    for person in range(2000):
        patients.append(
            {
                "patient_id": person,
                "sex": chance.pick(("f", "m")),
                "born": dt.date(1930, 1, 1) + dt.timedelta(days=chance.below(29_000)),
                "insurance": chance.pick(("public", "public", "private")),
            }
        )
        for _ in range(1 + chance.below(4)):
            admitted = dt.datetime(2025, 1, 1) + dt.timedelta(minutes=chance.below(525_000))
            visits.append(
                {
                    "patient_id": person,
                    "ward": chance.pick(WARDS),
                    "diagnosis": chance.pick(DIAGNOSES),
                    "admitted": admitted,
                    "discharged": admitted + dt.timedelta(hours=6 + chance.below(400)),
                    "cost": 100 + chance.below(4900),
                    "readmitted": chance.below(8) == 0,
                    "note": chance.pick(("routine", "urgent: see file", "follow-up in 2 weeks", "none")),
                }
            )
    wards = [
        {"ward": ward, "building": "east" if place % 2 else "west", "beds": 10 * place + 20}
        for place, ward in enumerate(WARDS)
    ]
    return {"patients": patients, "visits": visits, "wards": wards}


CATEGORIES = ("books", "games", "garden", "kitchen")


def shop() -> dict[str, Rows]:
    """1,500 customers with one to five orders of one to three items each."""
    chance = Chance(2)
    customers: Rows = []
    orders: Rows = []
    number = 0
    for person in range(1500):
        customers.append(
            {
                "customer_id": person,
                "country": chance.pick(("AT", "CH", "DE", "DE", "DE")),
                "joined": dt.date(2023, 1, 1) + dt.timedelta(days=chance.below(700)),
                "newsletter": chance.below(3) == 0,
            }
        )
        for _ in range(1 + chance.below(5)):
            ordered = dt.datetime(2025, 1, 1) + dt.timedelta(minutes=chance.below(525_000))
            for _ in range(1 + chance.below(3)):
                orders.append(
                    {
                        "customer_id": person,
                        "order_id": number,
                        "product": 1 + chance.below(8),
                        "quantity": 1 + chance.below(4),
                        "price": 5 + chance.below(95),
                        "ordered": ordered,
                        "returned": chance.below(12) == 0,
                    }
                )
            number += 1
    products = [
        {"product": number, "category": CATEGORIES[number % 4], "title": f"product {number}"} for number in range(1, 9)
    ]
    return {"customers": customers, "orders": orders, "products": products}


EVENTS = ("open", "search", "view", "buy")


def app() -> dict[str, Rows]:
    """1,500 users with up to twelve events each."""
    chance = Chance(3)
    users: Rows = []
    events: Rows = []
    for person in range(1500):
        users.append(
            {
                "user_id": person,
                "platform": chance.pick(("android", "ios", "web")),
                "signed_up": dt.date(2025, 1, 1) + dt.timedelta(days=chance.below(180)),
                "plan": chance.pick(("free", "free", "plus")),
            }
        )
        moment = dt.datetime(2025, 6, 1) + dt.timedelta(minutes=chance.below(100_000))
        for _ in range(1 + chance.below(12)):
            moment += dt.timedelta(minutes=1 + chance.below(chance.pick((20, 3000))))
            events.append(
                {
                    "user_id": person,
                    "event": chance.pick(EVENTS),
                    "moment": moment,
                    "seconds": chance.below(600),
                    "screen": chance.pick(("home", "list", "item-1", "item-2", "pay")),
                }
            )
    plans = [{"plan": "free", "monthly": 0}, {"plan": "plus", "monthly": 9}]
    return {"users": users, "events": events, "plans": plans}


_POPULATION = """[populations.people]
epsilon = "20"
delta = "1e-6"
accounting = "approx"
"""

HOSPITAL = Schema(
    "hospital",
    "Patients with their visits, and a public list of wards. The unit of privacy is a patient with all visits.",
    f"""[project]
name = "hospital"

{_POPULATION}
[tables.patients]
source = "patients.parquet"
population = "people"
unit = "patient_id"
max_groups = 1
max_rows = 1
columns.patient_id = {{ unique = true }}
columns.sex = {{ categories = ["f", "m"] }}
columns.born = {{ bounds = ["1930-01-01", "2012-12-31"] }}
columns.insurance = {{ categories = ["private", "public"] }}

[tables.visits]
source = "visits.parquet"
population = "people"
unit = "patient_id"
max_groups = 4
max_rows = 4
unit_rows = 8
columns.ward = {{ categories = ["cardiology", "emergency", "maternity", "oncology", "surgery"] }}
columns.admitted = {{ bounds = ["2025-01-01 00:00:00", "2025-12-31 23:59:59"] }}
columns.discharged = {{ bounds = ["2025-01-01 00:00:00", "2026-02-01 00:00:00"] }}
columns.cost = {{ bounds = [0, 5000] }}

[tables.wards]
source = "wards.parquet"
public = true
""",
    hospital,
    (
        Asked("How many visits were there?", "SELECT COUNT(*) AS visits FROM visits"),
        Asked("How many patients had a visit?", "SELECT COUNT(DISTINCT patient_id) AS patients FROM visits"),
        Asked(
            "Visits, total and mean cost of each ward?",
            "SELECT ward, COUNT(*) AS visits, SUM(cost) AS total, AVG(cost) AS mean FROM visits GROUP BY ward",
        ),
        Asked(
            "The same with a line for all wards?",
            "SELECT ward, COUNT(*) AS visits FROM visits GROUP BY ROLLUP (ward) ORDER BY ward",
        ),
        Asked(
            "Admissions month by month?",
            "SELECT date_trunc('month', admitted) AS month, COUNT(*) AS visits FROM visits GROUP BY 1 ORDER BY 1",
        ),
        Asked(
            "At what hour of the day are emergencies admitted?",
            "SELECT EXTRACT(hour FROM admitted) AS hour, COUNT(*) AS visits FROM visits WHERE ward = 'emergency' "
            "GROUP BY 1 ORDER BY 1",
        ),
        Asked(
            "How long do patients stay, in hours?",
            "SELECT ward, AVG(CLAMP(date_diff('hour', admitted, discharged), 0, 500)) AS hours FROM visits GROUP BY ward",
        ),
        Asked("What does a typical visit cost?", "SELECT MEDIAN(cost) AS median_cost FROM visits"),
        Asked(
            "Which share of visits leads to a readmission, by ward?",
            "SELECT ward, COUNT(*) FILTER (WHERE readmitted) * 1.0 / COUNT(*) AS share FROM visits GROUP BY ward",
        ),
        Asked(
            "Patients by age group?",
            "SELECT CASE WHEN born < DATE '1960-01-01' THEN '65 and older' WHEN born < DATE '1985-01-01' THEN '40 to 64' "
            "ELSE 'younger' END AS age, COUNT(*) AS patients FROM patients GROUP BY 1",
        ),
        Asked(
            "Mean cost of a visit by sex of the patient?",
            "SELECT p.sex, AVG(v.cost) AS cost FROM visits v JOIN patients p ON v.patient_id = p.patient_id GROUP BY p.sex",
        ),
        Asked(
            "How many visits has a patient on average?",
            "SELECT AVG(CLAMP(n, 0, 10)) AS visits FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id)",
        ),
        Asked(
            "How many patients have how many visits?",
            "SELECT n, COUNT(*) AS patients FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) "
            "WHERE n BETWEEN 1 AND 4 GROUP BY n ORDER BY n",
        ),
        Asked(
            "How many patients were in both surgery and oncology?",
            "SELECT COUNT(*) AS patients FROM patients p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.patient_id = "
            "p.patient_id AND v.ward = 'surgery') AND EXISTS (SELECT 1 FROM visits v WHERE v.patient_id = p.patient_id "
            "AND v.ward = 'oncology')",
        ),
        Asked(
            "Visits in each building, which a public table knows?",
            "SELECT w.building, COUNT(*) AS visits FROM visits v JOIN wards w ON v.ward = w.ward GROUP BY w.building",
        ),
        Asked(
            "The three busiest wards?",
            "SELECT ward, COUNT(*) AS visits FROM visits GROUP BY ward ORDER BY visits DESC LIMIT 3",
        ),
        Asked(
            "Wards with more than 900 visits?",
            "SELECT ward, COUNT(*) AS visits FROM visits GROUP BY ward HAVING COUNT(*) > 900",
        ),
        Asked(
            "How do costs spread?",
            "SELECT STDDEV(cost) AS spread, QUANTILE(cost, 0.9) AS most FROM visits",
        ),
        Asked(
            "Which diagnoses occur? (They are not declared, so they are chosen privately.)",
            "SELECT diagnosis, COUNT(DISTINCT patient_id) AS patients FROM visits GROUP BY diagnosis",
        ),
        Asked(
            "How many visits cost more than the mean?",
            "SELECT COUNT(*) AS visits FROM visits WHERE cost > (SELECT AVG(cost) FROM visits)",
        ),
    ),
)

SHOP = Schema(
    "shop",
    "Customers with their orders, and a public list of products. The unit is a customer with all orders.",
    f"""[project]
name = "shop"

{_POPULATION}
[tables.customers]
source = "customers.parquet"
population = "people"
unit = "customer_id"
max_groups = 1
max_rows = 1
columns.customer_id = {{ unique = true }}
columns.country = {{ categories = ["AT", "CH", "DE"] }}
columns.joined = {{ bounds = ["2023-01-01", "2024-12-31"] }}

[tables.orders]
source = "orders.parquet"
population = "people"
unit = "customer_id"
max_groups = 15
max_rows = 15
unit_rows = 16
columns.product = {{ bounds = [1, 8] }}
columns.quantity = {{ bounds = [1, 4] }}
columns.price = {{ bounds = [0, 99] }}
columns.ordered = {{ bounds = ["2025-01-01 00:00:00", "2025-12-31 23:59:59"] }}

[tables.products]
source = "products.parquet"
public = true
""",
    shop,
    (
        Asked("What is the revenue?", "SELECT SUM(price * quantity) AS revenue FROM orders"),
        Asked(
            "Revenue by month?",
            "SELECT date_trunc('month', ordered) AS month, SUM(price * quantity) AS revenue FROM orders GROUP BY 1 ORDER BY 1",
        ),
        Asked(
            "Revenue by category, with the names from a public table?",
            "SELECT p.category, SUM(o.price * o.quantity) AS revenue FROM orders o JOIN products p ON o.product = p.product "
            "GROUP BY p.category",
        ),
        Asked(
            "The same written with a comma?",
            "SELECT p.category, COUNT(*) AS items FROM orders o, products p WHERE o.product = p.product GROUP BY p.category",
        ),
        Asked("How many orders are there?", "SELECT COUNT(DISTINCT order_id) AS orders FROM orders"),
        Asked(
            "What is the value of an order on average?",
            "SELECT AVG(CLAMP(value, 0, 1200)) AS value FROM (SELECT customer_id, order_id, SUM(price * quantity) AS value "
            "FROM orders GROUP BY customer_id, order_id)",
        ),
        Asked(
            "Customers by country and newsletter?",
            "SELECT country, newsletter, COUNT(*) AS customers FROM customers GROUP BY country, newsletter",
        ),
        Asked(
            "The same with all subtotals?",
            "SELECT country, newsletter, COUNT(*) AS customers FROM customers GROUP BY CUBE (country, newsletter)",
        ),
        Asked(
            "How many customers bought again within the year?",
            "SELECT COUNT(*) AS customers FROM (SELECT customer_id, COUNT(DISTINCT order_id) AS n FROM orders "
            "GROUP BY customer_id HAVING COUNT(DISTINCT order_id) > 1)",
        ),
        Asked(
            "How many customers never ordered a book?",
            "SELECT COUNT(*) AS customers FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = "
            "c.customer_id AND o.product IN (4, 8))",
        ),
        Asked(
            "The share of returned items by category?",
            "SELECT p.category, AVG(CASE WHEN o.returned THEN 1 ELSE 0 END) AS share FROM orders o JOIN products p "
            "ON o.product = p.product GROUP BY p.category",
        ),
        Asked(
            "On which day of the week do people buy?",
            "SELECT DAYNAME(ordered) AS day, COUNT(*) AS items FROM orders GROUP BY 1",
        ),
        Asked(
            "Revenue in the first and in the second half of the year, side by side?",
            "WITH early AS (SELECT SUM(price * quantity) AS revenue FROM orders WHERE ordered < TIMESTAMP "
            "'2025-07-01 00:00:00'), late AS (SELECT SUM(price * quantity) AS revenue FROM orders WHERE ordered >= "
            "TIMESTAMP '2025-07-01 00:00:00') SELECT early.revenue AS first_half, late.revenue AS second_half FROM early, late",
        ),
        Asked(
            "How does quantity go with price?",
            "SELECT CORR(price, quantity) AS together FROM orders",
        ),
        Asked(
            "Prices in five classes?",
            "SELECT WIDTH_BUCKET(price, 0, 100, 5) AS class, COUNT(*) AS items FROM orders GROUP BY 1 ORDER BY 1",
        ),
        Asked(
            "In which country do customers spend most?",
            "SELECT c.country, AVG(CLAMP(s.spent, 0, 3000)) AS spent FROM customers c JOIN (SELECT customer_id, "
            "SUM(price * quantity) AS spent FROM orders GROUP BY customer_id) s ON s.customer_id = c.customer_id "
            "GROUP BY c.country",
        ),
        Asked(
            "Running revenue over the months?",
            "SELECT month, SUM(revenue) OVER (ORDER BY month) AS so_far FROM (SELECT date_trunc('month', ordered) AS month, "
            "SUM(price * quantity) AS revenue FROM orders GROUP BY 1) ORDER BY month",
        ),
        Asked(
            "Every product of the list, also those that were never sold?",
            "SELECT p.product, COUNT(o.order_id) AS items FROM products p LEFT JOIN orders o ON o.product = p.product "
            "GROUP BY p.product ORDER BY p.product",
        ),
        Asked(
            "How many customers joined in each quarter of a year?",
            "SELECT EXTRACT(year FROM joined) AS year, EXTRACT(quarter FROM joined) AS quarter, COUNT(*) AS customers "
            "FROM customers GROUP BY 1, 2 ORDER BY 1, 2",
        ),
        Asked(
            "What did customers buy first?",
            "SELECT product, COUNT(*) AS customers FROM (SELECT customer_id, product FROM orders QUALIFY ROW_NUMBER() OVER "
            "(PARTITION BY customer_id ORDER BY ordered, order_id, product, price, quantity) = 1) "
            "WHERE product BETWEEN 1 AND 8 GROUP BY product",
        ),
    ),
)

APP = Schema(
    "app",
    "Users of an app with their events, and a public list of plans. The unit is a user with all events.",
    f"""[project]
name = "app"

{_POPULATION}
[tables.users]
source = "users.parquet"
population = "people"
unit = "user_id"
max_groups = 1
max_rows = 1
columns.user_id = {{ unique = true }}
columns.platform = {{ categories = ["android", "ios", "web"] }}
columns.plan = {{ categories = ["free", "plus"] }}
columns.signed_up = {{ bounds = ["2025-01-01", "2025-06-30"] }}

[tables.events]
source = "events.parquet"
population = "people"
unit = "user_id"
max_groups = 12
max_rows = 12
unit_rows = 16
columns.event = {{ categories = ["buy", "open", "search", "view"] }}
columns.moment = {{ bounds = ["2025-06-01 00:00:00", "2025-08-24 23:59:59"] }}
columns.seconds = {{ bounds = [0, 600] }}

[tables.plans]
source = "plans.parquet"
public = true
""",
    app,
    (
        Asked("How often does each event occur?", "SELECT event, COUNT(*) AS n FROM events GROUP BY event"),
        Asked(
            "Active users by week?",
            "SELECT date_trunc('week', moment) AS week, COUNT(DISTINCT user_id) AS users FROM events GROUP BY 1 ORDER BY 1",
        ),
        Asked(
            "Which share of users ever bought?",
            "SELECT AVG(CASE WHEN bought > 0 THEN 1 ELSE 0 END) AS share FROM (SELECT user_id, COUNT(*) FILTER (WHERE "
            "event = 'buy') AS bought FROM events GROUP BY user_id)",
        ),
        Asked(
            "Users by platform and plan?",
            "SELECT platform, plan, COUNT(*) AS users FROM users GROUP BY platform, plan",
        ),
        Asked(
            "Monthly income by platform, from the public prices of plans?",
            "SELECT u.platform, SUM(p.monthly) AS income FROM users u JOIN plans p ON u.plan = p.plan GROUP BY u.platform",
        ),
        Asked(
            "How long do people stay on a screen?",
            "SELECT event, AVG(seconds) AS seconds, MEDIAN(seconds) AS middle FROM events GROUP BY event",
        ),
        Asked(
            "At which hours is the app used?",
            "SELECT EXTRACT(hour FROM moment) AS hour, COUNT(*) AS n FROM events GROUP BY 1 ORDER BY 1",
        ),
        Asked(
            "How many users searched and later bought?",
            "SELECT COUNT(*) AS users FROM (SELECT user_id, MIN(CASE WHEN event = 'search' THEN moment END) AS searched, "
            "MAX(CASE WHEN event = 'buy' THEN moment END) AS bought FROM events GROUP BY user_id) WHERE bought > searched",
        ),
        Asked(
            "How many users came back a week after their first event?",
            "SELECT COUNT(*) AS users FROM (SELECT user_id, MIN(moment) AS first, MAX(moment) AS last FROM events GROUP BY user_id) "
            "WHERE last >= first + INTERVAL '7' DAY",
        ),
        Asked(
            "How many sessions has a user, if half an hour without events ends one?",
            "SELECT AVG(CLAMP(sessions, 0, 12)) AS sessions FROM (SELECT user_id, SUM(CASE WHEN before IS NULL OR moment > before + "
            "INTERVAL '30' MINUTE THEN 1 ELSE 0 END) AS sessions FROM (SELECT user_id, moment, LAG(moment) OVER (PARTITION BY user_id "
            "ORDER BY moment) AS before FROM events) GROUP BY user_id)",
        ),
        Asked(
            "What do users do last?",
            "SELECT last_event, COUNT(*) AS users FROM (SELECT user_id, ARG_MAX(event, moment) AS last_event FROM events "
            "GROUP BY user_id) GROUP BY last_event",
        ),
        Asked(
            "How many events happen on item screens?",
            "SELECT COUNT(*) AS n FROM events WHERE screen LIKE 'item-%'",
        ),
        Asked(
            "The same with a regular expression?",
            "SELECT COUNT(*) AS n FROM events WHERE REGEXP_MATCHES(screen, '^item-[0-9]$')",
        ),
        Asked(
            "Signups by month?",
            "SELECT STRFTIME(signed_up, '%Y-%m') AS month, COUNT(*) AS users FROM users GROUP BY 1 ORDER BY 1",
        ),
        Asked(
            "Seconds of use by platform?",
            "SELECT u.platform, SUM(e.seconds) AS seconds FROM events e JOIN users u ON e.user_id = u.user_id GROUP BY u.platform",
        ),
        Asked(
            "Which event is the most common?",
            "SELECT MODE(event) AS most_common FROM events",
        ),
        Asked(
            "How many events per active user in each week?",
            "SELECT week, n * 1.0 / users AS events_per_user FROM (SELECT date_trunc('week', moment) AS week, COUNT(*) AS n, "
            "COUNT(DISTINCT user_id) AS users FROM events GROUP BY 1) WHERE users > 50 ORDER BY week",
        ),
        Asked(
            "A moving mean of daily events over a week?",
            "SELECT day, AVG(n) OVER (ORDER BY day ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS mean FROM (SELECT "
            "CAST(moment AS DATE) AS day, COUNT(*) AS n FROM events WHERE moment >= TIMESTAMP '2025-07-01 00:00:00' AND moment < "
            "TIMESTAMP '2025-08-01 00:00:00' GROUP BY 1) ORDER BY day",
        ),
        Asked(
            "Buyers and lookers in one list?",
            "SELECT 'buyers' AS kind, COUNT(DISTINCT user_id) AS users FROM events WHERE event = 'buy' UNION ALL "
            "SELECT 'lookers' AS kind, COUNT(DISTINCT user_id) AS users FROM events WHERE event = 'view'",
        ),
        Asked(
            "The conversion from view to purchase, as one number?",
            "SELECT (SELECT COUNT(DISTINCT user_id) FROM events WHERE event = 'buy') * 1.0 / "
            "(SELECT COUNT(DISTINCT user_id) FROM events WHERE event = 'view') AS conversion",
        ),
    ),
)

SCHEMAS = (HOSPITAL, SHOP, APP)
QUERIES = tuple((schema, asked) for schema in SCHEMAS for asked in schema.queries)


def write_project(schema: Schema, folder: Path, project: str | None = None) -> Path:
    """Write the tables of a schema and its project file; returns the path of the file."""
    for name, rows in schema.tables().items():
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet")
    path = folder / "tacit.toml"
    path.write_text(schema.project if project is None else project, encoding="utf-8")
    return path
