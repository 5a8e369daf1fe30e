"""Local processes of a package that its Dockerfile lays out: what runs in the image runs here, from the same files."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from coworld_core.episode.outcome import Exit
from coworld_core.errors import NotReadyError, StartError
from coworld_core.ids import new_run_id
from coworld_runner.backend import HttpProbe, Port, UnitSpec
from coworld_runner.backends.process import ProcessBackend
from coworld_runner.backends.process._image_layout import ImageLayout, layout_of
from coworld_runner.errors import OWN_DOING
from coworld_runner.images.compose import Build, contexts_for, load_compose
from coworld_runner.images.dockerfile import read_dockerfile
from coworld_runner.runs.scratch import make_scratch

SRC = """FROM python:3.12 AS build
WORKDIR /src
COPY pyproject.toml ./
COPY src ./src
FROM python:3.12
ARG MODE=fast
ENV PYTHONPATH=/app/src MODE=$MODE PATH=/opt/venv/bin:$PATH
WORKDIR /app
COPY --from=build /src/src /app/src
COPY data/*.txt data/
CMD ["python", "-m", "arena.server"]
"""
ROOT = """FROM python:3.12
WORKDIR /app
COPY . .
CMD python server.py
"""
PIECES = """FROM python:3.12
COPY player.py helper.py /app/
COPY assets /app/assets
COPY more /app/assets
ENV ASSETS /app/assets
"""


def package(tmp_path: Path, dockerfile: str) -> Path:
    root = tmp_path / "package"
    for name in ("src/arena/server.py", "data/words.txt", "server.py", "player.py", "helper.py", "assets/a", "more/b"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"print('{name}')\n")
    (root / "pyproject.toml").touch()
    (root / "Dockerfile").write_text(dockerfile)
    return root


def laid(tmp_path: Path, dockerfile: str) -> ImageLayout:
    layout, trouble = layout_of(Build(context=package(tmp_path, dockerfile)))
    assert (layout is not None, trouble) == (True, "")
    assert layout is not None
    return layout.put(tmp_path / "image")


def test_a_package_below_src(tmp_path: Path) -> None:
    image = laid(tmp_path, SRC)
    assert image.workdir == tmp_path / "image" / "app"
    assert image.env == {"PYTHONPATH": str(image.root / "app/src"), "MODE": "fast"}
    assert (image.root / "app/src/arena/server.py").read_text() == "print('src/arena/server.py')\n"
    assert (image.root / "app/data/words.txt").resolve() == tmp_path / "package/data/words.txt"
    assert not (image.root / "app/server.py").exists()


def test_a_project_that_a_build_step_would_install(tmp_path: Path) -> None:
    image = laid(
        tmp_path, "FROM python:3.12\nENV PYTHONPATH=/more\nWORKDIR /it\nCOPY . .\nRUN pip install .\nWORKDIR /\n"
    )
    assert image.env["PYTHONPATH"] == f"/more:{tmp_path / 'package/src'}"


def test_modules_at_the_root_of_the_repository(tmp_path: Path) -> None:
    image = laid(tmp_path, ROOT)
    assert image.workdir is not None
    assert (image.workdir / "server.py").resolve() == tmp_path / "package/server.py"
    assert image.argv(["python", "server.py"]) == ("python", "server.py")


def test_a_command_that_names_a_place_in_the_image(tmp_path: Path) -> None:
    image = laid(tmp_path, PIECES)
    assert image.workdir is None
    place = image.root / "app" / "player.py"
    assert image.argv(["python", "/app/player.py", "/etc/hosts", "/app/no"]) == (
        "python",
        str(place),
        "/etc/hosts",
        "/app/no",
    )
    assert sorted(path.name for path in (image.root / "app/assets").iterdir()) == ["a", "b"]
    assert sorted(path.name for path in (tmp_path / "package/assets").iterdir()) == ["a"]
    assert image.env == {"ASSETS": str(image.root / "app/assets")}


def test_unreadable_dockerfile_line_is_reported(tmp_path: Path) -> None:
    root = package(tmp_path, "FROM python:3.12\nCOPPY . .\n")
    layout, trouble = layout_of(Build(context=root))
    assert layout is None
    assert f"{root / 'Dockerfile'}:2: There is no instruction COPPY. Did you mean COPY?" in trouble
    assert layout_of(Build(context=tmp_path)) == (None, "")


async def test_dockerfile_problem_is_reported_by_check(tmp_path: Path) -> None:
    root = package(tmp_path, "FROM python:3.12\nCOPPY . .\n")
    issues = await ProcessBackend(contexts={"image": root}).check()
    assert [issue.code for issue in issues if issue.severity == "warning"] == ["dockerfile_invalid"]


def test_nothing_above_the_context_is_copied(tmp_path: Path) -> None:
    image = laid(tmp_path, "FROM a\nCOPY ../secret /app/\nCOPY player.py /../../outside\n")
    assert not (tmp_path / "outside").exists()
    assert (image.root / "outside").is_symlink()


@pytest.mark.parametrize(
    ("lines", "copies"),
    [
        ("COPY a b", ((("a",), "/b"),)),
        ("WORKDIR x\nCOPY a b/ ./", ((("a", "b/"), "/x/"),)),
        ('COPY --chown=1:1 ["a b", "/c"]', ((("a b",), "/c"),)),
        ("ADD https://example.org/a /a", ()),
        ("COPY a", ()),
        ("COPY --from=alpine /a /b", ()),
        ("COPY d /d\nFROM b\nCOPY --from=0 /d/e/f /f", ((("d/e/f",), "/f"),)),
        ("COPY d /d/\nFROM b\nCOPY --from=0 / /", ((("d",), "/d/"),)),
    ],
)
def test_copy_instructions_are_read(lines: str, copies: object) -> None:
    assert read_dockerfile(f"FROM a\n{lines}\n").copies == copies


def test_a_package_without_a_compose_file_runs_from_its_dockerfile(tmp_path: Path) -> None:
    root = package(tmp_path, ROOT)
    contexts = contexts_for(root, ["{{GAME_IMAGE}}", "bot:latest", "ghcr.io/someone/bot:1"])
    assert dict(contexts) == {"{{GAME_IMAGE}}": root, "bot:latest": root}
    assert dict(contexts_for(root, ["ghcr.io/me/game:1"])) == {"ghcr.io/me/game:1": root}


@pytest.mark.parametrize("source", [".", "./", "./bot.py"])
def test_a_part_that_copies_its_whole_directory(source: str, tmp_path: Path) -> None:
    (tmp_path / "bot").mkdir()
    (tmp_path / "bot" / "bot.py").write_text("")
    (tmp_path / "bot" / "Dockerfile").write_text(f"FROM python:3.12\nCOPY {source} /app/\n")
    assert contexts_for(tmp_path, ["bot:latest"])["bot:latest"] == tmp_path / "bot"


COMPOSE = """services:
  game: {build: {context: ., dockerfile: docker/game.Dockerfile, target: run, args: {KIND: fast}}}
  player: {build: {dockerfile_inline: "FROM python:3.12\\nWORKDIR /bot\\nCOPY player.py .\\nCMD python player.py"}}
"""


def test_the_dockerfile_that_compose_names_is_the_one_that_counts(tmp_path: Path) -> None:
    root = package(tmp_path, "FROM a\nCMD the wrong one\n")
    (root / "docker").mkdir()
    text = "FROM python:3.12 AS run\nARG KIND=slow\nENV KIND=$KIND\nCOPY server.py /srv/\nCMD python /srv/server.py\n"
    (root / "docker/game.Dockerfile").write_text(text + "FROM run AS test\nCMD pytest\n")
    (root / "compose.yaml").write_text(COMPOSE)
    contexts = load_compose(root / "compose.yaml").contexts()
    for image, command, env in (
        ("{{GAME_IMAGE}}", ("python", "/srv/server.py"), {"KIND": "fast"}),
        ("package-game:coworld-1234", ("python", "/srv/server.py"), {"KIND": "fast"}),
        ("{{PLAYER_IMAGE}}", ("python", "player.py"), {}),
    ):
        build = contexts.build(image)
        assert build is not None
        layout, trouble = layout_of(build)
        assert layout is not None, trouble
        assert (layout.command, layout.read.env) == (command, env)
    assert contexts.build("elsewhere") is None
    (root / "docker/game.Dockerfile").unlink()
    gone = contexts.build("{{GAME_IMAGE}}")
    assert gone is not None
    assert "game.Dockerfile cannot be read" in layout_of(gone)[1]


NODE = """FROM node:22-slim AS deps
WORKDIR /srv/bot
COPY package*.json ./
RUN npm ci
FROM node:22-slim
ENV BOT_DATA=/srv/bot/data
WORKDIR /srv/bot
COPY --from=deps /srv/bot/node_modules ./node_modules
COPY lib/ lib/
COPY data ./data
ENTRYPOINT ["node"]
CMD ["/srv/bot/lib/bot.mjs", "fast"]
"""
BOT = """import { readFileSync } from "node:fs";
import { how } from "./how.mjs";
console.log(readFileSync(`${process.env.BOT_DATA}/words.txt`, "utf8").trim(), how, process.argv[2]);
"""
NATIVE = """FROM rust:1 AS build
WORKDIR /src
COPY . .
RUN cargo build --release
FROM debian:bookworm-slim
ENV MODEL=/usr/local/share/bot/model.txt
COPY --from=build /src/target/release/bot /usr/local/bin/native-bot
COPY model.txt /usr/local/share/bot/
CMD ["/usr/local/bin/native-bot", "MODEL"]
"""


def node_package(root: Path) -> None:
    for name, text in {
        "lib/bot.mjs": BOT,
        "lib/how.mjs": "export const how = 'and';",
        "data/words.txt": "ready",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "Dockerfile").write_text(NODE)


def native_package(root: Path) -> None:
    """One that was built on this machine, too; the program is that of `cat`."""
    (root / "target" / "release").mkdir(parents=True)
    shutil.copy(shutil.which("cat") or "/bin/cat", root / "target" / "release" / "bot")
    (root / "model.txt").write_text("a model\n")
    (root / "Dockerfile").write_text(NATIVE.replace('"MODEL"', '"/usr/local/share/bot/model.txt"'))


async def run(root: Path, log: Path) -> Exit:
    """Run the command of a package's image."""
    with make_scratch(new_run_id()) as scratch:
        spec = UnitSpec(
            run_id=scratch.run_id,
            name="unit",
            component="player",
            image="image",
            directory=scratch.directory("unit"),
            stdout=log,
        )
        with anyio.fail_after(60):
            async with (
                ProcessBackend(contexts={"image": root}) as backend,
                backend.units([spec], publish=lambda _: None) as [unit],
            ):
                return await unit.wait()


@pytest.mark.parametrize(
    ("write", "says"),
    [
        pytest.param(node_package, "ready and fast\n", id="node", marks=pytest.mark.node),
        pytest.param(native_package, "a model\n", id="native"),
    ],
)
async def test_programs_that_are_not_python_run_here(write: Callable[[Path], None], says: str, tmp_path: Path) -> None:
    write(tmp_path)
    ended = await run(tmp_path, tmp_path / "log")
    assert ((tmp_path / "log").read_text(), ended.code) == (says, 0)


def unbuilt(program: Path) -> None:
    program.unlink()


def not_executable(program: Path) -> None:
    program.chmod(0o644)


def of_another_machine(program: Path) -> None:
    program.write_bytes(b"\x7fELF" + bytes(60))


@pytest.mark.parametrize(
    ("spoil", "code", "words", "hint"),
    [
        (unbuilt, "program_missing", "its Dockerfile copies /usr/local/bin/native-bot", "build it there"),
        (not_executable, "command_failed", "Permission denied", "chmod +x"),
        (of_another_machine, "command_failed", "Exec format error", "another architecture"),
    ],
)
async def test_unrunnable_program_is_its_own_fault(
    spoil: Callable[[Path], None], code: str, words: str, hint: str, tmp_path: Path
) -> None:
    native_package(tmp_path)
    program = tmp_path / "target" / "release" / "bot"
    spoil(program)
    with pytest.raises(StartError, match=words) as caught:
        await run(tmp_path, tmp_path / "log")
    assert caught.value.code == code
    assert str(program) in caught.value.message
    assert hint in (caught.value.hint or "")
    assert code in OWN_DOING


async def test_the_commands_of_an_image_run_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = package(tmp_path, PIECES + "CMD python /app/player.py\n")
    code = "import os, helper; print(os.environ['ASSETS'], os.environ['PYTHONPATH'])\n"
    (root / "player.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert (await run(root, tmp_path / "log")).ok, (tmp_path / "log").read_text()
    helper, told = (tmp_path / "log").read_text().splitlines()
    assert helper == "helper.py"
    assert told.endswith(f"/unit-image/app/assets {tmp_path}")


ES_MODULES = """FROM node:22
WORKDIR /app
COPY package.json server/*.js ./
COPY server/rules ./rules
CMD ["node", "server.js"]
"""
MAIN = """import { pathToFileURL } from "node:url";
import { greeting } from "./rules/words.js";
if (import.meta.url === pathToFileURL(process.argv[1]).href) console.log(greeting);
"""


@pytest.mark.parametrize("other_disk", [False, True])
@pytest.mark.node
async def test_a_module_of_node_finds_itself_and_what_lies_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other_disk: bool
) -> None:
    root = tmp_path / "package"
    (root / "server/rules").mkdir(parents=True)
    (root / "Dockerfile").write_text(ES_MODULES)
    (root / "package.json").write_text('{"type": "module"}')
    (root / "server/server.js").write_text(MAIN)
    (root / "server/rules/words.js").write_text('export const greeting = "it runs";\n')
    if other_disk:

        def refuse(*_: object, **__: object) -> None:
            raise OSError(errno.EXDEV, "another disk")

        monkeypatch.setattr(os, "link", refuse)
    assert (await run(root, tmp_path / "log")).ok
    assert (tmp_path / "log").read_text() == "it runs\n"


INSTALLS = """FROM python:3.12
WORKDIR /app
RUN pip install --no-cache-dir -r requirements.txt && python -m pip install -i https://example.com \\
    "uvicorn[standard]==0.30" fastapi
COPY server.py .
CMD ["python", "server.py"]
"""


@pytest.mark.parametrize(
    ("dockerfile", "program", "hint"),
    [
        (INSTALLS, "import a_library_of_theirs", "installs -r requirements.txt uvicorn[standard]==0.30 fastapi), pass"),
        (ROOT, "import a_library_of_theirs", "has no a_library_of_theirs: install it there"),
        (INSTALLS, "raise SystemExit(3)", "log"),
        (INSTALLS, "print('done')", "Status 0 says"),
    ],
)
async def test_what_a_program_lacks_is_named_before_it_is_ready(
    tmp_path: Path, dockerfile: str, program: str, hint: str
) -> None:
    root = package(tmp_path, dockerfile)
    (root / "server.py").write_text(program)
    with make_scratch(new_run_id()) as scratch:
        spec = UnitSpec(
            run_id=scratch.run_id,
            name="game",
            component="game",
            image="image",
            directory=scratch.directory("game"),
            stdout=tmp_path / "log",
            ports=(Port(name="http"),),
        )
        async with (
            ProcessBackend(contexts={"image": root}) as backend,
            backend.units([spec], publish=lambda _: None) as [unit],
        ):
            with pytest.raises(NotReadyError) as caught:
                await unit.wait_ready(HttpProbe(timeout=60))
    assert hint in (caught.value.hint or "")
    assert "context[" not in (caught.value.hint or "")
