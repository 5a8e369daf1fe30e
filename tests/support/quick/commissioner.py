"""The commissioner of Paint Arena, with a fault in rounds that its argument names."""

from __future__ import annotations

import asyncio
import sys
import uuid
from typing import Any

from paintarena import commissioner

VICE = sys.argv[1]
Message = dict[str, Any]


class Broken(commissioner.Conversation):
    """A conversation that fails once a round begins."""

    def answer(self, message: Message) -> list[Message]:
        """Return the answers to a message, possibly wrong ones."""
        said = super().answer(message)
        if VICE == "late" and said and said[0]["type"] == "round_complete":
            return [{"type": "applause"}]
        if message["type"] not in ("round_start", "episodes_rejected"):
            return said
        if VICE == "gone":
            raise SystemExit(3)
        if VICE == "nonsense":
            return [{"type": "applause"}]
        if VICE == "stranger":
            start = self.start["variants"][0]
            roster = [str(uuid.uuid4()) for _ in range(start["num_agents"])]
            wish = {"request_id": "game-1", "variant_id": start["id"], "policy_version_ids": roster}
            return [{"type": "schedule_episodes", "episodes": [wish]}]
        return said


if VICE == "never":
    sys.exit(3)
commissioner.Conversation = Broken
asyncio.run(commissioner.main())
