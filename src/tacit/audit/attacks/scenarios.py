"""Each attack with its victims, its unprotected twin and the curator, on the example or a project.

The curator is a real one with a ledger in memory: the owner's ledger is neither read nor charged. Each run of an attack
is a new analyst, whose share of the budget is the cost of the run.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.audit import attacks
from tacit.audit.attacks.counts import CountWithout, bounded_noise, hide_small, noise_anew
from tacit.audit.attacks.people import MEMBERSHIP, MODELS, SAMPLING, CountsBySecret, KnownRow, Losses
from tacit.audit.attacks.results import Chapter, Figures, choose, choose_evenly, percent
from tacit.core.errors import InputError
from tacit.core.extras import install_command
from tacit.core.numbers import float_nearest
from tacit.engines.frames import PlainFrame

if TYPE_CHECKING:
    from tacit.curator.curator import Curator
    from tacit.project.project_file import Project
    from tacit.query.catalog import Column, Table

#: Epsilon of the whole account: enough for all runs of all attacks, each of which has its own share.
_ALL_RUNS: Final = "1000000"
#: The most public values of a column in a table of counts.
_MOST_VALUES: Final = 250
_MOST_KNOWN: Final = 5
#: Beyond this many rows only the first are attacked.
_MOST_ROWS: Final = 400_000


@dataclass(frozen=True)
class Target:
    """Target of the attacks: a secret, the people who have it or not, and the columns that outsiders know.

    Args:
        project: the project that holds the data.
        source: FROM clause with all columns.
        narrow: FROM clause with at least the unit and the secret.
        unit: unit column, which identifies the person of a row.
        population: the protected population.
        secret: SQL expression whose values are ``values``.
        values: possible secrets, a few.
        value: the secret that attacks on single persons ask about; None for the one nearest to half of the people.
        known: columns that outsiders know, the best known first.
        finite: public values of those columns in ``known`` that have some.
    """

    project: Project
    source: str
    narrow: str
    unit: str
    population: str
    secret: str
    values: tuple[Any, ...]
    value: Any
    known: tuple[str, ...]
    finite: Mapping[str, tuple[Any, ...]]


@dataclass
class TargetPerson:
    """Unprotected data of one person; ``known`` and ``secret`` are those of the first row."""

    number: Any
    known: tuple[Hashable, ...]
    secret: int
    secrets: set[int] = field(default_factory=set)


def demo_target(folder: Path) -> Target:
    """The hospital of ``tacit demo``: was this patient in oncology?"""
    from tacit.project.example_hospital import make_hospital
    from tacit.project.project_file import load

    project = load(make_hospital().write(folder))
    tables = {table.name: table for table in project.catalog.tables}
    wards = next(column for column in tables["visits"].columns if column.name == "ward")
    known = ("district", "sex", "age", "admitted")
    columns = [column for name in ("patients", "visits") for column in tables[name].columns if column.name in known]
    return Target(
        project,
        "visits JOIN patients USING (patient_id)",
        "visits",
        "patient_id",
        "patients",
        quoted("ward"),
        _public_values(wards),
        "oncology",
        known,
        _finite(columns),
    )


def project_target(path: Path, table: str | None, secret: str | None, known: str | None) -> Target:
    """Return a table of a project as the target; defaults follow from the owner's declarations."""
    from tacit.project.project_file import load
    from tacit.project.project_template import read_project

    read_project(path)
    project = load(path)
    chosen = _table(project, table)
    columns = [column for column in chosen.columns if column.name != chosen.unit]
    hidden, expression, values = _secret(columns, secret)
    open_to_all = _known([column for column in columns if column is not hidden], known)
    return Target(
        project,
        quoted(chosen.name),
        quoted(chosen.name),
        chosen.unit or "",
        chosen.population or "",
        expression,
        values,
        None,
        tuple(column.name for column in open_to_all),
        _finite(open_to_all),
    )


def _table(project: Project, name: str | None) -> Table:
    able = [table for table in project.catalog.tables if not table.public and table.unit not in (None, "row")]
    if name is not None:
        able = [table for table in able if table.name.lower() == name.lower()]
    if not able:
        what = "has no protected table" if name is None else f"has no protected table {name!r}"
        raise InputError("table", f"the project {what} with a unit column, which says whose a row is")
    return able[0]


def _secret(columns: Sequence[Column], name: str | None) -> tuple[Column, str, tuple[Any, ...]]:
    """Return the secret column: the one named, or the last with few public values."""
    named = [column for column in columns if name is not None and column.name.lower() == name.lower()]
    if name is not None and not named:
        raise InputError(
            "secret", f"there is no column {name!r}; choose from {', '.join(each.name for each in columns)}"
        )
    for column in named or reversed(columns):
        values = _public_values(column)
        if values == (False, True) or (column.categories is not None and 2 <= len(values) <= 40):
            return column, quoted(column.name), values
    for column in named or reversed(columns):
        if column.type.is_numeric and column.bounds is not None:
            low, high = (Fraction(end) for end in column.bounds)  # type: ignore[arg-type]
            return column, f"({quoted(column.name)} >= {float((low + high) / 2):g})", (False, True)
    raise InputError("secret", "name a column with declared categories (2 to 40), with bounds, or true and false")


def _known(columns: Sequence[Column], names: str | None) -> list[Column]:
    if names is not None:
        found = {column.name.lower(): column for column in columns}
        wanted = [name.strip() for name in names.split(",") if name.strip()]
        for name in wanted:
            if name.lower() not in found:
                left = ", ".join(column.name for column in columns)
                raise InputError("known", f"there is no column {name!r}; choose from {left}")
        chosen = [found[name.lower()] for name in wanted]
    else:
        # Columns with few values first: they are the easiest to know about a person.
        chosen = sorted(columns, key=lambda column: len(_public_values(column)) or 10**6)[:_MOST_KNOWN]
    chosen = [column for column in chosen if column.type.kind.name != "DOUBLE"]
    if not chosen:
        raise InputError("known", "name columns that outsiders may know about a person, such as age,sex,town")
    return chosen


def _public_values(column: Column) -> tuple[Any, ...]:
    if column.categories is not None:
        return tuple(value for value in column.categories if value is not None)
    if column.type.kind.name == "BOOLEAN":
        return False, True
    if column.type.kind.name == "INTEGER" and column.bounds is not None:
        low, high = (int(str(end)) for end in column.bounds)
        return tuple(range(low, high + 1)) if high - low < _MOST_VALUES else ()
    return ()


def _finite(columns: Sequence[Column]) -> dict[str, tuple[Any, ...]]:
    found = {column.name: _public_values(column) for column in columns}
    return {name: values for name, values in found.items() if 2 <= len(values) <= _MOST_VALUES}


class Scene:
    """Unprotected rows, and a curator of the same data."""

    def __init__(self, target: Target, rows: list[tuple[Any, ...]], curator: Curator) -> None:
        self.target = target
        self.curator = curator
        #: Known values, the index of the secret, and the unit, for every row.
        self.rows = [(row[1:-1], self._place(row[-1]), row[0]) for row in rows if row[-1] in target.values]
        self._runs = itertools.count(1)
        if len(self.people) < 40:
            raise InputError("table", f"has {len(self.people)} people with a declared secret; attacks need 40")

    def _place(self, secret: Any) -> int:
        return self.target.values.index(secret)

    @cached_property
    def people(self) -> list[TargetPerson]:
        """All people, by first appearance."""
        found: dict[Any, TargetPerson] = {}
        for known, secret, number in self.rows:
            person = found.setdefault(number, TargetPerson(number, known, secret))
            person.secrets.add(secret)
        return list(found.values())

    @cached_property
    def value(self) -> int:
        """Index of the secret that attacks on single persons ask about."""
        if self.target.value is not None:
            return self._place(self.target.value)
        having: dict[int, int] = defaultdict(int)
        for person in self.people:
            for secret in person.secrets:
                having[secret] += 1
        return min(having, key=lambda secret: abs(having[secret] - len(self.people) / 2))

    @cached_property
    def bit(self) -> str:
        """SQL condition that a person has the secret."""
        return f"{self.target.secret} = {literal(self.target.values[self.value])}"

    @property
    def truths(self) -> list[bool]:
        """Whether each person has the secret value, in the order of people."""
        return [self.value in person.secrets for person in self.people]

    @cached_property
    def unit(self) -> str:
        """Unit column, quoted for SQL."""
        return quoted(self.target.unit)

    def holds_for_all(self, wording: int) -> str:
        """Return a condition that holds for every person, different for each wording: no person has such a number."""
        numbers = [person.number for person in self.people]
        if isinstance(numbers[0], int):
            return f"{self.unit} <> {min(numbers) - 1 - wording}"
        return f"{self.unit} <> {literal(f'no person {wording}')}"

    def hire(self, epsilon: Fraction) -> str:
        """Register a new analyst with a share of ``epsilon``, and return their name."""
        name = f"attacker-{next(self._runs)}"
        self.curator.ledger.add_analyst(name)
        # Costs are rounded up to whole units of the account; a part in a million leaves room for that.
        self.curator.ledger.set_quota(self.target.population, {"epsilon": epsilon + epsilon / 10**6}, analyst=name)
        return name

    def count(self, where: str, cost: Fraction, analyst: str) -> float:
        """Count the people with rows that satisfy ``where``, through the curator."""
        sql = f"SELECT COUNT(DISTINCT {self.unit}) AS n FROM {self.target.narrow} WHERE {where}"  # noqa: S608
        answer = self.curator.sql(sql, epsilon=cost, max_groups=1, max_rows=1, analyst=analyst)
        return float(answer.finished.values[0][0] or 0)  # type: ignore[arg-type]


@contextmanager
def open_scene(target: Target) -> Iterator[Scene]:
    """Open the unprotected rows and a curator with a ledger in memory."""
    from tacit.curator.opening import open_project
    from tacit.ledger.memory import MEMORY
    from tacit.project.project_file import PopulationModel

    populations = {
        name: PopulationModel(epsilon=_ALL_RUNS, relation=model.relation)
        for name, model in target.project.populations.items()
    }
    project = replace(target.project, populations=populations, ledger=None, anchor=None, key=None)
    rows = _bare_rows(target)
    with open_project(project, ledger=MEMORY) as curator:
        yield Scene(target, rows, curator)


def _bare_rows(target: Target) -> list[tuple[Any, ...]]:
    """Read the unprotected twin: unit, known columns and secret of every row."""
    from tacit.engines.registry import open_unprotected

    with open_unprotected(target.project.catalog, target.project.sources) as connection:
        wanted = ", ".join([quoted(target.unit), *map(quoted, target.known), target.secret])
        return connection.execute(
            f"SELECT {wanted} FROM {target.source} WHERE {quoted(target.unit)} IS NOT NULL LIMIT {_MOST_ROWS}"  # noqa: S608
        ).fetchall()


def quoted(name: str) -> str:
    """Return a name, quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: Any) -> str:
    """Return a value as a SQL literal."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | Decimal() | Fraction():
            return str(Decimal(value.numerator) / value.denominator) if isinstance(value, Fraction) else str(value)
        case dt.datetime():
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case dt.date():
            return f"DATE '{value.isoformat()}'"
        case _:
            return "'" + str(value).replace("'", "''") + "'"


Told = Callable[[str], None]
Epsilons = Sequence[Fraction]

#: Number of victims of each attack, for a run of a few seconds.
_LINKED: Final = 24
_VICTIMS: Final = 36
_AVERAGED: Final = 12
_REPEATS: Final = 300
_PAID_REPEATS: Final = 8
_PEOPLE: Final = 2000
#: Number of counts among which the attacker's budget is divided; more of them would each have more noise.
_TOTALS: Final = 48
_STUDY: Final = 60


def linkage(scene: Scene, epsilons: Epsilons, told: Told) -> Chapter:
    """Join a nameless table with what outsiders know."""
    places = {person.number: place for place, person in enumerate(scene.people)}
    steps = attacks.link_by_steps(
        scene.target.known,
        [known for known, _, _ in scene.rows],
        [person.known for person in scene.people],
        [places[number] for _, _, number in scene.rows],
    )
    profile = Figures(
        "Who is alone with their values?",
        f"Knowing {', '.join(scene.target.known)}, an outsider finds {percent(steps[-1].linked.share)} of the people.",
        ("known", "rows_alone", "rows_among_fewer_than_5", "people_found", "share_found", "misled"),
        tuple(
            (", ".join(s.known), s.share(1, 1), s.share(1, 4), s.linked.hits, s.linked.share, s.misled) for s in steps
        ),
    )
    values, people = scene.target.values, choose(scene.people, min(_LINKED, len(scene.people)))
    attack = attacks.Linkage(tuple((person.known, person.secret) for person in people), len(values))
    bare: dict[KnownRow, list[float]] = {}
    for known, secret, _ in scene.rows:
        bare.setdefault(known, [0.0] * len(values))[secret] += 1

    def through(epsilon: Fraction) -> CountsBySecret:
        analyst = scene.hire(epsilon * len(attack.victims))

        def ask(known: KnownRow) -> list[float]:
            where = " AND ".join(_is(name, value) for name, value in zip(scene.target.known, known, strict=True))
            sql = (
                f"SELECT {scene.target.secret} AS secret, COUNT(DISTINCT {scene.unit}) AS n "  # noqa: S608
                f"FROM {scene.target.source} WHERE {where} GROUP BY 1"
            )
            answer = scene.curator.sql(sql, epsilon=epsilon, max_groups=1, max_rows=1, analyst=analyst)
            counts: dict[Any, Any] = dict(answer.finished.values)  # type: ignore[arg-type]
            return [float(counts.get(value) or 0) for value in values]

        return ask

    found = attacks.compare(attack, lambda known: bare[known], {e: through(e) for e in epsilons}, progress=told)
    return Chapter(attack.words, (profile, found))


def sample(scene: Scene, *_: object) -> Chapter:
    """Publish a few random rows, and find the people who are unique in them."""
    known = [person.known for person in scene.people]
    sizes = sorted({max(len(known) // part, 1) for part in (1000, 200, 100, 50)})
    drawn = attacks.exposure(known, sizes)
    exposed = Figures(
        f"A few random rows of {len(known):,}, {drawn[-1].alone:,} people alone with their values",
        f"{drawn[-1].rows:,} published rows expose {drawn[-1].measured:.3g} people on average.",
        ("rows", "expected_found", "at_least_one", "measured_found"),
        tuple((one.rows, float_nearest(one.expected), float_nearest(one.at_least_one), one.measured) for one in drawn),
    )
    return Chapter(SAMPLING, (exposed,), "A curator publishes no rows.")


def _is(name: str, value: Any) -> str:
    return f"{quoted(name)} IS NULL" if value is None else f"{quoted(name)} = {literal(value)}"


def differencing(scene: Scene, epsilons: Epsilons, told: Told) -> Chapter:
    """Subtract two counts that differ in one person."""
    attack = attacks.Differencing(_victims(scene, _VICTIMS))
    asks = {epsilon: _counts(scene, attack, epsilon) for epsilon in epsilons}
    found = attacks.compare(attack, hide_small(_exact(scene), smallest=10), asks, progress=told)
    return Chapter(attack.words, (found,), "The unprotected table answers no count below ten; it does not help.")


def averaging(scene: Scene, epsilons: Epsilons, told: Told) -> Chapter:
    """Average many repeats of one query."""
    attack = attacks.Averaging(_victims(scene, _AVERAGED), _REPEATS)
    noisy = noise_anew(_exact(scene), epsilon=1)
    asks = {epsilon: _stored(_counts(scene, attack, epsilon)) for epsilon in epsilons}
    found = attacks.compare(attack, noisy, asks, progress=told)
    paid = replace(attack, repeats=_PAID_REPEATS).in_other_words()
    told("in other words")
    most = max(epsilons)
    bought = attacks.compare(paid, noisy, {most: _counts(scene, paid, most)})
    note = (
        f"The unprotected table draws noise of epsilon 1 for every answer, {_REPEATS} times. The curator gave every "
        f"repeat the same answer. Asked in other words, {_PAID_REPEATS} answers share the budget of one and say less: "
        f"{bought.protected[0][1]} at epsilon {float(most):g}."
    )
    return Chapter(attack.words, (found,), note)


def _victims(scene: Scene, most: int) -> tuple[tuple[Hashable, bool], ...]:
    numbers: list[Hashable] = [person.number for person in scene.people]
    return tuple(choose_evenly(numbers, scene.truths, most))


def _exact(scene: Scene) -> CountWithout:
    having = {person.number for person, truth in zip(scene.people, scene.truths, strict=True) if truth}
    return lambda person, _: float(len(having) - (person in having))


def _counts(scene: Scene, attack: attacks.Differencing | attacks.Averaging, epsilon: Fraction) -> CountWithout:
    analyst = scene.hire(epsilon * len(attack.victims))
    cost = epsilon / attack.queries

    def ask(person: Hashable | None, wording: int) -> float:
        apart = "" if person is None else f" AND {scene.unit} <> {literal(person)}"
        return scene.count(f"{scene.bit} AND {scene.holds_for_all(wording)}{apart}", cost, analyst)

    return ask


def _stored(ask: CountWithout) -> CountWithout:
    """Ask every query twice; if the two answers are equal, return that answer for all further repeats."""
    known: dict[tuple[Hashable | None, int], list[float]] = {}

    def again(person: Hashable | None, wording: int) -> float:
        told = known.setdefault((person, wording), [])
        if len(told) < 2 or len(set(told)) > 1:
            told.append(ask(person, wording))
        return told[-1]

    return again


def reconstruction(scene: Scene, epsilons: Epsilons, told: Told) -> Chapter:
    """Solve counts of random subsets for the secrets."""
    whole = all(isinstance(person.number, int) and person.number >= 0 for person in scene.people)
    pairs = list(zip(scene.people, scene.truths, strict=True))
    pairs = sorted(pairs, key=lambda pair: pair[0].number)[: _PEOPLE if whole else 200]
    numbers, secrets = [person.number for person, _ in pairs], np.array([truth for _, truth in pairs])
    count = 3 * len(numbers)
    subsets = attacks.modular_subsets(numbers, count) if whole else attacks.random_subsets(len(numbers), count)
    attack = attacks.Reconstruction(secrets, tuple(subsets))
    most = max(round(0.1 * len(numbers) ** 0.5), 1)
    noise = iter(bounded_noise(count, most=most).tolist())
    asks = {epsilon: _totals(scene, numbers, epsilon) for epsilon in epsilons}
    found = attacks.compare(
        attack, lambda subset: float((subset.mask & secrets).sum() + next(noise)), asks, progress=told
    )
    some = secrets[: _PEOPLE // 2]
    cells = attacks.reconstruct_under_noise(some, ratios=(1.5, 2, 4), noises=(0, 0.25, 0.5, 1), progress=told)
    ratio, noise_, share = max((cell for cell in cells if 0 < cell[1] <= 0.5), key=lambda cell: cell[2])
    grid = Figures(
        f"Secrets of {len(some):,} people, computed from noisy totals",
        f"{ratio:g} totals per person, each off by up to {noise_:g}√n, give back {percent(share)} of secrets.",
        ("totals_per_person", "noise_per_root_n", "share_recovered"),
        tuple(cells),
    )
    note = (
        f"{count:,} totals about {len(numbers):,} people, each off by up to {most}, of the unprotected table. Through "
        f"the curator the budget was spent after {_TOTALS}, each with {_TOTALS} times the noise of a single query."
    )
    if whole:
        note += f" A query reads: WHERE {scene.bit} AND {subsets[0].sql(scene.target.unit)}."
    return Chapter(attack.words, (found, grid), note)


def _totals(scene: Scene, numbers: Sequence[Any], epsilon: Fraction) -> Callable[[attacks.Subset], float]:
    analyst = scene.hire(epsilon)

    def ask(subset: attacks.Subset) -> float:
        if subset.modulus:
            among = f"{scene.unit} BETWEEN {numbers[0]} AND {numbers[-1]} AND {subset.sql(scene.unit)}"
        else:
            inside = [literal(number) for number, is_in in zip(numbers, subset.mask, strict=True) if is_in]
            among = f"{scene.unit} IN ({', '.join(inside)})"
        return scene.count(f"{scene.bit} AND {among}", epsilon / _TOTALS, analyst)

    return ask


def membership(scene: Scene, epsilons: Epsilons, told: Told) -> Chapter:
    """Guess who was in a study from its published tables of counts."""
    study = _Study(scene)
    if not study.marginals:
        return Chapter(MEMBERSHIP, (), "No two columns have public values to count by.")
    attack = attacks.Membership(study.members, study.outsiders, study.reference)
    exact = study.members.sum(axis=0)
    asks = {epsilon: study.through(epsilon) for epsilon in epsilons}
    found = attacks.compare(attack, lambda: exact / study.size, asks, progress=told)
    note = f"A study of {study.size} people that published {len(exact):,} counts in {len(study.marginals)} tables."
    return Chapter(attack.words, (found,), note)


def models(scene: Scene, epsilons: Epsilons, told: Told) -> Chapter:
    """Guess which rows trained a model."""
    study = _Study(scene)
    if not study.marginals:
        return Chapter(MODELS, (), "No two columns have public values to learn from.")
    attack = attacks.ModelMembership(study.members, study.labels[0], study.outsiders, study.labels[1])
    asks = {epsilon: model for epsilon in epsilons if (model := _trained(study, epsilon)) is not None}
    found = attacks.compare(attack, attacks.ridge(study.members, study.labels[0]), asks, progress=told)
    note = f"Trained on {study.size} people: ridge regression, and Tacit's logistic regression with delta 1e-6."
    return Chapter(
        attack.words, (found,), note if asks else f"Private models need the extra learn: {install_command('learn')}."
    )


def _trained(study: _Study, epsilon: Fraction) -> Losses | None:
    try:
        from tacit.learn import LogisticRegression
    except ImportError:
        return None
    model = LogisticRegression(epsilon=epsilon, delta="1e-6", bounds=(0, 1), classes=[False, True])
    model.fit(study.members, study.labels[0])

    def losses(rows: NDArray[np.float64], labels: NDArray[np.bool_]) -> NDArray[np.float64]:
        said = np.asarray(model.predict_proba(rows))[np.arange(len(rows)), labels.astype(int)]
        return np.asarray(-np.log(np.maximum(said, 1e-12)))

    return losses


class _Study:
    """A study in which half of the chosen people take part, and which publishes tables over pairs of columns."""

    def __init__(self, scene: Scene) -> None:
        finite = {name: values for name, values in scene.target.finite.items() if name in scene.target.known}
        self.columns = [*finite, "secret"]
        self.values = [*finite.values(), scene.target.values]
        self.marginals = _marginals(self.values)
        self.size = min(_STUDY, len(scene.people) // 4)
        places = [scene.target.known.index(name) for name in finite]
        rows = [
            (*(person.known[place] for place in places), scene.target.values[person.secret]) for person in scene.people
        ]
        order = choose(range(len(rows)), len(rows))
        taking, others, rest = order[: self.size], order[self.size : 2 * self.size], order[2 * self.size :]
        self.rows = [rows[place] for place in taking]
        self.members = attacks.indicators(self.rows, self.marginals)
        self.outsiders = attacks.indicators([rows[place] for place in others], self.marginals)
        self.reference = attacks.indicators([rows[place] for place in rest], self.marginals).mean(axis=0)
        truths = scene.truths
        self.labels = tuple(np.array([truths[place] for place in part]) for part in (taking, others))

    def through(self, epsilon: Fraction) -> Callable[[], NDArray[np.float64]]:
        """Return a function that publishes the study's shares through a curator."""
        from tacit.curator.opening import open_curator

        people = [(person, *row) for person, row in enumerate(self.rows)]
        frame = PlainFrame.inferred(["person", *self.columns], people)
        declared = {name: list(values) for name, values in zip(self.columns, self.values, strict=True)}
        cost = epsilon / len(self.marginals)

        def published() -> NDArray[np.float64]:
            with open_curator(
                frame, unit="person", epsilon=2 * epsilon, table="study", columns=declared, max_groups=1, max_rows=1
            ) as curator:
                tables = []
                for marginal in self.marginals:
                    keys = ", ".join(quoted(self.columns[place]) for place in marginal.columns)
                    sql = f"SELECT {keys}, COUNT(*) AS n FROM study GROUP BY {keys}"  # noqa: S608
                    answers = curator.sql(sql, epsilon=cost).finished.values
                    counts = {tuple(cell): float(count or 0) for *cell, count in answers}  # type: ignore[arg-type]
                    tables.append(marginal.shares(counts, self.size))
                return np.concatenate(tables)

        return published


def _marginals(values: Sequence[Sequence[Any]]) -> list[attacks.Marginal]:
    """Return the four largest tables over two columns within the limit on cells."""
    pairs = [
        (len(values[a]) * len(values[b]), a, b)
        for a, b in itertools.combinations(range(len(values)), 2)
        if len(values[a]) * len(values[b]) <= 1000
    ]
    return [
        attacks.Marginal((a, b), tuple(itertools.product(values[a], values[b])))
        for _, a, b in sorted(pairs, reverse=True)[:4]
    ]


#: Attacks by their names on the command line, in the order of the report.
ATTACKS: Final[dict[str, Callable[[Scene, Epsilons, Told], Chapter]]] = {
    "linkage": linkage,
    "sampling": sample,
    "differencing": differencing,
    "averaging": averaging,
    "reconstruction": reconstruction,
    "membership": membership,
    "models": models,
}
