"""What a build is made of: the Dockerfile as far as it is read, the context that is sent, the trace that comes back."""

from __future__ import annotations

import base64
import io
import os
import socket
import tarfile
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import Buffer

from coworld_runner.backends.docker._buildkit import BuildkitTrace
from coworld_runner.images.build_context import ContextError, Ignore, SentContext, dockerfile_of, write_context
from coworld_runner.images.compose import Build
from coworld_runner.images.dockerfile import read_dockerfile

# --- Dockerfiles


def test_stages_and_images_of_a_dockerfile() -> None:
    read = read_dockerfile(
        """\
# syntax=docker/dockerfile:1
# escape=\\
ARG BASE=python:3.12-slim
ARG TAG=1 NAME="me/tools"
FROM --platform=linux/amd64 ${BASE} AS build
RUN echo one \\
    # a comment inside
    && echo FROM nowhere
COPY --from=${NAME}:$TAG /bin/tool /bin/
FROM scratch
COPY --from=build /x /x
COPY --from=0 /y /y
COPY --from=Build /z /z
from build as Last
ADD --from=other/image . .
"""
    )
    assert read.stages == ("build", "", "Last")
    assert read.images == ("python:3.12-slim", "me/tools:1", "other/image")
    assert read.buildkit == ""


def test_build_arguments_stand_for_those_before_the_first_from() -> None:
    text = "ARG BASE=a\nARG FULL=${BASE}:1\nFROM $FULL\nARG BASE=c\nFROM ${OTHER:-d}\n"
    assert read_dockerfile(text).images == ("a:1", "d")
    assert read_dockerfile(text, args={"BASE": "b"}).images == ("b:1", "d")
    assert read_dockerfile(text, args={"FULL": "f", "OTHER": "ignored: not declared"}).images == ("f", "d")


def test_stages_after_the_target_do_not_count() -> None:
    text = "FROM a AS one\nFROM b AS two\nFROM c\n"
    assert read_dockerfile(text, target="ONE").images == ("a",)
    assert read_dockerfile(text, target="1").images == ("a", "b")
    assert read_dockerfile(text, target="none").images == ("a", "b", "c")


@pytest.mark.parametrize(
    ("line", "feature"),
    [
        ("RUN --mount=type=cache,target=/c true", "RUN --mount"),
        ("RUN --network=none true", "RUN --network"),
        ("COPY --link a b", "COPY --link"),
        ("COPY --chown=1 --chmod=755 a b", "COPY --chmod"),
        ("ADD --checksum=sha256:0 http://x /x", "ADD --checksum"),
        ("RUN <<EOF\necho FROM nowhere\nEOF", "RUN with a here-document"),
        ("COPY <<-'A' <<B /x/\n\ttext\n\tA\nFROM nowhere\nB", "COPY with a here-document"),
        ("COPY --chown=1:1 a b", ""),
        ("RUN cat <<EOF", ""),
        ("RUN echo $((1<<A))", ""),
        ("CMD --mount", ""),
    ],
)
def test_buildkit_features_are_detected(line: str, feature: str) -> None:
    read = read_dockerfile(f"FROM a\n{line}\nFROM b\n")
    assert read.buildkit == feature
    assert read.images == ("a", "b")


def test_images_of_mounts() -> None:
    text = "FROM a AS s\nRUN --mount=type=bind,from=tools:1,target=/t --mount=from=s,target=/s true\n"
    assert read_dockerfile(text).images == ("a", "tools:1")


def test_an_escape_directive_and_windows_line_ends() -> None:
    read = read_dockerfile("# escape=`\r\nFROM a`\r\n  AS x\r\nRUN dir c:\\\r\nFROM b\r\n")
    assert (read.stages, read.images) == (("x", ""), ("a", "b"))


@given(st.text(alphabet="FROMARGRUN ab=$:{}<-\\\n#", max_size=80))
def test_any_text_can_be_read(text: str) -> None:
    read = read_dockerfile(text, args={"a": "b"}, target="a")
    assert all(read.images)


# --- .dockerignore


@pytest.mark.parametrize(
    ("patterns", "left_out", "kept"),
    [
        ("a", ["a", "a/b", "a/b/c"], ["b", "b/a", "aa"]),
        ("/a/", ["a", "a/b"], ["b/a"]),
        ("*.md", ["x.md"], ["a/x.md", "md"]),
        ("**/*.md", ["x.md", "a/x.md", "a/b/x.md"], ["a/md"]),
        ("**/a", ["a", "b/a", "b/c/a/d"], ["ba"]),
        ("a/**", ["a/b", "a/b/c"], ["a"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b/z"], ["a/x/bb"]),
        ("?", ["a", "b"], ["ab"]),
        ("[ab]", ["a", "b/c"], ["c"]),
        ("[^ab]", ["c"], ["a"]),
        ("a/*", ["a/b", "a/b/c"], ["a"]),
        ("\\*", ["*"], ["a"]),
        ("# comment\n\n  a  \n#a\nb", ["a", "b"], ["#a", "# comment"]),
        ("a\n!a/keep", ["a", "a/x"], ["a/keep", "a/keep/y"]),
        ("*\n!src\nsrc/tmp", ["x", "src/tmp", "src/tmp/y"], ["src", "src/a"]),
        ("*\n! src", ["x"], ["src"]),
        ("**/tmp\n!src", ["src/tmp", "src/tmp/x"], ["src", "src/a"]),
        ("Makefile", ["Makefile"], ["makefile"]),
        ("a/../b/./c", ["b/c"], ["a"]),
        (".", [], ["a", ".git"]),
        ("\ufeffa", ["a"], []),
        ("a.b$(c)", ["a.b$(c)"], ["aXb$(c)"]),
    ],
)
def test_dockerignore_patterns_match(patterns: str, left_out: list[str], kept: list[str]) -> None:
    ignore = Ignore(patterns)
    assert [path for path in left_out if not ignore.ignores(path)] == []
    assert [path for path in kept if ignore.ignores(path)] == []


def test_a_malformed_pattern_names_its_line() -> None:
    with pytest.raises(ContextError, match="line 2"):
        Ignore("a\n[b\n")
    with pytest.raises(ContextError, match="line 1"):
        Ignore("[z-a]")


# --- the archive


async def archive(build: Build) -> tuple[SentContext, dict[str, tarfile.TarInfo], tarfile.TarFile]:
    sink = io.BytesIO()
    sent = await anyio.to_thread.run_sync(write_context, build, sink)
    assert sent.size == len(sink.getvalue())
    sink.seek(0)
    opened = tarfile.open(fileobj=sink)  # noqa: SIM115
    return sent, {member.name: member for member in opened}, opened


def fill(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name, encoding="utf-8")


async def test_files_not_ignored_are_in_the_context(tmp_path: Path) -> None:
    fill(tmp_path, "Dockerfile", "a.txt", "src/one.py", "src/tmp/two.py", ".git/config", "deep/er/keep.md", "deep/er/x")
    (tmp_path / ".dockerignore").write_text(".git\nsrc/tmp\ndeep\n!**/keep.md\nDockerfile\n.dockerignore", "utf-8")
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "src" / "one.py").chmod(0o755)
    (tmp_path / "empty").mkdir()
    sent, members, opened = await archive(Build(context=tmp_path))
    assert set(members) == {
        "Dockerfile",
        ".dockerignore",
        "a.txt",
        "src",
        "src/one.py",
        "deep/er/keep.md",
        "link",
        "empty",
    }
    assert sent.dockerfile == "Dockerfile"
    assert sent.files == 5
    assert members["src/one.py"].mode & 0o777 == 0o755
    assert members["link"].issym()
    assert {(member.uid, member.gid, member.uname, member.gname) for member in members.values()} == {(0, 0, "", "")}
    content = opened.extractfile("a.txt")
    assert content is not None
    assert content.read() == b"a.txt"


async def test_the_same_files_give_the_same_archive(tmp_path: Path) -> None:
    fill(tmp_path / "one", "Dockerfile", "a", "b/c")
    fill(tmp_path / "two", "b/c", "a", "Dockerfile")
    listings = [(await archive(Build(context=tmp_path / name)))[1] for name in ("one", "two")]
    assert [*listings[0]] == [*listings[1]]


async def test_a_dockerfile_elsewhere_has_its_own_ignore_file(tmp_path: Path) -> None:
    fill(tmp_path, "ctx/a", "ctx/b", "ctx/docker/Game", "outside/Dockerfile")
    (tmp_path / "ctx/.dockerignore").write_text("a", "utf-8")
    (tmp_path / "ctx/docker/Game.dockerignore").write_text("b\ndocker", "utf-8")
    sent, members, _ = await archive(Build(context=tmp_path / "ctx", dockerfile="docker/Game"))
    assert sent.dockerfile == "docker/Game"
    assert set(members) == {"a", ".dockerignore", "docker/Game"}
    for build in (
        Build(context=tmp_path / "ctx", dockerfile="../outside/Dockerfile"),
        Build(context=tmp_path / "ctx", dockerfile=str(tmp_path / "outside/Dockerfile")),
        Build(context=tmp_path / "ctx", dockerfile_inline="FROM inline\n"),
    ):
        sent, members, opened = await archive(build)
        assert "a" not in members
        content = opened.extractfile(sent.dockerfile)
        assert content is not None
        assert content.read() == (b"FROM inline\n" if build.dockerfile_inline else b"outside/Dockerfile")


async def test_sockets_and_pipes_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, "Dockerfile")
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        _, members, _ = await archive(Build(context=tmp_path))
    assert set(members) == {"Dockerfile"}


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (Build(context=Path("nowhere")), "does not exist"),
        (Build(context=Path("Dockerfile")), "is not a directory"),
        (Build(context=Path(), dockerfile="Dockrfile"), "there is no"),
        (Build(context=Path(), dockerfile="binary"), "not UTF-8"),
        (Build(context=Path(), dockerfile="directory"), "cannot be read"),
    ],
)
def test_unreadable_context_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, build: Build, message: str
) -> None:
    fill(tmp_path, "Dockerfile", "directory/x")
    (tmp_path / "binary").write_bytes(b"\xff")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ContextError, match=message):
        dockerfile_of(build)


async def test_packing_stops_when_it_is_cancelled(tmp_path: Path) -> None:
    fill(tmp_path, "Dockerfile")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 36)  # Sparse: takes no room, and longer to read than any test may last

    taken = 0

    class Sink(io.BytesIO):
        def write(self, data: Buffer, /) -> int:
            nonlocal taken
            taken += memoryview(data).nbytes
            return memoryview(data).nbytes

    def pack() -> None:
        write_context(Build(context=tmp_path), Sink())

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, pack)
            while not taken:
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
    assert taken < 1 << 36


# --- BuildKit's trace


def message(*fields: tuple[int, bytes | int]) -> bytes:
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            out += varint(number << 3 | 2) + varint(len(value)) + value
    return out


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def encoded(*fields: tuple[int, bytes | int]) -> str:
    return base64.b64encode(message(*fields)).decode()


def test_a_trace_names_steps_and_gives_their_output_by_line() -> None:
    trace = BuildkitTrace()
    step = message((1, b"sha256:a"), (3, b"[2/3] RUN x"), (5, message((1, 1))))
    assert trace.take(encoded((1, message((1, b"sha256:b"), (3, b"waits"))), (1, step))) == [
        ("sha256:a", "[2/3] RUN x")
    ]
    assert trace.take(encoded((1, step))) == []
    log = [message((1, b"sha256:a"), (3, 1), (4, text)) for text in (b"one\ntw", "o\nthr\xe9".encode("latin-1"))]
    assert trace.take(encoded(*((3, entry) for entry in log))) == [("sha256:a", "one"), ("sha256:a", "two")]
    failed = message((1, b"sha256:a"), (3, b"[2/3] RUN x"), (5, b""), (7, b"exit code: 1"))
    assert trace.take(encoded((1, failed), (9, 300))) == [("sha256:a", "thr\N{REPLACEMENT CHARACTER}")]
    assert trace.failed == "sha256:a"


@given(st.binary(max_size=60))
def test_arbitrary_bytes_never_break_trace_parsing(data: bytes) -> None:
    trace = BuildkitTrace()
    assert isinstance(trace.take(base64.b64encode(data).decode()), list)
    assert trace.take("not base64!") == []
