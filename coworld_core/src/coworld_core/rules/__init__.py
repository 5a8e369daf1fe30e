"""A game as rules: which actions are legal, what they do, and who has won.

This package contains `Rules`, the play of one episode, schemas generated from types, replays and the audit. Apart from
the audit, which measures time, it uses no sockets, clocks, files or threads: the runner serves games, and the client
plays in them.
"""

from ..lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
