"""An accessibility checker for pages: light and dark, on a desk and on a phone."""

from __future__ import annotations

from typing import Any

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
DESK = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}
#: Looks of a page with the rules that are checked in them: all in the first, then those that colours and width decide.
COLOURS = ["color-contrast", "link-in-text-block"]
SIZES = ["target-size", "scrollable-region-focusable"]
LOOKS: tuple[tuple[str, Any, list[str]], ...] = (
    ("light", DESK, []),
    ("dark", DESK, COLOURS),
    ("light", PHONE, SIZES),
    ("dark", PHONE, COLOURS),
)


def findings(page: Any) -> list[str]:
    """Violations that the checker reports for the page that is shown."""
    from axe_playwright_python.sync_playwright import Axe

    found = []
    checker = Axe()
    for scheme, size, rules in LOOKS:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size(size)
        options: dict[str, Any] = {"resultTypes": ["violations"]}
        if rules:
            options["runOnly"] = {"type": "rule", "values": rules}
        for each in checker.run(page, options=options).response["violations"]:
            where = f"{page.url} {scheme} {size['width']}: {each['id']}"
            found += [f"{where}: {node['html'][:160]}" for node in each["nodes"]]
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(DESK)
    return found
