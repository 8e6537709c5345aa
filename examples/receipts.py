"""A signed receipt, checked offline, and what a forgery looks like."""

import json

import pyarrow as pa

import tacit


def main() -> None:
    """Verify a receipt with the public key alone, then change one figure in it."""
    people = pa.table({"id": list(range(2000)), "age": [i % 90 for i in range(2000)]})
    curator = tacit.open(people, table="people", unit="id", epsilon="1", columns={"age": (0, 100)})
    answer = curator.sql("SELECT COUNT(*) AS n FROM people WHERE age >= 65", epsilon="0.5")
    _, receipt = answer.paid  # the plan, and the receipt; a query about public tables alone has neither
    text = receipt.to_json()
    print(sorted(json.loads(text)["receipt"])[:6], "…")
    print("genuine:", tacit.verify_receipt(text, public_key=curator.public_key).ok)
    forged = text.replace('"epsilon":"1/2"', '"epsilon":"1/9"')  # it cost less than it did
    print("forged:", tacit.verify_receipt(forged, public_key=curator.public_key).ok)


if __name__ == "__main__":
    main()
