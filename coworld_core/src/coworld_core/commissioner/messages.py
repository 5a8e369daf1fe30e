"""The messages of a commissioner's socket, in both directions, as the published version 0.1.26 has them.

A round: ``round_start``, then ``schedule_episodes`` as often as the commissioner likes, each answered by
``episodes_accepted`` or ``episodes_rejected``, an ``episode_result`` or ``episode_failed`` for each episode, and in the
end ``round_complete``. Everything else is a request and its response.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, cast, get_args

from pydantic import Field, TypeAdapter, ValidationError

from .._findings import did_you_mean
from ..errors import CommissionerError
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
    "read_commissioner_message",
    "read_host_message",
    "state_bytes",
]

_T = TypeVar("_T")


class Message(Part):
    """A message; its field ``type`` says which."""

    def to_json(self) -> dict[str, Any]:
        """The message as JSON has it."""
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
    """What the last ``round_complete`` left; null at first."""


class EpisodesAccepted(Message):
    """Episodes are played."""

    type: Literal["episodes_accepted"] = "episodes_accepted"
    request_ids: tuple[str, ...]


class EpisodesRejected(Message):
    """Episodes are not played."""

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
    """An episode came to nothing."""

    type: Literal["episode_failed"] = "episode_failed"
    request_id: Name
    error: str


class RoundAbort(Message):
    """The round is given up: the commissioner is to end without ``round_complete``."""

    type: Literal["round_abort"] = "round_abort"
    reason: str


class ScheduleRoundsRequest(Message):
    """Which rounds are due?"""

    type: Literal["schedule_rounds_request"] = "schedule_rounds_request"
    league: LeagueInfo
    divisions: tuple[DivisionInfo, ...]
    active_memberships: tuple[MembershipInfo, ...]
    recent_rounds: tuple[RoundInfo, ...]


class LeagueMigrationConfigRequest(Message):
    """Which divisions are there to be?"""

    type: Literal["league_migration_config_request"] = "league_migration_config_request"
    league: LeagueInfo
    divisions: tuple[DivisionInfo, ...]


class LeagueMigrationRequest(Message):
    """Who is to be in which of them?"""

    type: Literal["league_migration_request"] = "league_migration_request"
    league: LeagueInfo
    divisions: tuple[DivisionInfo, ...]
    memberships: tuple[MembershipInfo, ...]


class RankDivisionRequest(Message):
    """Who stands where in a division?"""

    type: Literal["rank_division_request"] = "rank_division_request"
    league: LeagueInfo
    division: DivisionInfo
    completed_rounds: tuple[RoundInfo, ...]
    recent_rounds: tuple[RoundInfo, ...]
    round_results: tuple[LeaderboardRoundResultInfo, ...]


class DescribeDivisionRequest(Message):
    """What is there to say about a division?"""

    type: Literal["describe_division_request"] = "describe_division_request"
    league: LeagueInfo
    division: DivisionInfo
    active_memberships: tuple[MembershipInfo, ...]
    recent_rounds: tuple[RoundInfo, ...]


class RoundCompletedRequest(Message):
    """A round is over: what follows from it?"""

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
    """An episode is over: what follows from it? One of ``episode_result`` and ``episode_failed`` is there."""

    type: Literal["episode_completed_request"] = "episode_completed_request"
    round_start: dict[str, Any]
    episode_result: dict[str, Any] | None = None
    episode_failed: dict[str, Any] | None = None
    completed_episode_results: tuple[dict[str, Any], ...] = ()
    failed_episodes: tuple[dict[str, Any], ...] = ()


# --- from the commissioner to the host


class ScheduleEpisodes(Message):
    """These episodes are to be played."""

    type: Literal["schedule_episodes"] = "schedule_episodes"
    episodes: tuple[EpisodeWish, ...]


class EpisodeCancel(Message):
    """An episode is not wanted any more."""

    type: Literal["episode_cancel"] = "episode_cancel"
    request_id: Name
    reason: str


class RoundComplete(Message):
    """The round is over."""

    type: Literal["round_complete"] = "round_complete"
    results: tuple[DivisionRanking, ...] = ()
    policy_membership_events: tuple[MembershipEvent, ...] = ()
    membership_changes: tuple[MembershipChange, ...] = ()
    round_display: dict[str, Any] | None = None
    state: Any = None


class ScheduleRoundsResponse(Message):
    """These rounds are due; none: nothing is."""

    type: Literal["schedule_rounds_response"] = "schedule_rounds_response"
    rounds: tuple[RoundSpec, ...] = ()


class LeagueMigrationConfigResponse(Message):
    """These divisions are to be there."""

    type: Literal["league_migration_config_response"] = "league_migration_config_response"
    divisions: tuple[DivisionConfig, ...] = ()


class LeagueMigrationResponse(Message):
    """These memberships change with them."""

    type: Literal["league_migration_response"] = "league_migration_response"
    policy_membership_events: tuple[MembershipEvent, ...] = ()


class RankDivisionResponse(Message):
    """The places in a division."""

    type: Literal["rank_division_response"] = "rank_division_response"
    rankings: tuple[DivisionLeaderboardEntry, ...] = ()


class DescribeDivisionResponse(Message):
    """What there is to say about a division."""

    type: Literal["describe_division_response"] = "describe_division_response"
    description: DivisionWords


class RoundCompletedResponse(Message):
    """What follows from a round."""

    type: Literal["round_completed_response"] = "round_completed_response"
    policy_membership_events: tuple[MembershipEvent, ...] = ()
    membership_changes: tuple[MembershipChange, ...] = ()
    follow_up_rounds: tuple[RoundSpec, ...] = ()


class EpisodeCompletedResponse(Message):
    """What follows from an episode."""

    type: Literal["episode_completed_response"] = "episode_completed_response"
    episodes: tuple[EpisodeWish, ...] = ()
    policy_membership_events: tuple[MembershipEvent, ...] = ()


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
"""What a host says."""

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
"""What a commissioner says."""


_HOST: TypeAdapter[HostMessage] = TypeAdapter(Annotated[HostMessage, Field(discriminator="type")])
_COMMISSIONER: TypeAdapter[CommissionerMessage] = TypeAdapter(
    Annotated[CommissionerMessage, Field(discriminator="type")]
)


def read_host_message(text: str | bytes) -> HostMessage:
    """A message of a host, as a commissioner reads it.

    Raises:
        CommissionerError: Code ``commissioner_nonsense``: it is none.
    """
    return _read(text, _HOST, get_args(HostMessage))


def read_commissioner_message(text: str | bytes) -> CommissionerMessage:
    """A message of a commissioner, as its host reads it.

    Raises:
        CommissionerError: Code ``commissioner_nonsense``: it is none.
    """
    return _read(text, _COMMISSIONER, get_args(CommissionerMessage))


def _read(text: str | bytes, adapter: TypeAdapter[_T], models: tuple[type[Part], ...]) -> _T:
    try:
        value: Any = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise _nonsense(f"is no JSON: {str(error)[:200] or 'nested too deeply'}") from None
    if not isinstance(value, dict):
        raise _nonsense("is no JSON object")
    said = cast("dict[str, Any]", value).get("type")
    known = [str(model.model_fields["type"].default) for model in models]
    if said not in known:
        raise _nonsense(
            f"has no type that is known here: {str(said)[:80]!r}" if "type" in value else "has no type",
            hint=did_you_mean(said[:80], known) if isinstance(said, str) else None,
        )
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"][1:])) or "the message"
        raise _nonsense(f"of the type {said} is not right: {place}: {first['msg']}") from None


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no number")


def _nonsense(what: str, hint: str | None = None) -> CommissionerError:
    return CommissionerError(f"A message of the commissioner's socket {what}.", code="commissioner_nonsense", hint=hint)


def state_bytes(state: Any) -> int:
    """How many bytes of JSON a state has."""
    return len(json.dumps(state, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass"))
