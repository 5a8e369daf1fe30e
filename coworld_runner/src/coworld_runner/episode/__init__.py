"""One episode, the same on every backend.

prepare → start game → ready → (check the contract while the players start) → play → game over → bounded grace for the
players → collect → validate → record.

One deadline covers the whole episode. Everything is event-driven: an exit is seen when it happens, and a fault is
recorded when and where it is seen. `episode.json` is written on every path, failure and interruption included.

The modules: the state (`episode_ledger`), the assignment of faults (`blame`: a table and a pure function), the watchers
during play (`episode_watch`), the collection of files (`artifact_collector`), the sequence (`flow`), and the final
`episode_record`. `single` plays one episode, and `many` drives every run of many, each with its `episode_rows`; both
take the keyword arguments of `run_options`. Nothing here depends on a particular backend, platform or display.
"""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
