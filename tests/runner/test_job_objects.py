"""The Jobs of a run that pods play, as they are asked for."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from support.misfit_kit import misfit_plan
from support.pod_standards import restricted_problems

from coworld_core.episode.record import SlotRow
from coworld_core.errors import CapabilityError
from coworld_runner import EpisodeOptions
from coworld_runner.backends import ClusterOptions
from coworld_runner.backends.kubernetes.kubernetes_backend import KubernetesBackend
from coworld_runner.backends.kubernetes.pod_overlay import RESTRICTED_USER, as_user
from coworld_runner.episode.model_access import ModelAccess, ModelProvider
from coworld_runner.jobs import JobPods
from coworld_runner.jobs.__main__ import main
from coworld_runner.jobs.chunk_player import with_digests
from coworld_runner.jobs.episode_job import episode_secrets, refuse_programs
from coworld_runner.jobs.job_objects import HOPELESS, make_driver, make_episode_job, make_job
from coworld_runner.jobs.own_pod import OwnPod
from coworld_runner.package.plan import EpisodePlan

SCHEMA = Path(__file__).parents[1] / "support" / "schemas" / "job-1.33.json"
"""What Kubernetes 1.33 has published of Jobs (Apache-2.0), as far as ours go; nothing else is allowed there."""
QUEUE = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "arena"}}}


def episode_job(pods: JobPods) -> dict[str, Any]:
    plan = misfit_plan("well", "well", "well", image="misfits:1", secret_env={"KEY": "secret-of-players"})
    return make_episode_job(pods, "coworld-r-e", "r", "s3://arena/r", 7, plan, EpisodeOptions(), ("AWS_REGION",))


def jobs() -> dict[str, dict[str, Any]]:
    pods = JobPods(image="worker:1", cluster=ClusterOptions(pods={"all": QUEUE}, pull_secrets=("ours",)))
    return {
        "plays": make_job(pods, "coworld-r-p", "r", "s3://arena/r", ("AWS_REGION",), judges=True),
        "drives": make_driver(pods, "coworld-r-d", "r", "s3://arena/r", programs=True, judges=True),
        "episode": episode_job(pods),
    }


@pytest.mark.parametrize("name", jobs())
def test_newer_clusters_know_all_that_a_job_says(name: str) -> None:
    """Checked against what they publish: the cluster of these tests drops what it does not know."""
    checked = Draft7Validator(json.loads(SCHEMA.read_text()))
    job = jobs()[name]
    assert [error.message for error in checked.iter_errors(job)] == []
    job["spec"]["template"]["spec"]["containers"][0]["securityContext"]["runAsRoot"] = True
    assert [error.message for error in checked.iter_errors(job)]


def test_what_ends_pods_is_told_apart_where_the_cluster_can() -> None:
    for name, ours in (("plays", "courier"), ("drives", "driver")):
        fails, ignored = jobs()[name]["spec"]["podFailurePolicy"]["rules"]
        # A player is free to end with any status
        ended = {"containerName": ours, "operator": "In", "values": [HOPELESS]}
        assert fails == {"action": "FailJob", "onExitCodes": ended}
        assert ignored == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    assert "podFailurePolicy" not in make_job(JobPods(image="worker:1"), "n", "r", "s3://arena/r")["spec"]


def test_a_run_that_is_not_there_is_hopeless(tmp_path: Path) -> None:
    assert main(["drive", str(tmp_path), "--folder", str(tmp_path / "folder")]) == HOPELESS


def test_an_episode_of_images_meets_the_restricted_standard_as_a_user_of_ours() -> None:
    pods = JobPods(image="worker:1")
    found = list(restricted_problems(episode_job(pods)["spec"]["template"]))
    assert {one.rpartition(" ")[2] for one in found} == {"game", "player-0", "player-1"}, "images name their users"
    pods.overlay = pods.overlay.over(as_user(RESTRICTED_USER))
    assert list(restricted_problems(episode_job(pods)["spec"]["template"])) == []
    for name in ("plays", "drives"):
        assert list(restricted_problems(jobs()[name]["spec"]["template"])) == []


def test_the_pod_that_makes_those_of_an_isolated_episode() -> None:
    where = ClusterOptions(
        pods={"all": QUEUE, "player": {"spec": {"runtimeClassName": "gvisor"}}}, collector_image="c:1"
    )
    pods = JobPods(image="worker:1", cluster=where)
    plan = misfit_plan("well", "well", "well", image="misfits:1", secret_env={"KEY": "secret-of-players"})
    options = EpisodeOptions(timeout_seconds=60)
    job = make_episode_job(pods, "n", "r", "s3://arena/r", 7, plan, options, ("AWS_REGION",), isolated=True)
    template = job["spec"]["template"]
    (worker,) = template["spec"]["containers"]
    assert template["spec"]["serviceAccountName"] == "coworld-client"
    assert list(restricted_problems(template)) == []
    # What a queue would give it, the pods that it makes would wait for
    assert not [name for labels in (job, template) for name in labels["metadata"]["labels"] if "kueue" in name]
    known = {one["name"]: one.get("value") for one in worker["env"]}
    assert {"COWORLD_TOKENS", "COWORLD_SECRETS", "AWS_REGION", "JOB_UID"} <= known.keys()
    assert "secret-of-players" not in json.dumps(job)
    environ = {name: str(value).replace("$$", "$") for name, value in known.items()} | {
        "POD_NAMESPACE": "arena",
        "POD_NAME": "p",
        "POD_UID": "u",
        "JOB_UID": "j",
        **{name: value.decode() for name, value in given(plan).items()},
    }
    told = JobPods.told(environ)
    assert told is not None
    assert told.cluster == dataclasses.replace(where, namespace="arena")
    own = OwnPod.of(environ, apart=told.cluster)
    backend = own.backend(ready_seconds=1)
    assert isinstance(backend, KubernetesBackend)
    seats = own.informed(plan).seats
    assert [dict(seat.secret_env) for seat in seats] == [{"KEY": "secret-of-players"}] * 2
    assert own.informed(plan).tokens == ("token-of-0", "token-of-1")


def given(plan: EpisodePlan) -> dict[str, bytes]:
    found = episode_secrets(plan, ("token-of-0", "token-of-1"))
    return {"COWORLD_TOKENS": found["tokens"], "COWORLD_SECRETS": found["secrets"]}


def test_isolated_programs_may_be_asked_to_be_kept_apart() -> None:
    refuse_programs(EpisodeOptions(player_https=("api.example.org",), record="frames"), isolated=True)
    asking = ModelAccess(providers={"openai": ModelProvider(address="http://models.example.org", key="key")})
    with pytest.raises(CapabilityError, match="a way to models"):
        refuse_programs(EpisodeOptions(models=asking), isolated=True)


def test_a_digest_is_taken_from_a_store_only_as_one() -> None:
    planned = (SlotRow(name="a", image="i:1"), SlotRow(name="b", image="i:1"), SlotRow(name="c", digest="own"))
    digest = f"sha256:{'0' * 64}"
    played = tuple(
        slot.model_copy(update={"digest": told}) for slot, told in zip(planned, (digest, "<b>", digest), strict=True)
    )
    assert [slot.digest for slot in with_digests(planned, played)] == [digest, "", "own"]
