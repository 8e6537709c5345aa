"""Preview of the error of a sum and an average for stated bounds; reads no data."""

from __future__ import annotations

from typing import Final

from tacit.core.errors import TacitError
from tacit.core.numbers import float_up
from tacit.project.project_template import Draft, DraftTable

#: Number of rows that errors of averages suppose.
SUPPOSED: Final = 1000


def accuracy_lines(draft: Draft, table: DraftTable, column: str, epsilon: str) -> list[str]:
    """One line about the error of the sum and the average of a column; none where no plan can be made."""
    from tacit.query.contribution import AUTO

    found = sum_and_average_errors(draft, table, column, epsilon)
    if found is None:
        return []
    alone = ", one a person" if AUTO in (table.max_groups, table.max_rows) else ""
    return [
        f"At epsilon {epsilon} a sum and an average asked together are off by up to {found[0]:,.0f} and",
        f"{found[1]:,.4g} ({SUPPOSED:,} rows supposed{alone}), 19 times in 20. Wider bounds would mean more.",
    ]


def sum_and_average_errors(draft: Draft, table: DraftTable, column: str, epsilon: str) -> tuple[float, float] | None:
    """Errors of the sum and of the average of a column asked together; None where no plan can be made."""
    from tacit.project.declared_values import as_declared
    from tacit.query.catalog import Catalog, Column, Population, Table
    from tacit.query.parsing.sql_text import name_text
    from tacit.query.planning.plan import make_plan
    from tacit.query.request import Request
    from tacit.query.types import INTEGER, parse_type

    drafted = next(c for c in table.columns if c.name == column)
    try:
        kind = parse_type(drafted.type or "double")
        low, high = (as_declared(end, kind, "bounds") for end in drafted.bounds or ())
        unit = Column("tacit_unit", INTEGER)
        shape = Table(
            table.name,
            (unit, Column(column, kind, (low, high))),
            population=draft.population,
            unit=unit.name,
            max_groups=table.max_groups,
            max_rows=table.max_rows,
        )
        catalog = Catalog((shape,), (Population(draft.population),))
        quoted = name_text(column)
        sql = f"SELECT SUM({quoted}) AS s, AVG({quoted}) AS a FROM {table.name}"  # noqa: S608 - names, checked above
        plan = make_plan(sql, catalog, Request(epsilon=epsilon, suppose=SUPPOSED))
    except (TacitError, ValueError):
        return None
    total, mean = (None if error.bound is None else float_up(error.bound) for error in plan.errors)
    return None if total is None or mean is None else (total, mean)
