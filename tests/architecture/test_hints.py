"""Libraries speak of values: options and commands are words of the command line, which has them for each hint."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import click
import pytest
from support.import_graph import nodes, sources

from coworld_cli.hints import WORDS
from coworld_cli.main import cli

# One worker parses the sources for all tests that read them
pytestmark = pytest.mark.xdist_group("sources")

LIBRARIES = ("coworld_core", "coworld_runner", "coworld_client")
PAGES = {"coworld_client.uploads.packages": "the guide that is written beside a downloaded package, with lines to type"}
"""Modules with documents for people at a terminal, and which."""
ARGUMENTS = {
    "coworld_runner.backends.process._image_interpreter": "interpreters",
    "coworld_runner.backends.process._pip_requirements": "pip",
    "coworld_runner.backends.process._python_environment": "uv and pip",
    "coworld_runner.build._pinned_sources": "git",
    "coworld_runner.kit.wrappers.card": "itself, as a program of its own",
    "coworld_runner.images.dockerfile": "pip",
}
"""Modules that give or read options of other programs, and which."""

_OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z-]*(?![\w-])")
_OF_OTHERS = re.compile(r"\b(apt-get|aws|docker|git|kubectl|pip|python|uv)\b[^.;`]*$")
_COMMAND = re.compile(r"\bcoworld (?P<name>[a-z][a-z-]*)")


@cache
def options() -> frozenset[str]:
    """The options of our commands: every text in the command line's sources that is one, without Python's `-m`."""
    return frozenset(
        word
        for path in sources("coworld_cli").values()
        for node in nodes(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("-")
        for word in node.value.split("/")
        if _OPTION.fullmatch(word) and word != "-m"
    )


@cache
def commands() -> frozenset[str]:
    """The names of our commands."""
    return frozenset(cli.list_commands(click.Context(cli)))


def named(text: str) -> Iterator[str]:
    """The options and commands of ours that a text names."""
    for found in _OPTION.finditer(text):
        if found[0] in options() and not _OF_OTHERS.search(text[: found.start()]):
            yield found[0]
    for found in _COMMAND.finditer(text):
        if found["name"] in commands():
            yield found[0]


def terminal_words(modules: Mapping[str, Path]) -> list[str]:
    """Where libraries name options and commands, as `MODULE says WHAT`; docstrings explain things to readers."""
    found: list[str] = []
    for module, path in modules.items():
        docstrings = {
            id(node.value)
            for node in nodes(path)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        for node in nodes(path):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in docstrings:
                continue
            argument = module in ARGUMENTS and _OPTION.fullmatch(node.value)
            if module not in PAGES and not argument:
                found += [f"{module} says {word}" for word in named(node.value)]
    return found


Hints = Mapping[str, set[tuple[str, frozenset[str]]]]
"""The words and the names of values of each code."""


def hints(modules: Mapping[str, Path]) -> Hints:
    """All hints that libraries make."""
    found: dict[str, set[tuple[str, frozenset[str]]]] = {}
    for module, path in modules.items():
        for node in nodes(path):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id != "Hint":
                continue
            match node.args:
                case [ast.Constant(value=str(code)), ast.Constant(value=str(words))]:
                    values = frozenset(keyword.arg or "**" for keyword in node.keywords)
                    found.setdefault(code, set()).add((words, values))
                case _:
                    pytest.fail(f"{module}:{node.lineno}: code and words of a hint are to be literal")
    return found


def unlike(made: Hints, worded: Mapping[str, str]) -> list[str]:
    """What does not fit between the hints of libraries and the words of the command line."""
    faults = [f"{code} has no words at the command line" for code in made.keys() - worded.keys()]
    faults += [f"no library gives {code}" for code in worded.keys() - made.keys()]
    for code in made.keys() & worded.keys():
        if len(made[code]) > 1:
            faults.append(f"{code} is not the same everywhere: {sorted(words for words, _ in made[code])}")
        for words, values in made[code]:
            if {*_fields(words), *_fields(worded[code])} != values:
                faults.append(f"{code} tells {sorted(values)}, which is not what its words have")
    return sorted(faults)


def _fields(words: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(words) if name is not None}


def test_libraries_name_no_option_and_no_command() -> None:
    assert terminal_words(sources(*LIBRARIES)) == []


@pytest.mark.parametrize(
    ("code", "word"),
    [
        ("hint = 'Allow more with --timeout-seconds.'", "--timeout-seconds"),
        ("hint = f'Use {this} (--backend docker).'", "--backend"),
        ("hint = 'Name another directory with -o.'", "-o"),
        ("split(item, '--secret-env')", "--secret-env"),
        ("hint = 'docker info says more. Or use --backend process.'", "--backend"),
        ("raise UsageError(f'Run `coworld build {path}`.')", "coworld build"),
        ("field(description='For coworld run-episode.')", "coworld run-episode"),
    ],
)
def test_a_planted_word_of_the_terminal_is_found(code: str, word: str, tmp_path: Path) -> None:
    planted = _written(tmp_path, code)
    assert terminal_words({"coworld_runner.planted": planted}) == [f"coworld_runner.planted says {word}"]


@pytest.mark.parametrize(
    "code",
    [
        "def build():\n    '''Does what `coworld build --platform` does.'''",
        "hint = f'Build it again: docker build --platform {platform} .'",
        "hint = 'Run coworld inside WSL, where coworld shares directories.'",
        "git('branch', '--remotes', '--contains')",
    ],
)
def test_what_comes_close_to_one_is_allowed(code: str, tmp_path: Path) -> None:
    assert terminal_words({"coworld_runner.planted": _written(tmp_path, code)}) == []


def test_exceptions_are_in_use() -> None:
    modules = sources(*LIBRARIES)
    for module in (*PAGES, *ARGUMENTS):
        assert terminal_words({f"{module}.under_another_name": modules[module]}), f"{module} names nothing of ours"


def test_every_hint_has_words_at_the_command_line_with_its_values() -> None:
    made = hints(sources(*LIBRARIES))
    assert len(made) > 80
    assert unlike(made, WORDS) == []


@pytest.mark.parametrize(
    ("code", "worded", "fault"),
    [
        ("Hint('a', 'Pass it.')", {}, "a has no words at the command line"),
        ("", {"a": "Give --it."}, "no library gives a"),
        ("Hint('a', 'Pass it.')", {"a": "Give --it {size}."}, "a tells [], which is not what its words have"),
        ("Hint('a', 'Pass it.', size=3)", {"a": "Give --it."}, "a tells ['size'], which is not what its words have"),
        (
            "Hint('a', 'Pass it.')\nHint('a', 'Pass this.')",
            {"a": "Give --it."},
            "a is not the same everywhere: ['Pass it.', 'Pass this.']",
        ),
    ],
)
def test_a_hint_that_does_not_fit_is_found(code: str, worded: Mapping[str, str], fault: str, tmp_path: Path) -> None:
    assert unlike(hints({"planted": _written(tmp_path, code)}), worded) == [fault]


def test_the_command_line_names_options_and_commands_that_it_has() -> None:
    for code, words in WORDS.items():
        said = [found[0] for found in _OPTION.finditer(words) if not _OF_OTHERS.search(words[: found.start()])]
        assert set(said) <= options(), code
        assert {found["name"] for found in _COMMAND.finditer(words)} <= commands(), code


def _written(directory: Path, code: str) -> Path:
    path = directory / "planted.py"
    path.write_text(code, encoding="utf-8")
    return path
