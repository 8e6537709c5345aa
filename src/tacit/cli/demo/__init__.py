"""``tacit demo``: the story of an example hospital.

Modules:
* :mod:`.attack` — Differencing attack of the demo: two counts that differ in one person
* :mod:`.display` — Display of the demo: headings, coloured SQL, bars with errors
* :mod:`.scenes` — Scenes of ``tacit demo``; each prints itself and returns what it showed
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.errors import reported
from tacit.cli.terminal import JsonFlag, print_json

__all__ = ["demo"]


def demo(
    keep: Annotated[Path | None, typer.Option(help="Write the hospital's files to this folder and keep them.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """See it at work: a made-up hospital, questions with error bars, a budget, an attack that fails.

    Takes a few seconds. The files are removed afterwards unless --keep names a folder.
    """
    from tacit.cli.demo.display import Stage
    from tacit.cli.demo.scenes import tell
    from tacit.core.errors import InputError

    stage = Stage(quiet=as_json)
    with reported(as_json=as_json):
        if keep is None:
            with tempfile.TemporaryDirectory(prefix="tacit-demo-") as folder:
                told = tell(stage, Path(folder))
        else:
            if (keep / "tacit.toml").exists():
                raise InputError("keep", f"{keep} holds a project already; name an empty folder")
            keep.mkdir(parents=True, exist_ok=True)
            told = tell(stage, keep)
            stage.say(f"Left in [bold]{keep}[/bold]: try [bold]tacit query --project {keep}/tacit.toml[/bold]")
    if as_json:
        print_json(told)
