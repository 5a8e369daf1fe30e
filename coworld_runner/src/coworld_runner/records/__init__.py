"""What was played here: an index over the workspaces, to search, query, label, remove and export runs.

The folders are the truth: the index follows them, and can be deleted at any time.
"""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
