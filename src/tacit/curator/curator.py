"""``Curator``: the object users hold, and the interface for asking that others share; a progress bar on terminals.

*Progress.* The bar is drawn only where standard error is a terminal, from the thread that asks (the main one), and only
for queries that take longer than a second, so that scripts, notebooks and servers never see it. The progress of reading
a source, and its speed, depend on the data: a bar is a timing channel with numbers on it. That is no loss in front of a
local terminal, whose user could read the file itself. It must never be sent to a remote analyst, and no answer, receipt
or log holds any of it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO, Unpack, overload

from tacit.accounting.prices import Charge
from tacit.core.closing import Closing
from tacit.core.errors import InputError
from tacit.core.extras import load_frames
from tacit.core.numbers import Number, exact_positive
from tacit.ledger import Ledger
from tacit.ledger.entries import plain_name
from tacit.query.catalog import Table
from tacit.query.parsing.sql_text import Query, query_text
from tacit.query.request import QueryOptions, Request, takes_options
from tacit.query.types import Kind
from tacit.releases.accounts import Budget, Entry, share_caps
from tacit.releases.answer import Answer, AnswerViews, QuoteForms
from tacit.releases.keys import key_of
from tacit.releases.notebook import ChargeList, curator_html, known_of, owner_of, table_html
from tacit.releases.payment import Caller, CuratorContext, entry_of, hide_internal_errors
from tacit.releases.query import QueryContext, Quote, answer, deliver, planned, undelivered
from tacit.releases.receipt import Receipt, ReceiptReport, check_against_ledger, verify_receipt
from tacit.releases.release import Release, read_release, released

# Kinds of releases other than queries load when they are asked for: a query at the command line waits for none of them.
if TYPE_CHECKING:
    from rich import progress as bars

    from tacit.releases.batch import BatchRelease, Progress
    from tacit.releases.mechanism import DirectRelease, ReleasingMechanism
    from tacit.releases.model import Fitted
    from tacit.releases.profile import Profile, ProfileQuote
    from tacit.releases.synthetic_table import SyntheticStar, SyntheticTable
    from tacit.releases.workload import WorkloadAnswer, WorkloadQuote
    from tacit.synth.synthesis_request import SynthesisOptions
    from tacit.synth.table_synthesis import Method
    from tacit.synth.workload import Workload


@dataclass(frozen=True)
class TableInfo:
    """A table as anyone may know it: what its owner declared, and nothing from its contents."""

    table: Table

    @property
    def name(self) -> str:
        """Name of the table in queries."""
        return self.table.name

    def to_ibis(self) -> Any:
        """The table as one of Ibis, for expressions; needs ``ibis-framework``."""
        kinds = {Kind.INTEGER: "int64", Kind.DOUBLE: "float64", Kind.TEXT: "string"}
        schema = {
            each.name: f"decimal(18, {each.type.scale})"
            if each.type.kind is Kind.DECIMAL
            else kinds.get(each.type.kind, each.type.kind.value)
            for each in self.table.columns
        }
        return load_frames("ibis", "ibis-framework").table(schema, name=self.name)

    def __str__(self) -> str:
        columns = ((each, known_of(self.table, each)) for each in self.table.columns)
        lines = [", ".join([f"  {each.name} {each.type}", *known]) for each, known in columns]
        return "\n".join([f"{self.name}: {owner_of(self.table)}", *lines])

    def __repr__(self) -> str:
        return f"<TableInfo {self.name}: {', '.join(column.name for column in self.table.columns)}>"

    def _repr_html_(self) -> str:
        return table_html(self.table)


class Asking(Protocol):
    """Everything that asking takes: a :class:`Curator`, one over HTTP and the tools of an assistant all have it.

    What each adds is its transport; where that is asynchronous, methods of the same names and parameters are awaited.
    """

    def tables(self) -> tuple[TableInfo, ...]:
        """The tables and what is publicly known about their columns."""

    def explain(self, sql: Query, **options: Unpack[QueryOptions]) -> QuoteForms:
        """Releases, noise, cost and errors of :meth:`sql` with the same arguments. Free; reads no data."""

    def sql(
        self, sql: Query, *, analyst: str | None = None, idempotency_key: str = "", **options: Unpack[QueryOptions]
    ) -> AnswerViews:
        """The answer to a query, charged before data is read."""

    def budget(self, quote: Any = None, *, population: str | None = None, analyst: str | None = None) -> Budget:
        """State of an account; with a quote or an answer, also how many more such queries fit."""

    def budgets(self, quote: Any = None) -> tuple[Budget, ...]:
        """State of every account; with a quote, of the one that it would be charged to."""

    def history(
        self, *, population: str | None = None, analyst: str | None = None, limit: int | None = None
    ) -> tuple[Entry, ...]:
        """Charges in order, or the newest ``limit`` of them."""


def check_own(analyst: str | None) -> None:
    """Refuse another analyst where a token says who asks."""
    if analyst is not None:
        raise InputError("analyst", "is the owner of the token; leave it out")


class Curator(Asking, Closing):
    """Stands between data and queries: answers with noise, within a budget. Made by :func:`tacit.open`.

    Every method may be called from several threads at once, and several processes may work on one ledger.

    Args:
        context: metadata, data, ledger and keys.
        analyst: who asks, unless a call says otherwise.
        conversation: whose share all charges count to as well.
    """

    def __init__(self, context: QueryContext, analyst: str, conversation: Conversation | None = None) -> None:
        self._context = context
        self.analyst = analyst
        self._conversation = conversation

    def conversing(self, conversation: Conversation) -> Curator:
        """The same curator, for an assistant: its queries are charged to the share of a conversation as well.

        Raises:
            InputError: the ledger would forget the share, or the conversation has another.
        """
        if not self.ledger.durable:
            # A restart would give the share anew.
            raise InputError("project.ledger", 'an assistant needs one that lasts; write ledger = "tacit.ledger"')
        for population in self._context.accounts:
            conversation.begin(self._context, self.analyst, population)
        return Curator(self._context, self.analyst, conversation)

    @property
    def name(self) -> str:
        """Name of the project."""
        return self._context.project

    @property
    def context(self) -> QueryContext:
        """Metadata, data, ledger and keys, for packages built on a curator; not for analysts."""
        return self._context

    @property
    def ledger(self) -> Ledger:
        """The account behind all answers, for operators: analysts, quotas, verification."""
        return self._context.ledger

    @property
    def public_key(self) -> str:
        """Public key that checks receipts signed by this curator now."""
        return self._context.keys.public_key

    @takes_options
    def sql(
        self,
        sql: Query,
        *,
        analyst: str | None = None,
        idempotency_key: str = "",
        **options: Unpack[QueryOptions],
    ) -> Answer:
        """The answer to a query in SQL.

        The number typed is the guarantee of the whole query. It is charged before data is read; the same query
        with the same parameters, asked again, gets the same answer for nothing.

        Args:
            sql: the query: text, or an expression of Ibis or SQLGlot.
            options: see below.
            analyst: who asks; by default the curator's own.
            idempotency_key: a name for this request, so that it may be sent again: the same request under the same
                key gets the same answer and is charged once; another request under it is refused.
        """
        sql = query_text(sql)
        request = Request.of(sql, options)
        talk = "" if self._conversation is None else self._conversation.name
        caller = Caller(analyst or self.analyst, idempotency_key, talk)
        if sys.stderr is None or not sys.stderr.isatty():
            return answer(self._context, sql, request, caller)
        with terminal_progress() as progress:
            return answer(self._context, sql, request, caller, progress)

    @takes_options
    def explain(self, sql: Query, **options: Unpack[QueryOptions]) -> Quote:
        """Releases, noise, price and errors of :meth:`sql` with the same arguments. Free; reads no data."""
        sql = query_text(sql)
        request = Request.of(sql, options)
        plan = planned(self._context, sql, request)
        with hide_internal_errors():
            return plan.quote

    def budget(
        self,
        quote: Quote | Answer | None = None,
        *,
        population: str | None = None,
        analyst: str | None = None,
    ) -> Budget:
        """State of an account; with a quote or an answer, also how many more such queries fit.

        Args:
            quote: a query that was quoted or answered; one about public tables alone is charged to no account.
            population: whose budget; may be left out where there is one, or with a quote.
            analyst: whose share is shown beside it; by default the curator's own analyst.
        """
        plan = None if quote is None else quote.plan
        name = self._population(population if plan is None else plan.final.population)
        charge = None if plan is None else quote.guarantee if isinstance(quote, Quote) else plan.guarantee
        who = self.analyst if analyst is None else analyst
        talk = "" if self._conversation is None else self._conversation.name
        return budget_of(self._context, name, who, conversation=talk, charge=charge)

    def budgets(self, quote: Quote | Answer | None = None) -> tuple[Budget, ...]:
        """State of every account; with a quote or an answer, of the one that it is charged to."""
        if quote is not None and quote.plan is not None:
            return (self.budget(quote),)
        return tuple(self.budget(population=name) for name in self._context.accounts)

    def _repr_html_(self) -> str:
        return curator_html(self.name, self._context.catalog.tables, self.budgets())

    @property
    def cautions(self) -> tuple[str, ...]:
        """Sentences for the owner of the data where a whole budget protects little; usually none."""
        return tuple(f"{each.population}: {sentence}" for each in self.budgets() for sentence in each.cautions)

    def tables(self) -> tuple[TableInfo, ...]:
        """The tables and what is publicly known about their columns."""
        return tuple(TableInfo(table) for table in self._context.catalog.tables)

    def history(
        self, *, population: str | None = None, analyst: str | None = None, limit: int | None = None
    ) -> tuple[Entry, ...]:
        """Charges to all populations or one, by all analysts or one, in order; or the newest ``limit`` of them."""
        names = self._context.accounts if population is None else [self._population(population)]
        known = {plain_name(name, "population") for name in names}
        with hide_internal_errors():
            records = self.ledger.history(analyst=analyst or "", newest_first=limit is not None)
            found = [entry_of(each) for each in islice((r for r in records if r.population in known), limit)]
        return ChargeList(found if limit is None else reversed(found))

    def undelivered(self, *, population: str | None = None, analyst: str | None = None) -> tuple[Entry, ...]:
        """Charges that have no outcome: a run goes on, or its process died before the outcome was written down."""
        name = "" if population is None else self._population(population)
        found = undelivered(self._context, population=name, analyst=analyst or "")
        return ChargeList(entry_of(record) for record in found)

    def deliver(self, position: int) -> Answer | WorkloadAnswer:
        """Run what a charge has paid for, if it has no outcome yet, on the data as they are now; free.

        Args:
            position: of a query or a workload, from :meth:`undelivered`.
        """
        return deliver(self._context, position)

    def release(
        self,
        mechanism: ReleasingMechanism,
        value: Any,
        *,
        label: str,
        population: str | None = None,
        analyst: str | None = None,
        idempotency_key: str = "",
    ) -> DirectRelease:
        """Release ``value`` through a mechanism of :mod:`tacit.mechanisms`, charged to the same account.

        That the mechanism's sensitivity is right for the value is up to the caller, as always with mechanisms.

        Args:
            mechanism: anything with an event (or a guarantee) and ``release``.
            value: what to release.
            label: what it is, for the history and the receipt; not the value.
            population: whose budget; may be left out where there is one.
            analyst: who asks; by default the curator's own.
            idempotency_key: see :meth:`sql`.
        """
        from tacit.releases.mechanism import release_directly

        caller = Caller(analyst or self.analyst, idempotency_key)
        return release_directly(self._context, self._population(population), mechanism, value, label, caller)

    def charge(
        self,
        charge: Charge,
        *,
        label: str,
        population: str | None = None,
        analyst: str | None = None,
        idempotency_key: str = "",
    ) -> DirectRelease:
        """Charge for something that is released elsewhere, such as the training of a model; durable when it returns.

        Args:
            charge: a mechanism, an event or a guarantee.
            label: what it is for.
            population: whose budget; may be left out where there is one.
            analyst: who asks; by default the curator's own.
            idempotency_key: see :meth:`sql`.
        """
        from tacit.releases.mechanism import charge_directly

        caller = Caller(analyst or self.analyst, idempotency_key)
        return charge_directly(self._context, self._population(population), charge, label, caller)

    def fit(
        self,
        estimator: Any,
        sql: Query,
        *,
        weight: str | None = None,
        analyst: str | None = None,
        idempotency_key: str = "",
    ) -> Fitted:
        """Fit a model to protected rows: they stay inside, the model comes out, and the same account pays.

        The estimator's ``epsilon`` and ``delta`` hold for every unit, because at most one row of
        each counts. To use several rows of a person, aggregate them first: ``SELECT AVG(x), MAX(y) … GROUP BY
        patient``. A fit is charged before data is read; fitting again is a new fit and a new charge.

        Args:
            estimator: of :mod:`tacit.learn`, not fitted; bounds, classes and categories that it leaves open come from
                the catalogue.
            sql: a SELECT of rows: the features, and for a model with a target the target last.
            weight: name of a column of the SELECT by which rows count, up to the estimator's ``max_weight``; it is no
                feature.
            analyst: who asks; by default the curator's own.
            idempotency_key: see :meth:`sql`.

        Raises:
            Refusal, InputError: the rows or the estimator cannot be used; nothing is charged.
            BudgetError: the account does not allow the charge.
        """
        from tacit.releases.model import fit_privately

        caller = Caller(analyst or self.analyst, idempotency_key)
        return fit_privately(self._context, estimator, query_text(sql), caller, weight)

    @takes_options
    def answer_workload(
        self,
        source: Query,
        workload: Workload,
        *,
        analyst: str | None = None,
        idempotency_key: str = "",
        **options: Unpack[QueryOptions],
    ) -> WorkloadAnswer:
        """Answers to many counting queries at once, consistent with one another, each with its variance.

        The noise is put on a better set of queries than the one asked, and the answers are computed from these. One
        price pays for all; the same workload asked again is free. The account must be a zcdp or approx account.

        Args:
            source: the name of a table, or a SELECT of rows whose columns the workload names; each needs a public
                list of values.
            workload: the queries; see :class:`tacit.Workload`.
            options: see below.
            analyst: who asks; by default the curator's own.
            idempotency_key: see :meth:`sql`.

        Raises:
            Refusal, InputError: the workload or the rows cannot be used; nothing is charged.
            BudgetError: the account does not allow the charge.
        """
        from tacit.releases.workload import answer_workload

        caller = Caller(analyst or self.analyst, idempotency_key)
        return answer_workload(self._context, query_text(source, "source"), workload, options, caller)

    @takes_options
    def explain_workload(self, source: Query, workload: Workload, **options: Unpack[QueryOptions]) -> WorkloadQuote:
        """Errors and price of :meth:`answer_workload` with the same arguments. Free; reads no data."""
        from tacit.releases.workload import quote_workload

        return quote_workload(self._context, query_text(source, "source"), workload, options)

    @overload
    def synthesize(
        self, source: None = None, columns: None = None, *, from_release: int | WorkloadAnswer | Sequence[Any],
        rows: int | None = None,
    ) -> SyntheticTable: ...  # fmt: skip

    @overload
    def synthesize(
        self, source: Query, columns: Sequence[str] | None = None, *, rows: int | None = None, method: Method = "aim",
        analyst: str | None = None, idempotency_key: str = "", progress: Callable[[str], None] | None = None,
        **options: Unpack[SynthesisOptions],
    ) -> SyntheticTable: ...  # fmt: skip

    @overload
    def synthesize(
        self, source: Mapping[str, Sequence[str] | None], columns: None = None, *, rows: int | None = None,
        method: Method = "aim", analyst: str | None = None, idempotency_key: str = "",
        progress: Callable[[str], None] | None = None, **options: Unpack[SynthesisOptions],
    ) -> SyntheticStar: ...  # fmt: skip

    def synthesize(
        self,
        source: Query | Mapping[str, Sequence[str] | None] | None = None,
        columns: Sequence[str] | None = None,
        *,
        from_release: int | WorkloadAnswer | Sequence[Any] | None = None,
        rows: int | None = None,
        method: Method = "aim",
        analyst: str | None = None,
        idempotency_key: str = "",
        progress: Callable[[str], None] | None = None,
        **options: Unpack[SynthesisOptions],
    ) -> SyntheticTable | SyntheticStar:
        """A synthetic table with the marginals of a protected one: one charge, then free to use for everyone.

        The same request again is free and draws another table from the same measurements.
        The account must be a zcdp or approx account.

        Args:
            source: the name of a table, or a SELECT of rows. Two tables that belong together are a mapping of their
                names to lists of columns (None for all): first the one with a row for each person, then the one of
                which a person has several rows, at most ``max_rows``. Then both are made, and keys agree.
            from_release: counts that were released before, instead of a source, which is free: a workload or its
                position, or Arrow tables with labels, ``count`` and ``stddev``.
            columns: to be synthesised; by default all with declared categories or bounds, and of one table texts
                whose frequent values a tenth of the price finds privately, where the account has a delta. Integers,
                decimals and dates with more than 64 values, and doubles, are put into 32 equal bins.
            rows: how many to draw, of persons where there are two tables; by default about as many as there are,
                estimated privately.
            method: ``"aim"`` chooses marginals round by round, ``"mst"`` a tree of pairs in one go, ``"independent"``
                measures columns alone, ``"marginals"`` those that are listed.
            analyst: who asks; by default the curator's own.
            idempotency_key: see :meth:`sql`.
            progress: told in words what was measured, for the owner's terminal; it speaks of what is released alone.
            options: the price (``epsilon``, ``delta``, ``rho``, ``mu``, ``max_rows``), and :class:`.SynthesisOptions`.

        Raises:
            Refusal, InputError: a column has no public list of values, or an argument is wrong; nothing is charged.
            BudgetError: the account does not allow the charge.
        """
        from tacit.releases.synthesis import synthesize
        from tacit.synth.synthesis_request import request_of

        if (source is None) == (from_release is None):
            raise InputError("source", "state one: a source, or from_release")
        if from_release is not None:
            from tacit.releases.synthesis import from_counts

            return from_counts(self.released(from_release) if isinstance(from_release, int) else from_release, rows)
        caller = Caller(analyst or self.analyst, idempotency_key)
        made_from = source if isinstance(source, Mapping) else query_text(source, "source")
        request = request_of(made_from, columns, method, options)
        return synthesize(self._context, request, caller, rows=rows, progress=progress)

    @takes_options
    def profile(
        self,
        table: str,
        *,
        analyst: str | None = None,
        idempotency_key: str = "",
        **options: Unpack[QueryOptions],
    ) -> Profile:
        """What a table holds that nobody has described: rows, people, and of each column NULLs, magnitude and values.

        One charge, one receipt. ``profile.draft()`` is a project file with the bounds and categories that were found.

        Args:
            table: a protected table.
            options: see below; the price, ``confidence`` and ``suppose`` mean something here.
            analyst: who asks; by default the curator's own.
            idempotency_key: see :meth:`sql`.
        """
        from tacit.releases.profile import make_profile

        return make_profile(self._context, table, options, Caller(analyst or self.analyst, idempotency_key))

    @takes_options
    def explain_profile(self, table: str, **options: Unpack[QueryOptions]) -> ProfileQuote:
        """From how many rows each part of :meth:`profile` is worth its cost. Free; reads no data."""
        from tacit.releases.profile import quote_profile

        return quote_profile(self._context, table, options)

    def make(self, kind: str, *, analyst: str | None = None, idempotency_key: str = "", **fields: Any) -> Any:
        """A release of any kind: a model, a workload, a synthetic table, a profile.

        Args:
            kind: its name, as in :meth:`releases`.
            fields: of the request, as the HTTP API has them, and options of queries that mean something there.
            analyst: who asks; by default the curator's own.
            idempotency_key: see :meth:`sql`.
        """
        from tacit.releases.kinds import KINDS, request_of

        request = request_of(kind, fields)
        return KINDS[kind].make(self._context, request, Caller(analyst or self.analyst, idempotency_key))

    def releases(self, kind: str | None = None) -> tuple[Release, ...]:
        """The models, workloads and synthetic tables that were paid for, or those of a kind; the oldest first. Free."""
        from tacit.releases.kinds import KINDS

        return released(self._context, KINDS, kind)

    def released(self, which: int | str) -> Any:
        """A model, workload or synthetic table that was paid for, as it was returned then: free, reads no data.

        Args:
            which: the position of its charge; or its name, such as ``visits_synthetic``, for the newest of that name.

        Raises:
            InputError: there is none, or its columns are declared otherwise now.
        """
        from tacit.releases.kinds import KINDS

        return read_release(self._context, KINDS, which)

    def publish(
        self, plan: str | Path, *, output: str | Path | None = None, progress: Progress | None = None
    ) -> BatchRelease:
        """Answer all queries of a plan file under its one total, and write tables, a report and a receipt.

        Interrupted, it may be called again with the same plan: what was paid is not paid again, and what exists stays.

        Args:
            plan: the file; see :mod:`tacit.releases.batch`.
            output: the folder to write to, instead of the plan's.
            progress: called after every query.

        Raises:
            InputError, Refusal: the plan cannot be carried out; nothing is charged.
            BudgetError: the account does not allow the total; nothing is charged.
        """
        from tacit.releases.batch import BatchPlan, load_plan, release_batch

        planned = load_plan(plan)
        if not isinstance(planned, BatchPlan):
            raise InputError("plan", "has a workload; answer_workload answers it, and tacit release writes its files")
        planned = planned if output is None else replace(planned, output=Path(output))
        return release_batch(self._context, planned, Caller(self.analyst), progress)

    def check_receipt(self, receipt: Receipt | str | bytes) -> ReceiptReport:
        """Check a receipt with the key that was in force at its place, and against what this ledger holds there.

        Raises:
            RollbackError: the receipt is newer than the ledger, or speaks of another history: this is an old copy.
        """
        read = receipt if isinstance(receipt, Receipt) else Receipt.from_json(receipt)
        report = verify_receipt(read, key_of(self.ledger, read))
        if report.ok:
            report = ReceiptReport((*report.checks, *check_against_ledger(read, self.ledger)))
        return report

    def close(self) -> None:
        self._context.closing.set()
        self._context.engine.close()
        self._context.ledger.close()

    def __repr__(self) -> str:
        names = ", ".join(table.name for table in self._context.catalog.tables)
        return f"<Curator {self.name}: {names}>"

    def _population(self, name: str | None) -> str:
        accounts = self._context.accounts
        if name is None and len(accounts) == 1:
            return next(iter(accounts))
        if name is None or name not in accounts:
            raise InputError("population", f"must be one of {', '.join(accounts)}")
        return name


#: Before the id of a token.
_TOKEN: Final = "token "  # noqa: S105  (a prefix)


@dataclass(frozen=True, slots=True)
class Conversation:
    """The name of a conversation and its share of each account.

    Args:
        name: which conversation of the analyst; the same name is the same conversation, also after a restart.
        epsilon: that all charges about one population may amount to.
    """

    name: str
    epsilon: Number

    @classmethod
    def stated(cls, name: str, epsilon: Number) -> Conversation:
        """A conversation that a person names.

        Raises:
            InputError: the name is that of a token's share.
        """
        if " ".join(name.lower().split()).startswith(_TOKEN.strip()):
            raise InputError("conversation", f"must not begin with {_TOKEN.strip()!r}: those are shares of tokens")
        return cls(name, epsilon)

    @classmethod
    def of_token(cls, token: str, epsilon: Number) -> Conversation:
        """The share that a token was issued with: all its charges are one conversation."""
        return cls(_TOKEN + token, epsilon)

    def begin(self, context: CuratorContext, analyst: str, population: str) -> None:
        """Fix the share of a population's account, or check that it is what was fixed.

        Raises:
            InputError: the conversation has another share.
        """
        exact_positive(self.epsilon, "epsilon")
        with hide_internal_errors():
            account = context.accounts[population]
            caps = share_caps(context.ledger.filter(population), {"epsilon": self.epsilon}, delta=account.target_delta)
            context.ledger.conversations.fix(population, self.name, caps, analyst=analyst)

    def budget(self, context: CuratorContext, analyst: str, population: str, charge: Charge | None = None) -> Budget:
        """State of the account and of its shares, that of the conversation last."""
        self.begin(context, analyst, population)
        return budget_of(context, population, analyst, conversation=self.name, charge=charge)


def budget_of(
    context: CuratorContext, population: str, analyst: str, *, conversation: str = "", charge: Charge | None = None
) -> Budget:
    """State of an account, with the shares of an analyst, the project and a conversation."""
    with hide_internal_errors():
        found = context.ledger.budget(
            population, analyst=analyst, project=context.project, conversation=conversation, charge=charge
        )
    return Budget.of(found, durable=context.ledger.durable, account=context.accounts[population])


#: Seconds that a query may take without a bar.
PATIENCE = 1.0
_WHOLE = 100.0


class ProgressBar:
    """Told a percentage now and then, it draws a bar once its patience is over; it never fails."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._start = clock()
        self._drawn: tuple[bars.Progress, bars.TaskID] | None = None
        self._lock = threading.Lock()
        self._ended = False

    def __call__(self, percent: float) -> None:
        """Show that so much has been read; engines call this from a thread of their own."""
        with self._lock:
            if self._ended or self._clock() - self._start < PATIENCE:
                return
            try:
                self._show(percent)
            except Exception:
                # A terminal that went away must not stop the thread that also keeps the time limit.
                self._ended = True

    def close(self) -> None:
        with self._lock:
            self._ended = True
            drawn, self._drawn = self._drawn, None
        if drawn is not None:
            try:
                drawn[0].stop()
            except Exception:
                # As above: what cannot be drawn need not be wiped away.
                return

    def _show(self, percent: float) -> None:
        if self._drawn is None:
            self._drawn = self._begin()
        bar, task = self._drawn
        # Before anything is known the bar swings instead of standing at nothing.
        known = 0 < percent <= _WHOLE
        bar.update(task, total=_WHOLE if known else None, completed=percent if known else 0)

    def _begin(self) -> tuple[bars.Progress, bars.TaskID]:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

        columns = (TextColumn("Reading"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        bar = Progress(*columns, console=Console(file=self._stream), transient=True)
        bar.start()
        return bar, bar.add_task("reading", total=None)


@contextmanager
def terminal_progress() -> Iterator[ProgressBar | None]:
    """Progress bar for queries asked inside, or None where standard error is no terminal."""
    # Several threads that ask at once, as in a server, would draw over one another, and their callers sit elsewhere.
    here = threading.current_thread() is threading.main_thread()
    if not here or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    bar = ProgressBar(sys.stderr)
    try:
        yield bar
    finally:
        bar.close()
