"""``SUMMARIZE table``: an ordinary query that has a row for each column, and so noise, cost and receipt like any other.

One aggregation counts and averages all columns; rows are made of its cells, which costs nothing more. Of TEXT there is
no mean: ``curator.profile`` finds out what texts hold.
"""

# ruff: noqa: S608 - queries to Tacit's own planner, from declared names in quotes
from __future__ import annotations

import re
from typing import Final

from tacit.query.catalog import Catalog
from tacit.query.refusal import Refusal

_SUMMARIZE: Final = re.compile(r"\s*SUMMARIZE\s+(\"[^\"]+\"|[^\s\";]+)[\s;]*", re.IGNORECASE)


def written_out(sql: str, catalog: Catalog) -> str:
    """The query that ``SUMMARIZE table`` stands for; any other text as it is.

    Raises:
        Refusal: the table is public or unknown.
    """
    found = _SUMMARIZE.fullmatch(sql)
    if found is None:
        return sql
    table = catalog.table(found.group(1).strip('"'))
    if table is None or table.public:
        raise Refusal("unknown_table", "SUMMARIZE takes the name of a protected table; read public ones by SELECT.")
    measured, rows = ["COUNT(*) AS n"], []
    for number, column in enumerate(each for each in table.columns if each.name != table.unit):
        name = '"' + column.name.replace('"', '""') + '"'
        measured.append(f"COUNT({name}) AS filled{number}")
        mean = "NULL"
        if column.type.is_numeric:
            value = name if column.bounds is not None or column.categories is not None else f"CLAMP({name}, AUTO)"
            measured.append(f"AVG({value}) AS mean{number}")
            mean = f"CAST(mean{number} AS DOUBLE)"
        label = column.name.replace("'", "''")
        rows.append(
            f"SELECT '{label}' AS column_name, '{column.type}' AS column_type, filled{number} AS filled, "
            f"1 - 1.0 * filled{number} / n AS null_share, {mean} AS mean FROM s"
        )
    source = table.name.replace('"', '""')
    return f'WITH s AS (SELECT {", ".join(measured)} FROM "{source}") {" UNION ALL ".join(rows)}'
