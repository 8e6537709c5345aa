"""Local collection: reports and aggregation per second, memory and error, beside pure-ldp.

    .venv/bin/python benchmarks/local.py [--rival PYTHON] [--quick]

pure-ldp wants libraries of its own, so it runs in another environment: make one with ``python -m venv``, install
pure-ldp, scikit-learn, statsmodels and xxhash below 4 there, and name its interpreter. Both aggregate reports of domain
1,000 at ε = 1 in one run. Every figure is the best of several repeats.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from tacit.local import (
    Aggregator,
    Client,
    HadamardResponse,
    LocalHashing,
    LocalMean,
    LocalProtocol,
    ResponseProtocol,
    UnaryEncoding,
    amplified,
)

K = 1000
WORDS: dict[str, Any] = {"categories": K, "epsilon": "1"}
PROTOCOLS: dict[str, LocalProtocol] = {
    "randomized response": ResponseProtocol(**WORDS),
    "optimised unary": UnaryEncoding(**WORDS),
    "local hashing": LocalHashing(**WORDS),
    "Hadamard": HadamardResponse(**WORDS),
    "mean, hybrid": LocalMean(bounds=(0, 1000), epsilon="1"),
}
RIVAL = """
import json, sys, time
from pure_ldp.frequency_oracles import (
    DEClient, DEServer, HadamardResponseClient, HadamardResponseServer, LHClient, LHServer, UEClient, UEServer,
)
k, n = 1000, int(sys.argv[1])
found = {}
def measure(name, server, client, privatise, number):
    number = max(number, 10)
    start = time.perf_counter()
    reports = [privatise(client, i % k) for i in range(number)]
    made = time.perf_counter() - start
    start = time.perf_counter()
    for report in reports:
        server.aggregate(report)
    added = time.perf_counter() - start
    best = found.setdefault(name, {"report": 1e9, "aggregate": 0})
    found[name] = {"report": min(made / number, best["report"]), "aggregate": max(number / added, best["aggregate"])}
plain = lambda client, value: client.privatise(value + 1)
for _ in range(3):
  measure("randomized response", DEServer(1, k), DEClient(1, k), plain, n)
  measure("optimised unary", UEServer(1, k, use_oue=True), UEClient(1, k, use_oue=True), plain, n // 10)
  measure("local hashing", LHServer(1, k, use_olh=True), LHClient(1, k, use_olh=True), plain, n // 20)
  server = HadamardResponseServer(1, k)
  measure("Hadamard", server, HadamardResponseClient(1, k, server.get_hash_funcs()), plain, n // 10)
print(json.dumps(found))
"""


def best(work: Callable[[], object], seconds: float) -> float:
    """Best time of repeats that together take about so long."""
    found, end = math.inf, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        work()
        found = min(found, time.perf_counter() - start)
    return found


def reports_of(protocol: LocalProtocol, number: int) -> bytes:
    """Reports of all values in turn, as they arrive over the network; a few thousand are made and repeated."""
    client = Client(protocol)
    made = [client.report(i % K).payload for i in range(2000)]
    return b"\x01" + b"".join(made) * (number // len(made))


def report_seconds(protocol: LocalProtocol, seconds: float) -> float:
    """Time of one report."""
    client = Client(protocol)

    def many() -> None:
        for _ in range(200):
            client.report(7)

    return best(many, seconds) / 200


def aggregate_rate(protocol: LocalProtocol, number: int, seconds: float) -> float:
    """Reports per second on two threads, each with an aggregator of its own, merged at the end."""
    raw = reports_of(protocol, number)

    def both() -> None:
        parts = [Aggregator(protocol), Aggregator(protocol)]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda part: part.add(raw), parts))
        parts[0].merge(parts[1])

    return 2 * (len(raw) - 1) // protocol.width / best(both, seconds)


def memory(protocol: LocalProtocol, number: int) -> tuple[int, int]:
    """Bytes of an aggregator after few and after many reports."""
    held = []
    for count in (2000, number):
        raw = reports_of(protocol, count)
        tracemalloc.start()
        aggregator = Aggregator(protocol)
        aggregator.add(raw)
        held.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    return held[0], held[1]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rival", help="interpreter of an environment with pure-ldp")
    parser.add_argument("--quick", action="store_true")
    said = parser.parse_args()
    seconds, number = (0.2, 200_000) if said.quick else (1.5, 4_000_000)
    theirs: dict[str, dict[str, float]] = {}
    if said.rival:
        program = [said.rival, "-W", "ignore", "-c", RIVAL, "400" if said.quick else "4000"]
        theirs = json.loads(subprocess.run(program, capture_output=True, check=True, text=True).stdout)
    print("| protocol | report, µs | pure-ldp | reports/s added, 2 cores | pure-ldp | ratio | bytes | memory |")
    print("|---|---|---|---|---|---|---|---|")
    for name, protocol in PROTOCOLS.items():
        wide = protocol.width > 8
        rate = aggregate_rate(protocol, number // 20 if wide else number, seconds)
        few, many = memory(protocol, 20_000 if wide else 200_000)
        assert many <= few + 4096, (name, few, many)
        rival = theirs.get(name)
        made = f"{rival['report'] * 1e6:,.1f}" if rival else "—"
        added, ratio = (f"{rival['aggregate']:,.0f}", f"{rate / rival['aggregate']:,.0f}") if rival else ("—", "—")
        spent = report_seconds(protocol, seconds / 3) * 1e6
        print(f"| {name} | {spent:.1f} | {made} | {rate:,.0f} | {added} | {ratio} | {protocol.width} | {few:,} |")
    print()
    for name in ("local hashing", "Hadamard"):
        protocol = PROTOCOLS[name]
        aggregator = Aggregator(protocol)
        aggregator.add(reports_of(protocol, 100_000))
        aggregator.estimate()
        print(f"estimates of {K:,} shares, {name}: {best(aggregator.estimate, seconds / 3) * 1e3:.1f} ms")
    amplified("1", n=100, delta="1e-8")
    for n in (10**4, 10**6, 10**8):
        start = time.perf_counter()
        found = float(amplified("1", n=n, delta="1e-8").epsilon)
        print(f"ε = 1 shuffled among {n:,}: ε {found:.4g} at δ 1e-8, found in {time.perf_counter() - start:.2f} s")
    print(f"\nnumpy {np.__version__}, Python {sys.version.split()[0]}", end="")
    print(", pure-ldp 1.2.0" if theirs else "")


if __name__ == "__main__":
    main()
