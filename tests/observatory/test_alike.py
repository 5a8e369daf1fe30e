"""What is said of a Coworld reads alike for everybody who sees it."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from support.observatory import inside
from support.uploads import upload_coworld

from observatory.store.models import EpisodeRequest


async def test_a_check_reads_alike_for_everybody(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann, bob = await platform.add_user("ann"), await platform.add_user("bob")
        made = await upload_coworld(platform, ann)
        async with platform.services.database.writing() as session:
            await session.execute(sa.update(EpisodeRequest).values(status="completed"))

        async def said(token: str | None) -> tuple[str, list[str]]:
            path = f"/v2/coworlds/{made['id']}"
            state = (await platform.get(f"{path}/certification", token))["state"]
            rows = await platform.get(f"{path}/episode-requests", token, source="coworld_upload")
            return state, [row["status"] for row in rows["entries"]]

        assert [await said(token) for token in (ann, bob, None)] == [("certified", ["completed"])] * 3
        await platform.post(f"/v2/coworlds/{made['name']}/visibility", ann, {"visibility": "private"})
        async with platform.services.database.reading() as session:
            episode = await session.scalar(sa.select(EpisodeRequest.id))
        await platform.ask("GET", f"/v2/episode-requests/{episode}", bob, expect=404)
        await platform.ask("GET", f"/v2/episode-requests/{episode}", ann)
