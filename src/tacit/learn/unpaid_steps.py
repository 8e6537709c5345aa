"""Warnings about scikit-learn around a private estimator: searches and steps that read rows without a price."""

from __future__ import annotations

import sys
import warnings
from typing import Any


class UnpaidReadingWarning(UserWarning):
    """The guarantee that an estimator states does not cover all that was done with the rows."""


def warn_of_unpaid_reading(private: type) -> None:
    """Warn where scikit-learn's searches, or steps of a pipeline that read rows, stand around the fit that runs.

    Args:
        private: the class of estimators that state a price.
    """
    frame = sys._getframe(1)
    while frame is not None:
        module, name = frame.f_globals.get("__name__"), frame.f_code.co_name
        if module == "sklearn.model_selection._validation" and name == "_fit_and_score":
            warnings.warn(
                "scikit-learn fits this estimator once per fold and candidate and shows scores that have no price; "
                "guarantee_ is that of one fit. tacit.learn.PrivateSearch states the total.",
                UnpaidReadingWarning,
                stacklevel=4,
            )
        elif module == "sklearn.pipeline" and name == "fit":
            unpaid = _unpaid(frame.f_locals.get("self"), private)
            if unpaid:
                warnings.warn(
                    f"the steps {', '.join(unpaid)} read the rows without a price, before this estimator; guarantee_ "
                    "does not cover them. Use the scalers of tacit.learn, or bounds and categories of the estimator.",
                    UnpaidReadingWarning,
                    stacklevel=4,
                )
        frame = frame.f_back  # type: ignore[assignment]


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
