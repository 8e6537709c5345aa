"""A survey in which no one holds the answers: each device randomises its own."""

import tacit
from tacit.local import Aggregator, Client


def main() -> None:
    """Estimate how many drink tea, from randomised reports."""
    answers = ["tea"] * 2500 + ["coffee"] * 1500 + ["water"] * 1000
    response = tacit.RandomizedResponse(categories=["tea", "coffee", "water"], epsilon="1")
    print(f"the truth is told with probability {float(response.truth):.2f}")
    client, collector = Client(response), Aggregator(response)
    for answer in answers:
        collector.add(client.report(answer))  # a report protects its sender, whatever the collector does
    found_shares = collector.estimate()
    for name, share, low, high in zip(
        found_shares.categories, found_shares.frequencies, found_shares.low, found_shares.high, strict=True
    ):
        print(f"{name}: {share:.1%} (from {low:.1%} to {high:.1%})")


if __name__ == "__main__":
    main()
