"""`run-episode` and `scrimmage` for real: results, faults, batches, secrets, output directories."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.cli_kit import QUICK, coworld
from support.wheels import write_wheel

from coworld_core.episode.events import read_events
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.record import read_record, read_rows, read_summary
from coworld_core.episode.request import build_request
from coworld_core.manifest.manifest_file import load_manifest

World = Callable[..., Path]
PAINT = Path(__file__).parents[2] / "examples" / "paintarena"


@pytest.mark.slow
def test_an_episode_of_the_sample_world(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = coworld("run-episode", PAINT, "--variant", "quick", "--backend", "process", "-o", out)
    assert done.status == 0, done.stderr
    record = read_record(out)
    scores = ", ".join(f"{slot}={score:g}" for slot, score in enumerate(record.scores))
    assert f"Scores:     {scores}\n" in done.stdout
    assert f"Artifacts:  {out}\n" in done.stdout
    assert f"Replay:     {out}/replay\n" in done.stdout
    assert f"Watch it:  coworld replay {PAINT} {out}/replay --backend process\n" in done.stdout
    assert "sweep-painter" in done.stdout
    assert done.stderr.startswith("Backend: process (as asked)\n")
    assert "game ready after" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_the_default_directory_is_fresh_and_latest_points_at_it(world: World) -> None:
    directory = world()
    first, second = (coworld("run-episode", directory, "--json", "--quiet").json for _ in range(2))
    assert first["workspace"] != second["workspace"]
    results = directory / "results"
    assert Path(first["workspace"]).parent == results
    assert re.fullmatch(r"\d{8}-\d{6}-" + first["run_id"][:6], Path(first["workspace"]).name)
    assert (results / "latest").resolve() == Path(second["workspace"])
    failed = coworld("run-episode", directory, "nobody.py", "--json", "--quiet")
    assert failed.status != 0
    assert (results / "latest").resolve() == Path(second["workspace"])


def test_a_player_that_is_not_there_is_one_error_in_text_and_json(tmp_path: Path) -> None:
    asked = ("run-episode", PAINT, "frontier-paintr", "--backend", "docker", "-o", tmp_path / "out")
    done, told = coworld(*asked), coworld(*asked, "--json").json["error"]
    assert done.status == 2
    assert done.stderr == f"error: {told['message']}\n  hint: Did you mean the player 'frontier-painter'?\n"
    assert (told["code"], told["context"]["player"]) == ("unknown_player", "frontier-paintr")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "content", "code", "message", "hint"),
    [
        (
            "bot.py",
            b"\ndef act(observation, legal, rng)\n    return legal[0]\n",
            "player_syntax",
            "bot.py:2: expected ':': def act(observation, legal, rng)",
            "Correct line 2, which Python ",
        ),
        (
            "bot",
            b"\x7fELF\x02\x01\x01".ljust(18, b"\0") + b"\x16\0".ljust(46, b"\0"),  # An IBM mainframe's
            "player_other_platform",
            "bot is a program for linux/s390x, and it would run on linux/",
            "Build it for linux/",
        ),
    ],
    ids=["syntax", "machine"],
)
def test_unrunnable_player_is_refused_before_anything_starts(
    name: str, content: bytes, code: str, message: str, hint: str, world: World, tmp_path: Path
) -> None:
    bot = tmp_path / name
    bot.write_bytes(content)
    bot.chmod(0o755)
    asked = ("run-episode", world(), "--player", f"{bot}@2", "-o", tmp_path / "out")
    done, told = coworld(*asked, "--quiet"), coworld(*asked, "--json").json["error"]
    assert done.status == 2
    assert done.stderr == f"error: {told['message']}\n  hint: {told['hint']}\n"
    assert (told["code"], told["context"]["path"]) == (code, str(bot))
    assert f"{tmp_path}/{message}" in told["message"]
    assert hint in told["hint"]
    assert "nothing was started" in told["hint"]
    assert not (tmp_path / "out").exists()


def test_json_is_the_record_and_where_it_is(world: World, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = coworld("run-episode", world(seed=5), "-o", out, "--json", "--quiet")
    assert done.status == 0
    assert done.stderr == ""
    answer = done.json
    record = json.loads(EpisodeLayout(out).record.read_text())
    assert {name: answer[name] for name in record} == record
    assert answer["ok"] is True
    assert answer["workspace"] == str(out)
    assert answer["scores"] == [5, 6]
    assert answer["paths"] == {
        "results": str(out / "results.json"),
        "replay": str(out / "replay"),
        "logs": str(out / "logs"),
        "record": str(out / "episode.json"),
    }
    assert done.stdout.startswith('{\n  "workspace": ')
    assert done.stdout.endswith("}\n")


def test_directories_whose_names_are_not_utf8(world: World, tmp_path: Path) -> None:
    place = tmp_path / os.fsdecode(b"caf\xe9")
    shutil.copytree(world(), place / "game")
    done = coworld("run-episode", place / "game", "--backend", "process", "-o", place / "out")
    assert done.status == 0, done.stderr
    assert "warning" not in done.stderr
    record = read_record(place / "out")
    assert record.manifest.startswith(f"{tmp_path}/caf\ufffd/game/")
    assert read_events(place / "out")
    for label in ("Artifacts", "Results", "Record"):
        word = re.search(rf"{label}: +(.+)", done.stdout)
        assert word is not None
        subprocess.run(["bash", "-c", f"test -e {word[1]}"], check=True)
    told = coworld("run-episode", place / "game", "--backend", "process", "-o", place / "again", "--json").json
    assert told["workspace"] == f"{tmp_path}/caf\ufffd/again"


def test_only_existing_paths_are_printed(world: World, tmp_path: Path) -> None:
    done = coworld("run-episode", world("no-replay"), "-o", tmp_path / "out")
    assert done.status == 0
    assert "Replay" not in done.stdout
    assert "coworld_cli replay" not in done.stdout
    assert "warning: The game wrote no replay." in done.stdout


@pytest.mark.parametrize(
    ("game", "player", "who", "error_type", "said"),
    [
        ("well", "exits-3", "player 1", "player_error", "Player 1 (Right) exited with status 3."),
        ("exits-5", "well", "game", "game_unhealthy", "The game exited with status 5."),
        ("nan-results", "well", "game", "results_malformed", "NaN"),
    ],
)
def test_fault_names_the_responsible_party(
    game: str, player: str, who: str, error_type: str, said: str, world: World, tmp_path: Path
) -> None:
    directory = world(game, "well", player)
    done = coworld("run-episode", directory, "-o", tmp_path / "out", "--quiet")
    assert done.status == 1
    assert done.stderr == ""
    assert f"fault: {who} · {error_type}\n" in done.stdout
    assert said in done.stdout


def test_a_fault_as_json(world: World, tmp_path: Path) -> None:
    done = coworld("run-episode", world("exits-5"), "-o", tmp_path / "out", "--quiet", "--json")
    assert done.status == 1
    assert done.json["ok"] is False
    assert done.json["faults"][0]["error_type"] == "game_unhealthy"


def test_the_log_of_the_culprit_is_shown(world: World, tmp_path: Path) -> None:
    done = coworld("run-episode", world("exits-5"), "-o", tmp_path / "out")
    assert f"  the end of {tmp_path}/out/logs/game.stderr.log:\n" in done.stdout
    assert "    │ something is very wrong\n" in done.stdout
    assert "fault: game: The game exited with status 5. [game_unhealthy]" in done.stderr


def test_on_player_failure_continue(world: World, tmp_path: Path) -> None:
    directory = world("well", "well", "exits-3-midway")
    done = coworld("run-episode", directory, "-o", tmp_path / "out", "--on-player-failure", "continue", "--json")
    assert done.status == 1
    assert done.json["status"] == "completed"
    assert done.json["faults"][0]["slot"] == 1


# --- who plays ------------------------------------------------------------------------------------------------------


def test_bundled_players_by_id_variant_and_seed(world: World, tmp_path: Path) -> None:
    directory = world("well", "well", "artifact 100")
    done = coworld(
        "run-episode",
        directory,
        "artifact-1",
        "well-0",
        *["--variant", "default", "--seed", "40", "--json", "--quiet", "-o"],
        tmp_path / "out",
    )
    assert done.status == 0, done.stdout
    assert [slot["player_id"] for slot in done.json["slots"]] == ["artifact-1", "well-0"]
    assert done.json["variant"] == "default"
    assert done.json["seed"] == 40
    assert done.json["scores"] == [40, 41]
    assert (tmp_path / "out" / "policy_artifact_0.zip").is_file()


def test_a_player_with_a_command_of_its_own(world: World, tmp_path: Path) -> None:
    done = coworld(
        "run-episode",
        world("well"),
        "coworld-misfits:latest",
        *["--run", "python3", "--run", "player.py", "--run", "exits-3"],
        "-o",
        tmp_path / "out",
        "--json",
        "--backend",
        "process",
    )
    assert done.status == 1, done.stdout
    assert done.json["slots"][0]["run"] == ["python3", "player.py", "exits-3"]
    assert done.json["faults"][0]["error_type"] == "player_error"


@pytest.mark.slow
def test_install_gives_a_player_what_its_requirements_name(world: World, tmp_path: Path) -> None:
    bot = tmp_path / "bot"
    write_wheel(bot, "wordlist", "1")
    (bot / "requirements.txt").write_text("--no-index\n--find-links .\nwordlist\n")
    program = f'import runpy, wordlist\n\nrunpy.run_path("{QUICK / "player.py"}", run_name="__main__")\n'
    (bot / "main.py").write_text(program)
    asked = ("run-episode", world(), "--player", bot, "--json", "--backend")
    env = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    without = coworld(*asked, "process", "-o", tmp_path / "without", env=env)
    assert "has no wordlist: install it there, add --install for" in without.json["faults"][0]["hint"]
    done = coworld(*asked, "process", "--install", "-o", tmp_path / "with", env=env)
    assert done.status == 0, done.stdout
    refused = coworld(*asked, "docker", "--install", "-o", tmp_path / "refused")
    assert (refused.status, "--install is for local processes" in refused.stdout) == (2, True)


def test_scrimmage_seats_one_player_everywhere(world: World, tmp_path: Path) -> None:
    done = coworld("scrimmage", world("well", "well", "artifact 100"), "artifact-1", "-o", tmp_path / "out", "--json")
    assert done.status == 0, done.stdout
    assert [slot["player_id"] for slot in done.json["slots"]] == ["artifact-1"] * 2


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["--variant", "nope"], "unknown_variant", "default"),
        (["a:1", "b:1", "c:1"], "wrong_image_count", "got 3"),
        (["--run", "python3"], "run_without_image", "no image"),
    ],
)
def test_unplayable_request_is_a_usage_error(
    args: list[str], code: str, said: str, world: World, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = coworld("run-episode", world(), *args, "-o", out, "--json", "--quiet")
    assert done.status == 2
    assert done.json["error"]["code"] == code
    assert said in done.json["error"]["message"]
    assert not out.exists()


def request_file(directory: Path, target: Path, **changes: object) -> Path:
    """An episode request for a world."""
    manifest = load_manifest(directory, template=True).manifest
    request = build_request(manifest, "default", episode_tags={"round": "7"})
    body = request.model_dump(mode="json", by_alias=True, exclude_none=True)
    # Placeholders are for templates; a request is for what is built
    text = json.dumps({**body, **changes}).replace("{{MISFITS_IMAGE}}", "coworld-misfits")
    target.write_text(text)
    return target


@pytest.fixture
def built(world: World) -> Path:
    """A world whose images have names, so that an episode request can be written for it."""
    directory = world()
    template = directory / "coworld_manifest_template.json"
    manifest = json.loads(template.read_text().replace("{{MISFITS_IMAGE}}", "coworld-misfits"))
    manifest["game"]["version"] = "1.0.0"
    (directory / "coworld_manifest.json").write_text(json.dumps(manifest))
    template.unlink()
    return directory


def test_an_episode_request(built: Path, tmp_path: Path) -> None:
    request = request_file(built, tmp_path / "request.json")
    done = coworld("run-episode", built, request, "-o", tmp_path / "out", "--json", "--backend", "process")
    assert done.status == 0, done.stdout
    assert done.json["variant"] == "episode-request"
    assert done.json["episode_tags"] == {"round": "7"}


def test_an_episode_request_excludes_the_rest(built: Path, tmp_path: Path) -> None:
    request = request_file(built, tmp_path / "request.json")
    for more in (["some-image"], ["--variant", "default"], ["--run", "python3"]):
        done = coworld("run-episode", built, request, *more, "-o", tmp_path / "out", "--json")
        assert done.status == 2, more
        assert done.json["error"]["code"] == "request_excludes_options"


def test_missing_request_file_is_not_taken_for_an_image(built: Path, tmp_path: Path) -> None:
    done = coworld("run-episode", built, tmp_path / "nowhere.json", "-o", tmp_path / "out")
    assert done.status == 2
    assert "nowhere.json" in done.stderr


def test_a_request_with_errors_lists_them(built: Path, tmp_path: Path) -> None:
    request = request_file(built, tmp_path / "request.json", game_config={"players": [], "odd": 1})
    done = coworld("run-episode", built, request, "-o", tmp_path / "out")
    assert done.status == 1
    assert re.search(r"request\.json:\d+:\d+: error\[\w+\] ", done.stderr)


# --- several --------------------------------------------------------------------------------------------------------


def test_several_episodes(world: World, tmp_path: Path) -> None:
    out = tmp_path / "out"
    directory = world(seed=10)
    done = coworld("run-episode", directory, "-n", "3", "--parallel", "2", "-o", out)
    assert done.status == 0, done.stderr
    assert "3 of 3 episodes completed" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines() if re.match(r" +(\d|mean)", line)]
    assert [row[:4] for row in rows[:3]] == [["1", "10", "10", "11"], ["2", "11", "11", "12"], ["3", "12", "12", "13"]]
    assert rows[3] == ["mean", "11", "12"]
    assert [line.split() for line in done.stdout.splitlines() if " Well-behaved " in line] == [
        # Two players of one name are two all the same
        ["Well-behaved", "well-0", "0", "3", "11"],
        ["Well-behaved", "well-1", "1", "3", "12"],
    ]
    assert f"Summary:    {out}/summary.json" in done.stdout
    assert {path.name for path in out.glob("episode-*")} == {"episode-0001", "episode-0002", "episode-0003"}
    assert len(re.findall(r"episode \d ok: ", done.stderr)) == 3


def test_one_failed_episode_loses_no_other(world: World, tmp_path: Path) -> None:
    # The seed's maximum is 1000, so the third config cannot be played
    done = coworld("run-episode", world(seed=999), "-n", "3", "-o", tmp_path / "out", "--json", "--quiet")
    assert done.status == 1
    summary = done.json
    assert [row["status"] for row in summary["episodes"]] == ["completed", "completed", "failed"]
    assert summary["mean_scores"] == [999.5, 1000.5]
    assert summary["ok"] is False
    written = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert {name: summary[name] for name in written} == written
    read_summary(written)


@pytest.mark.slow
def test_several_episodes_go_on_where_they_were_cut_short(world: World, tmp_path: Path) -> None:
    out, manifest = tmp_path / "out", world(seed=10)
    assert coworld("run-episode", manifest, "-n", "2", "-o", out).status == 0
    # In the file as they ended, in the answer as they are numbered
    before = [row.run_id for row in sorted(read_rows(out), key=lambda row: row.key)]
    done = coworld("run-episode", manifest, "-n", "3", "-o", out, "--resume", "--json")
    assert done.status == 0, done.stderr
    assert [row["run_id"] for row in done.json["episodes"]][:2] == before
    assert [row["seed"] for row in done.json["episodes"]] == [10, 11, 12]
    assert len(re.findall(r"episode \d ok: ", done.stderr)) == 1
    # With other episodes it is not the same run
    done = coworld("run-episode", manifest, "--seed", "20", "-n", "3", "-o", out, "--resume")
    assert done.status == 2
    assert "another seed" in done.stderr
    for wrong in (["-n", "3"], ["-o", str(out)], ["-n", "3", "-o", str(out), "--overwrite"]):
        done = coworld("run-episode", manifest, "--resume", *wrong)
        assert done.status == 2
        assert "Repeat the interrupted command" in done.stderr


# --- the replay -----------------------------------------------------------------------------------------------------


def test_verified_replays(world: World, tmp_path: Path) -> None:
    done = coworld("run-episode", world(), "--verify-replay", "-o", tmp_path / "out", "--json")
    assert done.status == 0, done.stdout
    assert done.json["faults"] == []
    assert "Verifying the replay …" in done.stderr


def test_a_missing_replay_is_a_fault_when_it_is_to_be_verified(world: World, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = coworld("run-episode", world("no-replay"), "--verify-replay", "-o", out, "--json", "--quiet")
    assert done.status == 1
    assert [fault["error_type"] for fault in done.json["faults"]] == ["replay_missing"]
    assert done.json["paths"]["replay"] is None
    assert json.loads((out / "episode.json").read_text())["faults"] == done.json["faults"]


def test_replays_of_several_episodes_are_verified(world: World, tmp_path: Path) -> None:
    done = coworld("run-episode", world("no-replay"), "-n", "2", "--verify-replay", "-o", tmp_path / "out", "--json")
    assert done.status == 1
    assert [row["error_type"] for row in done.json["episodes"]] == ["replay_missing"] * 2
    assert done.json["faulted"] == 2


# --- where it goes --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_directory_in_use_is_refused_and_untouched(world: World, tmp_path: Path) -> None:
    out = tmp_path / "out"
    directory = world()
    assert coworld("run-episode", directory, "-o", out).status == 0
    before = (out / "episode.json").read_bytes()
    refused = coworld("run-episode", directory, "-o", out, "--json", "--quiet")
    assert refused.status == 2
    assert refused.json["error"]["code"] == "workspace_not_empty"
    assert "--overwrite" in refused.json["error"]["hint"]
    assert (out / "episode.json").read_bytes() == before
    assert coworld("run-episode", directory, "-o", out, "--overwrite").status == 0
    assert (out / "episode.json").read_bytes() != before


def test_an_output_directory_that_is_a_file(world: World, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    done = coworld("run-episode", world(), "-o", tmp_path / "file")
    assert done.status == 2
    assert "is a file" in done.stderr
    assert (tmp_path / "file").read_text() == "mine"


# --- secrets --------------------------------------------------------------------------------------------------------

SECRET = "s3cret-value-that-nobody-may-see"


def test_secrets_reach_players_and_nothing_else(world: World, tmp_path: Path) -> None:
    out = tmp_path / "out"
    file = tmp_path / "secrets.env"
    file.write_text(f"# keys\nFROM_FILE='{SECRET}2'\n")
    done = coworld(
        "run-episode",
        world("well", "tells", "well"),
        "--secret-env",
        "FROM_ENV",
        "--secret-env-file",
        file,
        "-o",
        out,
        env={"FROM_ENV": SECRET},
    )
    assert done.status == 0, done.stderr
    assert SECRET not in done.stdout + done.stderr
    said = EpisodeLayout(out).player_log(0).read_text()
    assert f"\nFROM_ENV={SECRET}\n" in said
    assert f"\nFROM_FILE={SECRET}2\n" in said
    others = [path for path in out.rglob("*") if path.is_file() and path != EpisodeLayout(out).player_log(0)]
    assert others
    assert not [path for path in others if SECRET.encode() in path.read_bytes()]
    record = json.loads((out / "episode.json").read_text())
    assert record["slots"][0]["secret_env"] == ["FROM_ENV", "FROM_FILE"]


def test_a_secret_on_the_command_line_works_with_a_warning(world: World, tmp_path: Path) -> None:
    done = coworld(
        "run-episode", world("well", "tells", "well"), "--secret-env", f"KEY={SECRET}", "-o", tmp_path / "out"
    )
    assert done.status == 0
    assert "warning: the value of KEY stood on the command line" in done.stderr
    assert SECRET not in done.stdout + done.stderr
    assert SECRET in EpisodeLayout(tmp_path / "out").player_log(0).read_text()


@pytest.mark.parametrize(
    ("item", "code"),
    [
        ("NOT_SET", "secret_not_set"),
        ("COWORLD_PLAYER_WS_URL=x", "reserved_env_name"),
        (f"={SECRET}", "bad_secret_name"),
    ],
)
def test_invalid_secret_options_are_refused(item: str, code: str, world: World, tmp_path: Path) -> None:
    done = coworld("run-episode", world(), "--secret-env", item, "-o", tmp_path / "out", "--json", "--quiet")
    assert done.status == 2
    assert done.json["error"]["code"] == code
    assert SECRET not in done.stdout


def test_bedrock_hands_over_what_the_aws_command_says(world: World, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    aws = tools / "aws"
    aws.write_text(
        "#!/bin/sh\n"
        'echo "$@" >> "$0.calls"\n'
        f"""echo '{{"AccessKeyId": "AK", "SecretAccessKey": "{SECRET}", "SessionToken": "T"}}'\n"""
    )
    aws.chmod(0o755)
    done = coworld(
        "run-episode",
        world("well", "tells", "well"),
        *["--use-bedrock", "--aws-profile", "dev", "--aws-region", "eu-west-1"],
        "-o",
        tmp_path / "out",
        env={"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"},
    )
    assert done.status == 0, done.stderr
    assert (tools / "aws.calls").read_text() == "configure export-credentials --format process --profile dev\n"
    said = EpisodeLayout(tmp_path / "out").player_log(0).read_text()
    for name, text in {"USE_BEDROCK": "true", "AWS_SESSION_TOKEN": "T", "AWS_REGION": "eu-west-1"}.items():
        assert f"\n{name}={text}\n" in said
    assert SECRET not in done.stdout + done.stderr


def test_bedrock_without_the_aws_command(world: World, tmp_path: Path) -> None:
    done = coworld(
        "run-episode",
        world(),
        "--use-bedrock",
        "-o",
        tmp_path / "out",
        "--json",
        "--quiet",
        env={"PATH": str(Path(sys.executable).parent)},
    )
    assert done.status == 3
    assert done.json["error"]["code"] == "aws_missing"


# --- where it runs --------------------------------------------------------------------------------------------------

NO_ENGINE = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}


def test_no_engine_is_the_environment_s_fault(world: World, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = coworld("run-episode", world(), "--backend", "docker", "-o", out, env=NO_ENGINE)
    assert done.status == 3
    assert done.stderr.startswith("error: ")
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr
    assert not out.exists()


def test_without_an_engine_auto_takes_processes_and_says_why(world: World, tmp_path: Path) -> None:
    done = coworld("run-episode", world(), "-o", tmp_path / "out", env=NO_ENGINE)
    assert done.status == 0, done.stderr
    assert re.match(r"Backend: process \(.+\)\n", done.stderr)


@pytest.mark.parametrize(
    "args", [["--require", "isolation"], ["--player-network", "game-only"], ["--player-cpus", "1"]]
)
def test_limits_that_processes_cannot_enforce_are_refused(args: list[str], world: World, tmp_path: Path) -> None:
    done = coworld("run-episode", world(), *args, "--backend", "process", "-o", tmp_path / "out", "--json", "--quiet")
    assert done.status == 2
    assert done.json["error"]["code"] == "capability_missing"


def test_the_backend_from_the_environment(world: World, tmp_path: Path) -> None:
    done = coworld("run-episode", world(), "-o", tmp_path / "out", env={"COWORLD_BACKEND": "process"})
    assert done.stderr.startswith("Backend: process (as asked)\n")


@pytest.mark.parametrize("path", ["nowhere", "nowhere/coworld_manifest.json"])
def test_a_path_that_is_wrong_is_usage(path: str, tmp_path: Path) -> None:
    done = coworld("run-episode", path, cwd=tmp_path)
    assert done.status == 2
    assert "nowhere" in done.stderr


def test_a_manifest_with_errors_lists_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "coworld_manifest.json").write_text('{\n  "gmae": {},\n  "player": [],\n  "variants": []\n}\n')
    done = coworld("run-episode", tmp_path)
    assert done.status == 1
    assert "coworld_manifest.json:2:3: error[misspelt_field]" in done.stderr
    assert done.stderr.count(": error[") >= 3
    assert re.search(r"^\d+ errors$", done.stderr, re.MULTILINE)
    answer = coworld("run-episode", tmp_path, "--json").json
    assert answer["error"]["code"] == "manifest_invalid"
    assert len(answer["error"]["report"]["issues"]) >= 3


def test_at_most_three_manifest_warnings_are_printed(world: World, tmp_path: Path) -> None:
    directory = world()
    template = directory / "coworld_manifest_template.json"
    manifest = json.loads(template.read_text())
    for section in ("reporter", "grader"):
        manifest[f"{section}_extra"] = 1
    manifest["game"]["extra"] = manifest["game"]["extra_too"] = 1
    template.write_text(json.dumps(manifest))
    done = coworld("run-episode", directory, "-o", tmp_path / "out")
    assert done.status == 0, done.stderr
    assert done.stderr.count(": warning[") == 3
    assert "… and 1 more: " in done.stderr


def test_a_hook_that_never_ends_does_not_keep_the_command(tmp_path: Path) -> None:
    hooks = tmp_path / "hooks.py"
    hooks.write_text("def spins(plan):\n    while True:\n        pass\n")
    words = ("run", QUICK, "--hook", hooks, "--hook-timeout-seconds", "0.2", "-o", tmp_path / "out", "--json")
    done = coworld(*words, "--backend", "process")
    assert (done.status, done.json["error"]["code"]) == (2, "hook_timeout")
    assert "hooks.py:spins has not ended within 0.2 s" in done.json["error"]["message"]
    assert "--hook-timeout-seconds" in done.json["error"]["hint"]
    assert not (tmp_path / "out").exists()
