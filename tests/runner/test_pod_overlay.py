"""What an operator says of pods: how it is laid over ours, and what is refused."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.pod_standards import baseline_problems, restricted_problems

from coworld_core.errors import DocumentError, UsageError
from coworld_core.hints import Hint
from coworld_runner.backend import Limits, Port, UnitSpec
from coworld_runner.backends.kubernetes import _pod_objects as kube
from coworld_runner.backends.kubernetes._admission import is_restricted
from coworld_runner.backends.kubernetes._cluster import ClusterRefused
from coworld_runner.backends.kubernetes._cluster_capacity import need_of
from coworld_runner.backends.kubernetes.pod_overlay import PodOverlay, as_user

OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "coworld-0", "uid": "1-2-3"}
POD = {"metadata": {"labels": {"coworld.run": "0"}}, "spec": {"containers": [{"name": "main", "image": "i"}]}}


def body(component: Any = "player", options: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    spec = UnitSpec(run_id="00ff", name=f"{component}-0", component=component, image="player:1", **more)
    pods = kube.PodOptions(collector_image="python:3", **(options or {}))
    return kube.pod_body(spec, "call", OWNER, options=pods, environment={"A": "b"}, files=kube.UnitFiles())


def container(name: str = "program", **fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": name, **fields}]}}


def program_security(**fields: Any) -> dict[str, Any]:
    return container(securityContext=fields)


def refused(template: dict[str, Any], section: str = "player", *, allow_privileged: bool = False) -> DocumentError:
    with pytest.raises(DocumentError) as caught:
        PodOverlay.read({section: template}, allow_privileged=allow_privileged)
    assert caught.value.code == "pods_invalid"
    return caught.value


# --- laid over ----------------------------------------------------------------------------------------------------


def test_sections_are_laid_over_the_pods_of_their_kind() -> None:
    overlay = PodOverlay.read(
        {
            "all": {
                "metadata": {"labels": {"team": "arena", "tier": "all"}, "annotations": {"a/b": "c"}},
                "spec": {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "games", "operator": "Exists"}]},
            },
            "game": {
                "metadata": {"labels": {"tier": "game"}},
                "spec": {
                    "priorityClassName": "high",
                    "containers": [{"name": "program", "resources": {"requests": {"cpu": 2}}}],
                },
            },
            "player": {
                "spec": {
                    "imagePullSecrets": [{"name": "hub"}, {"name": "mine"}],
                    "runtimeClassName": "gvisor",
                    "affinity": {"nodeAffinity": {"x": [1]}},
                    "volumes": [{"name": "weights", "persistentVolumeClaim": {"claimName": "weights"}}],
                    "containers": [
                        {
                            "name": "program",
                            "volumeMounts": [{"name": "weights", "mountPath": "/weights", "readOnly": True}],
                            "securityContext": {"runAsUser": 1234},
                        },
                        {"name": "collector", "resources": {"limits": {"cpu": "1"}}},
                    ],
                }
            },
        }
    )
    options = {"overlay": overlay, "image_pull_secrets": ("mine",), "tolerations": ({"key": "old"},)}
    game, player, role = body("game", options), body("player", options, directory=Path("/d")), body("grader", options)
    for made in (game, player, role):
        assert made["spec"]["nodeSelector"] == {"disk": "ssd"}
        assert made["spec"]["tolerations"] == [{"key": "old"}, {"key": "games", "operator": "Exists"}]
        assert made["metadata"]["annotations"]["a/b"] == "c"
        assert made["metadata"]["labels"]["team"] == "arena"
        assert made["metadata"]["labels"]["coworld.run"] == "00ff"
    assert [made["metadata"]["labels"]["tier"] for made in (game, player, role)] == ["game", "all", "all"]
    assert game["spec"]["priorityClassName"] == "high"
    assert game["spec"]["containers"][1]["resources"]["requests"] == {"cpu": 2, "memory": "256Mi"}
    assert "runtimeClassName" not in game["spec"]
    spec, (collector, main) = player["spec"], player["spec"]["containers"]
    assert spec["imagePullSecrets"] == [{"name": "mine"}, {"name": "hub"}]
    assert (spec["runtimeClassName"], spec["affinity"]) == ("gvisor", {"nodeAffinity": {"x": [1]}})
    assert {volume["name"] for volume in spec["volumes"]} == {"unit", "program", "weights"}
    assert [mount["mountPath"] for mount in main["volumeMounts"]] == ["/coworld", "/weights"]
    assert main["securityContext"]["runAsUser"] == 1234
    assert main["securityContext"]["allowPrivilegeEscalation"] is False, "what it does not say is as it was"
    assert main["image"] == "player:1"
    assert collector["resources"]["limits"] == {"memory": "256Mi", "cpu": "1"}


def test_labels_may_have_the_names_of_lists() -> None:
    said = PodOverlay.read({"all": {"metadata": {"labels": {"volumes": "big", "tolerations": "none"}}}})
    labels = said.applied("game", said.applied("game", POD))["metadata"]["labels"]
    assert labels == {"coworld.run": "0", "volumes": "big", "tolerations": "none"}


def test_pod_is_not_changed_and_an_empty_overlay_changes_nothing() -> None:
    before = json.dumps(POD)
    assert PodOverlay().applied("player", POD) == POD
    PodOverlay.read({"all": {"spec": {"nodeSelector": {"a": "b"}}}}).applied("player", POD)
    assert json.dumps(POD) == before


def test_user_is_that_of_all_programs_which_then_need_no_capabilities() -> None:
    said = {"overlay": PodOverlay.read({"game": {"spec": {"securityContext": {"runAsUser": 4000}}}})}
    for part in body("game", said)["spec"]["containers"]:
        assert "add" not in part["securityContext"]["capabilities"]
        assert "runAsUser" not in part["securityContext"]
    assert body("game", said)["spec"]["securityContext"]["runAsUser"] == 4000
    assert "runAsUser" not in body("player", said)["spec"]["securityContext"]


def test_requests_stay_within_limits_and_are_what_room_is_looked_for() -> None:
    overlay = PodOverlay.read({"all": container(resources={"requests": {"cpu": "3", "memory": "8Gi"}})})
    made = body("player", {"overlay": overlay}, limits=Limits(memory_bytes=64 << 20))
    assert made["spec"]["containers"][1]["resources"]["requests"] == {"cpu": "3", "memory": str(64 << 20)}
    spec = UnitSpec(run_id="0", name="game", component="game", image="i", clients=("player-0",))
    need = need_of([spec], kube.PodOptions(collector_image="python:3", overlay=overlay))
    assert need.cpu == 2 * (3 + Decimal("0.01")) + Decimal("0.001")
    assert need.memory == 2 * ((8 << 30) + (32 << 20)) + (1 << 20)
    assert need.pods == 3


def test_pods_that_pull_images_get_neither_volumes_nor_requests_of_programs() -> None:
    volume = {"name": "w", "persistentVolumeClaim": {"claimName": "w"}}
    said = {"all": {"spec": {"volumes": [volume], "nodeSelector": {"a": "b"}, **container(resources={})["spec"]}}}
    made = PodOverlay.read(said).applied(None, POD, program=None)
    assert made["spec"] == {**POD["spec"], "nodeSelector": {"a": "b"}}  # type: ignore[dict-item]


def test_mount_or_volume_of_the_pods_own_is_not_replaced() -> None:
    volume: dict[str, Any] = {"name": "mine", "emptyDir": {}}
    overlay = PodOverlay.read(
        {
            "all": {
                "spec": {"volumes": [volume], **container(volumeMounts=[{"name": "mine", "mountPath": "/d"}])["spec"]}
            }
        }
    )
    mounted = {"name": "main", "volumeMounts": [{"name": "other", "mountPath": "/d"}]}
    specs: list[dict[str, Any]] = [{"containers": [mounted]}]
    specs += [{"containers": [], "volumes": [{"name": "mine", "secret": {}}]}]
    for spec in specs:
        with pytest.raises(UsageError, match="a pod has of its own") as caught:
            overlay.applied("player", {"spec": spec})
        assert caught.value.code == "pods_taken"
    once = overlay.applied("game", POD)
    assert overlay.applied("game", once) == once


# --- refused ------------------------------------------------------------------------------------------------------


PRIVILEGED: list[tuple[dict[str, Any], str]] = [
    *(({"spec": {name: True}}, f"/spec/{name}") for name in ("hostNetwork", "hostPID", "hostIPC")),
    ({"spec": {"serviceAccountName": "admin"}}, "/spec/serviceAccountName"),
    *(
        ({"spec": {"volumes": [{"name": "v", kind: {}}]}}, f"/spec/volumes/0/{kind}")
        for kind in ("hostPath", "secret", "projected", "downwardAPI", "csi", "nfs")
    ),
    *(
        ({"spec": {"securityContext": {name: value}}}, f"/spec/securityContext/{name}{below}")
        for name, value, below in (
            ("runAsUser", 0, ""),
            ("runAsNonRoot", False, ""),
            ("seccompProfile", {"type": "Unconfined"}, "/type"),
            ("appArmorProfile", {"type": "Unconfined"}, "/type"),
            ("seLinuxOptions", {}, ""),
            ("windowsOptions", {"hostProcess": True}, ""),
            ("sysctls", [{"name": "kernel.shm_rmid_forced", "value": "0"}], ""),
        )
    ),
    *(
        (program_security(**{name: value}), f"/spec/containers/0/securityContext/{name}{below}")
        for name, value, below in (
            ("privileged", True, ""),
            ("allowPrivilegeEscalation", True, ""),
            ("capabilities", {"add": ["NET_ADMIN"]}, "/add"),
            ("procMount", "Unmasked", ""),
            ("runAsUser", 0, ""),
            ("runAsNonRoot", False, ""),
            ("seccompProfile", {"type": "Unconfined"}, "/type"),
            ("seLinuxOptions", {}, ""),
        )
    ),
    *(
        ({"metadata": {"annotations": {name: "x"}}}, f"/metadata/annotations/{name.replace('/', '~1')}")
        for name in (
            "container.apparmor.security.beta.kubernetes.io/main",
            "seccomp.security.alpha.kubernetes.io/pod",
            "k8s.v1.cni.cncf.io/networks",
        )
    ),
]


@pytest.mark.parametrize(("template", "place"), PRIVILEGED, ids=[place for _, place in PRIVILEGED])
@pytest.mark.parametrize("section", ["all", "player"])
def test_what_leads_out_of_a_pod_is_refused_unless_allowed(template: dict[str, Any], place: str, section: str) -> None:
    error = refused(template, section)
    (issue,) = error.report.issues
    assert (issue.code, issue.pointer) == ("pods_privileged", f"/{section}{place}")
    assert isinstance(error.hint, Hint)
    assert error.hint.code == "allow_privileged"
    overlay = PodOverlay.read({section: template}, allow_privileged=True)
    assert overlay.template("player") == template


FIXED: list[tuple[dict[str, Any], str]] = [
    *(
        ({"spec": {name: True}}, f"/spec/{name}")
        for name in (
            *("restartPolicy", "activeDeadlineSeconds", "automountServiceAccountToken", "initContainers"),
            *("shareProcessNamespace", "dnsPolicy", "dnsConfig", "nodeName", "enableServiceLinks", "hostname"),
            *("terminationGracePeriodSeconds", "ephemeralContainers", "subdomain", "hostAliases"),
        )
    ),
    *(
        (container(**{name: "x"}), f"/spec/containers/0/{name}")
        for name in (
            "image",
            "command",
            "args",
            "env",
            "envFrom",
            "ports",
            "lifecycle",
            "livenessProbe",
            "imagePullPolicy",
        )
    ),
    ({"metadata": {"namespace": "x"}}, "/metadata/namespace"),
    ({"metadata": {"ownerReferences": []}}, "/metadata/ownerReferences"),
    *(
        ({"metadata": {"labels": {name: "x"}}}, f"/metadata/labels/{name.replace('/', '~1')}")
        for name in ("coworld.run", "coworld-component", "job-id", "app.kubernetes.io/managed-by")
    ),
    ({"metadata": {"annotations": {"coworld.host": "x"}}}, "/metadata/annotations/coworld.host"),
    (program_security(capabilities={"drop": []}), "/spec/containers/0/securityContext/capabilities/drop"),
    (container(resources={"limits": {"memory": "9Gi"}}), "/spec/containers/0/resources/limits/memory"),
    *(
        ({"spec": {"volumes": [{"name": name, "emptyDir": {}}]}}, "/spec/volumes/0/name")
        for name in ("unit", "program", "given", "coworld-token")
    ),
]


@pytest.mark.parametrize(("template", "place"), FIXED, ids=[place for _, place in FIXED])
def test_what_episodes_work_by_cannot_be_overlaid_even_if_all_is_allowed(template: dict[str, Any], place: str) -> None:
    (issue,) = refused(template, allow_privileged=True).report.issues
    assert (issue.code, issue.pointer) == ("pods_fixed", f"/player{place}")


@pytest.mark.parametrize(
    "path",
    [
        "data",
        "",
        "/",
        "/coworld",
        "/coworld/x",
        "/coworld-private",
        "/a/../coworld",
        "/a//b",
        "/proc/1",
        "/sys",
        "/dev/x",
        "/var/run/secrets/kubernetes.io/serviceaccount",
        "/run/x",
    ],
)
def test_nothing_is_mounted_over_what_is_not_the_programs(path: str) -> None:
    volumes: list[dict[str, Any]] = [{"name": "v", "emptyDir": {}}]
    mounts = container(volumeMounts=[{"name": "v", "mountPath": path}])["spec"]
    (issue,) = refused({"spec": {"volumes": volumes, **mounts}}, allow_privileged=True).report.issues
    assert issue.pointer == "/player/spec/containers/0/volumeMounts/0/mountPath"


def test_mounts_are_of_volumes_of_the_file() -> None:
    """A volume of ours may hold the worker's token: its name must not be enough."""
    for name in ("coworld-token", "wights"):
        volumes: dict[str, Any] = {"volumes": [{"name": "weights", "emptyDir": {}}]}
        mounts = container(volumeMounts=[{"name": name, "mountPath": "/w"}])["spec"]
        (issue,) = refused({"spec": {**volumes, **mounts}}, allow_privileged=True).report.issues
        assert (issue.code, issue.pointer) == ("unknown_volume", "/player/spec/containers/0/volumeMounts/0/name")
    assert issue.hint == 'Did you mean "weights"?'


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        ({"gmae": {}}, "unknown_field", 'Did you mean "game"?'),
        ({"game": {"spec": {"nodeSelektor": {}}}}, "unknown_field", 'Did you mean "nodeSelector"?'),
        ({"game": None}, "wrong_type", "must be an object, not null"),
        ({"game": {"spec": {"securityContext": None}}}, "wrong_type", "must be an object, not null"),
        ({"game": {"metadata": {"labels": {"a": 1}}}}, "wrong_type", "must be text, not a number"),
        ({"game": container("main")}, "not_allowed", "allowed: program or collector"),
        ({"game": program_security(privileged="false")}, "wrong_type", "must be true or false"),
        ({"game": container(resources={"requests": {"cpu": "much"}})}, "bad_quantity", "is not a quantity"),
    ],
)
def test_mistakes_are_told_with_their_place(content: dict[str, Any], code: str, words: str) -> None:
    with pytest.raises(DocumentError) as caught:
        PodOverlay.read(content)
    (issue,) = caught.value.report.issues
    assert issue.code == code
    assert words in str(issue)


def test_files_are_yaml_or_json_and_others_are_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "pods.yaml"
    path.write_text("all: &same\n  metadata: {labels: {team: arena}}\ngame: *same\n")
    overlay = PodOverlay.read(path)
    assert overlay.template("game") == {"metadata": {"labels": {"team": "arena"}}}
    path.write_text(json.dumps(overlay.templates))
    assert PodOverlay.read(path) == overlay
    bomb = "a: &a0 [x]\n" + "".join(f"b{n}: &a{n + 1} [{', '.join([f'*a{n}'] * 10)}]\n" for n in range(20))
    for text in ("all: [", "- all", "", "all: {spec: {affinity: {a: .nan}}}", "all: &a {b: *a}", bomb, "a: 2020-01-01"):
        path.write_text(text)
        with pytest.raises(UsageError, match=str(path)):
            PodOverlay.read(path)
    with pytest.raises(UsageError, match="cannot be read"):
        PodOverlay.read(tmp_path)
    with pytest.raises(UsageError) as caught:
        PodOverlay.read(None, allow_privileged=True)
    assert caught.value.code == "pods_missing"


# --- standards of namespaces ------------------------------------------------------------------------------------


@pytest.mark.parametrize("component", ["game", "player", "proxy", "grader"])
def test_pods_meet_the_standards(component: Any) -> None:
    more: dict[str, Any] = {"ports": (Port(name="http"),), "directory": Path("/d"), "inputs": Path("/i")}
    plain = body(component, **more)
    assert list(baseline_problems(plain)) == []
    assert "runAsNonRoot of main" in list(restricted_problems(plain)), "images run as the user that they name"
    assert list(restricted_problems(body(component, {"run_as_user": 10001}, **more))) == []
    player = {
        "overlay": PodOverlay.read({component: {"spec": {"priorityClassName": "p"}}} if component == "player" else {})
    }
    assert list(restricted_problems(body(component, {"run_as_user": 10001, **player}, **more))) == []
    assert list(restricted_problems({"spec": kube.pull_spec("i", policy="Always")})) == []
    assert list(restricted_problems(kube.owner_body("r", lease=1, image="i")["spec"]["template"])) == []


def test_user_of_a_namespace_gives_way_to_one_that_is_named() -> None:
    overlay = PodOverlay.read({"player": {"spec": {"securityContext": {"runAsUser": 4000}}}}).over(as_user(10001))
    assert (overlay.user("player"), overlay.user("game")) == (4000, 10001)
    made = overlay.applied("player", POD)["spec"]["securityContext"]
    assert made == {"runAsUser": 4000, "runAsGroup": 10001, "fsGroup": 10001, "runAsNonRoot": True}


@pytest.mark.parametrize(
    ("status", "words", "restricted"),
    [
        (403, 'pods "p" is forbidden: violates PodSecurity "restricted:v1.30": runAsNonRoot != true (…)', True),
        (403, 'pods "p" is forbidden: violates PodSecurity "baseline:latest": host namespaces (…)', False),
        (403, 'User "restricted" cannot create resource "pods"', False),
        (500, 'violates PodSecurity "restricted:latest"', False),
    ],
)
def test_restricted_namespace_is_known_by_its_words(status: int, words: str, restricted: bool) -> None:
    assert is_restricted(ClusterRefused("POST", status, "", words)) is restricted
