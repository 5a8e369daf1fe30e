"""A group of commands that imports a command only when it is called."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import click

from coworld_core.wording import closest

from .options.declaring import SectionCommand, everything, shows_all
from .program import CommandLine

__all__ = ["CommandTable", "LazyGroup", "NounGroup"]

CommandTable = Mapping[str, Mapping[str, tuple[str, str]]]
"""Section title → command name → the module it is in, and its help in one line."""


_MEANT: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("new", "create", "scaffold", "begin"), ("init", "demo")),
    **dict.fromkeys(("test", "check", "verify"), ("certify", "validate")),
    **dict.fromkeys(("eval", "evaluate", "benchmark", "bench", "measure"), ("compare", "rank", "scrimmage")),
    **dict.fromkeys(("round-robin", "elo", "ladder", "season"), ("rank", "tournament")),
    **dict.fromkeys(("simulate", "simulation", "episode", "match", "battle"), ("run",)),
    **dict.fromkeys(("mixture", "blend"), ("mix",)),
    **dict.fromkeys(("start", "up"), ("run", "play")),
    **dict.fromkeys(("watch", "view", "viewer", "open"), ("replay", "play")),
    **dict.fromkeys(("example", "sample", "quickstart", "hello", "tutorial"), ("demo",)),
    **dict.fromkeys(("lint", "fix"), ("validate",)),
    **dict.fromkeys(("publish", "push", "deploy", "upload"), ("upload-coworld", "upload-policy")),
    **dict.fromkeys(("signin", "sign-in", "auth"), ("login",)),
    **dict.fromkeys(("compile", "make", "package"), ("build",)),
    **dict.fromkeys(("ps", "prune", "kill", "stop"), ("clean",)),
    **dict.fromkeys(("info", "env"), ("doctor", "version")),
}
"""Words that users try, and the commands that they mean."""


_INSTEAD: Mapping[str, str] = {
    "optimize": "`coworld diagnose` says what is wrong with a player, `coworld compare` whether a change helps.",
    "resolve-and-upload": "`coworld build --resolve-mutable-images` pins images, `coworld upload-coworld` uploads.",
    "counterfactual": "`coworld compare` plays a candidate against a baseline.",
    "power-analysis": "`coworld compare` plays until the evidence is enough.",
    "stats": "`coworld diagnose` counts what players did, `coworld episode-stats` shows statistics of a platform.",
    "manifest-schema": "`coworld schema` prints schemas, `coworld validate` checks a manifest.",
    "docs": "`coworld COMMAND --help` explains a command, with examples.",
    "retry-certification": "`coworld certify` repeats it on this machine, `coworld upload-coworld` uploads again.",
    "reporters": "`coworld list` shows Coworlds; reporters of a platform are not listed.",
}
"""Commands of the published package that do not exist here, and what to use instead."""


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
            if ctx.parent is None and name in _INSTEAD:
                from coworld_core.errors import UsageError

                raise UsageError(f"There is no command {name!r} here.", code="usage", hint=_INSTEAD[name])
            known = self.list_commands(ctx)
            folded = name.lower().replace("_", "-")
            close = closest(name, known, cutoff=0.5)
            starting = next((other for other in known if len(folded) > 2 and other.startswith(folded)), close)
            meant = [word for word in _MEANT.get(folded, ()) if word in known] or [starting] * (starting is not None)
            question = f" Did you mean {' or '.join(map(repr, meant))}?" if meant else ""
            raise click.UsageError(f"There is no command {name!r}.{question}", ctx)
        return super().resolve_command(ctx, args)


class LazyGroup(CommandLine, NounGroup):
    """A group that has the names and short help of its commands in a table.

    Each command is imported from the group ``commands`` of its module.

    Args:
        table: The commands, by section.
        package: The package of their modules.
        platform: The sections that are useful only with a platform.
        aliases: Other names of commands, and theirs in the table.
        attrs: Arguments of ``click.Group``.
    """

    def __init__(
        self,
        *,
        table: CommandTable,
        package: str,
        platform: Sequence[str] = (),
        aliases: Mapping[str, str] | None = None,
        **attrs: Any,
    ) -> None:
        super().__init__(**attrs)
        self._aliases = aliases or {}
        self._platform = platform
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
        """The parameters, and ``--help-all``."""
        return [*super().get_params(ctx), everything]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by section; platform sections show only names, except with ``--help-all``."""
        more: list[tuple[str, str]] = []
        for title, section in self._table.items():
            if title in self._platform and not shows_all(ctx):
                more.append((title, ", ".join(section)))
                continue
            names = self._described(title)
            width = max(11, *map(len, names))
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, text in names.items()])
        if more:
            from textwrap import fill

            with formatter.section("With a platform (--help-all says what each does)"):
                # the formatter would break names at hyphens
                for title, names in more:
                    lines = fill(names, max(20, formatter.width - 14), break_on_hyphens=False).splitlines()
                    for label, line in zip_longest((title,), lines, fillvalue=""):
                        formatter.write(f"{'':{formatter.current_indent}}{label:<10}{line}\n")

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Complete names without importing the commands."""
        from click.shell_completion import CompletionItem

        names = self._described().items()
        items = [CompletionItem(name, help=text) for name, text in names if name.startswith(incomplete)]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]
