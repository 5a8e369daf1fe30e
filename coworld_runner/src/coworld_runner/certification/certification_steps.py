"""Implementation of the certification steps.

A step is a function of the candidate and of the findings so far. The table `STEPS` maps each step to its function
and premises.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from coworld_core import time_limits
from coworld_core.certificate import Signer
from coworld_core.episode.events import BaseEvent, ProbeFinished
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.outcome import decisive
from coworld_core.episode.record import EpisodeRecord, read_record
from coworld_core.errors import CoworldError, EpisodeError, ImageError, ManifestError, StartError
from coworld_core.files.compression import Compression
from coworld_core.hints import Hint
from coworld_core.issues import Report
from coworld_core.manifest.game_results import check_results
from coworld_core.manifest.manifest_file import check_manifest, dump_manifest
from coworld_core.manifest.models import ROLE_SECTIONS, Manifest
from coworld_core.ports import EXTRA_PORTS_ENV
from coworld_core.text.phrases import listed
from coworld_core.versions import Generation

from ..backend import Backend, Publish
from ..episode.single import EpisodeOptions, run_episode
from ..errors import OWN_DOING, unwrapped
from ..evaluation.commissioner import CommissionerOptions
from ..package.plan import plan_episode
from ..package.resolver import Package
from ..package.viewer_bundle import find_bundle
from ..replay.replay_session import REPLAY_SUFFIXES, ReplayOptions, verify_replay
from ..replay.viewer_check import check_viewer_files
from ..runs.event_bus import Listener
from .certification_record import Evidence, Level, SkipReason, StepId
from .commissioner_check import check_commissioners
from .config_check import check_configs, configs_of_refused
from .declared_roles import ROLES_RUN, run_declared_roles
from .further_episodes import play_further
from .package_content import package_files
from .page_checks import look_at_pages
from .player_presence import check_attendance
from .rules_audit import audit_served_rules
from .secret_leaks import slots_leaked
from .source_references import SourceOptions, check_sources
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
from .step_ledger import EPISODE, SCREENSHOTS, StepLedger

__all__ = ["STEPS", "Candidate", "CertifyOptions", "blamed_in", "carry_out", "say_of_refused"]


@dataclass(frozen=True, kw_only=True)
class CertifyOptions:
    """How a Coworld is certified. Times are seconds."""

    episode: EpisodeOptions = field(
        default_factory=lambda: EpisodeOptions(timeout_seconds=time_limits.SMOKE_EPISODE, ready_timeout_seconds=120.0)
    )
    """For the smoke episode; its `timeout_seconds` is the only limit. Images are fetched before it begins."""
    replay: ReplayOptions = field(default_factory=ReplayOptions)
    """For showing the replay."""
    sources: SourceOptions = field(default_factory=SourceOptions)
    """For looking up source references."""
    platform: str = "linux/amd64"
    """Platform that images must support, on a backend with images; hosted runs need this one."""
    images_timeout: float = 1800.0
    """For fetching all images."""
    browser: bool = True
    """Whether to look at the pages in a browser, if there is one."""
    audit_timeout: float = time_limits.RULES_AUDIT
    """For the audit of the rules of a game of the kit."""
    commissioner: CommissionerOptions = field(default_factory=lambda: CommissionerOptions(reply_timeout=30.0))
    """For running commissioners."""
    commissioner_timeout: float = 120.0
    """For all that one commissioner does."""
    published: Generation | None = None
    """Published version whose rules apply; None: today's rules."""
    authority: str = ""
    """Name of whoever certifies, for the certificate; by default the account on this machine."""
    signer: Signer | None = None
    """The key that signs the certificate."""

    @property
    def packs_replays(self) -> bool:
        """Whether a replay must load packed, as `replay.json.z`; otherwise it must load as the game wrote it."""
        return self.published in (None, "0.1.26")

    @classmethod
    def within(
        cls,
        timeout: float,
        *,
        offline: bool = False,
        platform: str | None = None,
        published: Generation | None = None,
        authority: str = "",
        signer: Signer | None = None,
        browser: bool = True,
    ) -> CertifyOptions:
        """Return the default options with another deadline for the smoke episode.

        Args:
            timeout: Seconds; also the most that the game gets to become healthy.
            offline: Whether to skip looking up source references.
            platform: Platform that images must support; None means the default.
            published: Published version whose rules apply; None means today's.
            authority: Name of whoever certifies.
            signer: The key that signs the certificate.
            browser: Whether to look at the pages in a browser, if there is one.
        """
        usual = cls()
        ready = min(timeout, usual.episode.ready_timeout_seconds)
        return cls(
            episode=dataclasses.replace(
                usual.episode, timeout_seconds=timeout, ready_timeout_seconds=ready, watch=True
            ),
            sources=dataclasses.replace(usual.sources, offline=offline),
            platform=platform or usual.platform,
            published=published,
            authority=authority,
            signer=signer,
            browser=browser,
        )


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """The Coworld to certify, with its backend, options and workspace."""

    package: Package
    backend: Backend
    options: CertifyOptions
    layout: EpisodeLayout
    """The certification's own workspace."""
    publish: Publish
    episode_listeners: tuple[Listener, ...] = ()

    @property
    def manifest(self) -> Manifest:
        """The package's manifest."""
        return self.package.manifest

    @property
    def episode(self) -> EpisodeLayout:
        """The smoke episode's workspace."""
        return EpisodeLayout(self.layout.workspace / EPISODE)

    @property
    def platform(self) -> str | None:
        """Platform that the images must support; None on a backend without images."""
        return self.options.platform if self.backend.capabilities.images else None


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
                f"{record.starvation.words}, so scores may differ elsewhere.",
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


async def _replay_present(candidate: Candidate, ledger: StepLedger) -> StepAnswer:
    leaks = await _token_leaks(candidate.episode, ledger.probes.tokens)
    path, artifact = candidate.episode.replay, f"{EPISODE}/replay"
    if not path.exists():
        if any(not about_results(fault) for fault in ledger.played.faults):
            return missing("smoke-episode", "it ended before there was a replay", leaks)
        hint = "Write the replay to COGAME_SAVE_REPLAY_URI before ending."
        row = required("replay_missing", ok=False, message="The game wrote no replay.", hint=hint)
        return failed_on("replay_missing", [row, *leaks])
    size = path.stat().st_size
    if not size:
        hint = "Write what the replay page needs; an empty file shows nothing."
        row = required("replay_empty", ok=False, message="The replay is empty.", hint=hint, artifact=artifact)
        return failed_on("replay_missing", [row, *leaks])
    row = required("replay_present", ok=True, message=f"The replay has {size} bytes.", artifact=artifact)
    return passed(f"There is a replay of {size} bytes.", [row, *leaks])


async def _token_leaks(layout: EpisodeLayout, tokens: tuple[str, ...]) -> list[Evidence]:
    places = [
        (layout.replay, "token_in_replay", "The replay"),
        (layout.results, "token_in_results", "results.json"),
        (layout.game_stdout, "token_in_game_log", "The game's output"),
        (layout.game_stderr, "token_in_game_log", "The game's error log"),
    ]
    places += [
        (layout.player_log(slot), "token_in_player_log", f"The log of player {slot}") for slot in range(len(tokens))
    ]
    found: list[Evidence] = []
    for path, code, what in places:
        slots = await slots_leaked(path, tokens)
        if slots:
            whose = f"slot{'' if len(slots) == 1 else 's'} {listed([str(slot) for slot in slots])}"
            found.append(
                advice(
                    code,
                    f"{what} holds the secret token of {whose}, for everyone who may read it.",
                    hint="Leave `tokens` out of what is written, and queries out of what is logged.",
                    artifact=f"{EPISODE}/{layout.relative(path)}",
                )
            )
    if tokens and not found:
        found.append(note("tokens_kept", "No token of this run is in the replay, the results or a log."))
    return found


def _replay_is_there(candidate: Candidate, _: StepLedger) -> StepAnswer | None:
    path = candidate.episode.replay
    there = path.exists() and path.stat().st_size > 0
    return None if there else missing("replay-present", "there is no replay to show")


async def _replay_loadable(candidate: Candidate, _: StepLedger) -> StepAnswer:
    viewer = candidate.manifest.game.replay_viewer
    if viewer is not None:
        directory = find_bundle(candidate.package)
        if directory is None:
            detail = "Its replays are shown by a viewer that is not on this machine."
            return skipped("not_applicable", detail, hint="Certify the package's own directory.")
        found = (await check_viewer_files(directory))[1]
        evidence = [issue_evidence(found)]
        return passed(found.message, evidence) if evidence[0].ok else failed_on("replay_unloadable", evidence)
    forms: dict[Compression, Evidence] = {}
    # Units that need the same ports have to run one after the other
    gate = anyio.CapacityLimiter(1 if candidate.manifest.game.runnable.env.get(EXTRA_PORTS_ENV) else 3)

    async def show(packing: Compression) -> None:
        async with gate:
            forms[packing] = await _show(candidate, packing)

    needed: Compression = "zlib" if candidate.options.packs_replays else "none"
    order = sorted(REPLAY_SUFFIXES, key=lambda packing: packing != needed)
    async with anyio.create_task_group() as group:
        for packing in order:
            group.start_soon(show, packing)
    evidence = [forms[packing] for packing in order]
    deciding = evidence[0]
    if deciding.broken:
        return failed_on("replay_unloadable", evidence)
    return passed(deciding.message, evidence)


async def _show(candidate: Candidate, packing: Compression) -> Evidence:
    """Have the game show the replay in one form; the form that viewers serve is required, the others are advice."""
    options, layout = candidate.options.replay, candidate.layout
    level: Level = "required" if (packing == "zlib") == candidate.options.packs_replays else "advice"
    level = "advice" if packing == "gzip" else level
    name = f"replay{REPLAY_SUFFIXES[packing]}"
    logs = layout.logs / f"replay-{'plain' if packing == 'none' else packing}"
    logs.mkdir()
    try:
        with unwrapped():
            seconds = await verify_replay(
                candidate.manifest,
                candidate.episode.replay,
                backend=candidate.backend,
                publish=candidate.publish,
                options=dataclasses.replace(options, platform=options.platform or candidate.platform),
                logs=logs,
                packing=packing,
            )
    except (EpisodeError, StartError) as error:
        if isinstance(error, StartError) and error.code not in OWN_DOING:
            raise
        return Evidence(
            code="replay_unloadable",
            level=level,
            ok=False,
            message=f"Given {name}: {error.message}",
            hint=error.hint,
            artifact=layout.relative(logs / "replay.stderr.log"),
            log_tail=str(error.context.get("log_tail", "")),
        )
    message = f"Given {name}, the game serves the page and sends a first message; {seconds:.1f} s in all."
    return required("replay_shown", ok=True, level=level, message=message)


async def _players_run(candidate: Candidate, ledger: StepLedger) -> StepAnswer:
    return check_attendance(candidate.manifest, ledger.episode, ledger.probes.seats, directory=EPISODE)


async def _supporting_roles(candidate: Candidate, ledger: StepLedger) -> StepAnswer:
    sections = {name: candidate.manifest.section(name) for name in ROLE_SECTIONS if name != "player"}
    declared = {name: entries for name, entries in sections.items() if entries}
    if not declared:
        return passed("no supporting roles declared")
    runs = () if candidate.options.published else (*ROLES_RUN, "commissioner")
    ran = [name for name in declared if name in runs]
    left = [name for name in declared if name not in runs]
    evidence = [
        note("declared_not_run", f"{name} {entry.id!r} ({entry.image}) is declared; it was not run.")
        for name in left
        for entry in declared[name]
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
    return passed(f"Run: {_counted(declared, ran)}{more}.", [*found, *evidence])


def _counted(declared: Mapping[str, Sequence[object]], names: Sequence[str]) -> str:
    return listed(f"{len(declared[name])} {name}{'' if len(declared[name]) == 1 else 's'}" for name in names)


async def _rules_audit(candidate: Candidate, _: StepLedger) -> StepAnswer:
    replay = candidate.episode.replay
    return await audit_served_rules(
        candidate.manifest,
        replay=replay if replay.exists() else None,
        backend=candidate.backend,
        platform=candidate.platform,
        directory=candidate.layout.logs / "rules-audit",
        timeout=candidate.options.audit_timeout,
    )


def _smoke_was_right(_: Candidate, ledger: StepLedger) -> StepAnswer | None:
    right = any(step.id == "smoke-episode" and step.status == "pass" for step in ledger.steps)
    if right and ledger.played.results is not None:
        return None
    return missing("smoke-episode", "only a game that keeps the contract is played again")


def _was_played_again(_: Candidate, ledger: StepLedger) -> StepAnswer | None:
    return None if ledger.further is not None else missing("clients-handled", "the game was not played again")


async def _clients_handled(candidate: Candidate, ledger: StepLedger) -> StepAnswer:
    options = candidate.options.episode
    ledger.further = await play_further(
        candidate.package,
        ledger.played,
        backend=candidate.backend,
        options=dataclasses.replace(options, platform=options.platform or candidate.platform),
        workspace=candidate.layout.workspace,
    )
    evidence = ledger.further.clients
    if any(item.broken for item in evidence):
        return failed_on("game_contract_violation", evidence)
    lost = any(item.code == "reconnects" and item.level == "required" for item in evidence)
    return passed(f"Bad messages did no harm{', and lost players were readmitted' if lost else ''}.", evidence)


async def _pages_drawn(candidate: Candidate, ledger: StepLedger) -> StepAnswer:
    options, replay = candidate.options.episode, candidate.options.replay
    seen = await look_at_pages(
        candidate.package,
        candidate.episode.replay,
        backend=candidate.backend,
        publish=candidate.publish,
        options=dataclasses.replace(options, platform=options.platform or candidate.platform),
        replay_options=dataclasses.replace(replay, platform=replay.platform or candidate.platform),
        workspace=candidate.layout.workspace,
    )
    ledger.page_tokens = seen.tokens
    shown: list[Evidence] = []
    for name, picture in seen.pictures.items():
        place = candidate.layout.workspace / SCREENSHOTS / f"{name}.png"
        await anyio.to_thread.run_sync(_keep_picture, place, picture)
        ledger.pictures[name] = picture
        artifact = candidate.layout.relative(place)
        shown.append(note("page_picture", f"The {name} page, as the browser showed it.", artifact=artifact))
    return dataclasses.replace(seen.answer, evidence=(*seen.answer.evidence, *shown))


def _keep_picture(place: Path, picture: bytes) -> None:
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(picture)


async def _seed_repeats(candidate: Candidate, ledger: StepLedger) -> StepAnswer:
    assert ledger.further is not None
    results = ledger.further.results
    if results is None:
        detail = "The game takes no seed, so that no two episodes could be compared."
        return passed(detail, [note("seed_repeats", detail)])
    promised = "deterministic" in (candidate.manifest.tags or ())
    level: Level = "required" if promised else "advice"
    difference = _difference(*results)
    row = required(
        "seed_repeats",
        ok=difference is None,
        level=level,
        message=f"Two episodes with the same seed {difference or 'ended alike'}.",
        hint=None
        if difference is None
        else "Draw everything random, and the order of everything, from the config's seed; time must not matter.",
    )
    return failed_on("seed_ignored", [row]) if row.broken else passed(row.message, [row])


def _difference(first: Mapping[str, Any] | None, second: Mapping[str, Any] | None) -> str | None:
    """Say how two episodes differ; None if they do not."""
    if first is None or second is None:
        return "did not both have results"
    fields = [name for name in {**first, **second} if first.get(name) != second.get(name)]
    if "scores" in fields:
        return f"had the scores {first.get('scores')} and {second.get('scores')}"
    return f"differ in {listed(fields, limit=4)} of their results" if fields else None


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
    "replay-present": Step(_replay_present, (_episode_was_played,)),
    "replay-loadable": Step(_replay_loadable, (_replay_is_there,)),
    "players-run": Step(_players_run),
    "supporting-roles": Step(_supporting_roles),
    "clients-handled": Step(_clients_handled, (_smoke_was_right,)),
    "seed-repeats": Step(_seed_repeats, (_was_played_again,)),
    "pages-drawn": Step(_pages_drawn, (_smoke_was_right,)),
    "rules-audit": Step(_rules_audit, (_fixture_is_right, _fixture_has_images)),
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
