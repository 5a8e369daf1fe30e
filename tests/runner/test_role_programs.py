"""Which program plays a supporting role: of the manifest, a file of the user, or an image."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coworld_core.errors import UsageError
from coworld_core.roles.role_record import Role
from coworld_runner import Package, resolve_package
from coworld_runner.roles.role_program import find_role

ARENA = Path(__file__).parents[2] / "examples" / "paintarena"
TEMPLATE = "coworld_manifest_template.json"


@pytest.fixture
async def arena() -> Package:
    return await resolve_package(ARENA)


async def changed(directory: Path, **sections: Any) -> Package:
    """Paint Arena with other sections of its manifest."""
    document = json.loads((ARENA / TEMPLATE).read_text())
    (directory / TEMPLATE).write_text(json.dumps({**document, **sections}))
    return await resolve_package(directory / TEMPLATE)


async def test_only_program_of_a_role_needs_no_name(arena: Package) -> None:
    found = find_role(arena, "grader")
    assert (found.id, found.own, found.runnable.run[-1]) == ("paint-arena-grader", None, "paintarena.roles.grader")


async def test_several_programs_of_a_role_are_listed(tmp_path: Path) -> None:
    grader = json.loads((ARENA / TEMPLATE).read_text())["grader"][0]
    package = await changed(tmp_path, grader=[grader, {**grader, "id": "second"}])
    with pytest.raises(UsageError, match=r"declares 2 graders: paint-arena-grader and second") as refused:
        find_role(package, "grader")
    assert refused.value.code == "role_unknown"
    assert find_role(package, "grader", "second").id == "second"


async def test_reporters_of_a_platform_do_not_run_here(tmp_path: Path) -> None:
    package = await changed(tmp_path, reporter=[{"reporter": "ada/daily@3"}], grader=[])
    with pytest.raises(UsageError, match=r"run on its platform only: ada/daily@3"):
        find_role(package, "reporter")
    with pytest.raises(UsageError, match=r"declares no grader"):
        find_role(package, "grader")


@pytest.mark.parametrize(("role", "function"), [("grader", "grade"), ("reporter", "report"), ("diagnoser", "diagnose")])
async def test_file_with_the_function_of_a_role(role: Role, function: str, arena: Package, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(f"import helper\n\ndef {function}(*given):\n    return helper.answer\n")
    (tmp_path / "helper.py").write_text("answer = 1\n")
    found = find_role(arena, role, str(file))
    assert found.own is not None
    assert found.own.command == ("python", "-m", "coworld_runner.kit.roles", "{}/mine.py")
    assert sorted(found.own.files) == ["helper.py", "mine.py"]
    assert (found.id, found.runnable.type, found.runnable.env) == ("mine", role, {})


async def test_program_in_a_file_runs_itself(arena: Package, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("print('a grade')\n")
    found = find_role(arena, "grader", str(file))
    assert found.own is not None
    assert found.own.command == ("python", "{}/mine.py")


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("def report(episodes): ...\n", "It is a reporter"),
        ("def grades(episode): ...\n", "Did you mean 'grades' to be grade?"),
        ("import json\n", "A grader is a file with that function"),
    ],
)
async def test_file_that_would_do_nothing_is_refused(source: str, hint: str, arena: Package, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(source)
    with pytest.raises(UsageError, match="has no function grade") as refused:
        find_role(arena, "grader", str(file))
    assert hint in str(refused.value.hint)


async def test_command_brings_the_file_that_it_names(arena: Package, tmp_path: Path) -> None:
    (tmp_path / "grader.mjs").write_text("console.log(1)\n")
    (tmp_path / "mine.py").write_text("import helper\n")
    (tmp_path / "helper.py").write_text("def grade(episode): ...\n")
    found = find_role(arena, "grader", f"node --no-warnings {tmp_path}/grader.mjs --fast")
    assert found.own is not None
    assert found.own.command == ("node", "--no-warnings", "{}/grader.mjs", "--fast")
    assert (found.id, list(found.own.files)) == ("grader", ["grader.mjs"])
    python = find_role(arena, "grader", f"python3 {tmp_path}/mine.py 'two words'")
    assert python.own is not None
    assert (python.own.command, len(python.own.files)) == (("python", "{}/mine.py", "two words"), 2)
    for line, said in (
        ("node gone.mjs", "no word of it is a file"),
        ("node 'gone", "No closing quotation"),
        (f"{tmp_path}/helper.py --fast", "has only a function"),
    ):
        with pytest.raises(UsageError, match=said) as refused:
            find_role(arena, "grader", line)
        assert refused.value.code == "role_not_runnable"


async def test_names_that_are_nothing_are_refused(arena: Package, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no grader") as refused:
        find_role(arena, "grader", str(tmp_path / "none.py"))
    assert refused.value.code == "role_not_found"
    with pytest.raises(UsageError, match="There is no grader 'paint-arena-grade'") as near:
        find_role(arena, "grader", "paint-arena-grade")
    assert near.value.hint == "Did you mean 'paint-arena-grader'?"


async def test_image_runs_its_own_command_or_the_given_one(arena: Package) -> None:
    plain = find_role(arena, "grader", "ghcr.io/ada/grader:1")
    assert (plain.runnable.image, plain.runnable.run, plain.id) == ("ghcr.io/ada/grader:1", (), "ghcr.io/ada/grader:1")
    assert find_role(arena, "grader", "ada/grader:1", run=["python", "g.py"]).runnable.run == ("python", "g.py")
