"""The Job of one episode: a pod whose containers are the game, a worker that plays with them, and the players.

The pod needs no Service, whoever makes the Job needs to look at nothing but the store, and a queue admits a whole
episode. All containers share the pod's network, so this is for players that one trusts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from coworld_core.errors import CapabilityError
from coworld_core.hints import Hint

from ..backend import Limits
from ..backends._direct_hosts import without_proxy
from ..backends.kubernetes._object_parts import concealed_variable, container, token_mount, token_volume
from ..episode.contract_probes import seat_query
from ..episode.episode_options import PLAYER_LIMITS, EpisodeOptions
from ..episode.unit_specs import CONFIG, declared_limits, player_variables, reached_directly
from ..worker.player_pods import ADDRESSES, PLAYER_PLACEMENT
from ..worker.pod_backend import POD_CAPABILITIES
from ..worker.worker_job import WORKDIR, alive_probe, game_container
from .own_pod import GAME_PORT, GATE, alive_port, artifacts_of

if TYPE_CHECKING:
    from ..package.plan import EpisodePlan

__all__ = ["episode_containers", "episode_mounts", "episode_secrets", "episode_volumes", "refuse_programs"]

_CONFIG = "/coworld-config"
_LEAST = {"cpu": "250m", "memory": "256Mi"}
"""What a player asks for whose manifest says nothing."""
_WAITS = ("sh", "-c", f"until [ -e {GATE} ]; do sleep 0.1; done")


def refuse_programs(options: EpisodeOptions | None, *, isolated: bool = False) -> None:
    """Refuse what the containers of one pod cannot be given, or pods of their own that pods make (`isolated`).

    Raises:
        CapabilityError: An option needs a network of its own for each program, or something else that there is not.
    """
    asked = options or EpisodeOptions()
    missing = [] if isolated else [name for name in asked.required if not getattr(POD_CAPABILITIES, name)]
    if not isolated and (asked.player_https or asked.players_drop_privileges):
        missing.append("network_isolation" if asked.player_https else "dropped privileges")
    if not isolated and asked.record == "frames":
        missing.append("a recorder between players and game")
    if asked.models is not None:
        missing.append("a way to models")
    if missing:
        raise CapabilityError(
            f"{'Pods that play from a store' if isolated else 'The containers of one pod'} cannot have: "
            f"{', '.join(missing)}.",
            hint=Hint("kubernetes_backend", 'Use a backend that can (backend="kubernetes").')
            if asked.models is not None
            else Hint(
                "isolate_programs", "JobVenue(isolated=True) gives game and players pods of their own, which can."
            ),
        )


def episode_containers(
    plan: EpisodePlan,
    worker: Mapping[str, Any],
    *,
    episode: str,
    secret: str,
    options: EpisodeOptions,
    user: tuple[int | None, int | None],
) -> list[dict[str, Any]]:
    """The containers of an episode, in the order in which they start.

    Args:
        plan: The episode.
        worker: The container that plays it.
        episode: Its id.
        secret: The name of the Secret with `episode_secrets`.
        options: How it is played.
        user: The user ids of the game and of the players; None: those of their images.
    """
    game = game_container(
        plan.manifest,
        episode=episode,
        alive=_alive(None),
        config=f"file://{_CONFIG}/{CONFIG}",
        policy_names=plan.policy_names,
        user=user[0],
        mounts=[
            {"name": "coworld-work", "mountPath": WORKDIR},
            {"name": "coworld-config", "mountPath": _CONFIG, "readOnly": True},
        ],
    )
    waiting = {**worker, "lifecycle": {"postStart": {"exec": {"command": list(_WAITS)}}}}
    players = [_player(plan, slot, secret=secret, options=options, user=user[1]) for slot in range(len(plan.seats))]
    return [game, waiting, *players]


def _player(plan: EpisodePlan, slot: int, *, secret: str, options: EpisodeOptions, user: int | None) -> dict[str, Any]:
    seat = plan.seats[slot]
    runnable = seat.runnable
    assert runnable is not None
    limits = declared_limits(options.player_limits, options.usual(PLAYER_LIMITS), runnable)
    asked = runnable.resources.requests if runnable.resources is not None else None
    return container(
        f"player-{slot}",
        runnable.image,
        argv=runnable.run,
        plain={
            name: value
            for name, value in _variables(plan, slot, "").items()
            if name not in (*ADDRESSES, *seat.secret_env)
        },
        env=[concealed_variable(name, secret, _key(slot, name)) for name in (*ADDRESSES, *seat.secret_env)],
        requests={**_LEAST, **({"cpu": asked.cpu} if asked and asked.cpu else {})}
        | ({"memory": asked.memory} if asked and asked.memory else {}),
        limits=_quantities(limits),
        user=user,
        livenessProbe=_alive(slot),
        volumeMounts=[{"name": f"coworld-artifacts-{slot}", "mountPath": PLAYER_PLACEMENT.directory}],
    )


def _alive(slot: int | None) -> dict[str, Any]:
    # The cluster looks only once the gate is open, when the port is, too
    return alive_probe(alive_port(slot), since=0, every=1, failures=2)


def _variables(plan: EpisodePlan, slot: int, token: str) -> dict[str, str]:
    """A player's variables, without its secrets."""
    runnable = plan.seats[slot].runnable
    assert runnable is not None
    address = f"127.0.0.1:{GAME_PORT}"
    url = f"ws://{address}/player?{seat_query(slot, token)}"
    given = {
        **runnable.env,
        **player_variables(PLAYER_PLACEMENT, slot, url, seed=plan.player_seed(slot)),
        **({"COWORLD_PLAYER_START_URL": f"http://{address}/healthz"} if plan.startup(slot) else {}),
    }
    return given | without_proxy(given, reached_directly(url))


def _quantities(limits: Limits) -> dict[str, str]:
    found = {"memory": limits.memory_bytes, "ephemeral-storage": limits.disk_bytes, "cpu": limits.cpus}
    return {name: f"{value:g}" if name == "cpu" else str(value) for name, value in found.items() if value is not None}


def _key(slot: int, variable: str) -> str:
    return f"player.{slot}.{variable}"


def episode_secrets(plan: EpisodePlan, tokens: tuple[str, ...]) -> dict[str, bytes]:
    """The contents of the Secret: the game's config, and what nobody but one player may know.

    Args:
        plan: The episode.
        tokens: A token for each seat.
    """
    found = {
        CONFIG: (json.dumps(plan.config_with_tokens(tokens), indent=2) + "\n").encode(),
        "tokens": json.dumps(tokens).encode(),
        "secrets": json.dumps([dict(seat.secret_env) for seat in plan.seats]).encode(),
    }
    for slot, seat in enumerate(plan.seats):
        given = {**_variables(plan, slot, tokens[slot]), **seat.secret_env}
        found |= {_key(slot, name): given[name].encode() for name in (*ADDRESSES, *seat.secret_env)}
    return found


def episode_volumes(plan: EpisodePlan, secret: str) -> list[dict[str, Any]]:
    """The volumes of an episode's pod."""
    config = {"secretName": secret, "items": [{"key": CONFIG, "path": CONFIG}]}
    return [
        {"name": "coworld-work", "emptyDir": {"sizeLimit": "8Gi"}},
        {"name": "coworld-gate", "emptyDir": {}},
        {"name": "coworld-tmp", "emptyDir": {}},
        token_volume("coworld-token"),
        {"name": "coworld-config", "secret": config},
        *({"name": f"coworld-artifacts-{slot}", "emptyDir": {"sizeLimit": "1Gi"}} for slot in range(len(plan.seats))),
    ]


def episode_mounts(plan: EpisodePlan) -> list[dict[str, Any]]:
    """What the worker of an episode's pod sees of them."""
    return [
        {"name": "coworld-work", "mountPath": WORKDIR},
        {"name": "coworld-gate", "mountPath": GATE.rpartition("/")[0]},
        {"name": "coworld-tmp", "mountPath": "/tmp"},  # noqa: S108 - its own
        token_mount("coworld-token"),
        *({"name": f"coworld-artifacts-{slot}", "mountPath": artifacts_of(slot)} for slot in range(len(plan.seats))),
    ]
