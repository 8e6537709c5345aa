"""Endpoints of models: owners have them fitted as jobs, people who see the population use them for nothing."""

from __future__ import annotations

from typing import Final

from tacit.server.api.jobs import as_job
from tacit.server.api.request import ApiRequest, ApiResponse, Route, json_response
from tacit.wire import job_responses as wire
from tacit.wire.requests import FitSchema


def models(call: ApiRequest) -> ApiResponse:
    """Models that exist for the caller."""
    found = call.runtime.service.models(call.user)
    return json_response(wire.ModelsBody(models=[wire.ModelTold.from_domain(each) for each in found]).plain())


def model(call: ApiRequest) -> ApiResponse:
    """A model with its report."""
    return json_response(wire.ModelBody.of(call.runtime.service.model(call.user, call.position("model"))).plain())


ROUTES: Final = (
    Route("POST", "/v1/fit", as_job(FitSchema), rate="asks", takes=True),
    Route("GET", "/v1/models", models),
    Route("GET", "/v1/models/{position}", model, rate="quotes"),
)
