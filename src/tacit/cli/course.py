"""``tacit course``: chapters, the answer sheet, and the check of answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli.errors import reported
from tacit.cli.terminal import JsonFlag, print_json, visible
from tacit.core.errors import InputError

if TYPE_CHECKING:
    from tacit.course import AnswerVerdict, Exercise

app = typer.Typer(no_args_is_help=True, help="The course in ten chapters: its exercises, and a check of your answers.")

SheetOption = Annotated[Path, typer.Option("--sheet", help="The answer sheet.")]
_SHEET = Path("course.toml")


@app.command("list")
def list_chapters(as_json: JsonFlag = False) -> None:
    """Show the chapters and the numbers of their exercises."""
    from tacit.course import CHAPTERS

    if as_json:
        print_json(
            [
                {"number": chapter.number, "title": chapter.title, "exercises": [e.number for e in chapter.exercises]}
                for chapter in CHAPTERS
            ]
        )
        return
    for chapter in CHAPTERS:
        numbers = ", ".join(exercise.number for exercise in chapter.exercises)
        typer.echo(f"{chapter.number:>2}  {chapter.title:<52} exercises {numbers}")


@app.command()
def show(exercise: Annotated[str, typer.Argument(help="Its number, such as 3.2.", show_default=False)]) -> None:
    """Show the question of one exercise."""
    from tacit.course import exercise_named

    with reported("exercise"):
        found = exercise_named(exercise)
    typer.echo(f"{found.text}\nAnswer: {found.answer.form}.")


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
    from tacit.course import EXERCISES, check_sheet, exercise_named

    with reported("exercise", "answer", as_json=as_json):
        if exercise is not None and answer is None:
            raise InputError("answer", f"is missing: tacit course check {exercise} ANSWER")
        if exercise is None:
            found = check_sheet(sheet)
        else:
            asked = exercise_named(exercise)
            found = [(asked, asked.check(answer or ""))]
    right = sum(verdict.right for _, verdict in found)
    if as_json:
        print_json({"right": right, "answered": len(found), "answers": [_record(*each) for each in found]})
    else:
        for each in found:
            _print(*each)
        if exercise is None:
            still = len(EXERCISES) - len(found)
            counted = f"{right} of {len(found)} answers are right; " if found else "Nothing is answered yet; "
            typer.echo(f"{counted}{still} {'is' if still == 1 else 'are'} open.")
    if right < len(found):
        raise typer.Exit(1)


def _record(exercise: Exercise, verdict: AnswerVerdict) -> dict[str, object]:
    return {"exercise": exercise.number, "right": verdict.right, "words": verdict.words}


def _print(exercise: Exercise, verdict: AnswerVerdict) -> None:
    typer.echo(f"{exercise.number:>4}  {'right' if verdict.right else 'wrong'}  {visible(verdict.words)}")
