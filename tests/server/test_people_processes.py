"""Several processes at once: they make the tables together, one of them wins, and all see what one of them ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.crowds import Crowd, add, token
from support.ledgers import Place, sqlite_place
from support.postgres import postgres_place
from support.warm import WarmProcess
from tacit.ledger import LedgerError

PROGRAM = """
import sys
from tacit.ledger import Ledger
from tacit.server.identity import People

where, anchor, secret, number = sys.argv[1:]
with Ledger.open(where, anchor=anchor) as ledger:
    sys.stdin.readline()
    with People.open(ledger, where) as people:
        won = people.set_up(secret, f"owner {number}")
        for turn in range(5):
            people.add(f"analyst {number} {turn}", operator="olga")
            text = people.issue(f"analyst {number} {turn}", expires=None, operator="olga").text
            assert people.authenticate(text) is not None
            people.revoke(f"analyst {number} {turn}", operator="olga")
            assert people.authenticate(text) is None
        print("won" if won else "lost", flush=True)
"""


@pytest.mark.parametrize("kind", [sqlite_place, postgres_place], ids=["sqlite", "postgres"])
def test_processes_that_start_at_once(kind: object, tmp_path: Path) -> None:
    place: Place = kind(tmp_path)  # type: ignore[operator]
    crowd = Crowd(place)
    secret = crowd.people._new_set_up_link()
    others = [
        WarmProcess(
            [sys.executable, "-c", PROGRAM, place.where, str(place.anchor), secret, str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    # The set-up of the clock in this test is that of another day; the processes use the real one.
    with crowd.people.tables.write() as run:
        run("UPDATE people_links SET expires = ?", (2**62,))
    said = []
    for other in others:
        assert other.stdin is not None
        other.stdin.write("go\n")
        other.stdin.flush()
    for other in others:
        said.append(other.communicate(timeout=60)[0].strip())
        assert other.returncode == 0
    assert sorted(said) == ["lost", "lost", "won"]
    people = crowd.people.everyone()
    assert [person.name for person in people if person.role == "owner"] == [f"owner {said.index('won')}"]
    assert sum(not person.active for person in people) == 15
    assert crowd.ledger.verify().ok
    crowd.close()


def test_tables_are_made_by_processes_together(tmp_path: Path) -> None:
    place = sqlite_place(tmp_path)
    place.open().close()
    program = (
        "import sys; from tacit.ledger import Ledger; from tacit.server.identity import People\n"
        "with Ledger.open(sys.argv[1], anchor=sys.argv[2]) as ledger:\n"
        "    sys.stdin.readline(); People.open(ledger, sys.argv[1]).close()"
    )
    command = [sys.executable, "-c", program, place.where, str(place.anchor)]
    others = [WarmProcess(command, stdin=subprocess.PIPE, text=True) for _ in range(3)]
    for other in others:
        assert other.stdin is not None
        other.stdin.write("go\n")
        other.stdin.flush()
    for other in others:
        other.communicate(timeout=60)
    assert [other.returncode for other in others] == [0, 0, 0]


def test_a_child_does_not_use_its_parents_connections(lasting: Crowd) -> None:
    add(lasting.people, "alice")
    text = token(lasting.people, "alice")
    lasting.people.authenticate(text)
    child = os.fork()
    if child == 0:
        try:
            lasting.people.authenticate(text)
        except LedgerError:
            os._exit(7)
        os._exit(8)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert lasting.people.authenticate(text) is not None
