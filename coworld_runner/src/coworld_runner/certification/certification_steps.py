"""Implementation of the certification steps.

A step is a function of the candidate and of the findings so far. The table `STEPS` maps each step to its function
and premises.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from coworld_core.episode.events import BaseEvent, ProbeFinished
from coworld_core.episode.outcome import decisive
from coworld_core.episode.record import EpisodeRecord, read_record
from coworld_core.errors import CoworldError, ImageError, ManifestError
from coworld_core.hints import Hint
from coworld_core.issues import Report
from coworld_core.manifest.game_results import check_results
from coworld_core.manifest.manifest_file import check_manifest, dump_manifest
from coworld_core.role_kinds import ROLE_SECTIONS, ROLES
from coworld_core.text.phrases import listed

from ..episode.single import run_episode
from ..package.plan import plan_episode
from ..roles.role_program import declared_elsewhere, declared_ids
from .candidate import Candidate
from .certification_record import Evidence, SkipReason, StepId
from .commissioner_check import check_commissioners
from .config_check import check_configs, configs_of_refused
from .declared_roles import run_declared_roles
from .further_steps import clients_handled, pages_drawn, rules_audit, seed_repeats
from .package_content import package_files
from .player_presence import check_attendance
from .replay_steps import replay_is_there, replay_loadable, replay_present
from .source_references import check_sources
from .step_answers import (
    StepAnswer,
    about_results,
    advice,
    failed_on,
    fault_evidence,
    issue_evidence,
    missing,
    note,
    passed,
    required,
    skipped,
)
from .step_ledger import EPISODE, StepLedger

__all__ = ["STEPS", "blamed_in", "carry_out", "say_of_refused"]


async def _matriculate(candidate: Candidate, ledger: StepLedger) -> StepAnswer:
    sources = not candidate.backend.capabilities.images
    ledger.files = await anyio.to_thread.run_sync(partial(package_files, candidate.package, sources=sources))
    report = await anyio.to_thread.run_sync(_strict_report, candidate)
    ledger.issues = report.issues
    if report.errors:
        return _manifest_invalid(report)
    ledger.matriculated_at = dt.datetime.now(dt.UTC)
    evidence = [issue_evidence(issue) for issue in report.issues]
    if candidate.package.is_template:
        caveat = (
            "This is a template: a build puts version and images in, so this says nothing about what will be published."
        )
        ledger.caveats.append(caveat)
        evidence.append(advice("template", caveat, hint="Build it, and certify what was built."))
    if published := candidate.options.published:
        caveat = f"It was certified by the rules of {published}, not by today's."
        ledger.caveats.append(caveat)
        evidence.append(note("published_rules", caveat))
    if given := candidate.package.environment:
        caveat = f"It ran with {listed(given)} added to its environment; this says nothing about how it runs without."
        ledger.caveats.append(caveat)
        evidence.append(advice("environment_given", caveat, hint="Set it in the manifest, or in the Dockerfile."))
    game = candidate.manifest.game
    return passed(f"The manifest of {game.name} {game.version} has no errors.", evidence)


def _strict_report(candidate: Candidate) -> Report:
    """Check the manifest strictly, by the rules that apply; issues have file positions if there is a file."""
    package, published = candidate.package, candidate.options.published
    if published == "0.1.7":
        # Older forms are valid in that version, and unreadable manifests were refused before
        return package.report
    # A backend without images runs a template as it is, and could certify nothing else
    template = package.is_template and not candidate.backend.capabilities.images
    if package.path is not None:
        report = check_manifest(package.path, mode="strict", template=template, published=published)
    else:
        report = Report(source=package.source)
        try:
            text = dump_manifest(package.manifest, template=template)
            if published is not None:
                report = check_manifest(text.encode(), mode="strict", template=template, published=published)
        except ManifestError as error:
            report = error.report
    # A published version plays a Coworld without tags, but does not certify it
    issues = [
        issue.model_copy(update={"severity": "error"}) if issue.code == "tags_missing" else issue
        for issue in report.issues
    ]
    report = report.model_copy(update={"issues": tuple(issues)})
    known = {(issue.code, issue.pointer) for issue in report.issues}
    return report.extended(issue for issue in package.report.issues if (issue.code, issue.pointer) not in known)


def _strict_report_of_refused(report: Report) -> Report:
    source = Path(report.source)
    # The strict rules find at least as much as the rules that refused it
    strict = check_manifest(source, mode="strict") if source.is_file() else report
    if "template_not_built" in _codes(strict) - _codes(report):
        # A template was welcome
        strict = check_manifest(source, mode="strict", template=True)
    return strict if strict.errors else report


def _codes(report: Report) -> set[str]:
    return {issue.code for issue in report.issues}


def _manifest_invalid(report: Report) -> StepAnswer:
    evidence = [issue_evidence(issue) for issue in report.issues]
    return failed_on("manifest_invalid", evidence, hint="Correct the manifest, and certify again.")


async def _source_resolves(candidate: Candidate, ledger: StepLedger) -> StepAnswer:
    sources = ledger.sources = await check_sources(candidate.manifest, options=candidate.options.sources)
    hints = {
        "source_not_pinned": Hint(
            "pin_source", "build_coworld pins it once it is pushed; or link to …/tree/<full SHA>/<path>."
        ),
        "source_not_found": "Push the commit, or correct the address.",
        "source_empty": "Link to where the source is.",
        "source_without_dockerfile": "Put the Dockerfile beside the source, or above it.",
    }
    evidence = [
        required(
            record.code,
            ok=record.status == "resolved",
            # An unpinned source still exists
            level="required"
            if record.status in ("resolved", "unresolved") and record.code != "source_not_pinned"
            else "advice",
            message=f"{record.runnable}: {record.message}" + (f" ({record.url})" if record.url else ""),
            hint=hints.get(record.code),
        )
        for record in sources
        if record.status != "not_declared"
    ]
    undeclared = [record.runnable for record in sources if record.status == "not_declared"]
    if undeclared:
        message = f"No source_url is declared for {listed(undeclared, limit=6)}."
        evidence.append(advice("source_not_declared", message, hint="Set it, so that others can see what runs."))
    if any(item.broken for item in evidence):
        return failed_on("source_unresolved", evidence)
    reasons: dict[str, SkipReason] = {"unreached": "source_unreachable", "unsupported": "source_unsupported"}
    for status, reason in reasons.items():
        undecided = [record for record in sources if record.status == status]
        if undecided:
            detail = f"Not decided for {listed([record.runnable for record in undecided], limit=4)}: "
            return skipped(reason, detail + undecided[0].message, evidence)
    resolved = sum(record.status == "resolved" for record in sources)
    if not resolved:
        none = "No source is declared" if len(undeclared) == len(sources) else "No source is pinned to a commit"
        return passed(f"{none}, so there is nothing to look up.", evidence)
    return passed(f"The source of {resolved} of {len(sources)} programs is declared, and is there.", evidence)


async def _images_reachable(candidate: Candidate, ledger: StepLedger) -> StepAnswer:
    manifest, backend, options = candidate.manifest, candidate.backend, candidate.options
    uses_images = backend.capabilities.images
    users: dict[str, list[str]] = {manifest.game.runnable.image: ["game"]}
    # Without images, only programs that the episode runs need a directory to run in
    for entry in manifest.roles() if uses_images else manifest.player:
        if entry.file is not None:
            continue
        users.setdefault(entry.image, []).append(f"{entry.type} {entry.id}")
    found: dict[str, Evidence] = {}

    async def have(image: str) -> None:
        found[image] = await _have_image(candidate, ledger, image, listed(users[image], limit=4))

    with anyio.move_on_after(options.images_timeout):
        async with anyio.create_task_group() as group:
            for image in users:
                group.start_soon(have, image)
    for image in users.keys() - found.keys():
        late = f"{image} was not available after {options.images_timeout:g} s."
        found[image] = required("image_unreachable", ok=False, message=late)
    evidence = [found[image] for image in users]
    evidence += [
        advice("image_emulated", f"{info.image} is for {info.platform}, which this machine has to emulate.")
        for info in ledger.images.values()
        if info.emulated
    ]
    if any(item.broken for item in evidence):
        return failed_on("image_unreachable", evidence)
    if not uses_images:
        detail = (
            f"The {backend.name} backend runs commands in the directories that images are built from; the images "
            "themselves were not checked."
        )
        return skipped(
            "not_applicable", detail, evidence, hint=Hint("certify_images", 'Certify with backend="docker", too.')
        )
    count = f"{len(users)} {'image' if len(users) == 1 else 'images'}"
    return passed(f"{count} for {options.platform}, all available.", evidence)


async def _have_image(candidate: Candidate, ledger: StepLedger, image: str, who: str) -> Evidence:
    try:
        info = await candidate.backend.ensure_image(image, platform=candidate.platform, publish=candidate.publish)
    except ImageError as error:
        return required(error.code, ok=False, message=f"{error.message} (image of {who})", hint=error.hint)
    ledger.images[image] = info
    if not candidate.backend.capabilities.images:
        return note("image_context", f"{image} ({who}) runs in {info.context or 'this process'}.")
    what = ", ".join(part for part in (info.digest, info.platform) if part)
    return required("image_present", ok=True, message=f"{image} ({who}) is available{what and f': {what}'}.")


async def _fixture_conforms(candidate: Candidate, ledger: StepLedger) -> StepAnswer:
    configs = await anyio.to_thread.run_sync(check_configs, candidate.manifest, ledger.issues)
    ledger.fixture_ok = configs.fixture_ok
    return configs.answer


def _fixture_is_right(_: Candidate, ledger: StepLedger) -> StepAnswer | None:
    return None if ledger.fixture_ok else missing("fixture-conforms", "the fixture is not a valid config for this game")


def _fixture_has_images(candidate: Candidate, ledger: StepLedger) -> StepAnswer | None:
    manifest = candidate.manifest
    seated = {entry.player_id for entry in manifest.certification.players}
    players = (player.image for player in manifest.player if player.id in seated and player.file is None)
    needed = {manifest.game.runnable.image, *players}
    lacking = sorted(needed - ledger.images.keys())
    return missing("images-reachable", f"without {listed(lacking)} nothing can be played") if lacking else None


async def _smoke_episode(candidate: Candidate, ledger: StepLedger) -> StepAnswer:
    checks: list[ProbeFinished] = []
    ledger.probes.pings = candidate.options.published == "0.1.64"
    record = ledger.episode = await _play(candidate, ledger, checks)
    probes = ledger.probes
    blamed = blamed_in(record)
    evidence = [*probes.before, *blamed, *_usual_checks(checks), *probes.evidence]
    if record.over_seconds is not None and not any(item.code == "late_viewer" for item in evidence):
        evidence.append(note("late_viewer", "Not checked: the game was over before a viewer could come late."))
    evidence += _remarks(record)
    before, during = ([item for item in seen if item.broken] for seen in (probes.before, probes.evidence))
    # In chronological order: a game that admits strangers may have made a player fail
    broken = before or blamed or during
    if broken:
        reason = broken[0].code if broken is blamed else "game_contract_violation"
        return failed_on(reason, evidence, broken=broken)
    return passed(f"Played to its end in {record.seconds:.1f} s, and the contract was kept.", evidence)


async def _play(candidate: Candidate, ledger: StepLedger, checks: list[ProbeFinished]) -> EpisodeRecord:
    options = candidate.options.episode

    def note_check(event: BaseEvent) -> None:
        # Shown as evidence only: the episode itself judges by its faults
        if isinstance(event, ProbeFinished):
            checks.append(event)

    try:
        return await run_episode(
            plan_episode(candidate.package),
            backend=candidate.backend,
            workspace=candidate.episode.workspace,
            options=dataclasses.replace(options, platform=options.platform or candidate.platform),
            listeners=(note_check, *candidate.episode_listeners),
            probe=ledger.probes,
        )
    except BaseException:
        # The episode has written its record before raising
        with contextlib.suppress(CoworldError):
            ledger.episode = read_record(candidate.episode.record)
        raise


def _usual_checks(checks: list[ProbeFinished]) -> list[Evidence]:
    """Convert the checks of every episode; a failed one counts only if the episode blamed the game for it."""
    found: list[Evidence] = []
    for seen in checks:
        message = f"{seen.probe.replace('_', ' ')}: {seen.detail or ('right' if seen.ok else 'wrong')}."
        found.append(required(seen.probe, ok=seen.ok, message=message) if seen.counts else note(seen.probe, message))
    return found


def blamed_in(record: EpisodeRecord) -> list[Evidence]:
    """List the faults, the decisive one first; faults of the results belong to another step."""
    faults = [fault for fault in record.faults if not about_results(fault)]
    deciding = decisive(faults)
    return [fault_evidence(fault, EPISODE) for fault in sorted(faults, key=lambda fault: fault is not deciding)]


def _remarks(record: EpisodeRecord) -> list[Evidence]:
    """List the record's warnings, starvation and leaks, which are not faults."""
    found = [advice("episode_warning", warning) for warning in record.warnings]
    if record.starvation is not None and record.starvation.starved:
        found.append(
            advice(
                "processor_starved",
                f"{record.starvation.description}, so scores may differ elsewhere.",
                hint="Certify on a machine with less to do.",
            )
        )
    found += [advice("left_behind", f"{leak.what} could not be removed: {leak.reason}") for leak in record.leaks]
    return found


def _episode_was_played(_: Candidate, ledger: StepLedger) -> StepAnswer | None:
    return None if ledger.episode is not None else missing("smoke-episode", "there was no episode")


async def _results_conform(candidate: Candidate, ledger: StepLedger) -> StepAnswer:
    path, record = candidate.episode.results, ledger.played
    if not path.exists():
        evidence = [fault_evidence(fault, EPISODE) for fault in record.faults if about_results(fault)]
        if not evidence:
            return missing("smoke-episode", "it ended before there were results")
        # Results that are too large are not kept
        return failed_on(evidence[0].code, evidence)
    schema = candidate.manifest.game.results_schema
    results, report = await anyio.to_thread.run_sync(check_results, path, schema, len(record.slots))
    artifact = f"{EPISODE}/results.json"
    evidence = [issue_evidence(issue, artifact=artifact) for issue in report.issues]
    if results is None:
        hint = "Write what game.results_schema promises, with one finite score for every slot."
        return failed_on("results_malformed", evidence, hint=hint)
    message = "results.json satisfies game.results_schema."
    evidence.append(required("results_conform", ok=True, message=message, artifact=artifact))
    scores = ", ".join(f"{score:g}" for score in results.scores)
    count = f"{len(results.scores)} finite {'score' if len(results.scores) == 1 else 'scores'}"
    return passed(f"{count}: {scores}.", evidence)


async def _players_run(candidate: Candidate, ledger: StepLedger) -> StepAnswer:
    manifest, record, further = candidate.manifest, ledger.episode, dict[str, EpisodeRecord]()
    fixture = [entry.player_id for entry in manifest.certification.players]
    unseated = [player.id for player in manifest.player if player.id not in fixture]
    # The published versions have only the fixture
    if record is not None and not record.faults and not candidate.options.published:
        options = candidate.options.episode
        options = dataclasses.replace(options, platform=options.platform or candidate.platform, watch=False)
        for begin in range(0, len(unseated), len(record.slots)):
            seated = unseated[begin : begin + len(record.slots)]
            others = [fixture[slot % len(fixture)] for slot in range(len(seated), len(record.slots))]
            place = f"unseated-{len(further) + 1}"
            further[place] = await run_episode(
                plan_episode(candidate.package, players=[*seated, *others]),
                backend=candidate.backend,
                workspace=candidate.layout.workspace / place,
                options=options,
            )
    return check_attendance(manifest, record, ledger.probes.seats, directory=EPISODE, further=further)


async def _supporting_roles(candidate: Candidate, ledger: StepLedger) -> StepAnswer:
    sections = {name: declared_ids(candidate.package, name) for name in ROLE_SECTIONS if name != "player"}
    declared = {name: ids for name, ids in sections.items() if ids}
    elsewhere = declared_elsewhere(candidate.package)
    evidence = [
        note("declared_elsewhere", f"reporter {identifier!r} runs on its platform only; it was not run.")
        for identifier in elsewhere
    ]
    if not declared:
        return passed(
            "no supporting roles declared that run here" if elsewhere else "no supporting roles declared", evidence
        )
    runs = () if candidate.options.published else (*ROLES, "commissioner")
    ran = [name for name in declared if name in runs]
    left = [name for name in declared if name not in runs]
    evidence += [
        note("declared_not_run", f"{name} {identifier!r} is declared; it was not run.")
        for name in left
        for identifier in declared[name]
    ]
    if not ran:
        return skipped("not_run", f"Declared, not run: {_counted(declared, left)}.", evidence)
    if (lacking := _episode_was_played(candidate, ledger)) is not None:
        return lacking
    if any(step.id == "images-reachable" and step.status == "fail" for step in ledger.steps):
        return missing("images-reachable", "roles run in their images")
    found = await run_declared_roles(
        candidate.package,
        candidate.episode.workspace,
        backend=candidate.backend,
        platform=candidate.platform,
        publish=candidate.publish,
        directory=EPISODE,
    )
    found += await check_commissioners(
        candidate.manifest,
        ledger.played.scores,
        backend=candidate.backend,
        publish=candidate.publish,
        options=candidate.options.commissioner,
        timeout=candidate.options.commissioner_timeout,
    )
    if broken := [item for item in found if item.broken]:
        first = broken[0].message.partition(" ")[0]
        reasons = {"reporter": "reporter_failed", "commissioner": "commissioner_protocol_failed"}
        return failed_on(reasons.get(first, "supporting_roles_failed"), [*found, *evidence])
    more = f"; declared, not run: {_counted(declared, left)}" if left else ""
    counted = _counted(declared, ran)
    undone = sum(item.code == "role_not_run" for item in found)
    said = f"Declared: {counted}; {undone} could not be run here" if undone else f"Run: {counted}"
    return passed(f"{said}{more}.", [*found, *evidence])


def _counted(declared: Mapping[str, Sequence[object]], names: Sequence[str]) -> str:
    return listed(f"{len(declared[name])} {name}{'' if len(declared[name]) == 1 else 's'}" for name in names)


def _smoke_was_right(_: Candidate, ledger: StepLedger) -> StepAnswer | None:
    right = any(step.id == "smoke-episode" and step.status == "pass" for step in ledger.steps)
    if right and ledger.played.results is not None:
        return None
    return missing("smoke-episode", "only a game that keeps the contract is played again")


def _was_played_again(_: Candidate, ledger: StepLedger) -> StepAnswer | None:
    return None if ledger.further is not None else missing("clients-handled", "the game was not played again")


Premise = Callable[[Candidate, StepLedger], StepAnswer | None]
"""Returns None if a step can run, else an answer that names the step it depends on."""


@dataclass(frozen=True)
class Step:
    """The function and the premises of a step."""

    look: Callable[[Candidate, StepLedger], Awaitable[StepAnswer]]
    """Runs the step, and notes in the ledger what later steps and the record need."""
    premises: tuple[Premise, ...] = ()
    """Conditions for the step, checked in this order."""


STEPS: Mapping[StepId, Step] = {
    "matriculate": Step(_matriculate),
    "source-resolves": Step(_source_resolves),
    "images-reachable": Step(_images_reachable),
    "fixture-conforms": Step(_fixture_conforms),
    "smoke-episode": Step(_smoke_episode, (_fixture_is_right, _fixture_has_images)),
    "results-conform": Step(_results_conform, (_episode_was_played,)),
    "replay-present": Step(replay_present, (_episode_was_played,)),
    "replay-loadable": Step(replay_loadable, (replay_is_there,)),
    "players-run": Step(_players_run),
    "supporting-roles": Step(_supporting_roles),
    "clients-handled": Step(clients_handled, (_smoke_was_right,)),
    "seed-repeats": Step(seed_repeats, (_was_played_again,)),
    "pages-drawn": Step(pages_drawn, (_smoke_was_right,)),
    "rules-audit": Step(rules_audit, (_fixture_is_right, _fixture_has_images)),
}


async def carry_out(candidate: Candidate, step: StepId, ledger: StepLedger) -> StepAnswer:
    """Run a step for a candidate, if its premises hold."""
    for premise in STEPS[step].premises:
        lacking = premise(candidate, ledger)
        if lacking is not None:
            return lacking
    return await STEPS[step].look(candidate, ledger)


async def say_of_refused(report: Report, step: StepId, ledger: StepLedger) -> StepAnswer:
    """Answer a step for a manifest that could not be read, from its report; nothing is run."""
    match step:
        case "matriculate":
            strict = await anyio.to_thread.run_sync(_strict_report_of_refused, report)
            ledger.issues = strict.issues
            return _manifest_invalid(strict)
        case "fixture-conforms":
            return configs_of_refused(ledger.issues)
        case _:
            return missing("matriculate", "the manifest cannot be read")
