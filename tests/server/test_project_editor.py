"""The owner's editor over HTTP: who is let in, every page without a script, hostile values, stale pages, saving."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient

from tacit.cli.doctor import examine
from tacit.project.project_editing import EditedProject
from tacit.project.project_file import Project, load
from tacit.server.console.owner_mode import OwnerContext, most_percent, owner_app
from tacit.server.console.project_pages import guess_risks

PORT = 5999
HERE = f"http://127.0.0.1:{PORT}"
HIDDEN = re.compile(r'name="(csrf|revision)" value="([^"]*)"')


class Owner:
    """A browser without scripts: keeps the cookie, sends forms with what the page it saw last holds."""

    def __init__(self, folder: Path) -> None:
        self.ended: list[bool] = []
        self.editing = EditedProject(folder / "tacit.toml")
        self.gate = OwnerContext(self.editing, PORT, lambda: self.ended.append(True), examine)
        self.app = owner_app(self.gate)
        self.client = TestClient(self.app, base_url=HERE, follow_redirects=True)
        self.hidden: dict[str, str] = {}

    @property
    def text(self) -> str:
        """The project file."""
        return self.editing.read()[0]

    @property
    def content(self) -> dict[str, Any]:
        """What it says."""
        return self.editing.read()[1]

    def project(self) -> Project:
        """What it opens."""
        return load(self.editing.path)

    def write(self, text: str) -> None:
        """Edit the file by hand."""
        self.editing.path.write_text(text)
        self.get("/")

    def enter(self) -> None:
        """By the link of the terminal."""
        assert self.client.get(f"/open/{self.gate.secret}").status_code == 200
        self.get("/")

    def get(self, path: str, status: int = 200) -> str:
        """The text of a page."""
        return self._seen(self.client.get(self.gate.room + path), status)

    def post(self, path: str, status: int = 200, **fields: str) -> str:
        """Send a form; the page that follows."""
        body = urlencode({**self.hidden, **fields})
        return self._seen(
            self.client.post(
                self.gate.room + path, content=body, headers={"content-type": "application/x-www-form-urlencoded"}
            ),
            status,
        )

    def _seen(self, answer: object, status: int) -> str:
        assert answer.status_code == status, answer.text  # type: ignore[attr-defined]
        assert answer.headers["cache-control"] == "no-store"  # type: ignore[attr-defined]
        text = str(answer.text)  # type: ignore[attr-defined]
        self.hidden |= dict(HIDDEN.findall(text))
        return text


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    rows = "".join(f"{n % 40},{'A' if n % 3 else 'a '},{n}.5\n" for n in range(120))
    (tmp_path / "visits.csv").write_text(f"patient_id,ward,cost\n{rows}")
    found = Owner(tmp_path)
    found.enter()
    return found


def test_only_the_link_of_the_terminal_opens_it_and_once(tmp_path: Path) -> None:
    owner = Owner(tmp_path)
    room = owner.gate.room
    for path in ("/", "/check", f"{room}/", f"{room}/check", "/open/" + "0" * 32, "/open/x"):
        page = owner.client.get(path).text
        assert "does not open the editor" in page
        assert "tacit.toml" not in page
    assert owner.client.post(f"{room}/finish", data={"csrf": owner.gate.owner.csrf}).status_code == 403
    assert owner.client.head(f"/open/{owner.gate.secret}").status_code == 403
    owner.enter()
    # Another browser has the used link.
    stranger = TestClient(owner.app, base_url=HERE)
    assert stranger.get(f"/open/{owner.gate.secret}").status_code == 403
    assert stranger.get(f"{room}/").status_code == 403
    # Another server on this machine, at another port, does not get the cookie: its path is not known there.
    assert "cookie" not in owner.client.build_request("GET", "http://127.0.0.1:8000/").headers
    assert "cookie" in owner.client.build_request("GET", f"{HERE}{room}/check").headers


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:5999", "127.0.0.1", "127.0.0.1:1", "127.0.0.1:5999.evil"]
)
def test_a_name_elsewhere_that_points_here_is_refused(owner: Owner, host: str) -> None:
    for path in (f"{owner.gate.room}/", f"/open/{owner.gate.secret}"):
        answer = owner.client.get(path, headers={"host": host})
        assert (answer.status_code, "tables" in answer.text) == (421, False)


def test_a_host_that_is_said_twice_is_refused(owner: Owner) -> None:
    answer = owner.client.get(f"{owner.gate.room}/", headers=[("host", "127.0.0.1:5999"), ("host", "evil.example")])
    assert (answer.status_code, "tables" in answer.text) == (400, False)


def test_a_form_that_states_what_is_there_is_not_out_of_date(owner: Owner) -> None:
    owner.post("/", source="visits.csv")
    old, said = dict(owner.hidden), {"type": "decimal", "step": "0.1", "low": "0", "high": "50"}
    owner.post("/column?table=visits&column=cost", **said)
    owner.hidden = old
    page = owner.post("/column?table=visits&column=cost", **said)
    assert 'role="alert"' not in page
    assert 'name="high" value="50"' in page


def test_forms_from_elsewhere_are_refused(owner: Owner) -> None:
    form = {"revision": owner.hidden["revision"], "epsilon": "9", "accounting": "pure", "relation": "add_remove"}
    for token, headers in (("", {}), ("0" * 32, {}), (owner.gate.owner.csrf, {"origin": "https://evil.example"}),
                           (owner.gate.owner.csrf, {"sec-fetch-site": "cross-site"})):  # fmt: skip
        answer = owner.client.post(
            f"{owner.gate.room}/budget?population=people", data={**form, "csrf": token}, headers=headers
        )
        assert answer.status_code == 403
        assert "did not come from a page" in answer.text
    assert not owner.editing.path.exists()


def test_a_project_from_a_file_to_the_saved_text_without_scripts(owner: Owner) -> None:
    page = owner.post("/", source="visits.csv")
    assert "First values, not private" in page
    assert "patient_id (a guess, by its name)" in page
    page = owner.post("/table?table=visits", part="unit", unit="patient_id", population="people")
    assert "120 rows of 40 people" in page
    assert "What each number of rows keeps" in page
    owner.post("/table?table=visits", part="limits", max_rows="3", max_groups="auto")
    page = owner.post("/column?table=visits&column=ward", type="text", categories="A\nB")
    assert "33.3 % of the rows are in no category" in page
    assert "<code>a </code> differs from <code>A</code>" in page
    page = owner.post("/column?table=visits&column=cost", type="decimal", step="0.1", low="0", high="50")
    assert "41.7 % of the values are kept" in page
    assert "<line" in page
    page = owner.post("/budget?population=people", epsilon="2", delta="", accounting="pure", relation="add_remove")
    assert "2, chosen" in page
    page = owner.get("/check")
    assert "Nothing left open" in page
    assert "the project can be opened" in page
    assert ">problem<" not in page
    assert "Finished" in owner.post("/finish")
    assert owner.ended == [True]
    saved = owner.editing.path.read_text()
    assert 'cost       = { type = "decimal", step = "0.1", bounds = [0, 50] }' in saved
    assert "max_rows = 3" in saved
    assert owner.editing.path.stat().st_mode & 0o777 == 0o600
    # Nothing of the rows is in the file but what was chosen.
    assert "119.5" not in saved
    assert not (owner.editing.folder / "tacit.ledger").exists()


def test_a_stale_tab_is_told_and_shows_what_is_there(owner: Owner) -> None:
    owner.post("/", source="visits.csv")
    old = dict(owner.hidden)
    owner.post("/column?table=visits&column=cost", type="decimal", step="0.1", low="0", high="50")
    owner.hidden = old
    page = owner.post("/column?table=visits&column=cost", 400, type="decimal", step="0.1", low="0", high="9")
    assert "edited elsewhere" in page
    assert 'name="high" value="50"' in page
    owner.post("/column?table=visits&column=cost", type="decimal", step="0.1", low="0", high="9")
    assert "bounds = [0, 9]" in owner.text


def test_markup_in_names_and_values_is_text(owner: Owner) -> None:
    bad = "<script>alert(1)</script>"
    (owner.editing.folder / "bad.csv").write_text(
        f'"<img src=x>",ward,"x{"y" * 200}"\n' + f'{bad},"{bad}","{"z" * 5000}\x1b[0m"\n' * 6
    )
    page = owner.post("/", source="bad.csv")
    page += owner.get("/column?table=bad&column=ward")
    page += owner.get("/check")
    assert bad not in page
    assert "<img src=x>" not in page
    assert unescape(page).count(bad) >= 2
    assert "z" * 200 not in page
    assert "\x1b" not in page


def test_what_is_typed_wrong_is_told_on_the_page(owner: Owner) -> None:
    assert "there is no file" in owner.post("/", 400, source="gone.csv")
    for odd in ("\0.csv", "a" * 3000 + ".csv", "~unknown/x.csv", ".", "/dev/null"):
        assert 'role="alert"' in owner.client.post(f"{owner.gate.room}/", data={**owner.hidden, "source": odd}).text
    assert "there is no table" in owner.get("/table?table=nothing", 400)
    owner.post("/", source="visits.csv")
    assert "there is no column" in owner.get("/column?table=visits&column=x", 400)
    page = owner.post("/column?table=visits&column=cost", type="decimal", step="0.1", low="9", high="1")
    assert "tables.visits.columns.cost" in page
    page = owner.post("/budget?population=people", epsilon="1", delta="1e-6", accounting="pure", relation="add_remove")
    assert "needs epsilon, and nothing else" in page
    owner.editing.path.write_text("x = [")
    assert "is not TOML" in owner.get("/", 400)
    # A text that is TOML and no project is shown with its first problem, and can be corrected.
    owner.write("tables = 3\n")
    for path in ("/", "/check"):
        assert "Still to do" in owner.get(path)
    owner.get("/nowhere", 404)


def test_lines_that_are_no_rows_and_values_that_cannot_be_read_are_told(owner: Owner) -> None:
    (owner.editing.folder / "torn.csv").write_text("a,b,c\n" + "1,x,2\n" * 5 + '2,"y,3\n3,z,n/a\n')
    page = owner.post("/", source="torn.csv")
    assert "line 7 of torn.csv is no row" in unescape(page)
    owner.post("/column?table=torn&column=b", type="integer")
    assert "no value of b can be read as INTEGER" in unescape(owner.get("/table?table=torn"))


def test_settings_that_cannot_be_read_can_be_corrected(owner: Owner) -> None:
    owner.post("/", source="visits.csv")
    page = owner.post("/table?table=visits", part="form", encoding="utf-99")
    assert "is not known" in unescape(page)
    assert 'name="encoding" value="utf-99"' in page
    page = owner.post("/table?table=visits", part="form", encoding="")
    assert "First values, not private" in page
    page = owner.post("/column?table=visits&column=cost", type="date", date_format="%Q")
    assert "%Q is not a part of a date format" in unescape(page)
    assert 'value="%Q"' in page


def test_a_table_that_reaches_its_unit_by_a_foreign_key_keeps_it(owner: Owner) -> None:
    (owner.editing.folder / "patients.csv").write_text("patient_id,age\n" + "".join(f"{n},30\n" for n in range(40)))
    owner.write(
        """
[populations.people]
epsilon = "1"
[tables.patients]
source = "patients.csv"
population = "people"
unit = "patient_id"
[tables.patients.columns]
patient_id = { type = "integer", unique = true }
[tables.visits]
source = "visits.csv"
population = "people"
[tables.visits.columns]
patient_id = { type = "integer", references = "patients.patient_id" }
ward = { type = "text" }
""",
    )
    before = owner.content
    page = owner.get("/table?table=visits")
    assert "reached by a foreign key" in page
    assert "What each number of rows keeps" in page
    owner.post("/table?table=visits", part="unit", unit="", population="people")
    assert owner.content == before


def test_a_foreign_key_has_a_form(owner: Owner) -> None:
    (owner.editing.folder / "patients.csv").write_text("patient_id,age\n" + "".join(f"{n},30\n" for n in range(40)))
    owner.post("/", source="patients.csv")
    owner.post("/table?table=patients", part="unit", unit="patient_id", population="people")
    owner.post("/column?table=patients&column=patient_id", type="integer", unique="yes")
    owner.post("/", source="visits.csv")
    page = owner.post("/column?table=visits&column=patient_id", type="integer", references="patients")
    assert "must be &#39;table.column&#39;" in page
    owner.post("/column?table=visits&column=patient_id", type="integer", references="patients.patient_id")
    page = owner.post("/table?table=visits", part="unit", unit="", population="people")
    assert "reached by a foreign key" in page
    owner.post("/budget?population=people", epsilon="1", accounting="pure", relation="add_remove")
    project = owner.project()
    (key,) = next(table for table in project.catalog.tables if table.name == "visits").foreign_keys
    assert (key.column, key.table, key.references) == ("patient_id", "patients", "patient_id")
    assert "unit" not in owner.content["tables"]["visits"]


@pytest.mark.parametrize("wrong", [{"max_groups": "many"}, {"max_rows": "0"}])
def test_a_wrong_number_of_a_table_leaves_its_form_there(owner: Owner, wrong: dict[str, str]) -> None:
    owner.post("/", source="visits.csv")
    owner.post("/table?table=visits", part="unit", unit="patient_id", population="people")
    said = {"part": "limits", "max_rows": "3", "max_groups": "1"}
    page = owner.post("/table?table=visits", 400, **(said | wrong))
    assert f"tables.visits.{next(iter(wrong))}" in page
    assert 'name="max_rows"' in page
    owner.post("/table?table=visits", **said)
    assert owner.content["tables"]["visits"]["max_rows"] == 3


def test_a_column_with_a_long_name_has_a_page(owner: Owner) -> None:
    name = "ß" * 60
    (owner.editing.folder / f"{'ü' * 60}.csv").write_text(f'person,"{name}"\n' + "1,2\n" * 5)
    owner.post("/", source=f"{'ü' * 60}.csv")


def test_risks_are_rounded_up() -> None:
    assert [most_percent(chance) for _, chance, _ in guess_risks(None)] == [
        "52.5 %",
        "62.3 %",
        "73.2 %",
        "88.1 %",
        "98.3 %",
        "over 99.9 %",
    ]
