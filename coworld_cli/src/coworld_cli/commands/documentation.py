"""The documentation, which is installed with the command."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, NamedTuple

import click

from .. import exitcodes
from .._group import NounGroup
from ..former_words import page_text
from ..output import Output, output_options, published_option
from ..render.markdown import show_markdown

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["all_pages", "commands"]

commands = NounGroup()

_FIRST = "index"
"""The page that says which to read for what; the list has its order, and its heading for what can be read later."""
_LATER = "In depth"
_NO_TEXT = ("|", "```", "#", "<")
"""How tables, code, headings and comments begin."""
_PICTURE = re.compile(r'<picture>.*? alt="([^"]*)".*?</picture>')


class _Page(NamedTuple):
    name: str
    text: str

    @property
    def title(self) -> str:
        return self.text.split("\n", 1)[0].removeprefix("# ")

    @property
    def summary(self) -> str:
        """The first sentence of the first paragraph, without links and emphasis."""
        blocks = (block for block in self.text.split("\n\n")[1:] if block and not block.startswith(_NO_TEXT))
        plain = re.sub(r"\[([^]]+)\]\([^)]*\)|\*\*([^*]+)\*\*", r"\1\2", " ".join(next(blocks, "").split()))
        return re.split(r"(?<=[.?!])\s", plain, maxsplit=1)[0]


def _names() -> list[str]:
    """The names of all pages, those first that a newcomer reads first."""
    from importlib.resources import files

    there = (file.name for file in (files("coworld_cli") / "docs").iterdir())
    known = sorted(name.removesuffix(".md") for name in there if name.endswith(".md"))
    led = [name for name in re.findall(r"\(([\w-]+)\.md", _page(_FIRST).text) if name in known]
    return list(dict.fromkeys([_FIRST, *led, *known]))


def _page(name: str) -> _Page:
    # Pictures are not installed: what they show is said instead.
    return _Page(name, _PICTURE.sub(r"*Picture: \1.*", page_text(name)))


def all_pages() -> dict[str, str]:
    """The pages by name, in Markdown, those first that a newcomer reads first."""
    return {name: _page(name).text for name in _names()}


def _asked(name: str) -> _Page:
    """The page with this name, which may be written as in a link: `evaluation.md#headings`.

    Raises:
        click.UsageError: There is none.
    """
    from coworld_core.text import closest

    known = _names()
    bare = name.split("#")[0].rsplit("/", 1)[-1].removesuffix(".md").lower()
    if bare in known:
        return _page(bare)
    meant = next((page for page in known if len(bare) > 2 and bare in page), closest(bare, known, cutoff=0.5))
    question = f" Did you mean {meant!r}?" if meant else " `coworld docs` lists all pages."
    raise click.UsageError(f"There is no page {name!r}.{question}", click.get_current_context())


def _complete(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in _names() if name.startswith(incomplete)]


@commands.command("docs")
@click.argument("page", required=False, metavar="[PAGE]", shell_complete=_complete)
@click.option("--search", metavar="WORD", help="List the lines that contain this, in PAGE or in all pages.")
@published_option("--local", says="pages are always those of this installation.", is_flag=True)
@published_option("--skill", says="`coworld docs` lists what there is to read.", is_flag=True)
@output_options
def docs(out: Output, page: str | None, search: str | None) -> int:
    """Read the documentation, without a network.

    Without PAGE, lists the pages. On a terminal a page is formatted, and shown by your PAGER; elsewhere it is printed
    as it is, in Markdown.
    """
    if search is not None:
        return _search(search, [_asked(page)] if page is not None else [_page(name) for name in _names()], out)
    if page is not None:
        asked = _asked(page)
        out.answer({"page": asked.name, "title": asked.title, "text": asked.text})
        show_markdown(asked.text, out)
        return exitcodes.OK
    pages = [_page(name) for name in _names()]
    out.answer({"pages": [{"page": one.name, "title": one.title, "summary": one.summary} for one in pages]})
    width = max(len(one.name) for one in pages)
    begin = _page(_FIRST).text.partition(f"\n## {_LATER}\n")[0]
    later = next((one for one in pages[1:] if f"({one.name}.md" not in begin), None)
    for one in pages:
        if one is later:
            out.say(f"\n{_LATER}:")
        out.say(_shortened(f"{one.name:<{width}}  {one.summary}"))
    out.note("\ncoworld docs PAGE shows one, coworld docs --search WORD finds a word in all.")
    return exitcodes.OK


def _search(word: str, pages: list[_Page], out: Output) -> int:
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
