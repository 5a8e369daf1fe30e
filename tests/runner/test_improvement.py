"""Programs that improve players: which one it is, what it gets, and what becomes of what it leaves."""

from __future__ import annotations

import dataclasses
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from coworld_core.errors import CoworldError, UsageError
from coworld_core.roles.improvement import ImprovedPlayer, ImprovementPlan
from coworld_core.roles.improvement_budget import ImprovementBudget
from coworld_core.roles.improvement_task import ImprovementTask
from coworld_core.roles.plan import read_optimizer_plan
from coworld_runner import Package, resolve_package
from coworld_runner.evaluation import EvaluationRules
from coworld_runner.improvement import Improvement, ImprovementRules, improve_player
from coworld_runner.improvement.improvement_folder import ImprovementFolder, changes_text
from coworld_runner.kit.roles.optimizer_host import play_command, play_optimizer
from coworld_runner.kit.roles.role_exchange import RoleError
from coworld_runner.package.player_names import files_player
from coworld_runner.roles.optimizer_program import find_optimizer
from coworld_runner.roles.optimizer_work import PlayerLimits, optimizer_work, unpack_player
from coworld_runner.roles.role_run import RoleOptions

NIM = Path(__file__).parents[2] / "examples" / "nim"
WEAK = (NIM / "players" / "random_taker.py").read_text()
STRONG = (NIM / "players" / "counter.py").read_text()
TASK = ImprovementTask(
    goal="Win.", coworld="nim", step=1, player=ImprovedPlayer(name="bot", entry="bot.py", single=True, digest="d0")
)


@pytest.fixture(scope="module")
def nim() -> Package:
    return anyio.run(resolve_package, NIM)


# --- which program --------------------------------------------------------------------------------------------------


async def test_file_with_the_function_is_played_by_the_kit(nim: Package, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def optimize(task, player): ...\n")
    found = find_optimizer(nim, str(tmp_path / "mine.py"))
    assert (found.local, found.program.own is not None) == (False, True)
    assert found.program.own is not None
    assert found.program.own.command == ("python", "-m", "coworld_runner.kit.roles", "{}/mine.py")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("python mine.py --fast", ["python", "{}/mine.py", "--fast"]),
        ("./mine.py", ["python", "{}/./mine.py"]),
        ("sh -c 'echo {} > bot.py'", ["sh", "-c", "echo {} > bot.py"]),
        ("true", ["true"]),
    ],
)
async def test_command_lines_find_their_files(
    line: str, words: list[str], nim: Package, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text("print('a program')\n")
    monkeypatch.chdir(tmp_path)
    found = find_optimizer(nim, line)
    assert found.local
    assert found.program.own is not None
    told = json.loads(found.program.own.files["command.json"])
    assert told == [str(Path(word.replace("{}", str(tmp_path), 1))) if "mine.py" in word else word for word in words]


@pytest.mark.parametrize(
    ("word", "said"),
    [
        (None, "declares no optimizer"),
        ("", "is empty"),
        ("'", "cannot be read as a command"),
        ("no-such-thing", "There is no optimizer 'no-such-thing'"),
        ("no-such-thing --go", "There is no program 'no-such-thing'"),
        ("./none.py", "There is no optimizer at"),
        ("./grader.py", "has no function optimize"),
    ],
)
async def test_what_is_no_program_is_refused(
    word: str | None, said: str, nim: Package, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "grader.py").write_text("def grade(episode): ...\n")
    bare = dataclasses.replace(nim, manifest=nim.manifest.model_copy(update={"optimizer": ()}))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=said):
        find_optimizer(bare, word)


async def test_image_is_taken_as_it_is(nim: Package) -> None:
    found = find_optimizer(nim, "ghcr.io/ada/optimizer:1", run=["go"])
    assert (found.local, found.program.runnable.image, found.program.runnable.run) == (
        False,
        "ghcr.io/ada/optimizer:1",
        ("go",),
    )


@pytest.mark.parametrize("player", ["counter", "random", "ghcr.io/ada/bot:1"])
async def test_only_files_are_improved(player: str, nim: Package) -> None:
    with pytest.raises(UsageError, match="only files can be improved"):
        files_player(player, nim)


# --- what it is given, and what it leaves ----------------------------------------------------------------------------


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The environment of an optimizer: the player's files are inputs, and outputs stand apart."""
    inputs, outputs = tmp_path / "inputs", tmp_path / "outputs"
    (inputs / "player").mkdir(parents=True)
    (inputs / "player" / "bot.py").write_text(WEAK)
    (inputs / "player" / "bot.py").chmod(0o444)
    (inputs / "docs").mkdir()
    (inputs / "docs" / "readme.md").write_text("Take sticks.")
    (inputs / "grade.json").write_text('{"score": 0.5}')
    (inputs / "task.json").write_bytes(TASK.model_copy(update={"docs": ("docs/readme.md",)}).to_document())
    (inputs / "manifest.json").write_text('{"game": {"name": "nim"}}')
    outputs.mkdir()
    for name, place in {
        "COWORLD_MANIFEST_URI": inputs / "manifest.json",
        "COGAME_OPTIMIZER_OUTPUT_URI": outputs / "plan.json",
        "COGAME_POLICY_WORKSPACE_URI": inputs / "player",
        "COGAME_GRADER_OUTPUT_URIS": inputs / "grade.json",
        "COWORLD_IMPROVEMENT_TASK_URI": inputs / "task.json",
        "COWORLD_IMPROVED_PLAYER_URI": outputs / "player.zip",
    }.items():
        monkeypatch.setenv(name, place.as_uri())
    return tmp_path


async def left(asked: Path, optimize: Callable[..., Any]) -> dict[str, str]:
    """The files that an optimizer has left."""
    scratch = asked / "scratch"
    scratch.mkdir()
    await play_optimizer(optimize, "mine", scratch)
    with zipfile.ZipFile(asked / "outputs" / "player.zip") as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


async def test_function_changes_a_copy_and_says_what_it_did(asked: Path) -> None:
    def optimize(task: Any, player: Path) -> list[str]:
        assert (task.goal, task.game, task.step, task.history, task.episodes) == ("Win.", "nim", 1, (), ())
        assert (task.grades, task.docs) == (({"score": 0.5},), {"docs/readme.md": "Take sticks."})
        player.write_text(STRONG)
        (player.parent / "helper.py").write_text("x = 1\n")
        (player.parent / "__pycache__").mkdir()
        (player.parent / "__pycache__" / "x.pyc").write_text("not a part of it")
        return ["Counts.", "Sticks."]

    assert await left(asked, optimize) == {"bot.py": STRONG, "helper.py": "x = 1\n"}
    assert (asked / "inputs" / "player" / "bot.py").read_text() == WEAK
    plan = read_optimizer_plan(asked / "outputs" / "plan.json")
    assert (plan.optimizer_id, plan.coworld_name, plan.recommendations) == ("mine", "nim", ("Counts.", "Sticks."))
    assert plan.input_counts.grader_outputs == 1


async def test_published_contract_asks_for_advice_alone(asked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COWORLD_IMPROVEMENT_TASK_URI", "COWORLD_IMPROVED_PLAYER_URI", "COGAME_POLICY_WORKSPACE_URI"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("COGAME_OPTIMIZER_ID", "theirs")

    async def optimize(task: Any, player: Path | None) -> str:
        return f"{task.game}: {task.grades[0]['score']}, {player}"

    await play_optimizer(optimize, "mine", asked)
    plan = read_optimizer_plan(asked / "outputs" / "plan.json")
    assert (plan.optimizer_id, plan.recommendations, plan.policy_workspace_uri) == ("theirs", ("nim: 0.5, None",), None)


def outside(task: Any, player: Path) -> None:
    (player.parent.parent / "evil.py").write_text("x")


def linked(task: Any, player: Path) -> None:
    (player.parent / "passwords").symlink_to("/etc/passwd")


def linked_directory(task: Any, player: Path) -> None:
    (player.parent / "etc").symlink_to("/etc")


def raising(task: Any, player: Path) -> None:
    raise KeyError("score")


def numbers(task: Any, player: Path) -> list[int]:
    return [1]


@pytest.mark.parametrize(
    ("optimize", "said"),
    [
        (outside, "evil.py was written outside of the player's directory"),
        (linked, "passwords in the player's directory is no regular file"),
        (linked_directory, "etc in the player's directory is no regular file"),
        (raising, "raising raised KeyError"),
        (numbers, "optimize has returned list, and not a text"),
    ],
)
async def test_what_no_optimizer_may_do_is_named(optimize: Callable[..., Any], said: str, asked: Path) -> None:
    with pytest.raises(RoleError, match=said):
        await left(asked, optimize)
    assert not (asked / "outputs" / "plan.json").exists()


async def test_command_works_in_the_copy_and_reads_its_task(asked: Path) -> None:
    command = asked / "command.json"
    command.write_text(json.dumps(["sh", "-c", "grep Improve; echo; echo 'Counts now.'; echo 'x = 1' > new.py"]))
    await play_command(command)
    with zipfile.ZipFile(asked / "outputs" / "player.zip") as archive:
        assert sorted(archive.namelist()) == ["bot.py", "new.py"]
    plan = read_optimizer_plan(asked / "outputs" / "plan.json")
    assert plan.recommendations == ("Counts now.",)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sh", "-c", "exit 3"], "sh has ended with status 3"),
        (["./none"], "./none cannot be run"),
        (["sh", "-c", "echo > ../evil"], "evil was written outside"),
    ],
)
async def test_command_that_fails_is_named(words: list[str], said: str, asked: Path) -> None:
    (asked / "command.json").write_text(json.dumps(words))
    with pytest.raises(RoleError, match=said):
        await play_command(asked / "command.json")
    assert not (asked / "outputs" / "player.zip").exists()


# --- what is taken of it ---------------------------------------------------------------------------------------------


def zipped(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({"../evil.py": "x"}, "player_name"),
        ({"/evil.py": "x"}, "player_name"),
        ({}, "player_empty"),
        ({"a": "", "b": "", "c": ""}, "player_too_large"),
        ({"bot.py": "x" * 101}, "player_too_large"),
    ],
)
def test_zips_that_are_no_player_are_refused(files: dict[str, str], code: str, tmp_path: Path) -> None:
    work = optimizer_work(
        TASK,
        optimizer="x",
        manifest="{}",
        player=tmp_path,
        evidence=None,
        docs=tmp_path,
        limits=PlayerLimits(files=2, bytes=100),
    )
    with pytest.raises(CoworldError) as refused:
        work.read(zipped(tmp_path / "player.zip", files))
    assert refused.value.code == code


def test_scripts_stay_executable(tmp_path: Path) -> None:
    packed = zipped(tmp_path / "player.zip", {"go.sh": "#!/bin/sh\n", "a.txt": "x", "was": "x"})
    unpack_player(packed, tmp_path / "player", runnable=frozenset({"was"}))
    assert {path.name for path in (tmp_path / "player").iterdir() if os.access(path, os.X_OK)} == {"go.sh", "was"}


@pytest.fixture
def begun(tmp_path: Path, nim: Package) -> tuple[ImprovementFolder, ImprovementPlan]:
    (tmp_path / "bot.py").write_text(WEAK)
    own = files_player(str(tmp_path / "bot.py"), nim)
    plan = ImprovementPlan(
        coworld="nim", player=ImprovedPlayer(name="bot", entry="bot.py", single=True, digest=own.digest)
    )
    folder = ImprovementFolder(tmp_path / "ws")
    folder.path.mkdir()
    folder.begin(plan, own)
    return folder, plan


def test_first_player_is_kept_as_it_was(begun: tuple[ImprovementFolder, ImprovementPlan], nim: Package) -> None:
    folder, plan = begun
    bot = folder.path.parent / "bot.py"
    bot.write_text(STRONG)
    changed = plan.model_copy(
        update={"player": plan.player.model_copy(update={"digest": files_player(bot, nim).digest})}
    )
    with pytest.raises(UsageError, match=r"bot.py has changed since its improvement") as refused:
        folder.refuse_other(changed)
    assert refused.value.code == "player_changed"
    with pytest.raises(UsageError, match="differs from this one in: seed") as other:
        folder.refuse_other(plan.model_copy(update={"seed": 7}))
    assert other.value.code == "another_improvement"
    folder.refuse_other(plan.model_copy(update={"version": "9"}))
    assert folder.playable(0, plan.player).read_text() == WEAK


def test_best_is_shown_unless_someone_has_changed_it(begun: tuple[ImprovementFolder, ImprovementPlan]) -> None:
    folder, plan = begun
    assert folder.show_best(0, plan.player, known=frozenset({0}))
    folder.put_player(3, plan.player, {"bot.py": STRONG.encode()}, frozenset())
    assert folder.show_best(3, plan.player, known=frozenset({0, 3}))
    assert (folder.best / "bot.py").read_text() == STRONG
    (folder.best / "bot.py").write_text("# mine\n")
    assert not folder.show_best(0, plan.player, known=frozenset({0, 3}))
    assert (folder.best / "bot.py").read_text() == "# mine\n"


def test_leftovers_of_a_killed_run_go(begun: tuple[ImprovementFolder, ImprovementPlan], nim: Package) -> None:
    folder, plan = begun
    step = folder.step(0)
    said = folder.evidence(0) / "episodes" / "episode-2" / "roles" / ".diagnoser-nim-slot-1.7bed2b361edc260b"
    left = [folder.path / ".best-0123abcd", step / ".player-unpacked", step / ".improver.58e4739a303af9f2", said]
    kept = [folder.path / ".git", step / ".git", step / ".player-of-mine", step / "player" / ".old-maps"]
    for place in (*left, *kept):
        place.mkdir(parents=True)
        (place / "HEAD").write_text("mine")
    folder.begin(plan, files_player(folder.path.parent / "bot.py", nim))
    assert not any(place.exists() for place in left)
    left[1].mkdir()
    folder.sweep_step(0)
    assert not left[1].exists()
    assert all((place / "HEAD").exists() for place in kept)


def test_what_a_file_manager_leaves_is_in_nobodys_way(
    begun: tuple[ImprovementFolder, ImprovementPlan], nim: Package
) -> None:
    folder, plan = begun
    assert folder.show_best(0, plan.player, known=frozenset({0}))
    for place in (folder.path, folder.step(0).parent, folder.step(0), folder.step(0) / "player", folder.best):
        (place / ".DS_Store").write_bytes(b"\0\0\0\1Bud1")
    folder.begin(plan, files_player(folder.path.parent / "bot.py", nim))
    folder.sweep_step(0)
    folder.put_player(3, plan.player, {"bot.py": STRONG.encode()}, frozenset())
    assert folder.show_best(3, plan.player, known=frozenset({0, 3}))
    assert (folder.best / "bot.py").read_text() == STRONG


def test_a_repository_beside_the_best_is_left_alone(begun: tuple[ImprovementFolder, ImprovementPlan]) -> None:
    folder, plan = begun
    assert folder.show_best(0, plan.player, known=frozenset({0}))
    (folder.best / ".git").mkdir()
    (folder.best / "__pycache__").mkdir()
    folder.put_player(3, plan.player, {"bot.py": STRONG.encode()}, frozenset())
    assert folder.show_best(0, plan.player, known=frozenset({0}))
    assert not folder.show_best(3, plan.player, known=frozenset({0, 3}))
    assert (folder.best / ".git").is_dir()
    (folder.best / ".git").rmdir()
    assert folder.show_best(3, plan.player, known=frozenset({0, 3}))


def test_differences_are_shown_by_line() -> None:
    text = changes_text({"a.py": b"1\n2", "b": b"\0"}, {"a.py": b"1\n3", "b": b"\0\0"})
    assert text.splitlines()[-1] == "Binary or large file b: 1 bytes before, 2 after"
    assert "-2\n\\ No newline at end of file\n+3\n" in text


# --- a whole step that is lost ---------------------------------------------------------------------------------------

LOST = {
    "changes-nothing": ("pass", "player_unchanged", "the same as before"),
    "no-python": ("player.write_text('def act(:')", "player_syntax", "bot.py:1"),
    "no-act": ("player.write_text('x = 1')", "player_without_act", "has no function act"),
    "renames": ("player.rename(player.with_name('other.py'))", "player_missing", "bot.py is not there any more"),
    "deletes-all": ("import shutil; shutil.rmtree(player.parent)", "output_refused", "no files left"),
    "crashes": ("import os; os._exit(3)", "program_error", "exited with status 3"),
    "player-crashes": (
        "player.write_text('def act(observation, legal, rng):\\n    raise ValueError(7)\\n')",
        "player_failed",
        "ValueError",
    ),
}


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_every_bad_change_loses_its_step_and_the_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "bot.py").write_text(WEAK)
    lines = [f"    if task.step == {number}:\n        {LOST[how][0]}" for number, how in enumerate(LOST, 1)]
    again = "    if task.step == 8:\n        import time; print('thinking', flush=True); time.sleep(600)"
    (tmp_path / "opt.py").write_text("\n".join(["def optimize(task, player):", *lines, again, ""]))
    rules = ImprovementRules(
        episodes=1, evaluation=EvaluationRules(count_starved=True), optimizer=RoleOptions(timeout=12)
    )

    async def improved() -> Improvement:
        return await improve_player(
            NIM,
            tmp_path / "bot.py",
            improver=str(tmp_path / "opt.py"),
            budget=ImprovementBudget(steps=8),
            rules=rules,
            workspace=tmp_path / "ws",
            backend="process",
        )

    done = await improved()
    found = [(step.status, step.reason, step.message) for step in done.report.steps]
    for (status, reason, message), (_, code, said) in zip(found, LOST.values(), strict=False):
        assert (status, reason, said in message) == ("lost", code, True), message
    assert found[7][:2] == ("lost", "program_timeout")
    assert (done.report.best, done.report.ended, done.report.final) == (0, "steps", None)
    assert (done.best.read_text(), (tmp_path / "bot.py").read_text()) == (WEAK, WEAK)
    assert (await improved()).report == done.report


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_budget_that_ends_amid_a_step_keeps_what_there_is(tmp_path: Path) -> None:
    (tmp_path / "bot.py").write_text(WEAK)
    (tmp_path / "opt.py").write_text(f"def optimize(task, player):\n    player.write_text({STRONG!r})\n")

    async def improved(budget: ImprovementBudget) -> Improvement:
        return await improve_player(
            NIM,
            tmp_path / "bot.py",
            improver=str(tmp_path / "opt.py"),
            budget=budget,
            rules=ImprovementRules(episodes=1, evaluation=EvaluationRules(count_starved=True)),
            workspace=tmp_path / "ws",
            backend="process",
            parallel=2,
        )

    comparison = tmp_path / "ws" / "steps" / "0001" / "comparison" / "episodes.jsonl"
    first = (await improved(ImprovementBudget(episodes=4))).report
    assert (first.ended, first.unfinished, first.steps, first.spent.episodes) == ("episodes", 1, (), 4)
    kept = comparison.read_bytes()
    again = (await improved(ImprovementBudget(episodes=4))).report
    assert (again.ended, again.unfinished, comparison.read_bytes()) == ("episodes", 1, kept)
    more = (await improved(ImprovementBudget(episodes=6))).report
    assert (more.ended, more.spent.episodes, comparison.read_bytes().startswith(kept)) == ("episodes", 6, True)
    timed = (await improved(ImprovementBudget(seconds=0.001))).report
    assert (timed.ended, timed.unfinished) == ("seconds", 1)
