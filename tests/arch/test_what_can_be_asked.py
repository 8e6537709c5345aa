"""The page *What can be asked* says what the code says, and every example on it is accepted."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from tacit.query.aggregates import SQL_NAMES
from tacit.query.resolve import is_accepted
from tacit.query.resolve.sql_functions import PICKS, function_meanings

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_current_and_whole() -> None:
    spec = importlib.util.spec_from_file_location("what_can_be_asked", DOCS / "what_can_be_asked.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    page = script.PAGE.read_text(encoding="utf-8")
    assert page == script.page(), "run: PYTHONPATH=src python docs/what_can_be_asked.py"
    for name in (*SQL_NAMES, *PICKS, *function_meanings()):
        assert re.search(rf"^\|(?:\w+, )*{name.upper()}(?:, \w+)*\|.*`.+`\|$", page, flags=re.MULTILINE), name
    shown = [
        example.replace("\\|", "|")
        for example in re.findall(r"\|`(.+)`\|$", page.partition("## Clauses")[2], flags=re.MULTILINE)
    ]
    assert len(shown) > 120
    calls = ("{}", "SELECT COUNT({}) FROM visits", "SELECT {} AS x FROM visits")
    for example in shown[::7]:
        assert any(is_accepted(form.format(example), script.CATALOG) for form in calls), example
