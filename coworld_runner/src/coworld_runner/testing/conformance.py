"""The backend contract as checks: subclass :class:`BackendConformance` for each backend and let pytest run it.

::

    class TestMine(BackendConformance):
        def make_backend(self) -> Backend:
            return MyBackend(...)

        def subject_spec(self, run_id: str, name: str, *steps: str) -> UnitSpec:
            return UnitSpec(run_id=run_id, name=name, component="player", image=..., argv=("python", SUBJECT, *steps))

The checks are coroutines; with pytest-asyncio in its automatic mode they need nothing else. Checks of capabilities that
a backend does not claim are expected failures, and it must refuse specs that ask for them. No check measures time: each
waits for what must happen, within `deadline`.
"""

from __future__ import annotations

from ._conformance_arena import SUBJECT, Arena, subject_environment
from ._creation_checks import MakingChecks
from ._isolation_checks import SharingChecks
from ._output_checks import OutputChecks
from ._stop_checks import StoppingChecks

__all__ = ["SUBJECT", "Arena", "BackendConformance", "subject_environment"]


class BackendConformance(MakingChecks, OutputChecks, StoppingChecks, SharingChecks):
    """The contract of `coworld_runner.backend` as checks. Subclasses define `make_backend` and `subject_spec`."""
