"""Every option of a query is known at every door: Python, a remote curator, SQL, HTTP, OpenAPI, console, CLI."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, get_type_hints

import pytest

from support.command_line import run_command
from support.served import COUNT, serve
from support.visiting import Visitor
from tacit.accounting.currencies import CURRENCIES
from tacit.cli.query import request_of
from tacit.client.remote_curator import RemoteCurator
from tacit.client.responses import query_body
from tacit.core.errors import InputError
from tacit.curator.curator import Curator
from tacit.query.parsing.parse import parse
from tacit.query.request import ACCOUNTS, OPTIONS, OptionKind, QueryOption, QueryOptions, Request
from tacit.server.api.request import ask_of, job_back, job_text
from tacit.server.api.routes import ROUTES, description
from tacit.server.console.ask_page import LEVELS, AskForm
from tacit.server.pgwire.variables import SessionVariables, read_option

EVERY = pytest.mark.parametrize("option", OPTIONS.values(), ids=OPTIONS)


def exactly(request: Request, option: QueryOption) -> Any:
    """The value of an option in a request, as an exact number or as exact numbers by name."""
    value = getattr(request, option.name)
    if isinstance(value, dict):
        return {name: option.exact(number) for name, number in value.items()}
    return option.exact(value)


def stating(option: QueryOption) -> Request:
    """A request that states one option."""
    return Request.of(COUNT, {option.name: option.typed([option.example])})


def test_the_table_is_about_all_of_a_request() -> None:
    assert [each.name for each in fields(Request)] == ["sql", *OPTIONS, "account"]
    types, stated = get_type_hints(Request), get_type_hints(QueryOptions)
    assert stated == {name: types[name] for name in OPTIONS}
    assert tuple(CURRENCIES) == ACCOUNTS
    for kind, currency in CURRENCIES.items():
        prices = tuple(name for name, option in OPTIONS.items() if kind in option.accounts)
        assert prices == (*currency.prices, "within")


@EVERY
@pytest.mark.parametrize("method", [Curator.sql, Curator.explain, RemoteCurator.sql, RemoteCurator.explain])
def test_python_shows_it(option: QueryOption, method: Callable[..., Any]) -> None:
    shown = inspect.signature(method).parameters[option.name]
    assert shown.kind is inspect.Parameter.KEYWORD_ONLY
    assert shown.default == getattr(Request(), option.name)
    if method.__name__ == "sql":
        assert f"{option.name}: {option.help}." in (method.__doc__ or "")


def test_python_refuses_what_is_no_option() -> None:
    with pytest.raises(TypeError, match="'epsilonn' is not an option of a query; there are epsilon, delta"):
        Request.of(COUNT, {"epsilonn": 1})
    with pytest.raises(TypeError, match="account"):
        Request.of(COUNT, {"account": "approx"})


@EVERY
def test_the_client_writes_and_the_server_reads_it(option: QueryOption) -> None:
    written = stating(option)
    read = ask_of(query_body(written).encode())
    assert read.sql == COUNT
    assert exactly(read, option) == exactly(written, option)
    again, key = job_back(job_text(read, "key"))
    assert (again, key) == (read, "key"), "a job keeps it"


def test_a_number_may_be_text() -> None:
    read = ask_of(b'{"sql": "SELECT 1", "epsilon": "0.05", "within": {"n": "1e1"}, "confidence": 0.9}')
    assert (read.epsilon, read.within, read.confidence) == ("0.05", {"n": "1e1"}, "0.9")
    for text in ("", "1,5", "-1", "nan", "0x1", "1_0", " 1", "01"):
        with pytest.raises(InputError, match=r"such as 0[.]5 .*, not text"):
            ask_of(json.dumps({"sql": "SELECT 1", "epsilon": text}).encode())


@EVERY
def test_openapi_describes_it(option: QueryOption) -> None:
    properties = description(ROUTES)["components"]["schemas"]["QueryRequest"]["properties"]
    assert properties[option.name]["description"] == option.help
    assert list(properties) == ["sql", *OPTIONS]


#: Accounts of kinds that between them are charged in every currency.
BUDGETS = {
    "patients": {"accounting": "zcdp", "rho": "1"},
    "employees": {"accounting": "gdp", "mu": "1"},
}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The console's page for asking."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TACIT_STATE", str(tmp_path_factory.mktemp("state")))
        served = serve(budgets=BUDGETS)
        visitor = Visitor(served)
        visitor.sign_in("alice")
        yield visitor.get("/console/ask").text
        visitor.close()
        served.close()


@EVERY
def test_the_form_of_the_console_has_it(option: QueryOption, page: str) -> None:
    if option.accounts:
        assert f'<option value="{option.name}"' in page
        form = AskForm.of({"sql": COUNT, "pay": option.name, "amount": option.example})
    else:
        assert f' name="{option.name}"' in page
        form = AskForm.of({"sql": COUNT, option.name: f" {option.example}\n"})
    assert option.label in page
    assert exactly(form.ask(), option) == exactly(stating(option), option)
    assert option.example in dict(LEVELS) or option.name != "confidence"


@EVERY
@pytest.mark.parametrize("command", ["query", "explain", "budget"])
def test_the_command_line_has_it(option: QueryOption, command: str) -> None:
    shown = run_command(command, "--help", env={"COLUMNS": "300", "TERM": "dumb"}).output
    words = " ".join(shown.split())
    assert f"--{option.name.replace('_', '-')}" in words
    assert option.help[1:] in words
    typed = int(option.example) if option.kind is OptionKind.COUNT else [option.example]
    assert request_of({option.name: typed}, COUNT) == stating(option)


@EVERY
def test_the_clause_of_a_query_has_it_or_says_that_it_has_not(option: QueryOption) -> None:
    if not option.clause:
        assert option.name in ("mu", "weights", "suppose")
        return
    sql = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({option.clause} = {option.example}) COUNT(*) FROM visits"
    assert getattr(parse(sql).options, option.name) == option.exact(
        int(option.example) if option.kind is OptionKind.COUNT else option.example
    )


@pytest.mark.parametrize("name", ["max_groups", "max_rows"])
def test_limits_are_auto_at_every_door(name: str) -> None:
    option = OPTIONS[name]
    assert option.typed([" Auto "]) == "auto"
    assert getattr(ask_of(query_body(Request.of(COUNT, {name: "AUTO"})).encode()), name) == "auto"
    assert getattr(AskForm.of({"sql": COUNT, "pay": "epsilon", "amount": "1", name: "AUTO"}).ask(), name) == "auto"
    assert getattr(request_of({name: ["auto"]}, COUNT), name) == "auto"
    assert read_option(name, "AUTO") == "auto"
    session = SessionVariables("alice")
    session.set(f"tacit.{name}", "AUTO")
    assert session.options[name] == "auto"
    with pytest.raises(InputError):
        session.set("tacit.epsilon", "auto")
