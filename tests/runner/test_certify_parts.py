"""Parts of a certification by themselves: the steps' table, the ledger, attendance, leaked tokens, knocks at a door."""

import dataclasses
import datetime as dt
import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from support.small_world import MANIFEST, package_of, played, slot

from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.outcome import Exit, Fault
from coworld_core.episode.record import SlotRecord, read_record
from coworld_core.hints import Hint, hint_fields
from coworld_runner.certification.candidate import Candidate, CertifyOptions
from coworld_runner.certification.certification_steps import STEPS, blamed_in, carry_out
from coworld_runner.certification.contract_checks import SeatState, wrong_callers
from coworld_runner.certification.player_presence import check_attendance
from coworld_runner.certification.secret_leaks import slots_leaked
from coworld_runner.certification.step_answers import StepAnswer, advice, missing, skipped
from coworld_runner.certification.step_ledger import StepLedger
from coworld_runner.certification.transcript import OWN_STEPS, TRANSCRIPT
from coworld_runner.episode.backend_choice import make_backend
from coworld_runner.kit.server.manifest import manifest_update
from coworld_runner.kit.server.scaffolds import new_game
from coworld_runner.package.resolver import resolve_package
from coworld_runner.testing.fake_backend import FakeBackend

NOW = dt.datetime(2026, 11, 21, tzinfo=dt.UTC)


# --- steps and ledger ---------------------------------------------------------------------------------------------


def candidate(workspace: Path) -> Candidate:
    return Candidate(
        package=package_of(MANIFEST),
        backend=FakeBackend(),
        options=CertifyOptions(),
        layout=EpisodeLayout(workspace),
        publish=lambda _: None,
    )


def test_the_fault_that_decides_comes_first_and_results_are_another_steps() -> None:
    def fault(party: Any, error_type: Any, slot: int | None = None) -> Fault:
        return Fault(party=party, error_type=error_type, slot=slot, message="It happened.", time=NOW)

    player, game = fault("player", "player_error", 1), fault("game", "game_unhealthy")
    record = played(faults=(player, fault("game", "results_missing"), game))
    assert [(item.code, item.slot) for item in blamed_in(record)] == [("game_unhealthy", None), ("player_error", 1)]


def test_every_step_of_the_transcript_is_carried_out_and_no_other() -> None:
    assert list(STEPS) == [step.id for step in TRANSCRIPT.steps + OWN_STEPS]


@pytest.mark.parametrize(
    ("step", "ledger", "lacking"),
    [
        ("smoke-episode", StepLedger(fixture_ok=False), "fixture-conforms did not pass: the fixture is not a valid"),
        ("smoke-episode", StepLedger(), "images-reachable did not pass: without counting-game and counting-player"),
        ("results-conform", StepLedger(), "smoke-episode did not pass: there was no episode"),
        ("replay-present", StepLedger(), "smoke-episode did not pass: there was no episode"),
        ("replay-loadable", StepLedger(), "replay-present did not pass: there is no replay"),
    ],
)
async def test_a_step_says_which_premise_it_misses(tmp_path: Path, step: Any, ledger: StepLedger, lacking: str) -> None:
    answer = await carry_out(candidate(tmp_path), step, ledger)
    assert (answer.status, answer.skip_reason) == ("skip", "premise_failed")
    assert lacking in answer.detail


async def test_a_step_needs_nothing_but_what_it_is_given(tmp_path: Path) -> None:
    subject = candidate(tmp_path)
    subject.episode.workspace.mkdir()
    subject.episode.results.write_text(json.dumps({"scores": [1, 2], "ticks": 3}))
    answer = await carry_out(subject, "results-conform", StepLedger(episode=played(slot(0), slot(1))))
    assert (answer.status, answer.detail) == ("pass", "2 finite scores: 1, 2.")


async def test_reporters_of_a_platform_are_named_and_no_step_waits_for_them(tmp_path: Path) -> None:
    document = {**MANIFEST, "reporter": [{"reporter": "me/summary@1"}]}
    subject = dataclasses.replace(candidate(tmp_path), package=package_of(document))
    answer = await carry_out(subject, "supporting-roles", StepLedger())
    assert (answer.status, answer.detail) == ("pass", "no supporting roles declared that run here")
    assert [item.message for item in answer.evidence] == [
        "reporter 'me/summary@1' runs on its platform only; it was not run."
    ]


def test_a_skip_is_a_caveat_unless_it_leaves_the_verdict_open() -> None:
    ledger = StepLedger()
    images, smoke = TRANSCRIPT.steps[2], TRANSCRIPT.steps[4]
    ledger.note(images, skipped("not_applicable", "They were not looked at."), 0.0)
    ledger.note(smoke, missing("fixture-conforms", "it is none"), 0.0)
    assert ledger.caveats == ["images-reachable: They were not looked at."]


def test_a_ledger_keeps_no_secret() -> None:
    ledger = StepLedger()
    ledger.probes.tokens = ("hush",)
    assert ledger.plain("GET /player?token=hush \x1b[31m\ud800") == "GET /player?token=[token of slot 0] ?"
    hint = Hint("look_at", "Look at {address}.", address="/player?token=hush")
    image = TRANSCRIPT.steps[2]
    step = ledger.note(image, skipped("not_applicable", "No.", [advice("a", "A.", hint=hint)], hint=hint), 0.0)
    for said in (step, step.evidence[0]):
        assert hint_fields(said.hint) == {
            "hint": "Look at /player?token=[token of slot 0].",
            "hint_code": "look_at",
            "hint_values": {"address": "/player?token=[token of slot 0]"},
        }
    assert "hush" not in step.model_dump_json()


# --- attendance ---------------------------------------------------------------------------------------------------


def attendance(*slots: SlotRecord, seats: dict[int, SeatState] | None = None, **more: Any) -> StepAnswer:
    record = played(*slots, **more)
    return check_attendance(package_of(MANIFEST).manifest, record, seats or {}, directory="episode")


OPEN: dict[int, SeatState] = {0: "open", 1: "open"}
LATE = {"started": None, "ended": None, "exit": None}
NO_COMMAND = Fault(party="player", error_type="player_never_started", slot=0, message="No command.", time=NOW)
GAME_DIED = Fault(party="game", error_type="game_unhealthy", message="It died.", time=NOW)


@pytest.mark.parametrize(
    ("slots", "seats", "faults", "reason", "levels"),
    [
        # About when the game does, or while it writes its replay
        ((slot(0, ended=19.2), slot(1, ended=20.4)), {}, (), None, ["required", "required"]),
        ((slot(0, ended=14.0), slot(1, ended=14.1)), OPEN, (), None, ["required", "required"]),
        # The other stayed, or the game went on for long without them
        ((slot(0, ended=2.0), slot(1)), OPEN, (), "player_left_early", ["broken", "required"]),
        ((slot(0, ended=17.0), slot(1, ended=19.9)), OPEN, (), "player_left_early", ["broken", "required"]),
        ((slot(0, ended=5.0), slot(1)), OPEN, (), "player_left_early", ["broken", "required"]),
        ((slot(0, ended=2.0), slot(1, ended=2.0)), OPEN, (), "player_left_early", ["broken", "broken"]),
        # It could not be confirmed, or the game had closed the seat
        ((slot(0, ended=2.0), slot(1)), {}, (), None, ["advice", "required"]),
        ((slot(0, ended=2.0), slot(1)), {0: "closed"}, (), None, ["note", "required"]),
        ((slot(0, **LATE), slot(1)), {}, (), "players_missing", ["broken", "required"]),
        ((slot(0, **LATE), slot(1)), {}, (NO_COMMAND,), "players_missing", ["broken", "required"]),
        ((slot(0, exit=Exit(reason="exited", code=4)), slot(1)), {}, (), "player_error", ["broken", "required"]),
    ],
)
def test_players_stay_until_the_game_is_over(
    slots: tuple[SlotRecord, ...],
    seats: dict[int, SeatState],
    faults: tuple[Fault, ...],
    reason: str | None,
    levels: list[str],
) -> None:
    answer = attendance(*slots, seats=seats, faults=faults)
    assert (answer.status, answer.failure_reason) == ("fail" if reason else "pass", reason)
    assert ["broken" if item.broken else item.level for item in answer.evidence] == levels
    assert (NO_COMMAND.message in [item.message for item in answer.evidence]) is bool(faults)


def test_a_bundled_player_without_a_slot_fails() -> None:
    document = json.loads(json.dumps(MANIFEST))
    document["certification"]["players"] = [{"player_id": "first"}, {"player_id": "first"}]
    answer = check_attendance(package_of(document).manifest, played(slot(0), slot(1)), {}, directory="episode")
    assert answer.failure_reason == "players_missing"
    (item,) = [item for item in answer.evidence if item.broken]
    assert "'second'" in item.message


@pytest.mark.parametrize(("ends", "reason"), [("", None), ("raise SystemExit(3)\n", "player_error")])
async def test_players_without_a_slot_play_a_further_episode(tmp_path: Path, ends: str, reason: str | None) -> None:
    """A game of two seats with four bots: two of them have no seat in the fixture."""
    game = new_game("adding", directory=tmp_path / "adding").directory
    for name, begins in (("late", ""), ("later", ends)):
        bot = f"{begins}def act(observation, legal, rng):\n    return legal[0]\n"
        (game / "players" / f"{name}.py").write_text(bot)
    manifest_update(game).write()
    package = await resolve_package(game)
    (tmp_path / "out").mkdir()
    ledger = StepLedger(episode=played(slot(0), slot(1)))
    async with make_backend("process", package) as backend:
        subject = dataclasses.replace(candidate(tmp_path / "out"), package=package, backend=backend)
        answer = await carry_out(subject, "players-run", ledger)
        published = CertifyOptions(published="0.1.26")
        refused = await carry_out(dataclasses.replace(subject, options=published), "players-run", ledger)
    assert (answer.failure_reason, refused.failure_reason) == (reason, "players_missing")
    record = read_record(tmp_path / "out" / "unseated-1")
    assert [one.player_id for one in record.slots] == ["late", "later"]


def test_players_are_not_blamed_for_what_the_game_did_or_without_an_episode() -> None:
    broken = Exit(reason="exited", code=1)
    answer = attendance(slot(0, exit=broken), slot(1, exit=Exit(reason="stopped")), faults=(GAME_DIED,))
    assert (answer.status, answer.skip_reason) == ("skip", "premise_failed")
    assert {item.code for item in answer.evidence} == {"player_stopped"}
    unplayed = check_attendance(package_of(MANIFEST).manifest, None, {}, directory="episode")
    assert (unplayed.status, unplayed.skip_reason) == ("skip", "premise_failed")


# --- leaked tokens ------------------------------------------------------------------------------------------------

TOKENS = ("abcdefghijklmnopqrstuv", "0123456789012345678901", "never-written-anywhere")


@pytest.mark.parametrize("pack", [bytes, zlib.compress, gzip.compress], ids=["plain", "zlib", "gzip"])
async def test_tokens_are_found_wherever_they_stand(tmp_path: Path, pack: Any) -> None:
    path = tmp_path / "replay"
    # The second one across the border of two pieces
    filling = b"x" * ((1 << 20) - 10 - len(TOKENS[0]))
    path.write_bytes(pack(TOKENS[0].encode() + filling + TOKENS[1].encode() + b"end"))
    assert await slots_leaked(path, TOKENS) == (0, 1)


async def test_missing_or_clean_files_leak_no_token(tmp_path: Path) -> None:
    assert await slots_leaked(tmp_path / "absent", TOKENS) == ()
    (tmp_path / "clean").write_bytes(b"abcdefghijklmnopqrstu" * 1000)
    assert await slots_leaked(tmp_path / "clean", TOKENS) == ()
    (tmp_path / "damaged").write_bytes(zlib.compress(b"abc" * 5000)[:40] + TOKENS[1].encode())
    assert await slots_leaked(tmp_path / "damaged", TOKENS) == (1,)
    assert await slots_leaked(tmp_path / "clean", ("", "")) == ()


# --- who is refused -----------------------------------------------------------------------------------------------


def test_every_slot_is_tried_by_everyone_who_must_be_refused() -> None:
    tokens = ("t0", "t1", "t2")
    knocks = wrong_callers(tokens)
    for number in range(3):
        mine = {knock.code for knock in knocks if knock.slot == number}
        assert mine == {
            "refuses_wrong_token",
            "refuses_empty_token",
            "refuses_missing_token",
            "refuses_other_slots_token",
        }
    rest = {knock.code: knock.query for knock in knocks if knock.slot is None}
    assert rest == {
        "refuses_slot_out_of_range": {"slot": "3", "token": "t0"},
        "refuses_negative_slot": {"slot": "-1", "token": "t2"},
        "refuses_missing_slot": {"token": "t0"},
        "refuses_slot_not_a_number": {"slot": "first", "token": "t0"},
    }
    # Nobody who may sit is among them
    assert not any(
        knock.query.get("slot") == str(number) and knock.query.get("token") == token
        for knock in knocks
        for number, token in enumerate(tokens)
    )


def test_a_single_slot_has_no_other_tokens() -> None:
    assert "refuses_other_slots_token" not in {knock.code for knock in wrong_callers(("t0",))}


def test_a_short_deadline_is_the_game_s_to_become_healthy_too() -> None:
    usual, short = CertifyOptions(), CertifyOptions.within(30, offline=True)
    assert (short.episode.timeout_seconds, short.episode.ready_timeout_seconds) == (30, 30)
    assert short.sources.offline
    assert short.platform == usual.platform
    long = CertifyOptions.within(9999, platform="linux/arm64")
    assert (long.episode.timeout_seconds, long.episode.ready_timeout_seconds) == (
        9999,
        usual.episode.ready_timeout_seconds,
    )
    assert long.platform == "linux/arm64"
