"""Lists and signals the unit's processes."""

from __future__ import annotations

import os
import signal

__all__ = ["Processes"]


class Processes:
    """The processes of the unit: those of the pod that are neither ours nor the pod's first one."""

    def __init__(self) -> None:
        self._ours = self._group("self")
        self._first = self._group("1")

    @staticmethod
    def _group(process: str) -> str:
        try:
            with open(f"/proc/{process}/cgroup", encoding="ascii", errors="replace") as file:  # noqa: PTH123
                return file.read()
        except OSError:
            return ""

    def all(self) -> list[int]:
        """Their pids, lowest first."""
        numbers = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208
        return [number for number in numbers if number != 1 and self._is_theirs(number)]

    def _is_theirs(self, number: int) -> bool:
        group = self._group(str(number))
        return bool(group) and group not in (self._ours, self._first)

    def first(self) -> list[int]:
        """The process that the container was started with: its parent is outside the pod."""
        return [number for number in self.all() if self._parent(number) == 0]

    @staticmethod
    def _parent(number: int) -> int:
        try:
            with open(f"/proc/{number}/stat", encoding="ascii", errors="replace") as file:  # noqa: PTH123
                return int(file.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return -1

    def signal(self, name: str) -> int:
        """Send a signal; return how many processes got it."""
        number = {"TERM": signal.SIGTERM, "KILL": signal.SIGKILL}[name]
        sent = 0
        for process in self.first() if name == "TERM" else [*self.first(), *self.all()]:
            try:
                os.kill(process, number)
                sent += 1
            except OSError:
                continue
        return sent
