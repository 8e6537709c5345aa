"""The network of the tutorial works as written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.torch

PAGE = Path(__file__).parents[2] / "docs" / "learning.md"


@pytest.mark.usefixtures("seeded")
def test_the_page_works_as_written(capsys: pytest.CaptureFixture[str]) -> None:
    section = PAGE.read_text().split("## A network in five lines")[1].split("\n## ")[0]
    blocks = re.findall(r"^```python\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    torch.manual_seed(1)
    found: dict[str, Any] = {}
    for block in blocks:
        exec(block, found)
    assert found["accuracy"] > 0.8
    assert found["trainer"].guarantee_.epsilon <= 3
    assert "169 of 169 sums of 4810 numbers" in capsys.readouterr().out
