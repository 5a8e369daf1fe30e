"""Replays: found wherever they are, shown by the game that wrote them, and checked."""
