"""Two machines on one: network namespaces, each with its own addresses and ports, joined by a cable that can be cut."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from .waiting import wait_until

__all__ = ["Machine", "Running", "network_trouble", "two_machines"]


@dataclass
class Running:
    """A program on a machine."""

    process: subprocess.Popen[bytes]
    output: Path
    """What it has written, to both streams."""

    @property
    def printed(self) -> str:
        return self.output.read_text(encoding="utf-8", errors="replace")

    def until_printed(self, text: str) -> str:
        """Wait for a text, and return all that was written."""

        def there() -> bool:
            assert text in self.printed or self.process.poll() is None, f"ended without {text!r}:\n{self.printed}"
            return text in self.printed

        wait_until(there, seconds=90, what=lambda: f"{text!r} in\n{self.printed}", every=0.05)
        return self.printed

    def end(self) -> int:
        """Wait for its end, and return its status."""
        return self.process.wait(timeout=90)


@dataclass
class Machine:
    """One of the two."""

    namespace: str
    address: str
    _started: list[Running] = field(default_factory=list[Running])

    def start(self, *words: str | Path, output: Path, directory: Path, env: Mapping[str, str]) -> Running:
        """Start a program; what still runs in the end is killed."""
        with output.open("wb") as sink:
            process = subprocess.Popen(
                ["ip", "netns", "exec", self.namespace, *map(str, words)],
                cwd=directory,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
            )
        self._started.append(Running(process, output))
        return self._started[-1]

    def cable(self, state: str) -> None:
        """Plug the cable in (`up`) or pull it out (`down`)."""
        _ip("-n", self.namespace, "link", "set", "cable", state)

    def close(self) -> None:
        for running in self._started:
            if running.process.poll() is None:
                running.process.terminate()
                try:
                    running.process.wait(timeout=20)
                except subprocess.TimeoutExpired:
                    running.process.kill()
                    running.process.wait()


def network_trouble() -> str:
    """Why there cannot be two machines here; empty if there can."""
    if os.geteuid() != 0:
        return "Network namespaces need root."
    if shutil.which("ip") is None:
        return "The command ip is not on PATH."
    try:
        with two_machines():
            return ""
    except subprocess.CalledProcessError as error:
        return f"No network namespaces: {error.stderr.decode(errors='replace').strip()}"


@contextmanager
def two_machines(*, mtu: int = 1500) -> Generator[tuple[Machine, Machine]]:
    """Make two machines that reach each other, and nothing else.

    Args:
        mtu: The largest packet that the cable takes, in bytes.
    """
    names = [f"coworld-{os.getpid()}-{end}" for end in ("a", "b")]
    # Addresses for documentation, which no network of this machine has
    one, other = (Machine(name, f"192.0.2.{number}") for number, name in enumerate(names, 1))
    made: list[str] = []
    try:
        for name in names:
            _ip("netns", "add", name)
            made.append(name)
        _ip(
            *("link", "add", "name", "cable", "mtu", str(mtu), "netns", names[0], "type", "veth"),
            *("peer", "name", "cable", "mtu", str(mtu), "netns", names[1]),
        )
        for machine in (one, other):
            _ip("-n", machine.namespace, "address", "add", f"{machine.address}/30", "dev", "cable")
            _ip("-n", machine.namespace, "link", "set", "lo", "up")
            machine.cable("up")
        yield one, other
    finally:
        one.close()
        other.close()
        # The cable goes with them
        for name in made:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True, timeout=20)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=20)
