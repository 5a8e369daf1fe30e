"""What only a cluster can do to a unit, on a real one: deletion by hand, no room, no image, no answer, no runner."""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.docker_subject import subject_spec
from support.fake_server import serve_streams
from support.images import drop_image
from support.kube import (
    backend_for,
    blockable_way,
    kill_container,
    kubeconfig_of,
    kubeconfig_with,
    labelled,
    namespace_for_tests,
    on_cluster,
    orphaning,
    small_pods,
    until_empty,
)
from support.registry import Registry, serve_registry
from support.waiting import until

from coworld_core.episode.events import BaseEvent, LeakFound, Notice
from coworld_core.episode.outcome import Exit
from coworld_core.errors import BackendUnavailable, ImageError, NotReadyError, StartError, UsageError
from coworld_core.ids import new_run_id
from coworld_runner.backend import HttpProbe, Limits, Port, UnitSpec
from coworld_runner.backends import KubernetesBackend
from coworld_runner.backends.base import wait_until_ready
from coworld_runner.backends.kubernetes import _kubernetes_unit as units_module
from coworld_runner.backends.kubernetes import _start_attempts
from coworld_runner.backends.kubernetes._cluster import Cluster
from coworld_runner.backends.kubernetes._pod_objects import object_name
from coworld_runner.runs.scratch import make_scratch, remove_run, scratch_root
from coworld_runner.testing.conformance import subject_environment

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def shared_namespace() -> Generator[str]:
    with namespace_for_tests() as name:
        yield name


@pytest.fixture
def namespace(shared_namespace: str) -> Generator[str]:
    yield shared_namespace
    until_empty(shared_namespace)


def subject(run_id: str, name: str, *steps: str, **more: Any) -> UnitSpec:
    return dataclasses.replace(subject_spec(run_id, name, *steps), environment=subject_environment, **more)


class PublishedEvents(list[BaseEvent]):
    """Events, as they were published."""

    def notices(self) -> str:
        return " ".join(event.message for event in self if isinstance(event, Notice))


async def said(path: Path, text: str) -> None:
    """Wait until a log has a text."""
    await until(lambda: text in _read(path), seconds=180, what=f"{text!r} in {path.name}")


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


async def cluster_call(namespace: str, work: Callable[[Cluster], Awaitable[Any]]) -> Any:
    return await anyio.to_thread.run_sync(lambda: on_cluster(work, namespace=namespace))


# --- what is made -------------------------------------------------------------------------------------------------


async def test_everything_belongs_to_one_object_and_no_secret_stands_in_a_pod(namespace: str, tmp_path: Path) -> None:
    secret = "s3cret-of-a-player"
    with make_scratch(new_run_id()) as scratch:
        directory = scratch.directory("game", shared=True)
        (directory / "config.json").write_text(json.dumps({"tokens": [secret]}))
        large = os.urandom(1_500_000)
        (directory / "replay").write_bytes(large)
        spec = subject(
            scratch.run_id,
            "game",
            "write:done:1",
            "hang",
            directory=directory,
            ports=(Port(name="http"),),
            clients=("player-0",),
            secret_env={"TOKEN": secret},
        )
        async with backend_for(namespace) as backend, backend.units([spec], publish=print, grace=0) as (unit,):

            async def look(cluster: Cluster) -> dict[str, list[Any]]:
                kinds = ("pods", "services", "secrets", "jobs")
                return {kind: list((await cluster.list(kind, "coworld.run"))["items"]) for kind in kinds}

            made = await cluster_call(namespace, look)
            assert {kind: len(items) for kind, items in made.items()} == dict.fromkeys(made, 1)
            (job,) = made["jobs"]
            for kind in ("pods", "services", "secrets"):
                (owner,) = made[kind][0]["metadata"]["ownerReferences"]
                assert owner["uid"] == job["metadata"]["uid"]
            assert job["spec"]["activeDeadlineSeconds"] >= 900
            assert job["spec"]["ttlSecondsAfterFinished"] == 0
            # As the server keeps it, with nothing dropped
            pod = made["pods"][0]["spec"]
            assert secret not in json.dumps(made["pods"])
            assert pod["automountServiceAccountToken"] is False
            assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
            assert pod["shareProcessNamespace"] is True
            command = pod["containers"][0]["lifecycle"]["postStart"]["exec"]["command"]
            assert command[-2].endswith("/start_permit.py"), command
            # What no Secret can hold was brought before the unit started
            assert await unit.fetch("replay", tmp_path / "back") == len(large)
            assert (tmp_path / "back").read_bytes() == large


async def test_the_documented_role_is_enough(namespace: str, tmp_path: Path) -> None:
    """Somebody with the Role of docs/kubernetes/client plays and cleans; what is not in it is not permitted."""
    client = ROOT / "docs" / "kubernetes" / "client" / "client.yaml"
    await anyio.run_process(["kubectl", "apply", "-n", namespace, "-f", str(client)])
    kubeconfig = kubeconfig_of("coworld-client", namespace, tmp_path)
    backend = backend_for(namespace, kubeconfig=kubeconfig, network_policy=True)
    issues = await backend.check()
    assert [issue for issue in issues if issue.severity == "error"] == []
    with make_scratch(new_run_id()) as scratch:
        directory = scratch.directory("game", shared=True)
        game = subject(
            scratch.run_id,
            "game",
            *("serve:200", "write:results.json:{}", "hang"),
            directory=directory,
            stdout=scratch.path / "log",
            ports=(Port(name="http"),),
            clients=("player-0",),
            network="game-only",
        )
        told = PublishedEvents()
        async with backend, backend.units([game], publish=told.append, grace=0) as (unit,):
            await unit.wait_ready(HttpProbe(timeout=120))
            assert await unit.fetch("results.json", tmp_path / "results.json") == 2
            found = await backend.find(scratch.run_id)
            assert {item.kind for item in found} == {"pod", "service", "secret", "policy", "job", "directory"}
            cluster = backend._entered()
            for verb, kind in (
                ("create", "pods/exec"),
                ("get", "nodes"),
                ("create", "rolebindings"),
                ("patch", "pods"),
            ):
                resource, _, below = kind.partition("/")
                assert not await cluster.review(verb, resource, subresource=below), f"{verb} {kind}"
        assert [event for event in told if isinstance(event, LeakFound)] == []


async def test_collected_files_are_limited_and_stay_sparse(namespace: str, tmp_path: Path) -> None:
    """Directories below each other, beyond what a path may have; and a file of which nothing is written."""
    size = 64 << 20
    with make_scratch(new_run_id()) as scratch:
        spec = subject(scratch.run_id, "game", "hang", limits=Limits(disk_bytes=1 << 30, disk_entries=1000))
        code = f"""
import os, signal
os.chdir({spec.mount!r})
with open("replay", "wb") as file:
    file.truncate({size})
for number in range(2000):
    os.mkdir("deeper")
    os.chdir("deeper")
signal.pause()
"""
        directory = scratch.directory("game", shared=True)
        spec = dataclasses.replace(spec, argv=("python3", "-c", code), directory=directory)
        async with backend_for(namespace) as backend, backend.units([spec], publish=print, grace=0) as (unit,):
            ended = await unit.wait()
            assert (ended.reason, ended.detail) == ("disk", "1001 files and directories or more, 1000 allowed")
            assert await unit.fetch("replay", tmp_path / "replay") == size
            assert (tmp_path / "replay").stat().st_blocks * 512 < 1 << 20


# --- what a cluster may do ----------------------------------------------------------------------------------------


async def test_deleted_pod_is_reported_by_name(namespace: str) -> None:
    with make_scratch(new_run_id()) as scratch:
        specs = [subject(scratch.run_id, name, "hang") for name in ("one", "other")]
        async with backend_for(namespace) as backend, backend.units(specs, publish=print, grace=0) as (one, other):
            pod = object_name(scratch.run_id, "one")

            async def delete(cluster: Cluster) -> None:
                await cluster.delete("pods", pod, grace=1)

            await cluster_call(namespace, delete)
            with anyio.fail_after(180):
                ended = await one.wait()
            assert ended.reason == "lost"
            assert pod in ended.detail
            assert "deleted by somebody else" in ended.detail
            assert other.exit is None


async def test_a_pod_without_its_collector_is_lost(namespace: str) -> None:
    """Nothing it writes would come out, and whether it is ready could be asked for ever."""
    with make_scratch(new_run_id()) as scratch:
        spec = subject(scratch.run_id, "game", "serve:200:go", "hang", ports=(Port(name="http"),))
        async with backend_for(namespace) as backend, backend.units([spec], publish=print, grace=0) as (unit,):
            pod = object_name(scratch.run_id, "game")

            kill_container(await cluster_call(namespace, lambda cluster: cluster.get("pods", pod)), "collector")
            with anyio.fail_after(180), pytest.raises(NotReadyError) as caught:
                # The time is up long before the cluster tells of it
                await unit.wait_ready(HttpProbe(timeout=0.1))
            assert caught.value.context["exit"]["reason"] == "lost"
            assert unit.exit is not None
            assert unit.exit.detail == f"the collector of pod {namespace}/{pod} ended by itself: Error: status 137"


async def test_unschedulable_pod_and_missing_image_are_reported(
    namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dataclasses

    monkeypatch.setattr(_start_attempts, "_RETRY_SECONDS", 1.0)
    with make_scratch(new_run_id()) as scratch:
        nowhere = small_pods(node_selector={"coworld.invalid/nowhere": "true"})
        async with backend_for(namespace, pods=nowhere) as backend:
            with pytest.raises(StartError) as caught:
                async with backend.units([subject(scratch.run_id, "one", "hang")], publish=print):
                    pytest.fail("it was started")
            assert caught.value.code == "unschedulable"
            assert "nodes are available" in caught.value.message
        async with backend_for(namespace) as backend:
            missing = dataclasses.replace(
                subject(scratch.run_id, "two", "hang"), image="coworld.invalid/no-such-image:never"
            )
            with pytest.raises(StartError) as absent:
                async with backend.units([missing], publish=print):
                    pytest.fail("it was started")
            assert absent.value.code == "registry_unavailable"
            assert "ErrImagePull" in absent.value.message or "ImagePullBackOff" in absent.value.message


async def test_a_look_at_an_image_is_left_alone_while_its_looker_lives(namespace: str) -> None:
    """While a registry does not answer it is somebody's; when that one is killed, it is cleaned up after like a run."""

    async with serve_streams(lambda _: anyio.sleep_forever()) as address, backend_for(namespace) as backend:
        with subprocess.Popen(  # noqa: ASYNC220 - killed below
            [sys.executable, "-c", _LOOKER, namespace, f"{address}/coworld/nothing:never"],
            env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
        ) as looker:
            try:

                async def looks() -> bool:
                    return "pod" in {item.kind for item in await backend.find()}

                await until(looks, seconds=180, what="a pod", every=0.1)
                found = await backend.find()
                assert {item.kind for item in found} == {"pod", "job", "directory"}
                assert all(item.alive and item.run_id.startswith("image-") for item in found), found
                assert not any(item.removed for item in await backend.reap(found))
            finally:
                looker.kill()
        left = await backend.find()
        assert {item.kind for item in left} == {"pod", "job", "directory"}
        assert all(item.removed for item in await backend.reap(left))
        assert await backend.find() == ()


_LOOKER = """
import sys, anyio
from support.kube import backend_for

async def look():
    async with backend_for(sys.argv[1]) as backend:
        await backend.ensure_image(sys.argv[2])

anyio.run(look)
"""


async def test_a_registry_that_wants_a_login_gets_it_from_a_pull_secret(namespace: str) -> None:
    """A secret that a node reads too late for its first attempt, here because it is made after it, still counts."""
    with serve_registry(Registry(login="somebody:s3cret")) as registry:
        entry = {"auth": base64.b64encode(registry.login.encode()).decode()}
        content = json.dumps({"auths": {registry.address: entry}})

        async def prepare(cluster: Cluster) -> None:
            body = {
                "metadata": {"name": "pull"},
                "type": "kubernetes.io/dockerconfigjson",
                "stringData": {".dockerconfigjson": content},
            }
            await cluster.create("secrets", body)

        async def prepare_late() -> None:
            await anyio.to_thread.run_sync(registry.refused.wait, 120)
            await cluster_call(namespace, prepare)

        try:
            async with backend_for(namespace) as backend:
                with pytest.raises(ImageError) as caught:
                    await backend.ensure_image(registry.image())
                assert caught.value.code == "image_unreachable"
            registry.refused.clear()
            async with backend_for(namespace, pull_secrets=("pull",)) as backend, anyio.create_task_group() as beside:
                beside.start_soon(prepare_late)
                info = await backend.ensure_image(registry.image())
            assert info.image == registry.image()
            assert registry.manifests > 0
        finally:
            await anyio.to_thread.run_sync(drop_image, registry.image())
            await cluster_call(namespace, lambda cluster: cluster.delete("secrets", "pull"))


async def test_runs_wait_for_the_quota_rather_than_fail(namespace: str) -> None:
    told = PublishedEvents()
    ended: list[Exit] = []

    async def set_quota(cluster: Cluster) -> None:
        body = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "3"}}}
        await cluster.call("POST", cluster.path("resourcequotas"), body=body)

        async def holds() -> bool:
            return bool((await cluster.get("resourcequotas", "few"))["status"].get("hard"))

        await until(holds, seconds=180, what="a quota that holds", every=0.1)

    async def drop_quota(cluster: Cluster) -> None:
        await cluster.delete("resourcequotas", "few")

    await cluster_call(namespace, set_quota)
    try:
        async with backend_for(namespace) as backend, anyio.create_task_group() as tasks:

            async def play() -> None:
                with make_scratch(new_run_id()) as scratch:
                    spec = subject(scratch.run_id, "one", "exit:0")
                    async with backend.units([spec], publish=told.append, grace=0) as (unit,):
                        ended.append(await unit.wait())

            for _ in range(3):
                tasks.start_soon(play)
    finally:
        await cluster_call(namespace, drop_quota)
    assert [exit.ok for exit in ended] == [True, True, True]
    assert "Waiting for room" in told.notices()


@pytest.mark.parametrize(
    ("kind", "spec", "code", "words"),
    [
        ("resourcequotas", {"hard": {"requests.cpu": "2m"}}, "quota_exceeded", "exceeded quota: few"),
        # One pod besides that of the run's owner, which nobody gives back
        ("resourcequotas", {"hard": {"pods": "2"}}, "quota_exceeded", "exceeded quota: few"),
        ("limitranges", {"limits": [{"type": "Pod", "max": {"memory": "8Mi"}}]}, "limit_range", "maximum memory usage"),
    ],
)
async def test_what_nobody_gives_back_is_told_rather_than_waited_for(
    namespace: str, kind: Any, spec: Any, code: str, words: str
) -> None:
    async def limit(cluster: Cluster) -> None:
        await cluster.call("POST", cluster.path(kind), body={"metadata": {"name": "few"}, "spec": spec})

        async def holds() -> bool:
            return "hard" not in spec or bool((await cluster.get(kind, "few"))["status"].get("hard"))

        await until(holds, seconds=180, what="a quota that holds", every=0.1)

    await cluster_call(namespace, limit)
    try:
        with make_scratch(new_run_id()) as scratch:
            units = [subject(scratch.run_id, name, "hang") for name in ("one", "two")]
            async with backend_for(namespace) as backend:
                with pytest.raises(StartError) as caught:
                    async with backend.units(units, publish=print, grace=0):
                        pytest.fail("they were started")
    finally:
        await cluster_call(namespace, lambda cluster: cluster.delete(kind, "few"))
    assert caught.value.code == code
    assert words in caught.value.message
    assert namespace in (caught.value.hint or "")


# --- when it does not answer --------------------------------------------------------------------------------------


async def test_a_server_that_comes_back_costs_nothing(namespace: str, tmp_path: Path) -> None:
    """Every connection breaks while a unit writes, serves and is waited for; nothing is lost, nothing comes twice."""
    with make_scratch(new_run_id()) as scratch:
        directory = scratch.directory("game", shared=True)
        log = scratch.path / "game.log"
        spec = subject(
            scratch.run_id,
            "game",
            *("print:before", "flood:200000", "serve:200", "print:serving", "wait:go", "print:after", "flood:200000"),
            *("write:results.json:{}", "exit:0"),
            directory=directory,
            stdout=log,
            ports=(Port(name="http"),),
        )
        names: list[str] = []
        async with (
            blockable_way(tmp_path) as (way, kubeconfig),
            backend_for(namespace, kubeconfig=kubeconfig) as backend,
            backend.units([spec], publish=print) as (unit,),
            anyio.create_task_group() as tasks,
        ):
            await unit.wait_ready(HttpProbe(timeout=120))
            await said(log, "serving\n")

            async def follow() -> None:
                async with unit.written() as written:
                    names.extend([name async for name in written])

            tasks.start_soon(follow)
            before = way.connections
            way.block()
            await anyio.to_thread.run_sync(_go, scratch.run_id)
            await until(backend.trouble, seconds=180, what="trouble", every=0.05)
            assert unit.exit is None
            way.unblock()
            with anyio.fail_after(180):
                assert (await unit.wait()).ok
            assert way.connections > before
            assert await unit.fetch("results.json", tmp_path / "results.json") == 2
            assert backend.trouble() == ""
        text = log.read_text()
        assert text.startswith("before\n")
        assert text.count("serving\n") == text.count("after\n") == 1
        assert len(text) == len("before\nserving\nafter\n") + 400_000
        assert "results.json" in names


def _go(run_id: str) -> None:
    from support.kube import pod_directory

    (pod_directory(run_id, "game") / "go").touch()


async def test_a_unit_that_could_not_be_asked_has_its_time_once_it_can(
    namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_vain = anyio.Event()

    async def asked(*args: Any, **more: Any) -> float:
        try:
            return await wait_until_ready(*args, **more)
        except NotReadyError:
            in_vain.set()
            raise

    monkeypatch.setattr(units_module, "wait_until_ready", asked)
    with make_scratch(new_run_id()) as scratch:
        directory = scratch.directory("game", shared=True)
        spec = subject(scratch.run_id, "game", "serve:200:go", "hang", directory=directory, ports=(Port(name="http"),))
        async with (
            blockable_way(tmp_path) as (way, kubeconfig),
            backend_for(namespace, kubeconfig=kubeconfig) as backend,
            backend.units([spec], publish=print, grace=0) as (unit,),
        ):
            # Reached and unready is the unit's own doing
            with pytest.raises(NotReadyError, match="status 503"):
                await unit.wait_ready(HttpProbe(timeout=5))
            assert in_vain.is_set()
            in_vain = anyio.Event()
            way.block()
            ready = anyio.Event()

            async def wait() -> None:
                assert await unit.wait_ready(HttpProbe(timeout=1)) > 1
                ready.set()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                await in_vain.wait()
                await anyio.to_thread.run_sync(_go, scratch.run_id)
                assert not ready.is_set()
                way.unblock()


async def test_a_server_that_stays_away_is_the_platforms_fault(namespace: str, tmp_path: Path) -> None:
    told = PublishedEvents()
    with make_scratch(new_run_id()) as scratch:
        async with (
            blockable_way(tmp_path) as (way, kubeconfig),
            backend_for(namespace, kubeconfig=kubeconfig, outage=2) as backend,
            backend.units([subject(scratch.run_id, "one", "hang")], publish=told.append) as (unit,),
        ):
            way.block()
            with anyio.fail_after(180):
                ended = await unit.wait()
            assert ended.reason == "lost"
            assert "has not answered" in ended.detail
            assert backend.trouble()
            way.unblock()
        assert [event for event in told if isinstance(event, LeakFound)] == []


# --- when we are gone ---------------------------------------------------------------------------------------------


async def test_leftovers_of_a_killed_runner_expire(namespace: str) -> None:
    """Nobody cleans: the cluster removes the run once its lease, or on old clusters its lifetime, is over."""
    run_id = new_run_id()
    spec = subject(run_id, "orphan", "hang", ports=(Port(name="http"),), clients=("player-0",))
    try:
        async with orphaning(backend_for(namespace, lease=8, pods=small_pods(lifetime=30)), spec):
            left = await anyio.to_thread.run_sync(labelled, namespace, run_id)
            assert len(left) == 4, left

        async def gone() -> bool:
            return not await anyio.to_thread.run_sync(labelled, namespace, run_id)

        await until(gone, seconds=200, what="nothing of the run", every=1)
    finally:
        remove_run(scratch_root() / run_id)


# --- what cannot be used ------------------------------------------------------------------------------------------


async def test_a_cluster_that_cannot_be_used_says_why(namespace: str, tmp_path: Path) -> None:
    async def refused(**more: Any) -> BackendUnavailable:
        with pytest.raises(BackendUnavailable) as caught:
            async with KubernetesBackend(**more):
                pytest.fail("it was entered")
        assert caught.value.hint
        return caught.value

    assert (await refused(kubeconfig=tmp_path / "none")).code == "kubeconfig_missing"
    (tmp_path / "broken").write_text("clusters: [")
    assert (await refused(kubeconfig=tmp_path / "broken")).code == "kubeconfig_invalid"
    error = await refused(context="no-such-context")
    assert error.code == "context_missing"
    assert "no-such-context" in error.message
    error = await refused(namespace="no-such-namespace")
    assert error.code == "namespace_missing"
    async with blockable_way(tmp_path) as (way, kubeconfig):
        way.block()
        assert (await refused(kubeconfig=kubeconfig)).code == "cluster_unreachable"
        way.unblock()
        expired = {"token": "expired"}
        kubeconfig_with(tmp_path, lambda content: content["users"][0].update(user=expired), like=kubeconfig)
        assert (await refused(kubeconfig=kubeconfig)).code == "cluster_unauthorised"
    with pytest.raises(UsageError):
        await KubernetesBackend(namespace=namespace).find()
