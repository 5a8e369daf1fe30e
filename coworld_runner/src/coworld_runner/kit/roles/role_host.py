"""Calls the function of a role with what the environment names, and writes what it returns."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import anyio.to_thread

from coworld_core.documents.json_text import parse_json
from coworld_core.errors import UsageError
from coworld_core.files.compression import unpack
from coworld_core.roles.bundle_file import read_bundle
from coworld_core.roles.finished_episode import FinishedEpisode
from coworld_core.roles.report_request import ArtifactRef, ReportEpisode, ReportRequest, read_report_request
from coworld_core.scopes import load_alone
from coworld_core.text.phrases import listed

from ...package.transfers import read_document
from ...runs.scratch import open_scratch
from . import TargetPlayer
from .optimizer_host import play_command, play_optimizer
from .role_answers import answer_of, grade_bytes, write_diagnosis_files, write_report_files
from .role_error import RoleError
from .role_exchange import DOCUMENT_LIMIT, FILE_LIMIT, call_role, fetch_input, put_answer

__all__ = ["play_role"]


async def play_role(name: str) -> None:
    """Load a file, and let it play the role that the environment asks for.

    A file that ends with `.json` has the words of a command, which plays an optimizer in the player's directory.

    Raises:
        UsageError: The environment asks for no role, or the file has no function for it.
        CoworldError: An input cannot be read, the function has failed (`role_failed`) or has returned something else
            than it should, or its answer cannot be written.
    """
    if name.endswith(".json"):
        await play_command(Path(name))
        return
    if name.endswith(".wasm"):
        from .component_host import ComponentReporter

        module: object = ComponentReporter(name)
    else:
        module = load_alone(name)
    called = name.removesuffix(".py").removesuffix(".wasm").replace("/", ".").rpartition(".")[2]
    identifier = str(getattr(module, "ID", called.replace("_", "-")))

    def function(called: str) -> Callable[..., Any]:
        found = getattr(module, called, None)
        if not callable(found):
            raise UsageError(f"{name} has no function {called}, which this role needs.", code="role_not_runnable")
        return cast("Callable[..., Any]", found)

    async with open_scratch() as opened:
        scratch = opened.path
        if target := os.environ.get("COGAME_GRADE_URI"):
            episode = await _episode(scratch)
            answer = await call_role(function("grade"), episode)
            with answer_of(function("grade")):
                grade = grade_bytes(answer, identifier)
            await put_answer(target, grade, "application/json", "grade")
        elif target := os.environ.get("COGAME_DIAGNOSIS_URI"):
            episode = await _episode(scratch)
            answer = await call_role(function("diagnose"), episode, await _player())
            with answer_of(function("diagnose")):
                write_diagnosis_files(answer, identifier, scratch / "answer.zip")
            await put_answer(target, scratch / "answer.zip", "application/zip", "diagnosis")
        elif "COGAME_REPORT_REQUEST" in os.environ or "COGAME_REPORT_REQUEST_URI" in os.environ:
            request = await _request()
            metadata = await _metadata(len(request.episodes))
            episodes = [
                await _requested(episode, scratch / str(index), known)
                for index, (episode, known) in enumerate(zip(request.episodes, metadata, strict=True))
            ]
            answer = await call_role(function("report"), episodes)
            with answer_of(function("report")):
                write_report_files(answer, identifier, scratch / "answer.zip")
            await put_answer(request.report_uri, scratch / "answer.zip", "application/zip", "report")
        elif "COGAME_OPTIMIZER_OUTPUT_URI" in os.environ:
            await play_optimizer(function("optimize"), identifier, scratch)
        else:
            names = (
                "COGAME_GRADE_URI",
                "COGAME_DIAGNOSIS_URI",
                "COGAME_REPORT_REQUEST",
                "COGAME_OPTIMIZER_OUTPUT_URI",
            )
            raise UsageError(
                f"The environment asks for no role: it has none of {listed(names)}.", code="environment_incomplete"
            )


# --- inputs -------------------------------------------------------------------------------------------------------


async def _episode(scratch: Path) -> FinishedEpisode:
    uri = os.environ.get("COGAME_EPISODE_BUNDLE_URI")
    if not uri:
        raise UsageError("COGAME_EPISODE_BUNDLE_URI is not set.", code="environment_incomplete")
    path = await fetch_input(uri, scratch / "episode.zip", "bundle")
    return FinishedEpisode.of(await anyio.to_thread.run_sync(read_bundle, path))


async def _player() -> TargetPlayer:
    """The player to diagnose, from its slot, and from the document at its address if that is one of ours."""
    uri, told = os.environ.get("COGAME_TARGET_POLICY_URI", ""), {}
    slot = os.environ.get("COGAME_TARGET_SLOT")
    if uri and slot is not None:
        told = parse_json(await read_document(uri, what="player", limit=DOCUMENT_LIMIT), source=uri)
    if not isinstance(told, dict):
        told = {}
    told = cast("dict[str, Any]", told)
    return TargetPlayer(
        slot=int(slot or told.get("slot") or 0),
        name=str(told.get("name") or ""),
        source=str(told.get("source") or ""),
        uri=uri,
    )


async def _request() -> ReportRequest:
    text = os.environ.get("COGAME_REPORT_REQUEST")
    if text is None:
        uri = os.environ["COGAME_REPORT_REQUEST_URI"]
        return read_report_request(await read_document(uri, what="report request", limit=DOCUMENT_LIMIT))
    return read_report_request(text.encode())


async def _metadata(count: int) -> list[bytes]:
    """The metadata of each episode, empty objects where they are not known."""
    uri = os.environ.get("COWORLD_EPISODE_METADATA_URI")
    told: object = json.loads(await read_document(uri, what="metadata", limit=DOCUMENT_LIMIT)) if uri else None
    known = cast("list[object]", told) if isinstance(told, list) and len(cast("list[object]", told)) == count else []
    return [json.dumps(each).encode() for each in known] or [b"{}"] * count


async def _requested(episode: ReportEpisode, scratch: Path, metadata: bytes) -> FinishedEpisode:
    """An episode of a report request, whose files are fetched now and read when they are asked for."""
    parts: dict[tuple[str, str | None], Callable[[], bytes]] = {("metadata", None): lambda: metadata}
    for part, key, reference in _references(episode):
        path = await fetch_input(reference.uri, scratch / f"{part}-{key}", part)
        packed = reference.encoding == "zlib"
        parts[part, key] = lambda path=path, packed=packed, part=part: _content(path, packed=packed, part=part)
    if (error := episode.inline_json.error_info) is not None:
        parts["error_info", None] = lambda: error.model_dump_json().encode()
    return FinishedEpisode(id=episode.episode_request_id, status=episode.status, parts=parts)


def _references(episode: ReportEpisode) -> Iterator[tuple[str, str | None, ArtifactRef]]:
    for part, value in episode.artifacts:
        if isinstance(value, ArtifactRef):
            yield part, None, value
        else:
            for key, reference in cast("Mapping[str, ArtifactRef]", value or {}).items():
                yield part, key, reference


def _content(path: Path, *, packed: bool, part: str) -> bytes:
    data = path.read_bytes()
    return unpack(data, limit=FILE_LIMIT, what=part, source=str(path), error=RoleError) if packed else data


# --- answers ------------------------------------------------------------------------------------------------------
