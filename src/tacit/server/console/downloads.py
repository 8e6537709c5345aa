"""Answers as files: CSV, tab-separated text to paste, and Parquet, each noisy column with both ends after it."""

from __future__ import annotations

import csv
import io
from typing import Any, Final

from starlette.responses import Response

from tacit.curator.views.answer_object import Answer
from tacit.curator.views.arrow_tables import table_bytes
from tacit.server.api.release_routes import FORMS
from tacit.server.console.page_request import PageRequest
from tacit.server.console.quotes import AskForm
from tacit.server.errors import Unknown

#: Media types by the form in the address.
_FORMS: Final = {**FORMS, "tsv": "text/tab-separated-values; charset=utf-8"}
#: Characters that begin a formula in some spreadsheet, wide ones among them.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


async def by_position(visit: PageRequest) -> Response:
    """The answer at a place of the history as a file."""
    form = _form(visit)
    position = visit.request.path_params["position"]
    answer = await visit.run(visit.service.answer_again, visit.user, position)
    return await _file(visit, answer, form, f"answer-{position}")


async def again(visit: PageRequest) -> Response:
    """The answer to the question in a form as a file; only if it was released before, so that nothing is charged."""
    form = _form(visit)
    answer = await visit.run(visit.service.ask, visit.user, AskForm.of(visit.form).ask(), free=True)
    return await _file(visit, answer, form, "answer")


async def _file(visit: PageRequest, answer: Answer, form: str, name: str) -> Response:
    def content() -> bytes:
        if form == "parquet":
            return table_bytes(answer.intervals(), form)
        return _text(answer, "," if form == "csv" else "\t").encode("utf-8", "replace")

    return visit.file(await visit.run(content), f"{name}.{form}", _FORMS[form])


def _form(visit: PageRequest) -> str:
    form = str(visit.request.path_params["form"])
    if form not in _FORMS:
        raise Unknown("page")
    return form


def _text(answer: Answer, separator: str) -> str:
    table = answer.intervals()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n", delimiter=separator)
    writer.writerow([_tame(name) for name in table.column_names])
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    writer.writerows([_tame(value) for value in row] for row in rows)
    return text.getvalue()


def _tame(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula gets a sign before it that says it is text."""
    return f"'{value}" if isinstance(value, str) and value[:1] in _FORMULA else value
