"""One program where it is kept apart: in a container, and in a pod of a real cluster."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.docker_subject import subject_image
from support.fake_server import serve_everywhere
from support.kube import backend_for, namespace_for_tests, until_empty

from coworld_core.errors import CapabilityError
from coworld_runner import Program, ProgramOptions, run_program
from coworld_runner.backend import Backend, HttpProbe, Limits, Placement, Port
from coworld_runner.backends import DockerBackend
from coworld_runner.episode.program import open_program
from coworld_runner.package.own_players.player_file import read_file
from coworld_runner.testing.conformance import subject_environment

BACKENDS = (
    pytest.param("docker", marks=pytest.mark.docker),
    pytest.param("kubernetes", marks=[pytest.mark.kubernetes, pytest.mark.timeout(240)]),
)


@pytest.fixture(scope="module")
def namespace() -> Generator[str]:
    with namespace_for_tests() as name:
        yield name


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Generator[Backend]:
    if request.param == "docker":
        yield DockerBackend()
        return
    name = request.getfixturevalue("namespace")
    yield backend_for(name)
    until_empty(name)


def subject(*steps: str, **more: Any) -> Program:
    def environment(place: Placement) -> Mapping[str, str]:
        paths = {"BUNDLE": "bundle", "DEEP": "episodes/one/results.json", "REQUEST": "request", "NEW": "new"}
        return {
            **subject_environment(place),
            **{variable: f"{place.inputs}/{name}" for variable, name in paths.items()},
        }

    wanted: dict[str, Any] = {
        "name": "grader",
        "component": "grader",
        "image": subject_image(),
        "argv": ("python3", "/subject.py", *steps),
        "outputs": ("grade.json",),
        "environment": environment,
    }
    return Program(**{**wanted, **more})


async def test_program_reads_inputs_and_writes_outputs(backend: Backend, tmp_path: Path) -> None:
    # One that is brought to a pod by itself, and one that comes with it
    (tmp_path / "bundle").write_bytes(b"a bundle" + os.urandom(2_000_000))
    (tmp_path / "episodes" / "one").mkdir(parents=True)
    (tmp_path / "episodes" / "one" / "results.json").write_text("[1]")
    steps = (
        "read:$BUNDLE",
        "read:$DEEP",
        "read:$REQUEST",
        "touch:$BUNDLE",
        "touch:$NEW",
        "size:grade.json:3000000",
        "write:more:2",
    )

    def request(place: Placement) -> str:
        return f"write {place.uri('grade.json')}"

    more: dict[str, Any] = {
        "inputs": {"bundle": tmp_path / "bundle", "episodes": tmp_path / "episodes"},
        "documents": {"request": request},
    }
    limits = Limits(memory_bytes=256 << 20, disk_bytes=32 << 20)
    async with backend as opened:
        outcome = await run_program(subject(*steps, **more, limits=limits), backend=opened, directory=tmp_path / "run")
    said = (tmp_path / "run" / "logs" / "grader.stdout.log").read_text()
    assert outcome.ok, (outcome.fault, said)
    assert "/bundle: a bundle" in said
    assert "/results.json: [1]" in said
    assert "/request: write file:///coworld/grade.json" in said
    assert said.count("cannot write") == 2
    assert outcome.outputs["grade.json"].sha256 == hashlib.sha256(bytes(3_000_000)).hexdigest()
    assert outcome.path("more").read_text() == "2"
    assert outcome.unit.image.image == subject_image()


async def test_files_of_ones_own_run_in_the_image(backend: Backend, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("import os\nimport helper\nopen(os.environ['GRADE'], 'w').write(helper.text)\nprint(__file__)\n")
    (tmp_path / "helper.py").write_text("text = '7'\n")

    def environment(place: Placement) -> Mapping[str, str]:
        return {"GRADE": f"{place.directory}/grade.json"}

    program = subject(own=read_file(file, file.stat()), argv=(), environment=environment)
    async with backend as opened:
        outcome = await run_program(program, backend=opened, directory=tmp_path / "run")
    assert outcome.ok, (outcome.fault, outcome.log_tail)
    assert (outcome.path("grade.json").read_text(), outcome.log_tail) == ("7", "/coworld-inputs/program/mine.py\n")
    assert outcome.unit.run == ("python", "mine.py")
    assert outcome.unit.image.image.startswith("mine.py@")


@pytest.mark.parametrize(
    ("steps", "more", "wanted"),
    [
        (("write:more:1", "exit:3"), {}, ("program_error", "program")),
        (("link:grade.json:/etc/passwd",), {}, ("output_refused", "program")),
        (("print:done",), {}, ("output_missing", "program")),
        ((), {"argv": ("/nonsense",)}, ("program_never_started", "program")),
    ],
)
async def test_program_fault_is_reported(
    backend: Backend, tmp_path: Path, steps: tuple[str, ...], more: dict[str, Any], wanted: tuple[str, str]
) -> None:
    async with backend as opened:
        outcome = await run_program(subject(*steps, **more), backend=opened, directory=tmp_path / "run")
    assert outcome.fault is not None
    assert (outcome.outcome, outcome.fault.party) == wanted, outcome.fault
    assert set(outcome.outputs) == ({"more"} if "write:more:1" in steps else set())


async def test_at_the_deadline_it_is_ended_and_what_it_wrote_is_kept(backend: Backend, tmp_path: Path) -> None:
    options = ProgramOptions(timeout=20.0, stop_grace=0.5)
    steps = ("write:grade.json:1", "stubborn", "print:waiting", "hang")
    async with backend as opened:
        outcome = await run_program(subject(*steps), backend=opened, directory=tmp_path / "run", options=options)
    assert outcome.outcome == "program_timeout"
    assert outcome.unit.exit is not None
    assert outcome.unit.exit.reason == "timeout"
    assert outcome.path("grade.json").read_text() == "1"
    assert outcome.log_tail == "waiting\n"


async def test_program_without_a_network_reaches_nothing(backend: Backend, tmp_path: Path) -> None:
    server = subject("serve:200", "hang", name="server", outputs=(), ports=(Port(name="http"),))
    async with (
        backend as opened,
        serve_everywhere() as hosts,
        open_program(server, backend=opened, publish=_ignore) as other,
    ):
        await other.unit.wait_ready(HttpProbe())
        near = other.unit.endpoint()
        places = [*hosts, near.there, near.here, "1.1.1.1:443", "example.com:443"]
        program = subject(*(f"connect:{place}" for place in places), "write:grade.json:1", network="none")
        if not opened.capabilities.network_isolation:
            # This cluster enforces no network policies
            with pytest.raises(CapabilityError):
                await run_program(program, backend=opened, directory=tmp_path / "run")
            return
        outcome = await run_program(program, backend=opened, directory=tmp_path / "run")
        assert hosts
        # The way is there for one that may take it
        steps = (f"connect:{hosts[0]}", "write:grade.json:1")
        open_one = await run_program(subject(*steps), backend=opened, directory=tmp_path / "open")
        assert "connected to" in open_one.log_tail
    assert outcome.ok
    assert outcome.log_tail.count("cannot connect to") == len(places)
    assert json.loads(outcome.path("grade.json").read_text()) == 1


def _ignore(_: object) -> None:
    pass
