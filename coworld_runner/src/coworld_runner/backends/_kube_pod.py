"""What a cluster is told to create for a unit, as plain values: names, labels, and the bodies of the objects."""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from coworld_core.quantities import parse_quantity

from ..backend import INPUTS_MOUNT, Component, UnitSpec
from ..scratch import scratch_root

__all__ = [
    "CALL",
    "COLLECTOR",
    "COLLECTOR_REQUESTS",
    "HOST",
    "MAIN",
    "MANAGED",
    "PULL_SECONDS",
    "RUN",
    "SCRATCH",
    "Given",
    "PodOptions",
    "Requests",
    "annotations_of",
    "call_selector",
    "collector_port",
    "label",
    "labels_of",
    "object_name",
    "owner_body",
    "owner_reference",
    "pod_body",
    "policy_body",
    "program",
    "pull_spec",
    "run_selector",
    "secret_body",
    "service_body",
    "this_host",
]

MAIN, COLLECTOR = "main", "collector"
"""Names of the two containers of a pod."""

RUN, UNIT, CALL, HOST, SCRATCH = "coworld.run", "coworld.unit", "coworld.call", "coworld.host", "coworld.scratch"
MANAGED = {"app.kubernetes.io/managed-by": "coworld"}

_PROGRAM = "/coworld-collector"
_START = f"import sys; sys.path.insert(0, {_PROGRAM!r}); from collector.start import main; main()"
_GIVEN = "/coworld-given"
_COLLECTOR_DIRECTORY = "/coworld-unit"
_COLLECTOR_INPUTS = "/coworld-unit-inputs"
_PORTS = (47931, 47932, 47933, 47934)
"""Where the collector listens: the first that the unit does not."""
_LOG_ROOM = 512 * 1024**2
"""What a node may keep of a unit's output, beside what the unit itself may write."""
_SECRET_BYTES = 700 * 1024
"""What goes into one Secret; the server takes 1 MiB, base64 and all."""
_SECRET_FILES = 500
"""How many files go into it: each stands in the pod by its path too."""

_GAME_CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"]
"""What an image's start script needs that prepares directories as root and then becomes another user."""
_COLLECTOR_CAPABILITIES = ["DAC_READ_SEARCH", "KILL"]
"""The unit may run as any user; its files are read and its processes signalled all the same."""

PULL_SECONDS = 900
"""How long an image may take to be pulled before the cluster ends the attempt by itself."""

NO_SCHEDULER = "coworld-nobody"
"""A scheduler that does not exist: a pod of it waits for ever, on no node."""


@dataclass(frozen=True, kw_only=True)
class Requests:
    """What the scheduler keeps free for a container. Limits are the unit's own."""

    cpu: str
    """A quantity: ``250m``."""
    memory: str
    """A quantity: ``256Mi``."""


def _requests() -> dict[Component, Requests]:
    small = Requests(cpu="100m", memory="128Mi")
    return {
        "game": Requests(cpu="250m", memory="256Mi"),
        "replay": Requests(cpu="250m", memory="256Mi"),
        "player": small,
        "reporter": small,
        "commissioner": small,
        "grader": small,
        "diagnoser": small,
        "optimizer": small,
    }


@dataclass(frozen=True, kw_only=True)
class PodOptions:
    """What all pods of a backend have in common."""

    collector_image: str
    """Any image with Python 3.9 or later: the program itself is brought along."""
    pull: Literal["missing", "never", "always"] = "missing"
    requests: Mapping[Component, Requests] = field(default_factory=_requests)
    run_as_user: int | None = None
    """The user id of all containers; None: each image's own, which a *restricted* namespace refuses."""
    node_selector: Mapping[str, str] = field(default_factory=dict[str, str])
    tolerations: tuple[Mapping[str, Any], ...] = ()
    image_pull_secrets: tuple[str, ...] = ()
    runtime_class: str | None = None
    priority_class: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further labels of the pods: ``kueue.x-k8s.io/queue-name`` has Kueue admit them when there is room."""
    lifetime: float = 24 * 3600.0
    """Seconds after which the cluster ends a pod by itself."""

    @property
    def pull_policy(self) -> str:
        """The cluster's word for ``pull``."""
        return {"missing": "IfNotPresent", "never": "Never", "always": "Always"}[self.pull]


COLLECTOR_REQUESTS = Requests(cpu="10m", memory="32Mi")
_COLLECTOR_MEMORY = "256Mi"


# --- names and labels -------------------------------------------------------------------------------------------


def object_name(run_id: str, *parts: str) -> str:
    """The name of an object: at most 63 characters that a host name may have, unique for the run and the parts."""
    text = "-".join(("coworld", run_id, *parts))
    plain = re.sub(r"[^a-z0-9-]+", "-", text.lower()).strip("-")
    if plain == text and len(plain) <= 63:
        return plain
    return f"{plain[:50].strip('-')}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def label(text: str) -> str:
    """A text as a label's value; one that cannot be one becomes its digest."""
    if re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", text):
        return text
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def run_selector(run_id: str | None) -> str:
    """What finds everything of one run, or of all."""
    return f"{RUN}={label(run_id)}" if run_id is not None else RUN


def call_selector(call: str) -> str:
    """What finds everything that was made by one call of ``units``."""
    return f"{CALL}={call}"


def labels_of(spec: UnitSpec, call: str) -> dict[str, str]:
    """Labels of everything made for a unit."""
    labels = {**MANAGED, RUN: label(spec.run_id), UNIT: label(spec.name), CALL: call}
    labels["coworld.component"] = spec.component
    if spec.slot is not None:
        labels["coworld.slot"] = str(spec.slot)
    return labels


@lru_cache(maxsize=1)
def this_host() -> str:
    """Something that tells this system from others that may use the same cluster."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            if text := Path(path).read_text("ascii").strip():
                return text
        except (OSError, UnicodeDecodeError):
            continue
    return platform.node()


def annotations_of(run_id: str, **more: str) -> dict[str, str]:
    """Who made it: enough to see from the same machine whether that runner lives."""
    return {
        RUN: run_id,
        HOST: this_host(),
        SCRATCH: str(scratch_root() / run_id),
        "coworld.pid": str(os.getpid()),
        # evicted or moved, an episode is lost
        "karpenter.sh/do-not-disrupt": "true",
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        **more,
    }


def _metadata(spec: UnitSpec, call: str, owner: Mapping[str, Any], *parts: str) -> dict[str, Any]:
    return {
        "name": object_name(spec.run_id, spec.name, *parts),
        "labels": labels_of(spec, call),
        "annotations": annotations_of(spec.run_id, **{UNIT: spec.name}),
        "ownerReferences": [dict(owner)],
    }


def owner_reference(job: Mapping[str, Any]) -> dict[str, Any]:
    """What ties an object to its run: it goes when the run's Job does."""
    return {"apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"], "uid": job["metadata"]["uid"]}


@lru_cache(maxsize=1)
def program() -> Mapping[str, bytes]:
    """The collector's source by file, as it is brought to each pod."""
    package = files("coworld_runner").joinpath("collector")
    return {item.name: item.read_bytes() for item in package.iterdir() if item.name.endswith(".py")}


# --- objects ----------------------------------------------------------------------------------------------------


def owner_body(run_id: str, *, lease: int, image: str) -> dict[str, Any]:
    """The Job that everything of a run belongs to, and that the cluster removes when nobody renews its lease.

    It runs nothing: its one pod names a scheduler that does not exist. At its deadline the cluster fails the Job,
    removes it after ``ttlSecondsAfterFinished``, and with it all it owns.

    Args:
        run_id: The run's label.
        lease: Seconds until then; raised while the runner lives.
        image: Any image; it is never pulled.
    """
    container = {
        "name": "nothing",
        "image": image,
        "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}, "limits": {"cpu": "1m", "memory": "1Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": object_name(run_id),
            "labels": {**MANAGED, RUN: label(run_id)},
            "annotations": annotations_of(run_id),
        },
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": 0,
            "activeDeadlineSeconds": lease,
            "ttlSecondsAfterFinished": 0,
            "template": {
                "metadata": {"labels": dict(MANAGED)},
                "spec": {
                    "schedulerName": NO_SCHEDULER,
                    "restartPolicy": "Never",
                    "automountServiceAccountToken": False,
                    "terminationGracePeriodSeconds": 0,
                    "securityContext": {
                        "runAsNonRoot": True,
                        "runAsUser": 65534,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "containers": [container],
                },
            },
        },
    }


def pull_spec(image: str, *, policy: str, user: int = 65534) -> dict[str, Any]:
    """A pod for an image with a program that does not exist: the image is pulled, and nothing of it runs.

    Args:
        image: What is pulled.
        policy: Whether it is pulled when a node has it, in the cluster's word.
        user: What the program would run as.
    """
    container = {
        "name": MAIN,
        "image": image,
        "imagePullPolicy": policy,
        "command": ["/coworld-image-pull"],
        "resources": {
            "requests": {"cpu": "1m", "memory": "8Mi"},
            "limits": {"cpu": "100m", "memory": "32Mi", "ephemeral-storage": "16Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "runAsUser": user,
        },
    }
    return {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": PULL_SECONDS,
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }


@dataclass(frozen=True)
class Given:
    """The files that a unit finds when it starts, by where the collector takes them.

    ``files/NAME`` is one of its directory, ``inputs/PATH`` one of its inputs.
    """

    small: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Those that fit into its Secret."""
    large: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """Those that are brought when its pod is there."""
    inputs_bytes: int = 0
    """What its inputs take in all."""

    @classmethod
    def of(cls, spec: UnitSpec) -> Given:
        """Read a unit's directory, and its inputs at any depth: regular files only."""
        small: dict[str, bytes] = {}
        large: dict[str, Path] = {}
        room = _SECRET_BYTES
        inputs_bytes = 0
        for name, path in (*_regular_files(spec.directory, "files"), *_regular_files(spec.inputs, "inputs", deep=True)):
            size = path.stat().st_size
            if name.startswith("inputs/"):
                inputs_bytes += size
            if size <= room and len(small) < _SECRET_FILES:
                room -= size
                small[name] = path.read_bytes()
            else:
                large[name] = path
        return cls(small, large, inputs_bytes)


def _regular_files(directory: Path | None, name: str, *, deep: bool = False) -> Iterator[tuple[str, Path]]:
    if directory is None:
        return
    for path in sorted(directory.iterdir()):
        if path.is_symlink():
            continue
        if path.is_file():
            yield f"{name}/{path.name}", path
        elif deep and path.is_dir():
            yield from _regular_files(path, f"{name}/{path.name}", deep=True)


def secret_body(
    spec: UnitSpec,
    call: str,
    owner: Mapping[str, Any],
    *,
    environment: Mapping[str, str],
    given: Given,
    token: str,
) -> dict[str, Any]:
    """The Secret with what nobody else may see of a unit: its environment, its files, its collector's token."""
    data = {f"env.{index}": value.encode() for index, value in enumerate(environment.values())}
    data |= {f"file.{index}": content for index, content in enumerate(given.small.values())}
    data |= {f"collector.{name}": source for name, source in program().items()}
    data["token"] = token.encode()
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": _metadata(spec, call, owner),
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }


def service_body(spec: UnitSpec, call: str, owner: Mapping[str, Any]) -> dict[str, Any]:
    """A name within the cluster for the ports of a unit that others connect to."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(spec, call, owner),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {RUN: label(spec.run_id), UNIT: label(spec.name)},
            "ports": [{"name": label(port.name).lower(), "port": port.number} for port in spec.ports],
        },
    }


def policy_body(spec: UnitSpec, call: str, owner: Mapping[str, Any]) -> dict[str, Any]:
    """Who may connect to a unit that is kept apart (its clients), and to whom it may (what it connects to)."""

    def peers(*names: str) -> list[dict[str, Any]]:
        return [
            {
                "podSelector": {
                    "matchLabels": {RUN: label(spec.run_id)},
                    "matchExpressions": [{"key": UNIT, "operator": "In", "values": [label(name) for name in names]}],
                }
            }
        ]

    ingress: list[dict[str, Any]] = []
    if spec.clients:
        ports = [{"protocol": "TCP", "port": port.number} for port in spec.ports]
        ingress.append({"from": peers(*spec.clients), "ports": ports})
    egress: list[dict[str, Any]] = []
    if spec.connects_to is not None and spec.network == "game-only":
        egress.append({"to": peers(spec.connects_to)})
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(spec, call, owner),
        "spec": {
            "podSelector": {"matchLabels": {RUN: label(spec.run_id), UNIT: label(spec.name)}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": egress,
        },
    }


def collector_port(spec: UnitSpec) -> int:
    """Where a unit's collector listens."""
    taken = {port.number for port in spec.ports}
    return next(port for port in _PORTS if port not in taken)


def pod_body(
    spec: UnitSpec,
    call: str,
    owner: Mapping[str, Any],
    *,
    options: PodOptions,
    environment: Mapping[str, str],
    given: Given,
) -> dict[str, Any]:
    """The pod of a unit: its own container, and the collector beside it, which is up and watches before it starts."""
    secret = object_name(spec.run_id, spec.name)
    sources = [{"key": f"collector.{name}", "path": f"collector/{name}"} for name in program()]
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": max(1, int(spec.lifetime or options.lifetime)),
        "terminationGracePeriodSeconds": 2,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        # an init process of the pod: TERM ends programs that do not handle it, and the collector can send it
        "shareProcessNamespace": True,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            _collector(spec, options, secret, hold=bool(given.large)),
            _main(spec, options, secret, environment, given.inputs_bytes),
        ],
        "volumes": [
            {"name": "unit", "emptyDir": _size(spec)},
            {"name": "program", "secret": {"secretName": secret, "items": sources}},
        ],
    }
    if spec.inputs is not None:
        pod["volumes"].append({"name": "inputs", "emptyDir": {}})
    if given.small:
        items = [{"key": f"file.{index}", "path": name} for index, name in enumerate(given.small)]
        pod["volumes"].append({"name": "given", "secret": {"secretName": secret, "items": items}})
        pod["containers"][0]["volumeMounts"].append({"name": "given", "mountPath": _GIVEN, "readOnly": True})
    if options.run_as_user is not None:
        user = options.run_as_user
        pod["securityContext"] |= {"runAsNonRoot": user != 0, "runAsUser": user, "runAsGroup": user, "fsGroup": user}
    if spec.network != "open":
        # names of the outside are not even looked up: a question carries data
        pod["dnsPolicy"] = "None"
        pod["dnsConfig"] = {
            "nameservers": ["127.0.0.1"],
            "options": [{"name": "timeout", "value": "1"}, {"name": "attempts", "value": "1"}],
        }
    selector = dict(options.node_selector)
    if spec.platform is not None:
        system, _, machine = spec.platform.partition("/")
        selector |= {"kubernetes.io/os": system, "kubernetes.io/arch": machine.partition("/")[0]}
    for name, value in (
        ("nodeSelector", selector),
        ("tolerations", [dict(entry) for entry in options.tolerations]),
        ("imagePullSecrets", [{"name": entry} for entry in options.image_pull_secrets]),
        ("runtimeClassName", options.runtime_class),
        ("priorityClassName", options.priority_class),
    ):
        if value:
            pod[name] = value
    metadata = _metadata(spec, call, owner)
    metadata["labels"] = {**options.labels, **metadata["labels"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod}


def _size(spec: UnitSpec) -> dict[str, Any]:
    if spec.limits.disk_bytes is None:
        return {}
    # the collector ends the unit at its limit; this is for one that writes faster than anybody looks
    return {"sizeLimit": str(spec.limits.disk_bytes * 2 + 64 * 1024**2)}


def _main(
    spec: UnitSpec, options: PodOptions, secret: str, environment: Mapping[str, str], inputs_bytes: int
) -> dict[str, Any]:
    limits = spec.limits
    asked = options.requests[spec.component]
    resources: dict[str, dict[str, str]] = {"requests": {"cpu": asked.cpu, "memory": asked.memory}, "limits": {}}
    if limits.memory_bytes is not None:
        resources["limits"]["memory"] = str(limits.memory_bytes)
        if parse_quantity(asked.memory) > limits.memory_bytes:
            resources["requests"]["memory"] = str(limits.memory_bytes)
    if limits.cpus is not None:
        resources["limits"]["cpu"] = f"{max(1, round(limits.cpus * 1000))}m"
        if parse_quantity(asked.cpu) > limits.cpus:
            resources["requests"]["cpu"] = resources["limits"]["cpu"]
    if limits.disk_bytes is not None:
        # what it was given counts as the pod's too
        resources["limits"]["ephemeral-storage"] = str(limits.disk_bytes * 2 + _LOG_ROOM + inputs_bytes)
        resources["requests"]["ephemeral-storage"] = "16Mi"
    capabilities: dict[str, Any] = {"drop": ["ALL"]}
    if spec.component != "player" and options.run_as_user is None:
        capabilities["add"] = _GAME_CAPABILITIES
    container: dict[str, Any] = {
        "name": MAIN,
        "image": spec.image,
        "imagePullPolicy": options.pull_policy,
        "env": [
            {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": f"env.{index}"}}}
            for index, name in enumerate(environment)
        ],
        "ports": [{"containerPort": port.number} for port in spec.ports],
        "resources": resources,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": capabilities},
        "terminationMessagePolicy": "File",
    }
    mounts: list[dict[str, Any]] = []
    if spec.directory is not None:
        mounts.append({"name": "unit", "mountPath": spec.mount})
    if spec.inputs is not None:
        mounts.append({"name": "inputs", "mountPath": INPUTS_MOUNT, "readOnly": True})
    if mounts:
        container["volumeMounts"] = mounts
    if spec.argv:
        # the cluster would replace $(NAME) and $$ in them
        words = [word.replace("$", "$$") for word in spec.argv]
        container["command"], container["args"] = words[:1], words[1:]
    return container


def _collector(spec: UnitSpec, options: PodOptions, secret: str, *, hold: bool) -> dict[str, Any]:
    port = str(collector_port(spec))
    settings = {
        "PORT": port,
        "DIRECTORY": _COLLECTOR_DIRECTORY,
        "INPUTS": _COLLECTOR_INPUTS if spec.inputs is not None else "",
        "GIVEN": _GIVEN,
        "HOLD": str(int(hold)),
        "DISK": "" if spec.limits.disk_bytes is None else str(spec.limits.disk_bytes),
        "SIGNALS": "1",
    }
    python = ["python3", "-I", "-S"]
    capabilities: dict[str, Any] = {"drop": ["ALL"]}
    context: dict[str, Any] = {"allowPrivilegeEscalation": False, "capabilities": capabilities}
    if options.run_as_user is None:
        capabilities["add"] = _COLLECTOR_CAPABILITIES
        context["runAsUser"] = 0
    mounts: list[dict[str, Any]] = [
        {"name": "unit", "mountPath": _COLLECTOR_DIRECTORY},
        {"name": "program", "mountPath": _PROGRAM, "readOnly": True},
    ]
    if spec.inputs is not None:
        mounts.append({"name": "inputs", "mountPath": _COLLECTOR_INPUTS})
    return {
        "name": COLLECTOR,
        "image": options.collector_image,
        "imagePullPolicy": options.pull_policy,
        "command": python,
        "args": ["-c", _START],
        "env": [
            *({"name": f"COWORLD_COLLECTOR_{name}", "value": value} for name, value in settings.items()),
            {"name": "COWORLD_COLLECTOR_TOKEN", "valueFrom": {"secretKeyRef": {"name": secret, "key": "token"}}},
            {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
        ],
        # containers start in order, each when the one before has been through this
        "lifecycle": {"postStart": {"exec": {"command": [*python, f"{_PROGRAM}/collector/waiting.py", port]}}},
        "resources": {
            "requests": {"cpu": COLLECTOR_REQUESTS.cpu, "memory": COLLECTOR_REQUESTS.memory},
            "limits": {"memory": _COLLECTOR_MEMORY},
        },
        "securityContext": context,
        "volumeMounts": mounts,
    }
