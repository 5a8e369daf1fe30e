"""What the process backend does beyond the contract that all backends share."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from support.misfit_kit import MARK, marked_processes, new_mark
from support.waiting import until

from coworld_core.episode.events import BaseEvent, LeakFound, Notice, UnitExited
from coworld_core.episode.outcome import Exit
from coworld_core.errors import ImageError, NotReadyError, StartError
from coworld_core.ids import new_run_id
from coworld_runner.backend import HttpProbe, Limits, Placement, Port, Unit, UnitSpec
from coworld_runner.backends import ProcessBackend, _port_reservations
from coworld_runner.backends.base import choose_port
from coworld_runner.backends.process import _process_unit as _process_units
from coworld_runner.runs.scratch import Scratch, make_scratch, scratch_root

DEADLINE = 30


class RunContext:
    """One run, and units in it."""

    def __init__(self, scratch: Scratch, context: Path) -> None:
        self.scratch = scratch
        self.context = context
        self.backend = ProcessBackend(contexts={"image": context})
        self.events: list[BaseEvent] = []

    def spec(self, *argv: str, name: str = "unit", **more: Any) -> UnitSpec:
        more.setdefault("stdout", self.scratch.path / f"{name}.log")
        return UnitSpec(run_id=self.scratch.run_id, name=name, component="game", image="image", argv=argv, **more)

    def python(self, code: str, **more: Any) -> UnitSpec:
        return self.spec("python", "-c", code, **more)

    @asynccontextmanager
    async def units(self, *specs: UnitSpec, grace: float = 0.5, **more: Any) -> AsyncGenerator[Sequence[Unit], None]:
        with anyio.fail_after(DEADLINE):
            async with (
                self.backend as backend,
                backend.units(specs, publish=self.events.append, grace=grace, **more) as units,
            ):
                yield units

    async def run(self, spec: UnitSpec) -> Exit:
        async with self.units(spec) as (unit,):
            return await unit.wait()

    async def output(self, spec: UnitSpec) -> str:
        exit = await self.run(spec)
        assert exit.ok, (exit, self.log())
        return self.log()

    def log(self, name: str = "unit") -> str:
        return (self.scratch.path / f"{name}.log").read_text()


@pytest.fixture
def stage(tmp_path: Path) -> Generator[RunContext, None, None]:
    with make_scratch(new_run_id()) as scratch:
        yield RunContext(scratch, tmp_path)


# --- what a unit finds ------------------------------------------------------------------------------------------


async def test_the_environment_is_small_and_private(stage: RunContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the caller's")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    environment = json.loads(await stage.output(stage.python(code, environment=_given(MINE="1"))))
    environment.pop("VIRTUAL_ENV", None)
    environment.pop("LC_CTYPE", None)  # Which the interpreter sets itself
    run = str(stage.scratch.path)
    assert environment.pop("HOME").startswith(run)
    assert environment.pop("TMPDIR").startswith(run)
    assert environment.pop("PATH").split(os.pathsep)[0] == str(Path(sys.executable).parent)
    assert environment.pop("LANG")
    assert environment == {
        "MINE": "1",
        "PYTHONPATH": "/somewhere",
        "PYTHONUNBUFFERED": "1",
        "COWORLD_RUN_ID": stage.scratch.run_id,
        "COWORLD_UNIT": "unit",
        "COWORLD_SCRATCH": run,
    }


async def test_home_and_temporary_files_are_writable_and_go_with_the_unit(stage: RunContext) -> None:
    code = """
import os, pathlib, tempfile
(pathlib.Path.home() / "x").write_text("x")
print(tempfile.mkdtemp())
"""
    made = Path((await stage.output(stage.python(code))).strip())
    assert made.is_relative_to(stage.scratch.path)
    assert sorted(path.name for path in stage.scratch.path.iterdir()) == ["owner.lock", "unit.log"]


async def test_unit_runs_in_its_build_context_with_this_interpreter(stage: RunContext) -> None:
    code = "import os, sys; print(os.getcwd()); print(sys.executable); print(repr(sys.stdin.read()))"
    for name in ("python", "python3"):
        lines = (await stage.output(stage.spec(name, "-c", code))).splitlines()
        assert lines == [str(stage.context), sys.executable, "''"]


async def test_programs_are_found_by_the_units_own_path(stage: RunContext) -> None:
    tool = stage.context / "bin" / "mytool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho it is mine\n")
    tool.chmod(0o755)
    spec = stage.spec("mytool", environment=_given(PATH=f"{tool.parent}:/usr/bin:/bin"))
    assert await stage.output(spec) == "it is mine\n"
    assert await stage.output(stage.spec("bin/mytool")) == "it is mine\n"


async def test_signals_and_limits_are_as_a_shell_would_leave_them(stage: RunContext) -> None:
    """Whatever whoever started us ignores: a shell has its jobs in the background ignore SIGINT and SIGQUIT."""
    code = """
import resource
for line in open("/proc/self/status"):
    if line.startswith(("SigIgn", "SigBlk")):
        print(line.split()[1])
print(resource.getrlimit(resource.RLIMIT_CORE))
"""
    # Python itself ignores SIGPIPE and SIGXFSZ, so a shell is asked
    ignored = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        shell = await stage.output(stage.spec("sh", "-c", "grep -E 'SigIgn|SigBlk' /proc/self/status"))
    finally:
        for number, handler in ignored.items():
            signal.signal(number, handler)
    # 32 and 33 are the C library's own, and refuse to be changed: whoever started us may have left them ignored
    assert [int(line.split()[1], 16) & ~(0b11 << 31) for line in shell.splitlines()] == [0, 0]
    assert (await stage.output(stage.python(code))).splitlines()[-1] == "(0, 0)"


async def test_no_descriptor_of_ours_reaches_a_unit(stage: RunContext) -> None:
    with socket.socket() as ours:
        ours.set_inheritable(True)
        code = "import os; print(sorted(int(n) for n in os.listdir('/proc/self/fd')))"
        descriptors = json.loads(await stage.output(stage.python(code)))
    # The last one is the directory that was being listed
    assert descriptors[:-1] == [0, 1, 2]


async def test_both_streams_keep_their_order_in_one_log(stage: RunContext) -> None:
    code = "import os\nfor i in range(200): os.write(1 + i % 2, b'%d\\n' % i)"
    assert await stage.output(stage.python(code)) == "".join(f"{i}\n" for i in range(200))


async def test_the_environment_and_the_command_survive_any_text(stage: RunContext) -> None:
    odd = "a 'b' \"c\" $d `e` \\ \n\t é 日本 🎲"
    code = "import os, sys; sys.stdout.buffer.write((sys.argv[1] + os.environ['ODD']).encode())"
    spec = stage.spec("python", "-c", code, odd, environment=_given(ODD=odd))
    assert await stage.output(spec) == odd * 2


# --- what cannot be started -------------------------------------------------------------------------------------


async def test_a_unit_without_a_command_is_refused(stage: RunContext) -> None:
    with pytest.raises(StartError) as caught:
        async with stage.units(stage.spec()):
            pytest.fail("it was started")
    assert caught.value.code == "no_command"
    assert "`run`" in str(caught.value.hint)
    assert stage.events == []


async def test_an_image_without_a_context_is_refused(stage: RunContext, tmp_path: Path) -> None:
    with pytest.raises(ImageError) as caught:
        async with ProcessBackend() as backend:
            await backend.ensure_image("paintarena-game:latest")
    assert "compose.yaml" in str(caught.value.hint)
    gone = ProcessBackend(contexts={"image": tmp_path / "gone"})
    assert [issue.code for issue in await gone.check() if issue.severity == "error"] == ["context_missing"]
    with pytest.raises(ImageError) as caught:
        await gone.ensure_image("image")
    assert caught.value.code == "context_missing"
    info = await ProcessBackend(default_context=tmp_path).ensure_image("any")
    assert info.context == tmp_path


@pytest.mark.parametrize(
    ("argv", "code"),
    [(("no-such-program",), "program_missing"), (("./text",), "command_failed"), (("python", "\0"), "start_failed")],
)
async def test_a_program_that_cannot_be_run_is_named(stage: RunContext, argv: tuple[str, ...], code: str) -> None:
    (stage.context / "text").write_text("not a program")
    with pytest.raises(StartError) as caught:
        async with stage.units(stage.spec("sleep", "1000", name="other"), stage.spec(*argv)):
            pytest.fail("it was started")
    assert caught.value.code == code
    assert caught.value.message.startswith("unit cannot be started")
    assert caught.value.hint
    assert [event.unit for event in stage.events if isinstance(event, UnitExited)] in ([], ["other"])


async def test_a_context_that_vanishes_is_named(stage: RunContext) -> None:
    async with stage.units(stage.spec("true"), start=False) as (unit,):
        stage.context.rmdir()
        with pytest.raises(StartError, match=str(stage.context)):
            await unit.start()
        stage.context.mkdir()
        # And it stays so: a unit is started once
        with pytest.raises(StartError, match=str(stage.context)):
            await unit.start()
        assert (await unit.wait()).reason == "lost"


async def test_a_stopped_unit_cannot_be_started_any_more(stage: RunContext) -> None:
    async with stage.units(stage.spec("true"), start=False) as (unit,):
        assert (await unit.stop()).reason == "stopped"
        with pytest.raises(StartError, match="before it was started"):
            await unit.start()


async def test_an_environment_that_cannot_be_made_leaves_nothing(stage: RunContext) -> None:
    def broken(_: Placement) -> dict[str, str]:
        raise KeyError("no such port")

    with pytest.raises(KeyError, match="no such port"):
        async with stage.units(stage.spec("sleep", "1000", name="good"), stage.spec("true", environment=broken)):
            pytest.fail("it was started")
    assert [item.kind for item in await stage.backend.find(stage.scratch.run_id)] == ["directory"]


async def test_a_run_without_a_directory_gets_one_for_the_time_being(stage: RunContext, tmp_path: Path) -> None:
    run_id = new_run_id()
    spec = UnitSpec(run_id=run_id, name="unit", component="game", image="image", argv=("sleep", "1000"))
    async with stage.units(spec):
        found = await stage.backend.find(run_id)
        assert {(item.kind, item.alive) for item in found} == {("process", True), ("directory", True)}
    assert not (scratch_root() / run_id).exists()


# --- ports ------------------------------------------------------------------------------------------------------

SERVER = """
import os, socket
listener = socket.create_server(("127.0.0.1", int(os.environ["PORT"])))
while True:
    connection, _ = listener.accept()
    connection.recv(65536)
    connection.sendall(b"HTTP/1.0 200 OK\\r\\n\\r\\nok")
    connection.close()
"""


def _ephemeral() -> tuple[int, int]:
    first, last = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    return int(first), int(last)


def _given(**environment: str) -> Callable[[Placement], dict[str, str]]:
    return lambda _placement: environment


def _listen(port: str = "http") -> Callable[[Placement], dict[str, str]]:
    return lambda placement: {"PORT": str(placement.listen[port])}


async def test_a_port_is_chosen_where_no_outgoing_connection_takes_it(stage: RunContext) -> None:
    ports = (Port(name="http"), Port(name="more"))
    async with stage.units(stage.python(SERVER, ports=ports, environment=_listen())) as (unit,):
        await unit.wait_ready(HttpProbe())
        numbers = [int(unit.endpoint(port.name).here.removeprefix("127.0.0.1:")) for port in ports]
        assert unit.endpoint().there == unit.endpoint().here
        first, last = _ephemeral()
        assert len(set(numbers)) == 2
        assert not any(first <= number <= last for number in numbers)


async def test_a_fixed_port_is_used_as_it_is(stage: RunContext) -> None:
    reservation = choose_port()
    number = reservation.number
    reservation.close()
    port = Port(name="extra", number=number, fixed=True)
    async with stage.units(stage.python(SERVER, ports=(port,), environment=_listen("extra"))) as (unit,):
        assert unit.endpoint("extra").here == f"127.0.0.1:{number}"
        await unit.wait_ready(HttpProbe(port="extra"))
        with pytest.raises(StartError, match=f"Port {number}.*another run") as caught:
            async with stage.units(stage.spec("true", name="second", ports=(port,))):
                pytest.fail("the port was given away twice")
        assert caught.value.code == "port_taken"


async def test_a_taken_port_names_who_has_it(stage: RunContext) -> None:
    reservation = choose_port()
    reservation.close()
    with socket.create_server(("127.0.0.1", reservation.number)):
        for port in (
            Port(name="extra", number=reservation.number, fixed=True),
            Port(name="extra", host_port=reservation.number),
        ):
            with pytest.raises(StartError) as caught:
                async with stage.units(stage.spec("true", ports=(port,))):
                    pytest.fail("the port was given away")
            assert caught.value.context["port"] == reservation.number
            assert f"{psutil.Process().name()} (pid {os.getpid()})" in caught.value.message


async def test_forbidden_port_is_reported(stage: RunContext, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_number: int) -> OSError:
        return PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    # As for anybody but root, who may be the one to run this
    monkeypatch.setattr(_port_reservations, "_bindable", refused)
    with pytest.raises(StartError, match="Permission denied") as caught:
        async with stage.units(stage.spec("true", ports=(Port(name="extra", number=81, fixed=True),))):
            pytest.fail("it was allowed")
    assert caught.value.code == "port_forbidden"


async def test_a_listener_anywhere_in_the_tree_counts(stage: RunContext) -> None:
    code = f"import os, subprocess, sys; subprocess.run([sys.executable, '-c', {SERVER!r}])"
    async with stage.units(stage.python(code, ports=(Port(name="http"),), environment=_listen())) as (unit,):
        assert await unit.wait_ready(HttpProbe()) > 0


async def test_a_listener_on_all_addresses_counts(stage: RunContext) -> None:
    for address in ("0.0.0.0", "::"):
        family = ", family=socket.AF_INET6, dualstack_ipv6=True" if ":" in address else ""
        code = SERVER.replace(
            '("127.0.0.1", int(os.environ["PORT"]))', f'("{address}", int(os.environ["PORT"])){family}'
        )
        async with stage.units(stage.python(code, ports=(Port(name="http"),), environment=_listen())) as (unit,):
            assert await unit.wait_ready(HttpProbe()) > 0


async def test_unit_ending_just_after_the_deadline_is_reported_as_ended(
    stage: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stage.units(stage.spec("sleep", "1000", ports=(Port(name="http"),))) as (unit,):
        read = unit.log_tail

        async def ends_meanwhile() -> str:
            tail = await read()
            await unit.stop(0)
            return tail

        monkeypatch.setattr(unit, "log_tail", ends_meanwhile)
        with pytest.raises(NotReadyError, match="before it answered") as caught:
            await unit.wait_ready(HttpProbe(timeout=0.1))
        assert unit.exit is not None
        assert caught.value.context["exit"] == unit.exit.model_dump(mode="json")


async def test_a_package_of_another_version_is_named_with_it(stage: RunContext) -> None:
    async with stage.units(stage.python("import pytest.of_tomorrow", ports=(Port(name="http"),))) as (unit,):
        with pytest.raises(NotReadyError) as caught:
            await unit.wait_ready(HttpProbe())
    assert f"has no pytest.of_tomorrow, but pytest {pytest.__version__}: install it" in (caught.value.hint or "")


async def test_program_that_listens_on_ipv6_alone_is_said_to(stage: RunContext) -> None:
    code = SERVER.replace('"127.0.0.1", int', '"::1", int').replace('PORT"]))', 'PORT"])), family=socket.AF_INET6')
    async with stage.units(stage.python(code, ports=(Port(name="http"),), environment=_listen())) as (unit,):
        with pytest.raises(NotReadyError, match=r"it listens on \[::1\]:[0-9]+ only") as caught:
            await unit.wait_ready(HttpProbe(timeout=2.0))
    assert "not on fixed ones" in (caught.value.hint or "")


async def test_program_with_a_port_of_its_own_is_said_to_listen_there(stage: RunContext, tmp_path: Path) -> None:
    place = tmp_path / "port"
    code = SERVER.replace('int(os.environ["PORT"])', "0").replace(
        "while True:", f"open({str(place)!r}, 'w').write(f'{{listener.getsockname()[1]}}\\n')\nwhile True:"
    )
    async with stage.units(stage.python(code, ports=(Port(name="http"),))) as (unit,):
        await until(lambda: place.exists() and place.read_text().endswith("\n"))
        with pytest.raises(NotReadyError) as caught:
            await unit.wait_ready(HttpProbe(timeout=0.5))
    assert str(caught.value.context["last"]).endswith(f"; it listens on 127.0.0.1:{place.read_text().strip()}")
    assert "not on fixed ones" in (caught.value.hint or "")


@pytest.mark.slow
async def test_last_probe_result_is_reported(stage: RunContext) -> None:
    wanted = {
        "import signal; signal.pause()": "connection refused",
        SERVER.replace("200 OK", "503 Busy"): "status 503",
        SERVER.replace("200 OK", "302 Found\\r\\nLocation: http://127.0.0.1:1/"): "status 302",
        SERVER.replace("HTTP/1.0 200 OK", "220 mail ready"): "an answer that is not HTTP",
        SERVER.replace('connection.sendall(b"HTTP', 'connection.close() or (b"HTTP'): "a closed connection",
        # The deadline ends the only try that was heard
        SERVER.replace("connection.recv", "import time; time.sleep"): "(connection refused, then )?no answer",
        # And here one after another that was answered
        SERVER.replace("200 OK", "503 Busy") + "    import signal; signal.pause()\n": "status 503, then no answer",
    }
    seen: dict[str, str] = {}

    async def note(code: str) -> None:
        spec = stage.python(code, ports=(Port(name="http"),), environment=_listen())
        async with stage.units(spec, grace=0) as (unit,):
            with pytest.raises(NotReadyError) as caught:
                await unit.wait_ready(HttpProbe(timeout=3.5))
            seen[code] = str(caught.value.context["last"])

    async with anyio.create_task_group() as tasks:
        for code in wanted:
            tasks.start_soon(note, code)
    for code, words in wanted.items():
        # On a busy machine the deadline may end any last try
        late = r" within \d\.\d s" if words.endswith("no answer") else r"(, then no answer within \d\.\d s)?"
        assert re.fullmatch(words + late, seen[code]), code


# --- ends -------------------------------------------------------------------------------------------------------


# What makes it hard to tell which processes there are, how they end, or that they have
ODD_ENDS = {
    "a status like a signal's": ("os._exit(137)", ("exited", 137, None)),
    "no streams": ("os.closerange(0, 3)", ("exited", 0, None)),
    "a signal to its group": ("os.kill(0, 9)", ("signal", None, 9)),
    "zombies": ("for _ in range(100):\n  os.fork() or os._exit(0)", ("exited", 0, None)),
    "a name like the rest of a line of /proc": (
        "open('/proc/self/comm', 'w').write(') Z 1 1 (\\n')\nos.fork() or time.sleep(600)",
        ("exited", 0, None),
    ),
    "a daemon that is another process in another session every few milliseconds": (
        "os.fork() and os._exit(0)\nwhile True:\n  os.fork() and os._exit(0)\n  os.setsid()\n  time.sleep(0.002)",
        ("exited", 0, None),
    ),
}


@pytest.mark.parametrize("how", ODD_ENDS)
async def test_odd_ends_are_seen_and_leave_nothing(stage: RunContext, how: str) -> None:
    code, end = ODD_ENDS[how]
    mark = new_mark()
    exit = await stage.run(stage.python(f"import os, time\n{code}", environment=_given(**{MARK: mark})))
    assert (exit.reason, exit.code, exit.signal) == end
    assert marked_processes(mark) == []


async def test_a_unit_that_stops_itself_is_killed_after_its_grace(stage: RunContext) -> None:
    async with stage.units(stage.python("import os; print('up'); os.kill(os.getpid(), 19)")) as (unit,):
        await until(lambda: psutil.Process(int(unit.id)).status() == psutil.STATUS_STOPPED)
        assert (await unit.stop(0.1)).reason == "stopped"


@pytest.mark.parametrize("where", ["alone", "in-a-child"])
async def test_limits_say_how_far_over(stage: RunContext, where: str) -> None:
    fork = "os.fork() and os.wait()\n" if where == "in-a-child" else ""
    code = f"import os, signal\n{fork}x = b'x' * (200 << 20)\nsignal.pause()"
    exit = await stage.run(stage.python(code, limits=Limits(memory_bytes=50 << 20)))
    assert (exit.reason, exit.signal) == ("oom", signal.SIGKILL)
    assert str(50 << 20) in exit.detail


@pytest.mark.slow
async def test_memory_that_children_share_is_counted_once(stage: RunContext) -> None:
    code = """
import os, time
shared = b"x" * (60 << 20)
for _ in range(5):
    if os.fork() == 0:
        time.sleep(1)
        os._exit(0)
for _ in range(5):
    os.wait()
"""
    assert (await stage.run(stage.python(code, limits=Limits(memory_bytes=150 << 20)))).ok


async def test_the_disk_limit_counts_temporary_files_too(stage: RunContext) -> None:
    directory = stage.scratch.directory("unit")
    code = """
import os, signal, tempfile
for _ in range(3):
    os.write(tempfile.mkstemp()[0], b"x" * 1000000)
signal.pause()
"""
    exit = await stage.run(stage.python(code, directory=directory, limits=Limits(disk_bytes=1 << 21)))
    assert exit.reason == "disk"
    assert list(directory.iterdir()) == []


HIDES = {
    "unlinked": """
for number in range(3):
    file = open(f"{place}/{number}", "wb", buffering=0)
    os.posix_fallocate(file.fileno(), 0, 1 << 20)
    os.unlink(file.name)
    kept.append(file)
""",
    "in-memory": """
for number in range(3):
    kept.append(os.memfd_create(f"hidden-{number}"))
    os.posix_fallocate(kept[-1], 0, 1 << 20)
""",
    "many": """
for number in range(300):
    os.mkdir(f"{place}/{number}")
""",
}


@pytest.mark.parametrize("how", HIDES)
async def test_hidden_files_count_against_the_disk_limit(stage: RunContext, how: str) -> None:
    directory = stage.scratch.directory("unit")
    code = f"import os, signal\nplace, kept = {str(directory)!r}, []\n{HIDES[how]}\nsignal.pause()"
    limits = Limits(disk_bytes=1 << 21, disk_entries=1000) if how != "many" else Limits(disk_entries=100)
    exit = await stage.run(stage.python(code, directory=directory, limits=limits))
    assert exit.reason == "disk"
    assert ("files and directories" in exit.detail) is (how == "many")


async def test_one_large_file_is_stopped_as_it_grows(stage: RunContext) -> None:
    directory = stage.scratch.directory("unit")
    spec = stage.spec(
        "sh", "-c", f"exec cat /dev/zero > {directory}/big", limits=Limits(disk_bytes=1 << 20), directory=directory
    )
    exit = await stage.run(spec)
    assert exit.reason == "disk"
    assert (directory / "big").stat().st_size == (1 << 20) + 1


# As a user who may have no more than this, so that the machine survives a backend that fails here
_FEW = """
if os.geteuid() == 0:
    os.setuid(65534)
resource.setrlimit(resource.RLIMIT_NPROC, (600, 600))
"""
BOMBS = {
    "threads": "for _ in range(60):\n  threading.Thread(target=signal.pause, daemon=True).start()\nsignal.pause()",
    "forks": f"{_FEW}\nwhile True:\n  with contextlib.suppress(OSError): os.fork()",
    "sessions": "for _ in range(7):\n  os.fork()\n  os.getpid() == os.getsid(0) or os.setsid()\nsignal.pause()",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", BOMBS)
async def test_a_bomb_is_ended(stage: RunContext, kind: str) -> None:
    code = f"import contextlib, os, resource, signal, threading\n{BOMBS[kind]}"
    exit = await stage.run(stage.python(code, limits=Limits(pids=50)))
    assert exit.reason == "pids"
    assert [item.kind for item in await stage.backend.find(stage.scratch.run_id)] == ["directory"]


_LEAVES_ALL_BEHIND = """
import os, signal, sys
shim = os.getppid()
read, write = os.pipe()
os.set_inheritable(write, True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sh", ["sh", "-c", f"echo daemon $$; echo >&{write}; exec sleep 1000"], {})
    os._exit(0)
os.wait()
os.read(read, 1)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="orphans go to the first process elsewhere")
@pytest.mark.parametrize(
    ("keepers", "numbers"), [("shim,", [9]), ("shim,", [19]), ("above, shim", [19, 9])], ids=["kill", "stop", "both"]
)
async def test_process_without_label_and_shim_is_found(stage: RunContext, keepers: str, numbers: list[int]) -> None:
    # Both at one stroke: stopped, neither notices that the other is killed
    code = f"""{_LEAVES_ALL_BEHIND}
above = int(open(f"/proc/{{shim}}/stat").read().rpartition(")")[2].split()[1])
assert above != {os.getpid()}
for number in {numbers}:
    for keeper in ({keepers}):
        os.kill(keeper, number)
signal.pause()
"""
    async with stage.units(stage.python(code)) as (unit,):
        await until(lambda: "daemon" in stage.log())
        daemon = int(stage.log().split()[-1])
        if 9 not in numbers:
            await unit.stop(0.1)
        assert (await unit.wait()).reason == ("lost" if 9 in numbers else "stopped")
        assert not psutil.pid_exists(daemon) or psutil.Process(daemon).status() == psutil.STATUS_ZOMBIE


async def test_terminated_shim_ends_its_process_tree(stage: RunContext) -> None:
    code = "import os, signal\nsignal.signal(15, signal.SIG_IGN)\nos.fork(); print('up'); signal.pause()"
    async with stage.units(stage.python(code)) as (unit,):
        await until(lambda: stage.log().count("up") == 2)
        os.kill(psutil.Process(int(unit.id)).ppid(), signal.SIGTERM)
        assert (await unit.wait()).reason == "signal"
        assert [item.kind for item in await stage.backend.find(stage.scratch.run_id)] == ["directory"]


async def test_a_unit_that_stops_its_shim_is_seen_to_end(stage: RunContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_process_units, "_AWAKE_SECONDS", 0.05)
    code = "import os, signal; os.kill(os.getppid(), signal.SIGSTOP); print('stopped')"
    exit = await stage.run(stage.python(code))
    assert (exit.reason, exit.code) == ("exited", 0)
    assert stage.log() == "stopped\n"


@pytest.mark.parametrize("grace", [0, 0.2])
async def test_a_unit_that_stops_its_shim_again_and_again_is_ended(
    stage: RunContext, grace: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_process_units, "SHIM_SECONDS", 0.2)
    code = """
import os, signal, time
shim = os.getppid()
print("up")
while True:
    os.kill(shim, signal.SIGSTOP)
    try:
        time.sleep(0.0001)
    except BaseException:
        pass
"""
    async with stage.units(stage.python(code)) as (unit,):
        await until(lambda: "up" in stage.log())
        exit = await unit.stop(grace)
        assert exit.reason == "stopped"
        assert [item.kind for item in await stage.backend.find(stage.scratch.run_id)] == ["directory"]
    assert [event for event in stage.events if isinstance(event, LeakFound)] == []


async def test_removal_failure_is_reported_without_hiding_the_bodys_error(
    stage: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_process_units, "remove_tree", lambda path, **_: f"{path} is in use")  # pyright: ignore
    with pytest.raises(RuntimeError, match="the body's"):
        async with stage.units(stage.spec("sleep", "1000")):
            raise RuntimeError("the body's")
    leaks = [event for event in stage.events if isinstance(event, LeakFound)]
    assert len(leaks) == 1
    assert "directory" in leaks[0].what
    assert "is in use" in leaks[0].reason


@pytest.mark.slow
async def test_unkillable_process_is_reported_without_blame(stage: RunContext, monkeypatch: pytest.MonkeyPatch) -> None:
    from coworld_runner.backends.process import _process_unit as _process_units

    monkeypatch.setattr(_process_units.ProcessUnit, "kill_seconds", 0.3)
    async with stage.units(stage.spec("sleep", "1000"), grace=0) as (unit,):
        (shim,) = (above for above in psutil.Process(int(unit.id)).parents() if above.ppid() == os.getpid())
        # Nothing ends it, like a process that hangs in the kernel
        shim.suspend()
        monkeypatch.setattr(_process_units, "send_signal", lambda pid, number: None)
    leaks = [event for event in stage.events if isinstance(event, LeakFound)]
    assert [leak.what for leak in leaks] == [f"process {unit.id} (unit)"]
    shim.resume()
    with anyio.fail_after(DEADLINE):
        await until(lambda: not shim.is_running() or shim.status() == psutil.STATUS_ZOMBIE)
    os.waitpid(shim.pid, 0)  # noqa: ASYNC222 - it is a zombie


# --- logs -------------------------------------------------------------------------------------------------------


async def test_log_on_a_full_disk_is_a_warning(stage: RunContext) -> None:
    exit = await stage.run(stage.python("print('x' * 1000000)", stdout=Path("/dev/full")))
    assert exit.ok
    notices = [event.message for event in stage.events if isinstance(event, Notice)]
    assert notices == [f"/dev/full is not complete: {os.strerror(errno.ENOSPC)}."]


@pytest.mark.slow
async def test_many_runs_of_units_leave_no_descriptor_and_no_thread(stage: RunContext) -> None:
    import threading

    async def once() -> None:
        spec = stage.python(SERVER, ports=(Port(name="http"),), environment=_listen(), directory=stage.context)
        async with stage.units(spec) as (unit,), unit.written():
            await unit.wait_ready(HttpProbe())

    await once()
    process = psutil.Process()
    before = process.num_fds(), threading.active_count()
    for _ in range(3):
        await once()
    assert (process.num_fds(), threading.active_count()) == before
