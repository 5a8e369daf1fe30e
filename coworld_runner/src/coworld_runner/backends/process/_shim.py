"""The parent of every local unit: a small process that owns the unit's whole process tree and dies with the runner.

It runs in a bare interpreter without site packages, so it imports little, and only from the standard library: each unit
pays for every millisecond here. Its environment is the unit's.

The **control** descriptor is one end of a socket pair. The runner sends single bytes: `G` (run the command; the shim
waits for this, so that starting is quick), `T` (ask the tree to end), `K` (kill it). When the other end closes, the
runner is gone, however it died, and the tree is killed. Unlike a parent-death signal, this does not depend on which
thread started us. The shim sends lines to the runner:

* `S <pid>`: the command runs;
* `F <errno> <what>`: it could not be started, because of `what` (`directory` or `program`);
* `E <wait status> <reason> <detail>`: it ended; `reason` is `-` (by itself), `stopped`, `oom`, `pids` or
  `disk`;

and closes the stream once the whole tree is gone. The shim is the subreaper of its descendants, so children that left
their session, or whose parents are gone, are still found and counted, whatever their environment.

On Linux there are two such processes. The first only guards the second, which is the unit's parent: it continues the
second if the unit stops it, and if the unit kills it, the first kills the unit's tree. If the first is killed, the
second ends the unit. If a unit kills both at once, what remains is found through its control group, where one is
available: the first joins it before anything else runs, and leaves it last.
"""

from __future__ import annotations

import errno
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Collection
else:
    # `signal` builds its names with enum, whose import takes longer than everything else together
    try:
        import _signal as signal
    except ImportError:
        import signal

if TYPE_CHECKING or __package__:
    from ..collector.disk_usage import FreeRoom, disk_usage, too_much
else:
    from collector.disk_usage import FreeRoom, disk_usage, too_much

__all__ = ["descendants", "keep_together", "kill_descendants", "kill_group", "main"]

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_TAKEN = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
"""Signals that this program handles itself."""
_LINUX = sys.platform == "linux"

_TICK = 0.1
"""Seconds between two checks of memory and processes."""
_DISK_TICK = 0.25
"""Seconds between two checks of the disk, unless a check itself takes long."""
_DISK_SHARE = 10
"""Checks of the disk may take at most one part in this many of the time."""
_GUARD_TICK = 1.0
"""Seconds between two checks that the runner is alive, besides the end of its socket."""


def descendants(root: int, most: int = 0, spare: Collection[int] = ()) -> dict[int, int]:
    """Every descendant of a process, with its number of threads; empty if the platform does not list them.

    Args:
        root: The process.
        most: Stop once more processes than this have been found; 0: never stop.
        spare: Processes that are left out, with their own descendants.
    """
    found: dict[int, int] = {}
    pending = [root]
    while pending and (not most or len(found) <= most):
        parent = pending.pop()
        try:
            threads = os.listdir(f"/proc/{parent}/task")  # noqa: PTH208
        except OSError:
            threads = []
        if parent != root:
            found[parent] = max(1, len(threads))
        for thread in threads:
            try:
                with open(f"/proc/{parent}/task/{thread}/children", "rb") as file:  # noqa: PTH123
                    children = file.read().split()
            except OSError:
                continue
            pending.extend(pid for pid in map(int, children) if pid not in found and pid not in spare)
    return found


def _resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _proportional(pid: int) -> int:
    """Resident bytes, with shared memory counted by share. Slow, so used only when the plain sum is too large."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:  # noqa: PTH123
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return _resident(pid)


class _Tree:
    """The command and all its descendants."""

    def __init__(self, memory: int, pids: int, disk: int, entries: int, files: int, directories: list[str]) -> None:
        self.memory = memory
        self.pids = pids
        self.disk = disk
        self.entries = entries
        self.files = files
        self.directories = directories
        self.main = 0
        self.status: int | None = None
        self.reason = "-"
        self.detail = ""
        self._disk_due = self._disk_spared = 0.0
        self._room = FreeRoom(directories, disk or None, entries or None)
        self.prctl = _prctl()

    # -- starting

    def start(
        self, argv: list[str], context: str, own: Collection[int], serve: Callable[[], int] | None
    ) -> tuple[int, str]:
        """Start the command. Returns errno and what failed, or 0.

        Args:
            argv: The command.
            context: Where it runs.
            own: Open files of the shim, which no other program may have.
            serve: What runs instead of the command, in a copy of this process, and returns its exit code.
        """
        read, write = os.pipe()
        me = os.getpid()
        prctl = self.prctl
        if prctl is not None:
            prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.main = os.fork()
        if self.main == 0:
            what = "program"
            try:
                if prctl is not None:
                    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
                    if os.getppid() != me:
                        os._exit(1)
                os.setsid()
                # Signals that the shim handles, that Python ignores, or that a shell makes background jobs ignore
                for number in (*_TAKEN, signal.SIGQUIT, signal.SIGPIPE):
                    signal.signal(number, signal.SIG_DFL)
                if hasattr(signal, "SIGXFSZ"):
                    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
                self._limit()
                what = "directory"
                os.chdir(context)
                what = "program"
                if serve is not None:
                    signal.set_wakeup_fd(-1)
                    # The first says that it runs, and the others would not end with the shim
                    for file in (write, read, *own):
                        os.close(file)
                    os._exit(_code_of(serve))
                os.execvpe(argv[0], argv, os.environ)  # noqa: S606
            except OSError as error:
                number = error.errno
                if number == errno.EACCES and what == "program" and not _on_path(argv[0]):
                    number = errno.ENOENT  # EACCES is about a directory in PATH, not about the program
                os.write(write, f"{number} {what}".encode())
            except BaseException:  # noqa: BLE001
                # Control must never return from here into the parent's code
                os.write(write, f"{errno.EINVAL} {what}".encode())
            finally:
                os._exit(127)
        os.close(write)
        with open(read, "rb") as file:  # noqa: PTH123
            number, _, what = file.read().decode().partition(" ")
        if not number and not what:
            return 0, ""
        os.waitpid(self.main, 0)
        return int(number), what

    def _limit(self) -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if self.files:
            _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (self.files, hard))
        if self.disk:
            # One byte more than allowed, so that a unit that hits this limit is also reported as over it
            most = self.disk + 1
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            if hard == resource.RLIM_INFINITY or hard > most:
                resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    # -- watching

    def over_limit(self) -> bool:
        """Whether the tree exceeds one of its limits; records which one."""
        if self.memory or self.pids:
            processes = descendants(os.getpid(), self.pids)
            tasks = sum(processes.values())
            if self.pids and tasks > self.pids:
                self.reason, self.detail = "pids", f"{tasks} processes and threads or more, {self.pids} allowed"
                return True
            if self.memory and sum(map(_resident, processes)) > self.memory:
                used = sum(map(_proportional, processes))
                if used > self.memory:
                    self.reason, self.detail = "oom", f"{used} bytes of memory, {self.memory} allowed"
                    return True
        now = time.monotonic()
        return (now >= self._disk_due or (now >= self._disk_spared and self._room.fell())) and self.over_disk()

    def over_disk(self) -> bool:
        """Whether the tree's directories exceed the disk limit."""
        if not self.disk and not self.entries:
            return False
        began = time.monotonic()
        self._room.note()
        used = disk_usage(
            self.directories,
            most_bytes=self.disk or float("inf"),
            most_entries=self.entries or float("inf"),
            processes=descendants(os.getpid(), self.pids),
        )
        now = time.monotonic()
        self._disk_spared = now + (now - began) * _DISK_SHARE
        self._disk_due = max(now + _DISK_TICK, self._disk_spared)
        over = too_much(used, self.disk or None, self.entries or None)
        if over:
            self.reason, self.detail = "disk", over
        return bool(over)

    # -- ending

    def reap(self) -> bool:
        """Reap ended processes. Returns whether any process is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.main:
                self.status = status

    def signal(self, number: int) -> None:
        """Send a signal to everything in the tree."""
        pids = list(descendants(os.getpid()))
        if not pids and self.status is None:
            # The platform does not list processes: only the command's own group is known
            try:
                os.killpg(self.main, number)
            except OSError:
                _kill(self.main, number)
        for pid in pids:
            _kill(pid, number)

    def kill(self) -> None:
        """Kill everything, and return once nothing is left."""
        pause = 0.0005
        self._kill_groups()
        # Polling is fine here: this process has nothing else to do, and no event reports an empty group
        while self.reap():
            time.sleep(pause)
            pause = min(0.05, pause * 2)
            self._kill_groups()

    def _kill_groups(self) -> None:
        if self.status is None or not _LINUX:
            kill_group(self.main)
        kill_descendants(os.getpid())


def kill_descendants(root: int, spare: Collection[int] = ()) -> None:
    """Kill every process group that has a member among the descendants of a process.

    All members of a group die at once, so a fork bomb does not outrun this. Processes that keep opening new groups
    are stopped first, since a stopped process opens no more.

    Args:
        root: The process.
        spare: Processes that are left alone, with their own descendants.
    """
    stopped: dict[int, int] = {}
    for _ in range(100):
        new = [pid for pid in descendants(root, len(stopped) + 200, spare) if pid not in stopped]
        if not new:
            break
        for pid in new:
            try:
                stopped[pid] = os.getpgid(pid)
            except OSError:
                stopped[pid] = 0
        for group in {stopped[pid] for pid in new}:
            kill_group(group)
        for pid in new:
            _kill(pid, signal.SIGSTOP)
    for pid in stopped:
        _kill(pid, signal.SIGKILL)


def keep_together() -> None:
    """Have the kernel end this process with its parent, and make it the parent of its orphaned descendants.

    Only Linux can.
    """
    prctl = _prctl()
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _code_of(serve: Callable[[], int]) -> int:
    """The exit code of what is served, as the interpreter would make it."""
    try:
        return serve()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1 if ended.code else 0
    except BaseException as error:  # noqa: BLE001
        sys.excepthook(type(error), error, error.__traceback__)
        return 1


def _on_path(program: str) -> bool:
    if "/" in program:
        return True
    return any(os.path.lexists(os.path.join(place, program)) for place in os.get_exec_path())  # noqa: PTH118


def kill_group(group: int) -> None:
    """Kill a process group, unless it is that of this process."""
    if group > 1 and group != os.getpgrp():
        try:
            os.killpg(group, signal.SIGKILL)
        except OSError as error:
            if error.errno not in {errno.ESRCH, errno.EPERM}:
                raise


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError as error:
        if error.errno not in {errno.ESRCH, errno.EPERM}:
            raise


def _prctl():
    """The `prctl` function, if the platform has it."""
    if not _LINUX:
        return None
    import ctypes

    return ctypes.CDLL(None).prctl


def _guarded(tree: _Tree) -> bool:
    """On Linux, fork and guard the child.

    Returns:
        True in the process that goes on as the shim; False in its guard, once the whole tree is gone.
    """
    prctl = tree.prctl
    if prctl is None:
        return True
    runner = os.getppid()
    me = os.getpid()
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    shim = os.fork()
    if not shim:
        prctl(_PR_SET_PDEATHSIG, signal.SIGHUP, 0, 0, 0)
        if os.getppid() != me:
            os._exit(1)
        return True
    signal.pthread_sigmask(signal.SIG_BLOCK, _TAKEN)
    while True:
        ended, status = os.waitpid(shim, os.WNOHANG | os.WUNTRACED)
        if ended and not os.WIFSTOPPED(status):
            break
        if ended:
            _kill(shim, signal.SIGCONT)
        heard = signal.sigtimedwait(_TAKEN, _GUARD_TICK)
        if os.getppid() != runner:
            _kill(shim, signal.SIGTERM)
        elif heard is not None and heard.si_signo != signal.SIGCHLD:
            _kill(shim, heard.si_signo)
    # The child's descendants are ours now
    tree.status = status
    tree.kill()
    return False


def _join(group: str) -> bool:
    """Create a control group and join it. Returns whether that worked."""
    try:
        os.mkdir(group)  # noqa: PTH102
        _enter(group)
    except OSError:
        return False
    return True


def _leave(group: str) -> None:
    """Return to the previous control group, and remove this one unless a process is left in it."""
    try:
        _enter(os.path.dirname(group))  # noqa: PTH120
        os.rmdir(group)  # noqa: PTH106
    except OSError:
        return


def _enter(group: str) -> None:
    with open(f"{group}/cgroup.procs", "w") as file:  # noqa: PTH123
        file.write("0")


def _noted(_number: int, _frame: object) -> None:
    """Do nothing: the signal's number is already in the wake-up pipe, and the loop handles it."""


def main(arguments: list[str], serve: Callable[[], int] | None = None) -> None:
    """Run a command until it ends, is stopped, exceeds a limit, or the runner is gone.

    Args:
        arguments: Control descriptor, memory, pids, disk, files and directories (0: no limit), open files (0: as many
            as we may have), the control group to create (or nothing), the directory to run in, the number of
            directories that count as the unit's, those directories, and the command.
        serve: What runs instead of the command, in a copy of this process, and returns its exit code.
    """
    control, memory, pids, disk, entries, files = map(int, arguments[:6])
    group, context = arguments[6:8]
    count = int(arguments[8])
    tree = _Tree(memory, pids, disk, entries, files, arguments[9 : 9 + count])
    argv = arguments[9 + count :]
    os.set_inheritable(control, False)
    joined = bool(group) and _join(group)
    if not _guarded(tree):
        if joined:
            _leave(group)
        return
    runner = os.getppid()

    orders = os.read(control, 64)
    if not orders.startswith(b"G"):
        return

    wake, woken = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    for number in _TAKEN:
        signal.signal(number, _noted)

    def tell(line: str) -> None:
        try:
            os.write(control, (line + "\n").encode())
        except OSError:
            return  # The runner is gone, which the next read reports too

    failed, what = tree.start(argv, context, (control, wake, woken), serve)
    if failed:
        tell(f"F {failed} {what}")
        return
    tell(f"S {tree.main}")

    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(wake, select.POLLIN)
    tick = _TICK if memory or pids else _DISK_TICK if disk or entries else 1.0
    due = time.monotonic() + tick
    killed = False
    try:
        while tree.status is None:
            if os.getppid() != runner:
                # The runner is gone, so there is nothing to report the end to
                return
            if b"K" in orders:
                tree.reason = "stopped"
                killed = True
            elif b"T" in orders:
                tree.reason = "stopped"
                tree.signal(signal.SIGTERM)
            if time.monotonic() >= due:
                due = time.monotonic() + tick
                killed = killed or tree.over_limit()
            if killed:
                tree.kill()
                break
            ready = {descriptor for descriptor, _ in poll.poll(max(0.0, due - time.monotonic()) * 1000)}
            orders = b""
            if control in ready:
                try:
                    orders = os.read(control, 64) or b"K"
                except OSError:
                    orders = b"K"
            if wake in ready:
                numbers = os.read(wake, 256)
                if any(number != signal.SIGCHLD for number in numbers):
                    killed = True
            # Before obeying any order: a process that ended by itself was not stopped
            tree.reap()
        if tree.reason == "-":
            # The limit may have been exceeded between two checks
            tree.over_disk()
        tell(f"E {tree.status} {tree.reason} {tree.detail}")
    finally:
        tree.kill()
