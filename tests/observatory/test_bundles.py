"""An episode's bundle is the same, whether it was played here or on a platform."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from support.observatory_kit import open_platform, seed
from support.small_world import world

from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.record import read_record
from coworld_core.episode.verdict import judge
from coworld_core.roles.bundle_file import read_bundle
from coworld_runner import run_episode
from coworld_runner.roles.episode_bundle import bundle_episode
from observatory.episodes.stats import SeatNames
from observatory.store.models import EpisodeRequest
from observatory.work.outcome import POLICY, store_outcome
from observatory.work.queue import write_outcome
from observatory.work.seat_files import SeatLimits


@pytest.mark.parametrize("vices", [(), ("no_results",)])
async def test_local_and_platform_bundle_are_equal_but_for_the_id(tmp_path: Path, vices: tuple[str, ...]) -> None:
    async with world(game_vices=vices) as made:
        await run_episode(made.package, backend=made.backend, workspace=tmp_path / "w")
    record, layout = read_record(tmp_path / "w"), EpisodeLayout(tmp_path / "w")
    layout.player_artifact(1).write_bytes(b"PK")
    local = await bundle_episode(layout.workspace, tmp_path / "local.zip")
    async with open_platform(tmp_path, backend="none") as platform:
        owner = await platform.account("owner", team=True)
        where = await seed(platform.services, owner.id)
        names = [SeatNames(policy_version_id=None, policy_name="x", policy_version=None)] * 2
        outcome = await store_outcome(
            record,
            layout,
            judge(record, POLICY),
            names,
            limits=SeatLimits(),
            store=platform.services.artifacts,
            prefix="p",
        )
        async with platform.services.database.writing() as session:
            row = EpisodeRequest(user_id=owner.id, coworld_id=where.id, variant_id=record.variant, game_config={})
            session.add(row)
            await session.flush()
            await session.refresh(row, ["participants", "artifacts"])
            await write_outcome(session, row, outcome)
            ereq, other = row.id, row.episode_id
        async with platform.client(owner, **{"X-Use-Elevated-Privileges": "true"}) as client:
            answer = await client.get(f"/v2/episode-requests/{ereq}/bundle")
    assert answer.status_code == 200, answer.text
    (tmp_path / "platform.zip").write_bytes(answer.content)
    theirs = read_bundle(tmp_path / "platform.zip")
    assert {**theirs.manifest, "ereq_id": local.episode_id} == local.manifest
    assert theirs.episode_id == ereq
    assert theirs.files[:-1] == local.files[:-1]
    with zipfile.ZipFile(local.path) as ours, zipfile.ZipFile(theirs.path) as served:
        assert served.namelist() == ours.namelist()
        for mine, entry in zip(ours.infolist()[2:], served.infolist()[2:], strict=True):
            assert served.read(entry) == ours.read(mine)
            assert (entry.compress_size, entry.flag_bits, entry.extra) == (
                mine.compress_size,
                mine.flag_bits,
                mine.extra,
            )
        metadata = json.loads(served.read("metadata.json"))
        assert metadata.pop("episode_id") == other
        assert metadata == json.loads(ours.read("metadata.json"))
