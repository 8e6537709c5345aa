"""Replacing the key that signs: receipts before and after, deaths at every step, running processes, clients."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import tacit
from support.clinic import COUNT, open_clinic
from support.crashing import child, received
from support.postgres import postgres_place
from support.tiny_http import TinyServer, response
from tacit.client.account_responses import KeyResponse
from tacit.client.http_client import RemoteError, TrustError
from tacit.core.errors import InputError, InternalError
from tacit.curator.curator import Curator
from tacit.curator.opening import open_ledger
from tacit.ledger import ConflictError, Ledger, Outcome, Succession, VerificationReport
from tacit.ledger.signing_keys import SigningKeys, key_id, succession_text
from tacit.releases.keys import Keys, keys_in_force, make_keys, open_keys, rotate_key, waiting_place
from tacit.releases.receipt import Receipt, outcome_problem, signed_text, verify_receipt

ALL = "SELECT COUNT(*) AS n FROM visits"


@pytest.fixture
def place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the clinic keeps its ledger."""
    monkeypatch.setenv("TACIT_STATE", str(folder / "state"))
    return folder / "clinic" / "a.ledger"


def key_file(place: Path) -> Path:
    return place.with_name(f"{place.name}.key")


def rotated(place: Path, **options: Any) -> Succession:
    """Work of an operator in a process of their own."""
    with Ledger.open(place, create=False) as ledger:
        return rotate_key(ledger, key_file(place), **{"reason": "a test", "operator": "olga", **options})


def checked(ledger: Ledger) -> VerificationReport:
    def problem(outcome: Outcome) -> str | None:
        return outcome_problem(outcome, ledger=ledger.id, public_key=outcome.key)

    return ledger.verify(check_outcome=problem)


def spent(curator: Curator) -> Fraction:
    (amount,) = curator.budget().spent
    return amount.amount


# Before and after -----------------------------------------------------------------------------------------------------


def test_receipts_before_and_after_hold_and_the_same_groups_count(place: Path) -> None:
    curator, engine = open_clinic(place)
    secrets: list[bytes] = []
    measure = engine.measure
    engine.measure = lambda work: secrets.append(work.key_secret) or measure(work)  # type: ignore[method-assign, func-returns-value]
    before = curator.sql(COUNT, epsilon="0.5")
    old, veiled = curator.public_key, curator.context.keys.veil("x")
    done = rotated(place)
    after = curator.sql(ALL, epsilon="0.5")
    new = curator.public_key
    assert (done.previous, done.public_key) == (old, new)
    assert old != new
    assert secrets[0] == secrets[1]
    assert curator.context.keys.veil("x") == veiled
    # Offline, with the key of its time and with no other.
    assert verify_receipt(before.receipt, old).ok
    assert verify_receipt(after.receipt, new).ok
    assert not verify_receipt(before.receipt, new).ok
    assert not verify_receipt(after.receipt, old).ok
    # Here, each with the key that was in force.
    assert curator.check_receipt(before.receipt).ok
    assert curator.check_receipt(after.receipt).ok
    assert checked(curator.ledger).ok
    curator.close()
    assert [path.name for path in sorted(place.parent.iterdir()) if ".key" in path.name] == [key_file(place).name]
    curator, _ = open_clinic(place)
    with curator:
        assert curator.public_key == new
        again = curator.sql(COUNT, epsilon="0.5")
        assert (again.charge.repeated, again.receipt) == (True, before.receipt)


def test_what_a_stolen_old_key_signs_does_not_hold_for_any_entry(place: Path) -> None:
    curator, _ = open_clinic(place)
    with curator:
        thief = open_keys(key_file(place))
        early = curator.sql(COUNT, epsilon="0.5").receipt
        rotated(place)
        later = curator.sql(ALL, epsilon="0.5").receipt
        (answer,) = early["answers"]
        lies = [
            {**early.statement, "project": "x"},
            {**early.statement, "answers": [{**answer, "released": "0" * 64}]},
            {**early.statement, "answers": [{**answer, "query": ALL}]},
            {**early.statement, "answers": [{**answer, "query": ALL, "plan": later["answers"][0]["plan"]}]},
            {**early.statement, "answers": [answer, answer]},
            {**early.statement, "population": "others"},
            {**later.statement, "key": key_id(thief.public_key)},
        ]
        for said in lies:
            assert not curator.check_receipt(Receipt(said, thief.sign(signed_text(said)))).ok, said
        assert curator.check_receipt(early).ok
        # A holder of the new key may say the same about an older release: so does the curator to later askers.
        keys = open_keys(key_file(place))
        said = {**early.statement, "key": key_id(keys.public_key)}
        assert curator.check_receipt(Receipt(said, keys.sign(signed_text(said)))).ok


def test_every_kind_of_release_goes_on_with_the_new_key(place: Path, tmp_path: Path) -> None:
    curator, _ = open_clinic(place)
    with curator:
        rotated(place)
        made = curator.release(tacit.Laplace(epsilon="0.5", l1_sensitivity=1), 9, label="nine")
        assert made.receipt["key"] == key_id(curator.ledger.public_key)
        rotated(place)
        plan = tmp_path / "plan.toml"
        plan.write_text(
            f'[release]\nname = "r"\nepsilon = "0.5"\noutput = "out"\n[statistics.a]\nsql = "{COUNT}"\n', "utf-8"
        )

        done = curator.publish(plan, output=tmp_path / "out")
        assert done.receipt["key"] == key_id(curator.ledger.public_key)
        # Written again after another rotation, the files still fit together.
        rotated(place)
        curator.publish(plan, output=tmp_path / "out")
        public = (tmp_path / "out" / "public-key.txt").read_text()
        assert verify_receipt((tmp_path / "out" / "receipt.json").read_text(), public).ok
        assert checked(curator.ledger).ok


def test_who_asks_again_in_other_words_gets_a_receipt_of_the_key_in_force(place: Path) -> None:
    curator, _ = open_clinic(place)
    with curator:
        curator.sql(COUNT, epsilon="0.5")
        done = rotated(place)
        again = curator.sql(COUNT.replace(" AS n", " AS  n"), epsilon="0.5")
        assert again.charge.repeated
        assert curator.check_receipt(again.receipt).ok
        if again.receipt["answers"][0]["query"] != COUNT:
            assert again.receipt["key"] == key_id(done.public_key)


# Deaths ---------------------------------------------------------------------------------------------------------------


def dying(place: Path, last: int, **options: Any) -> Callable[[int], None]:
    """A rotation that dies before step number ``last`` of what it does to files and to the ledger."""

    def work(_: int) -> None:
        steps = 0

        def mortal(real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **words: Any) -> Any:
                nonlocal steps
                steps += 1
                if steps == last:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*arguments, **words)

            return call

        with Ledger.open(place, create=False) as ledger:
            for name in ("open", "fsync", "fdatasync", "link", "unlink", "replace"):
                setattr(os, name, mortal(getattr(os, name)))
            store: Any = ledger.journal.store
            store.append = mortal(store.append)
            rotate_key(ledger, key_file(place), reason="a test", operator="olga", **options)

    return work


def deaths(place: Path, between: Callable[[], None], **options: Any) -> int:
    """Die before every step in turn, until a rotation gets through; ``between`` looks at what is left."""
    count = 0
    while True:
        _, code = received(*child(dying(place, count + 1, **options)))
        if code == 0:
            return count
        assert code == -signal.SIGKILL
        count += 1
        between()


def test_killed_at_every_step_leaves_a_curator_that_signs_with_a_key_of_the_chain(place: Path) -> None:
    curator, _ = open_clinic(place)
    curator.sql(COUNT, epsilon="0.05")
    groups, answers = curator.context.keys.group_secret("patients"), 0
    curator.close()

    def look() -> None:
        nonlocal answers
        answers += 1
        curator, _ = open_clinic(place)
        with curator:
            answer = curator.sql(f"SELECT COUNT(*) AS n{answers} FROM visits WHERE cost < {answers}", epsilon="0.05")
            assert verify_receipt(answer.receipt, curator.ledger.public_key).ok
            assert curator.public_key == curator.ledger.public_key
            assert curator.context.keys.group_secret("patients") == groups
            assert checked(curator.ledger).ok
            # What an opening has found is where the next one looks first.
            assert open_keys(key_file(place)).public_key == curator.public_key

    died = deaths(place, look)
    assert died >= 8
    look()
    with Ledger.open(place, create=False) as ledger:
        # Some died before the chain heard of the new key, some after, and one got through.
        assert 2 <= len(ledger.successions()) < died


def test_killed_at_every_step_of_replacing_a_lost_key(place: Path) -> None:
    open_clinic(place)[0].close()
    with Ledger.open(place, create=False) as ledger:
        first = ledger.public_key

    def look() -> None:
        with Ledger.open(place, create=False) as ledger:
            known = ledger.public_key
        if known == first:
            with pytest.raises(InputError, match="no key file"):
                open_clinic(place)
        else:
            open_clinic(place)[0].close()
            key_file(place).unlink()

    key_file(place).unlink()
    assert deaths(place, look, lost=True) >= 8
    curator, _ = open_clinic(place)
    with curator:
        curator.sql(COUNT, epsilon="0.5")
        assert len(curator.ledger.successions()) >= 2
        assert checked(curator.ledger).ok


# Lost keys ------------------------------------------------------------------------------------------------------------


def test_a_lost_key_with_an_older_file_keeps_the_group_secret(place: Path) -> None:
    curator, _ = open_clinic(place)
    groups = curator.context.keys.group_secret("patients")
    backup = key_file(place).read_bytes()
    rotated(place)
    key_file(place).write_bytes(backup)
    with pytest.raises(InputError, match=r"replaced at entry .*--lost"):
        open_clinic(place)
    with pytest.raises(InputError, match="replaced at entry"):
        rotated(place)
    done = rotated(place, lost=True)
    assert (done.signature, done.key_check) == ("", "")
    curator, _ = open_clinic(place)
    with curator:
        assert curator.context.keys.group_secret("patients") == groups
        assert verify_receipt(curator.sql(COUNT, epsilon="0.5").receipt, done.public_key).ok
        assert checked(curator.ledger).ok


def test_when_everything_is_lost_what_was_spent_stays_and_repeats_stay_free(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    curator, _ = open_clinic(place)
    answer = curator.sql(COUNT, epsilon="0.5")
    key_file(place).unlink()
    with pytest.raises(InputError, match="no key file"):
        rotated(place)
    done = rotated(place, lost=True)
    assert done.key_check
    # A curator with the old group secret does not go on with another one in the middle of things.
    with pytest.raises(InternalError):
        curator.sql(ALL, epsilon="0.5")
    assert "open the project anew" in caplog.text
    curator.close()
    curator, _ = open_clinic(place)
    with curator:
        assert spent(curator) == 1
        again = curator.sql(COUNT, epsilon="0.5")
        assert (again.charge.repeated, again.receipt) == (True, answer.receipt)
        assert curator.check_receipt(answer.receipt).ok
        curator.sql(ALL, epsilon="0.5")
        assert spent(curator) == 1
        assert checked(curator.ledger).ok


def test_a_key_that_is_there_is_not_called_lost(place: Path) -> None:
    open_clinic(place)[0].close()
    with pytest.raises(InputError, match="leave --lost out"):
        rotated(place, lost=True)
    open_clinic(place.with_name("b.ledger"))[0].close()
    shutil.copy(key_file(place.with_name("b.ledger")), key_file(place))
    with pytest.raises(InputError, match="another group secret"):
        rotated(place, lost=True)
    assert len(list(place.parent.glob("a.ledger.key*"))) == 1


def test_a_ledger_without_a_key_has_none_to_replace(place: Path) -> None:
    Ledger.open(place).close()
    with pytest.raises(InputError, match="made without one"):
        rotated(place)


def test_who_comes_second_leaves_nothing_behind(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_clinic(place)[0].close()
    real = SigningKeys.replace

    def late(*arguments: Any, **words: Any) -> Succession:
        monkeypatch.setattr(SigningKeys, "replace", real)
        rotated(place)
        return real(*arguments, **words)

    monkeypatch.setattr(SigningKeys, "replace", late)
    with pytest.raises(ConflictError, match="another process"):
        rotated(place)
    assert len(list(place.parent.glob("a.ledger.key*"))) == 1
    open_clinic(place)[0].close()


def test_a_ledger_on_a_server_without_its_key_file_is_given_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is one left behind that stands in the way of the right one, or of replacing a lost one."""
    monkeypatch.setenv("TACIT_STATE", str(folder / "state"))
    where, key = postgres_place(folder).where, folder / "own.key"
    first = open_ledger(where, key=str(key))
    first.ledger.close()
    key.unlink()
    with pytest.raises(InputError, match="no key file"):
        open_ledger(where, key=str(key))
    assert not key.exists()
    with Ledger.open(where, create=False) as ledger:
        done = rotate_key(ledger, key, reason="lost", operator="olga", lost=True)
    again = open_ledger(where, key=str(key))
    assert again.keys.public_key == done.public_key != first.keys.public_key
    again.ledger.close()


# Running processes ----------------------------------------------------------------------------------------------------


def test_a_key_replaced_between_a_charge_and_its_answer(place: Path) -> None:
    curator, engine = open_clinic(place)
    with curator:
        measure = engine.measure

        def slow(work: Any) -> Any:
            rotated(place)
            rotated(place)
            return measure(work)

        engine.measure = slow  # type: ignore[method-assign]
        answer = curator.sql(COUNT, epsilon="0.5")
        assert verify_receipt(answer.receipt, curator.ledger.public_key).ok
        assert engine.measured == 1
        assert checked(curator.ledger).ok


def test_another_machine_refuses_until_it_has_the_new_key_and_charges_nothing(
    place: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    curator, engine = open_clinic(place)
    with curator:
        own = tmp_path / "own.key"
        shutil.copy(key_file(place), own)
        curator.context.keys._place = own
        done = rotated(place)
        # The first query meets the new key only when it is answered: its charge stands, and waits.
        with pytest.raises(InternalError, match="operator's log"):
            curator.sql(COUNT, epsilon="0.5")
        assert f"replaced at entry {done.seq}" in caplog.text
        assert str(own) in caplog.text
        for sql in (COUNT, ALL):
            with pytest.raises(InternalError):
                curator.sql(sql, epsilon="0.5")
        with pytest.raises(InternalError):
            curator.release(tacit.Laplace(epsilon="0.5", l1_sensitivity=1), 9, label="nine")
        assert spent(curator) == Fraction(1, 2)
        shutil.copy(key_file(place), own)
        answer = curator.sql(COUNT, epsilon="0.5")
        assert verify_receipt(answer.receipt, done.public_key).ok
        assert spent(curator) == Fraction(1, 2)
        assert checked(curator.ledger).ok
        assert engine.measured == 2


def test_a_key_that_waits_is_used_by_who_may_only_read(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_clinic(place)[0].close()
    done = rotated(place)
    waiting = waiting_place(key_file(place), done.public_key)
    key_file(place).rename(waiting)

    def forbidden(*_: Any) -> None:
        raise PermissionError(13, "not yours")

    monkeypatch.setattr("tacit.releases.keys.put_in_place", forbidden)
    with Ledger.open(place, create=False) as ledger:
        assert keys_in_force(ledger, key_file(place)).public_key == done.public_key
    assert waiting.exists()


# Far away -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def served(place: Path) -> Iterator[tuple[Curator, TinyServer]]:
    curator, _ = open_clinic(place)
    with curator, TinyServer(curator) as server:
        yield curator, server


def test_a_client_follows_from_key_to_key(place: Path, served: tuple[Curator, TinyServer], folder: Path) -> None:
    curator, server = served
    remote = tacit.connect(server.url, "t")
    first = remote.public_key
    before = remote.sql(COUNT, epsilon="0.5").receipt
    rotated(place)
    # While it is connected.
    assert remote.check_receipt(remote.sql(ALL, epsilon="0.5").receipt).ok
    assert remote.public_key == curator.ledger.public_key != first
    assert remote.check_receipt(before).ok
    rotated(place)
    # And when it comes back: with the key that it remembers, or states.
    for stated in (None, first, first.removeprefix("ed25519:")):
        with tacit.connect(server.url, "t", public_key=stated) as again:
            assert again.public_key == curator.ledger.public_key
            assert again.check_receipt(before).ok
    pins = [json.loads(pin.read_text())["public_key"] for pin in (folder / "state" / "servers").iterdir()]
    assert set(pins) == {curator.ledger.public_key}
    remote.close()


def test_a_client_does_not_follow_from_a_lost_key(place: Path, served: tuple[Curator, TinyServer]) -> None:
    curator, server = served
    remote = tacit.connect(server.url, "t")
    before = remote.sql(COUNT, epsilon="0.5").receipt
    backup = key_file(place).read_bytes()
    rotated(place)
    key_file(place).write_bytes(backup)
    done = rotated(place, lost=True)
    for stated in (None, remote.public_key, done.previous):
        with pytest.raises(TrustError, match=r"was lost and replaced by .* without its signature"):
            tacit.connect(server.url, "t", public_key=stated)
    with pytest.raises(TrustError, match="was lost"):
        remote.sql(ALL, epsilon="0.5")
    # Told by the owner, the new key vouches for the ones before it.
    with tacit.connect(server.url, "t", public_key=done.public_key) as again:
        assert again.check_receipt(before).ok
    assert len(curator.ledger.successions()) == 2
    remote.close()


def forgeries(ledger: Ledger, old: Keys, evil: Keys) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Signature by a caller who has another key and not the old one."""
    text = succession_text(ledger.id, old.public_key, evil.public_key)
    named = {"previous": old.public_key, "public_key": evil.public_key}
    signed = {"signature": evil.sign(text), "accepted": evil.sign(text)}
    yield "nothing shows", []
    yield "does not hold", [{**named, **signed}]
    yield "does not hold", [{**named, **signed, "signature": "00" * 64}]
    yield "was lost", [{**named, **signed, "signature": ""}]
    # What the old key has signed, but for another ledger, or about another key.
    elsewhere = succession_text("f" * 32, old.public_key, evil.public_key)
    yield "does not hold", [{**named, **signed, "signature": old.sign(elsewhere)}]
    third = make_keys()
    yield "does not hold", [{**named, "signature": old.sign(succession_text(ledger.id, old.public_key,
                             third.public_key)), "accepted": ""}]  # fmt: skip
    # In a circle.
    back = succession_text(ledger.id, old.public_key, old.public_key)
    yield "nothing shows", [{"previous": old.public_key, "public_key": old.public_key, "signature": old.sign(back),
                             "accepted": ""}]  # fmt: skip


def test_a_forged_succession_is_refused(place: Path, served: tuple[Curator, TinyServer]) -> None:
    curator, server = served
    old, evil = open_keys(key_file(place)), make_keys()
    tacit.connect(server.url, "t").close()
    for words, successions in forgeries(curator.ledger, old, evil):
        fake = response(
            200, {**KeyResponse.of(curator.ledger).plain(), "public_key": evil.public_key, "successions": successions}
        )
        for stated in (None, old.public_key):
            server.next["/v1/key"] = [lambda _, fake=fake: fake]
            with pytest.raises(TrustError, match=words):
                tacit.connect(server.url, "t", public_key=stated)
    # The pin stays what it was.
    tacit.connect(server.url, "t").close()


@pytest.mark.parametrize("told", [{}, [{}], [{"previous": 1}], ["x"], [{"previous": "a"}] * 2000])
def test_a_server_that_talks_nonsense_about_older_keys(served: tuple[Curator, TinyServer], told: Any) -> None:
    curator, server = served
    fake = response(200, {**KeyResponse.of(curator.ledger).plain(), "successions": told})
    server.next["/v1/key"] = [lambda _: fake]
    with pytest.raises(RemoteError, match="successions"):
        tacit.connect(server.url, "t")


def test_a_new_key_vouches_only_for_keys_that_it_has_accepted(place: Path, served: tuple[Curator, TinyServer]) -> None:
    curator, server = served
    before = curator.sql(COUNT, epsilon="0.5").receipt
    rotated(place)
    told = KeyResponse.of(curator.ledger).plain()
    told["successions"][0]["accepted"] = "00" * 64
    server.next["/v1/key"] = [lambda _: response(200, told)] * 2
    with tacit.connect(server.url, "t", public_key=told["public_key"]) as remote:
        assert not remote.check_receipt(before).ok
