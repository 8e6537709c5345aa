"""Spark Connect sessions by an address such as ``sc://host:15002``.

Differences from a Spark of this process: the server has its own disk, settings of the session travel with it, and
an unused session is forgotten after a while (:mod:`engine` asks before it trusts one). A server that does
not answer is tried for some seconds and then counts as lost.
"""

from __future__ import annotations

import ipaddress
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote, urlsplit

from tacit.core.errors import InputError
from tacit.core.extras import install_command
from tacit.engines.environment import fill

SCHEME: Final = "sc://"
#: Retries of a server that does not answer, with milliseconds between: some five seconds in all. pyspark's own ten
#: minutes would hold up the caller, and every later query.
_TRIES: Final[dict[str, Any]] = {"max_retries": 6, "initial_backoff": 100, "max_backoff": 2000, "backoff_multiplier": 2}
#: A server that is back is soon found: other channels' waiting does not count, and one's own is shorter than the tries.
_CHANNEL: Final = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2000),
]
_FORM: Final = "must be an address such as sc://host:15002, or sc://host:443/;use_ssl=true;token=${SPARK_TOKEN}"


def connected(place: str, settings: Mapping[str, str]) -> Any:
    """A session of its own at the server, with these settings; ``${NAME}`` in the address is of the environment.

    Raises:
        InputError: packages are missing, the address cannot be read, or no server answers there. Of the address only
            host and port are quoted, because the rest may hold a token.
    """
    where = shown_place(place)
    try:
        with calm():
            from pyspark.sql.connect.client import DefaultChannelBuilder
            from pyspark.sql.connect.client.retries import DefaultPolicy
            from pyspark.sql.connect.session import SparkSession
    except (ImportError, SystemExit):  # it exits where it takes itself to be a doctest
        raise InputError("engine", f"sc:// needs more packages: {install_command('spark')}") from None
    # It says so whenever a server is lost; the caller is told by an exception.
    warnings.filterwarnings("ignore", message=re.escape("[RETRIES_EXCEEDED]"))
    spark, filled = None, fill(place, lambda value: quote(value, safe=""))
    try:
        # Not by its builder, which would make it the default of the process.
        spark = SparkSession(connection=DefaultChannelBuilder(filled, _CHANNEL))
        spark.client.set_retry_policies([DefaultPolicy(**_TRIES)])
        with calm():
            for name, value in settings.items():
                spark.conf.set(name, value)
        return spark
    except Exception as problem:
        # Its words may quote the address.
        code = getattr(problem, "getGrpcStatusCode", None)
        state = type(problem).__name__ if code is None else code().name
    if spark is None:
        raise InputError("engine", _FORM)
    spark.client.close()
    raise InputError("engine", f"cannot use a Spark Connect server at {where} ({state})")


def shown_place(place: str) -> str:
    """Host and port of an address, which hold no secret."""
    try:
        parts = urlsplit(place)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host:
        raise InputError("engine", _FORM)
    return host if port is None else f"{host}:{port}"


def is_open_to_others(place: str) -> bool:
    """Whether statements and exact sums would travel in the open: neither encrypted nor within this machine."""
    words = urlsplit(place).path.lower()
    if "use_ssl=true" in words or "token=" in words:
        return False
    host = urlsplit(place).hostname or ""
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host != "localhost"


@contextmanager
def calm() -> Iterator[None]:
    """Spark warns about versions of packages that are not used here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
