"""Builds the specs of an episode's game and players for a backend (contract of games and players)."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from coworld_core.manifest.models import GameManifest, Runnable
from coworld_core.player_seeds import PLAYER_SEED_ENV
from coworld_core.quantities import parse_quantity
from coworld_core.reserved_env import SERVES_ENV

from ..backend import INPUTS_MOUNT, Limits, Placement, Port, UnitSpec, without_limits
from ..runs._unit_files import LOGS
from ..runs.scratch import Scratch
from ..runs.workspace import atomic_write
from . import contract_probes
from .episode_inputs import Setup
from .episode_options import GAME_LIMITS, PLAYER_LIMITS
from .episode_recorder import RECORDER
from .file_players import hosted_players, stage_players
from .https_access import PROXY, proxy_variables
from .model_place import MODELS, VARIABLES, ModelPlace
from .play_links import extra_port_environment, extra_unit_ports

__all__ = [
    "CONFIG",
    "MORE",
    "REPLAY",
    "RESULTS",
    "declared_limits",
    "game_files",
    "game_identity",
    "game_place",
    "game_spec",
    "player_spec",
    "player_variables",
    "reached_directly",
    "wants_gpu",
]

CONFIG, RESULTS, REPLAY = "config.json", "results.json", "replay"
"""Names of the files that a game and its runner exchange."""

MORE = {
    "COGAME_EVENTS_URI": "events.json",
    "COGAME_PLAYER_FAILURE_URI": "player_failure.json",
    "COGAME_SAVE_TRAJECTORY_URI": "trajectory.jsonl",
}
"""Optional files of a game, by the variable that holds their address."""

_COMMIT = re.compile(r"[0-9a-f]{40}", re.IGNORECASE)


def game_spec(
    setup: Setup, scratch: Scratch, *, secret_env: Mapping[str, str], models: ModelPlace | None = None
) -> UnitSpec:
    """Build the game's spec, and write its config: with tokens for the game, without them for the evidence.

    Args:
        setup: The episode's surroundings.
        scratch: Holds the game's directory.
        secret_env: Further variables, which nobody else may see.
        models: Where it finds language models, if it may.
    """
    runnable = setup.plan.manifest.game.runnable
    directory = scratch.directory("game", shared=True)
    logs = directory / LOGS
    logs.mkdir()
    logs.chmod(0o777)
    config = directory / CONFIG
    config.write_text(json.dumps(setup.plan.config_with_tokens(setup.tokens), indent=2) + "\n", encoding="utf-8")
    # The evidence must not hold tokens
    atomic_write(setup.layout.config, (json.dumps(setup.plan.game_config, indent=2) + "\n").encode())
    extra = setup.plan.extra_ports
    secrets = _secret_files(directory, setup.plan.secret_files)
    inputs = stage_players(setup, scratch) if setup.plan.game_hosts else None
    players = tuple(f"player-{slot}" for slot, seat in enumerate(setup.plan.seats) if seat.has_unit)

    def environment(placement: Placement) -> Mapping[str, str]:
        return {
            **runnable.env,
            **(hosted_players(setup, directory, placement) if inputs is not None else {}),
            **{variable: placement.uri(name) for variable, name in secrets.items()},
            **extra_port_environment(placement, extra),
            **({"COGAMES_POLICY_NAMES": json.dumps(setup.plan.policy_names)} if setup.plan.policy_names else {}),
            **({"COWORLD_ADMIN": "1"} if setup.options.admin else {}),
            **({"COWORLD_REMATCH": "1"} if setup.options.rematch else {}),
            **(
                {"COWORLD_COUNTDOWN_SECONDS": f"{setup.options.countdown_seconds:g}"}
                if setup.options.countdown_seconds
                else {}
            ),
            **game_place(placement),
            **game_files(placement.uri),
            **game_identity(setup.plan.manifest.game, setup.run.bus.run_id),
            **(models.variables() if models is not None else {}),
        }

    return without_limits(
        UnitSpec(
            run_id=setup.run.bus.run_id,
            name="game",
            component="game",
            image=runnable.image,
            argv=tuple(runnable.run),
            ahead=runnable.env if runnable.env.get(SERVES_ENV) == "many" else None,
            environment=environment,
            directory=directory,
            inputs=inputs,
            ports=(Port(name="http"), *extra_unit_ports(extra)),
            clients=(RECORDER,) if setup.options.record == "frames" else players,
            secret_env=secret_env,
            proxies=_ways_out(setup, models),
            direct=(models.host,) if models is not None else (),
            network=setup.options.player_network or "game-only",
            gpu=wants_gpu(runnable),
            limits=declared_limits(setup.options.game_limits, setup.options.usual(GAME_LIMITS), runnable),
            stdout=setup.layout.game_stdout,
            stderr=setup.layout.game_stderr,
            platform=setup.options.platform,
            lifetime=setup.lifetime,
        ),
        setup.backend.capabilities,
    )


def game_place(placement: Placement) -> dict[str, str]:
    """Return the variables that tell a game where to listen."""
    return {"COGAME_HOST": placement.listen_host, "COGAME_PORT": str(placement.listen["http"])}


def game_files(uri: Callable[[str], str]) -> dict[str, str]:
    """Return the variables that tell a game where its files are.

    Args:
        uri: Returns the address of a file, by name.
    """
    return {
        "COGAME_CONFIG_URI": uri(CONFIG),
        "COGAME_RESULTS_URI": uri(RESULTS),
        "COGAME_SAVE_REPLAY_URI": uri(REPLAY),
        **{variable: uri(name) for variable, name in MORE.items()},
    }


def game_identity(game: GameManifest, episode: str) -> dict[str, str]:
    """Return the variables that identify the game and the episode.

    Args:
        game: The game.
        episode: The episode's id.
    """
    runnable = game.runnable
    source = runnable.source_url or ""
    commit = _COMMIT.search(source)
    digest = runnable.image.partition("@")[2]
    return {
        "COWORLD_EPISODE_ID": episode,
        "COWORLD_GAME_NAME": game.name,
        "COWORLD_GAME_VERSION": game.version,
        "COWORLD_SOURCE_REVISION": commit[0] if commit is not None else source or runnable.image,
        **({"COWORLD_GAME_IMAGE_DIGEST": digest} if digest.startswith("sha256:") else {}),
    }


def player_spec(
    setup: Setup,
    slot: int,
    scratch: Scratch,
    *,
    address: str,
    door: str = "game",
    proxy: str = "",
    models: ModelPlace | None = None,
) -> UnitSpec:
    """Build a player's spec.

    Args:
        setup: The episode's surroundings.
        slot: The player's seat.
        scratch: Holds the player's directories.
        address: Where players reach the game, as they see it.
        door: Name of the unit that is there.
        proxy: The address of the players' proxy; empty if there is none.
        models: Where it finds language models, if it may.
    """
    seat = setup.plan.seats[slot]
    runnable = seat.runnable
    assert runnable is not None
    name = f"player-{slot}"
    url = f"ws://{address}/player?{contract_probes.seat_query(slot, setup.tokens[slot])}"
    directory = scratch.directory(name, shared=True)
    secrets = _secret_files(directory, seat.secret_files)
    image, argv, inputs = runnable.image, tuple(runnable.run), None
    can = setup.backend.capabilities
    if seat.own is not None and seat.own.dockerfile and can.images:
        image, argv = seat.own.image, ()
    elif seat.own is not None:
        inputs = scratch.directory(f"{name}-files")
        seat.own.put(inputs)
        argv = seat.own.argv(INPUTS_MOUNT if can.images else str(inputs), in_image=can.images)

    def environment(placement: Placement) -> Mapping[str, str]:
        return {
            **runnable.env,
            **{variable: placement.uri(name) for variable, name in secrets.items()},
            **player_variables(placement, slot, url, seed=setup.plan.player_seed(slot)),
            **proxy_variables(proxy),
            **(models.variables(slot) if models is not None else {}),
            # The game is ready before its players start, so this answers at once
            **({"COWORLD_PLAYER_START_URL": f"http://{address}/healthz"} if setup.plan.startup(slot) else {}),
        }

    return without_limits(
        UnitSpec(
            run_id=setup.run.bus.run_id,
            name=name,
            component="player",
            image=image,
            argv=argv,
            environment=environment,
            inputs=inputs,
            # Whoever has a way to models needs no key
            secret_env={
                name: value for name, value in seat.secret_env.items() if models is None or name not in VARIABLES
            },
            slot=slot,
            directory=directory,
            mount="/coworld-artifact",
            connects_to=door,
            proxies=(*([PROXY] if proxy else []), *_ways_out(setup, models)),
            network=setup.options.player_network or "game-only",
            direct=(*reached_directly(url), *([models.host] if models is not None else [])),
            drops_privileges=setup.options.players_drop_privileges,
            gpu=wants_gpu(runnable),
            limits=declared_limits(setup.options.player_limits, setup.options.usual(PLAYER_LIMITS), runnable),
            stdout=setup.layout.player_log(slot),
            platform=setup.options.platform,
            lifetime=setup.lifetime,
        ),
        setup.backend.capabilities,
    )


def _ways_out(setup: Setup, models: ModelPlace | None) -> tuple[str, ...]:
    """The units through which a program calls models, where its network is closed."""
    return (MODELS,) if models is not None and setup.backend.capabilities.proxies else ()


def wants_gpu(runnable: Runnable) -> bool:
    """Whether a program asks for a graphics processor."""
    requests = runnable.resources.requests if runnable.resources is not None else None
    return requests is not None and requests.gpu is not None


def declared_limits(limits: Limits, usual: Limits, runnable: Runnable) -> Limits:
    """Return the limits of a program: those given, else those its manifest declares, else the usual ones.

    A program that asks for more memory than usual gets what it asks for.
    """
    declared = runnable.resources.limits if runnable.resources is not None else None
    asked = runnable.resources.requests if runnable.resources is not None else None
    most = usual
    if most.memory_bytes is not None:
        if declared is not None and declared.memory:
            most = dataclasses.replace(most, memory_bytes=int(parse_quantity(declared.memory)))
        elif asked is not None and asked.memory:
            most = dataclasses.replace(most, memory_bytes=max(most.memory_bytes, int(parse_quantity(asked.memory))))
    if declared is not None and declared.cpu:
        most = dataclasses.replace(most, cpus=float(parse_quantity(declared.cpu)))
    return dataclasses.replace(
        most, **{name: value for name, value in dataclasses.asdict(limits).items() if value is not None}
    )


def player_variables(placement: Placement, slot: int, url: str, *, seed: int | None) -> dict[str, str]:
    """Return a player's variables.

    Args:
        placement: Where its files are.
        slot: Its seat.
        url: The seat's address, with the token.
        seed: The player's seed; None in an episode without one.
    """
    return {
        "COWORLD_PLAYER_ARTIFACT_UPLOAD_URL": placement.uri(f"policy_artifact_{slot}.zip"),
        # The older name, the only one that the first generations of players know
        "COGAMES_ENGINE_WS_URL": url,
        "COWORLD_PLAYER_WS_URL": url,
        **({} if seed is None else {PLAYER_SEED_ENV: str(seed)}),
    }


def reached_directly(url: str) -> tuple[str, ...]:
    """Return the hosts for which a player must not ask a proxy: its own, and the game's.

    Args:
        url: The seat's address. Where it is wss://, a proxy may be the only way to it.
    """
    address = urlsplit(url)
    game = (address.hostname,) if address.hostname and address.scheme == "ws" else ()
    return tuple(dict.fromkeys((*game, "localhost", "127.0.0.1", "::1")))


def _secret_files(directory: Path, secrets: Mapping[str, bytes]) -> dict[str, str]:
    """Put secrets into a unit's directory; returns the files' names by variable."""
    names = {variable: f".secret-{index}" for index, variable in enumerate(secrets)}
    for variable, name in names.items():
        (directory / name).write_bytes(secrets[variable])
    return names
