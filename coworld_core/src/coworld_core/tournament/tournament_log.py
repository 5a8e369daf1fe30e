"""The append-only log of a tournament, `events.ndjson`: one event per line.

Each line ends with a checksum of itself and the lines before, so that a line changed, added or removed later is found
and reported by number. Nothing is computed from the times.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from ..documents.records import READING, OpenEnum, Record
from ..episode.record import EpisodeRow, SlotRow
from ..errors import UsageError
from ..evaluation.ratings import RatingName
from ..evaluation.report_base import EvaluationTerms
from ..hints import Hint

__all__ = [
    "LOG_NAME",
    "BlockVoided",
    "Configured",
    "DivisionPlaces",
    "DueRound",
    "EntrantAdded",
    "EntrantWithdrawn",
    "EpisodeEnded",
    "LeagueDivision",
    "LeagueSet",
    "LogEvent",
    "LogReader",
    "Move",
    "RoundDecided",
    "RoundDropped",
    "RoundPlace",
    "RoundScheduled",
    "RoundsDue",
    "ScheduledBlock",
    "TournamentRules",
    "decode_event",
    "encode_event",
    "read_log",
]

LOG_NAME = "events.ndjson"

_KIND = re.compile(rb'\{"kind":"([a-z_]+)"')
_CHECK = re.compile(rb',"check":"([0-9a-f]{16})"\}')
_CHECK_BYTES = len(b',"check":"0123456789abcdef"}')


class LogEvent(Record):
    """Something that happened in a tournament."""

    kind: str = Field(description="Kind of the event.")
    time: dt.datetime = Field(
        default_factory=lambda: dt.datetime.now(dt.UTC), description="Time by the machine's clock; for people."
    )


class TournamentRules(EvaluationTerms):
    """What is played, and what counts. The fields up to `alpha` are fixed once the tournament has begun."""

    pairing: str = Field(description="Name of the pairing, which decides who meets whom.")
    rounds: int | None = Field(default=None, ge=1, description="Number of rounds; null: the pairing's default.")
    blocks: int = Field(default=1, ge=1, description="Number of blocks per match.")
    told_apart: bool = Field(default=False, description="Whether it ends after a round that tells all players apart.")
    rating: Annotated[RatingName | Literal["mean"], OpenEnum] = Field(description="How players are rated.")


class Configured(LogEvent):
    """The rules, at the start and after each change."""

    kind: str = "configured"
    rules: TournamentRules = Field(description="The rules from here on.")


class EntrantAdded(LogEvent):
    """A player entered or came back."""

    kind: str = "entrant_added"
    name: str = Field(description="Name of the player in the tournament.")
    player: SlotRow = Field(description="The player, with its digest if known.")


class EntrantWithdrawn(LogEvent):
    """A player left; its unfinished blocks do not count."""

    kind: str = "entrant_withdrawn"
    name: str = Field(description="Name of the player.")


class ScheduledBlock(Record):
    """A block to be played."""

    block: int = Field(ge=1, description="Number of the block, from 1 without gaps.")
    match: int = Field(ge=1, description="Number of its match in the round.")
    name: str = Field(default="", description="The pairing's name for that match.")
    players: tuple[str, ...] = Field(min_length=1, description="The players that meet.")
    lineup: tuple[str, ...] = Field(
        default=(), description="The players of its only episode, by slot; empty: every player in every seat in turn."
    )
    seed: int | None = Field(default=None, description="Seed of the block; null: derived from the base seed.")


class RoundScheduled(LogEvent):
    """A round to be played, as one event so that it is never half written. A commissioner may add to it later."""

    kind: str = "round_scheduled"
    round: int = Field(ge=1, description="Number of the round, from 1.")
    blocks: tuple[ScheduledBlock, ...] = Field(min_length=1, description="The blocks of the round.")
    byes: tuple[str, ...] = Field(default=(), description="Players that have a bye.")


class EpisodeEnded(LogEvent):
    """An episode is over."""

    kind: str = "episode_ended"
    row: EpisodeRow = Field(description="The result of the episode.")


class BlockVoided(LogEvent):
    """A block does not count. This follows from earlier events; it is logged for human readers."""

    kind: str = "block_voided"
    block: int = Field(ge=1, description="Number of the block.")
    reason: str = Field(description="Why it does not count.")


class LeagueDivision(Record):
    """A division of a tournament that a commissioner runs."""

    id: str = Field(description="The id by which its commissioner knows it.")
    name: str = Field(description="Name of the division.")
    level: int = Field(description="Level of the division; higher is better.")
    type: str = Field(default="competition", description="Type of the division.")
    description: str | None = Field(default=None, description="The commissioner's description of it.")


class Move(Record):
    """A change of a player's division or status."""

    name: str = Field(description="Name of the player.")
    division: str = Field(description="Id of the division it is in now.")
    status: str = Field(description="Its status: competing, or another one that the commissioner sets.")
    substatus: str | None = Field(default=None, description="Its substatus, if any.")
    reason: str = Field(default="", description="Why it changed.")


class LeagueSet(LogEvent):
    """A commissioner has set the divisions and their members."""

    kind: str = "league_set"
    commissioner: str = Field(description="The commissioner, with its digest if known.")
    divisions: tuple[LeagueDivision, ...] = Field(min_length=1, description="All current divisions.")
    moves: tuple[Move, ...] = Field(default=(), description="Changes of players that follow.")


class DueRound(Record):
    """A round that a commissioner wants."""

    round: int = Field(ge=1, description="Number of the round.")
    division: str = Field(description="Id of its division.")
    entrants: tuple[str, ...] = Field(default=(), description="The players that take part; empty: all in the division.")
    config: dict[str, Any] = Field(default_factory=dict[str, Any], description="The commissioner's settings of it.")


class RoundsDue(LogEvent):
    """A commissioner has said which rounds come next, if any."""

    kind: str = "rounds_due"
    rounds: tuple[DueRound, ...] = Field(default=(), description="The rounds that come next.")


class RoundPlace(Record):
    """A place in a round."""

    name: str = Field(description="Name of the player.")
    rank: int = Field(ge=1, description="The place.")
    score: float = Field(description="Its score, as given by the commissioner.")


class DivisionPlaces(Record):
    """The places of a round in a division."""

    division: str = Field(description="Id of the division.")
    rankings: tuple[RoundPlace, ...] = Field(description="The places.")


class RoundDecided(LogEvent):
    """A commissioner's round is over, as one event so that it is never half written."""

    kind: str = "round_decided"
    round: int = Field(ge=1, description="Number of the round.")
    results: tuple[DivisionPlaces, ...] = Field(default=(), description="The places of the players.")
    moves: tuple[Move, ...] = Field(default=(), description="Changes of players that follow.")
    display: dict[str, Any] | None = Field(default=None, description="What the commissioner wants shown.")
    state: Any = Field(default=None, description="The commissioner's state, passed on in its next round.")
    state_refused: int = Field(default=0, ge=0, description="Bytes of a state that was too large; 0: none.")
    follow_up: tuple[DueRound, ...] = Field(default=(), description="Rounds that it wants to follow this one.")
    standings: tuple[RoundPlace, ...] = Field(
        default=(), description="The standings of the division over all rounds, if it was asked for them."
    )
    description: dict[str, str] = Field(
        default_factory=dict[str, str], description="Its description of the division, if it was asked for one."
    )


class RoundDropped(LogEvent):
    """A commissioner's round was dropped: none of its episodes counts."""

    kind: str = "round_dropped"
    round: int = Field(ge=1, description="Number of the round.")
    code: str = Field(description="Why it was dropped, as a code.")
    reason: str = Field(description="Why it was dropped, in words.")


_EVENTS: dict[bytes, type[LogEvent]] = {
    str(model.model_fields["kind"].default).encode(): model
    for model in (
        Configured,
        EntrantAdded,
        EntrantWithdrawn,
        RoundScheduled,
        EpisodeEnded,
        BlockVoided,
        LeagueSet,
        RoundsDue,
        RoundDecided,
        RoundDropped,
    )
}


def _check(before: bytes, body: bytes) -> bytes:
    return hashlib.blake2b(before + body, digest_size=8).hexdigest().encode()


def encode_event(event: LogEvent, before: bytes) -> tuple[bytes, bytes]:
    """Encode an event as a line; return it with the checksum that the next line builds on.

    Args:
        event: The event.
        before: The checksum of the line before; empty for the first.
    """
    body = event.model_dump_json().encode()[:-1]
    check = _check(before, body)
    return b'%b,"check":"%b"}\n' % (body, check), check


def decode_event(text: bytes) -> LogEvent | None:
    """Decode an event from its JSON, as made by `model_dump_json`; None if its kind is unknown.

    Raises:
        ValidationError: If it is not a valid event.
    """
    kind = _KIND.match(text)
    model = _EVENTS.get(kind[1]) if kind else None
    return model.model_validate_json(text, context=READING) if model is not None else None


class LogReader:
    """The events of a log, read one by one.

    Args:
        path: The file.

    Attributes:
        check: Checksum of the last line that was read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.check = b""

    def __iter__(self) -> Iterator[LogEvent]:
        """Yield the events, skipping unknown kinds (from later versions) and an incomplete last line.

        Raises:
            UsageError: Code `log_changed` if a line was altered; the message has its number.
        """
        with self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    return
                body, said = line[: -_CHECK_BYTES - 1], _CHECK.fullmatch(line[-_CHECK_BYTES - 1 : -1])
                if said is None or _KIND.match(line) is None or said[1] != _check(self.check, body):
                    raise self._changed(number, "")
                self.check = said[1]
                try:
                    event = decode_event(body + b"}")
                except ValidationError as error:
                    raise self._changed(number, f" {error.errors()[0]['msg']}.") from None
                if event is not None:
                    yield event

    def _changed(self, number: int, why: str) -> UsageError:
        return UsageError(
            f"{self.path}:{number} is not what a tournament wrote there.{why} Nothing was changed.",
            code="log_changed",
            hint="Put back the log as it was, say from a backup; rules and entrants are changed in tournament.toml.",
            context={"path": str(self.path), "line": number},
        )


def read_log(path: Path) -> Iterator[LogEvent]:
    """Read the events of a log (`LogReader`).

    Raises:
        UsageError: Code `no_tournament` if there is no log; code `log_changed`, while iterating, if a line was
            altered.
    """
    if not path.is_file():
        raise UsageError(
            f"There is no tournament log {path}.",
            code="no_tournament",
            hint=Hint("begin_tournament", "Begin one with create_tournament."),
        )
    return iter(LogReader(path))
