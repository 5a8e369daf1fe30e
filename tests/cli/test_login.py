"""Signing in and out at the command line, and acting as a player."""

from __future__ import annotations

import json
import re
import signal
import stat
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner
from support.cli_kit import Done, Started, Terminal
from support.fake_platform import FakePlatform
from support.fake_server import Ask, json_say

from coworld_cli import exitcodes
from coworld_cli.main import cli

TOKEN, OTHER = "user-token-of-ada", "user-token-of-bob"
PLAYER = "ply_00000000-0000-4000-8000-000000000001"
SESSION = "ply_session-token"
OWNER = {"owner_user_id": "user_ada", "owner_name": "ada"}


def whoami(asked: Ask) -> dict[str, Any]:
    token = asked.headers.get("authorization", "").removeprefix("Bearer ")
    names = {TOKEN: "ada", OTHER: "bob"}
    if token in names:
        email = f"{names[token]}@example.com"
        return {"user_email": email, "subject_type": "user", "subject_id": f"user_{names[token]}", "scopes": []}
    if token == SESSION:
        return {"user_email": "ada@example.com", "subject_type": "player", "subject_id": PLAYER, **OWNER}
    return {"user_email": "unknown", "subject_type": "anonymous", "scopes": []}


@pytest.fixture(autouse=True)
def knowing(told: FakePlatform) -> None:
    """The platform knows two people."""
    told.on("GET", "/whoami", whoami)


@pytest.fixture
def run(told: FakePlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """Run a command against the platform, with credentials of its own and nobody signed in."""
    monkeypatch.delenv("COWORLD_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)

    def run(*words: str, stdin: str = "", **env: str) -> Done:
        result = CliRunner().invoke(cli, words, input=stdin, env=environment(told, tmp_path, **env))
        return Done(result.exit_code, result.stdout, result.stderr)

    return run


def environment(told: FakePlatform, tmp_path: Path, **env: str) -> dict[str, str | None]:
    return {"COWORLD_SERVER": told.url, "SOFTMAX_CONFIG_DIR": str(tmp_path / "config"), **env}


def kept(tmp_path: Path) -> str:
    file = tmp_path / "config" / "credentials.yaml"
    return file.read_text() if file.exists() else ""


# --- with a token ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["set-token"], ["login", "--with-token"], ["set-token", "--file", "-"]])
def test_token_from_standard_input(words: list[str], run: Callable[..., Done], tmp_path: Path) -> None:
    done = run(*words, stdin=f"{TOKEN}\n")
    assert done.status == 0, done.stderr
    assert "as ada@example.com" in done.stdout
    assert TOKEN not in done.stdout + done.stderr
    assert TOKEN in kept(tmp_path)
    assert stat.S_IMODE((tmp_path / "config" / "credentials.yaml").stat().st_mode) == 0o600


def test_token_from_a_file(run: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    done = run("set-token", "--file", "token", "--json")
    assert done.json["status"] == "signed_in"
    assert done.json["user_email"] == "ada@example.com"
    assert done.stderr == ""


def test_token_on_the_command_line_is_warned_about(run: Callable[..., Done], tmp_path: Path) -> None:
    done = run("set-token", TOKEN)
    assert done.status == 0
    assert "warning: the token was given on the command line" in done.stderr
    assert TOKEN not in done.stdout + done.stderr
    assert TOKEN in kept(tmp_path)


def test_token_that_the_server_does_not_know_is_not_kept(run: Callable[..., Done], tmp_path: Path) -> None:
    done = run("set-token", stdin="made-up")
    assert done.status == exitcodes.ENVIRONMENT
    assert "does not know this token" in done.stderr
    assert "made-up" not in done.stdout + done.stderr + kept(tmp_path)


@pytest.mark.parametrize(("given", "said"), [("", "There is no token"), ("two words", "more than a token")])
def test_malformed_token_input_is_refused(given: str, said: str, run: Callable[..., Done], told: FakePlatform) -> None:
    done = run("set-token", stdin=given)
    assert done.status == exitcodes.USAGE
    assert said in done.stderr
    assert told.asked == []


def test_player_session_does_not_count_as_sign_in(run: Callable[..., Done], tmp_path: Path) -> None:
    done = run("set-token", stdin=SESSION)
    assert done.status == exitcodes.USAGE
    assert "session of a player" in done.stderr
    assert SESSION not in kept(tmp_path)


# --- who one is -----------------------------------------------------------------------------------------------------


def test_whoami_without_login_explains_how_to_sign_in(run: Callable[..., Done], told: FakePlatform) -> None:
    done = run("whoami", "--json")
    assert done.status == exitcodes.ENVIRONMENT
    error = done.json["error"]
    assert error["code"] == "not_logged_in"
    assert f"coworld login --server {told.url}" in error["hint"]
    assert "COWORLD_TOKEN" in error["hint"]
    assert told.asked == []


def test_commands_ask_the_server_that_one_signed_in_to(run: Callable[..., Done], told: FakePlatform) -> None:
    nowhere = {"COWORLD_SERVER": ""}
    assert run("set-token", "--server", told.url, stdin=TOKEN, **nowhere).status == 0
    done = run("whoami", "--json", **nowhere)
    assert (done.json["server"], done.json["user_email"]) == (told.url, "ada@example.com")
    for words in (["leagues"], ["validate", "cow_00000000-0000-4000-8000-000000000001"], ["player", "list"]):
        before = len(told.asked)
        run(*words, **nowhere)
        assert len(told.asked) > before, words
    # Another sign-in is elsewhere only if that is said
    elsewhere = run("login", "--json", **nowhere)
    assert elsewhere.json["error"]["context"]["url"] == "https://softmax.com/cli-auth"
    # A command to copy names a server that it would not choose
    assert "exchange-code --server https://softmax.com/api" in elsewhere.json["error"]["hint"]
    assert run("logout", "--json", **nowhere).json == {"server": told.url, "removed": True}
    assert run("logout", "--json", **nowhere).json == {"server": "https://softmax.com/api", "removed": False}


def test_token_of_the_environment_comes_first_and_is_never_kept(run: Callable[..., Done], tmp_path: Path) -> None:
    run("set-token", stdin=TOKEN)
    done = run("whoami", "--json", COWORLD_TOKEN=OTHER)
    assert done.json["user_email"] == "bob@example.com"
    assert OTHER not in kept(tmp_path)
    assert "bob@example.com" in run("whoami", COWORLD_TOKEN=OTHER).stdout


def test_token_that_has_become_worthless(run: Callable[..., Done], told: FakePlatform) -> None:
    done = run("whoami", COWORLD_TOKEN="worthless")
    assert done.status == exitcodes.ENVIRONMENT
    assert "does not know your token" in done.stderr
    assert f"login --server {told.url}" in done.stderr
    assert "worthless" not in done.stdout + done.stderr


def test_logout_forgets(run: Callable[..., Done], tmp_path: Path) -> None:
    run("set-token", stdin=TOKEN)
    done = run("logout", "--json")
    assert done.json["removed"] is True
    assert TOKEN not in kept(tmp_path)
    assert run("whoami").status == exitcodes.ENVIRONMENT
    again = run("logout")
    assert again.status == 0
    assert "You were not signed in" in again.stdout


# --- with the browser -----------------------------------------------------------------------------------------------


def test_without_a_terminal_the_ways_are_named(run: Callable[..., Done], told: FakePlatform) -> None:
    done = run("login", "--json")
    assert done.status == exitcodes.ENVIRONMENT
    error = done.json["error"]
    assert error["context"]["url"] == f"{told.url}/cli-auth"
    assert f"exchange-code --server {told.url}" in error["hint"]
    assert "set-token" in error["hint"]


def test_login_when_signed_in_changes_nothing(run: Callable[..., Done]) -> None:
    run("set-token", stdin=TOKEN)
    done = run("login")
    assert done.status == 0
    assert "signed in to" in done.stdout
    assert "as ada@example.com" in done.stdout


def exchanging(told: FakePlatform) -> None:
    def exchange(asked: Ask) -> Any:
        codes = {"good-code": TOKEN, "other-code": OTHER}
        if asked.json["code"] in codes:
            return {"token": codes[asked.json["code"]]}
        return json_say({"detail": "This code has expired."}, 410)

    told.on("POST", "/credentials/auth-codes/exchange", exchange)


def test_code_by_hand(run: Callable[..., Done], told: FakePlatform, tmp_path: Path) -> None:
    exchanging(told)
    done = run("exchange-code", "good-code")
    assert done.status == 0, done.stderr
    assert TOKEN in kept(tmp_path)
    assert run("exchange-code", stdin="other-code\n").status == 0
    assert OTHER in kept(tmp_path)


def test_code_that_is_used_up(run: Callable[..., Done], told: FakePlatform) -> None:
    exchanging(told)
    done = run("exchange-code", "old-code", "--json")
    assert done.status == exitcodes.REMOTE
    assert "used or has expired" in done.json["error"]["message"]


def test_code_is_not_sent_to_strangers(run: Callable[..., Done], told: FakePlatform) -> None:
    done = run("exchange-code", "good-code", "--server", "https://example.com/api")
    assert done.status == exitcodes.USAGE
    assert "not sent to example.com" in done.stderr
    assert told.asked == []


def test_code_pasted_at_the_terminal(terminal: Callable[..., Terminal], told: FakePlatform, tmp_path: Path) -> None:
    exchanging(told)
    shell = terminal("login", "--no-browser", env=environment(told, tmp_path), columns=200)
    shell.until_printed("paste the code")
    shell.write("good-code\n")
    shell.until_printed("Signed in to")
    assert shell.end() == 0
    assert TOKEN in kept(tmp_path)
    assert TOKEN not in shell.text


def test_browser_comes_back(terminal: Callable[..., Terminal], told: FakePlatform, tmp_path: Path) -> None:
    exchanging(told)
    shell = terminal("login", "--no-browser", env=environment(told, tmp_path), columns=250)
    shell.until_printed("paste the code")
    shown = re.search(r"callback=(\S+?)&state=(\S+)", shell.text)
    assert shown is not None
    callback = urllib.parse.unquote(shown[1])
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(re.sub("state=[^&]+", "state=forged", f"{callback}&code=other-code"), timeout=20)
    with urllib.request.urlopen(f"{callback}&code=good-code", timeout=20) as page:
        assert "The code has arrived" in page.read().decode()
    shell.until_printed("Signed in to")
    assert shell.end() == 0
    assert TOKEN in kept(tmp_path)
    assert OTHER not in kept(tmp_path)


def test_sign_in_can_be_cancelled(terminal: Callable[..., Terminal], told: FakePlatform, tmp_path: Path) -> None:
    exchanging(told)
    shell = terminal("login", "--no-browser", env=environment(told, tmp_path))
    shell.until_printed("paste the code")
    shell.process.send_signal(signal.SIGINT)
    assert shell.end() == exitcodes.INTERRUPTED
    assert kept(tmp_path) == ""


# --- players --------------------------------------------------------------------------------------------------------


def with_players(told: FakePlatform, *, expires: str = "2099-01-01T00:00:00+00:00") -> None:
    row = {"id": PLAYER, "name": "Ada's player", "is_default": True, "created_at": "2026-11-01T00:00:00+00:00"}

    def owned(asked: Ask) -> Any:
        by_user = asked.headers.get("authorization") == f"Bearer {TOKEN}"
        return [row] if by_user else json_say({"detail": "A player cannot manage players."}, 403)

    told.on("GET", "/players", owned)
    told.on("POST", "/players", lambda asked: {**row, "id": f"{PLAYER[:-1]}2", "name": asked.json["name"]})
    told.on("POST", f"/players/{PLAYER}/login", {"player_id": PLAYER, "token": SESSION, "expires_at": expires})


def test_player_identity_is_used_and_unset(run: Callable[..., Done], told: FakePlatform) -> None:
    with_players(told)
    run("set-token", stdin=TOKEN)
    assert run("player", "list", "--json").json == [
        {**run("player", "list", "--json").json[0], "id": PLAYER, "active": False}
    ]
    used = run("player", "use", PLAYER, "--json")
    assert used.status == 0, used.stderr
    assert used.json["player_id"] == PLAYER
    assert SESSION not in used.stdout + used.stderr
    assert run("whoami", "--json").json["subject_id"] == PLAYER
    assert "ada (user_ada)\n" in run("whoami").stdout
    assert run("whoami", "--json", "--as-user").json["subject_id"] == "user_ada"
    # Players are managed by their owner, whoever is active
    (listed,) = run("player", "list", "--json").json
    assert listed["active"] is True
    assert run("player", "unset", "--json").json["changed"] is True
    assert run("whoami", "--json").json["subject_id"] == "user_ada"
    assert run("whoami", "--json", "--as-player", PLAYER).json["subject_id"] == PLAYER


def test_player_is_used_by_its_name(run: Callable[..., Done], told: FakePlatform) -> None:
    with_players(told)
    run("set-token", stdin=TOKEN)
    name = run("player", "list", "--json").json[0]["name"]
    assert run("player", "use", str(name).upper(), "--json").json["player_id"] == PLAYER
    assert run("whoami", "--json").json["subject_id"] == PLAYER
    absent = run("player", "use", "nobody")
    assert absent.status != 0
    assert ("You have no player 'nobody'" in absent.stderr, name in absent.stderr) == (True, True)


def test_player_that_is_not_yours(run: Callable[..., Done], told: FakePlatform) -> None:
    with_players(told)
    run("set-token", stdin=TOKEN)
    done = run("player", "use", f"{PLAYER[:-1]}9")
    assert done.status == exitcodes.USAGE
    assert "is not one of your players" in done.stderr
    assert PLAYER in done.stderr


def test_player_is_made(run: Callable[..., Done], told: FakePlatform) -> None:
    with_players(told)
    run("set-token", stdin=TOKEN)
    done = run("player", "create", "Second")
    assert done.status == 0
    assert "Second" in done.stdout


def test_expired_session_is_not_replaced_by_another_identity(
    run: Callable[..., Done], told: FakePlatform, tmp_path: Path
) -> None:
    with_players(told, expires="2020-01-01T00:00:00+00:00")
    run("set-token", stdin=TOKEN)
    run("player", "use", PLAYER)
    asked = len(told.asked)
    for words in (["whoami"], ["show", "cow_00000000-0000-4000-8000-000000000001"], ["leagues"]):
        done = run(*words, "--json")
        assert done.status == exitcodes.ENVIRONMENT, words
        assert done.json["error"]["code"] == "session_expired"
        assert f"coworld player use {PLAYER}" in done.json["error"]["hint"]
    assert len(told.asked) == asked


def test_interrupt_while_the_server_thinks(start: Callable[..., Started], told: FakePlatform, tmp_path: Path) -> None:
    reached = threading.Event()

    async def slow(_: Ask) -> None:
        reached.set()
        await anyio.sleep_forever()

    told.on("GET", "/v2/leagues", slow)
    command = start("leagues", "--json", env={**environment(told, tmp_path), "COWORLD_TOKEN": TOKEN})
    assert reached.wait(60)
    command.send(signal.SIGINT)
    done = command.end()
    assert done.status == exitcodes.INTERRUPTED
    assert json.loads(done.stdout)["error"]["message"] == "Interrupted."
