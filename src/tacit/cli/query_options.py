"""Options shared by ``query``, ``explain`` and ``budget``."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.core.errors import InputError

__all__ = [
    "Confidence",
    "Delta",
    "Epsilon",
    "MaxGroups",
    "Mu",
    "PriceOptions",
    "Rho",
    "SqlArgument",
    "SqlFile",
    "Suppose",
    "Within",
    "read_sql",
]

SqlArgument = Annotated[str | None, typer.Argument(help='The question in SQL; "-" reads it from standard input.')]
SqlFile = Annotated[Path | None, typer.Option("--file", "-f", help="A file that holds the question.")]
Epsilon = Annotated[str | None, typer.Option(help="What the whole question may cost: 0.5.")]
Delta = Annotated[str | None, typer.Option(help="Its delta, where the account has one: 1e-8.")]
Rho = Annotated[str | None, typer.Option(help="A price in rho instead, for zcdp accounts.")]
Mu = Annotated[str | None, typer.Option(help="A price in mu instead, for gdp accounts.")]
Within = Annotated[
    list[str] | None, typer.Option(help="How far off answers may be instead of a price: 50, or column=50.")
]
Confidence = Annotated[str, typer.Option(help="Of the intervals, and of --within.")]
MaxGroups = Annotated[int | None, typer.Option(help="The most groups one unit counts in, if fewer than declared.")]
Suppose = Annotated[int | None, typer.Option(help="Values in a group, for the expected error of averages.")]

#: More than any question may have; what is longer is refused by its length, not by memory.
_LONGEST = 2**20


@dataclass(frozen=True)
class PriceOptions:
    """What is stated beside a question, as it was typed; nothing in it is rounded or guessed."""

    epsilon: str | None = None
    delta: str | None = None
    rho: str | None = None
    mu: str | None = None
    within: list[str] = field(default_factory=list)
    confidence: str = "0.95"
    max_groups: int | None = None
    suppose: int | None = None

    @property
    def is_stated(self) -> bool:
        """Whether it says what a question may cost or how good its answer must be."""
        return any((self.epsilon, self.rho, self.mu, self.within))

    @property
    def words(self) -> dict[str, Any]:
        """The keyword arguments of ``Curator.sql`` and ``Curator.explain``."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "rho": self.rho,
            "mu": self.mu,
            "within": _within(self.within),
            "confidence": self.confidence,
            "max_groups": self.max_groups,
            "suppose": self.suppose,
        }


def read_sql(sql: str | None, file: Path | None) -> str | None:
    """The question from where it was put: argument, file, or standard input if it is a pipe; None if nowhere."""
    if sql is not None and file is not None:
        raise InputError("file", "a question was given as well; give one of them")
    if file is not None:
        try:
            with file.open("rb") as stream:
                return _decoded(stream.read(_LONGEST), "file")
        except OSError as problem:
            raise InputError("file", f"cannot read {file}: {problem.strerror}") from None
    if sql == "-" or (sql is None and not sys.stdin.isatty()):
        return _decoded(sys.stdin.buffer.read(_LONGEST), "sql")
    return sql


def _decoded(content: bytes, parameter: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(parameter, "the question is not UTF-8 text") from None


def _within(said: list[str]) -> str | dict[str, str] | None:
    if not said:
        return None
    if len(said) == 1 and "=" not in said[0]:
        return said[0]
    named = {}
    for text in said:
        name, equals, bound = text.rpartition("=")
        if not equals or not name.strip():
            raise InputError("within", f"must be one number, or column=number once or more; got {text!r}")
        if name.strip() in named:
            raise InputError("within", f"names {name.strip()} twice")
        named[name.strip()] = bound.strip()
    return named
