"""Settings of a connection: ``SET tacit.epsilon = '0.1'``, and those that clients of PostgreSQL expect.

The options of a query are those of :data:`tacit.query.request.OPTIONS`, each under ``tacit.`` and its name. As in
PostgreSQL, a change made in a transaction ends with ``ROLLBACK``, and one by ``SET LOCAL`` with the transaction; unlike
there, ``ROLLBACK TO`` a savepoint changes no setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tacit.core.errors import InputError
from tacit.query.contribution import AUTO
from tacit.query.request import OPTIONS, OptionKind

VERSION: Final = "15.0"
_TACIT: Final = "tacit."
_INTERVALS: Final = "tacit.intervals"
#: Interactive clients, whose answers have intervals by default.
_FOR_READERS: Final = ("psql", "pgcli")
_WORDS: Final = dict.fromkeys(("on", "true", "yes", "1"), "on") | dict.fromkeys(("off", "false", "no", "0"), "off")
#: Settings that clients may change, with their defaults. None of them changes an answer.
_SETTABLE: Final = {
    "application_name": "",
    "client_encoding": "UTF8",
    "client_min_messages": "notice",
    "datestyle": "ISO, MDY",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "on",
    "extra_float_digits": "1",
    "idle_in_transaction_session_timeout": "0",
    "intervalstyle": "postgres",
    "jit": "off",
    "lock_timeout": "0",
    "search_path": '"$user", public',
    "statement_timeout": "0",
    "timezone": "UTC",
    "transaction_isolation": "read committed",
    "transaction_read_only": "on",
}
_FIXED: Final = {
    "default_table_access_method": "heap",
    "integer_datetimes": "on",
    "is_superuser": "off",
    "lc_collate": "C",
    "lc_ctype": "C",
    "max_identifier_length": "63",
    "max_index_keys": "32",
    "server_encoding": "UTF8",
    "server_version": VERSION,
    "server_version_num": "150000",
    "ssl": "on",
    "standard_conforming_strings": "on",
}
#: Settings that ParameterStatus reports at the beginning and after each change.
REPORTED: Final = {
    "application_name": "application_name",
    "client_encoding": "client_encoding",
    "datestyle": "DateStyle",
    "integer_datetimes": "integer_datetimes",
    "intervalstyle": "IntervalStyle",
    "is_superuser": "is_superuser",
    "server_encoding": "server_encoding",
    "server_version": "server_version",
    "session_authorization": "session_authorization",
    "standard_conforming_strings": "standard_conforming_strings",
    "timezone": "TimeZone",
}
_LONGEST: Final = 1_000
_LEVELS: Final = ("debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error")


class SessionVariables:
    """Settings of one user's connection."""

    def __init__(self, user: str) -> None:
        self._fixed = {**_FIXED, "session_authorization": user}
        self._defaults = {**self._fixed, **_SETTABLE, _INTERVALS: "", **{_TACIT + name: "" for name in OPTIONS}}
        self._values: dict[str, str] = {}
        #: Values until the end of the transaction, and all others at its beginning.
        self._local: dict[str, str] = {}
        self._before: dict[str, str] = {}

    @property
    def options(self) -> dict[str, Any]:
        """Options of a query (:data:`OPTIONS`) that the settings state."""
        found = {name: self.show(_TACIT + name) for name in OPTIONS}
        return {name: read_option(name, text) for name, text in found.items() if text}

    @property
    def intervals(self) -> bool:
        """Whether answers have two more columns, the interval's ends, for each noisy number."""
        return self.show(_INTERVALS) == "on"

    def wants(self, level: str) -> bool:
        """Whether the client wants messages of a level: ``notice`` or ``warning``."""
        return _LEVELS.index(self.show("client_min_messages")) <= _LEVELS.index(level)

    def show(self, name: str) -> str:
        """Return the value of a setting.

        Raises:
            InputError: no setting has that name.
        """
        name = self._known(name)
        usual = self._defaults[name]
        if name == _INTERVALS:
            usual = "on" if self.show("application_name") in _FOR_READERS else "off"
        return self._local.get(name, self._values.get(name, usual))

    def all(self) -> list[tuple[str, str]]:
        """Return the names and values of all settings, sorted by name."""
        return [(name, self.show(name)) for name in sorted(self._defaults)]

    def help(self, name: str) -> str:
        """Return the description of a Tacit setting; empty for other settings."""
        if name == _INTERVALS:
            return "whether each number with noise has two more columns, its interval's ends; on for psql and pgcli"
        option = OPTIONS.get(name.removeprefix(_TACIT)) if name.startswith(_TACIT) else None
        return "" if option is None else option.help

    def set(self, name: str, value: str | None, *, local: bool = False) -> None:
        """Change a setting, until the end of the transaction if ``local``; None restores its default.

        Raises:
            InputError: no setting has that name, or it cannot have this value.
        """
        name = self._known(name)
        if name in self._fixed:
            raise InputError(name, "cannot be changed")
        if value is not None:
            if len(value) > _LONGEST or "\0" in value:
                raise InputError(name, f"must be text of at most {_LONGEST} characters")
            value = _checked(name, value)
        self._local.pop(name, None)
        if local:
            self._local[name] = self._defaults[name] if value is None else value
        elif value is None:
            self._values.pop(name, None)
        else:
            self._values[name] = value

    def reset(self) -> None:
        self._values.clear()
        self._local.clear()

    def begin(self) -> None:
        """Note the values at the beginning of a transaction."""
        self._before = dict(self._values)

    def end(self, *, commit: bool) -> None:
        """End a transaction: undo its local changes, and without ``commit`` all of its changes."""
        self._local.clear()
        if not commit:
            self._values = self._before

    def _known(self, name: str) -> str:
        name = name.lower()
        if name not in self._defaults:
            raise InputError(name, "is no setting; SHOW ALL lists those there are")
        return name


def read_option(name: str, text: str) -> Any:
    """Parse an option of a query: a number, or ``column=50, other=10``."""
    option = OPTIONS[name]
    texts = [part.strip() for part in text.split(",")] if option.named else [text]
    return option.typed(texts)


def _checked(name: str, value: str) -> str:
    """Return the normalized value of a setting; settings without an effect accept any value."""
    plain = value.strip().lower()
    if name == _INTERVALS:
        if plain not in _WORDS:
            raise InputError(name, "must be on or off")
        return _WORDS[plain]
    if name.startswith(_TACIT):
        if not plain:
            return ""
        option = OPTIONS[name.removeprefix(_TACIT)]
        try:
            read = read_option(option.name, value.strip())
            for each in read.values() if isinstance(read, Mapping) else (read,):
                if option.kind is not OptionKind.LIMIT or each != AUTO:
                    option.exact(each)
        except InputError as problem:
            raise InputError(name, str(problem).removeprefix(f"{option.name}: ")) from None
        return str(read) if option.kind in (OptionKind.COUNT, OptionKind.LIMIT) else value.strip()
    match name:
        case "client_encoding":
            if plain.replace("-", "").replace("_", "").strip("'") not in ("utf8", "unicode"):
                raise InputError(name, "must be UTF8")
            return "UTF8"
        case "datestyle":
            if not plain.startswith("iso"):
                raise InputError(name, "must be ISO")
            return "ISO, MDY"
        case "client_min_messages":
            if plain not in _LEVELS:
                raise InputError(name, f"must be one of {', '.join(_LEVELS)}")
            return plain
    return value.strip()


def read_options(text: str) -> dict[str, str]:
    """Parse ``options`` of a start-up message: ``-c name=value --name=value``.

    Raises:
        InputError: it has another form.
    """
    found: dict[str, str] = {}
    words = text.replace("\\ ", "\0").split()
    while words:
        word = words.pop(0)
        if word == "-c" and words:
            word = words.pop(0)
        elif word.startswith(("-c", "--")):
            word = word[2:]
        else:
            raise InputError("options", "must be written as -c name=value")
        name, equals, value = word.partition("=")
        if not equals:
            raise InputError("options", "must be written as -c name=value")
        found[name.replace("-", "_")] = value.replace("\0", " ")
    return found
