"""Commissioners: the messages between a commissioner and its host, and their validation.

This package is independent of tournaments and opens no connections; `coworld_runner.evaluation.commissioner` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
    from .messages import CommissionerMessage as CommissionerMessage
    from .messages import HostMessage as HostMessage
    from .messages import read_commissioner_message as read_commissioner_message
    from .messages import read_host_message as read_host_message
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {".messages": ("CommissionerMessage", "HostMessage", "read_commissioner_message", "read_host_message")},
    )
