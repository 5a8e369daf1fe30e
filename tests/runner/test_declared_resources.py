"""What a manifest declares of its programs' resources, and what becomes of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from coworld_core.errors import CapabilityError
from coworld_core.manifest.models import Resources, Runnable
from coworld_runner import resolve_package, run_episode
from coworld_runner.backend import Limits, UnitSpec
from coworld_runner.backends.docker._container_spec import container_body
from coworld_runner.episode.episode_options import EpisodeOptions
from coworld_runner.episode.unit_specs import declared_limits, wants_gpu
from coworld_runner.evaluation import compare
from coworld_runner.evaluation.worker_venue import refused
from coworld_runner.package.plan import plan_episode

HOSTED = Path(__file__).parents[1] / "support" / "packages" / "hosted"
GIB = 1 << 30
DEFAULT = Limits(memory_bytes=2 * GIB, pids=512)


def runnable(**resources: Any) -> Runnable:
    return Runnable(type="player", image="a:1", resources=Resources.model_validate(resources))


@pytest.mark.parametrize(
    ("said", "declared", "memory", "cpus"),
    [
        (Limits(), {}, 2 * GIB, None),
        (Limits(), {"limits": {"memory": "3Gi", "cpu": "1500m"}}, 3 * GIB, 1.5),
        (Limits(), {"limits": {"memory": "64Mi"}}, 64 << 20, None),
        (Limits(), {"requests": {"memory": "4Gi", "cpu": "4"}}, 4 * GIB, None),
        (Limits(), {"requests": {"memory": "1Gi"}}, 2 * GIB, None),
        (Limits(memory_bytes=GIB, cpus=0.5), {"limits": {"memory": "3Gi", "cpu": "2"}}, GIB, 0.5),
    ],
)
def test_limit_precedence(said: Limits, declared: dict[str, Any], memory: int, cpus: float | None) -> None:
    found = declared_limits(said, DEFAULT, runnable(**declared))
    assert (found.memory_bytes, found.cpus, found.pids) == (memory, cpus, 512)


LIMITS = (
    EpisodeOptions(player_limits=Limits(cpus=1)),
    EpisodeOptions(game_limits=Limits(cpus=1)),
    EpisodeOptions(player_network="game-only"),
    EpisodeOptions(players_drop_privileges=True),
)


@pytest.mark.parametrize("options", LIMITS)
async def test_what_is_given_is_enforced_or_refused(options: EpisodeOptions, tmp_path: Path) -> None:
    how: Any = {"options": options, "workspace": tmp_path / "out"}
    with pytest.raises(CapabilityError):
        await run_episode("examples/nim", backend="process", **how)
    # Nor does a measurement give its verdict without it
    with pytest.raises(CapabilityError):
        await compare("examples/nim", "counter", "random", backend="process", **how)
    package = await resolve_package("examples/nim")
    assert refused(package, options) == "something is to be enforced"
    assert refused(package, EpisodeOptions(player_network="open")) == ""


def test_gpu_is_requested_from_the_engine() -> None:
    assert wants_gpu(runnable(requests={"gpu": 1}))
    assert not wants_gpu(runnable(requests={"cpu": "1"}))
    spec = UnitSpec(run_id="r", name="game", component="game", image="a:1", gpu=True)
    asked = [
        container_body(one, image={}, environment={}, labels={}, network=None, ports={})["HostConfig"]
        for one in (spec, dataclasses.replace(spec, gpu=False))
    ]
    assert [host.get("DeviceRequests") for host in asked] == [[{"Count": 1, "Capabilities": [["gpu"]]}], None]


async def test_gpu_is_refused_where_unavailable(tmp_path: Path) -> None:
    package = await resolve_package(HOSTED)
    program = package.manifest.game.runnable.model_copy(update={"resources": runnable(requests={"gpu": 1}).resources})
    game = package.manifest.game.model_copy(update={"runnable": program})
    package = dataclasses.replace(package, manifest=package.manifest.model_copy(update={"game": game}))
    with pytest.raises(CapabilityError, match="the game asks for one") as raised:
        await run_episode(package, backend="process", workspace=tmp_path / "out")
    assert raised.value.context["capability"] == "gpu"
    assert plan_episode(package).startup(0) is None
