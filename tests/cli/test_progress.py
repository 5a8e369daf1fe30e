"""What is told while a run goes on: lines, a display, or nothing."""

from __future__ import annotations

import datetime as dt
import io
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.cli_kit import Terminal, coworld

from coworld_cli.event_loop import Running, run_async
from coworld_cli.failures import report
from coworld_cli.output import Output
from coworld_cli.render.progress import Progress
from coworld_core.episode.events import (
    BaseEvent,
    BatchProgressed,
    EvaluationProgressed,
    FaultSeen,
    GameProgressed,
    ImageProgressed,
    ImageReady,
    LeakFound,
    LogTruncated,
    Notice,
    PhaseStarted,
    ProbeFinished,
    RoleFinished,
    RoleProgressed,
    RoleStarted,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
    UnitExited,
    UnitReady,
    UnitStarted,
    parse_event,
)
from coworld_core.episode.outcome import Exit, Fault
from coworld_core.errors import BackendError

pytestmark = pytest.mark.slow

STARTED = RunStarted(
    what="episode",
    coworld="paint",
    version="1.0",
    backend="process",
    variant="default",
    players=("Ada", "B\x1b[2Job"),
    player_ids=("Ada", "bob-7"),
    workspace="/tmp/out",
    run_id="r",
)
FAULT = Fault(party="player", slot=1, error_type="player_error", message="It left.", time=dt.datetime.now(dt.UTC))
OVER = Exit(reason="exited", code=0)


def reader(out: Output) -> tuple[Running, Progress]:
    """A progress reader without a run behind it; needs an event loop."""
    running = Running(out, None, anyio.CancelScope())  # type: ignore[arg-type]
    return running, Progress(running)


def told(*events: BaseEvent, quiet: bool = False, episode: bool = False) -> list[str]:
    """The lines that events become, without their times."""
    lines: list[str] = []
    out = Output(quiet=quiet)
    out.above = lines.append
    _, progress = reader(out)
    listener = progress.episode_listeners("episode-0003")[0] if episode else progress
    for event in events:
        listener(event)
    return [re.sub(r"^\[ *\d+\.\d s\] ", "", re.sub(r"\x1b\[\d*m", "", line)) for line in lines]


async def test_roles_in_lines_and_in_the_display() -> None:
    recap: dict[str, Any] = {"role": "reporter", "id": "recap", "run_id": "a"}
    close: dict[str, Any] = {"role": "grader", "id": "close", "run_id": "b"}
    events: list[BaseEvent] = [
        RoleStarted(**recap, total=2),
        RoleStarted(**close, total=2),
        RoleProgressed(**recap, stage="reading\x1b[2J", completed=1, of=4),
        RoleProgressed(**recap, stage="reading\x1b[2J", completed=2, of=4),
        UnitExited(unit="grader", component="grader", exit=OVER, run_id="b"),
        FaultSeen(fault=FAULT.model_copy(update={"party": "program", "slot": None})),
        RoleFinished(**close, ok=False, message="It hangs.", done=1, total=2),
    ]
    assert told(*events, RoleFinished(**recap, ok=True, seconds=1.5, done=2, total=2)) == [
        "reporter recap: reading 1 of 4",
        "grader close failed: It hangs. (1 of 2)",
        "reporter recap: done, after 1.5 s (2 of 2)",
    ]
    out = Output(quiet=True)
    _, progress = reader(out)
    for event in events:
        progress(event)
    shown = io.StringIO()
    from rich.console import Console

    Console(file=shown, width=80).print(progress.rendered())
    assert "1 of 2 roles, 1 failed" in shown.getvalue()
    assert "reporter recap  reading 2 of 4" in shown.getvalue()


async def test_an_episode_in_lines() -> None:
    assert told(
        STARTED,
        PhaseStarted(phase="prepare"),
        ImageProgressed(image="w:1", status="Pulling", done=1, total=10),
        ImageProgressed(image="w:1", status="Pulling", done=2, total=10),
        ImageReady(image="w:1"),
        UnitStarted(unit="game"),
        UnitReady(unit="game", seconds=0.42),
        PhaseStarted(phase="play"),
        GameProgressed(tick=0, max_ticks=8, scores=(0, 0), starts_in=1.6),
        GameProgressed(tick=0, max_ticks=8, scores=(0, 0)),
        GameProgressed(tick=1, max_ticks=8, scores=(1, 0)),
        GameProgressed(tick=2, max_ticks=8, scores=(2, 0.5)),
        GameProgressed(tick=3, max_ticks=8, scores=(3, 0)),
        GameProgressed(tick=8, max_ticks=8, scores=(5, 1)),
        UnitExited(unit="player-1", slot=1, exit=OVER),
        RunFinished(status="completed", ok=True, seconds=3.21),
    ) == [
        "paint 1.0 · default · process · Ada vs Bob (bob-7)",
        "w:1: Pulling",
        "game ready after 0.42 s",
        "playing",
        "everyone is there: starts in 2",
        "tick 2 of 8  Ada 2  Bob 0.5",
        "tick 8 of 8  Ada 5  Bob 1",
        "player 1 (Bob) exited with status 0",
        "completed after 3.2 s",
    ]


ALWAYS = [
    (FaultSeen(fault=FAULT), "fault: player 1: It left. [player_error]"),
    (Notice(message="It lingers\n."), "It lingers ."),
    (Notice(level="warning", message="Slow."), "warning: Slow."),
    (
        LogTruncated(unit="player-0", slot=0, limit_bytes=32 << 20),
        "player-0 wrote more than 32 MiB; its log is cut there",
    ),
    (
        LeakFound(what="container c", reason="busy"),
        "left behind: container c (busy). `coworld clean --yes` removes it.",
    ),
    (ProbeFinished(probe="p", ok=False, detail="no page"), "contract: no page"),
    (StepFinished(step="matriculate", status="fail", detail="No."), "[fail] matriculate: No."),
    (parse_event('{"kind": "step_finished", "step": "new", "status": "later", "detail": "?"}'), "[later] new: ?"),
]


@pytest.mark.parametrize(("event", "line"), ALWAYS)
async def test_notable_events_are_printed_unless_quiet(event: BaseEvent, line: str) -> None:
    assert told(event) == [line]
    assert told(event, episode=True) == [f"episode 3: {line}"]
    assert told(event, quiet=True) == []


async def test_minor_events_print_nothing() -> None:
    missed = ProbeFinished(probe="p", ok=False, counts=False, detail="the game was over")
    assert told(PhaseStarted(phase="ready"), ProbeFinished(probe="p", ok=True), missed, UnitStarted(unit="game")) == []
    assert told(parse_event('{"kind": "game_paused", "seq": 1}')) == []
    interrupted = FAULT.model_copy(update={"party": "operator", "error_type": "interrupted", "slot": None})
    assert told(FaultSeen(fault=interrupted)) == []


async def test_episode_of_a_batch_is_reported_briefly() -> None:
    assert told(STARTED, UnitReady(unit="game", seconds=1), PhaseStarted(phase="play"), episode=True) == []
    assert told(
        BatchProgressed(index=2, done=1, total=3, status="completed", ok=True, scores=(1, 2)),
        BatchProgressed(index=1, done=2, total=3, status="failed", ok=False),
    ) == ["episode 2 ok: 1 2 (1 of 3 done)", "episode 1 failed: no scores (2 of 3 done)"]


async def test_episode_of_a_certification_is_reported_briefly() -> None:
    lines = told(
        STARTED.model_copy(update={"what": "certification"}),
        StepStarted(step="smoke-episode", checks="it plays"),
        STARTED,
        UnitReady(unit="game", seconds=1),
        RunFinished(status="completed", ok=True, seconds=1),
        StepFinished(step="smoke-episode", status="pass", detail="It played."),
        RunFinished(status="completed", ok=True, seconds=2),
    )
    assert lines == ["paint 1.0 · default · process", "[pass] smoke-episode: It played."]


async def test_running_units_and_evidence_are_kept_for_an_interruption() -> None:
    out = Output(quiet=True)
    running, progress = reader(out)
    progress(STARTED)
    for name in ("game", "player-0", "player-1"):
        progress(UnitStarted(unit=name, run_id="r"))
    assert running.evidence == "/tmp/out"
    lines: list[str] = []
    running.out = Output()
    running.out.above = lines.append
    running.receive("SIGINT")
    assert lines == ["Interrupted: stopping the game and 2 players. Again: kill at once."]
    assert running.scope.cancel_called
    hurried: list[int] = []
    with running.on_end_waits(lambda: hurried.append(1)):
        progress(UnitExited(unit="game", run_id="r", exit=OVER))
        running.receive("SIGTERM")
    assert lines[1] == "Killing 2 players. Again: exit at once."
    assert hurried == [1]
    words = running.interruption()
    assert str(words) == "Interrupted. What was done so far is in /tmp/out."
    assert words.context == {"signal": "SIGINT", "workspace": "/tmp/out", "run_id": "r"}


LEFT = "Left behind: container c, network n. `coworld clean` finds it, `coworld clean --yes` removes it."


async def test_what_could_not_be_removed_is_in_the_last_words() -> None:
    running, progress = reader(Output(quiet=True))
    for what in ("container c", "network n"):
        progress(LeakFound(what=what, reason="it was not removed within 60 s"))
    running.receive("SIGINT")
    words = running.interruption()
    assert str(words) == f"Interrupted. Nothing was written. {LEFT}"
    assert words.context == {"signal": "SIGINT", "left_behind": ["container c", "network n"]}


def test_what_could_not_be_removed_is_said_with_the_error(capsys: pytest.CaptureFixture[str]) -> None:
    async def fail(running: Running) -> int:
        for what in ("container c", "network n"):
            Progress(running)(LeakFound(what=what, reason="busy"))
        raise BackendError("The engine is gone.")

    with pytest.raises(BackendError) as raised:
        run_async(Output(quiet=True), fail)
    report(raised.value, json=False)
    assert capsys.readouterr().err.splitlines()[:2] == ["error: The engine is gone.", f"  {LEFT}"]


def drawn(progress: Progress, width: int = 100) -> str:
    """The display as text."""
    from rich.console import Console

    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(progress.rendered())
    return console.export_text()


async def test_the_display_of_an_episode() -> None:
    _, progress = reader(Output(quiet=True))
    for event in (
        STARTED,
        PhaseStarted(phase="prepare"),
        ImageProgressed(image="w:1", status="[red]Pulling[/red]", done=5, total=10),
        PhaseStarted(phase="start_game"),
        UnitStarted(unit="player-0", slot=0),
        PhaseStarted(phase="play"),
        GameProgressed(tick=3, max_ticks=8, scores=(1, 2.5)),
        UnitExited(unit="player-0", slot=0, exit=Exit(reason="exited", code=3)),
    ):
        progress(event)
    shown = drawn(progress)
    lines = [line.rstrip() for line in shown.splitlines()]
    assert re.fullmatch(r"paint 1\.0  default · process +00:0\d", lines[0])
    assert lines[1] == "✓ images  ✓ start game  · ready  · start players  ● play  · finish  · collect"
    assert lines[2] == "  w:1: [red]Pulling[/red] 50 %"
    assert lines[3].endswith(" tick 3 of 8")
    assert lines[4:] == ["  0  Ada            1  exited with status 3", "  1  Bob (bob-7)  2.5  a person"]
    progress(GameProgressed(tick=0, max_ticks=8, starts_in=2.9))
    assert drawn(progress).splitlines()[3].rstrip() == "everyone is there: starts in 3"


async def test_the_display_of_a_build() -> None:
    _, progress = reader(Output(quiet=True))
    progress(STARTED.model_copy(update={"what": "build", "backend": "docker", "variant": "", "players": ()}))
    for status in (
        "Step 1/2 : FROM base",
        " ---> 0123456789ab",
        "Step 2/2 : RUN make",
        "---> Running in 01",
        "cc a.c",
        "cc b.c",
    ):
        progress(ImageProgressed(image="w:1", status=status))
    assert [line.rstrip() for line in drawn(progress).splitlines()[1:]] == ["  w:1: Step 2/2 : RUN make › cc b.c"]
    progress(ImageReady(image="w:1"))
    assert drawn(progress).count("\n") == 1


async def test_a_build_in_lines() -> None:
    statuses = ("Step 1/1 : RUN make", "---> Running in 01", "cc a.c", "Removing intermediate container 01")
    lines = told(*(ImageProgressed(image="w:1", status=status) for status in statuses))
    assert lines == ["w:1: Step 1/1 : RUN make", "w:1: cc a.c"]


async def test_the_display_of_a_certification() -> None:
    _, progress = reader(Output(quiet=True))
    progress(STARTED.model_copy(update={"what": "certification"}))
    progress(StepStarted(step="matriculate", checks="the manifest is right"))
    progress(StepFinished(step="matriculate", status="pass", detail="No errors."))
    progress(StepStarted(step="smoke-episode", checks="it plays"))
    assert [line.rstrip() for line in drawn(progress).splitlines()[1:]] == [
        "✓ matriculate  No errors.",
        "● smoke-episode  it plays",
    ]
    progress(parse_event('{"kind": "step_finished", "step": "matriculate", "status": "later", "detail": "Said so."}'))
    assert "? matriculate  Said so." in drawn(progress)
    progress(STARTED)
    assert "● smoke-episode" in drawn(progress)
    assert "  0  Ada" in drawn(progress)
    progress(RunFinished(status="completed", ok=True, seconds=1))
    assert "Ada" not in drawn(progress)


async def test_the_display_of_a_batch() -> None:
    _, progress = reader(Output(quiet=True))
    progress.expect(3)
    progress(STARTED.model_copy(update={"what": "batch"}))
    listener = progress.episode_listeners("episode-0002")[0]
    listener(STARTED)
    listener(PhaseStarted(phase="play"))
    listener(GameProgressed(tick=3, max_ticks=8, scores=(1, 2)))
    progress(BatchProgressed(index=1, done=1, total=3, status="completed", ok=False, scores=(2, 4)))
    progress(BatchProgressed(index=3, done=2, total=3, status="failed", ok=False))
    lines = [line.rstrip() for line in drawn(progress).splitlines()[1:]]
    assert lines[0].endswith(" 2 of 3 episodes, 2 with faults")
    assert lines[1:] == ["mean scores  Ada 2  Bob 4", "  episode 2  tick 3 of 8  Ada 1  Bob 2"]
    listener(RunFinished(status="completed", ok=True, seconds=1))
    assert "episode 2" not in drawn(progress)


async def test_the_display_of_an_evaluation() -> None:
    _, progress = reader(Output(quiet=True))
    progress(STARTED.model_copy(update={"what": "batch"}))
    far = EvaluationProgressed(blocks=4, max_blocks=9, counted=4, won=1, lost=2, evidence=1.5, decides=20)
    progress(far)
    lines = [line.rstrip() for line in drawn(progress).splitlines()[1:]]
    # Nothing is known yet of how long a block takes
    assert lines[0].endswith(" block 4 of at most 9")
    assert lines[1:] == ["1 won, 2 lost, 1 drawn · evidence 1.5 of 20"]
    progress.episode_listeners("block-0005.1-2")[0](PhaseStarted(phase="play"))
    progress(BatchProgressed(index=1, key="block-0005.1-1", done=9, status="completed", ok=True, scores=(2, 4)))
    progress(far.model_copy(update={"blocks": 5}))
    lines = [line.rstrip() for line in drawn(progress).splitlines()[1:]]
    assert " block 5 of at most 9 · at most " in lines[0]
    assert lines[2:] == ["  block-0005.1-2  play"]


# --- for real -------------------------------------------------------------------------------------------------------


def test_a_terminal_gets_a_display_that_goes_away(
    world: Callable[..., Path], terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    run = terminal("run-episode", world("well"), "-o", tmp_path / "out")
    assert run.end() == 0, run.text
    assert "✓ images" in run.text
    assert "● play" in run.text
    assert "\x1b[?25l" in run.raw
    assert run.raw.count("\x1b[?25h") >= 1
    assert "\x1b[32m" in run.raw or "\x1b[1;32m" in run.raw
    assert "Watch it:" in run.text
    assert "Scores:" not in run.text  # The table says it


@pytest.mark.parametrize("env", [{"CI": "true"}, {"TERM": "dumb"}, {"TERM": None}])
def test_a_terminal_that_wants_no_display_gets_lines(
    env: dict[str, Any], world: Callable[..., Path], terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    run = terminal("run-episode", world(), "-o", tmp_path / "out", env=env)
    assert run.end() == 0, run.text
    assert "\x1b[?25l" not in run.raw
    assert re.search(r"\[ +\d+\.\d s\] game ready after", run.text)


def test_no_color_is_obeyed(world: Callable[..., Path], terminal: Callable[..., Terminal], tmp_path: Path) -> None:
    run = terminal("run-episode", world("exits-5"), "-o", tmp_path / "out", env={"NO_COLOR": "1"})
    assert run.end() == 1, run.text
    assert "● play" in run.text
    assert not re.search(r"\x1b\[(\d+;)*3[0-7]m", run.raw), "there is a colour"


def test_force_color_colours_a_pipe(world: Callable[..., Path], tmp_path: Path) -> None:
    # Without it there is no colour: see test_episodes.py
    assert "\x1b[32m" in coworld("run-episode", world(), "-o", tmp_path / "out", env={"FORCE_COLOR": "1"}).stdout


def test_the_cursor_comes_back_when_a_display_is_left_at_once(
    world: Callable[..., Path], terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    run = terminal("run-episode", world("well", play_seconds=60), "-o", tmp_path / "out")
    run.until_printed("● play")
    run.process.send_signal(signal.SIGINT)
    assert run.end() == 130
    assert run.raw.rindex("\x1b[?25h") > run.raw.rindex("\x1b[?25l")
    assert "Interrupted. What was done so far is in " in run.text
