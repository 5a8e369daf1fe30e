"""Secrets that a manifest names are handed to the program that names them, and to nobody and nothing else."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from support.observatory_kit import (
    Account,
    Platform,
    World,
    checked,
    declaring,
    open_platform,
    roster,
    seed,
    until_over,
)

from coworld_core.errors import CoworldError
from observatory.store.models import Coworld, CoworldName
from observatory.work.admission import Admission
from observatory.work.plan import load_job

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

VALUE = b"\x00the game's own\xff"
SEEN = 'echo "seen: $(sha256sum < "${KEY#file://}")"'


TELLS = ["sh", "-c", f"{SEEN}; exec python3 -S -E game.py"]
"""Command of a game that says what it finds in its environment."""


async def change_manifest(
    platform: Platform, world: World, env: dict[str, str], player: dict[str, Any] | None = None
) -> None:
    """Give the game an environment, and have it say what it finds there; the same for its own player."""
    async with platform.services.database.writing() as session:
        row = await session.get_one(Coworld, world.id)
        manifest = json.loads(json.dumps(row.manifest))
        runnable = manifest["game"]["runnable"]
        runnable |= {"env": env, "run": TELLS}
        manifest["player"][0] |= player or {}
        row.manifest = manifest


async def put(platform: Platform, owner: Account, world: World, name: str, value: bytes) -> None:
    async with platform.client(owner) as client:
        answer = await client.put(f"/v2/coworlds/secrets/{world.name}/{name}", content=value)
        assert answer.status_code == 200, answer.text


async def ask(platform: Platform, owner: Account, world: World, *policies: str) -> dict[str, Any]:
    """Ask for one episode; returns it when it is over."""
    async with platform.client(owner) as client:
        body = {"coworld_id": world.id, "roster": roster(*policies), "num_episodes": 1}
        made = await client.post("/v2/experience-requests", json=body)
        assert made.status_code == 200, made.text
        over = await until_over(client, made.json()["id"])
        return over["episodes"][0]


async def test_game_receives_its_secret_as_a_file(tmp_path: Path, database: str | None) -> None:
    # the package leaves it to others which secret that is
    package = declaring(tmp_path, game={"env": {"KEY": "", "PLAIN": "1"}, "run": TELLS})
    async with open_platform(tmp_path, database=database, packages=(package,)) as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id)
        await change_manifest(platform, world, {"KEY": f"secret://coworld/{world.name}/api_key", "PLAIN": "1"})
        await put(platform, ann, world, "api_key", VALUE)
        await platform.policy(ann, "one")
        episode = await ask(platform, ann, world, "one", "one")
        assert episode["status"] == "completed", episode
        row = await platform.episode(episode["id"])
        log = next(item for item in row.artifacts if item.kind == "game_logs")
        assert f"seen: {hashlib.sha256(VALUE).hexdigest()}" in (await platform.services.artifacts.get(log.key)).decode()
        told = json.dumps([row.record, row.game_config, episode]).encode()
        kept = [path.read_bytes() for path in (tmp_path / "observatory" / "artifacts").rglob("*") if path.is_file()]
        assert all(b"the game's own" not in content for content in [told, *kept])


async def test_missing_secret_is_named_before_anything_starts(tmp_path: Path) -> None:
    package = declaring(tmp_path, game={"env": {"KEY": ""}, "run": TELLS})
    async with open_platform(tmp_path, packages=(package,)) as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id)
        await platform.policy(ann, "one")
        await change_manifest(platform, world, {"KEY": f"secret://coworld/{world.name}/absent"})
        episode = await ask(platform, ann, world, "one", "one")
        assert (episode["status"], episode["error_type"]) == ("failed", "crash")
        assert "'absent'" in episode["error"]
        assert "KEY" in episode["error"]
        row = await platform.episode(episode["id"])
        assert (row.artifacts, row.record, row.attempts) == ([], None, 1)


@pytest.mark.parametrize(
    ("reference", "code"),
    [
        ("secret://coworld/other/api_key", "secret_foreign"),
        ("secret://coworld/quick", "bad_secret_reference"),
        ("secret://coworld/quick/api_key/more", "bad_secret_reference"),
        ("secret://policy/quick/api_key", "bad_secret_reference"),
        ("secret://coworld/quick/absent", "secret_missing"),
    ],
)
async def test_invalid_secret_references_are_refused(reference: str, code: str, tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        ann, bob = await platform.account("ann"), await platform.account("bob")
        world = await seed(platform.services, ann.id)
        async with platform.services.database.writing() as session:
            session.add(CoworldName(key="other", name="other", user_id=bob.id))
        await put(platform, bob, World("", "other", "", ""), "api_key", b"bob's")
        with pytest.raises(CoworldError) as error:
            await planned(platform, ann, world, {"KEY": reference})
        assert error.value.code == code
        assert "bob's" not in f"{error.value} {error.value.hint} {error.value.context}"


async def test_secret_owner_names_ignore_case_and_hyphens(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id)
        await put(platform, ann, world, "a.b", b"1")
        job = await planned(platform, ann, world, {"KEY": "secret://coworld/QUICK/a%2Eb", "OTHER": "secret"})
        assert job.plan.secret_files == {"KEY": b"1"}
        assert "secret_files" not in repr(job.plan)


async def test_bundled_player_receives_its_own_secrets(tmp_path: Path) -> None:
    run = ["sh", "-c", f"{SEEN}; exec python3 -S -E player.py"]
    nothing = {"KEY": "file:///dev/null"}
    package = declaring(tmp_path, game={"env": nothing, "run": TELLS}, player={"env": {"KEY": ""}, "run": run})
    async with open_platform(tmp_path, packages=(package,)) as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id)
        reference = {"KEY": f"secret://coworld/{world.name}/hint"}
        await put(platform, ann, world, "hint", VALUE)
        await change_manifest(platform, world, nothing, {"env": reference, "run": run})
        async with platform.client(ann) as client:
            check = f"/v2/coworlds/{world.id}/certification"
            assert (await client.post(f"{check}/retry")).status_code == 200
            state = await checked(client, world.id)
        assert state["state"] == "certified", state
        row = await platform.episode(state["episode_request_id"])
        logs = [
            (await platform.services.artifacts.get(item.key)).decode()
            for item in row.artifacts
            if item.kind == "player_logs"
        ]
        assert [hashlib.sha256(VALUE).hexdigest() in log for log in logs] == [True, True]


async def planned(platform: Platform, owner: Account, world: World, env: dict[str, str]) -> Any:
    """What an episode would be played with."""
    await change_manifest(platform, world, env)
    await platform.policy(owner, "one")
    async with platform.client(owner) as client:
        body = {"coworld_id": world.id, "roster": roster("one", "one"), "num_episodes": 1}
        made = (await client.post("/v2/experience-requests", json=body)).json()
    return await load_job(platform.services, made["episodes"][0]["id"], Admission(registry="here"))
