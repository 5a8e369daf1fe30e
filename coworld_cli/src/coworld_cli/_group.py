"""A group of commands that imports a command only when it is called."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import click

from coworld_core.text import closest

from .options.declarations import SectionCommand, everything, shows_all
from .program import CommandLine

__all__ = ["CommandTable", "LazyGroup", "NounGroup"]

CommandTable = Mapping[str, Mapping[str, tuple[str, str]]]
"""Section title → command name → the module it is in, and its help in one line."""


_MEANT: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("new", "create", "scaffold", "begin"), ("init", "demo")),
    "test": ("certify", "check", "validate"),
    "keygen": ("certificate keygen",),
    **dict.fromkeys(("eval", "evaluate", "benchmark", "bench", "measure"), ("compare", "rank", "scrimmage")),
    **dict.fromkeys(("round-robin", "elo", "ladder"), ("rank", "tournament")),
    **dict.fromkeys(("simulate", "simulation", "episode", "match", "battle"), ("run",)),
    **dict.fromkeys(("mixture", "blend"), ("mix",)),
    "diagnose": ("evaluation diagnose",),
    "report": ("evaluation report",),
    "serve": ("game serve",),
    "sit": ("game join",),
    "wrap": ("game wrap",),
    **dict.fromkeys(("leaderboard", "standings"), ("results",)),
    "matches": ("episodes",),
    **dict.fromkeys(("start", "up"), ("run", "play")),
    **dict.fromkeys(("watch", "view", "viewer", "open"), ("replay", "play")),
    **dict.fromkeys(("example", "sample", "quickstart", "hello"), ("demo",)),
    **dict.fromkeys(("lint", "fix"), ("validate",)),
    **dict.fromkeys(("publish", "push", "deploy", "upload"), ("upload-coworld", "upload-policy")),
    **dict.fromkeys(("signin", "sign-in", "auth"), ("login",)),
    **dict.fromkeys(("compile", "make", "package"), ("build",)),
    **dict.fromkeys(("kill", "cancel", "terminate"), ("stop",)),
    "ps": ("episodes",),
    "prune": ("clean",),
    **dict.fromkeys(("history", "ls", "log", "query", "export"), ("runs",)),
    **dict.fromkeys(("info", "env"), ("doctor", "version")),
}
"""Words that users try, former names among them, and the commands that they mean."""


_TITLE = 10
"""Width of a section's title in the short help."""


def _fitting(names: Sequence[str], width: int) -> str:
    """As many of the names as fit into one line, with an ellipsis for the rest."""
    shown = [*names]
    while len(line := ", ".join(shown)) > width and len(shown) > 1:
        shown[-2:] = ["…"]
    return line


class NounGroup(click.Group):
    """A group that shows its help when it gets no arguments, and suggests a command for an unknown name."""

    command_class = SectionCommand

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order in which they were added."""
        return list(self.commands)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments; without any, show the help."""
        return super().parse_args(ctx, args or ["--help"])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or suggest the one that was probably meant."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            known = self.list_commands(ctx)
            folded = name.lower().replace("_", "-")
            close = closest(name, known, cutoff=0.5)
            starting = next((other for other in known if len(folded) > 2 and other.startswith(folded)), close)
            tried = [words for words in _MEANT.get(folded, ()) if words.split()[0] in known]
            if ctx.parent is None and not tried:
                from coworld_core.errors import UsageError

                from .former_words import former_word

                if (hint := former_word(args, known)) is not None:
                    raise UsageError(f"There is no command {name!r} here.", code="usage", hint=hint)
            meant = tried or [starting] * (starting is not None)
            question = f" Did you mean {' or '.join(map(repr, meant))}?" if meant else ""
            raise click.UsageError(f"There is no command {name!r}.{question}", ctx)
        return super().resolve_command(ctx, args)


class LazyGroup(CommandLine, NounGroup):
    """A group that has the names and short help of its commands in a table.

    Each command is imported from the group `commands` of its module.

    Args:
        table: The commands, by section.
        package: The package of their modules.
        first: The commands of the first hour, which the short help explains.
        aliases: Other names of commands, and theirs in the table.
        attrs: Arguments of `click.Group`.
    """

    def __init__(
        self,
        *,
        table: CommandTable,
        package: str,
        first: Sequence[str] = (),
        aliases: Mapping[str, str] | None = None,
        **attrs: Any,
    ) -> None:
        super().__init__(**attrs)
        self._aliases = aliases or {}
        self._first = first
        self._table = table
        self._package = package

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the table; other names of a command follow its own."""
        return list(self._described())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        cmd_name = self._aliases.get(cmd_name, cmd_name)
        home = next((section[cmd_name][0] for section in self._table.values() if cmd_name in section), None)
        if home is None:
            return None
        commands: click.Group = importlib.import_module(f"{self._package}.{home}").commands
        return commands.get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; whichever name it was called by, it goes by its own, as do its variables."""
        _, found, rest = super().resolve_command(ctx, args)
        return found and found.name, found, rest

    def _described(self, section: str | None = None) -> dict[str, str]:
        """The help of each name in one line, for one section or all."""
        names: dict[str, str] = {}
        for title, commands in self._table.items():
            for name, (_, text) in commands.items() if section in (None, title) else ():
                names[name] = text
                others = [other for other, own in self._aliases.items() if own == name]
                names.update(dict.fromkeys(others, f"The same as {name}, by its published name."))
        return names

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The parameters, and `--help-all`."""
        return [*super().get_params(ctx), everything]

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help: one screen, or with `--help-all` everything."""
        if shows_all(ctx):
            super().format_help(ctx, formatter)
            return
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        described = self._described()
        with formatter.section("Start with"):
            formatter.write_dl([(name, described[name]) for name in self._first])
        with formatter.section("More"):
            for title, section in self._table.items():
                if rest := [name for name in section if name not in self._first]:
                    line = _fitting(rest, formatter.width - formatter.current_indent - _TITLE)
                    formatter.write(f"{'':{formatter.current_indent}}{title:<{_TITLE}}{line}\n")
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(f"{self.name} --help-all lists all commands, {self.name} COMMAND --help explains one.")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write all commands, by section."""
        for title in self._table:
            names = self._described(title)
            width = max(11, *map(len, names))
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, text in names.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Complete names without importing the commands."""
        from click.shell_completion import CompletionItem

        names = self._described().items()
        items = [CompletionItem(name, help=text) for name, text in names if name.startswith(incomplete)]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]
