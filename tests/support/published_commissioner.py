"""A commissioner written with the messages of a published release, in whose environment it runs.

It reads everything that its host says by the published models, and answers with them, hooks included.
"""

from __future__ import annotations

import asyncio
import http
import importlib
import json
import os
import signal
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

published: Any = importlib.import_module("coworld.commissioner")


def read(sent: dict[str, Any]) -> Any:
    """Read a message by its published model, which must know all of its fields."""
    kind = sent["type"]
    model = getattr(published, "EpisodeAccepted" if kind == "episodes_accepted" else kind.title().replace("_", ""))
    message = model.model_validate({name: value for name, value in sent.items() if name != "type"})
    unknown = sent.keys() - message.to_json().keys()
    if unknown:
        raise ValueError(f"{kind} has fields that {model.__name__} does not know: {sorted(unknown)}")
    return message


class Conversation:
    """The conversation on one socket."""

    def __init__(self) -> None:
        self.start: Any = None
        self.waiting: set[str] = set()
        self.scores: dict[Any, list[float]] = {}

    def answer(self, sent: dict[str, Any]) -> list[Any]:
        """Return the answers to a message; some need none."""
        message = read(sent)
        answering = getattr(self, sent["type"], None)
        said = answering(message) if answering is not None else None
        if sent["type"] == "episode_completed_request" and not self.waiting:
            return [said, self.complete()]
        return [said] if said is not None else []

    def league_migration_config_request(self, _: Any) -> Any:
        """One division, which in leagues older than this one had another name."""
        one = published.DivisionConfig(name="Open", level=1, previous_name="Daily", description="Everybody.")
        return published.LeagueMigrationConfigResponse(divisions=[one])

    def league_migration_request(self, message: Any) -> Any:
        """Everybody belongs to it."""
        [division] = message.divisions
        events = [
            published.PolicyMembershipEventChange(
                league_policy_membership_id=member.id, to_division_id=division.id, status="competing", reason="begins"
            )
            for member in message.memberships
        ]
        return published.LeagueMigrationResponse(policy_membership_events=events)

    def schedule_rounds_request(self, message: Any) -> Any:
        """One round of all champions."""
        [division] = message.divisions
        entrants = published.default_competing_entrants(message.active_memberships, division_id=division.id)
        config = published.RoundConfig(
            stages=[published.StageConfig(num_episodes=2)],
            entrant_policy_version_ids=[one.policy_version_id for one in entrants],
        )
        return published.ScheduleRoundsResponse(
            rounds=[published.RoundSpec(division_id=division.id, round_config=config)]
        )

    def round_start(self, message: Any) -> Any:
        """Two games, with the seats exchanged."""
        self.start = message
        players = [member.policy_version_id for member in message.memberships]
        self.scores = {player: [] for player in players}
        rosters = {"there": players, "back": players[::-1]}
        self.waiting = {*rosters}
        return published.ScheduleEpisodes(
            episodes=[
                published.EpisodeRequest(
                    request_id=id, variant_id=message.variants[0].id, policy_version_ids=roster, tags={"leg": id}
                )
                for id, roster in rosters.items()
            ]
        )

    def episode_result(self, message: Any) -> None:
        """Count an episode."""
        for one in message.scores:
            self.scores[one.policy_version_id].append(one.score)
        self.waiting.discard(message.request_id)

    def episode_completed_request(self, _: Any) -> Any:
        """Nothing more is to be played."""
        return published.EpisodeCompletedResponse()

    def complete(self) -> Any:
        """The end of the round."""
        division = self.start.divisions[0].id
        means = {player: sum(scores) / len(scores) for player, scores in self.scores.items()}
        order = sorted(means, key=lambda player: -means[player])
        rankings = [
            published.RankingEntry(policy_version_id=player, rank=rank, score=means[player])
            for rank, player in enumerate(order, 1)
        ]
        return published.RoundComplete(
            results=[published.DivisionRanking(division_id=division, rankings=rankings)],
            policy_membership_events=published.default_competing_membership_events(
                self.start.memberships, division_id=division
            ),
            round_display={"legs": 2},
            state={"rounds": (self.start.state or {"rounds": 0})["rounds"] + 1},
        )

    def round_completed_request(self, message: Any) -> Any:
        """A second round follows the first."""
        assert message.round_results
        again = published.RoundSpec(division_id=message.division.id, round_config=published.RoundConfig())
        return published.RoundCompletedResponse(follow_up_rounds=[] if message.recent_results else [again])

    def rank_division_request(self, message: Any) -> Any:
        """The sum of all scores, of rounds that have a beginning and an end."""
        assert all(one.created_at and one.completed_at for one in message.completed_rounds)
        totals: dict[str, float] = {}
        for one in message.round_results:
            totals[one.player_id] = totals.get(one.player_id, 0.0) + one.score
        order = sorted(totals, key=lambda player: (-totals[player], player))
        rankings = [
            published.DivisionLeaderboardEntry(
                player_id=player, rank=rank, score=totals[player], rounds_played=len(message.completed_rounds)
            )
            for rank, player in enumerate(order, 1)
        ]
        return published.RankDivisionResponse(rankings=rankings)

    def describe_division_request(self, message: Any) -> Any:
        """A description."""
        words = f"{len(message.active_memberships)} compete."
        return published.DescribeDivisionResponse(
            description=published.DivisionDescription(round_structure="There and back.", scoring_mechanics=words)
        )


async def converse(connection: ServerConnection) -> None:
    """Serve one socket until it closes."""
    conversation = Conversation()
    try:
        async for text in connection:
            for answer in conversation.answer(json.loads(text)):
                await connection.send(json.dumps(answer.to_json()))
    except ConnectionClosed:
        pass


def respond(connection: ServerConnection, request: Request) -> Response | None:
    """Answer the health probe."""
    return connection.respond(http.HTTPStatus.OK, "ok\n") if request.path == "/healthz" else None


async def main() -> None:
    """Serve until SIGTERM."""
    ending = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    async with serve(converse, os.environ["COGAME_HOST"], int(os.environ["COGAME_PORT"]), process_request=respond):
        await ending.wait()


if __name__ == "__main__":
    asyncio.run(main())
