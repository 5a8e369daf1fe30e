"""The certification as one page: a file that opens anywhere, loads nothing, runs nothing, and prints well.

Everything that came from a manifest, a game or a player is escaped, and what could reorder or hide text is shown as
what it is. How the page looks is in ``templates/certification.html``.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from typing import TYPE_CHECKING

from .record import Certification

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["render_page"]

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
_WORDS = {"pass": "passed", "fail": "failed", "skip": "skipped"}


def render_page(certification: Certification) -> str:
    """The page of a certification, as one HTML document.

    Args:
        certification: The record; nothing in it is trusted.
    """
    answers = Counter(_WORDS.get(step.status, step.status) for step in certification.steps)
    tally = dict.fromkeys(_WORDS.values(), 0) | answers
    return _template().render(
        record=certification,
        words=_WORDS,
        tally=", ".join(f"{count} {word}" for word, count in tally.items() if count),
        scores=", ".join(f"{who} {score:g}" for who, score in certification.standings),
    )


def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("coworld_runner.certification"),
        autoescape=True,
        finalize=_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(moment=_moment, duration=_duration)
    return environment.get_template("certification.html")


def _visible(value: object) -> object:
    """What is filled in, with characters that hide or reorder text shown by their number."""
    from markupsafe import Markup

    if isinstance(value, Markup):
        return value
    return _HIDDEN.sub(lambda match: f"\N{REPLACEMENT CHARACTER}{ord(match[0]):04X}", str(value))


def _moment(moment: dt.datetime | None) -> str:
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if moment is not None else ""


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
