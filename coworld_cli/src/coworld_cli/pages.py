"""The pages of the documentation. It imports nothing of ours: the site is made from them with this file alone."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from importlib.resources.abc import Traversable

__all__ = ["FIRST", "ManualPage", "in_one_file", "page_text", "read_pages"]

FIRST = "index"
"""The page that says which to read for what; pages have its order."""
_NO_TEXT = ("|", "```", "#", "<", "---")
"""How tables, code, headings and comments begin."""
_PICTURE = re.compile(r'<picture>.*? alt="([^"]*)".*?</picture>')


class ManualPage(NamedTuple):
    """A page, in Markdown."""

    name: str
    text: str

    @property
    def title(self) -> str:
        """Its heading."""
        return self.text.split("\n", 1)[0].removeprefix("# ")

    @property
    def summary(self) -> str:
        """The first sentence of the first paragraph, without links and emphasis."""
        blocks = (block for block in self.text.split("\n\n")[1:] if block and not block.startswith(_NO_TEXT))
        plain = re.sub(r"\[([^]]+)\]\([^)]*\)|\*\*([^*]+)\*\*", r"\1\2", " ".join(next(blocks, "").split()))
        return re.split(r"(?<=[.?!])\s", plain, maxsplit=1)[0]


def page_text(name: str, directory: Traversable | None = None) -> str:
    """The text of a page.

    Args:
        name: Its name, without `.md`.
        directory: Where it is; None: it is installed with the command.
    """
    return ((directory or files("coworld_cli") / "docs") / f"{name}.md").read_text(encoding="utf-8")


def read_pages(directory: Traversable | None = None) -> dict[str, ManualPage]:
    """All pages by name, those first that a newcomer reads first.

    What pictures show is said instead of them, since they are not installed.

    Args:
        directory: As for `page_text`.
    """
    there = [Path(file.name) for file in (directory or files("coworld_cli") / "docs").iterdir()]
    known = sorted(file.stem for file in there if file.suffix == ".md")
    led = [name for name in re.findall(r"\(([\w-]+)\.md", page_text(FIRST, directory)) if name in known]
    names = dict.fromkeys([FIRST, *led, *known])
    return {name: ManualPage(name, _PICTURE.sub(r"*Picture: \1.*", page_text(name, directory))) for name in names}


def in_one_file(pages: Iterable[ManualPage]) -> str:
    """Pages as one text; a comment before each has the name by which others link to it."""
    return "\n".join(f"<!-- {page.name}.md -->\n\n{page.text}" for page in pages)
