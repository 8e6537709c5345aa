"""Pages that only show: tables, history, receipts, budgets, the promise, the ledger."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

from starlette.responses import Response

from tacit.accounting.currencies import currency_of
from tacit.core.guarantees import Guarantee
from tacit.ledger import LedgerError
from tacit.ledger.entries import plain_name
from tacit.releases.accounts import Budget
from tacit.server.console.amounts import as_pair, down, gauges, is_spent, promise, promise_of_change, symbol, up
from tacit.server.console.page_request import PageRequest, whole_number
from tacit.server.console.tables import view_table
from tacit.server.identity import Access, TokenScope


async def show_datasets(visit: PageRequest) -> Response:
    """Show all tables that the person may see, by population, with the budget of each population."""
    tables = await visit.run(visit.service.tables, visit.user)
    budgets = await visit.budgets()
    return await visit.page(
        "datasets.html",
        groups=[
            (gauges(budget, analyst=visit.name), budget.population,
             [view_table(info) for info in tables if info.table.population == budget.population])
            for budget in budgets
        ],
        public=[view_table(info) for info in tables if info.table.public],
        budgets=budgets,
        can_ask=visit.user.has(TokenScope.ASK),
    )  # fmt: skip


async def show_history(visit: PageRequest) -> Response:
    """Show charges, newest first."""
    before = visit.request.query_params.get("before", "")
    everyone, undelivered = _sees_all(visit.user), visit.request.query_params.get("undelivered", "") == "1"
    found = await visit.run(
        visit.service.history,
        visit.user,
        before=whole_number(before) if before else None,
        everyone=everyone,
        undelivered=undelivered,
    )
    return await visit.page(
        "history.html",
        undelivered=undelivered,
        everyone=everyone,
        can_ask=visit.user.has(TokenScope.ASK),
        entries=found.records,
        older=found.next,
    )


async def receipt(visit: PageRequest) -> Response:
    """Download a receipt; ``tacit receipt verify`` and :func:`tacit.verify_receipt` read the file unchanged."""
    position = visit.request.path_params["position"]
    found = await visit.run(visit.service.receipt, visit.user, position)
    return visit.file(found.to_json() + "\n", f"receipt-{position}.json")


async def show_budget(visit: PageRequest) -> Response:
    """Show the remaining budgets, and operators' changes of them."""
    budgets = await visit.budgets()
    seen = {"", *(plain_name(budget.population, "population") for budget in budgets)}
    decided = await visit.run(visit.service.curator.ledger.overrides) if _sees_all(visit.user) else ()
    return await visit.page(
        "budget.html",
        accounts=[(budget, gauges(budget, analyst=visit.name), _terms(budget.guarantee)) for budget in budgets],
        budgets=budgets,
        decided=[each for each in reversed(decided) if each.population in seen],
    )


async def show_guarantee(visit: PageRequest) -> Response:
    """Show the meaning of the budgets for a person in the data."""
    budgets = await visit.budgets()
    populations = [_population(budget) for budget in budgets]
    return await visit.page("guarantee.html", populations=populations, budgets=budgets)


def _sees_all(access: Access) -> bool:
    return access.has(TokenScope.AUDIT) or access.has(TokenScope.ADMIN)


def _population(budget: Budget) -> dict[str, Any]:
    """Describe a budget: its guarantee so far, when fully spent, and for a change of a person's data."""
    epsilon, delta = as_pair(budget.guarantee)
    spent = {line.currency: Fraction(line.spent) for line in budget.lines}
    return {
        "name": budget.population,
        "whole": promise(epsilon, delta),
        "now": promise(*as_pair(currency_of(budget.guarantee).from_amounts(spent))),
        "twice": promise_of_change(budget.guarantee),
        "terms": _terms(budget.guarantee),
    }


def _terms(guarantee: Guarantee) -> str:
    currency = currency_of(guarantee)
    numbers = currency.numbers_of(guarantee)
    if not currency.relaxed:
        stated = " and ".join(f"{symbol(name)} = {down(number)}" for name, number in numbers.items())
        return f"The account keeps {stated} for everything together."
    name, number = next(iter(numbers.items()))
    epsilon, delta = as_pair(guarantee)
    return (
        f"The account keeps {symbol(name)} = {down(number)} of {currency.concept} for everything together, "
        f"which is ε = {up(epsilon)} at δ = {up(delta)}."
    )


_STOPPED: Final = {
    "title": "The ledger has stopped",
    "words": (
        "It cannot be trusted or written: a storage failure, an entry that does not fit, or an old copy put in its "
        "place. No query is answered. The operator's log says what was found; after looking, restart the server "
        "or take the ledger over with “tacit ledger adopt”."
    ),
}


async def show_ledger(visit: PageRequest) -> Response:
    """Show the ledger's state, and alerts."""
    alerts, ledger = await visit.run(_state, visit)
    return await visit.page("ledger.html", alerts=alerts, ledger=ledger)


def _state(visit: PageRequest) -> tuple[list[dict[str, str]], dict[str, Any]]:
    """Return alerts, and the id, position, hash and key of the ledger."""
    ledger = visit.service.curator.ledger
    try:
        head, alerts = ledger.head, _alerts(visit)
        return alerts, {"id": ledger.id, "seq": f"{head.seq:,}", "hash": head.hash, "key": ledger.public_key}
    except LedgerError:
        # A stopped ledger does not even return its public key.
        return [_STOPPED], {"id": ledger.id, "seq": "?", "hash": "", "key": "?"}


def _alerts(visit: PageRequest) -> list[dict[str, str]]:
    """Return an alert for each budget and share that is used up."""
    ledger, found = visit.service.curator.ledger, []
    more = " Give them more on their page, if you want to." if visit.user.has(TokenScope.ADMIN) else ""
    for budget in visit.service.budget(visit.user):
        population = budget.population
        if is_spent(budget.balances[0]):
            words = f"No fresh query about {population} can be answered any more. Repeats stay free."
            found.append({"title": f"The budget of {population} is spent", "words": words})
        for person in visit.people.everyone():
            balance = ledger.budget(population, analyst=person.name).balances[1]
            if balance.limited and person.active and is_spent(balance):
                words = f"They can repeat what was answered, and ask nothing new.{more}"
                found.append({"title": f"{person.name} has used up their share of {population}", "words": words})
    return found
