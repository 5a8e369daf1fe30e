"""The tables, by noun. One transaction never spans two databases: everything but large bytes is here.

Who (users, players, tokens), what (images, coworlds, policies, secrets), where (games, leagues, divisions, members),
and what happened (episodes, experience requests, artifacts, events). Ids are those of the API.
"""

from __future__ import annotations

from .columns import Base
from .models_episodes import Artifact, EpisodeRequest, EpisodeScore, ExperienceRequest, HostedSession, Participant
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
    Submission,
    Token,
    User,
)

__all__ = [
    "Artifact",
    "AuthCode",
    "Base",
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
    "HostedSession",
    "Idempotent",
    "Image",
    "League",
    "LeagueSeed",
    "Membership",
    "Participant",
    "Player",
    "Policy",
    "PolicySecretEnv",
    "PolicyVersion",
    "RegistryBlob",
    "RegistryManifest",
    "RegistryTag",
    "Round",
    "RoundResult",
    "Submission",
    "Token",
    "User",
]
