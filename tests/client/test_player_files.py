"""Players of one file, as the client itself reads them for upload."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.fake_platform import uid
from support.fake_server import Ask, Say, json_say, serve

from coworld_client import CoworldClient
from coworld_client.uploads.player_file import read_player
from coworld_core.api import PlayerFiles
from coworld_core.errors import UsageError
from coworld_runner.package import to_wire, uploaded_player

ACT = "def act(observation, legal, rng):\n    return legal[0]\n"
PLAYERS = {
    "function": ACT,
    "class": "class Player:\n    def act(self, observation, legal, rng):\n        return legal[0]\n",
    "program": "import sys\nsys.exit(0)\n",
    "function and more": f"{ACT}print('ready')\n",
}


@pytest.mark.parametrize("form", PLAYERS)
def test_file_is_read_as_the_runner_reads_it(tmp_path: Path, form: str) -> None:
    path = tmp_path / "bot.py"
    path.write_text(PLAYERS[form])
    own = uploaded_player(str(path))
    assert own is not None
    assert read_player(path) == to_wire(own)


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("bot.py", "def act(\n", "player_syntax"),
        ("bot.py", "def move(observation):\n    pass\n", "player_without_act"),
        ("bot.py", f"import helper\n{ACT}", "player_not_file"),
        ("bot.sh", "#!/bin/sh\n", "player_not_file"),
        ("none.py", None, "path_unreadable"),
    ],
)
def test_what_is_no_player_of_one_file_is_refused(tmp_path: Path, name: str, text: str | None, code: str) -> None:
    (tmp_path / "helper.py").write_text("")
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError) as refused:
        read_player(path)
    assert refused.value.code == code


def test_directory_of_one_file_is_a_player_and_any_other_says_what_is_missing(tmp_path: Path) -> None:
    bots = tmp_path / "bots"
    bots.mkdir()
    (bots / "util.py").write_text("LIMIT = 3\n")
    with pytest.raises(UsageError, match=r"none is called main.py, bot.py or player.py") as missing:
        read_player(bots)
    assert missing.value.code == "player_not_runnable"
    (bots / "walker.py").write_text(ACT)
    with pytest.raises(UsageError, match=r"util.py beside walker.py") as several:
        read_player(bots)
    assert "coworld_runner.package" in str(several.value.hint)
    (bots / "util.py").unlink()
    assert read_player(bots) == read_player(bots / "walker.py")


async def test_path_is_uploaded(tmp_path: Path) -> None:
    path = tmp_path / "bot.py"
    path.write_text(ACT)
    told: list[dict[str, Any]] = []

    async def files(ask: Ask) -> Say:
        assert ask.path.endswith("/stats/policies/files")
        told.append(json.loads(await ask.read()))
        return json_say({"id": uid(1), "name": "bot", "version": 1})

    async with serve(files) as server, CoworldClient(server.url) as api:
        assert (await api.policies.upload(path)).version == 1
        with pytest.raises(UsageError, match="image needs a name"):
            await api.policies.upload("bot:latest")
    assert told[0]["name"] == "bot"
    assert PlayerFiles.model_validate_json(json.dumps(told[0]["player"])) == read_player(path)
