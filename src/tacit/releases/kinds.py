"""Kinds of releases that are made on request. A new kind is its module, a line here, and its template."""

from __future__ import annotations

from typing import Final

from tacit.releases.api_types import RequestModel
from tacit.releases.model import MODEL
from tacit.releases.profile import PROFILE
from tacit.releases.release import Kinds
from tacit.releases.synthesis import SYNTHESIS
from tacit.releases.workload import WORKLOAD

KINDS: Final[Kinds] = {kind.name: kind for kind in (SYNTHESIS, WORKLOAD, MODEL, PROFILE)}


def kind_of(request: RequestModel) -> str:
    """Name of the kind that a request asks for."""
    return next(name for name, kind in KINDS.items() if isinstance(request, kind.request))
