"""The Kubernetes Job in which a worker plays one episode (contract of the Kubernetes runner, parent Job)."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlsplit

import anyio
import anyio.to_thread

from coworld_core import time_limits
from coworld_core.episode.request import JobSpec, LoadedRequest, build_request, load_request
from coworld_core.errors import UsageError
from coworld_core.hints import Hint
from coworld_core.ids import new_run_id
from coworld_core.images import image_problem
from coworld_core.manifest.config_changes import merge_config
from coworld_core.manifest.game_config import only_variant, require_game_config
from coworld_core.manifest.manifest_file import read_document
from coworld_core.manifest.models import Manifest
from coworld_core.text.phrases import listed

from ..backends.engine import GAME_CAPABILITIES
from ..backends.kubernetes._object_parts import (
    UNDISTURBED,
    container,
    default_worker_image,
    field_variables,
    nodes_for,
    pod_spec,
    thing,
    token_mount,
    token_volume,
)
from ..backends.kubernetes.pod_overlay import PodOverlay
from ..episode.unit_specs import game_files, game_identity
from ..package.locations import read_location
from ..package.resolver import resolve_package

__all__ = [
    "OUTPUTS",
    "WORKDIR",
    "JobOptions",
    "alive_probe",
    "game_container",
    "make_worker_job",
    "output_addresses",
    "read_job_spec",
]

OUTPUTS: Mapping[str, tuple[str, str]] = {
    "results": ("RESULTS_URI", "results.json"),
    "replay": ("REPLAY_URI", "replay.z"),
    "debug": ("DEBUG_URI", "debug.zip"),
    "error-info": ("ERROR_INFO_URI", "error_info.json"),
    "timings": ("WORKER_TIMINGS_URI", "worker_timings.json"),
    "record": ("EPISODE_RECORD_URI", "episode.json"),
}
"""A worker's outputs by name: the variable with the address to upload to, and the file name."""

_BY_SLOT = {"log": "policy_agent_{}.log", "artifact": "policy_artifact_{}.zip"}
_SLOT_NAME = re.compile(r"(log|artifact)-(0|[1-9][0-9]{0,3})")
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_SPEC_CHARACTERS = 120_000
"""The kernel limits a variable to 128 KiB, its name included."""

WORKDIR, _PRIVATE, _OUTPUT = "/coworld", "/coworld-private", "/coworld-output"
_HEALTH_PORT = 9090
_USER = 65534
"""The user id of the worker; its image says the same."""


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """Options of a Job."""

    worker_image: str = field(default_factory=default_worker_image)
    job_id: str = field(default_factory=new_run_id)
    """Goes into names and labels: lower-case letters, digits and hyphens."""
    namespace: str | None = None
    """None: the namespace of the context it is applied in."""
    deadline: int = time_limits.JOB
    """Seconds after which the cluster ends the Job, uploads included."""
    timeout: float | None = None
    """Seconds for the episode; None: limited by the deadline only."""
    ttl: int = time_limits.JOB_KEPT
    """Seconds for which the Job is kept after its end."""
    service_account: str = "coworld-worker"
    outputs: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Addresses by the output's name: a key of `OUTPUTS`, `log-N` or `artifact-N`."""
    output_claim: str | None = None
    """A PersistentVolumeClaim; outputs without an address go to a directory for this job on it."""
    output_secret: str | None = None
    """A Secret with variables for the worker, such as addresses with signatures."""
    spec_url: str | None = None
    """Where the containers fetch the job spec; None: it is embedded in the Job."""
    secrets_url: str | None = field(default=None, repr=False)
    """Where the worker fetches the policies' secrets."""
    player_cpu: str = "250m"
    player_memory: str = "256Mi"
    pull_policy: str | None = None
    """For game and players: Always, IfNotPresent or Never; None: by their names."""
    run_as_user: int | None = None
    """The game's user id; None: its image's own."""
    workload_type: str | None = None
    capacity_type: str | None = None
    pods: Path | Mapping[str, Any] | None = None
    """What else is to be said of the pods of game and worker (which is one) and of players: `PodOverlay.read`."""
    allow_privileged: bool = False
    """Whether `pods` may ask for what lets a program out of its pod."""


async def read_job_spec(
    argument: str,
    *,
    variant: str | None = None,
    players: Sequence[str] = (),
    run: Sequence[str] = (),
    config: Callable[[Manifest], Mapping[str, Any]] | None = None,
    server: str | None = None,
) -> LoadedRequest | JobSpec:
    """Read the job spec that an argument names: an episode request as written, or a package's variant.

    Args:
        argument: The path of an episode request, or anything that `resolve_package` takes.
        variant: The variant of a package, or a pattern that matches only one; None: its certification fixture.
        players: Images, one for all slots or one for each; none: the bundled players.
        run: Their command.
        config: Returns changes to the game config, which depend on the manifest that is found: `read_changes`.
        server: Base address of the API, for ids.

    Raises:
        UsageError: The argument names nothing, or options were given that a request excludes.
        ManifestError: The manifest has errors, or the game's schema does not allow the changed config.
        RemoteError: The package cannot be fetched.
    """
    source = read_location(argument, what="job spec") if "://" not in argument or argument[:5] == "file:" else None
    if source is not None and source.path is not None and await anyio.Path(source.path).is_file():
        path = source.path
        document = await anyio.to_thread.run_sync(read_document, path)
        value = document.value
        if isinstance(value, dict) and "manifest" in value and "game" not in value:
            if variant is not None or players or run:
                raise UsageError(
                    "An episode request says variant and players itself, so they cannot be given too.",
                    code="request_excludes_options",
                )
            loaded = await anyio.to_thread.run_sync(load_request, path)
            return _changed(loaded, config) if config is not None else loaded
    package = await resolve_package(argument, template=False, server=server)
    chosen = only_variant(package.manifest, variant).id if variant is not None else None
    changes = dict(config(package.manifest)) if config is not None else {}
    made = build_request(package.manifest, chosen, images=players, run=run, config=changes)
    if changes:
        require_game_config(made.manifest, made.game_config, slots=len(made.players))
    return made


def _changed(loaded: LoadedRequest, config: Callable[[Manifest], Mapping[str, Any]]) -> LoadedRequest:
    """An episode request with changes to its game config; every other word of it is as it was written."""
    request = loaded.request
    merged = merge_config(request.manifest, request.game_config, config(request.manifest))
    require_game_config(request.manifest, merged, slots=len(request.players))
    return load_request({**cast("Mapping[str, Any]", loaded.document.value), "game_config": merged})


def output_addresses(base: str, slots: int, *, artifacts: bool = True) -> dict[str, str]:
    """Addresses for every output below one address.

    Args:
        base: An http(s) or file address; a query stays at the end.
        slots: How many slots there are.
        artifacts: Whether players can upload their artifacts there too.
    """
    bare, mark, query = base.partition("?")
    names = {name: file for name, (_, file) in OUTPUTS.items()}
    for slot in range(slots):
        names[f"log-{slot}"] = _BY_SLOT["log"].format(slot)
        if artifacts:
            names[f"artifact-{slot}"] = _BY_SLOT["artifact"].format(slot)
    return {name: f"{bare.rstrip('/')}/{quote(file)}{mark}{query}" for name, file in names.items()}


def make_worker_job(spec: LoadedRequest | JobSpec, options: JobOptions | None = None) -> dict[str, Any]:
    """Make the Job for one episode.

    The Job owns everything else: when it is deleted or expires, nothing is left.

    Args:
        spec: The episode to play.
        options: The Job's options.

    Returns:
        The Job as JSON.

    Raises:
        UsageError: A name is invalid, an output is unknown, or the job spec is too large to be part of the Job.
        DocumentError: `pods` says something that cannot be said or is not allowed.
    """
    options = options or JobOptions()
    request = spec.request if isinstance(spec, LoadedRequest) else spec
    _check(request, options)
    overlay = PodOverlay.read(options.pods, allow_privileged=options.allow_privileged)
    players = overlay.template("player")
    name = f"coworld-{options.job_id}"
    spec_uri = options.spec_url or _embedded(spec)
    state: dict[str, Any] = {"COWORLD_WORKDIR": WORKDIR, "COWORLD_STATE_DIR": _PRIVATE, "JOB_SPEC_URI": spec_uri}
    outputs = _outputs(len(request.players), options)
    worker = {
        **state,
        "COGAME_PORT": "8080",
        "COWORLD_WORKER_HEALTH_PORT": str(_HEALTH_PORT),
        "JOB_ID": options.job_id,
        "JOB_NAME": name,
        "COWORLD_SERVICE_NAME": name,
        "COWORLD_TIMEOUT_SECONDS": f"{options.timeout or options.deadline:g}",
        "COWORLD_PLAYER_CPU_REQUEST": options.player_cpu,
        "COWORLD_PLAYER_MEMORY_REQUEST": options.player_memory,
        **_given(
            COWORLD_PLAYER_IMAGE_PULL_POLICY=options.pull_policy,
            COWORLD_WORKLOAD_TYPE=options.workload_type,
            COWORLD_CAPACITY_TYPE=options.capacity_type,
            POLICY_SECRETS_URI=options.secrets_url,
            COWORLD_PLAYER_PODS=json.dumps(players) if players else None,
            COWORLD_PRIVILEGED_PODS="1" if players and options.allow_privileged else None,
        ),
        **outputs,
    }
    init = {**state, "COGAME_CONFIG_URI": f"file://{WORKDIR}/config.json"}
    if "ERROR_INFO_URI" in outputs:
        init["ERROR_INFO_URI"] = outputs["ERROR_INFO_URI"]
    labels = {"job-id": options.job_id, "coworld-component": "game", "app.kubernetes.io/name": "coworld-episode"}
    pod = pod_spec(
        game_container(
            request.manifest,
            episode=options.job_id,
            alive=alive_probe(_HEALTH_PORT, since=15, every=5, failures=3),
            mounts=[{"name": "coworld-workdir", "mountPath": WORKDIR}],
            policy_names=spec.policy_names if isinstance(spec, LoadedRequest) else (),
            user=overlay.user("game") if options.run_as_user is None else options.run_as_user,
            pull_policy=options.pull_policy,
        ),
        _worker("worker", "run", worker, options),
        grace=60,
        security={"fsGroup": _USER},
        # The game gets no token: only the worker mounts it
        serviceAccountName=options.service_account,
        initContainers=[_worker("coworld-init-config", "init-config", init, options)],
        volumes=_volumes(options),
        **nodes_for(options.workload_type),
    )
    template = {"metadata": {"labels": labels, "annotations": UNDISTURBED}, "spec": pod}
    for program in ("game", "worker"):
        template = overlay.applied(program, template, program=program)
    return thing(
        "Job",
        {"name": name, "labels": labels, **_given(namespace=options.namespace)},
        spec={
            # A retry would be a different episode, and so needs a Job of its own
            "backoffLimit": 0,
            "activeDeadlineSeconds": options.deadline,
            "ttlSecondsAfterFinished": options.ttl,
            "template": template,
        },
    )


def _given(**values: str | None) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}


# --- its parts --------------------------------------------------------------------------------------------------


def game_container(
    manifest: Manifest,
    *,
    episode: str,
    alive: Mapping[str, Any],
    mounts: Sequence[Mapping[str, Any]],
    policy_names: Sequence[str] = (),
    config: str = "",
    user: int | None = None,
    pull_policy: str | None = None,
) -> dict[str, Any]:
    """The container of a game that has a worker beside it in its pod; its files are in a directory that they share.

    Args:
        manifest: Its manifest.
        episode: The episode's id.
        alive: The check (`alive_probe`) of a port that the worker holds while the game is wanted: without it, the game
            would outlive the worker.
        mounts: Its volumes.
        policy_names: Names for games of the first generation.
        config: The address of its config; empty: a file in that directory.
        user: The user id that it runs under; None: its image's own.
        pull_policy: When its image is pulled; None: the cluster's usual.
    """
    runnable = manifest.game.runnable
    environment = {
        **runnable.env,
        **({"COGAMES_POLICY_NAMES": json.dumps(policy_names)} if policy_names else {}),
        "COGAME_HOST": "0.0.0.0",  # noqa: S104 - inside the pod
        "COGAME_PORT": "8080",
        **game_files(lambda name: f"file://{WORKDIR}/{name}"),
        **({"COGAME_CONFIG_URI": config} if config else {}),
        **game_identity(manifest.game, episode),
    }
    asked = runnable.resources.requests if runnable.resources is not None else None
    return container(
        "game",
        runnable.image,
        argv=runnable.run,
        plain=environment,
        requests={
            "cpu": (asked.cpu if asked is not None else None) or "1",
            "memory": (asked.memory if asked is not None else None) or "512Mi",
        },
        capabilities=GAME_CAPABILITIES if user is None else (),
        user=user,
        imagePullPolicy=pull_policy,
        ports=[{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        livenessProbe=alive,
        volumeMounts=list(mounts),
    )


def alive_probe(port: int, *, since: int, every: int, failures: int) -> dict[str, Any]:
    """The check by which a container ends when a port closes.

    Args:
        port: The port.
        since: Seconds until the first look.
        every: Seconds between two looks.
        failures: How many looks in a row fail before it ends.
    """
    return {
        "tcpSocket": {"port": port},
        "initialDelaySeconds": since,
        "periodSeconds": every,
        "timeoutSeconds": 3,
        "failureThreshold": failures,
    }


def _worker(name: str, command: str, environment: Mapping[str, str], options: JobOptions) -> dict[str, Any]:
    variables: list[dict[str, Any]] = []
    mounts: list[dict[str, Any]] = [
        {"name": "coworld-workdir", "mountPath": WORKDIR},
        {"name": "coworld-private", "mountPath": _PRIVATE},
        {"name": "coworld-tmp", "mountPath": "/tmp"},  # noqa: S108 - a volume of its own
    ]
    if command == "run":
        variables += field_variables(
            JOB_NAMESPACE="metadata.namespace", POD_NAME="metadata.name", POD_UID="metadata.uid"
        )
        mounts.append(token_mount("coworld-token"))
    if options.output_claim is not None:
        mounts.append({"name": "coworld-output", "mountPath": _OUTPUT})
    outputs = options.output_secret
    return container(
        name,
        options.worker_image,
        argv=["coworld-worker", command],
        plain=environment,
        env=variables,
        requests={"cpu": "250m", "memory": "256Mi"},
        limits={"memory": "1Gi"},
        user=_USER,
        security={"readOnlyRootFilesystem": True},
        volumeMounts=mounts,
        envFrom=[{"secretRef": {"name": outputs}}] if outputs is not None else None,
    )


def _volumes(options: JobOptions) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = [
        {"name": "coworld-workdir", "emptyDir": {"sizeLimit": "8Gi"}},
        {"name": "coworld-private", "emptyDir": {"sizeLimit": "16Mi"}},
        {"name": "coworld-tmp", "emptyDir": {"sizeLimit": "16Gi"}},
        token_volume("coworld-token"),
    ]
    if options.output_claim is not None:
        volumes.append({"name": "coworld-output", "persistentVolumeClaim": {"claimName": options.output_claim}})
    return volumes


def _outputs(slots: int, options: JobOptions) -> dict[str, str]:
    """The worker's variables for its outputs."""
    addresses: dict[str, str] = {}
    if options.output_claim is not None:
        addresses = output_addresses(f"file://{_OUTPUT}/{options.job_id}", slots, artifacts=False)
    addresses |= options.outputs
    variables = {variable: addresses[name] for name, (variable, _) in OUTPUTS.items() if name in addresses}
    for kind, variable in (("log", "POLICY_LOG_URLS"), ("artifact", "PLAYER_ARTIFACT_UPLOAD_URLS")):
        by_slot = {
            match[2]: address
            for name, address in addresses.items()
            if (match := _SLOT_NAME.fullmatch(name)) and match[1] == kind
        }
        if by_slot:
            variables[variable] = json.dumps(by_slot)
    return variables


def _embedded(spec: LoadedRequest | JobSpec) -> str:
    value = (
        spec.document.value
        if isinstance(spec, LoadedRequest)
        else spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    )
    text = base64.b64encode(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()).decode()
    if len(text) > _SPEC_CHARACTERS:
        raise UsageError(
            f"The job spec has {len(text) * 3 // 4} bytes, too many to be part of the Job.",
            code="spec_too_large",
            hint=Hint("spec_address", "Put it where the cluster can fetch it, and pass that address as spec_url."),
        )
    return f"data:application/json;base64,{text}"


def _check(request: JobSpec, options: JobOptions) -> None:
    for what, text, longest in (("job id", options.job_id, 48), ("namespace", options.namespace or "default", 63)):
        pattern = re.compile("[a-z0-9]([-a-z0-9]*[a-z0-9])?") if what == "job id" else _NAME
        if not pattern.fullmatch(text) or len(text) > longest:
            raise UsageError(
                f"{text[:80]!r} cannot be a {what}: at most {longest} lower-case letters, digits and hyphens.",
                code="bad_name",
            )
    if problem := image_problem(options.worker_image):
        raise UsageError(f"The worker image {options.worker_image!r} {problem}.", code="bad_image")
    if options.deadline <= 0 or (options.timeout is not None and options.timeout <= 0):
        raise UsageError("Deadline and timeout must be more than 0 seconds.", code="bad_time")
    slots = len(request.players)
    for name, address in options.outputs.items():
        match = _SLOT_NAME.fullmatch(name)
        if name not in OUTPUTS and (match is None or int(match[2]) >= slots):
            raise UsageError(
                f"There is no output {name!r}.",
                code="unknown_output",
                hint=f"There is {listed([*OUTPUTS, 'log-SLOT', 'artifact-SLOT'])}; slots are 0 to {slots - 1}.",
            )
        if urlsplit(address).scheme.lower() not in ("http", "https", "file"):
            raise UsageError(f"The address of the output {name!r} is neither http(s) nor file.", code="bad_scheme")
    unbuilt = [
        image for image in (request.manifest.game.runnable.image, *(p.image for p in request.players)) if "{{" in image
    ]
    if unbuilt:
        raise UsageError(
            f"{listed(dict.fromkeys(unbuilt))} {'is' if len(set(unbuilt)) == 1 else 'are'} not built yet.",
            code="images_not_built",
            hint=Hint("build_spec_images", "Build them with build_coworld."),
        )
