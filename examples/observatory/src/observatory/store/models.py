"""All tables. Everything except large files is in one database, so no transaction spans two.

Identities (users, players, tokens), programs (images, coworlds, policies, secrets), competitions (games, leagues,
divisions, members) and history (episodes, experience requests, artifacts, events). Ids are those of the API.
"""

from __future__ import annotations

from .columns import Base
from .models_commissions import Commission, CommissionEvent
from .models_episodes import (
    CHECK,
    COWORLD_UPLOAD,
    FINAL_STATUSES,
    Artifact,
    EpisodeRequest,
    EpisodeScore,
    ExperienceRequest,
    GameConfig,
    HostedSession,
    Participant,
    Tally,
)
from .models_labels import Label
from .models_lobbies import Lobby
from .models_operations import WORKER_GONE, AuditEntry, InstallationKey, ServerRow, UsedState, WorkerRow
from .models_platform import (
    AuthCode,
    Counter,
    Coworld,
    CoworldName,
    CoworldSecret,
    Division,
    Event,
    Game,
    Idempotent,
    Image,
    ImageChain,
    League,
    LeagueSeed,
    Membership,
    Player,
    Policy,
    PolicySecretEnv,
    PolicyVersion,
    RegistryBlob,
    RegistryManifest,
    RegistryTag,
    Round,
    RoundResult,
    Season,
    Submission,
    Token,
    User,
)
from .models_queue import Queued
from .models_roles import RoleRun
from .models_teams import LeagueOfficer, SignInLink, TeamMember
from .models_webhooks import Webhook

__all__ = [
    "CHECK",
    "COWORLD_UPLOAD",
    "FINAL_STATUSES",
    "WORKER_GONE",
    "Artifact",
    "AuditEntry",
    "AuthCode",
    "Base",
    "Commission",
    "CommissionEvent",
    "Counter",
    "Coworld",
    "CoworldName",
    "CoworldSecret",
    "Division",
    "EpisodeRequest",
    "EpisodeScore",
    "Event",
    "ExperienceRequest",
    "Game",
    "GameConfig",
    "HostedSession",
    "Idempotent",
    "Image",
    "ImageChain",
    "InstallationKey",
    "Label",
    "League",
    "LeagueOfficer",
    "LeagueSeed",
    "Lobby",
    "Membership",
    "Participant",
    "Player",
    "Policy",
    "PolicySecretEnv",
    "PolicyVersion",
    "Queued",
    "RegistryBlob",
    "RegistryManifest",
    "RegistryTag",
    "RoleRun",
    "Round",
    "RoundResult",
    "Season",
    "ServerRow",
    "SignInLink",
    "Submission",
    "Tally",
    "TeamMember",
    "Token",
    "UsedState",
    "User",
    "Webhook",
    "WorkerRow",
]
