"""The API's page says what is so: its tables are those made from the routes, the ids and the errors."""

from __future__ import annotations

import re

import pytest
from docs.api_tables import PAGE, STATUSES, described, tables, written


def test_its_tables_are_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == written(page), "run `python tests/docs/api_tables.py`"


def test_a_page_without_their_places_is_noticed() -> None:
    with pytest.raises(AssertionError, match="routes"):
        written(PAGE.read_text(encoding="utf-8").replace("<!-- end routes -->", ""))


def test_every_refusal_is_explained() -> None:
    answered = {
        int(status)
        for methods in described()["paths"].values()
        for operation in methods.values()
        for status in operation["responses"]
        if int(status) >= 400
    }
    assert answered <= STATUSES.keys()


def test_every_route_is_listed_once() -> None:
    listed = re.findall(r"^\| `([A-Z]+ /\S*)` ", tables()["routes"], re.MULTILINE)
    assert sorted(listed) == sorted(
        f"{method.upper()} {path.removeprefix('/observatory')}"
        for path, methods in described()["paths"].items()
        for method in methods
    )
