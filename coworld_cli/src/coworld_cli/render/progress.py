"""Progress of a run: a live display on a terminal, a line for each event elsewhere.

Both only read the run's events. The display is drawn with rich, which is imported only when there is a terminal to
draw on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING

import click

from coworld_core.episode import (
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
    RunFinished,
    RunStarted,
    SeatedPlayer,
    StepFinished,
    StepStarted,
    UnitExited,
    UnitReady,
    UnitStarted,
)
from coworld_core.text import pasteable, plural

from ..hints import worded
from .results import step_tag
from .role_progress import RoleProgress
from .text import clean, number, seconds

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..event_loop import Running

__all__ = ["Progress", "show_progress"]

Listener = Callable[[BaseEvent], None]

_PHASES = {
    "prepare": "images",
    "start_game": "start game",
    "ready": "ready",
    "start_players": "start players",
    "play": "play",
    "finish": "finish",
    "collect": "collect",
}
"""The phases of an episode in order, with the words that are shown for them."""

_STEP_MARKS = {
    "": ("●", "bold cyan"),
    "pass": ("✓", "green"),
    "fail": ("✗", "bold red"),
    "skip": ("-", "yellow"),
    "kept": ("✓", "green"),
    "dropped": ("-", "yellow"),
    "lost": ("✗", "bold red"),
}
"""Mark and style of a step of a certification or an improvement, by its status so far."""

_ROLES = ("reporter", "grader", "diagnoser", "optimizer")
"""Components whose end is told by the end of the role."""
_LINE_EVERY = 15.0
"""Seconds between two lines about a game's progress, when there is no display."""
_REDRAWS_A_SECOND = 8

_STEP_SAYS = " › "
_CHATTER = ("--->", "Removing intermediate container", "Removed intermediate container")


def _is_chatter(status: str) -> bool:
    """Whether a status is builder noise: ids of layers and of the containers that build them."""
    return status.lstrip().startswith(_CHATTER)


@dataclass
class _Seat:
    name: str
    who: str
    """The name, with the player's id if that differs."""
    state: str = "waiting"
    ok: bool = True


@dataclass
class _Episode:
    """The state of one episode."""

    seats: list[_Seat] = field(default_factory=list[_Seat])
    phase: str = ""
    passed: list[str] = field(default_factory=list[str])
    tick: int | None = None
    max_ticks: int | None = None
    starts_in: float | None = None
    scores: tuple[float, ...] = ()
    fetching: dict[str, str] = field(default_factory=dict[str, str])

    def note_image(self, image: str, status: str) -> None:
        """Keep an image's status; the output of a build step is shown beside the step."""
        step, _, _ = self.fetching.get(image, "").partition(_STEP_SAYS)
        if step.startswith("Step ") and not status.startswith("Step "):
            status = f"{step}{_STEP_SAYS}{status}"
        self.fetching[image] = status

    def seat(self, slot: int | None) -> _Seat | None:
        return self.seats[slot] if slot is not None and slot < len(self.seats) else None


def _seats(event: RunStarted) -> list[_Seat]:
    seated = (
        SeatedPlayer(name=name, player_id=known_as)
        for name, known_as in zip_longest(event.players, event.player_ids[: len(event.players)])
    )
    return [_Seat(clean(player.name, one_line=True), clean(str(player), one_line=True)) for player in seated]


@dataclass
class _Step:
    id: str
    checks: str
    status: str = ""
    detail: str = ""


class Progress:
    """A listener that shows the progress of a run to the user.

    Args:
        running: The work that is watched.
        title: The title, until the first event names the run.
    """

    def __init__(self, running: Running, title: str = "") -> None:
        self._running = running
        self._out = running.out
        self._begun = time.monotonic()
        self._title = clean(title, one_line=True)
        self._about = ""
        self._episode: _Episode | None = None
        self._steps: list[_Step] = []
        self._episodes: dict[str, _Episode] = {}
        self._done = self._total = self._good = self._scored = 0
        self._sums: list[float] = []
        self._evaluation: EvaluationProgressed | None = None
        self._first_block = (0, self._begun)
        self._block_at = self._begun
        self._live = False
        self._fetching = _Episode()
        self._shown_images: set[tuple[str, str]] = set()
        self._shown_progress = (0, 0.0)
        self._roles = RoleProgress()
        self._shown_at = self._begun

    def __call__(self, event: BaseEvent) -> None:
        """Handle an event of the run."""
        nested = bool(self._steps)
        if isinstance(event, RunStarted) and nested:
            self._episode = _Episode(_seats(event))
            self._evaluation = None
        elif isinstance(event, RunFinished) and nested:
            self._episode = None
        elif isinstance(event, RunStarted):
            self._title = clean(f"{event.coworld} {event.version}", one_line=True)
            self._about = " · ".join(filter(None, (clean(event.variant, one_line=True), event.backend)))
            if event.what in ("episode", "play"):
                self._episode = _Episode(_seats(event))
            else:
                self._fetching.seats = _seats(event)
            # A build writes its files only at its end
            if event.workspace and event.what != "build" and self._running.evidence is None:
                self._running.evidence = event.workspace
                self._running.context.update(workspace=event.workspace, run_id=event.run_id)
        elif isinstance(event, BatchProgressed):
            self._note_batch(event)
        elif isinstance(event, EvaluationProgressed):
            self._block_at = time.monotonic()
            if self._evaluation is None:
                self._first_block = (event.blocks, self._block_at)
            self._evaluation = event
        elif isinstance(event, StepStarted):
            self._steps.append(_Step(event.step, clean(event.checks, one_line=True)))
        elif isinstance(event, StepFinished):
            for step in self._steps:
                if step.id == event.step:
                    step.status, step.detail = event.status, clean(event.detail, one_line=True)
        self._roles.note(event)
        self._take(event, self._episode or self._fetching, "", brief=nested)

    def episode_listeners(self, key: str) -> tuple[Listener, ...]:
        """Listeners for one of several episodes, identified by its key."""
        episode = self._episodes.setdefault(key, _Episode())
        name = _episode_name(key)

        def listen(event: BaseEvent) -> None:
            if isinstance(event, RunStarted):
                episode.seats = _seats(event)
            elif isinstance(event, RunFinished):
                self._episodes.pop(key, None)
            self._take(event, episode, f"{name}: ", brief=True)

        return (listen,)

    def expect(self, total: int) -> None:
        """Set how many episodes there will be."""
        self._total = total

    # ------------------------------------------------------------------ state

    def _take(self, event: BaseEvent, episode: _Episode, prefix: str, *, brief: bool) -> None:
        match event:
            case PhaseStarted(phase=phase):
                if episode.phase and episode.phase not in episode.passed:
                    episode.passed.append(episode.phase)
                episode.phase = phase
                if phase == "play":
                    for seat in episode.seats:
                        # A seat that has no unit by now is played by a person
                        seat.state = "a person" if seat.state == "waiting" else seat.state
            case ImageProgressed(image=image, status=status, done=done, total=total):
                if not _is_chatter(status):
                    share = f" {100 * done // total} %" if done is not None and total else ""
                    episode.note_image(image, clean(status, one_line=True) + share)
            case ImageReady(image=image):
                episode.fetching.pop(image, None)
            case UnitStarted(unit=unit, slot=slot):
                seat = episode.seat(slot)
                if seat is not None:
                    seat.state = "playing"
                self._running.units[f"{event.run_id}/{unit}"] = unit.partition("-")[0]
            case UnitExited(unit=unit, slot=slot, exit=ended):
                seat = episode.seat(slot)
                if seat is not None:
                    seat.ok = ended.ok or ended.reason == "stopped"
                    seat.state = "done" if ended.ok else clean(str(ended), one_line=True)
                self._running.units.pop(f"{event.run_id}/{unit}", None)
            case LeakFound(what=what):
                self._running.left.append(what)
            case GameProgressed(tick=tick, max_ticks=max_ticks, scores=scores, starts_in=starts_in):
                episode.tick, episode.max_ticks, episode.starts_in = tick, max_ticks, starts_in
                episode.scores = scores or episode.scores
            case _:
                pass
        if self._live:
            self._tell_above(event, prefix)
        else:
            self._tell_line(event, episode, prefix, brief=brief)

    def _note_batch(self, event: BatchProgressed) -> None:
        self._done, self._total = event.done, event.total or self._total
        self._good += event.ok
        # Without a total, the episodes belong to several plans, whose seats must not be added up
        if event.scores and event.total is not None:
            self._scored += 1
            self._sums = [a + b for a, b in zip(self._sums or [0.0] * len(event.scores), event.scores, strict=False)]

    @staticmethod
    def _unit(name: str, seat: _Seat | None) -> str:
        words = clean(name, one_line=True).replace("-", " ")
        return f"{words} ({seat.name})" if seat is not None and seat.name else words

    # ------------------------------------------------------------------ lines

    def _tell_line(self, event: BaseEvent, episode: _Episode, prefix: str, *, brief: bool) -> None:
        if isinstance(event, EvaluationProgressed):
            # A step may be a long evaluation
            brief = brief and time.monotonic() - self._shown_at < _LINE_EVERY
        line = self._line(event, episode, brief=brief)
        if line:
            self._shown_at = time.monotonic()
            self._out.note(f"[{time.monotonic() - self._begun:6.1f} s] {prefix}{line}")

    def _line(self, event: BaseEvent, episode: _Episode, *, brief: bool) -> str:
        """The line for an event, or an empty string; with `brief`, only events that are always shown have one."""
        line = self._always(event) or self._roles.line(event)
        if line or brief:
            return line
        match event:
            case RunStarted(what=what):
                seats = " vs ".join(seat.who for seat in episode.seats) if what in ("episode", "play", "batch") else ""
                return f"{self._title} · {self._about}" + (f" · {seats}" if seats else "")
            case ImageProgressed(image=image, status=status):
                if _is_chatter(status) or (image, status) in self._shown_images:
                    return ""
                self._shown_images.add((image, status))
                return f"{clean(image, one_line=True)}: {clean(status, one_line=True)}"
            case UnitReady(unit=unit, seconds=took):
                return f"{clean(unit, one_line=True)} ready after {seconds(took)}"
            case PhaseStarted(phase="play"):
                return "playing"
            case UnitExited(component=component) if component in _ROLES:
                return ""  # The end of the role says more
            case UnitExited(unit=unit, slot=slot, exit=ended) if unit != "replay" or ended.reason != "stopped":
                return f"{self._unit(unit, episode.seat(slot))} {clean(str(ended), one_line=True)}"
            case GameProgressed(starts_in=float()):
                return _countdown(episode)
            case GameProgressed():
                return self._how_far(episode)
            case BatchProgressed():
                how = "ok" if event.ok else event.status
                scores = " ".join(number(score) for score in event.scores)
                far = f"{event.done} of {event.total}" if event.total else str(event.done)
                name = f"episode {event.index}" if event.total or not event.key else event.key
                return f"{name} {how}: {scores or 'no scores'} ({far} done)"
            case EvaluationProgressed():
                return " · ".join(filter(None, self._standing(event)))
            case RunFinished(status=status, ok=ok, seconds=took):
                fault = "" if ok or status != "completed" else ", with faults"
                return f"{status} after {seconds(took)}{fault}"
            case _:
                return ""

    def _standing(self, event: EvaluationProgressed) -> tuple[str, str, str]:
        """An evaluation's progress, its result so far, and how long it may still take."""
        how: list[str] = []
        if event.won is not None and event.lost is not None:
            how.append(f"{event.won} won, {event.lost} lost, {event.counted - event.won - event.lost} drawn")
        if event.evidence is not None and event.decides is not None:
            how.append(f"evidence {number(round(event.evidence, 2))} of {number(event.decides)}")
        left = ""
        word, total = ("at most", event.max_blocks) if event.expected is None else ("about", event.expected)
        first, since = self._first_block
        if not event.stopped and event.blocks > first:
            each = (self._block_at - since) / (event.blocks - first)
            rest = each * (total - event.blocks) - (time.monotonic() - self._block_at)
            left = f"{word} {seconds(max(0.0, rest))} left"
        return f"block {event.blocks} of {word} {total}", " · ".join(how), left

    def _how_far(self, episode: _Episode) -> str:
        """A line at every quarter of the game, and from time to time in between."""
        quarter, told_at = self._shown_progress
        now = time.monotonic()
        reached = 4 * (episode.tick or 0) // episode.max_ticks if episode.max_ticks else 0
        if not episode.tick or (reached <= quarter and now - (told_at or self._begun) < _LINE_EVERY):
            return ""
        self._shown_progress = (max(reached, quarter), now)
        return _ticks(episode) + ("  " + _scores(episode.seats, episode.scores) if episode.scores else "")

    def _tell_above(self, event: BaseEvent, prefix: str) -> None:
        """Print important events above the display; steps stay in it."""
        line = "" if isinstance(event, StepFinished) else self._always(event)
        if isinstance(event, RoleFinished):
            line = self._roles.line(event)
        if line:
            self._out.note(prefix + line)

    @staticmethod
    def _always(event: BaseEvent) -> str:
        """The line for an event that is always shown, else an empty string."""
        match event:
            case FaultSeen(fault=fault) if fault.error_type != "interrupted" and fault.party != "program":
                return click.style("fault: ", fg="red", bold=True) + clean(str(fault), one_line=True)
            case Notice(level=level, message=message, hint=hint):
                word = click.style("warning: ", fg="yellow", bold=True) if level == "warning" else ""
                return word + clean(" ".join(filter(None, (message, worded(hint)))), one_line=True)
            case LogTruncated(unit=unit, limit_bytes=limit):
                return f"{clean(unit, one_line=True)} wrote more than {limit // 1024 // 1024} MiB; its log is cut there"
            case LeakFound(what=what, reason=reason):
                word = click.style("left behind: ", fg="yellow", bold=True)
                why = clean(reason, one_line=True)
                return f"{word}{clean(what, one_line=True)} ({why}). `coworld clean --yes` removes it."
            case ProbeFinished(ok=False, counts=True, detail=detail):
                return f"contract: {clean(detail, one_line=True)}"
            case StepFinished(step=step, status=status, detail=detail):
                return f"{step_tag(status)} {step}: {clean(detail, one_line=True)}"
            case _:
                return ""

    # ------------------------------------------------------------------ the display

    def rendered(self) -> RenderableType:
        """The display as it is now."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        header = Table.grid(expand=True)
        header.add_column(no_wrap=True, overflow="ellipsis")
        header.add_column(justify="right", no_wrap=True)
        title = Text(self._title, style="bold")
        title.append(f"  {self._about}" if self._about else "", style="not bold dim")
        header.add_row(title, Text(_clock(time.monotonic() - self._begun), style="dim"))
        parts: list[RenderableType] = [header]
        if self._total > 1 or self._episodes or self._evaluation is not None:
            parts += self._rendered_batch()
        if self._steps:
            parts += self._rendered_steps()
        if self._episode is not None:
            parts += _rendered_episode(self._episode)
        else:
            parts += _rendered_images(self._fetching)
        parts += self._roles.rendered()
        return Group(*parts)

    def _rendered_batch(self) -> list[RenderableType]:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        bar = Table.grid(padding=(0, 1))
        if self._evaluation is not None:
            far, how, left = self._standing(self._evaluation)
            done = ProgressBar(
                total=self._evaluation.expected or self._evaluation.max_blocks,
                completed=self._evaluation.blocks,
                width=24,
            )
            bar.add_row(done, Text(" · ".join(filter(None, (far, left)))))
            return [bar, *([Text(how, style="dim")] if how else []), *self._rendered_running()]
        said = f"{self._done} of {plural(self._total, 'episode')}"
        said += f", {self._done - self._good} with faults" if self._done > self._good else ""
        bar.add_row(ProgressBar(total=max(self._total, 1), completed=self._done, width=40), Text(said))
        parts: list[RenderableType] = [bar]
        if self._scored:
            means = [round(total / self._scored, 2) for total in self._sums]
            parts.append(Text(f"mean scores  {_scores(self._fetching.seats, means)}", style="dim"))
        return [*parts, *self._rendered_running()]

    def _rendered_running(self) -> list[RenderableType]:
        from rich.text import Text

        parts: list[RenderableType] = []
        for key, episode in sorted(self._episodes.items())[:8]:
            if episode.phase:
                text = Text(f"  {_episode_name(key)}  ", style="dim")
                text.append(_ticks(episode) if episode.tick is not None else _PHASES.get(episode.phase, episode.phase))
                text.append("  " + _scores(episode.seats, episode.scores) if episode.scores else "")
                parts.append(text)
        return parts

    def _rendered_steps(self) -> list[RenderableType]:
        from rich.text import Text

        text = Text(no_wrap=True, overflow="ellipsis")
        for step in self._steps:
            mark, style = _STEP_MARKS.get(step.status, ("?", "yellow"))
            text.append(f"{mark} {step.id}", style=style)
            text.append(f"  {step.detail or step.checks}\n", style="dim")
        text.rstrip()
        return [text]


def _rendered_episode(episode: _Episode) -> list[RenderableType]:
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    phases = Text(no_wrap=True, overflow="ellipsis")
    for phase, words in _PHASES.items():
        if phase == episode.phase:
            phases.append(f"● {words}  ", style="bold cyan")
        elif phase in episode.passed:
            phases.append(f"✓ {words}  ", style="green")
        else:
            phases.append(f"· {words}  ", style="dim")
    parts: list[RenderableType] = [phases]
    parts += _rendered_images(episode)
    if episode.starts_in is not None:
        parts.append(Text(_countdown(episode), style="bold"))
    elif episode.tick is not None and episode.max_ticks:
        bar = Table.grid(padding=(0, 1))
        bar.add_row(ProgressBar(total=episode.max_ticks, completed=episode.tick, width=40), Text(_ticks(episode)))
        parts.append(bar)
    seats = Table.grid(padding=(0, 2))
    best = max(episode.scores, default=0.0)
    for slot, seat in enumerate(episode.seats):
        score = episode.scores[slot] if slot < len(episode.scores) else None
        seats.add_row(
            Text(f"  {slot}", style="dim"),
            Text(seat.who),
            Text("" if score is None else number(score), style="bold" if score == best else "", justify="right"),
            Text(seat.state, style="red" if not seat.ok else "dim"),
        )
    parts.append(seats)
    return parts


def _rendered_images(episode: _Episode) -> list[RenderableType]:
    from rich.text import Text

    return [
        Text(f"  {clean(image, one_line=True)}: {status}", style="dim", no_wrap=True, overflow="ellipsis")
        for image, status in episode.fetching.items()
    ]


def _episode_name(key: str) -> str:
    """How an episode is called: by its number in a batch, otherwise by its key."""
    number = key.removeprefix("episode-")
    return f"episode {int(number)}" if number != key and number.isdecimal() else key


def _countdown(episode: _Episode) -> str:
    return f"everyone is there: starts in {math.ceil(episode.starts_in or 0.0)}"


def _ticks(episode: _Episode) -> str:
    return f"tick {episode.tick}" + (f" of {episode.max_ticks}" if episode.max_ticks else "")


def _scores(seats: Sequence[_Seat], scores: Sequence[float]) -> str:
    return "  ".join(
        f"{seats[slot].name if slot < len(seats) else slot} {number(score)}" for slot, score in enumerate(scores)
    )


def _clock(elapsed: float) -> str:
    minutes, rest = divmod(int(elapsed), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes:02d}:{rest:02d}"


@contextmanager
def show_progress(running: Running, title: str = "") -> Generator[Progress]:
    """Show progress while the context is open; yields the listener for the run's events.

    Args:
        running: The work that is watched.
        title: The title, until the first event names the run.
    """
    progress = Progress(running, title)
    if not running.out.live:
        yield progress
        return
    import anyio
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(stderr=True, highlight=False)
    scope = anyio.CancelScope()

    async def tick(live: Live) -> None:
        with scope:
            while True:
                await anyio.sleep(1 / _REDRAWS_A_SECOND)
                live.refresh()

    progress._live = True  # pyright: ignore[reportPrivateUsage]
    with (
        Live(
            get_renderable=progress.rendered,
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        ) as live,
        running.on_abandon(live.stop),
    ):
        running.out.above = lambda text: console.print(Text.from_ansi(pasteable(text)), soft_wrap=True)
        running.tasks.start_soon(tick, live)
        try:
            yield progress
        finally:
            scope.cancel()
            running.out.above = None
