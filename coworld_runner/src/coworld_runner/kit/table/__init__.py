"""The game table: one game between seats, without I/O and without a clock of its own.

It alone knows refusals, clocks, talk, replays and samples. A served game feeds it from sockets, worker processes from
pipes, rollouts from calls. Nothing here opens a socket, starts a process or reads a clock.
"""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
