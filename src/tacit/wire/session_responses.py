"""Bodies about sessions of counting queries: their state, hard answers, and the answer to a query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from pydantic import Field

from tacit.wire.response_body import Exact, ResponseBody, Scalar
from tacit.wire.responses import ReceiptBody
from tacit.wire.values import value_to_json

if TYPE_CHECKING:
    from tacit.paid_work.query_session import OpenedSession, QuerySession
    from tacit.paid_work.session_record import SessionTerms


class SessionTold(ResponseBody):
    """A session that was paid for."""

    position: int
    source: str
    columns: list[str]
    epsilon: Exact
    threshold: int
    time: str
    population: str

    @classmethod
    def of(cls, session: OpenedSession) -> Self:
        """The line about a session."""
        return cls(
            position=session.position,
            **_plain(session.terms),
            time=session.time,
            population=session.population,
        )


class SessionsBody(ResponseBody):
    """Sessions of the caller, the oldest first."""

    sessions: list[SessionTold]


class HardAnswerTold(ResponseBody):
    """A query that data had to answer; its receipt is that of its position."""

    where: dict[str, list[Scalar]] = Field(description="values by column; any of columns that are left out")
    answer: int = Field(description="with noise")
    position: int = Field(description="of the charge of its part")


class SessionBody(ResponseBody):
    """A session with everything that was paid for."""

    position: int
    source: str
    columns: list[str]
    epsilon: Exact
    threshold: int
    population: str
    rows: int = Field(description="number of rows, with noise")
    parts: int = Field(description="number of parts that were charged")
    hard: list[HardAnswerTold]
    closed: bool
    receipt: ReceiptBody

    @classmethod
    def of(cls, session: QuerySession) -> Self:
        """The body about a session."""
        columns = session.counts.columns
        hard = [
            HardAnswerTold(
                where={
                    name: [value_to_json(value, columns[name].type) for value in values]
                    for name, values in session.values(each).items()
                },
                answer=each.answer,
                position=each.position,
            )
            for each in session.hard_answers
        ]
        return cls(
            position=session.position,
            **_plain(session.terms),
            population=session.counts.population,
            rows=session.rows,
            parts=session.parts,
            hard=hard,
            closed=session.closed,
            receipt=ReceiptBody(receipt=dict(session.receipt.statement), signature=session.receipt.signature),
        )


class SessionAnswerBody(ResponseBody):
    """The answer to one query of a session."""

    answer: float = Field(description="with noise where the query was hard, else of the public histogram")
    hard: bool = Field(description="whether data was needed beyond saying that it was not; the part has ended then")
    charged: bool = Field(description="whether this query has begun a part, which costs the session's epsilon")
    position: int = Field(description="of the charge of the part that gave the answer")
    within: float = Field(description="bound at 95 % on the errors of all answers that the part has given so far")


def _plain(terms: SessionTerms) -> dict[str, Any]:
    """Terms of a session as both bodies have them."""
    return {
        "source": terms.source, "columns": list(terms.columns), "epsilon": terms.epsilon, "threshold": terms.threshold,
    }  # fmt: skip
