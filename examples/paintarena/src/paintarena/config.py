"""The game config: strict parsing, and the JSON Schemas of config and results as published in the manifest."""

import json
import math
from dataclasses import dataclass
from typing import Final, cast

from coworld_core.errors import CoworldError

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

DEFAULT_CONNECT_TIMEOUT: Final = 180.0
"""Seconds to wait for missing players before the game starts without them."""

MAX_TICK_RATE: Final = 60.0
"""Maximum of ticks per second, in the config and on the admin page."""

CONFIG_SCHEMA: Final[dict[str, Json]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Paint Arena config",
    "type": "object",
    "additionalProperties": False,
    "required": ["tokens", "players", "width", "height", "max_ticks", "tick_rate"],
    "properties": {
        "tokens": {
            "type": "array",
            "description": "One secret per slot, made by the runner. Never part of an authored config.",
            "items": {"type": "string", "minLength": 1},
            "minItems": 2,
            "maxItems": 2,
        },
        "players": {
            "type": "array",
            "description": "Display names, one per slot.",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["name"],
                "properties": {"name": {"type": "string", "minLength": 1}},
            },
            "minItems": 2,
            "maxItems": 2,
        },
        "width": {"type": "integer", "description": "Columns of the board.", "minimum": 4, "maximum": 40},
        "height": {"type": "integer", "description": "Rows of the board.", "minimum": 4, "maximum": 40},
        "max_ticks": {"type": "integer", "description": "Ticks in one game.", "minimum": 1, "maximum": 10000},
        "tick_rate": {
            "type": "number",
            "description": "Ticks per second.",
            "exclusiveMinimum": 0,
            "maximum": 60,
        },
        "player_connect_timeout_seconds": {
            "type": "number",
            "description": "Seconds to wait for missing players before the game starts without them.",
            "minimum": 0,
            "default": 180,
        },
    },
}

RESULTS_SCHEMA: Final[dict[str, Json]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Paint Arena results",
    "type": "object",
    "additionalProperties": False,
    "required": ["scores", "painted_tiles", "ticks"],
    "properties": {
        "scores": {
            "type": "array",
            "description": "Score of each slot: the tiles it owned at the end.",
            "items": {"type": "number"},
            "minItems": 1,
            "maxItems": 4,
        },
        "painted_tiles": {
            "type": "array",
            "description": "Tiles owned by each slot at the end.",
            "items": {"type": "integer", "minimum": 0},
            "minItems": 1,
            "maxItems": 4,
        },
        "ticks": {"type": "integer", "description": "Ticks played.", "minimum": 0},
    },
}


class ConfigError(CoworldError):
    """The config is invalid; the message names the value and what it must be, and never shows a token."""

    kind = "answer"
    default_code = "config_invalid"


@dataclass(frozen=True, kw_only=True)
class Config:
    """A checked config.

    Attributes:
        tokens: Secret of each slot; never shown in a repr, a log or a replay.
        names: Display name of each slot.
        width: Columns, 4 to 40.
        height: Rows, 4 to 40.
        max_ticks: Length of the game, 1 to 10000 ticks.
        tick_rate: Ticks per second, above 0 and at most 60.
        connect_timeout: Seconds to wait for missing players.
        public: The config as given, without the tokens; safe to put into a replay.
    """

    tokens: tuple[str, ...]
    names: tuple[str, ...]
    width: int
    height: int
    max_ticks: int
    tick_rate: float
    connect_timeout: float
    public: dict[str, Json]

    def __repr__(self) -> str:
        """Show the config without its tokens."""
        return f"Config({self.public!r})"


def parse_config(text: str | bytes) -> Config:
    """Read and check a config.

    One to four players are accepted, as the rules allow; the manifest's schema offers two.

    Raises:
        ConfigError: The text is not JSON, or a value is missing, unknown or out of bounds.
    """
    try:
        raw: Json = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the config is not JSON: {error}") from None
    if not isinstance(raw, dict):
        raise ConfigError("the config must be a JSON object")
    known = cast("dict[str, Json]", CONFIG_SCHEMA["properties"])
    if unknown := sorted(set(raw) - set(known)):
        raise ConfigError(f"unknown config value {unknown[0]!r}; known are {', '.join(known)}")
    tokens = _tokens(raw.get("tokens"))
    names = _names(raw.get("players"))
    if len(tokens) != len(names):
        raise ConfigError(f"tokens and players must be of one length, got {len(tokens)} and {len(names)}")
    rate = _number(raw, "tick_rate")
    if not is_tick_rate(rate):
        raise ConfigError(f"tick_rate must be above 0 and at most {MAX_TICK_RATE:g}, got {rate!r}")
    timeout = _number(raw, "player_connect_timeout_seconds", default=DEFAULT_CONNECT_TIMEOUT)
    if not (math.isfinite(timeout) and timeout >= 0):
        raise ConfigError(f"player_connect_timeout_seconds must be 0 or more, got {timeout!r}")
    return Config(
        tokens=tokens,
        names=names,
        width=_integer(raw, "width", least=4, most=40),
        height=_integer(raw, "height", least=4, most=40),
        max_ticks=_integer(raw, "max_ticks", least=1, most=10000),
        tick_rate=float(rate),
        connect_timeout=float(timeout),
        public={key: value for key, value in raw.items() if key != "tokens"},
    )


def is_tick_rate(value: object) -> bool:
    """Tell whether `value` is a valid number of ticks per second."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MAX_TICK_RATE


def _tokens(value: Json) -> tuple[str, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= 4:
        raise ConfigError("tokens must be a list of 1 to 4 strings, one per slot")
    tokens = tuple(item for item in value if isinstance(item, str) and item)
    if len(tokens) != len(value):
        raise ConfigError("every token must be a non-empty string")
    return tokens


def _names(value: Json) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ConfigError('players must be a list of {"name": …}, one per slot')
    names: list[str] = []
    for slot, item in enumerate(value):
        name = item.get("name") if isinstance(item, dict) else None
        if not isinstance(item, dict) or not isinstance(name, str) or not name or len(item) != 1:
            raise ConfigError(f'players[{slot}] must be {{"name": …}} with a non-empty name and nothing else')
        names.append(name)
    return tuple(names)


def _number(raw: dict[str, Json], key: str, *, default: float | None = None) -> float:
    value = raw.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{key} must be a number, got {value!r}")
    return value


def _integer(raw: dict[str, Json], key: str, *, least: int, most: int) -> int:
    value = raw.get(key)
    # JSON Schema counts 12.0 as an integer.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigError(f"{key} must be a whole number from {least} to {most}, got {value!r}")
    return value
