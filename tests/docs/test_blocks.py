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
``<!-- needs: docker -->``     the block needs a Docker engine
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
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

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
        offline = {"BASE_IMAGE": "python-base:bookworm", "PIP_NO_INDEX": "1"}
        kept = {**offline, **kept}
    return {**kept, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}", "COLUMNS": "120"}


def docker_answers() -> bool:
    docker = shutil.which("docker")
    return docker is not None and subprocess.run([docker, "info"], capture_output=True, check=False).returncode == 0


def run_console(block: Block, where: str, cwd: Path) -> None:
    script = "\n".join(line.removeprefix("$ ") for line in block.text.splitlines())
    if "until" in block.notes:
        run_until(script, block.notes["until"], where, cwd)
        return
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=cwd,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    wanted = int(block.notes.get("exit", "0"))
    assert done.returncode == wanted, f"{where}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"


def run_until(script: str, pattern: str, where: str, cwd: Path) -> None:
    output = cwd / ".output"
    with output.open("wb") as sink:
        process = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", f"exec {script}"],
            cwd=cwd,
            env=environment(),
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
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) in (0, 130), f"{where}: exit {process.returncode}\n{output.read_text()}"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def page_id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip = shutil.ignore_patterns("results", "__pycache__", ".venv", "dist", "coworld_manifest.json")
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=skip)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__page__"}
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for block in blocks(page):
        where = f"{page_id(page)}:{block.line}"
        if "needs" in block.notes and block.notes["needs"] == "docker" and not docker_answers():
            if os.environ.get("CI") == "true":
                pytest.fail(f"{where}: no Docker engine answers")
            pytest.skip(f"{where}: no Docker engine answers")
        if "file" in block.notes:
            target = tmp_path / block.notes["file"]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text, encoding="utf-8")
        elif "ci" in block.notes:
            for line in block.text.splitlines():
                command = re.sub(r"\s+#.*$", "", line).strip()
                assert command in ci, f"{where}: {command!r} does not stand in .ci/run"
        elif block.language == "console":
            run_console(block, where, tmp_path)
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
    }
    assert wanted <= {page.name for page in (ROOT / "docs").glob("*.md")}


def test_links_between_pages_lead_somewhere() -> None:
    broken: list[str] = []
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page_id(page)} -> {target}")
    assert not broken
