"""What a build refuses before anything is built, and what it decides to build."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest
from support.manifests import duel

from coworld_core.episode.events import BaseEvent
from coworld_core.errors import (
    BackendUnavailable,
    CoworldError,
    ImageError,
    ManifestError,
    UsageError,
    WorkspaceError,
)
from coworld_core.hints import hint_fields
from coworld_runner.build.manifest_build import BuildError, BuildPlan, build_coworld, plan_build

Document = dict[str, Any]
MANIFEST_NAME = "coworld_manifest.json"
TEMPLATE_NAME = "coworld_manifest_template.json"
NO_ENGINE = "unix:///nowhere/docker.sock"
Error = TypeVar("Error", bound=CoworldError)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A package of one service."""
    root = tmp_path / "duel"
    root.mkdir()
    (root / "compose.yaml").write_text("services:\n  duel: {image: 'duel:latest', build: .}\n", "utf-8")
    (root / "Dockerfile").write_text("FROM base\n", "utf-8")
    write(root / TEMPLATE_NAME, duel())
    return root


def write(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document, indent=2), "utf-8")
    return path


def refused(kind: type[Error], project: Path | None, **options: Any) -> Error:
    with pytest.raises(kind) as caught:
        plan_build(project, **options)
    return caught.value


# --- finding everything


def test_project_directory_is_enough(project: Path) -> None:
    plan = plan_build(project)
    assert plan.compose.path == project / "compose.yaml"
    assert (plan.template, plan.output) == (project / TEMPLATE_NAME, project / MANIFEST_NAME)
    assert plan.version == plan.manifest.game.version == "0.1.0"
    assert plan.manifest.images() == ("duel:latest",)
    assert [service.name for service in plan.services] == ["duel"]
    assert (plan.skipped, plan.report.issues) == ((), ())
    assert not plan.output.exists()


def test_all_build_inputs_can_be_given(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (project / "compose.yaml").rename(project / "other.yaml")
    (project / TEMPLATE_NAME).rename(project / "t.json")
    plan = plan_build(
        compose=Path("duel/other.yaml"), template=Path("duel/t.json"), version="2.0rc1", output=Path("out/new/m.json")
    )
    assert (plan.version, plan.output) == ("2.0rc1", tmp_path / "out/new/m.json")
    monkeypatch.setenv("HOME", str(tmp_path))
    plan = plan_build(Path("~/duel"), compose=Path("~/duel/other.yaml"), template=Path("~/duel/t.json"))
    assert plan.output == project / MANIFEST_NAME


def test_the_version_built_before_is_kept(project: Path) -> None:
    built = duel("duel:coworld-0123456789ab", "duel:coworld-0123456789ab")
    built["game"]["version"] = "1.4.0"
    write(project / MANIFEST_NAME, built)
    assert plan_build(project).version == "1.4.0"
    assert plan_build(project, version="1.5.0").version == "1.5.0"
    assert plan_build(project, output=project / "dist.json").version == "0.1.0"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"game": {}}', '{"game": {"version": 1}}', "[" * 100_000])
def test_a_broken_manifest_has_no_version_to_keep(project: Path, content: str) -> None:
    (project / MANIFEST_NAME).write_text(content, "utf-8")
    plan = plan_build(project)
    assert plan.version == "0.1.0"
    assert [issue.code for issue in plan.report.issues] == ["version_not_kept"]


def test_a_version_is_a_pep_440_version(project: Path) -> None:
    for version in ("one", "1.2.x", "", "1 0"):
        assert refused(UsageError, project, version=version).code == "bad_version"


def test_missing_build_inputs_are_named(project: Path, tmp_path: Path) -> None:
    assert "duel" in (refused(UsageError, tmp_path / "deul").hint or "")
    assert refused(UsageError, project / "Dockerfile").code == "bad_path"
    assert refused(UsageError, None).code == "compose_missing"
    assert refused(UsageError, None, compose=project / "compose.yaml").code == "template_missing"
    inputs = {"compose": project / "compose.yaml", "template": project / TEMPLATE_NAME}
    assert refused(UsageError, None, **inputs).code == "output_missing"
    error = refused(UsageError, project, compose=project / "compse.yaml")
    assert "compose.yaml" in (error.hint or "")
    error = refused(UsageError, project, template=project / "coworld_manifest_templte.json")
    assert TEMPLATE_NAME in (error.hint or "")
    (project / TEMPLATE_NAME).unlink()
    assert refused(UsageError, project).code == "template_missing"
    (project / "compose.yaml").unlink()
    (project / "Dockerfile").unlink()
    error = refused(UsageError, project)
    assert error.code == "compose_missing"
    assert "docker-compose.yml" in (error.hint or "")


def test_a_compose_file_above_the_project_will_do(project: Path) -> None:
    (project / "compose.yaml").rename(project.parent / "compose.yaml")
    (project / "Dockerfile").rename(project.parent / "Dockerfile")
    assert plan_build(project).compose.path == project.parent / "compose.yaml"


# --- checking before building


def test_all_template_errors_are_reported_at_once(project: Path) -> None:
    document = duel("{{DUAL_IMAGE}}", "x{{DUEL_IMAGE}}")
    del document["game"]["owner"]
    document["variants"][0]["game_config"] = {"width": "twelve"}
    document["certification"]["players"].append({"player_id": "nobody"})
    document["game"]["version"] = "1.0"
    write(project / TEMPLATE_NAME, document)
    error = refused(ManifestError, project)
    places = {issue.pointer for issue in error.report.errors}
    assert {
        "/game/version",
        "/game/runnable/image",
        "/player/0/image",
        "/variants/0/game_config/width",
        "/certification/players/2/player_id",
    } <= places
    assert all(issue.line for issue in error.report.errors)
    assert len(error.report.errors) == len({(issue.code, issue.pointer) for issue in error.report.errors})


def test_a_placeholder_without_a_service_lists_the_services(project: Path) -> None:
    write(project / TEMPLATE_NAME, duel("{{DEUL_IMAGE}}", "{{DUEL_IMAGE}}"))
    (issue,) = refused(ManifestError, project).report.errors
    assert (issue.code, issue.pointer) == ("unknown_placeholder", "/game/runnable/image")
    assert '"duel"' in issue.message
    assert "{{DUEL_IMAGE}}" in (issue.hint or "")


def test_a_template_must_not_have_a_version_unless_it_is_a_manifest(project: Path) -> None:
    document = duel()
    document["game"]["version"] = "3.1"
    write(project / TEMPLATE_NAME, document)
    (issue,) = refused(ManifestError, project).report.errors
    assert issue.pointer == "/game/version"
    path = write(project / MANIFEST_NAME, document)
    plan = plan_build(project, template=path, output=project / "dist.json")
    assert plan.version == "3.1"
    assert plan_build(project, template=path, output=project / "dist.json", version="3.2").version == "3.2"


@pytest.mark.parametrize("content", ["", "[]", "{", "null"])
def test_template_that_is_not_an_object_is_refused(project: Path, content: str) -> None:
    (project / TEMPLATE_NAME).write_text(content, "utf-8")
    assert refused(ManifestError, project).report.source == str(project / TEMPLATE_NAME)


def test_broken_compose_file_is_reported(project: Path) -> None:
    (project / "compose.yaml").write_text("services: {duel: 1}", "utf-8")
    assert refused(ManifestError, project).code == "compose_invalid"


def test_unread_compose_settings_are_reported(project: Path) -> None:
    (project / "compose.yaml").write_text("services:\n  duel:\n    build: .\n    image: duel:v1$NOPE\n", "utf-8")
    plan = plan_build(project, environment={})
    assert [issue.message.partition(" ")[0] for issue in plan.report.warnings] == ["compose.yaml:4:"]


def test_unpublished_image_is_reported(project: Path) -> None:
    write(project / TEMPLATE_NAME, duel(player="img_01234567-89ab-4def-8123-456789abcdef"))
    assert refused(ImageError, project).code == "image_unpublished"


def test_a_misspelt_image_is_pointed_out(project: Path) -> None:
    write(project / TEMPLATE_NAME, duel(game="dual:latest", player="dual:latest"))
    (issue,) = plan_build(project).report.warnings
    assert (issue.code, issue.hint) == ("image_not_built", "Did you mean 'duel'?")


# --- where it is written


def test_unwritable_output_is_refused(project: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for output, code in (
        (project, "output_is_directory"),
        (project / "compose.yaml", "output_is_input"),
        (project / TEMPLATE_NAME, "output_is_input"),
        (tmp_path / "file" / "m.json", "output_unwritable"),
        (tmp_path / "file" / "deeper" / "m.json", "output_unwritable"),
    ):
        assert refused(WorkspaceError, project, output=output).code == code


def test_output_cannot_overwrite_a_build_input(project: Path) -> None:
    document = duel("duel:latest", "duel:latest")
    document["game"]["version"] = "1.0"
    path = write(project / MANIFEST_NAME, document)
    assert refused(WorkspaceError, project, template=path, output=path).code == "output_is_input"
    assert plan_build(project, template=path, version="1.1").output == project / "dist" / MANIFEST_NAME
    (project / "compose.yaml").unlink()
    assert refused(WorkspaceError, project, output=project / "Dockerfile").code == "output_is_input"


# --- without a compose file


@pytest.fixture
def alone(project: Path) -> Path:
    """A package of a Dockerfile and a template."""
    (project / "compose.yaml").unlink()
    return project


def test_a_dockerfile_is_the_service_of_the_only_placeholder(alone: Path) -> None:
    plan = plan_build(alone)
    (service,) = plan.services
    assert (service.name, service.image, service.placeholder) == ("duel", "duel-duel", "{{DUEL_IMAGE}}")
    assert service.build is not None
    assert (service.build.context, service.build.dockerfile) == (alone, "Dockerfile")
    assert plan.manifest.images() == ("duel-duel",)


def test_the_only_image_that_can_be_built_here_needs_no_placeholder(alone: Path) -> None:
    write(alone / TEMPLATE_NAME, duel("duel:latest", "ghcr.io/someone/bot:1"))
    plan = plan_build(alone)
    assert [(service.name, service.image) for service in plan.services] == [("duel", "duel:latest")]


def test_dockerfile_for_several_placeholders_needs_a_service(alone: Path) -> None:
    write(alone / TEMPLATE_NAME, duel("{{DUEL_IMAGE}}", "{{BOT_IMAGE}}"))
    error = refused(UsageError, alone)
    assert (error.code, hint_fields(error.hint)["hint_code"]) == ("service_missing", "name_service")
    (issue,) = refused(ManifestError, alone, service="duel").report.errors
    assert issue.code == "unknown_placeholder"
    write(alone / TEMPLATE_NAME, duel("{{DUEL_IMAGE}}", "bot:1"))
    assert [service.image for service in plan_build(alone, service="duel").services] == ["duel-duel"]


def test_each_directory_with_a_dockerfile_is_a_service(alone: Path) -> None:
    for name in ("game", "player"):
        (alone / name).mkdir()
        (alone / name / "Dockerfile").write_bytes((alone / "Dockerfile").read_bytes())
    (alone / "Dockerfile").unlink()
    write(alone / TEMPLATE_NAME, duel("{{GAME_IMAGE}}", "duel-player:3"))
    plan = plan_build(alone)
    assert [(service.name, service.image) for service in plan.services] == [
        ("game", "duel-game"),
        ("player", "duel-player:3"),
    ]
    assert [service.build and service.build.context for service in plan.services] == [alone / "game", alone / "player"]
    assert [service.name for service in plan_build(alone, service="game").services if service.build] == ["game"]


def test_one_of_several_services_is_built(project: Path) -> None:
    (project / "compose.yaml").write_text("services: {duel: {build: .}, bot: {build: .}}\n", "utf-8")
    write(project / TEMPLATE_NAME, duel("{{DUEL_IMAGE}}", "{{BOT_IMAGE}}"))
    plan = plan_build(project, service="bot")
    assert {service.name: service.build is not None for service in plan.services} == {"duel": False, "bot": True}
    assert "bot" in (refused(UsageError, project, service="bto").hint or "")


def test_a_template_may_have_any_name(project: Path) -> None:
    named = (project / TEMPLATE_NAME).rename(project / "anything.json")
    (project / "package.json").write_text("{}", "utf-8")
    assert plan_build(project).template == plan_build(named).template == named
    write(project / "other.json", duel())
    assert "several templates" in str(refused(UsageError, project))


# --- what is built

MANY = """
services:
  game: {image: 'x/game', build: {context: game}}
  base: {image: 'x/base:latest', build: base}
  tools: {image: 'docker.io/x/tools:1', build: tools}
  worker: {image: 'x/game'}
  database: {image: 'postgres:16'}
  extra: {image: 'x/extra', build: extra}
"""


@pytest.fixture
def many(project: Path) -> Path:
    """A package of several services, some built from others."""
    (project / "compose.yaml").write_text(MANY, "utf-8")
    for name, text in {
        "game": "FROM x/base\nCOPY --from=x/tools:1 /t /t\n",
        "base": "ARG B=scratch\nFROM $B\n",
        "tools": "FROM scratch\n",
        "extra": "FROM scratch\n",
    }.items():
        (project / name).mkdir()
        (project / name / "Dockerfile").write_text(text, "utf-8")
    write(project / TEMPLATE_NAME, duel("{{WORKER_IMAGE}}", "{{GAME_IMAGE}}"))
    return project


def names(plan: BuildPlan) -> list[str]:
    return [service.name for service in plan.services]


def test_only_what_the_manifest_needs_is_built(many: Path) -> None:
    plan = plan_build(many)
    assert names(plan) == ["game", "base", "tools"]
    assert plan.skipped == ("extra",)
    write(many / TEMPLATE_NAME, duel("x/tools:1", "{{DATABASE_IMAGE}}"))
    plan = plan_build(many)
    # An image named as it is counts like its placeholder; the canonical names are the same
    assert names(plan) == ["tools", "database"]
    assert plan.skipped == ("game", "base", "extra")


def test_one_image_is_not_built_in_two_ways(many: Path) -> None:
    text = (many / "compose.yaml").read_text("utf-8")
    (many / "compose.yaml").write_text(
        text.replace("worker: {image: 'x/game'}", "worker: {image: 'x/game', build: extra}")
    )
    (issue,) = refused(ManifestError, many).report.errors
    assert issue.code == "image_clash"
    assert "'worker'" in issue.message


async def without_engine(project: Path, **options: Any) -> CoworldError:
    with pytest.raises(CoworldError) as caught:
        await build_coworld(project, host=NO_ENGINE, **options)
    assert not (project / MANIFEST_NAME).exists()
    return caught.value


async def test_images_built_from_each_other(many: Path) -> None:
    (many / "base" / "Dockerfile").write_text("FROM x/game\n", "utf-8")
    error = await without_engine(many)
    assert (type(error), error.code) == (BuildError, "build_cycle")
    assert "'base' and 'game'" in error.message
    # An argument of the caller's decides, too
    (many / "base" / "Dockerfile").write_text("ARG B=scratch\nFROM $B\n", "utf-8")
    assert (await without_engine(many, build_args={"B": "x/game"})).code == "build_cycle"
    assert isinstance(await without_engine(many), BackendUnavailable)


def spoil_context(project: Path) -> None:
    (project / "compose.yaml").write_text("services: {duel: {image: duel, build: nowhere}}", "utf-8")


def spoil_dockerfile(project: Path) -> None:
    (project / "Dockerfile").unlink()


def spoil_text(project: Path) -> None:
    (project / "Dockerfile").write_bytes(b"FROM \xff")


def spoil_from(project: Path) -> None:
    (project / "Dockerfile").write_text("RUN true\n", "utf-8")


def spoil_target(project: Path) -> None:
    (project / "Dockerfile").write_text("FROM a AS run\nFROM b\n", "utf-8")
    (project / "compose.yaml").write_text("services: {duel: {image: duel, build: {context: ., target: rn}}}", "utf-8")


def spoil_ignore(project: Path) -> None:
    (project / ".dockerignore").write_text("ok\n[", "utf-8")


@pytest.mark.parametrize(
    ("spoil", "code", "words"),
    [
        (spoil_context, "build_context", "does not exist"),
        (spoil_dockerfile, "build_context", "there is no"),
        (spoil_text, "build_context", "not UTF-8"),
        (spoil_from, "dockerfile_invalid", "has no FROM"),
        (spoil_target, "target_missing", "no stage 'rn'"),
        (spoil_ignore, "build_context", "line 2"),
    ],
)
async def test_impossible_build_is_refused_before_the_engine_is_used(
    project: Path, spoil: Callable[[Path], None], code: str, words: str
) -> None:
    spoil(project)
    error = await without_engine(project)
    assert (type(error), error.code) == (BuildError, code)
    assert words in error.message
    assert "'duel'" in error.message


async def test_a_platform_and_a_number_are_checked_first(project: Path) -> None:
    assert (await without_engine(project, platform="amd64")).code == "bad_platform"
    assert (await without_engine(project, parallel=0)).code == "bad_parallel"


def test_without_an_engine_nothing_is_written(project: Path) -> None:
    events: list[BaseEvent] = []

    async def build() -> None:
        await build_coworld(project, host=NO_ENGINE, publish=events.append)

    with pytest.raises(BackendUnavailable):
        anyio.run(build)
    kinds = [event.model_dump()["kind"] for event in events]
    assert kinds[-1] == "run_finished"
    assert events[-1].model_dump()["status"] == "failed"
    assert {path.name for path in project.iterdir()} == {"compose.yaml", "Dockerfile", TEMPLATE_NAME}
