"""Values that whoever writes them may extend."""

# No annotations from __future__: pydantic 2.11 and 2.12 look in other modules for the names in that of extra fields

import json
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue
from pydantic_core import PydanticKnownError

__all__ = ["OpenShape", "compact_json"]


def _finite(value: Any) -> Any:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        raise PydanticKnownError("finite_number") from None
    return value


class OpenShape(BaseModel):
    """A JSON object with fields of its writer's own, which are kept when it is read and written again."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    __pydantic_extra__: dict[str, Annotated[JsonValue, AfterValidator(_finite)]] = Field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]

    def to_json(self) -> bytes:
        """The object as JSON, in one line, with sorted keys."""
        return compact_json(self)


def compact_json(value: BaseModel) -> bytes:
    """A value as JSON, in one line, with sorted keys and its null fields."""
    return json.dumps(value.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
