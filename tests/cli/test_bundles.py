"""`coworld bundle`: of an episode of this machine, of a platform, and of another bundle."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import Result
from support.cli_kit import coworld, write_world
from support.fake_platform import FakePlatform, uid
from support.fake_server import Say, json_say

from coworld_cli import exitcodes
from coworld_cli.options.platform import include_option
from coworld_core.api import BUNDLE_PARTS
from coworld_core.roles.bundle import BundleItem, plan_bundle
from coworld_core.roles.bundle_file import Pieces, pack_bundle, read_bundle

Run = Callable[..., Result]
EREQ = f"ereq_{uid(1)}"


def bundled(*items: BundleItem[Pieces]) -> bytes:
    return b"".join(pack_bundle(plan_bundle(EREQ, items, status="failed")))


def item(part: str, key: str | None = None) -> BundleItem[Pieces]:
    return BundleItem(part=part, key=key, source=lambda: [b"content"])


WHOLE = bundled(item("replay"), item("player_logs", "0"), item("player_logs", "1"))


def test_an_episode_of_this_machine(tmp_path: Path) -> None:
    world = write_world(tmp_path / "world")
    played = coworld("run-episode", world, "-o", tmp_path / "out", "--json").json
    target = tmp_path / "ep.zip"
    done = coworld("bundle", tmp_path / "out", "-o", target)
    assert done.status == exitcodes.OK, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == [
        "results.json",
        "replay",
        "logs/game.log",
        "logs/policy_agent_0.log",
        "logs/policy_agent_1.log",
        "metadata.json",
    ]
    assert lines[-1].endswith(": an episode that counts.")
    told = coworld("bundle", tmp_path / "out", "--include", "replay", "-o", tmp_path / "r.zip", "--json").json
    size = (tmp_path / "out" / "replay").stat().st_size
    assert told == {
        "path": str(tmp_path / "r.zip"),
        "size": (tmp_path / "r.zip").stat().st_size,
        "episode_id": played["run_id"],
        "status": "success",
        "include": ["replay"],
        "files": [{"part": "replay", "key": None, "entry": "replay", "size": size}],
    }
    alone = coworld("replay", target)
    assert alone.status == exitcodes.USAGE
    assert f"coworld replay MANIFEST {target}" in alone.stderr


def test_a_file_that_exists_is_kept(run: Run, tmp_path: Path) -> None:
    (tmp_path / "b.zip").write_bytes(WHOLE)
    named = run("bundle", "b.zip", "--slot", "1", "--include", "player_logs")
    assert named.exit_code == exitcodes.OK, named.stderr
    assert named.stdout.splitlines()[-1].endswith(": an episode that failed.")
    assert [file.key for file in read_bundle(tmp_path / f"{EREQ}.zip").files] == ["1"]
    again = run("bundle", "b.zip")
    assert (again.exit_code, "--overwrite" in again.stderr) == (exitcodes.USAGE, True)
    assert run("bundle", "b.zip", "--overwrite", "--include", "error_info").exit_code == exitcodes.OK
    assert read_bundle(tmp_path / f"{EREQ}.zip").files == ()


def test_an_id_is_downloaded(run: Run, told: FakePlatform, tmp_path: Path) -> None:
    told.on("GET", f"/v2/episode-requests/{EREQ}/bundle", Say(200, WHOLE, {"Content-Type": "application/zip"}))
    result = run("bundle", EREQ, "--include", "replay", "--include", "player_logs", "--slot", "0", "--json")
    assert json.loads(result.stdout)["include"] == ["replay", "player_logs"]
    assert told.asked[0].query["include"] == "replay,player_logs"
    assert {file.name for file in read_bundle(tmp_path / f"{EREQ}.zip").files} == {"replay", "logs/policy_agent_0.log"}
    told.on("GET", f"/v2/episode-requests/{EREQ}/bundle", json_say({"detail": "It is not over."}, 409))
    refused = run("bundle", EREQ, "-o", "other.zip")
    assert (refused.exit_code, "It is not over." in refused.stderr) == (exitcodes.REMOTE, True)
    assert not (tmp_path / "other.zip").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("latest",), "There is no run at or below"),
        (("nowhere",), "There is no episode at"),
        (("b.txt",), "is not a bundle"),
        (("b.zip",), "damaged"),
        (("nowhere", "--include", "everything"), "'everything' is not one of"),
    ],
)
def test_what_is_no_episode_is_said(run: Run, tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    (tmp_path / "b.txt").write_text("text")
    (tmp_path / "b.zip").write_bytes(WHOLE[:-30])
    result = run("bundle", *words)
    assert result.exit_code in (exitcodes.USAGE, exitcodes.ANSWER_IS_NO)
    assert says in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith(".")) == ["b.txt", "b.zip"]


def test_the_parts_are_those_of_bundles() -> None:
    command = click.command(include_option(lambda: None))
    assert isinstance(command.params[0].type, click.Choice)
    assert tuple(command.params[0].type.choices) == BUNDLE_PARTS
