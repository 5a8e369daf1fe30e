"""Suites: named sets of variants and line-ups in a file, each measured as a mixture, with one report over all.

Nothing here measures: `mixture` does, in a directory of its own for each line-up, and `suite_report` of core adds up.
"""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
