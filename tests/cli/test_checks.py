"""`upload-policy --dry-run`, which needs no server; and how options for the game config are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from coworld_cli import exitcodes
from coworld_cli.files import read_object
from coworld_cli.main import cli
from coworld_core.errors import UsageError


def test_dry_run_needs_no_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bot = tmp_path / "bot.py"
    bot.write_text("import module_of_nobody\ndef act(observation, legal, rng):\n    return legal[0]\n")
    command = ["upload-policy", "./bot.py", "--dry-run", "--server", "http://127.0.0.1:1", "--json"]
    done = CliRunner().invoke(cli, command)
    answer = json.loads(done.stdout)
    assert (done.exit_code, answer["ok"], answer["uploaded"]) == (exitcodes.ANSWER_IS_NO, False, False)
    assert [check["name"] for check in answer["checks"] if check["status"] == "fail"] == ["imports"]
    bot.write_text("def act(observation, legal, rng):\n    return legal[0]\n")
    assert CliRunner().invoke(cli, command).exit_code == exitcodes.OK
    assert CliRunner().invoke(cli, [*command, "--name", "a:b"]).exit_code == exitcodes.USAGE
    assert CliRunner().invoke(cli, ["upload-policy", "./bot.py", "-m", "nim"]).exit_code == exitcodes.USAGE


@pytest.mark.parametrize(
    ("name", "text"),
    [("c.json", '{"a": {"b": 1}}'), ("c.toml", "[a]\nb = 1\n"), ("c.yaml", "a:\n  b: 1\n"), ("c.yml", "a: {b: 1}")],
)
def test_a_config_is_json_toml_or_yaml(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert read_object(str(tmp_path / name), what="--config") == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("c.json", "{", "bad_json"),
        ("c.toml", "a = ", "bad_toml"),
        ("c.toml", "a = 2020-01-01", "bad_toml"),
        ("c.yaml", "a: [", "bad_yaml"),
        ("c.yaml", "- 1", "bad_yaml"),
        ("c.yaml", "a: .nan", "bad_yaml"),
    ],
)
def test_what_is_no_config_is_refused(tmp_path: Path, name: str, text: str, code: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError) as refused:
        read_object(str(tmp_path / name), what="--config")
    assert refused.value.code == code
