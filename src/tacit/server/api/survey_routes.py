"""Endpoints of surveys without a trusted party.

A report is randomised before it is sent, so sending one needs no account; its sender's address counts to a rate and is
stored nowhere beside it.
"""

from __future__ import annotations

from typing import Final

from tacit.core.numbers import Number
from tacit.local import Aggregator
from tacit.local.client import VERSION
from tacit.server.api.request import ApiRequest, ApiResponse, Route, json_response
from tacit.server.api.request_body import read_body
from tacit.server.api.request_limits import idempotency_key
from tacit.server.errors import Unknown
from tacit.server.identity.surveys import SurveyRecord
from tacit.server.rate_limit import network_of
from tacit.wire import people_responses as wire
from tacit.wire.requests import Reports

CONFIDENCE: Final[Number] = "0.95"


def describe_survey(call: ApiRequest) -> ApiResponse:
    """Question, protocol and promise of a survey, for the people who are asked."""
    call.runtime.rates["collects"].take(network_of(call.address))
    survey = _survey(call)
    protocol = survey.protocol
    body = wire.SurveyBody(
        name=survey.name,
        question=survey.question,
        open=survey.open,
        epsilon=protocol.epsilon,  # type: ignore[arg-type]  # read as text by the model
        total_epsilon=call.runtime.service.people.surveys.total(),  # type: ignore[arg-type]
        protocol=protocol.spec(),
        report_bytes=protocol.width,
        probabilities=protocol.probabilities(),
    )
    return json_response(body.plain())


def collect(call: ApiRequest) -> ApiResponse:
    """Keep reports."""
    call.runtime.rates["collects"].take(network_of(call.address))
    survey = _survey(call)
    key = idempotency_key(call.headers)
    said = read_body(Reports, call.body)
    raw = bytes((VERSION,)) + said.reports
    found = call.runtime.service.people.surveys.collect(survey, raw, key)
    told = wire.SurveyCollected(survey=survey.name, accepted=found.accepted, repeated=found.repeated)
    return json_response(told.plain())


def results(call: ApiRequest) -> ApiResponse:
    """Estimates from all reports so far."""
    survey = _survey(call)
    return json_response(results_of(survey, call.runtime.service.people.surveys.sums(survey)).plain())


def results_of(survey: SurveyRecord, found: Aggregator) -> wire.SurveyResults:
    """The body of the estimates of a survey; without reports there are none."""
    rows = found.estimate(confidence=CONFIDENCE).rows() if found.n else []
    return wire.SurveyResults(
        name=survey.name,
        n=found.n,
        confidence=float(CONFIDENCE),
        epsilon=survey.protocol.epsilon,  # type: ignore[arg-type]
        estimates=[wire.SurveyEstimateTold(**row._asdict()) for row in rows],
    )


def _survey(call: ApiRequest) -> SurveyRecord:
    found = call.runtime.service.people.surveys.find(call.part)
    if found is None:
        raise Unknown("survey")
    return found


ROUTES: Final = (
    Route("GET", "/v1/surveys/{survey}", describe_survey, rate=""),
    Route("POST", "/v1/collect/{survey}", collect, rate="", takes=True),
    Route("GET", "/v1/results/{survey}", results),
)
