"""Images that nothing uses are removed, and none that a version or a Coworld names."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from support.observatory import Inside, inside, until_committed
from support.observatory_kit import open_platform
from support.uploads import Blob, image_parts, manifest_for, push, upload_image, upload_policy

from observatory.operations.unused_images import remove_unused
from observatory.services import Services
from observatory.store.audit import audit_lines
from observatory.store.columns import now
from observatory.store.models import Image, RegistryBlob, RegistryManifest, RegistryTag, Token, User
from observatory.store.usage import stored_bytes

LONG_AGO = dt.timedelta(days=8)


async def age(services: Services) -> None:
    """Let all that was uploaded be eight days old."""
    then = now() - LONG_AGO
    async with services.database.writing() as session:
        for table in (Image, RegistryManifest, RegistryBlob):
            await session.execute(sa.update(table).values(created_at=then))
        await session.execute(sa.update(RegistryTag).values(updated_at=then))
        await session.execute(sa.update(Token).where(Token.kind == "registry").values(expires_at=then))
    for digest in await services.blobs.digests():
        os.utime(_file(services, digest), (then.timestamp(), then.timestamp()))


def _file(services: Services, digest: str) -> Path:
    return services.settings.data / "artifacts" / services.blobs.key(digest)


async def pulled(platform: Inside, token: str, image: dict[str, Any]) -> list[int]:
    """Statuses of an image's manifest and of all its parts."""
    base = "/v2/" + image["image_uri"].partition("/")[2].rpartition(":")[0]
    headers = {"Authorization": f"Bearer {token}"}
    answer = await platform.http.get(f"{base}/manifests/{image['image_digest']}", headers=headers)
    if answer.status_code != 200:
        return [answer.status_code]
    parts = [answer.json()["config"], *answer.json()["layers"]]
    return [
        answer.status_code,
        *[(await platform.http.get(f"{base}/blobs/{part['digest']}", headers=headers)).status_code for part in parts],
    ]


async def test_only_unused_images_are_removed(tmp_path: Path, database: str | None) -> None:
    async with inside(tmp_path, database=database) as platform:
        ann, bob = await platform.add_user("ann"), await platform.add_user("bob")
        services, parts = platform.services, image_parts(os.urandom(50_000))
        # Named by a version that has been replaced, by a private Coworld's player, and by nothing
        await upload_policy(platform, ann)
        await upload_policy(platform, ann)
        images = await platform.get("/v2/container_images", ann)
        played = await upload_image(platform, ann, "player")
        game = await upload_image(platform, ann, "game", parts)
        manifest = manifest_for(game["id"])
        manifest["player"][0]["image"] = played["id"]
        await platform.post("/v2/coworlds/upload", ann, {"manifest": manifest, "visibility": "private"})
        # Of the same repository, with a layer of the game's image and one of its own
        unused = await upload_image(platform, ann, "game", (parts[0], parts[1], Blob(parts[2].content + b" ")))
        waste = await upload_image(platform, ann, "waste", image_parts(os.urandom(70_000)))
        same = await upload_image(platform, bob, "same", parts)
        player = {"file": "bot.py", "files": {"bot.py": "eA=="}, "command": ["python3", "{}/bot.py"]}
        await platform.post("/stats/policies/files", ann, {"name": "bot", "player": player})
        (bot,) = await platform.get("/v2/container_images", ann, name="bot.py")
        await age(services)
        # A new one, which waits for its version; and one that is being pushed
        new = await upload_image(platform, ann, "new")
        begun = await platform.post("/v2/container_images/upload", ann, {"name": "slow", "client_hash": "sha256:slow"})
        await remove_unused(services)
        for image in (*images, played, game, new):
            assert await pulled(platform, ann, image) == [200, 200, 200], image
        for image, owner in ((unused, ann), (waste, ann), (same, bob)):
            assert await pulled(platform, owner, image) == [404]
            assert (await platform.ask("GET", f"/v2/container_images/{image['id']}", owner, expect=404)).json()
        slow = image_parts()
        await push(platform, begun["pre_signed_info"], slow)
        # What was removed counts no longer, and may be uploaded again
        async with services.database.reading() as session:
            (user,) = await session.scalars(sa.select(User.id).where(User.name == "bob"))
            assert await stored_bytes(session, user) == 0
            lines = await audit_lines(session, user="ann")
            assert sum(line["action"] == "image.removed" for line in lines) == 2
        assert bot["image_digest"] in await services.blobs.digests()
        again = await upload_image(platform, bob, "same", parts)
        assert await pulled(platform, bob, again) == [200, 200, 200]


@pytest.mark.slow
async def test_unused_images_are_removed_while_the_server_runs(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann, services = await platform.add_user("ann"), platform.services
        images = {name: await upload_image(platform, ann, name) for name in ("a", "damaged", "z")}
        await age(services)
        # One repository that cannot be looked at keeps no other from being cleaned up
        _file(services, images["damaged"]["image_digest"]).unlink()
        async with services.database.writing() as session:
            await session.execute(sa.update(Image).where(Image.name == "damaged").values(created_at=now()))
    async with open_platform(tmp_path, backend="none") as platform:

        async def removed() -> bool:
            async with platform.services.database.reading() as session:
                left = await session.scalars(sa.select(RegistryManifest.digest))
            return list(left) == [images["damaged"]["image_digest"]]

        await until_committed(removed)
