"""Two synthetic tables: rows of persons are drawn given their persons, keys agree, one person moves little enough."""

from __future__ import annotations

import io
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tacit
from support.bits import SeededBits
from tacit.client.releases import ReleaseResponse
from tacit.core.errors import InputError, QueryError, TacitError
from tacit.core.relations import ADD_REMOVE, REPLACE_ONE, Relation
from tacit.curator.curator import Curator
from tacit.releases import synthetic_query as synthetic_queries
from tacit.releases.synthesis import SYNTHESIS, SyntheticTableRequest
from tacit.releases.synthetic_table import SyntheticStar
from tacit.server.api.request import job_back, job_text, release_of
from tacit.synth import count_measurement, graphical_model, table_synthesis
from tacit.synth.graphical_model import GraphicalModel
from tacit.synth.marginal_counts import MarginalCounts
from tacit.synth.synthesis_request import SynthesisRequest
from tacit.synth.synthesis_stages import SynthesisStages
from tacit.synth.table_synthesis import SynthesisPlan, counted

MOST = 3
BOTH = {"patients": ["sex", "age"], "visits": ["ward", "cost"]}
PROJECT = """
[project]
name = "clinic"
[populations.people]
accounting = "zcdp"
rho = "1000"
delta = "1e-6"
[tables.patients]
source = "patients.parquet"
population = "people"
unit = "id"
max_rows = 1
[tables.patients.columns]
id = {type = "text"}
sex = {type = "text", categories = ["f", "m"]}
age = {type = "integer", bounds = [0, 3]}
[tables.visits]
source = "visits.parquet"
population = "people"
unit = "patient"
max_rows = 3
[tables.visits.columns]
patient = {type = "text"}
ward = {type = "text", categories = ["a", "b"], null_category = true}
cost = {type = "integer", bounds = [0, 4999]}
"""


def people(count: int = 500) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Patients, and visits of theirs that depend on who they are; some visits have no patient or an unknown ward."""
    made = np.random.default_rng(3)
    patients, visits = [], []
    for i in range(count):
        sex, age = "fm"[made.integers(0, 2)], int(made.integers(0, 4))
        patients.append({"id": f"p{i}", "sex": sex, "age": age})
        for _ in range(int(made.integers(0, 2 + age))):
            ward = "a" if made.random() < (0.9 if sex == "f" else 0.1) else "b"
            visits.append({"patient": f"p{i}", "ward": ward, "cost": int(made.integers(0, 500) + 1000 * age)})
    visits += [{"patient": "stranger", "ward": "a", "cost": 1}, {"patient": "p0", "ward": "z", "cost": 1}]
    return patients, visits


def opened(folder: Path, patients: list[dict[str, Any]], visits: list[dict[str, Any]]) -> Curator:
    folder.mkdir(exist_ok=True)
    for name, rows in (("patients", patients), ("visits", visits)):
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet")
    (folder / "tacit.toml").write_text(PROJECT)
    return tacit.open(folder / "tacit.toml")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Curator, SyntheticStar]]:
    """Two tables that are made once."""
    bits = SeededBits(3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tacit.noise.entropy.current", lambda: bits)
        patch.setattr(table_synthesis, "_LAST_STEPS", 150)
        curator = opened(tmp_path_factory.mktemp("star"), *people())
        yield curator, curator.synthesize(BOTH, rho="40", method="mst", rows=500)


def test_rows_are_drawn_given_their_persons(published: tuple[Curator, SyntheticStar]) -> None:
    _, star = published
    patients, visits = (star.to_arrow()[name] for name in ("patients_synthetic", "visits_synthetic"))
    assert (patients.column_names, visits.column_names) == (["id", "sex", "age"], ["patient", "ward", "cost"])
    assert patients.schema.field("id").type == visits.schema.field("patient").type == pa.string()
    ids = patients["id"].to_pylist()
    assert len(set(ids)) == patients.num_rows == 500
    assert not set(ids) & {row["id"] for row in people()[0]}
    times = Counter(visits["patient"].to_pylist())
    assert set(times) <= set(ids)
    assert max(times.values()) <= MOST
    real_patients, real_visits = people()
    ages, kept = {row["id"]: row for row in real_patients}, Counter[str]()
    truth = Counter[tuple[str, Any]]()
    for visit in real_visits:
        if visit["patient"] in ages and visit["ward"] in "ab" and kept[visit["patient"]] < MOST:
            kept[visit["patient"]] += 1
            truth[ages[visit["patient"]]["sex"], visit["ward"]] += 1
    assert visits.num_rows == pytest.approx(kept.total(), rel=0.05)
    known = {row["id"]: row for row in patients.to_pylist()}
    drawn = Counter((known[row["patient"]]["sex"], row["ward"]) for row in visits.to_pylist())
    assert sum(abs(drawn[key] - truth[key]) for key in drawn | truth) / 2 / kept.total() < 0.06
    for age in range(4):
        mine = [times[key] for key, row in known.items() if row["age"] == age]
        exact = [kept[key] for key, row in ages.items() if row["age"] == age]
        assert np.mean(mine) == pytest.approx(np.mean(exact), abs=0.25)
    # A visit costs about a thousand for each year of age.
    near = [abs(row["cost"] - 1000 * known[row["patient"]]["age"]) < 700 for row in visits.to_pylist()]
    assert np.mean(near) > 0.8


def test_one_charge_pays_for_both_and_asking_them_is_free(
    published: tuple[Curator, SyntheticStar], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    curator, star = published
    assert curator.check_receipt(star.receipt).ok
    assert len(curator.history()) == 1
    assert "at most 3 rows" in star.receipt["answers"][0]["bounding"]
    # Both tables may have columns of one name, so every line says whose it is.
    lines = [line["name"] for line in star.receipt["answers"][0]["mechanisms"]]
    measured = len(star.persons.measured) + len(star.others.measured)
    assert sum(": counts by" in line for line in lines) == measured
    assert {line.split(":")[0] for line in lines} == {"patients", "visits"}
    monkeypatch.setattr(type(curator.context.engine), "measure", lambda *_: pytest.fail("data was read"))
    sql = (
        "SELECT p.sex, COUNT(*) AS n FROM visits_synthetic v JOIN patients_synthetic p ON v.patient = p.id "
        "GROUP BY p.sex ORDER BY p.sex"
    )
    first = curator.sql(sql)
    # Rows that are asked about are as many as were estimated; those in hand are as many as were asked for.
    again = curator.released("visits_synthetic")
    assert sum(row[1] for row in first.finished.values) == again.to_arrow()["visits_synthetic"].num_rows
    monkeypatch.setattr(synthetic_queries, "_READERS", synthetic_queries._Readers())
    assert curator.sql(sql).finished.values == first.finished.values
    assert [name for each in curator.releases() for name in each.names] == ["patients_synthetic", "visits_synthetic"]
    assert curator.synthesize(BOTH, rho="40", method="mst", rows=5).charge.repeated
    star.others.save(tmp_path / "visits.csv")
    assert len((tmp_path / "visits.csv").read_text().splitlines()) == star.others.rows + 1
    report = star.report()
    assert "number_of_visits: measured" in report
    assert "patients_sex × ward: measured" in report
    assert star.others.marginal(["ward"]).num_rows == 3


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"patients": None}, "two tables"),
        ({"patients": None, "patients ": None}, "two tables"),
        ({"visits": None, "patients": None}, "one row for each person"),
        ({"patients": "sex", "visits": None}, "list of names"),
        ({"patients": ["nothing"], "visits": None}, "no column"),
        ({"patients": None, "nowhere": None}, "no table"),
    ],
)
def test_tables_that_do_not_belong_together_are_refused(
    published: tuple[Curator, SyntheticStar], source: Any, words: str
) -> None:
    curator, _ = published
    before = len(curator.history())
    with pytest.raises((InputError, QueryError), match=words):
        curator.synthesize(source, rho="1", method="mst")
    with pytest.raises(InputError, match="at most 200"):
        curator.synthesize(BOTH, rho="1", method="mst", max_rows=201)
    with pytest.raises(InputError, match="fewer persons"):
        curator.synthesize(BOTH, rho="1", method="mst", rows=5_000_000)
    assert len(curator.history()) == before


@pytest.mark.usefixtures("seeded")
def test_rows_may_point_to_another_key_of_their_persons(tmp_path: Path) -> None:
    """Visits without a column of the unit, whose foreign key leads to a card that each person has."""
    patients, visits = people(60)
    project = PROJECT.replace('id = {type = "text"}', 'id = {type = "text"}\ncard = {type = "text", unique = true}')
    other = project.replace('unit = "patient"\n', "")
    for target in ("card", "id"):
        folder = tmp_path / target
        folder.mkdir()
        cards = [row | {"card": "x" + row["id"]} for row in patients]
        pointing = [row | {"patient": "x" + row["patient"]} for row in visits]
        for name, rows in (("patients", cards), ("visits", pointing)):
            pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet")
        said = other.replace(
            'patient = {type = "text"}', f'patient = {{type = "text", references = "patients.{target}"}}'
        )
        (folder / "tacit.toml").write_text(said.replace('id = {type = "text"}', 'id = {type = "text", unique = true}'))
        curator = tacit.open(folder / "tacit.toml")
        if target == "id":
            with pytest.raises(InputError, match="declare it as the unit"):
                curator.synthesize(BOTH, rho="40", method="independent")
            continue
        tables = curator.synthesize(BOTH, rho="40", method="independent", rows=30).to_arrow()
        assert tables["patients_synthetic"].column_names == ["card", "sex", "age"]
        keys = set(tables["patients_synthetic"]["card"].to_pylist())
        assert tables["visits_synthetic"].num_rows
        assert set(tables["visits_synthetic"]["patient"].to_pylist()) <= keys


@pytest.mark.usefixtures("seeded")
def test_persons_come_first_whatever_the_names(tmp_path: Path) -> None:
    """The ledger and the list of jobs keep which table is that of persons, though names would sort otherwise."""
    patients, visits = people(40)
    curator = opened(tmp_path, patients, visits)
    curator.close()
    (tmp_path / "tacit.toml").write_text(PROJECT.replace("tables.visits", "tables.admissions"))
    curator = tacit.open(tmp_path / "tacit.toml")
    both = {"patients": ["sex"], "admissions": ["ward"]}
    star = curator.synthesize(both, rho="9", method="independent")
    assert [name for each in curator.releases() for name in each.names] == [
        "patients_synthetic",
        "admissions_synthetic",
    ]
    again = curator.released("admissions_synthetic")
    assert again.to_arrow() == star.to_arrow()
    assert curator.sql("SELECT COUNT(*) AS n FROM patients_synthetic").finished.values == ((again.rows,),)
    said = release_of(SyntheticTableRequest.text({"kind": "synthesis", "source": both}, {"rho": "1"}).encode())
    back, _ = job_back(job_text(said, ""))
    assert isinstance(back, SyntheticTableRequest)
    assert [name for name, _ in back.asked.tables] == ["patients", "admissions"]


# -- privacy


@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE])
def test_sensitivities_of_both_tables_by_enumeration(relation: Relation) -> None:
    """Every person of a small world, with every list of rows: the largest move is the declared one."""
    most = 2
    cells = list(itertools.product(range(2), range(2)))
    people_ = [
        (sex, rows)
        for sex in range(2)
        for count in range(most + 1)
        for rows in itertools.combinations_with_replacement(range(2), count)
    ]

    def vectors(person: tuple[int, tuple[int, ...]]) -> tuple[np.ndarray, np.ndarray]:
        sex, rows = person
        first = np.array([int((sex, len(rows)) == (s, n)) for s in range(2) for n in range(most + 1)])
        second = np.array([sum((sex, row) == cell for row in rows) for cell in cells])
        return first, second

    made = [vectors(person) for person in people_]
    nothing = (np.zeros(2 * (most + 1)), np.zeros(len(cells)))
    pairs = [(a, nothing) for a in made] if relation is ADD_REMOVE else list(itertools.product(made, made))
    plans = (
        counted(SynthesisPlan("independent", {"s": 2, "n": 3}, Fraction(1), 1, relation), ("s", "n"), Fraction(1)),
        counted(SynthesisPlan("independent", {"s": 2, "w": 2}, Fraction(1), most, relation), ("s", "w"), Fraction(1)),
    )
    for place, measurement in enumerate(plans):
        worst = max(int(((a[place] - b[place]) ** 2).sum()) for a, b in pairs)
        assert worst * measurement.scale**2 == measurement.l2_squared


class Replay:
    """Runs once with noise, and then on other data with the same outputs, so that both take the same path."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.inputs: list[list[tuple[Any, np.ndarray]]] = []
        self.outputs: list[Any] = []
        self.place = 0
        monkeypatch.setattr(count_measurement, "add_noise", self._through(count_measurement.add_noise))
        monkeypatch.setattr(table_synthesis, "choose", self._through(table_synthesis.choose))
        monkeypatch.setattr(graphical_model, "uniform", lambda count: self.bits.random(count))

    def _through(self, release: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def passed(mechanism: Any, raw: Any) -> Any:
            self.inputs[-1].append((mechanism, np.array(raw, dtype=object).ravel()))
            if len(self.inputs) == 1:
                self.outputs.append(release(mechanism, raw))
            self.place += 1
            return self.outputs[self.place - 1]

        return passed

    def begin(self) -> None:
        self.inputs.append([])
        self.place, self.bits = 0, np.random.default_rng(8)


@pytest.mark.usefixtures("seeded")
def test_a_person_moves_every_release_of_both_tables_within_its_sensitivity(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(table_synthesis, "_ROUNDS", 2)
    monkeypatch.setattr(table_synthesis, "_ROUND_STEPS", 6)
    monkeypatch.setattr(table_synthesis, "_LAST_STEPS", 20)
    replay, worst = Replay(monkeypatch), []
    patients, visits = people(60)
    # Other persons have few enough rows, so that a keyed choice is made of the neighbour's rows alone.
    few = Counter[str]()
    visits = [row for row in visits if not (few.update([row["patient"]]) or few[row["patient"]] > MOST)]
    person = {"id": "neighbour", "sex": "f", "age": 3}
    worlds = [[], [("a", 10)] * 3, [("b", 4999)] * 50, [("a", 1), ("b", 2), (None, 3), ("z", 4), ("a", -7)]]
    for number, rows in enumerate(worlds):
        replay.begin()
        more = [{"patient": "neighbour", "ward": ward, "cost": cost} for ward, cost in rows]
        curator = opened(tmp_path / str(number), patients + [person] * bool(rows), visits + more)
        curator.synthesize(BOTH, rho="1", rows=10)
        first, second = replay.inputs[0], replay.inputs[-1]
        assert len(first) == len(second)
        for (mechanism, left), (same, right) in zip(first, second, strict=True):
            moved = [int(x) for x in left - right]
            if hasattr(mechanism, "l2_squared"):
                assert (mechanism.sigma2, mechanism.l2_squared) == (same.sigma2, same.l2_squared)
                worst.append(sum(x * x for x in moved) / mechanism.l2_squared)
            else:
                assert (mechanism.epsilon, mechanism.sensitivity) == (same.epsilon, same.sensitivity)
                worst.append(max(map(abs, moved)) / mechanism.sensitivity)
    assert max(worst) <= 1
    # All rows of a person in one cell move it the most.
    assert max(worst) > 0.9


def test_the_order_of_rows_changes_nothing_that_is_counted(tmp_path: Path) -> None:
    patients, visits = people(40)
    few = Counter[str]()
    visits = [row for row in visits if not (few.update([row["patient"]]) or few[row["patient"]] > MOST)]
    found = []
    for number, turned in enumerate((1, -1)):
        context = opened(tmp_path / str(number), patients[::turned], visits[::turned]).context
        stages = SynthesisStages(context, SynthesisRequest.of(BOTH, None, "independent", {"rho": "1"}))
        found.append(
            [
                {names: cells.tolist() for names, cells in stage.counts.count(context, stage.plan.pairs).items()}
                for stage in (stages.stage(number, []) for number in range(2))
            ]
        )
    assert found[0] == found[1]


# -- rows beside others


def test_columns_are_drawn_given_others_exactly() -> None:
    sizes, names = {"a": 2, "b": 3, "c": 4, "d": 2}, "abcd"
    made = np.random.default_rng(2)
    for cliques, known in ((["ab", "bc", "cd"], "ad"), (["ab", "bc", "ac", "d"], "b"), (["ad", "c", "bd"], "ac")):
        potentials = {tuple(c): made.normal(0, 1.5, tuple(sizes[n] for n in c)) for c in cliques}
        table = sum(
            values.reshape([sizes[n] if n in c else 1 for n in names]) for c, values in potentials.items()
        ) + np.zeros(tuple(sizes.values()))
        weights = np.exp(table)
        kinds = list(itertools.product(*(range(sizes[n]) for n in known)))
        each = 4_000
        rows = {n: np.repeat([kind[at] for kind in kinds], each) for at, n in enumerate(known)}
        drawn, able = GraphicalModel(sizes, potentials, 1.0).sample_beside(rows, made.random)
        assert able.all()
        cells = np.zeros(weights.shape)
        np.add.at(cells, tuple(drawn[n] for n in names), 1)
        others = tuple(at for at, n in enumerate(names) if n not in known)
        assert np.abs(cells / each - weights / weights.sum(axis=others, keepdims=True)).max() < 0.02


def test_rows_that_no_model_has_are_said_to_be_impossible() -> None:
    never = np.zeros((2, 3))
    never[1] = -np.inf
    model = GraphicalModel({"a": 2, "b": 3}, {("a", "b"): never}, 10.0)
    _, able = model.sample_beside({"a": np.array([0, 1, 0])})
    assert able.tolist() == [True, False, True]


def test_a_file_that_changes_between_the_tables_fails_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patients, visits = people(20)
    curator = opened(tmp_path, patients, visits)
    count, calls = MarginalCounts.count, [0]

    def changing(self: MarginalCounts, *arguments: Any) -> Any:
        calls[0] += 1
        if calls[0] == 2:
            pq.write_table(pa.Table.from_pylist(visits * 2), tmp_path / "visits.parquet")
        return count(self, *arguments)

    monkeypatch.setattr(MarginalCounts, "count", changing)
    with pytest.raises(TacitError):
        curator.synthesize(BOTH, rho="1", method="independent", rows=5)
    assert calls[0] == 2
    assert curator.releases() == ()
    assert len(curator.history()) == 1


def test_both_tables_have_a_body_over_http(published: tuple[Curator, SyntheticStar]) -> None:
    _, star = published
    body = ReleaseResponse.of("synthesis", star)
    assert [each["name"] for each in body.about["tables"]] == ["patients_synthetic", "visits_synthetic"]
    # What is told is what the files have: columns of persons are beside the rows in the model alone.
    for told in body.to_domain().tables:
        drawn = star.to_arrow()[told.name]
        assert (told.columns, told.rows) == (drawn.column_names, drawn.num_rows)
        assert f"{told.name}: {drawn.num_rows:,} rows" in told.report
    files = SYNTHESIS.files(star)
    assert list(files) == body.files
    written = pq.read_table(io.BytesIO(files["visits_synthetic.parquet"]()))
    assert written.equals(star.to_arrow()["visits_synthetic"])
    words = {
        "source": BOTH,
        "method": "mst",
        "nulls": ("cost",),
    }
    said = release_of(SyntheticTableRequest.text({"kind": "synthesis", **words}, {"rho": "1"}).encode())
    request = said.asked
    assert said.rows is None
    assert request == SynthesisRequest.of(BOTH, None, "mst", {"rho": Decimal(1), "nulls": ["cost"]})
    assert SynthesisRequest.from_plain(request.to_plain({"rho": Decimal(1)})) == request
    for wrong in ({"source": {"a": None}}, {"source": 3}, {"nulls": "x"}):
        with pytest.raises(InputError):
            release_of(json.dumps({"kind": "synthesis", "source": "t", "rho": 1} | wrong).encode())
