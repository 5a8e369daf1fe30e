"""The event bus of a run: numbers events, keeps them and passes them to listeners."""

from __future__ import annotations

import datetime as dt
from collections import deque
from collections.abc import Callable

from coworld_core.episode.events import BaseEvent, Notice
from coworld_core.errors import CoworldError, EnvironmentFault

from ._append_log import AppendedFile

__all__ = ["EventBus", "EventLog", "Listener"]

Listener = Callable[[BaseEvent], None]
"""Called for every event as it is published; must be quick, and is removed once it raises."""


class EventBus:
    """Numbers the events of one run and passes them on.

    Args:
        run_id: The run's label, put on every event.
        listeners: Called for every event as it is published, in order.
        keep: How many past events to keep; None: all of them.
    """

    def __init__(self, run_id: str, *listeners: Listener, keep: int | None = None) -> None:
        self.run_id = run_id
        self._listeners: list[Listener] = list(listeners)
        self._history: deque[BaseEvent] = deque(maxlen=keep)
        self._count = 0

    @property
    def history(self) -> tuple[BaseEvent, ...]:
        """The events so far, or as many as are kept."""
        return tuple(self._history)

    def listen(self, listener: Listener) -> None:
        """Add a listener for events from now on."""
        self._listeners.append(listener)

    def publish(self, event: BaseEvent) -> None:
        """Number an event, keep it and pass it on.

        Never raises, because it is called during cleanup: a listener that raises is removed, and the others get a
        notice.
        """
        self._count += 1
        event = event.model_copy(update={"seq": self._count, "time": dt.datetime.now(dt.UTC), "run_id": self.run_id})
        self._history.append(event)
        failed: list[str] = []
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception as error:  # noqa: BLE001 - a failing reader must not fail the run
                self._listeners.remove(listener)
                failed.append(
                    error.message
                    if isinstance(error, CoworldError)
                    else f"A reader of the events failed and gets no more: {type(error).__name__}: {error}"
                )
        for reason in failed:
            self.publish(Notice(level="warning", message=reason))


class EventLog:
    """Writes events to a run's log as they happen, one JSON object per line, as long as the log is open.

    Args:
        file: The log, entered; one of a run that is resumed is appended to.
    """

    def __init__(self, file: AppendedFile) -> None:
        self._file = file
        file.cut_unfinished()

    def __call__(self, event: BaseEvent) -> None:
        """Write one event.

        Raises:
            EnvironmentFault: The event cannot be written. The bus then removes this reader and notifies the others, and
                the run continues; the file ends with the last complete line.
        """
        if not self._file.entered:
            return
        try:
            self._file.append(event.to_line())
        except EnvironmentFault as fault:
            error = fault.__cause__
            raise EnvironmentFault(
                f"{self._file.path} is not complete: {getattr(error, 'strerror', error)}.",
                hint="Free some room on that disk.",
            ) from error
