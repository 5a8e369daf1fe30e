"""Credentials: one file with the published tools, one identity at a time, and secrets that stay secret."""

from __future__ import annotations

import pickle
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from coworld_client.errors import NotLoggedIn
from coworld_client.sign_in.credentials import (
    DEFAULT_SERVER,
    CredentialStore,
    PlayerSession,
    SessionExpired,
    Token,
    normalise_server,
    resolve_login,
    resolve_server,
)
from coworld_core.errors import EnvironmentFault, UsageError
from coworld_core.hints import hint_fields

SERVER = "https://softmax.com/api"
PLAYER = "ply_3f2b8c1e-0000-4000-8000-000000000001"
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> CredentialStore:
    return CredentialStore(tmp_path / "softmax")


def session(minutes: float = 60, token: str = "ply_secret", player: str = PLAYER) -> PlayerSession:
    return PlayerSession(player_id=player, token=Token(token), expires_at=NOW + timedelta(minutes=minutes))


def written(store: CredentialStore, text: str) -> None:
    store.directory.mkdir(mode=0o700, exist_ok=True)
    store.path.write_text(text)


def content(store: CredentialStore) -> dict[str, dict[str, object]]:
    return yaml.safe_load(store.path.read_text())


# --- tokens


def test_a_token_shows_itself_only_by_name() -> None:
    token = Token(" s3cret-value \n")
    assert token.reveal() == "s3cret-value"
    for shown in (repr(token), str(token), f"{token}", f"{[token]}", f"{session()!r}"):
        assert "s3cret" not in shown
        assert "ply_secret" not in shown
    with pytest.raises(TypeError):
        pickle.dumps(token)
    assert token == Token("s3cret-value")
    assert token != Token("other")
    assert token != "s3cret-value"
    assert Token("ply_x").is_player


@pytest.mark.parametrize("text", ["", "  ", "two words", "line\nbreak", "x\r\nX-Evil: 1", "ü", "x" * 20_000])
def test_malformed_token_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        Token(text)
    assert caught.value.code == "bad_token"
    assert "Evil" not in str(caught.value.to_dict())


# --- servers


@pytest.mark.parametrize(
    ("address", "normal"),
    [
        ("https://softmax.com/api", SERVER),
        ("HTTPS://SoftMax.com:443/api/", SERVER),
        (" https://softmax.com./api// ", SERVER),
        ("http://127.0.0.1:8787", "http://127.0.0.1:8787"),
        ("http://LOCALHOST:80/", "http://localhost"),
        ("http://[::1]:8787/", "http://[::1]:8787"),
        ("https://softmax.com/Api", "https://softmax.com/Api"),
    ],
)
def test_a_server_has_one_spelling(address: str, normal: str) -> None:
    assert normalise_server(address) == normal
    assert normalise_server(normal) == normal


@pytest.mark.parametrize(
    "address",
    [
        "",
        "softmax.com/api",
        "localhost:8787",
        "ftp://softmax.com",
        "https://",
        "https:///api",
        "https://user:pass@softmax.com",
        "https://softmax.com/api?x=1",
        "https://softmax.com/#api",
        "https://soft max.com",
        "https://softmax.com:99999",
        "http://[::1",
    ],
)
def test_malformed_server_is_refused(address: str) -> None:
    with pytest.raises(UsageError) as caught:
        normalise_server(address)
    assert caught.value.code == "bad_server"
    assert "pass" not in caught.value.message.replace("password", "")


def test_argument_before_environment_before_sign_in_before_default(store: CredentialStore) -> None:
    environ = {"SOFTMAX_CONFIG_DIR": str(store.directory)}
    assert resolve_server(environ=environ) == DEFAULT_SERVER
    for address in (SERVER, "http://There:80/"):
        store.save_token(address, Token("mine"))
        store.save_session(SERVER, session())
    assert resolve_server(environ=environ) == "http://there"
    # Also with the same token as before
    store.save_token(SERVER, Token("mine"))
    assert resolve_server(environ=environ) == SERVER
    store.forget(SERVER)
    assert resolve_server(environ=environ) == "http://there"
    assert resolve_login(environ=environ).server == "http://there"
    # A token of the environment is not sent to where one happens to have signed in
    assert resolve_server(environ=environ | {"COWORLD_TOKEN": "x"}) == DEFAULT_SERVER
    store.forget("http://there")
    assert resolve_server(environ=environ) == DEFAULT_SERVER
    assert resolve_server(environ={"COWORLD_SERVER": "http://Here:80/"}) == "http://here"
    assert resolve_server("http://there", environ={"COWORLD_SERVER": "http://here"}) == "http://there"
    with pytest.raises(UsageError, match="COWORLD_SERVER"):
        resolve_server(environ={"COWORLD_SERVER": "here"})


# --- the file


def test_written_as_the_published_tools_read_it(store: CredentialStore) -> None:
    store.save_token(SERVER, Token("user-token"))
    store.save_session(SERVER, session())
    assert content(store) == {
        "tokens": {SERVER: "user-token"},
        "player_sessions": {
            SERVER: {
                "active": PLAYER,
                "cache": {PLAYER: {"token": "ply_secret", "expires_at": "2026-11-21T13:00:00+00:00"}},
            }
        },
    }
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.directory.stat().st_mode) == 0o700
    assert {path.name for path in store.directory.iterdir()} == {"credentials.yaml", "credentials.lock"}


def test_published_spellings_of_a_server_are_found(store: CredentialStore) -> None:
    written(
        store,
        f"tokens:\n  HTTPS://softmax.com:443/api/: user-token\nplayer_sessions:\n  https://SOFTMAX.com/api:\n"
        f"    active: {PLAYER}\n    cache:\n      {PLAYER}: {{token: ply_x, expires_at: 2026-11-21T13:00:00+00:00}}\n",
    )
    known = store.read(SERVER)
    assert known.token == Token("user-token")
    assert known.active == PLAYER
    assert known.sessions[PLAYER].token == Token("ply_x")
    store.save_token(SERVER, Token("user-token"))
    store.save_session(SERVER, session())
    assert list(content(store)["tokens"]) == [SERVER]
    assert list(content(store)["player_sessions"]) == [SERVER]


def test_unknown_entries_of_the_file_are_kept(store: CredentialStore) -> None:
    written(
        store,
        "theme: dark\ntokens:\n  https://other.example/api: other\n  7: odd\n"
        f"player_sessions:\n  {SERVER}: {{active: null, colour: blue, cache: {{{PLAYER}: broken}}}}\nextra: [1, 2]\n",
    )
    store.save_token(SERVER, Token("mine"))
    store.save_session("http://127.0.0.1:1", session())
    store.set_active(SERVER, None)
    after = content(store)
    assert after["theme"] == "dark"
    assert after["extra"] == [1, 2]
    assert after["tokens"] == {"https://other.example/api": "other", 7: "odd", SERVER: "mine"}


def test_saving_a_session_keeps_other_entries(store: CredentialStore) -> None:
    written(store, f"player_sessions:\n  {SERVER}: {{active: null, colour: blue, cache: {{other: 1}}}}\n")
    store.save_session(SERVER, session())
    assert content(store)["player_sessions"][SERVER]["colour"] == "blue"  # pyright: ignore[reportIndexIssue]
    assert content(store)["player_sessions"][SERVER]["cache"]["other"] == 1  # pyright: ignore[reportIndexIssue]


def test_another_users_token_drops_the_player_sessions(store: CredentialStore) -> None:
    store.save_token(SERVER, Token("first"))
    store.save_session(SERVER, session())
    store.save_session("http://127.0.0.1:1", session())
    assert not store.save_token(SERVER, Token("first"))
    assert store.read(SERVER).active == PLAYER
    assert store.save_token(SERVER, Token("second"))
    known = store.read(SERVER)
    assert (known.token, known.active, known.sessions) == (Token("second"), None, {})
    assert store.read("http://127.0.0.1:1").active == PLAYER


def test_forgetting_takes_token_and_sessions(store: CredentialStore) -> None:
    assert not store.forget(SERVER)
    assert not store.directory.exists()
    store.save_token(SERVER, Token("mine"))
    store.save_session(SERVER, session())
    assert store.forget("HTTPS://softmax.com/api/")
    assert store.read(SERVER).token is None
    assert not store.read(SERVER).sessions
    assert not store.forget(SERVER)


def test_player_session_does_not_count_as_sign_in(store: CredentialStore) -> None:
    with pytest.raises(UsageError) as caught:
        store.save_token(SERVER, Token("ply_session"))
    assert caught.value.code == "player_token"
    assert not store.path.exists()


def test_credentials_file_is_made_private(store: CredentialStore) -> None:
    written(store, f"tokens: {{'{SERVER}': mine}}\n")
    store.path.chmod(0o644)
    store.directory.chmod(0o755)
    assert store.read(SERVER).token == Token("mine")
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.directory.stat().st_mode) == 0o700


def test_a_linked_file_stays_linked(store: CredentialStore, tmp_path: Path) -> None:
    store.directory.mkdir()
    (tmp_path / "dotfiles").mkdir()
    store.path.symlink_to(tmp_path / "dotfiles" / "softmax.yaml")
    store.save_token(SERVER, Token("mine"))
    assert store.path.is_symlink()
    assert "mine" in (tmp_path / "dotfiles" / "softmax.yaml").read_text()


@pytest.mark.parametrize(
    "text",
    ["{unclosed: s3cret", "- a\n- list\n", "just s3cret text", "\x00", "tokens: !!python/object:os.system s3cret\n"],
)
def test_a_broken_file_is_an_error_and_is_not_overwritten(store: CredentialStore, text: str) -> None:
    written(store, text)
    for call in (lambda: store.read(SERVER), lambda: store.save_token(SERVER, Token("mine"))):
        with pytest.raises(EnvironmentFault) as caught:
            call()
        assert caught.value.code == "credentials_unreadable"
        assert "s3cret" not in str(caught.value.to_dict())
        assert caught.value.__cause__ is None
    assert store.path.read_text() == text


@pytest.mark.parametrize(
    "text",
    [
        "tokens: [1]\nplayer_sessions: 7\n",
        f"tokens: {{'{SERVER}': {{deep: 1}}}}\nplayer_sessions: {{'{SERVER}': [1]}}\n",
        f"player_sessions: {{'{SERVER}': {{active: 5, cache: {{{PLAYER}: {{token: 1, expires_at: soon}}}}}}}}\n",
        "",
    ],
)
def test_odd_entries_count_as_none(store: CredentialStore, text: str) -> None:
    written(store, text)
    known = store.read(SERVER)
    assert (known.token, known.active, dict(known.sessions)) == (None, None, {})


def test_unreadable_credentials_file_is_reported(store: CredentialStore) -> None:
    store.path.mkdir(parents=True)
    with pytest.raises(EnvironmentFault):
        store.read(SERVER)


_SAVE = """
import sys
from pathlib import Path
from coworld_client.sign_in.credentials import CredentialStore, Token
store = CredentialStore(Path(sys.argv[1]))
for number in range(10):
    store.save_token(f"http://host-{sys.argv[2]}-{number}", Token("t"))
"""


def test_concurrent_writers_lose_nothing(store: CredentialStore) -> None:
    running = [subprocess.Popen([sys.executable, "-c", _SAVE, str(store.directory), name]) for name in ("a", "b", "c")]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert len(content(store)["tokens"]) == 30


def test_lock_that_is_never_released_times_out(store: CredentialStore, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    store.save_token(SERVER, Token("mine"))
    monkeypatch.setattr("coworld_client.sign_in._credentials_file._LOCK_SECONDS", 0.05)
    with (store.directory / "credentials.lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(EnvironmentFault) as caught:
            store.save_token(SERVER, Token("other"))
        assert caught.value.code == "credentials_locked"
        # Reading needs no lock: the file is always whole
        assert store.read(SERVER).token == Token("mine")


# --- who one is


def test_missing_login_is_reported(store: CredentialStore) -> None:
    with pytest.raises(NotLoggedIn) as caught:
        resolve_login(store=store, environ={})
    assert caught.value.kind == "environment"
    assert hint_fields(caught.value.hint)["hint_code"] == "sign_in"
    with pytest.raises(NotLoggedIn) as caught:
        resolve_login("http://127.0.0.1:9", store=store, environ={})
    here = {"server": "http://127.0.0.1:9"}
    assert hint_fields(caught.value.hint).items() >= {"hint_code": "sign_in_to", "hint_values": here}.items()


def test_switching_between_user_and_player(store: CredentialStore) -> None:
    store.save_token(SERVER, Token("mine"))
    assert resolve_login(store=store, environ={}).identity == "user"
    store.save_session(SERVER, session())
    login = resolve_login(store=store, environ={}, now=NOW)
    assert (login.identity, login.token) == (PLAYER, Token("ply_secret"))
    assert login.expires_at == NOW + timedelta(hours=1)
    assert resolve_login(store=store, environ={}, identity="user", now=NOW).token == Token("mine")
    assert store.set_active(SERVER, None)
    assert not store.set_active(SERVER, None)
    assert resolve_login(store=store, environ={}, now=NOW).identity == "user"
    assert resolve_login(store=store, environ={}, identity=PLAYER, now=NOW).identity == PLAYER


@pytest.mark.parametrize("minutes", [-1, 0])
def test_an_ended_session_is_an_error_and_never_the_user(store: CredentialStore, minutes: float) -> None:
    store.save_token(SERVER, Token("mine"))
    store.save_session(SERVER, session(minutes))
    for identity in ("active", PLAYER):
        with pytest.raises(SessionExpired) as caught:
            resolve_login(store=store, environ={}, identity=identity, now=NOW)
        assert PLAYER in caught.value.message
        assert (
            hint_fields(caught.value.hint).items()
            >= {"hint_code": "renew_session", "hint_values": {"player": PLAYER}}.items()
        )


def test_an_active_player_without_a_session_is_an_error(store: CredentialStore) -> None:
    store.save_token(SERVER, Token("mine"))
    store.set_active(SERVER, PLAYER)
    with pytest.raises(SessionExpired):
        resolve_login(store=store, environ={})


def test_a_session_without_a_zone_is_utc(store: CredentialStore) -> None:
    written(
        store,
        f"player_sessions: {{'{SERVER}': {{active: {PLAYER}, cache: {{{PLAYER}: "
        "{token: ply_x, expires_at: '2026-11-21T12:00:01'}}}}\n",
    )
    assert resolve_login(store=store, environ={}, now=NOW).identity == PLAYER


def test_the_environment_comes_first(store: CredentialStore) -> None:
    store.save_token(SERVER, Token("mine"))
    login = resolve_login(store=store, environ={"COWORLD_TOKEN": "theirs", "COWORLD_SERVER": "http://here"})
    assert (login.server, login.identity, login.token) == ("http://here", "environment", Token("theirs"))
    with pytest.raises(UsageError, match="COWORLD_TOKEN"):
        resolve_login(store=store, environ={"COWORLD_TOKEN": "two words"})


def test_an_identity_that_contradicts_the_environment(store: CredentialStore) -> None:
    for identity, token in ((PLAYER, "theirs"), ("user", "ply_theirs")):
        with pytest.raises(UsageError) as caught:
            resolve_login(store=store, environ={"COWORLD_TOKEN": token}, identity=identity)
        assert caught.value.code == "identity_conflict"
    with pytest.raises(UsageError):
        resolve_login(store=store, environ={}, identity="somebody")


def test_credentials_file_location(tmp_path: Path) -> None:
    here = {"HOME": str(tmp_path)}
    assert CredentialStore.from_environment(here).path == tmp_path / ".softmax" / "credentials.yaml"
    elsewhere = CredentialStore.from_environment({**here, "SOFTMAX_CONFIG_DIR": str(tmp_path / "x")})
    assert elsewhere.path == tmp_path / "x" / "credentials.yaml"
