"""``Curator``: the object users hold, and the interface for asking that others share.

*Progress.* A query of more than a second shows its time on the terminal of who asks: no percentage of what was read,
which would depend on the data.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO, Unpack

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
from tacit.releases.plans import Quote
from tacit.releases.query import QueryContext, answer, deliver, planned, undelivered
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
    """Public description of a table: names, types, bounds and categories that its owner declared; no row."""

    table: Table

    @property
    def name(self) -> str:
        """Name of the table in queries."""
        return self.table.name

    def to_ibis(self) -> Any:
        """Return an unbound Ibis table with the same name and schema, for expressions; needs ``ibis-framework``."""
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
    """Interface for asking queries, shared by :class:`Curator`, the HTTP client and the tools of an assistant.

    They differ in transport alone; where that is asynchronous, methods of the same names and parameters are awaited.
    """

    def tables(self) -> tuple[TableInfo, ...]:
        """Return the public descriptions of all tables and their columns."""

    def explain(self, sql: Query, **options: Unpack[QueryOptions]) -> QuoteForms:
        """Return the releases, noise, cost and errors of :meth:`sql` with the same arguments. Free; reads no data."""

    def sql(
        self, sql: Query, *, analyst: str | None = None, idempotency_key: str = "", **options: Unpack[QueryOptions]
    ) -> AnswerViews:
        """Answer a query; its cost is charged before data is read."""

    def budget(self, quote: Any = None, *, population: str | None = None, analyst: str | None = None) -> Budget:
        """Return the state of an account; with a quote or an answer, also how many more queries of that cost fit."""

    def budgets(self, quote: Any = None) -> tuple[Budget, ...]:
        """Return the state of every account; with a quote, of the account that would be charged."""

    def history(
        self, *, population: str | None = None, analyst: str | None = None, limit: int | None = None
    ) -> tuple[Entry, ...]:
        """Return the charges in the order of the ledger, or the newest ``limit`` of them."""


def check_own(analyst: str | None) -> None:
    """Refuse an ``analyst`` argument where the token already identifies the analyst."""
    if analyst is not None:
        raise InputError("analyst", "is the owner of the token; leave it out")


class Curator(Asking, Closing):
    """Answers queries about protected tables with noise, within a budget. Made by :func:`tacit.open`.

    Every method may be called from several threads at once, and several processes may work on one ledger.

    Args:
        context: metadata, data, ledger and keys.
        analyst: name of the analyst, for calls that state none.
        conversation: conversation with a share of each account; all charges count towards that share as well.
    """

    def __init__(self, context: QueryContext, analyst: str, conversation: Conversation | None = None) -> None:
        self._context = context
        self.analyst = analyst
        self._conversation = conversation

    def conversing(self, conversation: Conversation) -> Curator:
        """Return this curator for an assistant: its queries are also charged to the share of a conversation.

        Raises:
            InputError: the ledger is in memory and would forget the share, or the conversation has another share.
        """
        if not self.ledger.durable:
            # After a restart, the whole share would be available again.
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
        """Ledger of all charges, for operators: analysts, quotas, verification."""
        return self._context.ledger

    @property
    def public_key(self) -> str:
        """Public key that verifies the receipts this curator signs now."""
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
        """Answer a query in SQL.

        The ``epsilon``, ``rho`` or ``mu`` stated is the guarantee of the whole query. It is charged before data is
        read; the same query with the same parameters, asked again, gets the same answer at no cost.

        Args:
            sql: the query: text, or an expression of Ibis or SQLGlot.
            options: see below.
            analyst: name of the analyst to charge; by default the curator's own.
            idempotency_key: a name for this request, so that it may be sent again: the same request under the same
                key gets the same answer and is charged once; a different request under the same key is refused.
        """
        sql = query_text(sql)
        request = Request.of(sql, options)
        talk = "" if self._conversation is None else self._conversation.name
        caller = Caller(analyst or self.analyst, idempotency_key, talk)
        with time_shown(sys.stderr):
            return answer(self._context, sql, request, caller)

    @takes_options
    def explain(self, sql: Query, **options: Unpack[QueryOptions]) -> Quote:
        """Return the releases, noise, cost and errors of :meth:`sql` with the same arguments. Free; reads no data."""
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
        """Return the state of an account; with a quote or an answer, also how many more queries of that cost fit.

        Args:
            quote: quote or answer of a query; a query about public tables alone is charged to no account.
            population: population that the account protects; may be left out where there is one, or with a quote.
            analyst: analyst whose share is shown as well; by default the curator's own.
        """
        plan = None if quote is None else quote.plan
        name = self._population(population if plan is None else plan.final.population)
        charge = None if plan is None else quote.guarantee if isinstance(quote, Quote) else plan.guarantee
        who = self.analyst if analyst is None else analyst
        talk = "" if self._conversation is None else self._conversation.name
        return budget_of(self._context, name, who, conversation=talk, charge=charge)

    def budgets(self, quote: Quote | Answer | None = None) -> tuple[Budget, ...]:
        """Return the state of every account; with a quote or an answer, of the account charged for it."""
        if quote is not None and quote.plan is not None:
            return (self.budget(quote),)
        return tuple(self.budget(population=name) for name in self._context.accounts)

    def _repr_html_(self) -> str:
        return curator_html(self.name, self._context.catalog.tables, self.budgets())

    @property
    def cautions(self) -> tuple[str, ...]:
        """Warnings for the data owner about accounts whose whole budget protects little; usually empty."""
        return tuple(f"{each.population}: {sentence}" for each in self.budgets() for sentence in each.cautions)

    def tables(self) -> tuple[TableInfo, ...]:
        """Return the public descriptions of all tables and their columns."""
        return tuple(TableInfo(table) for table in self._context.catalog.tables)

    def history(
        self, *, population: str | None = None, analyst: str | None = None, limit: int | None = None
    ) -> tuple[Entry, ...]:
        """Return the charges in the order of the ledger, or the newest ``limit`` of them.

        Args:
            population: population whose account was charged; by default all.
            analyst: analyst who was charged; by default all.
            limit: number of newest charges to return; by default all.
        """
        names = self._context.accounts if population is None else [self._population(population)]
        known = {plain_name(name, "population") for name in names}
        with hide_internal_errors():
            records = self.ledger.history(analyst=analyst or "", newest_first=limit is not None)
            found = [entry_of(each) for each in islice((r for r in records if r.population in known), limit)]
        return ChargeList(found if limit is None else reversed(found))

    def undelivered(self, *, population: str | None = None, analyst: str | None = None) -> tuple[Entry, ...]:
        """Return the charges without an outcome: still running, or the process died before the outcome was stored."""
        name = "" if population is None else self._population(population)
        found = undelivered(self._context, population=name, analyst=analyst or "")
        return ChargeList(entry_of(record) for record in found)

    def deliver(self, position: int) -> Answer | WorkloadAnswer:
        """Run the query or workload that a charge paid for, if it has no outcome yet, on the present data; free.

        Args:
            position: position of the charge in the ledger, from :meth:`undelivered`.
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

        The caller is responsible for a mechanism whose sensitivity holds for the value.

        Args:
            mechanism: any object with an event (or a guarantee) and a method ``release``.
            value: exact value to release with noise.
            label: description of the value, for the history and the receipt; it must not contain the value.
            population: population whose account is charged; may be left out where there is one.
            analyst: name of the analyst to charge; by default the curator's own.
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
        """Charge the account for a release made elsewhere, such as the training of a model; durable on return.

        Args:
            charge: a mechanism, an event or a guarantee.
            label: description of the release, for the history and the receipt.
            population: population whose account is charged; may be left out where there is one.
            analyst: name of the analyst to charge; by default the curator's own.
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
        analyst: str | None = None,
        idempotency_key: str = "",
    ) -> Fitted:
        """Fit a model to protected rows, charged to the same account as queries; only the fitted model is returned.

        The estimator's ``epsilon`` and ``delta`` hold for every unit, because at most one row of
        each unit counts. To use several rows of a person, aggregate them first: ``SELECT AVG(x), MAX(y) … GROUP BY
        patient``. A fit is charged before data is read; fitting again is a new fit and a new charge.

        Args:
            estimator: estimator of :mod:`tacit.learn`, not fitted; bounds, classes and categories that it does not
                state come from the catalogue.
            sql: a SELECT of rows: the features, and for a model with a target the target last.
            analyst: name of the analyst to charge; by default the curator's own.
            idempotency_key: see :meth:`sql`.

        Raises:
            Refusal, InputError: the rows or the estimator cannot be used; nothing is charged.
            BudgetError: the account does not allow the charge.
        """
        from tacit.releases.model import fit_privately

        caller = Caller(analyst or self.analyst, idempotency_key)
        return fit_privately(self._context, estimator, query_text(sql), caller)

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
        """Answer many counting queries at once; the answers are consistent with one another, each with its variance.

        This is the matrix mechanism: noise is added to a set of queries chosen for low variance, and the answers are
        computed from these noisy measurements. The workload is charged once; the same workload asked again is free.
        The account must be a zcdp or approx account.

        Args:
            source: the name of a table, or a SELECT of rows whose columns the workload names; each needs a public
                list of values.
            workload: the queries; see :class:`tacit.Workload`.
            options: see below.
            analyst: name of the analyst to charge; by default the curator's own.
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
        """Return the errors and cost of :meth:`answer_workload` with the same arguments. Free; reads no data."""
        from tacit.releases.workload import quote_workload

        return quote_workload(self._context, query_text(source, "source"), workload, options)

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
        """Make a synthetic table with about the marginals of a protected table: one charge, free to use afterwards.

        The same request again is free; ``sample`` draws more rows from the same measurements.
        The account must be a zcdp or approx account.

        Args:
            source: the name of a table, or a SELECT of rows. For two tables that belong together, a mapping of their
                names to lists of columns (None for all): first the table with one row per person, then the table with
                several rows per person, at most ``max_rows``. Both are synthesised, and their keys agree.
            from_release: counts that were released before, used in place of a source at no cost: a workload answer or
                its position in the ledger, or Arrow tables with labels, ``count`` and ``stddev``.
            columns: columns to synthesise; by default all with declared categories or bounds. For a single table whose
                account has a delta, also text columns: a tenth of the cost finds their frequent values privately.
                Integers, decimals and dates with more than 64 values, and doubles, are put into 32 equal bins.
            rows: number of rows to draw, of persons where there are two tables; by default a private estimate of the
                number in the source.
            method: ``"aim"`` chooses marginals round by round, ``"mst"`` a spanning tree of pairs in one round,
                ``"independent"`` measures single columns alone, ``"marginals"`` those that are listed.
            analyst: name of the analyst to charge; by default the curator's own.
            idempotency_key: see :meth:`sql`.
            progress: called with a sentence about each measurement, for the owner's terminal; it reveals released
                numbers alone.
            options: the cost (``epsilon``, ``delta``, ``rho``, ``mu``), ``max_rows``, and :class:`.SynthesisOptions`.

        Raises:
            Refusal, InputError: a column has no public list of values, or an argument is wrong; nothing is charged.
            BudgetError: the account does not allow the charge.
        """
        from tacit.releases.synthesis import synthesize
        from tacit.synth.synthesis_request import SynthesisRequest

        if (source is None) == (from_release is None):
            raise InputError("source", "state one: a source, or from_release")
        if from_release is not None:
            from tacit.releases.synthesis import from_counts

            return from_counts(self.released(from_release) if isinstance(from_release, int) else from_release, rows)
        caller = Caller(analyst or self.analyst, idempotency_key)
        made_from = source if isinstance(source, Mapping) else query_text(source, "source")
        request = SynthesisRequest.of(made_from, columns, method, options)
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
        """Profile a table privately: numbers of rows and people, and for each column NULLs, magnitude and values.

        One charge, one receipt. ``profile.draft()`` is a project file with the bounds and categories that were found.

        Args:
            table: name of a protected table.
            options: see below; only the cost, ``confidence`` and ``suppose`` have an effect here.
            analyst: name of the analyst to charge; by default the curator's own.
            idempotency_key: see :meth:`sql`.
        """
        from tacit.releases.profile import make_profile

        return make_profile(self._context, table, options, Caller(analyst or self.analyst, idempotency_key))

    @takes_options
    def explain_profile(self, table: str, **options: Unpack[QueryOptions]) -> ProfileQuote:
        """Return the number of rows from which each part of :meth:`profile` is worth its cost. Free; reads no data."""
        from tacit.releases.profile import quote_profile

        return quote_profile(self._context, table, options)

    def make(self, kind: str, *, analyst: str | None = None, idempotency_key: str = "", **fields: Any) -> Any:
        """Make a release of any kind: a model, a workload, a synthetic table, a profile.

        Args:
            kind: name of the kind, as in :meth:`releases`.
            fields: fields of the request, as in the HTTP API, and the query options that apply to this kind.
            analyst: name of the analyst to charge; by default the curator's own.
            idempotency_key: see :meth:`sql`.
        """
        from tacit.releases.kinds import KINDS, request_of

        request = request_of(kind, fields)
        return KINDS[kind].make(self._context, request, Caller(analyst or self.analyst, idempotency_key))

    def releases(self, kind: str | None = None) -> tuple[Release, ...]:
        """Return all charged models, workloads and synthetic tables, or those of one kind, oldest first. Free."""
        from tacit.releases.kinds import KINDS

        return released(self._context, KINDS, kind)

    def released(self, which: int | str) -> Any:
        """Return a charged model, workload or synthetic table as it was returned at first. Free; reads no data.

        Args:
            which: the position of its charge; or its name, such as ``visits_synthetic``, for the newest of that name.

        Raises:
            InputError: there is no such release, or the declarations of its columns have changed since.
        """
        from tacit.releases.kinds import KINDS

        return read_release(self._context, KINDS, which)

    def publish(
        self, plan: str | Path, *, output: str | Path | None = None, progress: Progress | None = None
    ) -> BatchRelease:
        """Answer all queries of a plan file under its one total, and write tables, a report and a receipt.

        After an interruption it may be called again with the same plan: nothing is charged twice, and files already
        written stay.

        Args:
            plan: path of the plan file; see :mod:`tacit.releases.batch`.
            output: folder to write to; by default the folder the plan states.
            progress: called after every query.

        Raises:
            InputError, Refusal: the plan is invalid or one of its queries is refused; nothing is charged.
            BudgetError: the account does not allow the total; nothing is charged.
        """
        from tacit.releases.batch import load_plan, release_batch

        planned = load_plan(plan)
        planned = planned if output is None else replace(planned, output=Path(output))
        return release_batch(self._context, planned, Caller(self.analyst), progress)

    def check_receipt(self, receipt: Receipt | str | bytes) -> ReceiptReport:
        """Verify a receipt with the key that was in force at its position, and compare it with this ledger's entry.

        Raises:
            RollbackError: the receipt is newer than the ledger or of another history: the ledger is an old copy.
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


#: Prefix before the id of a token.
_TOKEN: Final = "token "  # noqa: S105  (a prefix)


@dataclass(frozen=True, slots=True)
class Conversation:
    """The name of a conversation and its share of each account.

    Args:
        name: name of the conversation, unique per analyst; it stays the same conversation after a restart.
        epsilon: limit on the sum of its charges to one population.
    """

    name: str
    epsilon: Number

    @classmethod
    def stated(cls, name: str, epsilon: Number) -> Conversation:
        """Return a conversation with a name chosen by a person.

        Raises:
            InputError: the name begins with the prefix of tokens' shares.
        """
        if " ".join(name.lower().split()).startswith(_TOKEN.strip()):
            raise InputError("conversation", f"must not begin with {_TOKEN.strip()!r}: those are shares of tokens")
        return cls(name, epsilon)

    @classmethod
    def of_token(cls, token: str, epsilon: Number) -> Conversation:
        """Return the conversation of a token: all charges under the token count towards the token's share."""
        return cls(_TOKEN + token, epsilon)

    def begin(self, context: CuratorContext, analyst: str, population: str) -> None:
        """Fix this conversation's share of a population's account, or check that the same share was fixed before.

        Raises:
            InputError: a different share was fixed before.
        """
        exact_positive(self.epsilon, "epsilon")
        with hide_internal_errors():
            account = context.accounts[population]
            caps = share_caps(context.ledger.filter(population), {"epsilon": self.epsilon}, delta=account.target_delta)
            context.ledger.conversations.fix(population, self.name, caps, analyst=analyst)

    def budget(self, context: CuratorContext, analyst: str, population: str, charge: Charge | None = None) -> Budget:
        """Return the state of the account and of its shares, the conversation's share last."""
        self.begin(context, analyst, population)
        return budget_of(context, population, analyst, conversation=self.name, charge=charge)


def budget_of(
    context: CuratorContext, population: str, analyst: str, *, conversation: str = "", charge: Charge | None = None
) -> Budget:
    """Return the state of an account, with the shares of an analyst and a conversation."""
    with hide_internal_errors():
        found = context.ledger.budget(population, analyst=analyst, conversation=conversation, charge=charge)
    return Budget.of(found, durable=context.ledger.durable, account=context.accounts[population])


@contextmanager
def time_shown(stream: TextIO | None, *, after: float = 1.0) -> Iterator[None]:
    """Show on a terminal how long the block has been running, from ``after`` seconds on, and erase it at the end."""
    # Threads that ask at the same time would draw over one another.
    if stream is None or not stream.isatty() or threading.current_thread() is not threading.main_thread():
        yield
        return
    drawn: list[bars.Progress] = []

    def draw() -> None:
        from rich import progress
        from rich.console import Console

        columns = progress.SpinnerColumn(), progress.TextColumn("Reading"), progress.TimeElapsedColumn()
        drawn.append(progress.Progress(*columns, console=Console(file=stream), transient=True))
        drawn[0].add_task("")
        drawn[0].start()

    timer = threading.Timer(after, draw)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        for each in drawn:
            each.stop()
