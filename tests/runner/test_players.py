"""What a person may name as a player, and what a file or directory of one's own is taken for."""

from __future__ import annotations

import dataclasses
import importlib.util
import platform
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from coworld_core.errors import CapabilityError, CoworldError, UsageError
from coworld_core.manifest.manifest_file import load_manifest
from coworld_runner.backend import Backend
from coworld_runner.backends.docker.docker_backend import DockerBackend
from coworld_runner.backends.process.process_backend import ProcessBackend
from coworld_runner.evaluation.entrants import Entrants
from coworld_runner.evaluation.evaluation_rules import EvaluationRules
from coworld_runner.package.own_players import player_directory
from coworld_runner.package.own_players.named_player import read_own_player
from coworld_runner.package.own_players.own_player import OwnPlayer
from coworld_runner.package.own_players.player_requirements import require_own_player
from coworld_runner.package.own_players.player_wire import to_wire
from coworld_runner.package.plan import EpisodePlan, plan_episode
from coworld_runner.package.player_names import describe_environment, read_players
from coworld_runner.package.resolver import Package

NIM = Path(__file__).parents[2] / "examples" / "nim"
ACT = "def act(observation, legal, rng):\n    return legal[0]\n"
PROGRAM = "import asyncio\n\nasync def main():\n    pass\n\nif __name__ == '__main__':\n    asyncio.run(main())\n"
SEAT = ("python", "-m", "coworld_client.seat")


@pytest.fixture(scope="module")
def nim() -> Package:
    loaded = load_manifest(NIM / "coworld_manifest_template.json", template=True)
    return Package(manifest=loaded.manifest, report=loaded.report, contexts={"{{NIM_IMAGE}}": NIM})


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory in which a person stands."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def elf(machine: int) -> bytes:
    return b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack("<HH", 2, machine) + bytes(44)


def made(path: Path, content: str | bytes, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(mode)
    return path


def names(plan: EpisodePlan) -> list[str]:
    return [seat.name for seat in plan.seats]


# --- what a word means -------------------------------------------------------------------------------------------


def test_player_word_is_classified(nim: Package, here: Path) -> None:
    made(here / "bot.py", ACT)
    made(here / "plain", "#!/bin/sh\n", 0o755)
    # An id goes before a file of that name
    made(here / "counter", "#!/bin/sh\n", 0o755)
    words = ["counter", "./counter", "bot.py", "plain", "mine:1", "ghcr.io/me/bot", "me/bot", "{{NIM_IMAGE}}", "human"]
    kinds = [player.kind for player in read_players(words, nim)]
    assert kinds == ["bundled", "own", "own", "own", "image", "image", "image", "image", "human"]


def test_at_n_repeats_a_player(nim: Package, here: Path) -> None:
    made(here / "bot.py", ACT)
    made(here / "odd@3", "#!/bin/sh\n", 0o755)
    digest = f"me/bot@sha256:{'0' * 64}"
    assert [str(player) for player in read_players(["./bot.py@2", "counter@1", "./odd@3", digest], nim)] == [
        *["./bot.py", "./bot.py", "counter", "./odd@3", digest]
    ]
    with pytest.raises(UsageError, match=r"expected 1 or 2 players for 2 seats, got 3\."):
        plan_episode(nim, players=["./bot.py@3"])
    with pytest.raises(UsageError, match="gives the player no seat"):
        read_players(["./bot.py@0"], nim)


def test_random_player_needs_a_game_of_the_kit(nim: Package, here: Path) -> None:
    made(here / "random", "#!/bin/sh\n", 0o755)
    plan = plan_episode(nim, players=["random@2"])
    own = plan.seats[0].own
    assert own is not None
    assert (own.argv("/in", in_image=True), own.needs_client) == (("python", "/in/random_player.py"), False)
    assert names(plan) == ["random", "random (2)"]
    other = nim.manifest.model_copy(deep=True)
    other.game.protocols.player.__dict__["value"] = "Send moves."
    with pytest.raises(UsageError, match=r"plays games that speak coworld.seat/1 .* nim speaks a protocol of its own"):
        read_players(["random"], dataclasses.replace(nim, manifest=other))


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("countr", "Did you mean the player 'counter'?"),
        ("bot", "Did you mean ./bot.py?"),
        ("alpine", "The package's own players are random-taker and counter. A file is ./NAME, an image has a tag"),
    ],
)
def test_a_bare_word_is_never_taken_for_an_image(nim: Package, here: Path, word: str, hint: str) -> None:
    made(here / "bot.py", ACT)
    with pytest.raises(UsageError) as refused:
        plan_episode(nim, players=[word])
    assert refused.value.code == "unknown_player"
    assert str(refused.value.hint).startswith(hint)


def test_own_player_is_named_after_its_file(nim: Package, here: Path) -> None:
    for name in ("greedy.py", "a/bot.py", "b/bot.py"):
        made(here / name, ACT + f"# {name}\n")
    plan = plan_episode(nim, players=["greedy.py", "counter"])
    assert names(plan) == ["greedy", "Counter"]
    assert plan.game_config["players"] == [{"name": "greedy"}, {"name": "Counter"}]
    assert plan.seats[0].image.startswith("greedy.py@")
    assert names(plan_episode(nim, players=["greedy.py@2"])) == ["greedy", "greedy (2)"]
    assert names(plan_episode(nim, players=["a/bot.py", "b/bot.py"])) == ["a/bot", "b/bot"]
    assert [seat.runnable is None for seat in plan_episode(nim, players=["greedy.py", "human"]).seats] == [False, True]
    assert [seat.runnable for seat in plan_episode(nim, players=["human"]).seats] == [None, None]


def test_python_command_follows_the_bundled_player(nim: Package, here: Path) -> None:
    made(here / "bot.py", ACT)
    first = nim.manifest.player[0].model_copy(update={"run": ("/opt/venv/bin/python3", "-m", "x")})
    other = dataclasses.replace(nim, manifest=nim.manifest.model_copy(update={"player": (first,)}), contexts={})
    certified = other.manifest.certification.model_copy(
        update={"players": other.manifest.certification.players[:1] * 2}
    )
    other = dataclasses.replace(other, manifest=other.manifest.model_copy(update={"certification": certified}))
    own = plan_episode(other, players=["bot.py"]).seats[0].own
    assert own is not None
    assert own.argv("/in", in_image=True) == ("/opt/venv/bin/python3", "-m", "coworld_client.seat", "/in/bot.py")
    assert own.argv("/in", in_image=False) == (*SEAT, "/in/bot.py")


def other_act(observation: Any, legal: Any, rng: Any) -> Any:
    return legal[0]


class Careful:
    def act(self, observation: Any, legal: Any, rng: Any) -> Any:
        return legal[0]


class Idle:
    pass


def test_functions_and_classes_are_played_by_their_file(nim: Package) -> None:
    plan = plan_episode(nim, players=[other_act, Careful])
    assert names(plan) == ["other_act", "Careful"]
    assert [seat.own and seat.own.command for seat in plan.seats] == [
        (*SEAT, "{}/test_players.py:other_act"),
        (*SEAT, "{}/test_players.py:Careful"),
    ]
    for seat in plan.seats:
        assert seat.own is not None
        assert seat.own.files == {"test_players.py": Path(__file__).read_bytes()}
        assert seat.image.startswith(f"{seat.own.file}@")
    measured = Entrants(nim, {"new": other_act, "old": NIM / "players" / "counter.py"}, EvaluationRules(others=Careful))
    assert [seat.name for seat in map(measured.seat, ("new", "old"))] == ["other_act", "counter"]
    assert measured.others[0].name == "Careful"


def test_what_no_other_process_finds_is_refused(nim: Package) -> None:
    def inner(observation: Any, legal: Any, rng: Any) -> Any:
        return legal[0]

    script: dict[str, Any] = {"__name__": "__main__"}
    # As a notebook does
    exec(ACT, script)
    for player, says in (
        (lambda *_: None, "A lambda cannot play an episode: it has no name."),
        (
            inner,
            "The function inner cannot play an episode: it is defined inside test_what_no_other_process_",
        ),
        (Careful().act, "An object of type method cannot play an episode: only functions and classes have names"),
        (Careful(), "An object of type Careful cannot play"),
        (Idle, "The class Idle cannot play an episode: it has no method act."),
        (script["act"], "The function act cannot play an episode: no Python file has it under this name."),
        (7, "An object of type int cannot play"),
    ):
        with pytest.raises(UsageError) as refused:
            plan_episode(nim, players=[player])
        assert says in refused.value.message
        assert refused.value.code == "player_not_in_file"


def test_a_script_is_not_run_again_for_its_function(nim: Package, here: Path) -> None:
    told = "import sys\nfrom coworld_runner.package.own_players.function_player import read_function\n"
    told += "def act(observation, legal, rng): return legal[0]\n"
    for rest, says in (
        ("print(read_function(act).command[-1])", 'not below if __name__ == "__main__"'),
        ('if __name__ == "__main__":\n    print(read_function(act).command[-1])', "{}/script.py:act\n"),
    ):
        script = made(here / "script.py", told + rest)
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
        assert says in done.stdout + done.stderr


def test_paths_are_files(nim: Package, here: Path) -> None:
    made(here / "bot.py", ACT)
    (player,) = read_players([Path("bot.py")], nim)
    assert (player.word, player.own and player.own.name) == (str(here / "bot.py"), "bot")


def test_run_option_is_for_images_only(nim: Package, here: Path) -> None:
    made(here / "bot.py", ACT)
    with pytest.raises(UsageError, match=r"but \./bot\.py is not an image") as refused:
        plan_episode(nim, players=["./bot.py"], run=["python"])
    assert refused.value.code == "run_without_image"


# --- what a file is ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "mode", "command"),
    [
        ("bot.py", ACT, 0o644, (*SEAT, "{}/bot.py")),
        ("bot.py", "async " + ACT + PROGRAM, 0o644, (*SEAT, "{}/bot.py")),
        ("bot.py", "from some import thing as act\n", 0o644, (*SEAT, "{}/bot.py")),
        ("bot.py", "class Player:\n  def act(self, *asked): ...\n", 0o644, (*SEAT, "{}/bot.py")),
        ("bot.py", "async def play(seat): ...\n", 0o644, (*SEAT, "{}/bot.py")),
        ("bot.py", "async def play(seat): ...\nprint()\n", 0o644, ("python", "{}/bot.py")),
        (
            "bot.py",
            f"try:\n    import x\nexcept ImportError:\n    {ACT.replace('    ', '      ')}",
            0o644,
            (*SEAT, "{}/bot.py"),
        ),
        ("bot", "#!/usr/bin/env python3\n" + ACT, 0o644, (*SEAT, "{}/bot")),
        ("bot.py", PROGRAM, 0o644, ("python", "{}/bot.py")),
        ("bot.py", "print('plays at once')\n", 0o755, ("python", "{}/bot.py")),
        ("bot.sh", "#!/bin/sh -e\n", 0o755, ("/bin/sh", "-e", "{}/bot.sh")),
        ("bot.js", "#!/usr/bin/env -S node --expose-gc\n", 0o755, ("node", "--expose-gc", "{}/bot.js")),
        ("bot", elf(62), 0o755, ("{}/bot",)),
    ],
)
def test_how_a_file_is_run(here: Path, name: str, content: str | bytes, mode: int, command: tuple[str, ...]) -> None:
    player = read_own_player(str(made(here / name, content, mode)))
    assert player.command == command
    assert player.name == "bot"


def test_a_directory_is_run_as_it_says(here: Path) -> None:
    made(here / "docked/Dockerfile", 'FROM a AS one\nCMD ["no"]\nFROM b\nENTRYPOINT ["python"]\nCMD ["bot.py"]\n')
    docked = read_own_player("docked")
    assert docked.argv("/there", in_image=False) == (
        "/bin/sh",
        "-c",
        'cd "$0" && exec "$@"',
        "/there",
        "python",
        "bot.py",
    )
    assert docked.dockerfile
    made(here / "project/pyproject.toml", '[project]\nname = "x"\n[project.scripts]\nplay = "mine.bot:main"\n')
    made(here / "project/.git/config", "not of the player")
    project = read_own_player("project/")
    assert project.command[:2] == ("python", "-c")
    assert "'mine.bot'" in project.command[2]
    assert list(project.files) == ["pyproject.toml"]
    assert not project.dockerfile
    made(here / "project/mine/bot.py", "import sys\ndef main(): print(sys.argv)\n")
    command = [sys.executable, *project.command[1:-1], str(here / "project")]
    assert subprocess.check_output(command, text=True) == f"{[str(here / 'project')]}\n"


@pytest.mark.parametrize("entry", ["main.py", "bot.py", "mine.py"])
def test_directory_with_one_player_file_is_a_player_with_all_that_lies_in_it(here: Path, entry: str) -> None:
    made(here / "mybot" / entry, f"from helper import pick\n{ACT}")
    made(here / "mybot/helper.py", "def pick(legal):\n    return legal[0]\n")
    made(here / "mybot/weights.json", "[1]")
    player = read_own_player("mybot")
    assert (player.name, player.file, player.path) == ("mybot", "mybot", here / "mybot")
    assert player.command == (*SEAT, f"{{}}/{entry}")
    assert player.needs_client
    assert sorted(player.files) == sorted([entry, "helper.py", "weights.json"])


def test_directory_with_several_player_files_names_them(here: Path) -> None:
    for name in ("one.py", "two.py"):
        made(here / "bots" / name, ACT)
    with pytest.raises(UsageError) as refused:
        read_own_player("bots")
    assert refused.value.hint == "Name the file: bots/one.py or bots/two.py."


@pytest.mark.parametrize("player", [ACT, "class Bot: ...\nact = Bot().choose\n", "class Player(Base): ...\n"])
def test_directorys_player_is_the_file_that_defines_one(here: Path, player: str) -> None:
    made(here / "bots/mine.py", player)
    made(here / "bots/again.py", "from mine import act\n")
    made(here / "bots/state.py", "class Player:\n    name = 'a piece on the board'\n")
    made(here / "bots/music.py", "def play(sound): ...\n")
    assert read_own_player("bots").command == (*SEAT, "{}/mine.py")


def test_checkpoint_of_a_run_is_a_player_with_its_weights(here: Path, nim: Package) -> None:
    for number in (9, 10, 500000):
        made(here / f"run/{number}/main.py", ACT)
        made(here / f"run/{number}/weights.json", str(number))
    players = read_players(["run", "./run@latest@2", "run@500000", "./run/9"], nim)
    assert [player.own and player.own.name for player in players] == ["run@500000"] * 4 + ["9"]
    newest = players[0].own
    assert newest is not None
    assert (newest.series, newest.path) == ("run", here / "run/500000")
    assert newest.files["weights.json"] == b"500000"
    assert to_wire(newest).files["weights.json"] == b"500000"
    assert [seat.name for seat in plan_episode(nim, players=["./run/9@1", "run"]).seats] == ["9", "run@500000"]
    with pytest.raises(UsageError, match="could be the checkpoint run/10 or 10 seats") as refused:
        read_players(["./run@10"], nim)
    assert refused.value.hint == "Write ./run/10 for the checkpoint, or ./run@latest@10 for seats of the newest."
    assert len(read_players(["./run@2"], nim)) == 2


def test_large_weights_are_handed_over_or_refused_in_words(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(here / "run/1/main.py", ACT)
    made(here / "run/1/weights.bin", bytes((4 << 20) + 1))
    with pytest.raises(UsageError, match="run/1 has more than 4 MiB, which is what a platform takes"):
        to_wire(read_own_player("run"))
    monkeypatch.setattr(player_directory, "MOST_BYTES", 1000)
    with pytest.raises(UsageError, match="which is too much to hand over"):
        read_own_player("run")


def test_file_brings_the_modules_beside_it_that_it_imports(here: Path) -> None:
    made(here / "bots/one.py", f"import json, random, shared\nfrom parts.first import piece\n{ACT}")
    made(here / "bots/shared.py", "def late():\n    import deeper\n")
    made(here / "bots/deeper.py", "import one\n")
    made(here / "bots/random.py", "the standard library's is meant, and this is no Python")
    made(here / "bots/parts/__init__.py", "")
    made(here / "bots/parts/first.py", "piece = 1\n")
    made(here / "bots/two.py", ACT)
    player = read_own_player("bots/one.py")
    assert player.name == "one"
    assert sorted(player.files) == ["deeper.py", "one.py", "parts/__init__.py", "parts/first.py", "shared.py"]
    assert list(read_own_player("bots/two.py").files) == ["two.py"]
    made(here / "bots/deeper.py", "import\n")
    with pytest.raises(UsageError, match=r"deeper\.py:1: "):
        read_own_player("bots/one.py")


@pytest.mark.parametrize(
    ("name", "content", "mode", "code", "said"),
    [
        (
            "bot.py",
            "def act(observation, legal, rng):\n  return (\n",
            0o644,
            "player_syntax",
            "bot.py:2: '(' was never closed: return ( Correct line 2, which Python",
        ),
        ("bot.py", f"{ACT}\n        return 0\n", 0o644, "player_syntax", "bot.py:4: unexpected indent: return 0"),
        ("bot.py", b"def act(*asked):\n  return '\xff'\n", 0o644, "player_syntax", "bot.py:2: (unicode"),
        ("bot.py", ACT + "\0", 0o644, "player_syntax", "null bytes"),
        ("bot", f"#!/usr/bin/env python3\nimport\n{ACT}", 0o755, "player_syntax", "bot:2: invalid syntax: import"),
        (
            "bot.py",
            "def atc(observation, legal, rng):\n  pass\n",
            0o644,
            "player_without_act",
            "Did you mean 'atc' to be",
        ),
        ("bot.py", '"""Empty."""\n', 0o644, "player_without_act", "a file with that function"),
        ("bot.py", "def act(observation):\n  pass\n", 0o644, "player_without_act", "def act(observation, legal, rng)"),
        ("notes.txt", "hello", 0o755, "player_not_runnable", "A player is a .py file, an executable"),
        ("bot", elf(62), 0o644, "player_not_runnable", "chmod +x"),
        ("dir/notes.txt", "", 0o644, "player_not_runnable", "a Dockerfile or a pyproject.toml"),
        (
            "dir/Dockerfile",
            "FROM a\n\nRNU pip\n",
            0o644,
            "dockerfile_invalid",
            "Dockerfile:3: There is no instruction RNU. Did you mean RUN?",
        ),
        ("dir/Dockerfile", "# nothing\n", 0o644, "dockerfile_invalid", "Dockerfile:1: There is no FROM"),
        ("dir/Dockerfile", "COPY . .\nFROM a\n", 0o644, "dockerfile_invalid", "Dockerfile:1: COPY comes before"),
        ("dir/pyproject.toml", "[project\n", 0o644, "pyproject_invalid", "line 1"),
        ("dir/pyproject.toml", "[project]\nname = 'x'\n", 0o644, "player_not_runnable", "[project.scripts]"),
    ],
)
def test_unrunnable_player_is_refused_with_a_hint(
    here: Path, name: str, content: str | bytes, mode: int, code: str, said: str
) -> None:
    made(here / name, content, mode)
    with pytest.raises(UsageError) as refused:
        read_own_player(name.partition("/")[0])
    assert refused.value.code == code
    assert said in f"{refused.value.message} {refused.value.hint}"


@pytest.mark.parametrize("broken", ["mine/bot.py", "mine/bot/__init__.py", "src/mine/__init__.py", "src/mine/bot.py"])
def test_syntax_error_in_a_project_script_names_the_line(here: Path, broken: str) -> None:
    made(here / "dir/pyproject.toml", '[project]\nname = "x"\n[project.scripts]\nplay = "mine.bot:main"\n')
    made(here / "dir/mine/tests/sample.py", "no python, and not what the script begins with")
    read_own_player("dir")
    made(here / "dir" / broken, "import os\n\ndef main()\n")
    with pytest.raises(UsageError, match=f"{broken}:3: expected ':': def main") as refused:
        read_own_player("dir")
    assert (refused.value.code, refused.value.context["line"]) == ("player_syntax", 3)


def test_missing_player_file_suggests_similar_names(here: Path) -> None:
    made(here / "greedy.py", ACT)
    made(here / "bots.md", "What bots there are.")
    with pytest.raises(UsageError) as refused:
        read_own_player("./gredy.py")
    assert (refused.value.code, refused.value.hint) == ("player_not_found", "Did you mean ./greedy.py?")
    made(here / "v_none.py", ACT)
    for far in ("./bot.py", "./nope.py"):
        with pytest.raises(UsageError) as refused:
            read_own_player(far)
        assert "Did you mean" not in str(refused.value.hint)


# --- where it can be run -----------------------------------------------------------------------------------------


class Remote(DockerBackend):
    """One whose units are elsewhere, and that builds nothing."""

    name = "remote"

    @property
    def capabilities(self) -> Any:
        return dataclasses.replace(super().capabilities, remote=True, builds=False)


def test_player_unsupported_by_the_backend_is_refused(here: Path) -> None:
    made(here / "made/Dockerfile", "FROM a\n")
    made(here / "program", elf(62), 0o755)
    directory, program = read_own_player("made"), read_own_player("program")
    refusals: list[tuple[OwnPlayer, Backend, str | None, type[CoworldError], str]] = [
        (directory, ProcessBackend(), None, UsageError, "neither CMD nor ENTRYPOINT"),
        (directory, Remote(), None, CapabilityError, "builds no images"),
        (program, Remote(), None, CapabilityError, "cannot pass executables to pods"),
        (program, DockerBackend(), "linux/arm64", UsageError, "a program for linux/amd64"),
    ]
    for player, backend, wanted, kind, said in refusals:
        with pytest.raises(kind, match=said) as refused:
            require_own_player(player, backend, platform=wanted)
        assert refused.value.hint
    require_own_player(directory, DockerBackend(), platform=None)
    for same in ("linux/amd64/v2", "linux/x86_64"):
        require_own_player(program, DockerBackend(), platform=same)


def test_a_program_for_another_processor_is_not_started_here(here: Path) -> None:
    here_it_is = {"x86_64": 62, "aarch64": 183}.get(platform.machine(), 62)
    foreign = read_own_player(str(made(here / "foreign", elf(183 if here_it_is == 62 else 62), 0o755)))
    with pytest.raises(UsageError, match="it would run on linux/a") as refused:
        require_own_player(foreign, ProcessBackend(), platform=None)
    assert refused.value.code == "player_other_platform"


def test_missing_client_package_is_named(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    player = read_own_player(str(made(here / "bot.py", ACT)))
    require_own_player(player, ProcessBackend(), platform=None)
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "coworld_client" else find(name))
    with pytest.raises(UsageError, match="coworld_client is not installed") as refused:
        require_own_player(player, ProcessBackend(), platform=None)
    assert 'pip install "coworld-client[seat]"' in str(refused.value.hint)


def test_player_image_is_reported_on_image_backends(nim: Package, here: Path) -> None:
    made(here / "bot.py", ACT)
    made(here / "made/Dockerfile", "FROM a\n")
    players = [read_own_player("bot.py"), read_own_player("made"), None]
    assert describe_environment(players, nim, ProcessBackend()) == ()
    first, second = describe_environment(players, nim, DockerBackend())
    assert first == "bot.py runs in {{NIM_IMAGE}}, the package's own player image."
    assert second.startswith("made is built into an image of its own, coworld-player/made:")


def test_digest_covers_the_contents(here: Path) -> None:
    first = read_own_player(str(made(here / "a.py", ACT)))
    same = read_own_player(str(made(here / "b.py", ACT)))
    other = read_own_player(str(made(here / "a.py", ACT + "\n")))
    assert first.digest == same.digest
    assert first.digest != other.digest
    # What was read is what plays
    (here / "out").mkdir()
    first.put(here / "out")
    assert (here / "out" / "a.py").read_text() == ACT
