"""The program that stands for any unit: what would make a good backend look broken."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

from support.waiting import wait_until

from coworld_runner.testing import subject


def test_abrupt_disconnect_does_not_end_the_subject(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    environment = {**os.environ, "SUBJECT_DIR": str(tmp_path), "SUBJECT_HOST": "127.0.0.1", "SUBJECT_PORT": str(port)}
    steps = [sys.executable, str(Path(subject.__file__)), "serve:200", "write:serving:yes", "hang"]
    with subprocess.Popen(steps, env=environment) as program:
        try:
            wait_until((tmp_path / "serving").exists, seconds=60, what="a subject that serves")
            socket.create_connection(("127.0.0.1", port)).close()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=20) as answer:
                assert answer.status == 200
        finally:
            program.kill()
