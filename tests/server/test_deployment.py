"""Files of ``deploy/``: the container file is linted, and its instructions are run, where no image can be built."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tacit.project.project_file import OpenIDModel
from tacit.server.identity.oidc import is_safe

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
PROJECT = """
[project]
name = "clinic"
ledger = "ledger/tacit.ledger"

[populations.patients]
epsilon = "4"

[tables.visits]
source = "data/visits.csv"
population = "patients"
unit = "patient"

[tables.visits.columns]
patient = { type = "integer" }
"""


def instructions() -> list[tuple[str, str]]:
    """The instructions of the container file, in order."""
    text = re.sub(r"(?m)^\s*#.*\n", "", (DEPLOY / "Containerfile").read_text()).replace("\\\n", " ")
    return [
        (word, rest.strip()) for word, _, rest in (line.partition(" ") for line in text.splitlines() if line.strip())
    ]


def of(word: str) -> list[str]:
    return [rest for name, rest in instructions() if name == word]


def command(word: str) -> list[str]:
    """The last instruction of a name that is a list, without the options before it."""
    return json.loads(re.search(r"\[.*\]", of(word)[-1])[0])  # type: ignore[index]


def test_the_container_file_is_linted() -> None:
    found = subprocess.run(
        [Path(sys.executable).with_name("hadolint"), DEPLOY / "Containerfile"], capture_output=True, text=True
    )
    assert (found.returncode, found.stdout) == (0, "")


def test_the_image_runs_as_nobody_in_particular_and_writes_to_its_volumes_alone() -> None:
    words = [name for name, _ in instructions()]
    assert words.count("FROM") == 2, "what builds it is not in it"
    assert all(re.fullmatch(r"docker\.io/library/python:3\.\d+-slim( AS build)?", each) for each in of("FROM"))
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", of("USER")[-1])
    assert words.index("USER") < words.index("CMD")
    assert "ADD" not in words
    volumes, state = command("VOLUME"), re.search(r"TACIT_STATE=(\S+)", of("ENV")[-1])
    assert state is not None
    assert state[1] in volumes
    assert all(volume in of("RUN")[-1] for volume in volumes), "made for the user, or a volume belongs to root"


def test_compose_keeps_secrets_out_of_it_and_roots_read_only() -> None:
    told = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    services: dict[str, Any] = told["services"]
    assert set(services) == {"dex", "postgres", "tacit"}
    for name, service in services.items():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
        assert not (service.get("network_mode") and service.get("networks")), name
        assert "latest" not in service.get("image", "x:1").rpartition(":")[2], name
        for variable, value in service.get("environment", {}).items():
            assert "PASSWORD" not in variable or variable.endswith("_FILE"), name
            assert "SECRET" not in variable or value.startswith("${"), name
        assert {each.partition(":")[0] for each in service.get("volumes", ()) if each[0].isalpha()} <= set(
            told["volumes"]
        )
    for name in ("dex", "tacit"):
        assert services[name]["read_only"], name
        assert services[name]["cap_drop"] == ["ALL"], name
    tacit = services["tacit"]
    assert (DEPLOY / tacit["build"]["context"] / tacit["build"]["dockerfile"]).resolve() == DEPLOY / "Containerfile"
    assert set(command("VOLUME")) <= {each.split(":")[1] for each in tacit["volumes"]}
    assert {each if isinstance(each, str) else each["source"] for each in tacit["secrets"]} <= set(told["secrets"])


def test_the_provider_of_compose_and_the_project_file_know_each_other() -> None:
    dex = yaml.safe_load((DEPLOY / "dex.yaml").read_text())
    model = OpenIDModel(**tomllib.loads((DEPLOY / "tacit.toml").read_text())["server"]["oidc"]["dex"])
    (client,) = dex["staticClients"]
    assert (model.issuer, model.client_id) == (dex["issuer"], client["id"])
    assert model.client_secret == f"env:{client['secretEnv']}"
    (redirect,) = client["redirectURIs"]
    assert redirect == "http://127.0.0.1:8470/console/signed-in/dex"
    assert is_safe(model.issuer)


def test_the_systemd_unit_is_verified(tmp_path: Path) -> None:
    text = (DEPLOY / "tacit.service").read_text()
    serve = re.search(r"(?m)^ExecStart=(\S+) (.*)$", text)
    assert serve is not None
    assert serve[1] == "/opt/tacit/bin/tacit"
    assert re.search(r"(?m)^ProtectSystem=strict$", text)
    assert re.search(r"(?m)^User=(?!root)", text)
    # An option that does not exist would be a usage error.
    shown = subprocess.run(
        [Path(sys.executable).with_name("tacit"), *serve[2].split(), "--help"], capture_output=True, text=True
    )
    assert shown.returncode == 0
    if (verify := shutil.which("systemd-analyze")) is not None:
        unit = tmp_path / "tacit.service"
        unit.write_text(text.replace(serve[1], str(Path(sys.executable).with_name("tacit"))))
        found = subprocess.run([verify, "verify", unit], capture_output=True, text=True)
        assert (found.returncode, found.stderr) == (0, "")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of an image: the instructions that copy and run, in an empty folder."""
    root = tmp_path_factory.mktemp("image")
    build, here = root / "src", str(root / "opt/tacit")
    build.mkdir(parents=True)
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(root / "none")}
    for name in ("PIP_INDEX_URL", "PIP_CONFIG_FILE", "UV_INDEX_URL", "SSL_CERT_FILE"):
        if name in os.environ:
            environment[name] = os.environ[name]
    for word, rest in instructions():
        if word == "COPY" and "--from" not in rest:
            *sources, target = rest.split()
            for source in sources:
                to = build / target / source if target.endswith("/") else build / target
                if (ROOT / source).is_dir():
                    shutil.copytree(ROOT / source, to, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copyfile(ROOT / source, to)
        elif word == "RUN" and "useradd" not in rest:
            made = rest.replace("/opt/tacit", here)
            found = subprocess.run(["sh", "-ec", made], cwd=build, env=environment, capture_output=True, text=True)
            assert found.returncode == 0, found.stdout[-2000:] + found.stderr[-2000:]
    shutil.rmtree(build)
    return root


@pytest.fixture
def started(image: Path, tmp_path: Path) -> Iterator[tuple[Path, Any]]:
    """A container's process with its volumes, and its health check."""
    place = tmp_path / "tacit"
    for folder in ("ledger", "data"):
        (place / folder).mkdir(parents=True)
    (place / "tacit.toml").write_text(PROJECT)
    (place / "data" / "visits.csv").write_text("patient\n" + "\n".join(map(str, range(500))) + "\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    there = str(image / "opt/tacit/bin")
    environment = {"PATH": f"{there}:/usr/bin:/bin", "HOME": "/nonexistent"}
    for each in " ".join(of("ENV")).split():
        name, _, value = each.partition("=")
        environment[name] = value.replace("/var/lib/tacit-anchor", str(tmp_path / "anchor")).replace(
            "/opt/tacit/bin:$PATH", environment["PATH"]
        )
    (tmp_path / "anchor").mkdir()
    words = [*command("ENTRYPOINT"), *(each.replace("/var/lib/tacit", str(place)) for each in command("CMD"))]
    words[words.index("0.0.0.0")] = "127.0.0.1"
    check = [each.replace("8470", port) for each in command("HEALTHCHECK")]

    def is_healthy() -> bool:
        return subprocess.run(check, env=environment, cwd=place, capture_output=True).returncode == 0

    process = subprocess.Popen([*words, "--port", port], env=environment, cwd=place)
    try:
        end = time.monotonic() + 120
        while not is_healthy():
            assert process.poll() is None, "it ended"
            assert time.monotonic() < end, "it did not start"
            time.sleep(0.2)
        yield place, is_healthy
    finally:
        process.terminate()
        assert process.wait(60) == 0


@pytest.mark.deep
def test_the_image_serves_and_its_health_check_sees_what_is_gone(
    image: Path, started: tuple[Path, Any], tmp_path: Path
) -> None:
    place, is_healthy = started
    visits, ledger = place / "data" / "visits.csv", place / "ledger" / "tacit.ledger"
    visits.rename(tmp_path / "away")
    assert not is_healthy()
    (tmp_path / "away").rename(visits)
    assert is_healthy()
    # A server that lost its ledger stays stopped until it is started again.
    ledger.rename(tmp_path / "away")
    assert not is_healthy()
    (tmp_path / "away").rename(ledger)
    # What it wrote lies in the two volumes; the image is as it was installed.
    assert {each.name for each in place.iterdir()} == {"tacit.toml", "data", "ledger"}
    begun = (place / "tacit.toml").stat().st_mtime
    assert not [each for each in image.rglob("*") if each.stat().st_mtime > begun]
