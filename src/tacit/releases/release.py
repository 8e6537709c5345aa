"""Releases of every kind as one resource: a list, one of them by its position, and its files.

A kind is an object of its own module (:class:`ReleaseKind`) and a line in :mod:`tacit.releases.kinds`. The API, the
console and clients know nothing else of it; the console shows it by the template ``release_<kind>.html``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, TypeVar

from tacit.core.errors import InputError
from tacit.ledger.entries import plain_name
from tacit.ledger.history import charge_at
from tacit.releases.accounts import Entry
from tacit.releases.api_types import RequestModel, ResponseModel
from tacit.releases.payment import Caller, Departure, hide_internal_errors
from tacit.releases.receipt import Receipt

if TYPE_CHECKING:
    from tacit.releases.query import QueryContext

#: Media types of files, by the ending of a name.
MEDIA_TYPES: Final = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "json": "application/json",
    "toml": "application/toml",
    "ipynb": "application/x-ipynb+json",
}
#: Forms in which a table is handed out.
TABLE_FORMS: Final = ("csv", "parquet")
#: Synthetic tables are named after their source, with this ending.
SYNTHETIC_SUFFIX: Final = "_synthetic"
Files = Mapping[str, Callable[[], bytes]]


class Made(Protocol):
    """What a release is in Python: a table, answers, a model."""

    @property
    def charge(self) -> Entry:
        """Its charge."""

    @property
    def receipt(self) -> Receipt:
        """The receipt of that charge."""


Ask = TypeVar("Ask", bound=RequestModel)
Result = TypeVar("Result", bound=Made)


@dataclass(frozen=True)
class Release:
    """Something that was paid for and is free to read.

    Args:
        kind: name of its kind.
        position: of its charge in the ledger.
        names: by which it is found: tables, or one text that says what it is.
        source: the table, or the SELECT of rows, that it was made of.
        time: of the charge.
        population: whose budget paid.
    """

    kind: str
    position: int
    names: tuple[str, ...]
    source: str
    time: str
    population: str

    @property
    def title(self) -> str:
        return " and ".join(self.names)


class ReleaseKind(ABC, Generic[Ask, Result]):
    """A kind of release that is made on request: how it is asked for, made, read and handed out.

    Attributes:
        name: in requests and addresses, and of the part of a charge that is kept to read the release again.
        label: beginning of the text of a charge of this kind.
        request: the body that asks for one.
        response: facts about one.
        by_analysts: whether analysts may make one; owners always may.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    request: ClassVar[type[RequestModel]]
    response: ClassVar[type[ResponseModel]]
    by_analysts: ClassVar[bool] = False

    @abstractmethod
    def names(self, kept: Mapping[str, Any]) -> tuple[str, ...]:
        """Names of a release, from what its charge keeps."""

    def source(self, kept: Mapping[str, Any]) -> str:
        """The rows that it was made of."""
        return str(kept["source"])

    @abstractmethod
    def quote(self, context: QueryContext, request: Ask) -> str:
        """Cost and errors in words; refuses what :meth:`make` would refuse. Free; reads no data."""

    @abstractmethod
    def make(self, context: QueryContext, request: Ask, caller: Caller, departure: Departure | None = None) -> Result:
        """Charge for one and make it; ``departure`` decides when the outcome of an analyst's may become known."""

    @abstractmethod
    def read(self, context: QueryContext, position: int) -> Result:
        """The one that the ledger holds at a position: free, reads no data."""

    @abstractmethod
    def describe(self, made: Result) -> ResponseModel:
        """Facts about it, from what was released alone."""

    @abstractmethod
    def files(self, made: Result) -> Files:
        """Its files by name, each written when it is asked for."""

    def numbers(self, made: Result) -> Iterable[tuple[str, Any, Any, Any]]:  # noqa: ARG002 - most kinds have no table
        """What each released number is the answer to, with its value and the ends of its interval."""
        return ()

    def progress(self, context: QueryContext, request: Ask) -> str:  # noqa: ARG002 - most kinds say nothing
        """How far one that is being made has come; empty where that is not known."""
        return ""


Kinds = Mapping[str, ReleaseKind[Any, Any]]


def released(context: QueryContext, kinds: Kinds, kind: str | None = None) -> tuple[Release, ...]:
    """The releases of a project that exist for the caller, the oldest first; free."""
    if kind is not None and kind not in kinds:
        raise InputError("kind", f"must be one of {', '.join(kinds)}")
    chosen = [kinds[kind]] if kind is not None else list(kinds.values())
    found = []
    with hide_internal_errors():
        for population in context.catalog.populations:
            for record in context.ledger.history(population=population.name):
                if any(record.sql.startswith(each.label) for each in chosen):
                    release = _release(context, chosen, record.seq)
                    found += [] if release is None else [release]
    return tuple(sorted(found, key=lambda each: each.position))


def release_at(context: QueryContext, kinds: Kinds, position: int) -> Release | None:
    """The release at a position; None where there is none for the caller."""
    with hide_internal_errors():
        found = _release(context, kinds.values(), position)
    known = {plain_name(population.name, "population") for population in context.catalog.populations}
    return found if found is not None and found.population in known else None


def read_release(context: QueryContext, kinds: Kinds, which: int | str) -> Any:
    """What a release is in Python, by its position, or by a name (of several the newest); free, reads no data.

    Raises:
        InputError: there is none, or its columns are declared otherwise now.
    """
    if isinstance(which, str):
        known = released(context, kinds)
        found = next((each for each in reversed(known) if which.lower() in map(str.lower, each.names)), None)
        if found is None:
            names = ", ".join(sorted({name for each in known for name in each.names})) or "none yet"
            raise InputError("which", f"there is no release {which[:80]!r}; there are: {names}")
    else:
        found = release_at(context, kinds, which)
        if found is None:
            raise InputError("which", f"there is no release at {which}")
    return kinds[found.kind].read(context, found.position)


def _release(context: QueryContext, kinds: Iterable[ReleaseKind[Any, Any]], position: int) -> Release | None:
    charged = charge_at(context.ledger, position)
    if charged is None or charged.record.project != context.project or not charged.record.answered:
        return None
    record = charged.record
    for kind in kinds:
        kept = charged.quote.get(kind.name)
        if kept and record.sql.startswith(kind.label):
            return Release(kind.name, position, kind.names(kept), kind.source(kept), record.time, record.population)
    return None
