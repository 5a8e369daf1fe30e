"""One tournament file, and a commissioner in an image, wherever they are run: the standings are the same."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from benchmarks._subject import subject
from support.images import need_docker
from support.kube import backend_for, namespace_for_tests, need_cluster

from coworld_runner.backend import Backend
from coworld_runner.backends.docker.backend import DockerBackend
from coworld_runner.backends.process.backend import ProcessBackend
from coworld_runner.tournament import add_entrant, create_tournament, play_tournament


@asynccontextmanager
async def backends(image: str, context: Path) -> AsyncGenerator[dict[str, Backend]]:
    with namespace_for_tests() as namespace:
        async with (
            ProcessBackend(contexts={image: context}) as process,
            DockerBackend() as docker,
            backend_for(namespace) as cluster,
        ):
            yield {"process": process, "docker": docker, "kubernetes": cluster}


@pytest.mark.docker
@pytest.mark.kubernetes
@pytest.mark.timeout(300)
async def test_a_tournament_comes_out_the_same_everywhere(tmp_path: Path) -> None:
    need_docker()
    need_cluster()
    arena = subject("paintarena", "docker", tmp_path)
    manifest: dict[str, Any] = json.loads(arena.manifest.read_text())
    # slow enough for players to be in time for every tick, whatever else goes on
    manifest["variants"][0]["game_config"] |= {"max_ticks": 8, "tick_rate": 4}
    arena.manifest.write_text(json.dumps(manifest))
    found: dict[str, Any] = {}
    async with backends(manifest["game"]["runnable"]["image"], arena.directory) as all_of_them:
        for name, backend in all_of_them.items():
            place = tmp_path / name
            settings: dict[str, Any] = {"commissioner": "two-divisions", "rounds": 1, "count_starved": True}
            await create_tournament(place, str(arena.manifest), variant="quick", **settings)
            for player in ("sweep-painter", "frontier-painter"):
                await add_entrant(place, player)
            report = await play_tournament(place, backend=backend, parallel=2)
            assert (report.stopped, report.blocks, report.faults) == ("rounds", 2, ()), name
            assert report.commissioned is not None
            found[name] = [
                [one.model_dump(exclude={"rating", "interval"}) for one in report.standings],
                [one.model_dump(include={"name", "members"}) for one in report.commissioned.divisions],
            ]
            assert (place / "tournament.toml").read_bytes() == (tmp_path / "process/tournament.toml").read_bytes()
    assert found["docker"] == found["process"]
    assert found["kubernetes"] == found["process"]
