"""The tables of the commands' page, made from the commands and their examples; run as a program, it writes them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from coworld_cli.examples import examples_of
from coworld_cli.main import _COMMANDS, cli

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
_EVERYWHERE = {"--json"}
"""Options that every command has."""


def tables() -> dict[str, str]:
    """The table of each section of the command line, by its title."""
    return {title: "".join(map(_row, names)) for title, names in _COMMANDS.items()}


def written(page: str) -> str:
    """The page with its tables as they should be."""
    places = re.findall(r"<!-- table: ([\w ]+) -->\n", page)
    assert sorted(places) == sorted(_COMMANDS), f"{PAGE.name} has places for {places}"
    head = "| Command | | Most used options |\n|---|---|---|\n"
    for title, rows in tables().items():
        place = f"<!-- table: {title} -->\n"
        page = re.sub(rf"{place}(?:\|.*\n)*", lambda _, table=place + head + rows: table, page)
    return page


def _row(name: str) -> str:
    """A command in one line: of a group, what it has; else the options of its examples."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    ctx = click.Context(command, info_name=name)
    text = next(commands[name][1] for commands in _COMMANDS.values() if name in commands)
    if isinstance(command, click.Group):
        call, used = [name, "…"], [f"`{one}`" for one in command.list_commands(ctx)]
    else:
        arguments = [part for part in command.collect_usage_pieces(ctx) if part != "[OPTIONS]"]
        call, used = [name, *arguments], [f"`{option}`" for option in _used(command, name)]
    return f"| `{' '.join(call).replace('|', chr(92) + '|')}` | {text} | {', '.join(used)} |\n"


def _used(command: click.Command, name: str) -> list[str]:
    """The options that occur in a command's examples, as they are written there."""
    found = dict[str, None]()
    for line in examples_of(["coworld", name]):
        words = re.findall(r"(?:'[^']*'|\"[^\"]*\"|\S)+", re.split(r" [|<] ", line)[0])[2:]
        _, _, order = command.make_parser(click.Context(command)).parse_args(list(words))
        for option in order:
            if isinstance(option, click.Option):
                found[next(name for name in (*option.opts, *option.secondary_opts) if name in words)] = None
    return [option for option in found if option not in _EVERYWHERE]


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"{PAGE} has its tables.\n")
