"""``tacit deliver``: run what was paid for and never answered, under its charge."""

from __future__ import annotations

from typing import Annotated

import typer

from tacit.cli.answer_output import print_answer
from tacit.cli.errors import reported
from tacit.cli.open_project import DEFAULT_PROJECT, ProjectOption, opened
from tacit.cli.terminal import JsonFlag, print_json, say
from tacit.core.errors import FailedRunError, InputError, TacitError
from tacit.core.text_files import visible


def deliver(
    position: Annotated[int | None, typer.Argument(help="Position of the charge; see tacit budget.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All that were paid for and have no answer.")] = False,
    project: ProjectOption = DEFAULT_PROJECT,
    as_json: JsonFlag = False,
) -> None:
    """Answer what was paid for and never answered, because a process ended in between. Charges nothing.

    The query is run under its charge, on the data as they are now. With --all, what cannot be run from the ledger alone
    is named with what to do about it.
    """
    with reported("position", as_json=as_json):
        if (position is None) != every:
            raise InputError("position", "say which charge to deliver, or --all")
        with opened(project) as curator:
            if position is not None:
                found = curator.deliver(position)
                from tacit.releases.workload import WorkloadAnswer

                if isinstance(found, WorkloadAnswer):
                    say(f"Delivered: the workload at {position}; tacit release writes its tables, free.")
                else:
                    print_answer(curator, found, "json" if as_json else "table", None)
                return
            told = []
            for entry in curator.undelivered():
                state, reason = "delivered", ""
                try:
                    curator.deliver(entry.number)
                except FailedRunError as problem:
                    state, reason = "failed", str(problem)
                except TacitError as problem:
                    state, reason = "open", str(problem)
                told.append({"position": entry.number, "sql": entry.sql, "state": state, "reason": reason})
    if as_json:
        print_json({"charges": told})
        return
    for each in told:
        more = f": {each['reason']}" if each["reason"] else ""
        say(f"{each['position']} {each['state']}{more}  {visible(' '.join(str(each['sql']).split()))}", whole=True)
    if not told:
        say("Every charge has its answer.")
