"""A player of the quick game: connects, reports which secret it knows, and waits for the end."""

import binascii
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
else:
    # Importing the public module takes longer than playing the game.
    import _socket as socket


def main() -> None:
    """Stay until the game closes the connection."""
    print("secret:", os.environ.get("QUICK_SECRET", "none"), flush=True)
    address, _, path = os.environ["COWORLD_PLAYER_WS_URL"].removeprefix("ws://").partition("/")
    host, _, port = address.partition(":")
    connection = socket.socket()
    connection.connect((host, int(port or 80)))
    key = binascii.b2a_base64(os.urandom(16), newline=False).decode()
    head = (
        f"GET /{path} HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\n"
        f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    connection.sendall(head.encode())
    try:
        while connection.recv(4096):
            pass
    except ConnectionResetError:
        pass
    connection.close()
    target = os.environ.get("COWORLD_PLAYER_ARTIFACT_UPLOAD_URL", "")
    if "QUICK_SECRET" in os.environ and target.startswith("file://"):
        import zipfile

        with zipfile.ZipFile(target.removeprefix("file://"), "w") as archive:
            archive.writestr("notes.txt", "seen")


if __name__ == "__main__":
    main()
