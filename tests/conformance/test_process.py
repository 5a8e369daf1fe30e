"""The whole backend contract on local processes."""

from __future__ import annotations

from coworld_runner.backend import Backend, UnitSpec
from coworld_runner.backends import ProcessBackend
from coworld_runner.testing import BackendConformance
from coworld_runner.testing.conformance import SUBJECT


class TestProcess(BackendConformance):
    def make_backend(self) -> Backend:
        return ProcessBackend(contexts={"subject": SUBJECT.parent})

    def subject_spec(self, run_id: str, name: str, *steps: str) -> UnitSpec:
        argv = ("python", str(SUBJECT), *steps)
        return UnitSpec(run_id=run_id, name=name, component="player", image="subject", argv=argv)
