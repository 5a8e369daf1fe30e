"""The hosted worker on a real cluster: what it hands over, and what becomes of it when somebody fails."""

from __future__ import annotations

import io
import json
import time
import zipfile
import zlib
from typing import Any

import anyio
import anyio.to_thread
import pytest
from support.cluster_workers import WorkerJobs, accounts_have_tokens, misfit_request, published_job
from support.images import drop_image
from support.kube import kill_container
from support.misfit_kit import ensure_image
from support.registry import Registry, serve_registry

from coworld_core.episode.record import read_record

pytestmark = [pytest.mark.kubernetes, pytest.mark.docker, pytest.mark.timeout(1800)]

KEEPER = (
    "python3",
    "-c",
    """
import os, signal, time, urllib.request
import player

def late(number, frame):
    raise TimeoutError

signal.signal(signal.SIGALRM, late)
signal.alarm(15)
try:
    player.play()
except TimeoutError:
    print("the game does not say that it is over", flush=True)
signal.alarm(0)
time.sleep(2)
url = os.environ["COWORLD_PLAYER_ARTIFACT_UPLOAD_URL"]
request = urllib.request.Request(url, data=player.zipped(10), method="PUT", headers={"Content-Type": "application/zip"})
for _ in range(3):
    try:
        urllib.request.urlopen(request, timeout=3).close()
    except OSError as error:
        print(f"once more: {error}", flush=True)
    else:
        print("kept", flush=True)
        break
""",
)
"""A player that uploads something when the game has been over for a while, and does not wait for ever for a network."""


async def test_a_platform_that_drives_the_published_worker_drives_ours(worker_jobs: WorkerJobs) -> None:
    job_id = f"published-{time.time_ns()}"
    request = misfit_request("well", "tells", KEEPER, seed=7)
    worker_jobs.server.documents["/spec"] = request.model_dump_json(by_alias=True, exclude_none=True).encode()
    secrets = {"policies": {"0": {"MY_KEY": "s3cret$$HOME$(POD_NAME)"}}}
    worker_jobs.server.documents["/secrets"] = json.dumps(secrets).encode()
    base = f"{worker_jobs.server.url}/{job_id}"
    urls = {
        "JOB_SPEC_URI": f"{worker_jobs.server.url}/spec",
        "POLICY_SECRETS_URI": f"{worker_jobs.server.url}/secrets",
        "PLAYER_ARTIFACT_UPLOAD_URLS": json.dumps({"1": f"{base}/policy_artifact_1.zip"}),
        "RESULTS_URI": f"{base}/results.json",
        "REPLAY_URI": f"{base}/replay.z",
        "DEBUG_URI": f"{base}/debug.zip",
        "POLICY_LOG_URLS": json.dumps({str(slot): f"{base}/policy_agent_{slot}.log" for slot in range(2)}),
        "ERROR_INFO_URI": f"{base}/error_info.json",
        "WORKER_TIMINGS_URI": f"{base}/worker_timings.json",
    }
    # The first answers are those of a store that is not quite up yet
    worker_jobs.server.faults |= {
        "/spec": [503],
        f"/{job_id}/results.json": [503, "reset"],
        f"/{job_id}/replay.z": ["503/1"],
    }
    await worker_jobs.apply(published_job(job_id, ensure_image(), urls, worker_jobs.cluster.namespace))
    status = await worker_jobs.status(job_id)
    log = await worker_jobs.log(job_id)
    assert status == 0, log
    kept = worker_jobs.kept(job_id)
    assert sorted(kept) == [
        "debug.zip",
        "policy_agent_0.log",
        "policy_agent_1.log",
        "policy_artifact_1.zip",
        "replay.z",
        "results.json",
        "worker_timings.json",
    ], kept["policy_agent_1.log"].decode() + log
    # Byte for byte what the game wrote
    assert kept["results.json"] == b'{"scores": [7, 8], "ticks": 3}'
    assert zlib.decompress(kept["replay.z"]) == b"the end\n"
    with zipfile.ZipFile(io.BytesIO(kept["debug.zip"])) as archive:
        assert set(archive.namelist()) == {
            "game.stdout.log",
            "policy_agent_0.log",
            "policy_agent_1.log",
            "episode.json",
        }
        assert archive.read("game.stdout.log").startswith(b"misfits: well\n")
        for slot in range(2):
            assert archive.read(f"policy_agent_{slot}.log") == kept[f"policy_agent_{slot}.log"]
        record = read_record(archive.read("episode.json"))
    assert record.ok, record.faults
    assert record.leaks == ()
    assert record.backend == "kubernetes-job"
    # The second player was given the time to upload what it kept
    assert kept["policy_agent_1.log"].endswith(b"kept\n")
    assert zipfile.is_zipfile(io.BytesIO(kept["policy_artifact_1.zip"]))
    timings = json.loads(kept["worker_timings.json"])
    assert list(timings) == ["game_boot_s", "player_launch_s", "first_step_s", "gameplay_s", "artifact_upload_s"]
    assert all(isinstance(value, float) and value >= 0 for value in timings.values())
    # The order in which nothing half-done looks finished
    order = [path.removeprefix(f"/{job_id}/") for path in worker_jobs.server.order()]
    assert order[-2:] == ["results.json", "worker_timings.json"]
    types = {name: worker_jobs.server.put_of(f"/{job_id}/{name}").content_type for name in kept}
    assert types == {
        "debug.zip": "application/zip",
        "policy_agent_0.log": "text/plain",
        "policy_agent_1.log": "text/plain",
        "policy_artifact_1.zip": "application/zip",
        "replay.z": "application/x-compress",
        "results.json": "application/json",
        "worker_timings.json": "application/json",
    }
    assert all(put.length is not None for put in worker_jobs.server.puts)
    # What the first player was told
    told = dict(line.split("=", 1) for line in kept["policy_agent_0.log"].decode().splitlines() if "=" in line)
    assert told["MY_KEY"] == "s3cret$$HOME$(POD_NAME)"
    assert json.loads(told["BEDROCK_REQUEST_METADATA"]) == {"team": "red", "slot": "0"}
    assert told["COWORLD_PLAYER_WS_URL"] == told["COGAMES_ENGINE_WS_URL"]
    assert told["COWORLD_PLAYER_WS_URL"].startswith(f"ws://coworld-{job_id}:8080/player?slot=0&token=")
    assert "COWORLD_PLAYER_ARTIFACT_UPLOAD_URL" not in told
    assert "s3cret" not in log
    assert await worker_jobs.left(job_id) == []


async def test_a_game_that_fails(worker_jobs: WorkerJobs) -> None:
    job_id = await worker_jobs.submit(misfit_request("exits-5"), worker_jobs.options(2))
    assert await worker_jobs.status(job_id) == 1
    kept = worker_jobs.kept(job_id)
    assert {"results.json", "replay.z", "worker_timings.json"}.isdisjoint(kept)
    error = worker_jobs.error_info(job_id)
    assert list(error) == ["error_type", "message", "failed_policy_index"]
    assert error["error_type"] == "game_unhealthy"
    assert "exited with status 5" in error["message"]
    assert error["failed_policy_index"] is None
    with zipfile.ZipFile(io.BytesIO(kept["debug.zip"])) as archive:
        assert b"something is very wrong" in archive.read("game.stdout.log")
    assert await worker_jobs.left(job_id) == []


async def test_a_player_that_fails(worker_jobs: WorkerJobs) -> None:
    """One that crashes is seen at once, and named."""
    crashing = await worker_jobs.submit(misfit_request("hangs", "well", "exits-3-midway"), worker_jobs.options(2))
    assert await worker_jobs.status(crashing) == 1
    error = worker_jobs.error_info(crashing)
    assert (error["error_type"], error["failed_policy_index"]) == ("player_error", 1)
    assert "exited with status 3" in error["message"]
    assert worker_jobs.kept(crashing)["policy_agent_1.log"].startswith(b"player: exits-3-midway")
    assert await worker_jobs.left(crashing) == []


async def test_players_images_are_pulled_while_the_game_boots(worker_jobs: WorkerJobs) -> None:
    with serve_registry(Registry()) as registry:
        registry.release.clear()
        request = misfit_request("healthy-late", "well", "well", delay=600.0)
        elsewhere = request.players[1].model_copy(update={"image": registry.image()})
        request = request.model_copy(update={"players": (request.players[0], elsewhere)})
        job_id = await worker_jobs.submit(request, worker_jobs.options(2))
        try:
            asked = await anyio.to_thread.run_sync(registry.layer_asked.wait, 120)
            assert asked, await worker_jobs.log(job_id)
            assert await worker_jobs.players(job_id, count=0) == []
            registry.release.set()
            await worker_jobs.until(lambda: _pulls_nothing(worker_jobs, job_id))
            assert await worker_jobs.players(job_id, count=0) == []
            await worker_jobs.cluster.delete("jobs", f"coworld-{job_id}")
            await worker_jobs.until(lambda: _nothing_left(worker_jobs, job_id))
        finally:
            await anyio.to_thread.run_sync(drop_image, registry.image())


async def _pulls_nothing(worker_jobs: WorkerJobs, job_id: str) -> bool:
    listing = await worker_jobs.cluster.list("pods", f"coworld-job-id={job_id},coworld-component=image")
    return not listing["items"]


async def test_results_are_withheld_when_something_else_cannot_be_uploaded(worker_jobs: WorkerJobs) -> None:
    options = worker_jobs.options(2)
    worker_jobs.server.faults[f"/{options.job_id}/policy_agent_1.log"] = [403]
    job_id = await worker_jobs.submit(misfit_request("well"), options)
    assert await worker_jobs.status(job_id) == 1
    kept = worker_jobs.kept(job_id)
    assert "results.json" not in kept
    assert {"replay.z", "debug.zip", "policy_agent_0.log"} <= set(kept)
    error = worker_jobs.error_info(job_id)
    assert error["error_type"] == "crash"
    assert error["message"].startswith("artifact_transport_error: The log of player 1 could not be uploaded")
    assert await worker_jobs.left(job_id) == []


async def test_the_rights_of_the_published_worker_are_enough(worker_jobs: WorkerJobs) -> None:
    """Pods are looked at where they may not be watched, and secrets stand in pods where Secrets may not be made."""
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "get", "list", "delete"]},
        {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["services"], "verbs": ["create", "get", "delete"]},
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["delete"]},
    ]
    name, namespace = {"metadata": {"name": "published"}}, worker_jobs.cluster.namespace
    group = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    await worker_jobs.cluster.call("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", body=name)
    await worker_jobs.cluster.call("POST", f"{group}/roles", body={**name, "rules": rules})
    binding = {
        **name,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "published"},
        "subjects": [{"kind": "ServiceAccount", "name": "published", "namespace": namespace}],
    }
    await worker_jobs.cluster.call("POST", f"{group}/rolebindings", body=binding)
    await accounts_have_tokens(worker_jobs.cluster)
    options = worker_jobs.options(2, service_account="published")
    # Without being told that it may, no secret is written into a pod
    refused = await worker_jobs.submit(misfit_request("well"), options)
    assert await worker_jobs.status(refused) == 1
    assert "secret of player-0 could not be made" in worker_jobs.error_info(refused)["message"]
    allowed = await worker_jobs.submit(
        misfit_request("well"), worker_jobs.options(2, service_account="published"), COWORLD_PLAIN_PLAYER_ENV="1"
    )
    assert await worker_jobs.status(allowed) == 0, await worker_jobs.log(allowed)
    record = read_record(worker_jobs.kept(allowed)["episode.json"])
    assert record.ok, record.faults
    assert [warning for warning in record.warnings if "may not watch pods" in warning]
    assert await worker_jobs.left(refused) == await worker_jobs.left(allowed) == []


async def test_worker_stops_on_sigterm(worker_jobs: WorkerJobs) -> None:
    """Deleted in the middle of a game: what there is is handed over, and nothing stays. Its players meanwhile."""
    job_id = await worker_jobs.submit(misfit_request("hangs", "tells", "well"), worker_jobs.options(2))
    players = await worker_jobs.players(job_id, count=2, phase="Running")
    for player in players:
        _check_hardened(player, job_id)
    pod = (await worker_jobs.pod(job_id))["metadata"]["name"]
    secrets = (await worker_jobs.cluster.list("secrets", f"coworld-job-id={job_id}"))["items"]
    assert {entry["metadata"]["ownerReferences"][0]["name"] for entry in secrets} == {pod}
    assert "game" in {entry["metadata"]["labels"].get("coworld-component") for entry in [await worker_jobs.pod(job_id)]}
    await worker_jobs.until(lambda: _has_said(worker_jobs, f"coworld-{job_id}-player-0", "token="))
    # Not the pod alone, which a Job makes anew
    await worker_jobs.cluster.delete("jobs", f"coworld-{job_id}")
    await worker_jobs.until(
        lambda: _has_kept(worker_jobs, job_id, "error_info.json", "debug.zip", "policy_agent_0.log")
    )
    error = worker_jobs.error_info(job_id)
    assert error["error_type"] == "crash"
    assert error["message"].startswith("interrupted: ")
    assert "results.json" not in worker_jobs.kept(job_id)
    assert b"player: tells" in worker_jobs.kept(job_id)["policy_agent_0.log"]
    await worker_jobs.until(lambda: _nothing_left(worker_jobs, job_id))


async def _has_said(worker_jobs: WorkerJobs, pod: str, words: str) -> bool:
    return words in str(await worker_jobs.cluster.call("GET", worker_jobs.cluster.path("pods", pod, "log")))


async def _has_kept(worker_jobs: WorkerJobs, job_id: str, *names: str) -> bool:
    return set(names) <= set(worker_jobs.kept(job_id))


async def _nothing_left(worker_jobs: WorkerJobs, job_id: str) -> bool:
    return await worker_jobs.left(job_id) == []


def _check_hardened(pod: Any, job_id: str) -> None:
    metadata, spec = pod["metadata"], pod["spec"]
    slot = metadata["labels"]["coworld-player-slot"]
    assert metadata["name"] == f"coworld-{job_id}-player-{slot}"
    assert metadata["labels"]["coworld-component"] == "player"
    assert metadata["ownerReferences"][0]["kind"] == "Pod"
    assert spec["automountServiceAccountToken"] is False
    assert spec["restartPolicy"] == "Never"
    assert spec["activeDeadlineSeconds"] <= 300
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    [container] = spec["containers"]
    assert container["name"] == "player"
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert {"memory", "ephemeral-storage"} <= set(container["resources"]["limits"])
    assert "volumeMounts" not in container
    # Neither tokens nor secrets stand in the pod
    values = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert values["COWORLD_PLAYER_WS_URL"] is values["COGAMES_ENGINE_WS_URL"] is None
    assert "token=" not in json.dumps(pod)


async def test_a_game_that_lingers_and_an_earlier_attempt_of_its_worker(worker_jobs: WorkerJobs) -> None:
    """What an earlier worker left is replaced; results count when they are complete, not when the game ends."""
    options = worker_jobs.options(2)
    name = f"coworld-{options.job_id}"
    labels = {"coworld-job-id": options.job_id, "coworld-attempt": "earlier"}
    service = {"metadata": {"name": name, "labels": labels}, "spec": {"ports": [{"port": 8080}]}}
    await worker_jobs.cluster.create("services", service)
    container = {"name": "player", "image": ensure_image(), "command": ["sleep", "600"]}
    pod = {"metadata": {"name": f"{name}-player-0", "labels": labels}, "spec": {"containers": [container]}}
    pod["spec"]["terminationGracePeriodSeconds"] = 0  # type: ignore[index]
    await worker_jobs.cluster.create("pods", pod)
    job_id = await worker_jobs.submit(
        misfit_request("lingers", delay=600),
        options,
        grace=2,
        COWORLD_GAME_LINGER_SECONDS="1",
        COWORLD_PLAYER_ARTIFACT_SECONDS="10",
    )
    assert await worker_jobs.status(job_id) == 0, await worker_jobs.log(job_id)
    kept = worker_jobs.kept(job_id)
    assert json.loads(kept["results.json"])["ticks"] == 3
    assert "error_info.json" not in kept
    assert json.loads(kept["episode.json"])["status"] == "completed"
    assert await worker_jobs.left(job_id) == []
    # The worker is gone and its health port with it: the cluster ends the game
    assert await worker_jobs.status(job_id, "game") != 0


async def test_a_worker_that_is_killed_takes_its_game_and_players_with_it(worker_jobs: WorkerJobs) -> None:
    job_id = await worker_jobs.submit(misfit_request("hangs"), worker_jobs.options(2), grace=2)
    await worker_jobs.players(job_id, count=2, phase="Running")
    kill_container(await worker_jobs.pod(job_id), "worker")
    assert await worker_jobs.status(job_id) == 137
    assert await worker_jobs.status(job_id, "game") != 0
    # What it made belongs to its pod
    await worker_jobs.cluster.delete("jobs", f"coworld-{job_id}")
    await worker_jobs.until(lambda: _nothing_left(worker_jobs, job_id))
