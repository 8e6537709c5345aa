"""Warnings about scikit-learn around a private estimator: searches and steps that read rows without a price."""

from __future__ import annotations

import sys
import warnings
from multiprocessing import current_process
from types import FrameType
from typing import Any, Final
from weakref import WeakKeyDictionary


class UnpaidReadingWarning(UserWarning):
    """The guarantee that an estimator states does not cover all that was done with the rows."""


#: Modules of scikit-learn whose estimators fit others to the same rows.
_SEVERAL: Final = ("sklearn.calibration", "sklearn.ensemble", "sklearn.multiclass", "sklearn.multioutput")
#: What was said of searches and pipelines that are still there; in a process that works for one, what it said at all.
_SAID: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
_SAID_BY_WORKER: Final[set[str]] = set()


def warn_of_unpaid_reading(private: type) -> None:
    """Warn, once for each, where scikit-learn's searches or steps that read rows stand around the fit that runs.

    Args:
        private: the class of estimators that state a price.
    """
    found, owner = [], None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module, name, known = frame.f_globals.get("__name__"), frame.f_code.co_name, frame.f_locals
        if str(module).startswith("sklearn.model_selection"):
            owner = known.get("self", known.get("estimator", owner))
        if module == "sklearn.model_selection._validation" and name == "_fit_and_score":
            found.append(
                "scikit-learn fits this estimator once per fold and candidate and shows scores that have no price; "
                "guarantee_ is that of one fit. tacit.learn.PrivateSearch states the total."
            )
        elif module == "sklearn.pipeline" and name == "fit":
            unpaid = _unpaid(known.get("self"), private)
            owner = known.get("self")
            if unpaid:
                found.append(
                    f"the steps {', '.join(unpaid)} read the rows without a price, before this estimator; guarantee_ "
                    "does not cover them. Use the scalers of tacit.learn, or bounds and categories of the estimator."
                )
        elif str(module).startswith(_SEVERAL) and name == "fit" and "self" in known:
            owner = known["self"]
            found.append(
                f"{type(owner).__name__} fits this estimator several times, or reads the rows itself, without a price; "
                "guarantee_ is that of one fit, and those of several add up."
            )
        frame = frame.f_back
    # Each fold of a worker has a copy of the estimator, and the search is in another process.
    said = _SAID_BY_WORKER
    if found and current_process().name == "MainProcess":
        said = _SAID.setdefault(owner, set())
    for words in [each for each in dict.fromkeys(found) if each not in said]:
        said.add(words)
        warnings.warn(words, UnpaidReadingWarning, stacklevel=3)


def _unpaid(pipeline: Any, private: type) -> list[str]:
    """Names of steps that are fitted to rows and state no price."""
    found = []
    for name, step in list(getattr(pipeline, "steps", ()))[:-1]:
        if step is None or isinstance(step, str | private):
            continue
        tags = getattr(step, "__sklearn_tags__", None)
        if tags is None or tags().requires_fit:
            found.append(str(name))
    return found
