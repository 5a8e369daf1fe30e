"""A player, which is sent the game's own messages and answers with its own."""

from typing import Any


async def play(seat: Any) -> None:
    """Answer the game's messages until it closes the connection."""
    async for message in seat:
        # Replace this line by an answer, such as: await seat.send({"move": "right"})
        raise NotImplementedError(f"session.py does not answer yet. The game's message: {str(message)[:200]} …")
