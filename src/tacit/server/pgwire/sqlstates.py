"""SQLSTATEs of failures: the one place where codes of Tacit become codes of PostgreSQL."""

from __future__ import annotations

import math
from typing import Final

from tacit.server.errors import TooMany, Unauthenticated, describe
from tacit.server.pgwire.messages import WireFault, error_response
from tacit.server.pgwire.types import BadValue

#: SQLSTATE by code; a code such as ``query.sample`` counts as ``query`` where it is not listed itself.
STATES: Final = {
    "input": "22023",
    "input.conflict": "55000",
    "query": "0A000",
    "query.syntax": "42601",
    "query.empty": "42601",
    "query.several_statements": "42601",
    "query.unknown_table": "42P01",
    "query.unknown_column": "42703",
    "query.ambiguous": "42702",
    "query.function": "42883",
    "query.type": "42804",
    "query.group": "42803",
    "query.too_long": "54000",
    "query.too_deep": "54001",
    "query.literal": "42601",
    "budget": "53400",
    "access": "42501",
    "access.late": "53400",
    "accounting": "22023",
    "engine": "58000",
    "internal": "XX000",
    "internal.ledger": "58030",
    "internal.busy": "53000",
    "auth": "28000",
    "rate": "53000",
    "busy": "53000",
}


class StatementFault(Exception):  # noqa: N818  (of the client)
    """A statement cannot be carried out, for a reason of the protocol; the connection goes on.

    The hint says what to write instead.
    """

    def __init__(self, state: str, words: str, hint: str = "") -> None:
        super().__init__(words)
        self.state = state
        self.hint = hint


def state_of(code: str) -> str:
    """The SQLSTATE of a code."""
    return STATES.get(code) or STATES.get(code.partition(".")[0], "XX000")


def error_of(problem: BaseException, severity: str = "ERROR") -> tuple[str, str, bytes]:
    """Code, SQLSTATE and message of a failure, without protected text."""
    if isinstance(problem, StatementFault):
        return "postgres", problem.state, error_response(severity, problem.state, str(problem), hint=problem.hint)
    if isinstance(problem, WireFault):
        return "postgres", problem.state, error_response(severity, problem.state, str(problem))
    if isinstance(problem, BadValue):
        return "input", "22P02", error_response(severity, "22P02", str(problem))
    failure = describe(problem)
    state = state_of(failure.code)
    words = failure.message
    if isinstance(problem, TooMany):
        words = f"too many requests; wait {math.ceil(problem.seconds)} s"
    elif isinstance(problem, Unauthenticated):
        words = "the token of this connection is not valid any more"
    detail = f"code {failure.code}" + (f", id {failure.id}" if failure.id else "")
    return failure.code, state, error_response(severity, state, words, detail=detail, hint=_hint(failure.parameter))


def _hint(parameter: str) -> str:
    if parameter in ("epsilon", "rho", "mu", "within"):
        return f"SET tacit.{parameter} = '…'; and RESET tacit.{parameter}; takes it back."
    return ""
