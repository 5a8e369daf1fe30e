"""Images that a cluster does not get: the hosted worker and `--backend kubernetes` blame the same party."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import pytest
from support.arena import Arena
from support.cluster_workers import WorkerJobs, misfit_request
from support.registry import Registry, serve_registry

from coworld_core.episode.outcome import Fault
from coworld_core.episode.record import read_record
from coworld_core.errors import ImageError

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600)]


@pytest.fixture
def registry() -> Generator[Registry]:
    with serve_registry(Registry()) as served:
        yield served


async def _hosted(worker_jobs: WorkerJobs, image: str) -> tuple[Fault, dict[str, object]]:
    """The fault that a hosted worker records, and what it tells its platform."""
    request = misfit_request("hangs", "well", "well")
    player = request.players[1].model_copy(update={"image": image})
    job_id = await worker_jobs.submit(
        request.model_copy(update={"players": (request.players[0], player)}), worker_jobs.options(2)
    )
    assert await worker_jobs.status(job_id) == 1
    (fault,) = read_record(worker_jobs.kept(job_id)["episode.json"]).faults
    assert await worker_jobs.left(job_id) == []
    return fault, worker_jobs.error_info(job_id)


async def _local(arena: Arena, image: str) -> tuple[Fault, ImageError]:
    """The fault that an episode on a cluster records, and its error."""
    plan = arena.plan()
    runnable = plan.seats[1].runnable
    assert runnable is not None
    seat = replace(plan.seats[1], runnable=runnable.model_copy(update={"image": image}))
    workspace = arena.workspace()
    with pytest.raises(ImageError) as caught:
        await arena.play(replace(plan, seats=(plan.seats[0], seat)), workspace=workspace)
    (fault,) = read_record(workspace / "episode.json").faults
    return fault, caught.value


async def test_a_registry_that_cannot_be_reached(arena: Arena, worker_jobs: WorkerJobs) -> None:
    image = "coworld-nowhere.invalid/absent:1"
    hosted, told = await _hosted(worker_jobs, image)
    local, error = await _local(arena, image)
    assert error.code == "registry_unavailable"
    for fault in (hosted, local):
        assert (fault.party, fault.slot, fault.error_type) == ("platform", None, "image_unreachable")
        # Not that the kubelet waits before it tries again, which is the state at the end
        assert "lookup coworld-nowhere.invalid" in fault.message
        assert "reach the registry" in str(fault.hint)
    assert (told["error_type"], told["failed_policy_index"]) == ("crash", None)


async def test_an_image_that_its_registry_does_not_have(
    arena: Arena, worker_jobs: WorkerJobs, registry: Registry
) -> None:
    image = registry.image("absent")
    hosted, told = await _hosted(worker_jobs, image)
    local, error = await _local(arena, image)
    assert error.code == "image_absent"
    for fault in (hosted, local):
        assert (fault.party, fault.slot, fault.error_type) == ("player", 1, "image_unreachable")
        assert "manifest unknown" in fault.message
    assert (told["error_type"], told["failed_policy_index"]) == ("player_error", 1)


async def test_a_registry_that_answers_again(arena: Arena, registry: Registry) -> None:
    registry.busy = 3
    info = await arena.backend.ensure_image(registry.image())
    assert info.image == registry.image()
    assert registry.busy == 0
