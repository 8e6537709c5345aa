"""Questions in method calls instead of SQL; each call writes SQL, and nothing else reaches the data."""

import pyarrow as pa

import tacit


def main() -> None:
    """Average cost of people over 40 by ward."""
    rows = {
        "person": list(range(3000)),
        "ward": ["AB"[i % 2] for i in range(3000)],
        "age": [20 + i % 60 for i in range(3000)],
        "cost": [i * 37 % 500 for i in range(3000)],
    }
    curator = tacit.open(
        pa.table(rows),
        table="visits",
        unit="person",
        epsilon="4",
        max_groups=1,
        max_rows=1,
        columns={"ward": ["A", "B"], "age": (0, 110), "cost": (0, 500)},
    )
    question = (
        curator.table("visits")
        .filter(tacit.col("age") >= 40)
        .group_by("ward")
        .agg(n=tacit.count(), cost=tacit.mean("cost"))
    )
    print(question.sql())
    print(question.explain(epsilon="1").charge)
    print(question.answer(epsilon="1"))


if __name__ == "__main__":
    main()
