"""Pages of releases: a list, one of each for everyone who sees its population, and forms that make one.

A :class:`ReleaseView` defines what the page of a kind shows in addition to its facts, and how its form is parsed; the
template ``release_<kind>.html`` has the macros of the page and the form. A kind without a view has a form with the
fields of its request.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import numpy as np
from markupsafe import Markup
from starlette.responses import Response

from tacit.core.errors import InputError, TacitError
from tacit.releases.kinds import KINDS
from tacit.releases.model import MODEL, Fitted
from tacit.releases.notebook import tables_notebook
from tacit.releases.profile import PROFILE, Profile
from tacit.releases.release import MEDIA_TYPES, TABLE_FORMS, Files, Made, Release
from tacit.releases.synthesis import SYNTHESIS
from tacit.releases.synthetic_table import SyntheticStar, SyntheticTable
from tacit.releases.workload import WORKLOAD, WorkloadAnswer
from tacit.server.api.jobs import put_job
from tacit.server.api.request import release_of
from tacit.server.console.charts import MOST_BARS, NUMBER, Drawing, Panel, Point, Series, draw_panels
from tacit.server.console.page_request import PageProblem, PageRequest, problem_of
from tacit.server.errors import Unknown
from tacit.server.identity import TokenScope

#: File name of every release's notebook, and maximum number of tables in it.
_NOTEBOOK, _MOST_TABLES = "notebook.ipynb", 20
#: Maximum number of counts, and of a workload's tables, that a page lists.
_MOST_LISTED: Final = 200
_MOST_PAIRS: Final = 20
_WIDTH: Final = 240
_PRICES: Final = ("epsilon", "delta", "rho", "mu")


async def show_releases(visit: PageRequest, problem: PageProblem | None = None, quote: str = "") -> Response:
    """Show all releases, the newest first; the form for people who may make one, and the state of its job."""
    query, owns, asks = visit.request.query_params, *map(visit.user.has, (TokenScope.ADMIN, TokenScope.ASK))
    makes = [name for name, kind in KINDS.items() if owns or (asks and kind.by_analysts)]
    making = visit.form.get("kind") or query.get("make", "")
    if making not in makes:
        if making and problem is None:
            raise Unknown("page")
        making = ""
    found = await visit.run(visit.service.releases, visit.user)
    tables = await visit.run(visit.service.tables, visit.user) if making else ()
    view = view_of(making) if making else None
    return await visit.page(
        "releases.html",
        200 if problem is None else problem.status,
        releases=list(reversed(found)),
        makes=[(name, view_of(name).making) for name in makes],
        making=making,
        draft={} if view is None else {name: visit.form.get(name, "") for name in view.fields},
        choices=() if view is None else view.choices,
        sources=[each.name for each in tables if not each.table.public],
        job=await visit.run(_job_of, visit, query.get("job", "")),
        problem=problem,
        quote=quote,
    )


def _job_of(visit: PageRequest, identity: str) -> dict[str, Any] | None:
    """Return the state of a job as text, and the ledger position of its release; None if the person has no such job."""
    found = visit.people.jobs.find(identity, visit.name) if identity else None
    if found is None:
        return None
    outcome = json.loads(found.outcome) if found.state in ("done", "failed") else None
    message = "" if outcome is None else outcome.get("message", "")
    position = None if outcome is None else outcome.get("position")
    return {"state": found.state, "message": message, "open": outcome is None, "position": position}


async def make(visit: PageRequest) -> Response:
    """Quote a release, or submit it as a job; refuse at once what the job would refuse."""
    kind = visit.form.get("kind", "")
    try:
        if kind not in KINDS:
            raise InputError("kind", f"must be one of {', '.join(KINDS)}")
        fields = KINDS[kind].request.model_fields
        prices: dict[str, Any] = {name: text for name in _PRICES if name in fields and (text := visit.typed(name))}
        body = KINDS[kind].request.text({"kind": kind, **view_of(kind).stated(visit.form)}, prices)
        request = release_of(body.encode())
        quote = await visit.run(visit.service.quote_release, visit.user, request)
        if visit.form.get("do") == "quote":
            return await show_releases(visit, quote=quote)
        job = await visit.run(put_job, visit.runtime, visit.user, request)
    except TacitError as raised:
        return await show_releases(visit, problem=problem_of(raised))
    return visit.redirect(f"/console/releases?job={job.id}")


async def show_release(visit: PageRequest) -> Response:
    release, made = await visit.run(visit.service.release, visit.user, visit.request.path_params["position"])
    shown = await visit.run(view_of(release.kind).shown, made, visit.request.query_params)
    about = await visit.run(lambda: KINDS[release.kind].describe(made).plain())
    return await visit.page("release.html", release=release, position=release.position, about=about, **shown)


async def download(visit: PageRequest) -> Response:
    release, made = await visit.run(visit.service.release, visit.user, visit.request.path_params["position"])
    name, start = visit.request.path_params["file"], f"{release.kind}-{release.position}"
    files = await visit.run(KINDS[release.kind].files, made)
    if name == _NOTEBOOK:
        return visit.file(await visit.run(_notebook, release, made, files), f"{start}.ipynb", MEDIA_TYPES["ipynb"])
    if name not in files:
        raise Unknown("page")
    return visit.file(await visit.run(files[name]), f"{start}-{name}", MEDIA_TYPES[name.rpartition(".")[2]])


def _notebook(release: Release, made: Made, files: Files) -> bytes:
    """Return a notebook with the facts, the first tables and the receipt of a release."""
    tables = {name: content() for name, content in files.items() if name.endswith(".csv")}
    about = json.dumps(KINDS[release.kind].describe(made).plain(), indent=1, ensure_ascii=False)
    shown = dict(islice(tables.items(), _MOST_TABLES))
    return tables_notebook(f"{release.kind} {release.title}", about, shown, made.receipt)


@dataclass(frozen=True)
class ReleaseView:
    """The page and form of one kind of release.

    Args:
        making: label of its form.
        fields: names of the form's fields.
        choices: (value, label) pairs of a field with choices.
        stated: converts form fields to the request's fields, except the cost.
        shown: template context of a release from the release and the URL's parameters, in addition to its facts.
    """

    making: str
    fields: tuple[str, ...]
    choices: Sequence[tuple[str, str]]
    stated: Callable[[Mapping[str, str]], dict[str, Any]]
    shown: Callable[[Any, Any], dict[str, Any]]


def view_of(kind: str) -> ReleaseView:
    """Return the view of a kind of release; by default, a form with the fields of its request."""
    if kind in _VIEWS:
        return _VIEWS[kind]
    fields = tuple(name for name in KINDS[kind].request.model_fields if name != "kind")

    def stated(form: Mapping[str, str]) -> dict[str, Any]:
        return {name: form[name] for name in fields if form.get(name) and name not in _PRICES}

    return ReleaseView(f"Make a {kind}", fields, (), stated, lambda _made, _query: {})


def _whole(form: Mapping[str, str], name: str) -> dict[str, int]:
    """Return an integer field of the form, if it is filled in."""
    text = form.get(name, "").strip()
    if text and not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise InputError(name, "must be a whole number, or left out")
    return {name: int(text)} if text else {}


def _listed(text: str, separator: str) -> list[str]:
    return [name.strip() for name in text.split(separator) if name.strip()]


def _counts_drawn(title: str, counts: Iterable[tuple[Sequence[str], float, float, float]]) -> list[Markup]:
    """Draw counts with their intervals; nothing if there are too many for a bar each."""
    points = tuple(Point(", ".join(labels), value, low, high) for labels, value, low, high in counts)
    if not 1 < len(points) <= MOST_BARS:
        return []
    return draw_panels(Drawing((Panel(title, (Series("", points),)),), "95%"))


# Models ---------------------------------------------------------------------------------------------------------------


def _model_stated(form: Mapping[str, str]) -> dict[str, Any]:
    parameters = {name: text for name in ("epsilon", "delta") if (text := form.get(name, "").strip())}
    return {"estimator": form.get("estimator", ""), "sql": form.get("sql", ""), "parameters": parameters}


def _model_shown(made: Fitted, _: Any) -> dict[str, Any]:
    features = list(made.features)
    use = "predict" if hasattr(made.model, "predict") else "transform"
    return {"shapes": _shapes_of(made.model, features), "use": use}


def _shapes_of(model: Any, features: list[str]) -> list[tuple[str, Markup]]:
    """Draw the shape functions of an additive model as lines with bands."""
    classes = [str(each) for each in getattr(model, "classes_", ())]
    drawn = []
    for at, shape in enumerate(getattr(model, "shapes_", None) or ()):
        feature = features[at] if at < len(features) else str(shape.feature)
        places = np.linspace(float(shape.edges[0]), float(shape.edges[-1]), len(shape.values))
        for output in range(shape.values.shape[1]):
            title = f"{feature}, class {classes[output]}" if shape.values.shape[1] > 1 else feature
            sides = (side[:, output] for side in (shape.values, shape.lower, shape.upper))
            points = tuple(
                Point(f"{place:.4g}", float(value), float(low), float(high), float(place))
                for place, value, low, high in zip(places, *sides, strict=True)
            )
            panel = Panel(title, (Series("", points),))
            drawn.append((title, draw_panels(Drawing((panel,), "95%", NUMBER, feature))[0]))
    return drawn


# Profiles -------------------------------------------------------------------------------------------------------------


def _profile_stated(form: Mapping[str, str]) -> dict[str, Any]:
    return {"source": form.get("source", "").strip(), **_whole(form, "suppose")}


def _profile_shown(made: Profile, _: Any) -> dict[str, Any]:
    """Draw each column: counts of its values, or its quartiles and mean within its bounds."""
    pictures = []
    for each in made.columns:
        counts = [
            ([str(value)], float(count.value), float(count.low), float(count.high))
            for value, count in each.values
            if count.low is not None
        ]
        line = None
        if each.bounds is not None and each.mean is not None:
            marks = {name: _place(getattr(each.mean, name)) for name in ("low", "value", "high")}
            marks |= {f"q{n}": _place(quartile.value) for n, quartile in enumerate(each.quartiles, 1)}
            low, high = map(_place, each.bounds)
            span = (high - low) or 1.0
            line = {name: _WIDTH * min(max((place - low) / span, 0.0), 1.0) for name, place in marks.items()}
        pictures.append((each.name, line, _counts_drawn("rows", counts)))
    return {"pictures": pictures, "width": _WIDTH, "draft": made.draft(), "files": list(PROFILE.files(made))}


def _place(value: Any) -> float:
    return float(value.toordinal() if hasattr(value, "toordinal") else value)


# Workloads ------------------------------------------------------------------------------------------------------------


def _workload_stated(form: Mapping[str, str]) -> dict[str, Any]:
    columns, ways = _listed(form.get("columns", ""), ","), form.get("ways", "")
    if ways in ("prefixes", "ranges"):
        if len(columns) != 1:
            raise InputError("columns", f"must be one column for {ways}")
        return {"source": form.get("source", ""), "workload": [{ways: columns[0]}]}
    if ways not in ("1", "2", "3"):
        raise InputError("ways", f"must be one of {', '.join(name for name, _ in _WAYS)}")
    return {"source": form.get("source", ""), "workload": [{"marginals": columns, "ways": int(ways)}]}


def _workload_shown(made: WorkloadAnswer, query: Any) -> dict[str, Any]:
    """Return the tables of a workload, and the first answers of one of them, each with its interval."""
    tables = [
        (" × ".join(each.columns) or "all rows", len(each), each.variances.max() ** 0.5) for each in made.tables()
    ]
    text = query.get("table", "0")
    if not text.isascii() or not text.isdigit() or not int(text[:9]) < len(tables):
        raise Unknown("page")
    place = int(text[:9])
    table = next(islice(made.tables(), place, None))
    rows = [
        ([f"{each[0]} to {each[1]}" if isinstance(each, tuple) else _label(each) for each in labels], told)
        for labels, told in islice(table.rows(), _MOST_LISTED)
    ]
    points = ((labels, told.value, told.low, told.high) for labels, told in rows)
    return {
        "place": place,
        "columns": table.columns,
        "rows": rows,
        "more_rows": len(table) - len(rows),
        "charts": _counts_drawn("answers", points) if len(table) == len(rows) else [],
        "error": made.plan.root_mean_square_error,
        "tables": tables[:_MOST_LISTED],
        "more": len(tables) - _MOST_LISTED,
        "forms": list(TABLE_FORMS),
    }


def _label(value: Any) -> str:
    return "NULL" if value is None else str(value)


# Synthetic tables -----------------------------------------------------------------------------------------------------


def _synthesis_stated(form: Mapping[str, str]) -> dict[str, Any]:
    """Return the filled-in fields: column sets such as ``ward + sex, ward + age``, method, number of rows."""
    source, second, method = (form.get(name, "").strip() for name in ("source", "second", "method"))
    sets = [_listed(each, "+") for each in _listed(form.get("marginals", ""), ",")]
    said = {"method": method, "marginals": [each for each in sets if each], **_whole(form, "rows")}
    return {"source": {source: None, second: None} if second else source} | {k: v for k, v in said.items() if v}


def _synthesis_shown(made: SyntheticTable | SyntheticStar, query: Any) -> dict[str, Any]:
    """Return the quality of one of the tables."""
    name = query.get("table", "") or made.tables[0].name
    table = next((each for each in made.tables if each.name == name), None)
    if table is None:
        raise Unknown("page")
    missing = [" × ".join(pair) for pair in table.not_measured]
    return {
        "table": table,
        "quality": table.quality(),
        "missing": missing[:_MOST_PAIRS],
        "more": len(missing) - _MOST_PAIRS,
        "beside": [each.name for each in made.tables if each is not table],
        "forms": list(TABLE_FORMS),
    }


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
