"""The append-only log of a tournament, ``events.ndjson``: one event per line.

Each line ends with a checksum of itself and of the line before, so that a line changed, added or removed later is found
and reported by number. Nothing is computed from its times.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from ..episode.record import EpisodeRow, SeatRow
from ..errors import UsageError
from ..evaluation.ratings import RatingName
from ..evaluation.reports import EvaluationTerms
from ..records import READING, Grows, Record

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

    kind: str = Field(description="What.")
    at: dt.datetime = Field(
        default_factory=lambda: dt.datetime.now(dt.UTC), description="When, by the clock of the machine; for people."
    )


class TournamentRules(EvaluationTerms):
    """What is played, and what counts. The fields up to ``alpha`` are fixed once the tournament has begun."""

    pairing: str = Field(description="Who meets whom: the name of a pairing.")
    rounds: int | None = Field(default=None, ge=1, description="How many rounds; null: as the pairing has it.")
    blocks: int = Field(default=1, ge=1, description="Blocks of each match.")
    told_apart: bool = Field(default=False, description="Whether it ends after a round that tells everybody apart.")
    rating: Annotated[RatingName | Literal["mean"], Grows] = Field(description="How players are rated.")


class Configured(LogEvent):
    """The rules, at the start and after each change."""

    kind: str = "configured"
    rules: TournamentRules = Field(description="From here on.")


class EntrantAdded(LogEvent):
    """A player entered or came back."""

    kind: str = "entrant_added"
    name: str = Field(description="What it is called in the tournament.")
    player: SeatRow = Field(description="What that is, with its digest where it is known.")


class EntrantWithdrawn(LogEvent):
    """A player left; its unfinished blocks are void."""

    kind: str = "entrant_withdrawn"
    name: str = Field(description="Who.")


class ScheduledBlock(Record):
    """A block to be played."""

    block: int = Field(ge=1, description="Its number, from 1 without a gap.")
    match: int = Field(ge=1, description="Of which match of the round.")
    name: str = Field(default="", description="What the pairing calls that match.")
    players: tuple[str, ...] = Field(min_length=1, description="Who meets.")
    lineup: tuple[str, ...] = Field(
        default=(), description="Who sits where in its only episode, by slot; empty: everybody in every seat in turn."
    )
    seed: int | None = Field(default=None, description="Its seed; null: drawn from the base seed.")


class RoundScheduled(LogEvent):
    """A round to be played, as one event so that it is never half written. A commissioner may add to it later."""

    kind: str = "round_scheduled"
    round: int = Field(ge=1, description="Its number, from 1.")
    blocks: tuple[ScheduledBlock, ...] = Field(min_length=1, description="What it consists of.")
    byes: tuple[str, ...] = Field(default=(), description="Who has it off.")


class EpisodeEnded(LogEvent):
    """An episode is over."""

    kind: str = "episode_ended"
    row: EpisodeRow = Field(description="What came of it.")


class BlockVoided(LogEvent):
    """A block does not count. This follows from earlier events; it is logged for human readers."""

    kind: str = "block_voided"
    block: int = Field(ge=1, description="Its number.")
    reason: str = Field(description="Why.")


class LeagueDivision(Record):
    """A division of a tournament that a commissioner runs."""

    id: str = Field(description="The id by which its commissioner knows it.")
    name: str = Field(description="What it is called.")
    level: int = Field(description="How high it is.")
    type: str = Field(default="competition", description="What kind of division.")
    description: str | None = Field(default=None, description="What the commissioner says about it.")


class Move(Record):
    """A change of a player's division or status."""

    name: str = Field(description="Who.")
    division: str = Field(description="Id of the division it is in now.")
    status: str = Field(description="As what: competing, or whatever else the commissioner says.")
    substatus: str | None = Field(default=None, description="More exactly.")
    reason: str = Field(default="", description="Why.")


class LeagueSet(LogEvent):
    """A commissioner has set the divisions and their members."""

    kind: str = "league_set"
    commissioner: str = Field(description="Which commissioner, and its digest where it is known.")
    divisions: tuple[LeagueDivision, ...] = Field(min_length=1, description="All that there are now.")
    moves: tuple[Move, ...] = Field(default=(), description="Who changes with that.")


class DueRound(Record):
    """A round that a commissioner wants."""

    round: int = Field(ge=1, description="Its number.")
    division: str = Field(description="Id of its division.")
    entrants: tuple[str, ...] = Field(default=(), description="Who takes part; empty: everybody in the division.")
    config: dict[str, Any] = Field(default_factory=dict[str, Any], description="What the commissioner says of it.")


class RoundsDue(LogEvent):
    """A commissioner has said which rounds come next, if any."""

    kind: str = "rounds_due"
    rounds: tuple[DueRound, ...] = Field(default=(), description="They.")


class RoundPlace(Record):
    """A place in a round."""

    name: str = Field(description="Whose.")
    rank: int = Field(ge=1, description="Which.")
    score: float = Field(description="What the commissioner makes of its games.")


class DivisionPlaces(Record):
    """The places of a round in a division."""

    division: str = Field(description="Id of the division.")
    places: tuple[RoundPlace, ...] = Field(description="They.")


class RoundDecided(LogEvent):
    """A commissioner's round is over, as one event so that it is never half written."""

    kind: str = "round_decided"
    round: int = Field(ge=1, description="Its number.")
    results: tuple[DivisionPlaces, ...] = Field(default=(), description="Who has which place.")
    moves: tuple[Move, ...] = Field(default=(), description="Who changes with that.")
    display: dict[str, Any] | None = Field(default=None, description="What the commissioner wants shown.")
    state: Any = Field(default=None, description="What the commissioner wants to be told in its next round.")
    state_refused: int = Field(default=0, ge=0, description="Bytes of a state that was too large; the former stays.")
    follow_up: tuple[DueRound, ...] = Field(default=(), description="Rounds that it wants next, asked after this one.")
    standings: tuple[RoundPlace, ...] = Field(
        default=(), description="The standings of the division over all rounds, where it was asked for them."
    )
    description: dict[str, str] = Field(
        default_factory=dict[str, str], description="What it says of the division, where it was asked for that."
    )


class RoundDropped(LogEvent):
    """A commissioner's round was dropped: none of its episodes counts."""

    kind: str = "round_dropped"
    round: int = Field(ge=1, description="Its number.")
    code: str = Field(description="Why, as a code.")
    reason: str = Field(description="Why, in words.")


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
    """An event from the JSON that ``model_dump_json`` made of it; None: it is of a kind that is not known here.

    Raises:
        ValidationError: It is no event.
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
            UsageError: Code ``log_changed``: a line was altered; the message has its number.
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
    """The events of a log (``LogReader``).

    Raises:
        UsageError: There is no log, or a line of it was altered.
    """
    if not path.is_file():
        raise UsageError(
            f"There is no tournament log {path}.", code="no_tournament", hint="Begin with `coworld tournament init`."
        )
    return iter(LogReader(path))
