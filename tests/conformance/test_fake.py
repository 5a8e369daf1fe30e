"""The whole backend contract on the fake backend."""

from __future__ import annotations

from coworld_runner.backend import Backend, UnitSpec
from coworld_runner.testing import BackendConformance, FakeBackend


class TestFake(BackendConformance):
    ready_timeout = 0.5

    def make_backend(self) -> Backend:
        return FakeBackend(executables={"python"})

    def subject_spec(self, run_id: str, name: str, *steps: str) -> UnitSpec:
        return UnitSpec(run_id=run_id, name=name, component="player", image="subject", argv=("python", *steps))
