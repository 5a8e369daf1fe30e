"""One tournament file, and a commissioner in an image, wherever they are run: the standings are the same."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from benchmarks._subject import Subject, subject
from support.kube import backend_for, namespace_for_tests, until_empty

from coworld_core.tournament import TournamentReport
from coworld_runner.backend import Backend
from coworld_runner.backends.docker.docker_backend import DockerBackend
from coworld_runner.backends.process.process_backend import ProcessBackend
from coworld_runner.evaluation.tournament import add_entrant, create_tournament, play_tournament


@asynccontextmanager
async def backends(image: str, context: Path) -> AsyncGenerator[dict[str, Backend]]:
    with namespace_for_tests() as namespace:
        async with (
            ProcessBackend(contexts={image: context}) as process,
            DockerBackend() as docker,
            backend_for(namespace) as cluster,
        ):
            yield {"process": process, "docker": docker, "kubernetes": cluster}


def slow_arena(tmp_path: Path) -> tuple[Subject, str]:
    """Paint Arena, slow enough for players to be in time for every tick, whatever else goes on; and its image."""
    arena = subject("paintarena", "docker", tmp_path)
    manifest: dict[str, Any] = json.loads(arena.manifest.read_text())
    manifest["variants"][0]["game_config"] |= {"max_ticks": 8, "tick_rate": 4}
    arena.manifest.write_text(json.dumps(manifest))
    return arena, manifest["game"]["runnable"]["image"]


async def played(place: Path, arena: Subject, backend: Backend, *, rounds: int) -> TournamentReport:
    """Play a tournament of two players with Paint Arena's commissioner."""
    await create_tournament(
        place,
        str(arena.manifest),
        variant="quick",
        commissioner="two-divisions",
        rounds=rounds,
        count_starved=True,
    )
    for player in ("sweep-painter", "frontier-painter"):
        await add_entrant(place, player)
    return await play_tournament(place, backend=backend, parallel=2)


def said_over(report: TournamentReport) -> list[tuple[int, str, int, dict[str, Any] | None]]:
    """The rounds as their commissioner ended them: number, division, places given, and what it wants shown."""
    assert report.commissioned is not None
    return [(one.round, one.division, len(one.rankings), one.display) for one in report.commissioned.rounds]


TWO_ROUNDS = [(number, "Challengers", 2, {"masters": 0}) for number in (1, 2)]


@pytest.mark.docker
@pytest.mark.timeout(300)
async def test_a_commissioners_container_drives_a_tournament_on_docker(tmp_path: Path) -> None:
    arena, _ = slow_arena(tmp_path)
    async with DockerBackend() as backend:
        report = await played(tmp_path / "league", arena, backend, rounds=2)
    assert (report.stopped, report.rounds, report.blocks, report.faults) == ("rounds", 2, 4, ())
    assert said_over(report) == TWO_ROUNDS


@pytest.mark.kubernetes
@pytest.mark.docker
@pytest.mark.timeout(300)
async def test_a_commissioners_pod_drives_a_tournament_on_a_cluster(tmp_path: Path) -> None:
    arena, _ = slow_arena(tmp_path)
    with namespace_for_tests() as namespace:
        async with backend_for(namespace) as backend:
            report = await played(tmp_path / "league", arena, backend, rounds=2)
        assert (report.stopped, report.rounds, report.blocks, report.faults) == ("rounds", 2, 4, ())
        assert said_over(report) == TWO_ROUNDS
        until_empty(namespace)


@pytest.mark.docker
@pytest.mark.kubernetes
@pytest.mark.timeout(300)
async def test_a_tournament_comes_out_the_same_everywhere(tmp_path: Path) -> None:
    arena, image = slow_arena(tmp_path)
    found: dict[str, Any] = {}
    async with backends(image, arena.directory) as all_of_them:
        for name, backend in all_of_them.items():
            place = tmp_path / name
            report = await played(place, arena, backend, rounds=1)
            assert (report.stopped, report.blocks, report.faults) == ("rounds", 2, ()), name
            assert report.commissioned is not None
            found[name] = [
                [one.model_dump(exclude={"rating", "interval"}) for one in report.standings],
                [one.model_dump(include={"name", "members"}) for one in report.commissioned.divisions],
            ]
            assert (place / "tournament.toml").read_bytes() == (tmp_path / "process/tournament.toml").read_bytes()
    assert found["docker"] == found["process"]
    assert found["kubernetes"] == found["process"]
