"""Types of the values of options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import click

if TYPE_CHECKING:
    _FloatType = click.ParamType[float]
    _HostAndPortType = click.ParamType[tuple[str, int]]
    _IntType = click.ParamType[int]
    _TextType = click.ParamType[str]
    _TextsType = click.ParamType[tuple[str, ...]]
else:
    _FloatType = _HostAndPortType = _IntType = _TextType = _TextsType = click.ParamType  # Generic only since click 8.4

__all__ = [
    "DIRECTORY",
    "FILE",
    "INPUT_FILE",
    "RATINGS",
    "AtATime",
    "BackendName",
    "HostAndPort",
    "HttpsHosts",
    "IdType",
    "PathType",
    "PolicyType",
    "Quantity",
    "Seconds",
    "VersionNumber",
    "check_run",
    "key_values",
]


class PathType(click.Path):
    """A `pathlib` path; `pathlib` is imported only when one is given, so that help stays quick."""

    def coerce_path_result(self, value: Any) -> Any:
        """Convert a value to a `pathlib` path."""
        from pathlib import Path

        return Path(value)


FILE = PathType(dir_okay=False)
"""A file that is read or written."""
INPUT_FILE = PathType(dir_okay=False, exists=True, allow_dash=True)
"""A file that exists, or `-` for standard input."""
RATINGS = ("bradley-terry", "plackett-luce", "openskill")
"""How players can be rated (`coworld_core.evaluation.ratings.RatingName`)."""
DIRECTORY = PathType(file_okay=False)
"""A directory, which need not exist."""


class Seconds(_FloatType):
    """A time in seconds, more than zero; with `zero` also zero."""

    name = "seconds"

    def __init__(self, *, zero: bool = False, least: float = 0.0) -> None:
        self._zero = zero
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read a number."""
        try:
            seconds = float(value)
        except (TypeError, ValueError):
            self.fail(f"{value!r} is not a number of seconds.", param, ctx)
        if not (seconds >= self._least and seconds < float("inf")) or (seconds == 0 and not self._zero):
            least = f"at least {self._least:g}" if self._least or self._zero else "more than 0"
            self.fail(f"{value!r} is not {least} seconds.", param, ctx)
        return seconds


class HostAndPort(_HostAndPortType):
    """An address to listen on: a port of the loopback interface, or `HOST:PORT`."""

    name = "[host:]port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Read a host and a port."""
        if isinstance(value, tuple):
            return cast("tuple[str, int]", value)
        host, _, port = str(value).rpartition(":")
        if not port.isdecimal() or int(port) > 65535:
            self.fail(f"{value!r} is no port, nor an address and a port such as 127.0.0.1:9464.", param, ctx)
        return host.strip("[]") or "127.0.0.1", int(port)


class AtATime(click.IntRange):
    """A level of concurrency: a number, or `auto`."""

    name = "number"

    def __init__(self) -> None:
        super().__init__(min=1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read a number, or leave the word as it is."""
        return value if value == "auto" else super().convert(value, param, ctx)


class Quantity(_FloatType):
    """A Kubernetes quantity: bytes (`512Mi`) or processors (`1.5`, `500m`)."""

    def __init__(self, resource: str) -> None:
        self.name = "bytes" if resource == "memory" else "number"
        self._resource = resource

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read a quantity in its base unit."""
        if not isinstance(value, str):
            return float(value)
        from coworld_core.quantities import parse_quantity, quantity_problem

        problem = quantity_problem(self._resource, value)
        if problem is not None:
            self.fail(f"{value!r} {problem[0]}. {problem[1]}", param, ctx)
        return float(parse_quantity(value))


class HttpsHosts(_TextsType):
    """A list of HTTPS hosts: `api.example.com,*.example.org`."""

    name = "host,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Check each host's name."""
        if not isinstance(value, str):
            return tuple(value)
        from coworld_core.errors import UsageError
        from coworld_runner.episode import read_hosts

        try:
            return read_hosts(value)
        except UsageError as error:
            self.fail(error.message, param, ctx)


class BackendName(_TextType):
    """The name of an installed backend, including third-party ones; with `auto`, also `auto`.

    Installed backends are looked up only when a name is given or completed, so that help stays quick.
    """

    name = "backend"

    def __init__(self, *, auto: bool = False) -> None:
        self._auto = auto

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check that the backend exists."""
        if self._auto and value == "auto":
            return "auto"
        from coworld_core.errors import UsageError
        from coworld_runner.backends import find_backend

        from ..hints import worded

        try:
            find_backend(str(value))
        except UsageError as error:
            self.fail(" ".join(filter(None, (error.message, worded(error.hint)))), param, ctx)
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """The names that begin with the incomplete one."""
        from click.shell_completion import CompletionItem

        from coworld_runner.backends import backend_names

        names = (*(("auto",) if self._auto else ()), *backend_names())
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


class IdType(_TextType):
    """An id of one of several kinds (`coworld_core.api.platform_ids`); the error for another kind names that kind.

    Args:
        kinds: The kinds of ids to accept.
        names: Whether to accept names too.
    """

    name = "id"

    def __init__(self, *kinds: str, names: bool = False) -> None:
        self._kinds = kinds
        self._names = names

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check an id."""
        from coworld_core.api import check_id, is_id

        text = str(value).strip()
        if self._names and not is_id(text, self._kinds):
            return text
        return check_id(text, self._kinds)


class VersionNumber(_IntType):
    """The number of a version: `v3` or `3`; 0 for none."""

    name = "version"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read a number."""
        text = str(value).removeprefix("v")
        if text == "none":
            return 0
        if not text.isdecimal() or not text.isascii() or len(text) > 9:
            self.fail(f"{value!r} is not the number of a version, such as v3.", param, ctx)
        return int(text)


class PolicyType(_TextType):
    """A reference to a policy: `NAME`, `NAME:N`, `NAME:vN`, or the id of a version."""

    name = "policy"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check a reference."""
        from coworld_core.api import PolicyRef

        text = str(value).strip()
        PolicyRef.parse(text)
        return text


def key_values(option: str, items: tuple[str, ...], *, form: str = "KEY=VALUE") -> dict[str, str]:
    """`KEY=VALUE` items as a mapping, split at the first `=`.

    Raises:
        click.UsageError: An item has no key or no `=`.
    """
    pairs: dict[str, str] = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals or not key.strip():
            raise click.UsageError(f"{option} {item!r} is not {form}.", click.get_current_context())
        pairs[key.strip()] = value
    return pairs


def parse_labels(items: tuple[str, ...]) -> dict[str, str]:
    """Labels as a mapping.

    Raises:
        UsageError: One of them is no label (`bad_label`).
        click.UsageError: An item has no name or no `=`.
    """
    if not items:
        return {}
    from coworld_core.records import check_labels, label_changes

    label_changes(items)
    return check_labels(key_values("--label", items))


def check_run(run: tuple[str, ...]) -> None:
    """Check the tokens of `--run`.

    Raises:
        UsageError: The first token contains white space; the hint shows the options that were probably meant.
    """
    if not run or len(run[0].split()) == 1:
        return
    import shlex

    from coworld_core.errors import UsageError

    try:
        tokens = shlex.split(run[0])
    except ValueError:
        tokens = run[0].split()
    meant = " ".join(f"--run {shlex.quote(token)}" for token in [*tokens, *run[1:]])
    raise UsageError(
        "The first --run is the program, so there must be no white space in it.",
        code="run_white_space",
        hint=f"Write: {meant}" if tokens else "Give one token at a time: --run python --run -m --run my_player",
    )
