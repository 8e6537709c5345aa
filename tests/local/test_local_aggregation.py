"""Aggregators and reports: forms, streams, merging, saving, refusals, and memory that does not grow."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from tacit.core.errors import InputError
from tacit.local import (
    Aggregator,
    Client,
    HadamardResponse,
    LocalHashing,
    LocalMean,
    LocalProtocol,
    Report,
    ResponseProtocol,
    UnaryEncoding,
)
from tacit.local.protocol import column_sums

PROTOCOLS: list[LocalProtocol] = [
    ResponseProtocol(categories=300, epsilon="1"),
    UnaryEncoding(categories=11, epsilon="1"),
    LocalHashing(categories=300, epsilon="1"),
    HadamardResponse(categories=300, epsilon="1"),
    LocalMean(bounds=(0, 1), epsilon="1"),
]


@pytest.fixture(params=PROTOCOLS, ids=lambda each: each.kind)
def protocol(request: pytest.FixtureRequest) -> LocalProtocol:
    found: LocalProtocol = request.param
    return found


def test_forms_of_reports_add_up_to_the_same(protocol: LocalProtocol) -> None:
    client = Client(protocol)
    reports = [client.report(value % 7) for value in range(200)]
    assert {len(each.payload) for each in reports} == {protocol.width}
    first = Aggregator(protocol)
    assert first.add(reports) == 200
    second = Aggregator(protocol)
    for each in reports[:3]:
        assert second.add(each) == 1
        assert Report.from_json(each.to_json()) == each
    second.add(reports[3].to_bytes())
    second.add(b"\x01" + b"".join(each.payload for each in reports[4:100]))
    third = Aggregator(protocol)
    third.add(np.array([list(each.payload) for each in reports[100:]], dtype=np.uint8))
    resumed = Aggregator.from_bytes(third.to_bytes())
    assert resumed.n == 100
    second.merge(resumed)
    assert (first.counts == second.counts).all()
    assert first.n == second.n == 200
    assert repr(first.estimate()) == repr(second.estimate())


def test_a_bad_report_is_refused_and_nothing_is_added(protocol: LocalProtocol) -> None:
    aggregator = Aggregator(protocol)
    good = Client(protocol).report(0)
    bad = [
        b"",
        b"\x02" + good.payload,
        good.to_bytes() + b"\x00" * (protocol.width > 1),
        b"\x01" + b"\xff" * protocol.width,
    ]
    if isinstance(protocol, LocalHashing | ResponseProtocol | LocalMean | HadamardResponse):
        bad.append(b"\x01" + good.payload + protocol.alphabet.to_bytes(protocol.width, "little"))
    for raw in bad:
        if raw == good.to_bytes():
            continue
        with pytest.raises(InputError):
            aggregator.add(raw)
    with pytest.raises(InputError):
        aggregator.add([good, Report(good.payload + b"\x00")])
    with pytest.raises(InputError):
        aggregator.add(np.array([0.5]))
    assert aggregator.n == 0
    assert not aggregator.counts.any()
    with pytest.raises(InputError, match="none yet"):
        aggregator.estimate()


def test_a_refused_chunk_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.local.collection._CHUNK", 4)
    aggregator = Aggregator(ResponseProtocol(categories=3, epsilon="1"))
    with pytest.raises(InputError, match="from 0 to 2"):
        aggregator.add(b"\x01" + bytes([0, 1, 2, 0, 1, 2, 0, 3]))
    assert not aggregator.counts.any()
    assert aggregator.add(b"\x01" + bytes([0, 1, 2, 0, 1, 2, 0])) == 7
    assert aggregator.counts.tolist() == [3, 2, 2]


def test_integers_are_counted() -> None:
    aggregator = Aggregator(ResponseProtocol(categories=5, epsilon="1"))
    assert aggregator.add(np.array([0, 1, 1, 4], dtype=np.uint8)) == 4
    assert aggregator.counts.tolist() == [1, 2, 0, 0, 1]
    for wrong in ([5], [-1]):
        with pytest.raises(InputError, match="from 0 to 4"):
            aggregator.add(np.array(wrong))
    with pytest.raises(InputError, match="whole numbers"):
        Aggregator(UnaryEncoding(categories=5, epsilon="1")).add(np.array([1, 2]))


def test_other_protocols_do_not_merge() -> None:
    with pytest.raises(InputError, match="another protocol"):
        Aggregator(ResponseProtocol(categories=5, epsilon="1")).merge(
            Aggregator(ResponseProtocol(categories=5, epsilon="2"))
        )


@pytest.mark.parametrize("cut", [0, 5, 30, -1, -8])
def test_a_damaged_copy_is_refused(cut: int) -> None:
    aggregator = Aggregator(ResponseProtocol(categories=3, epsilon="1"))
    aggregator.add(np.array([0, 1, 2]))
    raw = aggregator.to_bytes()
    with pytest.raises(InputError, match="cut off"):
        Aggregator.from_bytes(raw[:cut])


@pytest.mark.parametrize("n", [2, 4, 10**9, 0, -1, 3.5, "3", None])
def test_a_number_of_reports_that_the_sums_cannot_have_is_refused(n: object) -> None:
    """Estimates divide by it."""
    for protocol, reports in (
        (ResponseProtocol(categories=3, epsilon="1"), b"\x01\x00\x01\x02"),
        (UnaryEncoding(categories=3, epsilon="1"), b"\x01\x07\x07\x01"),
    ):
        aggregator = Aggregator(protocol)
        aggregator.add(reports)
        raw = aggregator.to_bytes()
        assert Aggregator.from_bytes(raw).n == 3
        wrong = raw.replace(b'"n": 3', f'"n": {json.dumps(n)}'.encode())
        # A person may answer no bit of an encoding, so more reports than ones are possible there.
        if isinstance(protocol, UnaryEncoding) and n in (4, 10**9):
            continue
        with pytest.raises(InputError):
            Aggregator.from_bytes(wrong)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"version": 2, "report": ""}', '{"version": 1, "report": "?"}', "{"])
def test_what_is_no_report_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        Report.from_json(text)


def test_confidence_has_limits() -> None:
    aggregator = Aggregator(ResponseProtocol(categories=3, epsilon="1"))
    aggregator.add(np.array([0]))
    for wrong in ("0.4", "0", "1", "2"):
        with pytest.raises(InputError, match="must"):
            aggregator.estimate(confidence=wrong)


def test_a_client_needs_no_heavy_library() -> None:
    program = (
        "import sys; from tacit import RandomizedResponse; from tacit.local import Client; "
        "Client(RandomizedResponse(categories=3, epsilon='1')).report(1); "
        "print([name for name in ('scipy', 'altair', 'pyarrow', 'duckdb', 'pydantic') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("rows", [0, 1, 254, 255, 256, 600])
def test_column_sums_do_not_overflow(rows: int) -> None:
    bits = np.ones((rows, 3), dtype=np.uint8)
    bits[::2, 1] = 0
    assert column_sums(bits).tolist() == [rows, rows // 2, rows]
