"""What everything of ours on an engine is called and labelled, and finding it again by that."""

from __future__ import annotations

import datetime as dt
import platform
import re
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import anyio

from coworld_core.docker_engine import Engine, EngineGone, EngineRefused, path_segment

from ...backend import Found, Reaped, UnitSpec
from ...runs.scratch import owner_is_alive, scratch_root
from ._files import hand_back
from ._networks import drop_network

__all__ = ["find_labelled", "labels_of", "object_name", "reap_labelled", "remove_container"]

_RUN = "coworld.run"
_UNIT = "coworld.unit"
_SCRATCH = "coworld.scratch"
_HOST = "coworld.host"

_REMOVE_SECONDS = 30.0


def object_name(run_id: str, *parts: str) -> str:
    """The name of a container or network."""
    return "-".join(("coworld", run_id, *parts))


def run_labels(run_id: str) -> dict[str, str]:
    """Labels of what belongs to a run as a whole."""
    return {_RUN: run_id, _SCRATCH: str(scratch_root() / run_id), _HOST: _this_host()}


def labels_of(spec: UnitSpec) -> dict[str, str]:
    """Labels of everything made for a unit."""
    labels = {**run_labels(spec.run_id), _UNIT: spec.name, "coworld.component": spec.component}
    if spec.slot is not None:
        labels["coworld.slot"] = str(spec.slot)
    return labels


@lru_cache(maxsize=1)
def _this_host() -> str:
    """Something that tells this system from others that may use the same engine, a container's own included."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            if text := Path(path).read_text("ascii").strip():
                return text
        except (OSError, UnicodeDecodeError):
            continue
    return platform.node()


def _alive(labels: Mapping[str, str]) -> bool:
    """Whether the runner that made it still runs; one that cannot be seen from here counts as running."""
    if labels.get(_HOST) != _this_host():
        return True
    return owner_is_alive(Path(labels.get(_SCRATCH) or "/nonexistent"))


async def find_labelled(engine: Engine, run_id: str | None) -> tuple[Found, ...]:
    """Containers, networks and volumes of one run or of all, containers first."""
    label = _RUN if run_id is None else f"{_RUN}={run_id}"
    filters = {"label": [label]}
    found: list[Found] = []
    for item in await engine.call("GET", "/containers/json", query={"all": True, "filters": filters}):
        found.append(
            _found(
                "container",
                item["Id"],
                (item.get("Names") or [item["Id"]])[0].lstrip("/"),
                item["Labels"],
                float(item["Created"]),
            )
        )
    for item in await engine.call("GET", "/networks", query={"filters": filters}):
        found.append(_found("network", item["Id"], item["Name"], item["Labels"], _moment(item.get("Created"))))
    listed = await engine.call("GET", "/volumes", query={"filters": filters})
    for item in listed.get("Volumes") or ():
        found.append(_found("volume", item["Name"], item["Name"], item["Labels"], _moment(item.get("CreatedAt"))))
    return tuple(found)


def _found(kind: Any, id: str, name: str, labels: Mapping[str, str], made: float | None) -> Found:
    return Found(
        kind=kind,
        id=id,
        name=name,
        run_id=labels[_RUN],
        alive=_alive(labels),
        age_seconds=max(0.0, time.time() - made) if made is not None else None,
    )


def _moment(text: Any) -> float | None:
    """Seconds since the epoch of the engine's RFC 3339 time, which has more digits than Python reads."""
    match = re.fullmatch(r"([^.]+?)(\.\d+)?(Z|[+-]\d\d:\d\d)", str(text))
    if match is None:
        return None
    try:
        return dt.datetime.fromisoformat(match[1] + ("+00:00" if match[3] == "Z" else match[3])).timestamp()
    except ValueError:
        return None


async def reap_labelled(engine: Engine, found: Sequence[Found], *, force: bool) -> list[Reaped]:
    """Remove what ``find_labelled`` found: containers at once, then what they used."""
    reasons: dict[str, str] = {}

    async def remove(item: Found) -> None:
        if item.alive and not force:
            reasons[item.id] = "its runner is still running"
        elif item.kind == "container":
            reasons[item.id] = await _reap_container(engine, item.id)
        elif item.kind == "network":
            reasons[item.id] = await drop_network(engine, item.id)
        else:
            reasons[item.id] = await _remove_volume(engine, item.id)

    ours = [item for item in found if item.kind in ("container", "network", "volume")]
    for kinds in (("container",), ("network", "volume")):
        async with anyio.create_task_group() as tasks:
            for item in ours:
                if item.kind in kinds:
                    tasks.start_soon(remove, item)
    return [Reaped(found=item, removed=not reasons[item.id], reason=reasons[item.id]) for item in ours]


async def _reap_container(engine: Engine, id: str) -> str:
    path = f"/containers/{path_segment(id)}"
    try:
        # ended first, so that nobody makes another directory while those that are there are handed back
        await engine.call("POST", f"{path}/kill", query={"signal": "SIGKILL"})
        await engine.call("POST", f"{path}/wait", timeout=_REMOVE_SECONDS)
    except (EngineRefused, EngineGone):
        pass  # it had ended, or never ran
    for mount in (await _describe(engine, path)).get("Mounts") or ():
        bound: Mapping[str, Any] = mount
        if bound.get("Type") == "bind" and bound.get("RW"):
            await hand_back(engine, id, Path(bound["Source"]), bound["Destination"])
    return await remove_container(engine, id)


async def _describe(engine: Engine, path: str) -> Mapping[str, Any]:
    try:
        return await engine.call("GET", f"{path}/json")
    except (EngineRefused, EngineGone):
        return {}


async def remove_container(engine: Engine, name: str) -> str:
    """Remove a container and its volumes, running or not. Returns why it is still there, or an empty string."""
    path = f"/containers/{path_segment(name)}"
    try:
        try:
            await engine.call("DELETE", path, query={"force": True, "v": True})
        except EngineRefused as error:
            if error.status != 409 or "already in progress" not in error.words:
                raise
            await engine.call("POST", f"{path}/wait", query={"condition": "removed"}, timeout=_REMOVE_SECONDS)
    except EngineRefused as error:
        return "" if error.status == 404 else error.words
    except EngineGone as error:
        return error.words
    return ""


async def _remove_volume(engine: Engine, name: str) -> str:
    try:
        await engine.call("DELETE", f"/volumes/{path_segment(name)}", query={"force": True})
    except EngineRefused as error:
        return "" if error.status == 404 else error.words
    except EngineGone as error:
        return error.words
    return ""
