"""Models that are written without their serializer have the JSON form that it gives them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    RootModel,
    computed_field,
    field_serializer,
    model_serializer,
    model_validator,
)

from coworld_core.rules.plain_values import to_json, to_plain
from coworld_core.rules.simple_models import simple_fields, simple_form


class Simple(BaseModel):
    model_config = ConfigDict(extra="forbid")

    whole: int = Field(ge=1)
    text: str = ""
    flag: bool = False
    maybe: int | None = None
    numbers: list[int] = []
    several: list[str | None] | None = None
    kind: Literal["left", 1] = 1
    anything: Any = None
    loose: list[Any] = []


ATOMS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.sampled_from([1, 1.0, True])
VALUES = st.recursive(
    ATOMS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2)
)


def written(write: Callable[[], str]) -> str:
    try:
        return write()
    except (TypeError, ValueError):
        return "refused"


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(Simple.model_fields, VALUES)))
def test_simple_models_are_written_as_their_serializer_would(held: dict[str, Any]) -> None:
    model = Simple.model_construct(**held)
    fields = simple_fields(Simple)
    assert fields is not None

    def slowly(value: Any) -> str:
        return json.dumps(json.loads(to_json(value.model_dump(mode="json", warnings=False))))

    form = simple_form(model, fields)
    assert form is None or json.dumps(form) == slowly(model)
    for quickly in (lambda: json.dumps(to_plain(model)), lambda: json.dumps(json.loads(to_json(model)))):
        assert written(quickly) == written(lambda: slowly(model))


def test_a_form_shares_nothing() -> None:
    model = Simple(whole=1, numbers=[1])
    form = to_plain(model)
    form["numbers"].append(2)
    assert model.numbers == [1]


class Validated(Simple):
    @model_validator(mode="after")
    def check(self) -> Validated:
        return self


class Computed(Simple):
    @computed_field
    @property
    def twice(self) -> int:
        return 2 * self.whole


class Serialized(Simple):
    @field_serializer("whole")
    def shown(self, value: int) -> int:
        return value + 1


class Whole(Simple):
    @model_serializer
    def shown(self) -> dict[str, Any]:
        return {"all": self.whole}


class Dumped(Simple):
    def model_dump(self, **options: Any) -> dict[str, Any]:
        return {"own": True}


class Extra(Simple):
    model_config = ConfigDict(extra="allow")


class Excluded(Simple):
    text: str = Field("", exclude=True)


class Aliased(Simple):
    model_config = ConfigDict(serialize_by_alias=True)

    text: str = Field("", serialization_alias="other")


class Annotation(Simple):
    text: Annotated[str, PlainSerializer(lambda value: f"<{value}>")] = ""


class Inside(Simple):
    numbers: list[Annotated[int, PlainSerializer(str)]] = []  # type: ignore[assignment]


class Times(Simple):
    text: timedelta = timedelta(1)  # type: ignore[assignment]


class Root(RootModel[int]):
    pass


@pytest.mark.parametrize(
    "kind", [Computed, Serialized, Whole, Dumped, Extra, Excluded, Aliased, Annotation, Inside, Times]
)
def test_models_with_serializers_are_not_simple(kind: Any) -> None:
    assert simple_fields(kind) is None
    model = kind(whole=1, numbers=[1])
    assert to_plain(model) == json.loads(to_json(model)) == json.loads(json.dumps(model.model_dump(mode="json")))


def test_other_types_are_not_simple() -> None:
    assert [simple_fields(kind) for kind in (Root, dict, int, object)] == [None] * 4
    assert to_plain(Root(3)) == 3
    assert to_plain(Validated(whole=1)) == {**to_plain(Simple(whole=1))}
