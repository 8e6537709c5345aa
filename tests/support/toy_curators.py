"""A curator on a toy engine: a ledger in memory or in a file, and nothing read from disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tacit.curator.curator import Curator
from tacit.curator.opening import open_ledger
from tacit.ledger.memory import MEMORY
from tacit.project.project_file import PopulationModel
from tacit.query.catalog import Catalog
from tacit.releases.accounts import account_kind, filter_of
from tacit.releases.query import QueryContext


def toy_curator(
    catalog: Catalog, engine: Any, budget: dict[str, Any], *, ledger: str | Path = MEMORY, analyst: str = "owner"
) -> Curator:
    """A curator for the one population of a catalog, whose data never changes."""
    (population,) = catalog.populations
    model = PopulationModel(**budget)
    limit = filter_of(population.name, model)
    opened = open_ledger(str(ledger))
    opened.ledger.ensure_account(population.name, limit)
    accounts = {population.name: account_kind(population.name, model, limit)}
    context = QueryContext("clinic", catalog, engine, opened.ledger, opened.keys, accounts, lambda tables: "1")
    return Curator(context, analyst)
