"""Pods into which a cluster puts containers of its own, as the webhooks of service meshes do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import pytest
from support.arena import Arena
from support.images import BASE_IMAGE
from support.registry import Registry, serve_registry

from coworld_runner.backends.kubernetes._cluster import Cluster
from coworld_runner.episode.single import EpisodeOptions

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]

SIDECAR = {
    "name": "mesh-proxy",
    "image": BASE_IMAGE,
    "imagePullPolicy": "IfNotPresent",
    # It ends neither by itself nor when it is asked to
    "command": ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"],
    "resources": {"requests": {"cpu": "1m", "memory": "8Mi"}},
}


@pytest.fixture
def injected(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the pods that got a sidecar, first in the list as some webhooks put it, on their way to the server."""
    create, names = Cluster.create, list[str]()

    async def with_sidecar(self: Cluster, kind: Any, body: Mapping[str, Any], **more: Any) -> Any:
        if kind == "pods":
            names.append(body["metadata"]["name"])
            body = {**body, "spec": {**body["spec"], "containers": [SIDECAR, *body["spec"]["containers"]]}}
        return await create(self, kind, body, **more)

    monkeypatch.setattr(Cluster, "create", with_sidecar)
    return names


async def test_an_episode_ends_although_a_sidecar_runs_on(arena: Arena, injected: list[str]) -> None:
    with anyio.fail_after(120):
        found = await arena.play(arena.plan(), EpisodeOptions(timeout_seconds=100))
    # Beside what looks for the image, on a node that does not list it
    assert len([name for name in injected if not name.startswith("coworld-image-")]) == 3
    assert (found.record.status, found.record.faults) == ("completed", ())
    # That nothing is left, the arena sees: the sidecars are gone with their pods


async def test_a_failure_beside_a_sidecar_is_the_player_s(arena: Arena, injected: list[str]) -> None:
    found = await arena.play(arena.plan("hangs", "well", "exits-3-midway"), EpisodeOptions(timeout_seconds=100))
    (fault,) = found.record.faults
    assert (fault.party, fault.slot, fault.error_type) == ("player", 1, "player_error")
    assert injected


async def test_an_image_is_had_although_a_sidecar_runs_on(arena: Arena, injected: list[str]) -> None:
    with serve_registry(Registry()) as registry, anyio.fail_after(120):
        assert (await arena.backend.ensure_image(registry.image())).digest
    assert len(injected) == 1
