"""A walk through Apache Superset, run by the Python that it is installed in: connect, look around, chart, dashboard.

The requests are those that its pages send to its own server; what it asks of the database is its own. Arguments: a
folder for its files, and the address of the database. A line of JSON is printed for each step.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

CONFIG = """
SECRET_KEY = "of a server that lives for a minute"
SQLALCHEMY_DATABASE_URI = "sqlite://"
# One connection, because SQL Lab writes down its state beside the request that it runs in.
from sqlalchemy.pool import StaticPool as _StaticPool
SQLALCHEMY_ENGINE_OPTIONS = {"poolclass": _StaticPool, "connect_args": {"check_same_thread": False}}
WTF_CSRF_ENABLED = TALISMAN_ENABLED = RATELIMIT_ENABLED = False
CONTENT_SECURITY_POLICY_WARNING = False
_MEMORY = {"CACHE_TYPE": "SimpleCache", "CACHE_DEFAULT_TIMEOUT": 600}
FILTER_STATE_CACHE_CONFIG = EXPLORE_FORM_DATA_CACHE_CONFIG = CACHE_CONFIG = DATA_CACHE_CONFIG = _MEMORY
"""


def application(folder: Path) -> Any:
    """Superset with empty tables of its own and one user, who may do everything."""
    settings = folder / "superset_config.py"
    settings.write_text(CONFIG)
    os.environ["SUPERSET_HOME"], os.environ["SUPERSET_CONFIG_PATH"] = str(folder), str(settings)
    import flask_appbuilder
    from superset.app import create_app

    app = create_app()
    with app.app_context():
        from superset.extensions import appbuilder, db

        flask_appbuilder.Model.metadata.create_all(db.engine)
        people = appbuilder.sm
        role = people.find_role("Admin") or people.add_role("Admin")
        people.add_user("admin", "A", "Person", "person@example.org", role, password="admin")
        # Writing down some hundred rights takes longer than all that follows.
        people._has_view_access = lambda *_, **__: True
        db.session.commit()
    return app


class Pages:
    """Requests that the pages of Superset send to its server."""

    def __init__(self, app: Any) -> None:
        self._client = app.test_client()
        self._headers: dict[str, str] = {}
        told = self.call("POST", "security/login", username="admin", password="admin", provider="db")
        self._headers = {"Authorization": f"Bearer {told['access_token']}"}

    def call(self, method: str, path: str, **body: Any) -> Any:
        """The body of a response."""
        found = self._client.open(f"/api/v1/{path}", method=method, json=body or None, headers=self._headers)
        return {"status": found.status_code, **(found.get_json(silent=True) or {})}

    def tell(self, step: str, method: str, path: str, **body: Any) -> Any:
        """The body of a response, which is printed as well."""
        told = self.call(method, path, **body)
        print(json.dumps({"step": step, **told}, default=str), flush=True)
        return told


def chart(dataset: int, **query: Any) -> dict[str, Any]:
    """The query behind a chart."""
    plain = {"columns": [], "metrics": [], "orderby": [], "filters": [], "row_limit": 100}
    return {
        "datasource": {"id": dataset, "type": "table"}, "force": True, "result_format": "json", "result_type": "full",
        "queries": [plain | query],
    }  # fmt: skip


def main(folder: Path, address: str) -> None:
    """Walk."""
    pages = Pages(application(folder))
    tell = pages.tell
    words = {"engine_params": {"connect_args": {"options": "-c tacit.epsilon=0.5"}}}
    base = {"database_name": "hospital", "sqlalchemy_uri": address, "extra": json.dumps(words)}
    tell("connect", "POST", "database/test_connection/", **base)
    database = tell("database", "POST", "database/", **base, expose_in_sqllab=True)["id"]
    tell("schemas", "GET", f"database/{database}/schemas/?q=(force:!t)")
    tell("tables", "GET", f"database/{database}/tables/?q=(force:!t,schema_name:public)")
    tell("columns", "GET", f"database/{database}/table_metadata/?name=visits&schema=public")
    dataset = tell("dataset", "POST", "dataset/", database=database, schema="public", table_name="visits")["id"]
    tell("values", "GET", f"datasource/table/{dataset}/column/ward/values/")

    cost = {"expressionType": "SIMPLE", "aggregate": "AVG", "column": {"column_name": "cost"}, "label": "cost"}
    bars = chart(dataset, columns=["ward"], metrics=["count", cost], orderby=[["count", False]])
    tell("bars", "POST", "chart/data", **bars)
    days = {"expressionType": "SQL", "sqlExpression": "day", "label": "day", "columnType": "BASE_AXIS"}
    january = {"col": "day", "op": "TEMPORAL_RANGE", "val": "2025-01-01 : 2025-02-01"}
    some = {"col": "ward", "op": "IN", "val": ["a", "b"]}
    line = chart(dataset, columns=[days | {"timeGrain": "P1D"}], metrics=["count"], filters=[january, some])
    tell("line", "POST", "chart/data", **line)
    big = {"expressionType": "SQL", "sqlExpression": "COUNT(DISTINCT patient)", "label": "people"}
    tell("number", "POST", "chart/data", **chart(dataset, metrics=[big], extras={"where": "(cost > 10)"}))
    tell("rows", "POST", "chart/data", **chart(dataset, columns=["patient", "cost"]))

    made = tell("board", "POST", "dashboard/", dashboard_title="Hospital", published=True)["id"]
    shown = {"datasource_id": dataset, "datasource_type": "table", "viz_type": "dist_bar", "dashboards": [made]}
    piece = tell("piece", "POST", "chart/", slice_name="Wards", query_context=json.dumps(bars), **shown)["id"]
    tell("board again", "GET", f"chart/{piece}/data/?force=true")

    asked = {"database_id": database, "schema": "public", "runAsync": False, "queryLimit": 100, "tab": ""}
    wards = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n"
    tell("lab", "POST", "sqllab/execute/", client_id="first", sql=wards, **asked)
    dear = "SET tacit.epsilon = '1000000'; SELECT COUNT(*) AS n FROM visits WHERE cost < 3"
    tell("dear", "POST", "sqllab/execute/", client_id="second", sql=dear, **asked)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
