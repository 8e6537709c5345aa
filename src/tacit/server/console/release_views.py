"""What the page of a release shows beside its facts, and how its form is read; by kind.

A kind that is not listed has a form whose fields are those of its request, and shows its facts alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import numpy as np

from tacit.core.errors import InputError
from tacit.releases.kinds import KINDS
from tacit.releases.model import MODEL, Fitted
from tacit.releases.profile import PROFILE, Profile
from tacit.releases.release import TABLE_FORMS
from tacit.releases.synthesis import SYNTHESIS
from tacit.releases.synthetic_table import SyntheticStar, SyntheticTable
from tacit.releases.workload import WORKLOAD, WorkloadAnswer
from tacit.server.console.charts import MOST_BARS, Drawing, Panel, Point, Series, draw_panels
from tacit.server.errors import Unknown

#: Counts, and tables of a workload, that a page lists.
_MOST_LISTED: Final = 200
_MOST_PAIRS: Final = 20
#: Attributes of a model that a page shows: one line per feature, or one column per feature.
_BY_FEATURE: Final = {"coef_": "Coefficients", "feature_importances_": "Importance", "mean_": "Means"}
_BY_LINE: Final = {"cluster_centers_": "Centres of clusters", "components_": "Components", "theta_": "Means by class"}
_WIDTH, _HEIGHT = 240, 90


@dataclass(frozen=True)
class ReleaseView:
    """The page of a kind.

    Args:
        making: what its form does, in words.
        fields: of its form.
        choices: of a field of the form, each with words.
        stated: fields of the request, but for the price, from those of the form.
        shown: what its page shows of a release beside its facts, by the parameters of the address.
    """

    making: str
    fields: tuple[str, ...]
    choices: Sequence[tuple[str, str]]
    stated: Callable[[Mapping[str, str]], dict[str, Any]]
    shown: Callable[[Any, Any], dict[str, Any]]


def view_of(kind: str) -> ReleaseView:
    """The view of a kind."""
    found = _VIEWS.get(kind)
    if found is not None:
        return found
    fields = tuple(name for name in KINDS[kind].request.model_fields if name != "kind")
    prices = ("epsilon", "delta", "rho", "mu")
    return ReleaseView(
        f"Make a {kind}",
        fields,
        (),
        lambda form: {name: form[name] for name in fields if form.get(name) and name not in prices},
        lambda _made, _query: {},
    )


# Models ---------------------------------------------------------------------------------------------------------------


def _model_stated(form: Mapping[str, str]) -> dict[str, Any]:
    parameters = {name: text for name in ("epsilon", "delta") if (text := form.get(name, "").strip())}
    return {"estimator": form.get("estimator", ""), "sql": form.get("sql", ""), "parameters": parameters}


def _model_shown(made: Fitted, _: Any) -> dict[str, Any]:
    features = list(made.features)
    use = "predict" if hasattr(made.model, "predict") else "transform"
    return {"tables": _tables_of(made.model, features), "shapes": _shapes_of(made.model, features), "use": use}


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


# Profiles -------------------------------------------------------------------------------------------------------------


def _profile_stated(form: Mapping[str, str]) -> dict[str, Any]:
    suppose = form.get("suppose", "").strip()
    if suppose and not (suppose.isascii() and suppose.isdigit() and len(suppose) <= 12):
        raise InputError("suppose", "must be a whole number, or left out")
    return {"source": form.get("source", "").strip()} | ({"suppose": int(suppose)} if suppose else {})


def _profile_shown(made: Profile, _: Any) -> dict[str, Any]:
    """A picture of each column: counts of its values, or its middle half and mean between its bounds."""
    pictures = []
    for each in made.columns:
        counts = [
            ([str(value)], float(count.value), float(count.low), float(count.high))
            for value, count in each.values
            if count.low is not None
        ]
        line = None
        if each.bounds is not None and each.mean is not None:
            low, high = (_place(end) for end in each.bounds)
            span = (high - low) or 1.0

            def across(value: Any, low: float = low, span: float = span) -> str:
                return f"{min(max((_place(value) - low) / span, 0.0), 1.0) * _WIDTH:.1f}"

            line = {name: across(getattr(each.mean, name)) for name in ("low", "value", "high")}
            line |= {f"q{n}": across(quartile.value) for n, quartile in enumerate(each.quartiles, 1)}
        pictures.append({"name": each.name, "line": line, "charts": _counts_drawn("rows", counts)})
    return {"pictures": pictures, "width": _WIDTH, "draft": made.draft(), "files": list(PROFILE.files(made))}


def _place(value: Any) -> float:
    return float(value.toordinal() if hasattr(value, "toordinal") else value)


# Workloads ------------------------------------------------------------------------------------------------------------


def _workload_stated(form: Mapping[str, str]) -> dict[str, Any]:
    columns = [name.strip() for name in form.get("columns", "").split(",") if name.strip()]
    ways = form.get("ways", "")
    if ways in ("prefixes", "ranges"):
        if len(columns) != 1:
            raise InputError("columns", f"must be one column for {ways}")
        parts: list[dict[str, Any]] = [{ways: columns[0]}]
    elif ways in ("1", "2", "3"):
        parts = [{"marginals": columns, "ways": int(ways)}]
    else:
        raise InputError("ways", f"must be one of {', '.join(name for name, _ in _WAYS)}")
    return {"source": form.get("source", ""), "workload": parts}


def _workload_shown(made: WorkloadAnswer, query: Any) -> dict[str, Any]:
    """The tables of a workload, and the first answers of one of them."""
    tables = [
        {"place": place, "columns": " × ".join(each.columns) or "all rows", "queries": f"{len(each):,}",
         "stddev": f"{each.variances.max() ** 0.5:.4g}"}
        for place, each in enumerate(made.tables())
    ]  # fmt: skip
    place = query.get("table", "0")
    if not place.isascii() or not place.isdigit() or not int(place[:9]) < len(tables):
        raise Unknown("page")
    return {
        "answers": _answers(made, int(place[:9])),
        "error": f"{made.plan.root_mean_square_error:.4g}",
        "tables": tables[:_MOST_LISTED],
        "more": len(tables) - _MOST_LISTED,
        "forms": list(TABLE_FORMS),
    }


def _answers(found: WorkloadAnswer, place: int) -> dict[str, Any]:
    """The first answers of one table, each with its interval."""
    table = next(islice(found.tables(), place, None))
    listed = [([_label(each) for each in labels], told) for labels, told in islice(table.rows(), _MOST_LISTED)]
    points = [(labels, told.value, told.low, told.high) for labels, told in listed]
    return {
        "place": place,
        "columns": table.columns,
        "title": " × ".join(table.columns) or "all rows",
        "rows": [
            {"labels": labels} | {name: _count_text(getattr(told, name)) for name in ("value", "low", "high")}
            for labels, told in listed
        ],
        "more": len(table) - len(listed),
        "charts": _counts_drawn("answers", points) if len(table) == len(listed) else [],
    }


def _label(label: Any) -> str:
    if isinstance(label, tuple):
        return f"{label[0]} to {label[1]}"
    return "NULL" if label is None else str(label)


# Synthetic tables -----------------------------------------------------------------------------------------------------


def _synthesis_stated(form: Mapping[str, str]) -> dict[str, Any]:
    source, second = form.get("source", "").strip(), form.get("second", "").strip()
    stated: dict[str, Any] = {"source": {source: None, second: None} if second else source}
    if form.get("method", "").strip():
        stated["method"] = form["method"].strip()
    return stated | _listed(form.get("marginals", ""), form.get("rows", "").strip())


def _synthesis_shown(made: SyntheticTable | SyntheticStar, query: Any) -> dict[str, Any]:
    """The quality of one of the tables, and the counts of a marginal that was measured."""
    name = query.get("table", "") or made.tables[0].name
    table = next((each for each in made.tables if each.name == name), None)
    if table is None:
        raise Unknown("page")
    best = table.best_quality()
    quality = [
        {
            "columns": each.columns,
            "shown": " × ".join(each.columns),
            "times": each.times,
            "wide": f"{each.wide:.3g}",
            "distance": _percent(each.distance),
            "noise": _percent(each.noise),
        }
        for each in best
    ]
    chosen = tuple(query.getlist("column"))
    known = [each.columns for each in best]
    if chosen and chosen not in known:
        raise Unknown("page")
    missing = [" × ".join(pair) for pair in table.not_measured]
    return {
        "table": table,
        "rows": f"{table.rows:,}",
        "quality": quality,
        "missing": missing[:_MOST_PAIRS],
        "more": len(missing) - _MOST_PAIRS,
        "counts": _counts(table, chosen or min(known, key=len)) if known else None,
        "beside": [each.name for each in made.tables if each is not table],
        "forms": list(TABLE_FORMS),
    }


def _listed(marginals: str, rows: str) -> dict[str, Any]:
    """Sets of columns, as ``ward + sex, ward + age``, and a number of rows, where they are stated."""
    sets = [[name.strip() for name in each.split("+") if name.strip()] for each in marginals.split(",")]
    told: dict[str, Any] = {"marginals": [each for each in sets if each]} if any(sets) else {}
    if rows:
        if not rows.isascii() or not rows.isdigit() or len(rows) > 12:
            raise InputError("rows", "must be a whole number, or left out")
        told["rows"] = int(rows)
    return told


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share <= 1 else "more than 100 %"


def _counts(table: SyntheticTable, columns: tuple[str, ...]) -> dict[str, Any]:
    """Counts of a marginal that was measured: the model's, the noisy one and its interval."""
    found = table.marginal(columns).slice(0, _MOST_LISTED).to_pylist()
    labels = [["NULL" if row[name] is None else str(row[name]) for name in columns] for row in found]
    rows = [
        {
            "labels": named,
            "model": _count_text(row["model"]),
            "measured": None if row["measured"] is None else _count_text(row["measured"]),
            **{end: "" if row[end] is None else _count_text(row[end]) for end in ("low", "high")},
        }
        for named, row in zip(labels, found, strict=True)
    ]
    points = [
        (named, row["measured"], row["low"], row["high"])
        for named, row in zip(labels, found, strict=True)
        if row["measured"] is not None
    ]
    cells = math.prod(len(table.columns[name]) for name in columns)
    return {
        "columns": columns,
        "title": " × ".join(columns),
        "rows": rows,
        "more": cells - len(rows),
        "charts": _counts_drawn("measured", points),
    }


def _count_text(count: float) -> str:
    """A count with one digit after the point, where it is small enough for that to matter."""
    return f"{count:,.0f}" if abs(count) >= 1_000 else f"{count:,.1f}"


def _counts_drawn(title: str, counts: list[tuple[list[str], float, float, float]]) -> list[dict[str, Any]]:
    """A picture of counts with their intervals, where there are few enough for a bar each."""
    if not 1 < len(counts) <= MOST_BARS:
        return []
    points = tuple(Point(", ".join(labels), value, low, high) for labels, value, low, high in counts)
    return list(draw_panels(Drawing((Panel(title, (Series("", points),)),), "95%")))


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
_WAYS: Final = (
    ("1", "counts by each column"),
    ("2", "counts by each pair of columns"),
    ("3", "counts by every three columns"),
    ("prefixes", "cumulative counts of one column"),
    ("ranges", "counts of every interval of one column"),
)
_METHODS: Final = (
    ("aim", "best, minutes"),
    ("mst", "good, seconds"),
    ("marginals", "listed sets"),
    ("independent", "columns alone"),
)
_VIEWS: Final[Mapping[str, ReleaseView]] = {
    SYNTHESIS.name: ReleaseView(
        "Make a synthetic table", ("source", "second", "method", "marginals", "rows", "epsilon", "delta"), _METHODS,
        _synthesis_stated, _synthesis_shown,
    ),
    WORKLOAD.name: ReleaseView(
        "Answer a workload", ("source", "columns", "ways", "epsilon", "delta"), _WAYS, _workload_stated,
        _workload_shown,
    ),
    PROFILE.name: ReleaseView(
        "Profile a table", ("source", "suppose", "epsilon", "delta"), (), _profile_stated, _profile_shown
    ),
    MODEL.name: ReleaseView(
        "Fit a model", ("estimator", "sql", "epsilon", "delta"), _ESTIMATORS, _model_stated, _model_shown
    ),
}  # fmt: skip
