"""Short name of :mod:`tacit.accounting.filters`, which ``import tacit.filters`` gives."""

from __future__ import annotations

import sys

from tacit.accounting import filters
from tacit.accounting.filters import *  # noqa: F403 - for type checkers; the module itself takes the place of this one

sys.modules[__name__] = filters
