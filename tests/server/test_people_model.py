"""Whatever is done in whatever order, and whichever old copy of the tables is put back: what was ended stays ended.

A plain model beside the real thing, on a SQLite ledger that is closed, put back in part, and opened again.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from support.crowds import Crowd, put_back, rows_of
from support.ledgers import sqlite_place

NAMES = st.sampled_from(["alice", "bob"])
MINUTES = st.sampled_from([0, 1, 20, 1440, 7 * 1440 - 1, 7 * 1440])


@dataclass
class Thing:
    """A token or a session: whether it must open, must not, or may do either after tables were put back."""

    text: str
    id: str
    name: str
    opened: int
    seen: int
    ended: bool = False
    unsure: bool = False


class Door(RuleBasedStateMachine):
    """People come and go."""

    @initialize()
    def start(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tacit-model-"))
        self.crowd = Crowd(sqlite_place(self.folder))
        self.active: dict[str, bool] = {}
        self.links: list[tuple[str, str]] = []
        self.used: set[str] = set()
        self.tokens: list[Thing] = []
        self.sessions: list[Thing] = []
        self.minute = 0
        self.old: dict[str, Any] | None = None

    def teardown(self) -> None:
        self.crowd.close()
        shutil.rmtree(self.folder)

    def known(self, name: str) -> bool:
        return self.active.get(name, False)

    @rule(name=NAMES)
    def add(self, name: str) -> None:
        self.crowd.people.add(name, operator="olga")
        self.active[name] = True

    @rule(name=NAMES)
    def revoke(self, name: str) -> None:
        if name not in self.active:
            return
        self.crowd.people.revoke(name, operator="olga")
        self.active[name] = False
        for thing in (*self.tokens, *self.sessions):
            thing.ended |= thing.name == name

    @rule(name=NAMES)
    def issue(self, name: str) -> None:
        if self.known(name):
            issued = self.crowd.people.issue(name, expires=None, operator="olga")
            self.tokens.append(Thing(issued.text, issued.id, name, self.minute, self.minute))

    @rule(which=st.integers(0, 5))
    def withdraw(self, which: int) -> None:
        # A token that the tables have forgotten cannot be withdrawn, and need not be.
        here = {info.id for info in self.crowd.people.tokens()}
        if which < len(self.tokens) and self.tokens[which].id in here:
            self.crowd.people.withdraw(self.tokens[which].id, operator="olga")
            self.tokens[which].ended = True

    @rule(name=NAMES)
    def link(self, name: str) -> None:
        if self.known(name):
            self.links.append((self.crowd.people.link(name, operator="olga"), name))

    @rule(which=st.integers(0, 3))
    def follow(self, which: int) -> None:
        if which < len(self.links):
            secret, name = self.links[which]
            opened = self.crowd.people.follow(secret)
            assert opened is None or (self.known(name) and secret not in self.used)
            if opened is not None:
                self.used.add(secret)
                self.sessions.append(Thing(opened.text, opened.access.id, name, self.minute, self.minute))

    @rule(name=NAMES)
    def sign_in(self, name: str) -> None:
        if self.known(name):
            opened = self.crowd.people.follow(self.crowd.people.link(name, operator="olga"))
            assert opened is not None
            self.sessions.append(Thing(opened.text, opened.access.id, name, self.minute, self.minute))

    @rule(which=st.integers(0, 5))
    def sign_out(self, which: int) -> None:
        if which < len(self.sessions):
            session = self.sessions[which]
            self.crowd.people.sign_out(session.text)
            assert self.crowd.people.session(session.text) is None
            session.ended = True

    @rule(minutes=MINUTES)
    def wait(self, minutes: int) -> None:
        self.minute += minutes
        self.crowd.watch.wait(minutes=minutes)

    @rule()
    def restart(self) -> None:
        self.crowd.restart()

    @rule()
    def copy(self) -> None:
        self.old = rows_of(self.crowd.people)
        self.sure = {thing.id for thing in (*self.tokens, *self.sessions) if not thing.unsure}

    @rule()
    def bring_back(self) -> None:
        if self.old is None:
            return
        put_back(self.crowd.people, self.old)
        self.crowd.restart()
        for thing in (*self.tokens, *self.sessions):
            thing.unsure |= thing.id not in self.sure

    @invariant()
    def tokens_open_what_they_should(self) -> None:
        for thing in self.tokens:
            opens = self.crowd.people.authenticate(thing.text) is not None
            assert not (opens and thing.ended)
            assert opens or thing.ended or thing.unsure

    @invariant()
    def sessions_open_what_they_should(self) -> None:
        for thing in self.sessions:
            opens = self.crowd.people.session(thing.text) is not None
            over = self.minute - thing.opened >= 30 * 1440
            idle = self.minute - thing.seen >= 7 * 1440
            assert not (opens and over)
            if not thing.unsure:
                assert opens == (not thing.ended and not over and not idle)
            if opens:
                assert self.known(thing.name)
                thing.seen = self.minute


TestDoor = Door.TestCase
TestDoor.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
