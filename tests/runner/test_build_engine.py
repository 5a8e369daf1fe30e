"""Building on a real engine: what comes out, what is left when it fails, and what no registry is asked for."""

from __future__ import annotations

import contextlib
import io
import ipaddress
import json
import os
import secrets
import tarfile
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import psutil
import pytest
from support.images import BASE_IMAGE as BASE
from support.manifests import duel
from support.registry import Registry, serve_registry
from support.waiting import until

from coworld_core.docker_address import EngineRefused, resolve_address
from coworld_core.episode.events import BaseEvent, ImageProgressed, ImageReady, Notice
from coworld_core.errors import CoworldError, ImageError
from coworld_core.manifest.manifest_file import dump_manifest, load_manifest
from coworld_runner.backends.docker._engine import Engine
from coworld_runner.build.manifest_build import BuildError, BuildResult, build_coworld
from coworld_runner.package.resolver import resolve_package

pytestmark = pytest.mark.docker

MANIFEST_NAME = "coworld_manifest.json"
TEMPLATE_NAME = "coworld_manifest_template.json"


@pytest.fixture
async def engine() -> AsyncGenerator[Engine, None]:
    """The engine of this machine."""
    async with Engine.connect(resolve_address()) as found:
        yield found


async def tags(engine: Engine) -> set[str]:
    return {tag for image in await engine.call("GET", "/images/json") for tag in image["RepoTags"] or ()}


async def containers(engine: Engine, marker: str) -> set[str]:
    """Containers whose command holds a text; other tests, and other people, have containers too."""
    found = await engine.call("GET", "/containers/json", query={"all": True})
    return {entry["Id"] for entry in found if marker in entry["Command"]}


@pytest.fixture
async def prefix(engine: Engine) -> AsyncGenerator[str, None]:
    """The beginning of the names of a test's images, which are removed again."""
    name = f"coworld-test-{secrets.token_hex(4)}"
    base = BASE.rpartition(":")[0]
    yield name
    for tag in await tags(engine):
        if name in tag or tag.startswith(f"{base}:coworld-"):
            with contextlib.suppress(EngineRefused):  # Gone with another of its names
                await engine.call("DELETE", f"/images/{tag}", query={"force": True})


class Project:
    """A package to build."""

    def __init__(self, root: Path, prefix: str) -> None:
        self.root = root
        self.prefix = prefix
        self.events: list[BaseEvent] = []
        self.output = root / MANIFEST_NAME

    def compose(self, text: str) -> None:
        (self.root / "compose.yaml").write_text(
            text.replace("PREFIX", self.prefix).replace("@BASE@", f"'{BASE}'"), encoding="utf-8"
        )

    def file(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("PREFIX", self.prefix).replace("FROM BASE", f"FROM {BASE}"), encoding="utf-8")

    def template(self, game: str, player: str = "", **extra: Any) -> None:
        self.file(TEMPLATE_NAME, json.dumps({**duel(game, player), **extra}))

    async def build(self, **options: Any) -> BuildResult:
        with anyio.fail_after(100):
            return await build_coworld(self.root, publish=self.events.append, **options)

    async def failing(self, **options: Any) -> CoworldError:
        """The error of a build that fails, which must leave an older output as it was."""
        self.output.write_text("older", encoding="utf-8")
        with pytest.raises(CoworldError) as caught:
            await self.build(**options)
        assert self.output.read_text(encoding="utf-8") == "older"
        assert [path.name for path in self.root.iterdir() if path.name.startswith(f".{MANIFEST_NAME}")] == []
        return caught.value

    def lines(self) -> list[str]:
        return [event.status for event in self.events if isinstance(event, ImageProgressed)]


@pytest.fixture
def project(tmp_path: Path, prefix: str) -> Project:
    return Project(tmp_path, prefix)


# --- what comes out


async def test_a_package_is_built_tagged_by_content_and_written(project: Project, engine: Engine) -> None:
    project.compose(
        """
        services:
          game-server:
            image: PREFIX/game:latest
            build: {context: game, args: {BASE_IMAGE: @BASE@, WORD: "${WORD:-from the file}"}}
          player:
            image: PREFIX/player
            build:
              context: .
              dockerfile: docker/Player
          unused: {image: PREFIX/unused, build: unused}
        """
    )
    project.file(".env", "WORD=dot env\n")
    project.file(
        "game/Dockerfile", 'ARG BASE_IMAGE\nFROM $BASE_IMAGE\nARG WORD\nRUN echo "$WORD" > /word\nCOPY . /game\n'
    )
    project.file("game/.dockerignore", "secret\n**/*.tmp\n")
    project.file("game/secret", "hush")
    project.file("game/data/a.tmp", "")
    project.file("game/data/b.txt", "kept")
    project.file("docker/Player", "FROM BASE\nCOPY player.py /player.py\n")
    project.file("player.py", "print('plays')\n")
    project.template("{{GAME_SERVER_IMAGE}}", "{{PLAYER_IMAGE}}")
    result = await project.build()

    game, player = (result.images[f"{project.prefix}/{name}"] for name in ("game:latest", "player"))
    for image in (game, player):
        found = await engine.call("GET", f"/images/{image.reference}/json")
        assert found["Id"] == image.digest
        assert image.reference == f"{image.image.partition(':')[0]}:coworld-{image.digest[7:19]}"
        assert image.platform == engine.platform
    assert result.manifest.images() == (game.reference, player.reference)
    written = load_manifest(project.output, mode="strict")
    assert written.manifest == result.manifest
    assert project.output.read_text("utf-8") == dump_manifest(result.manifest)
    assert (result.version, written.manifest.game.version) == ("0.1.0", "0.1.0")

    files = await in_image(engine, game.reference, "/word", "/game")
    assert files["word"] == b"dot env\n"
    assert files["game/data/b.txt"] == b"kept"
    assert "game/secret" not in files
    assert "game/data/a.tmp" not in files
    assert (await in_image(engine, player.reference, "/player.py"))["player.py"] == b"print('plays')\n"

    kinds = [event.model_dump()["kind"] for event in project.events]
    assert (kinds.count("run_started"), kinds[-1]) == (1, "run_finished")
    assert {event.image for event in project.events if isinstance(event, ImageReady)} == {game.image, player.image}
    assert any("Step 2/" in line for line in project.lines())
    assert [event.message for event in project.events if isinstance(event, Notice)] == [
        "The manifest does not need unused, so it is not built."
    ]

    # The same again is the same, whoever owns the files and whenever they were written
    before = project.output.read_bytes()
    os.utime(project.root / "player.py", (1, 1))
    again = await project.build()
    assert {name: image.reference for name, image in again.images.items()} == {
        name: image.reference for name, image in result.images.items()
    }
    assert project.output.read_bytes() == before

    package = await resolve_package(project.root)
    assert package.contexts[game.reference] == project.root / "game"
    assert package.contexts[player.reference] == project.root


async def in_image(engine: Engine, image: str, *paths: str) -> dict[str, bytes]:
    """Files of an image, by their path below the last directory asked for."""
    created = await engine.call("POST", "/containers/create", body={"Image": image, "Cmd": ["none"]})
    files: dict[str, bytes] = {}
    try:
        for path in paths:
            async with engine.stream("GET", f"/containers/{created['Id']}/archive", query={"path": path}) as answer:
                data = b"".join([piece async for piece in answer])
            with tarfile.open(fileobj=io.BytesIO(data)) as archive:
                for member in archive:
                    content = archive.extractfile(member)
                    if content is not None:
                        files[member.name] = content.read()
    finally:
        await engine.call("DELETE", f"/containers/{created['Id']}", query={"force": True})
    return files


async def test_arguments_target_inline_dockerfile_and_alias(project: Project, engine: Engine) -> None:
    inline = """
            build: &build
              context: .
              target: small
              args: {WHO: nobody}
              dockerfile_inline: |
                FROM BASE AS small
                ARG WHO
                RUN echo "$$WHO" > /who
                FROM small
                RUN false
    """.replace("FROM BASE", f"FROM {BASE}")
    project.compose(
        f"services:\n  one:\n            image: PREFIX/one:1\n{inline}\n  two: {{image: PREFIX/two, build: *build}}\n"
    )
    project.template("{{ONE_IMAGE}}", "{{TWO_IMAGE}}")
    result = await project.build(build_args={"WHO": "caller"}, version="2.0", no_cache=True)
    one, two = result.images.values()
    # The same thing is built once
    assert one.digest == two.digest
    assert one.reference.startswith(f"{project.prefix}/one:coworld-")
    assert two.reference.startswith(f"{project.prefix}/two:coworld-")
    assert len([line for line in project.lines() if line.startswith("Step 1/")]) == 1
    assert (await in_image(engine, two.reference, "/who"))["who"] == b"caller\n"
    assert {f"{project.prefix}/one:1", f"{project.prefix}/two:latest"} <= await tags(engine)
    assert result.manifest.game.version == "2.0"


async def test_a_local_base_is_never_asked_of_a_registry(project: Project, engine: Engine) -> None:
    # Nobody listens on port 1, so that any attempt to pull would fail
    host = f"localhost:1/{project.prefix}"
    await engine.call("POST", f"/images/{BASE}/tag", query={"repo": f"{host}/base", "tag": "1"})
    project.compose(f"services: {{game: {{image: '{host}/game', build: .}}, plain: {{image: '{host}/base:1'}}}}")
    project.file("Dockerfile", f"FROM {host}/base:1\nCOPY --from={host}/base:1 /etc/passwd /copied\n")
    project.template("{{GAME_IMAGE}}", "{{PLAIN_IMAGE}}")
    result = await project.build()
    base = await engine.call("GET", f"/images/{BASE}/json")
    plain = result.images[f"{host}/base:1"]
    assert (plain.digest, plain.service) == (base["Id"], None)
    assert plain.reference == f"{host}/base:coworld-{base['Id'][7:19]}"


async def test_images_built_from_each_other_are_built_in_order(project: Project) -> None:
    project.compose(
        """
        services:
          last: {image: PREFIX/last, build: last}
          middle: {image: PREFIX/middle, build: middle}
          first: {image: PREFIX/first, build: first}
        """
    )
    project.file("last/Dockerfile", "FROM PREFIX/middle:latest\nCOPY --from=PREFIX/first /first /again\n")
    project.file("middle/Dockerfile", "FROM PREFIX/first\nRUN echo middle > /middle\n")
    project.file("first/Dockerfile", "FROM BASE\nRUN echo first > /first\n")
    project.template("{{LAST_IMAGE}}")
    await project.build()
    ready = [event.image.rpartition("/")[2] for event in project.events if isinstance(event, ImageReady)]
    assert ready == ["first", "middle", "last"]


async def test_independent_images_are_built_at_once(project: Project, engine: Engine) -> None:
    # Each build waits until the other has begun: one after the other would never end
    async with await anyio.create_tcp_listener(local_host="0.0.0.0") as listener:
        port = listener.extra_attributes[anyio.abc.SocketAttribute.local_port]()
        arrived: list[anyio.abc.SocketStream] = []

        async def greet(stream: anyio.abc.SocketStream) -> None:
            arrived.append(stream)
            if len(arrived) == 2:
                for waiting in arrived:
                    await waiting.send(b"go")
                    await waiting.aclose()

        bridge = await engine.call("GET", "/networks/bridge")
        subnet = ipaddress.ip_network(bridge["IPAM"]["Config"][0]["Subnet"])
        gateway = bridge["IPAM"]["Config"][0].get("Gateway") or subnet[1]
        script = (
            "import socket,sys; s=socket.create_connection((sys.argv[1], int(sys.argv[2])), 30);"
            " s.settimeout(60); assert s.recv(2) == b'go'"
        )
        project.compose("services: {one: {image: PREFIX/one, build: one}, two: {image: PREFIX/two, build: two}}")
        for name in ("one", "two"):
            project.file(f"{name}/Dockerfile", f'FROM BASE\nRUN python3 -c "{script}" {gateway} {port} {name}\n')
        project.template("{{ONE_IMAGE}}", "{{TWO_IMAGE}}")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, greet)
            await project.build(parallel=2, no_cache=True)
            tasks.cancel_scope.cancel()
    assert len(arrived) == 2


async def test_buildkit_is_used_where_needed(project: Project, engine: Engine) -> None:
    project.compose("services: {game: {image: PREFIX/game, build: {context: ., args: {WORD: heard}}}}")
    project.file(
        "Dockerfile",
        "# syntax=docker/dockerfile:1\nFROM BASE\nARG WORD\n"
        'RUN --mount=type=cache,target=/cache echo "$WORD" > /word && echo printed\n'
        "COPY --chmod=600 a /a\n",
    )
    project.file("a", "content")
    project.template("{{GAME_IMAGE}}")
    result = await project.build(no_cache=True)
    files = await in_image(engine, result.manifest.game.runnable.image, "/word", "/a")
    assert files == {"word": b"heard\n", "a": b"content"}
    assert any("RUN --mount" in line for line in project.lines())
    assert "printed" in project.lines()


async def test_an_output_elsewhere_and_behind_a_link(project: Project, tmp_path: Path) -> None:
    project.compose("services: {game: {image: PREFIX/game, build: .}}")
    project.file("Dockerfile", "FROM BASE\n")
    project.template("{{GAME_IMAGE}}")
    await project.build(output=tmp_path / "new" / "dir" / "m.json")
    assert load_manifest(tmp_path / "new" / "dir" / "m.json", mode="strict")
    real = tmp_path / "real.json"
    real.write_text("older", encoding="utf-8")
    (tmp_path / "link.json").symlink_to(real)
    await project.build(output=tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert load_manifest(real, mode="strict")


# --- what fails


@pytest.mark.parametrize("flag", ["", "--mount=type=tmpfs,target=/scratch "], ids=["classic", "buildkit"])
async def test_a_failing_step_is_named_with_its_last_lines(project: Project, engine: Engine, flag: str) -> None:
    project.compose("services: {game: {image: PREFIX/game, build: .}}")
    project.file(
        "Dockerfile",
        f"FROM BASE\nRUN echo earlier\nRUN {flag}: PREFIX; exec >&2; for i in $(seq 100); do echo line $i; done; "
        "printf '\\033[31mred end'; exit 7\nRUN echo later\n",
    )
    project.template("{{GAME_IMAGE}}")
    error = await project.failing()
    assert (type(error), error.code) == (BuildError, "build_failed")
    assert "'game'" in error.message
    assert "RUN" in str(error.context["step"])
    assert error.message.endswith(": it ended with status 7.")
    tail = str(error.context["log_tail"]).split("\n")
    assert tail[-1] == "red end"
    assert "line 100" in tail
    assert "line 1" not in tail
    assert "earlier" not in tail
    assert not await containers(engine, project.prefix)


@pytest.mark.parametrize(
    ("dockerfile", "words"),
    [
        ("FROM BASE\nRNU true\n", "RNU"),
        ("FROM BASE\nCOPY nothing /\n", "nothing"),
        ("FROM not!an!image\n", "not!an!image"),
        ("FROM BASE\nRUN --mount=type=nonsense true\n", "nonsense"),
    ],
)
async def test_a_dockerfile_the_engine_refuses(project: Project, dockerfile: str, words: str) -> None:
    project.compose("services: {game: {image: PREFIX/game, build: .}}")
    project.file("Dockerfile", dockerfile)
    project.template("{{GAME_IMAGE}}")
    error = await project.failing()
    assert type(error) is BuildError
    assert words in error.message


async def test_missing_base_image_is_named(project: Project) -> None:
    project.compose("services: {game: {image: PREFIX/game, build: .}}")
    project.file("Dockerfile", "ARG BASE_IMAGE=localhost:1/PREFIX/nothing:1\nFROM $BASE_IMAGE\n")
    project.template("{{GAME_IMAGE}}")
    error = await project.failing()
    assert (type(error), error.code) == (ImageError, "registry_unavailable")
    assert f"localhost:1/{project.prefix}/nothing:1" in error.message
    assert "build argument" in (error.hint or "")
    assert await project.build(build_args={"BASE_IMAGE": BASE})


async def test_key_that_is_not_read_is_named_when_the_build_fails(project: Project) -> None:
    project.compose("services: {game: {image: PREFIX/game, build: {context: ., additional_contexts: {base: x}}}}")
    project.file("Dockerfile", "FROM localhost:1/PREFIX/base\n")
    project.template("{{GAME_IMAGE}}")
    assert "`build.additional_contexts` is not read here" in (await project.failing()).message


async def test_missing_image_is_named(project: Project) -> None:
    project.compose("services: {game: {image: PREFIX/game, build: .}, other: {image: 'localhost:1/PREFIX/other'}}")
    project.file("Dockerfile", "FROM BASE\n")
    project.template("{{GAME_IMAGE}}", "{{OTHER_IMAGE}}")
    error = await project.failing()
    assert type(error) is ImageError
    assert f"localhost:1/{project.prefix}/other" in error.message


async def test_a_base_for_another_platform(project: Project) -> None:
    project.compose("services: {game: {image: PREFIX/game, build: .}}")
    project.file("Dockerfile", "FROM BASE\n")
    project.template("{{GAME_IMAGE}}")
    error = await project.failing(platform="linux/s390x")
    assert error.code == "image_wrong_platform"


@pytest.mark.parametrize("flag", ["", "--mount=type=tmpfs,target=/scratch "], ids=["classic", "buildkit"])
async def test_cancelling_ends_the_build_on_the_engine_too(project: Project, engine: Engine, flag: str) -> None:
    project.compose("services: {game: {image: PREFIX/game, build: .}}")
    # A step that neither prints nor ends
    seconds = f"1{secrets.randbelow(10**9):09}"
    project.file("Dockerfile", f"FROM BASE\nRUN {flag}sleep {seconds}\n")
    project.template("{{GAME_IMAGE}}")
    project.output.write_text("older", encoding="utf-8")

    async def sleeps() -> bool:
        return seconds in str([process.info["cmdline"] for process in psutil.process_iter(["cmdline"])])

    async def over() -> bool:
        return not await sleeps() and not await containers(engine, seconds)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(project.build)
        await until(sleeps)
        tasks.cancel_scope.cancel()
    assert project.output.read_text(encoding="utf-8") == "older"
    assert project.events[-1].model_dump()["status"] == "interrupted"
    await until(over)
    assert not any(tag.startswith(f"{project.prefix}/game") for tag in await tags(engine))


async def test_one_failure_ends_the_others(project: Project, engine: Engine) -> None:
    async def over() -> bool:
        return not await containers(engine, project.prefix)

    project.compose("services: {bad: {image: PREFIX/bad, build: bad}, slow: {image: PREFIX/slow, build: slow}}")
    project.file("bad/Dockerfile", "FROM BASE\nRUN : PREFIX; exit 3\n")
    project.file("slow/Dockerfile", "FROM BASE\nRUN : PREFIX; sleep 1000\n")
    project.template("{{BAD_IMAGE}}", "{{SLOW_IMAGE}}")
    error = await project.failing(parallel=2, no_cache=True)
    assert type(error) is BuildError
    assert "'bad'" in error.message
    await until(over)


# --- registries


@pytest.fixture
def registry(engine: Engine) -> Generator[Registry]:
    with serve_registry(Registry(platform=engine.platform)) as registry:
        yield registry


async def test_an_absent_image_is_pulled_and_tagged_by_content(project: Project, registry: Registry) -> None:
    image = f"{registry.address}/{project.prefix}/tool:1.0"
    project.compose(f"services: {{tool: {{image: '{image}'}}}}")
    project.template("{{TOOL_IMAGE}}", image)
    result = await project.build()
    found = result.images[image]
    assert result.manifest.images() == (f"{registry.address}/{project.prefix}/tool:coworld-{found.digest[7:19]}",)
    asked = len(registry.asked)
    # Here now, so it is not asked for again
    await project.build()
    assert len(registry.asked) == asked


async def test_images_of_a_registry_are_pinned_on_request(project: Project, registry: Registry) -> None:
    name = f"{registry.address}/{project.prefix}/tool"
    pinned = f"{name}@{registry.digest}"
    built = f"{registry.address}/{project.prefix}/game"
    project.compose(f"services: {{tool: {{image: '{name}:1.0'}}, game: {{image: '{built}', build: .}}}}")
    project.file("Dockerfile", "FROM BASE\n")
    project.template("{{TOOL_IMAGE}}", "{{GAME_IMAGE}}")
    result = await project.build(resolve_mutable=True)
    assert result.manifest.game.runnable.image == pinned
    # What is built here is not the registry's to name
    assert result.manifest.player[0].image.startswith(f"{built}:coworld-")
    # By digest it stays, with and without being asked
    project.template(pinned, "{{GAME_IMAGE}}")
    for resolve in (False, True):
        result = await project.build(resolve_mutable=resolve)
        assert result.manifest.game.runnable.image == pinned
    project.template(f"{name}:absent", "{{GAME_IMAGE}}")
    error = await project.failing(resolve_mutable=True)
    assert (type(error), error.code) == (ImageError, "image_unresolved")
    assert f"{name}:absent" in error.message


# --- the sample world


@pytest.mark.wheels
async def test_paint_arena_is_built_without_a_package_index(prefix: str, tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "paintarena"
    compose = tmp_path / "compose.yaml"
    compose.write_text(
        (example / "compose.yaml")
        .read_text("utf-8")
        .replace("image: paintarena:latest", f"image: {prefix}/paintarena:latest")
        .replace("context: .", f"context: {example}"),
        "utf-8",
    )
    result = await build_coworld(
        compose=compose,
        template=example / TEMPLATE_NAME,
        version="1.0.0",
        output=tmp_path / MANIFEST_NAME,
        build_args={"BASE_IMAGE": BASE, "PIP_NO_INDEX": "1"},
    )
    (image,) = result.images.values()
    assert result.manifest.images() == (image.reference,)
    assert load_manifest(tmp_path / MANIFEST_NAME, mode="strict").manifest.game.name == "paintarena"
