"""One Spark for all tests of a process, in its own Java machine and set up for many small queries; starts when the
first test asks for it.

Small tables cost Spark its preparations and next to nothing else, so tests run in one partition and without generated
code. Those that say ``generated=True`` run as a user's queries do.
"""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from tacit.engines.duckdb import DataSource, Limits
from tacit.engines.spark import SparkEngine
from tacit.engines.spark.session import SETTINGS, SessionHandle, calm, open_session
from tacit.query.catalog import Catalog

__all__ = ["LIMITS", "QUICK", "held", "spark_engine"]

LIMITS = Limits()
_MACHINE = {
    "spark.app.name": "tacit",
    "spark.master": "local[2,4]",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
QUICK = {
    # The quick compiler alone: nothing here runs long enough for the other one. Java would look at every class that it
    # loads, of which there are thousands.
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    ),
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
USUAL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.autoBroadcastJoinThreshold": "10485760",
}


def held(*, generated: bool = False) -> SessionHandle:
    """A session that outlives the engines of single tests, so that Spark starts once."""
    return _held(generated)


@cache
def _held(generated: bool) -> SessionHandle:
    from pyspark.sql import SparkSession

    # Not the first session of the context, whose settings all sessions share.
    spark = SparkSession(_context()).newSession()
    for name, value in {**SETTINGS, **QUICK, **(USUAL if generated else {})}.items():
        if not name.startswith("spark.driver."):
            spark.conf.set(name, value)
    return open_session(spark)


@cache
def _context() -> Any:
    """A Spark context of this process, with Java's output suppressed and off the network."""
    from pyspark import SparkConf, SparkContext, java_gateway

    conf = SparkConf()
    for name, value in {**SETTINGS, **_MACHINE, **QUICK}.items():
        conf.set(name, value)
    # Spark replaces the handler of Ctrl-C; engines stop their own work.
    before = signal.getsignal(signal.SIGINT)
    try:
        with calm():
            launch: Any = java_gateway.launch_gateway
            silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            return SparkContext(conf=conf, gateway=launch(conf, silent))
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


@contextmanager
def spark_engine(
    catalog: Catalog, frames: Mapping[str, pa.Table | Any], *, generated: bool = False, limits: Limits = LIMITS
) -> Iterator[SparkEngine]:
    """An engine on frames, or on what else a source can be."""
    sources = {
        name: frame if isinstance(frame, DataSource) else DataSource("frame", None, frame)
        for name, frame in frames.items()
    }
    session = held(generated=generated).spark
    with pytest.MonkeyPatch.context() as patch:
        # It passed its trial when it was opened. The trial takes half of the time that an engine takes to open.
        patch.setattr("tacit.engines.spark.session.try_out", lambda _: None)
        engine = SparkEngine(catalog, sources, limits, session=session)
    with engine:
        yield engine
