"""Tools for agents in one folder: what they do, and what they do not reach."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from support.played_runs import leave_run

from coworld_core.errors import EnvironmentFault
from coworld_core.text.bounded_json import MAX_RESULT, bounded_fields
from coworld_runner.agent_tools import open_http_tools, open_tools

NIM = Path(__file__).parents[2] / "examples/nim"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a Coworld, beside others that are none of an agent's business."""
    place = tmp_path / "folder"
    shutil.copytree(NIM, place / "nim", ignore=shutil.ignore_patterns("results", "__pycache__"))
    shutil.copytree(place / "nim", tmp_path / "other")
    (place / "link").symlink_to(tmp_path / "other")
    return place


@asynccontextmanager
async def hosting(folder: Path, **how: Any) -> AsyncGenerator[Client]:
    async with open_tools(folder, **how) as server, Client(server) as client:
        yield client


async def ask(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer
    assert answer.structured_content is not None
    return answer.structured_content


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error, answer
    return getattr(answer.content[0], "text")  # noqa: B009


async def test_an_agent_finds_validates_plays_and_looks(folder: Path) -> None:
    told: list[str] = []

    async def progress(_done: float, _total: float | None, message: str | None) -> None:
        told.append(str(message))

    async with hosting(folder) as client:
        (nim,) = (await ask(client, "find_coworlds"))["coworlds"]
        assert (nim["path"], nim["name"], "counter" in nim["players"]) == ("nim", "nim", True)
        assert (await ask(client, "validate", coworld="nim"))["ok"]
        arguments = {"coworld": "nim", "players": ["random", "counter"], "seed": 1}
        played = await client.call_tool("run_episode", arguments, progress_callback=progress)
        assert played.structured_content is not None, played
        run = played.structured_content["run"]
        assert any("play" in line for line in told)
        listed = await ask(client, "list_runs")
        assert [one["path"] for one in listed["runs"]] == [run]
        shown = await ask(client, "show_run", run=run)
        assert [seat["name"] for seat in shown["episodes"][0]["seats"]] == ["random", "Counter"]
        logs = (await ask(client, "read_log", run=run))["logs"]
        assert "game.stdout.log" in logs
        assert "game over" in (await ask(client, "read_log", run=run, name="game.stdout.log"))["end"]
        assert (await ask(client, "verify", run=run, coworld="nim"))["verdict"] == "same"
        forked = await ask(client, "fork", run=run, coworld="nim", at=1, players=["counter", "counter"])
        assert forked["completed"] == 1
        # Players of a record may be files of other folders
        assert "player_count" in await refused(client, "fork", run=run, coworld="nim", at=1, players=["counter"])


async def test_an_agent_compares_two_players(folder: Path) -> None:
    async with hosting(folder) as client:
        report = await ask(client, "compare", coworld="nim", new="counter", old="random", max_blocks=2, seed=3)
        assert report["blocks"]
        assert (folder / report["run"] / "report.json").is_file()


BEST = "def act(observation, legal, rng):\n    return {'take': observation['left'] % 4 or 1}\n"
LAZY = "def act(observation, legal, rng):\n    return {'take': 1}\n"


async def test_an_agent_gates_its_bot_and_sees_what_it_lost(folder: Path) -> None:
    bots = folder / "bots"
    bots.mkdir()
    (bots / "mine.py").write_text(BEST)
    arguments: dict[str, Any] = {"coworld": "nim", "bot": "bots/mine.py", "seed": 1}
    told: list[str] = []

    async def progress(_done: float, _total: float | None, message: str | None) -> None:
        told.append(str(message))

    async with hosting(folder) as client:
        first = await ask(client, "gate", **arguments)
        assert (first["ok"], first["status"], len(first["measurements"])) == (True, "accepted", 1)
        assert "not_a_comparison" in await refused(client, "lost_blocks", run=first["measurements"][0]["directory"])
        (bots / "mine.py").write_text(LAZY)
        played = await client.call_tool("gate", arguments, progress_callback=progress)
        assert played.structured_content is not None, played
        worse = played.structured_content
        assert (worse["ok"], worse["status"], worse["reason"]) == (False, "rejected", "worse")
        assert any("batch progressed" in line for line in told)
        lost = await ask(client, "lost_blocks", run=worse["measurements"][0]["directory"])
        assert (lost["verdict"], lost["won"]) == ("worse", 0)
        parted = lost["lost_blocks"][0]["first_difference"]
        assert (parted["new"]["action"], parted["new"]["score"]) == ({"take": 1}, 0.0)
        (bots / "gate.toml").write_text('game = "../nim"\nopponents = ["../../other/players/counter.py"]\n')
        assert "outside_folder" in await refused(client, "gate", **arguments)
        (bots / "gate.toml").write_text('game = "../nim"\nopponents = ["../nim/players/random_taker.py"]\n')
        again = await ask(client, "gate", **arguments)
        assert [one["name"] for one in again["opponents"]] == ["random_taker.py"]
        (bots / "gate.toml").unlink()
        measured = folder / lost["run"]
        measured.rename(bots / "elsewhere")
        measured.symlink_to(bots / "elsewhere")
        assert "outside_folder" in await refused(client, "gate", **arguments)
        measured.unlink()
        # The bots beside it would be copied
        (bots / "theirs.py").symlink_to(folder.parent / "other/players/counter.py")
        assert "outside_folder" in await refused(client, "gate", **arguments)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        *((path, "outside_folder") for path in ("../other", "link", "/etc", "nim/../../other")),
        *((path, "[a-z_]+") for path in ("~/nim", "http://127.0.0.1:9/nim", "file:///etc", "a\0b")),
    ],
)
async def test_no_path_leads_out_of_the_folder(folder: Path, path: str, code: str) -> None:
    async with hosting(folder, allow=True) as client:
        for tool, arguments in (
            ("validate", {"coworld": path}),
            ("run_episode", {"coworld": path}),
            ("run_episode", {"coworld": "nim", "players": [path]}),
            ("compare", {"coworld": "nim", "new": "counter", "old": path}),
            ("gate", {"coworld": path, "bot": "nim/players/counter.py"}),
            ("gate", {"coworld": "nim", "bot": path}),
            ("gate", {"coworld": "nim", "bot": "nim/players/counter.py", "opponents": [path]}),
            ("lost_blocks", {"run": path}),
            ("show_run", {"run": path}),
            ("read_log", {"run": path}),
            ("verify", {"run": path, "coworld": "nim"}),
            ("fork", {"run": path, "coworld": "nim", "at": 0, "players": ["random"]}),
            ("remove_run", {"run": path}),
        ):
            said = await refused(client, tool, **arguments)
            # Not by a crash
            assert re.search(rf"\[{code}\]", said), said
    assert not (folder / "nim/results").exists()
    assert not (folder.parent / "other/results").exists()


async def test_links_inside_a_coworld_do_not_lead_out_either(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.log").write_text("the secret")
    (folder / "nim/results").symlink_to(outside)
    odd = folder / "odd"
    odd.mkdir()
    (odd / "coworld_manifest.json").symlink_to(tmp_path / "other/coworld_manifest_template.json")
    async with hosting(folder) as client:
        assert "outside_folder" in await refused(client, "run_episode", coworld="nim")
        assert "outside_folder" in await refused(client, "validate", coworld="odd")
    assert [path.name for path in outside.iterdir()] == ["secret.log"]
    (folder / "nim/results").unlink()
    run = await leave_run(folder / "nim", folder / "played")
    (run / "logs/secret.log").symlink_to(outside / "secret.log")
    async with hosting(folder) as client:
        assert "outside_folder" in await refused(client, "read_log", run="played", name="secret.log")


@pytest.mark.parametrize("player", ["llm:model", "recording:played", "human", "python:3.12", "registry:bot"])
async def test_players_are_of_the_folder(folder: Path, player: str) -> None:
    async with hosting(folder) as client:
        assert "player_unknown" in await refused(client, "run_episode", coworld="nim", players=[player])


async def test_nothing_is_removed_unless_that_is_allowed(folder: Path) -> None:
    run = await leave_run(folder / "nim", folder / "played")
    async with hosting(folder) as client:
        assert "remove_run" not in [tool.name for tool in (await client.list_tools()).tools]
        await refused(client, "remove_run", run="played")
        assert run.exists()
    async with hosting(folder, allow=True) as client:
        assert await ask(client, "remove_run", run="played") == {"removed": "played"}
    assert not run.exists()


SLOW = "import time\ndef act(observation, legal, rng):\n    time.sleep(3600)\n"


async def test_a_cancelled_gate_decides_nothing(folder: Path) -> None:
    (folder / "nim/players/slow.py").write_text(SLOW)
    begun = anyio.Event()

    async def progress(_done: float, _total: float | None, _message: str | None) -> None:
        begun.set()

    async with hosting(folder) as client, anyio.create_task_group() as tasks:

        async def gate() -> None:
            await client.call_tool("gate", {"coworld": "nim", "bot": "nim/players/slow.py"}, progress_callback=progress)

        tasks.start_soon(gate)
        with anyio.fail_after(60):
            await begun.wait()
        tasks.cancel_scope.cancel()
    (line,) = (folder / "nim/players/.history/history.jsonl").read_text().splitlines()
    assert json.loads(line)["status"] == "begun"


async def test_a_cancelled_episode_ends(folder: Path) -> None:
    (folder / "slow.py").write_text(SLOW)
    begun = anyio.Event()

    async def progress(_done: float, _total: float | None, message: str | None) -> None:
        if message == "phase started play":
            begun.set()

    async with hosting(folder) as client, anyio.create_task_group() as tasks:

        async def play() -> None:
            arguments = {"coworld": "nim", "players": ["slow.py"]}
            await client.call_tool("run_episode", arguments, progress_callback=progress)

        tasks.start_soon(play)
        with anyio.fail_after(60):
            await begun.wait()
        tasks.cancel_scope.cancel()
    (record,) = (folder / "nim/results").glob("2*/episode.json")
    assert json.loads(record.read_text())["status"] != "completed"


async def test_documentation_is_read_and_searched_and_what_is_long_is_cut(folder: Path) -> None:
    pages = {"games": "# Games\nA seat has a number.", "long": "# Long\n" + "é\n" * MAX_RESULT}
    async with hosting(folder, pages=pages) as client:
        assert (await ask(client, "read_docs"))["pages"] == {"games": "Games", "long": "Long"}
        assert (await ask(client, "search_docs", word="SEAT"))["lines"] == ["games:2: A seat has a number."]
        page = await ask(client, "read_docs", page="long")
        assert page["cut"] == {"text": len(pages["long"])}
        assert len(json.dumps(page, ensure_ascii=False)) <= MAX_RESULT + 100


def test_the_longest_fields_are_cut_and_the_others_are_whole() -> None:
    cut = bounded_fields({"a": "x" * 900, "b": [1, 2], "c": {"d": '"' * 900}}, 400)
    assert (cut["b"], cut["cut"]) == ([1, 2], {"a": 900, "c": 1809})
    assert len(json.dumps(cut)) < 450
    assert bounded_fields({"a": [1]}) == {"a": [1]}


async def test_without_the_library_it_is_said_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(EnvironmentFault, match="mcp is not installed") as missing:
        async with open_http_tools(folder):
            pass
    assert missing.value.hint == "pip install 'coworld-runner[mcp]'"


async def test_by_http_only_whoever_has_the_token_and_is_no_page_gets_in(folder: Path) -> None:
    hello = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    async with open_http_tools(folder) as served, httpx2.AsyncClient(trust_env=False) as http:
        assert served.address.startswith("http://127.0.0.1:")
        right = {"Authorization": f"Bearer {served.token}", "Accept": "application/json, text/event-stream"}
        for more, status in (
            ({"Authorization": ""}, 401),
            ({"Authorization": "Bearer no"}, 401),
            ({"Origin": "http://evil.example"}, 403),
            ({"Origin": served.address.removesuffix("/mcp")}, 403),
            ({"Host": "evil.example"}, 421),
        ):
            answer = await http.post(served.address, json=hello, headers={**right, **more})
            assert answer.status_code == status, more
        assert (await http.options(served.address, headers={"Origin": "http://evil.example"})).status_code == 401
        http.headers.update(right)
        async with Client(streamable_http_client(served.address, http_client=http)) as client:
            assert (await ask(client, "validate", coworld="nim"))["ok"]
