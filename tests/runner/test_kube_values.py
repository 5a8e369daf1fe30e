"""What a cluster is told and what it says, as plain values: pods, their states and ends, and the room for them."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from coworld_core.errors import StartError
from coworld_runner.backend import Limits, Placement, Port, UnitSpec
from coworld_runner.backends.kubernetes import _cluster_capacity
from coworld_runner.backends.kubernetes import _pod_objects as kube
from coworld_runner.backends.kubernetes import _pod_state as state
from coworld_runner.backends.kubernetes._admission import advice_on, never_fits
from coworld_runner.backends.kubernetes._cluster import ClusterRefused
from coworld_runner.backends.kubernetes._cluster_capacity import ClusterCapacity, Need, need_of, wait_limit
from coworld_runner.backends.kubernetes._cordoned_nodes import without_node
from coworld_runner.backends.kubernetes.kubernetes_backend import KubernetesBackend
from coworld_runner.backends.kubernetes.pod_overlay import PodOverlay

OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "coworld-0", "uid": "1-2-3"}
QUOTA = (
    "exceeded quota: q, requested: pods=1,requests.cpu=260m, used: pods=2,requests.cpu=1m, "
    "limited: pods=2,requests.cpu=1"
)
OPTIONS = kube.PodOptions(collector_image="python:3.12-slim")


def spec(name: str = "player-0", **more: Any) -> UnitSpec:
    return UnitSpec(**{"run_id": "00ff", "name": name, "component": "player", "image": "player:1", **more})


def pod(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "coworld-00ff-player-0", "uid": "1"}, "spec": {}, "status": status}


def container(name: str, kind: str, **details: Any) -> dict[str, Any]:
    return {"name": name, "state": {kind: details}}


def main_ended(code: int, word: str = "Error", /, *, signal: int | None = None, **more: Any) -> dict[str, Any]:
    details = {"exitCode": code, "reason": word, **({"signal": signal} if signal else {})}
    return pod(containerStatuses=[container("main", "terminated", **details)], **more)


def settings_of(body: dict[str, Any]) -> dict[str, str]:
    """What a pod tells its collector."""
    env = body["containers"][0]["env"]
    return {entry["name"].removeprefix("COWORLD_COLLECTOR_"): entry["value"] for entry in env if "value" in entry}


# --- what is told -------------------------------------------------------------------------------------------------


def test_secrets_are_only_in_the_kubernetes_secret() -> None:
    secret = "s3cret-t0ken"
    environment = {"COWORLD_PLAYER_WS_URL": f"ws://game/player?token={secret}", "ODD.NAME": secret}
    given = kube.UnitFiles({"files/config.json": secret.encode()})
    unit = spec()
    body = kube.pod_body(unit, "call", OWNER, options=OPTIONS, environment=environment, files=given)
    made = kube.secret_body(unit, "call", OWNER, environment=environment, files=given, token="its own")
    assert secret not in json.dumps(body)
    assert "its own" not in json.dumps(body)
    main = body["spec"]["containers"][1]
    for entry in main["env"]:
        key = entry["valueFrom"]["secretKeyRef"]["key"]
        assert base64.b64decode(made["data"][key]).decode() == environment[entry["name"]]
    (volume,) = [volume for volume in body["spec"]["volumes"] if volume["name"] == "given"]
    assert volume["secret"]["items"] == [{"key": "file.0", "path": "files/config.json"}]
    assert base64.b64decode(made["data"]["file.0"]).decode() == secret
    assert [mount["name"] for mount in main.get("volumeMounts", [])] == [], "it has no directory, and sees none"


def test_player_pod_is_restricted() -> None:
    body = kube.pod_body(spec(), "call", OWNER, options=OPTIONS, environment={}, files=kube.UnitFiles())["spec"]
    assert body["automountServiceAccountToken"] is False
    assert body["enableServiceLinks"] is False
    assert body["restartPolicy"] == "Never"
    assert body["activeDeadlineSeconds"] == 24 * 3600
    assert body["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    collector, main = body["containers"]
    for entry in (collector, main):
        assert entry["securityContext"]["allowPrivilegeEscalation"] is False
        assert entry["securityContext"]["capabilities"]["drop"] == ["ALL"]
    assert "add" not in main["securityContext"]["capabilities"]
    assert main["resources"]["requests"] == {"cpu": "100m", "memory": "128Mi"}


def test_restricted_namespace_runs_units_as_non_root() -> None:
    options = kube.PodOptions(collector_image="python:3", run_as_user=10001)
    unit = spec(component="game")
    body = kube.pod_body(unit, "call", OWNER, options=options, environment={}, files=kube.UnitFiles())["spec"]
    assert body["securityContext"]["runAsNonRoot"] is True
    assert body["securityContext"]["runAsUser"] == 10001
    for entry in body["containers"]:
        assert "add" not in entry["securityContext"]["capabilities"]
        assert "runAsUser" not in entry["securityContext"]


def test_limits_hold_and_requests_never_exceed_them() -> None:
    unit = spec(limits=Limits(memory_bytes=64 << 20, cpus=0.05, disk_bytes=1 << 30), lifetime=90.5)
    body = kube.pod_body(unit, "call", OWNER, options=OPTIONS, environment={}, files=kube.UnitFiles())["spec"]
    resources = body["containers"][1]["resources"]
    assert resources["limits"]["memory"] == resources["requests"]["memory"] == str(64 << 20)
    assert resources["limits"]["cpu"] == resources["requests"]["cpu"] == "50m"
    assert int(resources["limits"]["ephemeral-storage"]) > 1 << 30
    assert body["activeDeadlineSeconds"] == 90
    assert settings_of(body)["DISK"] == str(1 << 30)


def test_command_is_passed_unchanged() -> None:
    unit = spec(argv=("sh", "-c", "echo $(HOME) $HOME $$"))
    main = kube.pod_body(unit, "call", OWNER, options=OPTIONS, environment={}, files=kube.UnitFiles())["spec"][
        "containers"
    ][1]
    # The cluster makes each $$ a plain $ again, and leaves what follows it alone
    assert (main["command"], main["args"]) == (["sh"], ["-c", "echo $$(HOME) $$HOME $$$$"])


def test_players_reach_their_game_alone() -> None:
    unit = spec(network="game-only", connects_to="game")
    policy = kube.policy_body(unit, "call", OWNER)["spec"]
    assert policy["podSelector"]["matchLabels"] == {"coworld.run": "00ff", "coworld.unit": "player-0"}
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["ingress"] == []
    (rule,) = policy["egress"]
    assert rule["to"][0]["podSelector"]["matchExpressions"][0]["values"] == ["game"]
    calling = spec(network="game-only", connects_to="game", proxies=("https-proxy",))
    (rule,) = kube.policy_body(calling, "call", OWNER)["spec"]["egress"]
    assert rule["to"][0]["podSelector"]["matchExpressions"][0]["values"] == ["game", "https-proxy"]
    body = kube.pod_body(unit, "call", OWNER, options=OPTIONS, environment={}, files=kube.UnitFiles())["spec"]
    assert body["dnsPolicy"] == "None"
    game = spec("game", network="game-only", clients=("player-0", "player-1"), ports=(Port(name="http"),))
    policy = kube.policy_body(game, "call", OWNER)["spec"]
    assert policy["egress"] == []
    (rule,) = policy["ingress"]
    assert rule["from"][0]["podSelector"]["matchExpressions"][0]["values"] == ["player-0", "player-1"]
    assert rule["ports"] == [{"protocol": "TCP", "port": 8080}]
    assert kube.policy_body(spec(network="none", connects_to="game"), "call", OWNER)["spec"]["egress"] == []


def test_names_are_ones_a_cluster_takes() -> None:
    for parts in (("game",), ("Player 0",), ("x" * 80,), ("ü",), ("a_b",), ("a.b",)):
        name = kube.object_name("00ff", *parts)
        assert len(name) <= 63
        assert name == name.lower()
        assert all(character.isalnum() or character == "-" for character in name)
        assert name.startswith("coworld-00ff")
    assert kube.object_name("00ff", "a_b") != kube.object_name("00ff", "a.b")
    assert kube.label("x" * 64) != kube.label("x" * 65)


def test_files_too_large_for_a_secret_are_brought_later(tmp_path: Path) -> None:
    directory, inputs = tmp_path / "own", tmp_path / "given"
    for path in (directory, inputs):
        path.mkdir()
        (path / "config.json").write_text("{}")
        (path / "replay").write_bytes(bytes(2_000_000))
        (path / "link").symlink_to("config.json")
        (path / "deep").mkdir()
        (path / "deep" / "config.json").write_text("{}")
    given = kube.UnitFiles.of(spec(directory=directory, inputs=inputs))
    assert set(given.small) == {"files/config.json", "inputs/config.json", "inputs/deep/config.json"}
    assert set(given.large) == {"files/replay", "inputs/replay"}
    body = kube.pod_body(spec(), "call", OWNER, options=OPTIONS, environment={}, files=given)
    assert settings_of(body["spec"])["HOLD"] == "120"


def test_many_files_are_no_pod_that_is_too_large(tmp_path: Path) -> None:
    for number in range(600):
        (tmp_path / str(number)).touch()
    given = kube.UnitFiles.of(spec(inputs=tmp_path))
    assert (len(given.small), len(given.large)) == (500, 100)


def test_inputs_are_only_read_and_take_nothing_of_what_a_unit_may_write() -> None:
    unit = spec(directory=Path("own"), inputs=Path("given"), limits=Limits(disk_bytes=1 << 20))
    given = kube.UnitFiles(inputs_bytes=1 << 40)
    body = kube.pod_body(unit, "call", OWNER, options=OPTIONS, environment={}, files=given)["spec"]
    collector, main = body["containers"]
    assert [mount.get("readOnly", False) for mount in main["volumeMounts"]] == [False, True]
    assert int(main["resources"]["limits"]["ephemeral-storage"]) > 1 << 40
    (mount,) = [mount for mount in collector["volumeMounts"] if mount["name"] == "inputs"]
    assert settings_of(body)["INPUTS"] == mount["mountPath"] != settings_of(body)["DIRECTORY"]


def test_the_collector_does_not_listen_where_the_unit_does() -> None:
    taken = kube.collector_port(spec())
    assert kube.collector_port(spec(ports=(Port(name="http", number=taken),))) != taken


LOW = "The node was low on resource: memory."
BOTH = ("main", "collector")
FULL = 'Usage of EmptyDir volume "unit" exceeds the limit "4Mi".'


def disrupted(reason: str) -> list[dict[str, Any]]:
    return [{"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "for a good reason"}]


# --- what is said -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seen", "reason", "code", "signal"),
    [
        (main_ended(0, "Completed"), "exited", 0, None),
        (main_ended(3), "exited", 3, None),
        (main_ended(139), "signal", None, 11),
        (main_ended(0, signal=9), "signal", None, 9),
        (main_ended(137, "OOMKilled"), "oom", None, 9),
        (main_ended(137, phase="Failed", reason="DeadlineExceeded", message="too long"), "timeout", None, 9),
        (main_ended(137, phase="Failed", reason="Evicted", message=LOW), "evicted", None, 9),
        (main_ended(137, phase="Failed", reason="Evicted", message=FULL), "disk", None, 9),
        (main_ended(143, phase="Failed", reason="NodeShutdown", message="Node is shutting down"), "lost", None, 15),
        (main_ended(143, conditions=disrupted("PreemptionByScheduler")), "evicted", None, 15),
        (main_ended(0, "Completed", conditions=disrupted("DeletionByTaintManager")), "exited", 0, None),
        (pod(phase="Failed", reason="NodeLost", message="Node x is unresponsive"), "lost", None, None),
        (main_ended(137, "ContainerStatusUnknown"), "lost", None, None),
        (main_ended(255, "Unknown"), "lost", None, None),
        (main_ended(255), "exited", 255, None),
        (pod(containerStatuses=[container(it, "terminated", exitCode=255) for it in BOTH]), "lost", None, None),
    ],
)  # fmt: skip
def test_exit_reason_is_read_from_the_pod(
    seen: dict[str, Any], reason: str, code: int | None, signal: int | None
) -> None:
    ended = state.exit_of(seen)
    assert ended is not None
    assert (ended.reason, ended.code, ended.signal) == (reason, code, signal), ended
    if reason in {"evicted", "lost", "timeout", "disk"}:
        assert ended.detail


def test_running_pod_has_no_exit() -> None:
    assert state.exit_of(pod(phase="Running", containerStatuses=[container("main", "running")])) is None
    assert state.exit_of(pod(phase="Pending")) is None
    assert state.exit_of({}) is None


def test_deleted_pod_is_blamed_on_the_platform() -> None:
    seen = main_ended(143, phase="Running")
    seen["metadata"]["deletionTimestamp"] = "2026-11-21T16:00:00Z"
    ended = state.exit_of(seen)
    assert ended is not None
    assert ended.reason == "lost"
    assert "deleted by somebody else" in ended.detail
    ours = state.exit_of(seen, ours="stopped")
    assert ours is not None
    assert ours.reason == "stopped"


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("CreateContainerConfigError", "failed to sync secret cache: timed out waiting for the condition"),
        ("CreateContainerError", "context deadline exceeded"),
    ],
)
def test_a_node_that_is_only_busy_is_waited_for(reason: str, words: str) -> None:
    busy = pod(phase="Pending", containerStatuses=[container("main", "waiting", reason=reason, message=words)])
    assert state.start_trouble(busy) is None


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("ErrImagePull", "image_unreachable"),
        ("ImagePullBackOff", "image_unreachable"),
        ("InvalidImageName", "image_absent"),
        ("ErrImageNeverPull", "image_unreachable"),
        ("CreateContainerConfigError", "start_failed"),
        ("CrashLoopBackOff", "start_failed"),
    ],
)
def test_waiting_that_does_not_help_ends_at_once(reason: str, code: str) -> None:
    for name in ("main", "collector"):
        trouble = state.start_trouble(
            pod(phase="Pending", containerStatuses=[container(name, "waiting", reason=reason, message="its own words")])
        )
        assert trouble is not None
        # What is in the helper is no author's
        its = "image_unreachable" if (code, name) == ("image_absent", "collector") else code
        assert (trouble.code, trouble.container) == (its, name)
        assert trouble.message == f"{reason}: its own words"
    waits = pod(phase="Pending", containerStatuses=[container("main", "waiting", reason="ContainerCreating")])
    assert state.start_trouble(waits) is None


@pytest.mark.parametrize("reason", ["ContainerCannotRun", "StartError"])
def test_a_program_that_is_not_there_was_never_started(reason: str) -> None:
    seen = main_ended(127, reason, phase="Running")
    assert not state.has_started(seen)
    trouble = state.start_trouble(seen)
    assert trouble is not None
    assert trouble.code == "command_failed"


@pytest.mark.parametrize(
    ("words", "waits"),
    [
        ("0/1 nodes are available: 1 Insufficient cpu.", True),
        ("0/3 nodes are available: 1 Insufficient cpu, 2 Insufficient memory.", True),
        ("0/1 nodes are available: 1 Too many pods.", True),
        ("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.", False),
        ("0/1 nodes are available: 1 node(s) had taint {x: y}, that the pod didn't tolerate.", False),
    ],
)
def test_only_for_room_is_it_worth_waiting(words: str, waits: bool) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}
    assert state.unschedulable(pod(phase="Pending", conditions=[condition])) == words
    assert state.lacks_room(words) is waits


@pytest.mark.parametrize(
    ("status", "words", "code", "hint"),
    [
        (403, f"pods is forbidden: {QUOTA}", "quota_exceeded", "Raise the quota"),
        (403, "pods is forbidden: failed quota: q: must specify limits.cpu", "quota_needs_limits", "LimitRange"),
        (
            403,
            "maximum memory usage per Pod is 64Mi, but limit is 4563402752",
            "limit_range",
            "describe limitrange -n n",
        ),
        (422, 'Invalid value: "250m": must be less than or equal to cpu limit', "limit_range", "limitrange"),
        (403, 'User "u" cannot create resource "pods"', "cluster_forbidden", "ask for it"),
        (422, "spec.containers[1].env[0].name: Invalid value", None, "variable"),
        (500, "etcd leader changed", None, None),
    ],
)
def test_a_refusal_is_told_by_its_words(status: int, words: str, code: str | None, hint: str | None) -> None:
    found, advice = advice_on(ClusterRefused("POST", status, "", words), "n", "ask for it")
    assert found == code
    assert advice is None if hint is None else hint in str(advice)


def test_what_a_quota_never_has_is_not_waited_for() -> None:
    assert not never_fits(QUOTA)
    assert never_fits(QUOTA.replace("cpu=260m", "cpu=2"))
    assert never_fits(QUOTA.replace("limited: pods=2", "limited: pods=0"))
    assert not never_fits("exceeded quota: q, requested: x=?, used: x=1, limited: x=2")


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        ("0/2 nodes are available: 2 node(s) were unschedulable.", ": n1, n2 are cordoned", "kubectl uncordon n1 n2"),
        ("0/1 nodes are available: 1 Insufficient cpu.", "", "Lower its resource requests"),
    ],
)
async def test_cordoned_nodes_are_named(words: str, said: str, hint: str) -> None:
    cluster = Cluster(pods=10, cordoned=("n1", "n2"))
    found, advice = await without_node(cluster, {"spec": {}}, words)  # type: ignore[arg-type]
    assert found == words[:-1] + said
    assert advice.startswith(hint)
    # A pod for other nodes than these
    found, advice = await without_node(cluster, {"spec": {"nodeSelector": {"a": "b"}}}, words)  # type: ignore[arg-type]
    assert found == words[:-1]


def test_a_pod_that_is_held_back_until_there_is_room_is_waited_for() -> None:
    """Kueue holds pods of its queues back; so does whoever else has a scheduling gate."""
    words = "Scheduling is blocked due to non-empty scheduling gates"
    condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": words}
    said = state.unschedulable(pod(phase="Pending", conditions=[condition]))
    assert said == f"SchedulingGated: {words}"
    assert state.lacks_room(said)


def test_labels_name_a_queue_and_replace_none_of_ours() -> None:
    queue = {"kueue.x-k8s.io/queue-name": "arena", kube.RUN: "another"}
    options = kube.PodOptions(collector_image="python:3", labels=queue)
    body = kube.pod_body(spec(), "call", OWNER, options=options, environment={}, files=kube.UnitFiles())
    labels = body["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/queue-name"] == "arena"
    assert labels[kube.RUN] == kube.label(spec().run_id)


def test_pods_of_a_queue_are_a_group_and_wait_until_they_are_let_go() -> None:
    named = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "arena"}}}
    options = kube.PodOptions(collector_image="python:3", overlay=PodOverlay.read({"game": named}))
    assert (kube.queue_of("game", options), kube.queue_of("player", options)) == ("arena", "")
    assert not KubernetesBackend(pods=options).starts_together, "players would never be there"
    both = kube.PodOptions(collector_image="python:3", overlay=PodOverlay.read({"all": named}))
    assert KubernetesBackend(pods=both).starts_together
    body = kube.pod_body(spec(), "call", OWNER, options=both, environment={}, files=kube.UnitFiles(), held=600.0)
    assert settings_of(body["spec"])["HOLD"] == "600"
    metadata = kube.PodGroup("coworld-r-game", 3).over(body)["metadata"]
    assert metadata["labels"] == {**body["metadata"]["labels"], "kueue.x-k8s.io/pod-group-name": "coworld-r-game"}
    assert metadata["annotations"]["kueue.x-k8s.io/pod-group-total-count"] == "3"
    served = spec(ports=(Port(name="http", number=8080),), clients=("player-0",))
    assert kube.service_body(served, "call", OWNER)["spec"]["clusterIP"] == "None"
    assert "clusterIP" not in kube.service_body(served, "call", OWNER, has_address=True)["spec"]


@pytest.mark.parametrize(
    ("ready", "phase", "container_ready", "silent"),
    [
        ("True", "Running", True, False),
        ("False", "Running", False, False),
        ("False", "Running", True, True),
        ("Unknown", "Running", True, True),
        ("False", "Succeeded", True, False),
    ],
)
def test_unresponsive_node_is_reported(ready: str, phase: str, container_ready: bool, silent: bool) -> None:
    """A kubelet says of a container that it is unready; the control plane only of the pod."""
    running = {**container("main", "running"), "ready": container_ready}
    seen = pod(phase=phase, conditions=[{"type": "Ready", "status": ready}], containerStatuses=[running])
    seen["spec"] = {"nodeName": "n1"}
    assert state.silent_node(seen) == ("n1" if silent else "")


def test_a_collector_that_ended_before_its_unit() -> None:
    killed = container("collector", "terminated", reason="OOMKilled", exitCode=137)
    assert state.collector_end(pod(containerStatuses=[container("main", "running"), killed])) == "OOMKilled: status 137"
    assert state.collector_end(pod(containerStatuses=[container("main", "terminated", exitCode=0), killed])) == ""
    assert state.collector_end(pod(containerStatuses=[container("main", "running")])) == ""
    deleted = pod(containerStatuses=[container("main", "running"), killed])
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert state.collector_end(deleted) == ""


# --- room ---------------------------------------------------------------------------------------------------------


def test_a_run_needs_room_for_all_that_come() -> None:
    game = spec("game", component="game", clients=("player-0", "player-1"))
    need = need_of([game], OPTIONS)
    assert need.pods == 4  # Game, two players, and the run's owner
    assert need == need_of([game, spec("player-0"), spec("player-1")], OPTIONS)
    assert need.cpu == Decimal("0.001") + Decimal("0.25") + 2 * Decimal("0.1") + 3 * Decimal("0.01")


class Cluster:
    """Stands for what a cluster says of its size."""

    def __init__(self, pods: int = 0, *, cordoned: Sequence[str] = (), there: Sequence[Any] = ()) -> None:
        self.size = pods
        self.cordoned = cordoned
        self.there = there

    async def call(self, _method: str, path: str, **_more: Any) -> Any:
        if path.endswith("/nodes"):
            status = {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": str(self.size)}}
            cordoned = [{"metadata": {"name": name}, "spec": {"unschedulable": True}} for name in self.cordoned]
            return {"items": [{"metadata": {"name": "n0"}, "spec": {}, "status": status}, *cordoned]}
        return {"items": []}

    async def list(self, kind: str, *_more: Any, **_fields: Any) -> Any:
        return {"items": self.there if kind == "pods" else []}


async def test_runs_queue_for_room_in_order() -> None:
    room = ClusterCapacity(Cluster(pods=10), retry_timeout=60)  # type: ignore[arg-type]
    need = Need(Decimal(1), Decimal(1), Decimal(4))
    inside: list[str] = []
    notes: list[str] = []

    async def run(name: str) -> None:
        await room.enter(name, name, need, notes.append)
        inside.append(name)

    async with anyio.create_task_group() as group:
        for index in range(5):
            group.start_soon(run, str(index))
        await anyio.wait_all_tasks_blocked()
        assert inside == ["0", "1"]
        assert len(notes) == 1
        for index in range(3):
            room.leave(inside[index])
            with anyio.fail_after(30):
                while len(inside) < index + 3:
                    await anyio.lowlevel.checkpoint()
            await anyio.wait_all_tasks_blocked()
            assert len(inside) == index + 3
    assert inside == ["0", "1", "2", "3", "4"]


async def test_one_run_is_let_in_whatever_it_needs_and_the_next_says_why_not() -> None:
    room = ClusterCapacity(Cluster(pods=3), retry_timeout=0.2)  # type: ignore[arg-type]
    need = Need(Decimal(1), Decimal(1), Decimal(4))
    await room.enter("first", "a", need, lambda _: None)
    await room.enter("first", "b", need, lambda _: None)
    with pytest.raises(StartError) as caught:
        await room.enter("second", "c", need, lambda _: None)
    assert caught.value.code == "no_room"
    assert "4 pods" in caught.value.message


def pod_of(run_id: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", "labels": {kube.RUN: run_id}, **metadata}, "status": {"phase": "Running"}}


@pytest.mark.parametrize(
    ("there", "waits"),
    [
        ((), False),
        ((pod_of("00ff"), pod_of("other") | {"status": {"phase": "Succeeded"}}), False),
        ((pod_of("", ownerReferences=[{"name": kube.object_name("00ff")}]),), False),
        ((pod_of("00ff", deletionTimestamp="2026-01-01T00:00:00Z"),), True),
        ((pod_of("other"),), True),
    ],
)
async def test_a_quota_is_waited_for_while_others_may_give_it_back(
    there: Sequence[Any], waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_cluster_capacity, "_SETTLE_SECONDS", 0.0)
    room = ClusterCapacity(Cluster(there=there), retry_timeout=60)  # type: ignore[arg-type]
    notes: list[str] = []
    refused = ClusterRefused("POST", 403, "Forbidden", QUOTA)

    async def make() -> None:
        if not notes:
            raise refused

    if waits:
        monkeypatch.setattr(_cluster_capacity, "_SETTLE_SECONDS", 60.0)
        await room.take("00ff", make, notes.append)
        assert notes == [QUOTA]
    else:
        with pytest.raises(ClusterRefused):
            await room.take("00ff", make, notes.append)
        assert notes == []


async def test_room_is_not_waited_for_until_the_callers_deadline() -> None:
    assert wait_limit(60) == 60
    with anyio.fail_after(10):
        await anyio.lowlevel.checkpoint()
        assert 7 < wait_limit(60) <= 8
        assert wait_limit(3) == 3


def test_a_placement_says_where_files_are() -> None:
    placement = Placement(directory="/coworld", listen_host="0.0.0.0", listen={}, endpoints={})
    assert placement.uri("a b") == "file:///coworld/a%20b"
