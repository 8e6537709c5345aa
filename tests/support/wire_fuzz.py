"""Whole conversations of PostgreSQL clients, changed at random: what they may do, and what must hold of the replies.

A conversation is a series of messages from a grammar: prepared statements and portals under few names, so that they
collide; parameters in both formats; transactions, settings, cancelling. Then some messages are cut,
doubled, swapped or have bytes changed. ``python -m support.wire_fuzz --sessions 5000`` runs many of them.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import struct
from collections import Counter
from fractions import Fraction
from typing import Any

from support.pg_served import PgServed, pg_serve
from support.served import BUDGETS
from tacit.server.errors import Unauthenticated
from tacit.server.pgwire.protocol import CANCEL, GSS, TLS, WireFault, read_message
from tacit.server.pgwire.session import ClientQueries, WireSession
from tacit.server.pgwire.variables import SessionVariables

BUDGET = {**BUDGETS, "patients": {"accounting": "approx", "epsilon": "100000", "delta": "1e-6"}}
#: All queries that cost something, each at one price.
QUERIES = (
    "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward",
    "SELECT ward, COUNT(*) AS n FROM public.visits WHERE cost < 50 GROUP BY ward",
    "SELECT COUNT(DISTINCT patient) AS n, AVG(cost) AS c FROM visits WHERE ward = 'a'",
)
WITH_PARAMETERS = "SELECT ward, COUNT(*) AS n FROM visits WHERE cost < $1 AND ward IN ($2,$3) GROUP BY ward"
PRICE = Fraction(1, 2)
_NAMES = (b"", b"", b"a", b"b", b"\xc3\xa9")
_OTHERS = (
    "", ";", "SELECT 1", "SELECT 1; SELECT 2", "SELECT $1,$2", "SELECT $1::text", "SELECT $1000", "BEGIN", "COMMIT",
    "ROLLBACK", "SAVEPOINT a", "ROLLBACK TO a", "RELEASE a", "START TRANSACTION READ ONLY", "ABORT", "END",
    "SET tacit.epsilon = '0.5'", "SET tacit.intervals = on", "RESET tacit.intervals",
    "SET LOCAL tacit.intervals = on", "SET statement_timeout = 5", "SET nothing = 1",
    "SET search_path = tacit", "SHOW ALL", "SHOW tacit.epsilon", "RESET ALL", "DISCARD ALL",
    "DEALLOCATE ALL", "DEALLOCATE a", "CLOSE ALL", "UNLISTEN *", "DECLARE c CURSOR FOR {query}", "FETCH 1 FROM c",
    "COPY ({query}) TO STDOUT", "COPY visits FROM STDIN", "EXPLAIN {query}",
    "EXPLAIN (COSTS OFF) {query}",
    "EXPLAIN ANALYZE {query}", "EXPLAIN", "PREPARE a AS SELECT 1",
    "SELECT relname, oid FROM pg_class WHERE relname = $1", "SELECT current_setting('tacit.epsilon')",
    "SELECT set_config('tacit.intervals', 'on', true)", "SELECT * FROM tacit.budget", "SELECT * FROM tacit.history",
    "SELECT * FROM duckdb_settings()", "WITH duckdb_tables AS (SELECT 1 FROM pg_am) SELECT * FROM duckdb_tables",
    "SELECT * FROM visits", "DROP TABLE visits", "SELECT 'é", "/* ", "$1,$2", "SELECT $$a$1,$b$$",
)  # fmt: skip
_TYPES = (0, 0, 16, 20, 21, 23, 25, 26, 700, 701, 1009, 1082, 1114, 1184, 1700, 2205, 999_999)
_VALUES = (
    None, b"", b"a", b"50", b"-1", b"1e400", b"1e-999999999", b"NaN", b"{a,b}", b'{"\\"', b"t", b"\0", b"\0\0\0\7",
    b"\xff" * 4, b"\0" * 8, b"2024-02-30", b"2024-02-03", b"x" * 3000, "é'\\".encode(),
    struct.pack("!HhHH", 3, 0, 0, 0), b"\xc3(",
)  # fmt: skip
#: Types of messages that a server may send.
_BACKEND = frozenset(b"123CDEGIKNRSTZnstv")


def framed(kind: bytes, body: bytes) -> bytes:
    """A message."""
    return kind + struct.pack("!I", len(body) + 4) + body


class Grammar:
    """Makes conversations.

    Args:
        chance: decides.
    """

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def sql(self) -> str:
        """A statement."""
        pick = self._chance.choice
        if self._chance.random() < 0.3:
            return pick((*QUERIES, WITH_PARAMETERS))
        return pick(_OTHERS).replace("{query}", pick(QUERIES))

    def message(self) -> bytes:
        """A message of any kind."""
        pick, name = self._chance.choice, self._chance.choice(_NAMES) + b"\0"
        kind = pick("QQQPPPBBBBEEEEDDSSSSSCHdcfpFXZ")
        match kind:
            case "Q":
                return framed(b"Q", self.sql().encode() + b"\0")
            case "P":
                types = [pick(_TYPES) for _ in range(self._chance.randrange(4))]
                return framed(
                    b"P", name + self.sql().encode() + b"\0" + struct.pack(f"!H{len(types)}I", len(types), *types)
                )
            case "B":
                return framed(b"B", self._bind(name))
            case "E":
                return framed(b"E", name + struct.pack("!i", pick((0, 0, 1, 2, -1, 2**31 - 1))))
            case "D" | "C":
                return framed(kind.encode(), pick((b"S", b"P")) + name)
            case "X" | "Z" | "F" | "p" if self._chance.random() < 0.8:
                return framed(b"S", b"")
            case _:
                return framed(kind.encode(), pick((b"", b"", b"more")))

    def series(self) -> list[bytes]:
        """A statement that is prepared, bound, described and executed, some of it more than once."""
        pick, some = self._chance.choice, self._chance.random
        name, portal, sql = pick(_NAMES), pick(_NAMES) + b"\0", self.sql()
        count = 3 if sql == WITH_PARAMETERS else min(sql.count("$"), 2)
        types = [pick(_TYPES) for _ in range(pick((0, 0, count)))]
        prepared = name + b"\0" + sql.encode() + b"\0" + struct.pack(f"!H{len(types)}I", len(types), *types)
        found = [framed(b"P", prepared), framed(b"D", b"S" + name + b"\0")][: pick((1, 2))]
        found.append(framed(b"B", self._bind(portal, name, count)))
        found += [framed(b"D", b"P" + portal)] if some() < 0.4 else []
        found += [framed(b"E", portal + struct.pack("!i", pick((0, 0, 1, 2)))) for _ in range(pick((1, 1, 2, 4)))]
        return [*found, framed(pick((b"S", b"S", b"H")), b"")]

    def _bind(self, portal: bytes, statement: bytes | None = None, exactly: int | None = None) -> bytes:
        pick = self._chance.choice
        named = pick(_NAMES) if statement is None else statement
        values = [pick(_VALUES) for _ in range(pick((0, 0, 0, 1, 2, 3)) if exactly is None else exactly)]
        count = pick((0, 0, 1, len(values)))
        parts = [
            portal,
            named,
            b"\0",
            struct.pack("!H", count),
            *(struct.pack("!H", pick((0, 1))) for _ in range(count)),
        ]
        parts.append(struct.pack("!H", len(values)))
        parts += [b"\xff" * 4 if each is None else struct.pack("!I", len(each)) + each for each in values]
        results = [pick((0, 1)) for _ in range(pick((0, 0, 1, 1, 2)))]
        return b"".join([*parts, struct.pack(f"!H{len(results)}H", len(results), *results)])

    def conversation(self) -> list[bytes]:
        """Messages, some of them changed."""
        found: list[bytes] = []
        for _ in range(self._chance.randrange(1, 7)):
            found += self.series() if self._chance.random() < 0.6 else [self.message() for _ in range(3)]
        for _ in range(self._chance.choice((0, 0, 0, 1, 1, 2))):
            found = self._changed(found)
        return found

    def _changed(self, messages: list[bytes]) -> list[bytes]:
        chance, place = self._chance, self._chance.randrange(len(messages))
        one = bytearray(messages[place])
        match chance.randrange(6):
            case 0:
                one[chance.randrange(len(one))] = chance.randrange(256)
            case 1:
                one[chance.randrange(5, len(one)) if len(one) > 5 else 0] ^= 1 << chance.randrange(8)
            case 2:
                one = bytearray(framed(bytes(one[:1]), bytes(one[5 : chance.randrange(5, len(one) + 1)])))
            case 3:
                one[1:5] = struct.pack("!I", chance.choice((0, 3, 4, 5, 2**31, 2**32 - 1, len(one))))
            case 4:
                return [*messages[:place], bytes(one), *messages[place:]]
            case _:
                other = chance.randrange(len(messages))
                messages[place], messages[other] = messages[other], messages[place]
                return messages
        return [*messages[:place], bytes(one), *messages[place + 1 :]]

    def start(self) -> bytes:
        """The first bytes of a connection: requests for encryption, start-up, proofs, cancelling; changed."""
        chance = self._chance
        words = [
            b"user",
            b"alice",
            b"database",
            b"hospital",
            b"options",
            b"-c tacit.epsilon=0.5",
            b"client_encoding",
            b"UTF8",
        ]
        words += chance.choice(
            ([], [b"_pq_.x", b"1"], [b"replication", b"true"], [b"nothing", b"1"], [b"user", b"bob"])
        )
        body = b"".join(word + b"\0" for word in words[: chance.choice((2, 4, 6, 8, len(words)))]) + b"\0"
        version = chance.choice((3 << 16, 3 << 16 | 2, 3 << 16 | 9999, 2 << 16, 0))
        first = b"n,,n=,r=" + chance.choice((b"abcdefgh", b"", b"a,b", b"\xff", b"x" * 3000))
        mechanism = chance.choice((b"SCRAM-SHA-256", b"SCRAM-SHA-256-PLUS", b"PLAIN", b""))
        parts = [
            struct.pack("!II", 8, TLS), struct.pack("!II", 8, GSS), struct.pack("!II", 8 + len(body), version) + body,
            framed(b"p", mechanism + b"\0" + struct.pack("!i", len(first)) + first),
            framed(b"p", b"c=biws,r=abcdefgh,p=" + chance.choice((b"AAAA", b"!", b""))), framed(b"Q", b"SELECT 1\0"),
            struct.pack("!II", 16, CANCEL) + chance.randbytes(8), struct.pack("!II", 44, CANCEL) + chance.randbytes(36),
            b"\x16\x03\x01" + chance.randbytes(40),
        ]  # fmt: skip
        order = [2, 3, 4, 5] if chance.random() < 0.5 else [chance.randrange(len(parts)) for _ in range(4)]
        data = bytearray(b"".join(parts[place] for place in order))
        for _ in range(chance.choice((0, 0, 1, 3))):
            data[chance.randrange(len(data))] = chance.randrange(256)
        return bytes(data[: chance.choice((len(data), len(data), chance.randrange(len(data))))])


class Heard:
    """A stream that keeps what the server says."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.waiting = 0

    def write(self, data: bytes) -> None:
        self.data += data
        self.waiting += len(data)

    async def spill(self) -> None:
        if self.waiting > 65_536:
            self.waiting = 0

    async def flush(self) -> None:
        self.waiting = 0

    def messages(self) -> list[tuple[bytes, bytes]]:
        """Messages of the server, taken apart to the last byte."""
        found, at = [], 0
        while at < len(self.data):
            end = at + 1 + int.from_bytes(self.data[at + 1 : at + 5], "big")
            assert self.data[at] in _BACKEND, bytes(self.data[at : at + 40])
            assert at + 5 <= end <= len(self.data)
            found.append((bytes(self.data[at : at + 1]), bytes(self.data[at + 5 : end])))
            at = end
        return found


class Fuzzer:
    """Holds conversations with one server.

    Args:
        pg: the server.
        seed: of all chances.
    """

    def __init__(self, pg: PgServed, seed: int) -> None:
        self.pg = pg
        self.chance = random.Random(seed)
        self.grammar = Grammar(self.chance)
        self.states: Counter[str] = Counter()
        self.counts: set[bytes] = set()
        self._access = pg.served.access()

    async def session(self) -> None:
        """One conversation after sign-in; what must hold is asserted."""
        server, heard = self.pg.server, Heard()
        variables = SessionVariables("alice")
        variables.set("tacit.epsilon", "0.5")
        key = server._keys.new()
        runtime = self.pg.served.app.state.runtime
        queries = ClientQueries(
            runtime, self._access, variables, server._catalogues, server._keys, key, lambda *_: None
        )
        session = WireSession(queries, heard, variables)  # type: ignore[arg-type]
        reader, asked = asyncio.StreamReader(), 0
        for message in self.grammar.conversation():
            if self.chance.random() < 0.05:
                assert server._keys.cancel(key)
            reader.feed_data(message)
            try:
                while reader._buffer:
                    # A message that was cut waits for the rest of it, which is the next one.
                    said = await read_message(reader, 65_536, 0.002)
                    asked += said.kind in "SQ"
                    if not await session.handle(said):
                        self._check(heard, asked)
                        return
            except WireFault:
                self._check(heard, asked, ended=True)
                return
            except Unauthenticated:
                raise AssertionError("the token counts") from None
            assert heard.waiting < 200_000, "the client would be sent more than it takes"
        self._check(heard, asked)

    def _check(self, heard: Heard, asked: int, *, ended: bool = False) -> None:
        messages = heard.messages()
        ready = sum(kind == b"Z" for kind, _ in messages)
        assert ready == asked or (ended and ready == asked - 1), "one reply for each series of messages"
        for kind, body in messages:
            if kind == b"E":
                state = next(part[1:].decode() for part in body.split(b"\0") if part[:1] == b"C")
                self.states[state] += 1
                assert state not in ("XX000", "58000", "58030"), body
            if kind == b"D" and body[:2] == b"\0\2" and body[2:7] == b"\0\0\0\1a":
                self.counts.add(body)

    async def connection(self) -> None:
        """The first bytes of a connection; it ends, and leaves nothing behind."""
        reader = asyncio.StreamReader()
        writer = _Writer()
        reader.feed_data(self.grammar.start())
        reader.feed_eof()
        async with asyncio.timeout(20):
            await self.pg.server._serve(reader, writer)  # type: ignore[arg-type]
        assert b"XX000" not in writer.data
        # After an authentication that failed nothing is answered.
        assert b"Z\0\0\0\5" not in writer.data

    async def run(self, sessions: int, connections: int) -> None:
        """Hold so many conversations, and begin so many connections."""
        for _ in range(sessions):
            await self.session()
        for _ in range(connections):
            await self.connection()


class _Writer:
    """The writer of a connection that keeps what is written."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.transport = self

    def write(self, data: bytes) -> None:
        self.data += data

    def set_write_buffer_limits(self, *_: Any) -> None:
        return

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else None

    def abort(self) -> None:
        return

    def close(self) -> None:
        return

    async def drain(self) -> None:
        return

    async def wait_closed(self) -> None:
        return


def main() -> None:
    """Run many."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with pg_serve(budgets=BUDGET) as pg:
        fuzzer = Fuzzer(pg, chosen.seed)
        pg.on_loop(fuzzer.run(chosen.sessions, chosen.sessions // 4), seconds=36_000)
        print(fuzzer.states.most_common(), len(fuzzer.counts), float(pg.served.spent()))


if __name__ == "__main__":
    main()
