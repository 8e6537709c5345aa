"""Public order and form of the keys of a mapping.

The keys of a mapping come in the order in which they were first seen, and of several equal keys (``1``, ``1.0``,
``True``) the one seen first is kept. Both may be determined by a single unit. The result of a release is therefore

* *ordered* by kind (``None``, numbers, text, bytes, dates, times, tuples, sets), then by value, whatever the order of
  the input;
* *plain*: a key that equals a whole number comes back as that ``int``, any other number as the first of ``float``,
  ``Decimal`` and ``Fraction`` that holds it exactly, text as a ``str``, a time with a zone in UTC. Equal keys have the
  same plain form.

A key of any other kind has no order that is certainly free of the data (its text may hold a memory address). Such keys
come last, in an order drawn at random for every release. No key raises an error: its kind is data.

>>> list(plain_order({"b": 1, 7: 2, "a": 3, 1.0: 4}).values())
[1, 7, 'a', 'b']
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np

from tacit.core.numbers import MAX_EXPONENT, decimal_context, decimal_places, float_nearest
from tacit.noise.uniform import sample_below

#: Tuples nested deeper than this count as keys of another kind.
_DEEPEST: Final = 16
_NAN: Final = math.nan


class _Form(NamedTuple):
    """Sort key of a mapping's key, as a tuple comparable with all others, and the plain form that is returned."""

    place: tuple[Any, ...]
    plain: Any


def plain_order(keys: Iterable[Hashable]) -> dict[int, Any]:
    """Return, in public order, {index among ``keys``: plain form of the key}."""
    listed = list(keys)
    kinds = set(map(type, listed))
    if kinds == {str} or kinds == {int}:
        # The common case, fast: keys of one type, whose values are plain and comparable.
        same: list[Any] = listed
        return {i: same[i] for i in sorted(range(len(same)), key=same.__getitem__)}
    forms = [_form(key, 0) for key in listed]
    known = [(i, form) for i, form in enumerate(forms) if form is not None]
    known.sort(key=lambda entry: entry[1].place)
    others = [i for i, form in enumerate(forms) if form is None]
    _shuffle(others)
    return {i: form.plain for i, form in known} | {i: listed[i] for i in others}


def _shuffle(places: list[int]) -> None:
    """Shuffle in place, every order equally likely (Fisher and Yates)."""
    for last in range(len(places) - 1, 0, -1):
        other = sample_below(last + 1)
        places[last], places[other] = places[other], places[last]


def _form(key: object, depth: int) -> _Form | None:
    """Return the sort key and plain form of one key, or ``None`` for a type without a public order."""
    try:
        if key is None:
            return _Form((0,), None)
        if isinstance(key, str):
            # The text itself, even for a subclass that overrides ``__str__``.
            text = str.__str__(key)
            return _Form((2, text), text)
        if isinstance(key, bytes):
            octets = bytes.__getitem__(key, slice(None))
            return _Form((3, octets), octets)
        if isinstance(key, tuple | frozenset):
            return _of_members(key, depth)
        if isinstance(key, date | timedelta):
            return _of_time(key)
        return _of_number(key)
    except Exception:  # a key of a user-defined class may raise any exception, which must not show
        return None


def _of_number(key: object) -> _Form | None:
    if isinstance(key, np.generic):
        key = key.item()
    if isinstance(key, complex) and key.imag == 0:
        key = key.real
    if isinstance(key, int):
        whole = int.__int__(key)
        return _Form((1, 0, whole), whole)
    if isinstance(key, float):
        number = float.__float__(key)
        if math.isfinite(number):
            return _of_fraction(Fraction(number))
        if math.isnan(number):
            return _Form((1, 2), _NAN)
        return _Form((1, 1 if number > 0 else -1), number)
    if isinstance(key, Decimal):
        if key.is_infinite():
            return _of_number(math.inf if key > 0 else -math.inf)
        if not key.is_finite() or abs(key.adjusted()) > MAX_EXPONENT:
            return None
        return _of_fraction(Fraction(key))
    return _of_fraction(Fraction(key)) if isinstance(key, Fraction) else None


def _of_fraction(value: Fraction) -> _Form:
    if value.denominator == 1:
        return _Form((1, 0, value.numerator), value.numerator)
    number = float_nearest(value)
    if math.isfinite(number) and Fraction(number) == value:
        return _Form((1, 0, value), number)
    places = decimal_places(value)
    if places is None:
        return _Form((1, 0, value), value)
    return _Form((1, 0, value), Decimal(int(value * 10**places)).scaleb(-places, decimal_context(10_000)))


def _of_time(key: date | timedelta) -> _Form | None:
    if type(key) is date:
        return _Form((4, key), key)
    if type(key) is timedelta:
        return _Form((7, key), key)
    if not isinstance(key, datetime) or getattr(key, "nanosecond", 0) != 0:
        return None
    clock = (key.year, key.month, key.day, key.hour, key.minute, key.second, key.microsecond)
    if key.utcoffset() is None:
        naive = datetime(*clock)
        return _Form((5, naive), naive)
    universal = datetime(*clock, tzinfo=key.tzinfo, fold=key.fold).astimezone(UTC).replace(fold=0)
    return _Form((6, universal), universal)


def _of_members(key: tuple[Any, ...] | frozenset[Any], depth: int) -> _Form | None:
    if depth == _DEEPEST:
        return None
    pair = isinstance(key, tuple)
    members = tuple.__iter__(key) if isinstance(key, tuple) else frozenset.__iter__(key)
    forms = [_form(member, depth + 1) for member in members]
    known = [form for form in forms if form is not None]
    if len(known) < len(forms):
        return None
    if not pair:
        known.sort(key=lambda form: form.place)
    place = tuple(form.place for form in known)
    plain = (form.plain for form in known)
    return _Form((8, place), tuple(plain)) if pair else _Form((9, place), frozenset(plain))
