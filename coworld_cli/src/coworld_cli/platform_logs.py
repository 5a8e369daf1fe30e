"""Logs of an episode, and the files that players left: listed, printed or fetched."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from coworld_client import CoworldClient, NotFound
from coworld_client.transfers import each
from coworld_core.api import EpisodeRequest, PlayerEvidence
from coworld_core.errors import CoworldError

from . import exitcodes
from .output import Output
from .platform_files import new_directory, target_file
from .platform_render import Column, rows_table
from .platform_transfers import resumable
from .running import Running
from .terminal import echo
from .text import clean, command_line, plural, shown_path, size

__all__ = ["Fetched", "LogWish", "fetch_all", "show_files", "show_logs"]

_CONCURRENCY = 4


@dataclass(frozen=True, kw_only=True)
class LogWish:
    """What of an episode's logs is wanted."""

    episode: str
    game: bool = False
    agent: int | None = None
    mine: bool = False
    artifact: bool = False
    directory: Path | None = None
    output: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """A file that was fetched, or why it was not."""

    kind: str
    """game, log or artifact."""
    agent: int | None
    path: Path
    size: int = 0
    error: CoworldError | None = None

    def to_dict(self) -> dict[str, Any]:
        """The same for a program."""
        data: dict[str, Any] = {"kind": self.kind, "agent": self.agent, "path": str(self.path)}
        return {**data, "error": self.error.to_dict()} if self.error else {**data, "size": self.size}


async def show_logs(api: CoworldClient, wish: LogWish, running: Running) -> int:
    """List, print or fetch, as wished."""
    if wish.game:
        return await _game(api, wish, running)
    episode = await api.episodes.get(wish.episode)
    if wish.directory is not None:
        return await _directory(api, episode, wish, wish.directory, running)
    if wish.agent is None:
        return _list(await _seats(api, episode, wish), wish, running.out)
    if wish.artifact or wish.output is not None:
        return await _one_file(api, episode, wish, wish.agent, running)
    _print(running.out, wish.episode, wish.agent, await api.episodes.agent_log(episode, wish.agent))
    return exitcodes.OK


async def _game(api: CoworldClient, wish: LogWish, running: Running) -> int:
    name = f"{wish.episode}-game.log"
    if wish.directory is None and wish.output is None:
        _print(running.out, wish.episode, None, await api.episodes.game_log(wish.episode))
        return exitcodes.OK
    target = new_directory(wish.directory) / name if wish.directory else target_file(wish.output, name, overwrite=True)
    resumable(running)
    done = await api.episodes.download_log(wish.episode, target)
    return show_files(running.out, wish.episode, [Fetched(kind="game", agent=None, path=target, size=done.size)])


def _print(out: Output, episode: str, agent: int | None, text: str) -> None:
    """Write a log as it is to a pipe, and freed of what would steer the terminal to one."""
    out.answer({"episode_request_id": episode, "agent": agent, "log": text})
    if not out.json:
        shown = clean(text) if sys.stdout.isatty() else text
        echo(shown, nl=not shown.endswith("\n"))


async def _seats(api: CoworldClient, episode: EpisodeRequest, wish: LogWish) -> list[PlayerEvidence]:
    """The players whose logs or artifacts one may see, those that were asked for."""
    seats = await api.episodes.agent_logs(episode)
    if wish.mine:
        mine = await api.episodes.my_policy_versions()
        seats = tuple(seat for seat in seats if seat.policy_version_id in mine)
    # where a server does not say, there may be one
    there = [seat for seat in seats if (seat.has_artifact if wish.artifact else seat.has_log) is not False]
    return [seat for seat in there if wish.agent in (None, seat.position)]


def _file_name(kind: str, position: int) -> str:
    return f"policy_artifact_{position}.zip" if kind == "artifact" else f"policy_agent_{position}.log"


def _list(seats: Sequence[PlayerEvidence], wish: LogWish, out: Output) -> int:
    kind = "artifact" if wish.artifact else "log"
    out.answer(
        {
            "episode_request_id": wish.episode,
            "kind": kind,
            "agents": [
                {
                    "agent": seat.position,
                    "filename": _file_name(kind, seat.position),
                    "policy_version_id": seat.policy_version_id,
                    "policy_name": seat.policy_name,
                    "has_log": seat.has_log,
                    "has_artifact": seat.has_artifact,
                }
                for seat in seats
            ],
        }
    )
    columns: tuple[Column[PlayerEvidence], ...] = (
        Column("Agent", lambda seat: seat.position, right=True),
        Column("Policy", lambda seat: seat.policy_name),
        Column("Filename", lambda seat: _file_name(kind, seat.position)),
    )
    out.say(rows_table(columns, seats) if seats else f"There are no {kind}s of players that you may see.")
    if not wish.artifact and any(seat.has_artifact for seat in seats):
        out.note(f"Players left files, too: {command_line('episode-logs', wish.episode, '--artifact')}")
    return exitcodes.OK


async def _one_file(api: CoworldClient, episode: EpisodeRequest, wish: LogWish, agent: int, running: Running) -> int:
    resumable(running)
    if wish.artifact:
        # a name of ours is never written over; one that was asked for is
        name = f"{wish.episode}-policy_agent_{agent}.zip"
        target = target_file(wish.output, name, overwrite=wish.output is not None)
        done = await api.episodes.download_artifact(episode, agent, target)
    else:
        target = target_file(wish.output, "", overwrite=True)
        done = await api.episodes.download_log(episode, target, position=agent)
    kind = "artifact" if wish.artifact else "log"
    return show_files(running.out, wish.episode, [Fetched(kind=kind, agent=agent, path=target, size=done.size)])


async def _directory(
    api: CoworldClient, episode: EpisodeRequest, wish: LogWish, directory: Path, running: Running
) -> int:
    """Fetch the logs of the players wished for, and the artifacts of those that left one."""
    wanted: list[tuple[str, int]] = []
    for seat in await _seats(api, episode, wish):
        if not wish.artifact:
            wanted.append(("log", seat.position))
        if seat.has_artifact:
            wanted.append(("artifact", seat.position))
    files = await fetch_all(api, episode, wanted, directory, prefix=f"{wish.episode}-", running=running)
    return show_files(running.out, wish.episode, files)


async def fetch_all(
    api: CoworldClient,
    episode: EpisodeRequest,
    wanted: Sequence[tuple[str, int]],
    directory: Path,
    *,
    prefix: str,
    running: Running,
) -> list[Fetched]:
    """Fetch logs and artifacts into a directory, some at a time; one that fails loses no other.

    Args:
        api: The client.
        episode: Whose.
        wanted: Kind (``log`` or ``artifact``) and slot of each.
        directory: Where to; made if it is not there.
        prefix: What names of files begin with. With one, artifacts are named like the logs.
        running: The command.
    """
    directory = new_directory(directory)
    resumable(running)
    running.evidence = str(directory)

    async def fetch(item: tuple[str, int]) -> Fetched:
        kind, position = item
        if kind == "log":
            target = directory / f"{prefix}policy_agent_{position}.log"
            done = await api.episodes.download_log(episode, target, position=position)
        else:
            name = f"policy_agent_{position}.zip" if prefix else f"policy_artifact_{position}.zip"
            target = directory / f"{prefix}{name}"
            done = await api.episodes.download_artifact(episode, position, target)
        return Fetched(kind=kind, agent=position, path=target, size=done.size)

    results = await each(wanted, partial(fetch), concurrency=_CONCURRENCY)
    files: list[Fetched] = []
    for (kind, position), result in zip(wanted, results, strict=True):
        if isinstance(result, Fetched):
            files.append(result)
        elif not isinstance(result, NotFound):
            # a log that is not there after all is no fault; anything else is
            files.append(Fetched(kind=kind, agent=position, path=directory, error=result))
    return files


def show_files(out: Output, episode: str, files: Sequence[Fetched]) -> int:
    """Say what was fetched, and what could not be."""
    failed = [file for file in files if file.error is not None]
    out.answer({"episode_request_id": episode, "ok": not failed, "files": [file.to_dict() for file in files]})
    for file in files:
        if file.error is None:
            out.say(f"Wrote {shown_path(file.path)}, {size(file.size)}.")
    for file in failed:
        who = "the game" if file.agent is None else f"player {file.agent}"
        out.note(f"The {file.kind} of {who} could not be fetched: {clean(str(file.error), one_line=True)}")
    if not files:
        out.say("There is nothing to fetch.")
    elif failed:
        out.note(f"{plural(len(failed), 'file')} missing; the same command tries again.")
    return exitcodes.ANSWER_IS_NO if failed else exitcodes.OK
