"""Writes a container's output to its unit's logs while it runs."""

from __future__ import annotations

from collections.abc import AsyncIterable, Mapping

import anyio

from coworld_core.docker_address import EngineGone

from ...backend import UnitSpec
from ..base import CappedLog, UnitLogs
from ._engine import Engine

__all__ = ["follow_logs"]


async def follow_logs(spec: UnitSpec, kept: UnitLogs, engine: Engine, path: str, attached: anyio.Event) -> None:
    """Write a container's output to its logs until it ends. Attaches before the start, so nothing is missed.

    Args:
        spec: What the container's unit runs.
        kept: The unit's logs.
        engine: The engine.
        path: The container's path in its API.
        attached: Set when the output is being read.

    Raises:
        EngineRefused: The container cannot be attached to.
        EngineGone: The engine does not answer.
    """
    logs: dict[int, CappedLog] = {}
    try:
        if spec.stdout is not None:
            logs[1] = logs[2] = kept.open(spec.stdout)
        if spec.stderr is not None:
            logs[2] = kept.open(spec.stderr)
        if not logs:
            attached.set()
            return
        async with engine.stream(
            "POST", f"{path}/attach", query={"stream": True, "stdout": 1 in logs, "stderr": True}
        ) as output:
            attached.set()
            await _demultiplex(output, logs)
    except EngineGone:
        # Once attached, the caller next finds out whether and how the unit ended
        if not attached.is_set():
            raise
    finally:
        for log in set(logs.values()):
            kept.close(log)


async def _demultiplex(output: AsyncIterable[bytes], logs: Mapping[int, CappedLog]) -> None:
    """Split the engine's stream into the two of the container (header: stream, three zeros, length)."""
    head = b""
    left = 0
    log: CappedLog | None = None
    async for data in output:
        view = memoryview(data)
        # A program may write single bytes, and each write to a file costs more than its bytes.
        parts: dict[CappedLog, list[memoryview]] = {}
        while view:
            if left:
                part, view = view[:left], view[left:]
                left -= len(part)
                if log is not None:
                    parts.setdefault(log, []).append(part)
                continue
            need = 8 - len(head)
            head, view = head + bytes(view[:need]), view[need:]
            if len(head) == 8:
                log, left, head = logs.get(head[0]), int.from_bytes(head[4:], "big"), b""
        for written, pieces in parts.items():
            written.write(b"".join(pieces))
        if all(log.truncated for log in logs.values()):
            # The logs are full; the engine drops the rest more cheaply than we could
            return
