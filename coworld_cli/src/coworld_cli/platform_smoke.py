"""The episodes that a platform plays of a Coworld by itself."""

from __future__ import annotations

from typing import Any

import click

from coworld_client import CoworldClient
from coworld_client.smoke import CoworldStatus
from coworld_core.api import EpisodeRequest

from . import exitcodes
from .platform_render import Column, dump, rows_table, status_word
from .platform_tables import coworld_details
from .render import labelled
from .running import Running
from .text import clean

__all__ = ["show_status", "smoke_answer", "smoke_text", "wait_smoke"]

_COLOURS = {"passed": "green", "failed": "red", "pending": "cyan", "none": "yellow"}
_BEGINS_WITHIN = 30.0
"""Seconds within which a platform that plays such episodes has made the first."""


async def show_status(api: CoworldClient, coworld: str, *, wait: float | None, running: Running) -> int:
    """Show a Coworld and how its hosted episodes stand.

    Args:
        api: The client.
        coworld: Its id.
        wait: Seconds to wait for them to end; None: not at all.
        running: The command.
    """
    out = running.out
    status = await (api.coworlds.status(coworld) if wait is None else wait_smoke(api, coworld, wait, running))
    out.answer({"coworld": dump(status.coworld), **smoke_answer(status)})
    out.say(coworld_details(status.coworld))
    out.say(smoke_text(status))
    failed = status.verdict == "failed" or (wait is not None and status.verdict == "pending")
    return exitcodes.ANSWER_IS_NO if failed else exitcodes.OK


async def wait_smoke(api: CoworldClient, coworld: str, seconds: float, running: Running) -> CoworldStatus:
    """Wait until they have ended, saying what changes; not for those that never begin."""
    running.so_far = f"The Coworld is on the platform as {coworld}."
    running.to_go_on = f"`coworld status {coworld} --wait-hosted-smoke` waits on."
    said = ""

    def tell(status: CoworldStatus) -> None:
        nonlocal said
        ended = sum(row.status.is_terminal for row in status.episodes)
        text = f"Hosted episodes: {ended} of {len(status.episodes)} ended." if status.episodes else ""
        if text and text != said:
            running.out.note(text)
            said = text

    first = min(seconds, _BEGINS_WITHIN)
    status = await api.coworlds.wait_for_smoke(coworld, deadline=first, on_change=tell)
    if status.verdict == "pending" and seconds > first:
        status = await api.coworlds.wait_for_smoke(coworld, deadline=seconds - first, on_change=tell)
    return status


def smoke_answer(status: CoworldStatus) -> dict[str, Any]:
    """How they stand, for a program."""
    return {
        "hosted_smoke": status.verdict,
        "hosted_smoke_episodes": [
            {"id": row.id, "status": str(row.status), "error": row.error} for row in status.episodes
        ],
        **({"certification": dump(status.certification)} if status.certification is not None else {}),
    }


def smoke_text(status: CoworldStatus) -> str:
    """How they stand, in words."""
    says = {
        "none": "none yet",
        "pending": "pending",
        "passed": "passed",
        "failed": "failed",
    }[status.verdict]
    rows = [("Hosted episodes", click.style(says, fg=_COLOURS[status.verdict], bold=True))]
    state = status.certification
    if state is not None:
        failure = state.failure
        told = " · ".join(filter(None, (state.state, state.failed_step, failure.detail if failure else None)))
        rows.append(("Certification", clean(told, one_line=True)))
    text = labelled(rows, indent="")
    if not status.episodes:
        return text
    columns: tuple[Column[EpisodeRequest], ...] = (
        Column("Episode request", lambda row: row.id),
        Column("Status", lambda row: status_word(row.status)),
        Column("Error", lambda row: row.error, free=True),
    )
    return f"{text}\n\n{rows_table(columns, status.episodes)}"
