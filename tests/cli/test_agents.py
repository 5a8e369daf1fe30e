"""The commands that offer tools to agents."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from support.cli_kit import coworld


async def test_a_host_starts_the_tools_of_a_folder(tmp_path: Path) -> None:
    command = StdioServerParameters(command=sys.executable, args=["-m", "coworld_cli", "mcp", "--root", str(tmp_path)])
    async with Client(command) as client:
        answer = await client.call_tool("read_docs", {"page": "agents"})
        assert answer.structured_content is not None
        assert answer.structured_content["text"].startswith("# Agents")
        assert (await client.call_tool("find_coworlds", {})).structured_content == {"coworlds": [], "more": False}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("mcp", "--port", "8000"), "goes with --http"),
        (("game", "join", "ws://x/player", "bot.py", "--mcp"), "exclude each other"),
        (("game", "join", "ws://x/player"), "Name a player"),
    ],
)
def test_options_that_would_do_nothing_are_refused(arguments: tuple[str, ...], why: str) -> None:
    done = coworld(*arguments)
    assert done.status == 2
    assert why in done.stderr
