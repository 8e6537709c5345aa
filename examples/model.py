"""A private model, trained through the same account as the queries."""

import pyarrow as pa

import tacit
from tacit.learn import LogisticRegression


def main() -> None:
    """Fit a classifier; needs the extra "learn"."""
    rows = {
        "id": list(range(3000)),
        "age": [float(20 + i * 37 % 60) for i in range(3000)],
        "pressure": [float(90 + (i * 37 % 60) + i * 11 % 30) for i in range(3000)],
        "ill": [int(i * 37 % 60 + i % 7 > 35) for i in range(3000)],
    }
    curator = tacit.open(
        pa.table(rows),
        table="people",
        unit="id",
        epsilon="3",
        delta="1e-6",
        max_rows=1,
        columns={"age": (0, 110), "pressure": (60, 220), "ill": [0, 1]},
    )
    model = LogisticRegression(epsilon=1, delta="1e-7", classes=[0, 1])
    fitted = curator.fit(model, "SELECT age, pressure, ill FROM people")
    print(fitted.charge.text)
    print("a person of 30 and one of 70:", fitted.model.predict([[30.0, 100.0], [70.0, 160.0]]))
    print(curator.budget())


if __name__ == "__main__":
    main()
