"""What backends are built on: the steps of a unit in their order, and all of them at once."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import TaskGroup

from coworld_core.episode.events import BaseEvent, LeakFound, UnitCreated, UnitExited, UnitStarted
from coworld_core.episode.outcome import Exit
from coworld_core.errors import BackendError, StartError
from coworld_core.ids import new_run_id
from coworld_runner.backend import Capabilities, Endpoint, Found, ImageInfo, Publish, UnitSpec
from coworld_runner.backends.base import BaseBackend, BaseUnit
from coworld_runner.backends.registry import ClusterOptions
from coworld_runner.doctor import leftovers
from coworld_runner.runs.reaper import sweep
from coworld_runner.runs.scratch import find_scratch, make_scratch

RUN = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


class Noting(BaseUnit):
    """A unit that notes its steps, and fails or hangs in the one that it is named after."""

    kill_seconds = 0.05

    def __init__(self, spec: UnitSpec, *, backend: Paper, publish: Publish) -> None:
        super().__init__(spec, backend=backend, publish=publish)
        self.steps: list[str] = []
        backend.all.append(self)

    @property
    def id(self) -> str:
        return f"paper-{self.name}"

    def endpoint(self, port: str = "http") -> Endpoint:
        raise KeyError(port)

    async def _step(self, name: str) -> None:
        self.steps.append(name)
        await anyio.lowlevel.checkpoint()
        if self.name == f"fails-to-{name}":
            raise (BackendError if name == "remove" else StartError)(f"It does not {name}.")
        if self.name == f"hangs-at-{name}":
            await anyio.sleep_forever()

    async def make(self) -> None:
        await self._step("make")

    async def launch(self) -> None:
        await self._step("launch")

    async def discard(self) -> None:
        await self._step("discard")

    async def terminate(self, grace: float) -> None:
        await self._step("terminate")
        if self.name == "polite":
            self.finish(Exit(reason="stopped", code=0))

    async def kill(self) -> None:
        await self._step("kill")
        if self.name != "undead":
            self.finish(Exit(reason="stopped", signal=9))

    async def remove(self) -> None:
        await self._step("remove")

    def stop_watching(self) -> None:
        self.steps.append("stop_watching")


class Paper(BaseBackend):
    """A backend on which nothing runs."""

    name = "paper"
    remove_seconds = 0.2

    def __init__(self, *, remote: bool = False) -> None:
        self._remote = remote
        self.all: list[Noting] = []
        self.events: list[BaseEvent] = []

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            images=False,
            network_isolation=False,
            file_isolation=False,
            memory_limit=False,
            cpu_limit=False,
            pids_limit=False,
            disk_limit=False,
            remote=self._remote,
        )

    async def ensure_image(
        self, image: str, *, platform: str | None = None, publish: Publish | None = None
    ) -> ImageInfo:
        return ImageInfo(image=image)

    def unit(self, spec: UnitSpec, *, publish: Publish, tasks: TaskGroup) -> Noting:
        return Noting(spec, backend=self, publish=publish)

    async def find_units(self, run_id: str | None) -> Sequence[Found]:
        return [
            Found(kind="process", id=unit.id, name=unit.name, run_id=RUN, alive=unit.name == "alive")
            for unit in self.all
            if not unit.removed
        ]

    async def remove_found(self, found: Found) -> str:
        return "it is nailed down" if found.name == "nailed" else ""

    async def run(self, *names: str, start: bool = True, body: Callable[[], None] = lambda: None) -> list[list[str]]:
        """Units of these names; returns the steps of each."""
        specs = [UnitSpec(run_id=RUN, name=name, component="player", image="paper") for name in names]
        with anyio.fail_after(30):
            async with self.units(specs, publish=self.events.append, start=start, grace=0.05):
                body()
        return [unit.steps for unit in self.all]

    def units_of(self, kind: type[BaseEvent]) -> list[str]:
        return [getattr(event, "unit", "") for event in self.events if isinstance(event, kind)]


WHOLE = ["make", "launch", "terminate", "kill", "remove"]


class Unfinished(BaseUnit):
    """A unit that does not say how it is started and stopped."""


def test_a_unit_says_how_it_is_started_and_stopped() -> None:
    spec = UnitSpec(run_id=RUN, name="one", component="player", image="paper")
    with pytest.raises(TypeError, match=r"kill.*launch.*terminate"):
        Unfinished(spec, backend=Paper(), publish=print)  # type: ignore[abstract]


class Shares(Paper):
    """A backend whose units share something."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []

    @asynccontextmanager
    async def group(
        self, specs: Sequence[UnitSpec], *, publish: Publish, tasks: TaskGroup
    ) -> AsyncGenerator[Sequence[BaseUnit], None]:
        self.steps.append("given")
        try:
            yield [Noting(spec, backend=self, publish=publish) for spec in specs]
        finally:
            self.steps.append(f"taken after {[unit.steps[-1] for unit in self.all]}")


async def test_shared_resources_outlive_the_units() -> None:
    shares = Shares()
    with pytest.raises(StartError, match="does not make"):
        await shares.run("one", "fails-to-make")
    assert shares.steps == ["given", "taken after ['remove', 'remove']"]


async def test_without_units_there_is_nothing_to_share() -> None:
    shares = Shares()
    assert await shares.run() == []
    assert shares.steps == []


async def test_a_unit_goes_through_its_steps() -> None:
    paper = Paper()
    assert await paper.run("polite", "stubborn") == [["make", "launch", "terminate", "remove"], WHOLE]
    assert [unit.exit and unit.exit.reason for unit in paper.all] == ["stopped", "stopped"]
    assert paper.units_of(UnitExited) == ["polite", "stubborn"]


async def test_unstarted_unit_is_discarded_without_an_exit_event() -> None:
    paper = Paper()
    assert await paper.run("one", start=False) == [["make", "discard", "remove"]]
    assert paper.all[0].exit == Exit(reason="stopped", detail="it was never started")
    assert paper.units_of(UnitCreated) == ["one"]
    assert paper.units_of(UnitStarted) == paper.units_of(UnitExited) == []
    with pytest.raises(StartError, match="before it was started"):
        await paper.all[0].start()


async def test_nothing_runs_before_all_could_be_made() -> None:
    paper = Paper()
    with pytest.raises(StartError, match="does not make"):
        await paper.run("one", "fails-to-make")
    assert [unit.steps for unit in paper.all] == [["make", "discard", "remove"]] * 2
    assert all(unit.removed for unit in paper.all)


async def test_a_start_that_failed_is_not_tried_again() -> None:
    paper = Paper()
    with pytest.raises(StartError, match="does not launch"):
        await paper.run("fails-to-launch", "one")
    failed, one = paper.all
    assert failed.steps == ["make", "launch", "discard", "remove"]
    assert one.steps == WHOLE
    with pytest.raises(StartError, match="does not launch"):
        await failed.start()


async def test_unkillable_unit_is_lost_and_removed() -> None:
    paper = Paper()
    assert await paper.run("undead") == [WHOLE]
    exit = paper.all[0].exit
    assert exit is not None
    assert (exit.reason, exit.detail) == ("lost", "it was still there 0.05 s after it was killed")
    assert paper.units_of(LeakFound) == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("fails-to-remove", "It does not remove."),
        ("hangs-at-remove", "it was not removed within 0.25 s"),
        ("hangs-at-kill", "it was not removed within 0.25 s"),
    ],
)
async def test_removal_failure_is_a_leak_and_hides_no_error(name: str, reason: str) -> None:
    paper = Paper()

    def fail() -> None:
        raise RuntimeError("the body's own")

    with pytest.raises(RuntimeError, match="the body's own"):
        await paper.run(name, "one", body=fail)
    bad, one = paper.all
    assert [(event.what, event.reason) for event in paper.events if isinstance(event, LeakFound)] == [
        (f"{name} (paper-{name})", reason)
    ]
    assert bad.steps[-1] == "stop_watching"
    assert bad.exit is not None
    assert one.steps == WHOLE


async def test_leak_names_the_platforms_trouble(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paper = Paper()
    monkeypatch.setattr(paper, "trouble", lambda: "nobody answers")
    await paper.run("hangs-at-remove")
    assert [event.reason for event in paper.events if isinstance(event, LeakFound)] == ["nobody answers"]


def left_on(paper: Paper, *names: str) -> None:
    for name in names:
        Noting(UnitSpec(run_id=RUN, name=name, component="player", image="paper"), backend=paper, publish=print)


async def test_item_seen_by_two_backends_is_found_once() -> None:
    paper = Paper()
    left_on(paper, "dead", "nailed")
    swept = await sweep([paper, paper], run_id=RUN)
    assert [item.name for item in swept.found] == ["dead", "nailed"]


async def test_what_killed_runs_left_here_is_not_that_of_backends_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    here, cluster = new_run_id(), Paper(remote=True)
    for run_id in (here, RUN):
        os.close(make_scratch(run_id).lock)
    left_on(cluster, "dead")
    swept = await sweep([cluster], apply=True)
    assert [(item.found.run_id, item.removed) for item in swept.reaped] == [(RUN, True), (RUN, True)]
    nowhere = ClusterOptions(kubeconfig=tmp_path / "none")
    looked = await leftovers(backends=["kubernetes"], cluster=nowhere, apply=True)
    assert (looked.found, looked.reaped, len(looked.unavailable)) == ((), (), 1)
    assert [item.run_id for item in find_scratch()] == [here]
    for backends, named in (([cluster], here), ([cluster, Paper()], None)):
        found = (await sweep(backends, run_id=named)).found
        assert [item.run_id for item in found if item.kind == "directory"] == [here]


async def test_found_things_of_the_living_are_left_alone() -> None:
    paper = Paper()
    left_on(paper, "alive", "dead", "nailed")
    found = await paper.find(RUN)
    assert [(item.removed, item.reason) for item in await paper.reap(found)] == [
        (False, "its runner is still running"),
        (True, ""),
        (False, "it is nailed down"),
    ]
    assert [item.removed for item in await paper.reap(found, force=True)] == [True, True, False]
