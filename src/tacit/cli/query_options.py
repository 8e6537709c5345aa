"""Options of a question on the command line, for ``query``, ``explain`` and ``budget``."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.core.errors import InputError
from tacit.query.request import OPTIONS, OptionKind, QuestionOption, Request

SqlArgument = Annotated[str | None, typer.Argument(help='The question in SQL; "-" reads it from standard input.')]
SqlFile = Annotated[Path | None, typer.Option("--file", "-f", help="A file that holds the question.")]

#: More than any question may have; what is longer is refused by its length, not by memory.
_LONGEST = 2**20


def with_question_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command with a parameter ``options`` and, in its place, an option for each option of a question."""
    shown = inspect.signature(command, eval_str=True)
    parameters: list[inspect.Parameter] = []
    for each in shown.parameters.values():
        parameters += map(_parameter, OPTIONS.values()) if each.name == "options" else [each]

    @wraps(command)
    def run(**given: Any) -> None:
        command(**{name: value for name, value in given.items() if name not in OPTIONS}, options=_stated(given))

    run.__signature__ = shown.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def request_of(options: Mapping[str, Any], sql: str = "") -> Request:
    """The request that was typed; nothing in it is rounded or guessed."""
    typed = {name: value if isinstance(value, int) else OPTIONS[name].typed(value) for name, value in options.items()}
    return Request.of(sql, typed)


def _parameter(option: QuestionOption) -> inspect.Parameter:
    kind: Any = list[str] | None if option.named else int | None if option.kind is OptionKind.COUNT else str | None
    example = f"{option.example}, or column={option.example}" if option.kind is OptionKind.AMOUNTS else option.example
    told = typer.Option(help=f"{option.help[0].upper()}{option.help[1:]}: {example}.")
    place = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(option.name, place, default=None, annotation=Annotated[kind, told])


def _stated(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were typed: counts as numbers, all else as a list of texts."""
    stated = {name: given[name] for name in OPTIONS if given.get(name) not in (None, [])}
    return {name: [value] if isinstance(value, str) else value for name, value in stated.items()}


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
