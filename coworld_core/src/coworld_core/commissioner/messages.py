"""The messages on a commissioner's socket, in both directions, as in the published version 0.1.26.

A round begins with `round_start`. The commissioner then sends `schedule_episodes` any number of times; each is
answered by `episodes_accepted` or `episodes_rejected`, and each episode by `episode_result` or
`episode_failed`. `round_complete` ends the round. Everything else is a request and its response.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, cast, get_args

from pydantic import FailFast, Field, TypeAdapter, ValidationError

from ..documents.findings import did_you_mean
from ..errors import CommissionerError, first_mistake
from .values import (
    DivisionConfig,
    DivisionInfo,
    DivisionLeaderboardEntry,
    DivisionRanking,
    DivisionWords,
    EpisodeWish,
    LeaderboardRoundResultInfo,
    LeagueInfo,
    MembershipChange,
    MembershipEvent,
    MembershipInfo,
    Name,
    Part,
    RecentResult,
    RoundInfo,
    RoundResultInfo,
    RoundSpec,
    SeatScore,
    VariantInfo,
)

__all__ = [
    "CommissionerMessage",
    "DescribeDivisionRequest",
    "DescribeDivisionResponse",
    "EpisodeCancel",
    "EpisodeCompletedRequest",
    "EpisodeCompletedResponse",
    "EpisodeFailed",
    "EpisodeResult",
    "EpisodesAccepted",
    "EpisodesRejected",
    "HostMessage",
    "LeagueMigrationConfigRequest",
    "LeagueMigrationConfigResponse",
    "LeagueMigrationRequest",
    "LeagueMigrationResponse",
    "Message",
    "RankDivisionRequest",
    "RankDivisionResponse",
    "RoundAbort",
    "RoundComplete",
    "RoundCompletedRequest",
    "RoundCompletedResponse",
    "RoundStart",
    "ScheduleEpisodes",
    "ScheduleRoundsRequest",
    "ScheduleRoundsResponse",
    "misplaced",
    "read_commissioner_message",
    "read_host_message",
    "state_bytes",
]

_T = TypeVar("_T")
Several: TypeAlias = Annotated[tuple[_T, ...], FailFast()]
"""What a commissioner lists. Only the first wrong element counts: there may be hundreds of thousands."""


class Message(Part):
    """A message; its `type` field says which one."""

    def to_json(self) -> dict[str, Any]:
        """The message as a JSON object."""
        return self.model_dump(mode="json")


# --- from the host to the commissioner


class RoundStart(Message):
    """A round begins."""

    type: Literal["round_start"] = "round_start"
    round_id: Name
    round_number: int
    league: LeagueInfo
    divisions: tuple[DivisionInfo, ...]
    memberships: tuple[MembershipInfo, ...]
    recent_results: tuple[RecentResult, ...] = ()
    variants: tuple[VariantInfo, ...]
    state: Any = None
    """The state from the last `round_complete`; null at first."""


class EpisodesAccepted(Message):
    """The scheduled episodes will be played."""

    type: Literal["episodes_accepted"] = "episodes_accepted"
    request_ids: tuple[str, ...]


class EpisodesRejected(Message):
    """The scheduled episodes will not be played."""

    type: Literal["episodes_rejected"] = "episodes_rejected"
    request_ids: tuple[str, ...]
    errors: dict[str, str]


class EpisodeResult(Message):
    """An episode is over."""

    type: Literal["episode_result"] = "episode_result"
    request_id: Name
    scores: tuple[SeatScore, ...]
    game_results: dict[str, Any] | None = None


class EpisodeFailed(Message):
    """An episode failed."""

    type: Literal["episode_failed"] = "episode_failed"
    request_id: Name
    error: str


class RoundAbort(Message):
    """The round is aborted: the commissioner must end without `round_complete`."""

    type: Literal["round_abort"] = "round_abort"
    reason: str


class ScheduleRoundsRequest(Message):
    """Asks which rounds are due."""

    type: Literal["schedule_rounds_request"] = "schedule_rounds_request"
    league: LeagueInfo
    divisions: tuple[DivisionInfo, ...]
    active_memberships: tuple[MembershipInfo, ...]
    recent_rounds: tuple[RoundInfo, ...]


class LeagueMigrationConfigRequest(Message):
    """Asks which divisions the league should have."""

    type: Literal["league_migration_config_request"] = "league_migration_config_request"
    league: LeagueInfo
    divisions: tuple[DivisionInfo, ...]


class LeagueMigrationRequest(Message):
    """Asks which division each member should be in."""

    type: Literal["league_migration_request"] = "league_migration_request"
    league: LeagueInfo
    divisions: tuple[DivisionInfo, ...]
    memberships: tuple[MembershipInfo, ...]


class RankDivisionRequest(Message):
    """Asks for the ranking of a division."""

    type: Literal["rank_division_request"] = "rank_division_request"
    league: LeagueInfo
    division: DivisionInfo
    completed_rounds: tuple[RoundInfo, ...]
    recent_rounds: tuple[RoundInfo, ...]
    round_results: tuple[LeaderboardRoundResultInfo, ...]


class DescribeDivisionRequest(Message):
    """Asks for the description of a division."""

    type: Literal["describe_division_request"] = "describe_division_request"
    league: LeagueInfo
    division: DivisionInfo
    active_memberships: tuple[MembershipInfo, ...]
    recent_rounds: tuple[RoundInfo, ...]


class RoundCompletedRequest(Message):
    """Reports that a round is over, and asks for the consequences."""

    type: Literal["round_completed_request"] = "round_completed_request"
    league: LeagueInfo
    division: DivisionInfo
    all_divisions: tuple[DivisionInfo, ...]
    round_config: dict[str, Any]
    round_results: tuple[RoundResultInfo, ...]
    division_memberships: tuple[MembershipInfo, ...]
    recent_results: tuple[RoundResultInfo, ...]
    commissioner_config: dict[str, Any] | None = None


class EpisodeCompletedRequest(Message):
    """Reports that an episode is over, with `episode_result` or `episode_failed`, and asks for the consequences."""

    type: Literal["episode_completed_request"] = "episode_completed_request"
    round_start: dict[str, Any]
    episode_result: dict[str, Any] | None = None
    episode_failed: dict[str, Any] | None = None
    completed_episode_results: tuple[dict[str, Any], ...] = ()
    failed_episodes: tuple[dict[str, Any], ...] = ()


# --- from the commissioner to the host


class ScheduleEpisodes(Message):
    """Episodes to play."""

    type: Literal["schedule_episodes"] = "schedule_episodes"
    episodes: Several[EpisodeWish]


class EpisodeCancel(Message):
    """An episode is no longer wanted."""

    type: Literal["episode_cancel"] = "episode_cancel"
    request_id: Name
    reason: str


class RoundComplete(Message):
    """The round is over."""

    type: Literal["round_complete"] = "round_complete"
    results: Several[DivisionRanking] = ()
    policy_membership_events: Several[MembershipEvent] = ()
    membership_changes: Several[MembershipChange] = ()
    round_display: dict[str, Any] | None = None
    state: Any = None


class ScheduleRoundsResponse(Message):
    """The rounds that are due; empty if none are."""

    type: Literal["schedule_rounds_response"] = "schedule_rounds_response"
    rounds: Several[RoundSpec] = ()


class LeagueMigrationConfigResponse(Message):
    """The divisions that the league should have."""

    type: Literal["league_migration_config_response"] = "league_migration_config_response"
    divisions: Several[DivisionConfig] = ()


class LeagueMigrationResponse(Message):
    """The changes of membership that follow from the new divisions."""

    type: Literal["league_migration_response"] = "league_migration_response"
    policy_membership_events: Several[MembershipEvent] = ()


class RankDivisionResponse(Message):
    """The ranking of a division."""

    type: Literal["rank_division_response"] = "rank_division_response"
    rankings: Several[DivisionLeaderboardEntry] = ()


class DescribeDivisionResponse(Message):
    """The description of a division."""

    type: Literal["describe_division_response"] = "describe_division_response"
    description: DivisionWords


class RoundCompletedResponse(Message):
    """The consequences of a round."""

    type: Literal["round_completed_response"] = "round_completed_response"
    policy_membership_events: Several[MembershipEvent] = ()
    membership_changes: Several[MembershipChange] = ()
    follow_up_rounds: Several[RoundSpec] = ()


class EpisodeCompletedResponse(Message):
    """The consequences of an episode."""

    type: Literal["episode_completed_response"] = "episode_completed_response"
    episodes: Several[EpisodeWish] = ()
    policy_membership_events: Several[MembershipEvent] = ()


HostMessage: TypeAlias = (
    RoundStart
    | EpisodesAccepted
    | EpisodesRejected
    | EpisodeResult
    | EpisodeFailed
    | RoundAbort
    | ScheduleRoundsRequest
    | LeagueMigrationConfigRequest
    | LeagueMigrationRequest
    | RankDivisionRequest
    | DescribeDivisionRequest
    | RoundCompletedRequest
    | EpisodeCompletedRequest
)
"""Messages from the host."""

CommissionerMessage: TypeAlias = (
    ScheduleEpisodes
    | EpisodeCancel
    | RoundComplete
    | ScheduleRoundsResponse
    | LeagueMigrationConfigResponse
    | LeagueMigrationResponse
    | RankDivisionResponse
    | DescribeDivisionResponse
    | RoundCompletedResponse
    | EpisodeCompletedResponse
)
"""Messages from the commissioner."""


_HOST: TypeAdapter[HostMessage] = TypeAdapter(Annotated[HostMessage, Field(discriminator="type")])
_COMMISSIONER: TypeAdapter[CommissionerMessage] = TypeAdapter(
    Annotated[CommissionerMessage, Field(discriminator="type")]
)


def misplaced(heard: CommissionerMessage, request: HostMessage) -> CommissionerError:
    """Return the error for a commissioner's message that is not allowed after this request."""
    return CommissionerError(f"The commissioner said {heard.type} after {request.type}.", code="commissioner_nonsense")


def read_host_message(text: str | bytes) -> HostMessage:
    """Parse a message from the host, on the commissioner's side.

    Raises:
        CommissionerError: Code `commissioner_nonsense` if it is not a valid message.
    """
    return _read(text, _HOST, get_args(HostMessage))


def read_commissioner_message(text: str | bytes) -> CommissionerMessage:
    """Parse a message from the commissioner, on the host's side.

    Raises:
        CommissionerError: Code `commissioner_nonsense` if it is not a valid message.
    """
    return _read(text, _COMMISSIONER, get_args(CommissionerMessage))


def _read(text: str | bytes, adapter: TypeAdapter[_T], models: tuple[type[Part], ...]) -> _T:
    try:
        value: Any = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise _nonsense(f"is not JSON: {str(error)[:200] or 'nested too deeply'}") from None
    if not isinstance(value, dict):
        raise _nonsense("is not a JSON object")
    said = cast("dict[str, Any]", value).get("type")
    known = [str(model.model_fields["type"].default) for model in models]
    if said not in known:
        raise _nonsense(
            f"has an unknown type: {str(said)[:80]!r}" if "type" in value else "has no type",
            hint=did_you_mean(said[:80], known) if isinstance(said, str) else None,
        )
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        place, problem = first_mistake(error)
        place = place.removeprefix(f"{said}").removeprefix(".") or "the message"
        raise _nonsense(f"of the type {said} is not valid: {place}: {problem}") from None


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is not a number")


def _nonsense(what: str, hint: str | None = None) -> CommissionerError:
    return CommissionerError(f"A message on the commissioner's socket {what}.", code="commissioner_nonsense", hint=hint)


def state_bytes(state: Any) -> int:
    """The size of a state in bytes of JSON."""
    return len(json.dumps(state, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass"))
