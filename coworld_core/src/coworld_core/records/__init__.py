"""What was played and kept: labels of runs, what a search asks for, and what it finds.

Values and rules only; what looks through directories lives in the runner.
"""

from ..lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
