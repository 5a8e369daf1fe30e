"""What a run leaves in its store: what is played, the chunks of episodes, who plays them, and their rows.

| object | written by | what it is |
|---|---|---|
| `run.json` | the driver, once | what all episodes have in common |
| `files/….zip` | the driver, once | the package, and each player, by content |
| `plan.json`, `players.json` | the driver | what is measured, and the files of players: what `attend_run` needs |
| `drivers/N` | the N-th driver, again and again | a sign of life; a later driver takes over from an earlier one |
| `chunks/N.json` | the driver, once | episodes to play, with everything that a plan needs |
| `claims/N.A` | the pod that plays it, again and again | a sign of life of the A-th attempt at a chunk |
| `episodes/N.A/KEY/…` | the same pod | evidence, as in the directory of an episode |
| `rows/N.jsonl` | the first pod that has played it, once | which attempt counts, and the row of each episode |
| `problems/N.json` | a pod | why no pod can play a chunk |
| `closed` | the driver, or who ends the run | there will be no further chunks |
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from pydantic import TypeAdapter, ValidationError

from coworld_core.documents.records import Record, SchemaVersion, open_record, read_as
from coworld_core.episode.record import SlotRow
from coworld_core.errors import EnvironmentFault, RecordError, UsageError
from coworld_core.files.zips import ZipWriter, open_zip
from coworld_core.hints import Hint
from coworld_core.issues import Issue, Report
from coworld_core.manifest.manifest_file import MANIFEST_NAME

from ..episode.episode_options import EpisodeOptions
from ..episode.venue import Wanted
from ..evaluation.worker_rows import planned_slots
from ..images._compose_places import COMPOSE_NAMES
from ..images.source_files import source_files
from ..package.own_players.own_player import MOST_BYTES, OwnPlayer
from ..package.plan import EpisodePlan, plan_episode
from ..package.player_names import PlayerRef
from ..package.random_player import RANDOM
from ..package.resolver import Package, resolve_package
from .job_store import JobStore

__all__ = [
    "CLOSED",
    "PACKAGE",
    "RUN",
    "STOPPED",
    "ChunkProblem",
    "ChunkWriter",
    "Driver",
    "JobRun",
    "PackedPackage",
    "PlannedChunk",
    "PlannedEpisode",
    "PlayersSent",
    "RowsHead",
    "SentFiles",
    "SentPlans",
    "bring_archive",
    "chunk_number",
    "no_run",
    "pack_manifest",
    "pack_package",
    "pack_player",
    "plain_options",
    "player_files",
    "read_object",
    "read_run",
    "seat_word",
    "sent_package",
]

_Model = TypeVar("_Model", bound=Record)

RUN = "run.json"
CLOSED = "closed"
STOPPED = b"stopped\n"
"""The content of that object if the run was ended from elsewhere, which ends its driver, too."""
PACKAGE = "files/package.zip"
_FIRST_SECONDS = 20.0
"""How long a store may be silent at first: a mistake in its name is likelier than a moment's trouble."""


class JobRun(Record):
    """What all episodes of a run have in common."""

    schema_version: SchemaVersion = 1
    run_id: str
    """The label of the run that began it."""
    coworld: str = ""
    """The name of the game."""
    version: str = ""
    """Its version."""
    source: str
    """Where the package was read from."""
    manifest: str
    """The name of its manifest in the archive."""
    package_sha256: str
    """Of the names and contents of its files."""
    environment: dict[str, str]
    """Variables for game and players, beside the manifest's."""
    programs: bool
    """Whether game and players are programs of images."""
    isolated: bool = False
    """Whether each of them has a pod of its own."""
    options: dict[str, Any]
    """How its episodes are run: `EpisodeOptions`."""
    measured: str
    """As in `VenueRun`."""
    keeps_results: bool
    """As in `VenueRun`."""
    lease_seconds: float
    """Seconds without a sign of life after which whoever plays a chunk, or drives the run, is taken for dead."""

    def episode_options(self) -> EpisodeOptions:
        """How its episodes are run.

        Raises:
            RecordError: Somebody else has written this.
        """
        try:
            return _OPTIONS.validate_python(self.options)
        except ValidationError as error:
            issue = Issue(code="store_foreign", message=str(error).splitlines()[0], pointer="/options")
            raise RecordError(Report(source=RUN, issues=(issue,)), code="store_foreign") from error


_OPTIONS = TypeAdapter(EpisodeOptions)


def plain_options(options: EpisodeOptions | None) -> dict[str, Any]:
    """Options as in `JobRun`; whether somebody watches here is nothing to pods."""
    return _OPTIONS.dump_python(replace(options or EpisodeOptions(), watch=False), mode="json")


class SentFiles(Record):
    """Where a player's files are."""

    archive: str
    """The name of an object; empty: it is `random`."""
    path: str
    """Its file, or its directory, in the archive."""


class PlayersSent(Record):
    """Where the files of players are."""

    players: dict[str, SentFiles]
    """By their image in rows."""


class PlannedTable(Record):
    """What episodes with the same players and the same config have in common."""

    variant: str
    config_changes: dict[str, Any]
    game_config: dict[str, Any]
    """Without tokens, and without a seed."""
    episode_tags: dict[str, str]
    slots: tuple[SlotRow, ...]


class PlannedEpisode(Record):
    """An episode to play."""

    index: int
    key: str
    earlier: int
    """How many attempts at it were lost before."""
    table: int
    """The number of its table in the chunk, from 0."""
    seed: int | None
    player_secret: str


class PlannedChunk(Record):
    """Episodes that are played by one pod."""

    number: int
    players: dict[str, SentFiles]
    """Players that are files, by their image in `slots`."""
    tables: tuple[PlannedTable, ...]
    episodes: tuple[PlannedEpisode, ...]


class RowsHead(Record):
    """The first line of the rows of a chunk."""

    attempt: int


class Driver(Record):
    """Who drives a run, or has driven it."""

    by: str
    """HOST:PROCESS, and what tells it from others there."""
    beat: int = 0
    ended: bool = False


class ChunkProblem(Record):
    """Why no pod can play something."""

    code: str
    message: str
    hint: str | None = None


def chunk_number(name: str) -> int:
    """The number of the chunk that an object belongs to, by its name; 0: none."""
    digits = name.rpartition("/")[2].partition(".")[0]
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else 0


async def read_object(store: JobStore, name: str, model: type[_Model], *, what: str) -> _Model | None:
    """Read an object that anybody may have written; None if there is none.

    Raises:
        RecordError: It is not what it should be.
    """
    data = await store.get(name)
    return read_as(model, open_record(data, what=f"{store}/{name}", name=name), what=what) if data is not None else None


async def read_run(store: JobStore) -> JobRun | None:
    """Read what a store has of a run, as the first thing that is asked of it; None if there is no run.

    Raises:
        EnvironmentFault: It does not answer (`store_unreachable`): later, one waits for longer.
    """
    with anyio.move_on_after(_FIRST_SECONDS):
        return await read_object(store, RUN, JobRun, what="run")
    raise EnvironmentFault(
        f"{store} does not answer within {_FIRST_SECONDS:g} s.",
        code="store_unreachable",
        hint="Check its name, the address of its server and the credentials in the environment.",
    )


def no_run(store: JobStore) -> UsageError:
    """The error for a store without a run."""
    return UsageError(
        f"There is no run at {store}.", code="no_run", hint=Hint("name_store", "Name the run's own place.")
    )


# --- plans


class ChunkWriter:
    """Puts episodes into one chunk.

    Args:
        number: Its number.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._tables: dict[tuple[int, str], int] = {}
        self._found: list[PlannedTable] = []
        self._episodes: list[PlannedEpisode] = []
        self.players: dict[str, OwnPlayer] = {}
        """Players that are files, by their image."""

    def add(self, episode: Wanted) -> None:
        """Add an episode."""
        plan = episode.plan
        config = {name: value for name, value in plan.game_config.items() if name != "seed" or plan.seed is None}
        key = (id(plan.seats), json.dumps([config, dict(plan.episode_tags)], sort_keys=True))
        if key not in self._tables:
            self._tables[key] = len(self._found)
            table = PlannedTable(
                variant=plan.variant,
                config_changes=dict(plan.config_changes),
                game_config=config,
                episode_tags=dict(plan.episode_tags),
                slots=planned_slots(plan),
            )
            self._found.append(table)
            self.players |= {seat.image: seat.own for seat in plan.seats if seat.own is not None}
        self._episodes.append(
            PlannedEpisode(
                index=episode.index,
                key=episode.key,
                earlier=episode.earlier,
                table=self._tables[key],
                seed=plan.seed,
                player_secret=plan.player_secret,
            )
        )

    def chunk(self) -> PlannedChunk:
        """The chunk."""
        files = {image: player_files(own) for image, own in self.players.items()}
        return PlannedChunk(
            number=self._number, players=files, tables=tuple(self._found), episodes=tuple(self._episodes)
        )


class SentPlans:
    """Makes plans from chunks, with the package and the players in a directory.

    Args:
        package: The package.
        run: The run.
        players: The directory with the players of each archive.
    """

    def __init__(self, package: Package, run: JobRun, players: Path) -> None:
        self._package = package
        self._run = run
        self._players = players
        self._bases: dict[str, EpisodePlan] = {}

    def plans(self, chunk: PlannedChunk) -> Iterator[Wanted]:
        """The episodes of a chunk.

        Raises:
            UsageError: A player's files are not those that were planned (`player_changed`).
        """
        bases = [self._base(table, chunk) for table in chunk.tables]
        for one in chunk.episodes:
            base = bases[one.table]
            config = base.game_config if one.seed is None else {**base.game_config, "seed": one.seed}
            plan = replace(base, game_config=config, player_secret=one.player_secret)
            yield Wanted(index=one.index, key=one.key, earlier=one.earlier, plan=plan)

    def _base(self, table: PlannedTable, chunk: PlannedChunk) -> EpisodePlan:
        key = table.model_dump_json()
        if key not in self._bases:
            words = [seat_word(slot, chunk.players, self._players, self._run) for slot in table.slots]
            known = {variant.id for variant in self._package.manifest.variants}
            plan = plan_episode(
                self._package,
                variant=table.variant if table.variant in known else None,
                players=words,
                config=table.config_changes,
            )
            for seat, slot in zip(plan.seats, table.slots, strict=True):
                if seat.image != slot.image:
                    raise UsageError(f"{slot.image} was to play, and {seat.image} is there.", code="player_changed")
            seats = tuple(replace(seat, name=slot.name) for seat, slot in zip(plan.seats, table.slots, strict=True))
            self._bases[key] = replace(
                plan,
                seats=seats,
                game_config=table.game_config,
                variant=table.variant,
                episode_tags=table.episode_tags,
                source=self._run.source,
            )
        return self._bases[key]


def seat_word(slot: SlotRow, players: Mapping[str, SentFiles], place: Path, run: JobRun) -> str | PlayerRef:
    """The word that names a player.

    Args:
        slot: The player, as in rows.
        players: Where the files of players are.
        place: The directory with the players of each archive.
        run: The run.

    Raises:
        UsageError: Its files were not sent (`player_missing`).
    """
    if slot.player_id is not None:
        return slot.player_id
    files = players.get(slot.image)
    if files is None and run.programs:
        return PlayerRef(word=slot.image, kind="image")
    if files is None:
        raise UsageError(f"The files of {slot.image} were not sent.", code="player_missing")
    return str(place / Path(files.archive).stem / files.path) if files.archive else RANDOM


async def sent_package(run: JobRun, directory: Path) -> Package:
    """The package as it was sent.

    Args:
        run: The run.
        directory: Where it was unpacked.
    """
    package = await resolve_package(directory / run.manifest)
    return package.with_environment(run.environment) if run.environment else package


# --- files


@dataclass(frozen=True, kw_only=True)
class PackedPackage:
    """The directory of a package as it is sent."""

    archive: bytes
    manifest: str
    """The name of its manifest."""
    sha256: str
    """Of the names and contents of its files: the same wherever it is packed."""


def pack_manifest(package: Package) -> PackedPackage:
    """Pack what programs of images need of a package: its manifest.

    Raises:
        UsageError: Its images are not built (`images_not_built`).
    """
    if package.is_template:
        raise UsageError(
            f"The images of {package.manifest.game.name} are not built yet.",
            code="images_not_built",
            hint=Hint("build_spec_images", "Build them with build_coworld."),
        )
    data = package.manifest.model_dump_json(by_alias=True, exclude_unset=True).encode()
    return PackedPackage(
        archive=_packed({MANIFEST_NAME: data}), manifest=MANIFEST_NAME, sha256=hashlib.sha256(data).hexdigest()
    )


def pack_package(package: Package) -> PackedPackage:
    """Pack the directory of a package, without what tools and runs leave there. Blocks.

    Raises:
        UsageError: It has no directory, or images of it are built from elsewhere, or it is too large.
    """
    root = package.directory
    outside = [place for place in package.contexts.values() if root is None or not place.is_relative_to(root)]
    if root is None or package.path is None or outside:
        where = f"{outside[0]} is not below {root}" if outside and root is not None else "it has no directory here"
        raise UsageError(
            f"The files of {package.manifest.game.name} cannot be sent to a cluster: {where}.",
            code="package_elsewhere",
            hint="Copy the package, with everything that it is built from, into a directory of its own.",
        )
    files = dict(source_files(root))
    for name in (package.path.name, *COMPOSE_NAMES):
        if (root / name).is_file():
            files[name] = root / name
    files = {name: path for name, path in files.items() if path.is_file()}
    if sum(path.stat().st_size for path in files.values()) > MOST_BYTES:
        raise UsageError(
            f"{root} has more than {MOST_BYTES >> 20} MiB, which is too much to send.",
            code="package_too_large",
            hint="Name what no episode needs in its .dockerignore.",
        )
    contents = {name: path.read_bytes() for name, path in files.items()}
    found = hashlib.sha256()
    for name in sorted(contents):
        found.update(f"{name}\0{len(contents[name])}\0".encode("utf-8", "surrogatepass") + contents[name])
    return PackedPackage(archive=_packed(contents), manifest=package.path.name, sha256=found.hexdigest())


def player_files(own: OwnPlayer) -> SentFiles:
    """Where a player's files are, once they are packed."""
    if own.kind == RANDOM:
        return SentFiles(archive="", path="")
    # The digest says nothing of the name
    named = hashlib.sha256(f"{own.digest} {own.file}".encode("utf-8", "surrogatepass")).hexdigest()
    return SentFiles(archive=f"files/player-{named[:24]}.zip", path=own.file)


def pack_player(own: OwnPlayer) -> bytes:
    """Pack a player: its file under its name, or its directory under that name."""
    below = "" if own.file in own.files else f"{own.file}/"
    return _packed({f"{below}{name}": content for name, content in own.files.items()})


def _packed(files: Mapping[str, bytes]) -> bytes:
    parts: list[bytes] = []
    with ZipWriter(parts.append) as archive:
        for name in sorted(files):
            archive.add(name, files[name])
    return b"".join(parts)


async def bring_archive(store: JobStore, name: str, directory: Path) -> None:
    """Bring an archive and unpack it into a directory, which appears whole, unless it is there.

    Raises:
        UsageError: There is no such archive, it is damaged, or it leads out of the directory.
    """
    if await anyio.Path(directory).exists():
        return
    data = await store.get(name, most=1 << 30)
    if data is None:
        raise UsageError(f"{store} has no {name}.", code="store_incomplete", hint="Give the run a new place.")
    await anyio.to_thread.run_sync(_unpack, data, directory)


def _unpack(data: bytes, directory: Path) -> None:
    new, archive = directory.with_name(f"{directory.name}.new"), directory.with_name(f"{directory.name}.zip")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    archive.write_bytes(data)
    with open_zip(archive, limit=2 * MOST_BYTES, what="archive", error=UsageError) as found:
        found.extract_all(new)
    new.rename(directory)
    archive.unlink()
