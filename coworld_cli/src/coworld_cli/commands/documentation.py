"""The documentation, which is installed with the command."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from .. import exitcodes
from .._group import NounGroup
from ..output import Output, output_options, published_option
from ..pages import FIRST, ManualPage, in_one_file, read_pages
from ..render.markdown import show_markdown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["commands"]

commands = NounGroup()

_LATER = "In depth"
"""Heading of the first page for what can be read later."""


def _asked(name: str, known: Mapping[str, ManualPage]) -> ManualPage:
    """The page with this name, which may be written as in a link: `evaluation.md#headings`.

    Raises:
        click.UsageError: There is none.
    """
    from coworld_core.text import closest

    bare = name.split("#")[0].rsplit("/", 1)[-1].removesuffix(".md").lower()
    if bare in known:
        return known[bare]
    meant = next((page for page in known if len(bare) > 2 and bare in page), closest(bare, known, cutoff=0.5))
    question = f" Did you mean {meant!r}?" if meant else " `coworld docs` lists all pages."
    raise click.UsageError(f"There is no page {name!r}.{question}", click.get_current_context())


def _complete(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in read_pages() if name.startswith(incomplete)]


@commands.command("docs")
@click.argument("page", required=False, metavar="[PAGE]", shell_complete=_complete)
@click.option("--search", metavar="WORD", help="List the lines that contain this, in PAGE or in all pages.")
@click.option("--all", "whole", is_flag=True, help="Print all pages as one file, for a model's prompt, say.")
@published_option("--local", says="pages are always those of this installation.", is_flag=True)
@published_option("--skill", says="`coworld docs` lists what there is to read.", is_flag=True)
@output_options
def docs(out: Output, page: str | None, search: str | None, whole: bool) -> int:
    """Read the documentation, without a network.

    Without PAGE, lists the pages. On a terminal a page is formatted, and shown by your PAGER; elsewhere it is printed
    as it is, in Markdown.
    """
    known = read_pages()
    pages = list(known.values())
    if whole:
        if page is not None or search is not None:
            raise click.UsageError("--all prints every page as it is.", click.get_current_context())
        out.answer({"pages": [{"page": one.name, "title": one.title, "text": one.text} for one in pages]})
        out.say((text := in_one_file(pages)).rstrip("\n"))
        size = len(text.encode())
        out.note(f"{len(pages)} pages, {size // 1000} kB: about {size // 4000},000 tokens.")
        return exitcodes.OK
    if search is not None:
        return _search(search, [_asked(page, known)] if page is not None else pages, out)
    if page is not None:
        asked = _asked(page, known)
        out.answer({"page": asked.name, "title": asked.title, "text": asked.text})
        show_markdown(asked.text, out)
        return exitcodes.OK
    out.answer({"pages": [{"page": one.name, "title": one.title, "summary": one.summary} for one in pages]})
    width = max(len(one.name) for one in pages)
    begin = known[FIRST].text.partition(f"\n## {_LATER}\n")[0]
    later = next((one for one in pages[1:] if f"({one.name}.md" not in begin), None)
    for one in pages:
        if one is later:
            out.say(f"\n{_LATER}:")
        out.say(_shortened(f"{one.name:<{width}}  {one.summary}"))
    out.note("\ncoworld docs PAGE shows one, coworld docs --search WORD finds a word in all.")
    return exitcodes.OK


def _search(word: str, pages: list[ManualPage], out: Output) -> int:
    found = [(page.name, number, line) for page in pages for number, line in _lines_with(word, page.text)]
    out.answer({"found": [{"page": page, "line": number, "text": line} for page, number, line in found]})
    for page, number, line in found:
        out.say(_shortened(f"{page}:{number}: {line}"))
    if not found:
        out.note(f"No line contains {word!r}.")
    return exitcodes.OK if found else exitcodes.ANSWER_IS_NO


def _lines_with(word: str, text: str) -> Iterator[tuple[int, str]]:
    """Lines that contain a word in any case, with their numbers, from 1."""
    for number, line in enumerate(text.splitlines(), 1):
        if word.casefold() in line.casefold():
            yield number, line.strip()


def _shortened(line: str) -> str:
    """A line that fits the terminal, if it is written to one."""
    from shutil import get_terminal_size

    room = get_terminal_size().columns
    return line if not sys.stdout.isatty() or len(line) <= room else f"{line[: room - 1]}…"
