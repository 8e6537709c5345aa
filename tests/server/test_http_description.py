"""The description is true: whatever fits it or breaks it is answered in a documented shape, and never with a 5xx.

Schemathesis makes requests from the OpenAPI document; what is random in them is fixed by the test's own name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode, openapi
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from support.served import COUNT, STAFF, Served, error, serve
from tacit.server.api.routes import ROUTES, description

FREE = 10**8
#: Queries that can be answered, refused, or that cost more than there is.
QUERIES = (
    COUNT,
    STAFF,
    "SELECT ward, AVG(cost) AS a, SUM(units) AS s FROM visits GROUP BY ward",
    "SELECT street, COUNT(*) AS n FROM visits GROUP BY street",
    "SELECT v.ward, COUNT(*) AS n, COUNT(*) > 10 AS many FROM visits AS v GROUP BY v.ward ORDER BY n LIMIT 2",
    "SELECT * FROM visits",
)
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    unsupported_method,
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    # The first fit would import it, for longer than a request waits where the machine is busy.
    import tacit.learn  # noqa: F401

    budgets = {
        "patients": {"accounting": "approx", "epsilon": "1000000000000", "delta": "0.5"},
        "employees": {"accounting": "pure", "epsilon": "1000000"},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TACIT_STATE", str(tmp_path_factory.mktemp("state")))
        found = serve(
            budgets=budgets,
            asks_per_minute=FREE,
            quotes_per_minute=FREE,
            reads_per_minute=FREE,
            failures_per_minute=FREE,
        )
        yield found
        found.close()


def operations() -> list[Any]:
    return [pytest.param(route.method, route.path, id=f"{route.method} {route.path}") for route in ROUTES]


def only_requests(shared: Served) -> Any:
    """The application without its life: a client that begins and ends one for every request would stop it."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await shared.app(scope, receive, send)
            return
        for stage in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{stage}.complete"})

    return app


def try_out(shared: Served, method: str, path: str, mode: GenerationMode) -> None:
    schema = openapi.from_dict(description(ROUTES))
    schema.app = only_requests(shared)
    # A path that is too long is refused as such.
    rejection = schema.config.checks.negative_data_rejection
    rejection.expected_statuses = [*rejection.expected_statuses, "414"]
    checks = CHECKS if mode is GenerationMode.POSITIVE else [*CHECKS, negative_data_rejection]
    name = "olga"

    # Nothing is shrunk: a failing example is shown unchanged.
    @settings(
        max_examples=12,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    )
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        case = data.draw(schema[path][method].as_strategy(generation_mode=mode))
        is_query = mode is GenerationMode.POSITIVE and isinstance(case.body, dict) and "sql" in case.body
        if is_query and data.draw(st.booleans()):
            sql, epsilon = data.draw(st.sampled_from(QUERIES)), data.draw(st.sampled_from([0.5, 1, 3]))
            case.body = {"sql": sql, "epsilon": epsilon}
        shown = {"authorization": f"Bearer {shared.tokens[name]}"}
        response = case.call(headers=shown)
        case.validate_response(response, checks=checks, headers=shown)

    run()


@pytest.mark.parametrize(
    ("method", "path"),
    [each._replace(marks=[pytest.mark.deep]) if each.id == "POST /v1/query" else each for each in operations()],
)
def test_what_fits_the_description(shared: Served, method: str, path: str) -> None:
    try_out(shared, method, path, GenerationMode.POSITIVE)


@pytest.mark.parametrize(
    ("method", "path"), [each for each in operations() if each.values[0] == "POST" or "{" in each.values[1]]
)
def test_what_breaks_the_description(shared: Served, method: str, path: str) -> None:
    try_out(shared, method, path, GenerationMode.NEGATIVE)


def resolved(document: dict[str, Any], name: str) -> Any:
    from jsonschema_rs import Draft202012Validator

    schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    return Draft202012Validator(schema)


def test_every_shape_occurs_as_it_is_described(served: Served) -> None:
    """By hand, so that a generator that never got so far is not taken for agreement."""
    document = served.get("/v1/openapi.json", "").json()
    answer = served.ask(epsilon=0.5)
    position = answer.json()["charge"]["position"]
    job = served.call("POST", "/v1/query", json={"sql": STAFF, "epsilon": 1}, headers={"prefer": "respond-async"})
    cases = {
        "AnswerResponse": answer,
        "JobAcceptedResponse": job,
        "JobResponse": served.get(job.headers["location"]),
        "QuoteResponse": served.call("POST", "/v1/explain", json={"sql": COUNT, "epsilon": 1}),
        "BudgetsResponse": served.get("/v1/budget"),
        "TablesResponse": served.get("/v1/tables"),
        "HistoryResponse": served.get("/v1/history"),
        "ReceiptResponse": served.get(f"/v1/receipts/{position}"),
        "KeyResponse": served.get("/v1/key"),
        "MeResponse": served.get("/v1/me"),
        "HealthResponse": served.get("/v1/health"),
        "ErrorResponse": served.get("/v1/receipts/9"),
    }
    cases["RunningQueriesResponse"] = served.get("/v1/queries", "olga")
    cases["StoppedQueryResponse"] = served.call("DELETE", "/v1/queries/1-1", "olga")
    for name, response in cases.items():
        assert (name == "ErrorResponse") == (response.status_code >= 400), (name, response.text)
        validator = resolved(document, name)
        assert validator.is_valid(response.json()), (
            name,
            [str(each) for each in validator.iter_errors(response.json())],
        )
        # The shapes say everything: one field more, and it is another shape.
        assert not validator.is_valid({**response.json(), "more": 1}), name
    bodies = {"QueryRequest": {"sql": COUNT, "epsilon": 1}}
    for name, body in bodies.items():
        assert resolved(document, name).is_valid(body)
        assert not resolved(document, name).is_valid({**body, "more": 1})
    assert {*cases, *bodies} <= set(document["components"]["schemas"])


def test_the_description_names_every_endpoint_once(served: Served) -> None:
    document = served.get("/v1/openapi.json", "").json()
    told = {(method.upper(), path) for path, operations in document["paths"].items() for method in operations}
    assert told == {(route.method, route.path) for route in ROUTES}
    assert document["openapi"].startswith("3.1")
    names = [operation["operationId"] for operations in document["paths"].values() for operation in operations.values()]
    assert len(set(names)) == len(names)
    assert json.loads(json.dumps(document)) == description(ROUTES)


def test_undocumented_requests_have_the_error_shape_too(served: Served) -> None:
    for response in (served.get("/v1/nothing"), served.call("PATCH", "/v1/query")):
        error(response.content)
