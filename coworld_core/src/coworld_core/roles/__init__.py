"""What programs that look at episodes afterwards get, and what they say: bundles, grades, reports, diagnoses.

Nothing here runs such a program; `coworld_runner.roles` does.
"""

from ..lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
