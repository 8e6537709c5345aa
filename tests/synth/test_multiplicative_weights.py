"""Multiplicative weights: every integer moves by no more than it is paid for, errors keep their bounds."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from synth.small_tables import open_people, people
from tacit.core.errors import BudgetError, InputError, QueryError
from tacit.core.relations import ADD_REMOVE, REPLACE_ONE, Relation
from tacit.mechanisms.exponential import Exponential
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.sparse_vector import SparseVector
from tacit.synth import multiplicative_weights
from tacit.synth.multiplicative_weights import MultiplicativeWeights, PublicWeights, QueryStream

QUERIES = np.random.default_rng(3).integers(0, 2, (60, 12))
COUNTS = np.array([900, 5, 0, 300, 40, 2, 0, 0, 700, 1, 60, 8])


def made(rounds: int = 12, relation: Relation = ADD_REMOVE, epsilon: str = "4") -> MultiplicativeWeights:
    total = None if relation is ADD_REMOVE else int(COUNTS.sum())
    return MultiplicativeWeights(epsilon=epsilon, queries=QUERIES, rounds=rounds, total=total, relation=relation)


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE])
def test_errors_keep_their_bound_and_most_are_far_below(relation: Relation) -> None:
    mechanism = made(relation=relation)
    bound = mechanism.error("0.01", int(COUNTS.sum()))
    for _ in range(20):
        found = mechanism.release(COUNTS)
        assert np.abs(found.answers - QUERIES @ COUNTS).max() <= bound
        apart = np.abs(QUERIES @ found.last - QUERIES @ COUNTS)
        assert found.histogram.sum() == pytest.approx(found.total)
    # It has learnt something: the histogram with all cells alike is further off.
    alike = np.abs(QUERIES.sum(axis=1) * COUNTS.sum() / 12 - QUERIES @ COUNTS)
    assert apart.max() < alike.max() / 2


def neighbours(relation: Relation) -> list[np.ndarray]:
    """All tables that differ by one unit."""
    found = []
    for cell in range(12):
        more = COUNTS.copy()
        more[cell] += 1
        if relation is ADD_REMOVE:
            found.append(more)
        else:
            for other in np.flatnonzero(COUNTS):
                less = more.copy()
                less[other] -= 1
                found.append(less)
    return found


class Recorded:
    """Inputs of every mechanism; outputs are those of the first run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.first = True
        for kind, name in ((Exponential, "release"), (Laplace, "release"), (SparseVector, "ask")):
            monkeypatch.setattr(kind, name, self._through(getattr(kind, name)))

    def _through(self, real: Any) -> Any:
        def passed(mechanism: Any, raw: Any) -> Any:
            self.inputs.append((mechanism, raw))
            if self.first:
                self.outputs.append(real(mechanism, raw))
            return self.outputs[len(self.inputs) - 1]

        return passed

    def again(self) -> list[Any]:
        """Inputs recorded since the last call."""
        found, self.inputs, self.first = self.inputs, [], False
        return found


def moved(mechanism: Any, left: Any, right: Any) -> Fraction:
    """Distance that an input moved, in parts of the sensitivity that is paid for."""
    apart = np.abs(np.atleast_1d(np.array(left)) - np.atleast_1d(np.array(right))).max()
    allowed = mechanism._sensitivity if isinstance(mechanism, SparseVector) else None
    if allowed is None:
        allowed = mechanism.sensitivity if isinstance(mechanism, Exponential) else 1
    return Fraction(int(apart)) / Fraction(allowed)


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE])
def test_neighbours_move_every_input_within_its_sensitivity(
    monkeypatch: pytest.MonkeyPatch, relation: Relation
) -> None:
    replay = Recorded(monkeypatch)
    mechanism = made(relation=relation)
    mechanism.release(COUNTS)
    first = replay.again()
    prices = sum(1 / Fraction(m.scale) if isinstance(m, Laplace) else m.epsilon for m, _ in first)
    assert prices <= mechanism.guarantee.epsilon
    worst = Fraction(0)
    for other in neighbours(relation):
        mechanism.release(other)
        second = replay.again()
        assert len(first) == len(second)
        worst = max([worst, *(moved(m, a, b) for (m, a), (_, b) in zip(first, second, strict=True))])
    assert worst == 1


@pytest.mark.usefixtures("seeded")
def test_a_stream_pays_for_hard_queries_alone() -> None:
    weights = PublicWeights(12, int(COUNTS.sum()))
    hard = 0
    for _ in range(40):
        part = QueryStream(epsilon=4, counts=COUNTS, weights=weights, threshold=200)
        bound = part.error("0.001", 600)
        for query in np.tile(QUERIES, (10, 1)):
            found = part.ask(query)
            assert abs(found.answer - int(query @ COUNTS)) <= bound
            if found.hard:
                break
        hard += part.ended
        if not part.ended:
            break
    # Six hundred queries, and a dozen or two of them were hard.
    assert 1 <= hard < 35
    part = QueryStream(epsilon=4, counts=COUNTS, weights=PublicWeights(12, 2000), threshold=1)
    while not part.ended:
        part.ask(QUERIES[0])
    with pytest.raises(BudgetError):
        part.ask(QUERIES[0])


@pytest.mark.usefixtures("seeded")
def test_neighbours_move_a_stream_within_its_sensitivity(monkeypatch: pytest.MonkeyPatch) -> None:
    replay = Recorded(monkeypatch)

    def run(counts: np.ndarray) -> list[Any]:
        part = QueryStream(epsilon=1, counts=counts, weights=PublicWeights(12, 2000), threshold=300)
        for query in QUERIES:
            if part.ask(query).hard or replay.outputs[len(replay.inputs) - 1] is True:
                break
        return replay.again()

    first = run(COUNTS)
    for other in neighbours(ADD_REMOVE):
        for (mechanism, left), (_, right) in zip(first, run(other), strict=True):
            assert moved(mechanism, left, right) <= 1


def test_what_makes_no_sense_is_refused() -> None:
    good: dict[str, Any] = {"epsilon": 1, "queries": [[0, 1], [1, 1]], "rounds": 2}
    for wrong in (
        {"queries": [[0, 2]]}, {"queries": [[0, 1], [1]]}, {"queries": []}, {"queries": [[0.5, 1.0]]}, {"rounds": 0},
        {"epsilon": 0}, {"total": 5}, {"relation": REPLACE_ONE},
    ):  # fmt: skip
        with pytest.raises(InputError):
            MultiplicativeWeights(**(good | wrong))
    with pytest.raises(InputError):
        MultiplicativeWeights(**good).release([1, 2, 3])
    best = MultiplicativeWeights.for_people(epsilon=1, queries=QUERIES, people=100_000)
    assert best.rounds > MultiplicativeWeights.for_people(epsilon="0.01", queries=QUERIES, people=100_000).rounds


@pytest.mark.usefixtures("seeded")
def test_a_session_of_the_curator_charges_for_each_part() -> None:
    curator = open_people(people(3000))
    session = curator.query_session("people", ["sex", "ward"], epsilon="0.5", threshold=150)
    assert len(curator.history()) == 1
    rows = people(3000).to_pylist()
    for sex in ("f", "m"):
        for wards in (["a"], ["b", "c"], ["a", "c"]):
            exact = sum(row["sex"] == sex and row["ward"] in wards for row in rows)
            found = session.ask({"sex": sex, "ward": wards})
            assert abs(found.answer - exact) <= session.error("0.0001", 6)
    assert len(curator.history()) == len(session.charges)
    assert session.hard < len(session.charges) <= session.hard + 2
    assert session.histogram().num_rows == 6
    before = len(curator.history())
    for wrong in ({"sex": "x"}, {"z": 1}, "sex"):
        with pytest.raises(InputError):
            session.ask(wrong)  # type: ignore[arg-type]
    for arguments in (("people", ["person"]), ("people", []), ("nothing", ["sex"]), ("people", "sex")):
        with pytest.raises((InputError, QueryError)):
            curator.query_session(*arguments, epsilon="0.5", threshold=150)
    assert len(curator.history()) == before


@pytest.mark.usefixtures("seeded")
def test_neighbours_move_a_session_within_what_it_pays_for(monkeypatch: pytest.MonkeyPatch) -> None:
    replay = Recorded(monkeypatch)

    def run(table: Any) -> tuple[list[Any], list[Any]]:
        curator = open_people(table)
        session = curator.query_session("people", ["sex", "ward"], epsilon="0.5", threshold=20)
        for wards in (["a"], ["b", "c"], ["a", "c"], ["b"]):
            session.ask({"sex": "f", "ward": wards})
        again = curator.resume_query_session(session.position)
        assert again.histogram().equals(session.histogram())
        again.ask({"sex": "m"})
        again.close()
        return replay.again(), [entry.amounts for entry in curator.history()]

    table = people(300)
    first, charged = run(table)
    worst = Fraction(0)
    for gone in range(6):
        rest = table.slice(0, gone).to_pylist() + table.slice(gone + 1).to_pylist()
        second, paid = run(type(table).from_pylist(rest, schema=table.schema))
        assert paid == charged
        worst = max([worst, *(moved(m, a, b) for (m, a), (_, b) in zip(first, second, strict=True))])
    assert worst == 1


def test_many_answers_of_many_cells_are_read_in_bounded_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that is gone on with reads all of its hard answers: one by one where they are few, else in one go."""
    queries = [np.array([int(cell % (2 + at) == 0) for cell in range(40)]) for at in range(12)]
    answers = [(query, 3 * at * at) for at, query in enumerate(queries)]
    one_by_one, together = PublicWeights(40, 1_000), PublicWeights(40, 1_000)
    for query, noisy in answers:
        one_by_one.move(query, noisy, 1.0)
    together.move_all(answers, 1.0)
    assert (one_by_one.histogram == together.histogram).all()
    looks = [0]

    class Counting(PublicWeights):
        @property
        def histogram(self) -> np.ndarray:
            looks[0] += 1
            return super().histogram

    Counting(40, 1_000).move_all(answers, 1e-9)
    assert looks[0] > 12 * 30
    looks[0] = 0
    monkeypatch.setattr(multiplicative_weights, "_MOST_READ", 2 * 12 * 40)
    Counting(40, 1_000).move_all(answers, 1e-9)
    # One look for each answer, then two times again towards all of them.
    assert looks[0] <= 12 + 2 * (12 + 1)
