"""The Jobs that worker and command line make: pods of players, and the Job around a game."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.cli_kit import coworld
from support.misfit_kit import misfit_plan
from support.pod_standards import restricted_problems

from coworld_core.episode.request import JobSpec, load_request
from coworld_core.errors import DocumentError, UsageError
from coworld_runner.backends.kubernetes._object_parts import literal
from coworld_runner.backends.kubernetes.pod_overlay import PodOverlay, as_user
from coworld_runner.worker.player_pods import (
    player_environment,
    player_pod,
    player_secret,
    pull_pod,
    service_body,
)
from coworld_runner.worker.worker_job import JobOptions, make_worker_job, output_addresses
from coworld_runner.worker.worker_settings import PlayerPods, Settings, read_settings


def settings(**more: Any) -> Settings:
    return Settings(
        **{
            "spec_uri": "/spec",
            "workdir": Path("/coworld"),
            "state_dir": Path("/coworld"),
            "job_id": "j1",
            "job_name": None,
            "namespace": "arena",
            "service": "svc",
            "pod_name": "svc-abc",
            "pod_uid": "u-1",
            **more,
        }
    )


def expanded(text: str, known: dict[str, str]) -> str:
    """What a cluster makes of a text in a pod: the algorithm of its documentation, character by character."""
    made, rest = "", text
    while rest:
        if rest[0] != "$" or len(rest) == 1:
            made, rest = made + rest[0], rest[1:]
        elif rest[1] == "$":
            made, rest = made + "$", rest[2:]
        elif rest[1] == "(" and ")" in rest:
            name = rest[2 : rest.index(")")]
            made += known.get(name, f"$({name})")
            rest = rest[rest.index(")") + 1 :]
        else:
            made, rest = made + rest[:2], rest[2:]
    return made


@pytest.mark.parametrize("text", ["plain", "$(HOME)", "$$", "$$(HOME)", "$", "a$b$(c", "$((HOME))", "$HOME $$$ $"])
def test_text_survives_variable_expansion(text: str) -> None:
    assert expanded(literal(text), {"HOME": "/root"}) == text


# --- players --------------------------------------------------------------------------------------------------------

GIVEN = {
    "MODE": "manifest",
    "AWS_REGION": "manifest",
    "COWORLD_PLAYER_SEED": "5",
    "COWORLD_PLAYER_WS_URL": "ws://svc:8080/player?slot=0&token=t0k3n",
    "COGAMES_ENGINE_WS_URL": "ws://svc:8080/player?slot=0&token=t0k3n",
    "COWORLD_PLAYER_ARTIFACT_UPLOAD_URL": "file:///nowhere",
}


def test_job_variable_precedence() -> None:
    chosen = settings(
        artifact_urls={0: "https://store/a0?signature"},
        players=PlayerPods(bedrock_region="eu-west-1", bedrock_metadata={"team": "red"}),
    )
    secrets = {"USE_BEDROCK": "true", "MODE": "secret", "COGAMES_ENGINE_WS_URL": "mine"}
    plain, concealed = player_environment(chosen, 0, variables=GIVEN, secrets=secrets)
    assert plain == {
        "AWS_REGION": "manifest",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "COWORLD_PLAYER_SEED": "5",
        "BEDROCK_REQUEST_METADATA": '{"team": "red", "slot": "0"}',
    }
    assert concealed == {
        "USE_BEDROCK": "true",
        "MODE": "secret",
        "COWORLD_PLAYER_WS_URL": GIVEN["COWORLD_PLAYER_WS_URL"],
        "COGAMES_ENGINE_WS_URL": GIVEN["COGAMES_ENGINE_WS_URL"],
        "COWORLD_PLAYER_ARTIFACT_UPLOAD_URL": "https://store/a0?signature",
    }
    # Nowhere to put an artifact: the player is told nothing
    plain, concealed = player_environment(settings(), 0, variables=GIVEN, secrets={})
    assert plain == {"MODE": "manifest", "AWS_REGION": "manifest", "COWORLD_PLAYER_SEED": "5"}
    assert set(concealed) == {"COWORLD_PLAYER_WS_URL", "COGAMES_ENGINE_WS_URL"}


def pod(chosen: Settings | None = None, **more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "image": "player:1",
        "argv": ("python", "-c", "print('$(HOME)')"),
        "plain": {"MODE": "$(HOME)"},
        "concealed": {"KEY": "hunter2"},
        "bedrock": False,
        "seconds": 90.5,
    }
    return player_pod(chosen or settings(), 3, "a1", **{**fields, **more})


def test_a_players_pod() -> None:
    made = pod()
    assert made["metadata"]["name"] == "svc-player-3"
    assert made["metadata"]["labels"] == {
        "coworld-job-id": "j1",
        "coworld-attempt": "a1",
        "coworld-component": "player",
        "coworld-player-slot": "3",
    }
    assert made["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] == "true"
    assert made["metadata"]["ownerReferences"] == [{"apiVersion": "v1", "kind": "Pod", "name": "svc-abc", "uid": "u-1"}]
    spec, [container] = made["spec"], made["spec"]["containers"]
    assert spec["activeDeadlineSeconds"] == 90
    assert "serviceAccountName" not in spec
    assert "nodeSelector" not in spec
    assert container["name"] == "player"
    assert (container["command"], container["args"]) == (["python"], ["-c", "print('$$(HOME)')"])
    assert container["env"] == [
        {"name": "MODE", "value": "$$(HOME)"},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "svc-player-3-a1", "key": "env.0"}}},
    ]
    assert container["resources"] == {
        "requests": {"cpu": "2", "memory": "2Gi"},
        "limits": {"memory": "2Gi", "ephemeral-storage": "1Gi"},
    }
    secret = player_secret(settings(), 3, "a1", {"KEY": "hunter2"})
    assert secret["metadata"]["name"] == "svc-player-3-a1"
    assert base64.b64decode(secret["data"]["env.0"]) == b"hunter2"
    assert "hunter2" not in json.dumps(made)


def test_variations_of_it() -> None:
    assert pod()["spec"]["containers"][0]["imagePullPolicy"] == "Always"
    pinned = pod(image=f"player@sha256:{'0' * 64}")
    assert pinned["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert pod(bedrock=True)["spec"]["serviceAccountName"] == "episode-runner"
    assert "command" not in pod(argv=())["spec"]["containers"][0]
    players = PlayerPods(
        pull_policy="Never",
        workload_type="games",
        capacity_type="spot",
        memory_request="256Mi",
        memory_limit="300Mi",
        cpu_limit="1",
        plain_environment=True,
    )
    made = pod(settings(players=players))
    [container] = made["spec"]["containers"]
    assert container["imagePullPolicy"] == "Never"
    assert container["resources"]["limits"] == {"memory": "300Mi", "cpu": "1", "ephemeral-storage": "1Gi"}
    assert {"name": "KEY", "value": "hunter2"} in container["env"]
    assert made["spec"]["nodeSelector"] == {"workload-type": "games", "karpenter.sh/capacity-type": "spot"}
    assert made["spec"]["tolerations"] == [
        {"key": "workload-type", "operator": "Equal", "value": "games", "effect": "NoSchedule"}
    ]
    # A capacity type alone says nothing
    assert "nodeSelector" not in pod(settings(players=PlayerPods(capacity_type="spot")))["spec"]
    # What asks for more than the usual limit may have it
    big = pod(settings(players=PlayerPods(memory_request="3Gi")))
    assert big["spec"]["containers"][0]["resources"]["limits"]["memory"] == "3Gi"


def test_the_games_name() -> None:
    made = service_body(settings(game_port=9000), "a1")
    assert made["metadata"]["name"] == "svc"
    assert made["spec"]["selector"] == {"job-id": "j1", "coworld-component": "game"}
    assert made["spec"]["ports"] == [{"name": "http", "port": 8080, "targetPort": 9000, "protocol": "TCP"}]


# --- Jobs -----------------------------------------------------------------------------------------------------------


def request(**config: Any) -> JobSpec:
    plan = misfit_plan("well", image="misfits:1", **config)
    players = tuple(seat.runnable for seat in plan.seats if seat.runnable is not None)
    return JobSpec(manifest=plan.manifest, game_config=dict(plan.game_config), players=players)


def variables(container: dict[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}


def test_the_job() -> None:
    asked = request(seed=3)
    job = make_worker_job(asked, JobOptions(job_id="j1", worker_image="worker:1", deadline=600, namespace="arena"))
    assert job["metadata"]["namespace"] == "arena"
    assert job["spec"]["backoffLimit"] == 0
    assert job["spec"]["activeDeadlineSeconds"] == 600
    assert job["spec"]["ttlSecondsAfterFinished"] > 0
    template = job["spec"]["template"]
    assert template["metadata"]["labels"]["job-id"] == "j1"
    assert template["metadata"]["labels"]["coworld-component"] == "game"
    pod = template["spec"]
    [init], [game, worker] = pod["initContainers"], pod["containers"]
    assert (init["name"], game["name"], worker["name"]) == ("coworld-init-config", "game", "worker")
    assert (init["args"], worker["args"]) == (["init-config"], ["run"])
    assert game["image"] == "misfits:1"
    assert game["livenessProbe"]["tcpSocket"]["port"] == 9090
    told = variables(game)
    assert told["COGAME_RESULTS_URI"] == "file:///coworld/results.json"
    assert told["COGAME_EVENTS_URI"] == "file:///coworld/events.json"
    assert (told["COWORLD_EPISODE_ID"], told["COWORLD_SOURCE_REVISION"]) == ("j1", "misfits:1")
    for container in (init, game, worker):
        assert {"name": "coworld-workdir", "mountPath": "/coworld"} in container["volumeMounts"]
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
    # The worker's token and the players' are out of the game's reach
    mounted = {mount["name"] for mount in game["volumeMounts"]}
    assert mounted == {"coworld-workdir"}
    assert pod["automountServiceAccountToken"] is False
    told = variables(worker)
    assert told["JOB_SPEC_URI"] == variables(init)["JOB_SPEC_URI"]
    body = base64.b64decode(told["JOB_SPEC_URI"].partition(",")[2])
    assert load_request(body).request == asked
    assert {entry["name"] for entry in worker["env"] if "valueFrom" in entry} == {
        "JOB_NAMESPACE",
        "POD_NAME",
        "POD_UID",
    }
    assert told["COWORLD_TIMEOUT_SECONDS"] == "600"


def test_outputs() -> None:
    addresses = output_addresses("https://store/job 1/?sig=a", 2)
    assert addresses["replay"] == "https://store/job 1/replay.z?sig=a"
    assert addresses["artifact-1"] == "https://store/job 1/policy_artifact_1.zip?sig=a"
    job = make_worker_job(
        request(),
        JobOptions(
            output_claim="episodes", job_id="j1", outputs={"results": "https://store/r", "artifact-0": "https://s/a"}
        ),
    )
    pod = job["spec"]["template"]["spec"]
    told = variables(pod["containers"][1])
    assert told["RESULTS_URI"] == "https://store/r"
    assert told["REPLAY_URI"] == "file:///coworld-output/j1/replay.z"
    assert json.loads(told["POLICY_LOG_URLS"]) == {
        "0": "file:///coworld-output/j1/policy_agent_0.log",
        "1": "file:///coworld-output/j1/policy_agent_1.log",
    }
    # A player cannot reach the claim
    assert json.loads(told["PLAYER_ARTIFACT_UPLOAD_URLS"]) == {"0": "https://s/a"}
    assert variables(pod["initContainers"][0])["ERROR_INFO_URI"] == told["ERROR_INFO_URI"]
    assert {"name": "coworld-output", "persistentVolumeClaim": {"claimName": "episodes"}} in pod["volumes"]
    assert not any(mount["name"] == "coworld-output" for mount in pod["containers"][0]["volumeMounts"])


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"job_id": "Not a label"}, "bad_name"),
        ({"job_id": "x" * 49}, "bad_name"),
        ({"namespace": "A"}, "bad_name"),
        ({"worker_image": "-v"}, "bad_image"),
        ({"deadline": 0}, "bad_time"),
        ({"outputs": {"scores": "https://x/y"}}, "unknown_output"),
        ({"outputs": {"log-2": "https://x/y"}}, "unknown_output"),
        ({"outputs": {"results": "s3://x/y"}}, "bad_scheme"),
    ],
)
def test_invalid_job_arguments_are_refused(options: dict[str, Any], code: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_worker_job(request(), JobOptions(**options))
    assert caught.value.code == code


def test_a_spec_that_is_too_large_for_a_job() -> None:
    names = [{"name": "x" * 60_000}, {"name": "y" * 60_000}]
    large = request().model_copy(update={"game_config": {"players": names}})
    with pytest.raises(UsageError) as caught:
        make_worker_job(large)
    assert caught.value.code == "spec_too_large"
    job = make_worker_job(large, JobOptions(spec_url="https://store/spec"))
    assert variables(job["spec"]["template"]["spec"]["initContainers"][0])["JOB_SPEC_URI"] == "https://store/spec"


# --- the command line -----------------------------------------------------------------------------------------------


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "request.json"
    path.write_text(request().model_dump_json(by_alias=True, exclude_none=True))
    return path


def test_the_command_prints_a_job(spec: Path) -> None:
    done = coworld("kubernetes", "job", spec, "--job-id", "j1", "--output-url", "https://store/j1")
    assert done.status == 0, done.stderr
    job = yaml.safe_load(done.stdout)
    assert job["kind"] == "Job"
    assert variables(job["spec"]["template"]["spec"]["containers"][1])["RESULTS_URI"] == "https://store/j1/results.json"
    as_json = coworld("kubernetes", "job", spec, "--job-id", "j1", "--output-url", "https://store/j1", "--json")
    assert as_json.json == job


def test_changes_to_the_config_are_in_the_job(spec: Path, tmp_path: Path) -> None:
    def planned(*words: str | Path) -> dict[str, Any]:
        done = coworld("kubernetes", "job", *words, "--json")
        assert done.status == 0, done.stderr
        uri = variables(done.json["spec"]["template"]["spec"]["containers"][1])["JOB_SPEC_URI"]
        return json.loads(base64.b64decode(uri.partition(",")[2]))

    written, key, value = json.loads(spec.read_text()), "seed", 3
    written["game_config"][key] = value
    written["policy_names"] = ["a"] * len(written["players"])
    spec.write_text(json.dumps(written))
    changed = planned(spec, "--set", f"{key}={value + 1}")
    # The names that only older games read are still there
    assert changed == {**written, "game_config": {**written["game_config"], key: value + 1}}
    manifest = tmp_path / "coworld_manifest.json"
    manifest.write_text(json.dumps(written["manifest"]))
    assert planned(manifest, "--set", f"{key}={value + 2}")["game_config"][key] == value + 2
    for source in (spec, manifest):
        done = coworld("kubernetes", "job", source, "--set", "sead=1")
        assert (done.status, 'Did you mean "seed"?' in done.stderr) == (2, True), done.stderr
        done = coworld("kubernetes", "job", source, "--set", f'{key}="none"', "--json")
        assert (done.status, done.json["error"]["code"]) == (1, "config_invalid")


PODS = {
    "all": {"metadata": {"labels": {"team": "arena"}}, "spec": {"nodeSelector": {"kubernetes.io/os": "linux"}}},
    "game": {
        "spec": {
            "securityContext": {"runAsUser": 4000},
            "containers": [{"name": "program", "resources": {"requests": {"cpu": "3"}}}],
        }
    },
    "worker": {"spec": {"containers": [{"name": "program", "resources": {"requests": {"cpu": "50m"}}}]}},
    "player": {
        "metadata": {"annotations": {"a/b": "c"}},
        "spec": {"containers": [{"name": "program", "resources": {"requests": {"memory": "3Gi"}}}]},
    },
}


def test_job_and_its_players_have_what_is_said_of_pods(spec: Path, tmp_path: Path) -> None:
    pods = tmp_path / "pods.yaml"
    pods.write_text(yaml.safe_dump(PODS))
    done = coworld("kubernetes", "job", spec, "--pods", pods, "--json")
    assert done.status == 0, done.stderr
    template = done.json["spec"]["template"]
    assert template["metadata"]["labels"]["team"] == "arena"
    assert template["metadata"]["labels"]["coworld-component"] == "game"
    assert template["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}
    game, worker = template["spec"]["containers"]
    assert (game["resources"]["requests"]["cpu"], worker["resources"]["requests"]["cpu"]) == ("3", "50m")
    assert "add" not in game["securityContext"]["capabilities"], "nobody who is no root can use them"
    assert (game["securityContext"]["runAsUser"], worker["securityContext"]["runAsUser"]) == (4000, 65534)
    # What the worker is told is what it lays over its players' pods
    told = {entry["name"]: expanded(entry["value"], {}) for entry in worker["env"] if "value" in entry}
    assert "COWORLD_PRIVILEGED_PODS" not in told
    needed = {"JOB_NAMESPACE": "n", "POD_NAME": "p", "POD_UID": "u"}
    read = read_settings({**told, **needed})
    made = pod(read)
    assert made["metadata"]["labels"]["team"] == "arena"
    assert made["metadata"]["annotations"]["a/b"] == "c"
    assert made["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}
    # 2Gi is its limit
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "250m", "memory": "2Gi"}
    pull = pull_pod(read, 0, "a1", "player:1")
    assert pull["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert pull["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1m", "memory": "8Mi"}


def test_job_with_privileges_is_refused_unless_allowed(spec: Path, tmp_path: Path) -> None:
    pods = tmp_path / "pods.json"
    pods.write_text(json.dumps({"player": {"spec": {"hostNetwork": True}}}))
    done = coworld("kubernetes", "job", spec, "--pods", pods, "--json")
    assert (done.status, done.json["error"]["code"]) == (1, "pods_invalid")
    (issue,) = done.json["error"]["report"]["issues"]
    assert issue["pointer"] == "/player/spec/hostNetwork"
    assert "--allow-privileged" in done.json["error"]["hint"]
    done = coworld("kubernetes", "job", spec, "--pods", pods, "--allow-privileged", "--json")
    told = variables(done.json["spec"]["template"]["spec"]["containers"][1])
    assert json.loads(told["COWORLD_PLAYER_PODS"]) == {"spec": {"hostNetwork": True}}
    assert told["COWORLD_PRIVILEGED_PODS"] == "1"
    done = coworld("kubernetes", "job", spec, "--allow-privileged", "--json")
    assert (done.status, done.json["error"]["code"]) == (2, "pods_missing")


@pytest.mark.parametrize(("name", "place"), [("coworld-token", "/w"), ("mine", "/tmp")])
def test_game_of_a_job_gets_nothing_of_its_worker(name: str, place: str) -> None:
    volume: dict[str, Any] = {"name": "mine", "emptyDir": {}}
    part = {"name": "program", "volumeMounts": [{"name": name, "mountPath": place}]}
    pods = {"worker": {"spec": {"volumes": [volume], "containers": [part]}}}
    with pytest.raises((DocumentError, UsageError)):
        make_worker_job(request(), JobOptions(pods=pods, allow_privileged=True))


def test_pods_of_jobs_meet_the_restricted_standard_as_a_user_of_their_own() -> None:
    job = make_worker_job(request(), JobOptions(run_as_user=4000))
    assert list(restricted_problems(job["spec"]["template"])) == []
    assert list(restricted_problems(pod(settings(players=PlayerPods(overlay=PodOverlay().over(as_user(4000))))))) == []
    assert list(restricted_problems(pull_pod(settings(), 0, "a1", "player:1"))) == []


@pytest.mark.kubernetes
def test_job_is_accepted_by_a_cluster(spec: Path, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(coworld("kubernetes", "job", spec, "--output-claim", "episodes").stdout)
    done = subprocess.run(
        ["kubectl", "create", "--dry-run=server", "-o", "name", "-f", str(tmp_path / "job.yaml")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("job.batch/coworld-")


def test_job_command_refuses_invalid_options(spec: Path, tmp_path: Path) -> None:
    done = coworld("kubernetes", "job", tmp_path / "nothing.json")
    assert done.status == 2
    done = coworld("kubernetes", "job", spec, "--variant", "x")
    assert done.status == 2
    assert "says variant and players itself" in done.stderr
    done = coworld("kubernetes", "job", spec, "--output", "results")
    assert done.status == 2
    assert "has no address" in done.stderr
    (tmp_path / "bad.json").write_text('{"manifest": {}, "game_config": {}, "players": []}')
    assert coworld("kubernetes", "job", tmp_path / "bad.json").status == 1
