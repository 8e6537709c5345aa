"""The transcript of an assistant in *Connect your tools*: it is made here, so that it stays true.

``python tests/docs/test_assistant_transcript.py`` writes it into the page. Numbers with noise differ from run to run;
all else is compared.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1])]

from mcp import Client

from tacit.curator.curator import Conversation
from tacit.curator.opening import open_curator
from tacit.project.example_hospital import make_hospital
from tacit.server.mcp.endpoint import assistant_server, result_of
from tacit.server.mcp.tools import AssistantTools, CuratorDoor

PAGE = Path(__file__).parents[2] / "docs" / "connect-your-tools.md"
BEGIN, END = "<!-- transcript -->\n```text\n", "```\n<!-- end of transcript -->\n"
_WIDE = 118

TALK: list[str | tuple[str, dict[str, Any]]] = [
    "person: Which ward is the dearest, and does it cost as much for women as for men?",
    ("quote", {"sql": "SELECT ward, AVG(cost) AS cost FROM visits GROUP BY ward", "epsilon": 0.4}),
    ("ask", {"sql": "SELECT ward, AVG(cost) AS cost FROM visits GROUP BY ward", "epsilon": 0.4}),
    ("ask", {"sql": "SELECT sex, cost FROM visits JOIN patients USING (patient_id) WHERE ward = 'oncology'",
             "epsilon": 0.3}),
    ("ask", {"sql": "SELECT sex, AVG(cost) AS cost FROM visits JOIN patients USING (patient_id) "
                    "WHERE ward = 'oncology' GROUP BY sex", "epsilon": 0.6}),
]  # fmt: skip


def transcript(folder: Path) -> str:
    """Lines of the conversation, by the package's own client."""

    async def converse() -> list[str]:
        with open_curator(make_hospital().write(folder)) as curator:
            tools = AssistantTools(CuratorDoor(curator, Conversation("wards", "1")))
            server = assistant_server(lambda _, name, arguments: _called(tools, name, arguments))
            lines: list[str] = []
            async with Client(server) as client:
                for said in TALK:
                    if isinstance(said, str):
                        lines += [said, ""]
                        continue
                    told = await client.call_tool(*said)
                    lines += _wrapped(f"{said[0]} {json.dumps(said[1])}", "> ")
                    lines += [line for text in told.content[0].text.splitlines() for line in _wrapped(text, "  ")]
                    lines.append("")
            return lines[:-1]

    return "\n".join(asyncio.run(converse())) + "\n"


async def _called(tools: AssistantTools, name: str, arguments: Any) -> Any:
    return result_of(await tools.call(name, arguments))


def _wrapped(text: str, before: str) -> list[str]:
    return textwrap.wrap(text, _WIDE, initial_indent=before, subsequent_indent="    ", break_on_hyphens=False)


def without_noise(text: str) -> str:
    """The words, without the numbers that have noise, the sentence about the loss that follows them, and aggregates."""
    text = " ".join(text.split())
    text = re.sub(r"that aggregates, with .*? It may have", "that aggregates. It may have", text)
    text = re.sub(r"-?[\d.e+-]+ \(-?[\d.e+-]+ to -?[\d.e+-]+\)", "N", text)
    return re.sub(r"intervals over the noise\..*? Left:", "intervals over the noise. Left:", text)


def test_the_transcript_is_what_happens(tmp_path: Path) -> None:
    shown = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    assert "1 of 1 spent, 0 left" in shown
    assert without_noise(transcript(tmp_path)) == without_noise(shown)


def main() -> None:
    """Write the transcript into the page."""
    with tempfile.TemporaryDirectory() as folder:
        text = transcript(Path(folder))
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + BEGIN + text + END + rest.partition(END)[2])


if __name__ == "__main__":
    main()
