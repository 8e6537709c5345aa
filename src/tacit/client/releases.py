"""Releases of every kind, and jobs: bodies of responses, and releases of a server with files that are fetched."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, Union

from pydantic import Field

from tacit.client.responses import AnswerResponse, ErrorDetailResponse, ReceiptResponse
from tacit.core.errors import InputError
from tacit.core.extras import load_arrow
from tacit.engines.registry import query_public
from tacit.query.parsing.sql_text import Query, query_text
from tacit.releases.api_types import DescribedAs, ResponseModel, maybe
from tacit.releases.kinds import KINDS
from tacit.releases.profile import PROFILE
from tacit.releases.receipt import Receipt
from tacit.releases.release import TABLE_FORMS, Made, Release
from tacit.releases.synthesis import SYNTHESIS
from tacit.releases.workload import WORKLOAD

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

    def _arrow(self, name: str) -> Any:
        return load_arrow("pyarrow.parquet").read_table(io.BytesIO(self.file(f"{name}.parquet")))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.receipt.position}: {', '.join(self.files[:4])}>"


class RemoteSyntheticTables(RemoteRelease):
    """Synthetic table on a server, or two related ones; methods without ``name`` use the first."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tables."""
        return tuple(each.name for each in self.about.tables)

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def rows(self) -> int:
        return int(self.about.tables[0].rows)

    @cached_property
    def _tables(self) -> Mapping[str, Any]:
        return {name: self._arrow(name) for name in self.names}

    def to_arrow(self, name: str = "") -> Any:
        """Return a table as Arrow."""
        if name and name not in self.names:
            raise InputError("name", f"must be one of {', '.join(self.names)}")
        return self._tables[name or self.name]

    def to_pandas(self, name: str = "") -> Any:
        """Return a table as a pandas frame."""
        return self.to_arrow(name).to_pandas()

    def sql(self, query: Query) -> Any:
        """Run ordinary SQL on the tables, computed locally: free, and without intervals."""
        found = query_public(query_text(query, "query"), dict(self._tables))
        return found.replace_schema_metadata({**(found.schema.metadata or {}), b"note": self.about.note.encode()})

    def save(self, path: str | Path, name: str = "") -> None:
        """Write a table to a Parquet or CSV file, by the ending of its name."""
        target = Path(path)
        if target.suffix.removeprefix(".") not in TABLE_FORMS:
            raise InputError("path", "must end in .parquet or .csv")
        target.write_bytes(self.file(f"{name or self.name}{target.suffix}"))

    def report(self) -> str:
        """Describe the quality, from released measurements alone."""
        return "\n".join(each.report for each in self.about.tables)


class RemoteWorkload(RemoteRelease):
    """Answers to a workload, on a server."""

    @property
    def root_mean_square_error(self) -> float:
        """Root of the mean variance of all answers."""
        return float(self.about.root_mean_square_error)

    def table(self, place: int) -> Any:
        """Return the answers of one table as Arrow: labels, ``count``, ``stddev``, ``low`` and ``high``."""
        if not 0 <= place < len(self.about.tables):
            raise InputError("place", f"must be from 0 to {len(self.about.tables) - 1}, the places of the tables")
        return self._arrow(f"table-{place}")

    def marginal(self, *columns: str) -> Any:
        """Return the answers of the table with these columns, as :meth:`table` does."""
        for place, each in enumerate(self.about.tables):
            if sorted(each.columns) == sorted(columns):
                return self.table(place)
        raise InputError("columns", f"{', '.join(columns)} is no table of the workload")


class RemoteProfile(RemoteRelease):
    """Profile of a table, on a server."""

    def to_arrow(self) -> Any:
        """Return the profile as Arrow, one row per column."""
        return self._arrow("profile")

    def draft(self) -> str:
        """Return the text of a project file with the bounds and categories found."""
        return self.file("tacit.toml").decode()


#: Classes of the kinds with further methods; all other kinds are a :class:`RemoteRelease`.
REMOTE: Final[Mapping[str, type[RemoteRelease]]] = {
    SYNTHESIS.name: RemoteSyntheticTables,
    WORKLOAD.name: RemoteWorkload,
    PROFILE.name: RemoteProfile,
}
