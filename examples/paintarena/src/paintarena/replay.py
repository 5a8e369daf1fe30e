"""Reads a replay, and prepares the messages and answers for viewers."""

import json
from typing import Final

from coworld_core.errors import CoworldError
from coworld_core.files import unpack
from coworld_runner.kit.server import ReplayFeed
from coworld_runner.package import read_document
from paintarena.config import Json

MAX_BYTES: Final = 256 * 1024 * 1024
"""Maximum size of a replay, packed or unpacked: about five times the largest possible one."""


class ReplayError(CoworldError):
    """The data is not a Paint Arena replay; the message says why."""

    kind = "answer"
    default_code = "replay_invalid"


async def load_replay(uri: str) -> ReplayFeed:
    """Read a replay, packed or not; a single message shows it, `{"type": "replay", …}`, and commands are sent back.

    Raises:
        ReplayError: The data is not a Paint Arena replay.
        CoworldError: The replay cannot be read.
    """
    # No retries: a viewer should see at once that a replay cannot be read.
    data = await read_document(uri, what="replay", limit=MAX_BYTES, retry_timeout=0)
    message = replay_message(unpack(data, limit=MAX_BYTES, what="replay", source="it", error=ReplayError))
    return ReplayFeed([message], control)


def replay_message(data: bytes) -> str:
    """Return the message that shows a replay, without the tokens that older games wrote into its config.

    Raises:
        ReplayError: The data is not a Paint Arena replay.
    """
    try:
        raw: Json = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ReplayError(f"The replay is not JSON: {error}") from None
    if not isinstance(raw, dict) or not isinstance(frames := raw.get("frames"), list):
        raise ReplayError("This is not a Paint Arena replay: it has no frames")
    for index, frame in enumerate(frames):
        if not _is_frame(frame):
            raise ReplayError(f"This is not a Paint Arena replay: frame {index} is not a board")
    config = raw.get("config")
    public = {key: value for key, value in config.items() if key != "tokens"} if isinstance(config, dict) else {}
    message = {
        "type": "replay",
        "config": public,
        "player_names": raw.get("player_names") or [],
        "frames": frames,
        "results": raw.get("results") or {},
    }
    return json.dumps(message, separators=(",", ":"))


async def control(message: str | bytes) -> list[str]:
    """Answer a message from a viewer: its command is sent back to it."""
    try:
        command: Json = json.loads(message)
    except (ValueError, RecursionError):
        return [json.dumps({"type": "error", "message": "not understood: controls are JSON"})]
    return [json.dumps({"type": "control", "command": command})]


def _is_frame(frame: Json) -> bool:
    if not isinstance(frame, dict):
        return False
    width, height, owners = frame.get("width"), frame.get("height"), frame.get("tile_owners")
    return (
        isinstance(width, int)
        and isinstance(height, int)
        and isinstance(owners, list)
        and len(owners) == width * height
        and isinstance(frame.get("positions"), list)
        and isinstance(frame.get("scores"), list)
    )
