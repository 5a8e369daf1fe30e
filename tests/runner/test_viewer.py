"""Static replay viewers: made by the package's hook, looked at, served, and certified."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio
import httpx2
import pytest
from support.small_world import MANIFEST, package_of

from coworld_core.episode.events import BaseEvent, ImageProgressed
from coworld_core.errors import CoworldError, UsageError
from coworld_runner import open_replay
from coworld_runner.build._build_plan import plan_build
from coworld_runner.build._viewer_build import ViewerPlan, build_viewer, plan_viewer
from coworld_runner.errors import BuildError
from coworld_runner.package import viewer_bundle
from coworld_runner.package.viewer_bundle import bundle_name, find_bundle, read_bundle
from coworld_runner.replay.viewer_check import check_viewer
from coworld_runner.replay.viewer_server import open_viewer

PAGE = "<!doctype html><title>viewer</title>"
HOOK = """#!/bin/sh
set -e
test -f compose.yaml
rm -rf "$1"
mkdir -p "$1"
echo packing
printf '<!doctype html>new' > "$1/index.html"
"""


def project(root: Path, *, hook: str | None = HOOK, bundle: str = "build/viewer", mode: int = 0o755) -> Path:
    """A package with a hook, or none."""
    document = json.loads(json.dumps(MANIFEST))
    del document["game"]["version"]
    document["game"]["replay_viewer"] = {"bundle": bundle}
    for runnable in (document["game"]["runnable"], *document["player"]):
        runnable["image"] = "{{COUNTING_IMAGE}}"
    (root / "coworld_manifest_template.json").write_text(json.dumps(document))
    (root / "compose.yaml").write_text("services:\n  counting:\n    image: counting\n    build: .\n")
    (root / "Dockerfile").write_text("FROM scratch\n")
    if hook is not None:
        (root / "tools").mkdir()
        (root / "tools" / "build_replay_viewer.sh").write_text(hook)
        (root / "tools" / "build_replay_viewer.sh").chmod(mode)
    return root


def planned(root: Path) -> ViewerPlan | None:
    return plan_viewer(plan_build(root, version="1.0.0", output=root / "coworld_manifest.json"))


# --- made ---------------------------------------------------------------------------------------------------------


async def test_the_hook_makes_the_viewer_in_place_of_an_older_one(tmp_path: Path) -> None:
    viewer_bundle = project(tmp_path) / "build" / "viewer"
    viewer_bundle.mkdir(parents=True)
    for name in ("index.html", "older.js"):
        (viewer_bundle / name).write_text("old")
    plan = planned(tmp_path)
    assert plan is not None
    events: list[BaseEvent] = []
    await build_viewer(plan, events.append)
    assert [path.name for path in viewer_bundle.iterdir()] == ["index.html"]
    assert (viewer_bundle / "index.html").read_text() == "<!doctype html>new"
    assert [event.status for event in events if isinstance(event, ImageProgressed)] == ["packing"]
    assert [path.name for path in viewer_bundle.parent.iterdir()] == ["viewer"]


@pytest.mark.parametrize(
    ("hook", "code", "words"),
    [
        ("#!/bin/sh\necho 'no such tool: vite' >&2\nexit 3\n", "viewer_hook", "status 3"),
        ("#!/no/such/interpreter\n", "viewer_hook", "cannot be run"),
        ("#!/bin/sh\nmkdir -p elsewhere && echo x > elsewhere/index.html\n", "viewer_without_page", "no index.html"),
        ("#!/bin/sh\nrm -rf $1\n", "viewer_missing", "is no directory"),
        ("#!/bin/sh\necho x > $1/index.html; ln -s /etc $1/etc\n", "viewer_link", "symbolic link, etc"),
        ("#!/bin/sh\necho x > $1/index.html; echo gone > compose.yaml\n", "viewer_hook", "compose.yaml"),
    ],
)
async def test_a_hook_that_leaves_no_viewer_leaves_the_older_one(
    tmp_path: Path, hook: str, code: str, words: str
) -> None:
    viewer_bundle = project(tmp_path, hook=hook) / "build" / "viewer"
    viewer_bundle.mkdir(parents=True)
    (viewer_bundle / "index.html").write_text("older")
    compose = (tmp_path / "compose.yaml").read_text()
    plan = planned(tmp_path)
    assert plan is not None
    with pytest.raises(BuildError, match=words) as caught:
        await build_viewer(plan, lambda _: None)
    assert (caught.value.code, bool(caught.value.hint)) == (code, True)
    assert ".viewer-" not in str(caught.value)
    assert (viewer_bundle / "index.html").read_text() == "older"
    assert (tmp_path / "compose.yaml").read_text() == compose
    assert [path.name for path in viewer_bundle.parent.iterdir()] == ["viewer"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"mode": 0o644}, "viewer_hook"),
        ({"hook": None}, "viewer_missing"),
        ({"bundle": "."}, "manifest_invalid"),
        ({"bundle": "../viewer"}, "manifest_invalid"),
        ({"bundle": "tools"}, "viewer_place"),
        ({"bundle": "Dockerfile"}, "viewer_place"),
    ],
)
def test_impossible_viewer_is_refused_before_the_build(tmp_path: Path, change: dict[str, object], code: str) -> None:
    project(tmp_path, **change)  # type: ignore[arg-type]
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(CoworldError) as caught:
        planned(tmp_path)
    assert caught.value.code == code
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("bundle", [".", "..", "a/../..", "/tmp", "a\\b", ""])
def test_a_viewer_has_a_directory_of_its_own(bundle: str) -> None:
    with pytest.raises(UsageError) as caught:
        bundle_name(bundle)
    assert caught.value.code == "viewer_place"


def test_a_viewer_of_a_platform_is_not_made(tmp_path: Path) -> None:
    assert planned(project(tmp_path, bundle="sha256:" + "0" * 64)) is None


# --- looked at ----------------------------------------------------------------------------------------------------


def many(directory: Path) -> None:
    for number in range(9):
        (directory / f"{number}.js").touch()


def without_page(directory: Path) -> None:
    (directory / "index.html").unlink()


def empty_page(directory: Path) -> None:
    (directory / "index.html").write_text("")


def linked(directory: Path) -> None:
    (directory / "deep" / "link").symlink_to("/etc")


def large(directory: Path) -> None:
    os.truncate(directory / "deep" / "a.wasm", 600 << 20)


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (without_page, "viewer_without_page"),
        (empty_page, "viewer_without_page"),
        (linked, "viewer_link"),
        (many, "viewer_too_large"),
        (large, "viewer_too_large"),
        (shutil.rmtree, "viewer_missing"),
    ],
)
def test_malformed_viewer_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], object], code: str
) -> None:
    assert viewer_bundle.MOST_FILES == 4096, "as platforms have it; fewer are enough to show what becomes of more"
    monkeypatch.setattr(viewer_bundle, "MOST_FILES", 10)
    directory = tmp_path / "viewer"
    (directory / "deep").mkdir(parents=True)
    (directory / "index.html").write_text(PAGE)
    (directory / "deep" / "a.wasm").touch()
    assert sorted(read_bundle(directory).files) == ["deep/a.wasm", "index.html"]
    spoil(directory)
    with pytest.raises(UsageError) as caught:
        read_bundle(directory)
    assert (caught.value.code, bool(caught.value.hint)) == (code, True)


def test_where_a_package_has_its_viewer(tmp_path: Path) -> None:
    document = json.loads(json.dumps(MANIFEST))
    package = package_of(document)
    assert find_bundle(package) is None
    document["game"]["replay_viewer"] = {"bundle": "a/b"}
    (tmp_path / "coworld_manifest.json").write_text(json.dumps(document))
    assert find_bundle(replace(package_of(document), path=tmp_path / "coworld_manifest.json")) == tmp_path / "a" / "b"


# --- served -------------------------------------------------------------------------------------------------------


async def test_page_and_replay_are_served_on_one_origin(tmp_path: Path) -> None:
    directory = tmp_path / "viewer"
    (directory / "deep").mkdir(parents=True)
    (directory / "index.html").write_text(PAGE)
    (directory / "deep" / "a b.mjs").write_text("1")
    (tmp_path / "secret").write_text("not yours")
    (tmp_path / "replay").write_bytes(b"\0moves")
    bundle = read_bundle(directory)
    async with open_viewer(bundle, tmp_path / "replay") as session, httpx2.AsyncClient() as client:
        page = await client.get(session.link.partition("#")[0])
        assert (page.text, page.headers["content-type"]) == (PAGE, "text/html; charset=utf-8")
        policy = page.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval';")
        assert "connect-src 'self' http: https:" in policy
        base = f"http://{session.address}"
        assert session.link.endswith("#replay=" + f"{base}/_coworld/replay".replace(":", "%3A").replace("/", "%2F"))
        script = await client.get(f"{base}/deep/a%20b.mjs")
        assert script.headers["content-type"].startswith("text/javascript")
        assert not session.fetched.is_set()
        replay = await client.get(f"{base}/_coworld/replay")
        assert (replay.content, replay.headers["cache-control"]) == (b"\0moves", "no-store")
        assert session.fetched.is_set()
        for path in ("/none", "/../secret", "/%2e%2e/secret", "/deep"):
            assert (await client.get(base + path)).status_code == 404
        strange = await client.get(f"{base}/_coworld/replay", headers={"Host": "example.org"})
        assert (strange.status_code, b"moves" in strange.content) == (403, False)
    async with open_viewer(bundle, tmp_path / "replay", packed=True) as session, httpx2.AsyncClient() as client:
        replay = await client.get(f"http://{session.address}/_coworld/replay")
        assert (gzip.decompress(replay.content), "content-encoding" in replay.headers) == (b"\0moves", False)


async def test_a_built_viewer_shows_a_replay_in_place_of_the_game(tmp_path: Path) -> None:
    document = json.loads(json.dumps(MANIFEST))
    document["game"]["replay_viewer"] = {"bundle": "viewer", "replay_compression": "gzip"}
    (tmp_path / "coworld_manifest.json").write_text(json.dumps(document))
    (tmp_path / "viewer").mkdir()
    (tmp_path / "viewer" / "index.html").write_text(PAGE)
    run = tmp_path / "results" / "1"
    run.mkdir(parents=True)
    (run / "replay").write_bytes(b"moves")
    # No backend is needed, and the last replay is meant
    async with open_replay(tmp_path, backend="none") as shown, httpx2.AsyncClient() as client:
        assert (shown.game, shown.replay.source) == (None, str(run / "replay"))
        assert (await client.get(shown.link.partition("#")[0])).text == PAGE
        assert "viewer.invalid" in (await shown.page()).html
    shutil.rmtree(tmp_path / "viewer")
    with pytest.raises(UsageError, match="none"):
        async with open_replay(tmp_path, backend="none"):
            pass


# --- certified ----------------------------------------------------------------------------------------------------

FETCHES = """
const place = new URLSearchParams(location.hash.slice(1)).get("replay");
const tell = type => parent.postMessage({src: "coworld-replay", type, message: "of no use"}, "*");
tell("loading");
fetch(place).then(answer => answer.text()).then(text => { document.body.textContent = text; tell(TYPE); });
"""
READY = FETCHES.replace("TYPE", '"ready"')


@pytest.mark.browser
@pytest.mark.parametrize(
    ("script", "broken"),
    [
        (READY, set[str]()),
        (FETCHES.replace("TYPE", '"error"') + "missing();", {"viewer_failed", "viewer_complains"}),
        (READY.replace("document.body.textContent", "document.title"), {"viewer_blank"}),
        (READY + "fetch('https://fonts.example.org/one?secret').catch(() => 0);", {"viewer_asks_others"}),
        ("", {"viewer_fetches"}),
    ],
)
async def test_a_viewer_is_looked_at_in_a_browser(tmp_path: Path, script: str, broken: set[str]) -> None:
    (tmp_path / "viewer").mkdir()
    (tmp_path / "viewer" / "index.html").write_text(f'{PAGE}<script type="module">{script}</script>')
    (tmp_path / "replay").write_text("moves")
    with anyio.fail_after(60):
        seconds = 0.2 if broken == {"viewer_fetches"} else 30
        issues = await check_viewer(tmp_path / "viewer", tmp_path / "replay", packed=False, seconds=seconds)
    assert {issue.code for issue in issues if issue.severity == "error"} == broken
    assert not any("secret" in issue.message for issue in issues)


async def test_malformed_viewer_fails_without_a_browser(tmp_path: Path) -> None:
    (tmp_path / "replay").write_text("moves")
    issues = await check_viewer(tmp_path / "viewer", tmp_path / "replay", packed=False, seconds=1)
    assert [(issue.severity, issue.code) for issue in issues] == [("error", "viewer_missing")]
