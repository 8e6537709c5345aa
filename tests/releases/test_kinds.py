"""A kind of release is one module: registered, it is made, listed and read like every other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pyarrow as pa
import pytest

import tacit
from tacit.core.errors import InputError
from tacit.core.guarantees import PureDP
from tacit.curator.curator import Curator
from tacit.mechanisms.laplace import Laplace
from tacit.releases.accounts import Entry
from tacit.releases.api_types import Amount, RequestModel, ResponseModel, Text
from tacit.releases.kinds import KINDS
from tacit.releases.payment import Caller, ReleaseTimer, paid_at, pay_release
from tacit.releases.query import QueryContext
from tacit.releases.receipt import Receipt, about_mechanism, verify_receipt
from tacit.releases.release import Files, ReleaseKind


@pytest.fixture
def curator() -> Curator:
    rows = pa.table({"id": range(400), "ward": ["a", "b"] * 200})
    return tacit.open(rows, unit="id", epsilon="9", max_rows=1, max_groups=1, columns={"ward": ["a", "b"]})


def test_every_kind_is_made_by_its_name(curator: Curator) -> None:
    made = curator.make("workload", source="data", workload=[{"marginals": [["ward"]]}], epsilon="0.5")
    assert made.count(ward="a").value == pytest.approx(200, abs=60)
    again = curator.answer_workload("data", tacit.Workload.marginals([["ward"]]), epsilon="0.5")
    assert again.receipt == made.receipt
    table = curator.make("synthesis", source="data", method="independent", epsilon=1)
    assert [each.kind for each in curator.releases()] == ["workload", "synthesis"]
    assert curator.released(table.receipt.position).columns == table.columns
    with pytest.raises(InputError, match="kind: must be one of synthesis, workload, model, profile"):
        curator.make("nothing")
    with pytest.raises(InputError, match="within: means nothing here"):
        curator.make("profile", source="data", within=3)
    with pytest.raises(InputError, match="sauce: is not a field"):
        curator.make("profile", sauce="data")


class SizeRequest(RequestModel):
    """The size of a table."""

    kind: Literal["size"]
    source: Text
    epsilon: Amount


class SizeResponse(ResponseModel):
    """A size."""

    size: int


@dataclass(frozen=True)
class Size:
    """A number of rows with noise."""

    size: int
    charge: Entry
    receipt: Receipt


class SizeKind(ReleaseKind[SizeRequest, Size]):
    """Sizes of tables."""

    name = "size"
    label = "size of "
    request: ClassVar = SizeRequest
    response: ClassVar = SizeResponse

    def names(self, kept: Mapping[str, Any]) -> tuple[str, ...]:
        return (f"{kept['source']}_size",)

    def quote(self, context: QueryContext, request: SizeRequest) -> str:
        return f"epsilon {request.epsilon}"

    def make(
        self,
        context: QueryContext,
        request: SizeRequest,
        caller: Caller,
        timer: ReleaseTimer | None = None,
    ) -> Size:
        mechanism = Laplace(epsilon=str(request.epsilon), l1_sensitivity=1)
        label = f"{self.label}{request.source}"
        about = about_mechanism(mechanism, mechanism.event, label, released="")
        guarantee = PureDP(str(request.epsilon))
        paid, charge = pay_release(
            context, caller, lambda _: int(mechanism.release(400)), json.dumps,
            lambda _, digest: [about | {"released": digest}],
            population="people", guarantee=guarantee, unit="one of people", label=label,
            quote={"mechanisms": about["mechanisms"], "size": {"source": request.source}}, request=[label],
            repeat=[label, repr(guarantee)],
        )  # fmt: skip
        return Size(int(paid.outcome.result), charge, paid.receipt)

    def read(self, context: QueryContext, position: int) -> Size:
        _, _, outcome, charge = paid_at(context, position, "size")
        return Size(int(outcome.result), charge, Receipt.from_json(outcome.receipt))

    def describe(self, made: Size) -> SizeResponse:
        return SizeResponse(size=made.size)

    def files(self, made: Size) -> Files:
        return {"size.json": lambda: json.dumps(made.size).encode()}


def test_a_new_kind_is_its_module_and_a_line(curator: Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "size", SizeKind())  # type: ignore[arg-type]  # registered as a line in kinds.py does
    made = curator.make("size", source="data", epsilon="0.5")
    assert made.size == pytest.approx(400, abs=60)
    assert verify_receipt(made.receipt, curator.public_key)
    assert curator.make("size", source="data", epsilon="0.5").charge.repeated
    (line,) = curator.releases("size")
    assert (line.names, line.source, line.position) == (("data_size",), "data", made.receipt.position)
    assert curator.released("data_size").size == made.size
