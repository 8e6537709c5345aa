"""Imports from scikit-learn, with a clear message where it is missing."""

from __future__ import annotations

from tacit.core.extras import install_command

try:
    from scipy.sparse import issparse
    from sklearn.base import (  # type: ignore[import-untyped]
        BaseEstimator,
        ClassifierMixin,
        ClassNamePrefixFeaturesOutMixin,
        ClusterMixin,
        OneToOneFeatureMixin,
        RegressorMixin,
        TransformerMixin,
        clone,
    )
    from sklearn.exceptions import DataConversionWarning  # type: ignore[import-untyped]
    from sklearn.metrics import d2_tweedie_score  # type: ignore[import-untyped]
    from sklearn.utils.validation import check_is_fitted, validate_data  # type: ignore[import-untyped]
except ModuleNotFoundError as missing:  # pragma: no cover - the extra is installed wherever the tests run
    raise ModuleNotFoundError(
        f"tacit.learn needs scikit-learn: {install_command('learn')}; for networks {install_command('torch')}",
        name=missing.name,
    ) from None

__all__ = [
    "BaseEstimator",
    "ClassNamePrefixFeaturesOutMixin",
    "ClassifierMixin",
    "ClusterMixin",
    "DataConversionWarning",
    "OneToOneFeatureMixin",
    "RegressorMixin",
    "TransformerMixin",
    "check_is_fitted",
    "clone",
    "d2_tweedie_score",
    "issparse",
    "validate_data",
]
