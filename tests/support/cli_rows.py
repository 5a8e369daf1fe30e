"""Rows as a platform's API returns them, for tests of the command line."""

from __future__ import annotations

from typing import Any

__all__ = [
    "COWORLD",
    "DIVISION",
    "EVENT",
    "GAME",
    "IMAGE",
    "LEAGUE",
    "MEMBERSHIP",
    "PLAYER",
    "ROUND",
    "SUBMISSION",
    "TIME",
    "VERSION",
    "episode",
    "uuid",
]


def uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


TIME = "2026-11-01T12:30:00+00:00"
GAME = {"id": f"game_{uuid(1)}", "name": "Paint Arena", "created_at": TIME}
LEAGUE = {"id": f"league_{uuid(1)}", "name": "Open", "game": GAME, "public": True, "created_at": TIME}
DIVISION = {"id": f"div_{uuid(1)}", "name": "First", "level": 1, "league": LEAGUE, "created_at": TIME}
VERSION = {"id": uuid(7), "policy": {"id": uuid(6), "name": "painter"}, "version": 3}
PLAYER = {"id": f"ply_{uuid(1)}", "name": "Ada"}
ROUND = {
    "id": f"round_{uuid(1)}",
    "round_number": 4,
    "commissioner_key": "default",
    "execution_backend": "k8s",
    "round_config": {},
    "status": "completed",
    "started_at": TIME,
    "completed_at": None,
    "division": DIVISION,
    "created_at": TIME,
}
MEMBERSHIP = {
    "id": f"lpm_{uuid(1)}",
    "status": "competing",
    "substatus": "champion",
    "league": LEAGUE,
    "division": DIVISION,
    "policy_version": VERSION,
    "player": PLAYER,
    "created_at": TIME,
}
SUBMISSION = {
    "id": f"sub_{uuid(1)}",
    "status": "placed",
    "league": LEAGUE,
    "policy_version": VERSION,
    "player": PLAYER,
    "league_policy_membership_id": f"lpm_{uuid(1)}",
    "created_at": TIME,
}
EVENT: dict[str, Any] = {
    "id": "evt_1",
    "event_type": "round_completed",
    "audience": "public",
    "headline": "Round 4 is over",
    "summary": "Ada won.",
    "payload": {},
    "created_at": TIME,
}
COWORLD = {
    "id": f"cow_{uuid(1)}",
    "name": "paint-arena",
    "version": "1.2.0",
    "manifest": {"game": {"name": "paint-arena"}},
    "manifest_hash": "abc123",
    "size_bytes": 4321,
    "canonical": True,
    "created_at": TIME,
}
IMAGE = {"id": f"img_{uuid(1)}", "name": "painter", "version": 2, "status": "ready", "client_hash": "sha256:1"}


def episode(number: int, **more: Any) -> dict[str, Any]:
    seats = [(uuid(7), "painter", 3), (uuid(8), "rival", 1)]
    return {
        "id": f"ereq_{uuid(number)}",
        "requester_user_id": "user_1",
        "coworld_id": COWORLD["id"],
        "seed": number,
        "status": "completed",
        "policy_version_ids": [version for version, _, _ in seats],
        "participants": [
            {"position": slot, "policy_version_id": version, "policy_id": uuid(6), "policy_name": name, "version": of}
            for slot, (version, name, of) in enumerate(seats)
        ],
        "job_id": uuid(100 + number),
        "episode_id": uuid(200 + number),
        "replay_url": None,
        "scores": [{"policy_version_id": uuid(7), "score": 12.5}, {"policy_version_id": uuid(8), "score": 3}],
        "created_at": TIME,
        **more,
    }
