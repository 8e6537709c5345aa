"""OPTIONS of ``SELECT WITH DIFFERENTIAL_PRIVACY``, read from tokens.

``WITH ANONYMIZATION``, the older word for the same clause, is read alike.

Numbers are read exactly from their decimal text and must be constants; an unknown or repeated option is refused rather
than ignored, because an ignored epsilon is a surprise bill.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from sqlglot.tokenizer_core import Token, TokenType

from tacit.core.errors import InputError
from tacit.query.contribution import AUTO, ContributionNumber
from tacit.query.refusal import Refusal
from tacit.query.request import OPTIONS, OptionKind, QueryOption

#: Words after SELECT WITH, in capitals, that begin a clause of options.
OPTION_CLAUSES: Final = ("DIFFERENTIAL_PRIVACY", "ANONYMIZATION")
#: Choices of private keys: BigQuery's words, and Tacit's for the rule itself. PUBLIC_GROUPS insists on public keys.
SELECTION_STRATEGIES = ("AUTO", "LAPLACE_THRESHOLD", "GAUSSIAN_THRESHOLD", "TRUNCATED_GEOMETRIC", "PUBLIC_GROUPS")


@dataclass(frozen=True, slots=True)
class Options:
    """Options typed in the SQL text; None where nothing is stated.

    Args:
        epsilon: the guarantee of the whole query.
        delta: likewise.
        rho: a zCDP price instead of epsilon.
        max_groups: ``max_groups_contributed``, a number or AUTO.
        max_rows: ``max_rows_contributed``, the most rows of a unit that count per group, or AUTO.
        max_rows_total: the most rows of a unit that count in all groups together, or AUTO. Not shown: the aggregation
            says so.
        group_selection: one of :data:`SELECTION_STRATEGIES`.
        within: half the width of the interval asked for, instead of epsilon.
        max_rows_joined: the most rows of a unit that enter a join which multiplies them, where that is less than the
            tables declare. Not shown: where it decides anything, the relation itself says so.
        privacy_unit: the column that ``privacy_unit_column`` names, with its table where that is written. The resolver
            accepts the declared unit alone, so that it decides nothing. Not shown.
        bias_share: share of the price for the estimate of what is left out. Not shown: the prices of releases say so.
        confidence: of that interval and of DP_INTERVAL_LOW and DP_INTERVAL_HIGH.
    """

    epsilon: Fraction | None = None
    delta: Fraction | None = None
    rho: Fraction | None = None
    max_groups: ContributionNumber | None = None
    max_rows: ContributionNumber | None = None
    group_selection: str | None = None
    within: Fraction | None = None
    confidence: Fraction | None = None
    max_rows_joined: int | None = field(default=None, repr=False)
    bias_share: Fraction | None = field(default=None, repr=False)
    max_rows_total: ContributionNumber | None = field(default=None, repr=False)
    privacy_unit: tuple[str, ...] | None = field(default=None, repr=False, compare=False)


_UNIT: Final = "PRIVACY_UNIT_COLUMN"
_PLAIN: Final = re.compile(r"[0-9]{0,30}\.?[0-9]{0,30}([eE][+-]?[0-9]{1,3})?\Z")


def take_options(tokens: list[Token]) -> tuple[Options, list[Token]]:
    """The options of the one SELECT that has them, and the tokens without that clause."""
    places = [i for i in range(len(tokens) - 2) if _starts(tokens, i)]
    if not places:
        return Options(), tokens
    if len(places) > 1:
        raise Refusal("option", "Write WITH DIFFERENTIAL_PRIVACY once, at the SELECT that aggregates.")
    start = places[0]
    if start + 3 >= len(tokens) or not _is_word(tokens[start + 3], "OPTIONS"):
        return Options(), tokens[: start + 1] + tokens[start + 3 :]
    if start + 4 >= len(tokens) or tokens[start + 4].token_type is not TokenType.L_PAREN:
        raise Refusal("option", "Write OPTIONS(epsilon = …, delta = …).")
    end = next((i for i in range(start + 5, len(tokens)) if tokens[i].token_type is TokenType.R_PAREN), None)
    if end is None:
        raise Refusal("option", "OPTIONS( is never closed.")
    return _read(tokens[start + 5 : end]), tokens[: start + 1] + tokens[end + 1 :]


def _starts(tokens: list[Token], place: int) -> bool:
    first, second, third = tokens[place : place + 3]
    return (
        first.token_type is TokenType.SELECT
        and second.token_type is TokenType.WITH
        and any(_is_word(third, word) for word in OPTION_CLAUSES)
    )


def _is_word(token: Token, word: str) -> bool:
    return token.token_type is not TokenType.STRING and token.text.upper() == word


def _read(tokens: list[Token]) -> Options:
    found: dict[str, Any] = {}
    for part in _split(tokens):
        if len(part) > 2 and _is_word(part[0], _UNIT) and part[1].token_type is TokenType.EQ:
            if "privacy_unit" in found:
                raise Refusal("option", "The option privacy_unit_column is given twice.")
            found["privacy_unit"] = _named_column(part[2:])
            continue
        if len(part) != 3 or part[1].token_type is not TokenType.EQ:
            raise Refusal("option", "Each option is written name = constant, separated by commas.")
        name = part[0].text.lower()
        if name not in _READERS:
            known = ", ".join([*_READERS, _UNIT.lower()])
            raise Refusal("option", f"There is no option {name[:40]!r}; known are {known}.")
        field, read = _READERS[name]
        if field in found:
            raise Refusal("option", f"The option {name} is given twice.")
        found[field] = read(name, part[2])
    if "epsilon" in found and ("rho" in found or "within" in found):
        raise Refusal("option", "Give one of epsilon, rho and within.")
    if "rho" in found and "within" in found:
        raise Refusal("option", "Give one of epsilon, rho and within.")
    return Options(**found)


def _named_column(tokens: list[Token]) -> tuple[str, ...]:
    """A column, or table.column; quoted or not."""
    names, dots = tokens[::2], tokens[1::2]
    plain = all(t.token_type not in (TokenType.STRING, TokenType.NUMBER, TokenType.L_PAREN) for t in names)
    if (
        len(names) > 3
        or len(names) != len(dots) + 1
        or not plain
        or any(d.token_type is not TokenType.DOT for d in dots)
    ):
        raise Refusal("option", "privacy_unit_column takes the name of the unit column, such as patient_id.")
    return tuple(name.text for name in names)


def _split(tokens: list[Token]) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type is TokenType.COMMA:
            parts.append([])
        elif token.token_type is TokenType.NUMBER and parts[-1] and parts[-1][-1].token_type is TokenType.DOT:
            # .01 is a sign and a number to the tokenizer.
            parts[-1][-1] = Token(TokenType.NUMBER, f"0.{token.text}", token.line, token.col, token.start, token.end)
        else:
            parts[-1].append(token)
    return parts if tokens else []


def _number(name: str, token: Token) -> str:
    if (
        token.token_type not in (TokenType.NUMBER, TokenType.STRING)
        or not _PLAIN.match(token.text)
        or token.text in (".", "")
    ):
        raise Refusal("option", f"{name} must be a positive number written out, such as 0.5.")
    return token.text


def _reader(option: QueryOption) -> Callable[[str, Token], object]:
    def read(name: str, token: Token) -> Fraction:
        try:
            return option.exact(_number(name, token))
        except InputError as problem:
            raise Refusal("option", f"{problem}.") from None

    return {OptionKind.COUNT: _count, OptionKind.LIMIT: _limit}.get(option.kind, read)


def _limit(name: str, token: Token) -> ContributionNumber:
    return AUTO if _is_word(token, AUTO.upper()) else _count(name, token, ", or AUTO")


def _count(name: str, token: Token, more: str = "") -> int:
    if (
        token.token_type is not TokenType.NUMBER
        or not token.text.isascii()
        or not token.text.isdigit()
        or len(token.text) > 9
    ):
        raise Refusal("option", f"{name} must be a whole number between 1 and 999999999{more}.")
    if int(token.text) == 0:
        raise Refusal("option", f"{name} must be at least 1.")
    return int(token.text)


def _strategy(name: str, token: Token) -> str:
    word = token.text.upper()
    if word not in SELECTION_STRATEGIES:
        raise Refusal("option", f"{name} must be one of {', '.join(SELECTION_STRATEGIES)}.")
    return word


#: By its name in the clause: the attribute of :class:`Options`, and how it is read.
_READERS: Final[dict[str, tuple[str, Callable[[str, Token], object]]]] = {
    **{option.clause: (name, _reader(option)) for name, option in OPTIONS.items() if option.clause},
    "kappa": ("max_groups", _limit),
    "max_rows_joined": ("max_rows_joined", _count),
    "group_selection_strategy": ("group_selection", _strategy),
}
