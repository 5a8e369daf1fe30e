"""What an operator says of pods beside what we say: partial pod templates, checked and laid over ours."""

# No annotations from __future__: pydantic would compile each of them

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from coworld_core.documents.findings import Finding, did_you_mean, dotted, quoted
from coworld_core.documents.json_text import JsonDocument
from coworld_core.documents.shapes import parse_shape
from coworld_core.errors import DocumentError, UsageError
from coworld_core.files.regular import read_regular
from coworld_core.hints import Hint
from coworld_core.quantities import parse_quantity

__all__ = ["RESTRICTED_USER", "PodOverlay", "Section", "allows_no_root", "as_user"]

Section = Literal["game", "player", "worker"]
"""Whose pods: those of games (replays too), of players, or of the hosted worker."""

RESTRICTED_USER = 10001
"""The user id of all programs where a namespace refuses root and nobody has named another user."""

_MOST = 1 << 20
"""Characters that the file may have, as JSON and with its YAML aliases written out."""
_ALL = "all"
_PROGRAM = "program"
_KEYS = {
    "containers": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "imagePullSecrets": "name",
    "topologySpreadConstraints": "topologyKey",
}
"""Lists whose entries are merged by a key, as the cluster's strategic merge does."""
_LIMITED = frozenset({"cpu", "memory", "ephemeral-storage"})
"""Limits that an episode's own options say."""
_OPENING = re.compile(
    r"((container\.(apparmor\.security\.beta|seccomp\.security\.alpha)|seccomp\.security\.alpha)\.kubernetes\.io"
    r"|k8s\.v1\.cni\.cncf\.io)/.*"
)
"""Annotations that lift a profile, or lead a pod into another network, past the policies of its own."""
_OUR_LABELS = re.compile(
    r"(coworld[.-].*|job-id|job-name|controller-uid|batch\.kubernetes\.io/.*|app\.kubernetes\.io/(name|managed-by))"
)
_OUR_VOLUMES = re.compile(r"unit|program|inputs|given|coworld.*")
_NO_PLACES = re.compile(r"(?!/).*|.*//.*|.*/\.\.?(/.*)?|/|/(coworld[^/]*|dev|proc|sys|(var/)?run)(/.*)?")
"""Where nothing may be mounted: relative and indirect paths, our directories, the system's, service account tokens."""
_OURS = re.compile(
    "activeDeadlineSeconds|args|automountServiceAccountToken|command|dns(Config|Policy)|drop|enableServiceLinks|env(From)?"
    "|(ephemeral|init)Containers|finalizers|generateName|hostAliases|(set)?[hH]ostname(AsFQDN)?|image(PullPolicy)?"
    "|lifecycle|(liveness|readiness|startup)Probe|namespace|nodeName|ownerReferences|ports|readinessGates|restartPolicy"
    "|shareProcessNamespace|stdin(Once)?|subdomain|termination(GracePeriodSeconds|Message(Path|Policy))|tty|volumeDevices"
    "|workingDir"
)
"""Fields of pods by which episodes work, or that options of their own say."""

_TRUSTED = Hint("allow_privileged", "Pass allow_privileged=True if whoever wrote this may do everything on the nodes.")


# --- what can be said --------------------------------------------------------------------------------------------


def _refuse(code: str, text: str, hint: str | None = None) -> PydanticCustomError:
    # In the context, as a template would interpret the braces of the text
    context: dict[str, Any] = {"text": text, **({"hint": hint} if hint else {})}
    return PydanticCustomError(code, "{text}", context)  # pyright: ignore[reportArgumentType]


def _privileged(gives: str, refused: Callable[[Any], bool] = lambda _: True) -> AfterValidator:
    """Refuse a value that lets a program out of its pod, unless the file is allowed to."""

    def check(value: Any, info: ValidationInfo) -> Any:
        if refused(value) and not (info.context or {}).get("allow_privileged"):
            raise _refuse("pods_privileged", f"gives a program {gives}.", _TRUSTED)
        return value

    return AfterValidator(check)


def _not(pattern: re.Pattern[str], why: str, *, privileged: bool = False) -> AfterValidator:
    """Refuse a text that matches."""

    def check(value: str, info: ValidationInfo) -> str:
        if pattern.fullmatch(value) and not (privileged and (info.context or {}).get("allow_privileged")):
            code, hint = ("pods_privileged", _TRUSTED) if privileged else ("pods_fixed", None)
            raise _refuse(code, f"has {quoted(value)}, {why}.", hint)
        return value

    return AfterValidator(check)


def _quantity(value: Any) -> Any:
    try:
        parse_quantity(str(value))
    except ValueError:
        raise _refuse(
            "bad_quantity", f"is {quoted(value)}, which is not a quantity.", 'Write "500m" or "2Gi".'
        ) from None
    return value


_Quantity = Annotated[Any, AfterValidator(_quantity)]
_Object = dict[str, Any]
_Root = _privileged("the rights of root", lambda user: user == 0)
_Seen = _privileged("what its host or its cluster keeps from it")
_absent: Any = None
"""The value of a field that was not given; `null` is refused, as it would remove what our pods say."""


class _Part(BaseModel):
    """A part of a pod template, with the cluster's names."""

    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel, defer_build=True)


class _Named(_Part):
    name: str


class _Metadata(_Part):
    labels: dict[Annotated[str, _not(_OUR_LABELS, "by which our objects are found")], str] = _absent
    annotations: dict[
        Annotated[
            str,
            _not(_OUR_LABELS, "by which our objects are found"),
            _not(_OPENING, "which opens what keeps a program in its pod", privileged=True),
        ],
        str,
    ] = _absent


class _Seccomp(_Part):
    type: Annotated[str, _privileged("every call of the kernel", lambda kind: kind == "Unconfined")]
    localhost_profile: str = _absent


class _Security(_Part):
    """What pods and containers have in common."""

    run_as_user: Annotated[int, _Root] = _absent
    run_as_group: int = _absent
    run_as_non_root: Annotated[bool, _privileged("the rights of root", lambda value: not value)] = _absent
    seccomp_profile: _Seccomp = _absent
    app_armor_profile: _Seccomp = _absent
    se_linux_options: Annotated[_Object, _Seen] = _absent
    windows_options: Annotated[_Object, _Seen] = _absent


class _PodSecurity(_Security):
    fs_group: int = _absent
    fs_group_change_policy: str = _absent
    supplemental_groups: list[int] = _absent
    sysctls: Annotated[list[_Object], _privileged("settings of the kernel")] = _absent


class _Capabilities(_Part):
    add: Annotated[list[str], _privileged("further capabilities", bool)] = _absent


class _ContainerSecurity(_Security):
    privileged: Annotated[bool, _privileged("its host", bool)] = _absent
    allow_privilege_escalation: Annotated[bool, _privileged("a way to gain privileges", bool)] = _absent
    read_only_root_filesystem: bool = _absent
    capabilities: _Capabilities = _absent
    proc_mount: Annotated[str, _privileged("all of /proc", lambda kind: kind != "Default")] = _absent


class _Resources(_Part):
    requests: dict[str, _Quantity] = _absent
    limits: dict[str, _Quantity] = _absent


class _Mount(_Named):
    mount_path: Annotated[str, _not(_NO_PLACES, "where nothing of yours can be mounted")]
    sub_path: str = _absent
    read_only: bool = _absent


class _Container(_Part):
    name: Literal["program", "collector"]
    resources: _Resources = _absent
    security_context: _ContainerSecurity = _absent
    volume_mounts: list[_Mount] = _absent


class _Volume(_Part):
    name: Annotated[str, _not(_OUR_VOLUMES, "the name of a volume of ours")]
    empty_dir: _Object = _absent
    config_map: _Object = _absent
    persistent_volume_claim: _Object = _absent
    ephemeral: _Object = _absent
    host_path: Annotated[_Object, _Seen] = _absent
    secret: Annotated[_Object, _Seen] = _absent
    projected: Annotated[_Object, _Seen] = _absent
    downward_api: Annotated[_Object, _Seen] = Field(_absent, alias="downwardAPI")
    csi: Annotated[_Object, _Seen] = _absent
    nfs: Annotated[_Object, _Seen] = _absent


class _Spec(_Part):
    node_selector: dict[str, str] = _absent
    tolerations: list[_Object] = _absent
    affinity: _Object = _absent
    topology_spread_constraints: list[_Object] = _absent
    priority_class_name: str = _absent
    preemption_policy: str = _absent
    runtime_class_name: str = _absent
    scheduler_name: str = _absent
    image_pull_secrets: list[_Named] = _absent
    security_context: _PodSecurity = _absent
    containers: list[_Container] = _absent
    volumes: list[_Volume] = _absent
    service_account_name: Annotated[str, _privileged("an account of the cluster")] = _absent
    host_network: Annotated[bool, _privileged("its host's network", bool)] = _absent
    host_pid: Annotated[bool, _privileged("its host's processes", bool)] = Field(_absent, alias="hostPID")
    host_ipc: Annotated[bool, _privileged("its host's memory", bool)] = Field(_absent, alias="hostIPC")
    host_users: bool = _absent


class _Template(_Part):
    metadata: _Metadata = _absent
    spec: _Spec = _absent


class _Overlay(_Part):
    all: _Template = _absent
    game: _Template = _absent
    player: _Template = _absent
    worker: _Template = _absent


# --- reading -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PodOverlay:
    """Partial pod templates over the pods that we make. `read` checks what a person has written.

    Args:
        templates: A template for `all` pods, and over it those of a `game`, a `player` or the `worker`, as the cluster
            writes them: `metadata` and `spec`. In `containers`, `program` is the section's own program and `collector`
            the helper beside it.
    """

    templates: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])

    @classmethod
    def read(cls, source: Path | Mapping[str, Any] | None, *, allow_privileged: bool = False) -> Self:
        """Read an overlay.

        Args:
            source: A file with YAML or JSON, or its content; None: an overlay that says nothing.
            allow_privileged: Whether it may ask for what lets a program out of its pod: paths, network, processes of
                the host, root, capabilities, Secrets, accounts.

        Raises:
            UsageError: The file cannot be read, or is not YAML; or something is allowed to none.
            DocumentError: `pods_invalid`: it says something that cannot be said or is not allowed; `report` has a JSON
                pointer for each.
        """
        if source is None:
            if allow_privileged:
                raise UsageError("No pods file is given that could be allowed privileges.", code="pods_missing")
            return cls()
        name, content = ("pods", source) if isinstance(source, Mapping) else (str(source), _loaded(source))
        value = _as_json(content, name)
        _, findings = parse_shape(
            _Overlay, value, strict=True, top="the pods file", context={"allow_privileged": allow_privileged}
        )
        findings = [_worded(finding) for finding in findings] or list(_across(value))
        if findings:
            report = JsonDocument(name, value, None, (), usable=True).report(findings)
            raise DocumentError(
                report, code="pods_invalid", hint=next((each.hint for each in findings if each.hint), None)
            )
        return cls(value)

    # --- laid over pods

    def template(self, section: Section | None) -> Mapping[str, Any]:
        """What it says of the pods of a section; None: of those that belong to none."""
        return _merged(self.templates.get(_ALL) or {}, self.templates.get(section or "") or {})

    def over(self, template: Mapping[str, Any]) -> Self:
        """The overlay over a template for all pods, as one overlay."""
        return replace(self, templates={**self.templates, _ALL: _merged(template, self.templates.get(_ALL) or {})})

    def user(self, section: Section | None) -> int | None:
        """The user id that it gives a section's pods; None: each image's own."""
        return _spec(self.template(section)).get("securityContext", {}).get("runAsUser")

    def applied(
        self, section: Section | None, pod: Mapping[str, Any], *, program: str | None = "main"
    ) -> dict[str, Any]:
        """Lay it over a pod, or over a pod template.

        Args:
            section: Whose pod it is; None: only what is said of all.
            pod: The pod, with `metadata` and `spec`; it is not changed. Its own labels win.
            program: The container that `program` stands for; None: the pod only pulls an image, so it gets neither
                volumes nor what is said of containers.

        Returns:
            The pod. No container requests more than its limit.

        Raises:
            UsageError: `pods_taken`: a volume or a mount is already one of the pod's own.
        """
        template = self.template(section)
        said = dict(_spec(template))
        parts, volumes = said.pop("containers", ()), said.pop("volumes", ())
        if program is not None:
            ours = {part["name"] for part in pod["spec"]["containers"]}
            named = [{**part, "name": program if part["name"] == _PROGRAM else part["name"]} for part in parts]
            said |= {"containers": [part for part in named if part["name"] in ours]}
            said |= {"volumes": volumes} if volumes else {}
        labels: Mapping[str, str] = pod.get("metadata", {}).get("labels") or {}
        over = {name: each for name, each in (("metadata", template.get("metadata")), ("spec", said)) if each}
        made = _merged(pod, over, fixed=("volumes", "volumeMounts"))
        if labels:
            made["metadata"] = {**made["metadata"], "labels": {**made["metadata"]["labels"], **labels}}
        made["spec"] = {**made["spec"], "containers": [_fitting(each) for each in made["spec"]["containers"]]}
        return made


def allows_no_root(namespace: str) -> str:
    """What is said where programs run as that user."""
    return f"Namespace {namespace} allows no root: programs run as user {RESTRICTED_USER}."


def as_user(user: int) -> dict[str, Any]:
    """The template for pods whose programs all run as one user."""
    security = {"runAsNonRoot": user != 0, "runAsUser": user, "runAsGroup": user, "fsGroup": user}
    return {"spec": {"securityContext": security}}


def _loaded(path: Path) -> object:
    import yaml

    try:
        return yaml.safe_load(read_regular(path, most=_MOST).decode("utf-8-sig"))
    except OSError as error:
        raise UsageError(f"The pods file {path} cannot be read: {error.strerror}.", code="pods_unreadable") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        words = " ".join(str(error).split())
        raise UsageError(f"The pods file {path} is not YAML: {words}.", code="bad_yaml") from error


def _as_json(content: object, name: str) -> dict[str, Any]:
    """The content as JSON has it, with its aliases written out."""
    if not isinstance(content, Mapping):
        hint = f"It has {', '.join(_Overlay.model_fields)}, each with a pod template's metadata and spec."
        raise UsageError(f"{name} has no pods in it.", code="pods_invalid", hint=hint)
    size, pieces = 0, list[str]()
    try:
        for piece in json.JSONEncoder(allow_nan=False).iterencode(content):
            size += len(piece)
            if size > _MOST:
                raise ValueError(f"it has more than {_MOST} characters")
            pieces.append(piece)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{name} has something that JSON has not: {error}.", code="pods_invalid") from error
    return json.loads("".join(pieces))


def _worded(finding: Finding) -> Finding:
    """Say of a field of pods that is not ours to give away why it is refused."""
    if finding.code != "unknown_field" or not _OURS.fullmatch(str(finding.path[-1])):
        return finding
    message = f"{dotted(finding.path)} cannot be overlaid: episodes work by it, or an option of their own says it."
    return replace(finding, code="pods_fixed", message=message, hint=None)


def _across(templates: Mapping[str, Any]) -> Iterator[Finding]:
    """What is wrong between parts that are right: mounts of unknown volumes, limits that episodes say."""
    for section, template in templates.items():
        spec = _spec(_merged(templates.get(_ALL) or {}, template))
        volumes: list[str] = [volume["name"] for volume in spec.get("volumes", ())]
        for index, part in enumerate(_spec(template).get("containers", ())):
            place = (section, "spec", "containers", index)
            for number, mount in enumerate(part.get("volumeMounts", ())):
                name: str = mount["name"]
                if name not in volumes:
                    path = (*place, "volumeMounts", number, "name")
                    message = f"{dotted(path)} is {quoted(name)}, which is no volume of the file's."
                    yield Finding(code="unknown_volume", path=path, message=message, hint=did_you_mean(name, volumes))
            limits: Mapping[str, Any] = part.get("resources", {}).get("limits", {})
            ours = _LIMITED if part["name"] == _PROGRAM and section != "worker" else ()
            for name in [name for name in limits if name in ours]:
                path = (*place, "resources", "limits", name)
                message = f"{dotted(path)} cannot be overlaid: the episode's own limits say it."
                yield Finding(code="pods_fixed", path=path, message=message)


# --- merging -----------------------------------------------------------------------------------------------------


def _merged(base: Mapping[str, Any], over: Mapping[str, Any], *, fixed: Sequence[str] = ()) -> dict[str, Any]:
    """Merge as the cluster's strategic merge does, except that tolerations are added to those that are there.

    Args:
        base: A part of a pod.
        over: What is said of it.
        fixed: Lists of which no entry may be replaced by another.
    """
    made = dict(base)
    for name, value in over.items():
        before: Any = made.get(name) or ()
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            made[name] = _merged(cast("Mapping[str, Any]", before), cast("Mapping[str, Any]", value), fixed=fixed)
        elif name == "tolerations" and isinstance(value, list):
            made[name] = [*before, *(entry for entry in cast("list[Any]", value) if entry not in before)]
        elif name in _KEYS and isinstance(value, list):
            key = _KEYS[name]
            entries = {str(entry[key]): entry for entry in cast("list[Any]", before)}
            for entry in cast("list[Any]", value):
                known = entries.get(entry[key])
                if known not in (None, entry) and name in fixed:
                    raise UsageError(
                        f"The pods file has {quoted(entry[key])} in {name}, which a pod has of its own.",
                        code="pods_taken",
                        hint="Choose another.",
                    )
                entries[entry[key]] = entry if known is None else _merged(known, entry, fixed=fixed)
            made[name] = list(entries.values())
        else:
            made[name] = value
    return made


def _fitting(container: Mapping[str, Any]) -> dict[str, Any]:
    """A container that requests no more than its limits."""
    resources: Mapping[str, Mapping[str, Any]] = container.get("resources") or {}
    requests, limits = (dict(resources.get(name) or {}) for name in ("requests", "limits"))
    for name in requests.keys() & limits.keys():
        requests[name] = min(requests[name], limits[name], key=lambda amount: parse_quantity(str(amount)))
    return {**container, "resources": {**resources, "requests": requests}} if requests else dict(container)


def _spec(template: Mapping[str, Any]) -> Mapping[str, Any]:
    return template.get("spec") or {}
