"""Pages for asking: query, quote and answer, and files of answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from markupsafe import Markup
from starlette.responses import Response

from tacit.core.errors import InputError, TacitError
from tacit.core.numbers import exact_text, float_nearest
from tacit.core.text_files import csv_text, table_bytes
from tacit.query.request import OPTIONS, QueryOption, Request
from tacit.releases.accounts import Budget
from tacit.releases.answer import Answer
from tacit.releases.plans import Quote
from tacit.releases.release import MEDIA_TYPES, TABLE_FORMS
from tacit.server.console.amounts import amounts_text, charge_of, charge_text, gauges, symbol, up
from tacit.server.console.charts import (
    CATEGORY,
    Drawing,
    draw_panels,
    drawing_of,
    sheet_of,
)
from tacit.server.console.page_request import PageProblem, PageRequest, problem_of, whole_number
from tacit.server.console.tables import editor_words, view_table
from tacit.server.errors import Unknown
from tacit.server.identity import TokenScope
from tacit.server.service import ONLY

#: Options that state a cost or an accuracy; the form asks for one of them.
PAYS: Final = sorted(
    (name for name, option in OPTIONS.items() if option.accounts), key=lambda name: -len(OPTIONS[name].accounts)
)
#: Options that are rarely stated.
MORE: Final = [option for option in OPTIONS.values() if not option.accounts and option.name != "confidence"]
LEVELS: Final = (("0.5", "50%"), ("0.8", "80%"), ("0.9", "90%"), ("0.95", "95%"), ("0.99", "99%"), ("0.999", "99.9%"))
#: Maximum number of errors shown next to the cost.
_BRIEFLY: Final = 3
#: Maximum characters of a query in the text field.
_MOST_SQL: Final = 20_000
#: Media types of answer files, by the format in the URL.
_FORMS: Final = {form: MEDIA_TYPES[form] for form in (*TABLE_FORMS, "ipynb")} | {
    "tsv": "text/tab-separated-values; charset=utf-8"
}
_NOT_BY_PLACE: Final = PageProblem(
    "This answer cannot be shown by its place alone",
    "More was asked for than its text says, such as weights or fewer groups.",
    "Ask it again in the same way: that is free.",
    status=200,
)


@dataclass(frozen=True)
class AskForm:
    """Fields of the query form, as text.

    Args:
        pay: name of the option that states the cost or the accuracy.
        amount: its value.
        said: other options by name; see :data:`MORE`.
    """

    sql: str = ""
    pay: str = "epsilon"
    amount: str = ""
    confidence: str = "0.95"
    said: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> AskForm:
        """Read the form from submitted fields; a missing field keeps its default."""
        sent = {name: text.strip(" \t\n") for name, text in fields.items()}
        own = {name: sent[name] for name in ("sql", "pay", "amount", "confidence") if name in sent}
        return cls(**own, said={option.name: text for option in MORE if (text := sent.get(option.name, ""))})

    def fields(self) -> dict[str, str]:
        """Return the fields as submitted, to submit them again."""
        own = {"sql": self.sql, "pay": self.pay, "amount": self.amount, "confidence": self.confidence}
        return own | dict(self.said)

    def ask(self) -> Request:
        """Return the request that the form states.

        Raises:
            InputError: a field is missing or is not a number.
        """
        if not self.sql:
            raise InputError("sql", "write a query")
        if self.pay not in PAYS:
            raise InputError("pay", f"must be one of {', '.join(PAYS)}")
        options = {name: _typed(OPTIONS[name], text) for name, text in self.said.items()}
        if self.amount:
            options[self.pay] = _typed(OPTIONS[self.pay], self.amount)
        return Request.of(self.sql, {"confidence": self.confidence, **options})


def _typed(option: QueryOption, text: str) -> Any:
    """Return the value of a field; several names are separated by commas."""
    return option.typed(text.split(",") if option.named else [text])


# Quotes ---------------------------------------------------------------------------------------------------------------


def view_quote(
    quote: Quote,
    budget: Budget | None,
    *,
    analyst: str,
    free: bool = False,
    engine: bool = False,
    response_time: float = 0.0,
) -> dict[str, Any]:
    """Return a quote as template context, combined with the budget that would remain.

    Args:
        quote: the quote.
        budget: of its population, with the number of such queries that fit; None for public tables alone.
        analyst: person who would ask.
        free: whether the answer exists already.
        engine: whether to show the database's SQL, which names where the data is kept.
        response_time: seconds until its answer is sent; 0 if that is not decided.
    """
    it, charge = quote.explanation, {}
    if budget is not None and not free:
        charge = charge_of(quote.guarantee)
    shown = () if budget is None else gauges(budget, charge=charge, analyst=analyst)
    fits = all(gauge.fits for gauge in shown)
    typed = quote.typed.replace("epsilon", "ε")
    main = {name: amount for name, amount in charge.items() if name != "delta" and amount}
    price = (typed or amounts_text(main) or "Nothing") if charge else "Free"
    delta = f"and δ {up(charge['delta'])}" if charge.get("delta") else ""
    after = ""
    if budget is None:
        after = "Public tables alone: the answer is exact, and nothing is charged."
    elif free:
        after = "It was answered before, so asking it again costs nothing."
    elif not fits:
        after = "That is more than is left."
    elif budget.queries is not None:
        more = "this one is the last that fits" if budget.queries == 1 else f"{budget.queries:,} like this still fit"
        after = f"Of what is left, {more}."
    level = f"{float_nearest(100 * Fraction(it.confidence)):.6g}%"
    errors = ", ".join(
        f"{each.label} {each.meaning.replace('within ', '± ', 1)}" for each in it.errors[:_BRIEFLY] if each.bound
    )
    briefly = f"{errors}, {level} of the time" if errors else after
    expected = "; ".join(f"{each.label} {each.meaning}" for each in it.errors)
    return {
        "it": it,
        "price": price,
        "after": after,
        "fits": fits,
        "free": free,
        "side": f"({amounts_text(charge)})" if typed and charge else delta,
        "gauges": [gauge for gauge in shown if gauge.letter != symbol("delta") or not gauge.fits],
        "confidence": level,
        "briefly": f"Answered before: free. {errors}".strip() if free else briefly,
        "said": f"Cost {price}. {after}" + (f" Expected error: {expected}." if expected and budget else ""),
        "sent": f"Its answer is sent after {response_time:g} s, whatever the data." if response_time and charge else "",
        "engine_sql": (it.engine_sql or "") if engine else "",
    }


async def _quote(visit: PageRequest, form: AskForm) -> dict[str, Any]:
    """Return the quote of the query in a form and its problems, as template context."""
    if not form.sql:
        return {"quote": None, "quote_problem": None}
    try:
        wanted = form.ask()
        quoted = await visit.runtime.quote(visit.user, wanted)
        if quoted.is_public:
            return {"quote": view_quote(quoted, None, analyst=visit.name), "quote_problem": None}
        budget = (await visit.run(visit.service.budget, visit.user, quote=quoted))[0]
        free = await visit.run(_is_free, visit, wanted)
    except TacitError as raised:
        return {"quote": None, "quote_problem": problem_of(raised)}
    owner = visit.user.has(TokenScope.ADMIN)
    seconds = visit.runtime.response_time(visit.user, quoted)
    view = view_quote(quoted, budget, analyst=visit.name, free=free, engine=owner, response_time=seconds)
    return {"quote": view, "quote_problem": None}


def _is_free(visit: PageRequest, wanted: Request) -> bool:
    try:
        visit.service.ask(visit.user, wanted, free=ONLY)
    except TacitError:
        return False
    return True


def _quote_parts(visit: PageRequest, quoted: dict[str, Any]) -> dict[str, str]:
    """Render a quote into the parts of the page: details, cost, and problems below the text."""
    return {name: visit.render(f"part_{name}.html", **quoted) for name in ("quote", "price", "trouble")}


def _stops(quoted: dict[str, Any]) -> bool:
    """Whether the query cannot be asked as it is."""
    view = quoted["quote"]
    return quoted["quote_problem"] is not None or (view is not None and not view["fits"])


# Asking ---------------------------------------------------------------------------------------------------------------


async def show_ask(visit: PageRequest) -> Response:
    """Show an empty query page, or a query of the history or of a link with its quote; nothing is asked."""
    said = visit.request.query_params
    form, note = AskForm(amount="0.1"), ""
    if like := said.get("like", ""):
        form = await _like(visit, like)
    elif said.get("sql"):
        form, note = _linked(said), "This query came with a link. Nothing is asked before you press Ask."
    return await _bench(visit, form, note=note)


def _linked(said: Mapping[str, str]) -> AskForm:
    """Return the form that a link fills in: ``sql``, a cost by its option name, and other options."""
    pay = next((name for name in PAYS if name in said), "epsilon")
    sent = {"sql": said["sql"][:_MOST_SQL], "pay": pay, "amount": said.get(pay, "0.1")}
    names = ["confidence", *(option.name for option in MORE)]
    return AskForm.of(sent | {name: said[name] for name in names if name in said})


async def _like(visit: PageRequest, text: str) -> AskForm:
    """Return the form with a query from the person's own history."""
    receipt = await visit.run(visit.service.receipt, visit.user, whole_number(text))
    sql = str(receipt["answers"][0]["query"])
    for pay in ("epsilon", "rho"):
        if pay in receipt["charge"]:
            amount = exact_text(Fraction(str(receipt["charge"][pay])))
            # A charge that is not a short decimal was not typed.
            return AskForm(sql=sql, pay=pay, amount=amount if "/" not in amount and len(amount) < 30 else "")
    return AskForm(sql=sql)


async def quote(visit: PageRequest) -> Response:
    """Quote the query in the form. Free."""
    form = AskForm.of(visit.form)
    quoted = await _quote(visit, form)
    if not visit.partly:
        return await _bench(visit, form, quoted)
    return await visit.parts(stopped=_stops(quoted), **_quote_parts(visit, quoted))


async def ask(visit: PageRequest) -> Response:
    """Ask the query in the form, and show the answer."""
    form = AskForm.of(visit.form)
    shown: dict[str, Any] = {"problem": None, "sheet": None}
    status, problem = 200, None
    try:
        shown |= await answered(visit, await visit.runtime.ask(visit.user, form.ask()), form)
    except TacitError as raised:
        problem = problem_of(raised)
        status = problem.status
        if problem.code == "auth":
            visit.access = None
            return await visit.failed(problem, kept=form.sql)
    quoted = await _quote(visit, form)
    # Shown once: below the query, where it can be corrected, if the quote has the same problem.
    shown["problem"] = None if problem == quoted["quote_problem"] else problem
    if not visit.partly:
        return await _bench(visit, form, quoted, status=status, **shown)
    gauges = visit.head_gauges(await visit.budgets())
    return await visit.parts(
        status,
        shown["problem"],
        stopped=_stops(quoted),
        result=visit.render("part_result.html", **shown),
        **_quote_parts(visit, quoted),
        budgets=visit.render("part_budgets.html", head_gauges=gauges),
    )


async def deliver(visit: PageRequest) -> Response:
    """Run a query of the history that was charged but never answered, and show the answer."""
    position = whole_number(visit.form.get("position", ""))
    await visit.runtime.deliver(visit.user, position)
    return visit.redirect(f"/console/answers/{position}")


async def _bench(
    visit: PageRequest, form: AskForm, quoted: dict[str, Any] | None = None, *, status: int = 200, **shown: Any
) -> Response:
    quoted = await _quote(visit, form) if quoted is None else quoted
    tables = await visit.run(visit.service.tables, visit.user)
    budgets = await visit.budgets()
    currencies = {line.currency for each in budgets for line in each.lines}
    rare = {"rho": "rho" in currencies, "mu": "mu squared" in currencies}
    usual = {
        "problem": None,
        "sheet": None,
        "picture": None,
        "note": "",
    }
    return await visit.page(
        "ask.html",
        status,
        ask=form,
        choices=[OPTIONS[name] for name in PAYS if rare.get(name, True)],
        more=MORE,
        levels=LEVELS,
        tables=[view_table(info) for info in tables],
        words=editor_words(tables),
        budgets=budgets,
        **usual | quoted | shown,
    )


# Answers --------------------------------------------------------------------------------------------------------------


async def answer_page(visit: PageRequest) -> Response:
    """Show an earlier answer, by its position in the history."""
    position = visit.request.path_params["position"]
    try:
        answer = await visit.run(visit.service.answer_again, visit.user, position)
    except Unknown:
        # The receipt exists; only the options with which the query was asked are not known from its position.
        receipt = await visit.run(visit.service.receipt, visit.user, position)
        sql = "\n\n".join(str(each.get("query") or each.get("name", "")) for each in receipt["answers"])
        return await visit.page(
            "answer.html", sql=sql, problem=_NOT_BY_PLACE, result={"position": position}, sheet=None
        )
    shown = await answered(visit, answer)
    return await visit.page("answer.html", sql=answer.charge.sql, problem=None, **shown)


async def answered(visit: PageRequest, answer: Answer, form: AskForm | None = None) -> dict[str, Any]:
    """Return the template context of an answer: with the query form, or without one if from the history."""
    fields = {} if form is None else form.fields()
    result = {"public": answer.is_public, "csrf": visit.user.csrf, "fields": fields, "receipt": "", "left": ""}
    sheet = await visit.run(sheet_of, answer)
    if answer.is_public:
        return {"sheet": sheet, "picture": None, "result": {**result, "words": answer.note}}
    charge = answer.charge
    budget = await visit.run(visit.service.curator.budget, answer, analyst=visit.name)
    if fields:
        fields["release"] = visit.service.release_code(visit.user, answer)
    try:
        await visit.run(visit.service.receipt, visit.user, charge.number)
    except Unknown:
        # An answer that others paid for has no position in this person's history.
        result["receipt"] = answer.paid[1].to_json()
    return {
        "sheet": sheet,
        "picture": await visit.run(lambda: _picture(drawing_of(answer), len(answer))),
        "result": {
            **result,
            "repeated": charge.repeated,
            "charged": charge_text({each.currency: each.amount for each in charge.amounts}, charge.typed),
            "words": _words(answer, again=form is None),
            "position": charge.number,
            "left": str(budget),
        },
    }


def _words(answer: Answer, *, again: bool) -> str:
    found = f" {answer.found_text()}".rstrip()
    if again:
        start = "Released before, and shown again, free."
    elif answer.charge.repeated:
        start = "This query was answered before, so it cost nothing: the same answer, to the last digit."
    else:
        start = f"Charged to {answer.charge.population} before any data was read. Asked again, it is free."
    lost = "Clipping and truncation bias is not in the intervals." if answer.bias is None else str(answer.bias)
    return f"{start}{found} {lost}".rstrip()


def _picture(drawing: Drawing | None, rows: int) -> tuple[list[Markup], str] | None:
    """Return charts and their caption; None if there is nothing to draw."""
    if drawing is None:
        return None
    shape = "Bars show the values of the table, lines on them"
    if drawing.axis != CATEGORY:
        shape = "The line shows the values of the table, the band"
    words = [f"{shape} their {drawing.confidence} intervals, each for itself."]
    if drawing.marked:
        words.append("A ring marks a value whose bias may exceed its interval.")
    if drawing.shown < rows:
        words.append(f"{drawing.shown:,} of {rows:,} rows are drawn.")
    return draw_panels(drawing), " ".join(words)


async def answer_file(visit: PageRequest) -> Response:
    """Return the answer at a position of the history as a file."""
    position = visit.request.path_params["position"]
    answer = await visit.run(visit.service.answer_again, visit.user, position)
    return await _file(visit, answer, f"answer-{position}")


async def asked_file(visit: PageRequest) -> Response:
    """Return the answer to the query in a form as a file, if it was released before, so that nothing is charged."""
    known = visit.form.get("release", "") or ONLY
    answer = await visit.run(visit.service.ask, visit.user, AskForm.of(visit.form).ask(), free=known)
    return await _file(visit, answer, "answer")


async def _file(visit: PageRequest, answer: Answer, name: str) -> Response:
    form = str(visit.request.path_params["form"])
    if form not in _FORMS:
        raise Unknown("page")

    def content() -> bytes:
        if form == "ipynb":
            return answer.to_notebook()
        table = answer.intervals()
        if form != "tsv":
            return table_bytes(table, form)
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        return csv_text(table.column_names, rows, separator="\t").encode("utf-8", "replace")

    return visit.file(await visit.run(content), f"{name}.{form}", _FORMS[form])
