"""A small GitHub for tests: its contents API over a few repositories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .fake_server import Ask, Site, json_say

__all__ = ["SHA", "GitHub"]

SHA = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    "me/game": {
        "": [
            ("Dockerfile.dockerignore", "file"),
            ("README.md", "file"),
            ("src", "dir"),
            ("docker", "dir"),
            ("empty", "dir"),
        ],
        "src": [("server.py", "file"), ("Dockerfile.game", "file"), ("deep", "dir")],
        "src/deep": [("er", "dir")],
        "src/deep/er": [("a file.py", "file")],
        "src/deep/er/a file.py": 120,
        "src/deep/er/nothing.py": 0,
        "docker": [("Dockerfile", "dir")],
        "empty": [],
    },
    "me/rooted": {"": [("Dockerfile", "file"), ("app", "dir")], "app": [("x.py", "file")]},
}


class GitHub(Site):
    """The contents API over `FILES`; `fail` may return another answer to the nth request for a target."""

    def __init__(self) -> None:
        super().__init__()
        self.fail: Callable[[str, int], Any] = lambda path, nth: None

    def targets(self) -> list[str]:
        """Path and query of all requests."""
        return [ask.target for ask in self.asked]

    def otherwise(self, ask: Ask) -> Any:
        failure = self.fail(ask.target, self.targets().count(ask.target))
        if failure is not None:
            return failure
        _, _, owner, repo, _, *rest = ask.path.split("/")
        found: Any = FILES.get(f"{owner}/{repo}", {}).get("/".join(rest).strip("/"))
        if found is None or ask.query["ref"] != SHA:
            return json_say({"message": "Not Found"}, 404)
        if isinstance(found, int):
            return {"type": "file", "size": found}
        return [{"name": name, "type": kind} for name, kind in found]
