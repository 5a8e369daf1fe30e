"""The worker on a real cluster with everything by files, and players where the platform wants them."""

from __future__ import annotations

import io
import json
import time
import zipfile
import zlib
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from support.cluster_workers import WorkerJobs, misfit_request, published_job
from support.kube import on_cluster
from support.misfit_kit import ensure_image

from coworld_runner.backends.kubernetes._cluster import Cluster

pytestmark = [pytest.mark.kubernetes, pytest.mark.docker, pytest.mark.timeout(600)]

LABELS = {"workload-type": "arena", "karpenter.sh/capacity-type": "on-demand"}
CLAIM = "outputs"


@pytest.fixture
def labelled_node() -> Generator[None]:
    """The node has what the platform asks for."""

    async def label(cluster: Cluster, values: dict[str, str | None]) -> None:
        for node in (await cluster.call("GET", "/api/v1/nodes"))["items"]:
            await cluster.call(
                "PATCH",
                f"/api/v1/nodes/{node['metadata']['name']}",
                body={"metadata": {"labels": values}},
                content_type="application/merge-patch+json",
            )

    on_cluster(lambda cluster: label(cluster, {**LABELS}))
    yield
    on_cluster(lambda cluster: label(cluster, dict.fromkeys(LABELS)))


@pytest.fixture
def claimed(operated: str, tmp_path: Path) -> Generator[Path]:
    """A directory that pods may claim."""
    directory = tmp_path / "claimed"
    directory.mkdir()
    # The worker runs as nobody in particular
    directory.chmod(0o777)
    common: dict[str, Any] = {"storageClassName": "", "accessModes": ["ReadWriteOnce"]}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": operated},
        "spec": {**common, "capacity": {"storage": "1Gi"}, "hostPath": {"path": str(directory)}},
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": CLAIM},
        "spec": {**common, "volumeName": operated, "resources": {"requests": {"storage": "1Gi"}}},
    }

    async def make(cluster: Cluster) -> None:
        await cluster.call("POST", "/api/v1/persistentvolumes", body=volume)
        await cluster.call("POST", f"/api/v1/namespaces/{operated}/persistentvolumeclaims", body=claim)

    on_cluster(make)
    yield directory
    on_cluster(lambda cluster: cluster.call("DELETE", f"/api/v1/persistentvolumes/{operated}"))


@pytest.mark.usefixtures("labelled_node")
async def test_files_on_a_claim_and_players_where_they_are_wanted(
    worker_jobs: WorkerJobs, operated: str, claimed: Path
) -> None:
    job_id = f"claimed-{time.time_ns()}"
    request = misfit_request("well", "tells", "tells", play_seconds=2.0)
    (claimed / "spec.json").write_text(request.model_dump_json(by_alias=True, exclude_none=True))
    secrets = {"policies": {"0": {"USE_BEDROCK": "true", "MY_KEY": "s3cret"}, "1": {"USE_BEDROCK": "false"}}}
    (claimed / "secrets.json").write_text(json.dumps(secrets))
    there = f"file:///claim/{job_id}"
    variables = {
        "JOB_SPEC_URI": "file:///claim/spec.json",
        "POLICY_SECRETS_URI": "/claim/secrets.json",
        "RESULTS_URI": f"{there}/results.json",
        "REPLAY_URI": f"/claim/{job_id}/deep/replay.z",
        "DEBUG_URI": f"{there}/debug.zip",
        "POLICY_LOG_URLS": json.dumps({str(slot): f"{there}/policy_agent_{slot}.log" for slot in range(2)}),
        "ERROR_INFO_URI": f"{there}/error_info.json",
        "WORKER_TIMINGS_URI": f"{there}/worker_timings.json",
        "COWORLD_WORKLOAD_TYPE": LABELS["workload-type"],
        "COWORLD_CAPACITY_TYPE": LABELS["karpenter.sh/capacity-type"],
        "COWORLD_BEDROCK_REGION": "us-east-9",
        "LOG_LEVEL": "DEBUG",
    }
    await worker_jobs.apply(published_job(job_id, ensure_image(), variables, operated, claim=CLAIM))
    players = {
        int(pod["metadata"]["labels"]["coworld-player-slot"]): pod for pod in await worker_jobs.players(job_id, count=2)
    }
    for pod in players.values():
        assert pod["spec"]["nodeSelector"] == LABELS
        wanted = {"key": "workload-type", "operator": "Equal", "value": "arena", "effect": "NoSchedule"}
        assert wanted in pod["spec"]["tolerations"]
        assert pod["spec"]["automountServiceAccountToken"] is False
    assert [players[slot]["spec"]["serviceAccountName"] for slot in range(2)] == ["episode-runner", "default"]
    assert await worker_jobs.status(job_id) == 0, await worker_jobs.log(job_id)

    kept = claimed / job_id
    names = sorted(str(path.relative_to(kept)) for path in kept.rglob("*") if path.is_file())
    logs = [f"policy_agent_{slot}.log" for slot in range(2)]
    assert names == ["debug.zip", "deep/replay.z", *logs, "results.json", "worker_timings.json"]
    assert json.loads((kept / "results.json").read_bytes())["ticks"] == 3
    assert zlib.decompress((kept / "deep/replay.z").read_bytes()) == b"the end\n"
    told = [dict(line.split("=", 1) for line in (kept / log).read_text().splitlines() if "=" in line) for log in logs]
    assert told[0]["AWS_REGION"] == told[0]["AWS_DEFAULT_REGION"] == "us-east-9"
    assert told[0]["MY_KEY"] == "s3cret"
    assert "AWS_REGION" not in told[1]
    with zipfile.ZipFile(io.BytesIO((kept / "debug.zip").read_bytes())) as archive:
        assert {"episode.json", "game.stdout.log", *logs} == set(archive.namelist())
    assert await worker_jobs.left(job_id) == []
