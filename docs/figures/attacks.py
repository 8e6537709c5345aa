"""Draw the figures of docs/course/09-why-not-just.md in a few minutes: python docs/figures/attacks.py [folder]."""

from __future__ import annotations

import sys
import tempfile
from fractions import Fraction
from pathlib import Path

from tacit.audit.attacks import link_inexactly, made_up_films
from tacit.audit.attacks import scenarios as attack_chapters
from tacit.audit.attacks.scenarios import ATTACKS, demo_target, open_scene

HERE = Path(__file__).parent
EPSILONS = [Fraction(epsilon) for epsilon in ("0.1", "0.3", "1", "3", "10")]
#: Which result of which attack goes into which file.
FIGURES = {
    "attack-linkage-profile": ("linkage", 0),
    "attack-differencing": ("differencing", 0),
    "attack-reconstruction-noise": ("reconstruction", 1),
    "attack-membership": ("membership", 0),
    "attack-collusion": ("collusion", 0),
}


def draw_ratings(folder: Path) -> None:
    """The film table, which needs no hospital: a minute."""
    table = made_up_films(people=1000, films=500, per_person=25)
    found = link_inexactly(table, films=[1, 2, 3, 4, 6, 8], stars=1, days=14, victims=100)
    found.chart(folder / "attack-ratings.svg")
    print(found)


def draw(folder: Path) -> None:
    """Run the attacks on the hospital of ``tacit demo`` and save their charts."""
    # More victims than the command has time for.
    attack_chapters._VICTIMS, attack_chapters._POOLED = 160, 40  # type: ignore[misc]
    with tempfile.TemporaryDirectory() as place, open_scene(demo_target(Path(place))) as scene:
        told = {name: ATTACKS[name](scene, EPSILONS, print) for name in {name for name, _ in FIGURES.values()}}
    for file, (name, which) in FIGURES.items():
        told[name].results[which].chart(folder / f"{file}.svg")
        print(told[name].results[which])


if __name__ == "__main__":
    draw_ratings(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
