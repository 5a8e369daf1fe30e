"""A platform with answers chosen by the test, for those that no real platform gives; it records all requests.

A canned one has an answer to every route, valid by the contract: one row of each kind.
"""

from __future__ import annotations

import re
from contextlib import AbstractAsyncContextManager
from typing import Any, cast

from .fake_server import Ask, Site, json_say, serve_site

__all__ = [
    "COWORLD",
    "DIVISION",
    "EPISODE",
    "EVENT",
    "EXPERIENCE",
    "IMAGE",
    "LEAGUE",
    "LOBBY",
    "MEMBERSHIP",
    "NOW",
    "PLAYER",
    "RESULT",
    "ROUND",
    "SEAT",
    "SECRET",
    "SEED",
    "SUBMISSION",
    "VERSION",
    "FakePlatform",
    "canned_platform",
    "episode",
    "uid",
]

NOW = "2026-11-01T12:30:00Z"


def uid(number: int) -> str:
    """A UUID made from a number, easy to recognise."""
    return f"00000000-0000-4000-8000-{number:012d}"


GAME = {"id": f"game_{uid(1)}", "name": "Paint Arena", "created_at": NOW}
LEAGUE = {"id": f"league_{uid(2)}", "name": "Open", "game": GAME, "created_at": NOW, "public": True}
DIVISION = {"id": f"div_{uid(3)}", "name": "First", "level": 1, "league": LEAGUE, "created_at": NOW}
VERSION = {"id": uid(4), "policy": {"id": uid(5), "name": "painter"}, "version": 3}
PLAYER = {"id": f"ply_{uid(6)}", "name": "Ada"}
ROUND = {
    "id": f"round_{uid(7)}",
    "round_number": 4,
    "commissioner_key": "container",
    "execution_backend": "dispatch",
    "round_config": {},
    "status": "completed",
    "started_at": NOW,
    "completed_at": None,
    "division": DIVISION,
    "created_at": NOW,
}
RESULT = {"id": uid(8), "rank": 1, "score": 2.5, "policy_version": VERSION, "player": PLAYER, "created_at": NOW}
MEMBERSHIP = {
    "id": f"lpm_{uid(9)}",
    "status": "competing",
    "substatus": "champion",
    "league": LEAGUE,
    "division": DIVISION,
    "policy_version": VERSION,
    "player": PLAYER,
    "created_at": NOW,
}
SUBMISSION = {
    "id": f"sub_{uid(10)}",
    "status": "placed",
    "league": LEAGUE,
    "policy_version": VERSION,
    "player": PLAYER,
    "league_policy_membership_id": MEMBERSHIP["id"],
    "created_at": NOW,
}
COWORLD = {
    "id": f"cow_{uid(12)}",
    "name": "paint-arena",
    "version": "1.2.0",
    "manifest": {"game": {"name": "paint-arena"}},
    "manifest_hash": "abc123",
    "size_bytes": 4321,
    "canonical": True,
    "created_at": NOW,
}
SEAT: dict[str, Any] = {
    "position": 0,
    "policy_version_id": VERSION["id"],
    "policy_id": uid(5),
    "policy_name": "painter",
    "version": 3,
    "player_id": PLAYER["id"],
    "player_name": "Ada",
}


def episode(number: int, *seats: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An episode, by default with two players."""
    rival = {"position": 1, "policy_version_id": uid(20), "policy_id": uid(21), "policy_name": "rival", "version": 1}
    participants = list(seats or (SEAT, rival))
    versions = [seat["policy_version_id"] for seat in participants]
    return {
        "id": f"ereq_{uid(number)}",
        "requester_user_id": "user_1",
        "coworld_id": COWORLD["id"],
        "seed": number,
        "status": "completed",
        "policy_version_ids": versions,
        "participants": participants,
        "job_id": uid(100 + number),
        "episode_id": uid(200 + number),
        "replay_url": None,
        "scores": [
            {"policy_version_id": version, "score": score} for version, score in zip(versions, (12.5, 3), strict=False)
        ],
        "created_at": NOW,
        **more,
    }


EPISODE = episode(11, SEAT)
EXPERIENCE = {
    "id": f"xreq_{uid(15)}",
    "requester_user_id": "user_1",
    "coworld_id": COWORLD["id"],
    "coworld_name": "paint-arena",
    "coworld_version": "1.2.0",
    "status": "completed",
    "episode_count": 1,
    "pending_count": 0,
    "submitted_count": 0,
    "running_count": 0,
    "completed_count": 1,
    "failed_count": 0,
    "created_at": NOW,
}
EVENT: dict[str, Any] = {
    "id": "1",
    "event_type": "placed",
    "audience": "public",
    "policy_version": VERSION,
    "headline": "Placed",
    "summary": "painter was placed.",
    "payload": {},
    "created_at": NOW,
}
IMAGE = {"id": f"img_{uid(16)}", "name": "painter", "version": 2, "status": "ready", "client_hash": "sha256:1"}
SECRET = {"coworld_name": "paint-arena", "secret_name": "KEY", "size_bytes": 3, "owner_user_id": "user_1"}
SEED = {
    "id": f"lseed_{uid(17)}",
    "coworld_name": "paint-arena",
    "template": "default",
    "enabled": True,
    "created_by": "user_1",
    "created_at": NOW,
}
THING = {
    "episode_request_id": EPISODE["id"],
    "category": "replay",
    "artifact_id": "a1",
    "version": "1",
    "filename": "../../replay",
    "state": "pending",
}
LOBBY: dict[str, Any] = {
    "id": f"lby_{uid(18)}",
    "league_id": LEAGUE["id"],
    "coworld_id": COWORLD["id"],
    "coworld_name": "paint-arena",
    "coworld_version": "1.2.0",
    "coworld_manifest_hash": "abc",
    "min_players": 2,
    "max_players": 2,
    "status": "draft",
    "revision": 1,
    "created_at": NOW,
    "expires_at": NOW,
    "seats": [
        {
            "position": 0,
            "kind": "human",
            "is_me": True,
            "claimant_label": "Ada",
            "can_claim": False,
            "can_remove": True,
        },
        {"position": 1, "kind": "random", "is_me": False, "can_claim": False, "can_remove": False},
    ],
    "can_manage": True,
    "permissions": {"can_start": True, "can_edit": True, "can_remove_player": True, "can_end_game": False},
}
SEASON: dict[str, Any] = {
    "league_id": LEAGUE["id"],
    "league": "paint",
    "number": 2,
    "closed_at": NOW,
    "tables": [],
    "moves": [],
}
OWNED = {**PLAYER, "created_at": NOW}
OWN_TOKEN = {"id": "0" * 24, "name": "ci", "kind": "user", "created_at": NOW}
ROLE_RUN: dict[str, Any] = {
    "id": f"role_{uid(22)}",
    "episode_request_id": EPISODE["id"],
    "role": "grader",
    "runnable_id": "close",
    "automatic": False,
    "status": "completed",
    "answer": {"score": 0.5},
    "created_at": NOW,
}
REPORTER: dict[str, Any] = {
    "id": f"rptr_{uid(23)}",
    "name": "paint-arena-summary",
    "display_name": "Summary",
    "description": "Tells a story.",
    "user_id": "user_1",
    "latest_version": 1,
    "outputs": [{"name": "report", "type": "json", "description": "It.", "schema": "https://example.org/s"}],
    "created_at": NOW,
}
REPORT = {
    "id": uid(24),
    "reporter_id": REPORTER["id"],
    "name": "report",
    "type": "json",
    "size_bytes": 3,
    "created_at": NOW,
    "url": "https://example.org/r",
}


def _envelope(row: object) -> dict[str, Any]:
    return {"entries": [row], "total_count": 1, "limit": 100, "offset": 0}


ROUTES: list[tuple[str, str, Any]] = [
    ("GET", "/whoami", {"user_email": "a@example.org", "subject_type": "user", "subject_id": "user_1", "scopes": []}),
    ("GET", "/players", [OWNED]),
    ("POST", "/players", OWNED),
    ("POST", "/players/[^/]+/login", {"player_id": PLAYER["id"], "token": "ply_x", "expires_at": NOW}),
    ("GET", "/credentials/tokens", [OWN_TOKEN]),
    ("POST", "/credentials/tokens", {**OWN_TOKEN, "token": "obs_x"}),
    ("GET", "/v2/games", [GAME]),
    ("GET", "/v2/leagues", [LEAGUE]),
    ("GET", "/v2/leagues/game-of-week", None),
    ("GET", "/v2/leagues/[^/]+", LEAGUE),
    ("GET", "/v2/leagues/[^/]+/seasons", [SEASON]),
    ("GET", "/v2/leagues/[^/]+/seasons/[0-9]+", SEASON),
    (
        "GET",
        "/v2/leagues/[^/]+/division-ladder",
        [{"id": DIVISION["id"], "name": "First", "level": 1, "member_count": 2}],
    ),
    ("GET", "/v2/divisions", [DIVISION]),
    ("GET", "/v2/divisions/[^/]+", DIVISION),
    ("GET", "/v2/divisions/[^/]+/leaderboard", None),
    ("GET", "/v2/divisions/[^/]+/leaderboards", {"default_view_key": "a", "axes": [], "views": []}),
    ("GET", "/v2/rounds", _envelope(ROUND)),
    ("GET", "/v2/rounds/[^/]+", {**ROUND, "results": [RESULT]}),
    ("GET", "/v2/competition-events", [EVENT]),
    ("GET", "/v2/league-policy-memberships", [MEMBERSHIP]),
    ("POST", "/v2/league-policy-memberships/[^/]+/(retire|champion)", MEMBERSHIP),
    ("GET", "/v2/league-submissions", [SUBMISSION]),
    ("POST", "/v2/league-submissions", {"id": SUBMISSION["id"], "status": "pending"}),
    ("GET", "/stats/policy-versions", {"entries": [{"id": uid(4), "name": "painter", "version": 3}], "total_count": 1}),
    ("GET", "/v2/episode-requests", _envelope(EPISODE)),
    (
        "GET",
        "/v2/episode-requests/download-manifest",
        {"entries": [THING], "unavailable_ids": ["ereq_gone"], "next_cursor": None},
    ),
    ("GET", "/v2/participate", "Bring a player."),
    ("GET", "/v2/episode-requests/ereq_[^/]+/[^/]+/annotations", {"step": 1}),
    ("GET", "/v2/episode-requests/ereq_[^/]+", EPISODE),
    ("GET", "/v2/episode-requests/ereq_[^/]+/artifacts/[^/]+", {"scores": [0.5]}),
    ("GET", "/v2/episode-requests/ereq_[^/]+/episode-stats", {"game_stats": {"steps": 3.0}, "policy_stats": []}),
    (
        "GET",
        "/v2/episode-requests/ereq_[^/]+/policy-artifacts",
        [{"position": 0, "has_log": True, "has_artifact": False}],
    ),
    ("GET", "/v2/episode-requests/ereq_[^/]+/[^/]+/policy-logs/[0-9]+", "hello"),
    ("GET", "/v2/episode-requests/ereq_[^/]+/role-runs", [ROLE_RUN]),
    ("POST", "/v2/episode-requests/ereq_[^/]+/role-runs", ROLE_RUN),
    ("GET", "/v2/role-runs/role_[^/]+", ROLE_RUN),
    ("GET", "/v2/reporters", {"entries": [REPORTER], "next_cursor": None}),
    ("GET", "/v2/reporters/rptr_[^/]+", {**REPORTER, "purpose": None, "latest_output": REPORT}),
    ("GET", "/v2/reporters/rptr_[^/]+/outputs", {"entries": [REPORT], "next_cursor": None}),
    ("POST", "/v2/experience-requests", {**EXPERIENCE, "episodes": [EPISODE]}),
    ("GET", "/v2/experience-requests", _envelope(EXPERIENCE)),
    ("GET", "/v2/experience-requests/xreq_[^/]+", {**EXPERIENCE, "episodes": [EPISODE]}),
    ("GET", "/v2/experience-requests/xreq_[^/]+/episodes", [EPISODE]),
    ("POST", "/v2/experience-requests/xreq_[^/]+/cancel", EXPERIENCE),
    ("GET", "/v2/coworlds", [COWORLD]),
    ("GET", "/v2/coworlds/cow_[^/]+", COWORLD),
    ("GET", "/v2/coworlds/cow_[^/]+/certification", {"coworld_id": COWORLD["id"], "state": "never_run"}),
    (
        "POST",
        "/v2/coworlds/play/session",
        {"session_id": "cps_1", "lobby_url": "http://127.0.0.1/l", "player_count": 2},
    ),
    ("DELETE", "/v2/coworlds/play/session/[^/]+", {"session_id": "cps_1", "player_count": 2}),
    ("POST", "/v2/coworlds/play/session/[^/]+/join", {"player_url": "http://127.0.0.1/p", "slot": 0}),
    ("POST", "/v2/leagues/[^/]+/lobbies", LOBBY),
    ("GET", "/v2/lobbies/lby_[^/]+", LOBBY),
    ("PUT", "/v2/lobbies/lby_[^/]+/seats/[0-9]+", LOBBY),
    ("DELETE", "/v2/lobbies/lby_[^/]+/seats/[0-9]+/player", LOBBY),
    ("POST", "/v2/lobbies/lby_[^/]+/(seats/[0-9]+/claim|start|leave|cancel|end)", LOBBY),
    ("POST", "/v2/coworlds/replays/session", {"viewer_url": "http://127.0.0.1/v"}),
    ("GET", "/v2/container_images", [IMAGE]),
    ("GET", "/v2/container_images/img_[^/]+", IMAGE),
    ("GET", "/v2/coworlds/secrets/[^/]+", [SECRET]),
    ("PUT", "/v2/coworlds/secrets/[^/]+/[^/]+", SECRET),
    ("DELETE", "/v2/coworlds/secrets/[^/]+/[^/]+", SECRET),
    ("GET", "/v2/coworld-league-seeds", [SEED]),
    ("POST", "/v2/coworld-league-seeds", SEED),
]


def emptied(page: Any) -> Any:
    """An empty page, as returned after the last one."""
    return {**cast("dict[str, Any]", page), "entries": ()} if isinstance(page, dict) else ()


class FakePlatform(Site):
    """A platform, and the writes that took effect (a repeated idempotency key has none).

    Args:
        canned: Whether every route has an answer; otherwise a call without an answer of the test's gets 404.
    """

    def __init__(self, *, canned: bool = False) -> None:
        super().__init__("/observatory")
        self.done: list[str] = []
        self._routes = ROUTES if canned else []
        self._keys: set[str] = set()

    def otherwise(self, ask: Ask) -> Any:
        place = self.place(ask)
        for method, pattern, value in self._routes:
            if method == ask.method and re.fullmatch(pattern, place):
                key = ask.headers.get("idempotency-key", "")
                if ask.method != "GET" and key not in self._keys:
                    self.done.append(f"{ask.method} {place}")
                    self._keys |= {key} if key else set()
                beyond = ask.query.get("offset", "0") != "0"
                return json_say(emptied(value) if beyond else value)
        return super().otherwise(ask)


def canned_platform() -> AbstractAsyncContextManager[FakePlatform]:
    """Serve a canned platform while the context is open."""
    return serve_site(FakePlatform(canned=True))
