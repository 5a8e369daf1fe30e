"""What the doctor sees on good and on bad machines."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from coworld_core.ids import new_run_id
from coworld_core.issues import Issue
from coworld_runner.backend import Found
from coworld_runner.backends.process.process_backend import ProcessBackend
from coworld_runner.doctor import Check, Machine, check_machine, leftovers, machine_versions
from coworld_runner.runs.scratch import scratch_root
from coworld_runner.testing import private_scratch

pytestmark = pytest.mark.more

NO_ENGINE = "unix:///nowhere/docker.sock"


@pytest.fixture
def own_temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """No runs but those of this test: processes of all are found, and other tests may just have killed their runner."""
    find = ProcessBackend.find_units

    async def find_own(self: ProcessBackend, run_id: str | None) -> Sequence[Found]:
        return [item for item in await find(self, run_id) if (scratch_root() / item.run_id).exists()]

    monkeypatch.setattr(ProcessBackend, "find_units", find_own)
    with private_scratch(tmp_path):
        yield


def by_name(machine: Machine) -> dict[str, Check]:
    return {check.name: check for check in machine.checks}


async def test_healthy_machine_passes(own_temp: None) -> None:
    machine = await check_machine()
    assert machine.ok
    assert "process" in machine.backends
    checks = by_name(machine)
    assert checks["python"].status == checks["coworld"].status == checks["process"].status == "ok"
    assert all(check.message for check in machine.checks)
    assert all(check.hint for check in machine.checks if check.status != "ok")


async def test_the_published_package_beside_ours_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "coworld-0.1.26.dist-info").mkdir()
    (tmp_path / "coworld-0.1.26.dist-info" / "METADATA").write_text("Name: coworld\nVersion: 0.1.26\n")
    monkeypatch.syspath_prepend(tmp_path)
    check = by_name(await check_machine())["coworld"]
    assert (check.status, "coworld 0.1.26 is installed, too" in check.message) == ("warn", True)


async def test_no_engine_is_a_warning_as_long_as_processes_work(
    own_temp: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", NO_ENGINE)
    machine = await check_machine()
    assert machine.backends == ("process",)
    assert machine.ok
    # Asserted only here, because an engine is everybody's, too.
    assert by_name(machine)["leftovers"].message == "none"
    docker = by_name(machine)["docker"]
    assert docker.status == "warn"
    assert docker.hint


async def test_no_backend_at_all_is_a_failure(own_temp: None, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(_: object) -> tuple[Issue, ...]:
        return (Issue(code="platform_unsupported", message="Not here.", hint="Elsewhere."),)

    monkeypatch.setenv("DOCKER_HOST", NO_ENGINE)
    monkeypatch.setattr(ProcessBackend, "check", check)
    machine = await check_machine()
    assert machine.backends == ()
    assert not machine.ok
    checks = by_name(machine)
    assert checks["process"] == Check(name="process", status="fail", message="Not here.", hint="Elsewhere.")
    assert checks["docker"].status == "fail"


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
async def test_a_temporary_directory_that_is_of_no_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/proc/self/fd")
    machine = await check_machine()
    temp = by_name(machine)["temp"]
    assert temp.status == "fail"
    assert "TMPDIR" in (temp.hint or "")
    assert not machine.ok


async def test_leftovers_are_found_and_only_removed_when_asked(own_temp: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", NO_ENGINE)
    run_id = new_run_id()
    directory = scratch_root() / run_id
    directory.mkdir(parents=True)
    (directory / "owner.lock").touch()
    machine = await check_machine()
    found = by_name(machine)["leftovers"]
    assert found.status == "warn"
    assert "1 object of 1 killed run" in found.message
    listed = await leftovers(backends=["process"], run_id=run_id)
    assert [item.id for item in listed.found] == [str(directory)]
    assert listed.reaped == ()
    assert directory.exists()
    swept = await leftovers(backends=["process"], run_id=run_id, apply=True)
    assert swept.ok
    assert not directory.exists()


async def test_unreachable_backend_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", NO_ENGINE)
    swept = await leftovers(run_id="0000")
    assert swept.found == ()
    assert [text.partition(":")[0] for text in swept.unavailable] == ["docker"]


async def test_machine_versions_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", NO_ENGINE)
    found = await machine_versions()
    assert found["coworld-runner"]
    assert found["python"]
    assert found["docker"] is None
