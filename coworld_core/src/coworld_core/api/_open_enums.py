"""Enumerations that are open: a server may use values that this version does not know, and they are kept."""

from __future__ import annotations

from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

__all__ = [
    "ExperienceStatus",
    "ImageStatus",
    "LobbyStatus",
    "MembershipStatus",
    "OpenText",
    "PlaySessionStatus",
    "RequestStatus",
    "RoundStatus",
    "SubmissionStatus",
]


class OpenText(str):
    """A string with known values; any other value is kept as it is."""

    __slots__ = ()

    @classmethod
    def known(cls) -> tuple[str, ...]:
        """The known values, in the order in which they occur."""
        return ()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Any string, as an instance of this type."""
        return core_schema.no_info_after_validator_function(cls, core_schema.str_schema())

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """A string, with the known values as examples."""
        return {"type": "string", **({"examples": list(cls.known())} if cls.known() else {})}

    @property
    def is_known(self) -> bool:
        """Whether this version knows the value."""
        return str(self) in self.known()


class _RunStatus(OpenText):
    __slots__ = ()

    @property
    def is_terminal(self) -> bool:
        """Whether this is a final state. An unknown value counts as not final."""
        return self.is_success or self.is_failure

    @property
    def is_success(self) -> bool:
        """Whether it completed successfully."""
        return str(self) == "completed"

    @property
    def is_failure(self) -> bool:
        """Whether it failed or was cancelled."""
        return str(self) == "failed" or self.is_cancelled

    @property
    def is_cancelled(self) -> bool:
        """Whether it was cancelled, in either spelling."""
        return str(self) in ("cancelled", "canceled")


class RequestStatus(_RunStatus):
    """Status of an episode request: `pending`, `submitted`, `dispatched`, `running`, then a final one."""

    __slots__ = ()

    @classmethod
    def known(cls) -> tuple[str, ...]:
        """`pending` to `cancelled`."""
        return ("pending", "submitted", "dispatched", "running", "completed", "failed", "cancelled", "canceled")


class ExperienceStatus(_RunStatus):
    """Status of an experience request; `completed` once all its episodes have ended."""

    __slots__ = ()

    @classmethod
    def known(cls) -> tuple[str, ...]:
        """`pending` to `cancelled`."""
        return ("pending", "submitted", "running", "completed", "failed", "cancelled", "canceled")


class PlaySessionStatus(_RunStatus):
    """Status of a game for people: `pending`, `running` (it is up), then a final one; `ended` without an episode."""

    __slots__ = ()

    @classmethod
    def known(cls) -> tuple[str, ...]:
        """`pending` to `ended`."""
        return ("pending", "running", "completed", "failed", "ended")

    @property
    def is_terminal(self) -> bool:
        """Whether this is a final state, also without an episode."""
        return super().is_terminal or str(self) == "ended"


class LobbyStatus(PlaySessionStatus):
    """Status of a lobby: `draft`, which may expire, then that of its game."""

    __slots__ = ()

    @classmethod
    def known(cls) -> tuple[str, ...]:
        """`draft` to `expired`."""
        return ("draft", "pending", "running", "completed", "failed", "ended", "cancelled", "canceled", "expired")

    @property
    def is_terminal(self) -> bool:
        """Whether this is a final state, also without an episode."""
        return super().is_terminal or str(self) == "expired"


class RoundStatus(_RunStatus):
    """Status of a round."""

    __slots__ = ()

    @classmethod
    def known(cls) -> tuple[str, ...]:
        """`pending` to `cancelled`."""
        return ("pending", "running", "completed", "failed", "cancelled", "canceled")


class SubmissionStatus(OpenText):
    """Status of a submission: `pending`, `processing`, then `placed` or `rejected`."""

    __slots__ = ()

    @classmethod
    def known(cls) -> tuple[str, ...]:
        """`pending` to `rejected`."""
        return ("pending", "processing", "placed", "rejected")

    @property
    def is_terminal(self) -> bool:
        """Whether it has been decided."""
        return str(self) in ("placed", "rejected")


class MembershipStatus(OpenText):
    """Status of a membership: `competing`, `disqualified`, or one that the commissioner defines."""

    __slots__ = ()

    @classmethod
    def known(cls) -> tuple[str, ...]:
        """`competing` and `disqualified`."""
        return ("competing", "disqualified")

    @property
    def is_competing(self) -> bool:
        """Whether it takes part in rounds."""
        return str(self) == "competing"


class ImageStatus(OpenText):
    """Status of an uploaded image: `pending` until its upload is complete, then `ready`."""

    __slots__ = ()

    @classmethod
    def known(cls) -> tuple[str, ...]:
        """`pending` and `ready`."""
        return ("pending", "ready")

    @property
    def is_ready(self) -> bool:
        """Whether it can be run."""
        return str(self) == "ready"
