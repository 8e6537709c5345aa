"""Short name of :mod:`tacit.core.events`, which ``import tacit.events`` gives."""

from __future__ import annotations

import sys

from tacit.core import events
from tacit.core.events import *  # noqa: F403 - for type checkers; the module itself takes the place of this one

sys.modules[__name__] = events
