"""`observatory demo`: everything is there, and the same directory goes on where it was."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import httpx2
import pytest
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
    # the address is another, and everything else the same
    first, second = (json.dumps(said).replace(said["url"], "URL").replace(str(said["pid"]), "PID") for said in seen)
    assert first == second
    assert all(shlex.split(line)[0] == "coworld" for line in seen[0]["commands"])
    assert TRUST_NOTICE in (tmp_path / "log").read_text()
