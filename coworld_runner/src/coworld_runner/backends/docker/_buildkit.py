"""Reads the progress of a BuildKit build.

The engine sends it as base64 of a protobuf message, ``moby.buildkit.v1.StatusResponse``. Only a few of its fields are
needed, too few to depend on generated code: vertexes (1: digest 1, name 3, started 5, error 7) and logs (3: vertex 1,
message 4).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["BuildkitTrace"]


@dataclass
class BuildkitTrace:
    """Follows a trace and returns its new lines."""

    failed: str = ""
    """Digest of the step that failed; empty if none has."""
    names: dict[str, str] = field(default_factory=dict[str, str])
    """Names of the steps, by digest."""
    _rest: dict[str, str] = field(default_factory=dict[str, str])

    def take(self, aux: str) -> list[tuple[str, str]]:
        """Read one message.

        Args:
            aux: Base64 of a status response.

        Returns:
            New lines, each with the digest of its step: first the step's own name, then its output. Empty if the
            message cannot be read: progress is only displayed, and the outcome is reported separately.
        """
        try:
            return list(self._lines(base64.b64decode(aux, validate=True)))
        except (binascii.Error, ValueError):
            return []

    def _lines(self, data: bytes) -> Iterator[tuple[str, str]]:
        for number, value in _fields(data):
            if number == 1:
                yield from self._vertex(_texts(value))
            elif number == 3:
                log = _texts(value)
                digest = log.get(1, "")
                *lines, self._rest[digest] = (self._rest.get(digest, "") + log.get(4, "")).split("\n")
                yield from ((digest, line) for line in lines)

    def _vertex(self, vertex: dict[int, str]) -> Iterator[tuple[str, str]]:
        digest, name = vertex.get(1, ""), vertex.get(3, "")
        if 5 in vertex and digest not in self.names:
            self.names[digest] = name
            yield digest, name
        if 7 in vertex:
            self.failed = digest
            if rest := self._rest.pop(digest, ""):
                yield digest, rest


def _texts(data: int | bytes) -> dict[int, str]:
    fields = _fields(data) if isinstance(data, bytes) else iter(())
    return {number: value.decode("utf-8", "replace") if isinstance(value, bytes) else "" for number, value in fields}


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a protobuf message with their numbers."""
    index = 0
    while index < len(data):
        key, index = _varint(data, index)
        kind = key & 7
        if kind == 0:
            value, index = _varint(data, index)
            yield key >> 3, value
            continue
        if kind == 2:
            size, index = _varint(data, index)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError("not a protobuf message")
        if index + size > len(data):
            raise ValueError("a field is cut short")
        yield key >> 3, data[index : index + size]
        index += size


def _varint(data: bytes, index: int) -> tuple[int, int]:
    value = shift = 0
    while index < len(data) and shift < 64:
        byte = data[index]
        index += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, index
        shift += 7
    raise ValueError("a number is cut short")
