"""Answers each question after as many seconds of processor time as it asks for."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed


async def main() -> int:
    """Play to the end."""
    async with connect(os.environ["COWORLD_PLAYER_WS_URL"], compression=None, proxy=None) as connection:
        async for message in connection:
            question = json.loads(message)
            until = time.thread_time() + question["work"]
            while time.thread_time() < until:
                pass
            with contextlib.suppress(ConnectionClosed):
                await connection.send(json.dumps({"round": question["round"]}))
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
