"""Releases of every kind, and jobs: bodies of responses, and releases of a server with files that are fetched."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, Self, Union

from pydantic import Field

from tacit.client.responses import AnswerResponse, ErrorDetailResponse, ReceiptResponse
from tacit.core.errors import InputError
from tacit.core.extras import load_arrow
from tacit.releases.api_types import DescribedAs, ResponseModel, maybe
from tacit.releases.kinds import KINDS
from tacit.releases.receipt import Receipt
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
    seconds: float = Field(description="since it was submitted, in whole response steps")
    answer: AnswerResponse = maybe(description="of a query")
    release: ReleaseResponse = maybe(description="of a release")
    error: ErrorDetailResponse = maybe()


class RemoteRelease:
    """A release on a server, with a verified receipt.

    Args:
        body: kind, facts and names of files.
        receipt: receipt of its charge.
        fetch: fetches a file by its name.
    """

    def __init__(self, body: ReleaseResponse, receipt: Receipt, fetch: Callable[[str], bytes]) -> None:
        self.kind = body.kind
        self.about = body.to_domain()
        self.files = tuple(body.files)
        self.receipt = receipt
        self._fetch = fetch

    def file(self, name: str) -> bytes:
        """Return the content of one of :attr:`files`."""
        if name not in self.files:
            raise InputError("name", f"must be one of {', '.join(self.files[:20])}")
        return self._fetch(name)

    def table(self, name: str = "") -> Any:
        """Return a table as Arrow: the Parquet file of this name, by default the first one."""
        first = next((each for each in self.files if each.endswith(".parquet")), "a Parquet file")
        return load_arrow("pyarrow.parquet").read_table(io.BytesIO(self.file(f"{name}.parquet" if name else first)))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.receipt.position}: {', '.join(self.files[:4])}>"
