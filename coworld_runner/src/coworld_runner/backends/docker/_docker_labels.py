"""Names and labels of our objects on an engine; finds and removes objects by label."""

from __future__ import annotations

import datetime as dt
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coworld_core.docker_address import EngineGone, EngineRefused

from ...backend import Found, UnitSpec
from ..engine import RUN, owner_lives, run_labels, unit_labels
from ._container_files import hand_back
from ._engine import Engine, path_segment
from ._run_networks import drop_network

__all__ = ["find_labelled", "labels_of", "object_name", "reap_labelled", "remove_container"]

_REMOVE_SECONDS = 30.0


def object_name(run_id: str, *parts: str) -> str:
    """The name of a container or network."""
    return "-".join(("coworld", run_id, *parts))


def labels_of(spec: UnitSpec) -> dict[str, str]:
    """Labels of everything made for a unit."""
    return {**run_labels(spec.run_id), **unit_labels(spec)}


async def find_labelled(engine: Engine, run_id: str | None) -> tuple[Found, ...]:
    """Find the containers, networks and volumes of one run or of all runs, containers first."""
    label = RUN if run_id is None else f"{RUN}={run_id}"
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
        run_id=labels[RUN],
        alive=owner_lives(labels),
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


async def reap_labelled(engine: Engine, found: Found) -> str:
    """Remove one object that `find_labelled` found; return why it remains, or an empty string."""
    if found.kind == "container":
        return await _reap_container(engine, found.id)
    if found.kind == "network":
        return await drop_network(engine, found.id)
    return await _remove_volume(engine, found.id)


async def _reap_container(engine: Engine, id: str) -> str:
    path = f"/containers/{path_segment(id)}"
    try:
        # End it first, so that it creates no more directories while the existing ones are handed back
        await engine.call("POST", f"{path}/kill", query={"signal": "SIGKILL"})
        await engine.call("POST", f"{path}/wait", timeout=_REMOVE_SECONDS)
    except (EngineRefused, EngineGone):
        pass  # It had ended, or never ran
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
    """Remove a container and its volumes, running or not. Return why it remains, or an empty string."""
    path = f"/containers/{path_segment(name)}"
    try:
        try:
            await engine.call("DELETE", path, query={"force": True, "v": True})
        except EngineRefused as error:
            if error.status != 409 or "already in progress" not in error.server_message:
                raise
            await engine.call("POST", f"{path}/wait", query={"condition": "removed"}, timeout=_REMOVE_SECONDS)
    except EngineRefused as error:
        return "" if error.status == 404 else error.server_message
    except EngineGone as error:
        return error.server_message
    return ""


async def _remove_volume(engine: Engine, name: str) -> str:
    try:
        await engine.call("DELETE", f"/volumes/{path_segment(name)}", query={"force": True})
    except EngineRefused as error:
        return "" if error.status == 404 else error.server_message
    except EngineGone as error:
        return error.server_message
    return ""
