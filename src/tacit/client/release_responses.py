"""Bodies about work that is polled for: the state of a job, synthetic tables, workloads and models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from pydantic import Field

from tacit.client.response_body import ResponseBody, maybe
from tacit.client.responses import AnswerBody, ErrorTold, ReceiptBody
from tacit.releases.synthetic_table import BANNER, SyntheticTable

if TYPE_CHECKING:
    from tacit.releases.model import Fitted
    from tacit.releases.synthetic_star import SyntheticStar
    from tacit.releases.workload import WorkloadAnswer


class MarginalTold(ResponseBody):
    """A marginal that was measured, and how far the model is from it."""

    columns: list[str]
    stddev: float = Field(description="of the noise on each count")
    distance: float = Field(description="of the model from the noisy counts: half the l1 distance over all rows")
    noise: float = Field(description="the same distance that noise alone makes, on average")


class SyntheticTableTold(ResponseBody):
    """A synthetic table that was paid for."""

    position: int
    name: str
    source: str
    method: str
    time: str
    population: str


class SyntheticTablesBody(ResponseBody):
    """Synthetic tables, the oldest first."""

    tables: list[SyntheticTableTold]


class SyntheticTableBody(ResponseBody):
    """A synthetic table with its quality, made of what was paid for alone."""

    position: int
    name: str
    rows: int
    columns: list[str]
    measured: list[MarginalTold]
    not_measured: list[list[str]] = Field(description="pairs of columns about which nothing is promised")
    report: str = Field(description="the same in words")
    note: str
    beside: str = maybe(description="the table that belongs to it, of the same position, where there are two")
    receipt: ReceiptBody

    @classmethod
    def of(cls, made: SyntheticTable | SyntheticStar, name: str = "") -> Self:
        """The body about a table; of two, about the one of a name, or the first."""
        more, columns = {}, []
        if isinstance(made, SyntheticTable):
            table, columns = made, list(made.columns)
        else:
            table = made[name or made.names[0]]
            columns = table.to_arrow().column_names
            more = {"beside": next(other for other in made.names if other != table.name)}
        measured = [
            MarginalTold(columns=list(each.columns), stddev=each.stddev, distance=each.distance, noise=each.noise)
            for each in table.quality()
        ]
        return cls(
            position=table.receipt.position,
            name=table.name,
            rows=table.rows,
            columns=columns,
            measured=measured,
            not_measured=[list(pair) for pair in table.not_measured],
            report=table.report(),
            note=BANNER,
            **more,
            receipt=ReceiptBody(receipt=dict(table.receipt.statement), signature=table.receipt.signature),
        )


class QueryTableTold(ResponseBody):
    """One marginal or product of a workload; ``GET …?table=`` with its place hands out the answers."""

    columns: list[str]
    queries: int
    stddev: float = Field(description="the largest of an answer")


class WorkloadTold(ResponseBody):
    """A workload that was paid for."""

    position: int
    source: str
    workload: str
    time: str
    population: str


class WorkloadsBody(ResponseBody):
    """Workloads, the oldest first."""

    workloads: list[WorkloadTold]


class WorkloadBody(ResponseBody):
    """A workload with the errors of its answers."""

    position: int
    workload: str = Field(description="in words")
    queries: int
    root_mean_square_error: float
    tables: list[QueryTableTold]
    receipt: ReceiptBody

    @classmethod
    def of(cls, answer: WorkloadAnswer) -> Self:
        """The body about answers."""
        tables = [
            QueryTableTold(columns=list(t.columns), queries=len(t), stddev=float(np.sqrt(t.variances.max())))
            for t in answer.tables()
        ]
        return cls(
            position=answer.receipt.position,
            workload=str(answer.plan.workload),
            queries=answer.plan.count,
            root_mean_square_error=answer.plan.root_mean_square_error,
            tables=tables,
            receipt=ReceiptBody(receipt=dict(answer.receipt.statement), signature=answer.receipt.signature),
        )


class ModelTold(ResponseBody):
    """A model that was paid for."""

    position: int
    estimator: str
    sql: str
    time: str
    population: str


class ModelsBody(ResponseBody):
    """Models, the oldest first."""

    models: list[ModelTold]


class ModelBody(ResponseBody):
    """A model that was fitted, with its guarantee in words."""

    position: int
    estimator: str
    sql: str
    features: list[str]
    target: str = Field(description="what it predicts; empty where there is none")
    report: str = Field(description="guarantee, releases and declarations in words")
    model: str = Field(description="the model as text of JSON, which tacit.learn reads")
    receipt: ReceiptBody

    @classmethod
    def of(cls, fitted: Fitted) -> Self:
        """The body about a model."""
        return cls(
            position=fitted.receipt.position,
            estimator=type(fitted.model).__name__,
            sql=fitted.sql,
            features=list(fitted.features),
            target=fitted.target,
            report=str(fitted.model.privacy_report()),
            model=fitted.text,
            receipt=ReceiptBody(receipt=dict(fitted.receipt.statement), signature=fitted.receipt.signature),
        )


class JobPut(ResponseBody):
    """A question that will be answered later."""

    id: str
    state: Literal["waiting"]


class JobBody(ResponseBody):
    """The state of such a question."""

    id: str
    state: Literal["waiting", "running", "done", "failed"]
    seconds: float = Field(description="since it was put down, in whole slots")
    answer: AnswerBody = maybe()
    synthesis: SyntheticTableBody = maybe(description="of a synthetic table")
    workload: WorkloadBody = maybe(description="of a workload")
    model: ModelBody = maybe(description="of a fit")
    error: ErrorTold = maybe()
