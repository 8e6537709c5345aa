"""``tacit serve``: run the HTTP API and the console; ``tacit mcp``: let an AI assistant ask, within a share."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import fields
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.common import (
    DEFAULT_PROJECT,
    AnalystOption,
    JsonFlag,
    ProjectOption,
    listening,
    opened,
    print_json,
    reported,
    say,
)
from tacit.core.errors import InputError
from tacit.core.extras import MissingError, install_command, load
from tacit.project.project_template import read_project

if TYPE_CHECKING:
    from tacit.server.serve import Started
    from tacit.server.service import CuratorService


# On one line however narrow the terminal, so that links can be clicked.
_say = partial(say, whole=True)

_DEMO_ANALYST = "alice"
_DEMO_OWNER = "olga"
#: Epsilon that the assistant of the demo may spend.
_DEMO_SHARE = "1"
#: So that trends by month, and other groups that no list names, can be asked for.
_DEMO_DELTA = "1e-6"

#: A model that the demo's owner may have fitted.
_DEMO_MODEL = 'tacit.learn.LinearRegression(epsilon="0.5", delta="1e-7"), "SELECT nights, cost FROM visits"'


def serve(
    project: ProjectOption = DEFAULT_PROJECT,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 for any that is free.")] = 8470,
    postgres: Annotated[
        int | None, typer.Option(help="Port for PostgreSQL clients: psql, drivers, dashboards; 0 for any that is free.")
    ] = None,
    mcp: Annotated[bool, typer.Option("--mcp", help="Serve AI assistants as well, at /mcp.")] = False,
    workers: Annotated[int, typer.Option(help="Number of worker processes.")] = 2,
    tls_cert: Annotated[Path | None, typer.Option(help="The certificate, with its chain (PEM).")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key (PEM), without a passphrase.")] = None,
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="A reverse proxy terminates TLS and forwards client addresses.")
    ] = False,
    proxy: Annotated[
        list[str] | None, typer.Option(help="Address of a trusted reverse proxy; by default this machine.")
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(help="Public address, https://tacit.example.org; for one-time links and identity providers."),
    ] = None,
    response_step: Annotated[
        float,
        typer.Option(
            help="Answers are sent after 1, 2, 4 … times these seconds, which hides how long they took; 0: at once."
        ),
    ] = 0.25,
    log: Annotated[
        str | None, typer.Option(help="File for the access log, a line per request; - for standard error.")
    ] = None,
    limits: Annotated[
        list[str] | None,
        typer.Option(
            "--set", envvar="TACIT_SERVE_SET", help="Another setting, such as asks_per_minute=120 or threads=4."
        ),
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Serve a made-up hospital, to look around.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Serve an HTTP API and a console in the browser, on one shared privacy account.

    The first start prints a link by which the owner signs in. Stop it with Ctrl-C: queries under way are
    finished first.

    Each option may be a variable of the environment instead: --behind-proxy is TACIT_SERVE_BEHIND_PROXY=1.

    tacit serve --demo
    """
    with reported(as_json=as_json), ExitStack() as stack:
        if demo:
            from tacit.project.example_hospital import make_hospital

            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tacit-demo-"))
            project = make_hospital().write(Path(folder), delta=_DEMO_DELTA)
            postgres = 0 if postgres is None else postgres
            mcp = mcp or find_spec("mcp") is not None
        read_project(project)
        words = {
            "host": host,
            "port": port,
            "postgres": postgres,
            "mcp": mcp,
            "workers": workers,
            "tls_cert": None if tls_cert is None else str(tls_cert),
            "tls_key": None if tls_key is None else str(tls_key),
            "behind_proxy": behind_proxy,
            "address": address,
            "response_step": response_step,
        }
        Serving, supervise, settings = _machinery(words, _limits(limits or []))
        stack.enter_context(listening())
        serving = Serving(
            project.absolute(),
            settings,
            log=log if log is not None else None if demo or as_json else "-",
            welcome=_demo_people if demo else _set_up,
            **({"proxies": tuple(proxy)} if proxy else {}),
        )
        tell: Callable[[Started], None] = _tell_json if as_json else _tell_demo if demo else _tell
        status = supervise(serving, started=tell)
    raise typer.Exit(status)


def _limits(said: list[str]) -> dict[str, float]:
    """Parse name=value settings to numbers; the names are checked elsewhere."""
    found: dict[str, float] = {}
    for text in said:
        name, equals, number = text.partition("=")
        try:
            value = float(number)
        except ValueError:
            equals = ""
        if not equals:
            raise InputError("set", f"must be name=number, got {text!r}")
        found[name.strip()] = int(value) if value == int(value) else value
    return found


def _machinery(words: dict[str, Any], limits: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Import the parts of a server, which is an optional extra, because most users query and do not serve."""
    try:
        from tacit.server.serve import Serving, supervise
        from tacit.server.settings import Settings
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] == "tacit":
            raise
        raise MissingError(
            problem.name or "server", f"is not installed; servers need it: {install_command('server')}"
        ) from None
    # Whether a limit is a whole number, and above 0, is said where it is set.
    known = [each.name for each in fields(Settings) if each.name not in words]
    unknown = next((name for name in limits if name not in known), None)
    if unknown is not None:
        raise InputError("set", f"there is no limit {unknown!r}; there are {', '.join(known)}")
    return Serving, supervise, Settings(**words, **limits)


def _set_up(service: CuratorService) -> dict[str, Any]:
    """Return the secret of the set-up link, while there is no owner."""
    secret = service.people.set_up_link()
    return {} if secret is None else {"set_up": secret}


def _demo_people(service: CuratorService) -> dict[str, Any]:
    """Register an owner and an analyst of the demo, and return a link and a token for each."""
    from tacit.server.identity import Role

    people = service.people
    people.add(_DEMO_OWNER, Role.OWNER, operator="demo")
    people.add(_DEMO_ANALYST, Role.ANALYST, operator="demo")
    service.curator.ledger.set_quota("patients", {"epsilon": "2"}, analyst=_DEMO_ANALYST, operator="demo")
    token = people.issue(_DEMO_ANALYST, label="demo", expires=None, operator="demo")
    owned = people.issue(_DEMO_OWNER, label="models", expires=None, operator="demo")
    assistant = people.issue(_DEMO_ANALYST, label="assistant", expires=None, operator="demo", share=_DEMO_SHARE)
    return {
        "owner": people.link(_DEMO_OWNER, operator="demo"),
        "analyst": people.link(_DEMO_ANALYST, operator="demo"),
        "token": token.text,
        "owner_token": owned.text,
        "assistant": assistant.text,
        "public_key": service.curator.public_key,
    }


def _links(started: Started) -> dict[str, str]:
    """Return the links of the welcome message as browser addresses."""
    address = (started.public or started.address).rstrip("/")
    return {
        name: f"{address}/console/link/{secret}" if name in ("set_up", "owner", "analyst") else str(secret)
        for name, secret in started.welcome.items()
    }


def _tell_json(started: Started) -> None:
    about = {"address": started.address, **_links(started)}
    if started.postgres is not None:
        about["postgres"] = "{}:{}".format(*started.postgres)
    print_json(about)


def _tell(started: Started) -> None:
    _say(f"Tacit serves at {started.address}/console/  (API: {started.address}/v1/openapi.json)")
    if started.postgres is not None:
        _say("PostgreSQL clients connect to host={} port={}".format(*started.postgres))
    links = _links(started)
    if "set_up" in links:
        from tacit.server.identity.credentials import SET_UP_WORDS

        _say(f"There is no owner yet. Open this link once, within {SET_UP_WORDS}, to become the owner:")
        _say(f"    {links['set_up']}")
    _say("Stop with Ctrl-C.")


def _tell_demo(started: Started) -> None:
    links = _links(started)
    about = "A made-up hospital is open: 12,000 patients, and a budget of epsilon 3 and delta 1e-6 for all of them."
    _say(f"\n{about}\n")
    _say(f"  As its owner, {_DEMO_OWNER}:      {links['owner']}")
    _say(f"  As an analyst, {_DEMO_ANALYST}:    {links['analyst']}\n")
    needs = "" if find_spec("httpx2") is not None else f", after {install_command('client')}"
    _say(f"Each link signs you in, once. Or ask from Python{needs}:\n")
    # Each demo has a key of its own: without it, the second demo on a port would be taken for an impostor.
    key = f'public_key="{links["public_key"]}"'
    _say(f'  remote = tacit.connect("{started.address}", token="{links["token"]}", {key})')
    _say('  print(remote.sql("SELECT ward, COUNT(*) AS visits FROM visits GROUP BY ward", epsilon="0.5"))\n')
    if started.postgres is not None:
        host, port = started.postgres
        _say("Or with psql, or any tool that speaks to PostgreSQL, with the token as the password:\n")
        _say(f"  PGPASSWORD={links['token']} PGOPTIONS='-c tacit.epsilon=0.1' \\")
        _say(f"  psql -h {host} -p {port} -U {_DEMO_ANALYST} -d hospital\n")
        _say("A dashboard or a notebook takes an address; the cost of each of its queries is in it:\n")
        options = "?options=-ctacit.epsilon%3D0.1"
        _say(f"  postgresql://{_DEMO_ANALYST}:{links['token']}@{host}:{port}/hospital{options}\n")
    learns = "" if find_spec("sklearn") is not None else f" (after {install_command('learn')})"
    _say(f"The owner's token also fits models{learns}, which everyone then uses free:\n")
    _say(f'  owner = tacit.connect("{started.address}", token="{links["owner_token"]}", {key})')
    _say(f"  fitted = owner.fit({_DEMO_MODEL})\n")
    if find_spec("mcp") is not None:
        _say(f"An AI assistant takes this, with a token that can spend epsilon {_DEMO_SHARE} in all:\n")
        headers = {"Authorization": f"Bearer {links['assistant']}"}
        server = {"type": "http", "url": f"{started.address}/mcp", "headers": headers}
        _say(f"  {json.dumps({'mcpServers': {'hospital': server}})}\n")
    else:
        _say(f"AI assistants can ask as well, after {install_command('mcp')}\n")
    _say("Everything is forgotten when you stop it with Ctrl-C.")


def mcp(
    project: Annotated[Path, typer.Argument(help="The project file.")] = DEFAULT_PROJECT,
    epsilon: Annotated[
        str | None,
        typer.Option(help="Most epsilon of each budget that the conversation may spend."),
    ] = None,
    conversation: Annotated[
        str, typer.Option(help="Name of the conversation; the same name continues with the same share.")
    ] = "assistant",
    analyst: AnalystOption = None,
) -> None:
    """Serve tools to an AI assistant on standard input and output (Model Context Protocol).

    The assistant can list tables, get quotes, ask, and read budget and history. It can spend at most --epsilon. The
    ledger keeps that share under the name of the conversation: starting the command again does not renew it, and
    nothing that the assistant writes changes it. For another share, name another conversation.

    tacit mcp tacit.toml --epsilon 1 --conversation lungs
    """
    with reported("project"):
        load("mcp", "mcp", "assistants")
        if epsilon is None:
            raise InputError("epsilon", "say how much the conversation may spend in all: --epsilon 1")
        from tacit.curator.curator import Conversation
        from tacit.server.mcp.endpoint import serve_curator
        from tacit.server.mcp.tools import CuratorDoor

        with opened(project, analyst=analyst) as curator:
            serve_curator(CuratorDoor(curator, Conversation.stated(conversation, epsilon)))
