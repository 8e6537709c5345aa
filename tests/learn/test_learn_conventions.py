"""scikit-learn's own checks, and the conventions that privacy changes: what must be declared, what is never asked."""

from __future__ import annotations

import contextlib
import inspect
import io
import pickle
from typing import Any
from unittest import SkipTest

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import estimator_checks_generator

import tacit.learn
from learn.every_estimator import SHOWN, estimators
from tacit.core.errors import InputError
from tacit.core.relations import REPLACE_ONE
from tacit.learn import LogisticRegression, MinMaxScaler, release
from tacit.learn.estimator import UnpaidReadingWarning

FRESH = "every fit draws fresh noise, and there is no seed"
NO_LOOKING = "whether an error is raised must not depend on a single value; such rows count for nothing or are clipped"
PRIVATE_N = "the number of rows is private, so no rows at all is a table like any other"
ALL_ALIKE = "an error where all weights are zero would say that no row has one; such rows count for nothing"
NAMED = "the check sets a parameter that scikit-learn's own class of this name has"
NO_LABELS = "which cluster a row of the fit is in must not travel with the model"

#: Checks of scikit-learn that fail, and why; those that compare two fits may also pass.
EXPECTED: dict[str, dict[str, str]] = {
    "classifier": {
        "check_fit_idempotent": FRESH,
        "check_supervised_y_2d": FRESH,
        "check_sample_weight_equivalence_on_dense_data": FRESH,
        "check_classifier_data_not_an_array": FRESH,
        "check_classifiers_regression_target": NO_LOOKING,
    },
    "regressor": {
        "check_fit_idempotent": FRESH,
        "check_supervised_y_2d": FRESH,
        "check_sample_weight_equivalence_on_dense_data": FRESH,
        "check_regressor_data_not_an_array": FRESH,
        "check_regressors_int": FRESH,
        "check_supervised_y_no_nan": NO_LOOKING,
        "check_estimators_empty_data_messages": PRIVATE_N,
    },
    "PCA": {"check_fit_idempotent": FRESH, "check_estimators_empty_data_messages": PRIVATE_N},
    "KMeans": {
        "check_fit_idempotent": FRESH,
        "check_estimators_empty_data_messages": PRIVATE_N,
        "check_clustering": NO_LABELS,
    },
    "StandardScaler": {
        "check_fit_idempotent": FRESH,
        "check_estimators_empty_data_messages": PRIVATE_N,
        "check_estimator_sparse_array": NAMED,
        "check_estimator_sparse_matrix": NAMED,
    },
    "MinMaxScaler": {"check_estimators_empty_data_messages": PRIVATE_N},
}


def expected(estimator: Any) -> dict[str, str]:
    kind = estimator.__sklearn_tags__().estimator_type
    own = EXPECTED[kind if kind in ("classifier", "regressor") else type(estimator).__name__]
    return own | {"check_dtype_object": NO_LOOKING, "check_all_zero_sample_weights_error": ALL_ALIKE}


@pytest.mark.parametrize("estimator", estimators(), ids=lambda estimator: type(estimator).__name__)
@pytest.mark.usefixtures("seeded")
def test_a_fit_forgets_what_another_learned_and_nothing_else(estimator: Any) -> None:
    X = np.random.default_rng(8).uniform(-10, 10, (60, 3))
    y = 1 + (X[:, 0] > 0)
    estimator._skl_callbacks = ["scikit-learn's own"]
    before = dict(vars(estimator))
    estimator.fit(X, y)
    if hasattr(estimator, "partial_fit"):
        estimator.partial_fit(X, y)
    assert len(vars(estimator)) > len(before)
    estimator._forget()
    assert vars(estimator) == before


CHECKS = [
    pytest.param(
        estimator,
        check,
        id=f"{type(estimator).__name__}-{check.func.__name__}",
        marks=[] if isinstance(estimator, SHOWN) else [pytest.mark.deep],
    )
    for made in estimators()
    for estimator, check in estimator_checks_generator(made)
]


@pytest.mark.parametrize(("estimator", "check"), CHECKS)
@pytest.mark.usefixtures("seeded")
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_checks(estimator: Any, check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All pass, but for those listed above, each with a reason; and those do fail, or the list is out of date."""
    # Newer versions check other kinds of arrays, too, where this is set.
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    reason = expected(estimator).get(check.func.__name__)
    if reason is FRESH:
        # Two fits are compared; how far apart they are is chance.
        with contextlib.suppress(AssertionError):
            check(estimator)
        return
    if reason is not None:
        with pytest.raises((AssertionError, AttributeError, ValueError)):
            check(estimator)
        return
    try:
        check(estimator)
    except SkipTest as skipped:
        # Checks that do not apply say so; the one reason that is accepted is the noise itself.
        assert "non deterministic" in str(skipped)  # noqa: PT017


NAMES = [name for name in tacit.learn.__all__ if inspect.isclass(getattr(tacit.learn, name))]


@pytest.mark.parametrize("name", NAMES)
def test_everything_by_keyword_no_seed_no_default_epsilon(name: str) -> None:
    parameters = inspect.signature(getattr(tacit.learn, name)).parameters
    assert all(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in parameters.values())
    assert not {"seed", "random_state", "rng", "source"} & set(parameters)
    if "epsilon" in parameters:
        assert parameters["epsilon"].default in (inspect.Parameter.empty, None)
    for named in ("bounds", "classes", "data_norm", "target_bounds"):
        if named in parameters:
            assert parameters[named].default in (inspect.Parameter.empty, None)


@pytest.mark.parametrize("name", NAMES)
def test_docstrings_say_what_is_promised(name: str) -> None:
    text = inspect.getdoc(getattr(tacit.learn, name)) or ""
    places = [text.find(f"{section}:") for section in ("Privacy", "Sensitivity", "Error", "Assumes", "References")]
    assert -1 not in places, f"missing sections in {name}: {places}"
    assert places == sorted(places)


def data(rows: int = 200) -> tuple[np.ndarray, np.ndarray]:
    made = np.random.default_rng(2)
    X = made.normal(size=(rows, 3))
    return X, np.where(X[:, 0] > 0, "yes", "no")


def learner(**changes: object) -> LogisticRegression:
    settings: dict[str, object] = {"epsilon": "0.5", "delta": "1e-3", "bounds": (-3, 3), "classes": ["no", "yes"]}
    return LogisticRegression(**(settings | changes))  # type: ignore[arg-type]


@pytest.mark.usefixtures("seeded")
def test_clone_pickle_pipeline_and_parallel_folds() -> None:
    X, y = data()
    fitted = learner().fit(X, y)
    again = clone(fitted)
    assert again.get_params() == fitted.get_params()
    assert not hasattr(again, "coef_")
    loaded = pickle.loads(pickle.dumps(fitted))
    assert (loaded.predict(X) == fitted.predict(X)).all()
    assert loaded.guarantee_.epsilon == fitted.guarantee_.epsilon
    piped = make_pipeline(learner(epsilon=50)).fit(X, y)
    assert piped.score(X, y) > 0.8
    with joblib.parallel_backend("threading"), pytest.warns(UnpaidReadingWarning, match="PrivateSearch"):
        assert cross_val_score(learner(epsilon=50), X, y, cv=2, n_jobs=2).mean() > 0.7


def test_two_fits_differ() -> None:
    X, y = data()
    assert (learner().fit(X, y).coef_ != learner().fit(X, y).coef_).any()


@pytest.mark.parametrize(
    ("changes", "parameter"),
    [
        ({"delta": None, "method": "gradient"}, "delta"),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": 20_000}, "epsilon"),
        ({"epsilon": "1e-9", "delta": "1e-12"}, "epsilon"),
        ({"bounds": None}, "bounds"),
        ({"classes": None}, "classes"),
        ({"classes": ["no"]}, "classes"),
        ({"classes": "no"}, "classes"),
        ({"classes": ["no", "no"]}, "classes"),
        ({"method": "magic"}, "method"),
        ({"steps": 0}, "steps"),
        ({"clip": 17}, "clip"),
        ({"batch_rate": 2}, "batch_rate"),
        ({"n": 0}, "n"),
        ({"relation": "swap"}, "relation"),
    ],
)
def test_bad_arguments_are_named(changes: dict[str, object], parameter: str) -> None:
    with pytest.raises(InputError) as refused:
        learner(**changes).fit(*data(20))
    assert refused.value.parameter == parameter


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("rows", [0, 1, 2])
def test_the_number_of_rows_raises_nothing(rows: int) -> None:
    X, y = data()
    fitted = learner().fit(X[:rows], y[:rows])
    assert set(fitted.predict(X)) <= {"no", "yes"}
    assert fitted.predict_proba(X).shape == (200, 2)


@pytest.mark.usefixtures("seeded")
def test_strange_labels_raise_nothing_and_change_no_account() -> None:
    X, y = data()
    strange = y.astype(object)
    strange[:6] = [None, float("nan"), 3.5, ("a", 1), "maybe", b"yes"]
    plain, other = learner().fit(X, y), learner().fit(X, strange)
    assert plain.event_ == other.event_
    assert list(other.classes_) == ["no", "yes"]


@pytest.mark.usefixtures("seeded")
def test_discovered_classes_are_paid_for() -> None:
    X, y = data()
    fitted = learner(classes="discover", epsilon=10).fit(X, y)
    assert list(fitted.classes_) == ["no", "yes"]
    assert fitted.guarantee_.epsilon <= 10
    assert fitted.guarantee_.delta <= 1e-3
    assert "classes" in str(fitted.privacy_report())
    with pytest.raises(InputError, match="declare"):
        learner(classes="discover").fit(X[:3], y[:3])


@pytest.mark.usefixtures("seeded")
def test_the_report_says_it_all() -> None:
    X, y = data()
    fitted = learner(relation="replace_one", n=200).fit(X, y)
    assert fitted.guarantee_.relation is REPLACE_ONE
    text = str(fitted.privacy_report())
    for part in (
        "LogisticRegression",
        "exchanged",
        "40 × gradient",
        "survey",
        "bounds = (-3, 3)",
        "n = 200",
        "one row",
    ):
        assert part in text


@pytest.mark.usefixtures("seeded")
def test_a_bar_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(release, "_PATIENCE", -1.0)
    for stream, shown in ((io.StringIO(), False), (Terminal(), True)):
        monkeypatch.setattr("sys.stderr", stream)
        learner().fit(*data(20))
        assert bool(stream.getvalue()) is shown


@pytest.mark.usefixtures("seeded")
def test_bounds_by_name_follow_the_columns() -> None:
    pandas = pytest.importorskip("pandas")
    made = np.random.default_rng(5)
    frame = pandas.DataFrame({"age": made.uniform(20, 80, 500), "dose": made.uniform(0, 1, 500)})
    label = (frame["age"] > 50).astype(int)
    named = {"dose": (0, 1), "age": (0, 100)}
    model = LogisticRegression(epsilon=100, delta="1e-3", bounds=named, classes=[0, 1]).fit(frame, label)
    assert model.score(frame, label) > 0.95
    assert list(model.feature_names_in_) == ["age", "dose"]
    assert MinMaxScaler(bounds=named).fit(frame).data_max_.tolist() == [100, 1]
    assert model.price(2).event == model.event_
    with pytest.raises(InputError, match="age"):
        LogisticRegression(epsilon=1, delta="1e-3", bounds={"dose": (0, 1)}, classes=[0, 1]).fit(frame, label)
    with pytest.raises(InputError, match="frame"):
        LogisticRegression(epsilon=1, delta="1e-3", bounds=named, classes=[0, 1]).fit(frame.to_numpy(), label)
