"""Planned releases: a set of statistics under one total, computed once.

A file names the statistics and the total::

    [release]
    name = "Yearly report"
    epsilon = "1"                 # or rho, or mu, by kind of account
    delta = "1e-6"
    output = "yearly"             # a folder beside this file; by default "release"
    formats = ["csv", "parquet"]

    [statistics.visits_by_ward]
    sql = "SELECT ward, COUNT(*) AS visits FROM visits GROUP BY ward"
    weight = 2                    # twice the epsilon of a statistic of weight 1
    title = "Visits by ward"

*Division of the total.* Each statistic gets an amount in proportion to its weight (to its square, in ρ and μ²), times
one common factor that is as large as the total allows:

========  =========================================================================================================
account   the factor
========  =========================================================================================================
pure      Σε is the total: there is no tighter rule for pure differential privacy
zcdp      Σρ is the total; an (ε, δ) total is the largest ρ that implies it
gdp       Σμ² is the total's
approx    Σε is the total with Laplace noise; or Σρ is that of Gaussian noise at (ε, δ), checked by composing
          the privacy loss of all events; whichever has the smaller variances
========  =========================================================================================================

Statistics whose group keys are selected privately share half of δ for that.

*One charge.* One reservation pays for all statistics. Each statistic then has a separate entry in the ledger, free
because it is part of the batch, and its numbers are stored there as soon as they are released. After an interruption,
the next run finds the reservation and the stored numbers, and computes only the missing statistics: no noise is drawn a
second time. Tables, report and receipt are written from the ledger, so writing them again changes nothing.

A batch is identified by the plan, its total, the project's metadata and the content of its sources. If any of these
changes, it is another release and is charged again.
"""

from __future__ import annotations

import html
import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from tacit.accounting.compose import compose_plan
from tacit.accounting.composition_plan import read_plan
from tacit.accounting.currencies import (
    GAUSSIAN,
    PURE,
    ZERO_CONCENTRATED,
    AccountGuarantee,
    currency_named,
    currency_of,
)
from tacit.core.canonical import canonical, digest_of
from tacit.core.errors import AccountingError, InputError
from tacit.core.events import NoEvent
from tacit.core.extras import load_arrow
from tacit.core.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP
from tacit.core.numbers import (
    exact_positive,
    exact_probability,
    exp_bounds,
    float_nearest,
    format_up,
    round_down,
    sqrt_bounds,
)
from tacit.core.relations import ADD_REMOVE, Relation
from tacit.core.text_files import replace_file, table_bytes
from tacit.engines.registry import warehouse_statement
from tacit.ledger import Order, Outcome, Reservation
from tacit.project.project_file import ContributionField, FileNumber, StrictModel, validate
from tacit.project.project_template import read_toml
from tacit.query.contribution import ContributionNumber
from tacit.query.planning.auto_bounds import sought
from tacit.query.planning.explain import explain
from tacit.query.planning.plan import Plan, outline, plan_query
from tacit.query.planning.pricing import largest_mu_of, largest_rho_of, mu_of_epsilon
from tacit.query.query import Query
from tacit.query.release import NoisyRelease
from tacit.query.request import OPTIONS, Account, Request
from tacit.query.resolve import resolve
from tacit.releases.accounts import Entry, typed_epsilon
from tacit.releases.answer import Answer, html_table
from tacit.releases.notebook import answers_notebook
from tacit.releases.payment import Caller, entry_of, hide_internal_errors, pay, reserved
from tacit.releases.query import QueryContext, answer_from_outcome, public_rows, release_key, run
from tacit.releases.receipt import Receipt, ReceiptStatement, about_plan, exact_events, mechanisms_of, quoted
from tacit.releases.release_format import manifest, released_from_text, released_to_text

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}\Z")
_RESERVED: Final = ("receipt", "report", "public-key")


class _StatisticModel(StrictModel):
    sql: str
    weight: FileNumber = 1
    title: str = ""
    max_groups: ContributionField | None = None
    max_rows: ContributionField | None = None


class _ReleaseModel(StrictModel):
    name: str = "release"
    epsilon: FileNumber | None = None
    delta: FileNumber | None = None
    rho: FileNumber | None = None
    mu: FileNumber | None = None
    confidence: FileNumber = "0.95"
    bias_share: FileNumber = "0.04"
    output: str = "release"
    formats: tuple[Literal["csv", "parquet"], ...] = ("csv", "parquet")


class _FileModel(StrictModel):
    release: _ReleaseModel
    statistics: dict[str, _StatisticModel] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Statistic:
    """One query of a planned release; its files have its name.

    Args:
        weight: relative share of the total; a statistic of weight 2 gets twice the epsilon of one of weight 1.
        max_groups: the most groups that one unit counts in, or AUTO, if other than declared.
        max_rows: the most rows of one unit that count per group, or AUTO, if other than declared.
    """

    name: str
    sql: str
    weight: Fraction
    title: str
    max_groups: ContributionNumber | None
    max_rows: ContributionNumber | None = None


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """A plan of statistics, read from a file and validated.

    Args:
        statistics: statistics in the order of the file.
        currency: unit of the total: ``"epsilon"``, ``"rho"`` or ``"mu"``.
        amount: the total, in that unit.
        delta: delta of the total; 0 when none was stated.
        confidence: confidence of all intervals.
        output: folder for the results.
        bias_share: share of each statistic's cost spent on estimates of clipping and truncation bias.
    """

    name: str
    statistics: tuple[Statistic, ...]
    currency: str
    amount: Fraction
    delta: Fraction
    confidence: Fraction
    output: Path
    formats: tuple[str, ...]
    bias_share: Fraction = Fraction(1, 25)


def load_plan(path: str | Path) -> BatchPlan:
    """Read a plan file; raise an InputError that names the position of the first problem."""
    place = Path(path)
    model = validate(_FileModel, read_toml(place, "plan"))
    about = model.release
    if not model.statistics:
        raise InputError("statistics", "name at least one: [statistics.<name>] with its sql")
    totals = [word for word in ("epsilon", "rho", "mu") if getattr(about, word) is not None]
    if len(totals) != 1:
        raise InputError("release", f"state one total: epsilon, rho or mu; got {', '.join(totals) or 'none'}")
    statistics = []
    for name, said in model.statistics.items():
        if not _NAME.match(name) or name.lower() in _RESERVED:
            words = f"a name becomes a file: letters, digits, - and _, and not {', '.join(_RESERVED)}"
            raise InputError(f"statistics.{name}", words)
        weight = exact_positive(said.weight, f"statistics.{name}.weight")
        title = said.title or name.replace("_", " ")
        statistics.append(Statistic(name, said.sql, weight, title, said.max_groups, said.max_rows))
    return BatchPlan(
        name=about.name,
        statistics=tuple(statistics),
        currency=totals[0],
        amount=exact_positive(getattr(about, totals[0]), f"release.{totals[0]}"),
        delta=Fraction(0) if about.delta is None else exact_probability(about.delta, "release.delta"),
        confidence=exact_probability(about.confidence, "release.confidence"),
        output=place.parent / about.output,
        formats=tuple(dict.fromkeys(about.formats)),
        bias_share=OPTIONS["bias_share"].exact(about.bias_share),
    )


# -- division of the total

_DIGITS: Final = 12
#: Share of the ρ of continuous noise that noise on integers is given.
_SPARE: Final = 1 - Fraction(1, 100)
#: Share of the total that is used, so that composing the events again, on another machine, stays within the total.
_SURE: Final = 1 - Fraction(1, 10**6)


@dataclass(frozen=True)
class Split:
    """A plan for every statistic, and the guarantee of all of them together, which is charged.

    ``method`` names the composition theorem in a sentence.
    """

    plans: tuple[Plan, ...]
    guarantee: AccountGuarantee
    method: str


def split_total(
    batch: BatchPlan, queries: Sequence[Query], relation: Relation, account: Account, *, catalog: str
) -> Split:
    """Divide the total of a batch among its statistics; an epsilon without a delta is read as for a single query.

    Raises:
        InputError: the account is not charged in the unit of the total, or a delta is needed and missing.
        Refusal: a query cannot be answered privately as written.
    """
    private = [any(not final.public_keys for final in query.finals) for query in queries]
    own = batch.delta / 2 if any(private) else Fraction(0)
    if account.kind in ("zcdp", "gdp") and batch.currency == "epsilon" and not batch.delta:
        whole, each = (exact_probability(of or 0, "delta", zero=True) for of in (account.target_delta, account.delta))
        batch, own = replace(batch, delta=whole), min(each * sum(private), whole / 2)
    deltas = [own / sum(private) if each else Fraction(0) for each in private]
    weights = [statistic.weight for statistic in batch.statistics]
    squares = [weight**2 for weight in weights]

    def plans(kind: str, currency: str, amounts: Sequence[Fraction]) -> tuple[Plan, ...]:
        """Return the plan of each query at its amount of a currency."""
        return tuple(
            plan_query(
                query,
                relation,
                Request(
                    **{currency: amount},  # type: ignore[arg-type]
                    delta=delta or None,
                    confidence=batch.confidence,
                    max_groups=statistic.max_groups,
                    max_rows=statistic.max_rows,
                    bias_share=batch.bias_share,
                    account=Account(kind, delta or None),
                ),
                catalog=catalog,
            )
            for query, statistic, amount, delta in zip(queries, batch.statistics, amounts, deltas, strict=True)
        )

    counted = currency_named(account.kind)
    if counted is PURE:
        if batch.currency != "epsilon" or batch.delta:
            raise InputError("release", "a pure account is charged in epsilon alone")
        made = plans("pure", "epsilon", [batch.amount * weight / sum(weights) for weight in weights])
        return Split(made, PureDP(batch.amount, relation=relation), "the sum of their epsilons")
    if counted is ZERO_CONCENTRATED:
        if batch.currency == "mu":
            raise InputError("release.mu", "a zcdp account is charged in rho; state rho, or epsilon and delta")
        rho = batch.amount
        if batch.currency == "epsilon":
            rho = largest_rho_of(batch.amount, batch.delta - own) if batch.delta else batch.amount**2 / 2
        made = plans("zcdp", "rho", [rho * square / sum(squares) for square in squares])
        return Split(made, ZCDP(rho, delta=own, relation=relation), "the sum of their rhos")
    if counted is GAUSSIAN:
        if batch.currency == "rho" or (batch.currency == "mu" and batch.delta):
            raise InputError("release", "a gdp account is charged in mu, or in the mu of an epsilon")
        mu = batch.amount
        if batch.currency == "epsilon":
            mu = largest_mu_of(mu, batch.delta) if batch.delta else mu_of_epsilon(mu).mu
        shares = (mu**2 * square / sum(squares) for square in squares)
        made = plans("gdp", "mu", [round_down(sqrt_bounds(share)[0], _DIGITS) for share in shares])
        return Split(made, GDP(mu, relation=relation), "the sum of the squares of their mus")

    if batch.currency != "epsilon":
        raise InputError("release", "an approx account is charged in epsilon and delta")
    if any(sought(final) for query in queries for final in query.finals):
        # Bounds found by AUTO shift noise between the parts of a query, after the events were composed.
        raise InputError("statistics", "AUTO bounds cannot be planned for in an approx account; write CLAMP(x, lo, hi)")
    made = plans("approx", "epsilon", [batch.amount * weight / sum(weights) for weight in weights])
    if any(plan.seeks_limits for plan in made):
        raise InputError(
            "statistics",
            "AUTO max_groups and max_rows cannot be planned for in an approx account; state numbers for every "
            "statistic, or in the project file",
        )
    spent = sum((currency_of(plan.guarantee).as_pair(plan.guarantee).delta for plan in made), Fraction(0))
    method = f"the sum of their epsilons{' and deltas' if spent else ''}"
    ways = [Split(made, ApproxDP(batch.amount, spent, relation=relation), method)]
    for continuous in (True, False) if batch.delta else ():
        left = batch.delta - own
        most = largest_mu_of(batch.amount, left) ** 2 / 2 if continuous else largest_rho_of(batch.amount, left)
        # Noise on integers loses a little more than continuous noise of that μ; ρ by the conversion always suffices.
        made = plans("zcdp", "rho", [most * _SPARE * square / sum(squares) for square in squares])
        events = read_plan([event for plan in made for event in exact_events(plan)])
        try:
            total = compose_plan(events, batch.delta, "pld", bracket=False)
        except AccountingError:
            total = compose_plan(events, batch.delta, "best", bracket=False)
        if total.epsilon <= batch.amount * _SURE:
            guarantee = ApproxDP(batch.amount, batch.delta, relation=relation)
            ways.append(Split(made, guarantee, f"their composed privacy loss ({total.method})"))
            break

    def badness(split: Split) -> float:
        """Return the sum of the logarithms of all variances: halving one variance and doubling another is no gain."""
        laws = [release.law(i) for plan in split.plans for release in plan.releases for i in release.block.measures]
        return math.fsum(math.log(max(float_nearest(law.variance_bound), 1e-18)) for law in laws)

    return min(ways, key=badness)


# -- the report as one HTML page: charts are inline SVG, there is no script, every text from outside is escaped

#: Largest number of bars of a chart that is still readable.
_MOST_BARS: Final = 60
_STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1 { margin-bottom: 0; } h2 { margin-top: 2.5rem; border-top: 1px solid #ddd; padding-top: 1.5rem; }
table { border-collapse: collapse; margin: 1rem 0; } th, td { padding: .25rem .75rem; border-bottom: 1px solid #eee; }
th { text-align: right; } pre { background: #f6f6f6; padding: .75rem; overflow-x: auto; white-space: pre-wrap; }
.quiet { color: #666; } svg { max-width: 100%; height: auto; } code { overflow-wrap: anywhere; }
"""


def report_page(
    batch: BatchPlan, split: Split, answers: Mapping[str, Answer], receipt: Receipt, public_key: str
) -> str:
    title = html.escape(batch.name)
    sections = (line for each in batch.statistics for line in _section(each, answers[each.name]))
    population, place = str(receipt["population"]), receipt["ledger"]
    charge = ", ".join(f"{name} {format_up(Fraction(text))}" for name, text in receipt["charge"].items()) or "nothing"
    if batch.currency == "epsilon" and "epsilon" not in receipt["charge"]:
        charge = f"epsilon {format_up(batch.amount)} ({charge})"
    intervals = float_nearest(100 * split.plans[0].terms.confidence)
    number = len(batch.statistics)
    body = [
        (
            f'<p class="quiet">{number} statistic{"" if number == 1 else "s"} about {html.escape(population)}, '
            "released together.</p>"
        ),
        f"<p>{html.escape(guarantee_in_words(split.guarantee, population))}</p>",
        (
            f"<p>The persons are counted by <code>{html.escape(str(receipt['unit']))}</code>. Noise was added to every "
            f"number, once, and is part of it for good; how much is public and stands beside each result. The total "
            f"covers all statistics together: {html.escape(split.method)}.</p>"
        ),
        *sections,
        "<h2>How to check this</h2>",
        (
            f"<p>Charged {html.escape(charge)}, at position {place['position']} of ledger "
            f"<code>{html.escape(place['id'])}</code>. Intervals hold with {intervals:g}% each, over the noise; "
            f"clipping to bounds and groups that were left out are not in them.</p>"
        ),
        (
            "<p><code>receipt.json</code> states all of the above, signed. <code>tacit receipt verify "
            "receipt.json --key public-key.txt</code> checks it offline with the curator's public key, and "
            f"computes the charge from the mechanisms again:</p><p><code>{html.escape(public_key)}</code></p>"
        ),
    ]
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def guarantee_in_words(guarantee: Guarantee, population: str) -> str:
    """Return one or two sentences about the meaning of a guarantee for one person."""
    who = "one of them is in the data or not"
    if guarantee.relation is not ADD_REMOVE:
        who = "the data of one of them is theirs or another person's"
    currency = currency_of(guarantee)
    pair = currency.as_pair(guarantee)
    first, *others = (f"{name} {format_up(number)}" for name, number in currency.shown(guarantee).items())
    if currency.relaxed:
        given = f"It follows from {currency.concept} with {first}{''.join(f' (and {each})' for each in others)}."
    else:
        given = f"That is {currency.concept} with {' and '.join([first, *others])}."
    times = format_up(Fraction(exp_bounds(pair.epsilon)[1]), 3)
    but = f", apart from a chance of {format_up(pair.delta, 3)}" if pair.delta else ""
    return (
        f"Everything on this page protects each of the {population}: whether {who}, no result of this release becomes "
        f"more than {times} times likelier{but}. {given}"
    )


def _section(statistic: Statistic, answer: Answer) -> Iterator[str]:
    words = explain(answer.paid[0])
    noise = [f"{words.bounding}.", f"Groups: {words.keys}."]
    noise += [f"{release.name}: {release.mechanism} noise, scale {release.scale}." for release in words.releases]
    yield f'<section id="{html.escape(statistic.name)}">\n<h2>{html.escape(statistic.title)}</h2>'
    chart = None
    if any(answer.finished.has_interval) and 1 < len(answer) <= _MOST_BARS:
        sink = io.StringIO()
        answer.plot().save(sink, format="svg")
        chart = re.search(r"<svg.*</svg>", sink.getvalue(), re.DOTALL)
    yield f"<figure>{chart.group(0)}</figure>" if chart else ""
    yield html_table(answer)
    yield f"<pre>{html.escape(statistic.sql)}</pre>"
    quiet = " ".join(part[0].upper() + part[1:] for part in noise)
    yield f'<p class="quiet">{html.escape(quiet)}</p>\n</section>'


# -- releases

#: Callback with the number of statistics done, their total number, and the name of the last one done.
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class BatchRelease:
    """Result of a planned release.

    Args:
        batch: the plan that was read from a file.
        split: division of the total among the statistics.
        answers: answers by name of the statistic.
        charge: ledger entry of the charge; nothing when the release existed already.
        receipt: signed statement about all statistics.
        files: paths of the files, in the order of writing.
    """

    batch: BatchPlan
    split: Split
    answers: dict[str, Answer]
    charge: Entry
    receipt: Receipt
    files: tuple[Path, ...]

    def __str__(self) -> str:
        statistics = f"{len(self.answers)} statistic{'s' * (len(self.answers) != 1)}"
        return f"{self.batch.name}: {statistics} in {self.batch.output}. {self.charge.text}."


def quote_batch(context: QueryContext, batch: BatchPlan) -> Split:
    """Divide the total of a plan among its statistics. Free; reads no data."""
    with hide_internal_errors():
        catalog = context.measured_catalog
        queries = [resolve(each.sql, catalog, max_rows=each.max_rows) for each in batch.statistics]
        populations = {query.final.population for query in queries}
        if len(populations) > 1:
            raise InputError(
                "statistics",
                f"a release has one total, so one population; these are about {', '.join(sorted(populations))}",
            )
        population = context.catalog.population(populations.pop())
        account = context.accounts[population.name]
        split = split_total(batch, queries, population.relation, account, catalog=context.catalog.digest)
        for plan in split.plans:
            for final, table in plan.measured:
                context.engine.check(final)
                if table is not None:
                    context.engine.check_bias(final, table)
    return split


def release_batch(
    context: QueryContext, batch: BatchPlan, caller: Caller, progress: Progress | None = None
) -> BatchRelease:
    """Compute all statistics of a plan under its one total, and write tables, a report and a receipt.

    After an interruption it may be called again with the same plan: nothing is charged twice, and stored statistics
    stay.

    Raises:
        InputError, Refusal: the plan is invalid or one of its queries is refused; nothing is charged.
        BudgetError: the account does not allow the total; nothing is charged.
        EngineError, InternalError: a failure described by an id alone; the amount reserved stays spent.
    """
    # A library that the files need must be found missing before anything is charged.
    load_arrow()
    split = quote_batch(context, batch)
    named = list(zip(batch.statistics, split.plans, strict=True))
    analyst, population = caller.analyst, split.plans[0].final.population

    def parts(paying: Reservation) -> list[Outcome]:
        """Return the outcome of every statistic: found in the ledger, or computed and stored there."""
        found = []
        for done, (statistic, plan) in enumerate(named, start=1):
            # The statistic is free, because the reservation of the batch has paid for it.
            free = Order(
                plan.final.population,
                NoEvent(relation=plan.relation),
                analyst=analyst,
                project=context.project,
                sql=statistic.sql,
                plan=plan.digest,
                quote={"paid by": paying.seq, "statistic": statistic.name},
                repeat_key=part_key(key, statistic.name),
            )
            drawn = pay(context, free, partial(_run, context, plan), released_to_text, None, keep_failure=False)
            found.append(drawn.outcome)
            if progress is not None:
                progress(done, len(named), statistic.name)
        return found

    def text(made: list[Outcome]) -> str:
        return manifest({statistic.name: part.digest for (statistic, _), part in zip(named, made, strict=True)})

    def statement(made: list[Outcome] | None, _: str) -> ReceiptStatement:
        answers = []
        for (statistic, plan), part in zip(named, made or [], strict=True):
            # Where AUTO found bounds, the plan that ran holds them.
            ran = released_from_text(part.result.decode(), plan).plan
            answers.append(about_plan(outline(ran), ran, statistic.sql, released=part.digest, name=statistic.name))
        unit = "; ".join(dict.fromkeys(outline(plan).unit for plan in split.plans))
        kind = context.accounts[population].kind
        return ReceiptStatement(answers, unit, kind, split.guarantee, context.catalog.digest)

    with hide_internal_errors():
        key = _batch_key(context, batch, split)
        order = _order(context, batch, split, key, analyst)
        # Stored statistics stay, so an interrupted run continues under the same charge.
        paid = pay(context, order, parts, text, statement, keep_failure=False)
        made = paid.made or parts(paid.outcome.reservation)
        entry = entry_of(paid.outcome, sql=batch.name, digest=key, analyst=analyst, paid=paid.now)
        answers = {}
        for (statistic, plan), part in zip(named, made, strict=True):
            own, public = replace(entry, part=_cost(context, batch, plan)), public_rows(context, plan)
            answers[statistic.name] = answer_from_outcome(plan, part.result, own, paid.receipt, public)

    def files() -> Iterator[tuple[str, bytes]]:
        for name, answer in answers.items():
            for ending in batch.formats:
                yield f"{name}.{ending}", table_bytes(answer.intervals(), ending)
        yield from _receipt_files(paid.receipt, paid.outcome.key)
        yield "report.html", report_page(batch, split, answers, paid.receipt, paid.outcome.key).encode()
        queries = {statistic.name: statistic.sql for statistic in batch.statistics}
        yield "notebook.ipynb", answers_notebook(batch.name, answers, paid.receipt, queries)

    return BatchRelease(batch, split, answers, entry, paid.receipt, _written(batch.output, files()))


def _batch_key(context: QueryContext, batch: BatchPlan, split: Split) -> str:
    """Return the repeat key of a batch: a digest of every release in it, its name, and the total cost."""
    named = zip(batch.statistics, split.plans, strict=True)
    keys = [[statistic.name, release_key(context, plan)] for statistic, plan in named]
    return digest_of(canonical(["batch", batch.name, repr(split.guarantee), keys]))


def _order(context: QueryContext, batch: BatchPlan, split: Split, key: str, analyst: str) -> Order:
    named = zip(batch.statistics, split.plans, strict=True)
    return Order(
        split.plans[0].final.population,
        split.guarantee,
        analyst=analyst,
        project=context.project,
        sql=f"release {batch.name}: {', '.join(statistic.name for statistic in batch.statistics)}",
        plan=key,
        quote={"statistics": [{"name": s.name, "mechanisms": quoted(mechanisms_of(plan))} for s, plan in named]}
        | typed_epsilon({batch.currency: batch.amount}),
        repeat_key=key,
    )


def measure_batch(context: QueryContext, batch: BatchPlan, caller: Caller, dialect: str) -> str:
    """Return the SQL statement that measures a plan in a warehouse; the total is reserved durably before it returns.

    Raises:
        Refusal, InputError: the plan cannot be measured in a warehouse; nothing is charged.
        BudgetError: the account does not allow the total; nothing is charged.
    """
    if batch.bias_share:
        raise InputError("release.bias_share", "must be 0 for a warehouse: the bias is estimated from rows read here")
    split = quote_batch(context, batch)
    finals = [final for plan in split.plans for final, _ in plan.measured]
    with hide_internal_errors():
        secret = context.keys.group_secret(split.plans[0].final.population)
        sql = warehouse_statement(context.engine, finals, secret, dialect)
        context.keys.check(context.ledger)
        reserved(context, _order(context, batch, split, _batch_key(context, batch, split), caller.analyst))
        return sql


def _cost(context: QueryContext, batch: BatchPlan, plan: Plan) -> str:
    """Return the cost of one statistic as text, in the unit of the total, such as ``epsilon 0.2``."""
    currency, found = currency_of(plan.guarantee), plan.guarantee
    own = ", ".join(f"{name} {format_up(number, 6)}" for name, number in currency.shown(found).items())
    stated = batch.delta or context.accounts[plan.final.population].target_delta
    if batch.currency != "epsilon" or not currency.relaxed or not stated:
        return own
    delta = exact_probability(stated, "delta")
    return f"epsilon {format_up(found.to_approx(delta).epsilon, 3)} at delta {format_up(delta, 3)} ({own})"


def part_key(batch: str, statistic: str) -> str:
    """Return the repeat key of a statistic in the ledger, derived from the key of its batch."""
    return digest_of(canonical(["statistic", batch, statistic]))


def _run(context: QueryContext, plan: Plan, _: Reservation) -> NoisyRelease:
    return run(context, plan)


def _receipt_files(receipt: Receipt, public_key: str) -> Iterator[tuple[str, bytes]]:
    yield "receipt.json", f"{receipt.to_json()}\n".encode()
    yield "public-key.txt", f"{public_key}\n".encode()


def _written(folder: Path, files: Iterable[tuple[str, bytes]]) -> tuple[Path, ...]:
    """Write files into a folder, in order; if one fails, the files before it stay."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return tuple(replace_file(folder / name, content) for name, content in files)
    except OSError as problem:
        raise InputError(
            "release.output",
            f"cannot write to {folder}: {problem.strerror}; what was released is kept, run the plan again",
        ) from None
