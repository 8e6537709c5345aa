"""Audit of a project: questions recorded on one database and replayed on its neighbours.

Every mechanism of a plan gives what it gave before; then values, intervals, charge and notes must be the same, and no
mechanism's input may have moved by more than its plan declares. :func:`sql_checks` is part of the standing self-audit;
:func:`project_checks` does the same for the tables, budgets and questions of a project, on made-up people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import count
from typing import Any, Final

from tacit.assurance.synthetic_people import People, brought_here, neighbours_of, questions_of, rehearsed
from tacit.audit.checks import AuditCheck, Verdict, judged, judged_replays
from tacit.audit.lower_bound import lower_bound
from tacit.audit.neighbours import Neighbours
from tacit.audit.replay import replay
from tacit.audit.search import replay_neighbours
from tacit.core.errors import InputError, QueryError
from tacit.core.guarantees import PureDP
from tacit.core.numbers import exact
from tacit.curator.curator import Curator
from tacit.curator.opening import open_curator, open_project
from tacit.engines.plain_frames import PlainFrame
from tacit.project.project_file import PopulationModel, Project
from tacit.query.planning.plan import Plan
from tacit.query.types import DOUBLE, INTEGER, TEXT
from tacit.releases.quote import Quote

#: Persons with several rows, one with far more than count, values at and beyond the bounds, missing ones.
_VISITS: Final = [
    *(
        {"person": i % 7, "ward": ("heart", "lung", "eye")[i % 3], "town": f"town {i % 4}", "cost": float(i % 50)}
        for i in range(40)
    ),
    *({"person": 99, "ward": "heart", "town": "a hamlet", "cost": 5000.0} for _ in range(30)),
    {"person": 8, "ward": None, "town": None, "cost": None},
]
_QUESTIONS: Final = {
    "one count": "SELECT COUNT(*) FROM data",
    "persons": "SELECT COUNT(DISTINCT person) FROM data WHERE cost > 10",
    "sums and means by public keys": "SELECT ward, COUNT(*), SUM(cost), AVG(cost) FROM data GROUP BY ward",
    "a median": "SELECT MEDIAN(cost) FROM data",
    "private keys": "SELECT town, COUNT(*) FROM data GROUP BY town",
    "a filter that divides by zero": "SELECT SUM(cost) FROM data WHERE 1 / (person - 99) > 0",
}
#: Of a population's budget, what a question under audit costs.
_PART: Final = 4
_CONFIDENCE: Final = 0.9999
#: At which the loss of a question is bounded whose account has no delta of its own for it.
_DELTA: Final = Fraction(1, 10**6)


def sql_checks() -> Iterator[AuditCheck]:
    """One replay on many neighbours for each question."""
    for name, sql in _QUESTIONS.items():
        yield AuditCheck(f"SQL: {name}", "replay", partial(_replayed_table, sql))


def project_checks(
    project: Project, questions: Sequence[str] = (), *, asked: Sequence[str] = (), samples: int = 1000
) -> tuple[list[AuditCheck], int]:
    """Check a project as far as possible without its data and without its budget.

    Its tables are filled with made-up people (:mod:`tacit.assurance.synthetic_people`), its public ones are read as
    they are;
    DuckDB measures them, whatever engine has the data.
    Questions that follow from the declarations, and those given, are each recorded and replayed without one person at
    a time; one of each population is also asked many times from outside.

    Args:
        project: as its file describes it.
        questions: more of them; each must be one that can be answered.
        asked: what stands in its history: questions, labels, and questions to tables as they once were.
        samples: how often the question that is audited from outside is asked of each neighbour.

    Returns:
        the checks, and how many of ``asked`` cannot be asked of the project.

    Raises:
        TacitError: one of ``questions`` cannot be answered.
    """
    project = brought_here(project)
    pairs = {name: neighbours_of(project.catalog, name) for name in project.populations}
    checks = []
    with open_project(rehearsed(project, next(iter(pairs.values()))[0].first)) as curator:
        given = {sql: _trial(project, curator, sql) for sql in questions}
        past = {sql: _possible(project, curator, sql) for sql in asked}
        trials: dict[str, _Trial] = {}
        for name, near in pairs.items():
            made = {sql: _possible(project, curator, sql) for sql in questions_of(project.catalog, name)}
            able = [trial for trial in made.values() if trial is not None]
            trials |= {trial.sql: trial for trial in able}
            checks += [_outside_check(trial, near, samples) for trial in able[:1]]
    trials |= {trial.sql: trial for trial in (*past.values(), *given.values()) if trial is not None}
    checks += [_replay_check(trial, pairs[trial.plan.final.population]) for trial in trials.values()]
    return checks, sum(trial is None for trial in past.values())


@dataclass(frozen=True)
class _Trial:
    """A question to made-up people of a project, with the words of its price where its text states none."""

    project: Project
    sql: str
    words: Mapping[str, Any]
    plan: Plan

    def __call__(self, people: People) -> Any:
        """All that an analyst sees, on an account that nothing was charged to before."""
        with open_project(rehearsed(self.project, people)) as curator:
            return _seen(curator, self.sql, **self.words)


def _trial(project: Project, curator: Curator, sql: str) -> _Trial:
    try:
        return _Trial(project, sql, {}, _planned(curator.explain(sql)))
    except InputError:
        # Its text states no price; any will do to learn whose budget pays.
        population = _planned(curator.explain(sql, epsilon=1)).final.population
    model = project.populations[population]
    budget = next(exact(each, "epsilon") for each in (model.epsilon, model.rho, model.mu) if each is not None)
    price = min(budget / _PART, Fraction(1))
    return _Trial(project, sql, {"epsilon": price}, _planned(curator.explain(sql, epsilon=price)))


def _planned(quote: Quote) -> Plan:
    """The plan of a question about people.

    Raises:
        InputError: it reads public tables alone.
    """
    if quote.plan is None:
        raise InputError("sql", "reads public tables alone, which protect no person: there is nothing to check")
    return quote.plan


def _possible(project: Project, curator: Curator, sql: str) -> _Trial | None:
    """A question that followed from declarations alone, unless it needs something that this project does not have."""
    try:
        return _trial(project, curator, sql)
    except (QueryError, InputError):
        return None


def _replay_check(trial: _Trial, pairs: Sequence[Neighbours]) -> AuditCheck:
    def run() -> Verdict:
        return judged_replays([replay(trial, each.first, each.second, how=each.how) for each in pairs])

    return AuditCheck(trial.sql, "replay", run)


def _outside_check(trial: _Trial, pairs: Sequence[Neighbours], samples: int) -> AuditCheck:
    """Ask again and again with means without end, each time for a hair less, so that nothing is a repeat."""
    claim, heavy = trial.plan.guarantee, next(each for each in pairs if "far more rows" in each.how)
    delta = getattr(claim, "delta", 0) or (0 if isinstance(claim, PureDP) else _DELTA)
    hairs = count()

    def ask(curator: Curator) -> Any:
        price = trial.words["epsilon"] * (1 - Fraction(next(hairs), 10**9))
        return curator.sql(trial.sql, epsilon=price).finished.values

    def run() -> Verdict:
        rich = _rich(trial.project)
        with open_project(rehearsed(rich, heavy.first)) as one, open_project(rehearsed(rich, heavy.second)) as other:
            return judged(
                lower_bound(ask, one, other, claimed=claim, delta=delta, samples=samples, confidence=_CONFIDENCE)
            )

    return AuditCheck(f"from outside: {trial.sql}", "lower_bound", run)


def _rich(project: Project) -> Project:
    """The project with budgets that no audit uses up."""

    def raised(model: PopulationModel) -> PopulationModel:
        stated = [word for word in ("epsilon", "rho", "mu") if getattr(model, word) is not None]
        return model.model_copy(update=dict.fromkeys(stated, "1000000"))

    return replace(project, populations={name: raised(model) for name, model in project.populations.items()})


def _seen(curator: Curator, sql: str, **words: Any) -> Any:
    answer = curator.sql(sql, **words)
    finished = answer.finished
    budget = str(curator.budget(population=answer.charge.population))
    return finished.values, finished.intervals(), answer.charge.text, answer.note, budget


def _replayed_table(sql: str) -> Verdict:
    return judged_replays(replay_neighbours(_asking(sql), _VISITS, unit="person"))


def _asking(sql: str) -> Callable[[list[dict[str, Any]]], Any]:
    types = {"person": INTEGER, "ward": TEXT, "town": TEXT, "cost": DOUBLE}

    def ask(rows: list[dict[str, Any]]) -> Any:
        columns = {"ward": ["eye", "heart", "lung"], "cost": {"bounds": [0, 100], "step": "0.01"}}
        curator = open_curator(
            PlainFrame.of(types, [[row.get(name) for name in types] for row in rows]),
            unit="person",
            epsilon=10,
            delta="1e-5",
            accounting="approx",
            columns=columns,
            max_groups=1,
            max_rows=3,
        )
        with curator:
            return _seen(curator, sql, epsilon=1)

    return ask
