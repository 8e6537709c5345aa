"""Clocks of zones, compared with Python's own at clock changes and between them."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest

from tacit.query.refusal import Refusal
from tacit.query.relational.expressions import Reference, literal, size
from tacit.query.relational.functions import evaluate
from tacit.query.resolve.times import between_clocks, changes_of
from tacit.query.types import INTEGER, TIMESTAMP, Domain

ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Africa/Casablanca", "Etc/GMT+5")
STEP = dt.timedelta(seconds=1)


@pytest.mark.parametrize("zone", ZONES)
def test_the_clock_is_that_of_the_zone_around_every_change(zone: str) -> None:
    rules = ZoneInfo(zone)
    changes = changes_of(zone)
    moments = [at + by for at, _ in changes for by in (-STEP, 0 * STEP, STEP) if at + by >= dt.datetime(1970, 1, 1)]
    moments += [dt.datetime(1970, 1, 1) + dt.timedelta(days=97 * i, hours=i) for i in range(250)]
    for moment in moments:
        shown = moment.replace(tzinfo=dt.UTC).astimezone(rules).replace(tzinfo=None)
        assert evaluate(between_clocks(literal(moment, TIMESTAMP), ["UTC", zone]), ()) == shown, moment


@pytest.mark.parametrize("zone", ZONES)
def test_the_time_in_utc_is_the_later_of_two_and_goes_on_in_a_gap(zone: str) -> None:
    rules, changes = ZoneInfo(zone), changes_of(zone)[1:][-12:]
    hours = [dt.timedelta(minutes=15 * k) + j * STEP for k in range(-8, 9) for j in (-1, 0)]
    clocks = [at + dt.timedelta(seconds=offset) + by for at, offset in changes for by in hours]
    made = between_clocks(Reference(TIMESTAMP, Domain(nullable=True), 0, "x"), [zone, "UTC"])
    for clock in clocks:
        # Python's fold 0 is the first of two and the clock before a gap, 1 the second and the clock after.
        offset = min(clock.replace(tzinfo=rules, fold=fold).utcoffset() or 0 * STEP for fold in (0, 1))
        assert evaluate(made, (clock,)) == clock - offset, clock


def test_clocks_of_two_zones_are_one_short_step() -> None:
    """From Berlin to New York, there and back: what two steps would give, without a CASE within a CASE."""
    x = Reference(TIMESTAMP, Domain(nullable=True), 0, "x")
    zones = ["Europe/Berlin", "America/New_York"]
    across = between_clocks(x, zones)
    again = between_clocks(x, 3 * [*zones, *zones[::-1]])
    assert max(size(across), size(again)) < 2500
    there, back = between_clocks(x, [zones[0], "UTC"]), between_clocks(x, ["UTC", zones[1]])
    changes = [change for zone in zones for change in changes_of(zone)[-9:]]
    hours = [dt.timedelta(minutes=30 * k) + j * STEP for k in range(-14, 15, 4) for j in (-1, 0)]
    near = [at + dt.timedelta(seconds=offset * side) + by for at, offset in changes for side in (0, 1) for by in hours]
    for clock in [dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30), *near]:
        assert evaluate(across, (clock,)) == evaluate(back, (evaluate(there, (clock,)),)), clock


def test_calls_within_calls_are_refused_before_they_grow() -> None:
    zones = ["Europe/Berlin", "America/New_York"]
    made = between_clocks(Reference(TIMESTAMP, Domain(nullable=True), 0, "x"), zones)
    with pytest.raises(Refusal, match="parts in one clause"):
        between_clocks(made, zones)


def test_an_expression_stays_small_and_null_stays_null() -> None:
    assert size(between_clocks(literal(None, TIMESTAMP), ["UTC", "Europe/Berlin"])) < 1000
    assert evaluate(between_clocks(literal(None, TIMESTAMP), ["UTC", "Europe/Berlin"]), ()) is None
    assert len(changes_of("Asia/Kolkata")) == 1


def test_a_time_at_the_end_of_the_calendar_is_null_rather_than_wrong() -> None:
    last = literal(dt.datetime(9999, 12, 31, 23), TIMESTAMP)
    assert evaluate(between_clocks(last, ["UTC", "Asia/Tokyo"]), ()) is None


@pytest.mark.parametrize("zone", ["", "Mars/Olympus", "../etc", "Europe/../Europe/Berlin", "/etc/localtime", "x" * 300])
def test_other_names_are_refused(zone: str) -> None:
    with pytest.raises(Refusal, match="time zone"):
        between_clocks(literal(None, TIMESTAMP), ["UTC", zone])
    with pytest.raises(Refusal, match="needs a TIMESTAMP"):
        between_clocks(literal(1, INTEGER), ["UTC", "UTC"])
