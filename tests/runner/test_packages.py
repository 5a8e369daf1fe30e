"""What a MANIFEST argument names, and what is said when it names nothing."""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncIterator, Callable, Generator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from support.fake_server import Say, Site, json_say, nobody_there, site_in_thread
from support.manifests import duel

from coworld_core.errors import CoworldError, ManifestError, RemoteError, UsageError
from coworld_core.hints import hint_fields
from coworld_core.manifest.manifest_file import manifest_sha256
from coworld_core.retries import Backoff
from coworld_runner.episode.backend_choice import choose_backend
from coworld_runner.package.plan import plan_episode
from coworld_runner.package.resolver import (
    MANIFEST_LIMIT,
    Package,
    coworld_id,
    default_results_dir,
    resolve_package,
)

Document = dict[str, Any]
Write = Callable[..., Path]
MANIFEST_NAME = "coworld_manifest.json"
TEMPLATE_NAME = "coworld_manifest_template.json"


def manifest(image: str = "duel:1") -> Document:
    return duel(image, version="1.2.3")


def write(path: Path, document: object, *, age: float = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")
    if age:
        then = time.time() - age
        os.utime(path, (then, then))
    return path


# --- paths


async def test_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "any name.json", manifest())
    package = await resolve_package(path)
    assert package.manifest.game.name == "duel"
    assert (package.path, package.directory, package.source) == (path, tmp_path, str(path))
    assert (package.fetched, package.is_template, package.coworld_id) == (False, False, None)
    assert package.default_results_dir() == tmp_path / "results"
    assert package.sha256 == manifest_sha256(package.manifest)
    assert len(package.contexts) == 0


async def test_every_way_to_write_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path / "a b%#" / MANIFEST_NAME, manifest())
    for argument in (
        str(path),
        str(path.parent),
        f"{path.parent}/",
        f"  {path}  ",
        "a b%#",
        "./a b%#",
        f"a b%#/{MANIFEST_NAME}",
        f"~/a b%#/{MANIFEST_NAME}",
        f"file://{tmp_path}/a%20b%25%23",
        f"FILE://localhost{tmp_path}/a b%25%23/{MANIFEST_NAME}",
        f"file:{tmp_path}/a%20b%25%23",
    ):
        assert (await resolve_package(argument)).path == path


@pytest.mark.parametrize("argument", ["C:\\games\\duel", "c:/games/duel", "D:duel"])
async def test_windows_drive_is_not_a_url_scheme(argument: str) -> None:
    with pytest.raises(UsageError) as caught:
        await resolve_package(argument)
    assert caught.value.code == "path_missing"


@pytest.mark.parametrize(
    ("argument", "named"),
    [(" cow_1 ", "cow_1"), ("/v2/coworlds/cow_1/", "cow_1"), ("/v2/coworlds/a b", None), ("cow_1/x.json", None)],
)
def test_an_argument_that_is_an_id(argument: str, named: str | None) -> None:
    assert coworld_id(argument) == named


def test_default_results_directory_without_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.json").touch()
    assert default_results_dir("broken.json") == default_results_dir(".") == tmp_path / "results"
    assert default_results_dir("https://example.org/manifest.json") == tmp_path / "coworld-results"


async def test_a_path_that_begins_like_an_id_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("cow_manifest.json", "cow_1/manifest.json"):
        path = write(tmp_path / name, manifest())
        assert (await resolve_package(name)).path == path


async def test_a_directory_holds_a_manifest_in_one_of_three_places(tmp_path: Path) -> None:
    template = write(tmp_path / TEMPLATE_NAME, duel(), age=300)
    package = await resolve_package(tmp_path)
    assert (package.path, package.is_template) == (template, True)
    dist = write(tmp_path / "dist" / MANIFEST_NAME, manifest(), age=200)
    assert (await resolve_package(tmp_path)).path == dist
    built = write(tmp_path / MANIFEST_NAME, manifest(), age=250)
    package = await resolve_package(tmp_path)
    assert (package.path, package.is_template) == (built, False)
    assert not package.report.issues


async def test_a_newer_template_goes_before_what_was_built(tmp_path: Path) -> None:
    template = write(tmp_path / TEMPLATE_NAME, duel(), age=100)
    built = write(tmp_path / MANIFEST_NAME, manifest(), age=200)
    package = await resolve_package(tmp_path)
    assert package.path == template
    assert [issue.severity for issue in package.report.issues if issue.code == "template_newer"] == ["info"]
    package = await resolve_package(tmp_path, prefer="manifest")
    assert package.path == built
    assert [issue.code for issue in package.report.issues] == ["manifest_older"]
    package = await resolve_package(tmp_path, template=False)
    assert package.path == built
    assert [issue.code for issue in package.report.issues] == ["manifest_older"]
    os.utime(template, ns=(built.stat().st_mtime_ns, built.stat().st_mtime_ns))
    assert (await resolve_package(tmp_path)).path == built
    assert (await resolve_package(tmp_path, prefer="template")).path == template


async def test_unusable_template_is_refused(tmp_path: Path) -> None:
    write(tmp_path / TEMPLATE_NAME, duel())
    for options in ({"template": False}, {"prefer": "manifest"}):
        with pytest.raises(UsageError) as caught:
            await resolve_package(tmp_path, **options)  # type: ignore[arg-type]
        assert hint_fields(caught.value.hint) == {
            "hint": f"Build it first: build_coworld({str(tmp_path)!r}).",
            "hint_code": "build_directory",
            "hint_values": {"directory": str(tmp_path)},
        }
    (tmp_path / TEMPLATE_NAME).unlink()
    write(tmp_path / MANIFEST_NAME, manifest())
    with pytest.raises(UsageError, match=TEMPLATE_NAME):
        await resolve_package(tmp_path, prefer="template")


async def test_a_directory_without_a_manifest_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        await resolve_package(tmp_path)
    assert caught.value.code == "manifest_not_found"
    for name in (MANIFEST_NAME, f"dist/{MANIFEST_NAME}", TEMPLATE_NAME):
        assert name in caught.value.message
    write(tmp_path / "games" / "x", {})
    write(tmp_path / "duel" / MANIFEST_NAME, manifest())
    with pytest.raises(UsageError) as caught:
        await resolve_package(tmp_path)
    assert caught.value.hint == f"Did you mean {tmp_path / 'duel'}?"


@pytest.mark.parametrize(
    ("argument", "hint"),
    [
        ("duel.jsn", "Did you mean {}/duel.json?"),
        ("dual/x/y.json", "Did you mean {}/duels?"),
        ("qqq", "In {} there is: duel.json and duels."),
        ("qqq/x", "The directory {} has no 'qqq'."),
    ],
)
async def test_a_missing_path_names_what_is_near(tmp_path: Path, argument: str, hint: str) -> None:
    write(tmp_path / "duel.json", manifest())
    (tmp_path / "duels").mkdir()
    with pytest.raises(UsageError) as caught:
        await resolve_package(tmp_path / argument)
    assert caught.value.code == "path_missing"
    assert caught.value.hint == hint.format(tmp_path)


async def test_a_path_through_a_file_and_a_pipe(tmp_path: Path) -> None:
    path = write(tmp_path / "duel.json", manifest())
    os.mkfifo(tmp_path / "pipe")
    for argument in (path / "below", tmp_path / "pipe", tmp_path / ("x" * 300)):
        with pytest.raises(UsageError):
            await resolve_package(argument)


@pytest.mark.parametrize(
    "argument",
    [
        "",
        " ",
        "gopher://host/x",
        "s3://bucket/key",
        "file://host/x",
        "file:",
        "http://",
        "https:///x",
        "http://[::1",
        "a\0",
    ],
)
async def test_invalid_package_argument_is_refused(argument: str) -> None:
    with pytest.raises(UsageError) as refused:
        await resolve_package(argument)
    assert ("presigned" in (refused.value.hint or "")) == argument.startswith("s3:")


async def test_a_bad_manifest_lists_all_issues_with_lines(tmp_path: Path) -> None:
    path = tmp_path / MANIFEST_NAME
    path.write_text("{\n  ]", encoding="utf-8")
    with pytest.raises(ManifestError) as caught:
        await resolve_package(path)
    assert caught.value.report.source == str(path)
    assert caught.value.report.errors[0].line == 2
    document = manifest()
    del document["game"]["owner"]
    del document["variants"]
    write(path, document)
    with pytest.raises(ManifestError) as caught:
        await resolve_package(tmp_path)
    assert len(caught.value.report.errors) == 2


async def test_template_errors_include_the_reason_for_using_it(tmp_path: Path) -> None:
    write(tmp_path / MANIFEST_NAME, manifest(), age=100)
    document = duel()
    del document["game"]["owner"]
    write(tmp_path / TEMPLATE_NAME, document)
    with pytest.raises(ManifestError) as caught:
        await resolve_package(tmp_path)
    assert "template_newer" in {issue.code for issue in caught.value.report.issues}


async def test_strict_reading(tmp_path: Path) -> None:
    write(tmp_path / MANIFEST_NAME, {**manifest(), "colour": "red"})
    assert (await resolve_package(tmp_path)).report.warnings
    with pytest.raises(ManifestError):
        await resolve_package(tmp_path, mode="strict")


# --- what belongs to it


async def test_contexts_come_from_the_compose_file(tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text("services: {duel: {image: 'duel:latest', build: .}}", encoding="utf-8")
    write(tmp_path / MANIFEST_NAME, manifest(image="duel:coworld-0123456789ab"))
    package = await resolve_package(tmp_path)
    assert package.contexts[package.manifest.game.runnable.image] == tmp_path
    write(tmp_path / "dist" / MANIFEST_NAME, manifest(image="duel:1"))
    package = await resolve_package(tmp_path / "dist")
    assert package.contexts["duel:1"] == tmp_path


async def test_a_broken_compose_file_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text("services:\n  duel: 1\n", encoding="utf-8")
    write(tmp_path / MANIFEST_NAME, manifest())
    package = await resolve_package(tmp_path)
    assert len(package.contexts) == 0
    (issue,) = package.report.warnings
    assert issue.message.startswith("compose.yaml:2: ")
    assert package.report.ok


@pytest.mark.parametrize("marked", ["cache", "images"])
async def test_a_downloaded_package_is_not_trusted_wherever_it_is_named_from(tmp_path: Path, marked: str) -> None:
    directory = tmp_path / ("coworld" if marked == "cache" else "elsewhere") / "cow_123"
    path = write(directory / MANIFEST_NAME, manifest())
    (directory / "compose.yaml").write_text("services: {duel: {image: 'duel:1', build: .}}", encoding="utf-8")
    if marked == "images":
        write(directory / "coworld_images.json", {})
    for argument in (directory, path):
        package = await resolve_package(argument)
        assert package.fetched
        assert len(package.contexts) == 0
        assert package.default_results_dir() == directory / "results"


@pytest.mark.parametrize("own", [False, True])
async def test_downloaded_files_can_be_built_and_are_trusted_only_if_they_are_ones_own(
    tmp_path: Path, own: bool
) -> None:
    directory = tmp_path / "coworld" / "cow_123"
    write(directory / MANIFEST_NAME, manifest(image="duel:1"))
    (directory / "compose.yaml").write_text("services: {duel: {image: 'duel:1', build: .}}", encoding="utf-8")
    write(directory / "coworld_images.json", {"images": [], "has_files": True, "own": own})
    package = await resolve_package(directory)
    assert (package.fetched, package.needs_build) == (not own, True)
    # An older image of that name may be there, and is not what was downloaded
    assert (await choose_backend("auto", package)).name == ("process" if own else "docker")
    assert (await choose_backend("auto", package)).reason == (
        "the images are not built yet" if own else "the package comes from elsewhere, and only containers keep it apart"
    )
    assert package.contexts["duel:1"] == directory


@pytest.mark.parametrize(
    ("image", "unpinned"),
    [
        ("duel:1", True),
        ("ghcr.io/me/duel:1", True),
        (f"ghcr.io/me/duel@sha256:{'0' * 64}", False),
        ("duel:coworld-0123456789ab", False),
        ("coworld/cow_123/duel-1-2-3-0:downloaded", False),
    ],
)
async def test_images_from_elsewhere_whose_names_say_no_content_are_known(
    tmp_path: Path, image: str, unpinned: bool
) -> None:
    downloaded = write(tmp_path / "coworld" / "cow_123" / MANIFEST_NAME, manifest(image=image))
    package = await resolve_package(downloaded)
    assert package.unpinned == (frozenset([image]) if unpinned else frozenset())
    assert plan_episode(package).unpinned == package.unpinned
    own = await resolve_package(write(tmp_path / "mine" / MANIFEST_NAME, manifest(image=image)))
    assert own.unpinned == frozenset()


# --- ids


async def test_a_kept_package_goes_before_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path / "coworld" / "cow_abc-1" / MANIFEST_NAME, manifest())
    for argument in ("cow_abc-1", "/v2/coworlds/cow_abc-1"):
        package = await resolve_package(argument, server="http://127.0.0.1:9")
        assert (package.path, package.fetched, package.coworld_id) == (path, True, "cow_abc-1")
        assert package.default_results_dir() == tmp_path / "coworld" / "cow_abc-1" / "results"
    other = write(tmp_path / "cache" / "cow_x" / MANIFEST_NAME, manifest())
    assert (await resolve_package("cow_x", cache=tmp_path / "cache")).path == other


@pytest.mark.parametrize(
    "argument", ["cow_abc", "/v2/coworlds/cow_abc", "/v2/coworlds/11111111-1111-4111-8111-111111111111"]
)
async def test_an_id_needs_a_server(tmp_path: Path, argument: str) -> None:
    with pytest.raises(UsageError) as caught:
        await resolve_package(argument, cache=tmp_path)
    assert caught.value.code == "server_missing"


@pytest.mark.parametrize(
    "argument",
    ["/v2/coworlds/", "/v2/coworlds/../users", "/v2/coworlds/a/b", "/v2/coworlds/a?b", "/v2/coworlds/%2e%2e"],
)
async def test_an_id_cannot_lead_elsewhere(argument: str) -> None:
    with pytest.raises(UsageError) as caught:
        await resolve_package(argument, server="http://127.0.0.1:9")
    assert caught.value.code == "bad_coworld_id"


async def test_a_server_must_be_an_address(tmp_path: Path) -> None:
    for server in ("softmax", "ftp://host", "http://"):
        with pytest.raises(UsageError):
            await resolve_package("cow_abc", server=server, cache=tmp_path)


# --- addresses


@pytest.fixture
def site() -> Generator[Site]:
    with site_in_thread(Site()) as site:
        yield site


@pytest.fixture
def other_site() -> Generator[Site]:
    with site_in_thread(Site()) as site:
        yield site


async def failing(argument: str, **options: Any) -> CoworldError:
    with pytest.raises(CoworldError) as caught:
        await resolve_package(argument, **options)
    return caught.value


async def test_a_manifest_behind_an_address(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    site.on("GET", "/m.json?key=secret", manifest())
    package = await resolve_package(f"{site.url}/m.json?key=secret")
    assert package.manifest.game.version == "1.2.3"
    assert package.source == package.report.source == f"{site.url}/m.json"
    assert (package.fetched, package.path, package.directory) == (True, None, None)
    assert package.default_results_dir() == tmp_path / "coworld-results"
    headers = site.asked[0].headers
    assert headers["user-agent"].startswith("coworld-runner/")
    assert "authorization" not in headers


async def test_an_object_of_the_api_holds_the_manifest(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    site.on("GET", "/v2/coworlds/cow_1", {"id": "cow_1", "name": "duel", "manifest": manifest()})
    site.on("GET", "/api/observatory/v2/coworlds/cow_2", {"manifest": manifest()})
    package = await resolve_package("cow_1", server=site.url)
    assert (package.coworld_id, package.fetched) == ("cow_1", True)
    assert package.default_results_dir() == tmp_path / "coworld" / "cow_1" / "results"
    # The front door of the API is one level above
    await resolve_package("/v2/coworlds/cow_2", server=f"{site.url}/api/")
    assert [ask.target for ask in site.asked] == ["/v2/coworlds/cow_1", "/api/observatory/v2/coworlds/cow_2"]


async def test_redirects_are_followed_and_the_token_stays_at_home(site: Site, other_site: Site) -> None:
    site.on("GET", "/v2/coworlds/cow_1", Say(307, headers={"Location": "/here"}))
    site.on("GET", "/here", Say(302, headers={"Location": f"{other_site.url}/there"}))
    other_site.on("GET", "/there", manifest())
    await resolve_package("cow_1", server=site.url, token="hush")
    assert [ask.headers.get("authorization") for ask in site.asked] == ["Bearer hush", "Bearer hush"]
    assert [ask.headers.get("authorization") for ask in other_site.asked] == [None]


async def test_a_token_does_not_go_over_plain_http_to_another_machine() -> None:
    error = await failing("cow_1", server="http://example.invalid", token="hush")
    assert isinstance(error, UsageError)
    assert error.code == "insecure_token"
    assert "hush" not in str(error.to_dict())


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://h/x", "//", "http://", "javascript:1"])
async def test_redirects_lead_to_http_only(site: Site, location: str) -> None:
    site.on("GET", "/m", Say(302, headers={"Location": location}))
    error = await failing(f"{site.url}/m")
    assert isinstance(error, RemoteError)
    assert error.code == "remote_redirect"


async def test_redirects_end(site: Site) -> None:
    site.on("GET", "/m", Say(302, headers={"Location": "/m"}))
    error = await failing(f"{site.url}/m")
    assert error.code == "remote_redirect"
    assert len(site.asked) == 11


@pytest.mark.parametrize("announced", [True, False])
async def test_an_oversize_answer_is_not_read_to_its_end(site: Site, announced: bool) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 8 * MANIFEST_LIMIT:
            yield b" " * (1 << 20)
            sent += 1 << 20

    headers = {"Content-Length": str(MANIFEST_LIMIT + 1)} if announced else {}
    site.on("GET", "/m", Say(200, endless(), headers))
    error = await failing(f"{site.url}/m")
    assert error.code == "remote_too_large"
    assert "16 MiB" in error.message
    assert "127.0.0.1" in error.message
    assert sent < 4 * MANIFEST_LIMIT


async def test_slow_response_meets_the_deadline(site: Site) -> None:
    async def dribble() -> AsyncIterator[bytes]:
        while True:
            await anyio.sleep(0.02)
            yield b" "

    site.on("GET", "/m", Say(200, dribble()))
    error = await failing(f"{site.url}/m", timeout=0.5)
    assert isinstance(error, RemoteError)
    assert error.code == "remote_timeout"
    assert "127.0.0.1" in error.message


async def test_a_silent_server_meets_the_deadline(site: Site) -> None:
    site.on("GET", "/m", lambda _: anyio.sleep_forever())
    assert (await failing(f"{site.url}/m", timeout=0.3)).code == "remote_timeout"


async def test_fetching_can_be_cancelled(site: Site) -> None:
    site.on("GET", "/m", lambda _: anyio.sleep_forever())
    with anyio.move_on_after(30) as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(resolve_package, f"{site.url}/m")
            while not site.asked:
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
    assert not scope.cancelled_caught


@pytest.mark.parametrize(
    ("status", "tries"), [(404, 1), (401, 1), (403, 1), (410, 1), (400, 1), (500, 3), (503, 3), (429, 3)]
)
async def test_a_refusal_names_host_and_status(site: Site, status: int, tries: int) -> None:
    site.on("GET", "/m", json_say({"detail": "no"}, status))
    error = await failing(f"{site.url}/m")
    assert isinstance(error, RemoteError)
    assert error.code == "remote_status"
    assert error.context["status"] == status
    assert error.context["host"] == "127.0.0.1"
    assert f"127.0.0.1 answered {status}" in error.message
    assert len(site.asked) == tries


async def test_transient_server_error_is_retried(site: Site) -> None:
    answers = iter([Say(503, headers={"Retry-After": "0"}), json_say(manifest())])
    site.on("GET", "/m", lambda _: next(answers))
    await resolve_package(f"{site.url}/m")
    assert len(site.asked) == 2


async def test_a_server_that_asks_for_too_much_time_is_not_asked_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coworld_runner.package.locations._BACKOFF", Backoff(longest_wait=0.5))

    site.on("GET", "/m", Say(429, headers={"Retry-After": "1"}))
    assert (await failing(f"{site.url}/m")).context["status"] == 429
    assert len(site.asked) == 1


async def test_unreachable_host_is_named() -> None:
    with nobody_there() as url:
        error = await failing(f"{url}/m")
    assert isinstance(error, RemoteError)
    assert error.code == "remote_unreachable"
    assert "127.0.0.1" in error.message
    error = await failing("http://name.invalid/m")
    assert error.code == "remote_unreachable"
    assert "name.invalid" in error.message


@pytest.mark.parametrize(
    "body", [b"<html>hello</html>", b"", b"[1]", b"null", b'"text"', b"\xff\xfe", b"{", b"[" * 100_000]
)
async def test_response_that_is_not_an_object_is_refused(site: Site, body: bytes) -> None:
    site.on("GET", "/m", body)
    error = await failing(f"{site.url}/m")
    assert isinstance(error, RemoteError)
    assert error.code == "remote_not_json"
    assert "127.0.0.1" in error.message


@pytest.mark.parametrize("body", [{}, {"manifest": {}}, {"manifest": None}, {"manifest": "x"}, {"detail": "Not found"}])
async def test_an_object_without_a_manifest(site: Site, body: Document) -> None:
    site.on("GET", "/m", body)
    error = await failing(f"{site.url}/m")
    assert isinstance(error, RemoteError)
    assert error.code == "remote_not_manifest"


async def test_a_wrong_manifest_from_elsewhere_lists_its_issues(site: Site) -> None:
    document = manifest()
    document["player"] = []
    site.on("GET", "/raw?key=secret", document)
    site.on("GET", "/api", {"manifest": document})
    for path in ("/raw?key=secret", "/api"):
        error = await failing(f"{site.url}{path}")
        assert isinstance(error, ManifestError)
        assert error.report.source == site.url + path.partition("?")[0]
        assert error.message.startswith(error.report.source)


async def test_a_template_from_elsewhere_is_refused(site: Site) -> None:
    site.on("GET", "/m", manifest(image="{{DUEL_IMAGE}}"))
    assert isinstance(await failing(f"{site.url}/m"), ManifestError)


async def test_unrequested_content_encoding_is_refused(site: Site) -> None:
    site.on("GET", "/m", Say(200, b"\x1f\x8b", {"Content-Encoding": "gzip"}))
    assert (await failing(f"{site.url}/m")).code == "remote_encoding"
    assert site.asked[0].headers["accept-encoding"] == "identity"


async def test_passwords_in_addresses_are_not_shown(site: Site) -> None:
    address = site.url.replace("//", "//user:hush@") + "/m?token=hush#hush"
    error = await failing(address)
    assert "hush" not in str(error.to_dict())
    site.on("GET", "/m?token=hush", manifest())
    package = await resolve_package(address)
    assert "hush" not in repr(package)


def test_a_package_is_a_plain_value(tmp_path: Path) -> None:
    package = anyio.run(resolve_package, write(tmp_path / MANIFEST_NAME, manifest()))
    assert isinstance(package, Package)
    assert "duel" in repr(package)
