"""The pages of a Coworld in a browser: pictures of them, what they complain of, and viewers that do not work."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from support.small_world import LONG, fast, package_of, world

from coworld_runner.certification import page_checks
from coworld_runner.certification.page_checks import PageChecks, look_at_pages
from coworld_runner.package.resolver import Package

PAGE = """<!doctype html><body><script>
const place = new URLSearchParams(location.hash.slice(1)).get("replay");
fetch(place).then(answer => answer.text()).then(text => { SHOW });
</script>"""


async def looked_at(tmp_path: Path, viewer: str | None = None) -> PageChecks:
    """The pages of the small Coworld; with a static viewer, only those and the viewer."""

    def change(manifest: dict[str, Any]) -> None:
        if viewer is None:
            manifest["certification"]["game_config"] = dict(LONG)
        else:
            manifest["game"]["replay_viewer"] = {"bundle": "viewer"}

    def package(manifest: dict[str, Any]) -> Package:
        return package_of(manifest, tmp_path / "coworld_manifest.json")

    if viewer is not None:
        (tmp_path / "viewer").mkdir()
        (tmp_path / "viewer/index.html").write_text(PAGE.replace("SHOW", viewer))
    (tmp_path / "replay").write_text(json.dumps({"frames": ["first"]}))
    options = fast()
    async with world(change=change, package=package) as small:
        return await look_at_pages(
            small.package,
            tmp_path / "replay",
            backend=small.backend,
            publish=lambda _: None,
            options=options.episode,
            replay_options=dataclasses.replace(options.replay, ready_timeout=3.0),
            workspace=tmp_path / "out",
        )


@pytest.mark.browser
@pytest.mark.slow
async def test_the_game_shows_its_pages(tmp_path: Path) -> None:
    seen = await looked_at(tmp_path)
    assert seen.answer.status == "pass"
    assert seen.answer.detail == "In a browser, pages were looked at: player, viewers and replay."
    assert all(picture.startswith(b"\x89PNG") for picture in seen.pictures.values())
    rows = {(item.code, item.level, item.message.partition(" page")[0]) for item in seen.answer.evidence}
    assert rows == {("page_shown", "note", f"The {name}") for name in ("player", "viewers", "replay")}
    assert len(seen.tokens) == 2


def test_what_is_wrong_with_a_page_of_the_game_is_advice() -> None:
    rows = page_checks.judge("player", ("Uncaught: x",), ("https://cdn.example.org/a.js",), drawn=False)
    assert {(item.code, item.level) for item in rows} == {
        (code, "advice") for code in ("page_blank", "page_complains", "page_asks_others")
    }


@pytest.mark.browser
@pytest.mark.slow
async def test_a_broken_static_viewer_fails_the_step(tmp_path: Path) -> None:
    seen = await looked_at(tmp_path, "document.body.textContent = text; missing()")
    assert {item.code for item in seen.answer.evidence if item.broken} == {"viewer_complains"}
    assert (seen.answer.failure_reason, {*seen.pictures} >= {"player", "replay"}) == ("viewer_broken", True)


async def test_without_a_browser_it_is_not_tried(tmp_path: Path) -> None:
    seen = await looked_at(tmp_path)
    assert (seen.answer.status, seen.answer.skip_reason) == ("skip", "not_applicable")
    assert seen.answer.detail == "Not tried: COWORLD_BROWSER is none."
    assert not (tmp_path / "out").exists()
