"""Extra local ports that a game requests with ``COWORLD_LOCAL_EXTRA_PORTS`` (runtime contract, local runner)."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import UsageError

__all__ = ["EXTRA_PORTS_ENV", "GAME_PORT", "ExtraPort", "extra_ports_problems", "parse_extra_ports"]

EXTRA_PORTS_ENV = "COWORLD_LOCAL_EXTRA_PORTS"
"""Name of the variable in ``game.runnable.env``; a hint for local runners, ignored by hosted ones."""

GAME_PORT = 8080
"""The port every game listens on inside its container."""

_FORM = "Write container_port[:host_port][/tcp], separated by commas, e.g. 8085 or 8085:18085/tcp."


@dataclass(frozen=True, kw_only=True)
class ExtraPort:
    """One more TCP port of the game to publish on the loopback interface."""

    container: int
    """Port inside the container, 1 to 65535, never 8080."""

    host: int | None = None
    """Fixed port on this machine, or None for one chosen by the engine."""


def parse_extra_ports(text: str) -> tuple[ExtraPort, ...]:
    """Read the value of ``COWORLD_LOCAL_EXTRA_PORTS``.

    Args:
        text: Comma-separated ``container_port[:host_port][/tcp]``; a host port left out or ``0`` is chosen later.

    Returns:
        The ports in the order given.

    Raises:
        UsageError: Code ``bad_extra_ports``, with every problem in the message.
    """
    ports, problems = _parse(text)
    if problems:
        raise UsageError(f"{EXTRA_PORTS_ENV}: {'; '.join(problems)}.", code="bad_extra_ports", hint=_FORM)
    return ports


def extra_ports_problems(text: str) -> tuple[str, ...]:
    """Every problem with a value of ``COWORLD_LOCAL_EXTRA_PORTS``; empty if it is valid."""
    return _parse(text)[1]


def _parse(text: str) -> tuple[tuple[ExtraPort, ...], tuple[str, ...]]:
    ports: list[ExtraPort] = []
    problems: list[str] = []
    for index, raw in enumerate(text.split(","), start=1):
        entry = raw.strip()
        try:
            port = _parse_entry(entry)
        except ValueError as error:
            problems.append(f"entry {index} ({entry!r}) {error}" if entry else f"entry {index} is empty")
            continue
        if port.container == GAME_PORT:
            problems.append(f"entry {index} ({entry!r}) names port {GAME_PORT}, which is always published")
        elif any(other.container == port.container for other in ports):
            problems.append(f"entry {index} ({entry!r}) repeats container port {port.container}")
        elif port.host is not None and any(other.host == port.host for other in ports):
            problems.append(f"entry {index} ({entry!r}) repeats host port {port.host}")
        else:
            ports.append(port)
    return tuple(ports), tuple(problems)


def _parse_entry(entry: str) -> ExtraPort:
    numbers, slash, protocol = entry.partition("/")
    if slash and protocol != "tcp":
        raise ValueError(f"asks for protocol {protocol!r}; only tcp is offered")
    parts = numbers.split(":")
    if len(parts) > 2:
        raise ValueError("has more than one colon")
    container = _number(parts[0], "container", least=1)
    if len(parts) == 1:
        return ExtraPort(container=container)
    if not parts[1]:
        raise ValueError("has nothing after the colon")
    return ExtraPort(container=container, host=_number(parts[1], "host", least=0) or None)


def _number(text: str, what: str, *, least: int) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"has a {what} port that is not a decimal number")
    number = int(text) if len(text) <= 5 else 65536
    if not least <= number <= 65535:
        raise ValueError(f"has a {what} port outside {least}..65535")
    return number
