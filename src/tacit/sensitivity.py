"""Short name of :mod:`tacit.core.sensitivity`, which ``import tacit.sensitivity`` gives."""

from __future__ import annotations

import sys

from tacit.core import sensitivity
from tacit.core.sensitivity import *  # noqa: F403 - for type checkers; the module itself takes the place of this one

sys.modules[__name__] = sensitivity
