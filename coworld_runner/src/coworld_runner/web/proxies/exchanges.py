"""The exchanges with models that an episode has recorded, to answer from them."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections import deque
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Exchanges", "body_fields", "body_of"]


def body_fields(body: bytes) -> dict[str, str]:
    """The body of an answer as fields of a line."""
    try:
        return {"answer": body.decode()}
    except UnicodeDecodeError:
        return {"answer_base64": base64.b64encode(body).decode()}


def body_of(line: dict[str, Any]) -> bytes:
    """The body of an answer, from the fields of a line."""
    if "answer_base64" in line:
        return base64.b64decode(line["answer_base64"])
    return str(line["answer"]).encode()


class Exchanges:
    """A recording. The same question of the same seat gets its answers in the order in which they came.

    Args:
        path: The file, with a line for each exchange.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._places: dict[bytes, deque[int]] = {}
        self._lock = threading.Lock()
        with Path(path).open("rb") as file:
            place = 0
            for line in file:
                try:
                    said: Any = json.loads(line)
                    key = _key(said["spender"], said["call"], said["question"])
                    body_of(said)
                except (ValueError, LookupError, TypeError, RecursionError):
                    pass  # Not an exchange, or one that was refused
                else:
                    self._places.setdefault(key, deque()).append(place)
                place += len(line)

    def take(self, spender: str, call: str, question: Any) -> dict[str, Any] | None:
        """The next exchange with that question; None: there is none."""
        with self._lock:
            places = self._places.get(_key(spender, call, question))
            if not places:
                return None
            place = places.popleft()
        with Path(self._path).open("rb") as file:
            file.seek(place)
            line: dict[str, Any] = json.loads(file.readline())
        return line


def _key(spender: str, call: str, question: Any) -> bytes:
    text = json.dumps([spender, call, question], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
