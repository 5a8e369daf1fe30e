"""Access to episodes: who may see which of them, which parts, and their form in the API.

An episode is visible to the account that requested it, to the owners of its policies, to the members of its league, and
to team members who ask for elevated rights. It is visible to all if its league is public, or if it is the check of a
public Coworld. The check of a newcomer to a league is visible to its owner and the team alone. Results, replay, error
and the game's log are visible with the episode; a player's log and artifact only to their owner. What a role says of an
episode is visible to those who may see the episode and the private files that the role was given. Config and seed of an
episode of a league's round are visible once it is over.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache, partial
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from coworld_core.episode import read_record

from ..errors import not_found
from ..identity.auth import Caller
from ..services import Services
from ..store.columns import JsonObject
from ..store.models import (
    CHECK,
    COWORLD_UPLOAD,
    FINAL_STATUSES,
    Coworld,
    EpisodeRequest,
    League,
    Membership,
    Participant,
)
from .signed_links import LinkSigner

__all__ = [
    "EpisodeView",
    "find_episode",
    "may_read",
    "own_slots",
    "player_faults",
    "sealed",
    "takes_part",
    "view_of",
    "visible",
]


def visible(caller: Caller, *, public: bool) -> sa.ColumnElement[bool]:
    """The condition under which a caller may see an episode.

    Args:
        caller: The caller.
        public: Whether visitors without an account may see public episodes.
    """
    leagues = frozenset(caller.offices)
    return _visible(caller.elevated, caller.known or public, caller.accounts, caller.player_id, leagues)


@lru_cache(maxsize=256)
def _visible(
    elevated: bool, public: bool, accounts: frozenset[str], player_id: str | None, leagues: frozenset[str]
) -> sa.ColumnElement[bool]:
    """The condition, which takes longer to make than to send."""
    if elevated:
        return sa.true()
    ways: list[sa.ColumnElement[bool]] = []
    if public:
        open_leagues = sa.select(League.id).where(League.public, ~League.hidden)
        ways.append(sa.and_(EpisodeRequest.league_id.in_(open_leagues), EpisodeRequest.source != CHECK))
        # The check of a public Coworld is visible to all, not only to the account that uploaded it.
        shown = sa.select(Coworld.id).where(Coworld.visibility == "public")
        ways.append(sa.and_(EpisodeRequest.source == COWORLD_UPLOAD, EpisodeRequest.coworld_id.in_(shown)))
    if leagues:
        ways.append(EpisodeRequest.league_id.in_(leagues))
    if accounts:
        theirs = partial(_theirs, accounts=accounts, caller_player=player_id)
        joined = sa.select(Membership.league_id).where(
            Membership.end_time.is_(None), theirs(Membership.user_id, Membership.player_id)
        )
        its_own = sa.select(League.id).where(League.id.in_(joined), ~League.hidden, League.disabled_at.is_(None))
        ways.append(sa.and_(EpisodeRequest.league_id.in_(its_own), EpisodeRequest.source != CHECK))
        ways.append(theirs(EpisodeRequest.user_id, EpisodeRequest.player_id))
        # A condition on each row: a page of the newest stops when it is full, without sorting all rows.
        ways.append(EpisodeRequest.participants.any(theirs(Participant.user_id, Participant.player_id)))
    return sa.or_(sa.false(), *ways)


def _theirs(
    user_id: InstrumentedAttribute[str] | InstrumentedAttribute[str | None],
    player_id: InstrumentedAttribute[str | None],
    *,
    accounts: frozenset[str],
    caller_player: str | None,
) -> sa.ColumnElement[bool]:
    mine = user_id.in_(accounts)
    if caller_player is None:
        return mine
    return sa.and_(mine, sa.or_(player_id.is_(None), player_id == caller_player))


async def find_episode(session: AsyncSession, services: Services, caller: Caller, episode_id: str) -> EpisodeRequest:
    """Find an episode that the caller may see.

    Raises:
        Refusal: 404 if it does not exist, or the caller may not see it.
    """
    row = await session.scalar(
        sa.select(EpisodeRequest).where(
            EpisodeRequest.id == episode_id, visible(caller, public=services.settings.public)
        )
    )
    if row is None:
        raise not_found("episode request", episode_id)
    return row


def own_slots(caller: Caller, row: EpisodeRequest) -> frozenset[int] | None:
    """The slots of the caller's own policies; None for elevated team members, and who helps to run its league: all."""
    if caller.oversees(row.league_id):
        return None
    return frozenset(
        seat.position
        for seat in row.participants
        if seat.user_id is not None and caller.owns(seat.user_id, seat.player_id)
    )


def may_read(caller: Caller, row: EpisodeRequest, slots: Iterable[int]) -> bool:
    """Whether the caller may see what was made of the private files of some slots."""
    own = own_slots(caller, row)
    return own is None or own.issuperset(slots)


async def takes_part(session: AsyncSession, caller: Caller, row: EpisodeRequest) -> bool:
    """Whether the caller has requested an episode, has a policy in it, or is a member of its league."""
    if caller.owns(row.user_id, row.player_id) or own_slots(caller, row):
        return True
    member = sa.select(Membership.id).where(
        Membership.league_id == row.league_id,
        Membership.end_time.is_(None),
        _theirs(
            Membership.user_id,
            Membership.player_id,
            accounts=caller.accounts,
            caller_player=caller.player_id,
        ),
    )
    return row.league_id is not None and await session.scalar(member.limit(1)) is not None


def player_faults(row: EpisodeRequest) -> list[JsonObject]:
    """Faults of players, also in episodes that count; without logs, which are private to their owners."""
    if row.record is None or not row.record.get("faults"):
        # The common case, kept cheap for lists.
        return []
    return [
        {"position": fault.slot, "error_type": fault.error_type, "message": fault.message}
        for fault in read_record(row.record).faults
        if fault.party == "player"
    ]


def sealed(row: EpisodeRequest, caller: Caller) -> bool:
    """Whether a caller may not see the config and seed of an episode: those of a league's round, until it is over."""
    return row.round_id is not None and row.status not in FINAL_STATUSES and not caller.elevated


_FIELDS: WeakKeyDictionary[EpisodeRequest, JsonObject] = WeakKeyDictionary()
"""What is shown of rows that requests share (`store.row_cache`), which nobody changes."""


class EpisodeView:
    """Renders episodes for the API.

    Args:
        base_url: The address at which clients reach this server.
        links: Makes links to artifacts that need no token.
        caller: The caller.
    """

    def __init__(self, base_url: str, links: LinkSigner, caller: Caller) -> None:
        self._base_url = base_url
        self._links = links
        self._caller = caller

    def full(self, row: EpisodeRequest, tags: JsonObject) -> JsonObject:
        """All fields; `tags` are its labels."""
        fields = self._fields(row)
        hidden = sealed(row, self._caller)
        fields |= {"replay_url": self.replay_url(row), "live_url": self.live_url(row), "tags": tags}
        return fields | {"game_config": None, "seed": None} if hidden else fields

    def _fields(self, row: EpisodeRequest) -> JsonObject:
        """The fields that are the same for whoever may see it, whenever; of a row that is shared, made once."""
        if row in _FIELDS:
            return dict(_FIELDS[row])
        fields = self._made(row)
        if sa.inspect(row).detached:
            _FIELDS[row] = dict(fields)
        return fields

    def _made(self, row: EpisodeRequest) -> JsonObject:
        return {
            "id": row.id,
            "requester_user_id": row.user_id,
            "experience_request_id": row.experience_request_id,
            "round_id": row.round_id,
            "mod_name": None,
            "env_config_name": row.variant_id,
            "coworld_id": row.coworld_id,
            "variant_id": row.variant_id,
            "league_id": row.league_id,
            "division_id": row.division_id,
            "source": row.source,
            "game_config": row.game_config,
            "seed": row.seed,
            "max_steps": row.max_steps,
            "status": row.status,
            "policy_version_ids": [seat.policy_version_id for seat in row.participants if seat.policy_version_id],
            "participants": self.participants(row),
            "people": self.people(row),
            "job_id": row.job_id,
            "episode_id": row.episode_id,
            "replay_url": None,
            "live_url": None,
            "error_type": row.error_type,
            "error": row.error,
            "failed_policy_index": row.failed_policy_index,
            "failed_agent_index": row.failed_agent_index,
            "player_faults": player_faults(row),
            "scores": self.scores(row),
            "attempts": row.attempts,
            "tags": {},
            "created_at": row.created_at,
            "started_at": row.started_at,
            "completed_at": row.completed_at,
        }

    def row(self, row: EpisodeRequest, tags: JsonObject) -> JsonObject:
        """The fields in lists of a round, a policy version or a Coworld."""
        return {key: value for key, value in self.full(row, tags).items() if key != "game_config"}

    def progress(self, row: EpisodeRequest, *, results: bool) -> JsonObject:
        """A short form, for following many episodes."""
        short: JsonObject = {
            "id": row.id,
            "experience_request_id": row.experience_request_id,
            "created_at": row.created_at,
            "status": row.status,
            "error_type": row.error_type,
            "evidence_state": "sealed" if row.status in FINAL_STATUSES else "pending",
        }
        if results:
            short |= {
                "scores": self.scores(row),
                "participants": self.participants(row),
                "replay_url": self.replay_url(row),
                "error": row.error,
            }
        return short

    def participants(self, row: EpisodeRequest) -> list[JsonObject]:
        """The policies by slot; players that come with the game are left out."""
        return [
            {
                "position": seat.position,
                "kind": "policy",
                "policy_version_id": seat.policy_version_id,
                "policy_id": seat.policy_id,
                "policy_name": seat.policy_name,
                "version": seat.version,
                "player_id": seat.player_id,
                "player_name": seat.player_name,
            }
            for seat in row.participants
            if seat.policy_version_id is not None
        ]

    def people(self, row: EpisodeRequest) -> list[JsonObject]:
        """The people by slot. They are kept apart from participants, which clients expect to be policy versions."""
        scores = {score.position: score.score for score in row.scores}
        return [
            {
                "position": seat.position,
                "kind": "human",
                "user_id": seat.user_id,
                "player_id": seat.player_id,
                "name": seat.policy_name,
                "score": scores.get(seat.position),
            }
            for seat in row.participants
            if seat.policy_version_id is None and seat.bundled_player is None
        ]

    def scores(self, row: EpisodeRequest) -> list[JsonObject]:
        """The scores of the policies, by slot."""
        return [
            {"policy_version_id": score.policy_version_id, "score": score.score}
            for score in row.scores
            if score.policy_version_id is not None
        ]

    def replay_url(self, row: EpisodeRequest) -> str | None:
        """A link to the compressed replay that works without a token."""
        replay = next((item for item in row.artifacts if item.kind == "replay"), None)
        return self._links.url(replay.id, "replay.z").url if replay is not None else None

    def live_url(self, row: EpisodeRequest) -> str | None:
        """The address for watching the episode while it runs."""
        if row.live_url is None or row.status != "running":
            return None
        page = urlsplit(row.live_url)
        query = f"?{page.query}" if page.query else ""
        return f"{self._base_url}/live/{row.id}.{self._links.mark(f'live {row.id}')}{page.path}{query}"


def view_of(services: Services, caller: Caller) -> EpisodeView:
    """A caller's view of a running Observatory."""
    return EpisodeView(services.settings.url, services.runtime.links, caller)
