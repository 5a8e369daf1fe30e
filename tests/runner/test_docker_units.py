"""Containers as units: how they are held, how they end, and that nothing of them stays, whatever fails."""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
import os
import random
import socket
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import anyio.to_thread
import pytest
from support.docker_subject import engine_call, subject_image, subject_spec
from support.elsewhere import as_user
from support.fake_server import serve_everywhere
from support.full import FULL
from support.registry import image_archive

from coworld_core.docker_address import EngineRefused, resolve_address
from coworld_core.episode.events import BaseEvent, LeakFound, LogTruncated
from coworld_core.errors import BackendError, NotReadyError, StartError, TransferError, UsageError
from coworld_core.ids import new_run_id
from coworld_runner.backend import Backend, Found, HttpProbe, Limits, Placement, Port, UnitSpec
from coworld_runner.backends import DockerBackend
from coworld_runner.backends.docker import _inspection
from coworld_runner.backends.docker._engine import Engine, path_segment
from coworld_runner.backends.docker._run_networks import drop_network, make_network
from coworld_runner.backends.engine import run_labels
from coworld_runner.runs.scratch import make_scratch, open_scratch, scratch_root
from coworld_runner.testing import Arena, BackendConformance
from coworld_runner.testing.conformance import subject_environment

pytestmark = pytest.mark.docker

HTTP = (Port(name="http"),)


class Suite(BackendConformance):
    """What an arena needs to know."""

    def make_backend(self) -> Backend:
        return DockerBackend()

    def subject_spec(self, run_id: str, name: str, *steps: str) -> UnitSpec:
        # Without a route out, as a player is by default; that also saves the open network
        return dataclasses.replace(subject_spec(run_id, name, *steps), network="none")


@pytest.fixture
def arena() -> Generator[Arena, None, None]:
    with make_scratch(new_run_id()) as scratch:
        yield Arena(Suite(), scratch)


def python(spec: UnitSpec, code: str) -> UnitSpec:
    """The spec with a program of its own."""
    return dataclasses.replace(spec, argv=("python3", "-u", "-c", code))


# --- how they are held ------------------------------------------------------------------------------------------


async def test_a_player_has_no_privileges_and_a_game_those_of_a_start_script(arena: Arena) -> None:
    status = arena.spec("player", "read:/proc/self/status")
    game = dataclasses.replace(arena.spec("game", "read:/proc/self/status"), component="game")
    allowed = dataclasses.replace(arena.spec("allowed", "read:/proc/self/status"), drops_privileges=True)
    async with arena.open() as backend, backend.units([status, game, allowed], publish=arena.publish) as units:
        for unit in units:
            assert (await unit.wait()).ok
            told = dict(line.split(":\t", 1) for line in arena.text(unit.name).splitlines() if ":\t" in line)
            assert told["NoNewPrivs"] == "1"
            assert told["Seccomp"] == "2"
            held = int(told["CapEff"], 16)
            assert held == int(told["CapBnd"], 16)
            # CHOWN, DAC_OVERRIDE, FOWNER, SETGID, SETUID and not one more
            assert held == (0 if unit.name == "player" else 1 << 0 | 1 << 1 | 1 << 3 | 1 << 6 | 1 << 7)


async def test_limits_reach_the_engine(arena: Arena) -> None:
    limits = Limits(memory_bytes=128 << 20, cpus=0.5, pids=50, disk_bytes=64 << 20)
    async with (
        arena.open() as backend,
        backend.units([arena.spec("subject", "hang", limits=limits, slot=3)], publish=arena.publish) as (unit,),
    ):
        described = await engine_call("GET", f"/containers/{unit.id}/json")
        host = described["HostConfig"]
        assert (host["Memory"], host["MemorySwap"]) == (128 << 20, 128 << 20)
        assert (host["NanoCpus"], host["PidsLimit"]) == (500_000_000, 52)
        assert host["LogConfig"]["Type"] == "none"
        assert host["Init"] is True
        labels = described["Config"]["Labels"]
        assert labels["coworld.run"] == arena.run_id
        assert (labels["coworld.unit"], labels["coworld.slot"]) == ("subject", "3")
        assert labels["coworld.scratch"] == str(arena.scratch.path)


async def test_writes_anywhere_count_against_the_disk_limit(arena: Arena) -> None:
    code = "import os, signal\nfor i in range(40):\n    open(f'/tmp/{i}', 'wb').write(bytes(1 << 20))\nsignal.pause()"
    spec = python(arena.spec("subject", limits=Limits(disk_bytes=8 << 20)), code)
    async with arena.open() as backend:
        exit = await arena.run(backend, spec)
    assert exit.reason == "disk"
    assert "8388608 allowed" in exit.detail


async def test_disk_entries_are_limited(arena: Arena) -> None:
    code = "import os, signal\nfor i in range(3000):\n    os.mkdir(f'/coworld/{i}')\nsignal.pause()"
    spec = python(arena.spec("subject", limits=Limits(disk_entries=1000)), code)
    async with arena.open() as backend:
        exit = await arena.run(backend, spec)
    assert exit.reason == "disk"
    assert "1000 allowed" in exit.detail


async def test_preallocated_space_is_detected_at_once(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_inspection, "_DISK_SECONDS", 600.0)
    code = (
        "import os, signal\nfor i in range(8):\n"
        "    os.posix_fallocate(os.open(f'/tmp/{i}', os.O_WRONLY | os.O_CREAT), 0, 64 << 20)\nsignal.pause()"
    )
    spec = python(arena.spec("subject", limits=Limits(disk_bytes=64 << 20)), code)
    async with arena.open() as backend:
        exit = await arena.run(backend, spec)
    assert exit.reason == "disk"


async def test_a_volume_of_the_image_has_a_size_too_and_goes_with_the_unit(arena: Arena) -> None:
    code = (
        "import os\nmade = []\ntry:\n    for name in range(40):\n        os.mkdir(f'/data/{name}'); made.append(name)\n"
        "except OSError as error:\n    print(error.strerror)\nfor name in made:\n    os.rmdir(f'/data/{name}')\n"
        "with open('/data/kept', 'wb') as file:\n    try:\n        for _ in range(40):\n"
        "            file.write(bytes(1 << 20)); file.flush()\n    except OSError as error:\n"
        "        print(error.strerror)\n"
    )
    async with arena.open() as backend, changed_image("coworld-test-volume:1", "VOLUME /data") as image:
        limits = Limits(disk_bytes=8 << 20, disk_entries=20)
        spec = python(arena.spec("subject", image=image, limits=limits), code)
        async with backend.units([spec], publish=arena.publish) as (unit,):
            await unit.wait()
            volumes = [item for item in await backend.find(arena.run_id) if item.kind == "volume"]
            assert [item.alive for item in volumes] == [True]
        await arena.nothing_left(backend)
    # The volume is full before a single file is too large
    assert arena.text("subject") == "No space left on device\n" * 2


async def test_a_flood_is_dropped_and_costs_no_memory(arena: Arena) -> None:
    spec = arena.spec("subject", f"flood:{256 << 20}", "exit:5", limits=Limits(log_bytes=100_000))
    before = most_memory(from_now=True)
    async with arena.open() as backend, backend.units([spec], publish=arena.publish) as (unit,):
        assert (await unit.wait()).code == 5
    assert arena.log("subject").stat().st_size <= 100_000
    assert len(arena.of(LogTruncated)) == 1
    assert most_memory() - before < 32 << 20


def most_memory(*, from_now: bool = False) -> int:
    """The most memory in bytes that this process has had since it started, or since a call `from_now`."""
    if from_now:
        # The kernel sets the peak to what is resident now.
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) << 10


# --- how they end -----------------------------------------------------------------------------------------------


async def test_externally_removed_container_is_lost(arena: Arena) -> None:
    async with arena.open() as backend:
        async with backend.units([arena.spec("subject", "print:up", "hang")], publish=arena.publish) as (unit,):
            await arena.until_written("subject", "up")
            await engine_call("DELETE", f"/containers/{unit.id}", query={"force": True})
            assert (await unit.wait()).reason == "lost"
            assert (await unit.stop()).reason == "lost"
        assert arena.of(LeakFound) == []
        await arena.nothing_left(backend)


async def test_externally_killed_container_is_not_reported_as_stopped(arena: Arena) -> None:
    async with (
        arena.open() as backend,
        backend.units([arena.spec("subject", "print:up", "hang")], publish=arena.publish) as (unit,),
    ):
        await arena.until_written("subject", "up")
        await engine_call("POST", f"/containers/{unit.id}/kill", query={"signal": "SIGKILL"})
        exit = await unit.wait()
        assert (exit.reason, exit.signal) == ("signal", 9)
        assert await unit.stop() == exit


LOSES_A_CHILD = """
import os, signal, sys
child = os.fork()
if child == 0:
    block = bytearray(256 << 20)
    block[::4096] = b"x" * len(range(0, len(block), 4096))
assert os.waitpid(child, 0)[1] == signal.SIGKILL
"""


@pytest.mark.parametrize("then", ["signal.pause()", "sys.exit(0)", "sys.exit(3)"])
async def test_a_child_killed_for_memory_ends_the_unit_with_that_reason(arena: Arena, then: str) -> None:
    spec = python(arena.spec("subject", limits=Limits(memory_bytes=64 << 20)), LOSES_A_CHILD + then)
    async with arena.open() as backend:
        exit = await arena.run(backend, spec)
    assert exit.reason == "oom"


async def test_a_fork_bomb_at_its_limit_is_ended_and_as_many_as_allowed_are_not(arena: Arena) -> None:
    bomb = """
import os, signal
while True:
    try:
        if os.fork() == 0:
            signal.pause()
    except OSError:
        print("no more", flush=True)
        signal.pause()
"""
    bomb = python(arena.spec("bomb", limits=Limits(pids=20)), bomb)
    # One is the program itself
    full = arena.spec("full", "print:up", "processes:19", limits=Limits(pids=20))
    async with arena.open() as backend, backend.units([bomb, full], publish=arena.publish) as units:
        exit = await units[0].wait()
        assert (exit.reason, exit.detail) == ("pids", "20 processes and threads allowed")
        assert units[1].exit is None


async def test_out_of_memory_missed_by_the_engine_is_reported(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    # The kernel's word and the end race each other in the engine, and the flag stays as it was at the end
    whole = Engine.call

    async def forgetful(self: Engine, method: str, path: str, **more: Any) -> Any:
        answer = await whole(self, method, path, **more)
        if path.endswith("/json") and isinstance(answer, dict) and "State" in answer:
            answer["State"]["OOMKilled"] = False
        return answer

    monkeypatch.setattr(Engine, "call", forgetful)
    limits = Limits(memory_bytes=64 << 20)
    greedy = arena.spec("greedy", f"memory:{256 << 20}", limits=limits)
    killed = arena.spec("killed", "print:up", "hang", limits=limits)
    async with arena.open() as backend, backend.units([greedy, killed], publish=arena.publish) as units:
        assert (await units[0].wait()).reason == "oom"
        await arena.until_written("killed", "up")
        await engine_call("POST", f"/containers/{units[1].id}/kill", query={"signal": "SIGKILL"})
        assert (await units[1].wait()).reason == "signal"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("coworld-no-such-program",), "there is no such file"),
        (("/no/such/program",), "there is no such file"),
        (("/etc",), "it is a directory"),
        (("/etc/passwd",), "it is not executable"),
    ],
)
async def test_unrunnable_program_is_reported(arena: Arena, argv: tuple[str, ...], said: str) -> None:
    async with arena.open() as backend:
        error = await refused(arena, backend, arena.spec("subject", argv=argv))
    assert error.code == "command_failed"
    assert said in error.message
    assert argv[0] in error.message


@asynccontextmanager
async def changed_image(name: str, changes: str) -> AsyncGenerator[str, None]:
    """The subject's image with a line of a Dockerfile more."""
    async with Engine.connect(resolve_address()) as engine:
        made = await engine.call("POST", "/containers/create", body={"Image": subject_image()})
        try:
            repository, _, tag = name.partition(":")
            where = {"container": made["Id"], "repo": repository, "tag": tag, "changes": changes}
            await engine.call("POST", "/commit", query=where)
            yield name
        finally:
            await engine.call("DELETE", f"/containers/{made['Id']}")
            with contextlib.suppress(EngineRefused):
                await engine.call("DELETE", f"/images/{path_segment(name)}")


async def refused(arena: Arena, backend: Backend, spec: UnitSpec) -> StartError:
    """What is raised for a spec that cannot be started; nothing stays of it."""
    with pytest.raises(StartError) as caught:
        async with backend.units([spec], publish=arena.publish):
            pytest.fail("it was started")
    assert caught.value.context["unit"] == spec.name
    await arena.nothing_left(backend)
    return caught.value


async def test_image_faults_are_reported(arena: Arena) -> None:
    async with arena.open() as backend:
        async with changed_image("coworld-test-user:1", "USER nobody-knows") as image:
            error = await refused(arena, backend, arena.spec("user", "hang", image=image))
        assert error.code == "command_failed"
        assert "unable to find user nobody-knows" in error.message
        async with Engine.connect(resolve_address()) as engine:
            archive = image_archive("coworld-test-empty:1", engine.platform.partition("/")[2])
            async with engine.stream("POST", "/images/load", content=archive) as answer:
                assert [data async for data in answer]
            try:
                error = await refused(arena, backend, arena.spec("empty", image="coworld-test-empty:1", argv=()))
            finally:
                await engine.call("DELETE", "/images/coworld-test-empty:1")
            assert error.code == "command_failed"
            assert "no command" in error.message.lower()
        error = await refused(arena, backend, arena.spec("absent", image="coworld-test-absent:1"))
        assert error.code == "image_missing"


async def test_directory_invisible_to_the_engine_is_reported(arena: Arena) -> None:
    spec = arena.spec("subject", "hang", directory=arena.scratch.path / "gone")
    async with arena.open() as backend:
        error = await refused(arena, backend, spec)
    assert "bind source path does not exist" in error.message


async def test_directory_with_an_unusual_name_is_mounted(arena: Arena) -> None:
    odd = arena.scratch.path / "a:b, c='d' é"
    odd.mkdir()
    odd.chmod(0o777)
    (odd / "in").write_text("read me")
    code = "import os\nprint(open('/mnt/in').read())\nopen('/mnt/out', 'w').write('x')"
    async with arena.open() as backend:
        assert (await arena.run(backend, python(arena.spec("subject", directory=odd, mount="/mnt"), code))).ok
    assert arena.text("subject") == "read me\n"
    assert (odd / "out").read_text() == "x"


# --- ports ------------------------------------------------------------------------------------------------------


async def test_a_port_that_is_taken_is_named_with_its_owner(arena: Arena) -> None:
    with socket.socket() as owner:
        owner.bind(("127.0.0.1", 0))
        owner.listen()
        taken = owner.getsockname()[1]
        spec = arena.spec("game", "hang", ports=(Port(name="http"), Port(name="extra", number=9000, host_port=taken)))
        async with arena.open() as backend:
            error = await refused(arena, backend, spec)
    assert error.code == "port_taken"
    assert str(taken) in error.message
    assert f"pid {os.getpid()}" in error.message


async def test_a_port_lost_before_the_start_is_chosen_again_with_its_environment(arena: Arena) -> None:
    ports = (Port(name="http"), Port(name="extra", number=9000, fixed=True))

    def environment(placement: Placement) -> dict[str, str]:
        return {**subject_environment(placement), "EXTRA": placement.endpoints["extra"].here}

    spec = arena.spec("game", "env", "serve:200", "hang", ports=ports, environment=environment)
    async with (
        arena.open() as backend,
        backend.units([spec], publish=arena.publish, start=False) as (unit,),
    ):
        first = unit.endpoint("extra").here
        with socket.socket() as thief:
            thief.bind(("127.0.0.1", int(first.rpartition(":")[2])))
            thief.listen()
            await unit.start()
            await unit.wait_ready(HttpProbe())
        assert unit.endpoint("extra").here != first
        assert f'"EXTRA": "{unit.endpoint("extra").here}"' in arena.text("game")
        assert unit.endpoint("extra").there == "game:9000"


async def test_unreachable_listening_address_is_reported(arena: Arena) -> None:
    code = (
        "import http.server as h\nserver = h.HTTPServer(('127.0.0.1', 8080), h.SimpleHTTPRequestHandler)\n"
        "print('up')\nserver.serve_forever()"
    )
    spec = python(arena.spec("game", ports=HTTP), code)
    async with arena.open() as backend, backend.units([spec], publish=arena.publish) as (unit,):
        await arena.until_written("game", "up")
        with pytest.raises(NotReadyError) as caught:
            await unit.wait_ready(HttpProbe(timeout=1))
    assert str(caught.value.context["last"]).endswith("; it listens on 127.0.0.1:8080 only")
    assert "0.0.0.0" in (caught.value.hint or "")


# --- networks ---------------------------------------------------------------------------------------------------

_LOOK = """
import socket, sys, threading

def look(where):
    host, _, port = where.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=2).close()
        print(f"reached {where}\\n", end="")
    except OSError as error:
        print(f"missed {where}: {error}\\n", end="")

for where in sys.argv[1:]:
    threading.Thread(target=look, args=[where]).start()
"""


async def test_open_and_closed_clients_of_one_game(arena: Arena) -> None:
    """The closed one reaches the game and nothing else; the open ones reach it, each other and the host."""
    game = arena.spec("game", "serve:200", "hang", ports=HTTP, clients=("closed", "open", "other"), network="game-only")
    async with arena.open() as backend, serve_everywhere() as hosts:
        async with backend.units([game], publish=arena.publish) as (unit,):
            await unit.wait_ready(HttpProbe())
            other = arena.spec("other", "serve:200", "print:up", "hang", connects_to="game", network="open", ports=HTTP)
            async with backend.units([other], publish=arena.publish):
                await arena.until_written("other", "up")

                def looks(name: str, network: Any) -> UnitSpec:
                    spec = arena.spec(name, connects_to="game", network=network)
                    where = ("game:8080", "other:8080", *hosts)
                    return dataclasses.replace(spec, argv=("python3", "-u", "-c", _LOOK, *where))

                specs = [looks("closed", "game-only"), looks("open", "open")]
                async with backend.units(specs, publish=arena.publish) as clients:
                    for client in clients:
                        assert (await client.wait()).ok
        await arena.nothing_left(backend)
    assert [line for line in arena.text("closed").splitlines() if "reached" in line] == ["reached game:8080"]
    reached = arena.text("open")
    assert "reached game:8080" in reached
    assert "reached other:8080" in reached
    assert any(f"reached {host}" in reached for host in hosts)


async def test_closed_units_cannot_even_ask_for_names_outside(arena: Arena) -> None:
    """A question for a name carries data: what asks for one outside must not make this machine ask."""
    code = (
        "import socket\ntry:\n    socket.getaddrinfo('secret.coworld-test.example', 80); print('resolved')\n"
        "except OSError as error:\n    print('not resolved', error)\nprint(open('/etc/resolv.conf').read())\n"
        "print(socket.gethostbyname('game'))"
    )
    game = python(arena.spec("game", network="game-only", ports=HTTP), "import signal; signal.pause()")
    player = python(arena.spec("player", network="game-only", connects_to="game"), code)
    async with arena.open() as backend, backend.units([game, player], publish=arena.publish) as (unit, client):
        assert (await client.wait()).ok
        for item in (unit, client):
            described = await engine_call("GET", f"/containers/{item.id}/json")
            # Nobody but the container's own loopback is asked, and nobody listens there
            assert described["HostConfig"]["Dns"] == ["127.0.0.1"]
    assert "not resolved" in arena.text("player")


async def test_a_closed_unit_with_a_port_has_no_way_out(arena: Arena) -> None:
    """Only what does not pass through this machine's translation counts as outside: its own resolvers, by TCP."""
    resolvers = await anyio.Path("/etc/resolv.conf").read_text()
    outside = [f"{line.split()[1]}:53" for line in resolvers.splitlines() if line.startswith("nameserver")]
    outside = [where for where in outside if where.count(":") == 1 and not where.startswith("127.")]

    def looks(name: str, network: Any, **more: Any) -> UnitSpec:
        argv = ("python3", "-u", "-c", _LOOK, *outside)
        return dataclasses.replace(arena.spec(name, network=network, **more), argv=argv)

    specs = [looks("open", "open"), looks("closed", "game-only", ports=HTTP), looks("none", "none")]
    async with arena.open() as backend, backend.units(specs, publish=arena.publish) as units:
        for unit in units:
            assert (await unit.wait()).ok
    if "reached" not in arena.text("open"):
        pytest.skip("nothing outside of this machine can be reached from a container, so nothing is proven")
    assert "reached" not in arena.text("closed")
    assert "reached" not in arena.text("none")


async def test_unknown_client_unit_is_refused(arena: Arena) -> None:
    async with arena.open() as backend:
        error = await refused(arena, backend, arena.spec("player", "hang", connects_to="game"))
    assert error.code == "peer_unknown"


async def test_duplicate_unit_name_is_refused(arena: Arena) -> None:
    async with (
        arena.open() as backend,
        backend.units([arena.spec("subject", "print:up", "hang")], publish=arena.publish) as (unit,),
    ):
        await arena.until_written("subject", "up")
        for specs in ([arena.spec("subject", "hang")], [arena.spec("new", "hang"), arena.spec("new", "hang")]):
            with pytest.raises(UsageError):
                async with backend.units(specs, publish=arena.publish):
                    pytest.fail("it was created")
        assert unit.exit is None
        assert (await engine_call("GET", f"/containers/{unit.id}/json"))["State"]["Running"]


async def test_network_rejoined_during_removal_is_removed(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    # A call that was given up may still be done by the engine while its network is being taken away
    hang = dataclasses.replace(arena.spec("game", "hang", ports=HTTP), network="game-only")
    async with (
        arena.open() as backend,
        backend.units([hang], publish=arena.publish) as (unit,),
        Engine.connect(resolve_address()) as engine,
    ):
        name = f"coworld-{arena.run_id}-back"
        path = f"/networks/{path_segment(name)}"
        await make_network(engine, name, "private", run_labels(arena.run_id))
        came = 0
        ask = engine.call

        async def come_back() -> None:
            nonlocal came
            await ask("POST", f"{path}/connect", body={"Container": unit.id})
            came += 1

        async def call(method: str, where: str, **how: Any) -> Any:
            answer = await ask(method, where, **how)
            # Between being cut off and the network's next removal, where it is most in the way
            if where.endswith("/disconnect") and came < 5:
                await come_back()
            return answer

        await come_back()
        monkeypatch.setattr(engine, "call", call)
        assert await drop_network(engine, name) == ""
        assert came == 5
        with pytest.raises(EngineRefused):
            await engine.call("GET", path)


async def test_networks_have_a_room_of_their_own_and_keep_clear_of_each_other(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine's own pools hold some thirty networks, for everybody on the machine."""
    real = random.getrandbits
    drawn = [real(14)] * 2

    def draw(bits: int) -> int:
        return drawn.pop() if drawn else real(bits)

    monkeypatch.setattr(random, "getrandbits", draw)
    names = [f"coworld-{arena.run_id}-{kind}" for kind in ("private", "front")]
    async with Engine.connect(resolve_address()) as engine:
        try:
            await make_network(engine, names[0], "private", run_labels(arena.run_id))
            await make_network(engine, names[1], "front", run_labels(arena.run_id))
            described = [await engine.call("GET", f"/networks/{name}") for name in names]
        finally:
            for name in names:
                assert await drop_network(engine, name) == ""
    subnets = [ipaddress.IPv4Network(each["IPAM"]["Config"][0]["Subnet"]) for each in described]
    # The second had drawn the same
    assert drawn == []
    assert not subnets[0].overlaps(subnets[1])
    room = ipaddress.IPv4Network("198.18.0.0/15")
    assert [(room.supernet_of(each), each.prefixlen) for each in subnets] == [(True, 29)] * 2


# --- nothing stays ----------------------------------------------------------------------------------------------


async def test_cancellation_at_any_call_leaves_nothing(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancelled at an early call to the engine, at a later one, and so on until it is never cancelled at all."""
    real = Engine._answer
    left = 0
    scope = anyio.CancelScope()

    def answer(self: Engine, method: str, path: str, **more: Any) -> Any:
        nonlocal left
        if not path.endswith("/info"):
            left -= 1
            if left == 0:
                scope.cancel()
        return real(self, method, path, **more)

    monkeypatch.setattr(Engine, "_answer", answer)
    specs = [
        arena.spec("game", "hang", ports=HTTP, clients=("player",), network="game-only"),
        arena.spec("player", "hang", connects_to="game", network="game-only"),
        arena.spec("talker", "hang", network="open"),
    ]
    async with arena.open() as backend:
        reached = False
        step = 0
        while not reached:
            step += 1 if FULL else 3
            left = step
            with anyio.CancelScope() as scope:
                async with backend.units(specs, publish=arena.publish, grace=0):
                    left = 0
                    reached = True
            left = 0
            await arena.nothing_left(backend)
        assert step > 10
    assert arena.of(LeakFound) == []


async def test_failed_creation_leaves_nothing(arena: Arena) -> None:
    """The engine refuses the container or a network because there is one of that name already; others were made."""
    specs = [
        arena.spec("game", "hang", ports=HTTP, clients=("player",), network="game-only"),
        arena.spec("player", "hang", connects_to="game", network="game-only"),
    ]
    async with arena.open() as backend, Engine.connect(resolve_address()) as engine:
        for taken in (f"coworld-{arena.run_id}-player", f"coworld-{arena.run_id}-game-player"):
            if taken.endswith("game-player"):
                await engine.call("POST", "/networks/create", body={"Name": taken, "CheckDuplicate": True})
            else:
                body = {"Image": subject_image()}
                await engine.call("POST", "/containers/create", query={"name": taken}, body=body)
            with pytest.raises(BackendError, match="player could not be created"):
                async with backend.units(specs, publish=arena.publish):
                    pytest.fail("it was created")
            await arena.nothing_left(backend)


async def test_lost_engine_is_reported_and_leftovers_can_be_removed(arena: Arena, tmp_path: Path) -> None:
    address = resolve_address(None)
    if address.socket is None:
        pytest.skip("needs an engine at a socket")
    async with (
        relay(address.socket, tmp_path / "relay.sock") as cut,
        DockerBackend(host=f"unix://{tmp_path / 'relay.sock'}") as backend,
    ):
        with anyio.fail_after(60):
            async with backend.units([arena.spec("subject", "print:up", "hang")], publish=arena.publish, grace=0.1) as (
                unit,
            ):
                await arena.until_written("subject", "up")
                await cut()
                exit = await unit.wait()
                assert exit.reason == "lost"
                assert "stopped answering" in exit.detail
    assert [event.what for event in arena.of(LeakFound)] == [f"container coworld-{arena.run_id}-subject"]
    async with arena.open() as direct:
        found = [item for item in await direct.find(arena.run_id) if item.kind == "container"]
        assert len(found) == 1
        assert all(item.removed for item in await direct.reap(found, force=True))
        await arena.nothing_left(direct)


@asynccontextmanager
async def relay(engine: str, path: Path) -> AsyncGenerator[Callable[[], Awaitable[None]], None]:
    """The engine under another address, until it is cut off."""
    async with anyio.create_task_group() as tasks:
        listener = await anyio.create_unix_listener(path)

        async def pass_on(source: anyio.abc.ByteStream, sink: anyio.abc.ByteStream) -> None:
            with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                while True:
                    await sink.send(await source.receive())
            await sink.aclose()

        async def serve(stream: anyio.abc.SocketStream) -> None:
            async with await anyio.connect_unix(engine) as other, stream, anyio.create_task_group() as both:
                both.start_soon(pass_on, stream, other)
                await pass_on(other, stream)
                both.cancel_scope.cancel()

        async def listen() -> None:
            async with listener:
                await listener.serve(serve)

        tasks.start_soon(listen)

        async def cut() -> None:
            await anyio.Path(path).unlink()
            tasks.cancel_scope.cancel()
            await anyio.lowlevel.checkpoint()

        # What is cut is the relay, not whoever uses it
        with anyio.CancelScope(shield=True):
            yield cut
        tasks.cancel_scope.cancel()


async def test_run_of_another_host_counts_as_alive(arena: Arena, tmp_path: Path) -> None:
    """Whether a runner on another system that shares the engine lives cannot be seen from here."""
    labels = {"coworld.run": arena.run_id, "coworld.host": "another", "coworld.scratch": str(tmp_path / "gone")}
    name = f"coworld-{arena.run_id}-elsewhere"
    body = {"Image": subject_image(), "Labels": labels}
    async with arena.open() as backend:
        await engine_call("POST", "/containers/create", query={"name": name}, body=body)
        found: list[Found] = []
        try:
            found = [item for item in await backend.find(arena.run_id) if item.kind == "container"]
            assert [(item.name, item.alive) for item in found] == [(name, True)]
            assert [item.removed for item in await backend.reap(found)] == [False]
        finally:
            reaped = await backend.reap(found, force=True)
        assert [item.removed for item in reaped] == [True]
        # Removing what is gone already is no failure
        assert [item.removed for item in await backend.reap(found, force=True)] == [True]


# --- a runner that is not root ----------------------------------------------------------------------------------


def test_unprivileged_runner_collects_and_removes_root_files(arena: Arena) -> None:
    address = resolve_address(None)
    if os.getuid() != 0 or address.socket is None:
        pytest.skip("needs root, to become somebody else, and an engine at a socket")
    group = Path(address.socket).stat().st_gid
    image = subject_image()
    code = (
        "import os\nos.umask(0o077)\nopen('/coworld/private', 'w').write('for root alone')\n"
        "os.makedirs('/coworld/a/b/c')\nopen('/coworld/a/b/c/deep', 'w').write('x')\n"
        "os.symlink('/etc/shadow', '/coworld/link')\n"
        # Deeper than a path may be long
        "os.umask(0o022)\nos.chdir('/coworld')\n"
        "for _ in range(600): os.mkdir('a-long-name'); os.chdir('a-long-name')\n"
    )

    async def work() -> str:
        tempfile.tempdir = str(place)
        events: list[BaseEvent] = []
        leaks: list[str] = []
        run_id = new_run_id()
        async with open_scratch(run_id, on_leak=lambda path, reason: leaks.append(reason)) as scratch:
            directory = scratch.directory("game", shared=True)
            target = scratch.path / "fetched"
            spec = UnitSpec(
                run_id=run_id,
                name="game",
                component="game",
                image=image,
                argv=("python3", "-c", code),
                directory=directory,
                network="none",
                stdout=scratch.path / "log",
            )
            async with DockerBackend() as backend, backend.units([spec], publish=events.append) as (unit,):
                exit = await unit.wait()
                assert exit.ok, (exit, await unit.log_tail())
                with pytest.raises(PermissionError):
                    (directory / "private").read_text()
                size = await unit.fetch("private", target, limit=100)
                assert target.read_text() == "for root alone", size
                for name, limit, kind in (
                    ("private", 3, TransferError),
                    ("link", 100, TransferError),
                    ("absent", 100, FileNotFoundError),
                ):
                    with pytest.raises(kind):
                        await unit.fetch(name, target, limit=limit)
                assert sorted(path.name for path in scratch.path.iterdir() if "part" in path.name) == []
            assert [event for event in events if isinstance(event, LeakFound)] == []
        return f"{leaks} {scratch_root().name}"

    with tempfile.TemporaryDirectory(prefix="coworld-test-", dir="/tmp") as place:
        Path(place).chmod(0o1777)
        assert as_user(12345, group, work) == "[] coworld-12345"
