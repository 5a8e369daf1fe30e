"""What each of the ten steps looks at, and what it finds."""

from __future__ import annotations

import dataclasses
import datetime as dt
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread

from coworld_core import durations
from coworld_core.artifacts import EpisodeLayout
from coworld_core.episode import EpisodeRecord
from coworld_core.errors import EpisodeError, ImageError, ManifestError, StartError
from coworld_core.events import BaseEvent, ProbeFinished
from coworld_core.issues import Issue, Report
from coworld_core.loading import check_manifest, dump_manifest
from coworld_core.manifest import ROLE_SECTIONS, Manifest
from coworld_core.outcome import Fault
from coworld_core.ports import EXTRA_PORTS_ENV
from coworld_core.results import check_results

from .._hints import listed
from .._ledger import OWN_DOING
from .._runs import OpenRun
from ..backend import Backend, ImageInfo
from ..episode import EpisodeOptions, run_episode
from ..errors import unwrapped
from ..events import Listener
from ..packages import Package
from ..plan import plan_episode
from ..replay import ReplayOptions, verify_replay
from .answers import (
    Answer,
    about_results,
    advice,
    failed_on,
    issue_evidence,
    missing,
    note,
    passed,
    required,
    skipped,
)
from .attendance import check_attendance
from .configs import check_configs, configs_of_refused
from .contract import ContractProbes
from .leaks import slots_leaked
from .record import Evidence, Level, SkipReason, SourceRecord, StepId, StepRecord
from .sources import SourceOptions, check_sources

__all__ = ["EPISODE", "CertifyOptions", "Steps", "Subject"]

EPISODE = "episode"
"""The smoke episode's own workspace, below the certification's."""


@dataclass(frozen=True, kw_only=True)
class CertifyOptions:
    """How a Coworld is certified. Times are seconds."""

    episode: EpisodeOptions = field(
        default_factory=lambda: EpisodeOptions(timeout=durations.SMOKE_EPISODE, ready_timeout=120.0)
    )
    """For the smoke episode; its ``timeout`` is the one deadline. Images are there before it begins."""
    replay: ReplayOptions = field(default_factory=ReplayOptions)
    """For showing the replay."""
    sources: SourceOptions = field(default_factory=SourceOptions)
    """For looking up source references."""
    platform: str = "linux/amd64"
    """What images must be for, on a backend with images: hosted runs need it."""
    images_timeout: float = 1800.0
    """For having all images."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is certified: a package, or the report with which reading it failed."""

    package: Package | None
    report: Report | None
    backend: Backend | None


class Steps:
    """The state of one certification while it runs, and what each step finds."""

    def __init__(
        self,
        subject: Subject,
        run: OpenRun,
        options: CertifyOptions,
        episode_listeners: tuple[Listener, ...],
    ) -> None:
        self.subject = subject
        self.layout = run.layout
        self.reserve = run.reserve
        self.options = options
        self.bus = run.bus
        self.episode_listeners = episode_listeners
        self.begun = time.monotonic()
        self.begun_at = dt.datetime.now(dt.UTC)
        self.matriculated_at: dt.datetime | None = None
        self.steps: list[StepRecord] = []
        self.caveats: list[str] = []
        self.manifest_issues: tuple[Issue, ...] = ()
        self.sources: tuple[SourceRecord, ...] = ()
        self.images: dict[str, ImageInfo] = {}
        self.unreachable: set[str] = set()
        self.fixture_ok = True
        self.probes = ContractProbes()
        self.seen_probes: list[ProbeFinished] = []
        self.episode: EpisodeRecord | None = None
        self.episode_layout = EpisodeLayout(run.layout.workspace / EPISODE)
        self.trouble: str | None = None

    async def _answer(self, step: StepId) -> Answer:
        package, backend = self.subject.package, self.subject.backend
        if step == "matriculate":
            return await anyio.to_thread.run_sync(self._matriculate)
        if step == "fixture-conforms":
            return await anyio.to_thread.run_sync(self._fixture_conforms)
        if package is None or backend is None:
            return missing("matriculate", "the manifest cannot be read")
        steps: Mapping[StepId, Callable[[Package, Backend], Awaitable[Answer]]] = {
            "source-resolves": self._source_resolves,
            "images-reachable": self._images_reachable,
            "smoke-episode": self._smoke_episode,
            "results-conform": self._results_conform,
            "replay-present": self._replay_present,
            "replay-loadable": self._replay_loadable,
            "players-run": self._players_run,
            "supporting-roles": self._supporting_roles,
        }
        return await steps[step](package, backend)

    # ------------------------------------------------------------------ 1 matriculate

    def _matriculate(self) -> Answer:
        report = self._strict_report()
        self.manifest_issues = report.issues
        evidence = [issue_evidence(issue) for issue in report.issues]
        broken = [item for item in evidence if item.broken]
        if broken:
            return failed_on("manifest_invalid", broken, evidence, hint="Correct the manifest, and certify again.")
        package = self.subject.package
        assert package is not None, "what could not be read has errors"
        if package.is_template:
            caveat = (
                "This is a template: `coworld build` puts version and images in, so this says nothing about what "
                "will be published."
            )
            self.caveats.append(caveat)
            evidence.append(advice("template", caveat, hint="Build it, and certify what was built."))
        game = package.manifest.game
        return passed(f"The manifest of {game.name} {game.version} has no errors.", evidence)

    def _strict_report(self) -> Report:
        """Every issue of the manifest by the strict rules, with places in the file where there is one."""
        package = self.subject.package
        if package is None:
            report = self.subject.report
            assert report is not None
            source = Path(report.source)
            # the strict rules find at least as much as those by which reading it failed
            strict = check_manifest(source, mode="strict") if source.is_file() else report
            return strict if strict.errors else report
        # without images a template runs as it is, and nothing else could be certified on such a backend
        backend = self.subject.backend
        template = package.is_template and backend is not None and not backend.capabilities.images
        if package.path is not None:
            report = check_manifest(package.path, mode="strict", template=template)
        else:
            report = Report(source=package.source)
            try:
                dump_manifest(package.manifest, template=template)
            except ManifestError as error:
                report = error.report
        known = {(issue.code, issue.pointer) for issue in report.issues}
        return report.extended(issue for issue in package.report.issues if (issue.code, issue.pointer) not in known)

    # ------------------------------------------------------------------ 2 source-resolves

    async def _source_resolves(self, package: Package, _: Backend) -> Answer:
        self.sources = await check_sources(package.manifest, options=self.options.sources)
        hints = {
            "source_not_pinned": "Link to a commit: https://github.com/<owner>/<repo>/tree/<full SHA>/<path>.",
            "source_not_found": "Push the commit, or correct the address.",
            "source_empty": "Link to where the source is.",
            "source_without_dockerfile": "Put the Dockerfile beside the source, or above it.",
        }
        evidence = [
            Evidence(
                code=record.code,
                level="required" if record.status in ("resolved", "unresolved") else "advice",
                ok=record.status == "resolved",
                message=f"{record.runnable}: {record.message}" + (f" ({record.url})" if record.url else ""),
                hint=hints.get(record.code),
            )
            for record in self.sources
            if record.status != "not_declared"
        ]
        undeclared = [record.runnable for record in self.sources if record.status == "not_declared"]
        if undeclared:
            message = f"No source_url is declared for {listed(undeclared, limit=6)}."
            evidence.append(advice("source_not_declared", message, hint="Set it, so that others can see what runs."))
        broken = [item for item in evidence if item.broken]
        if broken:
            unpinned = any(item.code == "source_not_pinned" for item in broken)
            return failed_on("source_not_pinned" if unpinned else "source_unresolved", broken, evidence)
        reasons: dict[str, SkipReason] = {"unreached": "source_unreachable", "unsupported": "source_unsupported"}
        for status, reason in reasons.items():
            undecided = [record for record in self.sources if record.status == status]
            if undecided:
                detail = f"Not decided for {listed([record.runnable for record in undecided], limit=4)}: "
                detail += undecided[0].message
                self.caveats.append(f"source-resolves: {detail}")
                return skipped(reason, detail, evidence)
        resolved = sum(record.status == "resolved" for record in self.sources)
        if not resolved:
            return passed("No source is declared, so there is nothing to look up.", evidence)
        return passed(f"The source of {resolved} of {len(self.sources)} programs is declared, and is there.", evidence)

    # ------------------------------------------------------------------ 3 images-reachable

    async def _images_reachable(self, package: Package, backend: Backend) -> Answer:
        manifest = package.manifest
        uses_images = backend.capabilities.images
        users: dict[str, list[str]] = {manifest.game.runnable.image: ["game"]}
        # without images, only what the episode runs needs a directory to run in
        for entry in manifest.roles() if uses_images else manifest.player:
            users.setdefault(entry.image, []).append(f"{entry.type} {entry.id}")
        found: dict[str, Evidence] = {}

        async def have(image: str) -> None:
            found[image] = await self._have_image(backend, image, listed(users[image], limit=4))

        with anyio.move_on_after(self.options.images_timeout):
            async with anyio.create_task_group() as group:
                for image in users:
                    group.start_soon(have, image)
        late = f"was not there after {self.options.images_timeout:g} s."
        for image in users.keys() - found.keys():
            self.unreachable.add(image)
            found[image] = required("image_unreachable", ok=False, message=f"{image} {late}")
        evidence = [found[image] for image in users]
        evidence += [
            advice("image_emulated", f"{info.image} is for {info.platform}, which this machine has to emulate.")
            for info in self.images.values()
            if info.emulated
        ]
        broken = [item for item in evidence if item.broken]
        if broken:
            return failed_on("image_unreachable", broken, evidence)
        if not uses_images:
            detail = (
                f"The {backend.name} backend runs commands where images are built from; the images themselves were not "
                "looked at."
            )
            self.caveats.append(f"images-reachable: {detail}")
            return skipped("not_applicable", detail, evidence, hint="Certify with --backend docker, too.")
        count = f"{len(users)} {'image' if len(users) == 1 else 'images'}"
        return passed(f"{count} for {self.options.platform}, each at hand.", evidence)

    async def _have_image(self, backend: Backend, image: str, who: str) -> Evidence:
        uses_images = backend.capabilities.images
        platform = self.options.platform if uses_images else None
        try:
            info = await backend.ensure_image(image, platform=platform, publish=self.bus.publish)
        except ImageError as error:
            self.unreachable.add(image)
            return required(error.code, ok=False, message=f"{error.message} (image of {who})", hint=error.hint)
        self.images[image] = info
        if not uses_images:
            return note("image_context", f"{image} ({who}) runs in {info.context or 'this process'}.")
        what = ", ".join(part for part in (info.digest, info.platform) if part)
        return required("image_present", ok=True, message=f"{image} ({who}) is at hand{what and f': {what}'}.")

    # ------------------------------------------------------------------ 4 fixture-conforms

    def _fixture_conforms(self) -> Answer:
        package = self.subject.package
        if package is None:
            configs = configs_of_refused(self.manifest_issues)
        else:
            configs = check_configs(package.manifest, self.manifest_issues)
        self.fixture_ok = configs.fixture_ok
        return configs.answer

    # ------------------------------------------------------------------ 5 smoke-episode

    async def _smoke_episode(self, package: Package, backend: Backend) -> Answer:
        if not self.fixture_ok:
            return missing("fixture-conforms", "the fixture is no config for this game")
        lacking = _fixture_images(package.manifest) & self.unreachable
        if lacking:
            return missing("images-reachable", f"without {listed(sorted(lacking))} nothing can be played")
        record = self.episode = await self._play(package, backend)
        faults = [fault for fault in record.faults if not about_results(fault)]
        blamed = [_fault_evidence(fault) for fault in faults]
        evidence = [*self.probes.before, *blamed, *self._usual_probes(), *self.probes.evidence]
        if record.over_seconds is not None and not any(item.code == "late_viewer" for item in evidence):
            evidence.append(note("late_viewer", "Not checked: the game was over before a viewer could come late."))
        evidence += _remarks(record)
        # in the order in which it was seen: what lets strangers in may well be why a player failed
        for broken in ([item for item in self.probes.before if item.broken], blamed):
            if broken:
                reason = "game_contract_violation" if broken is not blamed else blamed[0].code
                return failed_on(reason, broken, evidence)
        violations = [item for item in self.probes.evidence if item.broken]
        if violations:
            return failed_on("game_contract_violation", violations, evidence)
        return passed(f"Played to its end in {record.seconds:.1f} s, and the contract was kept.", evidence)

    async def _play(self, package: Package, backend: Backend) -> EpisodeRecord:
        options = self.options.episode
        if backend.capabilities.images and options.platform is None:
            options = dataclasses.replace(options, platform=self.options.platform)

        def note_probe(event: BaseEvent) -> None:
            if isinstance(event, ProbeFinished):
                self.seen_probes.append(event)

        return await run_episode(
            plan_episode(package),
            backend=backend,
            workspace=self.episode_layout.workspace,
            options=options,
            listeners=(note_probe, self.probes.listen, *self.episode_listeners),
            probe=self.probes,
        )

    def _usual_probes(self) -> list[Evidence]:
        """The checks of every episode; a bad answer counts only where the episode held it against the game."""
        found: list[Evidence] = []
        for seen in self.seen_probes:
            message = f"{seen.probe.replace('_', ' ')}: {seen.detail or ('right' if seen.ok else 'wrong')}."
            found.append(
                required(seen.probe, ok=seen.ok, message=message) if seen.counts else note(seen.probe, message)
            )
        return found

    # ------------------------------------------------------------------ 6 results-conform

    async def _results_conform(self, package: Package, _: Backend) -> Answer:
        path, record = self.episode_layout.results, self.episode
        if record is None:
            return missing("smoke-episode", "there was no episode")
        if not path.exists():
            evidence = [_fault_evidence(fault) for fault in record.faults if about_results(fault)]
            if not evidence:
                return missing("smoke-episode", "it ended before there were results")
            return failed_on("results_missing", evidence, evidence)
        schema = package.manifest.game.results_schema
        results, report = await anyio.to_thread.run_sync(check_results, path, schema, len(record.slots))
        artifact = f"{EPISODE}/results.json"
        evidence = [issue_evidence(issue, artifact=artifact) for issue in report.issues]
        if results is None:
            hint = "Write what game.results_schema promises, with one finite score for every slot."
            return failed_on("results_malformed", [item for item in evidence if item.broken], evidence, hint=hint)
        message = "results.json satisfies game.results_schema."
        evidence.append(required("results_conform", ok=True, message=message, artifact=artifact))
        scores = ", ".join(f"{score:g}" for score in results.scores)
        count = f"{len(results.scores)} finite {'score' if len(results.scores) == 1 else 'scores'}"
        return passed(f"{count}: {scores}.", evidence)

    # ------------------------------------------------------------------ 7 replay-present

    async def _replay_present(self, _: Package, __: Backend) -> Answer:
        record = self.episode
        if record is None:
            return missing("smoke-episode", "there was no episode")
        leaks = await self._token_leaks()
        path, artifact = self.episode_layout.replay, f"{EPISODE}/replay"
        if not path.exists():
            if any(not about_results(fault) for fault in record.faults):
                return missing("smoke-episode", "it ended before there was a replay", leaks)
            hint = "Write the replay to COGAME_SAVE_REPLAY_URI before ending."
            row = required("replay_missing", ok=False, message="The game wrote no replay.", hint=hint)
            return failed_on("replay_missing", [row], [row, *leaks])
        size = path.stat().st_size
        if not size:
            hint = "Write what the replay page needs; an empty file shows nothing."
            row = required("replay_empty", ok=False, message="The replay is empty.", hint=hint, artifact=artifact)
            return failed_on("replay_missing", [row], [row, *leaks])
        row = required("replay_present", ok=True, message=f"The replay has {size} bytes.", artifact=artifact)
        return passed(f"There is a replay of {size} bytes.", [row, *leaks])

    async def _token_leaks(self) -> list[Evidence]:
        layout, tokens = self.episode_layout, self.probes.tokens
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

    # ------------------------------------------------------------------ 8 replay-loadable

    async def _replay_loadable(self, package: Package, backend: Backend) -> Answer:
        path = self.episode_layout.replay
        if not path.exists() or not path.stat().st_size:
            return missing("replay-present", "there is no replay to show")
        found: dict[bool, Evidence] = {}

        async def show(packed: bool) -> None:
            found[packed] = await self._show(package, backend, packed)

        if package.manifest.game.runnable.env.get(EXTRA_PORTS_ENV):
            # both would want the same ports
            for packed in (True, False):
                await show(packed)
        else:
            async with anyio.create_task_group() as group:
                for packed in (True, False):
                    group.start_soon(show, packed)
        evidence = [found[True], found[False]]
        if found[True].broken:
            return failed_on("replay_unloadable", [found[True]], evidence)
        return passed(found[True].message, evidence)

    async def _show(self, package: Package, backend: Backend, packed: bool) -> Evidence:
        """Have the game show the replay: required packed, as hosted viewers hand it out, and wished for as it is."""
        options = self.options.replay
        if backend.capabilities.images and options.platform is None:
            options = dataclasses.replace(options, platform=self.options.platform)
        level: Level = "required" if packed else "advice"
        name = "replay.z" if packed else "replay"
        logs = self.layout.logs / ("replay-zlib" if packed else "replay-plain")
        logs.mkdir()
        try:
            with unwrapped():
                seconds = await verify_replay(
                    package.manifest,
                    self.episode_layout.replay,
                    backend=backend,
                    publish=self.bus.publish,
                    options=options,
                    logs=logs,
                    compressed=packed,
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
                artifact=self.layout.relative(logs / "replay.stderr.log"),
                log_tail=str(error.context.get("log_tail", "")),
            )
        message = f"Given {name}, the game serves the page and sends a first message; {seconds:.1f} s in all."
        return required("replay_shown", ok=True, level=level, message=message)

    # ------------------------------------------------------------------ 9 players-run

    async def _players_run(self, package: Package, _: Backend) -> Answer:
        return check_attendance(package.manifest, self.episode, self.probes.seats, directory=EPISODE)

    # ------------------------------------------------------------------ 10 supporting-roles

    async def _supporting_roles(self, package: Package, _: Backend) -> Answer:
        sections = {name: package.manifest.section(name) for name in ROLE_SECTIONS if name != "player"}
        declared = {name: entries for name, entries in sections.items() if entries}
        if not declared:
            return passed("no supporting roles declared")
        counts = [f"{len(entries)} {name}{'' if len(entries) == 1 else 's'}" for name, entries in declared.items()]
        detail = f"Declared, not run: {listed(counts)}."
        self.caveats.append(f"supporting-roles: {detail}")
        evidence = [
            note("declared_not_run", f"{name} {entry.id!r} ({entry.image}) is declared; it was not run.")
            for name, entries in declared.items()
            for entry in entries
        ]
        return skipped("not_run", detail, evidence)


def _fixture_images(manifest: Manifest) -> set[str]:
    seated = {entry.player_id for entry in manifest.certification.players}
    return {manifest.game.runnable.image, *(player.image for player in manifest.player if player.id in seated)}


def _fault_evidence(fault: Fault) -> Evidence:
    return Evidence(
        code=fault.error_type,
        level="required",
        ok=False,
        message=fault.message,
        hint=fault.hint,
        slot=fault.slot,
        artifact=f"{EPISODE}/{fault.log}" if fault.log else None,
        log_tail=fault.log_tail,
    )


def _remarks(record: EpisodeRecord) -> list[Evidence]:
    """What the episode's record says that is nobody's fault."""
    found = [advice("episode_warning", warning) for warning in record.warnings]
    if record.starvation is not None and record.starvation.starved:
        found.append(
            advice(
                "processor_starved",
                f"The machine was short of processors for {record.starvation.waited_share:.0%} of the time of play, so "
                "scores may differ elsewhere.",
                hint="Certify on a machine with less to do.",
            )
        )
    found += [advice("left_behind", f"{leak.what} could not be removed: {leak.reason}") for leak in record.leaks]
    return found
