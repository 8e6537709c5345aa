"""Pages of models: guarantee, coefficients and shapes for everyone who sees the population, a form for owners."""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np
from starlette.responses import Response

from tacit.client.requests import FitSchema
from tacit.core.errors import TacitError
from tacit.server.api.jobs import put_job
from tacit.server.api.request_body import read_body
from tacit.server.console.error_pages import PageProblem, problem_of
from tacit.server.console.page_request import PageRequest
from tacit.server.console.synthetic_pages import job_page
from tacit.server.identity import TokenScope

_ESTIMATORS: Final = (
    ("LogisticRegression", "classes, linear"),
    ("AdditiveClassifier", "classes, one shape per feature"),
    ("BoostedTreesClassifier", "classes, trees"),
    ("GaussianNB", "classes, naive Bayes"),
    ("LinearRegression", "a number, linear"),
    ("AdditiveRegressor", "a number, one shape per feature"),
    ("BoostedTreesRegressor", "a number, trees"),
    ("PoissonRegressor", "a count"),
    ("PCA", "principal components"),
    ("KMeans", "eight clusters"),
)
_FIELDS: Final = ("estimator", "sql", "epsilon", "delta")
#: Attributes of a model that a page shows: one line per feature, or one column per feature.
_BY_FEATURE: Final = {"coef_": "Coefficients", "feature_importances_": "Importance", "mean_": "Means"}
_BY_LINE: Final = {"cluster_centers_": "Centres of clusters", "components_": "Components", "theta_": "Means by class"}
_WIDTH, _HEIGHT = 240, 90


async def fit(visit: PageRequest) -> Response:
    """Put a fit down as a job; one that would be refused is refused now."""
    parameters = visit.typed("epsilon", "delta")
    told = {name: visit.form.get(name, "") for name in ("estimator", "sql")} | {"parameters": parameters}
    try:
        said = read_body(FitSchema, json.dumps(told).encode())
        await visit.run(visit.service.check_fit, visit.user, said)
        job = await visit.run(put_job, visit.runtime, visit.user, said)
    except TacitError as raised:
        return await show_models(visit, problem=problem_of(raised))
    return visit.redirect(f"/console/models?job={job.id}")


async def show_model(visit: PageRequest) -> Response:
    """One model: what it promises, what it has learned, and how to use it."""
    position = visit.request.path_params["position"]
    found = await visit.run(visit.service.model, visit.user, position)
    return await visit.page(
        "model.html",
        position=position,
        estimator=type(found.model).__name__,
        sql=found.sql,
        target=found.target,
        report=str(found.model.privacy_report()),
        tables=_tables_of(found.model, list(found.features)),
        shapes=_shapes_of(found.model, list(found.features)),
        use="predict" if hasattr(found.model, "predict") else "transform",
    )


async def download(visit: PageRequest) -> Response:
    """The model as a file."""
    position = visit.request.path_params["position"]
    found = await visit.run(visit.service.model, visit.user, position)
    return visit.file(found.text, f"model-{position}.json")


def _tables_of(model: Any, features: list[str]) -> list[dict[str, Any]]:
    """Tables of the numbers that a model has learned."""
    found = []
    # Listed categories are columns of their own in linear models.
    if getattr(model, "categories", None) is not None:
        features = [str(each) for each in model.get_feature_names_out(features)]
    for name, title in _BY_FEATURE.items():
        values = getattr(model, name, None)
        if values is None or np.shape(values)[-1] != len(features):
            continue
        lines = np.atleast_2d(np.asarray(values, dtype=float))
        classes = [str(each) for each in getattr(model, "classes_", ())]
        heads = classes if len(classes) == len(lines) else [title] if len(lines) == 1 else []
        rows = [[feature, *(f"{value:.4g}" for value in lines[:, at])] for at, feature in enumerate(features)]
        if name == "coef_":
            constants = np.atleast_1d(np.asarray(model.intercept_, dtype=float))
            rows.append(["constant", *(f"{value:.4g}" for value in constants)])
        found.append({"title": title, "heads": ["Feature", *heads], "rows": rows})
    for name, title in _BY_LINE.items():
        values = getattr(model, name, None)
        if values is not None and np.shape(values)[-1] == len(features):
            rows = [[str(at + 1), *(f"{value:.4g}" for value in line)] for at, line in enumerate(values)]
            found.append({"title": title, "heads": ["", *features], "rows": rows})
    return found


def _shapes_of(model: Any, features: list[str]) -> list[dict[str, Any]]:
    """Shapes of an additive model as lines with their bands, in a box of fixed size."""
    shapes = getattr(model, "shapes_", None)
    if not shapes:
        return []
    drawn = []
    largest = max(float(np.abs([shape.lower, shape.upper]).max()) for shape in shapes) or 1.0
    classes = [str(each) for each in getattr(model, "classes_", ())]
    for at, shape in enumerate(shapes):
        for output in range(shape.values.shape[1]):
            lines = [_points(side[:, output], largest) for side in (shape.values, shape.lower, shape.upper)]
            feature = features[at] if at < len(features) else str(shape.feature)
            drawn.append({
                "feature": f"{feature}, class {classes[output]}" if shape.values.shape[1] > 1 else feature,
                "line": " ".join(lines[0]),
                "band": " ".join([*lines[1], *reversed(lines[2])]),
                "low": f"{float(shape.edges[0]):.4g}",
                "high": f"{float(shape.edges[-1]):.4g}",
                "reach": f"{largest:.2g}",
            })  # fmt: skip
    return drawn


def _points(scores: Any, largest: float) -> list[str]:
    across = np.linspace(0, _WIDTH, len(scores))
    return [f"{x:.1f},{_HEIGHT / 2 * (1 - y / largest):.1f}" for x, y in zip(across, scores, strict=True)]


async def show_models(visit: PageRequest, problem: PageProblem | None = None) -> Response:
    """All models, the newest first; for owners a form that fits one, and the state of its job."""
    found = await visit.run(visit.service.models, visit.user)
    shown = {"models": list(reversed(found)), "owns": visit.user.has(TokenScope.ADMIN), "estimators": _ESTIMATORS}
    return await job_page(visit, "models.html", _FIELDS, problem, **shown)
