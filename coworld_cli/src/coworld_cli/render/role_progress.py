"""Progress of the roles that look at episodes, as lines and as a part of the live display."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from coworld_core.episode import BaseEvent, RoleFinished, RoleProgressed, RoleStarted
from coworld_core.text import plural

from .text import clean, number, seconds

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["RoleProgress"]

_Event = RoleStarted | RoleProgressed | RoleFinished
_Key = tuple[object, ...]
_MOST_SHOWN = 6


@dataclass
class _Role:
    who: str
    how_far: str = ""


class RoleProgress:
    """What is known of the roles of a run."""

    def __init__(self) -> None:
        self._running: dict[_Key, _Role] = {}
        self._shown_stages: dict[_Key, str] = {}
        self._done = self._failed = self._total = 0

    def note(self, event: BaseEvent) -> None:
        """Take in an event of the run."""
        match event:
            case RoleStarted():
                self._running[_key(event)] = _Role(_who(event))
                self._total = event.total or self._done + len(self._running)
            case RoleProgressed() if _key(event) in self._running:
                self._running[_key(event)].how_far = _how_far(event)
            case RoleFinished():
                self._running.pop(_key(event), None)
                self._done, self._total = event.done or self._done + 1, event.total or self._total
                self._failed += not event.ok
            case _:
                pass

    def line(self, event: BaseEvent) -> str:
        """The line for an event, or an empty string."""
        match event:
            case RoleProgressed(stage=stage):
                if self._shown_stages.get(_key(event)) == stage:
                    return ""
                self._shown_stages[_key(event)] = stage
                return f"{_who(event)}: {_how_far(event)}"
            case RoleFinished(ok=True):
                said = number(event.score) if event.score is not None else "done"
                how = "there already" if event.kept else f"after {seconds(event.seconds)}"
                return f"{_who(event)}: {said}, {how}{_count(event)}"
            case RoleFinished(message=message):
                return f"{_who(event)} failed: {clean(message, one_line=True)}{_count(event)}"
            case _:
                return ""

    def rendered(self) -> list[RenderableType]:
        """The part of the display; nothing before the first role."""
        if not self._done and not self._running:
            return []
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        said = f"{self._done} of {plural(self._total, 'role')}"
        said += f", {self._failed} failed" if self._failed else ""
        bar = Table.grid(padding=(0, 1))
        bar.add_row(ProgressBar(total=max(self._total, 1), completed=self._done, width=40), Text(said))
        rows = list(self._running.values())[:_MOST_SHOWN]
        return [bar, *(Text(f"  {role.who}  {role.how_far}".rstrip(), style="dim") for role in rows)]


def _key(event: _Event) -> _Key:
    """What tells roles apart: those of a certification have the certification's run id."""
    return (event.role, event.id, event.slot, event.episodes)


def _who(event: _Event) -> str:
    slot = f" on slot {event.slot}" if event.slot is not None else ""
    return f"{clean(f'{event.role} {event.id}', one_line=True)}{slot}"


def _count(event: RoleFinished) -> str:
    return f" ({event.done} of {event.total})" if event.total else ""


def _how_far(event: RoleProgressed) -> str:
    of = f" {event.completed} of {event.of}" if event.of else f" {event.completed}" if event.completed else ""
    return f"{clean(event.stage, one_line=True)}{of}"
