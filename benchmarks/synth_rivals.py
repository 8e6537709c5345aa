"""Synthetic tables by other libraries, each in an environment of its own; called by ``synth.py`` and by hand.

``python synth_rivals.py RIVAL METHOD EPSILON DELTA coded.csv sizes.json drawn.csv``, where RIVAL is ``smartnoise``,
``dpmm`` or ``mbi`` (the reference scripts, whose folder ``mechanisms`` is on ``PYTHONPATH``). Columns are places of
values from 0 on, in bins already, so that all libraries see the same table. Prints seconds by the clock and of
processors. METHOD-quick is dpmm with 100 iterations of each fit instead of 1,000.
"""

from __future__ import annotations

import itertools
import json
import resource
import sys
import time
from typing import Any

import pandas as pd


def main() -> None:
    """Fit, draw as many rows as there were, write them."""
    rival, method, epsilon, delta, coded, sizes, drawn = sys.argv[1:]
    frame = pd.read_csv(coded)
    with open(sizes, encoding="utf-8") as file:
        domain: dict[str, int] = json.load(file)
    if rival in ("smartnoise", "mbi") and not method.endswith("-as-it-is"):
        draw_rows_independently()
    method = method.removesuffix("-as-it-is")
    start = time.perf_counter()
    made = {"smartnoise": smartnoise, "dpmm": dpmm, "mbi": mbi}[rival](
        frame, domain, method, float(epsilon), float(delta)
    )
    clock = time.perf_counter() - start
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    made.to_csv(drawn, index=False)
    print(json.dumps({"clock": clock, "processor": sum(each.ru_utime + each.ru_stime for each in used)}))


def draw_rows_independently() -> None:
    """Let models of mbi 1.x draw rows by independent sampling.

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
    from dpmm.models.mst import MSTGM

    kind = {"aim": AIMGM, "mst": MSTGM}[method.removesuffix("-quick")]
    # Each fit of AIM begins with the model of the round before, so that few iterations are enough to be near.
    fewer = {"n_iters": 100} if method.endswith("-quick") else {}
    model = kind(epsilon=epsilon, delta=delta, domain=dict(domain), n_jobs=1, **fewer)
    model.fit(frame.astype("uint16"))
    return model.generate(n_records=len(frame))


def mbi(frame: Any, domain: dict[str, int], method: str, epsilon: float, delta: float) -> Any:
    """The reference scripts with their defaults."""
    from mbi import Dataset, Domain

    data = Dataset(frame, Domain(tuple(domain), tuple(domain.values())))
    if method == "mst":
        from mst import MST

        return MST(data, epsilon, delta).df
    from aim import AIM

    pairs = [pair for pair in itertools.combinations(data.domain, 2) if data.domain.size(pair) <= 10_000]
    made = AIM(epsilon, delta, max_model_size=80, max_iters=1000).run(data, [(pair, 1.0) for pair in pairs])
    return made[1].df


if __name__ == "__main__":
    main()
