"""Every dialect writes each expression that the interface fills in, or overrides the method that would."""

from __future__ import annotations

import inspect
import re

import pytest

from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.postgres.dialect import POSTGRES
from tacit.engines.spark.dialect import SPARK
from tacit.engines.sql.dialect import Dialect

#: The methods that fill in a form of another name.
USERS = {"read_day": "made_date"}


@pytest.mark.parametrize("dialect", [DUCKDB, POSTGRES, SPARK])
def test_a_form_is_written_or_its_method_overridden(dialect: Dialect) -> None:
    filled = set(re.findall(r'self\.forms\["(\w+)"\]', inspect.getsource(Dialect)))
    assert len(filled) > 15
    inherited = {
        name for name in filled if getattr(type(dialect), user := USERS.get(name, name)) is getattr(Dialect, user)
    }
    assert inherited == dialect.forms.keys()
