"""Checks of ``tacit doctor`` for Spark: packages, Java, session, declared tables."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tacit.core.errors import InputError
from tacit.core.extras import install_command
from tacit.engines.protocol import DoctorCheck, Limits, SourceLike
from tacit.engines.spark.connect import SCHEME, is_open_to_others, shown_place
from tacit.engines.spark.session import INSTALL_LOCAL, TRIALS, SessionHandle, hushed, open_untried, passes
from tacit.engines.spark.sources import open_table
from tacit.query.catalog import Catalog, Table

_OLDEST: Final = 4
_OLDEST_JAVA: Final = 17
#: Modules that a session needs beside pyspark: at a Spark Connect server, and on this machine.
_CONNECT: Final = ("grpc", "grpc_status", "google.rpc", "pandas", "zstandard")
_LOCAL: Final = ("py4j",)


def look_at(
    place: object, catalog: Catalog, sources: Mapping[str, SourceLike], limits: Limits | None = None
) -> Iterator[DoctorCheck]:
    """All checks, in order; one that everything after it needs ends them."""
    is_connect = isinstance(place, str) and place.startswith(SCHEME)
    needed = [_packages(_CONNECT if is_connect else _LOCAL if isinstance(place, str) else ())]
    if isinstance(place, str):
        needed += _server(place) if is_connect else [_java()]
    yield from needed
    if not all(check.ok or check.name == "connection" for check in needed):
        return
    try:
        held = open_untried(place, limits or Limits())
    except InputError as problem:
        remedy = f"start a Spark Connect server at {_named(place)}, or correct project.engine" if is_connect else ""
        yield DoctorCheck(
            "Spark", False, problem.problem, remedy or "correct project.engine, or what stands in [limits]"
        )
        return
    try:
        yield from _session(held)
        for table in catalog.tables:
            yield _table(held, table, sources[table.name])
    finally:
        held.release()


def _packages(others: tuple[str, ...]) -> DoctorCheck:
    remedy = install_command("spark") if others == _CONNECT else INSTALL_LOCAL
    try:
        import pyspark
    except ImportError:
        return DoctorCheck("pyspark", False, "not installed", remedy)
    found = f"pyspark {pyspark.__version__}"
    if int(str(pyspark.__version__).partition(".")[0]) < _OLDEST:
        return DoctorCheck("pyspark", False, f"{found} is too old", remedy)
    missing = [name for name in others if not _has(name)]
    if missing:
        where = "Spark Connect" if others == _CONNECT else "Spark on this machine"
        return DoctorCheck("pyspark", False, f"{found}; {where} also needs {', '.join(missing)}", remedy)
    return DoctorCheck("pyspark", True, found)


def _has(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _java() -> DoctorCheck:
    """The Java that Spark would start: that of JAVA_HOME, else the first on the path."""
    remedy = f"install Java {_OLDEST_JAVA} (such as openjdk-{_OLDEST_JAVA}-jre-headless), or point JAVA_HOME at it"
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if program is None:
        return DoctorCheck("Java", False, "not found, neither by JAVA_HOME nor on the path", remedy)
    try:
        ran = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return DoctorCheck("Java", False, f"{program} does not run", remedy)
    found = re.search(r'version "(?:1\.)?(\d+)', ran.stderr + ran.stdout)
    if found is None or int(found.group(1)) < _OLDEST_JAVA:
        return DoctorCheck(
            "Java", False, f"{program} is Java {found.group(1) if found else 'of an unknown version'}", remedy
        )
    return DoctorCheck("Java", True, f"{program}: Java {found.group(1)}")


def _server(place: str) -> list[DoctorCheck]:
    """Checks of a Spark Connect address, before the server is asked."""
    where = _named(place)
    if is_open_to_others(place):
        remedy = "end the address in /;use_ssl=true, or keep the server on this machine"
        return [DoctorCheck("connection", False, f"{where}: statements and exact sums travel in the open", remedy)]
    return [DoctorCheck("connection", True, f"{where}: encrypted, or within this machine; the server has its own Java")]


def _named(place: object) -> str:
    try:
        return shown_place(str(place))
    except InputError:
        return "that address"


def _session(held: SessionHandle) -> Iterator[DoctorCheck]:
    with hushed():
        yield DoctorCheck(
            "Spark", True, f"Spark {held.spark.version}{' by Spark Connect' if held.is_elsewhere else ''}"
        )
        for trial in TRIALS:
            holds = passes(held.spark, trial)
            words = trial.words if holds else f"not so here: {trial.words}"
            yield DoctorCheck(trial.name, holds, words, "" if holds else trial.remedy)


def _table(held: SessionHandle, table: Table, source: SourceLike) -> DoctorCheck:
    view = f"tacit_{uuid.uuid4().hex}"
    try:
        with hushed():
            open_table(held.spark, table, source, view, elsewhere=held.is_elsewhere)
    except InputError as problem:
        remedy = f"correct tables.{table.name}: its source, or the types of its columns"
        return DoctorCheck(f"table {table.name}", False, str(problem), remedy)
    finally:
        held.spark.catalog.dropTempView(view)
    words = f"{source.path or 'a frame'}: readable, {len(table.columns)} columns of fitting types"
    return DoctorCheck(f"table {table.name}", True, words)
