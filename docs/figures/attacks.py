"""Draw the figures of docs/course/09-why-not-just.md, print its tables: python docs/figures/attacks.py [folder]."""

from __future__ import annotations

import sys
import tempfile
from fractions import Fraction
from pathlib import Path

from tacit.audit.attacks import Comparison, link_inexactly, made_up_films
from tacit.audit.attacks import scenarios as attack_chapters
from tacit.audit.attacks.scenarios import ATTACKS, demo_target, open_scene

HERE = Path(__file__).parent
EPSILONS = [Fraction(epsilon) for epsilon in ("0.1", "0.3", "1", "3", "10")]


def draw(folder: Path) -> None:
    """Run the attacks on the hospital of ``tacit demo`` and save their charts."""
    # More victims than the command has time for.
    attack_chapters._VICTIMS = 160  # type: ignore[misc]
    with tempfile.TemporaryDirectory() as place, open_scene(demo_target(Path(place))) as scene:
        for name in ("linkage", "differencing", "reconstruction", "membership"):
            for result in ATTACKS[name](scene, EPSILONS, print).results:
                print(result.title, *result.table(), sep="\n")
                if isinstance(result, Comparison) and name in ("differencing", "membership"):
                    result.chart(folder / f"attack-{name}.svg")
    table = made_up_films(people=1000, films=500, per_person=25)
    print(*link_inexactly(table, films=[1, 2, 3, 4, 6, 8], victims=100), sep="\n")


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
