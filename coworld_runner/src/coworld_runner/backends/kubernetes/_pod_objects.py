"""The objects that a cluster is asked to create for a unit, as plain values: names, labels and bodies."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, cast, get_args

from ...backend import INPUTS_MOUNT, Component, UnitSpec
from .._own_source import own_sources
from ..engine import RUN, UNIT, capabilities_of, run_labels, unit_labels
from ._object_parts import (
    UNDISTURBED,
    concealed_variable,
    concealing,
    container,
    pod_spec,
    secret,
    thing,
    without_empty,
)
from .pod_overlay import PodOverlay, Section, as_user

__all__ = [
    "CALL",
    "COLLECTOR",
    "COLLECTOR_REQUESTS",
    "MAIN",
    "MANAGED",
    "PULL_SECONDS",
    "QUEUE",
    "PodGroup",
    "PodOptions",
    "Requests",
    "UnitFiles",
    "annotations_of",
    "call_selector",
    "collector_port",
    "label",
    "labels_of",
    "nodes_of",
    "object_name",
    "owner_body",
    "owner_reference",
    "pod_body",
    "policy_body",
    "program",
    "pull_spec",
    "queue_of",
    "run_selector",
    "secret_body",
    "section_of",
    "service_body",
]

MAIN, COLLECTOR = "main", "collector"
"""Names of the two containers of a pod."""

CALL = "coworld.call"
QUEUE, GROUP = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/pod-group-name"
"""The labels with which Kueue is asked to admit something, and pods as one."""
_OF_GROUP = "kueue.x-k8s.io/pod-group-total-count"
_REPLACED = "kueue.x-k8s.io/retriable-in-group"
_LARGE_SECONDS = 120
"""How long a unit is held back after the last request while its files are missing."""
MANAGED = {"app.kubernetes.io/managed-by": "coworld"}

_PROGRAM = "/coworld-collector"
_START = f"import sys; sys.path.insert(0, {_PROGRAM!r}); from collector.collector_start import main; main()"
_GIVEN = "/coworld-given"
_COLLECTOR_DIRECTORY = "/coworld-unit"
_COLLECTOR_INPUTS = "/coworld-unit-inputs"
_PORTS = (47931, 47932, 47933, 47934)
"""Ports for the collector: it takes the first one that the unit does not use."""
_LOG_ROOM = 512 * 1024**2
"""Bytes of a unit's output that a node may keep, besides what the unit itself may write."""
_SECRET_BYTES = 700 * 1024
"""Bytes that go into one Secret; the server accepts 1 MiB, base64 included."""
_SECRET_FILES = 500
"""The most files in one Secret: each is also listed by path in the pod's spec."""

_COLLECTOR_CAPABILITIES = ("DAC_OVERRIDE", "KILL")
"""Needed because the unit may run as any user, and its files must be read and its processes signalled. A namespace of
the *baseline* standard allows them."""

PULL_SECONDS = 900
"""Seconds that pulling an image may take before the cluster ends the attempt."""

_NOBODY = 65534
"""The id of the user `nobody`."""
NO_SCHEDULER = "coworld-nobody"
"""A scheduler that does not exist: a pod that names it waits forever, on no node."""


@dataclass(frozen=True, kw_only=True)
class Requests:
    """The resources that the scheduler reserves for a container. Limits come from the unit."""

    cpu: str
    """A quantity: `250m`."""
    memory: str
    """A quantity: `256Mi`."""

    def as_map(self) -> dict[str, str]:
        """The values by the cluster's names."""
        return {"cpu": self.cpu, "memory": self.memory}


def _requests() -> dict[Component, Requests]:
    served, proxy = Requests(cpu="250m", memory="256Mi"), Requests(cpu="10m", memory="32Mi")
    small = dict.fromkeys(cast("tuple[Component, ...]", get_args(Component)), Requests(cpu="100m", memory="128Mi"))
    return {**small, "game": served, "replay": served, "proxy": proxy}


@dataclass(frozen=True, kw_only=True)
class PodOptions:
    """Options shared by all pods of a backend."""

    collector_image: str
    """Any image with Python 3.9 or later; the collector's program is added to the pod."""
    pull: Literal["missing", "never", "always"] = "missing"
    requests: Mapping[Component, Requests] = field(default_factory=_requests)
    run_as_user: int | None = None
    """The user id of all containers; None: each image's own, or where the namespace refuses those, 10001."""
    node_selector: Mapping[str, str] = field(default_factory=dict[str, str])
    tolerations: tuple[Mapping[str, Any], ...] = ()
    image_pull_secrets: tuple[str, ...] = ()
    runtime_class: str | None = None
    priority_class: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further labels of the pods: with `kueue.x-k8s.io/queue-name`, Kueue admits them when there is room."""
    overlay: PodOverlay = field(default_factory=PodOverlay)
    """What else is to be said of pods, over all of the above, for each kind of pod: `PodOverlay.read({...})`."""
    lifetime: float = 24 * 3600.0
    """Seconds after which the cluster ends a pod."""

    @property
    def pull_policy(self) -> str:
        """The cluster's name for `pull`."""
        return {"missing": "IfNotPresent", "never": "Never", "always": "Always"}[self.pull]

    @property
    def overlaid(self) -> PodOverlay:
        """All that is said of pods beyond what a unit needs, as one overlay."""
        spec: dict[str, Any] = {
            "nodeSelector": dict(self.node_selector),
            "tolerations": [dict(entry) for entry in self.tolerations],
            "imagePullSecrets": [{"name": entry} for entry in self.image_pull_secrets],
            "runtimeClassName": self.runtime_class,
            "priorityClassName": self.priority_class,
            **(as_user(self.run_as_user)["spec"] if self.run_as_user is not None else {}),
        }
        return self.overlay.over({"metadata": {"labels": dict(self.labels)}, "spec": without_empty(spec)})


def section_of(component: Component) -> Section | None:
    """The part of an overlay that is about a component's pods; None: only what is said of all."""
    return {"game": "game", "replay": "game", "player": "player"}.get(component)  # pyright: ignore[reportReturnType]


def queue_of(component: Component, options: PodOptions) -> str:
    """The queue that admits a component's pods; empty: none does."""
    return str(options.overlaid.template(section_of(component)).get("metadata", {}).get("labels", {}).get(QUEUE) or "")


def nodes_of(platform: str | None) -> dict[str, Any]:
    """The part of a pod's spec that selects nodes of a platform, `os/arch`; None: any."""
    if platform is None:
        return {}
    system, _, machine = platform.partition("/")
    return {"nodeSelector": {"kubernetes.io/os": system, "kubernetes.io/arch": machine.partition("/")[0]}}


COLLECTOR_REQUESTS = Requests(cpu="10m", memory="32Mi")
_COLLECTOR_MEMORY = "256Mi"


# --- names and labels -------------------------------------------------------------------------------------------


def object_name(run_id: str, *parts: str) -> str:
    """The name of an object: at most 63 characters, valid in a host name, and unique for the run and the parts."""
    text = "-".join(("coworld", run_id, *parts))
    plain = re.sub(r"[^a-z0-9-]+", "-", text.lower()).strip("-")
    if plain == text and len(plain) <= 63:
        return plain
    return f"{plain[:50].strip('-')}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def label(text: str) -> str:
    """A text as a label value; a text that is not a valid value becomes its digest."""
    if re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", text):
        return text
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def run_selector(run_id: str | None) -> str:
    """The selector for everything of one run, or of all runs."""
    return f"{RUN}={label(run_id)}" if run_id is not None else RUN


def call_selector(call: str) -> str:
    """The selector for everything made by one call of `units`."""
    return f"{CALL}={call}"


def labels_of(spec: UnitSpec, call: str) -> dict[str, str]:
    """Labels of everything made for a unit."""
    return {**MANAGED, RUN: label(spec.run_id), **unit_labels(spec), UNIT: label(spec.name), CALL: call}


def annotations_of(run_id: str, **more: str) -> dict[str, str]:
    """The owner's identity: enough to tell on the same machine whether that runner is alive."""
    return {**run_labels(run_id), "coworld.pid": str(os.getpid()), **UNDISTURBED, **more}


def _metadata(spec: UnitSpec, call: str, owner: Mapping[str, Any], *parts: str) -> dict[str, Any]:
    return {
        "name": object_name(spec.run_id, spec.name, *parts),
        "labels": labels_of(spec, call),
        "annotations": annotations_of(spec.run_id, **{UNIT: spec.name}),
        "ownerReferences": [dict(owner)],
    }


def owner_reference(job: Mapping[str, Any]) -> dict[str, Any]:
    """The reference that ties an object to its run: it is removed with the run's Job."""
    return {"apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"], "uid": job["metadata"]["uid"]}


@lru_cache(maxsize=1)
def program() -> Mapping[str, bytes]:
    """The collector's source by file name, as it is copied into each pod."""
    return own_sources("backends/collector")


# --- objects ----------------------------------------------------------------------------------------------------


def owner_body(run_id: str, *, lease: int, image: str, owner: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The Job that owns everything of a run, and that the cluster removes when its lease is not renewed.

    It runs nothing: its only pod names a scheduler that does not exist. At its deadline the cluster fails the Job, and
    after `ttlSecondsAfterFinished` removes it with everything it owns. The pod is needed for that: a Job without one
    (`parallelism: 0`) never starts its clock (seen with Kubernetes 1.20).

    Args:
        run_id: The run's label.
        lease: Seconds until its deadline; raised while the runner lives.
        image: Any image; it is never pulled.
        owner: The reference to what it goes with in turn; None: nothing.
    """
    least = {"cpu": "1m", "memory": "1Mi"}
    metadata = {
        "name": object_name(run_id),
        "labels": {**MANAGED, RUN: label(run_id)},
        "annotations": annotations_of(run_id),
        **({"ownerReferences": [dict(owner)]} if owner is not None else {}),
    }
    template = pod_spec(
        container("nothing", image, requests=least, limits=least),
        security={"runAsNonRoot": True, "runAsUser": _NOBODY},
        schedulerName=NO_SCHEDULER,
    )
    spec = {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 0,
        "activeDeadlineSeconds": lease,
        "ttlSecondsAfterFinished": 0,
        "template": {"metadata": {"labels": dict(MANAGED)}, "spec": template},
    }
    return thing("Job", metadata, spec=spec)


def pull_spec(image: str, *, policy: str, user: int = _NOBODY, **more: Any) -> dict[str, Any]:
    """A pod that runs a program that does not exist, so that its image is pulled and nothing is run.

    Args:
        image: The image to pull.
        policy: The pull policy, by the cluster's name.
        user: The user id of the program.
        more: Further fields of the pod's spec.
    """
    nothing = container(
        MAIN,
        image,
        argv=["/coworld-image-pull"],
        requests={"cpu": "1m", "memory": "8Mi"},
        limits={"cpu": "100m", "memory": "32Mi", "ephemeral-storage": "16Mi"},
        user=user,
        imagePullPolicy=policy,
    )
    return pod_spec(nothing, seconds=PULL_SECONDS, **more)


@dataclass(frozen=True)
class PodGroup:
    """Pods that a queue admits as one, once all are there: two runs cannot each have a part of what they need."""

    name: str
    count: int

    def over(self, pod: Mapping[str, Any]) -> dict[str, Any]:
        """A pod as one of the group."""
        metadata: Mapping[str, Any] = pod["metadata"]
        # None of them is ever replaced, so the group ends with its pods
        said = {_OF_GROUP: str(self.count), _REPLACED: "false"}
        labels, annotations = {**metadata["labels"], GROUP: self.name}, {**metadata["annotations"], **said}
        return {**pod, "metadata": {**metadata, "labels": labels, "annotations": annotations}}


@dataclass(frozen=True)
class UnitFiles:
    """The files that a unit finds when it starts, by their path in the collector.

    `files/NAME` is a file of its directory, `inputs/PATH` one of its inputs.
    """

    small: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """The files that fit into its Secret."""
    large: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """The files that are uploaded once its pod is there."""
    inputs_bytes: int = 0
    """Total size of its inputs."""

    @classmethod
    def of(cls, spec: UnitSpec) -> UnitFiles:
        """Read a unit's directory, and its inputs at any depth; regular files only."""
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
    files: UnitFiles,
    token: str,
) -> dict[str, Any]:
    """The Secret with the private parts of a unit: its environment, its files, its collector's token."""
    data = concealing(environment.values())
    data |= {f"file.{index}": content for index, content in enumerate(files.small.values())}
    data |= {f"collector.{name}": source for name, source in program().items()}
    return secret(_metadata(spec, call, owner), {**data, "token": token.encode()})


def service_body(spec: UnitSpec, call: str, owner: Mapping[str, Any], *, has_address: bool = False) -> dict[str, Any]:
    """A name within the cluster for the ports of a unit that others connect to.

    Args:
        spec: The unit.
        call: The label of the call that makes it.
        owner: The reference to its run.
        has_address: Whether it has an address before the unit does.
    """
    ports = [{"name": label(port.name).lower(), "port": port.number} for port in spec.ports]
    selector = {RUN: label(spec.run_id), UNIT: label(spec.name)}
    fields: dict[str, Any] = {"publishNotReadyAddresses": True, "selector": selector, "ports": ports}
    if not has_address:
        fields["clusterIP"] = "None"
    return thing("Service", _metadata(spec, call, owner), spec=fields)


def policy_body(spec: UnitSpec, call: str, owner: Mapping[str, Any]) -> dict[str, Any]:
    """The network policy of an isolated unit: its clients may connect to it, and it may connect to its target."""

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
    targets = [name for name in (spec.connects_to, *spec.proxies) if name is not None]
    if targets and spec.network == "game-only":
        egress.append({"to": peers(*targets)})
    fields = {
        "podSelector": {"matchLabels": {RUN: label(spec.run_id), UNIT: label(spec.name)}},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": ingress,
        "egress": egress,
    }
    return thing("NetworkPolicy", _metadata(spec, call, owner), spec=fields)


def collector_port(spec: UnitSpec) -> int:
    """The port of a unit's collector."""
    taken = {port.number for port in spec.ports}
    return next(port for port in _PORTS if port not in taken)


def pod_body(
    spec: UnitSpec,
    call: str,
    owner: Mapping[str, Any],
    *,
    options: PodOptions,
    environment: Mapping[str, str],
    files: UnitFiles,
    held: float = 0,
) -> dict[str, Any]:
    """The pod of a unit: its own container, and the collector, which is up and watching before the unit starts.

    The unit is held back until it is let go, for so many seconds (`held`) or while large files are missing.
    """
    name = object_name(spec.run_id, spec.name)
    sources = [{"key": f"collector.{file}", "path": f"collector/{file}"} for file in program()]
    volumes: list[dict[str, Any]] = [
        {"name": "unit", "emptyDir": _size(spec)},
        {"name": "program", "secret": {"secretName": name, "items": sources}},
    ]
    if spec.inputs is not None:
        volumes.append({"name": "inputs", "emptyDir": {}})
    if files.small:
        items = [{"key": f"file.{index}", "path": file} for index, file in enumerate(files.small)]
        volumes.append({"name": "given", "secret": {"secretName": name, "items": items}})
    overlay, section = options.overlaid, section_of(spec.component)
    own = overlay.user(section) is None
    names: dict[str, Any] = {}
    if spec.network != "open":
        # Outside names are not even looked up: a DNS query can carry data
        timeouts = [{"name": "timeout", "value": "1"}, {"name": "attempts", "value": "1"}]
        names = {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["127.0.0.1"], "options": timeouts}}
    pod = pod_spec(
        _collector(spec, options, name, files, own=own, held=held),
        _main(spec, options, name, environment, files.inputs_bytes, own=own),
        seconds=spec.lifetime or options.lifetime,
        grace=2,
        # An init process for the pod: TERM ends programs that do not handle it, and the collector can send it
        shareProcessNamespace=True,
        volumes=volumes,
        **nodes_of(spec.platform),
        **names,
    )
    return overlay.applied(section, thing("Pod", _metadata(spec, call, owner), spec=pod))


def _size(spec: UnitSpec) -> dict[str, Any]:
    if spec.limits.disk_bytes is None:
        return {}
    # The collector ends the unit at its limit; this stops a unit that writes faster than the collector checks
    return {"sizeLimit": str(spec.limits.disk_bytes * 2 + 64 * 1024**2)}


def _main(
    spec: UnitSpec,
    options: PodOptions,
    secret: str,
    environment: Mapping[str, str],
    inputs_bytes: int,
    *,
    own: bool,
) -> dict[str, Any]:
    wanted = spec.limits
    requests, limits = options.requests[spec.component].as_map(), dict[str, str]()
    if wanted.memory_bytes is not None:
        limits["memory"] = str(wanted.memory_bytes)
    if wanted.cpus is not None:
        limits["cpu"] = f"{max(1, round(wanted.cpus * 1000))}m"
    if spec.gpu:
        limits["nvidia.com/gpu"] = "1"
    if wanted.disk_bytes is not None:
        # The unit's input files count towards the pod's storage too
        limits["ephemeral-storage"] = str(wanted.disk_bytes * 2 + _LOG_ROOM + inputs_bytes)
        requests["ephemeral-storage"] = "16Mi"
    mounts: list[dict[str, Any]] = []
    if spec.directory is not None:
        mounts.append({"name": "unit", "mountPath": spec.mount})
    if spec.inputs is not None:
        mounts.append({"name": "inputs", "mountPath": INPUTS_MOUNT, "readOnly": True})
    return container(
        MAIN,
        spec.image,
        argv=spec.argv,
        concealed=environment,
        secret=secret,
        requests=requests,
        limits=limits,
        capabilities=capabilities_of(spec) if own else (),
        imagePullPolicy=options.pull_policy,
        ports=[{"containerPort": port.number} for port in spec.ports],
        terminationMessagePolicy="File",
        volumeMounts=mounts,
    )


def _collector(
    spec: UnitSpec, options: PodOptions, secret: str, files: UnitFiles, *, own: bool, held: float
) -> dict[str, Any]:
    port = str(collector_port(spec))
    settings = {
        "PORT": port,
        "DIRECTORY": _COLLECTOR_DIRECTORY,
        "INPUTS": _COLLECTOR_INPUTS if spec.inputs is not None else "",
        "GIVEN": _GIVEN,
        "HOLD": str(int(held) or (_LARGE_SECONDS if files.large else 0)),
        "DISK": "" if spec.limits.disk_bytes is None else str(spec.limits.disk_bytes),
        "ENTRIES": "" if spec.limits.disk_entries is None else str(spec.limits.disk_entries),
        "SIGNALS": "1",
    }
    plain = {f"COWORLD_COLLECTOR_{name}": value for name, value in settings.items()}
    token = concealed_variable("COWORLD_COLLECTOR_TOKEN", secret, "token")
    python = ["python3", "-I", "-S"]
    mounts: list[dict[str, Any]] = [
        {"name": "unit", "mountPath": _COLLECTOR_DIRECTORY},
        {"name": "program", "mountPath": _PROGRAM, "readOnly": True},
    ]
    if spec.inputs is not None:
        mounts.append({"name": "inputs", "mountPath": _COLLECTOR_INPUTS})
    if files.small:
        mounts.append({"name": "given", "mountPath": _GIVEN, "readOnly": True})
    return container(
        COLLECTOR,
        options.collector_image,
        argv=[*python, "-c", _START],
        plain={**plain, "PYTHONDONTWRITEBYTECODE": "1"},
        env=[token],
        requests=COLLECTOR_REQUESTS.as_map(),
        limits={"memory": _COLLECTOR_MEMORY},
        capabilities=_COLLECTOR_CAPABILITIES if own else (),
        user=0 if own else None,
        imagePullPolicy=options.pull_policy,
        # Containers start in order, each after the previous one's postStart hook has finished
        lifecycle={"postStart": {"exec": {"command": [*python, f"{_PROGRAM}/collector/start_permit.py", port]}}},
        volumeMounts=mounts,
    )
