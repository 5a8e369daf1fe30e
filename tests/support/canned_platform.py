"""A platform with one canned answer, valid by the contract, for every route; it records all requests."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

from support.hostile_server import Ask, HostileServer, Say, serve

__all__ = ["NOW", "CannedPlatform", "canned_platform", "uid"]

NOW = "2026-11-01T12:00:00Z"


def uid(number: int) -> str:
    """A UUID made from a number, easy to recognise."""
    return f"00000000-0000-4000-8000-{number:012d}"


GAME = {"id": f"game_{uid(1)}", "name": "Paint", "created_at": NOW}
LEAGUE = {"id": f"league_{uid(2)}", "name": "Open", "game": GAME, "created_at": NOW, "public": True}
DIVISION = {"id": f"div_{uid(3)}", "name": "First", "level": 1, "league": LEAGUE, "created_at": NOW}
VERSION = {"id": uid(4), "policy": {"id": uid(5), "name": "alice"}, "version": 3, "player_id": None}
PLAYER = {"id": f"ply_{uid(6)}", "name": "Alice"}
ROUND = {
    "id": f"round_{uid(7)}",
    "round_number": 1,
    "commissioner_key": "container",
    "execution_backend": "dispatch",
    "round_config": {},
    "status": "completed",
    "division": DIVISION,
    "created_at": NOW,
}
RESULT = {"id": uid(8), "rank": 1, "score": 0.5, "policy_version": VERSION, "player": PLAYER, "created_at": NOW}
MEMBERSHIP = {
    "id": f"lpm_{uid(9)}",
    "status": "competing",
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
    "created_at": NOW,
}
SEAT = {
    "position": 0,
    "policy_version_id": uid(4),
    "policy_id": uid(5),
    "policy_name": "alice",
    "version": 3,
    "player_id": PLAYER["id"],
    "player_name": "Alice",
}
EPISODE = {
    "id": f"ereq_{uid(11)}",
    "requester_user_id": "user_1",
    "coworld_id": f"cow_{uid(12)}",
    "status": "completed",
    "policy_version_ids": [uid(4)],
    "participants": [SEAT],
    "job_id": uid(13),
    "episode_id": uid(14),
    "replay_url": None,
    "scores": [{"policy_version_id": uid(4), "score": 0.5}],
    "created_at": NOW,
}
EXPERIENCE = {
    "id": f"xreq_{uid(15)}",
    "requester_user_id": "user_1",
    "coworld_id": EPISODE["coworld_id"],
    "coworld_name": "paint",
    "coworld_version": "1.0.0",
    "status": "completed",
    "episode_count": 1,
    "pending_count": 0,
    "submitted_count": 0,
    "running_count": 0,
    "completed_count": 1,
    "failed_count": 0,
    "created_at": NOW,
}
EVENT = {
    "id": "1",
    "event_type": "placed",
    "audience": "public",
    "policy_version": VERSION,
    "headline": "Placed",
    "summary": "alice was placed.",
    "payload": {},
    "created_at": NOW,
}
COWORLD = {
    "id": EPISODE["coworld_id"],
    "name": "paint-arena",
    "version": "1.0.0",
    "manifest": {"game": {"name": "paint-arena"}},
    "manifest_hash": "abc",
    "size_bytes": 10,
    "canonical": True,
}
IMAGE = {"id": f"img_{uid(16)}", "name": "paint", "version": 1, "status": "ready"}
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
LOBBY = {
    "id": f"lby_{uid(18)}",
    "league_id": LEAGUE["id"],
    "coworld_id": COWORLD["id"],
    "coworld_name": "paint-arena",
    "coworld_version": "1.0.0",
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
            "claimant_label": "Alice",
            "can_claim": False,
            "can_remove": True,
        },
        {"position": 1, "kind": "random", "is_me": False, "can_claim": False, "can_remove": False},
    ],
    "can_manage": True,
    "permissions": {"can_start": True, "can_edit": True, "can_remove_player": True, "can_end_game": False},
}
OWNED = {"id": PLAYER["id"], "name": "Alice", "created_at": NOW}


def _envelope(row: object) -> dict[str, Any]:
    return {"entries": [row], "total_count": 1, "limit": 100, "offset": 0}


ROUTES: list[tuple[str, str, Any]] = [
    ("GET", "/whoami", {"user_email": "a@example.org", "subject_type": "user", "subject_id": "user_1", "scopes": []}),
    ("GET", "/players", [OWNED]),
    ("POST", "/players", OWNED),
    ("POST", "/players/[^/]+/login", {"player_id": PLAYER["id"], "token": "ply_x", "expires_at": NOW}),
    ("GET", "/v2/games", [GAME]),
    ("GET", "/v2/leagues", [LEAGUE]),
    ("GET", "/v2/leagues/game-of-week", None),
    ("GET", "/v2/leagues/[^/]+", LEAGUE),
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
    ("GET", "/stats/policy-versions", {"entries": [{"id": uid(4), "name": "alice", "version": 3}], "total_count": 1}),
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


class CannedPlatform:
    """The address, the requests, and the writes that took effect (a repeated idempotency key has none)."""

    def __init__(self, server: HostileServer) -> None:
        self.server = server.url
        self.asked = server.asked
        self.done: list[str] = []
        self.replace: dict[str, Callable[[Ask], Say]] = {}
        """Answers that replace the canned ones, by ``METHOD path`` without ``/observatory``."""
        self._keys: set[str] = set()

    async def answer(self, ask: Ask) -> Say:
        place = ask.target.partition("?")[0].removeprefix("/observatory")
        if (other := self.replace.get(f"{ask.method} {place}")) is not None:
            return other(ask)
        for method, pattern, value in ROUTES:
            if method == ask.method and re.fullmatch(pattern, place):
                key = ask.headers.get("idempotency-key", "")
                if ask.method != "GET" and key not in self._keys:
                    self.done.append(f"{ask.method} {place}")
                    self._keys |= {key} if key else set()
                beyond = ask.query.get("offset", "0") != "0"
                return json_say(emptied(value) if beyond else value)
        return json_say({"detail": f"no route {place}"}, 404)


def json_say(value: object, status: int = 200, **headers: str) -> Say:
    """An answer in JSON."""
    fields = {name.replace("_", "-"): text for name, text in headers.items()}
    return Say(status, json.dumps(value).encode(), {"content-type": "application/json", **fields})


@asynccontextmanager
async def canned_platform() -> AsyncGenerator[CannedPlatform]:
    """Serve the platform while the context is open."""
    platform: list[CannedPlatform] = []

    async def handler(ask: Ask) -> Say:
        return await platform[0].answer(ask)

    async with serve(handler) as server:
        platform.append(CannedPlatform(server))
        yield platform[0]
