"""Hundreds of counts at one cost, which add up."""

import pyarrow as pa

import tacit


def main() -> None:
    """Every table of two columns, and every age range."""
    rows = {
        "id": list(range(4000)),
        "ward": ["ABCDE"[i * 7 % 5] for i in range(4000)],
        "sex": ["fm"[i % 2] for i in range(4000)],
        "age": [i * 37 % 100 for i in range(4000)],
    }
    curator = tacit.open(
        pa.table(rows),
        table="stays",
        unit="id",
        epsilon="4",
        delta="1e-6",
        max_rows=1,
        columns={"ward": list("ABCDE"), "sex": ["f", "m"], "age": (0, 99)},
    )
    workload = tacit.Workload.marginals(["ward", "sex", "age"], ways=2) + tacit.Workload.ranges("age")
    print(curator.explain_workload("stays", workload, epsilon=1))
    answer = curator.answer_workload("stays", workload, epsilon=1)
    women, men = answer.count(sex="f"), answer.count(sex="m")
    print("women", round(women.value), "men", round(men.value), "all", round(women.value + men.value))
    print("from 20 to 39:", answer.count(age=(20, 39)))


if __name__ == "__main__":
    main()
