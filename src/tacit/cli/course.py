"""``tacit course``: chapters, the answer sheet, and the check of answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.common import JsonFlag, print_json, reported
from tacit.core.errors import InputError
from tacit.core.text_files import visible

app = typer.Typer(no_args_is_help=True, help="The course in ten chapters: its exercises, and a check of your answers.")

SheetOption = Annotated[Path, typer.Option("--sheet", help="The answer sheet.")]
_SHEET = Path("course.toml")


@app.command("list")
def list_chapters() -> None:
    """Show the chapters and the numbers of their exercises."""
    from tacit.course import CHAPTERS, exercises_of

    for number, (title, _) in enumerate(CHAPTERS, 1):
        typer.echo(f"{number:>2}  {title:<52} exercises {', '.join(each.number for each in exercises_of(number))}")


@app.command()
def show(exercise: Annotated[str, typer.Argument(help="Its number, such as 3.2.", show_default=False)]) -> None:
    """Show the question of one exercise."""
    from tacit.course import exercise_named

    with reported("exercise"):
        found = exercise_named(exercise)
    typer.echo(f"{found.question}\nAnswer: {found.form}.")


@app.command()
def start(sheet: SheetOption = _SHEET) -> None:
    """Write an answer sheet with all questions; an existing file is left alone."""
    from tacit.course import blank_sheet

    with reported():
        try:
            with sheet.open("x", encoding="utf-8") as file:
                file.write(blank_sheet())
        except FileExistsError:
            raise InputError("sheet", f"{sheet} exists; write into it, or name another file") from None
        except OSError as error:
            raise InputError("sheet", f"{sheet} cannot be written: {error.strerror}") from None
    typer.echo(f'Wrote {sheet}. Answer what you like, then run "tacit course check".')


@app.command()
def check(
    exercise: Annotated[str | None, typer.Argument(help="One exercise, such as 3.2.", show_default=False)] = None,
    answer: Annotated[str | None, typer.Argument(help="Your answer to it.", show_default=False)] = None,
    sheet: SheetOption = _SHEET,
    as_json: JsonFlag = False,
) -> None:
    """Check one answer, or all answers of the sheet.

    tacit course check 2.1 1.386

    Exit code 1 if an answer is wrong.
    """
    from tacit.course import EXERCISES, exercise_named, read_sheet

    with reported("exercise", "answer", as_json=as_json):
        if exercise is not None and answer is None:
            raise InputError("answer", f"is missing: tacit course check {exercise} ANSWER")
        answers = read_sheet(sheet) if exercise is None else [(exercise_named(exercise), answer or "")]
    found = [(each.number, each.objection(given)) for each, given in answers]
    right = sum(not words for _, words in found)
    if as_json:
        told = [{"exercise": number, "right": not words, "hint": words} for number, words in found]
        print_json({"right": right, "answered": len(found), "answers": told})
    else:
        for number, words in found:
            typer.echo(f"{number:>4}  {f'wrong  {visible(words)}' if words else 'right'}")
        if exercise is None:
            typer.echo(f"{right} of {len(found)} answers are right; {len(EXERCISES) - len(found)} are open.")
    if right < len(found):
        raise typer.Exit(1)
