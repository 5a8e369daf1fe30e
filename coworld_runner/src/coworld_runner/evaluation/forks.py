"""Continues an episode another way: from a tick of its replay, with its own or with other players."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Unpack

import anyio.to_thread
from pydantic import Field

from coworld_core.documents.records import Record, SchemaVersion, is_empty
from coworld_core.episode.events import RunStarted
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.record import EpisodeRecord, EpisodeRow, SlotRecord, read_record
from coworld_core.errors import UsageError
from coworld_core.evaluation.estimates import Scale, mean_interval
from coworld_core.evaluation.report_base import IntervalRecord
from coworld_core.files.regular import read_regular
from coworld_core.hints import Hint
from coworld_core.player_seeds import block_secret
from coworld_core.rules import Branch, RulesReplay, read_replay
from coworld_core.secret_seeds import seed_from_key

from ..episode.many import KeyedRun, open_keyed_run
from ..episode.program_venue import ProgramVenue
from ..episode.run_context import entered_backend
from ..episode.run_options import RunArguments, RunOptions
from ..episode.venue import Venue
from ..kit.rollout.replays_again import ReplayedFile, ReplaysAgain
from ..package.locations import expand, missing
from ..package.plan import EpisodePlan
from ..package.resolver import Package, resolve_package
from ..runs.episode_places import find_episode, not_one_episode
from ..runs.scratch import open_scratch
from .frame_forks import forked_plan, last_tick, require_processes
from .recorded_game import plan_of_record, reason_not_to_play
from .seats_again import play_seats_again, same_parts
from .worker_venue import NOT_OF_THE_KIT, WorkerVenue, refused

__all__ = [
    "ContinuedGame",
    "ForkReport",
    "ForkedSeat",
    "FoundGame",
    "find_game",
    "fork_run",
    "open_continuations",
    "open_game",
    "point_share",
    "share_interval",
]

_NAME_GAME = Hint("name_fork_game", "Name the Coworld that it is of; its rules are executed.")
_NAME_PLAYERS = Hint("name_fork_player", "Name a player for that seat.")


class ForkedSeat(Record):
    """A seat of a game that was continued."""

    slot: int = Field(ge=0, description="The seat, from 0.")
    name: str = Field(default="", description="The name of its player.")
    image: str = Field(default="", description="What plays in it, as in records.")
    original: bool = Field(default=True, description="Whether that is the player that played the game before.")
    recorded: float | None = Field(default=None, description="Its score in the game as it was; null: it has none.")
    score: float | None = Field(default=None, description="Its mean score in the continuations; null: none completed.")
    share: float | None = Field(
        default=None, description="Its mean share of the points: a win against another seat is 1, a draw 0.5."
    )
    interval: IntervalRecord | None = Field(
        default=None, description="95 % interval of that share over continuations; null: there are fewer than two."
    )


class ForkReport(Record):
    """How a game went on from a tick of its replay."""

    schema_version: SchemaVersion = Field(default=1, description="Version of this document's shape.")
    run: str = Field(description="The directory of the episode.")
    tick: int = Field(ge=0, description="The tick from which its players' actions count.")
    last: int = Field(ge=0, description="The tick at which the game was over before.")
    new_chance: bool = Field(description="Whether the random numbers from that tick are others in each continuation.")
    seed: int = Field(description="The seed of those.")
    slots: tuple[ForkedSeat, ...] = Field(description="Its seats.")
    times: int = Field(ge=1, description="Number of continuations.")
    completed: int = Field(ge=0, description="Number of them that were played to their end.")
    same: bool | None = Field(
        default=None,
        description="With one continuation by the same players: whether it ended as before; else null.",
    )
    problems: tuple[str, ...] = Field(default=(), exclude_if=is_empty, description="Why others were not, at most ten.")
    workspace: str = Field(default="", description="The directory of the continuations; empty: it was not kept.")


@dataclass(frozen=True, kw_only=True)
class ContinuedGame:
    """A game of the kit that was played, ready to be continued.

    Attributes:
        found: Its files, its record and its Coworld.
        replay: Its replay, which the rules play again.
        plan: Its plan, with those who play now.
        original: For each seat, whether its player is the one that played before.
        venue: Where it is continued.
    """

    found: FoundGame
    replay: RulesReplay
    plan: EpisodePlan
    original: Sequence[bool]
    venue: WorkerVenue

    @property
    def last(self) -> int:
        """The last tick that was recorded."""
        return len(self.replay.ticks) - 1

    def continuation(self, tick: int, number: int, *, seed: int | None) -> tuple[str, EpisodePlan]:
        """The key and the plan of a continuation.

        Args:
            tick: The tick from which the players' actions count.
            number: Its number.
            seed: What its random numbers from there follow from, together with its number; None: they are those of the
                game.
        """
        plan = _drawn(self.plan, number, seed)
        chance = None if seed is None else seed_from_key(bytes.fromhex(plan.player_secret))
        branch = Branch(replay=self.found.data, tick=tick, new_chance=chance)
        return _key(tick, number), replace(plan, branch=branch)


async def fork_run(
    run: str | os.PathLike[str],
    *,
    at: int,
    players: Mapping[int, str] | None = None,
    times: int = 1,
    seed: int = 0,
    game: Package | str | os.PathLike[str] | None = None,
    **where: Unpack[RunArguments],
) -> ForkReport:
    """Continue an episode another way: from a tick of its replay, with other players or with other chance.

    Up to that tick, what was recorded is done. All players are asked from the beginning, so that they know what they
    would know, but their answers count only from there. A single continuation has the random numbers of the game, and
    the same players end it as before, unless they have chance or memory of their own. Of several, each has others.

    Args:
        run: The directory of an episode, or its path as in `find_episode`; of a game that is not of the kit, one of
            programs on this machine whose frames were recorded.
        at: The tick, from 0, before the last.
        players: Who plays now, by seat, as `read_players` reads it; other seats have those who played before.
        times: How many continuations.
        seed: What the random numbers of several continuations follow from.
        game: The Coworld, whose rules are executed here; None: the one that the episode's record names, as long as its
            manifest is what it was.
        where: Where the continuations are kept, and who is told of them. Without a `workspace`, none is kept.

    Raises:
        UsageError: There is no such run, tick (`no_such_tick`) or seat; its game is not of the kit, nor recorded
            (`not_replayable`), or does not play again as recorded (`replay_differs`, `unsteady`); or somebody who
            played is not there any more (`player_unknown`, `player_changed`).
        WorkspaceError: The workspace is not fresh or not writable.
        EnvironmentFault: The machine failed.
    """
    if times < 1:
        raise UsageError("The number of continuations must be at least 1.", code="bad_count")
    found = await find_game(run, game=game)
    chance = seed if times > 1 else None
    async with AsyncExitStack() as stack:
        if found.of_the_kit:
            opened = await stack.enter_async_context(open_game(found, players=players))
            plan, original, last, venue = opened.plan, opened.original, opened.last, opened.venue
            require_tick(at, last)
            plans = (opened.continuation(at, number, seed=chance) for number in range(1, times + 1))
        else:
            plan, original = _planned(found.package, found.record, players or {}, found.layout.workspace)
            last = await _frames_last(found, plan, at=at)
            forked = await anyio.to_thread.run_sync(partial(forked_plan, plan, found.package, found.layout, tick=at))
            plans = ((_key(at, number), _drawn(forked, number, chance)) for number in range(1, times + 1))
            venue = ProgramVenue(await stack.enter_async_context(entered_backend(found.record.backend, found.package)))
        keyed = await stack.enter_async_context(open_continuations(found, venue=venue, **where))
        rows: list[EpisodeRow] = []
        await keyed.play(plans, total=times, on_row=rows.append)
        kept = str(keyed.run.layout.workspace) if where.get("workspace") is not None else ""
        return _report(found, plan, original, rows, at=at, last=last, seed=seed, kept=kept)


async def _frames_last(game: FoundGame, plan: EpisodePlan, *, at: int) -> int:
    """Check that a game that is not of the kit can go on from a tick; returns the last that it told."""
    require_processes(game.record.backend, plan)
    last = await anyio.to_thread.run_sync(last_tick, game.layout)
    require_tick(at, last)
    again = await play_seats_again(game.package, game.record, game.layout.workspace)
    if "results" not in same_parts(game.record, game.layout.workspace, again):
        problem = again.problem or "when its seats send the same, other results come out"
        raise UsageError(
            f"The game cannot be continued, because it does not repeat itself: {problem}.", code="unsteady"
        )
    return last


def _key(tick: int, number: int) -> str:
    return f"tick-{tick}.{number}"


def _drawn(plan: EpisodePlan, number: int, seed: int | None) -> EpisodePlan:
    """The plan with other chance for its players; None: with that of the game."""
    return plan if seed is None else replace(plan, player_secret=block_secret(seed, number))


@dataclass(frozen=True, kw_only=True)
class FoundGame:
    """A game that was played.

    Attributes:
        layout: Its files.
        record: Its record.
        data: The bytes of its replay.
        package: The Coworld, whose rules may be executed.
    """

    layout: EpisodeLayout
    record: EpisodeRecord
    data: bytes = field(repr=False)
    package: Package

    @property
    def of_the_kit(self) -> bool:
        """Whether its rules can be asked; of another game, there are the frames."""
        return not refused(self.package, None)


async def find_game(run: str | os.PathLike[str], *, game: Package | str | os.PathLike[str] | None = None) -> FoundGame:
    """Find the game of an episode; the arguments and errors are those of `fork_run`."""
    place = await anyio.to_thread.run_sync(find_episode, expand(os.fspath(run)))
    if not place.exists():
        raise missing(place, what="episode")
    layout = EpisodeLayout(place.parent if place.name == EpisodeLayout.replay_name else place)
    if not layout.record.is_file():
        raise not_one_episode(place) or UsageError(
            f"{place} has no {layout.record.name}.",
            code="not_an_episode",
            hint="Name the directory of an episode that has ended.",
        )
    record = read_record(place)
    if not layout.replay.is_file():
        raise UsageError(f"{place} has no replay.", code="no_replay")
    data = await anyio.to_thread.run_sync(read_regular, layout.replay)
    package = await _package(record, layout, game)
    return FoundGame(layout=layout, record=record, data=data, package=package)


@asynccontextmanager
async def open_game(
    found: FoundGame, *, players: Mapping[int, str] | None = None, workers: int | None = None
) -> AsyncGenerator[ContinuedGame]:
    """Find the players of an episode of the kit, and check that it plays again as it was recorded.

    Args:
        found: The episode.
        players: As for `fork_run`.
        workers: Number of worker processes; None: as many as there are processors.

    Raises:
        UsageError: As for `fork_run`.
        EnvironmentFault: The machine failed.
    """
    if not found.of_the_kit:
        raise UsageError(f"Its rules cannot be asked: {NOT_OF_THE_KIT}.", code="not_replayable")
    layout, record, package = found.layout, found.record, found.package
    plan, original = _planned(package, record, players or {}, layout.workspace)
    async with WorkerVenue(package, workers=workers) as venue:
        if reason_against := await venue.reason_against(plan.seats):
            raise UsageError(f"The game cannot be continued: {reason_against}.", code="not_portable")
        play_again, asked = venue.workers[0].play_again, ReplaysAgain(replays=[found.data])
        (again,) = await anyio.to_thread.run_sync(play_again, asked, abandon_on_cancel=True)
        _require_same(again, layout.workspace)
        replay = read_replay(found.data, source=str(layout.replay))
        yield ContinuedGame(found=found, replay=replay, plan=plan, original=original, venue=venue)


@asynccontextmanager
async def open_continuations(
    game: FoundGame, *, venue: Venue, **where: Unpack[RunArguments]
) -> AsyncGenerator[KeyedRun]:
    """Open a run of continuations; without a `workspace`, none of them is kept."""
    async with AsyncExitStack() as stack:
        if where.get("workspace") is None:
            where["workspace"] = (await stack.enter_async_context(open_scratch())).path / "continued"
        options = replace(RunOptions.of(RunArguments, where), venue=venue)
        start = RunStarted(what="batch", coworld=game.record.coworld, version=game.record.version)
        yield await stack.enter_async_context(open_keyed_run(options, game.package, start))


def point_share(scores: Sequence[float], slot: int) -> float:
    """The share of the points that a seat has from a game: a win against another seat is 1, a draw 0.5."""
    mine = scores[slot]
    others = [score for one, score in enumerate(scores) if one != slot]
    return sum(0.5 * (1 + (mine > score) - (mine < score)) for score in others) / len(others) if others else 0.5


def share_interval(shares: Sequence[float]) -> IntervalRecord | None:
    """95 % interval of a mean of shares; None for fewer than two."""
    interval = mean_interval(shares, scale=Scale(low=0.0, high=1.0, certain=True))
    if interval is None:
        return None
    return IntervalRecord(low=max(interval.low, 0.0), high=min(interval.high, 1.0), method=interval.method)


async def _package(
    record: EpisodeRecord, layout: EpisodeLayout, game: Package | str | os.PathLike[str] | None
) -> Package:
    """The Coworld whose rules may be executed."""
    if game is None and (reason := reason_not_to_play(record, layout.workspace)):
        code, why = reason
        raise UsageError(f"The game cannot be continued: {why}.", code=code, hint=_NAME_GAME)
    package = game if isinstance(game, Package) else await resolve_package(game or record.manifest)
    reason = refused(package, None)
    if reason and not (reason == NOT_OF_THE_KIT and layout.frames.is_file()):
        hint = Hint(
            "fork_frames", 'Games that are not of the kit are continued if they were recorded: record="frames".'
        )
        raise UsageError(f"The game cannot be continued: {reason}.", code="not_replayable", hint=hint)
    if game is None and record.manifest_sha256 not in ("", package.sha256):
        was, now = record.manifest_sha256, package.sha256
        raise UsageError(
            f"The game's manifest had the SHA-256 {was}, and has {now} now.", code="rules_changed", hint=_NAME_GAME
        )
    return package


def _planned(
    package: Package, record: EpisodeRecord, players: Mapping[int, str], workspace: Path
) -> tuple[EpisodePlan, Sequence[bool]]:
    """The plan of a game as it was, with other players in some seats."""
    count = len(record.slots)
    for slot in players:
        if not 0 <= slot < count:
            raise UsageError(f"There is no seat {slot}; there are {count}, from 0.", code="no_such_seat")
    words = [players.get(slot) or _who_played(seat, workspace) for slot, seat in enumerate(record.slots)]
    plan = plan_of_record(package, record, words, new=players)
    original: list[bool] = []
    for slot, (seat, before) in enumerate(zip(plan.seats, record.slots, strict=True)):
        original.append(seat.image == before.image.image and seat.player_id == before.player_id)
        if not original[-1] and slot not in players:
            raise UsageError(
                f"The player of seat {slot} has changed: it was {before.image.image} and is {seat.image} now.",
                code="player_changed",
                hint=_NAME_PLAYERS,
            )
    return plan, original


def _who_played(seat: SlotRecord, workspace: Path) -> str:
    """The player of a seat as a word for `read_players`."""
    if seat.player_id is not None:
        return seat.player_id
    if seat.controller == "random":
        return "random"
    who = seat.name or seat.image.image or "its player"
    code, why = "player_unknown", f"the record does not say where {who} is"
    if seat.human:
        why = "a person played it"
    elif seat.source:
        source = Path(seat.source).absolute()
        if source.resolve().is_relative_to(workspace.resolve()):
            code, why = "player_brought", f"{who} lies in the run's own directory; name it to have it executed"
        elif source.exists():
            return str(source)
        else:
            why = f"{source} is not there any more"
    raise UsageError(f"Nobody can go on in seat {seat.slot}: {why}.", code=code, hint=_NAME_PLAYERS)


def _require_same(again: ReplayedFile, place: Path) -> None:
    game = again.game
    if game is None:
        raise UsageError(f"The game cannot be continued: {again.problem}", code=again.code or "not_replayable")
    if game.tick is not None:
        problem = game.unsteady or f"at tick {game.tick}, {game.what} was {game.recorded}, and is now {game.now}"
        raise UsageError(
            f"The game cannot be continued, because the rules do not play it again as it was: {problem}.",
            code="replay_differs",
            hint=Hint("verify_fork", "verify_run compares all of {run}.", run=str(place)),
        )


def require_tick(tick: int, last: int) -> None:
    """Check that a game can go on from a tick.

    Raises:
        UsageError: Code `no_such_tick`: it cannot.
    """
    if not 0 <= tick < last:
        raise UsageError(
            f"The game went from tick 0 to {last}, so it cannot go on from {tick}.",
            code="no_such_tick",
            hint=f"Name a tick from 0 to {last - 1}.",
            context={"last": last},
        )


def _report(
    game: FoundGame,
    plan: EpisodePlan,
    original: Sequence[bool],
    rows: Sequence[EpisodeRow],
    *,
    at: int,
    last: int,
    seed: int,
    kept: str,
) -> ForkReport:
    record = game.record
    ended = [row.scores for row in rows if row.scores]
    seats: list[ForkedSeat] = []
    for slot, seat in enumerate(plan.seats):
        shares = [point_share(scores, slot) for scores in ended]
        seats.append(
            ForkedSeat(
                slot=slot,
                name=seat.name,
                image=seat.image,
                original=original[slot],
                recorded=record.scores[slot] if record.scores else None,
                score=sum(scores[slot] for scores in ended) / len(ended) if ended else None,
                share=sum(shares) / len(shares) if shares else None,
                interval=share_interval(shares),
            )
        )
    alone = len(rows) == 1
    return ForkReport(
        run=str(game.layout.workspace),
        tick=at,
        last=last,
        new_chance=not alone,
        seed=seed,
        slots=tuple(seats),
        times=len(rows),
        completed=len(ended),
        same=ended == [record.scores] if alone and all(original) else None,
        problems=tuple(f"{row.key}: {row.message}" for row in rows if row.message)[:10],
        workspace=kept,
    )
