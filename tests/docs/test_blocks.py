"""Every fenced block of the documentation is executed, page by page, as a reader would go through it.

A page runs in a directory of its own that holds a copy of ``examples``. Its blocks run in order:

========================  ============================================================================
```` ```console ````      each line in bash; stops at the first that fails
```` ```python ````       in one interpreter state a page, like a notebook
```` ```json ````, yaml   parsed
anything else, or none    shown only, so it must not be a command
========================  ============================================================================

A comment right above a block changes that:

``<!-- file: NAME -->``        the block is the content of a file, which is written
``<!-- exit: N -->``           the commands end with status N
``<!-- until: TEXT -->``       the command is interrupted with Ctrl-C once its output has TEXT, and must then end well
``<!-- background: TEXT -->``  the command runs on until the page ends; the page goes on once its output has TEXT
``<!-- export -->``            ``export NAME=VALUE`` lines, which hold for the rest of the page
``<!-- needs: docker -->``     the block needs a Docker engine (``kubernetes``: a cluster that uses its images)
``<!-- ci -->``                the lines stand in ``.ci/run`` and are executed there, from a clean clone
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        ROOT / "README.md",
        *(ROOT / "docs").rglob("*.md"),
        *ROOT.glob("coworld_*/README.md"),
        *ROOT.glob("examples/*/README.md"),
    ]
)
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[\w-]*)[^\n]*\n(?P<text>.*?)^(?P=indent)```", re.MULTILINE | re.DOTALL
)
COMMENT = re.compile(r"<!--\s*(?P<key>[a-z]+)(?::\s*(?P<value>.*?))?\s*-->\s*$")
COMMANDS = re.compile(r"^\s*(\$ )?(coworld|uv|pip|python3?|docker) ", re.MULTILINE)


@dataclass
class Block:
    line: int
    language: str
    text: str
    notes: dict[str, str] = field(default_factory=dict)


def blocks(page: Path) -> Iterator[Block]:
    content = page.read_text(encoding="utf-8")
    for match in FENCE.finditer(content):
        notes: dict[str, str] = {}
        above = content[: match.start()].rstrip("\n").split("\n")
        while above and (note := COMMENT.search(above[-1].strip())):
            notes[note["key"]] = note["value"] or ""
            above.pop()
        text = "".join(line.removeprefix(match["indent"]) for line in match["text"].splitlines(keepends=True))
        yield Block(content.count("\n", 0, match.start()) + 1, match["language"], text, notes)


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COWORLD_")}
    if (ROOT / "examples/paintarena/wheels").is_dir():
        # where images cannot be pulled nor packages fetched, the sample's image is built from what is here
        base = "python-base:bookworm"
        offline = {"BASE_IMAGE": base, "PIP_NO_INDEX": "1", "COWORLD_COLLECTOR_IMAGE": base}
        kept = {**offline, **kept}
    return {**kept, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}", "COLUMNS": "120"}


def docker_answers() -> bool:
    docker = shutil.which("docker")
    return docker is not None and subprocess.run([docker, "info"], capture_output=True, check=False).returncode == 0


def cluster_answers() -> bool:
    kubectl = shutil.which("kubectl")
    asked = [str(kubectl), "get", "--raw", "/readyz", "--request-timeout=10s"]
    return kubectl is not None and subprocess.run(asked, capture_output=True, check=False).returncode == 0


def run_console(block: Block, where: str, cwd: Path, exported: Mapping[str, str]) -> None:
    script = "\n".join(line.removeprefix("$ ") for line in block.text.splitlines())
    if "until" in block.notes:
        run_until(script, block.notes["until"], where, cwd, exported)
        return
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=cwd,
        env={**environment(), **exported},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    wanted = int(block.notes.get("exit", "0"))
    assert done.returncode == wanted, f"{where}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"


def run_until(script: str, pattern: str, where: str, cwd: Path, exported: Mapping[str, str]) -> None:
    with running(script, pattern, where, cwd, exported):
        pass


@contextmanager
def running(script: str, pattern: str, where: str, cwd: Path, exported: Mapping[str, str]) -> Iterator[None]:
    """A command that has written a text, runs while the context is open, and ends well when it is interrupted."""
    output = cwd / f".output-{time.monotonic_ns()}"
    with output.open("wb") as sink:
        process = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", f"exec {script}"],
            cwd=cwd,
            env={**environment(), **exported},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            deadline = time.monotonic() + 120
            while pattern not in output.read_text(encoding="utf-8", errors="replace"):
                assert process.poll() is None, f"{where}: ended\n{output.read_text()}"
                assert time.monotonic() < deadline, f"{where}: {pattern!r} never came\n{output.read_text()}"
                time.sleep(0.05)
            yield
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) in (0, 130), f"{where}: exit {process.returncode}\n{output.read_text()}"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def page_id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.timeout(600)
def needing(page: Path) -> Any:
    """A page, marked for what its blocks need."""
    cluster = any(block.notes.get("needs") == "kubernetes" for block in blocks(page))
    return pytest.param(page, id=page_id(page), marks=[pytest.mark.kubernetes] if cluster else [])


@pytest.mark.parametrize("page", [needing(page) for page in PAGES])
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip = shutil.ignore_patterns("results", "__pycache__", ".venv", "dist", "coworld_manifest.json")
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=skip)
    monkeypatch.chdir(tmp_path)
    # who signs in on a page is signed in there
    monkeypatch.setenv("SOFTMAX_CONFIG_DIR", str(tmp_path / ".credentials"))
    with ExitStack() as background:
        run_page(page, tmp_path, background)


def run_page(page: Path, tmp_path: Path, background: ExitStack) -> None:
    names: dict[str, object] = {"__name__": "__page__"}
    exported: dict[str, str] = {}
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for block in blocks(page):
        where = f"{page_id(page)}:{block.line}"
        needs = block.notes.get("needs")
        if (needs == "docker" and not docker_answers()) or (needs == "kubernetes" and not cluster_answers()):
            lacks = f"{where}: no {'Docker engine' if needs == 'docker' else 'cluster'} answers"
            if os.environ.get("CI") == "true":
                pytest.fail(lacks)
            pytest.skip(lacks)
        if "export" in block.notes:
            exported |= dict(line.removeprefix("export ").split("=", 1) for line in block.text.split("\n") if line)
        elif "file" in block.notes:
            target = tmp_path / block.notes["file"]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text, encoding="utf-8")
        elif "ci" in block.notes:
            for line in block.text.splitlines():
                command = re.sub(r"\s+#.*$", "", line).strip()
                assert command in ci, f"{where}: {command!r} does not stand in .ci/run"
        elif "background" in block.notes:
            background.enter_context(running(block.text, block.notes["background"], where, tmp_path, exported))
        elif block.language == "console":
            run_console(block, where, tmp_path, exported)
        elif block.language == "python":
            code = compile("\n" * block.line + block.text, str(page), "exec")
            exec(code, names)
        elif block.language == "json":
            json.loads(block.text)
        elif block.language in ("yaml", "yml"):
            yaml.safe_load(block.text)
        else:
            assert block.language not in ("bash", "sh", "shell"), f"{where}: write ```console, so that it is executed"
            if not block.language:
                assert not COMMANDS.search(block.text), f"{where}: a command in a block that is not executed"


def test_the_site_has_its_pages() -> None:
    wanted = {
        "start-here.md",
        "write-a-player.md",
        "write-a-game.md",
        "manifest.md",
        "runtime-contract.md",
        "backends.md",
        "exit-codes.md",
        "platform.md",
    }
    assert wanted <= {page.name for page in (ROOT / "docs").glob("*.md")}


def test_links_between_pages_lead_somewhere() -> None:
    broken: list[str] = []
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page_id(page)} -> {target}")
    assert not broken
