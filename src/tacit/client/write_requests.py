"""JSON of requests, with privacy amounts exactly as typed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from tacit.core.errors import InputError
from tacit.core.numbers import Number, check_count, exact

__all__ = ["decimal_text", "request_text"]

#: The server reads as many; what is longer is a typing error or an attack.
_MOST_DIGITS: Final = 40
_COUNTS: Final = ("max_groups", "suppose")


def request_text(sql: str, words: Mapping[str, Any]) -> str:
    """The body of a request: the question, and those words about it that were said."""
    if not isinstance(sql, str):
        raise InputError("sql", f"must be text, not {type(sql).__name__}")
    parts = [f'"sql":{json.dumps(sql)}']
    parts += [f"{json.dumps(name)}:{_value(value, name)}" for name, value in words.items() if value is not None]
    return "{" + ",".join(parts) + "}"


def _value(value: Any, name: str) -> str:
    if name in _COUNTS:
        return str(check_count(value, name))
    if isinstance(value, Mapping):
        parts = []
        for key, number in value.items():
            if not isinstance(key, str):
                raise InputError(name, "must name columns or aggregates by their text")
            parts.append(f"{json.dumps(key)}:{decimal_text(number, name)}")
        return "{" + ",".join(parts) + "}"
    return decimal_text(value, name)


def decimal_text(value: Number, parameter: str) -> str:
    """A number as JSON writes it, without loss.

    Raises:
        InputError: it has no finite decimal form, such as 1/3, or one of too many digits.
    """
    number = exact(value, parameter)
    twos, fives = (_times(number.denominator, prime) for prime in (2, 5))
    places = max(twos, fives)
    if number.denominator != 2**twos * 5**fives:
        raise InputError(
            parameter, f"{number} has no exact decimal form; over HTTP write one, such as '{_near(number)}'"
        )
    digits = int(number * 10**places)
    while places > 0 and digits % 10 == 0:
        digits, places = digits // 10, places - 1
    stripped = str(abs(digits)).rstrip("0") or "0"
    if len(stripped) > _MOST_DIGITS or places > _MOST_DIGITS or len(str(abs(digits))) > _MOST_DIGITS:
        raise InputError(parameter, f"has more than {_MOST_DIGITS} digits; round it")
    return str(Decimal(digits).scaleb(-places))


def _times(number: int, prime: int) -> int:
    count = 0
    while number % prime == 0:
        number //= prime
        count += 1
    return count


def _near(number: Fraction) -> str:
    return f"{float(number):.6g}"
