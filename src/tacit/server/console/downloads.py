"""Answers as files: CSV, text to paste, Parquet, each noisy column with both ends after it; and notebooks."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from tacit.core.text_files import csv_text, table_bytes
from tacit.releases.answer import Answer
from tacit.releases.release import MEDIA_TYPES, TABLE_FORMS
from tacit.server.console.page_request import PageRequest
from tacit.server.console.quotes import AskForm
from tacit.server.errors import Unknown
from tacit.server.service import ONLY

#: Media types by the form in the address.
_FORMS: Final = {form: MEDIA_TYPES[form] for form in TABLE_FORMS} | {
    "tsv": "text/tab-separated-values; charset=utf-8",
    "ipynb": MEDIA_TYPES["ipynb"],
}


async def by_position(visit: PageRequest) -> Response:
    """The answer at a place of the history as a file."""
    form = _form(visit)
    position = visit.request.path_params["position"]
    answer = await visit.run(visit.service.answer_again, visit.user, position)
    return await _file(visit, answer, form, f"answer-{position}")


async def again(visit: PageRequest) -> Response:
    """The answer to the question in a form as a file; only if it was released before, so that nothing is charged."""
    form, known = _form(visit), visit.form.get("release", "") or ONLY
    answer = await visit.run(visit.service.ask, visit.user, AskForm.of(visit.form).ask(), free=known)
    return await _file(visit, answer, form, "answer")


async def _file(visit: PageRequest, answer: Answer, form: str, name: str) -> Response:
    def content() -> bytes:
        if form == "ipynb":
            return answer.to_notebook()
        table = answer.intervals()
        if form != "tsv":
            return table_bytes(table, form)
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        return csv_text(table.column_names, rows, separator="\t").encode("utf-8", "replace")

    return visit.file(await visit.run(content), f"{name}.{form}", _FORMS[form])


def _form(visit: PageRequest) -> str:
    form = str(visit.request.path_params["form"])
    if form not in _FORMS:
        raise Unknown("page")
    return form
