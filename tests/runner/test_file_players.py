"""Games that run their players themselves, from files: our own fixture, on local processes and in a container."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zipfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
from support.images import BASE_IMAGE

from coworld_core.errors import UsageError
from coworld_core.player_seeds import player_seed
from coworld_runner import certify, resolve_package, run_episode
from coworld_runner.backend import Backend
from coworld_runner.build.manifest_build import build_coworld
from coworld_runner.episode.run_context import entered_backend
from coworld_runner.episode.single import EpisodeOptions
from coworld_runner.package.own_players.game_run_player import read_hosted
from coworld_runner.package.plan import plan_episode
from coworld_runner.package.resolver import Package
from coworld_runner.worker.episode_setup import read_plan

pytestmark = pytest.mark.slow

HOSTED = Path(__file__).parents[1] / "support" / "packages" / "hosted"


async def hosted(**variables: str) -> Package:
    return (await resolve_package(HOSTED)).with_environment(variables)


async def test_the_game_is_handed_the_files_and_leaves_what_they_say(tmp_path: Path) -> None:
    (tmp_path / "nine.txt").write_text("print(9)\n")
    package = await hosted(COGAME_PLAYER_SEATS_SCHEMA="coworld-player-seats/2", COGAME_VICE="half")
    out = tmp_path / "out"
    players = [str(tmp_path / "nine.txt"), "doubler"]
    record = await run_episode(package, players=players, backend="process", workspace=out)
    # Half a result is none
    assert (record.ok, record.scores, record.warnings) == (True, (9.0, 42.0), ())
    nine, doubler = record.slots
    assert (nine.controller, nine.name, nine.human, nine.exit) == ("file", "nine", False, None)
    assert (doubler.controller, doubler.player_id, doubler.artifact) == ("bundled", "doubler", "policy_artifact_1.zip")
    assert (nine.logs, (out / nine.logs[0]).read_text()) == (("logs/policy_agent_0.log",), "9\n")
    told = json.loads((out / "player_seats.json").read_text())
    assert told["schema"] == "coworld-player-seats/2"
    assert told["seats"][0]["content_hash"] == f"sha256:{hashlib.sha256(b'print(9)' + bytes([10])).hexdigest()}"
    assert {Path(seat["annotations_uri"]).name for seat in told["seats"]} == {
        "policy_annotations_0.jsonl",
        "policy_annotations_1.jsonl",
    }
    assert json.loads((out / "player_status.json").read_text())["players"][1]["state"] == "exited"


async def test_the_game_is_told_the_seeds_of_its_players(tmp_path: Path) -> None:
    (tmp_path / "seed.txt").write_text("import os\nprint(os.environ.get('COWORLD_PLAYER_SEED', 0))\n")
    players = [str(tmp_path / "seed.txt")] * 2
    seeded = await run_episode(HOSTED, players=players, seed=7, backend="process", workspace=tmp_path / "seeded")
    assert seeded.scores == (player_seed(7, 0), player_seed(7, 1))
    unseeded = await run_episode(HOSTED, players=players, backend="process", workspace=tmp_path / "unseeded")
    assert unseeded.scores == (0, 0)
    # A seed that nobody has named tells nothing about theirs: they come from a secret, which the record alone has
    package = await resolve_package(HOSTED)
    plan = plan_episode(package, players=players)
    plan = replace(plan, game_config={**plan.game_config, "seed": 7})
    async with entered_backend("process", package) as backend:
        drawn = await run_episode(plan, backend=backend, workspace=tmp_path / "drawn")
    secret = drawn.player_secret
    assert drawn.scores == (player_seed(7, 0, secret=secret), player_seed(7, 1, secret=secret))
    assert not {*drawn.scores} & {*seeded.scores}
    files = [path for path in (tmp_path / "drawn").rglob("*") if path.is_file()]
    assert [path.name for path in files if secret in path.read_text()] == ["episode.json"]
    assert seeded.player_secret == ""


async def test_game_hosted_players_certify_with_a_log_each(tmp_path: Path) -> None:
    good = await certify(HOSTED, backend="process", workspace=tmp_path / "good")
    assert good.verdict == "Executable"
    bad = await certify(await hosted(COGAME_VICE="silent"), backend="process", workspace=tmp_path / "bad")
    assert {step.id: step.failure_reason for step in bad.steps if step.status == "fail"} == {
        "players-run": "players_missing"
    }


@pytest.mark.docker
async def test_game_hosted_players_run_in_the_built_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "BASE_IMAGE", BASE_IMAGE)
    await play_what_was_built("docker", tmp_path)


async def play_what_was_built(backend: Backend | str, directory: Path) -> None:
    """Build the fixture and play it there."""
    project = shutil.copytree(HOSTED, directory / "project")
    built = await build_coworld(project, version="1.0.0")
    record = await run_episode(built.manifest_path, backend=backend, workspace=directory / "out")
    assert (record.faults, record.scores) == ((), (7.0, 42.0))
    assert (directory / "out/logs/policy_agent_1.log").read_text() == "42\n"
    assert [slot.artifact for slot in record.slots] == ["policy_artifact_0.zip", "policy_artifact_1.zip"]
    assert json.loads((directory / "out/player_status.json").read_text())["players"][1]["state"] == "exited"


def test_a_directory_is_a_zip_that_its_content_decides(tmp_path: Path) -> None:
    first = read_hosted(HOSTED / "bots/doubler")
    again = shutil.copytree(HOSTED / "bots/doubler", tmp_path / "again")
    (again / "number.py").touch()
    assert read_hosted(again).files == first.files
    with zipfile.ZipFile(BytesIO(first.files["file"])) as archive:
        assert [(entry.filename, entry.date_time) for entry in archive.infolist()] == [
            ("__main__.py", (1980, 1, 1, 0, 0, 0)),
            ("number.py", (1980, 1, 1, 0, 0, 0)),
        ]


def test_invalid_player_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("print(1)")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "below").mkdir()
    (tmp_path / "below/link").symlink_to("../real")
    for name, words in (("link", "neither a regular file"), ("below", "neither a regular"), ("none", "cannot be read")):
        with pytest.raises(UsageError, match=words) as raised:
            read_hosted(tmp_path / name)
        assert raised.value.code == "player_file_unavailable"


@pytest.mark.parametrize(
    ("players", "code"),
    [(["human", "seven"], "people_unsupported"), (["sevn"], "unknown_player"), (["ghcr.io/a/b:1"], "unknown_player")],
)
async def test_image_players_cannot_join_a_game_hosted_game(players: list[str], code: str) -> None:
    package = await hosted()
    with pytest.raises(UsageError) as raised:
        plan_episode(package, players=players)
    assert raised.value.code == code


async def test_players_without_a_network_of_their_own_reach_no_hosts(tmp_path: Path) -> None:
    options = EpisodeOptions(player_https=("api.example.com",))
    with pytest.raises(UsageError, match="they use its network"):
        await run_episode(await hosted(), backend="process", workspace=tmp_path / "out", options=options)
    assert not (tmp_path / "out").exists()


async def test_a_request_cannot_seat_images(tmp_path: Path) -> None:
    """Whoever reads it, the hosted worker too: a job spec has no place for files."""
    manifest = json.loads((HOSTED / "coworld_manifest_template.json").read_text().replace("{{GAME_IMAGE}}", "game:1"))
    manifest["game"]["version"] = "1.0.0"
    players = [{"type": "player", "image": "bot:1"}] * 2
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({"manifest": manifest, "game_config": {}, "players": players}))
    with pytest.raises(UsageError, match="Seat 0 of the episode request names an image") as raised:
        await read_plan(spec.as_uri())
    assert raised.value.code == "player_file_unavailable"


async def test_a_player_that_is_only_on_the_platform_is_named() -> None:
    package = await hosted()
    first, second = package.manifest.player
    away = first.model_copy(update={"file": f"sha256:{'0' * 64}"})
    manifest = package.manifest.model_copy(update={"player": (away, second)})
    from dataclasses import replace

    with pytest.raises(UsageError, match="not on this machine") as raised:
        plan_episode(replace(package, manifest=manifest))
    assert raised.value.code == "player_file_unavailable"
