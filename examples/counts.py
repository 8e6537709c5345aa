"""Counts and averages by group, with intervals, and what is left of the budget."""

import pyarrow as pa

import tacit

WARDS = ["cardiology", "oncology", "surgery"]


def main() -> None:
    """Ask one query twice; the second time is free."""
    visits = pa.table(
        {
            "patient": [i // 2 for i in range(6000)],
            "ward": [WARDS[i * i % 7 % 3] for i in range(6000)],
            "cost": [float(i * 37 % 900) for i in range(6000)],
        }
    )
    curator = tacit.open(
        visits,
        table="visits",
        unit="patient",  # whose row it is: all rows of one person are protected together
        epsilon="2",  # the budget of all queries ever asked
        max_groups=2,
        max_rows=2,
        columns={"ward": WARDS, "cost": (0, 1000)},  # public knowledge, never read off the data
    )
    query = "SELECT ward, COUNT(*) AS visits, AVG(cost) AS cost FROM visits GROUP BY ward"
    print(curator.explain(query, epsilon="0.5").charge)
    answer = curator.sql(query, epsilon="0.5")
    print(answer)
    for row in answer.intervals("0.99").to_pylist():
        print(row["ward"], "had between", row["visits_low"], "and", row["visits_high"], "visits")
    again = curator.sql(query, epsilon="0.5")
    print(again.charge.text)
    print(curator.budget(answer))


if __name__ == "__main__":
    main()
