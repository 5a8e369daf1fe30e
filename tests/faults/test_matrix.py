"""Who is blamed for what, end to end: one episode with real programs for each way in which a fault reaches us.

What follows from what was seen is a table (`tests/runner/test_blame.py`); what a check of the game makes of an answer
is in `tests/runner/test_contract_probes.py`; how units end and are held, and what is fetched from them, in
`tests/conformance` and the tests of each backend's units. Played on Docker and on a cluster too are those rows that
are seen in another way there and take several units. After each episode nothing is left, and `clean` finds nothing.
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
from support.misfit_kit import NOTHING_MORE, Evidence
from support.waiting import until

from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.outcome import Fault
from coworld_runner.backend import Limits
from coworld_runner.episode import episode_watch
from coworld_runner.episode.episode_options import EpisodeOptions
from coworld_runner.episode.play_links import PlayLinks

MIB = 1 << 20
LONG = 60.0
PATIENCE = 100.0
"""Seconds of play of a game that is to be ended early."""


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
    quick: bool = False
    """Whether it stands for all others where not everything is played."""
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


# Long enough for the busiest machine: their end is not waited for.
DEADLINE = 60.0
EXIT = 60.0
SILENT: dict[str, Any] = {"idle": "ready", "skip": EXIT}
HANGS: dict[str, Any] = {"idle": "play", "skip": DEADLINE}
STAYS: dict[str, Any] = {"idle": "finish", "skip": EXIT}
NEVER_OVER: dict[str, Any] = {
    "options": {"timeout_seconds": DEADLINE, "linger_seconds": 100 * DEADLINE},
    "scores": True,
    **HANGS,
}

GAMES = [
    row("well", scores=True, engine=True, docker=True),
    # Before it is ready
    row(
        "never-listens",
        *game("game_unhealthy"),
        options={"ready_timeout_seconds": EXIT},
        says="did not answer",
        engine=True,
        **SILENT,
    ),
    # One deadline is above all others
    row(
        "never-listens",
        *game("episode_timeout"),
        options={"timeout_seconds": DEADLINE, "ready_timeout_seconds": 10 * DEADLINE},
        says="not ready",
        **SILENT,
    ),
    *(
        row("fixed-port", *game(kind), options=options, says="it listens on 127.0.0.1:", **SILENT)
        for kind, options in (
            ("game_unhealthy", {"ready_timeout_seconds": EXIT}),
            ("episode_timeout", {"timeout_seconds": DEADLINE, "ready_timeout_seconds": 10 * DEADLINE}),
        )
    ),
    row("exits-7-before-healthy", *game("game_unhealthy"), says="status 7", reason="exited"),
    # While it plays
    row("hangs", *game("episode_timeout"), options={"timeout_seconds": DEADLINE}, **HANGS),
    row(
        "exits-5",
        *game("game_unhealthy"),
        says="something is very wrong",
        reason="exited",
        engine=True,
        docker=True,
        quick=True,
    ),
    row("bails-out", *game("results_missing"), says="without writing results"),
    row("storms", scores=True, config={"play_seconds": 0.6}),
    # Its players and its viewer are gone before it is
    row("dies-slowly", *game("game_unhealthy"), says="the game task failed", config={"delay": 0.5}),
    # Far longer than a player's failure is given: its silence shows that it is going
    row("shuts-down-slowly", *game("results_missing"), config={"delay": 3}, engine=True, docker=True),
    row("dies-when-watched", *game("game_unhealthy"), config={"delay": 3}),
    # Beyond its limits
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
        "floods-log",
        scores=True,
        config={"size": 16 * MIB},
        options={"game_limits": Limits(log_bytes=MIB)},
        truncated="game",
        engine=True,
    ),
    # Its results
    row("half-results-exits", *game("results_malformed")),
    row("link-results", *game("artifact_transport_error"), engine=True),
    row("swaps-results", scores=True),
    row("huge-results", *game("results_malformed"), config={"size": 5 * MIB}),
    row("results-then-exits-5", *game("game_unhealthy"), scores=True, reason="exited", says="status 5"),
    # What comes after
    row("lingers", scores=True, config={"delay": LONG}, options={"linger_seconds": 0.5}),
    row("spoils-on-term", scores=True, config={"delay": LONG}, options={"linger_seconds": 0.5}, docker=True),
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
        config={"delay": 3},
        options={"replay_timeout_seconds": 1, "linger_seconds": 0.5},
        engine=True,
    ),
    row(
        "provisional-results",
        scores=True,
        config={"play_seconds": 3},
        options={"replay_timeout_seconds": 2, "linger_seconds": 0.5},
    ),
    # Never over, whatever it has written: its players need not end
    row("rewrites-results", *game("episode_timeout"), **NEVER_OVER),
    row("current-results", *game("episode_timeout"), **NEVER_OVER),
    # Its contract
    row("no-pages", *game("game_contract_violation"), config={"play_seconds": LONG}, says="404"),
    row("refuses-players", *game("game_contract_violation"), says="refuses player"),
    # Players are gone before the game would have been over
    row(
        "throws-players-out",
        *game("game_contract_violation"),
        config={"play_seconds": LONG},
        says="/player closes",
        docker=True,
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
]

PLAYERS = [
    seat("exits-3", blames=player("player_error"), says="I will not play", reason="exited", engine=True, quick=True),
    seat("exits-3", "exits-3", blames=player("player_error", 0, 1)),
    seat("exits-3-midway", blames=player("player_error"), config={"play_seconds": LONG}),
    seat("exits-0", blames=player("player_left_early"), says="had never connected", reason="exited"),
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
    seat(
        "exits-0-midway",
        blames=player("player_left_early"),
        scores=True,
        config={"play_seconds": 4},
        says="ended with status 0, and the game was not over",
    ),
    seat(
        "never-shakes-hands",
        blames=player("player_timeout"),
        options={"connect_timeout_seconds": 1.0},
        says="never began the handshake",
    ),
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
        "hangs-after",
        blames=player("player_timeout"),
        scores=True,
        options={"timeout_seconds": DEADLINE, "player_exit_timeout_seconds": 10 * DEADLINE},
        says="at the deadline",
        **STAYS,
    ),
    seat(["/does/not/exist"], blames=player("player_never_started"), says="/does/not/exist", engine=True),
    # What a player wants to keep is no part of the episode: if it cannot be kept, that is told, and no more
    seat(f"artifact {MIB // 2}", scores=True),
    seat("artifact-link", scores=True, says="is not a regular file", engine=True),
]

CASES = [
    pytest.param(
        name,
        case,
        id=f"{name}-{case.id}",
        marks=[pytest.mark.docker, pytest.mark.slow] if name == "docker" else [] if case.quick else [pytest.mark.slow],
    )
    for name in ("process", "docker")
    for case in (*GAMES, *PLAYERS)
    if name == "process" or case.docker
]


@pytest.mark.parametrize(("backend_name", "case"), CASES)
async def test_blame(arena: Arena, case: Case) -> None:
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

    seen = sorted(map(Blame.of, record.faults), key=repr)
    assert seen == sorted(case.blames, key=repr), record.faults
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
    if case.scores and case.game not in {"no-replay-lingers", "results-then-exits-5"}:
        assert found.layout.replay.read_text().endswith("the end\n")
    assert record.game is not None
    for unit, kept in {"game": record.game, **{f"player-{entry.slot}": entry for entry in record.slots}}.items():
        assert kept.log_truncated is (unit == case.truncated)
        assert bool(found.position("log_truncated", unit=unit)) is kept.log_truncated
        assert (kept.exit is None) is (kept.started_seconds is None)
    limit = 1.1 * MIB if case.truncated else 33 * MIB
    assert all(path.stat().st_size <= limit for path in found.layout.logs.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("backend_name", ["process", pytest.param("docker", marks=pytest.mark.docker)])
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


@pytest.mark.slow
async def test_a_game_may_decide_how_to_go_on(arena: Arena) -> None:
    """With `continue` a player's failure is told and the game goes on without it."""
    options = EpisodeOptions(timeout_seconds=60, on_player_failure="continue")
    found = await play(arena, seat("exits-3", go="fault_seen"), options)
    assert tuple(map(Blame.of, found.record.faults)) == player("player_error")
    assert found.record.scores == (0.0, 1.0)


@pytest.mark.slow
async def test_early_leave_is_reported_during_the_game(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episode_watch, "_LEFT_NOTICE", 0.3)
    found = await play(arena, seat("exits-0-midway", config={"play_seconds": 3}), EpisodeOptions(timeout_seconds=60))
    (warning,) = [event for event in found.of_kind("notice") if "Player 1" in event.message]
    assert warning.level == "warning"
    assert warning.seq < found.position("unit_exited", unit="game")
    assert tuple(map(Blame.of, found.record.faults)) == player("player_left_early")
