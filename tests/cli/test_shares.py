"""``tacit analysts add … --epsilon`` in every kind of account: the share means what was typed."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tacit.accounting.filters import ApproxFilter, Filter, GDPFilter, PureFilter, RenyiFilter, ZCDPFilter
from tacit.core.errors import InputError
from tacit.core.guarantees import GDP, ZCDP
from tacit.releases.accounts import share_caps

Run = Callable[..., Result]
Json = Callable[..., Any]


def test_an_epsilon_is_converted_in_the_safe_direction() -> None:
    whole = ZCDPFilter.for_target(epsilon=4, delta="1e-6", own_delta="5e-7")
    caps = share_caps(whole, {"epsilon": "1"})
    assert set(caps) == {"rho", "delta"}
    held = ZCDP(caps["rho"], delta=caps["delta"]).to_approx("1e-6")
    assert Fraction(999, 1000) < held.epsilon <= 1
    stated = share_caps(whole, {"epsilon": "1", "delta": "1e-7"})
    assert ZCDP(stated["rho"], delta=stated["delta"]).to_approx("1e-7").epsilon <= 1
    bare = share_caps(ZCDPFilter(rho=1), {"epsilon": "1"}, delta="1e-6")
    assert set(bare) == {"rho"}
    assert ZCDP(bare["rho"]).to_approx("1e-6").epsilon <= 1
    caps = share_caps(GDPFilter(mu=2), {"epsilon": "1"}, delta="1e-6")
    mu = max(m for m in (Fraction(k, 10**6) for k in range(10**6)) if m * m <= caps["mu squared"])
    assert GDP(mu).to_approx("1e-6").epsilon <= 1


@pytest.mark.parametrize("limit", [PureFilter(epsilon=1), ApproxFilter(epsilon=1, delta="1e-6")])
def test_what_the_account_counts_is_taken_as_it_is(limit: Filter) -> None:
    assert share_caps(limit, {"epsilon": "0.3"}) == {"epsilon": "0.3"}
    assert share_caps(ZCDPFilter(rho=1), {"rho": "0.3"}) == {"rho": "0.3"}


def test_what_cannot_be_converted_says_what_to_state() -> None:
    with pytest.raises(InputError, match="state delta as well, or rho instead"):
        share_caps(ZCDPFilter(rho=1), {"epsilon": "1"})
    with pytest.raises(InputError, match="state delta as well, or mu squared instead"):
        share_caps(GDPFilter(mu=1), {"epsilon": "1"})
    with pytest.raises(InputError, match="say one"):
        share_caps(ZCDPFilter(rho=1), {"epsilon": "1", "rho": "1"})
    for wrong in ("0", "-1", "x"):
        with pytest.raises(InputError):
            share_caps(ZCDPFilter(rho=1), {"epsilon": wrong}, delta="1e-6")
    with pytest.raises(InputError, match="is not what this account counts: epsilon at order 2"):
        share_caps(RenyiFilter(alpha=2, epsilon=1), {"epsilon": "1"}, delta="1e-6")


@pytest.mark.parametrize(
    "terms",
    [
        'accounting = "zcdp"\nepsilon = "4"\ndelta = "1e-6"',
        'accounting = "gdp"\nepsilon = "4"\ndelta = "1e-6"',
        'accounting = "approx"\nepsilon = "4"\ndelta = "1e-6"',
        'accounting = "zcdp"\nrho = "1"\ndelta = "1e-6"',
    ],
)
def test_the_line_of_the_readme_works(clinic: Path, run: Run, run_json: Json, terms: str) -> None:
    project = clinic / "tacit.toml"
    project.write_text(project.read_text().replace('epsilon = "4"', terms))
    told = run_json("analysts", "add", "alice", "--epsilon", "1")
    (share,) = told["shares"]
    assert share["limited"]
    assert run("analysts", "grant", "alice", "--epsilon", "1.5").exit_code == 0
    asked = ("query", "SELECT COUNT(*) AS n FROM visits", "--analyst", "alice")
    assert run(*asked, "--epsilon", "0.2").exit_code == 0
    assert run(*asked, "--epsilon", "1.5").exit_code == 4, "and is a limit"


def test_an_account_without_delta_says_so(clinic: Path, run: Run) -> None:
    project = clinic / "tacit.toml"
    project.write_text(project.read_text().replace('epsilon = "4"', 'accounting = "zcdp"\nrho = "1"'))
    result = run("analysts", "add", "alice", "--epsilon", "1")
    assert result.exit_code == 2
    assert "--epsilon: the account counts rho, delta; state delta as well, or rho instead" in result.stderr
    assert run("analysts", "add", "alice", "--epsilon", "1", "--delta", "1e-6").exit_code == 0
