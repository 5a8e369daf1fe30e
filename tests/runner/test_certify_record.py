"""The record of a certification: written on every path, the same shape always, and never a secret in it."""

import dataclasses
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, get_args

import anyio
import jsonschema
import pytest
from pydantic import ValidationError
from support.certification_page import assert_self_contained
from support.formats import LATER, files, only_what_was_there, unknown, with_added_fields, with_later_values
from support.small_world import MANIFEST, WithImages, fast, package_of, world

from coworld_core.certificate import read_certificate
from coworld_core.episode.events import (
    BaseEvent,
    Notice,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
    read_events,
)
from coworld_core.errors import BackendUnavailable, CertificationError, ManifestError, RecordError, WorkspaceError
from coworld_core.manifest.manifest_file import load_manifest
from coworld_runner.backend import Publish, Unit, UnitSpec
from coworld_runner.certification import (
    TRANSCRIPT,
    Certification,
    certify,
    certify_refused,
    read_certification,
    render_page,
)
from coworld_runner.certification import certification_record as record_module
from coworld_runner.certification.certification_record import StepId
from coworld_runner.certification.document_schemas import document_schema
from coworld_runner.certification.transcript import OWN_STEPS
from coworld_runner.package.resolver import Package, resolve_package
from coworld_runner.testing.fake_backend import FakeBackend

STEPS = [
    "matriculate",
    "source-resolves",
    "images-reachable",
    "fixture-conforms",
    "smoke-episode",
    "results-conform",
    "replay-present",
    "replay-loadable",
    "players-run",
    "supporting-roles",
]
"""The published ones."""
OURS = ["clients-handled", "seed-repeats"]


def read(directory: Path) -> Certification:
    """The record in a workspace; all files must be there, with a certificate if the certification came to its end."""
    assert {path.name for path in directory.iterdir()} >= {"certification.json", "certification.html", "events.ndjson"}
    record = json.loads((directory / "certification.json").read_bytes())
    complete = record["status"] == "completed" and record["coworld"]
    names = {path.name for path in directory.glob("certifi*.json")}
    assert names == {"certification.json", *(("certificate.json", "certified_manifest.json") if complete else ())}
    if complete:
        jsonschema.validate(json.loads((directory / "certificate.json").read_bytes()), document_schema("certificate"))
    text = (directory / "certification.json").read_text()
    jsonschema.validate(json.loads(text), document_schema("certification"))
    return read_certification(directory)


def names(directory: Path) -> list[str]:
    """What is in a directory."""
    return sorted(path.name for path in directory.iterdir())


# --- the transcript -----------------------------------------------------------------------------------------------


def test_the_transcript_has_the_published_steps_in_order_and_then_ours() -> None:
    assert TRANSCRIPT.name == "coworld-executable"
    assert [[step.id for step in TRANSCRIPT.steps], [step.id for step in OWN_STEPS]] == [
        STEPS,
        [*OURS, "pages-drawn", "rules-audit"],
    ]
    assert {step.kind for step in TRANSCRIPT.steps} == {"auto"}
    assert all(step.checks and step.criterion and step.how for step in TRANSCRIPT.steps)


def test_the_transcripts_markdown_is_one_table_that_reads_back() -> None:
    rows = [line for line in TRANSCRIPT.markdown().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert cells[0] == ["id", "kind", "checks", "pass", "how"]
    assert set(cells[1]) == {"---"}
    assert [tuple(row) for row in cells[2:]] == [
        (step.id, step.kind, step.checks, step.criterion, step.how) for step in TRANSCRIPT.steps
    ]


# --- whole ones ---------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Whole:
    """A certification from its first step to its last, which the tests only read."""

    directory: Path
    found: Certification
    events: list[BaseEvent]
    sha256: str

    @property
    def page(self) -> str:
        return (self.directory / "certification.html").read_text()

    def codes(self, step: StepId) -> set[str]:
        return {item.code for item in self.found.step(step).evidence}


def whole(directory: Path, **subject: Any) -> Whole:
    def package(manifest: dict[str, Any]) -> Package:
        path = directory.parent / "coworld_manifest.json"
        path.write_text(json.dumps(manifest, indent=2))
        return package_of(manifest, path)

    async def run() -> Whole:
        events: list[BaseEvent] = []
        async with world(**subject, package=package) as small:
            found = await small.certify(directory, events=events)
            return Whole(directory, found, events, small.package.sha256)

    return anyio.run(run)


@pytest.fixture(scope="module")
def flawed(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """One that fails several steps, leaks its tokens, and has hostile text in its manifest."""

    def change(manifest: dict[str, Any]) -> None:
        manifest["game"]["protocols"]["player"] = "bare text"
        manifest["game"]["runnable"]["source_url"] = "https://x.example/\u202e\x1b[31m<b>"

    return whole(
        tmp_path_factory.mktemp("flawed") / "out",
        game_vices=("wrong_scores", "no_page_for_1", "knows_no_zlib", "leaks_tokens"),
        change=change,
    )


def test_a_good_coworld_is_executable_and_its_record_and_page_say_so(tmp_path: Path) -> None:
    def change(manifest: dict[str, Any]) -> None:
        # A second and a half: enough for a client to come late
        manifest["game"]["config_schema"]["properties"]["seed"] = {"type": "integer"}
        manifest["certification"]["game_config"] = {"ticks": 30, "tick_seconds": 0.05, "seed": 7}

    good = whole(tmp_path / "out", change=change, backend=WithImages)
    found = good.found
    assert (found.verdict, found.status, found.failed, found.caveats) == ("Executable", "completed", (), ())
    assert {step.status for step in found.all_steps} == {"pass"}
    assert not any(item.broken for step in found.all_steps for item in step.evidence)
    assert found.scores == (1.0, 2.5)
    assert found.standings == (("First (first)", 1.0), ("Second (second)", 2.5))
    assert found.model_copy(update={"slots": ()}).standings == (("slot 0", 1.0), ("slot 1", 2.5))
    assert [(record.image, record.platform) for record in found.images] == [
        ("counting-game", "linux/amd64"),
        ("counting-player", "linux/amd64"),
    ]
    assert found.step("images-reachable").detail == "2 images for linux/amd64, all available."
    assert good.codes("smoke-episode") >= {
        "slot_page",
        "viewer_page",
        "refuses_wrong_token",
        "refuses_empty_token",
        "refuses_missing_token",
        "refuses_other_slots_token",
        "refuses_slot_out_of_range",
        "refuses_negative_slot",
        "refuses_missing_slot",
        "refuses_slot_not_a_number",
        "viewer",
        "late_viewer",
    }
    assert [item.slot for item in found.step("smoke-episode").evidence if item.code == "slot_page"] == [0, 1]
    assert good.codes("players-run") == {"player_ran"}
    assert good.codes("replay-loadable") == {"replay_shown"}
    assert found.step("supporting-roles").detail == "no supporting roles declared"
    assert good.codes("clients-handled") == {
        "answers_ping",
        "survives_malformed",
        "survives_binary",
        "survives_oversized",
        "finishes",
        "reconnects",
        "reconnects_before_start",
        "viewer_after_end",
    }
    back = [item.slot for item in found.step("clients-handled").evidence if item.code == "reconnects"]
    assert back == [0, 1]
    assert found.step("seed-repeats").detail == "Two episodes with the same seed ended alike."

    assert read(good.directory) == found
    assert (found.schema_version, found.transcript, found.transcript_sha256) == (
        1,
        "coworld-executable",
        TRANSCRIPT.sha256,
    )
    said = (found.coworld, found.version, found.backend, found.manifest_sha256)
    assert said == ("counting", "1.2.3", "fake", good.sha256)
    assert [step.id for step in found.all_steps] == [*STEPS, *OURS]
    assert found.matriculated_at is not None
    assert found.graduated_at is not None
    assert found.started_at <= found.matriculated_at <= found.graduated_at <= found.ended_at
    assert found.versions.keys() >= {"coworld-core", "coworld-runner", "python"}
    assert found.episode == "episode/episode.json"
    assert (good.directory / found.episode).exists()
    document = json.loads((good.directory / "certification.json").read_text())
    assert set(document["steps"][0]) >= {"id", "kind", "checks", "pass", "how", "status"}
    assert found.raise_for_verdict() is found

    page = assert_self_contained(good.page)
    certificate, _ = read_certificate(good.directory)
    for text in ("Executable", "First (first) 1, Second (second) 2.5", certificate.id, certificate.content.digest):
        assert text in page.text
    assert "Not certified" not in page.text


def test_steps_go_on_after_a_failure(flawed: Whole) -> None:
    found = flawed.found
    assert {step.id: step.failure_reason for step in found.failed} == {
        "matriculate": "manifest_invalid",
        "smoke-episode": "game_contract_violation",
        "results-conform": "results_malformed",
        "replay-loadable": "replay_unloadable",
    }
    assert (found.step("replay-present").status, found.step("players-run").status) == ("pass", "pass")
    # A game that breaks the contract is not played again
    assert {step.skip_reason for step in found.own_steps} == {"premise_failed"}


def test_a_failed_one_can_be_raised(flawed: Whole) -> None:
    found = flawed.found
    assert read(flawed.directory) == found
    with pytest.raises(CertificationError) as raised:
        found.raise_for_verdict()
    assert (raised.value.code, raised.value.context["step"]) == ("manifest_invalid", "matriculate")
    assert found.graduated_at is None
    assert "replay-loadable" in found.statement


def test_events_tell_each_step_and_the_episode_has_its_own(flawed: Whole) -> None:
    events = flawed.events
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    first, last = events[0], events[-1]
    assert isinstance(first, RunStarted)
    assert first.what == "certification"
    assert isinstance(last, RunFinished)
    assert not last.ok
    assert [event.step for event in events if isinstance(event, StepStarted)] == [*STEPS, *OURS]
    ends = [event for event in events if isinstance(event, StepFinished)]
    assert [(event.step, event.status) for event in ends] == [(step.id, step.status) for step in flawed.found.all_steps]
    assert list(read_events(flawed.directory)) == events
    assert {event.run_id for event in events} == {flawed.found.run_id}
    assert any(isinstance(event, Notice) and "secret token" in event.message for event in events)
    episode = read_events(flawed.directory / "episode")
    assert isinstance(episode[0], RunStarted)
    assert (episode[0].what, episode[0].run_id == flawed.found.run_id) == ("episode", False)


def test_leaked_tokens_are_not_leaked_a_second_time(flawed: Whole) -> None:
    token = (flawed.directory / "episode/logs/game.stdout.log").read_text().partition("token=")[2].partition(" ")[0]
    assert len(token) == 22
    for name in ("certification.json", "certification.html", "events.ndjson"):
        assert token not in (flawed.directory / name).read_text()


def test_the_page_of_a_failed_one_tells_everything(flawed: Whole) -> None:
    found = flawed.found
    certificate, _ = read_certificate(flawed.directory)
    assert certificate.verdict is None
    assert flawed.page == render_page(found, certificate)
    assert not any("\x1b" in item.message for step in found.steps for item in step.evidence)
    page = assert_self_contained(flawed.page)
    for step in found.steps:
        for text in (step.id, step.detail, step.checks, step.criterion, *(item.message for item in step.evidence)):
            assert shown(text) in page.text
    assert found.statement in page.text
    assert all(shown(caveat) in page.text for caveat in found.caveats)
    for text in (found.manifest_sha256, found.run_id, "Not certified"):
        assert text in page.text
    opened = [attrs for tag, attrs in page.tags if tag == "details"]
    assert sum("open" in attrs for attrs in opened) == sum(step.status != "pass" for step in found.all_steps)


def shown(text: str) -> str:
    """How the page shows a text that reverses the reading direction."""
    return text.replace("\u202e", "\N{REPLACEMENT CHARACTER}202E")


# --- other ways out -----------------------------------------------------------------------------------------------


async def test_an_interrupted_one_is_written_down(tmp_path: Path) -> None:
    async with world(game_vices=("never_ready",)) as slow:
        with anyio.CancelScope() as scope:

            def stop(event: BaseEvent) -> None:
                if event.kind == "unit_started":  # type: ignore[attr-defined]
                    scope.cancel()

            await certify(
                slow.package,
                backend=slow.backend,
                workspace=tmp_path / "out",
                options=fast(),
                episode_listeners=(stop,),
            )
    assert scope.cancelled_caught
    found = read(tmp_path / "out")
    assert (found.status, found.verdict) == ("interrupted", None)
    assert [step.id for step in found.all_steps] == [*STEPS, *OURS]
    assert {step.skip_reason for step in found.steps[4:]} == {"interrupted"}
    assert found.steps[0].status == "pass"
    # The episode that was cut short has written its own record, too
    assert found.episode == "episode/episode.json"
    assert json.loads((tmp_path / "out/episode/episode.json").read_text())["status"] == "interrupted"


class EngineDies(FakeBackend):
    """A backend whose engine is gone when the episode begins."""

    @asynccontextmanager
    async def units(
        self, specs: Sequence[UnitSpec], *, publish: Publish, start: bool = True, grace: float = 5.0
    ) -> AsyncGenerator[tuple[Unit, ...], None]:
        raise BackendUnavailable("The engine does not answer any more.", hint="Start it again.")
        yield ()


async def test_a_broken_engine_is_not_the_coworlds_failure(tmp_path: Path) -> None:
    async with world(backend=EngineDies) as unlucky:
        with pytest.raises(BackendUnavailable) as raised:
            await unlucky.certify(tmp_path / "out")
    assert raised.value.context["workspace"] == str(tmp_path / "out")
    found = read(tmp_path / "out")
    assert (found.status, found.verdict, found.failed) == ("failed", None, ())
    assert {step.skip_reason for step in found.steps[4:]} == {"platform_error"}
    assert found.trouble == "The engine does not answer any more."
    with pytest.raises(CertificationError):
        found.raise_for_verdict()


async def test_internal_error_is_recorded_and_raised(tmp_path: Path) -> None:
    class Buggy(FakeBackend):
        async def ensure_image(self, image: str, **options: Any) -> Any:
            raise ZeroDivisionError("bug")

    async with world(backend=Buggy) as unlucky:
        with pytest.raises(BaseException) as raised:
            await unlucky.certify(tmp_path / "out")
    assert "ZeroDivisionError" in repr(raised.value)
    found = read(tmp_path / "out")
    assert found.status == "failed"
    assert "ZeroDivisionError" in (found.trouble or "")
    assert found.step("images-reachable").skip_reason == "platform_error"


@pytest.mark.parametrize("from_file", [True, False])
async def test_a_manifest_that_cannot_be_read_gets_a_record_with_every_issue(tmp_path: Path, from_file: bool) -> None:
    document = json.loads(json.dumps(MANIFEST))
    del document["game"]["version"]
    document["certification"]["game_config"]["ticks"] = "eight"
    path = tmp_path / "coworld_manifest.json"
    path.write_text(json.dumps(document, indent=2))
    with pytest.raises(ManifestError) as refused:
        load_manifest(path if from_file else document)
    found = await certify_refused(refused.value, workspace=tmp_path / "out")
    assert read(tmp_path / "out") == found
    assert {step.id: step.failure_reason for step in found.failed} == {
        "matriculate": "manifest_invalid",
        "fixture-conforms": "fixture_invalid",
    }
    issues = found.step("matriculate").broken
    assert {issue.pointer for issue in issues} >= {"/game", "/certification/game_config/ticks"}
    if from_file:
        assert all(issue.line for issue in issues)
        assert found.manifest == str(path)
    assert {step.skip_reason for step in found.steps if step.status == "skip"} == {"premise_failed"}
    assert not (tmp_path / "out/episode").exists()


async def test_a_template_with_an_error_is_not_told_that_it_is_a_template(tmp_path: Path) -> None:
    template = json.loads((Path(__file__).parents[2] / "examples/nim/coworld_manifest_template.json").read_text())
    del template["game"]["config_schema"]
    (tmp_path / "coworld_manifest_template.json").write_text(json.dumps(template))
    with pytest.raises(ManifestError) as refused:
        await resolve_package(tmp_path)
    found = await certify_refused(refused.value, workspace=tmp_path / "out")
    broken = [(issue.code, issue.pointer) for issue in found.step("matriculate").broken]
    assert broken == [("missing_field", "/game")]


async def test_a_refused_manifest_without_wrong_configs_skips_them(tmp_path: Path) -> None:
    with pytest.raises(ManifestError) as refused:
        load_manifest(b"{not json")
    found = await certify_refused(refused.value, workspace=tmp_path / "out")
    assert [step.id for step in found.failed] == ["matriculate"]
    assert found.step("fixture-conforms").skip_reason == "premise_failed"


async def test_a_workspace_in_use_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    async with world() as good:
        with pytest.raises(WorkspaceError):
            await good.certify(tmp_path)
    assert names(tmp_path) == ["mine.txt"]


async def test_overwriting_and_the_latest_link(tmp_path: Path) -> None:
    place = tmp_path / "results" / "one"
    async with world(game_vices=("fails_unready",)) as bad:
        before = await bad.certify(place)
        found = await certify(
            bad.package, backend=bad.backend, workspace=place, options=fast(), overwrite=True, latest=True
        )
    assert before.run_id != found.run_id
    assert read(tmp_path / "results" / "latest") == found


# --- files of any version -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", files("certification.json"), ids=lambda path: "/".join(path.parts[-3:]))
def test_a_record_reads_and_is_written_as_it_was(path: Path) -> None:
    written = path.read_text()
    assert unknown(read_certification(path)) == []
    again = only_what_was_there(json.loads(read_certification(path.parent).to_json()), json.loads(written))
    assert json.dumps(again, indent=2, ensure_ascii=False) + "\n" == written


def test_fields_of_later_versions_are_kept() -> None:
    (path,) = files("certified/certification.json")
    later = with_later_values(with_added_fields(json.loads(path.read_bytes())))
    found = read_certification(later)
    assert only_what_was_there(json.loads(found.to_json()), later) == later
    assert (found.ok, found.verdict, found.failed, found.advice) == (True, LATER, (), ())
    assert all(step.status == LATER for step in found.steps)
    with pytest.raises(ValidationError):
        Certification.model_validate(later)


def test_malformed_certification_record_is_a_record_error() -> None:
    with pytest.raises(RecordError, match='The certification record lacks "transcript"'):
        read_certification({"schema_version": 1})


def test_every_step_says_in_words_what_it_checks() -> None:
    assert set(record_module._CAPTIONS) == set(get_args(get_args(record_module.StepId)[0]))
