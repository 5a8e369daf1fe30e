"""Replays: finding them, showing them with the game that wrote them, and checking them."""
