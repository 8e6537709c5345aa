"""Responses about releases of every kind, and about jobs."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self, Union

from pydantic import Field

from tacit.client.responses import AnswerResponse, ErrorDetailResponse, ReceiptResponse
from tacit.releases.api_types import DescribedAs, ResponseModel, maybe
from tacit.releases.kinds import KINDS
from tacit.releases.release import Made, Release

_ABOUT: Final = Union[tuple(kind.response for kind in KINDS.values())]  # noqa: UP007 - of a tuple


class ReleaseLineResponse(ResponseModel):
    """A release in a list."""

    kind: Literal[tuple(KINDS)]  # type: ignore[valid-type]  # the registered names
    position: int = Field(description="of its charge")
    names: list[str] = Field(description="by which it is found")
    source: str = Field(description="the table, or the SELECT of rows, that it was made of")
    time: str
    population: str

    @classmethod
    def of(cls, release: Release) -> Self:
        """The line of a release."""
        return cls.from_domain(release, names=list(release.names))


class ReleasesResponse(ResponseModel):
    """Releases, the oldest first."""

    releases: list[ReleaseLineResponse]


class ReleaseResponse(ResponseModel):
    """A release that was paid for; everyone who sees its population reads it free."""

    kind: Literal[tuple(KINDS)]  # type: ignore[valid-type]
    position: int
    about: Annotated[dict, DescribedAs(_ABOUT)]  # type: ignore[type-arg]  # described as one of the kinds' responses
    files: list[str] = Field(description="names for ?file=")
    receipt: ReceiptResponse

    @classmethod
    def of(cls, kind: str, made: Made) -> Self:
        """The release that was made."""
        receipt = ReceiptResponse(receipt=dict(made.receipt.statement), signature=made.receipt.signature)
        about = KINDS[kind].describe(made).plain()
        files = list(KINDS[kind].files(made))
        return cls(kind=kind, position=made.receipt.position, about=about, files=files, receipt=receipt)

    def to_domain(self) -> Any:
        """The facts, as the kind has them."""
        return KINDS[self.kind].response.read(self.about)


class JobAcceptedResponse(ResponseModel):
    """Work that will be done later."""

    id: str
    state: Literal["waiting"]


class JobResponse(ResponseModel):
    """The state of such work, and its outcome."""

    id: str
    state: Literal["waiting", "running", "done", "failed"]
    seconds: float = Field(description="since it was put down, in whole slots")
    answer: AnswerResponse = maybe(description="of a query")
    release: ReleaseResponse = maybe(description="of a release")
    error: ErrorDetailResponse = maybe()
