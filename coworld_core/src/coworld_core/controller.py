"""One controller for episodes, wherever they are played: what it is told, what it tells, and what it can do.

The runner has one for this machine (`coworld_runner.LocalController`), the client one for a platform
(`coworld_client.HostedController`). A program that is written for `EpisodeController` works with both.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast, get_args, runtime_checkable

from pydantic import Field

from .documents.records import Record
from .episode.events import BaseEvent
from .episode.outcome import FaultParty
from .episode.record import PlayerFault
from .errors import UsageError
from .manifest.manifest_file import LoadedManifest
from .records.run_entries import SeatEntry
from .text.phrases import closest, listed

__all__ = [
    "EPISODE_STATES",
    "EpisodeChange",
    "EpisodeController",
    "EpisodeEvent",
    "EpisodeHandle",
    "EpisodeInfo",
    "EpisodeSpec",
    "EpisodeState",
    "HostedGame",
    "HostedPolicy",
    "already_ended",
    "bad_cursor",
    "has_ended",
    "read_states",
]

EpisodeState = Literal["pending", "running", "completed", "failed", "interrupted", "lost"]
"""`pending`: it waits to begin. `completed`: it has valid results; `failed`: it has none. `interrupted`: it was stopped
or cancelled. `lost`: what played it is gone, and has not said how it ended."""

EPISODE_STATES: tuple[EpisodeState, ...] = get_args(EpisodeState)
"""All states, in the order in which they occur."""

_GOING_ON: tuple[EpisodeState, ...] = ("pending", "running")


def has_ended(state: EpisodeState) -> bool:
    """Whether nothing follows a state."""
    return state not in _GOING_ON


def read_states(names: Collection[str]) -> tuple[EpisodeState, ...]:
    """Read states by their names.

    Raises:
        UsageError: Code `no_such_state`: one of them is none.
    """
    for word in names:
        if word not in EPISODE_STATES:
            meant = closest(word, EPISODE_STATES)
            raise UsageError(
                f"{word!r} is no state of an episode.{f' Did you mean {meant!r}?' if meant else ''}",
                code="no_such_state",
                hint=f"States are {listed(EPISODE_STATES)}.",
            )
    return tuple(cast("EpisodeState", word) for word in names)


class EpisodeSpec(Record):
    """What is to be played: the same value for an episode on this machine and on a platform."""

    coworld: str = Field(
        description="The Coworld: on this machine a package's directory, manifest or address; on a platform its name "
        "or `cow_` id."
    )
    variant: str | None = Field(default=None, description="Id of the variant; null: the default of whoever plays it.")
    players: tuple[str, ...] = Field(
        default=(),
        description="The players by slot, or one for all of them. On this machine files, images, or ids of the "
        "package's players; on a platform policies (`name`, `name:v3`).",
    )
    seed: int | None = Field(default=None, description="The config's integer seed; null: as the variant has it.")
    config: dict[str, Any] = Field(default_factory=dict, description="Changes to the game config of the variant.")
    labels: dict[str, str] = Field(default_factory=dict, description="Labels by which the episode is found again.")


@dataclass(frozen=True, kw_only=True)
class HostedPolicy:
    """A version of a policy on a platform."""

    id: str
    """Its UUID."""
    label: str
    """`name:v3`; its UUID where its name is not known."""


@dataclass(frozen=True, kw_only=True, repr=False)
class HostedGame(LoadedManifest):
    """A Coworld of a platform, and those who are to play it there."""

    id: str
    """`cow_…`."""
    policies: Mapping[str, HostedPolicy]
    """The versions of policies, by the words that name them."""


class EpisodeInfo(Record):
    """An episode, as far as it is known at a moment."""

    id: str = Field(description="Its id: of a run on this machine, or `ereq_<uuid>` of a platform.")
    state: EpisodeState = Field(description="Its state.")
    kind: str = Field(default="episode", description="episode; on this machine also the kind of a run of many.")
    coworld: str = Field(default="", description="Name of the Coworld.")
    version: str = Field(default="", description="Version of the Coworld; empty: unknown.")
    variant: str = Field(default="", description="Id of the variant; empty: unknown.")
    labels: dict[str, str] = Field(default_factory=dict, description="Its labels.")
    players: tuple[str, ...] = Field(default=(), description="Names of the players, by slot.")
    scores: tuple[float | None, ...] = Field(default=(), description="Scores by slot, once there are any.")
    created_at: dt.datetime | None = Field(default=None, description="When it was asked for; null: unknown.")
    started_at: dt.datetime | None = Field(default=None, description="When it began; null: not yet, or unknown.")
    ended_at: dt.datetime | None = Field(default=None, description="When it ended; null: not yet, or unknown.")
    error_type: str | None = Field(default=None, description="Type of the fault that decided it, if there was one.")
    error: str | None = Field(default=None, description="That fault in a sentence.")
    party: FaultParty | None = Field(default=None, description="Whose fault that was.")
    fault_slot: int | None = Field(default=None, description="The player's slot, if it was a player's.")
    player_faults: tuple[PlayerFault, ...] = Field(
        default=(), description="How players failed, by slot; also in an episode that counts."
    )
    workspace: str | None = Field(default=None, description="On this machine, the directory with its evidence.")
    server: str | None = Field(default=None, description="On a platform, the platform's address.")

    @property
    def ended(self) -> bool:
        """Whether nothing follows."""
        return has_ended(self.state)


@dataclass(frozen=True, kw_only=True)
class EpisodeEvent:
    """Something that happened in an episode."""

    cursor: str
    """Give it to `EpisodeHandle.events` to go on after this event, also in another process."""
    state: EpisodeState
    """The episode's state from then on."""
    time: dt.datetime | None = None
    """When it happened; None: unknown."""
    event: BaseEvent | None = None
    """What happened; None where only states are told, as platforms do."""

    def to_json(self) -> dict[str, Any]:
        """The event as JSON-ready data."""
        return {
            "cursor": self.cursor,
            "state": self.state,
            "time": self.time.isoformat() if self.time is not None else None,
            "event": self.event.model_dump(mode="json") if self.event is not None else None,
        }


@dataclass(frozen=True, kw_only=True)
class EpisodeChange:
    """An episode that has come into a state."""

    id: str
    state: EpisodeState
    info: EpisodeInfo | None = None
    """All that is known of it, if that was asked for."""


@runtime_checkable
class EpisodeHandle(Protocol):
    """One episode, that may be going on anywhere and may have been started by anybody."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    def events(self, *, after: str = "") -> AsyncIterator[EpisodeEvent]:
        """What happens in it, from its beginning and until it has ended; each event once, in order.

        Args:
            after: The `cursor` of the last event that was seen; empty: none was.

        Raises:
            CoworldError: On iteration: code `bad_cursor`, or the episode cannot be followed.
        """
        ...

    async def info(self) -> EpisodeInfo:
        """What is known of it now."""
        ...

    async def seats(self) -> tuple[SeatEntry, ...]:
        """Who sits in it, by slot; scores once there are any."""
        ...

    async def results(self) -> dict[str, Any] | None:
        """The game's results; None: it has none, or not yet."""
        ...

    async def terminate(self, *, hard: bool = False) -> None:
        """Ask for it to be stopped, and return at once; `result` waits for that.

        Args:
            hard: Whether it is to be killed, without time to end by itself.

        Raises:
            CoworldError: It has ended already (`already_ended`), or cannot be stopped in this way.
        """
        ...

    async def result(self) -> EpisodeInfo:
        """Wait until it has ended, and return how. Limit the wait with a cancel scope (`anyio.fail_after`)."""
        ...


@runtime_checkable
class EpisodeController(Protocol):
    """Starts episodes, finds them again, and follows them all."""

    async def start(
        self, spec: EpisodeSpec, *, labels: Mapping[str, str] | None = None, idempotency_key: str = ""
    ) -> EpisodeHandle:
        """Start an episode, and return once it has begun, or waits to begin.

        Args:
            spec: What is to be played.
            labels: Further labels, above those of the spec.
            idempotency_key: A key of the caller's; the episode that was started with it before is returned, whether it
                goes on or has ended. Empty: each call starts one.

        Raises:
            CoworldError: It cannot be played; nothing was started.
        """
        ...

    async def episode(self, id: str) -> EpisodeHandle:
        """An episode that anybody has started.

        Raises:
            CoworldError: There is none of that id.
        """
        ...

    def watch(
        self, *, states: Collection[str] = (), labels: Mapping[str, str] | None = None, full: bool = False
    ) -> AsyncIterator[EpisodeChange]:
        """Episodes as they come into other states: first those that are going on, then every change. It never ends.

        Args:
            states: Only changes into these states; empty: all.
            labels: Only episodes whose labels fit: patterns by name, with `*`, `?` and `[…]` as in a shell.
            full: Whether changes have all that is known of the episode.

        Raises:
            CoworldError: On iteration: a state is none (`no_such_state`), or episodes cannot be listed.
        """
        ...

    async def versions(self) -> dict[str, str]:
        """The versions of what plays episodes, by name."""
        ...


def bad_cursor(cursor: str) -> UsageError:
    """Return the error for a text that is no cursor of an episode's events (code `bad_cursor`)."""
    return UsageError(
        f"{cursor[:80]!r} is not a cursor of these events.",
        code="bad_cursor",
        hint="Begin without one: all events are told again.",
    )


def already_ended(info: EpisodeInfo) -> UsageError:
    """Return the error for an episode that cannot be stopped because it is over (code `already_ended`)."""
    return UsageError(
        f"The episode {info.id} has ended already: {info.state}.",
        code="already_ended",
        context={"id": info.id, "state": info.state},
    )
