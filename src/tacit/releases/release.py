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
from tacit.releases.payment import Caller, ReleaseTimer, hide_internal_errors
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
#: File formats of tables.
TABLE_FORMS: Final = ("csv", "parquet")
#: Synthetic tables are named after their source, with this ending.
SYNTHETIC_SUFFIX: Final = "_synthetic"
Files = Mapping[str, Callable[[], bytes]]


class Made(Protocol):
    """Python object of a release: a table, answers or a model, with its charge and receipt."""

    @property
    def charge(self) -> Entry:
        """Ledger entry of the charge."""

    @property
    def receipt(self) -> Receipt:
        """Receipt of the charge."""


Ask = TypeVar("Ask", bound=RequestModel)
Result = TypeVar("Result", bound=Made)


@dataclass(frozen=True)
class Release:
    """Listing of a release that was charged and is free to read.

    Args:
        kind: name of its kind.
        position: position of its charge in the ledger.
        names: names by which it is found: of tables, or one description.
        source: the table, or the SELECT of rows, that it was made from.
        time: time of the charge.
        population: population whose account was charged.
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
    """A kind of release that is made on request, with its request, response, files and texts.

    Attributes:
        name: name of the kind in requests and URLs, and of the field of a stored charge with which it is read again.
        label: prefix of the label of a charge of this kind.
        request: class of the request's body.
        response: class of the response's body.
        by_analysts: whether analysts may make such a release; owners always may.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    request: ClassVar[type[RequestModel]]
    response: ClassVar[type[ResponseModel]]
    by_analysts: ClassVar[bool] = False

    @abstractmethod
    def names(self, kept: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the names of a release, from the stored field of its charge."""

    def source(self, kept: Mapping[str, Any]) -> str:
        """Return the table or SELECT that a release was made from."""
        return str(kept["source"])

    @abstractmethod
    def quote(self, context: QueryContext, request: Ask) -> str:
        """Return cost and errors as text; refuse requests that :meth:`make` would refuse. Free; reads no data."""

    @abstractmethod
    def make(self, context: QueryContext, request: Ask, caller: Caller, timer: ReleaseTimer | None = None) -> Result:
        """Charge for a release and make it; ``timer`` decides when an analyst may learn its outcome."""

    @abstractmethod
    def read(self, context: QueryContext, position: int) -> Result:
        """Return the release stored at a ledger position. Free; reads no data."""

    @abstractmethod
    def describe(self, made: Result) -> ResponseModel:
        """Return the response about a release, made from released numbers alone."""

    @abstractmethod
    def files(self, made: Result) -> Files:
        """Return the files of a release by name, each written on demand."""

    def numbers(self, made: Result) -> Iterable[tuple[str, Any, Any, Any]]:  # noqa: ARG002 - most kinds have no table
        """Return for each released number its description, its value and the ends of its interval."""
        return ()


Kinds = Mapping[str, ReleaseKind[Any, Any]]


def released(context: QueryContext, kinds: Kinds, kind: str | None = None) -> tuple[Release, ...]:
    """Return the releases about populations of the project, oldest first. Free."""
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
    """Return the release at a ledger position; None where there is none about a population of the project."""
    with hide_internal_errors():
        found = _release(context, kinds.values(), position)
    known = {plain_name(population.name, "population") for population in context.catalog.populations}
    return found if found is not None and found.population in known else None


def read_release(context: QueryContext, kinds: Kinds, which: int | str) -> Any:
    """Return the Python object of a release, by its position or by a name (the newest). Free; reads no data.

    Raises:
        InputError: there is no such release, or the declarations of its columns have changed since.
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
