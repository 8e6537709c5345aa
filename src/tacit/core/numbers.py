"""Exact rational numbers as inputs; floats as outputs only with a named rounding direction.

Privacy parameters are rationals. ``"0.1"``, ``Decimal("0.1")``, ``Fraction(1, 10)`` and the float ``0.1`` all mean
one tenth: a float means its shortest decimal text, because that is the text that was typed.

Transcendental functions are needed in two places, sampling and accounting, and in both an answer that is *nearly*
right is wrong. :func:`exp_bounds`, :func:`log_bounds` and :func:`sqrt_bounds` therefore return two rationals that
provably enclose the true value. They use :mod:`decimal`, whose ``exp``, ``ln`` and ``sqrt`` are documented to
be correctly rounded, and widen its result on both sides by the possible rounding error.
"""

from __future__ import annotations

import math
import operator
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from fractions import Fraction
from functools import cache
from typing import Final, SupportsIndex

from tacit.core.errors import AccountingError, InputError

#: Accepted forms of a privacy parameter.
Number = str | int | float | Fraction | Decimal

#: Significant digits of a number that is written; a longer one is a typing error or an attack.
MAX_DIGITS: Final = 40
#: Longest decimal text accepted for one number.
MAX_TEXT: Final = 500
#: Largest absolute decimal exponent accepted: 1e300 is already absurd for any parameter of privacy.
MAX_EXPONENT: Final = 320
#: Largest numerator or denominator, in bits.
MAX_BITS: Final = 4096

_MAX_DECIMAL_EXPONENT = 10**17
_MAX_EXP_ARGUMENT = 10**6
#: Below minus this, the lower bound of exp is zero; every probability that can be typed is far above e to that power.
_MIN_EXP_ARGUMENT = 10**4
_TINY_EXP: Final = Fraction(1, 2**14426)


def exact(value: Number, parameter: str) -> Fraction:
    """Return the rational that ``value`` means, or raise an :class:`InputError` that names ``parameter``."""
    # The exact type first: asking an abstract base class whether something is an instance is slow.
    if type(value) is Fraction or isinstance(value, Fraction):
        result = value
    elif isinstance(value, str):
        result = _from_text(value, parameter)
    elif isinstance(value, Decimal):
        result = _from_decimal(value, parameter)
    elif isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        raise InputError(parameter, f"must be a number, not the truth value {value}")
    elif isinstance(value, float):
        # float() first: a numpy float64 is a float whose repr is not a number.
        result = _from_decimal(Decimal(repr(float(value))), parameter)
    else:
        try:
            result = Fraction(operator.index(value))
        except TypeError:
            raise InputError(
                parameter,
                f"must be a number (text such as '0.1', int, float, Fraction or Decimal), not {type(value).__name__}",
            ) from None
    if max(result.numerator.bit_length(), result.denominator.bit_length()) > MAX_BITS:
        raise InputError(parameter, f"has more than {MAX_BITS} bits; round it to a size that means something")
    return result


def exact_positive(value: Number, parameter: str) -> Fraction:
    """Return :func:`exact` of ``value``; refuse zero and negative numbers."""
    result = exact(value, parameter)
    if result <= 0:
        raise InputError(parameter, f"must be greater than 0, got {_show(result)}")
    return result


def exact_nonnegative(value: Number, parameter: str) -> Fraction:
    """Return :func:`exact` of ``value``; refuse negative numbers."""
    result = exact(value, parameter)
    if result < 0:
        raise InputError(parameter, f"must not be negative, got {_show(result)}")
    return result


def exact_probability(value: Number, parameter: str, *, zero: bool = False, one: bool = False) -> Fraction:
    """Return :func:`exact` of ``value``; refuse numbers outside (0, 1). ``zero`` and ``one`` admit the ends."""
    result = exact(value, parameter)
    low = result >= 0 if zero else result > 0
    high = result <= 1 if one else result < 1
    if not (low and high):
        left, right = "[" if zero else "(", "]" if one else ")"
        raise InputError(parameter, f"must lie in {left}0, 1{right}, got {_show(result)}")
    return result


def check_count(value: SupportsIndex, parameter: str, *, minimum: int = 1, maximum: int = 10**12) -> int:
    """Return a whole number of things, such as repetitions, bins or people; refuse other values."""
    try:
        # An array has an __index__ that raises unless it holds one integer.
        result = operator.index(value)
    except TypeError:
        raise InputError(parameter, f"must be a whole number, not {type(value).__name__}") from None
    if isinstance(value, bool):
        raise InputError(parameter, "must be a whole number, not a truth value")
    if not minimum <= result <= maximum:
        raise InputError(parameter, f"must be a whole number from {minimum} to {maximum}, got {result}")
    return result


def float_up(value: Fraction | int) -> float:
    """Return the smallest float that is not below ``value``."""
    nearest = float_nearest(value)
    return nearest if nearest >= value else math.nextafter(nearest, math.inf)


def float_down(value: Fraction | int) -> float:
    """Return the largest float that is not above ``value``."""
    nearest = float_nearest(value)
    return nearest if nearest <= value else math.nextafter(nearest, -math.inf)


def float_nearest(value: Fraction | int) -> float:
    """Return the float nearest to ``value``: for display and for first guesses, never for a bound.

    A value out of range becomes an infinity of its sign; :func:`float_up` and :func:`float_down` correct that.
    """
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def round_up(value: Fraction, digits: int = 18) -> Fraction:
    """Return the smallest rational of ``digits`` significant decimals that is not below ``value``."""
    return -round_down(-value, digits)


def round_down(value: Fraction, digits: int = 18) -> Fraction:
    """Return the largest rational of ``digits`` significant decimals that is not above ``value``."""
    if value == 0:
        return value
    places = digits - 1 - _decimal_exponent(abs(value))
    if places <= 0:
        step = 10**-places
        return Fraction(value.numerator // (value.denominator * step) * step)
    step = 10**places
    return Fraction(value.numerator * step // value.denominator, step)


def format_up(value: Fraction, digits: int = 6) -> str:
    """Return decimal text of ``value`` for people, rounded up so that a cost is never shown too small."""
    rounded = value if value == round_down(value, digits) else round_up(value, digits)
    # The nearest float of a number of so few digits prints as that number.
    return f"{float_nearest(rounded):.{digits}g}"


def exp_bounds(value: Fraction, digits: int = 40) -> tuple[Fraction, Fraction]:
    """Return rationals ``(low, high)`` with ``low <= exp(value) <= high``, close to about ``digits`` digits."""
    if value == 0:
        return Fraction(1), Fraction(1)
    if value < -_MIN_EXP_ARGUMENT:
        # Written out, the true value would be a long row of zeros; this power of two lies above it.
        return Fraction(0), _TINY_EXP
    if value > _MAX_EXP_ARGUMENT:
        raise AccountingError(f"exp({float_nearest(value):g}) is too large to write down")
    quotient, error = _quotient(value, digits)
    center = Fraction(decimal_context(digits).exp(quotient))
    # |e^(x±d) - e^x| <= 2d·e^x for d <= 1, and rounding adds half a unit in the last place.
    slack = center * (2 * error + _last_place(digits))
    return center - slack, center + slack


def log_bounds(value: Fraction, digits: int = 40) -> tuple[Fraction, Fraction]:
    """Return rationals ``(low, high)`` with ``low <= ln(value) <= high``; ``value`` must be positive."""
    if value == 1:
        return Fraction(0), Fraction(0)
    quotient, error = _quotient(value, digits)
    center = Fraction(decimal_context(digits).ln(quotient))
    # |ln(x±d) - ln x| <= 2d/x for d <= x/2, and rounding adds half a unit in the last place.
    slack = 2 * error / value + abs(center) * _last_place(digits)
    return center - slack, center + slack


def sqrt_bounds(value: Fraction, digits: int = 40) -> tuple[Fraction, Fraction]:
    """Return rationals ``(low, high)`` with ``low <= sqrt(value) <= high``, equal where the root is rational."""
    root = Fraction(math.isqrt(value.numerator), math.isqrt(value.denominator))
    if root * root == value:
        return root, root
    quotient, error = _quotient(value, digits)
    center = Fraction(decimal_context(digits).sqrt(quotient))
    # |√(x±d) - √x| <= d/√x for d <= x/2, and rounding adds half a unit in the last place.
    slack = center * (2 * error / value + _last_place(digits))
    return center - slack, center + slack


def _quotient(value: Fraction, digits: int) -> tuple[Decimal, Fraction]:
    """Return a decimal near ``value`` and a bound on its distance from it."""
    quotient = decimal_context(digits + 4).divide(Decimal(value.numerator), Decimal(value.denominator))
    return quotient, abs(value) * _last_place(digits + 3)


@cache
def _last_place(digits: int) -> Fraction:
    """Return a bound on the relative error of a result correctly rounded to ``digits`` digits."""
    return Fraction(1, 10 ** (digits - 1))


@cache
def decimal_context(digits: int) -> Context:
    """Return a context for decimal arithmetic of ``digits`` digits, rounded to nearest, which cannot overflow here."""
    return Context(
        prec=digits,
        rounding=ROUND_HALF_EVEN,
        Emin=-_MAX_DECIMAL_EXPONENT,
        Emax=_MAX_DECIMAL_EXPONENT,
        traps=[InvalidOperation],
    )


def _from_text(text: str, parameter: str) -> Fraction:
    if len(text) > MAX_TEXT:
        raise InputError(parameter, f"is longer than {MAX_TEXT} characters")
    numerator, slash, denominator = text.partition("/")
    try:
        if slash:
            return Fraction(int(numerator), int(denominator))
        value = Decimal(text.strip())
    except (ValueError, ArithmeticError):
        raise InputError(parameter, f"must be a number such as '0.1' or '1/3', got {text[:40]!r}") from None
    return _from_decimal(value, parameter)


def _from_decimal(value: Decimal, parameter: str) -> Fraction:
    if not value.is_finite():
        raise InputError(parameter, f"must be finite, got {value}")
    if value and abs(value.adjusted()) > MAX_EXPONENT:
        raise InputError(parameter, f"must lie between 1e-{MAX_EXPONENT} and 1e{MAX_EXPONENT} in size, got {value:.3e}")
    return Fraction(value)


def _decimal_exponent(value: Fraction) -> int:
    """Return the exponent e of the leading digit of a positive rational: 10**e <= value < 10**(e+1)."""
    estimate = math.floor((value.numerator.bit_length() - value.denominator.bit_length()) * math.log10(2))
    while _is_at_least(value, estimate + 1):
        estimate += 1
    while not _is_at_least(value, estimate):
        estimate -= 1
    return estimate


def _is_at_least(value: Fraction, exponent: int) -> bool:
    """Return whether a positive rational is 10**exponent or more, computed in integers."""
    power: int = 10 ** abs(exponent)
    if exponent >= 0:
        return value.numerator >= value.denominator * power
    return value.numerator * power >= value.denominator


def _show(value: Fraction) -> str:
    return f"{float_nearest(value):g}"


def with_noun(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun, for people to read: ``1 charge``, ``2 charges``, ``1,000 entries``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def decimal_places(value: Fraction) -> int | None:
    """Return the number of decimal places of a rational; None if its decimal expansion is infinite."""
    rest, places = value.denominator, 0
    for prime in (2, 5):
        times = 0
        while rest % prime == 0:
            rest, times = rest // prime, times + 1
        places = max(places, times)
    return places if rest == 1 else None


def exact_text(value: Fraction) -> str:
    """Return exact text of a rational: a decimal if it has one of reasonable length, else a fraction."""
    value = Fraction(value)
    places = decimal_places(value)
    if places is None or places > MAX_DIGITS:
        return str(value)
    text = f"{abs(int(value * 10**places)):0{places + 1}d}"
    sign = "-" if value < 0 else ""
    return f"{sign}{text[:-places]}.{text[-places:]}" if places else f"{sign}{text}"


def decimal_text(value: Number, parameter: str) -> str:
    """Return a number as exact decimal text for JSON.

    Raises:
        InputError: it has no finite decimal form, such as 1/3, or one of too many digits.
    """
    number = exact(value, parameter)
    places = decimal_places(number)
    if places is None:
        near = f"{float(number):.6g}"
        raise InputError(parameter, f"{number} has no exact decimal form; over HTTP write one, such as '{near}'")
    digits = int(number * 10**places)
    if places > MAX_DIGITS or len(str(abs(digits))) > MAX_DIGITS:
        raise InputError(parameter, f"has more than {MAX_DIGITS} digits; round it")
    return str(Decimal(digits).scaleb(-places))
