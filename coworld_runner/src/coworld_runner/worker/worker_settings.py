"""A worker's settings from its environment (contract of the Kubernetes runner, inputs and outputs)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast, get_args

from coworld_core import time_limits
from coworld_core.errors import CoworldError, UsageError
from coworld_core.hints import Hint
from coworld_core.quantities import quantity_problem
from coworld_core.reserved_env import RESERVED_ENV
from coworld_core.text.phrases import listed

from ..backends.kubernetes.pod_overlay import PodOverlay

__all__ = ["Outputs", "PlayerPods", "PullPolicy", "Settings", "read_outputs", "read_secrets", "read_settings"]

PullPolicy = Literal["Always", "IfNotPresent", "Never"]
OnPlayerFailure = Literal["stop", "continue"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_MOST_SECONDS = 7 * 24 * 3600


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Addresses of the outputs; None: not uploaded. Addresses may carry signatures, so they are secrets."""

    results: str | None = field(default=None, repr=False)
    replay: str | None = field(default=None, repr=False)
    debug: str | None = field(default=None, repr=False)
    error_info: str | None = field(default=None, repr=False)
    timings: str | None = field(default=None, repr=False)
    record: str | None = field(default=None, repr=False)
    """`episode.json`; the published worker has no such output."""
    policy_logs: Mapping[int, str] = field(default_factory=dict[int, str], repr=False)
    """By slot."""


@dataclass(frozen=True, kw_only=True)
class PlayerPods:
    """Settings of the players' pods."""

    cpu_request: str = "2"
    memory_request: str = "2Gi"
    cpu_limit: str | None = None
    """None: no limit but the node's."""
    memory_limit: str | None = None
    """None: 2Gi, or the request if that is more."""
    disk_limit: str = "1Gi"
    pull_policy: PullPolicy | None = None
    """None: `IfNotPresent` for an image named by digest, else `Always`."""
    workload_type: str | None = None
    capacity_type: str | None = None
    bedrock_region: str | None = None
    bedrock_metadata: Mapping[str, Any] | None = None
    overlay: PodOverlay = field(default_factory=PodOverlay)
    """What else is to be said of them."""
    plain_environment: bool = False
    """Whether pods may contain tokens and secrets themselves, if creating Secrets is not permitted."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of `run`."""

    spec_uri: str = field(repr=False)
    workdir: Path
    """The directory that the game and the worker share."""
    state_dir: Path
    """Where `init-config` left the tokens."""
    job_id: str
    job_name: str | None
    namespace: str
    service: str
    pod_name: str
    pod_uid: str
    game_port: int = 8080
    health_port: int = 9090
    timeout: float = time_limits.EPISODE
    """Seconds from the worker's start to the end of the episode, uploads not included."""
    artifact_window: float = time_limits.PLAYER_EXIT
    """Seconds that players have after the game to upload their artifacts and to end."""
    linger: float = time_limits.LINGER
    """Seconds a game may continue for its viewers after its results and its replay are complete."""
    on_player_failure: OnPlayerFailure = "stop"
    secrets_uri: str | None = field(default=None, repr=False)
    artifact_urls: Mapping[int, str] = field(default_factory=dict[int, str], repr=False)
    """Addresses for the players' artifacts, by slot."""
    players: PlayerPods = field(default_factory=PlayerPods)


# --- reading ----------------------------------------------------------------------------------------------------


def read_outputs(environ: Mapping[str, str]) -> Outputs:
    """Read the addresses of the outputs. An invalid list of logs is empty here, and an error in `read_settings`.

    Args:
        environ: The environment.
    """
    try:
        policy_logs = _by_slot(environ, "POLICY_LOG_URLS")
    except UsageError:
        policy_logs = {}
    return Outputs(
        results=environ.get("RESULTS_URI") or None,
        replay=environ.get("REPLAY_URI") or None,
        debug=environ.get("DEBUG_URI") or None,
        error_info=environ.get("ERROR_INFO_URI") or None,
        timings=environ.get("WORKER_TIMINGS_URI") or None,
        record=environ.get("EPISODE_RECORD_URI") or None,
        policy_logs=policy_logs,
    )


def read_settings(environ: MutableMapping[str, str]) -> Settings:
    """Read the settings of `run`.

    `POLICY_SECRETS_URI` is removed from the environment, so that nothing started later inherits it.

    Args:
        environ: The environment.

    Raises:
        UsageError: Variables are missing (`environment_incomplete`, naming all of them) or one is invalid
            (`environment_invalid`).
    """
    needed = ("JOB_SPEC_URI", "JOB_ID", "JOB_NAMESPACE", "COWORLD_SERVICE_NAME", "POD_NAME", "POD_UID")
    missing = [name for name in needed if not environ.get(name)]
    if missing:
        raise UsageError(
            f"The worker needs {listed(missing)} in its environment.",
            code="environment_incomplete",
            hint=Hint("make_job", "make_worker_job makes a whole Job; docs/worker.md lists the variables."),
            context={"missing": missing},
        )
    _by_slot(environ, "POLICY_LOG_URLS")
    workdir = Path(environ.get("COWORLD_WORKDIR") or "/coworld")
    timeout = _number(environ, "COWORLD_TIMEOUT_SECONDS", time_limits.EPISODE)
    if timeout <= 0:
        raise _invalid("COWORLD_TIMEOUT_SECONDS", "must be more than 0")
    return Settings(
        spec_uri=environ["JOB_SPEC_URI"],
        workdir=workdir,
        state_dir=Path(environ.get("COWORLD_STATE_DIR") or workdir),
        job_id=_matching(environ, "JOB_ID", _LABEL_VALUE, "the value of a label"),
        job_name=environ.get("JOB_NAME") or None,
        namespace=_matching(environ, "JOB_NAMESPACE", _DNS_LABEL, "the name of a namespace"),
        service=_matching(environ, "COWORLD_SERVICE_NAME", _DNS_LABEL, "the name of a service"),
        pod_name=environ["POD_NAME"],
        pod_uid=environ["POD_UID"],
        game_port=_port(environ, "COGAME_PORT", 8080),
        health_port=_port(environ, "COWORLD_WORKER_HEALTH_PORT", 9090),
        timeout=timeout,
        artifact_window=_number(environ, "COWORLD_PLAYER_ARTIFACT_SECONDS", time_limits.PLAYER_EXIT),
        linger=_number(environ, "COWORLD_GAME_LINGER_SECONDS", time_limits.LINGER),
        on_player_failure=_choice(environ, "COWORLD_ON_PLAYER_FAILURE", ("stop", "continue"), "stop"),
        secrets_uri=environ.pop("POLICY_SECRETS_URI", None) or None,
        artifact_urls=_by_slot(environ, "PLAYER_ARTIFACT_UPLOAD_URLS"),
        players=PlayerPods(
            cpu_request=_quantity(environ, "COWORLD_PLAYER_CPU_REQUEST", "cpu") or "2",
            memory_request=_quantity(environ, "COWORLD_PLAYER_MEMORY_REQUEST", "memory") or "2Gi",
            cpu_limit=_quantity(environ, "COWORLD_PLAYER_CPU_LIMIT", "cpu"),
            memory_limit=_quantity(environ, "COWORLD_PLAYER_MEMORY_LIMIT", "memory"),
            disk_limit=_quantity(environ, "COWORLD_PLAYER_DISK_LIMIT", "ephemeral-storage") or "1Gi",
            pull_policy=_choice(environ, "COWORLD_PLAYER_IMAGE_PULL_POLICY", get_args(PullPolicy), None),
            workload_type=environ.get("COWORLD_WORKLOAD_TYPE") or None,
            capacity_type=environ.get("COWORLD_CAPACITY_TYPE") or None,
            bedrock_region=environ.get("COWORLD_BEDROCK_REGION") or None,
            bedrock_metadata=_object(environ, "BEDROCK_REQUEST_METADATA") or None,
            overlay=_overlay(environ),
            plain_environment=_choice(environ, "COWORLD_PLAIN_PLAYER_ENV", ("0", "1"), "0") == "1",
        ),
    )


def read_secrets(data: bytes, slots: int) -> dict[int, dict[str, str]]:
    """Read the players' secrets: `{"policies": {"<slot>": {NAME: value}}}`.

    Args:
        data: The document.
        slots: How many slots there are.

    Returns:
        Names and values by slot; a slot may have none.

    Raises:
        UsageError: `secrets_invalid`. Nothing of the document is in the message.
    """
    try:
        document = json.loads(data)
        policies = cast("dict[str, dict[str, str]]", document["policies"])
        found = {int(slot): dict(values) for slot, values in policies.items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        # The document is secret, so neither it nor the parser's message is shown
        raise UsageError(
            'The policy secrets are not a JSON object like {"policies": {"0": {"NAME": "value"}}}.',
            code="secrets_invalid",
        ) from None
    for slot, values in found.items():
        if not 0 <= slot < slots:
            raise UsageError(
                f"There are policy secrets for slot {slot}, and the slots are 0 to {slots - 1}.", code="secrets_invalid"
            )
        for position, (name, value) in enumerate(values.items()):
            if not _NAME.fullmatch(name) or name in RESERVED_ENV:
                raise UsageError(
                    f"Secret {position} of slot {slot} has a name that no player's variable can have.",
                    code="secrets_invalid",
                )
            if not isinstance(value, str) or "\0" in value:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise UsageError(
                    f"The secret {name} of slot {slot} cannot be the value of a variable.", code="secrets_invalid"
                )
    return found


# --- single variables -------------------------------------------------------------------------------------------


def _invalid(name: str, why: str, hint: str | None = None) -> UsageError:
    return UsageError(f"{name} {why}.", code="environment_invalid", hint=hint, context={"variable": name})


def _matching(environ: Mapping[str, str], name: str, pattern: re.Pattern[str], what: str) -> str:
    value = environ[name]
    if not pattern.fullmatch(value) or len(value) > 63:
        raise _invalid(name, f"is {value[:80]!r}, which cannot be {what}")
    return value


def _number(environ: Mapping[str, str], name: str, default: float) -> float:
    text = environ.get(name)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        raise _invalid(name, f"is {text[:80]!r}, which is no number of seconds") from None
    if not 0 <= value <= _MOST_SECONDS:
        raise _invalid(name, f"must be from 0 to {_MOST_SECONDS} seconds, not {text[:80]}")
    return value


def _port(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
        raise _invalid(name, f"is {text[:80]!r}, which is no port")
    return int(text)


def _quantity(environ: Mapping[str, str], name: str, resource: str) -> str | None:
    text = environ.get(name)
    if not text:
        return None
    if problem := quantity_problem(resource, text):
        raise _invalid(name, f"is {text[:80]!r}: it {problem[0]}", problem[1])
    return text


def _choice(environ: Mapping[str, str], name: str, choices: tuple[str, ...], default: str | None) -> Any:
    text = environ.get(name)
    if not text:
        return default
    if text not in choices:
        raise _invalid(name, f"is {text[:80]!r}, which is none of {listed(choices)}")
    return text


def _object(environ: Mapping[str, str], name: str) -> dict[str, Any]:
    text = environ.get(name)
    if not text:
        return {}
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise _invalid(name, "is not a JSON object")
    return cast("dict[str, Any]", value)


def _overlay(environ: Mapping[str, str]) -> PodOverlay:
    name = "COWORLD_PLAYER_PODS"
    trusted = _choice(environ, "COWORLD_PRIVILEGED_PODS", ("0", "1"), "0") == "1"
    template = _object(environ, name)
    try:
        return PodOverlay.read({"player": template}, allow_privileged=trusted) if template else PodOverlay()
    except CoworldError as error:
        raise _invalid(name, f"cannot be laid over pods: {error.message.rstrip('.')}", error.hint) from error


def _by_slot(environ: Mapping[str, str], name: str) -> dict[int, str]:
    """Addresses by slot; their text is never shown."""
    found: dict[int, str] = {}
    for slot, address in _object(environ, name).items():
        if not (slot.isascii() and slot.isdigit()) or not isinstance(address, str) or not address:
            raise _invalid(name, "must give an address for each slot by its number")
        found[int(slot)] = address
    return found
