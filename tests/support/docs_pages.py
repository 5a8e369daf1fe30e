"""Executes every fenced block of the documentation, page by page, as a reader would.

A page runs in its own directory, which contains a copy of `examples`, and as a person of its own, whose registry, index
of runs and credentials are empty at first. Its blocks run in order:

========================  ============================================================================
```` ```console ````      each line in bash; stops at the first that fails
```` ```kubectl ````      the same, in a namespace of the page's own instead of `arena`, if the block needs a cluster
```` ```python ````       in one interpreter state per page, like a notebook, with top-level `await`
```` ```json ````, yaml   parsed
anything else, or none    shown only, so it must not be a command
========================  ============================================================================

A comment right above a block changes that:

`<!-- file: NAME -->`        the block is the content of a file, which is written
`<!-- exit: N -->`           the commands end with status N
`<!-- says: TEXT -->`        their output has TEXT; with `exit`, so that they fail as the page says and not otherwise
`<!-- until: TEXT -->`       the command is interrupted with Ctrl-C once its output has TEXT, and must then end well
`<!-- background: TEXT -->`  the command runs until the page ends; the page continues once its output has TEXT
`<!-- instead -->`           with `background`: ends earlier background commands first
`<!-- export -->`            `export NAME=VALUE` lines, which apply to the rest of the page
`<!-- needs: docker -->`     the block needs a Docker engine (`kubernetes`: a cluster that uses its images;
                            `postgresql`, `s3`: a server for this page, with the variables that point to it), and
                            so the page has that mark (`support.needs`); one of
                            `LIBRARIES`: that library, without which the whole page is left to another run
`<!-- as: ACCOUNT -->`       from here on, with that service account's token instead of an administrator's
`<!-- ci -->`                the lines are in `.ci/run` and are executed there, from a clean clone

A page that serves an Observatory does so at the usual address; the tests replace that by a separate port for each page,
so that pages can run side by side.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from coworld_runner.backends.base import choose_port

from .cli_kit import stand_ins
from .needs import NEEDS
from .postgres import running_postgres
from .waiting import wait_until

__all__ = [
    "PAGES",
    "ROOT",
    "become_somebody",
    "blocks",
    "execute",
    "lacks_library",
    "needing",
    "page_id",
    "serves_a_platform",
]

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
LIBRARIES = {
    "openspiel": "pyspiel",
    "textarena": "textarena",
    "mettagrid": "mettagrid",
    "torch": "torch",
    "sb3": "sb3_contrib",
    "torchrl": "torchrl",
    "ray": "ray",
}
"""Modules of libraries that are not installed with our packages."""
PROGRAMS = Path(sys.executable).parent
USUAL_PORT = "8787"
_PAGE_NAMESPACE = "arena"
COMMANDS = re.compile(r"^\s*(\$ )?(coworld|uv|pip|python3?|docker) ", re.MULTILINE)


@dataclass
class Block:
    line: int
    language: str
    text: str
    notes: dict[str, str] = field(default_factory=dict[str, str])


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
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("COWORLD_", "OBSERVATORY_"))}
    if (ROOT / "examples/paintarena/wheels").is_dir():
        # Without access to images and packages, the sample's image is built from local ones.
        base = "python-base:bookworm"
        offline = {"BASE_IMAGE": base, "PIP_NO_INDEX": "1", "COWORLD_COLLECTOR_IMAGE": base}
        # Packages built on a page use the tools of this environment.
        offline |= {"UV_NO_BUILD_ISOLATION": "1"}
        kept = {**offline, **kept}
    return {**kept, "COLUMNS": "120"}


@contextmanager
def running_s3() -> Generator[dict[str, str]]:
    """Run an S3 server with a bucket `artifacts`; yields the variables that point to it."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        address = f"http://{host}:{port}"
        with urllib.request.urlopen(urllib.request.Request(f"{address}/artifacts", method="PUT")):
            yield {
                "AWS_ACCESS_KEY_ID": "key",
                "AWS_SECRET_ACCESS_KEY": "secret",
                "AWS_DEFAULT_REGION": "us-east-1",
                "AWS_ENDPOINT_URL": address,
            }
    finally:
        server.stop()


@contextmanager
def own_kubeconfig() -> Generator[dict[str, str]]:
    """A copy of the cluster's kubeconfig, which a page may change, and the page's namespace, removed at the end."""
    from .kube import kubeconfig_with

    with TemporaryDirectory() as directory:
        namespace = f"coworld-docs-{secrets.token_hex(4)}"
        path = kubeconfig_with(Path(directory), lambda _: None)
        try:
            yield {"KUBECONFIG": str(path), "PAGE_NAMESPACE": namespace}
        finally:
            words = ["kubectl", "delete", "namespace", namespace, "--wait=false"]
            subprocess.run(words, check=False, capture_output=True)


def provide(need: str, background: ExitStack) -> dict[str, str]:
    """Provide what a block needs until the page ends, and return variables for it; `needing` marks its page."""
    if need == "s3":
        return background.enter_context(running_s3())
    if need == "kubernetes":
        return background.enter_context(own_kubeconfig())
    if need == "postgresql":
        return {"DATABASE_URL": background.enter_context(running_postgres()).format(name="postgres")}
    assert need in NEEDS or need in LIBRARIES, f"nothing provides {need!r}"
    return {}


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
    output = " ".join((done.stdout + done.stderr).split())
    assert block.notes.get("says", "") in output, f"{where}: says something else\n{done.stdout}\n{done.stderr}"


def run_until(script: str, pattern: str, where: str, cwd: Path, exported: Mapping[str, str]) -> None:
    with running(script, pattern, where, cwd, exported):
        pass


@contextmanager
def running(script: str, pattern: str, where: str, cwd: Path, exported: Mapping[str, str]) -> Generator[None]:
    """Run a command, and enter the context once it has printed a text; afterwards it must end well on Ctrl-C."""
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

            def printed() -> bool:
                if pattern in output.read_text(encoding="utf-8", errors="replace"):
                    return True
                assert process.poll() is None, f"{where}: ended\n{output.read_text()}"
                return False

            wait_until(printed, seconds=120, what=lambda: f"{where}: {pattern!r}\n{output.read_text()}", every=0.05)
            yield
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) in (0, 130), f"{where}: exit {process.returncode}\n{output.read_text()}"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def page_id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def serves_a_platform(page: Path) -> bool:
    """Whether a page starts an Observatory."""
    return any("background" in block.notes and block.text.startswith("observatory") for block in blocks(page))


def lacks_library(page: Path) -> bool:
    """Whether a page needs a library that is not installed; `.ci/run` has a step for each library."""
    missing = {need for need, module in LIBRARIES.items() if not find_spec(module)}
    return any(block.notes.get("needs") in missing for block in blocks(page))


def needing(page: Path) -> Any:
    """A test parameter for a page, with the marks of what its blocks need of a machine."""
    needs = {block.notes.get("needs", "") for block in blocks(page)}
    marks = [getattr(pytest.mark, name) for name in NEEDS if name in needs]
    return pytest.param(page, id=page_id(page), marks=marks)


def become_somebody(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give what runs from here on a home of its own: what one page publishes must not be there on the next.

    Installers, engines and browsers keep the caches and settings of the machine.
    """
    machine = Path.home()
    caches = Path(os.environ.get("XDG_CACHE_HOME") or machine / ".cache")
    kept = {
        "XDG_CONFIG_HOME": machine / ".config",
        "UV_CACHE_DIR": caches / "uv",
        "PIP_CACHE_DIR": caches / "pip",
        "PLAYWRIGHT_BROWSERS_PATH": caches / "ms-playwright",
        "UV_PYTHON_INSTALL_DIR": machine / ".local" / "share" / "uv" / "python",
        "DOCKER_CONFIG": machine / ".docker",
        "KUBECONFIG": machine / ".kube" / "config",
    }
    for name, place in kept.items():
        if not os.environ.get(name) and place.exists():
            monkeypatch.setenv(name, str(place))
    own = {
        "HOME": home,
        "XDG_CACHE_HOME": home / ".cache",
        "XDG_DATA_HOME": home / ".local" / "share",
        "XDG_STATE_HOME": home / ".local" / "state",
        "SOFTMAX_CONFIG_DIR": home / ".softmax",
    }
    home.mkdir()
    for name, place in own.items():
        monkeypatch.setenv(name, str(place))


def execute(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Execute a page in its own directory."""
    skip = shutil.ignore_patterns("results", "__pycache__", ".venv", "dist", "coworld_manifest.json")
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=skip)
    shutil.copytree(ROOT / "docs" / "kubernetes", tmp_path / "docs" / "kubernetes")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, (stand_ins(tmp_path / ".bin"), PROGRAMS, os.environ["PATH"]))))
    become_somebody(tmp_path / ".home", monkeypatch)
    with ExitStack() as background:
        run_page(page, tmp_path, background)


def run_page(page: Path, tmp_path: Path, background: ExitStack) -> None:
    names: dict[str, object] = {"__name__": "__page__"}
    servers = background.enter_context(ExitStack())
    provided: set[str] = set()
    port = choose_port()
    background.callback(port.close)
    exported = {"OBSERVATORY_PORT": str(port.number)}
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for block in blocks(page):
        where = f"{page_id(page)}:{block.line}"
        block.text = block.text.replace(f"127.0.0.1:{USUAL_PORT}", f"127.0.0.1:{port.number}")
        if (needs := block.notes.get("needs")) and needs not in provided:
            provided.add(needs)
            exported |= provide(needs, background)
        if namespace := exported.get("PAGE_NAMESPACE"):
            block.text = re.sub(rf"\b{_PAGE_NAMESPACE}\b", namespace, block.text)
        if account := block.notes.get("as"):
            from .kube import kubeconfig_of

            assert namespace, f"{where}: a block above needs a cluster"
            exported["KUBECONFIG"] = str(kubeconfig_of(account, namespace, Path(exported["KUBECONFIG"]).parent))
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
            if "instead" in block.notes:
                servers.close()
            servers.enter_context(running(block.text, block.notes["background"], where, tmp_path, exported))
        elif block.language == "console" or (block.language == "kubectl" and namespace):
            run_console(block, where, tmp_path, exported)
        elif block.language == "python":
            code = compile("\n" * block.line + block.text, str(page), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            waits = eval(code, names)
            if inspect.iscoroutine(waits):
                asyncio.run(waits)
        elif block.language == "json":
            json.loads(block.text)
        elif block.language in ("yaml", "yml"):
            yaml.safe_load(block.text)
        else:
            assert block.language not in ("bash", "sh", "shell"), f"{where}: write ```console, so that it is executed"
            if not block.language:
                assert not COMMANDS.search(block.text), f"{where}: a command in a block that is not executed"
