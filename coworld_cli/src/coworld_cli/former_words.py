"""What words of CoGames, Cogment and the published package are here: the tables of their pages, as hints."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence

from .pages import page_text

__all__ = ["former_word"]

_PAGES = ("from-cogames", "from-the-published-package", "from-cogment")
_ROW = re.compile(r"^\| (?P<there>[^|]*`[^|]*) \| (?P<here>[^|]+) \|", re.MULTILINE)
_CODE = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\[([^]]+)\]\([^)]*\)")


def former_word(typed: Sequence[str], commands: Container[str] = ()) -> str | None:
    """What to use here instead, as a hint; None if no table has the word.

    Args:
        typed: A command with its arguments, an option, or a player.
        commands: The names of commands, which the hint shows as they are typed.
    """
    key, equals, _ = typed[0].partition("=")
    wanted = [" ".join(typed[:2]), typed[0], *[key + equals] * bool(equals)]
    for word in wanted:
        for page in _PAGES:
            text = page_text(page)
            for row in _ROW.finditer(text):
                there, here = _CODE.findall(row["there"]), _LINK.sub(r"\1", row["here"])
                names = there if " " in word else [name.split()[0] for name in there]
                # An option that has the same name here is not taken by this command
                if word in names and not here.startswith((f"`{word}`", f"`{word} ")):
                    whose = text.split("\n", 1)[0].removeprefix("# From ")
                    told = _CODE.sub(lambda code: _as_typed(code[1], commands), here)
                    return f"`{word}` of {whose} is here: {told}. See `coworld docs {page}`."
    return None


def _as_typed(code: str, commands: Container[str]) -> str:
    return f"`coworld {code}`" if code.split()[0] in commands else f"`{code}`"
