"""What is taken from scikit-learn, in one place, and a plain word where it is not installed."""

from __future__ import annotations

try:
    from sklearn.base import (  # type: ignore[import-untyped]
        BaseEstimator,
        ClassifierMixin,
        ClassNamePrefixFeaturesOutMixin,
        ClusterMixin,
        OneToOneFeatureMixin,
        RegressorMixin,
        TransformerMixin,
    )
    from sklearn.utils.validation import (  # type: ignore[import-untyped]
        check_is_fitted,
        column_or_1d,
        validate_data,
    )
except ModuleNotFoundError as missing:  # pragma: no cover - the extra is installed wherever the tests run
    raise ModuleNotFoundError(
        "tacit.learn needs scikit-learn; install it with: pip install 'tacit[learn]'", name=missing.name
    ) from missing

__all__ = [
    "BaseEstimator",
    "ClassNamePrefixFeaturesOutMixin",
    "ClassifierMixin",
    "ClusterMixin",
    "OneToOneFeatureMixin",
    "RegressorMixin",
    "TransformerMixin",
    "check_is_fitted",
    "column_or_1d",
    "validate_data",
]
