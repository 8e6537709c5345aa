"""The ledger against a model of a few dictionaries, against the filters in memory, and store against store."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    rule,
    run_state_machine_as_test,
)

from support.ledgers import Place, asking
from tacit.accounting.filters import ApproxFilter, Filter, GDPFilter, PureFilter, RenyiFilter, ZCDPFilter
from tacit.core.errors import AccessError, BudgetError
from tacit.core.guarantees import GDP, ZCDP, ApproxDP, PureDP
from tacit.ledger import ConflictError, Ledger, Order, Outcome, Reservation
from tacit.ledger.errors import StorageError
from tacit.ledger.memory import MemoryStore
from tacit.ledger.protocol import BalanceChange, BalanceKey, Cap, Name, Step

ANALYSTS = st.sampled_from(["", "alice", "bob"])
PROJECTS = st.sampled_from(["", "study"])
KEYS = st.sampled_from(["", "k", "l"])
PRICES = st.sampled_from(["0.05", "1/7", "0.3"])


class LedgerMachine(RuleBasedStateMachine):
    """Everything a client or an operator can do, in any order, with restarts in between."""

    held = Bundle("held")

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place
        self.ledger = place.open()
        self.ledger.ensure_account("patients", PureFilter(epsilon=1))
        self.cap = Fraction(1)
        self.spent: dict[str, Fraction] = {"": Fraction(0)}
        self.quotas: dict[str, Fraction] = {}
        self.revoked: set[str] = set()
        self.requests: dict[tuple[str, str], tuple[str, int]] = {}
        self.repeats: dict[str, int] = {}
        self.outcomes: dict[int, bytes] = {}

    def owners(self, analyst: str) -> list[str]:
        return ["", *([f"analyst:{analyst}"] if analyst else [])]

    def fits(self, owner: str, price: Fraction) -> bool:
        cap = self.cap if owner == "" else self.quotas.get(owner)
        return cap is None or self.spent.get(owner, Fraction(0)) + price <= cap

    @rule(target=held, price=PRICES, analyst=ANALYSTS, project=PROJECTS, key=KEYS, release=KEYS)
    def reserve(self, price: str, analyst: str, project: str, key: str, release: str) -> Reservation | None:
        # A release has one price.
        price = {"k": "1/7", "l": "0.3"}.get(release, price)
        request = f"{price} {project} {release}"
        order = asking(
            price, analyst=analyst, project=project, idempotency_key=key, repeat_key=release, request=request
        )
        known = self.requests.get((analyst, key)) if key else None
        if analyst in self.revoked:
            with pytest.raises(AccessError):
                self.ledger.reserve(order)
            return None
        if known is not None and known[0] != request:
            with pytest.raises(ConflictError):
                self.ledger.reserve(order)
            return None
        seq = known[1] if known is not None else self.repeats.get(release) if release else None
        owners = self.owners(analyst)
        if seq is None and not all(self.fits(owner, Fraction(price)) for owner in owners):
            with pytest.raises(BudgetError):
                self.ledger.reserve(order)
            return None
        result = self.ledger.reserve(order)
        if seq is None:
            assert isinstance(result, Reservation)
            assert not result.resumed
            seq = result.seq
            for owner in owners:
                self.spent[owner] = self.spent.get(owner, Fraction(0)) + Fraction(price)
            if release:
                self.repeats[release] = seq
        if key:
            self.requests.setdefault((analyst, key), (request, seq))
        if seq in self.outcomes:
            assert isinstance(result, Outcome)
            assert (result.result, result.reservation.seq, result.repeated) == (self.outcomes[seq], seq, True)
            return None
        assert isinstance(result, Reservation)
        assert result.seq == seq
        return result

    @rule(reservation=consumes(held), result=st.binary(max_size=4))
    def commit(self, reservation: Reservation | None, result: bytes) -> None:
        if reservation is not None:
            outcome = self.ledger.commit(reservation, result)
            assert outcome.repeated == (reservation.seq in self.outcomes)
            assert outcome.result == self.outcomes.setdefault(reservation.seq, result)

    @rule(owner=st.sampled_from(["analyst:alice", "analyst:bob"]), cap=st.sampled_from([None, "0.2", "0.5"]))
    def quota(self, owner: str, cap: str | None) -> None:
        kind, name = owner.split(":")
        self.ledger.set_quota("patients", None if cap is None else {"epsilon": cap}, **{kind: name})
        self.quotas.pop(owner, None)
        if cap is not None:
            self.quotas[owner] = Fraction(cap)

    @rule(cap=st.sampled_from(["0.5", "1", "1.5"]))
    def change_caps(self, cap: str) -> None:
        self.ledger.change_caps("patients", PureFilter(epsilon=cap), reason="r", operator="o")
        self.cap = Fraction(cap)

    @rule(name=st.sampled_from(["alice", "bob"]), active=st.booleans())
    def revoke(self, name: str, active: bool) -> None:
        if active:
            self.ledger.add_analyst(name)
            self.revoked.discard(name)
        else:
            self.ledger.revoke_analyst(name)
            self.revoked.add(name)

    @rule()
    def restart(self) -> None:
        self.ledger.close()
        self.ledger = self.place.open()

    @invariant()
    def sums_agree(self) -> None:
        budget = self.ledger.budget("patients", analyst="alice")
        owners = ("", "analyst:alice")
        assert [b.lines[0].spent for b in budget.balances] == [self.spent.get(owner, 0) for owner in owners]
        assert [b.limited for b in budget.balances] == [True, *(owner in self.quotas for owner in owners[1:])]

    def teardown(self) -> None:
        report = self.ledger.verify()
        assert report.ok, report.problems
        assert report.outcomes == len(self.outcomes)
        self.ledger.close()


@pytest.mark.parametrize("places", ["sqlite", pytest.param("postgres", marks=pytest.mark.deep)], indirect=True)
def test_the_ledger_does_what_the_model_does(places: Callable[[], Place]) -> None:
    run_state_machine_as_test(
        lambda: LedgerMachine(places()),
        settings=settings(
            max_examples=40,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=[*HealthCheck],
            derandomize=True,
        ),
    )


RULES: list[tuple[Callable[[], Filter], st.SearchStrategy[Any]]] = [
    (lambda: PureFilter(epsilon=1), st.builds(PureDP, st.fractions(0, 1, max_denominator=32))),
    (
        lambda: ApproxFilter(epsilon=1, delta="1e-6"),
        st.builds(ApproxDP, st.fractions(0, 1, max_denominator=32), st.sampled_from(["1e-8", "3e-7", "0"])),
    ),
    (
        lambda: ZCDPFilter(rho="0.3", delta="1e-6"),
        st.one_of(
            st.builds(PureDP, st.fractions(0, 1, max_denominator=32)),
            st.builds(
                lambda rho, delta: ZCDP(rho, delta=delta), st.fractions(0, 1, max_denominator=32), st.just("1e-7")
            ),
            st.builds(GDP, st.fractions(0, 1, max_denominator=32)),
        ),
    ),
    (lambda: GDPFilter(mu=1), st.builds(GDP, st.fractions(0, 1, max_denominator=32))),
    (lambda: RenyiFilter(alpha=4, epsilon=1), st.builds(PureDP, st.fractions(0, 1, max_denominator=32))),
]


@pytest.mark.parametrize("which", range(len(RULES)))
@settings(max_examples=30, deadline=None, derandomize=True)
@given(data=st.data())
def test_the_ledger_admits_what_the_filter_admits(which: int, data: st.DataObject) -> None:
    """Prices that are whole grains: the ledger's integers and the filter's rationals agree on every charge."""
    make, charges = RULES[which]
    limit = make()
    with Ledger.open(":memory:") as ledger:
        ledger.ensure_account("patients", make())
        for charge in data.draw(st.lists(charges, max_size=20)):
            assert ledger.budget("patients", charge=charge).queries == limit.how_many(charge)
            admitted = limit.allows(charge)
            try:
                ledger.reserve(Order("patients", charge))
                assert admitted
                limit.charge(charge)
            except BudgetError:
                assert not admitted
            assert ledger.budget("patients").lines == limit.lines
        assert ledger.verify().ok


@settings(max_examples=50, deadline=None, derandomize=True)
@given(prices=st.lists(st.fractions("1/1000", 1), max_size=12))
def test_the_ledger_never_admits_more_than_the_filter(prices: list[Fraction]) -> None:
    """Prices that are rounded: always up, by less than a grain each."""
    limit = PureFilter(epsilon=1)
    with Ledger.open(":memory:") as ledger:
        ledger.ensure_account("patients", PureFilter(epsilon=1))
        for price in prices:
            try:
                ledger.reserve(Order("patients", PureDP(price)))
                limit.charge(PureDP(price))
            except BudgetError:
                assert limit.lines[0].left < price + Fraction(1, 10**50)
        (line,) = ledger.budget("patients").lines
        assert limit.lines[0].spent <= line.spent <= line.cap


KEYED = st.builds(Name, st.sampled_from(["a", "b"]), st.sampled_from(["x", "Y", "é"]))
NAMES = st.lists(KEYED, max_size=2, unique=True)
POCKETS = st.builds(BalanceKey, st.sampled_from(["p", "q"]), st.sampled_from(["", "o"]), st.just("epsilon"))
BIG = 10**70


@st.composite
def steps(draw: st.DrawFn) -> Step:
    """Any step at all, of which the ledger writes only sensible ones."""
    pockets = draw(st.lists(POCKETS, max_size=3, unique=True))
    split = draw(st.integers(0, len(pockets)))
    amounts = st.sampled_from([1, 3 * BIG, 7 * BIG])
    return Step(
        draw(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20)),
        moves=[BalanceChange(pocket, draw(amounts), draw(st.booleans())) for pocket in pockets[:split]],
        caps=[Cap(pocket, draw(st.sampled_from([None, 0, 8 * BIG, 20 * BIG]))) for pocket in pockets[split:]],
        claims=draw(NAMES),
        bars=draw(NAMES),
        puts=draw(NAMES),
        drops=draw(NAMES),
        attachments=draw(st.dictionaries(st.sampled_from(["result", "receipt"]), st.binary(max_size=5))),
    )


def carried_out(store: Any, step: Step) -> object:
    try:
        return store.append(step)
    except StorageError:
        return "an unknown pocket"


def contents(store: Any) -> tuple[object, ...]:
    return (
        store.head(),
        [*store.entries()],
        [*store.entries_down(before=3)],
        store.balances(),
        store.balances("p", ["", "o"]),
        [*store.names()],
        [*store.names("a")],
        [store.attachment(seq, "result") for seq in range(4)],
        store.find(Name("a", "Y")),
        store.entry(2),
        store.entry(0),
    )


@pytest.mark.parametrize("places", ["sqlite", pytest.param("postgres", marks=pytest.mark.deep)], indirect=True)
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(story=st.lists(steps(), max_size=12))
def test_the_database_carries_out_steps_like_the_plain_store(places: Callable[[], Place], story: list[Step]) -> None:
    plain, real = MemoryStore(), places().store()
    try:
        for step in story:
            if not set(step.drops) & {*step.claims, *step.puts}:
                assert carried_out(real, step) == carried_out(plain, step)
        assert contents(real) == contents(plain)
        with real.snapshot() as snapshot, plain.snapshot() as copied:
            carried_out(real, Step("later"))
            carried_out(plain, Step("later"))
            assert contents(snapshot) == contents(copied)
            assert contents(snapshot) != contents(real)
    finally:
        real.close()


def test_long_listings_come_in_chunks(place: Place) -> None:
    store = place.store()
    for number in range(1200):
        store.append(Step(f"{number}", claims=[Name("n", f"{number:05}")]))
    assert [entry.seq for entry in store.entries(after=1)] == [*range(2, 1201)]
    assert [entry.seq for entry in store.entries_down()] == [*range(1200, 0, -1)]
    assert [int(name.key) for name, _ in store.names("n")] == [*range(1200)]
    store.close()
