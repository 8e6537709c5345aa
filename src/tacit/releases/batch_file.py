"""File of a planned release: named statistics and one total.

::

    [release]
    name = "Yearly report"
    epsilon = "1"                 # or rho, or mu, by kind of account
    delta = "1e-6"
    output = "yearly"             # a folder beside this file; by default "release"
    formats = ["csv", "parquet"]

    [statistics.visits_by_ward]
    sql = "SELECT ward, COUNT(*) AS visits FROM visits GROUP BY ward"
    weight = 2                    # twice the epsilon of a statistic of weight 1
    title = "Visits by ward"
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from tacit.core.errors import InputError
from tacit.core.numbers import exact_positive, exact_probability
from tacit.project.project_file import ContributionField, read_toml, validate
from tacit.query.contribution import ContributionNumber
from tacit.query.request import OPTIONS

_Number = str | int | float
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}\Z")
_RESERVED: Final = ("receipt", "report", "public-key")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _StatisticModel(_Strict):
    sql: str
    weight: _Number = 1
    title: str = ""
    max_groups: ContributionField | None = None
    max_rows: ContributionField | None = None


class _ReleaseModel(_Strict):
    name: str = "release"
    epsilon: _Number | None = None
    delta: _Number | None = None
    rho: _Number | None = None
    mu: _Number | None = None
    confidence: _Number = "0.95"
    bias_share: _Number = "0.04"
    output: str = "release"
    formats: tuple[Literal["csv", "parquet"], ...] = ("csv", "parquet")


class _FileModel(_Strict):
    release: _ReleaseModel
    statistics: dict[str, _StatisticModel]


@dataclass(frozen=True, slots=True)
class Statistic:
    """One question of a release; its name is that of its files.

    Args:
        weight: how much it matters; one of weight 2 gets twice the epsilon of one of weight 1.
        max_groups: the most groups that one unit counts in, or AUTO, if other than declared.
        max_rows: the most rows of one unit that count per group, or AUTO, if other than declared.
    """

    name: str
    sql: str
    weight: Fraction
    title: str
    max_groups: ContributionNumber | None
    max_rows: ContributionNumber | None = None


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """A plan, read and checked.

    Args:
        statistics: in the order of the file.
        currency: ``"epsilon"``, ``"rho"`` or ``"mu"``: which total was stated.
        delta: the total's delta, 0 when none was stated.
        confidence: of all intervals.
        output: the folder for the results.
        bias_share: share of each statistic's price that buys an estimate of what bounding leaves out.
    """

    name: str
    statistics: tuple[Statistic, ...]
    currency: str
    amount: Fraction
    delta: Fraction
    confidence: Fraction
    output: Path
    formats: tuple[str, ...]
    bias_share: Fraction = Fraction(1, 25)


def load_batch(path: str | Path) -> BatchPlan:
    """The plan in a file, or an InputError that names the place of the first problem."""
    place = Path(path)
    model = validate(_FileModel, read_toml(place, "plan"))
    if not model.statistics:
        raise InputError("statistics", "name at least one: [statistics.<name>] with its sql")
    stated = [word for word in ("epsilon", "rho", "mu") if getattr(model.release, word) is not None]
    if len(stated) != 1:
        raise InputError("release", f"state one total: epsilon, rho or mu; got {', '.join(stated) or 'none'}")
    about = model.release
    return BatchPlan(
        name=about.name,
        statistics=tuple(_statistic(name, said) for name, said in model.statistics.items()),
        currency=stated[0],
        amount=exact_positive(getattr(about, stated[0]), f"release.{stated[0]}"),
        delta=Fraction(0) if about.delta is None else exact_probability(about.delta, "release.delta"),
        confidence=exact_probability(about.confidence, "release.confidence"),
        output=place.parent / about.output,
        formats=tuple(dict.fromkeys(about.formats)),
        bias_share=OPTIONS["bias_share"].exact(about.bias_share),
    )


def _statistic(name: str, said: _StatisticModel) -> Statistic:
    if not _NAME.match(name) or name.lower() in _RESERVED:
        raise InputError(
            f"statistics.{name}", f"a name becomes a file: letters, digits, - and _, and not {', '.join(_RESERVED)}"
        )
    weight = exact_positive(said.weight, f"statistics.{name}.weight")
    return Statistic(name, said.sql, weight, said.title or name.replace("_", " "), said.max_groups, said.max_rows)
