"""The objects that a worker creates: a Service for its game, and a pod and a Secret for each player."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from coworld_core.quantities import parse_quantity

from ..backend import Placement
from ..backends.kubernetes._object_parts import UNDISTURBED, concealing, container, nodes_for, pod_spec, secret, thing
from ..backends.kubernetes._pod_objects import pull_spec
from .worker_settings import PlayerPods, Settings

__all__ = [
    "ADDRESSES",
    "ATTEMPT",
    "COMPONENT",
    "JOB",
    "PLAYER",
    "PLAYER_PLACEMENT",
    "owner_of",
    "player_environment",
    "player_pod",
    "player_secret",
    "pod_name",
    "pull_pod",
    "service_body",
]

JOB, ATTEMPT, COMPONENT = "coworld-job-id", "coworld-attempt", "coworld-component"
"""Labels: the platform's id of the job, the worker's attempt, and the object's role."""
PLAYER = "player"
"""Name of the container in a player's pod."""
BEDROCK_ACCOUNT = "episode-runner"
"""The service account whose pods may call Bedrock."""

_LEAST_MEMORY = "2Gi"
ADDRESSES = ("COWORLD_PLAYER_WS_URL", "COGAMES_ENGINE_WS_URL")
"""The runner's variables that contain a seat's token."""
_ARTIFACT = "COWORLD_PLAYER_ARTIFACT_UPLOAD_URL"
"""The one that may contain a signature."""
PLAYER_PLACEMENT = Placement(directory="/coworld-artifact", listen_host="0.0.0.0", listen={}, endpoints={})  # noqa: S104
"""A player has no listening port; on a platform, that says where its artifact goes."""


def pod_name(settings: Settings, slot: int) -> str:
    """The name of a player's pod."""
    return f"{settings.service}-player-{slot}"


def owner_of(settings: Settings) -> dict[str, Any]:
    """The owner reference that has an object deleted with the worker's pod."""
    return {"apiVersion": "v1", "kind": "Pod", "name": settings.pod_name, "uid": settings.pod_uid}


def _metadata(settings: Settings, name: str, attempt: str, **labels: str) -> dict[str, Any]:
    return {
        "name": name,
        "labels": {JOB: settings.job_id, ATTEMPT: attempt, **labels},
        "ownerReferences": [owner_of(settings)],
    }


def service_body(settings: Settings, attempt: str) -> dict[str, Any]:
    """The Service by whose name players reach the game."""
    spec = {
        "type": "ClusterIP",
        "selector": {"job-id": settings.job_id, COMPONENT: "game"},
        "ports": [{"name": "http", "port": 8080, "targetPort": settings.game_port, "protocol": "TCP"}],
    }
    return thing("Service", _metadata(settings, settings.service, attempt), spec=spec)


def player_environment(
    settings: Settings, slot: int, *, variables: Mapping[str, str], secrets: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """A player's variables: the public ones and the confidential ones.

    Later ones win: the region for Bedrock, the manifest's own, the policy's secrets, the runner's.

    Args:
        settings: The worker's settings.
        slot: The player's slot.
        variables: The variables from the episode: the manifest's and the runner's.
        secrets: Its policy's secrets.
    """
    pods = settings.players
    plain: dict[str, str] = {}
    if pods.bedrock_region and uses_bedrock(secrets):
        plain |= {"AWS_REGION": pods.bedrock_region, "AWS_DEFAULT_REGION": pods.bedrock_region}
    plain |= {name: value for name, value in variables.items() if name not in (*ADDRESSES, _ARTIFACT)}
    concealed = {**secrets}
    concealed |= {name: variables[name] for name in ADDRESSES if name in variables}
    if slot in settings.artifact_urls:
        concealed[_ARTIFACT] = settings.artifact_urls[slot]
    for name in concealed:
        plain.pop(name, None)
    if pods.bedrock_metadata is not None:
        plain["BEDROCK_REQUEST_METADATA"] = json.dumps({**pods.bedrock_metadata, "slot": str(slot)})
        concealed.pop("BEDROCK_REQUEST_METADATA", None)
    return plain, concealed


def uses_bedrock(secrets: Mapping[str, str]) -> bool:
    """Whether a policy calls models on Bedrock."""
    return secrets.get("USE_BEDROCK") == "true"


def player_secret(settings: Settings, slot: int, attempt: str, concealed: Mapping[str, str]) -> dict[str, Any]:
    """The Secret with the confidential variables. Its name is unique, so that no other Secret is replaced."""
    name = f"{pod_name(settings, slot)}-{attempt}"
    metadata = _metadata(settings, name, attempt, **{COMPONENT: "player"})
    return secret(metadata, concealing(concealed.values()))


def player_pod(
    settings: Settings,
    slot: int,
    attempt: str,
    *,
    image: str,
    argv: tuple[str, ...],
    plain: Mapping[str, str],
    concealed: Mapping[str, str],
    bedrock: bool,
    seconds: float,
) -> dict[str, Any]:
    """A player's pod.

    Args:
        settings: The worker's settings.
        slot: The player's slot.
        attempt: The worker's attempt that makes it.
        image: The player's image.
        argv: Program and arguments; empty: the image's own.
        plain: Public variables.
        concealed: Variables that come from its Secret.
        bedrock: Whether it runs as the account that may call Bedrock.
        seconds: The time after which the cluster ends it.
    """
    pods = settings.players
    name = pod_name(settings, slot)
    memory = pods.memory_limit or max(_LEAST_MEMORY, pods.memory_request, key=parse_quantity)
    program = container(
        PLAYER,
        image,
        argv=argv,
        plain={**plain, **concealed} if pods.plain_environment else plain,
        concealed=() if pods.plain_environment else concealed,
        secret=f"{name}-{attempt}",
        requests={"cpu": pods.cpu_request, "memory": pods.memory_request},
        limits={
            "memory": memory,
            "ephemeral-storage": pods.disk_limit,
            **({"cpu": pods.cpu_limit} if pods.cpu_limit else {}),
        },
        imagePullPolicy=_pull_policy(pods, image),
    )
    spec = pod_spec(
        program,
        seconds=seconds,
        grace=5,
        # An init process, so that TERM ends programs that do not handle it
        shareProcessNamespace=True,
        serviceAccountName=BEDROCK_ACCOUNT if bedrock else None,
        **nodes_for(pods.workload_type, pods.capacity_type),
    )
    labels = {COMPONENT: "player", "coworld-player-slot": str(slot)}
    metadata = {**_metadata(settings, name, attempt, **labels), "annotations": UNDISTURBED}
    return pods.overlay.applied("player", thing("Pod", metadata, spec=spec), program=PLAYER)


def pull_pod(settings: Settings, index: int, attempt: str, image: str) -> dict[str, Any]:
    """A pod that pulls a player's image: its program does not exist, so nothing of the image runs.

    Args:
        settings: The worker's settings.
        index: Its number among the images.
        attempt: The worker's attempt that makes it.
        image: The image to pull.
    """
    pods = settings.players
    nodes = nodes_for(pods.workload_type, pods.capacity_type)
    spec = pull_spec(image, policy=_pull_policy(pods, image), **nodes)
    name = f"{settings.service}-image-{index}-{attempt}"
    metadata = _metadata(settings, name, attempt, **{COMPONENT: "image"})
    return pods.overlay.applied("player", thing("Pod", metadata, spec=spec), program=None)


def _pull_policy(pods: PlayerPods, image: str) -> str:
    return pods.pull_policy or ("IfNotPresent" if "@sha256:" in image else "Always")
