"""Kinds of releases that are made on request. A new kind is its module, a line here, and its template."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from tacit.core.errors import InputError
from tacit.query.request import OPTIONS
from tacit.releases.api_types import RequestModel
from tacit.releases.model import MODEL
from tacit.releases.profile import PROFILE
from tacit.releases.release import Kinds
from tacit.releases.synthesis import SYNTHESIS
from tacit.releases.workload import WORKLOAD

KINDS: Final[Kinds] = {kind.name: kind for kind in (SYNTHESIS, WORKLOAD, MODEL, PROFILE)}


def kind_of(request: RequestModel) -> str:
    """Return the name of the kind that a request is for."""
    return next(name for name, kind in KINDS.items() if isinstance(request, kind.request))


def request_text(kind: str, fields: Mapping[str, Any]) -> str:
    """Return the JSON body of a request for a release of a kind, as a client sends it.

    Raises:
        InputError: there is no such kind, or an option does not apply to it.
    """
    if kind not in KINDS:
        raise InputError("kind", f"must be one of {', '.join(KINDS)}")
    options = {name: value for name, value in fields.items() if name in OPTIONS}
    stated = {name: value for name, value in fields.items() if name not in OPTIONS}
    return KINDS[kind].request.text({"kind": kind, **stated}, options)


def request_of(kind: str, fields: Mapping[str, Any]) -> RequestModel:
    """Return the request for a release of a kind, parsed with exact numbers."""
    text = request_text(kind, fields)
    return KINDS[kind].request.of(json.loads(text, parse_float=Decimal))
