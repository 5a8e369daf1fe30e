"""`validate`, `schema`, `doctor` and `version`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from support.cli_kit import Terminal, coworld

from coworld_core.schemas import episode_request_schema, manifest_schema

pytestmark = [pytest.mark.slow, pytest.mark.more]

World = Callable[..., Path]
PAINT = Path(__file__).parents[2] / "examples" / "paintarena"

# --- validate -------------------------------------------------------------------------------------------------------


def test_a_good_manifest(world: World) -> None:
    directory = world()
    done = coworld("validate", directory, cwd=directory)
    assert done.status == 0
    assert done.stderr == ""
    last = done.stdout.splitlines()[-1]
    about = "misfits 0.0.0.dev0: 2 players, 2 variants, a template; for coworld 0.1.26 and newer"
    assert last == f"ok: coworld_manifest_template.json ({about})"


@pytest.mark.parametrize("command", [["validate", "--fix"], ["doctor", "--fix"]])
def test_manifest_is_fixed_after_confirmation(command: list[str], world: World) -> None:
    template = world() / "coworld_manifest_template.json"
    before = template.read_text()
    template.write_text(json.dumps({**json.loads(before), "apiVersion": "coworld.softmax.com/v0"}, indent=2))
    asked = coworld(*command, template)
    assert (asked.status, "--fix --yes" in asked.stdout, '-  "apiVersion"' in asked.stdout) == (1, True, True)
    assert "apiVersion" in template.read_text()
    done = coworld(*command, template, "--yes", "--json")
    assert (done.status, done.json["written"], len(done.json["fixed"])) == (0, True, 1)
    assert json.loads(template.read_text()) == json.loads(before)
    assert coworld("validate", template, "--yes").status == 2


def test_accepting_published_versions_are_reported(world: World) -> None:
    directory = world()
    template = directory / "coworld_manifest_template.json"
    template.write_text(json.dumps({**json.loads(template.read_text()), "tags": ["a", "b", "c"]}))
    said = coworld("validate", directory, "--json", "--for", "0.1.64")
    assert (said.status, said.json["accepted_by"], said.json["warnings"]) == (0, "0.1.32 and newer", 0)
    refused = coworld("validate", directory, "--json", "--for", "0.1.26")
    assert (refused.status, refused.json["issues"][0]["code"]) == (1, "not_yet_published")
    for option, status in (("--for=0.1.64", 0), ("--for=0.1.26", 1)):
        assert coworld("validate", directory, "--json", "--fix", "--yes", option).status == status


def test_a_copy_for_a_published_version_is_without_what_that_refuses_and_does_not_need(tmp_path: Path) -> None:
    copy = tmp_path / "coworld_manifest_template.json"
    asked = ("validate", PAINT, "--for", "0.1.26", "--fix", "-o", copy)
    before = (PAINT / copy.name).read_bytes()
    done = coworld(*asked, "--json")
    assert (done.status, done.json["written"], done.json["path"]) == (0, True, str(copy)), done.stderr
    assert [issue["message"] for issue in done.json["fixed"] if issue["code"] == "left_out"] == [
        "tags is left out: 0.1.26 refuses it, and does without."
    ]
    assert (PAINT / copy.name).read_bytes() == before
    assert coworld("validate", copy, "--for", "0.1.26", "--json").json["accepted_by"] == "0.1.26 and newer"
    assert (coworld(*asked).status, coworld(*asked, "--overwrite").status) == (2, 0)


def test_warnings_that_a_fix_leaves_may_fail_too(world: World) -> None:
    template = world() / "coworld_manifest_template.json"
    manifest = json.loads(template.read_text())
    manifest["game"]["results_schema"] = {"type": "object", "required": ["scores"]}
    template.write_text(json.dumps(manifest))
    left = coworld("validate", template, "--fix", "--yes", "--json")
    assert (left.status, left.json["issues"][0]["code"]) == (0, "scores_undeclared")
    assert coworld("validate", template, "--fix", "--yes", "--fail-on", "warning").status == 1


def test_every_issue_has_its_place(tmp_path: Path) -> None:
    (tmp_path / "coworld_manifest.json").write_text('{\n  "gmae": {},\n  "player": [],\n  "variants": 7\n}\n')
    done = coworld("validate", "coworld_manifest.json", cwd=tmp_path)
    assert done.status == 1
    lines = done.stdout.splitlines()
    misspelt = next(index for index, line in enumerate(lines) if "[misspelt_field]" in line)
    assert re.fullmatch(r"coworld_manifest\.json:2:3: error\[misspelt_field\] .*\"gmae\".* \(/gmae\)", lines[misspelt])
    assert lines[misspelt + 1] == '    hint: Did you mean "game"?'
    *places, last = [line for line in lines if not line.startswith(" ")]
    assert all(re.match(r"coworld_manifest\.json:\d+:\d+: error\[\w+\] ", line) for line in places)
    assert last == f"{len(places)} errors"
    assert "ok:" not in done.stdout


def test_validate_as_json(tmp_path: Path) -> None:
    (tmp_path / "coworld_manifest.json").write_text("[]")
    done = coworld("validate", tmp_path, "--json")
    assert done.status == 1
    assert done.json["ok"] is False
    assert done.json["errors"] == 1
    assert done.json["issues"][0]["code"] == "not_an_object"
    assert done.json["source"] == str(tmp_path / "coworld_manifest.json")


def warned(directory: Path) -> Path:
    """The world with a key in it that nobody knows."""
    template = directory / "coworld_manifest_template.json"
    template.write_text(json.dumps({**json.loads(template.read_text()), "odd": 1}))
    return directory


def test_warnings_are_no_errors_unless_asked(world: World) -> None:
    directory = warned(world())
    lenient = coworld("validate", directory, "--json")
    assert (lenient.status, lenient.json["ok"], lenient.json["warnings"]) == (0, True, 1)
    picky = coworld("validate", directory, "--fail-on", "warning", "--json")
    assert (picky.status, picky.json["ok"], picky.json["warnings"]) == (1, False, 1)
    strict = coworld("validate", directory, "--strict", "--json")
    assert (strict.status, strict.json["ok"]) == (1, False)
    assert strict.json["errors"] >= 1


def test_colours_of_issues_only_on_a_terminal(terminal: Callable[..., Terminal], tmp_path: Path) -> None:
    (tmp_path / "coworld_manifest.json").write_text("{")
    run = terminal("validate", tmp_path)
    assert run.end() == 1
    assert "\x1b[31m" in run.raw
    assert "\x1b[" not in coworld("validate", tmp_path).stdout


@pytest.mark.parametrize(
    ("argument", "status", "code"),
    [
        ("nowhere", 2, None),
        ("", 2, None),
        ("s3://bucket/key", 2, "bad_scheme"),
        ("http://127.0.0.1:9/x", 4, None),
        ("cow_1", 4, None),
    ],
)
def test_missing_manifest_is_refused(argument: str, status: int, code: str | None, tmp_path: Path) -> None:
    done = coworld("validate", argument, "--server", "http://127.0.0.1:9", "--json", cwd=tmp_path)
    assert done.status == status, done.stdout
    assert code is None or done.json["error"]["code"] == code


def test_the_server_from_the_environment(tmp_path: Path) -> None:
    done = coworld("validate", "cow_1", env={"COWORLD_SERVER": "http://127.0.0.1:9"}, cwd=tmp_path)
    assert done.status == 4
    assert "127.0.0.1 cannot be reached" in done.stderr


# --- schema ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "made"), [("manifest", manifest_schema), ("episode-request", episode_request_schema)])
def test_published_schemas_are_printed(name: str, made: Callable[[], object]) -> None:
    done = coworld("schema", name)
    assert done.status == 0
    assert done.json == made()
    assert coworld("schema", name, "--json").stdout == done.stdout


@pytest.mark.parametrize("name", ["episode", "summary", "certification", "event"])
def test_schemas_of_records_are_schemas(name: str) -> None:
    schema = coworld("schema", name).json
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"].startswith("Coworld ")


def test_records_of_a_run_satisfy_their_schemas(world: World, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert coworld("run-episode", world(), "-n", "2", "-o", out).status == 0
    for name, file in {"summary": out / "summary.json", "episode": out / "episode-0001" / "episode.json"}.items():
        jsonschema.Draft202012Validator(coworld("schema", name).json).validate(json.loads(file.read_text()))
    events = jsonschema.Draft202012Validator(coworld("schema", "event").json)
    for line in (out / "episode-0001" / "events.ndjson").read_text().splitlines():
        events.validate(json.loads(line))


def test_a_schema_into_a_file(tmp_path: Path) -> None:
    target = tmp_path / "schema.json"
    done = coworld("schema", "manifest", "-o", target, cwd=tmp_path)
    assert (done.status, done.stdout) == (0, "Wrote schema.json.\n")
    assert json.loads(target.read_text()) == manifest_schema()
    answer = coworld("schema", "manifest", "-o", target, "--json").json
    assert answer == {"schema": "manifest", "path": str(target)}
    refused = coworld("schema", "manifest", "-o", tmp_path / "no" / "x.json", "--json")
    assert refused.status == 2
    assert refused.json["error"]["code"] == "path_unwritable"


# --- version and doctor ---------------------------------------------------------------------------------------------


def test_version() -> None:
    done = coworld("version", "--json")
    assert done.status == 0
    assert set(done.json) == {
        *("coworld-cli", "coworld-runner", "coworld-core", "coworld-client"),
        *("python", "platform", "docker"),
    }
    assert all(done.json[name] for name in done.json if name != "docker")
    shown = coworld("version").stdout
    assert f"coworld-cli     {done.json['coworld-cli']}\n" in shown


def test_version_without_an_engine() -> None:
    done = coworld("version", env={"DOCKER_HOST": "unix:///nowhere.sock"})
    assert done.status == 0
    assert re.search(r"^docker +-$", done.stdout, re.MULTILINE)


def test_clean_where_an_engine_is_not_here() -> None:
    engineless = {"DOCKER_HOST": "unix:///nowhere.sock"}
    anywhere = coworld("clean", "--run", "0000", env=engineless)
    assert anywhere.status == 0
    assert re.fullmatch(r"Nothing is left\.\nCould not look at docker: .+\n", anywhere.stdout)
    asked_for = coworld("clean", "--run", "0000", "--backend", "docker", "--json", env=engineless)
    assert asked_for.status == 3
    assert asked_for.json["ok"] is False
    assert len(asked_for.json["unavailable"]) == 1


def test_doctor() -> None:
    done = coworld("doctor", "--json")
    assert done.status == 0, done.stdout
    names = [check["name"] for check in done.json["checks"]]
    expected = ["coworld", "python", "system", "processors", "temp", "inotify", "docker", "process", "leftovers"]
    assert [name for name in expected if name in names] == names
    assert all(check["status"] in ("ok", "warn", "fail") for check in done.json["checks"])
    assert all(check["hint"] for check in done.json["checks"] if check["status"] != "ok")
    assert "process" in done.json["backends"]


def test_doctor_says_what_is_missing_and_what_to_do() -> None:
    done = coworld("doctor", env={"DOCKER_HOST": "unix:///nowhere.sock"})
    assert done.status == 0
    assert re.search(r"^! +docker +\S.*\n +hint: \S", done.stdout, re.MULTILINE)
    assert done.stdout.endswith("\nBackends that work here: process.\n")


def test_doctor_of_a_machine_without_room_for_files(tmp_path: Path) -> None:
    # Python falls back to other directories when TMPDIR is not there, so it must be there and be of no use
    done = coworld("doctor", env={"TMPDIR": "/proc/self/fd"})
    assert "temp" in done.stdout
    assert "Traceback" not in done.stderr


# --- show -----------------------------------------------------------------------------------------------------------


def test_a_package_is_shown_with_all_that_it_has() -> None:
    shown = coworld("show", PAINT, cwd=PAINT.parent)
    assert shown.status == 0
    words = (
        "Seats   2",
        "quick",
        "frontier-painter",
        "commissioner  two-divisions",
        "paint-arena-grader",
        "play_paintarena.md",
        "--doc readme",
    )
    assert [word for word in words if word not in shown.stdout] == []
    answer = coworld("show", PAINT, "--json").json
    assert answer["slots"] == {"min": 2, "max": 2}
    assert [row["id"] for row in answer["variants"]] == ["default", "quick"]
    assert [row["role"] for row in answer["programs"]] == [
        "game",
        "player",
        "player",
        "commissioner",
        "grader",
        "diagnoser",
        "optimizer",
    ]


def test_a_document_of_a_package_is_shown_by_its_name() -> None:
    rules = coworld("show", PAINT, "--doc", "rules")
    assert (rules.status, rules.stdout.splitlines()[0]) == (0, "# Rules")
    protocol = coworld("show", PAINT, "--doc", "protocols.global", "--json").json
    assert (protocol["type"], protocol["value"].splitlines()[0]) == ("text", "# Spectator protocol")
    unknown = coworld("show", PAINT, "--doc", "rule.md")
    assert (unknown.status, "Did you mean 'rules.md'?" in unknown.stderr) == (2, True)


def test_reporters_of_a_platform_are_shown_too(world: World) -> None:
    template = world() / "coworld_manifest_template.json"
    document = json.loads(template.read_text())
    document["reporter"] = [{"reporter": "ada/daily@3"}, {"wasm": "r.wasm", "id": "heat", "attributes": {}}]
    template.write_text(json.dumps(document))
    shown = coworld("show", template)
    assert (shown.status, "ada/daily@3" in shown.stdout, "heat" in shown.stdout) == (0, True, True)
    assert len(coworld("show", template, "--json").json["reporters_elsewhere"]) == 2
    template.with_name("r.wasm").write_bytes(b"")
    answer = coworld("show", template, "--json").json
    assert [row.get("reporter") for row in answer["reporters_elsewhere"]] == ["ada/daily@3"]
    (heat,) = [row for row in answer["programs"] if row["role"] == "reporter"]
    assert (heat["component"], "--reporter heat" in heat["command"]) == ("r.wasm", True)


def test_what_cannot_be_shown_is_named(tmp_path: Path) -> None:
    nothing = coworld("show", tmp_path / "nothing")
    assert (nothing.status, "There is no manifest at" in nothing.stderr) == (2, True)
    other = coworld("show", "ply_00000000-0000-4000-8000-000000000001")
    assert (other.status, "is the id of a player" in other.stderr) == (2, True)
