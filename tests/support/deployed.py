"""What the page about deployments says, line by line, and what a deployed Observatory's board shows."""

from __future__ import annotations

import re

import httpx2

from .deployment_images import ROOT
from .waiting import until

__all__ = ["PAGE", "beyond", "lines_of", "played"]

PAGE = ROOT / "docs/deployment.md"


def lines_of(heading: str, language: str = "text") -> list[str]:
    """The lines of a section's fences in a language: `text` are commands for Compose, `kubectl` those for a cluster."""
    section = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    fences: list[str] = re.findall(rf"^```{language}\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    return [line for fence in fences for line in fence.splitlines()]


async def played(http: httpx2.AsyncClient) -> int:
    """How many rounds the board has seen, all players together; 0 while there is nobody to ask."""
    try:
        divisions = (await http.get("/observatory/v2/divisions")).raise_for_status().json()
        path = f"/observatory/v2/divisions/{divisions[0]['id']}/leaderboard"
        board: list[dict[str, int]] = (await http.get(path)).raise_for_status().json() or []
    except (httpx2.HTTPError, OSError):
        return 0
    return sum(line["rounds_played"] for line in board)


async def beyond(http: httpx2.AsyncClient, rounds: int) -> int:
    """Wait until the board has seen more rounds than that, and return how many."""

    async def moved() -> int:
        found = await played(http)
        return found if found > rounds else 0

    return await until(moved, seconds=400, what=f"more than {rounds} rounds", every=0.5)
