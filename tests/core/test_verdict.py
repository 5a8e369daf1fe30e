"""Which episodes count, and whose fault it is that one does not."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coworld_core.api.episodes import EpisodeErrorType
from coworld_core.episode.outcome import Fault
from coworld_core.episode.record import ArtifactRecord, EpisodeRecord
from coworld_core.episode.verdict import Verdict, VerdictPolicy, judge, judge_error
from coworld_core.errors import BackendError, CoworldError, ImageError, UsageError

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
OVER = 5.0
"""When the game's part was over."""
PUBLISHED = EpisodeErrorType.known()
GOES_ON = VerdictPolicy(players_end_it=False)
ENDS = VerdictPolicy(players_end_it=True)


def fault(party: str, error_type: str, slot: int | None = None, seconds: float = 3.0) -> Fault:
    said: dict[str, Any] = {"party": party, "error_type": error_type, "slot": slot, "seconds": seconds}
    return Fault(message="It happened.", time=NOW, **said)


def record(*faults: Fault, results: bool = True, replay: bool = True, status: str = "") -> EpisodeRecord:
    """What is left of a run with these faults, in the order they were seen."""
    values: dict[str, Any] = {"results": {"scores": [1, 2]}, "scores": (1.0, 2.0)} if results else {}
    return EpisodeRecord(
        run_id="r",
        coworld="c",
        version="1",
        backend="process",
        variant="v",
        started_at=NOW,
        ended_at=NOW,
        seconds=1,
        status=status or ("completed" if results else "failed"),  # type: ignore[arg-type]
        faults=faults,
        over_seconds=OVER,
        artifacts=(ArtifactRecord(path="replay", size=1, sha256="00"),) if replay else (),
        **values,
    )


PLAYER = fault("player", "player_error", 1)
LATER = fault("player", "player_timeout", 0, OVER + 1)
PLATFORM = fault("platform", "platform_error")
VIOLATION = fault("game", "game_contract_violation")
INTERRUPTED = fault("operator", "interrupted", seconds=OVER + 1)


@pytest.mark.parametrize(
    ("played", "policy"),
    [
        (record(), ENDS),
        (record(replay=False), VerdictPolicy(replay=False)),
        # Results that are there count, whatever players did on the way: they say how each of them did
        (record(PLAYER, LATER), GOES_ON),
        (record(PLATFORM), GOES_ON),
        # A player that failed when the game was over has not cut anything short
        (record(LATER), ENDS),
    ],
)
def test_complete_episode_counts(played: EpisodeRecord, policy: VerdictPolicy) -> None:
    assert judge(played, policy) == Verdict(counts=True)


@pytest.mark.parametrize("policy", [GOES_ON, ENDS], ids=["goes-on", "ends"])
@pytest.mark.parametrize(
    ("played", "party", "error_type", "slot"),
    [
        (record(VIOLATION), "game", "game_contract_violation", None),
        # It is the game's to live with players that fail
        (record(PLAYER, VIOLATION), "game", "game_contract_violation", None),
        (record(PLAYER, fault("game", "results_missing"), results=False), "game", "results_missing", None),
        (record(PLAYER, fault("game", "game_unhealthy"), results=False), "game", "game_unhealthy", None),
        (record(PLAYER, PLATFORM, results=False), "platform", "platform_error", None),
        # The machine did it, and the game's end followed from that
        (record(PLATFORM, fault("game", "game_unhealthy"), results=False), "platform", "platform_error", None),
        # It waited in vain for a player that had failed
        (record(PLAYER, fault("game", "episode_timeout"), results=False), "player", "player_error", 1),
        (record(fault("game", "episode_timeout"), results=False), "game", "episode_timeout", None),
        (record(PLAYER, results=False), "player", "player_error", 1),
        (record(fault("operator", "config_error"), results=False), "operator", "config_error", None),
        (record(INTERRUPTED, status="interrupted"), "operator", "interrupted", None),
        (record(results=False), "game", "results_missing", None),
        (record(replay=False), "game", "replay_missing", None),
        (record(LATER, replay=False), "game", "replay_missing", None),
        # A game that ends badly may have been cut off in its replay
        (record(fault("game", "game_unhealthy"), replay=False), "game", "game_unhealthy", None),
    ],
)
def test_incomplete_episode_does_not_count(
    played: EpisodeRecord, party: str, error_type: str, slot: int | None, policy: VerdictPolicy
) -> None:
    verdict = judge(played, policy)
    assert (verdict.counts, verdict.party, verdict.error_type, verdict.slot) == (False, party, error_type, slot)


def test_results_of_a_game_that_was_cut_short_do_not_count() -> None:
    """A game may keep its results up to date while it plays; a player's failure ends it in the middle."""
    verdict = judge(record(PLAYER), ENDS)
    assert (verdict.counts, verdict.error_type, verdict.slot) == (False, "player_error", 1)
    # Where the game goes on without the player, its results are those of a whole game
    assert judge(record(PLAYER), GOES_ON).counts
    assert not judge(record(PLAYER, replay=False), GOES_ON).counts


ANY_FAULT = st.one_of(
    st.builds(
        fault,
        st.just("player"),
        st.sampled_from(["player_error", "player_timeout", "player_left_early", "player_never_started"]),
        st.integers(0, 3),
        st.floats(0, 10),
    ),
    st.builds(
        fault,
        st.sampled_from(["game", "platform", "operator"]),
        st.sampled_from(["game_unhealthy", "episode_timeout", "platform_error", "results_missing"]),
        st.none(),
        st.floats(0, 10),
    ),
)


@given(st.lists(ANY_FAULT, max_size=5), st.booleans(), st.booleans(), st.builds(VerdictPolicy, replay=st.booleans()))
def test_player_is_not_blamed_when_another_fault_explains_it(
    faults: list[Fault], results: bool, replay: bool, policy: VerdictPolicy
) -> None:
    played = record(*faults, results=results, replay=replay)
    verdict = judge(played, policy)
    explains = [item for item in faults if item.party != "player" and item.error_type != "episode_timeout"]
    assert verdict.counts is (verdict.error_type is None)
    assert not verdict.counts or (results and not any(item.party == "game" for item in faults))
    if not results and explains:
        assert verdict.party != "player"
    if verdict.party == "player":
        assert any(item.party == "player" and item.slot == verdict.slot for item in faults)
    # Whoever asks for the record's own fault hears the same, where the game did not come to its end
    if not results:
        assert verdict.error_type == (played.fault.error_type if played.fault else "results_missing")


@pytest.mark.parametrize("error_type", Fault.model_fields["error_type"].annotation.__args__)  # type: ignore[union-attr]
def test_error_types_are_those_of_the_platform(error_type: str) -> None:
    verdict = judge(record(fault("game", error_type), results=False))
    assert verdict.published_type in PUBLISHED
    # And nothing is lost by it
    assert verdict.published_type == error_type or verdict.published_message.startswith(f"{error_type}: ")


def test_a_player_whose_image_is_not_to_be_had() -> None:
    verdict = judge(record(fault("player", "image_unreachable", 0), results=False))
    assert (verdict.published_type, verdict.slot) == ("player_error", 0)


@pytest.mark.parametrize(
    ("party", "published"), [("game", "game_unhealthy"), ("platform", "crash"), ("operator", "crash")]
)
def test_an_image_that_is_no_player_s_is_not_always_the_game_s(party: Any, published: str) -> None:
    verdict = judge(record(fault(party, "image_unreachable"), results=False))
    assert (verdict.published_type, verdict.party, verdict.slot) == (published, party, None)


@pytest.mark.parametrize(
    ("error", "party", "error_type", "says"),
    [
        (ImageError("Wait.", code="registry_unavailable"), "platform", "image_unreachable", "Wait."),
        (ImageError("It is full.", code="disk_full"), "platform", "platform_error", "It is full."),
        (ImageError("There is none."), "operator", "image_unreachable", "There is none."),
        (UsageError("Nothing there.", code="state_missing"), "operator", "config_error", "state_missing: Nothing"),
        (BackendError("The engine said no."), "platform", "platform_error", "The engine said no."),
        (ZeroDivisionError("x"), "platform", "crash", "ZeroDivisionError: x"),
    ],
)
def test_errors_that_ended_it(error: Exception, party: str, error_type: str, says: str) -> None:
    verdict = judge_error(error)
    assert (verdict.counts, verdict.party, verdict.error_type) == (False, party, error_type)
    assert says in verdict.published_message
    assert verdict.hint == (error.hint if isinstance(error, CoworldError) else None)


def test_the_error_document_is_the_published_one() -> None:
    verdict = Verdict(counts=False, error_type="player_timeout", message="It ran.", hint="Read its log.", slot=3)
    document = json.loads(verdict.error_info)
    assert document == {
        "error_type": "player_error",
        "message": "player_timeout: It ran. Read its log.",
        "failed_policy_index": 3,
    }
    assert list(document) == ["error_type", "message", "failed_policy_index"]
    long = json.loads(Verdict(counts=False, error_type="crash", message="ü" * 5000).error_info)
    assert len(long["message"]) == 2000
    assert long["failed_policy_index"] is None
    elsewhere = Verdict(counts=False, error_type="crash", message="It ended.", hint="Read logs/game.stderr.log.")
    assert json.loads(elsewhere.error_info)["message"] == "It ended."
