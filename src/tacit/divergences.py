"""Short name of :mod:`tacit.core.divergences`, which ``import tacit.divergences`` gives."""

from __future__ import annotations

import sys

from tacit.core import divergences
from tacit.core.divergences import *  # noqa: F403 - for type checkers; the module itself takes the place of this one

sys.modules[__name__] = divergences
