"""`observatory demo`: everything is there, and the same directory goes on where it was."""

from __future__ import annotations

import json
import re
import shlex
import signal
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from support.cli_kit import Started, coworld
from support.observatory import run_server
from support.waiting import until

from observatory.work.executor import TRUST_NOTICE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


async def _board(url: str) -> dict[str, int]:
    """How many rounds each has played, by name."""
    async with httpx2.AsyncClient(base_url=f"{url}/observatory", timeout=60) as anybody:
        [division] = (await anybody.get("/v2/divisions")).json()
        lines = (await anybody.get(f"/v2/divisions/{division['id']}/leaderboard")).json() or []
    return {line["player_name"]: line["rounds_played"] for line in lines}


async def test_demo_league_plays_and_resumes_after_a_restart(tmp_path: Path) -> None:
    command = ["demo", "--data", str(tmp_path / "arena"), "--port", "0", "--json"]
    token = tmp_path / "arena" / "token"
    seen: list[dict[str, Any]] = []
    played = 0
    for _ in range(2):
        async with run_server(command, log=tmp_path / "log") as (_, said):
            seen.append(said)

            async def more(url: str = said["url"], before: int = played) -> dict[str, int] | None:
                board = await _board(url)
                return board if sum(board.values()) > before else None

            board = await until(more, seconds=300, what="another round", every=0.2)
            played = sum(board.values())
            assert set(board) == {"Frontier Painter", "Sweep Painter"}
            async with httpx2.AsyncClient(base_url=said["url"], timeout=60) as you:
                shown = {"Authorization": f"Bearer {token.read_text().strip()}"}
                assert (await you.get("/observatory/whoami", headers=shown)).json()["name"] == "you"
                page = await you.get(said["page"])
                assert TRUST_NOTICE.replace("'", "&#39;") in page.text
    assert token.stat().st_mode & 0o777 == 0o600
    # The address is another, and everything else the same
    first, second = (json.dumps({**said, "pid": 0}).replace(said["url"], "URL") for said in seen)
    assert first == second
    assert all(shlex.split(line)[0] == "coworld" for line in seen[0]["commands"])
    assert TRUST_NOTICE in (tmp_path / "log").read_text()


async def test_every_command_for_taking_part_works_on_the_demo(tmp_path: Path) -> None:
    home = {
        "SOFTMAX_CONFIG_DIR": str(tmp_path / ".softmax"),
        "COWORLD_SERVER": None,
        "DOCKER_HOST": "tcp://127.0.0.1:9",
    }

    def run(line: str, **env: str) -> str:
        program, *words = shlex.split(line.partition(" < ")[0])
        assert program == "coworld"
        given = shlex.split(line.partition(" < ")[2])
        stdin = Path(tmp_path, *given).read_text() if given else ""
        done = coworld(*words, env={**home, **env}, cwd=tmp_path, stdin=stdin, timeout=300)
        assert done.status == 0, f"{line}: {done.status}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def watch(line: str, text: str, **env: str) -> None:
        started = Started(shlex.split(line)[1:], {**home, **env}, tmp_path)
        try:
            started.until_printed(text)
            started.send(signal.SIGINT)
            assert started.end().status in (0, 130)
        finally:
            started.close()

    demo = ["demo", "--data", str(tmp_path / "arena"), "--port", "0", "--json"]
    async with run_server(demo, log=tmp_path / "log") as (_, said):
        for line in said["commands"]:
            run(line)
        server = {"COWORLD_SERVER": said["url"]}
        # The league's own instructions, with a file of ours in place of an image, and already signed in
        league = json.loads(run("coworld leagues --json", **server))[0]["id"]
        async with httpx2.AsyncClient(base_url=said["url"], timeout=60) as anybody:
            guide = (await anybody.get("/observatory/v2/participate", params={"league_id": league})).text
        printed = re.findall(r"```console\n(.*?)```", guide, re.DOTALL)[0].splitlines()
        assert printed[:2] == [f"export COWORLD_SERVER={said['url']}", "coworld login"]
        for line in printed[2:]:
            run(line.replace("IMAGE", "arena/bot.py").replace("NAME", "mine"), **server)
        # What a download says comes next; it has no images, and no engine is needed
        answer = run("coworld download paintarena", **server)
        assert "the platform has no images of it" in answer
        run(f"{answer.partition('Play it:')[2].strip()} --variant quick", **server)
        coworld_id = next(path.name for path in (tmp_path / "coworld").iterdir() if path.name.startswith("cow_"))
        watch(f"coworld play {coworld_id} --human 0 --no-open-browser", "/client/global", **server)

        async def finished() -> str | None:
            rows = [json.loads(row) for row in run("coworld episodes --limit 5 --jsonl", **server).splitlines()]
            return next((row["id"] for row in rows if row["status"] == "completed"), None)

        episode = await until(finished, seconds=300, what="an episode", every=0.5)
        watch(f"coworld replay-open {episode} --no-open-browser", "/client/replay", **server)
        assert "/client/replay" in run(f"coworld replay-open {episode} --hosted --no-open-browser", **server)
        # Its bundle is fetched once, and its Coworld is here
        graded = [json.loads(run(f"coworld grade {episode} --json", **server))["episodes"][0] for _ in range(2)]
        assert [(row["run"], row["kept"]) for row in graded] == [
            (str(tmp_path / f"{episode}.zip"), kept) for kept in (False, True)
        ]


async def test_package_of_another_directory_is_not_trusted(tmp_path: Path) -> None:
    server = ["demo", "--data", str(tmp_path / "arena"), "--port", "0", "--json"]
    env = {"SOFTMAX_CONFIG_DIR": str(tmp_path / ".softmax"), "DOCKER_HOST": "tcp://127.0.0.1:9"}
    async with run_server(server, log=tmp_path / "log") as (_, said):
        env |= {"COWORLD_SERVER": said["url"], "COWORLD_TOKEN": await anyio.Path(said["token"]).read_text()}
        listed = coworld("list", "--json", env=env, cwd=tmp_path)
        assert listed.status == 0, listed.stderr
        [found] = json.loads(listed.stdout)
        # The platform sends what its operator has, and here that is not what it names to others of this machine
        source = tmp_path / "arena" / "paintarena"
        (source / "coworld_manifest_template.json").rename(source / "kept.json")
        assert coworld("download", found["id"], env=env, cwd=tmp_path).status == 0
        assert not json.loads((tmp_path / "coworld" / found["id"] / "coworld_images.json").read_text())["own"]
        refused = coworld("run", found["id"], env=env, cwd=tmp_path)
        assert refused.status == 3
        assert "--backend process" in refused.stderr
