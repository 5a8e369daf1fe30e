"""The page of a certification: one file that loads nothing, runs nothing, and shows hostile text as text."""

import json
import re
from typing import Any

import pytest
from support.certification_page import assert_self_contained
from support.formats import LATER, files, with_added_fields, with_later_values
from support.hostile_certification import HOSTILE, hostile_certification

from coworld_runner.certification import read_certification, render_page


def test_pictures_are_on_the_page_and_large_ones_only_named() -> None:
    html = render_page(hostile_certification(), pictures={"player": b"a picture", "replay": b"x" * (1 << 21)})
    page = assert_self_contained(html)
    (picture,) = [attrs for name, attrs in page.tags if name == "img"]
    assert (picture["alt"], picture["src"]) == ("The player page", "data:image/png;base64,YSBwaWN0dXJl")
    assert "screenshots/replay.png" in page.text


@pytest.mark.parametrize("status", ["completed", "failed", "interrupted"])
def test_hostile_text_is_only_text(status: Any) -> None:
    html = render_page(hostile_certification(status))
    page = assert_self_contained(html)
    for piece in HOSTILE:
        assert piece in page.text


@pytest.mark.parametrize("word", [LATER, "<b onclick='x'>&\"later"])
def test_a_record_of_a_later_version_has_a_page(word: str) -> None:
    (path,) = files("certified/certification.json")
    later = with_later_values(with_added_fields(json.loads(path.read_bytes())))
    later |= {"verdict": None, "steps": [{**step, "status": word, "id": word} for step in later["steps"]]}
    page = assert_self_contained(render_page(read_certification(later)))
    assert f"{len(later['steps'])} {word}" in page.text


def test_characters_that_hide_or_reorder_are_shown_by_number() -> None:
    html = render_page(hostile_certification())
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]", html
    )
    assert "\N{REPLACEMENT CHARACTER}202E" in html
    assert "\N{REPLACEMENT CHARACTER}001B[31m" in html
    html.encode()  # A lone surrogate could not be written
