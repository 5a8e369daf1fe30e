"""Suites: named sets of variants and line-ups in a file, each measured as a mixture, with one report over all.

Nothing here measures: `mixture` does, in a directory of its own for each line-up, and `suite_report` of core adds up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .suite_run import SuiteSettings as SuiteSettings
    from .suite_run import play_suite as play_suite
    from .suite_run import read_suite as read_suite
    from .suite_run import read_suite_settings as read_suite_settings
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".suite_run": ("SuiteSettings", "play_suite", "read_suite", "read_suite_settings"),
        },
    )
