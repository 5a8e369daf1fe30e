"""The first message to a seat: what is played, by whom, and what messages look like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coworld_core.rules import EpisodeConfig, Pace, Rules, RulesError
from coworld_core.rules.rules_schemas import action_schema, keys_of, observation_schema, rules_text
from coworld_core.rules.seat_wire import PROTOCOL

from .compact_json import compact

__all__ = ["about_game", "hello_message", "seat_schemas"]


def seat_schemas(rules: type[Rules]) -> dict[str, Any]:
    """The fields of `hello` that describe messages: schemas of actions and, if there are any, of observations; keys."""
    found: dict[str, Any] = {}
    for name, where, schema in (
        ("action_schema", "Action", action_schema),
        ("observation_schema", "Observation", observation_schema),
        ("keys", "keys", keys_of),
    ):
        try:
            if told := schema(rules):
                found[name] = told
        except Exception as error:
            raise RulesError.raised(error, where=where, tick=0) from error
    return {"action_schema": {}, **found}


def hello_message(
    rules: type[Rules],
    config: EpisodeConfig,
    slot: int,
    schemas: Mapping[str, Any],
    pace: Pace,
    talked: Sequence[Mapping[str, Any]] = (),
) -> str:
    """The message `hello` to a seat, as JSON text.

    Args:
        rules: The game.
        config: The config of the episode.
        slot: The seat.
        schemas: What `seat_schemas` returned.
        pace: How the game advances at present.
        talked: What the seat has heard and said before.
    """
    if rules.tell_rewards:
        schemas = {**schemas, "tells_rewards": True}
    if rules.talk is not None:
        schemas = {**schemas, "talk": rules.talk.describe()}
    if talked:
        schemas = {**schemas, "talked": talked}
    more = {"protocol": PROTOCOL, "seat": slot, "seats": config.seats, **schemas}
    return compact({"type": "hello", **about_game(rules, config, pace), **more})


def about_game(rules: type[Rules], config: EpisodeConfig, pace: Pace) -> dict[str, Any]:
    """What players and spectators are told about a game at first, with its pace at present."""
    return {
        "game": rules.__name__,
        "version": rules.version,
        "about": rules_text(rules),
        "names": list(config.names),
        "config": config.public(),
        "pace": pace.describe(),
    }
