"""The credentials file: readable only by its owner, written atomically by one program at a time."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, cast

from coworld_core.errors import EnvironmentFault, UsageError
from coworld_core.files.atomic import write_whole
from coworld_core.hints import Hint
from coworld_core.operating_system import user_id

from ._tokens import PlayerSession, Token, is_player_id, normalise_server

__all__ = ["CredentialStore", "ServerCredentials"]

_T = TypeVar("_T")

FILE_NAME = "credentials.yaml"
_LOCK_NAME = "credentials.lock"
_LOCK_SECONDS = 10.0
_MAX_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class ServerCredentials:
    """The entries of the file for one server."""

    token: Token | None
    """The user's token."""
    active: str | None
    """Id of the active player."""
    sessions: Mapping[str, PlayerSession]
    """Sessions by player id, including expired ones."""


class CredentialStore:
    """The credentials file. A lock keeps concurrent changes by several processes from overwriting each other.

    The methods read and write small files and may wait for the lock, so call them in a worker thread from async code.

    Args:
        directory: The directory of the file; created (mode 0700) on the first save.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / FILE_NAME

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> CredentialStore:
        """The user's own store: in `SOFTMAX_CONFIG_DIR` if set, else in `~/.softmax`.

        Raises:
            EnvironmentFault: `SOFTMAX_CONFIG_DIR` is not set, and there is no home directory.
        """
        environ = os.environ if environ is None else environ
        if named := environ.get("SOFTMAX_CONFIG_DIR"):
            return cls(Path(named).absolute())
        home = environ.get("HOME")
        try:
            return cls((Path(home) if home else Path.home()) / ".softmax")
        except RuntimeError as error:
            raise EnvironmentFault(
                "There is no home directory to look for credentials in.",
                code="no_home",
                hint="Set SOFTMAX_CONFIG_DIR, or COWORLD_TOKEN.",
            ) from error

    def read(self, server: str) -> ServerCredentials:
        """Return the credentials for a server.

        Raises:
            EnvironmentFault: The file cannot be read or is invalid (`credentials_unreadable`).
            UsageError: The server is not a valid address.
        """
        document = self._load()
        address = normalise_server(server)
        value = _lookup(document.get("tokens"), address)
        entry = _mapping(_lookup(document.get("player_sessions"), address))
        active = entry.get("active")
        sessions = {
            player: session
            for player, raw in _mapping(entry.get("cache")).items()
            if is_player_id(str(player)) and (session := _session(player, raw)) is not None
        }
        return ServerCredentials(
            token=_token(value), active=active if isinstance(active, str) and active else None, sessions=sessions
        )

    def last_server(self) -> str | None:
        """Return the server of the last sign-in that has not been forgotten; None without one.

        Raises:
            EnvironmentFault: The file cannot be read or is invalid (`credentials_unreadable`).
        """
        for key, value in reversed(_mapping(self._load().get("tokens")).items()):
            with contextlib.suppress(UsageError):
                if _token(value) is not None:
                    return normalise_server(str(key))
        return None

    def save_token(self, server: str, token: Token) -> bool:
        """Save a user's token. If it differs from the previous one, the server's player sessions are removed with it.

        Returns:
            Whether player sessions were removed.

        Raises:
            UsageError: The token is a player's session (`player_token`), or the server is not a valid address.
            EnvironmentFault: The file cannot be read or written.
        """
        if token.is_player:
            raise UsageError(
                "This is the session of a player, not a user's token.",
                code="player_token",
                hint=Hint(
                    "use_player",
                    "Sign in as yourself, then use_player; or set COWORLD_TOKEN to act with it directly.",
                ),
            )
        address = normalise_server(server)

        def change(document: dict[str, Any]) -> bool:
            before = _token(_lookup(document.get("tokens"), address))
            dropped = before != token and _remove(document, "player_sessions", address)
            _put(document, "tokens", address, token.reveal())
            return dropped

        return self._change(change)

    def forget(self, server: str) -> bool:
        """Remove the token and the player sessions of a server.

        Returns:
            Whether there were any.

        Raises:
            EnvironmentFault: The file cannot be read or written.
        """
        address = normalise_server(server)
        if not self.path.exists():
            return False

        def change(document: dict[str, Any]) -> bool:
            removed = _remove(document, "tokens", address)
            return _remove(document, "player_sessions", address) or removed

        return self._change(change)

    def save_session(self, server: str, session: PlayerSession, *, activate: bool = True) -> None:
        """Save a player's session.

        Args:
            server: The server.
            session: The session.
            activate: Whether to make this player the active one.

        Raises:
            EnvironmentFault: The file cannot be read or written.
        """
        address = normalise_server(server)

        def change(document: dict[str, Any]) -> None:
            entry = dict(_mapping(_lookup(document.get("player_sessions"), address)))
            entry["cache"] = {
                **_mapping(entry.get("cache")),
                session.player_id: {
                    "token": session.token.reveal(),
                    "expires_at": session.expires_at.astimezone(UTC).isoformat(),
                },
            }
            entry["active"] = session.player_id if activate else entry.get("active")
            _put(document, "player_sessions", address, entry)

        self._change(change)

    def set_active(self, server: str, player_id: str | None) -> bool:
        """Set the active player; None to act as the user. Sessions are kept.

        Returns:
            Whether the active player changed.

        Raises:
            EnvironmentFault: The file cannot be read or written.
        """
        address = normalise_server(server)
        if player_id is None and not self.path.exists():
            return False

        def change(document: dict[str, Any]) -> bool:
            entry = dict(_mapping(_lookup(document.get("player_sessions"), address)))
            if entry.get("active") == player_id:
                return False
            entry["active"] = player_id
            _put(document, "player_sessions", address, entry)
            return True

        return self._change(change)

    # --- reading and writing

    def _load(self) -> dict[str, Any]:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._unreadable(error.strerror or str(error)) from error
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise self._unreadable("it is not a regular file")
        with os.fdopen(descriptor, "rb") as file:
            _close_to_others(self.path, descriptor)
            try:
                data = file.read(_MAX_BYTES + 1)
            except OSError as error:
                raise self._unreadable(error.strerror or str(error)) from error
        if len(data) > _MAX_BYTES:
            raise self._unreadable("it is larger than 1 MiB")
        return self._parsed(data)

    def _parsed(self, data: bytes) -> dict[str, Any]:
        import yaml

        try:
            value: object = yaml.safe_load(data.decode("utf-8-sig"))
        except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
            # Omit the parser's message: it may quote the file, which holds secrets
            line = getattr(getattr(error, "problem_mark", None), "line", None)
            raise self._unreadable(f"it is not YAML{f' (line {line + 1})' if line is not None else ''}") from None
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self._unreadable("it is not a mapping")
        return cast("dict[str, Any]", value)

    def _unreadable(self, why: str) -> EnvironmentFault:
        return EnvironmentFault(
            f"Your credentials in {self.path} cannot be read: {why}.",
            code="credentials_unreadable",
            hint="Correct the file, or move it away and sign in again.",
            context={"file": str(self.path)},
        )

    def _change(self, change: Callable[[dict[str, Any]], _T]) -> _T:
        from filelock import FileLock, Timeout

        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            _close_directory(self.directory)
            with FileLock(self.directory / _LOCK_NAME, timeout=_LOCK_SECONDS, mode=0o600, fallback_to_soft=False):
                before = self._load()
                document = dict(before)
                result = change(document)
                # The order counts, too: the last token is that of the last sign-in
                if document != before or _servers(document) != _servers(before):
                    self._write(document)
        except Timeout as error:
            raise EnvironmentFault(
                f"Another program has been changing the credentials in {self.path} for {_LOCK_SECONDS:g} s.",
                code="credentials_locked",
                hint=f"Wait for it, or see who holds {self.directory / _LOCK_NAME}.",
            ) from error
        except OSError as error:
            raise EnvironmentFault(
                f"Your credentials cannot be written to {self.path}: {error.strerror or error}.",
                code="credentials_unwritable",
                hint="Set SOFTMAX_CONFIG_DIR to a directory of your own, or use COWORLD_TOKEN.",
                context={"file": str(self.path)},
            ) from error
        return result

    def _write(self, document: Mapping[str, Any]) -> None:
        import yaml

        text = yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True, default_flow_style=False)
        # The user may keep the file elsewhere through a symbolic link: replace the file it points to
        target = Path(os.path.realpath(self.path))
        write_whole(target, text.encode(), mode=0o600, sync=True)
        _sync_directory(target.parent)


def _close_to_others(path: Path, descriptor: int) -> None:
    """Remove others' permissions from a file and its directory if we own them; failures are ignored."""
    status = os.fstat(descriptor)
    if status.st_mode & 0o077 and status.st_uid == user_id():
        with contextlib.suppress(OSError):
            os.fchmod(descriptor, 0o600)
    with contextlib.suppress(OSError):
        _close_directory(path.parent)


def _close_directory(path: Path) -> None:
    status = path.stat()
    shared = status.st_mode & stat.S_ISVTX or path == Path.home()
    if status.st_mode & 0o077 and status.st_uid == user_id() and not shared:
        with contextlib.suppress(OSError):
            path.chmod(0o700)


def _sync_directory(path: Path) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# --- its content -------------------------------------------------------------------------------------------------


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _spellings(section: object, server: str) -> list[str]:
    """Keys of a section that name the server, the normalised one first."""
    found = [key for key in _mapping(section) if key != server and _same_server(key, server)]
    return [server, *found] if server in _mapping(section) else found


def _servers(document: Mapping[str, Any]) -> list[object]:
    return list(_mapping(document.get("tokens")))


def _same_server(key: object, server: str) -> bool:
    try:
        return isinstance(key, str) and normalise_server(key) == server
    except UsageError:
        return False


def _lookup(section: object, server: str) -> object:
    entries = _mapping(section)
    return next((entries[key] for key in _spellings(entries, server) if entries[key]), None)


def _put(document: dict[str, Any], name: str, server: str, value: object) -> None:
    spellings = _spellings(document.get(name), server)
    section = {key: item for key, item in _mapping(document.get(name)).items() if key not in spellings}
    document[name] = {**section, server: value}


def _remove(document: dict[str, Any], name: str, server: str) -> bool:
    spellings = _spellings(document.get(name), server)
    if spellings:
        document[name] = {key: item for key, item in _mapping(document[name]).items() if key not in spellings}
    return bool(spellings)


def _token(value: object) -> Token | None:
    if not isinstance(value, str):
        return None
    try:
        return Token(value)
    except UsageError:
        return None


def _session(player: str, raw: object) -> PlayerSession | None:
    entry = _mapping(raw)
    token, until = _token(entry.get("token")), entry.get("expires_at")
    if isinstance(until, str):
        try:
            until = datetime.fromisoformat(until)
        except ValueError:
            return None
    if token is None or not isinstance(until, datetime):
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return PlayerSession(player_id=player, token=token, expires_at=until)
