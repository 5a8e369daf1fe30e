"""Every step of a certification, and what it must reject: a small Coworld with one thing wrong at a time."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.fake_github import SHA, GitHub
from support.fake_server import serve_site
from support.small_world import LONG, MANIFEST, fast, package_of, world

from coworld_core.errors import ImageError
from coworld_core.manifest.manifest_file import load_manifest
from coworld_core.manifest.models import Manifest
from coworld_core.versions import Generation
from coworld_runner.backend import Capabilities, ImageInfo, Publish
from coworld_runner.certification import Certification, Evidence, SourceOptions
from coworld_runner.package.resolver import Package
from coworld_runner.replay.replay_session import ReplayOptions
from coworld_runner.testing.fake_backend import FakeBackend

pytestmark = pytest.mark.slow

Change = Callable[[dict[str, Any]], None]


def failures(certification: Certification) -> dict[str, str | None]:
    return {step.id: step.failure_reason for step in certification.failed}


def skips(certification: Certification) -> dict[str, str | None]:
    return {step.id: step.skip_reason for step in certification.steps if step.status == "skip"}


def codes(items: tuple[Evidence, ...]) -> set[str]:
    return {item.code for item in items}


def play_long(manifest: dict[str, Any]) -> None:
    manifest["certification"]["game_config"] = dict(LONG)


# --- a Coworld without a fault ------------------------------------------------------------------------------------


async def test_a_good_coworld_is_executable(tmp_path: Path) -> None:
    async with world(change=play_long_with_a_seed) as good:
        found = await good.certify(tmp_path / "out")
    assert (found.verdict, found.status, failures(found)) == ("Executable", "completed", {})
    # The fake backend has no images: that is said, and nothing else is left out
    assert skips(found) == {"images-reachable": "not_applicable"}
    assert any("images" in caveat for caveat in found.caveats)
    assert found.scores == (1.0, 2.5)
    assert found.standings == (("First (first)", 1.0), ("Second (second)", 2.5))
    assert found.model_copy(update={"slots": ()}).standings == (("slot 0", 1.0), ("slot 1", 2.5))
    seen = codes(found.step("smoke-episode").evidence)
    assert seen >= {
        "slot_page",
        "viewer_page",
        "refuses_wrong_token",
        "refuses_empty_token",
        "refuses_missing_token",
        "refuses_other_slots_token",
        "refuses_slot_out_of_range",
        "refuses_negative_slot",
        "refuses_missing_slot",
        "refuses_slot_not_a_number",
        "viewer",
        "late_viewer",
    }
    assert not any(item.broken for step in found.steps for item in step.evidence)
    pages = [item.slot for item in found.step("smoke-episode").evidence if item.code == "slot_page"]
    assert pages == [0, 1]
    assert codes(found.step("players-run").evidence) == {"player_ran"}
    assert codes(found.step("replay-loadable").evidence) == {"replay_shown"}
    assert found.step("supporting-roles").detail == "no supporting roles declared"
    handled = found.step("clients-handled").evidence
    assert codes(handled) == {
        "answers_ping",
        "survives_malformed",
        "survives_binary",
        "survives_oversized",
        "finishes",
        "reconnects",
        "reconnects_before_start",
        "viewer_after_end",
    }
    assert [item.slot for item in handled if item.code == "reconnects"] == [0, 1]
    assert found.step("seed-repeats").detail == "Two episodes with the same seed ended alike."


# --- the game -----------------------------------------------------------------------------------------------------

GAMES = [
    ("fails_unready", "smoke-episode", "game_unhealthy", "game_unhealthy"),
    ("dies", "smoke-episode", "game_unhealthy", "game_unhealthy"),
    ("lets_anyone_in", "smoke-episode", "game_contract_violation", "refuses_wrong_token"),
    ("checks_slot_0_only", "smoke-episode", "game_contract_violation", "refuses_wrong_token"),
    ("any_token_for_any_slot", "smoke-episode", "game_contract_violation", "refuses_other_slots_token"),
    ("negative_index", "smoke-episode", "game_contract_violation", "refuses_negative_slot"),
    ("needs_no_token", "smoke-episode", "game_contract_violation", "refuses_missing_token"),
    ("needs_no_slot", "smoke-episode", "game_contract_violation", "refuses_missing_slot"),
    ("any_word_is_slot_0", "smoke-episode", "game_contract_violation", "refuses_slot_not_a_number"),
    ("crashes_on_bad_slot", "smoke-episode", "game_contract_violation", "refuses_slot_out_of_range"),
    ("no_page_for_1", "smoke-episode", "game_contract_violation", "slot_page"),
    ("no_content_for_1", "smoke-episode", "game_contract_violation", "slot_page"),
    ("empty_viewer_page", "smoke-episode", "game_contract_violation", "viewer_page"),
    ("never_answers_strangers", "smoke-episode", "game_contract_violation", "refuses_wrong_token"),
    ("silent_global", "smoke-episode", "game_contract_violation", "viewer"),
    ("ignores_late_viewers", "smoke-episode", "game_contract_violation", None),
    ("no_results", "results-conform", "results_missing", "results_missing"),
    ("wrong_scores", "results-conform", "results_malformed", "scores_length"),
    ("no_ticks", "results-conform", "results_malformed", "results_break_schema"),
    ("huge_results", "results-conform", "results_malformed", "results_malformed"),
    ("no_replay", "replay-present", "replay_missing", "replay_missing"),
    ("empty_replay", "replay-present", "replay_missing", "replay_empty"),
    ("knows_no_zlib", "replay-loadable", "replay_unloadable", "replay_unloadable"),
    ("no_replay_page", "replay-loadable", "replay_unloadable", "replay_unloadable"),
    ("empty_replay_page", "replay-loadable", "replay_unloadable", "replay_unloadable"),
    ("silent_replay", "replay-loadable", "replay_unloadable", "replay_unloadable"),
]


@pytest.mark.parametrize(("vice", "step", "reason", "code"), GAMES, ids=[row[0] for row in GAMES])
async def test_a_game_with_one_vice_fails_one_step(
    tmp_path: Path, vice: str, step: Any, reason: str, code: str | None
) -> None:
    change = play_long if vice in ("silent_global", "ignores_late_viewers") else None
    options = fast(replay=ReplayOptions(message_timeout=0.3)) if vice == "silent_replay" else fast()
    async with world(game_vices=(vice,), change=change) as bad:
        found = await bad.certify(tmp_path / "out", options=options)
    assert found.verdict is None
    assert failures(found) == {step: reason}
    broken = found.step(step).broken
    assert broken
    if code is not None:
        assert code in codes(broken)
    assert found.step(step).hint


async def test_a_game_that_is_never_ready_fails_at_its_deadline(tmp_path: Path) -> None:
    async with world(game_vices=("never_ready",)) as bad:
        found = await bad.certify(tmp_path / "out", options=fast(episode={"ready_timeout_seconds": 0.3}))
    assert failures(found) == {"smoke-episode": "game_unhealthy"}


async def test_refused_strangers_are_reported_by_slot(tmp_path: Path) -> None:
    async with world(game_vices=("checks_slot_0_only",)) as bad:
        found = await bad.certify(tmp_path / "out")
    assert {item.slot for item in found.step("smoke-episode").broken} == {1}


async def test_a_500_for_a_query_that_makes_no_sense_is_advice(tmp_path: Path) -> None:
    async with world(game_vices=("crashes_on_bad_slot",)) as bad:
        found = await bad.certify(tmp_path / "out", options=fast())
    step = found.step("smoke-episode")
    assert "refuses_slot_not_a_number" in codes(step.advice)
    assert "refuses_slot_not_a_number" not in codes(step.broken)


def take_seed(manifest: dict[str, Any]) -> None:
    manifest["game"]["config_schema"]["properties"]["seed"] = {"type": "integer"}
    manifest["certification"]["game_config"]["seed"] = 7


def play_long_with_a_seed(manifest: dict[str, Any]) -> None:
    play_long(manifest)
    take_seed(manifest)


def three_slots(manifest: dict[str, Any]) -> None:
    manifest["game"]["config_schema"]["properties"]["tokens"] |= {"minItems": 3, "maxItems": 3}
    manifest["certification"]["players"].append({"player_id": "first"})


CLIENTS = [
    ("knows_partners", "refuses_every_other_token", three_slots),
    ("dies_of_malformed", "survives_malformed", play_long),
    ("dies_of_binary", "survives_binary", play_long),
    ("dies_of_oversized", "survives_oversized", play_long),
    ("stalls_on_binary", "finishes", play_long),
    ("admits_once", "reconnects", play_long),
    ("admits_once_for_all", "reconnects_before_start", play_long),
    ("lingers_in_silence", "viewer_after_end", play_long),
]


@pytest.mark.parametrize(("vice", "code", "change"), CLIENTS, ids=[row[0] for row in CLIENTS])
async def test_a_game_that_does_not_cope_with_clients_fails(
    tmp_path: Path, vice: str, code: str, change: Change
) -> None:
    async with world(game_vices=(vice,), change=change) as bad:
        found = await bad.certify(tmp_path / "out", options=fast(episode={"timeout_seconds": 15.0}))
    assert failures(found) == {"clients-handled": "game_contract_violation"}
    broken = [item for item in found.step("clients-handled").broken if item.code == code]
    assert broken
    assert all(item.hint for item in broken)
    if code == "reconnects":
        assert {item.slot for item in broken} == {0, 1}


@pytest.mark.parametrize("vice", ["no_pong", "no_pong_for_players"])
async def test_an_unanswered_ping_is_advice(tmp_path: Path, vice: str) -> None:
    async with world(game_vices=(vice,), change=play_long) as odd:
        found = await odd.certify(tmp_path / "out")
    assert found.ok
    assert "answers_ping" in codes(found.step("clients-handled").advice)


async def test_a_game_that_ends_when_its_players_are_lost_need_not_readmit_them(tmp_path: Path) -> None:
    async with world(game_vices=("ends_when_left",), change=play_long) as fair:
        found = await fair.certify(tmp_path / "out")
    assert found.ok
    evidence = found.step("clients-handled").evidence
    assert [(item.level, item.ok) for item in evidence if item.code == "reconnects"] == [("note", True)]


@pytest.mark.parametrize("tags", [["counting", "numbers", "small"], ["deterministic", "numbers", "small"]])
async def test_a_seed_that_decides_nothing_fails_a_game_that_claims_to_be_deterministic(
    tmp_path: Path, tags: list[str]
) -> None:
    def with_tags(manifest: dict[str, Any]) -> None:
        take_seed(manifest)
        manifest["tags"] = tags

    async with world(game_vices=("ignores_seed",), change=with_tags) as odd:
        found = await odd.certify(tmp_path / "out")
    step = found.step("seed-repeats")
    (item,) = step.evidence
    assert "had the scores [0." in item.message
    assert (failures(found) == {"seed-repeats": "seed_ignored"}) == ("deterministic" in tags)
    assert [one.code for one in step.advice] == ([] if "deterministic" in tags else ["seed_repeats"])


async def test_a_replay_that_loads_only_packed_is_advice(tmp_path: Path) -> None:
    async with world(game_vices=("wants_zlib",)) as odd:
        found = await odd.certify(tmp_path / "out")
    assert found.ok
    plain, _ = advice = found.step("replay-loadable").advice
    assert {item.code for item in advice} == {"replay_unloadable"}
    assert plain.log_tail


async def test_a_replay_that_does_not_load_as_gzip_is_advice(tmp_path: Path) -> None:
    async with world(game_vices=("knows_no_gzip",)) as odd:
        found = await odd.certify(tmp_path / "out", options=fast(published="0.1.26"))
    assert found.ok
    (advice,) = found.step("replay-loadable").advice
    assert "replay.json.gz" in advice.message


@pytest.mark.parametrize("vices", [("leaks_tokens",), ("leaks_tokens", "packs_replay")], ids=["plain", "packed"])
async def test_leaked_tokens_are_a_warning(tmp_path: Path, vices: tuple[str, ...]) -> None:
    events: list[Any] = []
    async with world(game_vices=vices) as leaky:
        found = await leaky.certify(tmp_path / "out", events=events)
    step = found.step("replay-present")
    assert step.status == "pass"
    assert {item.code: item.artifact for item in step.advice} == {
        "token_in_replay": "episode/replay",
        "token_in_game_log": "episode/logs/game.stdout.log",
    }
    assert any(event.kind == "notice" and "secret token" in event.message for event in events)
    # And the certification does not leak them a second time
    log = (tmp_path / "out/episode/logs/game.stdout.log").read_text()
    token = log.partition("token=")[2].partition(" ")[0]
    assert len(token) == 22
    for name in ("certification.json", "certification.html", "events.ndjson"):
        assert token not in (tmp_path / "out" / name).read_text()


async def test_steps_go_on_after_a_failure(tmp_path: Path) -> None:
    async with world(game_vices=("wrong_scores", "no_page_for_1", "knows_no_zlib")) as bad:
        found = await bad.certify(tmp_path / "out")
    assert failures(found) == {
        "smoke-episode": "game_contract_violation",
        "results-conform": "results_malformed",
        "replay-loadable": "replay_unloadable",
    }
    assert found.step("players-run").status == "pass"


async def test_a_step_without_its_premise_names_what_is_missing(tmp_path: Path) -> None:
    async with world(game_vices=("fails_unready",)) as bad:
        found = await bad.certify(tmp_path / "out")
    for name in ("results-conform", "replay-present", "players-run"):
        step = found.step(name)  # type: ignore[arg-type]
        assert (step.status, step.skip_reason) == ("skip", "premise_failed")
        assert "smoke-episode" in step.detail
    assert "replay-present" in found.step("replay-loadable").detail
    assert found.step("supporting-roles").status == "pass"


# --- the players --------------------------------------------------------------------------------------------------


async def test_a_player_that_crashes_fails_the_episode_and_its_attendance(tmp_path: Path) -> None:
    async with world(player_vices=("first:dies",)) as bad:
        found = await bad.certify(tmp_path / "out")
    assert failures(found) == {"smoke-episode": "player_error", "players-run": "player_error"}
    (item,) = found.step("smoke-episode").broken
    assert (item.slot, item.artifact) == (0, "episode/logs/policy_agent_0.log")
    assert "I give up" in item.log_tail


async def test_player_that_never_ends_fails(tmp_path: Path) -> None:
    async with world(player_vices=("second:stays",)) as bad:
        found = await bad.certify(tmp_path / "out", options=fast(episode={"player_exit_timeout_seconds": 0.5}))
    assert failures(found) == {"smoke-episode": "player_timeout", "players-run": "player_timeout"}


async def test_a_player_that_leaves_early_fails_although_it_ends_with_0(tmp_path: Path) -> None:
    async with world(player_vices=("second:leaves",), change=play_long) as bad:
        found = await bad.certify(tmp_path / "out")
    assert failures(found) == {"players-run": "player_left_early"}
    (item,) = found.step("players-run").broken
    assert item.slot == 1
    assert "its seat was still open" in item.message


async def test_players_that_all_leave_early_fail_too(tmp_path: Path) -> None:
    async with world(player_vices=("first:leaves", "second:leaves"), change=play_long) as bad:
        found = await bad.certify(tmp_path / "out")
    assert failures(found) == {"players-run": "player_left_early"}
    assert [item.slot for item in found.step("players-run").broken] == [0, 1]


async def test_a_player_whose_seat_the_game_closed_may_leave(tmp_path: Path) -> None:
    async with world(game_vices=("dismisses_0",), change=play_long) as fair:
        found = await fair.certify(tmp_path / "out")
    assert found.ok
    assert codes(found.step("players-run").evidence) == {"player_dismissed", "player_ran"}


async def test_a_bundled_player_without_a_slot_fails(tmp_path: Path) -> None:
    def leave_out(manifest: dict[str, Any]) -> None:
        manifest["certification"]["players"] = [{"player_id": "first"}, {"player_id": "first"}]

    async with world(change=leave_out) as bad:
        found = await bad.certify(tmp_path / "out")
    assert failures(found) == {"players-run": "players_missing"}
    (item,) = found.step("players-run").broken
    assert "'second'" in item.message


class CommandLost(FakeBackend):
    """A backend on which the second player's command is not there, which shows only when it is started."""

    def units(self, specs: Any, **options: Any) -> Any:
        from contextlib import asynccontextmanager

        from coworld_core.errors import StartError

        @asynccontextmanager
        async def entered() -> Any:
            async with FakeBackend.units(self, specs, **options) as units:
                for unit in units:
                    if unit.name == "player-1":

                        async def refuse() -> None:
                            raise StartError(
                                "player-1 cannot be started: there is no 'second'.", code="program_missing"
                            )

                        unit.start = refuse  # type: ignore[method-assign]
                yield units

        return entered()


async def test_a_player_that_never_started_fails(tmp_path: Path) -> None:
    async with world(backend=CommandLost) as bad:
        found = await bad.certify(tmp_path / "out")
    assert failures(found)["smoke-episode"] == "player_never_started"
    assert failures(found)["players-run"] == "players_missing"
    assert "player_never_started" in codes(found.step("players-run").broken)


# --- the manifest -------------------------------------------------------------------------------------------------


def written(path: Path) -> Callable[[dict[str, Any]], Package]:
    """A package read from a file, as people have it."""

    def package(manifest: dict[str, Any]) -> Package:
        path.write_text(json.dumps(manifest, indent=2))
        return package_of(manifest, path)

    return package


async def test_a_manifest_of_an_older_generation_runs_but_does_not_matriculate(tmp_path: Path) -> None:
    def older(manifest: dict[str, Any]) -> None:
        manifest["game"]["protocols"]["player"] = "bare text"

    async with world(change=older, package=written(tmp_path / "coworld_manifest.json")) as old:
        found = await old.certify(tmp_path / "out")
    assert failures(found) == {"matriculate": "manifest_invalid"}
    item = next(item for item in found.step("matriculate").broken if item.pointer == "/game/protocols/player")
    assert item.line is not None
    assert item.line > 1
    assert found.matriculated_at is None
    assert found.step("smoke-episode").status == "pass"


def of_0_1_7(manifest: dict[str, Any]) -> None:
    """A manifest as 0.1.7 wrote it: without a readme, with bare text and a field that is gone."""
    del manifest["game"]["docs"]
    manifest["game"]["protocols"]["global"] = "bare text"
    manifest["variants"][0]["parent_id"] = None


def of_0_1_64(manifest: dict[str, Any]) -> None:
    manifest["tags"] = ["one", "two", "three"]
    manifest["game"]["achievements"] = []


def long_of_0_1_64(manifest: dict[str, Any]) -> None:
    of_0_1_64(manifest)
    manifest["certification"]["game_config"] = dict(LONG)


def as_it_was(_: dict[str, Any]) -> None:
    pass


@pytest.mark.parametrize(
    ("published", "change", "vices", "failed"),
    [
        ("0.1.7", of_0_1_7, ("knows_no_zlib",), {}),
        ("0.1.7", of_0_1_7, ("wants_zlib",), {"replay-loadable": "replay_unloadable"}),
        (None, of_0_1_7, (), {"matriculate": "manifest_invalid"}),
        (None, as_it_was, ("knows_only_json_z",), {}),
        (None, as_it_was, ("knows_no_zlib",), {"replay-loadable": "replay_unloadable"}),
        ("0.1.26", as_it_was, (), {}),
        ("0.1.26", of_0_1_7, (), {"matriculate": "manifest_invalid"}),
        ("0.1.26", of_0_1_64, ("knows_no_zlib",), dict.fromkeys(("matriculate", "replay-loadable"))),
        ("0.1.64", of_0_1_64, ("knows_no_zlib",), {}),
        ("0.1.64", long_of_0_1_64, ("no_pong",), {"smoke-episode": "game_contract_violation"}),
        ("0.1.64", as_it_was, (), {"matriculate": "manifest_invalid"}),
    ],
)
async def test_by_the_rules_of_a_published_version(
    published: Generation | None,
    change: Change,
    vices: tuple[str, ...],
    failed: dict[str, str | None],
    tmp_path: Path,
) -> None:
    package = written(tmp_path / "coworld_manifest.json")
    async with world(game_vices=vices, change=change, package=package) as older:
        found = await older.certify(tmp_path / "out", options=fast(published=published))
    assert failures(found).keys() == failed.keys()
    assert all(failures(found)[step] == reason for step, reason in failed.items() if reason is not None)
    said = f"It was certified by the rules of {published}, not by today's."
    if published and "matriculate" not in failed:
        assert said in found.caveats


def unchecked(manifest: dict[str, Any]) -> Package:
    """A package whose manifest nobody has checked."""
    parsed = Manifest.model_validate_json(json.dumps(manifest))
    return Package(manifest=parsed, report=load_manifest(MANIFEST).report)


async def test_invalid_fixture_fails_and_is_not_played(tmp_path: Path) -> None:
    def break_fixture(manifest: dict[str, Any]) -> None:
        manifest["certification"]["game_config"] = {"ticks": "eight"}

    async with world(change=break_fixture, package=unchecked) as bad:
        found = await bad.certify(tmp_path / "out")
    assert failures(found) == {"matriculate": "manifest_invalid", "fixture-conforms": "fixture_invalid"}
    assert [item.pointer for item in found.step("fixture-conforms").broken] == ["/certification/game_config/ticks"]
    assert "fixture-conforms" in found.step("smoke-episode").detail
    assert not (tmp_path / "out/episode").exists()


async def test_every_variant_is_checked_and_a_bad_one_does_not_stop_the_episode(tmp_path: Path) -> None:
    def break_variant(manifest: dict[str, Any]) -> None:
        manifest["variants"][1]["game_config"] = {"ticks": 0, "tocks": 1}

    async with world(change=break_variant, package=unchecked) as bad:
        found = await bad.certify(tmp_path / "out")
    step = found.step("fixture-conforms")
    assert step.failure_reason == "fixture_invalid"
    assert {item.pointer for item in step.broken} == {
        "/variants/1/game_config/ticks",
        "/variants/1/game_config/tocks",
    }
    assert all("'long'" in item.message for item in step.broken)
    assert found.step("smoke-episode").status == "pass"


async def test_duplicate_ids_and_unknown_players_are_found(tmp_path: Path) -> None:
    def repeat(manifest: dict[str, Any]) -> None:
        manifest["player"][1]["id"] = "first"

    async with world(change=repeat, package=unchecked) as bad:
        found = await bad.certify(tmp_path / "out")
    assert found.step("matriculate").failure_reason == "manifest_invalid"
    assert any("first" in item.message for item in found.step("matriculate").broken)
    (item,) = found.step("fixture-conforms").broken
    assert (item.code, item.pointer) == ("unknown_player", "/certification/players/1/player_id")


# --- sources, images, roles ---------------------------------------------------------------------------------------


async def test_unpinned_source_is_advice(tmp_path: Path) -> None:
    def unpin(manifest: dict[str, Any]) -> None:
        manifest["game"]["runnable"]["source_url"] = "https://github.com/me/counting"

    async with world(change=unpin) as bad:
        found = await bad.certify(tmp_path / "out")
    assert failures(found) == {}
    assert found.sources[0].status == "unresolved"
    (item,) = [item for item in found.step("source-resolves").evidence if item.code == "source_not_pinned"]
    assert (item.level, item.ok) == ("advice", False)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://github.com/me/counting/tree/" + "a" * 40, "source_unreachable"),
        ("https://gitlab.example.org/me/counting", "source_unsupported"),
    ],
)
async def test_a_source_that_cannot_be_looked_up_is_a_caveat(tmp_path: Path, url: str, reason: str) -> None:
    def declare(manifest: dict[str, Any]) -> None:
        manifest["game"]["runnable"]["source_url"] = url

    async with world(change=declare) as odd:
        found = await odd.certify(tmp_path / "out")
    assert found.ok
    assert skips(found)["source-resolves"] == reason
    assert any(caveat.startswith("source-resolves: Not decided for game") for caveat in found.caveats)


async def test_a_dead_source_fails(tmp_path: Path) -> None:
    def declare(manifest: dict[str, Any]) -> None:
        manifest["game"]["runnable"]["source_url"] = f"https://github.com/me/game/tree/{SHA}/src"
        manifest["player"][0]["source_url"] = f"https://github.com/me/game/tree/{SHA}/gone"

    async with serve_site(GitHub()) as github, world(change=declare) as bad:
        options = fast(sources=SourceOptions(api=github.url))
        found = await bad.certify(tmp_path / "out", options=options)
    assert failures(found) == {"source-resolves": "source_unresolved"}
    (item,) = found.step("source-resolves").broken
    assert item.message.startswith("player first: ")
    assert [record.status for record in found.sources] == ["resolved", "unresolved", "not_declared"]


class WithImages(FakeBackend):
    """A backend with images, of which one is not to be had."""

    @property
    def capabilities(self) -> Capabilities:
        import dataclasses

        return dataclasses.replace(super().capabilities, images=True)

    async def ensure_image(
        self, image: str, *, platform: str | None = None, publish: Publish | None = None
    ) -> ImageInfo:
        assert platform == "linux/amd64"
        if image.startswith("lost"):
            raise ImageError(f"{image} is nowhere.", hint="Build it.")
        return ImageInfo(image=image, digest="sha256:" + "0" * 64, platform="linux/amd64", emulated="slow" in image)


async def test_images_are_looked_for_once_each_and_recorded(tmp_path: Path) -> None:
    async with world(backend=WithImages) as good:
        found = await good.certify(tmp_path / "out")
    assert found.ok
    assert not found.caveats
    assert [record.image for record in found.images] == ["counting-game", "counting-player"]
    assert found.step("images-reachable").detail == "2 images for linux/amd64, all available."


async def test_a_missing_image_fails_and_nothing_is_played(tmp_path: Path) -> None:
    def lose(manifest: dict[str, Any]) -> None:
        manifest["player"][1]["image"] = "lost-player"

    async with world(backend=WithImages, change=lose) as bad:
        found = await bad.certify(tmp_path / "out")
    assert failures(found) == {"images-reachable": "image_unreachable"}
    (item,) = found.step("images-reachable").broken
    assert "player second" in item.message
    assert item.hint == "Build it."
    assert "images-reachable" in found.step("smoke-episode").detail


async def test_a_missing_image_of_a_supporting_role_fails_but_the_episode_is_played(tmp_path: Path) -> None:
    def declare(manifest: dict[str, Any]) -> None:
        manifest["reporter"] = [
            {"id": "r", "name": "R", "type": "reporter", "description": "Reports.", "image": "lost-reporter"}
        ]

    async with world(backend=WithImages, change=declare) as bad:
        found = await bad.certify(tmp_path / "out")
    assert failures(found) == {"images-reachable": "image_unreachable"}
    assert found.step("smoke-episode").status == "pass"


async def test_optimizers_without_a_plan_are_advice_and_leave_the_verdict_alone(tmp_path: Path) -> None:
    def declare(manifest: dict[str, Any]) -> None:
        manifest["optimizer"] = [
            {"id": name, "name": name, "type": "optimizer", "description": "x", "image": "helper"} for name in "ab"
        ]

    async with world(change=declare) as good:
        found = await good.certify(tmp_path / "out")
    step = found.step("supporting-roles")
    assert (step.status, step.detail) == (
        "pass",
        "Declared: 2 optimizers; 2 could not be run here.",
    )
    assert [(item.ok, item.level) for item in step.evidence] == [(False, "advice")] * 2, step.evidence
    assert all(item.message.startswith(f"optimizer '{name}'") for item, name in zip(step.evidence, "ab", strict=True))
    assert found.ok


@pytest.mark.parametrize(
    ("section", "reason"),
    [
        ("reporter", "reporter_failed"),
        ("grader", "supporting_roles_failed"),
        ("commissioner", "commissioner_protocol_failed"),
    ],
)
async def test_role_that_cannot_be_run_fails_its_step(section: str, reason: str, tmp_path: Path) -> None:
    def declare(manifest: dict[str, Any]) -> None:
        manifest[section] = [{"id": "a", "name": "a", "type": section, "description": "x", "image": "helper"}]

    async with world(change=declare) as bad:
        found = await bad.certify(tmp_path / "out")
    step = found.step("supporting-roles")
    assert (step.status, step.failure_reason, found.ok) == ("fail", reason, False)
    assert step.detail.startswith(f"{section} 'a'")
    assert "helper" in step.detail
