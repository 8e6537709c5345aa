"""Private models beside diffprivlib's and beside scikit-learn without privacy, in one run.

    .venv/bin/python benchmarks/learn.py [--only breast_cancer digits …] [--splits 10] [--quick]
    .venv/bin/python benchmarks/learn.py --only tables regression --tables untuned --splits 10 --scores scores.json

Test accuracy (or R², or explained variance) on a fifth of the rows that no fit has seen, mean and standard deviation
over splits and noises. δ = 1/(10·rows). ε is the whole price, preprocessing included. Everything runs with its
defaults; bounds are declared by the owner of the data, and all contenders are told the same ones. Tacit's defaults were
chosen on the tables that :mod:`learning_tables` marks so, on splits from 0 on; ``--first 5000`` takes other splits. The
parts ``tables`` and ``regression`` hold every estimator beside diffprivlib, DP-EBM (``interpret-core``, left out where
it is not installed) and scikit-learn without privacy. ``--tables`` takes parts of their names, ``untuned`` for all that
nothing was tuned on; ``--scores`` keeps the score of every fit, from which ``docs/figures/learning.py`` draws, and a
run goes on where an earlier one with that file was ended. The part ``plans`` measures what ``expected_excess`` and
``rows_needed`` state (:mod:`learning_plans`). Prints Markdown.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import signal
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from learning_plans import plans
from learning_tables import ADULT_BOUNDS, Table, adult_frame
from learning_tables import classification as classification_tables
from learning_tables import regression as regression_tables

Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
#: A contender: from a training set, ε and δ to a score on a test set; None where it does not apply.
Contender = Callable[[Split, float, float], float]
#: Scores by contender and ε, one of each split; ε = 0 stands for a model without privacy.
Cells = dict[str, dict[float, list[tuple[float, ...]]]]

#: The first split.
FIRST = 0
#: Parts of names of tables to run, and the file for all scores.
CHOSEN: list[str] = []
#: Parts of names of contenders in the parts "tables" and "regression"; all if none.
WANTED: list[str] = []
SCORES: Path | None = None
#: Whether scores of chosen contenders in that file are forgotten.
ANEW = False
#: A fit that takes longer, in seconds, is given up.
LONGEST = 120
#: Prices of the large tables.
EPSILONS: tuple[float, ...] = (0.1, 1.0, 3.0, 10.0, 100.0)


def splits(X: np.ndarray, y: np.ndarray, seed: int, *, stratify: bool = True) -> Split:
    """Four fifths to train, one to test."""
    from sklearn.model_selection import train_test_split

    train, test, y_train, y_test = train_test_split(
        X, y, test_size=0.2, random_state=seed, stratify=y if stratify else None
    )
    return train, test, y_train, y_test


def to_box(values: np.ndarray, bounds: list[tuple[float, float]]) -> np.ndarray:
    """Values between -1 and 1, for rivals that want a norm instead of bounds."""
    low, high = (np.array(side, dtype=float) for side in zip(*bounds, strict=True))
    width = np.where(high > low, high - low, 1.0)
    return np.clip(2 * (values - low) / width - 1, -1, 1)


def classifiers(bounds: list[tuple[float, float]], classes: list[Any], *, slow: bool) -> dict[str, Contender]:
    """Everyone who can classify."""
    from diffprivlib.models import GaussianNB as RivalBayes
    from diffprivlib.models import LogisticRegression as Rival
    from sklearn.linear_model import LogisticRegression as Plain
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from tacit.learn import GaussianNB, LinearSVC, LogisticRegression

    def plain(split: Split, _epsilon: float, _delta: float) -> float:
        model = make_pipeline(StandardScaler(), Plain(max_iter=1000))
        return float(model.fit(split[0], split[2]).score(split[1], split[3]))

    def tacit(made: Any, **settings: Any) -> Contender:
        def run(split: Split, epsilon: float, delta: float) -> float:
            model = made(epsilon=epsilon, delta=delta, bounds=bounds, classes=classes, **settings)
            return float(model.fit(split[0], split[2]).score(split[1], split[3]))

        return run

    def rival(split: Split, epsilon: float, _delta: float) -> float:
        model = Rival(epsilon=epsilon, data_norm=float(np.sqrt(len(bounds))), max_iter=500)
        train, test = to_box(split[0], bounds), to_box(split[1], bounds)
        return float(model.fit(train, split[2]).score(test, split[3]))

    def rival_bayes(split: Split, epsilon: float, _delta: float) -> float:
        low, high = zip(*bounds, strict=True)
        model = RivalBayes(epsilon=epsilon, bounds=(np.array(low, float), np.array(high, float)), priors=None)
        return float(model.fit(split[0], split[2]).score(split[1], split[3]))

    found: dict[str, Contender] = {
        "scikit-learn, no privacy": plain,
        "tacit LogisticRegression": tacit(LogisticRegression),
        "tacit LogisticRegression, output": tacit(LogisticRegression, method="output"),
    }
    if len(classes) == 2:
        found["tacit LogisticRegression, objective"] = tacit(LogisticRegression, method="objective")
    found["tacit LinearSVC"] = tacit(LinearSVC)
    found["tacit GaussianNB"] = tacit(GaussianNB)
    found["diffprivlib LogisticRegression"] = rival
    found["diffprivlib GaussianNB"] = rival_bayes
    if slow:
        del found["tacit LogisticRegression, output"]
    return found


def table(
    title: str, contenders: dict[str, Contender], make: Callable[[int], Split], epsilons: list[float], repeats: int
) -> None:
    """One Markdown table: contenders down, ε across."""
    print(f"\n### {title}\n\n| | " + " | ".join(f"ε = {e:g}" for e in epsilons) + " | s per fit |")
    print("|---|" + "---|" * (len(epsilons) + 1), flush=True)
    for name, contender in contenders.items():
        cells, spent, fits = [], 0.0, 0
        for epsilon in epsilons if "no privacy" not in name and name != "random" else epsilons[:1]:
            scores = []
            for seed in range(FIRST, FIRST + repeats):
                split = make(seed)
                start = time.perf_counter()
                signal.alarm(LONGEST)
                try:
                    scores.append(contender(split, epsilon, 1 / (10 * len(split[0]))))
                except Exception as failure:
                    print(f"<!-- {name}: {type(failure).__name__}: {str(failure)[:80]} -->")
                    break
                finally:
                    signal.alarm(0)
                spent, fits = spent + time.perf_counter() - start, fits + 1
            if not scores:
                cells.append("—")
            elif np.mean(scores) < -100:
                cells.append(f"{np.mean(scores):.1e}")
            else:
                cells.append(f"{np.mean(scores):.3f} ± {np.std(scores):.3f}")
        cells += [cells[0]] * (len(epsilons) - len(cells))
        print(f"| {name} | " + " | ".join(cells) + f" | {spent / max(fits, 1):.2f} |", flush=True)


def breast_cancer(repeats: int) -> None:
    """569 rows, 30 columns."""
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    bounds = list(zip(X.min(axis=0).tolist(), X.max(axis=0).tolist(), strict=True))
    table(
        "breast_cancer (455 rows, 30 columns), accuracy",
        classifiers(bounds, [0, 1], slow=False),
        lambda seed: splits(X, y, seed),
        [0.1, 1, 10],
        repeats,
    )


def digits(repeats: int) -> None:
    """1797 rows, 64 columns, ten classes."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    table(
        "digits (1,437 rows, 64 columns, 10 classes), accuracy",
        classifiers([(0.0, 16.0)] * 64, list(range(10)), slow=False),
        lambda seed: splits(X, y, seed),
        [0.1, 1, 3, 10],
        repeats,
    )


def classification(repeats: int) -> None:
    """Synthetic, 50,000 rows."""
    from sklearn.datasets import make_classification

    def make(seed: int) -> Split:
        return splits(*make_classification(50_000, 20, random_state=seed), seed)

    table(
        "make_classification(50,000, 20), accuracy",
        classifiers([(-5.0, 5.0)] * 20, [0, 1], slow=True),
        make,
        [0.1, 1],
        min(repeats, 4),
    )


def adult(repeats: int) -> None:
    """Census records, one-hot."""
    import pandas as pd

    frame = adult_frame()
    if frame is None:
        print("\n<!-- Adult left out: set TACIT_DATA to the folder that holds adult.csv -->")
        return
    y = frame["income"].astype(str).str.contains(">50K").to_numpy().astype(int)
    columns, bounds = [], []
    for name in frame.columns.drop("income"):
        if name in ADULT_BOUNDS:
            columns.append(frame[[name]].to_numpy(dtype=float))
            bounds.append(tuple(map(float, ADULT_BOUNDS[name])))
        else:
            dummies = pd.get_dummies(frame[name]).to_numpy(dtype=float)
            columns.append(dummies)
            bounds += [(0.0, 1.0)] * dummies.shape[1]
    X = np.hstack(columns)
    table(
        f"Adult ({int(len(X) * 0.8):,} rows, {X.shape[1]} columns one-hot), accuracy",
        classifiers(bounds, [0, 1], slow=True),
        lambda seed: splits(X, y, seed),
        [0.1, 1],
        min(repeats, 4),
    )


def least_squares(repeats: int) -> None:
    """Regression on 50,000 rows."""
    from diffprivlib.models import LinearRegression as Rival
    from sklearn.datasets import make_regression
    from sklearn.linear_model import LinearRegression as Plain

    from tacit.learn import LinearRegression

    low, high, bottom, top = -5.0, 5.0, -1000.0, 1000.0

    def make(seed: int) -> Split:
        X, y = make_regression(50_000, 10, n_informative=5, noise=50, random_state=seed)
        return splits(X, y, seed, stratify=False)

    def plain(split: Split, _epsilon: float, _delta: float) -> float:
        return float(Plain().fit(split[0], split[2]).score(split[1], split[3]))

    def tacit(split: Split, epsilon: float, delta: float) -> float:
        model = LinearRegression(epsilon=epsilon, delta=delta, bounds=(low, high), target_bounds=(bottom, top))
        return float(model.fit(split[0], split[2]).score(split[1], split[3]))

    def rival(split: Split, epsilon: float, _delta: float) -> float:
        model = Rival(epsilon=epsilon, bounds_X=(low, high), bounds_y=(bottom, top))
        return float(model.fit(split[0], split[2]).score(split[1], split[3]))

    contenders: dict[str, Contender] = {
        "scikit-learn, no privacy": plain,
        "tacit LinearRegression": tacit,
        "diffprivlib LinearRegression": rival,
    }
    table("make_regression(50,000, 10), R²", contenders, make, [0.1, 1], min(repeats, 5))


def components(repeats: int) -> None:
    """Five principal components of digits: the share of the test rows' variance that they explain."""
    from diffprivlib.models import PCA as Rival  # noqa: N811 - it is a class
    from sklearn.datasets import load_digits
    from sklearn.decomposition import PCA as Plain  # noqa: N811

    from tacit.learn import PCA

    X, y = load_digits(return_X_y=True)

    def explained(directions: np.ndarray, test: np.ndarray) -> float:
        centred, basis = test - test.mean(axis=0), np.linalg.qr(directions.T)[0]
        return float(((centred @ basis) ** 2).sum() / (centred**2).sum())

    def plain(split: Split, _epsilon: float, _delta: float) -> float:
        return explained(Plain(5).fit(split[0]).components_, split[1])

    def tacit(split: Split, epsilon: float, delta: float) -> float:
        model = PCA(epsilon=epsilon, delta=delta, bounds=(0, 16), n_components=5)
        return explained(model.fit(split[0]).components_, split[1])

    def rival(split: Split, epsilon: float, _delta: float) -> float:
        # Told in units of 16: with bounds (0, 16) its sampler does not return within minutes.
        model = Rival(n_components=5, epsilon=epsilon, data_norm=8.0, bounds=(0.0, 1.0))
        return explained(model.fit(split[0] / 16).components_, split[1])

    def random(split: Split, _epsilon: float, _delta: float) -> float:
        return explained(np.random.default_rng().normal(size=(5, 64)), split[1])

    contenders: dict[str, Contender] = {
        "scikit-learn, no privacy": plain,
        "tacit PCA": tacit,
        "diffprivlib PCA": rival,
        "random": random,
    }
    make = lambda seed: splits(X, y, seed)  # noqa: E731 - one line says it
    table("five components of digits, explained variance", contenders, make, [0.1, 1, 10], repeats)


def clusters(repeats: int) -> None:
    """Five clusters of 20,000 rows: adjusted Rand index against the truth."""
    from diffprivlib.models import KMeans as Rival
    from sklearn.cluster import KMeans as Plain
    from sklearn.datasets import make_blobs
    from sklearn.metrics import adjusted_rand_score

    from tacit.learn import KMeans

    def make(seed: int) -> Split:
        return splits(*make_blobs(20_000, centers=5, n_features=4, random_state=seed), seed)

    def plain(split: Split, _epsilon: float, _delta: float) -> float:
        return float(adjusted_rand_score(split[3], Plain(5, n_init=3).fit(split[0]).predict(split[1])))

    def tacit(split: Split, epsilon: float, delta: float) -> float:
        model = KMeans(epsilon=epsilon, delta=delta, bounds=(-15, 15), n_clusters=5)
        return float(adjusted_rand_score(split[3], model.fit(split[0]).predict(split[1])))

    def rival(split: Split, epsilon: float, _delta: float) -> float:
        model = Rival(5, epsilon=epsilon, bounds=(np.full(4, -15.0), np.full(4, 15.0)))
        return float(adjusted_rand_score(split[3], model.fit(split[0]).predict(split[1])))

    contenders: dict[str, Contender] = {
        "scikit-learn, no privacy": plain,
        "tacit KMeans": tacit,
        "diffprivlib KMeans": rival,
    }
    table("make_blobs(20,000, 4), 5 clusters, adjusted Rand index", contenders, make, [0.1, 1], repeats)


def calibration_error(chances: np.ndarray, truth: np.ndarray, classes: np.ndarray) -> float:
    """The expected calibration error, with ten bins of confidence."""
    sure, right = chances.max(axis=1), classes[chances.argmax(axis=1)] == truth
    places = np.minimum((sure * 10).astype(int), 9)
    gaps = [abs(sure[places == i].mean() - right[places == i].mean()) * (places == i).mean() for i in set(places)]
    return float(np.sum(gaps))


def _scores(model: Any, rows: np.ndarray, truth: np.ndarray) -> tuple[float, float, float]:
    """Accuracy, log loss and calibration error."""
    from sklearn.metrics import log_loss

    chances, classes = model.predict_proba(rows), np.array(model.classes_)
    loss = float(log_loss(truth, chances, labels=classes))
    return float(model.score(rows, truth)), loss, calibration_error(chances, truth, classes)


def one_hot(rows: np.ndarray, table_: Table) -> tuple[np.ndarray, list[tuple[float, float]]]:
    """Rows with a column for each category, and their bounds, for those that know no categories."""
    columns, bounds = [], []
    for place, pair in enumerate(table_.bounds):
        size = (table_.categories or {}).get(place)
        if size is None:
            columns.append(rows[:, place : place + 1])
            bounds.append(pair)
        else:
            columns.append((rows[:, place : place + 1] == np.arange(size)).astype(float))
            bounds += [(0.0, 1.0)] * size
    return np.hstack(columns), bounds


def declared(table_: Table) -> dict[str, Any]:
    """Bounds and categories for estimators of tacit."""
    if table_.categories is None:
        return {"bounds": table_.bounds}
    return {
        "bounds": [None if place in table_.categories else pair for place, pair in enumerate(table_.bounds)],
        "categories": {place: list(range(size)) for place, size in table_.categories.items()},
    }


def _explainable(kind: str, table_: Table, epsilon: float, delta: float) -> Any:
    """DP-EBM, told the same bounds; None where the package is missing."""
    try:
        import interpret.privacy as rival
    except ImportError:
        return None
    names = ["nominal" if place in (table_.categories or {}) else "continuous" for place in range(len(table_.bounds))]
    more = {}
    if table_.target is not None:
        more = dict(zip(("privacy_target_min", "privacy_target_max"), table_.target, strict=True))
    made = getattr(rival, f"DPExplainableBoosting{kind}")
    return made(
        epsilon=epsilon,
        delta=delta,
        privacy_bounds=dict(enumerate(table_.bounds)),
        feature_types=names,
        n_jobs=1,
        **more,
    )


def _shown(cells: list[tuple[float, ...]]) -> str:
    if not cells:
        return "—"
    return " / ".join(f"{value:.3f}" if value > -100 else f"{value:.1e}" for value in np.mean(cells, axis=0))


def is_wanted(name: str) -> bool:
    """Whether a contender was asked for, by a part of its name."""
    return not WANTED or any(part in name for part in WANTED)


def is_chosen(table_: Table) -> bool:
    """Whether a table was asked for, by a part of its name or as one that nothing was tuned on."""
    return not CHOSEN or any(part in table_.name or (part == "untuned" and not table_.tuned) for part in CHOSEN)


class Measured:
    """Scores of one table, by contender and ε in the order of splits; kept in a file, if one was named.

    Cells that the file holds are not measured again, so a run that was ended goes on where it was. Several processes
    may share a file, each with tables or contenders of its own.
    """

    def __init__(self, table_: Table, words: str) -> None:
        self._label, self._words, self._own = table_.label, words.split(" / "), {}  # type: ignore[var-annotated]
        kept = json.loads(SCORES.read_text()) if SCORES is not None and SCORES.exists() else {}
        told = kept.get(self._label, {"contenders": {}})
        self.cells: Cells = {
            name: {float(epsilon): list(map(tuple, scores)) for epsilon, scores in each.items()}
            for name, each in told["contenders"].items()
            if not (ANEW and is_wanted(name))
        }

    def run(self, number: int, name: str, epsilon: float, fit: Callable[[], tuple[float, ...]]) -> None:
        """Note the score of a split, unless it is known, was not asked for or takes too long."""
        cell = self.cells.setdefault(name, {}).setdefault(epsilon, [])
        if len(cell) != number or not is_wanted(name):
            return
        signal.alarm(LONGEST)
        try:
            cell.append(fit())
        except TimeoutError as failure:
            print(f"<!-- {name} at ε = {epsilon:g}: {failure} -->", flush=True)
            return
        finally:
            signal.alarm(0)
        self._own.setdefault(name, {})[epsilon] = cell

    def keep(self) -> None:
        """Write what was measured into the file, beside what others wrote."""
        if SCORES is None or not self._own:
            return
        with SCORES.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            kept = json.loads(SCORES.read_text()) if SCORES.exists() else {}
            told = kept.setdefault(self._label, {"scores": self._words, "contenders": {}})
            for name, cells in self._own.items():
                shown = {f"{epsilon:g}": np.round(scores, 4).tolist() for epsilon, scores in cells.items()}
                told["contenders"].setdefault(name, {}).update(shown)
            lines = [f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(each)}" for name, each in kept.items()]
            SCORES.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")

    def print(self) -> None:
        """A Markdown table: contenders down, ε across."""
        print(
            f"\n### {self._label}: {' / '.join(self._words)}\n\n| | "
            + " | ".join(f"ε = {e:g}" for e in EPSILONS)
            + " |"
        )
        print("|---|" + "---|" * len(EPSILONS))
        for name, cells in self.cells.items():
            if any(cells.values()):
                shown = [_shown(cells.get(0.0) or cells.get(e) or []) for e in EPSILONS]
                print(f"| {name} | " + " | ".join(shown) + " |")
        print(flush=True)


def tables(repeats: int) -> None:
    """Every classifier on every table: accuracy / log loss / calibration error."""
    for table_ in filter(is_chosen, classification_tables()):
        measured = Measured(table_, "accuracy / log loss / calibration error")
        for number in range(repeats):
            seed = FIRST + number
            _classify(table_, splits(*table_.make(seed), seed), partial(measured.run, number))
            measured.keep()
        measured.print()


def _classify(table_: Table, split: Split, run: Callable[..., None]) -> None:
    from diffprivlib.models import LogisticRegression as Rival
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression as Plain
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from tacit.learn import AdditiveClassifier, BoostedTreesClassifier, GaussianNB, LogisticRegression

    train, test, y_train, y_test = split
    classes, delta = sorted(set(y_train.tolist())), 1 / (10 * len(train))
    (flat, limits), (flat_test, _) = one_hot(train, table_), one_hot(test, table_)
    boxed, boxed_test = to_box(flat, limits), to_box(flat_test, limits)

    def score(model: Any, rows: np.ndarray, others: np.ndarray) -> tuple[float, float, float]:
        return _scores(model.fit(rows, y_train), others, y_test)

    plain = make_pipeline(StandardScaler(), Plain(max_iter=1000))
    run("scikit-learn LogisticRegression, no privacy", 0.0, lambda: score(plain, flat, flat_test))
    trees = HistGradientBoostingClassifier(categorical_features=list(table_.categories or ()) or None)
    run("scikit-learn HistGradientBoosting, no privacy", 0.0, lambda: score(trees, train, test))
    for epsilon in EPSILONS:
        common = {"epsilon": epsilon, "delta": delta, "classes": classes}
        for kind in (LogisticRegression, AdditiveClassifier, BoostedTreesClassifier):
            model = kind(**common, **declared(table_))
            run(f"tacit {kind.__name__}", epsilon, lambda model=model: score(model, train, test))
        bayes = GaussianNB(**common, bounds=limits)
        run("tacit GaussianNB", epsilon, lambda model=bayes: score(model, flat, flat_test))
        rival = _explainable("Classifier", table_, epsilon, delta) if len(classes) == 2 else None
        if rival is not None:
            run("DP-EBM", epsilon, lambda model=rival: score(model, train, test))
        if len(limits) <= 64:
            other = Rival(epsilon=epsilon, data_norm=float(np.sqrt(len(limits))), max_iter=500)
            run("diffprivlib LogisticRegression", epsilon, lambda model=other: score(model, boxed, boxed_test))


def regression(repeats: int) -> None:
    """Every regression on every table: R²."""
    for table_ in filter(is_chosen, regression_tables()):
        measured = Measured(table_, "R²")
        for number in range(repeats):
            seed = FIRST + number
            _regress(table_, splits(*table_.make(seed), seed, stratify=False), partial(measured.run, number))
            measured.keep()
        measured.print()


def _regress(table_: Table, split: Split, run: Callable[..., None]) -> None:
    from diffprivlib.models import LinearRegression as Rival
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import LinearRegression as Plain

    from tacit.learn import AdditiveRegressor, BoostedTreesRegressor, LinearRegression

    made: dict[str, Callable[..., Any]] = {
        "tacit LinearRegression": LinearRegression,
        "tacit AdditiveRegressor": AdditiveRegressor,
        "tacit BoostedTreesRegressor": BoostedTreesRegressor,
    }
    train, test, y_train, y_test = split
    delta = 1 / (10 * len(train))
    ends = tuple(map(np.array, zip(*table_.bounds, strict=True)))

    def score(model: Any, targets: np.ndarray = y_train) -> tuple[float]:
        return (float(model.fit(train, targets).score(test, y_test)),)

    run("scikit-learn LinearRegression, no privacy", 0.0, lambda: score(Plain()))
    run("scikit-learn HistGradientBoosting, no privacy", 0.0, lambda: score(HistGradientBoostingRegressor()))
    for epsilon in EPSILONS:
        for name, kind in made.items():
            model = kind(epsilon=epsilon, delta=delta, bounds=table_.bounds, target_bounds=table_.target)
            run(name, epsilon, lambda model=model: score(model))
        rival = _explainable("Regressor", table_, epsilon, delta)
        if rival is not None:
            run("DP-EBM", epsilon, lambda model=rival: score(model, np.clip(y_train, *table_.target)))
        other = Rival(epsilon=epsilon, bounds_X=ends, bounds_y=table_.target)
        run("diffprivlib LinearRegression", epsilon, lambda model=other: score(model))


def planned(repeats: int) -> None:
    """Excess errors as planned and as measured, at ε from 0.3 to 10."""
    plans(repeats, (0.3, 1.0, 3.0, 10.0), FIRST, CHOSEN)


PARTS: dict[str, Callable[[int], None]] = {
    "plans": planned,
    "tables": tables,
    "regression": regression,
    "breast_cancer": breast_cancer,
    "digits": digits,
    "classification": classification,
    "adult": adult,
    "least_squares": least_squares,
    "components": components,
    "clusters": clusters,
}


def _give_up(*_: object) -> None:
    raise TimeoutError(f"longer than {LONGEST} s")


def main() -> None:
    """Read the arguments and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--splits", "--repeats", type=int, default=10, dest="splits")
    parser.add_argument("--tables", nargs="*", default=[], help="parts of names of tables, or 'untuned'")
    parser.add_argument("--contenders", nargs="*", default=[], help="parts of names, in the parts with all estimators")
    parser.add_argument("--epsilons", nargs="*", type=float, default=list(EPSILONS), help="likewise")
    parser.add_argument("--scores", type=Path, help="file for the score of every fit; those in it stay")
    parser.add_argument("--anew", action="store_true", help="measure what that file holds of chosen contenders again")
    parser.add_argument("--quick", action="store_true", help="two repeats")
    parser.add_argument("--first", type=int, default=0, help="number of the first split")
    chosen = parser.parse_args()
    globals().update(FIRST=chosen.first, CHOSEN=chosen.tables, SCORES=chosen.scores, ANEW=chosen.anew)
    globals().update(WANTED=chosen.contenders, EPSILONS=tuple(chosen.epsilons))
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _give_up)
    print("## Learning")
    for name in chosen.only:
        PARTS[name](2 if chosen.quick else chosen.splits)


if __name__ == "__main__":
    main()
