"""Report of a planned release as one HTML page.

Charts are inline SVG, drawn before the page is written; there is no script in it. Every text from outside is escaped.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Final

from tacit.accounting.currencies import currency_of
from tacit.core.guarantees import ApproxDP, Guarantee
from tacit.core.numbers import exp_bounds, float_nearest, format_up
from tacit.core.relations import ADD_REMOVE
from tacit.query.planning.explain import Explanation, explain
from tacit.releases.batch_file import BatchPlan, Statistic
from tacit.releases.budget_split import Split
from tacit.releases.receipt import Receipt
from tacit.releases.views.answer_object import Answer
from tacit.releases.views.answer_text import html_table

#: Beyond this many bars a chart is a carpet.
_MOST_BARS: Final = 60
_STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1 { margin-bottom: 0; } h2 { margin-top: 2.5rem; border-top: 1px solid #ddd; padding-top: 1.5rem; }
table { border-collapse: collapse; margin: 1rem 0; } th, td { padding: .25rem .75rem; border-bottom: 1px solid #eee; }
th { text-align: right; } pre { background: #f6f6f6; padding: .75rem; overflow-x: auto; white-space: pre-wrap; }
.quiet { color: #666; } svg { max-width: 100%; height: auto; } code { overflow-wrap: anywhere; }
"""


def report_page(
    batch: BatchPlan, split: Split, answers: Mapping[str, Answer], receipt: Receipt, public_key: str
) -> str:
    """The whole page."""
    title = html.escape(batch.name)
    sections = (line for each in batch.statistics for line in _section(each, answers[each.name]))
    body = "\n".join([*_head(batch, split, receipt), *sections, *_foot(split, receipt, public_key)])
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}\n</body>\n</html>\n"
    )


def guarantee_in_words(guarantee: Guarantee, population: str) -> str:
    """Meaning of a guarantee for one person, in a sentence or two."""
    who = "one of them is in the data or not"
    if guarantee.relation is not ADD_REMOVE:
        who = "the data of one of them is theirs or another person's"
    pair, given = _as_pair(guarantee)
    times = format_up(Fraction(exp_bounds(pair.epsilon)[1]), 3)
    but = f", apart from a chance of {format_up(pair.delta, 3)}" if pair.delta else ""
    return (
        f"Everything on this page protects each of the {population}: whether {who}, no result of this release becomes "
        f"more than {times} times likelier{but}. {given}"
    )


def _as_pair(guarantee: Guarantee) -> tuple[ApproxDP, str]:
    currency = currency_of(guarantee)
    shown = {name: f"{name} {format_up(number)}" for name, number in currency.shown(guarantee).items()}
    if not currency.relaxed:
        return currency.as_pair(guarantee), f"That is {currency.concept} with {' and '.join(shown.values())}."
    first, *others = shown.values()
    own = "".join(f" (and {other})" for other in others)
    return currency.as_pair(guarantee), f"It follows from {currency.concept} with {first}{own}."


def _head(batch: BatchPlan, split: Split, receipt: Receipt) -> Iterator[str]:
    population = str(receipt["population"])
    count = len(batch.statistics)
    yield f'<p class="quiet">{count} statistics about {html.escape(population)}, released together.</p>'
    yield f"<p>{html.escape(guarantee_in_words(split.guarantee, population))}</p>"
    yield (
        f"<p>The persons are counted by <code>{html.escape(str(receipt['unit']))}</code>. Noise was added to every "
        f"number, once, and is part of it for good; how much is public and stands beside each result. The total covers "
        f"all statistics together: {html.escape(split.method)}.</p>"
    )


def _section(statistic: Statistic, answer: Answer) -> Iterator[str]:
    words = explain(answer.paid[0])
    yield f'<section id="{html.escape(statistic.name)}">\n<h2>{html.escape(statistic.title)}</h2>'
    yield _chart(answer)
    yield html_table(answer)
    yield f"<pre>{html.escape(statistic.sql)}</pre>"
    yield f'<p class="quiet">{html.escape(_noise(words))}</p>\n</section>'


def _noise(words: Explanation) -> str:
    parts = [f"{words.bounding}.", f"Groups: {words.keys}."]
    parts += [f"{release.name}: {release.mechanism} noise, scale {release.scale}." for release in words.releases]
    return " ".join(part[0].upper() + part[1:] for part in parts)


def _chart(answer: Answer) -> str:
    """The chart as inline SVG; nothing where there is nothing to draw."""
    if not any(answer.finished.has_interval) or not 0 < len(answer) <= _MOST_BARS:
        return ""
    sink = io.StringIO()
    answer.plot().save(sink, format="svg")
    found = re.search(r"<svg.*</svg>", sink.getvalue(), re.DOTALL)
    return f"<figure>{found.group(0)}</figure>" if found else ""


def _foot(split: Split, receipt: Receipt, public_key: str) -> Iterator[str]:
    place = receipt["ledger"]
    charge = ", ".join(f"{name} {format_up(Fraction(text))}" for name, text in receipt["charge"].items()) or "nothing"
    intervals = float_nearest(100 * split.plans[0].confidence)
    yield "<h2>How to check this</h2>"
    yield (
        f"<p>Charged {html.escape(charge)}, at position {place['position']} of ledger "
        f"<code>{html.escape(place['id'])}</code>. Intervals hold with {intervals:g}% each, over the noise; clipping "
        f"to bounds and groups that were left out are not in them.</p>"
    )
    yield (
        "<p><code>receipt.json</code> states all of the above, signed. <code>tacit receipt verify receipt.json</code> "
        "checks it offline with the curator's public key, and computes the charge from the mechanisms again:</p>"
        f"<p><code>{html.escape(public_key)}</code></p>"
    )
