"""From exact integers to noisy ones: shapes, order, the right noise, and a plan that never looks."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from support.bits import SeededBits
from support.finals import WARDS, Builder, K, measured
from tacit.core.errors import InternalError
from tacit.core.relations import ADD_REMOVE, REPLACE_ONE
from tacit.query.aggregates.ranks import NoisyTree
from tacit.query.planning.plan import Plan, plan_query
from tacit.query.release import NoisyRelease, release
from tacit.query.request import Account, Request

PURE = Request(epsilon=1)
ZCDP = Request(epsilon=1, delta="1e-6", account=Account("zcdp"))
ALL = [
    K.COUNT_ROWS, K.COUNT_UNITS, K.COUNT_DISTINCT, K.SUM, K.AVG, K.VAR_POP, K.MIN, K.MOST_COMMON,
]  # fmt: skip


def plan_of(kinds: list[K], keys: str = "public", request: Request = PURE, **shape: int) -> Plan:
    made = Builder(**shape)
    for kind in kinds:
        made.add(kind, parameter=Fraction(1) if kind is K.MOST_COMMON else None)
    return plan_query(made.query(keys=keys), ADD_REMOVE, request)


@pytest.mark.parametrize("request_", [PURE, ZCDP, Request(mu=1, account=Account("gdp"))])
@pytest.mark.parametrize("keys", ["none", "public"])
def test_every_measurement_comes_back_in_its_shape(request_: Request, keys: str, seeded: SeededBits) -> None:
    plan = plan_of(ALL, keys, request_)
    out = release(plan, measured(plan.final))
    groups = plan.final.group_count or 0
    assert len(out.keys) == groups
    assert len(out.noisy) == len(out.laws) == len(plan.final.measures)
    for measure, noisy, law in zip(plan.final.measures, out.noisy, out.laws, strict=True):
        if isinstance(noisy, NoisyTree):
            assert noisy.noisy_nodes.shape == (groups, noisy.tree.nodes)
            assert noisy.law == law
        else:
            assert noisy.shape == ((groups, measure.width) if measure.width > 1 else (groups,))
            assert all(isinstance(int(value), int) for value in noisy.ravel())
            estimate = int(noisy.ravel()[0]) * law.unit
            assert abs(estimate - 1000) <= law.error("1e-9")


def exact(plan: Plan, changes: dict[str, Any] | None = None) -> SimpleNamespace:
    made = vars(measured(plan.final)) | (changes or {})
    return SimpleNamespace(**made)


@pytest.mark.parametrize(
    "changes",
    [
        {"keys": tuple((w,) for w in reversed(WARDS))},
        {"keys": ((WARDS[0],),)},
        {"raw": ()},
        {"raw": (((1,), (2,)),)},
        {"raw": (((1, 1), (2, 2), (3, 3)),)},
        {"raw": (((1.0,), (2.0,), (3.0,)),)},
        {"raw": (((True,), (2,), (3,)),)},
        {"raw": (np.array([1.0, 2.0, 3.0]),)},
        {"raw": (((1 << 63,), (2,), (3,)),)},
    ],
)
def test_what_does_not_fit_the_plan_is_an_internal_error(changes: dict[str, Any]) -> None:
    plan = plan_of([K.COUNT_ROWS])
    with pytest.raises(InternalError):
        release(plan, exact(plan, changes))


def test_private_keys_come_in_public_order_whatever_the_order_of_the_data(seeded: SeededBits) -> None:
    plan = plan_of([K.COUNT_ROWS], "private", ZCDP)
    keys: list[tuple[str | None]] = [("zeta",), (None,), ("alpha",), ("mid",)]
    out = release(plan, measured(plan.final, keys, fill=5000))
    assert out.keys == (("alpha",), ("mid",), ("zeta",), (None,))
    data = SimpleNamespace(keys=tuple(keys), raw_units=(5000, 0, 1, 5000), raw=(((9000,), (0,), (1,), (5000,)),))
    some = release(plan, data)
    assert some.keys == (("mid",), ("zeta",))
    assert abs(int(some.noisy[0][1]) - 9000) < 500  # type: ignore[index]


def test_same_bits_give_the_same_answer_for_any_order_of_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    from tacit.noise import entropy

    plan = plan_of([K.COUNT_ROWS, K.AVG], "private", ZCDP)
    answers = []
    for order in (["a", "b", "c"], ["c", "a", "b"]):
        bits = SeededBits(3)
        monkeypatch.setattr(entropy, "current", lambda bits=bits: bits)
        counts = {"a": 400, "b": 50, "c": 900}
        raw = tuple(tuple((counts[k],) for k in order) for _ in plan.final.measures)
        out = release(
            plan, SimpleNamespace(keys=tuple((k,) for k in order), raw_units=tuple(counts[k] for k in order), raw=raw)
        )
        answers.append((out.keys, [noisy.tolist() for noisy in out.noisy]))  # type: ignore[union-attr]
    assert answers[0] == answers[1]


def test_no_private_keys_at_all(seeded: SeededBits) -> None:
    plan = plan_of(ALL, "private", ZCDP)
    out = release(plan, measured(plan.final, [], fill=0))
    assert out.keys == ()
    for measure, noisy in zip(plan.final.measures, out.noisy, strict=True):
        assert (noisy.noisy_nodes if isinstance(noisy, NoisyTree) else noisy).shape[0] == 0, measure.kind
    few = release(plan, measured(plan.final, [("x",)], fill=0))
    assert few.keys == ()


def test_a_repeated_private_key_is_an_internal_error() -> None:
    plan = plan_of([K.COUNT_ROWS], "private", ZCDP)
    with pytest.raises(InternalError, match="twice"):
        release(plan, measured(plan.final, [("x",), ("x",)]))


def test_wide_sums_stay_exact(seeded: SeededBits) -> None:
    """Sums beyond 64 bits, and noise of a scale beyond 2^40, in integers of any size."""
    plan = plan_of([K.SUM, K.VAR_POP], "none", Request(epsilon="1e-6"), high=10**6)
    big = 10**30
    raw = tuple(((big if m.kind.value != "values" else 1000,),) for m in plan.final.measures)
    out = release(plan, SimpleNamespace(keys=((),), raw_units=(1,), raw=raw))
    for index, law in enumerate(out.laws):
        estimate = int(out.noisy[index][0]) * law.unit  # type: ignore[index]
        assert abs(estimate - raw[index][0][0]) <= law.error("1e-9")
        assert estimate != raw[index][0][0]


def test_a_constant_is_not_even_read(seeded: SeededBits) -> None:
    from dataclasses import replace

    query = Builder().add(K.SUM).query()
    frozen = replace(query.final, measures=(replace(query.final.measures[0], clamp=(0, 0)),))
    plan = plan_query(replace(query, final=frozen), ADD_REMOVE, PURE)
    out = release(plan, measured(plan.final, fill=77))
    assert out.noisy[0].tolist() == [0]  # type: ignore[union-attr]
    assert out.laws[0].error("0.01") == 0


def draws(plan: Plan, runs: int) -> list[np.ndarray[Any, Any]]:
    """The noise in every measurement, in steps, over many releases of three groups."""
    data = measured(plan.final)
    outs: list[NoisyRelease] = [release(plan, data) for _ in range(runs)]
    return [
        np.array([float(int(v) * law.unit - 1000) for out in outs for v in out.noisy[index]])  # type: ignore[union-attr]
        for index, law in enumerate(outs[0].laws)
    ]


@pytest.mark.parametrize("kinds", [[K.COUNT_ROWS, K.AVG], [K.VAR_POP, K.SUM]])
@pytest.mark.parametrize("request_", [PURE, ZCDP])
def test_the_noise_is_what_the_law_says(kinds: list[K], request_: Request, seeded: SeededBits) -> None:
    """2400 draws of each measurement, 10 measurements in all; a false alarm has probability below 1e-4 in all.

    The mean square lies within 20 percent of the variance (5 standard deviations of the square of one Laplace draw),
    and the mean within 5 standard deviations of 0. Power: noise of 0.8 or 1.25 times the scale has 0.64 or 1.56 times
    the variance and is rejected. At β = 0.1 not more than 13 percent are off by more than the error (5 standard
    deviations), and not fewer than 5 percent: the error is not wasteful either.
    """
    plan = plan_of(kinds, request=request_)
    for index, noise in enumerate(draws(plan, 800)):
        law = plan.priced.release_of[index].law(index)
        variance = float(law.variance_bound)
        ratio = float((noise**2).mean()) / variance
        assert 0.8 < ratio < 1.2
        assert not 0.8 < ratio * 0.64 < 1.2
        assert not 0.8 < ratio * 1.5625 < 1.2
        assert abs(noise.mean()) < 5 * (variance / len(noise)) ** 0.5
        assert 0.05 < (abs(noise) > float(law.error("0.1"))).mean() < 0.13


def test_plan_and_shape_do_not_depend_on_what_was_measured(seeded: SeededBits) -> None:
    plan = plan_of(ALL, "public", ZCDP)
    digest, event = plan.digest, plan.event
    shapes = []
    for fill in (0, 1, 10**9):
        out = release(plan, measured(plan.final, fill=fill))
        shapes.append(
            [
                (type(n).__name__, (n.noisy_nodes if isinstance(n, NoisyTree) else n).shape,
                 (n.noisy_nodes if isinstance(n, NoisyTree) else n).dtype)
                for n in out.noisy
            ]
        )  # fmt: skip
        assert (out.plan.digest, out.plan.event, out.keys) == (digest, event, tuple((w,) for w in WARDS))
    assert shapes[0] == shapes[1] == shapes[2]


def test_replace_one_gets_more_noise() -> None:
    query = Builder().add(K.COUNT_ROWS).query(keys="public")
    add, swap = (plan_query(query, relation, PURE) for relation in (ADD_REMOVE, REPLACE_ONE))
    assert swap.releases[0].law(0).error("0.05") >= add.releases[0].law(0).error("0.05")
