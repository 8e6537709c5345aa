"""MkDocs hook: reference pages made from the code when the site is built, so that they cannot be out of date.

========================== ==========================================================================================
page                       made from
========================== ==========================================================================================
reference/api/             the public names of ``tacit`` and of its public rooms, one page per room
reference/command-line.md  the commands and options of ``tacit``
reference/project-file.md  the models that read a project file, with the words of :data:`PROJECT_KEYS`
reference/http.md          the OpenAPI description that a server sends
reference/errors.md        the tree of errors with HTTP status, SQLSTATE and exit code
proofs/                    every ``*.proof.md`` beside the code
changelog.md               CHANGELOG.md
course/                    chapters have their exercises from ``tacit.course``
========================== ==========================================================================================
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "tacit"

#: Weight in the search by the beginning of a path; every other page is a guide.
SEARCH = (("changelog", 0.01), ("proofs/", 0.05), ("reference/", 0.1), ("design-notes", 0.2), ("architecture", 0.3))

#: Pages that are tables.
WIDE = ("from-the-lecture-to-the-call.md", "what-can-be-asked.md")

#: Public rooms, whose names are documented after those of the package itself.
ROOMS = (
    "lab",
    "laws",
    "learn",
    "local",
    "attacks",
    "audit",
)

#: Meaning of each key of a project file, by the path of its table. A test compares the keys with the models.
PROJECT_KEYS: Mapping[str, Mapping[str, str]] = {
    "project": {
        "name": "name of the project, which receipts repeat",
        "engine": 'where the data lives: `"duckdb"`, `"postgresql://…"` or `"sc://…"`; `${NAME}` reads the environment',
        "ledger": "the ledger: a file beside the project file, or the address of a PostgreSQL",
        "anchor": "a file outside of the ledger that remembers its newest entry, so that an old copy is noticed",
        "key": "the file of the signing key",
    },
    "limits": {
        "seconds": "longest run of one query",
        "memory": 'largest memory of one query, such as `"4GB"`',
        "threads": "threads of one query",
        "spill": "folder for intermediate results that exceed the memory",
    },
    "populations.NAME": {
        "epsilon": "the budget of each person, in pure and approx accounts and as a cap of zcdp and gdp ones",
        "delta": "the probability that belongs to it",
        "rho": "the budget in zCDP, instead of epsilon",
        "mu": "the budget in Gaussian DP, instead of epsilon",
        "accounting": "`pure`, `approx`, `zcdp` or `gdp`: how charges add up",
        "relation": "`add_remove` or `replace_one`: which databases are neighbours",
        "query_delta": "delta of a query that needs one and states none; by default a hundredth of the budget's",
        "policy": "what the owner allows within the budget; the table below",
    },
    "populations.NAME.policy": {
        "per_query": "the most epsilon that one query may cost",
        "per_analyst": "the most epsilon that one analyst may spend, fixed with their first charge",
        "per_version": "the most epsilon that all charges in one `version` may amount to",
        "version": "a word for the data as they are, or for a period; another word begins another one",
        "warn_at": "per cent of a budget or a share from which a warning is shown",
    },
    "server.oidc.NAME": {
        "issuer": "address of the identity provider",
        "client_id": "what the provider calls this server",
        "client_secret": "where the secret is: `env:NAME` or `file:/run/secrets/name`, never the secret itself",
        "name_claim": "the claim with a person's name; may be a path such as `realm_access.name`",
        "groups_claim": "the claim that lists a person's groups; may be a path",
        "scopes": "the scopes that are asked for",
        "groups": "by group of the provider, the first that a person is in decides; the table below",
    },
    "server.oidc.NAME.groups.NAME": {
        "role": "`owner`, `analyst` or `auditor`",
        "populations": "the populations that the group may see; without it all of them",
    },
    "tables.NAME": {
        "source": "a file, a folder of files, a table of the database",
        "version": "a word to change when answers about a database table are to be bought anew",
        "delimiter": "sign between the fields of a CSV file; by default a comma, in `.tsv` files a tab",
        "encoding": "of a CSV file: `utf-8`, or one with one byte per letter",
        "decimal_mark": "sign before the fraction of numbers in a CSV file; by default a point",
        "thousands_mark": "sign between groups of three digits in a CSV file; by default none",
        "date_format": "form of the dates of a CSV file, such as `%d.%m.%Y`; by default `2024-01-31`",
        "null_values": 'further texts of a CSV file that stand for no value, such as `["n/a", "-"]`',
        "schema": "the word that queries may write before the name of the table",
        "public": "whether the table has no people in it, and is read without a charge",
        "population": "whose budget pays",
        "unit": 'the column that says whose row it is, or `"row"`',
        "max_groups": "groups of a unit that count in one query, or `auto`",
        "max_rows": "rows of a unit that count in one group, or `auto`",
        "unit_rows": "rows of a unit that may enter a join which multiplies them",
        "table_rows": "most rows of the table, made known by its owner; response times follow from it",
        "text_length": "most characters of most of its texts, likewise",
        "max_groups_limit": "largest `max_groups` that a query may state",
        "max_rows_limit": "largest `max_rows` that a query may state",
        "columns": "declarations about columns",
    },
    "tables.NAME.columns.NAME": {
        "source": "name of the column in the source, where queries call it otherwise",
        "date_format": "form of a date or timestamp in a CSV file, such as `%d.%m.%Y %H:%M`",
        "type": "`integer`, `decimal`, `double`, `text`, `boolean`, `date`, `timestamp`; by default that of the source",
        "bounds": "smallest and largest value that counts; values outside are moved to the nearer bound",
        "step": "step to which values are rounded before they are added up",
        "categories": "all values that are public as group keys",
        "null_category": "whether NULL is one of them",
        "nullable": "whether values may be NULL",
        "unique": "whether no value occurs twice",
        "references": "`table.column` of a foreign key, by which a row reaches its unit",
    },
}


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages to those of the folder."""
    from mkdocs.structure.files import File

    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    mark = (SOURCE / "server" / "console" / "static" / "mark.svg").read_text(encoding="utf-8")
    files.append(File.generated(config, "mark.svg", content=mark))
    files.append(File.generated(config, "logo.svg", content=re.sub(r"#[0-9a-fA-F]{6}", "#ffffff", mark)))
    return files


def on_config(config: Any) -> Any:
    """Link to the repository that the site is built from, where it is known."""
    address = repository()
    if address:
        config.repo_url, config.repo_name = address, address.partition("://")[2].partition("/")[2]
    return config


def repository() -> str:
    """Address of the repository: as stated, of GitHub's machine, or of the clone's origin."""
    if "GITHUB_REPOSITORY" in os.environ:
        known = f"{os.environ['GITHUB_SERVER_URL']}/{os.environ['GITHUB_REPOSITORY']}"
    else:
        settings = ROOT / ".git" / "config"
        origin = re.search(r'\[remote "origin"\]\s+url = (\S+)', settings.read_text() if settings.is_file() else "")
        known = origin[1] if origin else ""
    known = os.environ.get("TACIT_REPOSITORY", "") or re.sub(r"^git@([^:]+):", r"https://\1/", known)
    return known.removesuffix("/").removesuffix(".git") if known.startswith("https://") else ""


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rank a page in the search, give wide tables the whole page, and hide what only tests read."""
    path = page.file.src_uri
    boost = next((number for start, number in SEARCH if path.startswith(start)), 2)
    page.meta.setdefault("search", {"boost": boost})
    if path in WIDE:
        page.meta.setdefault("hide", ["navigation", "toc"])
    return re.sub(r"  # doctest: [+A-Z_, ]+$", "", markdown, flags=re.MULTILINE) + "\n".join(exercises(path))


def exercises(path: str) -> Iterator[str]:
    """The exercises of a chapter of the course, which stand at the end of its page."""
    from tacit.course import CHAPTERS, exercises_of

    for chapter, (_, name) in enumerate(CHAPTERS, 1):
        for exercise in exercises_of(chapter) if path == f"course/{name}" else ():
            query, *options = exercise.question.splitlines()
            yield f"\n* **{exercise.number}** {query}\n"
            yield from (f"    * {option}" for option in options)


def pages() -> dict[str, str]:
    """All generated pages by their path."""
    makers: dict[str, Callable[[], Iterator[str]]] = {
        "reference/command-line.md": command_line,
        "reference/project-file.md": project_file,
        "reference/http.md": http,
        "reference/errors.md": errors,
        "proofs/index.md": proof_index,
        "changelog.md": changelog,
    }
    made = {path: "\n".join(maker()) + "\n" for path, maker in makers.items()}
    made |= {f"proofs/{_proof_page(path)}": _proof(path) for path in _proofs()}
    return made | {f"reference/api/{name}.md": text for name, text in api().items()}


def api() -> dict[str, str]:
    """One page per room, with signatures and docstrings, and a list of all names."""
    import tacit

    rooms: dict[str, dict[str, object]] = {}
    for name in set(tacit.__all__) - {"__version__"}:
        value = getattr(tacit, name)
        if not inspect.ismodule(value):
            rooms.setdefault(_home(value), {})[f"tacit.{name}"] = value
    for room in ROOMS:
        module = getattr(tacit, room)
        rooms.setdefault(room, {}).update({f"tacit.{room}.{name}": getattr(module, name) for name in module.__all__})
    index = [
        "# Python API\n",
        (
            "Every public name, by room. Privacy parameters are keyword-only and exact: the text `0.1`, "
            "`Fraction(1, 10)` and the float 0.1 all mean one tenth. There is no default epsilon. A mechanism "
            "states its `guarantee`, its `event` (what it did, for accountants) and its `error`; `for_error` makes the "
            "mechanism that has the error wanted.\n"
        ),
        "| name | |\n|---|---|",
    ]
    made = {}
    for room, names in sorted(rooms.items()):
        module = inspect.getmodule(next(iter(names.values())))
        lines = [f"# tacit.{room}\n", f"{_first_line(getattr(tacit, room, module))}\n"]
        for name, value in sorted(names.items(), key=lambda item: item[0].lower()):
            lines += _documented(name, value)
            anchor = name.replace(".", "").lower()
            index.append(f"| [`{name}`]({room}.md#{anchor}) | {_first_line(value)} |".replace("||", "\\|\\|"))
        made[room] = "\n".join(lines) + "\n"
    return made | {"index": "\n".join(index) + "\n"}


def _home(value: object) -> str:
    """Room in which a name of the package is defined."""
    module = getattr(value, "__module__", "") or "tacit.core"
    return module.split(".")[1] if module.startswith("tacit.") else "core"


def _documented(name: str, value: object) -> Iterator[str]:
    yield f"### `{name}`\n"
    shown = _signature(value)
    if shown:
        yield f"```python\n{name}{shown}\n```\n"
    if callable(value) or inspect.isclass(value):
        yield f"```text\n{inspect.getdoc(value) or ''}\n```\n"
    if inspect.isclass(value):
        methods = [
            (method, member)
            for method, member in sorted(vars(value).items())
            if not method.startswith("_") and (callable(member) or isinstance(member, (property, classmethod)))
        ]
        if methods:
            yield '??? note "Members"\n\n    | member | |\n    |---|---|'
            for method, member in methods:
                words = (inspect.getdoc(member) or "").partition("\n")[0].replace("|", "\\|")
                yield f"    | `{method}` | {words} |"
            yield ""


def _signature(value: object) -> str:
    try:
        return str(inspect.signature(value)).replace("'", "") if callable(value) else ""
    except (TypeError, ValueError):
        return ""


def _first_line(value: object) -> str:
    return (inspect.getdoc(value) or "").partition("\n")[0]


def command_line() -> Iterator[str]:
    """Commands with their arguments and options."""
    from typer.main import get_command

    from tacit import cli

    yield "# CLI\n"
    yield "`tacit COMMAND --help` says the same in a terminal. Exit codes are under [errors](errors.md).\n"
    yield from _commands(get_command(cli.command_line()), ("tacit",))


def _commands(command: Any, path: tuple[str, ...]) -> Iterator[str]:
    if hasattr(command, "commands"):
        for name in sorted(command.commands):
            yield from _commands(command.commands[name], (*path, name))
        return
    yield f"## `{' '.join(path)}`\n"
    yield f"{inspect.cleandoc(command.help or '')}\n"
    yield '??? note "Arguments and options"\n\n    | | |\n    |---|---|'
    for parameter in command.params:
        names = ", ".join(f"`{each}`" for each in parameter.opts) if parameter.opts else f"`{parameter.name}`"
        words = " ".join((getattr(parameter, "help", "") or "").split()).replace("|", "\\|")
        yield f"    | {names} | {words} |"
    yield ""


def project_file() -> Iterator[str]:
    """Keys of a project file with type, default and meaning."""
    yield "# Project file\n"
    yield "A TOML file, `tacit.toml` by default; `tacit init` writes a commented one. Unknown keys are refused.\n"
    for table, fields in project_models().items():
        yield f"## `[{table}]`\n\n| key | type | default | meaning |\n|---|---|---|---|"
        for key, (kind, default) in fields.items():
            yield f"| `{key}` | {kind} | {default} | {PROJECT_KEYS[table][key]} |"
        yield ""


def project_models() -> dict[str, dict[str, tuple[str, str]]]:
    """Type and default of each key, by the path of its table, as the models have them."""
    from tacit.project import project_file as models

    found = {
        "project": models.ProjectModel.model_fields["project"].annotation,
        "limits": models.LimitsModel,
        "populations.NAME": models.PopulationModel,
        "populations.NAME.policy": models.PolicyModel,
        "server.oidc.NAME": models.OpenIDModel,
        "server.oidc.NAME.groups.NAME": models.GroupModel,
        "tables.NAME": models.TableModel,
        "tables.NAME.columns.NAME": models.ColumnModel,
    }
    return {
        table: {
            field.alias or name: (_kind(field.annotation), _default(field))
            for name, field in model.model_fields.items()
        }
        for table, model in found.items()
    }


def _kind(annotation: Any) -> str:
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    text = re.sub(r"\b(typing|tacit|fractions|pydantic|decimal|datetime)(\.\w+)*\.", "", text)
    return "`" + text.replace("|", "or") + "`"


def _default(field: Any) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    return "none" if value is None or value == {} else f"`{value}`"


def http() -> Iterator[str]:
    """Endpoints with parameters, bodies and statuses, from the OpenAPI description; settings with their defaults."""
    from tacit.server.settings import Settings

    document = openapi()
    yield "# HTTP API\n"
    yield "A server sends this description as OpenAPI at `/v1/openapi.json`.\n"
    for path, methods in sorted(document["paths"].items()):
        for method, operation in methods.items():
            yield f"## `{method.upper()} {path}`\n"
            yield f"{operation.get('summary', '')}\n\n{operation.get('description', '')}\n"
            yield '??? note "Parameters and responses"\n'
            for parameter in operation.get("parameters", ()):
                yield f"    * `{parameter['name']}` ({parameter['in']}): {parameter.get('description', '')}"
            for name, body in (("body", operation.get("requestBody")),):
                if body:
                    yield f"    * {name}: {', '.join(_shapes(body))}"
            for status, response in sorted(operation["responses"].items()):
                yield f"    * {status}: {response['description']} {' '.join(_shapes(response))}"
            yield ""
    yield "## Settings\n\nState them with `tacit serve --set NAME=VALUE`.\n\n| name | default | |\n|---|---|---|"
    meanings = re.findall(r"^    (\w+): (.+(?:\n     +.+)*)", inspect.getdoc(Settings) or "", flags=re.MULTILINE)
    for name, meaning in meanings:
        yield f"| `{name}` | {getattr(Settings(), name)} | {' '.join(meaning.split()).replace('``', '`')} |"
    yield "\n## Shapes\n"
    for name, schema in sorted(document["components"]["schemas"].items()):
        yield f"### {name}\n\n{schema.get('description', '')}\n"
        yield '??? note "Fields"\n\n    | field | type | |\n    |---|---|---|'
        for field, about in schema.get("properties", {}).items():
            kind = about.get("type") or ", ".join(_references(about)) or "any"
            words = about.get("description", "").replace("|", "\\|").replace("\n", " ")
            yield f"    | `{field}` | {kind} | {words} |"
        yield ""


def openapi() -> dict[str, Any]:
    """The description of all routes of a server."""
    from tacit.server.api.routes import ROUTES, description

    return description(ROUTES)


def _shapes(part: Mapping[str, Any]) -> Iterator[str]:
    for content in part.get("content", {}).values():
        for name in _references(content.get("schema", {})):
            yield f"[{name}](#{name.lower()})"


def _references(schema: Any) -> list[str]:
    if isinstance(schema, Mapping):
        own = [schema["$ref"].rpartition("/")[2]] if "$ref" in schema else []
        return own + [name for value in schema.values() for name in _references(value)]
    return [name for item in schema for name in _references(item)] if isinstance(schema, list) else []


def errors() -> Iterator[str]:
    """The tree of errors, and the codes that each door makes of them."""
    from tacit.cli.common import EXIT_CODES
    from tacit.core import errors as tree
    from tacit.query.refusal import CODES
    from tacit.server.errors import STATUS
    from tacit.server.pgwire.protocol import STATES

    yield "# Errors\n"
    words = (inspect.getdoc(tree) or "").replace("::\n\n", "").replace(":mod:", "")
    yield f"```text\n{words}\n```\n"
    yield "A code such as `query.sample` counts as `query` where it has no line of its own.\n"
    yield "| code | HTTP status | SQLSTATE | exit code of the command line |\n|---|---|---|---|"
    for code in sorted({*STATUS, *STATES, *EXIT_CODES}):
        cells = (table.get(code, "") for table in (STATUS, STATES, EXIT_CODES))
        yield f"| `{code}` | {' | '.join(map(str, cells))} |"
    yield "\n## Refused queries\n\n| code | stands for |\n|---|---|"
    for reason, meaning in CODES.items():
        yield f"| `query.{reason}` | {meaning.replace('|', '&#124;')} |"


def _proofs() -> list[Path]:
    return sorted(SOURCE.rglob("*.proof.md"))


def _proof(path: Path) -> str:
    """A proof, with the way back to the list: sixty proofs are too many for the navigation."""
    return f"{path.read_text(encoding='utf-8')}\n[All proofs](index.md)\n"


def _proof_page(path: Path) -> str:
    return "-".join(path.relative_to(SOURCE).parts).replace(".proof.md", ".md")


def proof_index() -> Iterator[str]:
    """List of all proofs with their titles."""
    yield "# Proofs\n"
    yield "Each stands beside the code it speaks about; these are the same files.\n"
    yield "| proof | about |\n|---|---|"
    for path in _proofs():
        title = path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
        yield f"| [{title}]({_proof_page(path)}) | `{path.relative_to(ROOT)}` |"


def changelog() -> Iterator[str]:
    """The changelog."""
    yield (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").replace("](docs/", "](")
