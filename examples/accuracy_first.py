"""State the error, see the cost, then pay."""

import pyarrow as pa

import tacit


def main() -> None:
    """Ask for a count that is within 20, 19 times in 20."""
    people = pa.table({"id": list(range(5000)), "smokes": [i % 4 == 0 for i in range(5000)]})
    curator = tacit.open(people, table="people", unit="id", epsilon="1", max_rows=1)
    query = "SELECT COUNT(*) AS n FROM people WHERE smokes"
    for within in (50, 20):
        print(f"within {within}: {curator.explain(query, within=within).charge}")
    answer = curator.sql(query, within=20, confidence=0.95)
    print(answer)
    # The same trade-off before there is any data: how many people does a share within one percent take?
    mechanism = tacit.Laplace.for_error(within=20, beta="0.05", l1_sensitivity=1)
    print("a mechanism that is good enough:", mechanism.guarantee)


if __name__ == "__main__":
    main()
