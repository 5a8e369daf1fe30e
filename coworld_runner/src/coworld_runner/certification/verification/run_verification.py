"""Verifies episodes: their files against their records, and their replays against the rules that they were played by.

Games of the kit are played again in a worker process, from the header and the actions of their replays. Nothing that
comes with a run is executed: neither what a bundle brings along nor what lies in the directory of a run. The rules are
those of a package that the caller names, or that a record names elsewhere on this machine, and that is still the same.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import anyio.to_thread

from coworld_core.certificate import CERTIFICATE_NAME
from coworld_core.documents.records import open_record
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.record import EpisodeRecord
from coworld_core.errors import CoworldError, EnvironmentFault, UsageError
from coworld_core.files.regular import read_regular
from coworld_core.roles.bundle_file import BundleError, is_bundle, read_bundle
from coworld_core.rules.plain_values import to_json

from ...evaluation.recorded_game import reason_not_to_play
from ...evaluation.seats_again import DELAY, SeatedAgain, play_seats_again, same_parts
from ...evaluation.worker_pool import WorkerPool
from ...evaluation.worker_venue import NOT_OF_THE_KIT, refused
from ...kit.rollout.match_process import MatchProcess
from ...kit.rollout.replays_again import ReplayedFile, ReplaysAgain
from ...package.locations import expand, missing
from ...package.resolver import Package, resolve_package
from ...runs.episode_places import find_episode, not_one_episode
from ..certificate_check import CERTIFIED_MANIFEST, check_certificate
from ..certification_record import RECORD_NAME
from .kept_files import changed_artifacts, changed_layout, changed_manifest, changed_record, object_in
from .provenance import PROVENANCE_NAME, changed_provenance
from .verification_record import ChangedFile, Verification, shortened

__all__ = ["Verifier", "verify_run"]

_MOST_AT_ONCE = 8 << 20
"""Bytes of replays that are sent to a worker at once, unless one has more."""
_EPISODE = "episode"
"""Directory of the smoke episode of a certification."""
_NOT_EVIDENCE = frozenset({"no_degree", "certificate_unsigned"})
"""Findings about a certificate that are no change of it."""


@dataclass(kw_only=True)
class _Case:
    """An episode that is being verified."""

    run: str
    files: list[ChangedFile] = field(default_factory=list[ChangedFile])
    checked: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    cannot: tuple[str, str] | None = None
    """Code and reason why it is not played again."""
    game: str = ""
    """Where its game is."""
    manifest_sha256: str = ""
    """Digest of its manifest, as recorded."""
    replay: bytes = field(default=b"", repr=False)
    framed: EpisodeRecord | None = None
    """Its record, if what its seats sent was recorded."""
    seed: int | None = None
    place: Path = Path()
    """Where it is."""
    differs: tuple[str, str] | None = None
    """Its results, and others that came out of what its seats sent."""
    results: dict[str, Any] = field(default_factory=dict[str, Any])
    """The results that were recorded, by the file that has them."""

    def settled(self, again: ReplayedFile | None, changed: str = "") -> Verification:
        """The verdict.

        Args:
            again: What came of its replay; None: it was not played again.
            changed: How the game's manifest has changed since.
        """
        told: dict[str, Any] = {}
        if again is not None:
            told = self._compared(again, changed)
        elif self.differs is not None:
            recorded, now = self.differs
            told = {
                "verdict": "different",
                "code": "game_differs",
                "reason": f"The results were {recorded}, and {now} came out, twice.",
                "recorded": recorded,
                "now": now,
            }
        checked, notes = tuple(self.checked), tuple(dict.fromkeys(self.notes))
        if self.files:
            first = self.files[0]
            told = {"code": "file_changed", "reason": f"{first.path} {first.problem}.", **told, "verdict": "different"}
        elif not told and self.cannot is not None:
            code, reason = self.cannot
            told = {"verdict": "cannot", "code": code, "reason": f"It cannot be played again: {reason}."}
        verdict: dict[str, Any] = {"verdict": "same", **told}
        return Verification(run=self.run, files=tuple(self.files), checked=checked, notes=notes, **verdict)

    def _compared(self, again: ReplayedFile, changed: str) -> dict[str, Any]:
        game = again.game
        if game is None:
            if again.code == "replay_of_others":
                self.cannot = "rules_changed", again.problem.rstrip(".")
            else:
                self.files.append(ChangedFile(path="replay", problem=f"cannot be read: {again.problem.rstrip('.')}"))
            return {}
        was, now = game.source
        if was and was != now:
            changed = changed or f"the file of its rules had the SHA-256 {was}, and has {now or 'none'} now"
        if game.tick is not None:
            if game.unsteady:
                self.cannot = "rules_unsteady", game.unsteady
            elif changed:
                self.cannot = "rules_changed", f"{changed}, and at tick {game.tick} another game comes out"
            else:
                recorded, found = shortened(game.recorded), shortened(game.now)
                return {
                    "verdict": "different",
                    "code": "game_differs",
                    "reason": f"First different tick {game.tick}: {game.what} was {recorded}, and {found} came out.",
                    "tick": game.tick,
                    "recorded": recorded,
                    "now": found,
                }
            return {}
        self.checked.append("replay")
        self.notes += [f"{changed[0].upper()}{changed[1:]}, and the same game comes out."] if changed else []
        if not was:
            self.notes.append("Its replay is of an earlier version, which did not say which rules it is of.")
        self._compare_results(again, game.results, game.ticks)
        return {}

    def compare_seated(self, found: Sequence[SeatedAgain]) -> bool:
        """Compare with games whose seats sent what was recorded; returns whether another one would tell more."""
        assert self.framed is not None
        last, was = found[-1], to_json(self.framed.results)
        outcomes = [one.problem if one.results is None else to_json(one.results) for one in found]
        same = same_parts(self.framed, self.place, found[0])
        if "results" not in same:
            # What comes out otherwise once may come out otherwise each time
            if len(found) == 1:
                return True
            if last.results is None:
                self.cannot = "not_repeated", f"when its seats send what they sent, {last.problem}"
            elif outcomes[0] != outcomes[1]:
                self.cannot = "rules_unsteady", "what its seats sent gives other results each time, or depends on when"
            else:
                self.differs = shortened(was), shortened(outcomes[1])
            return False
        if same == ["results"]:
            # Results alone may be the same by chance
            self.cannot = "rules_unsteady", "its results are the same, but not its replay, nor what its seats were told"
            return False
        self.checked += same[1:]
        assert last.results is not None
        self._compare_kept(last.results)
        return False

    def _compare_results(self, again: ReplayedFile, results: Mapping[str, Any] | None, ticks: int) -> None:
        if self.seed not in (None, again.seed):
            problem = f"has the seed {self.seed}, and the replay has {again.seed}"
            self.files.append(ChangedFile(path="episode.json", problem=problem))
        if results is None:
            if self.results:
                problem = f"ends at tick {ticks}, when the game is not over, and there are results"
                self.files.append(ChangedFile(path="replay", problem=problem))
            self.notes.append(f"The game was not over: it was played again up to tick {ticks}.")
            return
        self._compare_kept(results)

    def _compare_kept(self, results: Mapping[str, Any]) -> None:
        """Compare the results that files have with those that came out."""
        now = {"results": to_json(results), "scores": to_json(results["scores"])}
        for name, recorded in self.results.items():
            path, _, what = name.partition("#")
            if (was := to_json(recorded)) != (found := now[what]):
                problem = f"has the {what} {shortened(was)}, and {shortened(found)} came out"
                self.files.append(ChangedFile(path=path, problem=problem))
        self.checked += ["results"] if self.results else []


@dataclass(kw_only=True)
class _Game:
    """A game that replays are played again with, or why that is not possible."""

    worker: MatchProcess | None = None
    package: Package | None = None
    sha256: str = ""
    reason: tuple[str, str] = ("", "")
    observed: bool = False
    """Whether its rules were observed once."""


class Verifier:
    """Verifies episodes; use as an asynchronous context manager, which ends the worker processes.

    Args:
        game: The package whose rules they are played again with; None: those that the records name.
        trusted: Public keys of which one must have signed each record (`read_public_keys`); None: any may, or none.
    """

    def __init__(
        self, game: Package | str | os.PathLike[str] | None = None, *, trusted: Collection[bytes] | None = None
    ) -> None:
        self._game = game
        self._trusted = trusted
        self._games: dict[str, _Game] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Enter; workers start with the first replay."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """End all workers."""
        await self._stack.aclose()

    async def verify(self, places: Sequence[tuple[str, Path]]) -> list[Verification]:
        """Verify episodes.

        Args:
            places: What to call each, and where it is: the directory of an episode or of a certification, or a bundle.

        Raises:
            UsageError: One of them is none of these.
            EnvironmentFault: A worker process cannot be started.
        """
        found: list[Verification] = []
        while len(found) < len(places):
            cases = await anyio.to_thread.run_sync(self._opened, places[len(found) :])
            for number, case in enumerate(cases):
                if isinstance(case, Path):
                    cases[number] = await self._certified(places[len(found) + number][0], case)
            found += await self._played([case for case in cases if isinstance(case, _Case)])
        return found

    def _opened(self, places: Sequence[tuple[str, Path]]) -> list[_Case | Path]:
        """Check the files of episodes, as many as have replays to play again at once. Blocks.

        Certifications stay as they are.
        """
        found: list[_Case | Path] = []
        size = 0
        for run, place in places:
            if (place / CERTIFICATE_NAME).is_file():
                found.append(place)
                continue
            case = _opened(run, place, self._game is not None, self._trusted)
            found.append(case)
            size += len(case.replay)
            if size > _MOST_AT_ONCE:
                break
        return found

    async def _certified(self, run: str, place: Path) -> _Case:
        """Check a certification and its smoke episode."""
        try:
            path = place / CERTIFICATE_NAME
            changed = changed_layout(open_record(path, what="certificate", name=path.name), path)
            checked = await check_certificate(place, trusted=self._trusted)
        except CoworldError as error:
            changed = [ChangedFile(path=CERTIFICATE_NAME, problem=f"cannot be read: {error.message.rstrip('.')}")]
            return _Case(run=run, files=changed, cannot=("certificate_unreadable", error.message))
        manifest = checked.certificate.content.manifest_sha256
        changed += changed_manifest(place / CERTIFIED_MANIFEST, manifest)
        for issue in checked.report.errors:
            if issue.code not in _NOT_EVIDENCE:
                path = RECORD_NAME if issue.code.startswith("record_") else CERTIFICATE_NAME
                changed.append(ChangedFile(path=path, problem=f"does not hold: {issue.message.rstrip('.')}"))
        if not (place / _EPISODE / EpisodeLayout(place).record.name).is_file():
            case = _Case(run=run, cannot=("no_episode", "the certification has played no episode"))
        else:
            # Only the signature of the certificate is asked for
            case = await anyio.to_thread.run_sync(_opened, run, place / _EPISODE, self._game is not None, None)
        case.files = changed + [file.model_copy(update={"path": f"{_EPISODE}/{file.path}"}) for file in case.files]
        case.checked.insert(0, "certificate")
        return case

    async def _played(self, cases: Sequence[_Case]) -> list[Verification]:
        """Play replays again, those of one game at once."""
        again: dict[int, ReplayedFile] = {}
        changed: dict[int, str] = {}
        for source in dict.fromkeys(case.game for case in cases if case.cannot is None):
            game = await self._open_game(source)
            mine = [case for case in cases if case.game == source and case.cannot is None]
            for case in mine:
                if game.worker is None and (game.package is None or case.framed is None):
                    case.cannot = game.reason
                elif case.manifest_sha256 not in ("", game.sha256):
                    was, now = case.manifest_sha256, game.sha256
                    changed[id(case)] = f"the game's manifest had the SHA-256 {was}, and has {now} now"
                    if self._game is None:
                        case.cannot = "rules_changed", f"{changed[id(case)]}; name the game to try it as it is now"
            able = [case for case in mine if case.cannot is None]
            if game.worker is None:
                for case in able:
                    await self._seated_again(case, game)
                continue
            for case, one in zip(able, await self._again(game, [case.replay for case in able]), strict=True):
                if one.code == "rules_ended":
                    case.cannot = one.code, one.problem.rstrip(".")
                else:
                    again[id(case)] = one
        return [case.settled(again.get(id(case)), changed.get(id(case), "")) for case in cases]

    async def _seated_again(self, case: _Case, game: _Game) -> None:
        """Let seats send again what was recorded; more than once, if another game comes out."""
        assert game.package is not None
        assert case.framed is not None
        found: list[SeatedAgain] = []
        for delay in (0.0, DELAY):
            found.append(await play_seats_again(game.package, case.framed, case.place, delay=delay))
            if not case.compare_seated(found):
                return

    async def _again(self, game: _Game, replays: list[bytes]) -> list[ReplayedFile]:
        if not replays:
            return []
        assert game.worker is not None
        first, rest = ([replays[0]], replays[1:]) if not game.observed else ([], replays)
        game.observed = True
        found: list[ReplayedFile] = []
        for asked in (ReplaysAgain(replays=first, watch=True), ReplaysAgain(replays=rest)):
            if asked.replays:
                found += await self._asked(game.worker, asked)
        return found

    async def _asked(self, worker: MatchProcess, asked: ReplaysAgain) -> list[ReplayedFile]:
        """Play replays again; one by one if the rules end their process in one of them."""
        try:
            return await anyio.to_thread.run_sync(worker.play_again, asked, abandon_on_cancel=True)
        except EnvironmentFault as fault:
            if len(asked.replays) == 1:
                return [ReplayedFile(problem=fault.message, code="rules_ended")]
        found: list[ReplayedFile] = []
        for one in asked.replays:
            found += await self._asked(worker, replace(asked, replays=[one]))
        return found

    async def _open_game(self, source: str) -> _Game:
        if source not in self._games:
            self._games[source] = await self._found_game(source)
        return self._games[source]

    async def _found_game(self, source: str) -> _Game:
        try:
            package = self._game or source
            if not isinstance(package, Package):
                package = await resolve_package(package)
        except CoworldError as error:
            if self._game is not None:
                raise
            return _Game(reason=("game_missing", f"its game is not there any more: {error.message.rstrip('.')}"))
        if reason := refused(package, None):
            if reason != NOT_OF_THE_KIT:
                return _Game(reason=("not_replayable", reason))
            why = f"{reason}, and what its seats sent was not recorded (frames)"
            return _Game(reason=("not_replayable", why), package=package, sha256=package.sha256)
        pool = await self._stack.enter_async_context(WorkerPool(package, workers=1))
        await pool.open_workers(1)
        if problem := pool.workers[0].problem():
            return _Game(reason=("rules_unloadable", f"its rules cannot be loaded: {problem}"))
        return _Game(worker=pool.workers[0], sha256=package.sha256)


async def verify_run(
    run: str | os.PathLike[str],
    *,
    game: Package | str | os.PathLike[str] | None = None,
    trusted: Collection[bytes] | None = None,
) -> Verification:
    """Verify an episode: that its files are as they were left, and that its game plays again as it was recorded.

    Args:
        run: The directory of an episode, its path as in `find_episode`, a bundle, or the directory of a certification.
        game: The Coworld, whose rules are executed here; None: the one that the episode's record names, as long as its
            manifest is what it was. A bundle names none.
        trusted: Public keys of which one must have signed it; None: any may, or none.

    Raises:
        UsageError: There is no such run (`path_missing`), it is none (`not_an_episode`), or there are several
            (`several_episodes`); or the game is not there.
        EnvironmentFault: The machine failed, or it is signed and the extra `sign` is not installed.
    """
    place = await anyio.to_thread.run_sync(find_episode, expand(os.fspath(run)))
    async with Verifier(game, trusted=trusted) as verifier:
        (found,) = await verifier.verify([(os.fspath(run), place)])
    return found


# --- what a run has left ---------------------------------------------------------------------------------------------


def _opened(run: str, place: Path, named: bool, trusted: Collection[bytes] | None) -> _Case:
    """Check the files of a run, and gather what to play again. Blocks."""
    if not place.exists():
        raise missing(place, what="episode")
    if place.is_file():
        case = _of_bundle(run, place, named)
        if trusted is not None:
            problem = "has no record, and so no signature, which is required"
            case.files.append(ChangedFile(path=place.name, problem=problem))
        return case
    layout = EpisodeLayout(place)
    if not layout.record.is_file():
        raise not_one_episode(place) or UsageError(
            f"{place} has no {layout.record.name}.",
            code="not_an_episode",
            hint="Name the directory of an episode that has ended, a bundle, or the directory of a certification.",
            context={"path": str(place)},
        )
    record, files, issues = changed_record(layout.record, trusted=trusted)
    case = _Case(run=run, files=files, checked=["record"], notes=[issue.message for issue in issues])
    if record is None:
        case.cannot = "record_unreadable", "its record cannot be read"
        return case
    case.checked += ["signature"] if record.signature is not None else []
    case.files += [*changed_provenance(place / PROVENANCE_NAME, record), *changed_artifacts(record, layout)]
    case.checked.append("files")
    if not record.digest:
        case.notes.append("Its record is of an earlier version, and nothing protects it.")
    _gather(case, record, layout, named=named)
    return case


def _gather(case: _Case, record: EpisodeRecord, layout: EpisodeLayout, *, named: bool) -> None:
    case.manifest_sha256, case.seed = record.manifest_sha256, record.seed
    if record.results is not None:
        case.results["episode.json#results"] = record.results
        case.results["episode.json#scores"] = list(record.scores)
        with _unreadable(case, layout.results.name):
            value = object_in(read_regular(layout.results), layout.results.name)
            if isinstance(value, ChangedFile):
                case.files.append(value)
            else:
                case.results[f"{layout.results.name}#results"] = value
    case.place = layout.workspace
    case.framed = record if layout.frames.is_file() else None
    if not named and (reason := reason_not_to_play(record, layout.workspace)):
        case.cannot = reason
    elif not layout.replay.is_file():
        case.cannot = "no_replay", "it has no replay"
    else:
        with _unreadable(case, layout.replay_name):
            case.replay = read_regular(layout.replay)
        case.game = "" if named else record.manifest
    if case.cannot is None and not case.replay:
        case.cannot = "no_replay", "its replay is empty, or cannot be read"


def _of_bundle(run: str, place: Path, named: bool) -> _Case:
    case = _Case(run=run)
    try:
        if not is_bundle(place):
            raise UsageError(
                f"{place} is not a bundle.",
                code="not_an_episode",
                hint="Name an episode's directory, or its bundle.",
                context={"path": str(place)},
            )
        bundle = read_bundle(place, limit=2 * _MOST_OF_BUNDLE)
        for file in bundle.files:
            data = bytearray()
            for piece in bundle.pieces(file):
                if file.token in _PLAYED and len(data) <= _MOST_OF_BUNDLE:
                    data += piece
            if file.token == EpisodeLayout.replay_name:
                case.replay = bytes(data)
            elif data:
                value = object_in(bytes(data), file.entry)
                if isinstance(value, ChangedFile):
                    case.files.append(value)
                else:
                    case.results[f"{file.entry}#results"] = value
        case.checked.append("files")
    except BundleError as error:
        case.files.append(ChangedFile(path=place.name, problem=f"does not hold: {error.message.rstrip('.')}"))
        case.cannot = "bundle_invalid", "the bundle is not valid"
    if case.cannot is None and not named:
        case.cannot = "game_unknown", "a bundle does not say which game it is of; name the game"
    if case.cannot is None and not case.replay:
        case.cannot = "no_replay", "there is no replay in it"
    return case


_PLAYED = (EpisodeLayout.replay_name, "results")
"""Parts of a bundle that are compared."""
_MOST_OF_BUNDLE = 64 << 20
"""Bytes of a bundle's replay, and of its results."""


@contextmanager
def _unreadable(case: _Case, name: str) -> Generator[None]:
    try:
        yield
    except (OSError, ValueError, TypeError, RecursionError) as error:
        case.files.append(ChangedFile(path=name, problem=f"cannot be read: {error}"))
