"""Images on a real engine: here, pulled from a real registry, or refused with a reason."""

from __future__ import annotations

import base64
import contextlib
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from support.docker_subject import engine_call
from support.images import BASE_IMAGE
from support.registry import Registry, image_archive, serve_registry

from coworld_core.docker_address import EngineRefused, resolve_address
from coworld_core.episode.events import BaseEvent, ImageProgressed, Notice
from coworld_core.errors import ImageError
from coworld_runner.backend import ImageInfo
from coworld_runner.backends import DockerBackend
from coworld_runner.backends.docker._emulation import Emulation
from coworld_runner.backends.docker._engine import Engine, is_full, path_segment
from coworld_runner.backends.docker._image_pulls import split_name
from coworld_runner.backends.docker._registry_logins import registry_headers

on_docker = pytest.mark.docker


async def forget(*images: str) -> None:
    for image in images:
        with contextlib.suppress(EngineRefused):
            await engine_call("DELETE", f"/images/{path_segment(image)}", query={"force": True})


@asynccontextmanager
async def registry_of(**how: object) -> AsyncGenerator[Registry, None]:
    with serve_registry(Registry(**how)) as registry:  # type: ignore[arg-type]
        try:
            yield registry
        finally:
            registry.release.set()
            await forget(registry.image())


class TestImages:
    pytestmark = on_docker

    async def test_local_image_is_not_pulled(self) -> None:
        events: list[BaseEvent] = []
        async with DockerBackend(pull="never") as backend:
            info = await backend.ensure_image(BASE_IMAGE, publish=events.append)
            assert await backend.has_image(BASE_IMAGE)
        assert info.digest.startswith("sha256:")
        assert info.platform.startswith("linux/")
        assert not info.emulated
        assert events == []

    @pytest.mark.parametrize(
        ("image", "said"),
        [
            ("coworld-test-absent:1", "is not on this machine and could not be pulled: "),
            (f"img_{'a' * 8}-{'b' * 4}-{'c' * 4}-{'d' * 4}-{'e' * 12}", "was not published"),
            ("Not/A Name", "is not the name of an image"),
            ("sha256:" + "0" * 64, "which no registry knows"),
        ],
    )
    async def test_unavailable_image_is_reported(self, image: str, said: str) -> None:
        async with DockerBackend() as backend:
            with pytest.raises(ImageError) as caught:
                await backend.ensure_image(image)
        assert image in caught.value.message
        assert said in caught.value.message
        assert caught.value.hint
        assert caught.value.context["image"] == image

    async def test_a_name_that_only_looks_like_an_unpublished_one_is_ordinary(self) -> None:
        async with DockerBackend(pull="never") as backend:
            with pytest.raises(ImageError, match="is not on this machine"):
                await backend.ensure_image("img_game:latest")

    async def test_image_for_another_platform_is_reported(self) -> None:
        name = "coworld-test-foreign:1"
        async with Engine.connect(resolve_address()) as engine:
            foreign = "arm64" if engine.platform != "linux/arm64" else "amd64"
            try:
                async with engine.stream("POST", "/images/load", content=image_archive(name, foreign)) as answer:
                    assert [data async for data in answer]
                async with DockerBackend() as backend:
                    with pytest.raises(ImageError) as caught:
                        await backend.ensure_image(name, platform=engine.platform)
                    assert caught.value.code == "image_wrong_platform"
                    assert f"linux/{foreign}" in caught.value.message
                    assert f"--platform {engine.platform}" in str(caught.value.hint)
                    # Whether it is for the machine that was asked for or not: it has to run on this one
                    emulated = await Emulation(engine).try_out(f"linux/{foreign}", image=name)
                    for platform in (None, f"linux/{foreign}"):
                        if emulated:
                            assert (await backend.ensure_image(name, platform=platform)).emulated
                            continue
                        with pytest.raises(ImageError, match=f"it would run on {engine.platform}") as caught:
                            await backend.ensure_image(name, platform=platform)
                        assert caught.value.code == "image_wrong_platform"
            finally:
                await forget(name)

    async def test_concurrent_pulls_share_one_and_report_progress(self) -> None:
        events: list[BaseEvent] = []
        infos: list[ImageInfo] = []
        async with registry_of(size=4_000_000) as registry, DockerBackend() as backend:

            async def ask() -> None:
                infos.append(await backend.ensure_image(registry.image(), publish=events.append))

            with anyio.fail_after(60):
                async with anyio.create_task_group() as tasks:
                    for _ in range(4):
                        tasks.start_soon(ask)
            assert registry.manifests == 1
            assert len(infos) == 4
            assert len({info.digest for info in infos}) == 1
        told = [event for event in events if isinstance(event, ImageProgressed)]
        assert {event.image for event in told} == {registry.image()}
        counted = [event for event in told if event.total]
        assert counted
        assert all(event.done is not None and event.done <= (event.total or 0) for event in counted)

    async def test_cancelled_pull_is_taken_over_by_a_waiter(self) -> None:
        infos: list[ImageInfo] = []
        answered = anyio.Event()
        async with registry_of() as registry, DockerBackend() as backend, anyio.create_task_group() as tasks:
            registry.release.clear()

            async def ask() -> None:
                infos.append(await backend.ensure_image(registry.image()))
                answered.set()

            with anyio.fail_after(60):
                async with anyio.create_task_group() as first:
                    first.start_soon(ask)
                    await anyio.to_thread.run_sync(registry.layer_asked.wait, 30, abandon_on_cancel=True)
                    tasks.start_soon(ask)
                    await anyio.wait_all_tasks_blocked()
                    first.cancel_scope.cancel()
                assert infos == []
                registry.release.set()
                await answered.wait()
            assert infos[0].image == registry.image()

    async def test_registry_error_is_passed_on(self) -> None:
        async with registry_of() as registry, DockerBackend() as backend:
            with pytest.raises(ImageError, match=r"manifest unknown|not found") as caught:
                await backend.ensure_image(registry.image("absent"))
            assert caught.value.code == "image_absent"
        async with registry_of() as registry, DockerBackend(pull="never") as backend:
            with pytest.raises(ImageError, match="is not on this machine"):
                await backend.ensure_image(registry.image())
            assert registry.manifests == 0

    async def test_a_registry_that_is_busy_is_asked_again(self) -> None:
        events: list[BaseEvent] = []
        # The engine asks twice for each try
        async with registry_of(busy=3) as registry, DockerBackend() as backend:
            await backend.ensure_image(registry.image(), publish=events.append)
            assert registry.busy == 0
        (told, *_) = [event.message for event in events if isinstance(event, Notice)]
        assert "is pulled again" in told
        async with registry_of(busy=1000) as registry, DockerBackend() as backend:
            with pytest.raises(ImageError, match="503") as caught:
                await backend.ensure_image(registry.image())
            assert caught.value.code == "registry_unavailable"

    async def test_a_kept_login_is_used(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
        async with registry_of(login="ada:secret") as registry, DockerBackend() as backend:
            with pytest.raises(ImageError) as caught:
                await backend.ensure_image(registry.image())
            assert "docker login" in str(caught.value.hint)
            kept = base64.b64encode(b"ada:secret").decode()
            (tmp_path / "config.json").write_text(json.dumps({"auths": {registry.address: {"auth": kept}}}))
            await backend.ensure_image(registry.image())


async def test_logins_come_from_helpers_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper = tmp_path / "docker-credential-vault"
    helper.write_text(
        '#!/bin/sh\nread server\necho "{\\"Username\\": \\"<token>\\", \\"Secret\\": \\"for $server\\"}"\n'
    )
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps({"credHelpers": {"registry.example.org": "vault"}}))
    header = (await registry_headers("registry.example.org/team/game"))["X-Registry-Auth"]
    assert json.loads(base64.urlsafe_b64decode(header)) == {
        "identitytoken": "for registry.example.org",
        "serveraddress": "registry.example.org",
    }
    assert await registry_headers("team/game") == {}
    (tmp_path / "config.json").write_text(
        json.dumps({"credsStore": "missing", "auths": {"https://x.org": {"auth": "%"}}})
    )
    assert await registry_headers("x.org/game") == {}


@pytest.mark.parametrize(
    ("image", "name", "tag"),
    [
        ("game", "game", "latest"),
        ("game:1", "game", "1"),
        ("127.0.0.1:5000/team/game", "127.0.0.1:5000/team/game", "latest"),
        ("127.0.0.1:5000/team/game:2", "127.0.0.1:5000/team/game", "2"),
        ("x.org/game@sha256:ab", "x.org/game", "sha256:ab"),
        ("x.org:1/game:3@sha256:ab", "x.org:1/game", "sha256:ab"),
    ],
)
def test_image_reference_is_parsed(image: str, name: str, tag: str) -> None:
    assert split_name(image) == (name, tag)


def test_a_full_disk_is_known_by_the_engines_words() -> None:
    assert is_full("write /var/lib/docker/tmp/x: no space left on device")
    assert is_full("failed to solve: No space left on device")
    assert not is_full("manifest unknown")
