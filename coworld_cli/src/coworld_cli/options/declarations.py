"""Classes that declare the options of commands, and a help that groups options under headings.

Each field of such a class names the option that fills it. `takes` gives a command these options, and passes it an
instance.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, Self, TypeVar, cast, dataclass_transform

import click
from click.core import ParameterSource

__all__ = [
    "Options",
    "SectionCommand",
    "SectionOption",
    "argument",
    "declared_by",
    "everything",
    "first_given",
    "option",
    "shows_all",
    "takes",
]

_F = TypeVar("_F", bound=Callable[..., Any])

_SECTIONS = (
    "What improves it",
    "What to play",
    "What counts",
    "Evidence",
    "After the episode",
    "Where it runs",
    "Players on other machines",
    "Options",
)
"""Headings of a help, in order; an option without one comes under the last."""
_MORE_SECTIONS = ("Times", "Limits", "Secrets for players", "Language models", "Kubernetes", "Server and identity")
"""Headings of rarely needed options: the help only names them, and `--help-all` shows their options."""


class SectionOption(click.Option):
    """An option that knows the heading under which the help shows it."""

    def __init__(self, *args: Any, section: str = _SECTIONS[-1], **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self.section = section


class SectionCommand(click.Command):
    """A command whose help shows examples, and options under headings; rarely needed ones only with `--help-all`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments; an unknown option that a table of former words has leads to what does its work."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            from coworld_core.errors import UsageError

            from ..former_words import former_word

            if (hint := former_word([error.option_name])) is None:
                raise
            raise UsageError(error.message, code="usage", hint=hint) from None

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The parameters, plus `--help-all` if that shows more options."""
        found = super().get_params(ctx)
        whole = [everything] if any(_section(parameter) in _MORE_SECTIONS for parameter in found) else []
        return [*found, *whole]

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what the command does, and its examples."""
        from ..examples import examples_of

        super().format_help_text(ctx, formatter)
        names: list[str] = []
        at = ctx
        while at.parent is not None:
            names.insert(0, at.command.name or "")
            at = at.parent
        with formatter.section("Examples"):
            for line in examples_of(["coworld", *names]):
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by section."""
        rows: dict[str, list[tuple[str, str]]] = {section: [] for section in (*_SECTIONS, *_MORE_SECTIONS)}
        for parameter in self.get_params(ctx):
            row = parameter.get_help_record(ctx)
            if row is not None and isinstance(parameter, click.Option):
                rows[_section(parameter)].append(row)
        more = [section for section in _MORE_SECTIONS if rows[section]]
        hidden = () if shows_all(ctx) else more
        for section, lines in rows.items():
            if lines and section not in hidden:
                with formatter.section(section):
                    formatter.write_dl(lines)
        if hidden:
            formatter.write_paragraph()
            formatter.write_text(f"More with --help-all: {', '.join(hidden)}.")


def _section(parameter: click.Parameter) -> str:
    return parameter.section if isinstance(parameter, SectionOption) else _SECTIONS[-1]


_ALL = "coworld_cli.help_all"


def first_given(names: Collection[str]) -> str | None:
    """The first of the parameters with these names that is on the command line, as it is written; or None."""
    ctx = click.get_current_context(silent=True)
    if ctx is None:
        return None
    for param in ctx.command.params:
        if param.name in names and ctx.get_parameter_source(param.name) == ParameterSource.COMMANDLINE:
            return (
                param.human_readable_name.strip("[]") if isinstance(param, click.Argument) else max(param.opts, key=len)
            )
    return None


def refuse_options(names: Collection[str], why: str) -> None:
    """Refuse options that would do nothing here.

    Args:
        names: Their parameter names.
        why: What to say after the option.

    Raises:
        click.UsageError: One of them is on the command line.
    """
    if (word := first_given(names)) is not None:
        raise click.UsageError(f"{word} {why}", click.get_current_context())


def shows_all(ctx: click.Context) -> bool:
    """Whether the full help was asked for."""
    return bool(ctx.meta.get(_ALL))


def _show_all(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta[_ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


everything = click.Option(
    ["--help-all"],
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_all,
    help="Show the full help, and exit.",
)
"""The option that shows the full help."""


class _Declared:
    """The parameter that fills a field: an option with these names, or an argument if there are none."""

    def __init__(self, names: tuple[str, ...], default: Any, attrs: Mapping[str, Any]) -> None:
        self.names = names
        self.default = default
        self.attrs = attrs


def option(*names: str, default: Any = None, **attrs: Any) -> Any:
    """Declare a field that an option fills; a repeatable option gives a tuple."""
    if attrs.get("multiple"):
        return _Declared(names, (), attrs)
    return _Declared(names, default, {"default": default, **attrs})


def argument(default: Any, **attrs: Any) -> Any:
    """Declare a field that an argument fills."""
    return _Declared((), default, attrs)


@dataclass_transform(kw_only_default=True)
class Options:
    """Values of options, with defaults for those that were not given.

    Like a dataclass but cheaper: creating one of this size would take half as long as showing a help.
    """

    declared: ClassVar[Mapping[str, _Declared]] = {}
    """The parameter of each field, in the order of the help."""

    def __init_subclass__(cls) -> None:
        own = {name: value for name, value in vars(cls).items() if isinstance(value, _Declared)}
        inherited: dict[str, _Declared] = {}
        for base in cls.__bases__:
            inherited |= getattr(base, "declared", {})
        cls.declared = {**inherited, **own}
        for name, value in own.items():
            setattr(cls, name, value.default)

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)
        self.check()

    def check(self) -> None:
        """Check that the options fit together.

        Raises:
            click.UsageError: They do not.
        """

    def but(self, **values: Any) -> Self:
        """A copy with other values."""
        return type(self)(**{**self.__dict__, **values})


def takes(
    into: str, kind: type[Options], *, without: Collection[str] = (), **changes: Mapping[str, Any]
) -> Callable[[_F], _F]:
    """Give a command the options that a class declares, and pass it an instance.

    Args:
        into: The command's parameter that receives the instance.
        kind: The class.
        without: Fields whose options the command does not have; they keep their defaults.
        changes: Changes to the options for this command, by field.
    """
    names = [name for name in kind.declared if name not in without]

    def decorate(function: _F) -> _F:
        @functools.wraps(function)
        def wrapped(*args: Any, **values: Any) -> Any:
            filled = kind(**{name: values.pop(name) for name in names})
            return function(*args, **values, **{into: filled})

        for name in reversed(names):
            wrapped = declared_by(kind, name, **changes.get(name, {}))(wrapped)
        return cast("_F", wrapped)

    return decorate


def declared_by(kind: type[Options], name: str, **changes: Any) -> Callable[[_F], _F]:
    """Give a command the option or argument of one field of a class."""
    declared = kind.declared[name]
    attrs = {**declared.attrs, **changes}
    if not declared.names:
        return click.argument(name, **attrs)
    return click.option(*declared.names, name, cls=SectionOption, **attrs)
