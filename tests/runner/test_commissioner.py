"""Tournaments that a commissioner runs: what it decides, runs that were killed, and commissioners that misbehave."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.commissioners import Message, Vice, commissioned, program_of
from support.contest import played_on
from support.small_world import package_of

from coworld_core.commissioner.messages import state_bytes
from coworld_core.episode.events import EvaluationProgressed
from coworld_core.errors import CommissionerError, UsageError
from coworld_core.tournament import TournamentReport, read_log
from coworld_core.tournament.commissioning import STATE_BYTES
from coworld_core.tournament.league import CommissionedReport
from coworld_runner.commissioner import CommissionerOptions, find_commissioner
from coworld_runner.testing.fake import FakeContext
from coworld_runner.tournament import read_tournament

pytestmark = pytest.mark.slow

NOBODY = str(uuid.UUID(int=7))


def said_by(report: TournamentReport) -> CommissionedReport:
    assert report.commissioned is not None
    return report.commissioned


def kinds(place: Path) -> list[str]:
    return [event.kind for event in read_log(place / "events.ndjson")]


async def test_commissioner_ranks_and_moves_players(tmp_path: Path) -> None:
    heard: list[Message] = []
    async with commissioned(tmp_path, "first", "second", "third", rounds=3, program=program_of(heard=heard)) as (
        small,
        place,
    ):
        report = await played_on(small, place)
    said = said_by(report)
    assert (report.stopped, report.rounds, report.blocks) == ("rounds", 3, 10)
    assert [(one.round, one.division, len(one.rankings)) for one in said.rounds] == [
        (1, "Challengers", 3),
        (2, "Challengers", 2),
        (3, "Masters", 2),
    ]
    assert said.rounds[0].moves == ("first: Challengers → Masters: the best of the challengers",)
    assert report.standings[0].name == "first"
    assert (said.divisions[0].name, said.divisions[0].members[0].name) == ("Masters", "first")
    # what it wants kept comes back to it, and so do the places that it gave
    starts = [message for message in heard if message["type"] == "round_start"]
    assert [start["state"] for start in starts] == [None, {"masters": 1}, {"masters": 2}]
    assert len(starts[1]["recent_results"]) == 3
    # everything follows from the log
    again = read_tournament(place).report
    assert again.model_dump_json() == report.model_dump_json()
    shown = (place / "report.md").read_text()
    assert "1. first" in shown
    assert "masters: 1" in shown


async def test_resumed_run_repeats_no_logged_request(tmp_path: Path) -> None:
    heard: list[Message] = []
    async with commissioned(tmp_path, "first", "second", rounds=2, program=program_of(heard=heard)) as (small, place):
        with anyio.CancelScope() as scope:

            def stop(event: Any) -> None:
                # in the middle of the second round
                if isinstance(event, EvaluationProgressed) and event.blocks == 3:
                    scope.cancel()

            await played_on(small, place, listeners=(stop,), parallel=1)
        assert (kinds(place).count("round_decided"), kinds(place).count("episode_ended")) == (1, 3)
        first = (place / "events.ndjson").read_bytes()
        heard.clear()
        report = await played_on(small, place, parallel=1)
        assert (report.blocks, report.rounds, kinds(place).count("episode_ended")) == (4, 2, 4)
        # neither set up again nor asked which rounds are due, and the round that was open begins from the same state
        assert [message["type"] for message in heard] == ["round_start", "episodes_accepted", *["episode_result"] * 2]
        assert heard[0]["state"] == {"masters": 0}
        assert (place / "events.ndjson").read_bytes().startswith(first)
        # and when all is over, nobody is asked at all
        heard.clear()
        assert (await played_on(small, place)).blocks == 4
    assert heard == []


# --- hooks

HOOKS = ("episode_completed", "round_completed", "rank_division", "describe_division")


def hooked(**instead: Callable[[Message], Any]) -> Vice:
    """Answer all hooks; ``instead`` has other answers, by the type of the request."""
    extra = iter(["once"])

    def episode_completed(message: Message) -> Message:
        start = message["round_start"]
        players = [member["policy_version_id"] for member in start["memberships"]]
        wish = {"request_id": "decider", "variant_id": "default", "policy_version_ids": players}
        more = [wish] if start["round_number"] == 1 and next(extra, None) else []
        return {"type": "episode_completed_response", "episodes": more}

    def round_completed(message: Message) -> Message:
        last = message["division_memberships"][-1]
        benched = {"league_policy_membership_id": last["id"], "status": "competing", "substatus": "benched"}
        follow = {"division_id": message["division"]["id"], "round_config": {"stages": [{"label": "Again"}]}}
        return {
            "type": "round_completed_response",
            "policy_membership_events": [{**benched, "reason": "by the hook"}],
            "follow_up_rounds": [follow, follow],
        }

    def rank_division(message: Message) -> Message:
        ranked = sorted({(one["player_id"]) for one in message["round_results"]}, reverse=True)
        rounds = len(message["completed_rounds"])
        rankings = [
            {"player_id": name, "rank": at, "score": 10.0 * rounds + at, "rounds_played": rounds}
            for at, name in enumerate(ranked, 1)
        ]
        return {"type": "rank_division_response", "rankings": rankings}

    def describe_division(message: Message) -> Message:
        due = sum(one["status"] == "pending" for one in message["recent_rounds"])
        return {"type": "describe_division_response", "description": {"next_round": f"{due} to come"}}

    known = {
        "episode": episode_completed,
        "round": round_completed,
        "rank": rank_division,
        "describe": describe_division,
    }

    def vice(message: Message, answers: list[Message]) -> Any:
        kind = message["type"].removesuffix("_request")
        if kind not in HOOKS:
            return [*answers]
        other = instead.get(kind, known[kind.split("_")[0]])(message)
        return [other] if isinstance(other, dict | str) else other

    return vice


async def test_hooks_add_to_a_round_and_rank_its_division(tmp_path: Path) -> None:
    heard: list[Message] = []
    program = program_of(hooked(), heard=heard)
    async with commissioned(tmp_path, "first", "second", rounds=2, program=program, hooks=HOOKS) as (small, place):
        report = await played_on(small, place)
        again = read_tournament(place).report
    assert again.model_dump_json() == report.model_dump_json()
    # one more game than the round's two: the hook's; the second round is the one that follows, nobody asked for it
    assert (report.stopped, report.rounds, report.blocks) == ("rounds", 2, 5)
    assert kinds(place).count("rounds_due") == 1
    asked = [message["type"] for message in heard if message["type"].endswith("completed_request")]
    episode_over, round_over = "episode_completed_request", "round_completed_request"
    assert asked == [*[episode_over] * 3, round_over, *[episode_over] * 2, round_over]
    episodes = [message for message in heard if message["type"] == "episode_completed_request"]
    assert [len(one["completed_episode_results"]) for one in episodes] == [0, 1, 2, 0, 1]
    assert all(one["episode_result"]["request_id"] for one in episodes)
    # when each round began and ended is in the log, and told
    ranked = [
        one for message in heard if message["type"] == "rank_division_request" for one in message["completed_rounds"]
    ]
    assert len(ranked) == 3
    assert all(one["created_at"] < one["completed_at"] for one in ranked)
    # standings are the hook's, who scored what notwithstanding
    division = next(one for one in said_by(report).divisions if one.members)
    assert [(one.name, one.rank, one.score) for one in division.members] == [("second", 1, 21.0), ("first", 2, 22.0)]
    assert [one.name for one in report.standings] == ["second", "first"]
    assert {one.substatus for one in division.members} == {None, "benched"}
    # the limit of two rounds leaves no room for another that follows
    assert division.words == {"next_round": "0 to come"}
    assert "0 to come" in (place / "report.md").read_text()


def _strangers(_: Message) -> Message:
    return {
        "type": "rank_division_response",
        "rankings": [{"player_id": "nobody", "rank": 1, "score": 0, "rounds_played": 1}],
    }


HOOKED: dict[str, tuple[dict[str, Callable[[Message], Any]], str, str]] = {
    "ranks strangers": ({"rank_division": _strangers}, "commissioner_refused", "unknown players: nobody"),
    "moves strangers": (
        {"round_completed": lambda _: {"type": "round_completed_response", "policy_membership_events": event()}},
        "commissioner_refused",
        "which does not exist",
    ),
    "answers another hook": (
        {"describe_division": _strangers},
        "commissioner_nonsense",
        "rank_division_response after describe_division_request",
    ),
    "wants too much after an episode": (
        {
            "episode_completed": lambda message: {
                "type": "episode_completed_response",
                "policy_membership_events": event(),
            }
        },
        "commissioner_refused",
        "which does not exist",
    ),
    "says everything but the answer": (
        {"episode_completed": lambda _: [{"type": "episode_cancel", "request_id": "it", "reason": "no"}] * 101},
        "commissioner_oversized",
        "more than 100 messages before it answered episode_completed_request",
    ),
    "says too much before the answer": (
        {"round_completed": lambda _: [{"type": "episode_cancel", "request_id": "it", "reason": "x" * 60_000}] * 3},
        "commissioner_oversized",
        "more than 100000 bytes before it answered round_completed_request",
    ),
    "ends instead": ({"describe_division": lambda _: 3}, "commissioner_gone", "exited with status 3"),
    "has no such hook": ({"rank_division": lambda _: []}, "commissioner_silent", "nothing for 1 s"),
}


@pytest.mark.parametrize("what", HOOKED)
async def test_failing_hook_drops_its_round(tmp_path: Path, what: str) -> None:
    instead, code, words = HOOKED[what]
    program = program_of(hooked(**instead))
    options = CommissionerOptions(reply_timeout=1, message_bytes=100_000)
    async with commissioned(tmp_path, "first", "second", program=program, hooks=HOOKS) as (small, place):
        with pytest.raises(CommissionerError, match=words) as told:
            await played_on(small, place, commissioner_options=options)
        assert told.value.code == code
        report = read_tournament(place).report
    assert isinstance(report, TournamentReport)
    assert (report.blocks, report.rounds) == (0, 0)
    assert [(one.round, one.code) for one in said_by(report).rounds] == [(1, code)]
    assert "round_decided" not in kinds(place)
    assert {one.substatus for division in said_by(report).divisions for one in division.members} == {None}


# --- those that misbehave: what they say at a point, the code of what comes of it, and words of it


def at(kind: str, change: Callable[[list[Message]], Any]) -> Vice:
    """Answer one kind of message otherwise."""
    return lambda message, answers: change(answers) if message["type"] == kind else [*answers]


def complete(**changes: Callable[[Message], Any]) -> Vice:
    """End a round otherwise."""

    def change(message: Message, answers: list[Message]) -> Any:
        return [
            {**answer, **{key: value(answer) for key, value in changes.items()}}
            if answer["type"] == "round_complete"
            else answer
            for answer in answers
        ]

    return change


def episodes(**changes: Any) -> Vice:
    """Ask for other episodes, as often as they are refused."""
    memory: list[Message] = []

    def change(message: Message, answers: list[Message]) -> Any:
        if message["type"] == "round_start":
            memory[:] = answers
        if message["type"] not in ("round_start", "episodes_rejected"):
            return [*answers]
        wrong = [{**one, **changes} for one in memory[0]["episodes"]]
        return [{**memory[0], "episodes": wrong}]

    return change


def ranked(change: Callable[[list[Message]], list[Message]]) -> Callable[[Message], list[Message]]:
    """Change the first ranking of a round."""
    return lambda answer: [{**answer["results"][0], "rankings": change(answer["results"][0]["rankings"])}]


def placed(**changes: Any) -> Callable[[Message], list[Message]]:
    return ranked(lambda rankings: [{**rankings[0], **changes}, *rankings[1:]])


def event(**changes: Any) -> list[Message]:
    member = {"league_policy_membership_id": NOBODY, "status": "competing", "reason": "so"}
    return [{**member, **changes}]


DROPPED: dict[str, tuple[Any, str, str]] = {
    "hangs up": (at("round_start", lambda _: None), "commissioner_gone", "disconnected"),
    "crashes at once": (at("round_start", lambda _: 3), "commissioner_gone", "exited with status 3"),
    "crashes after the first result": (at("episode_result", lambda _: 4), "commissioner_gone", "exited with status 4"),
    "is no JSON": (at("round_start", lambda _: ["nope{"]), "commissioner_nonsense", "is not JSON"),
    "is no object": (at("round_start", lambda _: ["[]"]), "commissioner_nonsense", "not a JSON object"),
    "has no type": (at("round_start", lambda _: ["{}"]), "commissioner_nonsense", "has no type"),
    "is misspelt": (
        at("round_start", lambda _: [{"type": "round_compleet"}]),
        "commissioner_nonsense",
        "round_complete",
    ),
    "answers something else": (
        at("round_start", lambda _: [{"type": "schedule_rounds_response"}]),
        "commissioner_nonsense",
        "schedule_rounds_response after round_start",
    ),
    "is far too long": (at("round_start", lambda _: ["x" * 200_000]), "commissioner_oversized", "longer than 100000"),
    "cancels what it never asked for": (
        at("round_start", lambda _: [{"type": "episode_cancel", "request_id": "x", "reason": "y"}]),
        "commissioner_refused",
        "has not requested",
    ),
    "too few seats": (episodes(policy_version_ids=[NOBODY]), "commissioner_refused", "seats 1 players, and the game"),
    "unknown players": (episodes(policy_version_ids=[NOBODY] * 2), "commissioner_refused", "nobody competes as"),
    "another variant": (
        episodes(variant_id="other"),
        "commissioner_refused",
        "the variant that is played is 'default'",
    ),
    "the same id twice": (episodes(request_id="same"), "commissioner_refused", "with this id already"),
    "an empty id": (episodes(request_id=""), "commissioner_nonsense", "episodes.0.request_id"),
    "places for strangers": (
        complete(results=placed(policy_version_id=NOBODY)),
        "commissioner_refused",
        "not in the round",
    ),
    "a place twice": (complete(results=ranked(lambda of: [*of, of[0]])), "commissioner_refused", "more than one place"),
    "rank 0": (complete(results=placed(rank=0)), "commissioner_nonsense", "rank"),
    "no number": (complete(results=placed(score=float("nan"))), "commissioner_nonsense", "NaN"),
    "another division's round": (
        complete(results=lambda answer: [{**answer["results"][0], "division_id": NOBODY}]),
        "commissioner_refused",
        "in a division other than the round's",
    ),
    "moves strangers": (
        complete(policy_membership_events=lambda _: event()),
        "commissioner_refused",
        "which does not exist",
    ),
}


@pytest.mark.parametrize("what", DROPPED)
async def test_failed_round_is_dropped_completely(tmp_path: Path, what: str) -> None:
    vice, code, words = DROPPED[what]
    async with commissioned(tmp_path, "first", "second", program=program_of(vice)) as (small, place):
        with pytest.raises(CommissionerError, match=words) as told:
            await played_on(small, place, commissioner_options=CommissionerOptions(message_bytes=100_000))
        assert told.value.code == code
        report = read_tournament(place).report
        assert isinstance(report, TournamentReport)
        assert (report.blocks, report.rounds, report.matches) == (0, 0, ())
        assert [(one.round, one.code) for one in said_by(report).rounds] == [(1, code)]
        assert kinds(place)[-1] == "round_dropped"


async def test_episodes_of_a_commissioner_that_has_left_are_not_begun(tmp_path: Path) -> None:
    def leaves(message: Message, answers: list[Message]) -> Any:
        if message["type"] == "round_start":
            [wish] = [{**one, "episodes": one["episodes"] * 100} for one in answers]
            return [{**wish, "episodes": [{**one, "request_id": str(at)} for at, one in enumerate(wish["episodes"])]}]
        return 3 if message["type"] == "episodes_accepted" else [*answers]

    async with commissioned(tmp_path, "first", "second", program=program_of(leaves)) as (small, place):
        with pytest.raises(CommissionerError, match="exited with status 3") as told:
            await played_on(small, place)
        assert told.value.code == "commissioner_gone"
        # episodes that had begun when it left are finished
        assert kinds(place).count("episode_ended") < 100
        assert kinds(place)[-1] == "round_dropped"


async def test_after_a_failure_another_round_is_begun(tmp_path: Path) -> None:
    def first_round_only(message: Message, answers: list[Message]) -> Any:
        return 5 if message["type"] == "episode_result" and len(starts) == 1 else [*answers]

    starts: list[int] = []

    def counting(message: Message, answers: list[Message]) -> Any:
        starts.extend([1] if message["type"] == "round_start" else [])
        return first_round_only(message, answers)

    async with commissioned(tmp_path, "first", "second", program=program_of(counting)) as (small, place):
        with pytest.raises(CommissionerError):
            await played_on(small, place)
        report = await played_on(small, place)
    assert (report.stopped, report.rounds, report.blocks) == ("rounds", 1, 2)
    assert [(one.round, one.code) for one in said_by(report).rounds] == [(1, "commissioner_gone"), (2, "")]
    assert {match.round for match in report.matches} == {2}
    assert "Came to nothing: The commissioner exited with status 5." in (place / "report.md").read_text()


async def _never_there(_: FakeContext) -> int | None:
    await anyio.sleep_forever()


async def _ends(_: FakeContext) -> int | None:
    return 3


TICKLESS: dict[str, tuple[Any, str, str]] = {
    "is never ready": (program_of(before=_never_there), "commissioner_never_started", "not started"),
    "ends at once": (program_of(before=_ends), "commissioner_never_started", "status 3"),
    "lets nobody in": (program_of(shut=True), "commissioner_gone", "403"),
    "says nothing": (program_of(lambda _, __: []), "commissioner_silent", "nothing for 0.5 s"),
    "divisions of one name": (
        program_of(
            at(
                "league_migration_config_request",
                lambda answers: [{**answers[0], "divisions": [{"name": "A", "level": 0}] * 2}],
            )
        ),
        "commissioner_refused",
        "A stands for several",
    ),
    "moves to nowhere": (
        program_of(
            at(
                "league_migration_request",
                lambda answers: [
                    {
                        **answers[0],
                        "policy_membership_events": [
                            {**one, "to_division_id": NOBODY} for one in answers[0]["policy_membership_events"]
                        ],
                    }
                ],
            )
        ),
        "commissioner_refused",
        "a division that does not exist",
    ),
}


@pytest.mark.parametrize("what", TICKLESS)
async def test_without_a_round_nothing_is_logged(tmp_path: Path, what: str) -> None:
    program, code, words = TICKLESS[what]
    async with commissioned(tmp_path, "first", "second", program=program) as (small, place):
        log = (place / "events.ndjson").read_bytes()
        waits = what in ("is never ready", "says nothing")
        options = CommissionerOptions(start_timeout=0.5, reply_timeout=0.5) if waits else None
        if what == "says nothing":
            options = CommissionerOptions(reply_timeout=0.5)
        with pytest.raises(CommissionerError, match=words) as told:
            await played_on(small, place, commissioner_options=options)
        assert told.value.code == code
        assert (place / "events.ndjson").read_bytes() == log


async def test_corrected_or_slow_answers_are_accepted(tmp_path: Path) -> None:
    memory: list[Message] = []

    def once(message: Message, answers: list[Message]) -> Any:
        if message["type"] == "round_start":
            memory[:] = answers
            return [{**answers[0], "episodes": [{**answers[0]["episodes"][0], "variant_id": "other"}]}]
        return [*memory] if message["type"] == "episodes_rejected" else [*answers]

    heard: list[Message] = []
    program = program_of(once, heard=heard, pause=0.05)
    async with commissioned(tmp_path, "first", "second", program=program) as (small, place):
        assert (await played_on(small, place)).blocks == 2
    refusal = next(message for message in heard if message["type"] == "episodes_rejected")
    assert refusal["errors"] == {"game-1": "the variant that is played is 'default'"}


async def test_a_state_that_is_too_large_is_left_out_and_the_round_stays(tmp_path: Path) -> None:
    heard: list[Message] = []
    small_one, large_one = {"masters": 0, "notes": "o"}, {"masters": 0, "notes": "ö" * (STATE_BYTES // 2)}
    states = iter([small_one, large_one])
    vice = complete(state=lambda _: next(states, None))
    async with commissioned(tmp_path, "first", "second", rounds=3, program=program_of(vice, heard=heard)) as (
        small,
        place,
    ):
        report = await played_on(small, place)
    size = state_bytes(large_one)
    assert size == STATE_BYTES + len('{"masters":0,"notes":""}')
    assert (report.rounds, [one.state_refused for one in said_by(report).rounds]) == (3, [0, size, 0])
    assert [one["state"] for one in heard if one["type"] == "round_start"] == [None, small_one, small_one]
    assert f"{size} bytes is too large" in (place / "report.md").read_text()


async def test_a_former_name_of_a_division_need_not_exist(tmp_path: Path) -> None:
    def renames(answers: list[Message]) -> list[Message]:
        return [{**answers[0], "divisions": [{**one, "previous_name": "Daily"} for one in answers[0]["divisions"]]}]

    vice = at("league_migration_config_request", renames)
    async with commissioned(tmp_path, "first", "second", program=program_of(vice)) as (small, place):
        report = await played_on(small, place)
    assert (report.stopped, report.rounds) == ("rounds", 1)
    assert {one.name for one in said_by(report).divisions} == {"Challengers", "Masters"}


async def test_when_nothing_is_due_it_ends_and_asks_again_next_time(tmp_path: Path) -> None:
    due = False
    vice = at("schedule_rounds_request", lambda answers: [*answers] if due else [{**answers[0], "rounds": []}])
    async with commissioned(tmp_path, "first", "second", program=program_of(vice)) as (small, place):
        for _ in range(2):
            assert (await played_on(small, place)).stopped == "rounds"
        assert kinds(place).count("rounds_due") == 1
        due = True
        assert (await played_on(small, place)).blocks == 2


def test_commissioner_is_resolved_by_id_image_or_command() -> None:
    manifest: dict[str, Any] = json.loads(
        (Path(__file__).parents[2] / "examples/paintarena/coworld_manifest_template.json").read_text()
    )
    manifest["game"]["version"] = "1"
    text = json.dumps(manifest).replace("{{PAINTARENA_IMAGE}}", "paintarena:latest")
    package = package_of(json.loads(text))
    assert find_commissioner(package).name == "two-divisions"
    command = find_commissioner(package, "python -m 'my own'").runnable
    assert (command.run, command.image) == (("python", "-m", "my own"), "paintarena:latest")
    assert find_commissioner(package, "else/where:1").runnable.image == "else/where:1"
    with pytest.raises(UsageError, match="Did you mean 'two-divisions'"):
        find_commissioner(package, "two-division")
