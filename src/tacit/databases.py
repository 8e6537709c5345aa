"""Short name of :mod:`tacit.core.databases`, which ``import tacit.databases`` gives."""

from __future__ import annotations

import sys

from tacit.core import databases
from tacit.core.databases import *  # noqa: F403 - for type checkers; the module itself takes the place of this one

sys.modules[__name__] = databases
