"""What a policy noted while it played, and what this platform says of what it does not offer."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
from support.observatory_kit import Account, Platform, open_platform, roster, seed

from observatory.api import annotations
from observatory.store.columns import now
from observatory.store.models import Artifact, EpisodeRequest

pytestmark = pytest.mark.slow


def packed(name: str, content: bytes, *, encrypted: bool = False) -> bytes:
    """A player's artifact with one file."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    made = target.getvalue()
    if not encrypted:
        return made
    # The flag alone: whoever opens it is asked for a password
    for header, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = made.index(header) + at
        made = made[:start] + bytes([made[start] | 1]) + made[start + 1 :]
    return made


async def episode(platform: Platform, owner: Account, other: Account) -> tuple[str, str, str]:
    """An episode that is not over, and the version of each of the two who play."""
    world = await seed(platform.services, owner.id)
    versions = [await platform.policy(account, account.name) for account in (owner, other)]
    for version in versions:
        await platform.join(world, version)
    async with platform.client(owner) as client:
        body = {
            "target": {"league_id": world.league, "variant_id": "four"},
            "roster": roster(versions[0], versions[1], versions[0], versions[1]),
        }
        made = await client.post("/v2/experience-requests", json=body)
        assert made.status_code == 200, made.text
        return made.json()["episodes"][0]["id"], versions[0], versions[1]


async def end(platform: Platform, episode_id: str, artifacts: dict[int, bytes]) -> None:
    """Write down that it is over, with what players left."""
    async with platform.services.database.writing() as session:
        row = await session.get_one(EpisodeRequest, episode_id)
        row.status, row.completed_at = "completed", now()
        for position, content in artifacts.items():
            key = f"episodes/{episode_id}/{position}.zip"
            stored = await platform.services.artifacts.put(key, content)
            session.add(
                Artifact(
                    episode_request_id=episode_id,
                    kind="player_artifact",
                    position=position,
                    key=stored.key,
                    media_type="application/zip",
                    size=stored.size,
                    sha256=stored.sha256,
                )
            )


async def test_annotations_are_served_to_the_owner(tmp_path: Path, database: str | None) -> None:
    async with open_platform(tmp_path, backend="none", database=database) as platform:
        ann, bob = await platform.account("ann"), await platform.account("bob")
        ereq, anns, bobs = await episode(platform, ann, bob)
        place = f"/v2/episode-requests/{ereq}"
        async with platform.client(ann) as client, platform.client(bob) as other:
            assert (await client.get(f"{place}/{anns}/annotations")).status_code == 409
            first, second = b'{"step": 1}\n\n{"step": 2}', b"[3]\n"
            await end(
                platform,
                ereq,
                {
                    0: packed("annotations.jsonl", first),
                    1: packed("notes.txt", b"x"),
                    2: packed("annotations.jsonl", second),
                },
            )
            answer = await client.get(f"{place}/{anns}/annotations")
            assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-ndjson")
            assert answer.content == b'{"step": 1}\n{"step": 2}\n[3]\n'
            assert (await other.get(f"{place}/{bobs}/annotations")).status_code == 404
            assert (await other.get(f"{place}/{anns}/annotations")).status_code == 403
            assert (await client.get(f"{place}/none/annotations")).status_code == 404
        async with platform.client() as stranger:
            assert (await stranger.get(f"{place}/{anns}/annotations")).status_code == 401


@pytest.mark.parametrize(
    ("artifact", "status", "code"),
    [
        (b"no zip", 404, "not_found"),
        (packed("annotations.jsonl", b"{}", encrypted=True), 404, "not_found"),
        (packed("annotations.jsonl", b"{}\nnot json\n"), 409, "malformed"),
        (packed("annotations.jsonl", b"[" * 100_000), 409, "malformed"),
        (packed("annotations.jsonl", b" " * (annotations.LIMIT + 1)), 409, "too_large"),
        (packed("annotations.jsonl", b""), 200, None),
    ],
    ids=["no zip", "encrypted", "not json", "deep", "bomb", "empty"],
)
async def test_annotations_are_parsed_or_refused(
    artifact: bytes, status: int, code: str | None, tmp_path: Path
) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        ann, bob = await platform.account("ann"), await platform.account("bob")
        ereq, anns, _ = await episode(platform, ann, bob)
        await end(platform, ereq, {0: artifact})
        async with platform.client(ann) as client:
            answer = await client.get(f"/v2/episode-requests/{ereq}/{anns}/annotations")
            assert answer.status_code == status, answer.text
            assert code is None or answer.json()["type"] == code


async def test_operations_not_offered_say_what_to_do_instead(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        ann = await platform.account("ann")
        async with platform.client(ann) as client, platform.client() as stranger:
            for method, path in (
                ("POST", "/v2/reporters/register"),
                ("POST", "/stats/policies/files/upload"),
                ("POST", "/v2/coworlds/x/feed-posts"),
                ("GET", "/v2/leagues/league_x/locks"),
                ("GET", "/usage/me/credits"),
                ("POST", "/v2/divisions/div_x/power-analysis"),
                ("POST", "/v2/counterfactual-evals"),
                ("GET", "/v2/counterfactual-evals/cfeval_x"),
                ("GET", "/v2/leagues/league_x/campaign"),
                ("GET", "/v2/leagues/league_x/campaign/history"),
                ("POST", "/v2/leagues/league_x/campaign/prompt"),
            ):
                answer = await client.request(method, path, json={} if method == "POST" else None)
                assert (answer.status_code, answer.json()["type"]) == (405, "not_offered"), path
                assert answer.headers["allow"] == ""
                assert len(answer.json()["detail"]) > 40
                assert (await stranger.request(method, path)).status_code == 401
