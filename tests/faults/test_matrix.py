"""Who is blamed for what: games and players that misbehave, or mean harm, on each backend.

Each row is one episode: behaviour, outcome, blame; after each of them nothing is left, and `clean` finds nothing. What
the rows show is said in `docs/security.md`. On a cluster are those rows whose end is seen in another way there: how a
unit ends and is stopped, its limits, its log, what it writes. On Docker that is seen of one container at a time
(`tests/conformance`, `tests/runner/test_docker_units.py`), and here are those rows that it takes several for. What
follows from what was seen is the same everywhere.
"""

from __future__ import annotations

import stat
import urllib.request
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
from support.arena import Arena
from support.clock import skip
from support.full import FULL
from support.misfit_kit import NOTHING_MORE, Evidence
from support.waiting import until

from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.outcome import Fault
from coworld_runner.backend import Limits
from coworld_runner.episode import artifact_collector
from coworld_runner.episode.episode_options import EpisodeOptions
from coworld_runner.episode.play_links import PlayLinks

pytestmark = pytest.mark.slow

MIB = 1 << 20
LONG = 60.0
PATIENCE = 100.0
"""Seconds of play of a game that is to be ended early."""

BACKENDS = ["process", pytest.param("docker", marks=pytest.mark.docker)]


@dataclass(frozen=True)
class Blame:
    """One expected fault."""

    party: str
    error_type: str
    slot: int | None = None

    @classmethod
    def of(cls, fault: Fault) -> Blame:
        return cls(fault.party, fault.error_type, fault.slot)


def game(error_type: str) -> tuple[Blame, ...]:
    return (Blame("game", error_type),)


def player(error_type: str, *slots: int) -> tuple[Blame, ...]:
    return tuple(Blame("player", error_type, slot) for slot in slots or (1,))


@dataclass(frozen=True)
class Case:
    """One row."""

    game: str = "well"
    players: tuple[Any, ...] = ("well", "well")
    blames: tuple[Blame, ...] = ()
    any_of_them: bool = False
    """Whether one of the blamed is enough: the first ends the episode, perhaps before more is known of the others."""
    scores: bool = False
    """Whether there are valid results in spite of it all."""
    config: dict[str, Any] = field(default_factory=dict[str, Any])
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    reason: str | None = None
    """How the unit that is blamed first ended."""
    says: str = ""
    """Words of a fault's message or log tail, or of a warning; without them no warning is expected."""
    truncated: str | None = None
    """The unit whose log was cut."""
    engine: bool = False
    """Whether it is played on a cluster too."""
    docker: bool = False
    """Whether it is played on Docker too."""
    idle: str = ""
    """The phase that lasts until one of our deadlines: from when the game says so; all of `finish`."""
    skip: float = 0.0
    """Seconds to that deadline, which then need not be waited for."""
    go: str = ""
    """The event of player 1 at which the game is told to wait for no more players."""

    @property
    def id(self) -> str:
        strange = [who if isinstance(who, str) else who[0] for who in self.players if who != "well"]
        return "+".join([self.game, *strange]).replace(" ", "=").replace("/", "")


def row(name: str, *blames: Blame, **more: Any) -> Case:
    """A misbehaving game."""
    return Case(game=name, blames=tuple(blames), **more)


def seat(*who: Any, **more: Any) -> Case:
    """Misbehaving players; the first seats are taken by well-behaved ones."""
    return Case(players=(*["well"] * (2 - len(who)), *who), **more)


# All but the first are long enough for the busiest machine: their end is not waited for.
READY = 6.0
DEADLINE = 60.0
EXIT = 60.0
HANGS: dict[str, Any] = {"idle": "play", "skip": DEADLINE}
STAYS: dict[str, Any] = {"idle": "finish", "skip": EXIT}

GAMES = [
    row("well", scores=True, engine=True, docker=True),
    # Before it is ready
    row(
        "never-listens",
        *game("game_unhealthy"),
        options={"ready_timeout_seconds": READY},
        says="did not answer",
        engine=True,
    ),
    *(
        row(name, *game("game_unhealthy"), options={"ready_timeout_seconds": EXIT}, says=says, idle="ready", skip=EXIT)
        for name, says in (("unhealthy", "503"), ("redirects-health", "302"), ("hints", "no answer"))
    ),
    row("healthy-late", scores=True, config={"delay": 1.5}),
    row("exits-7-before-healthy", *game("game_unhealthy"), says="status 7", reason="exited", engine=True),
    row("exits-0-before-healthy", *game("game_unhealthy"), says="no, thank you", reason="exited"),
    # While it plays
    row("hangs", *game("episode_timeout"), options={"timeout_seconds": DEADLINE}, **HANGS),
    row(
        "ignores-term",
        *game("episode_timeout"),
        options={"timeout_seconds": DEADLINE, "stop_grace_seconds": 0.5},
        engine=True,
        **HANGS,
    ),
    row(
        "exits-5",
        *game("game_unhealthy"),
        says="something is very wrong",
        reason="exited",
        engine=True,
        docker=True,
    ),
    row(
        "stops-itself",
        *game("episode_timeout"),
        options={"timeout_seconds": DEADLINE, "stop_grace_seconds": 0.5},
        **HANGS,
    ),
    row("storms", scores=True, config={"play_seconds": 0.6}),
    row("paints", *game("game_unhealthy"), says="it says what it wants", reason="exited"),
    row("loses-directory", *game("results_missing"), says="without writing results"),
    row("exits-137", *game("game_unhealthy")),
    row("kills-itself", *game("game_unhealthy"), reason="signal"),
    row("dies-slowly", *game("game_unhealthy"), says="the game task failed", config={"delay": 0.5}),
    row("bails-out", *game("results_missing"), says="without writing results"),
    # Far longer than a player's failure is given: its silence shows that it is going
    row("shuts-down-slowly", *game("results_missing"), config={"delay": 3}, engine=True, docker=True),
    row("breaks-first-viewer", scores=True),
    row("dies-when-watched", *game("game_unhealthy"), config={"delay": 3}),
    row(
        "runs-out-of-memory",
        *game("game_unhealthy"),
        config={"size": 1024 * MIB},
        options={"game_limits": Limits(memory_bytes=128 * MIB)},
        reason="oom",
        says="out of memory",
        engine=True,
    ),
    row(
        "fills-disk",
        *game("game_unhealthy"),
        config={"size": 512 * MIB},
        options={"game_limits": Limits(disk_bytes=16 * MIB)},
        reason="disk",
        says="disk",
    ),
    row(
        "floods-log",
        scores=True,
        config={"size": 100 * MIB},
        options={"game_limits": Limits(log_bytes=MIB)},
        truncated="game",
        engine=True,
    ),
    row("daemonises", scores=True, engine=True),
    # Its results
    row("half-results-exits", *game("results_malformed")),
    row(
        "half-results-hangs",
        *game("episode_timeout"),
        *game("results_malformed"),
        options={"timeout_seconds": DEADLINE},
        **HANGS,
    ),
    row("nan-results", *game("results_malformed")),
    row("wrong-schema", *game("results_malformed"), says="ticks"),
    row("wrong-count", *game("results_malformed"), says="2 slots"),
    row("not-utf8", *game("results_malformed")),
    row("link-results", *game("artifact_transport_error"), engine=True),
    row("fifo-results", *game("artifact_transport_error"), says="not a regular file"),
    row("directory-results", *game("artifact_transport_error"), says="not a regular file"),
    row("late-results", *game("results_missing"), says="without writing results"),
    row("swaps-results", scores=True),
    row("huge-results", *game("results_malformed"), config={"size": 5 * MIB}),
    row("results-then-exits-5", *game("game_unhealthy"), scores=True, reason="exited", says="status 5"),
    # What comes after
    row("lingers", scores=True, config={"delay": LONG}, options={"linger_seconds": 0.5}, engine=True),
    row("no-replay", scores=True, says="wrote no replay"),
    row(
        "no-replay-lingers",
        scores=True,
        says="wrote no replay",
        config={"delay": LONG},
        options={"replay_timeout_seconds": 1, "linger_seconds": 0.5},
    ),
    row(
        "slow-replay",
        scores=True,
        config={"delay": 4},
        options={"replay_timeout_seconds": 1, "linger_seconds": 0.5},
        engine=True,
    ),
    row("piecewise-replay", scores=True, config={"delay": 4}, options={"linger_seconds": 3}),
    row(
        "provisional-results",
        scores=True,
        config={"play_seconds": 6},
        options={"replay_timeout_seconds": 4, "linger_seconds": 0.5},
    ),
    # Never over, whatever it has written: its players need not end
    *(
        row(
            name,
            *game("episode_timeout"),
            scores=True,
            options={"timeout_seconds": DEADLINE, "linger_seconds": 100 * DEADLINE},
            **HANGS,
        )
        for name in ("rewrites-results", "rewrites-replay")
    ),
    row(
        "current-results",
        *game("episode_timeout"),
        scores=True,
        options={"timeout_seconds": DEADLINE, "linger_seconds": 100 * DEADLINE},
        **HANGS,
    ),
    # Its contract
    row("accepts-any-token", *game("game_contract_violation"), config={"play_seconds": LONG}),
    row("announces", *game("game_contract_violation"), config={"play_seconds": LONG}, says="sent a message"),
    row("fails-on-bad-token", *game("game_contract_violation"), config={"play_seconds": LONG}, says="500"),
    row("no-pages", *game("game_contract_violation"), config={"play_seconds": LONG}, says="404"),
    row("older-pages", scores=True, config={"play_seconds": 1.5}),
    row(
        "silent-viewer",
        *game("game_contract_violation"),
        config={"play_seconds": LONG},
        options={"viewer_timeout_seconds": 1},
        says="/global",
    ),
    row(
        "hangs-viewers",
        *game("game_contract_violation"),
        config={"play_seconds": LONG},
        options={"viewer_timeout_seconds": 1},
        says="/global",
    ),
    *(
        row(
            name,
            *game("game_contract_violation"),
            config={"play_seconds": LONG},
            options={"viewer_timeout_seconds": 0.5},
            says="/global",
        )
        for name in ("babbles", "long-head", "says-goodbye")
    ),
    row("pings-viewers", scores=True, config={"play_seconds": 0.5}, options={"watch": True}),
    row("lies-to-viewers", scores=True, config={"play_seconds": 2.5}, options={"watch": True}),
    row("refuses-players", *game("game_contract_violation"), says="refuses player"),
    # Players are gone before the game would have been over
    *(
        row(name, *game("game_contract_violation"), config={"play_seconds": LONG}, says="/player closes", docker=docker)
        for name, docker in (("throws-players-out", True), ("resets-players", False))
    ),
    row(
        "closes-on-players",
        *game("game_contract_violation"),
        config={"play_seconds": LONG},
        options={"abandoned_timeout_seconds": 0.5},
        says="with code 1000",
    ),
    # Those of the players, and one with a wrong token
    row(
        "late-for-players",
        *game("game_contract_violation"),
        config={"size": 3, "play_seconds": LONG},
        says="did not answer when the players came",
    ),
    row("deaf-to-players", *game("game_contract_violation"), says="could not be reached"),
    row(
        "hangs-players",
        *game("game_contract_violation"),
        players=("impatient", "impatient"),
        says="leaves player",
    ),
    row("endless-health", scores=True),
    row("big-viewer", scores=True, config={"play_seconds": 1.5}),
    row("huge-viewer", *game("game_contract_violation"), config={"play_seconds": LONG}, says="more than 4194304 bytes"),
    row("crowds-viewers", scores=True, config={"play_seconds": 1.5}, options={"watch": True}, says="is not shown"),
    row(
        "crowds-viewers-for-ever",
        *game("episode_timeout"),
        options={"timeout_seconds": DEADLINE, "watch": True},
        engine=True,
        docker=True,
        **HANGS,
    ),
]

PLAYERS = [
    seat("exits-3", blames=player("player_error"), says="I will not play", reason="exited", engine=True),
    seat("exits-3", "exits-3", blames=player("player_error", 0, 1)),
    seat("exits-3-midway", blames=player("player_error"), config={"play_seconds": LONG}),
    seat("exits-0", blames=player("player_left_early"), says="had never connected", reason="exited"),
    # Where it ends at once, a busy machine may be too late to look at its network, and then nobody knows
    seat("exits-0 1", blames=player("player_left_early"), says="had never connected", reason="exited", docker=True),
    seat(
        *("exits-0", "exits-0"),
        blames=player("player_left_early", 0, 1),
        any_of_them=True,
        says="had never connected",
    ),
    seat("says-nothing", blames=player("player_left_early"), says="had never connected", docker=True),
    seat(
        "exits-0-midway",
        "exits-0-midway",
        blames=player("player_left_early", 0, 1),
        config={"play_seconds": 10 * DEADLINE},
        options={"timeout_seconds": DEADLINE},
        says="the game was not over at the deadline",
        **HANGS,
    ),
    seat(
        "exits-0-midway",
        "exits-0-midway",
        blames=player("player_left_early", 0, 1),
        config={"play_seconds": LONG},
        options={"abandoned_timeout_seconds": 0.5},
        says="the game was not over 0.5 s after the last player had left",
    ),
    seat("exits-0-midway", scores=True, config={"play_seconds": 3.5}, says="ended with status 0"),
    seat("exits-9-after", blames=player("player_error"), scores=True, says="status 9"),
    seat(
        "never-connects",
        blames=player("player_timeout"),
        scores=True,
        go="unit_started",
        options={"player_exit_timeout_seconds": EXIT},
        **STAYS,
    ),
    seat(
        "hangs-after",
        blames=player("player_timeout"),
        scores=True,
        options={"player_exit_timeout_seconds": EXIT},
        **STAYS,
    ),
    seat(
        "ignores-term",
        blames=player("player_timeout"),
        scores=True,
        options={"player_exit_timeout_seconds": EXIT, "stop_grace_seconds": 0.5},
        says=NOTHING_MORE,
        engine=True,
        **STAYS,
    ),
    seat(
        f"floods-log {100 * MIB}",
        scores=True,
        options={"player_limits": Limits(log_bytes=MIB)},
        truncated="player-1",
    ),
    seat("forks-away 20", scores=True, engine=True),
    seat(
        f"fills-disk {512 * MIB}",
        blames=player("player_error"),
        config={"play_seconds": LONG},
        options={"player_limits": Limits(disk_bytes=16 * MIB)},
        reason="disk",
        engine=True,
    ),
    seat(
        f"runs-out-of-memory {1024 * MIB}",
        blames=player("player_error"),
        options={"player_limits": Limits(memory_bytes=128 * MIB)},
        reason="oom",
    ),
    seat(
        f"loses-a-child {1024 * MIB}",
        blames=player("player_error"),
        config={"play_seconds": LONG},
        options={"player_limits": Limits(memory_bytes=128 * MIB)},
        reason="oom",
        docker=True,
    ),
    seat(
        ["/does/not/exist"],
        blames=player("player_never_started"),
        says="/does/not/exist",
        engine=True,
        docker=True,
    ),
    seat(f"artifact {MIB // 2}", scores=True, engine=True),
    # What a player wants to keep is no part of the episode: if it cannot be kept, that is told, and no more
    seat(f"artifact {3 * MIB}", scores=True, says="left no artifact that can be kept: policy_artifact_1.zip"),
    seat("artifact-link", scores=True, says="is not a regular file", engine=True),
    seat("artifact-fifo", scores=True, says="is not a regular file"),
    seat("artifact-directory", scores=True, says="Player 1 (artifact-directory) left no artifact"),
    # What is hidden from a look at the disk
    seat(
        "litters 3000",
        blames=player("player_error"),
        config={"play_seconds": LONG},
        options={"player_limits": Limits(disk_entries=1000)},
        reason="disk",
        says="disk",
        engine=True,
    ),
    seat(
        "hides 32",
        blames=player("player_error"),
        config={"play_seconds": LONG},
        options={"player_limits": Limits(disk_bytes=16 * MIB)},
        reason="disk",
    ),
    # Against whoever looks after it; a container's first process takes no signal from within
    seat("drops-labels", "stops-parent", scores=True, engine=True, docker=True),
    seat("kills-parent", blames=(Blame("platform", "platform_error"),), config={"play_seconds": LONG}, reason="lost"),
    seat("kills-keepers", blames=(Blame("platform", "platform_error"),), config={"play_seconds": LONG}, reason="lost"),
    # Deeper than a program may call itself, and longer than a path may be
    seat("digs 2500", scores=True, engine=True),
    seat("closes-streams", scores=True),
    seat("loses-directory", scores=True),
    seat("artifact-setuid", scores=True),
    seat(f"long-line {2 * MIB}", scores=True, options={"player_limits": Limits(log_bytes=MIB)}, truncated="player-1"),
    seat(
        "hides-in-memory 32",
        blames=player("player_error"),
        config={"play_seconds": LONG},
        options={"player_limits": Limits(disk_bytes=16 * MIB)},
        reason="disk",
    ),
    # Against whoever counts, lists or ends processes
    seat("runs-away", scores=True),
    seat("zombies 100", scores=True),
    seat("renames-itself", "zombies 3", scores=True),
    seat("crowds 200", scores=True),
    seat("kills-group", blames=player("player_error"), config={"play_seconds": LONG}, reason="signal"),
    seat(
        "stops-itself",
        blames=player("player_timeout"),
        scores=True,
        options={"player_exit_timeout_seconds": EXIT, "stop_grace_seconds": 0.5},
        says=NOTHING_MORE,
        **STAYS,
    ),
]

CASES = [
    pytest.param(name, case, id=f"{name}-{case.id}", marks=[pytest.mark.docker] if name == "docker" else [])
    for name in ("process", "docker")
    for case in (*GAMES, *PLAYERS)
    if name == "process" or case.docker
]


@pytest.mark.parametrize(("backend_name", "case"), CASES)
async def test_blame(arena: Arena, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    # What the contract allows is 200 MiB, which would only take time
    monkeypatch.setattr(artifact_collector, "ARTIFACT_LIMIT", 2 * MIB)
    found = await play(arena, case, EpisodeOptions(timeout_seconds=600))
    judge(case, found)


async def play(arena: Arena, case: Case, options: EpisodeOptions, workspace: Path | None = None) -> Evidence:
    """Play a row, and let nobody wait who is known to wait in vain."""
    workspace = workspace or arena.workspace()
    address = ""

    def remember(links: PlayLinks) -> None:
        nonlocal address
        address = f"http://{urlsplit(links.viewer).netloc}"

    def let_go(event: Any) -> None:
        if event.kind == case.go and ("Player 1" in str(event) or getattr(event, "unit", "") == "player-1"):
            with urllib.request.urlopen(f"{address}/go", timeout=60) as answer:
                assert answer.status == 200

    async with anyio.create_task_group() as group:
        hurry = Hurry(case, EpisodeLayout(workspace).game_stdout)
        group.start_soon(hurry.run)
        found = await arena.play(
            arena.plan(case.game, *case.players, **case.config),
            replace(options, **case.options),
            workspace=workspace,
            listeners=(let_go, hurry.listen),
            on_ready=remember if case.go else None,
        )
        group.cancel_scope.cancel()
    return found


class Hurry:
    """Has a row's deadline come once there is nothing else to wait for."""

    def __init__(self, case: Case, log: Path) -> None:
        self.case, self.log = case, log
        self.finishing, self.over = anyio.Event(), anyio.Event()
        self.left = 0

    def listen(self, event: Any) -> None:
        """Follow the phases."""
        if event.kind == "phase_started" and event.phase == "finish":
            self.finishing.set()
        if event.kind == "unit_exited" and event.component == "player":
            self.left += 1
        if event.kind == "phase_finished" and event.phase == self.case.idle:
            self.over.set()

    def nothing_more(self) -> bool:
        """Whether the game has said that it will do nothing, or waits for players that have all left."""
        if self.left == len(self.case.players):
            return True
        return self.log.exists() and NOTHING_MORE in self.log.read_text(errors="replace")

    async def run(self) -> None:
        """Skip as long as the phase lasts, whose deadline may begin to run only now; not while units are removed."""
        if not self.case.idle:
            return
        if self.case.idle == "finish":
            await self.finishing.wait()
        else:
            await until(self.nothing_more, seconds=PATIENCE, what="a game that does nothing more")

        def over() -> bool:
            if not self.over.is_set():
                skip(self.case.skip)
            return self.over.is_set()

        await until(over, seconds=PATIENCE, what=f"the end of the phase {self.case.idle}", every=0.05)


def judge(case: Case, found: Evidence) -> None:
    """Whether the evidence says what it must."""
    record = found.record

    # Of two that fail in the same moment, either may be seen first
    seen = sorted(map(Blame.of, record.faults), key=repr)
    wanted = [blame for blame in case.blames if blame in seen or not (case.any_of_them and seen)]
    assert seen == sorted(wanted, key=repr), record.faults
    assert record.status == ("completed" if case.scores else "failed")
    assert record.ok is (case.scores and not case.blames)
    assert record.scores == ((0.0, 1.0) if case.scores else ())

    told = [*(f"{fault.message} {fault.log_tail}" for fault in record.faults), *record.warnings]
    if case.says:
        assert any(case.says in words for words in told), told
    elif case.scores:
        assert record.warnings == ()
    if case.reason is not None:
        assert record.faults[0].exit is not None
        assert record.faults[0].exit.reason == case.reason
    for fault in record.faults:
        assert fault.phase
        assert fault.log is None or (found.layout.workspace / fault.log).exists()

    # Whoever reads them on a terminal
    assert all(word.isprintable() for words in told for word in words.split()), told

    # The evidence: what was valid is kept, and nothing but regular files
    assert found.layout.results.exists() or not case.scores
    modes = [path.lstat().st_mode for path in found.layout.workspace.rglob("*")]
    assert not any(stat.S_ISLNK(mode) or mode & (stat.S_ISUID | stat.S_ISGID) for mode in modes)
    if case.scores and case.game not in {"no-replay", "no-replay-lingers", "results-then-exits-5"}:
        assert found.layout.replay.read_text().endswith("the end\n")
    assert record.game is not None
    for unit, kept in {"game": record.game, **{f"player-{entry.slot}": entry for entry in record.slots}}.items():
        assert kept.log_truncated is (unit == case.truncated)
        assert bool(found.position("log_truncated", unit=unit)) is kept.log_truncated
        assert (kept.exit is None) is (kept.started_seconds is None)
    limit = 1.1 * MIB if case.truncated else 33 * MIB
    assert all(path.stat().st_size <= limit for path in found.layout.logs.iterdir())


@pytest.mark.parametrize("backend_name", BACKENDS)
async def test_fault_is_reported_when_seen(arena: Arena) -> None:
    """The game would wait for its second player for three minutes; nobody waits for the game."""
    game_had_ended: list[bool] = []
    heard: list[Any] = []

    def listen(event: Any) -> None:
        if event.kind == "fault_seen":
            game_had_ended.append(any(old.kind == "unit_exited" and old.unit == "game" for old in heard))
        heard.append(event)

    # A player that has met its game would leave with it: which of them a stop reaches first must not matter
    found = await arena.play(arena.plan("well", "never-connects", "exits-3", connect_timeout=180), listeners=(listen,))
    assert game_had_ended == [False]
    ended, fault = found.position("unit_exited", unit="player-1"), found.position("fault_seen")
    assert 0 < ended < fault < found.position("unit_exited", unit="game")
    for unit in (found.record.game, found.record.slots[0]):
        assert unit is not None
        assert unit.exit is not None
        assert unit.exit.reason == "stopped"


@pytest.mark.parametrize("backend_name", BACKENDS)
async def test_noisy_game_does_not_slow_its_neighbour(arena: Arena) -> None:
    found: dict[str, Evidence] = {}

    async def one(name: str, options: EpisodeOptions) -> None:
        plan = arena.plan(name, play_seconds=1.5)
        found[name] = await arena.play(plan, options, workspace=arena.directory / name)

    async with anyio.create_task_group() as group:
        group.start_soon(one, "crowds-viewers", EpisodeOptions(timeout_seconds=90, watch=True))
        group.start_soon(one, "well", EpisodeOptions(timeout_seconds=90))
    for evidence in found.values():
        assert evidence.record.faults == ()
        assert evidence.record.scores == (0.0, 1.0)
    assert found["well"].record.warnings == ()
    waiting = [event.message for event in found["crowds-viewers"].of_kind("notice") if "Waiting" in event.message]
    # The game names three slots thousands of times; two of them have a player, and each is named once in a while
    assert sorted(set(waiting)) == [
        "Waiting for player 0 (well): nothing sent for 7 s.",
        "Waiting for player 1 (well): nothing sent for 7 s.",
    ]
    assert len(waiting) <= 2 * len(found["crowds-viewers"].of_kind("game_progressed"))


async def test_a_game_may_decide_how_to_go_on(arena: Arena) -> None:
    """With `continue` a player's failure is told and the game goes on without it."""
    options = EpisodeOptions(timeout_seconds=60, on_player_failure="continue")
    found = await play(arena, seat("exits-3", go="fault_seen"), options)
    assert tuple(map(Blame.of, found.record.faults)) == player("player_error")
    assert found.record.scores == (0.0, 1.0)


async def test_early_leave_is_reported_during_the_game(arena: Arena) -> None:
    found = await play(arena, seat("exits-0-midway", config={"play_seconds": 12}), EpisodeOptions(timeout_seconds=60))
    (warning,) = [event for event in found.of_kind("notice") if "Player 1" in event.message]
    assert warning.level == "warning"
    assert warning.seq < found.position("unit_exited", unit="game")
    assert found.record.ok


# --- every game with every player -----------------------------------------------------------------------------------

ALL_GAMES = [
    "well",
    "exits-5",
    "bails-out",
    "half-results-exits",
    "nan-results",
    "results-then-exits-5",
    "lingers",
    "no-pages",
]
ALL_PLAYERS = ["well", "exits-3", "exits-3-midway", "exits-0-midway", "exits-9-after", "hangs-after"]


def expected(game_behaviour: str, player_behaviour: str) -> tuple[set[Blame], set[Blame]]:
    """Who must be blamed, and who may be besides."""
    misdeed = {
        "exits-5": game("game_unhealthy"),
        "bails-out": game("results_missing"),
        "half-results-exits": game("results_malformed"),
        "nan-results": game("results_malformed"),
        "results-then-exits-5": game("game_unhealthy"),
        "no-pages": game("game_contract_violation"),
    }.get(game_behaviour, ())
    failure = {
        "exits-3": player("player_error"),
        "exits-3-midway": player("player_error"),
        "exits-9-after": player("player_error"),
        "hangs-after": player("player_timeout"),
    }.get(player_behaviour, ())
    if game_behaviour == "no-pages":
        # Both are there to be seen from the beginning, and either ends the episode
        return set(), {*misdeed, *failure}
    if player_behaviour == "exits-3":
        # It never connects, so the game comes to its own misdeeds only if it takes the look at the free seat for a
        # player, and is quicker than its end.
        return set(failure), set(misdeed)
    # A game that plays for a quarter of a second and fails proves nothing about its players
    return set(misdeed or failure), set()


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_every_game_with_every_player(arena: Arena) -> None:
    wrong: list[str] = []

    async def one(game_behaviour: str, player_behaviour: str, limit: anyio.CapacityLimiter) -> None:
        async with limit:
            workspace = arena.directory / f"{game_behaviour}+{player_behaviour}"
            plan = arena.plan(game_behaviour, "well", player_behaviour, delay=LONG)
            options = EpisodeOptions(timeout_seconds=90, player_exit_timeout_seconds=6, linger_seconds=1)
            found = await arena.play(plan, options, workspace=workspace)
            blames = set(map(Blame.of, found.record.faults))
            must, may = expected(game_behaviour, player_behaviour)
            if not must <= blames <= must | may:
                wrong.append(f"{workspace.name}: {[str(fault) for fault in found.record.faults]}")

    limit = anyio.CapacityLimiter(4)
    async with anyio.create_task_group() as group:
        for number, game_behaviour in enumerate(ALL_GAMES):
            for other, player_behaviour in enumerate(ALL_PLAYERS):
                # Every game with one player, and every player with one game or two
                if FULL or (number + other) % 6 == 3:
                    group.start_soon(one, game_behaviour, player_behaviour, limit)
    assert wrong == []
