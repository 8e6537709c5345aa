"""Synthetic tables by other libraries, each in an environment of its own; called by ``synth.py`` and by hand.

``python synth_rivals.py RIVAL METHOD EPSILON DELTA coded.csv sizes.json drawn.csv``, where RIVAL is ``smartnoise``,
``dpmm`` or ``mbi`` (the reference scripts of mbi 1.3, whose folder ``mechanisms`` is on ``PYTHONPATH``). Columns are
places of values from 0 on, in bins already, so that all libraries see the same table. Prints seconds by the clock and
of processors. METHOD-quick is dpmm or the reference script of AIM with 100 iterations of each fit instead of 1,000, and
models of at most 7 MB, as here, instead of 80. ``--seconds`` of a processor, or ``--clock``, end a run: the table is
then drawn from the last model that was fitted, and the share of its price that AIM had spent is printed.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import resource
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import pandas as pd

#: Iterations of a fit and megabytes of a model in METHOD-quick.
QUICK = (100, 7)


class TimeIsUpError(Exception):
    """The seconds of a processor are used up."""


class Progress:
    """Progress of a run until its time is up: the last model that was fitted, and the share of the price spent."""

    def __init__(self) -> None:
        self.model: Any = None
        self.fits = 0
        self.decoded: Callable[[Any], Any] = lambda rows: rows
        self.spent: Callable[[], float] = lambda: float("nan")

    def watch(self, holder: Any, name: str) -> None:
        """Keep every model that a function returns, and say on standard error how long it took."""
        fit = getattr(holder, name)

        def fitted(*arguments: Any, **named: Any) -> Any:
            start, used = time.perf_counter(), time.process_time()
            self.model = fit(*arguments, **named)
            self.fits += 1
            took = f"clock {time.perf_counter() - start:.1f} s, processor {time.process_time() - used:.1f} s"
            print(f"fit {self.fits}: {took}, {time.process_time():.0f} s so far", file=sys.stderr, flush=True)
            return self.model

        setattr(holder, name, fitted)


PROGRESS = Progress()


def main() -> None:
    """Fit, draw as many rows as there were, write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("rival", "method", "epsilon", "delta", "coded", "sizes", "drawn"):
        parser.add_argument(name)
    parser.add_argument("--seconds", type=int, default=0)
    parser.add_argument("--clock", type=int, default=0, help="seconds by the clock, after which a run is stopped too")
    if len(sys.argv) == 1:
        parser.print_help()
        return
    asked = parser.parse_args()
    rival, method, epsilon, delta, coded, sizes, drawn = (
        asked.rival, asked.method, asked.epsilon, asked.delta, asked.coded, asked.sizes, asked.drawn
    )  # fmt: skip
    frame = pd.read_csv(coded)
    with open(sizes, encoding="utf-8") as file:
        domain: dict[str, int] = json.load(file)
    if rival == "smartnoise" and not method.endswith("-as-it-is"):
        draw_rows_independently()
    method = method.removesuffix("-as-it-is")
    start = time.perf_counter()
    signal.signal(signal.SIGPROF, time_is_up)
    signal.setitimer(signal.ITIMER_PROF, asked.seconds)
    signal.signal(signal.SIGALRM, time_is_up)
    signal.alarm(asked.clock)
    spent = 1.0
    try:
        with contextlib.redirect_stdout(sys.stderr):
            made = {"smartnoise": smartnoise, "dpmm": dpmm, "mbi": mbi}[rival](
                frame, domain, method, float(epsilon), float(delta)
            )
    except TimeIsUpError:
        if PROGRESS.model is None:
            raise
        spent = PROGRESS.spent()
        made = PROGRESS.decoded(PROGRESS.model.synthetic_data(len(frame)))
        made = pd.DataFrame(made.to_dict()) if rival == "mbi" else getattr(made, "df", made)
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.alarm(0)
    clock = time.perf_counter() - start
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    made[list(domain)].to_csv(drawn, index=False)
    took = {"clock": clock, "processor": sum(each.ru_utime + each.ru_stime for each in used), "spent": spent}
    print(json.dumps(took))


def time_is_up(*_: Any) -> None:
    """End the run."""
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.alarm(0)
    raise TimeIsUpError


def draw_rows_independently() -> None:
    """Let models of mbi 1.1 draw rows by independent sampling.

    Its default hands out the values of a column within a group of rows in the order of the rows, every column anew, so
    that columns which are independent given a third come out with one rising with the other. With it tables are worse
    than independent columns; METHOD-as-it-is keeps it.
    """
    from mbi import MarkovRandomField

    drawn = MarkovRandomField.synthetic_data
    MarkovRandomField.synthetic_data = lambda model, rows=None: drawn(model, rows, method="sample")


def smartnoise(frame: Any, domain: dict[str, int], method: str, epsilon: float, delta: float) -> Any:
    """With bounds of its discrete columns known, so that nothing is spent on finding them."""
    from snsynth import Synthesizer
    from snsynth.transform import LabelTransformer, TableTransformer

    transformers = []
    for size in domain.values():
        each = LabelTransformer(nullable=False)
        each.fit(list(range(size)))
        transformers.append(each)
    synthesizer = Synthesizer.create(method, epsilon=epsilon, delta=delta)
    return synthesizer.fit_sample(frame, transformer=TableTransformer(transformers), preprocessor_eps=0.0)


def dpmm(frame: Any, domain: dict[str, int], method: str, epsilon: float, delta: float) -> Any:
    """Without its own binning; the domain is stated."""
    from dpmm.models.aim import AIMGM
    from dpmm.models.base.mbi import FactoredInference
    from dpmm.models.mst import MSTGM

    kind = {"aim": AIMGM, "mst": MSTGM}[method.removesuffix("-quick")]
    # Each fit of AIM begins with the model of the round before, so that few iterations are enough to be near.
    fewer = {}
    if method.endswith("-quick"):
        fewer = {"n_iters": QUICK[0]} if kind is MSTGM else {"n_iters": QUICK[0], "max_model_size": QUICK[1]}
    PROGRESS.watch(FactoredInference, "estimate")
    model = kind(epsilon=epsilon, delta=delta, domain=dict(domain), n_jobs=1, **fewer)
    PROGRESS.spent = lambda: spent_here("rho_used", "_fit")
    # Values that are rare in single columns are one value in its models, until rows are drawn.
    PROGRESS.decoded = lambda rows: model.generator.compressor.reverse(rows)
    model.fit(frame.astype("uint16"))
    return model.generate(n_records=len(frame))


def mbi(frame: Any, domain: dict[str, int], method: str, epsilon: float, delta: float) -> Any:
    """The reference scripts with their defaults."""
    from mbi import Dataset, Domain, estimation

    PROGRESS.watch(estimation.MirrorDescent, "estimate")
    data = Dataset({name: frame[name].to_numpy() for name in domain}, Domain(tuple(domain), tuple(domain.values())))
    if method == "mst":
        from mst import MST

        return pd.DataFrame(MST(data, epsilon, delta).to_dict())
    from aim import AIM

    iterations, size = QUICK if method.endswith("-quick") else (1000, 80)
    pairs = [pair for pair in itertools.combinations(data.domain, 2) if data.domain.size(pair) <= 10_000]
    PROGRESS.spent = lambda: spent_here("rho_used", "run")
    made = AIM(epsilon, delta, max_model_size=size, max_iters=iterations).run(
        data, [(pair, 1.0) for pair in pairs], num_synth_rows=len(frame)
    )
    return pd.DataFrame(made[1].to_dict())


def spent_here(name: str, function: str) -> float:
    """The share of ρ that a function had spent when it was interrupted."""
    trace = sys.exc_info()[2]
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code.co_name == function and name in frame.f_locals:
            return float(frame.f_locals[name] / frame.f_locals["self"].rho)
        trace = trace.tb_next
    return float("nan")


if __name__ == "__main__":
    main()
