"""A backup is made while people go on writing, and what is made of it gives the same answers."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import anyio
import pytest
import sqlalchemy as sa
from support.observatory import Inside, inside
from support.observatory_kit import open_platform, seed
from support.postgres import execute
from support.uploads import upload_coworld, upload_image

from coworld_core.errors import CoworldError
from observatory.operations.backup import back_up, restore
from observatory.services import open_services
from observatory.settings import Settings
from observatory.store.models import Player, PolicySecretEnv, User

pytestmark = pytest.mark.slow


async def answers_to(platform: Inside, token: str, episode: str, image: str) -> list[Any]:
    """What a user is told of everything there is."""
    paths = ("/whoami", "/players", "/v2/coworlds", "/v2/leagues", "/v2/container_images", "/v2/competition-events")
    answers = [await platform.get(path, token) for path in paths]
    # The link that needs no token is another each time
    answers.append({**await platform.get(f"/v2/episode-requests/{episode}", token), "replay_url": None})
    for name in ("replay", "results", "logs"):
        answers.append((await platform.ask("GET", f"/v2/episode-requests/{episode}/artifacts/{name}", token)).content)
    shown = {"Authorization": f"Bearer {token}"}
    answers.append((await platform.http.get(f"/v2/{image}", headers=shown)).content)
    return answers


@pytest.mark.postgresql
async def test_restored_platform_answers_like_the_original(tmp_path: Path, database: str | None, postgres: str) -> None:
    async with open_platform(tmp_path, parallel=1, database=database) as platform:
        ann = await platform.account("ann", team=True)
        world = await seed(platform.services, ann.id)
        await platform.policy(ann, "secretive", secrets={"HUSH": "hush"})
        version = await platform.policy(ann, "a")
        await platform.join(world, version)
        episode = await platform.play_round(world, version, version)
        assert (await platform.until_played(episode)).status == "completed"
    async with inside(tmp_path, database=database) as there:
        image = await upload_image(there, ann.token, "own")
        await upload_coworld(there, ann.token, name="another")
        place = f"{image['image_uri'].partition('/')[2].partition(':')[0]}/manifests/v1"
        settings = there.services.settings
        writing, done = anyio.Event(), anyio.Event()

        async def write() -> None:
            number = 0
            while not done.is_set():
                await there.post("/players", ann.token, {"name": f"player {number}"})
                number += 1
                writing.set()

        async with anyio.create_task_group() as group:
            group.start_soon(write)
            await writing.wait()
            # As the command does it: by connections of its own
            async with open_services(settings) as services:
                note = await back_up(services, tmp_path / "backup")
            done.set()
        assert note["missing"] == []
        copied = [path for path in (tmp_path / "backup").rglob("*") if path.is_file()]
        assert all(b"hush" not in path.read_bytes() for path in copied)
        with pytest.raises(CoworldError, match="not empty"):
            await back_up(there.services, tmp_path / "backup")
        before = await answers_to(there, ann.token, episode, place)

    # To the other kind of database
    other = Settings(data=tmp_path / "again/observatory", key=settings.key_file)
    if database is None:
        name = f"restored_{os.getpid()}"
        await execute(postgres, f"CREATE DATABASE {name}")
        other = Settings(data=other.data, key=other.key, database=postgres.format(name=name))
    try:
        await restore(tmp_path / "backup", other)
        with pytest.raises(CoworldError, match="not empty") as refused:
            await restore(tmp_path / "backup", other)
        assert refused.value.code == "not_empty"
        await restore(tmp_path / "backup", other, replace=True)
        shutil.copy2(settings.key_file, other.data.with_name("observatory.key"))
        async with inside(tmp_path / "again", database=other.database) as again:
            async with again.services.database.reading() as session:
                players = await session.scalar(sa.select(sa.func.count()).select_from(Player))
                assert await session.scalar(sa.select(User.name)) == "ann"
            after = await answers_to(again, ann.token, episode, place)
            # Those of one moment: the first so many
            assert after[1] == before[1][:players]
            assert 0 < len(after[1]) < len(before[1])
            assert [*after[:1], *after[2:]] == [*before[:1], *before[2:]]
            async with again.services.database.reading() as session:
                kept = await session.scalar(sa.select(PolicySecretEnv.id))
                assert await again.services.vault.policy_env(session, kept) == {"HUSH": "hush"}
    finally:
        if database is None:
            await execute(postgres, f"DROP DATABASE {name} WITH (FORCE)")


async def test_invalid_backup_is_refused(tmp_path: Path) -> None:
    async with inside(tmp_path) as there:
        await there.add_user("ann")
        settings = there.services.settings
        await back_up(there.services, tmp_path / "backup")

    async def refused(source: Path, **changes: Any) -> str:
        place = Settings(**{"data": tmp_path / "new", "key": settings.key_file, **changes})
        with pytest.raises(CoworldError) as error:
            await restore(source, place)
        assert not (tmp_path / "new").exists()
        return error.value.code

    assert await refused(tmp_path) == "no_backup"
    assert await refused(tmp_path / "backup", key=None) == "key_missing"
    (tmp_path / "other.key").write_text("x" * 32)
    assert await refused(tmp_path / "backup", key=tmp_path / "other.key") == "key_wrong"
    assert await refused(tmp_path / "backup", data=settings.data) == "not_empty"
    note = json.loads((tmp_path / "backup/backup.json").read_text())
    (tmp_path / "backup/backup.json").write_text(json.dumps({**note, "revision": "9999"}))
    assert await refused(tmp_path / "backup") == "newer_backup"
    (tmp_path / "backup/backup.json").write_text(json.dumps({"format": 1, "revision": note["revision"]}))
    assert await refused(tmp_path / "backup") == "no_backup"


@pytest.mark.parametrize("damage", ["not a database", "a table is gone", "a name leads elsewhere", "no revision"])
async def test_damaged_backup_is_refused_before_anything_is_replaced(tmp_path: Path, damage: str) -> None:
    async with inside(tmp_path) as there:
        await there.add_user("ann")
        settings = there.services.settings
        await back_up(there.services, tmp_path / "backup")
    file = tmp_path / "backup" / Path(Settings(data=tmp_path).database_url.partition(":///")[2]).name
    if damage == "not a database":
        file.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    else:
        with contextlib.closing(sqlite3.connect(file)) as database:
            statement = {
                "a table is gone": "DROP TABLE users",
                "a name leads elsewhere": "INSERT INTO registry_blobs (repository, digest, size, created_at) "
                "VALUES ('a', '../../etc/passwd', 1, '2026-01-01 00:00:00')",
                "no revision": "UPDATE alembic_version SET version_num = 'zzzz'",
            }[damage]
            database.execute(statement)
            database.commit()
    with pytest.raises(CoworldError) as error:
        await restore(tmp_path / "backup", settings, replace=True)
    assert error.value.kind != "internal"
    assert error.value.code == "backup_damaged"
    async with inside(tmp_path) as there, there.services.database.reading() as session:
        assert "ann" in (await session.scalars(sa.select(User.name))).all()


async def test_backup_replaces_only_a_backup(tmp_path: Path) -> None:
    project, backup = tmp_path / "project", tmp_path / "backup"
    project.mkdir()
    (project / "thesis.py").write_text("mine")
    async with inside(tmp_path) as there:
        with pytest.raises(CoworldError) as error:
            await back_up(there.services, project, replace=True)
        assert error.value.code == "no_backup"
        await back_up(there.services, backup)
        (backup / "notes.txt").write_text("mine")
        with pytest.raises(CoworldError, match=r"notes\.txt") as error:
            await back_up(there.services, backup, replace=True)
        assert error.value.code == "no_backup"
        (backup / "notes.txt").unlink()
        await back_up(there.services, backup, replace=True)
    assert [path.name for path in project.iterdir()] == ["thesis.py"]
    # Nor is what a restored one takes the place of anything but an Observatory's
    mine = project / there.services.settings.uploads.name / "mine"
    mine.parent.mkdir()
    mine.write_text("mine")
    with pytest.raises(CoworldError) as error:
        await restore(backup, Settings(data=project, key=there.services.settings.key_file), replace=True)
    assert error.value.code == "not_empty"
    assert mine.read_text() == "mine"
