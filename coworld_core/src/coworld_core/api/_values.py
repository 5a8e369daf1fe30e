"""Closed sets that are not closed: a server may know more values than we do, and those survive."""

from __future__ import annotations

from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

__all__ = [
    "ExperienceStatus",
    "ImageStatus",
    "MembershipStatus",
    "OpenText",
    "RequestStatus",
    "RoundStatus",
    "SubmissionStatus",
]


class OpenText(str):
    """A text of which some values are known; any other is kept as it is."""

    __slots__ = ()

    @classmethod
    def known(cls) -> tuple[str, ...]:
        """The values that are known, in the order in which a thing goes through them."""
        return ()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Any text, as this type."""
        return core_schema.no_info_after_validator_function(cls, core_schema.str_schema())

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Text, with the known values as examples."""
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
        """Whether it ended as it should."""
        return str(self) == "completed"

    @property
    def is_failure(self) -> bool:
        """Whether it ended otherwise: failed or cancelled."""
        return str(self) == "failed" or self.is_cancelled

    @property
    def is_cancelled(self) -> bool:
        """Whether it was cancelled, in either spelling."""
        return str(self) in ("cancelled", "canceled")


class RequestStatus(_RunStatus):
    """Where an episode request stands: ``pending``, ``submitted``, ``dispatched``, ``running``, then its end."""

    __slots__ = ()

    @classmethod
    def known(cls) -> tuple[str, ...]:
        """``pending`` to ``cancelled``."""
        return ("pending", "submitted", "dispatched", "running", "completed", "failed", "cancelled", "canceled")


class ExperienceStatus(_RunStatus):
    """Where an experience request stands; ``completed`` when all its episodes have ended."""

    __slots__ = ()

    @classmethod
    def known(cls) -> tuple[str, ...]:
        """``pending`` to ``cancelled``."""
        return ("pending", "submitted", "running", "completed", "failed", "cancelled", "canceled")


class RoundStatus(_RunStatus):
    """Where a round stands."""

    __slots__ = ()

    @classmethod
    def known(cls) -> tuple[str, ...]:
        """``pending`` to ``cancelled``."""
        return ("pending", "running", "completed", "failed", "cancelled", "canceled")


class SubmissionStatus(OpenText):
    """Where a submission stands: ``pending``, ``processing``, then ``placed`` or ``rejected``."""

    __slots__ = ()

    @classmethod
    def known(cls) -> tuple[str, ...]:
        """``pending`` to ``rejected``."""
        return ("pending", "processing", "placed", "rejected")

    @property
    def is_terminal(self) -> bool:
        """Whether it has been decided."""
        return str(self) in ("placed", "rejected")


class MembershipStatus(OpenText):
    """Where a membership stands: ``competing``, ``disqualified``, or a state of the commissioner's own."""

    __slots__ = ()

    @classmethod
    def known(cls) -> tuple[str, ...]:
        """``competing`` and ``disqualified``."""
        return ("competing", "disqualified")

    @property
    def is_competing(self) -> bool:
        """Whether it takes part in rounds."""
        return str(self) == "competing"


class ImageStatus(OpenText):
    """Where an uploaded image stands: ``pending`` until its upload is complete, then ``ready``."""

    __slots__ = ()

    @classmethod
    def known(cls) -> tuple[str, ...]:
        """``pending`` and ``ready``."""
        return ("pending", "ready")

    @property
    def is_ready(self) -> bool:
        """Whether it can be run."""
        return str(self) == "ready"
