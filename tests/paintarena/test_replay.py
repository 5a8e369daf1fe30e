"""Reading replays: old ones lose their tokens, and what is none is refused."""

import json
from typing import Any

import pytest

from paintarena.replay import ReplayError, replay_message

FRAME: dict[str, Any] = {"width": 1, "height": 1, "tile_owners": [-1], "positions": [], "scores": []}


def test_an_old_replay_loses_its_tokens() -> None:
    config = {"width": 1, "tokens": ["hush"]}
    replay = {"config": config, "player_names": ["Ada"], "frames": [FRAME], "results": {"a": 1}}
    message = json.loads(replay_message(json.dumps(replay).encode()))
    assert message == {**replay, "type": "replay", "config": {"width": 1}}


@pytest.mark.parametrize(
    "content",
    [
        *[b"", b"not json", b"[]", b"{}", b'{"frames": 3}', b'{"frames": [1]}', b'{"frames": [{"width": 2}]}'],
        json.dumps({"frames": [{**FRAME, "tile_owners": []}]}).encode(),
    ],
)
def test_malformed_replay_is_refused(content: bytes) -> None:
    with pytest.raises(ReplayError, match=r"not (JSON|a Paint Arena replay)"):
        replay_message(content)
