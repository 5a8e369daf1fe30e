"""The commissioners of a Coworld in its certification: one decides a small round, and broken ones are told apart."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from support.commissioners import Message, Vice, program_of
from support.small_world import MANIFEST, package_of

from coworld_core.manifest.models import Manifest
from coworld_runner.certification.certification_record import Evidence
from coworld_runner.certification.commissioner_check import check_commissioners
from coworld_runner.evaluation.commissioner import CommissionerOptions
from coworld_runner.testing.fake_backend import FakeBackend, FakeContext


def declared(*images: str) -> Manifest:
    document = json.loads(json.dumps(MANIFEST))
    entry = {"name": "C", "type": "commissioner", "description": "Decides.", "run": ["decide"]}
    document["commissioner"] = [{**entry, "id": f"c{number}", "image": image} for number, image in enumerate(images)]
    return package_of(document).manifest


async def checked(manifest: Manifest, programs: dict[str, Any], *, timeout: float = 30.0) -> list[Evidence]:
    with anyio.fail_after(60):
        async with FakeBackend(programs) as backend:
            return await check_commissioners(
                manifest,
                (1.0, 2.5),
                backend=backend,
                publish=lambda _: None,
                options=CommissionerOptions(start_timeout=10.0, reply_timeout=1.0, stop_grace=0.5),
                timeout=timeout,
            )


async def test_each_commissioner_decides_a_round() -> None:
    heard: list[Message] = []
    programs = {"one": program_of(heard=heard), "two": program_of()}
    first, second = await checked(declared("one", "two"), programs)
    assert (first.code, first.ok, second.ok) == ("commissioner_decides", True, True)
    assert first.message.startswith("commissioner 'c0' decided a round of 2 episodes")
    kinds = [message["type"] for message in heard]
    assert kinds[:3] == ["league_migration_config_request", "league_migration_request", "schedule_rounds_request"]
    assert kinds.count("episode_result") == 2
    (start,) = [message for message in heard if message["type"] == "round_start"]
    assert [len(message["scores"]) for message in heard if message["type"] == "episode_result"] == [2, 2]
    assert len(start["memberships"]) == 2


def at(kind: str, instead: list[Message | str] | int | None) -> Vice:
    """The right answers, except to messages of a type."""
    return lambda message, answers: instead if message["type"] == kind else [*answers]


async def never_ready(_: FakeContext) -> int:
    return 3


# Every fault of a commissioner is in `test_commissioner`; here is one of each way to come out of the check
BROKEN: dict[str, tuple[Any, str, str]] = {
    "ends at once": (program_of(before=never_ready), "commissioner_never_started", "3"),
    "disconnects": (program_of(at("round_start", None)), "commissioner_gone", "disconnected"),
    "says nothing": (program_of(at("schedule_rounds_request", [])), "commissioner_silent", "1 s"),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_commissioner_is_told_by_its_fault(name: str) -> None:
    program, code, words = BROKEN[name]
    (found,) = await checked(declared("it"), {"it": program})
    assert (found.code, found.broken) == (code, True)
    assert found.message.startswith("commissioner 'c0': ")
    assert words in found.message


async def test_a_round_without_end_and_one_that_is_not_wanted() -> None:
    numbers = iter(range(10**6))

    def again(message: Message, answers: list[Message]) -> list[Message | str] | int | None:
        """One more game after each."""
        if message["type"] not in ("round_start", "episode_result"):
            return [*answers]
        (wish, *_) = answers[0].get("episodes", [{}]) if message["type"] == "round_start" else [kept[0]]
        kept[:] = [wish]
        return [{"type": "schedule_episodes", "episodes": [{**wish, "request_id": f"game {next(numbers)}"}]}]

    kept: list[Message] = []
    (endless,) = await checked(declared("it"), {"it": program_of(again, pause=0.01)}, timeout=0.5)
    assert (endless.code, endless.broken) == ("commissioner_silent", True)
    none = program_of(at("schedule_rounds_request", [{"type": "schedule_rounds_response"}]))
    (idle,) = await checked(declared("it"), {"it": none})
    assert (idle.code, idle.level) == ("commissioner_idle", "note")
