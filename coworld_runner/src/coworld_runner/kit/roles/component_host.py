"""Runs a reporter that is a WebAssembly component, as platforms of the current generation do.

The component exports `run` of the world `softmax:reporter@0.6.0`, and asks for what it needs by the functions that the
world imports. It gets the files of its episodes, its log, and nothing else: no files, no network, no environment.

Needs the extra `wasm`.
"""

from __future__ import annotations

import json
import mimetypes
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

from coworld_core.roles.finished_episode import FinishedEpisode
from coworld_core.text.phrases import listed

from ...package.own_players.component_file import require_wasmtime
from .role_error import RoleError

__all__ = ["ComponentReporter"]

_WORLD = "softmax:reporter"
_VERSION = "0.6.0"
_INTERFACES = ("types", "episodes", "platform", "reports", "llm", "output")
_MOST_BYTES = 512 << 20
"""Bytes that a component may emit."""
_MOST_MEMORY = 2 << 30
"""Bytes of memory that a component may have."""
_PARTS = {"render-html": ".html", "render-markdown": ".md", "json": ".json"}


@dataclass
class _Emitted:
    """What a component has emitted, as files of a report."""

    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    size: int = 0

    def add(self, name: str, content: bytes) -> str | None:
        """Add a file; returns why it is refused, or None."""
        if not name or name.startswith("/") or ".." in PurePosixPath(name).parts:
            return f"{name!r} cannot be the name of a part."
        if name in self.files:
            return f"A part {name!r} was emitted before."
        self.size += len(content)
        if self.size > _MOST_BYTES:
            return f"All parts together have more than {_MOST_BYTES >> 20} MiB."
        self.files[name] = content
        return None


class ComponentReporter:
    """A reporter in a file.

    Args:
        path: The component.

    Raises:
        UsageError: wasmtime is not installed.
    """

    def __init__(self, path: str) -> None:
        require_wasmtime()
        self._path = Path(path)

    def report(self, episodes: Sequence[FinishedEpisode]) -> Mapping[str, bytes]:
        """Run the component, and return what it has emitted, by name.

        Raises:
            RoleError: The file is not a component of the world, or the component has failed, or gives up.
        """
        wasmtime, parts = import_module("wasmtime"), import_module("wasmtime.component")
        engine = wasmtime.Engine()
        try:
            component = parts.Component(engine, self._path.read_bytes())
        except wasmtime.WasmtimeError as error:
            raise RoleError(
                f"{self._path.name} is not a WebAssembly component: {_why(error)}.",
                code="role_not_runnable",
                hint=f"Modules of other kinds do not run; a reporter is a component of {_WORLD}@{_VERSION}.",
            ) from error
        self._require_world(component.type, engine)
        store = wasmtime.Store(engine)
        store.set_limits(memory_size=_MOST_MEMORY)
        wasi = wasmtime.WasiConfig()
        wasi.inherit_stdout()
        wasi.inherit_stderr()
        store.set_wasi(wasi)
        linker = parts.Linker(engine)
        linker.add_wasip2()
        emitted = _Emitted()
        with linker.root() as root:
            for interface, functions in _functions(episodes, emitted, parts.Variant).items():
                with root.add_instance(f"{_WORLD}/{interface}@{_VERSION}") as instance:
                    for name, function in functions.items():
                        instance.add_func(name, function)
        subject = parts.Variant("episodes", [episode.id for episode in episodes])
        request = SimpleNamespace(**{"run-id": episodes[0].id, "subject": subject, "params": None})
        try:
            run = linker.instantiate(store, component).get_func(store, "run")
            ended = run(store, request)
        except (wasmtime.WasmtimeError, TypeError, ValueError) as error:
            raise RoleError(f"The component has failed: {_why(error)}.", code="component_failed") from error
        if isinstance(ended, parts.Variant):
            raise RoleError(f"The component has given up ({ended.tag}): {ended.payload}.")
        if not emitted.files:
            raise RoleError("The component has emitted nothing.")
        return emitted.files

    def _require_world(self, kind: Any, engine: Any) -> None:
        """Refuse a component of another world.

        Raises:
            RoleError: It needs something that the world does not have, or has no `run`.
        """
        known = {f"{_WORLD}/{interface}@{_VERSION}" for interface in _INTERFACES}
        missing = [name for name in kind.imports(engine) if name not in known and not name.startswith("wasi:")]
        if missing or "run" not in kind.exports(engine):
            what = f"needs {listed(missing)}" if missing else "exports no function run"
            raise RoleError(
                f"{self._path.name} cannot run here: it {what}, and components of {_WORLD}@{_VERSION} alone can.",
                code="role_not_runnable",
                hint="Build it for that world, the one that platforms run, too.",
            )


def _functions(
    episodes: Sequence[FinishedEpisode], emitted: _Emitted, variant: Any
) -> dict[str, dict[str, Callable[..., Any]]]:
    """The functions that the world imports, by interface."""
    by_id = {episode.id: episode for episode in episodes}

    def fails(tag: str, message: str) -> Any:
        return variant(tag, message)

    def part(called: str, key: str | None = None, missing: Any = None) -> Callable[..., Any]:
        def read(_: object, episode: str) -> Any:
            if episode not in by_id:
                return fails("not-found", f"There is no episode {episode}.")
            content = by_id[episode].read(called, key)
            if content is None:
                return missing if missing is not None else fails("not-found", f"{episode} has no {called}.")
            return content

        return read

    def game_logs(_: object, episode: str) -> Any:
        return by_id[episode].game_log if episode in by_id else fails("not-found", f"There is no episode {episode}.")

    def player_logs(_: object, episode: str, slot: int) -> Any:
        if episode not in by_id or str(slot) not in by_id[episode].keys("player_logs"):
            return fails("not-found", f"There is no log of slot {slot} in {episode}.")
        return by_id[episode].player_log(slot)

    def error_info(_: object, episode: str) -> Any:
        if episode not in by_id:
            return fails("not-found", f"There is no episode {episode}.")
        content = by_id[episode].read("error_info")
        return None if content is None else content.decode("utf-8", "replace")

    def elsewhere(*_: object) -> Any:
        return fails("forbidden", "That is for platforms alone, and this is a local run.")

    def emit(_: object, name: str, value: Any) -> Any:
        try:
            file, content = _file(name, value)
        except RoleError as error:
            return fails("invalid", error.message)
        refused = emitted.add(file, content)
        return None if refused is None else fails("invalid", refused)

    def progress(_: object, percent: int, note: str) -> None:
        print(f"{percent} %: {note}", flush=True)

    def log(_: object, level: str, message: str) -> None:
        print(f"{level}: {message}", file=sys.stderr, flush=True)

    return {
        "types": {},
        "episodes": {
            "results": part("results"),
            "replay": part("replay"),
            # A text says why there are none
            "events": part("events", missing="Local episodes have none in their bundles."),
            "game-logs": game_logs,
            "player-logs": player_logs,
            "error-info": error_info,
        },
        "platform": {"get": elsewhere},
        "reports": dict.fromkeys(("dependencies", "list-runs", "output", "fetch"), elsewhere),
        "llm": dict.fromkeys(("anthropic-messages", "openai-chat"), elsewhere),
        "output": {"emit": emit, "progress": progress, "log": log},
    }


def _file(name: str, value: Any) -> tuple[str, bytes]:
    """The file of a report that an emitted part becomes."""
    payload = value.payload
    if (suffix := _PARTS.get(value.tag)) is not None:
        return f"{name}{suffix}", str(payload).encode()
    if value.tag == "event-log":
        rows = [{"ts": event.ts, "player": event.player, "key": event.key, "value": event.value} for event in payload]
        if find_spec("pyarrow") is None:
            return f"{name}.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows).encode()
        return f"{name}.parquet", _parquet(rows)
    if value.tag == "file":
        suffix = mimetypes.guess_extension(getattr(payload, "media-type")) or ".bin"
        named = name if PurePosixPath(name).suffix else f"{name}{suffix}"
        return named, bytes(payload.bytes)
    raise RoleError(f"A part of the kind {value.tag!r} is not known.")


def _parquet(rows: list[dict[str, Any]]) -> bytes:
    import io

    arrow: Any = import_module("pyarrow")
    columns = {"ts": arrow.int64(), "player": arrow.int64(), "key": arrow.string(), "value": arrow.string()}
    into = io.BytesIO()
    import_module("pyarrow.parquet").write_table(arrow.Table.from_pylist(rows, arrow.schema(columns)), into)
    return into.getvalue()


def _why(error: BaseException) -> str:
    """The cause of an error, which is the last line of what wasmtime says."""
    return (str(error).strip() or type(error).__name__).splitlines()[-1].strip().rstrip(".")
