"""Players that are uploaded as files: where they run, and that they lead nowhere else."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
import sqlalchemy as sa
from support.observatory import inside
from support.observatory_kit import QUICK, Account, Platform, Subject, open_platform, roster, seed, until_over
from support.uploads import manifest_for, upload_image

from coworld_core.api import MOST_PLAYER_BYTES
from coworld_core.errors import ImageError
from coworld_core.manifest.manifest_file import load_manifest
from coworld_runner.package.own_players.named_player import read_own_player
from coworld_runner.package.own_players.player_wire import to_wire
from observatory.cli import main
from observatory.store.models import Image, PolicyVersion, RegistryManifest, User
from observatory.store.player_files import PLAYER_MEDIA, read_player
from observatory.work.admission import Admission

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def bot(tmp_path: Path, marker: Path) -> dict[str, Any]:
    """A player of the quick game that leaves a mark, as it is sent."""
    file = tmp_path / "bot.py"
    file.write_text(f"open({str(marker)!r}, 'w')\n" + (QUICK.directory / "player.py").read_text())
    return to_wire(read_own_player(str(file))).to_wire()


async def test_silent_bot_does_not_hold_a_lane(tmp_path: Path) -> None:
    """A game that would wait three minutes for its players waits as long as the platform allows."""
    file = tmp_path / "silent.py"
    file.write_text("import time\n\nwhile True:\n    time.sleep(1000)\n")
    player = to_wire(read_own_player(str(file))).to_wire()
    arena = Path(__file__).parents[2] / "examples" / "paintarena"
    subject = Subject(arena, "{{PAINTARENA_IMAGE}}", "paintarena", ("python", "-m", "paintarena.players.sweep"))
    async with open_platform(tmp_path, packages=[arena], trust_uploads=True, connect_timeout=3.0) as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id, subject=subject)
        await platform.policy(ann, "other", subject=subject)
        async with platform.client(ann) as client:
            made = await client.post("/stats/policies/files", json={"name": "silent", "player": player})
            assert made.status_code == 200, made.text
            body = {"coworld_id": world.id, "roster": roster("silent", "other"), "variant_id": "quick"}
            asked = (await client.post("/v2/experience-requests", json=body)).json()
            (episode,) = (await until_over(client, asked["id"]))["episodes"]
            log = await client.get(f"/v2/episode-requests/{episode['id']}/artifacts/logs")
        assert episode["game_config"]["player_connect_timeout_seconds"] == 180
        assert "had not connected 3 s after all players were started" in str(episode["player_faults"])
        assert episode["status"] == "completed", (episode, log.text)


async def uploaded(platform: Platform, owner: Account, player: dict[str, Any]) -> httpx2.Response:
    """The answer to the upload of a policy that is a file."""
    async with platform.client(owner) as client:
        return await client.post("/stats/policies/files", json={"name": "bot", "player": player})


async def played(platform: Platform, world: str, owner: Account) -> dict[str, Any]:
    """The episode of that policy against itself."""
    async with platform.client(owner) as client:
        body = {"coworld_id": world, "roster": roster("bot", "bot")}
        asked = await client.post("/v2/experience-requests", json=body)
        (episode,) = (await until_over(client, asked.json()["id"]))["episodes"]
        return dict(episode)


async def test_uploaded_file_runs_locally_only_if_trusted(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    player = bot(tmp_path, marker)
    async with open_platform(tmp_path, trust_uploads=True, parallel=0) as platform:
        eve = await platform.account("eve")
        world = await seed(platform.services, (await platform.account("ann")).id)
        made = await uploaded(platform, eve, player)
        assert (made.status_code, made.json()["version"]) == (200, 1), made.text
    # The operator has changed their mind.
    async with open_platform(tmp_path) as platform:
        refused = await uploaded(platform, eve, player)
        assert (refused.status_code, refused.json()["type"]) == (409, "not_declared")
        assert "bot.py is an uploaded file" in refused.json()["detail"]
        episode = await played(platform, world.id, eve)
        assert episode["status"] == "failed"
        assert "bot.py is an uploaded file" in episode["error"]
        assert "A worker with containers" in episode["error"]
        assert (await platform.episode(episode["id"])).record is None
    assert not marker.exists()


async def test_a_file_runs_where_uploads_are_trusted(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    player = bot(tmp_path, marker)
    async with open_platform(tmp_path, trust_uploads=True) as platform:
        ann, eve = await platform.account("ann"), await platform.account("eve")
        world = await seed(platform.services, ann.id)
        made = await uploaded(platform, eve, player)
        assert (made.status_code, made.json()["version"]) == (200, 1), made.text
        episode = await played(platform, world.id, eve)
        assert episode["status"] == "completed", episode["error"]
        assert [seat["policy_name"] for seat in episode["participants"]] == ["bot", "bot"]
        # Images and manifests are trusted no more than before
        await platform.policy(eve, "shell")
        async with platform.services.database.writing() as session:
            version = (await session.scalars(sa.select(PolicyVersion).where(PolicyVersion.run.is_not(None)))).one()
            version.run = ["sh", "-c", "true"]
        async with platform.client(eve) as client:
            body = {"coworld_id": world.id, "roster": roster("shell", "shell")}
            asked = await client.post("/v2/experience-requests", json=body)
            (refused,) = (await until_over(client, asked.json()["id"]))["episodes"]
        assert "not declared by any package" in refused["error"]
    assert marker.exists()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--host", "0.0.0.0", "--allow-remote", "--package", str(QUICK.directory)], "not_loopback"),
        (["--host", "example.org", "--allow-remote", "--package", str(QUICK.directory)], "not_loopback"),
        (["--backend", "docker"], "trust_without_processes"),
        (["--backend", "docker", "--package", str(QUICK.directory)], "trust_without_processes"),
        ([], "trust_without_processes"),
    ],
)
def test_uploads_are_trusted_on_loopback_alone(
    arguments: list[str], code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["serve", "--data", str(tmp_path / "o"), "--json", "--port", "0", "--trust-uploads", *arguments])
    assert (left.value.code, json.loads(capsys.readouterr().out)["error"]["code"]) == (2, code)


CONTENT = base64.b64encode(b"x").decode()
GOOD: dict[str, Any] = {"file": "a", "files": {"a": CONTENT}, "command": ["{}/a"]}


NAMES = ("/etc/x", "../x", "a/../../x", "a//b", "a/.", "", "a\0b", "a\\b", "é" * 101)
WRONG: tuple[dict[str, Any], ...] = (
    *({"files": {name: CONTENT}} for name in NAMES),
    {"files": {"a": CONTENT, "a/b": CONTENT}},
    {"files": {}},
    {"files": {"a": base64.b64encode(b"x" * (MOST_PLAYER_BYTES + 1)).decode()}},
    {"file": "../a"},
    {"runnable": ["../../bin/sh"]},
    {"command": []},
    {"dockerfile": True},
)


async def test_file_names_cannot_escape_the_directory(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann = await platform.add_user("ann")
        for wrong in WRONG:
            body = {"name": "x", "player": {**GOOD, **wrong}}
            await platform.ask("POST", "/stats/policies/files", ann, json=body, expect=422)
        async with platform.services.database.reading() as session:
            assert await session.scalar(sa.select(sa.func.count()).select_from(Image)) == 0


async def test_player_files_are_private_and_deduplicated(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann, eve = await platform.add_user("ann"), await platform.add_user("eve")
        for name, number in (("one", 1), ("one", 2), ("two", 1)):
            made = await platform.post("/stats/policies/files", ann, {"name": name, "player": GOOD})
            assert (made["name"], made["version"]) == (name, number)
        [image] = await platform.get("/v2/container_images", ann)
        assert await platform.get("/v2/container_images", eve) == []
        theft = {"name": "mine", "container_image_id": image["id"]}
        await platform.ask("POST", "/stats/policies/docker-img/complete", eve, json=theft, expect=404)
        repository, _, digest = image["image_uri"].partition("/")[2].rpartition(":")[0], "", image["image_digest"]
        for token in (None, eve):
            answer = await platform.http.get(
                f"/v2/{repository}/manifests/{digest}", headers={"Authorization": f"Bearer {token}"} if token else {}
            )
            assert answer.status_code in (401, 403), answer.text


async def test_malformed_player_manifest_is_never_run(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann = await platform.add_user("ann")
        await platform.post("/stats/policies/files", ann, {"name": "one", "player": GOOD})
        blobs = platform.services.blobs
        async with platform.services.database.writing() as session:
            image = (await session.scalars(sa.select(Image))).one()
            image.digest = await blobs.put(json.dumps({**GOOD, "files": {"../../x": CONTENT}}).encode())
            session.add(
                RegistryManifest(repository=image.repository, digest=image.digest, media_type=PLAYER_MEDIA, size=1)
            )
            await session.flush()
            with pytest.raises(ImageError, match="does not contain a player's files"):
                await read_player(blobs, session, image)


async def test_player_beside_a_private_game_cannot_read_its_image(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann = await platform.add_user("ann")
        await platform.add_user("eve")
        image = await upload_image(platform, ann, "hush")
        manifest = load_manifest(manifest_for(image["id"], name="hush-game")).manifest
        own = read_own_player(str(QUICK.directory / "player.py"))
        admission = Admission(registry="127.0.0.1:1")
        async with platform.services.database.reading() as session:
            owners = {user.name: user.id for user in await session.scalars(sa.select(User))}
            runnable, seated = await admission.admit_files(session, own, manifest, owner=owners["ann"])
            assert runnable.image.endswith(f"@{image['image_digest']}")
            assert (runnable.type, dict(runnable.env), seated.python[:6]) == ("player", {}, "python")
            with pytest.raises(ImageError) as refused:
                await admission.admit_files(session, own, manifest, owner=owners["eve"])
        assert refused.value.code == "foreign_image"
