"""The player `random`: it plays any legal action or, if the game lists none, any action that its type allows.

This file is also a program that needs only Python and websockets, so it runs in any image that a game's players run in.
`rollout` uses its functions.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from typing import Any

RANDOM = "random"
"""The name of this player, wherever players and policies are named."""

PROTOCOL = "coworld.seat/1"
MAX_MESSAGE = 16 * 1024 * 1024
MOST_DEPTH = 6


def choose(legal: Any, schema: Any, rng: random.Random) -> Any:
    """Return one of the legal actions or, if `legal` is None, an action that the JSON Schema of actions allows."""
    return sample(schema, rng) if legal is None else rng.choice(legal)


def sample(schema: Any, rng: random.Random) -> Any:
    """Return a random value that matches the types, bounds and choices of a JSON Schema."""
    return _sampled(schema, schema, rng, 0)


def resolved(schema: Any, root: Any) -> dict[str, Any]:
    """Follow the `$ref`s of a part of a JSON Schema; `{}` if there is no object at the end."""
    while isinstance(schema, dict) and "$ref" in schema:
        target: Any = root
        for part in str(schema["$ref"]).lstrip("#/").split("/"):  # pyright: ignore[reportUnknownArgumentType]
            target = target.get(part.replace("~1", "/").replace("~0", "~"), {})
        schema = target
    return schema if isinstance(schema, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def _sampled(schema: Any, root: Any, rng: random.Random, depth: int) -> Any:
    known = resolved(schema, root)
    if depth > 2 * MOST_DEPTH:
        return None
    if "const" in known:
        return known["const"]
    if "enum" in known:
        return choose(known["enum"], None, rng)
    for several in ("anyOf", "oneOf"):
        if several in known:
            return _sampled(rng.choice(known[several]), root, rng, depth + 1)
    if "allOf" in known:
        return _sampled(known["allOf"][0], root, rng, depth + 1)
    kind = known.get("type")
    one: Any = choose(kind, None, rng) if isinstance(kind, list) else kind
    match one:
        case "boolean":
            return rng.random() < 0.5
        case "integer":
            least, most = _bounds(known, 1)
            return rng.randint(int(least), int(most)) * int(known.get("multipleOf", 1))
        case "number":
            return rng.uniform(*_bounds(known, 0))
        case "string":
            least = known.get("minLength", 1)
            length = rng.randint(least, max(least, min(known.get("maxLength", 8), least + 8)))
            return "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(length))
        case "array":
            return _list(known, root, rng, depth)
        case "object":
            asked = known.get("required", [])
            return {
                name: _sampled(inner, root, rng, depth + 1)
                for name, inner in known.get("properties", {}).items()
                if name in asked or (depth < MOST_DEPTH and rng.random() < 0.5)
            }
        case _:
            return None


def _list(known: dict[str, Any], root: Any, rng: random.Random, depth: int) -> list[Any]:
    first = known.get("prefixItems", [])
    least = max(known.get("minItems", 0) - len(first), 0)
    most = known.get("maxItems", len(first) + least + (3 if "items" in known else 0)) - len(first)
    more = rng.randint(least, max(least, min(most, least + 8))) if depth < MOST_DEPTH else least
    return [_sampled(inner, root, rng, depth + 1) for inner in [*first, *[known.get("items", {})] * more]]


def _bounds(known: dict[str, Any], step: int) -> tuple[float, float]:
    """Return the smallest and the largest number, for integers (`step` 1) in units of `multipleOf`.

    An open maximum is the minimum plus 100; an open minimum is 0 or, if that is lower, the maximum minus 100.
    """
    by = known.get("multipleOf", 1) if step else 1
    least = known.get("minimum", known["exclusiveMinimum"] + step if "exclusiveMinimum" in known else None)
    most = known.get("maximum", known["exclusiveMaximum"] - step if "exclusiveMaximum" in known else None)
    low = least if least is not None else 0 if most is None else min(most - 100, 0)
    high = most if most is not None else low + 100
    return (-(-low // by), high // by) if step else (low, high)


# --- in a seat ------------------------------------------------------------------------------------------------------


def main() -> int:
    """Play the seat whose address is in the environment; the exit code is 0 when the game is over."""
    from websockets.exceptions import ConnectionClosedError, ConnectionClosedOK
    from websockets.frames import CloseCode

    url = os.environ.get("COWORLD_PLAYER_WS_URL") or os.environ.get("COGAMES_ENGINE_WS_URL")
    if not url:
        print("COWORLD_PLAYER_WS_URL is not set; a runner sets it to the address of the game.", file=sys.stderr)
        return 2
    seed = os.environ.get("COWORLD_PLAYER_SEED")
    try:
        with _connected(url) as socket:
            return _play(socket, random.Random(int(seed) if seed else None))
    except ConnectionClosedOK:
        return 0
    except ConnectionClosedError as error:
        if error.sent is None or error.sent.code != CloseCode.MESSAGE_TOO_BIG:
            raise
        print(f"The game has sent a message of more than {MAX_MESSAGE} bytes.", file=sys.stderr)
        return 1


def _connected(url: str) -> Any:
    from websockets.sync.client import connect

    for pause in (0.1, 0.4, 1.5, 5.0):
        try:
            return connect(url, max_size=MAX_MESSAGE, compression=None, proxy=None)
        except OSError:
            # A game may not listen yet, and nothing reports when it does; this program has nothing else to do
            time.sleep(pause)
    return connect(url, max_size=MAX_MESSAGE, compression=None, proxy=None)


def _play(socket: Any, rng: random.Random) -> int:
    schema: Any = None
    for raw in socket:
        try:
            message: Any = json.loads(raw)
        except ValueError:
            message = None
        said: dict[str, Any] = message if isinstance(message, dict) else {}  # pyright: ignore[reportUnknownVariableType]
        match said.get("type"):
            case "hello" if said.get("protocol") == PROTOCOL:
                schema = said.get("action_schema")
            case "observe" if schema is not None:
                if said.get("your_turn"):
                    _act(socket, said["tick"], choose(said.get("legal"), schema, rng))
            case "refused":
                # Try another action while there is time; an action that was too late belongs to a tick that is over.
                if said.get("legal") or not str(said.get("reason")).startswith("too late"):
                    time.sleep(0.01)
                    _act(socket, said["tick"], choose(said.get("legal"), schema, rng))
            case "over":
                return 0
            case _ if schema is None:
                print(f"`random` plays games that speak {PROTOCOL}; this one does not.", file=sys.stderr)
                return 2
            case _:
                pass
    return 0


def _act(socket: Any, tick: Any, action: Any) -> None:
    socket.send(json.dumps({"type": "act", "tick": tick, "action": action}))


if __name__ == "__main__":
    sys.exit(main())
