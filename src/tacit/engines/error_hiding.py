"""Opaque engine failures: callers see an id, the operator's log has the text."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from typing import TypeVar

from tacit.core.errors import EngineError, TacitError

__all__ = ["opaquely"]

Result = TypeVar("Result")
_OPERATOR = logging.getLogger("tacit.operator")


def opaquely(run: Callable[[], Result], read: Callable[[], str]) -> Result:
    """What ``run`` returns; any failure that is not ours to tell becomes an :class:`EngineError` with an id.

    Args:
        run: the work.
        read: what was being read, for the operator: databases do not always say which file or table it was.
    """
    try:
        return run()
    except TacitError:
        raise
    except Exception:
        name = uuid.uuid4().hex
        _OPERATOR.exception("engine failure %s while reading %s", name, read())
    # Raised here so that the failure, whose words may quote data, is not chained to it.
    raise EngineError(name)
