"""From a run to its bundle: what names an episode, and what the bundle then holds."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from support.fake_server import Ask, Say, serve_in_thread
from support.small_world import World, world

from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.record import EpisodeRecord, EpisodeRow, SlotRow
from coworld_core.errors import CoworldError, EnvironmentFault, UsageError
from coworld_core.roles.bundle_file import BundleError
from coworld_runner import plan_episode, run_batch, run_episode
from coworld_runner.replay.replay_file import find_replay, game_of, resolve_replay
from coworld_runner.roles.after_episode import package_of
from coworld_runner.roles.episode_bundle import bundle_episode, read_episode
from coworld_runner.runs.workspace import open_workspace

SECRET = "hunter2-is-a-secret"


async def played(made: World, workspace: Path) -> tuple[EpisodeRecord, list[str]]:
    """Play an episode whose players have a secret; returns its record, and the links with the tokens."""
    plan = plan_episode(made.package, secret_env={"KEY": SECRET})
    links: list[str] = []
    record = await run_episode(
        plan, backend=made.backend, workspace=workspace, on_ready=lambda found: links.extend(found.players.values())
    )
    return record, links


@pytest.fixture
async def small() -> AsyncGenerator[World, None]:
    async with world() as made:
        yield made


async def test_a_bundle_holds_what_the_episode_left_and_no_secret(small: World, tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    record, links = await played(small, workspace)
    layout = EpisodeLayout(workspace)
    with zipfile.ZipFile(layout.player_artifact(1), "w") as left:
        left.writestr("notes.txt", "mine")
    bundle = await bundle_episode(workspace, tmp_path / "b.zip")
    assert (bundle.episode_id, bundle.status) == (record.run_id, "success")
    content = {(file.token, file.key): b"".join(bundle.pieces(file)) for file in bundle.files}
    assert json.loads(content.pop(("metadata", None))) == {
        "variant_id": "certification",
        "duration_seconds": record.seconds,
        "players": [{"slot": 0, "policy_name": "First"}, {"slot": 1, "policy_name": "Second"}],
    }
    assert content == {
        ("results", None): layout.results.read_bytes(),
        ("replay", None): layout.replay.read_bytes(),
        ("game_logs", "combined"): layout.game_stdout.read_bytes() + layout.game_stderr.read_bytes(),
        ("player_logs", "0"): layout.player_log(0).read_bytes(),
        ("player_logs", "1"): layout.player_log(1).read_bytes(),
        ("player_artifact", "1"): layout.player_artifact(1).read_bytes(),
    }
    tokens = [link.rpartition("token=")[2] for link in links]
    assert len(tokens) == 2
    with zipfile.ZipFile(bundle.path) as archive:
        whole = b"".join(archive.read(name) for name in archive.namelist())
    assert not [word for word in (SECRET, *tokens) if word.encode() in whole]
    again = await bundle_episode(str(workspace), tmp_path / "again.zip")
    assert again.path.read_bytes() == bundle.path.read_bytes()


async def test_a_failed_episode_has_a_bundle_too(tmp_path: Path) -> None:
    async with world(game_vices=("no_results",)) as made:
        record, _ = await played(made, tmp_path / "w")
    bundle = await bundle_episode(tmp_path / "w", tmp_path / "b.zip", include=["error_info", "results"])
    assert (bundle.episode_id, bundle.status) == (record.run_id, "failed")
    [file] = bundle.files
    error = json.loads(b"".join(bundle.pieces(file)))
    assert (file.token, error["error_type"], error["failed_policy_index"]) == ("error_info", "results_missing", None)


async def test_episodes_of_a_run_of_several_are_named_by_number_or_key(small: World, tmp_path: Path) -> None:
    workspace = tmp_path / "results" / "many"
    await run_batch(plan_episode(small.package), episodes=2, backend=small.backend, workspace=workspace)
    ids = [read_episode(workspace / name).id for name in ("1", "2", "episode-0002")]
    assert len({*ids}) == 2
    assert ids[1] == ids[2]
    for refused, code in (("", "several_episodes"), ("3", "no_such_episode"), ("nobody", "no_such_episode")):
        with pytest.raises(UsageError) as caught:
            read_episode(workspace / refused)
        assert caught.value.code == code
    assert read_episode(tmp_path / "latest" / "1").id == ids[0]
    async with resolve_replay(workspace / "2") as replay:
        assert replay.path == workspace / "episode-0002" / "replay"
    with pytest.raises(UsageError) as caught:
        async with resolve_replay(workspace):
            pass
    assert caught.value.code == "several_episodes"
    # A package leads to its last run, whatever is asked of it
    with pytest.raises(UsageError) as caught:
        read_episode(tmp_path)
    assert (caught.value.code, caught.value.hint) == ("not_an_episode", f"Its last run: {workspace}")
    with pytest.raises(UsageError, match="is a package, not a run"):
        await package_of(None, [tmp_path])


async def test_an_episode_that_failed_before_it_had_a_record_has_a_bundle(tmp_path: Path) -> None:
    row = EpisodeRow(
        index=1,
        key="first try",
        run_id="r1",
        workspace="first-try",
        variant="duel",
        status="failed",
        ok=False,
        slots=(SlotRow(name="Ada"), SlotRow()),
        seconds=1.5,
        error_type="image_unreachable",
        party="operator",
        message="There is no image.",
    )
    (tmp_path / "episodes.jsonl").write_text(row.model_dump_json() + "\n")
    for name in ("1", "first try", "first-try"):
        bundle = await bundle_episode(tmp_path / name, tmp_path / "b.zip")
        assert (bundle.episode_id, bundle.status) == ("r1", "failed")
        assert [json.loads(b"".join(bundle.pieces(file))) for file in bundle.files] == [
            {
                "error_type": "crash",
                "message": "image_unreachable: There is no image.",
                "failed_policy_index": None,
            },
            {
                "duration_seconds": 1.5,
                "players": [{"policy_name": "Ada", "slot": 0}, {"slot": 1}],
                "variant_id": "duel",
            },
        ]


async def test_latest_is_the_newest_run(small: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="no run at or below") as caught:
        read_episode("latest")
    assert caught.value.code == "no_run"
    old, _ = await played(small, Path("games/counting/results/old"))
    new, _ = await played(small, Path("results/new"))
    os.utime("games/counting/results/old/episode.json", (1, 1))
    assert read_episode("latest").id == read_episode("results/latest").id == new.run_id
    assert read_episode("games/counting/latest").id == old.run_id
    async with resolve_replay("games/latest") as replay:
        assert replay.path == tmp_path / "games/counting/results/old/replay"
    assert game_of("latest") == new.manifest
    for missing in ("elsewhere/latest", "nothing"):
        with pytest.raises(UsageError) as caught:
            read_episode(missing)
        assert caught.value.code == "path_missing"


def test_an_episode_that_has_not_ended_has_no_bundle(tmp_path: Path) -> None:
    with open_workspace(tmp_path / "w") as (layout, _):
        with pytest.raises(UsageError, match="is still being played") as caught:
            read_episode(layout.workspace)
        assert caught.value.code == "episode_unfinished"
    with pytest.raises(UsageError, match="was cut short before its record was written"):
        read_episode(tmp_path / "w")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "results.json").write_text("{}")
    (tmp_path / "results.json").write_text("{}")
    for place, words in (("other", "there is no episode.json in it"), ("results.json", "is not a bundle")):
        with pytest.raises(UsageError, match=words) as caught:
            read_episode(tmp_path / place)
        assert caught.value.code == "not_an_episode"


async def test_a_bundle_is_an_episode(small: World, tmp_path: Path) -> None:
    await played(small, tmp_path / "w")
    whole = await bundle_episode(tmp_path / "w", tmp_path / "b.zip")
    before = whole.path.read_bytes()
    copy = await bundle_episode(whole.path, tmp_path / "c.zip")
    assert [(file.name, file.size) for file in copy.files] == [(file.name, file.size) for file in whole.files]
    assert (copy.episode_id, copy.status) == (whole.episode_id, whole.status)
    less = await bundle_episode(whole.path, whole.path, slots=[1], include=["replay", "player_logs", "metadata"])
    assert {file.name for file in less.files} == {"replay", "logs/policy_agent_1.log", "metadata.json"}
    assert whole.path.read_bytes() != before
    whole.path.write_bytes(before[:-100])
    with pytest.raises(BundleError, match="damaged"):
        await bundle_episode(whole.path, tmp_path / "d.zip")
    assert not (tmp_path / "d.zip").exists()
    with pytest.raises(CoworldError) as caught:
        await bundle_episode(copy.path, tmp_path / "no such directory" / "d.zip")
    assert caught.value.code == "path_unwritable"
    ended = read_episode(tmp_path / "w")
    (tmp_path / "w" / "replay").unlink()
    with pytest.raises(EnvironmentFault, match=r"w/replay No such file") as caught:
        await bundle_episode(ended, tmp_path / "d.zip")
    assert (caught.value.code, (tmp_path / "d.zip").exists()) == ("path_unreadable", False)


async def test_the_replay_of_a_bundle_is_opened(small: World, tmp_path: Path) -> None:
    await played(small, tmp_path / "w")
    bundle = (await bundle_episode(tmp_path / "w", tmp_path / "b.zip")).path
    content = (tmp_path / "w" / "replay").read_bytes()
    served = bundle.read_bytes()

    async def serve(_: Ask) -> Say:
        return Say(200, served)

    with serve_in_thread(serve) as server:
        for source in (bundle, f"{server.url}/b.zip"):
            async with resolve_replay(source) as replay:
                assert replay.path.read_bytes() == content
                assert (replay.copied, replay.name, replay.size) == (True, "replay", len(content))
                assert replay.source == str(source)
                copy = replay.path
            assert not copy.exists()
    game = game_of(str(tmp_path / "w"))
    assert find_replay(str(tmp_path / "w")) == (game, str(tmp_path / "w"))
    assert find_replay(str(tmp_path)) == (str(tmp_path), None)
    assert game_of("https://example.org/coworld_manifest.json") is None
    with pytest.raises(UsageError) as caught:
        game_of(str(bundle))
    assert caught.value.code == "game_unknown"
    with pytest.raises(CoworldError, match="more than 3 bytes"):
        async with resolve_replay(bundle, limit=3):
            pass
    await bundle_episode(bundle, bundle, include=["results"])
    with pytest.raises(UsageError, match="There is no replay in the bundle"):
        async with resolve_replay(bundle):
            pass
    bundle.write_bytes(bundle.read_bytes()[:200])
    with pytest.raises(BundleError):
        async with resolve_replay(bundle):
            pass
