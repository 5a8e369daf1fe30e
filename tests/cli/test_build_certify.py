"""`build` and `certify`."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from support.cli_kit import Started, Terminal, coworld

from coworld_cli.hints import with_command_hints
from coworld_cli.main import cli
from coworld_cli.render.certification import verdict_text
from coworld_runner.certification import read_certification

World = Callable[..., Path]

# --- build ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What `build` asks the library for, which then says that it cannot."""
    from coworld_core.errors import UsageError

    calls: list[dict[str, Any]] = []

    async def build_coworld(project: Path | None = None, **options: Any) -> None:
        calls.append({"project": project, **options})
        raise UsageError("Asked.")

    monkeypatch.setattr("coworld_runner.build.build_coworld", build_coworld)
    return calls


@pytest.mark.parametrize(
    ("args", "wanted"),
    [
        ("world", {"project": Path("world")}),
        ("", {"project": Path()}),
        ("--project world --version 1.2", {"project": Path("world"), "version": "1.2",
                                           "output": Path("world/dist/coworld_manifest.json")}),
        ("--version 1.2", {"project": Path(), "version": "1.2", "output": Path("dist/coworld_manifest.json")}),
        ("--version 1.2 --output m.json --compose c.yaml --template t.json",
         {"project": Path(), "version": "1.2", "output": Path("m.json"), "compose": Path("c.yaml"),
          "template": Path("t.json")}),
        ("world --version 1.2", {"project": Path("world"), "version": "1.2"}),
        ("c.yaml t.json 1.2 m.json", {"compose": Path("c.yaml"), "template": Path("t.json"), "version": "1.2",
                                      "output": Path("m.json")}),
        ("c.yaml t.json 1.2 m.json --resolve-mutable-images",
         {"compose": Path("c.yaml"), "template": Path("t.json"), "version": "1.2", "output": Path("m.json"),
          "resolve_mutable": True}),
        ("world --platform linux/arm64 --no-cache --parallel 3 --build-arg A=1 --build-arg B=x=y",
         {"project": Path("world"), "platform": "linux/arm64", "no_cache": True, "parallel": 3,
          "build_args": {"A": "1", "B": "x=y"}}),
    ],
)  # fmt: skip
def test_every_form_of_build(args: str, wanted: dict[str, Any], asked: list[dict[str, Any]]) -> None:
    result = CliRunner().invoke(cli, ["build", *args.split()])
    assert result.exit_code == 2
    assert result.stderr == "error: Asked.\n"
    nothing: dict[str, Any] = dict.fromkeys(
        ["project", "compose", "template", "version", "output", "service", "platform", "published"]
    )
    nothing |= {"resolve_mutable": False, "build_args": {}, "no_cache": False, "parallel": None}
    (call,) = asked
    assert call.pop("publish") is not None
    assert call == {**nothing, **wanted}


@pytest.mark.slow
def test_invalid_build_is_refused(world: World, tmp_path: Path) -> None:
    directory = world()
    (directory / "compose.yaml").unlink()
    done = coworld("build", directory, "--json")
    assert done.status == 2
    assert done.json["error"]["code"] == "compose_missing"
    assert not (directory / "coworld_manifest.json").exists()


@pytest.mark.slow
def test_nothing_is_built_for_local_processes(world: World) -> None:
    done = coworld("run-episode", world(), "--build", "--backend", "process")
    assert (done.status, "Images are to be built" in done.stderr and "Leave out --build" in done.stderr) == (2, True)


@pytest.mark.slow
def test_build_without_an_engine(world: World) -> None:
    done = coworld("build", world("well"), env={"DOCKER_HOST": "unix:///nowhere.sock"})
    assert done.status == 3
    assert done.stderr.count("error: ") == 1


@pytest.mark.docker
@pytest.mark.slow
def test_build_run_and_certify_on_docker(world: World, tmp_path: Path) -> None:
    from support.misfit_kit import ensure_image

    image = ensure_image()
    directory = world("well")
    # What is built here is there already, as an image by name
    (directory / "compose.yaml").write_text(json.dumps({"services": {"misfits": {"image": image}}}))
    built = coworld("build", directory, "--version", "1.2.3", "--json")
    assert built.status == 0, built.stderr
    answer = built.json
    assert answer["manifest"] == str(directory / "coworld_manifest.json")
    assert answer["version"] == "1.2.3"
    (made,) = answer["images"]
    assert re.search(r":coworld-[0-9a-f]{12}$", made["reference"])
    manifest = json.loads((directory / "coworld_manifest.json").read_text())
    assert manifest["game"]["runnable"]["image"] == made["reference"]

    again = coworld("build", directory)
    assert again.status == 0, again.stderr
    assert f"→ {made['reference']}" in again.stdout
    assert "Manifest:  " in again.stdout
    assert re.search(r"^Next: .* run .* --backend docker$", again.stdout, re.MULTILINE)

    (directory / "coworld_manifest.json").unlink()
    run = coworld("run-episode", directory, "--build", "--backend", "docker", "-o", tmp_path / "out")
    assert run.status == 0, run.stdout + run.stderr
    assert "Backend: docker (as asked)\n" in run.stderr
    assert "completed" in run.stdout
    assert (directory / "coworld_manifest.json").is_file()


@pytest.mark.docker
@pytest.mark.slow
def test_interrupted_on_docker(world: World, start: Callable[..., Started], tmp_path: Path) -> None:
    from support.misfit_kit import ensure_image

    directory = world("hangs")
    template = directory / "coworld_manifest_template.json"
    manifest = json.loads(template.read_text().replace("{{MISFITS_IMAGE}}", ensure_image()))
    manifest["game"]["version"] = "1.0.0"
    (directory / "coworld_manifest.json").write_text(json.dumps(manifest))
    template.unlink()
    run = start("run-episode", directory, "--backend", "docker", "-o", tmp_path / "out")
    run.until_printed("playing")
    run.send(signal.SIGINT)
    done = run.end()
    assert done.status == 130
    assert "Interrupted: stopping the game and 2 players." in done.stderr


# --- certify --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_certified_world_and_its_certificate(world: World, tmp_path: Path) -> None:
    directory, key = world(), tmp_path / "key"
    assert coworld("certificate", "keygen", key, "--json").json["public"] == str(tmp_path / "key.pub")
    done = coworld("certify", directory, "--offline", "--sign-with", key, "--authority", "Ada")
    assert done.status == 0, done.stdout + done.stderr
    assert re.match(r"misfits 0\.0\.0\.dev0 process  certified: Executable after ", done.stdout)
    steps = re.findall(r"^  \[(pass|skip|fail)\] ([\w-]+)  ", done.stdout, re.MULTILINE)
    assert [name for _, name in steps][:2] == ["matriculate", "source-resolves"]
    assert len(steps) == 13
    workspace = (directory / "results" / "certification" / "latest").resolve()
    assert f"Report:       {workspace}/certification.html\n" in done.stdout
    assert f"Replay:       {workspace}/episode/replay\n" in done.stdout
    assert re.search(r"^Next: .* replay ", done.stdout, re.MULTILINE)
    told = re.findall(r"\] \[(pass|skip)\] ([\w-]+): ", done.stderr)
    assert told == steps
    assert "playing" not in done.stderr

    verify = ("certificate", "verify", workspace)
    for given in (directory, directory / "coworld_manifest_template.json"):
        itself = coworld("certificate", "verify", given)
        assert (itself.status, "is a Coworld, not a certificate" in itself.stderr) == (2, True), itself.stderr
        assert f"coworld certify {given}" in itself.stderr
    holds = coworld(*verify, directory, "--key", tmp_path / "key.pub")
    assert (holds.status, "By:       Ada at" in holds.stdout) == (0, True), holds.stdout + holds.stderr
    assert "The certificate holds: no errors" in holds.stdout
    template = directory / "coworld_manifest_template.json"
    document = json.loads(template.read_bytes())
    document["game"]["description"] = "Another game."
    template.write_text(json.dumps(document))
    fails = coworld(*verify, directory, "--json")
    assert (fails.status, fails.json["certificate"]["authority"]["name"]) == (1, "Ada")
    codes = {issue["code"]: issue["message"] for issue in fails.json["issues"]}
    assert "/game/description" in codes["manifest_differs"]
    assert coworld(*verify, "--key", key).status == 2


@pytest.mark.slow
def test_a_world_that_is_not_certified(world: World, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = coworld("certify", world("accepts-any-token"), "--offline", "-o", out, "--json")
    assert done.status == 1
    answer = done.json
    assert answer["ok"] is False
    assert answer["workspace"] == str(out)
    assert answer["paths"]["report"] == str(out / "certification.html")
    written = json.loads((out / "certification.json").read_text())
    assert {name: answer[name] for name in written} == with_command_hints(written)
    certification = read_certification(out)
    failed = [step.id for step in certification.failed]
    assert failed
    shown = click.unstyle(verdict_text(certification, manifest="world"))
    assert "not certified" in shown
    assert "This step checks that an episode runs to its end" in shown
    assert f"  [fail] {failed[0]}" in shown
    assert "hint: " in shown


def test_a_manifest_that_cannot_be_read_is_not_certified(tmp_path: Path) -> None:
    (tmp_path / "coworld_manifest.json").write_text('{"gmae": {}}')
    done = coworld("certify", tmp_path, "--json")
    assert done.status == 1
    assert done.json["steps"][0]["id"] == "matriculate"
    assert done.json["steps"][0]["status"] == "fail"
    workspace = Path(done.json["workspace"])
    assert workspace.parent == tmp_path / "results" / "certification"
    assert (workspace / "certification.html").is_file()


def test_certify_without_a_package_is_refused(tmp_path: Path) -> None:
    assert coworld("certify", tmp_path / "nowhere").status == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_certification_on_a_terminal(world: World, terminal: Callable[..., Terminal], tmp_path: Path) -> None:
    run = terminal("certify", world("accepts-any-token"), "--offline", "-o", tmp_path / "out")
    assert run.end() == 1, run.text
    assert "● smoke-episode" in run.text
    assert "✓ matriculate" in run.text
    assert "● play" in run.text


@pytest.mark.slow
def test_an_interrupted_certification(world: World, start: Callable[..., Started], tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = start("certify", world("hangs"), "--offline", "-o", out)
    log = out / "episode" / "events.ndjson"
    run.until(lambda: log.exists() and '"phase":"play"' in log.read_text(), "the smoke episode plays")
    run.send(signal.SIGINT)
    done = run.end()
    assert done.status == 130
    assert f"What was done so far is in {out}." in done.stderr
    assert json.loads((out / "certification.json").read_text())["status"] == "interrupted"
