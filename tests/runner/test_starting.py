"""Games and players that were just begun: they play as they are, under names that can be used."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from coworld_core.errors import UsageError
from coworld_core.manifest.manifest_file import load_manifest
from coworld_core.manifest.models import GAME_HOSTED
from coworld_core.rules import Rules, audit_rules, load_rules, read_replay
from coworld_runner.kit.rollout import rollout
from coworld_runner.kit.server.manifest import brought_up_to_date, main, manifest_update
from coworld_runner.kit.server.scaffolds import new_game, new_player, new_role, new_trainee
from coworld_runner.package.resolver import Package

ROOT = Path(__file__).parents[2]


@pytest.fixture
def clean_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))


def rules_in(directory: Path, name: str) -> type[Rules]:
    sys.path.insert(0, str(directory))
    return load_rules(name)


@pytest.mark.usefixtures("clean_imports")
def test_a_new_game_keeps_its_promises_under_its_own_name(tmp_path: Path) -> None:
    made = new_game("my-new-game", directory=tmp_path / "here")
    assert made.paths == (
        *(".dockerignore", "Dockerfile", "compose.yaml", "coworld_manifest_template.json"),
        *("my_new_game.py", "players/random_player.py"),
    )
    rules = rules_in(made.directory, "my_new_game:MyNewGame")
    assert audit_rules(rules).issues == ()
    text = (made.directory / "coworld_manifest_template.json").read_text()
    assert brought_up_to_date(json.loads(text), rules) == json.loads(text)
    manifest: dict[str, Any] = json.loads(text)
    assert manifest["game"]["name"] == "my-new-game"
    assert manifest["game"]["runnable"]["image"] == "{{MY_NEW_GAME_IMAGE}}"
    assert manifest["game"]["runnable"]["run"][-1] == "my_new_game:MyNewGame"
    everything = "".join((made.directory / path).read_text() for path in made.paths)
    assert "newgame" not in everything.lower().replace("mynewgame", "").replace("my_new_game", "")
    with pytest.raises(UsageError, match="already exists"):
        new_game("my-new-game", directory=made.directory)
    below = new_game(str(tmp_path / "deep" / "other-game"))
    assert (below.directory, "other_game.py" in below.paths) == (tmp_path / "deep" / "other-game", True)


@pytest.mark.parametrize("name", ["", "Nim", "2nim", "a b", "a--b", "nim-", "json", "class", "../nim", "nim\n"])
def test_names_that_no_game_may_have(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        new_game(name, directory=tmp_path / "place")
    assert not (tmp_path / "place").exists()


def test_a_new_player_is_a_file_that_was_not_there(tmp_path: Path) -> None:
    made = new_player(tmp_path / "deep" / "mine.py")
    assert made.paths == ("mine.py",)
    spec = importlib.util.spec_from_file_location("mine", tmp_path / "deep" / "mine.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for wrong in (tmp_path / "deep" / "mine.py", tmp_path / "mine"):
        with pytest.raises(UsageError):
            new_player(wrong)
    with pytest.raises(UsageError) as refused:
        new_player(Path("mine.ts"))
    assert refused.value.hint == "Write mine.py for Python, or mine.mjs for JavaScript."


def test_new_players_play_a_game_that_lists_no_actions(tmp_path: Path) -> None:
    game = new_game("adding", directory=tmp_path / "adding").directory
    (tmp_path / "learner").mkdir()
    shutil.copy(ROOT / "examples/learner/main.py", tmp_path / "learner")
    new_player(tmp_path / "bot.py")

    class Unlisted(load_rules(f"{game}/adding.py")):
        def legal(self, seat: int) -> None:
            return None

    for bot in ("bot.py", "learner"):
        played = rollout(Unlisted, [f"{game}/players/random_player.py", f"{tmp_path}/{bot}"], record=True)
        assert played.refused == (0, 0)
        assert played.replay is not None
        actions = [tick.actions for tick in read_replay(played.replay).ticks]
        assert all(done[0] is not None if 0 in done else done == {1: None} for done in actions if done)


def test_new_player_describes_its_game(tmp_path: Path) -> None:
    kit = load_manifest(ROOT / "examples/nim/coworld_manifest_template.json", template=True).manifest
    other = load_manifest(ROOT / "examples/paintarena/coworld_manifest_template.json", template=True).manifest
    for file, manifest, has in (
        ("bot.py", kit, "\ndef act("),
        ("bot.mjs", kit, "\nfunction act("),
        ("session.py", other, "\nasync def play("),
    ):
        new_player(tmp_path / file, manifest=manifest)
        text = (tmp_path / file).read_text()
        assert has in text
        assert f"{manifest.game.name}: {manifest.game.description}" in text
        assert manifest.game.protocols.player.value.splitlines()[0] in text
    with pytest.raises(UsageError, match="paintarena has a protocol of its own") as refused:
        new_player(tmp_path / "other.mjs", manifest=other)
    assert refused.value.hint == f"Write {tmp_path / 'other.py'}: its messages are the game's own."
    hosted = other.model_copy(update={"game": other.game.model_copy(update={"player_runtime": GAME_HOSTED})})
    with pytest.raises(UsageError, match="runs its players itself"):
        new_player(tmp_path / "hosted.py", manifest=hosted)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bot.mjs", "bot.py", "session.py"]


def test_new_trainee_plays_before_it_has_learnt_and_trains_on_the_rules_of_its_game(tmp_path: Path) -> None:
    game = new_game("small-game", directory=tmp_path / "game").directory
    loaded = load_manifest(game / "coworld_manifest_template.json", template=True)
    package = Package(
        manifest=loaded.manifest, report=loaded.report, contexts={loaded.manifest.game.runnable.image: game}
    )
    made = new_trainee(tmp_path / "bots/mine", package=package)
    assert made.paths == ("main.py", "train.py")
    program = (made.directory / "train.py").read_text()
    assert "GAME = HERE / '../../game/small_game.py'\nCLASS = 'SmallGame'\n" in program
    compile(program, "train.py", "exec")
    assert rollout(load_rules(f"{game}/small_game.py"), f"{made.directory}", seed=1).refused == (0, 0)
    with pytest.raises(UsageError, match="already exists"):
        new_trainee(made.directory, package=package)
    with pytest.raises(UsageError, match="small-game has no file of rules"):
        new_trainee(tmp_path / "other", package=dataclasses.replace(package, contexts={}))


@pytest.mark.usefixtures("clean_imports")
def test_a_manifest_is_brought_up_to_date_and_keeps_what_its_author_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = new_game("other", directory=tmp_path / "other")
    file = made.directory / "coworld_manifest_template.json"
    manifest = json.loads(file.read_text())
    manifest["game"]["config_schema"] = {}
    page = {"id": "rules.md", "title": "Rules", "content": {"type": "text", "value": "Add."}}
    manifest["game"]["docs"]["pages"] = [page]
    file.write_text(json.dumps(manifest))
    monkeypatch.setattr(sys, "argv", ["manifest", str(file)])
    assert main() == 0
    after = json.loads(file.read_text())
    assert "target" in after["game"]["config_schema"]["properties"]
    assert after["game"]["docs"]["pages"] == [page]
    assert main() == 0
    assert "nothing to change" in capsys.readouterr().out
    (made.directory / "players" / "my_bot.py").write_text(
        '"""Adds one."""\n\n\ndef act(observation, legal, rng):\n    ...\n'
    )
    (made.directory / "players" / "shared.py").write_text("TABLE = {}\n")
    assert main() == 0
    after = json.loads(file.read_text())
    assert [player["id"] for player in after["player"]] == ["random-player", "my-bot"]
    assert (after["player"][1]["description"], after["player"][1]["run"][-1]) == ("Adds one.", "players/my_bot.py")
    assert main() == 0
    assert "nothing to change" in capsys.readouterr().out
    for role in ("grader", "reporter"):
        new_role(role, made.directory / "roles" / f"my_{role}.py")
    assert main() == 0
    after, said = json.loads(file.read_text()), capsys.readouterr()
    assert [(entry["id"], entry["run"][-1]) for entry in after["grader"]] == [("my-grader", "roles/my_grader.py")]
    assert ("reporter" in after, "reporter my-reporter is not declared" in said.out, said.err) == (False, True, "")
    (made.directory / ".dockerignore").write_text("*\n!players\n")
    new_role("diagnoser", made.directory / "roles" / "why.py")
    assert main() == 0
    assert ".dockerignore leaves roles/why.py out of the image: add the line !roles" in capsys.readouterr().out
    after = json.loads(file.read_text())
    after["variants"][0]["game_config"]["goal"] = 7
    file.write_text(json.dumps(after))
    assert main() == 1
    assert 'In variants[0].game_config: The key "goal" is not known here.' in capsys.readouterr().err
    file.write_text("[")
    assert main() == 2


@pytest.mark.parametrize(
    ("line", "tags", "seats", "kept"),
    [
        ("seats = 2", ["turn-based", "two-player", "other"], 2, {"seconds_per_move": 10}),
        ("seats, most_seats = 3, 5", ["turn-based", "three-to-five-player", "other"], 3, {"seconds_per_move": 10}),
        ("seats = 1", ["turn-based", "one-player", "other"], 1, {"seconds_per_move": 10}),
        ("seats, pace = 12, Ticks(hz=20)", ["real-time", "12-player", "other"], 12, {}),
    ],
)
def test_a_manifest_follows_its_rules(tmp_path: Path, line: str, tags: list[str], seats: int, kept: Any) -> None:
    made = new_game("other", directory=tmp_path / "other")
    rules, file = made.directory / "other.py", made.directory / "coworld_manifest_template.json"
    rules.write_text(rules.read_text().replace("seats = 2", line).replace("import Rules,", "import Rules, Ticks,"))
    (made.directory / "players" / "late.py").write_text("def act(observation, legal, rng):\n    return legal[0]\n")
    manifest = json.loads(file.read_text())
    manifest["variants"][0]["game_config"]["players"][0] = {"name": "By hand"}
    manifest["variants"][0]["description"] = "Mine."
    manifest["player"][0]["env"] = {"OWN": "1"}
    file.write_text(json.dumps(manifest))
    update = manifest_update(made.directory)
    assert (update.changed, update.left.errors, json.loads(file.read_text())) == (True, (), manifest)
    update.write()
    after = json.loads(file.read_text())
    variant, fixture = after["variants"][0], after["certification"]
    assert after["tags"] == tags
    assert variant["description"] == "Mine."
    assert after["player"][0]["env"] == {"OWN": "1"}
    named = [player["name"] for player in variant["game_config"]["players"]]
    assert named == ["By hand", *(f"Seat {seat}" for seat in range(1, seats))]
    assert fixture["game_config"] == {
        **kept,
        "player_connect_timeout_seconds": 60,
        "players": [{"name": f"Seat {seat}"} for seat in range(seats)],
    }
    # Whoever has no seat yet gets a new one first
    seated = [player["player_id"] for player in fixture["players"]]
    assert seated == (["random-player", "random-player", "late"] + ["random-player", "late"] * 5)[:seats]
    assert not manifest_update(made.directory).changed


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("        self.total, self.turn = 0, 0", "        self.total = = 0", "SyntaxError: invalid syntax\n{}\n{:>22}"),
        ("    seats = 2", "    seats = two", "NameError: name 'two' is not defined\n{}\n{:>13}"),
        (
            "    seats = 2",
            "    spectators = 2",
            "Other.spectators is 2, not Open(), Delayed(ticks=…) or Hidden().\nclass",
        ),
        ("    seats = 2", "    Observation = 3", "PydanticSchemaGenerationError: Unable to generate"),
        ("    def scores(", "    def score(", "Other lacks scores.\nclass Other(Rules):\n^"),
        (
            "from pydantic",
            "import absent\nfrom pydantic",
            "ModuleNotFoundError: No module named 'absent'\n",
        ),
    ],
)
def test_wrong_rules_are_a_line_with_a_caret(tmp_path: Path, old: str, new: str, said: str) -> None:
    made = new_game("other", directory=tmp_path / "other")
    text = (made.directory / "other.py").read_text()
    (made.directory / "other.py").write_text(text.replace(old, new))
    with pytest.raises(UsageError) as refused:
        manifest_update(made.directory)
    line, problem = refused.value.message.removeprefix("other.py:").split(": ", 1)
    assert (line.isdigit(), problem.startswith(said.format(new, "^")), problem.count("\n")) == (True, True, 2)
