"""Exact laws of the running clients: every decision walked through, the largest log-ratio equals the claimed ε."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tacit.core.errors import InputError
from tacit.core.numbers import log_bounds
from tacit.local import (
    Aggregator,
    Client,
    HadamardResponse,
    LocalHashing,
    LocalMean,
    LocalProtocol,
    ResponseProtocol,
    UnaryEncoding,
    largest_ratio,
    output_law,
    protocol_from,
    shuffled_delta,
)
from tacit.local.frequency import FrequencyProtocol, SupportProtocol
from tacit.local.protocol import Draws
from tacit.mechanisms.randomized_response import RandomizedResponse
from tacit.noise.bernoulli import Coin

MAKERS: dict[str, Callable[..., FrequencyProtocol]] = {
    "randomized response": ResponseProtocol,
    "optimised": UnaryEncoding,
    "symmetric": lambda **words: UnaryEncoding(**words, optimised=False),
    "hashing": LocalHashing,
    "hashing to 2": lambda **words: LocalHashing(**words, buckets=2),
    "hashing to 3": lambda **words: LocalHashing(**words, buckets=3),
    "hadamard": HadamardResponse,
    "hadamard, 2 blocks": lambda **words: HadamardResponse(**words, blocks=2),
    "hadamard, 4 blocks": lambda **words: HadamardResponse(**words, blocks=4),
}


def laws_of(protocol: LocalProtocol, values: Any) -> list[dict[bytes, Fraction]]:
    return [output_law(lambda draws, value=value: protocol.randomise(value, draws)) for value in values]


def loss_of(laws: list[dict[bytes, Fraction]]) -> Fraction:
    """The largest log-ratio, from above."""
    return log_bounds(largest_ratio(laws))[1]


@pytest.mark.parametrize("epsilon", ["0.01", "1", "4", "20"])
@pytest.mark.parametrize(("name", "k"), [(name, k) for name in MAKERS for k in (2, 5)])
def test_the_largest_log_ratio_is_the_claimed_epsilon(name: str, k: int, epsilon: str) -> None:
    protocol = MAKERS[name](categories=k, epsilon=epsilon)
    laws = laws_of(protocol, range(k))
    assert all(sum(law.values()) == 1 for law in laws)
    loss = loss_of(laws)
    assert 0 <= protocol.epsilon - loss <= Fraction(1, 10**12) * protocol.epsilon
    assert protocol.guarantee.epsilon == protocol.epsilon


@pytest.mark.parametrize("name", MAKERS)
def test_estimates_are_unbiased_and_support_has_the_stated_probabilities(name: str) -> None:
    """The expectation of the estimate from one report, over its exact law, is 1 for its sender's category, else 0."""
    k = 5
    protocol = MAKERS[name](categories=k, epsilon="1.5")
    for value, law in enumerate(laws_of(protocol, range(k))):
        expected, reported = np.zeros(k), np.zeros(k)
        second = np.zeros(k)
        for output, chance in law.items():
            aggregator = Aggregator(protocol)
            aggregator.add(b"\x01" + output)
            found = aggregator.estimate()
            expected += float(chance) * found.frequencies
            second += float(chance) * found.frequencies**2
            reported += float(chance) * found.reported
        wanted = np.eye(k)[value]
        assert np.allclose(expected, wanted, atol=1e-11)
        variances = second - wanted
        assert variances[value] == pytest.approx(protocol.variance(1), rel=1e-9)
        if isinstance(protocol, SupportProtocol):
            others = np.delete(np.arange(k), value)
            assert np.allclose(variances[others], protocol.variance(0), rtol=1e-9)
            assert reported[value] == pytest.approx(float(protocol.truth), abs=1e-12)
            assert np.allclose(reported[others], float(protocol.noise), atol=1e-12)


@pytest.mark.parametrize("k", [2, 3, 9, 30])
@pytest.mark.parametrize("buckets", [2, 3, 5])
def test_decoding_of_local_hashing_is_the_plain_count(buckets: int, k: int) -> None:
    protocol = LocalHashing(categories=k, epsilon="1", buckets=buckets)
    generator = np.random.default_rng(7)
    counts = generator.integers(0, 1000, size=protocol.size)
    counts[:buckets] = 0
    plain = np.zeros(k, dtype=np.int64)
    for function in range(1, protocol.functions):
        for place in range(k):
            a, x, bucket = function, place, 0
            while x:
                bucket += (a % buckets) * (x % buckets)
                a, x = a // buckets, x // buckets
            plain[place] += counts[function * buckets + bucket % buckets]
    assert (protocol.support(counts) == plain).all()


@pytest.mark.parametrize("epsilon", ["0.05", "1", "3"])
@pytest.mark.parametrize("method", ["rounding", "piecewise", "hybrid"])
def test_laws_of_means(monkeypatch: pytest.MonkeyPatch, method: str, epsilon: str) -> None:
    """Every grid point and some values between; the grid is made coarse so that all decisions can be walked."""
    monkeypatch.setattr("tacit.local.mean._STEPS", 12)
    protocol = LocalMean(bounds=(-1, 3), epsilon=epsilon, method=method)
    values = [-1, Fraction(-1, 2), 0, Fraction(1, 7), 1.5, 3]
    laws = laws_of(protocol, values)
    assert all(sum(law.values()) == 1 for law in laws)
    assert 0 <= protocol.epsilon - loss_of(laws) <= Fraction(1, 10**12)
    variances = []
    for value, law in zip(values, laws, strict=True):
        found = [float(protocol._values[int.from_bytes(each, "little")]) for each in law]
        chances = [float(each) for each in law.values()]
        assert np.dot(found, chances) == pytest.approx(float(value), abs=1e-12)
        variances.append(np.dot(np.square(found), chances) - float(value) ** 2)
    assert max(variances) <= protocol.variance() * (1 + 1e-9) + (4 / 12) ** 2 / 4


@pytest.mark.parametrize(
    ("value", "same_as"),
    [
        (float("nan"), 1),
        (float("inf"), 3),
        (float("-inf"), -1),
        ("text", 1),
        ("1e999999999", 1),
        (None, 1),
        (10**400, 3),
        ([], 1),
        (np.int64(2), 2),
        (np.float32(0.5), Fraction(1, 2)),
        (Decimal("0.25"), Fraction(1, 4)),
        (Decimal("1e999999"), 3),
        (Decimal("-1e999999"), -1),
        (Decimal("1e-999999"), 0),
        (Decimal("nan"), 1),
        (Decimal("-inf"), -1),
        (Decimal(0), 0),
    ],
)
def test_values_that_are_no_number_in_the_bounds_are_mapped(value: object, same_as: int) -> None:
    protocol = LocalMean(bounds=(-1, 3), epsilon="1", method="rounding")
    assert laws_of(protocol, [value]) == laws_of(protocol, [same_as])


@pytest.mark.parametrize("value", ["no such", None, 17, float("nan"), [], {}, object()])
def test_values_outside_the_domain_count_as_the_stated_category(value: object) -> None:
    last = ResponseProtocol(categories=["a", "b", "other"], epsilon="1")
    assert laws_of(last, [value]) == laws_of(last, ["other"])
    stated = ResponseProtocol(categories=["a", "b", "other"], epsilon="1", otherwise="a")
    assert laws_of(stated, [value]) == laws_of(stated, ["a"])
    assert protocol_from(stated.spec()) == stated != last
    numbered = ResponseProtocol(categories=3, epsilon="1")
    assert laws_of(numbered, [value]) == laws_of(numbered, [2])


@pytest.mark.parametrize("value", [1, 1.0, np.int64(1), np.uint8(1), True])
def test_whole_numbers_of_every_type_are_the_category(value: object) -> None:
    numbered = ResponseProtocol(categories=4, epsilon="1")
    assert numbered.domain.place(value) == 1
    assert [numbered.domain.place(each) for each in (1.5, -1, 4, float("inf"), "1")] == [3] * 5


@pytest.mark.parametrize("name", MAKERS)
def test_a_description_is_read_back(name: str) -> None:
    protocol = MAKERS[name](categories=6, epsilon="1/3")
    assert protocol_from(protocol.spec()) == protocol
    assert protocol.spec()["epsilon"] == "1/3"


@pytest.mark.parametrize(
    ("words", "parameter"),
    [
        ({"categories": 1, "epsilon": 1}, "categories"),
        ({"categories": ["a", "a"], "epsilon": 1}, "categories"),
        ({"categories": "ab", "epsilon": 1}, "categories"),
        ({"categories": [1.5, 2], "epsilon": 1}, "categories"),
        ({"categories": 2, "epsilon": 0}, "epsilon"),
        ({"categories": 2, "epsilon": 21}, "epsilon"),
        ({"categories": ["a", "b"], "epsilon": 1, "otherwise": "c"}, "otherwise"),
    ],
)
def test_refused_parameters(words: dict[str, Any], parameter: str) -> None:
    with pytest.raises(InputError) as refused:
        ResponseProtocol(**words)
    assert refused.value.parameter == parameter


def test_unknown_descriptions_are_refused() -> None:
    with pytest.raises(InputError, match="must be one of randomized-response"):
        protocol_from({"protocol": "plain", "epsilon": "1"})
    with pytest.raises(InputError, match="the parameters of randomized-response"):
        protocol_from({"protocol": "randomized-response", "epsilon": "1", "bounds": 3})


def test_a_client_that_leaks_is_caught() -> None:
    """A wrong split of ε in unary encoding, and an output that one value never gives."""

    class Doubled(UnaryEncoding):
        """Each bit costs ε, not ε/2."""

        def __init__(self) -> None:
            super().__init__(categories=3, epsilon="1", optimised=False)
            truth = ResponseProtocol(categories=2, epsilon="1").truth
            self._coins = Coin(1 - truth), Coin(truth)

    assert float(loss_of(laws_of(Doubled(), range(3)))) == pytest.approx(2, abs=1e-12)

    class Silent(ResponseProtocol):
        def draw(self, value: object, draws: Draws) -> int:
            return 1 if value else super().draw(value, draws)

    with pytest.raises(InputError, match="never gives"):
        largest_ratio(laws_of(Silent(categories=2, epsilon="1"), [0, 1]))


def test_law_of_too_large_a_domain_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.local.protocol._MOST_WALKS", 50)
    with pytest.raises(InputError, match="smaller domain"):
        laws_of(UnaryEncoding(categories=40, epsilon="1"), [0])


@pytest.mark.parametrize(
    "words", [{"gamma": "0.25"}, {"epsilon": "1"}, {"epsilon": "1", "categories": ["a", "b", "c"]}]
)
def test_reports_of_the_mechanism_have_its_own_law(words: dict[str, Any]) -> None:
    """Clients, aggregators and the bound on shuffling take the mechanism; nothing of the law is stated twice."""
    poll = RandomizedResponse(**words)
    client, aggregator = Client(poll), Aggregator(poll)
    assert client.protocol == aggregator.protocol == protocol_from(client.protocol.spec())
    for place, law in enumerate(laws_of(client.protocol, poll.categories)):
        chances = [law[bytes((each,))] for each in range(poll.k)]
        assert chances == [poll.truth if each == place else poll.lie for each in range(poll.k)]
    assert client.protocol.guarantee == poll.guarantee
    reports = poll.release_many([poll.categories[0]] * 200)
    aggregator.add(np.array([poll.categories.index(each) for each in reports]))
    found, direct = (
        aggregator.estimate(),
        RandomizedResponse(**{"categories": 2, **words}).estimate(
            [poll.categories.index(each) for each in reports] if "categories" not in words else reports
        ),
    )
    assert isinstance(direct, dict)
    for place, each in enumerate(direct.values()):
        assert found.frequencies[place] == pytest.approx(each.frequency, abs=1e-12)
    assert shuffled_delta(poll, n=50, epsilon="0.3") == shuffled_delta(client.protocol, n=50, epsilon="0.3")
