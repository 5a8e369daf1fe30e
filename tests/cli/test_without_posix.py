"""On a system without POSIX, such as native Windows: what is refused, in words, and what works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.cli_kit import coworld, environment
from support.fake_platform import LEAGUE, FakePlatform
from support.fake_server import site_in_thread

from coworld_cli import exitcodes

ROOT = Path(__file__).parents[2]
NIM = ROOT / "examples" / "nim"


def elsewhere(*words: str | Path, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "tests/support/without_posix.py", *words],
        cwd=cwd,
        env=environment(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(
    "words",
    [
        ["demo", "--no-open-browser"],
        *(
            pytest.param([command, NIM, *more], marks=pytest.mark.slow)
            for command, *more in (
                ("run", "-o", "played"),
                ("run", "--backend", "docker", "-o", "played"),
                ("play", "--no-open-browser"),
                ("build",),
                ("certify",),
                ("dev", "--no-open-browser"),
            )
        ),
        pytest.param(["compare", "counter", "random-taker", "-m", NIM], marks=pytest.mark.slow),
        pytest.param(["clean"], marks=pytest.mark.slow),
    ],
)
def test_what_plays_is_refused(words: list[str | Path], tmp_path: Path) -> None:
    done = elsewhere(*words, cwd=tmp_path)
    assert done.returncode == exitcodes.ENVIRONMENT, done.stdout + done.stderr
    assert "coworld plays on Linux and macOS" in done.stderr
    assert "WSL 2 with `wsl --install`" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_doctor_says_it_once(tmp_path: Path) -> None:
    done = elsewhere("doctor", cwd=tmp_path)
    assert done.returncode == exitcodes.ENVIRONMENT, done.stderr
    assert done.stdout.count("coworld plays on Linux and macOS") == done.stdout.count("WSL 2") == 1
    assert elsewhere("version", cwd=tmp_path).returncode == exitcodes.OK


@pytest.mark.slow
def test_manifests_are_validated_and_records_read(tmp_path: Path) -> None:
    assert coworld("run", NIM, "--backend", "process", "-o", tmp_path / "played").status == exitcodes.OK
    where = ("--root", tmp_path, "--index", tmp_path / "index.sqlite3")
    for words in (
        ("validate", NIM),
        ("runs", "list", *where),
        ("runs", "show", tmp_path / "played"),
        ("runs", "query", "SELECT coworld FROM episodes", *where),
        ("bundle", tmp_path / "played", "-o", tmp_path / "bundle.zip"),
    ):
        done = elsewhere(*words, cwd=tmp_path)
        assert done.returncode == exitcodes.OK, done.stdout + done.stderr
        assert "nim" in done.stdout or (tmp_path / "bundle.zip").is_file()


@pytest.mark.slow
def test_a_platform_is_used(no_leaks: None, tmp_path: Path) -> None:
    with site_in_thread(FakePlatform(canned=True)) as told:
        account = {"COWORLD_SERVER": told.url, "SOFTMAX_CONFIG_DIR": str(tmp_path / "config")}
        # The token is kept, and found again
        saved = elsewhere("set-token", "token-of-ada", cwd=tmp_path, **account)
        assert saved.returncode == exitcodes.OK, saved.stderr
        listed = elsewhere("leagues", cwd=tmp_path, **account)
        assert listed.returncode == exitcodes.OK, listed.stderr
        assert LEAGUE["id"] in listed.stdout


@pytest.mark.slow
def test_core_and_client_can_be_imported_whole(tmp_path: Path) -> None:
    code = (
        "import importlib, pkgutil\n"
        "from support.without_posix import take_away\n"
        "take_away()\n"
        "for name in ('coworld_core', 'coworld_client'):\n"
        "    for found in pkgutil.walk_packages(importlib.import_module(name).__path__, f'{name}.'):\n"
        "        if not found.name.endswith('__main__'):\n"
        "            importlib.import_module(found.name)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "tests", capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
