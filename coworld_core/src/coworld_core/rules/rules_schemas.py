"""Generates the `game` section of a manifest from the types of the rules, and reads game configs."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import UsageError, first_mistake
from .game import Rules, RulesConfig, fixed_pace
from .pace import Pace, Turns
from .plain_values import adapter, to_json
from .play import Play
from .rules_errors import RulesError
from .seat_wire import PROTOCOL
from .talk_limits import TalkLimits

__all__ = [
    "EpisodeConfig",
    "action_schema",
    "config_schema",
    "game_section",
    "read_config",
    "results_schema",
    "rules_config",
]

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True, kw_only=True)
class EpisodeConfig:
    """The config of one episode.

    Attributes:
        rules: The rules' own config.
        tokens: The secret of each seat; not in the repr.
        names: The name of each seat.
        seed: The seed of all randomness; None if one is to be chosen when the game starts.
        pace: How the game advances; None if that depends on the phase.
        connect_timeout: Seconds to wait for players before the game starts without them.
    """

    rules: RulesConfig
    tokens: tuple[str, ...] = field(repr=False)
    names: tuple[str, ...]
    seed: int | None
    pace: Pace | None
    connect_timeout: float

    @property
    def seats(self) -> int:
        """The number of seats."""
        return len(self.tokens)

    def public(self) -> dict[str, Any]:
        """The rules' own config as JSON, which everyone may see."""
        return self.rules.model_dump(mode="json")


class _NamedPlayer(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1)


class _Common(BaseModel):
    """The fields that every game config has."""

    model_config = ConfigDict(extra="forbid")

    tokens: list[str] = Field(description="One secret for each seat, made by the runner. Never in an authored config.")
    players: list[_NamedPlayer] | None = None
    seed: int | None = Field(default=None, ge=0)
    player_connect_timeout_seconds: float = Field(default=180, ge=0)
    seconds_per_move: float | None = Field(default=None, gt=0)
    ticks_per_second: float | None = Field(default=None, gt=0, le=1000)


def config_schema(rules: type[Rules]) -> dict[str, Any]:
    """The JSON Schema of a game's config: the fields of `Rules.Config` and those common to all games."""
    own = adapter(rules.Config).json_schema()
    least, most = rules.seats, rules.most_seats or rules.seats
    per_seat = {"minItems": least, "maxItems": most}
    name = {"name": {"type": "string", "minLength": 1}}
    properties: dict[str, Any] = {
        "tokens": {
            "type": "array",
            "description": "One secret for each seat, made by the runner. Never in an authored config.",
            "items": {"type": "string", "minLength": 1},
            **per_seat,
        },
        "players": {
            "type": "array",
            "description": "The name of each seat.",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["name"],
                "properties": name,
            },
            **per_seat,
        },
        **own.get("properties", {}),
        "seed": {
            "type": "integer",
            "minimum": 0,
            "description": "The seed of all randomness; by default a random one.",
        },
        "player_connect_timeout_seconds": {
            "type": "number",
            "minimum": 0,
            "default": 180,
            "description": "Seconds to wait for players before the game starts without them.",
        },
    }
    pace = fixed_pace(rules)
    if isinstance(pace, Turns):
        properties["seconds_per_move"] = {
            "type": "number",
            "exclusiveMinimum": 0,
            "default": pace.per_move,
            "description": "Seconds a seat has for one move.",
        }
    elif pace is not None:
        properties["ticks_per_second"] = {
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": 1000,
            "default": pace.hz,
            "description": "Ticks per second.",
        }
    return {
        "$schema": _DIALECT,
        "title": f"{rules.__name__} config",
        "type": "object",
        "additionalProperties": False,
        "required": ["tokens", *own.get("required", [])],
        "properties": properties,
        **({"$defs": own["$defs"]} if "$defs" in own else {}),
    }


def results_schema(rules: type[Rules]) -> dict[str, Any]:
    """The JSON Schema of a game's results: `scores`, `ticks`, and the fields of `Rules.Results`."""
    own: dict[str, Any] = {} if rules.Results is None else adapter(rules.Results).json_schema(mode="serialization")
    least, most = rules.seats, rules.most_seats or rules.seats
    ends = zip(("minimum", "maximum"), rules.score_range or (None, None), strict=True)
    return {
        "$schema": _DIALECT,
        "title": f"{rules.__name__} results",
        "type": "object",
        "additionalProperties": False,
        "required": ["scores", "ticks", *own.get("required", [])],
        "properties": {
            "scores": {
                "type": "array",
                "description": "The score of each seat; higher is better.",
                "items": {"type": "number", **{name: end for name, end in ends if end is not None}},
                "minItems": least,
                "maxItems": most,
            },
            "ticks": {"type": "integer", "minimum": 0, "description": "Ticks played."},
            **own.get("properties", {}),
        },
        **({"$defs": own["$defs"]} if "$defs" in own else {}),
    }


def action_schema(rules: type[Rules]) -> dict[str, Any]:
    """The JSON Schema of an action."""
    return adapter(rules.Action).json_schema()


def observation_schema(rules: type[Rules]) -> dict[str, Any]:
    """The JSON Schema of an observation; it allows anything if the rules do not declare a type."""
    return {} if rules.Observation is object else adapter(rules.Observation).json_schema(mode="serialization")


def read_config(rules: type[Rules], config: Mapping[str, Any]) -> EpisodeConfig:
    """Read a game config, including its tokens.

    Raises:
        UsageError: Code `config_invalid`; the message names the field and what it must be, and shows no token.
    """
    common = {key: value for key, value in config.items() if key in _Common.model_fields}
    own = {key: value for key, value in config.items() if key not in common}
    shared = cast("_Common", _validated(_Common, common))
    mine = rules_config(rules, own)
    count, least, most = len(shared.tokens), rules.seats, rules.most_seats or rules.seats
    if not least <= count <= most:
        raise _invalid(
            "tokens", f"there are {count}; the game has {least if least == most else f'{least} to {most}'} seats"
        )
    if shared.players is not None and len(shared.players) != count:
        raise _invalid("players", f"there are {len(shared.players)} names for {count} seats")
    pace = fixed_pace(rules)
    if pace is None:
        for field in ("seconds_per_move", "ticks_per_second"):
            if getattr(shared, field) is not None:
                raise _invalid(field, "this game has phases, whose pace its rules decide")
    elif isinstance(pace, Turns):
        if shared.ticks_per_second is not None:
            raise _invalid("ticks_per_second", "this game waits for moves: give seconds_per_move")
        pace = pace if shared.seconds_per_move is None else replace(pace, per_move=shared.seconds_per_move)
    else:
        if shared.seconds_per_move is not None:
            raise _invalid("seconds_per_move", "this game runs at a fixed rate: give ticks_per_second")
        pace = pace if shared.ticks_per_second is None else replace(pace, hz=shared.ticks_per_second)
    return EpisodeConfig(
        rules=mine,
        tokens=tuple(shared.tokens),
        names=tuple(player.name for player in shared.players)
        if shared.players
        else tuple(f"Seat {seat}" for seat in range(count)),
        seed=shared.seed,
        pace=pace,
        connect_timeout=shared.player_connect_timeout_seconds,
    )


def rules_config(rules: type[Rules], config: Mapping[str, Any] | RulesConfig | None) -> RulesConfig:
    """Parse the rules' own config from its fields as JSON.

    Raises:
        UsageError: Code `config_invalid`; the message names the field and what it must be.
    """
    return config if isinstance(config, RulesConfig) else cast("RulesConfig", _validated(rules.Config, config or {}))


def _validated(model: type[BaseModel], value: Mapping[str, Any]) -> BaseModel:
    try:
        text = to_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"The game config is not a JSON value: {error}.", code="config_invalid") from None
    try:
        # Strict JSON: "3" is not a number, and a list is accepted for a tuple.
        return model.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise _invalid(*first_mistake(error)) from None


def _invalid(place: str, problem: str) -> UsageError:
    return UsageError(f"The game config cannot be played: {place}: {problem}.", code="config_invalid")


def game_section(rules: type[Rules]) -> dict[str, Any]:
    """The parts of a manifest's `game` that follow from the types and docstrings of the rules.

    The name, owner, version and runnable have to be added.
    """
    doc = rules_text(rules)
    return {
        "description": doc.splitlines()[0],
        "config_schema": config_schema(rules),
        "results_schema": results_schema(rules),
        "protocols": {
            "player": _text(_player_protocol(rules)),
            "global": _text(_VIEWER_PROTOCOL),
        },
        "docs": {"readme": _text(f"# {rules.__name__}\n\n{doc}\n")},
    }


def rules_text(rules: type[Rules]) -> str:
    """The rules of a game in words: the docstring of its class, or else its name."""
    doc = inspect.getdoc(rules)
    return doc if doc and doc != inspect.getdoc(Rules) else rules.__name__


def keys_of(rules: type[Rules]) -> dict[str, Any]:
    """The keys that the author has named, with their actions as JSON.

    Raises:
        ValueError: An action is not of the type of actions.
    """
    keys: dict[str, Any] = {}
    for key, action in rules.keys.items():
        text = to_json(action)
        try:
            adapter(rules.Action).validate_json(text, strict=True)
        except ValidationError as error:
            raise ValueError(
                f"the key {key!r} has no action: {': '.join(filter(None, first_mistake(error)))}"
            ) from None
        keys[key] = json.loads(text)
    return keys


def _text(value: str) -> dict[Literal["type", "value"], str]:
    return {"type": "text", "value": value}


def _player_protocol(rules: type[Rules]) -> str:
    pace = fixed_pace(rules)
    clock = (
        "The game has phases, each with a pace of its own: each `observe` has it as `pace`, as `hello` does."
        if pace is None
        else f"A seat has {pace.per_move:g} s for a move"
        + (f", plus {pace.bank:g} s for the whole game" if pace.bank else "")
        + ", unless the config says otherwise."
        if isinstance(pace, Turns)
        else f"The game ticks {pace.hz:g} times a second with the actions received, unless configured otherwise."
    )
    schemas = "".join(
        f"\n## {title}\n\n```json\n{json.dumps(schema, indent=2)}\n```\n"
        for title, schema in (
            ("An action", action_schema(rules)),
            ("An observation (`observation_schema` of `hello`)", observation_schema(rules)),
            ("An observation, for example", _first_observation(rules)),
        )
        if schema
    )
    more = (_REWARDS if rules.tell_rewards else "") + ("" if rules.talk is None else _talk_protocol(rules.talk))
    return _PLAYER_PROTOCOL.replace("PROTOCOL", PROTOCOL).replace("CLOCK", f"{more}{clock}") + schemas


def _first_observation(rules: type[Rules]) -> Any:
    """What the first seat to act sees at the start of a game; None if that is long, or there is no default config."""
    try:
        play = Play(rules)
        seen = play.observation(play.to_act[0])
    except (RulesError, IndexError):
        return None
    return seen if len(to_json(seen)) <= _MAX_EXAMPLE else None


_MAX_EXAMPLE: Final = 1000
"""Maximum length of an observation that is shown as an example."""

_PLAYER_PROTOCOL: Final = """\
# PROTOCOL

Websocket `/player?slot=N&token=T`; text frames, one JSON object each, with its kind as `type`.

| From the game | |
| --- | --- |
| `hello` | `protocol`, `game`, `version`, `about` (the rules in words), `seat`, `seats`, `names`, `config`, `pace`, \
`action_schema`; where applicable, `keys` (for pages): once, first |
| `observe` | `tick`, `observation`, `your_turn`; where applicable, `legal` (actions), `text`, `time_left` (s) |
| `picture` | `tick`, `picture`: the answer to `picture` |
| `refused` | `tick`, `reason`, `legal`: an action was not accepted |
| `over` | `scores`, `results`, `reason`: last; the game then closes the connection |

| To the game | |
| --- | --- |
| `act` | `tick` of the observation that it answers, `action`; optionally `by`: who decided, for the replay |
| `picture` | for pages: from now on each `observe` has `picture`, the seat's drawing (text or one `<svg>`), and also \
`scores`, `to_act` and `eliminated` (seats), as far as there are any and the seat may know them |

An `act` counts only for its own tick, and only the first legal one; any other is answered with `refused`. A player
that reconnects with the same slot and token gets `hello` and the current `observe`; the older connection is closed. A
frame has at most 1 MiB. Ignore kinds and fields that are not in these tables.

CLOCK
"""

_REWARDS: Final = """\
`hello` has `tells_rewards`, true, and each `observe` has `reward`: what the seat has gained since the observation of an
earlier tick that it got last, or null if it has gained nothing.

"""


def _talk_protocol(talk: TalkLimits) -> str:
    to = " or ".join({"all": '`"all"` (the default)', "team": '`"team"`', "seat": "a seat"}[kind] for kind in talk.to)
    many = "one message" if talk.per_tick == 1 else f"{talk.per_tick} messages"
    return f"""\
Seats may talk. `say` has `text`, at most {talk.length} characters, and `to`, which is {to}. A seat may say {many} in a
tick, whether it is its turn or not; before its `act`, if that may end the tick. Those who are addressed get it at
once as `heard`, which has a list `heard` with `tick`, `seat`, `text` and `to`; and again, in the order of seats, in
`heard` of their next `observe`, which is repeated if that observation is sent again. What may not be said is answered
with `say_refused`: `tick`, `reason`. `hello` has the limits as `talk` and, if a seat is taken again, `talked`: the
newest of what it has heard and said, in the same form, apart from what an `observe` is still to tell it; the answer to
`picture` has all of it up to now as `talked`. Words are never actions.

"""


_VIEWER_PROTOCOL: Final = """\
Websocket `/global`; text frames, one JSON object each. `hello`: `game`, `about`, `names`, `config`, `pace`,
`spectators`. `state`, at once and after each tick: `tick`, `to_act` (seats), `drawing`, and `scores` and `eliminated`
(seats) if there are any; a slow reader skips to the newest. `over`: `scores`, `results`, `reason`. If `spectators` is
`{"kind": "delayed", "ticks": N}`, the state is that of N ticks before; if it is `{"kind": "hidden"}`, only `tick` is
filled in. The last state before `over` is always that of the end.

A server started with `COGAME_LOAD_REPLAY_URI` sends on `/replay` first `replay` (`header`, `count`, `results`,
`reason`), then the whole game as `ticks` (`from`, `ticks`), in several frames if it is long.
"""
