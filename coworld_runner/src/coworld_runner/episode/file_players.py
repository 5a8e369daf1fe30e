"""Files exchanged with a game that runs its players itself (contract, file players)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from coworld_core.player_seeds import PLAYER_SEEDS_ENV

from ..backend import Placement
from ..package.own_players.own_player import HOSTED_FILE
from ..runs._unit_files import LOGS
from ..runs.scratch import Scratch
from .episode_inputs import Setup

__all__ = ["hosted_files", "hosted_players", "stage_players"]

_SEATS = "player_seats.json"
_SCHEMAS = ("coworld-player-seats/1", "coworld-player-seats/2")
"""The first is the default; the second adds annotations."""


def stage_players(setup: Setup, scratch: Scratch) -> Path:
    """Copy each seat's file into a directory that only the game reads; returns the directory."""
    inputs = scratch.directory("game-players")
    for slot, seat in enumerate(setup.plan.seats):
        assert seat.own is not None
        seat.own.put(inputs / _place(slot))
    for place in (inputs, inputs / "players"):
        place.chmod(0o755)
    return inputs


def hosted_players(setup: Setup, directory: Path, placement: Placement) -> Mapping[str, str]:
    """Write the list of seats into the game's directory; returns its address and the players' seeds, as variables."""
    asked = setup.plan.manifest.game.runnable.env.get("COGAME_PLAYER_SEATS_SCHEMA")
    schema = asked if asked in _SCHEMAS else _SCHEMAS[0]
    seats: list[dict[str, object]] = []
    for slot, seat in enumerate(setup.plan.seats):
        assert seat.own is not None
        content = seat.own.files[HOSTED_FILE]
        annotations = {"annotations_uri": placement.uri(f"policy_annotations_{slot}.jsonl")}
        seats.append(
            {
                "slot": slot,
                "file_uri": placement.input_uri(f"{_place(slot)}/{HOSTED_FILE}"),
                "content_hash": f"sha256:{hashlib.sha256(content).hexdigest()}",
                "size_bytes": len(content),
                "log_uri": placement.uri(_log(slot)),
                "artifact_uri": placement.uri(_artifact(slot)),
                **(annotations if schema == _SCHEMAS[1] else {}),
            }
        )
    told = {"schema": schema, "seats": seats, "player_status_uri": placement.uri("player_status.json")}
    (directory / _SEATS).write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    seeds = [setup.plan.player_seed(slot) for slot in range(len(seats))]
    return {
        "COGAME_PLAYER_SEATS_URI": placement.uri(_SEATS),
        **({} if setup.plan.seed is None else {PLAYER_SEEDS_ENV: json.dumps(seeds)}),
    }


def hosted_files(setup: Setup) -> Mapping[str, Path]:
    """Map the players' files in the game's directory, by name, to their places in the evidence."""
    layout, slots = setup.layout, range(len(setup.plan.seats) if setup.plan.game_hosts else 0)
    return {_log(slot): layout.player_log(slot) for slot in slots} | {
        _artifact(slot): layout.player_artifact(slot) for slot in slots
    }


def _place(slot: int) -> str:
    return f"players/{slot}"


def _log(slot: int) -> str:
    return f"{LOGS}policy_agent_{slot}.log"


def _artifact(slot: int) -> str:
    return f"policy_artifact_{slot}.zip"
