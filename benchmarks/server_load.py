"""Two hundred analysts for a minute, while workers are killed under them: what they saw, and what it cost.

Run ``python benchmarks/server_load.py``. The analysts mix quotes, free repeats, refusals and fresh queries, check
every answer against the truth and against what others got, and ask again under the same key whenever a response is
lost. Afterwards the ledger is compared with what they saw. ``tests/server/test_server_load.py`` does the same for a few
seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent / "tests")]

import tacit  # noqa: E402
from support.analysts import EPSILON, crowd, summary  # noqa: E402
from support.serving import Server, make_clinic, make_tokens, resident  # noqa: E402

PATIENTS = 300


def main() -> None:
    """One run, and what was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--analysts", type=int, default=200)
    parser.add_argument("--charges", type=int, default=3000, help="that the budget allows")
    parser.add_argument("--kill-every", type=float, default=5.0, help="seconds; 0 for never")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tacit-bench-") as place:
        os.environ["TACIT_STATE"] = str(Path(place) / "state")
        project = make_clinic(Path(place) / "clinic", patients=PATIENTS, epsilon=str(chosen.charges * EPSILON))
        tokens = list(make_tokens(project, [f"analyst{n}" for n in range(chosen.analysts)]).values())
        limits = {"queue": 300.0, "quick_queue": 300.0}
        stop = threading.Event()
        killed: list[int] = []
        sizes: list[list[int]] = []
        with Server(project, "--workers", "2", "--response-step", "0", limits=limits) as server:
            server.wait_for_workers(2)

            def disturb() -> None:
                last = time.monotonic()
                while not stop.wait(1.0):
                    workers = server.workers()
                    sizes.append([resident(pid) >> 20 for pid in workers])
                    if chosen.kill_every and time.monotonic() - last >= chosen.kill_every and len(workers) == 2:
                        # Always the younger, so that the memory of the older can be watched for the whole time.
                        last = time.monotonic()
                        killed.append(max(workers))
                        os.kill(killed[-1], signal.SIGKILL)

            disturbing = threading.Thread(target=disturb)
            disturbing.start()
            findings = asyncio.run(crowd(server.port, tokens, chosen.seconds, PATIENTS))
            stop.set()
            disturbing.join()
            server.stop()
        print(json.dumps(summary(findings), indent=1))
        print(f"killed {len(killed)} workers; memory of the workers in MB, every ten seconds: {sizes[::10]}")
        with tacit.open(project) as curator:
            spent, history = curator.budget().spent[0].amount, curator.history()
            print(f"charged {len(history)} times, {spent} of {chosen.charges * EPSILON} spent")
            fresh = [entry for entry in history if "day <> " in entry.sql]
            print(f"{len(findings.answers)} fresh answers for {len(fresh)} charges; twice: {_twice(history)}")
            print(f"the ledger verifies: {curator.ledger.verify().ok}")


def _twice(history: tuple[object, ...]) -> int:
    """Charges for a query that was charged before."""
    return len(history) - len({getattr(entry, "sql", "") for entry in history})


if __name__ == "__main__":
    main()
