"""Processes that are forked with their modules: in all else they are processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from support.warm import WarmProcess, run_warm

TELLS = """
import json, os, sys
from tacit.noise import entropy
print(json.dumps([sys.argv, os.getcwd(), os.environ.get("MARK"), sys.stdin.read(), entropy.current().bits(64)]))
print("beside", file=sys.stderr)
sys.exit(3)
"""


def test_words_folder_environment_streams_and_status_are_those_given(tmp_path: Path) -> None:
    drawn = set()
    for word in ("one", "two"):
        command = [sys.executable, "-c", TELLS, word, "b c"]
        options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with WarmProcess(command, cwd=tmp_path, env={**os.environ, "MARK": word}, **options) as process:
            said, beside = process.communicate(f"to {word}", timeout=120)
        *told, bits = json.loads(said)
        assert told == [["-c", word, "b c"], str(tmp_path), word, f"to {word}"]
        assert (process.returncode, beside) == (3, "beside\n")
        drawn.add(bits)
    assert len(drawn) == 2, "no bits are inherited"


def test_ends_are_told_as_of_any_process(tmp_path: Path) -> None:
    with WarmProcess(
        [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"], stdout=-1
    ) as process:
        assert process.stdout.readline() == b"up\n"
        assert process.poll() is None
        process.kill()
        assert process.wait(60) == -signal.SIGKILL
    failed = run_warm([sys.executable, "-c", "raise ValueError('this one')"], text=True)
    assert failed.returncode == 1
    assert failed.stderr.endswith("ValueError: this one\n")
    (tmp_path / "beside.py").write_text("import sys; print(sys.argv[1:], __name__)")
    found = run_warm([sys.executable, "-m", "beside", "x"], text=True, cwd=tmp_path)
    assert (found.returncode, found.stdout) == (0, "['x'] __main__\n"), found.stderr
