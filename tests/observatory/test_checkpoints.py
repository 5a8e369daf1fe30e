"""A training run is uploaded as its newest checkpoint, or one that is named, and the platform plays it."""

from __future__ import annotations

import json
from pathlib import Path

import anyio.to_thread
import pytest
from support.cli_kit import Done, coworld
from support.observatory_kit import Account, Platform, Subject, open_platform, roster, seed
from support.trained_players import EXAMPLES, built_nim, write_run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


async def upload_and_play(platform: Platform, owner: Account, run: Path, world: str) -> None:
    """Upload three checkpoints at the terminal, and have the newest play the first in both orders."""
    home = {
        "SOFTMAX_CONFIG_DIR": str(run.parent / "config"),
        "COWORLD_SERVER": platform.url,
        "COWORLD_TOKEN": owner.token,
    }

    def ask(*words: str, stdin: str | None = None) -> Done:
        done = coworld(*words, env=home, cwd=run.parent, stdin=stdin, timeout=300)
        assert done.status == 0, done.stderr + done.stdout
        return done

    def both() -> None:
        labels = [ask("upload-policy", word, "--json").json["label"] for word in ("./run@step-500", "./run@latest")]
        assert labels == ["run:v1", "run:v2"]
        assert "Uploading the checkpoint run@step-0." in ask("upload-policy", "./run@step-0", "-n", "first").stderr
        for seats in (["run:v2", "first"], ["first", "run:v1"]):
            body = {"coworld_id": world, "roster": roster(*seats)}
            asked = ask("xp-request", "create", "-", "--wait", "--json", stdin=json.dumps(body)).json
            (episode,) = asked["episodes"]
            assert episode["status"] == "completed", episode
            scores = {score["policy_version_id"]: score["score"] for score in episode["scores"]}
            won = {seat["policy_name"]: scores[seat["policy_version_id"]] for seat in episode["participants"]}
            assert won == {"run": 1.0, "first": 0.0}

    await anyio.to_thread.run_sync(both)


async def test_checkpoints_are_uploaded_and_played(tmp_path: Path) -> None:
    nim = Subject(
        EXAMPLES / "nim", "{{NIM_IMAGE}}", "nim", ("python", "-m", "coworld_client.seat", "players/counter.py")
    )
    async with open_platform(tmp_path, packages=[nim.directory], trust_uploads=True) as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id, subject=nim, league=False)
        await upload_and_play(platform, ann, write_run(tmp_path / "run"), world.id)


@pytest.mark.docker
@pytest.mark.wheels
async def test_checkpoints_are_played_in_containers(tmp_path: Path) -> None:
    async with built_nim(tmp_path) as game, open_platform(tmp_path, backend="docker") as platform:
        ann = await platform.account("ann", team=True)
        home = {
            "SOFTMAX_CONFIG_DIR": str(tmp_path / "config"),
            "COWORLD_SERVER": platform.url,
            "COWORLD_TOKEN": ann.token,
        }
        words = ["upload-coworld", str(game), "--skip-certification", "tried elsewhere", "--json"]
        made = await anyio.to_thread.run_sync(lambda: coworld(*words, env=home, timeout=300))
        assert made.status == 0, made.stderr
        await upload_and_play(platform, ann, write_run(tmp_path / "run"), made.json["id"])
