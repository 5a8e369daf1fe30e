"""The commissioner of Paint Arena, with hooks, or with a fault, as its argument says."""

from __future__ import annotations

import asyncio
import sys
import uuid
from typing import Any

from paintarena import commissioner

VICE = sys.argv[1]
Message = dict[str, Any]


NOBODY = str(uuid.uuid4())
MISANSWERED: dict[str, tuple[str, list[Message]]] = {
    "ranks-strangers": (
        "rank_division_request",
        [
            {
                "type": "rank_division_response",
                "rankings": [{"player_id": "nobody", "rank": 1, "score": 0, "rounds_played": 1}],
            }
        ],
    ),
    "moves-strangers": (
        "round_completed_request",
        [
            {
                "type": "round_completed_response",
                "policy_membership_events": [
                    {"league_policy_membership_id": NOBODY, "status": "competing", "reason": "so"}
                ],
            }
        ],
    ),
    "answers-another": ("describe_division_request", [{"type": "rank_division_response", "rankings": []}]),
    "talks-on": (
        "episode_completed_request",
        [{"type": "episode_cancel", "request_id": "it", "reason": "no"}] * 101,
    ),
}
"""What a broken hook answers instead: by fault, the type of the request, and the messages."""
EXITS = {"leaves": "describe_division_request", "deserter": "episodes_accepted"}
"""The type of the message at which it exits, by fault."""


def hook(message: Message) -> Message:
    """Return the answer to a hook."""
    kind = message["type"].removesuffix("_request")
    if kind == "episode_completed":
        start = message["round_start"]
        first = start["round_number"] == 1 and not message["completed_episode_results"]
        roster = [member["policy_version_id"] for member in start["memberships"][:2]]
        wish = {"request_id": "decider", "variant_id": start["variants"][0]["id"], "policy_version_ids": roster}
        more: Message = {"episodes": [wish] if first else []}
    elif kind == "round_completed":
        member = message["division_memberships"][0]["id"]
        benched = {"league_policy_membership_id": member, "status": "competing", "substatus": "benched"}
        again = {"division_id": message["division"]["id"], "round_config": {"stages": [{"label": "Again"}]}}
        more = {"policy_membership_events": [{**benched, "reason": "by the hook"}], "follow_up_rounds": [again]}
    elif kind == "rank_division":
        rounds = len(message["completed_rounds"])
        names = sorted({one["player_id"] for one in message["round_results"]})
        more = {
            "rankings": [
                {"player_id": name, "rank": at, "score": 1000.0 * rounds + at, "rounds_played": rounds}
                for at, name in enumerate(names, 1)
            ]
        }
    else:
        more = {"description": {"next_round": "At noon.", "leaderboard_rules": "By the letters of the id."}}
    return {"type": f"{kind}_response", **more}


class Broken(commissioner.Conversation):
    """A conversation that fails once a round begins."""

    def answer(self, message: Message) -> list[Message]:
        """Return the answers to a message, possibly wrong ones."""
        said = super().answer(message)
        if message["type"] == EXITS.get(VICE):
            raise SystemExit(3)
        at, instead = MISANSWERED.get(VICE, ("", []))
        if message["type"] == at:
            return instead
        if message["type"].endswith(("_completed_request", "_division_request")):
            return [hook(message)]
        if VICE == "late" and said and said[0]["type"] == "round_complete":
            return [{"type": "applause"}]
        if message["type"] not in ("round_start", "episodes_rejected"):
            return said
        if VICE == "gone":
            raise SystemExit(3)
        if VICE == "nonsense":
            return [{"type": "applause"}]
        if VICE == "stranger":
            start = self.start["variants"][0]
            roster = [str(uuid.uuid4()) for _ in range(start["num_agents"])]
            wish = {"request_id": "game-1", "variant_id": start["id"], "policy_version_ids": roster}
            return [{"type": "schedule_episodes", "episodes": [wish]}]
        return said


if VICE == "never":
    sys.exit(3)
commissioner.Conversation = Broken
asyncio.run(commissioner.main())
