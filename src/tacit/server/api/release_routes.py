"""Endpoints of releases: made as jobs, charged once, and free to read from then on."""

from __future__ import annotations

from tacit.client.release_responses import ReleaseLineResponse, ReleaseResponse, ReleasesResponse
from tacit.core.errors import InputError
from tacit.releases.kinds import KINDS
from tacit.releases.release import MEDIA_TYPES
from tacit.server.api.jobs import put_off
from tacit.server.api.request import ApiRequest, ApiResponse, json_response
from tacit.server.api.request_body import release_of
from tacit.server.api.request_limits import idempotency_key


def make(call: ApiRequest) -> ApiResponse:
    """Make a synthetic table, answer a workload or fit a model, as a job; charged once, then free."""
    return put_off(call, release_of(call.body), idempotency_key(call.headers))


def everything(call: ApiRequest) -> ApiResponse:
    """Releases that were paid for."""
    found = call.runtime.service.releases(call.user, call.query.get("kind"))
    return json_response(ReleasesResponse(releases=[ReleaseLineResponse.of(each) for each in found]).plain())


def one(call: ApiRequest) -> ApiResponse:
    """A release, or one of its files; free."""
    release, made = call.runtime.service.release(call.user, call.position("release"))
    name = call.query.get("file")
    if name is None:
        return json_response(ReleaseResponse.of(release.kind, made).plain())
    files = KINDS[release.kind].files(made)
    if name not in files:
        raise InputError("file", "must be one of the names that the release lists")
    told = f"attachment; filename={release.kind}-{release.position}-{name}"
    form = MEDIA_TYPES[name.rpartition(".")[2]]
    return ApiResponse(200, files[name](), form, ((b"content-disposition", told.encode()),))
