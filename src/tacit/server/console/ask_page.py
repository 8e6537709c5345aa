"""Page for asking: question, price and answer."""

from __future__ import annotations

import csv
import io
from fractions import Fraction
from typing import Any

from starlette.responses import Response

from tacit.core.errors import InputError, TacitError
from tacit.curator.accounts import Budget
from tacit.curator.views.answer_object import Answer
from tacit.query.request import OPTIONS, Request
from tacit.server.console.answers import drawing_of, sheet_of
from tacit.server.console.budget_bars import left_words
from tacit.server.console.chart_url import Drawing, address
from tacit.server.console.charts import LOOKS, draw_answer
from tacit.server.console.csrf import HEADERS, same
from tacit.server.console.datasets import view_table
from tacit.server.console.error_pages import PageProblem, problem_of
from tacit.server.console.number_format import amounts_text
from tacit.server.console.page_request import PageRequest
from tacit.server.console.quotes import LEVELS, MORE, PAYS, AskForm, QuoteView, view_public_quote, view_quote
from tacit.server.errors import Unknown
from tacit.server.identity import TokenScope
from tacit.wire.values import exact_text

__all__ = ["answer_page", "ask", "chart", "picture_of", "quote", "show_ask", "table_csv"]


async def show_ask(visit: PageRequest) -> Response:
    """An empty workbench; or one with a question from the history."""
    like = visit.request.query_params.get("like", "")
    form = AskForm(amount="0.1") if not like else await _like(visit, like)
    quoted = await _quote(visit, form) if form.sql else _NOTHING
    return await _bench(visit, form, quoted)


async def quote(visit: PageRequest) -> Response:
    """Effect and price of the question in the form. Free."""
    form = AskForm.of(visit.form)
    quoted = await _quote(visit, form) if form.sql else _NOTHING
    if not visit.partly:
        return await _bench(visit, form, quoted)
    view = quoted["quote"]
    budgets = await visit.budgets()
    return await visit.parts(
        stopped=_stops(quoted),
        quote=visit.render("part_quote.html", **quoted),
        budgets=visit.render("part_budgets.html", head_gauges=_pending(visit, budgets, view)),
    )


async def ask(visit: PageRequest) -> Response:
    """The answer to the question in the form."""
    form = AskForm.of(visit.form)
    shown: dict[str, Any] = {"problem": None, "sheet": None}
    status = 200
    try:
        answer = await visit.runtime.ask(visit.user, form.ask())
        shown |= await answered(visit, answer)
    except TacitError as raised:
        problem = problem_of(raised)
        status = problem.status
        shown["problem"] = problem
        if problem.code == "auth":
            visit.access = None
            return await visit.failed(problem, kept=form.sql)
    quoted = await _quote(visit, form)
    if not visit.partly:
        return await _bench(visit, form, quoted, status=status, **shown)
    budgets = await visit.budgets()
    return await visit.parts(
        status,
        shown["problem"],
        stopped=_stops(quoted),
        result=visit.render("part_result.html", **shown),
        quote=visit.render("part_quote.html", **quoted),
        budgets=visit.render("part_budgets.html", head_gauges=visit.head_gauges(budgets)),
    )


async def answer_page(visit: PageRequest) -> Response:
    """An answer that was given before, by its place in the history."""
    position = visit.request.path_params["position"]
    try:
        answer = await visit.run(visit.service.answer_again, visit.user, position)
    except Unknown:
        # The receipt is there where the answer was; only how it was asked for is not known by its place.
        receipt = await visit.run(visit.service.receipt, visit.user, position)
        sql = "\n\n".join(str(each.get("query") or each.get("name", "")) for each in receipt["answers"])
        return await visit.page(
            "answer.html", sql=sql, problem=_NOT_BY_PLACE, result={"position": position}, sheet=None
        )
    shown = await answered(visit, answer, again=True)
    return await visit.page("answer.html", sql=answer.charge.sql, problem=None, **shown)


async def table_csv(visit: PageRequest) -> Response:
    """The same as a table for programs: after each noisy column its two ends."""
    position = visit.request.path_params["position"]
    answer = await visit.run(visit.service.answer_again, visit.user, position)
    return _attached(await visit.run(_csv, answer), f"answer-{position}.csv", "text/csv; charset=utf-8")


async def chart(visit: PageRequest) -> Response:
    """A picture of released numbers that stand in its address."""
    look = visit.request.query_params.get("look", "light")
    if look not in LOOKS:
        raise InputError("look", f"must be one of {', '.join(LOOKS)}")
    of = visit.request.query_params.get("of", "")
    if not same(visit.request.query_params.get("mark", ""), _mark(visit, of)):
        raise InputError("of", "is not a drawing of an answer")
    svg = await visit.run(draw_answer, of, look)
    # Not cached, like the page it belongs to: the next user of this browser could look at it.
    headers = {**HEADERS, "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
    return Response(svg, media_type="image/svg+xml", headers=headers)


async def answered(visit: PageRequest, answer: Answer, *, again: bool = False) -> dict[str, Any]:
    """Context of the template of an answer."""
    if answer.is_public:
        result = {"heading": "Answer", "public": True, "words": answer.note, "receipt": "", "left": ""}
        return {"sheet": await visit.run(sheet_of, answer), "picture": None, "result": result}
    budget = await visit.run(visit.service.curator.budget, answer, analyst=visit.name)
    theirs = await visit.run(_is_theirs, visit, answer.charge.number)
    return {
        "sheet": await visit.run(sheet_of, answer),
        "picture": _picture(visit, answer),
        "result": {
            "heading": "Answer",
            "public": False,
            "repeated": answer.charge.repeated,
            "charged": amounts_text({each.currency: each.amount for each in answer.charge.amounts}),
            "words": _words(answer, again=again),
            "position": answer.charge.number,
            "csv": again,
            "receipt": "" if theirs else answer.paid[1].to_json(),
            "left": left_words(budget, visit.name),
        },
    }


def _is_theirs(visit: PageRequest, position: int) -> bool:
    """Whether there is a receipt for the visitor at a place; what others paid for is not at any place of theirs."""
    try:
        visit.service.receipt(visit.user, position)
    except Unknown:
        return False
    return True


def _words(answer: Answer, *, again: bool) -> str:
    found = f" {answer.found_text()}".rstrip()
    if again:
        start = "Released before, and shown again for nothing."
    elif answer.charge.summed:
        start = f"Sums of cells that were released before (entry {answer.charge.number}), so it cost nothing."
    elif answer.charge.repeated:
        start = "This question was answered before, so it cost nothing: the same answer, to the last digit."
    else:
        start = f"Charged to {answer.charge.population} before any data was read. Asked again, it is free."
    lost = "Clipping to bounds and groups that were left out are not in the intervals."
    if answer.left_out is not None:
        lost = f"What was left out is not in the intervals. {answer.left_out}"
    return f"{start}{found} {lost}"


def _mark(visit: PageRequest, of: str) -> str:
    """Mark that shows that this server wrote an address, in any worker."""
    return visit.service.curator.context.keys.veil(f"drawing {of}")[:32]


def _picture(visit: PageRequest, answer: Answer) -> dict[str, Any] | None:
    drawing = drawing_of(answer)
    if drawing is None:
        return None
    return picture_of(visit, drawing, len(answer))


def picture_of(visit: PageRequest, drawing: Drawing, rows: int) -> dict[str, Any]:
    """Address and words of a chart, for the template; of as many of its rows as fit."""
    text, shown = address(drawing)
    names = " and ".join(panel.title for panel in drawing.panels)
    return {
        "address": f"/console/chart.svg?of={text}&mark={_mark(visit, text)}",
        "words": f"Chart of {names} with {drawing.confidence} intervals; the table has the same numbers.",
        "shown": shown,
        "cut": shown < rows,
    }


#: Characters that begin a formula in some spreadsheet, wide ones among them.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_NOTHING: dict[str, Any] = {"quote": None, "quote_problem": None}
_NOT_BY_PLACE = PageProblem(
    "This answer cannot be shown by its place alone",
    "More was asked for than its text says, such as weights or fewer groups.",
    "Ask it again in the same way: that is free.",
    status=200,
)


async def _quote(visit: PageRequest, form: AskForm) -> dict[str, Any]:
    try:
        wanted = form.ask()
        quoted = await visit.runtime.quote(visit.user, wanted)
        if quoted.is_public:
            return {"quote": view_public_quote(quoted), "quote_problem": None}
        budget = (await visit.run(visit.service.budget, visit.user, quote=quoted))[0]
        free = await visit.run(_is_free, visit, wanted)
    except TacitError as raised:
        return {"quote": None, "quote_problem": problem_of(raised)}
    owner = visit.user.has(TokenScope.ADMIN)
    leaves = visit.runtime.leaves_after(visit.user, quoted)
    view = view_quote(quoted, budget, analyst=visit.name, free=free, engine=owner, leaves=leaves)
    return {"quote": view, "quote_problem": None}


def _stops(quoted: dict[str, Any]) -> bool:
    """Whether the question cannot be asked like this."""
    view = quoted["quote"]
    return quoted["quote_problem"] is not None or (view is not None and not view.fits)


def _is_free(visit: PageRequest, wanted: Request) -> bool:
    try:
        visit.service.ask(visit.user, wanted, free=True)
    except TacitError:
        return False
    return True


async def _like(visit: PageRequest, text: str) -> AskForm:
    """The form with a question of the person's own history."""
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise Unknown("page")
    receipt = await visit.run(visit.service.receipt, visit.user, int(text))
    sql = str(receipt["answers"][0]["query"])
    for currency, pay in (("epsilon", "epsilon"), ("rho", "rho")):
        if currency in receipt["charge"]:
            return AskForm(sql=sql, pay=pay, amount=_decimal(str(receipt["charge"][currency])))
    return AskForm(sql=sql)


def _decimal(text: str) -> str:
    """A charge as it may be typed again; left out where it is no short decimal."""
    shown = exact_text(Fraction(text))
    return shown if "/" not in shown and len(shown) < 30 else ""


def _pending(visit: PageRequest, budgets: tuple[Budget, ...], view: QuoteView | None) -> list[Any]:
    """The gauges of the head, hatched by what a question would add."""
    if view is None:
        return visit.head_gauges(budgets)
    named = {gauge.population for gauge in view.gauges}
    shown = [
        gauge
        for each in budgets
        for gauge in visit.head_gauges((each,), view.charge if each.population in named else None)
    ]
    return sorted(shown, key=lambda gauge: gauge.population not in named)[:2]


async def _bench(
    visit: PageRequest, form: AskForm, quoted: dict[str, Any], *, status: int = 200, **shown: Any
) -> Response:
    tables = await visit.run(visit.service.tables, visit.user)
    budgets = await visit.budgets()
    context = {"problem": None, "sheet": None, "picture": None, **quoted, **shown}
    return await visit.page(
        "ask.html",
        status,
        ask=form,
        choices=[OPTIONS[name] for name in _pays(budgets)],
        more=MORE,
        levels=LEVELS,
        tables=[view_table(info) for info in tables],
        budgets=budgets,
        **context,
    )


def _pays(budgets: tuple[Budget, ...]) -> list[str]:
    """Options that state a price for the accounts there are."""
    currencies = {line.currency for each in budgets for line in each.lines}
    rare = {"rho": "rho" in currencies, "mu": "mu squared" in currencies}
    return [word for word in PAYS if rare.get(word, True)]


def _csv(answer: Answer) -> str:
    table = answer.intervals()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow([_tame(name) for name in table.column_names])
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    writer.writerows([_tame(value) for value in row] for row in rows)
    return text.getvalue()


def _tame(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula gets a sign before it that says it is text."""
    return f"'{value}" if isinstance(value, str) and value[:1] in _FORMULA else value


def _attached(text: str, name: str, kind: str) -> Response:
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text, media_type=kind, headers=headers)
