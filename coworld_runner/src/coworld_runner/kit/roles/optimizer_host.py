"""Lets a function or a command improve a player: a working copy of its files, and the task that says what is known."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import anyio.to_thread

from coworld_core.documents.json_text import parse_json
from coworld_core.files.zips import ZipWriter
from coworld_core.roles.bundle_file import read_bundle
from coworld_core.roles.finished_episode import FinishedEpisode
from coworld_core.roles.improvement_task import (
    IMPROVEMENT_TASK,
    TASK_PAGE,
    EvidenceEpisode,
    ImprovementTask,
    read_improvement_task,
    task_page,
)
from coworld_core.roles.plan import InputCounts, OptimizerPlan
from coworld_core.text.phrases import listed

from ...package.locations import read_location
from ...package.own_players.player_directory import CACHES, LITTER
from ...package.transfers import read_document
from ...runs.scratch import open_scratch
from . import OptimizerTask, TaskEpisode
from .role_answers import answer_of
from .role_error import RoleError
from .role_exchange import DOCUMENT_LIMIT, call_role, fetch_input, put_answer

__all__ = ["play_command", "play_optimizer"]

_MOST_NOTE = 2000
"""Characters of the last paragraph of what a command has said, which becomes its advice."""


async def play_optimizer(optimize: Callable[..., Any], identifier: str, scratch: Path) -> None:
    """Call the function of an optimizer with what the environment names, and write its plan and the changed player.

    Args:
        optimize: The function: it gets an `OptimizerTask` and the path of the player's working copy.
        identifier: The optimizer's id, unless the environment names another one.
        scratch: An empty directory.

    Raises:
        CoworldError: An input cannot be read, the function has failed or has returned something else than it should,
            it has written outside of the player's directory, or its answer cannot be written.
    """
    given = await _inputs()
    asked = given.asked
    task = OptimizerTask(
        goal=asked.goal if asked is not None else "",
        game=asked.coworld if asked is not None else given.coworld,
        step=asked.step if asked is not None else 1,
        history=asked.history if asked is not None else (),
        episodes=tuple([await _played(each, given, scratch) for each in asked.evidence]) if asked is not None else (),
        grades=given.grades,
        findings=given.findings,
        docs={name: await _text(given.beside(name), name) for name in asked.docs} if asked is not None else {},
        asked=asked,
    )
    work = scratch / "work"
    directory = await _working_copy(work)
    player = directory
    if directory is not None and asked is not None and asked.player.single:
        player = directory / asked.player.entry
    answer = await call_role(optimize, task, player)
    if directory is not None:
        await _hand_in(directory, work, scratch)
    with answer_of(optimize):
        advice = _advice(answer)
    await _advise(advice, given, identifier)


async def play_command(file: Path) -> None:
    """Run a command in the player's working copy, with the task on its standard input, and hand in what it leaves.

    Args:
        file: A JSON file with the words of the command.

    Raises:
        RoleError: The command cannot be run or has failed, or as for `play_optimizer`.
    """
    words = cast("list[str]", json.loads(await read_document(str(file), what="command", limit=DOCUMENT_LIMIT)))
    async with open_scratch() as scratch:
        given, work = await _inputs(), scratch.path / "work"
        directory = await _working_copy(work)
        if directory is None or given.asked is None:
            raise RoleError("The environment names no player to change.", code="environment_incomplete")
        inputs = read_location(os.environ["COWORLD_IMPROVEMENT_TASK_URI"], what="task").path
        page = scratch.path / TASK_PAGE
        page.write_text(task_page(given.asked, inputs=str(inputs and inputs.parent), player=str(directory)))
        said = await anyio.to_thread.run_sync(_run, words, directory, page)
        await _hand_in(directory, work, scratch.path)
        plan = read_location(os.environ["COGAME_OPTIMIZER_OUTPUT_URI"], what="plan").path
        if plan is None or not plan.is_file():
            note = said.strip().rpartition("\n\n")[2].strip()[-_MOST_NOTE:]
            await _advise((note,) if note else (), given, Path(words[0]).name)


def _run(command: list[str], directory: Path, page: Path) -> str:
    """Run a command, passing on what it says; returns that."""
    environment = {**os.environ, "COGAME_POLICY_WORKSPACE_URI": directory.as_uri()}
    said: list[str] = []
    try:
        with (
            page.open("rb") as task,
            subprocess.Popen(
                command,
                cwd=directory,
                env=environment,
                stdin=task,
                stdout=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
            ) as process,
        ):
            assert process.stdout is not None
            for line in process.stdout:
                print(line, end="", flush=True)
                said = [*said[-200:], line]
    except OSError as error:
        raise RoleError(f"{command[0]} cannot be run: {error.strerror or error}.", code="role_failed") from None
    if process.returncode:
        raise RoleError(f"{command[0]} has ended with status {process.returncode}.", code="role_failed")
    return "".join(said)


# --- inputs -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Inputs:
    """What the environment names."""

    asked: ImprovementTask | None
    """None if only advice is asked for."""
    base: str
    """The address of the directory that the task's paths are relative to."""
    coworld: str
    grades: tuple[dict[str, Any], ...]
    findings: tuple[dict[str, Any], ...]
    reports: int

    def beside(self, name: str) -> str:
        """The address of a file that the task names."""
        return f"{self.base}/{name}"


async def _inputs() -> _Inputs:
    uri = os.environ.get("COWORLD_IMPROVEMENT_TASK_URI", "")
    asked = None
    if uri:
        asked = read_improvement_task(await read_document(uri, what=IMPROVEMENT_TASK, limit=DOCUMENT_LIMIT))
    manifest: Mapping[str, Any] = {}
    if at := os.environ.get("COWORLD_MANIFEST_URI"):
        manifest = _object(await read_document(at, what="manifest", limit=DOCUMENT_LIMIT), at)
    grades = [
        _object(await read_document(each, what="grade", limit=DOCUMENT_LIMIT), each)
        for each in _addresses("COGAME_GRADER_OUTPUT_URIS")
    ]
    return _Inputs(
        asked=asked,
        base=uri.rpartition("/")[0],
        coworld=str(cast("Mapping[str, Any]", manifest.get("game") or {}).get("name") or ""),
        grades=tuple(grades),
        findings=tuple([await _findings(each) for each in _addresses("COGAME_DIAGNOSER_OUTPUT_URIS")]),
        reports=len(_addresses("COGAME_REPORT_URIS")),
    )


def _addresses(name: str) -> list[str]:
    return [each for each in os.environ.get(name, "").split(",") if each]


async def _text(uri: str, what: str) -> str:
    return (await read_document(uri, what=what, limit=DOCUMENT_LIMIT)).decode("utf-8", "replace")


def _object(content: bytes, source: str) -> dict[str, Any]:
    value = parse_json(content, source=source).value
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


async def _findings(uri: str) -> dict[str, Any]:
    """The findings of a diagnosis, which is a zip; of findings alone, themselves."""
    from coworld_core.roles.report_check import read_diagnosis

    async with open_scratch() as scratch:
        path = await fetch_input(uri, scratch.path / "diagnosis.zip", "diagnosis")
        if path.read_bytes()[:2] != b"PK":
            return _object(path.read_bytes(), uri)
        _, found = read_diagnosis(path)
        return found.model_dump(mode="json")


async def _played(each: EvidenceEpisode, inputs: _Inputs, scratch: Path) -> TaskEpisode:
    path = await fetch_input(inputs.beside(each.bundle), scratch / each.bundle, "bundle")
    return TaskEpisode(
        episode=FinishedEpisode.of(await anyio.to_thread.run_sync(read_bundle, path)),
        slot=each.slot,
        outcome=each.outcome,
        grade=each.grade,
        findings=each.findings,
    )


async def _working_copy(work: Path) -> Path | None:
    """A copy of the player's files, to be changed; None if there is none, or the workspace itself if that is meant."""
    uri = os.environ.get("COGAME_POLICY_WORKSPACE_URI")
    source = read_location(uri, what="player").path if uri else None
    if source is None or "COWORLD_IMPROVED_PLAYER_URI" not in os.environ:
        return source
    directory = work / "player"
    await anyio.to_thread.run_sync(shutil.copytree, source, directory)
    for path in (directory, *directory.rglob("*")):
        # Inputs may be read-only
        path.chmod(path.stat().st_mode | (0o700 if path.is_dir() else 0o600))
    return directory


# --- answers ------------------------------------------------------------------------------------------------------


def _advice(answer: object) -> tuple[str, ...]:
    if answer is None:
        return ()
    if isinstance(answer, str):
        return (answer,)
    if isinstance(answer, list | tuple):
        texts = tuple(each for each in cast("Sequence[object]", answer) if isinstance(each, str))
        if len(texts) == len(cast("Sequence[object]", answer)):
            return texts
    raise RoleError(
        f"optimize has returned {type(cast('object', answer)).__name__}, and not a text, a list of texts or nothing."
    )


async def _advise(advice: tuple[str, ...], inputs: _Inputs, identifier: str) -> None:
    plan = OptimizerPlan(
        optimizer_id=os.environ.get("COGAME_OPTIMIZER_ID") or identifier,
        coworld_name=inputs.asked.coworld if inputs.asked is not None else inputs.coworld,
        policy_workspace_uri=os.environ.get("COGAME_POLICY_WORKSPACE_URI"),
        input_counts=InputCounts(
            reports=inputs.reports, grader_outputs=len(inputs.grades), diagnoser_outputs=len(inputs.findings)
        ),
        recommendations=advice,
    )
    await put_answer(os.environ["COGAME_OPTIMIZER_OUTPUT_URI"], plan.to_json(), "application/json", "plan")


async def _hand_in(directory: Path, work: Path, scratch: Path) -> None:
    """Write the changed player, if it is asked for.

    Raises:
        RoleError: Something was written beside the player's directory, or something in it is no file.
    """
    target = os.environ.get("COWORLD_IMPROVED_PLAYER_URI")
    if target is None:
        return
    packed = scratch / "player.zip"
    await anyio.to_thread.run_sync(_pack, directory, work, packed)
    await put_answer(target, packed, "application/zip", "player")


def _pack(directory: Path, work: Path, target: Path) -> None:
    outside = sorted(path.name for path in work.iterdir() if path != directory and path.name not in LITTER)
    if outside:
        names = listed(outside, limit=4)
        raise RoleError(f"{names} was written outside of the player's directory.", code="player_outside")
    with target.open("wb") as file, ZipWriter(file.write) as archive:
        for path in _files(directory):
            with archive.entry(path.relative_to(directory).as_posix()) as sink, path.open("rb") as source:
                shutil.copyfileobj(cast("Any", source), cast("Any", sink))


def _files(directory: Path) -> Iterator[Path]:
    """All files of a player, without caches of tools.

    Raises:
        RoleError: Something is neither a file nor a directory.
    """
    if not directory.is_dir():
        return
    for place, directories, names in os.walk(directory):
        directories[:] = sorted(set(directories) - CACHES)
        for name in [*sorted(set(names) - LITTER), *directories]:
            path = Path(place, name)
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                shown = path.relative_to(directory).as_posix()
                raise RoleError(f"{shown} in the player's directory is no regular file.", code="player_outside")
            if name not in directories:
                yield path
