"""Analysts with shares of one budget; what one spends, no one can spend again."""

import tempfile
from pathlib import Path

import pyarrow as pa

import tacit


def main() -> None:
    """Two analysts ask; the account is on disk and outlasts the process."""
    people = pa.table({"id": list(range(2000)), "age": [i % 90 for i in range(2000)]})
    ledger = Path(tempfile.mkdtemp()) / "tacit.ledger"

    def opened() -> tacit.Curator:
        return tacit.open(people, table="people", unit="id", epsilon="2", ledger=ledger, columns={"age": (0, 100)})

    with opened() as curator:
        for name in ("alice", "bob"):
            curator.ledger.add_analyst(name)
            curator.ledger.set_quota("people", {"epsilon": "1.5"}, analyst=name)
        curator.sql("SELECT COUNT(*) AS n FROM people", epsilon="1.2", analyst="alice")
        print(curator.budget(analyst="alice"))
        try:
            curator.sql("SELECT AVG(age) AS a FROM people", epsilon="1", analyst="bob")
        except tacit.BudgetError as refused:
            print("bob:", refused)
    with opened() as curator:  # another day
        print(curator.sql("SELECT COUNT(*) AS n FROM people", epsilon="1.2", analyst="bob").charge.text)
        for entry in curator.history():
            print(entry.analyst, entry.text)


if __name__ == "__main__":
    main()
