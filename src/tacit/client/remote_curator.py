"""``tacit.connect``: the methods of a curator over HTTP.

It verifies the certificate of the server, the key that signs its receipts (stated, or the one seen the first time), and
of every answer that its receipt is valid and matches the query and the charge.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn, TypeVar, Unpack

from tacit.client.account_responses import BudgetsResponse, HistoryResponse, TablesResponse, read_amounts
from tacit.client.http_client import Channel, HttpReply, RemoteError, TrustError, error_of, parsing, request_key
from tacit.client.releases import (
    JobAcceptedResponse,
    JobResponse,
    ReleaseResponse,
    ReleasesResponse,
    RemoteRelease,
)
from tacit.client.responses import AnswerResponse, AnswerTableResponse, QuoteResponse, ReceiptResponse, query_body
from tacit.client.trust import SEEN, Identity, Witness, head_text, identity_of, own_keys, pin
from tacit.core.canonical import digest_of
from tacit.core.closing import Closing
from tacit.core.errors import AccessError, InputError
from tacit.core.guarantees import Guarantee
from tacit.core.numbers import Number, exact, exact_probability
from tacit.curator.curator import Asking, TableInfo, check_own
from tacit.ledger.errors import ConflictError
from tacit.ledger.protocol import Head
from tacit.query.parsing.sql_text import Query, query_text
from tacit.query.planning.explain import Explanation
from tacit.query.postprocess.bias import Bias
from tacit.query.postprocess.cells import Ends, as_shown
from tacit.query.query import OutputColumn
from tacit.query.request import QueryOptions, Request, takes_options
from tacit.query.types import Value
from tacit.releases.accounts import Budget, Entry, typed_price
from tacit.releases.answer import AnswerViews, QuoteForms
from tacit.releases.api_types import ResponseModel
from tacit.releases.kinds import request_text
from tacit.releases.model import Fitted
from tacit.releases.notebook import ChargeList, curator_html
from tacit.releases.receipt import Receipt, ReceiptReport, charge_of, verify_receipt
from tacit.releases.release import Release
from tacit.synth.synthesis_request import SynthesisOptions
from tacit.synth.workload import Workload, workload_to_plain


@dataclass(frozen=True)
class RemoteRows:
    """Rows of an answer, with intervals at one confidence.

    Args:
        columns: name and type of each column, and whether it has intervals.
        values: rows of values.
        ends: the interval of each cell.
        confidence: confidence of the intervals.
        biased: the interval of each cell that includes the bias.
        surely: the interval of each cell that includes what is sure of the bias.
        marks: for each cell, whether its bias may exceed its interval.
        bias: estimate of the bias; None where there can be none, or it was not estimated.
        estimated: whether the bias was estimated.
    """

    columns: tuple[OutputColumn, ...]
    values: tuple[tuple[Value | None, ...], ...]
    ends: tuple[tuple[Ends, ...], ...] = field(repr=False)
    confidence: Fraction
    biased: tuple[tuple[Ends, ...], ...] = field(default=(), repr=False)
    surely: tuple[tuple[Ends, ...], ...] = field(default=(), repr=False)
    marks: tuple[tuple[bool, ...], ...] = field(default=(), repr=False)
    bias: Bias | None = None
    estimated: bool = True

    @classmethod
    def of(cls, table: AnswerTableResponse) -> RemoteRows:
        """Return the rows of a response's table."""
        columns, cells, confidence = table.to_domain()
        values = tuple(tuple(cell.value for cell in row) for row in cells)
        ends = tuple(tuple(cell.ends for cell in row) for row in cells)
        biased = tuple(tuple(cell.biased for cell in row) for row in cells)
        surely = tuple(tuple(cell.sure for cell in row) for row in cells)
        bias = None if table.bias is None else table.bias.to_domain()
        marks = tuple(tuple(cell.marked for cell in row) for row in cells)
        known = "bias" in table.model_fields_set
        return cls(columns, values, ends, confidence, biased, surely, marks, bias, known)

    @property
    def has_interval(self) -> tuple[bool, ...]:
        """For each column, whether it has intervals."""
        return tuple(column.noisy for column in self.columns)

    @property
    def not_negative(self) -> tuple[bool, ...]:
        """For each column, whether its values are known to be >= 0; False where the server does not state it."""
        lows = (column.domain.range.low for column in self.columns)
        return tuple(low is not None and low >= 0 for low in lows)

    def intervals(
        self, confidence: Number | None = None, *, rows: int | None = None, bias: bool | None = None
    ) -> tuple[tuple[Ends, ...], ...]:
        """Return the interval of each cell (of the first ``rows``); ``bias`` as for :meth:`Finished.intervals`."""
        if bias and not self.estimated:
            raise InputError("bias", "is not known: the server did not estimate the bias")
        if confidence is not None and exact_probability(confidence, "confidence") != self.confidence:
            raise InputError("confidence", "is another than that of the answer: ask the query with it again, for free")
        plain, wide, sure = (each[:rows] for each in (self.ends, self.biased, self.surely))
        if bias is not None:
            return wide if bias else plain
        return as_shown(plain, wide, sure, [column.type for column in self.columns])

    def marked(self, *, rows: int | None = None) -> tuple[tuple[bool, ...], ...]:
        """Return for each cell (of the first ``rows``) whether its bias may exceed its interval."""
        return self.marks[:rows]


@dataclass(frozen=True, eq=False, repr=False)
class RemoteAnswer(AnswerViews):
    """Answer of a server, with a receipt that was verified against the pinned key.

    Args:
        finished: the rows.
        charge: the charge to the account; zero for a repeated query.
        receipt: the signed statement of the release and its charge; for a repeated query, that of the first time; None
            where, according to the server, the query reads public tables only.
        said: the server's note about the numbers, such as the bounds that AUTO found.
    """

    finished: RemoteRows
    charge: Entry
    receipt: Receipt | None
    said: str = ""

    @property
    def note(self) -> str:
        """Cost of the numbers and meaning of their intervals, one sentence each."""
        return f"{self.charge.text}. {self.said}" if self.said else super().note


@dataclass(frozen=True, repr=False)
class RemoteQuote(QuoteForms):
    """Effect and cost of a query, as a server states them: ``str`` for people, :meth:`to_json` for programs.

    Args:
        explanation: protected tables, each measurement with its noise, the cost and the expected errors.
        guarantee: the charge to the account.
        queries_left: number of such queries that the remaining budget allows.
        response_time: response time of a fresh answer, in seconds.
    """

    explanation: Explanation
    guarantee: Guarantee
    queries_left: int | None
    response_time: float


_POLL_SECONDS = 1.0
_Body = TypeVar("_Body", bound=ResponseModel)


def connect(
    url: str,
    token: str | None = None,
    *,
    public_key: str | None = None,
    ca_file: str | Path | None = None,
    timeout: float = 120.0,
) -> RemoteCurator:
    """Connect to a curator on a server.

    Args:
        url: of the server, ``https://…``; plain ``http`` only for this machine.
        token: as it was shown when it was issued; by default that in the environment variable ``TACIT_TOKEN``.
        public_key: the key that receipts are signed with, as the owner of the data told you. Without it the key that
            the server shows the first time is remembered. Another one later is an error, unless the key that was
            stated or remembered has signed that it follows.
        ca_file: certificates to trust instead of the system's or those of the environment's ``SSL_CERT_FILE``, for a
            server with one of its own.
        timeout: seconds to wait for the server to say anything.

    Raises:
        RemoteError: the server cannot be reached; ``TrustError`` if it is not the one that was known by this address.

    >>> remote = tacit.connect("https://tacit.example.org", token="tacit_…")  # doctest: +SKIP
    >>> remote.sql("SELECT COUNT(*) AS visits FROM visits", epsilon="0.1")  # doctest: +SKIP
    """
    found = token if token is not None else os.environ.get("TACIT_TOKEN", "")
    if not found:
        raise InputError("token", "state one, or set TACIT_TOKEN; the owner of the data issues it")
    channel = Channel(url, found, ca_file=ca_file, timeout=timeout)
    try:
        identity = identity_of(channel.get("/v1/key").content)
        pin(channel.url, identity, public_key)
        witness = Witness(channel.url, identity.ledger, lasting=public_key is None)
        remote = RemoteCurator(channel, identity, witness)
        remote.check_history()
    except BaseException:
        channel.close()
        raise
    return remote


class RemoteCurator(Asking, Closing):
    """The methods of :class:`tacit.Curator`, performed by a server. Made by :func:`tacit.connect`.

    Every method may be called from several threads at once. A query whose response is lost is sent again under the
    same key, and is charged once.
    """

    def __init__(self, channel: Channel, identity: Identity, witness: Witness) -> None:
        self._channel = channel
        self._identity = identity
        self._witness = witness
        self._keys = own_keys(identity)

    @property
    def url(self) -> str:
        return self._channel.url

    @property
    def public_key(self) -> str:
        """Public key that verifies the receipts this server signs now."""
        return self._identity.public_key

    @takes_options
    def sql(
        self,
        sql: Query,
        *,
        analyst: str | None = None,
        idempotency_key: str = "",
        **options: Unpack[QueryOptions],
    ) -> RemoteAnswer:
        """Answer a query in SQL.

        Args:
            sql: the query: text, or an expression of Ibis or SQLGlot.
            options: see below.
            analyst: cannot be stated here: it is the owner of the token.
            idempotency_key: as for :meth:`tacit.Curator.sql`.

        Raises:
            TrustError: the receipt is invalid, or does not match the query. The charge, if any, stands.
        """
        check_own(analyst)
        sql = query_text(sql)
        request = Request.of(sql, options)
        reply = self._ask(request, idempotency_key)
        with parsing("the answer"):
            body = AnswerResponse.read(reply.content)
            rows = RemoteRows.of(body)
        if body.public:
            if body.receipt is not None or body.charge is not None:
                raise TrustError("the server charged for an answer that it calls public")
            return RemoteAnswer(rows, Entry(0, "", (), sql, "", committed=True, public=True), None, body.note)
        receipt, charge = self._checked(reply, body, request)
        return RemoteAnswer(rows, charge, receipt, body.note)

    @takes_options
    def explain(self, sql: Query, **options: Unpack[QueryOptions]) -> RemoteQuote:
        """Return measurements, noise, cost and errors of :meth:`sql` with the same arguments. Free; reads no data."""
        reply = self._channel.post("/v1/explain", query_body(Request.of(query_text(sql), options)))
        with parsing("the quote"):
            body = QuoteResponse.read(reply.content)
            return RemoteQuote(*body.to_domain(), body.queries_left, body.response_time)

    def budget(
        self,
        quote: RemoteQuote | RemoteAnswer | None = None,
        *,
        population: str | None = None,
        analyst: str | None = None,
    ) -> Budget:
        """Return the spent and remaining budget; with a quote or an answer, also how many such queries still fit."""
        check_own(analyst)
        charge = None
        if isinstance(quote, RemoteAnswer):
            if quote.receipt is not None:
                population, charge = quote.charge.population, read_amounts(quote.receipt["charge"])
        elif quote is not None and not quote.is_public:
            population = quote.explanation.population
            charge = charge_of(quote.explanation.account, quote.guarantee)
        content = self._channel.get("/v1/budget", {} if population is None else {"population": population}).content
        with parsing("the budget"):
            told = BudgetsResponse.read(content).budgets
            found = [each.to_domain(charge) for each in told if population in (None, each.population)]
        if len(found) != 1:
            raise InputError("population", f"must be one of {', '.join(each.population for each in told)}")
        return found[0]

    def budgets(self, quote: RemoteQuote | RemoteAnswer | None = None) -> tuple[Budget, ...]:
        """Return the budgets of all accounts; with a quote or an answer, of the one that it is charged to."""
        if quote is not None and not quote.is_public:
            return (self.budget(quote),)
        told = self._got("the budgets", "/v1/budget", BudgetsResponse).budgets
        with parsing("the budgets"):
            return tuple(each.to_domain() for each in told)

    def _repr_html_(self) -> str:
        return curator_html("a curator on a server", [info.table for info in self.tables()], self.budgets())

    def tables(self) -> tuple[TableInfo, ...]:
        """Return the tables that you may query, with the declarations of their columns."""
        content = self._channel.get("/v1/tables").content
        with parsing("the tables"):
            return tuple(table.to_domain() for table in TablesResponse.read(content).tables)

    def history(
        self, *, population: str | None = None, analyst: str | None = None, limit: int | None = None
    ) -> tuple[Entry, ...]:
        """Return your charges in order, or those of ``analyst`` if you may see them; with ``limit``, the newest few."""
        entries: list[Entry] = []
        everyone = {} if analyst is None else {"everyone": "true"}
        query, before = dict(everyone), 2**63
        while True:
            content = self._channel.get("/v1/history", query).content
            with parsing("the history"):
                page = HistoryResponse.read(content)
                found = [entry.to_domain() for entry in page.entries]
            entries += [e for e in found if population in (None, e.population) and analyst in (None, e.analyst)]
            following = page.next
            if following is None or (limit is not None and len(entries) >= limit):
                break
            if following >= before:
                raise RemoteError("the history that the server sent does not end")
            before = following
            query = {**everyone, "before": str(before)}
        return ChargeList(reversed(entries[:limit]))

    def receipt(self, position: int) -> Receipt:
        """Return the verified receipt of a charge that you may see."""
        receipt = self._got("the receipt", f"/v1/receipts/{int(position)}", ReceiptResponse).to_domain()
        self._check(receipt)
        if receipt.position != position:
            raise TrustError(f"asked for receipt {position}, the server sent {receipt.position}")
        return receipt

    def check_receipt(self, receipt: Receipt | str | bytes) -> ReceiptReport:
        """Verify a receipt locally, with the key that signed it: the pinned one, its predecessor or its successor."""
        try:
            read = receipt if isinstance(receipt, Receipt) else Receipt.from_json(receipt)
        except InputError:
            return verify_receipt(receipt, self.public_key)
        return verify_receipt(read, self._key_of(read))

    def check_history(self) -> None:
        """Check that the server's ledger still holds the newest entry seen from here, and remember its head.

        This is done on connecting, and with every query.

        Raises:
            TrustError: the ledger lacks that entry: the server was restored to an older state.
        """
        head = self._identity.head
        if self._witness.known.seq:
            head = self._confirmed(self._witness.headers)
        # Stated in the same response as its predecessor, or the first entry seen at all.
        self._witness.advance(head, "", self._holds)

    def synthesize(
        self,
        source: Query | Mapping[str, Sequence[str] | None],
        columns: Sequence[str] | None = None,
        *,
        rows: int | None = None,
        method: str = "aim",
        idempotency_key: str = "",
        progress: Callable[[str], None] | None = None,
        **options: Unpack[SynthesisOptions],
    ) -> RemoteRelease:
        """Make a synthetic table, on the server as a job; for owners. See :meth:`tacit.Curator.synthesize`.

        Args:
            source: the name of a table, a SELECT of rows, or two tables.
            columns: columns to synthesise; by default all with declared categories or bounds.
            rows: number of rows to draw.
            method: ``"aim"``, ``"mst"``, ``"independent"`` or ``"marginals"``.
            options: the cost and :class:`tacit.synth.synthesis_request.SynthesisOptions`.
            idempotency_key: as for :meth:`tacit.Curator.sql`.
            progress: called with the state of the job while waiting for it.
        """
        made_from = source if isinstance(source, Mapping) else query_text(source, "source")
        made: RemoteRelease = self.make(
            "synthesis", source=made_from, columns=columns, rows=rows, method=method, idempotency_key=idempotency_key,
            progress=progress, **options,
        )  # fmt: skip
        return made

    def answer_workload(
        self,
        source: Query,
        workload: Workload,
        *,
        idempotency_key: str = "",
        progress: Callable[[str], None] | None = None,
        **options: Unpack[QueryOptions],
    ) -> RemoteRelease:
        """Answer many counting queries at once, as a job. See :meth:`tacit.Curator.answer_workload`.

        Args:
            source: the name of a table, or a SELECT of rows.
            workload: the queries.
            options: see below; the cost, ``confidence`` and ``max_rows`` apply here.
            idempotency_key: as for :meth:`tacit.Curator.sql`.
            progress: called with the state of the job while waiting for it.
        """
        made: RemoteRelease = self.make(
            "workload", source=query_text(source, "source"), workload=workload_to_plain(workload),
            idempotency_key=idempotency_key, progress=progress, **options,
        )  # fmt: skip
        return made

    def profile(
        self,
        table: str,
        *,
        idempotency_key: str = "",
        progress: Callable[[str], None] | None = None,
        **options: Unpack[QueryOptions],
    ) -> RemoteRelease:
        """Profile an undescribed table, as a job; for owners. See :meth:`tacit.Curator.profile`.

        Args:
            table: a protected table.
            options: the cost, ``confidence`` and ``suppose``.
            idempotency_key: as for :meth:`tacit.Curator.sql`.
            progress: called with the state of the job while waiting for it.
        """
        made: RemoteRelease = self.make(
            "profile", source=table, idempotency_key=idempotency_key, progress=progress, **options
        )
        return made

    def make(
        self,
        kind: str,
        *,
        idempotency_key: str = "",
        progress: Callable[[str], None] | None = None,
        **fields: Any,
    ) -> Any:
        """Make a release of any kind, on the server as a job. See :meth:`tacit.Curator.make`.

        Args:
            kind: name of the kind.
            fields: fields of the request, and the query options that apply to it.
            idempotency_key: as for :meth:`tacit.Curator.sql`.
            progress: called with the state of the job while waiting for it.
        """
        body = self._job("/v1/releases", request_text(kind, fields), idempotency_key, progress).release
        if body.kind != kind:
            raise TrustError("the server made a release of another kind")
        return self._read(body, paid=True)

    def releases(self, kind: str | None = None) -> tuple[Release, ...]:
        """Return the charged models, workloads and synthetic tables, or those of ``kind``; oldest first. Free."""
        query = {} if kind is None else {"kind": kind}
        found = self._got("the releases", "/v1/releases", ReleasesResponse, query).releases
        return tuple(Release(**each.plain() | {"names": tuple(each.names)}) for each in found)

    def released(self, which: int | str) -> Any:
        """Return a charged model, workload or synthetic table; free.

        Args:
            which: the position of its charge; or its name, such as ``visits_synthetic``, for the newest of that name.
        """
        position = which
        if isinstance(which, str):
            named = [each.position for each in self.releases() if which.lower() in map(str.lower, each.names)]
            if not named:
                raise InputError("which", f"there is no release {which[:80]!r}")
            position = named[-1]
        return self._read(self._got("the release", f"/v1/releases/{int(position)}", ReleaseResponse), paid=False)

    def _read(self, body: ReleaseResponse, *, paid: bool) -> RemoteRelease | Fitted:
        receipt = body.receipt.to_domain()
        with parsing("the release"):
            self._check(receipt)
            _agree("position", receipt.position, body.position)
            found = RemoteRelease(
                body, receipt, lambda name: self._channel.download(f"/v1/releases/{body.position}", {"file": name})
            )
        return self._fitted(found, paid=paid) if body.kind == "model" else found

    def _got(self, what: str, path: str, kind: type[_Body], query: Mapping[str, str] | None = None) -> _Body:
        """Request the body at a path; a body of another type is an error of the server."""
        content = self._channel.get(path, query).content
        with parsing(what):
            return kind.read(content)

    def _job(self, path: str, body: str, key: str, progress: Callable[[str], None] | None) -> JobResponse:
        """Start a job and return its state when it is done.

        Raises:
            TacitError: the job failed; with the server's message.
        """
        job = self._channel.post(path, body, {"Idempotency-Key": request_key(key)}).content
        with parsing("the job"):
            identity = JobAcceptedResponse.read(job).id
        while True:
            content = self._channel.get(f"/v1/jobs/{identity}").content
            with parsing("the job"):
                state = JobResponse.read(content)
            if state.state == "failed":
                raise error_of({"error": content["error"]}, 200)
            if state.state == "done":
                return state
            if progress is not None:
                progress(f"{state.state}, {state.seconds:.0f} s")
            self._channel.wait(_POLL_SECONDS)

    def release(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: over HTTP, the value would have to leave its owner."""
        _only_local("release")

    def charge(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: over HTTP, the charged release would happen elsewhere."""
        _only_local("charge")

    def fit(
        self,
        estimator: Any,
        sql: Query,
        *,
        idempotency_key: str = "",
        progress: Callable[[str], None] | None = None,
    ) -> Fitted:
        """Fit a model, on the server as a job; for owners. See :meth:`tacit.Curator.fit`.

        Args:
            estimator: unfitted estimator of :mod:`tacit.learn`; its name and parameters are sent.
            sql: a SELECT of rows: the features, and for a model with a target the target last.
            idempotency_key: as for :meth:`tacit.Curator.sql`.
            progress: called with the state of the job while waiting for it.
        """
        from tacit.learn.model_format import MODELS, parameters_to_json

        if type(estimator).__name__ not in MODELS:
            raise InputError("estimator", f"must be one of {', '.join(MODELS)}")
        sql = query_text(sql)
        name = type(estimator).__name__
        fitted: Fitted = self.make(
            "model", estimator=name, parameters=parameters_to_json(estimator), sql=sql,
            idempotency_key=idempotency_key, progress=progress,
        )  # fmt: skip
        _agree("sql", fitted.sql, sql)
        _agree("estimator", type(fitted.model).__name__, name)
        return fitted

    def _fitted(self, release: RemoteRelease, *, paid: bool) -> Fitted:
        from tacit.learn.model_format import model_from_text

        text, receipt, about = release.file("model.json").decode(), release.receipt, release.about
        answer = receipt["answers"][0]
        _agree("released", answer["released"], digest_of(text))
        _agree("query", answer["query"], about.sql)
        with parsing("the model"):
            amounts = read_amounts(receipt["charge"]) if paid else ()
            model = model_from_text(text)
        place, asked = (receipt.position, receipt["population"]), (answer["name"], answer["plan"])
        charge = Entry(*place, amounts, *asked, True, repeated=not paid)
        return Fitted(model, charge, receipt, about.sql, tuple(about.features), about.target, text)

    def close(self) -> None:
        """Close the connections; further queries fail."""
        self._channel.close()

    def __repr__(self) -> str:
        return f"<RemoteCurator {self.url}>"

    def _ask(self, request: Request, key: str) -> HttpReply:
        # Drawn once per query, so that a retry is the same query.
        seen = self._witness.headers
        body, said = query_body(request), {"Idempotency-Key": request_key(key), **seen}
        return self._confirming(seen, lambda: self._channel.post("/v1/query", body, said))

    def _confirming(self, seen: Mapping[str, str], send: Callable[[], HttpReply]) -> HttpReply:
        """Send a request that names an entry, and return the response if the server's ledger holds that entry."""
        try:
            reply = send()
        except ConflictError as problem:
            if problem.parameter == SEEN and seen:
                raise self._witness.missing(seen[SEEN]) from None
            raise
        self._witness.check(seen.get(SEEN), reply.headers.get(SEEN.lower()))
        return reply

    def _confirmed(self, seen: Mapping[str, str]) -> Head:
        """Return the newest entry of the server's ledger, if the ledger holds the named entry."""
        reply = self._confirming(seen, lambda: self._channel.get("/v1/key", headers=seen))
        found = identity_of(reply.content)
        _agree("ledger", found.ledger, self._identity.ledger)
        return found.head

    def _holds(self, head: Head) -> bool:
        if not self._witness.is_confirmed(head):
            self._confirmed({SEEN: head_text(head)})
        return True

    def _checked(self, reply: HttpReply, body: AnswerResponse, request: Request) -> tuple[Receipt, Entry]:
        """Return the verified receipt and the charge of an answer; refuse them unless both match the request."""
        repeated = reply.headers.get("tacit-repeat", "").lower() == "true"
        if body.receipt is None or body.charge is None:
            raise TrustError("the server sent no receipt for an answer about people")
        receipt, charge = body.receipt.to_domain(), body.charge
        with parsing("the receipt"):
            amounts = read_amounts(charge.amounts)
        self._check(receipt)
        answer = receipt["answers"][0]
        _agree("position", receipt.position, charge.position)
        _agree("population", receipt["population"], charge.population)
        _agree("charge", read_amounts(receipt["charge"]), amounts)
        _agree("query", answer["query"], request.sql)
        _agree_price(receipt["guarantee"], request)
        paid = () if repeated else amounts
        place, asked = (charge.position, charge.population), (request.sql, answer["plan"])
        return receipt, Entry(*place, paid, *asked, True, repeated=repeated, typed=typed_price(request.epsilon, paid))

    def _key_of(self, receipt: Receipt) -> str:
        """Return the server's key that a receipt names, or the pinned one; an unknown name refreshes the keys."""
        named = str(receipt.statement.get("key"))
        if named not in self._keys:
            found = identity_of(self._channel.get("/v1/key").content)
            if found != self._identity:
                pin(self.url, found, self.public_key)
                _agree("ledger", found.ledger, self._identity.ledger)
                self._identity, self._keys = found, own_keys(found)
        return self._keys.get(named, self.public_key)

    def _check(self, receipt: Receipt) -> None:
        report = verify_receipt(receipt, self._key_of(receipt))
        if not report.ok:
            wrong = next(check.words for check in report.checks if not check.passed)
            raise TrustError(f"the receipt does not hold: {wrong}")
        place = receipt["ledger"]
        _agree("ledger", place["id"], self._identity.ledger)
        self._witness.advance(Head(receipt.position, place["hash"]), place["previous"], self._holds)


def _agree(what: str, stated: object, expected: object) -> None:
    if stated != expected:
        raise TrustError(f"the receipt is about another {what}: {stated!r} instead of {expected!r}")


def _agree_price(guarantee: Mapping[str, str], request: Request) -> None:
    """Check that the receipt states the requested cost."""
    for name in ("epsilon", "rho", "mu"):
        stated = getattr(request, name)
        if stated is None:
            continue
        typed = exact(stated, name)
        if name in guarantee:
            _agree(name, exact(guarantee[name], name), typed)
        elif guarantee["kind"] == "ZCDP" and exact(guarantee["rho"], "rho") > typed**2 / 2:
            # ε without a δ costs ρ = ε²/2, and less with one.
            raise TrustError(f"the receipt is about a larger charge than epsilon {stated}")


def _only_local(what: str) -> NoReturn:
    raise AccessError(f"{what} works where the data is, not over HTTP: ask its owner, or use tacit.open there")
