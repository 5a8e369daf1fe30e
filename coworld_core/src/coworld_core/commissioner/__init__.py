"""Commissioners: the messages that they and whoever hosts them exchange, and the rules of what each may say.

Nothing here opens a connection (``coworld_runner.commissioner`` does) or knows what a tournament is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
    from .messages import CommissionerMessage as CommissionerMessage
    from .messages import HostMessage as HostMessage
    from .messages import read_commissioner_message as read_commissioner_message
    from .messages import read_host_message as read_host_message


__getattr__, __dir__ = lazy_names(__name__)
