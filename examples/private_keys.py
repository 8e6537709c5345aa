"""Groups whose names are not public are found privately: rare ones stay hidden."""

import pyarrow as pa

import tacit

CITIES = ["Graz"] * 3000 + ["Linz"] * 1500 + ["Wels"] * 400 + ["Zwettl"] * 2


def main() -> None:
    """Count people by city; a city with two people is not shown."""
    people = pa.table({"id": list(range(len(CITIES))), "city": CITIES})
    # Finding names needs a delta: the probability with which a rare name may slip through.
    curator = tacit.open(people, table="people", unit="id", epsilon="2", delta="1e-6", max_groups=1, max_rows=1)
    answer = curator.sql("SELECT city, COUNT(*) AS n FROM people GROUP BY city ORDER BY n DESC", epsilon="1")
    print(answer)
    found = answer.to_arrow()["city"].to_pylist()
    print("found:", ", ".join(found), "| hidden: every city with too few people")


if __name__ == "__main__":
    main()
