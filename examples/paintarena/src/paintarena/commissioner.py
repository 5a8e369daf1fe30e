"""A commissioner with two divisions: all players of a division meet, and players move up and down between divisions.

The best challenger is promoted and the last master is demoted; no challenger is promoted if that would leave every
player alone in a division. The host stores the commissioner's state between rounds: the number of masters.
"""

import asyncio
import http
import itertools
import json
import os
import signal
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

Message = dict[str, Any]

CHALLENGERS, MASTERS = "Challengers", "Masters"


class Conversation:
    """The conversation on one socket."""

    def __init__(self) -> None:
        self.start: Message = {}
        self.open: set[str] = set()
        self.scores: dict[str, list[float]] = {}

    def answer(self, message: Message) -> list[Message]:
        """Return the answers to a message; most messages need none."""
        match message["type"]:
            case "league_migration_config_request":
                divisions = [{"name": CHALLENGERS, "level": 0}, {"name": MASTERS, "level": 1}]
                return [{"type": "league_migration_config_response", "divisions": divisions}]
            case "league_migration_request":
                return [{"type": "league_migration_response", "policy_membership_events": list(_all_new(message))}]
            case "schedule_rounds_request":
                return [{"type": "schedule_rounds_response", "rounds": list(_rounds(message))}]
            case "round_start":
                return self._begin(message)
            case "episode_result":
                for score in message["scores"]:
                    self.scores[score["policy_version_id"]].append(score["score"])
                return self._over(message["request_id"])
            case "episode_failed":
                return self._over(message["request_id"])
            case _:
                return []

    def _begin(self, start: Message) -> list[Message]:
        """Schedule a game for every ordered pair of players; other players take turns in any further seats.

        In a game with one seat, each player plays alone.
        """
        self.start = start
        players = [member["policy_version_id"] for member in start["memberships"]]
        variant = start["variants"][0]
        seats = variant["num_agents"]
        episodes: list[Message] = []
        pairs = [[one, other] for one in players for other in players if one != other] if seats > 1 else []
        for pair in pairs or [[player] for player in players]:
            others = itertools.cycle([player for player in players if player not in pair] or players)
            roster = [*pair, *itertools.islice(others, seats - len(pair))]
            episodes.append(
                {"request_id": f"game-{len(episodes) + 1}", "variant_id": variant["id"], "policy_version_ids": roster}
            )
        self.scores = {player: [] for player in players}
        self.open = {episode["request_id"] for episode in episodes}
        if not episodes:
            return [self._complete()]
        return [{"type": "schedule_episodes", "episodes": episodes}]

    def _over(self, request: str) -> list[Message]:
        self.open.discard(request)
        return [] if self.open else [self._complete()]

    def _complete(self) -> Message:
        means = {player: sum(scores) / max(1, len(scores)) for player, scores in self.scores.items()}
        order = sorted(means, key=lambda player: -means[player])
        here = self.start["memberships"][0]["division_id"] if order else None
        ranks = [
            {"policy_version_id": player, "rank": 1 + sum(means[other] > means[player] for other in order)}
            | {"score": means[player]}
            for player in order
        ]
        masters = (self.start["state"] or {"masters": 0})["masters"]
        divisions = {division["name"]: division["id"] for division in self.start["divisions"]}
        members = {member["policy_version_id"]: member["id"] for member in self.start["memberships"]}
        moves: list[Message] = []
        if here == divisions[CHALLENGERS] and len(order) >= (2 if masters else 3):
            moves.append(_event(members[order[0]], here, divisions[MASTERS], "the best of the challengers"))
            masters += 1
        elif here == divisions[MASTERS] and len(order) > 1:
            moves.append(_event(members[order[-1]], here, divisions[CHALLENGERS], "the last of the masters"))
            masters -= 1
        return {
            "type": "round_complete",
            "results": [{"division_id": here, "rankings": ranks}] if order else [],
            "policy_membership_events": moves,
            "round_display": {"masters": masters},
            "state": {"masters": masters},
        }


def _all_new(message: Message) -> Iterator[Message]:
    """Make every player that is in neither division a challenger."""
    divisions = {division["name"]: division["id"] for division in message["divisions"]}
    for member in message["memberships"]:
        if member["division_id"] not in divisions.values():
            yield _event(member["id"], member["division_id"], divisions[CHALLENGERS], "everybody begins here")


def _rounds(message: Message) -> Iterator[Message]:
    """Schedule a round of every division with at least two competing players."""
    competing: dict[str, int] = defaultdict(int)
    for member in message["active_memberships"]:
        competing[member["division_id"]] += 1
    for division in message["divisions"]:
        if competing[division["id"]] > 1:
            yield {"division_id": division["id"], "round_config": {"stages": [{"label": "Everybody meets"}]}}


def _event(member: str, before: str | None, now: str, reason: str) -> Message:
    return {
        "league_policy_membership_id": member,
        "from_division_id": before,
        "to_division_id": now,
        "status": "competing",
        "reason": reason,
    }


async def converse(connection: ServerConnection) -> None:
    """Serve one socket until it closes."""
    conversation = Conversation()
    try:
        async for text in connection:
            for answer in conversation.answer(json.loads(text)):
                await connection.send(json.dumps(answer))
    except ConnectionClosed:
        pass


def respond(connection: ServerConnection, request: Request) -> Response | None:
    """Answer HTTP requests other than the websocket on `/round`."""
    if request.path == "/healthz":
        return connection.respond(http.HTTPStatus.OK, "ok\n")
    return None if request.path == "/round" else connection.respond(http.HTTPStatus.NOT_FOUND, "no such page\n")


async def main() -> None:
    """Serve until SIGTERM."""
    ending = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    host, port = os.environ.get("COGAME_HOST", "127.0.0.1"), int(os.environ.get("COGAME_PORT", "8080"))
    # The host limits the size of the state; this limit only has to be larger.
    async with serve(converse, host, port, process_request=respond, max_size=32 * 1024 * 1024, close_timeout=1):
        await ending.wait()


if __name__ == "__main__":
    asyncio.run(main())
