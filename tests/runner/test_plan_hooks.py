"""Hooks before an episode: what they change, what the record says of it, and what becomes of one that goes wrong."""

from __future__ import annotations

import dataclasses
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.contest import compared, contest, held, played_on
from support.plugin import install
from support.small_world import World, world

from coworld_core.episode.record import read_record, read_rows
from coworld_core.errors import CapabilityError, HookError, UsageError
from coworld_runner.episode.batch import run_batch
from coworld_runner.episode.episode_options import EpisodeOptions
from coworld_runner.episode.many import run_many
from coworld_runner.episode.plan_hooks import apply_hooks, find_hooks, hook_names
from coworld_runner.episode.single import run_episode
from coworld_runner.evaluation.worker_venue import WorkerVenue
from coworld_runner.package.plan import EpisodePlan, plan_episode
from coworld_runner.package.resolver import resolve_package

QUICK = {"ticks": 2, "tick_seconds": 0.0}


def shorter(plan: EpisodePlan) -> EpisodePlan:
    return dataclasses.replace(plan, game_config={**plan.game_config, "ticks": plan.game_config["ticks"] - 1})


async def labelled(plan: EpisodePlan) -> EpisodePlan:
    await anyio.lowlevel.checkpoint()
    return plan.tagged({"exp": "a"})


def swapped(plan: EpisodePlan) -> EpisodePlan:
    return plan.reseated([1, 0])


def unchanged(plan: EpisodePlan) -> EpisodePlan:
    plan.game_config["ticks"] = 99  # type: ignore[index]
    plan.seats[0].secret_env["KEY"] = "x"  # type: ignore[index]
    return dataclasses.replace(plan, game_config={**plan.game_config, "ticks": 2})


def planned(small: World) -> EpisodePlan:
    return plan_episode(small.package, variant="default", players=["first", "second"], config=QUICK)


async def test_hooks_change_the_plan_in_order_and_the_record_says_what(tmp_path: Path) -> None:
    async with world() as small:
        record = await run_episode(
            planned(small), backend=small.backend, workspace=tmp_path / "run", hooks=[shorter, labelled, swapped]
        )
    assert record.ok
    assert (record.game_config["ticks"], record.episode_tags) == (1, {"exp": "a"})
    assert [slot.player_id for slot in record.slots] == ["second", "first"]
    first, second, third = read_record(tmp_path / "run").hooks
    assert first.name.endswith("test_plan_hooks:shorter")
    assert [len(hook.digest) for hook in (first, second, third)] == [64] * 3
    assert first.digest != second.digest
    assert (first.changed, second.changed) == (("/game_config/ticks",), ("/episode_tags/exp",))
    assert {"/seats/0/player_id", "/seats/1/name"} <= set(third.changed)
    assert all(hook.seconds is not None for hook in (first, second, third))


async def test_secrets_of_a_hook_reach_the_player_and_no_record(tmp_path: Path) -> None:
    def key(plan: EpisodePlan) -> EpisodePlan:
        seat = dataclasses.replace(plan.seats[1], secret_env={"API_KEY": "s3cret"})
        return dataclasses.replace(plan, seats=(plan.seats[0], seat))

    async with world() as small:
        record = await run_episode(planned(small), backend=small.backend, workspace=tmp_path / "run", hooks=[key])
    assert (record.slots[0].secret_env, record.slots[1].secret_env) == ((), ("API_KEY",))
    assert record.hooks[0].changed == ("/seats/1/secret_env/API_KEY",)
    assert not any(b"s3cret" in path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())


async def test_a_hook_has_a_copy(tmp_path: Path) -> None:
    async with world() as small:
        plan = planned(small)
        made = await apply_hooks(plan, find_hooks([unchanged]), timeout=10)
    assert plan.game_config["ticks"] == 2
    assert dict(plan.seats[0].secret_env) == {}
    # What it returns counts, whether it has changed it in place or not
    assert made.hooks[0].changed == ("/seats/0/secret_env/KEY",)


def fails(plan: EpisodePlan) -> EpisodePlan:
    raise ValueError(f"no rating for {plan.seats[0].name}")


def leaves(plan: EpisodePlan) -> EpisodePlan:
    sys.exit(3)


def forgets(plan: EpisodePlan) -> Any:
    assert plan


def counts(plan: EpisodePlan) -> Any:
    return len(plan.seats)


def misconfigures(plan: EpisodePlan) -> EpisodePlan:
    return dataclasses.replace(plan, game_config={**plan.game_config, "ticks": "many"})


def misseats(plan: EpisodePlan) -> EpisodePlan:
    return plan.reseated([0, 0])


@pytest.mark.parametrize(
    ("hook", "code", "words"),
    [
        (fails, "hook_failed", r"test_plan_hooks:fails has failed: ValueError: no rating for First \(test_plan_hooks"),
        (leaves, "hook_failed", r"leaves has failed: SystemExit: 3"),
        (forgets, "hook_without_plan", r"forgets has returned no plan"),
        (counts, "hook_without_plan", r"counts has returned int, and not a plan"),
        (misconfigures, "hook_plan_invalid", r"misconfigures has made a plan that the game cannot play: .*ticks"),
        (misseats, "hook_failed", r"misseats has failed: \[0, 0\] is no order of 2 seats"),
    ],
)
async def test_a_wrong_hook_names_itself_and_nothing_starts(tmp_path: Path, hook: Any, code: str, words: str) -> None:
    async with world() as small:
        with pytest.raises(HookError, match=words) as error:
            await run_episode(planned(small), backend=small.backend, workspace=tmp_path / "run", hooks=[labelled, hook])
        assert error.value.code == code
        assert not (tmp_path / "run").exists()


async def test_a_hook_that_never_ends_is_not_waited_for(tmp_path: Path) -> None:
    asked, released = threading.Event(), threading.Event()

    def waits(plan: EpisodePlan) -> EpisodePlan:
        asked.set()
        released.wait()
        return plan

    async def sleeps(plan: EpisodePlan) -> EpisodePlan:
        await anyio.sleep_forever()
        return plan

    options = EpisodeOptions(hook_timeout_seconds=0.1)
    try:
        async with world() as small:
            for hook in (waits, sleeps):
                with pytest.raises(HookError, match=r"has not ended within 0\.1 s") as error:
                    await run_episode(
                        planned(small),
                        backend=small.backend,
                        workspace=tmp_path / "run",
                        hooks=[hook],
                        options=options,
                    )
                assert error.value.code == "hook_timeout"
        assert asked.is_set()
    finally:
        released.set()


# --- where hooks come from --------------------------------------------------------------------------------------------


def test_hooks_of_files(tmp_path: Path) -> None:
    (tmp_path / "lengths.py").write_text("STEP = 1\n")
    one = tmp_path / "one.py"
    one.write_text("import lengths\n\ndef _own(plan):\n    pass\n\ndef only(plan):\n    return lengths.STEP\n")
    two = tmp_path / "two.py"
    two.write_text("def pair(plan):\n    return plan\n\ndef seeds(plan):\n    return plan\n")
    (only,) = find_hooks([one])
    assert (only.name, only.function(None)) == ("one.py:only", 1)  # type: ignore[arg-type]
    pair, seeds = find_hooks([f"{two}:pair", f"{two}:seeds"])
    assert (pair.name, seeds.name, pair.digest) == ("two.py:pair", "two.py:seeds", seeds.digest)
    two.write_text(two.read_text() + "\n")
    assert find_hooks([f"{two}:pair"])[0].digest != pair.digest
    wrong = [
        (two, "hook_ambiguous", r"it has pair and seeds"),
        (f"{two}:par", "unknown_hook", r"no function 'par'. Did you mean \"pair\""),
        (tmp_path / "no.py", "file_not_found", r"no\.py cannot be read"),
        ("pairing", "unknown_hook", r"no hook 'pairing'"),
    ]
    (tmp_path / "bad.py").write_text("import nothing_like_this\n")
    wrong.append((tmp_path / "bad.py", "hook_broken", r"No module named 'nothing_like_this' \(bad.py, line 1\)"))
    for word, code, words in wrong:
        with pytest.raises(UsageError, match=words) as error:
            find_hooks([word])
        assert error.value.code == code


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    site = install(
        tmp_path / "site",
        hooks={"halves": "halving:halves", "none": "halving:missing"},
        modules={"halving": "def halves(plan):\n    return plan.tagged({'by': 'halves'})\n"},
    )
    monkeypatch.syspath_prepend(str(site))
    yield site
    sys.modules.pop("halving", None)


async def test_installed_hooks_are_named(installed: Path, tmp_path: Path) -> None:
    assert hook_names() == ("halves", "none")
    with pytest.raises(UsageError, match=r"Did you mean 'halves'\?"):
        find_hooks(["halvs"])
    with pytest.raises(UsageError, match=r"'none' of .* cannot be used"):
        find_hooks(["none"])
    async with world() as small:
        record = await run_episode(planned(small), backend=small.backend, workspace=tmp_path / "run", hooks=["halves"])
    assert (record.episode_tags, record.hooks[0].name) == ({"by": "halves"}, "halves")
    assert record.hooks[0].digest


# --- many episodes ----------------------------------------------------------------------------------------------------


async def test_many_episodes_go_through_hooks_and_resume_only_with_the_same(tmp_path: Path) -> None:
    hooks = tmp_path / "hooks.py"
    hooks.write_text(
        "def turned(plan):\n    return plan.reseated([1, 0]) if plan.game_config['ticks'] == 2 else plan\n"
    )
    async with world() as small:
        short, other = planned(small), plan_episode(small.package, variant="default", config={**QUICK, "ticks": 1})
        how: Any = {"backend": small.backend, "workspace": tmp_path / "run"}
        await run_many([("a", short), ("b", other)], hooks=[hooks], **how)
        rows = {row.key: row for row in read_rows(tmp_path / "run")}
        assert [seat.player_id for seat in rows["a"].slots] == ["second", "first"]
        assert [seat.player_id for seat in rows["b"].slots] == ["first", "second"]
        assert [row.hooks[0].name for row in rows.values()] == ["hooks.py:turned"] * 2
        # The plans are what they were before hooks changed them
        counts = await run_many([("a", short), ("b", other), ("c", other)], hooks=[hooks], resume=True, **how)
        assert (counts.kept, counts.played) == (2, 1)
        with pytest.raises(UsageError) as changed:
            await run_many([("a", other)], hooks=[hooks], resume=True, **how)
        assert changed.value.code == "key_of_another_plan"
        for others in ([], [shorter], [hooks, hooks]):
            with pytest.raises(UsageError, match=r"were played with the hook hooks.py:turned \(") as changed:
                await run_many([("d", short)], hooks=others, resume=True, **how)
            assert changed.value.code == "hooks_changed"
        hooks.write_text(hooks.read_text() + "# another\n")
        with pytest.raises(UsageError, match=r"and this run has the hook hooks\.py:turned"):
            await run_many([("d", short)], hooks=[hooks], resume=True, **how)
        how["workspace"] = tmp_path / "plain"
        await run_many([("a", short)], **how)
        with pytest.raises(UsageError, match="were played with no hooks"):
            await run_many([("b", short)], hooks=[hooks], resume=True, **how)


async def test_a_failed_hook_is_a_row_of_the_operator(tmp_path: Path) -> None:
    def picky(plan: EpisodePlan) -> EpisodePlan:
        if plan.variant == "long":
            raise LookupError("no ratings")
        return plan.reseated([1, 0])

    async with world() as small:
        summary = await run_batch(
            small.package,
            episodes=1,
            variant="*",
            players=["first", "second"],
            config=QUICK,
            backend=small.backend,
            workspace=tmp_path / "run",
            hooks=[picky],
        )
    good, bad = summary.episodes
    assert (good.ok, bad.ok, bad.party, bad.error_type) == (True, False, "operator", "config_error")
    assert "picky has failed: LookupError: no ratings" in (bad.message or "")
    assert [hook.seconds is None for row in (good, bad) for hook in row.hooks] == [False, True]
    assert not (tmp_path / "run" / "episode-0002").exists()
    # Players are named by who sat where, not by what was planned
    assert {player.name: player.mean_score for player in summary.players} == {
        seat.name: good.scores[slot] for slot, seat in enumerate(good.slots)
    }


# --- measurements -----------------------------------------------------------------------------------------------------


async def test_measurements_have_hooks_that_leave_players_where_they_are(tmp_path: Path) -> None:
    async with contest() as small:
        report = await compared(small, tmp_path / "run", hooks=[labelled], max_blocks=2)
        assert report.blocks == 2
        assert all(row.hooks and row.episode_tags == {"exp": "a"} for row in read_rows(tmp_path / "run"))
        with pytest.raises(UsageError) as changed:
            await compared(small, tmp_path / "run", max_blocks=4)
        assert changed.value.code == "hooks_changed"
        with pytest.raises(HookError, match="swapped has changed who sits where"):
            await compared(small, tmp_path / "swapped", hooks=[swapped], max_blocks=2)
        place = await held(small, tmp_path / "cup", "first", "second")
        await played_on(small, place, hooks=[labelled])
        logged = [json.loads(line) for line in (place / "events.ndjson").read_text().splitlines()]
        rows = [event["row"] for event in logged if event["kind"] == "episode_ended"]
        assert rows
        assert all(row["hooks"][0]["changed"] == ["/episode_tags/exp"] for row in rows)


async def test_worker_processes_have_no_hooks(tmp_path: Path) -> None:
    package = await resolve_package("examples/nim")
    async with contest() as small:
        venue = WorkerVenue(package)
        with pytest.raises(CapabilityError, match="without hooks"):
            async with venue:
                await compared(small, tmp_path / "run", backend="auto", venue=venue, hooks=[labelled])


async def test_names_go_with_players_to_other_seats() -> None:
    package = await resolve_package("examples/nim")
    plan = plan_episode(package, variant="default", players=["counter", "random-taker"])
    turned = plan.reseated([1, 0])
    assert [seat.name for seat in turned.seats] == ["Random Taker", "Counter"]
    assert turned.game_config == {**plan.game_config, "players": [{"name": "Random Taker"}, {"name": "Counter"}]}
    assert turned.reseated([1, 0]) == plan
