"""A second report about a synthetic table: its distance from the real data, released with noise and paid for by itself.

The first report is made of what the table was paid with, and says nothing about pairs that were not measured. This one
compares the model with the real counts, marginal by marginal, at a price of its own.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.currencies import currency_of
from tacit.charges.accounts import Entry
from tacit.charges.payment import Caller, CuratorContext, check_succeeded, entry_of, hide_internal_errors, pay
from tacit.core.errors import InputError, InternalError
from tacit.core.events import ComposedEvent
from tacit.core.extras import load_arrow
from tacit.core.names import is_name
from tacit.ledger import Order, Reservation
from tacit.paid_work.workload_release import count_price, settled
from tacit.query.planning.pricing import check_charge
from tacit.receipts.receipt import Receipt, ReceiptStatement, about_mechanism, quoted
from tacit.receipts.release_format import canonical, digest_of
from tacit.synth.table_distance import DistanceMeasurement
from tacit.synthetic_tables.table_synthesis_release import SUFFIX, stored_synthesis

_FORMAT: Final = "tacit-synthetic-check"
_HEEDED: Final = ("epsilon", "delta", "rho", "mu", "confidence")
#: Marginals of one check.
_MOST_SETS: Final = 2_000


@dataclass(frozen=True)
class SyntheticCheck:
    """Distances of a synthetic table from the real one, marginal by marginal.

    Args:
        name: of the synthetic table.
        sets: columns of each marginal.
        distances: of each marginal, the share of rows that would have to move to another cell; with noise, so that it
            may be negative.
        wide: half-width of the interval of each.
        confidence: of the intervals, each by itself.
        charge: what the account was charged.
        receipt: the signed statement.
    """

    name: str
    sets: tuple[tuple[str, ...], ...]
    distances: tuple[float, ...]
    wide: float
    confidence: str
    charge: Entry
    receipt: Receipt

    @property
    def mean(self) -> float:
        """Mean distance over all marginals."""
        return float(np.mean(self.distances))

    def to_arrow(self) -> Any:
        """One row for each marginal: ``columns``, ``distance``, ``low`` and ``high``."""
        pa = load_arrow()

        found = np.array(self.distances)
        return pa.table(
            {
                "columns": [" × ".join(names) for names in self.sets],
                "distance": found,
                "low": np.maximum(found - self.wide, 0.0),
                "high": np.maximum(found + self.wide, 0.0),
            }
        )

    def __str__(self) -> str:
        many = f"on average over {len(self.sets)} marginals, each" if len(self.sets) > 1 else "in one marginal,"
        head = f"{self.name} against the real data: {100 * self.mean:.1f}% of rows apart {many} "
        lines = [head + f"± {100 * self.wide:.1f}% ({float(self.confidence):.0%})"]
        worst = sorted(zip(self.distances, self.sets, strict=True), reverse=True)
        lines += [f"  {' × '.join(names)}: {100 * apart:.1f}%" for apart, names in worst[:10]]
        if len(worst) > 10:
            lines.append(f"  and {len(worst) - 10} more that are closer")
        return "\n".join(lines)


def check_against_data(
    context: CuratorContext,
    position: int,
    name: str,
    marginals: Sequence[Sequence[str]] | None,
    options: Mapping[str, Any],
    caller: Caller,
) -> SyntheticCheck:
    """Compare a synthetic table with the data; see :meth:`tacit.curator.curator.Curator.check_synthetic`.

    Args:
        context: ledger, engine and metadata.
        position: of the charge of the table.
        name: of one of two tables that were paid for together.
        marginals: sets of columns.
        options: the price.
        caller: who asks.
    """
    with hide_internal_errors():
        stored = stored_synthesis(context, position)
        done = stored.stage_of(name)
        ready, model = done.stage, done.model
        sets = _sets(marginals, ready.counts.sizes, ready.plan.outer)
        terms = settled(context, ready.counts.population, options, _HEEDED)
        amount, noise, guarantee = count_price(terms, ready.plan.relation)
        measured = DistanceMeasurement(sets, amount, ready.plan.rows, ready.plan.relation, noise)
        ready.counts.check(context, sets)
        check_charge(ComposedEvent((measured.event,), relation=ready.plan.relation), guarantee)
        label = f"distances of the synthetic table of entry {position} from the data: {len(sets)} marginals"
        text = canonical([ready.counts.text, position, stored.outcome.digest, [list(names) for names in sets]])
        shown = f"{ready.name if is_name(ready.name) else 'rows'}{SUFFIX}"
        lines = about_mechanism(measured.mechanism, measured.event, label, released="")["mechanisms"]
        about = {
            "name": label, "query": stored.stages.request.label, "plan": digest_of(text),
            "bounding": ready.counts.bounding, "groups": "public: one distance for each marginal", "mechanisms": lines,
        }  # fmt: skip
        version = context.version(ready.counts.tables())
        parts = [_FORMAT, text, context.catalog.digest, ready.plan.relation.value, repr(guarantee), repr(version)]
        order = Order(
            ready.counts.population, guarantee, analyst=caller.analyst, project=context.project, sql=label,
            plan=digest_of(text), quote={"mechanisms": quoted(lines)}, repeat_key=digest_of(canonical(parts)),
            idempotency_key=caller.idempotency_key, request=digest_of(canonical([label, text, repr(guarantee)])),
        )  # fmt: skip

        def run(_: Reservation) -> NDArray[np.int64]:
            raw = ready.counts.count(context, sets)
            return measured.release(raw.__getitem__, model.marginals(list(sets)))

        def statement(_: Any, digest: str) -> ReceiptStatement:
            kind = currency_of(guarantee).kind
            unit = f"one of {ready.counts.population}"
            return ReceiptStatement([about | {"released": digest}], unit, kind, guarantee, context.catalog.digest)

        paid = pay(context, order, run, _to_text, statement)
        check_succeeded(paid.outcome)
        rows = max(model.total, 1.0)
        factor = noise.factor(terms.confidence, measured.variance)
        distances = measured.in_rows(_from_text(paid.outcome.result.decode(), len(sets))) / rows
        return SyntheticCheck(
            shown,
            sets,
            tuple(distances.tolist()),
            factor * measured.stddev / 2 / rows,
            str(float(terms.confidence)),
            entry_of(paid.outcome, sql=label, digest=about["plan"], analyst=caller.analyst, paid=paid.now),
            paid.receipt,
        )


def _sets(
    marginals: Sequence[Sequence[str]] | None, sizes: Mapping[str, int], outer: Sequence[str] = ()
) -> tuple[tuple[str, ...], ...]:
    """The marginals to compare: all pairs with a column of the table itself where none are listed."""
    if marginals is None:
        pairs = [pair for pair in itertools.combinations(sizes, 2) if not set(pair) <= set(outer)]
        return tuple(pairs) or (tuple(sizes),)
    found = []
    for names in marginals:
        wanted = [] if isinstance(names, str) else [str(name).lower() for name in names]
        if not wanted or any(name not in sizes for name in wanted):
            raise InputError("marginals", f"must be lists of columns of the table, which has {', '.join(sizes)}")
        found.append(tuple(name for name in sizes if name in wanted))
    if not 1 <= len(found) <= _MOST_SETS:
        raise InputError("marginals", f"must list 1 to {_MOST_SETS:,} sets of columns")
    return tuple(dict.fromkeys(found))


def _to_text(noisy: NDArray[np.int64]) -> str:
    return canonical({"format": _FORMAT, "version": 1, "noisy": noisy.tolist()})


def _from_text(text: str, count: int) -> list[int]:
    content = json.loads(text)
    if content.get("format") != _FORMAT or content.get("version") != 1 or len(content["noisy"]) != count:
        raise InternalError("the ledger holds something else than distances of a synthetic table")
    return [int(value) for value in content["noisy"]]
