"""Planned releases: a set of statistics under one total, computed once.

One reservation pays for all of them. Each statistic is then an entry of its own in the ledger, free because it is part
of the batch, and its numbers are stored there as soon as they exist. A run that was interrupted finds the reservation
and whatever was stored, and draws only what is missing: nothing that exists is ever drawn a second time. Tables, report
and receipt are written from what the ledger holds, so writing them again changes nothing.

The plan, its total, the project's metadata and the content of its sources name a batch. If any of these changes, it is
another release and is paid as one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tacit.core.canonical import canonical, digest_of
from tacit.core.errors import InputError
from tacit.core.events import NoEvent
from tacit.core.extras import load_arrow
from tacit.core.text_files import replace_file, table_bytes
from tacit.ledger import Order, Outcome, Reservation
from tacit.query.planning.plan import Plan, outline
from tacit.query.release import NoisyRelease
from tacit.query.resolve import resolve
from tacit.releases.accounts import Entry
from tacit.releases.batch_file import BatchPlan, Statistic, load_batch
from tacit.releases.budget_split import Split, split_total
from tacit.releases.payment import Caller, entry_of, hide_internal_errors, pay
from tacit.releases.planner import QuestionContext
from tacit.releases.query import answer_from_outcome, public_rows, release_key, run
from tacit.releases.receipt import Receipt, ReceiptStatement, about_plan, mechanisms_of, quoted
from tacit.releases.release_format import manifest, released_from_text, released_to_text
from tacit.releases.report_page import report_page
from tacit.releases.views.answer_object import Answer

#: Called with how many statistics are done, how many there are, and the name of the last one done.
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class BatchRelease:
    """Result of a planned release.

    Args:
        batch: the plan.
        split: how the total was divided.
        answers: by name of the statistic.
        charge: what the account was charged; nothing when the release existed already.
        receipt: the signed statement about all of them.
        files: what was written, in the order of writing.
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


def quote_batch(context: QuestionContext, plan_file: str | Path) -> tuple[BatchPlan, Split]:
    """Divide the total of a plan: free, and reads no data."""
    batch = load_batch(plan_file)
    return batch, _split(context, batch)


def release_batch(
    context: QuestionContext,
    plan_file: str | Path,
    caller: Caller,
    *,
    output: str | Path | None = None,
    progress: Progress | None = None,
) -> BatchRelease:
    """Compute all statistics of a plan under its one total, and write tables, a report and a receipt.

    Interrupted, it may be called again with the same plan: what was paid is not paid again, and what exists stays.

    Args:
        context: metadata, data, ledger and keys.
        plan_file: see :mod:`tacit.releases.batch_file`.
        caller: who asks.
        output: the folder to write to, instead of the plan's.
        progress: told after every statistic.

    Raises:
        InputError, Refusal: the plan cannot be carried out; nothing is charged.
        BudgetError: the account does not allow the total; nothing is charged.
        EngineError, InternalError: something failed, and only an id says what; what was reserved stays spent.
    """
    # What its files need is missing before anything is charged, or not at all.
    load_arrow()
    batch = load_batch(plan_file)
    if output is not None:
        batch = replace(batch, output=Path(output))
    split = _split(context, batch)
    with hide_internal_errors():
        key = _key(context, batch, split)

        def parts(reservation: Reservation) -> list[Outcome]:
            return _parts(context, batch, split, key, reservation, caller.analyst, progress)

        def statement(made: list[Outcome] | None, _: str) -> ReceiptStatement:
            return _statement(context, batch, split, made or [])

        # Parts that exist stay, so a run that was interrupted goes on under the same charge.
        paid = pay(
            context,
            _order(context, batch, split, key, caller.analyst),
            parts,
            lambda made: manifest({s.name: part.digest for s, part in zip(batch.statistics, made, strict=True)}),
            statement,
            keep_failure=False,
        )
        made = paid.made or parts(paid.outcome.reservation)
        entry = entry_of(paid.outcome, sql=batch.name, digest=key, analyst=caller.analyst, paid=paid.now)
        answers = {
            statistic.name: answer_from_outcome(plan, part.result, entry, paid.receipt, public_rows(context, plan))
            for statistic, plan, part in zip(batch.statistics, split.plans, made, strict=True)
        }
    files = _write(batch, split, answers, paid.receipt, paid.outcome.key)
    return BatchRelease(batch, split, answers, entry, paid.receipt, files)


def _split(context: QuestionContext, batch: BatchPlan) -> Split:
    with hide_internal_errors():
        catalog = context.measured_catalog
        questions = [resolve(each.sql, catalog, max_rows=each.max_rows) for each in batch.statistics]
        populations = {question.final.population for question in questions}
        if len(populations) > 1:
            raise InputError(
                "statistics",
                f"a release has one total, so one population; these are about {', '.join(sorted(populations))}",
            )
        population = context.catalog.population(populations.pop())
        kind = context.accounts[population.name].kind
        split = split_total(batch, questions, population.relation, kind, catalog=context.catalog.digest)
        for plan in split.plans:
            for final, table in plan.measured:
                context.engine.check(final)
                if table is not None:
                    context.engine.check_left_out(final, table)
    return split


def _key(context: QuestionContext, batch: BatchPlan, split: Split) -> str:
    """Name of the batch: a digest of every release in it, its name, and the total price."""
    parts = [[s.name, release_key(context, plan)] for s, plan in zip(batch.statistics, split.plans, strict=True)]
    return digest_of(canonical(["batch", batch.name, repr(split.guarantee), parts]))


def _order(context: QuestionContext, batch: BatchPlan, split: Split, key: str, analyst: str) -> Order:
    named = list(zip(batch.statistics, split.plans, strict=True))
    return Order(
        split.plans[0].final.population,
        split.guarantee,
        analyst=analyst,
        project=context.project,
        sql=f"release {batch.name}: {', '.join(statistic.name for statistic in batch.statistics)}",
        plan=key,
        quote={"statistics": [{"name": s.name, "mechanisms": quoted(mechanisms_of(plan))} for s, plan in named]},
        repeat_key=key,
    )


def _parts(
    context: QuestionContext,
    batch: BatchPlan,
    split: Split,
    key: str,
    reservation: Reservation,
    analyst: str,
    progress: Progress | None,
) -> list[Outcome]:
    """The outcome of every statistic: found in the ledger, or made and stored there."""
    parts = []
    for done, (statistic, plan) in enumerate(zip(batch.statistics, split.plans, strict=True), start=1):
        order = _part(context, statistic, plan, key, reservation, analyst)
        paid = pay(context, order, _drawing(context, plan), released_to_text, None, keep_failure=False)
        parts.append(paid.outcome)
        if progress is not None:
            progress(done, len(batch.statistics), statistic.name)
    return parts


def _drawing(context: QuestionContext, plan: Plan) -> Callable[[Reservation], NoisyRelease]:
    return lambda _: run(context, plan)


def _part(
    context: QuestionContext, statistic: Statistic, plan: Plan, key: str, reservation: Reservation, analyst: str
) -> Order:
    """One statistic: it costs nothing, because the reservation of the batch has paid for it."""
    return Order(
        plan.final.population,
        NoEvent(relation=plan.relation),
        analyst=analyst,
        project=context.project,
        sql=statistic.sql,
        plan=plan.digest,
        quote={"paid by": reservation.seq, "statistic": statistic.name},
        repeat_key=digest_of(canonical(["statistic", key, statistic.name])),
    )


def _statement(context: QuestionContext, batch: BatchPlan, split: Split, parts: Sequence[Outcome]) -> ReceiptStatement:
    named = zip(batch.statistics, split.plans, parts, strict=True)
    return ReceiptStatement(
        [_about(plan, statistic, part) for statistic, plan, part in named],
        "; ".join(dict.fromkeys(outline(plan).unit for plan in split.plans)),
        context.accounts[split.plans[0].final.population].kind,
        split.guarantee,
        context.catalog.digest,
    )


def _about(plan: Plan, statistic: Statistic, part: Outcome) -> dict[str, Any]:
    # Where AUTO bounds were found, the plan that ran is the one with the bounds.
    ran = released_from_text(part.result.decode(), plan).plan
    return about_plan(outline(ran), ran, statistic.sql, released=part.digest, name=statistic.name)


def _write(
    batch: BatchPlan, split: Split, answers: dict[str, Answer], receipt: Receipt, public_key: str
) -> tuple[Path, ...]:
    files: list[Path] = []
    try:
        batch.output.mkdir(parents=True, exist_ok=True)
        files += [
            replace_file(batch.output / f"{name}.{ending}", table_bytes(answer.intervals(), ending))
            for name, answer in answers.items()
            for ending in batch.formats
        ]
        files.append(replace_file(batch.output / "receipt.json", f"{receipt.to_json()}\n".encode()))
        files.append(replace_file(batch.output / "public-key.txt", f"{public_key}\n".encode()))
        page = report_page(batch, split, answers, receipt, public_key)
        files.append(replace_file(batch.output / "report.html", page.encode()))
    except OSError as problem:
        raise InputError(
            "release.output",
            f"cannot write to {batch.output}: {problem.strerror}; what was released is kept, run the plan again",
        ) from None
    return tuple(files)
