"""A node that stops reporting: not the game's fault, told with its name, and not taken for lost too early."""

from __future__ import annotations

import dataclasses
import signal

import anyio
import anyio.to_thread
import pytest
from support.arena import Arena
from support.docker_subject import subject_spec
from support.kube import backend_for, cluster_process, on_cluster, orphaning, pod_directory, until_empty
from support.waiting import wait_until

from coworld_core.episode.events import BaseEvent, ProbeFinished, UnitStarted
from coworld_core.errors import StartError
from coworld_core.ids import new_run_id
from coworld_runner.backends.kubernetes._cluster import Cluster
from coworld_runner.episode.single import EpisodeOptions
from coworld_runner.runs.scratch import remove_run, scratch_root
from coworld_runner.testing._conformance_arena import locked
from coworld_runner.testing.conformance import subject_environment

pytestmark = [pytest.mark.kubernetes, pytest.mark.alone, pytest.mark.timeout(600)]

DEADLINE = 100.0
"""A cluster takes a node for lost when it has not reported for 40 s."""


async def test_a_node_that_stops_reporting_is_the_platforms_fault(arena: Arena, namespace: str) -> None:
    kubelet = cluster_process("kubelet")
    stopped = False

    def watch(event: BaseEvent) -> None:
        nonlocal stopped
        # The contract's checks are told of when they are over
        if isinstance(event, ProbeFinished) and not stopped:
            kubelet.send_signal(signal.SIGSTOP)
            stopped = True

    async def resume() -> None:
        await anyio.sleep(DEADLINE + 30)
        kubelet.send_signal(signal.SIGCONT)

    try:
        async with anyio.create_task_group() as tasks:
            # What is left of the pods goes when their node is back
            tasks.start_soon(resume)
            found = await arena.play(
                arena.plan(play_seconds=600.0), EpisodeOptions(timeout_seconds=DEADLINE), listeners=(watch,)
            )
            tasks.cancel_scope.cancel()
    finally:
        kubelet.send_signal(signal.SIGCONT)
    assert stopped
    (fault,) = found.record.faults
    assert (fault.party, fault.error_type) == ("platform", "platform_error"), fault
    assert "has stopped reporting" in fault.message
    assert "pod " in fault.message
    await anyio.to_thread.run_sync(until_empty, namespace)


SILENCE = 32.0
"""Longer than the check and the patience with a game that does not answer, shorter than a node may be silent."""


async def test_game_is_not_blamed_for_checks_that_did_not_reach_it(arena: Arena, namespace: str) -> None:
    """The node falls silent when the contract's last check is about to be made, and comes back in time."""
    kubelet = cluster_process("kubelet")
    started = set[int]()

    async def resume() -> None:
        await anyio.sleep(SILENCE)
        kubelet.send_signal(signal.SIGCONT)

    async with anyio.create_task_group() as tasks:

        def watch(event: BaseEvent) -> None:
            if isinstance(event, UnitStarted) and event.slot is not None:
                started.add(event.slot)
                if len(started) == 2:
                    kubelet.send_signal(signal.SIGSTOP)
                    tasks.start_soon(resume)

        try:
            plan = arena.plan(play_seconds=2 * SILENCE)
            found = await arena.play(
                plan, EpisodeOptions(timeout_seconds=300, viewer_timeout_seconds=2), listeners=(watch,)
            )
        finally:
            kubelet.send_signal(signal.SIGCONT)
        assert found.record.faults == ()
        assert found.record.status == "completed"
        checks = [event for event in found.events if isinstance(event, ProbeFinished)]
        assert checks
        assert all(event.ok for event in checks), checks
    await anyio.to_thread.run_sync(until_empty, namespace)


async def test_a_cordoned_node_is_named_with_what_to_do(arena: Arena, namespace: str) -> None:
    async def cordon(cluster: Cluster, cordoned: bool) -> str:
        (node,) = (await cluster.call("GET", "/api/v1/nodes"))["items"]
        name = str(node["metadata"]["name"])
        await cluster.call(
            "PATCH",
            f"/api/v1/nodes/{name}",
            body={"spec": {"unschedulable": cordoned or None}},
            content_type="application/merge-patch+json",
        )
        return name

    name = await anyio.to_thread.run_sync(lambda: on_cluster(lambda cluster: cordon(cluster, True)))
    try:
        with pytest.raises(StartError) as caught:
            await arena.play(arena.plan(), EpisodeOptions(timeout_seconds=DEADLINE))
    finally:
        await anyio.to_thread.run_sync(lambda: on_cluster(lambda cluster: cordon(cluster, False)))
    assert caught.value.code == "unschedulable"
    assert f"{name} is cordoned" in caught.value.message
    assert caught.value.hint == f"kubectl uncordon {name}"
    await anyio.to_thread.run_sync(until_empty, namespace)


PAUSE = 15.0
"""Seconds in which a node that is alive may well do nothing."""


async def test_pod_on_a_slow_node_is_not_forgotten(namespace: str) -> None:
    """What a killed runner left is told to be removed when nothing of it runs any more, and not before."""
    kubelet = cluster_process("kubelet")
    run_id = new_run_id()
    spec = dataclasses.replace(subject_spec(run_id, "orphan", "daemon:alive", "hang"), environment=subject_environment)

    def is_alive() -> bool:
        return locked(pod_directory(run_id, "orphan") / "alive")

    async def resume() -> None:
        await anyio.sleep(PAUSE)
        kubelet.send_signal(signal.SIGCONT)

    try:
        async with orphaning(backend_for(namespace), spec):
            await anyio.to_thread.run_sync(lambda: wait_until(is_alive, seconds=120, what="a unit"))
        async with backend_for(namespace) as backend, anyio.create_task_group() as tasks:
            found = await backend.find(run_id)
            kubelet.send_signal(signal.SIGSTOP)
            tasks.start_soon(resume)
            reaped = await backend.reap(found)
            assert all(item.removed for item in reaped), reaped
            assert await backend.find(run_id) == ()
            assert not is_alive()
    finally:
        kubelet.send_signal(signal.SIGCONT)
        remove_run(scratch_root() / run_id)
