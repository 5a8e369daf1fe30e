"""Columns of the tables, and lines of the details, that show a platform's objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from coworld_core.text import shown_size

from .results import labelled
from .rows import Column, Styled, cell, dump, rows_table, status_word, when
from .text import clean, command_line, labels_line, number

if TYPE_CHECKING:
    from coworld_client.uploads import CoworldStatus
    from coworld_core.api import (
        AccountDeletion,
        CompetitionEvent,
        Coworld,
        Division,
        EpisodeRequest,
        EpisodeStats,
        ExperienceRequest,
        Image,
        JoinedSession,
        LadderEntry,
        LeaderboardEntry,
        LeaderboardView,
        League,
        LeagueOfficer,
        LeagueSeason,
        LeagueSeed,
        Membership,
        OwnedPlayer,
        OwnToken,
        Participant,
        Player,
        PlayerEvidence,
        PlaySession,
        PolicyStats,
        PolicyVersionRow,
        Round,
        RoundDetail,
        RoundResult,
        SeasonLine,
        Secret,
        Submission,
        SubmissionCreated,
        Team,
        Webhook,
        Whoami,
    )

__all__ = [
    "COWORLDS",
    "DIVISIONS",
    "EPISODES",
    "EVENTS",
    "EXPERIENCE",
    "IMAGES",
    "LADDER",
    "LEADERBOARD",
    "LEAGUES",
    "MEMBERSHIPS",
    "POLICY_VERSIONS",
    "REPLAYS",
    "ROUNDS",
    "ROUND_RESULTS",
    "SECRETS",
    "SEEDS",
    "SUBMISSIONS",
    "coworld_details",
    "division_details",
    "episode_details",
    "evidence_name",
    "evidence_table",
    "experience_details",
    "image_details",
    "league_details",
    "play_session_details",
    "player_columns",
    "round_details",
    "scores_of",
    "seat_details",
    "seed_details",
    "smoke_answer",
    "smoke_text",
    "stats_details",
    "submission_details",
    "view_columns",
    "whoami_details",
]


def _lines(*rows: tuple[str, object]) -> str:
    """A line for each label and value; missing values are left out."""
    return labelled([(label, text) for label, value in rows if (text := cell(value)) != "-"], indent="")


def _who(player: Player | None) -> str:
    return "-" if player is None else cell(player.name or player.id)


def _named(name: str | None, id: str | None) -> str | None:
    """A name with its id, or whichever of the two is known."""
    return f"{name} ({id})" if name and id else name or id


# --- leagues and what is in them ----------------------------------------------------------------------------------

LEAGUES: tuple[Column[League], ...] = (
    Column("ID", lambda row: row.id),
    Column("Name", lambda row: row.name),
    Column("Game", lambda row: row.game.name),
    Column("Public", lambda row: row.public),
    Column("Created", lambda row: when(row.created_at)),
)

DIVISIONS: tuple[Column[Division], ...] = (
    Column("ID", lambda row: row.id),
    Column("Name", lambda row: row.name),
    Column("Level", lambda row: row.level, right=True),
    Column("League", lambda row: row.league.name),
    Column("Created", lambda row: when(row.created_at)),
)

LADDER: tuple[Column[LadderEntry], ...] = (
    Column("Division", lambda row: row.name),
    Column("ID", lambda row: row.id),
    Column("Level", lambda row: row.level, right=True),
    Column("Members", lambda row: row.member_count, right=True),
)

LEADERBOARD: tuple[Column[LeaderboardEntry], ...] = (
    Column("Rank", lambda row: row.rank, right=True),
    Column("Player", lambda row: row.player_name or row.player_id),
    Column("Score", lambda row: row.score, right=True),
    Column("Rounds", lambda row: row.rounds_played, right=True),
)


def view_columns(view: LeaderboardView) -> tuple[Column[dict[str, Any]], ...]:
    """The columns of a view of standings: its own, and after the first the players."""

    def value_of(key: object) -> Callable[[dict[str, Any]], object]:
        return lambda row: row.get("values", {}).get(key)

    own = [
        Column(cell(column.get("label") or column.get("key")), value_of(column.get("key")), right=True)
        for column in view.columns
    ]
    player = Column[dict[str, Any]]("Player", lambda row: row.get("subject_name") or row.get("subject_id"))
    return (*own[:1], player, *own[1:])


SEASON_LINES: tuple[Column[SeasonLine], ...] = (
    Column("Place", lambda row: row.place, right=True),
    Column("Player", lambda row: row.name or row.subject),
    Column("Rating", lambda row: row.rating, right=True),
    Column("Won", lambda row: row.won, right=True),
    Column("Played", lambda row: row.played, right=True),
    Column("Rounds", lambda row: row.rounds, right=True),
    Column("Score", lambda row: row.score, right=True),
    Column("Without a place", lambda row: row.unplaced),
)


def season_details(season: LeagueSeason) -> str:
    """The tables of a season, and who changed division."""
    ended = f"ended {when(season.closed_at)}" if season.closed_at else "not over yet"
    moves = [f"{move.name or move.subject}: {move.before} → {move.after}" for move in season.moves]
    head = f"{season.league}, season {season.number}, {ended}"
    tables = [f"{cell(table.division)}\n{rows_table(SEASON_LINES, table.standings)}" for table in season.tables]
    return "\n\n".join([clean(head, one_line=True), *tables, *(["\n".join(map(cell, moves))] if moves else [])])


ROUNDS: tuple[Column[Round], ...] = (
    Column("ID", lambda row: row.id),
    Column("#", lambda row: row.round_number, right=True),
    Column("Status", lambda row: status_word(row.status)),
    Column("Division", lambda row: row.division.name),
    Column("Started", lambda row: when(row.started_at)),
    Column("Completed", lambda row: when(row.completed_at)),
)

ROUND_RESULTS: tuple[Column[RoundResult], ...] = (
    Column("Rank", lambda row: row.rank, right=True),
    Column("Player", lambda row: _who(row.player)),
    Column("Policy", lambda row: row.policy_version.label),
    Column("Score", lambda row: row.score, right=True),
)

MEMBERSHIPS: tuple[Column[Membership], ...] = (
    Column("ID", lambda row: row.id),
    Column("Player", lambda row: _who(row.player)),
    Column("Policy", lambda row: row.policy_version.label),
    Column("Division", lambda row: row.division.name),
    Column("Status", lambda row: status_word(row.status)),
    Column("Substatus", lambda row: row.substatus),
    Column("Reason", lambda row: row.reason, free=True),
)

POLICY_VERSIONS: tuple[Column[PolicyVersionRow], ...] = (
    Column("ID", lambda row: row.id),
    Column("Policy", lambda row: row.label),
    Column("Uploaded", lambda row: row.created_at),
    Column("What", lambda row: row.kind),
    Column("Of", lambda row: row.source, free=True),
    Column("Labels", lambda row: labels_line(row.tags), free=True),
    Column("Disabled", lambda row: row.disabled_reason or (when(row.disabled_at) if row.disabled_at else None)),
)

SUBMISSIONS: tuple[Column[Submission], ...] = (
    Column("ID", lambda row: row.id),
    Column("Status", lambda row: status_word(row.status)),
    Column("Player", lambda row: _who(row.player)),
    Column("Policy", lambda row: row.policy_version.label),
    Column("League", lambda row: row.league.name),
    Column("Membership", lambda row: row.league_policy_membership_id),
)

EVENTS: tuple[Column[CompetitionEvent], ...] = (
    Column("ID", lambda row: row.id),
    Column("Type", lambda row: row.event_type),
    Column("When", lambda row: when(row.created_at)),
    Column("Headline", lambda row: row.headline, free=True),
    Column("Summary", lambda row: row.summary, free=True),
)

SEEDS: tuple[Column[LeagueSeed], ...] = (
    Column("Coworld", lambda row: row.coworld_name),
    Column("Template", lambda row: row.template),
    Column("Enabled", lambda row: row.enabled),
    Column("League", lambda row: row.league_id or "not created yet"),
)


def league_details(row: League) -> str:
    """Details of a league."""
    return _lines(
        ("League", row.name),
        ("ID", row.id),
        ("Game", f"{row.game.name} ({row.game.id})"),
        ("Coworld", row.game.coworld_id or row.game.coworld_name),
        ("Commissioner", row.commissioner_key),
        ("Entries of one account", _entries(row)),
        ("Public", row.public),
        ("Game of the week", row.is_game_of_week),
        ("Created", when(row.created_at)),
    )


def _entries(row: League) -> object:
    """The number of entries of one account; None if the server does not say."""
    if "entries_per_user" not in row.model_fields_set:
        return None
    return "any number" if row.entries_per_user is None else row.entries_per_user


def division_details(row: Division) -> str:
    """Details of a division, with its commissioner's description."""
    said = row.commissioner_description
    return _lines(
        ("Division", row.name),
        ("ID", row.id),
        ("Level", row.level),
        ("League", f"{row.league.name} ({row.league.id})"),
        ("About", row.description),
        ("Schedule", said.round_schedule if said else None),
        ("Next round", said.next_round if said else None),
        ("Rounds", said.round_structure if said else None),
        ("Standings", said.leaderboard_rules if said else None),
        ("Archived", when(row.archived_at)),
        ("Created", when(row.created_at)),
    )


def round_details(row: RoundDetail) -> str:
    """Details of a round, and its results."""
    about = _lines(
        ("Round", row.round_number),
        ("ID", row.id),
        ("Status", status_word(row.status)),
        ("Error", row.error),
        ("Division", f"{row.division.name} ({row.division.id})"),
        ("Started", when(row.started_at)),
        ("Completed", when(row.completed_at)),
    )
    return f"{about}\n\n{rows_table(ROUND_RESULTS, row.results)}" if row.results else about


def seed_details(row: LeagueSeed) -> str:
    """Details of a requested league."""
    return _lines(
        ("Seed", row.id),
        ("Coworld", row.coworld_name),
        ("Template", row.template),
        ("League", row.league_id or "not created yet"),
    )


# --- Coworlds -----------------------------------------------------------------------------------------------------

COWORLDS: tuple[Column[Coworld], ...] = (
    Column("ID", lambda row: row.id),
    Column("Name", lambda row: row.name),
    Column("Version", lambda row: row.version),
    Column("Canonical", lambda row: row.canonical),
    Column("Size", lambda row: shown_size(row.size_bytes), right=True),
    Column("Manifest Hash", lambda row: row.manifest_hash),
)

IMAGES: tuple[Column[Image], ...] = (
    Column("ID", lambda row: row.id),
    Column("Name", lambda row: row.name),
    Column("Version", lambda row: f"v{row.version}"),
    Column("Status", lambda row: status_word(row.status)),
    Column("Public URI", lambda row: row.public_image_uri),
)

SECRETS: tuple[Column[Secret], ...] = (
    Column("Secret", lambda row: row.secret_name),
    Column("Owner", lambda row: row.owner_name or row.owner_user_id),
    Column("Size", lambda row: shown_size(row.size_bytes), right=True),
    Column("Updated", lambda row: when(row.updated_at)),
)


def coworld_details(row: Coworld) -> str:
    """Details of a Coworld."""
    return _lines(
        ("Coworld", row.name),
        ("Version", row.version),
        ("ID", row.id),
        ("Canonical", "yes" if row.canonical else "no"),
        ("Manifest hash", row.manifest_hash),
        ("Size", shown_size(row.size_bytes)),
        ("Visibility", row.visibility),
        ("Uploaded", when(row.created_at)),
    )


def image_details(row: Image) -> str:
    """Details of an image."""
    return _lines(
        ("Image", f"{row.name} v{row.version}"),
        ("ID", row.id),
        ("Status", status_word(row.status)),
        ("Client hash", row.client_hash),
        ("URI", row.image_uri),
        ("Digest", row.image_digest),
        ("Public URI", row.public_image_uri),
    )


# --- the episodes of an uploaded Coworld that the platform plays by itself ----------------------------------------

_VERDICTS = {"passed": "green", "failed": "red", "pending": "cyan", "none": "yellow"}


def smoke_answer(status: CoworldStatus) -> dict[str, Any]:
    """The state of a Coworld's first hosted episodes, for `--json`."""
    return {
        "hosted_smoke": status.verdict,
        "hosted_smoke_episodes": [
            {"id": row.id, "status": str(row.status), "error": row.error} for row in status.episodes
        ],
        **({"certification": dump(status.certification)} if status.certification is not None else {}),
    }


def smoke_text(status: CoworldStatus) -> str:
    """The state of a Coworld's first hosted episodes, as text."""
    says = {
        "none": "none yet",
        "pending": "pending",
        "passed": "passed",
        "failed": "failed",
    }[status.verdict]
    rows = [("Hosted episodes", click.style(says, fg=_VERDICTS[status.verdict], bold=True))]
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


# --- episodes -----------------------------------------------------------------------------------------------------


def _label(seat: Participant) -> str:
    return clean(seat.label, one_line=True) or f"player {seat.position}"


def scores_of(row: EpisodeRequest) -> str:
    """`label=score` of each participant."""
    scores = zip(row.participants, row.seat_scores, strict=True)
    return ", ".join(f"{_label(seat)}={number(score)}" for seat, score in scores if score is not None) or "-"


EPISODES: tuple[Column[EpisodeRequest], ...] = (
    Column("ID", lambda row: row.id),
    Column("Status", lambda row: status_word(row.status)),
    Column("Seed", lambda row: row.seed, right=True),
    Column("Participants", lambda row: ", ".join(map(_label, row.participants)), free=True),
    Column("Scores", scores_of, free=True),
    Column("Replay", lambda row: bool(row.replay_url)),
    Column("Created", lambda row: when(row.created_at)),
)

REPLAYS: tuple[Column[tuple[EpisodeRequest, str]], ...] = (
    Column("Episode Request", lambda row: row[0].id),
    Column("Coworld", lambda row: row[0].coworld_id),
    Column("Local Command", lambda row: row[1]),
)

_AGENTS: tuple[Column[PolicyStats], ...] = (
    Column("Position", lambda row: row.position, right=True),
    Column("Policy", lambda row: row.label),
    Column("Agents", lambda row: row.num_agents, right=True),
    Column("Avg Reward", lambda row: row.avg_reward, right=True),
)

EXPERIENCE: tuple[Column[ExperienceRequest], ...] = (
    Column("ID", lambda row: row.id),
    Column("Status", lambda row: status_word(row.status)),
    Column("Coworld", lambda row: f"{row.coworld_name or row.coworld_id or '-'} {row.coworld_version or ''}"),
    Column("Variant", lambda row: row.variant_id),
    Column("Episodes", lambda row: row.episode_count, right=True),
    Column("Counts", lambda row: counts_of(row)),
    Column("Created", lambda row: when(row.created_at)),
)


def counts_of(row: ExperienceRequest) -> str:
    """The number of episodes by status: `7 completed, 1 failed, 2 running`."""
    counts = (
        (row.completed_count, "completed"),
        (row.failed_count, "failed"),
        (row.running_count, "running"),
        (row.submitted_count, "submitted"),
        (row.pending_count, "pending"),
    )
    return ", ".join(f"{count} {word}" for count, word in counts if count) or "-"


def episode_details(row: EpisodeRequest) -> str:
    """Details of an episode, with the player in each seat."""
    about = _lines(
        ("Episode", row.id),
        ("Status", status_word(row.status)),
        ("Error", " · ".join(filter(None, (row.error_type or "", row.error or "")))),
        ("Coworld", row.coworld_id),
        ("Round", row.round_id),
        ("Experience request", row.experience_request_id),
        ("Seed", row.seed),
        ("Labels", labels_line(row.tags)),
        ("Job", row.job_id),
        ("Replay", "yes" if row.replay_url else "no"),
        ("Live", row.live_url if not row.status.is_terminal else None),
        ("Created", when(row.created_at)),
    )
    if not row.participants:
        return about
    columns: tuple[Column[Participant], ...] = (
        Column("Slot", lambda seat: seat.position, right=True),
        Column("Policy", _label),
        Column("Player", lambda seat: seat.player_name or seat.player_id),
        Column("Version id", lambda seat: seat.policy_version_id),
    )
    return f"{about}\n\n{rows_table(columns, row.participants)}\n\nScores: {scores_of(row)}"


def evidence_name(kind: str, position: int) -> str:
    """The platform's file name for the log or the artifact of a player."""
    return f"policy_artifact_{position}.zip" if kind == "artifact" else f"policy_agent_{position}.log"


def evidence_table(seats: Iterable[PlayerEvidence], kind: str) -> str:
    """A table of the players that have a log, or an artifact."""
    columns: tuple[Column[PlayerEvidence], ...] = (
        Column("Agent", lambda seat: seat.position, right=True),
        Column("Policy", lambda seat: seat.policy_name),
        Column("Filename", lambda seat: evidence_name(kind, seat.position)),
    )
    return rows_table(columns, seats)


def stats_details(row: EpisodeStats) -> str:
    """The statistics of an episode: a row for each policy, and the game's numbers."""
    parts = [f"Steps: {cell(row.steps)}"]
    if row.policy_stats:
        parts.append(rows_table(_AGENTS, row.policy_stats))
    if row.game_stats:
        parts.append(_lines(*((name, number(value)) for name, value in sorted(row.game_stats.items()))))
    return "\n\n".join(parts)


def experience_details(row: ExperienceRequest) -> str:
    """Details of an experience request, and its episodes if it includes them."""
    about = _lines(
        ("Experience request", row.id),
        ("Status", status_word(row.status)),
        ("Error", row.error),
        ("Coworld", f"{row.coworld_name or '-'} {row.coworld_version or ''} ({row.coworld_id or '-'})"),
        ("Variant", row.variant_id),
        ("Labels", labels_line(row.tags)),
        ("Requested by", _named(row.requester if isinstance(row.requester, str) else None, row.requester_user_id)),
        ("Episodes", f"{row.episode_count}: {counts_of(row)}"),
        ("Created", when(row.created_at)),
        ("Started", when(row.started_at)),
        ("Completed", when(row.completed_at)),
    )
    episodes: Iterable[EpisodeRequest] = getattr(row, "episodes", ())
    return f"{about}\n\n{rows_table(EPISODES, episodes)}" if episodes else about


# --- players ------------------------------------------------------------------------------------------------------


TOKENS: tuple[Column[OwnToken], ...] = (
    Column("ID", lambda row: row.id),
    Column("Name", lambda row: row.name),
    Column("Kind", lambda row: row.kind),
    Column("Created", lambda row: when(row.created_at)),
    Column("Expires", lambda row: when(row.expires_at)),
    Column("Current", lambda row: row.is_current),
)


OFFICERS: tuple[Column[LeagueOfficer], ...] = (
    Column("ID", lambda row: row.user_id),
    Column("Name", lambda row: row.name),
    Column("Role", lambda row: row.role),
)
WEBHOOKS: tuple[Column[Webhook], ...] = (
    Column("ID", lambda row: row.id),
    Column("Address", lambda row: row.url),
    Column("Last told", lambda row: row.delivered_at),
    Column("Trouble", lambda row: "given up: " * (row.ended_at is not None) + (row.error or "")),
)
TEAMS: tuple[Column[Team], ...] = (
    Column("ID", lambda row: row.id),
    Column("Name", lambda row: row.name),
    Column("Members", lambda row: ", ".join(member.name for member in row.members)),
)


def player_columns(active: str | None) -> tuple[Column[OwnedPlayer], ...]:
    """The columns of a list of players, the active one marked."""
    mark, none = Styled(click.style("*", fg="green", bold=True)), Styled(" ")
    return (
        Column("", lambda row: mark if row.id == active else none),
        Column("ID", lambda row: row.id),
        Column("Name", lambda row: row.name),
        Column("Default", lambda row: row.is_default),
    )


def whoami_details(known: Whoami, server: str) -> str:
    """The identity that a server sees."""
    return _lines(
        ("Server", server),
        ("Name", known.name),
        ("E-mail", known.user_email),
        ("You act as", f"{known.subject_type} {known.subject_id or ''}"),
        ("Owner", _named(known.owner_name, known.owner_user_id)),
        ("Team member", known.is_softmax_team_member),
        ("Administrator", known.is_softmax_admin),
        ("Scopes", ", ".join(known.scopes)),
    )


def deletion_details(done: AccountDeletion, *, deleted: bool) -> str:
    """What the deletion of an account has done, or would do."""
    about = _lines(
        ("Deleted" if deleted else "Would delete", done.name),
        ("Called from then on", done.neutral_name),
        ("Episodes that stay", done.episodes),
        ("Waiting, cancelled", done.requests),
        ("Retired from leagues", done.memberships),
        ("Unused versions", done.unused),
        ("Tokens that end", done.tokens),
    )
    more = "" if deleted else f"\n\nTo delete it for good: {command_line('delete-account', '--name', done.name)}"
    return clean(f"{about}\n\nGoes: {done.goes}.\nStays: {done.stays}.{more}")


def play_session_details(session: PlaySession) -> str:
    """A game that waits for human players, and how to join it."""
    return _lines(
        ("Session", session.session_id),
        ("Seats", session.player_count),
        ("Take a seat", command_line("hosted-game", "join", session.session_id)),
        ("Join", session.join_url),
        ("Lobby", session.lobby_url),
        ("Watch", session.global_url),
        ("Labels", labels_line(session.tags)),
    )


def seat_details(seat: JoinedSession) -> str:
    """A seat in a game, and the link to it."""
    return _lines(
        ("Seat", seat.slot),
        ("Name", seat.player.label if seat.player else None),
        ("Play", seat.player_url),
    )


def submission_details(made: SubmissionCreated, *, policy: str, league: str, auto_champion: str, page: str) -> str:
    """Details of a new submission, and what happens next."""
    placed = made.league_policy_membership_id
    waits = None if made.status.is_terminal else "placement is asynchronous; `coworld submissions` shows how it goes"
    return _lines(
        ("Submission", made.id),
        ("Policy", policy),
        ("League", league),
        ("Status", status_word(made.status)),
        ("Auto champion", auto_champion),
        ("Membership", placed or waits),
        ("Notes", made.notes),
        ("Page", page),
    )
