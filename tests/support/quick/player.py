"""A player of the quick game: comes, says which secret it knows, and waits for the end."""

import base64
import os
import socket
from urllib.parse import urlsplit


def main() -> None:
    """Stay until the game hangs up."""
    print("secret:", os.environ.get("QUICK_SECRET", "none"), flush=True)
    url = urlsplit(os.environ["COWORLD_PLAYER_WS_URL"])
    with socket.create_connection((url.hostname or "", url.port or 80)) as connection:
        key = base64.b64encode(os.urandom(16)).decode()
        head = (
            f"GET {url.path}?{url.query} HTTP/1.1\r\nHost: {url.netloc}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        connection.sendall(head.encode())
        try:
            while connection.recv(4096):
                pass
        except ConnectionResetError:
            pass
    target = os.environ.get("COWORLD_PLAYER_ARTIFACT_UPLOAD_URL", "")
    if "QUICK_SECRET" in os.environ and target.startswith("file://"):
        import zipfile

        with zipfile.ZipFile(target.removeprefix("file://"), "w") as archive:
            archive.writestr("notes.txt", "seen")


if __name__ == "__main__":
    main()
