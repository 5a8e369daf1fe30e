"""Who is to blame: every row of the table, and whatever else may be seen in whatever order."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.full import FULL

from coworld_core.episode.outcome import Exit
from coworld_core.errors import BackendError, ImageError, StartError, TransferError, UsageError
from coworld_runner.episode.blame import TABLE, Circumstances, Observation, Row, rule

OK = Exit(reason="exited", code=0)
BAD = Exit(reason="exited", code=3)
STOPPED = Exit(reason="stopped")
LOST = Exit(reason="lost")
BLAMED = Circumstances(blamed=frozenset({1}))


def of_game(what: Any, **more: Any) -> Observation:
    return Observation(what=what, component="game", details="WORDS", **more)


def of_player(what: Any, slot: int = 1, **more: Any) -> Observation:
    return Observation(what=what, component="player", slot=slot, details="WORDS", **more)


def started(code: str) -> StartError:
    return StartError("It did not start.", code=code)


# What each row is there for, in the table's own order; the sentence must be the row's.
EXAMPLES: list[tuple[str, Observation, Circumstances]] = [
    ("a port that the game must have is taken", of_game("not_started", error=started("port_taken")), Circumstances()),
    (
        "a registry does not have the game's image, as",
        of_game("not_started", error=started("image_absent")),
        Circumstances(),
    ),
    ("the game cannot be started", of_game("not_started", error=started("program_missing")), Circumstances()),
    (
        "a registry does not have a player's image, as",
        of_player("not_started", error=started("image_absent")),
        Circumstances(),
    ),
    ("a player cannot be started", of_player("not_started", error=started("port_taken")), Circumstances()),
    ("the host removes or loses the game before", of_game("not_ready", exit=LOST), Circumstances()),
    (
        "the game ends before it is ready, and its image has a newer interpreter",
        of_game("not_ready", exit=BAD, unlike="its image has node 24, this machine v20"),
        Circumstances(),
    ),
    ("the game ends, or stays silent, before", of_game("not_ready", exit=None), Circumstances()),
    ("a page is missing", of_game("violation"), Circumstances()),
    ("the game ends with 0", of_game("ended", exit=STOPPED), Circumstances()),
    ("the host removes or loses the game", of_game("ended", exit=LOST), Circumstances()),
    (
        "the game ends other than with 0, and its image has a newer interpreter",
        of_game("ended", exit=BAD, unlike="its image has node 24, this machine v20"),
        Circumstances(),
    ),
    ("the game ends other than with 0, or", of_game("ended", exit=BAD), Circumstances()),
    ("a player ends that is blamed", of_player("ended", exit=BAD), BLAMED),
    ("a player ends with 0, or is stopped", of_player("ended", exit=OK), Circumstances(game_failed=True)),
    ("a player ends badly after something went wrong", of_player("ended", exit=BAD), Circumstances(game_failed=True)),
    ("a player ends badly when the game", of_player("ended", exit=BAD, ended=4.0), Circumstances(stopped_at=4.0)),
    ("a player ends badly after the seat", of_player("ended", exit=BAD, ended=4.0), Circumstances(disturbed_at=4.0)),
    (
        "a player is killed, or what supervises it",
        of_player("ended", exit=Exit(reason="signal", signal=9)),
        Circumstances(within_reach=True),
    ),
    ("the host removes or loses a player", of_player("ended", exit=LOST), Circumstances()),
    (
        "a player ends other than with 0, and its image has a newer interpreter",
        of_player("ended", exit=BAD, unlike="its image has node 24, this machine v20"),
        Circumstances(),
    ),
    ("a player ends other than with 0, while", of_player("ended", exit=BAD, ended=3.9), Circumstances(stopped_at=4.0)),
    ("a player has not connected that is blamed", of_player("never_connected"), BLAMED),
    ("a player ends with 0 without", of_player("never_connected", exit=OK), Circumstances()),
    ("a player has not connected when its time", of_player("never_connected"), Circumstances()),
    ("a player has left early that is blamed", of_player("left_early"), BLAMED),
    ("a player ends with 0 long before the game is over", of_player("left_early"), Circumstances()),
    ("a player has left that is blamed", of_player("abandoned"), BLAMED),
    ("a player ends with 0 long before the game is over, which", of_player("abandoned"), Circumstances()),
    ("a player that is blamed already, or whose", of_player("still_running"), Circumstances(game_failed=True)),
    ("a player still runs too long", of_player("still_running"), Circumstances()),
    ("nothing can be seen at the deadline", of_game("deadline"), Circumstances(trouble="it is off", stage="prepare")),
    ("images, or starting what runs", of_game("deadline"), Circumstances(stage="prepare")),
    ("the game is not ready at the deadline", of_game("deadline"), Circumstances(stage="ready")),
    ("the game is not over at the deadline", of_game("deadline"), Circumstances(stage="play")),
    (
        "a game that was stopped for a player's failure",
        of_game("results_malformed"),
        dataclasses.replace(BLAMED, game_exit=STOPPED),
    ),
    ("the results are wrong", of_game("results_malformed"), dataclasses.replace(BLAMED, game_exit=OK)),
    ("there are no results, for a reason", of_game("results_missing"), dataclasses.replace(BLAMED, game_exit=STOPPED)),
    ("the game ends without results", of_game("results_missing"), dataclasses.replace(BLAMED, game_exit=OK)),
    (
        "the platform or this machine cannot bring",
        of_player("not_collected", error=TransferError("Full.", code="disk_full")),
        Circumstances(),
    ),
    (
        "what a player wants to keep",
        of_player("not_collected", error=TransferError("A link.", code="not_regular")),
        Circumstances(),
    ),
    (
        "what a game may leave besides",
        of_game("not_kept", error=TransferError("A link.", code="not_regular")),
        Circumstances(),
    ),
    (
        "results or replay are no regular file",
        of_game("not_collected", error=TransferError("A link.", code="not_regular")),
        Circumstances(),
    ),
    (
        "a registry cannot be reached",
        Observation(what="failed", details="No.", error=ImageError("No.", code="registry_unavailable")),
        Circumstances(),
    ),
    (
        "a registry does not have the game's image",
        of_game("failed", error=ImageError("No.", code="image_absent")),
        Circumstances(),
    ),
    (
        "a registry does not have a player's image",
        of_player("failed", error=ImageError("No.", code="image_absent")),
        Circumstances(),
    ),
    ("an image is not available", Observation(what="failed", details="No.", error=ImageError("No.")), Circumstances()),
    (
        "the config, the options or the manifest",
        Observation(what="failed", details="No.", error=UsageError("No.")),
        Circumstances(),
    ),
    ("the engine fails", Observation(what="failed", details="No.", error=BackendError("No.")), Circumstances()),
    ("you interrupt it before its game is over", Observation(what="interrupted"), Circumstances()),
    ("the runner itself fails", Observation(what="crashed"), Circumstances()),
]


LIMITS: tuple[Any, ...] = ("oom", "disk", "pids", "signal")


@pytest.mark.parametrize(
    ("seen", "known", "blamed"),
    [
        *((of_game("ended", exit=Exit(reason=how)), Circumstances(), ("game", "game_unhealthy")) for how in LIMITS),
        *((of_player("ended", exit=Exit(reason=how)), Circumstances(), ("player", "player_error")) for how in LIMITS),
        (of_game("ended", exit=Exit(reason="evicted")), Circumstances(), ("platform", "platform_error")),
        (of_player("ended", exit=Exit(reason="evicted")), Circumstances(), ("platform", "platform_error")),
        # Before it is ready, an end with 0 is none that it may have
        (of_game("not_ready", exit=OK), Circumstances(), ("game", "game_unhealthy")),
        # Whatever else it did, its results are judged
        (of_game("results_malformed"), Circumstances(game_failed=True), ("game", "results_malformed")),
        # Two players that fail are both blamed
        (of_player("ended", slot=0, exit=BAD), BLAMED, ("player", "player_error")),
    ],
)
def test_every_way_to_end_is_somebodys(seen: Observation, known: Circumstances, blamed: tuple[str, str]) -> None:
    row = rule(seen, known).row
    assert (row.party, row.error_type) == blamed


def test_every_row_has_its_example() -> None:
    assert len(EXAMPLES) == len(TABLE)
    assert len({row.seen for row in TABLE}) == len(TABLE)


@pytest.mark.parametrize(
    ("row", "example"), list(zip(TABLE, EXAMPLES, strict=True)), ids=[row.seen.replace(" ", "-") for row in TABLE]
)
def test_blame_rule(row: Row, example: tuple[str, Observation, Circumstances]) -> None:
    sentence, seen, known = example
    assert row.seen.startswith(sentence)
    ruling = rule(seen, known, who="WHO", log="logs/it.log")
    assert ruling.row is row
    # It says what was seen, in the words there are for it, and leaves no gap
    assert (row.party is None) is (row.error_type is None)
    assert row.party is None or ruling.message
    assert "{" not in ruling.message + (ruling.hint or "")
    if "{words}" in row.says:
        assert seen.details in ruling.message
    if "{exit}" in row.says:
        assert str(seen.exit) in ruling.message
    if row.party is None:
        assert ruling.hint is None


def test_the_page_has_the_table() -> None:
    page = Path(__file__).parents[2].joinpath("docs/runtime-contract.md").read_text()
    rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in page.splitlines() if line[:2] == "| "]
    told = {(seen, error_type, party) for seen, error_type, party in (row for row in rows if len(row) == 3)}
    assert {(row.seen, row.error_type, row.party) for row in TABLE if row.party is not None} <= told
    parties = {row.party for row in TABLE}
    assert sum(party in parties for _, _, party in told) == sum(row.party is not None for row in TABLE)


def test_observer_can_override_the_hint() -> None:
    assert rule(of_player("still_running", hint="Do {this}."), Circumstances()).hint == "Do {this}."


# --- whatever is seen, in whatever order ----------------------------------------------------------------------------

EXITS = st.one_of(
    st.none(),
    st.builds(Exit, reason=st.just("exited"), code=st.integers(0, 3)),
    st.builds(Exit, reason=st.sampled_from(["signal", "oom", "disk", "pids", "stopped", "evicted", "lost"])),
)
ERRORS = st.one_of(
    st.builds(StartError, st.just("No."), code=st.sampled_from(["port_taken", "program_missing", "engine_failed"])),
    st.builds(TransferError, st.just("No."), code=st.sampled_from(["disk_full", "not_regular", "file_too_large"])),
)
UNITS = st.one_of(st.just(("game", None)), st.tuples(st.just("player"), st.integers(0, 2)))
OF_UNITS = ("not_started", "ended", "not_collected")
OF_PLAYERS = ("never_connected", "left_early", "abandoned", "still_running")
OF_GAMES = ("not_ready", "violation", "deadline", "results_malformed", "results_missing")


@st.composite
def sights(draw: st.DrawFn) -> Observation:
    what = draw(st.sampled_from((*OF_UNITS, *OF_PLAYERS, *OF_GAMES, "failed", "interrupted", "crashed")))
    if what in OF_UNITS:
        component, slot = draw(UNITS)
    elif what in OF_PLAYERS:
        component, slot = "player", draw(st.integers(0, 2))
    else:
        component, slot = ("game" if what in OF_GAMES else None), None
    return Observation(
        what=what,  # type: ignore[arg-type]
        component=component,  # type: ignore[arg-type]
        slot=slot,
        exit=draw(EXITS),
        ended=draw(st.none() | st.floats(0, 10)),
        details="w",
        error=draw(ERRORS),
    )


@pytest.mark.slow
@settings(max_examples=500 if FULL else 150)
@given(
    seen=st.lists(sights(), min_size=1, max_size=12),
    game_exit=EXITS,
    stopped_at=st.none() | st.floats(0, 10),
    disturbed_at=st.none() | st.floats(0, 10),
    stage=st.sampled_from(["prepare", "start_game", "ready", "start_players", "play", "finish"]),
    trouble=st.sampled_from(["", "it is off"]),
)
def test_exactly_one_party_is_blamed_for_any_observations(
    seen: list[Observation],
    game_exit: Exit | None,
    stopped_at: float | None,
    disturbed_at: float | None,
    stage: str,
    trouble: str,
) -> None:
    """One ruling for everything; and nobody is blamed twice, for what the host did, or for what the game did."""
    blamed: list[int] = []
    failed = False
    for sight in seen:
        known = Circumstances(
            stage=stage,
            trouble=trouble,
            game_exit=game_exit,
            stopped_at=stopped_at,
            disturbed_at=disturbed_at,
            blamed=frozenset(blamed),
            game_failed=failed,
        )
        ruling = rule(sight, known)
        row = ruling.row
        if row.party is None:
            continue
        assert ruling.message
        if sight.what in {"ended", "not_ready"} and sight.exit is not None and sight.exit.reason in {"lost", "evicted"}:
            assert row.party == "platform"
        if row.party == "player":
            assert sight.component == "player"
            assert sight.slot is not None
            # That it could not even be started is its own doing, whatever else went wrong
            if sight.what != "not_started":
                assert not failed
                assert sight.slot not in blamed
            if sight.what == "ended":
                assert sight.exit is None or not (sight.exit.ok or sight.exit.reason == "stopped")
                moments = [moment for moment in (stopped_at, disturbed_at) if moment is not None]
                assert sight.ended is None or all(sight.ended < moment for moment in moments)
            blamed.append(sight.slot)
        else:
            assert row.party != "game" or sight.component == "game"
            failed = True
