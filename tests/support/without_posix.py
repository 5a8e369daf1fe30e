"""Runs the command line without what native Windows lacks: `python without_posix.py WORD…`.

Modules, functions and constants of POSIX are taken away before anything of ours is imported. Libraries that have a
build of their own for Windows are imported before that, in the one for this system.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import socket
import sys
from functools import partial
from typing import Any

MODULES = ("crypt", "fcntl", "grp", "nis", "posix", "pty", "pwd", "resource", "spwd", "syslog", "termios", "tty")
# The standard library's own use of them, and libraries that on Windows use other modules
BEFORE = ("asyncio.unix_events", "click", "filelock", "pathlib", "psutil", "shutil", "subprocess", "tempfile")
ATTRIBUTES = {
    os: """chown fchown fork forkpty geteuid getegid getgid getgroups getpgid getpgrp getsid getuid killpg lchown
        mkfifo mknod nice openpty posix_spawn pread preadv pwrite readv sched_getaffinity setgid setpgid setsid setuid
        sysconf wait3 wait4 waitid writev O_CLOEXEC O_DIRECTORY O_NOCTTY O_NOFOLLOW O_NONBLOCK O_SYNC WNOHANG""",
    signal: """SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGTSTP SIGUSR1 SIGUSR2 SIGWINCH""",
    socket: "AF_UNIX",
}


def take_away() -> None:
    for name in BEFORE:
        importlib.import_module(name)
    gone: dict[str, Any] = sys.modules
    gone.update(dict.fromkeys(MODULES))
    # It looks for the system as it is imported, and would lock a file by POSIX
    files: Any = importlib.import_module("filelock")
    files.FileLock = files.SoftFileLock
    # Event loops wake themselves by a pair of sockets, which Windows makes in another way
    socket.socketpair = partial(socket.socketpair, socket.AF_UNIX)
    for place, names in ATTRIBUTES.items():
        for name in names.split():
            if hasattr(place, name):
                delattr(place, name)
    loop: Any = asyncio.SelectorEventLoop
    # What the base class does, as on Windows: NotImplementedError
    del loop.add_signal_handler, loop.remove_signal_handler


if __name__ == "__main__":
    take_away()
    from coworld_cli.main import main

    sys.argv[0] = "coworld"
    sys.exit(main())
