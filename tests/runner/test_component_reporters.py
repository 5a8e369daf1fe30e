"""Reporters that are WebAssembly components: what they get, what they leave, and which do not run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from wasmtime import wat2wasm

from coworld_core.errors import UsageError
from coworld_core.roles.finished_episode import FinishedEpisode
from coworld_runner import resolve_package
from coworld_runner.kit.roles.component_host import ComponentReporter
from coworld_runner.kit.roles.role_error import RoleError
from coworld_runner.package.own_players import component_file
from coworld_runner.roles.role_program import find_role

ARENA = Path(__file__).parents[2] / "examples" / "paintarena"
TEMPLATE = "coworld_manifest_template.json"
REPORTER = (Path(__file__).parents[1] / "support" / "reporter.wat").read_text()
RESULTS = b'{"scores":[1,2]}'


def episode(results: bytes = RESULTS) -> FinishedEpisode:
    return FinishedEpisode(id="e1", parts={("results", None): lambda: results})


def written(directory: Path, text: str) -> Path:
    path = directory / "recap.wasm"
    path.write_bytes(wat2wasm(text))
    return path


def test_component_reads_its_episodes_and_emits_parts(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    files = ComponentReporter(str(written(tmp_path, REPORTER))).report([episode()])
    assert files == {"summary.md": b"# By a component\n", "results.json": RESULTS}
    assert capfd.readouterr().out == "50 %: halfway\n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("(call $progress (i32.const 50)", "(unreachable) (call $progress (i32.const 50)", "unreachable"),
        # It gives up: an error of the tag 3 with the text "results"
        (
            "(i32.store8 (i32.const 3072) (i32.const 0))",
            "(i32.store8 (i32.const 3072) (i32.const 1)) (i32.store8 (i32.const 3076) (i32.const 3))"
            "(i32.store (i32.const 3080) (i32.const 48)) (i32.store (i32.const 3084) (i32.const 7)) (return"
            " (i32.const 3072))",
            r"has given up \(invalid\): results",
        ),
        ('(export "run" (func $run))', "", "exports no function run"),
        ("episodes@0.6.0", "episodes@0.4.0", "it needs softmax:reporter/episodes@0.4.0"),
        (REPORTER, "(module)", "is not a WebAssembly component"),
    ],
)
def test_component_that_fails_says_why(old: str, new: str, message: str, tmp_path: Path) -> None:
    reporter = ComponentReporter(str(written(tmp_path, REPORTER.replace(old, new))))
    with pytest.raises(RoleError, match=message):
        reporter.report([episode()])


def test_a_part_that_would_leave_the_report_is_not_taken(tmp_path: Path) -> None:
    sly = REPORTER.replace('"summary"', '"../../x"')
    files = ComponentReporter(str(written(tmp_path, sly))).report([episode()])
    assert list(files) == ["results.json"]


async def test_component_of_a_manifest_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = json.loads((ARENA / TEMPLATE).read_text())
    shutil.copy(written(tmp_path, REPORTER), tmp_path / "recap-1.wasm")
    entry = {"wasm": "recap-1.wasm", "id": "recap", "attributes": {"world": "softmax:reporter@0.6.0"}}
    elsewhere = [{"reporter": "ada/daily@3"}, {**entry, "id": "far", "wasm": "../recap-1.wasm"}]
    (tmp_path / TEMPLATE).write_text(json.dumps({**document, "reporter": [*elsewhere, entry]}))
    package = await resolve_package(tmp_path / TEMPLATE)
    found = find_role(package, "reporter")
    assert (found.id, found.is_component) == ("recap", True)
    assert found.own is not None
    assert found.own.command == ("python", "-m", "coworld_runner.kit.roles", "{}/recap-1.wasm")
    with pytest.raises(UsageError, match="only reporters are"):
        find_role(package, "grader", str(tmp_path / "recap-1.wasm"))

    def nothing(_: str) -> None: ...

    monkeypatch.setattr(component_file, "find_spec", nothing)
    with pytest.raises(UsageError, match="needs wasmtime") as missing:
        ComponentReporter("recap.wasm")
    assert missing.value.hint == 'Install it: pip install "coworld-runner[wasm]".'
