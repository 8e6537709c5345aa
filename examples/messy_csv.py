"""A CSV with semicolons, decimal commas, odd dates and names with spaces."""

import tempfile
from pathlib import Path

import tacit


def main() -> None:
    """Read a spreadsheet's export unchanged."""
    file = Path(tempfile.mkdtemp()) / "aufnahmen.csv"
    lines = ["Patient Nr;Station;Kosten (€);Datum"]
    for i in range(900):
        ward = "Chirurgie" if i % 3 else "Kardiologie"
        lines.append(f"{i};{ward};1.{i:03d},50;{i % 28 + 1:02d}.03.2024")
    file.write_text("\n".join(lines), encoding="windows-1252")
    curator = tacit.open(
        file,
        unit="patient",
        epsilon="4",
        max_groups=1,
        max_rows=1,
        csv={
            "delimiter": ";",
            "encoding": "windows-1252",
            "decimal_mark": ",",
            "thousands_mark": ".",
            "date_format": "%d.%m.%Y",
        },
        columns={
            "patient": {"source": "Patient Nr", "type": "integer"},
            "Station": ["Chirurgie", "Kardiologie"],  # texts: the type is said by the categories
            "cost": {"source": "Kosten (€)", "type": "decimal", "step": "0.01", "bounds": (0, 3000)},
            "Datum": "date",
        },
    )
    early = "FROM aufnahmen WHERE Datum < DATE '2024-03-15' GROUP BY Station"
    print(curator.sql(f"SELECT Station, COUNT(*) AS n, AVG(cost) AS cost {early}", epsilon="2"))


if __name__ == "__main__":
    main()
