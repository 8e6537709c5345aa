"""Page for asking: query, price and answer."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from markupsafe import escape
from starlette.responses import Response

from tacit.core.errors import InputError, TacitError
from tacit.core.numbers import exact_text
from tacit.ledger import ConflictError
from tacit.query.request import OPTIONS, Request
from tacit.releases.accounts import Budget
from tacit.releases.answer import Answer
from tacit.server.console.amounts import charge_text, left_words
from tacit.server.console.answers import drawing_of, sheet_of
from tacit.server.console.builder import build, view_builder
from tacit.server.console.charts import CATEGORY, MOST_MARKS, Drawing, draw_panels
from tacit.server.console.datasets import view_table
from tacit.server.console.editor import editor_words
from tacit.server.console.page_request import PageProblem, PageRequest, problem_of
from tacit.server.console.query_pages import opened
from tacit.server.console.quotes import LEVELS, MORE, PAYS, AskForm, QuoteView, curve_of, view_public_quote, view_quote
from tacit.server.errors import Unknown
from tacit.server.identity import TokenScope
from tacit.server.service import ONLY


async def show_ask(visit: PageRequest) -> Response:
    """An empty workbench; or one with a query that was kept, or from a link, which is quoted and not asked."""
    said = visit.request.query_params
    note = ""
    if like := said.get("like", ""):
        form = await _like(visit, like)
    elif saved := said.get("saved", ""):
        kept = await opened(visit, saved)
        form, note = AskForm.of({"sql": kept.sql, **kept.options}), f"“{kept.title}”, saved by {kept.name}."
    elif said.get("sql"):
        form, note = _linked(said), "This query came with a link. Nothing is asked before you press Ask."
    else:
        form = AskForm(amount="0.1")
    quoted = await _quote(visit, form) if form.sql else _NOTHING
    return await _bench(visit, form, quoted, note=note)


def _linked(said: Mapping[str, str]) -> AskForm:
    """The form that a link fills in: ``sql``, a price by its name, and other options."""
    pay = next((name for name in PAYS if name in said), "epsilon")
    sent = {"sql": said["sql"][:_MOST_SQL], "pay": pay, "amount": said.get(pay, "0.1")}
    names = ["confidence", *(option.name for option in MORE)]
    return AskForm.of(sent | {name: said[name] for name in names if name in said})


async def quote(visit: PageRequest) -> Response:
    """Effect and price of the query in the form. Free."""
    form = AskForm.of(visit.form)
    quoted = await _quote(visit, form) if form.sql else _NOTHING
    if not visit.partly:
        return await _bench(visit, form, quoted)
    view = quoted["quote"]
    budgets = await visit.budgets()
    return await visit.parts(
        stopped=_stops(quoted),
        **_quote_parts(visit, quoted),
        budgets=visit.render("part_budgets.html", head_gauges=_pending(visit, budgets, view)),
    )


async def ask(visit: PageRequest) -> Response:
    """The answer to the query in the form."""
    form = AskForm.of(visit.form)
    shown: dict[str, Any] = {"problem": None, "sheet": None}
    status = 200
    try:
        answer = await visit.runtime.ask(visit.user, form.ask())
        shown |= await answered(visit, answer, form)
    except TacitError as raised:
        refused = problem_of(raised, form.sql)
        status = refused.status
        shown["problem"] = refused
        if refused.code == "auth":
            visit.access = None
            return await visit.failed(refused, kept=form.sql)
    quoted = await _quote(visit, form)
    problem = shown["problem"]
    if problem is not None and problem == quoted["quote_problem"]:
        # Said once, below the query, where it can be mended.
        shown["problem"] = None
    if not visit.partly:
        return await _bench(visit, form, quoted, status=status, **shown)
    budgets = await visit.budgets()
    return await visit.parts(
        status,
        problem,
        stopped=_stops(quoted),
        result=visit.render("part_result.html", **shown),
        **_quote_parts(visit, quoted),
        budgets=visit.render("part_budgets.html", head_gauges=visit.head_gauges(budgets)),
    )


async def ask_again(visit: PageRequest) -> Response:
    """The answer to a query of one's own history once more, if it is free; else the query with its price."""
    form = await _like(visit, visit.form.get("position", ""))
    shown: dict[str, Any] = {}
    try:
        answer = await visit.run(visit.service.ask, visit.user, form.ask(), free=ONLY)
        shown = await answered(visit, answer, form)
    except ConflictError:
        shown["note"] = (
            "What was asked then is not free now: the data has changed, or more was stated. Nothing was asked."
        )
    return await _bench(visit, form, await _quote(visit, form), **shown)


async def deliver(visit: PageRequest) -> Response:
    """The answer that a charge of the history has paid for and nobody was given."""
    text = visit.form.get("position", "")
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise Unknown("page")
    await visit.runtime.deliver(visit.user, int(text))
    return visit.redirect(f"/console/answers/{int(text)}")


async def build_query(visit: PageRequest) -> Response:
    """The query that was chosen in the builder, as SQL in the editor; nothing is asked."""
    tables = await visit.run(visit.service.tables, visit.user)
    sql, problem = "", ""
    try:
        sql = build(visit.form, tables)
    except InputError as raised:
        problem = str(raised)
    view = view_builder(visit.form, tables, problem)
    if visit.partly:
        places = {"builder": visit.render("part_builder.html", builder=view)}
        if sql:
            places["sql"] = str(escape(sql))
        return await visit.parts(200, None, stopped=False, **places)
    form = AskForm(sql=sql, amount="0.1")
    return await _bench(visit, form, await _quote(visit, form) if sql else _NOTHING, builder=view, built=True)


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
    shown = await answered(visit, answer)
    return await visit.page("answer.html", sql=answer.charge.sql, problem=None, **shown)


async def answered(visit: PageRequest, answer: Answer, form: AskForm | None = None) -> dict[str, Any]:
    """Context of the template of an answer: to the query in a form, or without one from the history."""
    again = form is None
    if answer.is_public:
        result = {"heading": "Answer", "public": True, "words": answer.note, "receipt": "", "left": ""}
        files = {"fields": () if form is None else tuple(form.fields().items()), "csrf": visit.user.csrf}
        return {"sheet": await visit.run(sheet_of, answer), "picture": None, "result": result | files}
    budget = await visit.run(visit.service.curator.budget, answer, analyst=visit.name)
    code = visit.service.release_code(visit.user, answer)
    theirs = await visit.run(_is_theirs, visit, answer.charge.number)
    return {
        "sheet": await visit.run(sheet_of, answer),
        "picture": await visit.run(lambda: picture_of(drawing_of(answer), len(answer))),
        "result": {
            "heading": "Answer",
            "public": False,
            "repeated": answer.charge.repeated,
            "charged": charge_text({each.currency: each.amount for each in answer.charge.amounts}, answer.charge.typed),
            "words": _words(answer, again=again),
            "position": answer.charge.number,
            "fields": () if form is None else tuple((form.fields() | {"release": code}).items()),
            "csrf": visit.user.csrf,
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
    elif answer.charge.repeated:
        start = "This query was answered before, so it cost nothing: the same answer, to the last digit."
    else:
        start = f"Charged to {answer.charge.population} before any data was read. Asked again, it is free."
    lost = "Clipping and truncation bias is not in the intervals." if answer.bias is None else str(answer.bias)
    return f"{start}{found} {lost}".rstrip()


def picture_of(drawing: Drawing | None, rows: int) -> dict[str, Any] | None:
    """Charts and their caption, for the template; None where there is nothing to draw."""
    if drawing is None:
        return None
    shape = "Bars show the values of the table, lines on them"
    if drawing.axis != CATEGORY:
        shape = "The line shows the values of the table, the band"
    words = [f"{shape} their {drawing.confidence} intervals, each for itself."]
    if drawing.marked:
        words.append("A ring marks a value of which bounding may have left out more than its interval says.")
    if drawing.shown < rows:
        words.append(f"{drawing.shown:,} of {rows:,} rows are drawn; the others have no place on the axis.")
    if drawing.shown > MOST_MARKS:
        words.append(
            "Marks stand for several neighbouring rows: a value from their middle, and all of their intervals."
        )
    return {"panels": draw_panels(drawing), "words": " ".join(words), "one": len(drawing.panels) == 1}


#: Characters of a query, as the field allows.
_MOST_SQL = 20_000
_NOTHING: dict[str, Any] = {"quote": None, "quote_problem": None}
_NOT_BY_PLACE = PageProblem(
    "This answer cannot be shown by its place alone",
    "More was asked for than its text says, such as weights or fewer groups.",
    "Ask it again in the same way: that is free.",
    status=200,
)


def _quote_parts(visit: PageRequest, quoted: dict[str, Any]) -> dict[str, str]:
    """A quote in the places of the page: its details, its price, and what is wrong below the text."""
    return {name: visit.render(f"part_{name}.html", **quoted) for name in ("quote", "price", "trouble")}


async def _quote(visit: PageRequest, form: AskForm) -> dict[str, Any]:
    try:
        wanted = form.ask()
        quoted = await visit.runtime.quote(visit.user, wanted)
        if quoted.is_public:
            return {"quote": view_public_quote(quoted), "quote_problem": None}
        budget = (await visit.run(visit.service.budget, visit.user, quote=quoted))[0]
        free = await visit.run(_is_free, visit, wanted)
    except TacitError as raised:
        return {"quote": None, "quote_problem": problem_of(raised, form.sql)}
    owner = visit.user.has(TokenScope.ADMIN)
    leaves = visit.runtime.leaves_after(visit.user, quoted)
    view = view_quote(quoted, budget, analyst=visit.name, free=free, engine=owner, leaves=leaves)
    return {"quote": view, "quote_problem": None}


def _stops(quoted: dict[str, Any]) -> bool:
    """Whether the query cannot be asked like this."""
    view = quoted["quote"]
    return quoted["quote_problem"] is not None or (view is not None and not view.fits)


def _is_free(visit: PageRequest, wanted: Request) -> bool:
    try:
        visit.service.ask(visit.user, wanted, free=ONLY)
    except TacitError:
        return False
    return True


async def _like(visit: PageRequest, text: str) -> AskForm:
    """The form with a query of the person's own history."""
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise Unknown("page")
    receipt = await visit.run(visit.service.receipt, visit.user, int(text))
    sql = str(receipt["answers"][0]["query"])
    for pay in ("epsilon", "rho"):
        if pay in receipt["charge"]:
            amount = exact_text(Fraction(str(receipt["charge"][pay])))
            # A charge that is no short decimal is not one that was typed.
            return AskForm(sql=sql, pay=pay, amount=amount if "/" not in amount and len(amount) < 30 else "")
    return AskForm(sql=sql)


def _pending(visit: PageRequest, budgets: tuple[Budget, ...], view: QuoteView | None) -> list[Any]:
    """The gauges of the head, hatched by what a query would add."""
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
    known = quoted["quote"] is not None and not quoted["quote"].public
    context = {
        "problem": None,
        "sheet": None,
        "picture": None,
        "note": "",
        "builder": view_builder({}, tables),
        "built": False,
        "curve": await curve_of(visit, form) if known else None,
        **quoted,
        **shown,
    }
    return await visit.page(
        "ask.html",
        status,
        ask=form,
        choices=[OPTIONS[name] for name in _pays(budgets)],
        more=MORE,
        levels=LEVELS,
        tables=[view_table(info, tables) for info in tables],
        words=editor_words(tables),
        budgets=budgets,
        **context,
    )


def _pays(budgets: tuple[Budget, ...]) -> list[str]:
    """Options that state a price for the accounts there are."""
    currencies = {line.currency for each in budgets for line in each.lines}
    rare = {"rho": "rho" in currencies, "mu": "mu squared" in currencies}
    return [word for word in PAYS if rare.get(word, True)]
