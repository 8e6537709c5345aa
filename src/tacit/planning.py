"""Short name of :mod:`tacit.mechanisms.planning`, which ``import tacit.planning`` gives."""

from __future__ import annotations

import sys

from tacit.mechanisms import planning
from tacit.mechanisms.planning import *  # noqa: F403 - for type checkers; the module itself takes the place of this one

sys.modules[__name__] = planning
