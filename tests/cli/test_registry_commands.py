"""`coworld registry`: versions of players, at the terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli_kit import coworld
from support.observatory import observatory_in_thread

pytestmark = pytest.mark.slow

NIM = Path(__file__).parents[2] / "examples" / "nim"
BOT = "def act(observation, legal, rng):\n    return legal[0]\n"


def test_published_played_tagged_fetched_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "bot.py").write_text(BOT)
    first = coworld(
        "registry", "publish", "bot", tmp_path / "bot.py", "--tag", "champion", "--meta", "steps=5", "--json"
    )
    assert first.status == 0, first.stderr
    assert (first.json["label"], first.json["tags"], first.json["metadata"]) == (
        "bot:v1",
        ["champion"],
        {"steps": "5"},
    )
    (tmp_path / "bot.py").write_text(BOT + "# other\n")
    assert coworld("registry", "publish", "bot", tmp_path / "bot.py").stdout.startswith("bot:v2: bot.py, ")

    listed = coworld("registry", "list", "bot").stdout.splitlines()
    assert [line.split()[0] for line in listed] == ["Version", "bot:v2", "bot:v1"]
    (torn := tmp_path / "data/coworld/players/logs/torn.jsonl").write_text("torn\n")
    names = coworld("registry", "list", "--json").json
    assert ([one["label"] for one in names["versions"]], [*names["damaged"]]) == (["bot:v2"], ["torn"])
    assert "torn is left out, because its log cannot be read" in coworld("registry", "list").stderr
    torn.unlink()
    shown = coworld("registry", "show", "bot:champion", "--json").json
    assert Path(shown["path"]).read_text() == BOT

    played = coworld("run", NIM, "bot:latest", "bot:champion", "--backend", "process", "-o", tmp_path / "run")
    assert played.status == 0, played.stderr
    assert "bot:champion is from" not in played.stderr
    assert f"bot:v1 is from the registry {tmp_path / 'data/coworld/players'}, not an image" in played.stderr
    slots = json.loads((tmp_path / "run" / "episode.json").read_text())["slots"]
    assert [slot["player_version"] for slot in slots] == ["bot:v2", "bot:v1"]
    measured = coworld("compare", "bot:latest", "bot:v1", "-m", NIM, "--max-blocks", "20", "-o", tmp_path / "compared")
    assert "bot:v2 in every episode" in measured.stderr
    plan = json.loads((tmp_path / "compared" / "plan.json").read_text())
    assert "bot:v2" in json.dumps(plan)

    assert coworld("registry", "tag", "bot:v2", "champion", "--expected", "v1").status == 0
    moved = coworld("registry", "tag", "bot:v1", "champion", "--expected", "v1", "--json")
    assert (moved.status, moved.json["error"]["code"]) == (1, "tag_moved")
    assert coworld("registry", "tag", "bot:v2", "other", "--expected", "none").status == 0
    assert coworld("registry", "tag", "bot", "other", "--remove").status == 0

    seen = coworld("registry", "updates", "bot", "--after", "0", "--count", "2", "--json").stdout.splitlines()
    assert [json.loads(line)["label"] for line in seen] == ["bot:v1", "bot:v2"]
    assert coworld("registry", "fetch", "bot:v1", "-o", tmp_path / "copy").status == 0
    assert (tmp_path / "copy" / "bot.py").read_text() == BOT
    refused = coworld("registry", "fetch", "bot:v1", "-o", tmp_path / "copy", "--json")
    assert (refused.status, refused.json["error"]["code"]) == (2, "file_exists")

    other = coworld("registry", "list", "--registry", tmp_path / "other")
    assert other.stdout.startswith("There are no players in")
    refused = coworld("registry", "remove", "bot:v2")
    assert (refused.status, "bot:v2 is champion" in refused.stderr) == (2, True)
    assert coworld("registry", "remove", "bot:v1").stdout == "Removed: bot:v1\n"


def test_a_version_goes_to_a_platform_and_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "bot.py").write_text(BOT)
    assert coworld("registry", "publish", "mine", tmp_path / "bot.py").status == 0
    with observatory_in_thread(tmp_path) as (platform, add_user):
        env = {"COWORLD_TOKEN": add_user("ann"), "COWORLD_SERVER": platform.server}
        uploaded = coworld("upload-policy", "registry:mine:v1", "--json", env=env)
        assert uploaded.status == 0, uploaded.stderr
        assert uploaded.json["label"] == "mine:v1"
        listed = coworld("policies", "list", env=env).stdout.splitlines()
        assert listed[1].split()[1] == "mine:v1"
        assert listed[1].split()[4:6] == ["files", "bot.py"]
        fetched = coworld("policies", "download", "mine:v1", "-o", tmp_path / "back", "--json", env=env)
        assert fetched.status == 0, fetched.stderr
        assert Path(fetched.json["path"]).read_text() == BOT
        again = coworld("policies", "download", "mine", "-o", tmp_path / "back", env=env)
        assert (again.status, "nothing is overwritten" in again.stderr) == (2, True)
        absent = coworld("policies", "download", "mine:v2", "-o", tmp_path / "none", env=env)
        assert (absent.status, "You have no policy 'mine:v2'" in absent.stderr) == (4, True)
        other = {**env, "COWORLD_TOKEN": add_user("ben")}
        assert coworld("policies", "download", "mine", "-o", tmp_path / "none", env=other).status == 4
    assert not (tmp_path / "none").exists()


def test_what_is_misspelt_is_answered_with_what_was_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "bot.py").write_text(BOT)
    assert coworld("registry", "publish", "bot", tmp_path / "bot.py", "--tag", "champion").status == 0
    for words, answer in (
        (("registry", "show", "bto"), "Did you mean 'bot'?"),
        (("registry", "show", "bot:campion"), "Did you mean bot:champion?"),
        (("registry", "tag", "bot", "latest"), "always stands for the newest version"),
        (("registry", "tag", "bot", "best", "--expected", "first"), "is not the number of a version"),
        (("registry", "publish", "a/b", tmp_path / "bot.py"), "cannot be a name"),
        (("registry", "publish", "bot", "nothing"), "There is no file 'nothing'"),
        (("registry", "publish", "./bot.py", "bot"), "coworld registry publish bot ./bot.py"),
        (("run", NIM, "bott"), "Did you mean 'bot' of your registry?"),
        (("run", NIM, "bot:v9"), "docker.io/library/bot:v9"),
        (("gate", "registry:bot:v1", "-m", NIM), "coworld registry fetch"),
    ):
        refused = coworld(*words)
        assert refused.status == 2, words
        assert answer in refused.stderr, (words, refused.stderr)
