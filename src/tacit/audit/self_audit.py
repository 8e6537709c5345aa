"""Self-audit: Tacit's mechanisms, fits, ledger and units checked by its own tools.

Four queries: do exact tables of small mechanisms keep their guarantee; can black-box audits refute any mechanism's
claim; does anything but noise move when code that uses all mechanisms is replayed on neighbours; is what is said around
releases (order, lower ends, the price of one) true.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import permutations, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tacit.accounting.compose import METHODS, compose
from tacit.accounting.filters import PureFilter
from tacit.audit.checks import AuditCheck, Verdict, judged, judged_replays
from tacit.audit.exact import exact
from tacit.audit.lower_bound import lower_bound
from tacit.audit.search import Neighbours, replay_neighbours
from tacit.client.account_responses import seen_text
from tacit.client.http_client import TrustError
from tacit.client.trust import Witness, head_text
from tacit.core.divergences import approx_max_divergence
from tacit.core.errors import AccountingError, InputError, TacitError
from tacit.core.events import RandomizedResponseEvent
from tacit.core.guarantees import ApproxDP, Guarantee, PureDP
from tacit.core.numbers import exp_bounds
from tacit.curator.opening import open_project
from tacit.engines.frames import PlainFrame
from tacit.ledger import ConflictError, Ledger, Order, Reservation
from tacit.ledger.memory import MEMORY
from tacit.mechanisms.counting_queries import CountingQueries
from tacit.mechanisms.exponential import Exponential
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.histogram import Histogram
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.mean import Mean
from tacit.mechanisms.noisy_max import NoisyMax
from tacit.mechanisms.partition_selection import PartitionSelection
from tacit.mechanisms.permute_and_flip import PermuteAndFlip
from tacit.mechanisms.randomized_response import RandomizedResponse
from tacit.mechanisms.selection_scores import WeightedSelection
from tacit.mechanisms.sparse_vector import SparseVector
from tacit.mechanisms.top_k import TopK
from tacit.project.project_file import ProjectModel, build, validate
from tacit.project.source import Source
from tacit.query.types import INTEGER, TEXT, SqlType

if TYPE_CHECKING:
    from tacit.project.project_file import Project

#: Name, tool, and what runs it.
Entry = tuple[str, str, Callable[[], Verdict]]

_CLAIMED_DELTA: Final = Fraction(1, 100)


def claim_checks(samples: int, confidence: float) -> Iterator[Entry]:
    """All claims; those that sample run ``samples`` times on each of two inputs that must look alike."""
    orders = {"a": 99, "b": 99}, {"b": 99, "a": 99}
    forms = {1: 99, "b": 99}, {"b": 99, True: 99}
    ties = {"a": 0, "b": 0}, {"b": 0, "a": 0}
    # Both inputs say the same, so that next to no loss is allowed between them.
    yield (
        "keys in the order of a mapping",
        "lower_bound",
        _alike(PartitionSelection(epsilon=1, delta=_CLAIMED_DELTA), *orders, samples, confidence),
    )
    yield (
        "keys in the form first seen",
        "lower_bound",
        _alike(PartitionSelection(epsilon=1, delta=_CLAIMED_DELTA), *forms, samples, confidence),
    )
    yield (
        "ties in the order of a mapping",
        "lower_bound",
        _alike(NoisyMax(epsilon=6, sensitivity=1), *ties, samples, confidence),
    )
    yield "one release in a list of one", "exact", _one_release
    yield "lower ends of compositions", "exact", _lower_ends


def _alike(mechanism: Any, first: Any, second: Any, samples: int, confidence: float) -> Callable[[], Verdict]:
    def run() -> Verdict:
        claim = ApproxDP("0.1", "0.01")
        return judged(
            lower_bound(
                lambda given: repr(mechanism.release(given)),
                first,
                second,
                claimed=claim,
                delta=claim.delta,
                samples=samples,
                confidence=confidence,
            )
        )

    return run


def _one_release() -> Verdict:
    listed: list[Any] = [
        Gaussian(epsilon=1, delta="1e-6", l2_sensitivity=1),
        Gaussian(epsilon=1, delta="1e-6", l2_sensitivity=1, dimension=9),
        Laplace(epsilon=1, l1_sensitivity=2),
        Exponential(epsilon=1, sensitivity=1),
        TopK(epsilon=1, k=4, sensitivity=1),
        PartitionSelection(epsilon=1, delta="1e-6"),
    ]
    dearer = []
    for mechanism in listed:
        promise = mechanism.guarantee
        if not isinstance(promise, PureDP | ApproxDP):
            continue
        for method in METHODS:
            try:
                cost = compose([mechanism], delta=promise.delta or Fraction(1, 10**6), method=method).epsilon
            except AccountingError:
                continue
            if cost > promise.epsilon:
                dearer.append(f"{mechanism!r} by {method}")
    return Verdict(bool(dearer), f"dearer in a list than by itself: {', '.join(dearer) or 'nothing'}", dearer)


def _lower_ends() -> Verdict:
    """Randomized response of three answers, composed by enumeration; an unknown release of its ε would cost more."""
    event = RandomizedResponseEvent(Fraction(1, 2), 3)
    first = {0: Fraction(1, 2), 1: Fraction(1, 4), 2: Fraction(1, 4)}
    second = {0: Fraction(1, 4), 1: Fraction(1, 2), 2: Fraction(1, 4)}
    p: dict[tuple[int, ...], Fraction] = {(): Fraction(1)}
    q = p
    wrong = []
    for times in range(1, 5):
        p, q = (
            {(*o, x): a * b for o, a in law.items() for x, b in one.items()} for law, one in ((p, first), (q, second))
        )
        truth = approx_max_divergence(p, q, delta=Fraction(1, 20)).high
        for method in METHODS:
            try:
                found = compose([(event, times)], delta=Fraction(1, 20), method=method)
            except AccountingError:
                continue
            slack = Fraction(1, 10**9)
            if found.epsilon < truth - slack or (found.lower is not None and found.lower > max(truth, 0) + slack):
                wrong.append(f"{times} by {method}")
    return Verdict(bool(wrong), f"ends that do not enclose the enumerated epsilon: {', '.join(wrong) or 'none'}", wrong)


#: Of each black-box audit, so that all of them together raise a false alarm less than once in five hundred runs.
_CONFIDENCE: Final = 0.9999
_DELTA: Final = Fraction(1, 100)
_AGES: Final = [31, 45, 27, 62, 8, 33, 34, 61]
_DECADES: Final = range(11)


def standing_checks(samples: int = 4_000) -> list[AuditCheck]:
    """All checks of the self-audit; ``samples`` are the runs on each neighbour of every black-box audit."""
    claims = (AuditCheck(*entry) for entry in claim_checks(samples, _CONFIDENCE))
    return [*_exact_checks(), *_black_box_checks(samples), *_replay_checks(), *claims]


# Exact tables


def _exact_checks() -> Iterator[AuditCheck]:
    for categories in (2, 5):
        response = RandomizedResponse(epsilon=1, categories=categories)
        table = {
            t: {o: response.truth if o == t else response.lie for o in range(categories)} for t in range(categories)
        }
        yield _table(f"randomized response of {categories} answers", table, response.guarantee)
    kinds: tuple[type[WeightedSelection], ...] = (Exponential, PermuteAndFlip)
    for kind in kinds:
        choice = kind(epsilon=1, sensitivity=1)
        scores = list(product(range(3), repeat=2))
        laws = {each: dict(enumerate(choice.probability_bounds(list(each)))) for each in scores}
        near = [(a, b) for a in scores for b in scores if a != b and max(map(_gap, a, b)) <= 1]
        yield _table(f"{kind.__name__} over two candidates", laws, choice.guarantee, near)
    for rule in ("truncated_geometric", "laplace", "gaussian"):
        keys = PartitionSelection(epsilon=1, delta=_DELTA, rule=rule)
        yield _table(f"selection of keys by {rule}", _kept_table(keys), keys.guarantee, [(n, n + 1) for n in range(12)])
    noise = Laplace(epsilon=1, l1_sensitivity=1)
    yield _table("Laplace noise, tails folded", _laplace_table(noise), noise.guarantee, [(0, 1), (1, 2)])


def _table(name: str, table: Any, claim: Guarantee, pairs: Iterable[tuple[Any, Any]] | None = None) -> AuditCheck:
    # Enclosed probabilities cannot decide a claim that holds with equality; a hair more can be proven.
    hair = Fraction(1, 10**20)
    slack = ApproxDP(claim.to_approx(getattr(claim, "delta", 0)).epsilon + hair, getattr(claim, "delta", 0) + hair)
    return AuditCheck(name, "exact", lambda: judged(exact(table, pairs=pairs, claimed=slack)))


def _gap(a: int, b: int) -> int:
    return abs(a - b)


def _kept_table(keys: PartitionSelection) -> dict[int, dict[bool, tuple[Fraction, Fraction]]]:
    bounds = {units: keys.probability_bounds(units) for units in range(13)}
    return {units: {True: (low, high), False: (1 - high, 1 - low)} for units, (low, high) in bounds.items()}


def _laplace_table(noise: Laplace) -> dict[int, dict[int, tuple[Fraction, Fraction]]]:
    """Counts 0, 1, 2 with noise, all outputs beyond -4 and 6 put on the ends: P(x) = (1-q)/(1+q)·q^|x|."""
    low, high = exp_bounds(-1 / noise.scale, 60)

    def law(count: int) -> dict[int, tuple[Fraction, Fraction]]:
        made = {
            x: (
                (1 - high) / (1 + high) * low ** abs(x - count),
                (1 - low) / (1 + low) * high ** abs(x - count),
            )
            for x in range(-3, 6)
        }
        for end, size in ((-4, count + 4), (6, 6 - count)):
            made[end] = low**size / (1 + high), high**size / (1 + low)
        return made

    return {count: law(count) for count in range(3)}


# Black-box lower bounds


def _black_box_checks(samples: int) -> Iterator[AuditCheck]:
    few = samples // 4
    yield _sampled(Laplace(epsilon=1, l1_sensitivity=1), 0, 1, samples)
    yield _sampled(Laplace(epsilon=1, l1_sensitivity=1), 0.0, 1.0, samples, "Laplace, floats")
    yield _sampled(Laplace(epsilon=1, l1_sensitivity=3), [0, 5, 3], [1, 4, 4], samples, "Laplace, many numbers")
    yield _sampled(Gaussian(epsilon=1, delta=_DELTA, l2_sensitivity=1), 0, 1, samples)
    yield _sampled(Gaussian(epsilon=1, delta=_DELTA, l2_sensitivity=1), 0.0, 1.0, samples, "Gaussian, floats")
    yield _sampled(RandomizedResponse(epsilon=1, categories=3), 0, 2, samples)
    yield _sampled(Exponential(epsilon=1, sensitivity=1), [0, 0], [1, -1], samples)
    yield _sampled(PermuteAndFlip(epsilon=1, sensitivity=1), [0, 0], [1, -1], samples)
    yield _sampled(NoisyMax(epsilon=1, sensitivity=1), [0, 0, 0], [1, -1, -1], samples)
    yield _sampled(NoisyMax(epsilon=1, sensitivity=1, gap=True), [0, 0], [1, -1], samples, "NoisyMax, with margin")
    yield _sampled(TopK(epsilon=1, k=2, sensitivity=1), [0, 0, 0], [1, -1, 1], few)
    yield _sampled(PartitionSelection(epsilon=1, delta=_DELTA), {"a": 9, "b": 1}, {"a": 9}, samples)
    yield _sampled(Histogram(epsilon=1, bins=["a", "b"]), ["a", "b"], ["a"], samples)
    yield _sampled(Mean(epsilon=1, bounds=(0, 100)), [3, 97], [3], samples)
    counting = CountingQueries(epsilon=1, k=2)
    tests = [lambda age: age > 10, lambda age: age > 50]
    yield _sampled(lambda ages: counting.release(ages, tests), [60], [], samples, "CountingQueries", counting.guarantee)

    def stream(values: list[int]) -> list[bool]:
        return SparseVector(epsilon=1, sensitivity=1, threshold=0).release(values)

    promise = SparseVector(epsilon=1, sensitivity=1, threshold=0).guarantee
    yield _sampled(stream, [0, 0, 1], [1, 1, 0], few, "SparseVector", promise)


def _sampled(
    mechanism: Any, first: Any, second: Any, samples: int, name: str = "", claim: Guarantee | None = None
) -> AuditCheck:
    guarantee = mechanism.guarantee if claim is None else claim
    delta = getattr(guarantee, "delta", 0)

    def run() -> Verdict:
        return judged(
            lower_bound(
                mechanism, first, second, delta=delta, claimed=guarantee, samples=samples, confidence=_CONFIDENCE
            )
        )

    return AuditCheck(name or type(mechanism).__name__, "lower_bound", run)


# Replays


def _replay_checks() -> Iterator[AuditCheck]:
    for name, function in (("numbers", _numbers), ("counts", _counts), ("choices", _choices), ("keys", _keys)):
        yield AuditCheck(f"code that releases {name}", "replay", partial(_replayed, function))


def _replayed(function: Callable[[Any], Any]) -> Verdict:
    return judged_replays(replay_neighbours(function, _AGES))


def _clamped(ages: list[int]) -> list[int]:
    return [min(max(age, 0), 100) for age in ages]


def _by_decade(ages: list[int]) -> list[int]:
    decades = [age // 10 for age in _clamped(ages)]
    return [decades.count(decade) for decade in _DECADES]


def _numbers(ages: list[int]) -> object:
    return (
        Laplace(epsilon=1, l1_sensitivity=100).release(sum(_clamped(ages))),
        Laplace(epsilon=1, l1_sensitivity=1).release(float(len(ages))),
        Gaussian.from_rho(rho=1, l2_sensitivity=100).release(sum(_clamped(ages))),
        Mean(epsilon=1, bounds=(0, 100)).release(ages).value,
    )


def _counts(ages: list[int]) -> object:
    tests = [lambda age: age > 10, lambda age: age > 50]
    return (
        Histogram(epsilon=1, bins=list(_DECADES)).release([age // 10 for age in _clamped(ages)]),
        CountingQueries(epsilon=1, k=2).release(ages, tests),
        Gaussian.from_rho(rho=1, l2_sensitivity=1, dimension=len(_DECADES)).release(_by_decade(ages)),
    )


def _choices(ages: list[int]) -> object:
    scores = _by_decade(ages)
    stream = SparseVector(epsilon=1, sensitivity=1, threshold=2, positives=3, epsilon_values="1/2")
    return (
        Exponential(epsilon=1, sensitivity=1).release(scores),
        PermuteAndFlip(epsilon=1, sensitivity=1).release(scores),
        NoisyMax(epsilon=1, sensitivity=1, gap=True).release(scores),
        TopK(epsilon=1, k=2, sensitivity=1).release(scores),
        [stream.ask_value(score) for score in scores[:3]],
    )


def _keys(ages: list[int]) -> object:
    counts = {decade: count for decade, count in enumerate(_by_decade(ages)) if count}
    kept = PartitionSelection(epsilon=1, delta="1e-6").release(counts)
    noise = Laplace(epsilon=1, l1_sensitivity=1)
    return {decade: noise.release(counts[decade]) for decade in sorted(kept)}


_FIT_ROWS: Final = [(((7 * i) % 11) / 5 - 1, ((3 * i) % 13) / 6 - 1, i % 2) for i in range(30)]
#: Rows that a reader, a type or a solver might trip over: two features and a label or target.
_STRANGE: Final[tuple[tuple[Any, Any, Any], ...]] = (
    (0.5, 0.5, "unknown"),
    (0.5, 0.5, None),
    (0.5, 0.5, float("nan")),
    (0.5, 0.5, 1 + 2j),
    ("text", 0.5, 1),
    (None, [1.0], 0),
    (float("inf"), 1e308, 1),
    (10**400, 5e-324, 0),
)
_COMMON: Final[dict[str, Any]] = {"epsilon": 2, "delta": "1e-3", "bounds": (-1, 1)}


def fit_checks() -> Iterator[AuditCheck]:
    """One replay on many neighbours for each estimator and method; none where scikit-learn is not installed."""
    if importlib.util.find_spec("sklearn") is None:
        return
    for name, make in audited_estimators().items():
        yield AuditCheck(f"fit: {name}", "replay", partial(_replayed_fit, make))


def audited_estimators() -> dict[str, Callable[[], Any]]:
    """Every estimator of :mod:`tacit.learn`, small, by what it is; linear ones by each of their methods."""
    from tacit import learn

    classes, number = _COMMON | {"classes": [0, 1]}, _COMMON | {"target_bounds": (0, 1)}
    return {
        "logistic regression by gradients": lambda: learn.LogisticRegression(**classes, steps=3),
        "a support vector classifier by its minimiser": lambda: learn.LinearSVC(**classes, method="output"),
        "logistic regression by a tilted objective": lambda: learn.LogisticRegression(**classes, method="objective"),
        "naive Bayes": lambda: learn.GaussianNB(**classes),
        "least squares": lambda: learn.LinearRegression(**number, steps=3),
        "ridge regression": lambda: learn.Ridge(**number),
        "Poisson regression": lambda: learn.PoissonRegressor(**number, steps=3),
        "an additive model of classes": lambda: learn.AdditiveClassifier(**classes | {"epsilon": 3}, rounds=3),
        "an additive model of a number": lambda: learn.AdditiveRegressor(**number, rounds=3),
        "boosted trees for classes": lambda: learn.BoostedTreesClassifier(**classes | {"epsilon": 3}, trees=3),
        "boosted trees for a number": lambda: learn.BoostedTreesRegressor(**number, trees=3),
        "a scaler": lambda: learn.StandardScaler(**_COMMON),
        "a scaler of bounds alone": lambda: learn.MinMaxScaler(bounds=(-1, 1)),
        "a search among models": lambda: learn.PrivateSearch(
            candidates=[learn.GaussianNB(**classes | {"epsilon": each}) for each in (1, 2)], epsilon=1
        ),
        "principal components": lambda: learn.PCA(**_COMMON),
        "clusters": lambda: learn.KMeans(**_COMMON, n_clusters=2, steps=3),
    }


def _replayed_fit(make: Callable[[], Any]) -> Verdict:
    pairs = [Neighbours("without a row", _FIT_ROWS, _FIT_ROWS[1:])]
    pairs += [Neighbours(f"with the row {row!r} at the end", _FIT_ROWS, [*_FIT_ROWS, row]) for row in _STRANGE]
    pairs += [Neighbours(f"with the row {row!r} at the start", _FIT_ROWS, [row, *_FIT_ROWS]) for row in _STRANGE]
    if "candidates" in make().get_params(deep=False):
        # Each row throws a coin, and coins agree where tables are of one length: a row without a class adds nothing.
        nothing = (0.0, 0.0, "no class")
        strange = [*_STRANGE, (0.5, 0.5, 1)]
        pairs = [Neighbours(f"with the row {row!r}", [*_FIT_ROWS, nothing], [*_FIT_ROWS, row]) for row in strange]
    return judged_replays(replay_neighbours(partial(_fitted, make), _FIT_ROWS, neighbours=pairs))


def _fitted(make: Callable[[], Any], rows: Sequence[tuple[Any, Any, Any]]) -> list[tuple[str, str]]:
    """All that a fitted model shows, as text: numbers to the last digit, and types."""
    model = make().fit([list(row[:2]) for row in rows], [row[2] for row in rows])
    shown = sorted(name for name in vars(model) if name.endswith("_") and not name.startswith("_"))
    values = [(name, getattr(model, name)) for name in shown]
    return [
        (name, f"{getattr(value, 'dtype', '')} {getattr(value, 'tolist', lambda v=value: v)()!r}")
        for name, value in values
    ]


_ALL = Order("people", PureDP(1))
#: By turns: what is done, and what it does to a folder with a spent ledger; returns what is wrong, or nothing.
_Work = Callable[[Path], str]


def ledger_checks() -> Iterator[AuditCheck]:
    """A backup put back, a backup adopted, a deleted ledger, a copy in a child, a whole machine put back."""
    works: dict[str, _Work] = {
        "a backup put back": _put_back,
        "a backup adopted": _adopted,
        "a deleted ledger begun anew": _begun_anew,
        "an account in memory, copied by a fork": _forked,
        "a machine put back whole, seen by a client": _machine,
    }
    for name, work in works.items():
        yield AuditCheck(f"the account after {name}", "ledger", lambda work=work: _judged(work))  # type: ignore[misc]


def _judged(work: _Work) -> Verdict:
    with tempfile.TemporaryDirectory(prefix="tacit-audit-") as folder:
        problem = work(Path(folder))
    return Verdict(bool(problem), problem or "nothing more was admitted, and every override is shown", None)


def _open(folder: Path) -> Ledger:
    ledger = Ledger.open(folder / "book" / "ledger", anchor=folder / "anchor")
    ledger.ensure_account("people", PureFilter(epsilon=1))
    return ledger


def _spent(folder: Path, *, backup: bool = True) -> None:
    """A ledger whose budget is spent, and a backup from before."""
    _open(folder).close()
    if backup:
        shutil.copytree(folder / "book", folder / "backup")
    with _open(folder) as ledger:
        ledger.reserve(_ALL)


def _restore(folder: Path) -> None:
    shutil.rmtree(folder / "book")
    shutil.copytree(folder / "backup", folder / "book")


def _admits(ledger: Ledger) -> bool:
    try:
        return isinstance(ledger.reserve(_ALL), Reservation)
    except TacitError:
        return False


def _put_back(folder: Path) -> str:
    _spent(folder)
    _restore(folder)
    try:
        with _open(folder) as ledger:
            return "an old copy was opened" + (", and admitted a charge again" if _admits(ledger) else "")
    except TacitError:
        return ""


def _adopt(folder: Path) -> Ledger:
    return Ledger.adopt(folder / "book" / "ledger", anchor=folder / "anchor", reason="an audit", operator="audit")


def _adopted(folder: Path) -> str:
    _spent(folder)
    _restore(folder)
    with _adopt(folder) as ledger:
        if _admits(ledger):
            return "an adopted backup admitted what had been spent"
        kinds = [each.kind for each in ledger.verify().overrides]
    return "" if kinds == ["lost", "adopted"] else f"verifying shows {kinds} instead of the loss and the adoption"


def _begun_anew(folder: Path) -> str:
    _spent(folder, backup=False)
    shutil.rmtree(folder / "book")
    with _adopt(folder) as ledger:
        ledger.ensure_account("people", PureFilter(epsilon=1))
        return "a ledger begun anew admitted what had been spent" if _admits(ledger) else ""


def _forked(_: Path) -> str:
    with Ledger.open(MEMORY) as ledger:
        ledger.ensure_account("people", PureFilter(epsilon=1))
        pid = os.fork()
        if pid == 0:
            admitted = True
            try:
                admitted = _admits(ledger)
            finally:
                os._exit(1 if admitted else 0)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return "a forked child charged a copy of the account" if status else ""


def _machine(folder: Path) -> str:
    """Ledger and anchor are put back together; the client keeps what it saw."""
    _open(folder).close()
    for part in ("book", "anchor"):
        place = folder / part
        (shutil.copytree if place.is_dir() else shutil.copy)(place, folder / f"saved-{part}")
    with _open(folder) as ledger:
        held: Any = ledger.reserve(_ALL)
        ident, seen = ledger.id, ledger.head
    witness = _witness(folder, ident)
    witness.advance(seen, held.previous, lambda _: True)
    shutil.rmtree(folder / "book")
    shutil.copytree(folder / "saved-book", folder / "book")
    shutil.copy(folder / "saved-anchor", folder / "anchor")
    with _open(folder) as ledger:
        try:
            seen_text(ledger, head_text(_witness(folder, ident).known))
        except (ConflictError, TrustError):
            return ""
    return "a client that had seen a newer entry was not refused"


def _witness(folder: Path, ledger: str) -> Witness:
    return Witness("the server", ledger, lasting=True, folder=folder / "client")


#: Rows of persons in two tables; some persons are in both, one has far more rows than count.
_UNIT_ROWS: Final = [
    *({"person": i, "table": ("visits", "letters")[i % 2], "cost": i % 9} for i in range(1, 12)),
    *({"person": i, "table": ("letters", "visits")[i % 2], "cost": i % 9} for i in range(5, 12)),
    *({"person": 7, "table": "visits", "cost": 9} for _ in range(20)),
]
_WITH: Final = "WITH v AS (SELECT id, cost FROM visits UNION ALL SELECT id, cost FROM letters) "
_QUERIES: Final = {
    "rows of two tables": "SELECT COUNT(*), SUM(cost) FROM v",
    "a median over two tables": "SELECT MEDIAN(cost) FROM v",
    "keys of two tables": "SELECT cost, COUNT(*) FROM v GROUP BY cost",
}
#: Declared types of ids; a table cannot have one and another table of its population another.
_TYPES: Final = ("integer", "decimal", "text", "date", "boolean", "row")


def unit_checks() -> Iterator[AuditCheck]:
    """One person in two stores that write ids otherwise; kinds of ids that must be refused; a unit that moves."""
    for name, sql in _QUERIES.items():
        yield AuditCheck(f"SQL: {name}", "replay", partial(_replayed_query, _WITH + sql))
    yield AuditCheck("units of two kinds in one population", "refusals", _mixed)
    yield AuditCheck("a unit that moves after it was fixed", "refusals", _moved)


def _replayed_query(sql: str) -> Verdict:
    return judged_replays(replay_neighbours(_asking(sql), _UNIT_ROWS, unit="person"))


def _asking(sql: str) -> Callable[[list[dict[str, Any]]], Any]:
    def ask(rows: list[dict[str, Any]]) -> Any:
        with open_project(_project(rows)) as curator:
            answer = curator.sql(sql, epsilon=1)
            return answer.finished.values, answer.finished.intervals(), answer.charge.text, answer.note

    return ask


def _project(rows: list[dict[str, Any]]) -> Project:
    """Whole numbers in one table, and in the other the same persons as texts with leading zeros."""
    here = {name: [row for row in rows if row["table"] == name] for name in ("visits", "letters")}
    frames = {
        "visits": _frame(INTEGER, [(row["person"], row["cost"]) for row in here["visits"]]),
        "letters": _frame(TEXT, [(f"{row['person']:04d}", row["cost"]) for row in here["letters"]]),
    }
    return _made(frames, {name: {"unit": "id", "type": "integer"} for name in frames})


def _frame(ids: SqlType, rows: Sequence[tuple[Any, int]]) -> PlainFrame:
    return PlainFrame.of({"id": ids, "cost": INTEGER}, rows)


def _made(frames: dict[str, PlainFrame], units: dict[str, dict[str, str]]) -> Project:
    tables = {
        name: {
            "source": "frame",
            "population": "people",
            "unit": units[name]["unit"],
            "max_rows": 3,
            "max_groups": 2,
            "columns": {"id": {"type": units[name]["type"]}, "cost": {"type": "integer", "bounds": [0, 9]}},
        }
        for name in frames
    }
    people = {"epsilon": "10", "delta": "1e-5", "accounting": "approx"}
    model = validate(ProjectModel, {"populations": {"people": people}, "tables": tables})
    return build(model, {name: Source.of_frame(frame) for name, frame in frames.items()})


def _mixed() -> Verdict:
    """Every pair of kinds must be refused; what is accepted is an objection."""
    frame = _frame(TEXT, [("1", 1)])
    accepted = []
    for pair in (*permutations(_TYPES, 2), ("row", "row")):
        units = [{"unit": "row", "type": "text"} if kind == "row" else {"unit": "id", "type": kind} for kind in pair]
        try:
            open_project(_made({"one": frame, "two": frame}, {"one": units[0], "two": units[1]})).close()
        except InputError:
            continue
        accepted.append(" with ".join(pair))
    return Verdict(
        bool(accepted), f"accepted: {', '.join(accepted)}" if accepted else "all of them are refused", accepted
    )


def _moved() -> Verdict:
    """An account opened for one unit must not be opened for another."""
    frame = _frame(INTEGER, [(1, 1), (1, 2), (2, 3)])
    kinds = {"id": {"unit": "id", "type": "integer"}, "row": {"unit": "row", "type": "integer"}}
    kinds["cost"] = {"unit": "cost", "type": "integer"}
    accepted = []
    for first, second in permutations(kinds, 2):
        with tempfile.TemporaryDirectory() as folder:
            made = [_made({"data": frame}, {"data": kinds[name]}) for name in (first, second)]
            anchor, ledger = str(Path(folder) / "anchor"), str(Path(folder) / "tacit.ledger")
            projects = [replace(project, anchor=anchor, ledger=ledger) for project in made]
            with open_project(projects[0]) as curator:
                curator.sql("SELECT COUNT(*) FROM data", epsilon="0.1")
            try:
                open_project(projects[1]).close()
            except InputError:
                continue
            accepted.append(f"{first} and then {second}")
    return Verdict(bool(accepted), f"accepted: {', '.join(accepted)}" if accepted else "each is refused", accepted)
