"""Notebooks: what each object shows, errors of a few lines, pictures without a network."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

import tacit
from tacit.core.extras import MissingError
from tacit.releases.notebook import ChargeList

QUERY = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
HOSTILE = "<script>alert(1)</script>"


class Shell:
    """The parts of IPython's shell and of its displays that are used; a real kernel was tried by hand."""

    def __init__(self) -> None:
        self.formatters: dict[str, Any] = {"text/html": self}
        self.display_formatter = self
        self.types: dict[tuple[str, str], Callable[[Any], str]] = {}

    def for_type_by_name(self, module: str, name: str, function: Callable[[Any], str]) -> None:
        self.types[module, name] = function


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Shell:
    made = Shell()
    ipython = ModuleType("IPython")
    ipython.get_ipython = lambda: made  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    return made


@pytest.fixture
def curator() -> Iterator[tacit.Curator]:
    rows = pa.table({"id": list(range(400)), "ward": ["a", HOSTILE] * 200, "cost": [float(i % 9) for i in range(400)]})
    with tacit.open(rows, unit="id", epsilon="8", max_groups=1, max_rows=1, table="visits",
                    columns={"ward": ["a", HOSTILE], "cost": (0, 9)}) as made:  # fmt: skip
        yield made


def text_of(page: str) -> str:
    """The words of a page whose tags are closed."""
    words: list[str] = []
    opened: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: Any) -> None:
            opened.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert opened.pop() == tag

        def handle_data(self, data: str) -> None:
            words.append(data)

    Reader().feed(page)
    assert not opened
    assert "script" not in opened
    return re.sub(r"\s+", " ", " ".join(words))


def test_every_object_has_a_page_and_no_text_becomes_markup(curator: tacit.Curator) -> None:
    answer = curator.sql(QUERY, epsilon="1")
    quote = curator.explain(QUERY, epsilon="1")
    pages = {
        "answer": answer._repr_html_(),
        "quote": quote._repr_html_(),
        "budget": curator.budget()._repr_html_(),
        "table": curator.tables()[0]._repr_html_(),
        "curator": curator._repr_html_(),
        "history": ChargeList(curator.history())._repr_html_(),
    }
    for page in pages.values():
        assert "<script" not in page
        text_of(page)
    assert "It would cost epsilon 1 of people" in text_of(pages["quote"])
    assert "within" in text_of(pages["quote"])
    # One bar: shares without a limit of their own would repeat the population's.
    assert text_of(pages["budget"]).startswith("people epsilon: 12.5% of 8 spent people:")
    assert "from 0.0 to 9.0" in text_of(pages["table"])
    assert "visits: protects people" in text_of(pages["curator"])
    assert QUERY in text_of(pages["history"])
    assert curator.history() == tuple(curator.history())


def test_a_refusal_is_one_line(curator: tacit.Curator) -> None:
    with pytest.raises(tacit.QueryError) as refused:
        curator.sql("SELECT * FROM visits", epsilon="1")
    (line,) = refused.value._render_traceback_()
    assert line == f"{type(refused.value).__name__}: {refused.value}"
    assert "use aggregates" in line


def test_a_plot_is_a_picture(curator: tacit.Curator) -> None:
    chart = curator.sql(QUERY, epsilon="1").plot()
    bundle = chart._repr_mimebundle_()
    assert bundle["image/svg+xml"].startswith("<svg")
    assert "http" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", bundle["image/svg+xml"])
    assert chart.to_dict()["$schema"]


def test_intervals_are_shown_as_a_table(curator: tacit.Curator, shell: Shell) -> None:
    table = curator.sql(QUERY, epsilon="1").intervals()
    page = shell.types["pyarrow.lib", "Table"](table)
    assert "n_low n_high" in text_of(page)
    assert "<script" not in page


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_missing_library_is_named_with_the_command(
    curator: tacit.Curator, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = curator.sql(QUERY, epsilon="1")
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingError, match=f"{library}: is not installed: pip install {library}"):
        getattr(answer, f"to_{library}")()
