"""Nobody plays themselves to the top: only what a league has scheduled counts in its standings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.observatory_kit import Platform, World, open_platform, roster, seed, until_over

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


async def board(platform: Platform, world: World) -> dict[str, float]:
    """Who stands in the table, with which score."""
    async with platform.client() as anybody:
        lines: list[dict[str, Any]] = (await anybody.get(f"/v2/divisions/{world.division}/leaderboard")).json() or []
        table = (await anybody.get(f"/v2/divisions/{world.division}/leaderboards")).json()
    rows: list[dict[str, Any]] = table["views"][0]["rows"] if table else []
    assert [row["subject_name"] for row in rows] == [line["player_name"] for line in lines]
    return {line["player_name"]: line["score"] for line in lines}


async def test_requested_episodes_do_not_affect_standings(tmp_path: Path) -> None:
    async with open_platform(tmp_path) as platform:
        ann, eve = await platform.account("ann"), await platform.account("eve")
        world = await seed(platform.services, ann.id)
        versions = [await platform.policy(owner, owner.name) for owner in (ann, eve)]
        for version in versions:
            await platform.join(world, version)
        async with platform.client(eve) as client:
            targets: list[dict[str, Any]] = [
                {"target": {"league_id": world.league}},
                {"target": {"division_id": world.division}},
                {"target": {"league_name": "Quick League"}},
            ]
            # A slot's score is its number and the seed: eve seats herself where it pays, as often as she likes
            body = {"roster": roster("ann", "eve"), "game_config_overrides": {"seed": 1000}, "num_episodes": 2}
            for target in targets:
                made = await client.post("/v2/experience-requests", json={**target, **body})
                assert made.status_code == 200, made.text
                over = await until_over(client, made.json()["id"])
                assert (over["status"], over["league_id"]) == ("completed", world.league)
                # What it borrows from the league is said, and its scores are its own
                assert all(score["score"] >= 1000 for score in over["episodes"][0]["scores"])
            single = {**targets[0], "roster": roster("eve", "eve")}
            made = await client.post("/v2/episode-requests", json=single)
            assert (await platform.until_played(made.json()["id"])).status == "completed"
            for forged in ({"round_id": "round_1"}, {"source": "round"}):
                assert (await client.post("/v2/episode-requests", json={**single, **forged})).status_code == 422
        assert await board(platform, world) == {}
        # The league's own do count
        assert (await platform.until_played(await platform.play_round(world, *versions))).status == "completed"
        assert await board(platform, world) == {"ann": 0.0, "eve": 1.0}
