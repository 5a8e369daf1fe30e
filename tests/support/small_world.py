"""A small Coworld for tests of certification, in this process: correct except for the faults that a test asks for.

The game and its players are coroutines on real sockets (`FakeBackend`). A test asks for a fault by name; the names
are the quoted words below.
"""

from __future__ import annotations

import asyncio
import copy
import datetime as dt
import gzip
import hashlib
import http
import json
import random
import socket as sockets
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import anyio
from websockets.asyncio.client import connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response

from coworld_core.episode.events import BaseEvent
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.outcome import Exit
from coworld_core.episode.record import EpisodeRecord, ImageRecord, SlotRecord
from coworld_core.errors import ImageError
from coworld_core.manifest.manifest_file import load_manifest
from coworld_runner.backend import Capabilities, ImageInfo, Publish
from coworld_runner.certification import (
    TRANSCRIPT,
    Certification,
    CertifyOptions,
    SourceOptions,
    StepRecord,
    certify,
)
from coworld_runner.certification.candidate import Candidate
from coworld_runner.certification.certification_record import StepId
from coworld_runner.certification.certification_steps import carry_out
from coworld_runner.certification.step_ledger import StepLedger
from coworld_runner.certification.transcript import OWN_STEPS
from coworld_runner.episode.single import EpisodeOptions
from coworld_runner.package.resolver import Package
from coworld_runner.replay.replay_session import ReplayOptions
from coworld_runner.testing.fake_backend import FakeBackend, FakeContext, FakeProgram

__all__ = ["LONG", "MANIFEST", "Taken", "WithImages", "World", "fast", "package_of", "played", "slot", "world"]

MANIFEST: dict[str, Any] = {
    "game": {
        "name": "counting",
        "version": "1.2.3",
        "description": "Everybody counts.",
        "owner": "tests@example.org",
        "config_schema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "additionalProperties": False,
            "required": ["tokens", "ticks"],
            "properties": {
                "tokens": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2},
                "ticks": {"type": "integer", "minimum": 1},
                "tick_seconds": {"type": "number", "minimum": 0},
            },
        },
        "results_schema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "required": ["scores", "ticks"],
            "properties": {
                "scores": {"type": "array", "items": {"type": "number"}},
                "ticks": {"type": "integer"},
            },
        },
        "runnable": {"type": "game", "image": "counting-game", "run": ["game"]},
        "protocols": {
            "player": {"type": "text", "value": "Count."},
            "global": {"type": "text", "value": "Watch them count."},
        },
        "docs": {"readme": {"type": "text", "value": "# Counting"}},
    },
    "player": [
        {
            "id": "first",
            "name": "First",
            "type": "player",
            "description": "Counts.",
            "image": "counting-player",
            "run": ["first"],
        },
        {
            "id": "second",
            "name": "Second",
            "type": "player",
            "description": "Counts, too.",
            "image": "counting-player",
            "run": ["second"],
        },
    ],
    "variants": [
        {"id": "default", "name": "Default", "description": "As it is.", "game_config": {"ticks": 10}},
        {"id": "long", "name": "Long", "description": "Longer.", "game_config": {"ticks": 1000}},
    ],
    "certification": {
        "game_config": {"ticks": 8, "tick_seconds": 0.02},
        "players": [{"player_id": "first"}, {"player_id": "second"}],
    },
}


LONG = {"ticks": 60, "tick_seconds": 0.05}
"""A config for three seconds of play: enough for a client to come late or leave early."""


# --- the game ----------------------------------------------------------------------------------------------------


def _path(uri: str) -> Path:
    return Path(unquote(urlsplit(uri).path))


def game(*vices: str) -> Callable[[FakeContext], Awaitable[int]]:
    """A game with the named faults."""

    async def program(context: FakeContext) -> int:
        if "COGAME_LOAD_REPLAY_URI" in context.env:
            return await _show(context, vices)
        if "never_ready" in vices:
            await anyio.sleep_forever()
        return await _Game(context, vices).play()

    return program


def _reply(status: int, body: str) -> Response:
    from websockets.datastructures import Headers

    reason = http.HTTPStatus(status).phrase
    return Response(status, reason, Headers({"Content-Length": str(len(body))}), body.encode())


class _Game:
    def __init__(self, context: FakeContext, vices: tuple[str, ...]) -> None:
        self.context = context
        self.vices = vices
        self.config: dict[str, Any] = json.loads(_path(context.env["COGAME_CONFIG_URI"]).read_text())
        self.tokens: list[str] = self.config["tokens"]
        self.players: dict[int, ServerConnection] = {}
        self.viewers: list[ServerConnection] = []
        self.connected = anyio.Event()
        self.dismissed: set[int] = set()
        self.started = self.over = self.stalled = self.left = False
        self.dead = anyio.Event()
        self.closing = anyio.Event()
        self.strengths: dict[int, float] = {}

    async def play(self) -> int:
        with _listener(self.context) as listener:
            return await self._play(listener)

    async def _play(self, listener: sockets.socket) -> int:
        async with (
            serve(self.handle, sock=listener, process_request=self.request, close_timeout=0.2) as server,
            anyio.create_task_group() as group,
        ):

            async def fall() -> None:
                await self.dead.wait()
                group.cancel_scope.cancel()

            group.start_soon(fall)
            try:
                return await self._go_through(server)
            finally:
                group.cancel_scope.cancel()
                self.closing.set()
                await _close(server)
        self.context.err("Traceback: what was that?\n")
        return 5

    async def _go_through(self, server: Server) -> int:
        if "fails_unready" in self.vices:
            return 3
        await self.connected.wait()
        self.started = True
        for tick in range(self.config["ticks"]):
            await anyio.sleep(self.config.get("tick_seconds", 0.02))
            if self.left:
                break
            if self.stalled:
                await anyio.sleep_forever()
            if tick == 2 and "dies" in self.vices:
                self.context.err("Traceback: <b>division</b> by zero\n")
                return 5
            if tick == 2 and "dismisses_0" in self.vices:
                self.dismissed.add(0)
                await self.players[0].close()
            await self.tell({"type": "state", "tick": tick})
        self.write()
        if "never_over" in self.vices:
            await anyio.sleep_forever()
        await self.tell({"type": "final"})
        self.over = True
        if "lingers_in_silence" in self.vices or "ends_when_left" in self.vices:
            await anyio.sleep(4)
        return 0

    def write(self) -> None:
        results: Any = {"scores": [1.0, 2.5, 0.0][: len(self.tokens)], "ticks": self.config["ticks"]}
        if "ignores_seed" in self.vices:
            results["scores"][0] = random.random()
        if "rewards_strength" in self.vices:
            luck = random.Random(self.config.get("seed", 0))
            results["scores"] = [self.strengths[slot] + luck.random() for slot in (0, 1)]
            results["strengths"] = {"by/slot": [self.strengths[slot] for slot in (0, 1)]}
        if "wrong_scores" in self.vices:
            results["scores"] = [1.0, 2.5, 3.0]
        if "no_results" not in self.vices:
            _path(self.context.env["COGAME_RESULTS_URI"]).write_text(json.dumps(results))
        replay = json.dumps({"frames": list(range(self.config["ticks"]))})
        if "leaks_tokens" in self.vices:
            replay = json.dumps({"config": self.config})
            self.context.out(f"GET /player?slot=1&token={self.tokens[1]} 101\n")
        for name in ("COGAME_EVENTS_URI", "COGAME_PLAYER_FAILURE_URI", "COGAME_SAVE_TRAJECTORY_URI"):
            if "writes_more" in self.vices:
                _path(self.context.env[name]).write_text(json.dumps(dict(self.context.env)))
            if "writes_elsewhere" in self.vices:
                _path(self.context.env[name]).symlink_to("/etc/hostname")
        if "writes_more" in self.vices:
            place = _path(self.context.env["COGAME_EVENTS_URI"]).parent
            (place / "logs" / "moves.log").write_text("e2e4")
            for name in ("heat map.bin", "episode.json", ".unfinished"):
                (place / name).write_text("mine")
        _path(self.context.env["COGAME_SAVE_REPLAY_URI"]).write_text(replay)

    async def tell(self, message: dict[str, Any]) -> None:
        for socket in (*self.players.values(), *self.viewers):
            try:
                await socket.send(json.dumps(message))
            except ConnectionClosed:
                continue

    async def request(self, connection: ServerConnection, request: Request) -> Response | None:
        parts = urlsplit(request.path)
        query = parse_qs(parts.query)
        if parts.path == "/healthz":
            return _reply(200, "ok")
        if parts.path in ("/client/player", "/client/global"):
            if "no_page_for_1" in self.vices and query.get("slot") == ["1"]:
                return _reply(404, "no")
            if "no_content_for_1" in self.vices and query.get("slot") == ["1"]:
                return _reply(204, "")
            if "empty_viewer_page" in self.vices and parts.path == "/client/global":
                return _reply(200, "\n")
            return _reply(200, "<!doctype html><title>counting</title><p>Counting")
        if parts.path == "/global":
            return None
        if parts.path == "/player":
            if self.may_sit(query):
                return None
            if "never_answers_strangers" in self.vices:
                await self.closing.wait()
            return _reply(403, "no")
        return _reply(404, "no")

    def may_sit(self, query: Mapping[str, list[str]]) -> bool:
        if "crashes_on_bad_slot" in self.vices:
            return self.tokens[int(query["slot"][0])] == query["token"][0]
        slot, token = query.get("slot", [""])[0], query.get("token", [""])[0]
        if "lets_anyone_in" in self.vices or ("checks_slot_0_only" in self.vices and slot == "1"):
            return slot.isdecimal() and int(slot) < 2
        if "any_token_for_any_slot" in self.vices:
            return slot.isdecimal() and int(slot) < 2 and token in self.tokens
        if "negative_index" in self.vices:
            return slot.lstrip("-").isdecimal() and -2 <= int(slot) < 2 and self.tokens[int(slot)] == token
        if "needs_no_token" in self.vices and "token" not in query:
            return True
        if "needs_no_slot" in self.vices and "slot" not in query:
            return True
        if "any_word_is_slot_0" in self.vices and slot.isalpha():
            return True
        if not slot.isdecimal() or int(slot) >= len(self.tokens):
            return False
        if "knows_partners" in self.vices and token == self.tokens[(int(slot) + 2) % len(self.tokens)]:
            return True
        if self.tokens[int(slot)] != token:
            return False
        if self.left:
            return False
        if "admits_once" in self.vices and self.started:
            return False
        if "admits_once_for_all" in self.vices and int(slot) in self.players:
            return False
        return int(slot) not in self.dismissed

    async def handle(self, socket: ServerConnection) -> None:
        assert socket.request is not None
        parts = urlsplit(socket.request.path)
        if parts.path == "/global":
            if "no_pong" in self.vices:
                _mute_pongs(socket)
            if "silent_global" in self.vices:
                await socket.wait_closed()
                return
            late = bool(self.viewers)
            self.viewers.append(socket)
            if self.over and "lingers_in_silence" in self.vices:
                await socket.wait_closed()
                return
            if late and "ignores_late_viewers" in self.vices:
                self.viewers.remove(socket)
            else:
                await socket.send(json.dumps({"type": "state"}))
            await socket.wait_closed()
            return
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if query.get("token") not in self.tokens or query.get("slot") != str(self.tokens.index(query["token"])):
            # A fault: the game accepts a client with a wrong token
            if "lets_anyone_in" not in self.vices:
                await _greet(socket)
            await socket.wait_closed()
            return
        self.players[int(query["slot"])] = socket
        if "admits_once_for_all" not in self.vices:
            await _greet(socket)
        if "no_pong_for_players" in self.vices:
            _mute_pongs(socket)
        if "rewards_strength" in self.vices:
            self.strengths[int(query["slot"])] = float(await socket.recv())
        if len(self.strengths if "rewards_strength" in self.vices else self.players) == len(self.tokens):
            self.connected.set()
        try:
            async for message in socket:
                if "stalls_on_binary" in self.vices and isinstance(message, bytes):
                    self.stalled = True
                if "dies_of_binary" in self.vices and isinstance(message, bytes):
                    self.die()
                if "dies_of_malformed" in self.vices and message == "{":
                    self.die()
        except ConnectionClosed as closed:
            if "dies_of_oversized" in self.vices and closed.sent is not None and closed.sent.code == 1009:
                self.die()
        self.left = self.started and "ends_when_left" in self.vices

    def die(self) -> None:
        """End at once, whatever it is doing."""
        self.dead.set()


async def _greet(socket: ServerConnection) -> None:
    """Say at once that a client has been let in: a client that is told nothing waits to be thrown out."""
    with suppress(ConnectionClosed):
        await socket.send(json.dumps({"type": "hello"}))


def _mute_pongs(socket: ServerConnection) -> None:
    send_frame = socket.protocol.send_frame

    def send(frame: Frame) -> None:
        if frame.opcode is not Opcode.PONG:
            send_frame(frame)

    socket.protocol.send_frame = send  # type: ignore[method-assign]


async def _show(context: FakeContext, vices: tuple[str, ...]) -> int:
    path = _path(context.env["COGAME_LOAD_REPLAY_URI"])
    data = path.read_bytes()
    if path.name.endswith(".gz") and "knows_no_gzip" not in vices:
        data = gzip.decompress(data)
    packed = path.name.endswith(".json.z" if "knows_only_json_z" in vices else ".z")
    if (packed and "knows_no_zlib" not in vices) or (not packed and "wants_zlib" in vices):
        data = zlib.decompress(data)
    frames = json.loads(data)["frames"]

    def request(connection: ServerConnection, request: Request) -> Response | None:
        path = urlsplit(request.path).path
        if path == "/healthz" or (path == "/client/replay" and "no_replay_page" not in vices):
            return _reply(200, "" if "empty_replay_page" in vices else "ok")
        return None if path == "/replay" else _reply(404, "no")

    async def handle(socket: ServerConnection) -> None:
        if "silent_replay" not in vices:
            await socket.send(json.dumps({"frames": frames}))
        await socket.wait_closed()

    with _listener(context) as listener:
        async with serve(handle, sock=listener, process_request=request, close_timeout=0.2) as server:
            try:
                await anyio.sleep_forever()
            finally:
                await _close(server)
    return 0


async def _close(server: Server) -> None:
    """Close a server with all its connections, which would outlive it if that were cancelled."""
    with anyio.CancelScope(shield=True):
        # asyncio loses a connection that it is accepting while its server closes (`Server._attach` refuses it): first
        # no other is taken, and those that were have the turns of the loop in which they become known
        for listener in server.sockets:
            asyncio.get_running_loop().remove_reader(listener)
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        server.close()
        await server.wait_closed()


def _listener(context: FakeContext) -> sockets.socket:
    """A socket that we close ourselves; the event loop leaks the one it creates if it is cancelled meanwhile."""
    return sockets.create_server((context.env["COGAME_HOST"], int(context.env["COGAME_PORT"])))


# --- the players --------------------------------------------------------------------------------------------------


def player(*vices: str) -> Callable[[FakeContext], Awaitable[int]]:
    """Players with the named faults, each written as `<player>:<fault>`, such as `first:dies`."""

    async def program(context: FakeContext) -> int:
        who = context.argv[0]
        mine = {vice.partition(":")[2] for vice in vices if vice.partition(":")[0] == who}
        if "dies" in mine:
            context.out("I give up\n")
            return 7
        async with connect(context.env["COWORLD_PLAYER_WS_URL"], proxy=None, close_timeout=0.2) as socket:
            for strength in (vice.removeprefix("strength ") for vice in mine if vice.startswith("strength ")):
                await socket.send(strength)
            if "leaves" in mine:
                while json.loads(await socket.recv())["type"] == "hello":
                    pass
                return 0
            if "leaves_when_stopped" in mine:
                await context.stopping.wait()
                context.end(Exit(reason="exited", code=0))
            async for text in socket:
                if json.loads(text)["type"] == "final":
                    break
        if "stays" in mine:
            await anyio.sleep_forever()
        return 0

    return program


# --- game and players together ------------------------------------------------------------------------------------


_STEPS = {step.id: step for step in TRANSCRIPT.steps + OWN_STEPS}


class Taken(dict[str, StepRecord]):
    """Some steps of a certification, with the ledger that they have filled."""

    def __init__(self, ledger: StepLedger) -> None:
        super().__init__()
        self.ledger = ledger

    @property
    def failures(self) -> dict[str, str | None]:
        """Why each step that has failed did."""
        return {step.id: step.failure_reason for step in self.values() if step.status == "fail"}


class World:
    """A package together with a backend that runs its programs."""

    def __init__(self, manifest: dict[str, Any], backend: FakeBackend, package: Package) -> None:
        self.manifest = manifest
        self.backend = backend
        self.package = package

    async def take(
        self, workspace: Path, *steps: StepId, options: CertifyOptions | None = None, ledger: StepLedger | None = None
    ) -> Taken:
        """Take the package through some of the steps only.

        Args:
            workspace: An empty directory, or one with the files that the steps read.
            steps: The steps, in this order.
            options: How to certify, with short waits by default.
            ledger: What earlier steps have found.
        """
        candidate = Candidate(
            package=self.package,
            backend=self.backend,
            options=options or fast(),
            layout=EpisodeLayout(workspace),
            publish=lambda _: None,
        )
        taken = Taken(ledger or StepLedger())
        for id in steps:
            answer = await carry_out(candidate, id, taken.ledger)
            taken[id] = taken.ledger.note(_STEPS[id], answer, 0.0)
        return taken

    async def certify(
        self, workspace: Path, *, options: CertifyOptions | None = None, events: list[BaseEvent] | None = None
    ) -> Certification:
        """Certify the package, with short waits."""
        listeners = (events.append,) if events is not None else ()
        return await certify(
            self.package, backend=self.backend, workspace=workspace, options=options or fast(), listeners=listeners
        )


class WithImages(FakeBackend):
    """A backend that has images and knows the digest of each; those whose name begins with `lost` are not to be had."""

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, images=True)

    async def ensure_image(
        self, image: str, *, platform: str | None = None, publish: Publish | None = None
    ) -> ImageInfo:
        if image.startswith("lost"):
            raise ImageError(f"{image} is nowhere.", hint="Build it.")
        digest = hashlib.sha256(image.encode()).hexdigest()
        return ImageInfo(image=image, digest=f"sha256:{digest}", platform=platform or "")


def slot(
    number: int,
    *,
    started: float | None = 1.0,
    ended: float | None = 20.0,
    exit: Exit | None = Exit(reason="exited", code=0),  # noqa: B008 - a frozen value
) -> SlotRecord:
    """The record of a player that has played."""
    image = ImageRecord(image="x")
    return SlotRecord(slot=number, image=image, started_seconds=started, ended_seconds=ended, exit=exit)


def played(*slots: SlotRecord, **more: Any) -> EpisodeRecord:
    """The record of an episode of twenty seconds, by default of two players."""
    now = dt.datetime(2026, 11, 21, tzinfo=dt.UTC)
    whole: dict[str, Any] = {
        "run_id": "r",
        "coworld": "counting",
        "version": "1",
        "backend": "fake",
        "variant": "certification",
        "started_at": now,
        "ended_at": now,
        "seconds": 21.0,
        "status": "completed",
        "slots": slots or (slot(0), slot(1)),
        "over_seconds": 20.0,
    }
    return EpisodeRecord(**{**whole, **more})


def fast(*, episode: Mapping[str, Any] | None = None, **changes: Any) -> CertifyOptions:
    """Options with bounded waits and no network; `episode` changes single fields, `changes` whole options."""
    waits = EpisodeOptions(timeout_seconds=60.0, ready_timeout_seconds=20.0, player_exit_timeout_seconds=5.0)
    options = CertifyOptions(
        browser=False,
        episode=replace(waits, **(episode or {})),
        replay=ReplayOptions(ready_timeout=20.0),
        sources=SourceOptions(offline=True),
    )
    return replace(options, **changes)


def package_of(manifest: dict[str, Any], path: Path | None = None) -> Package:
    """A package made from a valid manifest."""
    loaded = load_manifest(manifest)
    report = loaded.report.model_copy(update={"source": str(path or "counting")})
    return Package(manifest=loaded.manifest, report=report, path=path)


@asynccontextmanager
async def world(
    *,
    game_vices: tuple[str, ...] = (),
    player_vices: tuple[str, ...] = (),
    change: Callable[[dict[str, Any]], None] | None = None,
    backend: type[FakeBackend] = FakeBackend,
    package: Callable[[dict[str, Any]], Package] = package_of,
    programs: Mapping[str, FakeProgram] | None = None,
) -> AsyncGenerator[World, None]:
    """The small Coworld.

    Args:
        game_vices: Faults of the game.
        player_vices: Faults of the players, each written as `<player>:<fault>`.
        change: Changes the manifest in place.
        backend: The backend's class.
        package: Makes a package from the manifest.
        programs: Further programs, by image.
    """
    manifest = copy.deepcopy(MANIFEST)
    if change is not None:
        change(manifest)
    all_programs = {"counting-game": game(*game_vices), "counting-player": player(*player_vices), **(programs or {})}
    async with backend(all_programs) as entered:
        yield World(manifest, entered, package(manifest))
