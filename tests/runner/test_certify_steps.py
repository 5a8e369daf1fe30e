"""Every step of a certification by itself, and what it must reject: a small Coworld with one thing wrong at a time."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.fake_github import SHA, GitHub
from support.fake_server import serve_site
from support.small_world import LONG, MANIFEST, WithImages, fast, package_of, played, world

from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.outcome import Fault
from coworld_core.manifest.manifest_file import load_manifest
from coworld_core.manifest.models import Manifest
from coworld_core.versions import Generation
from coworld_runner.certification import Evidence, SourceOptions
from coworld_runner.certification.certification_record import StepId
from coworld_runner.certification.contract_checks import ContractProbes
from coworld_runner.certification.further_episodes import FurtherEpisodes, play_further
from coworld_runner.certification.step_ledger import StepLedger
from coworld_runner.package.resolver import Package
from coworld_runner.replay.replay_session import ReplayOptions

Change = Callable[[dict[str, Any]], None]

SMOKE: tuple[StepId, ...] = ("images-reachable", "fixture-conforms", "smoke-episode")
NOW = dt.datetime(2026, 11, 21, tzinfo=dt.UTC)
ROLE = {"id": "r", "name": "R", "type": "reporter", "description": "Reports."}
A_SECOND = {"ticks": 30, "tick_seconds": 0.05}
"""A config for a second and a half of play."""


def codes(items: tuple[Evidence, ...]) -> set[str]:
    return {item.code for item in items}


def changed(path: str, value: Any) -> Change:
    """Sets one field of a manifest, named by its keys."""
    *keys, last = path.split(".")

    def change(manifest: dict[str, Any]) -> None:
        place: Any = manifest
        for key in keys:
            place = place[int(key) if key.isdecimal() else key]
        place[last] = value

    return change


def as_it_was(_: dict[str, Any]) -> None:
    pass


play_long = changed("certification.game_config", LONG)


def of_game(error_type: Any) -> Fault:
    return Fault(party="game", error_type=error_type, message="It happened.", time=NOW)


# --- the manifest -------------------------------------------------------------------------------------------------


def written(path: Path) -> Callable[[dict[str, Any]], Package]:
    """A package read from a file, as people have it."""

    def package(manifest: dict[str, Any]) -> Package:
        path.write_text(json.dumps(manifest, indent=2))
        return package_of(manifest, path)

    return package


def of_0_1_7(manifest: dict[str, Any]) -> None:
    """A manifest as 0.1.7 wrote it: without a readme, with bare text and a field that is gone."""
    del manifest["game"]["docs"]
    manifest["game"]["protocols"]["global"] = "bare text"
    manifest["variants"][0]["parent_id"] = None


def of_0_1_64(manifest: dict[str, Any]) -> None:
    manifest["tags"] = ["one", "two", "three"]
    manifest["game"]["achievements"] = []


@pytest.mark.parametrize(
    ("published", "change", "valid"),
    [
        (None, as_it_was, True),
        (None, of_0_1_7, False),
        ("0.1.7", of_0_1_7, True),
        ("0.1.26", as_it_was, True),
        ("0.1.26", of_0_1_7, False),
        ("0.1.26", of_0_1_64, False),
        ("0.1.64", of_0_1_64, True),
        ("0.1.64", as_it_was, False),
    ],
)
async def test_a_manifest_is_read_by_the_rules_that_apply(
    published: Generation | None, change: Change, valid: bool, tmp_path: Path
) -> None:
    async with world(change=change, package=written(tmp_path / "coworld_manifest.json")) as older:
        taken = await older.take(tmp_path, "matriculate", options=fast(published=published))
    step = taken["matriculate"]
    assert (step.status, step.failure_reason) == (("pass", None) if valid else ("fail", "manifest_invalid"))
    assert (taken.ledger.matriculated_at is not None) is valid
    assert all(item.line is not None and item.line > 1 for item in step.broken if item.pointer)
    said = f"It was certified by the rules of {published}, not by today's."
    assert (said in taken.ledger.caveats) is (published is not None and valid)


def unchecked(manifest: dict[str, Any]) -> Package:
    """A package whose manifest nobody has checked."""
    parsed = Manifest.model_validate_json(json.dumps(manifest))
    return Package(manifest=parsed, report=load_manifest(MANIFEST).report)


@pytest.mark.parametrize(
    ("path", "value", "pointers", "words"),
    [
        ("certification.game_config", {"ticks": "eight"}, {"/certification/game_config/ticks"}, ""),
        (
            "variants.1.game_config",
            {"ticks": 0, "tocks": 1},
            {"/variants/1/game_config/ticks", "/variants/1/game_config/tocks"},
            "'long'",
        ),
        ("player.1.id", "first", {"/certification/players/1/player_id"}, "second"),
    ],
    ids=["fixture", "variant", "the same id twice"],
)
async def test_configs_that_the_game_does_not_take_fail(
    path: str, value: Any, pointers: set[str], words: str, tmp_path: Path
) -> None:
    async with world(change=changed(path, value), package=unchecked) as bad:
        taken = await bad.take(tmp_path, "matriculate", "fixture-conforms")
    assert taken.failures == {"matriculate": "manifest_invalid", "fixture-conforms": "fixture_invalid"}
    assert {item.pointer for item in taken["fixture-conforms"].broken} == pointers
    assert all(words in item.message for item in taken["fixture-conforms"].broken)
    # A bad variant does not keep the fixture from being played
    assert taken.ledger.fixture_ok is path.startswith("variants")


async def test_a_template_is_played_with_a_caveat_where_there_are_no_images(tmp_path: Path) -> None:
    document = json.loads(json.dumps(MANIFEST))
    del document["game"]["version"]
    for entry in (document["game"]["runnable"], *document["player"]):
        entry["image"] = "{{COUNTING_IMAGE}}"
    path = tmp_path / "coworld_manifest_template.json"
    path.write_text(json.dumps(document))
    loaded = load_manifest(path, template=True)

    def package(_: dict[str, Any]) -> Package:
        return Package(manifest=loaded.manifest, report=loaded.report, path=path)

    async with world(package=package) as template:
        taken = await template.take(tmp_path, "matriculate")
    assert taken["matriculate"].status == "pass"
    assert any(caveat.startswith("This is a template") for caveat in taken.ledger.caveats)
    assert "template" in codes(taken["matriculate"].advice)


# --- sources and images -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "status", "reason"),
    [
        ("https://github.com/me/counting", "pass", None),
        ("https://github.com/me/counting/tree/" + "a" * 40, "skip", "source_unreachable"),
        ("https://gitlab.example.org/me/counting", "skip", "source_unsupported"),
    ],
)
async def test_a_source_that_is_not_pinned_or_not_looked_up_is_no_failure(
    tmp_path: Path, url: str, status: str, reason: str | None
) -> None:
    async with world(change=changed("game.runnable.source_url", url)) as odd:
        taken = await odd.take(tmp_path, "source-resolves")
    step = taken["source-resolves"]
    assert (step.status, step.skip_reason) == (status, reason)
    if reason is None:
        assert taken.ledger.sources[0].status == "unresolved"
        assert "source_not_pinned" in codes(step.advice)
    else:
        assert taken.ledger.caveats[0].startswith("source-resolves: Not decided for game")


async def test_a_dead_source_fails(tmp_path: Path) -> None:
    def declare(manifest: dict[str, Any]) -> None:
        manifest["game"]["runnable"]["source_url"] = f"https://github.com/me/game/tree/{SHA}/src"
        manifest["player"][0]["source_url"] = f"https://github.com/me/game/tree/{SHA}/gone"

    async with serve_site(GitHub()) as github, world(change=declare) as bad:
        options = fast(sources=SourceOptions(api=github.url))
        taken = await bad.take(tmp_path, "source-resolves", options=options)
    assert taken.failures == {"source-resolves": "source_unresolved"}
    (item,) = taken["source-resolves"].broken
    assert item.message.startswith("player first: ")
    assert [record.status for record in taken.ledger.sources] == ["resolved", "unresolved", "not_declared"]


@pytest.mark.parametrize(
    ("path", "value", "who", "goes_on"),
    [
        ("player.1.image", "lost-player", "player second", False),
        ("reporter", [ROLE | {"image": "lost-reporter"}], "reporter r", True),
    ],
)
async def test_a_missing_image_fails_and_what_needs_it_is_not_played(
    path: str, value: Any, who: str, goes_on: bool, tmp_path: Path
) -> None:
    async with world(backend=WithImages, change=changed(path, value)) as bad:
        taken = await bad.take(tmp_path, *SMOKE)
    assert taken.failures == {"images-reachable": "image_unreachable"}
    (item,) = taken["images-reachable"].broken
    assert who in item.message
    assert item.hint == "Build it."
    assert (taken["smoke-episode"].status, taken["smoke-episode"].skip_reason) == (
        ("pass", None) if goes_on else ("skip", "premise_failed")
    )


async def test_a_backend_without_images_leaves_them_open(tmp_path: Path) -> None:
    async with world() as good:
        taken = await good.take(tmp_path, "images-reachable")
    assert taken["images-reachable"].skip_reason == "not_applicable"
    assert "images themselves were not checked" in taken.ledger.caveats[0]


# --- the smoke episode --------------------------------------------------------------------------------------------

VIOLATION = "game_contract_violation"
GAMES: dict[str, tuple[str, str | None]] = {
    "fails_unready": ("game_unhealthy", "game_unhealthy"),
    "dies": ("game_unhealthy", "game_unhealthy"),
    "checks_slot_0_only": (VIOLATION, "refuses_wrong_token"),
    "any_token_for_any_slot": (VIOLATION, "refuses_other_slots_token"),
    "negative_index": (VIOLATION, "refuses_negative_slot"),
    "needs_no_token": (VIOLATION, "refuses_missing_token"),
    "needs_no_slot": (VIOLATION, "refuses_missing_slot"),
    "any_word_is_slot_0": (VIOLATION, "refuses_slot_not_a_number"),
    "crashes_on_bad_slot": (VIOLATION, "refuses_slot_out_of_range"),
    "no_page_for_1": (VIOLATION, "slot_page"),
    "no_content_for_1": (VIOLATION, "slot_page"),
    "empty_viewer_page": (VIOLATION, "viewer_page"),
}
PATIENT: dict[str, tuple[str, str | None]] = {
    "lets_anyone_in": (VIOLATION, "refuses_wrong_token"),
    "never_answers_strangers": (VIOLATION, "refuses_wrong_token"),
    "silent_global": (VIOLATION, "viewer"),
    "ignores_late_viewers": (VIOLATION, None),
}
"""Shown only by waiting for a while."""


@pytest.mark.parametrize("vice", [*GAMES, *(pytest.param(vice, marks=pytest.mark.slow) for vice in PATIENT)])
async def test_a_game_with_one_vice_fails_the_smoke_episode(tmp_path: Path, vice: str) -> None:
    reason, code = (GAMES | PATIENT)[vice]
    change = changed("certification.game_config", A_SECOND) if "viewers" in vice or "global" in vice else as_it_was
    async with world(game_vices=(vice,), change=change) as bad:
        taken = await bad.take(tmp_path, *SMOKE)
    assert taken.failures == {"smoke-episode": reason}
    step = taken["smoke-episode"]
    assert step.broken
    assert code is None or code in codes(step.broken)
    assert step.hint
    if vice == "checks_slot_0_only":
        assert {item.slot for item in step.broken} == {1}
    if vice == "crashes_on_bad_slot":
        # A query that makes no sense is answered with 500, which lets nobody in
        assert "refuses_slot_not_a_number" in codes(step.advice) - codes(step.broken)


@pytest.mark.slow
async def test_one_published_version_has_viewers_pings_answered(tmp_path: Path) -> None:
    async with world(game_vices=("no_pong",), change=play_long) as odd:
        taken = await odd.take(tmp_path, *SMOKE, options=fast(published="0.1.64"))
    assert taken.failures == {"smoke-episode": VIOLATION}
    assert codes(taken["smoke-episode"].broken) == {"answers_ping"}


async def test_a_player_that_crashes_fails_the_episode_and_its_attendance(tmp_path: Path) -> None:
    async with world(player_vices=("first:dies",)) as bad:
        taken = await bad.take(tmp_path, *SMOKE, "players-run")
    assert taken.failures == {"smoke-episode": "player_error", "players-run": "player_error"}
    (item,) = taken["smoke-episode"].broken
    assert (item.slot, item.artifact) == (0, "episode/logs/policy_agent_0.log")
    assert "I give up" in item.log_tail


@pytest.mark.slow
async def test_a_player_that_leaves_early_fails_although_it_ends_with_0(tmp_path: Path) -> None:
    async with world(player_vices=("second:leaves",), change=play_long) as bad:
        taken = await bad.take(tmp_path, *SMOKE, "players-run")
    assert taken.failures == {"smoke-episode": "player_left_early", "players-run": "player_left_early"}
    (item,) = taken["players-run"].broken
    assert item.slot == 1
    assert "the game was not over" in item.message


@pytest.mark.slow
async def test_a_player_whose_seat_the_game_closed_may_leave(tmp_path: Path) -> None:
    async with world(game_vices=("dismisses_0",), change=play_long) as fair:
        taken = await fair.take(tmp_path, *SMOKE, "players-run")
    assert taken.failures == {}
    assert codes(taken["players-run"].evidence) == {"player_dismissed", "player_ran"}


# --- results and replay -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("results", "fault", "reason", "code"),
    [
        (None, "results_missing", "results_missing", "results_missing"),
        # Results that are too large are not kept
        (None, "results_malformed", "results_malformed", "results_malformed"),
        ({"scores": [1.0, 2.5, 3.0], "ticks": 8}, None, "results_malformed", "scores_length"),
        ({"scores": [1.0, 2.5]}, None, "results_malformed", "results_break_schema"),
    ],
)
async def test_results_that_break_the_promise_fail(
    results: Any, fault: str | None, reason: str, code: str, tmp_path: Path
) -> None:
    layout = EpisodeLayout(tmp_path / "episode")
    layout.workspace.mkdir()
    if results is not None:
        layout.results.write_text(json.dumps(results))
    ledger = StepLedger(episode=played(faults=(of_game(fault),) if fault else ()))
    async with world() as bad:
        taken = await bad.take(tmp_path, "results-conform", ledger=ledger)
    assert taken.failures == {"results-conform": reason}
    assert code in codes(taken["results-conform"].broken)


@pytest.mark.parametrize(("replay", "code"), [(None, "replay_missing"), (b"", "replay_empty")])
async def test_an_episode_without_a_replay_fails(replay: bytes | None, code: str, tmp_path: Path) -> None:
    layout = EpisodeLayout(tmp_path / "episode")
    layout.workspace.mkdir()
    if replay is not None:
        layout.replay.write_bytes(replay)
    async with world() as bad:
        taken = await bad.take(tmp_path, "replay-present", "replay-loadable", ledger=StepLedger(episode=played()))
    assert taken.failures == {"replay-present": "replay_missing"}
    assert codes(taken["replay-present"].broken) == {code}
    assert taken["replay-loadable"].skip_reason == "premise_failed"


async def test_leaked_tokens_are_advice(tmp_path: Path) -> None:
    layout = EpisodeLayout(tmp_path / "episode")
    layout.logs.mkdir(parents=True)
    probes = ContractProbes()
    probes.tokens = ("abcdefghijklmnopqrstuv", "0123456789012345678901")
    layout.replay.write_text(json.dumps({"tokens": probes.tokens}))
    layout.game_stdout.write_text(f"GET /player?slot=1&token={probes.tokens[1]} 101\n")
    async with world() as leaky:
        taken = await leaky.take(tmp_path, "replay-present", ledger=StepLedger(episode=played(), probes=probes))
    step = taken["replay-present"]
    assert step.status == "pass"
    assert {item.code: item.artifact for item in step.advice} == {
        "token_in_replay": "episode/replay",
        "token_in_game_log": "episode/logs/game.stdout.log",
    }
    assert ["slots 0 and 1" in item.message for item in step.advice] == [True, False]


@pytest.mark.parametrize(
    ("vice", "published", "shown", "advice"),
    [
        ("knows_no_zlib", None, False, set()),
        ("knows_no_zlib", "0.1.26", False, set()),
        ("knows_no_zlib", "0.1.7", True, {"replay.json.z"}),
        ("knows_no_zlib", "0.1.64", True, {"replay.json.z"}),
        ("wants_zlib", None, True, {"replay", "replay.json.gz"}),
        ("wants_zlib", "0.1.7", False, {"replay.json.gz"}),
        ("knows_no_gzip", "0.1.26", True, {"replay.json.gz"}),
        ("knows_only_json_z", None, True, set()),
        ("no_replay_page", None, False, {"replay", "replay.json.gz"}),
        ("empty_replay_page", None, False, {"replay", "replay.json.gz"}),
        ("silent_replay", None, False, {"replay", "replay.json.gz"}),
    ],
)
async def test_a_replay_is_shown_packed_and_as_the_rules_have_it(
    vice: str, published: Generation | None, shown: bool, advice: set[str], tmp_path: Path
) -> None:
    layout = EpisodeLayout(tmp_path / "episode")
    layout.workspace.mkdir()
    (tmp_path / "logs").mkdir()
    layout.replay.write_text(json.dumps({"frames": [0, 1]}))
    options = fast(published=published, replay=ReplayOptions(message_timeout=0.3))
    async with world(game_vices=(vice,)) as odd:
        taken = await odd.take(tmp_path, "replay-loadable", options=options)
    step = taken["replay-loadable"]
    assert taken.failures == ({} if shown else {"replay-loadable": "replay_unloadable"})
    assert codes(step.broken) <= {"replay_unloadable"}
    assert {re.findall(r"Given (\S+):", item.message)[0] for item in step.advice} == advice
    if vice == "wants_zlib":
        assert any(item.log_tail for item in step.advice)


# --- supporting roles ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "reason"),
    [
        ("reporter", "reporter_failed"),
        ("grader", "supporting_roles_failed"),
        ("commissioner", "commissioner_protocol_failed"),
        ("optimizer", None),
    ],
)
async def test_role_that_cannot_be_run_fails_its_step(section: str, reason: str | None, tmp_path: Path) -> None:
    roles = [{"id": id, "name": id, "type": section, "description": "x", "image": "helper"} for id in "ab"]
    async with world(change=changed(section, roles)) as bad:
        taken = await bad.take(tmp_path, *SMOKE, "supporting-roles")
    step = taken["supporting-roles"]
    assert taken.failures == ({} if reason is None else {"supporting-roles": reason})
    if reason is None:
        # An optimizer need not have a plan
        assert step.detail == "Declared: 2 optimizers; 2 could not be run here."
        assert [item.message.partition(" ")[0] for item in step.advice] == ["optimizer"] * 2
    else:
        assert step.detail.startswith(f"{section} 'a'")
        assert "helper" in step.detail


# --- how it copes with clients ------------------------------------------------------------------------------------


async def further(workspace: Path, *vices: str, change: Change = as_it_was, timeout: float = 15.0) -> FurtherEpisodes:
    """The episodes after a smoke episode without faults."""
    options = fast(episode={"timeout_seconds": timeout})
    async with world(game_vices=vices, change=change) as odd:
        return await play_further(
            odd.package,
            played(seconds=0.1),
            backend=odd.backend,
            options=options.episode,
            workspace=workspace,
        )


def three_slots(manifest: dict[str, Any]) -> None:
    manifest["game"]["config_schema"]["properties"]["tokens"] |= {"minItems": 3, "maxItems": 3}
    manifest["certification"]["players"].append({"player_id": "first"})


CLIENTS = [
    ("knows_partners", "refuses_every_other_token", three_slots),
    ("dies_of_malformed", "survives_malformed", as_it_was),
    ("dies_of_binary", "survives_binary", as_it_was),
    ("dies_of_oversized", "survives_oversized", as_it_was),
    pytest.param("admits_once_for_all", "reconnects_before_start", play_long, marks=pytest.mark.slow),
    pytest.param("stalls_on_binary", "finishes", as_it_was, marks=pytest.mark.slow),
    pytest.param("admits_once", "reconnects", play_long, marks=pytest.mark.slow),
    pytest.param("lingers_in_silence", "viewer_after_end", as_it_was, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("vice", "code", "change"), CLIENTS)
async def test_a_game_that_does_not_cope_with_clients_is_found(
    tmp_path: Path, vice: str, code: str, change: Change
) -> None:
    timeout = 3.0 if vice == "stalls_on_binary" else 15.0
    found = await further(tmp_path, vice, change=change, timeout=timeout)
    broken = [item for item in found.clients if item.broken and item.code == code]
    assert broken
    assert all(item.hint for item in broken)
    if code == "reconnects":
        assert {item.slot for item in broken} == {0, 1}


@pytest.mark.slow
async def test_an_unanswered_ping_is_advice(tmp_path: Path) -> None:
    found = await further(tmp_path, "no_pong", "no_pong_for_players", change=play_long)
    pings = [item for item in found.clients if item.code == "answers_ping"]
    assert [(item.ok, item.level) for item in pings] == [(False, "advice")] * 2
    assert not any(item.broken for item in found.clients)


@pytest.mark.slow
async def test_a_game_that_ends_when_its_players_are_lost_need_not_readmit_them(tmp_path: Path) -> None:
    found = await further(tmp_path, "ends_when_left", change=play_long)
    assert [(item.level, item.ok) for item in found.clients if item.code == "reconnects"] == [("note", True)]
    assert not any(item.broken for item in found.clients)


async def test_clients_that_are_not_handled_fail_the_step(tmp_path: Path) -> None:
    async with world(game_vices=("dies_of_malformed",)) as bad:
        taken = await bad.take(tmp_path, *SMOKE, "clients-handled")
    assert taken.failures == {"clients-handled": VIOLATION}


# --- the same seed ------------------------------------------------------------------------------------------------


async def test_two_episodes_with_the_same_seed_are_compared(tmp_path: Path) -> None:
    def take_seed(manifest: dict[str, Any]) -> None:
        manifest["game"]["config_schema"]["properties"]["seed"] = {"type": "integer"}

    found = await further(tmp_path, "ignores_seed", change=take_seed)
    assert found.results is not None
    first, second = found.results
    assert first is not None
    assert second is not None
    assert (first["ticks"], first["scores"] == second["scores"]) == (second["ticks"], False)


ALIKE = {"scores": [1.0, 2.5], "ticks": 8}


@pytest.mark.parametrize(
    ("results", "words"),
    [
        (None, "The game takes no seed"),
        ((ALIKE, ALIKE), "Two episodes with the same seed ended alike."),
        ((ALIKE, None), "did not both have results"),
        ((ALIKE, {"scores": [9.8e-05, 2.5], "ticks": 8}), "had the scores [1.0, 2.5] and [9.8e-05, 2.5]"),
        ((ALIKE, {"scores": [1.0, 2.5], "ticks": 9}), "differ in ticks of their results"),
    ],
)
@pytest.mark.parametrize("promised", [True, False])
async def test_a_seed_that_decides_nothing_fails_a_game_that_claims_to_be_deterministic(
    results: Any, words: str, promised: bool, tmp_path: Path
) -> None:
    tags = ["deterministic" if promised else "counting", "numbers", "small"]
    ledger = StepLedger(further=FurtherEpisodes(clients=(), results=results, tokens=()))
    async with world(change=changed("tags", tags)) as odd:
        taken = await odd.take(tmp_path, "seed-repeats", ledger=ledger)
    step = taken["seed-repeats"]
    item, recorded = step.evidence
    assert words in item.message
    # Nothing can be recorded here, which says nothing against the game
    assert (recorded.code, recorded.level) == ("not_recorded", "note")
    differs = results is not None and results[0] != results[1]
    assert taken.failures == ({"seed-repeats": "seed_ignored"} if differs and promised else {})
    assert [one.code for one in step.advice] == (["seed_repeats"] if differs and not promised else [])
