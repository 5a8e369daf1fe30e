"""The commands that offer tools to agents."""

from __future__ import annotations

import json
import subprocess
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


def test_a_signal_ends_the_tools_although_the_host_still_listens(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "coworld_cli", "mcp", "--root", str(tmp_path)]
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as served:
        assert served.stdin is not None
        assert served.stdout is not None
        served.stdin.write(json.dumps(hello).encode() + b"\n")
        served.stdin.flush()
        assert json.loads(served.stdout.readline())["result"]["serverInfo"]["name"] == "coworld"
        served.terminate()
        assert served.wait(60) == 0


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
