"""The recorder's program, whose environment says where it listens and where its game is."""

from __future__ import annotations

import json
import os
import socket

from .frame_relay import FrameRelay

__all__ = ["FRAMES_PORT", "PLAYERS_PORT", "main"]

PLAYERS_PORT, FRAMES_PORT = 8080, 8081
"""Ports inside a container."""


def main() -> None:
    """FrameRelay and record until the reader asks for the end."""
    host, _, port = os.environ["COWORLD_RECORDER_GAME"].rpartition(":")
    listens, (players, frames) = os.environ["COWORLD_RECORDER_HOST"], os.environ["COWORLD_RECORDER_PORTS"].split()
    tokens: list[str] = json.loads(os.environ["COWORLD_RECORDER_SEAT_TOKENS"])
    relay = FrameRelay((host.strip("[]"), int(port)), tokens, os.environ["COWORLD_RECORDER_TOKEN"])
    with (
        socket.create_server((listens, int(frames))) as for_reader,
        socket.create_server((listens, int(players)), backlog=128) as for_players,
    ):
        relay.run(for_players, for_reader)
