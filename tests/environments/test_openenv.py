"""A game as a server of OpenEnv, as the page shows it, played by its own client and by OpenEnv's generic one."""

from __future__ import annotations

import json
import socket
import threading
import urllib.request
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from openenv.core import CallToolAction, GenericEnvClient, MCPToolClient
from support.page_files import write_file_of
from support.waiting import wait_until

from coworld_core.scopes import load_file

pytestmark = pytest.mark.slow


@pytest.fixture
def served(tmp_path: Path) -> Generator[tuple[Any, str]]:
    """The module that the page shows, and the address at which it is served."""
    module = load_file(write_file_of("models-and-environments.md", "nim_server.py", tmp_path))
    server = uvicorn.Server(uvicorn.Config(module.app, log_level="critical"))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        wait_until(lambda: server.started, seconds=30, what="the server")
        yield module, f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join()


def test_sessions_play_games_of_their_own(served: tuple[Any, str]) -> None:
    module, url = served
    result, state = module.play(url)
    assert (result.done, result.reward, result.observation.scores) == (True, 0.0, [0.0, 1.0])
    assert (state.results["scores"], state.seed, state.refused) == ([0.0, 1.0], 1, 0)
    with urllib.request.urlopen(f"{url}/schema") as answer:
        action = json.load(answer)["action"]
    assert action["properties"]["action"]["properties"]["take"] == {
        "maximum": 3,
        "minimum": 1,
        "title": "Take",
        "type": "integer",
    }
    with GenericEnvClient(base_url=url).sync() as env, module.nim.client(base_url=url).sync() as other:
        with pytest.raises(RuntimeError, match="begin one"):
            env.step({"action": 1})
        first = env.reset(seed=1)
        assert "Legal actions:" in first.observation["question"]
        other.reset(seed=1)
        refused = env.step({"action": {"take": 4}})
        assert (refused.reward, refused.done) == (0.0, False)
        assert "less than or equal to 3" in refused.observation["refused"]
        assert env.step({"action": 'I think {"take": 2}'}).observation["refused"] == ""
        assert other.step(module.nim.action(action={"take": 3})).observation.refused == ""
        state = env.state()
        assert state["step_count"] == 2
        assert "seed" not in state, "it would tell what is hidden"


def test_a_seat_is_played_by_tools(served: tuple[Any, str]) -> None:
    _, url = served
    with MCPToolClient(base_url=url).sync() as env:
        tools = {tool.name: tool for tool in env.list_tools()}
        assert sorted(tools) == ["act", "observe"]
        take = tools["act"].input_schema["properties"]["action"]["properties"]["take"]
        assert (take["minimum"], take["maximum"]) == (1, 3)
        env.reset(seed=1)
        assert "Legal actions:" in env.call_tool("observe")["question"]
        assert "less than or equal to 3" in env.call_tool("act", action={"take": 4})["refused"]
        with pytest.raises(RuntimeError, match="nothing_of_the_kind"):
            env.call_tool("nothing_of_the_kind")
        result = env.step(CallToolAction(tool_name="observe"))
        assert (result.reward, result.done) == (None, False)
        while not result.done:
            legal = env.call_tool("observe")["legal"]
            result = env.step(CallToolAction(tool_name="act", arguments={"action": legal[0]}))
        assert (result.reward, result.observation.result["data"]["scores"]) == (0.0, [0.0, 1.0])


def test_without_reset_a_session_of_tools_has_its_own_game(served: tuple[Any, str]) -> None:
    _, url = served

    def ask(method: str, **params: Any) -> Any:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        request = urllib.request.Request(f"{url}/mcp", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)["result"]

    one, other = (ask("openenv/session/create")["session_id"] for _ in range(2))
    assert [tool["name"] for tool in ask("tools/list", session_id=one)["tools"]] == ["observe", "act"]
    seen = ask("tools/call", session_id=one, name="observe", arguments={})["data"]
    while not seen["done"]:
        seen = ask("tools/call", session_id=one, name="act", arguments={"action": seen["legal"][0]})["data"]
    assert sorted(seen["scores"]) == [0.0, 1.0]
    assert not ask("tools/call", session_id=other, name="observe", arguments={})["data"]["done"]
    over = ask("tools/call", session_id=one, name="observe", arguments={})["data"]
    assert (over["done"], over["question"]) == (True, "")
    assert ask("openenv/session/close", session_id=one)["closed"]
