"""Tests for the loop of a person at work: those of what changed, as many as fit into half a minute.

``python -m support.quick_tests`` takes the files that differ from the main branch or are not committed. It runs, in
this order and while there is time: test modules that changed; test modules that import a module or helper that
changed; the tests of the rooms with changes; the shape of the package. It says which ones it left out.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from support.schedule import SECONDS, recorded_seconds

TESTS = SECONDS.parent
ROOT = TESTS.parent
#: Seconds of tests on one core, how long a module takes that was never measured, and when a second process pays.
TIME, UNMEASURED, SHARED = 30.0, 0.4, 12.0


def git(*arguments: str) -> list[str]:
    """The lines that git prints; none where it fails."""
    found = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return found.stdout.splitlines() if found.returncode == 0 else []


def changed_files() -> list[str]:
    """Files that differ from where this branch left the main one, and files that git does not know yet."""
    bases = (git("merge-base", "HEAD", name) for name in ("origin/main", "main"))
    base = next((found[0] for found in bases if found), "HEAD")
    return sorted({*git("diff", "--name-only", base), *git("ls-files", "--others", "--exclude-standard")})


def module_name(path: str) -> str:
    """The name by which tests import a file: ``tacit.core.errors``, ``support.bits``."""
    parts = Path(path).with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def importers(name: str, texts: dict[str, str]) -> list[str]:
    """Test modules that import a module of the package or a helper, under its name or out of its package."""
    package, _, last = name.rpartition(".")
    whole = rf"^\s*(from|import) {re.escape(name)}\b"
    part = rf"^\s*from {re.escape(package)} import [^\n]*\b{re.escape(last)}\b" if package else whole
    pattern = re.compile(f"{whole}|{part}", re.MULTILINE)
    return [module for module, text in texts.items() if pattern.search(text)]


def folders_of(path: str) -> tuple[str, ...]:
    """The folders of tests for a changed file."""
    parts = Path(path).parts
    if parts[0] in ("docs", "README.md", "mkdocs.yml"):
        return ("docs",)
    if parts[:2] != ("src", "tacit") or len(parts) < 4:
        return ()
    return (parts[2],)


def wanted(changed: list[str]) -> list[str]:
    """Test modules by how close they are to the changes; each once."""
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in sorted(TESTS.rglob("test_*.py"))}
    code = [path for path in changed if path.endswith(".py") and path.startswith(("src/", "tests/"))]
    seconds = recorded_seconds()

    def quickest_first(modules: Iterable[str]) -> list[str]:
        return sorted(modules, key=lambda module: seconds.get(module.removeprefix("tests/"), UNMEASURED))

    themselves = [path for path in code if path in texts]
    close = {module for path in code if path not in texts for module in importers(module_name(path), texts)}
    shape = [module for module in texts if module.startswith("tests/arch/")]
    folders = {folder for path in changed for folder in folders_of(path)}
    beside = [module for module in texts if Path(module).parts[1] in folders]
    return list(dict.fromkeys([*themselves, *quickest_first(close), *shape, *quickest_first(beside)]))


def main() -> int:
    """Choose, run, and name what was left out."""
    seconds = recorded_seconds()
    chosen: list[str] = []
    left_out: list[str] = []
    time = 0.0
    for module in wanted(changed_files()):
        takes = seconds.get(module.removeprefix("tests/"), UNMEASURED)
        fits = time + takes <= TIME
        (chosen if fits else left_out).append(module)
        time += takes if fits else 0.0
    processes = ["-n2", "-o", "console_output_style=classic"] if time > SHARED else ["-n0"]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not deep", *processes, *chosen], cwd=ROOT, check=False
    )
    total = len(list(TESTS.rglob("test_*.py")))
    print(f"ran {len(chosen)} of {total} test modules, about {time:.0f} s of tests; make test and make deep run all")
    if left_out:
        print("left out though a change may concern them:", ", ".join(left_out))
    return result.returncode


if __name__ == "__main__":
    sys.exit(main())
