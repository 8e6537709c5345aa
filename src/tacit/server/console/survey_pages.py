"""Pages of surveys: estimates for those who run them, and a form that randomises in the browser."""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import Response

from tacit.local import Aggregator
from tacit.server.api.survey_routes import CONFIDENCE, results_of
from tacit.server.console.ask_page import picture_of
from tacit.server.console.drawings import Drawing, Panel, Point, Series
from tacit.server.console.number_format import up
from tacit.server.console.page_request import PageRequest
from tacit.server.errors import Unknown
from tacit.server.identity.surveys import SurveyRecord

_MOST_ROWS: Final = 40
#: Protocols that the script of the form can randomise for.
IN_BROWSER: Final = ("k-ary", "unary")


async def show_surveys(visit: PageRequest) -> Response:
    """All surveys with live charts of their estimates; every number here comes from randomised reports."""
    surveys = await visit.run(visit.people.surveys.all)
    shown = [await visit.run(_told, visit, each) for each in reversed(surveys)]
    total = await visit.run(visit.people.surveys.total)
    live = any(each.open for each in surveys)
    return await visit.page("surveys.html", surveys=shown, total=up(total), live=live)


async def show_form(visit: PageRequest) -> Response:
    """The form of one survey, for any person who is asked; its script randomises before it sends."""
    survey = await visit.run(visit.people.surveys.find, visit.request.path_params["name"])
    if survey is None:
        raise Unknown("page")
    protocol = survey.protocol
    categories = list(getattr(protocol, "categories", ())) if protocol.kind in IN_BROWSER else []
    total = await visit.run(visit.people.surveys.total)
    return await visit.page(
        "survey.html",
        survey=survey,
        categories=categories,
        epsilon=up(protocol.epsilon),
        total=up(total),
        reports=len([each for each in await visit.run(visit.people.surveys.all) if each.open]),
    )


def _told(visit: PageRequest, survey: SurveyRecord) -> dict[str, Any]:
    found: Aggregator = visit.people.surveys.sums(survey)
    results = results_of(survey, found)
    rows = sorted(results.estimates, key=lambda row: -row.value)[:_MOST_ROWS]
    picture = None
    if rows:
        points = tuple(Point(row.label, row.value, row.low, row.high) for row in rows)
        drawing = Drawing((Panel("estimate", (Series("", points),)),), f"{float(CONFIDENCE):.0%}")
        picture = picture_of(drawing, len(points))
    return {
        "record": survey,
        "epsilon": up(survey.protocol.epsilon),
        "n": f"{results.n:,}",
        "rows": [
            {"label": row.label, "value": f"{row.value:.4g}", "low": f"{row.low:.4g}", "high": f"{row.high:.4g}"}
            for row in rows
        ],
        "picture": picture,
        "confidence": f"{float(CONFIDENCE):.0%}",
    }
