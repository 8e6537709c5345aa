"""Sessions of counting queries: any number of them, of which only the hard ones are paid for.

A session is private multiplicative weights, part by part. The charge that opens it pays for the number of rows. Each
part is charged before it begins, answers queries from a public histogram as long as that is close to the truth, and
ends with the first query on which it is not: the noisy answer is the outcome of the part's charge, on disk with its
receipt before it is shown. The histogram is made of these outcomes alone, so that every process that reads the ledger
has it, and a session outlives the process that opened it. The noise that watches over a part is kept in memory alone
and cannot be drawn a second time: a process that goes on with a session begins a part of its own.
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import re
import threading
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.currencies import AccountGuarantee, currency_named
from tacit.charges.accounts import Entry
from tacit.charges.payment import (
    Caller,
    CuratorContext,
    Departure,
    check_succeeded,
    entry_of,
    failed_run,
    hide_internal_errors,
    log_failed_run,
    paid_at,
    paid_before,
    pay,
)
from tacit.core.errors import AccessError, InputError, InternalError
from tacit.core.events import PureEvent
from tacit.core.extras import load_arrow
from tacit.core.numbers import Number, check_count, exact_positive
from tacit.ledger import FAILED, Order, Outcome, Reservation
from tacit.ledger.entries import plain_name
from tacit.ledger.history import charge_at
from tacit.mechanisms.laplace import Laplace
from tacit.paid_work.marginal_counts import MarginalCounts, countable_rows
from tacit.paid_work.mechanism_release import event_for, value_to_text
from tacit.paid_work.session_record import ENDED, PART, SESSION, HardAnswer, SessionRecord, SessionTerms, hard_text
from tacit.query.types import Value
from tacit.receipts.keys import commit_signed
from tacit.receipts.receipt import Receipt, ReceiptStatement, about_mechanism, issue, quoted
from tacit.receipts.release_format import canonical, digest_of
from tacit.synth.multiplicative_weights import HardQuery, PublicWeights, QueryStream, sure_answer

#: Cells of a session, all of which every query reads.
_MOST_CELLS: Final = 100_000
_LABEL: Final = "query session about "
_LONGEST_LABEL: Final = 150
_DECIMAL: Final = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?")
#: Parts of a session: each hard answer moves the histogram again whenever a process takes the session up.
_MOST_PARTS: Final = 1000
#: Probability of an answer beyond the bound that is told with it.
_SURE: Final = Fraction(1, 20)


@dataclass(frozen=True)
class SessionAnswer(HardQuery):
    """An answer of a session.

    Args:
        answer: the noisy answer where the query was hard, else that of the public histogram.
        hard: whether data was needed beyond saying that it was not.
        position: of the charge of the part that gave it.
        charged: whether this query has begun that part, which costs the epsilon of the session.
        within: bound at 95 % on the errors of all answers that the part has given so far.
    """

    position: int
    charged: bool
    within: float


@dataclass(frozen=True)
class OpenedSession:
    """A session that was paid for, as the ledger holds it.

    Args:
        position: of the charge that opened it.
        terms: of the session.
        analyst: to whom it belongs.
        time: of the charge.
        population: that pays.
    """

    position: int
    terms: SessionTerms
    analyst: str
    time: str
    population: str


@dataclass
class _OpenPart:
    """A part under way in this process: its stream, the charge for it, and how many queries it has answered."""

    stream: QueryStream
    under: Reservation
    asked: int = 0


def opened_sessions(context: CuratorContext) -> tuple[OpenedSession, ...]:
    """The sessions of a project, of all people, the oldest first; free."""
    with hide_internal_errors():
        found = [
            OpenedSession(record.seq, SessionTerms.of(told), record.analyst, record.time, record.population)
            for record, told in paid_before(context, _LABEL, SESSION)
        ]
    return tuple(sorted(found, key=lambda each: each.position))


def session_at(context: CuratorContext, position: int) -> OpenedSession | None:
    """The session that the charge at a place has opened, of any person; None where there is none."""
    with hide_internal_errors():
        charged = charge_at(context.ledger, position)
        told = None if charged is None else charged.quote.get(SESSION)
        if charged is None or told is None or charged.record.project != context.project:
            return None
        record = charged.record
        if not record.answered:
            return None
        return OpenedSession(record.seq, SessionTerms.of(told), record.analyst, record.time, record.population)


def session_population(context: CuratorContext, source: str, columns: Sequence[str]) -> str:
    """The population whose budget would pay for a session; refuses one that cannot be opened. Free; reads no data."""
    with hide_internal_errors():
        return _one_row_each(context, source, columns).population


class QuerySession:
    """A stream of counting queries about some columns; made by :meth:`tacit.curator.curator.Curator.query_session`.

    >>> session = curator.query_session("visits", ["ward", "sex"], epsilon="0.1", threshold=50)  # doctest: +SKIP
    >>> session.ask({"ward": ["A", "B"], "sex": "f"}).answer  # doctest: +SKIP

    Several threads may ask; their queries take turns. ``charges`` are those of this object, ``receipt`` is that of the
    charge that opened the session.

    Args:
        context: ledger, engine and metadata.
        source: a table or a SELECT of rows.
        columns: with public values; their cross product are the cells.
        epsilon: price of each part, and of the number of rows.
        threshold: error of an answer that is let pass.
        caller: who asks.
        departure: decides when it may become known that the rows were counted.

    Raises:
        Refusal, InputError: the columns cannot be counted, or a person may have several rows; nothing is charged.
        BudgetError: the account does not allow the charge.
        FailedRunError: counting failed.
    """

    _part: _OpenPart | None
    _raw: NDArray[np.int64] | None

    def __init__(
        self,
        context: CuratorContext,
        source: str,
        columns: Sequence[str],
        *,
        epsilon: Number,
        threshold: int,
        caller: Caller,
        departure: Departure | None = None,
    ) -> None:
        with hide_internal_errors():
            counts = _one_row_each(context, source, columns)
            terms = SessionTerms(
                source, tuple(counts.sizes), exact_positive(epsilon, "epsilon"),
                check_count(threshold, "threshold", maximum=2**40), digest_of(counts.text), caller.conversation,
            )  # fmt: skip
            self._set_up(context, counts, terms, caller)
            paid = self._open(departure)
            self._begin_record(paid)

    @classmethod
    def resumed(cls, context: CuratorContext, position: int, caller: Caller) -> Self:
        """Go on with the session that a charge has opened; nothing is charged and no data is read before a query.

        Raises:
            InputError: there is no session of the caller at this place, or its columns are declared otherwise now.
        """
        with hide_internal_errors():
            charged, told, outcome = paid_at(context, position, SESSION)
            terms = SessionTerms.of(told)
            mine = plain_name(caller.analyst, "analyst", empty=True), caller.conversation
            if (charged.record.analyst, terms.conversation) != mine or charged.record.project != context.project:
                raise InputError("position", f"there is no {SESSION} of yours at {position}")
            counts = _one_row_each(context, terms.source, terms.columns)
            if digest_of(counts.text) != terms.cells:
                raise InputError("position", f"the columns of {terms.source} are declared otherwise than at {position}")
            made = cls.__new__(cls)
            made._set_up(context, counts, terms, caller)
            made._begin_record(outcome)
            return made

    @property
    def position(self) -> int:
        """Place of the charge that opened the session, by which it can be gone on with."""
        return self._record.position

    @property
    def hard(self) -> int:
        """Number of queries that data had to answer."""
        return len(self.hard_answers)

    @property
    def hard_answers(self) -> tuple[HardAnswer, ...]:
        """Queries that data had to answer, with their answers; free."""
        with hide_internal_errors(), self._public:
            self._catch_up()
            return tuple(self._record.hard)

    @property
    def parts(self) -> int:
        """Number of parts that were charged, by all processes that went on with the session."""
        with hide_internal_errors(), self._public:
            self._catch_up()
            return len(self._record.parts)

    @property
    def closed(self) -> bool:
        """Whether the session has ended."""
        with hide_internal_errors(), self._public:
            self._catch_up()
            return self._record.closed

    @property
    def watching(self) -> bool:
        """Whether a part is open in this process."""
        return self._part is not None and not self._record.closed

    @property
    def analyst(self) -> str:
        """To whom the session belongs."""
        return self._caller.analyst

    @property
    def rows(self) -> int:
        """Number of rows, with noise."""
        return self._weights.total

    def values(self, answer: HardAnswer) -> dict[str, list[Value | None]]:
        """Chosen values of a hard query by column, but for columns of which any would do."""
        named = zip(self.counts.columns.items(), answer.places, strict=True)
        return {name: [c.values[at] for at in places] for (name, c), places in named if len(places) < len(c.values)}

    def histogram(self) -> Any:
        """The public histogram as it is now, an Arrow table: values and expected count of each cell; free."""
        pa = load_arrow()

        with hide_internal_errors(), self._public:
            self._catch_up()
            expected = self._weights.histogram
        cells = list(itertools.product(*(column.values for column in self.counts.columns.values())))
        made = {name: [cell[place] for cell in cells] for place, name in enumerate(self.counts.sizes)}
        return pa.table(made | {"count": expected})

    def ask(self, where: Mapping[str, Any], *, key: str = "", departure: Departure | None = None) -> SessionAnswer:
        """About how many rows have one of some values in each of some columns.

        A part is charged where none is open: at the first query, and at the first one after a hard one.

        Args:
            where: a value or a list of values by column; columns that are left out may have any.
            key: a name for this request: sent again, a hard query gets the answer that was paid for.
            departure: decides when it may become known that rows were counted, where a part has to count them.

        Raises:
            InputError: a column or a value is unknown; nothing is charged.
            AccessError: the session was closed.
            BudgetError: the account does not allow another part.
            FailedRunError: counting failed.
        """
        with hide_internal_errors():
            places = self._places(where)
            named = digest_of(canonical([key, [list(each) for each in places]])) if key else ""
            with self._turns:
                with self._public:
                    self._catch_up()
                    before = next((each for each in self._record.hard if named and each.key == named), None)
                    if before is not None:
                        return SessionAnswer(float(before.answer), True, before.position, False, self._within(1))
                    self._check_open()
                charged = self._part is None
                part = self._part = self._part or self._begin_part(departure)
                with self._public:
                    return self._ask_part(part, places, named, charged=charged)

    def _ask_part(
        self, part: _OpenPart, places: tuple[tuple[int, ...], ...], named: str, *, charged: bool
    ) -> SessionAnswer:
        """The answer of an open part; a hard query ends it."""
        found = part.stream.ask(self._query(places))
        part.asked += 1
        position = part.under.seq
        if found.hard:
            self._part = None
            answer = HardAnswer(position, places, int(found.answer), named)
            self._moved.add(position)
            # First on disk, then shown. A part that was closed meanwhile has another outcome, and shows nothing.
            if self._commit(part.under, hard_text(answer)).repeated:
                self._record.closed = True
                self._check_open()
        return SessionAnswer(found.answer, found.hard, position, charged, self._within(part.asked))

    def close(self) -> None:
        """End the session for all processes: parts that are open get their receipts, and no query is answered."""
        with hide_internal_errors(), self._public:
            for under in self._record.close():
                self._commit(under, ENDED)
            self._part = self._raw = None

    def error(self, beta: Number, queries: int) -> float:
        """Bound on the errors of so many answers of one part, exceeded with probability at most ``beta``."""
        return self._stream(np.zeros(self._cells, dtype=np.int64)).error(beta, queries)

    def _within(self, queries: int) -> float:
        return self.error(_SURE, queries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<QuerySession {self.position} about {', '.join(self.terms.columns)} of {self.terms.source}>"

    def _set_up(self, context: CuratorContext, counts: MarginalCounts, terms: SessionTerms, caller: Caller) -> None:
        self._context, self._caller = context, caller
        self.counts, self.terms = counts, terms
        self._relation = context.catalog.population(counts.population).relation
        self._event = PureEvent(terms.epsilon, "query_stream", relation=self._relation)
        self._label = f"{_LABEL}{', '.join(counts.sizes)} of {terms.source}"[:_LONGEST_LABEL]
        self._cells = int(np.prod(list(counts.sizes.values()), dtype=np.int64))
        # Queries take turns, also while rows are counted; all that is public can be looked at meanwhile.
        self._turns, self._public = threading.Lock(), threading.Lock()
        self._part = self._raw = None
        self._version = ""
        # Parts whose hard answers have moved the histogram of this object before they were in the ledger.
        self._moved: set[int] = set()
        self.charges: list[Entry] = []

    def _open(self, departure: Departure | None) -> Outcome:
        """Pay for the number of rows; the rows are counted, and the counts kept in memory."""
        mechanism = Laplace(epsilon=self.terms.epsilon, l1_sensitivity=1, relation=self._relation)
        order, about, guarantee = self._order(mechanism, "number of rows", {SESSION: self.terms.plain()})

        def run(_: Reservation) -> int:
            self._raw = self._count(departure)
            return max(1, int(mechanism.release(int(self._raw.sum()))))

        work = self.counts.work([tuple(self.counts.sizes)])
        if departure is not None:
            departure.check(work)
        paid = pay(
            self._context, order, run, value_to_text, lambda _, digest: self._statement(about, guarantee, digest),
            departure=departure, plan=work,
        )  # fmt: skip
        check_succeeded(paid.outcome)
        self.charges.append(entry_of(paid.outcome, sql=order.sql, analyst=self._caller.analyst, paid=paid.now))
        return paid.outcome

    def _begin_record(self, opened: Outcome) -> None:
        self.receipt = Receipt.from_json(opened.receipt)
        total = int(json.loads(opened.result)["value"]["integer"])
        self._weights = PublicWeights(self._cells, total)
        self._record = SessionRecord(self._context.ledger, opened.reservation.seq)
        self._catch_up()

    def _catch_up(self) -> None:
        """Move the histogram towards hard answers that are new in the ledger, but for those that have moved it."""
        sure = sure_answer(self.terms.epsilon, self._relation)
        new = [each for each in self._record.catch_up() if each.position not in self._moved]
        self._weights.move_all([(self._query(each.places), each.answer) for each in new], sure)

    def _check_open(self) -> None:
        if self._record.closed:
            self._part = self._raw = None
            raise AccessError(f"session {self.position} was closed; open another one")

    def _begin_part(self, departure: Departure | None) -> _OpenPart:
        """Charge for a part, and count the rows where this process has not counted them as they are now."""
        if len(self._record.parts) >= _MOST_PARTS:
            raise InputError("session", f"has had {_MOST_PARTS:,} parts; open another one, at a larger epsilon")
        context, raw = self._context, self._raw
        order, _, _ = self._order(self._event, "part", {PART: self._record.position})
        stale = raw is None or self._version != context.version(self.counts.tables())
        work = self.counts.work([tuple(self.counts.sizes)])
        if stale and departure is not None:
            departure.check(work)
        context.keys.check(context.ledger)
        under = context.ledger.reserve(order)
        if isinstance(under, Outcome):
            raise InternalError("a part has no key under which it could be found again")
        amounts = tuple(each for each in under.amounts if each.amount)
        self.charges.append(Entry(under.seq, under.population, amounts, order.sql, "", analyst=self._caller.analyst))
        if raw is None or stale:
            raw = self._count_again(under, departure)
        return _OpenPart(self._stream(raw), under)

    def _stream(self, raw: NDArray[np.int64]) -> QueryStream:
        return QueryStream(
            epsilon=self.terms.epsilon, counts=raw, weights=self._weights, threshold=self.terms.threshold,
            relation=self._relation,
        )  # fmt: skip

    def _count_again(self, under: Reservation, departure: Departure | None) -> NDArray[np.int64]:
        """Count under the charge of a part. A failure is the outcome of that charge."""
        self._raw = problem = None
        if departure is not None:
            departure.begin(self.counts.work([tuple(self.counts.sizes)]))
        try:
            self._raw = self._count(departure)
        except Exception as failure:
            if self._context.closing.is_set():
                raise
            log_failed_run(under, failure)
            problem = failure
        shown = departure is None or departure.end(failed=problem is not None)
        if self._raw is None or not shown:
            self._raw = None
            self._commit(under, FAILED.decode())
            raise failed_run(under)
        return self._raw

    def _count(self, departure: Departure | None) -> NDArray[np.int64]:
        names, version = tuple(self.counts.sizes), self._context.version(self.counts.tables())
        seconds = None if departure is None else departure.seconds
        raw = self.counts.count(self._context, [names], seconds=seconds)[names].ravel()
        self._version = version
        return raw

    def _order(
        self, charge: Any, about: str, quote: Mapping[str, Any]
    ) -> tuple[Order, dict[str, Any], AccountGuarantee]:
        """An order for a charge of the session, words about it for the receipt, and its price in the account."""
        context, counts, label = self._context, self.counts, f"{self._label}: {about}"
        guarantee = currency_named(context.accounts[counts.population].kind).price(charge, self._relation)
        told = about_mechanism(charge, event_for(charge, guarantee), label, released="")
        if isinstance(charge, PureEvent):
            told["mechanisms"][0]["mechanism"] = QueryStream.__name__
        told |= {
            "query": self.terms.source,
            "plan": self.terms.cells,
            "bounding": counts.bounding,
            "groups": f"public: all combinations of values of {', '.join(counts.sizes)}",
        }
        quote = {"mechanisms": quoted(told["mechanisms"]), **quote}
        key = self._caller.idempotency_key if SESSION in quote else ""
        request = digest_of(canonical([context.project, label, quote])) if key else ""
        order = Order(
            counts.population, guarantee, analyst=self._caller.analyst, project=context.project,
            conversation=self._caller.conversation, sql=label, plan=self.terms.cells, quote=quote,
            idempotency_key=key, request=request,
        )  # fmt: skip
        return order, told, guarantee

    def _statement(self, about: Mapping[str, Any], guarantee: AccountGuarantee, digest: str) -> ReceiptStatement:
        kind = self._context.accounts[self.counts.population].kind
        said = [{**about, "released": digest}]
        return ReceiptStatement(said, f"one of {self.counts.population}", kind, guarantee, self._context.catalog.digest)

    def _commit(self, under: Reservation, result: str) -> Outcome:
        """Keep the outcome of a part with its receipt, unless it has one."""
        context = self._context
        _, about, guarantee = self._order(self._event, "part", {})
        says = self._statement(about, guarantee, digest_of(result))
        return commit_signed(
            context.keys, context.ledger, under, result,
            lambda keys: issue(keys, context.ledger.id, context.project, under, says),
        )  # fmt: skip

    def _places(self, where: Mapping[str, Any]) -> tuple[tuple[int, ...], ...]:
        """Places of the chosen values of every column."""
        if not isinstance(where, Mapping):
            raise InputError("where", "must be values by column, such as {'sex': 'f'}")
        given: dict[str, Any] = {}
        for stated, value in where.items():
            name = str(stated).lower()
            if name not in self.counts.columns:
                known = ", ".join(self.counts.columns)
                raise InputError("where", f"{name[:63]!r} is not a column of the session; those are {known}")
            if name in given:
                raise InputError("where", f"has {name} twice; list all values of it at once")
            given[name] = list(value) if isinstance(value, list | tuple | set | range) else [value]
        made = []
        for name, column in self.counts.columns.items():
            chosen: Iterable[int] = range(len(column.values))
            if name in given:
                # Looked up, because lists may be as long as those of declared values.
                places = {_written(value): at for at, value in enumerate(column.values)}
                texts = {value.isoformat(): at for at, value in enumerate(column.values) if isinstance(value, dt.date)}
                chosen = {_place(places, texts, each, name) for each in given[name]}
            made.append(tuple(sorted(chosen)))
        return tuple(made)

    def _query(self, places: Sequence[Sequence[int]]) -> NDArray[np.int64]:
        cells = np.ones(1, dtype=np.int64)
        for chosen, size in zip(places, self.counts.sizes.values(), strict=True):
            axis = np.zeros(size, dtype=np.int64)
            axis[list(chosen)] = 1
            cells = np.multiply.outer(cells, axis).ravel()
        return cells


def _written(value: Any) -> Hashable:
    """A value, such that equal numbers are equal and no number is true or false."""
    return (bool, value) if isinstance(value, bool) else value


def _place(places: Mapping[Hashable, int], texts: Mapping[str, int], stated: Any, column: str) -> int:
    """Place of the declared value that is stated, perhaps by its text: JSON has no dates and no decimals."""
    try:
        found = places.get(_written(stated))
    except TypeError:
        found = None
    if found is None and isinstance(stated, str):
        found = texts.get(stated)
        # Without exponents, whose powers could be as long as they like.
        if found is None and _DECIMAL.fullmatch(stated):
            found = places.get(Fraction(stated))
    if found is None:
        raise InputError("where", f"{str(stated)[:63]!r} is not a declared value of {column}")
    return found


def _one_row_each(context: CuratorContext, source: str, columns: Sequence[str]) -> MarginalCounts:
    if not isinstance(source, str):
        raise InputError("source", f"must be the name of a table or a SELECT of rows, not {type(source).__name__}")
    if isinstance(columns, str) or not columns:
        raise InputError("columns", "must be a list of names of columns")
    counts = countable_rows(context, source, columns, max_rows=1)
    cells = 1
    for size in counts.sizes.values():
        cells *= size
    if cells > _MOST_CELLS:
        raise InputError("columns", f"have {cells:,} combinations of values, and a session may have {_MOST_CELLS:,}")
    counts.check(context, [tuple(counts.sizes)])
    return counts
