"""Many analysts at once, over real sockets, who check every answer they get; for tests and for a longer benchmark."""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from support.serving import COUNT, WARDS

#: A wrong alarm is less likely than this for any one cell, so than 10^-6 for a hundred thousand of them.
_ALARM = 1e-11
EPSILON = 5
_KNOWN = 20
_PATIENCE = 90.0


@dataclass
class Findings:
    """Responses that all analysts saw together.

    Args:
        answers: the body that each fresh query got, by its idempotency key; it may come more than once.
        charged: keys whose answer said that it was charged.
        counts: responses by kind and status.
        wrong: what must not happen, in words.
    """

    answers: dict[str, bytes] = field(default_factory=dict)
    charged: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    repeats: int = 0
    lost: int = 0

    def check(self, holds: bool, words: str) -> None:
        """Note what does not hold."""
        if not holds and len(self.wrong) < 50:
            self.wrong.append(words)


class Line:
    """A kept connection that is opened again when it breaks."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._token = token
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, path: str, body: bytes, key: str = "") -> tuple[int, dict[str, str], bytes]:
        """One request and its response; ``ConnectionError`` where there is none."""
        try:
            if self._streams is None:
                self._streams = await asyncio.open_connection("127.0.0.1", self._port)
            reader, writer = self._streams
            extra = f"idempotency-key: {key}\r\n" if key else ""
            head = (
                f"POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {self._token}\r\n{extra}"
                f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
            )
            writer.write(head.encode() + body)
            raw = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _PATIENCE)
            first, *lines = raw.decode().strip().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            content = await reader.readexactly(int(headers["content-length"]))
            if headers.get("connection") == "close":
                self.hang_up()
            return int(first.split(" ")[1]), headers, content
        except (OSError, asyncio.IncompleteReadError) as problem:
            self.hang_up()
            raise ConnectionError from problem

    def hang_up(self) -> None:
        """Forget the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class Analyst:
    """Analyst who mixes quotes, repeats, refusals and fresh queries, and asks again whenever a response is lost."""

    def __init__(self, number: int, line: Line, known: dict[bytes, bytes], findings: Findings, patients: int) -> None:
        self._number = number
        self._line = line
        self._known = list(known.items())
        self._findings = findings
        self._patients = patients
        self._dice = random.Random(number)
        self._fresh = 0

    async def work(self, end: float, latest: float, enough: Callable[[], bool]) -> None:
        """Until the time is over; on a slow machine until enough has happened, but not beyond the latest moment."""
        loop = asyncio.get_running_loop()
        kinds = (self.quote, self.repeat, self.refusal, self.fresh)
        while loop.time() < end or (loop.time() < latest and not enough()):
            await self._dice.choices(kinds, (3, 4, 1, 2))[0]()
        self._line.hang_up()

    async def _ask(self, kind: str, path: str, body: bytes, key: str = "") -> tuple[int, dict[str, str], bytes]:
        for attempt in range(60):
            try:
                status, headers, content = await self._line.send(path, body, key)
            except ConnectionError:
                self._findings.lost += 1
                await asyncio.sleep(0.05 * (1 + attempt))
                continue
            self._findings.counts[f"{kind} {status}"] += 1
            if status != 503:
                return status, headers, content
            await asyncio.sleep(0.2 + 0.2 * self._dice.random())
        self._findings.check(False, f"no response to a {kind}")
        return 0, {}, b"{}"

    async def quote(self) -> None:
        """Ask for a quote, which is free and the same for all."""
        body, _ = self._dice.choice(self._known)
        status, _, content = await self._ask("quote", "/v1/explain", body)
        self._findings.check(status == 200, f"a quote: {status} {content!r}")
        if status == 200:
            price = json.loads(content)["price"]["amounts"]
            self._findings.check(price == {"epsilon": str(EPSILON)}, f"a price: {price}")

    async def repeat(self) -> None:
        """Free, and the same bytes as ever."""
        body, first = self._dice.choice(self._known)
        status, headers, content = await self._ask("repeat", "/v1/query", body)
        self._findings.repeats += 1
        self._findings.check(status == 200 and headers.get("tacit-repeat") == "true", f"a repeat: {status} {headers}")
        self._findings.check(content == first, "a repeat with other bytes")

    async def refusal(self) -> None:
        """Refused for what it says."""
        body = json.dumps({"sql": "SELECT cost FROM visits", "epsilon": 1}).encode()
        status, _, content = await self._ask("refusal", "/v1/query", body)
        told = json.loads(content).get("error", {})
        self._findings.check((status, told.get("code")) == (422, "query.not_aggregated"), f"a refusal: {status} {told}")

    async def fresh(self) -> None:
        """Charged once however often it is sent; the answer is near the truth, and the same if it comes twice."""
        self._fresh += 1
        number = 1000 * self._number + self._fresh
        key = f"key-{number}"
        most = number % 999 + 1
        where = f"cost < {most} AND day <> {400 + number}"
        text = f"SELECT ward, COUNT(*) AS n{number} FROM visits WHERE {where} GROUP BY ward"
        body = json.dumps({"sql": text, "epsilon": EPSILON}).encode()
        status, headers, content = await self._ask("fresh", "/v1/query", body, key)
        if status == 402:
            return
        self._findings.check(status == 200, f"a query: {status} {content!r}")
        if status != 200:
            return
        self._findings.answers[key] = content
        if headers["tacit-repeat"] == "false":
            self._findings.charged.add(key)
        for (ward, cell), truth in zip(json.loads(content)["rows"], self.truth(most), strict=True):
            off = abs(cell["value"] - truth)
            self._findings.check(off <= bound(), f"{ward}: {cell['value']} where the truth is {truth}")
        if self._dice.random() < 0.3:
            status, headers, again = await self._ask("again", "/v1/query", body, key)
            self._findings.repeats += 1
            self._findings.check(
                (status, headers.get("tacit-repeat"), again) == (200, "true", content), "the same key, another answer"
            )

    def truth(self, most: int) -> list[int]:
        """True answer of the fresh query, in the clinic of :func:`support.serving.make_clinic`."""
        counts = dict.fromkeys(WARDS, 0)
        for patient in range(self._patients):
            for visit in range(3):
                if (37 * patient + 11 * visit) % 1000 < most:
                    counts[WARDS[(patient + visit) % 3]] += 1
        return [counts[ward] for ward in WARDS]


def bound() -> float:
    """Bound on the error of a count: six rows of one person count, and the noise has the scale 6/ε."""
    return 6 / EPSILON * math.log(1 / _ALARM)


async def crowd(
    port: int,
    tokens: list[str],
    seconds: float,
    patients: int,
    *,
    most: float = 0.0,
    enough: Callable[[], bool] = lambda: True,
    begun: Callable[[], None] = lambda: None,
) -> Findings:
    """Run all analysts at once, after asking known queries.

    Args:
        port: of the server on this machine.
        tokens: one per analyst.
        seconds: to work at least.
        patients: of the clinic.
        most: seconds after which they stop though the budget is not gone or ``enough`` has not happened.
        enough: whether what else must happen has happened.
        begun: called when they begin, after the known queries.
    """
    findings = Findings()
    first = Line(port, tokens[0])
    known: dict[bytes, bytes] = {}
    for number in range(_KNOWN):
        body = json.dumps({"sql": f"{COUNT} LIMIT {number + 1}", "epsilon": EPSILON, "max_groups": 3}).encode()
        status, _, content = await first.send("/v1/query", body)
        findings.check(status == 200, f"a known query: {status} {content!r}")
        known[body] = content
    first.hang_up()
    begun()
    now = asyncio.get_running_loop().time()
    analysts = [Analyst(n, Line(port, token), known, findings, patients) for n, token in enumerate(tokens)]

    def over() -> bool:
        return bool(findings.counts["fresh 402"]) and enough()

    await asyncio.gather(*(analyst.work(now + seconds, now + most, over) for analyst in analysts))
    return findings


def summary(findings: Findings) -> dict[str, Any]:
    """In a few numbers."""
    return {
        "responses": dict(sorted(findings.counts.items())),
        "lost": findings.lost,
        "answers": len(findings.answers),
        "charged": len(findings.charged),
        "repeats": findings.repeats,
        "wrong": findings.wrong,
    }
