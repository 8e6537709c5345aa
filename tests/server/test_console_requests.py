"""Requests to the console: headers, cookies, forms, escaping, roles."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus, unquote

import pyarrow.parquet as pq
import pytest

import tacit
from support.served import COUNT, Served, serve
from support.visiting import Visitor
from tacit.server.identity import Role

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg onload=alert(1)>",
    "{{7*7}}{% raw %}",
    "</textarea><script>alert(1)</script>",
    "javascript:alert(1)",
    "&lt;b&gt;&#x27;",
    "\u202eevil\u2066",
    "--><!--<style>",
)


@pytest.fixture
def served() -> Iterator[Served]:
    found = serve()
    yield found
    found.close()


@pytest.fixture
def visit(served: Served) -> Iterator[Any]:
    made: list[Visitor] = []

    def signed_in(name: str = "", base: str = "http://tacit") -> Visitor:
        visitor = Visitor(served, base)
        made.append(visitor)
        if name:
            assert visitor.sign_in(name).status_code == 303
        return visitor

    yield signed_in
    for visitor in made:
        visitor.close()


class _Tags(HTMLParser):
    """Every element and its attributes, as a browser would see them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def tame(text: str) -> None:
    """Nothing inline, nothing from elsewhere, one script."""
    for tag, attributes in _Tags(text).found:
        assert not any(name.startswith("on") or name == "style" for name in attributes), (tag, attributes)
        assert tag not in ("style", "iframe", "object", "embed", "base"), tag
        if tag == "script":
            assert set(attributes) == {"src", "defer"}
        for name in ("src", "href", "action", "formaction", "srcset"):
            assert (attributes.get(name) or "/").startswith(("/console/", "/", "#")), attributes
            assert not (attributes.get(name) or "").startswith("//")


def ask(visitor: Visitor, sql: str = COUNT, amount: str = "0.5", **more: str) -> Any:
    return visitor.post("/console/ask", sql=sql, pay="epsilon", amount=amount, confidence="0.95", **more)


PAGES = (
    "ask",
    "datasets",
    "history",
    "budget",
    "guarantee",
    "people",
    "people/one?name=alice",
    "ledger",
    "nowhere",
)


def test_every_page_has_the_policy_and_nothing_inline(visit: Any) -> None:
    olga = visit("olga")
    ask(olga)
    for page in (*PAGES, "sign-in", "sessions", "answers/1", "link/x"):
        found = olga.get(f"/console/{page}")
        policy = found.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; ")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'; base-uri 'none'" in policy
        assert found.headers["cache-control"] == "no-store"
        assert found.headers["x-content-type-options"] == "nosniff"
        assert "server" not in found.headers
        tame(found.text)


def test_a_stranger_is_asked_to_sign_in(visit: Any) -> None:
    stranger = visit()
    sent = stranger.get("/console/history?before=5")
    assert sent.status_code == 303
    assert sent.headers["location"] == "/console/sign-in?next=%2Fconsole%2Fhistory%3Fbefore%3D5"
    assert "one-time link" in stranger.get(sent.headers["location"]).text


def test_a_link_from_elsewhere_is_asked_once_more_from_here(visit: Any) -> None:
    found = visit().get("/console/ask", sec_fetch_site="cross-site")
    assert found.status_code == 200
    assert 'http-equiv="refresh"' in found.text


def test_the_session_cookie_is_kept_from_scripts_and_other_sites(visit: Any) -> None:
    cookies = visit().sign_in("alice").headers.get_list("set-cookie")
    session = next(cookie for cookie in cookies if cookie.startswith("tacit_session="))
    assert {part.strip().lower() for part in session.split(";")[1:]} == {"httponly", "path=/", "samesite=strict"}


def test_behind_tls_the_cookie_says_so() -> None:
    served = serve(behind_proxy=True)
    visitor = Visitor(served, "https://tacit")
    found = visitor.sign_in("alice")
    session = next(c for c in found.headers.get_list("set-cookie") if c.startswith("__Host-tacit_session="))
    assert {part.strip().lower() for part in session.split(";")[1:]} == {
        "httponly",
        "path=/",
        "samesite=strict",
        "secure",
    }
    assert visitor.get("/console/ask").status_code == 200
    visitor.close()
    served.close()


def test_signing_in_again_ends_the_session_before(visit: Any) -> None:
    alice = visit("alice")
    copy = visit()
    copy.client.cookies.set("tacit_session", alice.client.cookies["tacit_session"])
    assert copy.get("/console/history").status_code == 200
    alice.sign_in("alice")
    assert alice.get("/console/history").status_code == 200
    assert copy.get("/console/history").status_code == 303


def test_sign_out_ends_the_session_itself(visit: Any) -> None:
    alice = visit("alice")
    copy = visit()
    copy.client.cookies.set("tacit_session", alice.client.cookies["tacit_session"])
    assert alice.post("/console/sign-out").status_code == 303
    assert "tacit_session" not in alice.client.cookies
    assert copy.get("/console/history").status_code == 303


FORMS = ("ask", "quote", "table.csv", "table.parquet", "sign-out", "people", "people/revoke", "people/token",
         "people/quota")  # fmt: skip


@pytest.mark.parametrize("path", FORMS)
def test_a_form_without_the_token_does_nothing(visit: Any, served: Served, path: str) -> None:
    olga = visit("olga")
    for wrong in ("", "0" * 32, "é"):
        found = olga.post(f"/console/{path}", csrf=wrong, name="alice", sql=COUNT, pay="epsilon", amount="1")
        assert found.status_code == 403
        assert "out of date" in found.text
    assert served.spent() == 0
    person = served.people.person("alice")
    assert person is not None
    assert person.active
    assert olga.get("/console/history").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "cross-site", "origin": "http://tacit"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://tacit.evil.example"},
    ],
)
def test_a_form_from_elsewhere_does_nothing_even_with_the_token(
    visit: Any, served: Served, headers: dict[str, str]
) -> None:
    alice = visit("alice")
    found = alice.post("/console/ask", headers=headers, sql=COUNT, pay="epsilon", amount="1")
    assert found.status_code == 403
    assert served.spent() == 0


def test_a_form_from_here_works(visit: Any) -> None:
    alice = visit("alice")
    behind_a_proxy_with_its_own_host = {"sec-fetch-site": "same-origin", "origin": "https://tacit.example.org"}
    for headers in ({"sec-fetch-site": "same-origin"}, {"origin": "http://tacit"}, behind_a_proxy_with_its_own_host):
        found = alice.post("/console/quote", headers=headers, sql=COUNT, pay="epsilon", amount="1")
        assert found.status_code == 200


def test_no_user_is_signed_in_by_a_form_of_another_site(visit: Any, served: Served) -> None:
    way = f"/console/link/{served.people.link('alice', operator='test')}"
    assert visit().post(way, csrf="").status_code == 403
    stranger = visit()
    stranger.get(way)
    assert stranger.post(way, headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert stranger.post(way).status_code == 303, "and the link was not used up"


@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data; boundary=x", "text/plain", ""])
def test_only_plain_forms_are_read(visit: Any, served: Served, kind: str) -> None:
    alice = visit("alice")
    found = alice.post("/console/ask", headers={"content-type": kind}, sql=COUNT, pay="epsilon", amount="1")
    assert found.status_code == 400
    assert served.spent() == 0


def test_analysts_and_auditors_do_not_find_the_pages_of_owners(visit: Any, served: Served) -> None:
    for name in ("alice", "audrey"):
        visitor = visit(name)
        assert visitor.get("/console/people").status_code == 404
        assert visitor.get("/console/people/one?name=alice").status_code == 404
        assert visitor.post("/console/people", name="mallory", role="owner").status_code == 403
        assert visitor.post("/console/people/revoke", name="bob").status_code == 403
        assert "/console/people" not in visitor.get("/console/budget").text
    assert served.people.person("mallory") is None


def test_an_auditor_sees_everything_and_asks_nothing(visit: Any, served: Served) -> None:
    ask(visit("alice"))
    audrey = visit("audrey")
    assert audrey.get("/console/").headers["location"] == "/console/history"
    page = audrey.get("/console/history")
    assert "alice" in page.text
    assert "Write again" not in page.text
    position = re.search(r"/console/receipts/(\d+)", page.text)
    assert position is not None
    assert audrey.get(position.group(0)).status_code == 200
    assert audrey.get("/console/ask").status_code == 404
    assert ask(audrey).status_code == 403
    assert audrey.post("/console/quote", sql=COUNT, pay="epsilon", amount="1").status_code == 403
    assert audrey.get("/console/ledger").status_code == 200
    assert "/console/ask" not in page.text


def test_others_receipts_and_answers_are_not_there(visit: Any) -> None:
    first = ask(visit("alice"))
    position = re.search(r"/console/receipts/(\d+)", first.text)
    assert position is not None
    carol = visit("carol")
    number = position.group(1)
    theirs = [carol.get(f"/console/{what}/{number}") for what in ("receipts", "answers")]
    never = [carol.get(f"/console/{what}/999999") for what in ("receipts", "answers")]
    for one, other in zip(theirs, never, strict=True):
        assert (one.status_code, one.text) == (other.status_code, other.text)
        assert one.status_code == 404


def test_tables_of_other_populations_do_not_exist(visit: Any) -> None:
    carol = visit("carol")
    assert "staff" not in carol.get("/console/datasets").text
    hidden = carol.post("/console/quote", sql="SELECT COUNT(*) FROM staff", pay="epsilon", amount="1")
    absent = carol.post("/console/quote", sql="SELECT COUNT(*) FROM stuff", pay="epsilon", amount="1")
    assert hidden.text == absent.text.replace("stuff", "staff")
    assert "employees" not in carol.get("/console/budget").text


def test_an_answer_its_repeat_and_its_receipt(visit: Any, served: Served) -> None:
    alice = visit("alice")
    quoted = alice.post("/console/quote", sql=COUNT, pay="epsilon", amount="0.5")
    assert "ε 0.5" in quoted.text
    assert "How far off, 95% of the time" in quoted.text
    assert served.spent() == 0
    first = ask(alice)
    assert "Charged ε 0.5" in first.text
    assert "±" in first.text
    assert '<svg class="plot" role="img" aria-label="Chart of n with 95% intervals' in first.text
    spent = served.spent()
    again = ask(alice)
    assert "Free repeat" in again.text
    assert served.spent() == spent
    assert _table(first.text) == _table(again.text)
    assert "Free" in alice.post("/console/quote", sql=COUNT, pay="epsilon", amount="0.5").text
    position = re.search(r"/console/receipts/(\d+)", first.text)
    assert position is not None
    paper = alice.get(position.group(0))
    assert paper.headers["content-disposition"] == f'attachment; filename="receipt-{position.group(1)}.json"'
    assert tacit.verify_receipt(paper.text, served.curator.public_key).ok
    page = alice.get(f"/console/answers/{position.group(1)}")
    assert _table(page.text) == _table(first.text)
    rows = alice.get(f"/console/answers/{position.group(1)}/table.csv")
    home = alice.get(f"/console/answers/{position.group(1)}/table.ipynb")
    assert home.headers["content-type"] == "application/x-ipynb+json"
    assert "PUBLIC_KEY" in home.text
    assert "table.ipynb" in page.text
    assert rows.text.splitlines()[0] == "ward,n,n_low,n_high"
    assert served.spent() == spent


def _table(text: str) -> str:
    return text[text.index("<tbody>", text.index("data result")) : text.index("</table>", text.index("data result"))]


def test_what_another_paid_for_comes_with_a_receipt_and_none_of_their_words(visit: Any, served: Served) -> None:
    ask(visit("alice"), COUNT + " -- what Zelda told me")
    page = ask(visit("carol")).text
    assert "Free repeat" in page
    assert "Zelda" not in page
    assert "/console/receipts/" not in page, "no link to what is not there for her"
    shown = re.search(r'aria-label="Signed receipt">([^<]*)</textarea>', page)
    assert shown is not None
    receipt = unescape(shown.group(1))
    assert tacit.verify_receipt(receipt, served.curator.public_key).ok
    assert json.loads(receipt)["receipt"]["answers"][0]["query"] == COUNT


def test_files_of_an_answer_and_never_a_charge(visit: Any, served: Served) -> None:
    alice = visit("alice")
    fields = {"sql": COUNT, "pay": "epsilon", "amount": "0.5", "confidence": "0.95"}
    early = alice.post("/console/table.csv", **fields)
    assert early.status_code == 409
    assert served.spent() == 0, "what was not released is not asked by a download"
    ask(alice)
    spent = served.spent()
    carol = visit("carol")
    assert carol.post("/console/table.csv", **fields).status_code == 409, "that others asked it is not told"
    code = re.search(r'name="release" value="([0-9a-f]{64})"', ask(carol).text)
    assert code is not None
    for visitor, given in ((alice, {}), (carol, {"release": code.group(1)})):
        fields |= given
        text = visitor.post("/console/table.csv", **fields)
        assert text.headers["content-disposition"] == 'attachment; filename="answer.csv"'
        assert text.headers["cache-control"] == "no-store"
        rows = list(csv.reader(text.text.splitlines()))
        assert rows[0] == ["ward", "n", "n_low", "n_high"]
        pasted = visitor.post("/console/table.tsv", **fields).text
        assert [line.split("\t") for line in pasted.splitlines()] == rows
        parquet = pq.read_table(io.BytesIO(visitor.post("/console/table.parquet", **fields).content))
        assert parquet.column("n").to_pylist() == [int(row[1]) for row in rows[1:]]
    assert alice.post("/console/table.exe", **fields).status_code == 404
    position = re.search(r"/console/answers/(\d+)/table.parquet", alice.get("/console/history").text)
    assert position is not None
    assert alice.get(position.group(0)).content[:4] == b"PAR1"
    assert visit("carol").get(position.group(0)).status_code == 404, "it is not in her history"
    assert served.spent() == spent


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "＝"])
def test_no_file_for_a_spreadsheet_has_a_formula(visit: Any, start: str) -> None:
    alice = visit("alice")
    sql = f"SELECT '{start}1+1' AS \"{start.strip() or '='}k\", COUNT(*) AS n FROM visits"
    shown = ask(alice, sql)
    assert "Charged" in shown.text
    for form, separator in (("csv", ","), ("tsv", "\t")):
        text = alice.post(f"/console/table.{form}", sql=sql, pay="epsilon", amount="0.5", confidence="0.95").text
        head, row = list(csv.reader(io.StringIO(text), delimiter=separator))
        assert row[0] == f"'{start}1+1"
        assert head[0].startswith("'")


def test_a_query_of_the_history_fills_the_form_and_is_asked_again_for_nothing(visit: Any, served: Served) -> None:
    alice = visit("alice")
    ask(alice)
    spent = served.spent()
    place = re.search(r"/console/ask\?like=(\d+)", alice.get("/console/history").text)
    assert place is not None
    page = alice.get(place.group()).text
    assert f">{COUNT}</textarea>" in page
    assert 'name="amount" value="0.5"' in page
    assert "Answered before: free." in page
    assert "Free repeat" in ask(alice).text
    assert served.spent() == spent
    assert visit("carol").get(place.group()).status_code == 404


def test_the_short_line_beside_ask_has_the_unit_of_each_error(visit: Any) -> None:
    found = visit("alice").get(f"/console/ask?sql={quote_plus('SELECT MEDIAN(cost) AS m FROM visits')}&epsilon=0.25")
    assert re.search(r"m ± [\d.]+ values in rank, 95% of the time", found.text)


def test_a_link_fills_the_query_in_and_asks_nothing(visit: Any, served: Served) -> None:
    alice = visit("alice")
    found = alice.get(f"/console/ask?sql={quote_plus(COUNT)}&epsilon=0.25&confidence=0.9")
    assert "Nothing is asked before you press Ask" in found.text
    assert f">{COUNT}</textarea>" in found.text
    assert "ε 0.25" in found.text
    assert "90% of the time" in found.text
    assert served.spent() == 0
    assert alice.get("/console/ask?sql=SELECT+1+FROM&epsilon=x").status_code == 200
    stranger = visit().get(f"/console/ask?sql={quote_plus(COUNT)}")
    assert stranger.status_code == 303
    assert "ask%3Fsql%3D" in stranger.headers["location"], "and it is there after signing in"


def test_public_tables_are_viewed(visit: Any, served: Served) -> None:
    alice = visit("alice")
    links = re.findall(r'href="(/console/ask\?sql=[^"]*)"', alice.get("/console/datasets").text)
    texts = [unquote(link.partition("sql=")[2]) for link in links]
    assert "SELECT * FROM wards" in texts
    shown = ask(alice, "SELECT * FROM wards")
    assert "Exact and free" in shown.text
    assert alice.post("/console/table.csv", sql="SELECT * FROM wards", pay="epsilon", amount="1").text.startswith(
        "name,"
    )
    assert served.spent() == 0
    for link in links:
        page = alice.get(unescape(link))
        assert 'class="trouble"' not in page.text, link


def test_a_refusal_names_the_rule_and_charges_nothing(visit: Any, served: Served) -> None:
    found = ask(visit("alice"), "SELECT * FROM visits")
    assert found.status_code == 422
    assert "cannot be answered as written" in found.text
    assert found.text.count("query.not_aggregated") == 1, "said once, below the query"
    assert "Rule: a protected column" in found.text
    assert served.spent() == 0


def test_a_spent_budget_says_so_and_repeats_stay_free(visit: Any) -> None:
    alice = visit("alice")
    assert ask(alice, amount="10").status_code == 200
    found = ask(alice, "SELECT COUNT(*) AS n FROM visits")
    assert found.status_code == 402
    assert "The budget does not allow this" in found.text
    assert "That is more than is left." in found.text
    assert "The budget is spent" in alice.get("/console/budget").text
    assert "Free repeat" in ask(alice, amount="10").text


def test_a_revoked_person_is_out_at_the_next_click(visit: Any, served: Served) -> None:
    alice = visit("alice")
    served.people.revoke("alice", operator="test")
    sent = ask(alice)
    assert sent.status_code == 401
    assert "Your session has ended" in sent.text
    assert COUNT in sent.text, "what they wrote is not lost"
    assert alice.get("/console/history").status_code == 303
    assert served.spent() == 0


def test_the_script_gets_parts(visit: Any, served: Served) -> None:
    alice = visit("alice")
    headers = {"tacit-part": "1", "x-csrf-token": alice.csrf}
    found = alice.post("/console/quote", csrf="", headers=headers, sql=COUNT, pay="epsilon", amount="0.5")
    assert found.text.startswith('<div data-into="quote"')
    assert "<html" not in found.text
    served.people.revoke("alice", operator="test")
    ended = alice.post("/console/ask", headers=headers, sql=COUNT, pay="epsilon", amount="0.5")
    assert ended.status_code == 401
    assert ended.text.startswith('<div data-into="result"')
    assert "/console/sign-in" in ended.text


def test_an_owner_adds_a_person_who_comes_in_by_a_link(visit: Any, served: Served) -> None:
    olga = visit("olga")
    page = olga.post("/console/people", name="erin", role="analyst", sees__patients="yes")
    link = re.search(r'value="(/console/link/[^"]+)"', page.text)
    assert link is not None
    person = served.people.person("erin")
    assert person is not None
    assert (person.role, person.populations) == (Role.ANALYST, frozenset({"patients"}))
    assert link.group(1) not in olga.get("/console/people").text, "shown once"
    erin = visit()
    assert "Welcome, erin" in erin.get(link.group(1)).text
    assert "Welcome, erin" in erin.get(link.group(1)).text, "a preview does not use it up"
    assert erin.post(link.group(1)).status_code == 303
    assert erin.get("/console/ask").status_code == 200
    assert visit().get(link.group(1)).status_code == 404, "works once"
    again = olga.post("/console/people", name="erin", role="owner", sees="all")
    assert (again.status_code, "erin is here already" in again.text) == (400, True), "no person is changed by adding"


def test_what_a_person_may_see_has_to_be_ticked(visit: Any, served: Served) -> None:
    """Everything as well: a form that was sent too early gives nothing."""
    olga = visit("olga")
    nothing = olga.post("/console/people", name="erin", role="auditor")
    assert nothing.status_code == 400
    assert "nothing is ticked; tick all populations, or those that they may see" in nothing.text
    assert 'value="erin"' in nothing.text, "what was typed is kept"
    assert '<option value="auditor" selected>' in nothing.text
    both = olga.post("/console/people", name="erin", role="auditor", sees="all", sees__patients="yes")
    assert (both.status_code, "all and single ones are ticked" in both.text) == (400, True)
    assert olga.post("/console/people", name="erin", role="auditor", sees="some").status_code == 400
    assert olga.post("/console/people", name="erin", role="auditor", sees__martians="yes").status_code == 400
    assert olga.post("/console/people", name="erin", sees="all").status_code == 400, "and a role"
    owner = olga.post("/console/people", name="erin", role="owner", sees__patients="yes")
    assert (owner.status_code, "an owner sees everything" in owner.text) == (400, True)
    assert served.people.person("erin") is None
    assert olga.post("/console/people", name="erin", role="auditor", sees="all").status_code == 200
    person = served.people.person("erin")
    assert person is not None
    assert person.populations is None


def test_what_a_person_sees_is_changed_where_their_role_is(visit: Any, served: Served) -> None:
    olga = visit("olga")
    page = olga.get("/console/people/one?name=carol").text
    assert '<input type="checkbox" name="sees.patients" value="yes" checked>' in page
    assert '<input type="checkbox" name="sees" value="all">' in page
    assert olga.post("/console/people/role", name="carol", role="analyst").status_code == 400
    assert olga.post("/console/people/role", name="carol", role="owner", sees__patients="yes").status_code == 400
    changed = olga.post("/console/people/role", name="carol", role="auditor", sees__employees="yes")
    assert "carol is auditor from now on, and sees employees." in changed.text
    person = served.people.person("carol")
    assert person is not None
    assert (person.role, person.populations) == (Role.AUDITOR, frozenset({"employees"}))


def test_the_first_owner_comes_in_by_the_set_up_link(visit: Any, served: Served) -> None:
    served.people.revoke("olga", operator="test")
    secret = served.people.set_up_link()
    stranger = visit()
    assert "Become the owner" in stranger.get(f"/console/link/{secret}").text
    assert stranger.post(f"/console/link/{secret}", name="a\nb").status_code == 400, "and can be typed again"
    assert stranger.post(f"/console/link/{secret}", name="ada").status_code == 303
    assert stranger.get("/console/people").status_code == 200
    assert visit().get(f"/console/link/{secret}").status_code == 404


def test_a_token_is_shown_once_works_and_is_withdrawn(visit: Any, served: Served) -> None:
    olga = visit("olga")
    page = olga.post("/console/people/token", name="alice", label="notebook", days="30")
    text = re.search(r'value="(tacit_[^"]+)"', page.text)
    assert text is not None
    assert served.people.authenticate(text.group(1)) is not None
    assert text.group(1) not in olga.get("/console/people/one?name=alice").text
    info = next(token for token in served.people.tokens("alice") if token.label == "notebook")
    assert olga.post("/console/people/withdraw", name="bob", token=info.id).status_code == 404
    assert olga.post("/console/people/withdraw", name="alice", token=info.id).status_code == 200
    assert served.people.authenticate(text.group(1)) is None
    assert olga.post("/console/people/token", name="alice", label="x", days="-1").status_code == 400
    page = olga.post("/console/people/token", name="alice", label="assistant", days="30", share="0.5")
    assert "at most epsilon 0.5 of each population" in page.text
    assert "within epsilon 0.5" in olga.get("/console/people/one?name=alice").text
    assert olga.post("/console/people/token", name="alice", label="x", days="30", share="much").status_code == 400


def test_a_share_stops_a_person_and_is_an_alert(visit: Any, served: Served) -> None:
    olga = visit("olga")
    page = olga.post("/console/people/quota", name="alice", population="patients", cap__epsilon="0.5")
    assert "The share is set." in page.text
    alice = visit("alice")
    assert "your share" in alice.get("/console/budget").text
    assert ask(alice, amount="0.5").status_code == 200
    assert ask(alice, "SELECT COUNT(*) AS n FROM visits").status_code == 402
    assert "alice has used up their share of patients" in olga.get("/console/ledger").text
    olga.post("/console/people/quota", name="alice", population="patients", cap__epsilon="")
    assert ask(alice, "SELECT COUNT(*) AS n FROM visits").status_code == 200
    wrong = olga.post("/console/people/quota", name="alice", population="patients", cap__epsilon="much")
    assert wrong.status_code == 400
    assert olga.post("/console/people/quota", name="alice", population="martians", cap__epsilon="1").status_code == 404


def test_roles_change_and_owners_cannot_lock_themselves_out(visit: Any, served: Served) -> None:
    olga = visit("olga")
    olga.post("/console/people/role", name="alice", role="auditor", sees="all")
    person = served.people.person("alice")
    assert person is not None
    assert person.role is Role.AUDITOR
    alone = olga.post("/console/people/role", name="olga", role="analyst", sees="all")
    assert (alone.status_code, "cannot step down" in alone.text) == (400, True)
    assert olga.post("/console/people/revoke", name="olga").status_code == 400
    assert olga.post("/console/people/role", name="alice", role="emperor", sees="all").status_code == 400
    assert olga.post("/console/people/revoke", name="unknown").status_code == 404


def test_a_ledger_that_stopped_is_an_alert_and_nothing_is_asked(tmp_path: Path) -> None:
    served = serve(ledger=str(tmp_path / "ledger"))
    olga = Visitor(served)
    olga.sign_in("olga")
    served.curator.ledger.journal.stopped = "of a secret reason"
    page = olga.get("/console/ledger")
    assert page.status_code == 200
    assert "The ledger has stopped" in page.text
    answered = [ask(olga), *(olga.get(f"/console/{page}") for page in ("ask", "history", "budget"))]
    for each in answered:
        assert each.status_code == 503
        assert "The ledger has stopped" in each.text
        assert "secret reason" not in each.text
    olga.close()
    served.close()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"accounting": "pure", "epsilon": "1"}, ("whether you are in the data at all", "73.2%", "88.1%", "ε = 1")),
        ({"accounting": "approx", "epsilon": "1", "delta": "1e-6"}, ("one in 1,000,000", "one in 268,941", "+ δ")),
        ({"accounting": "zcdp", "rho": "0.1", "delta": "1e-7"}, ("ρ = 0.1", "which is ε = 2.1")),
        ({"accounting": "gdp", "mu": "1"}, ("μ = 1",)),
        (
            {"accounting": "pure", "epsilon": "1", "relation": "replace_one"},
            ("knows that you are in the data", "73.2%"),
        ),
    ],
)
def test_the_promise_is_computed_from_the_budget(words: dict[str, str], told: tuple[str, ...]) -> None:
    served = serve(budgets={"patients": words, "employees": {"accounting": "pure", "epsilon": "5"}})
    alice = Visitor(served)
    alice.sign_in("carol")
    for page in ("guarantee", "budget", "datasets", "ask"):
        assert alice.get(f"/console/{page}").status_code == 200
    text = alice.get("/console/guarantee").text
    for each in told:
        assert each in text
    moves_further = "two different versions of you" in text
    assert moves_further == (words.get("relation") != "replace_one")
    alice.close()
    served.close()


@pytest.mark.parametrize("text", [*HOSTILE[:3], *(pytest.param(text, marks=pytest.mark.deep) for text in HOSTILE[3:])])
def test_hostile_text_stays_text(visit: Any, served: Served, text: str) -> None:
    olga = visit("olga")
    pages = [
        ask(olga, text),
        olga.post("/console/quote", sql=text, pay=text, amount=text, confidence=text, suppose=text, delta=text),
        olga.post("/console/quote", sql=f'SELECT COUNT(*) AS "{text}" FROM visits', pay="epsilon", amount="0.01"),
        ask(olga, f"SELECT '{text}' AS k, COUNT(*) AS n FROM visits", amount="0.01"),
        olga.post("/console/people", name=text, role=text),
        olga.get("/console/people"),
        olga.post("/console/people/token", name="alice", label=text, days="30"),
        olga.post("/console/people/revoke", name="bob", reason=text),
        olga.get("/console/history"),
        olga.get(f"/console/ask?sql={quote_plus(text)}&epsilon={quote_plus(text)}&delta={quote_plus(text)}"),
        olga.post("/console/build", table=text, group0=text, measure0=text, where0="street", is0="is", value0=text),
        olga.post("/console/build", table="visits", where0="street", is0="is", value0=text),
        olga.post("/console/curve", sql=text, pay=text, amount=text),
        olga.post("/console/again", position=text),
        olga.post("/console/queries", title=text, sql=text, pay=text, amount=text),
        olga.get("/console/queries"),
        olga.post("/console/queries/share", id=text, shared="yes"),
        visit().get(f"/console/sign-in?next={quote_plus(text)}"),
        visit().get(f"/console/sign-in/{quote_plus(text)}"),
        visit().get(f"/console/link/{quote_plus(text)}"),
        visit().get("/console/" + "".join(f"%{byte:02x}" for byte in text.encode())),
    ]
    for page in pages:
        tame(page.text)
        assert page.status_code < 500
        if "<" in text:
            assert text not in page.text


@pytest.mark.parametrize("path", ["/", "/console"])
def test_no_redirect_goes_to_the_host_that_a_request_names(visit: Any, path: str) -> None:
    found = visit(base="http://evil.example").get(path)
    assert (found.status_code, found.headers["location"]) == (307, "/console/")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("OPTIONS", "/console/sign-in", 405),
        ("TRACE", "/console/sign-in", 405),
        ("PUT", "/console/ask", 405),
        ("DELETE", "/console/people", 405),
        ("GET", "/console/a\nb", 400),
        ("GET", "/console/a\r\nset-cookie: x", 400),
        ("POST", "/console", 405),
    ],
)
def test_what_no_page_takes_is_refused_like_everything_else(
    served: Served, method: str, path: str, status: int
) -> None:
    found, headers, body = served.raw(method, path, name="", headers=[(b"host", b"tacit")])
    assert found == status
    assert b"frame-ancestors 'none'" in headers[b"content-security-policy"]
    assert (headers[b"cache-control"], headers[b"x-content-type-options"]) == (b"no-store", b"nosniff")
    assert body.startswith(b"<!doctype html>")
    assert headers.get(b"allow", b"").startswith(b"GET, HEAD") == (status == 405)


def test_a_form_that_says_something_twice_is_refused(visit: Any, served: Served) -> None:
    """Of two roles, or two tokens, each reader could take another."""
    olga = visit("olga")
    sent = {"content-type": "application/x-www-form-urlencoded"}
    for twice in (f"csrf=x&csrf={olga.csrf}&role=analyst", f"csrf={olga.csrf}&role=analyst&role=owner"):
        body = f"{twice}&name=erin&sees=all"
        found = olga._runner.run(olga.client.post("/console/people", content=body, headers=sent))
        assert (found.status_code, "a field that occurs twice" in found.text) == (400, True)
    assert served.people.person("erin") is None


def test_static_files_are_kept_long_and_named_by_their_content(visit: Any) -> None:
    page = visit().get("/console/sign-in").text
    addresses = re.findall(r'(?:href|src)="(/console/static/[^"]+)"', page)
    assert len(addresses) == 3
    for address in addresses:
        found = visit().get(address)
        assert found.status_code == 200
        assert "immutable" in found.headers["cache-control"]
        old = address.replace(address.split("/")[3], "0" * 16)
        assert visit().get(old).status_code == 404


def test_a_client_that_comes_too_often_is_told_to_wait() -> None:
    served = serve(reads_per_minute=10)
    alice = Visitor(served)
    alice.sign_in("alice")
    found = [alice.get("/console/guarantee") for _ in range(12)][-1]
    assert found.status_code == 429
    assert "Too many requests" in found.text
    assert 1 <= int(found.headers["retry-after"]) <= 6
    alice.close()
    served.close()


@pytest.mark.parametrize("partly", [{}, {"tacit-part": "1"}])
def test_a_query_that_came_too_soon_or_found_no_room_says_when_to_come_back(partly: dict[str, str]) -> None:
    served = serve(asks_per_minute=1, threads=1, queue=0)
    alice = Visitor(served)
    alice.sign_in("alice")
    words = {"sql": COUNT, "pay": "epsilon", "amount": "0.5"}
    served.app.state.runtime.asking.taken = 1
    served.app.state.runtime.asking._people["alice"] = 1
    busy = alice.post("/console/ask", headers=partly, **words)
    assert (busy.status_code, busy.headers["retry-after"]) == (503, "1")
    served.app.state.runtime.asking.taken = 0
    served.app.state.runtime.asking._people.clear()
    often = alice.post("/console/ask", headers=partly, **words)
    assert often.status_code == 429
    assert 1 <= int(often.headers["retry-after"]) <= 60
    served.app.state.draining = True
    gone = alice.get("/console/ask")
    assert (gone.status_code, gone.headers["retry-after"]) == (503, "1")
    alice.close()
    served.close()


def test_a_user_sees_and_ends_their_sessions_and_an_owner_those_of_others(visit: Any, served: Served) -> None:
    here, there, olga = visit("alice"), visit("alice"), visit("olga")
    page = here.get("/console/sessions")
    assert page.text.count("this one") == 1
    (other,) = re.findall(r'name="session" value="([^"]+)"', page.text)
    dan = visit("dan")
    dan.get("/console/sessions")
    for words in ({}, {"name": "alice"}):
        assert dan.post("/console/sessions", session=other, **words).status_code == 404
    assert there.get("/console/ask").status_code == 200
    assert here.post("/console/sessions", session=other).status_code == 303
    assert there.get("/console/ask").status_code == 303, "signed out"
    page = olga.get("/console/people/one?name=alice")
    (last,) = re.findall(r'name="session" value="([^"]+)"', page.text)
    assert olga.post("/console/sessions", session=last, name="alice").status_code == 303
    assert here.get("/console/ask").status_code == 303
    ended = [fields for _, fields in served.curator.ledger.notes("session ended")]
    assert [(each["analyst"], each["operator"]) for each in ended] == [("alice", "alice"), ("alice", "olga")]
    assert served.people.authenticate(served.tokens["alice"]) is not None, "programs go on"


@pytest.mark.parametrize(
    ("base", "settings", "shown"),
    [
        ("http://evil.example", {}, ""),
        ("http://localhost.evil.example", {}, ""),
        ("http://127.0.0.1:8470", {}, "http://127.0.0.1:8470"),
        ("http://localhost:8470", {}, "http://localhost:8470"),
        ("http://evil.example", {"address": "https://tacit.example.org"}, "https://tacit.example.org"),
        ("https://evil.example", {"behind_proxy": True}, ""),
    ],
)
def test_the_address_of_a_link_is_not_what_a_request_says(base: str, settings: dict[str, Any], shown: str) -> None:
    served = serve(**settings)
    visitor = Visitor(served, base)
    assert visitor.sign_in("olga").status_code == 303
    page = visitor.post("/console/people/link", name="alice").text
    visitor.close()
    served.close()
    assert "evil.example" not in page
    assert f"{shown}/console/link/" in page
    assert ("Put it behind the address of this server" in page) == (not shown)


def test_an_answer_without_groups_says_what_shows_more(visit: Any) -> None:
    page = ask(visit("alice"), "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward HAVING COUNT(*) > 99999").text
    assert "No group had enough people in it to be shown at this cost." in page
    assert "Each number is within" not in page
