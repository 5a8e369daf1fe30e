"""Secrets that commands write into files are for who runs them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from observatory.cli import main

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("command", [("user", "add", "bob"), ("user", "token", "ann"), ("pull-secret",)])
def test_secret_file_is_readable_by_its_owner_only(
    command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*words: str) -> tuple[int | str | None, str]:
        with pytest.raises(SystemExit) as left:
            main([*words, "--data", str(tmp_path / "o"), "--json"])
        return left.value.code, capsys.readouterr().out

    run("user", "add", "ann")
    place = tmp_path / "secret"
    # whoever had it before, and whatever files are made readable for
    place.write_text("before")
    place.chmod(0o644)
    before = os.umask(0)
    try:
        status, out = run(*command, "--to", str(place))
    finally:
        os.umask(before)
    assert (status, json.loads(out)) == (0, {"file": str(place)})
    assert place.stat().st_mode & 0o777 == 0o600
    assert len(place.read_text()) > 40
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["o.key", "secret"]
    status, out = run(*command, "--to", str(tmp_path / "nowhere" / "secret"))
    assert status == 2
    assert json.loads(out)["error"]["code"] in ("bad_file", "name_taken")
