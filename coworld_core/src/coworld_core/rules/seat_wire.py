"""The protocol between a game made with the kit and its players. Manifests made with the kit describe its messages."""

from __future__ import annotations

from typing import Final

__all__ = ["CA_ENV", "CLIENT_CERT_ENV", "MAX_FRAME", "MAX_MESSAGE", "MAX_REFUSED", "PICTURE", "PROTOCOL"]

PROTOCOL: Final = "coworld.seat/1"
"""Name of the protocol in `hello`."""

PICTURE: Final = '{"type":"picture"}'
"""The message in which a page asks for its seat's drawing, now and in each `observe`."""

MAX_FRAME: Final = 1024 * 1024
"""Maximum size in bytes of a frame from a player."""

MAX_MESSAGE: Final = 16 * 1024 * 1024
"""Maximum size in bytes of a message to a seat, from a game of any protocol."""

MAX_REFUSED: Final = 20
"""How many actions the game may refuse, not counting late ones, before a player of the kit gives up."""

CA_ENV: Final = "COWORLD_CA_FILE"
"""Environment variable with the file of an authority, as PEM, that a player trusts besides those of its system."""

CLIENT_CERT_ENV: Final = "COWORLD_CLIENT_CERT"
"""Environment variable with the file of a client's own certificate and its private key, as PEM."""
