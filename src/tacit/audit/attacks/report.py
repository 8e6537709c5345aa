"""Report of all attacks on one self-contained HTML page."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tacit.audit.attacks.counts import Pooling, ReconstructionGrid
from tacit.audit.attacks.linkage import Exposure, LinkageProfile
from tacit.audit.attacks.success_rate import Comparison, Result, SuccessRate, Words, percent
from tacit.core.numbers import format_up

_STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1 { margin-bottom: 0; } h2 { margin-top: 2.5rem; border-top: 1px solid #ddd; padding-top: 1.5rem; }
table { border-collapse: collapse; margin: 1rem 0; } th, td { padding: .25rem .75rem; border-bottom: 1px solid #eee; }
td:first-child, th:first-child { text-align: left; } td, th { text-align: right; } figure { margin: 1rem 0; }
.quiet { color: #666; } .moral { border-left: 4px solid #0072b2; padding-left: .75rem; }
svg { max-width: 100%; height: auto; }
"""


@dataclass(frozen=True)
class Chapter:
    """One attack and all that it found.

    Args:
        words: what it is.
        results: what came out; empty where it could not be run.
        note: why not, or how it was run.
    """

    words: Words
    results: tuple[Result, ...]
    note: str = ""

    def content(self) -> dict[str, Any]:
        """Plain figures under stable keys."""
        return {
            "attack": self.words.name,
            "title": self.words.title,
            "note": self.note,
            "moral": self.words.moral,
            "results": [result.content() for result in self.results],
        }


def headline(result: Result) -> str:
    """The result in one sentence."""
    match result:
        case Comparison():
            words = [f"Unprotected: {_short(result.unprotected)} right"]
            for epsilon, rate in result.protected[:1]:
                words.append(f"through Tacit at ε = {format_up(epsilon, 3)}: {_short(rate)}")
            return f"{'; '.join([*words, f'a blind guess: {percent(result.chance)}'])}."
        case LinkageProfile():
            last = result.steps[-1]
            return f"Knowing {_list(last.known)}, an outsider finds {_short(last.linked)} of the people."
        case Exposure():
            one = result.sizes[-1]
            return f"{one.rows:,} published rows expose {one.measured:.3g} people on average."
        case ReconstructionGrid():
            best = [cell for cell in result.cells if 0 < cell[1] <= 0.5]
            ratio, noise, share = max(best or result.cells, key=lambda cell: cell[2])
            return f"{ratio:g} totals per person, each off by up to {noise:g}√n, give back {percent(share)} of secrets."
        case Pooling():
            count, own, shared = result.points[-1]
            return f"{count} analysts with a budget each: {_short(own)}; with one account: {_short(shared)}."
        case _:
            return result.title


def _short(rate: SuccessRate) -> str:
    return percent(rate.share)


def _list(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def report_page(title: str, chapters: Sequence[Chapter], *, about: str) -> str:
    """The page.

    Args:
        title: its headline.
        chapters: what to show.
        about: what was attacked.
    """
    body = "\n".join([*_opening(about), *(line for chapter in chapters for line in _chapter(chapter)), *_closing()])
    name = html.escape(title)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{name}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{name}</h1>\n{body}\n</body>\n</html>\n"
    )


def _opening(about: str) -> Iterator[str]:
    yield f'<p class="quiet">{html.escape(about)}</p>'
    yield (
        "<p>Each attack below was run twice: against the bare data, protected by a usual rule such as "
        "“no names”, “only totals” or “a little noise”, and against a curator that answers the same queries within a "
        "budget ε for everything that is ever said about one person. Small ε is strong protection: no attack, however "
        "clever, is right more often than the dotted line.</p>"
    )


def _chapter(chapter: Chapter) -> Iterator[str]:
    yield f"<section>\n<h2>{html.escape(chapter.words.title)}</h2>\n<p>{html.escape(chapter.words.how)}</p>"
    for result in chapter.results:
        yield f"<p><strong>{html.escape(headline(result))}</strong></p>\n<figure>{result.svg()}</figure>"
        if isinstance(result, Comparison):
            yield _table(result)
    if chapter.note:
        yield f'<p class="quiet">{html.escape(chapter.note)}</p>'
    yield f'<p class="moral">{html.escape(chapter.words.moral)}</p>\n</section>'


def _table(found: Comparison) -> str:
    rows = [("unprotected", f"{found.unprotected.hits:,} of {found.unprotected.tries:,}", found.unprotected.text, "")]
    rows += [
        (f"ε = {format_up(epsilon, 3)}", f"{rate.hits:,} of {rate.tries:,}", rate.text, percent(limit))
        for (epsilon, rate), limit in zip(found.protected, found.limits, strict=True)
    ]
    rows.append(("blind guess", "", percent(found.chance), ""))
    cells = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return (
        f"<table><tr><th></th><th>right</th><th>share</th><th>in the long run no attack above</th></tr>{cells}</table>"
    )


def _closing() -> Iterator[str]:
    yield (
        "<h2>About these figures</h2>\n<p>They are shares of many people; no one’s row is on this page. But they were "
        "computed on the bare data, without noise: show them to those who may know the data, and do not publish them. "
        "The page needs no network, and nothing was sent anywhere.</p>"
    )
